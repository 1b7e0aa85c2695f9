"""Choosing elements by conditions: where, nonzero, select, choose, compress.

Where the number of elements that fulfil a condition decides the shape, the values must be known,
or while tracing `size=` fixes the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, overload

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ConcretizationError, Fix, ShapeError, WeftIndexError, WeftValueError
from weft.kinds.checks import (
    along,
    broadcast_shape,
    broadcasted,
    check_arrays,
    check_choice,
    check_fill,
    check_fits,
    check_number,
    convert,
    length_of,
    operand,
    operands,
    promoted,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled, is_eager
from weft.kinds.numbers import number_for, promote_operands
from weft.numpy.joining import static_array
from weft.numpy.reductions import boolean
from weft.numpy.taking import take, take_axis, wrapped
from weft.ops.elementwise.arithmetic import div, eq, ge, rem, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.selection import select as choose_elements
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import iota
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter
from weft.ops.reductions.cumulative import cumsum
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.typing import ArrayLike

__all__ = [
    "argwhere", "choose", "compress", "extract", "flatnonzero", "nonzero", "piecewise", "select",
    "where",
]  # fmt: skip

INT32 = np.dtype(np.int32)
_NUMBERS = frozenset({bool, int, float, complex})
# Beside arrays of other dtypes, a number must not be rounded to the default width first.
_NARROW = dtypes.ANY - {dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128}


def known(value: Any, operation: str, fix: str) -> np.ndarray[Any, Any]:
    """The values of an operand, which decide a shape. Raises ConcretizationError if traced."""
    concrete = value.concrete() if isinstance(value, Tracer) else value
    if concrete is None:
        why = "how many elements there are decides the shape of the result"
        message = f"{operation}: {why}, so the values must be known while tracing"
        other = fix.removeprefix("pass ").split(",")[0]
        got, wanted = value.describe(), f"a known array, or {other}"
        advice = Fix("size", fix)
        raise refusal(ConcretizationError, message, operation, got, wanted, advice)
    return np.asarray(concrete)


@compiled
def _where(condition: Any, x: Any, y: Any) -> Any:
    x, y = promoted("where", x, y)
    shapes = [type_of(v).shape for v in (condition, x, y)]
    shape = broadcast_shape("where", *shapes)
    condition = boolean(condition)
    if shapes[0]:
        condition = broadcasted(condition, shape)
    return choose_elements(condition, broadcasted(x, shape), broadcasted(y, shape))


def _beside(value: Any, other: Any) -> Any:
    """A Python number as an array, where the other value does not widen it."""
    if type(value) not in _NUMBERS:
        return value
    if type(other) is Array and other.type.dtype in _NARROW:
        check_fits("where", value, other.type.dtype)
        return as_array(value)
    return as_array(value) if type(other) in _NUMBERS else value


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...
@overload
def where(
    condition: ArrayLike, /, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]: ...
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Array | tuple[Array, ...]:
    """`x` where `condition` holds and `y` elsewhere; without them, the positions where it holds.

    x, y: arrays or numbers, both or neither. The three broadcast together. For the derivative the
    other branch counts as zero, unless it is infinite or NaN: guard its input, not its result.
    size, fill_value: as in `nonzero`.

    The result has the dtype that `x` and `y` promote to. Raises ShapeError if shapes do not
    broadcast, WeftValueError for one of `x` and `y`.

    >>> jnp.where(jnp.array([True, False]), jnp.array([1.0, 2.0]), 0.0)
    Array([1., 0.], dtype=float32)
    """
    if size is None and fill_value is None and x is not None:
        found = _where.again((condition, _beside(x, y), _beside(y, x)), {})
        if found is not None:
            return found
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        message = "where takes both x and y, or neither"
        wanted = "where(condition, x, y) or where(condition)"
        raise refusal(WeftValueError, message, "where", f"no {'x' if x is None else 'y'}", wanted)
    if size is not None or fill_value is not None:
        message = "where: size and fill_value belong to the form without x and y"
        got = f"x, y, size={size!r:.40} and fill_value={fill_value!r:.40}"
        wanted = "where(condition, x, y) or where(condition, size=..., fill_value=...)"
        raise refusal(WeftValueError, message, "where", got, wanted)
    condition = operand("where", condition)
    x, y = promote_operands("where", x, y)
    return _where(condition, x, y)


def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The positions of the elements that differ from zero: one array per dimension.

    size: how many positions to return, needed if the array is traced; more are cut off. fill_value:
    what stands for missing ones, one number or one per dimension, by default 0.

    >>> jnp.nonzero(jnp.array([[0, 1], [2, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    a = operand("nonzero", a)
    for fill in fill_value if isinstance(fill_value, tuple) else (fill_value,):
        if fill is not None:
            check_number(fill, "nonzero", "fill_value")
    check_fill(fill_value, size, "nonzero")
    of = type_of(a)
    if size is None:
        value = known(a, "nonzero", "pass size=, a bound on the number of elements")
        if not value.ndim:
            message = "nonzero takes an array with dimensions"
            got = str(of)
            fix = Fix("atleast_1d", "use weft.numpy.atleast_1d(a)", {})
            raise refusal(WeftValueError, message, "nonzero", got, "at least one dimension", fix)
        return tuple(as_array(places.astype(dtypes.default_int())) for places in np.nonzero(value))
    wanted = length_of(size, "nonzero", "size")
    fill_value = 0 if fill_value is None else fill_value
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * of.ndim
    if len(fills) != of.ndim:
        message = f"nonzero got {len(fills)} fill values for {of.ndim} dimensions"
        got = f"fill_value={fill_value!r:.80} for {of}"
        raise refusal(WeftValueError, message, "nonzero", got, "a number, or one per dimension")
    return _nonzero(a, *[as_array(f) if is_eager() else f for f in fills], size=wanted)


@compiled
def _nonzero(a: Any, *fills: Any, size: int) -> tuple[Any, ...]:
    of, dtype = type_of(a), dtypes.default_int()
    flat, count = flat_nonzero(reshape(boolean(a), (of.size,)), size)
    missing = ge(iota(dtype, size), broadcasted(convert(count, dtype), (size,)))
    out = []
    rest = convert(flat, dtype)
    for d in range(of.ndim):
        step = max(1, prod(of.shape[d + 1 :]))
        place = div(rest, dtype.type(step))
        rest = rem(rest, dtype.type(step))
        fill = broadcasted(convert(fills[d], dtype), (size,))
        out.append(choose_elements(missing, fill, place))
    return tuple(out)


def flat_nonzero(mask: Any, size: int) -> tuple[Any, Any]:
    """The first `size` positions where a mask of one dimension holds, and how many there are.

    The running count says where each such element's position goes; others are dropped.
    """
    n = type_of(mask).shape[0]
    if n == 0:
        return broadcasted(np.int32(0), (size,)), np.int32(0)
    counts = cumsum(convert(mask, INT32), 0)
    count = reshape(slicing.slice(counts, (n - 1,), (n,)), ())
    if size == 0:
        return broadcasted(np.int32(0), (0,)), count
    target = choose_elements(mask, sub(counts, np.int32(1)), broadcasted(np.int32(size), (n,)))
    places = scatter(
        broadcasted(np.int32(0), (size,)),
        reshape(target, (n, 1)),
        iota(INT32, n),
        ScatterDimensionNumbers((), (0,), (0,)),
        mode="drop",
    )
    return places, count


def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions, in the flattened array, of the elements that differ from zero.

    size, fill_value: as in `nonzero`.

    The result is int32 (int64 under `enable_x64`) of shape (count,). Raises ConcretizationError
    under `jit` without `size`.

    >>> jnp.flatnonzero(jnp.array([0, 3, 4]))
    Array([1, 2], dtype=int32)
    """
    a = operand("flatnonzero", a)
    return nonzero(reshape(a, (type_of(a).size,)), size=size, fill_value=fill_value)[0]


