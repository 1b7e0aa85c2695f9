"""Covariance and histograms: cov, corrcoef, histogram, bincount."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, invalid_value, refusal, refuse_sharding
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ConcretizationError, DTypeError, Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    broadcasted,
    check_flag,
    check_flags,
    convert,
    expanded,
    inexact,
    length_of,
    operand,
    operands,
    promoted,
    sequence_of,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import promote_operands
from weft.numpy.choosing import known
from weft.numpy.creation import asarray
from weft.numpy.joining import concatenate, static_array
from weft.numpy.nan_reductions import is_nan
from weft.numpy.searching import searchsorted
from weft.ops.elementwise.arithmetic import add, div, eq, gt, lt, mul, sqrt, sub
from weft.ops.elementwise.arithmetic import max as larger
from weft.ops.elementwise.arithmetic import min as smaller
from weft.ops.elementwise.bits import bitwise_not, bitwise_or
from weft.ops.elementwise.complex import complex, conj, imag, real
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.rounding import RoundingMethod, round
from weft.ops.elementwise.selection import select
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import iota
from weft.ops.indexing.scatter import ScatterDimensionNumbers, scatter_add
from weft.ops.linalg.matrices import diagonal
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import dot_general
from weft.ops.reductions.reduce import reduce_max, reduce_min
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from weft.typing import ArrayLike

__all__ = [
    "bincount", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
]  # fmt: skip


@compiled
def _cov(x: Any, *weights: Any, by_columns: bool, ddof: int, reliable: bool) -> Any:
    """`reliable`: the last of the weights are those of `aweights`."""
    target = inexact(type_of(x).dtype)
    dtype = accumulator(target)
    x = convert(x, dtype)
    x = _rows(x, not by_columns)
    n, m = type_of(x).shape
    w = functools.reduce(mul, [convert(v, dtype) for v in weights]) if weights else None
    if w is None:
        total, weighted = dtype.type(m), x
        factor: Any = dtype.type(max(m - ddof, 0))
    else:
        total = reduce_sum(w, (0,))
        weighted = mul(x, broadcast_in_dim(w, (n, m), (1,)))
        factor = sub(total, dtype.type(ddof))
        if reliable and ddof:
            squares = reduce_sum(mul(w, convert(weights[-1], dtype)), (0,))
            factor = sub(total, div(mul(dtype.type(ddof), squares), total))
    mean = div(reduce_sum(weighted, (1,)), total)
    x = sub(x, expanded(mean, (n, m), (1,)))
    y = x if w is None else mul(x, broadcast_in_dim(w, (n, m), (1,)))
    y = conj(y) if dtype in dtypes.COMPLEX else y
    out = convert(div(dot_general(x, y, (((1,), (1,)), ((), ()))), factor), target)
    return reshape(out, ()) if n == 1 else out


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Array:
    """The covariance matrix of variables, which are the rows of `m` (and of `y`).

    rowvar: whether the rows are the variables; otherwise the columns are. bias: divide by the
    number of observations and not by one less. ddof: how many less, whatever bias says. fweights,
    aweights: how often each observation occurs, and its weight. dtype: to compute in.

    >>> jnp.cov(jnp.array([[1.0, 3.0], [2.0, 0.0]]))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float32)
    """
    check_flags("cov", rowvar=rowvar, bias=bias)
    m, y = _in_dtype(dtype, m, y)
    m = operand("cov", m)
    if type_of(m).ndim > 2:
        raise ShapeError("cov takes at most two dimensions", operation="cov", got=str(type_of(m)))
    x = m
    if y is not None:
        y = operand("cov", y)
        parts = [_rows(v, rowvar) for v in promoted("cov", m, y)]
        x, rowvar = concatenate(parts, 0), True
    weights = []
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        w = operand("cov", w)
        observations = type_of(x).shape[-1 if rowvar or type_of(x).ndim < 2 else 0]
        if type_of(w).shape != (observations,):
            message = f"cov: {name} does not fit"
            raise refusal(ShapeError, message, "cov", str(type_of(w)), f"shape ({observations},)")
        weights.append(w)
    degrees = (0 if bias else 1) if ddof is None else integer_of(ddof, "cov", "ddof")
    reliable = aweights is not None
    return _cov(x, *weights, by_columns=not rowvar, ddof=degrees, reliable=reliable)


def _in_dtype(dtype: Any, *values: Any) -> Sequence[Any]:
    """The values in a dtype; all as they are where none is given."""
    if dtype is None:
        return values
    return [None if x is None else asarray(x, dtype) for x in values]


def _rows(x: Any, rowvar: bool) -> Any:
    of = type_of(x)
    if of.ndim < 2:
        return reshape(x, (1, of.size))
    return x if rowvar else transpose(x, (1, 0))


@compiled
def _corrcoef(c: Any) -> Any:
    of = type_of(c)
    if not of.ndim:
        return div(c, c)
    n = of.shape[0]
    deviation = sqrt(real_part(diagonal(c)))
    real_dtype = dtypes.to_real(of.dtype)
    outer = mul(*[broadcast_in_dim(deviation, (n, n), (d,)) for d in (0, 1)])
    one = real_dtype.type(1)
    if of.dtype in dtypes.COMPLEX:
        return complex(*[_between(div(part(c), outer), one) for part in (real, imag)])
    return _between(div(c, outer), one)


def real_part(x: Any) -> Any:
    """The real part of complex numbers; real numbers as they are."""
    return real(x) if type_of(x).dtype in dtypes.COMPLEX else x


def _between(x: Any, one: Any) -> Any:
    return smaller(larger(x, -one), one)


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: Any = None
) -> Array:
    """The correlation coefficients of variables, which are the rows of `x` (and of `y`).

    x: shape (n, m), n variables of m observations. rowvar: whether the rows are the variables;
    otherwise the columns are. The result is (n, n), real or complex, computed in `dtype`. Raises
    ShapeError for more than two dimensions.

    >>> jnp.corrcoef(jnp.array([[1.0, 2.0], [2.0, 1.0]])).round(2)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    check_flag(rowvar, "corrcoef", "rowvar")
    return _corrcoef(cov(x, y, rowvar, dtype=dtype))


