"""The plugin for NVIDIA GPUs, as far as a machine without one comes."""

from __future__ import annotations

import importlib.metadata
import pathlib
import types

import pytest

from source_files import ROOT
from weft.errors import PlatformError
from weft.runtime.backends import cuda_handlers, ffi_registry, pjrt
from weft.runtime.jaxlib.native import version_text

pytestmark = pytest.mark.fast

PLUGIN = pathlib.Path("site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so")


def test_a_plugin_of_another_release_is_refused(monkeypatch):
    asked = []

    def version(name):
        asked.append(name)
        return "0.9.1"

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(PlatformError, match="different releases") as caught:
        pjrt._cuda_client(PLUGIN, None)
    assert asked == ["jax-cuda13-pjrt"]
    wanted = f"jaxlib=={version_text} 'jax-cuda13-plugin[with-cuda]=={version_text}'"
    assert wanted in caught.value.fix.text


def test_one_of_the_same_release_or_built_by_hand_is_not(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version_text)
    assert pjrt._check_release(PLUGIN) is None
    monkeypatch.undo()
    assert pjrt._check_release(PLUGIN) is None  # not installed here


def test_the_plugins_handlers_are_registered(monkeypatch):
    """Those that weft calls, by the addresses in capsules, from a package that stands for one."""
    registered, kinds, imported = [], [], []
    handlers = {
        "cusolver_getrf_ffi": ffi_registry.capsule(1),
        "something_else_ffi": ffi_registry.capsule(2),
    }
    python = {name: ffi_registry.capsule(n) for n, name in enumerate(("instantiate", "execute"), 3)}
    extension = {"xla_ffi_python_gpu_callback": python}
    type_parts = {"type_id": ffi_registry.capsule(5), "type_info": ffi_registry.capsule(6)}
    modules = {
        "jax_cuda13_plugin._solver": types.SimpleNamespace(registrations=lambda: handlers),
        "jax_cuda13_plugin.cuda_plugin_extension": types.SimpleNamespace(
            ffi_types=lambda: {"Cache": type_parts}, ffi_handlers=lambda: extension
        ),
    }

    def import_module(name):
        imported.append(name)
        if name not in modules:
            raise ImportError(name)
        return modules[name]

    monkeypatch.setattr(cuda_handlers, "_registered", set())
    monkeypatch.setattr(cuda_handlers.importlib, "import_module", import_module)
    monkeypatch.setattr(ffi_registry, "register", lambda *args: registered.append(args))
    monkeypatch.setattr(ffi_registry, "register_type", lambda *args: kinds.append(args))
    monkeypatch.setattr(ffi_registry, "split_along_batch", lambda name: None)
    cuda_handlers.register("jax_cuda13_plugin")
    cuda_handlers.register("jax_cuda13_plugin")  # once
    assert len(imported) == len(set(imported)) == 4
    assert registered == [
        ("cusolver_getrf_ffi", "cuda", {"execute": 1}, 1),
        ("xla_ffi_python_gpu_callback", "cuda", {"instantiate": 3, "execute": 4}, 1),
    ]
    assert kinds == [("Cache", "cuda", 5, 6)]


def test_the_extra_names_the_plugin():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for number in (12, 13):
        assert f'cuda{number} = ["jax-cuda{number}-plugin[with-cuda]>=0.10.2,<0.13"]' in text
    assert [name.rpartition("_")[2] for name in pjrt._CUDA_MODULES] == ["cuda13", "cuda12"]
