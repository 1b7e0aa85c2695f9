"""Meshes: devices in an array whose axes have names."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from weft.base.notebooks import ShownInNotebooks
from weft.errors import (
    AxisError,
    Fix,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.sharding import current
from weft.sharding.devices import check_devices, is_addressable
from weft.sharding.interning import Interned
from weft.sharding.names import axis_names as checked_names
from weft.sharding.names import number_duplicates

Device = Any


class AxisType(enum.Enum):
    """How the split of arrays over a mesh axis is decided outside of `shard_map`.

    In weft the compiler decides (`Auto`). `Explicit`, shardings as part of every array's type, does
    not exist; the axes of a `shard_map` are manual within it without being declared.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class AnyMesh(Interned, ShownInNotebooks):
    """The abstract base of meshes with devices and without."""

    __slots__ = ("axis_names", "axis_sizes", "size")

    axis_names: tuple[str, ...]
    axis_sizes: tuple[int, ...]
    size: int

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes without devices."""
        raise NotImplementedError(f"{type(self).__name__} does not define abstract_mesh")

    @property
    def shape(self) -> dict[str, int]:
        """The length of each axis by its name, in the order of the axes."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        """Pairs of name and length."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def empty(self) -> bool:
        """Whether the mesh has no axes, like that of `get_abstract_mesh()` if no mesh is in
        force."""
        return not self.axis_names

    @property
    def axis_types(self) -> tuple[AxisType, ...]:
        """`AxisType.Auto` for each axis."""
        return (AxisType.Auto,) * len(self.axis_names)

    @property
    def auto_axes(self) -> tuple[str, ...]:
        """The names of the axes that are `AxisType.Auto`."""
        return self._axes_of(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """The names of the axes that are `AxisType.Explicit`: none."""
        return self._axes_of(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        """The names of the axes that are `AxisType.Manual`: none."""
        return self._axes_of(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether there are axes and all are `AxisType.Auto`."""
        return not self.empty and self.auto_axes == self.axis_names

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether there are axes and all are `AxisType.Explicit`."""
        return not self.empty and self.explicit_axes == self.axis_names

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether there are axes and all are `AxisType.Manual`."""
        return not self.empty and self.manual_axes == self.axis_names

    def _axes_of(self, wanted: AxisType) -> tuple[str, ...]:
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return tuple(name for name, found in pairs if found is wanted)

    def axis_size(self, names: str | Sequence[str]) -> int:
        """The length of an axis, or of several together.

        Raises AxisError for a name that no axis has.
        """
        length = 1
        for name in (names,) if isinstance(names, str) else names:
            if name not in self.axis_names:
                message = f"the mesh has no axis {name!r}"
                got = repr(name)
                wanted = f"names out of {self.axis_names!r}"
                fix = Fix("rename", f"use {self.axis_names[:1]!r}", {"names": self.axis_names})
                raise AxisError(message, operation="axis_size", got=got, wanted=wanted, fix=fix)
            length *= self.axis_sizes[self.axis_names.index(name)]
        return length

    def __enter__(self) -> Self:
        current.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        current.leave()

    def __repr__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.shape_tuple)
        return f"{type(self).__name__}({axes})"


class AbstractMesh(AnyMesh):
    """The axes of a mesh, without its devices: enough to trace a function, not to run it.

    `axis_sizes` and `axis_names` have one element for each axis. Equal meshes are one object.

    Args:
        axis_sizes: The lengths of the axes.
        axis_names: The names of the axes.
        axis_types: `AxisType.Auto` for each axis, or None; other types are not there.

    Raises ShapeError if they differ in number, AxisError for a name that is there twice, and
    WeftValueError for a length that is not positive.

    >>> from weft.sharding import AbstractMesh
    >>> mesh = AbstractMesh((4, 2), ("i", "j"))
    >>> mesh, mesh.size, mesh.shape["i"]
    (AbstractMesh('i': 4, 'j': 2), 8, 4)
    """

    __slots__ = ()

    @api_boundary
    def __new__(
        cls,
        axis_sizes: int | Sequence[int],
        axis_names: str | Sequence[str],
        axis_types: Any = None,
    ) -> Self:
        names = checked_names("AbstractMesh", axis_names)
        sizes = checked_sizes("AbstractMesh", axis_sizes, names)
        check_axis_types("AbstractMesh", axis_types, names)
        return cls._made_of(
            (names, sizes), axis_names=names, axis_sizes=sizes, size=math.prod(sizes)
        )

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh itself."""
        return self

    @property
    def devices(self) -> Any:
        """An abstract mesh has none: raises WeftValueError."""
        raise self._has_no("devices")

    @property
    def device_list(self) -> Any:
        """An abstract mesh has no devices: raises WeftValueError."""
        raise self._has_no("device_list")

    @property
    def device_ids(self) -> Any:
        """An abstract mesh has no devices: raises WeftValueError."""
        raise self._has_no("device_ids")

    def _has_no(self, what: str) -> WeftValueError:
        message = "an abstract mesh has no devices"
        fix = Fix(
            "make_mesh",
            f"use weft.make_mesh({self.axis_sizes!r}, {self.axis_names!r})",
            {"axis_shapes": self.axis_sizes, "axis_names": self.axis_names},
        )
        return WeftValueError(
            message, operation=f"AbstractMesh.{what}", got=repr(self), wanted="a Mesh", fix=fix
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return AbstractMesh, (self.axis_sizes, self.axis_names)


class Mesh(AnyMesh):
    """Devices in an array whose axes have names; arrays are split along these axes.

    `devices` is an array (or nested lists) of devices with as many dimensions as there are
    `axis_names`; `weft.make_mesh` makes one from lengths. A mesh is immutable, and equal meshes are
    one object. `with mesh:` puts it in force, for specs that come without a mesh.

    axis_names: the names of the axes, one for each dimension of `devices`; axis_types:
    `AxisType.Auto` for each axis, or None; other types are not there.

    Raises ShapeError if names and dimensions differ in number, AxisError for a name that is there
    twice, WeftTypeError for anything that is neither a device nor a name, and WeftValueError for
    devices that are there twice or belong to different platforms, and for an axis of length 0.

    >>> from weft.sharding import Mesh
    >>> mesh = Mesh(np.array(weft.devices()[:8]).reshape(4, 2), ("i", "j"))
    >>> mesh
    Mesh('i': 4, 'j': 2)
    >>> mesh.shape
    {'i': 4, 'j': 2}
    >>> mesh.device_ids.tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """

    __slots__ = ("abstract_mesh", "device_ids", "device_list", "devices")

    devices: np.ndarray[Any, Any]
    device_list: tuple[Device, ...]
    device_ids: np.ndarray[Any, Any]
    abstract_mesh: AbstractMesh

    @api_boundary
    def __new__(cls, devices: Any, axis_names: str | Sequence[str], axis_types: Any = None) -> Self:
        names = checked_names("Mesh", axis_names)
        grid = _grid(devices)
        listed = tuple(grid.ravel().tolist())
        check_devices("Mesh", listed)
        check_rank("Mesh", "devices.ndim", grid.shape, names)
        check_axis_types("Mesh", axis_types, names)
        if not names:
            # For the compiler a mesh without axes is one that keeps an array whole on one device.
            message = "Mesh: there is no mesh without axes"
            got = "a device without dimensions around it"
            wanted = "an array of devices with a dimension for each axis"
            data = {"devices": listed, "axis_names": ("i",)}
            fix = Fix("devices", "use Mesh([device], ('i',))", data)
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        sizes = grid.shape
        grid.flags.writeable = False
        ids = np.array([device.id for device in listed], np.int64).reshape(sizes)
        ids.flags.writeable = False
        return cls._made_of(
            (listed, names, sizes),
            axis_names=names,
            axis_sizes=sizes,
            size=grid.size,
            devices=grid,
            device_list=listed,
            device_ids=ids,
            abstract_mesh=AbstractMesh(sizes, names),
        )

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process, in the order of the mesh."""
        return [device for device in self.device_list if is_addressable(device)]

    @property
    def is_multi_process(self) -> bool:
        """Whether some of the devices belong to other processes than others."""
        return len({device.process_index for device in self.device_list}) > 1

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """A mesh with other devices or other names."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            axis_types,
        )


def _grid(devices: Any) -> np.ndarray[Any, Any]:
    """Devices as an array of objects, whatever nested sequences they come in."""
    if isinstance(devices, np.ndarray):
        return np.array(devices, object)
    shape: list[int] = []
    inner = devices
    while isinstance(inner, list | tuple):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    # Filled element by element: NumPy would look into devices that happen to be sequences.
    grid = np.empty(shape, object)
    for index in np.ndindex(*shape):
        element = devices
        for i, length in zip(index, shape, strict=True):
            if not isinstance(element, list | tuple) or len(element) != length:
                message = "Mesh: the nested lists of devices have different lengths"
                wanted = "lists of one length at each depth"
                like = f"np.array(weft.devices()[:{grid.size}]).reshape{grid.shape!r}"
                text = f"make them as long as the first ones, as in {like}"
                fix = Fix("devices", text, {"shape": grid.shape})
                raise ShapeError(message, got=f"devices={devices!r:.200}", wanted=wanted, fix=fix)
            element = element[i]
        grid[index] = element
    return grid


def checked_sizes(operation: str, sizes: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    """The lengths of the axes of a mesh as integers, one for each name."""
    given = tuple(sizes) if isinstance(sizes, Sequence | np.ndarray) else (sizes,)
    try:
        lengths = tuple(map(operator.index, given))
    except TypeError:
        message = f"{operation}: the length of a mesh axis is an integer"
        fix = Fix("sizes", "write the lengths as integers, such as (4, 2)")
        raise WeftTypeError(
            message, got=repr(sizes), wanted=f"{len(names)} integers", fix=fix
        ) from None
    check_rank(operation, "the number of lengths", lengths, names)
    return lengths


def check_rank(operation: str, what: str, sizes: tuple[int, ...], names: tuple[str, ...]) -> None:
    """Raises ShapeError if there are more names than lengths or fewer, and WeftValueError for a
    length that is not positive."""
    if len(sizes) != len(names):
        more = tuple(f"axis_{i}" for i in range(len(names), len(sizes)))
        fixed = number_duplicates(names[: len(sizes)] + more)
        message = f"{operation}: {what} is {len(sizes)}, and there are {len(names)} axis names"
        got = f"lengths {sizes!r} and axis_names={names!r}"
        wanted = "one name for each dimension"
        fix = Fix("axis_names", f"use axis_names={fixed!r}", {"axis_names": fixed})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    if any(size < 1 for size in sizes):
        fixed_sizes = tuple(max(size, 1) for size in sizes)
        message = f"{operation}: every mesh axis has at least one device"
        got = f"lengths {sizes!r} of the axes {names!r}"
        wanted = "positive lengths"
        fix = Fix("sizes", f"use lengths such as {fixed_sizes!r}", {"sizes": fixed_sizes})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


def check_axis_types(operation: str, axis_types: Any, names: tuple[str, ...]) -> None:
    """Raises WeftTypeError for anything that is not an AxisType, WeftNotImplementedError for one
    that is not `Auto`, and ShapeError if there are not as many types as names."""
    if axis_types is None:
        return
    given = (axis_types,) if isinstance(axis_types, (AxisType, str)) else tuple(axis_types)
    wanted = "AxisType.Auto for each axis"
    fix = Fix("remove", "leave axis_types out", {"argument": "axis_types"})
    if any(not isinstance(kind, AxisType) for kind in given):
        message = f"{operation}: axis_types takes an AxisType for each axis"
        got = f"axis_types={axis_types!r}"
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    got = f"axis_types={given!r}"
    if len(given) != len(names):
        message = f"{operation}: axis_types and axis_names differ in number"
        got += f" and axis_names={names!r}"
        wanted = f"{len(names)} types"
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    if any(kind is not AxisType.Auto for kind in given):
        message = f"{operation}: shardings are no part of types here, so that axes are Auto"
        raise WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)
