"""Settings: one immutable object that says how weft behaves now.

`settings()` answers with the settings in force in this thread or task. Equal settings are one
object, so a cache may use the object itself as part of its key. A setting is changed for good by
`update` (or by an environment variable `WEFT_<NAME>` before the import) and for a block of code by
`override`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["Settings", "enable_x64", "override", "settings", "update"]


# Compared and hashed by identity, which is free in a cache key: equal settings are one object.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """All settings; each line of the fields says why it cannot be decided for the user."""

    # 64-bit numbers cost twice the memory; only the user knows whether they are needed.
    enable_x64: bool = False
    # Internal frames help those who change weft and hide the mistake from those who use it.
    full_traceback: bool = False
    # Explanations of retracing go to the log only for those who look for them.
    explain_cache_misses: bool = False
    # Checking every traced program costs time; weft's own tests turn it on.
    check_jaxprs: bool = False
    # How many bits a matrix product keeps is a trade of speed against accuracy.
    default_matmul_precision: str | None = None
    # "strict" refuses to mix types that differ; for code that wants to say every conversion.
    numpy_dtype_promotion: str = "standard"


_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
_interned: dict[tuple[object, ...], Settings] = {}
_lock = threading.Lock()


def _intern(value: Settings) -> Settings:
    with _lock:
        return _interned.setdefault(dataclasses.astuple(value), value)


def _parse(name: str, text: str) -> Any:
    default = _FIELDS[name].default
    if isinstance(default, bool):
        lowered = text.strip().lower()
        if lowered in ("1", "true", "yes", "on"):
            return True
        if lowered in ("", "0", "false", "no", "off"):
            return False
        raise ValueError(f"WEFT_{name.upper()} is {text!r}; it takes 1 or 0")
    return text or None


_CHOICES: dict[str, tuple[Any, ...]] = {
    "default_matmul_precision": (None, "default", "high", "highest"),
    "numpy_dtype_promotion": ("standard", "strict"),
}


def _check(name: str, value: Any) -> None:
    field = _FIELDS.get(name)
    if field is None:
        raise AttributeError(f"no setting is named {name!r}; there are: {', '.join(_FIELDS)}")
    if isinstance(field.default, bool) and not isinstance(value, bool):
        raise TypeError(f"the setting {name!r} is True or False, not {value!r}")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"the setting {name!r} is one of {_CHOICES[name]}, not {value!r}")


def _from_environment() -> Settings:
    found = {}
    for name in _FIELDS:
        text = os.environ.get("WEFT_" + name.upper())
        if text is not None:
            value = _parse(name, text)
            _check(name, value)
            found[name] = value
    return Settings(**found)


_global = _intern(_from_environment())
_local: contextvars.ContextVar[Settings | None] = contextvars.ContextVar(
    "weft_settings", default=None
)


def settings() -> Settings:
    """The settings in force here."""
    return _local.get() or _global


def update(name: str, value: Any) -> None:
    """Changes one setting for the whole process.

    Raises AttributeError for an unknown name, TypeError or ValueError for a value it cannot take.
    """
    global _global
    _check(name, value)
    _global = _intern(dataclasses.replace(_global, **{name: value}))
    inner = _local.get()
    if inner is not None:
        _local.set(_intern(dataclasses.replace(inner, **{name: value})))


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Changes settings within a `with` block, in this thread or task only."""
    for name, value in changes.items():
        _check(name, value)
    token = _local.set(_intern(dataclasses.replace(settings(), **changes)))
    try:
        yield
    finally:
        _local.reset(token)


def enable_x64(enabled: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which numbers that ask for no width get 64 bits (or 32 with False)."""
    return override(enable_x64=enabled)
