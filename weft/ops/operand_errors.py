"""The error for operands of types that an operation does not take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from weft.errors import Fix, WeftError

__all__ = ["unfit"]

E = TypeVar("E", bound=WeftError)


def unfit(
    kind: type[E],
    operation: str,
    takes: str,
    types: Iterable[Any],
    wanted: str,
    fix: Fix | None = None,
) -> E:
    """The error of a kind, for its caller to raise; `takes` says what the operation takes."""
    got = ", ".join(map(str, types))
    return kind(f"{operation} takes {takes}", operation=operation, got=got, wanted=wanted, fix=fix)
