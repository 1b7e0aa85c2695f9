"""The operations of `BCSR`, by way of coordinates: the row of an element is found from `indptr`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import WeftTypeError, api_boundary
from weft.experimental.sparse.base import JAXSparse, unsupported
from weft.experimental.sparse.batches import over_batches
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_products import bcoo_dot_general
from weft.experimental.sparse.bcoo_shapes import bcoo_broadcast_in_dim, bcoo_concatenate
from weft.experimental.sparse.bcoo_storage import (
    bcoo_eliminate_zeros,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    extracted,
    sparse_shape,
)
from weft.experimental.sparse.bcsr_array import BCSR
from weft.typing import Array


def _check(value: Any) -> None:
    if not isinstance(value, BCSR):
        raise WeftTypeError("takes a BCSR", got=f"a {type(value).__name__}", wanted="a BCSR")


def element_rows(indptr: Any, nse: int) -> Any:
    """The row of each element of one batch; that of padding is the number of rows."""
    places = jnp.arange(nse, dtype=type_of(indptr).dtype)
    return jnp.searchsorted(indptr[1:], places, side="right").astype(type_of(indptr).dtype)


@api_boundary
def bcsr_to_bcoo(mat: BCSR) -> BCOO:
    """The BCOO with the elements of a BCSR."""
    _check(mat)
    out: BCOO = _to_bcoo(mat)
    return out


@jit(inline=True)
def _to_bcoo(mat: BCSR) -> BCOO:
    def one(indices: Any, indptr: Any) -> Any:
        rows = element_rows(indptr, mat.nse).astype(type_of(indices).dtype)
        return jnp.stack([rows, indices], -1)

    where = over_batches(one, mat.n_batch, mat.indices, mat.indptr)
    return BCOO.tree_unflatten(mat._info, (mat.data, where))


@api_boundary("from_bcoo")
def bcsr_from_bcoo(arr: BCOO) -> BCSR:
    """The BCSR of a BCOO with two sparse dimensions. Raises WeftNotImplementedError for other
    numbers of them."""
    if not isinstance(arr, BCOO) or arr.n_sparse != 2:
        what = "a BCSR is made of a BCOO with two sparse dimensions"
        raise unsupported(what, repr(arr)[:100])
    out: BCSR = _from_bcoo(bcoo_sort_indices(arr))
    return out


@jit(inline=True)
def _from_bcoo(mat: BCOO) -> BCSR:
    rows, columns = sparse_shape(mat)

    def one(indices: Any) -> tuple[Any, Any]:
        # In order: padding stands last, though it may be marked by its column alone.
        outside = (indices[:, 0] >= rows) | (indices[:, 1] >= columns)
        row = jnp.where(outside, rows, indices[:, 0])
        edges = jnp.arange(rows + 1, dtype=type_of(indices).dtype)
        pointers = jnp.searchsorted(row, edges, side="left").astype(type_of(indices).dtype)
        return jnp.where(outside, columns, indices[:, 1]), pointers

    indices, indptr = over_batches(one, mat.n_batch, mat.indices)
    return BCSR(
        (mat.data, indices, indptr), shape=mat.shape, indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )  # fmt: skip


@api_boundary
def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCSR:  # fmt: skip
    """The nonzero elements of a dense array as a BCSR; arguments as in `bcoo_fromdense`.

    Args:
        nse: How many elements are stored for each batch; None for as many as the fullest has.

    >>> from weft.experimental import sparse
    >>> sparse.bcsr_fromdense(jnp.eye(2)).indices
    Array([0, 1], dtype=int32)
    """
    options = {"nse": nse, "n_batch": n_batch, "n_dense": n_dense, "index_dtype": index_dtype}
    return bcsr_from_bcoo(bcoo_fromdense(mat, **options))


@api_boundary
def bcsr_todense(mat: BCSR) -> Array:
    """The dense array of a BCSR.

    >>> from weft.experimental import sparse
    >>> sparse.bcsr_todense(sparse.bcsr_fromdense(jnp.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return bcoo_todense(bcsr_to_bcoo(mat))


@api_boundary
def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Array:
    """The elements of a dense array at the places of a BCSR; zeros for padding.

    indices: integers (*batch, nse); indptr: integers (*batch, rows + 1); mat: (*batch, rows,
    columns, *dense).
    """
    indices, indptr, mat = jnp.asarray(indices), jnp.asarray(indptr), jnp.asarray(mat)
    data: Array = _extract(indices, indptr, mat)
    return data


@jit(inline=True)
def _extract(indices: Any, indptr: Any, mat: Any) -> Any:
    n, nse = type_of(indices).ndim - 1, type_of(indices).shape[-1]

    def one(mat: Any, indices: Any, indptr: Any) -> Any:
        rows = element_rows(indptr, nse).astype(type_of(indices).dtype)
        return extracted(mat, jnp.stack([rows, indices], -1), type_of(mat).shape[:2])

    return over_batches(one, n, mat, indices, indptr)


@api_boundary
def bcsr_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """The product of `weft.lax.dot_general` where one operand is a BCSR and the other dense.

    >>> from weft.experimental import sparse
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> x = sparse.bcsr_fromdense(jnp.eye(2))
    >>> sparse.bcsr_dot_general(x, jnp.ones(2), dimension_numbers=numbers)
    Array([1., 1.], dtype=float32)
    """
    if isinstance(lhs, JAXSparse) and isinstance(rhs, JAXSparse):
        raise unsupported("one operand is dense", f"{lhs!r} and {rhs!r}")
    given = [x.to_bcoo() if isinstance(x, BCSR) else x for x in (lhs, rhs)]
    dense: Array = bcoo_dot_general(
        *given, dimension_numbers=dimension_numbers, precision=precision,
        preferred_element_type=preferred_element_type, out_sharding=out_sharding,
    )  # fmt: skip
    return dense


@api_boundary
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The BCSR in a larger shape, as `bcoo_broadcast_in_dim`.

    Args:
        broadcast_dimensions: For each dimension of the BCSR, in rising order, that of the result.
    """
    _check(mat)
    wide = bcoo_broadcast_in_dim(
        bcsr_to_bcoo(mat), shape=shape, broadcast_dimensions=broadcast_dimensions
    )
    return bcsr_from_bcoo(wide)


@api_boundary
def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Several BCSRs, one after the other along a dimension."""
    for x in operands:
        _check(x)
    return bcsr_from_bcoo(
        bcoo_concatenate([bcsr_to_bcoo(x) for x in operands], dimension=dimension)
    )


@api_boundary
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The BCSR with elements of equal indices added, as `bcoo_sum_duplicates`.

    Args:
        nse: How many elements are kept for each batch; None for as many as are needed.
    """
    _check(mat)
    return bcsr_from_bcoo(bcoo_sum_duplicates(bcsr_to_bcoo(mat), nse=nse))


@api_boundary
def bcsr_eliminate_zeros(mat: BCSR, nse: int | None = None) -> BCSR:
    """`bcsr_sum_duplicates` of the elements that are not zero."""
    _check(mat)
    return bcsr_from_bcoo(bcoo_eliminate_zeros(bcsr_to_bcoo(mat), nse=nse))


@api_boundary("from_scipy_sparse")
def bcsr_from_scipy(mat: Any, index_dtype: Any, n_batch: int, n_dense: int) -> BCSR:
    """A BCSR with the elements of a sparse matrix of SciPy's."""
    if n_batch or n_dense:
        what = "a matrix of SciPy's has no batch and no dense dimensions"
        raise unsupported(what, f"n_batch={n_batch}, n_dense={n_dense}")
    mat = mat.tocsr()
    integers = [np.asarray(x).astype(index_dtype or "int32") for x in (mat.indices, mat.indptr)]
    return BCSR([jnp.asarray(x) for x in (mat.data, *integers)], shape=mat.shape)


def bcsr_empty(
    shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32", n_dense: int = 0,
    n_batch: int = 0, nse: int = 0,
) -> BCSR:  # fmt: skip
    """A BCSR that stores nothing, or `nse` elements of padding."""
    shape = tuple(map(int, shape))
    if len(shape) != n_batch + 2 + n_dense:
        what = "a BCSR has two sparse dimensions"
        raise unsupported(what, f"shape={shape}, n_batch={n_batch}, n_dense={n_dense}")
    batch, dense = shape[:n_batch], shape[n_batch + 2 :]
    data = jnp.zeros((*batch, nse, *dense), dtype)
    indices = jnp.full((*batch, nse), shape[n_batch + 1], index_dtype)
    indptr = jnp.zeros((*batch, shape[n_batch] + 1), index_dtype)
    return BCSR((data, indices, indptr), shape=shape, indices_sorted=True, unique_indices=True)
