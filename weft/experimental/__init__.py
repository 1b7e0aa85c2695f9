"""Names where programs written for JAX look for them."""

from weft.control.callbacks import io_callback

__all__ = ["io_callback"]
