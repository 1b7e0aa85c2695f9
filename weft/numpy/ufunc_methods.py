"""The methods of `ufunc`, and `frompyfunc`, which makes a ufunc from a function of scalars.

Sums, products, extrema and their like use the reductions of `weft.numpy`. Any other function whose
operands may be combined in any order is applied to halves of the axis, over and over; the rest are
folded from the first element to the last by `scan`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.control_flow.associative_scan import associative_scan
from weft.control_flow.loops import scan
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftIndexError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import integer_of, not_a_function, refusal
from weft.interpreters.staging import trace_to_jaxpr
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.kinds.checks import axes_of, axis_of, broadcasted, convert, promote_values, refuse_out
from weft.kinds.numbers import as_operand
from weft.numpy.creation import asarray, unlisted
from weft.numpy.reductions import all, any, boolean, keep_dims, max, min, prod, sum, summed_dtype
from weft.numpy.sorting import cumprod, cumsum
from weft.numpy.ufuncs import ufunc
from weft.numpy.vectorizing import vectorize
from weft.ops.elementwise.arithmetic import eq, lt
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import iota
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.cumulative import cummax, cummin
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reshape

__all__ = ["frompyfunc"]

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": sum,
    "multiply": prod,
    "maximum": max,
    "minimum": min,
    "logical_and": all,
    "logical_or": any,
}
_WIDENED = ("add", "multiply")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_UPDATES = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}


def check_binary(function: ufunc, method: str, out: Any = None) -> str:
    """The name of the method with its function. Raises unless the function maps two operands to
    one."""
    name = f"{function.__name__}.{method}"
    if function.nin != 2 or function.nout != 1:
        message = f"{name}: only functions of two operands with one result have this method"
        got = f"a function of {function.nin} operands with {function.nout} results"
        wanted = "a function of two operands with one result, as weft.numpy.add"
        raise refusal(WeftTypeError, message, name, got, wanted)
    refuse_out(name, out)
    return name


@functools.lru_cache(maxsize=4096)
def result_dtype(function: ufunc, dtype: Any, other: Any) -> Any:
    """The dtype of the function's result for operands of two dtypes."""
    types = [ArrayType((), dtype), ArrayType((), other)]
    jaxpr, _ = trace_to_jaxpr(
        lambda x, y: [function(x, y)], types, transformation="jit", name=function.__name__
    )
    return jaxpr.out_types[0].dtype


def folded_operand(function: ufunc, name: str, a: Any, dtype: Any) -> Any:
    """The operand in the dtype in which its elements are combined.

    Raises DTypeError if a result cannot be an operand again, as for comparisons of numbers.
    """
    a = as_operand(name, unlisted(a))
    if dtype is not None:
        a = convert(a, dtypes.requested(dtype))
    elif function.__name__ in _WIDENED:
        a = convert(a, summed_dtype(type_of(a).dtype))
    of = type_of(a)
    if function.__name__ in _LOGICAL:
        return boolean(a)
    find = result_dtype.__wrapped__ if isinstance(function, PythonUfunc) else result_dtype
    result = find(function, of.dtype, of.dtype)
    if result == of.dtype:
        return convert(a, result)
    if not np.can_cast(of.dtype, result, "same_kind") and result not in dtypes.INEXACT:
        message = f"{name}: the results are {result.name}, which cannot be operands beside {of}"
        fix = Fix("convert", f"convert the operand first: x.astype({result.name!r})", {})
        raise refusal(DTypeError, message, name, str(of), "a dtype that the function keeps", fix)
    return convert(a, result)


def identity_of(function: ufunc, dtype: Any) -> Any:
    """The identity as a scalar of a dtype."""
    value = function.identity
    if dtype == dtypes.bool_:
        return np.bool_(bool(value))
    if dtype in dtypes.UNSIGNED and value == -1:
        return np.array(-1).astype(dtype)[()]
    return dtype.type(value)


def _run(program: Any, function: ufunc) -> Callable[..., Any]:
    """The array function, or for a user's function, which may read state, its Python code."""
    return program.function if isinstance(function, PythonUfunc) else program


