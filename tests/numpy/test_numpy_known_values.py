"""NumPy's functions whose answer depends on values: compared with NumPy's own."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import ConcretizationError, DTypeError, WeftTypeError, WeftValueError

pytestmark = pytest.mark.fast

V = np.array([0.5, -1.25, 2.0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"separator": ", ", "precision": 1},
        {"formatter": {"float_kind": lambda x: f"<{x}>"}},
        {"max_line_width": 8, "prefix": "  "},
        {"threshold": 2, "edgeitems": 1},
        {"sign": "+", "floatmode": "fixed", "suffix": "!"},
    ],
)
def test_array2string(options):
    with weft.enable_x64():
        assert jnp.array2string(jnp.array(V), **options) == np.array2string(V, **options)


def test_positions_and_elements():
    m = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert list(jnp.ndenumerate(jnp.array(m))) == list(np.ndenumerate(m))
    assert list(jnp.ndindex(2, 3)) == list(np.ndindex(2, 3))
    assert list(jnp.ndenumerate(jnp.zeros((2, 0)))) == []


@pytest.mark.parametrize("value", [0, 255, 256, -1, -129, 2**40, 2**63, 3.1, 1e30, 1e300, 1j, True])
def test_min_scalar_type_of_a_number(value):
    with weft.enable_x64():
        assert jnp.min_scalar_type(value) == np.min_scalar_type(value)


def test_min_scalar_type_of_arrays():
    assert jnp.min_scalar_type(jnp.arange(3)) == np.int32
    assert jnp.min_scalar_type(jnp.array(3)) == np.uint8
    assert weft.jit(lambda x: x.astype(jnp.min_scalar_type(x)))(jnp.ones(2)).dtype == np.float32


@pytest.mark.parametrize(
    "dtypes",
    [
        ("float32",), ("float16", "float32"), ("complex64", "float64"), ("float64", "int32"),
        ("complex64", "float16"), (),
    ],
)  # fmt: skip
def test_common_type(dtypes):
    with weft.enable_x64():
        arrays = [np.ones(2, d) for d in dtypes]
        assert jnp.common_type(*map(jnp.asarray, arrays)) is np.common_type(*arrays)


def test_common_type_takes_the_default_width_for_integers():
    assert jnp.common_type(jnp.arange(3)) is np.float32
    assert jnp.common_type(jnp.ones(1, "bfloat16"), jnp.ones(1, "float16")) is np.float32


@pytest.mark.parametrize("tol", [100, 1000, 1e-3, 1e-20])
def test_real_if_close(tol):
    with weft.enable_x64():
        for z in (np.array([1 + 1e-14j, 2]), np.array([1 + 1e-5j]), np.array([1.0, 2.0])):
            found, wanted = jnp.real_if_close(jnp.array(z), tol), np.real_if_close(z, tol)
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_ascontiguousarray():
    assert jnp.ascontiguousarray(jnp.zeros(())).shape == np.ascontiguousarray(0.0).shape
    assert jnp.ascontiguousarray([1, 2], "float32").dtype == np.float32
    np.testing.assert_array_equal(weft.jit(jnp.ascontiguousarray)(V), V.astype(np.float32))


def test_half_is_float16():
    assert jnp.zeros(1, jnp.half).dtype == np.half
    assert jnp.half is jnp.float16


def test_compressed_files_are_read_back():
    file = io.BytesIO()
    jnp.savez_compressed(file, jnp.arange(3), weights=jnp.zeros(1000))
    assert len(file.getvalue()) < 2000
    file.seek(0)
    found = jnp.load(file)
    np.testing.assert_array_equal(found["arr_0"], [0, 1, 2])
    np.testing.assert_array_equal(found["weights"], np.zeros(1000))


@pytest.mark.parametrize(
    "function",
    [
        jnp.array2string,
        jnp.min_scalar_type,
        lambda x: jnp.real_if_close(x + 1j),
        lambda x: list(jnp.ndenumerate(x)),
    ],
)
def test_traced_values_are_not_known(function):
    with pytest.raises(ConcretizationError, match="known while tracing"):
        weft.jit(lambda x: function(x) and x)(1.0)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: jnp.array2string("x"), WeftTypeError, "array2string"),
        (lambda: jnp.array2string(V, floatmode="zz"), WeftValueError, "array2string.*zz"),
        (lambda: jnp.array2string(V, colour=1), WeftValueError, "array2string.*colour"),
        (lambda: jnp.ndenumerate("x"), WeftTypeError, "ndenumerate"),
        (lambda: jnp.common_type(weft.random.key(0)), DTypeError, "common_type"),
        (lambda: jnp.ascontiguousarray("x"), WeftTypeError, "ascontiguousarray"),
        (lambda: jnp.ascontiguousarray(V, "f99"), DTypeError, "ascontiguousarray"),
        (lambda: jnp.savez_compressed(io.BytesIO(), object()), WeftTypeError, "savez_compressed"),
        (
            lambda: jnp.savez_compressed(io.BytesIO(), V, arr_0=V),
            WeftValueError,
            "savez_compressed.*arr_0",
        ),
    ],
)
def test_bad_calls(call, error, says):
    with pytest.raises(error, match=f"(?s){says}"):
        call()
