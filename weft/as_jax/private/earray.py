"""`jax._src.earray`: arrays of dtypes of a program's own, which weft does not have."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftNotImplementedError

__all__ = ["EArray"]


class EArray:
    """Raises WeftNotImplementedError if it is made."""

    def __init__(self, aval: Any, data: Any) -> None:
        raise WeftNotImplementedError(
            "an array of a dtype of the program's own",
            operation="EArray",
            got=f"{aval!r:.80}",
            wanted="a dtype of NumPy, of ml_dtypes, or of random keys",
        )
