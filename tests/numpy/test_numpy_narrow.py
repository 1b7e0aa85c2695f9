"""Arithmetic of numbers of 8 bits and fewer: exact integers that wrap, and rounding once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

pytestmark = pytest.mark.fast

INTEGERS = ("int4", "uint4", "int2", "uint2")


def all_values(name: str) -> np.ndarray:
    """Every number of a dtype."""
    limits = ml_dtypes.iinfo(name)
    return np.arange(int(limits.min), int(limits.max) + 1)


def wrapped(values: np.ndarray, name: str) -> np.ndarray:
    """Integers of any size in a dtype, of which the lowest bits are kept."""
    limits = ml_dtypes.iinfo(name)
    low, size = int(limits.min), int(limits.max) - int(limits.min) + 1
    return (np.asarray(values, np.int64) - low) % size + low


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("operation", ["add", "subtract", "multiply", "maximum", "bitwise_and"])
def test_integers_wrap(name: str, operation: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(all_values(name), all_values(name)))
    found = getattr(jnp, operation)(jnp.array(a, name), jnp.array(b, name))
    assert found.dtype == name
    wanted = wrapped(getattr(np, operation)(a, b), name)
    np.testing.assert_array_equal(np.asarray(found).astype(np.int64), wanted)


@pytest.mark.parametrize("name", INTEGERS)
def test_division_comparison_and_numbers(name: str) -> None:
    values = all_values(name)
    x = jnp.array(values, name)
    np.testing.assert_array_equal(np.asarray(x // 1).astype(int), values)
    np.testing.assert_array_equal(x > 0, values > 0)
    np.testing.assert_array_equal(np.asarray(x + 1).astype(int), wrapped(values + 1, name))
    assert (x / 1).dtype == np.float32 and (-x).dtype == name


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_reductions_and_products(name: str) -> None:
    values = np.array([3, 1, 2, 1])
    x = jnp.array(values, name)
    assert [int(f(x)) for f in (jnp.max, jnp.min, jnp.prod, jnp.argmax)] == [3, 1, 6, 0]
    np.testing.assert_array_equal(np.asarray(jnp.cumsum(x)).astype(int), np.cumsum(values))
    np.testing.assert_array_equal(np.asarray(jnp.sort(x)).astype(int), np.sort(values))
    assert int(jnp.dot(x[:2], x[2:])) == 7 and jnp.dot(x, x).dtype == name
    assert jnp.dot(x, x, preferred_element_type="int32") == 15


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "float4_e2m1fn"])
def test_fractions_are_rounded_once(name: str) -> None:
    values = np.array([0.5, 1.0, 1.5, 3.0], name)
    x = jnp.array(values)
    for function, wanted in (
        (jnp.add, values.astype("float32") + values.astype("float32")),
        (jnp.multiply, values.astype("float32") * values.astype("float32")),
    ):
        np.testing.assert_array_equal(np.asarray(function(x, x)), wanted.astype(name))
    assert jnp.sum(x).dtype == name and float(jnp.max(x)) == 3.0


def test_bits_that_a_wider_dtype_has_not() -> None:
    for call in (
        lambda: lax.shift_right_logical(jnp.array([-1], "int4"), jnp.array([1], "int4")),
        lambda: lax.population_count(jnp.array([-1], "int4")),
        lambda: jnp.nextafter(jnp.array([1.0], "float8_e5m2"), jnp.array([2.0], "float8_e5m2")),
    ):
        with pytest.raises(weft.errors.DTypeError):
            call()


def test_under_transformations() -> None:
    x = jnp.array([[1, 2], [3, -4]], "int4")
    assert weft.vmap(lambda row: row.sum())(x).shape == (2,)
    assert weft.jit(lambda y: (y * 2).astype("int32"))(x).tolist() == [[2, 4], [6, -8]]


def test_dtypes_are_classes() -> None:
    assert isinstance(jnp.float32, type) and jnp.bool_.__name__ == "bool"
    assert np.dtype(jnp.int4) == np.zeros(1, jnp.int4).dtype == ml_dtypes.int4
    assert {np.float32: 1}[jnp.float32] == 1 and jnp.float32 in (np.float32,)
    assert jnp.concatenate([jnp.ones(1), jnp.ones(1)], dtype=np.float16).dtype == np.float16
    assert jnp.frombuffer(b"ab", np.uint8).tolist() == [97, 98]


def test_einsum_multiplies_as_it_is_told() -> None:
    seen = []

    def doubled(a, b, numbers, precision=None, preferred_element_type=None):
        seen.append(numbers)
        return 2 * lax.dot_general(a, b, numbers, precision, preferred_element_type)

    a = jnp.arange(6.0).reshape(2, 3)
    found = jnp.einsum("ij,kj->ik", a, a, _dot_general=doubled)
    np.testing.assert_allclose(found, 2 * np.asarray(a) @ np.asarray(a).T)
    assert len(seen) == 1
