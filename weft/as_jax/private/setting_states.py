"""`jax._src.config`: each setting as an object that is read, and set for a `with` block."""

from __future__ import annotations

import contextlib
from typing import Any

from weft import config

__all__: list[str] = []

_UNSET = object()


class SettingState:
    """One of JAX's settings, by its full name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def value(self) -> Any:
        """The value in force."""
        return config.read(self.name)

    def __call__(self, new_val: Any = _UNSET) -> contextlib.AbstractContextManager[None]:
        """A `with` block with another value; True where none is given."""
        return config.override(**{self.name: True if new_val is _UNSET else new_val})

    def __repr__(self) -> str:
        return f"<setting {self.name}: {self.value!r}>"


def __getattr__(name: str) -> SettingState:
    if name.startswith("__") or name in ("update", "read", "config", "values"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    config.read(name)
    return SettingState(name)
