"""The gamma distribution and those of functions of gamma distributed numbers: beta, t …

A gamma distributed number is drawn by rejection, from a stream of its own for each element: G.
Marsaglia and W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000). Its
derivative in the parameter is that at a fixed quantile: M. Figurnov, S. Mohamed and A. Mnih,
"Implicit reparameterization gradients", NeurIPS 2018. The other distributions are computed from
logarithms of such numbers, since small parameters give numbers too small for any dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from math import prod
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.while_loop import while_loop
from weft.core.rules import AxisData, Values, Zero
from weft.core.types import type_of
from weft.define.define_primitive import define_primitive
from weft.errors import Fix, ShapeError
from weft.interpreters.vmap import vmap_flat
from weft.kinds.arguments import NEVER
from weft.kinds.checks import computing_dtype
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import add, div, exp, log, lt, mul, sqrt, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.powers import pow
from weft.ops.elementwise.regularized import random_gamma_grad
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import digamma
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reduce_sum, reshape
from weft.random.continuous import exponential_of
from weft.random.draw_arguments import (
    Joined,
    Key,
    Real,
    Reals,
    Sharding,
    check_shape,
    joined_shape,
    real_kind,
)
from weft.random.gaussian import normal_of
from weft.random.streams import (
    Stream,
    broadcast_number,
    broadcast_to,
    draw_function,
    full_operand,
    stream_of,
)

Arrays = tuple[Any, ...]
Shape = tuple[int, ...]


def _vectors(value: Any, call: Arguments) -> Any:
    value = real_kind.take(value, call)
    if not type_of(value).shape:
        message = "alpha has a dimension, along which a vector's parameters stand"
        wanted = "an array of one dimension or more"
        fix = Fix("dimension", "pass an array such as weft.numpy.array([1.0, 2.0])", {})
        raise ShapeError(message, got=f"{call.name} of shape {()}", wanted=wanted, fix=fix)
    return value


def _without_last(value: Any, call: Arguments) -> Shape:
    alpha = call["alpha"]
    *batch, n = type_of(alpha).shape
    if value is None:
        return (*batch,)
    shape = check_shape(value)
    joined_shape((*shape, n), alpha=alpha)
    return shape


_MEANS = "the lengths of the result without the last; None for those of the parameters"
_TWO = np.ones(2, np.float32)
Vectors = Annotated[
    Any, dataclasses.replace(real_kind, take=_vectors, wrong=(2.0, [1.0]), right=_TWO)
]
WithoutLast = Annotated[Any, Kind(_without_last, _MEANS, ("text", -1), plain=NEVER, late=True)]


def _accepted_cube(stream: Stream, a: Any) -> Any:
    """The accepted cube v: for a >= 1, (a - 1/3) v is gamma distributed."""
    dtype = type_of(a).dtype
    nothing, start, above = (broadcast_number(i, (), dtype) for i in (0, -1, 2))
    third = dtype.type(1.0 / 3.0)
    d = a - third
    c = third / sqrt(d)
    generator = stream.generator

    def draw(state: Arrays) -> Arrays:
        following, normals = Stream(generator, state[0]).split()
        x = normal_of(normals, (), dtype)
        return following.bits, x, 1 + x * c

    def rejected(state: Arrays) -> Any:
        _, squared, cube, u = state
        # The first test, which costs no logarithm, decides alone for most; both are needed for all.
        beyond = u >= 1 - dtype.type(0.0331) * (squared * squared)
        bound = squared * 0.5 + d * (1 - cube + log(cube))
        return beyond & (log(u) >= bound)

    def attempt(state: Arrays) -> Arrays:
        following, normals, uniforms = Stream(generator, state[0]).split(3)
        _, x, v = while_loop(lambda s: s[2] <= 0, draw, (normals.bits, nothing, start))
        return following.bits, x * x, v * v * v, uniforms.unit((), dtype)

    return while_loop(rejected, attempt, (stream.bits, nothing, above, above))[2]


def _one_gamma(stream: Stream, a: Any, log_space: bool) -> Any:
    """A gamma distributed number, or its logarithm, for one parameter."""
    dtype = type_of(a).dtype
    zero, one = dtype.type(0), dtype.type(1)
    large = a >= 1
    # A number for a + 1, times a uniform number to the power 1 / a, is one for a.
    raised = select(large, a, a + 1)
    body, boost = stream.split()
    cube = _accepted_cube(body, raised)
    scale = raised - dtype.type(1.0 / 3.0)
    if log_space:
        power = select(a <= 0, dtype.type(-1), -exponential_of(boost, (), dtype))
        skipped = select(large, large, power == 0)
        out = log(scale) + log(cube) + select(skipped, zero, power * (1 / a))
    else:
        factor = select(large, one, pow(1 - boost.unit((), dtype), 1 / a))
        out = select(a == 0, zero, scale * cube * factor)
    return select(a < 0, dtype.type(np.nan), out)


def _map_elements(stream: Stream, n: int, function: Callable[..., Any], *columns: Any) -> Any:
    """Applies a function of a stream and numbers to each element, each with its own stream."""
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
    out = _map_elements(stream, n, lambda s, x: _one_gamma(s, x, log_space), reshape(a, (n,)))
    return reshape(out, shape)


def random_gamma_jvp(primals: Values, tangents: Values, *, log_space: bool) -> tuple[Any, Any]:
    key, a = primals
    out = random_gamma_p.bind(key, a, log_space=log_space)
    if type(tangents[1]) is Zero:
        return out, Zero(type_of(out).tangent())
    if not log_space:
        return out, mul(tangents[1], random_gamma_grad(a, out))
    dtype = type_of(a).dtype
    # Near 0 the distribution function is x**a / gamma(a + 1), which gives the derivative also where
    # the number itself is too small for the dtype.
    small = lt(out, dtype.type(np.log(dtypes.finfo(dtype).eps)))
    near_zero = div(sub(digamma(add(a, dtype.type(1))), out), a)
    x = exp(select(small, broadcast_in_dim(dtype.type(0), type_of(out).shape, ()), out))
    slope = select(small, near_zero, div(random_gamma_grad(a, x), x))
    return out, mul(tangents[1], slope)


# One key and an array of parameters of a floating-point dtype: gamma distributed numbers, or their
# logarithms with `log_space`. A primitive, since its derivative is not that of its body.
random_gamma_p = define_primitive("random_gamma", body=_random_gamma, jvp=random_gamma_jvp)


def key_of(stream: Stream) -> Any:
    """The typed key of a stream."""
    return extended_dtypes.wrap_key_bits(stream.bits, stream.generator.dtype)


def log_gamma_of(stream: Stream, a: Any, shape: Shape, dtype: Any) -> Any:
    """Logarithms of gamma distributed numbers from a stream."""
    a = broadcast_to(full_operand(a, shape, dtype), shape)
    return random_gamma_p.bind(key_of(stream), a, log_space=True)


@draw_function
def gamma(
    key: Key, a: Real, shape: Joined = None, dtype: Reals = None, *, out_sharding: Sharding = None
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
    a = broadcast_to(full_operand(a, shape, dtype), shape)
    return random_gamma_p.bind(key, a, log_space=False)


@draw_function
def loggamma(
    key: Key, a: Real, shape: Joined = None, dtype: Reals = None, *, out_sharding: Sharding = None
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
    return log_gamma_of(stream_of(key), a, shape, dtype)


@draw_function
def beta(
    key: Key,
    a: Real,
    b: Real,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
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
    first, second = stream_of(key).split()
    x, y = log_gamma_of(first, a, shape, dtype), log_gamma_of(second, b, shape, dtype)
    largest = stop_gradient(maximum(x, y))
    x, y = exp(x - largest), exp(y - largest)
    return x / (x + y)


@draw_function
def dirichlet(
    key: Key,
    alpha: Vectors,
    shape: WithoutLast = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
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
    n = type_of(alpha).shape[-1]
    axis = len(shape)
    x = log_gamma_of(stream_of(key), alpha, (*shape, n), dtype)
    if n == 0:
        return x
    x = exp(x - _along(stop_gradient(reduce_max(x, (axis,))), axis, n))
    return x / _along(total(x, axis), axis, n)


def _along(x: Any, axis: int, n: int) -> Any:
    """Repeats a reduced array along the reduced dimension."""
    shape = type_of(x).shape
    return broadcast_to(expand_dims(x, [axis]), (*shape[:axis], n, *shape[axis:]))


def is_half_precision(dtype: Any) -> bool:
    """Whether a dtype has half precision.

    There logarithms have too few digits to help, and the formulas without them round as JAX's do,
    to the last bit.
    """
    return bool(dtype.itemsize == 2)


def total(x: Any, axis: int) -> Any:
    """The sum along an axis; half precision is summed in float32."""
    dtype = type_of(x).dtype
    wide = computing_dtype(dtype)
    return convert_element_type(reduce_sum(convert_element_type(x, wide), (axis,)), dtype)


def _chi_square(stream: Stream, df: Any, shape: Shape, dtype: Any) -> Any:
    return exp(log_gamma_of(stream, df / 2, shape, dtype)) * 2


@draw_function
def chisquare(
    key: Key, df: Real, shape: Joined = None, dtype: Reals = None, *, out_sharding: Sharding = None
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
    return _chi_square(stream_of(key), full_operand(df, shape, dtype), shape, dtype)


@draw_function
def t(
    key: Key, df: Real, shape: Joined = None, dtype: Reals = None, *, out_sharding: Sharding = None
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
    normals, gammas = stream_of(key).split()
    half = broadcast_to(full_operand(df, shape, dtype) / 2, shape)
    if is_half_precision(dtype):
        scale = sqrt(half / random_gamma_p.bind(key_of(gammas), half, log_space=False))
    else:
        scale = exp((log(half) - log_gamma_of(gammas, half, shape, dtype)) / 2)
    return normal_of(normals, shape, dtype) * scale


@draw_function
def f(
    key: Key,
    dfnum: Real,
    dfden: Real,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """F distributed numbers: the quotient of two chi-square distributed numbers, each divided by
    its degrees of freedom, which are `dfnum` and `dfden`.

    dfnum, dfden: the degrees of freedom, above 0, which broadcast to `shape`, by default the one to
    which they broadcast together. The result has derivatives in both, of first order.

    >>> import weft
    >>> weft.random.f(weft.random.key(0), 4.0, 10.0, (2, 3)).shape
    (2, 3)
    """
    above, below = (broadcast_to(full_operand(x, shape, dtype), shape) for x in (dfnum, dfden))
    second, first = stream_of(key).split()
    if is_half_precision(dtype):
        x, y = _chi_square(first, above, shape, dtype), _chi_square(second, below, shape, dtype)
        return (x / above) / (y / below)
    x = log_gamma_of(first, above / 2, shape, dtype)
    y = log_gamma_of(second, below / 2, shape, dtype)
    # In logarithms, since both numbers may be too small while their quotient is not.
    return exp(x - y + log(below / above))
