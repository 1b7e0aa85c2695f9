"""From dense arrays to `BCOO` and back; the order, the number and the layout of what is stored."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import WeftTypeError, WeftValueError, api_boundary
from weft.experimental.sparse.base import (
    SparseEfficiencyError,
    SparseEfficiencyWarning,
    unsupported,
)
from weft.experimental.sparse.batches import (
    over_batches,
    padded,
    place_in,
    sort_order,
    with_batches,
)
from weft.experimental.sparse.bcoo_array import BCOO
from weft.typing import Array


def check_operand(value: Any) -> None:
    """Raises WeftTypeError for an operand that is not a BCOO."""
    if not isinstance(value, BCOO):
        raise WeftTypeError("takes a BCOO", got=f"a {type(value).__name__}", wanted="a BCOO")


def sparse_shape(mat: BCOO) -> tuple[int, ...]:
    """The lengths of the sparse dimensions."""
    return mat.shape[mat.n_batch : mat.n_batch + mat.n_sparse]


# ---- dense arrays --------------------------------------------------------------------------------


@api_boundary
def bcoo_todense(mat: BCOO) -> Array:
    """The dense array of a BCOO; elements with equal indices are added.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_operand(mat)
    dense: Array = _todense(mat)
    return dense


@jit(inline=True)
def _todense(mat: BCOO) -> Any:
    shape, n_batch = sparse_shape(mat), mat.n_batch

    def one(data: Any, indices: Any) -> Any:
        return accumulated(data, indices, shape, mat.indices_sorted, mat.unique_indices)

    return with_batches(over_batches(one, n_batch, mat.data, mat.indices), mat.shape[:n_batch])


def accumulated(
    data: Any, indices: Any, shape: Sequence[int], ordered: bool = False, unique: bool = False
) -> Any:
    """The sums of rows of `data` at their indices, as an array that starts with `shape`."""
    kind = type_of(data)
    boolean = kind.dtype == np.bool_
    if not shape:
        return jnp.any(data, 0) if boolean else jnp.sum(data, 0, dtype=kind.dtype)
    if 0 in (*shape, *kind.shape):
        return jnp.zeros((*shape, *kind.shape[1:]), kind.dtype)
    at = jnp.zeros((*shape, *kind.shape[1:]), kind.dtype).at[
        tuple(indices[:, i] for i in range(len(shape)))
    ]
    put = at.max if boolean else at.add
    # Padding has equal indices, so elements are unique among those inside of the shape only.
    return put(data, mode="drop", indices_are_sorted=ordered, wrap_negative_indices=False)


