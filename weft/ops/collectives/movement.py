"""Collectives that move data between the elements of a named axis without combining all of it.

The axis is that of a vmap (or of a mesh of devices). The vmap rule of the axis turns the operation
into moves of the mapped dimension. With several names, which count row-major, the operation is
split into one per name. `all_gather` and `psum_scatter` transpose to each other, `all_to_all` to
its inverse. `permutation` has the collectives that send whole values to other elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

from weft import dtypes, tree
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError
from weft.ops.collectives.all_reduce import cast_operand
from weft.ops.collectives.named_axes import (
    Groups,
    Names,
    along_axis,
    axes_and_groups,
    bind_checked,
    check_varies,
    group_size,
    groups_and_channel,
    linear_collective,
    reduce_complex_parts,
)
from weft.ops.reductions.reduce import check_dtype
from weft.ops.structural.shape import (
    canonical_axis,
    expand_dims,
    move_dim,
    reduce_sum,
    reshape,
    squeeze,
    transpose,
)
from weft.runtime import stablehlo, stablehlo_collectives

__all__ = ["all_to_all", "psum_scatter", "pswapaxes"]

T = TypeVar("T")

Sizes = tuple[int, ...]


def merge_dims(x: Any, start: int, count: int) -> Any:
    """Merges `count` neighbouring dimensions into one."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:start], prod(shape[start : start + count]), *shape[start + count :]))


def split_dim(x: Any, place: int, sizes: Sequence[int]) -> Any:
    """Splits one dimension into several."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:place], *sizes, *shape[place + 1 :]))


def part_length(operation: str, x: ArrayType, dimension: int, parts: int) -> int:
    """The length of a part of a dimension. Raises ShapeError for unequal parts."""
    canonical_axis(dimension, x.ndim, operation)
    length = x.shape[dimension]
    if length % parts:
        message = (
            f"{operation}: dimension {dimension} of {x} does not split into {parts} equal parts"
        )
        got, wanted = f"length {length} for {parts} elements of the axis", f"a multiple of {parts}"
        fix = Fix("pad", f"pad the dimension to a multiple of {parts}", {"multiple": parts})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return length // parts


def check_untiled(operation: str, x: ArrayType, dimension: int, count: int) -> None:
    """Raises ShapeError if a dimension to be dropped is not as long as the axis."""
    if x.shape[dimension] != count:
        message = f"{operation}: dimension {dimension} of {x} is not as long as the axis"
        got = f"length {x.shape[dimension]} for an axis of length {count}"
        wanted = f"length {count}, or tiled=True"
        fix = Fix("tiled", "pass tiled=True to keep the dimension, divided", {"tiled": True})
        raise ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def scattered_shape(
    operation: str, x: ArrayType, dimension: int, count: int, tiled: bool
) -> tuple[int, ...]:
    """The shape of one of `count` parts of a dimension, which is dropped unless `tiled`."""
    kept = [part_length(operation, x, dimension, count)]
    if not tiled:
        check_untiled(operation, x, dimension, count)
        kept = []
    return (*x.shape[:dimension], *kept, *x.shape[dimension + 1 :])


def drop_dim(x: Any, dimension: int) -> Any:
    """Reshapes a value of MLIR to one without a dimension of length 1."""
    shape = list(x.type.shape)
    return stablehlo.reshape(x, shape[:dimension] + shape[dimension + 1 :])


def for_each_axis(along: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of a collective over several axes, for each axis alone."""
    pairs = zip(along["axis_name"], along["axis_sizes"], strict=True)
    return [along | {"axis_name": (name,), "axis_sizes": (size,)} for name, size in pairs]


