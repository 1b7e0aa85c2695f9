"""Rounding to whole numbers and to neighbours, and what is finite."""

from __future__ import annotations

import enum
from typing import Any

from weft import dtypes
from weft.errors import Fix, WeftValueError
from weft.ops.families import nary, operands, repeat_scalars, unary
from weft.runtime import stablehlo

__all__ = ["RoundingMethod", "ceil", "floor", "is_finite", "nextafter", "round"]


class RoundingMethod(enum.IntEnum):
    """Where `round` takes what lies halfway between two whole numbers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def floor(x: Any) -> Any:
    """Elementwise largest whole number that is not larger, of floating-point numbers."""
    return floor_p.bind(x)


floor_p = unary("floor", accepts=dtypes.FLOATING, lower="stablehlo.floor")


def ceil(x: Any) -> Any:
    """Elementwise smallest whole number that is not smaller, of floating-point numbers."""
    return ceil_p.bind(x)


ceil_p = unary("ceil", accepts=dtypes.FLOATING, lower="stablehlo.ceil")


def round(x: Any, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Elementwise nearest whole number, of floating-point numbers.

    `rounding_method` says where halves go. Raises WeftValueError for an unknown method.

    >>> import weft.lax as lax
    >>> lax.round(2.5), lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
    (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    try:
        method = RoundingMethod(rounding_method)
    except ValueError:
        raise WeftValueError(
            "round: this is no rounding method",
            operation="round",
            got=repr(rounding_method),
            wanted="a member of weft.lax.RoundingMethod",
            fix=Fix("argument", "use RoundingMethod.TO_NEAREST_EVEN or AWAY_FROM_ZERO", {}),
        ) from None
    return round_p.bind(x, rounding_method=method)


def round_lower(context: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    if rounding_method is RoundingMethod.AWAY_FROM_ZERO:
        return stablehlo.round_nearest_afz(x)
    return stablehlo.round_nearest_even(x)


round_p = unary("round", accepts=dtypes.FLOATING, lower=round_lower)


def is_finite(x: Any) -> Any:
    """Elementwise whether a floating-point number is neither infinite nor NaN."""
    return is_finite_p.bind(x)


def is_finite_lower(context: Any, x: Any) -> Any:
    return stablehlo.is_finite(x)


is_finite_p = unary(
    "is_finite",
    accepts=dtypes.FLOATING,
    lower=is_finite_lower,
    result_dtype=lambda dtype: dtypes.bool_,
)


def nextafter(x: Any, y: Any) -> Any:
    """Elementwise neighbour of x, in its dtype, on the side of y."""
    return nextafter_p.bind(*operands("nextafter", x, y))


def nextafter_lower(context: Any, *values: Any) -> Any:
    return stablehlo.next_after(*repeat_scalars(context, values, context.out_types[0].shape))


nextafter_p = nary("nextafter", arity=2, accepts=dtypes.FLOATING, lower=nextafter_lower)
