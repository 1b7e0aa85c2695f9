"""Random orders and random choices of the elements of an array."""

from __future__ import annotations

import dataclasses
import math
import operator
from math import prod
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.kinds.arguments import NEVER, Flag
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import log
from weft.ops.indexing.creation import iota
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.sorting import sort_key_val, top_k
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reshape
from weft.random.continuous import gumbel_of
from weft.random.draw_arguments import (
    Key,
    NoiseMode,
    Real,
    Shape,
    Sharding,
    axis_kind,
    check_parameter,
    check_replaced,
)
from weft.random.streams import Stream, draw_function, stream_of
from weft.random.uniforms import integers_below


def _population(value: Any, call: Arguments) -> Any:
    name, x = call.name, value
    if not isinstance(x, (int, np.integer)) and not _is_key_array(x):
        x = check_parameter(name, x, complex_numbers=True)
    if not isinstance(x, (int, np.integer)) and type_of(x).shape:
        return x
    try:
        n = operator.index(x)
    except TypeError as error:
        if isinstance(x, Tracer) and isinstance(error, WeftTypeError):
            raise  # a traced number of elements: the error says what to do
        message = f"{name} is an integer, or an array of at least one dimension"
        got, wanted = f"{name} of type {type_of(x)}", "an int or an array"
        raise WeftTypeError(message, got=got, wanted=wanted) from None
    if n < 0:
        message = f"{name} is a number of elements and not negative"
        raise WeftValueError(message, got=f"{name}={n}", wanted="0 or more")
    return n


def _is_key_array(x: Any) -> bool:
    return getattr(x, "type", None) is not None and extended_dtypes.is_key(x)


_axis = axis_kind("a")


def _axis_of_choices(value: Any, call: Arguments) -> int:
    return 0 if type(call["a"]) is int else _axis.take(value, call)


# An array of at least one dimension, or a number of elements that is known.
Population = Annotated[
    Any,
    Kind(
        _population,
        "an array, or a number of elements",
        ("text", 0.5, [1], -1),
        3,
        static=False,
        fixed=True,
        plain=NEVER,
    ),
]
# It is not looked at where there is a number of elements.
AxisOfChoices = Annotated[int, dataclasses.replace(_axis, take=_axis_of_choices, wrong=())]


