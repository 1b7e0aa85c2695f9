"""Special functions: the error function, the gamma function and its relatives, Bessel functions.

The compiler expands most of them (CHLO); the incomplete gamma and beta functions are in
`regularized`. Where no formula for a derivative exists in terms of these functions, taking it is an
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import Fix, WeftNotImplementedError
from weft.ops.elementwise.arithmetic import add, exp, mul, neg, rounded_value, scalar, sign, sub
from weft.ops.elementwise.families import applied, binary, emit_with, floating
from weft.ops.elementwise.formulas import (
    Term,
    any_of,
    chebyshev,
    kernel,
    lowered,
    polynomial,
    where,
)
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "bessel_i0e", "bessel_i1e", "digamma", "erf", "erf_inv", "erfc", "lgamma", "polygamma", "zeta",
]  # fmt: skip


def no_derivative(operation: str, operand: str) -> Callable[..., Any]:
    """A jvp rule for an operand in which the derivative is not available: it raises."""

    def rule(t: Any, ans: Any, *values: Any) -> Any:
        message = f"{operation} has no derivative in {operand} that weft can compute"
        got = f"a derivative in the operand {operand}"
        wanted = "a derivative in the other operands only"
        fix = Fix(
            "stop_gradient",
            f"if {operand} is to count as constant, pass lax.stop_gradient({operand})",
            {"operand": operand},
        )
        raise WeftNotImplementedError(message, operation=operation, got=got, wanted=wanted, fix=fix)

    return rule


# ---- the error function ------------------------------------------------------------------------


def times_gaussian(t: Any, x: Any, factor: float, sign: int) -> Any:
    """t * factor * exp(sign * x^2)."""
    square = mul(x, x)
    # Negated as in the compiler's own erfc, which takes this exponential, too. The transpose
    # multiplies with the factor first, where it joins others.
    return mul(mul(t, exp(neg(square) if sign < 0 else square)), scalar(factor, x))


def erf(x: ArrayLike) -> Array:
    """Elementwise error function.

    >>> lax.erf(np.array([0.0, 1.0]))
    Array([0.        , 0.84270084], dtype=float32)
    """
    return erf_p.bind(x)


erf_p = floating(
    "erf",
    jvp=lambda t, ans, x: times_gaussian(t, x, 2 / math.sqrt(math.pi), -1),
    lower=emit_with(stablehlo.erf),
)


def erfc(x: ArrayLike) -> Array:
    """Elementwise complementary error function, 1 - erf(x).

    >>> lax.erfc(np.array([0.0, 1.0]))
    Array([1.        , 0.15729924], dtype=float32)
    """
    return erfc_p.bind(x)


erfc_p = floating(
    "erfc",
    jvp=lambda t, ans, x: times_gaussian(t, x, -2 / math.sqrt(math.pi), -1),
    lower=emit_with(stablehlo.erfc),
)


def erf_inv(x: ArrayLike) -> Array:
    """Elementwise inverse of the error function, between -1 and 1.

    >>> lax.erf_inv(np.array([0.0, 0.5]))
    Array([0.        , 0.47693628], dtype=float32)
    """
    return erf_inv_p.bind(x)


erf_inv_p = floating(
    "erf_inv",
    jvp=lambda t, ans, x: times_gaussian(t, ans, math.sqrt(math.pi) / 2, 1),
    lower=emit_with(stablehlo.erf_inv),
)


# ---- the gamma function ------------------------------------------------------------------------


def lgamma(x: ArrayLike) -> Array:
    """Elementwise logarithm of the absolute value of the gamma function.

    >>> lax.lgamma(np.array([1.0, 4.0]))
    Array([4.7683716e-07, 1.7917603e+00], dtype=float32)
    """
    return lgamma_p.bind(x)


lgamma_p = floating(
    "lgamma", jvp=lambda t, ans, x: mul(t, digamma(x)), lower=emit_with(stablehlo.lgamma)
)


def digamma(x: ArrayLike) -> Array:
    """Elementwise derivative of `lgamma`.

    >>> lax.digamma(np.array([1.0, 2.0]))
    Array([-0.5772154 ,  0.42278463], dtype=float32)
    """
    return digamma_p.bind(x)


digamma_p = floating(
    "digamma",
    jvp=lambda t, ans, x: mul(t, polygamma(scalar(1, x), x)),
    lower=emit_with(stablehlo.digamma),
)


def is_odd(x: Term) -> Term:
    """Whether a whole number is odd."""
    return ~(x - 2.0 * (x * 0.5).apply(stablehlo.floor)).equals(0.0)


def polygamma_formula(m: Term, x: Term) -> Term:
    """A multiple of Hurwitz' zeta function (DLMF 25.11.12)."""
    factorial = (m + 1.0).apply(stablehlo.lgamma).exp()
    found = where(is_odd(m), factorial, -factorial) * zeta_formula(m + 1.0, x)
    return where(m.equals(0.0), x.apply(stablehlo.digamma), found)


