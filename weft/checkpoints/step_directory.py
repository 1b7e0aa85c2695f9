"""`Checkpoints`: the checkpoints of a program's steps in one directory, written in the background,
of which the last ones are kept."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Self

import numpy as np

from weft.checkpoints.chunks import tensorstore
from weft.checkpoints.commit import step_numbers, step_path
from weft.checkpoints.restoring import read
from weft.checkpoints.saved_leaves import Snapshot, snapshot
from weft.checkpoints.saving import (
    PARTIAL,
    check_free,
    checked_path,
    program_token,
    remove_abandoned,
    write,
)
from weft.distributed.host_data import broadcast_one_to_all
from weft.errors import CheckpointError, Fix, api_boundary
from weft.errors.argument_errors import integer_of, negative_value
from weft.runtime import client

_REMOVED = ".removed"


class Checkpoints:
    """The checkpoints of a program's steps in a directory: `step_00000012`, and so on.

    directory: a path, on a file system that all processes of the program see. keep: how many of
    the last steps are kept; None for all. keep_every: steps that are multiples of it are kept
    besides.

    `save` copies the arrays to the host and writes in the background; an error of the writing is
    raised at the next call. As a context manager it waits at the end. All processes of a program
    call the same methods in the same order.

    Raises WeftValueError for numbers that are not counts, and for addresses of remote stores.

    >>> import tempfile, weft
    >>> folder = tempfile.TemporaryDirectory()
    >>> with weft.checkpoints.Checkpoints(folder.name, keep=2) as kept:
    ...     for step in range(4):
    ...         kept.save(step, {"x": jnp.arange(2) + step})
    >>> kept.steps(), kept.restore()
    ([2, 3], {'x': Array([3, 4], dtype=int32)})
    >>> folder.cleanup()
    """

    def __init__(
        self, directory: str | os.PathLike[str], keep: int | None = 3, keep_every: int | None = None
    ) -> None:
        self.directory = checked_path(directory, "Checkpoints")
        for name, value in (("keep", keep), ("keep_every", keep_every)):
            if value is not None and integer_of(value, name, "Checkpoints") < 1:
                raise negative_value("Checkpoints", name, value, "an integer of 1 or more, or None")
        self.keep, self.keep_every = keep, keep_every
        self._writer: threading.Thread | None = None
        # The error of a write that no call has raised. A program that ends, or forgets these
        # checkpoints, after its last `save` is told of it all the same.
        self._errors: list[Exception] = []
        weakref.finalize(self, _report, self._errors)

    def __repr__(self) -> str:
        return f"Checkpoints({os.fspath(self.directory)!r}, steps={self.steps()})"

    # ---- what is there ---------------------------------------------------------------------------

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        return step_numbers(self.directory)

    def latest(self) -> int | None:
        """The last step that has a checkpoint; None if there is none."""
        steps = self.steps()
        return steps[-1] if steps else None

    # ---- writing ---------------------------------------------------------------------------------

    @api_boundary
    def save(self, step: int, tree: Any, wait: bool = False) -> None:
        """Saves a tree as the checkpoint of a step.

        It waits for the write before it, copies what this process writes to the host, and writes in
        the background: arrays may be donated, and NumPy arrays changed, as soon as it returns. With
        `wait` it returns when all is written. The leaves may be those that `weft.checkpoints.save`
        takes.

        Raises the error of the write before it, WeftValueError for a negative step and one that is
        there, and what `weft.checkpoints.save` raises.
        """
        operation = "Checkpoints.save"
        number = integer_of(step, "step", operation)
        if number < 0:
            raise negative_value(operation, "step", step)
        tensorstore(operation)
        self.wait()
        check_free(step_path(self.directory, number), operation)
        token = program_token()
        taken = snapshot(tree, operation, copied=not wait)
        if wait:
            self._write(number, taken, token)
            return
        self._writer = threading.Thread(
            target=self._write_guarded, args=(number, taken, token), name="weft checkpoint"
        )
        self._writer.start()

    @api_boundary
    def wait(self) -> None:
        """Waits for the write in the background, and raises its error."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        if self._errors:
            raise self._errors.pop()

    def _write_guarded(self, step: int, taken: Snapshot, token: str) -> None:
        try:
            self._write(step, taken, token)
        except Exception as error:  # noqa: BLE001 - raised at the next call
            self._errors.append(error)

    def _write(self, step: int, taken: Snapshot, token: str) -> None:
        write(step_path(self.directory, step), taken, token, "Checkpoints.save", self._remove_left)
        if client.process_index() == 0:
            self._remove_old(step)

    def _remove_left(self) -> None:
        """Removes the files of killed writers."""
        for kind in (PARTIAL, _REMOVED):
            for path in self.directory.glob(f"step_*{kind}"):
                remove_abandoned(path)

    def _remove_old(self, newest: int) -> None:
        """Removes the checkpoints of old steps; always keeps the newest."""
        steps = self.steps()
        last = steps if self.keep is None else steps[-self.keep :]
        for step in steps:
            multiple = self.keep_every is not None and step % self.keep_every == 0
            if step != newest and step not in last and not multiple:
                path = step_path(self.directory, step)
                removed = path.with_name(path.name + _REMOVED)
                path.rename(removed)  # In one step: no half of it has the name of a checkpoint.
                shutil.rmtree(removed, ignore_errors=True)  # The next write tries again.

    # ---- reading ---------------------------------------------------------------------------------

    @api_boundary
    def restore(self, step: int | None = None, like: Any = None, shardings: Any = None) -> Any:
        """The tree that was saved at a step, without one at the last; see
        `weft.checkpoints.restore` for `like` and `shardings`. It waits for the write in the
        background.

        Raises CheckpointError if there is no such checkpoint, and what
        `weft.checkpoints.restore` raises.
        """
        operation = "Checkpoints.restore"
        self.wait()
        number = self._agreed_step() if step is None else integer_of(step, "step", operation)
        if number < 0:
            raise _empty_error(self.directory, operation)
        return read(step_path(self.directory, number), like, shardings, operation)

    def _agreed_step(self) -> int:
        """The last step that process 0 sees, -1 for none: shared file systems may show a new
        directory to some machines later."""
        latest = self.latest()
        seen = np.int64(-1 if latest is None else latest)
        return int(broadcast_one_to_all(seen)) if client.process_count() > 1 else int(seen)

    # ---- the end ---------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wait()


def _empty_error(directory: pathlib.Path, operation: str) -> CheckpointError:
    message = f"{operation}: there are no checkpoints in {directory}"
    fix = Fix("latest", "ask first: latest() is None where there are none")
    return CheckpointError(message, got="no step", fix=fix)


def _report(errors: list[Exception]) -> None:
    """Prints that a checkpoint was not written, when no later call can raise the error."""
    for error in errors:
        print(f"weft: {error}", file=sys.stderr)
