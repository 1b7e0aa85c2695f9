"""`jax._src.dispatch`: waiting for effects, and applying a primitive at once."""

from __future__ import annotations

from weft.as_jax.interpreters import apply_primitive as apply_primitive
from weft.callbacks.primitives import effects_barrier as wait_for_tokens

__all__ = ["apply_primitive", "wait_for_tokens"]
