"""Profiles of instructions, which raise at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["get_profiled_instructions_proto"]

__dir__ = public_names(globals())

get_profiled_instructions_proto = refusing(
    "get_profiled_instructions_proto",
    "jaxlib's reader of profiles is not part of weft",
    "weft.profiler",
)
