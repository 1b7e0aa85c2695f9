"""`jax._src.xla_bridge`: the backends that have been started."""

from __future__ import annotations

from weft.define.for_jax.backends import backends, get_backend

__all__ = ["backends", "get_backend"]

_backends: dict[str, object] = {}
