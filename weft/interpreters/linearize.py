"""Linearization: evaluates a function once and records the linear jaxpr of its derivative.

Each primitive's rule runs once, under a trace that tells operations apart by their operands: one
with a tangent is recorded into the linear jaxpr, the others are computed by the parent at once. A
jvp rule is thereby a linearization rule as well; nothing is traced twice and nothing needs partial
evaluation. The values that the linear jaxpr reads are its residuals. See
Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (POPL 2023).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft.base import source as sources
from weft.base.util import Flags, keep_marked
from weft.core import rules
from weft.core.check import checked, result_types
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, check_marks, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import Zero
from weft.core.trace import (
    Trace,
    check_leaks,
    current_trace,
    function_as_parameter,
    running,
    using_trace,
)
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftTypeError
from weft.interpreters.jvp import DualTrace, DualTracer, nonzero_tangents
from weft.interpreters.partial_eval import dce_equations
from weft.interpreters.staging import StagingTrace, StagingTracer
from weft.ops.structural.constants import inline_consts
from weft.ops.structural.tangents import instantiate


class _RuleTrace(Trace):
    """The trace of rules: records operations on tangents, passes on the others."""

    __slots__ = ("linear",)

    parent: Trace

    def __init__(self, parent: Trace, linear: StagingTrace) -> None:
        super().__init__(parent, "linearize", linear.function)
        self.linear = linear

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        linear = self.linear
        for value in args:
            if type(value) is StagingTracer and value._trace is linear:
                return self.record(primitive, args, params)
        return self.parent.process_primitive(primitive, args, params)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        return self.linear.process_primitive(primitive, args, params)

    def finish(self) -> None:
        super().finish()
        self.linear.finish()

    process_call = function_as_parameter


class UserRuleTrace(_RuleTrace):
    """The trace of a user's rule. Such a rule may apply a primitive that holds jaxprs to primals
    and tangents together (a jitted rule does): the part of primals alone runs at once, the rest is
    recorded. weft's own rules bind linear jaxprs, which need no splitting."""

    __slots__ = ()

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        linear = self.linear
        if primitive not in rules.partial_eval:
            return linear.process_primitive(primitive, args, params)
        unknown = [type(x) is StagingTracer and x._trace is linear for x in args]
        inputs = [Var(type_of(x)) for x in args]
        outputs = [Var(t) for t in result_types(primitive, tuple(v.type for v in inputs), params)]
        eqn = Equation(primitive, inputs, params, outputs, sources.current())
        found = rules.partial_eval[primitive](eqn, unknown)
        env: dict[Any, Any] = dict(zip(inputs, args, strict=True))
        known = [*found.before, *([] if found.known is None else [found.known])]
        later = [] if found.unknown is None else [found.unknown]
        for trace, eqns in ((self.parent, known), (linear, later)):
            for part in eqns:
                values = [x.value if isinstance(x, Literal) else env[x] for x in part.inputs]
                outs = trace.process_primitive(part.primitive, values, part.params)
                env.update(zip(part.outputs, outs, strict=True))
        return [env[v] for v in outputs]


def user_rule() -> Any:
    """A context manager for running a user's rule, which `linearize` may have called."""
    trace = current_trace()
    if type(trace) is _RuleTrace:
        return using_trace(UserRuleTrace(trace.parent, trace.linear))
    return contextlib.nullcontext()


class LinearizeTrace(DualTrace):
    """Evaluates under the parent and records tangents into `linear`."""

    __slots__ = ("linear",)

    def __init__(self, parent: Trace, linear: StagingTrace, function: str = "") -> None:
        super().__init__(parent, linear.name, function)
        self.linear = linear
        self.around_rules = _RuleTrace(parent, linear)

    def rule(self, primitive: Primitive) -> Any:
        return rules.linearize.get(primitive) or rules.jvp[primitive]

    def check_primals(self, primitive: Primitive, outs: Sequence[Any]) -> None:
        """Raises WeftTypeError if a user's rule made a result depend on tangents."""
        for value in outs:
            if type(value) is StagingTracer and value._trace is self.linear:
                raise WeftTypeError(
                    f"a result of a rule for {primitive.name} depends on tangents",
                    operation=primitive.name,
                    got=f"a result of type {value.type}, made at {sources.describe(value.created)}",
                    wanted="results computed from primals only; tangents may depend on both",
                    fix=Fix("separate", "compute the result without the tangents"),
                )

    def finish(self) -> None:
        super().finish()
        self.linear.finish()


def share_captured(trace: Trace | None, linear: StagingTrace) -> None:
    """Lets a linear jaxpr share copied NumPy arrays, as one constant, with the one around it."""
    while trace is not None:
        if isinstance(trace, StagingTrace):
            linear.captured = trace.captured
            return
        trace = trace.parent


@check_leaks
def linearize_flat(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool],
    transformation: str,
    name: str = "",
) -> tuple[list[Any], list[Any], StagingTrace]:
    """Evaluates a function of flat lists, recording the derivative in the inputs marked active.

    Returns the results, their tangents (variables of the linear jaxpr, or `Zero`) and the trace
    that holds the linear jaxpr; its inputs are the tangents of the active inputs.
    """
    linear = StagingTrace(None, transformation, name)
    linear.linear = True
    trace = LinearizeTrace(current_trace(), linear, name)
    share_captured(trace.parent, linear)
    created = sources.current()
    inputs = [
        DualTracer(trace, x, linear.new_input(type_of(x).tangent(), created), created)
        if flag
        else x
        for x, flag in zip(primals, active, strict=True)
    ]
    with running(trace):
        outs = function(*inputs)
    pairs = [trace.unbox(out) for out in outs]
    return [x for x, _ in pairs], [t for _, t in pairs], linear


