"""Names of `jax._src.checkify` that libraries import."""

from weft.experimental.checkify.failures import BatchedError, DivisionByZeroError, Error
from weft.experimental.checkify.failures import CheckFailure as JaxException
from weft.experimental.checkify.failures import ErrorCategory, FailedCheckError, JaxRuntimeError
from weft.experimental.checkify.failures import NaNError, OOBError, Out

__all__ = [
    "BatchedError", "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError",
    "JaxException", "JaxRuntimeError", "NaNError", "OOBError", "Out",
]  # fmt: skip
