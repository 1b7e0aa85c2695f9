"""`COO`, `CSR` and `CSC`: single sparse matrices, as coordinates, compressed rows and columns.

They have products with dense operands and little else; `BCOO` and `BCSR` do what they do and more.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.operators import let_reflect
from weft.core.types import type_of
from weft.errors import ShapeError, WeftValueError, api_boundary
from weft.experimental.sparse.base import JAXSparse, unsupported
from weft.experimental.sparse.batches import sort_order
from weft.experimental.sparse.bcoo_array import buffers_of
from weft.experimental.sparse.bcoo_storage import accumulated, count_stored, extracted, known_count
from weft.experimental.sparse.bcsr_operations import element_rows
from weft.tree import register_class
from weft.typing import Array


class COOInfo(NamedTuple):
    """The static properties of a COO."""

    shape: tuple[int, ...]
    rows_sorted: bool = False
    cols_sorted: bool = False


class _Matrix(JAXSparse):
    """A sparse matrix of three buffers: data and two lists of integers."""

    @property
    def nse(self) -> int:
        return type_of(self.data).shape[0]

    @abc.abstractmethod
    def coordinates(self) -> tuple[Any, Any]:
        """The row and the column of each element."""

    def todense(self) -> Array:
        """The dense matrix."""
        dense: Array = _todense(self)
        return dense


def _check_axes(axes: Sequence[int] | None) -> None:
    if axes is not None and tuple(axes) != (1, 0):
        message = "a matrix has its two axes exchanged"
        got, wanted = f"axes={axes!r}", "axes=(1, 0), or None"
        raise WeftValueError(message, got=got, wanted=wanted)


@register_class
class COO(_Matrix):
    """A sparse matrix as coordinates: element `data[i]` is in row `row[i]`, column `col[i]`.

    Args:
        args: The buffers `data`, `row` and `col`.
        rows_sorted: Whether the caller promises that elements are in the order of rows.
        cols_sorted: Whether the caller promises that elements are in the order of columns.

    >>> from weft.experimental import sparse
    >>> sparse.COO.fromdense(jnp.eye(2)) @ jnp.ones(2)
    Array([1., 1.], dtype=float32)
    """

    row: Array
    col: Array

    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)
        self.data, self.row, self.col = buffers_of(args)
        self._rows_sorted, self._cols_sorted = bool(rows_sorted), bool(cols_sorted)

    _info = property(lambda self: COOInfo(self.shape, self._rows_sorted, self._cols_sorted))
    _bufs = property(lambda self: (self.data, self.row, self.col))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._bufs, self._info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        out = object.__new__(cls)
        out.data, out.row, out.col = children
        out.shape, out._rows_sorted, out._cols_sorted = aux_data
        return out

    def coordinates(self) -> tuple[Any, Any]:
        return self.row, self.col

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
        """The nonzero elements of a dense matrix: `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        _check_matrix(tuple(shape))
        none = jnp.zeros(0, index_dtype)
        return cls((jnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        first = max(0, -k)
        rows = np.arange(first, max(first, min(N, M - k)), dtype=index_dtype)
        buffers = jnp.ones(len(rows), dtype), jnp.asarray(rows), jnp.asarray(rows + k)
        return cls(buffers, shape=(N, M), rows_sorted=True, cols_sorted=True)

    @api_boundary
    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The transposed matrix, of the same buffers."""
        _check_axes(axes)
        return COO(
            (self.data, self.col, self.row), shape=self.shape[::-1],
            rows_sorted=self._cols_sorted, cols_sorted=self._rows_sorted,
        )  # fmt: skip

    def _sort_indices(self) -> COO:
        """The matrix with its elements in the order of rows, then of columns."""
        if self._rows_sorted:
            return self
        order = sort_order(jnp.stack([self.row, self.col], -1), self.shape)
        rows, columns = self.row[order], self.col[order]
        return COO((self.data[order], rows, columns), shape=self.shape, rows_sorted=True)


class _Compressed(_Matrix):
    """A matrix with compressed rows or columns."""

    indices: Array
    indptr: Array

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)
        self.data, self.indices, self.indptr = buffers_of(args)

    _bufs = property(lambda self: (self.data, self.indices, self.indptr))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._bufs, self.shape

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        out = object.__new__(cls)
        out.data, out.indices, out.indptr = children
        out.shape = aux_data
        return out

    def outer(self) -> Any:
        """The row (of CSR) or column (of CSC) of each element."""
        return element_rows(self.indptr, self.nse).astype(type_of(self.indices).dtype)

    @classmethod
    def from_parts(
        cls, data: Any, outer: Any, inner: Any, shape: Sequence[int], lines: int
    ) -> Self:
        """The matrix of elements that are sorted by `outer`."""
        edges = jnp.arange(lines + 1, dtype=type_of(inner).dtype)
        indptr = jnp.searchsorted(outer, edges, side="left").astype(type_of(inner).dtype)
        return cls((data, inner, indptr), shape=shape)


@register_class
class CSR(_Compressed):
    """A sparse matrix as compressed rows: row `i` has the elements `indptr[i]` to `indptr[i + 1]`
    of `data`, in the columns that `indices` says.

    Args:
        args: The buffers `data`, `indices` and `indptr`.

    >>> from weft.experimental import sparse
    >>> sparse.CSR.fromdense(jnp.eye(2)).indptr
    Array([0, 1, 2], dtype=int32)
    """

    def coordinates(self) -> tuple[Any, Any]:
        return self.outer(), self.indices

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
        """The nonzero elements of a dense matrix: `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        _check_matrix(tuple(shape))
        pointers = jnp.zeros(shape[0] + 1, index_dtype)
        return cls((jnp.zeros(0, dtype), jnp.zeros(0, index_dtype), pointers), shape=shape)

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        made = COO._eye(N, M, k, dtype=dtype, index_dtype=index_dtype)
        return cls.from_parts(made.data, made.row, made.col, (N, M), N)

    @api_boundary
    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """The transposed matrix, of the same buffers."""
        _check_axes(axes)
        return CSC(self._bufs, shape=self.shape[::-1])


