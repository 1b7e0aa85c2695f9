"""The operators of sparse arrays, for sparse and dense operands on either side."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft.core.types import type_of
from weft.errors import ShapeError, WeftIndexError, WeftTypeError, api_boundary
from weft.experimental.sparse.base import JAXSparse, unsupported
from weft.experimental.sparse.batches import over_batches, padded
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_pairs import bcoo_multiply_sparse
from weft.experimental.sparse.bcoo_products import bcoo_dot_general, bcoo_multiply_dense
from weft.experimental.sparse.bcoo_shapes import (
    bcoo_broadcast_in_dim,
    bcoo_dynamic_slice,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_take,
    common_layout,
)
from weft.experimental.sparse.bcoo_storage import (
    bcoo_sum_duplicates,
    bcoo_todense,
    sparse_shape,
    stored_data,
    stored_indices,
)
from weft.experimental.sparse.bcsr_array import BCSR
from weft.experimental.sparse.bcsr_operations import bcsr_dot_general
from weft.experimental.sparse.single_matrices import COO, CSC, CSR, matrix_product
from weft.kinds.checks import axes_of


def _data_only(x: Any, function: Callable[[Any], Any]) -> Any:
    """A sparse array of the same structure with `function` applied to its data."""
    if not isinstance(x, JAXSparse):
        raise WeftTypeError("takes a sparse array", got=repr(x)[:100])
    (data, *rest), aux = x.tree_flatten()
    return type(x).tree_unflatten(aux, (function(data), *rest))


def linear(x: Any, function: Callable[[Any], Any]) -> Any:
    """A linear function of each element."""
    return _data_only(x, function)


def elementwise(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function of each element that keeps zero: elements of equal indices are added first."""
    if isinstance(x, BCOO) and not x.unique_indices:
        x = bcoo_sum_duplicates(x, nse=x.nse)
    elif isinstance(x, BCSR) and not x.unique_indices:
        x = x.sum_duplicates(nse=x.nse, remove_zeros=False)
    return _data_only(x, function)


@api_boundary("neg")
def negative(x: Any) -> Any:
    """The sparse array of negated elements."""
    return linear(x, lambda data: -data)


@api_boundary("abs")
def absolute(x: Any) -> Any:
    """The sparse array of absolute values."""
    return elementwise(x, jnp.abs)


@api_boundary
def astype(x: Any, dtype: Any) -> Any:
    """The sparse array with its elements converted."""
    return elementwise(x, lambda data: data.astype(dtype))


@api_boundary("pow")
def power(x: Any, exponent: Any) -> Any:
    """The sparse array of powers with an integer exponent of 1 or more; zero stays zero."""
    whole = isinstance(exponent, int) or type(exponent).__module__ == "numpy"
    if not whole or isinstance(exponent, bool) or exponent != int(exponent) or exponent < 1:
        what = "a power of zeros is dense unless its exponent is an integer of 1 or more"
        raise unsupported(what, f"{exponent!r}"[:80])
    return elementwise(x, lambda data: data ** int(exponent))


@api_boundary("mul")
def multiply(x: Any, y: Any) -> Any:
    """The product, element by element: sparse as soon as one operand is."""
    if isinstance(x, BCSR) or isinstance(y, BCSR):
        return _by_coordinates(multiply, x, y)
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return bcoo_multiply_sparse(x, y)
    sparse, dense = _sparse_and_dense(x, y)
    if type_of(dense).shape == ():
        return linear(sparse, lambda data: data * dense)
    return _scale(sparse, dense, bcoo_multiply_dense)


def _sparse_and_dense(x: Any, y: Any) -> tuple[Any, Any]:
    """The sparse operand and the dense one."""
    if isinstance(x, JAXSparse) and isinstance(y, JAXSparse):
        raise unsupported("both sparse operands are BCOOs or BCSRs", f"{x!r} and {y!r}")
    sparse, dense = (x, y) if isinstance(x, JAXSparse) else (y, x)
    return sparse, jnp.asarray(dense)


