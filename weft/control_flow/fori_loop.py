"""`fori_loop`: a loop over numbers, which is a `scan` where they are known and a `while_loop` where
they are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, overload

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import array_of
from weft.control_flow.in_python import in_python, run_fori
from weft.control_flow.loops import run_loop, typed_leaves
from weft.control_flow.progress import ProgressArgument, Teller, count_steps, teller_of
from weft.control_flow.while_loop import run_while_loop
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.interpreters.staging import check_function, function_name
from weft.ops.elementwise.arithmetic import add, lt, sub
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.rounding import ceil
from weft.typing import ArrayLike

Carry = TypeVar("Carry")


@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Array], ArrayLike],
    init_val: ArrayLike,
    *,
    unroll: int | bool | None = ...,
    progress: ProgressArgument = ...,
) -> Array: ...
@overload
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Carry], Carry],
    init_val: Any,
    *,
    unroll: int | bool | None = ...,
    progress: ProgressArgument = ...,
) -> Carry: ...
@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    progress: ProgressArgument = None,
) -> Any:
    """Runs `val = body_fun(i, val)` for `i` from `lower` to `upper` (exclusive); returns the last.

    Where both bounds are known it becomes a `scan` and has derivatives in both modes; otherwise a
    `while_loop`, which has forward ones. Errors are those of `while_loop`.

    Args:
        lower (int or array): The first index: a real scalar.
        upper (int or array): The index before which the loop ends, of the same dtype (Python
            numbers yield).
        body_fun: From the index and the carried tree to the next tree.
        init_val (tree of arrays): The first carried tree.
        unroll: How many steps one round takes, as for `scan`; needs known bounds.
        progress: Tells how far the loop is, as that of `scan`.

    >>> import weft
    >>> weft.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int32, weak_type=True)
    """
    name = check_function("fori_loop", body_fun, "as its body")
    typed_leaves("fori_loop", name, "init_val", init_val)  # for the name in its errors
    lower, upper = user_value(lower), user_value(upper)
    dtype, weak = _bounds_type(lower, upper)
    first, last = (_concrete_bound(name, bound, dtype) for bound in (lower, upper))
    teller = teller_of("fori_loop", body_fun, progress)
    if in_python() and type(first) is type(last) is int and teller is None:
        return run_fori(first, last, body_fun, init_val)
    one = 1.0 if dtype in dtypes.FLOATING else 1  # of the kind of the index, which stays weak
    if first is not None and last is not None:

        def step(carry: Any, _: None) -> tuple[Any, None]:
            i, val = carry
            return (add(i, one), body_fun(i, val)), None

        step.__name__ = name
        if dtype in dtypes.FLOATING and isinstance(lower, Tracer):  # It may have a derivative.
            start = convert_element_type(lower, dtype, weak)
        else:
            start = first if weak else array_of(first, ArrayType((), dtype))
        length = max(0, math.ceil(last - first))
        rounds = 1 if unroll is None else unroll
        loop = run_loop("fori_loop", step, (start, init_val), None, length, False, rounds, teller)
        return loop[0][1]
    if unroll is not None:
        raise _no_unrolling(name, unroll)

    types = [type_of(x) for x in (lower, upper)]
    start, end = (
        x if (t.dtype, t.weak_type) == (dtype, weak) else convert_element_type(x, dtype, weak)
        for x, t in zip((lower, upper), types, strict=True)
    )
    return _while_below(start, end, one, body_fun, init_val, teller)


def _while_below(
    start: Any, end: Any, one: Any, body_fun: Any, init_val: Any, teller: Teller | None
) -> Any:
    """Runs the loop between bounds of which at least one is not known to Python."""

    def go_on(carry: Any) -> Any:
        return lt(carry[0], carry[1])

    def advance(carry: Any) -> Any:
        i, end, val = carry
        return add(i, one), end, body_fun(i, val)

    advance.__name__ = function_name(body_fun)
    carry = (start, end, init_val)
    if teller is None:
        return run_while_loop("fori_loop", go_on, advance, carry)[2]
    length = sub(end, start)
    steps = ceil(length) if type_of(length).dtype in dtypes.FLOATING else length
    total = convert_element_type(steps, dtypes.int32)
    counting = count_steps(teller, go_on, advance, carry, total)
    return run_while_loop("fori_loop", *counting)[1][2]


def _no_unrolling(name: str, unroll: Any) -> WeftValueError:
    message = f"fori_loop of {name}: only a loop with known bounds can be unrolled"
    got, wanted = f"unroll={unroll} and a traced bound", "bounds that are Python integers"
    fix = Fix("unroll", "leave unroll out, or make the bounds static arguments")
    return WeftValueError(message, got=got, wanted=wanted, fix=fix)


def _bounds_type(lower: Any, upper: Any) -> tuple[Any, bool]:
    """The index's dtype, and whether it is weak. Raises WeftTypeError unless both bounds are real
    scalars."""
    types = [type_of(lower), type_of(upper)]
    for which, type in zip(("lower", "upper"), types, strict=True):
        if type.shape or type.dtype not in dtypes.INTEGER | dtypes.FLOATING:
            message = f"fori_loop takes a real scalar as its {which} bound"
            got = str(type)
            advice = "convert the bound to an integer: weft.numpy.int32(bound)"
            if type.shape:
                advice = "take one number (bound.max()), or map over the bounds with weft.vmap"
            fix = Fix("convert", advice, {"bound": which})
            raise WeftTypeError(message, got=got, wanted="i32[]", fix=fix)
    out: tuple[Any, bool] = dtypes.promote(*((t.dtype, t.weak_type) for t in types))
    return out


def _concrete_bound(name: str, bound: Any, dtype: Any) -> Any:
    """A bound as a number; None if only its type is known, or it is not finite. Raises
    WeftValueError for a number outside the range of the index's dtype."""
    value = bound.concrete() if isinstance(bound, Tracer) else bound
    if value is None:
        return None
    if dtype in dtypes.FLOATING:
        return float(value) if math.isfinite(float(value)) else None
    limits = dtypes.iinfo(dtype)
    if not limits.min <= int(value) <= limits.max:
        message = f"fori_loop of {name}: a bound does not fit in {dtype}, the dtype of the other"
        wanted = f"a number from {limits.min} to {limits.max}"
        fix = Fix("convert", "give both bounds a wider dtype", {"dtype": dtype})
        raise WeftValueError(message, got=str(int(value)), wanted=wanted, fix=fix)
    return int(value)
