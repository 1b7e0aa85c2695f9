"""First and second derivatives of elementwise functions against numbers of 200 digits.

A derivative rule that is right on paper may cancel, overflow or underflow where the derivative is
an ordinary number: 1 - tanh(x)^2 is 0 from x = 9 on, and x^2 + y^2 infinite from 1e20 on. So each
function is differentiated where it is tiny, huge, near its zeros, poles and branch points, and both
derivatives are held to a few units in the last place, relative to their own size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mpf

import weft.numpy as jnp
from weft import custom_jvp, enable_x64, grad, jit, lax, nn, vmap
from weft.scipy import special

SIZES = [
    1e-30, 1e-20, 1e-10, 1e-5, 1e-3, 1e-2, 0.05, 0.1, 0.3, 0.5, 0.7, 0.99, 1.5, 2.5, 3.3, 5.0, 8.5,
    12.0, 20.0, 40.0, 80.0, 300.0, 1e3, 1e5, 1e10, 1e20, 1e30,
]  # fmt: skip
POSITIVE = SIZES
EVERY = [*(-x for x in SIZES), 0.0, *SIZES]
NONZERO = [x for x in EVERY if x]
INSIDE = [x for x in EVERY if abs(x) < 1] + [-0.9999, 0.9999]
ABOVE_ONE = [x for x in SIZES if x > 1] + [1.001]
BELOW_1000 = [x for x in EVERY if abs(x) <= 1000]
NO_POLES = [x for x in SIZES if x < 1e9] + [
    -0.25,
    -0.5,
    -1.25,
    -2.75,
    -7.5,
    -7.7,
    -8.5,
    -9.2,
    -20.6,
]


def logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def softplus(x: Any) -> Any:
    return mpmath.log(1 + mpmath.exp(x))


def gelu_by_tanh(x: Any) -> Any:
    return x * logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x**3))


def elu(x: Any) -> Any:
    return x if x > 0 else mpmath.expm1(x)


def with_one(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function of x and 1."""
    return lambda x: function(x, jnp.ones_like(x))


def of_two(function: Callable[..., Any], number: float) -> Callable[[Any], Any]:
    """The function of a number and x."""
    return lambda x: function(jnp.full_like(x, number), x)


class Row(NamedTuple):
    """A function, the same to any precision, and where it is differentiated."""

    function: Callable[[Any], Any]
    reference: Callable[[Any], Any]
    points: list[float]


