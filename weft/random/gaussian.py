"""The normal distribution and those that are functions of normal numbers.

A normal number is the inverse of its distribution function, that is of the error function, at a
uniform number; so each takes a fixed amount of random bits, and no loop.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.cond import cond
from weft.core.types import type_of
from weft.kinds.checks import computing_dtype
from weft.ops.elementwise.arithmetic import add, div, exp, le, mul, neg, sqrt, square, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.complex import complex
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.rounding import nextafter
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.special import erf, erf_inv
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.shape import reduce_sum
from weft.random.sampler import sampler
from weft.random.sampler_arguments import Arrays, Shape, Static, check_shape, parametric
from weft.random.streams import Stream, filled, full_operand, repeated, stream_of
from weft.random.tails import in_lower_tail, in_upper_tail, tail_number
from weft.random.uniforms import draw_signs

__all__ = [
    "double_sided_maxwell", "draw_normal", "lognormal", "maxwell", "normal", "normal_of",
    "truncated_normal", "wald",
]  # fmt: skip


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Normally distributed numbers of mean 0 and variance 1.

    Args:
        key (Array): A random key.
        shape: The shape of the result.
        dtype (dtype): A floating-point or complex dtype, by default float32 (float64 with
            `enable_x64`). Of complex numbers, real and imaginary part are independent, of variance
            1/2 each.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> print(weft.random.normal(weft.random.key(0)))
    1.6226422
    """
    return _normal((key,), (shape, dtype), out_sharding)