@compiled
def _bincount(x: Any, *weights: Any, length: int) -> Any:
    n = type_of(x).shape[0]
    values = weights[0] if weights else broadcasted(dtypes.default_int().type(1), (n,))
    dtype = type_of(values).dtype
    index = x if type_of(x).dtype.itemsize >= 4 else convert(x, np.dtype(np.int32))
    if type_of(index).dtype in dtypes.SIGNED:
        index = larger(index, type_of(index).dtype.type(0))
    zeros = broadcasted(dtype.type(0), (length,))
    if not length:
        return zeros
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    return scatter_add(zeros, reshape(index, (n, 1)), convert(values, dtype), numbers, mode="drop")


def bincount(
    x: ArrayLike,
    weights: Any = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: None = None,
) -> Array:
    """How often each number from 0 on occurs in an array of integers that are not negative.

    weights: summed instead of counting; minlength: the least length of the result; length: exactly
    its length, needed where `x` is traced: larger numbers are left out, negative ones count as 0.

    >>> jnp.bincount(jnp.array([0, 2, 2, 3]))
    Array([1, 0, 2, 1], dtype=int32)
    """
    refuse_sharding("bincount", out_sharding)
    x = operand("bincount", x)
    of = type_of(x)
    if of.dtype not in dtypes.INTEGER | dtypes.BOOLEAN:
        message = f"bincount takes integers, not {dtypes.short_name(of.dtype)}"
        fix = to_dtype("x", of.dtype, dtypes.int32)
        raise refusal(DTypeError, message, "bincount", f"x: {of}", "an integer dtype", fix)
    if of.ndim != 1:
        message = "bincount takes one dimension"
        fix = Fix("ravel", "flatten it: x.reshape(-1)", {})
        raise refusal(ShapeError, message, "bincount", f"x: {of}", "shape (n,)", fix)
    if length is None:
        value = known(x, "bincount", "pass length=, the length of the result")
        count = max(int(value.max()), 0) + 1 if value.size else 0
        size = max(length_of(minlength, "bincount", "minlength"), count)
    else:
        size = length_of(length, "bincount", "length")
    return _bincount(x, *_weights("bincount", "x", x, weights), length=size)


