"""Arrays as text, and the few values of a large one that are shown.

As in NumPy, of an array with more elements than `numpy.get_printoptions()["threshold"]` the edges
are shown. Only these are then brought to the host, block by block from the devices that hold them:
a large array may not fit there, and an array that is spread over devices would be put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.shards import Parts, parts_of, placement_text
from weft.arrays.transfers import explicit_transfers, guard
from weft.core.trace import bottom_trace, using_trace
from weft.runtime import client

# An array of fewer bytes is brought to the host whole, and is then there for what comes next.
_LARGE = 1 << 20


def array_repr(x: Any) -> str:
    """The `repr` of an array."""
    numeric = isinstance(x.type.dtype, np.dtype)
    dtype = x.type.dtype.name if numeric else dtypes.short_name(x.type.dtype)
    if x.is_deleted():
        return f"Array(deleted, shape={x.shape}, dtype={dtype})"
    if not x._is_whole():
        return f"Array(shape={x.shape}, dtype={dtype}, partly on other processes)"
    if not numeric:
        head = f"Array(shape={x.shape}, dtype={dtype}, bits="
        bits = np.array2string(x._stored(), separator=", ", prefix=head)
        return f"{head}{bits})"
    weak = ", weak_type=True" if x.type.weak_type else ""
    weak += placement_text(x._layout(), x._shown_place())
    text = _numbers(x, ", ", "Array(")
    size = x.type.size
    # As in NumPy: where the elements that are shown do not tell the shape.
    if size > np.get_printoptions()["threshold"] or (not size and x.shape != (0,)):
        text += f", shape={x.shape}"
    return f"Array({text}, dtype={dtype}{weak})"


def array_str(x: Any) -> str:
    """The `str` of an array."""
    if not isinstance(x.type.dtype, np.dtype) or not x._is_whole():
        return array_repr(x)
    return _numbers(x, " ", "") if _shows_edges(x) else str(x._value())


def _numbers(x: Any, separator: str, prefix: str) -> str:
    if not _shows_edges(x):
        return np.array2string(x._value(), separator=separator, prefix=prefix)
    edge = np.get_printoptions()["edgeitems"]
    # One index more than the edges: so NumPy leaves out something in these dimensions too.
    values = values_at(x, [edges(n, edge, edge + 1) for n in x.shape])
    return np.array2string(values, separator=separator, prefix=prefix, threshold=0)


def _shows_edges(x: Any) -> bool:
    """Whether only the edges of an array are shown and brought to the host."""
    return (
        x.nbytes > _LARGE
        and x.type.size > np.get_printoptions()["threshold"]
        and getattr(x, "_host", None) is None
    )


def edges(length: int, last: int, first: int) -> list[int]:
    """The `first` first and the `last` last indices of a dimension, or all if there are no more."""
    if length <= first + last:
        return list(range(length))
    return [*range(first), *range(length - last, length)]


def values_at(x: Any, indices: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """The values of an array at the crossings of some indices of each dimension. No others leave
    their devices, and no device computes for another one.

    Raises WeftValueError if this process does not hold all values, DeletedArrayError for a deleted
    array, and GuardError if the settings refuse the copy.
    """
    out = np.empty([len(picked) for picked in indices], x.type.dtype)
    picks = [np.asarray(picked, np.intp) for picked in indices]
    parts: Parts = parts_of(x._place(), x.type)
    for index, holder in zip(parts.indices, parts.holders, strict=True):
        here, inside = [], []
        for part, picked, length in zip(index, picks, x.shape, strict=True):
            start, stop, _ = part.indices(length)
            where = np.flatnonzero((picked >= start) & (picked < stop))
            here.append(where)
            inside.append(picked[where] - start)
        if all(where.size for where in here):
            out[np.ix_(*here)] = _block_values(x.addressable_data(holder), inside)
    return out


def _block_values(block: Any, indices: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """`values_at` for an array on one device."""
    crossings = np.ix_(*indices)
    if _on_host(block):
        values: np.ndarray[Any, Any] = block._stored()[crossings]  # a view of the device's memory
        return values
    if config.guarding:
        guard("device_to_host", block.type, block._committed_place())
    with using_trace(bottom_trace()), explicit_transfers():
        picked: np.ndarray[Any, Any] = block[crossings]._stored()
    return picked


def _on_host(block: Any) -> bool:
    """Whether NumPy reads the memory of the device of an array in place."""
    platform: str = client.backend().device_of(block._live()).platform
    return platform == "cpu"
