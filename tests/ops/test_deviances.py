"""Probabilities and densities of large counts, and the incomplete functions made of them.

They are held to sixty-digit arithmetic of Python's `decimal`: double precision itself loses what is
tested here, as factorials and powers of large counts have logarithms that are large and cancel.
"""

from __future__ import annotations

import decimal
import functools
import math

import numpy as np
import pytest

import weft
from weft.ops.elementwise import densities
from weft.scipy import special, stats
from weft.testing import check_grads

pytestmark = pytest.mark.fast

CONTEXT = decimal.Context(prec=60)
PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
# B(2k) / (2k (2k - 1)) as numerator and denominator: from 60 on these terms give 40 digits.
STIRLING = [
    (1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400),
    (43867, 244188), (-174611, 125400), (77683, 5796), (-236364091, 1506960), (657931, 300),
]  # fmt: skip


def exact(function):
    """The function of numbers that are taken as they are, in sixty digits."""

    @functools.wraps(function)
    def wrapped(*numbers):
        with decimal.localcontext(CONTEXT):
            return function(*[decimal.Decimal(float(x)) for x in numbers])

    return wrapped


def log_gamma(x):
    product = decimal.Decimal(1)
    while x < 60:
        product *= x
        x += 1
    rest = sum(decimal.Decimal(p) / q / x ** (2 * k + 1) for k, (p, q) in enumerate(STIRLING))
    return (x - decimal.Decimal("0.5")) * x.ln() - x + (2 * PI).ln() / 2 + rest - product.ln()


def log_beta(a, b):
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def times_log(x, y):
    return x * y.ln() if x else decimal.Decimal(0)


def log_comb(n, k):
    return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1)


@exact
def binom(k, n, p):
    return log_comb(n, k) + times_log(k, p) + times_log(n - k, 1 - p)


@exact
def nbinom(k, n, p):
    comb = log_gamma(n + k) - log_gamma(n) - log_gamma(k + 1)
    return comb + times_log(n, p) + times_log(k, 1 - p)


@exact
def betabinom(k, n, a, b):
    return log_comb(n, k) + log_beta(k + a, n - k + b) - log_beta(a, b)


@exact
def poisson(k, mu):
    return times_log(k, mu) - mu - log_gamma(k + 1)


@exact
def beta(x, a, b):
    return (a - 1) * x.ln() + (b - 1) * (1 - x).ln() - log_beta(a, b)


@exact
def gamma(x, a):
    return (a - 1) * x.ln() - x - log_gamma(a)


def slope(function, place, *numbers):
    """The derivative of an exact function in one of its operands."""
    with decimal.localcontext(CONTEXT):
        step = decimal.Decimal(float(numbers[place])) * decimal.Decimal("1e-20")
        ends = []
        for sign in (1, -1):
            moved = [decimal.Decimal(float(x)) for x in numbers]
            moved[place] += sign * step
            ends.append(function.__wrapped__(*moved))
        return float((ends[0] - ends[1]) / (2 * step))


SIZES = [0.3, 3.0, 40.0, 1e3, 1e6]
FAR = {np.float32: [], np.float64: [1e9, 1e12]}


def operands(name, size, rng):
    """Six points within six standard deviations of the mean of a distribution."""
    z = rng.uniform(-6, 6, 6)
    p = rng.uniform(0.02, 0.98, 6)
    other = size * np.exp(rng.normal(size=6))
    count = np.ceil(other)
    if name == "binom":
        near = count * p + z * np.sqrt(count * p * (1 - p))
        return np.clip(np.round(near), 0, count), count, p
    if name == "nbinom":
        near = other * (1 - p) / p + z * np.sqrt(other * (1 - p)) / p
        return np.abs(np.round(near)), other, p
    if name == "betabinom":
        return np.round(count * p), count, other * p, rng.uniform(0.5, 3, 6) * other
    if name == "beta":
        mean = 1 / (1 + size / other)
        near = mean + z * np.sqrt(mean * (1 - mean) / (size + other + 1))
        return np.clip(near, mean / 10, 1 - (1 - mean) / 10), other, np.full(6, size)
    near = np.abs(other + z * np.sqrt(other)) + 1e-3
    return np.round(near) if name == "poisson" else near, other


