"""The mesh in force: the context variable behind `with mesh:` and `weft.set_mesh`."""

from __future__ import annotations

import contextvars
from typing import Any, NamedTuple


class Entered(NamedTuple):
    """A mesh (or None) in force, and the entry around it. `simulated` are the meshes that one
    device simulates (True: every mesh)."""

    mesh: Any
    around: Entered | None
    simulated: Any = frozenset()


# The enclosing meshes hang on the entry and not on the mesh: one mesh may be entered several times,
# in several threads.
_entered: contextvars.ContextVar[Entered | None] = contextvars.ContextVar("weft_mesh", default=None)
# For compiled code, which reads it as `in_force` does.
mesh_variable = _entered


def current_entry() -> Entered | None:
    """The entry in force; None if no mesh was entered."""
    return _entered.get()


def in_force() -> tuple[Any, Any] | None:
    """The mesh in force and the simulated ones, hashable: a part of the keys of traces."""
    last = _entered.get()
    return None if last is None else (last.mesh, last.simulated)


def enter(mesh: Any) -> None:
    """Puts a mesh in force until `leave`."""
    last = _entered.get()
    _entered.set(Entered(mesh, last, last.simulated if last is not None else frozenset()))


def leave() -> None:
    """Undoes the last `enter`."""
    last = _entered.get()
    _entered.set(last.around if last is not None else None)


def replace(what: Entered | None) -> None:
    """Puts an entry in force: one that `current_entry` returned before, or a new one."""
    _entered.set(what)