def normal_of(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """Normal numbers of a floating-point dtype from a stream."""
    one = dtype.type(1)
    # The inverse error function is infinite at -1, so the number after it comes first.
    low = np.nextafter(dtype.type(-1), one)
    root_two = dtype.type(math.sqrt(2))
    return mul(root_two, erf_inv(stream.uniform(shape, dtype, low, one)))


def draw_normal(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """Normal numbers of a floating-point or complex dtype from a stream."""
    if dtype not in dtypes.COMPLEX:
        return normal_of(stream, shape, dtype)
    part = dtypes.to_real(dtype)
    real, imaginary = (normal_of(s, shape, part) for s in stream.split())
    return div(complex(real, imaginary), dtype.type(math.sqrt(2)))


@sampler(parametric("real or complex numbers"))
def _normal(key: Any, shape: Shape, dtype: Any) -> Any:
    return draw_normal(stream_of(key), shape, dtype)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Numbers that are normally distributed between two bounds, and never outside.

    Args:
        key (Array): A random key.
        lower (number or Array): The lower bound; it broadcasts to `shape`.
        upper (number or Array): The upper bound; it broadcasts to `shape`.
        shape: The shape of the result, by default the one to which the bounds broadcast together.
        dtype (dtype): A floating-point dtype, by default float32 (float64 with `enable_x64`).
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> print(weft.random.truncated_normal(weft.random.key(0), -1, 1))
    0.8618594
    """
    tails = any(not isinstance(x, (int, float)) for x in (lower, upper))
    # Known bounds that leave out no more than one tail need no formula for tails.
    tails = tails or lower > 1 or upper < -1
    sampler = _tailed_normal if tails else _truncated_normal
    return sampler((key, lower, upper), (shape, dtype), out_sharding)


def _between(lower: Any, upper: Any, drawn: Any, dtype: Any) -> Any:
    """Clips numbers that rounding has led outside of the bounds.

    The bounds are constant here: derivatives in them are those of `drawn`.
    """
    first = nextafter(stop_gradient(lower), dtype.type(np.inf))
    last = nextafter(stop_gradient(upper), dtype.type(-np.inf))
    return minimum(maximum(drawn, first), last)


@sampler(parametric("real numbers", "lower", "upper"))
def _truncated_normal(key: Any, lower: Any, upper: Any, shape: Shape, dtype: Any) -> Any:
    lower, upper = full_operand(lower, shape, dtype), full_operand(upper, shape, dtype)
    root_two = dtype.type(math.sqrt(2))
    # The uniform number lies between the values of the error function at the bounds.
    low, high = (erf(div(bound, root_two)) for bound in (lower, upper))
    drawn = mul(root_two, erf_inv(stream_of(key).uniform(shape, dtype, low, high)))
    return _between(lower, upper, drawn, dtype)


@sampler(parametric("real numbers", "lower", "upper"), name="truncated_normal")
def _tailed_normal(key: Any, lower: Any, upper: Any, shape: Shape, dtype: Any) -> Any:
    """As `_truncated_normal`, for bounds in a tail, too, where the error function is 1."""
    wide = computing_dtype(dtype)
    bounds = [full_operand(x, shape, dtype) for x in (lower, upper)]
    # Terms of the bounds alone are computed once where both have no dimensions.
    own = shape if any(type_of(x).shape for x in bounds) else ()
    lower, upper = (convert_element_type(repeated(x, own), wide) for x in bounds)
    above, below = in_upper_tail(lower), in_lower_tail(upper)
    tail = bitwise_or(above, below)
    one, two = (filled(x, own, wide) for x in (1, 2))
    root_two = wide.type(math.sqrt(2))
    low, high = (
        erf(div(select(tail, other, bound), root_two))
        for other, bound in ((neg(one), lower), (one, upper))
    )
    chance = convert_element_type(stream_of(key).unit(shape, dtype), wide)
    inner = maximum(low, add(mul(chance, sub(high, low)), low))
    drawn = mul(root_two, erf_inv(inner))

    def with_tails(chance: Any, lower: Any, upper: Any, drawn: Any) -> Any:
        # The lower tail mirrors the upper one.
        nearer = select(above, lower, select(below, neg(upper), one))
        farther = select(above, upper, select(below, neg(lower), two))
        outer = mul(tail_number(nearer, farther, chance), select(above, one, neg(one)))
        return select(tail, outer, drawn) if own else outer

    # Bounds are seldom in a tail, and the formula for tails costs several times as much.
    some = reduce_or(tail, tuple(range(len(own))))
    drawn = cond(some, with_tails, lambda *known: known[3], chance, lower, upper, drawn)
    drawn, lower, upper = (convert_element_type(x, dtype) for x in (drawn, lower, upper))
    return _between(lower, upper, drawn, dtype)


def lognormal(
    key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Numbers whose logarithm is normally distributed, of mean 0 and standard deviation `sigma`.

    `sigma` broadcasts to `shape`, which is by default its own.

    sigma: the standard deviation of the logarithm; shape: the lengths of the result; None for the
    shape of `sigma`.

    >>> weft.random.lognormal(weft.random.key(0), 1.0, (2,)).round(3)
    Array([5.0660005, 7.5780005], dtype=float32)
    """
    return _lognormal((key, sigma), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "sigma"))
def _lognormal(key: Any, sigma: Any, shape: Shape, dtype: Any) -> Any:
    return exp(mul(normal_of(stream_of(key), shape, dtype), full_operand(sigma, shape, dtype)))


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Maxwell distributed numbers: the length of a vector of three normal numbers.

    >>> weft.random.maxwell(weft.random.key(0), (2,)).round(3)
    Array([2.631     , 0.99100006], dtype=float32)
    """
    return _maxwell((key,), (shape, dtype), out_sharding)


def _maxwell_of(stream: Stream, shape: Shape, dtype: Any) -> Any:
    x = normal_of(stream, (*shape, 3), dtype)
    # Narrow dtypes are summed in float32.
    wide = convert_element_type(x, dtypes.float32) if dtype.itemsize < 4 else x
    length = sqrt(reduce_sum(mul(wide, wide), (len(shape),)))
    return convert_element_type(length, dtype)


@sampler(parametric("real numbers"))
def _maxwell(key: Any, shape: Shape, dtype: Any) -> Any:
    return _maxwell_of(stream_of(key), shape, dtype)


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """`loc` plus or minus, with equal chance, `scale` times a Maxwell distributed number.

    The dimensions of the parameters follow those of `shape`.

    Args:
        loc: The centre of the distribution.
        scale: The factor by which it is stretched.
        shape: The first lengths of the result; those of the parameters follow.

    >>> weft.random.double_sided_maxwell(weft.random.key(0), 0.0, 1.0, (2,)).round(3)
    Array([1.5460001, 1.5740001], dtype=float32)
    """
    return _double_sided_maxwell((key, loc, scale), (shape, dtype))


_check_two = parametric("real numbers", "loc", "scale")


def _check_double_sided(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    shape, dtype = static
    checked, (own, dtype) = _check_two(operation, arrays, (None, dtype))
    return checked, ((*check_shape(operation, shape), *own), dtype)


@sampler(_check_double_sided)
def _double_sided_maxwell(key: Any, loc: Any, scale: Any, shape: Shape, dtype: Any) -> Any:
    first, second = stream_of(key).split()
    drawn = mul(draw_signs(second, shape, dtype), _maxwell_of(first, shape, dtype))
    return add(mul(drawn, full_operand(scale, shape, dtype)), full_operand(loc, shape, dtype))


def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Wald (inverse Gaussian) distributed numbers of a mean, and of shape parameter 1.

    `mean` broadcasts to `shape`, which is by default its own. See J. Michael, W. Schucany and
    R. Haas, "Generating random variates using transformations with multiple roots", The American
    Statistician 30 (1976).

    mean: the mean of the distribution, above 0; shape: the lengths of the result; None for the
    shape of `mean`.

    >>> weft.random.wald(weft.random.key(0), 1.0, (2,)).round(3)
    Array([0.381, 0.416], dtype=float32)
    """
    return _wald((key, mean), (shape, dtype), out_sharding)


@sampler(parametric("real numbers", "mean"))
def _wald(key: Any, mean: Any, shape: Shape, dtype: Any) -> Any:
    mean = full_operand(mean, shape, dtype)
    first, second = stream_of(key).split()
    y = square(normal_of(first, shape, dtype))
    chance = second.unit(shape, dtype)
    # The smaller root of a quadratic equation, or the other one, which is mean**2 over the first.
    # The first is mean over the sum of 1, half of mean * y and the root of their difference's
    # square, in which nothing cancels.
    one, half = dtype.type(1), dtype.type(0.5)
    part = mul(mul(half, mean), y)
    share = div(one, add(add(one, part), sqrt(mul(part, add(part, dtype.type(2))))))
    smaller, larger = mul(mean, share), div(mean, share)
    return select(le(chance, div(one, add(one, share))), smaller, larger)
