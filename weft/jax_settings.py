"""JAX's settings by their names, with and without `jax_`: what each says to weft.

A setting that weft has too is weft's own under another name. One that weft has no use for, because
what it chooses between does not exist here or makes no difference, is kept and read back. Of one
whose other values ask for what weft does not do, only the value that says what weft does anyway is
taken; another raises NotImplementedError, which says what is missing.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft import config

__all__ = ["attribute", "changes", "flag_changes", "parse_flags", "read", "read_environment"]


class _Renamed(NamedTuple):
    """A setting of weft's own: `there` makes weft's values of JAX's value, by name, and `back`
    JAX's value of weft's."""

    names: tuple[str, ...]
    there: Callable[[Any], dict[str, Any]]
    back: Callable[..., Any]
    kind: type = str


class _KeptSetting(NamedTuple):
    """A setting that changes nothing here: it is kept. `why` says so to readers of this file."""

    default: Any
    why: str


class _Only(NamedTuple):
    """A setting with one supported value, or several that say the same here."""

    values: tuple[Any, ...]
    missing: str


_GUARDS = ("host_to_device", "device_to_device", "device_to_host")
_GUARD_NAMES = tuple(f"transfer_guard_{way}" for way in _GUARDS)
_UNLIMITED = (1 << 62) - 1


def _guards(level: Any) -> dict[str, Any]:
    return dict.fromkeys(_GUARD_NAMES, "allow" if level is None else level)


def _one_guard(name: str) -> _Renamed:
    return _Renamed(
        (name,), lambda level: {name: "allow" if level is None else level}, lambda level: level
    )


def _cache_enabled(enabled: Any) -> dict[str, Any]:
    now = config.host_settings().cache_dir
    return {"cache_dir": "" if not enabled else now or None}


def _platforms(text: Any) -> dict[str, Any]:
    return {"platforms": text or None}


_FILTERS = ("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto")


def _traceback_filtering(how: Any) -> dict[str, Any]:
    if how not in _FILTERS:
        raise ValueError(f"the setting 'traceback_filtering' is one of {_FILTERS}, not {how!r}")
    kept = dict(config.host_settings().of_jax) | {"traceback_filtering": how}
    return {"full_traceback": how == "off", "of_jax": tuple(sorted(kept.items()))}


def _filtering_in_force(full: bool, kept: tuple[tuple[str, Any], ...]) -> str:
    how: str = dict(kept).get("traceback_filtering", "auto")
    if full:
        return "off"
    return "auto" if how == "off" else how


def _log_level(text: Any) -> None:
    logger = logging.getLogger("weft")
    logger.setLevel(logging.NOTSET if text in (None, "", "NOTSET") else str(text).upper())


def _log_modules(text: Any) -> None:
    for name in filter(None, str(text or "").split(",")):
        own = name.strip().replace("jax", "weft", 1)
        logging.getLogger(own if own.startswith("weft") else "weft").setLevel(logging.DEBUG)


# What is done when one of these is changed, beside keeping it.
_ACTIONS: Mapping[str, Callable[[Any], None]] = {
    "debug_log_modules": _log_modules,
    "logging_level": _log_level,
}

_RENAMED: Mapping[str, _Renamed] = {
    "enable_checks": _Renamed(
        ("check_jaxprs",), lambda on: {"check_jaxprs": on}, lambda on: on, bool
    ),
    "compilation_cache_dir": _Renamed(
        ("cache_dir",), lambda path: {"cache_dir": path}, lambda path: path or None
    ),
    "compilation_cache_max_size": _Renamed(
        ("cache_max_bytes",),
        lambda size: {"cache_max_bytes": _UNLIMITED if size == -1 else size},
        lambda size: -1 if size == _UNLIMITED else size,
        int,
    ),
    "enable_compilation_cache": _Renamed(
        ("cache_dir",), _cache_enabled, lambda path: path != "", bool
    ),
    "traceback_filtering": _Renamed(
        ("full_traceback", "of_jax"), _traceback_filtering, _filtering_in_force
    ),
    "disable_most_optimizations": _Renamed(
        ("compile_effort",),
        lambda on: {"compile_effort": "least" if on else "full"},
        lambda effort: effort == "least",
        bool,
    ),
    "platforms": _Renamed(("platforms",), _platforms, lambda text: text),
    "platform_name": _Renamed(("platforms",), _platforms, lambda text: text or ""),
    "num_cpu_devices": _Renamed(
        ("num_cpu_devices",),
        lambda count: {"num_cpu_devices": 0 if count == -1 else count},
        lambda count: count or -1,
        int,
    ),
    "transfer_guard": _Renamed(_GUARD_NAMES, _guards, lambda *levels: levels[0]),
    **{name: _one_guard(name) for name in _GUARD_NAMES},
}

_SAME_RESULT = "both ways of computing it give the same results here up to rounding"
_PROCESSES = "it is about several processes"
_LOCATIONS = "weft's programs name the user's line of each operation, nothing more and nothing less"
_TEXTS = "weft's texts of programs have no colours unless they are asked for"

_KEPT: Mapping[str, _KeptSetting] = {
    "bcoo_cusparse_lowering": _KeptSetting(False, _SAME_RESULT),
    "captured_constants_report_frames": _KeptSetting(0, "arrays are never constants of a program"),
    "captured_constants_warn_bytes": _KeptSetting(
        2000000000, "arrays are never constants of a program"
    ),
    "check_proxy_envs": _KeptSetting(True, _PROCESSES),
    "compilation_cache_include_metadata_in_key": _KeptSetting(
        False, "keys hold no files and lines"
    ),
    "compiler_detailed_logging_min_ops": _KeptSetting(10, "it chooses what is logged"),
    "compiler_enable_remat_pass": _KeptSetting(True, "a pass of XLA for accelerators"),
    "cpu_collectives_implementation": _KeptSetting("gloo", _PROCESSES),
    "cpu_get_global_topology_timeout_minutes": _KeptSetting(5, _PROCESSES),
    "cpu_get_local_topology_timeout_minutes": _KeptSetting(2, _PROCESSES),
    "cross_host_transfer_socket_address": _KeptSetting("", _PROCESSES),
    "cross_host_transfer_timeout_seconds": _KeptSetting(None, _PROCESSES),
    "cross_host_transfer_transfer_size": _KeptSetting(None, _PROCESSES),
    "cross_host_transport_addresses": _KeptSetting("", _PROCESSES),
    "custom_vjp3": _KeptSetting(False, _SAME_RESULT),
    "debug_leaked_clients_on_clear_backends": _KeptSetting(False, "a check of JAX's own caches"),
    "debug_log_modules": _KeptSetting("", "sets the level of the loggers"),
    "disable_bwd_checks": _KeptSetting(
        False, "weft checks types of cotangents, which costs nothing"
    ),
    "disallow_mesh_context_manager": _KeptSetting(False, "it forbids a style"),
    "distributed_debug": _KeptSetting(False, _PROCESSES),
    "embedded_constants_max_bytes": _KeptSetting(32, "arrays are never constants of a program"),
    "enable_preemption_service": _KeptSetting(True, _PROCESSES),
    "enable_recoverability": _KeptSetting(False, _PROCESSES),
    "explicit_x64_dtypes": _KeptSetting("warn", "see the setting dtype_rule"),
    "export_calling_convention_version": _KeptSetting(10, "exports keep the number"),
    "export_ignore_forward_compatibility": _KeptSetting(False, "exports have weft's own container"),
    "force_dcn_cross_host_transfers": _KeptSetting(False, _PROCESSES),
    "hlo_source_file_canonicalization_regex": _KeptSetting(None, _LOCATIONS),
    "include_debug_info_in_dumps": _KeptSetting(True, _LOCATIONS),
    "include_full_tracebacks_in_locations": _KeptSetting(True, _LOCATIONS),
    "jax2tf_associative_scan_reductions": _KeptSetting(False, _SAME_RESULT),
    "jax2tf_default_native_serialization": _KeptSetting(True, "it is about TensorFlow"),
    "logging_level": _KeptSetting("NOTSET", "sets the level of weft's logger"),
    "mutable_array_checks": _KeptSetting(True, "references are always checked"),
    "persistent_cache_enable_xla_caches": _KeptSetting(
        "xla_gpu_per_fusion_autotune_cache_dir", "weft keeps whole executables"
    ),
    "persistent_cache_min_compile_time_secs": _KeptSetting(
        1.0, "weft keeps what costs more to compile"
    ),
    "persistent_cache_min_entry_size_bytes": _KeptSetting(
        0, "weft keeps what costs more to compile"
    ),
    "pprint_use_color": _KeptSetting(True, _TEXTS),
    "ragged_dot_use_ragged_dot_instruction": _KeptSetting(True, _SAME_RESULT),
    "raise_persistent_cache_errors": _KeptSetting(
        False, "whatever is wrong with an entry is a miss"
    ),
    "remat3": _KeptSetting(False, _SAME_RESULT),
    "remove_custom_partitioning_ptr_from_cache_key": _KeptSetting(False, "keys hold no addresses"),
    "scan3": _KeptSetting(False, _SAME_RESULT),
    "send_traceback_to_runtime": _KeptSetting("off", _LOCATIONS),
    "share_binary_between_hosts": _KeptSetting(False, _PROCESSES),
    "share_binary_between_hosts_timeout_ms": _KeptSetting(1200000, _PROCESSES),
    "softmax_custom_jvp": _KeptSetting(False, _SAME_RESULT),
    "sort_devices_by_process_index": _KeptSetting(True, _PROCESSES),
    "source_url_schema": _KeptSetting(None, _LOCATIONS),
    "thread_guard": _KeptSetting(False, _PROCESSES),
    "traceback_in_locations_limit": _KeptSetting(100, _LOCATIONS),
    "tracer_error_num_traceback_frames": _KeptSetting(5, "weft's errors name the user's line"),
    "use_direct_linearize": _KeptSetting(True, _SAME_RESULT),
    "use_magma": _KeptSetting(
        "auto", "it chooses among libraries of linear algebra for AMD's devices"
    ),
    "use_simplified_jaxpr_constants": _KeptSetting(False, "constants are arguments"),
}

_ONLY: Mapping[str, _Only] = {
    "array_garbage_collection_guard": _Only(
        (None, "allow"), "noticing arrays that are freed by Python's collector of cycles"
    ),
    "auto_pcast": _Only((True,), "types of mapped values without casts that are inserted"),
    "backend_target": _Only(("",), "devices of another process"),
    "check_vma": _Only((False,), "a switch for the checks of shard_map: see its check_vma"),
    "compilation_cache_check_contents": _Only((False,), "a second look at what was compiled"),
    "compilation_cache_expect_pgle": _Only((False,), "compiling guided by profiles"),
    "cpu_enable_async_dispatch": _Only((True,), "a CPU whose programs all run at once"),
    "cuda_visible_devices": _Only(("all",), "a choice of GPUs: set CUDA_VISIBLE_DEVICES"),
    "disable_vmap_shmap_error": _Only((False,), "vmap of shard_map without its checks"),
    "dump_ir_modes": _Only(("stablehlo",), "dumps of programs in other forms"),
    "dump_ir_to": _Only((None, ""), "a folder for dumps: see jit(f).lower(x).as_text()"),
    "eager_constant_folding": _Only((False,), "it: use weft.ensure_compile_time_eval"),
    "enable_pgle": _Only((False,), "compiling guided by profiles"),
    "error_checking_behavior_divide": _Only(("ignore",), "error states inside of programs"),
    "error_checking_behavior_nan": _Only(("ignore",), "error states inside of programs"),
    "error_checking_behavior_oob": _Only(("ignore",), "error states inside of programs"),
    "exec_time_optimization_effort": _Only((0.0, 0), "degrees of effort: see compile_effort"),
    "experimental_unsafe_xla_runtime_errors": _Only((False,), "assertions inside of programs"),
    "log_checkpoint_residuals": _Only((False,), "a log of residuals: see print_saved_residuals"),
    "memory_fitting_effort": _Only((0.0, 0), "degrees of effort: see compile_effort"),
    "memory_fitting_level": _Only(("O2",), "levels of effort: see compile_effort"),
    "mock_gpu_topology": _Only(("",), "devices that are not there"),
    "mosaic_allow_hlo": _Only((False,), "Mosaic kernels"),
    "oneapi_visible_devices": _Only(("all",), "Intel's devices"),
    "optimization_level": _Only(("UNKNOWN",), "levels of effort: see compile_effort"),
    "pallas_enable_debug_checks": _Only((False,), "Pallas kernels"),
    "pallas_poison_buffers": _Only((False,), "Pallas kernels"),
    "pallas_use_mosaic_gpu": _Only((True,), "Pallas kernels"),
    "pallas_verbose_errors": _Only((False,), "Pallas kernels"),
    "pgle_aggregation_percentile": _Only((90,), "compiling guided by profiles"),
    "pgle_profiling_runs": _Only((3,), "compiling guided by profiles"),
    "pjrt_client_create_options": _Only((None, ""), "options of a runtime's client"),
    "ragged_dot_use_gpu_pallas_triton_lowering": _Only((False,), "Pallas kernels"),
    "refs_to_pins": _Only((False,), "memory that references pin"),
    "remove_size_one_mesh_axis_from_type": _Only((False,), "shardings as a part of types"),
    "rocm_visible_devices": _Only(("all",), "AMD's devices"),
    "serialization_version": _Only((0,), "JAX's container of exports"),
    "threefry_gpu_kernel_lowering": _Only((False,), "a kernel of its own for random bits"),
    "use_emit_pipeline_primitive": _Only((False,), "Pallas kernels"),
    "use_shardy_partitioner": _Only((True,), "a partitioner other than Shardy"),
    "xla_backend": _Only(("",), "another runtime than PJRT"),
    "xla_profile_version": _Only((0,), "compiling guided by profiles"),
}

# Settings that JAX names without `jax_`.
_BARE = frozenset(
    {
        "check_vma",
        "eager_constant_folding",
        "jax2tf_associative_scan_reductions",
        "jax2tf_default_native_serialization",
    }
)
# Settings that JAX and weft call the same.
_SAME = (
    "allow_f16_reductions", "check_static_indices", "check_tracer_leaks", "debug_infs",
    "debug_key_reuse", "debug_nans", "default_device", "default_matmul_precision",
    "default_prng_impl", "disable_jit", "enable_custom_prng", "enable_x64", "explain_cache_misses",
    "high_dynamic_range_gumbel", "legacy_prng_key", "log_compiles", "no_execution", "no_tracing",
    "numpy_dtype_promotion", "numpy_rank_promotion", "random_seed_offset",
    "threefry_partitionable",
)  # fmt: skip


def _own(name: str) -> str:
    """A name of JAX's without `jax_`. Raises AttributeError for one that is not a setting."""
    own = name.removeprefix("jax_") if isinstance(name, str) else name
    if own in _SAME or own in _RENAMED or own in _KEPT or own in _ONLY:
        return own
    known = ", ".join([*config._FIELDS, *(_RENAMED.keys() - config._FIELDS.keys())])
    raise AttributeError(f"no setting is named {name!r}; there are: {known}")


