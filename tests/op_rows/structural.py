"""Rows of `ops.creation`, `ops.joining`, `ops.shape` and `ops.slicing`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op
from weft import dtypes
from weft.layout import Layout
from weft.ops.indexing import creation, slicing
from weft.ops.structural import barriers, joining, layout_constraint, shape


def of_list(function):
    """A function of a list of arrays as one of several arguments."""

    def call(*arrays, **params):
        return function(list(arrays), **params)

    call.__name__ = function.__name__
    return call


def moved(function, reference, args, params, name="", **fields):
    """A row of an operation that moves elements: exact for all dtypes."""
    fields = {"ulps": 0.5, "weak": "first", **fields}
    return Op(
        function,
        reference,
        dtypes.ANY,
        name=name or function.__name__,
        args=args,
        params=params,
        elementwise=False,
        **fields,
    )


def padded(x, value, padding_config):
    """`np.pad` with interior padding, and cutting where low or high is negative."""
    for axis, (low, high, inner) in enumerate(padding_config):
        x = np.moveaxis(x, axis, 0)
        spread = np.full((max(0, len(x) * (inner + 1) - inner), *x.shape[1:]), value, x.dtype)
        spread[:: inner + 1] = x
        ends = [np.full((max(0, n), *x.shape[1:]), value, x.dtype) for n in (low, high)]
        whole = np.concatenate([ends[0], spread[max(0, -low) :], ends[1]])
        x = np.moveaxis(whole[: len(whole) - max(0, -high)], 0, axis)
    return x


def broadcast(x, shape, broadcast_dimensions):
    lengths = [1] * len(shape)
    for size, dim in zip(x.shape, broadcast_dimensions, strict=True):
        lengths[dim] = size
    return np.broadcast_to(x.reshape(lengths), shape)


def sliced(x, start_indices, limit_indices, strides):
    bounds = zip(start_indices, limit_indices, strides, strict=True)
    return x[tuple(slice(low, high, step) for low, high, step in bounds)]


BLOCK = (Arg((2, 3, 4)),)
TWO_AND_ONE = (Arg((2, 3)), Arg((1, 3)), Arg((2, 3)))
cut = {"padding_config": ((1, -1, 0), (-1, 2, 2))}

ROWS = [
    moved(
        of_list(joining.concatenate),
        lambda *xs, dimension: np.concatenate(xs, dimension),
        TWO_AND_ONE,
        {"dimension": 0},
        weak="join",
    ),
    moved(
        of_list(joining.concatenate),
        lambda x, dimension: x,
        (Arg(),),
        {"dimension": 1},
        "concatenate of one",
        weak="join",
    ),
    moved(
        of_list(joining.stack),
        lambda *xs, axis: np.stack(xs, axis),
        (Arg(), Arg()),
        {"axis": -1},
        weak="join",
    ),
    moved(
        joining.split,
        lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis),
        BLOCK,
        {"sizes": (1, 0, 3), "axis": -1},
    ),
    moved(joining.rev, lambda x, dimensions: np.flip(x, dimensions), BLOCK, {"dimensions": (0, 2)}),
    moved(joining.tile, np.tile, (Arg(),), {"reps": (2, 3)}),
    moved(
        joining.collapse, lambda x, start_dimension: x.reshape(2, 12), BLOCK, {"start_dimension": 1}
    ),
    moved(joining.broadcast_to_rank, lambda x, rank: x[None, None], (Arg(),), {"rank": 4}),
    moved(
        shape.broadcast_in_dim,
        broadcast,
        (Arg((3, 1)),),
        {"shape": (2, 3, 4), "broadcast_dimensions": (1, 2)},
    ),
    moved(
        shape.broadcast_in_dim,
        lambda x, shape, broadcast_dimensions: np.broadcast_to(x.T[:, :, None], shape),
        (Arg((3, 1)),),
        {"shape": (2, 3, 4), "broadcast_dimensions": (1, 0)},
        "broadcast_in_dim out of order",
    ),
    moved(
        shape.broadcast,
        lambda x, sizes: np.broadcast_to(x, (2, 1, 2, 3)),
        (Arg(),),
        {"sizes": (2, 1)},
    ),
    moved(shape.reshape, lambda x, new_sizes: x.reshape(new_sizes), BLOCK, {"new_sizes": (4, 6)}),
    moved(
        shape.expand_dims,
        lambda x, dimensions: np.expand_dims(x, dimensions),
        (Arg(),),
        {"dimensions": (0, -1)},
    ),
    moved(
        shape.squeeze,
        lambda x, dimensions: np.squeeze(x, dimensions),
        (Arg((1, 3, 1, 2)),),
        {"dimensions": (0, -2)},
    ),
    moved(
        shape.transpose,
        lambda x, permutation: x.transpose(permutation),
        BLOCK,
        {"permutation": (2, 0, 1)},
    ),
    moved(
        layout_constraint.with_layout_constraint,
        lambda x, layouts: x,
        BLOCK,
        {"layouts": Layout((1, 2, 0))},
    ),
    moved(
        slicing.slice,
        sliced,
        (Arg((5, 7)),),
        {"start_indices": (1, 0), "limit_indices": (4, 7), "strides": (1, 3)},
    ),
    moved(
        slicing.slice,
        sliced,
        (Arg((5, 7)),),
        name="slice of nothing",
        params={"start_indices": (5, 2), "limit_indices": (5, 7), "strides": (2, 1)},
    ),
    moved(
        slicing.slice_in_dim,
        lambda x, start_index, limit_index, stride, axis: x[:, -4:-1:2],
        (Arg((2, 5)),),
        {"start_index": -4, "limit_index": -1, "stride": 2, "axis": 1},
    ),
    moved(slicing.pad, padded, (Arg((3, 4)), Arg(())), cut, weak="join"),
    moved(
        slicing.pad,
        padded,
        (Arg((3, 0)), Arg(())),
        name="pad of nothing",
        weak="join",
        params={"padding_config": ((0, 1, 1), (2, 0, 0))},
    ),
    moved(
        lambda x, **params: creation.full((2, 2), x),
        lambda x: np.full((2, 2), x),
        (Arg(()),),
        {},
        "full of an array",
    ),
    Op(
        lambda x, **params: creation.full_like(x, 3, **params),
        lambda x, shape: np.full(shape, 3),
        dtypes.NUMERIC,
        name="full_like",
        params={"shape": (4,)},
        elementwise=False,
        order=0,
        weak="strong",
        refuses=False,
    ),
    moved(barriers.optimization_barrier, lambda x: x, (Arg(),), {}),
    moved(joining.unstack, lambda x, axis: tuple(np.moveaxis(x, axis, 0)), BLOCK, {"axis": 1}),
    moved(
        joining.broadcast_like,
        lambda x, y: np.broadcast_to(x, y.shape),
        (Arg((1, 3)), Arg((2, 2, 3), np.float32)),
        {},
        constant=(1,),
    ),
    moved(creation.zeros_like_array, np.zeros_like, (Arg(),), {}, order=0, weak="strong"),
]
