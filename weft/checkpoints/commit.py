"""The file that makes a directory a checkpoint: what was saved, as JSON with a version and a
digest.

    {"format": "weft checkpoint", "version": 1, "sha256": "...", "content": {...}}

The digest is of the content as `json.dumps` writes it with sorted keys and without spaces. A reader
looks at the version first, since versions have only that in common. Nothing is unpickled, evaluated
or imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
from typing import Any

from weft.errors import CheckpointError, Fix

COMMIT = "checkpoint.json"
CRC_BYTES = 4  # behind the bytes of a chunk, in its file
FORMAT, VERSION = "weft checkpoint", 1
_STEP = re.compile(r"step_(\d{8,})")


def step_path(directory: pathlib.Path, step: int) -> pathlib.Path:
    """The directory of a step's checkpoint."""
    return directory / f"step_{step:08d}"


def step_numbers(directory: pathlib.Path) -> list[int]:
    """The steps of the checkpoints in a directory, in order."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = [_STEP.fullmatch(name) for name in names]
    return sorted(int(match[1]) for match in found if match is not None)


def damaged_error(
    message: str, path: pathlib.Path, got: str, wanted: str | None = None
) -> CheckpointError:
    """The error for a checkpoint that differs from what was written."""
    text = "copy the checkpoint again from where it is whole, or restore another one"
    others = [n for n in step_numbers(path.parent) if step_path(path.parent, n) != path]
    if others and _STEP.fullmatch(path.name):
        text = f"restore another step: step={others[-1]}"
    fix = Fix("other", text, {"steps": others})
    return CheckpointError(message, got=got, wanted=wanted, fix=fix)


def described_error(error: Exception) -> str:
    """An error in one line, for the `got` of another one."""
    text = str(error).partition(" [tensorstore_spec=")[0].partition(" [source locations=")[0]
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def digest_of(content: Any) -> str:
    """A digest: equal for equal contents."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_content(file: pathlib.Path, content: Any) -> None:
    """Writes a file of this format, and waits until the disk has it."""
    whole = {
        "format": FORMAT, "version": VERSION, "sha256": digest_of(content), "content": content,
    }  # fmt: skip
    with open(file, "w", encoding="utf-8") as stream:
        json.dump(whole, stream)
        stream.flush()
        os.fsync(stream.fileno())


def sync(path: str | os.PathLike[str]) -> None:
    """Waits until the disk has a file, or the names in a directory."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def read_content(file: pathlib.Path) -> Any:
    """The content of a file of this format. Raises CheckpointError if there is none."""
    path = file.parent
    try:
        text = file.read_bytes()
    except OSError as error:
        if not path.is_dir():
            raise _missing_error(path) from None
        message = f"{path} is no complete checkpoint: {file.name} cannot be read"
        raise damaged_error(message, path, described_error(error)) from None
    try:
        whole = json.loads(text)
        kind, version, digest = whole["format"], whole["version"], whole["sha256"]
        content = whole["content"]
        found = digest_of(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = f"{file} is no file that a checkpoint begins with"
        wanted = f"JSON with the format {FORMAT!r}, a version, a digest and a content"
        got = described_error(error)
        raise damaged_error(message, path, got, wanted) from None
    if kind != FORMAT or type(version) is not int:
        message = f"{file} has another format than checkpoints have"
        raise damaged_error(message, path, f"{kind!r:.100} {version!r:.100}", repr(FORMAT))
    if version > VERSION:
        message = f"{path} was written by a later version of weft"
        got, wanted = f"version {version} of the format", f"version {VERSION}"
        fix = Fix("upgrade", "upgrade weft here, or save with the version that is here")
        raise CheckpointError(message, got=got, wanted=wanted, fix=fix)
    if found != digest:
        message = f"{file} was changed after it was written"
        got, wanted = f"the digest {found}", f"the digest {digest!r:.100}"
        raise damaged_error(message, path, got, wanted)
    return content


def _missing_error(path: pathlib.Path) -> CheckpointError:
    message = f"there is no checkpoint at {path}"
    steps = step_numbers(path.parent)
    text = "save one first"
    if steps:
        text = f"restore one that is there: step={steps[-1]}"
    return CheckpointError(message, got="no directory", fix=Fix("saved", text, {"steps": steps}))
