"""Covariance and histograms: cov, corrcoef, histogram, bincount.

Weighted means: average.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, Literal, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of, user_value
from weft.errors import ConcretizationError, DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of, refusal
from weft.kinds.arguments import (
    NEVER,
    Axes,
    DType,
    Flag,
    Inexact,
    Integer,
    Length,
    NoSharding,
    Operand,
    Operands,
    Promoted,
    operand_kind,
)
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcasted, check_arrays, inexact, sequence_of
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.choosing import concrete_values
from weft.numpy.creation import asarray
from weft.numpy.joining import concatenate, stack
from weft.numpy.nan_reductions import is_nan
from weft.numpy.reductions import count_over, keep_dims
from weft.numpy.searching import searchsorted
from weft.ops.elementwise.arithmetic import sqrt
from weft.ops.elementwise.complex import complex
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.rounding import RoundingMethod, round
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flag
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter_add
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.matrices import diagonal
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import dot_general
from weft.ops.reductions.reduce import restore_axes
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, transpose
from weft.typing import ArrayLike

__all__ = [
    "average", "bincount", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges",
    "histogramdd",
]  # fmt: skip

# ---- covariance ----------------------------------------------------------------------------------


def _variables(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    dtype = call["dtype"]
    if dtype is not None:
        return number_for(value, dtype)
    return user_value(value) if isinstance(value, np.generic) else value


# NumPy arrays keep the digits that `dtype` can hold.
Variables = Annotated[ArrayLike, dataclasses.replace(operand_kind, take=_variables, late=True)]
# How products are summed over the observations.
_BY_ROWS = (((1,), (1,)), ((), ()))


@array_function
def cov(
    m: Variables, y: Variables | None = None, rowvar: Flag = True, bias: Flag = False, ddof:
    Integer | None = None, fweights: Operand | None = None, aweights: Operand | None = None,
    dtype: DType = None,
) -> Array:  # fmt: skip
    """The covariance matrix of variables, which are the rows of `m` (and of `y`).

    rowvar: whether the rows are the variables; otherwise the columns are. bias: divide by the
    number of observations and not by one less. ddof: how many less, whatever bias says. fweights,
    aweights: how often each observation occurs, and its weight. dtype: to compute in.

    >>> jnp.cov(jnp.array([[1.0, 3.0], [2.0, 0.0]]))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float32)
    """
    x = _observations(m, y, rowvar, dtype)
    degrees = (0 if bias else 1) if ddof is None else ddof
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None and w.shape != x.shape[1:]:
            raise ShapeError(f"{name} does not fit", got=str(w.type), wanted=f"shape {x.shape[1:]}")
    return _covariance(x, fweights, aweights, degrees)


def _observations(m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """All variables as rows, in a dtype if one is given."""
    if m.ndim > 2:
        raise ShapeError("it takes at most two dimensions", got=str(m.type))
    parts = [x if dtype is None else x.astype(dtype) for x in (m, y) if x is not None]
    parts = [x.reshape(1, -1) if x.ndim < 2 else x if rowvar else x.T for x in parts]
    return parts[0] if y is None else concatenate(parts, 0)


def _covariance(x: Any, fweights: Any, aweights: Any, ddof: int) -> Any:
    """The covariance of the rows."""
    dtype, target = accumulator(inexact(x.dtype)), inexact(x.dtype)
    x = x.astype(dtype)
    weights = [w.astype(dtype) for w in (fweights, aweights) if w is not None]
    if weights:
        w = functools.reduce(operator.mul, weights)
        total, weighted = w.sum(), x * w
        factor = total - ddof
        if aweights is not None and ddof:
            factor = total - ddof * (w * weights[-1]).sum() / total
    else:
        total, weighted = x.shape[1], x
        factor = max(total - ddof, 0)
    x = x - restore_axes(weighted.sum(1) / total, x.shape, (1,))
    y = (x * w if weights else x).conj()
    out = (dot_general(x, y, _BY_ROWS) / factor).astype(target)
    return out.reshape(()) if out.size == 1 else out


@array_function
def corrcoef(
    x: Variables, y: Variables | None = None, rowvar: Flag = True, dtype: DType = None
) -> Array:
    """The correlation coefficients of variables, which are the rows of `x` (and of `y`).

    x: shape (n, m), n variables of m observations. rowvar: whether the rows are the variables;
    otherwise the columns are. The result is (n, n), real or complex, computed in `dtype`. Raises
    ShapeError for more than two dimensions.

    >>> jnp.corrcoef(jnp.array([[1.0, 2.0], [2.0, 1.0]])).round(2)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    c = _covariance(_observations(x, y, rowvar, dtype), None, None, 1)
    if not c.ndim:
        return c / c
    deviation = sqrt(diagonal(c).real)
    outer = restore_axes(deviation, c.shape, (1,)) * deviation
    if c.dtype in dtypes.COMPLEX:
        return complex(*[(part / outer).clip(-1, 1) for part in (c.real, c.imag)])
    return (c / outer).clip(-1, 1)