def all_gather(
    x: T, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False
) -> T:
    """Gathers the values of all elements of a named axis along a new dimension `axis`.

    With `tiled` they are joined along the existing dimension `axis`. Trees are gathered leaf by
    leaf. Raises UnboundAxisError for a name that is not bound, AxisError for a dimension that is
    out of range.

    >>> weft.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([[1., 2.],
           [1., 2.]], dtype=float32)
    """
    names, sizes, groups = axes_and_groups("all_gather", axis_name, axis_index_groups)
    along = {"axis_name": names, "axis_sizes": sizes, "axis_index_groups": groups}

    def one(leaf: Any) -> Any:
        place = canonical_axis(axis, type_of(leaf).ndim + (not tiled), "all_gather")
        if not names:
            return leaf if tiled else expand_dims(leaf, (place,))
        leaf = cast_operand("all_gather", leaf, names)
        return bind_checked(all_gather_p, leaf, **along, dimension=place, tiled=bool(tiled))

    return tree.map(one, x)


def all_gather_type(
    x: ArrayType,
    *,
    axis_name: Names,
    axis_sizes: Sizes,
    axis_index_groups: Groups,
    dimension: int,
    tiled: bool,
) -> ArrayType:
    canonical_axis(dimension, x.ndim + (not tiled), "all_gather")
    count = group_size(axis_index_groups, axis_sizes)
    head, tail = x.shape[:dimension], x.shape[dimension:]
    if tiled:
        return x.update(shape=(*head, tail[0] * count, *tail[1:]))
    return x.update(shape=(*head, count, *tail))


def all_gather_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int, tiled: bool, **along: Any
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    names, groups = along["axis_name"], along["axis_index_groups"]
    if axis.name not in names:
        whole = move_dim(x, dim, 0, axis.size)
        return all_gather_p.bind(whole, **along, dimension=dimension + 1, tiled=tiled), 0
    if len(names) > 1:
        for one in for_each_axis(along)[::-1]:
            x, dim = all_gather_vmap(axis, [x], [dim], **one, dimension=dimension, tiled=False)
        whole = move_dim(x, dim, 0, axis.size)
        return merge_dims(whole, dimension + 1, len(names) + tiled), 0

    def core(whole: Any, lead: int) -> Any:
        size = type_of(whole).shape[lead]
        out = move_dim(whole, lead, lead + dimension, size)
        out = merge_dims(out, lead + dimension, 2) if tiled else out
        return move_dim(out, None, lead, size)

    if groups is not None:
        return along_axis(axis, x, dim, groups, core)
    out = move_dim(x, dim, dimension, axis.size)
    return (merge_dims(out, dimension, 2) if tiled else out), None


def all_gather_lower(
    context: Any,
    x: Any,
    *,
    axis_name: Names,
    axis_index_groups: Groups,
    dimension: int,
    tiled: bool,
    **sizes: Any,
) -> Any:
    if not tiled:
        shape = list(x.type.shape)
        x = stablehlo.reshape(x, [*shape[:dimension], 1, *shape[dimension:]])
    elif not x.type.shape[dimension]:
        return x  # StableHLO has no collectives along empty dimensions.
    groups, channel = groups_and_channel(context, axis_name, axis_index_groups)
    return stablehlo_collectives.all_gather([x], groups, channel, dimension)[0]


all_gather_p = linear_collective(
    "all_gather",
    type_rule=all_gather_type,
    transpose=lambda ct, x, **params: [psum_scatter_p.bind(ct, **params)],
    vmap=all_gather_vmap,
    lower=all_gather_lower,
    linear=True,
    flops="none",
)


