"""Meshes of devices, specs over their axes, shardings and layouts of arrays, as frozen data."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.sharding.context import get_abstract_mesh, get_mesh, set_mesh, simulate, use_mesh
from weft.sharding.layout import Format, Layout
from weft.sharding.mesh import AbstractMesh, AxisType, Mesh
from weft.sharding.named import NamedSharding, named_sharding
from weft.sharding.sharding import Sharding, SingleDeviceSharding, TiledSharding
from weft.sharding.spec import P, PartitionSpec

if TYPE_CHECKING:
    from weft.sharding.constructors import (
        AbstractDevice,
        auto_axes,
        explicit_axes,
        make_single_device_sharding,
        use_abstract_mesh,
    )

# fmt: off
__all__ = [
    "AbstractDevice", "AbstractMesh", "AxisType", "Format", "Layout", "Mesh", "NamedSharding",
    "P", "PartitionSpec", "Sharding", "SingleDeviceSharding", "TiledSharding", "auto_axes",
    "explicit_axes", "get_abstract_mesh", "get_mesh", "make_single_device_sharding",
    "named_sharding", "set_mesh", "simulate", "use_abstract_mesh", "use_mesh",
]
# fmt: on

_LAZY_NAMES = {
    "weft.sharding.constructors": (
        "AbstractDevice auto_axes explicit_axes make_single_device_sharding use_abstract_mesh"
    )
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), (), _LAZY_NAMES)
