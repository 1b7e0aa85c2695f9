"""`NamedSharding`: a sharding as a spec over the axes of a mesh; and how the spec of an assignment
of blocks is found."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from weft.base.notebooks import ShownInNotebooks
from weft.errors import Fix, ShapeError, WeftError, WeftTypeError, WeftValueError, api_boundary
from weft.sharding.mesh import AnyMesh
from weft.sharding.names import check_known, quote_names
from weft.sharding.sharding import (
    DEVICE_MEMORY,
    Assignment,
    Sharding,
    TiledSharding,
    check_memory,
    checked_shape,
)
from weft.sharding.spec import PartitionSpec

Device = Any


class NamedSharding(Sharding, ShownInNotebooks):
    """An array split over the axes of a mesh, as a `PartitionSpec` says.

    `mesh` is a Mesh, or an AbstractMesh where only shapes matter; `spec` a PartitionSpec. Along the
    mesh axes that the spec does not mention, devices hold copies. Over an AbstractMesh without axes
    it asks for nothing (`without_axes`). Equal shardings are one object.

    Raises WeftTypeError for arguments of other kinds, AxisError for an axis that the mesh does not
    have, and WeftValueError for a spec with sums. Whether it fits an array is checked where it
    meets one. `memory_kind` is "device", or on a CPU one of the other names of its memory.

    >>> from weft.sharding import Mesh, NamedSharding, PartitionSpec as P
    >>> mesh = Mesh(np.array(weft.devices()[:8]).reshape(4, 2), ("i", "j"))
    >>> sharding = NamedSharding(mesh, P("j", None))
    >>> sharding
    NamedSharding(Mesh('i': 4, 'j': 2), P('j', None))
    >>> sharding.shard_shape((6, 5))
    (3, 5)
    >>> sharding.devices_indices_map((6, 5))[weft.devices()[1]]
    (slice(3, 6, None), slice(None, None, None))
    """

    __slots__ = ("_is_replicated", "_kind", "_shorter", "mesh", "spec")

    mesh: Any
    spec: PartitionSpec
    _kind: str
    _is_replicated: bool
    _shorter: NamedSharding | None  # None: it is the shortest spelling itself

    @api_boundary
    def __new__(cls, mesh: AnyMesh, spec: PartitionSpec, memory_kind: str | None = None) -> Self:
        kind = memory_kind or DEVICE_MEMORY
        plain = kind == DEVICE_MEMORY
        key = (mesh, spec) if plain else (mesh, spec, kind)
        # A tuple would be looked up as the spec that it equals.
        out = cls._existing(key) if type(spec) is PartitionSpec else None
        if out is not None:
            return out
        if not isinstance(mesh, AnyMesh):
            message = "NamedSharding: the first argument is a mesh"
            got = f"{mesh!r:.100} ({type(mesh).__name__})"
            fix = Fix("make_mesh", "make one with weft.make_mesh(axis_shapes, axis_names)")
            raise WeftTypeError(message, got=got, wanted="a Mesh", fix=fix)
        if not isinstance(spec, PartitionSpec):
            raise _no_spec(spec)
        check_known("NamedSharding", spec.axes() + spec.sum, spec, mesh.axis_names)
        if spec.sum:
            message = "NamedSharding: arrays hold no sums that are still to be taken"
            got = repr(spec)
            fix = Fix("spec", "use spec.update(sum=())", {"spec": spec.update(sum=())})
            raise WeftValueError(message, got=got, wanted="a spec without sum", fix=fix)
        if not plain:
            check_memory("NamedSharding", kind, getattr(mesh, "device_list", None) or ())
        short = _shortest(mesh, spec)
        return cls._made_of(
            key,
            mesh=mesh,
            spec=spec,
            _is_replicated=mesh.axis_size(spec.axes()) == 1,
            _shorter=None if plain and short == spec else NamedSharding(mesh, short),
            _kind=kind,
        )

    @property
    def memory_kind(self) -> str:
        return self._kind

    def with_memory_kind(self, kind: str) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    @property
    def without_axes(self) -> bool:
        """Whether its mesh has no axes: such a sharding, as types have it, asks for nothing."""
        empty: bool = self.mesh.empty
        return empty

    @property
    def canonical(self) -> NamedSharding:
        return self._shorter or self

    @property
    def device_list(self) -> tuple[Device, ...]:
        devices: tuple[Device, ...] = self.mesh.device_list
        return devices

    @property
    def num_devices(self) -> int:
        size: int = self.mesh.size
        return size

    @property
    def is_fully_replicated(self) -> bool:
        return self._is_replicated

    def block_counts(self, ndim: int) -> tuple[int, ...]:
        self._check_rank("NamedSharding", "an array", ndim, f"{ndim} dimensions")
        return tuple(self.mesh.axis_size(self.spec.entry_axes(i)) for i in range(ndim))

    def assignment(self, ndim: int) -> Assignment:
        self._check_rank("NamedSharding", "an array", ndim, f"{ndim} dimensions")
        return _assignment(self, ndim)

    def check_shape(self, operation: str, what: str, shape: Sequence[int]) -> None:
        lengths = checked_shape(operation, shape)
        self._check_rank(operation, what, len(lengths), f"shape {lengths!r}")
        for dimension, length in enumerate(lengths):
            axes = self.spec.entry_axes(dimension)
            if axes and length % self.mesh.axis_size(axes):
                raise self._indivisible(operation, what, lengths, dimension)

    def _check_rank(self, operation: str, what: str, ndim: int, got: str) -> None:
        if len(self.spec) > ndim:
            fixed = PartitionSpec(*self.spec[:ndim])
            raise ShapeError(
                f"{operation}: the spec {self.spec!r} of {what} has more entries than "
                f"{what} has dimensions",
                operation=operation,
                got=f"{got} with {self.spec!r}",
                wanted=f"{ndim} entries at most",
                fix=Fix("spec", f"use {fixed!r}", {"spec": fixed}),
            )

    def _indivisible(
        self, operation: str, what: str, shape: tuple[int, ...], dimension: int
    ) -> ShapeError:
        axes = self.spec.entry_axes(dimension)
        count, length = self.mesh.axis_size(axes), shape[dimension]
        padded = -(-length // count) * count
        entries = list(self.spec)
        entries[dimension] = None
        whole = PartitionSpec(*entries)
        lengths = shape[:dimension] + (padded,) + shape[dimension + 1 :]
        named = ("axis " if len(axes) == 1 else "axes ") + quote_names(axes)
        message = (
            f"{operation}: dimension {dimension} of {what}, of length {length}, cannot be split "
            f"into {count} equal blocks over the mesh {named}"
        )
        got = f"shape {shape!r} with {self.spec!r} over {self.mesh!r}"
        wanted = f"a multiple of {count} in place of {length}"
        text = f"pad dimension {dimension} to {padded}, or use {whole!r}"
        fix = Fix("pad", text, {"shape": lengths, "spec": whole, "dimension": dimension})
        return ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)

    def with_spec(self, spec: PartitionSpec) -> NamedSharding:
        """Another spec over the same mesh."""
        return NamedSharding(self.mesh, spec, self._kind)

    def update(self, *, mesh: Any = None, spec: Any = None) -> NamedSharding:
        """Another mesh or another spec."""
        mesh, spec = (self.mesh if mesh is None else mesh), (self.spec if spec is None else spec)
        return NamedSharding(mesh, spec, self._kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSharding, (self.mesh, self.spec, self._kind)

    def __repr__(self) -> str:
        kind = "" if self._kind == DEVICE_MEMORY else f", memory_kind={self._kind!r}"
        return f"NamedSharding({self.mesh!r}, {self.spec!r}{kind})"


def _shortest(mesh: AnyMesh, spec: PartitionSpec) -> PartitionSpec:
    """The shortest equal spec: without axes of length 1 and trailing unsplit dimensions."""
    long = {name for name, size in mesh.shape_tuple if size > 1}
    entries = [
        entry if spec.is_open(i) else tuple(n for n in spec.entry_axes(i) if n in long)
        for i, entry in enumerate(spec)
    ]
    while entries and entries[-1] == ():
        entries.pop()
    return PartitionSpec(*entries)


def _no_spec(spec: Any) -> WeftTypeError:
    entries = spec if isinstance(spec, tuple | list) else (spec,)
    try:
        fixed = PartitionSpec(*entries)
    except WeftError:
        fixed = PartitionSpec()
    message = "NamedSharding: the second argument is a PartitionSpec"
    got = f"{spec!r:.100} ({type(spec).__name__})"
    fix = Fix("spec", f"use {fixed!r}", {"entries": tuple(fixed)})
    return WeftTypeError(message, got=got, wanted="a PartitionSpec", fix=fix)


@functools.lru_cache(maxsize=4096)
def _assignment(sharding: NamedSharding, ndim: int) -> Assignment:
    mesh, spec = sharding.mesh, sharding.spec
    undecided = [dimension for dimension in range(len(spec)) if spec.is_open(dimension)]
    if undecided:
        fixed = PartitionSpec(*(None if spec.is_open(i) else entry for i, entry in enumerate(spec)))
        message = "a dimension that is left to the compiler does not say where an array lies"
        got = f"{spec!r}"
        wanted = "None or mesh axes for each dimension"
        fix = Fix("spec", f"use {fixed!r}", {"spec": fixed})
        raise WeftValueError(message, operation="NamedSharding", got=got, wanted=wanted, fix=fix)
    if sharding.is_fully_replicated:
        return None
    positions = np.arange(mesh.size).reshape(mesh.axis_sizes)
    used = [mesh.axis_names.index(name) for name in spec.axes()]
    rest = [axis for axis in range(positions.ndim) if axis not in used]
    counts = sharding.block_counts(ndim)
    order: np.ndarray[Any, Any] = positions.transpose(used + rest).reshape(*counts, -1)
    order.flags.writeable = False
    return order


def named_sharding(
    mesh: Any, assignment: Assignment, device_list: Sequence[Device], ndim: int
) -> NamedSharding | TiledSharding:
    """The sharding over a mesh that splits arrays as an assignment does, if there is one.

    `assignment` holds positions in `device_list`, which may have the mesh's devices in another
    order; those of the result are positions in its own `device_list`. If the devices are not those
    of the mesh, or no spec says the same, the result is a TiledSharding. A spec has no entries for
    the last dimensions that are not split, and names no axis of length 1.

    mesh: the mesh of the result; ndim: the number of dimensions of the arrays that are split.
    """
    listed = tuple(device_list)
    tiled = TiledSharding(listed, assignment)
    if mesh.empty or frozenset(listed) != frozenset(mesh.device_list):
        return tiled
    place = {device: position for position, device in enumerate(listed)}
    order = [place[device] for device in mesh.device_list]
    numbers = tiled.block_coordinates(ndim)[order].reshape(*mesh.axis_sizes, ndim)
    entries: list[tuple[str, ...]] = []
    for dimension in range(ndim):
        # A spec makes the number of a block a positional notation whose digits are coordinates of
        # the mesh: the step along an axis is the weight of its digit, the largest comes first.
        steps = {}
        for axis, name in enumerate(mesh.axis_names):
            if mesh.axis_sizes[axis] > 1:
                unit = [0] * len(mesh.axis_sizes)
                unit[axis] = 1
                steps[name] = int(numbers[(*unit, dimension)])
        digits = sorted((name for name in steps if steps[name] > 0), key=lambda n: -steps[n])
        entries.append(tuple(digits))
    names = [name for entry in entries for name in entry]
    if len(set(names)) < len(names):
        return tiled
    found = NamedSharding(mesh, PartitionSpec(*entries)).canonical
    agrees = found.block_counts(ndim) == tiled.block_counts(ndim) and np.array_equal(
        found.block_coordinates(ndim), numbers.reshape(mesh.size, ndim)
    )
    return found if agrees else tiled
