"""`Array`: what it is, how it meets NumPy and Python, and the end of its life."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import DeletedArrayError, WeftTypeError

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def array(value, dtype=np.float32):
    return jnp.array(value, dtype)


def test_attributes():
    x = array([[1, 2, 3], [4, 5, 6]])
    assert (x.shape, x.ndim, x.size, x.dtype) == ((2, 3), 2, 6, np.float32)
    assert (x.itemsize, x.nbytes, len(x)) == (4, 24, 2)
    assert not x.weak_type and not x.committed
    assert x.device in weft.devices() and x.devices() == {x.device}
    assert x.is_ready() in (True, False) and x.block_until_ready() is x and x.is_ready()


def test_it_is_not_made_by_calling_the_class_and_tracers_count_as_arrays():
    assert isinstance(array(1.0), weft.Array)
    assert not isinstance(np.ones(3), weft.Array)
    assert not isinstance(1.0, weft.Array)
    seen = []
    weft.jit(lambda x: seen.append(isinstance(x, weft.Array)) or x)(1.0)
    assert seen == [True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)], ids=str)
def test_to_numpy_and_back_and_pickling(dtype, shape):
    host = np.arange(int(np.prod(shape))).reshape(shape).astype(weft.dtypes.parse(dtype))
    x = jnp.array(host, host.dtype)
    for again in (
        np.asarray(x),
        np.array(x),
        np.asarray(pickle.loads(pickle.dumps(x))),
        np.asarray(copy.copy(x)),
        np.asarray(copy.deepcopy(x)),
        weft.device_get({"x": x})["x"],
    ):
        assert (again.shape, again.dtype) == (shape, host.dtype)
        np.testing.assert_array_equal(again, host)


def test_weak_types_survive_pickling():
    x = weft.jit(lambda: 1.0)()
    assert x.weak_type and pickle.loads(pickle.dumps(x)).type is x.type


def test_the_numpy_view_cannot_be_written_and_copies_can():
    x = array([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 5
    fresh = np.array(x)
    fresh[0] = 5
    assert float(x[0]) == 1.0
    with pytest.raises(TypeError):
        x[0] = 5.0


def test_what_numpy_asks_for_when_converting():
    x = array([1.5, 2.5])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.asarray(x, dtype=np.int32).tolist() == [1, 2]
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)
    assert np.add(np.asarray(x), 1).tolist() == [2.5, 3.5]


def test_operators_beside_numpy_arrays_give_weft_arrays():
    x, host = array([1.0, 2.0]), np.array([10.0, 20.0], np.float32)
    for out in (x + host, host + x, host * x, x - host, host / x, host @ x):
        assert isinstance(out, weft.Array) and out.dtype == np.float32
    assert isinstance(host > x, weft.Array)


def test_python_numbers():
    assert (int(array(3.7)), float(array(3, np.int32)), complex(array(2.0))) == (3, 3.0, 2 + 0j)
    assert bool(array(1, np.bool_)) and not bool(array(0.0)) and bool(array([[2.0]]))
    assert [10, 20, 30][array(1, np.int32)] == 20
    assert list(range(array(3, np.uint8))) == [0, 1, 2]
    assert array([[1, 2]], np.int32).tolist() == [[1, 2]]
    assert array([[7.0]]).item() == 7.0 and array([1.0, 2.0]).item(1) == 2.0
    assert f"{array(3.14159):.2f}" == "3.14" and f"{array([1.0])}" == "[1.]"
    assert divmod(array(7, np.int32), 3)[1] == 1
    assert hash(float(array(1.0))) == hash(1.0)


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: bool(array([1.0, 2.0])), ValueError, "ambiguous"),
        (lambda: bool(jnp.zeros((0,))), ValueError, "ambiguous"),
        (lambda: float(array([1.0, 2.0])), TypeError, "without dimensions"),
        (lambda: float(array([1.0])), TypeError, "item"),
        (lambda: int(array(1j, np.complex64)), TypeError, "complex"),
        (lambda: range(array(1.0)), TypeError, "index"),
        (lambda: range(array([1], np.int32)), TypeError, "index"),
        (lambda: range(array(True, np.bool_)), TypeError, "index"),
        (lambda: len(array(1.0)), TypeError, "len"),
        (lambda: list(array(1.0)), TypeError, "iterat"),
        (lambda: {array(1.0): 1}, TypeError, "unhashable"),
        (lambda: array([1.0, 2.0]).item(), ValueError, "size 1"),
        (lambda: array(1.0).no_such_method(), AttributeError, "no_such_method"),
    ],
)
def test_conversions_that_are_refused(call, error, phrase):
    with pytest.raises(error, match=phrase):
        call()


def test_iteration_containment_and_equality():
    x = array([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3.0 in x and 9.0 not in x and (x == x).tolist() == [[True, True], [True, True]]
    assert [float(v) for v in reversed(array([1.0, 2.0]))] == [2.0, 1.0]


def test_printing():
    assert repr(array([1.0, 2.0])) == "Array([1., 2.], dtype=float32)"
    assert repr(jnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(weft.jit(lambda: 1.0)()) == "Array(1., dtype=float32, weak_type=True)"
    assert str(array([1.0, 2.0])) == "[1. 2.]"
    assert "bfloat16" in repr(jnp.zeros(2, "bfloat16"))


def test_dlpack():
    x = array(np.arange(6).reshape(2, 3))
    host = np.from_dlpack(x)
    np.testing.assert_array_equal(host, np.arange(6).reshape(2, 3))
    assert isinstance(x.__dlpack_device__(), tuple)


def test_deletion():
    x = array([1.0, 2.0])
    assert not x.is_deleted()
    x.delete()
    x.delete()
    assert x.is_deleted() and repr(x) == "Array(deleted, shape=(2,), dtype=float32)"
    assert x.shape == (2,) and x.dtype == np.float32
    for use in (
        lambda: x + 1,
        lambda: np.asarray(x),
        lambda: float(x[0]),
        lambda: x.block_until_ready(),
        lambda: weft.jit(lambda v: v)(x),
        lambda: weft.vmap(lambda v: v * 2)(x),
        lambda: pickle.dumps(x),
        lambda: x.device,
    ):
        with pytest.raises(DeletedArrayError, match="deleted"):
            use()


def test_changing_a_numpy_array_afterwards_changes_nothing():
    host = np.zeros(1000, np.float32)
    x, y = jnp.array(host), weft.device_put(host)
    z = jnp.asarray(host) + 0
    host[:] = 9
    assert float(x.sum()) == float(y.sum()) == float(z.sum()) == 0.0


def test_putting_and_getting_trees():
    tree = {"a": np.ones(2), "b": [3, None, True]}
    put = weft.device_put(tree)
    assert isinstance(put["a"], weft.Array) and put["a"].dtype == np.float32
    assert put["b"][1] is None and put["b"][2].dtype == np.bool_
    got = weft.device_get(put)
    assert isinstance(got["a"], np.ndarray)
    assert weft.block_until_ready(put) is put
    with pytest.raises(WeftTypeError):
        weft.device_put({"a": "text"})


def test_arrays_on_chosen_devices():
    first, second, *_ = weft.devices()
    x = weft.device_put(np.ones(3, np.float32), second)
    assert x.committed and x.device == second
    y = x * 2 + 1.0
    assert y.device == second and y.committed
    assert weft.jit(lambda v: v + 1)(x).device == second
    assert weft.grad(lambda v: (v * v).sum())(x).device == second
    assert (x + np.ones(3, np.float32)).device == second
    with pytest.raises(ValueError, match="different devices"):
        x + weft.device_put(np.ones(3, np.float32), first)
    with pytest.raises(ValueError, match="different devices"):
        weft.jit(lambda a, b: a + b)(x, weft.device_put(np.ones(3, np.float32), first))
    moved = weft.device_put(x, first)
    assert moved.device == first
    np.testing.assert_array_equal(np.asarray(moved), np.ones(3))


def test_integers_that_do_not_fit():
    with pytest.raises(OverflowError, match="enable_x64"):
        weft.device_put(2**40)
    with pytest.raises(OverflowError, match="enable_x64"):
        weft.device_put(np.array([2**40]))
    with weft.enable_x64():
        assert int(weft.device_put(2**40)) == 2**40


def test_an_array_in_a_loop_of_updates_keeps_its_type():
    x = array(np.zeros(4))
    for k in range(4):
        x = x.at[k].set(k)
    assert x.tolist() == [0, 1, 2, 3] and x.dtype == np.float32


def test_random_keys_are_pickled_and_copied_by_their_bits():
    keys = weft.random.split(weft.random.key(3), 2)
    for again in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys)):
        assert again.type is keys.type
        np.testing.assert_array_equal(weft.random.key_data(again), weft.random.key_data(keys))
        assert float(weft.random.normal(again[0])) == float(weft.random.normal(keys[0]))


@pytest.mark.parametrize("function", [copy.copy, copy.deepcopy])
def test_copies_outlive_what_they_are_copies_of(function):
    x = array([1.0, 2.0])
    y = function(x)
    x.delete()
    assert y.tolist() == weft.jit(function)(y).tolist() == [1.0, 2.0]


def test_bytes_are_those_of_numpy():
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert [jnp.asarray(x).tobytes(order) for order in "CF"] == [x.tobytes(o) for o in "CF"]
