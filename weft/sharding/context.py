"""The mesh in force: `use_mesh` for a block of code, `set_mesh` for good.

It stands in where a mesh is left out: in `shard_map`, and where a spec is given in place of a
sharding. It belongs to a thread or task; a new thread begins without one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from weft.errors import Fix, WeftTypeError, api_boundary
from weft.sharding import current
from weft.sharding.mesh import AbstractMesh, AnyMesh, Mesh


def _check(operation: str, mesh: Any) -> None:
    if not isinstance(mesh, AnyMesh):
        message = f"{operation} takes a mesh"
        got = f"{mesh!r:.100} ({type(mesh).__name__})"
        fix = Fix("make_mesh", "make one with weft.make_mesh(axis_shapes, axis_names)")
        raise WeftTypeError(message, got=got, wanted="a Mesh or an AbstractMesh", fix=fix)


@api_boundary
def use_mesh(mesh: AnyMesh) -> contextlib.AbstractContextManager[AnyMesh]:
    """A `with` block in which a mesh is in force; `with mesh:` does the same.

    mesh: a `Mesh` or an `AbstractMesh`.

    Raises WeftTypeError for anything that is not a mesh.

    >>> from weft.sharding import get_mesh
    >>> mesh = weft.sharding.Mesh(weft.devices()[:2], "i")
    >>> with weft.sharding.use_mesh(mesh):
    ...     get_mesh()
    Mesh('i': 2)
    """
    _check("use_mesh", mesh)
    return _enter_mesh(mesh)


@contextlib.contextmanager
def _enter_mesh(mesh: AnyMesh) -> Iterator[AnyMesh]:
    with mesh:
        yield mesh


class set_mesh:
    """Puts a mesh in force from now on; as a context manager, until its block ends.

    mesh: a `Mesh`, an `AbstractMesh` or None. `set_mesh(None)` says that none is. Raises
    WeftTypeError for anything that is not a mesh.

    >>> from weft.sharding import get_mesh, set_mesh
    >>> mesh = weft.sharding.Mesh(weft.devices()[:2], "i")
    >>> with set_mesh(mesh):
    ...     get_mesh()
    Mesh('i': 2)
    >>> get_mesh() is None
    True
    """

    __slots__ = ("_before", "_mesh")

    @api_boundary
    def __init__(self, mesh: AnyMesh | None) -> None:
        if mesh is not None:
            _check("set_mesh", mesh)
        self._mesh = mesh
        self._before = current.current_entry()
        # Within `with use_mesh(...)`, for the rest of that block: what is around it stays.
        before = self._before or current.Entered(None, None)
        current.replace(before._replace(mesh=mesh))

    def __enter__(self) -> AnyMesh | None:
        return self._mesh

    def __exit__(self, *_: object) -> None:
        current.replace(self._before)


@api_boundary
def simulate(mesh: AnyMesh | None = None) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which one device simulates a mesh (by default, every mesh).

    mesh: a `Mesh` or an `AbstractMesh`; None for every mesh.

    Each axis of the mesh becomes a dimension of the values inside `shard_map`; results equal those
    on the mesh up to rounding, the same functions are refused, and the mesh may be an
    `AbstractMesh`. Shardings over the mesh mean nothing there. Nested `with` blocks simulate all of
    their meshes. Use it for tests and for debugging; all blocks of an array have to fit on one
    device. Raises WeftTypeError for anything that is not a mesh.

    >>> import weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((1024,), ("i",))
    >>> f = weft.shard_map(
    ...     lambda x: weft.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    ... )
    >>> with weft.simulate(mesh):
    ...     print(f(jnp.ones(1024)))
    [1024.]
    """
    if mesh is not None:
        _check("simulate", mesh)
    return _simulating(mesh)


@contextlib.contextmanager
def _simulating(mesh: AnyMesh | None) -> Iterator[None]:
    before = current.current_entry()
    entry = before or current.Entered(None, None)
    simulated = entry.simulated
    if simulated is not True:
        simulated = True if mesh is None else simulated | {mesh.abstract_mesh}
    current.replace(entry._replace(simulated=simulated))
    try:
        yield
    finally:
        current.replace(before)


def is_simulated(mesh: AnyMesh) -> bool:
    """Whether one device simulates a mesh here."""
    found = current.current_entry()
    if found is None:
        return False
    return found.simulated is True or mesh.abstract_mesh in found.simulated


def mesh_in_force() -> AnyMesh | None:
    """The mesh in force, with or without devices; None if there is none."""
    found = current.current_entry()
    return found.mesh if found is not None else None


def get_mesh() -> Mesh | None:
    """The mesh in force; None if there is none, or one without devices."""
    mesh = mesh_in_force()
    return mesh if isinstance(mesh, Mesh) else None


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the mesh in force; one that is `empty` if there is none."""
    mesh = mesh_in_force()
    return mesh.abstract_mesh if isinstance(mesh, Mesh | AbstractMesh) else _NONE


_NONE = AbstractMesh((), ())
