"""From a function to a program: tracing, lowering, compiling, and the first step of training."""

import gc

import numpy as np

import ir_stats
import workloads
from cases.registry import case
from timers import US, Figures, once, once_cpu


def _trace(figures, lib, make, args, warm=4):
    """Cold and warm make_jaxpr, each on a fresh function object."""
    t0, jx = once_cpu(lambda: lib.make_jaxpr(make())(*args))
    top, total = ir_stats.count_eqns(jx)
    figures.add("cold", t0, "cpu s")
    ts = []
    for _ in range(warm):
        f = make()
        gc.collect()
        dt, jx = once_cpu(lambda: lib.make_jaxpr(f)(*args))
        ts.append(dt)
    med = sorted(ts)[len(ts) // 2]
    figures.add("warm", med, "cpu s")
    figures.add("warm_per_eqn", med / total * US, "us")
    figures.add("eqns_top", top, "count")
    figures.add("eqns_all", total, "count")


def _programs(lib, small=False):
    """name -> (make() giving a fresh function, args): the traced programs."""
    vec = lib.ShapeDtypeStruct((8,), np.dtype(np.float32))
    c = workloads.GPT(**(workloads.GPT_TINY if small else workloads.GPT2_SMALL))
    ga = workloads.gpt_abstract(lib, c)

    def wrap(f):  # a fresh function object, so that no cache on it can hit
        return lambda *a: f(*a)

    return {
        "a_chain5000": (lambda: workloads.chain_lax(lib, 5000), (vec,) * 3),
        "b_gpt_fwd": (lambda: wrap(workloads.gpt_loss(lib, c)), ga),
        "c_gpt_grad": (lambda: lib.value_and_grad(wrap(workloads.gpt_loss(lib, c))), ga),
    }


@case()
def trace(lib):
    figures = Figures()
    for name, (make, args) in _programs(lib).items():
        with figures.part(name):
            _trace(figures, lib, make, args)
    vec = lib.ShapeDtypeStruct((8,), np.dtype(np.float32))
    with figures.part("a2_chain5000_operators"):
        _trace(figures, lib, lambda: workloads.chain_ops(lib, 5000), (vec,) * 3)
    with figures.part("a3_chain5000_grad"):
        _trace(
            figures,
            lib,
            lambda: lib.grad(
                lambda x, a, b, f=workloads.chain_lax(lib, 5000): lib.numpy.sum(f(x, a, b))
            ),
            (vec,) * 3,
        )
    with figures.part("b2_gpt_fwd_nn"):
        c = workloads.GPT(**workloads.GPT2_SMALL)
        _trace(
            figures,
            lib,
            lambda: (lambda f: lambda *a: f(*a))(workloads.gpt_loss(lib, c, use_nn=True)),
            workloads.gpt_abstract(lib, c),
        )
    with figures.part("c2_gpt_adam_step"):
        c = workloads.GPT(**workloads.GPT2_SMALL)
        p, tok, tgt = workloads.gpt_abstract(lib, c)
        t = lib.ShapeDtypeStruct((), np.dtype(np.float32))
        _trace(
            figures,
            lib,
            lambda: workloads.adam(lib, workloads.gpt_loss(lib, c)),
            (p, p, p, t, tok, tgt),
        )
    with figures.part("d_vmap_grad_mlp6"):
        p = workloads.to_shapes(lib, workloads.mlp_params([64] * 7))
        x = lib.ShapeDtypeStruct((32, 64), np.dtype(np.float32))
        _trace(
            figures,
            lib,
            lambda: lib.vmap(
                lib.grad(lambda p, x, y, f=workloads.mlp_loss(lib): f(p, x, y)),
                in_axes=(None, 0, 0),
            ),
            (p, x, x),
        )
    with figures.part("e_hvp_logreg"):
        w = lib.ShapeDtypeStruct((16,), np.dtype(np.float32))
        X = lib.ShapeDtypeStruct((64, 16), np.dtype(np.float32))
        y = lib.ShapeDtypeStruct((64,), np.dtype(np.float32))
        _trace(figures, lib, lambda: workloads.hvp(lib, workloads.logreg_loss(lib)), (w, w, X, y))
    with figures.part("f_grad_scan_rnn"):
        p = {"w": (32, 32), "u": (8, 32), "b": (32,)}
        p = {k: lib.ShapeDtypeStruct(s, np.dtype(np.float32)) for k, s in p.items()}
        h = lib.ShapeDtypeStruct((4, 32), np.dtype(np.float32))
        xs = lib.ShapeDtypeStruct((100, 4, 8), np.dtype(np.float32))
        _trace(
            figures, lib, lambda: lib.grad(lambda *a, f=workloads.rnn_loss(lib): f(*a)), (p, h, xs)
        )
    return figures


def _lower(figures, lib, make, args, reps=3):
    ts, tt = [], []
    for _ in range(reps + 1):
        f = lib.jit(make())
        gc.collect()
        a, traced = once_cpu(lambda: f.trace(*args))
        b, lowered = once_cpu(traced.lower)
        tt.append(a)
        ts.append(b)
    figures.add("jit_trace_warm", sorted(tt[1:])[len(tt[1:]) // 2], "cpu s")
    figures.add("lower_cold", ts[0], "cpu s")
    warm = sorted(ts[1:])[len(ts[1:]) // 2]
    figures.add("lower_warm", warm, "cpu s")
    dt, text = once(lowered.as_text)
    n_ops = sum(" = " in line for line in text.splitlines())
    figures.add("stablehlo_chars", len(text), "count")
    figures.add("stablehlo_ops", n_ops, "count")
    figures.add("lower_warm_per_op", warm / max(n_ops, 1) * US, "us")
    figures.add("as_text", dt, "s")
    return lowered


@case()
def lower(lib):
    figures = Figures()
    for name, (make, args) in _programs(lib).items():
        with figures.part(name):
            _lower(figures, lib, make, args)
    return figures


@case("compile", reps=3, timeout=1200)
def compile_time(lib):
    figures = Figures()
    for name, (make, args) in _programs(lib).items():
        with figures.part(name):
            lowered = lib.jit(make()).trace(*args).lower()
            cpu, (dt, exe) = once_cpu(lambda: once(lowered.compile))
            figures.add("compile", dt, "s")
            figures.add("compile_cpu", cpu, "cpu s")
            figures.add("optimized_hlo_chars", len(exe.as_text()), "count")
    return figures


@case(reps=5)
def first_step(lib):
    """6c at small dims: from a fresh function to the first finished step."""
    figures = Figures()
    c = workloads.GPT(**workloads.GPT_TINY)
    p, tok, tgt = workloads.gpt_numpy(c)
    p, tok, tgt = workloads.to_lib(lib, (p, tok, tgt))
    lib.block_until_ready((p, tok, tgt))
    f = workloads.gpt_loss(lib, c)
    step = lib.jit(lib.value_and_grad(f))
    dt, r = once(lambda: lib.block_until_ready(step(p, tok, tgt)))
    figures.add("total", dt, "s")
    figures.add("second_step", once(lambda: lib.block_until_ready(step(p, tok, tgt)))[0], "s")
    with figures.part("parts"):  # again, taken apart, with the library loaded
        inner = workloads.gpt_loss(lib, c)

        # Another program: neither the first one's jaxpr nor its executable, also on disk, serves.
        def f2(*args):
            return 1.5 * inner(*args)

        a, tr = once(lambda: lib.jit(lib.value_and_grad(f2)).trace(p, tok, tgt))
        b, lo = once(tr.lower)
        d, ex = once(lo.compile)
        e, _ = once(lambda: lib.block_until_ready(ex(p, tok, tgt)))
        figures.add("trace", a, "s")
        figures.add("lower", b, "s")
        figures.add("compile", d, "s")
        figures.add("run", e, "s")
    with figures.part("eager"):
        f3 = workloads.gpt_loss(lib, c)
        dt, _ = once(lambda: lib.block_until_ready(lib.value_and_grad(f3)(p, tok, tgt)))
        figures.add("first_unjitted", dt, "s")
        dt, _ = once(lambda: lib.block_until_ready(lib.value_and_grad(f3)(p, tok, tgt)))
        figures.add("second_unjitted", dt, "s")
    return figures