@api_boundary
def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
    index_dtype: Any = "int32",
) -> BCOO:  # fmt: skip
    """The nonzero elements of a dense array as a BCOO.

    `nse` elements are stored for each batch, in the order of their indices: missing elements are
    padding, and further elements are left out. Without `nse` there are as many as the fullest batch
    has, which must be known: raises ConcretizationError inside `jit` and `vmap`.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).indices
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    _check_dimensions(type_of(mat).ndim, n_batch, n_dense)
    if nse is None:
        nse = known_count(count_stored(mat, n_batch=n_batch, n_dense=n_dense))
    data, indices = _fromdense(
        mat, nse=int(nse), n_batch=int(n_batch), n_dense=int(n_dense),
        index_dtype=np.dtype(index_dtype),
    )  # fmt: skip
    return BCOO((data, indices), shape=type_of(mat).shape, indices_sorted=True, unique_indices=True)


def known_count(count: Any) -> int:
    """A computed number of elements. Under a transformation the error of `int()` asks for `nse`."""
    try:
        return int(count)
    except TypeError as error:
        error.add_note("pass nse=, the number of elements to store, where the values are traced")
        raise


def _check_dimensions(ndim: int, n_batch: int, n_dense: int) -> None:
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > ndim:
        message = "n_batch and n_dense are counts of dimensions of the array"
        got = f"n_batch={n_batch}, n_dense={n_dense}, {ndim} dimensions"
        wanted = f"numbers of 0 or more, {ndim} together at most"
        raise WeftValueError(message, got=got, wanted=wanted)


def _is_nonzero(mat: Any, n_dense: int) -> Any:
    """Which elements (or dense blocks) are not zero."""
    ndim = type_of(mat).ndim
    return jnp.any(mat != 0, tuple(range(ndim - n_dense, ndim)))


@jit(inline=True, static_argnames=("n_batch", "n_dense"))
def count_stored(mat: Any, *, n_batch: int, n_dense: int) -> Any:
    """The number of nonzero elements of the fullest batch."""
    mask = _is_nonzero(mat, n_dense)
    counts = jnp.sum(mask, tuple(range(n_batch, type_of(mask).ndim)), dtype="int32")
    return jnp.max(counts, initial=0)


@jit(inline=True, static_argnames=("nse", "n_batch", "n_dense", "index_dtype"))
def _fromdense(
    mat: Any, *, nse: int, n_batch: int, n_dense: int, index_dtype: np.dtype[Any]
) -> tuple[Any, Any]:
    shape = type_of(mat).shape
    sparse = shape[n_batch : len(shape) - n_dense]

    def one(mask: Any) -> Any:
        size = math.prod(sparse)
        if not sparse:
            return jnp.zeros((nse, 0), index_dtype)
        found = jnp.flatnonzero(mask, size=nse, fill_value=size)
        columns = jnp.unravel_index(jnp.minimum(found, max(size - 1, 0)), sparse)
        where = jnp.stack([c.astype(index_dtype) for c in columns], -1)
        return jnp.where((found < size)[:, None], where, place_in(where, sparse))

    indices = over_batches(one, n_batch, _is_nonzero(mat, n_dense))
    return over_batches(lambda m, i: extracted(m, i, sparse), n_batch, mat, indices), indices


def extracted(mat: Any, indices: Any, shape: Sequence[int]) -> Any:
    """The rows of one batch of a dense array at `indices`; zeros for padding."""
    if 0 in shape:
        kind = type_of(mat)
        return jnp.zeros((type_of(indices).shape[0], *kind.shape[len(shape) :]), kind.dtype)
    if not shape:
        nse = type_of(indices).shape[0]
        kept = jnp.broadcast_to(mat, (min(nse, 1), *type_of(mat).shape))
        return jnp.pad(kept, [(0, nse - min(nse, 1)), *[(0, 0)] * type_of(mat).ndim])
    at = mat.at[tuple(indices[:, i] for i in range(len(shape)))]
    return at.get(mode="fill", fill_value=0, wrap_negative_indices=False)


@api_boundary
def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array at the indices of a BCOO, with the structure of the latter.

    Where several elements have one index, the first gets the value and the others zero, so that
    the sum is right; `assume_unique` says that there are none, as `unique_indices` does.

    Args:
        sparr: The BCOO that says where elements are.
        arr: The dense array, of the same shape.
        assume_unique: Whether no index occurs twice; None for what the BCOO promises.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_extract(sparse.eye(2), jnp.arange(4.0).reshape(2, 2)).data
    Array([0., 3.], dtype=float32)
    """
    check_operand(sparr)
    arr = jnp.asarray(arr)
    if type_of(arr).shape != sparr.shape:
        message = "the array has not the shape of the BCOO"
        got, wanted = f"shape {type_of(arr).shape}", f"shape {sparr.shape}"
        raise WeftValueError(message, got=got, wanted=wanted)
    unique = sparr.unique_indices if assume_unique is None else bool(assume_unique)
    out: BCOO = _extract(sparr, arr, unique=unique)
    return out


