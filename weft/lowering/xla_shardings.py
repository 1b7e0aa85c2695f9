"""XLA's shardings as plain data, converted to weft's shardings and from them.

XLA can say more than a spec over a mesh: tiles in any order of devices, copies, parts of a module
that are partitioned by hand. Its numbers are partitions, not devices, so the devices are given
separately. The form is that of the GSPMD paper (Y. Xu et al., "GSPMD: general and scalable
parallelization for ML computation graphs", 2021, section 3.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import ArrayType
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import describe_value
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import op_sharding as native
from weft.sharding import Mesh, Sharding, SingleDeviceSharding, TiledSharding, named_sharding

_KINDS = ("replicated", "tiled", "maximal", "manual", "unknown", "unreduced")
_SUBGROUPS = ("replicated", "manual", "unreduced")


@dataclasses.dataclass(frozen=True, slots=True)
class XlaSharding:
    """How XLA splits one value over the partitions of a module: frozen data without devices.

    kind: "replicated" (each partition has a copy), "tiled", "maximal" (one partition has it all),
    "manual" (the value of each partition is its own), "unreduced" (each has a term of a sum) or
    "unknown";
    tile_shape: for a tiled one the lengths of the tile assignment: the number of tiles along each
    dimension of the value, then one length for each of `subgroups`;
    partitions: the numbers in the tile assignment, row by row; for a maximal one the one number;
    subgroups: the kinds of the last dimensions of the assignment: "replicated" for partitions that
    hold equal copies, "manual" or "unreduced".

    Raises WeftValueError for parts that do not fit together. Equal ones compare equal, and they
    can be hashed and pickled.

    >>> from weft.extend.sharding import XlaSharding
    >>> XlaSharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}").assignment.tolist()
    [[[0, 1]], [[2, 3]]]
    """

    kind: str
    tile_shape: tuple[int, ...] = ()
    partitions: tuple[int, ...] = ()
    subgroups: tuple[str, ...] = ()

    @api_boundary
    def __post_init__(self) -> None:
        for name in ("tile_shape", "partitions", "subgroups"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        wrong = self._wrong()
        if wrong:
            raise WeftValueError(
                f"XlaSharding: {wrong}",
                got=f"kind={self.kind!r}, tile_shape={self.tile_shape}, "
                f"partitions={self.partitions}, subgroups={self.subgroups}",
                wanted="a kind, and for tiles an assignment of every partition once",
                fix=Fix(
                    "parse",
                    "write it as XLA does: "
                    'XlaSharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")',
                    {"text": "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
                ),
            )

    def _wrong(self) -> str:
        if self.kind not in _KINDS:
            return f"there is no kind {self.kind!r}"
        if self.kind == "maximal":
            fits = len(self.partitions) == 1 and not self.tile_shape and not self.subgroups
            return "" if fits else "a maximal sharding names one partition and nothing else"
        if self.kind != "tiled":
            fits = not (self.tile_shape or self.partitions or self.subgroups)
            return "" if fits else f"a sharding of kind {self.kind!r} has no tiles"
        if any(name not in _SUBGROUPS for name in self.subgroups):
            return f"the kinds of subgroups are {', '.join(_SUBGROUPS)}"
        if len(self.subgroups) >= len(self.tile_shape):
            return "the tile assignment has no dimension of the value"
        if sorted(self.partitions) != list(range(prod(self.tile_shape))):
            return "every partition stands in the tile assignment once"
        return ""

    @staticmethod
    @api_boundary
    def parse(source: str | bytes) -> XlaSharding:
        """Parses the text of a `sharding` attribute of HLO, or the bytes of an OpSharding.

        Raises WeftValueError for a text that XLA does not read, and for the sharding of a tuple.
        """
        if not isinstance(source, str | bytes):
            message = "XlaSharding.parse takes a text or bytes"
            wanted = "a text such as '{replicated}', or the bytes of an OpSharding"
            raise WeftTypeError(message, got=describe_value(source), wanted=wanted)
        try:
            return XlaSharding(*native.parts(native.parse(source)))
        except ValueError as error:
            raise WeftValueError(
                f"this is no sharding of one value that XLA knows: {error}",
                got=f"{source!r:.200}",
                wanted="a text such as '{devices=[2,4]<=[8]}', or the bytes of an OpSharding",
                fix=Fix("text", "write it as in the HLO of a program", {"text": "{replicated}"}),
            ) from None

    @property
    def text(self) -> str:
        """The text that XLA prints in the `sharding` attribute of an HLO operation."""
        return native.text(native.make(self._parts()))

    @property
    def proto(self) -> bytes:
        """The bytes of XLA's OpSharding message."""
        return native.proto(native.make(self._parts()))

    @property
    def assignment(self) -> np.ndarray[Any, Any] | None:
        """The tile assignment: int64 numbers of partitions of shape `tile_shape`, not writable;
        None for a sharding that is not tiled."""
        if self.kind != "tiled":
            return None
        out: np.ndarray[Any, Any] = np.array(self.partitions, np.int64).reshape(self.tile_shape)
        out.flags.writeable = False
        return out

    def _parts(self) -> Any:
        return native.OpShardingFields(self.kind, self.tile_shape, self.partitions, self.subgroups)


