"""`jax._src.compiler`: where programs count compilations by replacing a function."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftNotImplementedError

__all__ = ["backend_compile", "backend_compile_and_load"]


def backend_compile_and_load(*args: Any, **kwargs: Any) -> Any:
    """Raises WeftNotImplementedError: programs are compiled by `weft.jit(f).lower(x).compile()`."""
    raise WeftNotImplementedError(
        "jax._src.compiler does not compile here",
        operation="backend_compile_and_load",
        wanted="weft.jit(f).lower(x).compile()",
    )


backend_compile = backend_compile_and_load