# ---- counting ------------------------------------------------------------------------------------


@python_function
def bincount(
    x: Operand, weights: Operand | None = None, minlength: Length = 0, *, length: Length | None =
    None, out_sharding: NoSharding = None,
) -> Array:  # fmt: skip
    """How often each number from 0 on occurs in an array of integers that are not negative.

    weights: summed instead of counting; minlength: the least length of the result; length: exactly
    its length, needed where `x` is traced: larger numbers are left out, negative ones count as 0.

    >>> jnp.bincount(jnp.array([0, 2, 2, 3]))
    Array([1, 0, 2, 1], dtype=int32)
    """
    if x.dtype not in dtypes.BITS:
        message = f"it takes integers, not {dtypes.short_name(x.dtype)}"
        fix = to_dtype("x", x.dtype, dtypes.int32)
        raise DTypeError(message, got=f"x: {x.type}", wanted="an integer dtype", fix=fix)
    if x.ndim != 1:
        fix = Fix("ravel", "flatten it: x.reshape(-1)", {})
        raise ShapeError("it takes one dimension", got=f"x: {x.type}", wanted="shape (n,)", fix=fix)
    _check_weights(weights, x)
    if length is None:
        value = concrete_values(x, "pass length=, the length of the result")
        length = max(int(value.max(initial=0)) + 1 if value.size else 0, minlength)
    return _bincount(x, weights, length)


def _check_weights(weights: Any, x: Any) -> None:
    if weights is not None and weights.shape != x.shape:
        message = "the weights and the array have different shapes"
        raise ShapeError(message, got=f"{weights.type} and {x.type}")


@array_function
def _bincount(x: Operand, weights: Operand | None, length: Length) -> Array:
    index = x if x.dtype.itemsize >= 4 else x.astype(np.int32)
    if index.dtype in dtypes.SIGNED:
        index = index.clip(0)
    values = full(x.shape, 1, dtypes.default_int()) if weights is None else weights
    return _sum_by_index(index, values, length)


def _sum_by_index(index: Any, values: Any, length: int) -> Any:
    """The sums of the values of equal index."""
    zeros = full((length,), 0, values.dtype)
    if not length:
        return zeros
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    return scatter_add(zeros, index.reshape(-1, 1), values, numbers, mode="drop")


# ---- histograms ----------------------------------------------------------------------------------

