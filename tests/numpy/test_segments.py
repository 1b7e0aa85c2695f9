"""`weft.ops.segment_*` against loops over rows."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import dtypes
from weft.errors import ConcretizationError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.testing import check_grads, check_vmap, exact_array

pytestmark = pytest.mark.fast

STARTS = {
    "segment_sum": (np.add, lambda dtype: 0),
    "segment_prod": (np.multiply, lambda dtype: 1),
    "segment_max": (np.maximum, lambda d: -np.inf if d in dtypes.FLOATING else np.iinfo(d).min),
    "segment_min": (np.minimum, lambda d: np.inf if d in dtypes.FLOATING else np.iinfo(d).max),
}
NAMES = sorted(STARTS)


def by_loop(name, data, ids, num_segments, clip=False):
    combine, start = STARTS[name]
    rows = data.reshape(ids.size, *data.shape[ids.ndim :])
    out = np.full((num_segments, *rows.shape[1:]), start(data.dtype), data.dtype)
    for row, i in zip(rows, ids.reshape(-1).astype(np.int64), strict=True):
        i = min(max(i, 0), num_segments - 1) if clip else i
        if 0 <= i < num_segments:
            out[i] = combine(out[i], row)
    return out


def drawn(dtype, shape, ids_shape, segments, low=-1):
    generator = np.random.default_rng(3)
    data = generator.integers(1, 4, shape).astype(dtype)
    return data, generator.integers(low, segments + 1, ids_shape)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", sorted(dtypes.REAL, key=str), ids=str)
def test_values(name, dtype):
    for shape, ids_shape, bucket, mode in (
        ((7, 2), (7,), None, None),
        ((3, 4, 2), (3, 4), 5, "clip"),
        ((7,), (7,), 3, "drop"),
        ((0, 2), (0,), 1, None),
    ):
        data, ids = drawn(dtype, shape, ids_shape, 4)
        got = getattr(weft.ops, name)(
            exact_array(data), exact_array(ids), 4, bucket_size=bucket, mode=mode
        )
        want = by_loop(name, data, ids, 4, clip=mode == "clip")
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got), want)


def test_complex_numbers_and_sizes_of_ids():
    data, ids = drawn(np.complex64, (6, 2), (6,), 300, low=0)
    data = data * (1 + 2j)
    for name in ("segment_sum", "segment_prod"):
        for of in (np.uint8, np.int16, np.uint64):
            small = ids.astype(of)
            got = getattr(weft.ops, name)(exact_array(data), exact_array(small), 300)
            np.testing.assert_allclose(np.asarray(got), by_loop(name, data, small, 300), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_segments_is_found(name):
    data, ids = drawn(np.float32, (5,), (5,), 3, low=0)
    got = getattr(weft.ops, name)(data, ids)
    np.testing.assert_array_equal(np.asarray(got), by_loop(name, data, ids, ids.max() + 1))
    assert getattr(weft.ops, name)(np.zeros(2), np.array([-1, -5])).shape == (0,)
    with pytest.raises(ConcretizationError, match="num_segments"):
        weft.jit(getattr(weft.ops, name))(data, ids)


@pytest.mark.parametrize("name", NAMES)
def test_promises_change_nothing(name):
    data = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    ids = np.array([0, 2, 3])
    function = getattr(weft.ops, name)
    got = function(data, ids, 5, indices_are_sorted=True, unique_indices=True)
    np.testing.assert_array_equal(np.asarray(got), by_loop(name, data, ids, 5))


@pytest.mark.parametrize("bucket", [None, 2])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name, bucket):
    generator = np.random.default_rng(0)
    data = generator.permutation(np.linspace(0.5, 2, 12)).reshape(6, 2)
    ids = np.array([2, 0, 1, 9, 2, 0])

    def function(x):
        return getattr(weft.ops, name)(x, ids, 3, bucket_size=bucket)

    check_grads(function, (exact_array(data),), order=2)
    check_vmap(function, (data,))
    pair = (data + 1j * data[::-1],)
    if name in ("segment_sum", "segment_prod"):
        check_grads(function, (exact_array(pair[0]),), order=2)


def test_the_derivatives_of_a_product_where_factors_are_zero():
    """Finite differences see a polynomial, so they are right where factors are zero.

    The segments, whose rows are mixed, have 0, 1, 2 and 3 zeros, and each another factor.
    """
    ids = np.array([2, 3, 1, 3, 0, 2, 1, 3, 2, 0, 3])
    data = np.linspace(0.5, 2, ids.size)
    for segment, zeros in enumerate((0, 1, 2, 3)):
        data[np.flatnonzero(ids == segment)[:zeros]] = 0
    assert [int((data[ids == i] == 0).sum()) for i in range(4)] == [0, 1, 2, 3]
    assert all((data[ids == i] != 0).any() for i in range(4))

    def function(x):
        return weft.ops.segment_prod(x, ids, 4)

    check_grads(function, (exact_array(data),), order=3)


def test_inside_shard_map():
    mesh = weft.make_mesh((4,), ("i",))
    data, ids = drawn(np.float32, (8, 3), (8,), 4)
    for name in NAMES:
        sharded = weft.shard_map(
            lambda x, i, name=name: getattr(weft.ops, name)(x, i, 4),
            mesh=mesh,
            in_specs=weft.P("i"),
            out_specs=weft.P("i"),
        )
        want = [by_loop(name, data[k : k + 2], ids[k : k + 2], 4) for k in range(0, 8, 2)]
        np.testing.assert_array_equal(np.asarray(sharded(data, ids)), np.concatenate(want))
        weft.grad(lambda x, sharded=sharded: sharded(x, ids).sum())(data + 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_bad_input(name):
    function = getattr(weft.ops, name)
    x, ids = np.ones((4, 2), np.float32), np.arange(4)
    for call, error, says in (
        (lambda: function(x, ids.astype(np.float32)), DTypeError, "segment_ids"),
        (lambda: function(x, ids[:3]), ShapeError, "segment_ids"),
        (lambda: function(x, np.int32(3)), ShapeError, "segment_ids"),
        (lambda: function(x.astype("float8_e4m3fn"), ids), DTypeError, "float8"),
        (lambda: function(x, ids, -1), WeftValueError, "num_segments=-1"),
        (lambda: function(x, ids, 2.5), WeftTypeError, "num_segments"),
        (lambda: function(x, ids, bucket_size=0), WeftValueError, "bucket_size=0"),
        (lambda: function(x, ids, mode="wrap"), WeftValueError, "wrap"),
        (lambda: function([1.0], ids), WeftTypeError, "list"),
        (lambda: function(x, ids, out_sharding=1), NotImplementedError, "out_sharding"),
    ):
        with pytest.raises(error, match=says) as caught:
            call()
        assert name in str(caught.value) or "mode" in str(caught.value)


@pytest.mark.parametrize("mode", [None, "clip"])
@pytest.mark.parametrize("bucket_size", [None, 2])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_where_numbers_are_out_of_range(name, bucket_size, mode):
    """With "clip" they belong to the first and the last segment, else to none."""
    data = np.array([1.5, 0.0, 2.0, 3.0, -1.0, 0.5, 4.0])
    ids = np.array([0, -1, 2, 0, 5, 2, -7])

    def function(x):
        found = getattr(weft.ops, name)(x, ids, 3, bucket_size=bucket_size, mode=mode)
        return weft.numpy.where(abs(found) < 1e9, found, 0.0)

    check_grads(function, (exact_array(data),), order=1)
