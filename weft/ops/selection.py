"""Choosing between values elementwise, by a boolean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import dtypes
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.ops import extended
from weft.ops.declare import primitive, result_type
from weft.ops.families import align
from weft.ops.shape import broadcast_in_dim
from weft.ops.tangents import instantiate, zeros
from weft.runtime import stablehlo

__all__ = ["select"]


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """`on_true` where `pred` holds, `on_false` elsewhere.

    The two have one shape and dtype; the boolean `pred` has their shape, or no dimensions.
    """
    if extended.is_key(on_true) and extended.is_key(on_false):
        dtype = type_of(on_true).dtype
        bits_true, bits_false = extended.key_bits(on_true), extended.key_bits(on_false)
        shape = type_of(bits_true).shape
        if type_of(pred).shape:
            pred = broadcast_in_dim(pred, shape, tuple(range(type_of(pred).ndim)))
        return extended.wrap_key_bits(select(pred, bits_true, bits_false), dtype)
    return select_p.bind(pred, on_true, on_false)


def select_type(pred: ArrayType, on_true: ArrayType, on_false: ArrayType) -> ArrayType:
    if pred.dtype != dtypes.bool_:
        raise DTypeError(
            "select takes a boolean predicate",
            operation="select",
            got=str(pred),
            wanted="bool",
            fix=Fix("compare", "compare the predicate with zero first", {}),
        )
    if on_true.dtype != on_false.dtype:
        raise DTypeError(
            "select takes two values of one dtype",
            operation="select",
            got=f"{on_true} and {on_false}",
            wanted="equal dtypes",
            fix=Fix("use_numpy", "use weft.numpy.where, which promotes", {}),
        )
    if on_true.shape != on_false.shape or pred.shape not in ((), on_true.shape):
        raise ShapeError(
            "select takes two values of one shape, and a predicate of that shape or of none",
            operation="select",
            got=f"{pred}, {on_true} and {on_false}",
            wanted="equal shapes",
            fix=Fix("use_numpy", "use weft.numpy.where, which broadcasts", {}),
        )
    weak = on_true.weak_type and on_false.weak_type
    return result_type((pred, on_true, on_false), on_true.shape, on_true.dtype, weak)


def select_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    pred = primals[0]
    out = select(*primals)
    if type(tangents[1]) is Zero and type(tangents[2]) is Zero:
        return out, Zero(type_of(out).tangent())
    return out, select(pred, instantiate(tangents[1]), instantiate(tangents[2]))


def select_transpose(ct: Any, pred: Any, on_true: Any, on_false: Any) -> list[Any]:
    zero = zeros(type_of(ct))
    return [
        None,
        select(pred, ct, zero) if type(on_true) is LinearOperand else None,
        select(pred, zero, ct) if type(on_false) is LinearOperand else None,
    ]


def select_vmap(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]
) -> tuple[Any, int]:
    (pred, on_true, on_false), dim = align(axis, args, dims)
    shape = max((type_of(x).shape for x in (on_true, on_false)), key=len)
    # A value without dimensions that is not mapped is repeated here: only the predicate may have none.
    on_true, on_false = (
        x if type_of(x).shape == shape else broadcast_in_dim(x, shape, ())
        for x in (on_true, on_false)
    )
    if type_of(pred).ndim > len(shape):
        shape = type_of(pred).shape
        on_true, on_false = (broadcast_in_dim(x, shape, ()) for x in (on_true, on_false))
    return select_p.bind(pred, on_true, on_false), dim


def select_lower(context: Any, pred: Any, on_true: Any, on_false: Any) -> Any:
    return stablehlo.select(pred, on_true, on_false)


select_p = primitive(
    "select",
    type_rule=select_type,
    jvp=select_jvp,
    transpose=select_transpose,
    vmap=select_vmap,
    lower=select_lower,
)

