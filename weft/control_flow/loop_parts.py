"""The parts of a `scan`, and how the residuals of one loop reach a second loop.

When a body is split in two, the residuals that the second loop needs at each step are of three
kinds: constants, and values computed from constants only, stay outside the loops; scanned arrays
and stacked results exist already; and only the rest is stacked for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft.base.util import Flags, partition
from weft.control_flow.body_tracing import permute_jaxpr
from weft.core.check import checked
from weft.core.jaxpr import Jaxpr, Var
from weft.core.rules import AxisData, Dims
from weft.core.types import ArrayType
from weft.interpreters.partial_eval import dce_equations
from weft.ops.collectives.all_reduce import pbroadcast_p
from weft.ops.structural.shape import move_dim

Parts = tuple[list[Any], list[Any], list[Any]]
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Loop:
    """The parameters of a scan besides its body: its length, and how many operands of each kind."""

    length: int
    reverse: bool
    unroll: int
    num_consts: int
    num_carry: int

    def split(self, values: Sequence[Any]) -> Parts:
        """Splits operands (or marks of them) into constants, carried values and scanned arrays."""
        n, m = self.num_consts, self.num_consts + self.num_carry
        return list(values[:n]), list(values[n:m]), list(values[m:])

    def partition(self, flags: Sequence[Any], values: Sequence[Any]) -> tuple[Parts, Parts]:
        """Splits into parts the operands whose flag is set, and the others."""
        pairs = map(partition, self.split(flags), self.split(values))
        (consts, other_consts), (carry, other_carry), (xs, other_xs) = pairs
        return (consts, carry, xs), (other_consts, other_carry, other_xs)

    def with_counts(self, num_consts: int, num_carry: int, reverse: bool | None = None) -> Loop:
        """A loop of the same length over another body."""
        turned = self.reverse if reverse is None else reverse
        return Loop(self.length, turned, self.unroll, num_consts, num_carry)

    @classmethod
    def of(cls, params: dict[str, Any]) -> tuple[Jaxpr, Loop]:
        """The body and the loop, given the parameters of an equation."""
        rest = dict(params)
        return rest.pop("jaxpr"), cls(**rest)

    def params(self, jaxpr: Jaxpr) -> dict[str, Any]:
        """The parameters of an equation."""
        return {"jaxpr": jaxpr, **vars(self)}


def stacked_type(type: ArrayType, length: int) -> ArrayType:
    """The type of one value per step."""
    return type.update(shape=(length, *type.shape))


def fixpoint(
    start: Sequence[bool],
    make: Callable[[Flags], Result],
    marks: Callable[[Result], Sequence[bool]],
) -> tuple[Flags, Result]:
    """The least flags of carried values, from `start` upwards, to which `make` adds none, and its
    result. `marks` reads the flags of the outputs, carried values first, from that result."""
    flags = tuple(start)
    while True:
        made = make(flags)
        wider = tuple([a or b for a, b in zip(flags, marks(made)[: len(flags)], strict=True)])
        if wider == flags:
            return flags, made
        flags = wider


def is_mapped(dims: Dims) -> list[bool]:
    """Which values are mapped, given their mapped dimensions."""
    return [dim is not None for dim in dims]


def moved_to_front(carried: Flags, values: Sequence[Any], dims: Dims, axis: AxisData) -> list[Any]:
    """The first carried values, mapped along dimension 0 where the loop carries mapped ones."""
    rows = zip(values, dims, carried, strict=True)
    return [move_dim(x, dim, 0, axis.size) if flag else x for x, dim, flag in rows]


@dataclasses.dataclass(frozen=True)
class ResidualPlan:
    """The sources of the residuals of a second loop.

    `first` is the body of the first loop, with `num_stacked` further stacked results. `invariant`
    computes, from the constants, the residuals that are equal at every step. Each of `places` is
    ("const", i), ("invariant", i), ("xs", i), ("ys", i) or ("stacked", i).
    """

    first: Jaxpr
    invariant: Jaxpr
    num_stacked: int
    places: tuple[tuple[str, int], ...]

    def is_constant(self) -> list[bool]:
        """For each residual, whether it is equal at every step of the loop."""
        return [kind in ("const", "invariant") for kind, _ in self.places]


def plan_residuals(
    body: Jaxpr, loop: Loop, num_results: int, residuals: Sequence[Var]
) -> ResidualPlan:
    """Plans how a body's residuals reach a second loop; `body` computes `num_results` results."""
    consts, _, xs = loop.split(body.inputs)
    place: dict[Any, tuple[str, int]] = {v: ("const", i) for i, v in enumerate(consts)}
    place |= {v: ("xs", i) for i, v in enumerate(xs)}
    for i, atom in enumerate(body.outputs[loop.num_carry : num_results]):
        if type(atom) is Var:
            place.setdefault(atom, ("ys", i))
    changing = changing_values(body, loop)
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


def changing_values(body: Jaxpr, loop: Loop) -> set[Var]:
    """The variables of a body whose values may differ from step to step."""
    changing = set(body.inputs[loop.num_consts :])
    for eqn in body.eqns:
        if eqn.effects or any(type(x) is Var and x in changing for x in eqn.inputs):
            changing.update(eqn.outputs)
    return changing


def existing(body: Jaxpr, loop: Loop, num_results: int) -> set[Var]:
    """The variables of a body that reach a second loop without a stacked array."""
    consts, _, xs = loop.split(body.inputs)
    ys = [x for x in body.outputs[loop.num_carry : num_results] if type(x) is Var]
    # A cast costs nothing; kept, it would be an array beside the one that was cast.
    made = {v for eqn in body.eqns if eqn.primitive is not pbroadcast_p for v in eqn.outputs}
    return {*consts, *xs, *ys, *(made - changing_values(body, loop))}


def find_residuals(
    plan: ResidualPlan, loop: Loop, parts: Parts, outs: Any, invariant: Any
) -> list[Any]:
    """Picks the residuals (values or atoms) from the first loop's operands and results."""
    consts, _, xs = parts
    results = len(outs) - plan.num_stacked
    kinds = {
        "const": consts,
        "invariant": invariant,
        "xs": xs,
        "ys": outs[loop.num_carry : results],
        "stacked": outs[results:],
    }
    return [kinds[kind][i] for kind, i in plan.places]


def second_loop(
    plan: ResidualPlan, loop: Loop, residuals: Sequence[Any], rest: Parts
) -> tuple[Loop, Parts]:
    """The second loop and its operands: constant residuals come before the other constants, the
    others before the other scanned arrays."""
    fixed, stepwise = partition(plan.is_constant(), residuals)
    consts, carry, xs = rest
    inner = loop.with_counts(len(fixed) + len(consts), len(carry))
    return inner, ([*fixed, *consts], carry, [*stepwise, *xs])


def second_body(plan: ResidualPlan, jaxpr: Jaxpr, counts: Sequence[int]) -> Jaxpr:
    """Makes a jaxpr of (residuals, constants, carried, scanned) the body of the second loop.
    `counts` are those of the last three kinds."""
    constant = plan.is_constant()
    n = len(constant)
    fixed, stepwise = partition(constant, range(n))
    a, b, c = (list(range(n + sum(counts[:k]), n + sum(counts[: k + 1]))) for k in range(3))
    return permute_jaxpr(jaxpr, [*fixed, *a, *b, *stepwise, *c])
