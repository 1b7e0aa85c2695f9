"""The programs inside an equation: what runs, how often, and on which mesh.

What looks at a whole program (what it communicates, what it costs, how it would scale) reads
equations one by one and goes into loops, branches and calls by `inner_programs`. Whoever adds up
decides what several branches and a loop of unknown length count for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.base import source as sources
from weft.control_flow.cond import cond_p
from weft.control_flow.linear_solve import linear_solve_p
from weft.control_flow.reduction import reduce_p, reduce_window_p
from weft.control_flow.scan import scan_p
from weft.control_flow.while_loop import while_p
from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.sharding.mesh import AnyMesh
from weft.spmd.shard_map_primitive import shard_map_p

__all__ = ["Inner", "Occurrence", "Part", "Place", "inner_programs", "occurrences", "place_of"]

# The user's place: a code object and an offset in it, or None.
Place = Any


def place_of(eqn: Equation) -> Place:
    """The user's place that an equation stands for."""
    return None if eqn.source is None else eqn.source[:2]


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
    if eqn.primitive.memoise:
        return _NOTHING  # It holds no jaxprs.
    read = _READERS.get(eqn.primitive)
    if read is not None:
        return read(eqn.params)
    # A call: `jit`, `checkpoint`, custom derivatives. Of several programs the first one runs, the
    # others are its derivatives.
    return Inner(tuple(map(Part, jaxprs_in(eqn.params)[:1])))


class Occurrence(NamedTuple):
    """An equation of a program, with the jaxpr that it stands in and what stands around that.

    trips: how often it runs for each run of the program, or None where a `while` loop is around it.
    branch: whether it stands in a branch of a conditional, and so may not run. backward: whether
    it, or an equation around it, is part of a derivative's backward pass. mesh: that of the
    innermost `shard_map` around it.
    """

    eqn: Equation
    jaxpr: Jaxpr
    trips: int | None = 1
    branch: bool = False
    backward: bool = False
    mesh: AnyMesh | None = None

    def inside(self, inner: Inner, part: Part, backward: bool) -> Occurrence:
        """The same, seen from the program with the equation that runs `part`."""
        known = self.trips is not None and part.times is not None
        return self._replace(
            trips=self.trips * part.times if known else None,  # type: ignore[operator]
            branch=self.branch or inner.one_of,
            backward=self.backward or backward,
            mesh=self.mesh if self.mesh is not None else inner.mesh,
        )


def occurrences(jaxpr: Jaxpr, wanted: Callable[[Equation, Inner], bool]) -> list[Occurrence]:
    """Returns the equations of a program, and of those inside, for which `wanted` holds, in order.

    A jaxpr that several equations hold is looked at once. What a loop runs zero times is left out.

    >>> import weft
    >>> def f(x):
    ...     return weft.lax.fori_loop(0, 5, lambda i, c: weft.lax.sin(c), x)
    >>> jaxpr = weft.make_jaxpr(f)(1.0).jaxpr
    >>> [found] = occurrences(jaxpr, lambda eqn, inner: eqn.primitive.name == "sin")
    >>> found.eqn.primitive, found.trips
    (sin, 5)
    """
    known: dict[Jaxpr, list[Occurrence]] = {}

    def look(jaxpr: Jaxpr) -> list[Occurrence]:
        found: list[Occurrence] = []
        for eqn in jaxpr.eqns:
            inner = inner_programs(eqn)
            keep = wanted(eqn, inner)
            if not keep and not inner.parts:
                continue
            backward = sources.in_backward_pass(eqn.source)
            if keep:
                found.append(Occurrence(eqn, jaxpr, backward=backward))
            for part in inner.parts:
                if part.times == 0:
                    continue
                if part.jaxpr not in known:
                    known[part.jaxpr] = look(part.jaxpr)
                found += [one.inside(inner, part, backward) for one in known[part.jaxpr]]
        return found

    return look(jaxpr)
