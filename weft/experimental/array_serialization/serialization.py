"""Arrays in files by way of TensorStore, for a program of one process.

TensorStore is a package of its own, imported when something is written or read.
"""

from __future__ import annotations

import abc
import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.api.device_put import device_put
from weft.base.facades import public_names
from weft.checkpoints.chunks import tensorstore
from weft.core.shape_struct import ShapeDtypeStruct

__all__ = [
    "AsyncManager", "BarrierTimeoutError", "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase", "async_deserialize", "async_serialize",
    "get_tensorstore_spec", "is_remote_storage", "run_deserialization", "run_serialization",
]  # fmt: skip

__dir__ = public_names(globals())

_OPERATION = "array_serialization"
_REMOTE = {"gs": "gcs", "s3": "s3"}


class BarrierTimeoutError(Exception):
    """Raised where processes waited too long for one another. There is one, so none is raised."""


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str], *, ocdbt: bool = False, process_idx: int | None = None,
    arr: Any = None, driver: str = "zarr",
) -> dict[str, Any]:  # fmt: skip
    """The description of an array at a path, a file's or one that begins with gs:// or s3://.

    Args:
        ckpt_path: The path of the array.
        ocdbt: Whether arrays are the entries of a database in the directory, in the format OCDBT.
        process_idx: The number of the writing process, which then has a database of its own.
        arr: The array whose shape and dtype the description gets; None for neither.
        driver: The format of the array: "zarr" or "zarr3".

    >>> from weft.experimental.array_serialization.serialization import get_tensorstore_spec
    >>> get_tensorstore_spec("/tmp/w")
    {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': '/tmp/w'}}
    """
    path = os.fspath(ckpt_path)
    scheme, divided, rest = path.partition("://")
    remote = bool(divided) and scheme in _REMOTE
    if not remote:
        path = os.path.normpath(path)

    def place(path: str) -> dict[str, Any]:
        if not remote:
            return {"driver": "file", "path": path}
        bucket, _, inner = path.partition("://")[2].partition("/")
        return {"driver": _REMOTE[scheme], "bucket": bucket, "path": inner}

    if not ocdbt:
        spec: dict[str, Any] = {"driver": driver, "kvstore": place(path)}
    else:
        base, _, name = path.rpartition("/")
        if process_idx is not None:
            base = f"{base}/ocdbt.process_{process_idx}"
        store = {"driver": "ocdbt", "base": place(base), "path": name}
        spec = {"driver": driver, "kvstore": store}
    if arr is not None:
        spec["metadata"] = _metadata(arr, driver)
        spec["dtype"] = np.dtype(arr.dtype).name
    return spec