def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The positions of the elements that differ from zero, one row each.

    size, fill_value: as in `nonzero`.

    The result is int32 (int64 under `enable_x64`) of shape (count, ndim). Raises
    ConcretizationError under `jit` without `size`.

    >>> jnp.argwhere(jnp.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    a = operand("argwhere", a)
    if not type_of(a).ndim:
        check_fill(fill_value, size, "argwhere")
        found = None if size is not None else known(a, "argwhere", "pass size=")
        count = length_of(size, "argwhere", "size") if found is None else int(bool(found))
        return as_array(np.zeros((count, 0), dtypes.default_int()))
    places = nonzero(a, size=size, fill_value=fill_value)
    return concatenate([reshape(p, (*type_of(p).shape, 1)) for p in places], 1)


def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = None
) -> Array:
    """The elements of `arr` where the condition holds, as one dimension.

    condition: booleans, one for each element of the flattened array. size: as in `nonzero`;
    fill_value: what stands for missing elements, by default 0.

    >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    if isinstance(condition, (list, tuple)):
        condition = np.asarray(condition)
    condition = operand("extract", condition)
    check_arrays("extract", arr)
    return compress(
        reshape(condition, (type_of(condition).size,)), arr, size=size, fill_value=fill_value
    )


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out: None = None,
) -> Array:
    """The slices along `axis` (None: elements of the flattened array) where the condition holds.

    size: the number of slices to return, needed if the condition is traced; fill_value: what stands
    for missing ones, by default 0. condition: a vector of booleans, one for each slice; slices
    beyond its end are left out.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    refuse_out("compress", out)
    a = operand("compress", a)
    check_fill(fill_value, size, "compress")
    fill_value = 0 if fill_value is None else fill_value
    check_number(fill_value, "compress", "fill_value")
    fill_value = number_for("compress", fill_value, type_of(a).dtype)
    if isinstance(condition, (list, tuple)):
        condition = np.asarray(condition)
    condition = operand("compress", condition)
    if type_of(condition).ndim != 1:
        message = "compress takes a condition of one dimension"
        raise refusal(ShapeError, message, "compress", str(type_of(condition)))
    a, place_ = along("compress", a, axis)
    length = type_of(a).shape[place_]
    if size is None:
        value = known(condition, "compress", "pass size=, a bound on the number of elements")
        if np.any(value[length:]):
            last = int(np.flatnonzero(value)[-1])
            message = "compress: the condition holds beyond the end of the axis"
            got = f"a condition that is true at {last}, for {type_of(a)}, axis {place_}"
            wanted = f"a condition that is true below {length}"
            fix = Fix("cut", f"cut it off: condition[:{length}]", {"length": length})
            raise refusal(WeftIndexError, message, "compress", got, wanted, fix)
        index = np.nonzero(value[:length])[0].astype(np.int32)
        return take(a, index, place_, mode="clip")
    return _compress(
        condition, a, fill_value, axis=place_, size=length_of(size, "compress", "size")
    )


