"""Rows of `ops.sorting`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, between, distinct, integers
from weft import dtypes
from weft.ops.reductions import sorting

SHAPE = (3, 5)


def sort_pair(x, y, **params):
    """`sort` of two operands."""
    return sorting.sort((x, y), **params)


def sort_three(x, y, z, **params):
    """`sort` of three operands."""
    return sorting.sort((x, y, z), **params)


def sorted_together(*operands, dimension=-1, is_stable=True, num_keys=1):
    order = np.lexsort([np.moveaxis(x, dimension, -1) for x in operands[:num_keys]][::-1], axis=-1)
    order = np.moveaxis(order, -1, dimension)
    return tuple(np.take_along_axis(x, order, dimension) for x in operands)


def largest(x, k, axis=-1):
    flipped = -x if x.dtype.kind == "f" else ~x
    places = np.argsort(flipped, axis=axis, kind="stable")
    places = np.take(places, range(k), axis=axis).astype(np.int32)
    return np.take_along_axis(x, places, axis), places


def largest_approximately(x, k, reduction_dimension=-1):
    return largest(x, k, reduction_dimension)


def smallest_approximately(x, k, reduction_dimension=-1):
    places = np.argsort(x, axis=reduction_dimension, kind="stable")
    places = np.take(places, range(k), axis=reduction_dimension).astype(np.int32)
    return np.take_along_axis(x, places, reduction_dimension), places


ONE = (Arg(SHAPE),)


def row(function, reference, accepts=dtypes.ANY, args=ONE, name="", **fields):
    fields = {"draw": distinct(), "ulps": 0, "elementwise": False, **fields}
    return Op(function, reference, accepts, args=args, name=name or function.__name__, **fields)


def with_nan(generator, shape, dtype):
    """Few different numbers, among them NaN of both signs, infinities and both zeros."""
    value = generator.integers(-1, 2, shape).astype(dtype)
    choices = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]
    odd = generator.choice(choices, shape).astype(dtype)
    return np.where(generator.uniform(size=shape) < 0.6, odd, value)


TIES = integers(0, 1)
PLACES = Arg(SHAPE, np.int32, distinct())
ROWS = [
    row(sorting.sort, lambda x: np.sort(x)),
    row(
        sorting.sort,
        lambda x, dimension: np.sort(x, dimension),
        name="sort of the first dimension",
        params={"dimension": 0},
    ),
    row(
        sorting.sort,
        lambda x: np.sort(x),
        dtypes.INEXACT,
        name="sort with NaN",
        args=(Arg((2, 40)),),
        draw=with_nan,
        order=0,
        refuses=False,
    ),
    row(sort_pair, sorted_together, args=(Arg(SHAPE), PLACES), draw=TIES, order=0, weak=None),
    row(
        sort_pair,
        sorted_together,
        dtypes.INEXACT,
        name="sort_pair with NaN",
        draw=with_nan,
        order=0,
        args=(Arg((2, 40)), Arg((2, 40), np.int64, distinct())),
        weak=None,
        refuses=False,
    ),
    row(
        sort_pair,
        sorted_together,
        name="sort_pair of the first dimension",
        params={"dimension": 0},
        args=(Arg(SHAPE), Arg(SHAPE)),
        weak=None,
    ),
    row(
        sort_three,
        sorted_together,
        name="sort_three by two keys",
        params={"num_keys": 2},
        args=(Arg(SHAPE, np.int8, TIES), Arg(SHAPE), Arg(SHAPE)),
        weak=None,
    ),
    row(
        sort_three,
        sorted_together,
        name="sort_three of unsigned keys",
        order=0,
        weak=None,
        args=(Arg(SHAPE, np.uint32, between(0, 2.0**32 - 1)), Arg(SHAPE), Arg(SHAPE, np.bool_)),
    ),
    row(sorting.sort_key_val, sorted_together, args=(Arg(SHAPE), Arg(SHAPE)), weak=None),
    row(sorting.top_k, largest, dtypes.ORDERED, params={"k": 2}, weak=None),
    row(
        sorting.top_k,
        largest,
        dtypes.ORDERED,
        name="top_k of the first axis with ties",
        weak=None,
        params={"k": 2, "axis": 0},
        draw=TIES,
        order=0,
    ),
    row(
        sorting.approx_max_k,
        largest_approximately,
        dtypes.ORDERED,
        weak=None,
        params={"k": 3, "reduction_dimension": 1},
        refuses=False,
    ),
    row(
        sorting.approx_min_k,
        smallest_approximately,
        dtypes.FLOATING,
        weak=None,
        params={"k": 3, "reduction_dimension": 0},
        refuses=False,
    ),
]
