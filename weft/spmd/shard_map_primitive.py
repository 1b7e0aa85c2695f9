"""The `shard_map` primitive: a function of blocks that every device of a mesh runs on its own part.

Evaluated, it is applied to a Python function (see `spmd.eager`); recorded, it holds a jaxpr whose
types say along which mesh axes values vary. A transformation of it is the shard_map of the
transformed function: `jvp`, `linearize`, `vmap` and `transpose` go inside and know nothing of
meshes. The transpose is exact due to the types alone: a cast of an invariant value to a varying
one is an equation (`pbroadcast`), and its transpose is the one sum that is needed.

A residual leaves the first shard_map and enters the second with the blocks of all devices,
concatenated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.base.util import drop_marked, keep_marked, merge, partition
from weft.core import rules
from weft.core.axes import axis_environment, extend_mesh, names_axis, with_environment
from weft.core.check import checked, operands_do_not_fit
from weft.core.inner_programs import InnerProgram, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Var, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Params, Retyped, Values, Zero
from weft.core.trace import Tracer, using_trace
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, Fix, JaxprError, WeftNotImplementedError, WeftValueError
from weft.interpreters.hoist import pvary_jaxpr
from weft.interpreters.jvp import (
    jvp_flat,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.linearize import linear_program, linearize_flat
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr, split_equation
from weft.interpreters.partial_eval import dce_equations, partial_eval_jaxpr
from weft.interpreters.staging import StagingTracer, rebuild, trace_to_jaxpr
from weft.interpreters.transpose import backward_pass
from weft.interpreters.vmap import vmap_flat
from weft.lowering.module import ManualMesh
from weft.lowering.result_layouts import keep_in_program
from weft.ops.collectives.all_reduce import pbroadcast_p, vary
from weft.ops.structural.extended_dtypes import physical_type
from weft.ops.structural.shape import reshape
from weft.refs.discharge import inner_write_error, pure_call
from weft.runtime import stablehlo, stablehlo_collectives
from weft.sharding import PartitionSpec
from weft.spmd.block_types import Manual, block_type, insert_dim, leaving_spec, whole_type
from weft.spmd.escaped_tracers import check_not_hidden

Specs = tuple[PartitionSpec, ...]
# The specs of the results of a Python function are known once it has run.
OutSpecs = Callable[[], Specs]

shard_map_p = Primitive("shard_map", multiple_results=True, memoise=False)


def call_shard_map(
    params: Params,
    function: Callable[..., list[Any]],
    args: Values,
    in_specs: Sequence[PartitionSpec],
    out_specs: OutSpecs,
) -> list[Any]:
    """Applies the primitive to a function of flat blocks, whose results vary as their specs say.
    `params` have the mesh (`manual`), the `name`, and `outside`, the transformations around the
    call whose traced values the function must not read: they would not be differentiated."""
    rest = {"manual": params["manual"], "in_specs": tuple(in_specs), "out_specs": out_specs}
    rest |= {"name": params["name"], "outside": params.get("outside", frozenset())}
    return list(shard_map_p.call(function, *args, **rest))


def inside(manual: Manual) -> Any:
    """`with inside(manual):` binds the names of the manual axes."""
    how = (manual.explicit, manual.untyped, manual.bucket_bytes)
    return extend_mesh(manual.mesh, manual.axes, *how)


def body_of(params: dict[str, Any]) -> tuple[Callable[..., list[Any]], OutSpecs]:
    """The function of blocks that an application runs, and the specs of its results."""
    if "function" in params:
        return params["function"], params["out_specs"]
    jaxpr, specs = params["jaxpr"], params["out_specs"]
    return lambda *blocks: eval_jaxpr(jaxpr, (), *blocks), lambda: specs


def shard_map_stage(args: Sequence[Any], params: Params) -> tuple[Sequence[Any], Params]:
    """Records the function; closed-over values become operands, whole on every device."""
    if "function" not in params:
        return args, params
    manual, in_specs, name = params["manual"], params["in_specs"], params["name"]
    types = [block_type(type_of(x), spec, manual) for x, spec in zip(args, in_specs, strict=True)]
    with inside(manual):
        jaxpr, consts = trace_to_jaxpr(
            params["function"], types, transformation="shard_map", name=name, references=True
        )
    call = pure_call(jaxpr, consts)
    if call.written:
        raise inner_write_error(f"shard_map of {name}", call.written[0])
    jaxpr, consts = call.jaxpr, call.consts
    check_not_hidden(consts, params["outside"])
    # Where a cast was put before a broadcast, the first broadcast is left over.
    eqns, _ = dce_equations(jaxpr.eqns, jaxpr.outputs)
    jaxpr = Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, 0, name)
    return [*consts, *args], {
        "jaxpr": jaxpr,
        "manual": manual,
        "in_specs": (PartitionSpec(),) * len(consts) + in_specs,
        "out_specs": params["out_specs"](),
        "name": name,
    }


def shard_map_type(
    *types: ArrayType, jaxpr: Jaxpr, manual: Manual, in_specs: Specs, out_specs: Specs, name: str
) -> list[ArrayType]:
    blocks = [block_type(t, spec, manual) for t, spec in zip(types, in_specs, strict=True)]
    for got, wanted in zip(blocks, jaxpr.in_types, strict=True):
        if got.strong() is not wanted.strong():
            raise operands_do_not_fit(f"shard_map of {name}", blocks, jaxpr.in_types)
    for type, spec in zip(jaxpr.out_types, out_specs, strict=True):
        if set(manual.ordered(type.varying)) != set(spec.axes()):
            raise JaxprError(f"shard_map of {name}: a result of type {type} has the spec {spec}")
    return [whole_type(t, spec, manual) for t, spec in zip(jaxpr.out_types, out_specs, strict=True)]


def shard_map_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    manual, jaxpr = params["manual"], params["jaxpr"]
    pairs = zip(types, params["in_specs"], jaxpr.in_types, strict=True)
    outer = [
        t.update(varying=t.varying | (own.varying - set(spec.axes()))) for t, spec, own in pairs
    ]
    blocks = [block_type(t, s, manual) for t, s in zip(outer, params["in_specs"], strict=True)]
    both = zip(jaxpr.in_types, blocks, strict=True)
    wanted = [own.update(varying=block.varying) for own, block in both]
    with inside(manual):
        return outer, params | {"jaxpr": pvary_jaxpr(jaxpr, wanted)}


def shard_map_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    function, out_specs = body_of(params)
    in_specs, n = params["in_specs"], len(primals)
    nonzero, given = nonzero_tangents(tangents)
    marks: tuple[bool, ...] = ()

    def both(*blocks: Any) -> list[Any]:
        nonlocal marks
        inner = merge_zeros(nonzero, blocks[n:], [type_of(x) for x in blocks[:n]])
        outs, found = jvp_flat(function, blocks[:n], inner, params["name"])
        marks, _ = nonzero_tangents(found)
        return [*outs, *_as_varying(found, outs)]

    def specs() -> Specs:
        return (*out_specs(), *keep_marked(marks, out_specs()))

    every_spec = [*in_specs, *keep_marked(nonzero, in_specs)]
    found = call_shard_map(params, both, [*primals, *given], every_spec, specs)
    outs = found[: len(marks)]
    return outs, merge_zeros(marks, found[len(marks) :], [type_of(x) for x in outs])


def _as_varying(tangents: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
    """The nonzero tangents, each varying as its primal does."""
    pairs = zip(tangents, outs, strict=True)
    return [vary(t, type_of(x).varying) for t, x in pairs if type(t) is not Zero]


class _Split:
    """Results of tracing the first shard_map of a linearization: the linear jaxpr of blocks, the
    sources of its residuals, and which results have tangents."""

    def __init__(self) -> None:
        self.program: Jaxpr
        self.marks: list[bool] = []
        # Per residual: an operand or a value that is the same outside, with its spec; None for
        # one that leaves.
        self.known: list[tuple[Any, PartitionSpec] | None] = []
        self.leaving: list[PartitionSpec] = []


def shard_map_linearize(primals: Values, tangents: Values, **params: Any) -> Derived:
    function, out_specs = body_of(params)
    manual, in_specs, name = params["manual"], params["in_specs"], params["name"]
    nonzero, given = nonzero_tangents(tangents)
    split = _Split()

    def forward(*blocks: Any) -> list[Any]:
        outs, found, linear = linearize_flat(function, blocks, nonzero, "linearize", name)
        with using_trace(linear):
            flags, _ = nonzero_tangents(found)
            found = merge(flags, _as_varying(found, outs), drop_marked(flags, found))
        program, residuals, split.marks = linear_program(linear, found)
        split.program, residuals = _with_casts_inside(program, residuals, blocks)
        own = {id(x): i for i, x in enumerate(blocks)}
        split.known.clear()
        split.leaving.clear()
        leaving = []
        for value in residuals:
            if id(value) in own:
                i = own[id(value)]
                split.known.append((primals[i], in_specs[i]))
            elif not isinstance(value, Tracer):
                split.known.append((value, PartitionSpec()))
            else:
                split.known.append(None)
                split.leaving.append(leaving_spec(type_of(value), manual))
                leaving.append(leave(value, manual))
        return [*outs, *leaving]

    found = call_shard_map(
        params, forward, primals, in_specs, lambda: (*out_specs(), *split.leaving)
    )
    n = len(split.marks)
    own_specs = out_specs()
    stored = [known is None for known in split.known]
    left = zip(found[n:], split.leaving, strict=True)
    residuals = merge(stored, left, drop_marked(stored, split.known))
    tangents_out: list[Any] = []
    if any(split.marks):
        tangents_out = shard_map_p.bind(
            *(x for x, _ in residuals),
            *given,
            jaxpr=entering(split.program, [*stored, *(False for _ in given)], manual),
            manual=manual,
            in_specs=(*(spec for _, spec in residuals), *keep_marked(nonzero, in_specs)),
            out_specs=tuple(keep_marked(split.marks, own_specs)),
            name=name,
        )
    return found[:n], merge_zeros(split.marks, tangents_out, [type_of(x) for x in found[:n]])


def _with_casts_inside(
    program: Jaxpr, residuals: Sequence[Any], blocks: Sequence[Any]
) -> tuple[Jaxpr, list[Any]]:
    """A linear jaxpr and its residuals with blocks in place of casts of blocks, which would leave
    as arrays with a copy per device: the jaxpr casts again."""
    operands = {x._var: x for x in blocks if type(x) is StagingTracer}
    inputs, casts, found = list(program.inputs), [], list(residuals)
    for i, value in enumerate(residuals):
        made = value._trace.maker(value._var) if type(value) is StagingTracer else None
        if made is not None and made.primitive is pbroadcast_p and made.inputs[0] in operands:
            found[i] = operands[made.inputs[0]]
            inputs[i] = Var(found[i].type)
            casts.append(made.replace(inputs=[inputs[i]], outputs=[program.inputs[i]]))
    if not casts:
        return program, found
    eqns = [*casts, *program.eqns]
    return checked(Jaxpr(inputs, eqns, program.outputs, program.num_consts, program.name)), found


def is_stacked(block: ArrayType, manual: Manual) -> bool:
    """Whether blocks of this type need a leading dimension to be concatenated along."""
    return bool(manual.ordered(block.varying)) and not (block.shape and block.shape[0])


def leave(block: Any, manual: Manual) -> Any:
    """A block in the form in which it leaves (see `leaving_spec`)."""
    of = type_of(block)
    return reshape(block, (1, *of.shape)) if is_stacked(of, manual) else block


def enter(block: Any, shape: tuple[int, ...]) -> Any:
    """Undoes `leave`."""
    return block if type_of(block).shape == shape else reshape(block, shape)


def left_type(block: ArrayType, manual: Manual) -> ArrayType:
    """The type of a block in the form in which it leaves."""
    return block.update(shape=(1, *block.shape)) if is_stacked(block, manual) else block


def entering(jaxpr: Jaxpr, stored: Sequence[bool], manual: Manual) -> Jaxpr:
    """A jaxpr that takes the inputs marked in `stored` in the form of blocks that left."""
    inputs, first = list(jaxpr.inputs), []
    for i, (var, flag) in enumerate(zip(jaxpr.inputs, stored, strict=True)):
        if not flag or not is_stacked(var.type, manual):
            continue
        small, _ = trace_to_jaxpr(
            lambda x, shape=var.type.shape: [enter(x, shape)],
            [left_type(var.type, manual)],
            transformation="shard_map",
            name=jaxpr.name,
        )
        first += [*small.eqns[:-1], small.eqns[-1].replace(outputs=[var])]
        inputs[i] = small.inputs[0]
    return Jaxpr(inputs, [*first, *jaxpr.eqns], jaxpr.outputs, 0, jaxpr.name)


def shard_map_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    jaxpr: Jaxpr = params["jaxpr"]
    linear, known = known_operands(operands)
    nonzero, given = nonzero_tangents(cotangents)
    linear_vars, known_vars = partition(linear, jaxpr.inputs)
    reached: tuple[bool, ...] = ()

    # The cotangents take the index of the first linear operand, so that transposing twice gives
    # the operands in the old order.
    first = linear.index(True)
    count = len(given)

    def backward(*blocks: Any) -> list[Any]:
        nonlocal reached
        env = dict(zip(known_vars, [*blocks[:first], *blocks[first + count :]], strict=True))
        cts = merge_zeros(nonzero, blocks[first : first + count], jaxpr.out_types)
        found = backward_pass(jaxpr.eqns, linear_vars, env, jaxpr.outputs, cts)
        reached, found = nonzero_tangents(found)
        pairs = zip(found, keep_marked(reached, linear_vars), strict=True)
        return [vary(ct, v.type.varying) for ct, v in pairs]

    linear_specs, known_specs = partition(linear, params["in_specs"])
    given_specs = keep_marked(nonzero, params["out_specs"])
    outs = call_shard_map(
        params,
        backward,
        [*known[:first], *given, *known[first:]],
        [*known_specs[:first], *given_specs, *known_specs[first:]],
        lambda: tuple(keep_marked(reached, linear_specs)),
    )
    return merge_cotangents(linear, reached, outs)


def shard_map_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    """Gives every block the mapped dimension, whole on each device, or with `spmd_axis_name` split
    over those mesh axes (automatic ones are left to the compiler)."""
    function, out_specs = body_of(params)
    manual: Manual = params["manual"]
    named = axis.spmd_axis_name
    names = named if isinstance(named, tuple) else () if named is None else (named,)
    automatic = set(manual.mesh.axis_names) - set(manual.axes)
    axes = tuple(name for name in names if name not in automatic)
    inner = _inner_axis(axis, axes, params)
    found: list[int | None] = []

    def mapped(*blocks: Any) -> list[Any]:
        # A collective of the function over these axes would combine elements of the mapped one.
        bound = tuple(bound for bound in axis_environment() if bound.name not in axes)
        with with_environment(bound):
            outs, found[:] = vmap_flat(function, inner, blocks, dims, params["name"])
        both = zip(outs, found, strict=True)
        return [x if dim is None else vary(x, set(axes)) for x, dim in both]

    def specs() -> Specs:
        own = out_specs()
        _check_free(axis, axes, params, own)
        columns = zip(own, found, strict=True)
        return tuple(spec if dim is None else insert_dim(spec, dim, axes) for spec, dim in columns)

    pairs = zip(params["in_specs"], dims, strict=True)
    in_specs = [spec if dim is None else insert_dim(spec, dim, axes) for spec, dim in pairs]
    outs = call_shard_map(params, mapped, args, in_specs, specs)
    return outs, found


def _check_free(axis: AxisData, axes: tuple[str, ...], params: Params, specs: Specs) -> None:
    """Raises AxisError if a function uses mesh axes that are to split the mapped axis."""
    manual = params["manual"]
    used = {name for spec in specs for name in spec.axes()}
    if "jaxpr" in params:
        used |= {name for name in axes if names_axis(shard_map_p, params, name)}
    bad = [name for name in axes if name not in manual.axes or name in used]
    if not bad:
        return
    free = [name for name in manual.axes if name not in used]
    message = (
        f"vmap of shard_map of {params['name']}: spmd_axis_name takes mesh axes that the function "
        "and its specs do not mention"
    )
    got = f"spmd_axis_name={axis.spmd_axis_name!r}, and specs {specs}"
    fix = Fix("free_axis", "name another mesh axis, or leave spmd_axis_name out", {"axes": bad})
    raise AxisError(message, operation="vmap", got=got, wanted=f"axes among {free}", fix=fix)


def _inner_axis(axis: AxisData, axes: tuple[str, ...], params: dict[str, Any]) -> AxisData:
    """The mapped axis of one block. Raises if it cannot be split over the mesh axes."""
    if not axes:
        return AxisData(axis.name, axis.size, spread=axis.spread, devices=axis.devices)
    manual = params["manual"]
    operation = f"vmap of shard_map of {params['name']}"
    _check_free(axis, axes, params, params["in_specs"])
    if axis.name is not None:
        message = f"{operation}: axis_name together with spmd_axis_name"
        got = f"axis_name={axis.name!r}, spmd_axis_name={axis.spmd_axis_name!r}"
        wanted = "one of the two; a collective in the function names the mesh axis"
        fix = Fix("drop", "leave axis_name out")
        raise WeftNotImplementedError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    count = manual.mesh.axis_size(axes)
    if axis.size % count:
        message = f"{operation}: the mapped axis does not split evenly over the mesh"
        got = f"length {axis.size} over {axes} with {count} devices"
        wanted = f"a multiple of {count}"
        fix = Fix("pad", f"pad the axis to a multiple of {count}", {"multiple": count})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return AxisData(None, axis.size // count, spread=frozenset(axes))


def shard_map_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    params = eqn.params
    manual, in_specs, out_specs = params["manual"], params["in_specs"], params["out_specs"]
    split = partial_eval_jaxpr(params["jaxpr"], tuple(unknown))
    k = len(split.residual_types)
    res_specs = tuple(leaving_spec(t, manual) for t in split.residual_types)
    rest_specs, known_specs = partition(unknown, in_specs)
    later_specs, own_specs = partition(split.unknown_out, out_specs)
    pairs = zip(split.residual_types, res_specs, strict=True)
    residuals = [Var(whole_type(left_type(t, manual), spec, manual)) for t, spec in pairs]
    n = len(split.known.outputs) - k

    def leaving(*blocks: Any) -> list[Any]:
        outs = eval_jaxpr(split.known, (), *blocks)
        return [*outs[:n], *(leave(x, manual) for x in outs[n:])]

    with inside(manual):
        before = rebuild(leaving, split.known.in_types, params["name"], "shard_map")
    stored = [True] * k + [False] * len(rest_specs)
    shared = {"manual": manual, "name": params["name"]}
    return split_equation(
        eqn,
        unknown,
        split.unknown_out,
        residuals,
        shared
        | {"jaxpr": before, "in_specs": tuple(known_specs), "out_specs": (*own_specs, *res_specs)},
        shared
        | {
            "jaxpr": entering(split.unknown, stored, manual),
            "in_specs": (*res_specs, *rest_specs),
            "out_specs": tuple(later_specs),
        },
    )


def cut_specs(params: Params, reads: Sequence[bool], used: Sequence[bool]) -> Params:
    return params | {
        "in_specs": tuple(keep_marked(reads, params["in_specs"])),
        "out_specs": tuple(keep_marked(used, params["out_specs"])),
    }


def lower_shard_map(context: Any, *values: Any, **params: Any) -> list[Any]:
    """Lowers for the devices of a mesh (`spmd.simulated` lowers for one device).

    Values without elements stay outside: Shardy refuses a region with nothing else.
    """
    jaxpr, manual, name = params["jaxpr"], params["manual"], params["name"]
    module, mesh = context.module, manual.mesh
    axes = frozenset(manual.axes) | (module.manual.axes if module.manual is not None else set())
    symbol = module.mesh_symbol(mesh)
    free = axes != frozenset(mesh.axis_names)

    def shardings(types: Sequence[ArrayType], specs: str) -> list[Any]:
        return [
            stablehlo_collectives.sharding(
                symbol,
                tuple(spec.entry_axes(i) for i in range(physical_type(type).ndim)),
                left_open=free,
            )
            for type, spec in zip(types, params[specs], strict=True)
            if type.size
        ]

    operands = keep_marked([type.size for type in jaxpr.in_types], values)
    ins, outs = shardings(context.in_types, "in_specs"), shardings(context.out_types, "out_specs")
    arguments = [_ir(type) for type in jaxpr.in_types if type.size]
    results = [_ir(type) for type in context.out_types if type.size]
    if jaxpr.effects:
        operands.append(context.order())
        for how in (ins, outs):
            how.append(stablehlo_collectives.sharding(symbol, ()))
        for types in (arguments, results):
            types.append(context.order().type)
    found: list[Any] = []
    region = ManualMesh(mesh, axes, module.partitions(mesh))
    body = functools.partial(_lower_body, context, jaxpr, region, name)
    if mesh.size == 1:
        # The blocks are the whole arrays. Shardy would split what a callback is called with.
        found = list(body(operands))
    elif results:
        found = stablehlo_collectives.manual_computation(
            operands, ins, outs, manual.axes, arguments, results, body
        )
    if jaxpr.effects:
        context.set_order(found.pop())
    computed = iter(found)
    return [next(computed) if type.size else _nothing(type) for type in context.out_types]


def _lower_body(
    context: Any, jaxpr: Jaxpr, region: ManualMesh, name: str, blocks: list[Any]
) -> Sequence[Any]:
    module = context.module
    given = iter(blocks)
    arguments = [next(given) if type.size else _nothing(type) for type in jaxpr.in_types]
    outer, order = module.manual, module.order
    module.manual = region
    try:
        if jaxpr.effects:
            context.set_order(next(given))
        found = context.lower_jaxpr(jaxpr, arguments, f"shard_map({name})")
        outs = keep_marked([type.size for type in jaxpr.out_types], found)
        return [*outs, context.order()] if jaxpr.effects else outs
    finally:
        module.manual, module.order = outer, order


def _nothing(type: ArrayType) -> Any:
    """Returns an array without elements."""
    stored = physical_type(type)
    return stablehlo.full(0, stored.shape, stored.dtype)


def _ir(type: ArrayType) -> Any:
    return stablehlo.array_type_to_ir(physical_type(type))


def shard_map_keep_layouts(eqn: Equation, layouts: Values, partitioned: bool) -> list[Equation]:
    manual = eqn.params["manual"]
    return keep_in_program(eqn, layouts, len(manual.axes) < len(manual.mesh.axis_names))


def shard_map_runs(eqn: Equation) -> InnerPrograms:
    return InnerPrograms((InnerProgram(eqn.params["jaxpr"]),), mesh=eqn.params["manual"].mesh)


rules.stage.register(shard_map_p, shard_map_stage)
holds_one_jaxpr(
    OneJaxpr(shard_map_p, lambda params: f"shard_map of {params['name']}", cut=cut_specs),
    type_rule=shard_map_type,
    retype=shard_map_retype,
    jvp=shard_map_jvp,
    linearize=shard_map_linearize,
    transpose=shard_map_transpose,
    vmap=shard_map_vmap,
    partial_eval=shard_map_partial_eval,
    keep_layouts=shard_map_keep_layouts,
    runs=shard_map_runs,
    steps=None,
)
