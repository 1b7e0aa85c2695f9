"""Functions that make shardings and contexts of other kinds, under the names of JAX."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from weft.errors import Fix, WeftNotImplementedError
from weft.errors.argument_errors import invalid_class
from weft.sharding.context import use_mesh
from weft.sharding.mesh import AbstractMesh
from weft.sharding.sharding import SingleDeviceSharding


@dataclasses.dataclass(frozen=True)
class AbstractDevice:
    """What is known about a device that is not present: its kind, its cores and its platform.

    Args:
        device_kind: The name of the model, such as "H100".
        num_cores: The number of cores; None where it is not known.
        platform: "cpu", "gpu" or "tpu", or "" where it is not known.

    >>> from weft.sharding import AbstractDevice
    >>> AbstractDevice("H100", None, "gpu").platform
    'gpu'
    """

    device_kind: str
    num_cores: int | None
    platform: str = ""


def make_single_device_sharding(
    device: Any, *, memory_kind: str | None = None
) -> SingleDeviceSharding:
    """The sharding of arrays on one device: `SingleDeviceSharding(device)`.

    device: the device that holds the array; memory_kind: "device" (the same as None), or on a CPU
    one of the other names of its memory.

    >>> from weft.sharding import make_single_device_sharding
    >>> make_single_device_sharding(weft.devices()[0])
    SingleDeviceSharding(cpu:0)
    """
    return SingleDeviceSharding(device, memory_kind=memory_kind)


def use_abstract_mesh(mesh: AbstractMesh) -> contextlib.AbstractContextManager[Any]:
    """A `with` block in which a mesh without devices is in force: `use_mesh(mesh)`.

    mesh: an `AbstractMesh`.

    Raises WeftTypeError for anything that is not an AbstractMesh.

    >>> from weft.sharding import AbstractMesh, get_abstract_mesh, use_abstract_mesh
    >>> with use_abstract_mesh(AbstractMesh((2,), ("i",))):
    ...     get_abstract_mesh()
    AbstractMesh('i': 2)
    """
    if not isinstance(mesh, AbstractMesh):
        message = "use_abstract_mesh takes an AbstractMesh"
        wanted = "an AbstractMesh"
        raise invalid_class(message, "use_abstract_mesh", "mesh", mesh, wanted)
    return use_mesh(mesh)


def _no_axis_types(name: str) -> WeftNotImplementedError:
    message = f"{name}: types of arrays say nothing of shardings, so mesh axes have no modes"
    wanted = "a function whose arrays the compiler splits, or weft.shard_map"
    fix = Fix("remove", f"leave {name} out; lax.with_sharding_constraint says what is split")
    return WeftNotImplementedError(message, operation=name, got=name, wanted=wanted, fix=fix)


def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    out_sharding: Any = None,
) -> Any:
    """Not there yet: it would let the compiler split along axes whose splits types say. Raises
    WeftNotImplementedError.

    Args:
        f: A function of arrays.
        axes: The names of mesh axes.
        out_sharding: How results are split.
    """
    raise _no_axis_types("auto_axes")


def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | tuple[str, ...] | None = None,
    in_sharding: Any = None,
) -> Any:
    """Not there yet: it would let types say the splits along axes that the compiler splits along.
    Raises WeftNotImplementedError.

    Args:
        f: A function of arrays.
        axes: The names of mesh axes.
        in_sharding: How arguments are split.
    """
    raise _no_axis_types("explicit_axes")
