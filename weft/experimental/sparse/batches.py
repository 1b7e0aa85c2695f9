"""Functions of one batch, applied to all batches of the buffers of sparse arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft.api.vmap import vmap
from weft.core.types import type_of

# The largest number of positions whose numbers are 32-bit integers.
_POSITIONS = 2**31 - 1


def over_batches(function: Callable[..., Any], n_batch: int, *arrays: Any) -> Any:
    """`function(*arrays)` mapped over `n_batch` leading dimensions. One of length 1 is repeated
    where that of another array is longer, without a copy."""
    if n_batch == 0:
        return function(*arrays)
    lengths = [type_of(x).shape[0] for x in arrays]
    length = next((n for n in lengths if n != 1), 1)
    axes = tuple(0 if n == length else None for n in lengths)
    given = [x if axis == 0 else jnp.squeeze(x, 0) for x, axis in zip(arrays, axes, strict=True)]
    return vmap(lambda *xs: over_batches(function, n_batch - 1, *xs), axes)(*given)


def with_batches(x: Any, batch: Sequence[int]) -> Any:
    """A buffer with its leading dimensions of length 1 broadcast to `batch`."""
    shape = type_of(x).shape
    wanted = (*batch, *shape[len(batch) :])
    return x if shape == wanted else jnp.broadcast_to(x, wanted)


def padded(indices: Any, shape: Sequence[int]) -> Any:
    """Which elements of one batch lie outside of the sparse dimensions."""
    return jnp.any((indices < 0) | (indices >= place_in(indices, shape)), -1)


def place_in(indices: Any, shape: Sequence[int]) -> Any:
    """The index of padding: the lengths of the sparse dimensions, in the dtype of the indices."""
    dtype = type_of(indices).dtype
    return jnp.stack([jnp.asarray(n, dtype) for n in shape]) if shape else jnp.zeros(0, dtype)


def placed(indices: Any, shape: Sequence[int]) -> Any:
    """The number of the position of each element of one batch, in C order; that of padding is the
    number of positions, which is below 2**31."""
    wide = indices.astype("int32")
    number = jnp.zeros(type_of(indices).shape[0], "int32")
    for i, length in enumerate(shape):
        number = number * length + wide[:, i]
    return jnp.where(padded(indices, shape), math.prod(shape), number)


def sort_order(indices: Any, shape: Sequence[int]) -> Any:
    """The stable order of the elements of one batch by index, padding last."""
    if math.prod(shape) <= _POSITIONS:
        return jnp.argsort(placed(indices, shape))
    outside = padded(indices, shape)
    return jnp.lexsort((*(indices[:, i] for i in reversed(range(len(shape)))), outside))


def positions(shape: Sequence[int], *rows: Any) -> list[Any]:
    """Numbers that compare as the indices of several lists of one batch do; padding gets the
    largest."""
    if math.prod(shape) <= _POSITIONS:
        return [placed(x, shape) for x in rows]
    # More positions than 32-bit numbers: the elements are ranked among one another.
    together = jnp.concatenate(rows)
    together = jnp.where(padded(together, shape)[:, None], place_in(together, shape), together)
    order = sort_order(together, shape)
    ranked = together[order]
    new = jnp.any(ranked[1:] != ranked[:-1], -1)
    rank = jnp.concatenate([jnp.zeros(1, "int32"), jnp.cumsum(new, dtype="int32")])
    numbers = jnp.zeros_like(rank).at[order].set(rank)
    ends = [0]
    for x in rows:
        ends.append(ends[-1] + type_of(x).shape[0])
    return [numbers[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
