"""Hypergeometric functions 1F1 and 2F1 of real arguments: series, transformed where they converge.

DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from typing import Any

from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.ops.elementwise.formulas import Term, repeat_while, where
from weft.ops.elementwise.special import no_derivative
from weft.runtime import stablehlo
from weft.scipy.real_functions import Real, elementwise, kernel
from weft.scipy.special.gammas import gammasgn_formula, is_whole, lgamma

__all__ = ["hyp1f1", "hyp2f1"]

_LIMIT = 20_000


def _nonpositive_integer(x: Term) -> Term:
    return is_whole(x) & (x <= 0.0)


def _series_1f1(a: Term, b: Term, x: Term) -> list[Term]:
    """The sum of (a)_n x^n / ((b)_n n!) (DLMF 13.2.2), and the size of its largest term."""

    def active(bound: Term, total: Term, *rest: Term) -> Term:
        return bound > abs(total) * (a.eps / 4)

    # Where a + k is close to 0 a term is smaller than later ones; the bound ignores that.
    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        bound, total, largest, term, a, b, x = state
        k = n - 1.0
        factor, common = a + k, x / ((b + k) * n)
        term = term * factor * common
        bound = bound * where(abs(factor) < 1.0, 1.0, abs(factor)) * abs(common)
        return bound, total + term, _larger(largest, abs(term)), term, a, b, x

    one = a.full(1.0)
    return repeat_while(active, body, one, one, one, one, a, b, x, limit=_LIMIT, results=(1, 2))


def _series_1f1_slopes(a: Term, b: Term, x: Term) -> list[Term]:
    """The sum of `_series_1f1`, its derivatives in a and b, and the size of the largest term."""

    def active(*state: Term) -> Term:
        term, in_a, in_b, total, total_a, total_b = state[:6]
        eps = a.eps / 4
        more = abs(term) > abs(total) * eps
        more = more | (abs(in_a) > (abs(total_a) + abs(total)) * eps)
        return more | (abs(in_b) > (abs(total_b) + abs(total)) * eps)

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        term, in_a, in_b, total, total_a, total_b, largest, a, b, x = state
        k = n - 1.0
        common = x / ((b + k) * n)
        in_a = (in_a * (a + k) + term) * common
        in_b = (in_b - term / (b + k)) * (a + k) * common
        term = term * (a + k) * common
        largest = _larger(largest, abs(term))
        totals = total + term, total_a + in_a, total_b + in_b
        return term, in_a, in_b, *totals, largest, a, b, x

    one, zero = a.full(1.0), a.full(0.0)
    state = (one, zero, zero, one, zero, zero, one, a, b, x)
    return repeat_while(active, body, *state, limit=_LIMIT, results=(3, 4, 5, 6))


def _confluent(a: Term, b: Term, x: Term, slopes: bool) -> list[Term]:
    """1F1, and with `slopes` also its derivatives in a and b."""
    valid = ~(_nonpositive_integer(b) | a.is_nan() | b.is_nan() | x.is_nan())
    valid = valid & (abs(x) < 1e4) & (abs(a) < math.inf) & (abs(b) < math.inf)
    a, b = where(valid, a, 1.0), where(valid, b, 1.0)
    z = where(valid, x, 0.0)
    # Kummer's transformation, DLMF 13.2.39: for negative x all terms get one sign. A polynomial of
    # low degree is better summed as it is.
    turned = (z < 0.0) & ~(_nonpositive_integer(a) & (a > -20.0))
    series = _series_1f1_slopes if slopes else _series_1f1
    *parts, largest = series(where(turned, b - a, a), b, abs_if(turned, z))
    # Terms of changing sign: rounding the largest is an error of the sum. It is compared with the
    # larger of the sum and 1, so that a zero of the function is not given up.
    kept = largest * math.sqrt(a.eps) < _larger(abs(parts[0]), a.full(1.0))
    valid = valid & (kept | largest.equals(math.inf))
    if slopes:
        value, in_a, in_b = parts
        parts = [value, where(turned, -in_a, in_a), where(turned, in_a + in_b, in_b)]
    factor = where(turned, z, 0.0).exp()
    return [where(valid, part * factor, math.nan) for part in parts]


def _larger(x: Term, y: Term) -> Term:
    return x.new(stablehlo.maximum(x.ir, y.ir))


def abs_if(pred: Term, x: Term) -> Term:
    return where(pred, -x, x)


def hyp1f1_formula(a: Term, b: Term, x: Term) -> Term:
    found = where(a.equals(b), where(a.equals(b), x, 0.0).exp(), _confluent(a, b, x, False)[0])
    pole = _nonpositive_integer(b) & ~(_nonpositive_integer(a) & (a >= b))
    found = where(x.equals(0.0) | a.equals(0.0), 1.0, where(pole, math.inf, found))
    return where(a.is_nan() | b.is_nan() | x.is_nan(), math.nan, found)


_twice = [no_derivative("hyp1f1", f"{name} (a second time)") for name in "ab"]
hyp1f1_in_a_p = kernel(
    "hyp1f1_in_a",
    lambda a, b, x: _confluent(a, b, x, True)[1],
    *_twice,
    lambda t, y, a, b, x: t * _in_a_x(a, b, x),
)
hyp1f1_in_b_p = kernel(
    "hyp1f1_in_b",
    lambda a, b, x: _confluent(a, b, x, True)[2],
    *_twice,
    lambda t, y, a, b, x: t * _in_b_x(a, b, x),
)


def _in_a_x(a: Any, b: Any, x: Any) -> Any:
    """The derivative of a/b 1F1(a + 1, b + 1, x) in a."""
    after = a + 1.0, b + 1.0, x
    return (hyp1f1_p.bind(*after) + a * hyp1f1_in_a_p.bind(*after)) / b


def _in_b_x(a: Any, b: Any, x: Any) -> Any:
    """The derivative of a/b 1F1(a + 1, b + 1, x) in b."""
    after = a + 1.0, b + 1.0, x
    return (a / b) * (hyp1f1_in_b_p.bind(*after) - hyp1f1_p.bind(*after) / b)


hyp1f1_p: Primitive = kernel(
    "hyp1f1",
    hyp1f1_formula,
    lambda t, y, a, b, x: t * hyp1f1_in_a_p.bind(a, b, x),
    lambda t, y, a, b, x: t * hyp1f1_in_b_p.bind(a, b, x),
    lambda t, y, a, b, x: t * ((a / b) * hyp1f1_p.bind(a + 1.0, b + 1.0, x)),
)


@elementwise
def hyp1f1(a: Real, b: Real, x: Real) -> Array:
    """Kummer's confluent hypergeometric function (DLMF 13.2.2), by its series, for |x| below 10000.

    The terms of the series change sign and cancel where a and x have different signs and |a x| is
    large (for x < 0: where b - a < 0 is large). The result is NaN where that takes more than half
    of the digits of the larger of the sum and 1: for b about 1 from |a x| of about 200 on in
    float64, and 40 in float32. First derivatives in all arguments, second ones unless both are in
    a and b.

    >>> hyp1f1(1.0, 1.0, np.array([0.0, 1.0]))
    Array([1.       , 2.7182817], dtype=float32)
    """
    return hyp1f1_p.bind(a, b, x)


def _series_2f1(a: Term, b: Term, c: Term, x: Term) -> Term:
    """The sum of (a)_n (b)_n x^n / ((c)_n n!), DLMF 15.2.1."""

    def active(*state: Term) -> Term:
        term, total = state[:2]
        return abs(term) > abs(total) * (a.eps / 4)

    def body(n: Term, *state: Term) -> tuple[Term, ...]:
        term, total, a, b, c, x = state
        k = n - 1.0
        term = term * ((a + k) / (c + k)) * ((b + k) * x / n)
        return term, total + term, a, b, c, x

    one = a.full(1.0)
    return repeat_while(active, body, one, one, a, b, c, x, limit=_LIMIT, results=(1,))[0]


def _gammas(above: tuple[Term, Term], below: tuple[Term, Term]) -> Term:
    """gamma(p) gamma(q) / (gamma(r) gamma(s)); 0 at poles of the denominator."""
    (p, q), (r, s) = above, below
    pole = _nonpositive_integer(r) | _nonpositive_integer(s)
    r, s = where(pole, 1.0, r), where(pole, 1.0, s)
    size = (lgamma(p) + lgamma(q) - lgamma(r) - lgamma(s)).exp()
    sign = gammasgn_formula(p) * gammasgn_formula(q) * gammasgn_formula(r) * gammasgn_formula(s)
    return where(pole, 0.0, sign * size)


def _power(x: Term, exponent: Term) -> Term:
    return x.new(stablehlo.power(x.ir, exponent.ir))


def _towards_one(a: Term, b: Term, c: Term, x: Term) -> Term:
    """2F1 for 0 <= x < 1."""
    excess = c - a - b
    terminates = _nonpositive_integer(a) | _nonpositive_integer(b)
    # Near 1 the connection formula DLMF 15.8.4, unless its two terms have poles that cancel.
    distance = abs(excess - excess.apply(stablehlo.round_nearest_even))
    connected = (x > 0.8) & (distance > 1e-3) & ~terminates
    # Else, near 1, Euler's transformation DLMF 15.8.1 where it makes the terms smaller.
    turned = (x > 0.5) & (excess < 0.0) & ~connected & ~terminates
    rest = 1.0 - x
    e = where(connected, excess, 0.3)
    p, q = where(turned, c - a, a), where(turned, c - b, b)
    first = _series_2f1(p, q, where(connected, 1.0 - e, c), where(connected, rest, x))
    second = _series_2f1(
        where(connected, c - a, 1.0),
        where(connected, c - b, 1.0),
        where(connected, 1.0 + e, 1.0),
        where(connected, rest, 0.0),
    )
    joined = _gammas((c, e), (c - a, c - b)) * first
    joined = joined + _power(rest, e) * _gammas((c, -e), (a, b)) * second
    factor = _power(rest, where(turned, excess, 0.0))
    return where(connected, joined, first * factor)


def hyp2f1_formula(a: Term, b: Term, c: Term, x: Term) -> Term:
    unknown = a.is_nan() | b.is_nan() | c.is_nan() | x.is_nan()
    terminates = _nonpositive_integer(a) | _nonpositive_integer(b)
    valid = (
        ~unknown & ~_nonpositive_integer(c) & (abs(x) < 1e300 if a.eps < 1e-10 else abs(x) < 1e30)
    )
    valid = valid & ((x < 1.0) | terminates)
    p, q, r, z = (where(valid, value, 1.0) for value in (a, b, c, where(valid, x, 0.0)))
    # Pfaff's transformation, DLMF 15.8.1, takes negative numbers to 0 … 1.
    turned = (z < 0.0) & ~terminates
    # The smaller exponent keeps the other parameter's terms of one sign.
    swap = turned & (abs(p) > abs(q))
    p, q = where(swap, q, p), where(swap, p, q)
    w = where(turned, z / (z - 1.0), z)
    polynomial = terminates | (w < 0.0) | (w >= 1.0)
    value = _towards_one(p, where(turned, r - q, q), r, where(polynomial, 0.25, w))
    finite = _series_2f1(
        where(polynomial, p, 1.0),
        where(polynomial, q, 1.0),
        where(polynomial, r, 1.0),
        where(polynomial, w, 0.0),
    )
    found = where(polynomial, finite, value * _power(1.0 - where(turned, z, 0.0), -p))
    excess = c - a - b
    at_one = where(
        excess > 0.0, _gammas((c, where(excess > 0.0, excess, 1.0)), (c - a, c - b)), math.inf
    )
    found = where(x.equals(1.0) & ~terminates, at_one, found)
    found = where((x > 1.0) & ~terminates, math.inf, found)
    found = where(_nonpositive_integer(c), math.inf, found)
    found = where(x.equals(0.0) | a.equals(0.0) | b.equals(0.0), 1.0, found)
    return where(unknown, math.nan, found)


hyp2f1_p: Primitive = kernel(
    "hyp2f1",
    hyp2f1_formula,
    no_derivative("hyp2f1", "a"),
    no_derivative("hyp2f1", "b"),
    no_derivative("hyp2f1", "c"),
    lambda t, y, a, b, c, x: t * ((a * b / c) * hyp2f1_p.bind(a + 1.0, b + 1.0, c + 1.0, x)),
)


@elementwise
def hyp2f1(a: Real, b: Real, c: Real, x: Real) -> Array:
    """Gauss' hypergeometric function (DLMF 15.2.1) of real x up to 1; infinite above, except for
    polynomials.

    Series, with the transformations of DLMF 15.8. Derivatives are available in x; in a, b and c
    they raise WeftNotImplementedError.

    c: the third parameter, of the denominators.

    >>> hyp2f1(1.0, 1.0, 2.0, np.array([0.0, 0.5]))
    Array([1.       , 1.3862946], dtype=float32)
    """
    return hyp2f1_p.bind(a, b, c, x)
