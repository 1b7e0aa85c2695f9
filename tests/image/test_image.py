"""`weft.image` against sums over samples in float64, and against interpolation by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

import weft
from weft import dtypes, image
from weft.errors import AxisError, DTypeError, ShapeError, WeftValueError
from weft.testing import assert_close, check_grads, check_vmap, exact_array

pytestmark = pytest.mark.fast

METHODS = ("linear", "cubic", "lanczos3", "lanczos5")
SHAPES = ((5, 3, 2), (9, 12, 2), (1, 1, 2), (3, 7, 2), (0, 7, 2))
X = np.random.default_rng(0).normal(size=(5, 7, 2))


def kernel(method, x):
    x = np.abs(x)
    if method == "linear":
        return np.maximum(1 - x, 0)
    if method == "cubic":
        near, far = 1 - 2.5 * x**2 + 1.5 * x**3, 2 - 4 * x + 2.5 * x**2 - 0.5 * x**3
        return np.where(x < 1, near, np.where(x < 2, far, 0))
    radius = int(method[-1])
    return np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def by_sums(x, axis, length, method, antialias, scale=None, shift=0.0):
    n = x.shape[axis]
    scale = max(length, 1) / n if scale is None else scale
    width = max(1 / scale, 1) if antialias else 1
    rows = []
    for i in range(length):
        place = (i + 0.5 - shift) / scale - 0.5
        weights = kernel(method, (place - np.arange(n)) / width)
        outside = not -0.5 <= place <= n - 0.5
        rows.append(np.zeros(n) if outside else weights / weights.sum())
    matrix = np.reshape(rows, (length, n))
    return np.moveaxis(np.tensordot(x, matrix, (axis, 1)), -1, axis)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("antialias", [True, False], ids=["antialias", "plain"])
@pytest.mark.parametrize("method", METHODS)
def test_resized(method, antialias, shape):
    want = X
    for axis in (0, 1):
        if shape[axis] != X.shape[axis]:
            want = by_sums(want, axis, shape[axis], method, antialias)
    got = image.resize(exact_array(X), shape, method, antialias)
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_scaled_and_moved(method):
    scale, shift = np.array([1.6, 0.7]), np.array([-2.0, 1.2])
    want = by_sums(X, 1, 9, method, True, scale[0], shift[0])
    want = by_sums(want, 0, 4, method, True, scale[1], shift[1])
    got = image.scale_and_translate(
        exact_array(X), (4, 9, 2), (1, 0), exact_array(scale), exact_array(shift), method
    )
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


def test_linear_interpolation_is_that_of_scipy():
    got = image.resize(exact_array(X[..., 0]), (10, 14), "bilinear")
    places = [(np.arange(2 * n) + 0.5) / 2 - 0.5 for n in (5, 7)]
    want = scipy.ndimage.map_coordinates(
        X[..., 0], np.meshgrid(*places, indexing="ij"), order=1, mode="nearest"
    )
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


@pytest.mark.parametrize("shape", [(2, 5), (7, 3), (10, 15), (1, 1)], ids=str)
def test_the_nearest_sample(shape):
    x = np.arange(35, dtype=np.int16).reshape(5, 7)
    rows = [int((i + 0.5) * 5 / shape[0]) for i in range(shape[0])]
    columns = [int((i + 0.5) * 7 / shape[1]) for i in range(shape[1])]
    got = image.resize(x, shape, image.ResizeMethod.NEAREST)
    assert got.dtype == np.int16
    np.testing.assert_array_equal(np.asarray(got), x[np.ix_(rows, columns)])


@pytest.mark.parametrize(
    "dtype, bound",
    [(dtypes.float32, 1e-5), (dtypes.bfloat16, 2e-2), (dtypes.float16, 2e-3)],
    ids=["float32", "bfloat16", "float16"],
)
def test_other_dtypes(dtype, bound):
    x = X.astype(dtype)
    got = image.resize(exact_array(x), (3, 11, 2), "cubic")
    assert got.dtype == dtype
    want = by_sums(by_sums(x.astype(np.float64), 0, 3, "cubic", True), 1, 11, "cubic", True)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, atol=bound)
    assert image.resize(np.arange(4, dtype=np.int8), (8,), "linear").dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_derivatives(method):
    small = exact_array(X[:3, :4, 0])
    check_grads(lambda x: image.resize(x, (2, 6), method), (small,), order=2)
    scale, shift = exact_array(np.array([1.3, 0.9])), exact_array(np.array([0.4, -0.3]))

    def moved(x, scale, shift):
        return image.scale_and_translate(x, (3, 5), (0, 1), scale, shift, method)

    # The triangle has kinks and its second derivative is zero or nowhere.
    check_grads(moved, (small, scale, shift), order=1)


def test_mapped_and_over_devices():
    check_vmap(lambda x: image.resize(x, (3, 9), "linear"), (X[..., 0],))
    x = np.random.default_rng(1).normal(size=(4, 6, 5)).astype(np.float32)
    mesh = weft.make_mesh((4,), ("i",))

    def function(x):
        return image.resize(x, (x.shape[0], 4, 7), "cubic")

    sharded = weft.shard_map(function, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    assert_close(sharded(x), function(x))
    assert_close(
        weft.grad(lambda x: (sharded(x) ** 2).sum())(x),
        weft.grad(lambda x: (function(x) ** 2).sum())(x),
    )


def moved_by(x, shape, dims, scale, shift, method="linear"):
    return image.scale_and_translate(x, shape, dims, scale, shift, method)


BAD = [
    (lambda x: image.resize(x, (3, 3), "linear"), ShapeError, "length for each dimension"),
    (lambda x: image.resize(x, (3, 3, -1), "linear"), ShapeError, "0 or more"),
    (lambda x: image.resize(x, 5, "linear"), ShapeError, "length for each dimension"),
    (lambda x: image.resize(x + 1j, (3, 3, 2), "linear"), DTypeError, "x.real and x.imag"),
    (lambda x: image.resize(x[:0], (3, 7, 2), "linear"), ShapeError, "without samples"),
    (lambda x: moved_by(x, x.shape, (0, 0), np.ones(2), np.ones(2)), AxisError, "scale_and"),
    (lambda x: moved_by(x, x.shape, 3, np.ones(1), np.ones(1)), AxisError, "scale_and"),
    (lambda x: moved_by(x, x.shape, 0, np.ones(2), np.ones(1)), ShapeError, "scale"),
    (lambda x: moved_by(x, x.shape, 0, np.ones(1), 1.0), ShapeError, "translation"),
    (lambda x: moved_by(x, x.shape, 0, np.ones(1), np.array([1j])), DTypeError, "translation.real"),
    (lambda x: moved_by(x, (5, 8, 2), 0, np.ones(1), np.ones(1)), ShapeError, "keeps its length"),
    (
        lambda x: moved_by(x, x.shape, 0, np.ones(1), np.ones(1), "nearest"),
        WeftValueError,
        "nearest",
    ),
]


@pytest.mark.parametrize("call, error, says", BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input(call, error, says):
    with pytest.raises(error, match=says):
        call(X)
