"""Arithmetic, comparison, and the elementary functions whose derivatives need nothing else.

Where a function has a kink (`abs` at 0, `max` and `min` at a tie) its derivative is the mean of
those to both sides.
"""

from __future__ import annotations

import functools
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.rules import Values, Zero
from weft.core.types import type_of
from weft.ops.elementwise import complex_elementary
from weft.ops.elementwise.complex import conj, real
from weft.ops.elementwise.complex_elementary import from_parts, lower_fixed, lower_signed
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.families import (
    Accuracy,
    apply,
    binary,
    broadcast_scalar,
    check_accuracy,
    common_shape,
    comparison,
    emit_with,
    inexact,
    unary,
)
from weft.ops.elementwise.formulas import Term, kernel
from weft.ops.elementwise.rounding import floor
from weft.ops.structural.extended_dtypes import key_bits
from weft.ops.structural.shape import reduce_sum
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "abs", "add", "cos", "div", "eq", "exp", "ge", "gt", "le", "log", "lt", "max", "min", "mul",
    "ne", "neg", "rem", "sign", "sin", "sqrt", "square", "sub", "tanh",
]  # fmt: skip


def scalar(value: complex, like: Any) -> Any:
    """Returns a number in the dtype of another value, weak where that is."""
    of = type_of(like)
    if of.weak_type:
        number = of.dtype.type(value).item()
        if type_of(number).dtype == of.dtype:
            return number
    return of.dtype.type(value)


def neg(x: ArrayLike) -> Array:
    """Elementwise negation of numbers.

    >>> lax.neg(np.array([1.0, -2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    return neg_p.bind(x)


neg_p = unary(
    "neg",
    accepts=dtypes.NUMERIC,
    jvp=lambda t, ans, x: neg(t),
    transpose=lambda ct, x: neg(ct),
    lower="stablehlo.negate",
    cheap=True,
    linear=True,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    wide_cotangents=True,
    flops="addition",
)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise sum of two arrays of one shape and dtype; either may have no dimensions.

    >>> lax.add(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    Array([4., 6.], dtype=float32)
    """
    return apply(add_p, x, y)


