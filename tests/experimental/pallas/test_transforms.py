"""Interpreted kernels under transformations: they are loops, with what loops have."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from compilations import counted_compilations
from experimental.pallas.kernel_calls import BLOCKS, F32, S, V, call, matrix
from experimental.pallas.test_kernels import A, B, product
from weft import P, export, lax
from weft.experimental import pallas as pl
from weft.experimental.pallas import tpu


def kernel(x, o):
    here = pl.program_id(0)

    @pl.when(here > 0)
    def _():
        o[...] = jnp.sin(x[...]) * here

    @pl.when(here == 0)
    def _():
        o[...] = x[...] ** 3


in_blocks = call(kernel, S((16,), F32), grid=4, in_specs=[BLOCKS], out_specs=BLOCKS)
STEP = np.arange(16) // 4
VALUE = np.where(STEP == 0, V**3, np.sin(V) * STEP)
SLOPE = np.where(STEP == 0, 3 * V**2, np.cos(V) * STEP)
CURVE = np.where(STEP == 0, 6 * V, -np.sin(V) * STEP)


def summed(x):
    return in_blocks(x).sum()


def test_jit():
    close(weft.jit(in_blocks)(V), VALUE)


def test_disable_jit():
    with weft.disable_jit():
        close(in_blocks(V), VALUE)


def test_a_kernel_is_recorded_as_a_loop():
    names = [eqn.primitive.name for eqn in weft.make_jaxpr(in_blocks)(V).eqns]
    assert names == ["broadcast_in_dim", "scan"]


def test_derivatives():
    close(weft.grad(summed)(V), SLOPE)
    close(weft.jit(weft.grad(summed))(V), SLOPE)
    value, slope = weft.jvp(in_blocks, (V,), (np.full_like(V, 2),))
    close(value, VALUE)
    close(slope, 2 * SLOPE)
    close(weft.jvp(weft.grad(summed), (V,), (np.ones_like(V),))[1], CURVE)


def test_derivatives_at_edges_and_of_atomic_updates():
    def squared(x, o):
        o[...] = x[...] ** 2

    threes = pl.BlockSpec((3,), lambda i: (i,))
    edges = call(squared, S((5,), F32), grid=2, in_specs=[threes], out_specs=threes)
    close(weft.grad(lambda x: edges(x).sum())(V[:5]), 2 * V[:5])

    def binned(x, o):
        o[...] = jnp.zeros_like(o)
        pl.atomic_add(o, (jnp.arange(3) // 2,), x[...])

    a, b, c = V[:3]
    total = call(binned, S((2,), F32))
    close(weft.grad(lambda x: (total(x) ** 2).sum())(V[:3]), [2 * (a + b), 2 * (a + b), 2 * c])


def test_derivatives_of_a_product_in_blocks():
    multiplied = product(F32)
    a, b = weft.grad(lambda a, b: jnp.sin(multiplied(a, b)).sum(), (0, 1))(A, B)
    slope = np.cos(A @ B)
    close(a, slope @ B.T, rtol=1e-4, atol=1e-5)
    close(b, A.T @ slope, rtol=1e-4, atol=1e-5)


def test_vmap():
    many = np.stack([V, 2 * V])
    close(weft.vmap(in_blocks)(many)[0], VALUE)
    close(weft.vmap(weft.grad(summed))(many)[0], SLOPE)


def test_vmap_in_vmap():
    def kernel(x, y, o):
        o[...] = x[...] @ y[...]

    run = call(
        kernel,
        S((4, 3), F32),
        grid=2,
        in_specs=[pl.BlockSpec((2, 5), lambda i: (i, 0)), pl.no_block_spec],
        out_specs=pl.BlockSpec((2, 3), lambda i: (i, 0)),
    )
    x, y = matrix(2, 4, 5), matrix(3, 5, 3, seed=1)
    close(weft.vmap(weft.vmap(run, (0, None)), (None, 0))(x, y), np.einsum("xij,yjk->yxik", x, y))


def test_vmap_of_scalars_known_before():
    def kernel(s, x, o):
        o[...] = x[...]

    grid_spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(3,),
        in_specs=[pl.BlockSpec((None, 12), lambda i, s: (s[i], 0))],
        out_specs=pl.BlockSpec((None, 12), lambda i, s: (i, 0)),
    )
    rows = np.array([[1, 2, 3], [7, 0, 1]], np.int32)
    found = weft.vmap(call(kernel, S((3, 12), F32), grid_spec=grid_spec), (0, None))(rows, A)
    close(found, A[rows])


def test_rules_of_the_users():
    def forward(x, o):
        o[...] = x[...] ** 3

    def backward(x, ct, o):
        o[...] = 3 * x[...] ** 2 * ct[...]

    like = {"out_shape": S((16,), F32), "grid": 4, "out_specs": BLOCKS}

    @weft.custom_vjp
    def cube(x):
        return call(forward, in_specs=[BLOCKS], **like)(x)

    cube.defvjp(
        lambda x: (cube(x), x),
        lambda x, ct: (call(backward, in_specs=[BLOCKS, BLOCKS], **like)(x, ct),),
    )
    close(weft.grad(lambda x: cube(x).sum())(V), 3 * V**2)
    close(weft.jit(weft.grad(lambda x: weft.checkpoint(cube)(cube(x)).sum()))(V), 9 * V**8)


def test_in_loops_and_branches():
    def kernel(x, o):
        o[...] = x[...] * 0.5 + 1

    halved = call(kernel, S((16,), F32))
    last, sums = lax.scan(lambda x, _: (halved(x), x.sum()), V, None, length=3)
    close(last, (V - 2) / 8 + 2)
    close(sums[0], V.sum())
    close(lax.cond(jnp.array(True), halved, lambda x: x, V), V / 2 + 1)


def test_export():
    exported = export.export(weft.jit(in_blocks))(S((16,), F32))
    close(export.deserialize(exported.serialize()).call(V), VALUE)


@pytest.mark.parametrize("compiled", [True, False])
def test_inside_of_shard_map(compiled):
    mesh = weft.make_mesh((2,), ("d",))
    run = call(kernel, S((8,), F32), grid=2, in_specs=[BLOCKS], out_specs=BLOCKS)
    split = weft.shard_map(run, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    if compiled:
        split = weft.jit(split)
    here = STEP % 2 == 0
    close(split(V), np.where(here, V**3, np.sin(V)))
    close(weft.grad(lambda x: split(x).sum())(V), np.where(here, 3 * V**2, np.cos(V)))


def test_buffers_inside_of_shard_map():
    mesh = weft.make_mesh((2,), ("d",))
    split = weft.shard_map(product(F32), mesh=mesh, in_specs=(P(), P()), out_specs=P())
    close(weft.jit(split)(A, B), A @ B)


def test_64_bits():
    with weft.enable_x64():
        x = np.linspace(0, 1, 16)
        found = call(
            lambda x, o: o.set(jnp.sin(x[...])),
            S((16,), np.float64),
            grid=4,
            in_specs=[pl.BlockSpec((4,), lambda i: (jnp.int64(i),))],
            out_specs=BLOCKS,
        )(x)
        close(found, np.sin(x), rtol=1e-14)


def test_jitted_functions_know_where_the_kernel_is():
    @weft.jit
    def helper(x):
        return x + pl.program_id(0) * 10

    def kernel(x, o):
        o[...] = helper(x[...])

    found = call(kernel, S((16,), F32), grid=4, in_specs=[BLOCKS], out_specs=BLOCKS)(V)
    close(found, V + 10 * STEP)
    column = pl.BlockSpec((4,), lambda i, j: (j,))
    found = call(kernel, S((16,), F32), grid=(1, 4), in_specs=[column], out_specs=column)(V)
    close(found, V)


def test_a_kernel_in_a_kernel():
    def outer(x, o):
        o[...] = in_blocks(x[...]) + pl.program_id(0)

    close(call(outer, S((16,), F32), grid=2)(V), VALUE + 1)


def test_references_from_outside():
    total = weft.new_ref(jnp.zeros(4))

    def kernel(x, o):
        total[...] += x[...]
        o[...] = x[...]

    call(kernel, S((16,), F32), grid=4, in_specs=[BLOCKS], out_specs=BLOCKS)(V)
    close(total[...], V.reshape(4, 4).sum(0))


def test_kernels_described_anew_are_compiled_once(monkeypatch):
    def kernel(x, o):
        o[...] = x[...]

    def run(factor, size=4):
        def blocks():
            return pl.BlockSpec((size,), lambda i: (factor * i,))

        out = S((16,), F32)
        return call(kernel, out, grid=2, in_specs=[blocks()], out_specs=blocks())(V)

    weft.clear_caches()
    run(1)
    compiled = counted_compilations(monkeypatch)
    for _ in range(2):
        run(1)
    assert compiled == []
    close(run(2), np.where(STEP % 2 == 0, V, np.nan))
    close(run(1, 8), V)
    assert len(compiled) == 2
    spec = {"grid": 2, "out_specs": pl.BlockSpec((8,), lambda i: (i,))}
    for in_specs in (pl.no_block_spec, [pl.BlockSpec()]):  # a whole array, said in two ways
        with pytest.raises(weft.errors.ShapeError):
            call(kernel, S((16,), F32), in_specs=in_specs, **spec)(V)
