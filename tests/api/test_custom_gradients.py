"""`custom_gradient` and `closure_convert`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from weft.errors import TreeError, WeftTypeError

pytestmark = pytest.mark.fast
X = np.array([0.3, -0.7, 1.1], np.float32)


# ---- custom_gradient -----------------------------------------------------------------------------


def test_custom_gradient():
    @weft.custom_gradient
    def f(x, p, scale=2.0):
        """What it does."""
        y = jnp.sin(x) * p["a"]

        def gradient(ct):
            return ct * scale * jnp.cos(x), {"a": ct * 5.0}, None

        return y, gradient

    assert f.__doc__ == "What it does."
    for g in (f, weft.jit(f)):
        dx, dp, ds = weft.grad(g, (0, 1, 2))(0.5, {"a": 3.0}, 2.0)
        close([dx, dp["a"], ds], [2 * np.cos(0.5), 5.0, 0.0])
        close(weft.grad(weft.grad(g))(0.5, {"a": 3.0}, 2.0), -2 * np.sin(0.5))
        close(weft.vmap(weft.grad(g), (0, None, None))(X, {"a": 3.0}, 2.0), 2 * np.cos(X))
        close(weft.jvp(lambda x, g=g: g(x, {"a": 3.0}), (0.5,), (1.0,))[1], 2 * np.cos(0.5))
    assert float(f(0.5, p={"a": 3.0}, scale=1.0)) == pytest.approx(3 * np.sin(0.5))


def test_custom_gradient_of_one_argument_and_of_values():
    f = weft.custom_gradient(lambda x: (x * x, lambda ct: 7.0 * ct if x > 1.0 else ct))
    assert float(weft.grad(f)(3.0)) == 7.0 and float(weft.grad(f)(0.5)) == 1.0
    f = weft.custom_gradient(lambda x: (x * x, lambda ct: (7.0 * ct,)))
    assert float(weft.grad(f)(3.0)) == 7.0


def test_custom_gradient_over_closed_over_values():
    def outer(w, x):
        f = weft.custom_gradient(lambda x: (w * x, lambda ct: 10.0 * w * ct))
        return f(x)

    for g in (outer, weft.jit(outer)):
        assert [float(v) for v in weft.grad(g, (0, 1))(3.0, 2.0)] == [2.0, 30.0]
        close(weft.vmap(weft.grad(g, 1), (0, None))(X, 2.0), 10 * X)


def test_custom_gradient_of_what_is_no_pair():
    for bad in (lambda x: x, lambda x: (x, x), lambda x: (x, jnp.sin, 3)):
        with pytest.raises(WeftTypeError, match="returns no pair") as caught:
            weft.custom_gradient(bad)(1.0)
        assert caught.value.fix.kind == "pair"
    f = weft.custom_gradient(lambda x, y: (x, lambda ct: ct))
    with pytest.raises(TreeError, match="one cotangent per argument"):
        weft.grad(f)(1.0, 2.0)
    with pytest.raises(WeftTypeError):
        weft.custom_gradient(3)


# ---- closure_convert -----------------------------------------------------------------------------


def test_closure_convert():
    @functools.partial(weft.custom_vjp, nondiff_argnums=(0,))
    def apply(fun, x, *values):
        return fun(x, *values)

    def fwd(fun, x, *values):
        return apply(fun, x, *values), (x, values)

    def bwd(fun, residuals, ct):
        x, values = residuals
        return weft.vjp(fun, x, *values)[1]({"r": 10.0 * ct["r"]})

    apply.defvjp(fwd, bwd)

    def loss(w, n, x):
        converted, values = weft.closure_convert(lambda y: {"r": jnp.sin(y["x"]) * w * n}, {"x": x})
        return apply(converted, {"x": x}, *values)["r"]

    for g in (loss, weft.jit(loss)):
        close(weft.grad(g, (0, 2))(3.0, 2, 0.5), [20 * np.sin(0.5), 60 * np.cos(0.5)])
        close(weft.vmap(weft.grad(g), (0, None, None))(X, 2, 0.5), [20 * np.sin(0.5)] * 3)
        close(weft.vmap(weft.grad(g), (None, 0, None))(3.0, np.arange(3), 0.5),
              10 * np.sin(0.5) * np.arange(3))  # fmt: skip


def test_closure_convert_keeps_what_is_not_traced():
    table = jnp.array([1.0, 2.0, 3.0])
    converted, values = weft.closure_convert(lambda x: x * table, X)
    assert values == []
    close(converted(X), X * [1, 2, 3])
    with pytest.raises(TreeError, match="another structure") as caught:
        converted(X, X)
    assert caught.value.fix.data["count"] == 0
    with pytest.raises(TreeError):
        converted([X])