@api_boundary
def to_xla(where: Any, ndim: int | None = None, *, devices: Sequence[Any] = ()) -> XlaSharding:
    """XLA's sharding of an array.

    `where` is an array, or a sharding of arrays of `ndim` dimensions. Partition p is device p of
    `devices`, by default of `where`'s own device list. Random keys are split as XLA stores them:
    with the dimensions of their bits behind their own.

    Raises WeftTypeError for what is neither, for a sharding without `ndim`, or for an array with
    another one; ShapeError if the spec has more entries than dimensions; WeftValueError for a
    spec that leaves dimensions to the compiler and for `devices` that are not the sharding's.

    >>> from weft.extend.sharding import to_xla
    >>> from weft.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = weft.make_mesh((4, 2), ("i", "j"))
    >>> to_xla(NamedSharding(mesh, P("i", None)), ndim=2).text
    '{devices=[4,1,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}'
    >>> to_xla(weft.numpy.ones(3)).text
    '{replicated}'
    """
    sharding, ndim, rows = _sharding_of(where, ndim)
    order = sharding.assignment(ndim)
    if order is None:
        return XlaSharding("replicated")
    if devices:
        order = _positions(sharding, devices)[order]
    copies = order.shape[-1]
    tiles = (*order.shape[:-1], *(1,) * rows)
    numbers = tuple(order.ravel().tolist())
    if copies == 1:
        return XlaSharding("tiled", tiles, numbers)
    return XlaSharding("tiled", (*tiles, copies), numbers, ("replicated",))


def _sharding_of(where: Any, ndim: int | None) -> tuple[Sharding, int, int]:
    """A sharding, the rank, and the number of trailing dimensions that only XLA has."""
    if isinstance(where, Array) and not isinstance(where, Tracer):
        of: ArrayType = where.type
        if ndim is not None and ndim != of.ndim:
            message = f"to_xla: the array has {of.ndim} dimensions"
            got = f"{of} and ndim={ndim}"
            wanted = "the array alone"
            fix = Fix("remove", "leave ndim out", {"argument": "ndim"})
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
        return where.sharding, of.ndim, physical_type(of).ndim - of.ndim
    if not isinstance(where, Sharding):
        message = "to_xla takes an array or a sharding"
        got = describe_value(where)
        wanted = "an array that is not traced, or a sharding and ndim"
        fix = Fix("sharding", "pass the sharding that it is to have, and x.ndim")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if ndim is None:
        message = "to_xla: of how many dimensions are the arrays?"
        got = f"{where!r:.100}"
        wanted = "ndim, the number of dimensions of the array that lies so"
        fix = Fix("ndim", "pass ndim=x.ndim", {"argument": "ndim"})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    return where, ndim, 0


