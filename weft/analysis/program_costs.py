"""Adds the costs of a program up, by the user's lines: loops multiplied, of branches the dearest.

Each jaxpr is added up once, however many equations run it, so that the work is linear in the
equations of the program.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from weft.analysis.comms_rows import collective_of, size_in_bytes
from weft.analysis.occurrences import Place, place_of
from weft.analysis.operation_costs import is_fusible, is_view, moved_bytes, work_of
from weft.core.inner_programs import InnerPrograms, inner_programs
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.sharding.mesh import AnyMesh

# What is counted -> how much of it.
Counts = defaultdict[Any, float]


def counts() -> Counts:
    """Empty counts."""
    return defaultdict(float)


@dataclasses.dataclass(slots=True)
class LineTotal:
    """The sums of one user's line. Flops are by the name of the dtype."""

    flops: Counts = dataclasses.field(default_factory=counts)
    functions: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    fused_bytes: float = 0.0
    # (kind, axes, devices in a group, bytes of one), see `Collective` -> how often.
    collectives: Counts = dataclasses.field(default_factory=counts)

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
    """The costs of a jaxpr: sums by place, and the most bytes that are alive at once on a device.

    unknown: primitives without a cost, with how often they run. whiles: whether a loop of unknown
    length was counted once; branches: whether one of several branches was counted.
    """

    lines: dict[Place, LineTotal]
    # The bytes of the arguments and results on a device.
    in_sizes: list[float]
    out_sizes: list[float]
    peak: float = 0.0
    unknown: Counts = dataclasses.field(default_factory=counts)
    whiles: bool = False
    branches: bool = False

    def at(self, place: Place) -> LineTotal:
        """The sums of a place."""
        out = self.lines.get(place)
        if out is None:
            out = self.lines[place] = LineTotal()
        return out

    def add(self, other: ProgramCost, times: float) -> None:
        """Adds the costs of a program that this one runs so many times."""
        for place, total in other.lines.items():
            self.at(place).add(total, times)
        for name, count in other.unknown.items():
            self.unknown[name] += count * times
        self.whiles |= other.whiles
        self.branches |= other.branches

    def weight(self) -> tuple[float, float]:
        """The order of branches by cost: flops and functions, then bytes."""
        lines = self.lines.values()
        return (
            sum(sum(line.flops.values()) + line.functions for line in lines),
            sum(line.fused_bytes for line in lines),
        )


def cost_of(jaxpr: Jaxpr, mesh: AnyMesh | None = None, known: Any = None) -> ProgramCost:
    """Returns the costs of a program. `mesh` is that of the `shard_map` around it."""
    known = {} if known is None else known
    out = known.get((jaxpr, mesh))
    if out is None:
        out = known[jaxpr, mesh] = _cost_of(jaxpr, mesh, known)
    return out


def _cost_of(jaxpr: Jaxpr, mesh: AnyMesh | None, known: Any) -> ProgramCost:
    out = ProgramCost({}, [], [])
    sizes = _DeviceSizes()
    extra: list[float] = []
    operations: list[Equation] = []
    for eqn in jaxpr.eqns:
        inner = inner_programs(eqn)
        extra.append(_add_inner(out, eqn, inner, mesh, known, sizes) if inner.parts else 0.0)
        if not inner.parts:
            operations.append(eqn)
            _add_operation(out, eqn, mesh)
    roots = _roots(jaxpr)
    stored = _stored_values(jaxpr, roots)
    for place, count in _fused_bytes(operations, stored, roots):
        out.at(place).fused_bytes += count
    out.in_sizes = [sizes[x] for x in jaxpr.inputs]
    out.out_sizes = [sizes[x] if type(x) is Var else 0.0 for x in jaxpr.outputs]
    out.peak = _peak(jaxpr, stored, extra, sizes)
    return out


class _DeviceSizes(dict[Var, float]):
    """The bytes of values on one device: of a block for operands of a `shard_map`."""

    def __missing__(self, var: Var) -> float:
        size = self[var] = float(size_in_bytes(var.type))
        return size

    def learn(self, atoms: Any, sizes: Any) -> None:
        """Records the sizes of an inner program's operands or results."""
        for atom, size in zip(atoms, sizes, strict=True):
            if type(atom) is Var:
                self[atom] = min(self[atom], size)