def _metadata(arr: Any, driver: str) -> dict[str, Any]:
    shape = list(arr.shape)
    if driver == "zarr3":
        return {"shape": shape}
    return {"shape": shape, "chunks": [max(n, 1) for n in shape], "compressor": {"id": "zstd"}}


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Whether a description, or a path, is of a store that is not on this machine.

    Args:
        tspec: A description as `get_tensorstore_spec` makes it, or a path.
    """
    if isinstance(tspec, str):
        return tspec.partition("://")[0] in _REMOTE
    return any(
        is_remote_storage(value) if isinstance(value, dict) else value in _REMOTE.values()
        for key, value in tspec.items()
        if key in ("driver", "base", "kvstore")
    )


def _describe(spec: Any, arr: Any) -> Any:
    """The description to create an array by."""
    spec = dict(spec)
    spec.setdefault("metadata", _metadata(arr, spec.get("driver", "zarr")))
    spec.setdefault("dtype", np.dtype(arr.dtype).name)
    return spec


async def async_serialize(arr_inp: Any, tensorstore_spec: Any, *_: Any, **__: Any) -> None:
    """Writes an array as a whole.

    Args:
        arr_inp: The array to write.
        tensorstore_spec: The description of the store, as `get_tensorstore_spec` makes it.
        _, __: Further arguments of JAX's function, which have no meaning here.
    """
    spec = _describe(tensorstore_spec, arr_inp)
    store = await tensorstore(_OPERATION).open(spec, create=True, open=True)
    await store.write(np.asarray(arr_inp))


async def async_deserialize(
    in_type: Any, tensorstore_spec: Any, global_shape: Sequence[int] | None = None,
    dtype: Any = None, *_: Any, **__: Any,
) -> Any:  # fmt: skip
    """Reads an array, and places it by a sharding, or by that of a ShapeDtypeStruct.

    A larger `global_shape` is filled with zeros, a smaller one is cut out.

    Args:
        in_type: The sharding of the array, a ShapeDtypeStruct that has one, or None for the default
            device.
        tensorstore_spec: The description of the store, as `get_tensorstore_spec` makes it.
        dtype: The dtype of the result; None for that of a ShapeDtypeStruct, or else the stored one.
        _, __: Further arguments of JAX's function, which have no meaning here.
    """
    store = await tensorstore(_OPERATION).open(tensorstore_spec, open=True)
    host = np.asarray(await store.read())
    sharding = in_type
    if isinstance(in_type, ShapeDtypeStruct):
        sharding, dtype = in_type.sharding, dtype or in_type.dtype
        global_shape = global_shape or in_type.shape
    if global_shape is not None and tuple(global_shape) != host.shape:
        full = np.zeros(tuple(global_shape), host.dtype)
        part = tuple(slice(min(a, b)) for a, b in zip(full.shape, host.shape, strict=True))
        full[part] = host[part]
        host = full
    array = jnp.asarray(host, dtype)
    return array if sharding is None else device_put(array, sharding)


def run_serialization(arrays: Sequence[Any], tensorstore_specs: Sequence[Any]) -> None:
    """Writes several arrays.

    Args:
        arrays: The arrays to write.
        tensorstore_specs: The description of each array's store.
    """
    pairs = [(x, _describe(s, x)) for x, s in zip(arrays, tensorstore_specs, strict=True)]
    opened = [tensorstore(_OPERATION).open(spec, create=True, open=True) for _, spec in pairs]
    writes = [
        store.result().write(np.asarray(x)) for store, (x, _) in zip(opened, pairs, strict=True)
    ]
    for write in writes:
        write.result()


def run_deserialization(
    shardings: Sequence[Any], tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Any] | None = None, dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> list[Any]:  # fmt: skip
    """Reads several arrays, and places each by its sharding (or None).

    Args:
        shardings: The sharding of each array.
        tensorstore_specs: The description of each array's store.
        global_shapes: The wanted shape of each array, or None; None for the stored ones.
        dtypes: The wanted dtype of each array, or None; None for the stored ones.
        concurrent_gb: Has no meaning: arrays are read one after the other.
    """
    count = len(tensorstore_specs)
    rows = zip(
        shardings, tensorstore_specs, global_shapes or [None] * count, dtypes or [None] * count,
        strict=True,
    )  # fmt: skip

    async def each() -> list[Any]:
        return [await async_deserialize(*row) for row in rows]

    return asyncio.run(each())


class AsyncManager:
    """Writing in the background: one write at a time, whose error is raised at the next call.

    Args:
        timeout_secs: Kept as an attribute; writing takes as long as it takes.
    """

    def __init__(self, timeout_secs: float = 300) -> None:
        self.timeout_secs = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def check_for_errors(self) -> None:
        """Raises the error of a write that has ended."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait_until_finished(self) -> None:
        """Waits for the write that is going on, and raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()

    def _start(self, work: Callable[[], None]) -> None:
        self.wait_until_finished()

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - raised at the next call
                self._error = error

        self._thread = threading.Thread(target=guarded, daemon=True)
        self._thread.start()


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """What checkpoint managers do."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raises the error of a write that has ended."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Waits until everything is written."""

    # Writes arrays, `serialize(arrays, tensorstore_specs, ...)`, and reads them,
    # `deserialize(shardings, tensorstore_specs, ...)`.
    serialize: Any
    deserialize: Any


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes arrays in the background, and reads them.

    Args:
        timeout_secs: Kept as an attribute; writing takes as long as it takes.
    """

    def serialize(
        self, arrays: Any, tensorstore_specs: Any, *,
        on_commit_callback: Callable[[], None] | None = None, transaction: Any = None,
    ) -> None:  # fmt: skip
        """Copies the arrays to the host and writes them in the background, then calls back."""
        host = [np.asarray(x) for x in arrays]

        def work() -> None:
            run_serialization(host, tensorstore_specs)
            if on_commit_callback is not None:
                on_commit_callback()

        tensorstore(_OPERATION)
        self._start(work)

    def serialize_with_paths(
        self, arrays: Sequence[Any], paths: Sequence[str], **options: Any
    ) -> None:
        """`serialize` at paths."""
        self.serialize(arrays, [get_tensorstore_spec(path) for path in paths], **options)

    def deserialize(
        self, shardings: Any, tensorstore_specs: Any, global_shapes: Any = None,
        dtypes: Any = None, concurrent_gb: int = 32,
    ) -> list[Any]:  # fmt: skip
        """Waits for writes, then reads arrays and places each by its sharding."""
        self.wait_until_finished()
        return run_deserialization(
            shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb
        )

    def deserialize_with_paths(
        self, shardings: Sequence[Any], paths: Sequence[str], **options: Any
    ) -> list[Any]:
        """`deserialize` from paths."""
        return self.deserialize(shardings, [get_tensorstore_spec(p) for p in paths], **options)
