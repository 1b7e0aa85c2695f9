"""The warning of lost time names the function made anew, and there are no false alarms."""

from __future__ import annotations

import functools
import itertools
import os
import stat
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import retracing_warnings
from weft.errors import RetracingWarning
from weft.runtime.backends import disk_cache
from weft.tracing import explain_misses

pytestmark = pytest.mark.fast


@pytest.fixture
def unasked(monkeypatch):
    """What is said of lost time where nobody asked."""
    with retracing_warnings(monkeypatch) as warned:
        yield warned


def x(n=3):
    return np.arange(n, dtype=np.float32)


class Pair(NamedTuple):
    rate: Any
    function: Any


def test_a_function_made_anew_is_named(unasked):
    def of(k):
        return weft.jit(lambda x: x * k)

    for k in range(3):
        of(k)(x())
    (message,) = unasked.messages
    assert message.startswith(
        "weft: tracing <lambda> again, number 3 for equal types: <lambda> (made"
    )
    assert message.endswith("is a new object; make it once, outside of the loop")
    assert len(message) <= 160 and len(message.splitlines()) == 1


def test_tracing_alone_is_a_loss(unasked):
    """The program is found, and what was lost is the time of tracing."""
    for _ in range(4):
        weft.jit(lambda x: x * 8.125)(x())
    (message,) = unasked.messages
    assert "number 3" in message and "is a new object" in message


# ---- false alarms --------------------------------------------------------------------------------


def trained(loss, k=1.0):
    return weft.jit(lambda p: p - k * weft.grad(loss)(p))(0.5)


def test_several_functions_through_one_helper_are_no_loss(unasked):
    for loss in (lambda p: p**2, lambda p: p**3, jnp.sin, lambda p: p**4 + 1, lambda p: p**5):
        trained(loss)
    assert not unasked.messages


def test_several_functions_in_a_named_tuple_are_no_loss(unasked):
    def run(pair, x):
        return pair.function(x) * pair.rate

    for function in (lambda x: x + 1, lambda x: x + 2, lambda x: x + 3, lambda x: x + 4):
        weft.jit(functools.partial(run, Pair(2.0, function)))(x())
    assert not unasked.messages


def test_each_of_them_counts_for_itself(unasked):
    for k in (1.0, 2.0, 3.0, 4.0):
        for loss in (lambda p: p**2 * 1.5, lambda p: p**3 * 1.5):
            trained(loss, k)
    (message,) = unasked.messages  # one line
    assert "is a new object" in message and "number 3" in message


def sizes():
    f = weft.jit(lambda x: x * 2)
    for n in range(1, 9):
        f(x(n))


def layers(static):
    def initial(key, n, m):
        return weft.random.normal(key, (n, m))

    init = weft.jit(initial, static_argnums=(1, 2))
    key = weft.random.key(0)
    for n in range(1, 9):
        init(key, n, n + 1) if static else weft.jit(lambda key: initial(key, n, n + 1))(key)  # noqa: B023


def kinds(static):
    f = weft.jit(lambda x, dtype: x.astype(dtype), static_argnums=1)
    for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "bool"):
        f(1.0, dtype) if static else f(x().astype(dtype), "float32")


def lowered():
    for k in range(8):
        weft.jit(lambda x: x * k).lower(x())  # noqa: B023
        weft.eval_shape(weft.jit(lambda x: x * k), x())  # noqa: B023


def devices():
    f = weft.jit(lambda x: x * 2)
    for device in weft.devices():
        f(weft.device_put(x(), device))


def precisions():
    f = weft.jit(lambda x, y: x @ y)
    for precision in ("default", "high", "highest"):
        with weft.config.override(default_matmul_precision=precision):
            f(x(), x())


def few():
    for rate in (0.1, 0.2):
        weft.jit(lambda x: x * rate)(x())  # noqa: B023


OTHER_TYPES = {
    "sizes": sizes,
    "layers, static": functools.partial(layers, True),
    "layers": functools.partial(layers, False),
    "dtypes, static": functools.partial(kinds, True),
    "dtypes": functools.partial(kinds, False),
    "lowered": lowered,
    "devices": devices,
    "precisions": precisions,
    "few": few,
}


@pytest.mark.parametrize("program", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_programs_for_other_types_are_no_loss(unasked, program):
    program()
    assert not unasked.messages


def test_a_line_is_warned_of_once_when_a_second_is_lost(monkeypatch):
    def run(count):
        for k in range(count):
            weft.jit(lambda x: x * k)(x())  # noqa: B023

    with retracing_warnings(monkeypatch, 1.0) as warned:
        run(4)
        assert not warned.messages
        ((line, seconds),) = explain_misses._lost.items()
        assert 0 < seconds < 1 and line[0] == __file__
        explain_misses._lost[line] = 1.0
        run(8)
    (one,) = warned.found
    assert one.category is RetracingWarning and (one.filename, one.lineno) == line


def test_the_warning_can_be_filtered_and_made_an_error(monkeypatch):
    def run():
        for _ in range(4):
            k = next(numbers)
            weft.jit(lambda x: x * k)(x())  # noqa: B023

    numbers = itertools.count()

    with retracing_warnings(monkeypatch) as warned:
        warnings.simplefilter("ignore", RetracingWarning)
        run()
        assert not warned.messages
    with retracing_warnings(monkeypatch):
        warnings.simplefilter("error", RetracingWarning)
        with pytest.raises(RetracingWarning, match="^weft: tracing <lambda> again"):
            run()
    with retracing_warnings(monkeypatch) as warned:
        with weft.config.override(explain_cache_misses=True):
            run()
        assert not warned.messages


# ---- the directory -------------------------------------------------------------------------------


def test_a_directory_made_again_is_still_taken(tmp_path):
    usual = os.umask(0o002)  # that of systems where each user has a group
    try:
        root = tmp_path / "cache"
        cache = disk_cache.ProgramCache(disk_cache._make_directory(str(root)), 1 << 20)
        os.rmdir(cache.directory)
        os.rmdir(root)
        cache.store("0" * 64, "maker", b"payload")
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert disk_cache._make_directory(str(root)) == cache.directory
    finally:
        os.umask(usual)
    assert cache.load("0" * 64, "maker") == b"payload"


def test_a_file_in_place_of_the_directory_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(disk_cache._Unusable, match=f"{file} is not a directory"):
        disk_cache._make_directory(str(file))