ROWS = {
    "exp": Row(jnp.exp, mpmath.exp, EVERY),
    "exp2": Row(jnp.exp2, lambda x: mpmath.power(2, x), EVERY),
    "expm1": Row(jnp.expm1, mpmath.expm1, EVERY),
    "log": Row(jnp.log, mpmath.log, POSITIVE),
    "log2": Row(jnp.log2, lambda x: mpmath.log(x, 2), POSITIVE),
    "log10": Row(jnp.log10, mpmath.log10, POSITIVE),
    "log1p": Row(jnp.log1p, mpmath.log1p, [x for x in EVERY if x > -1]),
    "sqrt": Row(jnp.sqrt, mpmath.sqrt, POSITIVE),
    "rsqrt": Row(lax.rsqrt, lambda x: 1 / mpmath.sqrt(x), POSITIVE),
    "cbrt": Row(jnp.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), NONZERO),
    "reciprocal": Row(jnp.reciprocal, lambda x: 1 / x, NONZERO),
    "square": Row(jnp.square, lambda x: x * x, EVERY),
    "sin": Row(jnp.sin, mpmath.sin, BELOW_1000),
    "cos": Row(jnp.cos, mpmath.cos, BELOW_1000),
    "tan": Row(jnp.tan, mpmath.tan, BELOW_1000),
    "arcsin": Row(jnp.arcsin, mpmath.asin, INSIDE),
    "arccos": Row(jnp.arccos, mpmath.acos, [x for x in INSIDE if x]),
    "arctan": Row(jnp.arctan, mpmath.atan, EVERY),
    "sinh": Row(jnp.sinh, mpmath.sinh, EVERY),
    "cosh": Row(jnp.cosh, mpmath.cosh, EVERY),
    "tanh": Row(jnp.tanh, mpmath.tanh, EVERY),
    "arcsinh": Row(jnp.arcsinh, mpmath.asinh, EVERY),
    "arccosh": Row(jnp.arccosh, mpmath.acosh, ABOVE_ONE),
    "arctanh": Row(jnp.arctanh, mpmath.atanh, INSIDE),
    "arctan2 of x": Row(with_one(jnp.arctan2), mpmath.atan, EVERY),
    "arctan2 by x": Row(of_two(jnp.arctan2, 1), lambda x: mpmath.atan2(1, x), EVERY),
    "arctan2 far out": Row(
        of_two(jnp.arctan2, 2.0**15), lambda x: mpmath.atan2(2**15, x), EVERY
    ),
    "hypot": Row(with_one(jnp.hypot), lambda x: mpmath.sqrt(x * x + 1), EVERY),
    "sinc": Row(jnp.sinc, lambda x: mpmath.sinc(mpmath.pi * x), [*BELOW_1000, 0.63, 0.64]),
    "logaddexp": Row(
        with_one(jnp.logaddexp), lambda x: mpmath.log(mpmath.exp(x) + mpmath.e), EVERY
    ),
    "power": Row(lambda x: jnp.power(x, jnp.full_like(x, 3.5)), lambda x: x**3.5, POSITIVE),
    "sigmoid": Row(nn.sigmoid, logistic, EVERY),
    "softplus": Row(nn.softplus, softplus, EVERY),
    "log_sigmoid": Row(nn.log_sigmoid, lambda x: -softplus(-x), EVERY),
    "silu": Row(nn.silu, lambda x: x * logistic(x), EVERY),
    "mish": Row(nn.mish, lambda x: x * mpmath.tanh(softplus(x)), EVERY),
    "gelu": Row(nn.gelu, gelu_by_tanh, EVERY),
    "soft_sign": Row(nn.soft_sign, lambda x: x / (1 + abs(x)), NONZERO),
    "squareplus": Row(nn.squareplus, lambda x: (x + mpmath.sqrt(x * x + 4)) / 2, EVERY),
    "elu": Row(nn.elu, elu, NONZERO),
    "celu": Row(lambda x: nn.celu(x, 2.0), lambda x: 2 * elu(x / 2) if x < 0 else x, NONZERO),
    "log1mexp": Row(nn.log1mexp, lambda x: mpmath.log(-mpmath.expm1(-x)), POSITIVE),
    "erf": Row(special.erf, mpmath.erf, EVERY),
    "erfc": Row(special.erfc, mpmath.erfc, EVERY),
    "ndtr": Row(special.ndtr, lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, EVERY),
    "logit": Row(
        special.logit, lambda x: mpmath.log(x / (1 - x)), [x for x in POSITIVE if x < 0.5]
    ),
    "entr": Row(special.entr, lambda x: -x * mpmath.log(x), POSITIVE),
    "i0": Row(jnp.i0, lambda x: mpmath.besseli(0, x), [*BELOW_1000, 90.0, -90.0]),
    "i1": Row(special.i1, lambda x: mpmath.besseli(1, x), [*BELOW_1000, 90.0, -90.0]),
    "gammaln": Row(special.gammaln, lambda x: mpmath.log(abs(mpmath.gamma(x))), NO_POLES),
    "digamma": Row(special.digamma, mpmath.digamma, NO_POLES),
    "polygamma": Row(
        lambda x: special.polygamma(2, x), lambda x: mpmath.polygamma(2, x), NO_POLES
    ),
    "zeta": Row(of_two(special.zeta, 3), lambda x: mpmath.zeta(3, x), NO_POLES),
}  # fmt: skip


