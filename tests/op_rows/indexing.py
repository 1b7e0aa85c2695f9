"""Rows of `ops.gather`, `ops.scatter` and `ops.dynamic_slicing`."""

from __future__ import annotations

import itertools

import numpy as np

from op_table import Arg, Op, distinct, integers
from weft import dtypes
from weft.ops.indexing import dynamic_slicing, gather, scatter

G, S = gather.GatherDimensionNumbers, scatter.ScatterDimensionNumbers
FLOAT64 = np.dtype(np.float64)

# ---- direct loops ------------------------------------------------------------------------------


def block_starts(indices, batch, index_map, batching, indices_batching, rank):
    """Where the block of one batch position begins, in every dimension of the operand."""
    starts = [0] * rank
    for k, dim in enumerate(index_map):
        starts[dim] = int(indices[(*batch, k)])
    for dim, of in zip(batching, indices_batching, strict=True):
        starts[dim] = batch[of]
    return starts


def gathered(x, indices, dimension_numbers, slice_sizes, mode="clip", fill_value=None, **flags):
    """`gather` by loops over batch positions, from the words of XLA's specification."""
    n = dimension_numbers
    dropped = {*n.collapsed_slice_dims, *n.operand_batching_dims}
    kept = [size for d, size in enumerate(slice_sizes) if d not in dropped]
    rank, batch_shape = len(kept) + indices.ndim - 1, indices.shape[:-1]
    sizes, lengths = iter(kept), iter(batch_shape)
    shape = [next(sizes if d in n.offset_dims else lengths) for d in range(rank)]
    out = np.zeros(shape, x.dtype)
    for batch in np.ndindex(batch_shape):
        starts = block_starts(
            indices,
            batch,
            n.start_index_map,
            n.operand_batching_dims,
            n.start_indices_batching_dims,
            x.ndim,
        )
        last = [length - size for length, size in zip(x.shape, slice_sizes, strict=True)]
        inside = all(0 <= a <= b for a, b in zip(starts, last, strict=True))
        places = iter(batch)
        where = tuple(slice(None) if d in n.offset_dims else next(places) for d in range(rank))
        if mode == "fill" and not inside:
            out[where] = fill_value
            continue
        starts = [min(max(a, 0), b) for a, b in zip(starts, last, strict=True)]
        block = x[tuple(slice(a, a + s) for a, s in zip(starts, slice_sizes, strict=True))]
        out[where] = block.reshape(kept)
    return out


def scattered(combine):
    """A scatter by loops over batch positions, in the order in which they are listed."""

    def reference(x, indices, updates, dimension_numbers, mode="drop", **flags):
        n = dimension_numbers
        lacking = {*n.inserted_window_dims, *n.operand_batching_dims}
        lengths = iter([updates.shape[d] for d in n.update_window_dims])
        sizes = [1 if d in lacking else next(lengths) for d in range(x.ndim)]
        out = np.array(x)
        for batch in np.ndindex(indices.shape[:-1]):
            starts = block_starts(
                indices,
                batch,
                n.scatter_dims_to_operand_dims,
                n.operand_batching_dims,
                n.scatter_indices_batching_dims,
                x.ndim,
            )
            last = [length - size for length, size in zip(x.shape, sizes, strict=True)]
            if mode == "clip":
                starts = [min(max(a, 0), b) for a, b in zip(starts, last, strict=True)]
            elif not all(0 <= a <= b for a, b in zip(starts, last, strict=True)):
                continue
            places = iter(batch)
            of = tuple(
                slice(None) if d in n.update_window_dims else next(places)
                for d in range(updates.ndim)
            )
            where = tuple(slice(a, a + s) for a, s in zip(starts, sizes, strict=True))
            with np.errstate(all="ignore"):
                out[where] = combine(out[where], updates[of].reshape(sizes))
        return out

    return reference


# ---- gather ------------------------------------------------------------------------------------

ROWS_OF = G((1,), (0,), (0,))
POINTS = G((), (0, 1), (1, 0))
BLOCKS = G((0, 2), (), (0, 1))
BATCHED = G((2,), (1,), (1,), (0,), (1,))


def places(shape, low, high, dtype=np.int32):
    return Arg(shape, dtype, integers(low, high))


