"""The elementwise functions whose accuracy is measured, with their values and derivatives.

A row names a function of weft, of JAX (the same name) and of NumPy where it has one, and gives its
value and its derivative as expressions of a namespace `m`. That is NumPy's and SciPy's functions in
float64, the reference for narrower dtypes, or mpmath's with 50 digits, that for float64. The
expressions are written so that nothing cancels for any input of float32.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

__all__ = ["BINARY", "UNARY", "Binary", "Unary"]

Expression = Callable[[Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Unary:
    """A function of one argument. `near`: where its zeros, poles and branch points are."""

    name: str
    value: Expression
    derivative: Expression | None = None
    numpy: bool = True
    near: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Binary:
    """A function of two arguments, with its derivatives by each."""

    name: str
    value: Callable[[Any, Any, Any], Any]
    derivatives: tuple[Callable[[Any, Any, Any], Any], ...] = ()
    numpy: bool = True


def _sech2(m, x):
    return 1 / m.cosh(x) ** 2


def _sigmoid(m, x):
    return m.where(x >= 0, lambda: 1 / (1 + m.exp(-abs(x))), lambda: _small_sigmoid(m, x))


def _small_sigmoid(m, x):
    power = m.exp(-abs(x))
    return power / (1 + power)


def _softplus(m, x):
    return m.where(x > 0, lambda: x, lambda: 0 * x) + m.log1p(m.exp(-abs(x)))


def _density(m, x):
    return m.exp(-x * x / 2) / m.sqrt(2 * m.pi)


def _sinc_slope(m, x):
    y = (m.pi * x) ** 2
    near = lambda: -m.pi * m.pi * x / 3 * (1 - y / 10 + y * y / 280)
    return m.where(abs(x) < 2e-3, near, lambda: (m.cospi(x) - m.sinpi(x) / (m.pi * x)) / x)


def _gelu_exponent(m, x):
    return 2 * m.sqrt(2 / m.pi) * (x + 0.044715 * x**3)


def _gelu_slope(m, x):
    u = _gelu_exponent(m, x)
    slope = 2 * m.sqrt(2 / m.pi) * (1 + 3 * 0.044715 * x * x)
    spread = _sigmoid(m, u) * _sigmoid(m, -u)
    return _sigmoid(m, u) + m.where(spread == 0, lambda: 0 * spread, lambda: x * slope * spread)


def _squareplus(m, x):
    root = m.sqrt(x * x + 4)
    return m.where(x > 0, lambda: (x + root) / 2, lambda: 2 / (root - x))


def _squareplus_slope(m, x):
    root = m.sqrt(x * x + 4)
    return m.where(x > 0, lambda: (1 + x / root) / 2, lambda: 2 / (root * (root - x)))


def _mish_slope(m, x):
    s = _softplus(m, x)
    rest = lambda: x * _sech2(m, m.where(s < 300, lambda: s, lambda: 0 * s)) * _sigmoid(m, x)
    return m.tanh(s) + m.where(s < 300, rest, lambda: 0 * s)


# Series for large arguments have enough terms for float32; mpmath needs none.


def _log_ndtr_slope(m, x):
    far = lambda: -x - 1 / x + 2 / x**3 - 10 / x**5
    return m.where(
        (x < -60) & (not m.exact), far, lambda: m.exp(-x * x / 2 - m.log_ndtr(x)) / m.sqrt(2 * m.pi)
    )


def _i0e_slope(m, x):
    y = abs(x)
    far = lambda: -m.sign(x) * m.i0e(x) * (1 / (2 * y) + 1 / (8 * y**2) + 1 / (8 * y**3))
    return m.where((y > 3e3) & (not m.exact), far, lambda: m.i1e(x) - m.sign(x) * m.i0e(x))


def _i1e_slope(m, x):
    y = abs(x)
    scale = 1 / m.sqrt(2 * m.pi * y**3)
    far = lambda: scale * (-0.5 + 9 / (16 * y) + 75 / (256 * y**2))
    near = lambda: m.i0e(x) - m.ratio(m.i1e(x), x, 0.5) - m.sign(x) * m.i1e(x)
    return m.where((y > 3e3) & (not m.exact), far, near)


def _dawsn_slope(m, x):
    far = lambda: -(1 + 3 / (2 * x**2) + 15 / (4 * x**4)) / (2 * x**2)
    return m.where((abs(x) > 500) & (not m.exact), far, lambda: 1 - 2 * x * m.dawsn(x))


def _erfcx_slope(m, x):
    far = lambda: -(1 - 3 / (2 * x**2) + 15 / (4 * x**4)) / (m.sqrt(m.pi) * x**2)
    return m.where((x > 500) & (not m.exact), far, lambda: 2 * x * m.erfcx(x) - 2 / m.sqrt(m.pi))


def _log1mexp(m, x):
    near = lambda: m.log(-m.expm1(-x))
    return m.where(x < 0.6931471805599453, near, lambda: m.log1p(-m.exp(-x)))


def _kink(m, x, below, above):
    """A derivative that jumps at 0, where it is not compared."""
    return m.where(x > 0, above, lambda: m.where(x < 0, below, lambda: x * m.nan))


_SELU, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
_TURNS = tuple(k * 1.5707963267948966 for k in range(-8, 9))
_WHOLE = tuple(float(k) for k in range(-12, 4))
_ONES = (-1.0, 1.0)

UNARY = (
    Unary(
        "numpy.absolute",
        lambda m, x: abs(x),
        lambda m, x: _kink(m, x, lambda: 0 * x - 1, lambda: 0 * x + 1),
    ),
    Unary("numpy.floor", lambda m, x: m.floor(x), near=_WHOLE),
    Unary("numpy.rint", lambda m, x: m.rint(x), near=_WHOLE),
    Unary("numpy.square", lambda m, x: x * x, lambda m, x: 2 * x),
    Unary("numpy.reciprocal", lambda m, x: 1 / x, lambda m, x: -1 / x / x),
    Unary("numpy.sqrt", lambda m, x: m.sqrt(x), lambda m, x: 0.5 / m.sqrt(x)),
    Unary("numpy.cbrt", lambda m, x: m.cbrt(x), lambda m, x: 1 / (3 * m.cbrt(x) ** 2)),
    Unary(
        "lax.rsqrt", lambda m, x: 1 / m.sqrt(x), lambda m, x: -0.5 / (x * m.sqrt(x)), numpy=False
    ),
    Unary("numpy.exp", lambda m, x: m.exp(x), lambda m, x: m.exp(x)),
    Unary("numpy.exp2", lambda m, x: m.exp2(x), lambda m, x: m.ln2 * m.exp2(x)),
    Unary("numpy.expm1", lambda m, x: m.expm1(x), lambda m, x: m.exp(x)),
    Unary("numpy.log", lambda m, x: m.log(x), lambda m, x: 1 / m.positive(x), near=(1.0,)),
    Unary(
        "numpy.log2", lambda m, x: m.log2(x), lambda m, x: 1 / (m.ln2 * m.positive(x)), near=(1.0,)
    ),
    Unary(
        "numpy.log10",
        lambda m, x: m.log10(x),
        lambda m, x: 1 / (m.ln10 * m.positive(x)),
        near=(1.0,),
    ),
    Unary("numpy.log1p", lambda m, x: m.log1p(x), lambda m, x: 1 / m.positive(1 + x), near=(-1.0,)),
    Unary("numpy.sin", lambda m, x: m.sin(x), lambda m, x: m.cos(x), near=_TURNS),
    Unary("numpy.cos", lambda m, x: m.cos(x), lambda m, x: -m.sin(x), near=_TURNS),
    Unary("numpy.tan", lambda m, x: m.tan(x), lambda m, x: 1 / m.cos(x) ** 2, near=_TURNS),
    Unary(
        "numpy.arcsin",
        lambda m, x: m.arcsin(x),
        lambda m, x: 1 / m.sqrt((1 - x) * (1 + x)),
        near=_ONES,
    ),
    Unary(
        "numpy.arccos",
        lambda m, x: m.arccos(x),
        lambda m, x: -1 / m.sqrt((1 - x) * (1 + x)),
        near=_ONES,
    ),
    Unary("numpy.arctan", lambda m, x: m.arctan(x), lambda m, x: 1 / (1 + x * x), near=_ONES),
    Unary("numpy.sinh", lambda m, x: m.sinh(x), lambda m, x: m.cosh(x)),
    Unary("numpy.cosh", lambda m, x: m.cosh(x), lambda m, x: m.sinh(x)),
    Unary("numpy.tanh", lambda m, x: m.tanh(x), _sech2),
    Unary("numpy.arcsinh", lambda m, x: m.arcsinh(x), lambda m, x: 1 / m.sqrt(1 + x * x)),
    Unary(
        "numpy.arccosh",
        lambda m, x: m.arccosh(x),
        lambda m, x: 1 / m.sqrt(m.positive(x - 1) * (x + 1)),
        near=(1.0,),
    ),
    Unary(
        "numpy.arctanh",
        lambda m, x: m.arctanh(x),
        lambda m, x: 1 / m.positive((1 - x) * (1 + x)),
        near=_ONES,
    ),
    Unary("numpy.sinc", lambda m, x: m.ratio(m.sinpi(x), m.pi * x, 1), _sinc_slope, near=_WHOLE),
    Unary("numpy.i0", lambda m, x: m.i0(x), lambda m, x: m.i1(x)),
    Unary("nn.sigmoid", _sigmoid, lambda m, x: _sigmoid(m, x) * _sigmoid(m, -x), numpy=False),
    Unary("nn.softplus", _softplus, _sigmoid, numpy=False),
    Unary(
        "nn.log_sigmoid", lambda m, x: -_softplus(m, -x), lambda m, x: _sigmoid(m, -x), numpy=False
    ),
    Unary(
        "nn.silu",
        lambda m, x: x * _sigmoid(m, x),
        lambda m, x: _sigmoid(m, x) * (1 + x * _sigmoid(m, -x)),
        numpy=False,
        near=(-1.2784645,),
    ),
    Unary("nn.gelu", lambda m, x: x * _sigmoid(m, _gelu_exponent(m, x)), _gelu_slope, numpy=False),
    Unary(
        "nn.relu",
        lambda m, x: m.where(x > 0, lambda: x, lambda: 0 * x),
        lambda m, x: _kink(m, x, lambda: 0 * x, lambda: 0 * x + 1),
        numpy=False,
    ),
    Unary(
        "nn.elu",
        lambda m, x: m.where(x > 0, lambda: x, lambda: m.expm1(x)),
        lambda m, x: m.where(x > 0, lambda: 0 * x + 1, lambda: m.exp(x)),
        numpy=False,
    ),
    Unary(
        "nn.selu",
        lambda m, x: _SCALE * m.where(x > 0, lambda: x, lambda: _SELU * m.expm1(x)),
        lambda m, x: _SCALE * _kink(m, x, lambda: _SELU * m.exp(x), lambda: 0 * x + 1),
        numpy=False,
    ),
    Unary(
        "nn.soft_sign",
        lambda m, x: x / (1 + abs(x)),
        lambda m, x: 1 / (1 + abs(x)) ** 2,
        numpy=False,
    ),
    Unary(
        "nn.mish",
        lambda m, x: x * m.tanh(_softplus(m, x)),
        _mish_slope,
        numpy=False,
        near=(-1.1924312,),
    ),
    Unary("nn.squareplus", _squareplus, _squareplus_slope, numpy=False),
    Unary("nn.log1mexp", _log1mexp, lambda m, x: 1 / m.expm1(m.positive(x)), numpy=False),
    Unary(
        "scipy.special.erf",
        lambda m, x: m.erf(x),
        lambda m, x: 2 / m.sqrt(m.pi) * m.exp(-x * x),
        numpy=False,
    ),
    Unary(
        "scipy.special.erfc",
        lambda m, x: m.erfc(x),
        lambda m, x: -2 / m.sqrt(m.pi) * m.exp(-x * x),
        numpy=False,
    ),
    Unary("scipy.special.erfcx", lambda m, x: m.erfcx(x), _erfcx_slope, numpy=False),
    Unary(
        "scipy.special.erfinv",
        lambda m, x: m.erfinv(x),
        lambda m, x: m.sqrt(m.pi) / 2 * m.exp(m.erfinv(x) ** 2),
        numpy=False,
        near=_ONES,
    ),
    Unary("scipy.special.dawsn", lambda m, x: m.dawsn(x), _dawsn_slope, numpy=False),
    Unary("scipy.special.ndtr", lambda m, x: m.ndtr(x), _density, numpy=False),
    Unary("scipy.special.log_ndtr", lambda m, x: m.log_ndtr(x), _log_ndtr_slope, numpy=False),
    Unary(
        "scipy.special.ndtri",
        lambda m, x: m.ndtri(x),
        lambda m, x: 1 / _density(m, m.ndtri(x)),
        numpy=False,
        near=(0.5, 1.0),
    ),
    Unary(
        "scipy.special.logit",
        lambda m, x: m.log(x / (1 - x)) if m.exact else m.logit(x),
        lambda m, x: 1 / m.positive(x * (1 - x)),
        numpy=False,
        near=(0.5, 1.0),
    ),
    Unary(
        "scipy.special.entr",
        lambda m, x: m.entr(x),
        lambda m, x: -m.log(x) - 1,
        numpy=False,
        near=(0.36787944, 1.0),
    ),
    Unary(
        "scipy.special.spence",
        lambda m, x: m.spence(x),
        lambda m, x: m.ratio(m.log(x), 1 - x, -1),
        numpy=False,
        near=(1.0, 2.0),
    ),
    Unary(
        "scipy.special.gamma",
        lambda m, x: m.gamma(x),
        lambda m, x: m.gamma(x) * m.digamma(x),
        numpy=False,
        near=_WHOLE,
    ),
    Unary(
        "scipy.special.gammaln",
        lambda m, x: m.gammaln(x),
        lambda m, x: m.digamma(x),
        numpy=False,
        near=_WHOLE,
    ),
    Unary(
        "scipy.special.digamma",
        lambda m, x: m.digamma(x),
        lambda m, x: m.trigamma(x),
        numpy=False,
        near=(1.4616321, *_WHOLE),
    ),
    Unary("scipy.special.i0e", lambda m, x: m.i0e(x), _i0e_slope, numpy=False),
    Unary(
        "scipy.special.i1",
        lambda m, x: m.i1(x),
        lambda m, x: m.i0(x) - m.ratio(m.i1(x), x, 0.5),
        numpy=False,
    ),
    Unary("scipy.special.i1e", lambda m, x: m.i1e(x), _i1e_slope, numpy=False),
    Unary(
        "scipy.special.exp1",
        lambda m, x: m.exp1(x),
        lambda m, x: -m.exp(-x) / m.positive(x),
        numpy=False,
    ),
    Unary(
        "scipy.special.expi",
        lambda m, x: m.expi(x),
        lambda m, x: m.exp(x) / x,
        numpy=False,
        near=(0.37250741,),
    ),
)

BINARY = (
    Binary(
        "numpy.divide", lambda m, x, y: x / y, (lambda m, x, y: 1 / y, lambda m, x, y: -x / y / y)
    ),
    Binary(
        "numpy.power",
        lambda m, x, y: m.power(x, y),
        (
            lambda m, x, y: y * m.power(m.positive(x), y - 1),
            lambda m, x, y: m.log(x) * m.power(m.positive(x), y),
        ),
    ),
    Binary(
        "numpy.hypot",
        lambda m, x, y: m.hypot(x, y),
        (lambda m, x, y: x / m.hypot(x, y), lambda m, x, y: y / m.hypot(x, y)),
    ),
    Binary(
        "numpy.arctan2",
        lambda m, x, y: m.arctan2(x, y),
        (lambda m, x, y: y / (x * x + y * y), lambda m, x, y: -x / (x * x + y * y)),
    ),
    Binary(
        "numpy.logaddexp",
        lambda m, x, y: m.logaddexp(x, y),
        (lambda m, x, y: _sigmoid(m, x - y), lambda m, x, y: _sigmoid(m, y - x)),
    ),
    Binary("numpy.fmod", lambda m, x, y: m.fmod(x, y)),
    Binary("numpy.remainder", lambda m, x, y: m.remainder(x, y)),
    Binary(
        "scipy.special.xlogy",
        lambda m, x, y: m.xlogy(x, y),
        (lambda m, x, y: m.log(y), lambda m, x, y: x / m.positive(y)),
        numpy=False,
    ),
    Binary(
        "scipy.special.xlog1py",
        lambda m, x, y: m.xlog1py(x, y),
        (lambda m, x, y: m.log1p(y), lambda m, x, y: x / m.positive(1 + y)),
        numpy=False,
    ),
    Binary("scipy.special.rel_entr", lambda m, x, y: m.rel_entr(x, y), numpy=False),
    Binary("scipy.special.gammainc", lambda m, x, y: m.gammainc(x, y), numpy=False),
    Binary("scipy.special.gammaincc", lambda m, x, y: m.gammaincc(x, y), numpy=False),
)
