"""Evaluating the part of a function whose operands are known, under the names of
`jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from weft.base import source as sources
from weft.base.util import keep_marked, one_each
from weft.core.jaxpr import ClosedJaxpr, Equation, Jaxpr
from weft.core.trace import current_trace, running
from weft.core.types import ArrayType, type_of
from weft.define.for_jax.flat_functions import shaped_abstractify
from weft.interpreters.linearize import UserRuleTrace, share_captured
from weft.interpreters.partial_eval import dce_jaxpr
from weft.interpreters.staging import StagingTrace, StagingTracer, trace_to_jaxpr

__all__ = [
    "DynamicJaxprTracer", "JaxprTracer", "PartialVal", "Val", "dce_jaxpr_call_rule",
    "dce_jaxpr_closed_call_rule", "dce_jaxpr_consts", "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_nounits", "with_instantiated_inputs",
]  # fmt: skip

Val: TypeAlias = Any
DynamicJaxprTracer = JaxprTracer = StagingTracer


class PartialVal(tuple[Any, Any]):
    """A value that is known, `(None, value)`, or of which the type is, `(type, None)`.

    Args:
        xs: The pair (None, value) or (type, None).

    >>> from weft.extend.interpreters import partial_eval as pe
    >>> pe.PartialVal.known(1.0).is_known(), pe.PartialVal.unknown(weft.typeof(1.0)).get_aval()
    (True, f32[]~)
    """

    __slots__ = ()

    def __new__(cls, xs: tuple[Any, Any]) -> PartialVal:
        return tuple.__new__(cls, xs)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A value that is known."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: ArrayType) -> PartialVal:
        """A value of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value if it is known, otherwise None."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> ArrayType:
        """The type."""
        return type_of(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluates what depends on known values only, and records the rest.

    Takes a function of flat lists and a `PartialVal` for each argument. Gives the jaxpr of what is
    left, a `PartialVal` for each result, and the values of the jaxpr's first inputs; the others are
    the unknown arguments, its results the unknown ones. A result marked in `instantiate` is
    recorded though it is known.

    Args:
        fun: A function from a list of values to a list of values.
        pvals: What is known of each argument.
        instantiate: Which results are recorded even where they are known; True for all.

    >>> from weft.extend import linear_util as lu
    >>> from weft.extend.interpreters import partial_eval as pe
    >>> fun = lu.wrap_init(lambda x, y: [lax.sin(x), lax.cos(y)])
    >>> pvals = [pe.PartialVal.known(0.0), pe.PartialVal.unknown(weft.typeof(0.0))]
    >>> jaxpr, (known, unknown), consts = pe.trace_to_jaxpr_nounits(fun, pvals)
    >>> known.get_known(), unknown.is_known(), [eqn.primitive for eqn in jaxpr.eqns]
    (Array(0., dtype=float32, weak_type=True), False, [cos])
    """
    name = getattr(fun, "__name__", "")
    later = StagingTrace(None, "partial_eval", name)
    trace = UserRuleTrace(current_trace(), later)
    share_captured(trace.parent, later)
    created = sources.current()
    inputs = [
        value if of is None else later.new_input(shaped_abstractify(of), created)
        for of, value in pvals
    ]
    with running(trace):
        outs = list(getattr(fun, "call_wrapped", fun)(*inputs))
    found: list[PartialVal] = []
    atoms = []
    for out, wanted in zip(outs, one_each(instantiate, len(outs)), strict=True):
        recorded = type(out) is StagingTracer and out._trace is later
        if recorded or wanted:
            atoms.append(later.atom(out))
            found.append(PartialVal.unknown(type_of(out)))
        else:
            found.append(PartialVal.known(out))
    jaxpr, consts = later.build(atoms, name)
    return jaxpr, found, consts


def trace_to_jaxpr_dynamic(
    fun: Any,
    in_avals: Sequence[ArrayType],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[ArrayType], list[Any]]:
    """The jaxpr of a function of flat lists for arguments of these types, the types of its results,
    and the values of its first inputs, for arrays that the function closes over.

    Args:
        fun: A function from a list of values to a list of values.
        in_avals: The types of the arguments.
        keep_inputs: Which arguments the jaxpr takes; None for all.
        lower: Has no meaning: nothing is lowered here.
        auto_dce: Has no meaning: all equations are recorded.
    """
    name = getattr(fun, "__name__", "")
    types = [shaped_abstractify(of) for of in in_avals]
    function = getattr(fun, "call_wrapped", fun)
    jaxpr, consts = trace_to_jaxpr(function, types, transformation="jit", name=name)
    if keep_inputs is not None:
        jaxpr = jaxpr.replace(invars=keep_marked(keep_inputs, jaxpr.invars))
    return jaxpr, jaxpr.out_types, consts


def with_instantiated_inputs(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr without what computes only unused results, and which arguments it still takes:
    those that are read, and those marked in `instantiate`. Closed-over inputs stay.

    Args:
        used_outputs: Which results are used; True for all.
        instantiate: Which arguments stay though nothing reads them; True for all.

    >>> from weft.extend.interpreters import partial_eval as pe
    >>> jaxpr = weft.make_jaxpr(lambda x, y: (lax.sin(x), lax.cos(y)))(1.0, 2.0).jaxpr
    >>> smaller, taken = pe.with_instantiated_inputs(jaxpr, [True, False])
    >>> taken, len(smaller.eqns)
    ([True, False], 1)
    """
    used = tuple(one_each(_flags(used_outputs), len(jaxpr.outputs)))
    smaller, reads = dce_jaxpr(jaxpr, used, True)
    wanted = one_each(_flags(instantiate), len(jaxpr.invars))
    taken = [bool(r or w) for r, w in zip(reads[jaxpr.num_consts :], wanted, strict=True)]
    return smaller.replace(invars=keep_marked(taken, smaller.invars)), taken


def _flags(marks: bool | Sequence[bool]) -> Any:
    return marks if isinstance(marks, bool) else tuple(map(bool, marks))


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """As `with_instantiated_inputs`, without the closed-over inputs that nothing reads; also which
    of these are left.

    Args:
        used_outputs: Which results are used.
        instantiate: Which arguments stay though nothing reads them; True for all.
    """
    smaller, taken = with_instantiated_inputs(jaxpr, used_outputs, instantiate)
    read = {atom for eqn in smaller.eqns for atom in eqn.inputs} | set(smaller.outputs)
    kept = [var in read for var in smaller.constvars]
    return smaller.replace(constvars=keep_marked(kept, smaller.constvars)), kept, taken


def _smaller_call(
    used_outputs: Sequence[bool], eqn: Equation, closed: bool
) -> tuple[list[bool], Equation | None]:
    if not any(used_outputs) and not eqn.effects:
        return [False] * len(eqn.inputs), None
    held = eqn.params["call_jaxpr"]
    smaller, taken = with_instantiated_inputs(held.jaxpr, used_outputs)
    params = eqn.params | {"call_jaxpr": ClosedJaxpr(smaller, held.consts) if closed else smaller}
    outputs = keep_marked(used_outputs, eqn.outputs)
    return taken, eqn.replace(inputs=keep_marked(taken, eqn.inputs), outputs=outputs, params=params)


def dce_jaxpr_call_rule(
    used_outputs: Sequence[bool], eqn: Equation
) -> tuple[list[bool], Equation | None]:
    """The rule for dead code of a primitive that calls the jaxpr `call_jaxpr`."""
    return _smaller_call(used_outputs, eqn, closed=False)


def dce_jaxpr_closed_call_rule(
    used_outputs: Sequence[bool], eqn: Equation
) -> tuple[list[bool], Equation | None]:
    """The rule for dead code of a primitive that calls the closed jaxpr `call_jaxpr`."""
    return _smaller_call(
        used_outputs, eqn, closed=isinstance(eqn.params["call_jaxpr"], ClosedJaxpr)
    )
