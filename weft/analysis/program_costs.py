"""Adds the costs of a program up, by the user's lines: loops multiplied, of branches the dearest.

Each jaxpr is added up once, however many equations run it, so that the work is linear in the
equations of the program.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from weft.analysis.operation_costs import is_fusible, moved_bytes, size_in_bytes, work_of
from weft.analysis.programs import Inner, inner_programs
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.sharding.mesh import AnyMesh

__all__ = ["LineTotal", "ProgramCost", "cost_of"]

# The user's place: a code object and an offset in it, or None.
Place = Any

# What takes its operands from where they are computed, and stores its result.
_REDUCERS = frozenset(
    "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor reduce argmax "
    "argmin".split()
)


@dataclasses.dataclass(slots=True)
class LineTotal:
    """The sums of one place in the user's program. Flops are by the name of the dtype."""

    flops: Counter[str] = dataclasses.field(default_factory=Counter)
    functions: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    fused_bytes: float = 0.0
    # (kind, axes, devices in a group, bytes of one) -> how often.
    collectives: Counter[Any] = dataclasses.field(default_factory=Counter)

    def add(self, other: LineTotal, times: float = 1) -> None:
        """Adds another place's sums, so many times."""
        for name, count in other.flops.items():
            self.flops[name] += count * times
        self.functions += other.functions * times
        self.bytes_read += other.bytes_read * times
        self.bytes_written += other.bytes_written * times
        self.fused_bytes += other.fused_bytes * times
        for key, count in other.collectives.items():
            self.collectives[key] += count * times


@dataclasses.dataclass(slots=True)
class ProgramCost:
    """The costs of a jaxpr: sums by place, and the most bytes that are alive at once.

    unknown: primitives without a cost, with how often they run. whiles: whether a loop of unknown
    length was counted once; branches: whether one of several branches was counted.
    """

    lines: dict[Place, LineTotal]
    peak: float = 0.0
    unknown: Counter[str] = dataclasses.field(default_factory=Counter)
    whiles: bool = False
    branches: bool = False

    def at(self, place: Place) -> LineTotal:
        """The sums of a place."""
        found = self.lines.get(place)
        if found is None:
            found = self.lines[place] = LineTotal()
        return found

    def add(self, other: ProgramCost, times: float) -> None:
        """Adds the costs of a program that this one runs so many times."""
        for place, total in other.lines.items():
            self.at(place).add(total, times)
        for name, count in other.unknown.items():
            self.unknown[name] += count * times
        self.whiles |= other.whiles
        self.branches |= other.branches

    def weight(self) -> tuple[float, float]:
        """What decides which of several branches counts: flops and functions, then bytes."""
        lines = self.lines.values()
        return (
            sum(sum(line.flops.values()) + line.functions for line in lines),
            sum(line.fused_bytes for line in lines),
        )


def cost_of(jaxpr: Jaxpr, mesh: AnyMesh | None = None, known: Any = None) -> ProgramCost:
    """Returns the costs of a program. `mesh` is that of the `shard_map` around it."""
    known = {} if known is None else known
    found = known.get((jaxpr, mesh))
    if found is None:
        found = known[jaxpr, mesh] = _cost_of(jaxpr, mesh, known)
    return found


def _cost_of(jaxpr: Jaxpr, mesh: AnyMesh | None, known: Any) -> ProgramCost:
    found = ProgramCost({})
    extra: list[float] = []
    for eqn in jaxpr.eqns:
        inner = inner_programs(eqn)
        extra.append(_add_inner(found, inner, mesh, known) if inner.parts else 0.0)
        if not inner.parts:
            _add_operation(found, eqn, mesh)
    stored = _stored(jaxpr)
    for place, count in _fused_bytes(jaxpr, stored):
        found.at(place).fused_bytes += count
    found.peak = _peak(jaxpr, stored, extra)
    return found


def place_of(eqn: Equation) -> Place:
    """The user's place that an equation stands for."""
    return None if eqn.source is None else eqn.source[:2]


