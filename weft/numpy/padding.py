"""`pad`: an array with elements added around it, by each of NumPy's modes.

Axes are padded one after the other, so that the corners are the composition, as in NumPy.
Reflections that are longer than the array are repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of, invalid_value, refusal, unknown_option
from weft.kinds.arguments import NEVER, Flag, Operand, Passed
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, check_arrays, convert, inexact, operand
from weft.kinds.kind import Kind
from weft.kinds.numbers import number_for
from weft.numpy.manipulation import as_operand
from weft.numpy.quantiles import median as median_
from weft.numpy.reductions import max as max_
from weft.numpy.reductions import mean as mean_
from weft.numpy.reductions import min as min_
from weft.ops.elementwise.arithmetic import add, div, mul, sub
from weft.ops.elementwise.rounding import RoundingMethod, floor
from weft.ops.elementwise.rounding import round as nearest
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import iota
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reshape, transpose

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]
# Numbers are part of the program.
_values_kind = Kind(lambda value, call: value, "numbers", (), (0,), False, True, NEVER)
Values = Annotated[Any, _values_kind]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "edge": (),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    "wrap": (),
    "empty": (),
    "linear_ramp": ("end_values",),
    "maximum": ("stat_length",),
    "mean": ("stat_length",),
    "median": ("stat_length",),
    "minimum": ("stat_length",),
}


def _pairs(value: Any, ndim: int, argument: str) -> list[list[Any]]:
    """A pair per dimension, from a number, a pair, pairs, or a dictionary of these by axis."""
    if isinstance(value, dict):
        out: list[list[Any]] = [[0, 0] for _ in range(ndim)]
        for axis, entry in value.items():
            pair = entry if isinstance(entry, (tuple, list)) else (entry, entry)
            out[axis % ndim] = list(pair)
        return out
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif getattr(value, "ndim", 0):
        value = [list(row) if row.ndim else row for row in value]
    if not isinstance(value, (tuple, list)):
        return [[value, value] for _ in range(ndim)]
    rows = [list(v) if isinstance(v, (tuple, list)) else v for v in value]
    if rows and all(isinstance(row, list) for row in rows):
        rows = [row * 2 if len(row) == 1 else row for row in rows]
        rows = rows * ndim if len(rows) == 1 else rows
        if len(rows) == ndim and all(len(row) == 2 for row in rows):
            return rows
    elif len(rows) == 1:
        return [[rows[0], rows[0]] for _ in range(ndim)]
    elif len(rows) == 2:
        return [list(rows) for _ in range(ndim)]
    message = f"pad: {argument} does not fit an array of {ndim} dimensions"
    wanted = "a number, a pair (before, after), or a pair for each dimension"
    raise refusal(ShapeError, message, "pad", f"{argument}={value!r}", wanted)


def _check_options(mode: Any, options: dict[str, Any]) -> None:
    """Raises WeftValueError for an unknown mode, and for other options than the mode's."""
    if mode not in _OPTIONS:
        raise unknown_option("pad", "mode", mode, f"{', '.join(map(repr, _OPTIONS))} or a function")
    unknown = set(options) - set(_OPTIONS[mode])
    if unknown:
        message = f"pad: mode {mode!r} takes no argument {', '.join(sorted(unknown))}"
        wanted = ", ".join(_OPTIONS[mode]) or "no more arguments"
        raise refusal(WeftValueError, message, "pad", ", ".join(sorted(options)), wanted)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """The array with elements added before and behind it in every dimension.

    array: an array, or what can be made one. pad_width: a number, a pair (before, after), a pair
    for each dimension, or a dictionary from axes to those. mode: "constant" (with
    constant_values=), "edge", "reflect" and "symmetric" (with reflect_type="even" or "odd"),
    "wrap", "empty", "linear_ramp" (with end_values=), "maximum", "mean", "median", "minimum" (with
    stat_length=), or a function that changes a padded row, of signature (row, widths, axis, kwargs)
    -> row. kwargs: the option of the mode, or those of the function.

    >>> jnp.pad(jnp.arange(3), (1, 2), mode="edge")
    Array([0, 0, 1, 2, 2, 2], dtype=int32)
    """
    array = operand("pad", array)
    of = type_of(array)
    widths = tuple(
        (integer_of(a, "pad_width", "pad"), integer_of(b, "pad_width", "pad"))
        for a, b in _pairs(pad_width, of.ndim, "pad_width")
    )
    if any(n < 0 for pair in widths for n in pair):
        raise invalid_value("pad: widths are not negative", "pad", "pad_width", pad_width)
    if callable(mode):
        return _pad_by_function(as_operand(array), widths, mode, kwargs)
    _check_options(mode, kwargs)
    if mode == "empty":
        mode, kwargs = "constant", {}
    if mode in ("constant", "linear_ramp"):
        name = _OPTIONS[mode][0]
        rows = _pairs(kwargs.get(name, 0), of.ndim, name)
        values = [v for row in rows for v in row]
        if mode == "constant" and all(v is values[0] for v in values):
            values = values[:1]
        check_arrays(*values, operation="pad")
        values = [number_for(x, of.dtype, "pad") for x in values]
        return (_constant if mode == "constant" else _ramp)(array, tuple(values), widths)
    if 0 in [n for n, pair in zip(of.shape, widths, strict=True) if any(pair)]:
        message = f"pad: mode {mode!r} needs elements along the axes that it pads"
        raise refusal(WeftValueError, message, "pad", str(of))
    if mode in ("maximum", "mean", "median", "minimum"):
        length = kwargs.get("stat_length")
        whole = [[None, None]] * of.ndim
        rows = whole if length is None else _pairs(length, of.ndim, "stat_length")
        return _statistic(array, widths, mode, tuple(map(tuple, rows)))
    odd = kwargs.get("reflect_type", "even") == "odd"
    return _by_mode(array, widths, mode, odd)


