"""Reductions of weft.numpy along axes that are given by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import UnboundAxisError

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
MASK = X > -0.5


def mapped(function: Any) -> Any:
    return weft.vmap(function, axis_name="i", out_axes=None)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std"])
@pytest.mark.parametrize("axis", [0, 1, (0, 1), ()])
def test_a_reduction_takes_names_among_the_axes(name: str, axis: Any) -> None:
    axes = (axis,) if isinstance(axis, int) else axis
    found = mapped(lambda x: getattr(jnp, name)(x, axis=(*axes, "i")))(X)
    wanted = getattr(np, name)(X, axis=(0, *[a + 1 for a in axes]))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std"])
def test_a_name_alone_with_a_mask_and_kept_dimensions(name: str) -> None:
    initial = {"initial": -9.0 if name == "max" else 9.0} if name in ("max", "min", "sum") else {}
    found = mapped(
        lambda x, m: getattr(jnp, name)(x, axis=("i", 0), where=m, keepdims=True, **initial)
    )(X, MASK)
    wanted = getattr(np, name)(X, axis=(0, 1), where=MASK, **initial)
    np.testing.assert_allclose(found, wanted[None], rtol=2e-5, atol=1e-6)
    alone = mapped(lambda x: getattr(x, name)(axis="i"))(X)
    np.testing.assert_allclose(alone, getattr(np, name)(X, axis=0), rtol=2e-5, atol=1e-6)


def test_integers_and_degrees_of_freedom_along_a_name() -> None:
    numbers = np.arange(12, dtype=np.int32).reshape(3, 4)
    for name in ("sum", "mean", "max"):
        found = mapped(lambda x: getattr(jnp, name)(x, axis=("i",)))(numbers)  # noqa: B023
        np.testing.assert_allclose(found, getattr(np, name)(numbers, axis=0))
    found = mapped(lambda x: jnp.var(x, axis=(0, "i"), ddof=1))(X)
    np.testing.assert_allclose(found, np.var(X, axis=(0, 1), ddof=1), rtol=2e-5)


def test_a_name_that_is_not_bound_is_an_error() -> None:
    with pytest.raises(UnboundAxisError, match="rows"):
        jnp.sum(X, axis="rows")


@pytest.mark.parametrize("axis", ["i", (1, "i")])
def test_softmax_and_logsumexp_along_a_name(axis: Any) -> None:
    positions = (0,) if axis == "i" else (0, 2)
    wanted = np.log(np.exp(X).sum(positions))
    found = mapped(lambda x: weft.nn.logsumexp(1000.0 + x, axis))(X)
    np.testing.assert_allclose(found - 1000.0, wanted, atol=1e-3)
    for mask in (None, MASK):
        weights = np.exp(X) * (1.0 if mask is None else mask)
        softmax = weft.vmap(lambda x, m: weft.nn.softmax(x, axis, where=m), axis_name="i")
        np.testing.assert_allclose(
            softmax(X, mask), weights / weights.sum(positions, keepdims=True), rtol=1e-5
        )
    slope = weft.grad(lambda x: mapped(lambda x: weft.nn.logsumexp(x, axis))(x).sum())(X)
    softmax = weft.vmap(lambda x: weft.nn.softmax(x, axis), axis_name="i")(X)
    np.testing.assert_allclose(slope, softmax, rtol=1e-4)