def gather_row(name, operand, indices, numbers, sizes, **params):
    return Op(
        gather.gather,
        gathered,
        dtypes.ANY,
        name=f"gather {name}",
        args=(Arg(operand), indices),
        params={"dimension_numbers": numbers, "slice_sizes": sizes, **params},
        ulps=0.5,
        constant=(1,),
        elementwise=False,
        weak="first",
    )


GATHERS = [
    gather_row("of rows", (4, 3), places((5, 1), 0, 3), ROWS_OF, (1, 3)),
    gather_row("of rows out of bounds", (4, 3), places((5, 1), -3, 6), ROWS_OF, (1, 3)),
    gather_row(
        "of filled rows", (4, 3), places((5, 1), -2, 5), ROWS_OF, (1, 3), mode="fill", fill_value=1
    ),
    gather_row(
        "of points", (4, 3), places((2, 2, 2), 0, 2), POINTS, (1, 1), mode="promise_in_bounds"
    ),
    gather_row(
        "of blocks",
        (4, 5),
        places((3, 2), -1, 5, np.int64),
        BLOCKS,
        (2, 3),
        mode="fill",
        fill_value=0,
    ),
    gather_row("with batching", (2, 4, 3), places((3, 2, 1), 0, 3), BATCHED, (1, 1, 2)),
    gather_row("by narrow indices", (300, 2), places((4, 1), 0, 255, np.uint8), ROWS_OF, (1, 2)),
    gather_row("of nothing", (4, 3), places((0, 1), 0, 3), ROWS_OF, (1, 3)),
]

# ---- scatter -----------------------------------------------------------------------------------

S_ROWS = S((1,), (0,), (0,))
S_POINTS = S((), (0, 1), (1, 0))
S_BLOCKS = S((0, 2), (), (0, 1))
S_BATCHED = S((2,), (1,), (1,), (0,), (1,))

CASES = {
    "of rows": ((4, 3), places((5, 1), 0, 3), (5, 3), S_ROWS, {}),
    "of clipped rows": ((4, 3), places((3, 1), -2, 6), (3, 3), S_ROWS, {"mode": "clip"}),
    "of dropped points": ((3, 3), places((2, 2, 2), -1, 3), (2, 2), S_POINTS, {}),
    "of blocks": ((4, 5), places((3, 2), -1, 4), (2, 3, 3), S_BLOCKS, {"mode": "drop"}),
    "with batching": ((2, 4, 3), places((3, 2, 1), 0, 3), (3, 2, 2), S_BATCHED, {}),
}
KINDS = {
    scatter.scatter_add: (np.add, dtypes.NUMERIC),
    scatter.scatter_sub: (np.subtract, dtypes.NUMERIC),
    scatter.scatter_min: (np.minimum, dtypes.ORDERED),
    scatter.scatter_max: (np.maximum, dtypes.ORDERED),
}


def scatter_row(function, combine, accepts, case, **fields):
    operand, indices, updates, numbers, params = CASES[case]
    fields = {"ulps": 4, "floor": 8.0, "draw": distinct(), **fields}
    return Op(
        function,
        scattered(combine),
        accepts,
        name=f"{function.__name__} {case}",
        args=(Arg(operand), indices, Arg(updates, draw=distinct(-2.9, 2.8))),
        params={"dimension_numbers": numbers, **params, **fields.pop("params", {})},
        constant=(1,),
        elementwise=False,
        vmap_limit=8,
        **fields,
    )


def permuted(generator, shape, dtype):
    """Index vectors of one element, no two equal."""
    return generator.permutation(shape[0]).reshape(shape).astype(dtype)


ONCE = (Arg((4, 3)), Arg((4, 1), np.int32, permuted), Arg((4, 3)))


def unique_row(function, combine, accepts):
    return Op(
        function,
        scattered(combine),
        accepts,
        name=f"{function.__name__} of rows listed once",
        args=ONCE,
        params={"dimension_numbers": S_ROWS, "unique_indices": True},
        constant=(1,),
        elementwise=False,
        ulps=2,
    )


def replaced(old, new):
    return new


SCATTERS = [
    *(
        scatter_row(function, combine, accepts, case)
        for (function, (combine, accepts)), case in itertools.product(KINDS.items(), CASES)
    ),
    *(scatter_row(scatter.scatter, replaced, dtypes.ANY, case, ulps=0.5) for case in CASES),
    scatter_row(scatter.scatter_mul, np.multiply, dtypes.NUMERIC, "of rows", order=0, floor=64.0),
    unique_row(scatter.scatter, replaced, dtypes.ANY),
    unique_row(scatter.scatter_mul, np.multiply, dtypes.NUMERIC),
    unique_row(scatter.scatter_add, np.add, dtypes.NUMERIC),
]

