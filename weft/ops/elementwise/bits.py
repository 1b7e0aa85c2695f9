"""Bitwise operations on integers, which on booleans are the logical ones."""

from __future__ import annotations

from weft import dtypes
from weft.arrays.array import Array
from weft.ops.elementwise.families import binary, operands, unary
from weft.typing import ArrayLike

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "population_count",
    "shift_left", "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip


def bitwise_not(x: ArrayLike) -> Array:
    """Elementwise complement of all bits; of booleans, the negation.

    >>> lax.bitwise_not(np.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return not_p.bind(x)


not_p = unary("not", accepts=dtypes.BITS, lower="stablehlo.not")


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits that both operands have.

    >>> lax.bitwise_and(np.array([6, 5]), np.array([3, 4]))
    Array([2, 4], dtype=int32)
    """
    return and_p.bind(*operands("and", x, y))


and_p = binary("and", accepts=dtypes.BITS, lower="stablehlo.and")


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits that either operand has.

    >>> lax.bitwise_or(np.array([6, 5]), np.array([3, 4]))
    Array([7, 5], dtype=int32)
    """
    return or_p.bind(*operands("or", x, y))


or_p = binary("or", accepts=dtypes.BITS, lower="stablehlo.or")


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise bits in which the operands differ.

    >>> lax.bitwise_xor(np.array([6, 5]), np.array([3, 4]))
    Array([5, 1], dtype=int32)
    """
    return xor_p.bind(*operands("xor", x, y))


xor_p = binary("xor", accepts=dtypes.BITS, lower="stablehlo.xor")


def population_count(x: ArrayLike) -> Array:
    """Elementwise number of bits that are set, in the dtype of the integers.

    >>> lax.population_count(np.array([7, 8]))
    Array([3, 1], dtype=int32)
    """
    return population_count_p.bind(x)


population_count_p = unary(
    "population_count", accepts=dtypes.INTEGER, lower="stablehlo.popcnt", narrow=False
)


def clz(x: ArrayLike) -> Array:
    """Elementwise number of zero bits before the first that is set, in the integers' dtype.

    >>> lax.clz(np.array([1, 8], np.int32))
    Array([31, 28], dtype=int32)
    """
    return clz_p.bind(x)


clz_p = unary("clz", accepts=dtypes.INTEGER, lower="stablehlo.count_leading_zeros", narrow=False)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted up by y; 0 where y is the width or more.

    >>> lax.shift_left(np.array([1, 3]), np.array([2, 1]))
    Array([4, 6], dtype=int32)
    """
    return shift_left_p.bind(*operands("shift_left", x, y))


shift_left_p = binary("shift_left", accepts=dtypes.INTEGER, lower="stablehlo.shift_left")


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted down by y, filled up with its sign bit.

    >>> lax.shift_right_arithmetic(np.array([-8, 8]), np.array([1, 1]))
    Array([-4,  4], dtype=int32)
    """
    return shift_right_arithmetic_p.bind(*operands("shift_right_arithmetic", x, y))


shift_right_arithmetic_p = binary(
    "shift_right_arithmetic", accepts=dtypes.INTEGER, lower="stablehlo.shift_right_arithmetic"
)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x with its bits shifted down by y, filled up with zeros.

    >>> lax.shift_right_logical(np.array([8, 9]), np.array([1, 1]))
    Array([4, 4], dtype=int32)
    """
    return shift_right_logical_p.bind(*operands("shift_right_logical", x, y))


shift_right_logical_p = binary(
    "shift_right_logical",
    accepts=dtypes.INTEGER,
    lower="stablehlo.shift_right_logical",
    narrow=False,
)
