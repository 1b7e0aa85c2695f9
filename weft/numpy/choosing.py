"""Choosing elements by conditions: where, nonzero, select, choose, compress.

Where the number of elements that fulfil a condition decides the shape, the values must be known,
or while tracing `size=` fixes the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, Any, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ConcretizationError, Fix, ShapeError, WeftIndexError, WeftValueError
from weft.errors.argument_errors import refusal
from weft.kinds.arguments import (
    NEVER,
    Length,
    OneAxis,
    Operand,
    Operands,
    Out,
    Promoted,
    PromotedOperands,
    Stored,
    choice,
    take_number,
)
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import (
    axis_of,
    broadcast_shape,
    broadcasted,
    check_fill,
    check_number,
    convert,
    operand,
    operands,
)
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.joining import static_array, take_listed
from weft.numpy.reductions import boolean
from weft.numpy.taking import take, take_axis, wrap_positions
from weft.ops.elementwise.arithmetic import div, rem, sub
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
Mode = Annotated[str, choice("raise", "clip", "wrap")]


def concrete_values(value: Any, fix: str) -> np.ndarray[Any, Any]:
    """The values of an operand, which decide a shape. Raises ConcretizationError if traced."""
    concrete = value.concrete() if isinstance(value, Tracer) else value
    if concrete is None:
        why = "how many elements there are decides the shape of the result"
        message = f"{why}, so the values must be known while tracing"
        wanted = f"a known array, or {fix.removeprefix('pass ').split(',')[0]}"
        raise ConcretizationError(
            message, got=value.describe(), wanted=wanted, fix=Fix("size", fix)
        )
    return np.asarray(concrete)


def select_where(condition: Any, x: Any, y: Any) -> Any:
    """Selects x where the condition holds and y elsewhere, in their common shape."""
    shape = broadcast_shape(condition.shape, x.shape, y.shape, operation="where")
    condition = boolean(condition)
    if condition.ndim:
        condition = broadcasted(condition, shape)
    return choose_elements(condition, broadcasted(x, shape), broadcasted(y, shape))


@array_function
def _where(condition: Operand, x: Promoted, y: Promoted) -> Any:
    return select_where(condition, x, y)


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
    return _where(condition, x, y)


def _fills(value: Any, call: Arguments) -> Any:
    for fill in value if isinstance(value, tuple) else (value,):
        check_number(fill, call.name)
    check_fill(value, call["size"])
    return value


# What is missing from `size` elements. Numbers are part of the program.
_fills_kind = Kind(
    _fills, "a number, or one per dimension", ("text",), static=False, fixed=True, late=True
)
FillValues = Annotated[Any, _fills_kind]


@python_function
def nonzero(
    a: Operand, *, size: Length | None = None, fill_value: FillValues = None
) -> tuple[Array, ...]:
    """The positions of the elements that differ from zero: one array per dimension.

    size: how many positions to return, needed if the array is traced; more are cut off. fill_value:
    what stands for missing ones, one number or one per dimension, by default 0.

    >>> jnp.nonzero(jnp.array([[0, 1], [2, 0]]))
    (Array([0, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    if size is None:
        value = concrete_values(a, "pass size=, a bound on the number of elements")
        if not value.ndim:
            fix = Fix("atleast_1d", "use weft.numpy.atleast_1d(a)", {})
            message, wanted = "the array has no dimensions", "at least one dimension"
            raise WeftValueError(message, got=str(a.type), wanted=wanted, fix=fix)
        return tuple(as_array(places.astype(dtypes.default_int())) for places in np.nonzero(value))
    fill_value = 0 if fill_value is None else fill_value
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * a.ndim
    if len(fills) != a.ndim:
        message = f"got {len(fills)} fill values for {a.ndim} dimensions"
        got = f"fill_value={fill_value!r:.80} for {a.type}"
        raise WeftValueError(message, got=got, wanted="a number, or one per dimension")
    return _nonzero(a, fills, size)


@array_function
def _nonzero(a: Operand, fill_value: FillValues, size: Length) -> tuple[Any, ...]:
    dtype = dtypes.default_int()
    flat, count = flat_nonzero(boolean(a).ravel(), size)
    missing = iota(dtype, size) >= broadcasted(convert(count, dtype), (size,))
    out = []
    rest = convert(flat, dtype)
    for d, fill in enumerate(fill_value):
        step = dtype.type(max(1, prod(a.shape[d + 1 :])))
        place = broadcasted(convert(fill, dtype), (size,))
        out.append(choose_elements(missing, place, div(rest, step)))
        rest = rem(rest, step)
    return tuple(out)


def flat_nonzero(mask: Any, size: int) -> tuple[Any, Any]:
    """The first `size` positions where a mask of one dimension holds, and their number.

    A running count gives each of them its index in the result; others are dropped.
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


@python_function
def flatnonzero(a: Operand, *, size: Length | None = None, fill_value: FillValues = None) -> Array:
    """The positions, in the flattened array, of the elements that differ from zero.

    size, fill_value: as in `nonzero`.

    The result is int32 (int64 under `enable_x64`) of shape (count,). Raises ConcretizationError
    under `jit` without `size`.

    >>> jnp.flatnonzero(jnp.array([0, 3, 4]))
    Array([1, 2], dtype=int32)
    """
    return nonzero(a.ravel(), size=size, fill_value=fill_value)[0]


@python_function
def argwhere(a: Operand, *, size: Length | None = None, fill_value: FillValues = None) -> Array:
    """The positions of the elements that differ from zero, one row each.

    size, fill_value: as in `nonzero`.

    The result is int32 (int64 under `enable_x64`) of shape (count, ndim). Raises
    ConcretizationError under `jit` without `size`.

    >>> jnp.argwhere(jnp.array([[0, 1], [2, 0]]))
    Array([[0, 1],
           [1, 0]], dtype=int32)
    """
    if not a.ndim:
        count = int(bool(concrete_values(a, "pass size="))) if size is None else size
        return as_array(np.zeros((count, 0), dtypes.default_int()))
    places = nonzero(a, size=size, fill_value=fill_value)
    return concatenate([p.reshape(*p.shape, 1) for p in places], 1)


def _fill(value: Any, call: Arguments) -> Any:
    value = take_number(value, call)
    check_fill(value, call["size"])
    return value


def _axis_of_a(value: Any, call: Arguments) -> int:
    return axis_of(value, type_of(call["a"]).ndim)


_condition_kind = Kind(take_listed, "booleans", ("text",), [True, False, True], plain=NEVER)
# Not an operand: if its values are known, they decide the shape.
Condition = Annotated[ArrayLike, _condition_kind]
AxisOfA = Annotated[Any, Kind(_axis_of_a, "an axis, or None for the flattened array", (99, 0.5))]
FillValue = Annotated[Any, Kind(_fill, "a number", ("text",), late=True)]


@python_function
def extract(
    condition: Condition, arr: Operand, *, size: Length | None = None, fill_value: FillValue = None
) -> Array:
    """The elements of `arr` where the condition holds, as one dimension.

    condition: booleans, one for each element of the flattened array. size: as in `nonzero`;
    fill_value: what stands for missing elements, by default 0.

    >>> jnp.extract(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    flat = reshape(condition, (type_of(condition).size,))
    return compress(flat, arr, size=size, fill_value=fill_value)


@python_function
def compress(
    condition: Condition,
    a: Operand,
    axis: AxisOfA = None,
    *,
    size: Length | None = None,
    fill_value: FillValue = None,
    out: Out = None,
) -> Array:
    """The slices along `axis` (None: elements of the flattened array) where the condition holds.

    size: the number of slices to return, needed if the condition is traced; fill_value: what stands
    for missing ones, by default 0. condition: a vector of booleans, one for each slice; slices
    beyond its end are left out.

    >>> jnp.compress(jnp.array([True, False, True]), jnp.array([1, 2, 3]))
    Array([1, 3], dtype=int32)
    """
    if type_of(condition).ndim != 1:
        raise ShapeError("the condition has more dimensions than one", got=str(type_of(condition)))
    a, axis = (a.ravel(), 0) if axis is None else (a, axis)
    length = a.shape[axis]
    if size is not None:
        return _compress(a, condition, 0 if fill_value is None else fill_value, axis, size)
    value = concrete_values(condition, "pass size=, a bound on the number of elements")
    if np.any(value[length:]):
        last = int(np.flatnonzero(value)[-1])
        message = "the condition holds beyond the end of the axis"
        got = f"a condition that is true at {last}, for {a.type}, axis {axis}"
        wanted = f"a condition that is true below {length}"
        fix = Fix("cut", f"cut it off: condition[:{length}]", {"length": length})
        raise WeftIndexError(message, got=got, wanted=wanted, fix=fix)
    return take(a, np.nonzero(value[:length])[0].astype(np.int32), axis, mode="clip")


@array_function
def _compress(
    a: Operand, condition: Operand, fill_value: Stored, axis: OneAxis, size: Length
) -> Any:
    places, count = flat_nonzero(boolean(condition), size)
    shape = (*a.shape[:axis], size, *a.shape[axis + 1 :])
    fill = broadcasted(convert(fill_value, a.dtype), shape)
    if not a.shape[axis]:
        return fill
    missing = iota(INT32, size) >= broadcasted(count, (size,))
    missing = broadcast_in_dim(missing, shape, (axis,))
    return choose_elements(missing, fill, take_axis(a, places, axis, "clip"))


@array_function
def select(condlist: Operands, choicelist: PromotedOperands, default: Promoted = 0) -> Array:
    """Elementwise, the choice that belongs to the first condition that holds, or `default`.

    condlist, choicelist: lists of equally many arrays, which broadcast together. Raises
    WeftValueError for lists of other lengths or none, ShapeError for shapes that do not broadcast.

    >>> jnp.select([jnp.array([True, False, False])], [jnp.array([1, 2, 3])], -1)
    Array([ 1, -1, -1], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not condlist:
        message = f"got {len(condlist)} conditions and {len(choicelist)} choices"
        raise WeftValueError(message, wanted="as many, and at least one")
    out: Any = default
    for condition, value in reversed(list(zip(condlist, choicelist, strict=True))):
        out = select_where(condition, value, out)
    return out


@python_function
def choose(a: Operand, choices: PromotedOperands, out: Out = None, mode: Mode = "raise") -> Array:
    """Elementwise, the element of `choices[i]`, where i is the element of `a`.

    choices: a list of arrays, or an array whose first dimension counts them; they broadcast with
    `a`. mode: "clip" or "wrap" for numbers out of range; "raise" needs known numbers.

    >>> jnp.choose(jnp.array([0, 1, 0]), [jnp.array([1, 2, 3]), jnp.array([7, 8, 9])])
    Array([1, 8, 3], dtype=int32)
    """
    if mode == "raise":
        number = static_array(a, "a (with mode 'raise'; use 'clip' or 'wrap')")
        if number.size and (number.min() < 0 or number.max() >= len(choices)):
            got, wanted = f"{number.min()} to {number.max()}", f"0 to {len(choices) - 1}"
            raise WeftValueError("a number is out of range", got=got, wanted=wanted)
    return _choose(a, choices, mode)


@array_function
def _choose(a: Operand, choices: Operands, mode: Mode) -> Any:
    shape = broadcast_shape(a.shape, *[x.shape for x in choices])
    index = convert(broadcasted(a, shape), INT32)
    last = np.int32(len(choices) - 1)
    if mode == "wrap":
        index = wrap_positions(index, len(choices))
    else:
        index = smaller(larger(index, np.int32(0)), last)
    out = broadcasted(choices[0], shape)
    for i, value in enumerate(choices[1:], 1):
        out = choose_elements(index == np.int32(i), broadcasted(value, shape), out)
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
        return convert(number_for(function, dtype), dtype)

    for condition in conditions:
        broadcasted(condition, type_of(x).shape, "piecewise")
    out = value(functions[-1])
    for condition, function in zip(conditions, functions, strict=False):
        out = where(condition, value(function), out)
    return broadcasted(out, type_of(x).shape, "piecewise")
