"""Products of a `BCOO` with dense arrays.

A product with a dense array takes, for each stored element, the rows of the array at the element's
contracted indices, multiplies, and adds the results at the element's other indices. So it costs
what is stored, and its derivatives, which are gathers and sums of rows again, do too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import ShapeError, WeftNotImplementedError, api_boundary
from weft.experimental.sparse.batches import over_batches, with_batches
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_pairs import bcoo_spdot_general
from weft.experimental.sparse.bcoo_storage import (
    accumulated,
    check_operand,
    extracted,
    sparse_shape,
)
from weft.ops.products.dot import dot_general
from weft.typing import Array


class DotDimensions(NamedTuple):
    """The contracted and the batch dimensions of both operands."""

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]

    def swapped(self) -> DotDimensions:
        """Those of the product with its operands exchanged."""
        return DotDimensions(self.rhs_contract, self.lhs_contract, self.rhs_batch, self.lhs_batch)


def dot_dimensions(lhs: Any, rhs: Any, dimension_numbers: Any) -> DotDimensions:
    """The dimensions of a product. Raises ShapeError if the operands do not fit."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    out = DotDimensions(
        *(tuple(map(int, x)) for x in (lhs_contract, rhs_contract, lhs_batch, rhs_batch))
    )
    left, right = _shape(lhs), _shape(rhs)
    fits = all(
        len(a) == len(b) and all(left[i] == right[j] for i, j in zip(a, b, strict=True))
        for a, b in ((out.lhs_contract, out.rhs_contract), (out.lhs_batch, out.rhs_batch))
    )
    if not fits:
        message = "contracted and batch dimensions of both operands are alike"
        got = f"shapes {left} and {right}, dimension_numbers={dimension_numbers}"
        raise ShapeError(message, got=got, wanted="pairs of dimensions of equal length")
    return out


def _shape(x: Any) -> tuple[int, ...]:
    return x.shape if isinstance(x, BCOO) else type_of(x).shape


@api_boundary
def bcoo_dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """The product of `weft.lax.dot_general` where one operand is a BCOO, or both are.

    With a dense operand the result is dense, with two BCOOs it is a BCOO. Batch and contracted
    dimensions may be of any kind for one BCOO; for two they are batch and sparse ones. Raises
    ShapeError if the operands do not fit, WeftNotImplementedError for other products.

    >>> from weft.experimental import sparse
    >>> x = jnp.ones((3, 2))
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> sparse.bcoo_dot_general(sparse.eye(3), x, dimension_numbers=numbers).shape
    (3, 2)
    """
    if out_sharding is not None:
        message = "the result has no sharding of its own"
        raise WeftNotImplementedError(message, got=f"{out_sharding}")
    lhs, rhs = (x if isinstance(x, BCOO) else jnp.asarray(x) for x in (lhs, rhs))
    dims = dot_dimensions(lhs, rhs, dimension_numbers)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return bcoo_spdot_general(lhs, rhs, dims=dims, preferred=preferred_element_type)
    options = {"precision": precision, "preferred": preferred_element_type}
    if isinstance(lhs, BCOO):
        return _dot(lhs, rhs, dims=dims, **options)
    check_operand(rhs)
    out = _dot(rhs, lhs, dims=dims.swapped(), **options)
    batch = len(dims.lhs_batch)
    free = rhs.ndim - len(dims.rhs_batch) - len(dims.rhs_contract)
    total = type_of(out).ndim
    order = (*range(batch), *range(batch + free, total), *range(batch, batch + free))
    return out if order == tuple(range(total)) else jnp.transpose(out, order)


