"""`weft.nn.dot_product_attention` against loops over batches, heads, queries and keys."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import dtypes
from weft.errors import DTypeError, ShapeError, WeftValueError
from weft.nn import dot_product_attention
from weft.testing import assert_close, check_grads, check_vmap, exact_array

pytestmark = pytest.mark.fast

B, T, S, N, K, H = 2, 5, 6, 4, 2, 3
MASK = np.random.default_rng(1).random((B, 1, T, S)) < 0.6
MASK[0, 0, 2] = False  # a query that may attend to nothing

CASES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "bias": {"bias": np.random.default_rng(2).normal(size=(1, N, T, S))},
    "bias of few dimensions": {"bias": np.random.default_rng(2).normal(size=(T, S))},
    "mask": {"mask": MASK},
    "causal": {"is_causal": True},
    "window": {"local_window_size": (1, 2)},
    "symmetric window": {"local_window_size": 1},
    "lengths": {"query_seq_lengths": np.array([3, 5]), "key_value_seq_lengths": np.array([2, 0])},
    "all": {
        "bias": np.random.default_rng(3).normal(size=(B, 1, 1, S)),
        "mask": MASK,
        "is_causal": True,
        "local_window_size": (2, 0),
        "key_value_seq_lengths": np.array([6, 4]),
    },
}


def operands(dtype=np.float64, seed=0):
    generator = np.random.default_rng(seed)
    shapes = ((B, T, N, H), (B, S, K, H), (B, S, K, H))
    return [generator.normal(size=shape).astype(dtype) for shape in shapes]


def by_loop(
    query,
    key,
    value,
    *,
    bias=None,
    mask=None,
    scale=None,
    is_causal=False,
    local_window_size=None,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
):
    scale = 1 / np.sqrt(H) if scale is None else scale
    everywhere = (B, N, T, S)
    bias = np.broadcast_to(0.0 if bias is None else bias, everywhere)
    allowed = np.broadcast_to(True if mask is None else mask, everywhere).copy()
    window = local_window_size
    window = (window, window) if isinstance(window, int) else window
    out, sums = np.zeros(query.shape), np.full((B, T, N), -np.inf)
    for b, n, t, s in np.ndindex(*everywhere):
        fits = not is_causal or s <= t
        fits = fits and (window is None or t - window[0] <= s <= t + window[1])
        fits = fits and (query_seq_lengths is None or t < query_seq_lengths[b])
        fits = fits and (key_value_seq_lengths is None or s < key_value_seq_lengths[b])
        allowed[b, n, t, s] &= fits
    for b, n, t in np.ndindex(B, N, T):
        group = n // (N // K)
        logits = scale * key[b, :, group] @ query[b, t, n] + bias[b, n, t]
        weights = np.where(allowed[b, n, t], np.exp(logits), 0)
        if weights.sum():
            sums[b, t, n] = np.log(weights.sum())
            out[b, t, n] = weights @ value[b, :, group] / weights.sum()
    return out, sums


def converted(case, dtype=np.float64):
    return {
        name: exact_array(x.astype(dtype) if x.dtype.kind == "f" else x)
        if isinstance(x, np.ndarray)
        else x
        for name, x in CASES[case].items()
    }


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    given = operands()
    want, sums = by_loop(*given, **CASES[case])
    got, residual = dot_product_attention(
        *map(exact_array, given), **converted(case), return_residual=True
    )
    np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.asarray(residual), sums, rtol=1e-13)


@pytest.mark.parametrize(
    "dtype, bound",
    [(dtypes.float32, 1e-6), (dtypes.bfloat16, 2e-2), (dtypes.float16, 2e-3)],
    ids=["float32", "bfloat16", "float16"],
)
def test_other_dtypes(dtype, bound):
    given = [x.astype(dtype) for x in operands()]
    want, _ = by_loop(*(x.astype(np.float64) for x in given), is_causal=True)
    got = dot_product_attention(*map(exact_array, given), is_causal=True)
    assert got.dtype == dtype
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, atol=bound)


def test_large_logits_neither_overflow_nor_vanish():
    query, key, value = operands(np.float32)
    got = dot_product_attention(1e4 * query, key, value)
    assert np.isfinite(np.asarray(got)).all()


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    """Also where a query may attend to nothing: zeros, no NaN."""
    options = converted(case)
    check_grads(
        lambda q, k, v: dot_product_attention(q, k, v, **options),
        tuple(map(exact_array, operands())),
        order=2 if case in ("plain", "mask") else 1,
    )


def test_without_batch_and_mapped():
    query, key, value = operands()
    whole = dot_product_attention(query, key, value)
    one = dot_product_attention(query[0], key[0], value[0])
    assert_close(one, whole[0], what="without a batch dimension")
    check_vmap(dot_product_attention, (query[0], key[0], value[0]))


def test_a_batch_over_devices():
    mesh = weft.make_mesh((2,), ("i",))
    given = operands(np.float32)
    spec = weft.P("i")
    sharded = weft.shard_map(
        lambda *xs: dot_product_attention(*xs, is_causal=True),
        mesh=mesh,
        in_specs=spec,
        out_specs=spec,
    )
    assert_close(sharded(*given), dot_product_attention(*given, is_causal=True))
    got = weft.grad(lambda *xs: (sharded(*xs) ** 2).sum(), (0, 1, 2))(*given)
    want = weft.grad(
        lambda *xs: (dot_product_attention(*xs, is_causal=True) ** 2).sum(), (0, 1, 2)
    )(*given)
    assert_close(got, want)


def bad_calls():
    q, k, v = operands(np.float32)
    yield (lambda f: f(q[0, 0], k, v)), ShapeError, "query has 2 dimensions"
    yield (lambda f: f(q, k, v[:, :3])), ShapeError, "key and value differ"
    yield (lambda f: f(q, k[..., :2], v[..., :2])), ShapeError, "differ in B or H"
    yield (lambda f: f(q[:, :, :3], k, v)), ShapeError, "shared out"
    yield (lambda f: f(q, k.astype(np.float16), v)), DTypeError, "key.astype"
    yield (lambda f: f(q > 0, k > 0, v > 0)), DTypeError, "floating-point"
    yield (lambda f: f(q, k, v, mask=MASK.astype(np.int32))), DTypeError, "mask"
    yield (lambda f: f(q, k, v, mask=MASK[..., :2])), ShapeError, "mask"
    yield (lambda f: f(q, k, v, bias=MASK)), DTypeError, "bias"
    yield (lambda f: f(q, k, v, bias=np.zeros((1, 1, 1, 1, 1)))), ShapeError, "bias"
    yield (lambda f: f(q, k, v, query_seq_lengths=np.ones(2))), DTypeError, "query_seq_lengths"
    yield (lambda f: f(q, k, v, key_value_seq_lengths=np.arange(3))), ShapeError, "key_value_seq"
    yield (lambda f: f(q, k, v, local_window_size=(1, -1))), WeftValueError, "local_window_size"


@pytest.mark.parametrize(
    "call, error, says", list(bad_calls()), ids=[says for _, _, says in bad_calls()]
)
def test_bad_input(call, error, says):
    with pytest.raises(error, match=says) as caught:
        call(dot_product_attention)
    assert "dot_product_attention" in str(caught.value)
