"""Sums of 16-bit numbers are in float32, wherever they are made, and so are sums of cotangents.

One by one, 16-bit terms stop counting: of equal bfloat16 numbers the sum stays where it is after
256 of them, and above 65,504 a float16 is infinite. Each program here adds up 70,000 numbers whose
sum is 70, or has a sum of cotangents on its way that no float16 holds though the gradient is small.
What they are held to is computed by NumPy in double precision from the rounded operands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import grad, jit, lax, nn, vmap
from weft.sharding import NamedSharding, P

COUNT = 70_000
HALVES = ["float16", "bfloat16"]
zeros = np.zeros(COUNT, np.int32)


def last(x: Any) -> Any:
    return x[-1]


def to_first(operation: str) -> Any:
    """What updating the first of two zeros with all terms makes of it."""
    return lambda x: getattr(jnp.zeros(2, x.dtype).at[zeros], operation)(x)[0]


def by(gradient: Any) -> Any:
    """The gradient, by one number, of a sum with the terms as weights."""
    return lambda x: grad(lambda t: gradient(t, x))(jnp.ones((), x.dtype))


def scanned(t: Any, x: Any) -> Any:
    return lax.scan(lambda total, weight: (total, t * weight), 0.0, x)[1].sum()


def repeated(t: Any, x: Any) -> Any:
    """A hundred uses of one number."""
    return sum((t * x[i : i + 700].sum() for i in range(0, COUNT, 700)), t * 0)


def counted(mean: Any) -> Any:
    """The sum by the mean: as many times, for which float16 has no number."""
    return (mean.astype("float32") * COUNT).astype(mean.dtype)


def convolved(x: Any) -> Any:
    ones = jnp.ones((1, 1, COUNT), x.dtype)
    return lax.conv_general_dilated(x[None, None], ones, (1,), "VALID")[0, 0, 0]


def kernel_gradient(x: Any) -> Any:
    def loss(kernel):
        return lax.conv_general_dilated(x[None, None], kernel, (1,), "VALID").sum()

    return grad(loss)(jnp.ones((1, 1, 1), x.dtype))[0, 0, 0]


SUMS = {
    "lax.reduce_sum": lambda x: lax.reduce_sum(x, (0,)),
    "lax.reduce": lambda x: lax.reduce(x, x.dtype.type(0), lax.add, (0,)),
    "sum": jnp.sum,
    "sum of a matrix": lambda x: jnp.sum(x.reshape(70, 1000), axis=(0, 1)),
    "add.reduce": jnp.add.reduce,
    "nansum": jnp.nansum,
    "average": lambda x: counted(jnp.average(x, weights=jnp.ones_like(x))),
    "mean": lambda x: counted(jnp.mean(x)),
    "trapezoid": jnp.trapezoid,
    "dot": lambda x: jnp.dot(x, jnp.ones_like(x)),
    "matmul": lambda x: (x[None] @ jnp.ones_like(x)[:, None])[0, 0],
    "einsum of one": lambda x: jnp.einsum("i->", x),
    "einsum of two": lambda x: jnp.einsum("i,i->", x, jnp.ones_like(x)),
    "cumsum": lambda x: last(jnp.cumsum(x)),
    "lax.cumsum": lambda x: last(lax.cumsum(x)),
    "reduce_window": lambda x: lax.reduce_window(
        x, x.dtype.type(0), lax.add, (COUNT,), (1,), "VALID"
    )[0],
    "at.add": to_first("add"),
    "at.subtract": lambda x: -to_first("subtract")(x),
    "segment_sum": lambda x: weft.ops.segment_sum(x, zeros, 2)[0],
    "bincount": lambda x: jnp.bincount(zeros, weights=x, length=1)[0],
    "convolution": convolved,
    "psum over vmap": lambda x: vmap(lambda v: lax.psum(v, "i"), axis_name="i")(x)[0],
    "gradient of a broadcast": by(lambda t, x: (jnp.broadcast_to(t, x.shape) * x).sum()),
    "gradient of a number": by(lambda t, x: (t * x).sum()),
    "gradient of a bias": by(lambda t, x: ((t[None] + x) * x).sum()),
    "gradient of an index": by(lambda t, x: (t[None][zeros] * x).sum()),
    "gradient of take": by(lambda t, x: (jnp.take(t[None], zeros) * x).sum()),
    "gradient of a scan": by(scanned),
    "gradient of many uses": by(repeated),
    "gradient of a kernel": kernel_gradient,
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", SUMS)
def test_sums_keep_what_they_add(name, dtype):
    terms = jnp.full(COUNT, 0.001, dtype)
    want = np.asarray(terms).astype(float).sum()
    eps = float(jnp.finfo(dtype).eps)
    for function in (SUMS[name], jit(SUMS[name])):
        out = function(terms)
        assert out.dtype == dtype
        np.testing.assert_allclose(float(out), want, rtol=3 * eps)


# ---- cotangents that pass the largest float16 --------------------------------------------------


def centered(x: Any) -> Any:
    return x - x.mean()


def centered_rows(x: Any) -> Any:
    return x - x.mean(0, keepdims=True)


def layer_norm(x: Any) -> Any:
    center = x.mean()
    spread = ((x - center) ** 2).mean()
    return (x - center) * lax.rsqrt(spread + 1e-5)


def layer_norm_of_var(x: Any) -> Any:
    return (x - x.mean()) / jnp.sqrt(x.var() + jnp.asarray(1e-5, x.dtype))


def centering_gradient(x: Any, ct: Any) -> Any:
    return ct - ct.mean()


def softmax_gradient(x: Any, ct: Any) -> Any:
    weights = np.exp(x - x.max())
    return ct - weights / weights.sum() * ct.sum()


def norm_gradient(x: Any, ct: Any) -> Any:
    center, spread = x.mean(), x.var() + 1e-5
    away = x - center
    return (ct - ct.mean() - away * (ct * away).mean() / spread) / np.sqrt(spread)


PASSING = {
    "centering": (centered, centering_gradient),
    "centering with keepdims": (centered_rows, centering_gradient),
    "jitted centering": (lambda x: x - jit(jnp.mean)(x), centering_gradient),
    "log_softmax": (nn.log_softmax, softmax_gradient),
    "logsumexp": (lambda x: x - nn.logsumexp(x), softmax_gradient),
    "standardize": (lambda x: nn.standardize(x, axis=0), norm_gradient),
    "stable standardize": (
        lambda x: nn.standardize(x, axis=0, algorithm="stable"), norm_gradient
    ),
    "layer norm": (layer_norm, norm_gradient),
    "layer norm of var": (layer_norm_of_var, norm_gradient),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PASSING)
def test_cotangents_pass_the_largest_float16(name, dtype):
    """The cotangents are some 300 each, as a scaled loss has them, and their sum 300,000."""
    function, gradient = PASSING[name]
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=1000), dtype)
    ct = jnp.asarray(300 + generator.normal(size=1000), dtype)
    want = gradient(*(np.asarray(v).astype(float) for v in (x, ct)))
    eps = float(jnp.finfo(dtype).eps)

    def pulled(x, ct):
        return weft.vjp(function, x)[1](ct)[0]

    for run in (pulled, jit(pulled)):
        got = run(x, ct)
        assert got.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(got).astype(float), want, rtol=4 * eps, atol=1200 * eps
        )


@pytest.mark.parametrize("dtype", HALVES)
def test_normalizing_many_numbers(dtype):
    """Sums of exponentials and of squares, and their divisors, above the largest float16."""
    x = jnp.zeros(COUNT, dtype)
    eps = float(jnp.finfo(dtype).eps)
    for out, want in (
        (nn.softmax(x), 1 / COUNT),
        (nn.log_softmax(x), -math.log(COUNT)),
        (nn.logsumexp(x), math.log(COUNT)),
        (nn.logmeanexp(x, where=jnp.ones(COUNT, bool)), 0.0),
        (nn.standardize(300 + jnp.arange(-1000, 1001).astype(dtype) / 4)[-1], math.sqrt(3)),
        (vmap(lambda v: lax.pmean(v, "i"), axis_name="i")(x + 3), 3.0),
        (vmap(lambda v: lax.pmean(v, "i"), axis_name="i")(jnp.full(8, 30_000, dtype)), 30_000),
        (grad(lambda v: lax.reduce_max(v, (0,)))(x), 1 / COUNT),
        (grad(lambda v: lax.cummax(v)[-1])(x[:3000]), 1 / 3000),
    ):
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out).astype(float), want, rtol=4 * eps, atol=2 * eps)


def test_float32_programs_have_no_conversions():
    """What is mended for 16 bits costs 32 bits nothing."""

    def loss(bias, x):
        return (nn.log_softmax(layer_norm(x + bias)) * x).sum()

    x = jnp.ones(8)
    text = jit(grad(loss)).lower(x[0], x).as_text()
    assert "f16" not in text and "stablehlo.convert" not in text


@pytest.mark.parametrize("dtype", [*HALVES, "float32"])
def test_iota_over_devices(dtype):
    """Every device makes its part, which begins at a number that the dtype may not hold."""
    mesh = weft.make_mesh((8,), ("i",))
    out = jit(lambda: lax.iota(dtype, 40_000), out_shardings=NamedSharding(mesh, P("i")))()
    want = np.arange(40_000).astype(jnp.dtype(dtype))
    np.testing.assert_array_equal(np.asarray(out), want)
