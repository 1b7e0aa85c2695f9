"""Where in its grid a kernel is: `program_id` and `num_programs`."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from weft.errors import Fix, WeftValueError, api_boundary
from weft.errors.argument_errors import refusal


@dataclasses.dataclass(frozen=True)
class _Place:
    indices: tuple[Any, ...]
    lengths: tuple[Any, ...]


_place: contextvars.ContextVar[_Place | None] = contextvars.ContextVar("pallas_place", default=None)


@contextlib.contextmanager
def running_at(indices: Sequence[Any], lengths: Sequence[Any]) -> Iterator[None]:
    """A block in which `program_id` gives these indices, and `num_programs` these lengths."""
    token = _place.set(_Place(tuple(indices), tuple(lengths)))
    try:
        yield
    finally:
        _place.reset(token)


def _of_axis(operation: str, axis: Any, values: str) -> Any:
    place = _place.get()
    if place is None:
        message = f"{operation} is called outside of a kernel"
        fix = Fix("kernel", "call it in the function that pallas_call gets, or in an index map")
        got = f"{operation}({axis})"
        raise refusal(WeftValueError, message, operation, got, "a kernel that is running", fix)
    number = operator.index(axis)
    found: tuple[Any, ...] = getattr(place, values)
    if not -len(found) <= number < len(found):
        message = f"{operation}: the grid has no axis {number}"
        wanted = f"the number of one of its {len(found)} axes"
        fix = Fix("grid", "name an axis of the grid, or pass a grid with more axes")
        raise refusal(WeftValueError, message, operation, f"axis={number}", wanted, fix)
    return found[number]


@api_boundary
def program_id(axis: int) -> Any:
    """The index of the running kernel along an axis of the grid: an int32. Raises WeftValueError
    outside of a kernel, and for an axis that the grid does not have.

    Args:
        axis: The index of the axis in the grid.
    """
    return _of_axis("program_id", axis, "indices")


@api_boundary
def num_programs(axis: int) -> Any:
    """The length of an axis of the grid: an int, or an array if the grid has one. Errors are
    those of `program_id`.

    Args:
        axis: The index of the axis in the grid.
    """
    return _of_axis("num_programs", axis, "lengths")
