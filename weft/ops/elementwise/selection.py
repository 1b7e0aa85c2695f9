"""Elementwise selection between values: by a boolean, by a number, by bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.access_pattern import elementwise_reads
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import eq, ge, gt, le, lt
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.families import align, broadcast_scalar, nary, operands, repeat_scalars
from weft.ops.flops import of_each
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
    which = type_of(pred).dtype
    if which != dtypes.bool_ and not (which == dtypes.int32 and config.lenient()):
        fix = Fix("compare", "compare the predicate with zero: pred != 0")
        raise unfit(DTypeError, "select", "a boolean predicate", (pred,), "bool", fix)
    return select_n_p.bind(pred, on_false, on_true)


def _check_which(which: ArrayType, count: int) -> None:
    if count == 0:
        wanted = "which, then one array per case"
        raise unfit(WeftTypeError, "select_n", "at least one case", ["no case"], wanted)
    if not (which.dtype == dtypes.bool_ and count <= 2 or which.dtype == dtypes.int32):
        message = "select_n picks by booleans between two cases, or by int32 between any number"
        got = f"{which} and {count} cases"
        wanted = "bool with at most two cases, or int32"
        fix = to_dtype("which", which.dtype, dtypes.int32)
        raise DTypeError(message, operation="select_n", got=got, wanted=wanted, fix=fix)


def select_n_type(which: ArrayType, *cases: ArrayType) -> ArrayType:
    _check_which(which, len(cases))
    first = cases[0]
    # Two cases are most often from `select` and `where`; the words are those of their arguments.
    name = "select" if which.dtype == dtypes.bool_ else "select_n"
    if any(case.dtype != first.dtype for case in cases):
        fix = use_numpy("where", "promotes") if name == "select" else None
        takes, types = "values of one dtype", [*reversed(cases)]
        raise unfit(DTypeError, name, takes, types, "equal dtypes", fix)
    if any(case.shape != first.shape for case in cases) or which.shape not in ((), first.shape):
        takes = "values of one shape, and a predicate of that shape or of none"
        fix = use_numpy("where", "broadcasts") if name == "select" else None
        types = [which, *reversed(cases)]
        raise unfit(ShapeError, name, takes, types, "equal shapes", fix)
    weak = all(case.weak_type for case in cases)
    return result_type((which, *cases), first.shape, first.dtype, weak)


def select_n_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    return jointly_linear_jvp(select_n_p.bind, *range(1, len(primals)))(primals, tangents)


def _picks(which: Any, i: int, count: int) -> Any:
    """Whether case i is picked; numbers out of range pick the nearest case."""
    index = np.int32(i)
    return le(which, index) if i == 0 else ge(which, index) if i == count - 1 else eq(which, index)


def select_n_transpose(ct: Any, which: Any, *cases: Any) -> list[Any]:
    zero = zeros(type_of(ct))
    cts: list[Any] = [None]
    for i, case in enumerate(cases):
        if type(case) is not LinearOperand:
            cts.append(None)
        elif len(cases) == 1:
            cts.append(ct)
        elif type_of(which).dtype == dtypes.bool_:
            cts.append(select(which, ct, zero) if i else select(which, zero, ct))
        else:
            cts.append(select(_picks(which, i, len(cases)), ct, zero))
    return cts


def select_n_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[Any, int]:
    (which, *cases), dim = align(axis, args, dims)
    shape = max((type_of(x).shape for x in cases), key=len)
    # An unmapped scalar value is repeated: only the predicate may have no dimensions.
    cases = [broadcast_scalar(x, shape) for x in cases]
    if type_of(which).ndim > len(shape):
        shape = type_of(which).shape
        cases = [broadcast_in_dim(x, shape, ()) for x in cases]
    return select_n_p.bind(which, *cases), dim


def select_n_on_host(which: Any, *cases: Any) -> Any:
    out = cases[0]
    for i, case in enumerate(cases[1:], 1):
        out = np.where(np.greater_equal(which, i), case, out)
    return out


def select_n_lower(context: Any, which: Any, *cases: Any) -> Any:
    if len(cases) == 1:
        return cases[0]
    type = context.in_types[0]
    if type.dtype == dtypes.bool_:
        return stablehlo.select(which, cases[1], cases[0])

    # Halving the cases keeps the depth logarithmic in their number.
    def between(first: int, end: int) -> Any:
        if end - first == 1:
            return cases[first]
        middle = (first + end) // 2
        bound = stablehlo.full(middle, type.shape, np.int32)
        before = stablehlo.compare(which, bound, "LT")
        return stablehlo.select(before, between(first, middle), between(middle, end))

    return between(0, len(cases))


select_n_p = Primitive("select_n")
primitive(
    select_n_p,
    type_rule=select_n_type,
    jvp=select_n_jvp,
    transpose=select_n_transpose,
    vmap=select_n_vmap,
    reads=elementwise_reads,
    on_host=select_n_on_host,
    lower=select_n_lower,
    cheap=True,
    linear=True,
    makes_no_nan=True,
    wide_cotangents=True,
    flops="none",
)


def select_n(which: Any, *cases: Any) -> Array:
    """Selects elementwise the case whose index `which` holds.

    `which` is boolean with two cases (False picks the first), or int32 with any number; it has the
    shape of the cases, or no dimensions. Numbers out of range pick the nearest case. Raises
    DTypeError or ShapeError if the operands do not fit.

    cases: the arrays to choose from, of one shape and dtype, one for each index.

    >>> import weft.lax as lax, weft.numpy as jnp
    >>> lax.select_n(jnp.array([True, False]), jnp.zeros(2), jnp.ones(2))
    Array([1., 0.], dtype=float32)
    """
    _check_which(type_of(which), len(cases))
    return select_n_p.bind(which, *cases)


def clamp(min: Any, x: ArrayLike, max: Any) -> Array:
    """x clipped elementwise to [min, max]: `min(max(x, min), max)`.

    The bounds have the dtype of x, and its shape or no dimensions. The derivative is that of x
    strictly between the bounds, and that of the bound where x is outside.

    min: the lower bound; max: the upper bound.

    >>> import weft.lax as lax, weft.numpy as jnp
    >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clamp_p.bind(*operands("clamp", min, x, max))


def where(pred: Any, t: Any, ans: Any) -> Any:
    """t where `pred` holds, zero elsewhere; both broadcast to the shape of `ans`."""
    aval = type_of(ans)
    return select(
        broadcast_scalar(pred, aval.shape), broadcast_scalar(t, aval.shape), zeros(aval.strong())
    )


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
    cheap=True,
    makes_no_nan=True,
    flops=of_each(2),
)