def zeta_formula(s: Term, q: Term) -> Term:
    """The compiler's sum of (k + q)^(-s) over k = 0, 1, … for q >= 0.

    Below 0 it has one of the terms there. For whole s they are differences of two such sums:
    S(q) = S(f) + (-1)^s (S(1 - f) - S(1 - q)) with f = q - floor(q). That branch runs only where a
    number needs it: it takes three times as long.
    """
    nearest = q.apply(stablehlo.round_nearest_even)
    away = q - nearest
    whole = s.apply(stablehlo.floor).equals(s)
    below = (q < 0.0) & (q > -math.inf) & ~away.equals(0.0) & whole
    over = away > 0.0
    # The distances from the next integers below and above; one of them is exact.
    f, rest = where(over, away, 1.0 + away), where(over, 1.0 - away, -away)

    def reflected() -> list[Any]:
        first = _zeta(s, where(below, f, q))
        # Rounded, since equal products would not cancel if one were fused with the difference.
        sums = (first, *(_zeta(s, where(below, part, 1.0)) for part in (rest, 1.0 - q)))
        first, other, beyond = (x.apply(rounded_value) for x in sums)
        odd = is_odd(s)
        found = first + where(odd, -other, other) + where(odd, beyond, -beyond)
        return [where(below, found, first).ir]

    def plain() -> list[Any]:
        return [_zeta(s, q).ir]

    return q.made(stablehlo.if_(any_of(below), reflected, plain, [q.ir.type])[0])


