"""Products of two `BCOO`s: which pairs of elements meet, and their products.

The right operand is sorted by what is contracted, so that the partners of an element on the left
are one range of it, which a binary search finds. The product of matrices lists the pairs that meet,
and no others: the expansion by prefix sums of N. Bell, S. Dalton and L. Olson, "Exposing
Fine-Grained Parallelism in Algebraic Multigrid Methods", SIAM J. Sci. Comput. 34 (2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.experimental.sparse.batches import over_batches, padded, place_in, positions, with_batches
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_shapes import (
    bcoo_broadcast_in_dim,
    bcoo_transpose,
    common_layout,
)
from weft.experimental.sparse.bcoo_storage import (
    accumulated,
    all_indices,
    bcoo_sum_duplicates,
    bcoo_update_layout,
    check_operand,
    sparse_shape,
)
from weft.kinds.compiled_functions import is_eager

# Up to so many pairs the number that is allocated does not depend on the values.
_ALWAYS = 2**16


@api_boundary
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two BCOOs, element by element, with dimensions of length 1 broadcast.

    As many elements are stored as the operand with fewer has. Raises ShapeError for shapes that do
    not fit.

    Args:
        lhs: The left BCOO.
        rhs: The right BCOO.

    >>> from weft.experimental import sparse
    >>> x = sparse.eye(2)
    >>> sparse.bcoo_multiply_sparse(x, x).data
    Array([1., 1.], dtype=float32)
    """
    check_operand(lhs)
    check_operand(rhs)
    lhs, rhs = _same_ndim(lhs, rhs)
    shape = tuple(b if a == 1 else a for a, b in zip(lhs.shape, rhs.shape, strict=True))
    fits = all({a, b} <= {1, c} for a, b, c in zip(lhs.shape, rhs.shape, shape, strict=True))
    if not fits:
        message = "the shapes do not broadcast"
        got = f"shapes {lhs.shape} and {rhs.shape}"
        raise ShapeError(message, got=got, wanted="lengths that are equal or 1")
    lhs, rhs = common_layout([lhs, rhs])
    full = [x for x in (lhs, rhs) if sparse_shape(x) == shape[x.n_batch : x.ndim - x.n_dense]]
    if not full:
        wide = (*lhs.shape[: lhs.n_batch], *shape[lhs.n_batch : lhs.ndim - lhs.n_dense],
                *lhs.shape[lhs.ndim - lhs.n_dense :])  # fmt: skip
        lhs = bcoo_broadcast_in_dim(lhs, shape=wide, broadcast_dimensions=range(lhs.ndim))
        full = [lhs]
    kept = min(full, key=lambda x: x.nse)
    other = rhs if kept is lhs else lhs
    if not other.unique_indices:
        other = bcoo_sum_duplicates(other, nse=other.nse)
    made: BCOO = _multiply(kept, other, shape=shape)
    return made


def _same_ndim(lhs: BCOO, rhs: BCOO) -> tuple[BCOO, BCOO]:
    """Both operands with equal ranks: adds leading dimensions to one."""
    ndim = max(lhs.ndim, rhs.ndim)

    def raised(x: BCOO) -> BCOO:
        more = ndim - x.ndim
        if not more:
            return x
        return bcoo_broadcast_in_dim(
            x, shape=(*[1] * more, *x.shape), broadcast_dimensions=range(more, ndim)
        )

    return raised(lhs), raised(rhs)


