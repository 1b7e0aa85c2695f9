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
from weft.core.trace import Trace, Tracer, function_as_parameter, leaked, using_trace
from weft.core.types import ArrayType, type_of
from weft.errors import ConcretizationError, Fix
from weft.ops.collectives.invariant import all_gather_invariant, pscatter
from weft.sharding import PartitionSpec
from weft.spmd.block_types import Manual
from weft.spmd.shard_map_primitive import shard_map_p
from weft.spmd.why_varying import Cause


class BlockValue(Tracer):
    """The blocks of all devices, in `stacked`. `constant` says that it depends on no block;
    `causes` has the cause for each axis along which they differ."""

    __slots__ = ("causes", "constant", "stacked")

    _trace: BlocksTrace

    def __init__(
        self,
        trace: BlocksTrace,
        type: ArrayType,
        stacked: Any,
        causes: dict[str, Cause] | None = None,
        constant: Any = None,
    ) -> None:
        super().__init__(trace, type)
        self.stacked = stacked
        self.causes = causes or {}
        self.constant = constant

    def blocks(self) -> list[tuple[dict[str, int], np.ndarray[Any, Any]]] | None:
        """Coordinates of devices in the mesh, and the block of each, in the mesh's order: at least
        one per index along the axes where blocks differ. None if not known."""
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
        mesh = self._trace.manual.mesh
        shown = [axis for axis in mesh.axis_names if axis in self.type.varying]
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


class BlocksTrace(Trace):
    """Evaluates primitives on the blocks of all devices of a mesh. Its values are of the class
    `tracer`; it must not read those of the transformations `outside`."""

    __slots__ = ("manual", "outside")

    parent: Trace
    tracer: type[BlockValue]
    # What derived classes define: a shard_map inside this one, an application to tracers of this
    # trace (its results as a list), and any other value as a tracer of this trace.
    run_nested: Callable[..., list[Any]]
    apply: Callable[..., list[Any]]
    from_outside: Callable[[Any], Any]

    def __init__(
        self, parent: Trace, name: str, manual: Manual, outside: frozenset[Any], function: str
    ) -> None:
        super().__init__(parent, name, function)
        self.manual = manual
        self.outside = outside

    process_call = function_as_parameter

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if primitive is shard_map_p:
            return self.run_nested(args, params)
        # A function with custom derivatives: nothing is differentiated here.
        if not primitive.memoise and "function" in params:
            with using_trace(self):
                return params["function"](*args)
        outs = self.apply(primitive, [self.box(x) for x in args], params)
        return outs if primitive.multiple_results else outs[0]

    def box(self, value: Any) -> Any:
        """Any operand as a tracer of this trace."""
        if type(value) is not self.tracer:
            return self.from_outside(value)
        if value._trace is self:
            return value
        if not value._trace.alive:
            raise leaked(value)
        # From a shard_map around this one, over other axes of the same mesh.
        return self.tracer(self, value.type, value.stacked, value.causes, value.constant)


def split_further(value: Any, spec: PartitionSpec) -> Any:
    """Splits blocks of a shard_map into the smaller ones of a shard_map inside it."""
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
    """The first cause for each axis along which a result of an application varies."""
    axes = frozenset[str]().union(*(t.varying for t in types))
    out = {axis: cause for x in operands for axis, cause in x.causes.items() if axis in axes}
    for axis in axes - out.keys():
        out[axis] = Cause(primitive.name, sources.current())
    return out


def depends_on_devices(primitive: Primitive, params: dict[str, Any], manual: Manual) -> bool:
    """Whether an application has effects or names a manual axis."""
    if not params:
        return False
    if effects_of(primitive, params):
        return True
    return any(names_axis(primitive, params, axis) for axis in manual.axes)
