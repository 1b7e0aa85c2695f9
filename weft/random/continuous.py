"""Continuous distributions that are functions of uniform numbers.

Most are drawn by inversion: the inverse of the distribution function, applied to a uniform number.
See L. Devroye, "Non-Uniform Random Variate Generation", Springer 1986, chapter II.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.ops.elementwise.arithmetic import abs, exp, log, lt, mul, sign, sqrt, sub
from weft.ops.elementwise.bits import bitwise_or, clz, shift_left, shift_right_logical
from weft.ops.elementwise.convert import bitcast_convert_type, convert_element_type
from weft.ops.elementwise.elementary import log1p, tan
from weft.ops.elementwise.powers import pow
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full_like
from weft.random.draw_arguments import GumbelMode, Joined, Key, Real, Reals, Shape, Sharding
from weft.random.streams import Stream, broadcast_to, draw_function, full_operand, rows, stream_of


@draw_function
def exponential(
    key: Key, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Exponentially distributed numbers of mean 1: density exp(-x) for x >= 0.

    >>> import weft
    >>> print(weft.random.exponential(weft.random.key(0)))
    2.950128
    """
    return exponential_of(stream_of(key), shape, dtype)


def exponential_of(stream: Stream, shape: Shape, dtype: Any) -> Any:
    return -log1p(-stream.unit(shape, dtype))