def changes(name: str, value: Any) -> dict[str, Any]:
    """What a change of one of JAX's settings changes of weft's, by weft's names.

    Raises AttributeError for an unknown name and NotImplementedError for a value that asks for
    what weft does not do.
    """
    own = _own(name)
    if own in _SAME:
        return {own: value}
    if own in _RENAMED:
        return _RENAMED[own].there(value)
    if own in _ONLY and not any(value is x or value == x for x in _ONLY[own].values):
        default, missing = _ONLY[own].values[0], _ONLY[own].missing
        raise NotImplementedError(
            f"the setting {name!r} asks for what weft does not have: {missing} (got {value!r}; "
            f"{default!r} says what weft does)"
        )
    if own in _ACTIONS:
        _ACTIONS[own](value)
    kept = dict(config.host_settings().of_jax)
    return {"of_jax": tuple(sorted({**kept, own: value}.items()))}


def read(name: str) -> Any:
    """The value of one of JAX's settings. Raises AttributeError for an unknown name."""
    own = _own(name)
    if own in _SAME:
        return config.read(own)
    if own in _RENAMED:
        found = _RENAMED[own]
        return found.back(*map(config.read, found.names))
    default = _KEPT[own].default if own in _KEPT else _ONLY[own].values[0]
    return dict(config.host_settings().of_jax).get(own, default)


