"""vmap of declared primitives: one application of a primitive that maps the declared one.

`mapped_primitive(p)` is applied once for a whole mapped axis. It is lowered to the vmap of the body
of p, or to a loop over the elements where p has none. Its derivatives are p's own rules, mapped: a
rule that was given for p stays in force under vmap, and again under vmap of vmap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.util import drop_marked, keep_marked, merge, partition
from weft.control_flow.loop_parts import Loop
from weft.control_flow.scan import bind_scan
from weft.core import rules
from weft.core.axes import with_environment
from weft.core.check import result_types
from weft.core.jaxpr import Jaxpr
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.define.declared_primitive import DefinedPrimitive
from weft.define.derived_rules import derive_program_rules, listed, packed
from weft.interpreters.staging import trace_to_jaxpr
from weft.interpreters.vmap import vmap_flat, vmap_jaxpr
from weft.ops.declare import join_varying
from weft.ops.elementwise.families import elementwise_vmap
from weft.ops.structural.constants import inline_consts
from weft.ops.structural.shape import move_dim, reduce_sum


class MappedPrimitive(DefinedPrimitive):
    """A declared primitive applied to each element of an axis of length `size`. `dims` are the
    operands' mapped dimensions; results are mapped at 0. `params` are the parameters of the inner
    application."""

    __slots__ = ("inner",)

    def __init__(self, inner: DefinedPrimitive) -> None:
        super().__init__(
            f"mapped_{inner.name}", body=inner.body, multiple_results=inner.multiple_results
        )
        self.inner = inner

    def explain(self, error: Exception, types: Sequence[ArrayType], params: dict[str, Any]) -> None:
        """Does nothing: the inner primitive has explained the error."""

    def record(self, types: Sequence[ArrayType], params: dict[str, Any]) -> Jaxpr:
        """The vmap of the inner jaxpr, or a loop over the elements."""
        size, dims, own = params["size"], params["dims"], dict(params["params"])
        elements = element_types(types, dims)
        inner = self.inner
        if inner.body is not None:
            program = inner.program(elements, own)
            return vmap_jaxpr(program, AxisData(None, size), dims, True)[0]

        whole = [dim is None for dim in dims]
        count = sum(whole)

        # The loop's body takes the fixed operands first, then the elements.
        def body(*values: Any) -> list[Any]:
            operands = merge(whole, values[:count], values[count:])
            return listed(inner, inner.bind(*operands, **own))

        def function(*values: Any) -> list[Any]:
            fixed, mapped = partition(whole, values)
            places = drop_marked(whole, dims)
            rows = [move_dim(x, dim, 0, size) for x, dim in zip(mapped, places, strict=True)]
            return bind_scan(step, Loop(size, False, 1, count, 0), fixed, [], rows)

        with with_environment(()):
            in_order = [*keep_marked(whole, elements), *drop_marked(whole, elements)]
            step, consts = trace_to_jaxpr(body, in_order, transformation="vmap", name=inner.name)
            step = inline_consts(step, consts)
            jaxpr, consts = trace_to_jaxpr(function, types, transformation="vmap", name=inner.name)
        return inline_consts(jaxpr, consts)


def element_types(types: Sequence[ArrayType], dims: Dims) -> list[ArrayType]:
    """The types of one element of each operand."""
    return [
        t if dim is None else t.update(shape=t.shape[:dim] + t.shape[dim + 1 :])
        for t, dim in zip(types, dims, strict=True)
    ]


def derive_vmap(primitive: DefinedPrimitive) -> None:
    """Registers a vmap rule unless one was given."""
    if primitive in rules.vmap:
        return
    rule = elementwise_vmap(primitive.bind) if primitive.elementwise else None

    def vmap(axis: AxisData, args: Sequence[Any], dims: Dims, /, **params: Any) -> tuple[Any, Any]:
        if rule is not None:
            found, dim = rule(axis, args, dims, **params)
            return (found, [dim] * len(found)) if primitive.multiple_results else (found, dim)
        mapped = mapped_primitive(primitive)
        found = mapped.bind(
            *args, size=axis.size, dims=tuple(dims), params=tuple(sorted(params.items()))
        )
        return (found, [0] * len(found)) if primitive.multiple_results else (found, 0)

    rules.vmap.register(primitive, vmap)
    primitive.derived.add(rules.vmap.kind)


def mapped_primitive(inner: DefinedPrimitive) -> MappedPrimitive:
    """The primitive that applies another one to each element of an axis, made once."""
    if inner.mapped is None:
        made = MappedPrimitive(inner)

        def type_rule(*types: ArrayType, **params: Any) -> Any:
            return _mapped_type(made, types, **params)

        def jvp(primals: Values, tangents: Values, /, **params: Any) -> Any:
            return _mapped_derivative(made, rules.jvp[inner], primals, tangents, **params)

        def linearize(primals: Values, tangents: Values, /, **params: Any) -> Any:
            rule = rules.linearize.get(inner) or rules.jvp[inner]
            return _mapped_derivative(made, rule, primals, tangents, **params)

        def transpose(cotangents: Any, /, *operands: Any, **params: Any) -> list[Any]:
            return _mapped_transpose(made, cotangents, operands, **params)

        rules.type_rule.register(made, type_rule)
        rules.jvp.register(made, jvp)
        rules.linearize.register(made, linearize)
        rules.transpose.register(made, transpose)
        derive_program_rules(made, lambda table, rule: table.setdefault(made, rule))
        derive_vmap(made)
        inner.mapped = made
    out: MappedPrimitive = inner.mapped
    return out


def _mapped_type(
    primitive: MappedPrimitive,
    types: Sequence[ArrayType],
    *,
    size: int,
    dims: tuple[int | None, ...],
    params: Any,
) -> Any:
    elements = tuple(element_types(types, dims))
    found = listed(primitive, result_types(primitive.inner, elements, dict(params)))
    axes = join_varying(types)
    return packed(primitive, [t.update(shape=(size, *t.shape), varying=axes) for t in found])


def _mapped_derivative(
    primitive: MappedPrimitive,
    rule: Any,
    primals: Values,
    tangents: Values,
    *,
    size: int,
    dims: tuple[int | None, ...],
    params: Any,
) -> tuple[Any, Any]:
    """The inner primitive's own rule, mapped."""
    inner, n = primitive.inner, len(primals)
    found: list[Any] = []
    active = [i for i, t in enumerate(tangents) if type(t) is not Zero]

    def function(*values: Any) -> list[Any]:
        own = list(values[:n])
        own_tangents: list[Any] = [Zero(type_of(x).tangent()) for x in own]
        for i, t in zip(active, values[n:], strict=True):
            own_tangents[i] = t
        outs, outs_tangents = rule(own, own_tangents, **dict(params))
        outs, found[:] = listed(inner, outs), listed(inner, outs_tangents)
        return [*outs, *(t for t in found if type(t) is not Zero)]

    values = [*primals, *(tangents[i] for i in active)]
    at = [*dims, *(dims[i] for i in active)]
    outs, out_dims = vmap_flat(function, AxisData(None, size), values, at, inner.name)
    moved = [move_dim(x, d, 0, size) for x, d in zip(outs, out_dims, strict=True)]
    count = len(found)
    results, rest = moved[:count], iter(moved[count:])
    own = [
        Zero(type_of(x).tangent()) if type(t) is Zero else next(rest)
        for x, t in zip(results, found, strict=True)
    ]
    return packed(primitive, results), packed(primitive, own)


