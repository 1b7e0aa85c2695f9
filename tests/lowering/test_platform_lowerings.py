"""The lowerings for other platforms than the CPU, compiled and run on the CPU: equal results.

Some primitives are lowered to what is quick on the CPU there and to something else elsewhere. XLA's
CPU compiler takes either, so the other one can be tested without an accelerator.
"""

from __future__ import annotations

import types

import numpy as np
import pytest

from weft.core import rules
from weft.ops.products.dot import dot_general, dot_general_p
from weft.ops.reductions import argreduce, cumulative, sorting, window
from weft.testing import exact_array

NUMBERS = np.random.default_rng(0).integers(-4, 5, (3, 9, 4)).astype(np.float64)
ODD = np.where(NUMBERS > 2, np.nan, NUMBERS)


@pytest.fixture
def elsewhere(monkeypatch):
    """Makes a primitive lower as for a platform of another name."""

    def choose(primitive):
        lower = rules.lower[primitive]

        def lower_elsewhere(context, *values, **params):
            other = types.SimpleNamespace(
                platform="accelerator", in_types=context.in_types, out_types=context.out_types
            )
            return lower(other, *values, **params)

        monkeypatch.setitem(rules.lower, primitive, lower_elsewhere)
        monkeypatch.setattr(primitive, "eager_cache", {})

    return choose


def both(elsewhere, primitive, function):
    """The results of a function by both lowerings."""
    here = function()
    elsewhere(primitive)
    there = function()
    here, there = (x if isinstance(x, (list, tuple)) else [x] for x in (here, there))
    return [(np.asarray(a), np.asarray(b)) for a, b in zip(here, there, strict=True)]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
def test_cumulative(elsewhere, name, reverse, length):
    x = exact_array(NUMBERS[:, :length])
    primitive = getattr(cumulative, f"{name}_p")
    function = getattr(cumulative, name)
    for here, there in both(elsewhere, primitive, lambda: function(x, 1, reverse)):
        np.testing.assert_allclose(there, here, rtol=1e-14)


@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence(elsewhere, reverse):
    a, b = exact_array(NUMBERS), exact_array(NUMBERS[::-1])
    primitive = cumulative.linear_recurrence_p
    pairs = both(elsewhere, primitive, lambda: cumulative.linear_recurrence(a, b, 1, reverse))
    for here, there in pairs:
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("values", [NUMBERS, ODD, NUMBERS.astype(np.int8), NUMBERS > 0])
def test_positions_of_extrema(elsewhere, name, values):
    x = exact_array(values)
    function = getattr(argreduce, name)
    primitive = getattr(argreduce, f"{name}_p")
    for here, there in both(elsewhere, primitive, lambda: function(x, 1, np.int32)):
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16, np.uint32, np.bool_])
def test_sort(elsewhere, dtype):
    source = ODD if np.dtype(dtype).kind == "f" else np.abs(NUMBERS)
    x, y = exact_array(source.astype(dtype)), exact_array(np.arange(NUMBERS.size).reshape(3, 9, 4))
    for here, there in both(elsewhere, sorting.sort_p, lambda: sorting.sort((x, y), 1)):
        np.testing.assert_array_equal(there, here)
    for here, there in both(elsewhere, sorting.sort_p, lambda: sorting.sort(x, 1)):
        np.testing.assert_array_equal(there, here)


def test_select_and_scatter_add(elsewhere):
    x = exact_array(np.random.default_rng(1).permutation(56).reshape(7, 8).astype(np.float64))
    source = exact_array(NUMBERS[0, :4, :4])
    windows = {"window_dimensions": (3, 2), "window_strides": (2, 2), "padding": ((1, 1), (0, 0))}
    primitive = window.select_and_scatter_add_p
    pairs = both(
        elsewhere, primitive, lambda: window.select_and_scatter_add(source, x, "GE", **windows)
    )
    for here, there in pairs:
        np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize(
    "dtype, preferred", [(np.float32, None), (np.int8, np.int32), (np.complex64, None)]
)
def test_dot_general(elsewhere, dtype, preferred):
    x, y = exact_array(NUMBERS[0].astype(dtype)), exact_array(NUMBERS[1].astype(dtype))
    numbers = (((0,), (0,)), ((), ()))
    pairs = both(
        elsewhere,
        dot_general_p,
        lambda: dot_general(x, y, numbers, preferred_element_type=preferred),
    )
    for here, there in pairs:
        np.testing.assert_array_equal(there, here)
