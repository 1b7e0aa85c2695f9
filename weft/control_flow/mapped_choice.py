"""Choices that differ between the elements of a mapped axis.

Where all choices can be computed for all elements, a selection picks the rows. Where that would
change effects (a branch not taken would print), a loop over the elements replaces the batched
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft.base.marked_lists import marked, merge, partition
from weft.control_flow.loop_parts import Loop, is_mapped
from weft.control_flow.scan import bind_scan
from weft.core.rules import AxisData, Dims, Mapped, Values
from weft.core.types import type_of
from weft.interpreters.staging import rebuild
from weft.ops.elementwise.families import unary
from weft.ops.elementwise.selection import select
from weft.ops.structural.shape import broadcast_in_dim, move_dim


def map_in_order(
    axis: AxisData,
    args: Values,
    dims: Dims,
    apply: Callable[..., Sequence[Any]],
    name: str,
    unroll: bool = False,
) -> Mapped:
    """Applies `apply` to each element in order and stacks the results; `unroll`: without a loop."""
    flags = is_mapped(dims)
    given, whole = partition(flags, args)
    rows = [move_dim(x, d, 0, axis.size) for x, d in zip(given, marked(flags, dims), strict=True)]

    def element(*values: Any) -> list[Any]:
        return list(apply(*merge(flags, values[len(whole) :], values[: len(whole)])))

    row_types = [type_of(row) for row in rows]
    types = [*map(type_of, whole), *(t.update(shape=t.shape[1:]) for t in row_types)]
    body = rebuild(element, types, name, "vmap")
    loop = Loop(axis.size, False, max(axis.size, 1) if unroll else 1, len(whole), 0)
    outs = bind_scan(body, loop, whole, [], rows)
    return outs, [0] * len(outs)


def select_rows(which: Any, on_true: Any, on_false: Any) -> Any:
    """Selects rows of `on_true` or `on_false` along the first dimension."""
    shape = type_of(on_true).shape
    if len(shape) > 1:
        which = broadcast_in_dim(which, shape, (0,))
    return select(which, on_true, on_false)


def stop_gradient_elsewhere(taken: Any, x: Any) -> Any:
    """`x`, through which derivatives pass in the rows of `taken` only. A branch is computed for all
    rows. In those that do not take it its slope may be infinite, and would make NaN of a zero."""
    return select_rows(taken, x, untaken_p.bind(x))


# Not `stop_gradient`: where `x` is a tangent (the conditional was linearized before it was mapped)
# the operation is transposed. Nobody reads a row that is not taken, so its cotangent is dropped:
# the adjoint of a row that nobody reads, not of the identity.
untaken_p = unary(
    "untaken",
    accepts=dtypes.INEXACT,
    lower=lambda context, x: x,
    transpose=lambda ct, x: None,
    linear=True,
    flops="none",
)