# ---- dynamic slices ----------------------------------------------------------------------------


def bounded(starts, shape, sizes):
    """Positions counted from the front and moved inside."""
    found = []
    for start, length, size in zip(starts, shape, sizes, strict=True):
        start = int(start) + (length if start < 0 else 0)
        found.append(min(max(start, 0), length - size))
    return tuple(slice(a, a + s) for a, s in zip(found, sizes, strict=True))


def sliced(x, *starts, slice_sizes):
    return x[bounded(starts, x.shape, slice_sizes)]


def updated(x, update, *starts):
    out = np.array(x)
    out[bounded(starts, x.shape, update.shape)] = update
    return out


def slice_at(x, *starts, slice_sizes):
    return dynamic_slicing.dynamic_slice(x, starts, slice_sizes)


def update_at(x, update, *starts):
    return dynamic_slicing.dynamic_update_slice(x, update, starts)


def one_index(low, high, dtype=np.int32):
    return Arg((), dtype, integers(low, high))


def dynamic_row(function, reference, args, constant, name="", accepts=dtypes.ANY, **params):
    return Op(
        function,
        reference,
        accepts,
        name=name or function.__name__,
        args=args,
        params=params,
        constant=constant,
        elementwise=False,
        ulps=0.5,
        weak=None,
    )


def index_in(x, index, **params):
    return dynamic_slicing.dynamic_index_in_dim(x, index, 1, **params)


def update_in(x, update, index):
    return dynamic_slicing.dynamic_update_index_in_dim(x, update, index, -1)


def with_column(x, update, index):
    out = np.array(x)
    out[:, bounded([index], x.shape[1:], (1,))[0].start] = update
    return out


def take(x, rows, columns, axes):
    return dynamic_slicing.index_take(x, (rows, columns), axes)


def taken(x, rows, columns, axes):
    place = [np.clip(i + n * (i < 0), 0, n - 1) for i, n in ((rows, 3), (columns, 4))]
    return x[place[0], :, place[1]]


DYNAMIC = [
    dynamic_row(
        slice_at,
        sliced,
        (Arg((4, 5)), one_index(-6, 6), one_index(-6, 6)),
        (1, 2),
        slice_sizes=(2, 3),
    ),
    dynamic_row(
        slice_at,
        sliced,
        (Arg((4, 5)), one_index(0, 9, np.uint8), one_index(0, 0)),
        (1, 2),
        "slice_at of whole rows",
        slice_sizes=(1, 5),
    ),
    dynamic_row(
        slice_at,
        sliced,
        (Arg((200,)), one_index(-100, 100, np.int8)),
        (1,),
        "slice_at by a narrow index",
        slice_sizes=(3,),
    ),
    dynamic_row(
        update_at, updated, (Arg((4, 5)), Arg((2, 3)), one_index(-6, 6), one_index(-6, 6)), (2, 3)
    ),
    dynamic_row(
        update_at,
        updated,
        (Arg((4, 5)), Arg((1, 5)), one_index(0, 9, np.int64), one_index(0, 0, np.uint32)),
        (2, 3),
        "update_at of whole rows",
    ),
    dynamic_row(
        index_in, lambda x, i: x[:, bounded([i], (3,), (1,))[0]], (Arg(), one_index(-3, 4)), (1,)
    ),
    dynamic_row(
        index_in,
        lambda x, i, keepdims: x[:, bounded([i], (3,), (1,))[0].start],
        (Arg(), one_index(-3, 4)),
        (1,),
        "index_in dropping",
        keepdims=False,
    ),
    dynamic_row(update_in, with_column, (Arg((3, 4)), Arg((3,)), one_index(-5, 6)), (2,)),
    dynamic_row(
        dynamic_slicing.index_in_dim,
        lambda x, index, axis, keepdims: x[:, -2],
        (Arg(),),
        (),
        index=-2,
        axis=1,
        keepdims=False,
    ),
    dynamic_row(
        take, taken, (Arg((3, 2, 4)), places((5,), -4, 4), places((5,), -5, 5)), (1, 2), axes=(0, 2)
    ),
]

ROWS = [*GATHERS, *SCATTERS, *DYNAMIC]