def _positions(sharding: Sharding, devices: Sequence[Any]) -> np.ndarray[Any, Any]:
    """For each device of the sharding, its number among `devices`."""
    place = {device: position for position, device in enumerate(devices)}
    if len(place) != sharding.num_devices or place.keys() != sharding.device_set:
        message = "to_xla: these are not the devices of the sharding"
        wanted = "each of " + ", ".join(map(str, sharding.device_list)) + " once"
        fix = Fix("devices", "leave devices out", {"argument": "devices"})
        raise WeftValueError(message, got=", ".join(map(str, devices)), wanted=wanted, fix=fix)
    out: np.ndarray[Any, Any] = np.array([place[device] for device in sharding.device_list])
    return out


@api_boundary
def from_xla(source: XlaSharding | str | bytes, on: Mesh | Sequence[Any]) -> Sharding:
    """The sharding of weft's that is equivalent to one of XLA's.

    `source` is an `XlaSharding`, or a text or bytes as `XlaSharding.parse` takes them. `on` has the
    devices of partitions 0, 1, …: a sequence of devices, or a mesh. Over a mesh, the result is a
    `NamedSharding` if some spec says the same, and otherwise a `TiledSharding`.

    Raises WeftTypeError for other arguments; WeftValueError for a sharding that assigns no blocks
    to devices (manual, unknown, unreduced), and where the number of devices is not that of the
    partitions.

    >>> from weft.extend.sharding import from_xla
    >>> mesh = weft.make_mesh((4, 2), ("i", "j"))
    >>> from_xla("{devices=[4,1,2]<=[8] last_tile_dim_replicate}", mesh).spec
    P('i')
    """
    if not isinstance(source, XlaSharding):
        source = XlaSharding.parse(source)
    mesh = on if isinstance(on, Mesh) else None
    devices = _devices_of(on)
    if source.kind == "maximal":
        _check_number(source.partitions[0] < len(devices), source, devices)
        return SingleDeviceSharding(devices[source.partitions[0]])
    if source.kind not in ("tiled", "replicated") or {*source.subgroups} - {"replicated"}:
        message = "from_xla: this does not say what part of an array each device holds"
        wanted = "a sharding that is tiled or replicated"
        fix = Fix("assignment", "read the parts instead: source.assignment, source.subgroups")
        raise WeftValueError(message, got=source.text, wanted=wanted, fix=fix)
    order = None
    ndim = 0
    if source.kind == "tiled":
        _check_number(len(source.partitions) == len(devices), source, devices)
        ndim = len(source.tile_shape) - len(source.subgroups)
        order = np.array(source.partitions, np.int64).reshape(*source.tile_shape[:ndim], -1)
    if mesh is not None:
        return named_sharding(mesh, order, devices, ndim)
    return SingleDeviceSharding(devices[0]) if len(devices) == 1 else TiledSharding(devices, order)


def _devices_of(on: Any) -> tuple[Any, ...]:
    if isinstance(on, Mesh):
        return on.device_list
    if not isinstance(on, Sequence) or isinstance(on, str | bytes) or not on:
        message = "from_xla takes the devices of the partitions"
        got = describe_value(on)
        fix = Fix("devices", "use weft.devices()", {"devices": "weft.devices()"})
        raise WeftTypeError(message, got=got, wanted="a mesh, or a sequence of devices", fix=fix)
    return tuple(on)


def _check_number(fits: bool, source: XlaSharding, devices: Sequence[Any]) -> None:
    if not fits:
        number = len(source.partitions) if source.kind == "tiled" else source.partitions[0] + 1
        message = "from_xla: there are not as many devices as partitions"
        got = f"{len(devices)} devices and {source.text}"
        fix = Fix("devices", "pass a mesh or devices of that number", {"number": number})
        raise ShapeError(message, got=got, wanted=f"{number} devices", fix=fix)
