"""Statistics of samples along an axis: the most frequent element, ranks, the error of a mean.

All go through one sort, in which equal elements are neighbours.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import weft.numpy as jnp
from weft import dtypes
from weft.argument_errors import integer_of, invalid_dtype
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import axis_of, check_arrays, check_flag, computing_dtype, inexact
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import as_operand
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.flat import flat_sqrt_p
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.operand_errors import to_dtype
from weft.ops.reductions.cumulative import cummax, cummin
from weft.scipy.argument_checks import one_of, refuse

__all__ = ["ModeResult", "mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """The most frequent elements and how often they occur."""

    mode: Array
    count: Any  # an array; Any, since tuples have a method of this name


def _sample(operation: str, a: Any) -> Any:
    """The argument as an array of real numbers or booleans."""
    check_arrays(operation, a)
    a = as_operand(operation, a)
    of = type_of(a)
    if of.dtype not in dtypes.ORDERED:
        message = f"{operation} takes real numbers as a"
        wanted = "an integer or floating-point dtype"
        fix = to_dtype("a", of.dtype, dtypes.float32)
        raise invalid_dtype(message, operation, "a", of, wanted, fix=fix)
    return a


def _policy(operation: str, policy: Any, *known: str) -> None:
    if policy in known:
        return
    if policy == "omit":
        refuse(operation, "nan_policy", policy, known[0], "leave NaN out: a[~weft.numpy.isnan(a)]")
    if policy == "raise":
        refuse(operation, "nan_policy", policy, known[0], "look for NaN: weft.numpy.isnan(a).any()")
    one_of(operation, "nan_policy", policy, known)


def _runs(ordered: Any) -> tuple[Any, Any, Any]:
    """Whether a run of equal elements begins at each position along the first dimension, and the
    start and the (excluded) end of the run there."""
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


@compiled
def _mode(a: Any) -> Any:
    ordered = jnp.sort(a, axis=0)
    _, first, last = _runs(ordered)
    found = jnp.argmax(last - first, axis=0)[None]
    value = jnp.take_along_axis(ordered, found, axis=0)[0]
    count = jnp.take_along_axis(last - first, found, axis=0)[0]
    return value, count


@api_boundary
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
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
    check_flag(keepdims, "stats.mode", "keepdims")
    _policy("mode", nan_policy, "propagate")
    a = jnp.asarray(_sample("mode", a))
    shape = a.shape
    if axis is None:
        a, place, kept = a.reshape(-1), 0, (1,) * len(shape)
    else:
        place = axis_of(axis, len(shape), "mode")
        kept = (*shape[:place], 1, *shape[place + 1 :])
    moved = jnp.moveaxis(a, place, 0)
    if moved.shape[0]:
        value, count = _mode(moved)
    else:
        dtype = inexact(a.dtype)
        value = jnp.full(moved.shape[1:], math.nan, dtype)
        count = jnp.zeros(moved.shape[1:], dtypes.int32)
    if keepdims:
        value, count = value.reshape(kept), count.reshape(kept)
    return ModeResult(value, count)


_METHODS = ("average", "min", "max", "dense", "ordinal")


@compiled
def _rank(a: Any, *, method: str, dtype: Any) -> Any:
    order = jnp.argsort(a, axis=0, stable=True)
    back = jnp.argsort(order, axis=0)
    if method == "ordinal":
        ranks = convert_element_type(back + 1, dtype)
    else:
        begins, first, last = _runs(jnp.take_along_axis(a, order, axis=0))
        if method == "min":
            sorted_ranks = first + 1
        elif method == "max":
            sorted_ranks = last
        elif method == "dense":
            sorted_ranks = jnp.cumsum(convert_element_type(begins, dtypes.int32), axis=0)
        else:
            total = convert_element_type(first + 1, dtype) + convert_element_type(last, dtype)
            sorted_ranks = 0.5 * total
        ranks = convert_element_type(jnp.take_along_axis(sorted_ranks, back, axis=0), dtype)
    if type_of(a).dtype in dtypes.FLOATING:
        unknown = jnp.any(jnp.isnan(a), axis=0, keepdims=True)
        ranks = jnp.where(unknown, math.nan, convert_element_type(ranks, inexact(dtype)))
    return ranks


@api_boundary
def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
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
    _policy("rankdata", nan_policy, "propagate")
    one_of("rankdata", "method", method, _METHODS)
    a = jnp.asarray(_sample("rankdata", a))
    if axis is None:
        a, axis = a.reshape(-1), 0
    place = axis_of(axis, a.ndim, "rankdata")
    whole = method != "average" and a.dtype not in dtypes.FLOATING
    dtype = dtypes.int32 if whole else dtypes.default_float()
    if not a.size:
        return jnp.zeros(a.shape, dtype)
    return jnp.moveaxis(_rank(jnp.moveaxis(a, place, 0), method=method, dtype=dtype), 0, place)


@compiled
def _sem(a: Any, *, axis: int, ddof: int, omit: bool, keepdims: bool, dtype: Any) -> Any:
    a = convert_element_type(a, computing_dtype(dtype))
    known = ~jnp.isnan(a) if omit else jnp.ones_like(a, dtype=bool)
    count = jnp.sum(known, axis=axis, keepdims=True, dtype=computing_dtype(dtype))
    mean = jnp.sum(jnp.where(known, a, 0.0), axis=axis, keepdims=True) / count
    away = jnp.where(known, a - mean, 0.0)
    square = jnp.sum(away * away, axis=axis, keepdims=True)
    rest = count - ddof
    square = square / jnp.where(rest > 0, rest, math.nan) / count
    found = flat_sqrt_p.bind(square)  # the error of equal elements is stationary
    found = found if keepdims else jnp.squeeze(found, axis)
    return convert_element_type(found, dtype)


@api_boundary
def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean along an axis (None: of all): the deviation over sqrt(n).

    ddof: what is subtracted from n in the variance; nan_policy "omit" leaves NaN out. NaN where
    ddof or fewer elements count. Raises AxisError, DTypeError, WeftTypeError if ddof is no
    integer, NotImplementedError for nan_policy "raise".

    nan_policy: "propagate", by which one NaN makes the result NaN, or "omit", which leaves NaN out.

    >>> sem(np.array([1.0, 2.0, 3.0]))
    Array(0.57735026, dtype=float32)
    """
    check_flag(keepdims, "stats.sem", "keepdims")
    _policy("sem", nan_policy, "propagate", "omit")
    freedom = integer_of(ddof, "sem", "ddof")
    a = jnp.asarray(_sample("sem", a))
    dtype = inexact(a.dtype)
    shape = a.shape
    a, place = (a.reshape(-1), 0) if axis is None else (a, axis_of(axis, len(shape), "sem"))
    omit = nan_policy == "omit" and a.dtype in dtypes.FLOATING
    out = _sem(a, axis=place, ddof=freedom, omit=omit, keepdims=bool(keepdims), dtype=dtype)
    return out.reshape((1,) * len(shape)) if axis is None and keepdims else out