@array_function
def _constant(x: Operand, values: Values, widths: Passed) -> Any:
    """Pads with one value, or with one for each side of each dimension."""
    dtype, ndim = x.dtype, x.ndim
    if len(values) == 1:
        return slicing.pad(x, reshape(convert(values[0], dtype), ()), [(*w, 0) for w in widths])
    for axis, (before, after) in enumerate(widths):
        low, high = (convert(v, dtype) for v in values[2 * axis : 2 * axis + 2])
        for value, pair in ((low, (before, 0, 0)), (high, (0, after, 0))):
            config = [pair if d == axis else (0, 0, 0) for d in range(ndim)]
            x = slicing.pad(x, reshape(value, ()), config)
    return x


def _part(x: Any, low: int, high: int, axis: int) -> Any:
    return slicing.slice_in_dim(x, low, high, axis=axis)


def _tile(x: Any, count: int, axis: int) -> Any:
    """Repeats a slice of length 1 along its axis."""
    shape = type_of(x).shape
    return broadcasted(x, tuple(count if d == axis else n for d, n in enumerate(shape)))


@array_function
def _by_mode(x: Operand, widths: Passed, mode: Passed, odd: Flag) -> Any:
    for axis, (before, after) in enumerate(widths):
        n = type_of(x).shape[axis]
        if not before and not after:
            continue
        if mode == "edge" or (mode == "reflect" and n == 1):
            parts = [_tile(_part(x, 0, 1, axis), before, axis), x]
            x = concatenate([*parts, _tile(_part(x, n - 1, n, axis), after, axis)], axis)
        elif mode == "wrap":
            wholes = [x] * (before // n + 1 + after // n)
            front, back = _part(x, n - before % n, n, axis), _part(x, 0, after % n, axis)
            x = concatenate([front, *wholes, back], axis)
        else:
            x = _reflect(x, before, after, axis, mode == "reflect", odd)
    return x


def _reflect(x: Any, before: int, after: int, axis: int, without_edge: bool, odd: bool) -> Any:
    """Adds reflections, each at most as long as the array so far, up to the widths."""
    skip = int(without_edge)
    while before or after:
        n = type_of(x).shape[axis]
        take = min(before, n - skip)
        if take:
            part = rev(_part(x, skip, skip + take, axis), (axis,))
            if odd:
                part = _reflect_at_edge(part, _part(x, 0, 1, axis), axis)
            x = concatenate([part, x], axis)
            before -= take
        n = type_of(x).shape[axis]
        take = min(after, n - skip)
        if take:
            part = rev(_part(x, n - skip - take, n - skip, axis), (axis,))
            if odd:
                part = _reflect_at_edge(part, _part(x, n - 1, n, axis), axis)
            x = concatenate([x, part], axis)
            after -= take
    return x


def _reflect_at_edge(part: Any, edge: Any, axis: int) -> Any:
    """The point reflection: twice the edge minus the mirrored elements."""
    edge = _tile(edge, type_of(part).shape[axis], axis)
    return sub(add(edge, edge), part)


@array_function
def _ramp(x: Operand, values: Values, widths: Passed) -> Any:
    dtype = type_of(x).dtype
    working = inexact(dtype)
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = type_of(x).shape[axis]
        low, high = (convert(reshape(v, ()), working) for v in values[2 * axis : 2 * axis + 2])
        parts = []
        for end, count, edge in (
            (low, before, _part(x, 0, 1, axis)),
            (high, after, _part(x, n - 1, n, axis)),
        ):
            # The outermost element is the end value, whatever the edge is.
            outermost = broadcasted(end, type_of(_part(edge, 0, min(count, 1), axis)).shape)
            inner = max(count - 1, 0)
            edge = _tile(convert(edge, working), inner, axis)
            shape = type_of(edge).shape
            step = add(convert(iota(np.int32, inner), working), working.type(1))
            step = broadcast_in_dim(div(step, working.type(max(count, 1))), shape, (axis,))
            ramp = add(broadcasted(end, shape), mul(step, sub(edge, broadcasted(end, shape))))
            parts += [outermost, ramp] if end is low else [rev(ramp, (axis,)), outermost]
        if dtype in dtypes.INTEGER:
            parts = [floor(p) for p in parts]
        parts = [convert(p, dtype) for p in parts]
        x = concatenate([*parts[:2], x, *parts[2:]], axis)
    return x


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": max_,
    "mean": mean_,
    "median": median_,
    "minimum": min_,
}


