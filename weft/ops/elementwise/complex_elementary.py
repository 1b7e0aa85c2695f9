"""Lowerings of functions of complex numbers; they tell apart the two sides of a branch cut.

They are computed from functions of the real parts (DLMF 4.2.18, 4.21.37-39, 4.35.34-36), where
the compiler's own expansions, differences of exponentials, cancel for small operands. At infinities
and NaN the results are those of C (C99, annex G), as NumPy's are. A turn by i exchanges
trigonometric and hyperbolic functions, and so their values at infinity.

On a cut the sign of a zero says from which side it is reached (Kahan, 1987; C99, annex G). The
compiler's expansions lose that sign, or take it wrongly at infinity; but where they are given parts
that are not negative they are right, and the functions here are symmetric: conj(f(z)) is f(conj(z))
for all of them, and f(-z) is -f(z) for the odd ones. Where a part is NaN and the other determines
the result, as an infinite one does, they return NaN throughout; there it is replaced as C demands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.ops.elementwise.formulas import Term, where
from weft.runtime import stablehlo

Emit = Callable[[Any], Any]
Parts = tuple[Term, Term]
# From the real and imaginary parts of operand and emitted value to those of the result.
FixParts = Callable[[Term, Term, Term, Term], Parts]


def lower_signed(emit: Emit, parts: str, fix_parts: FixParts | None = None) -> Callable[..., Any]:
    """The lowering of a unary function that keeps the signs of some parts.

    `parts` is "imag" for a function with a cut on the real axis, "real" for an odd one with a cut
    on the imaginary axis, "both" for an odd one that keeps to its quadrant. The function is emitted
    of the magnitudes of these parts; their results take the operand's signs.
    """

    def lower_complex(z: Any) -> Any:
        operand = [stablehlo.real(z), stablehlo.imag(z)]
        sizes = [
            stablehlo.abs_(x) if parts in (name, "both") else x
            for name, x in zip(("real", "imag"), operand, strict=True)
        ]
        value = emit(stablehlo.complex_(*sizes))
        found = [stablehlo.real(value), stablehlo.imag(value)]
        if parts == "both":  # parts >= 0 give parts >= 0, but for the sign of a zero
            found = [stablehlo.abs_(x) for x in found]
        return stablehlo.complex_(
            *(
                stablehlo.select(_sign_bit(x), stablehlo.negate(y), y)
                if parts in (name, "both")
                else y
                for name, x, y in zip(("real", "imag"), operand, found, strict=True)
            )
        )

    return lower_fixed(emit, fix_parts, lower_complex)


def lower_fixed(
    emit: Emit, fix_parts: FixParts | None, emit_complex: Emit | None = None
) -> Callable[..., Any]:
    """The lowering of a unary function; `fix_parts` corrects complex results from all four parts.
    `emit_complex` (by default `emit`) emits the function of complex numbers."""

    def lower(context: Any, z: Any) -> Any:
        dtype = context.in_types[0].dtype
        if dtype not in dtypes.COMPLEX:
            return emit(z)
        value = (emit_complex or emit)(z)
        if fix_parts is None:
            return value
        shape, part = context.in_types[0].shape, dtypes.to_real(dtype)
        is_real = context.out_types[0].dtype not in dtypes.COMPLEX
        parts = [take(w) for w in (z, value) for take in (stablehlo.real, stablehlo.imag)]
        if is_real:  # a magnitude, which `fix_parts` gets as both parts
            parts[2:] = value, value
        real, imag = fix_parts(*(Term(ir, shape, part) for ir in parts))
        if is_real:
            return real.ir
        return stablehlo.complex_(real.ir, imag.ir)

    return lower


def _sign_bit(x: Any) -> Any:
    """Whether the sign bit of an emitted value is set, also that of -0."""
    dtype = stablehlo.dtype_of(x.type.element_type)
    whole = dtypes.int32 if dtype == dtypes.float32 else dtypes.int64
    zero = stablehlo.full(0, tuple(x.type.shape), whole)
    return stablehlo.compare(stablehlo.bitcast_convert(x, whole), zero, "LT")


def is_negative(x: Term) -> Term:
    """Whether the sign bit is set, also that of -0."""
    return Term(_sign_bit(x.ir), x.shape, dtypes.bool_)


def infinite(x: Term) -> Term:
    """Whether infinite, of either sign."""
    return abs(x).equals(math.inf)


def with_sign_of(value: float, like: Term) -> Term:
    """A non-negative number with the signs of `like`."""
    return where(is_negative(like), like.full(-value), value)


# ---- at infinities and NaN -----------------------------------------------------------------------


def fix_log(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """The magnitude is infinite where a part is."""
    return where(infinite(x) | infinite(y), math.inf, real), imag


def fix_sqrt(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """An infinite y makes both parts infinite; an infinite x, the real (x > 0) or imaginary one."""
    beyond = infinite(y)
    return (
        where(beyond | x.equals(math.inf), math.inf, real),
        where(beyond | x.equals(-math.inf), with_sign_of(math.inf, y), imag),
    )


def fix_reciprocal(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """The reciprocal of infinity is 0, and zeros take the signs of the conjugate."""
    beyond = infinite(x) | infinite(y)
    no_real = beyond | (x.equals(0.0) & (abs(y) > 0.0))
    no_imag = beyond | (y.equals(0.0) & (abs(x) > 0.0))
    return where(no_real, with_sign_of(0.0, x), real), where(no_imag, with_sign_of(0.0, -y), imag)


def fix_sign(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """One infinite part gives the direction, two give NaN; a signed zero gives 0."""
    along, across = infinite(x), infinite(y)
    none = x.equals(0.0) & y.equals(0.0)

    def part(one: Term, other: Term, mine: Term, found: Term) -> Term:
        direction = where(other, 0.0, with_sign_of(1.0, mine))
        chosen = where(one | other, where(one & other, math.nan, direction), found)
        return where(none, 0.0, chosen)

    return part(along, across, x, real), part(across, along, y, imag)


def fix_asin(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """For y = NaN, the real part is known for x = 0, the imaginary one for infinite x."""
    lost = y.is_nan()
    unknown = lost & ~infinite(x)
    return where(lost & x.equals(0.0), x, real), where(unknown, math.nan, imag)


def fix_acos(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """As pi/2 minus the arc sine."""
    lost = y.is_nan()
    unknown = lost & ~infinite(x)
    return where(lost & x.equals(0.0), math.pi / 2, real), where(unknown, math.nan, imag)


def fix_asinh(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """As the arc sine with real and imaginary parts exchanged."""
    imag, real = fix_asin(y, x, imag, real)
    return real, imag


def fix_acosh(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """As the arc cosine with real and imaginary parts of the result exchanged."""
    imag, real = fix_acos(x, y, imag, real)
    return real, imag


def fix_atanh(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """Beside a NaN: a real part of 0 if a part is infinite or x is 0; pi/2 for infinite y."""
    lost, far = x.is_nan() | y.is_nan(), infinite(y)
    flat = where(far | infinite(x) | x.equals(0.0), with_sign_of(0.0, x), math.nan)
    angle = where(far, with_sign_of(math.pi / 2, y), math.nan)
    return where(lost, flat, real), where(lost, angle, imag)


def fix_atan(x: Term, y: Term, real: Term, imag: Term) -> Parts:
    """As atanh with real and imaginary parts exchanged."""
    imag, real = fix_atanh(y, x, imag, real)
    return real, imag


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
