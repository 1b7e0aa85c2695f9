"""Kinds of settings: the values that a setting takes, and their spellings in JAX.

A `SettingKind` refuses what a setting cannot be and reads its environment variable. A `Spelling`
converts between a setting of weft and one of JAX. The rows of `weft.settings.rows` are written with
these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class SettingKind(NamedTuple):
    """The values that a setting takes.

    check: raises TypeError or ValueError for another value of the named setting. parse: reads a
    value from the text of the named environment variable; None if that is not read with the others.
    """

    check: Callable[[str, Any], None]
    parse: Callable[[str, str], Any] | None


class Spelling(NamedTuple):
    """A setting of JAX that says what a setting of weft says.

    name: JAX's name without `jax_`. weft_value, jax_value: convert a value from one to the other;
    they also get the `HostSettings` in force. type: how the text of a value is read.
    """

    name: str
    weft_value: Callable[[Any, Any], Any] = lambda value, _: value
    jax_value: Callable[[Any, Any], Any] = lambda value, _: value
    type: type = str


# ---- kinds ---------------------------------------------------------------------------------------


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"the setting {name!r} is True or False, not {value!r}")


def _parse_flag(variable: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("", "0", "false", "no", "off"):
        return False
    raise ValueError(f"{variable} is {text!r}; it takes 1 or 0")


def _parse_whole(variable: str, text: str) -> int:
    if not text.strip().isdigit():
        raise ValueError(f"{variable} is {text!r}; it takes a whole number")
    return int(text)


def _parse_text(variable: str, text: str) -> str | None:
    del variable
    return text or None


def whole(unit: str = "", negative: bool = False) -> SettingKind:
    """Whole numbers, from 0 unless negative ones are taken too."""

    def check(name: str, value: Any) -> None:
        if type(value) is not int or (value < 0 and not negative):
            raise TypeError(f"the setting {name!r} is a whole number{unit}, not {value!r}")

    return SettingKind(check, _parse_whole)


def one_of(*options: Any) -> SettingKind:
    """One of these values."""

    def check(name: str, value: Any) -> None:
        if value not in options:
            raise ValueError(f"the setting {name!r} is one of {options}, not {value!r}")

    return SettingKind(check, _parse_text)


def _check_text(what: str) -> Callable[[str, Any], None]:
    def check(name: str, value: Any) -> None:
        if not (value is None or isinstance(value, str)):
            raise TypeError(f"the setting {name!r} is None or {what}, not {value!r}")

    return check


# The names of random generators; `weft.random` adds those that users define.
generators = {"threefry2x32", "rbg", "unsafe_rbg"}
PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")


def _check_generator(name: str, value: Any) -> None:
    if value not in generators:
        raise ValueError(f"the setting {name!r} is one of {sorted(generators)}, not {value!r}")


def _check_device(name: str, value: Any) -> None:
    device = hasattr(value, "platform") and hasattr(value, "id")
    if not (value is None or device or value in PLATFORMS):
        raise ValueError(
            f"the setting {name!r} is a device (an entry of weft.devices()), the name of a "
            f"platform such as 'cpu', or None, not {value!r}"
        )


MATMUL_PRECISIONS = (
    "default", "fastest", "bfloat16", "high", "bfloat16_3x", "tensorfloat32", "highest", "float32",
    "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
    "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "TF32_TF32_F32",
    "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
)  # fmt: skip

FLAG = SettingKind(_check_flag, _parse_flag)
WHOLE = whole()
# Values that the user chooses. They may be equal and differ, as 1 and True do.
FREE = SettingKind(lambda name, value: None, None)
GENERATOR = SettingKind(_check_generator, _parse_text)
DEVICE = SettingKind(_check_device, _parse_text)
PLATFORM_TEXT = SettingKind(_check_text("names of platforms as text"), _parse_text)
# An empty path says that there is none.
PATH = SettingKind(_check_text("a path as text"), lambda variable, text: text)
GUARD = one_of("allow", "log", "disallow", "log_explicit", "disallow_explicit")
MATMUL_PRECISION = one_of(None, *MATMUL_PRECISIONS)


# ---- spellings -----------------------------------------------------------------------------------

_UNLIMITED = (1 << 62) - 1
_FILTERS = ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto")


def _hides_nothing(how: Any, host: Any) -> bool:
    del host
    if how not in _FILTERS:
        raise ValueError(f"the setting 'traceback_filtering' is one of {_FILTERS}, not {how!r}")
    return bool(how == "off")


def _filter_in_force(full_traceback: bool, host: Any) -> str:
    how: str = dict(host.of_jax).get("traceback_filtering", "auto")
    if full_traceback:
        return "off"
    return "auto" if how == "off" else how


def stored(name: str, value: Any, host: Any) -> tuple[tuple[str, Any], ...]:
    """The values of JAX's settings that weft stores, after a change of one."""
    return tuple(sorted({**dict(host.of_jax), name: value}.items()))


def guards(name: str) -> tuple[Spelling, Spelling]:
    """JAX's settings for one of the guards: its own, and the one for all."""
    own, every = (
        Spelling(spelling, lambda level, _: "allow" if level is None else level)
        for spelling in (name, "transfer_guard")
    )
    return own, every


# JAX calls the setting the same, and it takes the same values.
SAME = Spelling("")
FILTER = Spelling("traceback_filtering", _hides_nothing, _filter_in_force)
# weft hides its frames or does not; what else JAX's setting says is stored.
STORED_FILTER = Spelling(FILTER.name, lambda how, host: stored(FILTER.name, how, host))
PLATFORM = (
    Spelling("platforms", lambda text, _: text or None),
    Spelling("platform_name", lambda text, _: text or None, lambda text, _: text or ""),
)
CPU_DEVICES = Spelling(
    "num_cpu_devices",
    lambda count, _: 0 if count == -1 else count,
    lambda count, _: count or -1,
    int,
)
CACHE_DIR = Spelling("compilation_cache_dir", jax_value=lambda path, _: path or None)
CACHE_ENABLED = Spelling(
    "enable_compilation_cache",
    lambda on, host: (host.cache_dir or None) if on else "",
    lambda path, _: path != "",
    bool,
)
CACHE_SIZE = Spelling(
    "compilation_cache_max_size",
    lambda size, _: _UNLIMITED if size == -1 else size,
    lambda size, _: -1 if size == _UNLIMITED else size,
    int,
)
LEAST_EFFORT = Spelling(
    "disable_most_optimizations",
    lambda on, _: "least" if on else "full",
    lambda effort, _: effort == "least",
    bool,
)
