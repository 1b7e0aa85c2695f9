"""The settings of weft as a table: all that is said of a setting stands in its row.

A row is a field of `Settings`, if programs depend on the setting, or of `HostSettings`. It has the
default, the meaning, the values that the setting takes, and how JAX spells it. A comment says why
weft cannot decide it for the user. `weft.config` makes of the rows how a setting is changed, by
name or by an environment variable, `weft.settings.jax_settings` makes JAX's names, and
`tools/settings_table.py` the tables of docs/settings.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from weft.settings.kinds import (
    CACHE_DIR,
    CACHE_ENABLED,
    CACHE_SIZE,
    CPU_DEVICES,
    DEVICE,
    FILTER,
    FLAG,
    FREE,
    GENERATOR,
    GUARD,
    LEAST_EFFORT,
    MATMUL_PRECISION,
    PATH,
    PLATFORM,
    PLATFORM_TEXT,
    SAME,
    STORED_FILTER,
    WHOLE,
    SettingKind,
    Spelling,
    guards,
    one_of,
    whole,
)


class Row(NamedTuple):
    """All that is said of a setting, beside its name and type."""

    default: Any
    meaning: str
    kind: SettingKind
    jax: tuple[Spelling, ...]


def _setting(default: Any, meaning: str, *jax: Spelling, kind: SettingKind | None = None) -> Any:
    if kind is None:
        kind = FLAG if isinstance(default, bool) else WHOLE
    return dataclasses.field(default=default, metadata={"row": Row(default, meaning, kind, jax)})


# Compared and hashed by identity, which is free in a cache key: equal settings are one object.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """The settings that programs depend on."""

    # 64-bit numbers cost twice the memory; only the user knows whether they are needed.
    enable_x64: bool = _setting(
        False, "Whether numbers of 64 bits are the default, and not cut to 32 bits.", SAME
    )
    # Checking costs time; weft's own tests turn it on.
    check_jaxprs: bool = _setting(
        False,
        "Whether every jaxpr that is made is checked. The results of weft's own rules are checked "
        "too if it is on when weft is imported.",
        Spelling("enable_checks", type=bool),
    )
    # The number of bits that a matrix product keeps is a trade of speed against accuracy.
    default_matmul_precision: str | None = _setting(
        None,
        "How exactly products are computed that do not say it: the name of a precision or of an "
        "algorithm, None for the default.",
        SAME,
        kind=MATMUL_PRECISION,
    )
    # "strict" is for code that writes every conversion.
    numpy_dtype_promotion: str = _setting(
        "standard",
        '"standard", or "strict" to refuse operands whose dtypes differ.',
        SAME,
        kind=one_of("standard", "strict"),
    )
    # A missing axis is a frequent mistake, and a frequent idiom.
    numpy_rank_promotion: str = _setting(
        "allow",
        '"allow", or "warn" or "raise" where arrays of different ranks are broadcast.',
        SAME,
        kind=one_of("allow", "warn", "raise"),
    )
    # The rules are JAX's, for programs that were written for them.
    dtype_rule: str = _setting(
        "weft",
        '"weft", or "jax" to cut 64-bit dtypes that are asked for to 32 bits without `enable_x64`, '
        "and to keep the low bits of integers that do not fit. `weft.as_jax` sets it.",
        kind=one_of("weft", "jax"),
    )
    # Programs that were written for JAX pass such arguments.
    argument_rule: str = _setting(
        "weft",
        '"weft", or "jax" to take arguments that mean nothing or have no effect where JAX takes '
        "them. `weft.as_jax` sets it.",
        kind=one_of("weft", "jax"),
    )
    # Checking every result costs time, and some programs compute with NaNs or infinities.
    debug_nans: bool = _setting(
        False, "Whether results are searched for NaNs, which raise an error.", SAME
    )
    debug_infs: bool = _setting(
        False, "Whether results are searched for infinities, which raise an error.", SAME
    )
    # Following every random key costs time, and some programs reuse a key deliberately.
    debug_key_reuse: bool = _setting(
        False, "Whether a random key that is used twice raises an error.", SAME
    )
    # Only the user knows that a program runs too seldom to earn back the cost of optimizations.
    # weft's own tests are such programs.
    compile_effort: str = _setting(
        "full",
        '"full", or "least" to compile fast, without most of XLA\'s optimizations on a CPU.',
        LEAST_EFFORT,
        kind=one_of("full", "least"),
    )
    # "inline" is what XLA does by itself. It takes twice as long, and may run faster where the
    # bodies do little.
    repeated_bodies: str = _setting(
        "call",
        '"call" to compile a body that is repeated, such as the layers of a network, once, also '
        'where a Python loop wrote them out; "inline" to compile all as parts of one function.',
        kind=one_of("call", "inline"),
    )
    # Step by step, jitted functions and loops can be followed with a debugger, and are slow.
    disable_jit: bool = _setting(
        False, "Whether jitted functions, loops and branches run step by step.", SAME
    )
    default_device: Any = _setting(
        None,
        "What makes arrays and runs what is committed to no device: a device, the name of a "
        "platform, or None for the first device.",
        SAME,
        kind=DEVICE,
    )
    # How seeds, keys and bits are made decides which random numbers are drawn.
    default_prng_impl: str = _setting(
        "threefry2x32",
        "The name of the generator of random keys that name none.",
        SAME,
        kind=GENERATOR,
    )
    threefry_partitionable: bool = _setting(
        True,
        "False gives the keys and bits of threefry that JAX gave before its release 0.5.",
        SAME,
    )
    random_seed_offset: int = _setting(
        0, "What is added to every seed of a random key.", SAME, kind=whole(negative=True)
    )
    high_dynamic_range_gumbel: bool = _setting(
        False,
        "Whether `weft.random.gumbel` draws twice as many bits unless its `mode` is given.",
        SAME,
    )
    # Programs that were written for JAX use keys without a type.
    enable_custom_prng: bool = _setting(False, "Whether `PRNGKey` makes typed keys.", SAME)
    legacy_prng_key: str = _setting(
        "allow",
        '"allow", "warn" or "error": what becomes of keys without a type.',
        SAME,
        kind=one_of("allow", "warn", "error"),
    )
    # Looking for leaked tracers costs time.
    check_tracer_leaks: bool = _setting(
        False,
        "Whether leaked tracers are looked for after every trace; one that is still held raises an "
        "error.",
        SAME,
    )
    # Such an index is a mistake; programs that were written for JAX may count on its being moved.
    check_static_indices: bool = _setting(
        True,
        "Whether an index out of bounds that is known while tracing raises an error. Otherwise it "
        "is moved to the bounds, as a traced one is.",
        SAME,
    )
    # Sums of float16 lose digits and range; some programs are to have none.
    allow_f16_reductions: bool = _setting(
        True, "False makes sums of `weft.lax` in float16 and bfloat16 an error.", SAME
    )
    # Compiled code may be checked for running nothing.
    no_execution: bool = _setting(False, "Whether it is an error to run anything.", SAME)
    operation_metadata: tuple[tuple[str, str], ...] = _setting(
        (),
        "Pairs of a name and a value that recorded operations carry, for passes of XLA.",
        kind=FREE,
    )
    user_contexts: tuple[tuple[Any, Any], ...] = _setting(
        (), "The values of `weft.make_user_context` that differ from their defaults.", kind=FREE
    )

    @property
    def looks_at_results(self) -> bool:
        """Whether results are searched for NaNs or infinities, keys are followed, or nothing runs:
        whether operations need more than to be executed."""
        return self.debug_nans or self.debug_infs or self.debug_key_reuse or self.no_execution

    @property
    def of_operations(self) -> Any:
        """The settings that change the executable of a jaxpr: part of its cache key unless all
        have their usual values (see `config.settings_in_keys`)."""
        return self.compile_effort, self.default_device, self.repeated_bodies


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostSettings:
    """The settings that no program depends on."""

    # Internal frames help those who change weft and hide the mistake from those who use it.
    full_traceback: bool = _setting(False, "Whether tracebacks show weft's own frames.", FILTER)
    # Explanations of retracing go to the log only for those who look for them.
    explain_cache_misses: bool = _setting(
        False, "Whether the log says why something is traced again.", SAME
    )
    # So do lines about everything that is traced and compiled.
    log_compiles: bool = _setting(False, "Whether the log says what is traced and compiled.", SAME)
    # Only the user knows whether someone waits at the terminal.
    compile_notice_seconds: int = _setting(
        2,
        "After how many seconds of compiling a line on the terminal says so; 0 for never.",
        kind=whole(" of seconds"),
    )
    # Some programs are to be traced before a certain point only.
    no_tracing: bool = _setting(False, "Whether it is an error to trace anything.", SAME)
    # Only the user knows which disk is fast, private and large enough.
    cache_dir: str | None = _setting(
        None,
        "The directory that keeps executables between processes; None for the user's cache "
        'directory, "" for none.',
        CACHE_DIR,
        CACHE_ENABLED,
        kind=PATH,
    )
    cache_max_bytes: int = _setting(
        2 << 30,
        "The size of that directory above which executables are deleted that were not used for "
        "longest.",
        CACHE_SIZE,
        kind=whole(" of bytes"),
    )
    # Values that are copied between the host and devices unasked cost time: "log" says where,
    # "disallow" refuses them, the "_explicit" forms also where a program asks for the copy.
    transfer_guard_host_to_device: str = _setting(
        "allow",
        'What becomes of copies from the host to a device: "allow", "log", "disallow", '
        '"log_explicit" or "disallow_explicit".',
        *guards("transfer_guard_host_to_device"),
        kind=GUARD,
    )
    transfer_guard_device_to_device: str = _setting(
        "allow",
        "The same of copies between devices.",
        *guards("transfer_guard_device_to_device"),
        kind=GUARD,
    )
    transfer_guard_device_to_host: str = _setting(
        "allow",
        "The same of copies from a device to the host.",
        *guards("transfer_guard_device_to_host"),
        kind=GUARD,
    )
    platforms: str | None = _setting(
        None,
        'The names of the platforms to use, the default one first, such as "cuda,cpu"; None for '
        "all that there are. It is read when the first device is asked for.",
        *PLATFORM,
        kind=PLATFORM_TEXT,
    )
    # The backend reads the environment variable with the first device, and its error has a fix.
    num_cpu_devices: int = _setting(
        0,
        "The number of devices that the host shows as; 0 for what the environment says, by default "
        "one. It is read when the first device is asked for.",
        CPU_DEVICES,
        kind=SettingKind(WHOLE.check, None),
    )
    # Keeping these frames takes up to a third of a small call's time; only profiles of memory show
    # them.
    allocation_tracebacks: bool = _setting(
        False,
        "Whether arrays keep the lines that made them, for profiles of memory. It is read when the "
        "first device is asked for.",
    )
    of_jax: tuple[tuple[str, Any], ...] = _setting(
        (),
        "Values of JAX's settings that change nothing here, as pairs of a name and a value.",
        STORED_FILTER,
        kind=FREE,
    )

    @property
    def guards_transfers(self) -> bool:
        """Whether copies between the host and devices are watched."""
        return (
            self.transfer_guard_host_to_device != "allow"
            or self.transfer_guard_device_to_device != "allow"
            or self.transfer_guard_device_to_host != "allow"
        )


def _rows(table: Any) -> dict[str, Row]:
    """The rows of a table, which its docstring lists from now on."""
    out = {field.name: field.metadata["row"] for field in dataclasses.fields(table)}
    lines = [f"        {name}: {row.meaning}" for name, row in out.items()]
    table.__doc__ = "\n".join([table.__doc__ or "", "", "    Args:", *lines, "    "])
    return out


HOST_ROWS = _rows(HostSettings)
ROWS = {**_rows(Settings), **HOST_ROWS}


def value_of(name: str, settings: Settings, host: HostSettings) -> Any:
    """The value of one of weft's settings."""
    return getattr(host if name in HOST_ROWS else settings, name)
