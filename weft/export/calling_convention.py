"""How exported functions are called, under the names of `jax.export`."""

from __future__ import annotations

from weft.runtime import client

__all__ = [
    "default_export_platform", "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version",
]  # fmt: skip

# Arguments and results in order, closed-over arrays first; the numbers are those of JAX 0.10.
maximum_supported_calling_convention_version = 10
minimum_supported_calling_convention_version = 9


def default_export_platform() -> str:
    """The platform that `export` exports for by default: that of the current backend.

    >>> from weft import export
    >>> export.default_export_platform() in ("cpu", "cuda", "rocm", "tpu")
    True
    """
    return str(client.backend().platform)
