"""Moving a computed bound outward, past the rounding of the operation that computed it."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax

__all__ = ["down", "down_loosely", "up", "up_loosely"]

# The elementary functions of the compilers are within a few units in the last place, not half of
# one; this many are allowed for.
LOOSE = 8


@weft.custom_jvp
def down(x: Any) -> Any:
    """A number below every real number that rounds to x. Differentiated as the identity."""
    info = jnp.finfo(x.dtype)
    # Numbers below the smallest normal one may have been flushed to zero.
    lower = jnp.minimum(lax.nextafter(x, jnp.full_like(x, -np.inf)), x - info.smallest_normal)
    # What overflowed to infinity is at least the largest number; what is no number may be anything.
    lower = jnp.where(x == np.inf, info.max, lower)
    return jnp.where(jnp.isnan(x), -np.inf, lower).astype(x.dtype)


down.defjvp(lambda primals, tangents: (down(*primals), tangents[0]))


def up(x: Any) -> Any:
    """A number above every real number that rounds to x."""
    return -down(-x)


def down_loosely(x: Any) -> Any:
    """A number below every real number of which x is an approximation by an elementary function."""
    margin = LOOSE * jnp.finfo(x.dtype).eps
    return down(jnp.where(jnp.isfinite(x), x - jnp.abs(x) * margin, x).astype(x.dtype))


def up_loosely(x: Any) -> Any:
    """A number above every real number of which x is an approximation by an elementary function."""
    return -down_loosely(-x)
