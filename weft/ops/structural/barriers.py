"""Operations that compute nothing and tell compilers something: barriers, names and values."""

from __future__ import annotations

from typing import Any, TypeVar

from weft import tree
from weft.core import rules
from weft.core.effects import DEBUG
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, user_value
from weft.ops.declare import linear_primitive, primitive
from weft.runtime import stablehlo

T = TypeVar("T")


def optimization_barrier(operand: T, /) -> T:
    """A tree of arrays unchanged, across which the compiler moves, merges and fuses nothing.

    What uses a result starts when all operands are computed. Derivatives pass a barrier of their
    own. Raises WeftTypeError for leaves that are not arrays.

    >>> x = np.float32(0.5)
    >>> weft.jit(lambda x: lax.sin(lax.optimization_barrier(x)) + lax.sin(x))(x)
    Array(0.9588511, dtype=float32)
    """
    leaves, structure = tree.flatten(operand)
    values = [user_value(x) for x in leaves]
    out: T = structure.unflatten(optimization_barrier_p.bind(*values) if values else [])
    return out


def barrier_jvp(primals: Values, tangents: Values) -> tuple[list[Any], list[Any]]:
    outs = list(optimization_barrier_p.bind(*primals))
    found = iter(optimization_barrier_p.bind(*[t for t in tangents if type(t) is not Zero]))
    return outs, [t if type(t) is Zero else next(found) for t in tangents]


def barrier_transpose(cotangents: Values, *operands: Any) -> list[Any]:
    found = iter(optimization_barrier_p.bind(*[t for t in cotangents if type(t) is not Zero]))
    return [None if type(t) is Zero else next(found) for t in cotangents]


def barrier_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[list[Any], Dims]:
    return list(optimization_barrier_p.bind(*args)), dims


optimization_barrier_p = primitive(
    Primitive("optimization_barrier", multiple_results=True),
    type_rule=lambda *types: list(types),
    jvp=barrier_jvp,
    transpose=barrier_transpose,
    vmap=barrier_vmap,
    lower=lambda context, *values: stablehlo.optimization_barrier(values),
    flops="none",
    moves_nothing=True,
)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keeps what computes a tree of arrays in the program, though nothing uses it.

    With `prevent_mlir_dce` the compiler keeps it as well, not only weft.

    val: a tree of arrays that the program still computes.

    >>> def squared(x):
    ...     lax.dce_sink(lax.sin(x))
    ...     return x * x
    >>> [eqn.primitive.name for eqn in weft.make_jaxpr(squared)(2.0).eqns]
    ['sin', 'dce_sink', 'mul']
    """
    for leaf in tree.leaves(val):
        dce_sink_p.bind(user_value(leaf), prevent_mlir_dce=bool(prevent_mlir_dce))


def sink_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[list[Any], list[Any]]:
    dce_sink_p.bind(*primals, **params)
    return [], []


def sink_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[list[Any], Dims]:
    dce_sink_p.bind(*args, **params)
    return [], []


def sink_lower(context: Any, x: Any, *, prevent_mlir_dce: bool) -> list[Any]:
    if prevent_mlir_dce:
        stablehlo.custom_call("dce_sink", (x,), (), backend_config={}, has_side_effect=True)
    return []


def sink_type(x: ArrayType, *, prevent_mlir_dce: bool) -> list[ArrayType]:
    return []


dce_sink_p = primitive(
    Primitive("dce_sink", multiple_results=True, memoise=False),
    type_rule=sink_type,
    jvp=sink_jvp,
    vmap=sink_vmap,
    lower=sink_lower,
)
rules.effects.register(dce_sink_p, lambda params: frozenset({DEBUG}))
rules.impl.register(dce_sink_p, lambda x, **params: [])


Pairs = tuple[tuple[str, str], ...]


def metadata_type(x: ArrayType, pairs: Pairs) -> ArrayType:
    return x


def metadata_vmap(axis: AxisData, args: Values, dims: Any, *, pairs: Pairs) -> Any:
    return metadata_value_p.bind(args[0], pairs=pairs), dims[0]


def metadata_lower(context: Any, x: Any, *, pairs: Pairs) -> Any:
    stablehlo.add_metadata(x, dict(pairs))
    return x


# The value, computed by an operation that carries the pairs.
metadata_value_p = linear_primitive(
    "xla_metadata_value",
    type_rule=metadata_type,
    transpose=lambda ct, x, pairs: [ct],
    vmap=metadata_vmap,
    lower=metadata_lower,
    flops="none",
)
