"""JAX's settings by their names, with and without `jax_`: what each says to weft.

How JAX spells a setting of weft's stands in the row of `weft.settings.rows`. The tables here are of
JAX's other settings. One that weft has no use for, because what it chooses between does not exist
here or makes no difference, is stored and read back. Of one whose other values ask for what weft
does not do, only the value that says what weft does anyway is taken; another raises
NotImplementedError, which says what is missing.

Nothing here changes a setting: `weft.config` does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft.settings.kinds import SAME, Spelling, stored
from weft.settings.rows import ROWS, HostSettings, Settings, value_of


class _Stored(NamedTuple):
    """A setting that changes nothing here. `why` says so to readers of this file; `act` is called
    with a new value."""

    default: Any
    why: str
    act: Callable[[Any], None] | None = None


class _Only(NamedTuple):
    """A setting with one supported value, or several that say the same here."""

    values: tuple[Any, ...]
    missing: str


def _log_level(text: Any) -> None:
    logger = logging.getLogger("weft")
    logger.setLevel(logging.NOTSET if text in (None, "", "NOTSET") else str(text).upper())


def _log_modules(text: Any) -> None:
    for name in filter(None, str(text or "").split(",")):
        own = name.strip().replace("jax", "weft", 1)
        logging.getLogger(own if own.startswith("weft") else "weft").setLevel(logging.DEBUG)


_SAME_RESULT = "both ways of computing it give the same results here up to rounding"
_PROCESSES = "it is about several processes"
_LOCATIONS = "weft's programs name the user's line of each operation, nothing more and nothing less"
_TEXTS = "weft's texts of programs have no colours unless they are asked for"

_STORED: Mapping[str, _Stored] = {
    "bcoo_cusparse_lowering": _Stored(False, _SAME_RESULT),
    "captured_constants_report_frames": _Stored(0, "arrays are never constants of a program"),
    "captured_constants_warn_bytes": _Stored(2000000000, "arrays are never constants of a program"),
    "check_proxy_envs": _Stored(True, _PROCESSES),
    "compilation_cache_include_metadata_in_key": _Stored(False, "keys hold no files and lines"),
    "compiler_detailed_logging_min_ops": _Stored(10, "it chooses what is logged"),
    "compiler_enable_remat_pass": _Stored(True, "a pass of XLA for accelerators"),
    "cpu_collectives_implementation": _Stored("gloo", _PROCESSES),
    "cpu_get_global_topology_timeout_minutes": _Stored(5, _PROCESSES),
    "cpu_get_local_topology_timeout_minutes": _Stored(2, _PROCESSES),
    "cross_host_transfer_socket_address": _Stored("", _PROCESSES),
    "cross_host_transfer_timeout_seconds": _Stored(None, _PROCESSES),
    "cross_host_transfer_transfer_size": _Stored(None, _PROCESSES),
    "cross_host_transport_addresses": _Stored("", _PROCESSES),
    "custom_vjp3": _Stored(False, _SAME_RESULT),
    "debug_leaked_clients_on_clear_backends": _Stored(False, "a check of JAX's own caches"),
    "debug_log_modules": _Stored("", "sets the level of the loggers", _log_modules),
    "disable_bwd_checks": _Stored(False, "weft checks types of cotangents, which costs nothing"),
    "disallow_mesh_context_manager": _Stored(False, "it forbids a style"),
    "distributed_debug": _Stored(False, _PROCESSES),
    "embedded_constants_max_bytes": _Stored(32, "arrays are never constants of a program"),
    "enable_preemption_service": _Stored(True, _PROCESSES),
    "enable_recoverability": _Stored(False, _PROCESSES),
    "explicit_x64_dtypes": _Stored("warn", "see the setting dtype_rule"),
    "export_calling_convention_version": _Stored(10, "exports keep the number"),
    "export_ignore_forward_compatibility": _Stored(False, "exports have weft's own container"),
    "force_dcn_cross_host_transfers": _Stored(False, _PROCESSES),
    "hlo_source_file_canonicalization_regex": _Stored(None, _LOCATIONS),
    "include_debug_info_in_dumps": _Stored(True, _LOCATIONS),
    "include_full_tracebacks_in_locations": _Stored(True, _LOCATIONS),
    "jax2tf_associative_scan_reductions": _Stored(False, _SAME_RESULT),
    "jax2tf_default_native_serialization": _Stored(True, "it is about TensorFlow"),
    "logging_level": _Stored("NOTSET", "sets the level of weft's logger", _log_level),
    "mutable_array_checks": _Stored(True, "references are always checked"),
    "persistent_cache_enable_xla_caches": _Stored(
        "xla_gpu_per_fusion_autotune_cache_dir", "weft keeps whole executables"
    ),
    "persistent_cache_min_compile_time_secs": _Stored(1.0, "weft keeps what costs more to compile"),
    "persistent_cache_min_entry_size_bytes": _Stored(0, "weft keeps what costs more to compile"),
    "pprint_use_color": _Stored(True, _TEXTS),
    "ragged_dot_use_ragged_dot_instruction": _Stored(True, _SAME_RESULT),
    "raise_persistent_cache_errors": _Stored(False, "whatever is wrong with an entry is a miss"),
    "remat3": _Stored(False, _SAME_RESULT),
    "remove_custom_partitioning_ptr_from_cache_key": _Stored(False, "keys hold no addresses"),
    "scan3": _Stored(False, _SAME_RESULT),
    "send_traceback_to_runtime": _Stored("off", _LOCATIONS),
    "share_binary_between_hosts": _Stored(False, _PROCESSES),
    "share_binary_between_hosts_timeout_ms": _Stored(1200000, _PROCESSES),
    "softmax_custom_jvp": _Stored(False, _SAME_RESULT),
    "sort_devices_by_process_index": _Stored(True, _PROCESSES),
    "source_url_schema": _Stored(None, _LOCATIONS),
    "thread_guard": _Stored(False, _PROCESSES),
    "traceback_in_locations_limit": _Stored(100, _LOCATIONS),
    "tracer_error_num_traceback_frames": _Stored(5, "weft's errors name the user's line"),
    "use_direct_linearize": _Stored(True, _SAME_RESULT),
    "use_magma": _Stored("auto", "it chooses among libraries of linear algebra for AMD's devices"),
    "use_simplified_jaxpr_constants": _Stored(False, "constants are arguments"),
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
# The rows of weft's settings that one of JAX's changes, by the name of JAX's.
_SPELLED: dict[str, dict[str, Spelling]] = {}
for _name, _row in ROWS.items():
    for _spelling in _row.jax:
        if _spelling is SAME:
            _spelling = Spelling(_name, type=type(_row.default))
        _SPELLED.setdefault(_spelling.name, {})[_name] = _spelling

# All of JAX's settings, by their full names.
_FULL_NAMES = {
    name if name in _BARE else f"jax_{name}": name for name in (*_SPELLED, *_STORED, *_ONLY)
}
SHOWN: Mapping[str, str] = dict(sorted(_FULL_NAMES.items()))


def _strip_prefix(name: str) -> str:
    """A name of JAX's without `jax_`. Raises AttributeError for one that is not a setting."""
    own = name.removeprefix("jax_") if isinstance(name, str) else name
    if own in _SPELLED or own in _STORED or own in _ONLY:
        return own
    known = ", ".join([*ROWS, *(name for name in _SPELLED if name not in ROWS)])
    raise AttributeError(f"no setting is named {name!r}; there are: {known}")


