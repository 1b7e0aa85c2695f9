"""The results of a user's function, checked to be arrays before anything is built on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.core.types import type_of, user_value
from weft.errors import WeftTypeError

__all__ = ["check_results"]


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
                got=f"{leaf!r:.100} of class {type(leaf).__name__}",
                wanted="arrays, numbers, or a tree of those",
            ) from None
    return [user_value(leaf) for leaf in leaves]