@jit(inline=True, static_argnames=("unique",))
def _extract(sparr: BCOO, arr: Any, *, unique: bool) -> BCOO:
    shape = sparse_shape(sparr)

    def one(mat: Any, indices: Any) -> Any:
        data = extracted(mat, indices, shape)
        if unique or not shape:
            return data
        order = sort_order(indices, shape)
        first = jnp.zeros(sparr.nse, "bool").at[order].set(_is_new(indices[order]))
        return jnp.where(first.reshape(sparr.nse, *[1] * sparr.n_dense), data, jnp.zeros_like(data))

    data = over_batches(one, sparr.n_batch, arr, sparr.indices)
    return BCOO.tree_unflatten(sparr._info, (data, sparr.indices))


def _is_new(indices: Any) -> Any:
    """Which rows of sorted indices differ from the one before."""
    differs = jnp.any(indices[1:] != indices[:-1], -1)
    nse = type_of(indices).shape[0]
    return jnp.concatenate([jnp.ones(min(nse, 1), "bool"), differs])


# ---- order and number ----------------------------------------------------------------------------


@api_boundary
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The BCOO with the elements of each batch in the order of their indices, padding last.

    >>> from weft.experimental import sparse
    >>> x = sparse.BCOO((jnp.array([1.0, 2.0]), jnp.array([[1], [0]])), shape=(2,))
    >>> sparse.bcoo_sort_indices(x).data
    Array([2., 1.], dtype=float32)
    """
    check_operand(mat)
    out: BCOO = mat if mat.indices_sorted else _sort(mat)
    return out


def ordered(mat: BCOO) -> tuple[Any, Any]:
    """Data and indices of a BCOO in the order of the indices."""
    shape, n_batch = sparse_shape(mat), mat.n_batch
    if mat.indices_sorted or not shape:
        return mat.data, mat.indices
    order = over_batches(lambda i: sort_order(i, shape), n_batch, mat.indices)
    rows = [over_batches(lambda x, o: x[o], n_batch, x, order) for x in (mat.data, mat.indices)]
    return rows[0], rows[1]


@jit(inline=True)
def _sort(mat: BCOO) -> BCOO:
    return BCOO(
        ordered(mat), shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices
    )


@api_boundary
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The BCOO with elements of equal indices added, and its indices sorted.

    `nse` elements are kept for each batch: missing elements are padding, and further elements are
    left out. Without `nse` there are as many as are needed, which must be known: raises
    WeftValueError inside `jit` and `vmap`.

    >>> from weft.experimental import sparse
    >>> x = sparse.eye(2)
    >>> sparse.bcoo_sum_duplicates(x + x).data
    Array([2., 2.], dtype=float32)
    """
    check_operand(mat)
    if mat.indices_sorted and mat.unique_indices and nse in (None, mat.nse):
        return mat
    return _sum_duplicates(mat, nse, remove_zeros=False)


@api_boundary
def bcoo_eliminate_zeros(mat: BCOO, nse: int | None = None) -> BCOO:
    """`bcoo_sum_duplicates` of the elements that are not zero."""
    check_operand(mat)
    return _sum_duplicates(mat, nse, remove_zeros=True)


def _sum_duplicates(mat: BCOO, nse: int | None, remove_zeros: bool) -> BCOO:
    if nse is None:
        count = _count_unique(mat, remove_zeros=remove_zeros)
        try:
            nse = int(count)
        except TypeError as error:
            message = "nse must be given where the indices are traced"
            got, wanted = repr(mat), "nse=, the number of elements to keep"
            raise WeftValueError(message, got=got, wanted=wanted) from error
    out: BCOO = _sum(mat, nse=int(nse), remove_zeros=remove_zeros)
    return out


def _sort_for_sums(mat: BCOO, remove_zeros: bool) -> tuple[Any, Any, Any]:
    """Data and indices in order, and which elements are the first of their index."""
    shape, n_batch = sparse_shape(mat), mat.n_batch
    if remove_zeros:
        mat = _zeros_as_padding(mat)
    data, indices = ordered(mat)

    def one(i: Any) -> Any:
        return _is_new(i) & ~padded(i, shape)

    return data, indices, over_batches(one, n_batch, indices)


