"""The position of the largest or smallest element along an axis.

On the CPU the extremum is found first and then the first position that holds it, two passes that
the compiler vectorizes; elsewhere one reduction carries value and position together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.ops.declare import emit_reduction, primitive, result_type
from weft.ops.reductions.reduce import check_dtype, highest, lowest
from weft.ops.structural.narrow import in_wide
from weft.ops.structural.shape import canonical_axis, reduce_vmap_axes, reduction_reads
from weft.runtime import stablehlo
from weft.typing import ArrayLike


def argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """The position of the maximum along an axis, which is dropped: the first of equal ones.

    NaN counts as the maximum, as in NumPy. `index_dtype` is the integer dtype of the result.
    Raises AxisError, DTypeError, and ShapeError if the axis has no elements.

    >>> import numpy as np
    >>> print(argmax(np.array([[1, 5], [4, 2]]), 1, np.int32))
    [1 0]
    """
    return bind_arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """The position of the minimum along an axis, which is dropped: the first of equal ones.

    NaN counts as the minimum, as in NumPy. `index_dtype` is the integer dtype of the result.
    Raises AxisError, DTypeError, and ShapeError if the axis has no elements.

    >>> lax.argmin(np.array([3.0, 1.0, 2.0]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return bind_arg(argmin_p, operand, axis, index_dtype)


def bind_arg(made: Primitive, x: Any, axis: int, index_dtype: Any) -> Any:
    """Applies argmax or argmin, with the axis counted from the front."""
    axis = canonical_axis(axis, type_of(x).ndim, made.name)
    return made.bind(x, axes=(axis,), index_dtype=dtypes.requested(index_dtype))


def arg_type(name: str, x: ArrayType, axis: int, index_dtype: Any) -> ArrayType:
    """The type of the positions. Raises AxisError, DTypeError and ShapeError."""
    check_dtype(name, x, dtypes.ORDERED)
    axis = canonical_axis(axis, x.ndim, name)
    length = x.shape[axis]
    if not length:
        message, got = f"{name}: an axis without elements has no extremum", f"axis {axis} of {x}"
        raise ShapeError(message, got=got, wanted="an axis of length 1 or more")
    if index_dtype not in dtypes.INTEGER or not dtypes.fits(length - 1, index_dtype):
        raise DTypeError(
            f"{name}: positions along an axis of length {length} do not fit in "
            + dtypes.short_name(index_dtype),
            got=f"index_dtype {dtypes.short_name(index_dtype)}",
            wanted=f"an integer dtype that holds {length - 1}",
            fix=Fix("index_dtype", "pass index_dtype='int32'", {"index_dtype": "int32"}),
        )
    return result_type((x,), x.shape[:axis] + x.shape[axis + 1 :], index_dtype)


def arg_reduction(name: str, direction: str) -> Primitive:
    """Makes the primitive for the position of the extremum in the given direction."""
    made = Primitive(name)

    def type_rule(x: ArrayType, *, axes: tuple[int], index_dtype: Any) -> ArrayType:
        return arg_type(name, x, *axes, index_dtype)

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        out = made.bind(*primals, **params)
        return out, Zero(type_of(out).tangent())

    def vmap(
        axis_data: AxisData, args: Values, dims: Dims, *, axes: tuple[int], index_dtype: Any
    ) -> tuple[Any, int]:
        assert dims[0] is not None
        moved, dim = reduce_vmap_axes(axes, dims[0])
        return made.bind(args[0], axes=moved, index_dtype=index_dtype), dim

    def lower(context: Any, x: Any, *, axes: tuple[int], index_dtype: Any) -> Any:
        return stablehlo.convert(emit_positions(context, x, *axes, direction), index_dtype)

    return primitive(
        made,
        type_rule=type_rule,
        jvp=jvp,
        vmap=vmap,
        reads=reduction_reads,
        lower=in_wide(lower),
        flops="none",
        fuses_operands=True,
    )


def emit_positions(context: Any, x: Any, axis: int, direction: str) -> Any:
    """The positions of the extrema, in a dtype in which they are quick to reduce."""
    type = context.in_types[0]
    worst = (lowest if direction == "GT" else highest)(type.dtype)
    init = stablehlo.constant(worst, (), type.dtype)
    counter = np.dtype(np.int32 if type.shape[axis] < 2**31 else np.int64)
    end = stablehlo.constant(type.shape[axis], (), counter)
    positions = stablehlo.iota(type.shape, counter, axis)
    if context.platform != "cpu":
        pair = stablehlo.reduce(
            [x, positions], [init, end], [axis], lambda a, b: earlier(a, b, direction)
        )
        return pair[1]
    combine = stablehlo.maximum if direction == "GT" else stablehlo.minimum
    best = emit_reduction(x, init, [axis], combine)
    return first_place(x, best, positions, end, type, axis)


def first_place(x: Any, best: Any, positions: Any, end: Any, type: ArrayType, axis: int) -> Any:
    """The first position along the axis where x is `best`, or NaN."""
    kept = [d for d in range(type.ndim) if d != axis]
    held = stablehlo.compare(x, stablehlo.broadcast_in_dim(best, type.shape, kept), "EQ")
    if type.dtype in dtypes.FLOATING:
        held = stablehlo.or_(held, stablehlo.compare(x, x, "NE"))
    outside = stablehlo.broadcast_in_dim(end, type.shape, ())
    candidates = stablehlo.select(held, positions, outside)
    return emit_reduction(candidates, end, [axis], stablehlo.minimum)


def earlier(left: list[Any], right: list[Any], direction: str) -> list[Any]:
    """Selects the (value, position) pair that goes first; the combination commutes."""
    (x, i), (y, j) = left, right
    x_nan, y_nan = stablehlo.compare(x, x, "NE"), stablehlo.compare(y, y, "NE")
    better = stablehlo.or_(
        stablehlo.compare(x, y, direction), stablehlo.and_(x_nan, stablehlo.not_(y_nan))
    )
    equal = stablehlo.or_(stablehlo.compare(x, y, "EQ"), stablehlo.and_(x_nan, y_nan))
    first = stablehlo.or_(better, stablehlo.and_(equal, stablehlo.compare(i, j, "LT")))
    return [stablehlo.select(first, x, y), stablehlo.select(first, i, j)]


argmax_p = arg_reduction("argmax", "GT")
argmin_p = arg_reduction("argmin", "LT")
