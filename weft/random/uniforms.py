"""Random bits and uniformly distributed numbers: bits, reals, integers, booleans, signs."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array, put
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.arithmetic import rem
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.structural.shape import broadcast_in_dim
from weft.random.draw_arguments import (
    Bits,
    Integers,
    Joined,
    Key,
    Mode,
    Reals,
    Shape,
    Sharding,
    Signs,
    joined_shape,
    real_kind,
)
from weft.random.streams import Stream, broadcast_to, draw_function, full_operand, rows, stream_of


def _bound(default: float) -> Kind:
    """The kind of a real bound; the default value becomes None."""

    def take(value: Any, call: Arguments) -> Any:
        return None if type(value) is float and value == default else real_kind.take(value, call)

    return dataclasses.replace(real_kind, take=take)


def _integer_bound(value: Any, call: Arguments) -> Any:
    if call["dtype"] is not None and isinstance(value, (int, np.integer)):
        value = _wide(value)
    return real_kind.take(value, call)


def _wide(value: Any) -> Any:
    """An integer as it is, or as an array of 64 bits if the default integers do not hold it."""
    if -(1 << 31) <= value < 1 << 31:
        return value
    for dtype in (dtypes.int64, dtypes.uint64):
        if dtypes.fits(int(value), dtype):
            return put(np.asarray(value, dtype), ArrayType((), dtype))
    raise dtypes.does_not_fit(value, dtypes.int64, "value")


def _probability(value: Any, call: Arguments) -> Any:
    value = real_kind.take(value, call)
    of = type_of(value)
    if of.dtype not in dtypes.FLOATING:
        message, got = f"the probability p is a floating-point number, not {of}", f"p of type {of}"
        fix = Fix("float", "pass a float, such as 0.5", {"argument": "p"})
        raise DTypeError(message, got=got, wanted="a float, or an array of those", fix=fix)
    return value


LowerBound = Annotated[Any, _bound(0.0)]
UpperBound = Annotated[Any, _bound(1.0)]
_integer_bound_kind = dataclasses.replace(real_kind, take=_integer_bound, right=3, by_class=True)
IntegerBound = Annotated[Any, _integer_bound_kind]
Probability = Annotated[
    Any, dataclasses.replace(real_kind, take=_probability, wrong=(*real_kind.wrong, 1))
]


@draw_function
def bits(
    key: Key, shape: Shape = (), dtype: Bits = None, *, out_sharding: Sharding = None
) -> Array:
    """Random bits, as unsigned integers of any width (uint32 by default, uint64 with `enable_x64`).

    >>> import weft
    >>> weft.random.bits(weft.random.key(0), (2,), "uint8")
    Array([167, 146], dtype=uint8)
    """
    return stream_of(key).random_bits(8 * dtype.itemsize, shape)


@draw_function
def uniform(
    key: Key,
    shape: Shape = (),
    dtype: Reals = None,
    minval: LowerBound = 0.0,
    maxval: UpperBound = 1.0,
    *,
    out_sharding: Sharding = None,
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
    stream = stream_of(key)
    if minval is None and maxval is None:
        return stream.unit(shape, dtype)
    low = dtype.type(0) if minval is None else minval
    high = dtype.type(1) if maxval is None else maxval
    longest = max(type_of(low).shape, type_of(high).shape, key=len)
    if shape == () and set(longest) <= {1}:
        shape = longest  # one number, with the dimensions of length 1 that a bound may have
    shape = joined_shape(shape, minval=low, maxval=high)
    low, high = full_operand(low, shape, dtype), full_operand(high, shape, dtype)
    return stream.uniform(shape, dtype, low, high)


@draw_function
def randint(
    key: Key,
    shape: Shape,
    minval: IntegerBound,
    maxval: IntegerBound,
    dtype: Integers | None = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Integers uniformly distributed in [minval, maxval).

    The bits are JAX's, whose product of remainders leaves the width of the dtype: a span of more
    than half of the dtype's range is drawn unevenly, up to twice as often at its lower end.

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
    dtype = dtype or dtypes.default_int()
    shape = joined_shape(shape, minval=minval, maxval=maxval)
    # Narrow integers are drawn as int32, which holds the end of their range as well.
    drawn = dtype if dtype.itemsize >= 4 else dtypes.int32
    info, limits = dtypes.iinfo(drawn), dtypes.iinfo(dtype)
    first, last, most = int(limits.min), int(limits.max), int(info.max)
    minval, maxval = _as_integers(minval), _as_integers(maxval)
    low = full_operand(_clip(minval, first, last), shape, drawn)
    high = full_operand(_clip(maxval, first, min(last + 1, most)), shape, drawn)
    unsigned = np.dtype(f"uint{8 * drawn.itemsize}")
    span = _select(high <= low, unsigned.type(1), convert(high - low, unsigned))
    if int(dtypes.iinfo(maxval.dtype).max) > most:
        # The largest integer is among those drawn, if there are others.
        beyond = maxval > maxval.dtype.type(most)
        beyond = broadcast_to(beyond, shape) if beyond.shape else beyond
        span = _select(beyond & (high > low), span + 1, span)
    return convert(convert(_draw_below(stream_of(key), shape, span), drawn) + low, dtype)


def _as_integers(x: Any) -> Any:
    return x if x.dtype in dtypes.INTEGER else convert(x, dtypes.default_int())


def _clip(x: Any, first: int, last: int) -> Any:
    """Clips integers to two numbers, which may be outside of their dtype."""
    info = dtypes.iinfo(x.dtype)
    if first > int(info.min):
        x = maximum(x, x.dtype.type(first))
    if last < int(info.max):
        x = minimum(x, x.dtype.type(last))
    return x


def _select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`select` of values, some of which may have no dimensions."""
    shape = max((type_of(x).shape for x in (pred, on_true, on_false)), key=len)

    def full(x: Any) -> Any:
        return x if type_of(x).shape == shape else broadcast_in_dim(x, shape, ())

    return select(pred, full(on_true), full(on_false))


