"""Fourier transforms: held to NumPy and SciPy row by row, with their derivatives and bounds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from op_table import assert_within_ulps
from weft.errors import DTypeError
from weft.testing import check_grads, check_vmap, exact_array

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(11)


def real(*shape):
    return RANDOM.uniform(-1, 1, size=shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
NORMS = (None, "backward", "ortho", "forward")
WHOLE = RANDOM.integers(-5, 6, size=(3, 4))


def operand(name, *shape):
    return real(*shape) if "rfft" in name and "irfft" not in name or name == "ihfft" else (
        complex_(*shape)
    )  # fmt: skip


def row(name, *args, **kwargs):
    """A row of numpy.fft; where NumPy would be asked for a deprecated default it is said."""
    return case(f"fft.{name}", *args, **kwargs)


ROWS = [
    *[row(f, operand(f, n), _vmap=False, _grad=True) for f in ONE for n in (2, 5, 6)],
    *[row(f, operand(f, 3, 4), n, axis)
      for f in ONE for n, axis in ((1, 0), (5, 0), (6, -1), (2, 1))],
    *[row(f, operand(f, 7), norm=norm, _vmap=False, _grad=True) for f in ONE for norm in NORMS],
    *[row(f, operand(f, 1), 1, _vmap=False) for f in ONE],
    *[row(f, real(4)) for f in ("fft", "ifft", "irfft", "hfft")],
    *[row(f, WHOLE) for f in (*ONE, *SEVERAL)],
    *[row(f, WHOLE > 0, _vmap=False, _rtol=1e-6) for f in ("fft", "rfft", "irfft")],
    *[row(f, operand(f, 3, 4), _grad=True) for f in (*SEVERAL, *TWO)],
    *[row(f, operand(f, 2, 3, 5), axes=(0, 1)) for f in (*SEVERAL, *TWO)],
    *[row(f, operand(f, 2, 3, 5), axes=(2, 0), norm="ortho") for f in (*SEVERAL, *TWO)],
    *[row(f, operand(f, 2, 3, 5), s=(4, 3), axes=(2, 1), norm="forward") for f in (*SEVERAL, *TWO)],
    *[row(f, operand(f, 2, 3, 5), s=(5, -1), axes=(0, 1)) for f in SEVERAL],
    *[row(f, operand(f, 2, 3, 2, 3), _grad=True) for f in SEVERAL],
    *[row(f, operand(f, 2, 1, 3, 2, 2, 1, 2), s=(2, 2, 2, 3, 2, 1, 3), axes=(6, 0, 1, 2, 3, 4, 5))
      for f in SEVERAL],
    row("fftn", complex_(3), axes=()),
    row("fft", np.zeros((0, 4)), _vmap=False),
    row("irfft", np.zeros((0, 4), complex), _vmap=False),
    row("rfft", np.zeros((2, 0)), 3, _vmap=False),
    *[row(f, n, d) for f in ("fftfreq", "rfftfreq") for n in (1, 2, 7, 8) for d in (1.0, 0.1)],
    *[row(f, real(*s), axes=axes)
      for f in ("fftshift", "ifftshift")
      for s, axes in (((5,), None), ((4,), 0), ((3, 4), None), ((3, 4), 1), ((3, 4, 5), (0, 2)),
                      ((0, 3), None))],
    *[row(f, real(), _reference=np.asarray) for f in ("fftshift", "ifftshift")],
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row):
    check(row)


# ---- accuracy ------------------------------------------------------------------------------------

LENGTHS = (1, 2, 3, 8, 30, 97, 128, 1000, 1009, 4096)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_accuracy(name, dtype):
    """Errors, against the norm of the result, are a few roundings, and grow with log(n) only."""
    for n in LENGTHS:
        x = operand(name, 2, n // 2 + 1 if name == "irfft" else n).astype(
            dtype if name == "rfft" else jnp.result_type(dtype, np.complex64)
        )
        arguments = (n,) if name == "irfft" else ()
        got = np.asarray(getattr(jnp.fft, name)(exact_array(x), *arguments))
        # In double precision the reference is computed in extended precision.
        wide = x.astype(np.longdouble if name == "rfft" else np.clongdouble)
        want = getattr(scipy.fft, name)(wide, *arguments)
        error = np.linalg.norm((got - want).ravel().astype(complex))
        size = np.linalg.norm(want.ravel().astype(complex))
        assert error <= np.finfo(dtype).eps * (0.5 + 0.3 * np.log2(n)) * size, n
        assert got.dtype == {"irfft": np.dtype(dtype)}.get(
            name, np.result_type(dtype, np.complex64)
        )


def test_sixteen_bits_are_computed_in_float32():
    x = real(6)
    for dtype in ("float16", "bfloat16"):
        given = jnp.asarray(x).astype(dtype)
        out = jnp.fft.rfft(given)
        assert out.dtype == np.complex64
        wanted = np.fft.rfft(np.asarray(given).astype(np.float64))
        assert_within_ulps(out, wanted, 4, floor=1.0)
        assert jnp.fft.irfft(given).dtype == jnp.fft.hfft(given).dtype == np.float32


@pytest.mark.parametrize(("given", "found"), [("bool", "complex64"), ("int8", "complex64"),
    ("int32", "complex64"), ("int64", "complex128"), ("float64", "complex128")])  # fmt: skip
def test_dtypes_of_results(given, found):
    assert jnp.fft.fft(exact_array(np.ones(3), given)).dtype == found


# ---- frequencies ---------------------------------------------------------------------------------


def test_frequencies_have_the_dtype_asked_for():
    assert jnp.fft.fftfreq(4).dtype == np.float32
    for dtype in ("float16", "float64", "complex64"):
        assert jnp.fft.fftfreq(4, dtype=dtype).dtype == dtype
        assert jnp.fft.rfftfreq(4, jnp.float32(0.5), dtype=dtype).dtype == dtype
    with weft.enable_x64():
        assert jnp.fft.rfftfreq(4).dtype == np.float64
    assert jnp.fft.fftfreq(3, device=weft.devices()[1]).sharding.device_set == {weft.devices()[1]}


@pytest.mark.parametrize("n", [1, 4, 5])
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_traced_distance(name, n):
    function = getattr(jnp.fft, name)
    with weft.enable_x64():
        d = jnp.asarray(0.3)
        np.testing.assert_allclose(function(n, d), getattr(np.fft, name)(n, 0.3), rtol=1e-15)
        check_grads(lambda d: function(n, d), (d,), order=2)
        check_vmap(lambda d: function(n, d), (np.array([0.3]).reshape(()),))


# ---- together with other transformations ---------------------------------------------------------


@pytest.mark.parametrize("name", ["fftn", "rfftn", "irfftn"])
def test_second_derivatives_through_a_function(name):
    with weft.enable_x64():
        x = operand(name, 3, 4)

        def power(x):
            out = getattr(jnp.fft, name)(x, norm="ortho")
            return jnp.sum(jnp.abs(out) ** 4)

        check_grads(power, (x,), order=2)


def test_in_scan_and_shard_map():
    x = real(8, 6).astype(np.float32)
    want = np.fft.irfft(np.fft.rfft(x.astype(np.float64)) * np.arange(4), 6)

    def filtered(row):
        return jnp.fft.irfft(jnp.fft.rfft(row) * jnp.arange(4), 6)

    _, out = weft.lax.scan(lambda c, row: (c, filtered(row)), 0.0, x)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    mesh = weft.make_mesh((8,), ("i",))
    mapped = weft.shard_map(filtered, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    np.testing.assert_allclose(mapped(x), want, rtol=1e-5, atol=1e-6)
    gradient = weft.grad(lambda x: jnp.sum(mapped(x) ** 2))(x)
    single = weft.grad(lambda x: jnp.sum(filtered(x) ** 2))(x)
    np.testing.assert_allclose(gradient, single, rtol=1e-4, atol=1e-5)


def test_a_call_is_one_operation_where_nothing_else_is_needed():
    def primitives(f, *args):
        return [eqn.primitive.name for eqn in weft.make_jaxpr(f)(*args).jaxpr.eqns]

    z = complex_(3, 4).astype(np.complex64)
    assert primitives(jnp.fft.fft, z) == ["fft"]
    assert primitives(jnp.fft.fft2, z) == ["fft"]
    assert primitives(jnp.fft.rfft, z.real) == ["fft"]


def test_dtypes_that_have_no_transform():
    for dtype in ("float8_e4m3fn", "int4"):
        with pytest.raises(DTypeError, match=r"fft\.fft"):
            jnp.fft.fft(exact_array(np.ones(2), dtype))
