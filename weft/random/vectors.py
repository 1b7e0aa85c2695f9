"""Random vectors and matrices: normal ones of a covariance, points of balls, orthogonal matrices.

The generalized normal distribution is here, too, since points of balls are drawn by it: F. Barthe,
O. Guédon, S. Mendelson, A. Naor, "A probabilistic approach to the geometry of the l_p^n-ball",
Annals of Probability 33 (2005). Orthogonal matrices: F. Mezzadri, "How to generate random matrices
from the classical compact groups", Notices of the AMS 54 (2007).
"""

from __future__ import annotations

import functools
import operator
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_class, invalid_value, negative_value, unknown_option
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError
from weft.kinds.checks import computing_dtype
from weft.ops.elementwise.arithmetic import abs, add, div, eq, exp, gt, log, mul, sign, sqrt, sub
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.powers import pow
from weft.ops.elementwise.selection import select
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.eigh import eigh
from weft.ops.linalg.matrices import diagonal, matmul, part, scaled_columns, swapped
from weft.ops.linalg.qr import qr
from weft.ops.linalg.svd import svd
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import expand_dims, reduce_sum, reshape
from weft.random.continuous import exponential_of
from weft.random.gamma import is_narrow, key_of, log_gamma_of, random_gamma_p, total
from weft.random.gaussian import draw_normal
from weft.random.sampler import sampler
from weft.random.sampler_arguments import (
    Arrays,
    Shape,
    Static,
    check_dtype,
    check_key,
    check_parameter,
    check_shape,
    joined_shape,
    parametric,
)
from weft.random.streams import Stream, filled, full_operand, repeated, stream_of
from weft.random.uniforms import draw_signs

__all__ = ["ball", "generalized_normal", "multivariate_normal", "orthogonal"]


def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Generalized normal distributed numbers: density proportional to exp(-|x|**p).

    `p`, which is positive, is a number or an array that broadcasts to `shape`; where it is infinite
    the numbers are uniform in [-1, 1]. The result has a derivative in `p`, of first order.
    Raises WeftValueError for a Python number that is not positive.

    p: the power in the density, above 0; 2 for a normal distribution; shape: the lengths of the
    result.

    >>> import weft
    >>> weft.random.generalized_normal(weft.random.key(0), 3.0, (2, 3)).shape
    (2, 3)
    """
    return _generalized_normal((key, p), (shape, dtype), out_sharding)


def _parts(stream: Stream, p: Any, shape: Shape, dtype: Any) -> tuple[Any, Any, Any]:
    """The signs of such numbers, the logarithms of the p-th powers of their sizes, and p."""
    # The limit of large p is reached long before 1 / p leaves the dtype.
    p = minimum(repeated(full_operand(p, shape, dtype), shape), dtype.type(1e30))
    powers, signs = stream.split()
    sizes = log_gamma_of(powers, div(dtype.type(1), p), shape, dtype)
    return draw_signs(signs, shape, dtype), sizes, p


def _narrow_parts(stream: Stream, p: Any, shape: Shape, dtype: Any) -> tuple[Any, Any, Any]:
    """Such numbers in half precision, p and 1 / p, which is divided before it is rounded."""
    powers, signs = stream.split()
    of = type_of(p)
    if of.weak_type or of.dtype not in dtypes.FLOATING:
        p = convert_element_type(p, dtypes.float32)
    inverse = div(type_of(p).dtype.type(1), p)
    p, inverse = (repeated(full_operand(x, shape, dtype), shape) for x in (p, inverse))
    sizes = pow(random_gamma_p.bind(key_of(powers), inverse, log_space=False), inverse)
    sizes = select(eq(inverse, dtype.type(0)), powers.unit(shape, dtype), sizes)
    return mul(draw_signs(signs, shape, dtype), sizes), p, inverse


def _check_power(operation: str, p: Any) -> None:
    if isinstance(p, (int, float)) and not p > 0:
        message = f"{operation}: the power p is positive"
        raise invalid_value(message, operation, "p", p, "a number above 0, or infinity", use=2.0)


_check_real = parametric("real numbers", "p")


def _check_generalized_normal(operation: str, arrays: Arrays, static: Static) -> Any:
    _check_power(operation, arrays[1])
    return _check_real(operation, arrays, (check_shape(operation, static[0]), static[1]))


@sampler(_check_generalized_normal)
def _generalized_normal(key: Any, p: Any, shape: Shape, dtype: Any) -> Any:
    if is_narrow(dtype):
        return _narrow_parts(stream_of(key), p, shape, dtype)[0]
    signs, sizes, p = _parts(stream_of(key), p, shape, dtype)
    return mul(signs, exp(div(sizes, p)))


def ball(
    key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Points uniformly distributed in the unit ball of dimension `d`: the vectors x whose norm,
    (|x[0]|**p + … + |x[d-1]|**p)**(1 / p), is at most 1.

    `p`, which is positive, is a number or an array that broadcasts to `shape`; infinity gives the
    cube. The result has shape `(*shape, d)`, and a derivative in `p`, of first order. Raises
    WeftValueError for a Python number `p` that is not positive or a negative `d`.

    d: the number of dimensions, from 0; p: the power of the norm, above 0; 2 for the ordinary
    length.

    >>> import weft
    >>> points = weft.random.ball(weft.random.key(0), 3, shape=(100,))
    >>> points.shape, bool((points**2).sum(-1).max() <= 1)
    ((100, 3), True)
    """
    return _ball((key, p), (d, shape, dtype), out_sharding)


