"""The names, shardings and layouts of arguments as messages show them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.core.types import ArrayType


def argument_path(function: Any, path: Sequence[Any], parameters: Sequence[str] = ()) -> str:
    """The name of a leaf of (args, kwargs) in messages: the parameter's if it is known."""
    kind, key, *rest = path
    first = getattr(key, "idx", getattr(key, "key", key))
    name = str(first)
    if getattr(kind, "idx", None) == 0:
        name = static_name(function, first, parameters)
    return f"{name}{tree.keystr(tuple(rest))}"


def static_name(function: Any, argnum: int | str, parameters: Sequence[str] = ()) -> str:
    """The name of an argument in messages: the parameter's if it is known."""
    if isinstance(argnum, str):
        return argnum
    try:
        return (parameters or list(inspect.signature(function).parameters))[argnum]
    except (IndexError, TypeError, ValueError):
        return f"argument {argnum}"


def argument_names(function: Any, in_tree: Any) -> list[str]:
    """The names of the leaves of (args, kwargs) in messages."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    dummy = tree.unflatten(in_tree, range(in_tree.num_leaves))
    return [argument_path(function, path, parameters) for path, _ in tree.leaves_with_path(dummy)]


def places_by_name(places: Any) -> list[tuple[str, Any]]:
    """The fields of `places`, the formats of a trace's key, by name; [] for None."""
    if places is None:
        return []
    return [(field.name, getattr(places, field.name)) for field in dataclasses.fields(places)]


def place_text(signature: Any) -> str:
    """The device or sharding and the layout of a signature, as text."""
    if isinstance(signature, ArrayType):
        return "on the default device"
    if not isinstance(signature[0], ArrayType):  # that of a reference
        return place_text(signature[1])
    place, *layout = signature[1:]
    where = "on the default device" if place is None else f"on {place}"
    return f"{where} in {layout[0]}" if layout else where


def input_names(function: Any, in_tree: Any, num_consts: int, reads: Sequence[bool]) -> list[str]:
    """The names of the inputs that are read, in messages: closed-over arrays, then leaves."""
    names = ["a closed-over array"] * num_consts + argument_names(function, in_tree)
    return [name for name, use in zip(names, reads, strict=True) if use]
