"""Whether what a checkpoint says of its tree and its leaves can be so, before it is read by that.

A file that was damaged does not have its digest. This is for one that has: of another program, or
made on purpose. All that is read later has its bounds here: the numbers of leaves, the names of
files, the sizes of chunks. What is not checked is what the leaves mean, and that their files fit.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from weft.checkpoints.commit import COMMIT, CRC_BYTES, damaged_error
from weft.checkpoints.saved_leaves import ARRAYS, number_from_data
from weft.errors import CheckpointError, WeftValueError
from weft.export.container import Fields, invalid_bytes_error
from weft.export.serialized_trees import key_from_data

# The name of a leaf's folder: no other folder can be meant by it.
_STORE = re.compile(r"\d[\w.-]*", re.ASCII)
_SEAL = re.compile(r"[0-9a-f]{0,8}", re.ASCII)
_NAMED = ("dict", "namedtuple", "class")
# The kinds of keys that classes and named tuples have, and of what their names are.
_KEYS = {"attribute": (str,), "index": (int, str), "other": (str,)}
_LONGEST = 1 << 62


def checked_content(
    content: Any, path: pathlib.Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The structure and the records of a checkpoint. Raises CheckpointError for invalid ones."""
    try:
        fields = Fields(content, "what was saved")
        structure, records = fields.take("structure"), fields.array("leaves")
        fields.end()
        leaves: list[int] = []
        _check_node(structure, leaves)
        if sorted(leaves) != list(range(len(records))):
            got, wanted = f"leaves {leaves!r:.100}", f"each of {len(records)} leaves once"
            raise invalid_bytes_error("the structure has other leaves", got, wanted)
        for number, record in enumerate(records):
            _check_record(record, f"leaf {number}")
    except WeftValueError as error:
        raise _ill_formed_error(path, error) from None
    except RecursionError:
        message = f"{path / COMMIT} is nested too deeply"
        raise damaged_error(message, path, "nested nodes", "a tree") from None
    return structure, records


def _ill_formed_error(path: pathlib.Path, error: WeftValueError) -> CheckpointError:
    what = error.message.removeprefix("these bytes are refused: ")
    message = f"{path / COMMIT} is no description of a checkpoint: {what}"
    return damaged_error(message, path, str(error.got), error.wanted and str(error.wanted))


def _check_node(node: Any, leaves: list[int]) -> None:
    """Checks a node of the structure, and appends the numbers of its leaves."""
    fields = Fields(node, "a node of the structure")
    kind = fields.text("kind")
    if kind == "leaf":
        leaves.append(fields.integer("leaf"))
    elif kind in ("list", "tuple", *_NAMED):
        children = fields.array("children")
        if kind in _NAMED:
            keys = fields.array("keys")
            names = [_name(key, kind) for key in keys]
            if len(names) != len(children) or len(set(names)) != len(names):
                raise invalid_bytes_error(
                    "a node is ill-formed", f"keys {keys!r:.100}", "one for each child"
                )
        if kind in ("namedtuple", "class"):
            fields.text("name")
        for child in children:
            _check_node(child, leaves)
    elif kind != "none":
        raise invalid_bytes_error(
            "a node has an unknown kind", repr(kind)[:100], "a known container"
        )
    fields.end()


def _name(key: Any, kind: str) -> Any:
    """A comparable form of a key."""
    if kind == "dict":
        found = key_from_data(key, "the structure")
        return type(found), found
    match key:
        case [str(what), name] if what in _KEYS and type(name) in _KEYS[what]:
            return what, name
    raise invalid_bytes_error(
        "a key is ill-formed", f"{key!r:.100}", "a pair of its kind and its name"
    )


def _check_record(record: Any, what: str) -> None:
    """Checks the record of a leaf, except for its type."""
    fields = Fields(record, what)
    fields.text("path")
    kind = fields.text("kind")
    if kind not in ARRAYS:
        fields.take("value")
        fields.end()
        try:
            fits = kind == type(number_from_data(record)).__name__
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise invalid_bytes_error(
                f"{what} is ill-formed", f"{record!r:.100}", "a number or a string"
            )
        return
    fields.take("type")
    store = fields.text("store")
    if not _STORE.fullmatch(store) or len(store) > 255:
        raise invalid_bytes_error(
            f"{what} is ill-formed", f"the folder {store!r:.100}", "a name of a folder"
        )
    fields.integers("chunk")
    chunks = fields.take("chunks")
    fields.end()
    if not isinstance(chunks, dict) or not all(map(_is_seal, chunks.values())):
        got, wanted = f"chunks {chunks!r:.100}", "a size and a CRC for each"
        raise invalid_bytes_error(f"{what} is ill-formed", got, wanted)


def _is_seal(seal: Any) -> bool:
    match seal:
        case [int(size), str(crc)] if type(size) is int and size >= 0:
            return _SEAL.fullmatch(crc) is not None
    return False


def check_chunks(
    record: Mapping[str, Any], shape: Sequence[int], itemsize: int, path: pathlib.Path
) -> None:
    """Raises CheckpointError for chunks that do not make up an array of a shape. Each has the size
    of a whole chunk, so an array has no more bytes than its files, whose sizes were checked before
    memory is allocated."""
    chunk, chunks = record["chunk"], record["chunks"]
    counts = [-(-length // size) for length, size in zip(shape, chunk, strict=False) if size]
    size = prod(chunk) * itemsize + CRC_BYTES
    if (
        len(counts) != len(shape) or len(chunk) != len(shape)
        or max(prod(chunk) * itemsize, prod(shape) * itemsize, *chunk, *shape, 0) >= _LONGEST
        or prod(counts) != len(chunks)
        or any(seal[0] != size for seal in chunks.values())
        or any(_numbers(key, counts) is None for key in chunks)
    ):  # fmt: skip
        leaf = record["path"] or "at the top"
        message = f"the chunks of the leaf {leaf} of the checkpoint {path} make up no such array"
        got = f"{len(chunks)} chunks {tuple(chunk)}"
        wanted = f"chunks of {size} bytes that make up the shape {tuple(shape)}"
        raise damaged_error(message, path, got[:300], wanted[:300])


def _numbers(key: str, counts: Sequence[int]) -> tuple[int, ...] | None:
    """The position of a chunk among others, from its name; None for another name."""
    first, *rest = key.split("/")
    if first != "c" or len(rest) != len(counts):
        return None
    if not all(re.fullmatch(r"0|[1-9]\d{0,18}", part, re.ASCII) for part in rest):
        return None
    found = tuple(map(int, rest))
    return found if all(n < count for n, count in zip(found, counts, strict=True)) else None