@jit(inline=True, static_argnames=("dims", "precision", "preferred"))
def _dot(lhs: BCOO, rhs: Any, *, dims: DotDimensions, precision: Any, preferred: Any) -> Any:
    dtype = preferred or jnp.result_type(lhs.data, rhs)
    n = lhs.n_batch
    names = _Names(lhs, type_of(rhs).ndim, dims)
    # Batch dimensions of the BCOO that the dense operand shares come first in it, as length 1
    # where it does not have them.
    rhs_at = {name: i for i, name in enumerate(names.rhs)}
    shared = [rhs_at.get(name) for name in names.batch]
    inner = [i for i, name in enumerate(names.rhs) if name not in names.batch]
    moved = jnp.transpose(rhs, (*(i for i in shared if i is not None), *inner))
    lengths = [1 if i is None else type_of(rhs).shape[i] for i in shared]
    moved = moved.reshape(*lengths, *(type_of(rhs).shape[i] for i in inner))
    inner_names = [names.rhs[i] for i in inner]

    def one(data: Any, indices: Any, dense: Any) -> Any:
        return _dot_of_batch(
            lhs, data, indices, dense, names, inner_names, precision=precision, dtype=dtype
        )

    out = over_batches(one, n, lhs.data, lhs.indices, moved)
    out = with_batches(out, lhs.shape[:n])
    left = [*names.batch, *names.left(inner_names)]
    # Contracted batch dimensions are summed last.
    gone = tuple(i for i, name in enumerate(left) if name in names.contracted)
    out = jnp.sum(out, gone, dtype=type_of(out).dtype) if gone else out
    left = [name for name in left if name not in names.contracted]
    return jnp.transpose(out, tuple(left.index(name) for name in names.result))


class _Names:
    """The dimensions of a product under numbers that both operands share."""

    def __init__(self, lhs: BCOO, rhs_ndim: int, dims: DotDimensions) -> None:
        edge = lhs.n_batch + lhs.n_sparse
        all_left = list(range(lhs.ndim))
        to_left = dict(zip(dims.rhs_contract, dims.lhs_contract, strict=True))
        to_left |= dict(zip(dims.rhs_batch, dims.lhs_batch, strict=True))
        self.batch = all_left[: lhs.n_batch]
        self.sparse = all_left[lhs.n_batch : edge]
        self.dense = all_left[edge:]
        self.rhs = [to_left.get(i, lhs.ndim + i) for i in range(rhs_ndim)]
        self.contracted = frozenset(dims.lhs_contract)
        self.shared = list(dims.lhs_batch)
        free = [i for i in all_left if i not in self.contracted and i not in dims.lhs_batch]
        self.result = [*dims.lhs_batch, *free, *(x for x in self.rhs if x >= lhs.ndim)]

    def left(self, inner: Sequence[int]) -> list[int]:
        """The dimensions of the product of one batch, in the order in which it is computed."""
        scattered = [x for x in self.sparse if x not in self.contracted]
        shared = [x for x in self.dense if x in self.shared]
        free = [x for x in self.dense if x not in self.contracted and x not in self.shared]
        known = {*self.sparse, *self.dense}
        return [*scattered, *shared, *free, *(x for x in inner if x not in known)]


def _dot_of_batch(
    lhs: BCOO, data: Any, indices: Any, dense: Any, names: _Names, inner: list[int], *,
    precision: Any, dtype: Any,
) -> Any:  # fmt: skip
    """The product of one batch: dimensions as `_Names.left` has them."""
    both = [x for x in names.sparse if x in inner]
    rest = [x for x in inner if x not in both]
    at = [names.sparse.index(x) for x in both]
    dense = jnp.transpose(dense, tuple(inner.index(x) for x in (*both, *rest)))
    lengths = tuple(lhs.shape[x] for x in both)
    scattered = [i for i, x in enumerate(names.sparse) if x not in names.contracted]
    shape = tuple(sparse_shape(lhs)[i] for i in scattered)
    # Elements outside of the shape take zeros, in whichever dimension they are outside.
    columns = jnp.stack([indices[:, i] for i in at], -1) if at else indices[:, :0]
    blocks = [x for x in names.dense if x in rest]
    shared = [x for x in blocks if x not in names.contracted]
    contract = [x for x in blocks if x in names.contracted]
    in_data = {x: 1 + i for i, x in enumerate(names.dense)}
    if not both:
        out = _blocks(data, dense, in_data, rest, shared, contract, None, precision, dtype)
    elif not scattered and set(names.sparse) == set(both) and not shared:
        rows = extracted(dense, columns, lengths)
        numbers = (
            (0, *(in_data[x] for x in contract)),
            (0, *(1 + rest.index(x) for x in contract)),
        )
        return dot_general(
            data, rows, (numbers, ((), ())), precision=precision, preferred_element_type=dtype
        ).astype(dtype)
    else:
        rows = extracted(dense, columns, lengths)
        out = _blocks(data, rows, in_data, rest, shared, contract, 0, precision, dtype)
    where = jnp.stack([indices[:, i] for i in scattered], -1) if scattered else indices[:, :0]
    ordered = lhs.indices_sorted and scattered == list(range(len(scattered)))
    return accumulated(out, where, shape, ordered)


