"""`export`: makes StableHLO that other processes can run from a jitted function and types.

The function is traced and lowered, once for each platform, and the derivative is another export: of
the jitted function from arguments and cotangents to cotangents.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.api.autodiff import vjp
from weft.api.jit import jit, make_jaxpr
from weft.api.meshes import make_mesh
from weft.arrays.conversion import as_array
from weft.base.util import drop_marked, keep_marked, merge
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.trace import Tracer
from weft.core.types import ArrayType
from weft.dispatch import stages
from weft.dispatch.jitted import Jitted
from weft.errors import Fix, WeftArgumentError, WeftValueError, api_boundary
from weft.export.call_exported import PortableProgram
from weft.export.calling_convention import chosen_calling_convention
from weft.export.exported import Exported, has_tangent
from weft.export.portability import (
    DisabledSafetyCheck,
    check_custom_calls,
    check_disabled,
    check_effects,
    checked_platforms,
)
from weft.export.serialized_trees import tree_to_data
from weft.export.serialized_values import Split, split_of
from weft.export.symbolic_dimensions import SymbolicDimension, value_of
from weft.export.symbolic_export import SymbolicExported, export_symbolic, symbolic_structs
from weft.export.symbolic_types import SymbolicType
from weft.interpreters.partial_eval import dce_jaxpr
from weft.lowering.module import lower_to_module
from weft.lowering.placement import operand_place, operand_shardings
from weft.ops.indexing.creation import full
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.runtime import client
from weft.runtime.stablehlo import portable_artifact
from weft.sharding import AbstractMesh, NamedSharding


@api_boundary
def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
) -> Callable[..., Exported]:
    """Returns a function from arguments, or their types, to `fun_jit` as an `Exported`.

    The shardings of arguments and results are exported with the function, donation and layouts are
    not. The result is called like `fun_jit`, with arrays or `ShapeDtypeStruct`s in place of arrays;
    static arguments are fixed by the call, and are no arguments of the exported function. Arrays
    that the function closes over become a part of it. Structs may have symbolic dimensions
    (`symbolic_shape`): the exported function then takes arrays of all sizes that the constraints
    allow. It is made by tracing the function for several sizes; where the program differs in more
    than numbers InconclusiveDimensionOperation is raised.

    Args:
        fun_jit: A function made by `weft.jit`, or one of weft's own.
        platforms: Names among "cpu", "cuda", "rocm" and "tpu", by default the platform of the
            current backend. None of them need be here.
        disabled_checks: Checks that are left out (see `DisabledSafetyCheck`).

    Raises WeftArgumentError for a function that is not jitted, TreeError for containers of a class
    that is not registered (see `register_pytree_node_serialization`), WeftValueError for a platform
    that does not exist, and for custom calls in the function, and WeftNotImplementedError for
    callbacks and other effects in it.

    >>> import weft, weft.numpy as jnp
    >>> from weft import export
    >>> @weft.jit
    ... def f(x):
    ...     return 2.0 * jnp.sin(x)
    >>> exported = export.export(f)(weft.ShapeDtypeStruct((3,), "float32"))
    >>> exported
    <Exported f: (f32[3]) -> (f32[3]) on cpu>
    >>> data = exported.serialize()
    >>> export.deserialize(data).call(jnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """
    if not isinstance(fun_jit, Jitted) and getattr(fun_jit, "__module__", "").startswith("weft."):
        fun_jit = jit(fun_jit)  # a function of weft's own, such as weft.numpy.cos
    if not isinstance(fun_jit, Jitted):
        message = "export takes a function made by weft.jit"
        got = f"{fun_jit!r:.100} of class {type(fun_jit).__name__}"
        fix = Fix("jit", "pass weft.jit(function)")
        raise WeftArgumentError(message, got=got, wanted="a jitted function", fix=fix)
    names = checked_platforms(platforms, client.backend().platform)
    checks = check_disabled(disabled_checks, "export")

    @functools.wraps(fun_jit, updated=())
    @api_boundary("export")
    def exported(*args: Any, **kwargs: Any) -> Exported:
        args, kwargs = tree.map(_on_devices, (args, kwargs))
        structs = symbolic_structs(tree.leaves((args, kwargs)))
        if structs:
            return _export_symbolic(fun_jit, args, kwargs, structs, names, checks)
        return _export(fun_jit, args, kwargs, names, checks)

    return exported


def _on_devices(x: Any) -> Any:
    """A struct that is split over an abstract mesh, over devices of this process in its place. Only
    how many there are goes into the exported function. Raises WeftValueError for too few."""
    if not isinstance(x, ShapeDtypeStruct) or not isinstance(x.sharding, NamedSharding):
        return x
    mesh = x.sharding.mesh
    if not isinstance(mesh, AbstractMesh):
        return x
    concrete = make_mesh(mesh.axis_sizes, mesh.axis_names)
    return x.update(sharding=NamedSharding(concrete, x.sharding.spec))


def _export_symbolic(
    function: Jitted,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    structs: Sequence[ShapeDtypeStruct],
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
) -> SymbolicExported:
    """The export of a function with symbolic dimensions in its arguments."""
    scopes = {n.scope for of in structs for n in of.shape if isinstance(n, SymbolicDimension)}
    if len(scopes) > 1:
        message = "export takes symbolic dimensions of one scope"
        fix = Fix("scope", "make all shapes with one scope: symbolic_shape(..., scope=scope)")
        raise WeftValueError(message, got=f"{len(scopes)} scopes", wanted="one", fix=fix)
    (scope,) = scopes
    wanted = set(map(id, structs))

    def export_at(values: Mapping[str, int]) -> Exported:
        def numbered(x: Any) -> Any:
            if id(x) not in wanted:
                return x
            shape = [value_of(n, values) for n in x.shape]
            return ShapeDtypeStruct(shape, x.dtype, weak_type=x.weak_type)

        own_args, own_kwargs = tree.map(numbered, (args, kwargs))
        return _export(function, own_args, own_kwargs, platforms, checks, sized=True)

    types = [SymbolicType(x.shape, x.dtype, x.weak_type) for x in structs]
    return export_symbolic(export_at, types, scope)


def _export(
    function: Jitted,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
    sized: bool = False,
) -> Exported:
    """The export; `sized` if closed-over numbers may come from sizes."""
    call = stages.trace(function, args, kwargs)._call
    traced, name = call.traced, call.name
    jaxpr = _check_program(call)
    consts = [as_array(x) for x in traced.consts]
    if sized:
        jaxpr, consts = _with_written_numbers(jaxpr, consts)
    operands = [*consts, *call.arguments]
    place = operand_place(operands, f"export of {name}", {"jaxpr": jaxpr})
    devices = place if type(place) is tuple else ()
    ins = operand_shardings(operands, place) or (None,) * len(operands)
    outs = function._shardings.required_shardings(name, traced.out_tree) or (None,) * len(
        jaxpr.outputs
    )
    artifacts, version = _lower(name, jaxpr, platforms, checks, devices, ins, outs)
    count = max(1, len(devices))
    types = jaxpr.in_types
    in_splits = tuple(split_of(s, devices, t.ndim) for s, t in zip(ins, types, strict=True))
    out_splits = tuple(
        split_of(s, devices, t.ndim) for s, t in zip(outs, jaxpr.out_types, strict=True)
    )
    anywhere = any(check.kind == "platform" for check in checks)
    program = PortableProgram(name, artifacts, types, jaxpr.out_types, count, anywhere)
    n = len(consts)
    names = tuple(call.names)

    def derivative() -> Exported:
        found = _export_vjp(
            name, jaxpr, consts, platforms, checks, devices, in_splits[n:], out_splits
        )
        return dataclasses.replace(found, _names=(*names, *_cotangent_names(call)))

    return Exported(
        fun_name=name,
        in_tree=call.user_tree,
        out_tree=traced.out_tree,
        in_avals=tuple(types[n:]),
        out_avals=tuple(jaxpr.out_types),
        nr_devices=count,
        stablehlo_version=version,
        calling_convention_version=chosen_calling_convention(),
        disabled_safety_checks=checks,
        _program=program,
        _consts=tuple(consts),
        _in_splits=in_splits,
        _out_splits=out_splits,
        _names=names,
        _make_vjp=derivative,
    )


def _check_program(call: Any) -> Jaxpr:
    """The jaxpr without dead equations. Raises an error if it, or a tree around it, cannot be
    serialized."""
    traced, name = call.traced, call.name
    tree_to_data(call.user_tree, f"the structure of the arguments of {name}")
    tree_to_data(traced.out_tree, f"the structure of the result of {name}")
    used = (True,) * len(traced.jaxpr.outputs)
    jaxpr, _ = dce_jaxpr(traced.jaxpr, used, keep_inputs=True)
    check_effects(name, jaxpr)
    for value in traced.consts:
        if isinstance(value, Tracer):
            message = f"export of {name}: it closes over a value that is being traced"
            got, wanted = value.describe(), "a function that closes over arrays"
            fix = Fix("argument", "make the value an argument, and export outside of the trace")
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    return jaxpr


# Closed-over arrays of up to so many elements become numbers in a program for several sizes.
_FEW = 64


def _with_written_numbers(jaxpr: Jaxpr, consts: list[Any]) -> tuple[Jaxpr, list[Any]]:
    """The jaxpr with small closed-over arrays as numbers in its equations, and the other arrays."""
    small = [x.size <= _FEW and isinstance(x.dtype, np.dtype) for x in consts]
    if not any(small):
        return jaxpr, consts
    large = drop_marked(small, consts)

    def written(*leaves: Any) -> list[Any]:
        numbers = map(_rebuild_array, keep_marked(small, consts))
        arrays, arguments = leaves[: len(large)], leaves[len(large) :]
        return eval_jaxpr(jaxpr, merge(small, [*numbers], [*arrays]), *arguments)

    types = [*(x.type for x in large), *jaxpr.in_avals]
    closed = make_jaxpr(written)(*[_stand_in(type, None) for type in types])
    found = closed.jaxpr
    own = [as_array(x) for x in closed.consts]
    inputs, count = found.inputs, len(own) + len(large)
    return Jaxpr(inputs, found.eqns, found.outputs, count, jaxpr.name), [*own, *large]


def _rebuild_array(x: Any) -> Any:
    """An array as a traced value that is built from its elements."""
    values = np.asarray(x)
    if not x.shape:
        return values.item() if x.weak_type else values[()]
    rows = [broadcast_in_dim(value, (1,), ()) for value in values.ravel()]
    flat = concatenate(rows, 0) if rows else full((0,), 0, x.dtype)
    return reshape(flat, x.shape)


def _cotangent_names(call: Any) -> list[str]:
    """The names of the derivative's cotangents in messages."""
    return [
        f"the cotangent of {what}"
        for what, type in zip(call.result_names, call.traced.jaxpr.out_types, strict=True)
        if has_tangent(type)
    ]


def _lower(
    name: str,
    jaxpr: Jaxpr,
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
    devices: tuple[Any, ...],
    ins: Sequence[Any],
    outs: Sequence[Any],
) -> tuple[dict[str, bytes], str]:
    """The StableHLO for each platform, and the newest version among them."""
    artifacts, versions = {}, []
    for platform in platforms:
        module = lower_to_module(
            jaxpr, name, platform, devices=devices, in_shardings=ins, out_shardings=outs
        ).module
        check_custom_calls(name, module.ir, checks, "export")
        artifacts[platform], version = portable_artifact.portable_artifact(module.ir)
        versions.append(version)
    return artifacts, max(versions, key=portable_artifact.version_key)


def _export_vjp(
    name: str,
    jaxpr: Jaxpr,
    consts: list[Any],
    platforms: tuple[str, ...],
    checks: tuple[DisabledSafetyCheck, ...],
    devices: tuple[Any, ...],
    ins: Sequence[Split | None],
    outs: Sequence[Split | None],
) -> Exported:
    """The derivative of a jaxpr, exported."""
    in_types, out_types = jaxpr.in_avals, jaxpr.out_types
    active = [has_tangent(type) for type in in_types]
    answered = [has_tangent(type) for type in out_types]

    def derivative(*values: Any) -> list[Any]:
        primals, cotangents = values[: len(in_types)], values[len(in_types) :]

        def of_active(*given: Any) -> list[Any]:
            leaves = merge(active, given, drop_marked(active, primals))
            return keep_marked(answered, eval_jaxpr(jaxpr, consts, *leaves))

        given = keep_marked(active, primals)
        return list(vjp(of_active, *given)[1](list(cotangents)))

    derivative.__name__ = f"vjp_{name}"
    places = [_on(split, devices) for split in ins]
    cotangents = keep_marked(answered, [type.tangent() for type in out_types])
    kept_outs = [_on(split, devices) for split in keep_marked(answered, outs)]
    arguments = [*map(_stand_in, in_types, places), *map(_stand_in, cotangents, kept_outs)]
    results = keep_marked(active, places)
    left: dict[str, Any] = {"out_shardings": results} if any(results) else {}
    function: Any = jit(derivative, **left)
    return _export(function, tuple(arguments), {}, platforms, checks)


def _on(split: Split | None, devices: tuple[Any, ...]) -> Any:
    return None if split is None else split.on(devices)


def _stand_in(type: ArrayType, place: Any) -> ShapeDtypeStruct:
    named = place if isinstance(place, NamedSharding) else None
    return ShapeDtypeStruct(type.shape, type.dtype, sharding=named, weak_type=type.weak_type)
