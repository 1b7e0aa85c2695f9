"""Interpreted kernels compute what NumPy does: products, reductions, attention, loops."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from experimental.pallas.kernel_calls import BLOCKS, F32, I32, S, V, call, matrix
from weft import lax
from weft.experimental import pallas as pl
from weft.experimental.pallas import tpu, triton

A, B = matrix(8, 12), matrix(12, 6, seed=1)


def product(accumulated, out_dtype=F32):
    """A product of A and B in blocks, summed in a buffer over the last axis of the grid."""

    def kernel(a, b, o, acc):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(a[...], b[...], preferred_element_type=accumulated)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o[...] = acc[...].astype(o.dtype)

    return call(
        kernel,
        S((8, 6), out_dtype),
        grid=(2, 3, 3),
        in_specs=[
            pl.BlockSpec((4, 4), lambda i, j, k: (i, k)),
            pl.BlockSpec((4, 2), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((4, 2), lambda i, j, k: (i, j)),
        scratch_shapes=[tpu.VMEM((4, 2), accumulated)],
        compiler_params=tpu.CompilerParams(dimension_semantics=("parallel",) * 3),
    )


def test_a_product_in_blocks():
    close(product(F32)(A, B), A @ B)


def test_a_product_of_bfloat16_summed_in_float32():
    low = jnp.asarray(A, jnp.bfloat16), jnp.asarray(B, jnp.bfloat16)
    found = product(F32, jnp.bfloat16)(*low)
    assert found.dtype == jnp.bfloat16
    wanted = np.asarray(low[0], np.float64) @ np.asarray(low[1], np.float64)
    close(found.astype(F32), wanted, rtol=2**-7, atol=0.02)


def test_a_product_summed_in_the_result():
    def kernel(a, b, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        o[...] += pl.dot(a[...], b[...])

    rows = pl.BlockSpec((8, 4), lambda k: (0, k))
    columns = pl.BlockSpec((4, 6), lambda k: (k, 0))
    close(call(kernel, S((8, 6), F32), grid=3, in_specs=[rows, columns])(A, B), A @ B)


def test_softmax_of_rows():
    def kernel(x, o):
        e = jnp.exp(x[:] - x[:].max())
        o[:] = e / e.sum()

    found = call(
        kernel,
        S(A.shape, F32),
        grid=8,
        in_specs=[pl.BlockSpec((None, 12), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((pl.squeezed, 12), lambda i: (i, 0)),
    )(A)
    e = np.exp(A)
    close(found, e / e.sum(1, keepdims=True))


def test_several_results():
    def kernel(x, scale, o, mean, rstd):
        m = x[...].mean(-1, keepdims=True)
        s = lax.rsqrt(((x[...] - m) ** 2).mean(-1, keepdims=True) + 1e-5)
        o[...] = (x[...] - m) * s * scale[...]
        mean[...], rstd[...] = m[:, 0], s[:, 0]

    rows = pl.BlockSpec((4, 12), lambda i: (i, 0))
    scale = np.arange(12, dtype=F32)
    o, mean, rstd = call(
        kernel,
        (S(A.shape, F32), S((8,), F32), S((8,), F32)),
        grid=(2,),
        in_specs=[rows, pl.no_block_spec],
        out_specs=(rows, BLOCKS, BLOCKS),
    )(A, scale)
    m, r = A.mean(1), 1 / np.sqrt(A.var(1) + 1e-5)
    close(mean, m)
    close(rstd, r)
    close(o, (A - m[:, None]) * r[:, None] * scale)


def attention(q, k, v):
    """Attention with the softmax of what was seen so far, in buffers."""

    def kernel(q, k, v, o, top, total, acc):
        step = pl.program_id(2)

        @pl.when(step == 0)
        def _():
            top[...] = jnp.full_like(top, -jnp.inf)
            total[...] = jnp.zeros_like(total)
            acc[...] = jnp.zeros_like(acc)

        scores = q[...] @ k[...].T
        new = jnp.maximum(top[...], scores.max(1, keepdims=True))
        p, shrunk = jnp.exp(scores - new), jnp.exp(top[...] - new)
        total[...] = total[...] * shrunk + p.sum(1, keepdims=True)
        acc[...] = acc[...] * shrunk + p @ v[...]
        top[...] = new

        @pl.when(step == pl.num_programs(2) - 1)
        def _():
            o[...] = acc[...] / total[...]

    queries = pl.BlockSpec((None, 4, 8), lambda h, i, j: (h, i, 0))
    keys = pl.BlockSpec((None, 4, 8), lambda h, i, j: (h, j, 0))
    buffers = [tpu.VMEM((4, 1), F32), tpu.VMEM((4, 1), F32), tpu.VMEM((4, 8), F32)]
    return call(
        kernel,
        S(q.shape, F32),
        grid=(2, 2, 4),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=buffers,
    )(q, k, v)


def test_attention():
    q, k, v = matrix(2, 8, 8), matrix(2, 16, 8, seed=1), matrix(2, 16, 8, seed=2)
    e = np.exp(np.einsum("hid,hjd->hij", q, k, dtype=np.float64))
    close(attention(q, k, v), e / e.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


def test_a_sum_over_the_grid():
    def kernel(x, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[0] = 0.0

        o[0] += x[...].sum()

    close(call(kernel, S((1,), F32), grid=4, in_specs=[BLOCKS])(V), [V.sum()])


def test_buffers_keep_what_is_in_them():
    def kernel(x, o, last):
        @pl.when(pl.program_id(0) == 0)
        def _():
            last[...] = jnp.zeros_like(last)

        o[...] = jnp.cumsum(x[...]) + last[0]
        last[0] = o[3]

    found = call(
        kernel,
        S((16,), F32),
        grid=4,
        in_specs=[BLOCKS],
        out_specs=BLOCKS,
        scratch_shapes=[tpu.SMEM((1,), F32)],
    )(V)
    close(found, np.cumsum(V))


def test_buffers_by_name():
    def kernel(x, o, *, tmp, more):
        tmp[...] = x[...] * 2
        more[0][...] = tmp[...]
        o[...] = more[0][...]

    buffers = {"tmp": tpu.VMEM((16,), F32), "more": [tpu.VMEM((16,), F32)]}
    close(call(kernel, S((16,), F32), scratch_shapes=buffers)(V), V * 2)


def test_the_last_axis_of_the_grid_is_the_fastest():
    def kernel(o, count):
        first = sum(pl.program_id(i) for i in range(3)) == 0

        @pl.when(first)
        def _():
            count[0] = 0

        o[...] = count[0]
        count[0] += 1

    one = pl.BlockSpec((None, None, None), lambda i, j, k: (i, j, k))
    found = call(
        kernel,
        S((2, 3, 2), I32),
        grid=(2, 3, 2),
        out_specs=one,
        scratch_shapes=[tpu.SMEM((1,), I32)],
    )()
    close(found, np.arange(12).reshape(2, 3, 2))


@pytest.mark.parametrize("grid", [(), (1,), (0,), (1, 1), (("rows", 2), ("columns", 1))])
def test_grids_of_few_steps(grid):
    def kernel(x, o):
        o[...] = x[...] + len(grid)

    found = call(kernel, S((16,), F32), grid=grid)(V)
    close(found, V * np.nan if 0 in grid else V + len(grid))


def test_a_grid_whose_length_is_an_array():
    def kernel(o):
        o[...] = jnp.full(o.shape, pl.program_id(0) * 10 + pl.program_id(1) + pl.num_programs(1))

    def run(n, m):
        one = pl.BlockSpec((None, None), lambda i, j: (i, j))
        return call(kernel, S((4, 5), I32), grid=(n, m), out_specs=one)()

    wanted = np.full((4, 5), np.iinfo(I32).min)
    wanted[:3, :4] = np.add.outer(10 * np.arange(3), np.arange(4)) + 4
    np.testing.assert_array_equal(weft.jit(run)(3, 4), wanted)


def test_scalars_known_before_blocks_are_cut():
    rows = np.array([3, 1, 3, 0, 7], I32)

    def kernel(s, x, o, tmp):
        o[...] = x[...] * s[pl.program_id(0)].astype(F32) + tmp.shape[0]

    grid_spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(5,),
        in_specs=[pl.BlockSpec((None, 12), lambda i, s: (s[i], 0))],
        out_specs=pl.BlockSpec((None, 12), lambda i, s: (4 - i, 0)),
        scratch_shapes=[tpu.VMEM((3,), F32)],
    )
    found = call(kernel, S((5, 12), F32), grid_spec=grid_spec)(rows, A)
    close(found, (A[rows] * rows[:, None] + 3)[::-1])


def test_trees_of_scalars():
    def kernel(s, t, x, o):
        o[...] = x[...] + s["a"][0] * 10 + t[1]

    grid_spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(2,),
        in_specs=[pl.BlockSpec((4, 12), lambda i, s, t: (s["a"][i], 0))],
        out_specs=pl.BlockSpec((4, 12), lambda i, s, t: (t[i], 0)),
    )
    first, second = np.array([1, 0], I32), np.array([0, 1], I32)
    close(call(kernel, S((8, 12), F32), grid_spec=grid_spec)({"a": first}, second, A),
          np.roll(A, 4, 0) + 11)  # fmt: skip


def test_trees_of_operands_and_results():
    def kernel(x, o):
        o["a"][...] = x["p"][...]
        o["b"][0][...] = x["q"][...] * 2

    found = call(
        kernel,
        {"a": S((8,), F32), "b": [S((8,), I32)]},
        grid=2,
        in_specs=({"p": BLOCKS, "q": BLOCKS},),
        out_specs={"a": BLOCKS, "b": [BLOCKS]},
    )({"p": V[:8], "q": np.arange(8, dtype=I32)})
    close(found["a"], V[:8])
    close(found["b"][0], 2 * np.arange(8))


def test_loops_inside_of_a_kernel():
    def kernel(n, o):
        def body(state):
            steps, x = state
            return steps + 1, jnp.where(x % 2 == 0, x // 2, 3 * x + 1)

        o[...] = lax.while_loop(lambda state: state[1] != 1, body, (jnp.int32(0), n[...]))[0]

    one = pl.BlockSpec((None,), lambda i: (i,))
    numbers = np.array([1, 2, 3, 7, 27], I32)
    found = call(kernel, S((5,), I32), grid=5, in_specs=[one], out_specs=one)(numbers)
    np.testing.assert_array_equal(found, [0, 1, 7, 16, 111])


def test_a_loop_that_reads_and_writes_references():
    def kernel(x, o):
        def body(i, total):
            o[i] = total + x[i]
            return o[i]

        lax.fori_loop(0, 16, body, 0.0)

    close(call(kernel, S((16,), F32))(V), np.cumsum(V))


def test_the_loop_of_pallas():
    def kernel(x, o):
        o[...] = jnp.zeros_like(o)

        @pl.loop(0, 16, step=4)
        def _(i):
            o[pl.ds(i, 2)] = x[pl.ds(i, 2)] * 2

        @pl.loop(jnp.int32(0), 3, init_carry=jnp.float32(1))
        def power(_, carry):
            return carry * 2

        o[0] = power

    wanted = np.where(np.arange(16) % 4 < 2, 2 * V, 0)
    close(call(kernel, S((16,), F32))(V), [8, *wanted[1:]])


def test_scoped_buffers():
    def kernel(x, o):
        def body(acc, tmp):
            acc[...] = x[...] * 2
            tmp[...] = acc[...] + 1
            o[...] = tmp[...]
            return acc[0]

        o[1] = pl.run_scoped(body, tpu.VMEM((16,), F32), tmp=tpu.VMEM((16,), F32))

        @pl.with_scoped(tpu.VMEM((2,), F32))
        def write(n, buffer):
            buffer[...] = jnp.full((2,), n, F32)
            o[2:4] = buffer[...]

        write(7)

    wanted = V * 2 + 1
    close(call(kernel, S((16,), F32))(V), [wanted[0], V[0] * 2, 7, 7, *wanted[4:]])


def test_copies_and_semaphores():
    def kernel(x, o, buffer, sems, count):
        for i in range(2):
            copy = tpu.make_async_copy(x.at[pl.ds(8 * i, 8)], buffer.at[i], sems.at[i])
            copy.start()
            copy.wait()
        tpu.sync_copy(buffer, o)
        pl.semaphore_signal(count, 3)
        pl.semaphore_wait(count, 1)
        o[0, 0] = pl.semaphore_read(count).astype(F32)

    semaphores = [tpu.SemaphoreType.DMA((2,)), tpu.SemaphoreType.REGULAR]
    found = call(kernel, S((2, 8), F32), scratch_shapes=[tpu.VMEM((2, 8), F32), *semaphores])(V)
    close(np.asarray(found).ravel(), [2, *V[1:]])


def test_casts_of_bits_and_rolls():
    def kernel(x, rolled, more, bits, halves, back):
        rolled[...] = tpu.roll(x[...], 3, 1)
        more[...] = tpu.roll(x[...], 1, 1, stride=2, stride_axis=0)
        bits[...] = tpu.bitcast(x[...], I32)
        halves[...] = tpu.bitcast(x[...], np.uint16)
        back[...] = tpu.bitcast(tpu.bitcast(x[...], np.uint16), F32)

    kinds = (S(A.shape, F32), S(A.shape, F32), S(A.shape, I32), S((16, 12), np.uint16))
    rolled, more, bits, halves, back = call(kernel, (*kinds, S(A.shape, F32)))(A)
    close(rolled, np.roll(A, 3, 1))
    close(more, [np.roll(row, 1 + 2 * i) for i, row in enumerate(A)])
    np.testing.assert_array_equal(bits, A.view(I32))
    np.testing.assert_array_equal(halves[::2], A.view(I32) & 0xFFFF)
    np.testing.assert_array_equal(back, A)


def test_small_functions_of_kernels():
    def kernel(x, o, p, q):
        i = pl.multiple_of(pl.program_id(0) * 4, 4)
        o[...] = pl.reciprocal(x[pl.ds(i, 4)])
        p[...] = pl.broadcast_to(pl.max_contiguous(x[0], 1), (4,))
        q[...] = triton.dot(pl.empty_like(q), pl.empty((2, 2), I32), trans_b=True)
        pl.debug_check(jnp.array(True), "not looked at")
        triton.debug_barrier()
        tpu.touch(x)

    out = (S((16,), F32), S((16,), F32), S((2, 2), I32))
    found = call(kernel, out, grid=4, out_specs=(BLOCKS, BLOCKS, pl.no_block_spec))(V)
    close(found[0], 1 / V)
    close(found[1], np.full(16, V[0]))
    np.testing.assert_array_equal(found[2], np.zeros((2, 2)))  # 2**31 squared, twice
    close(pl.reciprocal(jnp.float32(3), approx=True), 1 / 3, rtol=1e-2)


def test_values_are_printed(capsys):
    def kernel(x, o):
        pl.debug_print("{}: {}", pl.program_id(0), x[0])
        o[...] = x[...]

    call(kernel, S((8,), F32), grid=2, in_specs=[BLOCKS], out_specs=BLOCKS)(np.arange(8, dtype=F32))
    assert capsys.readouterr().out == "0: 0.0\n1: 4.0\n"
