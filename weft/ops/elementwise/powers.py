"""Powers and roots."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.access_pattern import elementwise_reads
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, WeftValueError
from weft.errors.argument_errors import invalid_type
from weft.ops.declare import primitive
from weft.ops.elementwise.arithmetic import div, eq, log, mul, neg, scalar, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.complex_elementary import fix_reciprocal, lower_fixed, lower_signed
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.families import (
    Accuracy,
    apply,
    broadcast_scalar,
    check_accuracy,
    elementwise_type,
    elementwise_vmap,
    floating,
    inexact,
    nary_jvp,
    repeat_scalars,
)
from weft.ops.elementwise.selection import select
from weft.ops.flops import real_flops
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.narrow import in_wide
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["cbrt", "integer_pow", "pow", "reciprocal", "rsqrt"]


def cbrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise real cube root of floating-point numbers.

    >>> lax.cbrt(np.array([8.0, -27.0]))
    Array([ 2., -3.], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("cbrt", accuracy)
    return cbrt_p.bind(x)


cbrt_p = floating(
    "cbrt",
    jvp=lambda t, ans, x: div(t, mul(scalar(3, ans), mul(ans, ans))),
    lower="stablehlo.cbrt",
    keeps_zero=True,
    fused_products=True,
)


def rsqrt(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
    """Elementwise 1 / sqrt(x).

    >>> lax.rsqrt(np.array([4.0, 16.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    if accuracy is not None:
        check_accuracy("rsqrt", accuracy)
    return rsqrt_p.bind(x)


rsqrt_p = inexact(
    "rsqrt",
    jvp=lambda t, ans, x: mul(t, div(mul(scalar(-0.5, x), ans), x)),
    lower=lower_signed(stablehlo.rsqrt, "imag"),
)


def integer_pow(x: Any, y: int) -> Array:
    """Elementwise x to a fixed whole power, by repeated multiplication.

    Raises DTypeError for a negative power of integers, WeftTypeError for a power that is not a
    Python integer.

    >>> import weft.lax as lax
    >>> lax.integer_pow(2.0, -2)
    Array(0.25, dtype=float32, weak_type=True)
    """
    try:
        power = y.__index__()
    except AttributeError:
        fix = Fix("use_pow", "use weft.lax.pow for other powers", {"function": "pow"})
        message = "integer_pow takes a Python integer as the power"
        raise invalid_type(message, "integer_pow", "y", y, "an integer", fix=fix) from None
    if power == 1 and type(getattr(x, "type", None)) is ArrayType and x.dtype in dtypes.NUMERIC:
        return x
    return integer_pow_p.bind(x, y=power)


def integer_pow_jvp(t: Any, ans: Any, x: Any, *, y: int) -> Any:
    if y == 0:
        return Zero(type_of(ans).tangent())
    if y == 1:
        return t
    if y == -1:  # x^2 may be too small where its reciprocal is a number
        return neg(mul(mul(t, ans), ans))
    return mul(t, mul(scalar(y, x), integer_pow(x, y - 1)))


def integer_pow_transpose(ct: Any, x: Any, *, y: int) -> list[Any]:
    if y != 1:
        raise WeftValueError(f"x ** {y} is not linear", operation="integer_pow", got=f"y={y}")
    return [ct]


def integer_pow_lower(context: Any, x: Any, *, y: int) -> Any:
    type = context.in_types[0]
    result, square, rest = None, x, y if y >= 0 else -y
    while rest:
        if rest & 1:
            result = square if result is None else stablehlo.multiply(result, square)
        rest >>= 1
        if rest:
            square = stablehlo.multiply(square, square)
    one = stablehlo.full(1, type.shape, type.dtype)
    if result is None:
        return one
    return result if y > 0 else _inverse(context, result)


def _divide_one(x: Any) -> Any:
    one = stablehlo.full(1, tuple(x.type.shape), stablehlo.dtype_of(x.type.element_type))
    return stablehlo.divide(one, x)


_inverse = lower_fixed(_divide_one, fix_reciprocal)
_integer_pow_type = elementwise_type("integer_pow", dtypes.NUMERIC, narrow=True)


def integer_pow_type(x: ArrayType, *, y: int) -> ArrayType:
    if y < 0 and dtypes.is_integer(x.dtype):
        message = "integer_pow: a negative power of integers is not an integer"
        wanted = "a power that is not negative, or floating-point numbers"
        fix = to_dtype("x", x.dtype, dtypes.float32)
        raise DTypeError(message, got=f"{x} to the power {y}", wanted=wanted, fix=fix)
    return _integer_pow_type(x)


def _of_squarings(eqn: Equation) -> Work:
    y, out = eqn.params["y"], eqn.outputs[0].type
    products = max(0, abs(y).bit_length() - 1 + abs(y).bit_count() - 1) + (y < 0)
    return Work(real_flops(out, 0, float(products) * out.size))


integer_pow_p = Primitive("integer_pow")
primitive(
    integer_pow_p,
    type_rule=integer_pow_type,
    jvp=nary_jvp(integer_pow_p.bind, (integer_pow_jvp,)),
    transpose=integer_pow_transpose,
    vmap=elementwise_vmap(integer_pow_p.bind),
    reads=elementwise_reads,
    lower=in_wide(integer_pow_lower),
    cheap=True,
    keeps_zero=True,
    flops=_of_squarings,
)


def reciprocal(x: ArrayLike) -> Array:
    """Elementwise 1 / x of floating-point or complex numbers.

    >>> lax.reciprocal(np.array([2.0, 4.0]))
    Array([0.5 , 0.25], dtype=float32)
    """
    return integer_pow(x, -1)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise x to the power y.

    x is floating-point or complex; y has its dtype, or an integer dtype. Where x is 0 the
    derivative in y is 0, and where y is 0 the derivative in x is 0.

    >>> import weft.lax as lax
    >>> lax.pow(2.0, 0.5), lax.pow(2.0, 3)
    (Array(1.4142135, dtype=float32, weak_type=True), Array(8., dtype=float32, weak_type=True))
    """
    if type(y) is int:
        return integer_pow(x, y)
    if type_of(y).dtype in dtypes.INTEGER:
        return pow_p.bind(x, y)
    return apply(pow_p, x, y)


_pow_type = elementwise_type("pow", dtypes.INEXACT, arity=2)


def pow_type(x: ArrayType, y: ArrayType) -> ArrayType:
    if y.dtype in dtypes.INTEGER and x.dtype in dtypes.INEXACT:
        return _pow_type(x, y.update(dtype=x.dtype)).update(weak_type=x.weak_type)
    return _pow_type(x, y)


def _where(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`select`, with values without dimensions repeated to the shape of the predicate."""
    shape = type_of(pred).shape
    return select(pred, broadcast_scalar(on_true, shape), broadcast_scalar(on_false, shape))


def pow_jvp_x(t: Any, ans: Any, x: Any, y: Any) -> Any:
    zero, one = scalar(0, y), scalar(1, y)
    # Where y is 0 the factor is 0, and the power has only to stay finite.
    flat = eq(y, zero)
    if type_of(y).dtype == type_of(x).dtype:
        factor = y
        # Elsewhere the derivative in y needs it exact.
        flat = bitwise_and(flat, eq(x, scalar(0, x)))
    else:
        factor = convert_element_type(y, type_of(x).dtype)
    slope = pow(x, _where(flat, zero, sub(y, one)))
    return mul(t, mul(factor, slope))


def pow_jvp_y(t: Any, ans: Any, x: Any, y: Any) -> Any:
    return mul(t, mul(log(_where(eq(x, scalar(0, x)), scalar(1, x), x)), ans))


def pow_lower(context: Any, x: Any, y: Any) -> Any:
    out = context.out_types[0]
    y = stablehlo.convert(y, out.dtype) if out.dtype not in dtypes.COMPLEX else _to_complex(y, out)
    x, y = repeat_scalars(context, (x, y), out.shape)
    value = stablehlo.power(x, y)
    if out.dtype not in dtypes.COMPLEX:
        return value
    # The compiler's expansion has the logarithm of 0 in it. As in C and NumPy, 0 to a power is 0
    # where that has a positive real part, 1 where it is 0, and NaN elsewhere.
    zero, one = (stablehlo.full(number, out.shape, out.dtype) for number in (0, 1))
    real_zero = stablehlo.full(0, out.shape, dtypes.to_real(out.dtype))
    vanishes = stablehlo.and_(
        stablehlo.compare(x, zero, "EQ"), stablehlo.compare(stablehlo.real(y), real_zero, "GT")
    )
    value = stablehlo.select(vanishes, zero, value)
    return stablehlo.select(stablehlo.compare(y, zero, "EQ"), one, value)


def _to_complex(y: Any, out: ArrayType) -> Any:
    if stablehlo.dtype_of(y.type.element_type) in dtypes.COMPLEX:
        return y
    part = stablehlo.convert(y, dtypes.to_real(out.dtype))
    zero = stablehlo.full(0, tuple(part.type.shape), dtypes.to_real(out.dtype))
    return stablehlo.complex_(part, zero)


pow_p = Primitive("pow")
primitive(
    pow_p,
    type_rule=pow_type,
    jvp=nary_jvp(pow_p.bind, (pow_jvp_x, pow_jvp_y)),
    vmap=elementwise_vmap(pow_p.bind),
    reads=elementwise_reads,
    lower=pow_lower,
)
