"""Settings of weft: one immutable object holds all of them.

`settings()` returns the settings in force in this thread or task. Equal settings are one object, so
a cache may use the object itself as part of its key. A setting is changed for good by `update` (or
by an environment variable `WEFT_<NAME>` before the import) and for a block of code by `override`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import Any

__all__ = [
    "Settings", "debug_infs", "debug_key_reuse", "debug_nans", "enable_x64", "override", "settings",
    "update",
]  # fmt: skip


# Compared and hashed by identity, which is free in a cache key: equal settings are one object.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """All settings; each has a comment why weft cannot decide it for the user."""

    # 64-bit numbers cost twice the memory; only the user knows whether they are needed.
    enable_x64: bool = False
    # Internal frames help those who change weft and hide the mistake from those who use it.
    full_traceback: bool = False
    # Explanations of retracing go to the log only for those who look for them.
    explain_cache_misses: bool = False
    # Checking every jaxpr costs time; weft's own tests turn it on. The results of weft's own rules
    # are checked too where it is on when they are registered: when weft is imported.
    check_jaxprs: bool = False
    # The number of bits that a matrix product keeps is a trade of speed against accuracy.
    default_matmul_precision: str | None = None
    # "strict" refuses to mix types that differ, for code that writes every conversion.
    numpy_dtype_promotion: str = "standard"
    # "jax" cuts 64-bit dtypes that are asked for to 32 bits unless enable_x64 is set, and keeps the
    # low bits of integers that do not fit, for programs that were written for these rules.
    dtype_rule: str = "weft"
    # "jax" takes arguments that mean nothing or that have no effect where JAX takes them: programs
    # written for it pass them.
    argument_rule: str = "weft"
    # Checking every result costs time, and some programs compute with NaNs or infinities.
    debug_nans: bool = False
    debug_infs: bool = False
    # Following every random key costs time, and some programs reuse a key deliberately.
    debug_key_reuse: bool = False
    # The directory that keeps executables between processes: the user's own cache directory for
    # None, none for "". Only the user knows which disk is fast, private and large enough.
    cache_dir: str | None = None
    cache_max_bytes: int = 2 << 30
    # "least" leaves out most of XLA's optimizations on a CPU: only the user knows that a program
    # runs too seldom to earn back the cost of these. weft's own tests are such programs.
    compile_effort: str = "full"

    @property
    def looks_at_results(self) -> bool:
        """Whether results are searched for NaNs or infinities, or keys are followed."""
        return self.debug_nans or self.debug_infs or self.debug_key_reuse


_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
_interned: dict[tuple[object, ...], Settings] = {}
_lock = threading.Lock()
# Whether settings with another compile effort than the full one exist in this process. Caches of
# executables whose keys lack the settings, such as those of single operations, add the effort from
# then on. It is set before anything can see such settings, and never taken back.
effort_varies = False


def _intern(value: Settings) -> Settings:
    global effort_varies
    with _lock:
        effort_varies = effort_varies or value.compile_effort != "full"
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
    if isinstance(default, int):
        if not text.strip().isdigit():
            raise ValueError(f"WEFT_{name.upper()} is {text!r}; it takes a whole number")
        return int(text)
    return text if name == "cache_dir" else text or None


_CHOICES: dict[str, tuple[Any, ...]] = {
    "argument_rule": ("weft", "jax"),
    "compile_effort": ("full", "least"),
    "default_matmul_precision": (None, "default", "high", "highest"),
    "dtype_rule": ("weft", "jax"),
    "numpy_dtype_promotion": ("standard", "strict"),
}


def _check(name: str, value: Any) -> None:
    field = _FIELDS.get(name)
    if field is None:
        own = str(name).removeprefix("jax_")
        rest = f"weft calls it {own!r}" if own in _FIELDS else f"there are: {', '.join(_FIELDS)}"
        raise AttributeError(f"no setting is named {name!r}; {rest}")
    if isinstance(field.default, bool) and not isinstance(value, bool):
        raise TypeError(f"the setting {name!r} is True or False, not {value!r}")
    if name == "cache_max_bytes" and (type(value) is not int or value < 0):
        raise TypeError(f"the setting {name!r} is a whole number of bytes, not {value!r}")
    if name == "cache_dir" and not (value is None or isinstance(value, str)):
        raise TypeError(f"the setting {name!r} is None or a path as text, not {value!r}")
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
# The number of active `override` blocks, in any thread, whose settings check results.
_looking_blocks = 0
# Whether results may have to be checked somewhere in this process. An operation reads only this
# where no setting asks for it: finding the settings in force takes much longer.
looking = _global.looks_at_results
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
    _count_looking(0)
    inner = _local.get()
    if inner is not None:
        _local.set(_intern(dataclasses.replace(inner, **{name: value})))


def _count_looking(change: int) -> None:
    global looking, _looking_blocks
    with _lock:
        _looking_blocks += change
        looking = _looking_blocks > 0 or _global.looks_at_results


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Changes settings within a `with` block, in this thread or task only."""
    for name, value in changes.items():
        _check(name, value)
    inner = _intern(dataclasses.replace(settings(), **changes))
    token = _local.set(inner)
    counted = int(inner.looks_at_results)
    _count_looking(counted)
    try:
        yield
    finally:
        _local.reset(token)
        _count_looking(-counted)


