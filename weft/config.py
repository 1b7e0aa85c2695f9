"""Settings of weft: one immutable object holds all that programs depend on.

`settings()` returns the settings in force in this thread or task. Equal settings are one object, so
a cache may use the object itself as part of its key. What no program depends on (where executables
are kept, what is logged) stands in a second object, `host_settings()`, so that a change of it costs
no executable. A setting is changed for good by `update` (or by an environment variable
`WEFT_<NAME>` before the import) and for a block of code by `override`. JAX's names of settings,
with and without `jax_`, are taken too: see `weft.jax_settings`.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import importlib
import operator
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from weft.base.exact_keys import exact_key

__all__ = [
    "HostSettings", "Settings", "debug_infs", "debug_key_reuse", "debug_nans", "enable_x64",
    "host_settings", "lenient", "override", "parse_flags_with_absl", "read", "settings", "update",
]  # fmt: skip


# Compared and hashed by identity, which is free in a cache key: equal settings are one object.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """The settings that programs depend on; each has a comment why weft cannot decide it for the
    user.

    Args:
        enable_x64: Whether numbers of 64 bits are the default, and not cut to 32 bits.
        check_jaxprs: Whether every jaxpr that is made is checked.
        default_matmul_precision: How exactly products are computed that do not say it: the name of
            a precision or of an algorithm, None for the default.
        numpy_dtype_promotion: "standard", or "strict" to refuse operands whose dtypes differ.
        numpy_rank_promotion: "allow", or "warn" or "raise" where arrays of different ranks are
            broadcast.
        dtype_rule: "weft", or "jax" to cut dtypes of 64 bits without `enable_x64`.
        argument_rule: "weft", or "jax" to take arguments without an effect.
        debug_nans: Whether results are searched for NaNs, which raise an error.
        debug_infs: Whether results are searched for infinities, which raise an error.
        debug_key_reuse: Whether a random key that is used twice raises an error.
        compile_effort: "full", or "least" to leave out most of XLA's optimizations on a CPU.
        repeated_bodies: "call" to compile a body that is repeated once, or "inline".
        disable_jit: Whether jitted functions and loops run step by step.
        default_device: What makes arrays and runs what is committed to no device: a device, the
            name of a platform, or None for the first device.
        default_prng_impl: The name of the generator of random keys that name none.
        threefry_partitionable: False gives the keys and bits of threefry that JAX gave before its
            release 0.5.
        random_seed_offset: What is added to every seed of a random key.
        high_dynamic_range_gumbel: Whether `weft.random.gumbel` draws twice as many bits unless its
            `mode` is given.
        enable_custom_prng: Whether `PRNGKey` makes typed keys.
        legacy_prng_key: "allow", "warn" or "error": what becomes of keys without a type.
        check_tracer_leaks: Whether leaked tracers are looked for after every trace.
        check_static_indices: Whether an index out of bounds that is known while tracing raises an
            error.
        allow_f16_reductions: False makes sums of `weft.lax` in float16 and bfloat16 an error.
        no_execution: Whether it is an error to run anything.
        operation_metadata: Pairs of a name and a value that recorded operations carry, for passes
            of XLA.
        user_contexts: The values of `make_user_context` that differ from their defaults.
    """

    # 64-bit numbers cost twice the memory; only the user knows whether they are needed.
    enable_x64: bool = False
    # Checking every jaxpr costs time; weft's own tests turn it on. The results of weft's own rules
    # are checked too where it is on when they are registered: when weft is imported.
    check_jaxprs: bool = False
    # The number of bits that a matrix product keeps is a trade of speed against accuracy.
    default_matmul_precision: str | None = None
    # "strict" refuses to mix types that differ, for code that writes every conversion.
    numpy_dtype_promotion: str = "standard"
    # "warn" and "raise" speak up where arrays of different ranks are broadcast: a missing axis is
    # a frequent mistake, and a frequent idiom.
    numpy_rank_promotion: str = "allow"
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
    # "least" leaves out most of XLA's optimizations on a CPU: only the user knows that a program
    # runs too seldom to earn back the cost of these. weft's own tests are such programs.
    compile_effort: str = "full"
    # "call" compiles the body that the layers of a network share once, also where a Python loop
    # wrote them out; "inline" makes all calls parts of one function, as XLA does by itself. That
    # takes twice as long, and may run faster where the bodies do little.
    repeated_bodies: str = "call"
    # Step by step, jitted functions and loops can be followed with a debugger, and are slow.
    disable_jit: bool = False
    # Which device makes arrays and runs what is committed to none: a device, the name of a
    # platform, or None for the first device.
    default_device: Any = None
    # The generator of random keys that name none, and how seeds, keys and bits are made.
    default_prng_impl: str = "threefry2x32"
    threefry_partitionable: bool = True
    random_seed_offset: int = 0
    high_dynamic_range_gumbel: bool = False
    # Whether `PRNGKey` makes typed keys, and what is said of keys without a type.
    enable_custom_prng: bool = False
    legacy_prng_key: str = "allow"
    # Looking for leaked tracers after every trace costs time.
    check_tracer_leaks: bool = False
    # An index that is known when a program is traced, and lies outside of the array, is a mistake:
    # it raises. Without the check it is clamped to the bounds, as a traced one is.
    check_static_indices: bool = True
    # Sums of float16 lose digits and range; some programs are to have none.
    allow_f16_reductions: bool = True
    # Compiled code may be checked for running nothing.
    no_execution: bool = False
    # Names and values for passes of XLA, which the operations that are recorded carry.
    operation_metadata: tuple[tuple[str, str], ...] = ()
    # The values of `make_user_context` that differ from their defaults.
    user_contexts: tuple[tuple[Any, Any], ...] = ()

    @property
    def looks_at_results(self) -> bool:
        """Whether results are searched for NaNs or infinities, keys are followed, or nothing runs:
        whether operations need more than to be executed."""
        return self.debug_nans or self.debug_infs or self.debug_key_reuse or self.no_execution

    @property
    def of_operations(self) -> Any:
        """What the executable of a jaxpr depends on: the part of its key where
        `operations_vary`."""
        return self.compile_effort, self.default_device, self.repeated_bodies


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostSettings:
    """The settings that no program depends on; comments as in `Settings`.

    Args:
        full_traceback: Whether tracebacks show weft's own frames.
        explain_cache_misses: Whether the log says why something is traced again.
        log_compiles: Whether the log says what is traced and compiled.
        compile_notice_seconds: After how many seconds of compiling a line on the terminal says so;
            0 for never.
        no_tracing: Whether it is an error to trace anything.
        cache_dir: The directory that keeps executables between processes; None for the user's cache
            directory, "" for none.
        cache_max_bytes: The size of that directory above which executables are deleted that were
            not used for longest.
        transfer_guard_host_to_device: What becomes of copies from the host to a device: "allow",
            "log", "disallow", "log_explicit" or "disallow_explicit".
        transfer_guard_device_to_device: The same of copies between devices.
        transfer_guard_device_to_host: The same of copies from a device to the host.
        platforms: The names of the platforms to use, the default one first, such as "cuda,cpu";
            None for all that there are.
        num_cpu_devices: The number of devices that the host shows as; 0 for what the environment
            says, by default one.
        allocation_tracebacks: Whether arrays keep the lines that made them, for profiles of memory.
        of_jax: Values of JAX's settings that change nothing here, as pairs of a name and a value.
    """

    # Internal frames help those who change weft and hide the mistake from those who use it.
    full_traceback: bool = False
    # Explanations of retracing go to the log only for those who look for them.
    explain_cache_misses: bool = False
    # So do lines about everything that is traced and compiled.
    log_compiles: bool = False
    # After how many seconds of compiling one program a line on the terminal says so; 0: never. Only
    # the user knows whether someone waits there.
    compile_notice_seconds: int = 2
    # Some programs are to be traced before a certain point only.
    no_tracing: bool = False
    # The directory that keeps executables between processes: the user's own cache directory for
    # None, none for "". Only the user knows which disk is fast, private and large enough.
    cache_dir: str | None = None
    cache_max_bytes: int = 2 << 30
    # Values that are copied between the host and devices unasked cost time: "log" says where,
    # "disallow" refuses them, the "_explicit" forms also where a program asks for the copy.
    transfer_guard_host_to_device: str = "allow"
    transfer_guard_device_to_device: str = "allow"
    transfer_guard_device_to_host: str = "allow"
    # The platforms to use, the default one first ("cuda,cpu"), and how many devices the host is to
    # show as: both are read when the first device is asked for.
    platforms: str | None = None
    num_cpu_devices: int = 0
    # Keeping the frames of the call that made an array takes up to a third of a small call's time;
    # only profiles of memory show them.
    allocation_tracebacks: bool = False
    # Values of JAX's settings that change nothing here, as (name, value) pairs.
    of_jax: tuple[tuple[str, Any], ...] = ()

    @property
    def guards_transfers(self) -> bool:
        """Whether copies between the host and devices are watched."""
        return (
            self.transfer_guard_host_to_device != "allow"
            or self.transfer_guard_device_to_device != "allow"
            or self.transfer_guard_device_to_host != "allow"
        )


_FIELDS = {
    field.name: field for cls in (Settings, HostSettings) for field in dataclasses.fields(cls)
}
_OF_HOST = frozenset(field.name for field in dataclasses.fields(HostSettings))
# Fields with values that users choose freely: these may be equal and differ, as 1 and True do.
_FREE = ("user_contexts", "of_jax")
_T = TypeVar("_T", Settings, HostSettings)
_values = {
    cls: operator.attrgetter(*[f.name for f in dataclasses.fields(cls) if f.name not in _FREE])
    for cls in (Settings, HostSettings)
}
_interned: dict[Any, Any] = {}
_lock = threading.Lock()
# Whether settings with another compile effort or default device than the usual ones exist in this
# process. Caches of executables whose keys lack the settings, such as those of single operations,
# add these from then on. It is set before anything can see such settings, and never taken back.
operations_vary = False


def _intern(value: _T) -> _T:
    global operations_vary
    free = value.of_jax if isinstance(value, HostSettings) else value.user_contexts
    key = (_values[type(value)](value), exact_key(free))
    with _lock:
        if type(value) is Settings:
            operations_vary = operations_vary or value.of_operations != ("full", None, "call")
        found: _T = _interned.setdefault((type(value), key), value)
        return found


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


GUARD_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
MATMUL_PRECISIONS = (
    "default", "fastest", "bfloat16", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32",
    "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip
_CHOICES: dict[str, tuple[Any, ...]] = {
    "argument_rule": ("weft", "jax"),
    "compile_effort": ("full", "least"),
    "repeated_bodies": ("call", "inline"),
    "default_matmul_precision": (None, *MATMUL_PRECISIONS),
    "dtype_rule": ("weft", "jax"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "legacy_prng_key": ("allow", "warn", "error"),
    "transfer_guard_host_to_device": GUARD_LEVELS,
    "transfer_guard_device_to_device": GUARD_LEVELS,
    "transfer_guard_device_to_host": GUARD_LEVELS,
}
# The names of random generators; `weft.random` adds those that users define.
generators = {"threefry2x32", "rbg", "unsafe_rbg"}
_TEXTS = {"cache_dir": "a path as text", "platforms": "names of platforms as text"}


def _check(name: str, value: Any) -> None:
    default = _FIELDS[name].default
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise TypeError(f"the setting {name!r} is True or False, not {value!r}")
    elif isinstance(default, int):
        if type(value) is not int or (value < 0 and name != "random_seed_offset"):
            unit = {"cache_max_bytes": " of bytes", "compile_notice_seconds": " of seconds"}
            kind = f"a whole number{unit.get(name, '')}"
            raise TypeError(f"the setting {name!r} is {kind}, not {value!r}")
    elif name in _TEXTS and not (value is None or isinstance(value, str)):
        raise TypeError(f"the setting {name!r} is None or {_TEXTS[name]}, not {value!r}")
    elif name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"the setting {name!r} is one of {_CHOICES[name]}, not {value!r}")
    elif name == "default_prng_impl" and value not in generators:
        raise ValueError(f"the setting {name!r} is one of {sorted(generators)}, not {value!r}")
    elif name == "default_device":
        device = hasattr(value, "platform") and hasattr(value, "id")
        if not (value is None or device or value in PLATFORMS):
            raise ValueError(
                f"the setting {name!r} is a device (an entry of weft.devices()), the name of a "
                f"platform such as 'cpu', or None, not {value!r}"
            )


# What is asked before a setting changes, by name: modules that a change comes too late for are
# loaded later than this one.
objections: dict[str, Callable[[Any], None]] = {}


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """The changes under weft's names of settings, checked. Raises AttributeError for an unknown
    name, and what `_check` does."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _FIELDS:
            found |= _jax_settings().changes(name, value)
        else:
            found[name] = value
    for name, value in found.items():
        _check(name, value)
        if name in objections:
            objections[name](value)
    return found