def _zeros_as_padding(mat: BCOO) -> BCOO:
    shape = sparse_shape(mat)

    def one(data: Any, indices: Any) -> Any:
        zero = ~_is_nonzero(data, mat.n_dense)
        return jnp.where(zero[:, None], place_in(indices, shape), indices)

    indices = over_batches(one, mat.n_batch, mat.data, mat.indices)
    return BCOO((mat.data, indices), shape=mat.shape)


@jit(inline=True, static_argnames=("remove_zeros",))
def _count_unique(mat: BCOO, *, remove_zeros: bool) -> Any:
    _, _, first = _sort_for_sums(mat, remove_zeros)
    return jnp.max(jnp.sum(first, -1, dtype="int32"), initial=0)


@jit(inline=True, static_argnames=("nse", "remove_zeros"))
def _sum(mat: BCOO, *, nse: int, remove_zeros: bool) -> BCOO:
    shape = sparse_shape(mat)
    data, indices, first = _sort_for_sums(mat, remove_zeros)

    def place(i: Any, new: Any) -> Any:
        """The number of each element's index among the different ones; padding has none."""
        return jnp.where(padded(i, shape), nse, jnp.cumsum(new, dtype="int32") - 1)

    def kept(i: Any, where: Any) -> Any:
        empty = jnp.broadcast_to(place_in(i, shape), (nse, len(shape)))
        if 0 in (nse, mat.nse, len(shape)):
            return empty
        return empty.at[where].set(i, mode="drop")

    where = over_batches(place, mat.n_batch, indices, first)
    sums = over_batches(lambda x, w: accumulated(x, w[:, None], (nse,)), mat.n_batch, data, where)
    found = over_batches(kept, mat.n_batch, indices, where)
    return BCOO((sums, found), shape=mat.shape, indices_sorted=True, unique_indices=True)


# ---- layout --------------------------------------------------------------------------------------


@api_boundary
def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
    on_inefficient: str | None = "error",
) -> BCOO:  # fmt: skip
    """The same array with other numbers of batch and dense dimensions.

    Fewer of them cost nothing but indices. More of them store every element in each new batch or
    block, almost all as padding or zero: `on_inefficient` says whether to raise
    SparseEfficiencyError ("error"), to warn ("warn"), or to do it (None).

    Args:
        n_batch: How many dimensions are batch dimensions; None for as many as there are.
        n_dense: How many dimensions are dense; None for as many as there are.

    >>> from weft.experimental import sparse
    >>> x = sparse.bcoo_fromdense(jnp.eye(3), n_batch=1)
    >>> sparse.bcoo_update_layout(x, n_batch=0)
    BCOO(float32[3, 3], nse=3)
    """
    check_operand(mat)
    n_batch = mat.n_batch if n_batch is None else int(n_batch)
    n_dense = mat.n_dense if n_dense is None else int(n_dense)
    _check_dimensions(mat.ndim, n_batch, n_dense)
    if (n_batch, n_dense) == (mat.n_batch, mat.n_dense):
        return mat
    for name, old, new in (("n_batch", mat.n_batch, n_batch), ("n_dense", mat.n_dense, n_dense)):
        if new > old:
            _inefficient(f"raising {name} of a BCOO of shape {mat.shape} from {old} to {new} "
                         "stores every element many times", on_inefficient)  # fmt: skip
    out: BCOO = _update_layout(mat, n_batch=n_batch, n_dense=n_dense)
    return out


def _inefficient(what: str, on_inefficient: str | None) -> None:
    if on_inefficient == "error":
        raise SparseEfficiencyError(
            f"bcoo_update_layout: {what}; on_inefficient=None does it, 'warn' with a warning"
        )
    if on_inefficient == "warn":
        warnings.warn(f"bcoo_update_layout: {what}", SparseEfficiencyWarning, stacklevel=4)
    elif on_inefficient is not None:
        message = "on_inefficient says what to do about much padding"
        got = f"on_inefficient={on_inefficient!r}"
        raise WeftValueError(message, got=got, wanted="'error', 'warn' or None")


