"""The two namespaces in which the expressions of `elementwise_table` are evaluated."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from scipy import special

__all__ = ["Double", "exact_namespace"]


class Double:
    """Functions of NumPy and SciPy in float64: 29 more bits than float32 has."""

    exact = False
    pi, ln2, ln10, nan = math.pi, math.log(2), math.log(10), math.nan
    gammaln, digamma, spence = special.gammaln, special.digamma, special.spence
    erf, erfc, erfcx = special.erf, special.erfc, special.erfcx
    ndtr, log_ndtr, ndtri = special.ndtr, special.log_ndtr, special.ndtri
    i0, i0e, i1, i1e = special.i0, special.i0e, special.i1, special.i1e
    dawsn, logit, entr, gamma = special.dawsn, special.logit, special.entr, special.gamma
    exp1, expi, cbrt, exp2 = special.exp1, special.expi, np.cbrt, np.exp2
    xlogy, xlog1py, rel_entr = special.xlogy, special.xlog1py, special.rel_entr
    gammainc, gammaincc = special.gammainc, special.gammaincc
    exp, expm1, log, log1p, log2, log10 = np.exp, np.expm1, np.log, np.log1p, np.log2, np.log10
    sqrt, sin, cos, tan, floor, rint, sign = (
        np.sqrt, np.sin, np.cos, np.tan, np.floor, np.rint, np.sign,
    )  # fmt: skip
    arcsin, arccos, arctan, arctan2 = np.arcsin, np.arccos, np.arctan, np.arctan2
    sinh, cosh, tanh = np.sinh, np.cosh, np.tanh
    arcsinh, arccosh, arctanh = np.arcsinh, np.arccosh, np.arctanh
    power, hypot, logaddexp = np.power, np.hypot, np.logaddexp
    fmod, remainder = np.fmod, np.remainder

    @staticmethod
    def where(condition, then, otherwise):
        return np.where(condition, then(), otherwise())

    @staticmethod
    def erfinv(y):
        # Outside of its domain SciPy's takes a hundred times as long.
        return special.erfinv(np.where(abs(y) <= 1, y, np.nan))

    @staticmethod
    def positive(x):
        """x where it is positive, else NaN: a derivative has the domain of its function."""
        return np.where(x > 0, x, np.nan)

    @staticmethod
    def ratio(x, y, at_zero):
        return np.where(y == 0, at_zero, x / np.where(y == 0, 1.0, y))

    @staticmethod
    def sinpi(x):
        nearest = np.rint(x)
        return np.where(nearest % 2 == 0, 1.0, -1.0) * np.sin(np.pi * (x - nearest))

    @staticmethod
    def cospi(x):
        nearest = np.rint(x)
        return np.where(nearest % 2 == 0, 1.0, -1.0) * np.cos(np.pi * (x - nearest))

    @staticmethod
    def trigamma(x):
        mirrored = special.polygamma(1, np.where(x > 0, x, 1 - x))
        return np.where(x > 0, mirrored, (np.pi / Double.sinpi(x)) ** 2 - mirrored)


def log_ndtr(m, x):
    """The logarithm of the normal distribution, from the smaller of both tails."""
    tail = m.erfc(abs(x) / m.sqrt(2)) / 2
    return m.log(tail) if x < 0 else m.log1p(-tail)


def ndtri(m, p):
    """The inverse of the normal distribution, with the digits that 2 p - 1 takes."""
    with m.workdps(m.mp.dps + 330):
        return m.sqrt(2) * m.erfinv(2 * p - 1)


def exact_namespace(digits=50):
    """Functions of mpmath, of one number each."""
    m = importlib.import_module("mpmath")  # only for float64: the tests are without it
    m.mp.dps = digits

    def near(function: Any) -> Any:
        """A function where it has a value in a moment: mpmath adds up series of any length."""

        def bounded(x: Any) -> Any:
            if abs(x) > 1e4:
                raise ValueError("not compared")
            return function(x)

        return staticmethod(bounded)

    class Exact:
        exact = True
        pi, ln2, ln10, nan = +m.pi, m.log(2), m.log(10), m.nan
        exp, expm1, log, log1p = m.exp, m.expm1, m.log, m.log1p
        sqrt, sin, cos, tan, floor, sign = m.sqrt, m.sin, m.cos, m.tan, m.floor, m.sign
        arcsin, arccos, arctan, arctan2 = m.asin, m.acos, m.atan, m.atan2
        sinh, cosh, tanh = m.sinh, m.cosh, m.tanh
        arcsinh, arccosh, arctanh = m.asinh, m.acosh, m.atanh
        erf, erfc, erfinv, gamma = m.erf, near(m.erfc), m.erfinv, near(m.gamma)
        power, hypot, sinpi, cospi = m.power, m.hypot, m.sinpi, m.cospi
        digamma, exp1, expi = near(m.digamma), near(m.e1), near(m.ei)
        i0 = near(lambda x: m.besseli(0, x))
        i1 = near(lambda x: m.besseli(1, x))
        i0e = near(lambda x: m.besseli(0, x) * m.exp(-abs(x)))
        i1e = near(lambda x: m.besseli(1, x) * m.exp(-abs(x)))
        exp2 = staticmethod(lambda x: m.power(2, x))
        log2 = staticmethod(lambda x: m.log(x) / m.log(2))
        log10 = staticmethod(lambda x: m.log(x) / m.log(10))
        cbrt = staticmethod(lambda x: m.sign(x) * m.cbrt(abs(x)))
        rint = staticmethod(lambda x: m.nint(x))
        gammaln = near(lambda x: m.log(abs(m.gamma(x))))
        trigamma = near(lambda x: m.psi(1, x))
        spence = near(lambda x: m.polylog(2, 1 - x) if x >= 0 else m.nan)
        erfcx = near(lambda x: m.exp(x * x) * m.erfc(x))
        dawsn = near(lambda x: m.sqrt(m.pi) / 2 * m.exp(-x * x) * m.erfi(x))
        ndtr = near(lambda x: m.erfc(-x / m.sqrt(2)) / 2)
        log_ndtr = near(lambda x: log_ndtr(m, x))
        ndtri = staticmethod(lambda p: ndtri(m, p))
        entr = staticmethod(lambda x: -x * m.log(x) if x > 0 else (m.nan if x < 0 else x))
        xlogy = staticmethod(lambda x, y: x * m.log(y) if x else x)
        xlog1py = staticmethod(lambda x, y: x * m.log1p(y) if x else x)
        rel_entr = staticmethod(lambda x, y: x * m.log(x / y) if x > 0 and y > 0 else m.nan)
        logaddexp = staticmethod(lambda x, y: max(x, y) + m.log1p(m.exp(-abs(x - y))))
        gammainc = staticmethod(lambda a, x: m.gammainc(a, 0, x, regularized=True))
        gammaincc = staticmethod(lambda a, x: m.gammainc(a, x, regularized=True))
        fmod = staticmethod(lambda x, y: m.sign(x) * m.fmod(abs(x), abs(y)))
        remainder = staticmethod(lambda x, y: m.fmod(x, y))

        @staticmethod
        def where(condition, then, otherwise):
            return then() if condition else otherwise()

        @staticmethod
        def positive(x):
            return x if x > 0 else m.nan

        @staticmethod
        def ratio(x, y, at_zero):
            return x / y if y else m.mpf(at_zero)

    return Exact, m
