"""Declares meshes and shardings in modules for several devices, in Shardy's dialect.

Partition p of a module runs on its device p. A mesh is declared in the module once, with the
partitions in its own order; a sharding becomes an attribute that names axes of a declared mesh.
See https://openxla.org/shardy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.types import ArrayType
from weft.errors import Fix, WeftValueError
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import stablehlo
from weft.sharding import AbstractMesh, Mesh, NamedSharding, Sharding

Axes = tuple[tuple[str, int], ...]


class MeshTable:
    """The meshes that a module declares, by the devices of its partitions."""

    __slots__ = ("_partitions", "_symbols", "devices", "module")

    def __init__(self, module: Any, devices: Sequence[Any]) -> None:
        self.module = module
        self.devices = tuple(devices)
        self._symbols: dict[tuple[Axes, tuple[int, ...]], str] = {}
        self._partitions: dict[Any, np.ndarray[Any, Any]] = {}

    def partitions(self, mesh: Mesh | AbstractMesh) -> np.ndarray[Any, Any]:
        """The partition numbers of the devices of a mesh, in its shape.

        Raises WeftValueError if the mesh does not have exactly the devices of the module.
        """
        out = self._partitions.get(mesh)
        if out is None:
            if isinstance(mesh, AbstractMesh):
                numbers = list(range(mesh.size))
            else:
                position = {device: i for i, device in enumerate(self.devices)}
                numbers = [position.get(device, -1) for device in mesh.device_list]
            if len(numbers) != max(1, len(self.devices)) or -1 in numbers:
                raise other_devices(mesh, self.devices)
            out = np.asarray(numbers, np.int64).reshape(mesh.axis_sizes)
            self._partitions[mesh] = out
        return out

    def symbol(self, mesh: Mesh | AbstractMesh) -> str:
        """The symbol of the mesh, declared in the module if it was not."""
        axes = tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
        return self.declare(axes, tuple(self.partitions(mesh).ravel().tolist()))

    def some_mesh(self) -> Mesh | None:
        """The first mesh of devices in the module's shardings, or None."""
        return next((mesh for mesh in self._partitions if isinstance(mesh, Mesh)), None)

    def some_symbol(self) -> str:
        """The symbol of the first mesh over all partitions, for shardings that name no axis."""
        return self.some_axes()[0]

    def some_axes(self) -> tuple[str, Axes]:
        """The symbol of the first mesh over all partitions, and its axes."""
        for (axes, _), symbol in self._symbols.items():
            if axes:
                return symbol, axes
        n = max(1, len(self.devices))
        axes = (("devices", n),)
        return self.declare(axes, tuple(range(n))), axes

    def declare(self, axes: Axes, numbers: tuple[int, ...]) -> str:
        """The symbol of the mesh with these axes and partitions, in row-major order."""
        out = self._symbols.get((axes, numbers))
        if out is None:
            # Shardy wants no numbers where they are 0, 1, 2, …
            plain = bool(axes) and numbers == tuple(range(len(numbers)))
            out = stablehlo.mesh(self.module, axes, () if plain else numbers)
            self._symbols[axes, numbers] = out
        return out


def other_devices(mesh: Any, devices: Sequence[Any]) -> WeftValueError:
    """The error for an abstract mesh of other devices than the module's (`lowering.placement`
    compared the concrete ones)."""
    message = "a program over an abstract mesh runs on as many devices as the mesh has"
    got = f"{mesh!r:.200} and {max(1, len(devices))} of {mesh.size} devices"
    wanted = f"a mesh of devices, or arguments that were put on {mesh.size} devices"
    fix = Fix(
        "mesh",
        f"use weft.make_mesh({mesh.axis_sizes!r}, {mesh.axis_names!r}), or trace only "
        "(weft.make_jaxpr, weft.eval_shape)",
        {"axis_shapes": mesh.axis_sizes, "axis_names": mesh.axis_names},
    )
    return WeftValueError(message, operation="compile", got=got, wanted=wanted, fix=fix)


def sharding_attribute(meshes: MeshTable, sharding: Sharding, type: ArrayType) -> Any:
    """The attribute of a sharding for values of a type; keeps the integers of a random key
    together."""
    names: list[tuple[str, ...] | None]
    if isinstance(sharding, NamedSharding):
        symbol, spec = meshes.symbol(sharding.mesh), sharding.spec
        names = [None if spec.is_open(i) else spec.entry_axes(i) for i in range(type.ndim)]
    else:
        symbol, names = _tiles(meshes, sharding, type.ndim)
    rows = physical_type(type).ndim - type.ndim
    return stablehlo.sharding(symbol, (*names, *[()] * rows))


def unsplit_rows(meshes: MeshTable, type: ArrayType) -> Any:
    """The attribute for random keys when the compiler chooses: keeps their integers together."""
    rows = physical_type(type).ndim - type.ndim
    return stablehlo.sharding(meshes.some_symbol(), (None,) * type.ndim + ((),) * rows)


def _tiles(meshes: MeshTable, sharding: Sharding, ndim: int) -> tuple[str, list[Any]]:
    """A mesh made for one sharding, an axis for each dimension, and how it splits dimensions."""
    assignment = sharding.assignment(ndim)
    position = {device: i for i, device in enumerate(meshes.devices)}
    numbers = np.asarray([position[device] for device in sharding.device_list])
    if assignment is None:
        assignment = np.arange(len(numbers)).reshape((1,) * ndim + (-1,))
    blocks = assignment.shape
    axes = tuple((f"tiles_{i}", size) for i, size in enumerate(blocks) if size > 1)
    if not axes:
        axes = (("tiles", 1),)
    symbol = meshes.declare(axes, tuple(numbers[assignment].ravel().tolist()))
    return symbol, [(f"tiles_{i}",) if blocks[i] > 1 else () for i in range(ndim)]