def reduce(
    function: ufunc,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Any:
    """`ufunc.reduce`."""
    name = check_binary(function, "reduce", out)
    a = folded_operand(function, name, a, dtype)
    of = type_of(a)
    scalar = axis == 0 and type(axis) is int and not of.ndim  # as NumPy has it
    axes = () if scalar else axes_of(axis, of.ndim, name)
    if len(axes) > 1 and not function.reorderable:
        message = f"{name} goes along one axis: the order of the elements matters"
        got = f"axis={axis!r} of an array of {of.ndim} dimensions"
        raise refusal(WeftValueError, message, name, got, "one axis")
    where = None if where is True else where
    known = _REDUCTIONS.get(function.__name__)
    if known is not None and not isinstance(function, PythonUfunc):
        return _reduce_by_known(
            function, known, a, axes, initial, keepdims=bool(keepdims), where=where
        )
    empty = math.prod(of.shape[d] for d in axes) == 0
    if function.identity is None and initial is None and (empty or where is not None):
        message = f"{name} has no identity to begin with"
        got = f"{of} along axis={axis!r}" + ("" if where is None else " with a mask")
        wanted = "initial=, or elements that all take part"
        fix = Fix("argument", "pass initial=", {})
        raise refusal(WeftValueError, message, name, got, wanted, fix)
    start = None if initial is None else convert(as_operand(name, initial), of.dtype)
    mask = None if where is None else broadcasted(as_operand(name, where), of.shape, name)
    how = {"function": function, "axes": axes, "keepdims": bool(keepdims)}
    return _run(_reduce_by_function, function)(a, start, mask, **how)


def _reduce_by_known(
    function: ufunc, known: Callable[..., Any], a: Any, axes: Any, initial: Any, **how: Any
) -> Any:
    """Reduces by a function of `weft.numpy`."""
    if function.__name__ in _LOGICAL:
        found = known(a, axes, **how)
        return found if initial is None else function(initial, found)
    more = {"dtype": type_of(a).dtype} if function.__name__ in _WIDENED else {}
    return known(a, axes, initial=initial, **how, **more)


@private_function
def _reduce_by_function(
    a: Prepared, start: Prepared | None, mask: Prepared | None, *, function: Passed, axes: Passed,
    keepdims: Passed,
) -> Any:  # fmt: skip
    shape, dtype = type_of(a).shape, type_of(a).dtype
    masked = mask is not None
    if start is None and function.identity is not None and (masked or 0 in shape):
        start = identity_of(function, dtype)
    rows = _rows(a, axes)
    mask = _rows(mask, axes) if masked else None
    if function.reorderable and mask is None:
        found = _by_halves(function, rows)
        if found is None:
            found = broadcast_in_dim(convert(start, dtype), type_of(rows).shape[1:], ())
        elif start is not None:
            found = function(broadcasted(start, type_of(found).shape), found)
    else:
        found = _fold_rows(function, rows, mask, start)
    return keep_dims(found, shape, axes, keepdims)


def _rows(a: Any, axes: Sequence[int]) -> Any:
    """Merges the reduced axes into the first."""
    shape = type_of(a).shape
    for place, axis in enumerate(sorted(axes)):
        a = move_dim(a, axis, place, shape[axis])
    count = math.prod(shape[d] for d in axes)
    return reshape(a, (count, *type_of(a).shape[len(axes) :]))


def _by_halves(function: ufunc, rows: Any) -> Any:
    """Combines all rows in any order; None for no rows."""
    shape = type_of(rows).shape
    if not shape[0]:
        return None
    while (count := type_of(rows).shape[0]) > 1:
        half = count // 2
        left = slice_in_dim(rows, 0, half, axis=0)
        right = slice_in_dim(rows, half, 2 * half, axis=0)
        pairs = convert(function(left, right), type_of(rows).dtype)
        last = slice_in_dim(rows, 2 * half, count, axis=0)
        rows = concatenate([pairs, last], 0) if count % 2 else pairs
    return reshape(rows, shape[1:])


def _fold_rows(function: ufunc, rows: Any, mask: Any, start: Any) -> Any:
    """Combines the rows in order, beginning with `start` or the first row."""
    of = type_of(rows)
    if start is None:
        start = reshape(slice_in_dim(rows, 0, 1, axis=0), of.shape[1:])
        rows = slice_in_dim(rows, 1, of.shape[0], axis=0)
    else:
        start = broadcasted(convert(start, of.dtype), of.shape[1:])

    def step(carry: Any, row: Any) -> tuple[Any, None]:
        value, takes_part = row if mask is not None else (row, None)
        new = convert(function(carry, value), of.dtype)
        return (new if takes_part is None else select(takes_part, new, carry)), None

    return scan(step, start, rows if mask is None else (rows, mask))[0]


def accumulate(function: ufunc, a: Any, axis: int, dtype: Any, out: Any) -> Any:
    """`ufunc.accumulate`."""
    name = check_binary(function, "accumulate", out)
    a, place = _along(function, name, a, axis, dtype)
    return _run(_accumulate_by_function, function)(a, function=function, axis=place)


def _along(function: ufunc, name: str, a: Any, axis: int, dtype: Any) -> tuple[Any, int]:
    """The operand, and the axis to combine along. Raises ShapeError without dimensions."""
    a = folded_operand(function, name, a, dtype)
    aval = type_of(a)
    if not aval.ndim:
        message = f"{name} takes an array with dimensions"
        raise refusal(ShapeError, message, name, str(aval), "an axis")
    return a, axis_of(axis, aval.ndim, name)


@private_function
def _accumulate_by_function(a: Prepared, *, function: Passed, axis: Passed) -> Any:
    of = type_of(a)
    known = None if isinstance(function, PythonUfunc) else function.__name__
    if known in _WIDENED:
        return (cumsum if known == "add" else cumprod)(a, axis, of.dtype)
    if known in ("maximum", "minimum") and of.dtype in dtypes.REAL:
        return (cummax if known == "maximum" else cummin)(a, axis)
    if of.shape[axis] < 2:
        return a
    if function.reorderable:
        return associative_scan(lambda x, y: convert(function(x, y), of.dtype), a, axis=axis)
    rows = move_dim(a, axis, 0, of.shape[axis])

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        new = convert(function(carry, row), of.dtype)
        return new, new

    first = slice_in_dim(rows, 0, 1, axis=0)
    start = reshape(first, type_of(rows).shape[1:])
    _, rest = scan(step, start, slice_in_dim(rows, 1, of.shape[axis], axis=0))
    return move_dim(concatenate([first, rest], 0), 0, axis, of.shape[axis])


def reduceat(function: ufunc, a: Any, indices: Any, axis: int, dtype: Any, out: Any) -> Any:
    """`ufunc.reduceat`."""
    name = check_binary(function, "reduceat", out)
    a, place = _along(function, name, a, axis, dtype)
    if isinstance(indices, (list, tuple)):
        indices = np.asarray(indices) if len(indices) else np.zeros(0, np.int32)
    indices = as_operand(name, indices)
    found = type_of(indices)
    if found.ndim != 1 or found.dtype not in dtypes.INTEGER:
        message = f"{name}: indices is a list of positions"
        got = f"indices of type {found}"
        raise refusal(WeftIndexError, message, name, got, "one dimension of integers")
    if not isinstance(indices, Tracer):
        length = type_of(a).shape[place]
        outside = [int(i) for i in np.asarray(indices) if not 0 <= i < length]
        if outside:
            got = f"index {outside[0]} for an axis of length {length}"
            wanted = f"positions from 0 to {length - 1}"
            raise refusal(WeftIndexError, f"{name}: an index is out of bounds", name, got, wanted)
    return _run(_reduced_at, function)(a, indices, function=function, axis=place)


@private_function
def _reduced_at(a: Prepared, indices: Prepared, *, function: Passed, axis: Passed) -> Any:
    """Combines each row into every part that it belongs to; parts may overlap."""
    of, count = type_of(a), type_of(indices).shape[0]
    length = of.shape[axis]
    rows = move_dim(a, axis, 0, length)
    rest = type_of(rows).shape[1:]
    if not count:
        return move_dim(broadcast_in_dim(of.dtype.type(0), (0, *rest), ()), 0, axis, 0)
    first = convert(indices, dtypes.int32)
    behind = broadcast_in_dim(np.int32(length), (1,), ())
    end = concatenate([slice_in_dim(first, 1, count, axis=0), behind], 0)

    def spread(x: Any) -> Any:
        return broadcast_in_dim(x, (count, *rest), (0,))

    def step(carry: Any, numbered: Any) -> tuple[Any, None]:
        number, row = numbered
        row = broadcast_in_dim(row, (count, *rest), tuple(range(1, len(rest) + 1)))
        place = broadcast_in_dim(number, (count,), ())
        begins, inside = eq(first, place), bitwise_and(lt(first, place), lt(place, end))
        going_on = convert(function(carry, row), of.dtype)
        return select(spread(begins), row, select(spread(inside), going_on, carry)), None

    start = broadcast_in_dim(of.dtype.type(0), (count, *rest), ())
    found, _ = scan(step, start, (iota(dtypes.int32, length), rows))
    return move_dim(found, 0, axis, count)


def outer(function: ufunc, a: Any, b: Any) -> Any:
    """`ufunc.outer`."""
    name = f"{function.__name__}.outer"
    if function.nin != 2:
        check_binary(function, "outer")
    a, b = as_operand(name, a), as_operand(name, b)
    ones = (1,) * type_of(b).ndim
    if not ones:
        return function(a, b)
    return function(reshape(asarray(a), (*type_of(a).shape, *ones)), b)


def at(function: ufunc, a: Any, indices: Any, b: Any, inplace: bool) -> Any:
    """`ufunc.at`."""
    name = f"{function.__name__}.at"
    if inplace:
        message = f"{name} does not change an array in place"
        got = f"inplace={inplace!r:.80}"
        fix = Fix("inplace", "pass inplace=False and use the result", {"inplace": False})
        raise refusal(WeftNotImplementedError, message, name, got, "inplace=False", fix)
    if function.nout != 1 or function.nin > 2 or (function.nin == 2) != (b is not None):
        message = f"{name} takes an array, indices and the other operands"
        got = f"{function.nin} operands for the function, b={b!r:.40}"
        wanted = "b for a function of two operands, and no b for one of one"
        raise refusal(WeftTypeError, message, name, got, wanted)
    a = as_operand(name, a)
    dtype = type_of(a).dtype
    operands = [] if b is None else [as_operand(name, b)]
    if b is not None:
        met = type_of(promote_values(name, a, operands[0])[0]).dtype
        if not np.can_cast(met, dtype, "same_kind"):
            message = f"{name}: results of dtype {met.name} do not go into {dtype.name}"
            got = f"{type_of(a)} and {type_of(operands[0])}"
            wanted = f"operands whose result can be cast to {dtype.name}"
            fix = Fix("convert", f"convert the array first: a.astype({met.name!r})", {})
            raise refusal(DTypeError, message, name, got, wanted, fix)
    known = None if isinstance(function, PythonUfunc) else _UPDATES.get(function.__name__)
    a = asarray(a)
    if known is not None and dtype not in dtypes.BOOLEAN | dtypes.COMPLEX:
        return getattr(a.at[indices], known)(operands[0])
    size = type_of(a).size
    places = reshape(iota(dtypes.int32, size), type_of(a).shape)
    places = places.at[indices].get(mode="fill", fill_value=size)
    return _run(_update_in_order, function)(a, places, *operands, function=function)


@private_function
def _update_in_order(a: Prepared, places: Prepared, *operands: Prepared, function: Passed) -> Any:
    """Updates one position after the other; positions past the last element are left out."""
    shape, dtype, count = type_of(a).shape, type_of(a).dtype, type_of(places).size
    flat = reshape(a, (type_of(a).size,))
    rows = [reshape(broadcasted(x, type_of(places).shape), (count,)) for x in operands]

    def step(carry: Any, row: Any) -> tuple[Any, None]:
        place, *others = row
        old = carry.at[place].get(mode="fill", fill_value=0)
        return carry.at[place].set(convert(function(old, *others), dtype), mode="drop"), None

    if not count:
        return a
    return reshape(scan(step, flat, (reshape(places, (count,)), *rows))[0], shape)


class PythonUfunc(ufunc):
    """A ufunc that applies a function of scalars to every element; made by `frompyfunc`."""

    def __init__(self, func: Callable[..., Any], nin: int, nout: int, identity: Any) -> None:
        name = getattr(func, "__name__", type(func).__name__)
        super().__init__(name, nin, nout, identity, identity is not None)
        self.func = func
        self.__doc__ = getattr(func, "__doc__", None)

        def checked(*values: Any) -> Any:
            out = func(*values)
            results = len(out) if isinstance(out, tuple) else 1
            if results != nout or (nout == 1 and isinstance(out, tuple)):
                message = f"the function {name} of frompyfunc has {results} results, not {nout}"
                wanted = f"nout={nout}: " + ("one scalar" if nout == 1 else f"a tuple of {nout}")
                raise refusal(WeftTypeError, message, "frompyfunc", repr(out)[:80], wanted)
            return out

        self.mapped = vectorize(checked)

    def __call__(self, *operands: Any, **keywords: Any) -> Any:
        if keywords or len(operands) != self.nin:
            self.refuse(len(operands), keywords)
        return self.mapped(*operands)

    def __reduce__(self) -> Any:
        return PythonUfunc, (self.func, self.nin, self.nout, self.identity)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A ufunc from a function of `nin` scalars that gives `nout` of them.

    func: returns one scalar, or a tuple of several. identity: the value that leaves others as they
    are. If you give one, the function must be associative and commutative, and reductions may
    combine elements in any order. The function is traced, so write it with functions of
    `weft.numpy`.

    >>> clipped = jnp.frompyfunc(lambda x, y: jnp.minimum(x + y, 10), 2, 1, identity=0)
    >>> clipped(jnp.array([1, 8]), 3), clipped.reduce(jnp.array([4, 5, 6]))
    (Array([ 4, 10], dtype=int32), Array(10, dtype=int32))
    """
    if not callable(func):
        raise not_a_function("frompyfunc", func, "a function of scalars")
    nin, nout = integer_of(nin, "nin", "frompyfunc"), integer_of(nout, "nout", "frompyfunc")
    if nin < 0 or nout < 1:
        message = "frompyfunc: nin is not negative, and nout at least 1"
        got = f"nin={nin}, nout={nout}"
        raise refusal(WeftValueError, message, "frompyfunc", got, "nin >= 0 and nout >= 1")
    return PythonUfunc(func, nin, nout, identity)
