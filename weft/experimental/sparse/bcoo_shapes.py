"""Operations on a `BCOO` that move, cut, join and sum elements, and compute nothing else."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.experimental.sparse.base import unsupported
from weft.experimental.sparse.batches import over_batches, place_in, with_batches
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_storage import (
    bcoo_update_layout,
    check_operand,
    sparse_shape,
    stored_data,
    stored_indices,
)
from weft.ops.indexing.gather import GatherDimensionNumbers
from weft.ops.structural.shape import canonical_axes, canonical_axis


def _kinds(mat: BCOO, dims: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """The batch, sparse and dense ones of some dimensions, counted within their kind."""
    edge = mat.n_batch + mat.n_sparse
    batch = [d for d in dims if d < mat.n_batch]
    sparse = [d - mat.n_batch for d in dims if mat.n_batch <= d < edge]
    return batch, sparse, [d - edge for d in dims if d >= edge]


def _index_set(values: Sequence[Any], count: int) -> tuple[int, ...]:
    out = tuple(map(operator.index, values))
    if len(out) != count:
        message = "takes one number for each dimension"
        got, wanted = f"{out}", f"{count} numbers"
        raise WeftValueError(message, got=got, wanted=wanted)
    return out


# ---- order and shape -----------------------------------------------------------------------------


@api_boundary
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int] | None = None) -> BCOO:
    """The BCOO with its dimensions permuted, reversed without a `permutation`.

    Batch, sparse and dense dimensions are permuted among themselves: raises WeftNotImplementedError
    for other permutations.

    Args:
        permutation: Every dimension once, in the order of the result; None for the reverse order.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_transpose(sparse.eye(2, 3), permutation=(1, 0)).shape
    (3, 2)
    """
    check_operand(mat)
    if permutation is None:
        permutation = tuple(reversed(range(mat.ndim)))
    order = canonical_axes(_index_set(permutation, mat.ndim), mat.ndim)
    if sorted(order) != list(range(mat.ndim)):
        message = "the permutation has each dimension once"
        got, wanted = f"permutation={order}", f"a permutation of 0 to {mat.ndim - 1}"
        raise WeftValueError(message, got=got, wanted=wanted)
    edges = (mat.n_batch, mat.n_batch + mat.n_sparse)
    groups = (order[: edges[0]], order[edges[0] : edges[1]], order[edges[1] :])
    starts = (0, *edges)
    for start, group in zip(starts, groups, strict=True):
        if sorted(group) != list(range(start, start + len(group))):
            what = "batch, sparse and dense dimensions are permuted among themselves"
            raise unsupported(what, f"permutation={order} of {mat!r}")
    out: BCOO = mat if order == tuple(range(mat.ndim)) else _transpose(mat, permutation=order)
    return out


@jit(inline=True, static_argnames=("permutation",))
def _transpose(mat: BCOO, *, permutation: tuple[int, ...]) -> BCOO:
    batch, sparse, dense = _kinds(mat, permutation)
    n = mat.n_batch
    data = jnp.transpose(mat.data, (*batch, n, *(n + 1 + d for d in dense)))
    indices = jnp.transpose(mat.indices, (*batch, n, n + 1))
    if sparse != list(range(mat.n_sparse)):
        indices = jnp.stack([indices[..., i] for i in sparse], -1)
    shape = tuple(mat.shape[d] for d in permutation)
    kept = mat.indices_sorted and sparse == list(range(mat.n_sparse))
    return BCOO(
        (data, indices), shape=shape, indices_sorted=kept, unique_indices=mat.unique_indices
    )


@api_boundary
def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
    sharding: Any = None,
) -> BCOO:  # fmt: skip
    """The BCOO in another shape, after a permutation by `dimensions` if there is one.

    Batch, sparse and dense dimensions are reshaped among themselves: raises WeftNotImplementedError
    if the new shape mixes them.

    Args:
        new_sizes: The lengths of the result.
        dimensions: Every dimension once, in the order that they get first; None for the one they
            have.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_reshape(sparse.eye(2), new_sizes=(4,)).indices.T
    Array([[0, 3]], dtype=int32)
    """
    check_operand(mat)
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    sizes = tuple(map(operator.index, new_sizes))
    if math.prod(sizes) != mat.size:
        message = "the shapes have different numbers of elements"
        got, wanted = f"shapes {mat.shape} and {sizes}", "as many elements in both"
        raise ShapeError(message, got=got, wanted=wanted)
    parts = (mat.shape[: mat.n_batch], sparse_shape(mat), mat.shape[mat.n_batch + mat.n_sparse :])
    ends = _split_alike(sizes, [math.prod(p) for p in parts], (mat.n_batch, mat.n_dense))
    if ends is None:
        what = "the new shape mixes batch, sparse and dense dimensions"
        raise unsupported(what, f"new_sizes={sizes} of {mat!r}")
    out: BCOO = _reshape(mat, new_sizes=sizes, ends=ends)
    return out


def _split_alike(
    sizes: tuple[int, ...], wanted: Sequence[int], outer: tuple[int, int]
) -> tuple[int, int] | None:
    """The ends of batch and sparse dimensions of a new shape, as near as possible to those of the
    old one; None if there is no such division."""
    products = list(itertools.accumulate(sizes, operator.mul, initial=1))
    batch = [i for i, p in enumerate(products) if p == wanted[0]] if outer[0] else [0]
    ndim = len(sizes)
    best = None
    for first in batch:
        for last in range(first, ndim + 1):
            if not outer[1] and last != ndim:
                continue
            if math.prod(sizes[first:last]) != wanted[1] or math.prod(sizes[last:]) != wanted[2]:
                continue
            distance = abs(first - outer[0]) + abs(ndim - last - outer[1])
            if best is None or distance < best[0]:
                best = (distance, (first, last))
    return best[1] if best else None


@jit(inline=True, static_argnames=("new_sizes", "ends"))
def _reshape(mat: BCOO, *, new_sizes: tuple[int, ...], ends: tuple[int, int]) -> BCOO:
    old, n = sparse_shape(mat), mat.n_batch
    batch, sparse, dense = new_sizes[: ends[0]], new_sizes[ends[0] : ends[1]], new_sizes[ends[1] :]
    data = stored_data(mat) if batch != mat.shape[:n] else mat.data
    indices = stored_indices(mat) if batch != mat.shape[:n] else mat.indices
    data_batch = batch if batch != mat.shape[:n] else type_of(data).shape[:n]
    index_batch = batch if batch != mat.shape[:n] else type_of(indices).shape[:n]
    data = data.reshape(*data_batch, mat.nse, *dense)
    if old != sparse:
        columns = tuple(indices[..., i] for i in range(len(old)))
        outside = jnp.any((indices < 0) | (indices >= place_in(indices, old)), -1)
        dtype = type_of(indices).dtype
        flat = jnp.zeros(type_of(indices).shape[:-1], dtype)
        for column, length in zip(columns, old, strict=True):
            flat = flat * length + column
        found = jnp.unravel_index(flat, sparse) if sparse else ()
        where = jnp.stack([c.astype(dtype) for c in found], -1) if sparse else indices[..., :0]
        indices = jnp.where(outside[..., None], place_in(where, sparse), where)
        if not sparse:  # padding cannot be marked any more
            data = jnp.where(outside.reshape(*type_of(outside).shape, *[1] * len(dense)), 0, data)
    indices = indices.reshape(*index_batch, mat.nse, len(sparse))
    return BCOO(
        (data, indices), shape=new_sizes, indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )  # fmt: skip


@api_boundary
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The BCOO without some dimensions of length 1.

    Args:
        arr: The BCOO.
        dimensions: The dimensions that disappear, each of length 1.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_squeeze(sparse.empty((1, 3)), dimensions=(0,)).shape
    (3,)
    """
    check_operand(arr)
    dims = canonical_axes(tuple(dimensions), arr.ndim)
    if any(arr.shape[d] != 1 for d in dims):
        message = "removes dimensions of length 1"
        got, wanted = f"dimensions={dims} of shape {arr.shape}", "dimensions of length 1"
        raise ShapeError(message, got=got, wanted=wanted)
    out: BCOO = arr if not dims else _squeeze(arr, dimensions=tuple(sorted(dims)))
    return out


