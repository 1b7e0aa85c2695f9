"""`BCSR`: batched compressed rows, for one or more matrices with sparse rows.

The first `n_batch` dimensions are batch dimensions, then come the rows and the columns, which are
sparse, and `n_dense` dense dimensions. `data` is `(*batch, nse, *dense)`, `indices` `(*batch, nse)`
says in which column each element stands, and row `i` of a batch has the elements from `indptr[i]`
up to `indptr[i + 1]`, of `indptr`, `(*batch, rows + 1)`. Elements behind the last row are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from weft.core.operators import let_reflect
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.experimental.sparse.base import (
    JAXSparse,
    SparseInfo,
    map_over_batches,
    methods,
    unsupported,
)
from weft.experimental.sparse.bcoo_array import BCOO, buffers_of, is_buffer
from weft.tree import register_class
from weft.typing import Array


class BCSRProperties(NamedTuple):
    """The kinds of dimensions that buffers have, and the number of elements."""

    n_batch: int
    n_dense: int
    nse: int


def bcsr_properties(data: Any, indices: Any, indptr: Any, shape: Sequence[int]) -> BCSRProperties:
    """The properties from the shapes of the buffers. Raises ShapeError if they do not fit."""
    shapes = [type_of(x).shape for x in (data, indices, indptr)]
    n_batch = len(shapes[1]) - 1
    n_dense = len(shape) - n_batch - 2
    batch = tuple(shape[: max(n_batch, 0)])
    fits = n_batch >= 0 and n_dense >= 0 and len(shapes[0]) == n_batch + 1 + n_dense
    fits = fits and len(shapes[2]) == n_batch + 1 and shapes[2][-1] == shape[n_batch] + 1
    fits = fits and shapes[0][n_batch] == shapes[1][-1]
    fits = fits and shapes[0][n_batch + 1 :] == tuple(shape[n_batch + 2 :])
    fits = fits and all(a in (1, b) for s in shapes for a, b in zip(s, batch, strict=False))
    if not fits:
        message = "the shapes of data, indices and indptr do not fit the shape of the array"
        got = f"data {shapes[0]}, indices {shapes[1]}, indptr {shapes[2]}, shape={tuple(shape)}"
        wanted = "data (*batch, nse, *dense), indices (*batch, nse), indptr (*batch, rows + 1)"
        raise ShapeError(message, got=got, wanted=wanted)
    return BCSRProperties(n_batch, n_dense, shapes[1][-1])


@register_class
class BCSR(JAXSparse):
    """A sparse array as batched compressed rows: see `weft.experimental.sparse.bcsr_array`.

    `indices_sorted` and `unique_indices` are promises about the columns in each row.

    Args:
        args: The buffers `data`, `indices` and `indptr`.
        indices_sorted: Whether the caller promises that the columns of each row are in order.
        unique_indices: Whether the caller promises that no column occurs twice in a row.

    >>> from weft.experimental import sparse
    >>> x = sparse.BCSR.fromdense(jnp.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> x.indptr
    Array([0, 1, 3], dtype=int32)
    >>> x @ jnp.ones(2)
    Array([1., 5.], dtype=float32)
    """

    indices: Array
    indptr: Array
    indices_sorted: bool
    unique_indices: bool

    @api_boundary
    def __init__(
        self,
        args: Sequence[Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)
        self.data, self.indices, self.indptr = buffers_of(args)
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)
        if all(map(is_buffer, self._bufs)):
            bcsr_properties(self.data, self.indices, self.indptr, self.shape)

    nse = property(lambda self: type_of(self.indices).shape[-1])
    n_batch = property(lambda self: type_of(self.indices).ndim - 1)
    n_sparse = property(lambda self: 2)
    n_dense = property(lambda self: type_of(self.data).ndim - 1 - self.n_batch)
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices, self.indptr))
    _sparse_shape = property(lambda self: self.shape[self.n_batch : self.n_batch + 2])

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return self._bufs, self._info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        out = object.__new__(cls)
        out.data, out.indices, out.indptr = children
        out.shape, out.indices_sorted, out.unique_indices = aux_data
        return out

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32", n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:  # fmt: skip
        """The nonzero elements of a dense array: `bcsr_fromdense`."""
        out: BCSR = methods.bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )
        return out

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The elements of a sparse matrix of SciPy's. Raises WeftNotImplementedError for batch and
        dense dimensions, which such a matrix does not have."""
        out: BCSR = methods.bcsr_from_scipy(mat, index_dtype, n_batch, n_dense)
        return out

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The BCSR of a BCOO with two sparse dimensions; its elements are sorted."""
        out: BCSR = methods.bcsr_from_bcoo(arr)
        return out

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> BCSR:
        out: BCSR = methods.bcsr_empty(shape, **options)
        return out

    def to_bcoo(self) -> BCOO:
        """The BCOO with the same elements."""
        out: BCOO = methods.bcsr_to_bcoo(self)
        return out

    def todense(self) -> Array:
        """The dense array."""
        dense: Array = methods.bcsr_todense(self)
        return dense

    @api_boundary
    def transpose(self, axes: Sequence[int] | None = None) -> BCSR:
        """The array with rows and columns exchanged, by way of a BCOO."""
        out = self.to_bcoo().transpose(axes)
        if out.n_sparse != 2:
            raise unsupported("the result has no rows and columns", f"{self!r}")
        return BCSR.from_bcoo(out)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The array with elements of equal indices added, and columns sorted in each row."""
        function = methods.bcsr_eliminate_zeros if remove_zeros else methods.bcsr_sum_duplicates
        out: BCSR = function(self, nse=nse)
        return out


let_reflect(BCSR)
map_over_batches(BCSR)
