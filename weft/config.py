"""Settings of weft: one immutable object holds all that programs depend on.

`settings()` returns the settings in force in this thread or task. Equal settings are one object, so
a cache may use the object itself as part of its key. What no program depends on (where executables
are kept, what is logged) stands in a second object, `host_settings()`, so that a change of it costs
no executable. A setting is changed for good by `update` (or by an environment variable
`WEFT_<NAME>` before the import) and for a block of code by `override`. JAX's names of settings,
with and without `jax_`, are taken too: see `weft.settings.jax_settings`. `weft.settings.rows` has
a row for each setting.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from weft.base.exact_keys import exact_key
from weft.settings import jax_settings
from weft.settings.kinds import FREE
from weft.settings.rows import HOST_ROWS, ROWS, HostSettings, Settings, value_of

__all__ = [
    "HostSettings", "Settings", "debug_infs", "debug_key_reuse", "debug_nans", "enable_x64",
    "host_settings", "lenient", "override", "parse_flags_with_absl", "read", "settings", "update",
]  # fmt: skip

_T = TypeVar("_T", Settings, HostSettings)


def _reader(table: type[_T], free: bool) -> Callable[[_T], Any]:
    """Reads the values of a table's rows: the free ones, or all others."""
    names = [field.name for field in dataclasses.fields(table)]
    return operator.attrgetter(*(name for name in names if (ROWS[name].kind is FREE) is free))


_keys: dict[Any, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    table: (_reader(table, free=False), _reader(table, free=True))
    for table in (Settings, HostSettings)
}
_interned: dict[Any, Any] = {}
_lock = threading.Lock()
_OF_USUAL_OPERATIONS = Settings().of_operations
# Whether settings with another compile effort or default device than the usual ones exist in this
# process. Caches of executables whose keys lack the settings, such as those of single operations,
# add these from then on. It is set before anything can see such settings, and never taken back.
settings_in_keys = False


def _intern(value: _T) -> _T:
    global settings_in_keys
    plain, free = _keys[type(value)]
    key = (plain(value), exact_key(free(value)))
    with _lock:
        if type(value) is Settings:
            settings_in_keys = settings_in_keys or value.of_operations != _OF_USUAL_OPERATIONS
        out: _T = _interned.setdefault((type(value), key), value)
        return out