@jit(inline=True, static_argnames=("dimensions",))
def _squeeze(mat: BCOO, *, dimensions: tuple[int, ...]) -> BCOO:
    batch, sparse, dense = _kinds(mat, dimensions)
    kept = [i for i in range(mat.n_sparse) if i not in sparse]
    data, indices = mat.data, mat.indices
    if sparse:
        # Padding may be marked in a dimension that goes.
        shape = tuple(sparse_shape(mat)[i] for i in kept)
        outside = jnp.any(jnp.stack([indices[..., i] != 0 for i in sparse], -1), -1)
        left = jnp.stack([indices[..., i] for i in kept], -1) if kept else indices[..., :0]
        if kept:
            indices = jnp.where(outside[..., None], place_in(left, shape), left)
        else:
            indices = left
            mask = outside.reshape(*type_of(outside).shape, *[1] * mat.n_dense)
            data = jnp.where(mask, jnp.zeros_like(data), data)
    data = jnp.squeeze(data, (*batch, *(mat.n_batch + 1 + d for d in dense)))
    indices = jnp.squeeze(indices, tuple(batch))
    shape = tuple(n for d, n in enumerate(mat.shape) if d not in dimensions)
    return BCOO(
        (data, indices), shape=shape, indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )  # fmt: skip