def _add_operation(found: ProgramCost, eqn: Equation, mesh: AnyMesh | None) -> None:
    work, (read, written) = work_of(eqn), moved_bytes(eqn)
    total = found.at(place_of(eqn))
    if work.flops:
        total.flops[eqn.inputs[0].type.dtype.name] += work.flops
    total.functions += work.functions
    total.bytes_read += read
    total.bytes_written += written
    if not work.known:
        found.unknown[eqn.primitive.name] += 1


def _add_inner(found: ProgramCost, inner: Inner, mesh: AnyMesh | None, known: Any) -> float:
    """Adds the programs of an equation; returns the bytes that they need beside their operands."""
    mesh = inner.mesh or mesh
    costs = [(cost_of(part.jaxpr, mesh, known), part) for part in inner.parts]
    if inner.one_of:
        found.branches = True
        dearest = max(costs, key=lambda pair: pair[0].weight())
        found.add(dearest[0], 1)
    else:
        for cost, part in costs:
            found.add(cost, 1 if part.times is None else part.times)
            found.whiles |= part.times is None
    return max(
        max(0.0, cost.peak - _size(part.jaxpr.inputs) - _size(part.jaxpr.outputs))
        for cost, part in costs
    )


def _size(atoms: Any) -> float:
    return sum(size_in_bytes(x.type) for x in {x for x in atoms if type(x) is Var})


# ---- what is stored ----------------------------------------------------------------------------


def _takes_apart(eqn: Equation) -> bool:
    """Whether an operation reads its operands where they are computed."""
    return is_fusible(eqn) or eqn.primitive.name in _REDUCERS


def _stored(jaxpr: Jaxpr) -> set[Var]:
    """The values that lie in memory: arguments, results, and what an operation that is not fused
    reads or returns."""
    found = {*jaxpr.inputs, *(x for x in jaxpr.outputs if type(x) is Var)}
    for eqn in jaxpr.eqns:
        if not _takes_apart(eqn):
            found.update(x for x in eqn.inputs if type(x) is Var)
        if not is_fusible(eqn):
            found.update(eqn.outputs)
    return found


def _fused_bytes(jaxpr: Jaxpr, stored: set[Var]) -> list[tuple[Place, float]]:
    """The bytes of stored values, at the places that write and read them. All fused operations
    that read a value read it once together."""
    found: list[tuple[Place, float]] = []
    read_by_fused: set[Var] = set()
    for eqn in jaxpr.eqns:
        if inner_programs(eqn).parts:
            continue  # Its programs have their own.
        read, written = moved_bytes(eqn)
        place = place_of(eqn)
        if not _takes_apart(eqn):
            found.append((place, read + written))
            continue
        for x in eqn.inputs:
            if type(x) is Var and x in stored and x not in read_by_fused:
                read_by_fused.add(x)
                found.append((place, min(size_in_bytes(x.type), read)))
        found += [(place, size_in_bytes(x.type)) for x in eqn.outputs if x in stored]
    return found


def _peak(jaxpr: Jaxpr, stored: set[Var], extra: list[float]) -> float:
    """The most bytes of stored values that are alive at once; arguments are alive throughout."""
    last: dict[Var, int] = {x: len(jaxpr.eqns) for x in jaxpr.outputs if type(x) is Var}
    last.update(dict.fromkeys(jaxpr.inputs, len(jaxpr.eqns)))
    for place in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[place]
        # What is computed where it is read needs its operands until then.
        ends = [last.get(x, place) for x in eqn.outputs if x not in stored]
        end = max(ends, default=place)
        for x in eqn.inputs:
            if type(x) is Var:
                last[x] = max(last.get(x, 0), end)
    alive = _size(jaxpr.inputs)
    most = alive
    gone: dict[int, float] = {}
    for place, eqn in enumerate(jaxpr.eqns):
        for x in eqn.outputs:
            if x in stored:
                alive += size_in_bytes(x.type)
                end = last.get(x, place)
                if end < len(jaxpr.eqns):
                    gone[end] = gone.get(end, 0.0) + size_in_bytes(x.type)
        most = max(most, alive + extra[place])
        alive -= gone.pop(place, 0.0)
    return most
