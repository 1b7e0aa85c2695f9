"""Mismatches between a call's arguments and what an executable was compiled for: all of them at
once, each by its path, with both sides and a fix.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import Array, deleted
from weft.base import source as sources
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.dispatch.jit_shardings import has_layout, lies_at, other_layout
from weft.errors import (
    DeletedArrayError,
    Fix,
    TreeError,
    WeftError,
    WeftOverflowError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import conversion_text, describe_value
from weft.lowering.executables import device_for
from weft.sharding import Layout, Sharding
from weft.tracing.argument_names import argument_path
from weft.tree.difference import differences
from weft.tree.static_data import exact_structure

ANYWHERE: Any = object()
"""Stands for the place of an argument that a program does not read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """An argument that an executable refuses; `error` is the class to raise."""

    path: str
    what: str
    got: str
    wanted: str
    fix: Fix
    error: type[WeftError]


def mismatches(
    leaves: Sequence[Any],
    types: Sequence[ArrayType],
    places: Sequence[Any],
    layouts: Sequence[Layout | None],
    names: Sequence[str],
    name: str,
) -> list[Mismatch]:
    """The mismatches of the leaves. `places` has for each a device, a sharding, None for the
    default device, or ANYWHERE; `layouts` has a layout, or None for any."""
    rows = zip(leaves, types, places, layouts, names, strict=True)
    found = [_mismatch(i, *row, name) for i, row in enumerate(rows)]
    return [mismatch for mismatch in found if mismatch is not None]


def _mismatch(
    i: int, leaf: Any, want: ArrayType, place: Any, layout: Layout | None, path: str, name: str
) -> Mismatch | None:
    """The first mismatch of one leaf, or None."""

    def differs(
        what: str,
        got: Any,
        kind: str,
        text: str,
        wanted: Any = want,
        error: type[WeftError] = WeftTypeError,
        **data: Any,
    ) -> Mismatch:
        fix = Fix(kind, text, {**data, "path": path, "leaf": i})
        return Mismatch(path, what, str(got), str(wanted), fix, error)

    if isinstance(leaf, Tracer):
        text = f"call {name} itself (the jitted function) instead"
        return differs("a traced value", leaf.describe(), "jit", text)
    try:
        got = type_of(user_value(leaf))
    except (WeftTypeError, OverflowError) as error:
        shown = error.message if isinstance(error, WeftOverflowError) else describe_value(leaf)
        return differs("no array", shown, "array", f"pass an array of type {want}", type=want)
    numbers = isinstance(got.dtype, np.dtype) and isinstance(want.dtype, np.dtype)
    if got.shape != want.shape or (got.dtype != want.dtype and not numbers):
        text = (
            f"compile it for these types too, {name}.lower(...).compile(), or call {name} itself, "
            "which compiles for every type that it gets"
        )
        what = "another shape" if got.shape != want.shape else "another dtype"
        return differs(what, got, "lower", text, type=want)
    if got.dtype != want.dtype:
        text = f"pass {conversion_text(path, leaf, want.dtype)}"
        return differs("another dtype", got, "cast", text, type=want, dtype=want.dtype)
    if type(leaf) is not Array:
        return None
    if leaf.is_deleted():
        text = "pass an array that was not given away before"
        return differs("gone", deleted(leaf).message, "fresh", text, error=DeletedArrayError)
    there = leaf._shown_place()
    if there is None:
        return None
    where = place if isinstance(place, Sharding) or place is ANYWHERE else device_for(place)
    if where is not ANYWHERE and not lies_at(leaf, where):
        what = "split in another way" if isinstance(where, Sharding) else "on another device"
        text, wanted = f"pass weft.device_put({path}, {where})", f"{want} on {where}"
        shown = f"{leaf.type} on {there}"
        return differs(what, shown, "device_put", text, wanted, WeftValueError, device=where)
    if layout is None or has_layout(leaf, layout):
        return None
    fix = other_layout("", path, leaf, layout, "").fix
    assert fix is not None
    shown, wanted = f"{leaf.type} with {leaf.format.layout}", f"{want} with {layout}"
    return differs("another layout", shown, "layout", fix.text, wanted, WeftValueError, **fix.data)


