"""Exchanges NumPy arrays and numbers between processes, outside of their programs.

Each process's values are the block of an array over one device of each process, as bytes, so that
every dtype arrives as it is; a program of XLA brings them to all.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import tree
from weft.api.among_processes import reshard_array
from weft.api.jit import jit
from weft.api.process_local_data import make_array_from_process_local_data
from weft.arrays.array import Array
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.runtime import client
from weft.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "processes"


@api_boundary
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes as NumPy arrays, in each of them.

    Leaves are numbers, NumPy arrays and arrays of this process, of one shape and dtype in all
    processes: stacked in the order of the processes, or with `tiled` one after the other. Of an
    array over several processes the whole array is returned, which `tiled` has to ask for. All
    processes have to call it.

    in_tree: a tree of numbers and arrays.

    Raises WeftValueError for an array over several processes without `tiled`, and WeftTypeError for
    anything that has no values.

    >>> import weft
    >>> weft.distributed.process_allgather(np.arange(2.0)).shape
    (1, 2)
    """
    return tree.map(lambda leaf: _gather(leaf, tiled), in_tree)


@api_boundary
def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process as NumPy arrays, in all of them: of process 0, or of that which
    says `is_source`.

    The trees of the other processes have the same structure, shapes and dtypes; their values do not
    matter. All processes have to call it. Raises WeftValueError if the only process says that it
    is not the source.

    in_tree: a tree of numbers and arrays.

    >>> import weft
    >>> weft.distributed.broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    operation = "broadcast_one_to_all"
    if is_source is None:
        is_source = client.process_index() == 0
    if client.process_count() == 1:
        if not is_source:
            message = f"{operation}: no process is the source"
            got = "is_source=False in the only process"
            raise WeftValueError(message, operation=operation, got=got, wanted="True, or nothing")
        return tree.map(_to_host, in_tree)

    def one(leaf: Any) -> Any:
        values = _to_host(leaf)
        data = _bytes_of(values) if is_source else np.zeros(values.nbytes, np.uint8)
        if not data.size:
            return values
        sent = np.asarray(_sum_program()(_rows(data))).tobytes()
        return np.frombuffer(sent, values.dtype).reshape(values.shape).copy()

    return tree.map(one, in_tree)


@api_boundary
def sync_global_devices(name: str) -> None:
    """Returns when all processes are here, under the same name.

    name: the name of this point of the program, the same in all processes.

    Raises DistributedError if they come under different names, and where one of them ends.

    >>> import weft
    >>> weft.distributed.sync_global_devices("written")
    """
    group = client.group()
    if group is not None:
        group.watcher.barrier(str(name))


@api_boundary
def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raises AssertionError if the trees of processes differ. All processes have to call it.

    in_tree: a tree of numbers and arrays, of one structure in all processes; fail_message: a text
    for the error.

    >>> import weft
    >>> weft.distributed.assert_equal({"seed": 7})
    """
    leaves, structure = tree.flatten(in_tree)
    shapes = [(leaf.shape, str(leaf.dtype)) for leaf in map(_to_host, leaves)]
    digest = np.frombuffer(hashlib.sha256(f"{structure} {shapes}".encode()).digest(), np.uint8)
    if not (process_allgather(digest) == digest).all():
        raise AssertionError(f"{fail_message}: trees of processes differ in structure".lstrip(": "))
    for (path, leaf), first in zip(
        tree.leaves_with_path(in_tree), tree.leaves(broadcast_one_to_all(in_tree)), strict=True
    ):
        same = _bytes_of(_to_host(leaf)).tobytes() == _bytes_of(first).tobytes()
        if not process_allgather(np.asarray(same)).all():
            what = f"the leaf {tree.keystr(path)} differs between processes"
            raise AssertionError(f"{fail_message}: {what}".lstrip(": "))


# ---- bytes of all processes ----------------------------------------------------------------------


def _to_host(leaf: Any) -> np.ndarray[Any, Any]:
    values = np.asarray(leaf)
    if values.dtype.hasobject:
        message = "processes tell one another arrays and numbers"
        got = f"{type(leaf).__name__}"
        raise WeftTypeError(message, operation="process_allgather", got=got, wanted="numbers")
    return values


def _bytes_of(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)


def _gather(leaf: Any, tiled: bool) -> np.ndarray[Any, Any]:
    if isinstance(leaf, Array) and not leaf.is_fully_addressable:
        return _whole(leaf, tiled)
    values = _to_host(leaf)
    if client.process_count() == 1:
        return values if tiled else values[None]
    stacked = np.empty((client.process_count(), *values.shape), values.dtype)
    if values.size:
        everywhere = NamedSharding(_one_each(), PartitionSpec())
        rows = np.asarray(reshard_array(_rows(_bytes_of(values)), everywhere)).tobytes()
        stacked = np.frombuffer(rows, values.dtype).reshape(stacked.shape).copy()
    if not tiled:
        return stacked
    return stacked.reshape(-1, *values.shape[1:]) if values.ndim else stacked


def _whole(array: Array, tiled: bool) -> np.ndarray[Any, Any]:
    """An array over several processes, copied to all its devices."""
    if array.is_fully_replicated:
        return np.asarray(array)
    if not tiled:
        message = "an array over several processes is not one of each process's own"
        wanted = "tiled=True, which returns the whole array"
        fix = Fix("argument", "pass tiled=True", {"tiled": True})
        got = f"{array.type} with {array.sharding}"
        raise WeftValueError(
            message, operation="process_allgather", got=got, wanted=wanted, fix=fix
        )
    mesh = Mesh(np.asarray(array.sharding.device_list), (AXIS,))
    return np.asarray(reshard_array(array, NamedSharding(mesh, PartitionSpec())))


def _rows(data: np.ndarray[Any, Any]) -> Array:
    """The bytes of all processes, as rows of one array."""
    shape = client.process_count(), data.size
    where = NamedSharding(_one_each(), PartitionSpec(AXIS))
    rows: Array = make_array_from_process_local_data(where, data[None], shape)
    return rows


@functools.lru_cache(maxsize=1)
def _one_each() -> Mesh:
    """A mesh of the first device of each process."""
    firsts: dict[int, Any] = {}
    for device in client.devices():
        firsts.setdefault(device.process_index, device)
    return Mesh(np.asarray([firsts[number] for number in sorted(firsts)]), (AXIS,))


@functools.lru_cache(maxsize=1)
def _sum_program() -> Any:
    """A program that adds up the rows, all zero but the source's."""
    everywhere = NamedSharding(_one_each(), PartitionSpec())
    return jit(lambda rows: jnp.sum(rows, axis=0, dtype=np.uint8), out_shardings=everywhere)