def shows(name: str) -> bool:
    """Whether `weft.config` has JAX's setting of this name as an attribute, if there is one."""
    return name.startswith("jax_") or name in _BARE


def changes(name: str, value: Any, host: HostSettings) -> dict[str, Any]:
    """Translates a change of one of JAX's settings to changes of weft's, by weft's names.

    Raises AttributeError for an unknown name and NotImplementedError for a value that asks for
    what weft does not do.
    """
    own = _strip_prefix(name)
    if own in _SPELLED:
        return {row: found.weft_value(value, host) for row, found in _SPELLED[own].items()}
    if own in _ONLY and not any(value is x or value == x for x in _ONLY[own].values):
        default, missing = _ONLY[own].values[0], _ONLY[own].missing
        raise NotImplementedError(
            f"the setting {name!r} asks for what weft does not have: {missing} (got {value!r}; "
            f"{default!r} says what weft does)"
        )
    if own in _STORED and (act := _STORED[own].act) is not None:
        act(value)
    return {"of_jax": stored(own, value, host)}


def read(name: str, settings: Settings, host: HostSettings) -> Any:
    """The value of one of JAX's settings. Raises AttributeError for an unknown name."""
    own = _strip_prefix(name)
    if own in _SPELLED:
        row, found = next(iter(_SPELLED[own].items()))
        return found.jax_value(value_of(row, settings, host), host)
    default = _STORED[own].default if own in _STORED else _ONLY[own].values[0]
    return dict(host.of_jax).get(own, default)


# ---- the environment and the command line --------------------------------------------------------

_TRUE = ("y", "yes", "t", "true", "on", "1")
_FALSE = ("n", "no", "f", "false", "off", "0", "")


def _default(name: str) -> Any:
    return read(name, Settings(), HostSettings())


def _parse(name: str, text: str) -> Any:
    """The value of a text. Raises ValueError for an invalid one."""
    default = _default(name)
    own = _strip_prefix(name)
    kind = next(iter(_SPELLED[own].values())).type if own in _SPELLED else type(default)
    if kind is bool:
        lowered = text.strip().lower()
        if lowered in _TRUE or lowered in _FALSE:
            return lowered in _TRUE
        raise ValueError(f"{name} is {text!r}; it takes true or false")
    if kind in (int, float):
        return kind(text)
    return text if text or default is not None else None


def environment_changes(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that `JAX_*` environment variables say: `JAX_ENABLE_X64=1` is the setting
    `jax_enable_x64`. Where `WEFT_*` says the same setting, that stays. Raises ValueError for a
    value that a setting cannot take."""
    return {
        name: _parse(name, environment[name.upper()])
        for name, own in SHOWN.items()
        if name.upper() in environment
        and not any("WEFT_" + row.upper() in environment for row in _SPELLED.get(own, (own,)))
    }


def flag_changes(arguments: list[str]) -> dict[str, Any]:
    """The settings that arguments of a command line say: `--jax_debug_nans`, `--nojax_debug_nans`
    or `--jax_debug_nans=true`, and for other values `--jax_name=value` or `--jax_name value`."""
    out: dict[str, Any] = {}
    waiting = None
    for argument in arguments:
        if waiting is not None:
            out[waiting] = _parse(waiting, argument)
            waiting = None
            continue
        if argument == "--":
            break
        name, given, text = argument.lstrip("-").partition("=")
        if not argument.startswith("-"):
            continue
        if name in SHOWN and given:
            out[name] = _parse(name, text)
        elif name in SHOWN and isinstance(_default(name), bool):
            out[name] = True
        elif name in SHOWN:
            waiting = name
        elif name.startswith("no") and name[2:] in SHOWN:
            out[name[2:]] = False
    return out
