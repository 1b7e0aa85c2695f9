"""Arrays over the devices of several processes, from what each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.api.device_put import make_array_from_callback
from weft.arrays.array import Array
from weft.core.types import user_value
from weft.errors import Fix, ShapeError, WeftValueError, api_boundary
from weft.ops.structural.sharding_constraint import as_format, is_place
from weft.runtime import client
from weft.sharding import Sharding

OPERATION = "make_array_from_process_local_data"


@api_boundary
def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
) -> Any:
    """An array over several processes, from what this process has of it.

    `local_data` is a NumPy array or a tree of them, and `sharding` and `global_shape` are tree
    prefixes: how the arrays are split, and their shapes. The data of a process are the blocks of
    its devices, put together: along a dimension that is split over processes its part, in the order
    of the blocks, and all of it along others. A dimension of `global_shape` may also be that of the
    data, which then have all of it in each process. Without `global_shape` it is what
    the parts make together: with one process, the shape of the data.

    Raises ShapeError if the data are of another shape than this process's part, and what
    `make_array_from_callback` does.

    >>> import weft
    >>> where = weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))
    >>> weft.make_array_from_process_local_data(where, np.arange(4.0)).addressable_data(1)
    Array([2., 3.], dtype=float32)
    """
    leaves, structure = tree.flatten(local_data)
    places = tree.prefix_leaves(f"{OPERATION}: sharding", sharding, structure, is_leaf=is_place)
    shapes: list[Any] = [None] * len(leaves)
    if global_shape is not None:
        shapes = tree.prefix_leaves(
            f"{OPERATION}: global_shape",
            global_shape,
            structure,
            is_leaf=lambda x: isinstance(x, (tuple, list)) and all(type(n) is int for n in x),
        )
    rows = zip(leaves, places, shapes, strict=True)
    return structure.unflatten([_from_part(*row) for row in rows])


def _from_part(values: Any, place: Any, shape: Any) -> Array:
    host = np.asarray(user_value(values))
    dtype = dtypes.canonical(host.dtype)
    blocks, counts = _blocks_here(place, host.ndim)
    inferred = tuple(
        length if len(mine) == count else length // len(mine) * count
        for length, mine, count in zip(host.shape, blocks, counts, strict=True)
    )
    whole = inferred if shape is None else tuple(shape)
    uneven = any(n % len(mine) for n, mine in zip(host.shape, blocks, strict=True))
    fits = len(whole) == host.ndim and all(
        n in (given, made) for n, given, made in zip(whole, host.shape, inferred, strict=True)
    )
    if uneven or not fits:
        raise _other_shape(host.shape, whole, inferred, uneven)
    # Along a dimension that is here as a whole, a block is where it is in the array.
    partial = [n != length for n, length in zip(whole, host.shape, strict=True)]

    def part(index: tuple[slice, ...]) -> Any:
        chosen = []
        for where, length, mine, count, moved in zip(
            index, whole, blocks, counts, partial, strict=True
        ):
            if moved:
                start, size = where.start or 0, length // count
                number = mine.index(start // size)
                where = slice(number * size, (number + 1) * size)
            chosen.append(where)
        return host[tuple(chosen)]

    return make_array_from_callback(whole, place, part, dtype=dtype)


def _blocks_here(place: Any, ndim: int) -> tuple[list[list[int]], list[int]]:
    """For each dimension, the numbers of the blocks that devices of this process have, and how many
    there are."""
    sharding = as_format(place, OPERATION)[0]
    if not isinstance(sharding, Sharding) or sharding.num_devices == 1 or ndim == 0:
        return [[0]] * ndim, [1] * ndim
    coordinates = sharding.block_coordinates(ndim)
    here = client.process_index()
    mine = [device.process_index == here for device in sharding.device_list]
    if not any(mine):
        message = f"{OPERATION}: this process has none of the devices"
        wanted = "a sharding over devices of all processes that call it"
        raise WeftValueError(message, got=str(sharding), wanted=wanted)
    own = coordinates[np.asarray(mine)]
    counts = (coordinates.max(axis=0) + 1).tolist()
    return [sorted(set(own[:, axis].tolist())) for axis in range(ndim)], counts


def _other_shape(
    local: tuple[int, ...], whole: tuple[int, ...], inferred: tuple[int, ...], uneven: bool
) -> ShapeError:
    message = f"{OPERATION}: the data are not this process's part of the array"
    got = f"data of shape {local} for global_shape={whole}"
    if uneven:
        wanted = "as many elements for each block of this process"
        fix = Fix("shape", "pad the data to a multiple of the blocks, or split them otherwise")
        return ShapeError(message, got=got, wanted=wanted, fix=fix)
    wanted = f"global_shape={inferred}, of which this process has such a part"
    fix = Fix("shape", "leave global_shape out", {"shape": inferred})
    return ShapeError(message, got=got, wanted=wanted, fix=fix)
