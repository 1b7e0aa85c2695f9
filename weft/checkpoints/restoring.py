"""Reading a checkpoint: each process reads the chunks that its devices need, and verifies them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import Array, array_at, as_stored, to_layout
from weft.arrays.shards import parts_of, put_parts
from weft.arrays.transfers import explicit_transfers
from weft.checkpoints.checked_content import check_chunks, checked_content
from weft.checkpoints.chunks import LeafStore, tensorstore
from weft.checkpoints.commit import COMMIT, read_content
from weft.checkpoints.saved_leaves import ARRAYS, number_from_data
from weft.checkpoints.saved_trees import matched_leaves, plain_tree
from weft.checkpoints.saving import checked_path
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import describe_value
from weft.export.container import Fields
from weft.export.serialized_values import type_from_data
from weft.ops.structural.extended_dtypes import physical_type
from weft.ops.structural.sharding_constraint import as_format, is_place, unless_simulated
from weft.runtime import client
from weft.sharding import Layout, Sharding

# Reads that are begun before the first of them is made an array: enough to keep a disk busy. The
# memory that TensorStore reads into is used again, which costs less than new memory.
_BYTES_AT_ONCE = 256 << 20
# Chunks that are kept until all blocks in them are read: all of one leaf.
_ALL = 1 << 60


@api_boundary("checkpoints.restore")
def restore(path: str | os.PathLike[str], like: Any = None, shardings: Any = None) -> Any:
    """The tree that was saved at `path`.

    Every process of the program has to call it, and reads only what its devices need. See `save`
    for an example.

    Args:
        path: The directory that was saved.
        like (tree of arrays): A tree of the same structure, of arrays, `ShapeDtypeStruct`s, numbers
            and strings; its shapes and dtypes have to be those that were saved. The result has its
            containers, and arrays where it has arrays, with its shardings. Without it named tuples
            and classes come back as dicts, and arrays on the default device.
        shardings (tree of shardings): Where arrays are to be, as a tree prefix of the result:
            shardings, devices, specs over the mesh in force, or None, which leaves it to `like`.
            The mesh and the number of processes may be others than those of the program that saved.

    Raises CheckpointError where the checkpoint is missing, incomplete or changed, TreeError,
    ShapeError, DTypeError or WeftTypeError where `like` does not fit, and PlatformError without
    TensorStore.
    """
    operation = "checkpoints.restore"
    return read(checked_path(path, operation), like, shardings, operation)


def read(path: pathlib.Path, like: Any, shardings: Any, operation: str) -> Any:
    """The tree of a checkpoint; see `restore`."""
    tensorstore(operation)
    saved, records = checked_content(read_content(path / COMMIT), path)
    if like is None:
        plain = plain_tree(saved, list(range(len(records))))
        numbers, structure = tree.flatten(plain)
        templates: list[Any] = [None] * len(numbers)
    else:
        structure = tree.structure(like)
        rows = list(matched_leaves(saved, like, operation))
        numbers, templates = [number for _, number, _ in rows], [leaf for _, _, leaf in rows]
    places = tree.prefix_leaves(f"{operation}: shardings", shardings, structure, is_leaf=is_place)
    wanted = [
        _target(records[number], template, place, path, operation)
        for number, template, place in zip(numbers, templates, places, strict=True)
    ]
    with explicit_transfers():
        return structure.unflatten(_read_all(wanted))


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """The target of a saved leaf: a number (no `store`), a NumPy array or scalar (`kind`), or an
    array with its type, place and layout."""

    kind: str
    value: Any
    type: ArrayType
    store: LeafStore | None = None
    place: Any = None
    layout: Layout | None = None


_NO_TYPE = ArrayType((), np.dtype(np.bool_))


def _target(
    record: dict[str, Any], template: Any, place: Any, path: pathlib.Path, operation: str
) -> _Wanted:
    """The target of a leaf. Raises an error if the template does not fit the saved leaf."""
    name, kind = record["path"] or "at the top", record["kind"]
    if kind not in ARRAYS:
        value = number_from_data(record)
        if template is not None and type(template) is not type(value):
            raise _not_alike(name, kind, template, operation)
        return _Wanted(kind, value, _NO_TYPE)
    saved = _saved_type(record, name, path)
    if template is not None:
        kind = _kind_of(template)
        if not kind:
            raise _not_alike(name, f"array {saved}", template, operation)
        saved = _restored_type(saved, template, name, operation)
        if place is None and kind == "array":
            place = _place_of(template)
    stored = physical_type(saved)
    check_chunks(record, stored.shape, stored.dtype.itemsize, path)
    device, layout = as_format(place, operation, f"the leaf {name}", saved.shape)
    if isinstance(device, Sharding):
        device.check_shape(operation, f"the leaf {name}", saved.shape)
        device = unless_simulated(device)
    if device is not None:
        kind = "array"
    return _Wanted(kind, None, saved, LeafStore(path, record, saved, operation), device, layout)


def _saved_type(record: dict[str, Any], name: str, path: pathlib.Path) -> ArrayType:
    try:
        return type_from_data(Fields(record["type"], f"the leaf {name}"))
    except WeftValueError as error:  # Such as a generator of random keys that is not here.
        message = f"the leaf {name} of the checkpoint {path} has no meaning here"
        raise WeftValueError(message, got=error.got, wanted=error.wanted, fix=error.fix) from None


def _kind_of(template: Any) -> str:
    """The kind of array that a leaf of `like` is; None for other leaves."""
    if isinstance(template, np.ndarray):
        return "numpy"
    if isinstance(template, np.generic):
        return "numpy scalar"
    return "array" if isinstance(template, (Array, ShapeDtypeStruct)) else ""


def _place_of(template: Any) -> Any:
    committed = isinstance(template, ShapeDtypeStruct) or getattr(template, "committed", False)
    return template.format if committed else None


def _restored_type(saved: ArrayType, template: Any, name: str, operation: str) -> ArrayType:
    """The type to restore. Raises ShapeError or DTypeError if the template has another one."""
    got = f"{template.dtype} of shape {template.shape} in `like`"
    wanted = f"{saved}, as it was saved"
    if tuple(template.shape) != saved.shape:
        message = f"{operation}: the leaf {name} was saved with another shape"
        fix = Fix("shape", f"give it the shape {saved.shape} in `like`", {"shape": saved.shape})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    if template.dtype != saved.dtype:
        message = f"{operation}: the leaf {name} was saved with another dtype"
        text = f"give it the dtype {saved.dtype} in `like`, and convert it after"
        fix = Fix("dtype", text, {"dtype": saved.dtype})
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return saved.update(weak_type=bool(getattr(template, "weak_type", False)))


def _not_alike(name: str, saved: str, template: Any, operation: str) -> WeftTypeError:
    message = f"{operation}: the leaf {name} was saved as {saved}"
    fix = Fix("like", "put a value of the same kind there in `like`, or leave `like` out")
    return WeftTypeError(
        message, got=f"{describe_value(template)} in `like`", wanted=saved, fix=fix
    )


# ---- reading -------------------------------------------------------------------------------------

# What waits for the reads of a leaf and makes its array, and the bytes of it that are read.
_Finish = tuple[int, Callable[[], Any]]


def _read_all(wanted: Sequence[_Wanted]) -> list[Any]:
    """Reads the leaves in order, with enough in flight to keep disk and memory busy."""
    results: list[Any] = []
    begun: deque[_Finish] = deque()
    pending = 0
    for leaf in wanted:
        size, finish = _begin(leaf)
        begun.append((size, finish))
        pending += size
        while pending > _BYTES_AT_ONCE:
            size, finish = begun.popleft()
            results.append(finish())
            pending -= size
    results += [finish() for _, finish in begun]
    return results


def _begin(leaf: _Wanted) -> _Finish:
    store = leaf.store
    if store is None:
        return 0, lambda: leaf.value
    if leaf.place is not None:
        return _begin_parts(leaf, store)
    stored = physical_type(leaf.type)
    ((size, values, futures),) = _begin_blocks(store, [(0,) * stored.ndim], stored.shape)

    def finish() -> Any:
        store.wait(futures)
        if leaf.kind == "numpy":
            return values
        if leaf.kind == "numpy scalar":
            return values[()]
        # The device may have the memory: nothing else does.
        return as_stored(values, leaf.type, None, leaf.layout, copy=False)

    return size, finish


def _begin_parts(leaf: _Wanted, store: LeafStore) -> _Finish:
    """Starts reading the blocks of an array on this process's devices."""
    parts = parts_of(leaf.place, leaf.type)
    block_type = physical_type(parts.block_type)
    rows = block_type.ndim - leaf.type.ndim
    starts = [(*(where.start or 0 for where in index), *(0,) * rows) for index in parts.indices]
    read = _begin_blocks(store, starts, block_type.shape)

    def finish() -> Array:
        store.wait([future for _, _, futures in read for future in futures])
        # Nothing else has the memory, and XLA writes no memory that it was lent.
        buffer = put_parts([values for _, values, _ in read], parts, copy=False)
        return to_layout(array_at(buffer, leaf.type, parts.place), leaf.layout)

    return sum(size for size, _, _ in read), finish


_Read = tuple[int, np.ndarray[Any, Any], list[Any]]


def _begin_blocks(
    store: LeafStore, starts: Sequence[tuple[int, ...]], shape: tuple[int, ...]
) -> list[_Read]:
    """Starts reading blocks of one shape: for each its bytes, its memory, and its future."""
    if not prod(shape):
        return [(0, client.backend().host_memory(shape, store.dtype), []) for _ in starts]
    for key in sorted({key for start in starts for key in store.keys(start, shape)}):
        store.check(key)
    # Where several blocks lie in one chunk, it is read once and kept until they have it.
    kept = 0 if all(store.is_aligned(start, shape) for start in starts) else _ALL
    store.open(cache_bytes=kept)
    out: list[_Read] = []
    for start in starts:
        memory = client.backend().host_memory(shape, store.dtype)
        out.append((memory.nbytes, memory, [store.read(start, memory)]))
    return out
