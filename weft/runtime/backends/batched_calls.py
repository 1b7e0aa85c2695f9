"""Calls of LAPACK for a batch of matrices, in parts so small that none waits for other threads.

jaxlib before 0.11.2 splits the batch of a call over the threads of XLA's pool, and the thread that
calls waits for them. Where all threads of the pool wait in such calls at once (of operations that
do not depend on each other, of several devices, of executables that run at once), no thread is left
to do the work, and the process hangs for ever. jaxlib does not split a call whose work it estimates
as too little, or which is for one matrix: such a call is done where it is and never waits. So a
batch is taken apart here, and XLA, which runs operations that do not depend on each other on
different threads, runs the parts at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.runtime.jaxlib.native import version
from weft.runtime.stablehlo import elementwise, regions, structural
from weft.runtime.stablehlo.mlir import dtype_of, ir, ranked

Call = Callable[[Sequence[ir.Value], Sequence[ir.Type]], list[ir.Value]]
"""Emits a call with operands and types of results, each with one batch dimension in front."""

Split = Callable[[ir.Value], ir.Value]
"""Has XLA split the first dimension of a value evenly over the devices."""

# From this release on, jaxlib never splits a batch.
_UNSPLIT_SINCE = (0, 11, 2)
# With fewer operations than these, by its own estimate, jaxlib does not split a call.
_WORTH_SPLITTING = 200_000
_NEVER_SPLIT = frozenset({"tridiagonal_solve_perturbed"})
# Operations for a matrix, over rows x columns x the smaller of both: as many as jaxlib estimates,
# or more.
_FACTORS = {
    "potrf": 1, "getrf": 1, "geqrf": 2, "geqp3": 2, "gesdd": 10, "gesvd": 10, "syevd": 5,
    "heevd": 4, "geev": 10, "gees": 5, "gehrd": 2, "sytrd": 2, "hetrd": 2,
}  # fmt: skip

# XLA runs a computation of at most eight operations on one thread, so fewer parts would not run at
# once. More parts than the larger number are done in rounds: each is compiled.
_FEWEST_PARTS, _MOST_PARTS = 9, 16


def most_in_place(routine: str, dtype: Any, shapes: Sequence[tuple[int, ...]]) -> int:
    """The number of matrices up to which a call never waits for other threads. `shapes` are those
    of the operands without batch dimensions."""
    if version >= _UNSPLIT_SINCE or routine in _NEVER_SPLIT:
        return 2**62
    return max(1, (_WORTH_SPLITTING - 1) // max(1, _operation_count(routine, dtype, shapes)))


def _operation_count(routine: str, dtype: Any, shapes: Sequence[tuple[int, ...]]) -> int:
    """An upper bound of jaxlib's estimate of the operations for one matrix."""
    if routine == "trsm":
        count = math.prod(shapes[1]) * shapes[0][-1]
    elif routine in ("orgqr", "ungqr", "ormqr", "unmqr"):
        count = 4 * math.prod(shapes[2 if len(shapes) > 2 else 0]) * shapes[1][-1]
    elif routine == "gtsv":
        count = 5 * math.prod(shapes[-1])
    elif routine in _FACTORS:
        count = _FACTORS[routine] * math.prod(shapes[0]) * min(shapes[0])
        count = count // 3 if routine == "potrf" else count
    else:  # unknown: one matrix at a time
        return _WORTH_SPLITTING
    return count * (3 if np.dtype(dtype).kind == "c" else 1)