def _weights(operation: str, name: str, x: Any, weights: Any) -> list[Any]:
    """A list of the weights, empty without. Raises ShapeError unless they have the shape of x."""
    if weights is None:
        return []
    weights = operand(operation, weights)
    given, of = type_of(weights), type_of(x)
    if given.shape != of.shape:
        message = f"{operation}: weights and {name} have different shapes"
        raise refusal(ShapeError, message, operation, f"{given} and {of}")
    return [weights]


@compiled
def _edges(a: Any, *ends: Any, bins: int) -> Any:
    dtype = inexact(type_of(a).dtype)
    if ends:
        low, high = (convert(end, dtype) for end in ends)
    elif type_of(a).size:
        x = reshape(convert(a, dtype), (type_of(a).size,))
        low, high = reduce_min(x, (0,)), reduce_max(x, (0,))
    else:
        low, high = dtype.type(0), dtype.type(1)
    level = eq(high, low)
    half = dtype.type(0.5)
    low, high = select(level, sub(low, half), low), select(level, add(high, half), high)
    place = iota(np.int32, bins + 1)
    # The width first, as in NumPy: edges that are whole numbers come out exact, and elements that
    # lie on them fall into the bin above.
    span, number = sub(high, low), dtype.type(bins)
    width = div(span, number)
    # Compilers multiply by the inverse of a constant, which may be a unit off: a round width that
    # fits is the right one.
    parts = dtype.type(256)
    near = div(round(mul(width, parts), RoundingMethod.TO_NEAREST_EVEN), parts)
    off = select(eq(mul(near, number), span), sub(near, width), broadcasted(dtype.type(0), ()))
    width = add(width, stop_gradient(off))
    edges = add(mul(convert(place, dtype), width), low)
    # The last edge is set exactly, without the rounding of the line above: the greatest element
    # belongs to the last bin.
    return select(eq(place, np.int32(bins)), broadcasted(high, (bins + 1,)), edges)


def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: Any = None
) -> Array:
    """The edges of bins: of `bins` equal ones from the least to the greatest element, or `range`.

    bins: a number, the edges themselves, or a rule for how many there are, by NumPy's names
    ("auto", "fd", "sturges" …), for which the values have to be known. weights: without effect, and
    not taken with a rule.

    >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), bins=2)
    Array([0., 2., 4.], dtype=float32)
    """
    a = operand("histogram_bin_edges", a)
    if weights is not None:
        weights = operand("histogram_bin_edges", weights)
    if range is not None and len(sequence_of(range, "histogram_bin_edges", "range")) != 2:
        message = "histogram_bin_edges: range is a pair"
        raise invalid_value(message, "histogram_bin_edges", "range", range, "(low, high)")
    if range is not None and _is_known(*range) and float(range[0]) > float(range[1]):
        message = "histogram_bin_edges: the range ends before it starts"
        fix = Fix("range", "swap the ends", {})
        raise invalid_value(message, "histogram_bin_edges", "range", range, "low <= high", fix=fix)
    if isinstance(bins, str):
        return _edges_by_rule(a, bins, range, weights)
    if isinstance(bins, (list, tuple)):
        bins = np.asarray(bins)
    if getattr(bins, "ndim", 0) == 1:
        return asarray(bins, dtype=inexact(type_of(bins).dtype))
    count = integer_of(bins, "histogram_bin_edges", "bins")
    if count < 1:
        message = "histogram: the number of bins is not positive"
        raise refusal(WeftValueError, message, "histogram", f"{count}")
    return _edges(a, *(() if range is None else range), bins=count)


