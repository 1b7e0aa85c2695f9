"""Statistics of samples along an axis: the most frequent element, ranks, the error of a mean.

All go through one sort, in which equal elements are neighbours.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError
from weft.errors.argument_errors import unsupported_argument
from weft.kinds.arguments import NEVER, Axis, Flag, Integer, choice
from weft.kinds.array_function import array_function
from weft.kinds.checks import check_choice, computing_dtype, inexact
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import as_operand
from weft.numpy.sorting import line
from weft.ops.elementwise.stable_sums import flat_sqrt_p
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.operand_errors import to_dtype
from weft.ops.reductions.cumulative import cummax, cummin

__all__ = ["ModeResult", "mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """The most frequent elements and how often they occur."""

    mode: Array
    count: Any  # an array; Any, since tuples have a method of this name


def _sample(value: Any, call: Arguments) -> Any:
    value = as_operand(call.operation, value, call.name)
    of = type_of(value)
    if of.dtype not in dtypes.ORDERED:
        message = f"takes real numbers as {call.name}"
        wanted = "an integer or floating-point dtype"
        fix = to_dtype(call.name, of.dtype, dtypes.float32)
        raise DTypeError(message, got=f"{call.name} of type {of}", wanted=wanted, fix=fix)
    return value


_INSTEAD = {
    "omit": "leave NaN out: a[~weft.numpy.isnan(a)]",
    "raise": "look for NaN: weft.numpy.isnan(a).any()",
}


def _policy(*known: str) -> Kind:
    """The kind of a `nan_policy`, one of `known`."""

    def take(value: Any, call: Arguments) -> Any:
        if value not in known and isinstance(value, str) and value in _INSTEAD:
            why, instead = "NaN has no rule of its own here", _INSTEAD[value]
            raise unsupported_argument(call.operation, call.name, value, why, instead, known[0])
        return check_choice(value, known, call.name)

    return Kind(take, "what becomes of NaN", ("raise", "skip", 0.5, None), plain=NEVER)


Sample = Annotated[
    Any,
    Kind(_sample, "real numbers", ([1.0], "text", np.ones(3) * 1j), np.ones(3), False, plain=NEVER),
]
Propagate = Annotated[str, _policy("propagate")]
PropagateOrOmit = Annotated[str, _policy("propagate", "omit")]
Method = Annotated[str, choice("average", "min", "max", "dense", "ordinal")]


def _keepdims_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The shape with the axis, or all axes for None, of length 1."""
    return tuple(1 if axis in (None, d) else n for d, n in enumerate(shape))


def _runs(ordered: Any) -> tuple[Any, Any, Any]:
    """Runs of equal elements along the first dimension: whether one begins at each position, and
    the start and the (excluded) end of the run there."""
    of = type_of(ordered)
    place = broadcasted_iota(dtypes.int32, of.shape, 0)
    n = of.shape[0]
    differs = ordered[1:] != ordered[:-1]
    if of.dtype in dtypes.FLOATING:  # all NaN are equal here
        differs = differs & ~(jnp.isnan(ordered[1:]) & jnp.isnan(ordered[:-1]))
    edge = jnp.ones((1, *of.shape[1:]), bool)
    begins = jnp.concatenate([edge, differs])
    ends = jnp.concatenate([differs, edge])
    first = cummax(jnp.where(begins, place, 0), 0)
    last = cummin(jnp.where(ends, place + 1, n), 0, reverse=True)
    return begins, first, last