@draw_function
def laplace(
    key: Key, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Laplace distributed numbers: density exp(-|x|) / 2.

    >>> weft.random.laplace(weft.random.key(0), (2,)).round(3)
    Array([-2.2570002, -3.15     ], dtype=float32)
    """
    low = dtype.type(-1 + float(dtypes.finfo(dtype).epsneg))
    x = stream_of(key).uniform(shape, dtype, low, dtype.type(1))
    return sign(x) * log1p(-abs(x))


@draw_function
def logistic(
    key: Key, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Logistically distributed numbers: density exp(-x) / (1 + exp(-x))**2.

    >>> weft.random.logistic(weft.random.key(0), (2,)).round(3)
    Array([2.8960001, 3.8220003], dtype=float32)
    """
    x = stream_of(key).uniform(shape, dtype, dtypes.finfo(dtype).tiny, dtype.type(1))
    return log(x) - log1p(-x)


@draw_function
def cauchy(
    key: Key, shape: Shape = (), dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Cauchy distributed numbers: density 1 / (pi (1 + x**2)).

    >>> weft.random.cauchy(weft.random.key(0), (2,)).round(3)
    Array([ 6.0270004, 14.838    ], dtype=float32)
    """
    x = stream_of(key).uniform(shape, dtype, dtypes.finfo(dtype).eps, dtype.type(1))
    return tan(math.pi * (x - 0.5))


@draw_function
def gumbel(
    key: Key,
    shape: Shape = (),
    dtype: Reals = None,
    mode: GumbelMode = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Gumbel distributed numbers: density exp(-(x + exp(-x))).

    `mode` "high" draws twice as many bits, which reaches further into the upper tail; "highest"
    also keeps all of them that float32 has room for, near both ends.

    >>> weft.random.gumbel(weft.random.key(0), (2,)).round(3)
    Array([2.923    , 3.8330002], dtype=float32)
    """
    return gumbel_of(stream_of(key), shape, dtype, mode)


def gumbel_of(stream: Stream, shape: Shape, dtype: Any, mode: str) -> Any:
    """Gumbel distributed numbers from a stream."""
    tiny = dtype.type(dtypes.finfo(dtype).tiny)
    if mode == "low":
        return -log(-log(stream.uniform(shape, dtype, tiny, dtype.type(1))))
    if mode == "highest" and dtype == dtypes.float32:
        return _gumbel_of_words(*rows(stream.random_bits(32, (2, *shape))))
    coarse, fine = rows(stream.unit((2, *shape), dtype))
    step = dtype.type(2.0 ** -int(dtypes.finfo(dtype).nmant))
    # Near 1 the sum would round to 1, so the steps near 0 are refined.
    refined = coarse + fine * step + tiny
    x = select(coarse >= 0.5, coarse, refined)
    return -log(-log1p(-x))


def _gumbel_of_words(high: Any, low: Any) -> Any:
    """-log(-log(1 - u)) for a uniform u of 64 bits, the high and the low word.

    The smaller of u and 1 - u is kept to 24 significant bits.
    """
    near_zero = lt(high, np.uint32(1 << 31))
    wide = shift_left(convert_element_type(high, dtypes.uint64), np.uint64(32))
    bits = bitwise_or(wide, convert_element_type(low, dtypes.uint64))
    bits = select(near_zero, bits, sub(full_like(bits, 0), bits))
    zeros = clz(bits)
    digits = shift_right_logical(shift_left(bits, zeros), np.uint64(40))
    exponent = sub(np.uint32(127 - 24), convert_element_type(zeros, dtypes.uint32))
    scale = bitcast_convert_type(shift_left(exponent, np.uint32(23)), dtypes.float32)
    x = mul(convert_element_type(digits, dtypes.float32), scale)
    return -log(-select(near_zero, log1p(-x), log(x)))


@draw_function
def pareto(
    key: Key, b: Real, shape: Joined = None, dtype: Reals = None, *, out_sharding: Sharding = None
) -> Array:
    """Pareto distributed numbers: density b / x**(b + 1) for x >= 1.

    `b` broadcasts to `shape`, which is by default its own.

    b: the exponent of the tail, above 0: a number exceeds t with probability `t**-b`; shape: the
    lengths of the result; None for the shape of `b`.

    >>> weft.random.pareto(weft.random.key(0), 2.0, (2,)).round(3)
    Array([4.3710003, 6.833    ], dtype=float32)
    """
    drawn = exponential_of(stream_of(key), shape, dtype)
    return exp(drawn / full_operand(b, shape, dtype))


@draw_function
def rayleigh(
    key: Key,
    scale: Real,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Rayleigh distributed numbers: density x / scale**2 exp(-x**2 / (2 scale**2)) for x >= 0.

    `scale` broadcasts to `shape`, which is by default its own.

    scale: the factor by which the distribution is stretched; shape: the lengths of the result; None
    for the shape of `scale`.

    >>> weft.random.rayleigh(weft.random.key(0), 1.0, (2,)).round(3)
    Array([0.328, 0.208], dtype=float32)
    """
    root = sqrt(log(stream_of(key).unit(shape, dtype)) * -2)
    return root * full_operand(scale, shape, dtype)


@draw_function
def weibull_min(
    key: Key, scale: Real, concentration: Real, shape: Joined = (), dtype: Reals = None
) -> Array:
    """Weibull distributed numbers: density c / s (x / s)**(c - 1) exp(-(x / s)**c) for x >= 0.

    scale: s, the factor by which the distribution is stretched; concentration: c, its shape. Both
    broadcast to `shape`, the lengths of the result.

    >>> weft.random.weibull_min(weft.random.key(0), 1.0, 2.0, (2,)).round(3)
    Array([1.718, 1.96 ], dtype=float32)
    """
    drawn = exponential_of(stream_of(key), shape, dtype)
    power = 1 / full_operand(concentration, shape, dtype)
    return pow(drawn, power) * full_operand(scale, shape, dtype)


@draw_function
def triangular(
    key: Key,
    left: Real,
    mode: Real,
    right: Real,
    shape: Joined = None,
    dtype: Reals = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Numbers between `left` and `right`, whose density rises to `mode` and falls from there.

    left: the least number; mode: the most likely one; right: the largest. They broadcast to
    `shape`, by default the shape to which they broadcast together.

    >>> weft.random.triangular(weft.random.key(0), 0.0, 0.5, 1.0, (2,)).round(3)
    Array([0.83800006, 0.897     ], dtype=float32)
    """
    left, mode, right = (
        broadcast_to(full_operand(x, shape, dtype), shape) for x in (left, mode, right)
    )
    width = right - left
    x = stream_of(key).unit(shape, dtype)
    rising = left + sqrt(x * width * (mode - left))
    falling = right - sqrt((1 - x) * width * (right - mode))
    return select(x < (mode - left) / width, rising, falling)
