"""The rules of `bounded_evaluation` for operations that move elements: bounds move with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bounded_values import UNKNOWN, Bounded, bounded, exact

__all__ = ["MOVEMENTS", "NoRule", "joined", "not_known", "padded_with"]

Array = np.ndarray[Any, Any]


class NoRule(Exception):
    """A program holds a primitive that the evaluation has no rule for."""


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


def joined(parts: Sequence[Bounded], join: Callable[[list[Array]], Array]) -> Bounded:
    value, error = join([x.value for x in parts]), join([x.error for x in parts])
    return Bounded(value, error, parts[0].dtype, all(x.signed for x in parts))


def _concatenate(operands: list[Bounded], types: Any, dimension: int) -> Bounded:
    return joined(operands, lambda parts: np.concatenate(parts, dimension))


def _split(operands: list[Bounded], types: Any, axis: int, sizes: Any) -> list[Bounded]:
    ends = np.cumsum(sizes)
    cut = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return [operands[0].moved(lambda a, c=c: a[(slice(None),) * axis + (c,)]) for c in cut]


def padded_with(operands: list[Bounded], types: Any, padding_config: Any) -> Bounded:
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

    return joined(operands, padded)


def _starts(operand: Bounded, starts: list[Bounded], sizes: Sequence[int]) -> tuple[Any, bool]:
    """Where a block is taken: as near as it may be; and whether all starts are known."""
    last = [length - size for length, size in zip(operand.shape, sizes, strict=True)]
    found = [min(max(int(s.value), 0), end) for s, end in zip(starts, last, strict=True)]
    places = tuple(slice(s, s + size) for s, size in zip(found, sizes, strict=True))
    return places, all(s.known.all() for s in starts)


def not_known(x: Bounded) -> Bounded:
    return bounded(x.value, np.full(x.shape, UNKNOWN), x.dtype)


def _dynamic_slice(operands: list[Bounded], types: Any, slice_sizes: Any) -> Bounded:
    places, known = _starts(operands[0], operands[1:], slice_sizes)
    out = operands[0].moved(lambda a: a[places])
    return out if known else not_known(out)


def _dynamic_update_slice(operands: list[Bounded], types: Any) -> Bounded:
    x, update, *starts = operands
    places, known = _starts(x, starts, update.shape)

    def written(parts: list[Array]) -> Array:
        out = parts[0].copy()
        out[places] = parts[1]
        return out

    out = joined([x, update], written)
    return out if known else not_known(out)


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


MOVEMENTS: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _movement(_broadcast),
    "reshape": _movement(lambda a, shape, **rest: a.reshape(shape)),
    "transpose": _movement(lambda a, permutation: np.transpose(a, permutation)),
    "rev": _movement(lambda a, dimensions: np.flip(a, dimensions)),
    "slice": _movement(_slice),
    "copy": _movement(lambda a: a),
    "concatenate": _concatenate,
    "split": _split,
    "pad": padded_with,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "iota": _iota,
    "bitcast_convert_type": _bitcast,
}
