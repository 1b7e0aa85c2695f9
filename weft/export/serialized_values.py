"""Types, arrays and shardings of an exported function as data, without devices or classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array, as_stored
from weft.arrays.conversion import as_array
from weft.core.types import ArrayType
from weft.errors import Fix, WeftError, WeftTypeError, WeftValueError
from weft.export.container import Fields, Sections, invalid_bytes_error
from weft.ops.structural.extended_dtypes import KeyDType, key_bits, physical_type
from weft.random import threefry
from weft.random.generator import generator_named
from weft.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding, TiledSharding

# Every dtype that an array may have, by the name that files know it by.
_DTYPES = {dtype.name: dtype for dtype in sorted(dtypes.ANY | dtypes.NARROW, key=str)}
# The generator of the keys that a file may hold is found by its name; this one is always there.
_ALWAYS_THERE = threefry


def type_to_data(type: ArrayType) -> dict[str, Any]:
    """A type as data. Raises WeftValueError for keys of a generator that has no name."""
    found: dict[str, Any] = {"shape": list(type.shape), "weak": type.weak_type}
    if isinstance(type.dtype, KeyDType):
        return {**found, "key": generator_named(type.dtype.implementation.name, "export").name}
    return {**found, "dtype": type.dtype.name}


def type_from_data(fields: Fields) -> ArrayType:
    """The type that was written. Raises WeftValueError for a dtype that is not known here."""
    shape, weak = fields.integers("shape"), fields.boolean("weak")
    if fields.names() == ("key",):
        name = fields.text("key")
        try:
            dtype: Any = generator_named(name, "export.deserialize").dtype
        except WeftValueError as error:
            raise invalid_bytes_error(
                f"{fields.what} holds random keys of the generator {name!r}, which is not here",
                repr(name),
                error.wanted,
                Fix("generator", "define it first: "
                    f"weft.extend.random.define_generator({name!r}, ...)"),
            ) from None  # fmt: skip
    else:
        name = fields.text("dtype")
        dtype = _DTYPES.get(name)
        if dtype is None:
            raise invalid_bytes_error(
                f"{fields.what} has a dtype that is not known here",
                repr(name), ", ".join(_DTYPES), Fix("upgrade", "upgrade weft here"),
            )  # fmt: skip
    fields.end()
    return ArrayType(shape, dtype, weak)


def array_to_data(value: Any, sections: Sections) -> dict[str, Any]:
    """An array as data: its type, and its elements (a key's bits), row-major and little-endian, in
    a new section."""
    array = as_array(value)
    bits = key_bits(array) if isinstance(array.dtype, KeyDType) else array
    values = np.asarray(bits)
    if values.dtype.kind in "iufc" and values.dtype.newbyteorder("<") != values.dtype:
        values = values.astype(values.dtype.newbyteorder("<"))
    return {"type": type_to_data(array.type), "section": sections.add(values.tobytes())}


def array_from_data(fields: Fields, sections: Sequence[bytes]) -> Array:
    """The array that was written, on the default device."""
    type = type_from_data(Fields(fields.take("type"), f"type in {fields.what}"))
    content = sections[fields.integer("section", len(sections))]
    fields.end()
    stored = physical_type(type)
    wanted = prod(stored.shape) * stored.dtype.itemsize
    if len(content) != wanted:
        raise invalid_bytes_error(
            f"{fields.what} does not fill its section", f"{len(content)} bytes", f"{wanted} bytes"
        )
    return as_stored(np.frombuffer(content, stored.dtype).reshape(stored.shape), type)


@dataclasses.dataclass(frozen=True)
class Split:
    """How an array is split over the partitions of a module: a sharding without devices. With
    `names`, by a mesh of the `sizes`, made of the `partitions` in row-major order, and a `spec`
    over its axes. Without, `sizes` are the numbers of blocks along each dimension and of copies,
    and `partitions` hold the blocks; no sizes: each holds all of it."""

    sizes: tuple[int, ...]
    partitions: tuple[int, ...]
    names: tuple[str, ...] = ()
    spec: tuple[Any, ...] = ()

    @property
    def sharding(self) -> NamedSharding | None:
        """The sharding over an abstract mesh; None if there is no mesh."""
        if not self.names:
            return None
        return NamedSharding(AbstractMesh(self.sizes, self.names), PartitionSpec(*self.spec))

    def assignment(self, ndim: int) -> np.ndarray[Any, Any] | None:
        """Which partitions hold the blocks of an array, as `Sharding.assignment` says it."""
        numbers = np.asarray(self.partitions)
        if self.sharding is None:
            return numbers.reshape(*self.sizes, -1) if self.sizes else None
        found = self.sharding.assignment(ndim)
        return None if found is None else numbers[np.asarray(found)]

    def on(self, devices: Sequence[Any]) -> Sharding:
        """The sharding, where `devices[p]` runs partition p."""
        if not self.names:
            blocks = None if not self.sizes else np.reshape(self.partitions, self.sizes)
            return TiledSharding(devices, blocks)
        grid = np.empty(len(self.partitions), object)
        grid[:] = [devices[i] for i in self.partitions]
        return NamedSharding(Mesh(grid.reshape(self.sizes), self.names), PartitionSpec(*self.spec))


def split_of(sharding: Any, devices: Sequence[Any], ndim: int) -> Split | None:
    """How a sharding splits an array over the partitions that run on `devices`."""
    if sharding is None or len(devices) <= 1:
        return None
    position = {device: i for i, device in enumerate(devices)}
    numbers = tuple(position[device] for device in sharding.device_list)
    if isinstance(sharding, NamedSharding):
        mesh, spec = sharding.mesh, sharding.spec
        entries = [None if spec.is_open(i) else spec[i] for i in range(len(spec))]
        return Split(mesh.axis_sizes, numbers, mesh.axis_names, tuple(entries))
    if isinstance(sharding, TiledSharding):
        blocks = sharding.assignment(ndim)
        if blocks is None:
            return Split((), numbers)
        tiles = np.asarray(numbers)[blocks]
        return Split(tiles.shape, tuple(tiles.ravel().tolist()))
    message = "this kind of sharding cannot be written down"
    got = f"{sharding!r:.200}"
    fix = Fix("named", "use a NamedSharding over a mesh")
    raise WeftTypeError(message, operation="export", got=got, wanted="a NamedSharding", fix=fix)


def split_to_data(split: Split | None) -> Any:
    """A split as data."""
    if split is None:
        return None
    spec = [list(entry) if isinstance(entry, tuple) else entry for entry in split.spec]
    found = {name: list(getattr(split, name)) for name in ("sizes", "partitions", "names")}
    return {**found, "spec": spec}


def split_from_data(value: Any, what: str, type: ArrayType, num_devices: int) -> Split | None:
    """The split of an array that was written. Raises WeftValueError for an invalid one."""
    if value is None:
        return None
    fields = Fields(value, what)
    sizes, numbers = tuple(fields.integers("sizes")), tuple(fields.integers("partitions"))
    names = tuple(fields.texts("names"))
    spec = tuple(tuple(x) if isinstance(x, list) else x for x in fields.array("spec"))
    fields.end()
    out = Split(sizes, numbers, names, spec)
    try:
        # The length first: the number of devices may be any number.
        each_once = len(numbers) == num_devices and sorted(numbers) == list(range(num_devices))
        whole = each_once and prod(sizes or (num_devices,)) == num_devices
        if not whole or (not names and sizes and len(sizes) != type.ndim + 1):
            raise WeftValueError(f"it is none over {num_devices} devices")
        if out.sharding is not None:
            out.sharding.check_shape("export", what, type.shape)
    except WeftError as error:
        raise invalid_bytes_error(f"{what} is ill-formed", repr(out), str(error)[:300]) from None
    return out
