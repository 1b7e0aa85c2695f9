"""The multivariate normal distribution: a mean vector, and a covariance matrix or a variance."""

from __future__ import annotations

import math
from typing import Any

import weft.numpy as jnp
from weft.argument_errors import invalid_shape, not_taken
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.kinds.checks import broadcast_shape, computing_dtype
from weft.kinds.compiled_functions import compiled
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.linalg.cholesky import cholesky
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.scipy.real_functions import real_operands

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())


@compiled
def _log_density(x: Any, mean: Any, cov: Any, *, dtype: Any) -> Any:
    x, mean, cov = (convert_element_type(v, computing_dtype(dtype)) for v in (x, mean, cov))
    away = x - mean
    of = type_of(away)
    if not type_of(cov).ndim:
        # Without a vector among mean and cov the distribution has one dimension.
        vectors = type_of(mean).ndim > 0
        count = of.shape[-1] if vectors else 1
        square = jnp.sum(away * away, axis=-1) if vectors else away * away
        found = -0.5 * (square / cov + count * (math.log(2 * math.pi) + jnp.log(cov)))
        return convert_element_type(found, dtype)
    n = type_of(cov).shape[-1]
    batch = broadcast_shape("multivariate_normal", of.shape[:-1], type_of(cov).shape[:-2])
    # The points of one covariance are columns of one system, not a system each.
    shared = len(batch) - (type_of(cov).ndim - 2)
    points, matrices = math.prod(batch[:shared]), batch[shared:]
    factor = jnp.broadcast_to(cholesky(cov), (*matrices, n, n))
    away = jnp.broadcast_to(away, (*batch, n)).reshape((points, *matrices, n))
    white = triangular_solve(factor, jnp.moveaxis(away, 0, -1), left_side=True, lower=True)
    square = jnp.moveaxis(jnp.sum(white * white, axis=-2), -1, 0).reshape(batch)
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    found = -0.5 * square - 0.5 * n * math.log(2 * math.pi) - log_det
    return convert_element_type(found, dtype)


def _checked(operation: str, x: Any, mean: Any, cov: Any) -> Any:
    operands, dtype = real_operands(
        operation, ("x", "mean", "cov"), (x, mean, cov), broadcast=False
    )
    shapes = [type_of(value).shape for value in operands]
    joint = broadcast_shape(operation, shapes[0], shapes[1])
    if shapes[2]:
        if len(shapes[2]) < 2 or shapes[2][-1] != shapes[2][-2]:
            message = f"{operation} takes a number or square matrices as cov"
            raise invalid_shape(message, operation, "cov", shapes[2], "shape () or (..., n, n)")
        if not joint or joint[-1] not in (1, shapes[2][-1]):
            message = f"{operation}: x and mean are vectors of the length of cov"
            got = f"x of shape {shapes[0]}, mean of shape {shapes[1]}, cov of shape {shapes[2]}"
            wanted = f"a last dimension of length {shapes[2][-1]}"
            raise ShapeError(message, operation=operation, got=got, wanted=wanted)
        broadcast_shape(operation, joint[:-1], shapes[2][:-2])
    return _log_density(*operands, dtype=dtype)


@api_boundary
def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
    """The logarithm of the density at x (..., n), for a mean (..., n) and covariances (..., n, n).

    cov without dimensions: a variance, the same for all components, which are independent; where
    the mean has none either, the distribution has one dimension, and x any shape. NaN where cov is
    not positive definite. By Cholesky factorisation. Raises ShapeError if the shapes do not fit,
    NotImplementedError for allow_singular.

    Args:
        mean: The centre of the distribution, a vector (..., n) or a number.
        cov: The covariances (..., n, n), positive definite, or a variance.
        allow_singular: Must be None: singular covariances are not taken.

    >>> logpdf(np.zeros(2), np.zeros(2), np.eye(2))
    Array(-1.837877, dtype=float32)
    """
    if allow_singular is not None:
        why = "the covariance has to be positive definite"
        fix = "leave it out; a singular covariance gets a density by adding eps * eye(n) to it"
        name = "multivariate_normal.logpdf"
        raise not_taken(name, "allow_singular", allow_singular, why, fix)
    return _checked("multivariate_normal.logpdf", x, mean, cov)


@api_boundary
def pdf(x: Any, mean: Any, cov: Any) -> Array:
    """The density at x (..., n), for a mean (..., n) and covariances (..., n, n). See `logpdf`.

    mean: the centre of the distribution, a vector (..., n) or a number; cov: the covariances (...,
    n, n), positive definite, or a variance.

    >>> pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2))
    Array(0.15915495, dtype=float32)
    """
    return jnp.exp(_checked("multivariate_normal.pdf", x, mean, cov))
