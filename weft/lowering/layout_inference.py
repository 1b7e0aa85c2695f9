"""Infers the best memory order of each argument of a jaxpr from how the jaxpr reads it.

Reads are followed backward from the results, by the `reads` rules: an elementwise
operation reads its operands as its result is read, a slice reads a part, a loop as often as it
runs. A value is computed once, so reads of a computed value become one of each kind. An order costs
the bytes that reading moves where memory comes in lines of 64 bytes. The cheapest order wins if it
saves a clear share of the cost of row-major, since changing the order of an array costs as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.base import source as sources
from weft.base.notebooks import line_text
from weft.core import rules
from weft.core.access_pattern import Read, Reads, full_read, whole_reads
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.types import ArrayType

Order = tuple[int, ...]

LINE = 64
# Bytes of a core's cache: lines of a read that fits are fetched once, whatever the order.
CACHE = 2**18
# The ratio by which row-major has to cost more. Smaller ones made no measurable difference in time.
MARGIN = 1.3
# The most kinds of reads of a computed value; with more, it counts as read as a whole.
_KINDS = 16
_CANDIDATES = 8


class Candidate(NamedTuple):
    """A possible order of an input, the bytes that reading it then moves, and the read it is best
    for (None for row-major)."""

    order: Order
    cost: float
    read: Read | None


def infer_layouts(
    jaxpr: Jaxpr,
    inputs: Sequence[Order | None],
    outputs: Sequence[Order | None],
    partitioned: bool = False,
) -> tuple[list[Order], list[Order]]:
    """A major-to-minor order for every input and result of a jaxpr.

    Given orders stay. None is replaced by the order that the input is read along; for a result
    whose elements are moved from an input, by the order that makes the move a plain copy; else by
    row-major. In a module that the compiler splits over devices (`partitioned`), loops and branches
    take everything row by row (see `keep_layouts`), so reads in them do not count.
    """
    found = [
        _best(candidates(var.type, tuple(r for r in reads if not (partitioned and r.carried))))
        if order is None
        else tuple(order)
        for var, order, reads in zip(jaxpr.inputs, inputs, reads_of(jaxpr, outputs), strict=True)
    ]
    results = []
    for i, (atom, order) in enumerate(zip(jaxpr.outputs, outputs, strict=True)):
        source = _source_of_moves(jaxpr, i) if order is None else None
        if order is not None:
            results.append(tuple(order))
        elif source is None:
            results.append(tuple(range(atom.type.ndim)))
        else:
            results.append(_permute_order(source[1], found[source[0]], atom.type))
    return found, results


def reads_of(jaxpr: Jaxpr, outputs: Sequence[Order | None] | None = None) -> list[Reads]:
    """The different reads of each input; `outputs` as in `infer_layouts`."""
    demands: list[Reads] = []
    for i, atom in enumerate(jaxpr.outputs):
        walk = full_read(atom.type).walk
        order = None if outputs is None else outputs[i]
        if order is not None:
            walk = tuple(sorted(walk, key=lambda s: order.index(s.dim)))
        # A result that is moved from an input takes its order.
        free = order is None and _source_of_moves(jaxpr, i) is not None
        demands.append((Read(walk, free=free, written=True),))
    return _Follower().reads(jaxpr, demands)


def explain(jaxpr: Jaxpr, outputs: Sequence[Order | None] | None = None) -> str:
    """Text: for each input the orders compared, their costs, and the lines that they are for."""
    lines = []
    for i, (var, reads) in enumerate(zip(jaxpr.inputs, reads_of(jaxpr, outputs), strict=True)):
        compared = candidates(var.type, reads)
        best = _best(compared)
        lines.append(f"input {i}, {var.type}: {best}")
        for order, cost, read in compared:
            place = sources.locate(read.source) if read is not None else None
            where = f", as {line_text(place.file, place.line)} reads it" if place else ""
            lines.append(f"  {order} moves {cost:,.0f} bytes{where}")
    return "\n".join(lines)


# ---- following reads backward ----------------------------------------------------------------


class _Follower:
    """Follows the reads of jaxprs' results to their inputs, each jaxpr once per demand."""

    def __init__(self) -> None:
        self.known: dict[Any, list[Reads]] = {}

    def reads(self, jaxpr: Jaxpr, demands: Sequence[Reads]) -> list[Reads]:
        key = (jaxpr, tuple(demands))
        out = self.known.get(key)
        if out is None:
            out = self.known[key] = self._follow(jaxpr, demands)
        return out

    def _follow(self, jaxpr: Jaxpr, demands: Sequence[Reads]) -> list[Reads]:
        totals: dict[Any, dict[Any, Read]] = {var: {} for var in jaxpr.inputs}
        inputs = set(jaxpr.inputs)

        def add(atoms: Sequence[Any], of: Sequence[Reads], source: Any) -> None:
            # An operation that takes a value twice reads it once.
            seen: dict[Any, int] = {}
            for place, (atom, reads) in enumerate(zip(atoms, of, strict=True)):
                if type(atom) is not Var or atom.type.size == 0:
                    continue
                total = totals.setdefault(atom, {})
                for read in reads:
                    kind = read._replace(times=0.0, source=None)
                    taken = seen.setdefault((atom, kind), place) != place
                    if taken or any(s.extent == 0 for s in read.walk):
                        continue
                    own = read if read.source is not None else read._replace(source=source)
                    total[kind] = _merge(total.get(kind), own, atom in inputs)

        add(jaxpr.outputs, demands, None)
        for eqn in reversed(jaxpr.eqns):
            of = [
                _once(totals.pop(var, {}), var.type, eqn.primitive in rules.layout)
                for var in eqn.outputs
            ]
            if any(of) or eqn.effects:
                add(eqn.inputs, self._operands(eqn, of), eqn.source)
        return [tuple(totals[var].values()) for var in jaxpr.inputs]

    def _operands(self, eqn: Equation, demands: Sequence[Reads]) -> Sequence[Reads]:
        rule: Callable[..., Any] = rules.reads.get(eqn.primitive) or whole_reads
        out: Sequence[Reads] = rule(eqn, demands, self.reads)
        return out


