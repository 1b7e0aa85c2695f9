"""Exponentials and logarithms that keep digits which plain formulas lose.

exp(x) is 2^k exp(r) with the whole number k nearest to x / log(2). As XLA's own exponential
multiplies by 2^k before a formula sees it, factors that would bring the result back into range come
too late; and an argument that is a square is rounded, by half a unit in the last place of a large
number. Here the power of 2 comes last, and the argument has a second, small part (W. J. Cody and
W. Waite, "Software manual for the elementary functions", 1980).

A natural logarithm times a constant misses whole numbers by a unit in the last place, by which
`floor(log10(x))` is off by one. Where the operand is a power of the base, the result is rounded to
the nearest whole number: that test costs less than splitting the operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.core.primitive import Primitive
from weft.ops.elementwise.arithmetic import div, mul, scalar
from weft.ops.elementwise.formulas import Term, kernel, polynomial, where
from weft.runtime import stablehlo

_LOG2 = 0.693147180559945309417232121458176568


class _Format(NamedTuple):
    """The constants of a width of numbers."""

    whole: Any
    """The integers of that width."""
    bits: int
    """Bits of the fraction."""
    bias: int
    """That of the exponent."""
    log2_high: float
    """log(2) in two parts: products of the first with whole numbers below 2^12 are exact."""
    log2_low: float
    end: float
    """Here the exponential is infinite, or 0, and half of its exponent still has a power of 2."""
    square_end: float
    """And here that of half the square."""

    @property
    def shifter(self) -> float:
        """A number whose sum with a whole number has that number as its last bits."""
        return 1.5 * 2.0**self.bits


_FORMATS = {
    False: _Format(dtypes.int32, 23, 127, 0.693115234375, 3.1946184945309417e-05, 170.0, 17.0),
    True: _Format(dtypes.int64, 52, 1023, 0.6931471803691238, 1.9082149292705877e-10, 1400.0, 40.0),
}


def _format(x: Term) -> _Format:
    return _FORMATS[x.dtype == dtypes.float64]


def _clamp_to(x: Term, end: float) -> Term:
    return x.new(stablehlo.clamp(x.full(-end).ir, x.ir, x.full(end).ir))


class _Reduced:
    """x as k log(2) + r with |r| <= log(2) / 2: `rest` is r, and exp(r) - 1 is `part`.

    x is at most the `end` of its dtype.
    """

    def __init__(self, x: Term, low: Term | None = None) -> None:
        form = _format(x)
        # By the bits of the sum: XLA would simplify a sum and a difference of two constants.
        bits, none = (
            stablehlo.bitcast_convert(y.ir, form.whole)
            for y in (x * (1 / _LOG2) + form.shifter, x.full(form.shifter))
        )
        self.count = stablehlo.subtract(bits, none)
        k = x.new(stablehlo.convert(self.count, x.dtype))
        rest = (x - k * form.log2_high) - k * form.log2_low
        self.rest = rest if low is None else rest + low
        terms = 14 if x.dtype == dtypes.float64 else 8
        series = polynomial(self.rest, [1 / math.factorial(n) for n in range(2, terms)])
        self.part = self.rest + self.rest * self.rest * series

    def scaled(self, value: Term, more: int = 0) -> Term:
        """value * 2^(k + more), by two factors: one alone may overflow or underflow."""
        count = stablehlo.add(self.count, self._number(more)) if more else self.count
        half = stablehlo.shift_right_arithmetic(count, self._number(1))
        return value * self._power(half) * self._power(stablehlo.subtract(count, half))

    def scaled_once(self, value: Term, more: int) -> Term:
        """value * 2^(k + more), which neither overflows nor underflows."""
        return value * self._power(stablehlo.add(self.count, self._number(more)))

    def _number(self, number: int) -> Any:
        return stablehlo.full(number, self.rest.shape, _format(self.rest).whole)

    def _power(self, exponent: Any) -> Term:
        form = _format(self.rest)
        shifted = stablehlo.add(exponent, self._number(form.bias))
        bits = stablehlo.shift_left(shifted, self._number(form.bits))
        return self.rest.new(stablehlo.bitcast_convert(bits, self.rest.dtype))


def scaled_exp(
    x: Term, factor: Term | float = 1.0, low: Term | None = None, power: int = 0
) -> Term:
    """factor * exp(x + low) * 2^power, where only the whole may overflow or underflow.

    `low` is a small number: further digits of x.
    """
    reduced = _Reduced(_clamp_to(x, _format(x).end), low)
    value = reduced.part + 1.0
    if not (isinstance(factor, float) and factor == 1.0):
        value = value * factor
    return reduced.scaled(value, power)


def falling_exp(x: Term, low: Term | None = None) -> tuple[Term, float]:
    """exp(-|x| + low) as a number that does not underflow, and the factor that completes it: 0
    where the product with any number up to 1e4 would be 0."""
    end, shift = (770.0, 100) if x.dtype == dtypes.float64 else (130.0, 64)
    size = x.new(stablehlo.maximum((-abs(x)).ir, x.full(-end).ir))
    reduced = _Reduced(size, low)
    return reduced.scaled_once(reduced.part + 1.0, shift), 2.0**-shift


def expm1(x: Term) -> Term:
    """exp(x) - 1, as 2^k (exp(r) - 1) + (2^k - 1)."""
    reduced = _Reduced(_clamp_to(x, _format(x).end))
    # Of halves, since 2^k may overflow; above, the whole exponential, where both could.
    large = x > 40.0
    power = where(large, 0.0, reduced.scaled(x.full(0.5)))
    size = reduced.scaled(where(large, reduced.part + 1.0, reduced.part) * 0.5)
    half = size + (power - 0.5)
    return where(abs(x) < x.eps, x, half + half)


def cosh(x: Term) -> Term:
    """(exp(x) + exp(-x)) / 2, where the first exponential may overflow and its half not."""
    half = scaled_exp(abs(x), power=-1)
    return half + 0.25 / half


def sinh(x: Term) -> Term:
    """(exp(x) - exp(-x)) / 2, and by its power series (DLMF 4.33.1) below 1."""
    size = abs(x)
    near = size < 1.0
    half = scaled_exp(size, power=-1)
    far = half - 0.25 / half
    square = where(near, x, 0.0) * where(near, x, 0.0)
    terms = 10 if x.dtype == dtypes.float64 else 6
    series = polynomial(square, [1 / math.factorial(2 * n + 3) for n in range(terms - 1)])
    return where(near, x + x * (square * series), where(x < 0.0, -far, far))


def square_in_parts(x: Term) -> tuple[Term, Term]:
    """x * x as a number and the small rest that it misses.

    x is split into its leading bits and the others, whose products are exact (T. J. Dekker, "A
    floating-point technique for extending the available precision", 1971). Split and rounding are
    by bits: the compiler fuses products with sums, and the rest would be another number's.
    """
    square = _without_bits(x * x, 1)
    return square, rest_of_square(x, square)


def rest_of_square(x: Term, square: Term) -> Term:
    """x * x less a number near it, which must not be a product: that would be fused."""
    first = _without_bits(x, 27 if x.dtype == dtypes.float64 else 12)
    return (first * first - square) + (x - first) * (x + first)


def _without_bits(x: Term, count: int) -> Term:
    """x with its last `count` bits cleared."""
    whole = _format(x).whole
    mask = stablehlo.full(-(1 << count), x.shape, whole)
    bits = stablehlo.and_(stablehlo.bitcast_convert(x.ir, whole), mask)
    return x.new(stablehlo.bitcast_convert(bits, x.dtype))


def exp_of_square(x: Term, sign: int, factor: Term | float = 1.0, half: bool = False) -> Term:
    """factor * exp(sign * x * x), or of half the square, without its rounding error."""
    scale = 0.5 if half else 1.0
    end = _format(x).square_end
    square, rest = square_in_parts(_clamp_to(x, end))
    if scale != 1.0:
        square, rest = square * scale, rest * scale
    if sign > 0:
        return scaled_exp(square, factor, rest)
    value, shrink = falling_exp(square, -rest)
    return (value * factor) * shrink


def is_power_of_two(x: Term, exponent: Term) -> Term:
    """Whether the stored fraction is zero."""
    whole = dtypes.int32 if x.dtype == dtypes.float32 else dtypes.int64
    ones = stablehlo.full((1 << dtypes.finfo(x.dtype).nmant) - 1, x.shape, whole)
    fraction = stablehlo.and_(stablehlo.bitcast_convert(x.ir, whole), ones)
    none = stablehlo.full(0, x.shape, whole)
    return Term(stablehlo.compare(fraction, none, "EQ"), x.shape, dtypes.bool_)


def is_power_of_ten(x: Term, exponent: Term) -> Term:
    """Whether x is the number nearest to 10**exponent."""
    limits = dtypes.finfo(x.dtype)
    low, high = (math.trunc(math.log10(float(end))) for end in (limits.tiny, limits.max))
    powers = np.array([float(f"1e{k}") for k in range(low, high + 1)]).astype(x.dtype)
    table = stablehlo.constant(powers, powers.shape, x.dtype)
    # Exponents outside of the table take its nearest end.
    place = stablehlo.convert((exponent - low).ir, dtypes.int32)
    place = stablehlo.reshape(place, (*x.shape, 1))
    dimensions = stablehlo.GatherDimensions(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(x.shape),
    )
    return x.equals(x.new(stablehlo.gather(table, place, dimensions, (1,))))


# 1 / log(base) as a number and a rest that is positive: infinities would have no sum otherwise.
_INVERSE_LOGS = {
    (2, dtypes.float64): (1.4426950408889634, 2.0355273740931033e-17),
    (2, dtypes.float32): (1.4426950216293335, 1.92596298909109e-08),
    (10, dtypes.float64): (0.4342944819032518, 1.098319650216765e-17),
    (10, dtypes.float32): (0.4342944622039795, 1.9699272324480432e-08),
}


def _logarithm(base: int, is_power: Callable[[Term, Term], Term]) -> Primitive:
    def formula(x: Term) -> Term:
        high, low = _INVERSE_LOGS[base, x.dtype]
        logarithm = x.log()
        value = logarithm * high + logarithm * low
        whole = value.apply(stablehlo.round_nearest_even)
        return where(is_power(x, whole), whole, value)

    def jvp(t: Any, ans: Any, x: Any) -> Any:
        # Not over the product with x, which may be too small.
        return div(mul(t, scalar(1 / math.log(base), x)), x)

    return kernel(f"log{base}", formula, jvp)


def log2(x: Any) -> Any:
    """Elementwise logarithm to base 2 of real numbers."""
    return log2_p.bind(x)


log2_p = _logarithm(2, is_power_of_two)


def log10(x: Any) -> Any:
    """Elementwise logarithm to base 10 of real numbers."""
    return log10_p.bind(x)


log10_p = _logarithm(10, is_power_of_ten)