add_p = binary(
    "add",
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: t),
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: ct),
    lower="stablehlo.add",
    cheap=True,
    linear=True,
    wide_cotangents=True,
    flops="addition",
)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise difference of two arrays of one shape and dtype.

    >>> lax.sub(np.array([5.0, 2.0]), np.array([3.0, 4.0]))
    Array([ 2., -2.], dtype=float32)
    """
    return apply(sub_p, x, y)


sub_p = binary(
    "sub",
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: t, lambda t, ans, x, y: neg(t)),
    transpose=(lambda ct, x, y: ct, lambda ct, x, y: neg(ct)),
    lower="stablehlo.subtract",
    cheap=True,
    linear=True,
    wide_cotangents=True,
    flops="addition",
)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    """Elementwise product of two arrays of one shape and dtype.

    With `out_dtype` the product is computed in that dtype or a wider one, and the operands may
    differ in dtype.

    out_dtype: the dtype of the result; None for that of the operands.

    >>> lax.mul(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    Array([3., 8.], dtype=float32)
    >>> lax.mul(np.array([100], np.int8), np.array([100], np.int8), out_dtype=np.int32)
    Array([10000], dtype=int32)
    """
    if out_dtype is not None:
        dtype = dtypes.requested(out_dtype)
        wide = functools.reduce(dtypes.promote_types, [type_of(x).dtype, type_of(y).dtype], dtype)
        product = mul(*(convert_element_type(value, wide) for value in (x, y)))
        return convert_element_type(product, dtype)
    return apply(mul_p, x, y)


mul_p = binary(
    "mul",
    accepts=dtypes.NUMERIC,
    jvp=(lambda t, ans, x, y: mul(t, y), lambda t, ans, x, y: mul(x, t)),
    transpose=(lambda ct, x, y: mul(ct, y), lambda ct, x, y: mul(x, ct)),
    lower="stablehlo.multiply",
    cheap=True,
    bilinear=True,
    wide_cotangents=True,
    flops="product",
)


def round_product(x: Any) -> Any:
    """x, rounded as a product before it is added: a fused a b - b a would be the rounding error."""
    return rounded_p.bind(x)


def rounded_lower(context: Any, x: Any) -> Any:
    return x if context.in_types[0].dtype in dtypes.COMPLEX else rounded_value(x)


def rounded_value(x: Any) -> Any:
    """The value from its size and sign, which is no product; the bounds are never reached, so that
    they are not simplified away."""
    zero = stablehlo.full(0, tuple(x.type.shape), stablehlo.dtype_of(x.type.element_type))
    size = stablehlo.abs_(x)
    return stablehlo.select(stablehlo.compare(x, zero, "LT"), stablehlo.negate(size), size)


rounded_p: Primitive = inexact(
    "rounded",
    jvp=lambda t, ans, x: t,
    transpose=lambda ct, x: ct,
    lower=rounded_lower,
    keeps_zero=True,
    keeps_sums=True,
)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise quotient of two arrays of one shape and dtype; of integers, rounded to zero.

    >>> lax.div(np.array([7, -7]), np.array([2, 2]))
    Array([ 3, -3], dtype=int32)
    """
    return apply(div_p, x, y)


def div_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    # One division for both tangents, so that reverse mode has one too. It is no (x / y) / y, which
    # XLA makes x / (y * y): that underflows.
    (x, y), (t, ty) = primals, tangents
    ans = div(x, y)
    if type(ty) is not Zero:
        moved = mul(ans, ty)
        t = neg(moved) if type(t) is Zero else sub(t, moved)
    elif type(t) is Zero:
        return ans, Zero(type_of(ans).tangent())
    return ans, broadcast_scalar(div(t, y), type_of(ans).shape)


div_p = binary(
    "div",
    accepts=dtypes.NUMERIC,
    jvp=div_jvp,
    transpose=(lambda ct, x, y: div(ct, y), None),
    lower=emit_with(stablehlo.divide),
    cheap=True,
    wide_cotangents=True,
    flops="product",
)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise remainder of the division rounded to zero: of the sign of x, as C's fmod.

    >>> lax.rem(np.array([7, -7]), np.array([3, 3]))
    Array([ 1, -1], dtype=int32)
    """
    return apply(rem_p, x, y)


def rem_jvp_y(t: Any, ans: Any, x: Any, y: Any) -> Any:
    # x - rem(x, y) is a multiple of y up to rounding, so the sign times the floor is the quotient.
    quotient = div(sub(x, ans), y)
    whole = floor(add(abs(quotient), scalar(0.5, quotient)))
    return neg(mul(t, mul(sign(quotient), whole)))


rem_p = binary(
    "rem",
    accepts=dtypes.REAL,
    jvp=(lambda t, ans, x, y: t, rem_jvp_y),
    lower=emit_with(stablehlo.remainder),
    flops="addition",
)


def share(larger: Any, not_smaller: Any, like: Any) -> Any:
    """The subgradient of an extremum: 1 for the chosen operand, 1/2 at a tie, 0 for the other."""
    dtype = type_of(like).dtype
    parts = (convert_element_type(holds, dtype) for holds in (larger, not_smaller))
    return add(*(mul(part, scalar(0.5, like)) for part in parts))


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise larger of two ordered values; NaN where either is.

    >>> lax.max(np.array([1, 4]), np.array([3, 2]))
    Array([3, 4], dtype=int32)
    """
    return apply(max_p, x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise smaller of two ordered values; NaN where either is.

    >>> lax.min(np.array([1, 4]), np.array([3, 2]))
    Array([1, 2], dtype=int32)
    """
    return apply(min_p, x, y)


max_p = binary(
    "max",
    accepts=dtypes.ORDERED,
    jvp=(
        lambda t, ans, x, y: mul(t, share(gt(x, y), ge(x, y), ans)),
        lambda t, ans, x, y: mul(t, share(gt(y, x), ge(y, x), ans)),
    ),
    lower="stablehlo.maximum",
    cheap=True,
    makes_no_nan=True,
    flops="addition",
)
min_p = binary(
    "min",
    accepts=dtypes.ORDERED,
    jvp=(
        lambda t, ans, x, y: mul(t, share(lt(x, y), le(x, y), ans)),
        lambda t, ans, x, y: mul(t, share(lt(y, x), le(y, x), ans)),
    ),
    lower="stablehlo.minimum",
    cheap=True,
    makes_no_nan=True,
    flops="addition",
)


def sign(x: ArrayLike) -> Array:
    """Elementwise sign: -1, 0 or 1 (NaN stays NaN); of a complex number x / |x|, or 0.

    >>> lax.sign(np.array([-2.0, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return sign_p.bind(x)


def sign_jvp(t: Any, ans: Any, x: Any) -> Any:
    dtype = type_of(x).dtype
    if dtype not in dtypes.COMPLEX:
        return Zero(type_of(ans).tangent())
    # The component of t along x changes only the magnitude of x.
    along = mul(ans, convert_element_type(real(mul(t, conj(ans))), dtype))
    size = abs(x)
    size = add(size, convert_element_type(eq(size, scalar(0, size)), type_of(size).dtype))
    return div(sub(t, along), convert_element_type(size, dtype))


def sign_lower(context: Any, x: Any) -> Any:
    type = context.in_types[0]
    if type.dtype not in dtypes.UNSIGNED:
        return _signed_sign(context, x)
    zero, one = (stablehlo.full(v, type.shape, type.dtype) for v in (0, 1))
    return stablehlo.select(stablehlo.compare(x, zero, "EQ"), zero, one)


_signed_sign = lower_fixed(stablehlo.sign, complex_elementary.fix_sign)
sign_p = unary(
    "sign",
    accepts=dtypes.NUMERIC,
    jvp=sign_jvp,
    lower=sign_lower,
    cheap=True,
    keeps_zero=True,
    makes_no_nan=True,
    flops="none",
)


def abs(x: ArrayLike) -> Array:
    """Elementwise absolute value of signed numbers; of complex ones, a real number.

    >>> lax.abs(np.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """
    return abs_p.bind(x)


def abs_jvp(t: Any, ans: Any, x: Any) -> Any:
    if type_of(x).dtype in dtypes.COMPLEX:
        return real(mul(t, conj(sign(x))))
    return mul(t, _small_sign(x))


def _small_sign(x: Any) -> Any:
    """The sign, kept for the backward pass in one byte per element; 0 for NaN."""
    aval, zero = type_of(x), scalar(0, x)
    # Of two comparisons, as XLA checks the range of each number that it converts to an integer.
    above, below = (convert_element_type(holds(x, zero), dtypes.int8) for holds in (gt, lt))
    return convert_element_type(sub(above, below), aval.dtype, aval.weak_type)


abs_p = unary(
    "abs",
    accepts=dtypes.SIGNED | dtypes.INEXACT,
    jvp=abs_jvp,
    lower=lower_fixed(stablehlo.abs_, complex_elementary.fix_log),
    result_dtype=dtypes.to_real,
    cheap=True,
    keeps_zero=True,
    makes_no_nan=True,
    flops="addition",
)


def square(x: ArrayLike) -> Array:
    """Elementwise x * x.

    >>> lax.square(np.array([2.0, -3.0]))
    Array([4., 9.], dtype=float32)
    """
    return square_p.bind(x)


square_p = unary(
    "square",
    accepts=dtypes.NUMERIC,
    jvp=lambda t, ans, x: mul(t, mul(scalar(2, x), x)),
    lower=emit_with(lambda x: stablehlo.multiply(x, x)),
    cheap=True,
    keeps_zero=True,
    flops="product",
)


def exp(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise exponential.

    >>> lax.exp(np.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("exp", accuracy)
    return exp_p.bind(x)


exp_p = inexact(
    "exp",
    jvp=lambda t, ans, x: mul(t, ans),
    lower=from_parts(stablehlo.exponential, complex_elementary.exp),
)


def log(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise natural logarithm.

    >>> lax.log(np.array([1.0, 10.0]))
    Array([0.       , 2.3025851], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("log", accuracy)
    return log_p.bind(x)


log_p = inexact(
    "log",
    jvp=lambda t, ans, x: div(t, x),
    lower=lower_fixed(stablehlo.log, complex_elementary.fix_log),
)


def sin(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise sine of an angle in radians.

    >>> lax.sin(np.array([0.0, 1.0]))
    Array([0.        , 0.84147096], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("sin", accuracy)
    return sin_p.bind(x)


sin_p = inexact(
    "sin",
    jvp=lambda t, ans, x: mul(t, cos(x)),
    lower=from_parts(stablehlo.sine, complex_elementary.sin),
    keeps_zero=True,
)


def cos(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise cosine of an angle in radians.

    >>> lax.cos(np.array([0.0, 1.0]))
    Array([1.       , 0.5403023], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("cos", accuracy)
    return cos_p.bind(x)


cos_p = inexact(
    "cos",
    jvp=lambda t, ans, x: neg(mul(t, sin(x))),
    lower=from_parts(stablehlo.cosine, complex_elementary.cos),
)


def tanh(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise hyperbolic tangent.

    >>> lax.tanh(np.array([0.0, 1.0]))
    Array([0.       , 0.7615942], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("tanh", accuracy)
    return tanh_p.bind(x)


def tanh_jvp(t: Any, ans: Any, x: Any) -> Any:
    if type_of(x).dtype in dtypes.COMPLEX:
        return mul(t, sub(scalar(1, ans), mul(ans, ans)))
    return mul(t, sech_squared(x))


tanh_p: Primitive = inexact(
    "tanh",
    jvp=tanh_jvp,
    lower=from_parts(stablehlo.tanh, complex_elementary.tanh),
    keeps_zero=True,
    again_from_operand=True,
)


def sech_squared(x: Any) -> Any:
    """Elementwise 1 / cosh(x)^2 of real numbers, the derivative of tanh. From x = 9 on tanh is
    rounded to 1, so its own value would not do."""
    return sech_squared_p.bind(x)


def sech_squared_formula(x: Term) -> Term:
    part = (x.apply(stablehlo.abs_) * -2.0).exp()
    # (1 + part)^2, of which only the small terms are rounded twice.
    return 4.0 * part / (part * (part + 2.0) + 1.0)


def sech_squared_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, mul(scalar(-2, x), mul(ans, tanh(x))))


sech_squared_p: Primitive = kernel(
    "sech_squared", sech_squared_formula, sech_squared_jvp, again_from_operand=True
)


def sqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise square root.

    >>> lax.sqrt(np.array([4.0, 9.0]))
    Array([2., 3.], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("sqrt", accuracy)
    return sqrt_p.bind(x)


sqrt_p = inexact(
    "sqrt",
    jvp=lambda t, ans, x: div(mul(t, scalar(0.5, x)), ans),
    lower=lower_signed(stablehlo.sqrt, "imag", complex_elementary.fix_sqrt),
    keeps_zero=True,
)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x == y, of numbers or of random keys.

    >>> lax.eq(np.array([1, 2]), np.array([1, 3]))
    Array([ True, False], dtype=bool)
    """
    return _compare_keys(eq_p, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x != y, of numbers or of random keys.

    >>> lax.ne(np.array([1, 2]), np.array([1, 3]))
    Array([False,  True], dtype=bool)
    """
    return _compare_keys(ne_p, x, y)


def _compare_keys(comparison: Primitive, x: Any, y: Any) -> Any:
    """`eq_p` or `ne_p` of two operands; keys differ where one of their words does."""
    types = [type_of(x), type_of(y)]
    if types[0].dtype is not types[1].dtype or not dtypes.is_extended(types[0].dtype):
        return apply(comparison, x, y)
    shape = common_shape(comparison.name, types)
    words = ne_p.bind(*[key_bits(broadcast_scalar(value, shape)) for value in (x, y)])
    rows = tuple(range(len(shape), type_of(words).ndim))
    different = reduce_sum(convert_element_type(words, dtypes.int32), rows)
    return comparison.bind(different, scalar(0, different))


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x < y of ordered values.

    >>> lax.lt(np.array([1, 2]), np.array([2, 2]))
    Array([ True, False], dtype=bool)
    """
    return apply(lt_p, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x <= y of ordered values.

    >>> lax.le(np.array([1, 3]), np.array([2, 2]))
    Array([ True, False], dtype=bool)
    """
    return apply(le_p, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x > y of ordered values.

    >>> lax.gt(np.array([1, 3]), np.array([2, 2]))
    Array([False,  True], dtype=bool)
    """
    return apply(gt_p, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x >= y of ordered values.

    >>> lax.ge(np.array([1, 2]), np.array([2, 2]))
    Array([False,  True], dtype=bool)
    """
    return apply(ge_p, x, y)


eq_p = comparison("eq", accepts=dtypes.ANY, direction="EQ")
ne_p = comparison("ne", accepts=dtypes.ANY, direction="NE")
lt_p = comparison("lt", accepts=dtypes.ORDERED, direction="LT")
le_p = comparison("le", accepts=dtypes.ORDERED, direction="LE")
gt_p = comparison("gt", accepts=dtypes.ORDERED, direction="GT")
ge_p = comparison("ge", accepts=dtypes.ORDERED, direction="GE")