def _mapped_transpose(
    primitive: MappedPrimitive,
    cotangents: Any,
    operands: Sequence[Any],
    *,
    size: int,
    dims: tuple[int | None, ...],
    params: Any,
) -> list[Any]:
    """The inner primitive's transpose rule, mapped; cotangents of unmapped operands are summed."""
    inner = primitive.inner
    rule = rules.transpose[inner]
    types = [x.type if type(x) is LinearOperand else type_of(x) for x in operands]
    elements = element_types(types, dims)
    cts = listed(primitive, cotangents)
    known = [i for i, x in enumerate(operands) if type(x) is not LinearOperand]
    some = [i for i, ct in enumerate(cts) if type(ct) is not Zero]
    reached: list[int] = []

    def function(*values: Any) -> list[Any]:
        own: list[Any] = [LinearOperand(t, inner.name) for t in elements]
        for i, x in zip(known, values, strict=False):
            own[i] = x
        own_cts: list[Any] = [
            Zero(ct.type.update(shape=ct.type.shape[1:])) if type(ct) is Zero else ct for ct in cts
        ]
        for i, ct in zip(some, values[len(known) :], strict=True):
            own_cts[i] = ct
        found = rule(packed(inner, own_cts), *own, **dict(params))
        reached[:] = [
            i
            for i, (ct, x) in enumerate(zip(found, own, strict=True))
            if type(x) is LinearOperand and ct is not None and type(ct) is not Zero
        ]
        return [found[i] for i in reached]

    values = [*(operands[i] for i in known), *(cts[i] for i in some)]
    at = [*(dims[i] for i in known), *(0 for _ in some)]
    found, found_dims = vmap_flat(function, AxisData(None, size), values, at, inner.name)
    out: list[Any] = [None] * len(operands)
    for i, ct, dim in zip(reached, found, found_dims, strict=True):
        where = dims[i]
        if where is None:
            out[i] = reduce_sum(move_dim(ct, dim, 0, size), (0,))
        else:
            out[i] = move_dim(ct, dim, where, size)
    return out
