"""`weft.scipy.special` against SciPy where the op table does not reach: tails, special values,
functions of integers, complex numbers, and names that are shown from other chapters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special as reference

import weft
import weft.numpy as jnp
from weft.errors import WeftTypeError, WeftValueError
from weft.scipy import special
from weft.testing import check_grads, exact_array

pytestmark = pytest.mark.fast

BOTH = np.concatenate([-np.logspace(-8, 2, 41), [0.0], np.logspace(-8, 2, 41)])
LARGE = np.logspace(-3, 5, 65)
UNIT = np.concatenate([np.logspace(-300, -1, 40), np.linspace(0.11, 0.89, 20)])

# A name, where it is compared in double precision, and the relative error allowed there.
TAILS = [
    ("ndtr", BOTH / 3, 1e-13),
    ("log_ndtr", BOTH * 10, 1e-13),
    ("ndtri", UNIT, 1e-13),
    ("erf", BOTH, 1e-14),
    ("erfc", BOTH / 4, 2e-13),
    ("erfcx", BOTH / 8, 1e-13),
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


def compared(got, want, bound):
    got = np.asarray(got)
    np.testing.assert_allclose(got, want, rtol=bound, atol=np.finfo(np.float64).tiny)


@pytest.mark.parametrize("name, x, bound", TAILS, ids=[case[0] for case in TAILS])
def test_over_the_whole_range(name, x, bound):
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(x)
    compared(getattr(special, name)(exact_array(x)), want, bound)


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