def _all_names() -> list[str]:
    own = {*_SAME, *_RENAMED, *_KEPT, *_ONLY}
    return sorted(name if name in _BARE else f"jax_{name}" for name in own)


def attribute(name: str) -> Any:
    """What `weft.config` shows under a name that it does not define: JAX's settings by their full
    names, `values` (all of them as a dict) and `x64_enabled`."""
    if name == "values":
        return {name: read(name) for name in _all_names()}
    if name == "x64_enabled":
        return config.settings().enable_x64
    if name.startswith("jax_") or name in _BARE:
        return read(name)
    raise AttributeError(f"module 'weft.config' has no attribute {name!r}")


# ---- the environment and the command line --------------------------------------------------------

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0", "")


def _parsed(name: str, text: str) -> Any:
    """The value that a text stands for. Raises ValueError for none."""
    now = read(name)
    own = _own(name)
    kind = _RENAMED[own].kind if own in _RENAMED else type(now)
    if kind is bool:
        lowered = text.strip().lower()
        if lowered in _TRUE or lowered in _FALSE:
            return lowered in _TRUE
        raise ValueError(f"{name} is {text!r}; it takes true or false")
    if kind in (int, float):
        return kind(text)
    return text if text or now is not None else None


def read_environment() -> None:
    """Takes settings from `JAX_*` environment variables: `JAX_ENABLE_X64=1` is the setting
    `jax_enable_x64`. Where `WEFT_*` says the same setting, that stays.

    Raises ValueError for a value that a setting cannot take.
    """
    for name in _all_names():
        text = os.environ.get(name.upper())
        own = _own(name)
        weft_names = _RENAMED[own].names if own in _RENAMED else (own,)
        if text is None or any("WEFT_" + weft.upper() in os.environ for weft in weft_names):
            continue
        config.update(name, _parsed(name, text))


