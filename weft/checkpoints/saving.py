"""Writing a checkpoint, by all processes of a program together.

A checkpoint is written under another name, `<name>.partial`. Each process writes its chunks and a
file that lists them; when all have, process 0 writes the commit and gives the directory its name,
which is one step for every file system. So a directory with the name is complete, whatever process
was killed when. A lock on the directory, which its writer's end releases, tells a partial one that
is being written from a left one.

No process leaves out a barrier: one that fails says so in its file, and the others hear of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import pathlib
import secrets
import shutil
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np

from weft.checkpoints.chunks import ARRAYS_FOLDER, LeafStore, Writing, tensorstore
from weft.checkpoints.commit import (
    COMMIT,
    described_error,
    digest_of,
    read_content,
    sync,
    write_content,
)
from weft.checkpoints.saved_leaves import ARRAYS, SavedLeaf, Snapshot, snapshot
from weft.distributed.host_data import broadcast_one_to_all, sync_global_devices
from weft.errors import CheckpointError, Fix, WeftValueError, api_boundary
from weft.export.container import Fields
from weft.export.serialized_values import type_from_data
from weft.runtime import client

PARTIAL = ".partial"
_PARTS = "processes"
_TOKEN = "program"
# Files that are synced at once: the disk writes several with one turn of its journal.
_SYNCS = 16


@api_boundary("checkpoints.save")
def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Saves a tree of arrays as the directory `path`, which comes to be when all of it is written.

    Every process of the program has to call it, and writes the parts of arrays that its devices
    have; of what each process has for itself, that of process 0 is saved.

    Args:
        path: The directory to make, on a file system that all processes see.
        tree (tree of arrays): What is saved. Leaves are arrays of weft (also over several
            processes, and random keys), NumPy arrays, and Python's numbers and strings.

    Raises WeftValueError where there is something at `path` already, WeftTypeError for leaves that
    cannot be saved, CheckpointError where a process cannot write its part (nothing is left at
    `path` then), and PlatformError without TensorStore.

    >>> import tempfile, weft
    >>> folder = tempfile.TemporaryDirectory()
    >>> weft.checkpoints.save(folder.name + "/model", {"w": jnp.ones(3), "step": 7})
    >>> weft.checkpoints.restore(folder.name + "/model")
    {'step': 7, 'w': Array([1., 1., 1.], dtype=float32)}
    >>> folder.cleanup()
    """
    operation = "checkpoints.save"
    tensorstore(operation)
    target = checked_path(path, operation)
    check_free(target, operation)
    write(target, snapshot(tree, operation, copied=False), program_token(), operation)


def checked_path(path: Any, operation: str) -> pathlib.Path:
    """A path of this machine. Raises WeftValueError for an address of a remote store."""
    text = os.fspath(path)
    if "://" in text:
        message = f"{operation}: checkpoints are directories of a file system"
        fix = Fix("path", "give a path, of a file system that all processes see")
        raise WeftValueError(message, got=repr(text), wanted="a path", fix=fix)
    return pathlib.Path(text).absolute()


def check_free(target: pathlib.Path, operation: str) -> None:
    """Raises WeftValueError where there is something at a path."""
    if target.exists():
        message = f"{operation}: there is something at {target} already"
        fix = Fix("path", "save under another name or step, or remove it first")
        raise WeftValueError(message, got=str(target), wanted="a path that is free", fix=fix)


def write(
    target: pathlib.Path,
    taken: Snapshot,
    token: str,
    operation: str,
    clean: Callable[[], None] = lambda: None,
) -> None:
    """Writes a checkpoint together with the other processes; returns when it is complete. `token`
    is the program's. Process 0 calls `clean` first. Raises CheckpointError if any process cannot
    write."""
    partial = target.with_name(target.name + PARTIAL)
    first = client.process_index() == 0
    failure: CheckpointError | None = None

    def attempt(work: Callable[[], None]) -> None:
        nonlocal failure
        if failure is None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the barriers follow
                failure = _write_error(error, target, operation)

    with contextlib.ExitStack() as stack:
        if first:
            attempt(clean)
            attempt(lambda: stack.enter_context(_new_directory(partial, token)))
        sync_global_devices(f"checkpoint begins: {target}")
        part = _Part(partial, taken, token, operation)
        attempt(part.write)
        part.say(failure)
        sync_global_devices(f"checkpoint is written: {target}")
        if first:
            attempt(lambda: _commit(partial, target, taken, operation))
        sync_global_devices(f"checkpoint is there: {target}")
    if failure is None and not _is_there(target):
        failure = _write_error(FileNotFoundError("see the error of process 0"), target, operation)
    if failure is not None:
        raise failure


