"""The gamma distribution and those of functions of gamma distributed numbers: beta, t …

A gamma distributed number is drawn by rejection, from a stream of its own for each element: G.
Marsaglia and W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000). Its
derivative in the parameter is that at a fixed quantile: M. Figurnov, S. Mohamed and A. Mnih,
"Implicit reparameterization gradients", NeurIPS 2018. The other distributions are computed from
logarithms of such numbers, since small parameters give numbers too small for any dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_shape
from weft.arrays.array import Array
from weft.control_flow.while_loop import while_loop
from weft.core.rules import AxisData, Values, Zero
from weft.core.types import type_of
from weft.define.define_primitive import define_primitive
from weft.errors import Fix
from weft.interpreters.vmap import vmap_flat
from weft.kinds.checks import computing_dtype
from weft.ops.elementwise.arithmetic import add, div, eq, exp, ge, le, log, lt, mul, neg, sqrt, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.powers import pow
from weft.ops.elementwise.regularized import random_gamma_grad
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import digamma
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reduce_sum, reshape
from weft.random.continuous import exponential_of
from weft.random.gaussian import normal_of
from weft.random.sampler import sampler
from weft.random.sampler_arguments import check_key, check_parameter, check_shape, parametric
from weft.random.streams import Stream, filled, full_operand, repeated, stream_of

__all__ = [
    "beta", "chisquare", "dirichlet", "f", "gamma", "is_narrow", "key_of", "log_gamma_of",
    "loggamma", "random_gamma_p", "t", "total",
]  # fmt: skip

Arrays = tuple[Any, ...]
Static = tuple[Any, ...]
Shape = tuple[int, ...]


def _accepted(stream: Stream, a: Any) -> Any:
    """The cube v that the method accepts: for a >= 1, (a - 1/3) v is gamma distributed."""
    dtype = type_of(a).dtype
    zero, one = dtype.type(0), dtype.type(1)
    nothing, start, above = (filled(i, (), dtype) for i in (0, -1, 2))
    d = sub(a, dtype.type(1.0 / 3.0))
    c = div(dtype.type(1.0 / 3.0), sqrt(d))
    generator = stream.generator

    def draw(state: Arrays) -> Arrays:
        following, own = Stream(generator, state[0]).split()
        x = normal_of(own, (), dtype)
        return following.bits, x, add(one, mul(x, c))

    def rejected(state: Arrays) -> Any:
        _, squared, cube, u = state
        # The first test, which costs no logarithm, decides alone for most; both are needed for all.
        beyond = ge(u, sub(one, mul(dtype.type(0.0331), mul(squared, squared))))
        bound = add(mul(squared, dtype.type(0.5)), mul(d, add(sub(one, cube), log(cube))))
        return bitwise_and(beyond, ge(log(u), bound))

    def attempt(state: Arrays) -> Arrays:
        following, normals, uniforms = Stream(generator, state[0]).split(3)
        _, x, v = while_loop(lambda s: le(s[2], zero), draw, (normals.bits, nothing, start))
        return following.bits, mul(x, x), mul(mul(v, v), v), uniforms.unit((), dtype)

    return while_loop(rejected, attempt, (stream.bits, nothing, above, above))[2]


def _one_gamma(stream: Stream, a: Any, log_space: bool) -> Any:
    """A gamma distributed number, or its logarithm, for a parameter without dimensions."""
    dtype = type_of(a).dtype
    zero, one = dtype.type(0), dtype.type(1)
    large = ge(a, one)
    # A number for a + 1, times a uniform number to the power 1 / a, is one for a.
    raised = select(large, a, add(a, one))
    body, boost = stream.split()
    cube = _accepted(body, raised)
    scale = sub(raised, dtype.type(1.0 / 3.0))
    if log_space:
        power = neg(exponential_of(boost, (), dtype))
        power = select(le(a, zero), dtype.type(-1), power)
        skipped = select(large, large, eq(power, zero))
        factor = select(skipped, zero, mul(power, div(one, a)))
        made = add(add(log(scale), log(cube)), factor)
    else:
        chance = sub(one, boost.unit((), dtype))
        factor = select(large, one, pow(chance, div(one, a)))
        made = mul(mul(scale, cube), factor)
        made = select(eq(a, zero), zero, made)
    return select(lt(a, zero), dtype.type(np.nan), made)


def _each(stream: Stream, n: int, function: Callable[..., Any], *columns: Any) -> Any:
    """Applies a function of a stream and numbers to each element, with a stream of its own."""
    keys = stream.generator.split(stream.bits, (n,))

    def one(bits: Any, *xs: Any) -> list[Any]:
        return [function(Stream(stream.generator, bits), *xs)]

    outs, dims = vmap_flat(one, AxisData(None, n), [keys, *columns], [0] * (1 + len(columns)))
    return outs[0] if dims[0] == 0 else broadcast_in_dim(outs[0], (n,), ())


def _random_gamma(key: Any, a: Any, *, log_space: bool) -> Any:
    stream, shape = stream_of(key), type_of(a).shape
    n = prod(shape)
    if n == 0:
        return a
    flat = reshape(a, (n,))
    return reshape(_each(stream, n, lambda s, x: _one_gamma(s, x, log_space), flat), shape)


def random_gamma_jvp(primals: Values, tangents: Values, *, log_space: bool) -> tuple[Any, Any]:
    key, a = primals
    made = random_gamma_p.bind(key, a, log_space=log_space)
    if type(tangents[1]) is Zero:
        return made, Zero(type_of(made).tangent())
    if not log_space:
        return made, mul(tangents[1], random_gamma_grad(a, made))
    dtype = type_of(a).dtype
    # Near 0 the distribution function is x**a / gamma(a + 1), which gives the derivative also where
    # the number itself is too small for the dtype.
    small = lt(made, dtype.type(np.log(dtypes.finfo(dtype).eps)))
    near_zero = div(sub(digamma(add(a, dtype.type(1))), made), a)
    x = exp(select(small, broadcast_in_dim(dtype.type(0), type_of(made).shape, ()), made))
    slope = select(small, near_zero, div(random_gamma_grad(a, x), x))
    return made, mul(tangents[1], slope)


# One key and an array of parameters of a floating-point dtype: gamma distributed numbers, or their
# logarithms with `log_space`. A primitive, since its derivative is not that of its body.
random_gamma_p = define_primitive("random_gamma", body=_random_gamma, jvp=random_gamma_jvp)


def key_of(stream: Stream) -> Any:
    """The typed key whose stream this is."""
    return extended_dtypes.wrap_key_bits(stream.bits, stream.generator.dtype)


def log_gamma_of(stream: Stream, a: Any, shape: Shape, dtype: Any) -> Any:
    """Logarithms of gamma distributed numbers from a stream."""
    a = repeated(full_operand(a, shape, dtype), shape)
    return random_gamma_p.bind(key_of(stream), a, log_space=True)


def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Gamma distributed numbers: density x**(a - 1) exp(-x) / gamma(a) for x > 0.

    `a`, which is positive, broadcasts to `shape`, by default its own. If it is 0, so is the result;
    if it is negative, the result is NaN. The result has a derivative in `a`, of first order: that
    at a fixed quantile.

    a: the shape parameter of the distribution, above 0; shape: the lengths of the result; None for
    the shape of `a`.

    >>> import weft
    >>> drawn = weft.random.gamma(weft.random.key(0), 3.0, (1000,))
    >>> bool(abs(drawn.mean() - 3.0) < 0.2)
    True
    """
    return _gamma((key, a), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "a"))
