"""What distributions have in common: the standard variable, limits of the support, parameters.

Logarithms of factorials and powers of large counts are large and cancel. Their saddle-point form is
Stirling's formula and two deviances, none larger than the result: C. Loader, "Fast and accurate
computation of binomial probabilities" (2000).

A formula never sees a number outside of the support, where it could make a NaN of a derivative:
there `inside` gives it another one, and the caller replaces the result. NaN counts as inside, so
that it shows in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import weft.numpy as jnp
from weft.scipy.special.entropies import kl_div_p, xlog1py_p, xlogy_p
from weft.scipy.special.gammas import betaln_p, gammaln_p

__all__ = [
    "betaln",
    "density",
    "from_large",
    "gammaln",
    "inside",
    "large_binomial",
    "large_poisson",
    "log1mexp",
    "not_whole",
    "probability",
    "standard",
    "valid",
    "xlog1py",
    "xlogy",
]

betaln = betaln_p.bind
gammaln = gammaln_p.bind
xlogy = xlogy_p.bind
xlog1py = xlog1py_p.bind


def standard(x: Any, loc: Any, scale: Any) -> Any:
    """The distance from the location in units of the scale."""
    return (x - loc) / scale


def inside(outside: Any, x: Any, replacement: float) -> Any:
    """x, and a number of the support where it is outside."""
    return jnp.where(outside, replacement, x)


def valid(condition: Any, value: Any) -> Any:
    """A value where the parameters are valid, NaN elsewhere."""
    return jnp.where(condition, value, jnp.nan)


def probability(q: Any, value: Any) -> Any:
    """A quantile of a probability; NaN where that is not from 0 to 1."""
    return jnp.where((q >= 0) & (q <= 1), value, jnp.nan)


def density(logarithm: Callable[..., Any], interior: Any, x: Any, *parameters: Any) -> Any:
    """The exponential of a logarithm of a density, with derivatives that are numbers where it is 0.

    There the logarithm has an infinite slope, so it is taken at a point of the interior instead.
    """
    nothing = logarithm(x, *parameters) == -jnp.inf
    found = jnp.exp(logarithm(jnp.where(nothing, interior, x), *parameters))
    return jnp.where(nothing, 0.0, found)


# B(2k) / (2k (2k - 1)): Stirling's series is the sum of these over x^(2k - 1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
# From here on it has 16 digits.
_LARGE = 10.0


def _stirling_error(x: Any) -> Any:
    """log(x!) beyond Stirling's formula, log(2 pi x)/2 + x log(x) - x, for large x."""
    inverse = 1.0 / x
    square = inverse * inverse
    total = _STIRLING[-1] * square
    for coefficient in reversed(_STIRLING[1:-1]):
        total = (total + coefficient) * square
    return (total + _STIRLING[0]) * inverse


def large_poisson(x: Any, mean: Any) -> Any:
    """log(mean^x exp(-mean) / x!) for large x, whole or not."""
    return -_stirling_error(x) - kl_div_p.bind(x, mean) - 0.5 * jnp.log(2 * math.pi * x)


def large_binomial(x: Any, rest: Any, p: Any) -> Any:
    """The logarithm of comb(x + rest, x) p^x (1 - p)^rest for large x and rest, whole or not."""
    n = x + rest
    away = kl_div_p.bind(x, n * p) + kl_div_p.bind(rest, n * (1.0 - p))
    correction = _stirling_error(n) - _stirling_error(x) - _stirling_error(rest)
    return correction - away - 0.5 * jnp.log(2 * math.pi * x * (rest / n))


def from_large(
    form: Callable[..., Any], usual: Callable[..., Any], counts: Any, *parameters: Any
) -> Any:
    """form(*counts, *parameters) where all counts are large, else usual(*counts, *parameters).

    Each sees numbers at which its derivatives are numbers where the other one is taken.
    """
    large = counts[0] >= _LARGE
    for count in counts[1:]:
        large = large & (count >= _LARGE)
    high = form(
        *(jnp.where(large, x, _LARGE) for x in counts),
        *(jnp.where(large, x, 0.5) for x in parameters),
    )
    low = usual(
        *(jnp.where(large, 0.5, x) for x in counts),
        *(jnp.where(large, 0.5, x) for x in parameters),
    )
    return jnp.where(large, high, low)


def not_whole(k: Any) -> Any:
    """Where a number is no integer; NaN is let through."""
    return jnp.floor(k) < k


def log1mexp(x: Any) -> Any:
    """log(1 - exp(x)) for x <= 0 (M. Mächler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    near = x > -0.6931471805599453
    close = jnp.log(-jnp.expm1(jnp.where(near, x, -0.1)))
    return jnp.where(near, close, jnp.log1p(-jnp.exp(jnp.where(near, -1.0, x))))