def enable_x64(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which numbers that ask for no width get 64 bits (or 32 with False).

    >>> import weft, weft.numpy as wnp
    >>> with weft.enable_x64():
    ...     wnp.arange(3.0).dtype
    dtype('float64')
    """
    return override(enable_x64=new_val)


def debug_nans(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which an operation whose result holds a NaN raises NonFiniteError.

    An eager operation is checked as it runs, inside `grad` and `vmap` as well. Of a compiled
    function only the results are checked: NaNs that it masks raise nothing. Where a result holds
    one, the jaxpr is evaluated again, operation by operation, to find the first that this NaN came
    from (callbacks run again too), and nothing that is donated is overwritten. The error names the
    operation, its operands, the user's line, iterations of loops, branches, and the backward pass.
    Integers are never checked, nor is reading elements by an index.

    `weft.config.update("debug_nans", True)` or `WEFT_DEBUG_NANS=1` do the same everywhere.

    >>> import weft
    >>> with weft.debug_nans():
    ...     weft.numpy.log(-1.0)
    Traceback (most recent call last):
        ...
    weft.errors.NonFiniteError: log made a NaN
      ...
    """
    return override(debug_nans=new_val)


def debug_infs(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which an operation whose result holds an infinity raises NonFiniteError.

    Everything else is as for `debug_nans`; intended infinities count too, such as those of a mask
    that is made outside of compiled functions.

    >>> import weft
    >>> with weft.debug_infs():
    ...     weft.numpy.exp(1000.0)
    Traceback (most recent call last):
        ...
    weft.errors.NonFiniteError: exp made an infinity
      ...
    """
    return override(debug_infs=new_val)


def debug_key_reuse(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which using a random key twice raises KeyReuseError.

    Drawing from a key uses it, and so does splitting it; `fold_in`, `key_data` and moving keys
    about do not. Keys are followed from where they are made: in eager operations, through slices
    and stacks of them, and in compiled functions, through loops, branches and mapped functions.
    `weft.random.clone` makes a key that may be used once more. A key that is picked by an index
    that is not known while tracing counts as new.

    `weft.config.update("debug_key_reuse", True)` or `WEFT_DEBUG_KEY_REUSE=1` do the same
    everywhere.

    >>> import weft
    >>> key = weft.random.key(0)
    >>> with weft.config.debug_key_reuse():
    ...     x, y = weft.random.normal(key), weft.random.uniform(key)
    Traceback (most recent call last):
        ...
    weft.errors.KeyReuseError: uniform uses a random key that normal has used before
      ...
    """
    return override(debug_key_reuse=new_val)
