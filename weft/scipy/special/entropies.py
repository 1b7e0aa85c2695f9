"""Logarithms of products, quotients and probabilities: xlogy, entropies, logit, Box-Cox, logsumexp.

Where a factor is 0 each takes its limit, and derivatives take theirs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.errors import api_boundary
from weft.nn import normalization
from weft.ops.elementwise.deviances import deviance, log_ratio
from weft.ops.elementwise.elementary import logistic_p
from weft.ops.elementwise.formulas import Term, log1p, where
from weft.runtime import stablehlo
from weft.scipy.real_functions import Real, RealOrComplex, elementwise, kernel

__all__ = [
    "boxcox", "boxcox1p", "entr", "expit", "kl_div", "log_softmax", "logit", "logsumexp",
    "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip


def quotient(x: Any, y: Any, t: Any = None) -> Any:
    """x / y, or t x / y, with value and derivative 0 where x and y are 0.

    The product comes first: the quotient may overflow where t is 0.
    """
    divisor = jnp.where((x == 0) & (y == 0), jnp.inf, y)
    return (x if t is None else t * x) / divisor


def xlogy_formula(x: Term, y: Term) -> Term:
    nothing = x.equals(0.0) & ~y.is_nan()
    return where(nothing, 0.0, x * y.log())


xlogy_p = kernel(
    "xlogy",
    xlogy_formula,
    lambda t, ans, x, y: t * jnp.log(y),
    lambda t, ans, x, y: quotient(x, y, t),
)


def _product(function: Callable[[Any], Any], x: Any, y: Any) -> Any:
    """x times a function of y for complex numbers, 0 where x is 0."""
    nothing = (x == 0) & ~jnp.isnan(y)
    return jnp.where(nothing, 0, x * function(jnp.where(nothing, 0.5, y)))


@functools.partial(elementwise, of_complex=lambda x, y: _product(jnp.log, x, y))
def xlogy(x: RealOrComplex, y: RealOrComplex) -> Array:
    """x log(y), which is 0 where x is 0; of complex numbers too.

    >>> xlogy(np.array([0.0, 2.0]), np.array([0.0, 1.0]))
    Array([0., 0.], dtype=float32)
    """
    return xlogy_p.bind(x, y)


def xlog1py_formula(x: Term, y: Term) -> Term:
    nothing = x.equals(0.0) & ~y.is_nan()
    return where(nothing, 0.0, x * log1p(y))


xlog1py_p = kernel(
    "xlog1py",
    xlog1py_formula,
    lambda t, ans, x, y: t * jnp.log1p(y),
    lambda t, ans, x, y: quotient(x, 1.0 + y, t),
)


@functools.partial(elementwise, of_complex=lambda x, y: _product(jnp.log1p, x, y))
def xlog1py(x: RealOrComplex, y: RealOrComplex) -> Array:
    """x log(1 + y), which is 0 where x is 0; precise for small y. Of complex numbers too.

    >>> xlog1py(np.array([0.0, 2.0]), np.array([-1.0, 0.0]))
    Array([0., 0.], dtype=float32)
    """
    return xlog1py_p.bind(x, y)


def entr_formula(x: Term) -> Term:
    value = 0.0 - x * where(x > 0.0, x, 1.0).log()
    return where(x < 0.0, -math.inf, where(x.equals(0.0), 0.0, value))


# 1/e, the zero of the derivative, as a number of float32 and a rest.
_TOP, _TOP_REST = 0.3678794503211975, -9.149755178738766e-09


def entr_slope_formula(x: Term) -> Term:
    """-log(x) - 1; near 1/e, where the terms cancel, from the distance to it."""
    near = abs(x - _TOP) < 0.125
    inside = where(near, x, _TOP) - _TOP
    series = -log1p(inside * math.e - _TOP_REST * math.e)
    value = -where(x < 0.0, 1.0, x).log() - 1.0
    return where(x < 0.0, 0.0, where(near, series, value))


entr_slope_p = kernel(
    "entr_slope",
    entr_slope_formula,
    lambda t, ans, x: t * jnp.where(x < 0, 0.0, -1.0 / jnp.where(x < 0, 1.0, x)),
)
entr_p = kernel("entr", entr_formula, lambda t, ans, x: t * entr_slope_p.bind(x), keeps_zero=True)


@elementwise
def entr(x: Real) -> Array:
    """-x log(x): 0 at 0, minus infinity below.

    >>> entr(np.array([0.0, 1.0, -1.0]))
    Array([  0.,   0., -inf], dtype=float32)
    """
    return entr_p.bind(x)


def rel_entr_formula(p: Term, q: Term) -> Term:
    inside = (p > 0.0) & (q > 0.0)
    outside = where(p.equals(0.0) & (q >= 0.0), 0.0, p.full(math.inf))
    found = where(inside, p * log_ratio(p, q), outside)
    return where(p.is_nan() | q.is_nan(), math.nan, found)


def kl_div_formula(p: Term, q: Term) -> Term:
    inside = (p > 0.0) & (q > 0.0)
    value = deviance(p, q - p, q)
    value = where(abs(q - p).equals(math.inf), math.nan, value)
    found = where(inside, value, where(p.equals(0.0) & (q >= 0.0), q, math.inf))
    return where(p.is_nan() | q.is_nan(), math.nan, found)


def _inside(p: Any, q: Any, slope: Any) -> Any:
    """The slope where both are positive, 0 elsewhere."""
    return jnp.where((p >= 0) & (q >= 0), slope, 0.0)


log_ratio_p = kernel(
    "log_ratio", log_ratio, lambda t, ans, p, q: t / p, lambda t, ans, p, q: t / -q
)
rel_entr_p = kernel(
    "rel_entr",
    rel_entr_formula,
    lambda t, ans, p, q: t * _inside(p, q, log_ratio_p.bind(p, q) + 1.0),
    lambda t, ans, p, q: t * _inside(p, q, -quotient(p, q)),
)
kl_div_p = kernel(
    "kl_div",
    kl_div_formula,
    lambda t, ans, p, q: t * _inside(p, q, log_ratio_p.bind(p, q)),
    lambda t, ans, p, q: t * _inside(p, q, quotient(q - p, q)),
)


@elementwise
def rel_entr(p: Real, q: Real) -> Array:
    """p log(p / q): 0 where p is 0, infinite where a number is negative or only q is 0.

    p: the first numbers, not negative; q: the second numbers, not negative.

    >>> rel_entr(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    Array([ 0., inf], dtype=float32)
    """
    return rel_entr_p.bind(p, q)


@elementwise
def kl_div(p: Real, q: Real) -> Array:
    """p log(p / q) - p + q: q where p is 0, infinite where a number is negative or only q is 0.

    p: the first numbers, not negative; q: the second numbers, not negative.

    >>> kl_div(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    Array([ 1., inf], dtype=float32)
    """
    return kl_div_p.bind(p, q)


def logit_formula(p: Term) -> Term:
    center = (p > 0.3) & (p < 0.65)
    near = where(center, p, 0.5) - 0.5
    twice = near + near
    return where(center, log1p(twice) - log1p(-twice), (p / (1.0 - p)).log())


logit_p = kernel("logit", logit_formula, lambda t, ans, p: t / (p * (1.0 - p)))


@elementwise
def logit(x: Real) -> Array:
    """log(x / (1 - x)), the inverse of `expit`; NaN outside of 0 to 1.

    >>> logit(np.array([0.0, 0.5, 1.0]))
    Array([-inf,   0.,  inf], dtype=float32)
    """
    return logit_p.bind(x)


@elementwise
def expit(x: Real) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    >>> expit(np.array([0.0, 100.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    return logistic_p.bind(x)


def _power_transform(logarithm: Term, rate: Term) -> Term:
    """(exp(rate log) - 1) / rate."""
    product = rate * logarithm
    tiny = abs(product) < 1e-19
    value = product.apply(stablehlo.exponential_minus_one) / where(rate.equals(0.0), 1.0, rate)
    return where(tiny | rate.equals(0.0), logarithm, value)


def boxcox_formula(x: Term, rate: Term) -> Term:
    return where(x.equals(0.0) & rate.equals(0.0), -math.inf, _power_transform(x.log(), rate))


def boxcox1p_formula(x: Term, rate: Term) -> Term:
    return where(x.equals(-1.0) & rate.equals(0.0), -math.inf, _power_transform(log1p(x), rate))


def _slope(product: Any) -> Any:
    """((u - 1) exp(u) + 1) / u^2, the derivative of (exp(u) - 1) / u."""
    near = jnp.abs(product) < 0.5
    series = jnp.where(near, product, 0.0)
    total = jnp.zeros_like(series)
    for k in reversed(range(16)):
        total = total * series + (k + 1) / math.factorial(k + 2)
    u = jnp.where(near, 1.0, product)
    return jnp.where(near, total, ((u - 1.0) * jnp.exp(u) + 1.0) / (u * u))


def _rate_jvp(t: Any, logarithm: Any, rate: Any) -> Any:
    """The derivative of (exp(rate log) - 1) / rate in the rate."""
    return t * (logarithm * logarithm * _slope(rate * logarithm))


boxcox_p = kernel(
    "boxcox",
    boxcox_formula,
    lambda t, ans, x, rate: t * jnp.power(x, rate - 1.0),
    lambda t, ans, x, rate: _rate_jvp(t, jnp.log(x), rate),
)
boxcox1p_p = kernel(
    "boxcox1p",
    boxcox1p_formula,
    lambda t, ans, x, rate: t * jnp.exp((rate - 1.0) * jnp.log1p(x)),
    lambda t, ans, x, rate: _rate_jvp(t, jnp.log1p(x), rate),
)


@elementwise
def boxcox(x: Real, lmbda: Real) -> Array:
    """(x^lmbda - 1) / lmbda, and log(x) where lmbda is 0: Box and Cox (1964).

    lmbda: the power of the transformation.

    >>> boxcox(np.array([1.0, 4.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    return boxcox_p.bind(x, lmbda)


@elementwise
def boxcox1p(x: Real, lmbda: Real) -> Array:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0; precise for small x.

    lmbda: the power of the transformation.

    >>> boxcox1p(np.array([0.0, 3.0]), 0.5)
    Array([0., 2.], dtype=float32)
    """
    return boxcox1p_p.bind(x, lmbda)


@api_boundary
def softmax(x: Any, /, *, axis: Any = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, several, or all (None). Raises AxisError.

    >>> softmax(np.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return normalization.softmax(x, axis)


@api_boundary
def log_softmax(x: Any, /, *, axis: Any = None) -> Array:
    """The logarithm of `softmax`, along an axis, several, or all (None). Raises AxisError.

    >>> log_softmax(np.array([1000.0, 0.0]))
    Array([    0., -1000.], dtype=float32)
    """
    return normalization.log_softmax(x, axis)


logsumexp = normalization.logsumexp