@jit(inline=True, static_argnames=("n_batch", "n_dense"))
def _update_layout(mat: BCOO, *, n_batch: int, n_dense: int) -> BCOO:
    # Sparse dimensions are made first, so that batch dimensions can become dense ones.
    if n_dense < mat.n_dense:
        mat = _dense_to_sparse(mat, mat.n_dense - n_dense)
    if n_batch < mat.n_batch:
        mat = _batch_to_sparse(mat, mat.n_batch - n_batch)
    if n_dense > mat.n_dense:
        mat = _sparse_to_dense(mat, n_dense - mat.n_dense)
    if n_batch > mat.n_batch:
        mat = _sparse_to_batch(mat, n_batch - mat.n_batch)
    return mat


def all_indices(shape: Sequence[int], dtype: Any) -> Any:
    """All indices of a shape, as rows."""
    size = math.prod(shape)
    if not shape:
        return jnp.zeros((1, 0), dtype)
    columns = jnp.unravel_index(jnp.arange(size, dtype="int32"), tuple(shape))
    return jnp.stack([c.astype(dtype) for c in columns], -1)


def _dense_to_sparse(mat: BCOO, count: int) -> BCOO:
    """Makes the first `count` dense dimensions sparse: splits blocks into elements."""
    start = mat.ndim - mat.n_dense
    block = mat.shape[start : start + count]
    size = math.prod(block)

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        nse, rest = mat.nse, mat.shape[start + count :]
        rows = jnp.repeat(indices, size, 0, total_repeat_length=nse * size)
        inner = jnp.tile(all_indices(block, type_of(indices).dtype), (nse, 1))
        return data.reshape(nse * size, *rest), jnp.concatenate([rows, inner], 1)

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)


def _batch_to_sparse(mat: BCOO, count: int) -> BCOO:
    """Makes the last `count` batch dimensions sparse: joins their lists of elements."""
    left = mat.n_batch - count
    batch = mat.shape[left : mat.n_batch]
    data = with_batches(mat.data, mat.shape[: mat.n_batch])
    indices = with_batches(mat.indices, mat.shape[: mat.n_batch])
    size = math.prod(batch)

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        rows = indices.reshape(size * mat.nse, mat.n_sparse)
        grid = all_indices(batch, type_of(indices).dtype)
        outer = jnp.repeat(grid, mat.nse, 0, total_repeat_length=size * mat.nse)
        # The padding of a batch stays padding, whatever the sparse dimensions.
        elements = data.reshape(size * mat.nse, *type_of(data).shape[count + 1 :])
        if mat.n_sparse == 0:
            return elements, outer
        return elements, jnp.concatenate([outer, rows], 1)

    return BCOO(over_batches(one, left, data, indices), shape=mat.shape)


def _sparse_to_dense(mat: BCOO, count: int) -> BCOO:
    """Makes the last `count` sparse dimensions dense: puts each element into a block of zeros."""
    left = mat.n_sparse - count
    start = mat.n_batch + left
    block = mat.shape[start : start + count]

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        columns = [jnp.arange(mat.nse), *(indices[:, left + i] for i in range(count))]
        kind = type_of(data)
        put = jnp.zeros((mat.nse, *block, *kind.shape[1:]), kind.dtype).at[tuple(columns)].set
        return put(data, mode="drop", wrap_negative_indices=False), indices[:, :left]

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)