def _scale(mat: Any, dense: Any, function: Callable[[Any, Any], Any]) -> BCOO:
    """A BCOO times a dense array, broadcast first if the array has the larger shape."""
    if not isinstance(mat, BCOO):
        raise unsupported("the product with a dense array takes a BCOO", repr(mat))
    shape = jnp.broadcast_shapes(mat.shape, type_of(dense).shape)
    if shape != mat.shape:
        added = len(shape) - mat.ndim
        mat = bcoo_broadcast_in_dim(mat, shape=shape, broadcast_dimensions=range(added, len(shape)))
    return BCOO.tree_unflatten(mat._info, (function(mat, dense), mat.indices))


@api_boundary("div")
def divide(x: Any, y: Any) -> Any:
    """A sparse array divided by a dense one. Padding is divided by nothing."""
    if isinstance(y, JAXSparse):
        raise unsupported("the quotient by a sparse array is dense", repr(y))
    if isinstance(x, BCSR):
        return _by_coordinates(divide, x, y)
    y = jnp.asarray(y)
    if type_of(y).shape == ():
        return linear(x, lambda data: data / y)
    return _scale(x, y, _quotient)


def _quotient(mat: BCOO, y: Any) -> Any:
    """The data of a BCOO divided by the elements of an array; padding is divided by one."""
    ones = BCOO.tree_unflatten(mat._info, (jnp.ones_like(mat.data), mat.indices))
    divisor = bcoo_multiply_dense(ones, y)

    def one(indices: Any) -> Any:
        return padded(indices, sparse_shape(mat)).reshape(-1, *[1] * mat.n_dense)

    outside = over_batches(one, mat.n_batch, mat.indices)
    return mat.data / jnp.where(outside, jnp.ones_like(divisor), divisor)


@api_boundary
def add(x: Any, y: Any) -> Any:
    """The sum: sparse of two sparse arrays, dense of a sparse and a dense one.

    Raises WeftNotImplementedError if a dense operand is smaller than the sum.
    """
    if isinstance(x, BCSR) or isinstance(y, BCSR):
        return _by_coordinates(add, x, y)
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return _sum_of_sparse(x, y)
    sparse, dense = _sparse_and_dense(x, y)
    shape = jnp.broadcast_shapes(sparse.shape, type_of(dense).shape)
    if type_of(dense).shape != shape:
        what = "the sum with an array of a smaller shape is dense"
        raise unsupported(what, f"{sparse!r} and an array of shape {type_of(dense).shape}")
    return sparse.todense() + dense


def _sum_of_sparse(x: BCOO, y: BCOO) -> BCOO:
    """The concatenated elements of both."""
    shape = jnp.broadcast_shapes(x.shape, y.shape)
    x, y = (
        z if z.shape == shape
        else bcoo_broadcast_in_dim(
            z, shape=shape, broadcast_dimensions=range(len(shape) - z.ndim, len(shape))
        )
        for z in (x, y)
    )  # fmt: skip
    x, y = common_layout([x, y])
    if x.indices is y.indices:  # one structure
        return BCOO.tree_unflatten(x._info, (x.data + y.data, x.indices))
    n = x.n_batch
    data = [stored_data(z).astype(jnp.result_type(x.data, y.data)) for z in (x, y)]
    indices = [stored_indices(z) for z in (x, y)]
    return BCOO((jnp.concatenate(data, n), jnp.concatenate(indices, n)), shape=shape)


def subtract(x: Any, y: Any) -> Any:
    """The difference, as `add`."""
    return add(x, negative(y) if isinstance(y, JAXSparse) else -jnp.asarray(y))


def _by_coordinates(function: Callable[..., Any], *operands: Any) -> Any:
    """An operation of BCSRs through BCOOs; a sparse result is a BCSR again."""
    out = function(*(x.to_bcoo() if isinstance(x, BCSR) else x for x in operands))
    if isinstance(out, BCOO) and out.n_sparse == 2:
        return BCSR.from_bcoo(out)
    return out


# ---- matrices ------------------------------------------------------------------------------------


