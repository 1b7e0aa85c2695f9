"""The make-up of numbers, elementwise: rounding, what is finite, sign, exponent, real and imaginary
parts; and whether arrays are equal or close.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.types import type_of
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.numpy.arguments import check_arrays, refuse_out
from weft.numpy.compiled import compiled
from weft.numpy.elementwise import (
    add,
    constant,
    equal,
    filled,
    maximum,
    minimum,
    same,
    together,
)
from weft.numpy.promotion import Binary, Unary, binary, unary
from weft.ops import arithmetic as lax
from weft.ops import bits, elementary, rounding
from weft.ops import complex as parts
from weft.ops.convert import bitcast_convert_type, convert_element_type
from weft.ops.reduce import reduce_and
from weft.ops.selection import select

__all__ = [
    "allclose",
    "angle",
    "around",
    "array_equal",
    "array_equiv",
    "ceil",
    "clip",
    "conj",
    "conjugate",
    "copysign",
    "fix",
    "floor",
    "frexp",
    "heaviside",
    "imag",
    "isclose",
    "iscomplex",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "ldexp",
    "modf",
    "nan_to_num",
    "nextafter",
    "real",
    "rint",
    "round",
    "signbit",
    "spacing",
    "trunc",
]

BOOLEAN, INTEGER, COMPLEX = dtypes.BOOLEAN, dtypes.INTEGER, dtypes.COMPLEX
INEXACT, FLOATING, NUMERIC = dtypes.INEXACT, dtypes.FLOATING, dtypes.NUMERIC
WHOLE = INTEGER | BOOLEAN


# ---- rounding ----------------------------------------------------------------------------------


def _to_even(x: Any) -> Any:
    return rounding.round(x, rounding.RoundingMethod.TO_NEAREST_EVEN)


@compiled
def _complex_to_even(x: Any) -> Any:
    return parts.complex(_to_even(parts.real(x)), _to_even(parts.imag(x)))


@compiled
def _trunc(x: Any) -> Any:
    return select(lax.lt(x, constant(0, x)), rounding.ceil(x), rounding.floor(x))


floor: Unary = unary(
    "floor",
    {FLOATING: rounding.floor_p.bind, WHOLE: same},
    """The largest whole number that is not larger, elementwise, of real numbers.""",
)
ceil: Unary = unary(
    "ceil",
    {FLOATING: rounding.ceil_p.bind, WHOLE: same},
    """The smallest whole number that is not smaller, elementwise, of real numbers.""",
)
trunc: Unary = unary(
    "trunc",
    {FLOATING: _trunc, WHOLE: same},
    """The whole part, elementwise, of real numbers.""",
)
fix: Unary = trunc
rint: Unary = unary(
    "rint",
    {FLOATING: _to_even, COMPLEX: _complex_to_even},
    """The nearest whole number, halves to even, elementwise, as floating-point numbers.""",
    inexact=True,
)


def _round_scaled(x: Any, decimals: int) -> Any:
    """To a number of decimals, of floating-point numbers."""
    dtype = type_of(x).dtype
    if dtype.itemsize == 2:  # powers of ten soon leave the range of 16 bits
        return convert_element_type(
            _round_scaled(convert_element_type(x, dtypes.float32), decimals), dtype
        )
    if decimals > 0:
        factor = constant(10.0**decimals, x)
        rounded = lax.div(_to_even(lax.mul(x, factor)), factor)
        # What is too large to be scaled has no decimals.
        return select(rounding.is_finite(rounded), rounded, x)
    factor = constant(10.0**-decimals, x)
    return lax.mul(_to_even(lax.div(x, factor)), factor)


@compiled
def _round_floating(x: Any, *, decimals: int) -> Any:
    if type_of(x).dtype in COMPLEX:
        return parts.complex(
            _round_scaled(parts.real(x), decimals), _round_scaled(parts.imag(x), decimals)
        )
    return _round_scaled(x, decimals)


@compiled
def _round_integer(x: Any, *, decimals: int) -> Any:
    """To a multiple of a power of ten, halves to the even multiple."""
    unit = 10**-decimals
    if unit > dtypes.iinfo(type_of(x).dtype).max:
        return filled(0, x)
    rest = lax.rem(x, constant(unit, x))
    low = lax.sub(x, rest)
    odd = lax.ne(lax.rem(lax.div(x, constant(unit, x)), constant(2, x)), constant(0, x))
    size = rest if type_of(x).dtype in dtypes.UNSIGNED else lax.abs(rest)
    half = constant(unit // 2, x)
    tie = bits.bitwise_and(lax.eq(size, half), odd)
    up = bits.bitwise_or(lax.gt(size, half), tie)
    step = select(
        lax.lt(x, constant(0, x)), filled(0, x), filled(unit, x)
    ) if type_of(x).dtype in dtypes.UNSIGNED else lax.mul(lax.sign(x), constant(unit, x))
    return select(up, lax.add(low, step), low)


def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """The elements rounded to a number of decimals, halves to even.

    A negative number of decimals rounds to tens, hundreds, …

    >>> round(np.array([1.25, 1.35]), 1)
    Array([1.2, 1.4], dtype=float32)
    """
    refuse_out("round", out)
    check_arrays("round", a)
    try:
        decimals = operator.index(decimals)
    except TypeError:
        raise WeftTypeError(
            "round takes the number of decimals as an integer",
            operation="round",
            got=f"decimals={decimals!r}",
            wanted="an integer that is known while tracing",
        ) from None
    dtype = type_of(a).dtype
    if dtype in WHOLE:
        if decimals >= 0 or dtype in BOOLEAN:
            return same(a)
        return _round_integer(a, decimals=decimals)
    if decimals == 0:
        return rint(a)
    return _round_floating(a, decimals=decimals)


around = round


# ---- what is finite ----------------------------------------------------------------------------


@compiled
def _no(x: Any) -> Any:
    return lax.ne(x, x)


@compiled
def _yes(x: Any) -> Any:
    return lax.eq(x, x)


def _not_a_number(x: Any) -> Any:
    return lax.ne(x, x)


@compiled
def _infinite(x: Any) -> Any:
    return lax.eq(lax.abs(x), constant(math.inf, x))


@compiled
def _infinite_complex(x: Any) -> Any:
    return bits.bitwise_or(_infinite(parts.real(x)), _infinite(parts.imag(x)))


@compiled
def _finite_complex(x: Any) -> Any:
    return bits.bitwise_and(
        rounding.is_finite(parts.real(x)), rounding.is_finite(parts.imag(x))
    )


isnan: Unary = unary(
    "isnan", {dtypes.ANY: _not_a_number}, """Whether a value is not a number, elementwise."""
)
isfinite: Unary = unary(
    "isfinite",
    {FLOATING: rounding.is_finite_p.bind, COMPLEX: _finite_complex, WHOLE: _yes},
    """Whether a value is neither infinite nor NaN, elementwise.""",
)
isinf: Unary = unary(
    "isinf",
    {FLOATING: _infinite, COMPLEX: _infinite_complex, WHOLE: _no},
    """Whether a value is infinite, elementwise.""",
)
isposinf: Unary = unary(
    "isposinf",
    {FLOATING: lambda x: lax.eq(x, constant(math.inf, x)), WHOLE: _no},
    """Whether a real number is positive infinity, elementwise.""",
)
isneginf: Unary = unary(
    "isneginf",
    {FLOATING: lambda x: lax.eq(x, constant(-math.inf, x)), WHOLE: _no},
    """Whether a real number is negative infinity, elementwise.""",
)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """The values with NaN and infinities replaced.

    nan: what stands for NaN; posinf, neginf: what stands for infinities, by default the largest and
    the smallest finite numbers of the dtype. `copy` is accepted for NumPy's sake.

    >>> nan_to_num(np.array([np.nan, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    check_arrays("nan_to_num", x)
    dtype = type_of(x).dtype
    if dtype not in INEXACT:
        return same(x)
    if dtype in COMPLEX:
        return parts.complex(
            nan_to_num(parts.real(x), copy, nan, posinf, neginf),
            nan_to_num(parts.imag(x), copy, nan, posinf, neginf),
        )
    limits = dtypes.finfo(dtype)
    values = (
        nan,
        float(limits.max) if posinf is None else posinf,
        float(limits.min) if neginf is None else neginf,
    )
    if all(type(value) in (int, float) for value in values):
        low, high, missing = (float(value) for value in (values[2], values[1], values[0]))
        return _replace_constants(x, nan=missing, posinf=high, neginf=low)
    return _replace(x, *(convert_element_type(value, dtype) for value in values))


@compiled
def _replace(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    for bad, value in (
        (lax.ne(x, x), nan),
        (lax.eq(x, constant(math.inf, x)), posinf),
        (lax.eq(x, constant(-math.inf, x)), neginf),
    ):
        x = select(bad, together(x, value)[1], x)
    return x


@compiled
def _replace_constants(x: Any, *, nan: float, posinf: float, neginf: float) -> Any:
    return _replace.function(x, *(constant(value, x) for value in (nan, posinf, neginf)))