def _is_there(target: pathlib.Path) -> bool:
    # Opening a directory looks at what it has now; a question for one name may be answered from
    # what a file system of several machines remembers.
    try:
        return target.name in os.listdir(target.parent)
    except OSError:
        return False


def _write_error(error: Exception, target: pathlib.Path, operation: str) -> CheckpointError:
    if isinstance(error, CheckpointError):
        return error
    message = f"the checkpoint {target} was not written: {described_error(error)}"
    fix = Fix("write", "see that all processes can write there and have room, and save again")
    made = CheckpointError(message, operation=operation, fix=fix)
    made.__cause__ = error
    return made


# ---- the directory while it is written -----------------------------------------------------------


@functools.cache
def program_token() -> str:
    """A text that only the processes of this program share. All of them make the first call at the
    same place."""
    drawn = np.frombuffer(secrets.token_bytes(16), np.uint8)
    agreed = broadcast_one_to_all(drawn) if client.process_count() > 1 else drawn
    return bytes(agreed).hex()


@contextlib.contextmanager
def _new_directory(partial: pathlib.Path, token: str) -> Any:
    """Makes the directory, and locks it."""
    if not remove_abandoned(partial):
        raise _in_use(partial)
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.mkdir()
    number = os.open(partial, os.O_RDONLY)
    try:
        # Before the lock, another program may have taken it for one that was left.
        if not _lock(number) or not os.path.samestat(os.fstat(number), partial.stat()):
            raise _in_use(partial)
        (partial / ARRAYS_FOLDER).mkdir()
        (partial / _PARTS).mkdir()
        (partial / _TOKEN).write_text(token)
        yield
    finally:
        os.close(number)


def _in_use(partial: pathlib.Path) -> FileExistsError:
    return FileExistsError(f"another program is writing {partial}")


def _lock(number: int) -> bool:
    """Locks an open directory unless it is locked; some file systems have no locks."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def remove_abandoned(path: pathlib.Path) -> bool:
    """Removes the files of a killed writer; False if a writer is at work."""
    try:
        number = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        if not _lock(number):
            return False
        shutil.rmtree(path)
        return True
    finally:
        os.close(number)


# ---- the part of a process -----------------------------------------------------------------------


class _Part:
    """This process's part of a checkpoint."""

    def __init__(self, partial: pathlib.Path, taken: Snapshot, token: str, operation: str) -> None:
        self.partial, self.taken, self.operation = partial, taken, operation
        self.token = token
        self.chunks: dict[str, dict[str, Any]] = {}

    def _has_directory(self) -> bool:
        """Whether process 0 of this program has made the directory."""
        try:
            return (self.partial / _TOKEN).read_text() == self.token
        except OSError:
            return False

    def write(self) -> None:
        """Writes the chunks, and waits until the disk has them."""
        if not self._has_directory():
            raise FileNotFoundError(f"process 0 made no directory {self.partial} that is seen here")
        first = client.process_index() == 0
        stores = [
            (leaf, self._store(leaf))
            for leaf in self.taken.leaves
            if "store" in leaf.record and (leaf.blocks or first)
        ]
        for future in [store.create() if first else store.open() for _, store in stores]:
            future.result()
        written = [(store, store.write(block)) for leaf, store in stores for block in leaf.blocks]
        with ThreadPool(_SYNCS) as pool:
            sealed = pool.map(_seal, written, chunksize=1)
        for (store, _), seals in zip(written, sealed, strict=True):
            self.chunks.setdefault(store.record["store"], {}).update(seals)

    def _store(self, leaf: SavedLeaf) -> LeafStore:
        return _store_of(self.partial, leaf, self.operation)

    def say(self, failure: CheckpointError | None) -> None:
        """Tells process 0 that this part is written, or why it failed."""
        content = {
            "tree": _digest(self.taken),
            "leaves": [_type_only(leaf.record) for leaf in self.taken.leaves],
            "chunks": self.chunks,
            "failure": None if failure is None else failure.message,
        }
        if not self._has_directory():
            return
        with contextlib.suppress(OSError):  # Then process 0 misses the file.
            write_content(self.partial / _PARTS / f"{client.process_index()}.json", content)