@api_boundary
def matmul(x: Any, y: Any) -> Any:
    """The product of matrices as `weft.numpy.matmul` has it, with leading dimensions as batches.

    Raises ShapeError for operands that do not fit.
    """
    matrix = next((z for z in (x, y) if isinstance(z, (COO, CSR, CSC))), None)
    if matrix is not None:
        return matrix_product(x, y)
    x, y = (z if isinstance(z, JAXSparse) else jnp.asarray(z) for z in (x, y))
    shapes = [z.shape if isinstance(z, JAXSparse) else type_of(z).shape for z in (x, y)]
    if not shapes[0] or not shapes[1] or shapes[0][-1] != shapes[1][max(len(shapes[1]) - 2, 0)]:
        message = "the operands do not fit"
        got, wanted = f"shapes {shapes[0]} and {shapes[1]}", "(…, n, k) and (…, k, m)"
        raise ShapeError(message, got=got, wanted=wanted)
    outer = [shape[:-2] for shape in shapes]
    if outer[0] and outer[1]:
        batch = jnp.broadcast_shapes(*outer)
        x, y = (_with_batch(z, batch) for z in (x, y))
        n = len(batch)
        numbers: Any = (((n + 1,), (n,)), (tuple(range(n)), tuple(range(n))))
        return _dot(x, y, numbers)
    place = len(shapes[0]) - 1
    out = _dot(x, y, (((place,), (max(len(shapes[1]) - 2, 0),)), ((), ())))
    if not outer[1] or len(shapes[0]) < 2:
        return out
    # The rows of x stand before the batches of y.
    order = (*range(1, 1 + len(outer[1])), 0, len(outer[1]) + 1)
    return out.transpose(order)


def _dot(x: Any, y: Any, numbers: Any) -> Any:
    if isinstance(x, BCSR) and not isinstance(y, JAXSparse):
        return bcsr_dot_general(x, y, dimension_numbers=numbers)
    out = bcoo_dot_general(
        *(z.to_bcoo() if isinstance(z, BCSR) else z for z in (x, y)), dimension_numbers=numbers
    )
    both = isinstance(x, BCSR) and isinstance(y, BCSR)
    return BCSR.from_bcoo(out) if both and out.n_sparse == 2 else out


def _with_batch(x: Any, batch: Sequence[int]) -> Any:
    shape = (*batch, *(x.shape if isinstance(x, JAXSparse) else type_of(x).shape)[-2:])
    if not isinstance(x, JAXSparse):
        return jnp.broadcast_to(x, shape)
    x = x.to_bcoo() if isinstance(x, BCSR) else x
    if x.shape == shape:
        return x
    return bcoo_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=range(len(shape) - x.ndim, len(shape))
    )


# ---- parts ---------------------------------------------------------------------------------------


