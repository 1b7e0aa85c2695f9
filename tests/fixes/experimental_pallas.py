"""Fixes of interpreted kernels."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import (
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.experimental import pallas as pl
from weft.experimental.pallas import tpu

__all__ = ["FIXES"]

X = np.arange(6, dtype=np.float32)
OUT = weft.ShapeDtypeStruct((6,), np.float32)
PAIRS = pl.BlockSpec((2,), lambda i: (i,))


def copied(x, o):
    o[...] = x[...]


def run(kernel=copied, *operands, interpret=True, **described):
    described.setdefault("grid", 3)
    return pl.pallas_call(kernel, OUT, interpret=interpret, **described)(*(operands or (X,)))


def in_blocks(kernel=copied, *operands, x=PAIRS, out=PAIRS, **described):
    return run(kernel, *operands, in_specs=[x], out_specs=out, **described)


def plus(array):
    def kernel(x, o):
        o[...] = x[...] + array

    return kernel


def plus_operand(x, y, o):
    o[...] = x[...] + y[...]


def counted(axis):
    def kernel(x, o):
        o[...] = x[...] + 0 * pl.program_id(axis)

    return kernel


def scoped(**shared):
    return pl.run_scoped(lambda ref: ref.shape, tpu.VMEM((2,), np.float32), **shared)


def signalled(**where):
    count = weft.new_ref(jnp.int16(0))
    pl.semaphore_signal(count, 2, **where)
    return pl.semaphore_read(count)


def other_rank(shape):
    return pl.BlockSpec(shape, lambda i: (i,))


FIXES = [
    Fixed(
        "pass interpret=True to pallas_call",
        wrong=lambda: run(interpret=False),
        fixed=lambda fix: run(**fix.data),
        value=X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave grid out, and say it in the grid_spec",
        wrong=lambda: run(grid=3, grid_spec=pl.GridSpec(grid=3)),
        fixed=lambda fix: run(grid=(), grid_spec=pl.GridSpec(grid=3)),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "leave detect_races out of InterpretParams",
        wrong=lambda: run(interpret=tpu.InterpretParams(detect_races=True)),
        fixed=lambda fix: run(interpret=tpu.InterpretParams(**fix.data)),
        value=X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "write it into the reference of a result",
        wrong=lambda: run(lambda x, o: x[...]),
        fixed=lambda fix: run(copied),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "pass {number of the operand: number of the result}",
        wrong=lambda: run(input_output_aliases={0: 1}),
        fixed=lambda fix: run(input_output_aliases={0: 0}),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "pass an int, or a tuple of ints",
        wrong=lambda: in_blocks(grid=6 / 2),
        fixed=lambda fix: in_blocks(grid=6 // 2),
        value=X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass one BlockSpec for each leaf of out_shape, in a tree like it",
        wrong=lambda: in_blocks(out=[PAIRS]),
        fixed=lambda fix: in_blocks(out=PAIRS),
        value=X,
        error=TreeError,
    ),
    Fixed(
        "pass a block_shape with 1 entries",
        wrong=lambda: in_blocks(x=other_rank((1, 2))),
        fixed=lambda fix: in_blocks(x=other_rank((2,))),
        value=X,
        error=ShapeError,
    ),
    Fixed(
        "use blocks of one size",
        wrong=lambda: in_blocks(x=pl.BlockSpec((pl.BoundedSlice(2),), lambda i: pl.ds(2 * i, 2))),
        fixed=lambda fix: in_blocks(x=pl.BlockSpec((pl.Element(2),), lambda i: 2 * i)),
        value=X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass the length of a block",
        wrong=lambda: in_blocks(x=other_rank((6 / 3,))),
        fixed=lambda fix: in_blocks(x=other_rank((6 // 3,))),
        value=X,
        error=WeftTypeError,
    ),
    Fixed(
        "return one index per dimension of the block: 1",
        wrong=lambda: in_blocks(x=pl.BlockSpec((2,), lambda i: (i, 0))),
        fixed=lambda fix: in_blocks(x=pl.BlockSpec((2,), lambda i: (i,))),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "return integers: i // 2, not i / 2",
        wrong=lambda: in_blocks(x=pl.BlockSpec((2,), lambda i: i * 2 / 2)),
        fixed=lambda fix: in_blocks(x=pl.BlockSpec((2,), lambda i: i * 2 // 2)),
        value=X,
        error=WeftTypeError,
    ),
    Fixed(
        "let it take 2 references: operands, results, buffers",
        wrong=lambda: run(lambda x: None),
        fixed=lambda fix: run(copied),
        value=X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass them to the call as operands, and read their references",
        wrong=lambda: run(plus(jnp.asarray(X))),
        fixed=lambda fix: run(plus_operand, X, X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "call it in the function that pallas_call gets, or in an index map",
        wrong=lambda: pl.program_id(0),
        fixed=lambda fix: run(counted(0)),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "name an axis of the grid, or pass a grid with more axes",
        wrong=lambda: run(counted(1)),
        fixed=lambda fix: run(counted(1), grid=(3, 1)),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "pass the buffer to pallas_call in scratch_shapes",
        wrong=lambda: scoped(collective_axes="x"),
        fixed=lambda fix: run(
            lambda x, o, tmp: copied(x, o), scratch_shapes=[tpu.VMEM((2,), "i4")]
        ),
        value=X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass arrays of two dimensions, or use a @ b",
        wrong=lambda: pl.dot(jnp.asarray(X), jnp.asarray(X)),
        fixed=lambda fix: jnp.asarray(X) @ jnp.asarray(X),
        value=55.0,
        error=WeftValueError,
    ),
    Fixed(
        "leave device_id and core_index out",
        wrong=lambda: signalled(device_id=1),
        fixed=lambda fix: signalled(),
        value=2,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass an array with a multiple of 2 rows",
        wrong=lambda: tpu.bitcast(jnp.zeros((3, 4), np.uint16), np.uint32),
        fixed=lambda fix: tpu.bitcast(jnp.zeros((4, 4), np.uint16), np.uint32),
        value=np.zeros((2, 4)),
        error=WeftValueError,
    ),
]
