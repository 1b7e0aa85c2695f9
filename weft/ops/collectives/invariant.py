"""Collectives between values that are equal on all devices along an axis and values that differ.

`all_gather_invariant` gives every device the same whole, and its type says so; `pscatter` takes
each device's own part of a whole that all have. They transpose to each other, so neither direction
communicates more than it has to.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any, TypeVar

import numpy as np

from weft import tree
from weft.core.axes import bound_axis
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, Fix
from weft.errors.argument_errors import unknown_option
from weft.ops.collectives.all_reduce import axis_index_p, cast_operand, row_major, vary
from weft.ops.collectives.movement import (
    all_gather,
    all_gather_lower,
    all_gather_type,
    drop_dim,
    for_each_axis,
    merge_dims,
    scattered_shape,
    split_dim,
)
from weft.ops.collectives.named_axes import (
    Names,
    axis_names,
    axis_sizes_of,
    bind_checked,
    linear_collective,
    mesh_position,
    silent,
    take_rows,
)
from weft.ops.declare import linear_primitive
from weft.ops.elementwise.arithmetic import eq
from weft.ops.elementwise.selection import select
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim
from weft.ops.structural.extended_dtypes import view_lower
from weft.ops.structural.shape import broadcast_in_dim, canonical_axis, move_dim, squeeze
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo

T = TypeVar("T")

Sizes = tuple[int, ...]


def all_gather_invariant(x: T, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> T:
    """Gathers the values of all devices along axes of a mesh into one that is equal on all of them.

    They are stacked along a new dimension `axis` of the result, or with `tiled` are joined along
    the existing one. The values are those of `all_gather`; the difference is the type, and
    therefore the transpose, which is `pscatter` and communicates nothing. Trees are gathered leaf
    by leaf. Raises UnboundAxisError for a name that is not bound, AxisError for a dimension that is
    out of range.

    axis: the index of the dimension of the result along which the values lie; tiled: whether they
    are joined along a dimension that is there, and not stacked along a new one.

    >>> from weft import P
    >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    >>> @weft.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P())
    ... def gathered(x):
    ...     return lax.all_gather_invariant(x, "i", tiled=True)
    >>> print(gathered(np.array([1.0, 2.0])))
    [1. 2.]
    """
    names = axis_names("all_gather_invariant", axis_name)
    sizes = axis_sizes_of(names)
    if not _on_mesh("all_gather_invariant", names):
        return all_gather(x, axis_name, axis=axis, tiled=tiled)

    def one(leaf: Any) -> Any:
        place = canonical_axis(axis, type_of(leaf).ndim + (not tiled), "all_gather_invariant")
        leaf = cast_operand("all_gather_invariant", leaf, names)
        params = {"axis_sizes": sizes, "dimension": place, "tiled": bool(tiled)}
        return bind_checked(all_gather_invariant_p, leaf, axis_name=names, **params)

    return tree.map(one, x)


def _on_mesh(operation: str, names: Names) -> bool:
    """Returns whether the names are axes of a mesh. Raises AxisError if only some are."""
    kinds: dict[bool, list[Any]] = {}
    for name in names:
        kinds.setdefault(bound_axis(name).mesh is not None, []).append(name)
    if len(kinds) > 1:
        text = f"call {operation} over {kinds[True]} and over {kinds[False]}"
        message = f"{operation} over axes of a mesh and axes of a vmap at once"
        got, fix = f"axis_name={names}", Fix("separate", text, {"axes": names})
        raise AxisError(message, operation=operation, got=got, wanted="axes of one kind", fix=fix)
    return True in kinds


def all_gather_to(
    x: T,
    axis_name: Any,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> T:
    """Gathers the values of all elements of a named axis along a new dimension `axis`.

    With `tiled` they are joined along the existing dimension `axis`. The result is typed as one
    that varies, or with `to="invarying"` as equal on all devices (see `all_gather_invariant`).
    Trees are gathered leaf by leaf. Raises UnboundAxisError for a name that is not bound, AxisError
    for a dimension that is out of range, WeftValueError for another `to`.

    Args:
        axis: The index of the dimension of the result along which the values lie.
        tiled: Whether they are joined along a dimension that is there, and not stacked along a new
            one.
        to: "varying", or "invarying" for a result that is typed as equal on all devices.

    >>> weft.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    if to == "varying":
        groups = axis_index_groups
        return all_gather(x, axis_name, axis_index_groups=groups, axis=axis, tiled=tiled)
    if to != "invarying" or axis_index_groups is not None:
        wanted = "'varying', or without axis_index_groups 'invarying'"
        raise unknown_option("all_gather", "to", to, wanted, use="varying")
    return all_gather_invariant(x, axis_name, axis=axis, tiled=tiled)