@api_boundary("sum")
def reduced_sum(x: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """The sum of a sparse array along axes."""
    if isinstance(x, BCSR):
        return reduced_sum(x.to_bcoo(), axis, dtype, keepdims)
    if not isinstance(x, BCOO):
        raise unsupported("the sum takes a BCOO or a BCSR", repr(x))
    if dtype is not None:
        x = astype(x, dtype)
    axes = tuple(range(x.ndim)) if axis is None else axes_of(axis, x.ndim)
    out: Any = bcoo_reduce_sum(x, axes=axes)
    if keepdims:
        shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
        kept = tuple(d for d in range(x.ndim) if d not in axes)
        out = bcoo_broadcast_in_dim(out, shape=shape, broadcast_dimensions=kept)
    return out if out.ndim and len(axes) < x.ndim else bcoo_todense(out)


@api_boundary
def reshape(x: BCOO, *shape: Any, order: str = "C") -> BCOO:
    """A BCOO in another shape, of which one length may be -1."""
    if order != "C":
        raise unsupported("elements are read in C order", f"order={order!r}")
    sizes = shape[0] if len(shape) == 1 and not hasattr(shape[0], "__index__") else shape
    sizes = tuple(map(operator.index, sizes))
    if -1 in sizes:
        known = 1
        for n in sizes:
            known *= n if n != -1 else 1
        sizes = tuple(x.size // max(known, 1) if n == -1 else n for n in sizes)
    return bcoo_reshape(x, new_sizes=sizes)


@api_boundary("indexing")
def getitem(x: Any, index: Any) -> Any:
    """The part of a sparse array that an index of integers (traced or not), slices, None and `...`
    names, or one array of integers along the first dimension. Raises WeftNotImplementedError for
    other indices, WeftIndexError for too many."""
    if isinstance(x, BCSR):
        return getitem(x.to_bcoo(), index)
    if not isinstance(x, BCOO):
        raise unsupported("an index takes a BCOO or a BCSR", repr(x))
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > x.ndim:
        message = f"{used} indices for a sparse array of {x.ndim} dimensions"
        wanted = f"{x.ndim} at most"
        raise WeftIndexError(message, got=repr(index)[:80], wanted=wanted)
    if sum(entry is Ellipsis for entry in entries) > 1:
        message = "an index has one '...' at most"
        raise WeftIndexError(message, got=repr(index)[:80])
    at = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    entries[at : at + 1] = [slice(None)] * (x.ndim - used)
    plan = [_entry(entry) for entry in entries]
    if "array" in plan:
        rest = [e for e in entries[1:] if e != slice(None)]
        if plan[0] != "array" or rest:
            what = "an array of integers indexes the first dimension alone"
            raise unsupported(what, repr(index)[:80])
        return bcoo_take(x, jnp.asarray(entries[0]))
    return _parts(x, entries, plan)


def _entry(entry: Any) -> str:
    """The kind of an entry of an index."""
    if entry is None:
        return "new"
    if isinstance(entry, slice):
        return "slice"
    if isinstance(entry, bool):
        raise unsupported("an index has no booleans", repr(entry))
    if isinstance(entry, int):
        return "int"
    if isinstance(entry, (list, tuple)):
        return "array"
    kind = type_of(entry)
    if kind.dtype.kind not in "iu":
        raise unsupported("an index is of integers", f"an array of dtype {kind.dtype}")
    return "array" if kind.shape else "traced"


def _parts(x: BCOO, entries: Sequence[Any], plan: Sequence[str]) -> BCOO:
    starts: list[int] = []
    limits: list[int] = []
    steps: list[int] = []
    reversed_dims: list[int] = []
    dropped: list[int] = []
    traced: dict[int, Any] = {}
    d = 0
    for entry, kind in zip(entries, plan, strict=True):
        if kind == "new":
            continue
        length = x.shape[d]
        if kind == "slice":
            span = range(*entry.indices(length))
            if span.step < 0:
                span = span[::-1]
                reversed_dims.append(d)
            ends = (span[0], span[-1] + 1, span.step) if len(span) else (0, 0, 1)
        elif kind == "int":
            place = operator.index(entry)
            if not -length <= place < length:
                message = f"index {place} of a dimension of length {length}"
                wanted = f"{-length} to {length - 1}"
                raise WeftIndexError(message, got=str(place), wanted=wanted)
            ends = (place % length, place % length + 1, 1)
            dropped.append(d)
        else:
            ends = (0, length, 1)
            traced[d] = entry
            dropped.append(d)
        for to, value in zip((starts, limits, steps), ends, strict=True):
            to.append(value)
        d += 1
    if any(
        s or n != m or k != 1 for s, n, m, k in zip(starts, limits, x.shape, steps, strict=True)
    ):
        x = bcoo_slice(x, start_indices=starts, limit_indices=limits, strides=steps)
    if traced:
        sizes = [1 if d in traced else n for d, n in enumerate(x.shape)]
        x = bcoo_dynamic_slice(x, [traced.get(d, 0) for d in range(x.ndim)], sizes)
    if reversed_dims:
        x = bcoo_rev(x, tuple(reversed_dims))
    x = bcoo_squeeze(x, dimensions=dropped)
    if "new" in plan:
        left = [kind for kind in plan if kind in ("new", "slice")]
        kept = [i for i, kind in enumerate(left) if kind == "slice"]
        shape = [1] * len(left)
        for i, n in zip(kept, x.shape, strict=True):
            shape[i] = n
        x = bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)
    return x
