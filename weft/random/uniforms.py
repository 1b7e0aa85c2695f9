"""Random bits and uniformly distributed numbers: bits, reals, integers, booleans, signs."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_dtype, invalid_value
from weft.arrays.array import Array, put
from weft.core.types import ArrayType, type_of
from weft.errors import Fix
from weft.ops.elementwise.arithmetic import add, div, gt, le, lt, mul, rem, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.random.sampler import sampler
from weft.random.sampler_arguments import (
    Arrays,
    Shape,
    Static,
    check_key,
    check_parameter,
    check_shape_of_parameters,
    parametric,
)
from weft.random.streams import Stream, full_operand, repeated, stream_of

__all__ = [
    "GUMBEL_MODES", "bernoulli", "bits", "check_mode", "draw_signs", "integers_below",
    "rademacher", "randint", "uniform",
]  # fmt: skip


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Random bits, as unsigned integers of any width (uint32 by default, uint64 with `enable_x64`).

    >>> import weft
    >>> weft.random.bits(weft.random.key(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    return _bits((key,), (shape, dtype), out_sharding)


@sampler(parametric("random bits"))
def _bits(key: Any, shape: Shape, dtype: Any) -> Any:
    return stream_of(key).random_bits(8 * dtype.itemsize, shape)


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Real numbers uniformly distributed in [minval, maxval).

    Where the bounds are not 0 and 1, rounding may lead to maxval.

    Args:
        key (Array): A random key.
        shape: The shape of the result; (), where the bounds have one element, is theirs.
        dtype (dtype): A floating-point dtype, by default float32 (float64 with `enable_x64`).
        minval (number or Array): The lower bound; it broadcasts to `shape`.
        maxval (number or Array): The upper bound; it broadcasts to `shape`. Where it is not above
            minval the result is minval.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> print(weft.random.uniform(weft.random.key(0)))
    0.947667
    """
    if type(minval) is float and type(maxval) is float and minval == 0.0 and maxval == 1.0:
        return _unit((key,), (shape, dtype), out_sharding)
    return _uniform((key, minval, maxval), (shape, dtype), out_sharding)


@sampler(parametric("real numbers"), name="uniform")
def _unit(key: Any, shape: Shape, dtype: Any) -> Any:
    return stream_of(key).unit(shape, dtype)


_check_bounds = parametric("real numbers", "minval", "maxval")


