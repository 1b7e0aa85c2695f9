"""`jax._src.traceback_util`: whose frames are left out of tracebacks."""

from __future__ import annotations

from types import FrameType
from typing import Any

from weft.base.source import is_internal
from weft.base.source_info import register_exclusion
from weft.errors import api_boundary as _boundary

__all__ = ["api_boundary", "include_frame", "register_exclusion"]

# Programs add paths to it and take them out again; `register_exclusion` is what has an effect.
_exclude_paths: list[str] = []


def include_frame(f: FrameType) -> bool:
    """Whether a frame is the user's."""
    return not is_internal(f.f_code.co_filename)


def api_boundary(fun: Any = None, *, repro_api_name: str | None = None, **_: Any) -> Any:
    """Decorates a public function: errors that leave it have lost the frames of libraries."""
    if fun is None:
        return api_boundary
    return _boundary(repro_api_name or str(getattr(fun, "__name__", "a function")))(fun)