@array_function
def mode(
    a: Sample, axis: Axis = 0, nan_policy: Propagate = "propagate", keepdims: Flag = False
) -> ModeResult:
    """The most frequent elements along an axis (None: of all), the smallest of equally frequent.

    The result has a `mode` in the dtype of `a` and a `count`. NaN are equal elements, larger than
    all others: so SciPy counts them, whose page says that one makes the mode NaN. An empty axis
    gives NaN and 0. Raises AxisError, DTypeError; and NotImplementedError for nan_policy "omit" and
    "raise".

    a: an array of numbers; nan_policy: must be "propagate": NaN count as elements.

    >>> mode(np.array([1, 2, 2, 1, 3]))
    ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    shape = _keepdims_shape(a.shape, axis)
    a, place = line(a, axis)
    ordered = jnp.sort(jnp.moveaxis(a, place, 0), axis=0)
    if ordered.shape[0]:
        _, first, last = _runs(ordered)
        index = jnp.argmax(last - first, axis=0)[None]
        value = jnp.take_along_axis(ordered, index, axis=0)[0]
        count = jnp.take_along_axis(last - first, index, axis=0)[0]
    else:
        value = jnp.full(ordered.shape[1:], math.nan, inexact(a.dtype))
        count = jnp.zeros(ordered.shape[1:], dtypes.int32)
    if keepdims:
        value, count = value.reshape(shape), count.reshape(shape)
    return ModeResult(value, count)


def _ranks(a: Any, method: str, dtype: Any) -> Any:
    """The ranks along the first dimension."""
    order = jnp.argsort(a, axis=0, stable=True)
    back = jnp.argsort(order, axis=0)
    if method == "ordinal":
        return (back + 1).astype(dtype)
    begins, first, last = _runs(jnp.take_along_axis(a, order, axis=0))
    if method == "min":
        ranks = first + 1
    elif method == "max":
        ranks = last
    elif method == "dense":
        ranks = jnp.cumsum(begins.astype(dtypes.int32), axis=0)
    else:
        ranks = 0.5 * ((first + 1).astype(dtype) + last.astype(dtype))
    return jnp.take_along_axis(ranks, back, axis=0).astype(dtype)


@array_function
def rankdata(
    a: Sample, method: Method = "average", *, axis: Axis = None, nan_policy: Propagate = "propagate"
) -> Array:
    """The ranks of the elements along an axis, from 1; of all elements, flattened, for None.

    method: which rank equal elements get: the "average", the "min" or the "max" of theirs, "dense"
    as "min" without gaps, "ordinal" different ones in the order of their positions. Ranks are in
    the default float dtype for "average" and for floating-point elements, of which one NaN makes
    all ranks NaN, else int32. Raises AxisError, DTypeError, WeftValueError for other methods,
    NotImplementedError for nan_policy "omit" and "raise".

    nan_policy: must be "propagate": one NaN makes all ranks NaN.

    >>> rankdata(np.array([0, 2, 3, 2]))
    Array([1. , 2.5, 4. , 2.5], dtype=float32)
    """
    floating = a.dtype in dtypes.FLOATING
    a, axis = line(a, axis)
    dtype = dtypes.default_float() if method == "average" or floating else dtypes.int32
    if not a.size:
        return jnp.zeros(a.shape, dtype)
    ranks = _ranks(jnp.moveaxis(a, axis, 0), method, dtype)
    if floating:
        unknown = jnp.isnan(a).any(axis, keepdims=True)
        ranks = jnp.where(jnp.moveaxis(unknown, axis, 0), math.nan, ranks)
    return jnp.moveaxis(ranks, 0, axis)


@array_function
def sem(
    a: Sample,
    axis: Axis = 0,
    ddof: Integer = 1,
    nan_policy: PropagateOrOmit = "propagate",
    *,
    keepdims: Flag = False,
) -> Array:
    """The standard error of the mean along an axis (None: of all): the deviation over sqrt(n).

    ddof: what is subtracted from n in the variance; nan_policy "omit" leaves NaN out. NaN where
    ddof or fewer elements count. Raises AxisError, DTypeError, WeftTypeError if ddof is no
    integer, NotImplementedError for nan_policy "raise".

    nan_policy: "propagate", by which one NaN makes the result NaN, or "omit", which leaves NaN out.

    >>> sem(np.array([1.0, 2.0, 3.0]))
    Array(0.57735026, dtype=float32)
    """
    dtype, shape = inexact(a.dtype), _keepdims_shape(a.shape, axis)
    omit = nan_policy == "omit" and a.dtype in dtypes.FLOATING
    a, axis = line(a.astype(computing_dtype(dtype)), axis)
    known = ~jnp.isnan(a) if omit else jnp.ones_like(a, dtype=bool)
    count = known.sum(axis, dtype=a.dtype, keepdims=True)
    mean = jnp.where(known, a, 0.0).sum(axis, keepdims=True) / count
    away = jnp.where(known, a - mean, 0.0)
    square = (away * away).sum(axis, keepdims=True)
    rest = count - ddof
    square = square / jnp.where(rest > 0, rest, math.nan) / count
    out = flat_sqrt_p.bind(square)  # the error of equal elements is stationary
    return (out.reshape(shape) if keepdims else out.squeeze(axis)).astype(dtype)
