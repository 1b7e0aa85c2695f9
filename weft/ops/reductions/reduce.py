"""Reductions over whole axes: maximum, minimum, product, and the bitwise ones.

`reduce_sum` is in `shape`, since it undoes a broadcast. Each reduction here is one StableHLO
reduction with the identity of its operation as initial value. The derivative of an extremum is
shared equally among the elements that attain it; that of a product is computed by a tree of
pairwise products, so that it is right (and again differentiable) where elements are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import pass_through
from weft.base import source as sources
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.ops.declare import emit_reduction, primitive, result_type
from weft.ops.elementwise.arithmetic import add, div, eq, mul
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.families import refused_dtype
from weft.ops.elementwise.selection import select
from weft.ops.flops import of_reduction
from weft.ops.indexing.slicing import pad, slice_in_dim
from weft.ops.structural.narrow import accumulator, in_accumulator, in_wide, with_narrow
from weft.ops.structural.shape import (
    broadcast_in_dim,
    reduce_sum,
    reduce_vmap_axes,
    reduced_shape,
    reduction_reads,
    reshape,
    transpose,
)
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_xor"]

Rule = Callable[..., Any]


# ---- identities and combinations, shared with the cumulative and windowed reductions -----------


def highest(dtype: Any) -> Any:
    """The identity of the minimum: infinity, or the largest number if there is none."""
    return _extreme(dtype, 1)


def lowest(dtype: Any) -> Any:
    """The identity of the maximum: minus infinity, or the smallest number if there is none."""
    return _extreme(dtype, -1)


def _extreme(dtype: Any, sign: int) -> Any:
    if dtype == dtypes.bool_:
        return np.bool_(sign > 0)
    if dtypes.is_integer(dtype) or dtype in dtypes.NARROW:  # some narrow ones have no infinity
        limits = dtypes.iinfo(dtype) if dtypes.is_integer(dtype) else dtypes.finfo(dtype)
        return dtype.type(limits.max if sign > 0 else limits.min)
    infinite = float("inf") * sign
    return dtype.type(complex(infinite, infinite) if dtype in dtypes.COMPLEX else infinite)


def all_ones(dtype: Any) -> Any:
    """The identity of the bitwise and: every bit set."""
    if dtype == dtypes.bool_ or dtype in dtypes.UNSIGNED:
        return highest(dtype)
    return dtype.type(-1)


def larger(x: Any, y: Any) -> Any:
    """The StableHLO maximum; complex numbers are ordered by real, then imaginary part."""
    return _extremum(x, y, "GT", stablehlo.maximum)


def smaller(x: Any, y: Any) -> Any:
    """The StableHLO minimum; complex numbers are ordered by real, then imaginary part."""
    return _extremum(x, y, "LT", stablehlo.minimum)


def _extremum(x: Any, y: Any, direction: str, real: Callable[[Any, Any], Any]) -> Any:
    if stablehlo.dtype_of(x.type.element_type) not in dtypes.COMPLEX:
        return real(x, y)
    a, b = stablehlo.real(x), stablehlo.real(y)
    tie = stablehlo.compare(stablehlo.imag(x), stablehlo.imag(y), direction)
    first = stablehlo.select(stablehlo.compare(a, b, "EQ"), tie, stablehlo.compare(a, b, direction))
    # NaN goes first, so that it propagates.
    first = stablehlo.or_(first, stablehlo.compare(x, x, "NE"))
    return stablehlo.select(first, x, y)


# ---- the family --------------------------------------------------------------------------------


def reduction(
    name: str,
    *,
    accepts: frozenset[Any],
    identity: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    jvp: Rule | None = None,
    both: Rule | None = None,
    rounds: bool = False,
    **facts: Any,
) -> Primitive:
    """A primitive that combines the elements along `axes`, which are dropped. `jvp(tangent, result,
    x, axes)` gives the tangent of the result, or `both(tangent, x, axes)` the result and its
    tangent. A combination that `rounds` is computed in a wider dtype."""
    made = Primitive(name)

    def type_rule(x: ArrayType, *, axes: tuple[int, ...]) -> ArrayType:
        check_dtype(name, x, accepts)
        return result_type((x,), reduced_shape(x, axes, name), x.dtype, x.weak_type)

    def reduction_jvp(
        primals: Values, tangents: Values, *, axes: tuple[int, ...]
    ) -> tuple[Any, Any]:
        if both is not None and type(tangents[0]) is not Zero and type_of(primals[0]).size:
            return both(tangents[0], primals[0], axes)
        out = made.bind(*primals, axes=axes)
        if jvp is None or type(tangents[0]) is Zero:
            return out, Zero(type_of(out).tangent())
        return out, jvp(tangents[0], out, primals[0], axes)

    def vmap(axis: AxisData, args: Values, dims: Dims, *, axes: tuple[int, ...]) -> tuple[Any, int]:
        assert dims[0] is not None
        moved, dim = reduce_vmap_axes(axes, dims[0])
        return made.bind(args[0], axes=moved), dim

    def lower(context: Any, x: Any, *, axes: tuple[int, ...]) -> Any:
        dtype = context.in_types[0].dtype
        return emit_reduction(x, stablehlo.constant(identity(dtype), (), dtype), axes, combine)

    return primitive(
        made,
        type_rule=type_rule,
        jvp=reduction_jvp,
        vmap=vmap,
        reads=reduction_reads,
        lower=(in_accumulator if rounds else in_wide)(lower),
        fuses_operands=True,
        **facts,
    )


def check_dtype(name: str, x: ArrayType, accepts: frozenset[Any]) -> None:
    """Raises DTypeError for a dtype that is neither accepted nor a narrow one of those kinds."""
    if x.dtype not in with_narrow(accepts):
        raise refused_dtype(name, x.dtype, (x,), accepts)


def bind_axes(made: Primitive, x: Any, axes: Sequence[int]) -> Any:
    """Applies a reduction; over no axes it is the identity."""
    axes = tuple(axes)
    return made.bind(x, axes=axes) if axes else pass_through(x)


# ---- maximum and minimum -----------------------------------------------------------------------


def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The maximum over the given axes, which are dropped; NaN where an element is NaN.

    Over no elements it is the lowest value of the dtype. Raises AxisError and DTypeError.

    >>> import numpy as np
    >>> print(reduce_max(np.array([[1, 5], [4, 2]]), (1,)))
    [5 4]
    """
    return bind_axes(reduce_max_p, operand, axes)


