"""Blocks of operands: edges, padding, elements, aliases, and what nobody has written."""

from __future__ import annotations

import numpy as np
import pytest

import weft.numpy as jnp
from closeness import close_after_sums as close
from experimental.pallas.kernel_calls import BLOCKS, F32, I32, S, V, call, matrix
from weft.experimental import pallas as pl
from weft.experimental.pallas import tpu

M = matrix(5, 7)


def copied(x, o):
    o[...] = x[...]


def test_blocks_that_stick_out_are_cut_off():
    def kernel(x, o):
        o[...] = x[...] + pl.program_id(0) * 10 + pl.program_id(1)

    tiles = pl.BlockSpec((2, 4), lambda i, j: (i, j))
    found = call(kernel, S((5, 7), F32), grid=(3, 2), in_specs=[tiles], out_specs=tiles)(M)
    close(found, M + 10 * (np.arange(5) // 2)[:, None] + np.arange(7) // 4)


@pytest.mark.parametrize(
    ("dtype", "fill"), [(F32, np.nan), (I32, np.iinfo(I32).min), (np.uint8, 0), (np.bool_, False)]
)
def test_what_is_read_past_the_end(dtype, fill):
    x = np.arange(1, 7).astype(dtype)
    found = call(copied, S((8,), dtype), grid=2, in_specs=[BLOCKS], out_specs=BLOCKS)(x)
    np.testing.assert_array_equal(found, np.append(x, np.array([fill, fill]).astype(dtype)))


def test_what_nobody_writes():
    evens = pl.BlockSpec((4,), lambda i: (2 * i,))
    found = call(copied, S((16,), F32), grid=2, in_specs=[evens], out_specs=evens)(V)
    close(found, np.where(np.arange(16) // 4 % 2 == 0, V, np.nan))


@pytest.mark.parametrize(("memory", "fill"), [("nan", np.iinfo(I32).max), ("zero", 0)])
def test_what_nobody_writes_as_the_program_says(memory, fill):
    params = tpu.InterpretParams(uninitialized_memory=memory)
    run = pl.pallas_call(lambda o, tmp: o.set(tmp[...]), S((2,), I32), interpret=params,
                         scratch_shapes=[tpu.VMEM((2,), I32)])  # fmt: skip
    np.testing.assert_array_equal(run(), [fill, fill])


def test_blocks_that_overlap():
    def kernel(x, o):
        o[...] = x[0:4] + x[1:5] + x[2:6]

    windows = pl.BlockSpec((pl.Element(6),), lambda i: (i * 4,))
    x = np.pad(V, (1, 7))
    found = call(kernel, S((16,), F32), grid=4, in_specs=[windows], out_specs=BLOCKS)(x)
    close(found, x[:16] + x[1:17] + x[2:18])


def test_blocks_of_elements_with_padding():
    def kernel(x, o):
        o[...] = jnp.where(jnp.isnan(x[:4]), 0.0, x[:4]) + x[1:5]

    windows = pl.BlockSpec((pl.Element(6, (1, 1)),), lambda i: (i * 4,))
    found = call(kernel, S((16,), F32), grid=4, in_specs=[windows], out_specs=BLOCKS)(V)
    close(found, V + np.append(0, V[:-1]))


def test_results_in_blocks_of_elements():
    windows = pl.BlockSpec((pl.Element(4),), lambda i: (i * 3,))
    found = call(copied, S((16,), F32), grid=4, in_specs=[BLOCKS], out_specs=windows)(V)
    wanted = np.full(16, np.nan)
    for i in range(4):
        wanted[3 * i : 3 * i + 4] = V[4 * i : 4 * i + 4]
    close(found, wanted)


def test_results_in_padded_blocks():
    windows = pl.BlockSpec((pl.Element(4, (2, 2)),), lambda i: (i * 4,))
    found = call(copied, S((12,), F32), grid=4, in_specs=[BLOCKS], out_specs=windows)(V)
    close(found, V[2:14])


def test_transposed_blocks():
    def kernel(x, o):
        o[...] = x[...].T

    found = call(
        kernel,
        S((7, 5), F32),
        grid=(3, 2),
        in_specs=[pl.BlockSpec((2, 4), lambda i, j: (i, j))],
        out_specs=pl.BlockSpec((pl.Blocked(4), 2), lambda i, j: (j, i)),
    )(M)
    close(found, M.T)


def test_index_maps_know_the_grid():
    turned = pl.BlockSpec((4,), lambda i: pl.num_programs(0) - 1 - pl.program_id(0))
    found = call(copied, S((16,), F32), grid=4, in_specs=[turned], out_specs=BLOCKS)(V)
    close(found, V.reshape(4, 4)[::-1].ravel())


def test_results_that_begin_as_operands():
    def kernel(x, y, o):
        o[...] = o[...] * 2 + y[...] + x[...]

    rows = pl.BlockSpec((4,), lambda i, j: (i,))
    found = call(
        kernel,
        S((16,), F32),
        grid=(2, 3),
        in_specs=[rows, rows],
        out_specs=rows,
        input_output_aliases={1: 0},
    )(V, 3 * V)
    wanted = 3 * V
    for _ in range(3):  # the operand itself stays what it was
        wanted[:8] = 2 * wanted[:8] + 4 * V[:8]
    close(found, wanted)


def test_operands_that_a_kernel_writes():
    def kernel(x, o):
        x[...] += 1
        o[...] = x[...]

    turns = pl.BlockSpec((4,), lambda i: (i % 2,))
    found = call(kernel, S((16,), F32), grid=4, in_specs=[turns], out_specs=BLOCKS)(V[:8])
    close(found, np.concatenate([V[:8] + 1, V[:8] + 2]))


def test_arrays_without_dimensions():
    close(call(copied, S((), F32))(np.float32(2)), 2.0)
    close(call(copied, S((), F32), grid=2)(2.0), 2.0)
