"""The arrays of a checkpoint in files: TensorStore's zarr3 driver, one file for each chunk.

A chunk's file holds its bytes, uncompressed, and behind them their CRC-32C. TensorStore writes and
verifies it. The commit has it too, with the size, so that a chunk of another checkpoint is not
taken for one of this.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.checkpoints.commit import CRC_BYTES, damaged_error, described_error
from weft.checkpoints.saved_leaves import Block
from weft.core.types import ArrayType
from weft.errors import CheckpointError, Fix, PlatformError
from weft.errors.argument_errors import refusal
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime.jaxlib.lazy import LazyModule

ARRAYS_FOLDER = "arrays"

_tensorstore: Any = LazyModule("tensorstore")

# Dtypes that every reader of zarr's third version knows. Others are stored as their bytes.
_NAMES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128".split()
)
_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
# No two processes write one chunk, and nothing reads before all is written. The files are synced
# by their writer, many at once: TensorStore would sync each directory once for each file in it.
_CONTEXT = {"file_io_locking": {"mode": "none"}, "file_io_sync": False}
# Files are mapped into memory: from the page cache that is half of the work of copying them. The
# price: where a disk fails in the middle of a file, the system ends the process (SIGBUS).
_READING = {**_CONTEXT, "file_io_mode": {"mode": "memmap"}}


def tensorstore(operation: str) -> Any:
    """TensorStore. Raises PlatformError if it is not installed."""
    try:
        _tensorstore.Spec  # noqa: B018 - the first use imports it
    except ImportError as error:
        message = f"{operation} needs TensorStore, which is not installed"
        fix = Fix("install", "pip install 'weft[checkpoint]', or pip install tensorstore")
        raise refusal(PlatformError, message, operation, f"{error}", fix=fix) from None
    return _tensorstore


@dataclasses.dataclass(frozen=True)
class Writing:
    """A write in progress; `keys` are its chunks."""

    future: Any
    keys: tuple[str, ...]


class LeafStore:
    """The files of one leaf."""

    def __init__(
        self, checkpoint: pathlib.Path, record: dict[str, Any], type_: ArrayType, operation: str
    ) -> None:
        self.checkpoint, self.record, self.operation = checkpoint, record, operation
        self.path = checkpoint / ARRAYS_FOLDER / record["store"]
        stored = physical_type(type_)
        self.shape, self.dtype = stored.shape, stored.dtype
        self.chunk = tuple(record["chunk"])
        self._opened: Any = None

    # ---- TensorStore -----------------------------------------------------------------------------

    def _spec(self) -> dict[str, Any]:
        name = self.dtype.name if self.dtype.name in _NAMES else "uint8"
        zero: Any = [0, 0] if self.dtype.kind == "c" else 0
        return {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": os.fspath(self.path.absolute())},
            "metadata": {
                "shape": list(self.shape),
                "data_type": name,
                "fill_value": False if name == "bool" else zero,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": self.chunk}},
                "codecs": _CODECS,
            },
            # A chunk of zeros is written, and one that is missing is an error.
            "store_data_equal_to_fill_value": True,
            "fill_missing_data_reads": False,
        }

    def create(self) -> Any:
        """Starts writing the description of the array; returns its future."""
        ts = tensorstore(self.operation)
        self._opened = ts.open(self._spec(), create=True, context=ts.Context(_CONTEXT))
        return self._opened

    def open(self, cache_bytes: int = 0) -> Any:
        """Opens the array as its record describes it; no file is read."""
        ts = tensorstore(self.operation)
        context = ts.Context(_READING | {"cache_pool": {"total_bytes_limit": cache_bytes}})
        self._opened = ts.open(self._spec(), open=True, assume_metadata=True, context=context)
        return self._opened

    def _region(self, start: Sequence[int], shape: Sequence[int]) -> Any:
        # A chunk at the end may hang over: its file is whole, the array is not.
        index = tuple(slice(n, n + length) for n, length in zip(start, shape, strict=True))
        return self._opened.result()[index]

    def write(self, block: Block) -> Writing:
        """Starts writing a block, whose memory must not change afterwards."""
        future = self._region(block.start, block.values.shape).write(
            self._as_stored(block.values), can_reference_source_data_indefinitely=True
        )
        return Writing(future.commit, tuple(self.keys(block.start, block.values.shape)))

    def read(self, start: Sequence[int], into: np.ndarray[Any, Any]) -> Any:
        """Begins to read a block into memory; returns what to wait for."""
        target = tensorstore(self.operation).array(self._as_stored(into), write=True, copy=False)
        source = self._region(start, into.shape)
        return target.write(source.translate_to[(0,) * into.ndim] if into.ndim else source).commit

    def _as_stored(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return values if self.dtype.name in _NAMES else values.view(np.uint8)

    # ---- files of chunks -------------------------------------------------------------------------

    def keys(self, start: Sequence[int], shape: Sequence[int]) -> Iterator[str]:
        """The names of the files with the chunks that a block lies in."""
        if not prod(shape):
            return
        ranges = [
            range(first // size, (first + length - 1) // size + 1)
            for first, length, size in zip(start, shape, self.chunk, strict=True)
        ]
        for numbers in itertools.product(*ranges):
            yield "/".join(("c", *map(str, numbers)))

    def all_keys(self) -> Iterator[str]:
        """The names of the files with all chunks."""
        return self.keys((0,) * len(self.shape), self.shape)

    def is_aligned(self, start: Sequence[int], shape: Sequence[int]) -> bool:
        """Whether a block begins and ends at boundaries of chunks."""
        return all(
            first % size == 0 and ((first + length) % size == 0 or first + length == whole)
            for first, length, size, whole in zip(start, shape, self.chunk, self.shape, strict=True)
        )

    def seal(self, key: str, synced: bool = False) -> list[Any]:
        """The size and the CRC of a chunk's file for the commit; `synced`: once the disk has it."""
        with open(self.path / key, "rb") as file:
            if synced:
                os.fsync(file.fileno())
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - CRC_BYTES))
            return [size, file.read(CRC_BYTES).hex()]

    def check(self, key: str) -> None:
        """Raises CheckpointError for a chunk file that differs from the written one."""
        leaf, wanted = self.record["path"] or "at the top", self.record["chunks"][key]
        try:
            found = self.seal(key)
        except OSError as error:
            message = f"a part of the leaf {leaf} is missing in the checkpoint {self.checkpoint}"
            got = f"no chunk {key}" if isinstance(error, FileNotFoundError) else f"{error}"
            raise damaged_error(message, self.checkpoint, got) from None
        if found == wanted:
            return
        if found[0] != wanted[0]:
            what, got, needed = "cut short or longer", f"{found[0]} bytes", f"{wanted[0]} bytes"
        else:
            what, got, needed = "not as it was saved", f"CRC {found[1]}", f"CRC {wanted[1]}"
        message = f"a part of the leaf {leaf} is {what} in the checkpoint {self.checkpoint}"
        wanted_text = f"{needed} of the chunk {key}"
        raise damaged_error(message, self.checkpoint, got, wanted_text)

    def wait(self, reads: Sequence[Any]) -> None:
        """Waits for reads. Raises CheckpointError if a chunk's bytes have changed."""
        try:
            for future in reads:
                future.result()
        except (ValueError, OSError) as error:
            raise self.unreadable(error) from None
        self._opened = None  # Chunks that it keeps for other blocks are no longer needed.

    def unreadable(self, error: Exception) -> CheckpointError:
        """The error for a chunk that TensorStore refuses."""
        leaf = self.record["path"] or "at the top"
        what = "cannot be read from"
        if "Digest mismatch" in str(error):
            what = "was changed after it was saved, in"
        message = f"a part of the leaf {leaf} {what} the checkpoint {self.checkpoint}"
        return damaged_error(message, self.checkpoint, described_error(error))