def _jax_settings() -> Any:
    return importlib.import_module("weft.jax_settings")


def _from_environment(cls: type[_T] = Settings) -> _T:  # type: ignore[assignment]
    found = {}
    for field in dataclasses.fields(cls):
        text = os.environ.get("WEFT_" + field.name.upper())
        # The backend reads this one with the first device, and its error has a fix.
        if text is not None and field.name != "num_cpu_devices":
            value = _parse(field.name, text)
            if value is not None or field.default is None:
                _check(field.name, value)
                found[field.name] = value
    return cls(**found)


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
    if name in _FIELDS:
        return getattr(host_settings() if name in _OF_HOST else settings(), name)
    return _jax_settings().read(name)


def update(name: str, value: Any) -> None:
    """Changes one setting for the whole process; JAX's names are taken too.

    name: the name of the setting; value: its new value.

    Raises AttributeError for an unknown name, TypeError or ValueError for a value it cannot take,
    and NotImplementedError for a value of one of JAX's settings that weft does not have.
    """
    global _global, _host, guarding
    changes = _changes({name: value})
    mine = {name: value for name, value in changes.items() if name not in _OF_HOST}
    host = {name: value for name, value in changes.items() if name in _OF_HOST}
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
    host = {name: found.pop(name) for name in list(found) if name in _OF_HOST}
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
    """Puts settings that were in force elsewhere in force within a `with` block."""
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

    Raises ValueError for a value that a setting cannot take.
    """
    _jax_settings().parse_flags()


def __dir__() -> list[str]:
    # As `public_names` of weft.base.facades does it, which stands beside this module.
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name.startswith("_") and name != "_value":
        raise AttributeError(f"module 'weft.config' has no attribute {name!r}")
    return _jax_settings().attribute(name)


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