def _zeta(s: Term, q: Term) -> Term:
    """The compiler's, but for large q, where it takes powers that underflow: there by the first
    terms of Euler and Maclaurin (DLMF 25.11.43)."""
    far = (q > 1e5) & (q < math.inf) & (s > 1.0) & (s < 30.0)
    end = where(far, q, 1e5)
    size = end.made(stablehlo.power(end.ir, (1.0 - s).ir)) / (s - 1.0)
    series = 1.0 + (s - 1.0) / (2.0 * end) * (1.0 + s / (6.0 * end))
    return where(far, size * series, q.made(stablehlo.zeta(s.ir, where(far, 2.0, q).ir)))


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise m-th derivative of `digamma` at x; m holds whole numbers in the dtype of x.

    m: the orders of the derivative, whole numbers from 0.

    >>> lax.polygamma(np.array(1.0), np.array(2.0))
    Array(0.64493406, dtype=float32)
    """
    return applied(polygamma_p, m, x)


polygamma_p = binary(
    "polygamma",
    accepts=dtypes.FLOATING,
    jvp=(
        no_derivative("polygamma", "m"),
        lambda t, ans, m, x: mul(t, polygamma(add(m, scalar(1, m)), x)),
    ),
    lower=lowered(polygamma_formula),
)


def zeta(x: ArrayLike, q: Any) -> Array:
    """Elementwise Hurwitz zeta function: the sum of (k + q)^(-x) over k = 0, 1, …

    q: the number at which the sum starts.

    >>> lax.zeta(np.array(2.0), np.array(1.0))
    Array(1.644934, dtype=float32)
    """
    return applied(zeta_p, x, q)


zeta_p = binary(
    "zeta",
    accepts=dtypes.FLOATING,
    jvp=(
        no_derivative("zeta", "x"),
        lambda t, ans, x, q: mul(t, mul(neg(x), zeta(add(x, scalar(1, x)), q))),
    ),
    lower=lowered(zeta_formula),
)


# ---- Bessel functions --------------------------------------------------------------------------

# Chebyshev coefficients, from the power series of I0 in sixty-digit arithmetic: of exp(-x) I0(x) in
# x/4 - 1 for x <= 8, and of sqrt(x) exp(-x) I0(x) in 16/x - 1 above.
_I0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17,
)  # fmt: skip
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.811680669352621e-15, 1.7725601330565245e-15,
    -3.425485619677142e-16, -2.827623980516646e-16, 3.461222867695658e-17, 4.465621420302078e-17,
)  # fmt: skip


def bessel_i0e(x: ArrayLike) -> Array:
    """Elementwise exp(-|x|) I0(x), the scaled modified Bessel function of order 0.

    >>> lax.bessel_i0e(np.array([0.0, 1.0]))
    Array([1.       , 0.4657596], dtype=float32)
    """
    return bessel_i0e_p.bind(x)


def bessel_i0e_formula(x: Term) -> Term:
    size = abs(x)
    near = chebyshev(where(size <= 8.0, size, 8.0) * 0.25 - 1.0, _I0_NEAR)
    # The function is convex, so above its tangent at 0, where it is exactly 1.
    near = x.made(stablehlo.maximum(near.ir, (1.0 - size).ir))
    large = where(size > 8.0, size, 8.0)
    far = chebyshev(16.0 / large - 1.0, _I0_FAR) / large.sqrt()
    return where(size <= 8.0, near, where(x.is_nan(), x, far))


bessel_i0e_p = kernel(
    "bessel_i0e",
    bessel_i0e_formula,
    lambda t, ans, x: mul(t, sub(bessel_i1e(x), mul(sign(x), ans))),
)


def bessel_i0_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, bessel_i1_p.bind(x))


def grown(x: Term, scaled: Term) -> Term:
    """exp(|x|) scaled, where the exponential may overflow and the product not."""
    size = abs(x)
    large = size > 80.0
    return where(large, size - 8.0, size).exp() * where(large, scaled * math.exp(8.0), scaled)


bessel_i0_p = kernel("bessel_i0", lambda x: grown(x, bessel_i0e_formula(x)), bessel_i0_jvp)


def bessel_i1e(x: ArrayLike) -> Array:
    """Elementwise exp(-|x|) I1(x), the scaled modified Bessel function of order 1.

    >>> lax.bessel_i1e(np.array([0.0, 1.0]))
    Array([0.        , 0.20791042], dtype=float32)
    """
    return bessel_i1e_p.bind(x)


def bessel_i1e_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, sub(_slope_of_i1(x, True), mul(sign(x), ans)))


bessel_i1e_p = floating("bessel_i1e", jvp=bessel_i1e_jvp, lower=emit_with(stablehlo.bessel_i1e))


def bessel_i1_formula(x: Term) -> Term:
    return grown(x, x.apply(stablehlo.bessel_i1e))


def bessel_i1_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, _slope_of_i1(x, False))


bessel_i1_p = kernel("bessel_i1", bessel_i1_formula, bessel_i1_jvp)


# ---- Bessel functions over powers --------------------------------------------------------------

# By which derivatives of all orders are sums of positive terms: I0(x) - I1(x) / x would cancel.


def bessel_quotient(x: Any, order: int, scaled: bool) -> Any:
    """I_n(x) / x^n, times exp(-|x|) if it is `scaled`; its derivative is x times the next one."""
    return bessel_quotient_p.bind(x, order=order, scaled=scaled)


def _slope_of_i1(x: Any, scaled: bool) -> Any:
    """The derivative of x times the first quotient, without that of the scale."""
    first, second = (bessel_quotient(x, order, scaled) for order in (1, 2))
    return add(first, mul(mul(x, x), second))


def bessel_quotient_jvp(t: Any, ans: Any, x: Any, *, order: int, scaled: bool) -> Any:
    slope = mul(x, bessel_quotient(x, order + 1, scaled))
    return mul(t, sub(slope, mul(sign(x), ans)) if scaled else slope)


def bessel_quotient_lower(context: Any, x: Any, *, order: int, scaled: bool) -> Any:
    def formula(x: Term) -> Term:
        size = abs(x)
        # The power series (DLMF 10.25.2) up to 8; above, the recurrence 10.29.1 upwards.
        near = where(size <= 8.0, size, 0.0)
        coefficients = [
            0.25**k / (math.factorial(k) * math.factorial(order + k) * 2**order)
            for k in range(32 if x.eps < 1e-10 else 20)
        ]
        series = polynomial(near * near, coefficients)
        far = where(size > 8.0, size, 8.0)
        low, high = bessel_i0e_formula(far), far.apply(stablehlo.bessel_i1e)
        for k in range(1, order):
            low, high = high, low - high * (2.0 * k) / far
        for _ in range(order):
            high = high / far
        if scaled:
            return where(size <= 8.0, series * (-near).exp(), high)
        return where(size <= 8.0, series, grown(far, high))

    return lowered(formula)(context, x)


bessel_quotient_p = floating(
    "bessel_quotient", jvp=bessel_quotient_jvp, lower=bessel_quotient_lower
)
