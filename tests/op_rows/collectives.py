"""Rows of the collectives over named axes, each mapped over the axes that it names.

A row's function takes the values of all elements at once, so that the table's checks (derivatives,
an outer vmap, jit, …) are applied to the mapped collective.
"""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, distinct
from weft import dtypes
from weft.api.vmap import vmap
from weft.ops.collectives import all_reduce, movement, permutation

PAIRS = [[0, 3], [2, 1]]  # groups of an axis of length 4, not in order


def over_one(function):
    """Maps over axis 1 of the operand, called 'i'; results along axis 0."""

    def call(x, **params):
        return vmap(lambda v: function(v, "i", **params), in_axes=1, axis_name="i")(x)

    return call


def over_two(function):
    """Maps over axes 0 ('i') and 1 ('j') of the operand, and names both."""

    def call(x, names=("i", "j"), **params):
        inner = vmap(lambda v: function(v, names, **params), axis_name="j")
        return vmap(inner, axis_name="i")(x)

    return call


def row(name, function, reference, accepts=dtypes.ANY, shape=(2, 4), **fields):
    fields = {"ulps": 0.5, "weak": None, "draw": distinct(), **fields}
    params = fields.pop("params", {})
    return Op(
        function,
        lambda x, **_: reference(np.moveaxis(x, 1, 0) if fields.get("one", True) else x),
        accepts,
        name=name,
        args=(Arg(shape),),
        params=params,
        elementwise=False,
        vmap_limit=3,
        **{k: v for k, v in fields.items() if k != "one"},
    )


def two(name, function, reference, accepts=dtypes.ANY, shape=(2, 3), **fields):
    return row(name, over_two(function), reference, accepts, shape, one=False, **fields)


def grouped(reduce):
    """Each element gets the reduction over its group."""

    def reference(x):
        out = np.empty_like(x)
        for group in PAIRS:
            out[group] = reduce(x[group], axis=0, keepdims=True)
        return out

    return reference


def everywhere(reduce):
    return lambda x: np.broadcast_to(reduce(x, axis=0, keepdims=True), x.shape)


def whole(reduce):
    """A reduction over both mapped axes."""
    return lambda x: np.broadcast_to(reduce(x, axis=(0, 1), keepdims=True), x.shape)


def total(x, axis, keepdims):
    return x.sum(axis, dtype=x.dtype, keepdims=keepdims)


def permuted(pairs):
    def reference(x):
        out = np.zeros_like(x)
        for source, target in pairs:
            out[target] = x[source]
        return out

    return reference


def permuted_rows(pairs):
    """A permutation of the first two axes together."""
    return lambda x: permuted(pairs)(x.reshape(6, *x.shape[2:])).reshape(x.shape)


def exchanged(x, split, concat):
    """The tiled all_to_all, part by part: element t gets part t of every element s."""
    n = len(x)
    parts = [np.split(x[s], n, axis=split) for s in range(n)]
    return np.stack([np.concatenate([parts[s][t] for s in range(n)], concat) for t in range(n)])


def swapped(x, split, concat):
    """The all_to_all that is not tiled."""
    n = len(x)
    parts = [np.moveaxis(x[s], split, 0) for s in range(n)]
    return np.stack([np.stack([parts[s][t] for s in range(n)], concat) for t in range(n)])


def flat_swapped(x, split, concat):
    return swapped(x.reshape(6, *x.shape[2:]), split, concat)


def scattered_sum(x, dimension):
    """Part t of the sum goes to element t."""
    return np.moveaxis(x.sum(0, dtype=x.dtype), dimension, 0)


def scattered_parts(x, dimension):
    return np.stack(np.split(x.sum(0, dtype=x.dtype), len(x), axis=dimension))


SUMS = {"ulps": 8, "floor": 4.0}
N, ORDERED = dtypes.NUMERIC, dtypes.ORDERED
psum, pmax, pmin = all_reduce.psum, all_reduce.pmax, all_reduce.pmin
gather, scatter, exchange = movement.all_gather, movement.psum_scatter, movement.all_to_all
CYCLE, PARTIAL = [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 2), (3, 1)]