def _sparse_to_batch(mat: BCOO, count: int) -> BCOO:
    """Makes the first `count` sparse dimensions batches that each hold all elements, with those of
    other batches as padding (zero without sparse dimensions)."""
    batch = mat.shape[mat.n_batch : mat.n_batch + count]
    rest = sparse_shape(mat)[count:]

    def one(data: Any, indices: Any) -> tuple[Any, Any]:
        grid = all_indices(batch, type_of(indices).dtype)
        here = jnp.all(indices[None, :, :count] == grid[:, None], -1)
        if rest:
            inner = jnp.where(here[..., None], indices[None, :, count:], place_in(indices, rest))
            shared = data.reshape(*[1] * count, *type_of(data).shape)
            return shared, inner.reshape(*batch, mat.nse, len(rest))
        mask = here.reshape(*type_of(here).shape, *[1] * mat.n_dense)
        values = jnp.where(mask, data[None], jnp.zeros_like(data[None]))
        empty = jnp.zeros((*[1] * count, mat.nse, 0), type_of(indices).dtype)
        return values.reshape(*batch, *type_of(data).shape), empty

    return BCOO(over_batches(one, mat.n_batch, mat.data, mat.indices), shape=mat.shape)


def stored_data(mat: BCOO) -> Any:
    """The data with its batch dimensions in full."""
    return with_batches(mat.data, mat.shape[: mat.n_batch])


def stored_indices(mat: BCOO) -> Any:
    """The indices with their batch dimensions in full."""
    return with_batches(mat.indices, mat.shape[: mat.n_batch])


# ---- other sources -------------------------------------------------------------------------------


@api_boundary("from_scipy_sparse")
def bcoo_from_scipy(mat: Any, index_dtype: Any, n_batch: int, n_dense: int) -> BCOO:
    """A BCOO with the elements of a sparse matrix of SciPy's."""
    if n_batch or n_dense:
        what = "a matrix of SciPy's has no batch and no dense dimensions"
        raise unsupported(what, f"n_batch={n_batch}, n_dense={n_dense}")
    mat = mat.tocoo()
    indices = np.column_stack((mat.row, mat.col)).astype(index_dtype or "int32")
    return BCOO((jnp.asarray(mat.data), jnp.asarray(indices)), shape=mat.shape)


def bcoo_empty(
    shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32", n_dense: int = 0,
    n_batch: int = 0, nse: int = 0,
) -> BCOO:  # fmt: skip
    """A BCOO that stores zeros alone, as padding."""
    shape = tuple(map(int, shape))
    _check_dimensions(len(shape), n_batch, n_dense)
    batch, dense = shape[:n_batch], shape[len(shape) - n_dense :]
    inner = shape[n_batch : len(shape) - n_dense]
    data = jnp.zeros((*batch, nse, *dense), dtype)
    indices = jnp.broadcast_to(jnp.array(inner, index_dtype), (*batch, nse, len(inner)))
    return BCOO((data, indices), shape=shape, indices_sorted=True, unique_indices=True)


def bcoo_eye(
    N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32", n_batch: int = 0,
    n_dense: int = 0,
) -> BCOO:  # fmt: skip
    """A BCOO with ones on the k-th diagonal."""
    _check_dimensions(2, n_batch, n_dense)
    first = max(0, -k)
    count = max(0, min(N - first, M - max(0, k)))
    if n_batch + n_dense == 2:
        return bcoo_fromdense(jnp.eye(N, M, k, dtype), nse=1, n_batch=n_batch, n_dense=n_dense)
    rows = np.arange(first, first + count)
    if n_batch:  # one element in each row, where it has one
        inside = np.arange(N) + k
        column = np.where((inside >= 0) & (inside < M), inside, M)
        data = jnp.asarray((column < M)[:, None], dtype or "float32")
        return BCOO(
            (data, jnp.asarray(column[:, None, None].astype(index_dtype))), shape=(N, M),
            indices_sorted=True, unique_indices=True,
        )  # fmt: skip
    if n_dense:
        return bcoo_fromdense(
            jnp.eye(N, M, k, dtype), nse=count, n_dense=1, index_dtype=index_dtype
        )
    indices = np.column_stack([rows, rows + k]).astype(index_dtype)
    data = jnp.ones(count, dtype)
    return BCOO(
        (data, jnp.asarray(indices)), shape=(N, M), indices_sorted=True, unique_indices=True
    )
