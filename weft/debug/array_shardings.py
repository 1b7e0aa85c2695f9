"""`inspect_array_sharding`: how an array inside of a program is on devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import tree
from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.effects import DEBUG
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, user_value
from weft.errors import api_boundary
from weft.interpreters.staging import check_function
from weft.lowering.xla_shardings import from_xla
from weft.ops.declare import primitive
from weft.runtime import op_sharding, stablehlo_collectives
from weft.runtime.client import backend
from weft.sharding import NamedSharding, P, SingleDeviceSharding


@api_boundary
def inspect_array_sharding(value: Any, *, callback: Callable[[Any], Any]) -> None:
    """Calls `callback` with the sharding of each array of a tree.

    Outside `jit` it is called at once; for a value inside, it is called when the program is
    compiled: with the sharding that the compiler chose, over the mesh of the program's arguments
    where there is one. Where each device has a value of its own, in a `shard_map`, it is called
    with one that splits nothing. A callback that raises ends neither the compilation nor the
    program.

    value: a tree of arrays; callback: a function of one sharding.

    >>> weft.debug.inspect_array_sharding(jnp.ones(2), callback=lambda s: print(len(s.device_set)))
    1
    """
    check_function("inspect_array_sharding", callback, "as callback")
    for leaf in tree.leaves(value):
        inspect_sharding_p.bind(user_value(leaf), callback=callback)


def inspect_impl(x: Any, *, callback: Callable[[Any], Any]) -> list[Any]:
    callback(as_array(x).sharding)
    return []


def inspect_type(x: ArrayType, *, callback: Callable[[Any], Any]) -> list[ArrayType]:
    return []


def inspect_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[list[Any], list[Any]]:
    inspect_sharding_p.bind(*primals, **params)
    return [], []


def inspect_vmap(
    axis: AxisData, args: Values, dims: Dims, *, callback: Callable[[Any], Any]
) -> tuple[list[Any], Dims]:
    return list(inspect_sharding_p.bind(*args, callback=callback)), []


def inspect_lower(context: Any, x: Any, *, callback: Callable[[Any], Any]) -> list[Any]:
    devices = context.module.devices
    if len(devices) <= 1:
        callback(SingleDeviceSharding(devices[0] if devices else backend().devices()[0]))
        return []
    mesh = context.module.meshes.some_mesh()

    def chosen(found: Any) -> None:
        """Passes on the compiler's choice."""
        parts = op_sharding.parts(found)
        if parts.kind in ("manual", "unknown") or "manual" in parts.subgroups:
            callback(SingleDeviceSharding(devices[0]) if mesh is None else NamedSharding(mesh, P()))
        else:
            callback(from_xla(op_sharding.text(found), mesh or devices))

    stablehlo_collectives.inspect_sharding(x, op_sharding.key(chosen))
    context.module.callbacks.append(chosen)
    return []


inspect_sharding_p = primitive(
    Primitive("inspect_sharding", multiple_results=True, memoise=False),
    type_rule=inspect_type,
    jvp=inspect_jvp,
    vmap=inspect_vmap,
    lower=inspect_lower,
    flops="none",
)
rules.effects.register(inspect_sharding_p, lambda params: frozenset({DEBUG}))
rules.impl.register(inspect_sharding_p, inspect_impl)