def _edges_by_rule(a: Any, rule: str, ends: Any, weights: Any) -> Any:
    """The edges that NumPy chooses by a rule, from values that are known."""
    operation = "histogram_bin_edges"
    if isinstance(a, Tracer):
        why = f"how many bins {rule!r} makes depends on values"
        message = f"{operation}: {why}, which are not known while a function is traced"
        got, wanted = str(type_of(a)), "a number of bins, or their edges"
        fix = Fix("argument", "pass bins=10", {})
        raise refusal(ConcretizationError, message, operation, got, wanted, fix)
    if weights is not None or rule not in _RULES:
        message = f"{operation}: bins is a number, an array of edges or a rule, without weights"
        got = f"bins={rule!r}" + ("" if weights is None else " with weights")
        raise refusal(WeftValueError, message, operation, got, ", ".join(_RULES))
    found = np.histogram_bin_edges(np.asarray(a), rule, ends)
    return asarray(found, dtype=inexact(type_of(a).dtype))


_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def _is_known(*values: Any) -> bool:
    return not any(isinstance(value, Tracer) for value in values)


@compiled
def _histogram(a: Any, edges: Any, *weights: Any, density: bool) -> Any:
    dtype = inexact(dtypes.promote_types(type_of(a).dtype, type_of(edges).dtype))
    n, bins = type_of(a).size, type_of(edges).shape[0] - 1
    if bins < 1:
        return broadcasted(type_of(weights[0] if weights else edges).dtype.type(0), (0,))
    x, edges = convert(reshape(a, (n,)), dtype), convert(edges, dtype)
    counts = _counted(*_bin_of(x, edges), [reshape(w, (n,)) for w in weights], bins, dtype)
    if not density:
        return counts
    counts = convert(counts, dtype)
    return div(div(counts, _widths(edges)), reduce_sum(counts, (0,)))


def _widths(edges: Any) -> Any:
    return sub(slicing.slice_in_dim(edges, 1, None), slicing.slice_in_dim(edges, 0, -1))


def _counted(index: Any, inside: Any, weights: Sequence[Any], size: int, dtype: Any) -> Any:
    """The sums of the weights (by default of ones) of the values inside, by their index."""
    n = type_of(index).shape[0]
    values = weights[0] if weights else broadcasted(dtype.type(1), (n,))
    zero = type_of(values).dtype.type(0)
    values = select(inside, values, broadcasted(zero, (n,)))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    zeros = broadcasted(zero, (size,))
    return scatter_add(zeros, reshape(index, (n, 1)), values, numbers, mode="drop")


def _bin_of(x: Any, edges: Any) -> tuple[Any, Any]:
    """The number of the bin of each value, and whether it is in one; the last one is closed."""
    bins = type_of(edges).shape[0] - 1
    first, last = (reshape(slicing.slice(edges, (i,), (i + 1,)), ()) for i in (0, bins))
    place = sub(searchsorted(edges, x, "right"), np.int32(1))
    index = smaller(larger(place, np.int32(0)), np.int32(bins - 1))
    outside = bitwise_or(bitwise_or(lt(x, first), gt(x, last)), is_nan(x))
    return index, bitwise_not(outside)


def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
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
    check_flag(density, "histogram", "density", none=True)
    a = operand("histogram", a)
    edges = histogram_bin_edges(a, bins, range, weights)
    extra = _weights("histogram", "a", a, weights)
    return _histogram(a, edges, *extra, density=bool(density)), edges


def _column(sample: Any, d: int) -> Any:
    column = slicing.slice_in_dim(sample, d, d + 1, axis=1)
    return reshape(column, (type_of(sample).shape[0],))


