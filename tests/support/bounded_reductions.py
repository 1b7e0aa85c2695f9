"""The rules of `bounded_evaluation` for sums and other reductions, cumulative ones, sorting and
products of matrices.

A sum of n terms, in whatever order it is added, is within n units of the sum of the terms' sizes
(Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), and exact where the terms are
multiples of a number that all partial sums have few digits in.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bounded_movement import NoRule, joined, not_known, padded_with
from bounded_values import (
    BOOL,
    UNKNOWN,
    Bounded,
    bounded,
    exact,
    is_float,
    limits,
    unknown_where,
    wide,
)

__all__ = ["REDUCTIONS", "extreme_of", "granular", "reduce_sum", "sum_with_bound"]

Array = np.ndarray[Any, Any]


# ---- sums, products and other reductions -------------------------------------------------------


def granular(arrays: Sequence[Array]) -> float | None:
    """A power of two of which all finite numbers are multiples, if a small one is found."""
    for scale in (1.0, 4.0, 16.0, 256.0):
        if all(bool(np.all((a * scale == np.rint(a * scale)) | ~np.isfinite(a))) for a in arrays):
            return 1 / scale
    return None


def sum_with_bound(
    out: Array, error: Array, total: Array, count: Any, dtype: Any, grain: float | None
) -> Bounded:
    """A sum of `count` terms in any order, whose sizes have the sum `total`."""
    bound = limits(dtype)
    found = error + count * bound.unit * 1.01 * (total + error) + count * bound.tiny
    if grain is not None:
        found = np.where((error == 0) & (total / grain < 2.0**bound.bits), 0.0, found)
    overflow = np.isfinite(out) & (total + found >= float(bound.most))
    found = np.where(overflow, UNKNOWN, found)
    # An infinity among the terms and the rest may overflow in the other direction.
    return bounded(out, found, dtype)


def _float_sum(
    value: Array, error: Array, sum_: Callable[[Array], Array], count: Any, dtype: Any
) -> Bounded:
    """A sum by a function that adds along axes or cumulatively."""
    if np.dtype(dtype).kind == "c":
        parts = [
            _float_sum(part, error, sum_, count, value.real.dtype)
            for part in (value.real, value.imag)
        ]
        real = limits(dtype)
        total = sum_(np.where(np.isfinite(value), abs(value), 0).astype(float))
        found = parts[0].value + 1j * parts[1].value
        finite = np.isfinite(found) & (total < float(real.most) / 4)
        return bounded(
            found,
            np.where(
                finite, sum_(error) * 2 + count * 4 * real.unit * total + count * real.tiny, UNKNOWN
            ),
            dtype,
        )
    finite = np.isfinite(value)
    total = sum_(np.where(finite, abs(value), 0).astype(np.float64))
    lost = sum_(np.where(np.isfinite(error), 0.0, 1.0)) > 0
    out = sum_with_bound(
        sum_(value),
        sum_(np.where(np.isfinite(error), error, 0)),
        total,
        count,
        dtype,
        granular([value]),
    )
    if finite.all():
        return bounded(out.value, np.where(lost, UNKNOWN, out.error), dtype)
    nan = sum_((np.isnan(value) & np.isfinite(error)).astype(float)) > 0
    plus, minus = (sum_((value == s * np.inf).astype(float)) > 0 for s in (1, -1))
    both = plus & minus & ~lost
    error = np.where(
        nan | both,
        0.0,
        np.where(
            lost | (total >= float(limits(dtype).most)),
            UNKNOWN,
            np.where(np.isfinite(out.value), out.error, 0.0),
        ),
    )
    return bounded(np.where(nan | both, np.nan, out.value), error, dtype)


def reduce_sum(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
    x = operands[0].as_operand()
    axes, dtype = tuple(axes), types[0].dtype
    if not is_float(dtype):
        return unknown_where((~x.known).any(axes), x.value.sum(axes, dtype=dtype), dtype)
    count = prod(x.shape[a] for a in axes)
    return _float_sum(x.value, x.error, lambda a: a.sum(axes), count, dtype)


def _cumsum(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
    x, dtype = operands[0].as_operand(), types[0].dtype
    flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a

    def along(a: Array) -> Array:
        return flip(np.cumsum(flip(a), axis, dtype=a.dtype))

    if not is_float(dtype):
        return unknown_where(along((~x.known).astype(int)) > 0, along(x.value), dtype)
    # Prefixes are made in log2(n) rounds: partial sums beside the prefix itself do not matter.
    return _float_sum(x.value, x.error, along, x.shape[axis], dtype)


def _powers(
    value: Array, error: Array, sum_: Callable[[Array], Array], out: Array, count: int, dtype: Any
) -> Bounded:
    """A product by a function that adds along axes: the bound from the sums of logarithms."""
    bound = limits(dtype)
    size = abs(value).astype(np.float64)
    plain = np.isfinite(size) & (size > 0)
    logs = np.log2(np.where(plain, size, 1.0))
    relative = sum_(
        np.where(plain, error / np.where(plain, size, 1.0), np.where(error > 0, UNKNOWN, 0))
    )
    up, down = sum_(np.maximum(logs, 0)), sum_(np.minimum(logs, 0))
    wild = (up > np.log2(float(bound.most)) - 1) | (down < np.log2(bound.tiny) + 1)
    found = abs(out).astype(float) * (
        np.expm1(np.minimum(relative, 50.0)) + 1.01 * count * bound.unit
    )
    whole = granular([value]) == 1.0
    if whole and not error.any():
        found = np.where((up < bound.bits) & (down == 0), 0.0, found)
    found = np.where(np.isfinite(out), found, 0.0)
    nan = sum_((np.isnan(value) & np.isfinite(error)).astype(float)) > 0
    return bounded(
        np.where(nan, np.nan, out),
        np.where(nan, 0.0, np.where(wild | ~np.isfinite(relative), UNKNOWN, found)),
        dtype,
    )


def _product(
    operands: list[Bounded],
    types: Any,
    along: Callable[..., Any],
    sums: Callable[..., Any],
    count: int,
) -> Bounded:
    x, dtype = operands[0].as_operand(), types[0].dtype
    if dtype.kind == "c":
        return not_known(bounded(along(x.value), 0.0, dtype))
    if not is_float(dtype):
        lost = sums((~x.known).astype(int)) > 0
        return unknown_where(lost, along(x.value).astype(dtype), dtype)
    return _powers(x.value, x.error, sums, along(x.value), count, dtype)


def _reduce_prod(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
    axes, dtype = tuple(axes), operands[0].value.dtype
    count = prod(operands[0].shape[a] for a in axes)
    return _product(
        operands, types, lambda a: np.prod(a, axes, dtype=dtype), lambda a: a.sum(axes), count
    )


def _cumprod(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
    flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a
    dtype = operands[0].value.dtype
    return _product(
        operands,
        types,
        lambda a: flip(np.cumprod(flip(a), axis, dtype=dtype)),
        lambda a: flip(np.cumsum(flip(a), axis)),
        operands[0].shape[axis],
    )


def extreme_of(function: Any, take: Callable[[Any, Array], Array], x: Bounded) -> Bounded:
    """The largest or smallest numbers, by a function that takes them along axes."""
    if not is_float(x.dtype):
        lost = take(np.maximum, (~x.known).astype(int)) > 0
        return unknown_where(lost, take(function, x.value), x.dtype)
    x = x.as_operand()
    out = take(function, x.value)
    low, high = (take(function, x.value + s * np.where(x.known, x.error, 0)) for s in (-1, 1))
    error = np.where(low == high, 0.0, np.maximum(abs(high - out), abs(out - low)))
    nan = take(np.maximum, x.nan.astype(int)) > 0
    lost = take(np.maximum, (~x.known).astype(int)) > 0
    return bounded(
        np.where(nan, np.nan, out), np.where(nan, 0.0, np.where(lost, UNKNOWN, error)), x.dtype
    )


def _reduce_extremum(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
        return extreme_of(function, lambda f, a: f.reduce(a, axis=tuple(axes)), operands[0])

    return rule


def _cumulative_extremum(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
        flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a
        return extreme_of(function, lambda f, a: flip(f.accumulate(flip(a), axis)), operands[0])

    return rule


def _cumlogsumexp(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
    x, dtype = operands[0].as_operand(), types[0].dtype
    if dtype.kind == "c":
        raise NoRule("cumlogsumexp of complex numbers")
    flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a
    out = flip(np.logaddexp.accumulate(flip(x.value), axis))
    largest = flip(
        np.maximum.accumulate(
            flip(np.where(np.isfinite(x.value), abs(x.value), 0).astype(float)), axis
        )
    )
    error = flip(np.maximum.accumulate(flip(np.where(x.known, x.error, UNKNOWN)), axis))
    steps = x.shape[axis]
    found = error + 32 * steps * limits(dtype).unit * (1 + largest)
    found = np.where(np.isfinite(out), found, np.where(error == 0, 0.0, UNKNOWN))
    return bounded(out, found, dtype)


def _linear_recurrence(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
    """out[i] = a[i] out[i - 1] + b[i]: any order of it is exact where its own is, as far as numbers
    with few digits show; elsewhere the sizes of all terms bound it."""
    a, b = (x.as_operand() for x in operands)
    dtype = types[0].dtype
    if not is_float(dtype) or dtype.kind == "c":
        raise NoRule("linear_recurrence of integers or complex numbers")
    rows = range(a.shape[axis])
    out, size, error = np.empty_like(b.value), np.empty(b.shape), np.empty(b.shape)
    kept = np.zeros(np.take(b.value, 0, axis).shape, b.value.dtype), 0.0, 0.0
    for i in reversed(rows) if reverse else rows:
        at = (slice(None),) * axis + (i,)
        x, y = a.value[at], b.value[at]
        total = abs(x) * kept[1] + abs(y)
        spread = abs(x) * kept[2] + a.error[at] * (kept[1] + kept[2]) + b.error[at]
        kept = x * kept[0] + y, total.astype(float), spread.astype(float)
        out[at], size[at], error[at] = kept
    found = error + 4 * len(rows) * limits(dtype).unit * size + len(rows) * limits(dtype).tiny
    plain = np.isfinite(a.value).all(axis, keepdims=True) & np.isfinite(b.value).all(
        axis, keepdims=True
    )
    # Products of factors that an order makes may overflow where the terms do not.
    factors = np.prod(np.maximum(abs(a.value), 1).astype(float), axis, keepdims=True)
    plain = plain & (factors * size.max(axis, keepdims=True) < float(limits(dtype).most))
    return bounded(out, np.where(plain, found, UNKNOWN), dtype)


def _logical(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axes: Any) -> Bounded:
        x, axes = operands[0], tuple(axes)
        out = function.reduce(x.value, axis=axes)
        lost = (~x.known).any(axes)
        if x.dtype == BOOL and function is not np.bitwise_xor:
            decides = function is np.bitwise_or
            sure = (x.known & (x.value == decides)).any(axes)
            out, lost = np.where(sure, decides, out), lost & ~sure
        return unknown_where(lost, out, x.dtype)

    return rule


def _argument(largest: bool) -> Callable[..., Bounded]:
    """The first of the largest (smallest) numbers, or the first NaN."""

    def rule(operands: list[Bounded], types: Any, axes: Any, index_dtype: Any) -> Bounded:
        x = operands[0].as_operand()
        axes = [a % len(x.shape) for a in axes]
        rest = [d for d in range(len(x.shape)) if d not in axes]

        def lines(a: Array) -> Array:
            moved = np.transpose(a, (*rest, *axes))
            return moved.reshape(*moved.shape[: len(rest)], -1)

        value, error, nan = lines(x.value), lines(x.error), lines(x.nan)
        out = (np.argmax if largest else np.argmin)(value, -1)
        best = np.take_along_axis(value, out[..., None], -1)
        slack = error + np.take_along_axis(error, out[..., None], -1)
        apart = abs(best - value) if is_float(x.dtype) else (best != value).astype(float)
        others = np.arange(value.shape[-1]) != out[..., None]
        # Those that may be chosen in place of it: as near as rounding goes, or unknown; after it,
        # exact equals are not.
        rival = ((slack > 0) & ~(apart > slack) & others).any(-1) | ~np.isfinite(error).all(-1)
        first = nan & (np.cumsum(~np.isfinite(error), -1) == 0)
        return unknown_where(rival & ~first.any(-1), out.astype(index_dtype), index_dtype)

    return rule


def _window(kind: str) -> Callable[..., Bounded]:
    def rule(
        operands: list[Bounded],
        types: Any,
        window_dimensions: Any,
        window_strides: Any,
        padding: Any,
        base_dilation: Any,
        window_dilation: Any,
    ) -> Bounded:
        x, dtype = operands[0].as_operand(), types[0].dtype
        function, fill = {
            "sum": (np.add, 0),
            "max": (np.maximum, _least(dtype, 1)),
            "min": (np.minimum, _least(dtype, -1)),
        }[kind]
        if prod(window_dimensions) > 64:
            raise NoRule("a window of so many elements")
        config = [(low, high, b - 1) for (low, high), b in zip(padding, base_dilation, strict=True)]
        padded = padded_with([x, exact(np.asarray(fill, dtype), dtype)], None, config)
        blocks = []
        for offset in itertools.product(*map(range, window_dimensions)):
            at = tuple(
                slice(o * d, o * d + (n - 1) * s + 1, s)
                for o, d, n, s in zip(
                    offset, window_dilation, types[0].shape, window_strides, strict=True
                )
            )
            blocks.append(padded.moved(lambda a, at=at: a[at]))
        every = joined(blocks, np.stack)
        if kind == "sum":
            return reduce_sum([every], types, (0,))
        return extreme_of(function, lambda f, a: f.reduce(a, axis=0), every)

    return rule


def _least(dtype: Any, sign: int) -> Any:
    if is_float(dtype):
        return -sign * np.inf
    if dtype == BOOL:
        return sign < 0
    info = np.iinfo(dtype)
    return info.min if sign > 0 else info.max


def _sort(
    operands: list[Bounded], types: Any, dimension: int, num_keys: int, **rest: Any
) -> list[Bounded]:
    keys = operands[:num_keys]
    if any(np.dtype(k.dtype).kind == "c" for k in keys):
        raise NoRule("a sort of complex numbers")
    if len(operands) == 1:
        x = operands[0].as_operand()
        error = np.broadcast_to(x.error.max(dimension, keepdims=True), x.shape)
        mixed = ~np.isfinite(x.value).all(dimension, keepdims=True) & (error > 0)
        return [
            bounded(
                np.sort(x.value, dimension, kind="stable"), np.where(mixed, UNKNOWN, error), x.dtype
            )
        ]
    keys = [k.as_operand() for k in keys]
    lost = functools.reduce(
        np.logical_or, ((k.error > 0).any(dimension, keepdims=True) for k in keys)
    )
    order = np.lexsort([np.moveaxis(k.value, dimension, -1) for k in keys[::-1]], axis=-1)
    order = np.moveaxis(order, -1, dimension)
    found = [x.moved(lambda a: np.take_along_axis(a, order, dimension)) for x in operands]
    return [
        Bounded(x.value, np.where(lost, UNKNOWN, x.error), x.dtype, x.signed and k >= num_keys)
        for k, x in enumerate(found)
    ]


# ---- products of matrices ----------------------------------------------------------------------


def _dot_general(
    operands: list[Bounded], types: Any, dimension_numbers: Any, **rest: Any
) -> Bounded:
    a, b = (x.as_operand() for x in operands)
    dtype = np.dtype(types[0].dtype)
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    names_a, names_b = list(range(len(a.shape))), list(range(20, 20 + len(b.shape)))
    for i, j in (*zip(contract_a, contract_b, strict=True), *zip(batch_a, batch_b, strict=True)):
        names_b[j] = names_a[i]
    kept_a = [n for d, n in enumerate(names_a) if d not in (*contract_a, *batch_a)]
    kept_b = [n for d, n in enumerate(names_b) if d not in (*contract_b, *batch_b)]
    out_names = [names_a[d] for d in batch_a] + kept_a + kept_b

    def times(x: Array, y: Array) -> Array:
        return np.einsum(x, names_a, y, names_b, out_names)

    unknown = (
        times((~a.known).astype(float), np.ones(b.shape))
        + times(np.ones(a.shape), (~b.known).astype(float))
        > 0
    )
    if not is_float(dtype):
        return unknown_where(unknown, times(a.value.astype(dtype), b.value.astype(dtype)), dtype)
    wider = np.result_type(wide(dtype), a.value.dtype, b.value.dtype)
    out = times(a.value.astype(wider), b.value.astype(wider))
    sizes = [np.where(np.isfinite(x.value), abs(x.value), 0).astype(float) for x in (a, b)]
    errors = [np.where(x.known, x.error, 0) for x in (a, b)]
    error = times(sizes[0], errors[1]) + times(errors[0], sizes[1]) + times(*errors)
    total, count = times(*sizes), prod(a.shape[d] for d in contract_a) + 1
    if dtype.kind == "c":
        large = (total < float(limits(dtype).most) / 4) & np.isfinite(out)
        return bounded(
            out,
            np.where(
                large & ~unknown,
                error + 8 * count * limits(dtype).unit * total + 8 * count * limits(dtype).tiny,
                UNKNOWN,
            ),
            dtype,
        )
    grains = granular([a.value]), granular([b.value])
    grain = None if None in grains else grains[0] * grains[1]
    found = sum_with_bound(out, error, total, count, dtype, grain)
    if np.isfinite(a.value).all() and np.isfinite(b.value).all():
        return bounded(found.value, np.where(unknown, UNKNOWN, found.error), dtype)
    # Where factors are infinite, errors of the others may decide about the sign.
    delicate = (
        times((~np.isfinite(a.value)).astype(float), errors[1])
        + times(errors[0], (~np.isfinite(b.value)).astype(float))
        > 0
    )
    nan = (
        times(a.nan.astype(float), np.ones(b.shape)) + times(np.ones(a.shape), b.nan.astype(float))
        > 0
    )
    finite = np.isfinite(out)
    risky = unknown | delicate | (total >= float(limits(dtype).most))
    error = np.where(nan, 0.0, np.where(risky, UNKNOWN, np.where(finite, found.error, 0.0)))
    return bounded(np.where(nan, np.nan, out), error, dtype)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": reduce_sum,
    "reduce_prod": _reduce_prod,
    "reduce_max": _reduce_extremum(np.maximum),
    "reduce_min": _reduce_extremum(np.minimum),
    "reduce_and": _logical(np.bitwise_and),
    "reduce_or": _logical(np.bitwise_or),
    "reduce_xor": _logical(np.bitwise_xor),
    "argmax": _argument(True),
    "argmin": _argument(False),
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "cummax": _cumulative_extremum(np.maximum),
    "cummin": _cumulative_extremum(np.minimum),
    "cumlogsumexp": _cumlogsumexp,
    "linear_recurrence": _linear_recurrence,
    "reduce_window_sum": _window("sum"),
    "reduce_window_max": _window("max"),
    "reduce_window_min": _window("min"),
    "sort": _sort,
    "dot_general": _dot_general,
}
