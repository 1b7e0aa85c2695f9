"""The handlers that come with the CUDA plugin: factorizations, solvers and calls of Python.

They are extension modules in a package of the wheel `jax-cuda13-plugin` (or `jax-cuda12-plugin`),
beside the client itself, which is in `jax-cuda13-pjrt`. Their import needs no package jax. XLA's
registry for GPUs is in the plugin, so they are handed over when its client starts.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from weft.runtime.backends import ffi_registry
from weft.runtime.backends.cusolver import TARGETS

# cuSOLVER's kernels, those of jaxlib's own, cuSPARSE's, and what calls Python. Only those handlers
# are registered that weft calls, which are known to be of the typed interface.
_MODULES = ("_solver", "_linalg", "_sparse", "cuda_plugin_extension")
_CALLS_PYTHON = frozenset({"xla_ffi_python_gpu_callback"})
_PLATFORM = "cuda"
_registered: set[str] = set()


def register(package: str) -> None:
    """Registers the handlers of a package, such as `jax_cuda13_plugin`, once. A part of it that is
    not there is left out: a program that needs it says so when it is compiled."""
    if package in _registered:
        return
    _registered.add(package)
    for name in _MODULES:
        try:
            module = importlib.import_module(f"{package}.{name}")
        except ImportError:
            continue
        for type_name, parts in _call_if_present(module, "ffi_types").items():
            type_id, info = (parts.get(key) for key in ("type_id", "type_info"))
            address = None if info is None else ffi_registry.address(info)
            ffi_registry.register_type(type_name, _PLATFORM, ffi_registry.address(type_id), address)
        handlers = {
            **_call_if_present(module, "registrations"),
            **_call_if_present(module, "ffi_handlers"),
        }
        for target in (TARGETS | _CALLS_PYTHON) & handlers.keys():
            handler = handlers[target]
            stages = handler if isinstance(handler, Mapping) else {"execute": handler}
            found = {stage: ffi_registry.address(capsule) for stage, capsule in stages.items()}
            ffi_registry.register(target, _PLATFORM, found, 1)
            if target in TARGETS:
                ffi_registry.split_along_batch(target)


def _call_if_present(module: Any, name: str) -> Mapping[str, Any]:
    """Calls a function of a module; empty if the module does not have it."""
    return getattr(module, name, dict)()