@api_boundary
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """The BCOO in a larger shape: dimension `i` becomes `broadcast_dimensions[i]`, and is repeated
    if it has length 1; the others are new.

    New dimensions in front of the first sparse one are batch dimensions, those behind the first
    dense one dense, and all others sparse: their elements are stored as often as they occur.

    Args:
        broadcast_dimensions: For each dimension of the BCOO, in rising order, that of the result.

    >>> from weft.experimental import sparse
    >>> x = sparse.eye(2)
    >>> sparse.bcoo_broadcast_in_dim(x, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCOO(float32[3, 2, 2], nse=2, n_batch=1)
    """
    check_operand(mat)
    shape = tuple(map(operator.index, shape))
    dims = _index_set(broadcast_dimensions, mat.ndim)
    fits = list(dims) == sorted(set(dims)) and all(
        0 <= d < len(shape) and n in (1, shape[d]) for d, n in zip(dims, mat.shape, strict=False)
    )
    if not fits:
        message = "the shape of the BCOO does not fit the new one"
        got = f"shape {mat.shape}, broadcast_dimensions={dims}, new shape {shape}"
        wanted = "growing dimensions of the new shape, with the same lengths or 1"
        raise ShapeError(message, got=got, wanted=wanted)
    out: BCOO = _broadcast(mat, shape=shape, dims=dims)
    return out


