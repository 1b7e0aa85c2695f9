"""The programs inside an equation: what runs, how often, and on which mesh.

What looks at a whole program reads equations one by one, and goes into loops, branches and calls by
`inner_programs`. Each primitive that holds jaxprs has a rule that says which of them run.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.core import rules
from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in
from weft.sharding.mesh import AnyMesh


class InnerProgram(NamedTuple):
    """A program that an equation runs: `times` for each run of the equation.

    `times` is None for the condition and the body of a `while` loop, whose count depends on values.

    Args:
        jaxpr: The program.
        times: How often it runs; None where the count depends on values.
    """

    jaxpr: Jaxpr
    times: int | None = 1


class InnerPrograms(NamedTuple):
    """The programs of an equation: all of them run, or `one_of` them does.

    mesh: that of a `shard_map`, whose program runs on every device of it; None elsewhere.

    Args:
        parts: The programs, each with its jaxpr and how often it runs.
        one_of: Whether only one of them runs.
    """

    parts: tuple[InnerProgram, ...]
    one_of: bool = False
    mesh: AnyMesh | None = None


NO_PROGRAMS = InnerPrograms(())


def inner_programs(eqn: Equation) -> InnerPrograms:
    """The programs that an equation runs, by its primitive's `runs` rule.

    Of a primitive without a rule the first jaxpr among the parameters runs once: it is a call, and
    further jaxprs are its derivatives.

    >>> from weft.extend.core import inner_programs
    >>> jaxpr = weft.make_jaxpr(lambda x: lax.fori_loop(0, 5, lambda i, c: 2 * c, x))(1.0)
    >>> [part] = inner_programs(jaxpr.eqns[0]).parts
    >>> part.times, [eqn.primitive.name for eqn in part.jaxpr.eqns]
    (5, ['add', 'mul'])
    """
    if eqn.primitive.memoise:
        return NO_PROGRAMS  # It holds no jaxprs.
    rule = rules.runs.get(eqn.primitive)
    if rule is not None:
        out: InnerPrograms = rule(eqn)
        return out
    return InnerPrograms(tuple(map(InnerProgram, jaxprs_in(eqn.params)[:1])))