@array_function
def _statistic(x: Operand, widths: Passed, mode: Passed, lengths: Passed) -> Any:
    for axis, (before, after) in enumerate(widths):
        if not before and not after:
            continue
        n = type_of(x).shape[axis]
        sizes = [n if length is None else min(length, n) for length in lengths[axis]]
        first = last = _statistic_of(_part(x, 0, sizes[0], axis), mode, axis)
        if min(sizes) < n:
            last = _statistic_of(_part(x, n - sizes[1], n, axis), mode, axis)
        x = concatenate([_tile(first, before, axis), x, _tile(last, after, axis)], axis)
    return x


def _statistic_of(part: Any, mode: str, axis: int) -> Any:
    """A statistic along an axis, kept with length 1, in the dtype of the array."""
    dtype = type_of(part).dtype
    out = _STATISTICS[mode](part, axis=axis, keepdims=True)
    if dtype in dtypes.INTEGER and type_of(out).dtype != dtype:
        out = nearest(out, RoundingMethod.TO_NEAREST_EVEN)
    return convert(out, dtype)


def _pad_by_function(x: Any, widths: Widths, function: Callable[..., Any], kwargs: Any) -> Any:
    """Pads with zeros, then applies a function to every row along each axis."""
    x = slicing.pad(x, type_of(x).dtype.type(0), [(a, b, 0) for a, b in widths])
    for axis, pair in enumerate(widths):
        shape = type_of(x).shape
        front = [d for d in range(len(shape)) if d != axis]
        count = type_of(x).size // max(1, shape[axis])
        rows = reshape(transpose(x, (*front, axis)), (count, shape[axis]))
        new = []
        for i in range(type_of(rows).shape[0]):
            row = reshape(_part(rows, i, i + 1, 0), (shape[axis],))
            out = function(row, pair, axis, kwargs)
            new.append(reshape(row if out is None else out, (1, shape[axis])))
        if new:
            rows = concatenate(new, 0)
        moved = reshape(rows, (*(shape[d] for d in front), shape[axis]))
        x = move_dim(moved, len(front), axis, shape[axis])
    return x
