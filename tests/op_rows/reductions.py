"""Rows of `ops.reduce`, `ops.argreduce`, `ops.cumulative`, `ops.window` and `control.reduction`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, between, distinct, integers
from weft import dtypes, lax
from weft.control_flow import reduction
from weft.ops.reductions import argreduce, cumulative, reduce
from weft.ops.reductions import window as window_ops
from weft.ops.structural.shape import reduce_sum

SHAPE = (2, 3, 4)


def row(function, reference, accepts, name="", shape=SHAPE, **fields):
    fields = {"draw": distinct(), "ulps": 0, **fields}
    name = name or function.__name__
    return Op(
        function, reference, accepts, name=name, args=(Arg(shape),), elementwise=False, **fields
    )


# ---- over axes ---------------------------------------------------------------------------------


def lexicographic(pick):
    """The extremum of real or complex numbers over axes; `pick` is -1 for the largest."""

    def reference(x, axes):
        if not np.iscomplexobj(x):
            return (x.max if pick else x.min)(axis=axes)
        flat = np.moveaxis(x, axes, range(len(axes)))
        flat = flat.reshape(-1, *flat.shape[len(axes) :])
        return np.sort(flat, axis=0)[pick]

    return reference


def product(x, axes):
    return np.prod(x, axis=axes, dtype=x.dtype)


def bitwise(ufunc):
    return lambda x, axes: ufunc.reduce(x, axis=axes)


def with_zeros(generator, shape, dtype):
    """Small numbers, of which about a third are zero."""
    value = between(0.5, 2)(generator, shape, dtype)
    return np.where(generator.uniform(size=shape) < 0.3, np.zeros_like(value), value)


SOME, ALL, NONE = {"axes": (0, 2)}, {"axes": (0, 1, 2)}, {"axes": ()}
OVER_AXES = [
    row(
        reduce_sum,
        lambda x, axes: x.sum(axes, x.dtype),
        dtypes.NUMERIC,
        params=SOME,
        ulps=4,
        floor=4,
    ),
    row(reduce.reduce_max, lexicographic(-1), dtypes.ANY, params=SOME),
    row(reduce.reduce_max, lexicographic(-1), dtypes.ANY, "reduce_max of all", params=ALL),
    row(
        reduce.reduce_max,
        lambda x, axes: x,
        dtypes.ANY,
        "reduce_max of none",
        params=NONE,
        refuses=False,
    ),
    row(reduce.reduce_min, lexicographic(0), dtypes.ANY, params=SOME),
    row(
        reduce.reduce_min, lexicographic(0), dtypes.ANY, "reduce_min of one", params={"axes": (1,)}
    ),
    row(
        reduce.reduce_prod,
        product,
        dtypes.NUMERIC,
        params=SOME,
        draw=between(0.5, 2),
        ulps=8,
        floor=1,
    ),
    row(
        reduce.reduce_prod,
        product,
        dtypes.NUMERIC,
        "reduce_prod with zeros",
        shape=(3, 4),
        params={"axes": (0,)},
        draw=with_zeros,
        ulps=8,
        floor=1,
    ),
    row(
        reduce.reduce_prod,
        product,
        dtypes.NUMERIC,
        "reduce_prod of an odd length",
        shape=(5, 2),
        params={"axes": (0,)},
        draw=between(0.5, 2),
        ulps=8,
        floor=1,
    ),
    row(reduce.reduce_and, bitwise(np.bitwise_and), dtypes.BITS, params=SOME),
    row(reduce.reduce_or, bitwise(np.bitwise_or), dtypes.BITS, params=SOME),
    row(reduce.reduce_xor, bitwise(np.bitwise_xor), dtypes.BITS, params=SOME),
]


# ---- positions ---------------------------------------------------------------------------------


def position(pick):
    return lambda x, axis, index_dtype: pick(x, axis).astype(index_dtype)


POSITIONS = [
    row(
        function,
        position(reference),
        dtypes.ORDERED,
        f"{function.__name__} {axis} {index.__name__}",
        params={"axis": axis, "index_dtype": index},
        draw=draw,
        order=0,
        weak="strong",
    )
    for function, reference in ((argreduce.argmax, np.argmax), (argreduce.argmin, np.argmin))
    for axis, index, draw in ((0, np.int32, distinct()), (-1, np.uint8, integers(0, 1)))
]


# ---- cumulative --------------------------------------------------------------------------------


def accumulate(function):
    """`function.accumulate`, in the direction asked for and in the operand's dtype."""

    def reference(x, axis, reverse=False):
        x = np.flip(x, axis) if reverse else x
        out = function.accumulate(x, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    return reference


def cumulative_rows(function, reference, accepts, **fields):
    forwards = {"axis": 1, "reverse": False}
    backwards = {"axis": -1, "reverse": True}
    return [
        row(function, reference, accepts, function.__name__, params=forwards, **fields),
        row(
            function,
            reference,
            accepts,
            f"{function.__name__} reversed",
            params=backwards,
            **fields,
        ),
        row(
            function,
            reference,
            accepts,
            f"{function.__name__} of one element",
            shape=(1, 2),
            params={"axis": 0},
            **fields,
        ),
        row(
            function,
            reference,
            accepts,
            f"{function.__name__} of none",
            shape=(0, 2),
            params={"axis": 0},
            **fields | {"order": 0},
        ),
    ]


def recurrence(a, b, axis, reverse=False):
    a, b = (np.flip(x, axis) if reverse else x for x in (a, b))
    a, b = (np.moveaxis(x, axis, 0) for x in (a, b))
    out = np.zeros_like(b)
    for i in range(len(b)):
        out[i] = b[i] + (a[i] * out[i - 1] if i else 0)
    out = np.moveaxis(out, 0, axis)
    return np.flip(out, axis) if reverse else out


REALS = dtypes.REAL
CUMULATIVE = [
    *cumulative_rows(
        cumulative.cumsum, accumulate(np.add), dtypes.NUMERIC, draw=between(-3, 3), ulps=1, floor=1
    ),
    *cumulative_rows(
        cumulative.cumprod,
        accumulate(np.multiply),
        dtypes.NUMERIC,
        draw=between(0.5, 2),
        ulps=1,
        floor=1,
    ),
    *cumulative_rows(
        cumulative.cumlogsumexp,
        accumulate(np.logaddexp),
        dtypes.FLOATING,
        draw=between(-3, 3),
        ulps={np.dtype(np.float64): 4, None: 1},
        floor=1,
    ),
    row(
        cumulative.cumlogsumexp,
        accumulate(np.logaddexp),
        dtypes.FLOATING,
        "cumlogsumexp of large",
        params={"axis": 2},
        draw=between(-300, 300),
        ulps={np.dtype(np.float64): 4, None: 1},
        floor=1,
    ),
    row(
        cumulative.cumprod,
        accumulate(np.multiply),
        dtypes.NUMERIC,
        "cumprod with zeros",
        shape=(3, 5),
        params={"axis": 1},
        draw=with_zeros,
        ulps=1,
        floor=1,
    ),
    Op(
        cumulative.linear_recurrence,
        recurrence,
        dtypes.NUMERIC,
        args=(Arg(SHAPE), Arg(SHAPE)),
        params={"axis": 2, "reverse": True},
        draw=between(-2, 2),
        ulps=2,
        floor=4,
        elementwise=False,
    ),
]
CUMULATIVE += [
    made
    for function, ufunc in ((cumulative.cummax, np.maximum), (cumulative.cummin, np.minimum))
    for made in cumulative_rows(function, accumulate(ufunc), REALS, refuses=False)
]


# ---- windows -----------------------------------------------------------------------------------


def every_window(
    x, fill, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    """The elements of each window along a last dimension, from the definition."""
    shape = [(n - 1) * step + 1 for n, step in zip(x.shape, base_dilation, strict=True)]
    wide = np.full(shape, fill, x.dtype)
    wide[tuple(slice(None, None, step) for step in base_dilation)] = x
    wide = np.pad(wide, padding, constant_values=fill)
    reach = [(n - 1) * step + 1 for n, step in zip(window_dimensions, window_dilation, strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(wide, reach)
    starts = tuple(slice(None, None, step) for step in window_strides)
    found = found[starts + tuple(slice(None, None, step) for step in window_dilation)]
    return found.reshape(*found.shape[: x.ndim], -1)


def over_windows(function, fill):
    def reference(x, **params):
        return function(every_window(x, fill(x.dtype), **params), axis=-1, dtype=x.dtype)

    return reference


def window(dimensions, strides=(1, 1), padding=((0, 0), (0, 0)), base=(1, 1), spread=(1, 1)):
    return {
        "window_dimensions": dimensions,
        "window_strides": strides,
        "padding": padding,
        "base_dilation": base,
        "window_dilation": spread,
    }


def extreme(largest):
    def fill(dtype):
        if dtype == np.bool_:
            return not largest
        if dtype.kind in "iu":
            return np.iinfo(dtype).min if largest else np.iinfo(dtype).max
        return -np.inf if largest else np.inf

    return fill


PLAIN = window((2, 3))
PADDED = window((3, 2), (2, 1), ((1, 1), (0, 1)))
DILATED = window((2, 2), (1, 2), ((1, 0), (1, 1)), (2, 1), (1, 2))


def window_rows(function, reference, accepts, **fields):
    return [
        row(
            function,
            reference,
            accepts,
            f"{function.__name__} {name}",
            shape=(4, 5),
            params=params,
            **fields,
        )
        for name, params in (("plain", PLAIN), ("padded", PADDED), ("dilated", DILATED))
    ]


def extremum_of_windows(ufunc, largest):
    return over_windows(lambda x, axis, dtype: ufunc.reduce(x, axis=axis), extreme(largest))


WINDOWS = [
    *window_rows(
        window_ops.reduce_window_sum,
        over_windows(np.sum, lambda dtype: 0),
        dtypes.NUMERIC,
        draw=between(-3, 3),
        ulps=4,
        floor=4,
    ),
    *window_rows(
        window_ops.reduce_window_max, extremum_of_windows(np.maximum, True), dtypes.ORDERED
    ),
    *window_rows(
        window_ops.reduce_window_min, extremum_of_windows(np.minimum, False), dtypes.ORDERED
    ),
]


# ---- picking from windows ----------------------------------------------------------------------


def gathered(t, x, direction, **params):
    """The tangents at the extrema of the windows of x."""
    fill = -np.inf if direction == "GE" else np.inf
    values = every_window(x, fill, **params)
    picked = (np.argmax if direction == "GE" else np.argmin)(values, axis=-1)
    return np.take_along_axis(every_window(t, 0, **params), picked[..., None], -1)[..., 0]


def scattered(source, x, direction, **params):
    """Each source element at the extremum of its window of x."""
    fill = -np.inf if direction == "GE" else np.inf
    values = every_window(x, fill, **params)
    picked = (np.argmax if direction == "GE" else np.argmin)(values, axis=-1)
    places = every_window(np.arange(x.size, dtype=np.int64).reshape(x.shape), -1, **params)
    places = np.take_along_axis(places, picked[..., None], -1)[..., 0]
    out = np.zeros(x.size, source.dtype)
    np.add.at(out, places.ravel(), source.ravel())
    return out.reshape(x.shape)


FIXED = Arg((4, 5), np.float64, distinct())
PICKING = [
    Op(
        window_ops.select_and_gather_add,
        gathered,
        dtypes.NUMERIC,
        name=f"select_and_gather_add {name}",
        args=(Arg((4, 5)), FIXED),
        params={"direction": direction, **params},
        constant=(1,),
        ulps=0,
        elementwise=False,
        weak="first",
    )
    for name, direction, params in (("GE", "GE", PADDED), ("LE", "LE", DILATED))
]
PICKING += [
    Op(
        window_ops.select_and_scatter_add,
        scattered,
        dtypes.NUMERIC,
        name=f"select_and_scatter_add {name}",
        args=(Arg(shape), FIXED),
        params={"direction": direction, **params},
        constant=(1,),
        ulps=2,
        floor=2,
        elementwise=False,
        weak="first",
        draw=between(-3, 3),
    )
    for name, direction, params, shape in (
        ("GE", "GE", PADDED, (2, 5)),
        ("LE", "LE", DILATED, (7, 3)),
        ("plain", "GE", PLAIN, (3, 3)),
    )
]


# ---- by any function ---------------------------------------------------------------------------


def compounded(a, b):
    """(1 + a)(1 + b) - 1, which is associative, with the identity 0."""
    return lax.add(lax.mul(a, b), lax.add(a, b))


def compound(x, axis):
    return np.prod(1 + x, axis=axis, dtype=x.dtype) - 1


def reduce_compounded(x, dimensions):
    """`reduce` by a function that is no known operation."""
    return reduction.reduce(x, 0, compounded, dimensions)


def reduce_window_compounded(x, **params):
    """`reduce_window` by a function that is no known operation."""
    return reduction.reduce_window(x, 0, compounded, **params)


def reduce_sum_of(x, dimensions):
    """`reduce` by a known operation, from an initial value that is not its identity."""
    return reduction.reduce(x, 2, lax.add, dimensions)


def first_largest(x, dimensions):
    """`reduce` of a tree: the largest element and its position."""

    def larger(a, b):
        first = lax.ge(a["value"], b["value"])
        return {name: lax.select(first, a[name], b[name]) for name in a}

    positions = lax.broadcasted_iota(np.int32, x.shape, dimensions[0])
    lowest = extreme(True)(np.dtype(x.dtype))
    return reduction.reduce(
        {"value": x, "place": positions}, {"value": lowest, "place": 0}, larger, dimensions
    )


SMALL = between(-0.9, 0.9)
WIDE = frozenset({np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.complex128)})
BY_FUNCTION = [
    row(
        reduce_compounded,
        lambda x, dimensions: compound(x, dimensions),
        WIDE,
        shape=(3, 2, 5),
        params={"dimensions": (0, 2)},
        draw=SMALL,
        ulps=30,
        floor=1,
        refuses=False,
        weak="strong",
    ),
    row(
        reduce_sum_of,
        lambda x, dimensions: 2 + x.sum(dimensions),
        WIDE,
        params={"dimensions": (1,)},
        draw=SMALL,
        ulps=4,
        floor=2,
        refuses=False,
        weak=None,
    ),
    row(
        reduce_window_compounded,
        over_windows(lambda x, axis, dtype: compound(x, axis), lambda dtype: 0),
        WIDE,
        shape=(4, 5),
        params=DILATED,
        draw=SMALL,
        ulps=30,
        floor=1,
        refuses=False,
        weak="strong",
    ),
    row(
        first_largest,
        lambda x, dimensions: [x.argmax(dimensions[0]), x.max(dimensions[0])],
        frozenset({np.dtype(np.float32), np.dtype(np.float64)}),
        params={"dimensions": (1,)},
        refuses=False,
        order=0,
        weak=None,
    ),
]

ROWS = [*OVER_AXES, *POSITIONS, *CUMULATIVE, *WINDOWS, *PICKING, *BY_FUNCTION]
