"""Random vectors and matrices: normal ones of a covariance, points of balls, orthogonal matrices.

The generalized normal distribution is here, too, since points of balls are drawn by it: F. Barthe,
O. Guédon, S. Mendelson, A. Naor, "A probabilistic approach to the geometry of the l_p^n-ball",
Annals of Probability 33 (2005). Orthogonal matrices: F. Mezzadri, "How to generate random matrices
from the classical compact groups", Notices of the AMS 54 (2007).
"""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import Fix, ShapeError
from weft.errors.argument_errors import invalid_value, unknown_option
from weft.kinds.arguments import NEVER, Length
from weft.kinds.checks import computing_dtype, convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import abs, exp, log, sign, sqrt
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.powers import pow
from weft.ops.elementwise.selection import select
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.eigh import eigh
from weft.ops.linalg.matrices import diagonal, matmul, part, scaled_columns, transpose_matrices
from weft.ops.linalg.qr import qr
from weft.ops.linalg.svd import svd
from weft.ops.reductions.reduce import reduce_max
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import expand_dims, reduce_sum, reshape
from weft.random.continuous import exponential_of
from weft.random.draw_arguments import Key, Numbers, Reals, Shape, Sharding, joined_shape, real_kind
from weft.random.gamma import is_half_precision, key_of, log_gamma_of, random_gamma_p, total
from weft.random.gaussian import draw_normal
from weft.random.streams import (
    Stream,
    broadcast_number,
    broadcast_to,
    draw_function,
    full_operand,
    stream_of,
)
from weft.random.uniforms import draw_signs

__all__ = ["ball", "generalized_normal", "multivariate_normal", "orthogonal"]


def _power(value: Any, call: Arguments) -> Any:
    if isinstance(value, (int, float)) and not value > 0:
        message = f"{call.operation}: the power p is positive"
        wanted = "a number above 0, or infinity"
        raise invalid_value(message, call.operation, "p", value, wanted, use=2.0)
    return real_kind.take(value, call)


_METHODS = ("cholesky", "eigh", "svd")
_ONE_OF_METHODS = f"one of {', '.join(map(repr, _METHODS))}"


def _method(value: Any, call: Arguments) -> Any:
    if value not in _METHODS:
        fix = Fix("method", "leave method out", {"method": "cholesky"})
        raise unknown_option(call.operation, "method", value, _ONE_OF_METHODS, fix=fix)
    return value


Power = Annotated[
    Any, dataclasses.replace(real_kind, take=_power, wrong=(*real_kind.wrong, 0, -1.0))
]
Method = Annotated[str, Kind(_method, _ONE_OF_METHODS, ("lu",), plain=NEVER)]
Vectors = Annotated[Any, dataclasses.replace(real_kind, right=np.ones(2, np.float32))]
Matrices = Annotated[Any, dataclasses.replace(real_kind, right=np.eye(2, dtype=np.float32))]


