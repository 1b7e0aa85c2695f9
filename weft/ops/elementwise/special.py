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
from weft.core.primitive import Primitive
from weft.errors import Fix, WeftNotImplementedError
from weft.ops.elementwise.arithmetic import add, mul, neg, rounded_value, scalar, sign, sub
from weft.ops.elementwise.families import apply, binary, emit_with, floating
from weft.ops.elementwise.formulas import (
    Term,
    any_of,
    chebyshev,
    kernel,
    lower_formula,
    polynomial,
    where,
)
from weft.ops.elementwise.gaussians import erf_inv_slope_p, erf_slope_p, erfc_formula
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "bessel_i0e", "bessel_i1e", "digamma", "erf", "erf_inv", "erfc", "lgamma", "polygamma", "zeta",
]  # fmt: skip


def no_derivative(operation: str, operand: str) -> Callable[..., Any]:
    """The jvp rule for an operand without an implemented derivative: it raises."""

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


def erf(x: ArrayLike) -> Array:
    """Elementwise error function.

    >>> lax.erf(np.array([0.0, 1.0]))
    Array([0.        , 0.84270084], dtype=float32)
    """
    return erf_p.bind(x)


erf_p = floating(
    "erf",
    jvp=lambda t, ans, x: mul(t, erf_slope_p.bind(x)),
    lower=emit_with(stablehlo.erf),
    keeps_zero=True,
)


def erfc(x: ArrayLike) -> Array:
    """Elementwise complementary error function, 1 - erf(x).

    >>> lax.erfc(np.array([0.0, 1.0]))
    Array([1.        , 0.15729924], dtype=float32)
    """
    return erfc_p.bind(x)


erfc_p = floating(
    "erfc",
    jvp=lambda t, ans, x: neg(mul(t, erf_slope_p.bind(x))),
    lower=lower_formula(erfc_formula),
    fused_products=True,
)


def erf_inv(x: ArrayLike) -> Array:
    """Elementwise inverse of the error function, between -1 and 1.

    >>> lax.erf_inv(np.array([0.0, 0.5]))
    Array([0.        , 0.47693628], dtype=float32)
    """
    return erf_inv_p.bind(x)