def all_gather_invariant_type(x: ArrayType, *, axis_name: Names, **params: Any) -> ArrayType:
    out = all_gather_type(x, axis_name=axis_name, axis_index_groups=None, **params)
    return out.update(varying=x.varying - set(axis_name))


def all_gather_invariant_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int, tiled: bool, **along: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    if axis.name not in along["axis_name"]:
        whole = move_dim(x, dim, 0, axis.size)
        return all_gather_invariant_p.bind(whole, **along, dimension=dimension + 1, tiled=tiled), 0
    # One name after the other, the last one first; each puts its dimension before later ones'.
    for one in for_each_axis(along)[::-1]:
        if one["axis_name"] == (axis.name,):
            x, dim = move_dim(x, dim, dimension, axis.size), None
            continue
        place = dimension + (dim is not None and dim <= dimension)
        x = all_gather_invariant_p.bind(x, **one, dimension=place, tiled=False)
        if dim is not None and place <= dim:
            dim += 1
    return merge_dims(x, dimension, len(along["axis_name"]) + tiled), None


all_gather_invariant_p = linear_collective(
    "all_gather_invariant",
    type_rule=all_gather_invariant_type,
    transpose=lambda ct, x, **params: [pscatter_p.bind(ct, **params)],
    vmap=all_gather_invariant_vmap,
    lower=functools.partial(all_gather_lower, axis_index_groups=None),
    linear=True,
    flops="none",
)


def pscatter(x: T, axis_name: Any, *, axis: int = 0, tiled: bool = False) -> T:
    """Takes each device's own part of a value that is equal on all devices along axes of a mesh.

    Dimension `axis` is as long as the axes together and is dropped; with `tiled` its length is a
    multiple of that, and is divided by it. Nothing is communicated; the transpose is
    `all_gather_invariant`. Trees are taken leaf by leaf. Raises AxisError for a value that varies
    along the axes, ShapeError if the length does not fit, UnboundAxisError for a name that is
    not bound.

    axis: the index of the dimension that is divided; tiled: whether the dimension stays, and its
    length is divided by that of the axes.

    >>> from weft import P
    >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    >>> @weft.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def parts(x):
    ...     return 10 * lax.pscatter(x, "i", tiled=True)
    >>> print(parts(np.array([1.0, 2.0])))
    [10. 20.]
    """
    names = axis_names("pscatter", axis_name)
    sizes = axis_sizes_of(names)
    _on_mesh("pscatter", names)

    def one(leaf: Any) -> Any:
        place = canonical_axis(axis, type_of(leaf).ndim, "pscatter")
        params = {"axis_sizes": sizes, "dimension": place, "tiled": bool(tiled)}
        return bind_checked(pscatter_p, leaf, axis_name=names, **params)

    return tree.map(one, x)


def pscatter_type(
    x: ArrayType, *, axis_name: Names, axis_sizes: Sizes, dimension: int, tiled: bool
) -> ArrayType:
    varying = x.varying & set(axis_name)
    if varying:
        message = "pscatter takes a value that is equal on all devices along its axes"
        got = f"{x} and axis_name={axis_name}"
        wanted = f"a value that does not vary along {sorted(varying)}"
        fix = Fix(
            "psum_scatter",
            "use psum_scatter where the devices hold terms of a sum, or all_to_all to "
            "exchange parts",
            {"axes": tuple(sorted(varying))},
        )
        raise AxisError(message, got=got, wanted=wanted, fix=fix)
    shape = scattered_shape("pscatter", x, dimension, prod(axis_sizes), tiled)
    return x.update(shape=shape, varying=x.varying | set(axis_name))