def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The minimum over the given axes, which are dropped; NaN where an element is NaN.

    Over no elements it is the highest value of the dtype. Raises AxisError and DTypeError.

    >>> lax.reduce_min(np.array([[1, 2], [3, 0]]), (1,))
    Array([1, 0], dtype=int32)
    """
    return bind_axes(reduce_min_p, operand, axes)


def largest_below_sum(x: Any, axes: Sequence[int]) -> Any:
    """The maximum, constant to derivatives, to subtract before a sum of exponentials.

    It need not keep NaN, since the sum is NaN anyway: the compiler may use its fastest loop.
    """
    with sources.with_metadata(((sources.NAN_ELSEWHERE, "true"),)):
        return stop_gradient(reduce_max(x, axes))


def restore_axes(reduced: Any, shape: Sequence[int], axes: Sequence[int]) -> Any:
    """Repeats the result of a reduction along the axes that were dropped."""
    kept = tuple(d for d in range(len(shape)) if d not in axes)
    return broadcast_in_dim(reduced, tuple(shape), kept)


def extremum_jvp(t: Any, ans: Any, x: Any, axes: tuple[int, ...]) -> Any:
    type = type_of(x)
    attained = eq(x, restore_axes(ans, type.shape, axes))
    # Sum and count are divided before the quotient is rounded to 16 bits.
    dtype = accumulator(type.dtype)
    count = reduce_sum(convert_element_type(attained, dtype), axes)
    shared = convert_element_type(select(attained, t, zeros(type)), dtype)
    return convert_element_type(div(reduce_sum(shared, axes), count), type.dtype)


reduce_max_p = reduction(
    "reduce_max",
    accepts=dtypes.ANY,
    identity=lowest,
    combine=larger,
    jvp=extremum_jvp,
    makes_no_nan=True,
    flops=of_reduction(),
)
reduce_min_p = reduction(
    "reduce_min",
    accepts=dtypes.ANY,
    identity=highest,
    combine=smaller,
    jvp=extremum_jvp,
    makes_no_nan=True,
    flops=of_reduction(),
)


# ---- product -----------------------------------------------------------------------------------


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The product over the given axes, which are dropped. Raises AxisError and DTypeError.

    >>> import numpy as np
    >>> print(reduce_prod(np.array([[1, 5], [4, 2]]), (0,)))
    [ 4 10]
    """
    return bind_axes(reduce_prod_p, operand, axes)


