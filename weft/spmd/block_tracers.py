"""The base class of values inside a shard_map that is evaluated eagerly or simulated.

The blocks of all devices are one value; it is shown by the devices' coordinates, and Python can
read it only where the blocks are equal. For each axis along which they differ a cause is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.base import source as sources
from weft.core.axes import names_axis
from weft.core.jaxpr import effects_of
from weft.core.primitive import Primitive
from weft.core.trace import Trace, Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import ConcretizationError, Fix
from weft.ops.collectives.invariant import all_gather_invariant, pscatter
from weft.sharding import PartitionSpec
from weft.spmd.block_types import Manual
from weft.spmd.why_varying import Cause

__all__ = ["BlockValue", "causes_of", "depends_on_devices", "joined_again", "split_further"]


class BlockValue(Tracer):
    """The blocks of all devices; `causes` has the cause for each axis along which they differ.
    Its trace has the mesh, in `manual`."""

    __slots__ = ("causes",)

    def __init__(
        self, trace: Trace, type: ArrayType, causes: dict[str, Cause] | None = None
    ) -> None:
        super().__init__(trace, type)
        self.causes = causes or {}

    def blocks(self) -> list[tuple[dict[str, int], np.ndarray[Any, Any]]] | None:
        """Returns the coordinates of devices in the mesh, and the block of each, in the order of
        the mesh; at least one per index along the axes where blocks differ. None: not known."""
        raise NotImplementedError(f"{type(self).__name__} does not define blocks")

    def describe(self) -> str:
        if not self.type.varying:
            return super().describe()
        axes = ", ".join(map(repr, sorted(self.type.varying)))
        return f"a value of type {self.type} that differs between devices over {axes}"

    def no_value(
        self, what: str, fix: str, error: Callable[..., ConcretizationError]
    ) -> ConcretizationError:
        axes = tuple(sorted(self.type.varying))
        if not axes:
            return super().no_value(what, fix, error)
        named = ", ".join(map(repr, axes))
        return error(
            f"{what} needs one value, and this one differs between devices over {named}",
            operation=what,
            got=f"{self.describe()}\n{self}",
            wanted="a value that is equal on all devices",
            fix=Fix(
                "agree",
                f"make it equal on all devices first, for example lax.pmax(x, {axes!r}), or write "
                "the choice with weft.numpy.where or weft.lax.cond",
                {"axes": axes},
            ),
        )

    def __repr__(self) -> str:
        found = self.blocks() if self._trace.alive else None
        if found is None:
            return super().__repr__()
        lines = [f"Blocks of type {self.type!r}"]
        manual: Manual = self._trace.manual  # type: ignore[attr-defined]
        shown = [axis for axis in manual.mesh.axis_names if axis in self.type.varying]
        seen = set()
        for where, value in found:
            place = tuple(where[axis] for axis in shown)
            if place in seen:
                continue
            seen.add(place)
            label = ", ".join(f"{axis}={where[axis]}" for axis in shown)
            head = f"  {label}: " if shown else "  on all devices: "
            lines.append(head + np.array2string(value, separator=", ", prefix=head))
        return "\n".join(lines)

    __str__ = __repr__


def split_further(value: Any, spec: PartitionSpec) -> Any:
    """Splits blocks of a shard_map into the smaller ones that a shard_map inside it sees."""
    for dimension in range(type_of(value).ndim):
        axes = spec.entry_axes(dimension)
        if axes:
            value = pscatter(value, axes, axis=dimension, tiled=True)
    return value


def joined_again(value: Any, spec: PartitionSpec) -> Any:
    """Undoes `split_further`."""
    for dimension in range(type_of(value).ndim):
        axes = spec.entry_axes(dimension)
        if axes:
            value = all_gather_invariant(value, axes, axis=dimension, tiled=True)
    return value


def causes_of(
    primitive: Primitive, operands: Sequence[BlockValue], types: Sequence[ArrayType]
) -> dict[str, Cause]:
    """Returns the first cause for each axis along which a result of an application varies."""
    axes = frozenset[str]().union(*(t.varying for t in types))
    found = {axis: cause for x in operands for axis, cause in x.causes.items() if axis in axes}
    for axis in axes - found.keys():
        found[axis] = Cause(primitive.name, sources.current())
    return found


def depends_on_devices(primitive: Primitive, params: dict[str, Any], manual: Manual) -> bool:
    """Returns whether an application has effects or names a manual axis."""
    if not params:
        return False
    if effects_of(primitive, params):
        return True
    return any(names_axis(primitive, params, axis) for axis in manual.axes)
