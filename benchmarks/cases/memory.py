"""The memory of reverse mode, through long loops and with recomputation."""

import numpy as np

import workloads
from cases.registry import case
from timers import MS, Figures, steps


@case(reps=3)
def reverse_memory(lib):
    figures = Figures()
    block = lib.block_until_ready

    def report(name, f, *args):
        with figures.part(name):
            exe = lib.jit(f).trace(*args).lower().compile()
            with figures.part():
                m = exe.memory_analysis()
                figures.add("temp", m.temp_size_in_bytes / 2**20, "MiB")
                figures.add("peak", getattr(m, "peak_memory_in_bytes", 0) / 2**20, "MiB")
            figures.add("run", steps(lambda: exe(*args), block, budget=1.5) * MS, "ms")

    p = workloads.to_lib(
        lib,
        {
            "w": workloads.f32(128, 128, scale=0.05),
            "u": workloads.f32(64, 128, scale=0.05),
            "b": np.zeros(128, np.float32),
        },
    )
    h = lib.numpy.asarray(np.zeros((32, 128), np.float32))
    xs = lib.numpy.asarray(workloads.f32(1000, 32, 64))
    report("scan1000_fwd", workloads.rnn_loss(lib), p, h, xs)
    report("scan1000_grad", lib.grad(workloads.rnn_loss(lib)), p, h, xs)

    d, b, L = 256, 1024, 24
    r = workloads.rng(0)
    layers = [
        {k: (r.standard_normal((d, d)) / np.sqrt(d)).astype(np.float32) for k in ("w1", "w2")}
        for _ in range(L)
    ]
    stacked = {k: np.stack([q[k] for q in layers]) for k in ("w1", "w2")}
    layers, stacked = workloads.to_lib(lib, layers), workloads.to_lib(lib, stacked)
    x = lib.numpy.asarray(workloads.f32(b, d))
    for scan in (False, True):
        for remat in (False, True):
            name = f"mlp24_{'scan' if scan else 'unrolled'}" + ("_remat" if remat else "")
            with figures.part():
                report(
                    name,
                    lib.grad(workloads.deep_mlp_loss(lib, remat, scan)),
                    stacked if scan else layers,
                    x,
                )
    return figures


@case(reps=3)
def transformer_gradient(lib):
    """Temporary memory and time of a step's gradient: one block after another, scanned, and
    computed again."""
    figures = Figures()
    c = workloads.GPT(**workloads.GPT_CPU | {"seq": 128})
    params, *batch = workloads.gpt_numpy(c)
    blocks = workloads.tree_map(lib, lambda *xs: np.stack(xs), *params["blocks"])
    tokens, targets = workloads.to_lib(lib, batch)
    for how in ("unrolled", "scan", "checkpoint"):
        with figures.part(how):
            own = workloads.to_lib(
                lib, params if how == "unrolled" else params | {"blocks": blocks}
            )
            loss = workloads.gpt_loss(lib, c, use_nn=True, how=how)
            exe = lib.jit(lib.value_and_grad(loss)).trace(own, tokens, targets).lower().compile()
            temp = exe.memory_analysis().temp_size_in_bytes
            figures.add("temp", temp / 2**20, "MiB")
            run = steps(lambda: exe(own, tokens, targets), lib.block_until_ready, budget=2.0)
            figures.add("run", run * MS, "ms")
    return figures
