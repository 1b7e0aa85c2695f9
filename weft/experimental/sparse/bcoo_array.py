"""`BCOO`: batched coordinates, the general sparse format.

Of the dimensions of the array the first `n_batch` are batch dimensions, the last `n_dense` dense
ones, and those between are sparse: `indices`, of shape `(*batch, nse, n_sparse)`, says where along
these the `nse` elements of each batch stand, and `data`, of shape `(*batch, nse, *dense)`, what
they are. A batch dimension of either that has length 1 is repeated. An element whose index lies
outside of the shape is padding and counts for nothing; elements with equal indices are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from weft.core.operators import let_reflect
from weft.core.types import type_of
from weft.errors import ShapeError, api_boundary
from weft.experimental.sparse.base import JAXSparse, SparseInfo, map_over_batches, methods
from weft.numpy.creation import asarray
from weft.tree import register_class
from weft.typing import Array


class BCOOProperties(NamedTuple):
    """The kinds of dimensions that buffers have, and the number of elements."""

    n_batch: int
    n_sparse: int
    n_dense: int
    nse: int


def is_buffer(value: Any) -> bool:
    """Whether a value is an array, and not a marker in a tree."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def buffers_of(args: Sequence[Any]) -> list[Any]:
    """The buffers as arrays; markers in a tree stay as they are."""
    return [asarray(x) if isinstance(x, (list, tuple)) or is_numpy(x) else x for x in args]


def is_numpy(value: Any) -> bool:
    """Whether a value is a NumPy array."""
    return type(value).__module__ == "numpy" and hasattr(value, "__array__")


def bcoo_properties(data: Any, indices: Any, shape: Sequence[int]) -> BCOOProperties:
    """The properties from the shapes of the buffers. Raises ShapeError if they do not fit."""
    data_shape, index_shape = type_of(data).shape, type_of(indices).shape
    n_batch, n_sparse = len(index_shape) - 2, index_shape[-1] if index_shape else 0
    n_dense = len(shape) - n_batch - n_sparse
    nse = index_shape[-2] if n_batch >= 0 else 0
    batch = tuple(shape[: max(n_batch, 0)])
    fits = (
        n_batch >= 0
        and n_dense >= 0
        and len(data_shape) == n_batch + 1 + n_dense
        and data_shape[n_batch] == nse
        and all(a in (1, b) for a, b in zip(index_shape, batch, strict=False))
        and all(a in (1, b) for a, b in zip(data_shape, batch, strict=False))
        and data_shape[n_batch + 1 :] == tuple(shape[n_batch + n_sparse :])
    )
    if not fits:
        message = "the shapes of data and indices do not fit the shape of the array"
        got = f"data {data_shape}, indices {index_shape}, shape={tuple(shape)}"
        wanted = "data (*batch, nse, *dense) and indices (*batch, nse, n_sparse)"
        raise ShapeError(message, got=got, wanted=wanted)
    return BCOOProperties(n_batch, n_sparse, n_dense, nse)


@register_class
class BCOO(JAXSparse):
    """A sparse array as batched coordinates: see `weft.experimental.sparse.bcoo_array`.

    `data` is `(*batch, nse, *dense)` of any dtype, `indices` `(*batch, nse, n_sparse)` of integers.
    `indices_sorted` and `unique_indices` are promises about the indices of each batch. Its methods
    raise the same errors as the functions of their names (`bcoo_sum_duplicates`, …).

    Args:
        args: The buffers `data` and `indices`.
        indices_sorted: Whether the caller promises that the indices of each batch are in order.
        unique_indices: Whether the caller promises that no index occurs twice in a batch.

    >>> from weft.experimental import sparse
    >>> x = sparse.BCOO((jnp.array([1.0, 2.0]), jnp.array([[0, 1], [1, 0]])), shape=(2, 3))
    >>> x
    BCOO(float32[2, 3], nse=2)
    >>> x @ jnp.ones(3)
    Array([1., 2.], dtype=float32)
    """

    indices: Array
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
        self.data, self.indices = buffers_of(args)
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)
        if is_buffer(self.data) and is_buffer(self.indices):
            bcoo_properties(self.data, self.indices, self.shape)

    nse = property(lambda self: type_of(self.indices).shape[-2])
    n_batch = property(lambda self: type_of(self.indices).ndim - 2)
    n_sparse = property(lambda self: type_of(self.indices).shape[-1])
    n_dense = property(lambda self: type_of(self.data).ndim - 1 - self.n_batch)
    _info = property(lambda self: SparseInfo(self.shape, self.indices_sorted, self.unique_indices))
    _bufs = property(lambda self: (self.data, self.indices))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.data, self.indices), self._info

    @classmethod
    def tree_unflatten(cls, aux_data: Any, children: Sequence[Any]) -> Self:
        out = object.__new__(cls)
        out.data, out.indices = children
        out.shape, out.indices_sorted, out.unique_indices = aux_data
        return out

    @classmethod
    def fromdense(
        cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32", n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:  # fmt: skip
        """The nonzero elements of a dense array: `bcoo_fromdense`."""
        out: BCOO = methods.bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )
        return out

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The elements of a sparse matrix of SciPy's. Raises WeftNotImplementedError for batch and
        dense dimensions, which such a matrix does not have."""
        out: BCOO = methods.bcoo_from_scipy(mat, index_dtype, n_batch, n_dense)
        return out

    @classmethod
    def _empty(cls, shape: Sequence[int], **options: Any) -> BCOO:
        out: BCOO = methods.bcoo_empty(shape, **options)
        return out

    @classmethod
    def _eye(cls, N: int, M: int, k: int, **options: Any) -> BCOO:
        out: BCOO = methods.bcoo_eye(N, M, k, **options)
        return out

    def todense(self) -> Array:
        """The dense array."""
        dense: Array = methods.bcoo_todense(self)
        return dense

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The array with its axes permuted, batch, sparse and dense ones among themselves."""
        out: BCOO = methods.bcoo_transpose(self, permutation=axes)
        return out

    def reshape(self, *shape: Any, **options: Any) -> BCOO:
        """The array in another shape, as `ndarray.reshape`; see `bcoo_reshape`."""
        out: BCOO = methods.reshape(self, *shape, **options)
        return out

    def astype(self, dtype: Any) -> BCOO:
        """The array with its elements converted."""
        out: BCOO = methods.astype(self, dtype)
        return out

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None,
        on_inefficient: str | None = "error",
    ) -> BCOO:  # fmt: skip
        """The array with other numbers of batch and dense dimensions: `bcoo_update_layout`."""
        out: BCOO = methods.bcoo_update_layout(
            self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient
        )
        return out

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The array with elements of equal indices added, and its indices sorted."""
        function = methods.bcoo_eliminate_zeros if remove_zeros else methods.bcoo_sum_duplicates
        out: BCOO = function(self, nse=nse)
        return out

    def sort_indices(self) -> BCOO:
        """The array with the elements of each batch in the order of their indices."""
        out: BCOO = methods.bcoo_sort_indices(self)
        return out


let_reflect(BCOO)
map_over_batches(BCOO)
