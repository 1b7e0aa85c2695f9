"""The plugin for NVIDIA GPUs, as far as a machine without one comes."""

from __future__ import annotations

import importlib.metadata
import pathlib

import pytest

from source_files import ROOT
from weft.errors import PlatformError
from weft.runtime.backends import pjrt
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


def test_the_extra_names_the_plugin():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for number in (12, 13):
        assert f'cuda{number} = ["jax-cuda{number}-plugin[with-cuda]>=0.10.2,<0.13"]' in text
    assert [name.rpartition("_")[2] for name in pjrt._CUDA_MODULES] == ["cuda13", "cuda12"]