@jit(inline=True, static_argnames=("shape",))
def _multiply(kept: BCOO, other: BCOO, *, shape: tuple[int, ...]) -> BCOO:
    inner = sparse_shape(other)

    def one(data: Any, indices: Any, other_data: Any, other_indices: Any) -> Any:
        if inner:
            single = jnp.array([n == 1 for n in inner])
            wanted = jnp.where(single & ~padded(indices, sparse_shape(kept))[:, None], 0, indices)
            ours, theirs = positions(inner, wanted.astype(type_of(indices).dtype), other_indices)
            order = jnp.argsort(theirs)
            place = order.at[jnp.searchsorted(theirs[order], ours)].get(mode="clip")
            meets = (theirs[place] == ours) & ~padded(other_indices, inner)[place]
        else:
            place = jnp.zeros(kept.nse, "int32")
            meets = jnp.ones(kept.nse, "bool")
        found = other_data[place]
        meets = meets.reshape(-1, *[1] * (type_of(found).ndim - 1))
        return data * jnp.where(meets, found, jnp.zeros_like(found))

    if other.nse == 0 or kept.nse == 0:
        dense = shape[kept.ndim - kept.n_dense :]
        batch = type_of(kept.data).shape[: kept.n_batch]
        data = jnp.zeros((*batch, 0, *dense), jnp.result_type(kept.data, other.data))
        indices = kept.indices[..., :0, :]
        return BCOO((data, indices), shape=shape)
    n = kept.n_batch
    data = over_batches(one, n, kept.data, kept.indices, other.data, other.indices)
    return BCOO(
        (data, kept.indices), shape=shape, indices_sorted=kept.indices_sorted,
        unique_indices=kept.unique_indices,
    )  # fmt: skip


# ---- the product of matrices ---------------------------------------------------------------------


def bcoo_spdot_general(lhs: BCOO, rhs: BCOO, *, dims: Any, preferred: Any = None) -> BCOO:
    """The product of two BCOOs as a BCOO; `dims` are `DotDimensions`. It stores as many elements as
    pairs can meet, or the whole result if that is less; eagerly and for large operands, as many as
    do meet, rounded up."""
    dtype = preferred or jnp.result_type(lhs.data, rhs.data)
    batched = all(d < lhs.n_batch for d in dims.lhs_batch)
    batched = batched and all(d < rhs.n_batch for d in dims.rhs_batch)
    lhs = _arrange(lhs, dims.lhs_batch, dims.lhs_contract, batched)
    rhs = _arrange(rhs, dims.rhs_batch, dims.rhs_contract, batched)
    n = len(dims.lhs_batch) if batched else 0
    shared = len(dims.lhs_batch) - n
    match = shared + len(dims.lhs_contract)
    if not rhs.unique_indices:
        rhs = bcoo_sum_duplicates(rhs, nse=rhs.nse)
    if not lhs.unique_indices:
        lhs = bcoo_sum_duplicates(lhs, nse=lhs.nse)
    left, right = sparse_shape(lhs)[match:], sparse_shape(rhs)[match:]
    most = min(lhs.nse * min(rhs.nse, math.prod(right)), rhs.nse * min(lhs.nse, math.prod(left)))
    size = math.prod((*sparse_shape(lhs)[:shared], *left, *right))
    if most > _ALWAYS and is_eager():
        count = int(_count_pairs(lhs, rhs, match=match))
        most = min(most, max(1, 1 << (count - 1).bit_length()) if count else 0)
    out: BCOO = _spdot(
        lhs, rhs, match=match, shared=shared, pairs=most, whole=size <= most, dtype=dtype
    )
    assert out.n_batch == n
    return out


def _arrange(mat: BCOO, batch: Sequence[int], contract: Sequence[int], batched: bool) -> BCOO:
    """A BCOO with the batch dimensions first, then the contracted and the free ones, which are
    sparse; the batch ones too unless `batched`."""
    free = [i for i in range(mat.ndim) if i not in batch and i not in contract]
    if not batched:
        mat = bcoo_update_layout(mat, n_batch=0, n_dense=0)
        return bcoo_transpose(mat, permutation=(*batch, *contract, *free))
    others = [i for i in range(mat.n_batch) if i not in batch]
    rest = list(range(mat.n_batch, mat.ndim))
    moved = bcoo_transpose(mat, permutation=(*batch, *others, *rest))
    moved = bcoo_update_layout(moved, n_batch=len(batch), n_dense=0)
    now = [*batch, *others, *rest]
    return bcoo_transpose(moved, permutation=[now.index(i) for i in (*batch, *contract, *free)])


