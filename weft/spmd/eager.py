"""Evaluates a shard_map eagerly: each operation runs at once on the blocks of all devices.

A `BlockTracer` holds the blocks of all devices as one array over the mesh, concatenated along the
mesh axes where they may differ. Each operation runs as a small executable on all devices, compiled
once per primitive, types of blocks, mesh and parameters; a second call compiles nothing. The
user's Python can read values that are equal on all devices. Nothing is moved where blocks enter
and leave: the same buffers get another type and sharding.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import config
from weft.arrays.array import Array, array_at, as_stored, deleted, signature_of, to_layout, to_place
from weft.arrays.conversion import array_of, as_array
from weft.arrays.shards import join, parts_of
from weft.base.program_caches import on_clear
from weft.core import rules
from weft.core.jaxpr import Equation, Jaxpr, Var, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rules import Params, Types
from weft.core.trace import Tracer, bottom_trace, leaked, using_trace
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftValueError
from weft.interpreters.staging import trace_to_jaxpr
from weft.lowering.executables import FAST_COMPILE_LIMIT, Program, compile_program, run_program
from weft.lowering.placement import outside_mesh, same_devices
from weft.lowering.result_layouts import operand_layouts
from weft.ops.structural.extended_dtypes import physical_type
from weft.runtime import client
from weft.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from weft.spmd.block_tracers import (
    BlocksTrace,
    BlockValue,
    causes_of,
    depends_on_devices,
    joined_again,
    split_further,
)
from weft.spmd.block_types import Manual, block_type, leaving_spec, whole_type
from weft.spmd.escaped_tracers import check_not_hidden
from weft.spmd.shard_map_primitive import body_of, enter, inside, leave, left_type, shard_map_p
from weft.spmd.simulated import simulate_shard_map
from weft.spmd.why_varying import Cause

_NUMBERS = (bool, int, float, complex, np.generic)


@functools.lru_cache(maxsize=1024)
def _number_everywhere(how: NamedSharding, type: ArrayType, value: Any, text: str) -> Array:
    """A number on all devices of a mesh, cached."""
    return to_place(array_of(value, type), how)


on_clear(_number_everywhere.cache_clear)


class BlockTracer(BlockValue):
    """The blocks of all devices, in `stacked`; or `constant`, a value that depends on no block."""

    __slots__ = ()

    _trace: BlockTrace

    def concrete(self) -> Any:
        if self.constant is not None:
            return self.constant
        if self.type.varying:
            return None
        part = client.backend().shards(self.stacked._buffer)[0]
        layout = self.stacked._layout()
        device = client.backend().device_of(part)
        return Array(part, self.type, signature_of(self.type, device, layout))

    def blocks(self) -> list[tuple[dict[str, int], np.ndarray[Any, Any]]]:
        """Each device's coordinates in the mesh and its block, in the order of the mesh."""
        mesh = self._trace.manual.mesh
        parts = client.backend().shards(self._trace.stack(self)._buffer)
        out = []
        for index, part in zip(np.ndindex(*mesh.axis_sizes), parts, strict=True):
            value = client.backend().to_numpy(part)
            shape = physical_type(self.type).shape
            out.append((dict(zip(mesh.axis_names, index, strict=True)), value.reshape(shape)))
        return out

    def block_until_ready(self) -> BlockTracer:
        if self.stacked is not None:
            self.stacked.block_until_ready()
        return self


