"""Simulates a shard_map on one device: every mesh axis becomes a dimension of the values.

Each device's block is a row of an array, and a collective along an axis is a reduction or movement
of its dimension: the rules by which `vmap` treats named axes are all that is needed. Types are
tracked as on a mesh, so the same functions are refused. Only the evaluation is simulated:
derivatives have been taken before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.axes import axis_environment, mesh_axes, names_axis, with_environment
from weft.core.check import result_types
from weft.core.jaxpr import effects_of
from weft.core.primitive import Primitive
from weft.core.rules import AxisData
from weft.core.trace import Trace, Tracer, current_trace, using_trace
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import implicit_cast, rebuild
from weft.interpreters.vmap import vmap_flat
from weft.ops.indexing.dynamic_slicing import index_in_dim
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reshape, transpose
from weft.sharding import PartitionSpec
from weft.spmd.block_tracers import (
    BlocksTrace,
    BlockValue,
    causes_of,
    depends_on_devices,
    joined_again,
    split_further,
)
from weft.spmd.block_types import Manual, block_type
from weft.spmd.escaped_tracers import check_not_hidden
from weft.spmd.shard_map_primitive import body_of, inside, lower_shard_map, shard_map_p
from weft.spmd.why_varying import Cause


class SimulationTracer(BlockValue):
    """The blocks of all devices as one array, with a leading dimension for each axis along which
    they may differ, in the order of the mesh. A `constant` depends on no block."""

    __slots__ = ()

    _trace: SimulationTrace

    def concrete(self) -> Any:
        return None if self.type.varying else self.known()

    def known(self) -> Any:
        """The array of all blocks; None if only its type is known."""
        value = self.stacked
        return value.concrete() if isinstance(value, Tracer) else value

    def unknown(self) -> Tracer:
        if self.type.varying or not isinstance(self.stacked, Tracer):
            return self
        return self.stacked.unknown()

    def blocks(self) -> list[tuple[dict[str, int], np.ndarray[Any, Any]]] | None:
        value = self.known()
        if value is None:
            return None
        array = as_array(value)._stored()
        axes = self._trace.ordered(self.type.varying)
        return [
            (dict(zip(axes, place, strict=True)), array[place])
            for place in np.ndindex(*array.shape[: len(axes)])
        ]


class SimulationTrace(BlocksTrace):
    """Evaluates primitives on the blocks of all devices, under its parent."""

    __slots__ = ("environment",)

    tracer = SimulationTracer

    def __init__(
        self, parent: Trace, manual: Manual, outside: frozenset[Any], function: str
    ) -> None:
        super().__init__(parent, "simulated shard_map", manual, outside, function)
        # The axis names bound around the shard_map: inside, mesh axes are mapped dimensions.
        self.environment = axis_environment()

    def ordered(self, axes: Any) -> tuple[str, ...]:
        return tuple(axis for axis in self.manual.mesh.axis_names if axis in axes)

    def from_outside(self, value: Any) -> SimulationTracer:
        check_not_hidden([value], self.outside)
        return SimulationTracer(self, type_of(value), value, constant=True)

    def run_nested(self, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        return run(args, params, self)

    def apply(
        self, primitive: Primitive, tracers: Sequence[SimulationTracer], params: dict[str, Any]
    ) -> list[Any]:
        types, params = self.joined(primitive, tracers, params)
        made = result_types(primitive, tuple(types), params)
        out_types = made if primitive.multiple_results else [made]
        causes = causes_of(primitive, tracers, out_types)
        constant = all(x.constant for x in tracers) and not depends_on_devices(
            primitive, params, self.manual
        )
        values = [x.stacked for x in tracers]
        holds = [self.ordered(x.type.varying) for x in tracers]
        axes = self.mapped_axes(primitive, params, holds)
        with with_environment(self.environment), using_trace(self.parent):
            outs, found = self.mapped(primitive, params, values, holds, axes)
            rows = zip(outs, found, out_types, strict=True)
            stacked = [self.stacked_as(x, held, self.ordered(t.varying)) for x, held, t in rows]
        pairs = zip(out_types, stacked, strict=True)
        return [SimulationTracer(self, t, x, causes, constant) for t, x in pairs]

    def joined(
        self, primitive: Primitive, tracers: Sequence[SimulationTracer], params: dict[str, Any]
    ) -> tuple[Sequence[ArrayType], dict[str, Any]]:
        """Operand types that vary as the primitive needs, and parameters for those.

        Raises AxisError for a cast that the user has to write; constants need none.
        """
        types: Sequence[ArrayType] = [x.type for x in tracers]
        retype = rules.retype.get(primitive)
        if retype is not None:
            with inside(self.manual):
                types, params = retype(types, params)
        elif primitive.memoise:
            union: frozenset[str] = frozenset().union(*(t.varying for t in types))
            types = [t.update(varying=union) for t in types]
        if self.manual.explicit:
            explicit = {axis.name for axis in mesh_axes() if axis.explicit}
            for x, wanted in zip(tracers, types, strict=True):
                axes = (wanted.varying - x.type.varying) & explicit
                if axes and not x.constant:
                    raise implicit_cast(primitive, x.type, axes, [x.type for x in tracers])
        return types, params

    def mapped_axes(
        self, primitive: Primitive, params: dict[str, Any], holds: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        """The mesh axes to map over: those of operands, named ones, and all for effects. Every
        device has the effects of a jaxpr, also with equal values. Axes that are not manual here may
        be those of a shard_map inside a jaxpr."""
        axes = {axis for held in holds for axis in held}
        if params:
            effects = effects_of(primitive, params)
            axes |= {
                axis.name
                for axis in mesh_axes()
                if effects or names_axis(primitive, params, axis.name)
            }
        return self.ordered(axes)

    def mapped(
        self,
        primitive: Primitive,
        params: dict[str, Any],
        values: Sequence[Any],
        holds: Sequence[tuple[str, ...]],
        axes: Sequence[str],
    ) -> tuple[list[Any], list[tuple[str, ...]]]:
        """Maps a primitive over mesh axes, outermost first; returns the results, and the axes of
        which each has dimensions."""
        if not axes:
            out = primitive.bind(*values, **params)
            outs = list(out) if primitive.multiple_results else [out]
            return outs, [()] * len(outs)
        axis, rest = axes[0], axes[1:]
        inner = [tuple(name for name in held if name != axis) for held in holds]
        found: list[tuple[str, ...]] = []

        def function(*elements: Any) -> list[Any]:
            outs, found[:] = self.mapped(primitive, params, elements, inner, rest)
            return outs

        dims = [0 if axis in held else None for held in holds]
        data = AxisData(axis, self.manual.mesh.shape[axis], devices=True)
        outs, places = vmap_flat(function, data, values, dims, self.function)
        pairs = zip(outs, places, strict=True)
        moved = [x if dim is None else move_dim(x, dim, 0, data.size) for x, dim in pairs]
        both = zip(found, places, strict=True)
        return moved, [held if dim is None else (axis, *held) for held, dim in both]

    def stacked_as(self, x: Any, held: tuple[str, ...], wanted: tuple[str, ...]) -> Any:
        """A result with dimensions for exactly the axes `wanted`, along which it varies."""
        for axis in [axis for axis in held if axis not in wanted]:
            x = index_in_dim(x, 0, held.index(axis), keepdims=False)
            held = tuple(name for name in held if name != axis)
        if held == wanted:
            return x
        shape = type_of(x).shape
        sizes = tuple(self.manual.mesh.shape[axis] for axis in wanted)
        rest = range(len(wanted), len(wanted) + len(shape) - len(held))
        places = (*(wanted.index(axis) for axis in held), *rest)
        return broadcast_in_dim(x, (*sizes, *shape[len(held) :]), places)

    def enter(self, value: Any, spec: PartitionSpec, number: int) -> SimulationTracer:
        """The operand of index `number` as blocks; split dimensions become two or more."""
        of = type_of(value)
        causes = dict.fromkeys(spec.axes(), Cause(None, operand=number))
        block = block_type(of, spec, self.manual)
        shape: list[int] = []
        places: dict[str, int] = {}
        for dimension in range(of.ndim):
            for axis in spec.entry_axes(dimension):
                places[axis] = len(shape)
                shape.append(self.manual.mesh.shape[axis])
            shape.append(block.shape[dimension])
        first = [places[axis] for axis in self.ordered(places)]
        rest = [i for i in range(len(shape)) if i not in first]
        with with_environment(self.environment), using_trace(self.parent):
            stacked = value if not first else transpose(reshape(value, shape), (*first, *rest))
        return SimulationTracer(self, block, stacked, causes)

    def enter_nested(self, value: Any, spec: PartitionSpec, number: int) -> SimulationTracer:
        """`enter` for an operand of blocks of a shard_map around this one."""
        found = split_further(self.box(value), spec)
        causes = found.causes | dict.fromkeys(spec.axes(), Cause(None, operand=number))
        return SimulationTracer(self, found.type, found.stacked, causes)

    def leave(self, value: Any, spec: PartitionSpec) -> Any:
        tracer = self.box(value)
        axes = self.ordered(tracer.type.varying)
        order: list[int] = []
        shape: list[int] = []
        for dimension, size in enumerate(tracer.type.shape):
            named = spec.entry_axes(dimension)
            order += [axes.index(axis) for axis in named]
            order.append(len(axes) + dimension)
            shape.append(size * self.manual.mesh.axis_size(named))
        with with_environment(self.environment), using_trace(self.parent):
            return reshape(transpose(tracer.stacked, order), shape) if axes else tracer.stacked


def run(args: Sequence[Any], params: dict[str, Any], around: SimulationTrace | None) -> list[Any]:
    """Simulates a shard_map under the current trace, or inside another simulated one."""
    manual, name = params["manual"], params["name"]
    outside = params.get("outside", frozenset())
    function, out_specs = body_of(params)
    parent = current_trace() if around is None else around.parent
    trace = SimulationTrace(parent, manual, outside, name)
    if around is not None:
        trace.environment = around.environment
    try:
        with inside(manual), using_trace(trace):
            enter = trace.enter if around is None else trace.enter_nested
            outs = function(*map(enter, args, params["in_specs"], range(len(args))))
            if around is None:
                return [trace.leave(x, s) for x, s in zip(outs, out_specs(), strict=True)]
            found = [joined_again(trace.box(x), s) for x, s in zip(outs, out_specs(), strict=True)]
        return [around.box(x) for x in found]
    finally:
        trace.finish()


def simulate_shard_map(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of a shard_map, computed under the current trace without a mesh."""
    return run(args, params, None)


def shard_map_lower(context: Any, *values: Any, **params: Any) -> list[Any]:
    if not params["manual"].simulated:
        return lower_shard_map(context, *values, **params)
    name = params["name"]
    jaxpr = rebuild(lambda *xs: run(xs, params, None), context.in_types, name, "simulate")
    return list(context.lower_jaxpr(jaxpr, values, f"shard_map({name})"))


rules.lower.register(shard_map_p, shard_map_lower)
