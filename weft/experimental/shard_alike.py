"""`shard_alike`: two arrays with one sharding."""

from __future__ import annotations

from typing import Any

from weft.api.device_put import device_put
from weft.argument_errors import refusal
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ShapeError
from weft.experimental.unavailable import refused
from weft.runtime import client

__all__ = ["shard_alike"]


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Both arrays, the second moved to the sharding of the first.

    Raises ShapeError where their shapes differ, and WeftNotImplementedError for traced values where
    there are several devices: say the sharding with `weft.lax.with_sharding_constraint`.
    """
    if type_of(x).shape != type_of(y).shape:
        message = "shard_alike: the arrays have different shapes"
        got = f"shapes {type_of(x).shape} and {type_of(y).shape}"
        raise refusal(ShapeError, message, "shard_alike", got, "one shape")
    if client.device_count() == 1:
        return x, y
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        why = "the compiler of weft does not tie shardings to one another"
        raise refused("shard_alike of traced values", why, "weft.lax.with_sharding_constraint")
    return x, device_put(y, x.sharding)
