"""Finds the operation or operand that made a value vary along a mesh axis, for messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.base import source as sources
from weft.core.jaxpr import Equation, Var
from weft.core.trace import Tracer
from weft.interpreters.staging import StagingTracer
from weft.ops.collectives.all_reduce import pbroadcast_p


class Cause(NamedTuple):
    """The cause of variation along an axis: an operation's line, or an operand's spec."""

    operation: str | None
    source: sources.Source | None = None
    operand: int | None = None

    def sentence(self, axis: str, names: Sequence[str]) -> str:
        """The cause as a sentence; `names` are those of the operands."""
        if self.operation is None:
            return _split_operand(self.operand, axis, names)
        where = sources.describe(self.source)
        return f"it varies along {axis!r} since {self.operation} at {where}"


def _split_operand(number: int | None, axis: str, names: Sequence[str]) -> str:
    known = number is not None and number < len(names)
    which = names[number] if known else "an argument"  # type: ignore[index]
    return f"it depends on {which}, which in_specs split over {axis!r}"


def why_varies(value: Any, axis: str, names: Sequence[str] = ()) -> str:
    """A sentence with the line where a value came to vary along an axis. `names` are those of the
    shard_map's operands."""
    made = value.created if isinstance(value, Tracer) else None
    last = f"the value was made at {sources.describe(made)}" if made is not None else ""
    while isinstance(value, Tracer):
        if isinstance(value, StagingTracer):
            return "; ".join(filter(None, (last, _recorded_cause(value, axis, names))))
        causes = getattr(value, "causes", None)
        if causes is not None:
            cause = causes.get(axis)
            return "; ".join(filter(None, (last, cause.sentence(axis, names) if cause else "")))
        # A tracer of another transformation, around the one with the causes.
        inner = getattr(value, "primal", None)
        value = inner if inner is not None else getattr(value, "value", None)
    return last


def _is_cast(eqn: Equation | None, axis: str) -> bool:
    return eqn is not None and eqn.primitive is pbroadcast_p and axis in eqn.params["axis_name"]


def _recorded_cause(tracer: StagingTracer, axis: str, names: Sequence[str]) -> str:
    """That sentence, from the equations of the jaxpr being recorded."""
    trace = tracer._trace
    made = {var: eqn for eqn in trace.eqns for var in eqn.outputs}
    var: Any = tracer._var
    while var in made:
        eqn = made[var]
        before = [x for x in eqn.inputs if type(x) is Var and axis in x.type.varying]
        if not before:
            where = sources.describe(eqn.source)
            return f"it varies along {axis!r} since {eqn.primitive.name} at {where}"
        # A cast is there because of another operand, which is the cause.
        own = [x for x in before if not _is_cast(made.get(x), axis)]
        var = (own or before)[0]
    if var in trace.inputs:
        return _split_operand(trace.inputs.index(var), axis, names)
    return f"it depends on a value from outside that varies along {axis!r}"