def axes_to_front(x: Any, axes: Sequence[int]) -> Any:
    """Merges the reduced axes into one leading dimension."""
    shape = type_of(x).shape
    kept = [d for d in range(len(shape)) if d not in axes]
    moved = transpose(x, (*axes, *kept))
    return reshape(moved, (prod(shape[d] for d in axes), *(shape[d] for d in kept)))


def halves(x: Any, fill: Any) -> tuple[Any, Any]:
    """The two halves along the leading dimension, padded at the end if its length is odd."""
    shape = type_of(x).shape
    if shape[0] % 2:
        x = pad(x, fill, ((0, 1, 0), *((0, 0, 0),) * (len(shape) - 1)))
    middle = (shape[0] + 1) // 2
    return slice_in_dim(x, 0, middle), slice_in_dim(x, middle, None)


def reduce_prod_and_jvp(t: Any, x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """By halves, whose products the derivative needs too."""
    of, shape = type_of(x), reduced_shape(type_of(x), axes, "reduce_prod")
    dtype = accumulator(of.dtype)
    x, t = (axes_to_front(convert_element_type(v, dtype, of.weak_type), axes) for v in (x, t))
    while type_of(x).shape[0] > 1:
        left, right = halves(x, dtype.type(1))
        t_left, t_right = halves(t, dtype.type(0))
        t = add(mul(t_left, right), mul(left, t_right))
        x = mul(left, right)
    x, t = (convert_element_type(v, of.dtype, of.weak_type) for v in (x, t))
    return reshape(x, shape), reshape(t, shape)


reduce_prod_p = reduction(
    "reduce_prod",
    accepts=dtypes.NUMERIC,
    identity=lambda dtype: dtype.type(1),
    combine=stablehlo.multiply,
    both=reduce_prod_and_jvp,
    rounds=True,
    flops=of_reduction(product=True),
)


# ---- bitwise -----------------------------------------------------------------------------------


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise (of booleans: logical) and over the given axes, which are dropped.

    >>> lax.reduce_and(np.array([[True, False], [True, True]]), (0,))
    Array([ True, False], dtype=bool)
    """
    return bind_axes(reduce_and_p, operand, axes)


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise (of booleans: logical) or over the given axes, which are dropped.

    >>> lax.reduce_or(np.array([[True, False], [False, False]]), (0,))
    Array([ True, False], dtype=bool)
    """
    return bind_axes(reduce_or_p, operand, axes)


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """The bitwise (of booleans: logical) exclusive or over the given axes, which are dropped.

    >>> lax.reduce_xor(np.array([1, 3]), (0,))
    Array(2, dtype=int32)
    """
    return bind_axes(reduce_xor_p, operand, axes)


reduce_and_p = reduction(
    "reduce_and", accepts=dtypes.BITS, identity=all_ones, combine=stablehlo.and_, flops="none"
)
reduce_or_p = reduction(
    "reduce_or",
    accepts=dtypes.BITS,
    identity=lambda dtype: dtype.type(0),
    combine=stablehlo.or_,
    flops="none",
)
reduce_xor_p = reduction(
    "reduce_xor",
    accepts=dtypes.BITS,
    identity=lambda dtype: dtype.type(0),
    combine=stablehlo.xor,
    flops="none",
)
