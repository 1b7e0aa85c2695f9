"""PyTorch on the CPU, for the steady workloads and a few eager figures.

    python benchmarks/run.py --lib weft --vs torch --vs-python OTHER/bin/python --only steady

The metric names are those of the cases, so that the driver sets them side by side. `torch-compile`
needs a C++ compiler on the path.
"""

import numpy as np
import torch

import workloads
from timers import MS, US, Figures, emit, failure, per_call, steps

t = torch.from_numpy


def nothing(_):
    pass


def run(name, compiled):
    torch.set_num_threads(torch.get_num_threads())
    f = {"steady": steady, "eager_ops": eager_ops, "eager_transforms": eager_transforms}.get(name)
    figures = Figures()
    if f is None:
        emit(failure("", "PyTorch has no counterpart of this case"))
        return
    f(figures, (lambda g: torch.compile(g)) if compiled else (lambda g: g))


def tree(x):
    if isinstance(x, dict):
        return {k: tree(v) for k, v in x.items()}
    if isinstance(x, list):
        return [tree(v) for v in x]
    return t(np.ascontiguousarray(x)).requires_grad_()


def leaves(x):
    if isinstance(x, dict):
        return [leaf for v in x.values() for leaf in leaves(v)]
    if isinstance(x, list):
        return [leaf for v in x for leaf in leaves(v)]
    return [x]


