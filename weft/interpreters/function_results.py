"""Checks of the functions that users pass, and of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.argument_errors import described, not_a_function
from weft.base import source as sources
from weft.core.references import RefType
from weft.core.types import type_of, user_value
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.interpreters.staging import StagingTracer, function_name


def leaf_paths(structure: Any) -> list[str]:
    """The path of each leaf of a structure, as text."""
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
    raise not_a_function(operation, function, wanted, fix, place)


def check_results(out: Any, leaves: Sequence[Any], what: str) -> list[Any]:
    """The leaves of a function's result. Raises WeftTypeError naming one that is not an array."""
    checked: list[Any] = []
    for i, leaf in enumerate(leaves):
        if type(leaf) is StagingTracer:
            checked.append(leaf)
            continue
        try:
            type_of(leaf)
        except WeftTypeError:
            path, _ = tree.leaves_with_path(out)[i]
            if isinstance(getattr(leaf, "type", None), RefType):
                raise _returned_reference(what, leaf, path) from None
            message = f"{what} returned a value that is no array" + (
                f" at {tree.keystr(path)}" if path else ""
            )
            got, wanted = described(leaf), "arrays, numbers, or a tree of those"
            raise WeftTypeError(message, operation=what, got=got, wanted=wanted) from None
        checked.append(user_value(leaf))
    return checked


def _returned_reference(what: str, ref: Any, path: Any) -> WeftValueError:
    message = f"{what} returned a reference" + (f" at {tree.keystr(path)}" if path else "")
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("return_value", "return its array, weft.freeze(ref) or ref[...]")
    wanted = "arrays: a reference does not leave the function that made it"
    return WeftValueError(message, operation=what, got=got, wanted=wanted, fix=fix)
