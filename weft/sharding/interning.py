"""The base of frozen objects of which equal ones are one object.

Comparing them compares pointers; the caches of executables do that at every call.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from typing import Any, ClassVar, Self

from weft.base.util import Immutable

_lock = threading.RLock()


class Interned(Immutable):
    """An object that cannot be changed; equal ones are one object, found by its key."""

    __slots__ = ("__weakref__",)

    # Weak, so that a mesh lives no longer than what refers to it.
    _known: ClassVar[weakref.WeakValueDictionary[Hashable, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._known = weakref.WeakValueDictionary()

    @classmethod
    def _existing(cls, key: Hashable) -> Self | None:
        """The object of this key, or None; it has passed its checks."""
        try:
            return cls._known.get(key)
        except TypeError:  # not hashable, so none of ours
            return None

    @classmethod
    def _made_of(cls, key: Hashable, **fields: Any) -> Self:
        """The object of this key: the existing one, or a new one with these attributes."""
        with _lock:
            out = cls._known.get(key)
            if out is None:
                out = object.__new__(cls)
                for name, value in fields.items():
                    object.__setattr__(out, name, value)
                cls._known[key] = out
            return out

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed; make another one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot be changed; make another one")
