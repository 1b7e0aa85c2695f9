"""Evaluates a jaxpr with NumPy, and bounds how far a compiled program may be from the results.

Nothing of XLA has a part in it: a rule for each primitive, in terms of NumPy's functions. See
`bounded_values` for what a bound says and for the rules of elementwise operations. Inside
`shard_map` a value is a list, one block per device, and collectives combine the blocks.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bounded_values import UNKNOWN, Bounded, bounded, elementwise, exact, is_float, limits, rounded, unknown_where, wide
from weft.core.jaxpr import Jaxpr, Literal

__all__ = ["NoRule", "differences", "evaluate", "in_steps"]

Array = np.ndarray[Any, Any]


class NoRule(Exception):
    """A program holds a primitive that this evaluation has no rule for."""


def evaluate(jaxpr: Jaxpr, operands: Sequence[Bounded]) -> list[Bounded]:
    """The results of a jaxpr, with their bounds."""
    known: dict[Any, Bounded] = dict(zip(jaxpr.inputs, operands, strict=True))

    def read(atom: Any) -> Bounded:
        return exact(atom.value, atom.type.dtype) if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        types = [x.type for x in eqn.outputs]
        found = apply(eqn.primitive.name, [read(x) for x in eqn.inputs], eqn.params, types)
        known.update(zip(eqn.outputs, found, strict=True))
    return [read(x) for x in jaxpr.outputs]


# What becomes of each result before others use it: by default it stays as it is.
_rounding: contextvars.ContextVar[Callable[[Bounded], Bounded]] = contextvars.ContextVar(
    "rounding", default=lambda out: out
)


def apply(name: str, operands: list[Bounded], params: Any, types: list[Any]) -> list[Bounded]:
    """The results of one application of a primitive."""
    return list(map(_rounding.get(), _applied(name, operands, params, types)))


def _applied(name: str, operands: list[Bounded], params: Any, types: list[Any]) -> list[Bounded]:
    if len(types) == 1:
        found = elementwise(name, operands, params, types[0].dtype)
        if found is not None:
            return [found]
    rule = _RULES.get(name)
    if rule is None:
        raise NoRule(name)
    with np.errstate(all="ignore"):
        found = rule(operands, types, **params)
    return found if isinstance(found, list) else [found]


def in_steps(jaxpr: Jaxpr, operands: Sequence[Bounded], seed: int) -> list[Array]:
    """The results if each operation rounds its result, to a neighbour that is drawn; with odd
    seeds numbers below the least normal one are 0."""
    rng = np.random.default_rng(seed)

    def settle(out: Bounded) -> Bounded:
        if not is_float(out.dtype):
            return Bounded(out.value, np.zeros(out.shape), out.dtype, True)
        step = rng.integers(-1, 2, out.shape) * (limits(out.dtype).unit * (out.error > 0))
        value = (out.value * (1 + step)).astype(out.dtype).astype(out.value.dtype)
        if seed % 2:
            value = np.where(abs(value) < limits(out.dtype).tiny, 0 * value, value)
        return Bounded(value, np.zeros(out.shape), out.dtype, True)

    token = _rounding.set(settle)
    try:
        with np.errstate(all="ignore"):
            return [x.value for x in evaluate(jaxpr, operands)]
    finally:
        _rounding.reset(token)


def differences(got: Any, wanted: Bounded) -> Array | None:
    """Which elements of a program's result are not what rounding can make of it; None: all are
    right."""
    got = np.asarray(got)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return np.ones(wanted.shape, bool)
    with np.errstate(all="ignore"):
        nearest = wanted.nearest()
        same = got == nearest
        if is_float(wanted.dtype):
            same |= np.isnan(got) & np.isnan(wanted.value)
            apart = abs(got.astype(wanted.value.dtype) - wanted.value)
            same |= np.isfinite(wanted.value) & (apart <= wanted.error * (1 + 1e-9))
            if wanted.signed and got.dtype.kind != "c":
                zero = (got == 0) & (nearest == 0) & (wanted.error == 0)
                same &= ~zero | (np.signbit(got) == np.signbit(nearest))
        wrong = ~same & wanted.known
    return wrong if wrong.any() else None


# ---- elements in other places ------------------------------------------------------------------


def _movement(move: Callable[..., Any]) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: list[Any], **params: Any) -> Bounded:
        return operands[0].moved(lambda a: move(a, **params))

    return rule


def _broadcast(a: Array, shape: Any, broadcast_dimensions: Any = (), **rest: Any) -> Array:
    inner = [1] * len(shape)
    for place, size in zip(broadcast_dimensions, a.shape, strict=True):
        inner[place] = size
    return np.broadcast_to(a.reshape(inner), shape)


def _slice(a: Array, start_indices: Any, limit_indices: Any, strides: Any = None) -> Array:
    return a[tuple(map(slice, start_indices, limit_indices, strides or (1,) * a.ndim))]


def _joined(parts: Sequence[Bounded], join: Callable[[list[Array]], Array]) -> Bounded:
    value, error = join([x.value for x in parts]), join([x.error for x in parts])
    return Bounded(value, error, parts[0].dtype, all(x.signed for x in parts))


def _concatenate(operands: list[Bounded], types: Any, dimension: int) -> Bounded:
    return _joined(operands, lambda parts: np.concatenate(parts, dimension))


def _split(operands: list[Bounded], types: Any, axis: int, sizes: Any) -> list[Bounded]:
    ends = np.cumsum(sizes)
    cut = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return [operands[0].moved(lambda a, c=c: a[(slice(None),) * axis + (c,)]) for c in cut]


def _pad(operands: list[Bounded], types: Any, padding_config: Any) -> Bounded:
    def padded(parts: list[Array]) -> Array:
        a, fill = parts
        for dim, (low, high, interior) in enumerate(padding_config):
            size = a.shape[dim] + max(a.shape[dim] - 1, 0) * interior
            shape = [*a.shape[:dim], max(low, 0) + size + max(high, 0), *a.shape[dim + 1 :]]
            out = np.full(shape, fill, a.dtype)
            at = [slice(None)] * a.ndim
            at[dim] = slice(max(low, 0), max(low, 0) + size, interior + 1)
            out[tuple(at)] = a
            at[dim] = slice(max(-low, 0), shape[dim] - max(-high, 0))
            a = out[tuple(at)]
        return a

    return _joined(operands, padded)


def _starts(operand: Bounded, starts: list[Bounded], sizes: Sequence[int]) -> tuple[Any, bool]:
    """Where a block is taken: as near as it may be; and whether all starts are known."""
    last = [length - size for length, size in zip(operand.shape, sizes, strict=True)]
    found = [min(max(int(s.value), 0), end) for s, end in zip(starts, last, strict=True)]
    places = tuple(slice(s, s + size) for s, size in zip(found, sizes, strict=True))
    return places, all(s.known.all() for s in starts)


def _lost(x: Bounded) -> Bounded:
    return bounded(x.value, np.full(x.shape, UNKNOWN), x.dtype)


def _dynamic_slice(operands: list[Bounded], types: Any, slice_sizes: Any) -> Bounded:
    places, known = _starts(operands[0], operands[1:], slice_sizes)
    out = operands[0].moved(lambda a: a[places])
    return out if known else _lost(out)


def _dynamic_update_slice(operands: list[Bounded], types: Any) -> Bounded:
    x, update, *starts = operands
    places, known = _starts(x, starts, update.shape)

    def written(parts: list[Array]) -> Array:
        out = parts[0].copy()
        out[places] = parts[1]
        return out

    out = _joined([x, update], written)
    return out if known else _lost(out)


def _iota(operands: Any, types: Any, dimension: int = 0, **rest: Any) -> Bounded:
    shape, dtype = types[0].shape, types[0].dtype
    along = np.arange(shape[dimension]).astype(dtype)
    return exact(_broadcast(along, shape, (dimension,)), dtype)


def _bitcast(operands: list[Bounded], types: Any, new_dtype: Any) -> Bounded:
    x = operands[0]
    lost = (x.error > 0) | ((x.value == 0) & (not x.signed)) | (x.value != x.value)
    bits = x.nearest()
    if bits.dtype.itemsize != np.dtype(new_dtype).itemsize:
        raise NoRule("bitcast_convert_type between widths")
    found = exact(np.ascontiguousarray(bits).view(new_dtype).reshape(x.shape), new_dtype)
    return bounded(found.value, np.where(lost, UNKNOWN, 0.0), new_dtype)


# ---- gathers and scatters ----------------------------------------------------------------------


def _blocks(indices: Array, batch: Sequence[int], numbers: Any, dims: Any, shape: Any, sizes: Any) -> Any:
    """For each block: its index in the batch dimensions, and where it starts."""
    pairs = list(zip(dims[0], dims[1], strict=True))
    for place in itertools.product(*map(range, batch)):
        start = [0] * len(shape)
        for k, d in enumerate(numbers):
            start[d] = int(indices[(*place, k)])
        for d, of_indices in pairs:
            start[d] = place[of_indices]
        yield place, start


def _mode(mode: Any) -> str:
    return str(getattr(mode, "name", mode)).upper()


MOST_BLOCKS = 20_000


def _gather(operands: list[Bounded], types: Any, dimension_numbers: Any, slice_sizes: Any, mode: Any, fill_value: Any = None, **rest: Any) -> Bounded:
    x, indices = operands
    n = dimension_numbers
    out_shape = types[0].shape
    batch = indices.shape[:-1]
    if prod(batch) > MOST_BLOCKS:
        raise NoRule("a gather of so many blocks")
    dropped = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    window = [d for d in range(len(x.shape)) if d not in dropped]
    batch_dims = [d for d in range(len(out_shape)) if d not in n.offset_dims]
    value, error = np.zeros(out_shape, x.value.dtype), np.zeros(out_shape)
    fill = fill_value
    if fill is None:
        fill = np.nan if is_float(x.dtype) else True if x.dtype == bool else np.iinfo(x.dtype).min if x.dtype.kind == "i" else np.iinfo(x.dtype).max
    last = [length - size for length, size in zip(x.shape, slice_sizes, strict=True)]
    pairs = n.operand_batching_dims, n.start_indices_batching_dims
    for place, start in _blocks(indices.value, batch, n.start_index_map, pairs, x.shape, slice_sizes):
        at: list[Any] = [slice(None)] * len(out_shape)
        for d, i in zip(batch_dims, place, strict=True):
            at[d] = i
        inside = all(0 <= start[d] <= last[d] for d in n.start_index_map)
        if not inside and _mode(mode).startswith("FILL"):
            value[tuple(at)] = fill
            continue
        begin = [min(max(s, 0), end) for s, end in zip(start, last, strict=True)]
        block = tuple(slice(b, b + size) if d in window else b for d, (b, size) in enumerate(zip(begin, slice_sizes, strict=True)))
        value[tuple(at)], error[tuple(at)] = x.value[block], x.error[block]
        if not inside and "PROMISE" in _mode(mode):
            error[tuple(at)] = UNKNOWN
        if not indices.known[place].all():
            error[tuple(at)] = UNKNOWN
    return Bounded(value, error, x.dtype, x.signed)


def _scatter(kind: str) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, dimension_numbers: Any, mode: Any, unique_indices: bool = False, **rest: Any) -> Bounded:
        x, indices, updates = operands
        n = dimension_numbers
        batch = indices.shape[:-1]
        if prod(batch) > MOST_BLOCKS:
            raise NoRule("a scatter of so many blocks")
        if kind != "set":
            x, updates = x.as_operand(), updates.as_operand()
        dropped = {*n.inserted_window_dims, *n.operand_batching_dims}
        window = [d for d in range(len(x.shape)) if d not in dropped]
        batch_dims = [d for d in range(len(updates.shape)) if d not in n.update_window_dims]
        sizes = [1] * len(x.shape)
        for d, place in zip(window, n.update_window_dims, strict=True):
            sizes[d] = updates.shape[place]
        last = [length - size for length, size in zip(x.shape, sizes, strict=True)]
        value, error = x.value.copy(), x.error.copy()
        count, total = np.zeros(x.shape), abs(x.value).astype(float) if x.dtype != bool else np.zeros(x.shape)
        pairs = n.operand_batching_dims, n.scatter_indices_batching_dims
        combine = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(kind)
        known = bool(indices.known.all())
        for place, start in _blocks(indices.value, batch, n.scatter_dims_to_operand_dims, pairs, x.shape, sizes):
            at: list[Any] = [slice(None)] * len(updates.shape)
            for d, i in zip(batch_dims, place, strict=True):
                at[d] = i
            inside = all(0 <= s <= end for s, end in zip(start, last, strict=True))
            if not inside and _mode(mode) == "CLIP":
                start = [min(max(s, 0), end) for s, end in zip(start, last, strict=True)]
            elif not inside:
                known &= "PROMISE" not in _mode(mode)
                continue
            block = tuple(slice(b, b + size) if d in window else b for d, (b, size) in enumerate(zip(start, sizes, strict=True)))
            new, its_error = updates.value[tuple(at)], updates.error[tuple(at)]
            if combine is None:
                again = (count[block] > 0) & ~((value[block] == new) & (error[block] == 0) & (its_error == 0))
                value[block], error[block] = new, np.where(again, UNKNOWN, its_error)
            elif kind in ("max", "min"):
                value[block] = combine(value[block], new)
                error[block] = np.maximum(error[block], its_error)
            else:
                value[block] = combine(value[block], new)
                error[block] = error[block] + its_error
                total[block] += abs(new).astype(float)
            count[block] += 1
        if not known:
            error = np.full(x.shape, UNKNOWN)
        if kind == "set":
            return Bounded(value, error, x.dtype, x.signed and updates.signed)
        if not is_float(x.dtype) or kind in ("max", "min"):
            return bounded(value.astype(x.value.dtype), np.where(np.isnan(value) if is_float(x.dtype) else False, np.where(np.isfinite(error), 0, error), error), x.dtype)
        if kind == "mul":
            return _lost(bounded(value, error, x.dtype))
        out = _sum_with_bound(value, error, total, count + 1, x.dtype, _granular([x.value, updates.value]))
        return bounded(out.value, np.where(count == 0, x.error, out.error), x.dtype)

    return rule


# ---- sums, products and other reductions -------------------------------------------------------


def _granular(arrays: Sequence[Array]) -> float | None:
    """A power of two of which all finite numbers are multiples, if a small one is found."""
    for scale in (1.0, 4.0, 16.0, 256.0):
        if all(bool(np.all((a * scale == np.rint(a * scale)) | ~np.isfinite(a))) for a in arrays):
            return 1 / scale
    return None


def _sum_with_bound(out: Array, error: Array, total: Array, count: Any, dtype: Any, grain: float | None) -> Bounded:
    """A sum of `count` terms in any order, whose sizes have the sum `total`."""
    bound = limits(dtype)
    found = error + count * bound.unit * 1.01 * (total + error) + count * bound.tiny
    if grain is not None:
        found = np.where((error == 0) & (total / grain < 2.0**bound.bits), 0.0, found)
    overflow = np.isfinite(out) & (total + found >= float(bound.most))
    found = np.where(overflow, UNKNOWN, found)
    # An infinity among the terms and the rest may overflow in the other direction.
    return bounded(out, found, dtype)


def _float_sum(value: Array, error: Array, sum_: Callable[[Array], Array], count: Any, dtype: Any) -> Bounded:
    """A sum by a function that adds along axes or cumulatively."""
    if np.dtype(dtype).kind == "c":
        parts = [_float_sum(part, error, sum_, count, value.real.dtype) for part in (value.real, value.imag)]
        real = limits(dtype)
        total = sum_(np.where(np.isfinite(value), abs(value), 0).astype(float))
        found = parts[0].value + 1j * parts[1].value
        finite = np.isfinite(found) & (total < float(real.most) / 4)
        return bounded(found, np.where(finite, sum_(error) * 2 + count * 4 * real.unit * total + count * real.tiny, UNKNOWN), dtype)
    finite = np.isfinite(value)
    total = sum_(np.where(finite, abs(value), 0).astype(np.float64))
    lost = sum_(np.where(np.isfinite(error), 0.0, 1.0)) > 0
    out = _sum_with_bound(sum_(value), sum_(np.where(np.isfinite(error), error, 0)), total, count, dtype, _granular([value]))
    if finite.all():
        return bounded(out.value, np.where(lost, UNKNOWN, out.error), dtype)
    nan = sum_((np.isnan(value) & np.isfinite(error)).astype(float)) > 0
    plus, minus = (sum_((value == s * np.inf).astype(float)) > 0 for s in (1, -1))
    both = plus & minus & ~lost
    error = np.where(nan | both, 0.0, np.where(lost | (total >= float(limits(dtype).most)), UNKNOWN, np.where(np.isfinite(out.value), out.error, 0.0)))
    return bounded(np.where(nan | both, np.nan, out.value), error, dtype)


def _reduce_sum(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
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


def _powers(value: Array, error: Array, sum_: Callable[[Array], Array], out: Array, count: int, dtype: Any) -> Bounded:
    """A product by a function that adds along axes: the bound from the sums of logarithms."""
    bound = limits(dtype)
    size = abs(value).astype(np.float64)
    plain = np.isfinite(size) & (size > 0)
    logs = np.log2(np.where(plain, size, 1.0))
    relative = sum_(np.where(plain, error / np.where(plain, size, 1.0), np.where(error > 0, UNKNOWN, 0)))
    up, down = sum_(np.maximum(logs, 0)), sum_(np.minimum(logs, 0))
    wild = (up > np.log2(float(bound.most)) - 1) | (down < np.log2(bound.tiny) + 1)
    found = abs(out).astype(float) * (np.expm1(np.minimum(relative, 50.0)) + 1.01 * count * bound.unit)
    whole = _granular([value]) == 1.0
    if whole and not error.any():
        found = np.where((up < bound.bits) & (down == 0), 0.0, found)
    found = np.where(np.isfinite(out), found, 0.0)
    nan = sum_((np.isnan(value) & np.isfinite(error)).astype(float)) > 0
    return bounded(np.where(nan, np.nan, out), np.where(nan, 0.0, np.where(wild | ~np.isfinite(relative), UNKNOWN, found)), dtype)


def _product(operands: list[Bounded], types: Any, along: Callable[..., Any], sums: Callable[..., Any], count: int) -> Bounded:
    x, dtype = operands[0].as_operand(), types[0].dtype
    if dtype.kind == "c":
        return _lost(bounded(along(x.value), 0.0, dtype))
    if not is_float(dtype):
        lost = sums((~x.known).astype(int)) > 0
        return unknown_where(lost, along(x.value).astype(dtype), dtype)
    return _powers(x.value, x.error, sums, along(x.value), count, dtype)


def _reduce_prod(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
    axes, dtype = tuple(axes), operands[0].value.dtype
    count = prod(operands[0].shape[a] for a in axes)
    return _product(operands, types, lambda a: np.prod(a, axes, dtype=dtype), lambda a: a.sum(axes), count)


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


def _extreme(function: Any, take: Callable[[Any, Array], Array], x: Bounded) -> Bounded:
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
    return bounded(np.where(nan, np.nan, out), np.where(nan, 0.0, np.where(lost, UNKNOWN, error)), x.dtype)


def _reduce_extremum(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axes: Any, **rest: Any) -> Bounded:
        return _extreme(function, lambda f, a: f.reduce(a, axis=tuple(axes)), operands[0])

    return rule


def _cumulative_extremum(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
        flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a
        return _extreme(function, lambda f, a: flip(f.accumulate(flip(a), axis)), operands[0])

    return rule


def _cumlogsumexp(operands: list[Bounded], types: Any, axis: int, reverse: bool) -> Bounded:
    x, dtype = operands[0].as_operand(), types[0].dtype
    if dtype.kind == "c":
        raise NoRule("cumlogsumexp of complex numbers")
    flip = functools.partial(np.flip, axis=axis) if reverse else lambda a: a
    out = flip(np.logaddexp.accumulate(flip(x.value), axis))
    largest = flip(np.maximum.accumulate(flip(np.where(np.isfinite(x.value), abs(x.value), 0).astype(float)), axis))
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
    plain = np.isfinite(a.value).all(axis, keepdims=True) & np.isfinite(b.value).all(axis, keepdims=True)
    # Products of factors that an order makes may overflow where the terms do not.
    factors = np.prod(np.maximum(abs(a.value), 1).astype(float), axis, keepdims=True)
    plain = plain & (factors * size.max(axis, keepdims=True) < float(limits(dtype).most))
    return bounded(out, np.where(plain, found, UNKNOWN), dtype)


def _logical(function: Any) -> Callable[..., Bounded]:
    def rule(operands: list[Bounded], types: Any, axes: Any) -> Bounded:
        x, axes = operands[0], tuple(axes)
        out = function.reduce(x.value, axis=axes)
        lost = (~x.known).any(axes)
        if x.dtype == bool and function is not np.bitwise_xor:
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
    def rule(operands: list[Bounded], types: Any, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any, window_dilation: Any) -> Bounded:
        x, dtype = operands[0].as_operand(), types[0].dtype
        function, fill = {"sum": (np.add, 0), "max": (np.maximum, _least(dtype, 1)), "min": (np.minimum, _least(dtype, -1))}[kind]
        if prod(window_dimensions) > 64:
            raise NoRule("a window of so many elements")
        config = [(low, high, b - 1) for (low, high), b in zip(padding, base_dilation, strict=True)]
        padded = _pad([x, exact(np.asarray(fill, dtype), dtype)], None, config)
        blocks = []
        for offset in itertools.product(*map(range, window_dimensions)):
            at = tuple(slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, window_dilation, types[0].shape, window_strides, strict=True))
            blocks.append(padded.moved(lambda a, at=at: a[at]))
        every = _joined(blocks, np.stack)
        if kind == "sum":
            return _reduce_sum([every], types, (0,))
        return _extreme(function, lambda f, a: f.reduce(a, axis=0), every)

    return rule


def _least(dtype: Any, sign: int) -> Any:
    if is_float(dtype):
        return -sign * np.inf
    if dtype == bool:
        return sign < 0
    info = np.iinfo(dtype)
    return info.min if sign > 0 else info.max


def _sort(operands: list[Bounded], types: Any, dimension: int, num_keys: int, **rest: Any) -> list[Bounded]:
    keys = operands[:num_keys]
    if any(np.dtype(k.dtype).kind == "c" for k in keys):
        raise NoRule("a sort of complex numbers")
    if len(operands) == 1:
        x = operands[0].as_operand()
        error = np.broadcast_to(x.error.max(dimension, keepdims=True), x.shape)
        mixed = ~np.isfinite(x.value).all(dimension, keepdims=True) & (error > 0)
        return [bounded(np.sort(x.value, dimension, kind="stable"), np.where(mixed, UNKNOWN, error), x.dtype)]
    keys = [k.as_operand() for k in keys]
    lost = functools.reduce(np.logical_or, ((k.error > 0).any(dimension, keepdims=True) for k in keys))
    order = np.lexsort([np.moveaxis(k.value, dimension, -1) for k in keys[::-1]], axis=-1)
    order = np.moveaxis(order, -1, dimension)
    found = [x.moved(lambda a: np.take_along_axis(a, order, dimension)) for x in operands]
    return [Bounded(x.value, np.where(lost, UNKNOWN, x.error), x.dtype, x.signed and k >= num_keys) for k, x in enumerate(found)]


# ---- products of matrices ----------------------------------------------------------------------


def _dot_general(operands: list[Bounded], types: Any, dimension_numbers: Any, **rest: Any) -> Bounded:
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

    unknown = times((~a.known).astype(float), np.ones(b.shape)) + times(np.ones(a.shape), (~b.known).astype(float)) > 0
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
        return bounded(out, np.where(large & ~unknown, error + 8 * count * limits(dtype).unit * total + 8 * count * limits(dtype).tiny, UNKNOWN), dtype)
    grains = _granular([a.value]), _granular([b.value])
    grain = None if None in grains else grains[0] * grains[1]
    found = _sum_with_bound(out, error, total, count, dtype, grain)
    if np.isfinite(a.value).all() and np.isfinite(b.value).all():
        return bounded(found.value, np.where(unknown, UNKNOWN, found.error), dtype)
    # Where factors are infinite, errors of the others may decide about the sign.
    delicate = times((~np.isfinite(a.value)).astype(float), errors[1]) + times(errors[0], (~np.isfinite(b.value)).astype(float)) > 0
    nan = times(a.nan.astype(float), np.ones(b.shape)) + times(np.ones(a.shape), b.nan.astype(float)) > 0
    finite = np.isfinite(out)
    risky = unknown | delicate | (total >= float(limits(dtype).most))
    error = np.where(nan, 0.0, np.where(risky, UNKNOWN, np.where(finite, found.error, 0.0)))
    return bounded(np.where(nan, np.nan, out), error, dtype)


# ---- programs inside programs ------------------------------------------------------------------


def _call(operands: list[Bounded], types: Any, jaxpr: Any = None, **params: Any) -> list[Bounded]:
    inner = jaxpr if jaxpr is not None else params.get("call_jaxpr")
    if inner is None:
        raise NoRule(f"a call with {sorted(params)}")
    return evaluate(inner, operands)


def _cond(operands: list[Bounded], types: Any, branches: Any, **rest: Any) -> list[Bounded]:
    which, *args = operands
    found = evaluate(branches[min(max(int(which.value), 0), len(branches) - 1)], args)
    return found if which.known.all() else [_lost(x) for x in found]


def _scan(operands: list[Bounded], types: Any, jaxpr: Any, length: int, num_carry: int, num_consts: int, reverse: bool, **rest: Any) -> list[Bounded]:
    consts, carry = operands[:num_consts], operands[num_consts : num_consts + num_carry]
    if length > 64:
        raise NoRule("a scan of so many steps")
    rows: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        slices = [x.moved(lambda a, i=i: a[i]) for x in operands[num_consts + num_carry :]]
        found = evaluate(jaxpr, [*consts, *carry, *slices])
        carry, rows[i] = found[:num_carry], found[num_carry:]
    if not length:
        raise NoRule("a scan of no steps")
    return [*carry, *(_joined(column, np.stack) for column in zip(*rows, strict=True))]


# ---- blocks on devices -------------------------------------------------------------------------


def _shard_map(operands: list[Bounded], types: Any, jaxpr: Any, in_specs: Any, out_specs: Any, manual: Any, **rest: Any) -> list[Bounded]:
    """All devices in step; meshes of one axis."""
    ((axis, count),) = dict(manual.mesh.shape if hasattr(manual, "mesh") else manual).items()
    known: dict[Any, list[Bounded]] = {}
    for var, x, spec in zip(jaxpr.inputs, operands, in_specs, strict=True):
        known[var] = _cut(x, _split_dim(spec), count)

    def read(atom: Any) -> list[Bounded]:
        if isinstance(atom, Literal):
            return [exact(atom.value, atom.type.dtype)] * count
        return known[atom]

    for eqn in jaxpr.eqns:
        args, outs = [read(x) for x in eqn.inputs], [x.type for x in eqn.outputs]
        collective = _COLLECTIVES.get(eqn.primitive.name)
        if collective is not None:
            found = [collective(args[0] if args else count, outs, **eqn.params)]
        else:
            each = [apply(eqn.primitive.name, [x[k] for x in args], eqn.params, outs) for k in range(count)]
            found = [list(column) for column in zip(*each, strict=True)]
        known.update(zip(eqn.outputs, found, strict=True))
    results = []
    for atom, spec in zip(jaxpr.outputs, out_specs, strict=True):
        blocks, dim = read(atom), _split_dim(spec)
        results.append(blocks[0] if dim is None else _joined(blocks, lambda parts, dim=dim: np.concatenate(parts, dim)))
    return results


def _split_dim(spec: Any) -> int | None:
    split = [d for d, entry in enumerate(spec) if entry]
    return split[0] if split else None


def _cut(x: Bounded, dim: int | None, count: int) -> list[Bounded]:
    if dim is None:
        return [x] * count
    return [x.moved(lambda a, k=k: np.split(a, count, dim)[k]) for k in range(count)]


def _combined(kind: str) -> Callable[..., list[Bounded]]:
    def rule(blocks: list[Bounded], types: Any, axis_index_groups: Any = None, **rest: Any) -> list[Bounded]:
        if axis_index_groups is not None:
            raise NoRule("groups of devices")
        every = _joined(blocks, np.stack)
        if kind == "sum":
            out = _reduce_sum([every], types, (0,))
        else:
            function = {"max": np.maximum, "min": np.minimum}[kind]
            out = _extreme(function, lambda f, a: f.reduce(a, axis=0), every)
        return [out] * len(blocks)

    return rule


def _permuted(blocks: list[Bounded], types: Any, perm: Any, **rest: Any) -> list[Bounded]:
    zeros = exact(np.zeros(blocks[0].shape), blocks[0].dtype)
    out = [zeros] * len(blocks)
    for source, target in perm:
        out[target] = blocks[source]
    return out


def _gathered(blocks: list[Bounded], types: Any, dimension: int = 0, tiled: bool = True, axis_index_groups: Any = None, **rest: Any) -> list[Bounded]:
    if axis_index_groups is not None:
        raise NoRule("groups of devices")
    join = np.concatenate if tiled else np.stack
    return [_joined(blocks, lambda parts: join(parts, dimension))] * len(blocks)


def _exchanged(blocks: list[Bounded], types: Any, split_axis: int, concat_axis: int, tiled: bool = True, **rest: Any) -> list[Bounded]:
    if not tiled:
        raise NoRule("all_to_all that is not tiled")
    parts = [_cut(x, split_axis, len(blocks)) for x in blocks]
    return [_joined([p[k] for p in parts], lambda a: np.concatenate(a, concat_axis)) for k in range(len(blocks))]


_COLLECTIVES: dict[str, Callable[..., list[Bounded]]] = {
    "psum": _combined("sum"),
    "pmax": _combined("max"),
    "pmin": _combined("min"),
    "ppermute": _permuted,
    "all_gather": _gathered,
    "all_gather_invariant": _gathered,
    "all_to_all": _exchanged,
    "axis_index": lambda count, types, **rest: [exact(np.asarray(k), types[0].dtype) for k in range(count)],
}

_RULES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _movement(_broadcast),
    "reshape": _movement(lambda a, shape, **rest: a.reshape(shape)),
    "transpose": _movement(lambda a, permutation: np.transpose(a, permutation)),
    "rev": _movement(lambda a, dimensions: np.flip(a, dimensions)),
    "slice": _movement(_slice),
    "copy": _movement(lambda a: a),
    "concatenate": _concatenate,
    "split": _split,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "iota": _iota,
    "bitcast_convert_type": _bitcast,
    "gather": _gather,
    "scatter": _scatter("set"),
    "scatter_add": _scatter("add"),
    "scatter_sub": _scatter("sub"),
    "scatter_mul": _scatter("mul"),
    "scatter_max": _scatter("max"),
    "scatter_min": _scatter("min"),
    "reduce_sum": _reduce_sum,
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
    "jit": _call,
    "custom_jvp": _call,
    "custom_vjp": _call,
    "checkpoint": _call,
    "cond": _cond,
    "scan": _scan,
    "shard_map": _shard_map,
}