@jit(inline=True, static_argnames=("shape", "dims"))
def _broadcast(mat: BCOO, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> BCOO:
    n, n_dense = mat.n_batch, mat.n_dense
    new_batch = dims[n] if len(dims) > n else len(shape)
    new_dense = len(shape) - dims[mat.ndim - n_dense] if n_dense else 0
    edge = len(shape) - new_dense
    # Buffers get dimensions of length 1, which batches leave and dense dimensions repeat.
    data_at = [
        (d, mat.shape[i]) for i, d in enumerate(dims[mat.ndim - n_dense :], mat.ndim - n_dense)
    ]
    dense = [1] * new_dense
    for d, length in data_at:
        dense[d - edge] = length

    def spread(x: Any) -> list[int]:
        batch = [1] * new_batch
        for i, d in enumerate(dims[:n]):
            batch[d] = type_of(x).shape[i]
        return batch

    data = mat.data.reshape(*spread(mat.data), mat.nse, *dense)
    data = jnp.broadcast_to(data, (*type_of(data).shape[: new_batch + 1], *shape[edge:]))
    indices = mat.indices.reshape(*spread(mat.indices), mat.nse, mat.n_sparse)
    old = {d - new_batch: i for i, d in enumerate(dims[n : n + mat.n_sparse])}
    wide = shape[new_batch:edge]

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        dtype = type_of(indices).dtype
        repeated = [
            i for i in range(len(wide)) if i not in old or sparse_shape(mat)[old[i]] != wide[i]
        ]
        grid = tuple(wide[i] for i in repeated)
        size = math.prod(grid)
        columns: list[Any] = []
        inner = jnp.unravel_index(jnp.arange(size, dtype="int32"), grid) if grid else ()
        outside = jnp.zeros(mat.nse * size, "bool")
        for i in range(len(wide)):
            if i in old:
                given = jnp.repeat(indices[:, old[i]], size, total_repeat_length=mat.nse * size)
            if i not in repeated:
                columns.append(given)
                continue
            if i in old:
                outside = outside | (given != 0)
            columns.append(jnp.tile(inner[repeated.index(i)].astype(dtype), mat.nse))
        where = jnp.stack(columns, -1) if columns else indices
        where = jnp.where(outside[:, None], place_in(where, wide), where) if columns else where
        return jnp.repeat(data, size, 0, total_repeat_length=mat.nse * size), where

    if mat.n_sparse != len(wide) or sparse_shape(mat) != wide:
        data, indices = over_batches(one, new_batch, data, indices)
    return BCOO((data, indices), shape=shape)


@api_boundary
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The BCOO with its elements in reverse order along some dimensions.

    Args:
        operand: The BCOO.
        dimensions: The dimensions to reverse.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_rev(sparse.eye(2), (0,)).todense()
    Array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    check_operand(operand)
    dims = canonical_axes(tuple(dimensions), operand.ndim)
    out: BCOO = _rev(operand, dimensions=dims)
    return out


@jit(inline=True, static_argnames=("dimensions",))
def _rev(mat: BCOO, *, dimensions: tuple[int, ...]) -> BCOO:
    batch, sparse, dense = _kinds(mat, dimensions)
    data = jnp.flip(mat.data, (*batch, *(mat.n_batch + 1 + d for d in dense)))
    indices = jnp.flip(mat.indices, tuple(batch))
    shape = sparse_shape(mat)
    for i in sparse:
        column = indices[..., i]
        # Padding stays padding.
        turned = jnp.where(column < shape[i], shape[i] - 1 - column, column)
        indices = indices.at[..., i].set(turned)
    return BCOO(
        (data, indices), shape=mat.shape, indices_sorted=mat.indices_sorted and not sparse,
        unique_indices=mat.unique_indices,
    )  # fmt: skip


# ---- parts ---------------------------------------------------------------------------------------


@api_boundary
def bcoo_slice(
    mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:  # fmt: skip
    """The elements from `start_indices` up to `limit_indices` in steps of `strides`.

    Along sparse dimensions elements outside become padding, and no more are stored than the result
    has.

    Args:
        start_indices: The first position, per dimension.
        limit_indices: The position behind the last, per dimension.
        strides: The step between positions, per dimension; None for 1.

    >>> from weft.experimental import sparse
    >>> x = sparse.eye(3)
    >>> sparse.bcoo_slice(x, start_indices=(1, 0), limit_indices=(3, 2)).todense()
    Array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    check_operand(mat)
    starts = _index_set(start_indices, mat.ndim)
    limits = _index_set(limit_indices, mat.ndim)
    steps = _index_set(strides or (1,) * mat.ndim, mat.ndim)
    each = zip(starts, limits, steps, mat.shape, strict=True)
    if not all(0 <= a <= b <= n and step > 0 for a, b, step, n in each):
        message = "the slice does not lie in the shape"
        got = f"{starts} to {limits} in steps of {steps}, shape {mat.shape}"
        raise WeftValueError(message, got=got, wanted="0 <= start <= limit <= length")
    out: BCOO = _slice(mat, starts=starts, limits=limits, steps=steps)
    return out


@jit(inline=True, static_argnames=("starts", "limits", "steps"))
def _slice(
    mat: BCOO, *, starts: tuple[int, ...], limits: tuple[int, ...], steps: tuple[int, ...]
) -> BCOO:
    n, edge = mat.n_batch, mat.n_batch + mat.n_sparse
    cuts = [slice(a, b, s) for a, b, s in zip(starts, limits, steps, strict=True)]

    def batches(x: Any) -> tuple[slice, ...]:
        lengths = type_of(x).shape[:n]
        return tuple(
            cut if length == mat.shape[i] else slice(None)
            for i, (cut, length) in enumerate(zip(cuts[:n], lengths, strict=True))
        )

    data = mat.data[(*batches(mat.data), slice(None), *cuts[edge:])]
    indices = mat.indices[batches(mat.indices)]
    shape = tuple(len(range(*c.indices(m))) for c, m in zip(cuts, mat.shape, strict=True))
    if all(cut == slice(0, m, 1) for cut, m in zip(cuts[n:edge], sparse_shape(mat), strict=True)):
        flags = {"indices_sorted": mat.indices_sorted, "unique_indices": mat.unique_indices}
        return BCOO((data, indices), shape=shape, **flags)

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        columns, inside = [], jnp.ones(mat.nse, "bool")
        for i, cut in enumerate(cuts[n:edge]):
            offset = indices[:, i] - cut.start
            inside = inside & (indices[:, i] >= cut.start) & (indices[:, i] < cut.stop)
            columns.append(offset // cut.step)
            if cut.step != 1:
                inside = inside & (offset % cut.step == 0)
        return _pad_outside(data, jnp.stack(columns, -1), inside, shape[n:edge], mat.unique_indices)

    return BCOO(over_batches(one, n, data, indices), shape=shape,
                unique_indices=mat.unique_indices)  # fmt: skip


def _pad_outside(
    data: Any, indices: Any, inside: Any, shape: tuple[int, ...], unique: bool
) -> tuple[Any, Any]:
    """Elements of one batch with outside ones as padding; fewer if the shape is small and indices
    are unique."""
    indices = jnp.where(inside[:, None], indices, place_in(indices, shape))
    nse, size = type_of(indices).shape[0], math.prod(shape)
    if not unique or size >= nse:
        return data, indices
    first = jnp.flatnonzero(inside, size=size, fill_value=nse)
    padding = jnp.broadcast_to(place_in(indices, shape), (size, len(shape)))
    rows = indices.at[first].get(mode="fill", fill_value=0)
    rows = jnp.where((first < nse)[:, None], rows, padding)
    return data.at[first].get(mode="fill", fill_value=0), rows


@api_boundary
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """The elements of a block of sizes `slice_sizes` from `start_indices` on, which may be traced.

    A start that would reach over the edge is moved back, as `weft.lax.dynamic_slice` does.

    Args:
        start_indices: The first position, per dimension; it may be traced.
        slice_sizes: The lengths of the block.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_operand(mat)
    sizes = _index_set(slice_sizes, mat.ndim)
    if len(start_indices) != mat.ndim or any(s > m for s, m in zip(sizes, mat.shape, strict=True)):
        message = "the block does not fit the shape"
        got = f"{len(start_indices)} starts, slice_sizes={sizes}, shape {mat.shape}"
        raise WeftValueError(message, got=got, wanted="a start and a size per dimension")
    out: BCOO = _dynamic_slice(mat, [jnp.asarray(x) for x in start_indices], sizes=sizes)
    return out


@jit(inline=True, static_argnames=("sizes",))
def _dynamic_slice(mat: BCOO, starts: Sequence[Any], *, sizes: tuple[int, ...]) -> BCOO:
    n, edge = mat.n_batch, mat.n_batch + mat.n_sparse
    clipped = [
        jnp.clip(jnp.where(s < 0, s + m, s), 0, m - size)
        for s, m, size in zip(starts, mat.shape, sizes, strict=True)
    ]

    def cut(x: Any, dims: Sequence[tuple[int, int]]) -> Any:
        for axis, d in dims:
            if type_of(x).shape[axis] == mat.shape[d] and sizes[d] != mat.shape[d]:
                steps = jnp.arange(sizes[d]) + clipped[d]
                x = jnp.take(x, steps, axis, mode="clip")
        return x

    batches = [(i, i) for i in range(n)]
    data = cut(mat.data, [*batches, *((d - mat.n_sparse + 1, d) for d in range(edge, mat.ndim))])
    indices = cut(mat.indices, batches)

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        columns, inside = [], jnp.ones(mat.nse, "bool")
        for i, d in enumerate(range(n, edge)):
            offset = indices[:, i] - clipped[d].astype(type_of(indices).dtype)
            inside = inside & (offset >= 0) & (offset < sizes[d])
            columns.append(offset)
        return _pad_outside(data, jnp.stack(columns, -1), inside, sizes[n:edge], mat.unique_indices)

    if sizes[n:edge] != sparse_shape(mat):
        data, indices = over_batches(one, n, data, indices)
    return BCOO((data, indices), shape=sizes, unique_indices=mat.unique_indices)


def bcoo_take(mat: BCOO, rows: Any) -> BCOO:
    """The parts of a BCOO at indices `rows` along its first dimension, which is a batch dimension
    of the result (one for each dimension of `rows`)."""
    out: BCOO = _take(mat, jnp.asarray(rows))
    return out


@jit(inline=True)
def _take(mat: BCOO, rows: Any) -> BCOO:
    count, outer = mat.shape[0], type_of(rows).shape
    rows = jnp.clip(jnp.where(rows < 0, rows + count, rows), 0, count - 1)
    shape = (*outer, *mat.shape[1:])
    if mat.n_batch:
        data, indices = (
            x[rows]
            if type_of(x).shape[0] == count
            else jnp.broadcast_to(x[0], (*outer, *type_of(x).shape[1:]))
            for x in (mat.data, mat.indices)
        )
        return BCOO((data, indices), shape=shape, indices_sorted=mat.indices_sorted,
                    unique_indices=mat.unique_indices)  # fmt: skip
    return _take(bcoo_update_layout(mat, n_batch=1, on_inefficient=None), rows)


@api_boundary
def bcoo_gather(
    operand: BCOO, start_indices: Any, dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int], *, unique_indices: bool = False, indices_are_sorted: bool = False,
    mode: Any = None, fill_value: Any = None,
) -> BCOO:  # fmt: skip
    """The gather of `weft.lax.gather` where it takes one block, or whole rows of the first
    dimension: with integers and arrays of integers as indices of `mat[...]`.

    Raises WeftNotImplementedError for other gathers.

    Args:
        start_indices: Where blocks begin, integers in the last dimension of this array.
        dimension_numbers: Which dimensions of operand, indices and result belong together.
        slice_sizes: The lengths of a block, per dimension.
        mode: Has no meaning: positions are kept in bounds.
        fill_value: Has no meaning: positions are kept in bounds.
    """
    check_operand(operand)
    dn, starts = dimension_numbers, jnp.asarray(start_indices)
    outer = type_of(starts).shape[:-1]
    sizes = tuple(map(operator.index, slice_sizes))
    batching = dn.operand_batching_dims or dn.start_indices_batching_dims
    if not batching and not outer:
        full: list[Any] = [0] * operand.ndim
        for place, d in enumerate(dn.start_index_map):
            full[d] = starts[place]
        block = bcoo_dynamic_slice(operand, full, sizes)
        return bcoo_squeeze(block, dimensions=dn.collapsed_slice_dims)
    whole = sizes == (1, *operand.shape[1:])
    rows_only = tuple(dn.start_index_map) == tuple(dn.collapsed_slice_dims) == (0,)
    last = tuple(range(len(outer), len(outer) + operand.ndim - 1))
    if not batching and whole and rows_only and tuple(dn.offset_dims) == last:
        return bcoo_take(operand, starts[..., 0])
    what = "a gather takes one block, or whole rows of the first dimension"
    raise unsupported(what, f"{dn}, slice_sizes={sizes}")


# ---- several, and sums ---------------------------------------------------------------------------


def common_layout(operands: Sequence[BCOO]) -> list[BCOO]:
    """BCOOs with equal numbers of batch and dense dimensions: the fewest of each."""
    n_batch = min(x.n_batch for x in operands)
    n_dense = min(x.n_dense for x in operands)
    return [bcoo_update_layout(x, n_batch=n_batch, n_dense=n_dense) for x in operands]


@api_boundary
def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Several BCOOs, one after the other along a dimension.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_concatenate([sparse.eye(2), sparse.eye(2)], dimension=0).shape
    (4, 2)
    """
    operands = list(operands)
    if not operands or not all(isinstance(x, BCOO) for x in operands):
        message = "takes BCOOs, at least one"
        got = f"{[type(x).__name__ for x in operands]}"
        raise WeftTypeError(message, got=got, wanted="a list of BCOOs")
    dim = canonical_axis(operator.index(dimension), operands[0].ndim)
    shapes = {(*x.shape[:dim], *x.shape[dim + 1 :]) for x in operands}
    if len(shapes) > 1 or len({x.ndim for x in operands}) > 1:
        message = "the shapes differ in other dimensions"
        got = f"shapes {[x.shape for x in operands]}, dimension={dimension}"
        raise ShapeError(message, got=got, wanted="shapes equal but for the dimension")
    dtype = jnp.result_type(*(x.data for x in operands))
    operands = common_layout(operands)
    first = operands[0]
    if dim >= first.n_batch + first.n_sparse:
        operands = [bcoo_update_layout(x, n_dense=first.ndim - dim - 1) for x in operands]
    out: BCOO = _concatenate(operands, dim=dim, dtype=dtype)
    return out


@jit(inline=True, static_argnames=("dim", "dtype"))
def _concatenate(operands: Sequence[BCOO], *, dim: int, dtype: Any) -> BCOO:
    first = operands[0]
    n = first.n_batch
    shape = (*first.shape[:dim], sum(x.shape[dim] for x in operands), *first.shape[dim + 1 :])
    if dim < n:
        nse = max(x.nse for x in operands)
        parts = [_lengthen(x, nse) for x in operands]
        data = jnp.concatenate([d.astype(dtype) for d, _ in parts], dim)
        return BCOO((data, jnp.concatenate([i for _, i in parts], dim)), shape=shape)
    batch = first.shape[:n]
    rows, start = [], 0
    inner = shape[n : n + first.n_sparse]
    for x in operands:
        indices = stored_indices(x)
        length = x.shape[dim]
        outside = jnp.any((indices < 0) | (indices >= place_in(indices, sparse_shape(x))), -1)
        moved = indices.at[..., dim - n].add(start) if start else indices
        rows.append(jnp.where(outside[..., None], place_in(indices, inner), moved))
        start += length
    data = jnp.concatenate([with_batches(x.data, batch).astype(dtype) for x in operands], n)
    in_order = dim == n and all(x.indices_sorted for x in operands[:1]) and len(operands) == 1
    unique = all(x.unique_indices for x in operands)
    return BCOO((data, jnp.concatenate(rows, n)), shape=shape, indices_sorted=in_order,
                unique_indices=unique)  # fmt: skip


def _lengthen(mat: BCOO, nse: int) -> tuple[Any, Any]:
    """Full buffers with `nse` elements, the last of them padding."""
    data, indices, n = stored_data(mat), stored_indices(mat), mat.n_batch
    more = nse - mat.nse
    if not more:
        return data, indices
    sizes = [(0, 0)] * type_of(data).ndim
    sizes[n] = (0, more)
    batch = mat.shape[:n]
    padding = jnp.broadcast_to(place_in(indices, sparse_shape(mat)), (*batch, more, mat.n_sparse))
    return jnp.pad(data, sizes), jnp.concatenate([indices, padding], n)


@api_boundary
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum along axes. Along sparse ones no element is added: the indices lose them.

    Args:
        axes: The axes that disappear.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_reduce_sum(sparse.eye(3), axes=(0,)).todense()
    Array([1., 1., 1.], dtype=float32)
    """
    check_operand(mat)
    dims = canonical_axes(tuple(axes), mat.ndim)
    out: BCOO = mat if not dims else _reduce_sum(mat, axes=tuple(sorted(dims)))
    return out


@jit(inline=True, static_argnames=("axes",))
def _reduce_sum(mat: BCOO, *, axes: tuple[int, ...]) -> BCOO:
    batch, sparse, dense = _kinds(mat, axes)
    n, dtype = mat.n_batch, type_of(mat.data).dtype
    data, indices = mat.data, mat.indices
    if dense:
        data = jnp.sum(data, tuple(n + 1 + d for d in dense), dtype=dtype)
    if sparse:
        kept = [i for i in range(mat.n_sparse) if i not in sparse]
        inner = tuple(sparse_shape(mat)[i] for i in kept)
        outside = jnp.any((indices < 0) | (indices >= place_in(indices, sparse_shape(mat))), -1)
        left = jnp.stack([indices[..., i] for i in kept], -1) if kept else indices[..., :0]
        indices = jnp.where(outside[..., None], place_in(left, inner), left) if kept else left
        if not kept:
            mask = outside.reshape(*type_of(outside).shape, *[1] * (type_of(data).ndim - n - 1))
            data = jnp.where(mask, jnp.zeros_like(data), data)
    if batch:
        data, indices = with_batches(data, mat.shape[:n]), with_batches(indices, mat.shape[:n])
        data, indices = _join_batches(data, batch, n), _join_batches(indices, batch, n)
    return BCOO((data, indices), shape=tuple(m for d, m in enumerate(mat.shape) if d not in axes))


def _join_batches(x: Any, batch: Sequence[int], n: int) -> Any:
    """A buffer with the elements of some batch dimensions in one list."""
    rest = [d for d in range(n) if d not in batch]
    shape = type_of(x).shape
    x = jnp.transpose(x, (*rest, *batch, *range(n, len(shape))))
    size = math.prod(shape[d] for d in batch) * shape[n]
    return x.reshape(*(shape[d] for d in rest), size, *shape[n + 1 :])
