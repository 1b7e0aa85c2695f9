"""Vectorization: a mapped value is a whole array and the position of its mapped axis.

A `BatchTracer` pairs the whole array with that position; its type is the type of one element. A
primitive none of whose operands is mapped goes straight to the parent (unless it names the mapped
axis, as a collective does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base import source as sources
from weft.base.util import one_each
from weft.core import axes, rules
from weft.core.jaxpr import Jaxpr, check_marks, effects_of, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData
from weft.core.trace import (
    Trace,
    Tracer,
    check_alive,
    check_leaks,
    current_trace,
    function_as_parameter,
    reset_current,
    running,
    set_current,
)
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import rebuild
from weft.ops.collectives.all_reduce import vary
from weft.ops.structural.shape import move_dim

Dim = int | None


def element_type(type: ArrayType, dim: int, axis: AxisData) -> ArrayType:
    """The type of one element of an array mapped along `dim`."""
    shape = type.shape[:dim] + type.shape[dim + 1 :]
    if axis.spread:
        return type.update(shape=shape, varying=type.varying - axis.spread)
    return type.update(shape=shape)


def mapped_type(type: ArrayType, dim: Dim, axis: AxisData) -> ArrayType:
    """The type of the whole array, given that of an element.

    A value that varies along a mesh axis of this name does so no more: where a jaxpr for a mesh is
    evaluated without one (`weft.simulate`), its axis is a dimension.

    Args:
        dim: The mapped dimension; None if it is not mapped.
    """
    if axis.name in type.varying:
        type = type.update(varying=type.varying - {axis.name})
    if dim is None:
        return type
    shape = type.shape[:dim] + (axis.size,) + type.shape[dim:]
    if axis.spread:
        return type.update(shape=shape, varying=type.varying | axis.spread)
    return type.update(shape=shape)


class BatchTracer(Tracer):
    """A whole array; each element along `dim` is one value.

    Args:
        created: The user's line that made it; None if not known.
        value: The whole array.
        dim: The mapped dimension of the array.
    """

    __slots__ = ("dim", "value")

    def __init__(self, trace: BatchTrace, value: Any, dim: int, created: Any) -> None:
        self._trace = trace
        self.value = value
        self.dim = dim
        self.type = element_type(type_of(value), dim, trace.axis)
        self.created = created

    def __repr__(self) -> str:
        return f"{super().__repr__()} along dimension {self.dim} of {self.value!r}"


class BatchTrace(Trace):
    """Applies vmap rules; the rules themselves run under the parent."""

    __slots__ = ("axis",)

    parent: Trace

    def __init__(self, parent: Trace, axis: AxisData, function: str = "") -> None:
        super().__init__(parent, "vmap", function)
        self.axis = axis

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        values: list[Any] = []
        dims: list[Dim] = []
        active = False
        for value in args:
            if type(value) is BatchTracer and value._trace is self:
                values.append(value.value)
                dims.append(value.dim)
                active = True
            else:
                values.append(value)
                dims.append(None)
        if not active and not axes.names_axis(primitive, params, self.axis.name):
            if not self.axis.devices or not effects_of(primitive, params):
                return self.parent.process_primitive(primitive, args, params)
        token = set_current(self.parent)
        try:
            outs, dims_out = rules.vmap[primitive](self.axis, values, dims, **params)
        finally:
            reset_current(token)
        if primitive.multiple_results:
            return [self.box(x, d) for x, d in zip(outs, dims_out, strict=True)]
        return self.box(outs, dims_out)

    process_call = function_as_parameter

    def box(self, value: Any, dim: Dim) -> Any:
        """A tracer, or the value itself if it is not mapped."""
        if dim is None:
            return value
        return BatchTracer(self, value, dim, sources.current())

    def unbox(self, value: Any) -> tuple[Any, Dim]:
        """The whole array and the mapped dimension of any value."""
        if type(value) is BatchTracer and value._trace is self:
            return value.value, value.dim
        check_alive(value)
        return value, None


@check_leaks
def vmap_flat(
    function: Callable[..., Sequence[Any]],
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[Dim],
    name: str = "",
) -> tuple[list[Any], list[Dim]]:
    """Results of a mapped function of flat lists, and the mapped dimension (or None) of each."""
    trace = BatchTrace(current_trace(), axis, name)
    inputs = [trace.box(x, d) for x, d in zip(args, dims, strict=True)]
    with running(trace), axes.extend_axis(axis.name, axis.size):
        outs = function(*inputs)
    pairs = [trace.unbox(out) for out in outs]
    return [x for x, _ in pairs], [d for _, d in pairs]


def vmap_jaxpr(
    jaxpr: Jaxpr,
    axis: AxisData,
    dims: tuple[Dim, ...],
    instantiate_out: tuple[bool, ...] | bool = False,
) -> tuple[Jaxpr, tuple[Dim, ...]]:
    """The mapped jaxpr, and the mapped dimension of each result: 0, or None for one not mapped.

    Results marked in `instantiate_out` are mapped even where they do not depend on a mapped input.

    >>> from weft.extend.interpreters import batching
    >>> jaxpr = weft.make_jaxpr(lambda x, y: lax.sin(x) * y)(1.0, 2.0).jaxpr
    >>> mapped, dims = batching.vmap_jaxpr(jaxpr, batching.AxisData(None, 5), (0, None))
    >>> dims, mapped.out_types
    ((0,), [f32[5]~])
    """

    def make() -> tuple[Jaxpr, tuple[Dim, ...]]:
        check_marks("vmap_jaxpr", "input", dims, len(jaxpr.inputs))
        dims_out: list[Dim] = []

        def function(*values: Any) -> list[Any]:
            outs, found = vmap_flat(
                lambda *xs: eval_jaxpr(jaxpr, (), *xs), axis, values, dims, jaxpr.name
            )
            dims_out[:] = [
                0 if want or dim is not None else None
                for want, dim in zip(one_each(instantiate_out, len(outs)), found, strict=True)
            ]
            return [
                out if dim is None else vary(move_dim(out, old, 0, axis.size), axis.spread)
                for out, old, dim in zip(outs, found, dims_out, strict=True)
            ]

        pairs = zip(jaxpr.in_types, dims, strict=True)
        types = [mapped_type(type, dim, axis) for type, dim in pairs]
        return rebuild(function, types, jaxpr.name, "vmap"), tuple(dims_out)

    return jaxpr.memoize(("vmap", axis.key(), dims, instantiate_out), make)
