"""Forward-mode differentiation: values travel together with their tangents.

A `DualTracer` pairs a primal with a tangent. A primitive none of whose operands has a tangent goes
straight to the parent, and results whose tangent is a symbolic zero come back unboxed, so that only
the differentiated part of a function pays.

At the end stand functions for lists of tangents, cotangents and operands of which some are
symbolic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.base import source as sources
from weft.base.util import Flags, keep_marked, one_each, scatter_to_marked
from weft.core import rules
from weft.core.jaxpr import Jaxpr, check_marks, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import LinearOperand, Types, Zero
from weft.core.trace import (
    Trace,
    Tracer,
    check_alive,
    check_leaks,
    current_trace,
    function_as_parameter,
    reset_current,
    running,
    set_current,
)
from weft.core.types import type_of
from weft.interpreters.staging import rebuild
from weft.ops.structural.tangents import add_tangents, instantiate

__all__ = [
    "DualTrace", "DualTracer", "JVPTrace", "add_tangents", "instantiate", "jvp_flat", "jvp_jaxpr",
]  # fmt: skip


def nonzero_tangents(tangents: Iterable[Any]) -> tuple[Flags, list[Any]]:
    """Which tangents (or cotangents) are not a `Zero`, and these."""
    flags = tuple([type(t) is not Zero for t in tangents])
    return flags, [t for t in tangents if type(t) is not Zero]


def known_operands(operands: Sequence[Any]) -> tuple[Flags, list[Any]]:
    """Which operands of a transpose rule are linear, and the values of the others."""
    linear = tuple([type(x) is LinearOperand for x in operands])
    return linear, [x for x in operands if type(x) is not LinearOperand]


def merge_zeros(flags: Sequence[bool], values: Iterable[Any], types: Types) -> list[Any]:
    """The next value where a flag is set, a `Zero` of the type's tangent elsewhere."""
    given = iter(values)
    pairs = zip(flags, types, strict=True)
    return [next(given) if flag else Zero(type.tangent()) for flag, type in pairs]


def merge_cotangents(
    linear: Sequence[bool], reached: Sequence[bool], outs: Iterable[Any]
) -> list[Any]:
    """The cotangents of all operands: None unless linear and reached."""
    return scatter_to_marked(linear, scatter_to_marked(reached, outs))


class DualTracer(Tracer):
    """A primal, known to the trace's parent, and its tangent: a value or, for `linearize`, a
    variable of the linear jaxpr.

    primal: the value; tangent: of type `primal.type.tangent()`, or a `Zero`; created: the user's
    line that made it; None if not known.
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Trace, primal: Any, tangent: Any, created: Any) -> None:
        self._trace = trace
        self.primal = primal
        self.tangent = tangent
        self.type = type_of(primal)
        self.created = created

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal

    def unknown(self) -> Tracer:
        return self.primal.unknown() if isinstance(self.primal, Tracer) else self

    def __repr__(self) -> str:
        return f"{super().__repr__()} of {self.primal!r}"


class DualTrace(Trace):
    """Applies each primitive's `rule` for primals and tangents, under `around_rules`."""

    __slots__ = ("around_rules",)

    parent: Trace
    around_rules: Trace
    rule: Callable[[Any], Any]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        primals, tangents, active = [], [], False
        for value in args:
            if type(value) is DualTracer and value._trace is self:
                primals.append(value.primal)
                tangents.append(value.tangent)
                active = True
            else:
                primals.append(value)
                tangents.append(None)
        if not active:
            return self.parent.process_primitive(primitive, args, params)
        for i, tangent in enumerate(tangents):
            if tangent is None:
                tangents[i] = Zero(type_of(primals[i]).tangent())
        rule = self.rule(primitive)
        token = set_current(self.around_rules)
        try:
            outs, tangents_out = rule(primals, tangents, **params)
        finally:
            reset_current(token)
        if primitive.multiple_results:
            if not primitive.memoise:
                self.check_primals(primitive, outs)
            return [self.box(x, t) for x, t in zip(outs, tangents_out, strict=True)]
        return self.box(outs, tangents_out)

    def check_primals(self, primitive: Primitive, outs: Sequence[Any]) -> None:
        """Raises if a user's rule gave a result that is not a primal."""

    process_call = function_as_parameter

    def box(self, primal: Any, tangent: Any) -> Any:
        """A tracer, or the primal itself if the tangent is zero."""
        if type(tangent) is Zero:
            return primal
        return DualTracer(self, primal, tangent, sources.current())

    def unbox(self, value: Any) -> tuple[Any, Any]:
        """Primal and tangent of any value."""
        if type(value) is DualTracer and value._trace is self:
            return value.primal, value.tangent
        check_alive(value)
        return value, Zero(type_of(value).tangent())


class JVPTrace(DualTrace):
    """Applies jvp rules; the rules themselves run under the parent."""

    __slots__ = ()

    rule = rules.jvp.__getitem__

    def __init__(self, parent: Trace, function: str) -> None:
        super().__init__(parent, "jvp", function)
        self.around_rules = parent


@check_leaks
def jvp_flat(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    name: str = "",
) -> tuple[list[Any], list[Any]]:
    """Results and tangents (which may be `Zero`) of a function of flat lists."""
    trace = JVPTrace(current_trace(), name)
    inputs = [trace.box(x, t) for x, t in zip(primals, tangents, strict=True)]
    with running(trace):
        outs = function(*inputs)
    pairs = [trace.unbox(out) for out in outs]
    return [x for x, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], instantiate_out: tuple[bool, ...] | bool = False
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr of the derivative, and which results have tangents.

    It takes the inputs, then the tangents of the inputs marked `nonzero`. It computes the results,
    then the tangents of those marked: the nonzero ones, and those that `instantiate_out` asks for.

    Args:
        nonzero: Which inputs have tangents.
        instantiate_out: Which tangents of results are computed even where they are zero.

    >>> from weft.extend.interpreters import ad
    >>> jaxpr = weft.make_jaxpr(lambda x, y: lax.sin(x) * y)(1.0, 2.0).jaxpr
    >>> derivative, nonzero = ad.jvp_jaxpr(jaxpr, (True, False))
    >>> nonzero, derivative.in_types
    ((True,), [f32[]~, f32[]~, f32[]~])
    """

    def make() -> tuple[Jaxpr, tuple[bool, ...]]:
        check_marks("jvp_jaxpr", "input", nonzero, len(jaxpr.inputs))
        nonzero_out: list[bool] = []

        def function(*values: Any) -> list[Any]:
            n = len(nonzero)
            primals, tangents = values[:n], merge_zeros(nonzero, values[n:], jaxpr.in_types)
            outs, tangents_out = jvp_flat(
                lambda *xs: eval_jaxpr(jaxpr, (), *xs), primals, tangents, jaxpr.name
            )
            pairs = zip(one_each(instantiate_out, len(outs)), tangents_out, strict=True)
            nonzero_out[:] = [want or type(t) is not Zero for want, t in pairs]
            return [*outs, *map(instantiate, keep_marked(nonzero_out, tangents_out))]

        types = jaxpr.in_types + [t.tangent() for t in keep_marked(nonzero, jaxpr.in_types)]
        return rebuild(function, types, jaxpr.name, "jvp"), tuple(nonzero_out)

    return jaxpr.memoize(("jvp", nonzero, instantiate_out), make)
