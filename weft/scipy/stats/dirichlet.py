"""The Dirichlet distribution of k numbers from 0 to 1 whose sum is 1.

The numbers are along the first dimension of x; the last one may be left out.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import ArrayType
from weft.errors import Fix, ShapeError
from weft.kinds.kind import Arguments
from weft.ops.elementwise.densities import log_gamma_density_p
from weft.scipy.real_functions import Real, real, real_function, to_working_dtype
from weft.scipy.stats.distributions import valid

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())

# How far the sum may be from 1, beside rounding.
_TOLERANCE = 1e-6


def _check_vector(of: ArrayType, call: Arguments) -> None:
    if of.ndim != 1 or not of.shape[0]:
        name = f"weft.scipy.stats.{call.operation}"
        raise ShapeError(
            f"takes a vector {call.name}",
            got=f"{call.name} of type {of}",
            wanted="one dimension, with a parameter for each number",
            fix=Fix("vmap", f"map over several: weft.vmap({name}, (None, 0))(x, {call.name})"),
        )


Parameters = Annotated[Any, real("a vector of positive numbers", np.ones(2), _check_vector)]


def _log_density(x: Any, alpha: Any) -> Any:
    (count,) = alpha.shape
    if not x.ndim or x.shape[0] not in (count, count - 1):
        fix = Fix("transpose", "pass x.T: the numbers stand along the last dimension")
        raise ShapeError(
            "the first dimension of x has a number for each parameter",
            got=f"x of type {x.type} and alpha of type {alpha.type}",
            wanted=f"a first dimension of length {count} (or {count - 1}, the last left out)",
            fix=fix if x.ndim and x.shape[-1] in (count, count - 1) else None,
        )
    x, alpha, dtype = to_working_dtype(x, alpha)
    if x.shape[0] == count - 1:
        x = jnp.concatenate([x, 1.0 - x.sum(0, keepdims=True)])
    along = alpha.reshape(count, *[1] * (x.ndim - 1))
    off = abs(x.sum(0) - 1.0)
    limit = max(_TOLERANCE, 4 * count * float(dtypes.finfo(dtype).eps))
    outside = (x < 0) | (x > 1)
    impossible = outside.any(0) | (off > limit)
    safe = jnp.where(outside, 0.5, x)
    # Independent gamma variables over their sum: large logarithms would cancel in the quotient of
    # powers and gamma functions.
    total = alpha.sum()
    parts = log_gamma_density_p.bind(*jnp.broadcast_arrays(along, total * safe))
    out = parts.sum(0) - log_gamma_density_p.bind(total, total)
    out = out + (count - 1) * jnp.log(total) + total * (safe.sum(0) - 1.0)
    return valid((alpha > 0).all(), jnp.where(impossible, -jnp.inf, out)).astype(dtype)


@real_function("dirichlet")
def logpdf(x: Real, alpha: Parameters) -> Array:
    """The logarithm of the density at x, of shape (k, ...) or (k - 1, ...), with alpha (k,).

    Minus infinity where a number is outside of 0 … 1 or their sum is not 1; NaN where a parameter
    is not positive. Raises ShapeError if the shapes do not fit.

    alpha: the k positive parameters of the distribution.

    >>> logpdf(np.array([0.25, 0.75]), np.array([1.0, 1.0]))
    Array(0., dtype=float32)
    """
    return _log_density(x, alpha)


@real_function("dirichlet")
def pdf(x: Real, alpha: Parameters) -> Array:
    """The density at x, of shape (k, ...) or (k - 1, ...), with alpha (k,). See `logpdf`.

    alpha: the k positive parameters of the distribution.

    >>> pdf(jnp.array([0.3, 0.7]), jnp.array([2.0, 2.0]))
    Array(1.2599998, dtype=float32)
    """
    return jnp.exp(_log_density(x, alpha))
