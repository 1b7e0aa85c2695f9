"""`weft.nn.initializers`: moments and distributions of what they draw, and the axes they count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

import weft
from weft import dtypes
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.nn import initializers

pytestmark = pytest.mark.fast

KEY = weft.random.key(7)
# A convolution: a window of 3 by 2, 40 inputs, 60 outputs.
SHAPE = (3, 2, 40, 60)
FANS = {"fan_in": 240.0, "fan_out": 360.0, "fan_avg": 300.0, "fan_geo_avg": math.sqrt(240 * 360)}
NAMED = {
    "glorot_normal": (1, "fan_avg", "truncated_normal"),
    "glorot_uniform": (1, "fan_avg", "uniform"),
    "xavier_normal": (1, "fan_avg", "truncated_normal"),
    "xavier_uniform": (1, "fan_avg", "uniform"),
    "he_normal": (2, "fan_in", "truncated_normal"),
    "he_uniform": (2, "fan_in", "uniform"),
    "kaiming_normal": (2, "fan_in", "truncated_normal"),
    "kaiming_uniform": (2, "fan_in", "uniform"),
    "lecun_normal": (1, "fan_in", "truncated_normal"),
    "lecun_uniform": (1, "fan_in", "uniform"),
}


def fits(sample, distribution):
    """A Kolmogorov–Smirnov test that a right generator fails once in a million."""
    assert (
        scipy.stats.kstest(np.asarray(sample, np.float64).ravel(), distribution.cdf).pvalue > 1e-6
    )


def of_variance(name, variance):
    deviation = math.sqrt(variance)
    if name == "normal":
        return scipy.stats.norm(0, deviation)
    if name == "uniform":
        return scipy.stats.uniform(-math.sqrt(3) * deviation, 2 * math.sqrt(3) * deviation)
    return scipy.stats.truncnorm(-2, 2, scale=deviation / scipy.stats.truncnorm(-2, 2).std())


@pytest.mark.parametrize("mode", FANS)
@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
def test_variance_scaling(mode, distribution):
    draw = initializers.variance_scaling(1.5, mode, distribution)
    fits(draw(KEY, SHAPE), of_variance(distribution, 1.5 / FANS[mode]))


@pytest.mark.parametrize("name", NAMED)
def test_named(name):
    scale, mode, distribution = NAMED[name]
    sample = getattr(initializers, name)()(KEY, SHAPE)
    assert sample.shape == SHAPE
    assert sample.dtype == np.float32
    fits(sample, of_variance(distribution, scale / FANS[mode]))


@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
def test_complex_numbers(distribution):
    draw = initializers.variance_scaling(2.0, "fan_in", distribution, dtype="complex64")
    sample = np.asarray(draw(KEY, (100, 200))).astype(np.complex128)
    square = np.abs(sample) ** 2
    assert abs(square.mean() / (2 / 100) - 1) < 0.05
    assert abs(sample.mean()) < 5 * math.sqrt(2 / 100 / sample.size)
    fits(np.angle(sample), scipy.stats.uniform(-math.pi, 2 * math.pi))
    if distribution == "uniform":  # in a disk: the squares are uniform
        fits(square, scipy.stats.uniform(0, 2 * 2 / 100))


def test_axes():
    shape = (5, 30, 2, 40)
    draw = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=1, out_axis=3)
    fits(draw(KEY, shape), of_variance("normal", 1 / (30 * 10)))
    draw = initializers.variance_scaling(1.0, "fan_in", "normal", 1, 3, batch_axis=(0,))
    fits(draw(KEY, shape), of_variance("normal", 1 / (30 * 2)))
    draw = initializers.variance_scaling(1.0, "fan_out", "normal", (0, 1), (-1,), 2)
    fits(draw(KEY, shape), of_variance("normal", 1 / 40))


def test_an_axis_of_inputs_and_of_outputs():
    # A table of 50 vectors of 8 numbers, as embeddings are drawn: 400 / 50 numbers of input.
    draw = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=-2, out_axis=0)
    fits(draw(KEY, (50, 8)), of_variance("normal", 1 / 8))


def test_without_scaling():
    fits(initializers.normal(0.3)(KEY, SHAPE), scipy.stats.norm(0, 0.3))
    fits(initializers.uniform(0.3)(KEY, SHAPE), scipy.stats.uniform(0, 0.3))
    sample = initializers.truncated_normal(0.5, lower=-1.0, upper=3.0)(KEY, SHAPE)
    fits(sample, scipy.stats.truncnorm(-1, 3, scale=0.5))
    np.testing.assert_array_equal(initializers.zeros(KEY, (2, 3), "int8"), np.zeros((2, 3)))
    np.testing.assert_array_equal(initializers.ones(KEY, (2, 3)), np.ones((2, 3)))
    rows = initializers.constant(np.array([1.0, 2.0]), "float16")(KEY, (3, 2))
    assert rows.dtype == np.float16
    np.testing.assert_array_equal(rows, np.tile([1.0, 2.0], (3, 1)))


@pytest.mark.parametrize("dtype", sorted(dtypes.INEXACT, key=str), ids=str)
def test_dtypes(dtype):
    for make in (initializers.he_normal, initializers.normal, initializers.lecun_uniform):
        if dtype not in dtypes.COMPLEX or make is not initializers.lecun_uniform:
            assert make(dtype=dtype)(KEY, (4, 3)).dtype == dtype
        assert make(dtype="float32")(KEY, (4, 3), dtype=dtype).dtype == dtype


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_orthogonal(shape, axis, dtype):
    sample = np.asarray(initializers.orthogonal(2.0, axis)(KEY, shape, dtype))
    assert sample.shape == shape
    matrix = np.moveaxis(sample, axis, -1).reshape(-1, shape[axis]) / 2
    rows, columns = matrix.shape
    product = matrix.conj().T @ matrix if rows >= columns else matrix @ matrix.conj().T
    np.testing.assert_allclose(product, np.eye(min(rows, columns)), atol=1e-12)


@pytest.mark.parametrize("window", [(3,), (3, 4), (1, 3, 3)], ids=str)
def test_delta_orthogonal(window):
    sample = np.array(initializers.delta_orthogonal()(KEY, (*window, 3, 5), "float64"))
    middle = tuple((n - 1) // 2 for n in window)
    np.testing.assert_allclose(sample[middle] @ sample[middle].T, np.eye(3), atol=1e-12)
    sample[middle] = 0
    assert not sample.any()


def test_traced_and_mapped():
    draw = initializers.he_normal()
    keys = weft.random.split(KEY, 3)
    each = weft.jit(weft.vmap(lambda key: draw(key, (4, 5))))(keys)
    for key, values in zip(keys, each, strict=True):
        np.testing.assert_allclose(values, draw(key, (4, 5)), rtol=1e-6)


def scaled(*args, **options):
    return initializers.variance_scaling(*args, **options)


BAD = {
    "a mode": (lambda: scaled(1.0, "fan", "normal"), WeftValueError, "mode='fan'"),
    "a distribution": (lambda: scaled(1.0, "fan_in", "flat"), WeftValueError, "'flat'"),
    "complex by name": (
        lambda: scaled(1.0, "fan_in", "complex uniform"),
        WeftValueError,
        "uniform",
    ),
    "a negative scale": (lambda: scaled(-1.0, "fan_in", "normal"), WeftValueError, "scale=-1"),
    "one dimension": (lambda: initializers.he_normal()(KEY, (3,)), ShapeError, "in_axis"),
    "an axis": (lambda: initializers.he_normal(3)(KEY, (3, 4)), AxisError, "variance_scaling"),
    "an axis twice": (lambda: initializers.he_normal((1, 1))(KEY, (3, 4)), AxisError, "twice"),
    "integers": (lambda: initializers.he_normal()(KEY, (3, 4), "int32"), DTypeError, "i32"),
    "a seed": (lambda: initializers.he_normal()(3, (3, 4)), WeftTypeError, "key"),
    "a shape": (lambda: initializers.he_normal()(KEY, (3, -4)), Exception, "0 or more"),
    "out_sharding": (
        lambda: initializers.zeros(KEY, (3,), out_sharding=1),
        NotImplementedError,
        "out_sharding",
    ),
    "a vector": (lambda: initializers.orthogonal()(KEY, (3,)), ShapeError, "2 dimensions"),
    "a column axis": (
        lambda: initializers.orthogonal(1.0, 2)(KEY, (3, 3)),
        AxisError,
        "orthogonal",
    ),
    "few outputs": (lambda: initializers.delta_orthogonal()(KEY, (3, 4, 2)), ShapeError, "outputs"),
    "no window": (lambda: initializers.delta_orthogonal()(KEY, (4, 4)), ShapeError, "3 to 5"),
    "unknown dtype": (
        lambda: initializers.normal(dtype="float")(KEY, (2,), "f99"),
        TypeError,
        "f99",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, error, says = BAD[name]
    with pytest.raises(error, match=says):
        call()