# What is asked before a setting changes, by name: modules that a change comes too late for are
# loaded later than this one.
objections: dict[str, Callable[[Any], None]] = {}


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """The changes under weft's names of settings, checked. Raises AttributeError for an unknown
    name, and what the kind of a setting does."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name in ROWS:
            out[name] = value
        else:
            earlier = {row: out[row] for row in out if row in HOST_ROWS}
            host = dataclasses.replace(host_settings(), **earlier)
            out |= jax_settings.changes(name, value, host)
    for name, value in out.items():
        ROWS[name].kind.check(name, value)
        if name in objections:
            objections[name](value)
    return out


def _from_environment(table: type[_T] = Settings) -> _T:  # type: ignore[assignment]
    found = {}
    for field in dataclasses.fields(table):
        kind, variable = ROWS[field.name].kind, "WEFT_" + field.name.upper()
        if kind.parse is not None and variable in os.environ:
            value = kind.parse(variable, os.environ[variable])
            if value is not None or field.default is None:
                kind.check(field.name, value)
                found[field.name] = value
    return table(**found)


_global = _intern(_from_environment())
_host = _intern(_from_environment(HostSettings))
# The number of active `override` blocks, in any thread, whose settings check results.
_looking_blocks = 0
# Whether results may have to be checked somewhere in this process. An operation reads only this
# where no setting asks for it: finding the settings in force takes much longer.
looking = _global.looks_at_results
# Whether copies between host and devices may have to be refused; never taken back.
guarding = _host.guards_transfers
_local: contextvars.ContextVar[Settings | None] = contextvars.ContextVar(
    "weft_settings", default=None
)
# For compiled code, which reads it and `_global` as `settings` does.
settings_variable = _local
_local_host: contextvars.ContextVar[HostSettings | None] = contextvars.ContextVar(
    "weft_host_settings", default=None
)


def lenient() -> bool:
    """Whether arguments without a meaning are taken as JAX takes them: `argument_rule="jax"`."""
    return settings().argument_rule == "jax"


def settings() -> Settings:
    """The settings in force here that programs depend on."""
    return _local.get() or _global


def host_settings() -> HostSettings:
    """The settings in force here that no program depends on.

    >>> import weft
    >>> with weft.config.override(log_compiles=True):
    ...     weft.config.host_settings().log_compiles
    True
    """
    return _local_host.get() or _host


def read(name: str) -> Any:
    """The value in force of one setting, by weft's name or by JAX's.

    name: the name of the setting.

    Raises AttributeError for an unknown name.

    >>> import weft
    >>> weft.config.read("numpy_rank_promotion"), weft.config.read("jax_debug_nans")
    ('allow', False)
    """
    if name in ROWS:
        return value_of(name, settings(), host_settings())
    return jax_settings.read(name, settings(), host_settings())


def update(name: str, value: Any) -> None:
    """Changes one setting for the whole process; JAX's names are taken too.

    name: the name of the setting; value: its new value.

    Raises AttributeError for an unknown name, TypeError or ValueError for a value it cannot take,
    and NotImplementedError for a value of one of JAX's settings that weft does not have.
    """
    global _global, _host, guarding
    changes = _changes({name: value})
    mine = {name: value for name, value in changes.items() if name not in HOST_ROWS}
    host = {name: value for name, value in changes.items() if name in HOST_ROWS}
    if mine:
        _global = _intern(dataclasses.replace(_global, **mine))
        _count_looking(0)
        inner = _local.get()
        if inner is not None:
            _local.set(_intern(dataclasses.replace(inner, **mine)))
    if host:
        _host = _intern(dataclasses.replace(_host, **host))
        guarding = guarding or _host.guards_transfers
        inner_host = _local_host.get()
        if inner_host is not None:
            _local_host.set(_intern(dataclasses.replace(inner_host, **host)))


def _count_looking(change: int) -> None:
    global looking, _looking_blocks
    with _lock:
        _looking_blocks += change
        looking = _looking_blocks > 0 or _global.looks_at_results


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[None]:
    """Changes settings within a `with` block, in this thread or task only; also a decorator.

    changes: the names of settings, each with its value inside of the block.

    Raises what `update` does.
    """
    global guarding
    found = _changes(changes)
    host = {name: found.pop(name) for name in list(found) if name in HOST_ROWS}
    token = None
    if host:
        inner_host = _intern(dataclasses.replace(host_settings(), **host))
        guarding = guarding or inner_host.guards_transfers
        token = _local_host.set(inner_host)
    try:
        if found:
            with using(_intern(dataclasses.replace(settings(), **found))):
                yield
        else:
            yield
    finally:
        if token is not None:
            _local_host.reset(token)


@contextlib.contextmanager
def using(inner: Settings) -> Iterator[None]:
    """Applies settings of another context within a `with` block."""
    token = _local.set(inner)
    counted = int(inner.looks_at_results)
    _count_looking(counted)
    try:
        yield
    finally:
        _local.reset(token)
        _count_looking(-counted)


def parse_flags_with_absl() -> None:
    """Takes settings from the command line: `--jax_debug_nans`, `--jax_enable_x64=true` and so on,
    for programs that were written so. Other arguments are left alone.

    Where the program has loaded absl, absl's flags count as parsed from now on, with their
    defaults: until then reading one of them is an error.

    Raises ValueError for a value that a setting cannot take.
    """
    for name, value in jax_settings.flag_changes(sys.argv[1:]).items():
        update(name, value)
    absl_flags = sys.modules.get("absl.flags")
    if absl_flags is not None and not absl_flags.FLAGS.is_parsed():
        absl_flags.FLAGS([""])


def __dir__() -> list[str]:
    # As `public_names` of weft.base.facades does it, which stands beside this module.
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """JAX's settings by their full names, `values` (all of them as a dict) and `x64_enabled`."""
    if name == "values":
        return {name: read(name) for name in jax_settings.SHOWN}
    if name == "x64_enabled":
        return settings().enable_x64
    if jax_settings.shows(name):
        return read(name)
    raise AttributeError(f"module 'weft.config' has no attribute {name!r}")


def enable_x64(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which numbers that ask for no width get 64 bits (or 32 with False).

    >>> import weft, weft.numpy as jnp
    >>> with weft.enable_x64():
    ...     jnp.arange(3.0).dtype
    dtype('float64')
    """
    return override(enable_x64=new_val)


def debug_nans(new_val: bool = True) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which an operation whose result holds a NaN raises NonFiniteError.

    An eager operation is checked as it runs, inside `grad` and `vmap` as well. For a compiled
    function, only the results are checked: NaNs that it masks raise no error. If a result holds a
    NaN, weft evaluates the jaxpr again, operation by operation, to find where the NaN came from
    first (callbacks run again too), and overwrites no donated array. The error names the operation,
    its operands, the user's line, iterations of loops, branches, and the backward pass. Integers
    are never checked, and neither is reading elements by an index.

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

    Everything else is as for `debug_nans`. Intended infinities count too, such as those of a mask
    that is made outside compiled functions.

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

    Drawing from a key uses it, and so does splitting it. `fold_in`, `key_data` and moving keys do
    not. Keys are followed from where they are made: in eager operations, through slices and stacks
    of them, and in compiled functions, through loops, branches and mapped functions.
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
