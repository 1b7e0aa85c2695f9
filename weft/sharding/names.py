"""Checks of the names of mesh axes, and their errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.errors import AxisError, Fix, WeftTypeError
from weft.errors.argument_errors import close_name


def quote_names(names: Iterable[Any]) -> str:
    """Names for a sentence, such as `'i', 'j'`."""
    return ", ".join(map(repr, names))


def axis_names(operation: str, names: Any) -> tuple[str, ...]:
    """The names of a mesh's axes: one name, or a sequence of different ones.

    Raises WeftTypeError for anything that is not a name and AxisError for a name that stands there
    twice.
    """
    if isinstance(names, str):
        names = (names,)
    try:
        given = tuple(names)
    except TypeError:
        given = (names,)
    for name in given:
        if not isinstance(name, str) or not name:
            fixed = number_duplicates(tuple(name if isinstance(name, str) and name else f"axis_{i}"
                                  for i, name in enumerate(given)))  # fmt: skip
            message = f"{operation}: the name of a mesh axis is a text that is not empty"
            got = f"axis_names={given!r}"
            wanted = "a str for each axis"
            fix = Fix("axis_names", f"use axis_names={fixed!r}", {"axis_names": fixed})
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    twice = find_duplicates(given)
    if twice:
        fixed = number_duplicates(given)
        message = f"{operation}: the axes of a mesh have different names"
        got = f"axis_names={given!r}"
        wanted = f"{quote_names(twice)} once"
        fix = Fix("axis_names", f"use axis_names={fixed!r}", {"axis_names": fixed})
        raise AxisError(message, got=got, wanted=wanted, fix=fix)
    return given


def find_duplicates(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values that a sequence holds more than once, each once."""
    seen: set[Any] = set()
    twice: dict[Any, None] = {}
    for value in values:
        if value in seen:
            twice[value] = None
        seen.add(value)
    return tuple(twice)


def number_duplicates(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, with a number after each repeated one."""
    taken, fixed = set(names), []
    for position, name in enumerate(names):
        if name in names[:position]:
            number = 1
            while f"{name}_{number}" in taken:
                number += 1
            name = f"{name}_{number}"
            taken.add(name)
        fixed.append(name)
    return tuple(fixed)


def check_known(operation: str, names: Iterable[str], spec: Any, known: Sequence[str]) -> None:
    """Raises AxisError for a name in a spec that no axis of the mesh has."""
    for name in names:
        if name not in known:
            free = [axis for axis in known if axis not in spec.axes()]
            better = close_name(name, free) or next(iter(free), None)
            text = f"use {better!r} instead of {name!r}" if better else f"leave {name!r} out"
            message = f"{operation}: the mesh has no axis {name!r}"
            got = f"{spec!r} over a mesh with the axes {quote_names(known)}"
            fix = Fix("rename", text, {"from": name, "to": better})
            raise AxisError(message, got=got, wanted=f"names out of {quote_names(known)}", fix=fix)


def repeated_axis(names: Sequence[str], spec: str, fixed: Any) -> AxisError:
    """The error for a spec that mentions an axis twice; `fixed` is a correct one."""
    message = f"PartitionSpec: the mesh axis {quote_names(names)} is mentioned twice"
    wanted = "each mesh axis at most once, since it splits one dimension"
    fix = Fix("spec", f"use {fixed!r}", {"spec": fixed})
    return AxisError(message, got=spec, wanted=wanted, fix=fix)