def _blocks(
    data: Any, rows: Any, in_data: dict[int, int], rest: list[int], shared: list[int],
    contract: list[int], row: int | None, precision: Any, dtype: Any,
) -> Any:  # fmt: skip
    """The dense block of each element times its row (or the whole array, where `row` is None): the
    dimensions are the element, then shared, free and the row's free ones."""
    offset = 0 if row is None else 1
    per_element = () if row is None else (0,)
    batch = ((*per_element, *(in_data[x] for x in shared)),
             (*per_element, *(offset + rest.index(x) for x in shared)))  # fmt: skip
    summed = (tuple(in_data[x] for x in contract), tuple(offset + rest.index(x) for x in contract))
    data_ndim, rows_ndim = type_of(data).ndim, type_of(rows).ndim
    if not summed[0] and not shared and data_ndim == 1 and row == 0:
        return data.reshape(-1, *[1] * (rows_ndim - 1)).astype(dtype) * rows.astype(dtype)
    out = dot_general(
        data, rows, (summed, batch), precision=precision, preferred_element_type=dtype
    ).astype(dtype)
    if row is None and shared:  # the element stands behind the shared dimensions
        out = jnp.moveaxis(out, len(shared), 0)
    return out


@api_boundary
def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: Any) -> Array:
    """The elements of `weft.lax.dot_general(A, B, dimension_numbers)` at the indices of a BCOO.

    indices: integers `(*batch, nse, n_sparse)`, which index the result as those of a BCOO of its
    shape. Returns data `(*batch, nse, *dense)`; zeros for padding. The full product is never
    computed.

    Args:
        A: The left array.
        B: The right array.

    >>> from weft.experimental import sparse
    >>> a, b = jnp.ones((2, 3)), jnp.ones((3, 2))
    >>> numbers = (((1,), (0,)), ((), ()))
    >>> sparse.bcoo_dot_general_sampled(a, b, jnp.array([[0, 1]]), dimension_numbers=numbers)
    Array([3.], dtype=float32)
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    dims = dot_dimensions(A, B, dimension_numbers)
    data: Array = _sample_product(A, B, indices, dims=dims)
    return data


@jit(inline=True, static_argnames=("dims",))
def _sample_product(A: Any, B: Any, indices: Any, *, dims: DotDimensions) -> Any:
    a_free = [i for i in range(type_of(A).ndim) if i not in (*dims.lhs_contract, *dims.lhs_batch)]
    b_free = [i for i in range(type_of(B).ndim) if i not in (*dims.rhs_contract, *dims.rhs_batch)]
    # For each dimension of the product the one of A and the one of B that it comes from.
    sources: list[tuple[int | None, int | None]] = [
        *zip(dims.lhs_batch, dims.rhs_batch, strict=True),
        *((i, None) for i in a_free), *((None, i) for i in b_free),
    ]  # fmt: skip
    a_shape, b_shape = type_of(A).shape, type_of(B).shape
    shape = [a_shape[a] if a is not None else b_shape[b or 0] for a, b in sources]
    n, n_sparse = type_of(indices).ndim - 2, type_of(indices).shape[-1]
    batch, sparse, dense = sources[:n], sources[n : n + n_sparse], sources[n + n_sparse :]

    def arranged(x: Any, which: int, contract: tuple[int, ...]) -> Any:
        """Batch dimensions first (length 1 where missing), then indexed, shared, free, summed."""
        at = [pair[which] for pair in batch]
        places = [pair[which] for group in (batch, sparse, dense) for pair in group]
        order = [i for i in places if i is not None]
        x_shape = type_of(x).shape
        moved = jnp.transpose(x, (*order, *contract))
        tail = type_of(moved).shape[sum(i is not None for i in at) :]
        return moved.reshape(*(1 if i is None else x_shape[i] for i in at), *tail)

    def one(a: Any, b: Any, where: Any) -> Any:
        inner = shape[n : n + n_sparse]
        outside = jnp.any((where < 0) | (where >= jnp.array(inner, type_of(where).dtype)), -1)
        rows = []
        for x, which in ((a, 0), (b, 1)):
            at = [i for i, pair in enumerate(sparse) if pair[which] is not None]
            columns = tuple(where[:, i] for i in at)
            rows.append(x.at[columns].get(mode="clip") if at else x[None])
        both = [i for i, pair in enumerate(dense) if None not in pair]
        left, right = (1 + len(both), 1 + len(both))
        left += sum(p[1] is None for p in dense)
        right += sum(p[0] is None for p in dense)
        k = len(dims.lhs_contract)
        nse = type_of(where).shape[0]
        rows = [jnp.broadcast_to(r, (nse, *type_of(r).shape[1:])) for r in rows]
        shared = tuple(range(1 + len(both)))
        numbers = ((tuple(range(left, left + k)), tuple(range(right, right + k))), (shared, shared))
        out = dot_general(rows[0], rows[1], numbers, preferred_element_type=jnp.result_type(a, b))
        mask = outside.reshape(-1, *[1] * (type_of(out).ndim - 1))
        return jnp.where(mask, jnp.zeros_like(out), out)

    a, b = arranged(A, 0, dims.lhs_contract), arranged(B, 1, dims.rhs_contract)
    return over_batches(one, n, a, b, indices)


# ---- elementwise ---------------------------------------------------------------------------------


@api_boundary
def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Array:
    """The data of the product of a BCOO and a dense array, element by element.

    The array is broadcast as NumPy's are. Raises ShapeError if the product would have a larger
    shape than the BCOO.

    Args:
        sp_mat: The BCOO.
        v: An array that broadcasts to the shape of the BCOO.

    >>> from weft.experimental import sparse
    >>> sparse.bcoo_multiply_dense(sparse.eye(2), jnp.array([2.0, 3.0]))
    Array([2., 3.], dtype=float32)
    """
    check_operand(sp_mat)
    v = jnp.asarray(v)
    check_fits_in(sp_mat, v)
    data: Array = _multiply_dense(sp_mat, v)
    return data


def check_fits_in(mat: Any, v: Any) -> None:
    """Raises ShapeError if a dense operand does not broadcast to the shape of a sparse one."""
    shape = type_of(v).shape
    padded = (1,) * (mat.ndim - len(shape)) + shape
    if len(padded) != mat.ndim or any(
        a not in (1, b) for a, b in zip(padded, mat.shape, strict=True)
    ):
        message = "the dense operand does not broadcast to the sparse one's shape"
        got = f"shapes {shape} and {mat.shape}"
        raise ShapeError(message, got=got, wanted=f"a shape that broadcasts to {mat.shape}")


@jit(inline=True)
def _multiply_dense(mat: BCOO, v: Any) -> Any:
    shape = type_of(v).shape
    if not shape:
        return mat.data * v
    n, edge = mat.n_batch, mat.n_batch + mat.n_sparse
    full = (1,) * (mat.ndim - len(shape)) + shape
    v = v.reshape(full)
    long = [i for i in range(n, edge) if full[i] != 1]
    v = jnp.squeeze(v, tuple(i for i in range(n, edge) if full[i] == 1))
    lengths = tuple(full[i] for i in long)
    at = [i - n for i in long]

    def one(data: Any, indices: Any, v: Any) -> Any:
        if not at:
            return data * v[None]
        columns = jnp.stack([indices[:, i] for i in at], -1)
        return data * extracted(v, columns, lengths)

    return over_batches(one, n, mat.data, mat.indices, v)
