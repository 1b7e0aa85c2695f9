"""Steps of compiled programs once they run: here both libraries should be as fast as XLA."""

import numpy as np

import workloads
from cases.registry import case
from timers import MS, Figures, steps


@case(reps=5)
def steady(lib):
    figures = Figures()
    jnp, block = lib.numpy, lib.block_until_ready

    with figures.part("mlp_sgd_784_512_512_10_b128"):
        p = workloads.to_lib(lib, workloads.mlp_params([784, 512, 512, 10]))
        v = workloads.tree_map(lib, lambda a: a * 0, p)
        x = jnp.asarray(workloads.f32(128, 784))
        y = jnp.asarray(np.eye(10, dtype=np.float32)[np.arange(128) % 10])
        step = lib.jit(workloads.sgd_momentum(lib, workloads.mlp_xent(lib)))
        s = [p, v]

        def fn():
            s[0], s[1], val = step(s[0], s[1], x, y)
            return s, val

        figures.add("step", steps(fn, block) * MS, "ms")
    with figures.part("gpt_adam_L4_d128_T64_B8"):
        c = workloads.GPT(**workloads.GPT_CPU)
        p, tok, tgt = workloads.to_lib(lib, workloads.gpt_numpy(c))
        z = workloads.tree_map(lib, lambda a: a * 0, p)
        step = lib.jit(workloads.adam(lib, workloads.gpt_loss(lib, c)))
        s = [p, z, z, jnp.asarray(np.float32(0))]

        def fn():
            *s[:], val = step(*s, tok, tgt)
            return s, val

        figures.add("step", steps(fn, block) * MS, "ms")
    with figures.part("nbody_512_10steps"):
        run = lib.jit(workloads.nbody(lib))
        a = (
            jnp.asarray(workloads.f32(512, 3)),
            jnp.asarray(workloads.f32(512, 3, seed=1)),
            jnp.asarray(np.abs(workloads.f32(512, seed=2))),
        )
        figures.add("call", steps(lambda: run(*a), block) * MS, "ms")
    with figures.part("heat_512x512_100_fori"):
        run = lib.jit(workloads.heat_fori(lib))
        u = jnp.asarray(workloads.f32(512, 512))
        figures.add("call", steps(lambda: run(u), block) * MS, "ms")
    with figures.part("heat_512x512_100_scan"):
        run = lib.jit(workloads.heat_scan(lib))
        figures.add("call", steps(lambda: run(u), block) * MS, "ms")
    with figures.part("matmul_1024"):
        a = jnp.asarray(workloads.f32(1024, 1024))
        mm = lib.jit(lambda a, b: a @ b)
        figures.add("call", steps(lambda: mm(a, a), block, budget=2.0) * MS, "ms")
    with figures.part("batched_matmul_64x128"):
        a = jnp.asarray(workloads.f32(64, 128, 128))
        mm = lib.jit(lib.vmap(lambda a, b: a @ b))
        figures.add("call", steps(lambda: mm(a, a), block, budget=2.0) * MS, "ms")
    with figures.part("batched_solve_64x64"):
        a = jnp.asarray(workloads.f32(64, 64, 64) + 8 * np.eye(64, dtype=np.float32))
        b = jnp.asarray(workloads.f32(64, 64, 1))
        sv = lib.jit(lib.vmap(lambda a, b: lib.numpy.linalg.solve(a, b)))
        figures.add("call", steps(lambda: sv(a, b), block, budget=2.0) * MS, "ms")
    with figures.part("logreg_hvp_4096x256"):
        f = lib.jit(workloads.hvp(lib, workloads.logreg_loss(lib)))
        w, v = jnp.asarray(workloads.f32(256, scale=0.1)), jnp.asarray(workloads.f32(256, seed=1))
        X = jnp.asarray(workloads.f32(4096, 256))
        y = jnp.asarray(np.sign(workloads.f32(4096, seed=2)))
        figures.add("call", steps(lambda: f(w, v, X, y), block, budget=2.0) * MS, "ms")
    with figures.part("rnn_grad_1000x16x64"):
        p = workloads.to_lib(
            lib,
            {
                "w": workloads.f32(64, 64, scale=0.1),
                "u": workloads.f32(32, 64, scale=0.1),
                "b": np.zeros(64, np.float32),
            },
        )
        h, xs = (
            jnp.asarray(np.zeros((16, 64), np.float32)),
            jnp.asarray(workloads.f32(1000, 16, 32)),
        )
        f = lib.jit(lib.grad(workloads.rnn_loss(lib)))
        figures.add("call", steps(lambda: f(p, h, xs), block) * MS, "ms")
    return figures
