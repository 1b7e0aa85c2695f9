"""The multinomial distribution: how often each outcome occurs in n trials.

Outcomes are along the last dimension of x and p.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.kinds.checks import broadcast_shape, computing_dtype
from weft.kinds.compiled_functions import compiled
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.densities import log_poisson_p
from weft.scipy.real_functions import real_operands
from weft.scipy.stats.distributions import not_whole

__all__ = ["logpmf", "pmf"]

__dir__ = public_names(globals())


@compiled
def _log_probability(x: Any, n: Any, p: Any, *, dtype: Any) -> Any:
    x, n, p = (convert_element_type(value, computing_dtype(dtype)) for value in (x, n, p))
    out = jnp.any((x < 0) | not_whole(x), axis=-1) | (jnp.sum(x, axis=-1) != n)
    safe = jnp.where(x < 0, 0.0, x)
    counts, shares, total = jnp.broadcast_arrays(safe, p, jnp.expand_dims(n, -1))
    # Given their sum, independent Poisson variables are multinomial. The last term is 0 but for
    # the rounding of the probabilities, which counts as often as there are trials.
    terms = log_poisson_p.bind(counts, total * shares)
    found = jnp.sum(terms, axis=-1) - log_poisson_p.bind(n, n)
    found = found + n * (jnp.sum(p, axis=-1) - 1.0)
    return convert_element_type(jnp.where(out, -jnp.inf, found), dtype)


def _checked(operation: str, x: Any, n: Any, p: Any) -> Any:
    operands, dtype = real_operands(operation, ("x", "n", "p"), (x, n, p), broadcast=False)
    shapes = [type_of(value).shape for value in operands]
    for name, shape in (("x", shapes[0]), ("p", shapes[2])):
        if not shape:
            message = f"{operation} takes {name} with the outcomes along its last dimension"
            got = f"{name} without dimensions"
            raise ShapeError(message, operation=operation, got=got, wanted="one dimension or more")
    joint = broadcast_shape(operation, shapes[0], shapes[2])
    broadcast_shape(operation, joint[:-1], shapes[1])
    return _log_probability(*operands, dtype=dtype)


@api_boundary
def logpmf(x: Any, n: Any, p: Any) -> Array:
    """The logarithm of the probability of the counts x in n trials with probabilities p.

    Shapes (..., k), (...) and (..., k). Minus infinity where counts are negative, no integers, or
    do not add up to n. Raises ShapeError if the shapes do not fit.

    >>> logpmf(np.array([1, 1]), 2, np.array([0.5, 0.5]))
    Array(-0.6931472, dtype=float32)
    """
    return _checked("multinomial.logpmf", x, n, p)


@api_boundary
def pmf(x: Any, n: Any, p: Any) -> Array:
    """The probability of the counts x in n trials with probabilities p. See `logpmf`.

    >>> pmf(jnp.array([1, 2]), 3, jnp.array([0.4, 0.6]))
    Array(0.43199998, dtype=float32)
    """
    return jnp.exp(_checked("multinomial.pmf", x, n, p))
