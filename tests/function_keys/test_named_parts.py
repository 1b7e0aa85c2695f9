"""What of a function has no key, and why; values that count by content beside large arrays."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import time
import types

import numpy as np
import pytest

from weft.function_keys import function_key, named_parts
from weft.tracing.trace_cache import TraceCache  # noqa: F401  (registers weft's classes)

pytestmark = pytest.mark.fast


def around(value):
    """A function that refers to a value, made anew."""
    return lambda x: (x, value)


def test_what_a_library_loads_when_it_is_asked_for():
    """NumPy imports `numpy.random` when it is first used: the key must not change by that."""
    source = """
import numpy as np
from weft.function_keys import function_key
assert "random" not in vars(np), "this NumPy loads it at once"
assert function_key(lambda: np.random.normal()) is None
"""
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=100, check=False
    )
    assert not done.returncode or "loads it at once" in done.stderr, done.stderr


def test_objects_with_an_equality_of_their_own_count_by_content():
    @dataclasses.dataclass
    class Options:
        rate: float
        sizes: list

    def key(rate, sizes):
        return function_key(around(Options(rate, sizes)))

    assert key(1.0, [2]) == key(1.0, [2])
    assert key(1.0, [2]) != key(1.0, [3]) and key(1.0, [2]) != key(1, [2])
    options = Options(1.0, [2])
    before = function_key(around(options))
    options.sizes.append(3)
    assert function_key(around(options)) != before


def test_arrays_of_numpy_of_which_a_digest_is_taken():
    first, second = np.zeros(100_000), np.zeros(100_000)
    before = function_key(around(first))
    assert before == function_key(around(first)) != function_key(around(second))
    first[-1] = 1.0
    assert function_key(around(first)) != before
    first[-1] = 0.0
    assert function_key(around(first)) == before
    assert function_key(around(first[::2])) is not None
    assert function_key(around(np.zeros(600_000))) is None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: np.zeros(2_000_000), "a NumPy array of 15 MiB, too large"),
        (lambda: iter([1]), "an object of class list_iterator, which can change unseen"),
        (lambda: time.time, "time.time, which is not known to depend on its arguments alone"),
        (lambda: eval, "eval, which is not known to"),
        (lambda: types.ModuleType("settings"), "the module settings as a whole"),
        (lambda: list(range(5000)), "more than 2000 values"),
    ],
)
def test_why_there_is_no_key(make, said):
    parts = named_parts(around(make()))
    (reason,) = {part.reason for part in parts.values() if part.content is None}
    assert said in reason


def test_objects_are_not_asked_for_attributes():
    class Computing:
        rate = 1.0

        @property
        def shape(self):
            raise AssertionError("asked")

    parts = named_parts(around(Computing()))
    assert parts["value"].text == "an object of class Computing, which defines no equality"
    assert parts["rate"][:1] + parts["rate"][2:3] == ("Computing.rate", "1.0")


def test_what_stands_beside_a_value_without_a_key_is_still_named():
    rate, numbers = 2.0, iter([1])
    parts = named_parts(lambda x: (numbers, eval("x"), rate))
    assert parts["rate"].text == "2.0" and parts["rate"].content is not None
    assert "can change unseen" in parts["numbers"].reason
    assert parts["eval"].role == "the function" and "is not known to" in parts["eval"].reason


def test_functions_of_equal_code_are_told_apart():
    parts = named_parts(around(around(1)))
    assert {"code of around.<locals>.<lambda>", "code of around.<locals>.<lambda>'"} <= set(parts)
    assert parts["value"].content == 1
