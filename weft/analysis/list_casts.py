"""Lists the casts of a function: where values that are equal on all devices are used with values
that differ. Each costs nothing forwards, and is a sum between devices in reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.analysis.occurrences import Occurrence, occurrences
from weft.api.jit import make_jaxpr
from weft.base import source as sources
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.types import ArrayType
from weft.ops.collectives.all_reduce import pbroadcast_p


class Cast(NamedTuple):
    """A cast of a value of `type` to one that varies along `axes` too. `needed_by` names the first
    operation that uses it, `line` is the user's line of that.

    Args:
        type: The type of the value before the cast.
        axes: The mesh axes along which it may vary afterwards.
        needed_by: The name of the first operation that uses it.
        line: The user's line of that operation.
    """

    type: ArrayType
    axes: tuple[str, ...]
    needed_by: str
    line: str

    def __str__(self) -> str:
        return f"{self.type} along {', '.join(self.axes)} for {self.needed_by} at {self.line}"


def casts(fun: Callable[..., Any]) -> Callable[..., list[Cast]]:
    """A function of the arguments of `fun` that lists the casts (`lax.pbroadcast`) in its jaxpr.

    Casts that operations insert and casts that `fun` writes are listed alike, in the order of the
    jaxpr. Casts in loops and branches are listed once. Nothing is computed. What the casts of a
    gradient communicate is listed by `weft.comms`.

    fun: a function of trees of arrays.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((4,), ("i",))
    >>> f = weft.shard_map(lambda w, x: w * x, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
    >>> [cast] = weft.debug.casts(f)(jnp.ones(2), jnp.ones(8))
    >>> cast.type, cast.axes, cast.needed_by
    (f32[2], ('i',), 'mul')
    """

    def listing(*args: Any, **kwargs: Any) -> list[Cast]:
        jaxpr = make_jaxpr(fun)(*args, **kwargs).jaxpr
        return list(map(_cast, occurrences(jaxpr, lambda eqn, _: eqn.primitive is pbroadcast_p)))

    return listing


def _cast(found: Occurrence) -> Cast:
    (operand,), (result,) = found.eqn.inputs, found.eqn.outputs
    user = _users(found.jaxpr).get(result, "the result")
    line = sources.describe(found.eqn.source)
    return Cast(operand.type, found.eqn.params["axis_name"], user, line)


def _users(jaxpr: Jaxpr) -> dict[Any, str]:
    """The operation that first reads each variable of a jaxpr, inside loops and branches too."""

    def find() -> dict[Any, str]:
        users: dict[Any, str] = {}
        for eqn in jaxpr.eqns:
            inside: dict[int, str] = {}
            for inner in jaxprs_in(eqn.params):
                # Operands that no inner jaxpr takes, such as a condition's index, come first.
                skipped, names = len(eqn.inputs) - len(inner.inputs), _users(inner)
                for i, var in enumerate(inner.inputs, skipped):
                    if var in names:
                        inside.setdefault(i, names[var])
            for i, atom in enumerate(eqn.inputs):
                users.setdefault(atom, inside.get(i, eqn.primitive.name))
        return users

    out: dict[Any, str] = jaxpr.memoize("first users", find)
    return out
