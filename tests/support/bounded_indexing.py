"""The rules of `bounded_evaluation` for gathers and scatters, block by block."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bounded_movement import NoRule, not_known
from bounded_reductions import granular, sum_with_bound
from bounded_values import UNKNOWN, Bounded, bounded, is_float

__all__ = ["INDEXING"]

Array = np.ndarray[Any, Any]


def _blocks(
    indices: Array, batch: Sequence[int], numbers: Any, dims: Any, shape: Any, sizes: Any
) -> Any:
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


def _gather(
    operands: list[Bounded],
    types: Any,
    dimension_numbers: Any,
    slice_sizes: Any,
    mode: Any,
    fill_value: Any = None,
    **rest: Any,
) -> Bounded:
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
        fill = (
            np.nan
            if is_float(x.dtype)
            else True
            if x.dtype == bool
            else np.iinfo(x.dtype).min
            if x.dtype.kind == "i"
            else np.iinfo(x.dtype).max
        )
    last = [length - size for length, size in zip(x.shape, slice_sizes, strict=True)]
    pairs = n.operand_batching_dims, n.start_indices_batching_dims
    for place, start in _blocks(
        indices.value, batch, n.start_index_map, pairs, x.shape, slice_sizes
    ):
        at: list[Any] = [slice(None)] * len(out_shape)
        for d, i in zip(batch_dims, place, strict=True):
            at[d] = i
        inside = all(0 <= start[d] <= last[d] for d in n.start_index_map)
        if not inside and _mode(mode).startswith("FILL"):
            value[tuple(at)] = fill
            continue
        begin = [min(max(s, 0), end) for s, end in zip(start, last, strict=True)]
        block = tuple(
            slice(b, b + size) if d in window else b
            for d, (b, size) in enumerate(zip(begin, slice_sizes, strict=True))
        )
        value[tuple(at)], error[tuple(at)] = x.value[block], x.error[block]
        if not inside and "PROMISE" in _mode(mode):
            error[tuple(at)] = UNKNOWN
        if not indices.known[place].all():
            error[tuple(at)] = UNKNOWN
    return Bounded(value, error, x.dtype, x.signed)


def _scatter(kind: str) -> Callable[..., Bounded]:
    def rule(
        operands: list[Bounded],
        types: Any,
        dimension_numbers: Any,
        mode: Any,
        unique_indices: bool = False,
        **rest: Any,
    ) -> Bounded:
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
        count, total = (
            np.zeros(x.shape),
            abs(x.value).astype(float) if x.dtype != bool else np.zeros(x.shape),
        )
        pairs = n.operand_batching_dims, n.scatter_indices_batching_dims
        combine = {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "max": np.maximum,
            "min": np.minimum,
        }.get(kind)
        known = bool(indices.known.all())
        for place, start in _blocks(
            indices.value, batch, n.scatter_dims_to_operand_dims, pairs, x.shape, sizes
        ):
            at: list[Any] = [slice(None)] * len(updates.shape)
            for d, i in zip(batch_dims, place, strict=True):
                at[d] = i
            inside = all(0 <= s <= end for s, end in zip(start, last, strict=True))
            if not inside and _mode(mode) == "CLIP":
                start = [min(max(s, 0), end) for s, end in zip(start, last, strict=True)]
            elif not inside:
                known &= "PROMISE" not in _mode(mode)
                continue
            block = tuple(
                slice(b, b + size) if d in window else b
                for d, (b, size) in enumerate(zip(start, sizes, strict=True))
            )
            new, its_error = updates.value[tuple(at)], updates.error[tuple(at)]
            if combine is None:
                again = (count[block] > 0) & ~(
                    (value[block] == new) & (error[block] == 0) & (its_error == 0)
                )
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
            return bounded(
                value.astype(x.value.dtype),
                np.where(
                    np.isnan(value) if is_float(x.dtype) else False,
                    np.where(np.isfinite(error), 0, error),
                    error,
                ),
                x.dtype,
            )
        if kind == "mul":
            return not_known(bounded(value, error, x.dtype))
        out = sum_with_bound(
            value, error, total, count + 1, x.dtype, granular([x.value, updates.value])
        )
        return bounded(out.value, np.where(count == 0, x.error, out.error), x.dtype)

    return rule


INDEXING: dict[str, Callable[..., Any]] = {
    "gather": _gather,
    "scatter": _scatter("set"),
    "scatter_add": _scatter("add"),
    "scatter_sub": _scatter("sub"),
    "scatter_mul": _scatter("mul"),
    "scatter_max": _scatter("max"),
    "scatter_min": _scatter("min"),
}