@draw_function
def generalized_normal(
    key: Key, p: Power, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
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
    shape = joined_shape(shape, p=p)
    if is_half_precision(dtype):
        return _narrow_parts(stream_of(key), p, shape, dtype)[0]
    signs, sizes, p = _parts(stream_of(key), p, shape, dtype)
    return signs * exp(sizes / p)


def _parts(stream: Stream, p: Any, shape: Shape, dtype: Any) -> tuple[Any, Any, Any]:
    """The signs, the logarithms of the p-th powers of the sizes, and p."""
    # The limit of large p is reached long before 1 / p leaves the dtype.
    p = minimum(broadcast_to(full_operand(p, shape, dtype), shape), dtype.type(1e30))
    powers, signs = stream.split()
    sizes = log_gamma_of(powers, 1 / p, shape, dtype)
    return draw_signs(signs, shape, dtype), sizes, p


def _narrow_parts(stream: Stream, p: Any, shape: Shape, dtype: Any) -> tuple[Any, Any, Any]:
    """Numbers in half precision, p and 1 / p, which is divided before it is rounded."""
    powers, signs = stream.split()
    if p.weak_type or p.dtype not in dtypes.FLOATING:
        p = convert(p, dtypes.float32)
    p, inverse = (broadcast_to(full_operand(x, shape, dtype), shape) for x in (p, 1 / p))
    sizes = pow(random_gamma_p.bind(key_of(powers), inverse, log_space=False), inverse)
    sizes = select(inverse == 0, powers.unit(shape, dtype), sizes)
    return draw_signs(signs, shape, dtype) * sizes, p, inverse


@draw_function
def ball(
    key: Key,
    d: Length,
    p: Power = 2,
    shape: Shape = (),
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
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
    shape = joined_shape(shape, p=p)
    first, second = stream_of(key).split()
    whole, axis = (*shape, d), len(shape)

    def along(x: Any) -> Any:
        return expand_dims(x, [axis])

    if is_half_precision(dtype):
        x, p, inverse = _narrow_parts(
            first, along(broadcast_to(p, shape)) if p.ndim else p, whole, dtype
        )
        norm = total(pow(abs(x), p), axis) + exponential_of(second, shape, dtype)
        return x / pow(broadcast_to(along(norm), whole), inverse)
    p = broadcast_to(full_operand(p, shape, dtype), shape)
    signs, sizes, p = _parts(first, broadcast_to(along(p), whole), whole, dtype)
    radius = log(exponential_of(second, shape, dtype))
    # A sum of exponentials relative to the largest: unless p is 2, terms may be of any size.
    parts = concatenate([sizes, along(radius)], axis)
    largest = stop_gradient(reduce_max(parts, (axis,)))
    relative = exp(parts - broadcast_to(along(largest), (*shape, d + 1)))
    norm = log(reduce_sum(relative, (axis,))) + largest
    return signs * exp((sizes - broadcast_to(along(norm), whole)) / p)


@draw_function
def multivariate_normal(
    key: Key,
    mean: Vectors,
    cov: Matrices,
    shape: Shape | None = None,
    dtype: Reals | None = None,
    method: Method = "cholesky",
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Normally distributed vectors of a mean, of shape (..., n), and a covariance (..., n, n).

    mean: the means, (..., n); cov: the covariances, (..., n, n), symmetric. Their other dimensions
    broadcast to `shape`, by default the one to which they broadcast together; the result has shape
    `(*shape, n)`, and by default the dtype of both parameters. The covariance is factored by
    `method`: "cholesky", which takes positive definite matrices and gives NaN for others, or "eigh"
    or "svd", which also take singular ones. The result has derivatives in mean and covariance;
    those of the covariance by "eigh" and "svd" are not finite where eigenvalues are equal.

    >>> import weft, weft.numpy as jnp
    >>> cov = jnp.array([[2.0, 1.0], [1.0, 1.0]])
    >>> drawn = weft.random.multivariate_normal(weft.random.key(0), jnp.zeros(2), cov, (5000,))
    >>> drawn.shape, bool(abs(jnp.cov(drawn.T) - cov).max() < 0.2)
    ((5000, 2), True)
    """
    shape = _batch(mean.shape, cov.shape, shape)
    if dtype is None:
        dtype = dtypes.promote(*[(x.dtype, x.weak_type) for x in (mean, cov)])[0]
        dtype = dtype if dtype in dtypes.FLOATING else dtypes.default_float()
    wide = computing_dtype(dtype)
    n = mean.shape[-1]
    whole = (*shape, n)
    drawn = convert(draw_normal(stream_of(key), whole, dtype), wide)
    factor = _factor(convert(cov, wide), method)
    if factor.ndim == 2:
        turned = matmul(reshape(drawn, (prod(shape), n)), transpose_matrices(factor))
    else:
        turned = matmul(broadcast_to(factor, (*whole, n)), expand_dims(drawn, [len(whole)]))
    return convert(broadcast_to(convert(mean, wide), whole) + reshape(turned, whole), dtype)


def _batch(mean: Shape, cov: Shape, shape: Shape | None) -> Shape:
    """The shape of the result without the last dimension."""
    if not mean or len(cov) < 2 or cov[-2:] != (mean[-1], mean[-1]):
        message = "mean has shape (..., n) and cov has shape (..., n, n)"
        got = f"mean of shape {mean}, cov of shape {cov}"
        wanted = "a vector and a square matrix of its length, or arrays of those"
        raise ShapeError(message, got=got, wanted=wanted)
    rows = {"mean without its last dimension": mean[:-1], "cov without its last two": cov[:-2]}
    zeros = {name: np.broadcast_to(np.float32(0), lengths) for name, lengths in rows.items()}
    return joined_shape(shape, **zeros)


def _factor(cov: Any, method: str) -> Any:
    """A matrix whose product with its transpose is the covariance."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        vectors, values = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    # Rounding may make zero eigenvalues negative; the square root of 0 has no derivative.
    positive = values > 0
    one, zero = (broadcast_number(i, values.shape, values.dtype) for i in (1, 0))
    return scaled_columns(vectors, select(positive, sqrt(select(positive, values, one)), zero))


@draw_function
def orthogonal(
    key: Key,
    n: Length,
    shape: Shape = (),
    dtype: Numbers = None,
    m: Length | None = None,
    *,
    out_sharding: Sharding = None,
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
    m = n if m is None else m
    long, short = max(n, m), min(n, m)
    drawn = draw_normal(stream_of(key), (*shape, long, short), dtype)
    q, r = qr(convert(drawn, computing_dtype(dtype)), full_matrices=False)
    # Q R with a positive diagonal of R is unique, and its Q is unbiased.
    q = scaled_columns(q, sign(diagonal(part(r, (0, short)))))
    return convert(transpose_matrices(q) if n < m else q, dtype)
