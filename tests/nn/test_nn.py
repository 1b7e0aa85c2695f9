"""Functions of neural networks against formulas in double precision, corners and masks included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import weft.numpy as jnp
from weft import nn
from weft.api.autodiff import grad, jvp
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.config import enable_x64
from weft.errors import DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.testing import check_grads, check_vmap, exact_array

POINTS = np.array([-30.0, -4.1, -1.3, -0.4, 0.3, 0.9, 2.2, 3.7, 5.5, 30.0])


def softplus(x):
    return np.logaddexp(x, 0)


def curve(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


SELU = (1.6732632423543772, 1.0507009873554805)
REFERENCES = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": scipy.special.expit,
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
    "silu": lambda x: x * scipy.special.expit(x),
    "swish": lambda x: x * scipy.special.expit(x),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "elu": lambda x: curve(x, 1.0),
    "celu": lambda x: curve(x, 1.0),
    "selu": lambda x: SELU[1] * curve(x, SELU[0]),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "tanh": np.tanh,
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_values(name):
    function = getattr(nn, name)
    expected = REFERENCES[name](POINTS)
    for dtype, rtol in (
        ("float64", 1e-13),
        ("float32", 1e-5),
        ("bfloat16", 0.05),
        ("float16", 0.01),
    ):
        out = function(exact_array(POINTS, dtype))
        assert out.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(out).astype(float), expected, rtol=rtol, atol=rtol, err_msg=dtype
        )
    np.testing.assert_allclose(
        np.asarray(jit(function)(exact_array(POINTS, "float64"))), expected, rtol=1e-12, atol=1e-15
    )


def test_relu_reads_its_operand_once():
    """XLA computes a maximum again in each loop that reads it; what reads twice, it keeps."""
    x = np.ones((3, 2), np.float32)
    text = jit(nn.relu).lower(x).as_text()
    assert "stablehlo.maximum" in text and "stablehlo.select" not in text
    value, slope = jvp(nn.relu, (jnp.array([np.nan, -1.0, 2.0]),), (jnp.ones(3),))
    np.testing.assert_array_equal(value, [np.nan, 0, 2])
    np.testing.assert_array_equal(slope, [1, 0, 1])


@pytest.mark.parametrize("name", REFERENCES)
def test_derivatives(name):
    check_grads(getattr(nn, name), [exact_array(POINTS[1:-1], "float64")], 2)


@pytest.mark.parametrize("name", REFERENCES)
def test_extremes(name):
    function = getattr(nn, name)
    for value in (-1e4, 1e4):
        assert np.isfinite(grad(function)(value).item()), value
        assert np.isfinite(function(value).item()), value
    assert np.isnan(function(np.float32(np.nan)).item())
    check_vmap(function, [exact_array(POINTS[:3], "float32")])


@pytest.mark.parametrize(
    ("name", "at", "slope"),
    [
        ("relu", 0.0, 0.0), ("relu", -0.0, 0.0), ("relu6", 0.0, 0.0), ("relu6", 6.0, 0.0),
        ("leaky_relu", 0.0, 1.0), ("elu", 0.0, 1.0), ("celu", 0.0, 1.0), ("hard_tanh", 1.0, 1.0),
        ("hard_tanh", -1.0, 1.0), ("hard_sigmoid", 3.0, 0.0), ("hard_sigmoid", -3.0, 0.0),
        ("sparse_plus", 1.0, 1.0), ("sparse_plus", -1.0, 0.0), ("soft_sign", 0.0, 1.0),
    ],
)  # fmt: skip
def test_slopes_at_corners(name, at, slope):
    function = getattr(nn, name)
    assert grad(function)(at).item() == slope
    assert jvp(function, (at,), (1.0,))[1].item() == slope
    assert jit(grad(function))(at).item() == slope


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("b", [0.5, 4, 1e4])
def test_squareplus_neither_overflows_nor_cancels(b, dtype):
    """Held to b / (r - x) for negative x, in longdouble, wherever the dtype has numbers."""
    with enable_x64():
        largest = float(jnp.finfo(dtype).max)
        size = np.array([0.0, 1.0, 20.0, 800.0, 3e4, largest**0.6, largest / 4])
        given = exact_array(np.concatenate([-size, size]), dtype)
        x = np.asarray(given).astype(np.longdouble)
        root = np.hypot(x, np.sqrt(np.longdouble(b)))
        want = np.where(x < 0, b / (root + np.abs(x)), root + x) / 2
        got = np.asarray(nn.squareplus(given, b)).astype(np.longdouble)
        eps = float(jnp.finfo(dtype).eps)
        tiny = float(jnp.finfo(dtype).tiny)
        np.testing.assert_allclose(got, want, rtol=4 * eps, atol=tiny)
        slope = vmap(grad(lambda v: nn.squareplus(v, b)))(given)
        assert np.isfinite(np.asarray(slope).astype(float)).all()


def test_integers():
    assert nn.relu(jnp.arange(-1, 2)).dtype == np.int32
    assert nn.hard_tanh(jnp.arange(-2, 3)).tolist() == [-1, -1, 0, 1, 1]
    for name in ("gelu", "sigmoid", "softplus", "relu6", "elu", "silu", "soft_sign"):
        assert getattr(nn, name)(jnp.arange(3)).dtype == np.float32
    for name in ("gelu", "relu6", "elu", "softplus"):
        with pytest.raises(DTypeError, match="c64"):
            getattr(nn, name)(jnp.array([1j]))


def test_parameters():
    x = exact_array(POINTS, "float64")
    np.testing.assert_allclose(np.asarray(nn.elu(x, 0.3)), curve(POINTS, 0.3))
    np.testing.assert_allclose(
        np.asarray(nn.celu(x, 0.3)), np.where(POINTS > 0, POINTS, 0.3 * np.expm1(POINTS / 0.3))
    )
    alpha = exact_array(0.3, "float64")
    for function in (nn.elu, nn.celu, nn.leaky_relu, nn.squareplus):
        check_grads(function, [x[2:-2], alpha], 1)
        np.testing.assert_allclose(
            np.asarray(function(x, 0.3)), np.asarray(function(x, alpha)), rtol=1e-12
        )
    exact = POINTS * scipy.special.ndtr(POINTS)
    np.testing.assert_allclose(np.asarray(nn.gelu(x, approximate=False)), exact, rtol=1e-12)
    check_grads(lambda x: nn.gelu(x, approximate=False), [x[1:-1]], 2)


def test_log1mexp():
    x = np.array([1e-10, 0.1, 0.6, 0.7, 5.0, 40.0])
    got = np.asarray(nn.log1mexp(exact_array(x, "float64")))
    np.testing.assert_allclose(
        got, np.where(x < 1, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x))), rtol=1e-12
    )
    check_grads(nn.log1mexp, [exact_array(x[1:], "float64")], 2)


def test_glu():
    x = np.random.default_rng(0).normal(size=(4, 6))
    for axis in (0, 1, -1):
        a, b = np.split(x, 2, axis)
        got = nn.glu(exact_array(x, "float64"), axis)
        np.testing.assert_allclose(np.asarray(got), a * scipy.special.expit(b))
    with pytest.raises(ShapeError, match="even"):
        nn.glu(jnp.ones((2, 3)))


# ---- softmax and its relatives -----------------------------------------------------------------

MATRIX = np.random.default_rng(1).normal(size=(3, 4)) * 3
MASK = np.random.default_rng(2).random((3, 4)) > 0.4
MASK[:, 1] = MASK[1] = True
WEIGHTS = np.random.default_rng(3).normal(size=(3, 4))
AXES = [None, 0, 1, -1, (0, 1)]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("masked", [False, True])
def test_softmax(axis, masked):
    x, where = exact_array(MATRIX, "float64"), MASK if masked else None
    given = np.where(MASK, MATRIX, -np.inf) if masked else MATRIX
    np.testing.assert_allclose(
        np.asarray(nn.softmax(x, axis, where=where)), scipy.special.softmax(given, axis)
    )
    with np.errstate(divide="ignore"):
        expected = np.log(scipy.special.softmax(given, axis))
    np.testing.assert_allclose(
        np.asarray(nn.log_softmax(x, axis, where=where)), expected, rtol=1e-12
    )
    check_grads(lambda x: nn.softmax(x, axis, where=where), [x], 2 if axis == 1 else 1)
    if not masked:
        check_grads(lambda x: nn.log_softmax(x, axis), [x], 2 if axis == 1 else 1)


def test_softmax_of_extremes():
    x = jnp.array([1000.0, 0.0, -1000.0])
    assert nn.softmax(x).tolist() == [1.0, 0.0, 0.0]
    assert nn.log_softmax(x).tolist() == [0.0, -1000.0, -2000.0]
    assert nn.softmax(jnp.array([-jnp.inf, 0.0])).tolist() == [0.0, 1.0]
    slopes = grad(lambda x: nn.softmax(x, where=jnp.array([True, False]))[0])(jnp.array([1.0, 2.0]))
    assert slopes.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims):
    x = exact_array(MATRIX, "float64")
    got = nn.logsumexp(x, axis, keepdims=keepdims)
    expected = scipy.special.logsumexp(MATRIX, axis, keepdims=keepdims)
    assert got.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(got), expected)
    masked = nn.logsumexp(x, axis, keepdims=keepdims, where=MASK)
    np.testing.assert_allclose(
        np.asarray(masked),
        scipy.special.logsumexp(MATRIX, axis, b=MASK.astype(float), keepdims=keepdims),
    )
    weighted, sign = nn.logsumexp(
        x, axis, b=exact_array(WEIGHTS, "float64"), keepdims=keepdims, return_sign=True
    )
    expected, expected_sign = scipy.special.logsumexp(
        MATRIX, axis, b=WEIGHTS, keepdims=keepdims, return_sign=True
    )
    np.testing.assert_allclose(np.asarray(weighted), expected)
    np.testing.assert_array_equal(np.asarray(sign), expected_sign)
    mean = nn.logmeanexp(x, axis, keepdims=keepdims)
    np.testing.assert_allclose(
        np.asarray(mean), np.log(np.mean(np.exp(MATRIX), axis=axis, keepdims=keepdims))
    )
    check_grads(lambda x: nn.logsumexp(x, axis, keepdims=keepdims), [x], 2)


def test_logsumexp_of_special_values():
    assert nn.logsumexp(jnp.array([-jnp.inf, -jnp.inf])).item() == -np.inf
    assert nn.logsumexp(jnp.array([jnp.inf, 0.0])).item() == np.inf
    assert np.isnan(nn.logsumexp(jnp.array([0.0]), b=-1.0).item())
    assert nn.logsumexp(jnp.array([jnp.inf, 1.0]), b=jnp.array([0.0, 1.0])).item() == 1.0
    # Terms that cancel: the logarithm has an infinite derivative, that of the size a corner.
    cancel, b = jnp.array([1.0, 1.0]), jnp.array([1.0, -1.0])
    got, sign = nn.logsumexp(cancel, b=b, return_sign=True)
    assert (got.item(), sign.item()) == (-np.inf, 0.0)
    slopes = grad(lambda x: nn.logsumexp(x, b=b))(cancel)
    np.testing.assert_array_equal(slopes, [np.inf, -np.inf])
    slopes = grad(lambda x: nn.logsumexp(x, b=b, return_sign=True)[0])(cancel)
    np.testing.assert_array_equal(slopes, [0.0, 0.0])
    slopes = grad(lambda x: nn.logsumexp(x, b=b))(jnp.array([-jnp.inf, -jnp.inf]))
    np.testing.assert_array_equal(slopes, [0.0, 0.0])
    z = np.array([1 + 1j, 2.0 - 3j])
    np.testing.assert_allclose(
        nn.logsumexp(exact_array(z, "complex128")).item(), np.log(np.exp(z).sum())
    )
    masked = nn.logmeanexp(exact_array(MATRIX, "float64"), 1, where=MASK)
    expected = [np.log(np.mean(np.exp(r[m]))) for r, m in zip(MATRIX, MASK, strict=True)]
    np.testing.assert_allclose(np.asarray(masked), expected)


@pytest.mark.parametrize("algorithm", ["fast", "stable"])
@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_standardize(algorithm, axis):
    x = exact_array(MATRIX, "float64")
    mean, variance = MATRIX.mean(axis, keepdims=True), MATRIX.var(axis, keepdims=True)
    got = nn.standardize(x, axis, algorithm=algorithm)
    np.testing.assert_allclose(np.asarray(got), (MATRIX - mean) / np.sqrt(variance + 1e-5))
    given = nn.standardize(x, axis, mean=0.5, variance=4.0, epsilon=0)
    np.testing.assert_allclose(np.asarray(given), (MATRIX - 0.5) / 2)
    check_grads(lambda x: nn.standardize(x, axis, algorithm=algorithm), [x], 1)


def test_standardize_with_a_mask():
    x = exact_array(MATRIX, "float64")
    rows = [
        (r - r[m].mean()) / np.sqrt(r[m].var() + 1e-5) for r, m in zip(MATRIX, MASK, strict=True)
    ]
    got = nn.standardize(x, where=MASK, algorithm="stable")
    np.testing.assert_allclose(np.asarray(got), rows)
    with pytest.raises(WeftValueError, match="algorithm") as caught:
        nn.standardize(x, algorithm="slow")
    assert nn.standardize(x, **caught.value.fix.data).shape == x.shape


def test_masks_are_boolean():
    for function in (nn.softmax, nn.log_softmax, nn.logsumexp, nn.standardize):
        with pytest.raises(DTypeError, match="mask"):
            function(jnp.ones(3), where=jnp.ones(3))


# ---- one-hot -----------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [-1, 0, 1, 2, -3])
def test_one_hot(axis):
    x = np.array([[0, 2, 5], [-1, 1, 1]])
    expected = np.moveaxis((x[..., None] == np.arange(3)).astype(np.float32), -1, axis)
    got = nn.one_hot(jnp.asarray(x), 3, axis=axis)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(got), expected)


def test_one_hot_of_other_dtypes():
    np.testing.assert_array_equal(nn.one_hot([0, 2], 3), np.eye(3)[[0, 2]])
    assert nn.one_hot(jnp.arange(2), 2, dtype="int8").dtype == np.int8
    assert nn.one_hot(True, 2).tolist() == [0, 1]
    assert nn.one_hot(2, 3).tolist() == [0, 0, 1]
    assert nn.one_hot(jnp.array([1.0]), 2).tolist() == [[0, 1]]
    assert nn.one_hot(exact_array([3], "uint8"), 300).shape == (1, 300)
    assert nn.one_hot(exact_array([3], "int8"), 300)[0].tolist() == [
        float(i == 3) for i in range(300)
    ]
    mapped = vmap(lambda i: nn.one_hot(i, 3))(jnp.arange(3))
    assert mapped.tolist() == np.eye(3).tolist()
    with pytest.raises(WeftTypeError, match="axis"):
        nn.one_hot(jnp.arange(2), 2, axis="i")
    with pytest.raises(TypeError, match="static_argnums"):
        jit(nn.one_hot)(jnp.arange(2), 2)


def test_a_composite_function_is_its_primitives_in_a_program():
    names = {eqn.primitive.name for eqn in make_jaxpr(nn.softmax)(jnp.ones(3)).eqns}
    assert "jit" not in names and {"exp", "div", "reduce_max"} <= names


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "hard_silu"])
def test_far_below_zero_value_and_slope_are_zero(name, dtype):
    with enable_x64():
        x = jnp.array([-math.inf, -3e4, -1000.0, -300.0], dtype)
        np.testing.assert_allclose(getattr(nn, name)(x), np.zeros(4), atol=1e-100)
        np.testing.assert_allclose(vmap(grad(getattr(nn, name)))(x), np.zeros(4), atol=1e-100)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["silu", "mish", "gelu", "hard_silu"])
def test_far_above_zero_the_slope_is_one(name, dtype):
    with enable_x64():
        x = jnp.array([300.0, 1000.0, 3e4], dtype)
        np.testing.assert_array_equal(getattr(nn, name)(x), x)
        np.testing.assert_array_equal(vmap(grad(getattr(nn, name)))(x), np.ones(3))


def test_soft_sign_at_infinity():
    np.testing.assert_array_equal(nn.soft_sign(jnp.array([-math.inf, math.inf])), [-1, 1])


def test_rows_of_which_nothing_counts():
    """They are 0 in a softmax, and give derivatives of 0 to what they are made of."""
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    mask = np.array([[False] * 3, [True, False, True]])
    share = 1 / (1 + math.exp(2))
    want = [[0, 0, 0], [share, 0, 1 - share]]
    np.testing.assert_allclose(nn.softmax(x, where=mask), want, rtol=1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(nn.log_softmax(x, where=mask), np.log(want), rtol=1e-6)
    slope = share * (1 - share)
    for function in (nn.softmax, lambda x, where: jnp.exp(nn.log_softmax(x, where=where))):
        found = grad(lambda x, f=function: f(x, where=mask)[:, 0].sum())(x)
        np.testing.assert_allclose(found, [[0, 0, 0], [slope, 0, -slope]], rtol=1e-5)
    for options in ({}, {"return_sign": True}):

        def last(x, options=options):
            found = nn.logsumexp(x, axis=1, **options)
            return jnp.exp(found[0] if options else found).sum()

        lost = np.where(mask, x, -math.inf).astype(np.float32)
        want = np.where(mask, np.exp(x), 0)
        np.testing.assert_allclose(grad(last)(lost), want, rtol=1e-5)
    nothing = jnp.full(3, -math.inf)
    assert nn.logsumexp(nothing) == -math.inf
    np.testing.assert_array_equal(grad(nn.logsumexp)(nothing), np.zeros(3))


@pytest.mark.parametrize("name", ["squareplus", "sparse_plus"])
def test_slopes_at_infinity_are_numbers(name):
    function = getattr(nn, name)
    for order, wanted in ((1, (1.0, 0.0)), (2, (0.0, 0.0))):
        slope = function
        for _ in range(order):
            slope = grad(slope)
        assert (float(slope(np.float32(np.inf))), float(slope(np.float32(-np.inf)))) == wanted
