"""Executables as bytes, which raise at the call: compiled programs are kept in `cache_dir`."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.unavailable import refusing

__all__ = ["deserialize_and_load", "serialize"]

__dir__ = public_names(globals())

_WHY = "weft keeps executables in its cache directory, and hands out programs"
_WANTED = "weft.export.export(f)(*args).serialize()"

serialize = refusing("serialize_executable.serialize", _WHY, _WANTED)
deserialize_and_load = refusing("serialize_executable.deserialize_and_load", _WHY, _WANTED)
