"""Arrays of any sequence, windows in an index, swapped bytes and joined matrices."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax


class Halves(collections.abc.Sequence[float]):
    """A sequence of the user's."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if not 0 <= index < 3:
            raise IndexError
        return index / 2


@pytest.mark.parametrize(
    "value", [range(5), range(0), range(7, 1, -2), collections.deque([1.5, 2.5]), Halves()]
)
def test_sequences_are_arrays(value):
    made = jnp.array(value)
    np.testing.assert_array_equal(made, list(value))
    assert made.dtype == (jnp.array(list(value)).dtype)


def test_a_list_of_ranges():
    np.testing.assert_array_equal(jnp.asarray([range(3), range(3, 6)]), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("start", [0, 2, 7, 9, -2])
def test_a_window_is_moved_into_the_array(start):
    x = jnp.arange(10)
    moved = min(start + 10 if start < 0 else start, 7)
    for given in (start, jnp.int32(start)):
        np.testing.assert_array_equal(x[weft.ds(given, 3)], np.arange(moved, moved + 3))
    traced = weft.jit(lambda x, i: x[weft.ds(i, 3)])
    np.testing.assert_array_equal(traced(x, start), np.arange(moved, moved + 3))


def test_a_window_beside_other_indices():
    x = np.arange(24).reshape(2, 3, 4)
    one = jnp.int32(1)
    np.testing.assert_array_equal(jnp.asarray(x)[1, weft.ds(one, 2), None], x[1, 1:3, None])
    np.testing.assert_array_equal(jnp.asarray(x)[..., weft.ds(one, 2, 2)], x[..., 1:4:2])
    taken = jnp.asarray(x)[jnp.array([0, 1, 1]), weft.ds(one, 2)]
    np.testing.assert_array_equal(taken, x[[0, 1, 1], 1:3])


def test_a_window_that_is_known_can_be_updated():
    x = jnp.zeros(5).at[weft.ds(1, 2)].set(3.0)
    np.testing.assert_array_equal(x, [0, 3, 3, 0, 0])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "uint32", "float16", "float32", "complex64"]
)
def test_byteswap(dtype):
    x = np.arange(6).reshape(2, 3).astype(dtype)
    swapped = jnp.asarray(x).byteswap()
    assert swapped.dtype == dtype
    assert np.asarray(swapped).tobytes() == x.byteswap().tobytes()
    assert np.asarray(weft.jit(lambda x: x.byteswap())(x)).tobytes() == x.byteswap().tobytes()


@pytest.mark.parametrize("form", ["r", "c"])
@pytest.mark.parametrize("joiner", ["r_", "c_"])
@pytest.mark.parametrize("parts", [([1, 2], [3.5, 4]), (np.ones((2, 2)), np.zeros((2, 2))), (1, 2)])
def test_joined_to_a_matrix(form, joiner, parts):
    made = getattr(jnp, joiner)[(form, *parts)]
    plain = np.asarray(getattr(np, joiner)[tuple(parts)])
    if plain.ndim == 1:
        plain = plain[None] if form == "r" else plain[:, None]
    np.testing.assert_array_equal(made, plain)


def test_a_length_is_a_shape():
    assert lax.full(3, 1.0).shape == lax.empty(3, np.float32).shape == (3,)
    assert lax.broadcasted_iota(np.int32, 3, 0).tolist() == [0, 1, 2]


# Recorded from JAX 0.10.2: getattr(jax.random, name)(jax.random.key(0), (4,), dtype)
SHORT_FLOATS = {
    ("uniform", "float8_e4m3fn"): [0.625, 0.5, 0.125, 0.125],
    ("normal", "float8_e4m3fn"): [0.375, 0.078125, -0.9375, -0.9375],
    ("uniform", "float8_e5m2"): [0.5, 0.5, 0, 0],
    ("normal", "float8_e5m2"): [0.15625, 0.15625, -1.5, -1.5],
    ("exponential", "float8_e3m4"): [0.96875, 0.8125, 0.140625, 0.203125],
    ("gumbel", "float8_e4m3"): [0.75, 0.375, -0.6875, -0.6875],
    ("laplace", "float8_e3m4"): [-0.328125, -0.171875, 1.25, 0.90625],
}


@pytest.mark.parametrize(("name", "dtype"), SHORT_FLOATS)
def test_random_numbers_of_eight_bits(name, dtype):
    drawn = getattr(weft.random, name)(weft.random.key(0), (4,), dtype=dtype)
    assert drawn.dtype == dtype
    np.testing.assert_array_equal(drawn.astype(np.float32), SHORT_FLOATS[name, dtype])


def test_negative_numbers_that_are_not_wrapped():
    x = jnp.arange(5.0)
    np.testing.assert_array_equal(x.at[-1].set(9, wrap_negative_indices=False), x)
    np.testing.assert_array_equal(x.at[-1].set(9), [0, 1, 2, 3, 9])
    assert x.at[-1].get(mode="fill", fill_value=7, wrap_negative_indices=False) == 7
    y = x.reshape(1, 5).at[0, -1].add(1, wrap_negative_indices=False)
    np.testing.assert_array_equal(y[0], x)


def test_an_axis_that_is_traced():
    with pytest.raises(weft.errors.ConcretizationError):
        weft.jit(lambda x, axis: jnp.min(x, axis=axis))(jnp.arange(4), 0)