@compiled
def _compress(condition: Any, a: Any, fill_value: Any, *, axis: int, size: int) -> Any:
    places, count = flat_nonzero(boolean(condition), size)
    if not type_of(a).shape[axis]:
        shape = type_of(a).shape
        fill = convert(fill_value, type_of(a).dtype)
        return broadcasted(fill, (*shape[:axis], size, *shape[axis + 1 :]))
    out = take_axis(a, places, axis, "clip")
    of = type_of(out)
    missing = ge(broadcasted(iota(INT32, size), (size,)), broadcasted(count, (size,)))
    fill = broadcasted(convert(fill_value, of.dtype), of.shape)
    return choose_elements(broadcast_in_dim(missing, of.shape, (axis,)), fill, out)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Elementwise, the choice that belongs to the first condition that holds, or `default`.

    condlist, choicelist: lists of equally many arrays, which broadcast together. Raises
    WeftValueError for lists of other lengths or none, ShapeError for shapes that do not broadcast.

    >>> jnp.select([jnp.array([True, False, False])], [jnp.array([1, 2, 3])], -1)
    Array([ 1, -1, -1], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not condlist:
        message = f"select got {len(condlist)} conditions and {len(choicelist)} choices"
        raise WeftValueError(message, operation="select", wanted="as many, and at least one")
    conditions = operands("select", *condlist)
    return _select(*conditions, *promote_operands("select", *choicelist, default))


@compiled
def _select(*given: Any) -> Any:
    n = len(given) // 2
    values = promoted("select", *given[n:])
    out = values[-1]
    for condition, choice in reversed(list(zip(given[:n], values[:n], strict=True))):
        out = _where.function(condition, choice, out)
    return out


def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """Elementwise, the element of `choices[i]`, where i is the element of `a`.

    choices: a list of arrays, or an array whose first dimension counts them; they broadcast with
    `a`. mode: "clip" or "wrap" for numbers out of range; "raise" needs known numbers.

    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([7, 8, 9])])
    Array([1, 8, 3], dtype=int32)
    """
    refuse_out("choose", out)
    a = operand("choose", a)
    values = promote_operands("choose", *choices)
    if mode == "raise":
        number = static_array(a, "choose", "a (with mode 'raise'; use 'clip' or 'wrap')")
        if number.size and (number.min() < 0 or number.max() >= len(values)):
            message = "choose: a number is out of range"
            got = f"{number.min()} to {number.max()}"
            raise refusal(WeftValueError, message, "choose", got, f"0 to {len(values) - 1}")
    else:
        check_choice(mode, ("raise", "clip", "wrap"), "choose", "mode")
    return _choose(a, *values, mode="clip" if mode == "raise" else mode)


@compiled
def _choose(a: Any, *choices: Any, mode: str) -> Any:
    values = promoted("choose", *choices)
    shape = broadcast_shape("choose", type_of(a).shape, *[type_of(v).shape for v in values])
    index = convert(broadcasted(a, shape), INT32)
    n = len(values)
    clipped = mode != "wrap"
    index = smaller(larger(index, np.int32(0)), np.int32(n - 1)) if clipped else wrapped(index, n)
    out = broadcasted(values[0], shape)
    for i, value in enumerate(values[1:], 1):
        out = choose_elements(eq(index, np.int32(i)), broadcasted(value, shape), out)
    return out


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Elementwise, the function (or number) that belongs to the last condition that holds.

    condlist: a list of boolean arrays; funclist: a function or number for each, where functions are
    called on all of `x`; args, kw: further arguments of the functions. If there is one function
    more than conditions, the last one is for elements where no condition holds; otherwise the
    result there is 0. Every function is evaluated everywhere.

    >>> x = jnp.array([-1.0, 2.0])
    >>> jnp.piecewise(x, [x < 0], [lambda x: -x, lambda x: 10 * x])
    Array([ 1., 20.], dtype=float32)
    """
    x = operand("piecewise", x)
    functions = list(funclist)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    if len(conditions) == 1 and len(functions) > 2 and np.ndim(conditions[0]):
        conditions = [*conditions[0]]  # an array of conditions
    conditions = list(operands("piecewise", *conditions))
    if len(functions) == len(conditions):
        functions.append(0)
    elif len(functions) != len(conditions) + 1:
        message = f"piecewise got {len(functions)} functions for {len(conditions)} conditions"
        raise WeftValueError(message, operation="piecewise", wanted="as many, or one more")
    dtype = type_of(x).dtype

    def value(function: Callable[..., Any] | Any) -> Any:
        if callable(function):
            return convert(function(x, *args, **kw), dtype)
        return convert(number_for("piecewise", function, dtype), dtype)

    for condition in conditions:
        broadcasted(condition, type_of(x).shape, "piecewise")
    out = value(functions[-1])
    for condition, function in zip(conditions, functions, strict=False):
        out = where(condition, value(function), out)
    return broadcasted(out, type_of(x).shape, "piecewise")