def flag_changes(arguments: list[str]) -> dict[str, Any]:
    """The settings that arguments of a command line say: `--jax_debug_nans`, `--nojax_debug_nans`
    or `--jax_debug_nans=true`, and for other values `--jax_name=value` or `--jax_name value`."""
    known = set(_all_names())
    found: dict[str, Any] = {}
    waiting = None
    for argument in arguments:
        if waiting is not None:
            found[waiting] = _parsed(waiting, argument)
            waiting = None
            continue
        if argument == "--":
            break
        name, given, text = argument.lstrip("-").partition("=")
        if not argument.startswith("-"):
            continue
        if name in known and given:
            found[name] = _parsed(name, text)
        elif name in known and isinstance(read(name), bool):
            found[name] = True
        elif name in known:
            waiting = name
        elif name.startswith("no") and name[2:] in known:
            found[name[2:]] = False
    return found


def parse_flags() -> None:
    """Takes settings from the command line of the process: see `flag_changes`.

    Where the program has loaded absl, absl's flags count as parsed from now on, with their
    defaults: until then reading one of them is an error.
    """
    for name, value in flag_changes(sys.argv[1:]).items():
        config.update(name, value)
    absl_flags = sys.modules.get("absl.flags")
    if absl_flags is not None and not absl_flags.FLAGS.is_parsed():
        absl_flags.FLAGS([""])
