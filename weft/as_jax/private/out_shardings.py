"""`jax._src.sharding_impls`: how an `out_sharding` is read."""

from __future__ import annotations

from typing import Any

from weft.core.axes import over_mesh_in_force
from weft.errors.argument_errors import invalid_class
from weft.sharding import NamedSharding, PartitionSpec

__all__ = ["canonicalize_sharding"]


def canonicalize_sharding(
    sharding: Any, api_name: str, check_mesh_consistency: bool = True
) -> NamedSharding | None:
    """A sharding over the axes of a mesh; None if nothing is asked for. A PartitionSpec is read
    over the mesh in force. That a sharding's mesh is the one in force is not checked: of weft's
    meshes the compiler splits along every axis. Raises WeftTypeError for anything that is not a
    sharding, and NoMeshError for a spec where no mesh is in force."""
    if isinstance(sharding, PartitionSpec):
        sharding = over_mesh_in_force(sharding, api_name)
    if sharding is None:
        return None
    if not isinstance(sharding, NamedSharding):
        wanted = "a NamedSharding or a PartitionSpec"
        message = f"{api_name}: out_sharding is no sharding over a mesh"
        raise invalid_class(message, api_name, "out_sharding", sharding, wanted)
    if sharding.without_axes:
        return None
    return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)
