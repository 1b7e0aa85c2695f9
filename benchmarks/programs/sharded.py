"""Programs over a mesh of eight host devices."""

import numpy as np

import workloads
from cases.sharded import data_parallel_mlp, make_mesh, sharding_names
from programs.registry import program


def put_on(lib, mesh, P, NS, tree, *spec):
    """A tree of arrays, spread over the mesh."""
    return workloads.tree_map(lib, lambda a: lib.device_put(a, NS(mesh, P(*spec))), tree)


def data_parallel(lib, size):
    P, NS = sharding_names(lib)
    mesh = make_mesh(lib, (8,), ("i",))
    width, batch = size(256, 4), size(2048, 16)
    params = put_on(lib, mesh, P, NS, workloads.mlp_params([width] * 5))
    data = [workloads.f32(batch, width, seed=i) for i in range(2)]
    return data_parallel_mlp(lib, mesh, P), (params, *put_on(lib, mesh, P, NS, data, "i"))


@program(devices=8)
def sharded_mlp_loss(lib, size):
    """The loss of a network whose batch is spread over eight devices."""
    return data_parallel(lib, size)


@program(devices=8)
def sharded_mlp_training(lib, size):
    """A step of training of that network: gradients summed over the devices."""
    loss, arguments = data_parallel(lib, size)

    def step(params, x, y):
        value, gradient = lib.value_and_grad(loss)(params, x, y)
        return workloads.tree_map(lib, lambda p, g: p - 0.01 * g, params, gradient), value

    return step, arguments


@program(devices=8)
def sharded_stencil(lib, size):
    """The heat equation in strips, whose edges are exchanged with `ppermute`."""
    P, NS = sharding_names(lib)
    jnp, lax = lib.numpy, lib.lax
    mesh = make_mesh(lib, (8,), ("i",))
    n, steps = size(512, 16), size(20, 3)
    down, up = [(i, i + 1) for i in range(7)], [(i + 1, i) for i in range(7)]

    def local(u):
        def move(_, u):
            above, below = lax.ppermute(u[-1:], "i", down), lax.ppermute(u[:1], "i", up)
            p = jnp.pad(jnp.concatenate([above, u, below]), ((0, 0), (1, 1)))
            lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u
            return u + 0.2 * lap

        return lax.fori_loop(0, steps, move, u)

    step = lib.shard_map(local, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return step, (put_on(lib, mesh, P, NS, workloads.f32(n, n), "i"),)


@program(devices=8)
def sharded_attention(lib, size):
    """Attention and a gated layer whose heads and units are spread by shardings alone."""
    P, NS = sharding_names(lib)
    jnp = lib.numpy
    mesh = make_mesh(lib, (2, 4), ("data", "model"))
    batch, t, heads, d = size(8, 2), size(64, 4), size(8, 4), size(32, 2)
    width = heads * d

    def step(p, x):
        def loss(p):
            q, k, v = jnp.einsum("btm,cmhd->cbthd", x, p["qkv"])
            score = lib.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(d))
            y = x + jnp.einsum("bhts,bshd,hdm->btm", score, v, p["out"])
            return jnp.mean((y + lib.nn.silu(y @ p["w1"]) @ p["w2"]) ** 2)

        return lib.value_and_grad(loss)(p)

    def put(array, *spec):
        return lib.device_put(array, NS(mesh, P(*spec)))

    scale = width**-0.5
    params = {
        "qkv": put(workloads.f32(3, width, heads, d, scale=scale), None, None, "model"),
        "out": put(workloads.f32(heads, d, width, seed=1, scale=scale), "model"),
        "w1": put(workloads.f32(width, 4 * width, seed=2, scale=scale), None, "model"),
        "w2": put(workloads.f32(4 * width, width, seed=3, scale=scale / 2), "model"),
    }
    return step, (params, put(workloads.f32(batch, t, width, seed=4), "data"))