EXACT = {
    "binom": binom,
    "nbinom": nbinom,
    "betabinom": betabinom,
    "poisson": poisson,
    "beta": beta,
    "gamma": gamma,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_logarithms_of_probabilities_of_any_size(name, dtype):
    rng, module = np.random.default_rng(5), getattr(stats, name)
    with weft.enable_x64():
        for size in SIZES + FAR[dtype]:
            numbers = [x.astype(dtype) for x in operands(name, size, rng)]
            want = np.array([float(EXACT[name](*case)) for case in zip(*numbers, strict=True)])
            function = getattr(module, "logpmf", None) or module.logpdf
            got = np.asarray(function(*numbers))
            assert got.dtype == dtype
            bound = 32 * np.finfo(dtype).eps
            np.testing.assert_allclose(got, want, rtol=bound, atol=bound, err_msg=str(size))
            plain = np.asarray((getattr(module, "pmf", None) or module.pdf)(*numbers))
            wanted = np.exp(want)
            bound = bound * np.maximum(1, abs(want))
            assert (abs(plain - wanted) <= bound * wanted + np.finfo(dtype).tiny).all(), size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name, places", [("binom", (2,)), ("nbinom", (2,)), ("beta", (0,)), ("gamma", (0, 1))]
)
def test_slopes_of_logarithms_of_probabilities(name, places, dtype):
    rng, module = np.random.default_rng(6), getattr(stats, name)
    function = getattr(module, "logpmf", None) or module.logpdf
    with weft.enable_x64():
        for size in SIZES + FAR[dtype]:
            numbers = [x.astype(dtype) for x in operands(name, size, rng)]
            for place in places:
                cases = list(zip(*numbers, strict=True))
                want = np.array([slope(EXACT[name], place, *case) for case in cases])
                got = np.asarray(weft.vmap(weft.grad(function, place))(*numbers))
                # That of the gamma density is less than 1, of which it is a difference.
                bound = 4 * np.finfo(dtype).eps if name == "gamma" else 1e-30
                rtol = 64 * np.finfo(dtype).eps
                np.testing.assert_allclose(got, want, rtol=rtol, atol=bound, err_msg=f"{size}")


NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def below(a, b, x, width):
    """The incomplete beta function: the exact density, integrated over 14 standard deviations."""
    total = 0.0
    with decimal.localcontext(CONTEXT):
        a, b, end = (decimal.Decimal(float(v)) for v in (a, b, x))
        scale = log_beta(a, b)
        panel = min(decimal.Decimal(14 * width), end) / 7
        for k in range(7):
            for node, weight in zip(NODES, WEIGHTS, strict=True):
                place = end - panel * (k + decimal.Decimal((1 - node) / 2))
                log_density = (a - 1) * place.ln() + (b - 1) * (1 - place).ln() - scale
                total += weight * float(panel) / 2 * math.exp(log_density)
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "a, b",
    [
        (80, 120),
        (300, 9e3),
        (2e4, 1.3e4),
        (3, 1e5),
        (2e6, 6e5),
        (9e6, 8e9),
        (2e8, 5e8),
        (2e12, 3e12),
    ],
)
def test_the_incomplete_beta_function_of_large_parameters(a, b, dtype):
    """And its slope in x. SciPy's own are off by the square root of the parameters."""
    a, b = dtype(a), dtype(b)
    mean = float(a) / (float(a) + float(b))
    width = math.sqrt(mean * (1 - mean) / (float(a) + float(b)))
    z = np.array([-6.0, -1.2, -0.01, 0.6, 4])
    x = np.maximum(mean + width * z, mean / 20).astype(dtype)
    want = np.array([below(a, b, place, width) for place in x])
    density = np.array([math.exp(beta(place, a, b)) for place in x])
    eps = np.finfo(dtype).eps
    with weft.enable_x64():
        got = np.asarray(special.betainc(a, b, x))
        slopes = np.asarray(weft.vmap(lambda x: weft.grad(special.betainc, 2)(a, b, x))(x))
    np.testing.assert_allclose(got, want, rtol=600 * eps, atol=8 * eps)
    np.testing.assert_allclose(slopes, density, rtol=100 * eps, atol=eps / width)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_slope_of_the_incomplete_gamma_function(dtype):
    rng = np.random.default_rng(7)
    with weft.enable_x64():
        for size in SIZES + FAR[dtype]:
            x, a = (v.astype(dtype) for v in operands("gamma", size, rng))
            want = np.array([float(gamma(*case)) for case in zip(x, a, strict=True)])
            got = np.asarray(weft.vmap(weft.grad(special.gammainc, 1))(a, x))
            bound = 32 * np.finfo(dtype).eps * np.maximum(1, abs(want))
            assert (abs(got - np.exp(want)) <= bound * np.exp(want)).all(), size