def _seal(written: tuple[LeafStore, Writing]) -> dict[str, Any]:
    """The sizes and CRCs of the files of a write, once the disk has them."""
    store, writing = written
    writing.future.result()
    return {key: store.seal(key, synced=True) for key in writing.keys}


def _store_of(partial: pathlib.Path, leaf: SavedLeaf, operation: str) -> LeafStore:
    fields = Fields(leaf.record["type"], leaf.record["path"])
    return LeafStore(partial, leaf.record, type_from_data(fields), operation)


def _type_only(record: dict[str, Any]) -> dict[str, Any]:
    """The part of a leaf's record that all processes share: numbers may differ."""
    return {name: value for name, value in record.items() if name != "value"}


def _digest(taken: Snapshot) -> str:
    return digest_of([taken.structure, [_type_only(leaf.record) for leaf in taken.leaves]])


# ---- the commit ----------------------------------------------------------------------------------


def _commit(partial: pathlib.Path, target: pathlib.Path, taken: Snapshot, operation: str) -> None:
    """Records the files that all processes wrote, and renames the directory."""
    chunks: dict[str, dict[str, Any]] = {}
    for number in range(client.process_count()):
        for name, seals in _part_of(number, target, partial, taken, operation)["chunks"].items():
            chunks.setdefault(name, {}).update(seals)
    records = []
    for leaf in taken.leaves:
        record = leaf.record
        if record["kind"] in ARRAYS:
            found = chunks.get(record["store"], {})
            wanted = set(_store_of(partial, leaf, operation).all_keys())
            if wanted != set(found):
                # Each process took it for one of another process's own.
                what = f"no process wrote all of the leaf {record['path']}"
                text = "put the array on devices of process 0 too, with weft.device_put"
                raise _unfit(target, operation, what, text)
            record = {**record, "chunks": found}
        records.append(record)
    content = {"structure": taken.structure, "leaves": records}
    write_content(partial / COMMIT, content)
    shutil.rmtree(partial / _PARTS)
    (partial / _TOKEN).unlink()
    names = [folder for folder, _, _ in os.walk(partial)]
    names += map(os.fspath, (partial / ARRAYS_FOLDER).glob("*/zarr.json"))
    with ThreadPool(_SYNCS) as pool:
        pool.map(sync, names, chunksize=8)
    os.rename(partial, target)
    sync(target.parent)


def _part_of(
    number: int, target: pathlib.Path, partial: pathlib.Path, taken: Snapshot, operation: str
) -> dict[str, Any]:
    """The part of another process. Raises an error if it failed or saves another tree."""
    file = partial / _PARTS / f"{number}.json"
    if not file.exists():
        raise FileNotFoundError(
            f"process {number} wrote nothing that process 0 sees in {partial}: "
            "is it on a file system of all?"
        )
    content: dict[str, Any] = read_content(file)
    if content["failure"] is not None:
        raise OSError(f"process {number} failed: {content['failure']}")
    if content["tree"] == _digest(taken):
        return content
    pairs = zip(content["leaves"], taken.leaves, strict=False)
    differing = [leaf.record["path"] for theirs, leaf in pairs if theirs != _type_only(leaf.record)]
    where = f"at the leaf {differing[0]}" if differing else "in its structure"
    what = f"process {number} saves another tree than process 0, {where}"
    raise _unfit(target, operation, what, "save trees of one structure and types in all processes")


def _unfit(target: pathlib.Path, operation: str, what: str, text: str) -> CheckpointError:
    """The error for processes that differ in something."""
    message = f"the checkpoint {target} was not written: {what}"
    return CheckpointError(message, operation=operation, fix=Fix("processes", text))
