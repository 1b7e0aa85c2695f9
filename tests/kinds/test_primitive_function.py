"""Functions of one primitive: a call that comes again is known, and none is taken for another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft.arrays.array import Array
from weft.kinds.arguments import Axes, Operand
from weft.kinds.array_function import ArrayFunction
from weft.kinds.primitive_function import primitive_function
from weft.ops.structural.joining import rev

SQUARE = np.arange(9).reshape(3, 3)
# Axes and orders that are equal to others, or nearly so. An array of them decides what runs.
ORDERS = [None, (0, 1), (1, 0), [1, 0], (-1, 0), (np.int64(1), 0), np.array([1, 0]), "jnp 0 1"]
AXES = [None, 0, 1, -1, True, False, np.int32(1), (0,), (1, 0), "jnp 0"]
SHAPES = [9, (9,), (-1,), (3, 3), (1, 9), (3, -1), [9, 1], (True, 9), np.array([3, 3]), "jnp 3 3"]


def as_argument(value):
    """What an argument is for NumPy, and for weft: "jnp 0 1" is an array of weft's."""
    if not str(value).startswith("jnp"):
        return value, value
    numbers = np.array([int(x) for x in value.split()[1:]])
    numbers = numbers if len(numbers) > 1 else numbers[0]
    return numbers, jnp.asarray(numbers)


@st.composite
def movements(draw):
    """A function's name, its further arguments, and whether they are passed by name."""
    name = draw(st.sampled_from(["transpose", "flip", "reshape", "swapaxes", "moveaxis"]))
    if name == "transpose":
        rest = {"axes": draw(st.sampled_from(ORDERS))}
    elif name == "flip":
        rest = {"axis": draw(st.sampled_from(AXES))}
    elif name == "reshape":
        rest = {"shape": draw(st.sampled_from(SHAPES))}
        if draw(st.booleans()):
            rest["order"] = draw(st.sampled_from("CF"))
    else:
        names = ("axis1", "axis2") if name == "swapaxes" else ("source", "destination")
        rest = dict.fromkeys(names, 0) | {names[1]: draw(st.sampled_from([0, 1, -1, True]))}
    return name, rest, draw(st.sampled_from(["int32", "float32", "bool"])), draw(st.booleans())


@settings(deadline=None, max_examples=150)
@given(st.lists(movements(), min_size=4, max_size=8))
def test_calls_that_nearly_match_are_told_apart(sequence):
    for name, rest, dtype, named in sequence + sequence:
        x = SQUARE.astype(dtype)
        pairs = {key: as_argument(value) for key, value in rest.items()}
        given_ = {key: pair[1] for key, pair in pairs.items()}
        try:
            want = getattr(np, name)(x, *[pair[0] for pair in pairs.values()])
        except (TypeError, ValueError):
            continue  # NumPy's transpose refuses more than weft's does.
        function, array = getattr(jnp, name), jnp.asarray(x)
        try:
            got = function(array, **given_) if named else function(array, *given_.values())
        except weft.errors.WeftError:
            assert True in rest.values()
            continue
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def test_a_call_that_comes_again_runs_no_python(only_known_calls):
    x = jnp.arange(6.0).reshape(2, 3)
    want = np.flip(np.asarray(x), 1)
    for _ in range(2):
        jnp.flip(x, 1)
    only_known_calls(ArrayFunction)
    np.testing.assert_array_equal(jnp.flip(x, 1), want)


def test_numbers_numpy_arrays_and_weak_types_stay_what_they_are():
    for _ in range(3):
        assert type(jnp.flip(np.arange(3))) is Array
        assert jnp.reshape(2.5, (1,)).type.weak_type and jnp.ravel(True).dtype == bool
        x = jnp.arange(3)
        assert jnp.ravel(x) is x and jnp.reshape(x, 3) is x and jnp.squeeze(x) is x
        assert jnp.reshape(x, 3, copy=True) is not x


@primitive_function
def twice(x: Operand, axis: Axes = None):
    """Reverses the elements, and reverses them again."""
    return rev(rev(x, axis), axis)


def test_a_body_of_several_primitives_is_called_each_time():
    for _ in range(3):
        np.testing.assert_array_equal(twice(jnp.arange(4)), range(4))
    assert not twice._learnt


def test_results_are_looked_at_where_that_is_asked_for():
    x = jnp.asarray([1.0, np.nan])
    for _ in range(2):
        jnp.flip(x)
    with weft.config.debug_nans(True), pytest.raises(weft.errors.NonFiniteError):
        jnp.flip(x)


def test_transformations_see_the_primitive():
    for _ in range(3):
        assert [e.primitive.name for e in weft.make_jaxpr(jnp.flip)(jnp.ones(2)).eqns] == ["rev"]
        np.testing.assert_array_equal(weft.grad(lambda x: (jnp.flip(x) * jnp.arange(3.0)).sum())(
            jnp.ones(3)), [2, 1, 0])  # fmt: skip
        np.testing.assert_array_equal(
            weft.vmap(jnp.flip)(jnp.arange(4).reshape(2, 2)), [[1, 0], [3, 2]]
        )