def psum_scatter(
    x: T,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> T:
    """Sums over a named axis; each element keeps its own part of one dimension of the sum.

    That dimension is as long as the axis and is dropped; with `tiled` its length is a multiple of
    that, and is divided by it. Raises ShapeError if it is not, UnboundAxisError for a name that
    is not bound.

    scatter_dimension: the index of the dimension of the sum that is divided among the positions of
    the axis; tiled: whether the dimension stays, and its length is divided by that of the axis.

    >>> x = np.array([[1, 2], [3, 4]])
    >>> weft.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(x)
    Array([4, 6], dtype=int32)
    """
    names, sizes, groups = axes_and_groups("psum_scatter", axis_name, axis_index_groups)
    along = {"axis_name": names, "axis_sizes": sizes, "axis_index_groups": groups}

    def one(leaf: Any) -> Any:
        place = canonical_axis(scatter_dimension, type_of(leaf).ndim, "psum_scatter")
        check_varies("psum_scatter", type_of(leaf), names)
        leaf = cast_operand("psum_scatter", leaf, names)
        return bind_checked(psum_scatter_p, leaf, **along, dimension=place, tiled=bool(tiled))

    return tree.map(one, x)


def psum_scatter_type(
    x: ArrayType,
    *,
    axis_name: Names,
    axis_sizes: Sizes,
    axis_index_groups: Groups,
    dimension: int,
    tiled: bool,
) -> ArrayType:
    check_dtype("psum_scatter", x, dtypes.NUMERIC)
    count = group_size(axis_index_groups, axis_sizes)
    return x.update(shape=scattered_shape("psum_scatter", x, dimension, count, tiled))


def psum_scatter_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int, tiled: bool, **along: Any
) -> tuple[Any, int]:
    x = move_dim(args[0], dims[0], 0, axis.size)
    if axis.name not in along["axis_name"]:
        return psum_scatter_p.bind(x, **along, dimension=dimension + 1, tiled=tiled), 0
    if len(along["axis_name"]) > 1:
        sizes = along["axis_sizes"]
        kept = (type_of(x).shape[dimension + 1] // prod(sizes),) if tiled else ()
        x = split_dim(x, dimension + 1, (*sizes, *kept))
        for one in for_each_axis(along):
            x, _ = psum_scatter_vmap(axis, [x], [0], **one, dimension=dimension, tiled=False)
        return x, 0

    def core(whole: Any, lead: int) -> Any:
        shape = type_of(whole).shape
        place = lead + 1 + dimension
        if tiled:
            whole = split_dim(whole, place, (shape[lead], shape[place] // shape[lead]))
        return move_dim(reduce_sum(whole, (lead,)), place - 1, lead, shape[lead])

    return along_axis(axis, x, 0, along["axis_index_groups"], core)


def psum_scatter_lower(
    context: Any,
    x: Any,
    *,
    axis_name: Names,
    axis_index_groups: Groups,
    dimension: int,
    tiled: bool,
    **sizes: Any,
) -> Any:
    if not x.type.shape[dimension]:
        return x  # As for all_gather.
    groups, channel = groups_and_channel(context, axis_name, axis_index_groups)

    def scatter(value: Any, first: int) -> Any:
        return stablehlo_collectives.reduce_scatter(
            value, groups, channel, first + dimension, stablehlo.add
        )

    out = reduce_complex_parts(context, x, scatter)
    return out if tiled else drop_dim(out, dimension)


psum_scatter_p: Primitive = linear_collective(
    "psum_scatter",
    type_rule=psum_scatter_type,
    transpose=lambda ct, x, **params: [all_gather_p.bind(ct, **params)],
    vmap=psum_scatter_vmap,
    lower=psum_scatter_lower,
    linear=True,
    flops="none",
)


def all_to_all(
    x: T,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> T:
    """Sends part i of dimension `split_axis` to element i of a named axis.

    Received parts are along `concat_axis`, in the order of the senders. The split dimension is as
    long as the axis and is dropped, and a new one appears at `concat_axis`; with `tiled` it is
    divided, and received parts are joined along the existing dimension `concat_axis`. Raises
    ShapeError if the lengths do not fit, UnboundAxisError for a name that is not bound.

    Args:
        split_axis: The index of the dimension that is split.
        concat_axis: The index of the dimension of the result along which received parts lie.
        tiled: Whether parts are joined along a dimension that is there, and not stacked along a new
            one.

    >>> x = np.array([[1, 2], [3, 4]])
    >>> weft.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    names, sizes, groups = axes_and_groups("all_to_all", axis_name, axis_index_groups)
    along = {"axis_name": names, "axis_sizes": sizes, "axis_index_groups": groups}

    def one(leaf: Any) -> Any:
        leaf = cast_operand("all_to_all", leaf, names)
        of = type_of(leaf)
        split = canonical_axis(split_axis, of.ndim, "all_to_all")
        concat = canonical_axis(concat_axis, of.ndim, "all_to_all")
        dropped = split
        if not tiled:
            check_untiled("all_to_all", of, split, group_size(groups, sizes))
            # The index of the new dimension while the dropped one is still there.
            place = concat if concat <= split else concat + 1
            leaf = expand_dims(leaf, (place,))
            dropped = split + (place <= split)
            split, concat = dropped, place
        out = bind_checked(all_to_all_p, leaf, **along, split_axis=split, concat_axis=concat)
        return out if tiled else squeeze(out, (dropped,))

    return tree.map(one, x)


def pswapaxes(x: T, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> T:
    """Swaps a named axis with dimension `axis`, which is as long. Errors are `all_to_all`'s.

    >>> x = np.array([[1, 2], [3, 4]])
    >>> weft.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(x)
    Array([[1, 3],
           [2, 4]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def all_to_all_type(
    x: ArrayType,
    *,
    axis_name: Names,
    axis_sizes: Sizes,
    axis_index_groups: Groups,
    split_axis: int,
    concat_axis: int,
) -> ArrayType:
    count = group_size(axis_index_groups, axis_sizes)
    shape = list(x.shape)
    shape[split_axis] = part_length("all_to_all", x, split_axis, count)
    shape[concat_axis] *= count
    return x.update(shape=tuple(shape))


def all_to_all_transpose(
    ct: Any, x: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> list[Any]:
    return [all_to_all_p.bind(ct, split_axis=concat_axis, concat_axis=split_axis, **params)]


def all_to_all_vmap(
    axis: AxisData, args: Values, dims: Dims, *, split_axis: int, concat_axis: int, **along: Any
) -> tuple[Any, int]:
    whole = move_dim(args[0], dims[0], 0, axis.size)
    names, groups = along["axis_name"], along["axis_index_groups"]
    if axis.name not in names:
        split, concat = split_axis + 1, concat_axis + 1
        return all_to_all_p.bind(whole, **along, split_axis=split, concat_axis=concat), 0

    def core(x: Any, lead: int) -> Any:
        sizes = (type_of(x).shape[lead],) if groups is not None else along["axis_sizes"]
        n, first = len(sizes), lead + 1
        # The parts, one dimension per name, right after the mapped dimension.
        place = first + split_axis
        part = type_of(x).shape[place] // prod(sizes)
        x = split_dim(x, place, (*sizes, part))
        rest = [d for d in range(first, type_of(x).ndim) if not place <= d < place + n]
        x = transpose(x, (*range(first), *range(place, place + n), *rest))
        for i, one in enumerate(for_each_axis(along)):
            if names[i] == axis.name:
                order = list(range(type_of(x).ndim))
                order[lead], order[first + i] = first + i, lead
                x = transpose(x, order)
            else:
                x = all_to_all_p.bind(x, **one, split_axis=first + i, concat_axis=first + i)
        # The senders, in front of the dimension along which they are joined.
        target = first + concat_axis
        rest = list(range(first + n, type_of(x).ndim))
        moved = [*rest[:concat_axis], *range(first, first + n), *rest[concat_axis:]]
        return merge_dims(transpose(x, (*range(first), *moved)), target, n + 1)

    return along_axis(axis, whole, 0, groups, core)


def all_to_all_lower(
    context: Any, x: Any, *, split_axis: int, concat_axis: int, **along: Any
) -> Any:
    groups, channel = groups_and_channel(context, along["axis_name"], along["axis_index_groups"])
    return stablehlo_collectives.all_to_all([x], groups, channel, split_axis, concat_axis)[0]


all_to_all_p = linear_collective(
    "all_to_all",
    type_rule=all_to_all_type,
    transpose=all_to_all_transpose,
    vmap=all_to_all_vmap,
    lower=all_to_all_lower,
    linear=True,
    flops="none",
)