erf_inv_p = floating(
    "erf_inv",
    jvp=lambda t, ans, x: mul(t, erf_inv_slope_p.bind(x, ans)),
    lower=emit_with(stablehlo.erf_inv),
    keeps_zero=True,
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


# The Taylor series about the number of float32 that is nearest to the zero between 1 and 2.
_DIGAMMA_CENTER = 1.4616321325302124
_DIGAMMA = (
    -1.203605254910667e-08, 0.9676722564619307, -0.4427631786293686, 0.258499769112227,
    -0.16394271214806524, 0.10782405607943633, -0.07219956550570023, 0.04880429146384774,
    -0.0331611290045039, 0.022597650150773706, -0.015424767346862807, 0.010538792691945182,
    -0.00720453518299751, 0.004926781982527267, -0.0033698020855119607, 0.0023051266405617666,
    -0.0015769369995462382, 0.001078825367160576, -0.0007380710583290195, 0.0005049533517742716,
    -0.0003454680868427763, 0.00023635605988945173, -0.0001617062525695658,
    0.00011063375028265825, -7.5691811924928e-05, 5.178576941002003e-05,
)  # fmt: skip


def digamma_formula(x: Term) -> Term:
    """The compiler's, but near the zero, where its terms cancel."""
    distance = x - _DIGAMMA_CENTER
    kept = [c for k, c in enumerate(_DIGAMMA) if k < 2 or abs(c) * 0.3**k > x.eps / 64]
    series = polynomial(distance, kept)
    return where(abs(distance) < 0.3, series, x.apply(stablehlo.digamma))


digamma_p = floating(
    "digamma",
    jvp=lambda t, ans, x: mul(t, polygamma(scalar(1, x), x)),
    lower=lower_formula(digamma_formula),
)


def is_odd(x: Term) -> Term:
    """Whether a whole number is odd."""
    return ~(x - 2.0 * (x * 0.5).apply(stablehlo.floor)).equals(0.0)


def polygamma_formula(m: Term, x: Term) -> Term:
    """A multiple of Hurwitz' zeta function (DLMF 25.11.12)."""
    factorial = (m + 1.0).apply(stablehlo.lgamma).exp()
    found = where(is_odd(m), factorial, -factorial) * zeta_formula(m + 1.0, x)
    return where(m.equals(0.0), digamma_formula(x), found)


def zeta_formula(s: Term, q: Term) -> Term:
    """The compiler's sum of (k + q)^(-s) over k = 0, 1, … for q >= 0.

    Below 0 it has a single term. For whole s it is a difference of two such sums: S(q) = S(f) +
    (-1)^s (S(1 - f) - S(1 - q)) with f = q - floor(q). That branch takes three times as long and
    runs only where a number needs it.
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

    return q.new(stablehlo.if_(any_of(below), reflected, lambda: [_zeta(s, q).ir], [q.ir.type])[0])


def _zeta(s: Term, q: Term) -> Term:
    """The compiler's; the first terms of Euler and Maclaurin (DLMF 25.11.43) for large q, where its
    powers underflow."""
    far = (q > 1e5) & (q < math.inf) & (s > 1.0) & (s < 30.0)
    end = where(far, q, 1e5)
    size = end.new(stablehlo.power(end.ir, (1.0 - s).ir)) / (s - 1.0)
    series = 1.0 + (s - 1.0) / (2.0 * end) * (1.0 + s / (6.0 * end))
    return where(far, size * series, q.new(stablehlo.zeta(s.ir, where(far, 2.0, q).ir)))


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Elementwise m-th derivative of `digamma` at x; m holds whole numbers in the dtype of x.

    m: the orders of the derivative, whole numbers from 0.

    >>> lax.polygamma(np.array(1.0), np.array(2.0))
    Array(0.64493406, dtype=float32)
    """
    return apply(polygamma_p, m, x)


polygamma_p = binary(
    "polygamma",
    accepts=dtypes.FLOATING,
    jvp=(
        no_derivative("polygamma", "m"),
        lambda t, ans, m, x: mul(t, polygamma(add(m, scalar(1, m)), x)),
    ),
    lower=lower_formula(polygamma_formula),
)


def zeta(x: ArrayLike, q: Any) -> Array:
    """Elementwise Hurwitz zeta function: the sum of (k + q)^(-x) over k = 0, 1, …

    q: the number at which the sum starts.

    >>> lax.zeta(np.array(2.0), np.array(1.0))
    Array(1.644934, dtype=float32)
    """
    return apply(zeta_p, x, q)


zeta_p = binary(
    "zeta",
    accepts=dtypes.FLOATING,
    jvp=(
        no_derivative("zeta", "x"),
        lambda t, ans, x, q: mul(t, mul(neg(x), zeta(add(x, scalar(1, x)), q))),
    ),
    lower=lower_formula(zeta_formula),
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


# Of exp(-x) I1(x) / x in x/4 - 1 for x <= 8, and of sqrt(x) exp(-x) I1(x) in 16/x - 1 above.
_I1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
    -3.541581772542136e-19,
)  # fmt: skip
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.2724400167119517e-14,
    1.0420276984128802e-14, -3.814403072437007e-15, -1.8803547755107805e-15,
    3.30820231092085e-16, 2.9626289976460157e-16, -3.209525921991637e-17,
    -4.6503053684947827e-17, 4.414348323093937e-18, 7.517296311011398e-18,
    -9.314178870907263e-19, -1.2421932752759928e-18,
)  # fmt: skip
# Of exp(-x) (I0(x) - I1(x)) times (1 + x/2)^2, and times x sqrt(x).
_DIFFERENCE_NEAR = (
    0.40952084218626367, -0.300293650036762, 0.18300208621771658, -0.08201105527514806,
    0.026837931747883723, -0.0042056148173195305, -0.00192800799034168, 0.0021243171668680473,
    -0.0011674679906591176, 0.000470489512947207, -0.0001471232790831675, 3.371648353939652e-05,
    -3.579461514952807e-06, -1.4869548464327638e-06, 1.2143320995600165e-06,
    -5.450346306320663e-07, 1.9381560258373726e-07, -5.961292125804937e-08,
    1.6454613922553005e-08, -4.1577798299097426e-09, 9.737738301048835e-10,
    -2.132062824924544e-10, 4.391762512630658e-11, -8.5529108682641e-12, 1.581075383154185e-12,
    -2.783493982891531e-13, 4.680016332738091e-14, -7.533205996088986e-15,
    1.1633618464627456e-15, -1.726934381577641e-16, 2.4683208275194648e-17,
    -3.402202505443716e-18, 4.528556543481698e-19,
)  # fmt: skip
_DIFFERENCE_FAR = (
    0.2046391449198604, 0.005348526093538557, 0.00019150500095126415, 1.2032615976256658e-05,
    1.1956976470208373e-06, 1.716841771873406e-07, 2.8338106568544693e-08,
    3.051206849093951e-09, -7.434135453836242e-10, -5.767283909234434e-10,
    -1.5193610828268228e-10, 5.668790622840184e-12, 1.804470061607724e-11,
    4.253572073419977e-12, -1.1555903826473055e-12, -7.770703288312627e-13,
    1.4368043830095496e-14, 1.091302833164443e-13, 1.1406069274283997e-14,
    -1.5049144790858527e-14, -2.8555810704805216e-15, 2.2314974016990523e-15,
    5.272258797823508e-16, -3.6885258884875872e-16, -8.535599197468765e-17,
    6.754931522836628e-17, 1.1811455234960857e-17, -1.3225212379316404e-17,
    -1.0505875541751694e-18, 2.6372009335606662e-18, -1.1535848388347586e-19,
    -5.070082622879299e-19,
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
    near = x.new(stablehlo.maximum(near.ir, (1.0 - size).ir))
    large = where(size > 8.0, size, 8.0)
    far = chebyshev(16.0 / large - 1.0, _I0_FAR) / large.sqrt()
    return where(size <= 8.0, near, where(x.is_nan(), x, far))


bessel_i0e_p = kernel(
    "bessel_i0e",
    bessel_i0e_formula,
    lambda t, ans, x: neg(mul(t, mul(sign(x), bessel_difference_p.bind(x)))),
)


def bessel_difference_formula(x: Term) -> Term:
    """exp(-|x|) (I0(|x|) - I1(|x|)); the terms cancel for large x."""
    size = abs(x)
    small = where(size <= 8.0, size, 8.0)
    weight = small * 0.5 + 1.0
    near = chebyshev(small * 0.25 - 1.0, _DIFFERENCE_NEAR) / (weight * weight)
    large = where(size > 8.0, size, 8.0)
    far = chebyshev(16.0 / large - 1.0, _DIFFERENCE_FAR) / large / large.sqrt()
    return where(size <= 8.0, near, where(x.is_nan(), x, far))


def bessel_difference_jvp(t: Any, ans: Any, x: Any) -> Any:
    slope = sub(bessel_quotient(x, 1, True), mul(scalar(2, x), ans))
    return mul(t, mul(sign(x), slope))


bessel_difference_p: Primitive = kernel(
    "bessel_difference", bessel_difference_formula, bessel_difference_jvp
)


def bessel_i0_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, bessel_i1_p.bind(x))


