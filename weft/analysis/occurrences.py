"""The equations of a whole program: where each stands, and how often it runs.

What looks at a program (what it communicates, what it costs, how it would scale) goes into loops,
branches and calls. Whoever adds up decides what several branches and a loop of unknown length count
for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.base import source as sources
from weft.core.inner_programs import InnerProgram, InnerPrograms, inner_programs
from weft.core.jaxpr import Equation, Jaxpr
from weft.sharding.mesh import AnyMesh

# The user's place: a code object and an offset in it, or None.
Place = Any


def place_of(eqn: Equation) -> Place:
    """The user's line of an equation."""
    return None if eqn.source is None else eqn.source[:2]


class Occurrence(NamedTuple):
    """An equation of a program, with the jaxpr that it stands in and what stands around that.

    trips: how often it runs for each run of the program, or None if a `while` loop is around it.
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

    def inside(self, inner: InnerPrograms, part: InnerProgram, backward: bool) -> Occurrence:
        """The same occurrence, seen from the program around it."""
        known = self.trips is not None and part.times is not None
        return self._replace(
            trips=self.trips * part.times if known else None,  # type: ignore[operator]
            branch=self.branch or inner.one_of,
            backward=self.backward or backward,
            mesh=self.mesh if self.mesh is not None else inner.mesh,
        )


def occurrences(
    jaxpr: Jaxpr, wanted: Callable[[Equation, InnerPrograms], bool]
) -> list[Occurrence]:
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
        out: list[Occurrence] = []
        for eqn in jaxpr.eqns:
            inner = inner_programs(eqn)
            keep = wanted(eqn, inner)
            if not keep and not inner.parts:
                continue
            backward = sources.in_backward_pass(eqn.source)
            if keep:
                out.append(Occurrence(eqn, jaxpr, backward=backward))
            for part in inner.parts:
                if part.times == 0:
                    continue
                if part.jaxpr not in known:
                    known[part.jaxpr] = look(part.jaxpr)
                out += [one.inside(inner, part, backward) for one in known[part.jaxpr]]
        return out

    return look(jaxpr)
