"""Lowerings of exponential, trigonometric and hyperbolic functions of complex numbers.

They are computed from functions of the real parts (DLMF 4.2.18, 4.21.37-39, 4.35.34-36), where
the compiler's own expansions, differences of exponentials, cancel for small operands. At infinities
and NaN the results are those of C (C99, annex G), as NumPy's are. A turn by i exchanges
trigonometric and hyperbolic functions, and so their values at infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.ops.elementwise.branch_cuts import infinite, is_negative, with_sign_of
from weft.ops.elementwise.formulas import Term, where
from weft.runtime import stablehlo

Parts = tuple[Term, Term]


def from_parts(emit: Callable[[Any], Any], formula: Callable[[Term, Term], Parts]) -> Any:
    """The lowering by `emit` for real numbers, and by a formula of both parts for complex ones."""

    def lower(context: Any, z: Any) -> Any:
        out = context.out_types[0]
        if out.dtype not in dtypes.COMPLEX:
            return emit(z)
        part = dtypes.to_real(out.dtype)
        terms = (Term(f(z), out.shape, part) for f in (stablehlo.real, stablehlo.imag))
        return stablehlo.complex_(*(found.ir for found in formula(*terms)))

    return lower


def _limit(like: Term) -> float:
    """A bound just below the logarithm of the largest number of the dtype."""
    return 709.0 if like.dtype == dtypes.float64 else 88.0


def _circle(x: Term, y: Term) -> tuple[Term, Term, Term]:
    """Cosine and sine of y; the cosine is 1 where x is infinite and y not finite, as only the
    magnitude is known there. Returns these places too."""
    lost = infinite(x) & ~_finite(y)
    return where(lost, 1.0, y.apply(stablehlo.cosine)), y.apply(stablehlo.sine), lost


def _finite(x: Term) -> Term:
    return Term(stablehlo.is_finite(x.ir), x.shape, dtypes.bool_)


def _split(size: Term) -> tuple[Term, Term, Term]:
    """Splits exp(size) into exp(e) * factor, against overflow before a small factor. Returns e
    (reduced by a constant for large sizes), the factor, and where sizes are large."""
    limit = _limit(size)
    large = size > limit
    return where(large, size - limit, size), where(large, size.full(math.exp(limit)), 1.0), large


def exp(x: Term, y: Term) -> Parts:
    """exp(x) cos y and exp(x) sin y."""
    rest, factor, _ = _split(x)
    size = rest.exp()
    cosine, sine, lost = _circle(x, y)
    sine = where(lost & (x < 0.0), with_sign_of(1.0, y), sine)
    return cosine * factor * size, where(y.equals(0.0), y, sine * factor * size)


def expm1(x: Term, y: Term) -> Parts:
    """The real part is expm1(x) cos y - 2 sin(y/2)^2, of which neither cancels near 0."""
    real, imag = exp(x, y)
    cosine, _, lost = _circle(x, y)
    own = x.apply(stablehlo.exponential_minus_one)
    half = (y * 0.5).apply(stablehlo.sine)
    small = own * cosine - 2.0 * half * half
    real = where(x > 2.0, real - 1.0, small)
    real = where(y.equals(0.0) | lost | x.equals(-math.inf), own, real)
    return where(x.equals(0.0) & y.equals(0.0), x, real), imag


def _sizes(x: Term) -> tuple[Term, Term, Term]:
    """The magnitudes of sinh x and cosh x divided by a factor, and the factor."""
    rest, factor, large = _split(abs(x))
    less = rest.apply(stablehlo.exponential_minus_one)
    whole = less + 1.0
    sinh_size = where(large, whole, less + less / whole)
    cosh_size = where(large, whole, whole + 1.0 / whole)
    return 0.5 * sinh_size, 0.5 * cosh_size, factor


def sinh(x: Term, y: Term) -> Parts:
    """sinh x cos y and cosh x sin y."""
    sinh_size, cosh_size, factor = _sizes(x)
    cosine, sine, _ = _circle(x, y)
    real = with_sign(cosine * factor * sinh_size, x)
    imag = sine * factor * cosh_size
    return where(x.equals(0.0) & ~_finite(y), x, real), where(y.equals(0.0), y, imag)


def cosh(x: Term, y: Term) -> Parts:
    """cosh x cos y and sinh x sin y."""
    sinh_size, cosh_size, factor = _sizes(x)
    cosine, sine, _ = _circle(x, y)
    imag = with_sign(sine * factor * sinh_size, x)
    zero = y.equals(0.0) | (x.equals(0.0) & ~_finite(y))
    return cosine * factor * cosh_size, where(zero, with_sign(with_sign_of(0.0, y), x), imag)


def tanh(x: Term, y: Term) -> Parts:
    """sinh x cosh x and sin y cos y over sinh(x)^2 + cos(y)^2, in which nothing cancels."""
    size, limit = abs(x), _limit(x)
    less = size.apply(lambda value: stablehlo.minimum(value, x.full(limit).ir))
    less = less.apply(stablehlo.exponential_minus_one)
    whole = less + 1.0
    inverse = 1.0 / whole
    sinh_size, cosh_size = 0.5 * (less + less * inverse), 0.5 * (whole + inverse)
    cosine, sine, lost = _circle(x, y)
    below = sinh_size * sinh_size + cosine * cosine
    turn = where(lost, with_sign_of(1.0, y), sine * cosine)
    # From here on exp(-2 |x|) is negligible beside 1.
    large = size > (20.0 if x.dtype == dtypes.float64 else 10.0)
    real = where(large & ~cosine.is_nan(), 1.0, sinh_size * cosh_size / below)
    imag = where(large, 4.0 * turn * inverse * inverse, turn / below)
    real = where(x.equals(0.0), size, real)
    return with_sign(real, x), where(y.equals(0.0), y, imag)


def with_sign(value: Term, like: Term) -> Term:
    """The value, negated where the sign bit of `like` is set."""
    return where(is_negative(like), -value, value)


def sin(x: Term, y: Term) -> Parts:
    """sin x cosh y and cos x sinh y."""
    imag, real = sinh(y, x)
    return real, imag


def cos(x: Term, y: Term) -> Parts:
    """cos x cosh y and -sin x sinh y."""
    return cosh(-y, x)


def tan(x: Term, y: Term) -> Parts:
    """As tanh, with x and y exchanged: tan(z) = -i tanh(iz)."""
    imag, real = tanh(y, x)
    return real, imag