def _check_ball(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    d, shape, dtype = static
    _check_power(operation, arrays[1])
    d = _check_length(operation, "d", d)
    arrays, (shape, dtype) = _check_real(operation, arrays, (check_shape(operation, shape), dtype))
    return arrays, (d, shape, dtype)


def _check_length(operation: str, name: str, value: Any) -> int:
    """A length that is not negative. Raises WeftTypeError or WeftValueError."""
    try:
        found = operator.index(value)
    except TypeError as error:
        if isinstance(error, WeftTypeError):
            raise  # a traced number: the error says what to do
        message = f"{operation}: {name} is an integer"
        raise invalid_class(message, operation, name, value, "an integer of 0 or more") from None
    if found < 0:
        raise negative_value(operation, name, found)
    return found


@sampler(_check_ball)
def _ball(key: Any, p: Any, d: int, shape: Shape, dtype: Any) -> Any:
    first, second = stream_of(key).split()
    whole, axis = (*shape, d), len(shape)
    if is_narrow(dtype):
        rows = expand_dims(repeated(p, shape), [axis]) if type_of(p).ndim else p
        x, p, inverse = _narrow_parts(first, rows, whole, dtype)
        norm = add(total(pow(abs(x), p), axis), exponential_of(second, shape, dtype))
        return div(x, pow(repeated(expand_dims(norm, [axis]), whole), inverse))
    p = repeated(full_operand(p, shape, dtype), shape)
    signs, sizes, p = _parts(first, repeated(expand_dims(p, [axis]), whole), whole, dtype)
    radius = log(exponential_of(second, shape, dtype))
    # A sum of exponentials relative to the largest: unless p is 2, terms may be of any size.
    parts = concatenate([sizes, expand_dims(radius, [axis])], axis)
    largest = stop_gradient(reduce_max(parts, (axis,)))
    spread = repeated(expand_dims(largest, [axis]), (*shape, d + 1))
    norm = add(log(reduce_sum(exp(sub(parts, spread)), (axis,))), largest)
    norm = repeated(expand_dims(norm, [axis]), whole)
    return mul(signs, exp(div(sub(sizes, norm), p)))


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normally distributed vectors of a mean, of shape (..., n), and a covariance (..., n, n).

    The dimensions before these broadcast to `shape`, by default the one to which they broadcast
    together; the result has shape `(*shape, n)`, and by default the dtype of both parameters. The
    covariance is factored by `method`: "cholesky", which takes positive definite matrices and gives
    NaN for others, or "eigh" or "svd", which also take singular ones. The result has derivatives in
    mean and covariance; those of the covariance by "eigh" and "svd" are not finite where
    eigenvalues are equal.

    Args:
        mean: The means, (..., n).
        cov: The covariances, (..., n, n), symmetric.
        shape: The lengths of the result without the last; None for those to which the parameters
            broadcast together.

    >>> import weft, weft.numpy as jnp
    >>> cov = jnp.array([[2.0, 1.0], [1.0, 1.0]])
    >>> drawn = weft.random.multivariate_normal(weft.random.key(0), jnp.zeros(2), cov, (5000,))
    >>> drawn.shape, bool(abs(jnp.cov(drawn.T) - cov).max() < 0.2)
    ((5000, 2), True)
    """
    return _multivariate_normal((key, mean, cov), (shape, dtype, method), out_sharding)


def _factor(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        vectors, values = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    # Rounding may make zero eigenvalues negative; the square root of 0 has no derivative.
    positive = gt(values, type_of(values).dtype.type(0))
    one, nothing = (filled(i, type_of(values).shape, type_of(values).dtype) for i in (1, 0))
    roots = select(positive, sqrt(select(positive, values, one)), nothing)
    return scaled_columns(vectors, roots)


_METHODS = ("cholesky", "eigh", "svd")


def _check_multivariate_normal(
    operation: str, arrays: Arrays, static: Static
) -> tuple[Arrays, Static]:
    key = check_key(operation, arrays[0])
    mean, cov = (
        check_parameter(operation, *x) for x in zip(("mean", "cov"), arrays[1:], strict=True)
    )
    shape, dtype, method = static
    if method not in _METHODS:
        fix = Fix("method", "leave method out", {"method": "cholesky"})
        raise unknown_option(
            operation, "method", method, "one of " + ", ".join(map(repr, _METHODS)), fix=fix
        )
    own, square = type_of(mean).shape, type_of(cov).shape
    if not own or len(square) < 2 or square[-2:] != (own[-1], own[-1]):
        message = f"{operation}: mean has shape (..., n) and cov has shape (..., n, n)"
        got = f"mean of shape {own}, cov of shape {square}"
        wanted = "a vector and a square matrix of its length, or arrays of those"
        raise ShapeError(message, operation=operation, got=got, wanted=wanted)
    shape = _batch(operation, shape, own[:-1], square[:-2])
    common = dtypes.default_float
    if dtype is None:
        common = functools.partial(_common_float, mean, cov)
    dtype = check_dtype(operation, dtype, dtypes.FLOATING, common, "real numbers")
    return (key, mean, cov), (shape, dtype, method)


def _common_float(mean: Any, cov: Any) -> Any:
    pairs = [(type_of(x).dtype, type_of(x).weak_type) for x in (mean, cov)]
    dtype = dtypes.promote(*pairs)[0]
    return dtype if dtype in dtypes.FLOATING else dtypes.default_float()


def _batch(operation: str, shape: Any, mean: Shape, cov: Shape) -> Shape:
    holders = (np.broadcast_to(np.float32(0), mean), np.broadcast_to(np.float32(0), cov))
    names = ("mean without its last dimension", "cov without its last two")
    shape = None if shape is None else check_shape(operation, shape)
    return joined_shape(shape, **dict(zip(names, holders, strict=True)))


@sampler(_check_multivariate_normal)
def _multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Shape, dtype: Any, method: str
) -> Any:
    wide = computing_dtype(dtype)
    n = type_of(mean).shape[-1]
    mean, cov = (convert_element_type(x, wide) for x in (mean, cov))
    whole = (*shape, n)
    drawn = convert_element_type(draw_normal(stream_of(key), whole, dtype), wide)
    factor = _factor(cov, method)
    if type_of(factor).ndim == 2:
        turned = matmul(reshape(drawn, (prod(shape), n)), swapped(factor))
    else:
        column = expand_dims(drawn, [len(whole)])
        turned = matmul(repeated(factor, (*whole, n)), column)
    made = add(repeated(mean, whole), reshape(turned, whole))
    return convert_element_type(made, dtype)


def orthogonal(
    key: Any,
    n: int,
    shape: Any = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Orthogonal matrices of shape (n, n), or unitary ones for a complex dtype, each as likely as
    any other (by Haar's measure).

    With `m` the matrices have shape (n, m): their columns are orthonormal, or their rows if there
    are fewer of those. The result has shape `(*shape, n, m)`. Raises WeftTypeError or
    WeftValueError for lengths that are not integers of 0 or more.

    n: the number of rows.

    >>> import weft, weft.numpy as jnp
    >>> q = weft.random.orthogonal(weft.random.key(0), 3)
    >>> bool(abs(q @ q.T - jnp.eye(3)).max() < 1e-6)
    True
    """
    return _orthogonal((key,), (n, shape, dtype, m), out_sharding)


_check_random = parametric("real or complex numbers")


def _check_orthogonal(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    n, shape, dtype, m = static
    n = _check_length(operation, "n", n)
    m = n if m is None else _check_length(operation, "m", m)
    arrays, (shape, dtype) = _check_random(operation, arrays, (shape, dtype))
    return arrays, (n, shape, dtype, m)


@sampler(_check_orthogonal)
def _orthogonal(key: Any, n: int, shape: Shape, dtype: Any, m: int) -> Any:
    wide = computing_dtype(dtype)
    long, short = max(n, m), min(n, m)
    drawn = draw_normal(stream_of(key), (*shape, long, short), dtype)
    q, r = qr(convert_element_type(drawn, wide), full_matrices=False)
    # Q R with a positive diagonal of R is unique, and its Q is unbiased.
    q = scaled_columns(q, sign(diagonal(part(r, (0, short)))))
    return convert_element_type(swapped(q) if n < m else q, dtype)
