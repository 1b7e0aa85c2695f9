"""Splits lists by flags, and merges them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Flags = tuple[bool, ...]


def marked(flags: Sequence[Any], values: Iterable[Any]) -> list[Any]:
    """The values whose flag is set."""
    return [x for flag, x in zip(flags, values, strict=True) if flag]


def unmarked(flags: Sequence[Any], values: Iterable[Any]) -> list[Any]:
    """The values whose flag is not set."""
    return [x for flag, x in zip(flags, values, strict=True) if not flag]


def partition(flags: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The values whose flag is set, and the others."""
    return marked(flags, values), unmarked(flags, values)


def merge(flags: Sequence[Any], marked: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Undoes `partition`: where a flag is set the next of `marked`, elsewhere of `others`."""
    first, second = iter(marked), iter(others)
    return [next(first) if flag else next(second) for flag in flags]


def spread(flags: Sequence[Any], values: Iterable[Any]) -> list[Any]:
    """The next of the values where a flag is set, None elsewhere."""
    given = iter(values)
    return [next(given) if flag else None for flag in flags]


def one_each(flags: bool | Sequence[bool], count: int) -> Sequence[bool]:
    """A flag for each of `count` values; a single one holds for all of them."""
    return (flags,) * count if isinstance(flags, bool) else flags
