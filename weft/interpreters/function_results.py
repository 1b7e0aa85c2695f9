"""Checks of the functions that users pass, and of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.core.types import type_of, user_value
from weft.errors import Fix, WeftTypeError
from weft.interpreters.staging import function_name

__all__ = ["check_function", "check_results", "described", "leaf_paths", "no_array"]


def described(value: Any) -> str:
    """A value and its class, for the `got` of errors."""
    return f"{value!r:.100} of class {type(value).__name__}"


def leaf_paths(structure: Any) -> list[str]:
    """The path to each leaf of a tree of this structure, as text."""
    dummy = structure.unflatten(range(structure.num_leaves))
    return [tree.keystr(path) for path, _ in tree.leaves_with_path(dummy)]


def check_function(
    operation: str,
    function: Any,
    place: str = "first",
    wanted: str = "a function",
    fix: Fix | None = None,
) -> str:
    """The name of a function. Raises WeftTypeError for a value that is not callable."""
    if callable(function):
        return function_name(function)
    raise WeftTypeError(
        f"{operation} takes a function {place}, not {type(function).__name__}",
        operation=operation,
        got=described(function),
        wanted=wanted,
        fix=fix,
    )


def no_array(
    title: str,
    value: Any,
    operation: str,
    wanted: str = "an array, a number, or a tree of those",
    fix: Fix | None = None,
) -> WeftTypeError:
    """The error for a value that is to be an array; `title` names it."""
    return WeftTypeError(
        f"{title} is no array", operation=operation, got=described(value), wanted=wanted, fix=fix
    )


def check_results(out: Any, leaves: Sequence[Any], what: str) -> list[Any]:
    """The leaves of a function's result. Raises WeftTypeError naming the one that is no array."""
    for i, leaf in enumerate(leaves):
        try:
            type_of(leaf)
        except WeftTypeError:
            path, _ = tree.leaves_with_path(out)[i]
            raise WeftTypeError(
                f"{what} returned a value that is no array"
                + (f" at {tree.keystr(path)}" if path else ""),
                operation=what,
                got=described(leaf),
                wanted="arrays, numbers, or a tree of those",
            ) from None
    return [user_value(leaf) for leaf in leaves]
