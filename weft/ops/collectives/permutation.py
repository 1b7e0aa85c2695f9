"""Permutations: collectives that send whole values from elements of a named axis to others.

The axis is that of a vmap (or of a mesh of devices). The vmap rule of the axis takes rows of the
mapped dimension; over several axes, rows gathered along the others. A permutation transposes to its
inverse.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from weft import tree
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import type_of
from weft.errors import Fix, WeftValueError
from weft.ops.collectives.all_reduce import axis_index_p, cast_operand, row_major
from weft.ops.collectives.movement import all_gather_p, merge_dims, split_dim
from weft.ops.collectives.named_axes import (
    Names,
    axis_names,
    axis_sizes_of,
    linear_collective,
    partition_rows,
    take_rows,
)
from weft.ops.elementwise.arithmetic import ge
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import index_vector, iota
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, move_dim
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo_collectives

T = TypeVar("T")

Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def ppermute(x: T, axis_name: Any, perm: Sequence[tuple[int, int]]) -> T:
    """Sends values along a named axis, for each pair from its first to its second position.

    A position that receives nothing gets zeros. No position may send or receive twice. Raises
    WeftValueError for other pairs, UnboundAxisError for a name that is not bound.

    perm: the pairs (source, target) of positions along the axis.

    >>> send = lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)])
    >>> weft.vmap(send, axis_name="i")(np.array([1, 2, 3]))
    Array([0, 1, 2], dtype=int32)
    """
    names = axis_names("ppermute", axis_name)
    sizes = axis_sizes_of(names)
    pairs = _pairs(perm, prod(sizes))

    def one(leaf: Any) -> Any:
        leaf = cast_operand("ppermute", leaf, names)
        return ppermute_p.bind(leaf, axis_name=names, axis_sizes=sizes, perm=pairs)

    return tree.map(one, x)


def _pairs(perm: Any, count: int) -> Pairs:
    """Returns the pairs of a permutation. Raises WeftValueError if they are none."""
    try:
        perm = found = [(operator.index(source), operator.index(target)) for source, target in perm]
    except (TypeError, ValueError):
        found = None
    sound: dict[int, int] = {}
    for source, target in found or ():
        inside = 0 <= source < count and 0 <= target < count
        if inside and source not in sound and target not in sound.values():
            sound[source] = target
    if found is not None and len(sound) == len(found):
        return tuple(found)
    shift = [(i, (i + 1) % count) for i in range(count)]
    fixed = list(sound.items()) or shift
    raise WeftValueError(
        "ppermute: the pairs are no partial permutation of the axis",
        operation="ppermute",
        got=f"perm={perm!r:.200} over an axis of length {count}",
        wanted=f"(source, target) pairs of 0 to {count - 1}, each at most once as source "
        "and once as target",
        fix=Fix("perm", f"for example perm={fixed}", {"perm": fixed}),
    )


def pshuffle(x: T, axis_name: Any, perm: Sequence[int]) -> T:
    """Permutes the values of a named axis: position i gets that of `perm[i]`.

    perm: for each position, the position from which it gets its value: a permutation.

    Raises WeftValueError if `perm` is no permutation.

    >>> weft.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([1, 2, 3]))
    Array([3, 1, 2], dtype=int32)
    """
    count = prod(axis_sizes_of(axis_names("pshuffle", axis_name)))
    if sorted(perm) != list(range(count)):
        message = "pshuffle takes a permutation of all positions of the axis"
        got = f"perm={list(perm)} over an axis of length {count}"
        wanted = f"each of 0 to {count - 1} once"
        fix = Fix("ppermute", "list each position once, or give lax.ppermute pairs of some")
        raise WeftValueError(message, operation="pshuffle", got=got, wanted=wanted, fix=fix)
    return ppermute(x, axis_name, [(source, target) for target, source in enumerate(perm)])


def ppermute_transpose(ct: Any, x: Any, *, perm: Pairs, **params: Any) -> list[Any]:
    inverse = tuple((target, source) for source, target in perm)
    return [ppermute_p.bind(ct, perm=inverse, **params)]


def ppermute_vmap(
    axis: AxisData, args: Values, dims: Dims, *, axis_name: Names, axis_sizes: Sizes, perm: Pairs
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    if axis.name not in axis_name:
        return ppermute_p.bind(x, axis_name=axis_name, axis_sizes=axis_sizes, perm=perm), dim
    whole = move_dim(x, dim, 0, axis.size)
    sources = [-1] * prod(axis_sizes)
    for source, target in perm:
        sources[target] = source
    if len(axis_name) > 1:
        return _permute_several(axis, whole, axis_name, axis_sizes, sources), 0
    # An element that receives nothing takes a row that is not sent, so that each is taken once.
    unsent = iter(sorted(set(range(len(sources))) - set(sources)))
    out = take_rows(whole, [next(unsent) if source < 0 else source for source in sources])
    if -1 in sources:
        received = ge(index_vector(sources), np.int32(0))
        out = _where_rows(received, out)
    return out, 0


def _where_rows(keep: Any, rows: Any) -> Any:
    """Returns the rows where `keep` holds, and zeros elsewhere."""
    aval = type_of(rows)
    return select(broadcast_in_dim(keep, aval.shape, (0,)), rows, zeros(aval))


def _permute_several(
    axis: AxisData, whole: Any, names: Names, sizes: Sizes, sources: Sequence[int]
) -> Any:
    """Permutes over several axes, one of them mapped: chooses among the rows of all elements."""
    place = names.index(axis.name)
    others = names[:place] + names[place + 1 :]
    other_sizes = sizes[:place] + sizes[place + 1 :]
    rows = all_gather_p.bind(
        whole,
        axis_name=others,
        axis_sizes=other_sizes,
        axis_index_groups=None,
        dimension=0,
        tiled=False,
    )
    rows = split_dim(rows, 0, other_sizes)
    rows = merge_dims(move_dim(rows, len(others), place, axis.size), 0, len(names))
    varying = type_of(whole).varying
    places = [
        iota(np.int32, size)
        if name == axis.name
        else axis_index_p.bind(axis_name=name, axis_size=size, manual=name in varying)
        for name, size in zip(names, sizes, strict=True)
    ]
    here = row_major(places, sizes)
    table = GatherDimensionNumbers((), (0,), (0,))
    mode = GatherScatterMode.CLIP
    chosen = gather(index_vector(sources), expand_dims(here, (1,)), table, (1,), mode=mode)
    shape = type_of(rows).shape
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    out = gather(rows, expand_dims(chosen, (1,)), numbers, (1, *shape[1:]), mode=mode)
    return _where_rows(ge(chosen, np.int32(0)), out)


def ppermute_lower(
    context: Any, x: Any, *, axis_name: Names, axis_sizes: Sizes, perm: Pairs
) -> Any:
    rows = partition_rows(context, axis_name).tolist()
    pairs = [(row[source], row[target]) for row in rows for source, target in perm]
    return stablehlo_collectives.collective_permute(x, pairs, context.module.new_channel())


ppermute_p = linear_collective(
    "ppermute",
    type_rule=lambda x, *, axis_name, axis_sizes, perm: x,
    transpose=ppermute_transpose,
    vmap=ppermute_vmap,
    lower=ppermute_lower,
    linear=True,
    flops="none",
)
