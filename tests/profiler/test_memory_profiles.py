"""Profiles of memory, files and links for Perfetto, and reading profiles."""

from __future__ import annotations

import contextlib
import gzip
import io
import threading
import time
import urllib.request

import numpy as np
import pytest

import weft
from weft import profiler
from weft.errors import WeftValueError
from weft.profiler.session import serve_once, write_for_perfetto


def test_what_takes_memory_is_a_profile_of_pprof(tmp_path):
    kept = weft.numpy.ones((100, 100)) + 1
    found = gzip.decompress(profiler.device_memory_profile())
    assert b"buffer" in found and b"space" in found
    file = tmp_path / "memory.prof"
    profiler.save_device_memory_profile(file, backend="cpu")
    assert gzip.decompress(file.read_bytes())
    with pytest.raises(WeftValueError, match="tpu"):
        profiler.device_memory_profile("tpu")
    assert np.asarray(kept).sum() == 20_000


def test_the_newest_profile_is_written_for_perfetto(tmp_path):
    assert write_for_perfetto(str(tmp_path)) is None
    for name in ("first", "second"):
        folder = tmp_path / "plugins" / "profile" / name
        folder.mkdir(parents=True)
        (folder / "host.trace.json.gz").write_bytes(gzip.compress(name.encode()))
        time.sleep(0.02)
    file = write_for_perfetto(str(tmp_path))
    assert file == tmp_path / "plugins/profile/second/perfetto_trace.json.gz"
    assert gzip.decompress(file.read_bytes()) == b"second"


def test_a_link_is_served_until_it_is_followed(tmp_path):
    file = tmp_path / "perfetto_trace.json.gz"
    file.write_bytes(b"profile")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        serving = threading.Thread(target=serve_once, args=(file, 0), daemon=True)
        serving.start()
        while "url=" not in said.getvalue():
            time.sleep(0.01)
    address = said.getvalue().rpartition("url=")[2].strip()
    assert said.getvalue().startswith("Open URL in browser: https://ui.perfetto.dev/")
    with urllib.request.urlopen(address) as answer:
        assert answer.read() == b"profile"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
    serving.join(10)
    assert not serving.is_alive()


def test_profiles_can_be_read():
    found = profiler.ProfileData.from_serialized_xspace(b"")
    assert list(found.planes) == []
    assert {profiler.ProfilePlane.__name__, profiler.ProfileEvent.__name__} == {
        "ProfilePlane",
        "ProfileEvent",
    }
    options = profiler.ProfileOptions(session_id="mine", duration_ms=5)
    assert (options.session_id, options.host_tracer_level) == ("mine", 2)
