"""`scatter_apply`: a function applied to the listed elements of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.control_flow.cond import cond
from weft.control_flow.fori_loop import fori_loop
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.errors.argument_errors import integers_of
from weft.ops.elementwise.arithmetic import lt
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full
from weft.ops.indexing.gather import GatherScatterMode
from weft.ops.indexing.scatter import ScatterDimensionNumbers, gather_at, scatter, scatter_add
from weft.ops.reductions.reduce import reduce_or
from weft.typing import ArrayLike


@api_boundary
def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """The operand with an elementwise function applied at the listed positions.

    A position that is listed several times has it applied as often. `update_shape` is the shape
    that updates there would have; the rest is as in `scatter`, which also says what is raised.

    Args:
        func: An elementwise function of an array of the operand's values at the positions; its
            result is converted to their dtype.
        dimension_numbers: Which dimensions of the operand, the positions and the updates belong
            together.
        mode: What happens to positions out of bounds: nothing, or with "clip" the function is
            applied at the nearest position inside.

    >>> cells = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, places = np.array([1.0, 2.0, 3.0]), np.array([[0], [2], [0]])
    >>> lax.scatter_apply(x, places, lambda x: 10.0 * x, cells, update_shape=(3,))
    Array([100.,   2.,  30.], dtype=float32)
    """
    of, shape = type_of(operand), integers_of(update_shape, "update_shape")
    flags: dict[str, Any] = {
        "indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode
    }  # fmt: skip
    given = (scatter_indices, dimension_numbers)
    # What is dropped by the scatter is clipped here: that value is not used.
    how = flags | {"mode": GatherScatterMode.CLIP, "dimension_numbers": dimension_numbers}
    values = apply_in_dtype(func, gather_at(operand, scatter_indices, shape, **how))
    most = prod(type_of(scatter_indices).shape[:-1])
    if most > 1 and not unique_indices:
        ones = full(shape, 1, np.int32)
        counts = scatter_add(full(of.shape, 0, np.int32), given[0], ones, given[1], **flags)
        times = gather_at(counts, scatter_indices, shape, **how)

        def again(i: Any, values: Any) -> Any:
            more = lt(i, times)
            # No derivative of the others passes through `func`, where it might be infinite.
            new = apply_in_dtype(func, select(more, values, stop_gradient(values)))
            return select(more, new, values)

        def step(i: Any, values: Any) -> Any:
            some = reduce_or(lt(i, times), tuple(range(len(shape))))
            return cond(some, again, lambda i, values: values, i, values)

        values = fori_loop(np.int32(1), np.int32(most), step, values)
    return scatter(operand, scatter_indices, values, dimension_numbers, **flags)


def apply_in_dtype(func: Callable[[Any], Any], values: Any) -> Any:
    """The function of the values, in their dtype."""
    return convert_element_type(func(values), type_of(values).dtype)