def _ranges(lhs: BCOO, rhs: BCOO, match: int, left: Any, right: Any) -> tuple[Any, Any, Any]:
    """For one batch the order of the elements on the right, and for each element on the left the
    first of its partners in that order and their number."""
    shape = sparse_shape(lhs)[:match]
    outside = padded(right, sparse_shape(rhs))
    right = jnp.where(outside[:, None], place_in(right[:, :match], shape), right[:, :match])
    ours, theirs = positions(shape, left[:, :match], right)
    order = jnp.argsort(theirs)
    ranked = theirs[order]
    first = jnp.searchsorted(ranked, ours, side="left")
    count = jnp.searchsorted(ranked, ours, side="right") - first
    if not match:
        count = jnp.full_like(count, 1) * (rhs.nse - jnp.sum(outside, dtype=type_of(count).dtype))
        order = jnp.argsort(outside)
    return order, first, jnp.where(padded(left, sparse_shape(lhs)), 0, count)


@jit(static_argnames=("match",))
def _count_pairs(lhs: BCOO, rhs: BCOO, *, match: int) -> Any:
    def one(left: Any, right: Any) -> Any:
        return jnp.sum(_ranges(lhs, rhs, match, left, right)[2])

    return jnp.max(over_batches(one, lhs.n_batch, lhs.indices, rhs.indices), initial=0)


@jit(inline=True, static_argnames=("match", "shared", "pairs", "whole", "dtype"))
def _spdot(
    lhs: BCOO, rhs: BCOO, *, match: int, shared: int, pairs: int, whole: bool, dtype: Any
) -> BCOO:
    n = lhs.n_batch
    batch = lhs.shape[:n]
    inner = (*sparse_shape(lhs)[:shared], *sparse_shape(lhs)[match:], *sparse_shape(rhs)[match:])
    index_dtype = jnp.result_type(lhs.indices, rhs.indices)

    def listed(left: Any, right: Any) -> tuple[Any, Any, Any]:
        """The pairs that meet, and the indices of their products."""
        order, first, count = _ranges(lhs, rhs, match, left, right)
        ends = jnp.cumsum(count)
        slot = jnp.arange(pairs, dtype=type_of(ends).dtype)
        i = jnp.minimum(jnp.searchsorted(ends, slot, side="right"), lhs.nse - 1)
        j = order.at[first[i] + slot - (ends - count)[i]].get(mode="clip")
        parts = [left[i, :shared], left[i, match:], right[j, match:]]
        where = jnp.concatenate([x.astype(index_dtype) for x in parts], 1)
        real = slot < ends[-1]
        if inner:
            where = jnp.where(real[:, None], where, place_in(where, inner))
        return i, j, (where, real)

    if not pairs:
        data = jnp.zeros((*batch, 0), dtype)
        return BCOO((data, jnp.zeros((*batch, 0, len(inner)), index_dtype)), shape=(*batch, *inner))
    i, j, (where, real) = over_batches(listed, n, lhs.indices, rhs.indices)

    def product(x: Any, y: Any, i: Any, j: Any, real: Any) -> Any:
        out = x[i].astype(dtype) * y[j].astype(dtype)
        return jnp.where(real, out, jnp.zeros_like(out))

    data = over_batches(product, n, lhs.data, rhs.data, i, j, real)
    if not whole:
        return BCOO((data, where), shape=(*batch, *inner))
    # The result has fewer elements than pairs meet: all of them are stored.
    sums = over_batches(lambda x, w: accumulated(x, w, inner).reshape(-1), n, data, where)
    grid = all_indices(inner, index_dtype).reshape(*[1] * n, math.prod(inner), len(inner))
    sums = with_batches(sums, batch)
    return BCOO((sums, grid), shape=(*batch, *inner), indices_sorted=True, unique_indices=True)
