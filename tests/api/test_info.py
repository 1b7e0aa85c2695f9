"""`python -m weft.info`: what a report of a problem needs, also where something is broken."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import weft
from processes import python_output
from source_files import ROOT
from weft import info

pytestmark = pytest.mark.fast


def report(*arguments, paths=(ROOT,), **variables):
    """What a process of its own prints."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_"))}
    variables["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    return python_output("-m", "weft.info", *arguments, env=kept | variables, timeout=60)


def test_the_releases_and_the_devices(capsys):
    assert info.main([]) == 0
    text = capsys.readouterr().out
    assert f"weft: {weft.__version__}" in " ".join(text.split())
    assert f"numpy: {np.__version__}" in " ".join(text.split())
    assert "8 × cpu (platform cpu)" in text


def test_settings_that_differ_and_no_name_of_a_user(tmp_path):
    home = tmp_path / "alice"
    home.mkdir()
    found = json.loads(
        report("--json", HOME=str(home), WEFT_ENABLE_X64="1", WEFT_NUM_CPU_DEVICES="3",
               WEFT_CACHE_DIR=str(home / "programs"), XLA_FLAGS=f"--xla_dump_to={home}/dump")
    )  # fmt: skip
    assert found["devices"] == {"platform": "cpu", "kinds": {"cpu": 3}}
    assert found["settings"]["enable_x64"] == {
        "value": True, "default": False, "variable": "WEFT_ENABLE_X64", "from_environment": True,
    }  # fmt: skip
    assert found["settings"].keys() == {"enable_x64", "cache_dir", "num_cpu_devices"}
    assert found["cache"]["directory"] == os.path.join("~", "programs")
    assert found["environment"]["XLA_FLAGS"] == "--xla_dump_to=~/dump"
    assert "alice" not in json.dumps(found) and not any(home.glob("programs"))


def test_a_broken_jaxlib(tmp_path):
    package = tmp_path / "jaxlib"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('no such library')", encoding="utf-8")
    text = report(paths=(tmp_path, ROOT), WEFT_CACHE_DIR="")
    assert "devices: none start: ImportError: no such library" in " ".join(text.split())
    assert "cache on disk: none" in " ".join(text.split())


def test_no_device_starts():
    text = report(WEFT_PLATFORMS="cuda", CUDA_VISIBLE_DEVICES="", WEFT_CACHE_DIR="")
    assert "none start: PlatformError: the platform 'cuda' " in text
    assert "setting platforms: 'cuda' (default None; from WEFT_PLATFORMS)" in " ".join(text.split())


def test_what_a_cache_holds(tmp_path):
    with weft.config.override(cache_dir=str(tmp_path)):
        weft.jit(lambda x: x * 5 - 1)(2.0)
        found = info.information()["cache"]
    assert found["entries"] == 1 and 0 < found["bytes"] < found["max_bytes"]
    with weft.config.override(cache_dir=""):
        assert info.information()["cache"] == {"directory": None}


def test_several_processes(monkeypatch):
    monkeypatch.setattr(info.client, "process_count", lambda: 2)
    found = info.information()
    assert found["devices"]["processes"] == 2
    assert "8 × cpu (platform cpu, of 2 processes)" in "\n".join(info._lines(found))


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setattr(info, "_NEEDED", ("numpy", "no_such_package_as_this"))
    found = info.information()
    assert found["packages"]["no_such_package_as_this"] is None
    assert "no_such_package_as_this: not installed" in "\n".join(info._lines(found))