@compiled
def _histogramdd(sample: Any, *rest: Any, dims: int, density: bool) -> Any:
    edges, weights = rest[:dims], rest[dims:]
    n = type_of(sample).shape[0]
    shape = tuple(type_of(e).shape[0] - 1 for e in edges)
    dtype = inexact(type_of(sample).dtype)
    flat = broadcasted(np.int32(0), (n,))
    inside = broadcasted(np.bool_(True), (n,))
    for d, edge in enumerate(edges):
        index, within = _bin_of(convert(_column(sample, d), dtype), convert(edge, dtype))
        flat = add(mul(flat, np.int32(shape[d])), index)
        inside = bitwise_not(bitwise_or(bitwise_not(inside), bitwise_not(within)))
    counts = reshape(_counted(flat, inside, weights, prod(shape), dtype), shape)
    if not density:
        return counts
    counts = convert(counts, dtype)
    counts = div(counts, reduce_sum(counts, tuple(range(dims))))
    for d, edge in enumerate(edges):
        counts = div(counts, broadcast_in_dim(_widths(convert(edge, dtype)), shape, (d,)))
    return counts


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None
) -> tuple[Array, list[Array]]:
    """How many points, the rows of `sample`, fall into each cell of a grid, and the grid's edges.

    bins: a number for all dimensions, or a sequence of a number or edges for each; range: (low,
    high) for each. weights: of shape (n,), summed instead of counting. density: whether the counts
    are divided by the cells' volumes and the total.

    >>> jnp.histogramdd(jnp.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_flag(density, "histogramdd", "density", none=True)
    sample = operand("histogramdd", sample)
    if type_of(sample).ndim != 2 or not type_of(sample).shape[1]:
        message = "histogramdd takes a matrix with columns"
        raise refusal(ShapeError, message, "histogramdd", str(type_of(sample)))
    dims = type_of(sample).shape[1]
    each: Sequence[Any] = bins if isinstance(bins, (list, tuple)) else [bins] * dims
    ranges = None if range is None else sequence_of(range, "histogramdd", "range")
    if len(each) != dims or (ranges is not None and len(ranges) != dims):
        raise WeftValueError(
            f"histogramdd needs bins and range for {dims} dimensions", operation="histogramdd"
        )
    edges = [
        histogram_bin_edges(_column(sample, d), rule, None if range is None else range[d])
        for d, rule in enumerate(each)
    ]
    extra = () if weights is None else operands("histogramdd", weights)
    return _histogramdd(sample, *edges, *extra, dims=dims, density=bool(density)), edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: Any = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """How many points (x, y) fall into each cell of a grid, and the edges along both axes.

    bins: a number or edges for both axes, or a pair of these; range: a pair (low, high) for each
    axis, by default the least and the greatest coordinate; weights: of shape (n,), summed instead
    of counting; density: whether the counts are divided by the cells' areas and the total.

    >>> jnp.histogram2d(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]), bins=2)[0]
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_flag(density, "histogram2d", "density", none=True)
    x, y = promote_operands("histogram2d", x, y)
    if type_of(x).ndim != 1 or type_of(x).shape != type_of(y).shape:
        raise ShapeError(
            "histogram2d takes x and y of one dimension and length", operation="histogram2d"
        )
    if isinstance(bins, (list, tuple)):
        pair = list(bins) if len(bins) == 2 else [np.asarray(bins)] * 2
    elif getattr(bins, "ndim", 0) == 1:
        pair = [static_array(bins, "histogram2d", "bins")] * 2
    else:
        pair = [bins, bins]
    n = type_of(x).shape[0]
    x, y = promoted("histogram2d", x, y)
    sample = concatenate([reshape(x, (n, 1)), reshape(y, (n, 1))], 1)
    counts, edges = histogramdd(sample, pair, range, weights, density)
    return counts, edges[0], edges[1]
