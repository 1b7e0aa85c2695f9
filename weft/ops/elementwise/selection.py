"""Elementwise selection between values: by a boolean, by a number, by bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.access_pattern import elementwise_reads
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import ge, gt, lt
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.families import align, nary, operands, repeat_scalars, repeated
from weft.ops.operand_errors import to_dtype, unfit, use_numpy
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim
from weft.ops.structural.tangents import jointly_linear_jvp, zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["clamp", "select", "select_n"]


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """`on_true` where `pred` holds, `on_false` elsewhere.

    The two have one shape and dtype; the boolean `pred` has their shape, or no dimensions.

    >>> lax.select(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    if extended_dtypes.is_key(on_true) and extended_dtypes.is_key(on_false):
        dtype = type_of(on_true).dtype
        bits = [extended_dtypes.key_bits(keys) for keys in (on_true, on_false)]
        if type_of(pred).shape:
            shape = type_of(bits[0]).shape
            pred = broadcast_in_dim(pred, shape, tuple(range(type_of(pred).ndim)))
        return extended_dtypes.wrap_key_bits(select(pred, *bits), dtype)
    return select_n_p.bind(pred, on_false, on_true)


def select_type(pred: ArrayType, on_false: ArrayType, on_true: ArrayType) -> ArrayType:
    if pred.dtype != dtypes.bool_:
        fix = Fix("compare", "compare the predicate with zero: pred != 0")
        raise unfit(DTypeError, "select", "a boolean predicate", (pred,), "bool", fix)
    if on_true.dtype != on_false.dtype:
        fix = use_numpy("where", "promotes")
        takes, types = "two values of one dtype", [on_true, on_false]
        raise unfit(DTypeError, "select", takes, types, "equal dtypes", fix)
    if on_true.shape != on_false.shape or pred.shape not in ((), on_true.shape):
        takes = "two values of one shape, and a predicate of that shape or of none"
        fix = use_numpy("where", "broadcasts")
        types = [pred, on_true, on_false]
        raise unfit(ShapeError, "select", takes, types, "equal shapes", fix)
    weak = on_true.weak_type and on_false.weak_type
    return result_type((pred, on_false, on_true), on_true.shape, on_true.dtype, weak)


def select_transpose(ct: Any, pred: Any, on_false: Any, on_true: Any) -> list[Any]:
    zero = zeros(type_of(ct))
    return [
        None,
        select(pred, zero, ct) if type(on_false) is LinearOperand else None,
        select(pred, ct, zero) if type(on_true) is LinearOperand else None,
    ]


def select_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[Any, int]:
    (pred, on_false, on_true), dim = align(axis, args, dims)
    shape = max((type_of(x).shape for x in (on_false, on_true)), key=len)
    # An unmapped scalar value is repeated: only the predicate may have no dimensions.
    on_false, on_true = (repeated(x, shape) for x in (on_false, on_true))
    if type_of(pred).ndim > len(shape):
        shape = type_of(pred).shape
        on_false, on_true = (broadcast_in_dim(x, shape, ()) for x in (on_false, on_true))
    return select_n_p.bind(pred, on_false, on_true), dim


# The false case comes first, as in StableHLO's `case` and JAX's primitive of this name, so that
# interpreters of jaxprs that name it by position pick the right one.
select_n_p = Primitive("select_n")
primitive(
    select_n_p,
    type_rule=select_type,
    jvp=jointly_linear_jvp(select_n_p.bind, 1, 2),
    transpose=select_transpose,
    vmap=select_vmap,
    reads=elementwise_reads,
    on_host=lambda pred, on_false, on_true: np.where(pred, on_true, on_false),
    lower=lambda context, pred, on_false, on_true: stablehlo.select(pred, on_true, on_false),
)


def select_n(which: Any, *cases: Any) -> Array:
    """Selects elementwise the case whose index `which` holds.

    `which` is boolean with two cases (False picks the first), or int32 with any number; it has the
    shape of the cases, or no dimensions. Numbers out of range pick the nearest case. Raises
    DTypeError or ShapeError where the operands do not fit.

    >>> import weft.lax as lax, weft.numpy as wnp
    >>> lax.select_n(wnp.array([True, False]), wnp.zeros(2), wnp.ones(2))
    Array([1., 0.], dtype=float32)
    """
    if not cases:
        wanted = "which, then one array per case"
        raise unfit(WeftTypeError, "select_n", "at least one case", ["no case"], wanted)
    dtype = type_of(which).dtype
    if not (dtype == dtypes.bool_ and len(cases) <= 2 or dtype == dtypes.int32):
        message = "select_n picks by booleans between two cases, or by int32 between any number"
        got = f"{type_of(which)} and {len(cases)} cases"
        wanted = "bool with at most two cases, or int32"
        fix = to_dtype("which", dtype, dtypes.int32)
        raise DTypeError(message, operation="select_n", got=got, wanted=wanted, fix=fix)
    if len(cases) == 1:
        pred = which if dtype == dtypes.bool_ else ge(which, np.int32(0))
        return select(pred, cases[0], cases[0])
    if dtype == dtypes.bool_:
        return select(which, cases[1], cases[0])
    # Halving the cases keeps the depth logarithmic in their number.
    return _select_between(which, cases, 0)


def _select_between(which: Any, cases: Sequence[Any], first: int) -> Any:
    if len(cases) == 1:
        return cases[0]
    middle = len(cases) // 2
    lower = _select_between(which, cases[:middle], first)
    upper = _select_between(which, cases[middle:], first + middle)
    return select(lt(which, np.int32(first + middle)), lower, upper)


def clamp(min: Any, x: ArrayLike, max: Any) -> Array:
    """Elementwise x, or the bound that it is beyond: `min(max(x, min), max)`.

    The bounds have the shape of x or no dimensions, and its dtype. The derivative is that of x
    strictly between the bounds and that of a bound where x is beyond it.

    >>> import weft.lax as lax, weft.numpy as wnp
    >>> lax.clamp(0.0, wnp.array([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clamp_p.bind(*operands("clamp", min, x, max))


def where(pred: Any, t: Any, ans: Any) -> Any:
    """t where `pred` holds, zero elsewhere; both broadcast to the shape of `ans`."""
    aval = type_of(ans)
    return select(repeated(pred, aval.shape), repeated(t, aval.shape), zeros(aval.strong()))


def clamp_lower(context: Any, *values: Any) -> Any:
    low, x, high = repeat_scalars(context, values, context.out_types[0].shape)
    if context.out_types[0].dtype == dtypes.bool_:  # XLA's own clamp takes no booleans
        return stablehlo.minimum(stablehlo.maximum(x, low), high)
    return stablehlo.clamp(low, x, high)


clamp_p = nary(
    "clamp",
    arity=3,
    accepts=dtypes.ORDERED,
    jvp=(
        lambda t, ans, low, x, high: where(gt(low, x), t, ans),
        lambda t, ans, low, x, high: where(bitwise_and(gt(x, low), lt(x, high)), t, ans),
        lambda t, ans, low, x, high: where(lt(high, x), t, ans),
    ),
    lower=clamp_lower,
)