_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def _bins(value: Any, call: Arguments) -> Any:
    """A rule, edges as an array, or a number of bins."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
    if getattr(value, "ndim", 0) == 1:
        return value
    count = integer_of(value, "bins")
    if count < 1:
        message = "the number of bins is not positive"
        raise WeftValueError(message, got=f"bins={count}")
    return count


def _ends(value: Any, call: Arguments) -> Any:
    if value is None:
        return None
    if len(sequence_of(value, "range")) != 2:
        raise WeftValueError("range is a pair", got=f"range={value!r:.80}", wanted="(low, high)")
    check_arrays(*value, argument="range")
    if not any(isinstance(x, Tracer) for x in value) and float(value[0]) > float(value[1]):
        message = "the range ends before it starts"
        fix = Fix("range", "swap the ends", {})
        raise WeftValueError(message, got=f"range={value!r:.80}", wanted="low <= high", fix=fix)
    return tuple(number_for(x, inexact(call.type.dtype)) for x in value)


def _for_each(take: Any, values: Sequence[Any], call: Arguments) -> list[Any]:
    """A value for each column of the points, or for both coordinates."""
    dims = call.type.shape[1] if call.type.ndim == 2 else 2
    if len(values) != dims:
        message = f"{call.operation} needs bins and range for {dims} dimensions"
        raise refusal(WeftValueError, message, call.operation, f"{call.name} for {len(values)}")
    return [take(x, call) for x in values]


def _bins_of_each(value: Any, call: Arguments) -> list[Any]:
    if call.type.ndim == 2:
        several = value if isinstance(value, (list, tuple)) else [value] * call.type.shape[1]
    else:
        pair = isinstance(value, (list, tuple)) and len(value) == 2
        several = value if pair else [value] * 2
    return _for_each(_bins, several, call)


def _ends_of_each(value: Any, call: Arguments) -> list[Any]:
    return _for_each(_ends, sequence_of(value, "range"), call)


def _density(value: Any, call: Arguments) -> bool:
    check_flag(value, call.name, none=True)
    return bool(value)


_BINS = "a number of bins, their edges, or the name of a rule"
Bins = Annotated[Any, Kind(_bins, _BINS, (0, 2.5, "text", None), plain=NEVER)]
BinsOfEach = Annotated[Any, Kind(_bins_of_each, f"{_BINS}; or one of these for each", (0, 2.5))]
Ends = Annotated[Any, Kind(_ends, "a pair (low, high)", (1, (1,), (1, 0)))]
EndsOfEach = Annotated[Any, Kind(_ends_of_each, "a pair (low, high) for each", (1, (1,)))]
Density = Annotated[bool | None, Kind(_density, "True, False or None", ("no", 2), plain=NEVER)]


@python_function
def histogram_bin_edges(
    a: Operand, bins: Bins = 10, range: Ends | None = None, weights: Operand | None = None
) -> Array:
    """The edges of bins: of `bins` equal ones from the least to the greatest element, or `range`.

    bins: a number, the edges themselves, or a rule for how many there are, by NumPy's names
    ("auto", "fd", "sturges" …), for which the values have to be known. weights: without effect, and
    not taken with a rule.

    >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=2)
    Array([0., 2., 4.], dtype=float32)
    """
    return _edges(a, bins, range, weights)


def _edges(a: Any, bins: Any, ends: Any, weights: Any = None) -> Any:
    if isinstance(bins, int):
        low, high = ends or (None, None)
        return _equal_edges(a, low, high, bins)
    if isinstance(bins, str):
        return asarray(_edges_by_rule(a, bins, ends, weights), dtype=inexact(a.dtype))
    return asarray(bins, dtype=inexact(type_of(bins).dtype))


def _edges_by_rule(a: Any, rule: str, ends: Any, weights: Any) -> Any:
    """The edges that NumPy's rule gives for known values."""
    values = a.concrete() if isinstance(a, Tracer) else a
    if values is None:
        why = f"how many bins {rule!r} makes depends on values"
        raise ConcretizationError(
            f"{why}, which are not known while a function is traced",
            got=str(a.type),
            wanted="a number of bins, or their edges",
            fix=Fix("argument", "pass bins=10", {}),
        )
    if weights is not None or rule not in _RULES:
        raise WeftValueError(
            "bins is a number, an array of edges or a rule, without weights",
            got=f"bins={rule!r}" + ("" if weights is None else " with weights"),
            wanted=", ".join(_RULES),
        )
    return np.histogram_bin_edges(np.asarray(values), rule, ends)