def _gamma(key: Any, a: Any, shape: Shape, dtype: Any) -> Any:
    a = repeated(full_operand(a, shape, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=False)


def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Logarithms of gamma distributed numbers, exact where the numbers would be too small.

    `a` broadcasts to `shape`, by default its own. From one key it draws the logarithms of the
    numbers that `gamma` draws. The result has a derivative in `a`, of first order.

    a: the shape parameter of the gamma distribution, above 0; shape: the lengths of the result;
    None for the shape of `a`.

    >>> import weft
    >>> bool(weft.random.loggamma(weft.random.key(0), 1e-5) < -1000)
    True
    """
    return _loggamma((key, a), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "a"))
def _loggamma(key: Any, a: Any, shape: Shape, dtype: Any) -> Any:
    return log_gamma_of(stream_of(key), a, shape, dtype)


def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Beta distributed numbers: density proportional to x**(a - 1) (1 - x)**(b - 1) for 0 < x < 1.

    `a` and `b`, which are positive, broadcast to `shape`, by default the one to which they
    broadcast together. The result has derivatives in both, of first order.

    a, b: the parameters of the distribution, above 0; shape: the lengths of the result; None for
    the shape to which the parameters broadcast together.

    >>> import weft
    >>> drawn = weft.random.beta(weft.random.key(0), 2.0, 6.0, (1000,))
    >>> bool(abs(drawn.mean() - 0.25) < 0.02)
    True
    """
    return _beta((key, a, b), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "a", "b"))
