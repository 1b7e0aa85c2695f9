"""Common parts of distributions: public functions, the standard variable, and the support.

The module of a distribution has its formulas; a `Family` makes the public functions from them, with
their docstrings.

A formula never gets a number outside of the support, where a derivative could become NaN: `inside`
replaces it, and the caller replaces the result. NaN counts as inside, so that it shows in the
result.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, Self

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.scipy.real_functions import Real, elementwise
from weft.scipy.special.entropies import xlog1py_p, xlogy_p
from weft.scipy.special.gammas import betaln_p, gammaln_p

P = ParamSpec("P")

betaln = betaln_p.bind
gammaln = gammaln_p.bind
xlogy = xlogy_p.bind
xlog1py = xlog1py_p.bind

# The first paragraph of each function's docstring; {0} is the name of its first argument.
_SUMMARIES = {
    "logpdf": "The logarithm of the density at {0}; minus infinity outside of the support.",
    "pdf": "The density at {0}.",
    "logpmf": "The logarithm of the probability of {0}; minus infinity where that is 0.",
    "pmf": "The probability of {0}.",
    "cdf": "The probability of at most {0}.",
    "logcdf": "The logarithm of the probability of at most {0}.",
    "sf": "The probability of more than {0}, precise where that is small.",
    "logsf": "The logarithm of the probability of more than {0}.",
    "ppf": "The quantile: where the distribution function is {0}. NaN for {0} outside of 0 to 1.",
    "isf": "The upper quantile: where the probability of more is {0}. NaN for {0} outside of 0 "
    "to 1.",
}


class _OfPoint(Protocol):
    def __call__(self, x: Any, loc: Any = 0, scale: Any = 1) -> Array: ...


class _OfProbability(Protocol):
    def __call__(self, q: Any, loc: Any = 0, scale: Any = 1) -> Array: ...


class Family:
    """Makes the public functions of a distribution's module from its formulas.

    A formula has the signature of the public function and gets arrays of one floating-point dtype
    (see `elementwise`).
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def examples(self, session: str) -> Self:
        """Takes an example of each function from a session."""
        parts = re.split(r"^(?=>>>\s)", inspect.cleandoc(session), flags=re.MULTILINE)[1:]
        self._examples = {part[4 : part.index("(")]: part.rstrip() for part in parts}
        return self

    def function(
        self, name: str, formula: Callable[P, Any], then: Callable[[Any], Any] | None = None
    ) -> Callable[P, Array]:
        """Makes the public function `name`: a formula, or `then` of its result."""

        source: Any = formula
        code = source.__code__.replace(co_name=name, co_qualname=name)
        program = types.FunctionType(
            code, source.__globals__, name, source.__defaults__, source.__closure__
        )
        program.__annotations__ = source.__annotations__
        program.__module__ = self._module
        summary = _SUMMARIES[name].format(code.co_varnames[0])
        program.__doc__ = f"{summary}\n\n{self._examples[name]}\n"
        return elementwise(program, self._module.rpartition(".")[2], then=then)

    def formula(self, formula: Callable[P, Any]) -> Callable[P, Array]:
        """Makes a public function of the formula's name."""
        return self.function(formula.__name__, formula)

    def pair(
        self, name: str, formula: Callable[P, Any]
    ) -> tuple[Callable[P, Array], Callable[P, Array]]:
        """Makes the public function `name` of a logarithm, and that of its exponential."""
        return self.function(name, formula), self.function(name[3:], formula, jnp.exp)

    def standard(self, name: str, formula: Callable[[Any], Any]) -> _OfPoint:
        """Makes a public function by `in_standard`."""
        return self.function(name, in_standard(formula))

    def density(
        self, formula: Callable[[Any], Any], of_variable: Callable[[Any], Any] | None = None
    ) -> tuple[_OfPoint, _OfPoint]:
        """Makes logpdf and pdf from the logarithm of the density of the standard variable.

        of_variable: a formula of the density itself, for one that costs less than the exponential.
        """

        def logpdf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
            return valid(scale > 0, formula(standard(x, loc, scale)) - jnp.log(scale))

        if of_variable is None:
            return self.pair("logpdf", logpdf)
        direct = of_variable

        def pdf(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
            return valid(scale > 0, direct(standard(x, loc, scale)) / scale)

        return self.function("logpdf", logpdf), self.function("pdf", pdf)

    def quantile(self, name: str, formula: Callable[[Any], Any]) -> _OfProbability:
        """Makes a public function of a probability from the quantile of the standard variable."""

        def quantile(q: Real, loc: Real = 0, scale: Real = 1) -> Array:
            return valid(scale > 0, formula(q) * scale + loc)

        return self.function(name, quantile)

    def sides(
        self, name: str, formula: Callable[P, Any], log_rest: Callable[[Any], Any] | None = None
    ) -> tuple[Callable[P, Array], ...]:
        """The `pair` of the logarithm of a probability, and that of the other side of the point.

        log_rest: the logarithm of 1 - p from that of p, by default `log1mexp`.
        """
        rest = {"logcdf": "logsf", "logsf": "logcdf"}[name]
        return (
            *self.pair(name, formula),
            self.function(rest, formula, log_rest or log1mexp),
            self.function(rest[3:], formula, complement),
        )


def in_standard(formula: Callable[[Any], Any]) -> _OfPoint:
    """Makes a formula of point, location and scale from one of the standard variable.

    NaN where the scale is not positive.
    """

    def of_point(x: Real, loc: Real = 0, scale: Real = 1) -> Array:
        return valid(scale > 0, formula(standard(x, loc, scale)))

    return of_point


def standard(x: Any, loc: Any, scale: Any) -> Any:
    """The standard variable (x - loc) / scale."""
    return (x - loc) / scale


def inside(outside: Any, x: Any, replacement: float) -> Any:
    """x, or a number of the support where x is outside."""
    return jnp.where(outside, replacement, x)


def valid(condition: Any, value: Any) -> Any:
    """A value where the parameters are valid, NaN elsewhere."""
    return jnp.where(condition, value, jnp.nan)


def is_probability(p: Any) -> Any:
    """Whether p is from 0 to 1."""
    return (p >= 0) & (p <= 1)


def probability(q: Any, value: Any) -> Any:
    """The quantile, NaN where q is not from 0 to 1."""
    return valid(is_probability(q), value)


def not_whole(k: Any) -> Any:
    """Whether a number is not an integer; False for NaN."""
    return jnp.floor(k) < k


def complement(log_p: Any) -> Any:
    """1 - p from log(p), precise for p close to 1."""
    return -jnp.expm1(log_p)


def log1mexp(x: Any) -> Any:
    """log(1 - exp(x)) for x <= 0 (M. Mächler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    near = x > -0.6931471805599453
    close = jnp.log(-jnp.expm1(jnp.where(near, x, -0.1)))
    return jnp.where(near, close, jnp.log1p(-jnp.exp(jnp.where(near, -1.0, x))))