@array_function
def _equal_edges(a: Operand, low: Operand | None, high: Operand | None, bins: Length) -> Array:
    dtype = inexact(a.dtype)
    if low is not None and high is not None:
        low, high = low.astype(dtype), high.astype(dtype)
    elif a.size:
        x = a.astype(dtype)
        low, high = x.min(), x.max()
    else:
        low, high = full((), 0, dtype), full((), 1, dtype)
    level = low == high
    low, high = select(level, low - 0.5, low), select(level, high + 0.5, high)
    # The width first, as in NumPy: edges that are whole numbers come out exact, and elements that
    # lie on them fall into the bin above.
    span = high - low
    width = span / bins
    # Compilers multiply by the inverse of a constant, which may be a unit off: a round width that
    # fits is the right one.
    near = round(width * 256, RoundingMethod.TO_NEAREST_EVEN) / 256
    off = select(near * bins == span, near - width, full((), 0, dtype))
    width = width + stop_gradient(off)
    place = iota(np.int32, bins + 1)
    edges = place.astype(dtype) * width + low
    # The last edge is set exactly, without the rounding of the line above: the greatest element
    # belongs to the last bin.
    return select(place == bins, full(edges.shape, high), edges)


@python_function
def histogram(
    a: Operand, bins: Bins = 10, range: Ends | None = None, weights: Operand | None = None, density:
    Density = None,
) -> tuple[Array, Array]:  # fmt: skip
    """How many elements fall into each bin, and the edges of the bins.

    weights: summed instead of counting; density: divided by the bins' widths and the total; range:
    the ends (low, high) of the bins, by default the least and the greatest element.

    a: any shape; bins: how many, or edges of shape (n + 1,), or the name of a rule, for which
    values have to be known. The result is n counts, in the dtype of a (float32 for integers), and n
    + 1 edges. Raises WeftValueError for fewer than one bin, ShapeError for weights of another
    shape.

    >>> jnp.histogram(jnp.array([0.0, 1.0, 1.0, 2.0]), bins=2)
    (Array([1., 3.], dtype=float32), Array([0., 1., 2.], dtype=float32))
    """
    edges = _edges(a, bins, range, weights)
    _check_weights(weights, a)
    return _histogram(a, edges, weights, density), edges


@array_function
def _histogram(a: Operand, edges: Operand, weights: Operand | None, density: Density) -> Array:
    dtype = inexact(dtypes.promote_types(a.dtype, edges.dtype))
    if edges.size < 2:
        return full((0,), 0, (edges if weights is None else weights).dtype)
    x, edges = a.reshape(-1).astype(dtype), edges.astype(dtype)
    index, inside = _bin_of(x, edges)
    values = full(x.shape, 1, dtype) if weights is None else weights.reshape(-1)
    counts = _sums_inside(index, inside, values, edges.size - 1)
    if not density:
        return counts
    counts = counts.astype(dtype)
    return counts / _widths(edges) / counts.sum()


def _widths(edges: Any) -> Any:
    return slice_in_dim(edges, 1, None) - slice_in_dim(edges, 0, -1)


def _sums_inside(index: Any, inside: Any, values: Any, size: int) -> Any:
    """The sums by index of the values inside."""
    return _sum_by_index(index, select(inside, values, full(values.shape, 0, values.dtype)), size)


def _bin_of(x: Any, edges: Any) -> tuple[Any, Any]:
    """The bin of each value, and whether it is in one; the last bin is closed."""
    first, last = (slice_in_dim(edges, i, i + 1).reshape(()) for i in (0, edges.size - 1))
    index = (searchsorted(edges, x, "right") - 1).clip(0, edges.size - 2)
    return index, ~((x < first) | (x > last) | is_nan(x))


