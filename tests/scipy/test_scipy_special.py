"""`weft.scipy.special` against SciPy where the op table does not reach: tails, special values,
functions of integers, complex numbers, and names that are shown from other chapters."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.special as reference

import weft
import weft.numpy as jnp
from weft.errors import WeftTypeError, WeftValueError
from weft.kinds.array_function import ArrayFunction
from weft.native.optional import calls
from weft.scipy import special
from weft.testing import check_grads, exact_array

pytestmark = pytest.mark.fast

BOTH = np.concatenate([-np.logspace(-8, 2, 41), [0.0], np.logspace(-8, 2, 41)])
LARGE = np.logspace(-3, 5, 65)
UNIT = np.concatenate([np.logspace(-300, -1, 40), np.linspace(0.11, 0.89, 20)])

# A name, where it is compared in double precision, and the relative error allowed there.
TAILS = [
    ("ndtr", BOTH / 3, 1e-14),
    ("log_ndtr", BOTH * 10, 1e-14),
    ("ndtri", UNIT, 1e-13),
    ("erf", BOTH, 1e-14),
    ("erfc", BOTH / 4, 1e-14),
    ("erfcx", BOTH / 8, 1e-14),
    ("erfinv", UNIT, 1e-13),
    ("dawsn", BOTH, 1e-14),
    ("gammaln", LARGE, 1e-13),
    ("digamma", LARGE, 1e-12),
    ("exp1", LARGE[LARGE < 500], 1e-13),
    ("expi", LARGE[LARGE < 500], 1e-12),
    ("logit", UNIT, 1e-14),
    ("expit", BOTH * 5, 1e-13),
    ("i0e", BOTH, 1e-14),
    ("i1e", BOTH, 1e-14),
    ("i0", BOTH, 1e-13),
    ("i1", BOTH, 1e-13),
    ("entr", LARGE, 1e-14),
    ("spence", LARGE, 1e-13),
]


# To forty digits, where SciPy takes the exponential of a rounded square.
EXACT = {
    "ndtr": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "log_ndtr": lambda x: (
        mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
        if x < 0
        else mpmath.log1p(-mpmath.erfc(x / mpmath.sqrt(2)) / 2)
    ),
    "erfc": mpmath.erfc,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
}


def reference_of(name, x):
    if name not in EXACT:
        with np.errstate(all="ignore"):
            return getattr(reference, name)(x)
    with mpmath.workdps(40):
        return np.array([float(EXACT[name](mpmath.mpf(number))) for number in x.tolist()])


def compared(got, want, bound):
    got = np.asarray(got)
    np.testing.assert_allclose(got, want, rtol=bound, atol=np.finfo(np.float64).tiny)


@pytest.mark.parametrize("name, x, bound", TAILS, ids=[case[0] for case in TAILS])
def test_over_the_whole_range(name, x, bound):
    compared(getattr(special, name)(exact_array(x)), reference_of(name, x), bound)


PAIRS = [
    ("gammainc", (LARGE[:, None] / 50, LARGE / 50), 1e-10),
    ("gammaincc", (LARGE[20:40, None] / 5, LARGE[20:40] / 5), 1e-10),
    ("xlogy", (BOTH[:, None], LARGE), 1e-14),
    ("xlog1py", (BOTH[:, None], LARGE), 1e-13),
    ("rel_entr", (LARGE[:, None], LARGE), 1e-13),
    ("zeta", (LARGE[26:40, None] + 1.1, LARGE[20:40]), 1e-12),
]


@pytest.mark.parametrize("name, args, bound", PAIRS, ids=[case[0] for case in PAIRS])
def test_over_the_whole_range_of_two(name, args, bound):
    want = getattr(reference, name)(*args)
    compared(getattr(special, name)(*map(exact_array, args)), want, bound)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_multivariate_gamma_function(d):
    a = np.linspace((d - 1) / 2 + 0.1, 30, 25)
    compared(special.multigammaln(exact_array(a), d), reference.multigammaln(a, d), 1e-13)
    check_grads(lambda x: special.multigammaln(x, d), (exact_array(a[::6]),), order=2)
    assert np.isnan(special.multigammaln((d - 1) / 2 - 0.1, d))


def test_bernoulli_numbers():
    exact = [Fraction(1)]
    for n in range(1, 61):  # DLMF 24.5.3; SciPy's own are less precise
        total = sum(math.comb(n + 1, k) * b for k, b in enumerate(exact))
        exact.append(-total / (n + 1))
    with weft.enable_x64(True):
        compared(special.bernoulli(60), np.array([float(b) for b in exact]), 1e-15)
    assert special.bernoulli(0).shape == (1,)


@pytest.mark.parametrize("v", [0, 1, 6])
def test_bessel_functions(v):
    z = np.linspace(-12, 12, 25)
    got = special.bessel_jn(exact_array(z), v=v)
    want = np.stack([reference.jv(order, z) for order in range(v + 1)])
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)
    check_grads(lambda z: special.bessel_jn(z, v=v), (exact_array(z[1::8]),), order=1)


def test_spherical_harmonics():
    n, m = np.array([(n, m) for n in range(5) for m in range(-n, n + 1)]).T
    theta, phi = np.linspace(0.1, 3.0, n.size), np.linspace(-3.0, 3.0, n.size)
    got = special.sph_harm_y(n, m, exact_array(theta), exact_array(phi), n_max=4)
    want = reference.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-13)


def test_the_faddeeva_function():
    real, imaginary = np.meshgrid(np.linspace(-6, 6, 13), np.linspace(-1.5, 6, 11))
    z = real + 1j * imaginary
    compared(special.wofz(exact_array(z)), reference.wofz(z), 1e-12)
    check_grads(special.wofz, (exact_array(z[3:5, 4:6]),), order=1)


def test_riemanns_zeta_function_on_the_whole_line():
    x = np.concatenate([np.linspace(-20.5, 0.5, 43), np.linspace(1.1, 40, 30)])
    compared(special.zeta(exact_array(x)), reference.zeta(x), 1e-10)
    assert np.isinf(special.zeta(1.0))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_polygamma(n):
    x = np.linspace(0.2, 20, 40)
    compared(special.polygamma(n, exact_array(x)), reference.polygamma(n, x), 1e-11)


def test_limits_and_poles():
    """At infinity, at the poles, and where a reflection would round 1 - x to 1."""
    x = np.array([-1e-300, -1e-20, -1e-9, -0.1, -0.3, -0.499, -0.501, -0.9])
    compared(special.zeta(exact_array(x)), reference.zeta(x), 1e-13)
    near = special.zeta(np.array([-1e-9, -1e-5, -0.2], np.float32))
    compared(near, reference.zeta(np.array([-1e-9, -1e-5, -0.2])), 1e-5)
    x, q = np.array([2.0, 1.5, 1.0, *[np.inf] * 4]), np.array([*[np.inf] * 2, 3, 0.5, 1, 2, np.inf])
    want = np.array([0, 0, np.inf, np.inf, 1, 0, 0])  # SciPy has NaN for one of them
    compared(special.zeta(*map(exact_array, (x, q))), want, 1e-15)
    x = np.array([np.inf, 0.0, -0.0, -1.0, -2.0, 2.5, np.nan])
    for n in range(4):
        compared(special.polygamma(n, exact_array(x)), reference.polygamma(n, x), 1e-13)


SERIES = ("gammainc", "gammaincc", "betainc", "expn", "hyp1f1", "hyp2f1")


@pytest.mark.parametrize("name", SERIES)
def test_an_element_does_not_depend_on_its_neighbours(name):
    """The sums end element by element: one that needs ten thousand rounds spoils no other."""
    few = {"expn": (3, 0.7), "hyp1f1": (0.5, 1.5, 0.3), "hyp2f1": (0.5, 0.7, 1.5, 0.2)}
    many = {"expn": (2, 1.01), "hyp1f1": (2.5, 1.5, 30.0), "hyp2f1": (0.5, 0.7, 1.5, 0.89)}
    if name == "betainc":
        first, second = (2.0, 1.5, 0.5), (1e7, 1e7, 0.5)
    else:
        first, second = few.get(name, (1.0, 1.5)), many.get(name, (5e6, 5e6))
    function = getattr(special, name)
    alone = np.asarray(function(*[np.array([x], np.float32) for x in first]))
    batch = function(*[np.array(x, np.float32) for x in zip(first, second, strict=True)])
    np.testing.assert_allclose(np.asarray(batch)[:1], alone, rtol=5e-7)
    want = getattr(reference, name)(*[int(x) if isinstance(x, int) else x for x in first])
    np.testing.assert_allclose(alone[0], want, rtol=5e-6)


@pytest.mark.parametrize("dtype, bound", [("float64", 1e-12), ("float32", 2e-5)])
def test_the_upper_incomplete_gamma_function_of_small_parameters(dtype, bound):
    a, x = np.meshgrid(np.logspace(-14, -0.6, 30), np.logspace(-12, 0.15, 25))
    a, x = a.astype(dtype), x.astype(dtype)
    got = special.gammaincc(exact_array(a, dtype), exact_array(x, dtype))
    compared(got, reference.gammaincc(a.astype(float), x.astype(float)), bound)


@pytest.mark.parametrize("a", [9e6, 1.1e7, 1e9, 1e12])
def test_the_incomplete_gamma_functions_of_huge_parameters(a):
    """Against a quotient of sums: the density is exp(-a (v - log(1 + v))) / (1 + v) at a (1 + v).

    SciPy's own are off in the tails.
    """
    v = np.linspace(-14, 14, 280_001).astype(np.longdouble) / np.sqrt(np.longdouble(a))
    # v - log(1 + v) as its series, as a difference would cancel.
    power = sum((-1) ** k * v ** (k - 2) / k for k in range(2, 12)) * v * v
    density = np.exp(-a * power) / (1 + v)
    steps = (density[1:] + density[:-1]) / 2
    below = np.concatenate([[0], np.cumsum(steps)]) / np.sum(steps)
    above = np.concatenate([np.cumsum(steps[::-1])[::-1], [0]]) / np.sum(steps)
    places = np.arange(70_000, 210_001, 10_000)  # up to seven standard deviations
    # x is rounded, which counts where it is squared: the place it stands for is taken.
    x = (a * (1 + v[places])).astype(np.float64)
    moved = (x - a * (1 + v[places])) * density[places] / np.sum(steps) / (a * (v[1] - v[0]))
    # The trapezoidal sums are as precise as the steps are narrow.
    for name, want in (("gammainc", below[places] + moved), ("gammaincc", above[places] - moved)):
        got = getattr(special, name)(exact_array(np.float64(a)), exact_array(x))
        np.testing.assert_allclose(np.asarray(got), want.astype(float), rtol=1e-6)


@pytest.mark.parametrize(
    "function, at, slope, curvature",
    [
        (lambda x: special.gammainc(1.0, x), 0.0, 1.0, -1.0),
        (lambda x: special.gammaincc(1.0, x), 0.0, -1.0, 1.0),
        (lambda x: special.betainc(1.0, 3.0, x), 0.0, 3.0, None),
        (lambda x: special.betainc(3.0, 1.0, x), 1.0, 3.0, None),
        (lambda x: special.betainc(1.0, 1.0, x), 1.0, 1.0, None),
        (lambda x: special.betainc(2.0, 3.0, x), 0.0, 0.0, None),
    ],
    ids=["P", "Q", "first of 1", "last of 1", "uniform", "2"],
)
def test_slopes_at_the_edge_of_the_support(function, at, slope, curvature):
    with weft.enable_x64():
        assert float(weft.grad(function)(at)) == pytest.approx(slope, rel=1e-12)
        if curvature is not None:
            assert float(weft.grad(weft.grad(function))(at)) == pytest.approx(curvature, rel=1e-12)


def test_derivatives_in_parameters():
    point = exact_array(np.array([0.4, 1.3]))
    other = exact_array(np.array([1.7, 2.6]))
    x = exact_array(np.array([0.3, -0.8]))
    check_grads(special.hyp1f1, (point, other, x), order=1)


SPECIAL_VALUES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    "name",
    [
        "ndtr",
        "log_ndtr",
        "erf",
        "erfc",
        "erfcx",
        "dawsn",
        "exp1",
        "expit",
        "entr",
        "gammaln",
        "i0e",
    ],
)
def test_special_values(name):
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(SPECIAL_VALUES)
    got = np.asarray(getattr(special, name)(exact_array(SPECIAL_VALUES)))
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_softmax_and_sums_of_exponentials():
    x = np.random.default_rng(0).normal(size=(3, 4)) * 50
    for name in ("softmax", "log_softmax", "logsumexp"):
        got = getattr(special, name)(exact_array(x), axis=1)
        np.testing.assert_allclose(np.asarray(got), getattr(reference, name)(x, axis=1), rtol=1e-13)


def test_one_program_and_narrow_dtypes():
    x = jnp.linspace(0.1, 3.0, 5).astype("bfloat16")
    for name in ("gamma", "exp1", "spence", "ndtri", "digamma"):
        got = getattr(special, name)(x / 4 if name == "ndtri" else x)
        assert got.dtype == x.dtype
        mapped = weft.vmap(getattr(special, name))(x / 4 if name == "ndtri" else x)
        np.testing.assert_array_equal(np.asarray(mapped), np.asarray(got))
    assert special.gamma(np.arange(1, 4)).dtype == np.float32


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: special.bernoulli(-1), WeftValueError, "bernoulli"),
        (lambda: special.bernoulli(1.5), WeftTypeError, "bernoulli"),
        (lambda: special.multigammaln(2.0, 0), WeftValueError, "multigammaln"),
        (lambda: special.bessel_jn(1.0, v=-1), WeftValueError, "bessel_jn"),
        (lambda: special.gamma([1.0]), WeftTypeError, "gamma"),
        (lambda: special.erf(1j), TypeError, "erf"),
    ],
    ids=["negative", "half", "no dimension", "no order", "list", "complex"],
)
def test_bad_input(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_betainc_of_parameters_of_different_size():
    """The sensitivity to x, which float32 rounds, is allowed for; not that of large logarithms."""
    rng = np.random.default_rng(0)
    for low, high in ((4, 14), (12, 18)):
        a, b = np.exp(rng.uniform(low, high, 500)), np.exp(rng.uniform(-2, 3, 500))
        x = np.minimum(rng.beta(a, b), 1 - 1e-7)
        a, b, x = (v.astype(np.float32) for v in (a, b, x))
        wide = [v.astype(np.float64) for v in (a, b, x)]
        want = reference.betainc(*wide)
        step = 1e-6 * (1 + wide[2] * 0)
        near = reference.betainc(wide[0], wide[1], np.minimum(wide[2] * (1 + step), 1))
        bound = 2 * abs(near - want) + 1e-5
        assert (abs(np.asarray(special.betainc(a, b, x)) - want) < bound).all()
        lower = special.betainc(b, a, np.float32(1) - x)
        assert (abs(np.asarray(lower) - (1 - want)) < bound).all()


@pytest.mark.parametrize("size", [1e8, 1e10, 1e15])
def test_betainc_of_huge_parameters(size):
    of = np.float32 if size < 1e12 else np.float64
    with weft.enable_x64(of is np.float64):
        a, b = of(size), of(2 * size)
        mean = float(a) / (float(a) + float(b))
        width = math.sqrt(mean * (1 - mean) / (float(a) + float(b)))
        x = (mean + width * np.linspace(-3, 3, 13)).astype(of)
        want = reference.betainc(float(a), float(b), x.astype(np.float64))
        bound = 2e-5 + 4 * np.finfo(of).eps * mean / width
        np.testing.assert_allclose(special.betainc(a, b, x), want, atol=bound)
    np.testing.assert_allclose(special.betainc(1e8, 1e8, 0.5), 0.5, atol=1e-6)


def test_hyp1f1_where_an_early_term_is_next_to_zero():
    """The terms after it are not: they grow like those of the exponential function."""
    with weft.enable_x64():
        for parameters in ((-1e-17, 1.5, 200.0), (-2 + 1e-12, 1.5, 100.0)):
            want = reference.hyp1f1(*parameters)
            np.testing.assert_allclose(special.hyp1f1(*parameters), want, rtol=1e-12)


def test_hyp1f1_is_a_number_only_where_half_of_the_digits_are():
    """Where terms of changing sign cancel it is NaN rather than what rounding left of them."""
    a, b, x = np.meshgrid([-50.5, -5.5, -0.3, 3.7, 60.1], [0.3, 1.2, 30.0], [-80.0, -3, 2, 30])
    want = reference.hyp1f1(a, b, x)
    with weft.enable_x64():
        got = np.asarray(special.hyp1f1(a, b, x))
        lost = np.isnan(got)
        assert lost[a == -50.5].any() and lost[a == 60.1].any() and lost.mean() < 0.3
        assert not lost[(abs(a) < 6) & (abs(x) < 30)].any()
        error = abs(got - want) / np.maximum(1, abs(want))
        assert (error[~lost] < 1e-7).all()
        assert np.isinf(special.hyp1f1(np.float32(2.5), np.float32(1), np.float32(100)))


COMPLEX_FUNCTIONS = {"gamma": 1, "loggamma": 1, "erfcx": 1, "xlogy": 2, "xlog1py": 2}


@pytest.mark.parametrize(("name", "count"), COMPLEX_FUNCTIONS.items())
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_functions_of_complex_numbers(name, count, scale):
    random = np.random.default_rng(3)
    shape = (count, 300)
    points = (random.normal(size=shape) + 1j * random.normal(size=shape)) * scale
    points[:, :3] = [0.5, -1.5 + 0j, complex(-2.5, -0.0)]  # both sides of the cut
    if count == 2:
        points[0, 5:8] = 0
    for dtype, bound in (("complex64", 1e-5), ("complex128", 2e-13)):
        args = [exact_array(x.astype(dtype)) for x in points]
        want = getattr(reference, name)(*[np.asarray(x, complex) for x in args])
        got = np.asarray(getattr(special, name)(*args))
        assert got.dtype == dtype
        counts = np.abs(want) < 1e30
        error = np.abs(got - want) / np.maximum(np.abs(want), 0 if name == "gamma" else 1)
        assert np.max(error[counts]) < bound
    near = [jnp.asarray(x[10:13], jnp.complex128) for x in points / scale]
    check_grads(getattr(special, name), near, order=1)


def test_the_poles_of_gamma_among_complex_numbers():
    for function in (special.gamma, special.loggamma):
        assert np.isnan(function(np.array([0j, -1 + 0j, -7 + 0j]))).all()
        assert np.isfinite(function(np.array([-1 + 1e-3j, 3 + 0j]))).all()
        with pytest.raises(WeftTypeError):
            function([1j])


def test_the_derivative_of_zeta_in_its_exponent():
    points = np.meshgrid([1.0625, 1.5, 2, 3, 7.5, 15], [0.125, 0.5, 1, 2, 7, 100])
    x, q = (v.astype(np.float32).astype(float) for v in points)
    zeta, h = reference.zeta, 1e-4 * x
    # Finite differences of fourth order.
    want = 8 * (zeta(x + h, q) - zeta(x - h, q)) - zeta(x + 2 * h, q) + zeta(x - 2 * h, q)
    slope = weft.grad(lambda x, q: jnp.sum(special.zeta(x, q)))
    for dtype, bound in (("float32", 3e-5), ("float64", 1e-6)):
        got = slope(*(exact_array(v.astype(dtype)) for v in (x, q)))
        compared(got, want / (12 * h), bound)
    assert np.isnan(weft.grad(special.zeta)(3.0, -2.5))


def test_a_call_with_a_number_is_known_by_its_class(only_known_calls):
    x = jnp.array([0.5, 2.0])
    want = [reference.beta([0.5, 2.0], n) for n in (2, 3)]
    for _ in range(2):
        special.beta(x, 2)
    only_known_calls(ArrayFunction)
    known = (2, 3) if calls is not None else (2, 2)
    found = [special.beta(x, n) for n in known]
    np.testing.assert_allclose(found, [want[n - 2] for n in known], rtol=1e-6)
    with pytest.raises(TypeError):
        special.beta(x, 2**40)


def test_numbers_that_no_array_of_integers_holds_are_real():
    for n in (2**40, 2**70):
        np.testing.assert_allclose(special.gammaln(n), reference.gammaln(float(n)), rtol=1e-6)
        found = special.beta(jnp.array([1.0, 2.0], "float64"), n)
        np.testing.assert_allclose(found, reference.beta([1.0, 2.0], float(n)), rtol=1e-9)
