"""Sums, products and extrema over segments: the elements of an array that share an id.

`segment_ids` says of each row of `data` to which segment it belongs. The derivative of a product
takes each element's product with all others of its segment, by products from both sides over the
rows in the order of their segments, so that it is right where several elements are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft import config, dtypes
from weft.argument_errors import integer_of, refusal, refuse_sharding
from weft.arrays.array import Array
from weft.control_flow.associative_scan import associative_scan
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError, api_boundary
from weft.kinds.checks import check_flags, operands
from weft.kinds.compiled_functions import compiled
from weft.numpy.joining import static_array
from weft.numpy.sorting import argsort
from weft.numpy.taking import take
from weft.ops.elementwise.arithmetic import add, div, ge, lt, max, min, mul, ne
from weft.ops.elementwise.bits import bitwise_and, bitwise_or
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.gather import GatherScatterMode
from weft.ops.indexing.scatter import (
    ScatterDimensionNumbers,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.operand_errors import to_dtype
from weft.ops.reductions.reduce import highest, lowest, reduce_max, reduce_min, reduce_prod
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


class _Kind(NamedTuple):
    """A way to combine elements: the scatter, the reduction of several results, the identity."""

    name: str
    scatter: Callable[..., Any]
    reduce: Callable[..., Any]
    start: Callable[[Any], Any]
    accepts: frozenset[Any]


_KINDS = {
    kind.name: kind
    for kind in (
        _Kind("segment_sum", scatter_add, reduce_sum, lambda dtype: 0, dtypes.NUMERIC),
        _Kind("segment_prod", scatter_mul, reduce_prod, lambda dtype: 1, dtypes.NUMERIC),
        _Kind("segment_max", scatter_max, reduce_max, lowest, dtypes.ORDERED),
        _Kind("segment_min", scatter_min, reduce_min, highest, dtypes.ORDERED),
    )
}


@compiled
def _segments(
    data: Any,
    ids: Any,
    *,
    name: str,
    num_segments: int,
    flags: tuple[bool, bool],
    mode: GatherScatterMode,
    bucket_size: int | None,
) -> Any:
    """The combined elements of each segment; `flags`: the ids are sorted, and no two are equal."""
    kind, of, own = _KINDS[name], type_of(data), type_of(ids)
    rows = reshape(data, (own.size, *of.shape[own.ndim :]))
    ids = reshape(ids, (own.size,))
    if bucket_size is None or own.size <= bucket_size:
        return _scattered(kind, rows, ids, num_segments, flags, mode)
    buckets = -(-own.size // bucket_size)
    ids = _by_bucket(ids, num_segments, bucket_size, mode)
    found = _scattered(kind, rows, ids, buckets * num_segments, (False, flags[1]), mode)
    shape = type_of(found).shape
    return kind.reduce(reshape(found, (buckets, num_segments, *shape[1:])), (0,))


def _clipped(ids: Any, num_segments: int) -> Any:
    """The segment ids clipped to the segments that there are, for mode="clip"."""
    ids = convert_element_type(ids, dtypes.int64)
    return min(max(ids, dtypes.int64.type(0)), dtypes.int64.type(num_segments - 1))


def _by_bucket(ids: Any, num_segments: int, bucket_size: int, mode: GatherScatterMode) -> Any:
    """Segment ids that are different in every bucket of rows; -1 for ids out of bounds."""
    size, wide = type_of(ids).size, dtypes.int64
    ids = convert_element_type(ids, wide)
    zero, end = wide.type(0), wide.type(num_segments)
    if mode is GatherScatterMode.CLIP:
        ids = _clipped(ids, num_segments)
    bucket = mul(div(iota(wide, size), wide.type(bucket_size)), end)
    inside = bitwise_and(ge(ids, zero), lt(ids, end))
    outside = full((size,), -1, wide)
    return select(inside, add(ids, bucket), outside)


def _scattered(
    kind: _Kind,
    rows: Any,
    ids: Any,
    num_segments: int,
    flags: tuple[bool, bool],
    mode: GatherScatterMode,
) -> Any:
    of = type_of(rows)
    shape = (num_segments, *of.shape[1:])
    start = full(shape, kind.start(of.dtype), of.dtype)
    if not num_segments:
        return start
    numbers = ScatterDimensionNumbers(tuple(range(1, of.ndim)), (0,), (0,))

    def scatter(values: Any, ids: Any) -> Any:
        return kind.scatter(
            start,
            reshape(ids, (*type_of(ids).shape, 1)),
            values,
            numbers,
            indices_are_sorted=flags[0],
            unique_indices=flags[1],
            mode=mode,
        )

    if kind.scatter is not scatter_mul or of.dtype not in dtypes.INEXACT:
        return scatter(rows, ids)
    product = custom_jvp(scatter)

    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        values, ids = primals
        places = _clipped(ids, num_segments) if mode is GatherScatterMode.CLIP else ids
        changes = mul(tangents[0], _product_of_others(values, places))
        total = _scattered(_KINDS["segment_sum"], changes, ids, num_segments, flags, mode)
        return product(values, ids), total

    product.defjvp(derivative)
    return product(rows, ids)


def _product_of_others(rows: Any, ids: Any) -> Any:
    """For each row the product of all other rows of its segment."""
    size, shape = type_of(ids).size, type_of(rows).shape
    if not size:
        return rows
    order = argsort(ids, stable=True)
    rows, ids = take(rows, order, axis=0), take(ids, order)
    edge = full((1,), True, dtypes.bool_)
    change = ne(slice_in_dim(ids, 1, size), slice_in_dim(ids, 0, size - 1))
    first, last = concatenate([edge, change], 0), concatenate([change, edge], 0)
    both = mul(_products_before(rows, first, False), _products_before(rows, last, True))
    back = full((size,), 0, type_of(order).dtype)
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    places = reshape(order, (size, 1))
    back = scatter_add(back, places, iota(type_of(order).dtype, size), numbers)
    return take(both, back, axis=0) if shape else both


def _products_before(rows: Any, begins: Any, reverse: bool) -> Any:
    """For each row the product of the rows before it in its segment (after it with `reverse`)."""
    of, size = type_of(rows), type_of(begins).size
    ones = full((1, *of.shape[1:]), 1, of.dtype)
    # Each row is shifted by one, and 1 stands at the first of each segment.
    if reverse:
        moved = concatenate([slice_in_dim(rows, 1, size), ones], 0)
    else:
        moved = concatenate([ones, slice_in_dim(rows, 0, size - 1)], 0)
    begins = broadcast_in_dim(begins, of.shape, (0,))
    moved = select(begins, full(of.shape, 1, of.dtype), moved)

    def combine(before: Any, here: Any) -> Any:
        (product, _), (value, begun) = before, here
        joined = bitwise_or(before[1], begun)
        return select(begun, value, mul(product, value)), joined

    return associative_scan(combine, (moved, begins), reverse=reverse)[0]


def _check_operands(name: str, of: ArrayType, ids: ArrayType) -> None:
    if of.dtype not in _KINDS[name].accepts:
        message = f"{name} does not take data of {of.dtype}"
        wanted = ", ".join(sorted(d.name for d in _KINDS[name].accepts))
        wide = dtypes.float32 if of.dtype in dtypes.NARROW_FLOATING else dtypes.int32
        fix = to_dtype("data", of.dtype, wide)
        raise refusal(DTypeError, message, name, f"data {of}", wanted, fix)
    if ids.dtype not in dtypes.INTEGER:
        message = f"{name}: segment_ids are integers"
        got = f"segment_ids {ids}"
        fix = to_dtype("segment_ids", ids.dtype, dtypes.int32)
        raise refusal(DTypeError, message, name, got, "integers, one for each row of data", fix)
    if not ids.ndim or of.shape[: ids.ndim] != ids.shape:
        message = f"{name}: segment_ids has a number for each row of data"
        wanted = "segment_ids of the shape of the first dimension (or dimensions) of data"
        fix = Fix("reshape", f"pass segment_ids of shape {of.shape[:1]}")
        raise refusal(ShapeError, message, name, f"data {of} and segment_ids {ids}", wanted, fix)


def _count(name: str, segment_ids: Any, num_segments: Any) -> int:
    if num_segments is None:
        known = static_array(segment_ids, name, "num_segments (by default max(segment_ids) + 1)")
        return int(known.max(initial=-1).clip(-1)) + 1
    return _positive(name, "num_segments", num_segments, 0) or 0


def _positive(name: str, argument: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    number = integer_of(value, name, argument)
    if number < least:
        message = f"{name}: {argument} is {least} or more"
        got = f"{argument}={number}"
        fix = Fix("argument", f"leave out {argument}, or pass a larger one", {})
        raise refusal(WeftValueError, message, name, got, f"an integer from {least}", fix)
    return number


def _public(name: str, summary: str, empty: str, example: str) -> Callable[..., Array]:
    def function(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | GatherScatterMode | None = None,
        out_sharding: Any = None,
    ) -> Any:
        data, segment_ids = operands(name, data, segment_ids)
        refuse_sharding(name, out_sharding)
        flags = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices}
        check_flags(name, **flags)
        if config.lenient() and not type_of(data).ndim:
            # One number stands for the data of every id, as where `x.at[ids]` takes it.
            segment_ids = reshape(segment_ids, (type_of(segment_ids).size,))
            data = broadcast_in_dim(data, type_of(segment_ids).shape, ())
        _check_operands(name, type_of(data), type_of(segment_ids))
        return _segments(
            data,
            segment_ids,
            name=name,
            num_segments=_count(name, segment_ids, num_segments),
            flags=tuple(map(bool, flags.values())),
            mode=GatherScatterMode.from_any(mode),
            bucket_size=_positive(name, "bucket_size", bucket_size, 1),
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{summary}

    data: shape (n, ...); segment_ids: n integers (or more dimensions, those that data begins with);
    the result has shape (num_segments, ...) and the dtype of data. A segment without rows is
    {empty}.

    Args:
        num_segments: The number of segments; by default the largest number in `segment_ids` and
            one, which has to be known when the call is traced.
        indices_are_sorted: Whether the caller promises that `segment_ids` rise: this speeds it up.
        unique_indices: Whether the caller promises that no number occurs twice.
        bucket_size: The number of rows in groups that are combined first, which rounds less; None
            for no groups.
        mode: What becomes of numbers out of [0, num_segments): they are left out, or with "clip" go
            to the nearest segment.
        out_sharding: Must be None.

    Raises DTypeError, ShapeError, WeftValueError, and ConcretizationError for a number of segments
    that is not known.

    >>> weft.ops.{name}(jnp.array([3, 1, 2]), jnp.array([0, 2, 0]), num_segments=3)
    {example}
    """
    return api_boundary(function)


segment_sum = _public(
    "segment_sum", "Sums of the rows of each segment.", "0", "Array([5, 0, 1], dtype=int32)"
)
segment_prod = _public(
    "segment_prod", "Products of the rows of each segment.", "1", "Array([6, 1, 1], dtype=int32)"
)
segment_max = _public(
    "segment_max",
    "The largest element of each segment.",
    "the least number of the dtype (-inf)",
    "Array([          3, -2147483648,           1], dtype=int32)",
)
segment_min = _public(
    "segment_min",
    "The least element of each segment.",
    "the largest number of the dtype (inf)",
    "Array([         2, 2147483647,          1], dtype=int32)",
)
