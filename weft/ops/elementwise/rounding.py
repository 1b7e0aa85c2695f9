"""Rounding, neighbouring numbers, and the test for finite ones."""

from __future__ import annotations

import enum
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import Fix
from weft.errors.argument_errors import invalid_value
from weft.ops.elementwise.families import apply, binary, emit_with, floating
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["RoundingMethod", "ceil", "floor", "is_finite", "nextafter", "round"]


class RoundingMethod(enum.IntEnum):
    """The ways in which `round` treats numbers halfway between two whole ones."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def floor(x: ArrayLike) -> Array:
    """Elementwise largest whole number that is not larger, of floating-point numbers.

    >>> lax.floor(np.array([1.2, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """
    return floor_p.bind(x)


floor_p = floating(
    "floor", lower="stablehlo.floor", cheap=True, keeps_zero=True, makes_no_nan=True, flops="none"
)


def ceil(x: ArrayLike) -> Array:
    """Elementwise smallest whole number that is not smaller, of floating-point numbers.

    >>> lax.ceil(np.array([1.2, -1.2]))
    Array([ 2., -1.], dtype=float32)
    """
    return ceil_p.bind(x)


ceil_p = floating(
    "ceil", lower="stablehlo.ceil", cheap=True, keeps_zero=True, makes_no_nan=True, flops="none"
)


def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Elementwise nearest whole number, of floating-point numbers.

    `rounding_method` says where halves go. Raises WeftValueError for an unknown method.

    rounding_method: where halves go: `RoundingMethod.AWAY_FROM_ZERO` (the default) or
    `RoundingMethod.TO_NEAREST_EVEN`.

    >>> import weft.lax as lax
    >>> lax.round(2.5), lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    try:
        method = RoundingMethod(rounding_method)
    except ValueError:
        message, wanted = "round: this is no rounding method", "a member of weft.lax.RoundingMethod"
        fix = Fix("argument", "use weft.lax.RoundingMethod.TO_NEAREST_EVEN or AWAY_FROM_ZERO")
        name = "rounding_method"
        raise invalid_value(message, "round", name, rounding_method, wanted, fix=fix) from None
    return round_p.bind(x, rounding_method=method)


def round_lower(context: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    if rounding_method is RoundingMethod.AWAY_FROM_ZERO:
        return stablehlo.round_nearest_afz(x)
    return stablehlo.round_nearest_even(x)


round_p = floating("round", lower=round_lower, keeps_zero=True, makes_no_nan=True, flops="none")


def is_finite(x: ArrayLike) -> Array:
    """Elementwise whether a floating-point number is neither infinite nor NaN.

    >>> lax.is_finite(np.array([1.0, np.inf, np.nan]))
    Array([ True, False, False], dtype=bool)
    """
    return is_finite_p.bind(x)


is_finite_p = floating(
    "is_finite",
    lower=emit_with(stablehlo.is_finite),
    result_dtype=lambda dtype: dtypes.bool_,
    cheap=True,
    flops="none",
)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Elementwise neighbour of x1, in its dtype, on the side of x2.

    x1: the floating-point numbers whose neighbours are wanted; x2: the numbers that say on which
    side, of the shape and dtype of x1.

    >>> lax.nextafter(np.float32(1.0), np.float32(2.0)) - np.float32(1.0)
    Array(1.1920929e-07, dtype=float32)
    """
    return apply(nextafter_p, x1, x2)


nextafter_p = binary(
    "nextafter",
    accepts=dtypes.FLOATING,
    lower=emit_with(stablehlo.next_after),
    narrow=False,
    flops="none",
)
