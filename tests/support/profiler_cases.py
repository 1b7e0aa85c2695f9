"""Profiles: what is written, annotations in it, and the errors of starting and stopping.

Run by `test_profiler.py` in a process of their own.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import profiler
from weft.errors import ProfilerError, WeftError

pytestmark = pytest.mark.fast


def events(directory):
    """The events of the one profile below a directory, by name."""
    (text,) = directory.glob("plugins/profile/*/*.trace.json.gz")
    with gzip.open(text) as file:
        found = json.load(file)["traceEvents"]
    return {event["name"]: event for event in found if "name" in event}


def test_a_profile_holds_the_annotations(tmp_path):
    @profiler.annotate_function
    def decorated(x):
        return x + 1

    with profiler.trace(tmp_path / "new"):
        with profiler.TraceAnnotation("reading a batch", size=32):
            decorated(1)
        with profiler.StepTraceAnnotation("training", step_num=5):
            weft.jit(lambda x: wnp.sin(x) * 2.0)(np.ones(3, np.float32)).block_until_ready()
    found = events(tmp_path / "new")
    assert found["reading a batch"]["args"]["size"] == "32"
    assert found["training"]["args"]["step_num"] == "5"
    name = decorated.__qualname__
    assert name.endswith("decorated") and name in found
    outer = found["reading a batch"]
    assert outer["ts"] <= found[name]["ts"] <= outer["ts"] + outer["dur"]
    assert list((tmp_path / "new").glob("plugins/profile/*/*.xplane.pb"))


def test_start_and_stop(tmp_path):
    profiler.start_trace(str(tmp_path))
    with profiler.TraceAnnotation("between"):
        pass
    profiler.stop_trace()
    with profiler.TraceAnnotation("after"):
        pass
    found = events(tmp_path)
    assert "between" in found and "after" not in found


def test_the_options_decide_what_is_taken_down(tmp_path):
    options = profiler.ProfileOptions(host_tracer_level=0, python_tracer_level=0)
    with profiler.trace(tmp_path, profiler_options=options), profiler.TraceAnnotation("not seen"):
        pass
    assert "not seen" not in events(tmp_path)


def test_the_profile_is_written_where_the_block_raises(tmp_path):
    with pytest.raises(KeyError), profiler.trace(tmp_path):
        with profiler.TraceAnnotation("before it"):
            pass
        raise KeyError("x")
    assert "before it" in events(tmp_path)


def test_a_second_profile_at_once_is_refused(tmp_path):
    with profiler.trace(tmp_path / "a"):
        with pytest.raises(ProfilerError) as caught:
            profiler.start_trace(tmp_path / "b")
        assert caught.value.fix.kind == "stop_trace" and isinstance(caught.value, RuntimeError)
        with profiler.TraceAnnotation("still on"):
            pass
    assert "still on" in events(tmp_path / "a")
    assert not (tmp_path / "b").exists()


def test_stopping_what_was_not_started_is_refused(tmp_path):
    with pytest.raises(ProfilerError) as caught:
        profiler.stop_trace()
    assert caught.value.fix.kind == "start_trace"
    profiler.start_trace(tmp_path)
    profiler.stop_trace()


def test_a_directory_that_cannot_be_made_leaves_no_profile_running(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError):
        profiler.start_trace(tmp_path / "file" / "inside")
    with pytest.raises(ProfilerError):
        profiler.stop_trace()


def test_an_annotation_may_be_entered_again(tmp_path):
    annotation = profiler.TraceAnnotation("twice")
    with profiler.trace(tmp_path), annotation, annotation:
        pass
    assert "twice" in events(tmp_path)


@pytest.mark.parametrize(("name", "error"), [(3, TypeError), ("", ValueError)])
def test_what_is_no_name_is_refused(name, error):
    with pytest.raises(error) as caught:
        profiler.TraceAnnotation(name)
    assert isinstance(caught.value, WeftError)


def test_a_named_function_keeps_its_result_and_name():
    named = profiler.annotate_function(max, name="largest", kind="builtin")
    assert named(3, 4) == 4 and named.__name__ == "max"


def test_a_server_is_started_once():
    with pytest.raises(ProfilerError) as caught:
        profiler.stop_server()
    assert caught.value.fix.kind == "start_server"
    profiler.start_server(0)
    try:
        with pytest.raises(ProfilerError) as caught:
            profiler.start_server(0)
        assert caught.value.fix.kind == "stop_server"
    finally:
        profiler.stop_server()
