"""Functions of `weft.numpy` that are no operations, inside shard_map with its check on.

Two devices compute from the same numbers, of which one operand is cast to a varying one: each has
to find what one device finds. Derivatives are those of two devices, summed.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from two_devices import on_both
from weft import tree
from weft.testing import assert_close

V = np.array([0.5, -1.25, 2.0, 0.75], np.float32)
W = np.array([1.0, 2.0, 0.5, 1.5], np.float32)
M = np.array([[0.5, -1.25, 2.0], [0.75, 3.0, -0.5]], np.float32)
N4 = np.array([3, 0, 1, 2], np.int32)
BYTES = np.array([[1, 128], [255, 6]], np.uint8)

# Name, function and operands; `*` marks those that have derivatives.
TABLE = [
    ("vectorize*", jnp.vectorize(jnp.dot, signature="(n),(n)->()"), M, M * M),
    ("apply_along_axis*", lambda x: jnp.apply_along_axis(jnp.cumsum, 1, x), M),
    ("apply_over_axes*", lambda x: jnp.apply_over_axes(jnp.sum, x, (0, 1)), M),
    ("piecewise*", lambda x: jnp.piecewise(x, [x < 0, x > 1], [jnp.sin, jnp.cos, 2.0]), V),
    ("polyval*", jnp.polyval, V, W),
    ("polyadd*", jnp.polyadd, V, W[:2]),
    ("polymul*", jnp.polymul, V, W),
    ("polydiv", jnp.polydiv, V, W[:2]),
    ("polyder*", lambda p: jnp.polyder(p, 2), V),
    ("polyint*", lambda p: jnp.polyint(p, k=3), V),
    ("polyfit", lambda x, y: jnp.polyfit(x, y, 1), V, W),
    ("poly*", jnp.poly, V),
    ("vander*", lambda x: jnp.vander(x, 3), V),
    ("roots", lambda p: jnp.sort(jnp.roots(p, strip_zeros=False)), W),
    ("windows*", lambda x: x * (jnp.hanning(4) + jnp.bartlett(4) + jnp.blackman(4)), V),
    ("kaiser*", lambda b: jnp.kaiser(5, b), W[2]),
    ("packbits", lambda x: jnp.packbits(x > 0, axis=1), M),
    ("unpackbits", lambda x: jnp.unpackbits(x, axis=0), BYTES),
    ("unwrap*", lambda x: jnp.unwrap(3 * x), V),
    ("add.reduce*", lambda x: jnp.add.reduce(x, axis=1), M),
    ("multiply.accumulate*", jnp.multiply.accumulate, V),
    ("add.reduceat", lambda x: jnp.add.reduceat(x, [0, 2, 1]), V),
    ("subtract.outer*", jnp.subtract.outer, V, W),
    ("maximum.at", lambda x, y: jnp.maximum.at(x, np.array([0, 2]), y, inplace=False), V, W[:2]),
    ("quantile*", lambda x: jnp.quantile(x, 0.3, axis=1), M),
    ("quantile nearest", lambda x: jnp.quantile(x, 0.3, method="nearest"), M),
    ("quantile hazen", lambda x: jnp.quantile(x, W[2:3], method="hazen"), M),
    (
        "weighted quantile",
        lambda x, w: jnp.quantile(x, 0.4, weights=w, method="inverted_cdf"),
        V,
        W,
    ),
    ("nanmedian", jnp.nanmedian, M),
    ("take_along_axis*", lambda x, i: jnp.take_along_axis(x, i, 0), V, N4),
    ("interp*", lambda x, f: jnp.interp(x, np.arange(4.0, dtype=np.float32), f), W, V),
    ("histogram", lambda x, w: jnp.histogram(x, 3, (-2, 2), weights=w), V, W),
    ("unique", lambda x: jnp.unique(x, size=5, return_counts=True), V),
    ("setxor1d", lambda x, y: jnp.setxor1d(x, y, size=6), V, W),
    ("gradient*", lambda x: jnp.gradient(x, 2.0), V),
    ("pad*", lambda x: jnp.pad(x, 2, mode="reflect"), V),
    ("cov*", jnp.cov, M),
    ("einsum*", lambda x, y: jnp.einsum("ij,ij->i", x, y), M, M + 1),
    ("block*", lambda x, y: jnp.block([[x, y], [y, x]]), V, W),
    ("convolve*", jnp.convolve, V, W[:2]),
    ("lexsort", lambda x, y: jnp.lexsort((x, y)), V, W),
    ("choose", lambda x, y: jnp.choose(N4, [x, y, x, y], mode="clip"), V, W),
]
EVERY = pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])


@EVERY
@pytest.mark.parametrize("which", ["first", "last"])
def test_values(row, which):
    _, function, *args = row
    place = 0 if which == "first" else len(args) - 1
    if which == "last" and place == 0:
        return
    found = weft.jit(on_both(function, place))(*args)
    for got, want in zip(found, tree.leaves(function(*args)), strict=True):
        for block in np.asarray(got):
            np.testing.assert_allclose(block, np.asarray(want), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("row", [r for r in TABLE if r[0][-1] == "*"], ids=lambda row: row[0])
def test_derivatives_are_sums(row):
    _, function, *args = row
    numbers = [i for i, x in enumerate(args) if x.dtype.kind == "f"]

    def total(outs):
        return sum(jnp.sum(jnp.sin(x)) for x in tree.leaves(outs))

    both = on_both(function, 0)
    found = weft.jit(weft.grad(lambda *xs: total(both(*xs)), numbers))(*args)
    wanted = weft.grad(lambda *xs: 2 * total(function(*xs)), numbers)(*args)
    for got, want in zip(found, wanted, strict=True):
        assert_close(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)