def integers_below(stream: Stream, shape: Shape, dtype: Any, limit: int) -> Any:
    """Integers in [0, limit), where the limit is positive and fits the dtype."""
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    return convert(_draw_below(stream, shape, unsigned.type(limit)), dtype)


def _draw_below(stream: Stream, shape: Shape, span: Any) -> Any:
    """Unsigned integers below the span, in its dtype; a span of 0 means 2**width."""
    dtype = type_of(span).dtype
    width = 8 * dtype.itemsize
    # Twice as many bits as the result has are taken modulo the span, in two halves, which makes the
    # bias of the smaller remainders negligible.
    upper, lower = (part.random_bits(width, shape) for part in stream.split())
    # 2**width modulo the span, without leaving the width.
    half = rem(dtype.type(1 << width // 2), span)
    factor = rem(half * half, span)
    return _remainder(_remainder(upper, span) * factor + _remainder(lower, span), span)


def _remainder(x: Any, span: Any) -> Any:
    """x % span, and x where the span is 0."""
    if x.dtype != dtypes.uint32:
        return rem(x, span)
    # Processors divide vectors of floating-point numbers and not of integers: six times faster. The
    # quotient is exact: before it is rounded it is no nearer to the next integer than 1 / span,
    # which 53 bits tell apart. Where the span is 0 the quotient is not used.
    quotient = convert(x, dtypes.float64) / convert_element_type(span, dtypes.float64)
    return x - convert(quotient, dtypes.uint32) * span


@draw_function
def bernoulli(
    key: Key,
    p: Probability = 0.5,
    shape: Joined = None,
    mode: Mode = "low",
    *,
    out_sharding: Sharding = None,
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
    dtype, stream = p.dtype, stream_of(key)
    p = full_operand(p, shape, dtype)
    if mode == "low":
        return stream.unit(shape, dtype) < p
    coarse, fine = rows(stream.unit((2, *shape), dtype))
    step = dtype.type(2.0 ** -int(dtypes.finfo(dtype).nmant))
    return fine * step < p - coarse


@draw_function
def rademacher(
    key: Key, shape: Shape = (), dtype: Signs = None, *, out_sharding: Sharding = None
) -> Array:
    """Numbers that are -1 or 1 with equal chance, in a signed dtype (int32 by default).

    >>> import weft
    >>> weft.random.rademacher(weft.random.key(0), (3,))
    Array([-1, -1,  1], dtype=int32)
    """
    return draw_signs(stream_of(key), shape, dtype)


def draw_signs(stream: Stream, shape: Shape, dtype: Any) -> Any:
    """-1 or 1 with equal chance."""
    heads = stream.unit(shape, dtypes.default_float()) < 0.5
    return convert(heads, dtype) * dtype.type(2) - dtype.type(1)
