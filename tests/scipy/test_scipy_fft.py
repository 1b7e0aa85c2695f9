"""Cosine transforms: held to SciPy, with their derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from op_table import assert_within_ulps
from weft.scipy import fft
from weft.testing import check_grads, check_jit, check_vmap, exact_array

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(5)
TYPES = (1, 2, 3, 4)
NORMS = ("backward", "ortho", "forward")


def given(*shape):
    return RANDOM.uniform(-1, 1, size=shape)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["dct", "idct"])
def test_values(name, type):
    function, reference = getattr(fft, name), getattr(scipy.fft, name)
    with weft.enable_x64():
        for n in (2, 3, 6, 7, *((1,) if type > 1 else ())):
            x = given(2, n)
            for norm in NORMS:
                for orthogonalize in (None, True, False):
                    options = {"norm": norm, "orthogonalize": orthogonalize}
                    out = function(x, type, **options)
                    np.testing.assert_allclose(
                        out, reference(x, type, **options), rtol=1e-12, atol=1e-13
                    )


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_accuracy(type, dtype):
    """Errors, against the norm of the result, are a few roundings."""
    for n in (5, 64, 1000):
        x = (given(n) + (1j * given(n) if dtype[0] == "c" else 0)).astype(dtype)
        got = np.asarray(fft.dct(exact_array(x), type))
        wide = x.astype(np.complex128 if dtype[0] == "c" else np.float64)
        want = scipy.fft.dct(wide, type)
        assert got.dtype == dtype
        error = np.linalg.norm(got - want) / np.linalg.norm(want)
        assert error <= np.finfo(dtype).eps * (1 + 0.5 * np.log2(n)), n


@pytest.mark.parametrize("name", ["dct", "idct"])
def test_lengths_and_axes(name):
    function, reference = getattr(fft, name), getattr(scipy.fft, name)
    x = given(3, 4)
    with weft.enable_x64():
        for n in (2, 5):
            for axis in (0, 1, -2):
                out = function(x, 3, n, axis)
                np.testing.assert_allclose(out, reference(x, 3, n, axis), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["dctn", "idctn"])
def test_several_axes(name):
    function, reference = getattr(fft, name), getattr(scipy.fft, name)
    x = given(3, 4, 2)
    with weft.enable_x64():
        for type in TYPES:
            for options in ({}, {"axes": (1,)}, {"s": (4, 3)}, {"s": (2, 5), "axes": (2, 0)}):
                for norm in NORMS:
                    out = function(x, type, norm=norm, **options)
                    want = reference(x, type, norm=norm, **options)
                    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("n", [4, 5])
def test_transformations(type, n):
    for name in ("dct", "idct"):

        def function(x, name=name):
            return getattr(fft, name)(x, type, norm="ortho")

        with weft.enable_x64():
            check_grads(function, (given(n),), order=2)
            check_grads(function, (given(n) + 1j * given(n),), order=1)
        check_vmap(function, (given(2, n).astype(np.float32),))
        check_jit(function, (given(2, n).astype(np.float32),))


def test_dtypes_of_results():
    x = given(6)
    for dtype in ("float16", "bfloat16"):
        small = jnp.asarray(x).astype(dtype)
        out = fft.dct(small)
        assert out.dtype == dtype
        want = scipy.fft.dct(np.asarray(small).astype(np.float64))
        assert_within_ulps(out, want, 1, floor=0.1)
    assert fft.dct(np.arange(4)).dtype == np.float32
    assert fft.dct(exact_array(np.arange(4), "int64")).dtype == np.float64


def test_an_eager_call_is_one_program(monkeypatch):
    x = jnp.asarray(given(5, 11))
    programs = counted_compilations(monkeypatch)
    fft.dctn(x, 3, norm="ortho")
    assert len(programs) == 1


def test_in_shard_map():
    x = given(8, 4).astype(np.float32)
    mesh = weft.make_mesh((8,), ("i",))
    mapped = weft.shard_map(fft.dct, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    np.testing.assert_allclose(mapped(x), scipy.fft.dct(x), rtol=1e-5, atol=1e-6)
