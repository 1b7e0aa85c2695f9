"""Polynomials, windows, packed bits, unwrapped signals and index expressions: held to NumPy."""

from __future__ import annotations

import io

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from weft.errors import ConcretizationError
from weft.testing import check_grads

RANDOM = np.random.default_rng(5)
P, Q = RANDOM.normal(size=5), RANDOM.normal(size=3)
WHOLE = np.array([2, -1, 0, 3, 1])
C = P + 1j * RANDOM.normal(size=5)
BITS = RANDOM.integers(0, 2, (3, 11))
BYTES = RANDOM.integers(0, 256, (2, 3)).astype(np.uint8)
WRAPPED = np.angle(np.exp(3j * np.cumsum(RANDOM.normal(size=(2, 9)), 1)))
X = np.linspace(0, 1, 9)
Y = np.sin(3 * X)
WEIGHTS = np.linspace(1, 2, 9)

ROWS = [
    *[case(name, P, Q, _grad=True) for name in ("polyadd", "polysub", "polymul")],
    case("polyadd", C, WHOLE),
    case("polymul", WHOLE, Q),
    case("polyder", P, m=2, _grad=True),
    case("polyder", WHOLE),
    case("polyder", P, 6),
    case("polyint", P, m=2, k=[1.0, 2.0], _grad=True),
    case("polyint", WHOLE, k=3),
    case("polyval", P, Q, _grad=True),
    case("polyval", C, 2.0),
    case("polyval", WHOLE, 3),
    case("polyval", RANDOM.normal(size=30), Q, _grad=True),
    case("polyval", RANDOM.normal(size=(3, 2)), 1.5, _vmap=False),
    case("vander", P, _grad=True, _vmap=False),
    case("vander", WHOLE, 3, increasing=True),
    case("vander", P, 0),
    case("poly", P, _grad=True),
    case("poly", RANDOM.normal(size=(3, 3)), _rtol=1e-8),
    case("polyfit", X, Y, deg=3, _grad=True, _rtol=1e-7, _vmap=False),
    case("polyfit", X, np.stack([Y, X], 1), deg=2, full=True, _vmap=False, _rtol=1e-7),
    case("polyfit", X, np.stack([Y, X], 1), deg=1, w=WEIGHTS, cov=True, _vmap=False),
    case("polyfit", X, Y, deg=2, w=WEIGHTS, cov="unscaled", _vmap=False, _rtol=1e-7),
    case("polyfit", X, Y + 1j * X, deg=2, _vmap=False, _rtol=1e-7),
    case("packbits", BITS),
    case("packbits", BITS, axis=1, bitorder="little"),
    case("packbits", BITS > 0, axis=0),
    case("unpackbits", BYTES, axis=1, bitorder="little"),
    case("unpackbits", BYTES, count=30),
    case("unpackbits", BYTES, axis=0, count=-2),
    case("unwrap", WRAPPED, _grad=True),
    case("unwrap", WRAPPED, axis=0, discont=4.0),
    case("unwrap", np.array([0, 1, 2, -1, 0, 5, 9, 3, 2, 0]), period=5),
    case("unwrap", np.array([0, 3, 0, 3, 6, 9, 0, 5]), period=6),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_numpy(row):
    check(row)


def test_windows():
    with weft.enable_x64():
        for size in (-1, 0, 1, 2, 5, 8):
            for name in ("bartlett", "blackman", "hamming", "hanning"):
                found = np.asarray(getattr(jnp, name)(size))
                np.testing.assert_allclose(found, getattr(np, name)(size), rtol=1e-14, atol=1e-15)
        for size, beta in ((0, 3.0), (1, 3.0), (7, 14.0), (6, 0.0), (5, -2.5)):
            np.testing.assert_allclose(jnp.kaiser(size, beta), np.kaiser(size, beta), rtol=1e-12)
        assert np.isfinite(np.asarray(jnp.kaiser(5, 2000.0))).all()
        check_grads(lambda beta: jnp.kaiser(7, beta), (3.0,), order=2)
    assert jnp.hamming(4).dtype == jnp.float32
    np.testing.assert_allclose(weft.jit(lambda: jnp.blackman(5))(), np.blackman(5), atol=1e-7)


@pytest.mark.parametrize(("u", "v"), [(P, Q), (C, Q), (Q, P), (WHOLE, WHOLE[:2])])
def test_division(u, v):
    with weft.enable_x64():
        wanted = np.polydiv(u, v)
        for found, of in zip(jnp.polydiv(u, v, trim_leading_zeros=True), wanted, strict=True):
            np.testing.assert_allclose(found, of, rtol=1e-10, atol=1e-12)
        quotient, remainder = weft.jit(jnp.polydiv)(u, v)
        back = jnp.polyadd(jnp.polymul(quotient, v), remainder)
        np.testing.assert_allclose(back[-len(u) :], u, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "p",
    [
        P,
        C,
        np.array([0.0, 0.0, 1.0, -3.0, 2.0]),
        np.array([1.0, 2.0, 0.0, 0.0]),
        np.zeros(3),
        np.array([3.0]),
        np.array([1, -6, 11, -6]),
    ],
    ids=str,
)
def test_roots(p):
    with weft.enable_x64():
        wanted = np.sort_complex(np.roots(p).astype(complex))
        found = np.sort_complex(np.asarray(jnp.roots(p)))
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
        static = np.asarray(weft.jit(lambda p: jnp.roots(p, strip_zeros=False))(p))
        assert static.shape == (p.size - 1,)
        static = np.sort_complex(static[~np.isnan(static)])
        np.testing.assert_allclose(static, wanted, rtol=1e-8, atol=1e-10)


def test_derivatives_of_roots_and_of_fits():
    with weft.enable_x64():
        check_grads(lambda p: jnp.abs(jnp.roots(p, strip_zeros=False)).sum(), (P,), order=1)
        check_grads(lambda y: jnp.polyfit(X, y, 2), (Y,), order=2)
        # The gradient of a fit with respect to the places, by the normal equations.
        check_grads(lambda x: jnp.polyfit(x, Y, 1), (X,), order=1)


def test_trimming():
    plane = np.zeros((4, 5))
    plane[1:3, 2] = 1
    for trim in ("f", "b", "fb", "FB"):
        for x in (np.array([0, 0, 1, 0, 2, 0]), np.zeros(3), np.array([1, 2])):
            np.testing.assert_array_equal(jnp.trim_zeros(x, trim), np.trim_zeros(x, trim))
    for axis in (None, 0, 1, -1, (0, 1)):
        found = jnp.trim_zeros(plane, axis=axis)
        np.testing.assert_array_equal(found, np.trim_zeros(plane, axis=axis))


@pytest.mark.parametrize(
    "call", [jnp.trim_zeros, jnp.roots, lambda p: jnp.polymul(p, p, trim_leading_zeros=True)]
)
def test_shapes_that_depend_on_values_need_values(call):
    with pytest.raises(ConcretizationError, match="values must be known"):
        weft.jit(call)(P)


# ---- index expressions ---------------------------------------------------------------------------

GRIDS = [np.s_[0:3], np.s_[0:1:5j], np.s_[0:2, 1:4], np.s_[0:2:3j, -1:1], np.s_[:3, 1:2:0.25, 2:3]]
ROW_PARTS = [
    np.s_[1:3, 5, P],
    np.s_["0,2", P, P],
    np.s_["-1", np.ones((2, 2)), np.zeros((2, 2))],
    np.s_["0,2,0", P[:3], Q],
    np.s_["1,2,0", P[:3], Q],
    np.s_["0,3,1", np.ones((2, 2)), np.zeros((2, 2))],
    np.s_["0,3", np.ones((2, 2)), np.zeros((2, 2))],
    np.s_[WHOLE, 2.5],
    np.s_[-1:1:6j, [0] * 3, 5, 6],
]
COLUMN_PARTS = [
    np.s_[P, P],
    np.s_[np.ones((2, 2)), np.zeros((2, 1))],
    np.s_[1:4, 3:6],
    np.s_[np.ones((1, 3)), 0, 0, np.ones((1, 3))],
]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *[(name, key) for name in ("mgrid", "ogrid") for key in GRIDS],
        *[("r_", key) for key in ROW_PARTS],
        *[("c_", key) for key in COLUMN_PARTS],
    ],
)
def test_index_expressions(name, key):
    with weft.enable_x64():
        found, wanted = getattr(jnp, name)[key], getattr(np, name)[key]
        if not isinstance(wanted, tuple):
            found, wanted = (found,), (wanted,)
        for x, y in zip(found, wanted, strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=1e-15)


