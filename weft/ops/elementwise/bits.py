"""Bitwise operations on integers, which on booleans are the logical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.ops.elementwise.families import apply, binary, repeat_scalars, unary
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "mulhi", "population_count",
    "shift_left", "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip


def bitwise_not(x: ArrayLike) -> Array:
    """Elementwise complement of all bits; of booleans, the negation.

    >>> lax.bitwise_not(np.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return not_p.bind(x)


not_p = unary("not", accepts=dtypes.BITS, lower="stablehlo.not", cheap=True, flops="none")


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits that both operands have.

    >>> lax.bitwise_and(np.array([6, 5]), np.array([3, 4]))
    Array([2, 4], dtype=int32)
    """
    return apply(and_p, x, y)


and_p = binary("and", accepts=dtypes.BITS, lower="stablehlo.and", cheap=True, flops="none")


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits that either operand has.

    >>> lax.bitwise_or(np.array([6, 5]), np.array([3, 4]))
    Array([7, 5], dtype=int32)
    """
    return apply(or_p, x, y)


or_p = binary("or", accepts=dtypes.BITS, lower="stablehlo.or", cheap=True, flops="none")


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits in which the operands differ.

    >>> lax.bitwise_xor(np.array([6, 5]), np.array([3, 4]))
    Array([5, 1], dtype=int32)
    """
    return apply(xor_p, x, y)


xor_p = binary("xor", accepts=dtypes.BITS, lower="stablehlo.xor", cheap=True, flops="none")


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Elementwise upper half of the bits of the product of integers, which has twice as many.

    >>> lax.mulhi(np.array([2**30, -7], np.int32), np.array([8, 1], np.int32))
    Array([ 2, -1], dtype=int32)
    """
    return apply(mulhi_p, x, y)


def mulhi_lower(context: Any, *values: Any) -> Any:
    (out,) = context.out_types
    x, y = repeat_scalars(context, values, out.shape)
    if dtypes.itemsize_bits(out.dtype) < 64:
        bits = dtypes.itemsize_bits(out.dtype)
        wide = np.dtype(np.int64 if out.dtype.kind == "i" else np.uint64)
        product = stablehlo.multiply(stablehlo.convert(x, wide), stablehlo.convert(y, wide))
        return stablehlo.convert(shift_right_by(product, bits, wide), out.dtype)
    # By halves: the product of the upper ones, and what the products of the others carry.
    half = stablehlo.full(2**32 - 1, out.shape, out.dtype)
    (x_up, x_low), (y_up, y_low) = (
        (shift_right_by(v, 32, out.dtype), stablehlo.op1("stablehlo.and", (v, half), v.type))
        for v in (x, y)
    )
    unsigned = np.dtype(np.uint64)
    low = stablehlo.multiply(x_low, y_low)
    carried = stablehlo.convert(
        shift_right_by(stablehlo.convert(low, unsigned), 32, unsigned), out.dtype
    )
    middle = stablehlo.add(stablehlo.multiply(x_up, y_low), carried)
    rest = stablehlo.op1("stablehlo.and", (middle, half), middle.type)
    other = stablehlo.add(stablehlo.multiply(x_low, y_up), rest)
    upper = stablehlo.multiply(x_up, y_up)
    return stablehlo.add(
        upper,
        stablehlo.add(shift_right_by(middle, 32, out.dtype), shift_right_by(other, 32, out.dtype)),
    )


def shift_right_by(x: Any, bits: int, dtype: Any) -> Any:
    """An integer shifted right; signed ones keep their sign."""
    name = "arithmetic" if np.dtype(dtype).kind == "i" else "logical"
    by = stablehlo.full(bits, x.type.shape, dtype)
    return stablehlo.op1(f"stablehlo.shift_right_{name}", (x, by), x.type)


mulhi_p = binary("mulhi", accepts=dtypes.INTEGER, lower=mulhi_lower, flops="none")


def population_count(x: ArrayLike) -> Array:
    """Elementwise number of bits that are set, in the dtype of the integers.

    >>> lax.population_count(np.array([7, 8]))
    Array([3, 1], dtype=int32)
    """
    return population_count_p.bind(x)


population_count_p = unary(
    "population_count", accepts=dtypes.INTEGER, lower="stablehlo.popcnt", narrow=False, flops="none"
)


def clz(x: ArrayLike) -> Array:
    """Elementwise number of zero bits before the first that is set, in the integers' dtype.

    >>> lax.clz(np.array([1, 8], np.int32))
    Array([31, 28], dtype=int32)
    """
    return clz_p.bind(x)


clz_p = unary(
    "clz", accepts=dtypes.INTEGER, lower="stablehlo.count_leading_zeros", narrow=False, flops="none"
)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted up by y; 0 where y is the width or more.

    >>> lax.shift_left(np.array([1, 3]), np.array([2, 1]))
    Array([4, 6], dtype=int32)
    """
    return apply(shift_left_p, x, y)


shift_left_p = binary(
    "shift_left", accepts=dtypes.INTEGER, lower="stablehlo.shift_left", flops="none"
)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted down by y, filled up with its sign bit.

    >>> lax.shift_right_arithmetic(np.array([-8, 8]), np.array([1, 1]))
    Array([-4,  4], dtype=int32)
    """
    return apply(shift_right_arithmetic_p, x, y)


shift_right_arithmetic_p = binary(
    "shift_right_arithmetic",
    accepts=dtypes.INTEGER,
    lower="stablehlo.shift_right_arithmetic",
    flops="none",
)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted down by y, filled up with zeros.

    >>> lax.shift_right_logical(np.array([8, 9]), np.array([1, 1]))
    Array([4, 4], dtype=int32)
    """
    return apply(shift_right_logical_p, x, y)


shift_right_logical_p = binary(
    "shift_right_logical",
    accepts=dtypes.INTEGER,
    lower="stablehlo.shift_right_logical",
    narrow=False,
    flops="none",
)