def _merge(before: Read | None, read: Read, is_input: bool) -> Read:
    """Merges two equal reads: those of an input add up, those of a computed value happen once."""
    if before is None:
        return read
    times = before.times + read.times if is_input else max(before.times, read.times)
    return before._replace(times=times)


def _once(reads: dict[Any, Read], type: ArrayType, same: bool) -> Reads:
    """The reads of a computed value by its computation; loops and branches take the finished value.
    `same`: it is an unchanged operand, which they might read themselves."""
    if not reads or (same and len(reads) <= 4 * _KINDS):
        return tuple(reads.values())
    if len(reads) > _KINDS or any(read.carried for read in reads.values()):
        first = next(iter(reads.values()))
        return (full_read(type)._replace(source=first.source),)
    return tuple(read._replace(times=min(read.times, 1.0)) for read in reads.values())


# ---- the costs of orders ---------------------------------------------------------------------


def candidates(type: ArrayType, reads: Reads) -> list[Candidate]:
    """Row-major and the best orders for the costliest reads, each with the cost of all reads."""
    row_major = tuple(range(type.ndim))
    best_for: dict[Order, Read | None] = {row_major: None}
    for read in sorted(reads, key=lambda read: -read_cost(type, row_major, (read,))):
        if len(best_for) > _CANDIDATES:
            break
        walked = list(dict.fromkeys(s.dim for s in reversed(read.walk) if s.dim >= 0))[::-1]
        rest = [d for d in row_major if d not in walked]
        best_for.setdefault(_canonical_order([*rest, *walked], type), read)
    return [Candidate(o, read_cost(type, o, reads), read) for o, read in best_for.items()]


def _best(compared: Sequence[Candidate]) -> Order:
    row_major = compared[0]
    best = min(compared, key=lambda candidate: (candidate.cost, candidate.order))
    return best.order if best.cost * MARGIN <= row_major.cost else row_major.order


def _canonical_order(order: Sequence[int], type: ArrayType) -> Order:
    """A canonical order: dimensions of length 1 come first, and row-major where that is
    equivalent."""
    row_major = tuple(range(type.ndim))
    real = [d for d in order if type.shape[d] != 1]
    if type.size < 2 or real == sorted(real):
        return row_major
    return (*(d for d in row_major if type.shape[d] == 1), *real)


def read_cost(type: ArrayType, order: Order, reads: Sequence[Read]) -> float:
    """The bytes that the reads move from memory for an array in an order."""
    strides = [0] * type.ndim
    stride = type.dtype.itemsize
    for d in reversed(order):
        strides[d] = stride
        stride *= type.shape[d]
    cost = 0.0
    for read in reads:
        loops = [(s.extent, strides[s.dim] * s.step if s.dim >= 0 else stride) for s in read.walk]
        least = _bytes(sorted(loops, key=lambda loop: -loop[1]), type.dtype.itemsize)
        # Lines that stay in the cache are fetched once, whatever the order of reading.
        known = read.free or least <= CACHE
        cost += read.times * (least if known else _bytes(loops, type.dtype.itemsize))
    return cost


def _bytes(loops: Sequence[tuple[int, int]], itemsize: int) -> int:
    """The bytes of the lines that loops of (extent, distance in bytes) touch, in their order."""
    run, count = itemsize, 1
    rest = list(loops)
    while rest and rest[-1][1] == run:  # Each loop continues where the one inside of it ends.
        run *= rest.pop()[0]
    if rest and rest[-1][1] < LINE:
        extent, distance = rest.pop()
        run += (extent - 1) * distance
    for extent, _ in rest:
        count *= extent
    return count * -(-run // LINE) * LINE


# ---- results that are moved inputs -----------------------------------------------------------


def _source_of_moves(jaxpr: Jaxpr, result: int) -> tuple[int, Order] | None:
    """The input that a result's elements were only moved from, and the input's dimension for each
    of the result; None if there is none."""
    made = jaxpr.memoize("makers", lambda: makers(jaxpr))
    inputs = jaxpr.memoize("input numbers", lambda: {v: i for i, v in enumerate(jaxpr.inputs)})
    atom = jaxpr.outputs[result]
    dims = tuple(range(atom.type.ndim))
    while type(atom) is Var:
        if atom in inputs:
            return inputs[atom], dims
        eqn, number = made[atom]
        rule = rules.moves.get(eqn.primitive)
        moved = rule(eqn, number) if rule is not None else None
        if moved is not None and isinstance(moved[0], Jaxpr):
            moved = _source_of_moves(*moved)
        if moved is None:
            return None
        operand, of = moved
        dims = tuple(of[d] if d >= 0 else -1 for d in dims)
        atom = eqn.inputs[operand]
    return None


def makers(jaxpr: Jaxpr) -> dict[Any, tuple[Equation, int]]:
    """For each variable the equation that computes it, and which of its results it is."""
    return {var: (eqn, i) for eqn in jaxpr.eqns for i, var in enumerate(eqn.outputs)}


def _permute_order(dims: Order, order: Order, type: ArrayType) -> Order:
    """The order of a result whose dimension i is dimension `dims[i]` of an array."""
    place = {d: i for i, d in enumerate(order)}
    return _canonical_order(sorted(range(type.ndim), key=lambda i: place.get(dims[i], -1)), type)
