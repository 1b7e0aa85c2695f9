"""Every method of quantiles, weights, bins chosen by a rule, and einsum on random subscripts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft.errors import ConcretizationError, ShapeError, WeftValueError
from weft.testing import check_grads

RANDOM = np.random.default_rng(9)
X = RANDOM.normal(size=(3, 8))
N = np.where(X > 0.8, np.nan, X)
W = RANDOM.integers(0, 3, size=(3, 8)).astype(float)
FRACTIONS = np.array([0.0, 0.125, 0.3, 0.5, 0.9, 1.0])
METHODS = [
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf"),
    *("hazen", "weibull", "linear", "median_unbiased", "normal_unbiased"),
    *("lower", "higher", "midpoint", "nearest"),
]


@pytest.mark.parametrize("method", METHODS)
def test_methods(method):
    with weft.enable_x64():
        for name, x in (("quantile", X), ("nanquantile", N)):
            found = getattr(jnp, name)(x, FRACTIONS, axis=1, method=method)
            wanted = getattr(np, name)(x, FRACTIONS, axis=1, method=method)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        check_grads(lambda x: jnp.quantile(x, 0.3, axis=0, method=method), (X,), order=1)


def test_weights():
    with weft.enable_x64():
        for axis, w in ((1, W[0]), (None, W), (0, W + 1)):
            options = {"axis": axis, "method": "inverted_cdf", "keepdims": True}
            found = jnp.quantile(X, FRACTIONS, weights=w, **options)
            wanted = np.quantile(X, FRACTIONS, weights=w, **options)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        found = jnp.nanquantile(N, FRACTIONS, axis=1, weights=W[1], method="inverted_cdf")
        for column, row in zip(np.asarray(found).T, N, strict=True):
            kept = ~np.isnan(row)
            wanted = np.quantile(row[kept], FRACTIONS, weights=W[1][kept], method="inverted_cdf")
            np.testing.assert_allclose(column, wanted, rtol=1e-12)
        traced = weft.jit(lambda x, w: jnp.percentile(x, 40, weights=w, method="inverted_cdf"))
        wanted = np.percentile(X, 40, weights=W, method="inverted_cdf")
        np.testing.assert_allclose(traced(X, W), wanted, rtol=1e-12)


def test_weights_that_do_not_fit():
    with pytest.raises(WeftValueError, match="inverted_cdf"):
        jnp.quantile(X, 0.5, weights=W)
    with pytest.raises(ShapeError, match="weights of type"):
        jnp.quantile(X, 0.5, axis=1, weights=W[0, :3], method="inverted_cdf")
    with pytest.raises(WeftValueError, match="not negative"):
        jnp.quantile(X, 0.5, weights=-W, method="inverted_cdf")


@pytest.mark.parametrize("rule", ["auto", "fd", "sturges", "doane", "scott", "rice", "sqrt"])
def test_bins_by_a_rule(rule):
    with weft.enable_x64():
        for density in (False, True):
            found = jnp.histogram(X, rule, density=density)
            for x, y in zip(found, np.histogram(X, rule, density=density), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12)
    with pytest.raises(ConcretizationError, match="depends on values"):
        weft.jit(lambda x: jnp.histogram(x, rule)[0])(X)
    with pytest.raises(WeftValueError, match="'many'"):
        jnp.histogram(X, "many")


SIZES = {"a": 2, "b": 3, "c": 2, "d": 1}


@st.composite
def contractions(draw):
    """Subscripts with as many operands: labels may repeat, be summed over, or stand in an order."""
    terms = draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    dots = draw(st.booleans())
    labels = sorted(set("".join(terms)))
    out = "".join(draw(st.permutations(labels))[: draw(st.integers(0, len(labels)))])
    if dots:
        terms = [terms[0] + "...", *terms[1:]]
        out = draw(st.sampled_from([out + "...", "..." + out]))
    operands = [
        RANDOM.normal(size=tuple(SIZES[c] for c in t.replace("...", "")) + (2,) * ("." in t))
        for t in terms
    ]
    return ",".join(terms) + "->" + out, operands


@settings(max_examples=25, deadline=None)
@given(contractions())
def test_einsum_on_random_subscripts(contraction):
    subscripts, operands = contraction
    with weft.enable_x64():
        wanted = np.einsum(subscripts, *operands)
        np.testing.assert_allclose(
            jnp.einsum(subscripts, *operands), wanted, rtol=1e-10, atol=1e-12
        )


def test_einsum_takes_the_path_of_einsum_path():
    a, b, c = RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 2))
    path, _ = jnp.einsum_path("ij,jk,kl", a, b, c)
    assert path[0] == "einsum_path" and path == np.einsum_path("ij,jk,kl", a, b, c)[0]
    with weft.enable_x64():
        found = jnp.einsum("ij,jk,kl", a, b, c, optimize=path)
    np.testing.assert_allclose(found, a @ b @ c, rtol=1e-12)
