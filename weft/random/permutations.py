"""Random orders and random choices of the elements of an array."""

from __future__ import annotations

import math
import operator
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_shape, invalid_value
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.kinds.checks import check_flag
from weft.ops.elementwise.arithmetic import add, le, log, lt, mul, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.creation import iota
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.sorting import sort_key_val, top_k
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim, canonical_axis, expand_dims, reshape
from weft.random.continuous import gumbel_of
from weft.random.sampler import sampler
from weft.random.sampler_arguments import Arrays, Static, check_key, check_parameter, check_shape
from weft.random.streams import Stream, stream_of
from weft.random.uniforms import integers_below

__all__ = ["choice", "permutation"]


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
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
    check_flag(independent, "permutation", "independent")
    if type(x) is int:
        return _permutation((key,), (x, axis, independent), out_sharding)
    return _permutation((key, x), (None, axis, independent), out_sharding)


def _shuffled(stream: Stream, x: Any, axis: int) -> Any:
    """The elements sorted by random bits, in as many rounds as ties require."""
    of = type_of(x)
    # Each round makes an order with n**2 / 2**32 pairs tied; rounds enough for a chance of 1 / n.
    rounds = math.ceil(3 * math.log(max(1, of.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        stream, drawn = stream.split()
        _, x = sort_key_val(drawn.random_bits(32, of.shape), x, axis)
    return x


def take(x: Any, indices: Any, axis: int, unique: bool = False) -> Any:
    """The slices of an array at positions along an axis that are known to be in bounds."""
    shape = type_of(x).shape
    others = tuple(d for d in range(len(shape)) if d != axis)
    return gather(
        x,
        expand_dims(indices, [1]),
        GatherDimensionNumbers(others, (axis,), (axis,)),
        (*shape[:axis], 1, *shape[axis + 1 :]),
        unique_indices=unique,
        mode="promise_in_bounds",
    )


def _check_permutation(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    key = check_key(operation, arrays[0])
    n, axis, independent = static
    x = _check_population(operation, "x", n if n is not None else arrays[1])
    axis = canonical_axis(axis, 1 if type(x) is int else type_of(x).ndim, operation)
    if type(x) is int:
        return (key,), (x, axis, bool(independent))
    return (key, x), (None, axis, bool(independent))


def _check_population(operation: str, name: str, x: Any) -> Any:
    """Checks an array of at least one dimension, or a concrete number of elements."""
    if not isinstance(x, (int, np.integer)) and not _is_key_array(x):
        x = check_parameter(operation, name, x, complex_numbers=True)
    if isinstance(x, (int, np.integer)) or not type_of(x).shape:
        try:
            n = operator.index(x)
        except TypeError as error:
            if isinstance(x, Tracer) and isinstance(error, WeftTypeError):
                raise  # a traced number of elements: the error says what to do
            message = f"{operation}: {name} is an integer, or an array of at least one dimension"
            got, wanted = f"{name} of type {type_of(x)}", "an int or an array"
            raise WeftTypeError(message, operation=operation, got=got, wanted=wanted) from None
        if n < 0:
            message = f"{operation}: {name} is a number of elements and not negative"
            raise invalid_value(message, operation, name, n, "0 or more")
        return n
    return x


def _is_key_array(x: Any) -> bool:
    return getattr(x, "type", None) is not None and extended_dtypes.is_key(x)


@sampler(_check_permutation)
def _permutation(key: Any, *rest: Any) -> Any:
    *arrays, n, axis, independent = rest
    stream = stream_of(key)
    if not arrays:
        return _shuffled(stream, iota(dtypes.default_int(), n), 0)
    (x,) = arrays
    of = type_of(x)
    if independent or of.ndim == 1:
        return _shuffled(stream, x, axis)
    order = _shuffled(stream, iota(dtypes.default_int(), of.shape[axis]), 0)
    return take(x, order, axis, unique=True)


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
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
    check_flag(replace, "choice", "replace")
    n = a if type(a) is int else None
    arrays = (key,) if n is not None else (key, a)
    if p is not None:
        arrays = (*arrays, p)
    return _choice(arrays, (n, shape, replace, p is not None, axis, mode))


def _weighted(stream: Stream, p: Any, draws: int, replace: bool, mode: str) -> Any:
    """Positions in a vector of probabilities."""
    of = type_of(p)
    if of.dtype not in dtypes.FLOATING or of.weak_type:
        real = of.dtype if of.dtype in dtypes.FLOATING else dtypes.default_float()
        p = convert_element_type(p, real)
    dtype = type_of(p).dtype
    if not replace:
        noisy = add(gumbel_of(stream, of.shape, dtype, mode), log(p))
        return convert_element_type(top_k(noisy, draws)[1], dtypes.default_int())
    sums = cumsum(p)
    total = reshape(slice_in_dim(sums, of.size - 1, of.size), ())
    # Not the uniform number but 1 minus it, which may be 1 and is never 0: so an element of
    # probability 0 is never chosen.
    target = mul(total, sub(dtype.type(1), stream.unit((draws,), dtype)))
    return _number_below(sums, target)


def _number_below(increasing: Any, x: Any) -> Any:
    """For each x, how many of the increasing numbers are below it: a binary search, bit by bit."""
    n = type_of(increasing).size
    index = dtypes.default_int()
    found = broadcast_in_dim(index.type(0), type_of(x).shape, ())
    for bit in reversed(range(n.bit_length())):
        larger = add(found, index.type(1 << bit))
        last = expand_dims(sub(larger, index.type(1)), [1])
        value = gather(increasing, last, GatherDimensionNumbers((), (0,), (0,)), (1,), mode="clip")
        more = bitwise_and(lt(value, x), le(larger, index.type(n)))
        found = add(found, mul(convert_element_type(more, index), index.type(1 << bit)))
    return found


def _check_choice(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    key = check_key(operation, arrays[0])
    n, shape, replace, weighted, axis, mode = static
    shape = check_shape(operation, shape)
    x = _check_population(operation, "a", n if n is not None else arrays[1])
    axis = 0 if type(x) is int else canonical_axis(axis, type_of(x).ndim, operation)
    count = x if type(x) is int else type_of(x).shape[axis]
    draws = prod(shape)
    if draws and not count:
        message, got = f"{operation}: there is nothing to choose from", f"0 elements, shape={shape}"
        raise WeftValueError(message, operation=operation, got=got, wanted="at least one element")
    if not replace and draws > count:
        message = f"{operation}: {draws} choices without replacement from {count} elements"
        got = f"shape={shape}, replace=False, {count} elements"
        wanted = "no more choices than elements"
        fix = Fix("replace", "choose with replacement: replace=True", {"replace": True})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    mode = mode or "low"
    checked: Arrays = (key,) if type(x) is int else (key, x)
    if weighted:
        p = check_parameter(operation, "p", arrays[-1])
        if type_of(p).shape != (count,):
            message = f"{operation}: p has one probability for each of the {count} elements"
            raise invalid_shape(message, operation, "p", type_of(p).shape, f"shape ({count},)")
        checked = (*checked, p)
    settled = (x if type(x) is int else None, shape, bool(replace), weighted, axis, mode)
    return checked, settled


@sampler(_check_choice)
def _choice(key: Any, *rest: Any) -> Any:
    *arrays, n, shape, replace, weighted, axis, mode = rest
    stream = stream_of(key)
    p = arrays.pop() if weighted else None
    x = arrays[0] if arrays else None
    count = n if x is None else type_of(x).shape[axis]
    if x is not None and not prod(shape):
        return reshape(slice_in_dim(reshape(x, (type_of(x).size,)), 0, 0), shape)
    if p is None and not replace:
        vector = x is not None and type_of(x).ndim == 1
        order = _shuffled(stream, x if vector else iota(dtypes.default_int(), count), 0)
        places = slice_in_dim(order, 0, prod(shape))
        if vector:
            return reshape(places, shape)
    elif p is None:
        places = integers_below(stream, (prod(shape),), dtypes.default_int(), count)
    else:
        places = _weighted(stream, p, prod(shape), replace, mode)
    if x is None:
        return reshape(places, shape)
    of = type_of(x).shape
    return reshape(take(x, places, axis), (*of[:axis], *shape, *of[axis + 1 :]))