def _add_operation(found: ProgramCost, eqn: Equation, mesh: AnyMesh | None) -> None:
    work, (read, written) = work_of(eqn), moved_bytes(eqn)
    total = found.at(place_of(eqn))
    if work.flops:
        total.flops[eqn.inputs[0].type.dtype.name] += work.flops
    total.functions += work.functions
    total.bytes_read += read
    total.bytes_written += written
    sent = collective_of(eqn, mesh)
    if sent is not None:
        total.collectives[sent[:4]] += 1
    if not work.known:
        found.unknown[eqn.primitive.name] += 1


def _add_inner(
    found: ProgramCost,
    eqn: Equation,
    inner: InnerPrograms,
    mesh: AnyMesh | None,
    known: Any,
    sizes: _DeviceSizes,
) -> float:
    """Adds the programs of an equation; returns the bytes they need beyond their operands."""
    mesh = inner.mesh or mesh
    costs = [(cost_of(part.jaxpr, mesh, known), part) for part in inner.parts]
    if inner.one_of:
        found.branches = True
        found.add(max(costs, key=lambda pair: pair[0].weight())[0], 1)
    else:
        for cost, part in costs:
            found.add(cost, 1 if part.times is None else part.times)
            found.whiles |= part.times is None
    (cost, part), *others = costs
    # A call: its program's arguments are the operands. In a loop they may be parts of them.
    if not others and part.times == 1 and len(cost.in_sizes) == len(eqn.inputs):
        sizes.learn(eqn.inputs, cost.in_sizes)
        sizes.learn(eqn.outputs, cost.out_sizes)
    return max(
        max(0.0, cost.peak - sum(cost.in_sizes) - sum(cost.out_sizes)) for cost, part in costs
    )


# ---- what is stored ----------------------------------------------------------------------------


def _takes_apart(eqn: Equation) -> bool:
    """Whether an operation is fused into the producers of its operands."""
    return is_fusible(eqn) or eqn.primitive.facts.fuses_operands


def _roots(jaxpr: Jaxpr) -> dict[Var, Var]:
    """Maps each view of another value to the value that holds the elements."""
    found: dict[Var, Var] = {}
    for eqn in jaxpr.eqns:
        if is_view(eqn) and type(eqn.inputs[0]) is Var:
            for x, out in zip(eqn.inputs, eqn.outputs, strict=False):
                if type(x) is Var:
                    found[out] = found.get(x, x)
    return found


def _stored_values(jaxpr: Jaxpr, roots: dict[Var, Var]) -> set[Var]:
    """The values in memory: arguments, results, and the operands and results of unfused
    operations."""
    out = {*jaxpr.inputs, *(roots.get(x, x) for x in jaxpr.outputs if type(x) is Var)}
    for eqn in jaxpr.eqns:
        if not _takes_apart(eqn):
            out.update(roots.get(x, x) for x in eqn.inputs if type(x) is Var)
        if not is_fusible(eqn):
            out.update(roots.get(x, x) for x in eqn.outputs)
    return out


def _fused_bytes(
    operations: list[Equation], stored: set[Var], roots: dict[Var, Var]
) -> list[tuple[Place, float]]:
    """The bytes of stored values, at the lines that write and read them. All fused operations read
    a value once together. Inner programs are counted separately."""
    out: list[tuple[Place, float]] = []
    read_by_fused: set[Var] = set()
    for eqn in operations:
        if is_view(eqn):
            continue
        read, written = moved_bytes(eqn)
        place = place_of(eqn)
        if not _takes_apart(eqn):
            out.append((place, read + written))
            continue
        for x in eqn.inputs:
            root = roots.get(x, x) if type(x) is Var else None
            if root in stored and root not in read_by_fused:
                read_by_fused.add(root)
                out.append((place, min(size_in_bytes(root.type), read)))
        out += [(place, size_in_bytes(x.type)) for x in eqn.outputs if x in stored]
    return out


def _peak(jaxpr: Jaxpr, stored: set[Var], extra: list[float], sizes: _DeviceSizes) -> float:
    """The peak bytes of live stored values; arguments are always live."""
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
    alive = sum(sizes[x] for x in jaxpr.inputs)
    most = alive
    gone: dict[int, float] = {}
    for place, eqn in enumerate(jaxpr.eqns):
        for x in eqn.outputs:
            if x in stored:
                alive += sizes[x]
                end = last.get(x, place)
                if end < len(jaxpr.eqns):
                    gone[end] = gone.get(end, 0.0) + sizes[x]
        most = max(most, alive + extra[place])
        alive -= gone.pop(place, 0.0)
    return most
