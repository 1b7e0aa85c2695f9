"""Parts and classes of numbers, elementwise: rounding, finiteness, sign and exponent, real and
imaginary parts.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Annotated, Any, cast

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, WeftTypeError
from weft.errors.argument_errors import refusal
from weft.kinds.arguments import NEVER, Flag, Operand, Out, Prepared, copy_kind, operand_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, convert, inexact
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import as_operand
from weft.numpy.elementwise import constant, constant_like, same, together
from weft.numpy.promotion import BinaryUfunc, Unary, UnaryUfunc, binary_ufunc, unary, unary_ufunc
from weft.numpy.ufuncs import ufunc_of
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import bits, elementary, rounding
from weft.ops.elementwise import complex as parts
from weft.ops.elementwise.convert import bitcast_convert_type, convert_element_type, stop_gradient
from weft.ops.elementwise.selection import select

__all__ = [
    "angle", "around", "ceil", "conj", "conjugate", "copysign", "fix", "floor", "frexp",
    "heaviside", "imag", "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
    "isreal", "ldexp", "modf", "nan_to_num", "nextafter", "real", "rint", "round", "signbit",
    "spacing", "trunc",
]  # fmt: skip

BOOLEAN, INTEGER, COMPLEX = dtypes.BOOLEAN, dtypes.INTEGER, dtypes.COMPLEX
INEXACT, FLOATING, NUMERIC = dtypes.INEXACT, dtypes.FLOATING, dtypes.NUMERIC
WHOLE = INTEGER | BOOLEAN


def _to_even(x: Any) -> Any:
    return rounding.round(x, rounding.RoundingMethod.TO_NEAREST_EVEN)


@array_function
def _complex_to_even(x: Prepared) -> Any:
    return parts.complex(_to_even(x.real), _to_even(x.imag))


@array_function
def _trunc(x: Prepared) -> Any:
    return select(x < 0, rounding.ceil(x), rounding.floor(x))


floor: UnaryUfunc = unary_ufunc(
    "floor",
    {FLOATING: rounding.floor_p.bind, WHOLE: same},
    """The largest whole number that is not larger, elementwise, of real numbers.

    >>> jnp.floor(jnp.array([1.7, -1.2]))
    Array([ 1., -2.], dtype=float32)
    """,
)
ceil: UnaryUfunc = unary_ufunc(
    "ceil",
    {FLOATING: rounding.ceil_p.bind, WHOLE: same},
    """The smallest whole number that is not smaller, elementwise, of real numbers.

    >>> jnp.ceil(jnp.array([1.2, -1.7]))
    Array([ 2., -1.], dtype=float32)
    """,
)
trunc: UnaryUfunc = unary_ufunc(
    "trunc",
    {FLOATING: _trunc, WHOLE: same},
    """The whole part, elementwise, of real numbers.

    >>> jnp.trunc(jnp.array([1.7, -1.7]))
    Array([ 1., -1.], dtype=float32)
    """,
)
fix: UnaryUfunc = trunc
rint: UnaryUfunc = unary_ufunc(
    "rint",
    {FLOATING: _to_even, COMPLEX: _complex_to_even},
    """The nearest whole number, halves to even, elementwise, as floating-point numbers.

    >>> jnp.rint(jnp.array([0.5, 1.5, 2.4]))
    Array([0., 2., 2.], dtype=float32)
    """,
    inexact=True,
)


def _power_of_ten(exponent: int) -> float:
    return float(f"1e{exponent}")  # the nearest number, infinity beyond the greatest


def _round_scaled(x: Any, decimals: int) -> Any:
    """Rounds floating-point numbers to a number of decimals."""
    if x.dtype.itemsize == 2:  # powers of ten soon leave the range of 16 bits
        wide = convert_element_type(x, dtypes.float32)
        return convert_element_type(_round_scaled(wide, decimals), x.dtype)
    if decimals > 0:
        factor = constant(_power_of_ten(decimals), x)
        rounded = _to_even(x * factor) / factor
        # Numbers too large to be scaled have no decimals.
        return select(rounding.is_finite(rounded), rounded, x)
    factor = constant(_power_of_ten(-decimals), x)
    if np.isinf(factor):  # every number rounds to 0
        return x * constant(0, x)
    return _to_even(x / factor) * factor


def _round_integer(x: Any, decimals: int) -> Any:
    """Rounds integers to a multiple of a power of ten, halves to the even multiple."""
    unit = 10**-decimals
    if unit > dtypes.iinfo(x.dtype).max:
        return constant_like(0, x)
    rest = lax.rem(x, constant(unit, x))
    low = x - rest
    odd = lax.rem(lax.div(x, constant(unit, x)), constant(2, x)) != 0
    size = rest if x.dtype in dtypes.UNSIGNED else abs(rest)
    half = constant(unit // 2, x)
    step = constant_like(unit, x) if size is rest else lax.sign(x) * constant(unit, x)
    return select((size > half) | (size == half) & odd, low + step, low)


def _decimals(value: Any, call: Arguments) -> int:
    try:
        return operator.index(value)
    except TypeError:
        message = "takes the number of decimals as an integer"
        wanted = "an integer that is known while tracing"
        raise WeftTypeError(message, got=f"{call.name}={value!r:.80}", wanted=wanted) from None


_DECIMALS = "the number of digits after the point"
Decimals = Annotated[int, Kind(_decimals, _DECIMALS, ("text", 0.5), plain=NEVER)]


@array_function
def round(a: Operand, decimals: Decimals = 0, out: Out = None) -> Array:
    """The elements rounded to a number of decimals, halves to even.

    decimals: the number of digits after the point, an integer that is known while tracing. A
    negative one rounds to tens, hundreds, …

    >>> round(np.array([1.25, 1.35]), 1)
    Array([1.2, 1.4], dtype=float32)
    """
    if a.dtype in WHOLE or a.dtype in dtypes.NARROW_INTEGER:
        whole = decimals >= 0 or a.dtype in BOOLEAN
        return cast("Array", a) if whole else _round_integer(a, decimals)
    if not decimals:
        return rint(a)
    x = stop_gradient(a)  # a step function: its derivative is 0, also of what is too large to round
    if a.dtype in COMPLEX:
        return parts.complex(_round_scaled(x.real, decimals), _round_scaled(x.imag, decimals))
    return _round_scaled(x, decimals)


around = round


@array_function
def _false(x: Prepared) -> Any:
    return broadcasted(np.bool_(False), x.shape)


@array_function
def _true(x: Prepared) -> Any:
    return broadcasted(np.bool_(True), x.shape)


@array_function
def _infinite(x: Prepared) -> Any:
    return lax.abs(x) == constant(math.inf, x)


@array_function
def _infinite_complex(x: Prepared) -> Any:
    return _infinite(x.real) | _infinite(x.imag)


@array_function
def _finite_complex(x: Prepared) -> Any:
    return rounding.is_finite(x.real) & rounding.is_finite(x.imag)


def is_finite(x: Any) -> Any:
    """Whether real or complex numbers are finite."""
    return _finite_complex(x) if type_of(x).dtype in COMPLEX else rounding.is_finite(x)


isnan: UnaryUfunc = unary_ufunc(
    "isnan",
    {dtypes.ANY: lambda x: lax.ne(x, x)},
    """Whether a value is not a number, elementwise.

    >>> jnp.isnan(jnp.array([1.0, jnp.nan]))
    Array([False,  True], dtype=bool)
    """,
)
isfinite: UnaryUfunc = unary_ufunc(
    "isfinite",
    {FLOATING: rounding.is_finite_p.bind, COMPLEX: _finite_complex, WHOLE: _true},
    """Whether a value is neither infinite nor NaN, elementwise.

    >>> jnp.isfinite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """,
)
isinf: UnaryUfunc = unary_ufunc(
    "isinf",
    {FLOATING: _infinite, COMPLEX: _infinite_complex, WHOLE: _false},
    """Whether a value is infinite, elementwise.

    >>> jnp.isinf(jnp.array([1.0, jnp.inf]))
    Array([False,  True], dtype=bool)
    """,
)
isposinf: Unary = unary(
    "isposinf",
    {FLOATING: lambda x: lax.eq(x, constant(math.inf, x)), WHOLE: _false},
    """Whether a real number is positive infinity, elementwise.

    >>> jnp.isposinf(np.array([np.inf, -np.inf]))
    Array([ True, False], dtype=bool)
    """,
)
isneginf: Unary = unary(
    "isneginf",
    {FLOATING: lambda x: lax.eq(x, constant(-math.inf, x)), WHOLE: _false},
    """Whether a real number is negative infinity, elementwise.

    >>> jnp.isneginf(np.array([np.inf, -np.inf]))
    Array([False,  True], dtype=bool)
    """,
)


_FIX = "leave it out and use the result: x = nan_to_num(x)"
Copied = Annotated[bool, copy_kind("arrays do not change in place", _FIX)]
# A number is part of the program.
Replacement = Annotated[Any, dataclasses.replace(operand_kind, fixed=True)]


@array_function
def nan_to_num(
    x: Operand,
    copy: Copied = True,
    nan: Replacement = 0.0,
    posinf: Replacement | None = None,
    neginf: Replacement | None = None,
) -> Array:
    """The values with NaN and infinities replaced.

    nan: the replacement of NaN; posinf, neginf: those of infinities, by default the largest and the
    smallest finite numbers of the dtype. `copy=False`, which in NumPy changes x itself, raises
    WeftNotImplementedError.

    >>> nan_to_num(np.array([np.nan, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    if x.dtype in COMPLEX:
        both = (x.real, x.imag)
        return parts.complex(*[nan_to_num(part, copy, nan, posinf, neginf) for part in both])
    if x.dtype not in INEXACT:
        return cast("Array", x)
    limits = dtypes.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    out: Any = x
    for bad, number in ((nan, math.nan), (high, math.inf), (low, -math.inf)):
        mask = x != x if math.isnan(number) else x == constant(number, x)
        value = constant(bad, x) if isinstance(bad, (int, float)) else convert(bad, x.dtype)
        out = select(mask, together(out, value)[1], out)
    return out


# For each dtype the unsigned integer of its size, the bits of its fraction, its exponent's bias.
_FORMATS: dict[Any, tuple[Any, int, int]] = {
    dtypes.float16: (dtypes.uint16, 10, 15),
    dtypes.bfloat16: (dtypes.uint16, 7, 127),
    dtypes.float32: (dtypes.uint32, 23, 127),
    dtypes.float64: (dtypes.uint64, 52, 1023),
}


def _bits_of(x: Any) -> Any:
    return bitcast_convert_type(x, _FORMATS[x.dtype][0])


@array_function
def _sign_bit(x: Prepared) -> Any:
    pattern = _bits_of(x)
    return pattern >= constant(1 << (pattern.dtype.itemsize * 8 - 1), pattern)


signbit: UnaryUfunc = unary_ufunc(
    "signbit",
    {
        FLOATING: _sign_bit,
        dtypes.SIGNED: lambda x: lax.lt(x, constant(0, x)),
        dtypes.UNSIGNED | BOOLEAN: _false,
    },
    """Whether the sign is negative, elementwise, of real numbers; -0.0 has a negative sign.

    >>> jnp.signbit(jnp.array([-1.0, 2.0]))
    Array([ True, False], dtype=bool)
    """,
)


@array_function
def _copysign(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    return select(_sign_bit(x) != _sign_bit(y), -x, x)


copysign: BinaryUfunc = binary_ufunc(
    "copysign",
    {FLOATING: _copysign},
    """The size of x1 with the sign of x2, elementwise, of real numbers.

    >>> jnp.copysign(jnp.array([1.0, 2.0]), jnp.array([-1.0, 1.0]))
    Array([-1.,  2.], dtype=float32)
    """,
    inexact=True,
)
nextafter: BinaryUfunc = binary_ufunc(
    "nextafter",
    {FLOATING: rounding.nextafter_p.bind},
    """The neighbour of x1, in its dtype, on the side of x2, elementwise, of real numbers.

    >>> jnp.nextafter(jnp.array([1.0]), 2.0)
    Array([1.0000001], dtype=float32)
    """,
    inexact=True,
)


@array_function
def _spacing(x: Prepared) -> Any:
    # By the bits: a difference below the least normal number would be flushed to 0.
    size = lax.abs(x)
    pattern, width = _bits_of(size), _FORMATS[x.dtype][1]
    shift, one = constant(width, pattern), constant(1, pattern)
    exponent = bits.shift_right_logical(pattern, shift)
    least = bits.shift_left(one, lax.max(exponent, one) - one)
    normal = bits.shift_left(exponent - shift, shift)
    gap = bitcast_convert_type(select(exponent > shift, normal, least), x.dtype)
    last = constant_like(math.inf, x)
    above = rounding.nextafter(size, last)
    gap = select(above < last, gap, above - size)
    return select(_sign_bit(x), -gap, gap)


spacing: UnaryUfunc = unary_ufunc(
    "spacing",
    {FLOATING: _spacing},
    """The distance to the next number away from 0, elementwise, of real numbers.

    >>> jnp.spacing(jnp.array([1.0, 1000.0]))
    Array([1.1920929e-07, 6.1035156e-05], dtype=float32)
    """,
    inexact=True,
)


def _power_of_two(exponent: Any, like: Any) -> Any:
    """2 to a power in the range of normal numbers, from its bits."""
    integer, fraction, bias = _FORMATS[like.dtype]
    biased = convert_element_type(exponent + constant(bias, exponent), integer)
    pattern = bits.shift_left(biased, constant(fraction, biased))
    return bitcast_convert_type(pattern, like.dtype)


@array_function
def _scale_by_power(x: Operand, exponent: Operand) -> Any:
    """x times 2 to any power, exact unless the result leaves the range."""
    # The widest range of exponents is four times that of the normal numbers.
    return _times_powers(*together(x, exponent), count=4)


def _times_powers(x: Any, exponent: Any, *, count: int) -> Any:
    """x times 2 to a power, by `count` factors in the range of normal numbers."""
    bias = _FORMATS[x.dtype][2]
    low, high = constant_like(1 - bias, exponent), constant_like(bias, exponent)
    for _ in range(count):
        part = lax.max(low, lax.min(high, exponent))
        x = x * _power_of_two(part, x)
        exponent = exponent - part
    return x


def _within_int32(exponent: Any) -> Any:
    """Clips exponents of wide dtypes to +-10**6, where every result is infinite or 0."""
    of = type_of(exponent).dtype
    if of.itemsize < 4 or of == dtypes.int32:
        return exponent
    exponent = lax.min(exponent, constant(10**6, exponent))
    return exponent if of in dtypes.UNSIGNED else lax.max(exponent, constant(-(10**6), exponent))


@ufunc_of(2)
def ldexp(x1: Any, x2: Any, /) -> Any:
    """x1 times 2 to the power x2, elementwise; x2 holds integers.

    >>> ldexp(np.array([1.0, 3.0]), 2)
    Array([ 4., 12.], dtype=float32)
    """
    x1, x2 = as_operand("ldexp", x1), as_operand("ldexp", x2)
    if type_of(x2).dtype not in INTEGER or type_of(x1).dtype in COMPLEX:
        message = "ldexp takes real numbers and integer exponents"
        got = f"{type_of(x1)} and {type_of(x2)}"
        fix = Fix("convert", "use x1 * 2.0**x2 for exponents that are not whole", {})
        raise refusal(DTypeError, message, "ldexp", got, "a real x1 and an integer x2", fix)
    x1 = convert_element_type(x1, inexact(type_of(x1).dtype))
    shape = np.broadcast_shapes(type_of(x1).shape, type_of(x2).shape)
    exponent = convert_element_type(_within_int32(x2), dtypes.int32)
    return _scale_by_power(broadcasted(x1, shape), broadcasted(exponent, shape))


@array_function
def _fraction_and_exponent(x: Operand) -> tuple[Any, Any]:
    """m and e with x = m * 2**e and 0.5 <= |m| < 1; x and 0 for 0, infinities and NaN."""
    fraction, bias = _FORMATS[x.dtype][1:]
    pattern = _bits_of(x)
    # The compiler's arithmetic may take subnormal numbers for 0: their fractions are read as
    # integers, which are normal numbers.
    digits = pattern & constant((1 << fraction) - 1, pattern)
    subnormal = _exponent_field(x) == np.int32(0)
    digits = convert_element_type(digits, x.dtype)
    digits = select(_sign_bit(x), -digits, digits)
    scaled = select(subnormal, digits, x)
    shift = _exponent_field(scaled) - np.int32(bias - 1)
    exponent = select(subnormal, shift + np.int32(1 - bias - fraction), shift)
    special = (scaled == constant(0, x)) | ~rounding.is_finite(x)
    # A normal number's power of 2, inverted, is at most two powers outside of the normal range.
    mantissa = _times_powers(scaled, -shift, count=2)
    return select(special, x, mantissa), select(special, constant_like(0, exponent), exponent)


def _exponent_field(x: Any) -> Any:
    """The biased exponent."""
    fraction, bias = _FORMATS[x.dtype][1:]
    pattern = _bits_of(x)
    field = bits.shift_right_logical(pattern, constant(fraction, pattern))
    field = field & constant(2 * bias + 1, field)
    return convert_element_type(field, dtypes.int32)


@ufunc_of(1, 2)
def frexp(x: Any, /) -> tuple[Any, Any]:
    """The parts of real numbers: m with 0.5 <= abs(m) < 1 and an integer e such that x = m * 2**e.

    For 0, infinities and NaN the parts are the number itself and 0.

    >>> frexp(np.array([3.0, 0.0]))
    (Array([0.75, 0.  ], dtype=float32), Array([2, 0], dtype=int32))
    """
    x = as_operand("frexp", x)
    dtype = inexact(type_of(x).dtype)
    if dtype not in FLOATING:
        wanted = "an integer or floating-point dtype"
        raise refusal(DTypeError, "frexp takes real numbers", "frexp", str(type_of(x)), wanted)
    return _fraction_and_exponent(convert_element_type(x, dtype))


@array_function
def _modf(x: Prepared) -> Any:
    # Of the size: so a fraction of 0 gets the sign of x, and its derivative is 1.
    negative = _sign_bit(x)
    size = select(negative, -x, x)
    whole = rounding.floor(size)
    rest = select(size == constant_like(math.inf, x), constant_like(0, x), size - whole)
    return tuple(select(negative, -part, part) for part in (rest, whole))


_fraction_and_whole: Callable[[Any], Any] = unary("modf", {FLOATING: _modf}, "", inexact=True)


@ufunc_of(1, 2)
def modf(x: Any, /) -> tuple[Any, Any]:
    """The fractional and the whole part of real numbers, both with the sign of x.

    >>> modf(np.array([1.5, -2.25]))
    (Array([ 0.5 , -0.25], dtype=float32), Array([ 1., -2.], dtype=float32))
    """
    return _fraction_and_whole(x)


@array_function
def _heaviside(x: Prepared, at_zero: Prepared) -> Any:
    x, at_zero = together(x, at_zero)
    step = select(x < 0, constant_like(0, x), select(x > 0, constant_like(1, x), at_zero))
    return select(x != x, x, step)


heaviside: BinaryUfunc = binary_ufunc(
    "heaviside",
    {FLOATING: _heaviside},
    """0 where x1 < 0, 1 where x1 > 0 and x2 where x1 is 0, elementwise, of real numbers.

    >>> jnp.heaviside(jnp.array([-1.0, 0.0, 2.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """,
    inexact=True,
)


@array_function
def _zeros(x: Prepared) -> Any:
    return constant_like(0, x)


real: Unary = unary(
    "real",
    {COMPLEX: parts.real_p.bind, dtypes.REAL | BOOLEAN: same},
    """The real part, elementwise.

    >>> jnp.real(np.array([1.0 + 2j]))
    Array([1.], dtype=float32)
    """,
)
imag: Unary = unary(
    "imag",
    {COMPLEX: parts.imag_p.bind, dtypes.REAL | BOOLEAN: _zeros},
    """The imaginary part, elementwise, as real numbers.

    >>> jnp.imag(np.array([1.0 + 2j]))
    Array([2.], dtype=float32)
    """,
)
conj: UnaryUfunc = unary_ufunc(
    "conj",
    {COMPLEX: parts.conj_p.bind, dtypes.REAL | BOOLEAN: same},
    """The complex conjugate, elementwise; real numbers stay as they are.

    >>> jnp.conj(jnp.array([1.0 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """,
)
conjugate: UnaryUfunc = conj
iscomplex: Unary = unary(
    "iscomplex",
    {COMPLEX: lambda x: lax.ne(parts.imag(x), constant(0, x).real), dtypes.REAL | BOOLEAN: _false},
    """Whether the imaginary part is not zero, elementwise.

    >>> jnp.iscomplex(np.array([1.0, 2.0 + 1j]))
    Array([False,  True], dtype=bool)
    """,
)
isreal: Unary = unary(
    "isreal",
    {COMPLEX: lambda x: lax.eq(parts.imag(x), constant(0, x).real), dtypes.REAL | BOOLEAN: _true},
    """Whether the imaginary part is zero, elementwise.

    >>> jnp.isreal(np.array([1.0, 2.0 + 1j]))
    Array([ True, False], dtype=bool)
    """,
)


@array_function
def angle(z: Operand, deg: Flag = False) -> Array:
    """The angle of complex numbers, in radians or in degrees, elementwise.

    z: real or complex numbers; deg: whether the result is in degrees.

    >>> angle(np.array([1.0, 1j]), deg=True)
    Array([ 0., 90.], dtype=float32)
    """
    x = convert_element_type(z, inexact(z.dtype))
    y, x = (x.imag, x.real) if x.dtype in COMPLEX else (constant_like(0, x), x)
    out = elementary.atan2(y, x)
    return out * constant(180 / math.pi, out) if deg else out
