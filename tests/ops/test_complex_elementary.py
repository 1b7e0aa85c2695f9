"""Elementary functions of complex numbers: at infinities and NaN, near cancellation, near overflow.

What C asks for at infinities and NaN (C99, annex G) NumPy does; where a part of a result is NaN, it
leaves the sign of the other open. Digits are compared with NumPy's long doubles, part by part.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp

NAMES = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "reciprocal", "sign",
    "absolute", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
    "arcsinh", "arccosh", "arctanh",
]  # fmt: skip
DTYPES = [np.complex64, np.complex128]


@pytest.fixture(autouse=True)
def _x64() -> Any:
    with weft.enable_x64():
        yield


def grid(parts: Any, dtype: Any) -> np.ndarray[Any, Any]:
    return np.array([complex(a, b) for a, b in itertools.product(parts, repeat=2)], dtype)


def reference(name: str, z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        found = getattr(np, name)(z)
        if name == "expm1":  # NumPy computes a product of infinity and 0
            found = np.where(np.isfinite(found), found, np.exp(z) - complex(1, 0))
        if name == "reciprocal":  # NumPy has NaN for two infinite parts, and for one beside NaN
            far = np.isinf(z)
            found.real[far] = np.copysign(0, z.real[far])
            found.imag[far] = -np.copysign(0, z.imag[far])
    return np.asarray(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_infinities_nan_and_zeros(name: str, dtype: Any) -> None:
    parts = (-np.inf, -711.0, -2.0, -0.0, 0.0, 0.5, 1000.0, np.inf, np.nan)
    z = grid(parts, dtype)
    if name == "reciprocal":
        z = z[z != 0]  # C has an infinity there, NumPy NaN
    expected = reference(name, z)
    function = getattr(jnp, name)
    x = jnp.asarray(z)
    eps = 8 * np.finfo(dtype).eps
    for f in (function, weft.jit(function), weft.vmap(function), weft.jit(weft.vmap(function))):
        found = np.asarray(f(x))
        assert found.dtype == expected.dtype
        signs = ~(np.isnan(expected.real) | np.isnan(expected.imag))
        for part in ("real", "imag"):
            a, b = getattr(found, part), getattr(expected, part)
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            np.testing.assert_array_equal(np.signbit(a)[signs], np.signbit(b)[signs])
            tiny = np.finfo(dtype).tiny
            np.testing.assert_allclose(np.abs(a), np.abs(b), rtol=eps, atol=tiny, equal_nan=True)


EXPONENTIAL = ["exp", "sin", "cos", "tan", "sinh", "cosh", "tanh"]


def near_everything(dtype: Any) -> np.ndarray[Any, Any]:
    """Small parts beside large ones, poles, and what is near overflow."""
    generator = np.random.default_rng(0)
    limit = np.log(float(np.finfo(dtype).max))
    scales = (1e-12, 1e-5, 1e-2, 1.0, 5.0)
    pairs = [generator.normal(size=(200, 2)) * scale for scale in itertools.product(scales, scales)]
    for turn in (np.array([1.0, 1e-4]), np.array([1e-4, 1.0])):
        poles = np.array([np.pi / 2, 0.0]) if turn[1] > turn[0] else np.array([0.0, np.pi / 2])
        pairs.append(poles + 1e-3 * generator.normal(size=(200, 2)))
        pairs.append((limit - 3 + 8 * generator.random((200, 1))) * turn)
        pairs.append(-(limit - 3 + 8 * generator.random((200, 1))) * turn)
    parts = np.concatenate(pairs).astype(np.finfo(dtype).dtype)
    return (parts[:, 0] + 1j * parts[:, 1]).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXPONENTIAL)
def test_every_part_has_its_digits(name: str, dtype: Any) -> None:
    z = near_everything(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z.astype(np.clongdouble))
    found = np.asarray(getattr(jnp, name)(jnp.asarray(z)))
    limits = np.finfo(dtype)
    for part in ("real", "imag"):
        a, b = getattr(found, part), getattr(expected, part)
        inside = (np.abs(b) > limits.tiny) & (np.abs(b) < limits.max / 2)
        assert inside.sum() > len(z) / 2
        error = np.abs(a - b)[inside] / np.abs(b)[inside] / limits.eps
        assert error.max() < 8, (z[inside][error.argmax()], error.max())
        beyond = np.abs(b) > np.longdouble(limits.max)
        np.testing.assert_array_equal(a[beyond], np.sign(b[beyond]).astype(a.dtype) * np.inf)


@pytest.mark.parametrize("dtype", DTYPES)
def test_expm1_has_the_digits_of_its_size(dtype: Any) -> None:
    z = near_everything(dtype)
    with np.errstate(all="ignore"):
        expected = np.expm1(z.astype(np.clongdouble))
    found = np.asarray(jnp.expm1(jnp.asarray(z)))
    inside = np.abs(expected) < np.finfo(dtype).max / 2
    error = np.abs(found - expected)[inside] / np.abs(expected)[inside]
    assert error.max() < 8 * np.finfo(dtype).eps
    inside &= np.abs(expected.imag) > np.finfo(dtype).tiny
    error = np.abs(found.imag - expected.imag)[inside] / np.abs(expected.imag)[inside]
    assert error.max() < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("name", [*EXPONENTIAL, "expm1"])
def test_derivatives_by_differences(name: str) -> None:
    function, numpy_function = getattr(jnp, name), getattr(np, name)
    h = 1e-6
    for z in (0.3 + 0.2j, -1.1 + 2.0j, 1e-9 - 0.4j, 3.0 - 1e-9j):
        slope = (numpy_function(z + h) - numpy_function(z - h)) / (2 * h)
        found = weft.jvp(function, (jnp.asarray(np.complex128(z)),), (jnp.asarray(1 + 0j),))[1]
        np.testing.assert_allclose(found, slope, rtol=1e-8, atol=1e-9)
