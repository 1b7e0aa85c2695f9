"""Sums, products and extrema over segments: the elements of an array that share an id.

`segment_ids` says of each row of `data` to which segment it belongs. The derivative of a product
takes each element's product with all others of its segment, by products from both sides over the
rows in the order of their segments, so that it is right where several elements are zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from weft import config, dtypes
from weft.arrays.array import Array
from weft.control_flow.associative_scan import associative_scan
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, ShapeError
from weft.kinds.arguments import NEVER, Flag, NoSharding, Operand, Passed, Prepared, count_from
from weft.kinds.array_function import private_function, python_function
from weft.kinds.kind import Arguments, Kind
from weft.numpy.elementwise import maximum, minimum
from weft.numpy.joining import static_array
from weft.numpy.sorting import argsort
from weft.numpy.taking import take
from weft.ops.elementwise.arithmetic import div
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
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum

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


# ---- kinds ---------------------------------------------------------------------------------------


def _mode(value: Any, call: Arguments) -> GatherScatterMode:
    return GatherScatterMode.from_any(value)


Count = Annotated[int, count_from(0, use=None)]
BucketSize = Annotated[int, count_from(1, use=None)]
Mode = Annotated[Any, Kind(_mode, "a mode of scatters", ("text",), plain=NEVER)]


# ---- parts ---------------------------------------------------------------------------------------


@private_function
def _segments(
    data: Prepared, ids: Prepared, *, name: Passed, num_segments: Passed, flags: Passed, mode:
    Passed, bucket_size: Passed,
) -> Any:  # fmt: skip
    """Combines the elements of each segment; `flags`: the ids are sorted, and all different."""
    kind = _KINDS[name]
    rows, ids = data.reshape(ids.size, *data.shape[ids.ndim :]), ids.reshape(-1)
    if bucket_size is None or ids.size <= bucket_size:
        return _scatter_rows(kind, rows, ids, num_segments, flags, mode)
    buckets = -(-ids.size // bucket_size)
    ids = _by_bucket(ids, num_segments, bucket_size, mode)
    found = _scatter_rows(kind, rows, ids, buckets * num_segments, (False, flags[1]), mode)
    return kind.reduce(found.reshape(buckets, num_segments, *found.shape[1:]), (0,))


def _clip_ids(ids: Any, num_segments: int) -> Any:
    """Clips ids to the existing segments, for mode="clip"."""
    return minimum(maximum(ids.astype(dtypes.int64), 0), num_segments - 1)


def _by_bucket(ids: Any, num_segments: int, bucket_size: int, mode: GatherScatterMode) -> Any:
    """Makes segment ids different in every bucket of rows; -1 for ids out of bounds."""
    ids = ids.astype(dtypes.int64)
    if mode is GatherScatterMode.CLIP:
        ids = _clip_ids(ids, num_segments)
    bucket = div(iota(ids.dtype, ids.size), ids.dtype.type(bucket_size)) * num_segments
    inside = (ids >= 0) & (ids < num_segments)
    return select(inside, ids + bucket, full(ids.shape, -1, ids.dtype))


def _scatter_rows(
    kind: _Kind, rows: Any, ids: Any, num_segments: int, flags: tuple[bool, bool], mode: Any
) -> Any:
    start = full((num_segments, *rows.shape[1:]), kind.start(rows.dtype), rows.dtype)
    if not num_segments:
        return start
    numbers = ScatterDimensionNumbers(tuple(range(1, rows.ndim)), (0,), (0,))

    def scatter(values: Any, ids: Any) -> Any:
        return kind.scatter(
            start,
            ids.reshape(*ids.shape, 1),
            values,
            numbers,
            indices_are_sorted=flags[0],
            unique_indices=flags[1],
            mode=mode,
        )

    if kind.scatter is not scatter_mul or rows.dtype not in dtypes.INEXACT:
        return scatter(rows, ids)
    product = custom_jvp(scatter)

    def derivative(primals: Any, tangents: Any) -> tuple[Any, Any]:
        values, ids = primals
        places = _clip_ids(ids, num_segments) if mode is GatherScatterMode.CLIP else ids
        changes = tangents[0] * _product_of_others(values, places)
        total = _scatter_rows(_KINDS["segment_sum"], changes, ids, num_segments, flags, mode)
        return product(values, ids), total

    product.defjvp(derivative)
    return product(rows, ids)


def _product_of_others(rows: Any, ids: Any) -> Any:
    """For each row, the product of all other rows of its segment."""
    size = ids.size
    if not size:
        return rows
    order = argsort(ids, stable=True)
    rows, ids = take(rows, order, axis=0), take(ids, order)
    edge = full((1,), True, dtypes.bool_)
    change = slice_in_dim(ids, 1, size) != slice_in_dim(ids, 0, size - 1)
    first, last = concatenate([edge, change], 0), concatenate([change, edge], 0)
    both = _products_before(rows, first, False) * _products_before(rows, last, True)
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    back = full((size,), 0, order.dtype)
    back = scatter_add(back, order.reshape(size, 1), iota(order.dtype, size), numbers)
    return take(both, back, axis=0)


def _products_before(rows: Any, begins: Any, reverse: bool) -> Any:
    """For each row, the product of the earlier rows of its segment (later ones with `reverse`)."""
    size = begins.size
    ones = full((1, *rows.shape[1:]), 1, rows.dtype)
    # Each row is shifted by one, and 1 stands at the first of each segment.
    if reverse:
        moved = concatenate([slice_in_dim(rows, 1, size), ones], 0)
    else:
        moved = concatenate([ones, slice_in_dim(rows, 0, size - 1)], 0)
    begins = broadcast_in_dim(begins, rows.shape, (0,))
    moved = select(begins, full(rows.shape, 1, rows.dtype), moved)

    def combine(before: Any, here: Any) -> Any:
        (product, other), (value, begun) = before, here
        return select(begun, value, product * value), other | begun

    return associative_scan(combine, (moved, begins), reverse=reverse)[0]


def _check_operands(kind: _Kind, data: Any, ids: Any) -> None:
    if data.dtype not in kind.accepts:
        message, accepted = f"it does not take data of {data.dtype}", sorted(map(str, kind.accepts))
        wide = dtypes.float32 if data.dtype in dtypes.NARROW_FLOATING else dtypes.int32
        fix = to_dtype("data", data.dtype, wide)
        raise DTypeError(message, got=f"data {data.type}", wanted=", ".join(accepted), fix=fix)
    if ids.dtype not in dtypes.INTEGER:
        message, wanted = "segment_ids are integers", "integers, one for each row of data"
        fix = to_dtype("segment_ids", ids.dtype, dtypes.int32)
        raise DTypeError(message, got=f"segment_ids {ids.type}", wanted=wanted, fix=fix)
    if not ids.ndim or data.shape[: ids.ndim] != ids.shape:
        message, got = "segment_ids has a number for each row of data", f"data {data.type}"
        wanted = "segment_ids of the shape of the first dimension (or dimensions) of data"
        fix = Fix("reshape", f"pass segment_ids of shape {data.shape[:1]}")
        raise ShapeError(message, got=f"{got} and segment_ids {ids.type}", wanted=wanted, fix=fix)


# ---- functions -----------------------------------------------------------------------------------


def _public(name: str, summary: str, empty: str, example: str) -> Callable[..., Array]:
    def function(
        data: Operand, segment_ids: Operand, num_segments: Count | None = None, indices_are_sorted:
        Flag = False, unique_indices: Flag = False, bucket_size: BucketSize | None = None, mode:
        Mode = None, out_sharding: NoSharding = None,
    ) -> Array:  # fmt: skip
        if config.lenient() and not data.ndim:
            # One number stands for the data of every id, as where `x.at[ids]` takes it.
            segment_ids = segment_ids.reshape(-1)
            data = broadcast_in_dim(data, segment_ids.shape, ())
        _check_operands(_KINDS[name], data, segment_ids)
        count = num_segments
        if count is None:
            argument = "num_segments (by default max(segment_ids) + 1)"
            values = static_array(segment_ids, argument)
            count = int(values.max(initial=-1).clip(-1)) + 1
        flags = indices_are_sorted, unique_indices
        parameters = {"name": name, "num_segments": count, "flags": flags}
        return _segments(data, segment_ids, mode=mode, bucket_size=bucket_size, **parameters)

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
    return python_function(function)


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
