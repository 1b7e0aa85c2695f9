"""What processes that work together tell one another, by JAX's names; see `weft.distributed`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.api.device_put import device_put
from weft.api.process_local_data import make_array_from_process_local_data
from weft.base.facades import public_names
from weft.distributed import (
    assert_equal,
    broadcast_one_to_all,
    process_allgather,
    sync_global_devices,
)
from weft.errors import DistributedError as ProcessFailureError
from weft.sharding import Mesh, NamedSharding, P

__all__ = [
    "ProcessFailureError", "assert_equal", "broadcast_one_to_all",
    "global_array_to_host_local_array", "host_local_array_to_global_array", "live_devices",
    "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip

__dir__ = public_names(globals())


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether processes agreed on saving their state after this step: no one asks for it.

    Args:
        step_id: The number of the step.
    """
    return False


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over a mesh, from the part of them that this process has.

    `pspecs` is a tree prefix of specs. Raises what `weft.make_array_from_process_local_data`
    raises.

    Args:
        local_inputs: A tree of arrays, with the part of each that this process has.
        global_mesh: The mesh of the devices of all processes.
        pspecs: How arrays are split over the mesh: a tree prefix of specs.
    """

    def joined(x: Any, spec: P) -> Any:
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), np.asarray(x))

    return _by_spec(joined, local_inputs, pspecs)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of arrays over a mesh that this process has, as NumPy arrays.

    `pspecs` is a tree prefix of specs, over which arrays are split before. Raises what
    `weft.device_put` raises.

    Args:
        global_inputs: A tree of arrays.
        global_mesh: The mesh of the devices of all processes.
        pspecs: How arrays are split over the mesh: a tree prefix of specs.
    """

    def part(x: Any, spec: P) -> Any:
        return _local_part(device_put(x, NamedSharding(global_mesh, spec)))

    return _by_spec(part, global_inputs, pspecs)


def _by_spec(function: Callable[[Any, P], Any], inputs: Any, pspecs: Any) -> Any:
    leaves, structure = tree.flatten(inputs)
    specs = tree.prefix_leaves("pspecs", pspecs, structure, is_leaf=_is_spec)
    rows = zip(leaves, specs, strict=True)
    return structure.unflatten([function(x, P() if spec is None else spec) for x, spec in rows])


def _local_part(x: Any) -> np.ndarray[Any, Any]:
    """The blocks of this process, put together in their order."""
    shards = x.addressable_shards
    starts = [sorted({shard.index[axis].start or 0 for shard in shards}) for axis in range(x.ndim)]
    size = shards[0].data.shape
    lengths = [len(along) * n for along, n in zip(starts, size, strict=True)]
    out = np.empty(lengths, x.dtype)
    for shard in shards:
        where = tuple(
            slice(along.index(part.start or 0) * n, (along.index(part.start or 0) + 1) * n)
            for along, part, n in zip(starts, shard.index, size, strict=True)
        )
        out[where] = np.asarray(shard.data)
    return out


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, P)


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """A context with those of the devices whose process is alive.

    Args:
        devices: The devices to look at.
    """
    yield list(devices)
