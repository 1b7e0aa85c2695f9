"""`jax._src.lib.xla_client`: the error of programs that fail while they run."""

from weft.errors import JaxRuntimeError as XlaRuntimeError

__all__ = ["XlaRuntimeError"]
