"""Names of `jax._src.checkify` that libraries import."""

from weft.experimental.checkify.failures import (
    BatchedError,
    DivisionByZeroError,
    Error,
    ErrorCategory,
    FailedCheckError,
    JaxRuntimeError,
    NaNError,
    OOBError,
    Out,
)
from weft.experimental.checkify.failures import CheckFailure as JaxException

__all__ = [
    "BatchedError", "DivisionByZeroError", "Error", "ErrorCategory", "FailedCheckError",
    "JaxException", "JaxRuntimeError", "NaNError", "OOBError", "Out",
]  # fmt: skip