@draw_function
def permutation(
    key: Key,
    x: Population,
    axis: Annotated[int, axis_kind("x")] = 0,
    independent: Flag = False,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """The slices of an array along an axis in random order, or the numbers 0, …, x - 1.

    Args:
        key (Array): A random key.
        x (int or Array): The array, or how many numbers.
        axis: The axis whose order is random.
        independent: Whether every line along the axis gets an order of its own.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft
    >>> weft.random.permutation(weft.random.key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    stream = stream_of(key)
    if type(x) is int:
        return _shuffle(stream, iota(dtypes.default_int(), x), 0)
    if independent or x.ndim == 1:
        return _shuffle(stream, x, axis)
    order = _shuffle(stream, iota(dtypes.default_int(), x.shape[axis]), 0)
    return _slices_at(order, x, axis, unique=True)


def _shuffle(stream: Stream, x: Any, axis: int) -> Any:
    """Sorts the elements by random bits, in as many rounds as ties require."""
    # Each round makes an order with n**2 / 2**32 pairs tied; rounds enough for a chance of 1 / n.
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        stream, drawn = stream.split()
        _, x = sort_key_val(drawn.random_bits(32, x.shape), x, axis)
    return x


def _slices_at(indices: Any, x: Any, axis: int, unique: bool = False) -> Any:
    """The slices of an array at positions along an axis that are in bounds."""
    others = tuple(d for d in range(x.ndim) if d != axis)
    return gather(
        x,
        expand_dims(indices, [1]),
        GatherDimensionNumbers(others, (axis,), (axis,)),
        (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
        unique_indices=unique,
        mode="promise_in_bounds",
    )


@draw_function
def choice(
    key: Key,
    a: Population,
    shape: Shape = (),
    replace: Flag = True,
    p: Real | None = None,
    axis: AxisOfChoices = 0,
    mode: NoiseMode = None,
) -> Array:
    """Elements chosen at random: slices of the array `a` along an axis, or numbers of 0, …, a - 1.

    Args:
        key (Array): A random key.
        a (int or Array): The array, or how many numbers there are.
        shape: Replaces the axis in the shape of the result, and is all of it where `a` is a number.
        replace: Whether an element may be chosen several times.
        p (Array): The probability of each element; by default all are equal.
        axis: The axis of `a` along which the elements are.
        mode: That of `gumbel`, by which choices without replacement are drawn where there is a `p`.

    >>> import weft
    >>> weft.random.choice(weft.random.key(0), 5, (3,), replace=False)
    Array([0, 1, 4], dtype=int32)
    """
    number, draws = type(a) is int, prod(shape)
    count = a if number else a.shape[axis]
    _check_choice(count, shape, replace, p)
    if not number and not draws:
        return reshape(slice_in_dim(reshape(a, (a.size,)), 0, 0), shape)
    stream, integer = stream_of(key), dtypes.default_int()
    if p is not None:
        places = _draw_weighted(stream, p, draws, replace, mode)
    elif replace:
        places = integers_below(stream, (draws,), integer, count)
    elif number or a.ndim > 1:
        places = slice_in_dim(_shuffle(stream, iota(integer, count), 0), 0, draws)
    else:
        return reshape(slice_in_dim(_shuffle(stream, a, 0), 0, draws), shape)
    if number:
        return reshape(places, shape)
    return reshape(_slices_at(places, a, axis), (*a.shape[:axis], *shape, *a.shape[axis + 1 :]))


def _check_choice(count: int, shape: Shape, replace: bool, p: Any) -> None:
    """Raises WeftValueError if there are too few elements, ShapeError if `p` is not as many."""
    draws = prod(shape)
    if draws and not count:
        message, got = "there is nothing to choose from", f"0 elements, shape={shape}"
        raise WeftValueError(message, got=got, wanted="at least one element")
    if not replace:
        got = f"shape={shape}, replace=False, {count} elements"
        check_replaced(draws, count, "elements", got)
    if p is not None and p.shape != (count,):
        message = f"p has one probability for each of the {count} elements"
        raise ShapeError(message, got=f"p of shape {p.shape}", wanted=f"shape ({count},)")


def _draw_weighted(stream: Stream, p: Any, draws: int, replace: bool, mode: str) -> Any:
    """Draws positions with probabilities `p`."""
    p = convert(p, p.dtype if p.dtype in dtypes.FLOATING else dtypes.default_float())
    if not replace:
        noisy = gumbel_of(stream, p.shape, p.dtype, mode) + log(p)
        return convert(top_k(noisy, draws)[1], dtypes.default_int())
    sums = cumsum(p)
    total = reshape(slice_in_dim(sums, p.size - 1, p.size), ())
    # Not the uniform number but 1 minus it, which may be 1 and is never 0: so an element of
    # probability 0 is never chosen.
    return _count_below(sums, total * (1 - stream.unit((draws,), p.dtype)))


def _count_below(increasing: Any, x: Any) -> Any:
    """For each x, how many of the increasing numbers are below it, by binary search bit by bit."""
    n = increasing.size
    index = dtypes.default_int()
    count = broadcast_in_dim(index.type(0), x.shape, ())
    for bit in reversed(range(n.bit_length())):
        larger = count + (1 << bit)
        last = expand_dims(larger - 1, [1])
        value = gather(increasing, last, GatherDimensionNumbers((), (0,), (0,)), (1,), mode="clip")
        more = (value < x) & (larger <= n)
        count = count + convert(more, index) * (1 << bit)
    return count
