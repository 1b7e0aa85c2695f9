"""The multivariate normal distribution: a mean vector, and a covariance matrix or a variance."""

from __future__ import annotations

import math
from typing import Annotated, Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import ArrayType
from weft.errors import ShapeError
from weft.kinds.arguments import refused_kind
from weft.kinds.checks import broadcast_shape
from weft.kinds.kind import Arguments
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.real_functions import Real, real, real_function, to_working_dtype

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())


def _check_square(of: ArrayType, call: Arguments) -> None:
    if of.shape and (of.ndim < 2 or of.shape[-1] != of.shape[-2]):
        message = f"takes a number or square matrices as {call.name}"
        wanted = "shape () or (..., n, n)"
        raise ShapeError(message, got=f"{call.name} of shape {of.shape}", wanted=wanted)


Covariance = Annotated[Any, real("a variance or square matrices", 1.0, _check_square)]
NotSingular = Annotated[
    None,
    refused_kind(
        "the covariance has to be positive definite",
        "leave it out; a singular covariance gets a density by adding eps * eye(n) to it",
    ),
]


def _check_lengths(x: Any, mean: Any, cov: Any) -> None:
    """Raises ShapeError unless x and mean are vectors for the covariance."""
    joint = broadcast_shape(x.shape, mean.shape)
    if not cov.ndim:
        return
    if not joint or joint[-1] not in (1, cov.shape[-1]):
        raise ShapeError(
            "x and mean are vectors of the length of cov",
            got=f"x of shape {x.shape}, mean of shape {mean.shape}, cov of shape {cov.shape}",
            wanted=f"a last dimension of length {cov.shape[-1]}",
        )
    broadcast_shape(joint[:-1], cov.shape[:-2])


def _log_density(x: Any, mean: Any, cov: Any) -> Any:
    _check_lengths(x, mean, cov)
    x, mean, cov, dtype = to_working_dtype(x, mean, cov)
    away = x - mean
    if not cov.ndim:
        # Without a vector among mean and cov the distribution has one dimension.
        count = away.shape[-1] if mean.ndim else 1
        square = (away * away).sum(-1) if mean.ndim else away * away
        out = -0.5 * (square / cov + count * (math.log(2 * math.pi) + jnp.log(cov)))
        return out.astype(dtype)
    n = cov.shape[-1]
    batch = broadcast_shape(away.shape[:-1], cov.shape[:-2])
    # The points of one covariance are columns of one system, not a system each.
    shared = len(batch) - (cov.ndim - 2)
    points, matrices = math.prod(batch[:shared]), batch[shared:]
    factor = jnp.broadcast_to(cholesky(cov), (*matrices, n, n))
    away = jnp.broadcast_to(away, (*batch, n)).reshape((points, *matrices, n))
    white = triangular_solve(factor, jnp.moveaxis(away, 0, -1), left_side=True, lower=True)
    square = jnp.moveaxis((white * white).sum(-2), -1, 0).reshape(batch)
    log_det = jnp.log(factor.diagonal(axis1=-2, axis2=-1)).sum(-1)
    return (-0.5 * square - 0.5 * n * math.log(2 * math.pi) - log_det).astype(dtype)


@real_function("multivariate_normal")
def logpdf(x: Real, mean: Real, cov: Covariance, allow_singular: NotSingular = None) -> Array:
    """The logarithm of the density at x (..., n), for a mean (..., n) and covariances (..., n, n).

    mean: the centre of the distribution, a vector (..., n) or a number. cov: without dimensions a
    variance, the same for all components, which are independent; where the mean has none either,
    the distribution has one dimension, and x any shape. NaN where cov is not positive definite. By
    Cholesky factorisation. Raises ShapeError if the shapes do not fit, NotImplementedError for
    `allow_singular`, which must be None.

    >>> logpdf(np.zeros(2), np.zeros(2), np.eye(2))
    Array(-1.837877, dtype=float32)
    """
    return _log_density(x, mean, cov)


@real_function("multivariate_normal")
def pdf(x: Real, mean: Real, cov: Covariance) -> Array:
    """The density at x (..., n), for a mean (..., n) and covariances (..., n, n). See `logpdf`.

    mean: the centre of the distribution, a vector (..., n) or a number; cov: the covariances (...,
    n, n), positive definite, or a variance.

    >>> pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(0.15915495, dtype=float32)
    """
    return jnp.exp(_log_density(x, mean, cov))
