"""Arithmetic of tangents and cotangents: sums, and arrays for symbolic zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes
from weft.core.access_pattern import elementwise_reads
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import WeftTypeError
from weft.ops.declare import lower_to, primitive, result_type
from weft.ops.structural.shape import broadcast_in_dim, move_dim


def zeros(type: ArrayType) -> Any:
    """Returns an array of zeros of a type."""
    if type.dtype == dtypes.float0:
        return np.zeros(type.shape, dtypes.float0)
    return broadcast_in_dim(type.dtype.type(0), type.shape, ())


def instantiate(tangent: Any) -> Any:
    """Returns the tangent itself, or an array of zeros for a symbolic zero.

    Args:
        tangent: An array, or a `Zero`.

    >>> from weft.extend.core import ArrayType
    >>> from weft.extend.interpreters import ad
    >>> ad.instantiate(ad.Zero(ArrayType((2,), "float32")))
    Array([0., 0.], dtype=float32)
    """
    return zeros(tangent.type) if type(tangent) is Zero else tangent


def jointly_linear_jvp(bind: Callable[..., Any], *places: int) -> Callable[..., tuple[Any, Any]]:
    """The jvp rule of a primitive linear in the operands at some places (none: all) together."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        out = bind(*primals, **params)
        linear = places or range(len(primals))
        if all(type(tangents[i]) is Zero for i in linear):
            return out, Zero(type_of(out).tangent())
        moved = [instantiate(tangents[i]) if i in linear else x for i, x in enumerate(primals)]
        return out, bind(*moved, **params)

    return jvp


def add_tangents(x: Any, y: Any) -> Any:
    """Returns the sum of two tangents of equal shape, either of which may be a `Zero`.

    Raises WeftTypeError if their shapes or dtypes differ.
    """
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return add_tangents_p.bind(x, y)


def add_tangents_type(x: ArrayType, y: ArrayType) -> ArrayType:
    if x.shape != y.shape or x.dtype != y.dtype:
        message, wanted = f"cannot add tangents of types {x} and {y}", "equal shapes and dtypes"
        raise WeftTypeError(message, got=f"{x} and {y}", wanted=wanted)
    return result_type((x, y), x.shape, x.dtype, x.weak_type and y.weak_type)


def add_tangents_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[Any, int]:
    x, y = (
        value if dim == dims[0] is not None else move_dim(value, dim, dims[0] or 0, axis.size)
        for value, dim in zip(args, dims, strict=True)
    )
    return add_tangents_p.bind(x, y), dims[0] or 0


add_tangents_p = primitive(
    "add_tangents",
    type_rule=add_tangents_type,
    jvp=lambda primals, tangents: (add_tangents(*primals), add_tangents(*tangents)),
    transpose=lambda ct, x, y: [ct, ct],
    vmap=add_tangents_vmap,
    reads=elementwise_reads,
    lower=lower_to("stablehlo.add"),
    linear=True,
    wide_cotangents=True,
    flops="addition",
)
