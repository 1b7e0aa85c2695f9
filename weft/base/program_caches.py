"""Clears caches on request, or before memory mappings run out.

Each executable takes two or three memory mappings (with LAPACK's kernels and loops many more), and
Linux allows a process 65,530 of them (`vm.max_map_count`). XLA ends the process where it gets no
more: there is no exception to catch. So every executable is counted here when it is loaded, and
once half of the mappings are taken, all caches are emptied. Dropping the least recently used alone
would be finer, but then every eager operation would have to record that it ran; emptying all costs
at most compiling once more the executables that are still in use.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class _CacheOwner(Protocol):
    def forget_programs(self) -> None:
        """Drops all executables, and the jaxprs that they were compiled from."""


H = TypeVar("H", bound=_CacheOwner)
F = TypeVar("F", bound=Callable[[], object])

# Reentrant: the garbage collector may free an owner while this thread has the lock.
_lock = threading.RLock()
_owners: weakref.WeakSet[_CacheOwner] = weakref.WeakSet()
_functions: list[Callable[[], object]] = []

_MAPPINGS = "/proc/self/maps"
_LIMIT = "/proc/sys/vm/max_map_count"
# Loads between two counts of the mappings, which take some milliseconds, as a few compilations do.
_LOOK_EVERY = 256
_loaded = 0


def holds_programs(holder: H) -> H:
    """Makes `weft.clear_caches` empty an object, as long as it lives, by its `forget_programs()`.

    For caches of executables. Returns the object, which is not kept alive and must take weak
    references.

    Args:
        holder: The object, which has a method `forget_programs()`.

    >>> import weft
    >>> from weft.extend.programs import holds_programs
    >>> class Memo(dict):
    ...     __hash__ = object.__hash__
    ...     forget_programs = dict.clear
    >>> programs = holds_programs(Memo(step="a compiled program"))
    >>> weft.clear_caches()
    >>> programs
    {}
    """
    with _lock:
        _owners.add(holder)
    return holder


def on_clear(forget: F) -> F:
    """Makes `weft.clear_caches` call a function, for the rest of the process; returns it.

    Args:
        forget: A function without arguments.

    >>> import weft
    >>> from weft.extend.programs import on_clear
    >>> programs = {"step": "a compiled program"}
    >>> _ = on_clear(programs.clear)
    >>> weft.clear_caches()
    >>> programs
    {}
    """
    _functions.append(forget)
    return forget


class BoundedCache(dict[Any, Any]):
    """A dictionary that `clear_caches` empties, and that empties itself when full. So loops over
    many shapes or numbers do not fill the memory. To drop the least recently used alone, every
    look-up would have to be recorded."""

    __slots__ = ("__weakref__", "most")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, most: int = 4096) -> None:
        super().__init__()
        self.most = most
        holds_programs(self)

    forget_programs = dict.clear

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.most:
            self.clear()
        super().__setitem__(key, value)


def clear_caches() -> None:
    """Drops all cached jaxprs and executables of this process: those of eager operations, of
    functions made by `jit`, and of loops and other functions that were traced.

    Later calls trace and compile again. Executables that the user's program holds
    (`jit(f).lower(...).compile()`) still run, and executables on disk stay:
    `weft.debug.clear_program_cache` removes them. On Linux this happens by itself when half of the
    memory mappings that a process may have (`vm.max_map_count`) are in use; XLA would end the
    process at the last one.

    >>> import weft
    >>> double = weft.jit(lambda x: 2 * x)
    >>> double(3.0)
    Array(6., dtype=float32, weak_type=True)
    >>> weft.clear_caches()
    >>> double(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    with _lock:
        owners = list(_owners)
    for owner in owners:
        owner.forget_programs()
    for forget in _functions:
        forget()
    gc.collect()  # Executables and their jaxprs refer to each other.


def count_loaded_program() -> None:
    """Counts an executable that the process has loaded; clears the caches if mappings run low."""
    global _loaded
    _loaded += 1
    if _loaded % _LOOK_EVERY == 0 and _is_half_full():
        clear_caches()


def _is_half_full() -> bool:
    try:
        with open(_MAPPINGS, "rb") as mappings, open(_LIMIT) as limit:
            return 2 * mappings.read().count(b"\n") > int(limit.read())
    except OSError:
        return False  # Not Linux, or the files cannot be read.
