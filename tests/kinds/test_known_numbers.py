"""Calls with numbers that were not there before: known by their classes, and what they give."""

from __future__ import annotations

import random

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from processes import python_output
from weft.native.optional import calls
from weft.numpy import choosing
from weft.scipy import special, stats

NUMBERS = [
    True, False, 0, 1, -1, 5, 127, 128, -129, 255, 256, 70_000, 2**31 - 1, 2**31, -(2**31) - 1,
    2**53 + 1, 2**63, 10**25, 0.0, -0.0, 0.1, 1 / 3, -2.5, 65_520.0, 1e39, 1e300, float("nan"),
    float("inf"), -float("inf"), 1j, 0.1 - 2j, np.float32(0.1), np.float64(0.1), np.int8(3),
]  # fmt: skip
DTYPES = "float32 int32 int8 uint8 uint32 bool float16 float64 int64 complex64".split()
KEY = weft.random.key(3)
KNOWN = wnp.array([False, False, True])

# The functions and how they are called with an array and a number.
CALLS = {
    "where": (choosing._where, lambda f, x, n: f(x == 1, x, n)),
    "where, two numbers": (choosing._where, lambda f, x, n: f(x == 1, n, 1)),
    "isclose": (wnp.isclose, lambda f, x, n: f(n, x)),
    "append": (wnp.append, lambda f, x, n: f(x, n)),
    "einsum": (wnp.einsum, lambda f, x, n: f(",i,", n, x, n)),
    "interp": (wnp.interp, lambda f, x, n: f(n, x, x)),
    "searchsorted": (wnp.searchsorted, lambda f, x, n: f(x, v=n)),
    "outer": (wnp.outer, lambda f, x, n: f(x, n)),
    "xlogy": (special.xlogy, lambda f, x, n: f(n, x)),
    "gammainc": (special.gammainc, lambda f, x, n: f(x, n)),
    "norm.pdf": (stats.norm.pdf, lambda f, x, n: f(x, n, scale=2)),
    "randint": (weft.random.randint, lambda f, x, n: f(KEY, (3,), -3, n, x.dtype)),
}


def outcome(function, call, x, number):
    """The bits, dtype, weak type and shape of a result, or the class and text of an error."""
    try:
        out = call(function, x, number)
    except Exception as error:  # noqa: BLE001 - any error is an outcome
        return type(error), str(error)
    return np.asarray(out).tobytes(), out.dtype, out.weak_type, out.shape


@pytest.mark.parametrize("wide", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("name", CALLS)
def test_a_number_gives_the_same_whatever_came_before(name, wide):
    """A call that was learnt with other numbers, in a drawn order, and one of which nothing is
    known."""
    function, call = CALLS[name]
    draw = random.Random(name)
    with weft.enable_x64(wide):
        for dtype in DTYPES:
            x = wnp.array([0, 1, 1, 3], dtype)
            function.forget_calls()
            drawn = draw.choices(NUMBERS, k=12)
            # The second time numbers that are part of the program are known, too.
            known = [outcome(function, call, x, n) for n in drawn + drawn]
            for number, found in zip(drawn + drawn, known, strict=True):
                function.forget_calls()
                assert found == outcome(function, call, x, number), (dtype, number)


@pytest.mark.skipif(calls is None, reason="Python's own calls know numbers by their values")
@pytest.mark.parametrize("first, others", [(0.5, (-3.25, 1e9)), (2, (7, -1, 2**31 - 1))])
def test_a_new_number_is_known_by_its_class(first, others):
    """In a process of its own: what other tests have called is known, too, within a bound."""
    code = f"""
import numpy as np, weft.numpy as wnp
from weft.kinds.array_function import ArrayFunction
from weft.numpy import choosing
known, x = wnp.array([True, False, True]), wnp.arange(3.0)
wnp.where(known, x, {first})
def refuse(*_):
    raise AssertionError("the call is not known")
ArrayFunction._unknown_call = refuse
for number in {others}:
    found = choosing._where(known, x, number)
    wanted = np.where(np.asarray(known), np.float32([0, 1, 2]), number)
    np.testing.assert_array_equal(found, wanted)
try:
    choosing._where(known, x, 2**31)
except AssertionError as error:
    print(error)
"""
    assert python_output("-c", code).strip() == "the call is not known"
