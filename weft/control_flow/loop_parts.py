"""The parts of a `scan`, and where the second of two loops finds what it reads of the first.

When a body is split in two, the residuals that the second loop needs at each step lie in three
places: those of constants, and what is computed from constants only, stay outside the loops;
scanned arrays and stacked results are there already; and only the rest is stacked for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft.control_flow.body_tracing import permuted
from weft.core.check import checked
from weft.core.jaxpr import Jaxpr, Var
from weft.core.types import ArrayType
from weft.interpreters.dce import dce_equations

__all__ = [
    "Flags",
    "Loop",
    "ResidualPlan",
    "find_residuals",
    "fixpoint",
    "marked",
    "plan_residuals",
    "second_body",
    "stacked_type",
]

Flags = tuple[bool, ...]


@dataclasses.dataclass(frozen=True)
class Loop:
    """The parameters of a scan besides its body: how long it is, and which operand is what."""

    length: int
    reverse: bool
    unroll: int
    num_consts: int
    num_carry: int

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Operands (or marks of them) as constants, carried values and scanned arrays."""
        n, m = self.num_consts, self.num_consts + self.num_carry
        return list(values[:n]), list(values[n:m]), list(values[m:])

    def with_counts(self, num_consts: int, num_carry: int, reverse: bool | None = None) -> Loop:
        """A loop of the same length over another body."""
        turned = self.reverse if reverse is None else reverse
        return Loop(self.length, turned, self.unroll, num_consts, num_carry)

    def params(self, jaxpr: Jaxpr) -> dict[str, Any]:
        """The parameters of an equation."""
        return {"jaxpr": jaxpr, **dataclasses.asdict(self)}


def stacked_type(type: ArrayType, length: int) -> ArrayType:
    """The type of one value per step."""
    return type.update(shape=(length, *type.shape))


def marked(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """The values whose flag is set."""
    return [x for x, flag in zip(values, flags, strict=True) if flag]


def fixpoint(start: Flags, step: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The least marks from `start` upwards that `step` adds nothing to."""
    flags = start
    while True:
        found = step(flags)
        wider = tuple(a or b for a, b in zip(flags, found, strict=True))
        if wider == flags:
            return flags
        flags = wider


@dataclasses.dataclass(frozen=True)
class ResidualPlan:
    """Where the second loop finds what it reads of the first one.

    `first` is the body of the first loop, whose results are followed by `num_stacked` stacked ones.
    `invariant` computes, from the constants, what does not change from step to step. Each of
    `places` is ("const", i), ("invariant", i), ("xs", i), ("ys", i) or ("stacked", i).
    """

    first: Jaxpr
    invariant: Jaxpr
    num_stacked: int
    places: tuple[tuple[str, int], ...]

    def is_constant(self) -> list[bool]:
        """For each residual whether it is one for the whole loop."""
        return [kind in ("const", "invariant") for kind, _ in self.places]


def plan_residuals(body: Jaxpr, loop: Loop, num_results: int, residuals: Sequence[Var]) -> Any:
    """Plans how a body's residuals reach a second loop; `body` computes `num_results` results."""
    consts, _, xs = loop.split(body.inputs)
    place: dict[Any, tuple[str, int]] = {v: ("const", i) for i, v in enumerate(consts)}
    place |= {v: ("xs", i) for i, v in enumerate(xs)}
    for i, atom in enumerate(body.outputs[loop.num_carry : num_results]):
        if type(atom) is Var:
            place.setdefault(atom, ("ys", i))
    changing = set(body.inputs[loop.num_consts :])
    for eqn in body.eqns:
        if eqn.effects or any(type(x) is Var and x in changing for x in eqn.inputs):
            changing.update(eqn.outputs)
    invariant: list[Var] = []
    stacked: list[Var] = []
    for var in residuals:
        if var in place:
            continue
        kind, group = ("stacked", stacked) if var in changing else ("invariant", invariant)
        place[var] = (kind, len(group))
        group.append(var)
    outputs = [*body.outputs[:num_results], *stacked]
    eqns, _ = dce_equations(body.eqns, outputs)
    first = checked(Jaxpr(body.inputs, eqns, outputs, 0, body.name))
    eqns, _ = dce_equations([e for e in body.eqns if not e.effects], invariant)
    before = checked(Jaxpr(consts, eqns, invariant, 0, body.name))
    return ResidualPlan(first, before, len(stacked), tuple(place[v] for v in residuals))


def find_residuals(
    plan: ResidualPlan, loop: Loop, consts: Any, xs: Any, outs: Any, invariant: Any
) -> list[Any]:
    """The residuals (values, or atoms of an equation), given what the first loop took and gave."""
    results = len(outs) - plan.num_stacked
    kinds = {
        "const": consts,
        "invariant": invariant,
        "xs": xs,
        "ys": outs[loop.num_carry : results],
        "stacked": outs[results:],
    }
    return [kinds[kind][i] for kind, i in plan.places]


def second_body(jaxpr: Jaxpr, constant: Sequence[bool], rest: Sequence[int]) -> Jaxpr:
    """A program of (residuals, constants, carried, scanned) as a body: constant residuals go to
    the constants, the others to the scanned arrays. `rest` counts the other three kinds."""
    n = len(constant)
    of_consts = [i for i, flag in enumerate(constant) if flag]
    of_xs = [i for i, flag in enumerate(constant) if not flag]
    a, b, c = (list(range(n + sum(rest[:k]), n + sum(rest[: k + 1]))) for k in range(3))
    return permuted(jaxpr, [*of_consts, *a, *b, *of_xs, *c])
