"""Batching rules declared by kind, and what rules are written with, under the names of
`jax.interpreters.batching`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.define.for_jax.rule_mappings import mapped_size, primitive_batchers
from weft.interpreters.vmappable import is_vmappable, register_vmappable, unregister_vmappable
from weft.ops.structural.shape import broadcast_in_dim, move_dim

__all__ = [
    "bdim_at_front", "broadcast", "defbroadcasting", "defreducer", "defvectorized", "is_vmappable",
    "moveaxis", "not_mapped", "register_vmappable", "unregister_vmappable",
]  # fmt: skip

Values = Sequence[Any]
Dims = Sequence[int | None]

# The dimension of an operand that is not mapped.
not_mapped = None


def broadcast(x: Any, sz: int, axis: int, mesh_axis: Any = None) -> Any:
    """The array repeated `sz` times along a new dimension `axis`.

    Args:
        x: The array.
        mesh_axis: Has no meaning: types do not say how arrays are split.
        sz: The length of the new dimension.
        axis: The position of the new dimension in the result.

    >>> from weft.extend.interpreters import batching
    >>> batching.broadcast(np.array([1.0, 2.0]), 3, 0).shape
    (3, 2)
    """
    shape = list(type_of(x).shape)
    axis %= len(shape) + 1
    shape.insert(axis, sz)
    return broadcast_in_dim(x, tuple(shape), tuple(i for i in range(len(shape)) if i != axis))


def moveaxis(x: Any, src: int | None, dst: int) -> Any:
    """The array with the dimension `src` moved to `dst`; the array itself where `src` is None.

    Args:
        x: The array.
        src: The dimension to move, or None.
        dst: Its position in the result.
    """
    return x if src is None else move_dim(x, src % type_of(x).ndim, dst % type_of(x).ndim, 0)


def bdim_at_front(x: Any, bdim: int | None, size: int, mesh_axis: Any = None) -> Any:
    """The array with its mapped dimension in front; repeated if it is not mapped.

    Args:
        x: The array.
        bdim: The mapped dimension; None if it is not mapped.
        size: The length of the mapped axis.
        mesh_axis: Has no meaning: types do not say how arrays are split.
    """
    return broadcast(x, size, 0) if bdim is None else moveaxis(x, bdim, 0)


def _results(primitive: Primitive, outs: Any, dim: int) -> Any:
    return (outs, [dim] * len(outs)) if primitive.multiple_results else (outs, dim)


def _vectorized(primitive: Primitive, args: Values, dims: Dims, **params: Any) -> Any:
    first = next(dim for dim in dims if dim is not None)
    if any(dim != first for dim in dims):
        size, first = mapped_size(args, dims), 0
        args = [bdim_at_front(x, dim, size) for x, dim in zip(args, dims, strict=True)]
    return _results(primitive, primitive.bind(*args, **params), first)


def defvectorized(prim: Primitive) -> None:
    """Sets the batching rule of a primitive that works on arrays of any rank elementwise.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import batching
    >>> double_p = UncheckedPrimitive("double")
    >>> _ = double_p.def_impl(lambda x: x * 2)
    >>> batching.defvectorized(double_p)
    >>> weft.vmap(double_p.bind)(np.array([1, 2]))
    Array([2, 4], dtype=int32)
    """
    primitive_batchers[prim] = partial(_vectorized, prim)


def _broadcasting(primitive: Primitive, args: Values, dims: Dims, **params: Any) -> Any:
    size = mapped_size(args, dims)
    pairs = list(zip(args, dims, strict=True))
    rank = max(type_of(x).ndim - (dim is not None) for x, dim in pairs)
    moved = [
        x
        if dim is None and rank and not type_of(x).ndim
        else _of_rank(bdim_at_front(x, dim, size), rank + 1)
        for x, dim in pairs
    ]
    return _results(primitive, primitive.bind(*moved, **params), 0)


def _of_rank(x: Any, rank: int) -> Any:
    """The array with dimensions of length 1 inserted after the first, up to a rank."""
    shape = type_of(x).shape
    missing = rank - len(shape)
    if not missing:
        return x
    target = (shape[0], *(1,) * missing, *shape[1:])
    return broadcast_in_dim(x, target, (0, *range(missing + 1, rank)))


def defbroadcasting(prim: Primitive) -> None:
    """Sets the batching rule of a primitive of several operands that broadcasts dimensions of
    length 1, and operands without dimensions."""
    primitive_batchers[prim] = partial(_broadcasting, prim)


def _reducing(primitive: Primitive, args: Values, dims: Dims, axes: Any, **params: Any) -> Any:
    (x,), (dim,) = args, dims
    assert dim is not None
    moved = tuple(axis + (axis >= dim) for axis in axes)
    return primitive.bind(x, axes=moved, **params), dim - sum(axis < dim for axis in moved)


def defreducer(prim: Primitive) -> None:
    """Sets the batching rule of a primitive that reduces one array along its parameter `axes`."""
    primitive_batchers[prim] = partial(_reducing, prim)