@register_class
class CSC(_Compressed):
    """A sparse matrix as compressed columns: column `i` has the elements `indptr[i]` to
    `indptr[i + 1]` of `data`, in the rows that `indices` says.

    Args:
        args: The buffers `data`, `indices` and `indptr`.

    >>> from weft.experimental import sparse
    >>> sparse.CSC.fromdense(jnp.array([[0.0, 1.0], [2.0, 0.0]])).data
    Array([2., 1.], dtype=float32)
    """

    def coordinates(self) -> tuple[Any, Any]:
        return self.indices, self.outer()

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSC:
        """The nonzero elements of a dense matrix, as many and in the form of `csr_fromdense`."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @classmethod
    def _empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        _check_matrix(tuple(shape))
        return CSR._empty(tuple(shape)[::-1], dtype=dtype, index_dtype=index_dtype).transpose()

    @classmethod
    def _eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        return CSR._eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).transpose()

    @api_boundary
    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """The transposed matrix, of the same buffers."""
        _check_axes(axes)
        return CSR(self._bufs, shape=self.shape[::-1])


for _class in (COO, CSR, CSC):
    let_reflect(_class)


def _check_matrix(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        message, got = "COO, CSR and CSC have two dimensions", f"shape {shape}"
        raise ShapeError(message, got=got, wanted="two dimensions")


@jit(inline=True)
def _todense(mat: _Matrix) -> Any:
    rows, columns = mat.coordinates()
    return accumulated(mat.data, jnp.stack([rows, columns], -1), mat.shape)


def _elements(mat: Any, nse: int | None, index_dtype: Any) -> tuple[Any, ...]:
    mat = jnp.asarray(mat)
    _check_matrix(type_of(mat).shape)
    if nse is None:
        nse = known_count(count_stored(mat, n_batch=0, n_dense=0))
    out: tuple[Any, ...] = _list_elements(mat, nse=int(nse), index_dtype=np.dtype(index_dtype))
    return out


@jit(inline=True, static_argnames=("nse", "index_dtype"))
def _list_elements(mat: Any, *, nse: int, index_dtype: Any) -> tuple[Any, ...]:
    shape = type_of(mat).shape
    rows, columns = jnp.nonzero(mat != 0, size=nse, fill_value=shape)
    rows, columns = rows.astype(index_dtype), columns.astype(index_dtype)
    return extracted(mat, jnp.stack([rows, columns], -1), shape), rows, columns


@api_boundary
def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
    """The nonzero elements of a dense matrix as a COO, in the order of their indices.

    nse: how many elements to store, the rest being padding; by default the actual number, if the
    matrix is known.

    >>> from weft.experimental import sparse
    >>> sparse.coo_fromdense(jnp.eye(2)).row
    Array([0, 1], dtype=int32)
    """
    mat = jnp.asarray(mat)
    return COO(_elements(mat, nse, index_dtype), shape=type_of(mat).shape,
               rows_sorted=True)  # fmt: skip


@api_boundary
def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
    """The nonzero elements of a dense matrix as a CSR; `nse` as in `coo_fromdense`.

    Args:
        nse: How many elements to store, the rest being padding; None for the actual number.

    >>> from weft.experimental import sparse
    >>> sparse.csr_fromdense(jnp.eye(2)).indices
    Array([0, 1], dtype=int32)
    """
    mat = jnp.asarray(mat)
    data, rows, columns = _elements(mat, nse, index_dtype)
    shape = type_of(mat).shape
    return CSR.from_parts(data, rows, columns, shape, shape[0])


@api_boundary
def coo_todense(mat: COO) -> Array:
    """The dense matrix of a COO."""
    return mat.todense()


@api_boundary
def csr_todense(mat: CSR) -> Array:
    """The dense matrix of a CSR."""
    return mat.todense()


# ---- products ------------------------------------------------------------------------------------


@jit(inline=True, static_argnames=("transpose",))
def _times(mat: _Matrix, dense: Any, *, transpose: bool) -> Any:
    """`mat @ dense`, or `mat.T @ dense`."""
    to, of = mat.coordinates()[::-1] if transpose else mat.coordinates()
    lengths = mat.shape[::-1] if transpose else mat.shape
    rows = extracted(dense, of[:, None], lengths[1:])
    scale = mat.data.reshape(-1, *[1] * (type_of(dense).ndim - 1))
    return accumulated(scale * rows, to[:, None], lengths[:1])


def _product(mat: Any, dense: Any, transpose: bool, ndim: int) -> Array:
    dense = jnp.asarray(dense)
    shape = type_of(dense).shape
    if len(shape) != ndim or shape[0] != mat.shape[0 if transpose else 1]:
        message = "the operands do not fit"
        got = f"shapes {mat.shape}{' transposed' if transpose else ''} and {shape}"
        wanted = f"{ndim} dimensions, the first as long as a row of the matrix"
        raise ShapeError(message, got=got, wanted=wanted)
    out: Array = _times(mat, dense, transpose=bool(transpose))
    return out


@api_boundary
def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Array:
    """The product of a COO (or its transpose) and a vector.

    >>> from weft.experimental import sparse
    >>> sparse.coo_matvec(sparse.coo_fromdense(jnp.eye(2)), jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return _product(mat, v, transpose, 1)


@api_boundary
def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Array:
    """The product of a COO (or its transpose) and a dense matrix."""
    return _product(mat, B, transpose, 2)


@api_boundary
def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Array:
    """The product of a CSR (or its transpose) and a vector.

    >>> from weft.experimental import sparse
    >>> sparse.csr_matvec(sparse.csr_fromdense(jnp.eye(2)), jnp.ones(2))
    Array([1., 1.], dtype=float32)
    """
    return _product(mat, v, transpose, 1)


@api_boundary
def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Array:
    """The product of a CSR (or its transpose) and a dense matrix."""
    return _product(mat, B, transpose, 2)


@api_boundary("matmul")
def matrix_product(x: Any, y: Any) -> Array:
    """The product of a COO, CSR or CSC with a dense vector or matrix on either side."""
    if isinstance(x, JAXSparse) and isinstance(y, JAXSparse):
        what = "COO, CSR and CSC have products with dense operands; BCOO has sparse ones too"
        raise unsupported(what, f"{x!r} and {y!r}")
    if isinstance(x, JAXSparse):
        return _product(x, y, False, min(type_of(jnp.asarray(y)).ndim, 2))
    x = jnp.asarray(x)
    return _product(y, x.T, True, min(type_of(x).ndim, 2)).T