KERNELS = [
    (densities.poisson_p, (3.5, 2.2)),
    (densities.log_poisson_p, (3.5, 2.2)),
    *((p, (a, 2.2)) for p in (densities.gamma_density_p, densities.log_gamma_density_p)
      for a in (0.5, 3.5)),
    (densities.binomial_p, (3.5, 12.2, 0.3)),
    (densities.log_binomial_p, (3.5, 2.2, 0.3)),
    (densities.distance_from_mean_p, (3.5, 2.2, 0.3)),
    *((p, (a, b, 0.3)) for p in (densities.beta_density_p, densities.log_beta_density_p)
      for a in (0.4, 2.5) for b in (0.6, 3.3)),
    (densities.log_less_digamma_p, (3.3,)),
    (densities.log_less_digamma_p, (33.3,)),
]  # fmt: skip


@pytest.mark.parametrize("primitive, at", KERNELS, ids=lambda v: getattr(v, "name", None))
def test_derivatives_to_the_third_order(primitive, at):
    with weft.enable_x64():
        check_grads(weft.jit(primitive.bind), tuple(map(np.float64, at)), order=3)


def derivatives(function, at, order):
    found = []
    for _ in range(order):
        function = weft.grad(function)
        found.append(float(function(np.float64(at))))
    return found


def test_derivatives_on_the_border_of_the_support():
    """Where a density is 0 its slope need not be: the power series there gives all of them."""
    with weft.enable_x64():
        # mu^k exp(-mu) / k! = (mu^k - mu^(k + 1) + …) / k!
        for k, want in enumerate(([-1, 1, -1], [1, -2, 3], [0, 1, -3], [0, 0, 1])):
            assert derivatives(lambda mu, k=k: stats.poisson.pmf(float(k), mu), 0.0, 3) == want
        # comb(3, k) p^k (1 - p)^(3 - k)
        for k, want in enumerate(([-3, 6, -6], [3, -12, 18], [0, 6, -18], [0, 0, 6])):
            assert derivatives(lambda p, k=k: stats.binom.pmf(float(k), 3.0, p), 0.0, 3) == want
            mirrored = [-want[0], want[1], -want[2]]
            got = derivatives(lambda p, k=k: stats.binom.pmf(3.0 - k, 3.0, p), 1.0, 3)
            assert got == mirrored
        # 6 x (1 - x), 12 x^2 (1 - x), 3 (1 - x)^2
        for (a, b), want in {(2, 2): [6, -12], (3, 2): [0, 24], (1, 3): [-6, 6]}.items():
            got = derivatives(lambda x, a=a, b=b: stats.beta.pdf(x, float(a), float(b)), 0.0, 2)
            np.testing.assert_allclose(got, want, rtol=1e-13)
            inner = derivatives(lambda x, a=a, b=b: special.betainc(float(a), float(b), x), 0.0, 3)
            np.testing.assert_allclose(inner[1:], want, rtol=1e-13)
        # exp(-x), x exp(-x), x^2 exp(-x) / 2
        for a, want in {1: [-1, 1, -1], 2: [1, -2, 3], 3: [0, 1, -3]}.items():
            assert derivatives(lambda x, a=a: stats.gamma.pdf(x, float(a)), 0.0, 3) == want
        # Those of the chi-square distribution: half the variable, of half as many degrees.
        assert derivatives(lambda x: stats.chi2.pdf(x, 4.0), 0.0, 1) == [0.25]
