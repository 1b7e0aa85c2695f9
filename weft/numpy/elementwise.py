"""Elementwise arithmetic and comparison, also behind an array's operators. See `logic` too.

`clip`: elements held between two bounds.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, WeftTypeError
from weft.errors.argument_errors import refusal
from weft.kinds.arguments import Prepared, Promoted
from weft.kinds.array_function import array_function
from weft.numpy.promotion import (
    KEYS,
    BinaryUfunc,
    Unary,
    UnaryUfunc,
    binary_ufunc,
    operator_of,
    unary,
    unary_ufunc,
)
from weft.numpy.ufuncs import ufunc_of
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import bits, powers
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.families import broadcast_scalar
from weft.ops.elementwise.rounding import RoundingMethod, round
from weft.ops.elementwise.selection import select
from weft.ops.structural.shape import reshape_p

__all__ = [
    "abs", "absolute", "add", "clip", "divide", "divmod", "equal", "fabs", "float_power",
    "floor_divide", "fmax", "fmin", "fmod", "greater", "greater_equal", "less", "less_equal",
    "maximum", "minimum", "mod", "multiply", "negative", "not_equal", "positive", "pow", "power",
    "reciprocal", "remainder", "sign", "square", "subtract", "true_divide",
]  # fmt: skip

BOOLEAN, INTEGER, REAL = dtypes.BOOLEAN, dtypes.INTEGER, dtypes.REAL
NUMERIC, COMPLEX, INEXACT = dtypes.NUMERIC, dtypes.COMPLEX, dtypes.INEXACT
SIGNED, UNSIGNED, FLOATING = dtypes.SIGNED, dtypes.UNSIGNED, dtypes.FLOATING


def same(x: Any) -> Any:
    """The operand unchanged, as an array."""
    if hasattr(x, "type"):
        return x
    return reshape_p.bind(x, shape=type_of(x).shape)  # an operation that takes every dtype


def constant(value: Any, like: Any) -> Any:
    """A number in the dtype of another value, weakly typed where that is."""
    with np.errstate(over="ignore"):
        return lax.scalar(value, like)


def constant_like(value: Any, like: Any) -> Any:
    """A number in the shape and dtype of another value, for the branches of `select`."""
    return broadcast_scalar(constant(value, like), type_of(like).shape)


def together(x: Any, y: Any) -> tuple[Any, Any]:
    """Broadcasts two operands to one shape; one of them may have no dimensions."""
    shape = type_of(x).shape or type_of(y).shape
    return broadcast_scalar(x, shape), broadcast_scalar(y, shape)


add: BinaryUfunc = binary_ufunc(
    "add",
    {NUMERIC: lax.add_p.bind, BOOLEAN: bits.or_p.bind},
    """The elementwise sum x1 + x2; of booleans, whether either holds.

    The operands are promoted to one dtype and broadcast to one shape.

    >>> jnp.add(jnp.array([1, 2]), 0.5)
    Array([1.5, 2.5], dtype=float32, weak_type=True)
    """,
    identity=0,
    reorderable=True,
)
subtract: BinaryUfunc = binary_ufunc(
    "subtract",
    {NUMERIC: lax.sub_p.bind},
    """The elementwise difference x1 - x2 of numbers. Raises DTypeError for booleans.

    >>> jnp.subtract(jnp.array([5, 2]), 3)
    Array([ 2, -1], dtype=int32)
    """,
)
multiply: BinaryUfunc = binary_ufunc(
    "multiply",
    {NUMERIC: lax.mul_p.bind, BOOLEAN: bits.and_p.bind},
    """The elementwise product x1 * x2; of booleans, whether both hold.

    >>> jnp.multiply(jnp.array([1, 2]), jnp.array([3, 4]))
    Array([3, 8], dtype=int32)
    """,
    identity=1,
    reorderable=True,
)
true_divide: BinaryUfunc = binary_ufunc(
    "true_divide",
    {INEXACT: lax.div_p.bind},
    """The elementwise quotient x1 / x2; integers become real numbers first.

    >>> jnp.true_divide(jnp.array([1, 3]), 2)
    Array([0.5, 1.5], dtype=float32)
    """,
    inexact=True,
)
divide: BinaryUfunc = true_divide
negative: UnaryUfunc = unary_ufunc(
    "negative",
    {NUMERIC: lax.neg_p.bind},
    """The elementwise negation -x of numbers. Raises DTypeError for booleans.

    >>> jnp.negative(jnp.array([1.0, -2.0]))
    Array([-1.,  2.], dtype=float32)
    """,
)
positive: UnaryUfunc = unary_ufunc(
    "positive",
    {dtypes.ANY: same},
    """The values themselves: +x.

    >>> jnp.positive(jnp.array([1.0, -2.0]))
    Array([ 1., -2.], dtype=float32)
    """,
)
square: UnaryUfunc = unary_ufunc(
    "square",
    {NUMERIC: lax.square_p.bind, BOOLEAN: same},
    """The elementwise square x * x.

    >>> jnp.square(jnp.array([2.0, -3.0]))
    Array([4., 9.], dtype=float32)
    """,
)


reciprocal: UnaryUfunc = unary_ufunc(
    "reciprocal",
    {INEXACT: lambda x: powers.integer_pow_p.bind(x, y=-1)},
    """The elementwise 1 / x; integers become real numbers first.

    >>> jnp.reciprocal(jnp.array([2, 4]))
    Array([0.5 , 0.25], dtype=float32)
    """,
    inexact=True,
)
abs: UnaryUfunc = unary_ufunc(
    "abs",
    {SIGNED | INEXACT: lax.abs_p.bind, UNSIGNED | BOOLEAN: same},
    """The elementwise absolute value; of complex numbers, a real number.

    >>> jnp.abs(jnp.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """,
)
absolute: UnaryUfunc = abs
fabs: UnaryUfunc = unary_ufunc(
    "fabs",
    {FLOATING: lax.abs_p.bind},
    """The elementwise absolute value of real numbers, as floating-point numbers.

    >>> jnp.fabs(jnp.array([-2, 3]))
    Array([2., 3.], dtype=float32)
    """,
    inexact=True,
)
sign: UnaryUfunc = unary_ufunc(
    "sign",
    {NUMERIC: lax.sign_p.bind},
    """The elementwise sign: -1, 0 or 1; NaN stays NaN; of complex numbers, x / abs(x).

    >>> jnp.sign(jnp.array([-2.0, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """,
)


@array_function
def _complex_before(x: Prepared, y: Prepared) -> Any:
    """Whether x precedes y, by real part and then by imaginary part."""
    x, y = together(x, y)
    real_x, real_y = x.real, y.real
    tie = (real_x == real_y) & (x.imag < y.imag)
    return (real_x < real_y) | tie


@array_function
def _complex_before_or_equal(x: Prepared, y: Prepared) -> Any:
    return _complex_before(x, y) | (x == y)


@array_function
def _complex_max(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    larger = select(_complex_before(x, y), y, x)
    return select(x != x, x, select(y != y, y, larger))


@array_function
def _complex_min(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    smaller = select(_complex_before(y, x), y, x)
    return select(x != x, x, select(y != y, y, smaller))


maximum: BinaryUfunc = binary_ufunc(
    "maximum",
    {REAL | BOOLEAN: lax.max_p.bind, COMPLEX: _complex_max},
    """The larger of x1 and x2, elementwise; NaN where either is. At a tie the derivative is shared
    equally. Complex numbers are compared by real part, then by imaginary part.

    >>> jnp.maximum(jnp.array([1.0, 4.0]), 2.0)
    Array([2., 4.], dtype=float32)
    """,
    reorderable=True,
)
minimum: BinaryUfunc = binary_ufunc(
    "minimum",
    {REAL | BOOLEAN: lax.min_p.bind, COMPLEX: _complex_min},
    """The smaller of x1 and x2, elementwise; NaN where either is. At a tie the derivative is shared
    equally. Complex numbers are compared by real part, then by imaginary part.

    >>> jnp.minimum(jnp.array([1.0, 4.0]), 2.0)
    Array([1., 2.], dtype=float32)
    """,
    reorderable=True,
)


@array_function
def _fmax(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    larger = select(x != x, y, maximum(x, y))
    return select(y != y, x, larger)


@array_function
def _fmin(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    smaller = select(x != x, y, minimum(x, y))
    return select(y != y, x, smaller)


fmax: BinaryUfunc = binary_ufunc(
    "fmax",
    {INTEGER | BOOLEAN: lax.max_p.bind, INEXACT: _fmax},
    """The larger of x1 and x2, elementwise, where NaN counts as missing.

    >>> jnp.fmax(jnp.array([1.0, jnp.nan]), 0.5)
    Array([1. , 0.5], dtype=float32)
    """,
    reorderable=True,
)
fmin: BinaryUfunc = binary_ufunc(
    "fmin",
    {INTEGER | BOOLEAN: lax.min_p.bind, INEXACT: _fmin},
    """The smaller of x1 and x2, elementwise, where NaN counts as missing.

    >>> jnp.fmin(jnp.array([1.0, jnp.nan]), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """,
    reorderable=True,
)


def _nonzero_divisor(y: Any) -> Any:
    """The divisor, with 1 for 0: as in NumPy, an integer's remainder by zero is 0."""
    return select(y == 0, constant_like(1, y), y)


def _match_sign(remainder: Any, y: Any) -> Any:
    """Adds the divisor to a remainder of the opposite sign."""
    adjust = ((remainder < 0) != (y < 0)) & (remainder != 0)
    return select(adjust, remainder + y, remainder)


@array_function
def _mod_signed(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    return _match_sign(lax.rem(x, _nonzero_divisor(y)), y)


@array_function
def _rem_integer(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    return lax.rem(x, _nonzero_divisor(y))


@array_function
def _mod_floating(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    return _match_sign(lax.rem(x, y), y)


@array_function
def _floor_divide_signed(x: Prepared, y: Prepared) -> Any:
    x, y = together(x, y)
    quotient, remainder = lax.div(x, y), lax.rem(x, y)
    adjust = ((x < 0) != (y < 0)) & (remainder != 0)
    return select(adjust, quotient - 1, quotient)


@array_function
def _floor_divide_floating(x: Prepared, y: Prepared) -> Any:
    # Whole numbers do not change with x: without this, XLA works out a derivative that is 0.
    x, y = map(stop_gradient, together(x, y))
    # The quotient of x less its remainder is whole up to rounding, where floor(x / y) may be one
    # too large because x / y was rounded up.
    remainder = lax.rem(x, y)
    quotient = (x - remainder) / y
    adjust = ((remainder < 0) != (y < 0)) & (remainder != 0)
    quotient = select(adjust, quotient - 1, quotient)
    whole = round(quotient, RoundingMethod.TO_NEAREST_EVEN)
    return select(y == 0, x / y, whole)


floor_divide: BinaryUfunc = binary_ufunc(
    "floor_divide",
    {SIGNED: _floor_divide_signed, UNSIGNED: lax.div_p.bind, FLOATING: _floor_divide_floating},
    """The elementwise quotient rounded down, x1 // x2, of real numbers.

    >>> jnp.floor_divide(jnp.array([7, -7]), 2)
    Array([ 3, -4], dtype=int32)
    """,
)
remainder: BinaryUfunc = binary_ufunc(
    "remainder",
    {SIGNED: _mod_signed, UNSIGNED: _rem_integer, FLOATING: _mod_floating},
    """The elementwise remainder x1 % x2 with the sign of x2, of real numbers; of integers, 0 where
    x2 is 0.

    >>> jnp.remainder(jnp.array([7, -7]), 3)
    Array([1, 2], dtype=int32)
    """,
)
mod: BinaryUfunc = remainder


fmod: BinaryUfunc = binary_ufunc(
    "fmod",
    {INTEGER: _rem_integer, FLOATING: lax.rem_p.bind},
    """The elementwise remainder with the sign of x1, of real numbers.

    >>> jnp.fmod(jnp.array([7, -7]), 3)
    Array([ 1, -1], dtype=int32)
    """,
)


@array_function
def _quotient_and_remainder(x: Prepared, y: Prepared) -> tuple[Any, Any]:
    return floor_divide(x, y), remainder(x, y)


_divmod: Any = binary_ufunc("divmod", {REAL: _quotient_and_remainder}, "")
divmod_operator = operator_of(_divmod)


@ufunc_of(2, 2)
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """The quotient rounded down and the remainder with the sign of x2: x1 // x2 and x1 % x2.

    >>> divmod(np.array([7, -7]), 3)
    (Array([ 2, -3], dtype=int32), Array([1, 2], dtype=int32))
    """
    return _divmod(x1, x2)


@array_function
def _power_of_integers(x: Prepared, y: Prepared) -> Any:
    """Integer powers modulo 2**bits; negative exponents round the exact value to zero."""
    x, y = together(x, y)
    result = _wrapped_power(x, y)
    if not _is_signed(y):
        return result
    # 1 and -1 alone have inverses among the integers; -y and y have the same lowest bit.
    unit = (x == 1) | (-x == 1)
    negative = y < 0
    odd = (y & 1) != 0
    result = select(negative & unit, select(odd, x, constant_like(1, x)), result)
    return select(negative & ~unit, constant_like(0, x), result)


def _wrapped_power(x: Any, y: Any) -> Any:
    """The power for exponents that are not negative, modulo 2**n for n bits.

    The lowest k bits of the exponent by repeated squaring. For odd x, b = x**(2**k) is 1 + d, where
    2**(k + 2) divides d (Knuth, The Art of Computer Programming 2, section 3.2.1.2). So of the
    binomial series of b**h, where h is the rest of the exponent, all but the first four terms
    vanish. The powers of an even x vanish if h is not 0.
    """
    if _is_signed(y):
        y = lax.max(y, constant(0, y))
    count = dtypes.iinfo(y.dtype).bits
    low = count // 4 - 2 if count > 16 else count.bit_length() - 1
    result, base = constant_like(1, x), x
    for i in range(low):
        bit = (y & (1 << i)) != 0
        result = select(bit, result * base, result)
        base = base * base
    one = constant(1, x)
    rest = bits.shift_right_logical(y, constant(low, y))
    d = base - 1
    # The number whose product with 3 is 1, modulo 2**count.
    inverse = (1 - (1 << count)) // 3 if _is_signed(x) else (1 + (2 << count)) // 3
    # h (h - 1) / 2 without a number beyond the dtype, and that times (h - 2) / 3.
    half, other = bits.shift_right_logical(rest, one), rest - 1
    second = half * (other | 1)
    third = second * (rest - 2) * inverse
    series = 1 + d * (rest + d * (second + d * third))
    odd = (x & 1) != 0
    vanishes = ~odd & (rest != 0)
    return select(vanishes, constant_like(0, x), select(odd, result * series, result))


def _is_signed(x: Any) -> bool:
    return type_of(x).dtype in SIGNED


_power: BinaryUfunc = binary_ufunc(
    "power", {INEXACT: powers.pow_p.bind, INTEGER: _power_of_integers}, ""
)
_power_operator = operator_of(_power)


@functools.lru_cache(maxsize=256)
def _static_power(exponent: int) -> Unary:
    """The power with a static exponent."""

    def integer_power(x: Any) -> Any:
        return powers.integer_pow_p.bind(x, y=exponent)

    def no_inverse(x: Any) -> Any:
        message = "integers cannot be raised to negative powers"
        wanted = "a non-negative exponent, or a base of real numbers"
        fix = Fix("exponent", f"use a real exponent: x ** {exponent}.0", {"exponent": exponent})
        raise refusal(WeftTypeError, message, "power", f"{type_of(x)} ** {exponent}", wanted, fix)

    def of_boolean(x: Any) -> Any:
        return integers(convert_element_type(x, dtypes.default_int()))

    integers = integer_power if exponent >= 0 else no_inverse
    cases = {INEXACT: integer_power, INTEGER: integers, BOOLEAN: of_boolean}
    return unary("power", cases, "")


def _is_static(x1: Any, x2: Any) -> bool:
    """Whether an exponent is a concrete integer that does not widen the base."""
    if type(x2) is int:
        return True
    if not isinstance(x2, np.integer):
        return False
    of = getattr(x1, "type", None)
    return type(of) is ArrayType and of.dtype in INEXACT


@ufunc_of(2)
def power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2, elementwise.

    A Python integer as exponent is static: the power costs a few products, and its derivative is
    exact at 0. Raises WeftTypeError for integers to a concrete negative power; in an array of
    exponents, negative ones give the value rounded towards zero.

    >>> power(np.array([1.0, 2.0]), 3)
    Array([1., 8.], dtype=float32)
    """
    if _is_static(x1, x2):
        return _static_power(int(x2))(x1)
    return _power(x1, x2)


def power_operator(x1: Any, x2: Any, /) -> Any:
    """`power` as an operator: returns NotImplemented for operands of other classes."""
    if _is_static(x1, x2):
        return _static_power(int(x2))(x1)
    return _power_operator(x1, x2)


pow = power

float_power: BinaryUfunc = binary_ufunc(
    "float_power",
    {INEXACT: powers.pow_p.bind},
    """x1 to the power x2, elementwise, as real or complex numbers.

    >>> jnp.float_power(jnp.array([2, 4]), -1)
    Array([0.5 , 0.25], dtype=float32)
    """,
    inexact=True,
)


equal: BinaryUfunc = binary_ufunc(
    "equal",
    {dtypes.ANY: lax.eq_p.bind, KEYS: lax.eq},
    """Whether x1 == x2, elementwise; of random keys too.

    >>> jnp.equal(jnp.array([1, 2]), 2)
    Array([False,  True], dtype=bool)
    """,
)
not_equal: BinaryUfunc = binary_ufunc(
    "not_equal",
    {dtypes.ANY: lax.ne_p.bind, KEYS: lax.ne},
    """Whether x1 != x2, elementwise; of random keys too.

    >>> jnp.not_equal(jnp.array([1, 2]), 2)
    Array([ True, False], dtype=bool)
    """,
)
less: BinaryUfunc = binary_ufunc(
    "less",
    {REAL | BOOLEAN: lax.lt_p.bind, COMPLEX: _complex_before},
    """Whether x1 < x2, elementwise. Complex numbers are compared by real part, then by
    imaginary part.

    >>> jnp.less(jnp.array([1, 2, 3]), 2)
    Array([ True, False, False], dtype=bool)
    """,
)
less_equal: BinaryUfunc = binary_ufunc(
    "less_equal",
    {REAL | BOOLEAN: lax.le_p.bind, COMPLEX: _complex_before_or_equal},
    """Whether x1 <= x2, elementwise. Complex numbers are compared by real part, then by
    imaginary part.

    >>> jnp.less_equal(jnp.array([1, 2, 3]), 2)
    Array([ True,  True, False], dtype=bool)
    """,
)
greater: BinaryUfunc = binary_ufunc(
    "greater",
    {REAL | BOOLEAN: lax.gt_p.bind, COMPLEX: lambda x, y: _complex_before(y, x)},
    """Whether x1 > x2, elementwise. Complex numbers are compared by real part, then by
    imaginary part.

    >>> jnp.greater(jnp.array([1, 2, 3]), 2)
    Array([False, False,  True], dtype=bool)
    """,
)
greater_equal: BinaryUfunc = binary_ufunc(
    "greater_equal",
    {REAL | BOOLEAN: lax.ge_p.bind, COMPLEX: lambda x, y: _complex_before_or_equal(y, x)},
    """Whether x1 >= x2, elementwise. Complex numbers are compared by real part, then by
    imaginary part.

    >>> jnp.greater_equal(jnp.array([1, 2, 3]), 2)
    Array([False,  True,  True], dtype=bool)
    """,
)


@array_function
def clip(arr: Promoted, /, min: Promoted | None = None, max: Promoted | None = None) -> Array:
    """The elements held between two bounds, either of which may be None.

    arr: an array of real numbers; min, max: the bounds, numbers or arrays that broadcast with it.

    Where the bounds cross, the upper one holds. Raises DTypeError for complex numbers.

    >>> clip(np.array([1, 5, 9]), 2, 6)
    Array([2, 5, 6], dtype=int32)
    """
    if arr.dtype in dtypes.COMPLEX:
        message = "clip takes no complex numbers, which have no order"
        fix = Fix("real", "clip the real and the imaginary part on their own", {})
        raise refusal(DTypeError, message, "clip", str(arr.type), "real numbers", fix)
    held: Any = arr if min is None else maximum(min, arr)
    return held if max is None else minimum(max, held)
