"""What programs of several processes say to one another, for a program of one process.

weft runs in one process, so what every process is to have is there already, and nothing is waited
for. Arrays of all processes and of this one are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.api.device_put import device_put
from weft.argument_errors import refusal
from weft.errors import WeftValueError
from weft.sharding import Mesh, NamedSharding, P

__all__ = [
    "ProcessFailureError", "assert_equal", "broadcast_one_to_all",
    "global_array_to_host_local_array", "host_local_array_to_global_array", "live_devices",
    "process_allgather", "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip


class ProcessFailureError(RuntimeError):
    """Raised where another process ended. There is none, so weft does not raise it."""


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree of the process that is the source, as NumPy arrays.

    Raises WeftValueError where this process, the only one, is said not to be the source.

    >>> from weft.experimental import multihost_utils
    >>> multihost_utils.broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    if is_source is not None and not is_source:
        message = "broadcast_one_to_all: no process is the source"
        got, wanted = "is_source=False in the only process", "True, or nothing"
        raise refusal(WeftValueError, message, "broadcast_one_to_all", got, wanted)
    return tree.map(np.asarray, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The trees of all processes as NumPy arrays: stacked, or with `tiled` one behind the other.

    >>> from weft.experimental import multihost_utils
    >>> multihost_utils.process_allgather(jnp.ones(2)).shape
    (1, 2)
    """

    def one(x: Any) -> Any:
        host = np.asarray(x)
        return host if tiled else host[None]

    return tree.map(one, in_tree)


def sync_global_devices(name: str) -> None:
    """Returns when every process is here."""


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raises AssertionError where the trees of processes differ."""


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether processes agreed on saving their state after this step: no one asks for it."""
    return False


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The arrays of which each process has a part, over a mesh: this process has them whole.

    `pspecs` is a tree prefix of specs. Raises what `weft.device_put` raises.
    """
    leaves, structure = tree.flatten(local_inputs)
    specs = tree.prefix_leaves("pspecs", pspecs, structure, is_leaf=_is_spec)
    placed = [
        device_put(x, NamedSharding(global_mesh, P() if spec is None else spec))
        for x, spec in zip(leaves, specs, strict=True)
    ]
    return structure.unflatten(placed)


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, P)


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of arrays over a mesh that this process has: all of them."""
    return host_local_array_to_global_array(global_inputs, global_mesh, pspecs)


@contextlib.contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """A context with those of the devices whose process is alive."""
    yield list(devices)