def gpt_loss(c):
    B, T, D, H = c.batch, c.seq, c.d, c.heads
    F = torch.nn.functional
    mask = torch.tril(torch.ones(T, T, dtype=torch.bool))

    def ln(x, p):
        return F.layer_norm(x, (D,), p["g"], p["b"])

    def loss(p, tok, tgt):
        x = p["wte"][tok] + p["wpe"]
        for b in p["blocks"]:
            a = b["attn"]
            qkv = ln(x, b["ln1"]) @ a["wqkv"] + a["bqkv"]
            q, k, v = qkv.reshape(B, T, 3, H, D // H).permute(2, 0, 3, 1, 4)
            s = (q @ k.transpose(-1, -2)) * (D // H) ** -0.5
            s = s.masked_fill(~mask, -1e9).softmax(-1)
            o = (s @ v).permute(0, 2, 1, 3).reshape(B, T, D)
            x = x + o @ a["wo"] + a["bo"]
            h = ln(x, b["ln2"]) @ b["mlp"]["w1"] + b["mlp"]["b1"]
            h = F.gelu(h, approximate="tanh")
            x = x + h @ b["mlp"]["w2"] + b["mlp"]["b2"]
        z = ln(x, p["lnf"]) @ p["wte"].T
        return F.cross_entropy(z.reshape(B * T, -1), tgt.reshape(-1).long())

    return loss


def steady(figures, wrap):
    with figures.part("mlp_sgd_784_512_512_10_b128"):
        ps = [
            (t(q["w"]).requires_grad_(), t(q["b"]).requires_grad_())
            for q in workloads.mlp_params([784, 512, 512, 10])
        ]
        flat = [w for q in ps for w in q]
        opt = torch.optim.SGD(flat, lr=0.01, momentum=0.9)
        x, y = t(workloads.f32(128, 784)), torch.arange(128) % 10

        def loss(x):
            for w, b in ps[:-1]:
                x = torch.relu(x @ w + b)
            return torch.nn.functional.cross_entropy(x @ ps[-1][0] + ps[-1][1], y)

        loss = wrap(loss)

        def fn():
            opt.zero_grad(set_to_none=True)
            loss(x).backward()
            opt.step()

        figures.add("step", steps(fn, nothing) * MS, "ms")
    with figures.part("gpt_adam_L4_d128_T64_B8"):
        c = workloads.GPT(**workloads.GPT_CPU)
        p, tok, tgt = workloads.gpt_numpy(c)
        p = tree(p)
        opt = torch.optim.Adam(leaves(p), lr=1e-3, foreach=True)
        f = wrap(gpt_loss(c))
        tok, tgt = t(tok).long(), t(tgt)

        def fn():
            opt.zero_grad(set_to_none=True)
            f(p, tok, tgt).backward()
            opt.step()

        figures.add("step", steps(fn, nothing) * MS, "ms")
    with figures.part("nbody_512_10steps"):

        def accel(pos, mass):
            d = pos[None] - pos[:, None]
            r2 = (d * d).sum(-1) + 1e-2
            w = mass[None] / (r2 * r2.sqrt())
            return (d * w[:, :, None]).sum(1)

        def one(pos, vel, mass):
            vel = vel + 5e-4 * accel(pos, mass)
            pos = pos + 1e-3 * vel
            return pos, vel + 5e-4 * accel(pos, mass)

        one = wrap(one)
        pos, vel = t(workloads.f32(512, 3)), t(workloads.f32(512, 3, seed=1))
        mass = t(np.abs(workloads.f32(512, seed=2)))

        def fn():
            a, b = pos, vel
            for _ in range(10):
                a, b = one(a, b, mass)

        figures.add("call", steps(fn, nothing) * MS, "ms")
    with figures.part("heat_512x512_100_fori"):

        def one(u):
            p = torch.nn.functional.pad(u, (1, 1, 1, 1))
            lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u
            return u + 0.2 * lap

        one = wrap(one)
        u0 = t(workloads.f32(512, 512))

        def fn():
            u = u0
            for _ in range(100):
                u = one(u)

        figures.add("call", steps(fn, nothing) * MS, "ms")
    with figures.part("matmul_1024"):
        a = t(workloads.f32(1024, 1024))
        figures.add("call", steps(lambda: a @ a, nothing, budget=2.0) * MS, "ms")
    with figures.part("batched_matmul_64x128"):
        a = t(workloads.f32(64, 128, 128))
        figures.add("call", steps(lambda: a @ a, nothing, budget=2.0) * MS, "ms")
    with figures.part("batched_solve_64x64"):
        a = t(workloads.f32(64, 64, 64) + 8 * np.eye(64, dtype=np.float32))
        b = t(workloads.f32(64, 64, 1))
        figures.add("call", steps(lambda: torch.linalg.solve(a, b), nothing, budget=2.0) * MS, "ms")
    with figures.part("logreg_hvp_4096x256"):
        X, y = t(workloads.f32(4096, 256)), t(np.sign(workloads.f32(4096, seed=2)))

        def loss(w):
            return torch.nn.functional.softplus(-y * (X @ w)).mean() + 1e-3 * (w * w).sum()

        w, v = t(workloads.f32(256, scale=0.1)), t(workloads.f32(256, seed=1))
        hvp = wrap(lambda w, v: torch.func.jvp(torch.func.grad(loss), (w,), (v,))[1])
        figures.add("call", steps(lambda: hvp(w, v), nothing, budget=2.0) * MS, "ms")


def eager_ops(figures, wrap):
    x, y, m = (
        t(workloads.f32(8, seed=1)),
        t(workloads.f32(8, seed=2)),
        t(workloads.f32(16, 16, seed=3)),
    )
    idx = torch.tensor([1, 3, 5])
    b = x > 0
    ops = {
        "jnp.add": lambda: torch.add(x, y),
        "x+y": lambda: x + y,
        "x+1.0": lambda: x + 1.0,
        "jnp.sin": lambda: torch.sin(x),
        "jnp.sum": lambda: torch.sum(x),
        "x@y_16x16": lambda: m @ m,
        "x[2:5]": lambda: x[2:5],
        "x[3]": lambda: x[3],
        "x[idx_array]": lambda: x[idx],
        "jnp.where": lambda: torch.where(b, x, y),
        "jnp.reshape": lambda: m.reshape(4, 64),
        "jnp.concatenate": lambda: torch.cat([x, y]),
        "jnp.stack": lambda: torch.stack([x, y]),
        "jnp.zeros": lambda: torch.zeros(8),
        "jnp.arange": lambda: torch.arange(8),
        "jnp.mean_axis": lambda: m.mean(0),
        "x==y": lambda: x == y,
    }
    for name, fn in ops.items():
        with figures.part(name):
            figures.add("async", per_call(fn, budget=0.25) * US, "us")


def eager_transforms(figures, wrap):
    ps = [
        (t(q["w"]).requires_grad_(), t(q["b"]).requires_grad_())
        for q in workloads.mlp_params([16, 32, 32, 4])
    ]
    flat = [w for q in ps for w in q]
    x, y = t(workloads.f32(8, 16)), t(workloads.f32(8, 4))

    def loss(ps, x, y):
        for w, b in ps[:-1]:
            x = torch.tanh(x @ w + b)
        d = x @ ps[-1][0] + ps[-1][1] - y
        return (d * d).mean()

    with figures.part("forward"):
        with torch.no_grad():
            figures.add("call", per_call(lambda: loss(ps, x, y)) * MS, "ms")
    with figures.part("grad"):
        figures.add("call", per_call(lambda: torch.autograd.grad(loss(ps, x, y), flat)) * MS, "ms")
    with figures.part("vmap_grad"):
        qs = [tuple(w.detach() for w in q) for q in ps]
        g = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
        figures.add("call", per_call(lambda: g(qs, x, y)) * MS, "ms")
    with figures.part("vmap"):
        g = torch.func.vmap(lambda a, b: loss(qs, a, b))
        figures.add("call", per_call(lambda: g(x, y)) * MS, "ms")
