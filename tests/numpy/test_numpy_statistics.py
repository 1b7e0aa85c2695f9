"""Reductions, order statistics, histograms, differences: held to NumPy row by row."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from numpy_cases import case, check
from weft.errors import ConcretizationError, DTypeError, ShapeError, WeftValueError

RANDOM = np.random.default_rng(2)
V = RANDOM.normal(size=7)
M = RANDOM.normal(size=(3, 4))
T = RANDOM.normal(size=(2, 3, 4))
C = RANDOM.normal(size=(3, 4)) + 1j * RANDOM.normal(size=(3, 4))
N = np.array([[3.0, np.nan, -1.0, 4.0], [1.0, np.nan, np.nan, 0.5], [2.0, 5.0, 2.0, np.nan]])
WHOLE = RANDOM.integers(-5, 6, size=(3, 4))
B = WHOLE > 0
MASK = np.array([[True], [False], [True]])

AXES = (None, 0, -1, (0, 2), (0, 1, 2))
REDUCTIONS = [
    *[
        case(name, T, axis=axis, keepdims=keep, _grad=axis == (0, 2) and not keep and name != "ptp")
        for name in ("sum", "prod", "mean", "std", "var", "max", "min", "ptp")
        for axis in AXES
        for keep in (False, True)
    ],
    *[case(name, T, axis=(0, 2)) for name in ("any", "all", "count_nonzero")],
    *[
        case(name, WHOLE, axis=0)
        for name in ("sum", "prod", "max", "min", "any", "all", "count_nonzero")
    ],
    *[
        case(name, B, axis=1)
        for name in ("sum", "prod", "max", "min", "any", "all", "count_nonzero")
    ],
    *[case(name, C, axis=1) for name in ("sum", "prod", "mean", "var", "std")],
    case("var", C, _grad=True),
    *[case(name, WHOLE) for name in ("mean", "std", "var")],
    *[case(name, M, where=MASK) for name in ("sum", "prod", "mean", "std", "var", "any", "all")],
    *[case(name, M, 0, initial=2.0) for name in ("sum", "prod", "max", "min")],
    *[case(name, M, axis=0, initial=0.5, where=MASK) for name in ("sum", "prod", "max", "min")],
    *[case(name, M, axis=0, ddof=1) for name in ("std", "var")],
    *[case(name, M, axis=0, ddof=0.5) for name in ("std", "var")],
    case("var", M, correction=1, _reference=lambda x, correction: np.var(x, ddof=correction)),
    case("sum", WHOLE, dtype="float64"),
    case("sum", B, dtype=bool),
    case("mean", WHOLE, dtype="complex128"),
    case("sum", np.zeros((0, 3)), axis=0),
    case("prod", np.zeros((0, 3))),
    case("max", np.zeros((0, 3)), axis=1),
    case("amax", M, 0),
    case("amin", M, 0),
    case("average", M, axis=0),
    case("average", M, axis=1, weights=np.array([1.0, 2, 3, 4])),
    case("average", T, axis=(2, 0), weights=np.arange(8.0).reshape(4, 2)),
    case("average", M, weights=M**2, returned=True),
    case("average", WHOLE, axis=0, returned=True, keepdims=True),
]
NAN = [
    *[
        case(name, N, axis=axis, keepdims=keep)
        for name in (
            "nansum",
            "nanprod",
            "nanmean",
            "nanvar",
            "nanstd",
            "nanmax",
            "nanmin",
            "nanmedian",
        )
        for axis, keep in ((None, False), (0, True), (1, False))
    ],
    case("nansum", C),
    case("nanmean", WHOLE),
    case("nanvar", N, axis=0, ddof=1),
    case("nanmax", WHOLE, axis=0),
    case("nanquantile", N, 0.3, axis=1),
    case("nanpercentile", N, 30, axis=0),
]
ORDER = [
    *[
        case("quantile", M, q, axis=axis, keepdims=keep)
        for q in (0.3, np.array([0.0, 0.25, 1.0]))
        for axis in (None, 0, (0, 1))
        for keep in (False, True)
    ],
    *[
        case("quantile", V, np.array([0.1, 0.25, 0.5, 0.9]), method=method, _vmap=False)
        for method in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    case("quantile", M, 0.3, axis=0, _grad=True),
    case("quantile", N, 0.5, axis=1),
    case("quantile", WHOLE, 0.3),
    case("percentile", V, 30),
    case("percentile", WHOLE, np.array([30.0, 50]), axis=0),
    case("median", M, axis=0),
    case("median", M, _grad=True),
    case("median", WHOLE),
    case("median", N, axis=0),
    case("median", T, axis=(0, 2), keepdims=True),
]
# The rows over q compare vmapped halves of q too, which NumPy takes one by one.
COVARIANCE = [
    case("cov", M, _grad=True),
    case("cov", M, rowvar=False),
    case("cov", V),
    case("cov", M, 2 * M[::-1]),
    case("cov", V, V[::-1].copy(), _vmap=False),
    case("cov", M, bias=True),
    case("cov", M, ddof=2),
    case("cov", M, fweights=np.array([1, 2, 0, 3]), aweights=np.array([0.5, 1, 2, 3])),
    case("cov", C),
    case("corrcoef", M, _grad=True),
    case("corrcoef", C),
    case("corrcoef", V, V[::-1].copy(), _vmap=False),
]
EDGES = np.array([-2.0, -0.5, 0.0, 1.0, 1.5])
HISTOGRAMS = [
    case("bincount", np.array([1, 3, 1, 0]), _jit=False),
    case("bincount", np.array([1, 3, 1, 0]), np.array([0.5, 1, 2, 3]), minlength=6, _jit=False),
    case("bincount", np.zeros(0, int), minlength=2, _jit=False),
    case("histogram", V, _dtype=False),
    case("histogram", V, 3, range=(-1.0, 1.0), _dtype=False),
    case("histogram", M, EDGES, _dtype=False, _vmap=False),
    case("histogram", V, 4, weights=V**2, density=True),
    case("histogram", np.ones(3), 4, _dtype=False),
    case("histogram", np.append(V, EDGES), EDGES, density=True, _vmap=False),
    case("histogram_bin_edges", V, 5),
    case("histogram2d", V, V[::-1].copy(), 3, _vmap=False),
    case("histogram2d", V, V[::-1].copy(), [3, EDGES], density=True, _vmap=False),
    case("histogramdd", RANDOM.normal(size=(9, 3)), [2, 3, EDGES], _vmap=False),
    case("histogramdd", RANDOM.normal(size=(9, 2)), 3, range=[(-1, 1), (-2, 0)], _vmap=False),
]
DIFFERENCES = [
    case("diff", M, _grad=True),
    case("diff", M, 2, axis=0),
    case("diff", V, 9),
    case("diff", V, prepend=0.0, append=V[:2]),
    case("diff", B, axis=1),
    case("ediff1d", M),
    case("ediff1d", V, to_end=np.array([1.0, 2.0]), to_begin=5.0),
    case("gradient", M, _grad=True),
    case("gradient", V, 0.5),
    case("gradient", M, 0.5, 2.0),
    case("gradient", M, axis=1),
    case("gradient", V, np.cumsum(V**2 + 0.1), _vmap=False, _grad=True),
    case("gradient", M, np.array([0.0, 1.0, 3.0]), 2.0, _vmap=False),
    case("gradient", np.arange(4)),
    case("trapezoid", M, _grad=True),
    case("trapezoid", V, dx=0.5),
    case("trapezoid", M, np.array([0.0, 1, 3, 4]), _vmap=False),
    case("trapezoid", M, M**2, axis=0),
    case("trapezoid", np.arange(4)),
    *[
        case(name, x, y, mode=mode, _vmap=False)
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for x, y in (
            (V, V[:3]),
            (V, V[:4]),
            (V[:3], V),
            (V[:4], V),
            (C[0], C[1, :3]),
            (C[1, :2], C[0]),
        )
    ],
    case("convolve", WHOLE[0], WHOLE[1], _vmap=False),
    case("convolve", V, V[:3], _vmap=False, _grad=True),
    case("correlate", V[:3], V, "full", _vmap=False, _grad=True),
]
if not hasattr(np, "trapezoid"):
    DIFFERENCES = [
        case("trapezoid", *c.args, **c.kwargs, _reference=np.trapz) if c.name == "trapezoid" else c
        for c in DIFFERENCES
    ]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "row", REDUCTIONS + NAN + ORDER + COVARIANCE + HISTOGRAMS + DIFFERENCES, ids=str
)
def test_row(row):
    check(row)


def test_narrow_floats_are_summed_wide():
    for dtype in (jnp.float16, jnp.bfloat16):
        x = jnp.full((10_000,), 0.125, dtype)
        for name, expected in (("sum", 1250), ("mean", 0.125), ("var", 0), ("nansum", 1250)):
            out = getattr(jnp, name)(x)
            assert out.dtype == dtype
            assert abs(float(out) - expected) <= 4 * (expected > 1)


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("sum", "bool", "int32"),
        ("sum", "int8", "int32"),
        ("sum", "uint8", "uint32"),
        ("sum", "int32", "int32"),
        ("sum", "float16", "float16"),
        ("prod", "bool", "int32"),
        ("max", "int8", "int8"),
        ("mean", "int8", "float32"),
        ("mean", "bfloat16", "bfloat16"),
        ("var", "complex64", "float32"),
        ("median", "int32", "float32"),
        ("any", "float32", "bool"),
        ("count_nonzero", "float32", "int32"),
        ("trace", "int8", "int32"),
    ],
)
def test_result_dtypes(name, source, expected):
    x = jnp.ones((2, 2), source)
    out = getattr(jnp, name)(x)
    assert out.dtype == jnp.dtype(expected) and not out.weak_type


def test_explicit_wide_dtypes_are_honoured():
    assert jnp.sum(jnp.ones(3), dtype="float64").dtype == np.float64
    assert jnp.mean(jnp.ones(3), dtype="float64").dtype == np.float64


def test_nan_does_not_poison_derivatives():
    for name in ("nansum", "nanmean", "nanvar", "nanmax"):
        slope = weft.grad(lambda x, name=name: getattr(jnp, name)(x))(N[0].astype(np.float32))
        assert np.isfinite(slope).all() and float(slope[1]) == 0


def test_all_nan():
    x = np.full((2, 2), np.nan)
    assert np.isnan(jnp.nanmax(x)) and np.isnan(jnp.nanmean(x)) and float(jnp.nansum(x)) == 0
    assert np.isnan(jnp.nanmedian(x, axis=0)).all()


def test_bincount_of_a_traced_array():
    f = weft.jit(lambda x: jnp.bincount(x, length=3))
    np.testing.assert_array_equal(f(np.array([0, 2, 2, 5])), [1, 0, 2])


def test_quantiles_of_traced_fractions():
    slope = weft.jit(weft.grad(lambda q: jnp.quantile(np.arange(5.0), q)))(0.3)
    np.testing.assert_allclose(slope, 4, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jnp.sum(M, unknown=1), TypeError, "unknown"),
        (lambda: jnp.max(np.zeros(0)), WeftValueError, "no elements"),
        (lambda: jnp.max(M, where=MASK), WeftValueError, "initial"),
        (lambda: jnp.var(M, ddof=1, correction=1), WeftValueError, "correction"),
        (lambda: jnp.average(M, weights=V), WeftValueError, "weights"),
        (lambda: jnp.quantile(M, 30), WeftValueError, "call percentile"),
        (lambda: jnp.nanquantile(M, [0.5, -0.1]), WeftValueError, "between 0 and 1"),
        (lambda: jnp.percentile(M, 120), WeftValueError, "between 0 and 100"),
        (lambda: jnp.nanpercentile(M, np.array([1.0, np.nan])), WeftValueError, "between"),
        (lambda: jnp.quantile(C, 0.5), WeftValueError, "real"),
        (lambda: jnp.cov(T), ShapeError, "cov"),
        (lambda: jnp.bincount(V), DTypeError, "integers"),
        (lambda: weft.jit(jnp.bincount)(np.arange(3)), ConcretizationError, "length="),
        (lambda: jnp.diff(1.0), ShapeError, "dimensions"),
        (lambda: jnp.gradient(V[:1]), ShapeError, "two or more"),
        (lambda: jnp.gradient(M, 1.0, 2.0, 3.0), WeftValueError, "steps"),
        (lambda: jnp.trapezoid(V, V[:2]), ShapeError, "do not fit"),
        (lambda: jnp.convolve(M, V), ShapeError, "one dimension"),
    ],
)
def test_wrong_calls_raise(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_edges_that_are_given_come_back_as_arrays():
    for edges in (np.array([0.0, 1.0, 2.0], np.float32), [0, 1, 2]):
        for found in (jnp.histogram_bin_edges(V, edges), jnp.histogram(V, edges)[1]):
            assert isinstance(found, weft.Array)
            np.testing.assert_array_equal(found, [0.0, 1.0, 2.0])
