"""The Dirichlet distribution of k numbers from 0 to 1 whose sum is 1.

The numbers are along the first dimension of x; the last one may be left out.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, api_boundary
from weft.kinds.checks import computing_dtype
from weft.kinds.compiled_functions import compiled
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.densities import log_gamma_density_p
from weft.scipy.real_functions import real_operands
from weft.scipy.stats.distributions import valid

__all__ = ["logpdf", "pdf"]

__dir__ = public_names(globals())

# How far the sum may be from 1, beside rounding.
_TOLERANCE = 1e-6


@compiled
def _log_density(x: Any, alpha: Any, *, dtype: Any) -> Any:
    x, alpha = (convert_element_type(value, computing_dtype(dtype)) for value in (x, alpha))
    shape = type_of(x).shape
    (count,) = type_of(alpha).shape
    if shape[0] == count - 1:
        x = jnp.concatenate([x, 1.0 - jnp.sum(x, axis=0, keepdims=True)])
    along = jnp.reshape(alpha, (count, *(1,) * (len(shape) - 1)))
    off = jnp.abs(jnp.sum(x, axis=0) - 1.0)
    limit = max(_TOLERANCE, 4 * count * float(jnp.finfo(dtype).eps))
    out = jnp.any((x < 0) | (x > 1), axis=0) | (off > limit)
    safe = jnp.where((x < 0) | (x > 1), 0.5, x)
    # Independent gamma variables over their sum: large logarithms would cancel in the quotient of
    # powers and gamma functions.
    total = jnp.sum(alpha)
    parts = log_gamma_density_p.bind(*jnp.broadcast_arrays(along, total * safe))
    found = jnp.sum(parts, axis=0) - log_gamma_density_p.bind(total, total)
    found = found + (count - 1) * jnp.log(total) + total * (jnp.sum(safe, axis=0) - 1.0)
    found = valid(jnp.all(alpha > 0), jnp.where(out, -jnp.inf, found))
    return convert_element_type(found, dtype)


def _checked(operation: str, x: Any, alpha: Any) -> Any:
    operands, dtype = real_operands(operation, ("x", "alpha"), (x, alpha), broadcast=False)
    of, parameters = (type_of(value) for value in operands)
    name = f"weft.scipy.stats.{operation}"
    if parameters.ndim != 1 or not parameters.shape[0]:
        message, got = f"{operation} takes a vector alpha", f"alpha of type {parameters}"
        wanted = "one dimension, with a parameter for each number"
        fix = Fix("vmap", f"map over several: weft.vmap({name}, (None, 0))(x, alpha)")
        raise ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    count = parameters.shape[0]
    if not of.ndim or of.shape[0] not in (count, count - 1):
        fix = Fix("transpose", "pass x.T: the numbers stand along the last dimension")
        raise ShapeError(
            f"{operation}: the first dimension of x has a number for each parameter",
            operation=operation,
            got=f"x of type {of} and alpha of type {parameters}",
            wanted=f"a first dimension of length {count} (or {count - 1}, the last left out)",
            fix=fix if of.ndim and of.shape[-1] in (count, count - 1) else None,
        )
    return _log_density(*operands, dtype=dtype)


@api_boundary
def logpdf(x: Any, alpha: Any) -> Array:
    """The logarithm of the density at x, of shape (k, ...) or (k - 1, ...), with alpha (k,).

    Minus infinity where a number is outside of 0 … 1 or their sum is not 1; NaN where a parameter
    is not positive. Raises ShapeError if the shapes do not fit.

    alpha: the k positive parameters of the distribution.

    >>> logpdf(np.array([0.25, 0.75]), np.array([1.0, 1.0]))
    Array(0., dtype=float32)
    """
    return _checked("dirichlet.logpdf", x, alpha)


@api_boundary
def pdf(x: Any, alpha: Any) -> Array:
    """The density at x, of shape (k, ...) or (k - 1, ...), with alpha (k,). See `logpdf`.

    alpha: the k positive parameters of the distribution.

    >>> pdf(jnp.array([0.3, 0.7]), jnp.array([2.0, 2.0]))
    Array(1.2599998, dtype=float32)
    """
    return jnp.exp(_checked("dirichlet.pdf", x, alpha))