def in_parts(
    call: Call,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    num_batch_dims: int,
    most: int,
    devices: tuple[int, Split],
) -> list[ir.Value]:
    """The results for a batch, by calls for at most `most` matrices on a device. `devices` are the
    number of devices over which XLA may split the first dimension, and what makes it do so."""
    num_devices, split = devices
    # Matrices lie column by column for LAPACK: they are transposed once here, not in every part.
    call = functools.partial(_of_transposed, call)
    batch = tuple(result_types[0].shape[:num_batch_dims])
    total = math.prod(batch)
    groups = _group_count(batch[0], total // batch[0], most, num_devices)
    shape = (groups, batch[0] // groups, total // batch[0]) if groups else (total,)
    values = [_transpose_matrices(x, num_batch_dims) for x in operands]
    values = [structural.reshape(x, (*shape, *x.type.shape[num_batch_dims:])) for x in values]
    own = [x.shape[num_batch_dims:] for x in result_types]
    types = [
        ranked((*shape, *reversed(rows)), x.element_type)
        for x, rows in zip(result_types, own, strict=True)
    ]
    if groups:
        found = _loop(functools.partial(_of_each_group, call, split), values, types, axis=1, step=1)
    else:
        found = _in_rounds(call, values, types, most)
    found = [structural.reshape(x, (*batch, *x.type.shape[len(shape) :])) for x in found]
    return [_transpose_matrices(x, num_batch_dims) for x in found]


def _of_transposed(
    call: Call, operands: Sequence[ir.Value], result_types: Sequence[ir.Type]
) -> list[ir.Value]:
    """Calls with transposed matrices, and transposes the results."""
    given = [_transpose_matrices(x, 1) for x in operands]
    types = [ranked((x.shape[0], *reversed(x.shape[1:])), x.element_type) for x in result_types]
    return [_transpose_matrices(x, 1) for x in call(given, types)]


def _transpose_matrices(x: ir.Value, num_batch_dims: int) -> ir.Value:
    """Transposes each matrix; vectors and numbers stay."""
    rank = x.type.rank
    if rank < num_batch_dims + 2:
        return x
    return structural.transpose(x, (*range(num_batch_dims), rank - 1, rank - 2))


def _in_rounds(
    call: Call, operands: Sequence[ir.Value], result_types: Sequence[ir.Type], most: int
) -> list[ir.Value]:
    total = result_types[0].shape[0]
    count = max(min(_FEWEST_PARTS, total), -(-total // most))
    if count <= _MOST_PARTS:
        return _at_once(call, -(-total // count), operands, result_types)
    rounds = -(-total // (most * _MOST_PARTS))
    size = -(-total // (rounds * _MOST_PARTS))
    run = functools.partial(_at_once, call, size)
    return _loop(run, operands, result_types, axis=0, step=size * _MOST_PARTS)


def _at_once(
    call: Call, size: int, operands: Sequence[ir.Value], result_types: Sequence[ir.Type]
) -> list[ir.Value]:
    """Calls for parts of `size` matrices each, and for the remainder."""
    total = result_types[0].shape[0]
    found = []
    for start in range(0, total, size):
        stop = min(start + size, total)
        part = [_slice_rows(x, start, stop) for x in operands]
        found.append(call(part, [_with_length(x, 0, stop - start) for x in result_types]))
    return [structural.concatenate(parts, 0) for parts in zip(*found, strict=True)]


def _group_count(first: int, others: int, most: int, num_devices: int) -> int | None:
    """How many groups the first dimension is taken apart into, for a part with a matrix of each.
    Every device has as many groups. None if there is one device, or where no number fits."""
    if num_devices == 1:
        return None
    fit = range(num_devices, min(first, num_devices * (most // others)) + 1, num_devices)
    return max((n for n in fit if first % n == 0), default=None)


def _of_each_group(
    call: Call, split: Split, operands: Sequence[ir.Value], result_types: Sequence[ir.Type]
) -> list[ir.Value]:
    """One call, on all devices, for operands of shape (groups, 1, others, ...)."""
    count = math.prod(result_types[0].shape[:3])
    given = [split(structural.reshape(x, (count, *x.type.shape[3:]))) for x in operands]
    types = [ranked((count, *x.shape[3:]), x.element_type) for x in result_types]
    found = [split(x) for x in call(given, types)]
    return [structural.reshape(x, kind.shape) for x, kind in zip(found, result_types, strict=True)]


def _loop(
    run: Call, operands: Sequence[ir.Value], result_types: Sequence[ir.Type], axis: int, step: int
) -> list[ir.Value]:
    """Runs on `step` elements along an axis at a time. The last slice overlaps the one before if
    the length is no multiple of `step`."""
    total = result_types[0].shape[axis]
    zero, width, last, end = (
        structural.constant(number, (), np.int32) for number in (0, step, total - step, total)
    )
    empty = [structural.full(0, x.shape, dtype_of(x.element_type)) for x in result_types]
    types = [_with_length(x, axis, step) for x in result_types]

    def body(state: list[ir.Value]) -> list[ir.Value]:
        position, given, made = state[0], state[1 : 1 + len(operands)], state[1 + len(operands) :]
        start = elementwise.minimum(position, last)
        starts = [[start if i == axis else zero for i in range(x.type.rank)] for x in state[1:]]
        part = [
            structural.dynamic_slice(x, at, _with_length(x.type, axis, step).shape)
            for x, at in zip(given, starts[: len(operands)], strict=True)
        ]
        made = [
            structural.dynamic_update_slice(x, new, at)
            for x, new, at in zip(made, run(part, types), starts[len(operands) :], strict=True)
        ]
        return [elementwise.add(position, width), *given, *made]

    def unfinished(state: list[ir.Value]) -> ir.Value:
        return elementwise.compare(state[0], end, "LT")

    return regions.while_([zero, *operands, *empty], unfinished, body)[1 + len(operands) :]


def _slice_rows(x: ir.Value, start: int, stop: int) -> ir.Value:
    shape = x.type.shape
    return structural.slice_(x, (start, *(0 for _ in shape[1:])), (stop, *shape[1:]))


def _with_length(kind: ir.Type, axis: int, size: int) -> ir.Type:
    """The type with another length along an axis."""
    shape = list(kind.shape)
    shape[axis] = size
    return ranked(shape, kind.element_type)