def _beta(key: Any, a: Any, b: Any, shape: Shape, dtype: Any) -> Any:
    first, second = stream_of(key).split()
    x, y = log_gamma_of(first, a, shape, dtype), log_gamma_of(second, b, shape, dtype)
    largest = stop_gradient(maximum(x, y))
    x, y = exp(sub(x, largest)), exp(sub(y, largest))
    return div(x, add(x, y))


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Vectors of positive numbers that add up to 1, Dirichlet distributed: density proportional to
    the product of x[i]**(alpha[i] - 1).

    The parameters of one vector are along the last dimension of `alpha`; the others broadcast to
    `shape`, by default their own. The result, of shape `shape + alpha.shape[-1:]`, has a derivative
    in `alpha`, of first order.

    alpha: the parameters of the distribution, above 0, (..., n); shape: the lengths of the result
    without the last; None for those of `alpha`.

    >>> import weft, weft.numpy as jnp
    >>> drawn = weft.random.dirichlet(weft.random.key(0), jnp.array([1.0, 2.0, 5.0]), (4,))
    >>> drawn.shape, bool(abs(drawn.sum(-1) - 1).max() < 1e-6)
    ((4, 3), True)
    """
    return _dirichlet((key, alpha), (shape, dtype), out_sharding)


def _along(x: Any, axis: int, n: int) -> Any:
    """A reduced array repeated along the dimension that it lost."""
    shape = type_of(x).shape
    return repeated(expand_dims(x, [axis]), (*shape[:axis], n, *shape[axis:]))


_check_alpha = parametric("real numbers", "alpha")


def _check_dirichlet(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    key, alpha = check_key(operation, arrays[0]), check_parameter(operation, "alpha", arrays[1])
    own = type_of(alpha).shape
    if not own:
        message = f"{operation}: alpha has a dimension, along which a vector's parameters stand"
        wanted = "an array of one dimension or more"
        fix = Fix("dimension", "pass an array such as weft.numpy.array([1.0, 2.0])", {})
        raise invalid_shape(message, operation, "alpha", own, wanted, fix=fix)
    shape, dtype = static
    _, (_, dtype) = _check_alpha(operation, (key, alpha), (own, dtype))
    if shape is None:
        return (key, alpha), (own[:-1], dtype)
    shape = check_shape(operation, shape)
    _check_alpha(operation, (key, alpha), ((*shape, own[-1]), dtype))
    return (key, alpha), (shape, dtype)


@sampler(_check_dirichlet)
def _dirichlet(key: Any, alpha: Any, shape: Shape, dtype: Any) -> Any:
    n = type_of(alpha).shape[-1]
    axis = len(shape)
    x = log_gamma_of(stream_of(key), alpha, (*shape, n), dtype)
    if n == 0:
        return x
    x = exp(sub(x, _along(stop_gradient(reduce_max(x, (axis,))), axis, n)))
    return div(x, _along(total(x, axis), axis, n))


def is_narrow(dtype: Any) -> bool:
    """Whether a dtype has half precision. There logarithms have too few digits to help, and the
    formulas without them round as JAX's do, to the last bit."""
    return bool(dtype.itemsize == 2)


