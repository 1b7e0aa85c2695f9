"""Which mesh is in force: the variable behind `with mesh:` and `weft.set_mesh`."""

from __future__ import annotations

import contextvars
from typing import Any, NamedTuple

__all__ = ["Entered", "enter", "entered", "in_force", "leave", "replace"]


class Entered(NamedTuple):
    """A mesh (or None) in force, and what was in force around it; `simulated` are the meshes whose
    programs one device runs (True: of every mesh)."""

    mesh: Any
    around: Entered | None
    simulated: Any = frozenset()


# The enclosing meshes hang on the entry and not on the mesh: one mesh may be entered several times,
# in several threads.
_entered: contextvars.ContextVar[Entered | None] = contextvars.ContextVar("weft_mesh", default=None)


def entered() -> Entered | None:
    """What is in force here."""
    return _entered.get()


def in_force() -> tuple[Any, Any] | None:
    """What a program that is traced here may depend on: a part of the keys of caches of traces."""
    last = _entered.get()
    return None if last is None else (last.mesh, last.simulated)


def enter(mesh: Any) -> None:
    """Puts a mesh in force until `leave`."""
    last = _entered.get()
    _entered.set(Entered(mesh, last, last.simulated if last is not None else frozenset()))


def leave() -> None:
    """Puts in force what was before the last `enter`."""
    last = _entered.get()
    _entered.set(last.around if last is not None else None)


def replace(what: Entered | None) -> None:
    """Puts something in force that `entered` said before, or a new entry."""
    _entered.set(what)