REDUCTIONS = [
    row("psum", over_one(psum), everywhere(total), N, **SUMS, refuses=False),
    row(
        "psum in groups",
        over_one(psum),
        grouped(total),
        N,
        **SUMS,
        refuses=False,
        params={"axis_index_groups": PAIRS},
    ),
    two("psum over two", psum, whole(total), N, **SUMS, refuses=False),
    row(
        "pmean",
        over_one(all_reduce.pmean),
        everywhere(np.mean),
        dtypes.INEXACT,
        ulps=16,
        floor=4.0,
        refuses=False,
    ),
    row("pmax", over_one(pmax), everywhere(np.max), ORDERED),
    row("pmin", over_one(pmin), everywhere(np.min), ORDERED),
    row(
        "pmax in groups",
        over_one(pmax),
        grouped(np.max),
        ORDERED,
        params={"axis_index_groups": PAIRS},
    ),
    two("pmin over two", pmin, whole(np.min), ORDERED),
]
MOVES = [
    row("all_gather", over_one(gather), lambda x: np.broadcast_to(x, (4, 4, 2))),
    row(
        "all_gather behind",
        over_one(gather),
        lambda x: np.broadcast_to(x.T, (4, 2, 4)),
        params={"axis": -1},
    ),
    row(
        "all_gather tiled",
        over_one(gather),
        lambda x: np.broadcast_to(x.reshape(8), (4, 8)),
        params={"tiled": True},
    ),
    row(
        "all_gather in groups",
        over_one(gather),
        lambda x: np.stack([x[[0, 3]], x[[2, 1]], x[[2, 1]], x[[0, 3]]]),
        params={"axis_index_groups": PAIRS},
    ),
    two("all_gather over two", gather, lambda x: np.broadcast_to(x.reshape(6), (2, 3, 6))),
    two(
        "all_gather over two, reversed",
        gather,
        lambda x: np.broadcast_to(x.transpose(1, 0, 2).reshape(12), (2, 3, 12)),
        shape=(2, 3, 2),
        params={"names": ("j", "i"), "tiled": True},
    ),
    row("psum_scatter", over_one(scatter), lambda x: scattered_sum(x, 0), N, (4, 4, 2), **SUMS),
    row(
        "psum_scatter tiled",
        over_one(scatter),
        lambda x: scattered_parts(x, 1),
        N,
        (2, 4, 8),
        **SUMS,
        params={"tiled": True, "scatter_dimension": 1},
    ),
    row(
        "psum_scatter in groups",
        over_one(scatter),
        lambda x: np.stack(
            [x[[0, 3]].sum(0)[0], x[[2, 1]].sum(0)[1], x[[2, 1]].sum(0)[0], x[[0, 3]].sum(0)[1]]
        ).astype(x.dtype),
        N,
        (2, 4, 3),
        **SUMS,
        params={"axis_index_groups": PAIRS},
    ),
    two(
        "psum_scatter over two",
        scatter,
        lambda x: scattered_sum(x.reshape(6, 6), 0).reshape(2, 3),
        N,
        (2, 3, 6),
        **SUMS,
    ),
    two(
        "psum_scatter over two, tiled",
        scatter,
        lambda x: scattered_parts(x.reshape(6, 12), 0).reshape(2, 3, 2),
        N,
        (2, 3, 12),
        **SUMS,
        params={"tiled": True},
    ),
    row(
        "all_to_all",
        over_one(exchange),
        lambda x: swapped(x, 1, 0),
        shape=(2, 4, 4),
        params={"split_axis": 1, "concat_axis": 0},
    ),
    row(
        "all_to_all forwards",
        over_one(exchange),
        lambda x: swapped(x, 0, 1),
        shape=(4, 4, 2),
        params={"split_axis": 0, "concat_axis": 1},
    ),
    row(
        "all_to_all tiled",
        over_one(exchange),
        lambda x: exchanged(x, 1, 0),
        shape=(2, 4, 8),
        params={"split_axis": 1, "concat_axis": 0, "tiled": True},
    ),
    row(
        "all_to_all in groups",
        over_one(exchange),
        lambda x: np.stack([x[[0, 3], 0], x[[2, 1], 1], x[[2, 1], 0], x[[0, 3], 1]]),
        shape=(2, 4, 3),
        params={"split_axis": 0, "concat_axis": 0, "axis_index_groups": PAIRS},
    ),
    two(
        "all_to_all over two",
        exchange,
        lambda x: flat_swapped(x, 0, 1).reshape(2, 3, 2, 6),
        shape=(2, 3, 6, 2),
        params={"split_axis": 0, "concat_axis": 1},
    ),
    row(
        "pswapaxes",
        over_one(movement.pswapaxes),
        lambda x: swapped(x, 1, 1),
        shape=(2, 4, 4),
        params={"axis": 1},
    ),
    row("ppermute", over_one(permutation.ppermute), permuted(CYCLE), params={"perm": CYCLE}),
    row(
        "ppermute of some",
        over_one(permutation.ppermute),
        permuted(PARTIAL),
        params={"perm": PARTIAL},
    ),
    row(
        "pshuffle",
        over_one(permutation.pshuffle),
        lambda x: x[[2, 0, 1, 3]],
        params={"perm": [2, 0, 1, 3]},
    ),
    two(
        "ppermute over two",
        permutation.ppermute,
        permuted_rows([(0, 5), (2, 1), (4, 4)]),
        shape=(2, 3, 2),
        params={"perm": [(0, 5), (2, 1), (4, 4)]},
    ),
]

ROWS = [*REDUCTIONS, *MOVES]
