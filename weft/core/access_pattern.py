"""The order in which a jaxpr reads the elements of its values; it decides the best memory layout.

A `Read` is one walk over the elements of an array. The `reads` rule of a primitive turns
the reads of its results into reads of its operands, back to the arguments; its `moves` rule
says which operand's elements a result has. The measurements behind the rules: docs/layouts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from weft.core.jaxpr import Equation, Jaxpr
from weft.core.types import ArrayType

__all__ = [
    "Inner", "Read", "Reads", "Step", "elementwise_reads", "full_read", "moves_of_program",
    "reads_of_program", "regrouped", "same_dims", "same_moves", "whole_reads",
]  # fmt: skip


class Step(NamedTuple):
    """One loop of a walk: `extent` elements along dimension `dim`, every `step`-th.

    Dimension -1 stands for positions that are not known before the jaxpr runs.

    Args:
        dim: The dimension that the loop is over; -1 for positions that are not known.
        extent: How many elements it visits.
        step: The distance between them.
    """

    dim: int
    extent: int
    step: int = 1


class Read(NamedTuple):
    """A walk over elements of an array.

    walk: the loops, from the outermost to the innermost; loops over one element are left out.
    times: how often a run of the jaxpr does it.
    carried: it happens inside a loop or a branch, which a computed value enters as a whole.
    folds: permuted dimensions cost the reader nothing, so a `transpose` before it moves nothing.
    free: every order of the elements is as good.
    written: the elements become a result of the jaxpr, unchanged.
    source: the line of the equation that reads like this; None until it is known.
    """

    walk: tuple[Step, ...]
    times: float = 1.0
    carried: bool = False
    folds: bool = False
    free: bool = False
    written: bool = False
    source: Any = None

    def along(self, dims: Sequence[int]) -> Read:
        """The read of an operand whose dimension `dims[i]` is dimension i of this one; dimensions
        that the operand lacks are -1."""
        walk = [
            s if s.dim < 0 else s._replace(dim=dims[s.dim])
            for s in self.walk
            if s.dim < 0 or dims[s.dim] >= 0
        ]
        return self._replace(walk=tuple(sorted(walk) if self.folds else walk), source=None)

    def repeated(self, times: float) -> Read:
        """The same read in a loop or a branch."""
        return self._replace(times=self.times * times, carried=True)


Reads = tuple[Read, ...]
Inner = Callable[[Jaxpr, Sequence[Reads]], list[Reads]]


def full_read(type: ArrayType, folds: bool = False) -> Read:
    """All elements once, in the order of the dimensions.

    Args:
        folds: Whether permuted dimensions cost the reader nothing.
    """
    walk = tuple(Step(i, n) for i, n in enumerate(type.shape) if n != 1)
    return Read(walk, folds=folds)


def whole_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The rule of primitives without one: they read all operands once, in row-major order."""
    return [(full_read(x.type),) for x in eqn.inputs]


def elementwise_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The rule of elementwise primitives: an element of an operand is read for one of a result.

    XLA applies an operation of one operand before it transposes the array, not after.
    """
    (out,) = eqn.outputs
    alone = len(eqn.inputs) == 1
    found = tuple(r._replace(folds=alone, written=alone) if r.written else r for r in demands[0])
    return [found if x.type.shape == out.type.shape else (full_read(x.type),) for x in eqn.inputs]


def same_dims(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The rule of primitives that take or move parts of their first operand: a loop over a
    dimension of a result goes over the same one of the operand, and no further than it."""
    x, *rest = eqn.inputs
    shape = x.type.shape
    found = [
        r._replace(
            walk=tuple(
                s if s.dim < 0 else s._replace(extent=min(s.extent, shape[s.dim])) for s in r.walk
            ),
            source=None,
        )
        for reads in demands
        for r in reads
    ]
    return [tuple(found), *((full_read(y.type),) for y in rest)]


def same_moves(eqn: Equation, result: int) -> tuple[int, tuple[int, ...]]:
    """The data-movement rule of primitives whose results have the first operand's dimensions."""
    return 0, tuple(range(eqn.inputs[0].type.ndim))


def reads_of_program(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The rule of primitives that run their `jaxpr` once on their operands."""
    return inner(eqn.params["jaxpr"], demands)


def moves_of_program(eqn: Equation, result: int) -> Any:
    """The data-movement rule of primitives that run their `jaxpr` once on their operands."""
    return eqn.params["jaxpr"], result


def regrouped(walk: Sequence[Step], shape: Sequence[int], other: Sequence[int]) -> list[Step]:
    """A walk over an array of one shape as a walk over the same elements, in row-major order, in
    another shape. Where a loop does not fit into dimensions the result is approximate.

    Args:
        walk: The loops, from the outermost to the innermost.
        shape: The shape that the walk is over.
        other: The other shape, of as many elements.
    """
    parts: dict[int, tuple[int, list[int]]] = {}
    for inside, across in _groups(shape, other):
        for d in inside:
            parts[d] = (prod(shape[e] for e in inside if e > d), across)
    found: list[Step] = []
    for dim, extent, step in walk:
        if dim < 0 or dim not in parts:
            found.append(Step(-1, extent, step))
            continue
        stride, across = parts[dim]
        found += _over(extent, step * stride, [(d, other[d]) for d in across])
    return [s for s in found if s.extent > 1]


def _groups(shape: Sequence[int], other: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of neighbouring dimensions with the same elements in both shapes."""
    groups = []
    i = j = 0
    while i < len(shape) and j < len(other):
        a, b = shape[i], other[j]
        inside, across = [i], [j]
        while a != b:
            if a < b and i + 1 < len(shape):
                i += 1
                a *= shape[i]
                inside.append(i)
            elif j + 1 < len(other):
                j += 1
                b *= other[j]
                across.append(j)
            else:
                break
        groups.append((inside, across))
        i += 1
        j += 1
    return groups


def _over(extent: int, step: int, dims: Sequence[tuple[int, int]]) -> list[Step]:
    """A loop over every `step`-th element of some dimensions, as loops over the dimensions."""
    found: list[Step] = []
    stride = 1
    for i, (dim, length) in enumerate(reversed(dims)):
        last = i == len(dims) - 1
        if step < stride * length or last:
            own = max(1, step // stride)
            room = -(-length // own)
            taken = extent if last else min(extent, room)
            if taken > 1:
                found.append(Step(dim, taken, own))
            extent = -(-extent // taken)
            step = stride * length
            if extent <= 1:
                break
        stride *= length
    return found[::-1]
