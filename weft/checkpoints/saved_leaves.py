"""The saved form of a tree: its structure, a record of each leaf, and the blocks of arrays that
this process writes, on the host.

A record is plain data, the same in all processes. Python's numbers and strings stand in it; of an
array it has the type and how the array is cut into chunks, each of which one process writes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.arrays.transfers import explicit_transfers
from weft.checkpoints.saved_trees import structure_to_data
from weft.core.types import ArrayType
from weft.errors import Fix, WeftError, WeftTypeError
from weft.errors.argument_errors import describe_value
from weft.export.serialized_values import type_to_data
from weft.ops.structural.extended_dtypes import KeyDType, physical_type
from weft.runtime import client

# The kinds of records that have a type: arrays of weft, of NumPy, and NumPy's scalars.
ARRAYS = ("array", "numpy", "numpy scalar")

# Chunks are no larger, where an array can be cut so: they are written and read side by side, and
# another sharding reads little that it does not need.
CHUNK_BYTES = 16 << 20

_STORABLE = dtypes.ANY | dtypes.NARROW


@dataclasses.dataclass(frozen=True)
class Block:
    """A part of an array: where it begins, and its values as they are stored."""

    start: tuple[int, ...]
    values: np.ndarray[Any, Any]


@dataclasses.dataclass(frozen=True)
class SavedLeaf:
    """The record of a leaf, and this process's blocks of it."""

    record: dict[str, Any]
    blocks: tuple[Block, ...] = ()


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A tree at one moment."""

    structure: dict[str, Any]
    leaves: list[SavedLeaf]

    @property
    def nbytes(self) -> int:
        """Bytes that this process writes."""
        return sum(block.values.nbytes for leaf in self.leaves for block in leaf.blocks)


def snapshot(value: Any, operation: str, copied: bool) -> Snapshot:
    """A tree on the host. Unless it is `copied`, the memory may be that of the arrays. Raises
    WeftTypeError for leaves that cannot be saved, and TreeError for keys of dicts."""
    leaves: list[tuple[Any, Any]] = []
    structure = structure_to_data(value, operation, leaves)
    with explicit_transfers():
        for _, leaf in leaves:  # All transfers at once, and then one after the other awaited.
            if type(leaf) is Array and not leaf.is_deleted():
                leaf.copy_to_host_async()
        saved = [
            _save_leaf(leaf, tree.keystr(path), number, operation, copied)
            for number, (path, leaf) in enumerate(leaves)
        ]
    return Snapshot(structure, saved)


def _save_leaf(leaf: Any, path: str, number: int, operation: str, copied: bool) -> SavedLeaf:
    plain = _number_to_data(leaf)
    if plain is not None:
        return SavedLeaf({"path": path, **plain})
    if type(leaf) is Array and (isinstance(leaf.dtype, KeyDType) or leaf.dtype in _STORABLE):
        try:
            return _save_array(leaf, path, number, copied)
        except WeftError as error:
            error.add_note(f"This happened at the leaf {path} of the tree.")
            raise
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.newbyteorder("=") in _STORABLE:
        values = np.array(leaf, leaf.dtype.newbyteorder("="), copy=copied or None, order="C")
        kind = "numpy" if isinstance(leaf, np.ndarray) else "numpy scalar"
        record = _record(kind, path, number, ArrayType(values.shape, values.dtype), values.shape)
        blocks = () if client.process_index() else (Block((0,) * values.ndim, values),)
        return SavedLeaf(record, blocks if values.size else ())
    message = f"{operation}: the leaf {path} of the tree cannot be saved"
    wanted = "arrays of weft or NumPy, Python's numbers, strings and random keys"
    text = "leave it out of the tree, or save the arrays that it is made of"
    fix = Fix("leaf", text, {"path": path})
    raise WeftTypeError(message, got=describe_value(leaf), wanted=wanted, fix=fix)


def _save_array(array: Array, path: str, number: int, copied: bool) -> SavedLeaf:
    type_, sharding = array.type, array.sharding
    rows = physical_type(type_).shape[type_.ndim :]
    record = _record("array", path, number, type_, (*sharding.shard_shape(type_.shape), *rows))
    if not type_.size:
        return SavedLeaf(record)
    if sharding.is_fully_addressable and client.process_index():
        return SavedLeaf(record)  # Each process has one of its own, and that of process 0 is saved.
    blocks = []
    for part in array.addressable_shards:
        if part.replica_id == 0:
            start = (*(where.start or 0 for where in part.index), *(0 for _ in rows))
            blocks.append(Block(start, _on_host(part.data, copied)))
    return SavedLeaf(record, tuple(blocks))


def _on_host(array: Array, copied: bool) -> np.ndarray[Any, Any]:
    """The values of an array on one device, in row-major order."""
    values = array._stored()
    # The memory of other devices was copied to get here.
    shared = array.device.platform == "cpu"
    return np.array(values, copy=(copied and shared) or None, order="C")


def _record(
    kind: str, path: str, number: int, type_: ArrayType, shard: Sequence[int]
) -> dict[str, Any]:
    stored = physical_type(type_)
    name = re.sub(r"[^\w.-]+", "_", path).strip("_")[:60]
    return {
        "path": path,
        "kind": kind,
        "type": type_to_data(type_),
        "store": f"{number:05d}_{name}".rstrip("_"),
        "chunk": list(_chunk(stored.shape, shard, stored.dtype.itemsize)),
    }


def _chunk(shape: Sequence[int], shard: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The shape of the chunks of an array: shards, cut along leading dimensions if too large."""
    chunk = list(shard)
    for dimension, length in enumerate(shape):
        parts = ceil(prod(chunk) * itemsize / CHUNK_BYTES)
        if parts > 1:
            whole = chunk[dimension] == length
            chunk[dimension] = _chunk_length(chunk[dimension], parts, whole)
    return tuple(max(1, length) for length in chunk)


def _chunk_length(length: int, parts: int, whole: bool) -> int:
    """The length of about `parts` parts. A dimension that is not `whole` in a shard is divided
    evenly or not at all, since no chunk belongs to two shards."""
    if parts >= length:
        return 1
    for count in range(parts, 2 * parts):
        if length % count == 0:
            return length // count
    return ceil(length / parts) if whole else length


def _number_to_data(value: Any) -> dict[str, Any] | None:
    """A Python number or string as exact data; None for anything else."""
    kind = type(value)
    if kind is bool or kind is str:
        return {"kind": kind.__name__, "value": value}
    if kind is int:
        return {"kind": "int", "value": hex(value)}
    if kind is float:
        return {"kind": "float", "value": value.hex()}
    if kind is complex:
        return {"kind": "complex", "value": [value.real.hex(), value.imag.hex()]}
    return None


def number_from_data(record: dict[str, Any]) -> Any:
    """The number or string that was written."""
    kind, value = record["kind"], record["value"]
    if kind == "int":
        return int(value, 16)
    if kind == "float":
        return float.fromhex(value)
    if kind == "complex":
        return complex(*map(float.fromhex, value))
    return value
