"""Names of `jax.experimental.ode` that libraries take from there though it only uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import api_util as api_util
from weft.flatten_util import ravel_pytree

__all__ = ["api_util", "ravel_first_arg"]


def ravel_first_arg(
    f: Callable[..., Any], unravel: Callable[[Any], Any], debug_info: Any = None
) -> Callable[..., Any]:
    """`f` with a vector in place of its first argument, and a vector for a result."""

    def of_vector(vector: Any, *args: Any) -> Any:
        return ravel_pytree(f(unravel(vector), *args))[0]

    return of_vector