class BlockTrace(BlocksTrace):
    """Evaluates primitives on the blocks of all devices, at once."""

    __slots__ = ("outer",)

    tracer = BlockTracer

    def __init__(self, manual: Manual, outside: frozenset[Any], function: str) -> None:
        super().__init__(bottom_trace(), "shard_map", manual, outside, function)
        # Arrays from outside by identity, so that each is copied to all devices once.
        self.outer: dict[int, tuple[BlockTracer, Array]] = {}

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        return NamedSharding(self.manual.mesh, spec)

    def from_outside(self, value: Any) -> BlockTracer:
        known = self.outer.get(id(value))
        if known is not None:
            return known[0]
        check_not_hidden([value], self.outside)
        if isinstance(value, Tracer):
            raise leaked(value)
        tracer = BlockTracer(self, type_of(value), None, constant=value)
        if type(value) is Array:
            self.outer[id(value)] = (tracer, value)
        return tracer

    def stack(self, tracer: BlockTracer) -> Array:
        """The array over the mesh that holds the blocks."""
        if tracer.stacked is None:
            value = tracer.constant
            if isinstance(value, _NUMBERS) and value == value:  # NaN is no key
                # Equal numbers of one type are the same number, but for the sign of a zero.
                text = "" if value and tracer.type.dtype.kind != "c" else str(value)
                how = self.sharding(PartitionSpec())
                tracer.stacked = _number_everywhere(how, tracer.type, value, text)
            else:
                tracer.stacked = self.placed(value, PartitionSpec())
        return tracer.stacked

    def placed(self, value: Any, spec: PartitionSpec) -> Array:
        """Puts an operand on the mesh. Raises WeftValueError for one committed to other devices."""
        array = as_array(value)
        if array.is_deleted():  # checked here: a body may return it without an operation
            raise deleted(array)
        place = array._committed_place()
        if place is not None and not same_devices(place, self.manual.mesh):
            raise outside_mesh(f"shard_map of {self.function}", place, self.manual.mesh)
        return to_place(array, self.sharding(spec))

    def retype(self, array: Array, type: ArrayType, spec: PartitionSpec) -> Array:
        """An array of the same buffers with another type and spec."""
        how = self.sharding(spec)
        if array.type is type and array.sharding is how:
            return array
        if not type.size:  # Empty blocks may be along a dimension of their own.
            physical = physical_type(type)
            return as_stored(np.zeros(physical.shape, physical.dtype), type, how)
        if array.type.ndim != type.ndim:
            array = to_layout(array, None)
        buffer = join(client.backend().shards(array._buffer), parts_of(how, type))
        return array_at(buffer, type, how, array._layout())

    def enter(self, value: Any, spec: PartitionSpec, number: int) -> BlockTracer:
        """The operand of index `number` as blocks."""
        of = type_of(value)
        causes = dict.fromkeys(spec.axes(), Cause(None, operand=number))
        block = block_type(of, spec, self.manual)
        if type(value) is BlockTracer:  # nested: the blocks of a shard_map around this one
            with using_trace(self):
                tracer: BlockTracer = self.box(split_further(self.box(value), spec))
            tracer.causes = tracer.causes | causes
            return tracer
        stacked = self.retype(self.placed(value, spec), *self.stacked_form(block))
        return BlockTracer(self, block, stacked, causes)

    def leave(self, value: Any, spec: PartitionSpec, nested: bool) -> Any:
        tracer = self.box(value)
        if nested:
            with using_trace(self):
                return joined_again(tracer, spec)
        whole = whole_type(tracer.type, spec, self.manual)
        return self.retype(self.stack(tracer), whole, spec)

    def stacked_form(self, block: ArrayType) -> tuple[ArrayType, PartitionSpec]:
        """The type and spec of the array that holds the blocks of a type."""
        spec = leaving_spec(block, self.manual)
        return whole_type(left_type(block, self.manual), spec, self.manual), spec

    def run_nested(self, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        return run_blocks(args, params, self)

    def apply(
        self, primitive: Primitive, tracers: Sequence[BlockTracer], params: dict[str, Any]
    ) -> list[Any]:
        constants = [x.constant for x in tracers]
        if all(x is not None for x in constants) and not depends_on_devices(
            primitive, params, self.manual
        ):
            outs = self.parent.process_primitive(primitive, constants, params)
            return [self.box(out) for out in (outs if primitive.multiple_results else [outs])]
        if primitive.facts.calls_python:  # Once per device, with that device's blocks.
            return self.call_python(primitive, tracers, params)
        stacked = [self.stack(x) for x in tracers]
        program, types = self.program(primitive, tracers, params, operand_layouts(stacked))
        return self.traced(primitive, tracers, types, run_program(program, stacked))

    def traced(
        self,
        primitive: Primitive,
        tracers: Sequence[BlockTracer],
        types: Sequence[ArrayType],
        arrays: Sequence[Array],
    ) -> list[Any]:
        """The results of an application, from the arrays that hold its blocks."""
        causes = causes_of(primitive, tracers, types)
        return [BlockTracer(self, t, x, causes) for t, x in zip(types, arrays, strict=True)]

    def program(
        self, primitive: Primitive, tracers: Sequence[BlockTracer], params: Params, layouts: Any
    ) -> tuple[Program, list[ArrayType]]:
        """The executable of an application, and the types of the blocks it computes."""
        types = tuple(x.type for x in tracers)
        free: tuple[bool, ...] = ()
        if self.manual.explicit:
            free = tuple(x.constant is not None for x in tracers)
        varying = config.settings_in_keys and config.settings().of_operations
        rest = tuple(params.items())  # last, see ParameterCache
        key = (self.manual, types, free, layouts, varying, rest)
        if primitive.memoise:
            cache = primitive.executables(params)
        else:
            held = jaxprs_in(params)
            cache = held[0].memoize(("blocks", primitive), dict) if held else {}
        try:
            out = cache.get(key)
        except TypeError:  # a parameter that cannot be hashed: compiled each time
            return self.compile(primitive, types, free, params, layouts)
        if out is None:
            out = cache[key] = self.compile(primitive, types, free, params, layouts)
        return out

    def compile(
        self, primitive: Primitive, types: Types, free: Sequence[bool], params: Params, layouts: Any
    ) -> tuple[Program, list[ArrayType]]:
        manual = self.manual
        made: list[ArrayType] = []

        def body(*blocks: Any) -> list[Any]:
            values = [enter(x, t.shape) for x, t in zip(blocks, types, strict=True)]
            for x, flag in zip(values, free, strict=bool(free)):
                if flag:  # Constants are cast also where the user writes casts.
                    x._trace.constants.add(x._var)
            out = primitive.bind(*values, **params)
            outs = out if primitive.multiple_results else [out]
            made[:] = [type_of(x) for x in outs]
            return [leave(x, manual) for x in outs]

        with inside(manual):
            jaxpr, consts = trace_to_jaxpr(
                body,
                [left_type(t, manual) for t in types],
                transformation="shard_map",
                name=primitive.name,
            )
        assert not consts
        pairs = [self.stacked_form(t) for t in types]
        results = [self.stacked_form(t) for t in made]
        inputs, outputs = [Var(t) for t, _ in pairs], [Var(t) for t, _ in results]
        eqn = Equation(
            shard_map_p,
            inputs,
            {
                "jaxpr": jaxpr,
                "manual": manual,
                "in_specs": tuple(spec for _, spec in pairs),
                "out_specs": tuple(spec for _, spec in results),
                "name": primitive.name,
            },
            outputs,
        )
        assert isinstance(manual.mesh, Mesh)
        program = compile_program(
            Jaxpr(inputs, [eqn], outputs),
            primitive.name,
            manual.mesh.device_list,
            fast_compile=sum(t.size for t in (*types, *made)) <= FAST_COMPILE_LIMIT,
            in_shardings=[self.sharding(spec) for _, spec in pairs],
            out_shardings=[self.sharding(spec) for _, spec in results],
            in_layouts=layouts,
        )
        return program, list(made)

    def call_python(
        self, primitive: Primitive, tracers: Sequence[BlockTracer], params: dict[str, Any]
    ) -> list[Any]:
        """Runs a primitive that calls a Python function for one device after the other."""
        mesh = self.manual.mesh
        columns = [client.backend().shards(self.stack(x)._buffer) for x in tracers]
        rows: list[list[Any]] = []
        for i in range(mesh.size):
            blocks = [
                as_stored(
                    client.backend().to_numpy(parts[i]).reshape(physical_type(x.type).shape),
                    x.type.update(varying=()),
                )
                for parts, x in zip(columns, tracers, strict=True)
            ]
            outs = self.parent.process_primitive(primitive, blocks, params)
            rows.append([np.asarray(x) for x in outs])
        types = rules.type_rule[primitive](*(x.type for x in tracers), **params)
        arrays = list(map(self.assemble, types, zip(*rows, strict=True)))
        return self.traced(primitive, tracers, types, arrays)

    def assemble(self, type: ArrayType, blocks: Sequence[np.ndarray[Any, Any]]) -> Array:
        """The array of blocks given as NumPy arrays."""
        whole, spec = self.stacked_form(type)
        how = self.sharding(spec)
        parts = parts_of(how, whole)
        shape = physical_type(left_type(type, self.manual)).shape
        values = [np.asarray(x).reshape(shape) for x in blocks]
        buffer = client.backend().put_shards(values, parts.stored, parts.placement, parts.devices)
        return Array(buffer, whole, (whole, how))


def run_blocks(args: Sequence[Any], params: dict[str, Any], around: BlockTrace | None) -> list[Any]:
    """Evaluates a shard_map on arrays, or on the blocks of the shard_map `around` it."""
    manual, in_specs, name = params["manual"], params["in_specs"], params["name"]
    if isinstance(manual.mesh, AbstractMesh):
        message = f"shard_map of {name}: an abstract mesh has no devices to run on"
        wanted = "a mesh of devices, or tracing only (weft.make_jaxpr, weft.eval_shape)"
        fix = Fix(
            "mesh",
            "make a mesh of devices with weft.make_mesh, or run it on one device inside "
            "weft.simulate(mesh)",
            {"axis_shapes": manual.mesh.axis_sizes, "axis_names": manual.mesh.axis_names},
        )
        raise WeftValueError(message, got=repr(manual.mesh), wanted=wanted, fix=fix)
    axes = manual.axes
    if around is not None:
        both = set(axes) | set(around.manual.axes)
        axes = tuple(axis for axis in manual.mesh.axis_names if axis in both)
    trace = BlockTrace(manual._replace(axes=axes), params.get("outside", frozenset()), name)
    function, out_specs = body_of(params)
    try:
        with inside(manual):
            blocks = list(map(trace.enter, args, in_specs, range(len(args))))
            with using_trace(trace):
                outs = function(*blocks)
            pairs = zip(outs, out_specs(), strict=True)
            found = [trace.leave(x, spec, around is not None) for x, spec in pairs]
        return found if around is None else [around.box(x) for x in found]
    finally:
        trace.finish()


def shard_map_impl(*args: Any, **params: Any) -> list[Any]:
    if params["manual"].simulated:
        return simulate_shard_map(args, params)
    return run_blocks(args, params, None)


rules.impl.register(shard_map_p, shard_map_impl)