def pscatter_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int, tiled: bool, **along: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    if axis.name not in along["axis_name"]:
        whole = move_dim(x, dim, 0, axis.size)
        return pscatter_p.bind(whole, **along, dimension=dimension + 1, tiled=tiled), 0
    if dim is not None:
        x = move_dim(x, dim, 0, axis.size)
    first, sizes = dimension + (dim is not None), along["axis_sizes"]
    kept = (type_of(x).shape[first] // prod(sizes),) if tiled else ()
    x = split_dim(x, first, (*sizes, *kept))
    # The names in order: the rest of the split dimension always begins at `first`.
    for one, size in zip(for_each_axis(along), sizes, strict=True):
        if one["axis_name"] != (axis.name,):
            x = pscatter_p.bind(x, **one, dimension=first, tiled=False)
        elif dim is None:
            x, dim, first = move_dim(x, first, 0, size), 0, first + 1
        else:  # Mapped already: element i takes part i.
            x = merge_dims(move_dim(x, first, 1, size), 0, 2)
            x = take_rows(x, [i * size + i for i in range(size)])
    return x, 0


def pscatter_lower(
    context: Any, x: Any, *, axis_name: Names, axis_sizes: Sizes, dimension: int, tiled: bool
) -> Any:
    index: Any = None
    for name, size in zip(axis_name, axis_sizes, strict=True):
        here = mesh_position(context, name)
        if index is not None:
            length = stablehlo.constant(size, (), np.int32)
            here = stablehlo.add(stablehlo.multiply(index, length), here)
        index = here
    shape = list(x.type.shape)
    part = shape[dimension] // prod(axis_sizes)
    start = stablehlo.multiply(index, stablehlo.constant(part, (), np.int32))
    zero = stablehlo.constant(0, (), np.int32)
    sizes = [*shape[:dimension], part, *shape[dimension + 1 :]]
    starts = [start if d == dimension else zero for d in range(len(shape))]
    out = stablehlo.dynamic_slice(x, starts, sizes)
    return out if tiled else drop_dim(out, dimension)


pscatter_p: Primitive = linear_collective(
    "pscatter",
    type_rule=pscatter_type,
    transpose=lambda ct, x, **params: [all_gather_invariant_p.bind(ct, **params)],
    vmap=pscatter_vmap,
    lower=pscatter_lower,
    linear=True,
    flops="none",
)


def assume_invariant(x: Any, names: Names) -> Any:
    """Casts a value to an invariant type, unchecked: the first device's value counts."""
    return assume_invariant_p.bind(x, axis_name=names, axis_sizes=axis_sizes_of(names))


def assume_invariant_type(x: ArrayType, *, axis_name: Names, axis_sizes: Sizes) -> ArrayType:
    return x.update(varying=x.varying - set(axis_name))


def assume_invariant_transpose(
    ct: Any, x: Any, *, axis_name: Names, axis_sizes: Sizes
) -> list[Any]:
    # The first device's value is the result, so its copy gets all of the cotangent.
    return [on_first_device(ct, axis_name)]


def on_first_device(x: Any, names: Names) -> Any:
    """A value that is equal along axes of a mesh as a term of a sum: the first device along them
    has it, the others have zeros.

    Args:
        x: An array that is equal on all devices along the axes.
        names: The names of the mesh axes, a sequence.
    """
    if not names:
        return x
    sizes = axis_sizes_of(names)
    places = [
        axis_index_p.bind(axis_name=name, axis_size=size, manual=True)
        for name, size in zip(names, sizes, strict=True)
    ]
    of = type_of(x)
    first = broadcast_in_dim(eq(row_major(places, sizes), np.int32(0)), of.shape, ())
    return select(first, vary(x, names), zeros(of))


def assume_invariant_vmap(
    axis: AxisData, args: Values, dims: Dims, *, axis_name: Names, axis_sizes: Sizes
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    pairs = [p for p in zip(axis_name, axis_sizes, strict=True) if p[0] != axis.name]
    if len(pairs) < len(axis_name) and dim is not None:
        x, dim = squeeze(dynamic_slice_in_dim(x, 0, 1, dim), (dim,)), None
    if pairs:
        names, sizes = zip(*pairs, strict=True)
        x = assume_invariant_p.bind(x, axis_name=names, axis_sizes=sizes)
    return x, dim


assume_invariant_p = linear_primitive(
    "assume_invariant",
    type_rule=assume_invariant_type,
    transpose=assume_invariant_transpose,
    vmap=assume_invariant_vmap,
    lower=view_lower,
    linear=True,
    flops="none",
)
silent.update((pscatter_p, assume_invariant_p))
