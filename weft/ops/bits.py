"""Operations on the bits of integers, which on booleans are those of logic."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.ops.families import nary, operands, unary

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "clz",
    "population_count",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
]


def bitwise_not(x: Any) -> Any:
    """Elementwise complement of all bits; of booleans, the other one."""
    return not_p.bind(x)


not_p = unary("not", accepts=dtypes.BITS, lower="stablehlo.not")


def bitwise_and(x: Any, y: Any) -> Any:
    """Elementwise bits that both operands have."""
    return and_p.bind(*operands("and", x, y))


and_p = nary("and", arity=2, accepts=dtypes.BITS, lower="stablehlo.and")


def bitwise_or(x: Any, y: Any) -> Any:
    """Elementwise bits that either operand has."""
    return or_p.bind(*operands("or", x, y))


or_p = nary("or", arity=2, accepts=dtypes.BITS, lower="stablehlo.or")


def bitwise_xor(x: Any, y: Any) -> Any:
    """Elementwise bits in which the operands differ."""
    return xor_p.bind(*operands("xor", x, y))


xor_p = nary("xor", arity=2, accepts=dtypes.BITS, lower="stablehlo.xor")


def population_count(x: Any) -> Any:
    """Elementwise number of bits that are set, in the dtype of the integers."""
    return population_count_p.bind(x)


population_count_p = unary("population_count", accepts=dtypes.INTEGER, lower="stablehlo.popcnt")


def clz(x: Any) -> Any:
    """Elementwise number of zero bits before the first that is set, in the integers' dtype."""
    return clz_p.bind(x)


clz_p = unary("clz", accepts=dtypes.INTEGER, lower="stablehlo.count_leading_zeros")


def shift_left(x: Any, y: Any) -> Any:
    """Elementwise x with its bits moved y places up; 0 where y is the width or more."""
    return shift_left_p.bind(*operands("shift_left", x, y))


shift_left_p = nary("shift_left", arity=2, accepts=dtypes.INTEGER, lower="stablehlo.shift_left")


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """Elementwise x with its bits moved y places down, filled up with its sign bit."""
    return shift_right_arithmetic_p.bind(*operands("shift_right_arithmetic", x, y))


shift_right_arithmetic_p = nary(
    "shift_right_arithmetic",
    arity=2,
    accepts=dtypes.INTEGER,
    lower="stablehlo.shift_right_arithmetic",
)


def shift_right_logical(x: Any, y: Any) -> Any:
    """Elementwise x with its bits moved y places down, filled up with zeros."""
    return shift_right_logical_p.bind(*operands("shift_right_logical", x, y))


shift_right_logical_p = nary(
    "shift_right_logical",
    arity=2,
    accepts=dtypes.INTEGER,
    lower="stablehlo.shift_right_logical",
)