def _check_uniform(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    if np.ndim(static[0]) == 1 and not np.size(
        static[0]
    ):  # one number, with the dimensions of length 1 that a bound may have
        ones = max((np.shape(x) for x in arrays[1:]), key=len)
        static = (ones if set(ones) <= {1} else (), static[1])
    return _check_bounds(operation, arrays, static)


@sampler(_check_uniform)
def _uniform(key: Any, low: Any, high: Any, shape: Shape, dtype: Any) -> Any:
    low, high = full_operand(low, shape, dtype), full_operand(high, shape, dtype)
    return stream_of(key).uniform(shape, dtype, low, high)


def randint(
    key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Integers uniformly distributed in [minval, maxval).

    Args:
        key (Array): A random key.
        shape: The shape of the result.
        minval (int or Array): The lower bound; it broadcasts to `shape`. Bounds beyond the range of
            `dtype` mean its ends.
        maxval (int or Array): The upper bound; it broadcasts to `shape`. Where it is not above
            minval the result is minval.
        dtype (dtype): An integer dtype, by default int32 (int64 with `enable_x64`).
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> weft.random.randint(weft.random.key(0), (4,), 0, 10)
    Array([9, 0, 2, 3], dtype=int32)
    """
    if dtype is not None:
        minval, maxval = _wide_bound(minval), _wide_bound(maxval)
    return _randint((key, minval, maxval), (shape, dtype), out_sharding)


def _wide_bound(value: Any) -> Any:
    """A Python integer that does not fit in the default integers, as an array of 64 bits."""
    if type(value) is bool or not isinstance(value, (int, np.integer)):
        return value
    value = int(value)
    if -(1 << 31) <= value < 1 << 31:
        return value
    for dtype in (dtypes.int64, dtypes.uint64):
        if dtypes.fits(value, dtype):
            return put(np.asarray(value, dtype), ArrayType((), dtype))
    raise OverflowError(f"randint: the bound {value} does not fit in 64 bits")


def _integers_between(
    stream: Stream, shape: Shape, dtype: Any, low: Any, high: Any, beyond: Any
) -> Any:
    """Integers in [low, high), or in [low, high] where `beyond` holds."""
    width = 8 * dtype.itemsize
    unsigned = np.dtype(f"uint{width}")
    # Twice as many bits as the result has are taken modulo the span, in two halves, which makes the
    # bias of the smaller remainders negligible.
    upper, lower = (part.random_bits(width, shape) for part in stream.split(2))
    one = unsigned.type(1)
    span = _select(le(high, low), one, convert_element_type(sub(high, low), unsigned))
    span = _select(bitwise_and(beyond, gt(high, low)), add(span, one), span)
    # 2**width modulo the span, without leaving the width. A span of 0 stands for 2**width: the
    # remainder of a division by zero is the dividend.
    half = rem(unsigned.type(1 << width // 2), span)
    factor = rem(mul(half, half), span)
    offset = add(mul(_remainder(upper, span), factor), _remainder(lower, span))
    return add(convert_element_type(_remainder(offset, span), dtype), low)


def _remainder(x: Any, span: Any) -> Any:
    """Unsigned integers modulo others; modulo 0 they stay what they are."""
    if type_of(x).dtype != dtypes.uint32:
        return rem(x, span)
    # Processors divide vectors of floating-point numbers and not of integers: six times faster. The
    # quotient is exact: before it is rounded it is no nearer to the next integer than 1 / span,
    # which 53 bits tell apart. Where the span is 0 the quotient is not used.
    wide = convert_element_type(x, dtypes.float64)
    quotient = div(wide, convert_element_type(span, dtypes.float64))
    return sub(x, mul(convert_element_type(quotient, dtypes.uint32), span))


def integers_below(stream: Stream, shape: Shape, dtype: Any, limit: int) -> Any:
    """Integers in [0, limit), where the limit is positive and fits the dtype."""
    low, high = dtype.type(0), dtype.type(limit)
    return _integers_between(stream, shape, dtype, low, high, np.bool_(False))


def _select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`select` of values that may lack the dimensions of the others."""
    shape = max((type_of(x).shape for x in (pred, on_true, on_false)), key=len)

    def full(x: Any) -> Any:
        return x if type_of(x).shape == shape else broadcast_in_dim(x, shape, ())

    return select(pred, full(on_true), full(on_false))


def _as_integers(x: Any) -> Any:
    dtype = type_of(x).dtype
    return x if dtype in dtypes.INTEGER else convert_element_type(x, dtypes.default_int())


def _above(x: Any, limit: int) -> Any:
    """Whether integers are above a number, which may be beyond their dtype."""
    dtype = type_of(x).dtype
    if limit >= int(dtypes.iinfo(dtype).max):
        shape = type_of(x).shape
        return broadcast_in_dim(np.bool_(False), shape, ()) if shape else np.bool_(False)
    return gt(x, dtype.type(limit))


def _clipped(x: Any, first: int, last: int) -> Any:
    """Integers clipped to two numbers, which may be beyond their dtype."""
    dtype = type_of(x).dtype
    own = dtypes.iinfo(dtype)
    if first > int(own.min):
        x = maximum(x, dtype.type(first))
    if last < int(own.max):
        x = minimum(x, dtype.type(last))
    return x


@sampler(parametric("integers", "minval", "maxval"))
def _randint(key: Any, minval: Any, maxval: Any, shape: Shape, dtype: Any) -> Any:
    # Narrow integers are drawn as int32, which holds the end of their range as well.
    drawn = dtype if dtype.itemsize >= 4 else dtypes.int32
    info, limits = dtypes.iinfo(drawn), dtypes.iinfo(dtype)
    first, last = int(limits.min), int(limits.max)
    minval, maxval = _as_integers(minval), _as_integers(maxval)
    beyond = _above(maxval, int(info.max))
    low = full_operand(_clipped(minval, first, last), shape, drawn)
    high = full_operand(_clipped(maxval, first, min(last + 1, int(info.max))), shape, drawn)
    if type_of(beyond).shape:
        beyond = repeated(beyond, shape)
    found = _integers_between(stream_of(key), shape, drawn, low, high, beyond)
    return convert_element_type(found, dtype)


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Array:
    """Booleans, each True with probability `p`.

    Args:
        key (Array): A random key.
        p (float or Array): The probability; it broadcasts to `shape`.
        shape: The shape of the result, by default that of `p`.
        mode: "low", or "high", which draws twice as many bits, for probabilities so small that the
            steps of a uniform number count.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> weft.random.bernoulli(weft.random.key(0), 0.5, (3,))
    Array([False, False,  True], dtype=bool)
    """
    return _bernoulli((key, p), (shape, mode), out_sharding)


def _check_bernoulli(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    key, p = check_key(operation, arrays[0]), check_parameter(operation, "p", arrays[1])
    shape, mode = static
    of = type_of(p)
    if of.dtype not in dtypes.FLOATING:
        message = f"{operation}: the probability p is a floating-point number, not {of}"
        fix = Fix("float", "pass a float, such as 0.5", {"argument": "p"})
        raise invalid_dtype(message, operation, "p", of, "a float, or an array of those", fix=fix)
    check_mode(operation, mode)
    return (key, p), (check_shape_of_parameters(operation, shape, ("p",), (p,)), mode)


GUMBEL_MODES = ("low", "high", "highest")


def check_mode(operation: str, mode: Any, modes: tuple[str, ...] = ("low", "high")) -> Any:
    """The mode. Raises WeftValueError unless it is one of those."""
    if mode not in modes:
        wanted = f"{', '.join(map(repr, modes[:-1]))} or {modes[-1]!r}"
        message = f"{operation}: mode is {wanted}"
        fix = Fix("mode", "leave mode out", {"mode": "low"})
        raise invalid_value(message, operation, "mode", mode, wanted, fix=fix)
    return mode


@sampler(_check_bernoulli)
def _bernoulli(key: Any, p: Any, shape: Shape, mode: str) -> Any:
    dtype = type_of(p).dtype
    p = full_operand(p, shape, dtype)
    stream = stream_of(key)
    if mode == "low":
        return lt(stream.unit(shape, dtype), p)
    both = stream.unit((2, *shape), dtype)
    coarse, fine = (reshape(slice_in_dim(both, i, i + 1), shape) for i in (0, 1))
    step = dtype.type(2.0 ** -int(dtypes.finfo(dtype).nmant))
    return lt(mul(fine, step), sub(p, coarse))


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Numbers that are -1 or 1 with equal chance, in a signed dtype (int32 by default).

    >>> import weft
    >>> weft.random.rademacher(weft.random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    return _rademacher((key,), (shape, dtype), out_sharding)


def draw_signs(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """-1 or 1 with equal chance."""
    heads = lt(stream.unit(shape, dtypes.default_float()), dtypes.default_float().type(0.5))
    two = dtype.type(2)
    return sub(mul(convert_element_type(heads, dtype), two), dtype.type(1))


@sampler(parametric("signs"))
def _rademacher(key: Any, shape: Shape, dtype: Any) -> Any:
    return draw_signs(stream_of(key), shape, dtype)