def test_joined_parts_may_be_traced():
    def f(x):
        return (jnp.r_[x, 1.0, x] ** 2).sum() + jnp.c_[x, x].sum()

    np.testing.assert_allclose(weft.jit(weft.grad(f))(Q.astype(np.float32)), 4 * Q + 2, rtol=1e-5)
    assert jnp.s_[1:2, ...] == np.s_[1:2, ...] and jnp.index_exp[3] == (3,)


# ---- files ---------------------------------------------------------------------------------------


def test_files_are_numpys(tmp_path):
    x = jnp.arange(6.0).reshape(2, 3)
    jnp.save(tmp_path / "one", x)
    np.testing.assert_array_equal(np.load(tmp_path / "one.npy"), x)
    np.testing.assert_array_equal(jnp.load(tmp_path / "one.npy"), x)
    jnp.savez(tmp_path / "several", x, scale=jnp.float16(2))
    with np.load(tmp_path / "several.npz") as found:
        assert sorted(found.files) == ["arr_0", "scale"]
    loaded = jnp.load(tmp_path / "several.npz")
    assert loaded["scale"].dtype == jnp.float16 and isinstance(loaded["arr_0"], weft.Array)
    file = io.BytesIO()
    np.save(file, np.arange(3))
    file.seek(0)
    assert jnp.load(file).dtype == jnp.int32
