"""Functions with the names and arguments of SciPy, a module for each of its parts."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.scipy import (
        cluster,
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        spatial,
        special,
        stats,
    )

__all__ = [
    "cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
    "sparse", "spatial", "special", "stats",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Imported on first use, so that users of one part do not pay for the others.
    if name in __all__:
        return importlib.import_module(f"weft.scipy.{name}")
    raise AttributeError(f"module 'weft.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
