"""The checks of `checkify` for single operations: NaNs, zero divisors, indices out of bounds.

An operation that only passes elements on, or chooses among them, makes no NaN and is not checked
for one; one that holds a function is checked by what is inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import source as sources
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values
from weft.core.types import ArrayType, type_of
from weft.experimental.checkify.check_trace import CheckTrace, check_p, operation_rule
from weft.experimental.checkify.failures import (
    DivisionByZeroError,
    ErrorCategory,
    Form,
    NaNError,
    OOBError,
    Site,
    at_site,
)
from weft.ops.elementwise.arithmetic import div_p, eq, gt, lt, ne
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.dynamic_slicing import (
    dynamic_index_in_dim,
    dynamic_slice_p,
    dynamic_update_slice_p,
)
from weft.ops.indexing.gather import gather_p
from weft.ops.indexing.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
    window_sizes,
)
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.reductions.argreduce import argmax
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.shape import reshape


def check_operation(trace: CheckTrace, primitive: Primitive, args: Values, params: Params) -> Any:
    """Applies any other primitive with its checks."""
    if primitive is check_p:
        return discharge(trace, args, **params)
    categories = trace.categories
    if primitive is div_p and DivisionByZeroError in categories:
        zero = type_of(args[1]).dtype.type(0)
        record(trace, DivisionByZeroError, (), anywhere(eq(args[1], zero)))
    out = primitive.bind(*args, **params)
    if primitive in INDEXED and OOBError in categories:
        check_bounds(trace, primitive, args, params)
    if NaNError in categories and not primitive.facts.makes_no_nan:
        outs = out if primitive.multiple_results else [out]
        floats = [x for x in outs if type_of(x).dtype in dtypes.INEXACT]
        if floats:
            failed = anywhere(ne(floats[0], floats[0]))
            for x in floats[1:]:
                failed = bitwise_or(failed, anywhere(ne(x, x)))
            record(trace, NaNError, (primitive.name,), failed)
    return out


operation_rule.append(check_operation)


def discharge(trace: CheckTrace, leaves: Values, form: Form, debug: bool) -> list[Any]:
    """Records a user's check if its category is selected; drops it otherwise."""
    trace.add(form.failure(leaves).limit_to(form.only(trace.categories)))
    return []


def record(
    trace: CheckTrace,
    category: ErrorCategory,
    details: tuple[Any, ...],
    failed: Any,
    values: Sequence[Any] = (),
) -> None:
    """Records a failure here if the scalar `failed` holds."""
    types = tuple(ArrayType(type_of(x).shape, type_of(x).dtype) for x in values)
    where = sources.describe(sources.current())
    trace.add(at_site(Site(category, details, None, types, where), failed, values))


def anywhere(flags: Any) -> Any:
    """Whether any element is set."""
    return reduce_or(flags, range(type_of(flags).ndim)) if type_of(flags).shape else flags


# ---- indices -------------------------------------------------------------------------------------

SCATTERS = frozenset(
    {scatter_add_p, scatter_max_p, scatter_min_p, scatter_mul_p, scatter_p, scatter_sub_p}
)
INDEXED = SCATTERS | {gather_p, dynamic_slice_p, dynamic_update_slice_p}


def check_bounds(trace: CheckTrace, primitive: Primitive, args: Values, params: Params) -> None:
    """Records the first index that is out of bounds."""
    shape = type_of(args[0]).shape
    if primitive is dynamic_slice_p:
        positions, sizes, axes = list(args[1:]), params["slice_sizes"], range(len(shape))
    elif primitive is dynamic_update_slice_p:
        positions, sizes, axes = list(args[2:]), type_of(args[1]).shape, range(len(shape))
    else:
        numbers = params["dimension_numbers"]
        positions, axes = columns(args[1]), numbers[2]
        if primitive is gather_p:
            sizes = params["slice_sizes"]
        else:
            sizes = window_sizes(shape, type_of(args[2]).shape, numbers)
    ends = [(p, axis, shape[axis] - sizes[axis]) for p, axis in zip(positions, axes, strict=True)]
    # Where a dimension is taken whole the position is a constant.
    rows = [end for end in ends if not _is_inside(end[0], end[2])]
    if rows and 0 not in type_of(rows[0][0]).shape:
        record_outside(trace, shape, rows)


def _is_inside(position: Any, last: int) -> bool:
    """Whether a position is a known number within bounds."""
    return isinstance(position, (int, np.generic)) and 0 <= int(position) <= last


def columns(indices: Any) -> list[Any]:
    """The positions along each indexed dimension, in one list, from index vectors."""
    *batch, count = type_of(indices).shape
    rows = [slice_in_dim(indices, i, i + 1, axis=-1) for i in range(count)]
    return [reshape(row, (prod(batch),)) for row in rows]


def record_outside(
    trace: CheckTrace, shape: tuple[int, ...], rows: Sequence[tuple[Any, int, int]]
) -> None:
    """Records the first position outside [0, last], given positions, axis and last position of each
    indexed dimension."""
    marks = [outside(position, last) for position, _, last in rows]
    every = marks[0]
    for mark in marks[1:]:
        every = bitwise_or(every, mark)
    place = argmax(every, 0, dtypes.int32) if type_of(every).shape else None

    def there(x: Any) -> Any:
        return x if place is None else dynamic_index_in_dim(x, place, keepdims=False)

    index: Any = np.int32(0)
    axis: Any = np.int32(0)
    for mark, (position, own, _) in reversed(list(zip(marks, rows, strict=True))):
        found = convert_element_type(there(position), dtypes.int32)
        index = select(there(mark), found, index)
        axis = select(there(mark), np.int32(own), axis)
    size: Any = np.int32(0)
    for _, own, _ in rows:
        size = select(eq(axis, np.int32(own)), np.int32(shape[own]), size)
    record(trace, OOBError, (shape,), anywhere(every), [index, axis, size])


def outside(position: Any, last: int) -> Any:
    """Whether positions are below 0 or beyond the last one, elementwise."""
    of = type_of(position).dtype
    below = lt(position, of.type(0))
    if last > np.iinfo(of).max:
        return below
    return bitwise_or(below, gt(position, of.type(last)))
