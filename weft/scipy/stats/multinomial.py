"""The multinomial distribution: how often each outcome occurs in n trials.

Outcomes are along the last dimension of x and p.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import ArrayType
from weft.errors import ShapeError
from weft.kinds.checks import broadcast_shape
from weft.kinds.kind import Arguments
from weft.ops.elementwise.densities import log_poisson_p
from weft.scipy.real_functions import Real, real, real_function, to_working_dtype
from weft.scipy.stats.distributions import not_whole

__all__ = ["logpmf", "pmf"]

__dir__ = public_names(globals())


def _check_outcomes(of: ArrayType, call: Arguments) -> None:
    if not of.ndim:
        message = f"takes {call.name} with the outcomes along its last dimension"
        got, wanted = f"{call.name} without dimensions", "one dimension or more"
        raise ShapeError(message, got=got, wanted=wanted)


Outcomes = Annotated[Any, real("a number for each outcome", np.ones(2), _check_outcomes)]


def _log_probability(x: Any, n: Any, p: Any) -> Any:
    joint = broadcast_shape(x.shape, p.shape)
    broadcast_shape(joint[:-1], n.shape)
    x, n, p, dtype = to_working_dtype(x, n, p)
    outside = ((x < 0) | not_whole(x)).any(-1) | (x.sum(-1) != n)
    safe = jnp.where(x < 0, 0.0, x)
    counts, shares, total = jnp.broadcast_arrays(safe, p, n[..., None])
    # Given their sum, independent Poisson variables are multinomial. The last term is 0 but for
    # the rounding of the probabilities, which counts as often as there are trials.
    terms = log_poisson_p.bind(counts, total * shares)
    out = terms.sum(-1) - log_poisson_p.bind(n, n) + n * (p.sum(-1) - 1.0)
    return jnp.where(outside, -jnp.inf, out).astype(dtype)


@real_function("multinomial")
def logpmf(x: Outcomes, n: Real, p: Outcomes) -> Array:
    """The logarithm of the probability of the counts x in n trials with probabilities p.

    Shapes (..., k), (...) and (..., k). Minus infinity where counts are negative, no integers, or
    do not add up to n. Raises ShapeError if the shapes do not fit.

    >>> logpmf(np.array([1, 1]), 2, np.array([0.5, 0.5]))
    Array(-0.6931472, dtype=float32)
    """
    return _log_probability(x, n, p)


@real_function("multinomial")
def pmf(x: Outcomes, n: Real, p: Outcomes) -> Array:
    """The probability of the counts x in n trials with probabilities p. See `logpmf`.

    >>> pmf(jnp.array([1, 2]), 3, jnp.array([0.4, 0.6]))
    Array(0.43199998, dtype=float32)
    """
    return jnp.exp(_log_probability(x, n, p))