def derivatives(function: Callable[[Any], Any], x: float, digits: int) -> tuple[Any, Any]:
    """The first two, as differences over a short distance, for which no precision is too high."""
    with mpmath.workdps(digits):
        center = mpf(x)
        step = (abs(center) or 1) * mpf(10) ** -(digits // 4)
        above, here, below = (mpmath.re(function(center + i * step)) for i in (1, 0, -1))
        return (above - below) / (2 * step), (above - 2 * here + below) / step**2


def relative_errors(row: Row, dtype: Any) -> list[str]:
    """Where a derivative is off by more than some units in the last place: the sum of several terms
    may well lose that many, and a rule that cancels, overflows or underflows loses more."""
    limits = ml_dtypes.finfo(dtype)
    largest, tiny, eps = (float(x) for x in (limits.max, limits.tiny, limits.eps))
    ulps = 256 if limits.bits > 16 else 16
    digits = 700 if limits.bits > 32 else 200
    with np.errstate(over="ignore", under="ignore"):
        points = sorted({float(x) for x in np.array(row.points, dtype)})
    low, high = min(row.points), max(row.points)
    points = [x for x in points if tiny < abs(x) < largest or (x == 0 and 0.0 in row.points)]
    points = [x for x in points if low <= x <= high]  # rounding may lead out of the domain

    def both(x: Any) -> tuple[Any, Any]:
        return grad(row.function)(x), grad(grad(row.function))(x)

    found = [np.asarray(x).astype(float) for x in jit(vmap(both))(jnp.asarray(points, dtype))]
    wrong = []
    for i, x in enumerate(points):
        for order, (got, want) in enumerate(
            zip((found[0][i], found[1][i]), derivatives(row.reference, x, digits), strict=True), 1
        ):
            if abs(want) > largest / 2:
                continue
            # Numbers below the least normal one may be rounded to zero.
            allowed = max(ulps * eps * abs(want), 8 * tiny)
            if not abs(got - want) <= allowed:
                wrong.append(f"order {order} at {x}: {got}, not {float(want)}")
    return wrong


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_are_accurate_relative_to_their_size(name, optimized):
    assert relative_errors(ROWS[name], np.dtype(np.float32)) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_derivatives_are_accurate_in_other_dtypes(name, dtype, optimized):
    with enable_x64():
        assert relative_errors(ROWS[name], np.dtype(jnp.dtype(dtype))) == []


def test_the_check_finds_a_rule_that_cancels():
    """The derivative of tanh from its value alone."""

    @custom_jvp
    def tanh(x):
        return jnp.tanh(x)

    tanh.defjvps(lambda t, value, x: t * (1 - value**2))
    row = Row(tanh, mpmath.tanh, [2.0, 20.0])
    assert [text.split(":")[0] for text in relative_errors(row, np.dtype(np.float32))] == [
        "order 1 at 20.0",
        "order 2 at 20.0",
    ]


def test_the_third_derivative_of_sinc():
    """Near 0, where its quotients lose digits, and beyond, where its series is not used."""
    third = jit(vmap(grad(grad(grad(jnp.sinc)))))
    x = np.concatenate([np.linspace(-1.2, 1.2, 97), [0.0155, 0.0159, 0.016, 0.0636, 0.0637]])
    x = x.astype(np.float32)
    with mpmath.workdps(60):
        want = [
            float(mpmath.diff(lambda v: mpmath.sinc(mpmath.pi * v), mpf(float(v)), 3)) for v in x
        ]
    np.testing.assert_allclose(third(x), want, rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (nn.softplus, softplus),
        (nn.log_sigmoid, lambda x: -softplus(-x)),
        (lambda x: jnp.logaddexp(0.5 * x, -0.5 * x), lambda x: softplus(x) - x / 2),
    ],
    ids=["softplus", "log_sigmoid", "logaddexp"],
)
def test_the_third_and_fourth_derivatives_of_softplus(function, reference):
    """Near 0, where the third one vanishes, and in the tails."""
    third = grad(grad(grad(function)))
    x = np.array([0.0, 1e-9, -1e-5, 1e-3, 0.3, -2.0, 20.0, -20.0], np.float32)
    with mpmath.workdps(80):
        for order, derivative in ((3, third), (4, grad(third))):
            want = [float(mpmath.diff(reference, mpf(float(v)), order)) for v in x]
            np.testing.assert_allclose(jit(vmap(derivative))(x), want, rtol=1e-5, atol=1e-30)
