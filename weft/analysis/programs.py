"""The programs inside an equation: what runs, how often, and on which mesh.

What looks at a whole program (what it communicates, what it costs, how it would scale) reads
equations one by one and goes into loops, branches and calls by `inner_programs`. Whoever adds up
decides what several branches and a loop of unknown length count for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.control_flow.cond import cond_p
from weft.control_flow.linear_solve import linear_solve_p
from weft.control_flow.reduction import reduce_p, reduce_window_p
from weft.control_flow.scan import scan_p
from weft.control_flow.while_loop import while_p
from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.sharding.mesh import AnyMesh
from weft.spmd.shard_map_primitive import shard_map_p

__all__ = ["Inner", "Part", "inner_programs"]


class Part(NamedTuple):
    """A program that an equation runs: `times` for each run of the equation.

    `times` is None for the condition and the body of a `while` loop, whose count depends on values.
    """

    jaxpr: Jaxpr
    times: int | None = 1


class Inner(NamedTuple):
    """The programs of an equation: all of them run, or `one_of` them does.

    mesh: that of a `shard_map`, whose program runs on every device of it; None elsewhere.
    """

    parts: tuple[Part, ...]
    one_of: bool = False
    mesh: AnyMesh | None = None


_NOTHING = Inner(())


def _none(params: dict[str, Any]) -> Inner:
    """Of functions of two numbers that an operation applies to each element: its own cost."""
    return _NOTHING


def _scan(params: dict[str, Any]) -> Inner:
    return Inner((Part(params["jaxpr"], params["length"]),))


def _while(params: dict[str, Any]) -> Inner:
    return Inner((Part(params["cond_jaxpr"], None), Part(params["body_jaxpr"], None)))


def _cond(params: dict[str, Any]) -> Inner:
    return Inner(tuple(map(Part, params["branches"])), one_of=True)


def _shard_map(params: dict[str, Any]) -> Inner:
    return Inner((Part(params["jaxpr"]),), mesh=params["manual"].mesh)


_READERS: dict[Primitive, Callable[[dict[str, Any]], Inner]] = {
    scan_p: _scan,
    while_p: _while,
    cond_p: _cond,
    shard_map_p: _shard_map,
    reduce_p: _none,
    reduce_window_p: _none,
    # The third is the solver; the system and the transposes are there for derivatives.
    linear_solve_p: lambda params: Inner((Part(params["jaxprs"][2]),)),
}


def inner_programs(eqn: Equation) -> Inner:
    """Returns the programs that an equation runs.

    >>> import weft
    >>> jaxpr = weft.make_jaxpr(lambda x: weft.lax.fori_loop(0, 5, lambda i, c: 2 * c, x))(1.0)
    >>> [part] = inner_programs(jaxpr.eqns[0]).parts
    >>> part.times, [eqn.primitive.name for eqn in part.jaxpr.eqns]
    (5, ['add', 'mul'])
    """
    read = _READERS.get(eqn.primitive)
    if read is not None:
        return read(eqn.params)
    # A call: `jit`, `checkpoint`, custom derivatives. Of several programs the first one runs, the
    # others are its derivatives.
    return Inner(tuple(map(Part, jaxprs_in(eqn.params)[:1])))