def undo_scaling(x: Term, scaled: Term) -> Term:
    """exp(|x|) scaled, where only the exponential may overflow."""
    size = abs(x)
    large = size > 80.0
    return where(large, size - 8.0, size).exp() * where(large, scaled * math.exp(8.0), scaled)


bessel_i0_p = kernel("bessel_i0", lambda x: undo_scaling(x, bessel_i0e_formula(x)), bessel_i0_jvp)


def bessel_i1e(x: ArrayLike) -> Array:
    """Elementwise exp(-|x|) I1(x), the scaled modified Bessel function of order 1.

    >>> lax.bessel_i1e(np.array([0.0, 1.0]))
    Array([0.        , 0.20791042], dtype=float32)
    """
    return bessel_i1e_p.bind(x)


def bessel_i1e_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, sub(bessel_difference_p.bind(x), bessel_quotient(x, 1, True)))


def bessel_i1e_formula(x: Term) -> Term:
    size = abs(x)
    near = x * chebyshev(where(size <= 8.0, size, 8.0) * 0.25 - 1.0, _I1_NEAR)
    large = where(size > 8.0, size, 8.0)
    far = chebyshev(16.0 / large - 1.0, _I1_FAR) / large.sqrt()
    far = where(x < 0.0, -far, far)
    return where(size <= 8.0, near, where(x.is_nan(), x, far))


bessel_i1e_p = kernel("bessel_i1e", bessel_i1e_formula, bessel_i1e_jvp, keeps_zero=True)


def bessel_i1_formula(x: Term) -> Term:
    return undo_scaling(x, bessel_i1e_formula(x))


def bessel_i1_jvp(t: Any, ans: Any, x: Any) -> Any:
    return mul(t, _slope_of_i1(x))


bessel_i1_p = kernel("bessel_i1", bessel_i1_formula, bessel_i1_jvp, keeps_zero=True)


# ---- Bessel functions over powers --------------------------------------------------------------

# By which derivatives of all orders are sums of positive terms: I0(x) - I1(x) / x would cancel.


def bessel_quotient(x: Any, order: int, scaled: bool) -> Any:
    """I_n(x) / x^n, times exp(-|x|) if `scaled`; its derivative is x times the next one."""
    return bessel_quotient_p.bind(x, order=order, scaled=scaled)


def _slope_of_i1(x: Any) -> Any:
    """The derivative of x times the first quotient."""
    first, second = (bessel_quotient(x, order, False) for order in (1, 2))
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
        low, high = bessel_i0e_formula(far), bessel_i1e_formula(far)
        for k in range(1, order):
            low, high = high, low - high * (2.0 * k) / far
        for _ in range(order):
            high = high / far
        if scaled:
            return where(size <= 8.0, series * (-near).exp(), high)
        return where(size <= 8.0, series, undo_scaling(far, high))

    return lower_formula(formula)(context, x)


bessel_quotient_p = floating(
    "bessel_quotient", jvp=bessel_quotient_jvp, lower=bessel_quotient_lower
)
