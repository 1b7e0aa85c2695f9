"""The environment of named axes: the names bound in this context, with their lengths.

`vmap(axis_name=…)` and `shard_map` bind names; collectives read them. Only along the axis of a mesh
do types say whether values vary. The environment is a context variable that holds an immutable
tuple, so that it can be part of a cache key.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.errors import AxisError, Fix, NoMeshError, UnboundAxisError
from weft.sharding import NamedSharding, PartitionSpec
from weft.sharding.context import mesh_in_force

__all__ = [
    "BoundAxis", "axes_variable", "axis_environment", "axis_length", "bound_axis", "extend_axis",
    "extend_mesh", "mesh_axes", "names_axis", "on_devices_in_force", "over_mesh_in_force",
    "with_environment",
]  # fmt: skip


class BoundAxis(NamedTuple):
    """A bound axis: `mesh` is the mesh that it belongs to, None for an axis of a vmap; with
    `explicit` the user has to write casts of values to varying ones, and with `untyped`
    all values count as varying, as in JAX with `check_vma=False`. Reverse mode joins its sums over
    the axis in all-reduces of at most `bucket_bytes`; None: each sum is one of its own.

    Args:
        name: The name by which collective operations refer to the axis.
        size: The length of the axis.
        mesh: The mesh that the axis belongs to; None for an axis of a vmap.
        explicit: Whether the user has to write casts of values to varying ones.
        untyped: Whether all values count as varying.
        bucket_bytes: How large the all-reduces of reverse mode may be, in bytes; None joins no
            sums.
    """

    name: Any
    size: int
    mesh: Any = None
    explicit: bool = False
    untyped: bool = False
    bucket_bytes: int | None = None


axes_variable: contextvars.ContextVar[tuple[BoundAxis, ...]] = contextvars.ContextVar(
    "weft_axes", default=()
)


def axis_environment() -> tuple[BoundAxis, ...]:
    """The bound axes, outermost first."""
    return axes_variable.get()


def mesh_axes() -> tuple[BoundAxis, ...]:
    """The bound axes that are axes of a mesh, outermost first."""
    return tuple(axis for axis in axes_variable.get() if axis.mesh is not None)


def extend_axis(name: Any, size: int) -> contextlib.AbstractContextManager[None]:
    """Binds the axis of a vmap within a `with` block (None binds nothing).

    Raises AxisError if the name is that of an axis of the mesh.

    Args:
        name: The axis name that `vmap` was given, or None.
        size: How many elements are mapped.
    """
    if name is None:
        return contextlib.nullcontext()
    if any(axis.name == name for axis in mesh_axes()):
        message = f"the axis name {name!r} is that of a mesh axis here"
        got = f"axis_name={name!r} for a vmap and for a mesh axis of a shard_map"
        wanted = "a name that no mesh axis has"
        fix = Fix("rename", "give the axis of the vmap another name", {"axis_name": name})
        raise AxisError(message, operation="vmap", got=got, wanted=wanted, fix=fix)
    return with_environment((*axes_variable.get(), BoundAxis(name, size)))


def extend_mesh(
    mesh: Any,
    names: Sequence[str],
    explicit: bool = False,
    untyped: bool = False,
    bucket_bytes: int | None = None,
) -> Any:
    """Binds axes of a mesh within a `with` block; `mesh.shape` has their sizes (see `BoundAxis`).

    Raises AxisError if a name is that of the axis of a vmap.

    Args:
        names: The names of the axes that are bound.
        explicit: Whether the user has to write casts of values to varying ones.
        untyped: Whether all values count as varying.
        bucket_bytes: How large the all-reduces of reverse mode may be, in bytes; None joins no
            sums.
        mesh: The mesh of devices.
    """
    for axis in axes_variable.get():
        if axis.mesh is None and axis.name in names:
            message = f"the axis name {axis.name!r} is that of a vmap here"
            got = f"a mesh axis {axis.name!r} inside a vmap with axis_name={axis.name!r}"
            wanted = "names that differ"
            fix = Fix("rename", "give the axis of the vmap another name", {"name": axis.name})
            raise AxisError(message, operation="shard_map", got=got, wanted=wanted, fix=fix)
    how = (mesh, explicit, untyped, bucket_bytes)
    own = tuple(BoundAxis(name, mesh.shape[name], *how) for name in names)
    return with_environment((*axes_variable.get(), *own))


@contextlib.contextmanager
def with_environment(axes: tuple[BoundAxis, ...]) -> Iterator[None]:
    """Binds exactly these axes within a `with` block.

    Args:
        axes: The bound axes; others count as not bound.
    """
    token = axes_variable.set(axes)
    try:
        yield
    finally:
        axes_variable.reset(token)


def bound_axis(name: Any) -> BoundAxis:
    """The axis that a name is bound to. Raises UnboundAxisError for a name that is not bound.

    Args:
        name: The name of an axis of a vmap or of a mesh.
    """
    axis: BoundAxis
    for axis in reversed(axes_variable.get()):
        if axis.name == name:
            return axis
    names = ", ".join(repr(axis.name) for axis in axes_variable.get()) or "none"
    message = f"the axis name {name!r} is not bound here"
    wanted = f"one of the bound axis names ({names})"
    fix = Fix(
        "bind_axis",
        f"call the function under weft.vmap(..., axis_name={name!r}), or under weft.shard_map "
        "over a mesh with that axis",
        {"axis_name": name},
    )
    raise UnboundAxisError(message, operation=None, got=repr(name), wanted=wanted, fix=fix)


def axis_length(name: Any) -> int:
    """The length of a bound axis. Raises UnboundAxisError for a name that is not bound.

    Args:
        name: The name of an axis of a vmap or of a mesh.
    """
    return bound_axis(name).size


def names_axis(primitive: Primitive, params: dict[str, Any], name: Any) -> bool:
    """Whether an application refers to the axis `name`, itself or in a jaxpr it holds.

    Args:
        name: The axis name; None is that of no axis.
    """
    if name is None or not params:
        return False
    named = params.get("axis_name", ())
    if name in (named if isinstance(named, tuple) else (named,)):
        return True
    if primitive.memoise:
        return False
    if "function" in params:
        return True  # The axes of a Python function are not known before it runs.
    return any(_program_names_axis(jaxpr, name) for jaxpr in jaxprs_in(params))


def _program_names_axis(jaxpr: Jaxpr, name: Any) -> bool:
    return jaxpr.memoize(
        ("names_axis", name),
        lambda: any(names_axis(eqn.primitive, eqn.params, name) for eqn in jaxpr.eqns),
    )


def over_mesh_in_force(spec: PartitionSpec, operation: str) -> NamedSharding:
    """A spec over the mesh of the context, or of the shard_map around. Raises NoMeshError if
    there is none.

    Args:
        spec: How an array is split over the axes of the mesh.
        operation: The operation's name in errors.
    """
    mesh = mesh_in_force()
    if mesh is None and mesh_axes():  # inside a shard_map
        mesh = mesh_axes()[-1].mesh
    if mesh is None:
        message = f"{operation} got a PartitionSpec, and there is no mesh that its names refer to"
        wanted = "a NamedSharding, or a mesh from the context"
        text = "set the mesh, with weft.use_mesh(mesh): …, or pass NamedSharding(mesh, spec)"
        fix = Fix("use_mesh", text, {"spec": spec})
        raise NoMeshError(message, operation=operation, got=repr(spec), wanted=wanted, fix=fix)
    return NamedSharding(mesh, spec)


def on_devices_in_force(sharding: NamedSharding) -> NamedSharding:
    """A sharding over the axes of the mesh in force (`get_abstract_mesh()`) over its devices; any
    other as it is."""
    mesh = mesh_in_force()
    if mesh is None or mesh is sharding.mesh or mesh.abstract_mesh is not sharding.mesh:
        return sharding
    return NamedSharding(mesh, sharding.spec, sharding.memory_kind)
