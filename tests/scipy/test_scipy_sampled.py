"""Sampled functions — map_coordinates, grids, nearest vectors, integrals — held to SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.integrate
import scipy.interpolate
import scipy.ndimage

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft.scipy import integrate, ndimage
from weft.scipy.cluster.vq import vq
from weft.scipy.interpolate import RegularGridInterpolator
from weft.testing import check_grads

RANDOM = np.random.default_rng(23)


@pytest.fixture(autouse=True)
def wide():
    with weft.enable_x64():
        yield


# ---- map_coordinates -----------------------------------------------------------------------------

IMAGE = RANDOM.normal(size=(4, 5))
PLACES = RANDOM.uniform(-9, 12, size=(2, 40))
NAMES = {"constant": "grid-constant", "wrap": "grid-wrap"}


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_map_coordinates(mode, order):
    named = NAMES.get(mode, mode)
    places = np.concatenate([PLACES, [[0, 3, 1], [4, 0, 2]]], axis=1)
    for x in (IMAGE, IMAGE[:1], IMAGE + 1j * IMAGE[::-1], (9 * IMAGE).astype(int)):
        got = ndimage.map_coordinates(x, places, order, mode, 0.5)
        want = scipy.ndimage.map_coordinates(x, places, order=order, mode=named, cval=0.5)
        if x.dtype.kind != "i":
            close_doubles(got, want)
        else:
            # SciPy cuts integers off; weft rounds them.
            exact = x.astype(float)
            want = scipy.ndimage.map_coordinates(
                exact, places, order=order, mode=named, cval=0 if order == 0 else 0.5
            )
            close_doubles(got, np.round(want))
            assert got.dtype == x.dtype


def test_coordinates_that_broadcast():
    rows, columns = np.array([[0.5], [2.0]]), np.array([1.0, 3.5, 2.25])
    got = ndimage.map_coordinates(IMAGE, [rows, columns], 1)
    grid = np.broadcast_arrays(rows, columns)
    close_doubles(got, scipy.ndimage.map_coordinates(IMAGE, grid, order=1))


def test_derivatives_of_map_coordinates():
    places = RANDOM.uniform(0.1, 2.9, size=(2, 5))
    check_grads(lambda x, c: ndimage.map_coordinates(x, c, 1, "reflect"), (IMAGE, places), order=2)
    check_grads(lambda x: ndimage.map_coordinates(x, places, 0), (IMAGE,), order=1)
    mapped = weft.vmap(lambda c: ndimage.map_coordinates(IMAGE, c, 1))(np.stack([places] * 2))
    close_doubles(mapped[1], scipy.ndimage.map_coordinates(IMAGE, places, order=1))


# ---- grids ---------------------------------------------------------------------------------------

GRID = (np.array([0.0, 1, 3, 4]), np.array([0.0, 2, 2.5]))
VALUES = RANDOM.normal(size=(4, 3, 2))
POINTS = np.concatenate([RANDOM.uniform(-0.5, 4.5, size=(20, 2)), [[0, 0], [4, 2.5], [1, 2]]])


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 0.5, None])
def test_grids(method, fill):
    f = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill)
    want = scipy.interpolate.RegularGridInterpolator(
        GRID, VALUES, method, bounds_error=False, fill_value=fill
    )
    close_doubles(f(POINTS), want(POINTS))
    close_doubles(weft.jit(f)(POINTS), want(POINTS))
    close_doubles(f((POINTS[:, 0], 1.0)), want((POINTS[:, 0], 1.0)))
    other = "linear" if method == "nearest" else "nearest"
    close_doubles(f(POINTS, other), want(POINTS, other))


def test_grids_of_one_variable():
    f = RegularGridInterpolator((GRID[0],), VALUES[:, 0, 0])
    x = np.linspace(0, 4, 9)
    close_doubles(f(x), np.interp(x, GRID[0], VALUES[:, 0, 0]))
    close_doubles(f(np.array([np.nan])), [np.nan])
    plane = RegularGridInterpolator(GRID, VALUES)
    close_doubles(plane(POINTS[-1]), np.asarray(plane(POINTS[-1:])))


def test_dtypes_of_what_is_read_from_a_grid():
    """Weights are as precise as the points are, also for integers and single precision."""
    points = POINTS[-8:]
    for values in ((9 * VALUES).astype(np.int32), VALUES.astype(np.float32)):
        want = scipy.interpolate.RegularGridInterpolator(
            GRID, values.astype(float), bounds_error=False, fill_value=None
        )
        f = RegularGridInterpolator(GRID, values, fill_value=None)
        close_doubles(f(points), want(points))
        assert f(points, "nearest").dtype == np.float32
        narrow = RegularGridInterpolator([g.astype("f4") for g in GRID], values, fill_value=None)
        assert narrow(points.astype("f4")).dtype == np.float32


def test_a_list_is_no_tuple_of_coordinates():
    """SciPy takes a list as rows of points, of which a list of coordinates cannot be told."""
    f = RegularGridInterpolator(GRID, VALUES)
    pair = (np.array([0.5, 1.0]), np.array([1.0, 2.0]))
    close_doubles(f(pair), f(np.stack(pair, axis=-1)))
    with pytest.raises(weft.errors.WeftTypeError, match=r"not a list \(argument xi\)"):
        f(list(pair))


def test_a_grid_is_a_tree():
    f = RegularGridInterpolator(GRID, VALUES)
    found = weft.jit(lambda f, x: f(x))(f, POINTS[-3:])
    close_doubles(found, f(POINTS[-3:]))

    def of_values(values, places, x):
        return RegularGridInterpolator((places, GRID[1]), values)(x)

    x = np.array([[0.3, 0.4], [3.2, 2.1]])
    check_grads(of_values, (VALUES, GRID[0], x), order=2)
    stacked = np.stack([VALUES, 2 * VALUES])
    mapped = weft.vmap(lambda v: RegularGridInterpolator(GRID, v)(x))(stacked)
    close_doubles(mapped[1], 2 * np.asarray(f(x)))


# ---- nearest vectors, integrals ------------------------------------------------------------------


def test_vq():
    observations, book = RANDOM.normal(size=(20, 3)), RANDOM.normal(size=(4, 3))
    for a, b in ((observations, book), (observations[:, 0], book[:, 0]), (book, book)):
        got, want = vq(a, b), scipy.cluster.vq.vq(a, b)
        np.testing.assert_array_equal(got[0], want[0])
        close_doubles(got[1], want[1])
    check_grads(lambda a, b: vq(a, b)[1], (observations, book), order=2)
    assert np.isfinite(weft.grad(lambda a: vq(a, book)[1].sum())(book)).all()
    mapped = weft.vmap(lambda a: vq(a, book)[0])(np.stack([observations, -observations]))
    np.testing.assert_array_equal(mapped[1], scipy.cluster.vq.vq(-observations, book)[0])


def test_trapezoid():
    y, x = RANDOM.normal(size=(4, 5)), np.arange(5.0) ** 2
    close_doubles(integrate.trapezoid(y, x), scipy.integrate.trapezoid(y, x))
    close_doubles(
        integrate.trapezoid(y, dx=0.5, axis=0), scipy.integrate.trapezoid(y, dx=0.5, axis=0)
    )
    close_doubles(integrate.trapezoid(y, y + 3), scipy.integrate.trapezoid(y, y + 3))
    check_grads(integrate.trapezoid, (y, x), order=2)
    assert integrate.trapezoid(np.arange(3)).dtype == np.float64
    assert integrate.trapezoid(jnp.ones(3, "float16")).dtype == np.float16


def test_in_shard_map():
    mesh = weft.make_mesh((8,), ("i",))
    places, x = RANDOM.uniform(0, 3, size=(8, 2)), RANDOM.normal(size=(8, 3))

    def body(places, x):
        read = ndimage.map_coordinates(IMAGE, places.T, 1)
        between = RegularGridInterpolator(GRID, VALUES)(places)
        return read, between, vq(x, x[:1])[1], integrate.trapezoid(x)

    f = weft.shard_map(body, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    read, between, distance, integral = f(places, x)
    close_doubles(read, scipy.ndimage.map_coordinates(IMAGE, places.T, order=1))
    want = scipy.interpolate.RegularGridInterpolator(GRID, VALUES, bounds_error=False)
    close_doubles(between, want(places))
    close_doubles(distance, np.zeros(8))
    close_doubles(integral, scipy.integrate.trapezoid(x))