@python_function
def histogramdd(
    sample: Operand, bins: BinsOfEach = 10, range: EndsOfEach | None = None, weights: Operand | None
    = None, density: Density = None,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """How many points, the rows of `sample`, fall into each cell of a grid, and the grid's edges.

    bins: a number for all dimensions, or a sequence of a number or edges for each; range: (low,
    high) for each. weights: of shape (n,), summed instead of counting. density: whether the counts
    are divided by the cells' volumes and the total.

    >>> jnp.histogramdd(jnp.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if sample.ndim != 2 or not sample.shape[1]:
        raise ShapeError("it takes a matrix with columns", got=str(sample.type))
    return _grid(sample, bins, range, weights, density)


def _column(sample: Any, d: int) -> Any:
    return slice_in_dim(sample, d, d + 1, axis=1).reshape(sample.shape[0])


def _grid(
    sample: Any, bins: Sequence[Any], ends: Any, weights: Any, density: bool | None
) -> tuple[Array, list[Array]]:
    ends = ends or [None] * len(bins)
    edges = [_edges(_column(sample, d), bins[d], ends[d]) for d in range(len(bins))]
    return _cells(sample, edges, weights, density), edges


@array_function
def _cells(sample: Operand, edges: Operands, weights: Operand | None, density: Density) -> Array:
    dtype = inexact(sample.dtype)
    edges = [edge.astype(dtype) for edge in edges]
    shape = tuple(edge.size - 1 for edge in edges)
    places = [_bin_of(_column(sample, d).astype(dtype), edge) for d, edge in enumerate(edges)]
    flat, inside = places[0]
    for size, (index, within) in zip(shape[1:], places[1:], strict=True):
        flat, inside = flat * size + index, inside & within
    values = full(flat.shape, 1, dtype) if weights is None else weights
    counts = _sums_inside(flat, inside, values, prod(shape)).reshape(shape)
    if not density:
        return counts
    counts = counts.astype(dtype)
    counts = counts / counts.sum()
    for d, edge in enumerate(edges):
        counts = counts / broadcast_in_dim(_widths(edge), shape, (d,))
    return counts


@python_function
def histogram2d(
    x: Promoted, y: Promoted, bins: BinsOfEach = 10, range: EndsOfEach | None = None, weights:
    Operand | None = None, density: Density = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """How many points (x, y) fall into each cell of a grid, and the edges along both axes.

    bins: a number or edges for both axes, or a pair of these; range: a pair (low, high) for each
    axis, by default the least and the greatest coordinate; weights: of shape (n,), summed instead
    of counting; density: whether the counts are divided by the cells' areas and the total.

    >>> jnp.histogram2d(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), bins=2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if x.ndim != 1 or x.shape != y.shape:
        raise ShapeError("x and y have one dimension and one length", got=f"{x.type} and {y.type}")
    counts, edges = _grid(stack([x, y], 1), bins, range, weights, density)
    return counts, edges[0], edges[1]


# ---- weighted means ------------------------------------------------------------------------------


@overload
def average(
    a: Any,
    axis: Any = ...,
    weights: Any = ...,
    returned: Literal[False] = ...,
    keepdims: bool = ...,
) -> Array: ...
@overload
def average(
    a: Any, axis: Any = ..., weights: Any = ..., *, returned: Literal[True], keepdims: bool = ...
) -> tuple[Array, Array]: ...
@overload
def average(
    a: Any, axis: Any = ..., weights: Any = ..., returned: bool = ..., keepdims: bool = ...
) -> Any: ...
@array_function
def average(
    a: Inexact,
    axis: Axes = None,
    weights: Inexact | None = None,
    returned: Flag = False,
    keepdims: Flag = False,
) -> Any:
    """The mean along `axis`, weighted by `weights`, which has the shape of `a` or of the axes.

    returned: whether the sums of the weights are returned too. Raises ValueError if the weights
    do not fit.

    >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    x = a.astype(accumulator(a.dtype))
    if weights is None:
        total = broadcasted(count_over(a.shape, axis, None, x.dtype), ())
        out = reduce_sum(x, axis) / total
        total = broadcasted(total, out.shape)
    else:
        w = _along(weights.astype(x.dtype), a.shape, axis)
        total = reduce_sum(w, axis)
        out = reduce_sum(x * w, axis) / total
    out, total = (
        keep_dims(value.astype(a.dtype), a.shape, axis, keepdims) for value in (out, total)
    )
    return (out, total) if returned else out


def _along(w: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Weights of the axes, in their order, in the shape of the array."""
    if w.shape == shape:
        return w
    axes_shape = tuple(shape[d] for d in axes)
    if w.shape != axes_shape:
        raise WeftValueError(
            "the weights fit neither the array nor the axes",
            got=f"weights of shape {w.shape} for an array of shape {shape}, axes {axes}",
            wanted=f"shape {shape}" + (f" or {axes_shape}" if axes_shape != shape else ""),
        )
    order = tuple(sorted(axes))
    return broadcast_in_dim(transpose(w, [axes.index(d) for d in order]), shape, order)