def total(x: Any, axis: int) -> Any:
    """The sum along an axis; of half precision, it is added up in float32."""
    dtype = type_of(x).dtype
    wide = computing_dtype(dtype)
    return convert_element_type(reduce_sum(convert_element_type(x, wide), (axis,)), dtype)


def _half(x: Any, dtype: Any) -> Any:
    return div(x, dtype.type(2))


def _chi_square(stream: Stream, df: Any, shape: Shape, dtype: Any) -> Any:
    return mul(exp(log_gamma_of(stream, _half(df, dtype), shape, dtype)), dtype.type(2))


def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Chi-square distributed numbers of `df` degrees of freedom: for a whole `df`, the sum of the
    squares of so many normal numbers.

    `df`, which is positive, broadcasts to `shape`, by default its own. The result has a derivative
    in it, of first order.

    df: the degrees of freedom, above 0; shape: the lengths of the result; None for the shape of
    `df`.

    >>> import weft
    >>> weft.random.chisquare(weft.random.key(0), 4.0, (2, 3)).shape
    (2, 3)
    """
    return _chisquare((key, df), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "df"))
def _chisquare(key: Any, df: Any, shape: Shape, dtype: Any) -> Any:
    return _chi_square(stream_of(key), full_operand(df, shape, dtype), shape, dtype)


def t(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Student's t distributed numbers of `df` degrees of freedom: density proportional to
    (1 + x**2 / df)**(-(df + 1) / 2).

    `df`, which is positive, broadcasts to `shape`, by default its own. The result has a derivative
    in it, of first order.

    df: the degrees of freedom, above 0; shape: the lengths of the result; None for the shape of
    `df`.

    >>> import weft
    >>> weft.random.t(weft.random.key(0), 4.0, (2, 3)).shape
    (2, 3)
    """
    return _t((key, df), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "df"))
def _t(key: Any, df: Any, shape: Shape, dtype: Any) -> Any:
    normals, gammas = stream_of(key).split()
    half = repeated(_half(full_operand(df, shape, dtype), dtype), shape)
    if is_narrow(dtype):
        scale = sqrt(div(half, random_gamma_p.bind(key_of(gammas), half, log_space=False)))
    else:
        scale = exp(_half(sub(log(half), log_gamma_of(gammas, half, shape, dtype)), dtype))
    return mul(normal_of(normals, shape, dtype), scale)


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """F distributed numbers: the quotient of two chi-square distributed numbers, each divided by
    its degrees of freedom, which are `dfnum` and `dfden`.

    Both, which are positive, broadcast to `shape`, by default the one to which they broadcast
    together. The result has derivatives in both, of first order.

    Args:
        dfnum: The degrees of freedom of the numerator, above 0.
        dfden: The degrees of freedom of the denominator, above 0.
        shape: The lengths of the result; None for the shape to which the parameters broadcast
            together.

    >>> import weft
    >>> weft.random.f(weft.random.key(0), 4.0, 10.0, (2, 3)).shape
    (2, 3)
    """
    return _f((key, dfnum, dfden), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "dfnum", "dfden"))
def _f(key: Any, dfnum: Any, dfden: Any, shape: Shape, dtype: Any) -> Any:
    above, below = (repeated(full_operand(x, shape, dtype), shape) for x in (dfnum, dfden))
    second, first = stream_of(key).split()
    if is_narrow(dtype):
        parts = ((first, above), (second, below))
        return div(*(div(_chi_square(own, df, shape, dtype), df) for own, df in parts))
    x = log_gamma_of(first, _half(above, dtype), shape, dtype)
    y = log_gamma_of(second, _half(below, dtype), shape, dtype)
    # In logarithms, since both numbers may be too small while their quotient is not.
    return exp(add(sub(x, y), log(div(below, above))))