def mismatch_error(name: str, found: Sequence[Mismatch]) -> WeftError:
    """The error for arguments that do not fit."""
    kinds = {mismatch.error for mismatch in found}
    error: type[WeftError] = WeftTypeError
    if WeftTypeError not in kinds:
        error = WeftValueError if WeftValueError in kinds else DeletedArrayError
    if any(mismatch.fix.kind == "jit" for mismatch in found):
        message = f"compiled {name} cannot be called under a transformation"
    else:
        listed = ", ".join(f"{mismatch.path} ({mismatch.what})" for mismatch in found)
        does = "does" if len(found) == 1 else "do"
        message = f"compiled {name}: {listed} {does} not match what it was compiled for"
    fix = found[0].fix
    if len(found) > 1:
        fixes = tuple(mismatch.fix for mismatch in found)
        texts = dict.fromkeys(f"{mismatch.path}: {mismatch.fix.text}" for mismatch in found)
        fix = Fix("arguments", "\n".join(texts), {"fixes": fixes})
    got = "\n".join(f"{mismatch.path}: {mismatch.got}" for mismatch in found)
    wanted = "\n".join(f"{mismatch.path}: {mismatch.wanted}" for mismatch in found)
    return error(message, operation=name, got=got, wanted=wanted, fix=fix)


def warn_of_copies(name: str, found: Sequence[Mismatch]) -> None:
    """Warns, at the user's line, of arguments that each call copies into another layout."""
    listed = "\n".join(f"  {x.path}: {x.got}, and not {x.wanted}" for x in found)
    text = f"compiled {name}: arguments are copied into another layout at each call:\n{listed}"
    sources.warn(text)


def check_structure(
    name: str, function: Any, given: Any, wanted: Any, positions: Sequence[int]
) -> None:
    """Raises TreeError if (args, kwargs) are not the trees that a function was compiled for.
    `positions` has the argnums of the positional arguments that are not static."""
    structure = tree.structure(given)
    if structure == wanted:
        if exact_structure(structure) != exact_structure(wanted):
            # Python calls 0.0 and -0.0, and 1, 1.0 and True, equal.
            raise TreeError(
                f"compiled {name}: other static data than it was compiled for",
                operation=name,
                got=str(structure),
                wanted=str(wanted),
                fix=Fix("static", f"call {name} itself, which compiles for all static data", {}),
            )
        return
    rows, fixes = [], []
    for found in differences(given, wanted):
        path = _argument(function, found.path, positions)
        rows.append((path, found.left, found.right))
        text = found.fix.text.removeprefix(f"at {tree.keystr(found.path)} ")
        fixes.append(Fix("restructure", f"{path}: {text}", found.fix.data))
    if not rows:  # the data of a container were equal when they were compared again
        return
    texts = "\n".join(fix.text for fix in fixes)
    raise TreeError(
        f"compiled {name}: another structure than it was compiled for, in "
        f"{', '.join(path for path, *_ in rows)}",
        operation=name,
        got="\n".join(f"{path}: {left}" for path, left, _ in rows),
        wanted="\n".join(f"{path}: {right}" for path, _, right in rows),
        fix=Fix("restructure", texts, {"fixes": tuple(fixes)} | dict(fixes[0].data)),
    )


def _argument(function: Any, path: Any, positions: Sequence[int]) -> str:
    """The name in messages of the argument at a path in (args, kwargs)."""
    if len(path) < 2:
        number = path[0].idx if path else 2
        return ("the positional arguments", "the arguments by name", "the arguments")[number]
    kind, key, *rest = path
    if kind.idx == 0 and key.idx < len(positions):
        key = type(key)(positions[key.idx])
    return argument_path(function, (kind, key, *rest))


def static_mismatch(name: str, argument: str, got: Any, wanted: Any) -> WeftValueError:
    """The error for a static argument that differs from the one at compilation."""
    return WeftValueError(
        f"compiled {name}: the static argument {argument} does not match what it was compiled for",
        operation=name,
        got=f"{argument}={got!r:.100}",
        wanted=f"{argument}={wanted!r:.100}, which is part of the program",
        fix=Fix(
            "static",
            f"leave it out, or compile for it: {name}.lower(..., {argument}={got!r:.100})",
            {"name": argument, "value": wanted},
        ),
    )