def linear_program(
    linear: StagingTrace, tangents: Sequence[Any]
) -> tuple[Jaxpr, list[Any], list[bool]]:
    """The recorded linear jaxpr without dead equations, its residuals, which tangents it has.

    Args:
        linear: The trace that recorded the linear operations.
        tangents: The results: variables of the linear jaxpr, or `Zero`.
    """
    nonzero, given = nonzero_tangents(tangents)
    inputs, eqns, outputs, residuals = _prune_linear(linear, given)
    jaxpr = checked(Jaxpr(inputs, eqns, outputs, len(residuals), linear.function))
    return jaxpr, residuals, list(nonzero)


def _prune_linear(
    linear: StagingTrace, tangents: Sequence[Any]
) -> tuple[list[Var], list[Equation], list[Atom], list[Any]]:
    """The parts of the linear jaxpr that compute these tangents: its inputs, equations and outputs;
    and the residuals, the values of its first inputs."""
    outputs = [linear.atom(t) for t in tangents]
    eqns, read = dce_equations(linear.eqns, outputs)
    residuals = [(var, value) for var, value in linear.consts.values() if var in read]
    inputs = [var for var, _ in residuals] + linear.inputs
    return inputs, eqns, outputs, [value for _, value in residuals]


def record_linear(
    function: Callable[..., Sequence[Any]],
    in_types: Sequence[ArrayType],
    transformation: str,
    name: str = "",
) -> tuple[list[Any], StagingTrace]:
    """Runs a function that is linear in its inputs: operations on these are recorded, the others
    computed. Returns the results and the trace that holds the linear jaxpr.

    Args:
        in_types: The types of the inputs.
    """
    linear = StagingTrace(None, transformation, name)
    linear.linear = True
    trace = _RuleTrace(current_trace(), linear)
    inputs = [linear.new_input(type) for type in in_types]
    with running(trace):
        return list(function(*inputs)), linear


@dataclasses.dataclass(frozen=True)
class Linearized:
    """A jaxpr split in two: `primal` computes results and residuals, `linear` the tangents.

    `linear` takes the residuals, then the tangents of the inputs marked nonzero, and computes the
    tangents of the results marked in `nonzero_out`. Each of `residual_sources` is ("input", i),
    ("output", i) for the i-th result, or ("extra", i) for a further output of `primal`.
    """

    primal: Jaxpr
    linear: Jaxpr
    nonzero_out: tuple[bool, ...]
    residual_sources: list[tuple[str, int]]
    num_outputs: int

    def residuals(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """The residuals, picked from the inputs and the outputs of `primal`."""
        offset = {"output": 0, "extra": self.num_outputs}
        return [
            inputs[i] if kind == "input" else outputs[offset[kind] + i]
            for kind, i in self.residual_sources
        ]


def linearize_jaxpr(
    jaxpr: Jaxpr, nonzero: tuple[bool, ...], instantiate_out: tuple[bool, ...] | None = None
) -> Linearized:
    """Linearizes a jaxpr in the inputs marked `nonzero`.

    The tangents of results marked in `instantiate_out` are computed even where they are zero.

    Args:
        nonzero: Which inputs have tangents.
    """
    return jaxpr.memoize(
        ("linearize", nonzero, instantiate_out),
        lambda: _linearize_jaxpr(jaxpr, nonzero, instantiate_out),
    )


def _linearize_jaxpr(jaxpr: Jaxpr, nonzero: Flags, instantiate_out: Flags | None) -> Linearized:
    check_marks("linearize_jaxpr", "input", nonzero, len(jaxpr.inputs))
    primal = StagingTrace(None, "linearize", jaxpr.name)
    inputs = [primal.new_input(type) for type in jaxpr.in_types]
    with using_trace(primal), sources.new_program():
        outs, tangents, linear = linearize_flat(
            lambda *xs: eval_jaxpr(jaxpr, (), *xs), inputs, nonzero, "linearize", jaxpr.name
        )
    pairs = zip(instantiate_out or (False,) * len(outs), tangents, strict=True)
    nonzero_out = tuple(want or type(t) is not Zero for want, t in pairs)
    with using_trace(linear):
        kept = [instantiate(t) for t in keep_marked(nonzero_out, tangents)]
    linear_inputs, eqns, outputs, residuals = _prune_linear(linear, kept)
    linear_jaxpr = checked(Jaxpr(linear_inputs, eqns, outputs, 0, jaxpr.name))
    out_atoms = [primal.atom(out) for out in outs]
    position: dict[Any, tuple[str, int]] = {
        atom: ("output", i) for i, atom in enumerate(out_atoms) if not isinstance(atom, Literal)
    }
    position |= {tracer._var: ("input", i) for i, tracer in enumerate(inputs)}
    extra: list[Any] = []
    sources_of: list[tuple[str, int]] = []
    for atom in map(primal.atom, residuals):
        if atom not in position:
            position[atom] = ("extra", len(extra))
            extra.append(atom)
        sources_of.append(position[atom])
    primal_jaxpr, consts = primal.build(out_atoms + extra, jaxpr.name)
    primal_jaxpr = inline_consts(primal_jaxpr, consts)
    return Linearized(primal_jaxpr, linear_jaxpr, nonzero_out, sources_of, len(outs))
