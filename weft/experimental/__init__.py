"""Names where programs written for JAX look for them."""

from weft.callbacks.primitives import io_callback
from weft.experimental import layout

__all__ = ["io_callback", "layout"]
