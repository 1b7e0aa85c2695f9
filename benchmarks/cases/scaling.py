"""How cost grows with the length of a program and with the number of leaves of a tree."""

import gc

import numpy as np

import workloads
from cases.registry import case
from timers import US, Figures, growth, median_of, once_cpu, per_call


@case(reps=3, timeout=900)
def scale_chain(lib):
    figures = Figures()
    vec = (lib.ShapeDtypeStruct((8,), np.dtype(np.float32)),) * 3
    ns = [1000, 2000, 4000, 8000, 16000, 32000]
    lib.make_jaxpr(workloads.chain_lax(lib, 100))(*vec)
    lib.jit(workloads.chain_lax(lib, 100)).trace(*vec).lower()

    def series(name, fn):
        with figures.part(name):
            ts = []
            for n in ns:
                gc.collect()
                t = min(fn(n) for _ in range(2))
                ts.append(t)
                figures.add(f"n{n}", t / n * US, "us/eqn")
            figures.add("growth_exponent", growth(ns, ts), "slope")

    def lower(n):
        tr = lib.jit(workloads.chain_lax(lib, n)).trace(*vec)
        return once_cpu(tr.lower)[0]

    series(
        "make_jaxpr",
        lambda n: once_cpu(lambda: lib.make_jaxpr(workloads.chain_lax(lib, n))(*vec))[0],
    )
    series(
        "grad_make_jaxpr",
        lambda n: once_cpu(
            lambda: lib.make_jaxpr(
                lib.grad(lambda *a: lib.numpy.sum(workloads.chain_lax(lib, n)(*a)))
            )(*vec)
        )[0],
    )
    series("lower", lower)
    return figures


@case(reps=3)
def scale_pytree(lib):
    figures = Figures()
    jnp, block = lib.numpy, lib.block_until_ready
    ns = [10, 100, 1000, 10000]

    def series(name, fn, ns=ns):
        with figures.part(name):
            ts = []
            for n in ns:
                t = fn(n)
                ts.append(t)
                figures.add(f"leaves{n}", t * US, "us")
            figures.add("growth_exponent_last2", growth(ns[-2:], ts[-2:]), "slope")

    one = jnp.asarray(workloads.f32(8))
    trees = {n: [one] * n for n in ns}

    def call_in(n):
        g = lib.jit(lambda t: t[0] + 1)
        return per_call(lambda: block(g(trees[n])), budget=0.4)

    def call_inout(n):
        g = lib.jit(lambda t: workloads.tree_map(lib, lambda a: a + 1, t))
        return per_call(lambda: block(g(trees[n])), budget=0.4)

    def grad_one(n):  # eager grad that reads one leaf: the cost per leaf
        g = lib.grad(lambda t: t[0][0])
        return median_of(lambda: block(g(trees[n])), 3)

    def trace_grad(n):
        args = [lib.ShapeDtypeStruct((8,), np.dtype(np.float32))] * n
        f = lambda t: sum((jnp.sum(a * a) for a in t[1:]), jnp.sum(t[0]))
        return min(
            once_cpu(lambda: lib.make_jaxpr(lib.grad(lambda t: f(t)))(args))[0] for _ in range(2)
        )

    def flatten(n):
        d = {f"k{i}": {"a": one} for i in range(n)}
        return per_call(
            lambda: lib.tree_util.tree_unflatten(*reversed(lib.tree_util.tree_flatten(d))),
            budget=0.3,
        )

    series("jit_call_in", call_in)
    series("jit_call_in_out", call_inout, ns=[10, 100, 1000])
    series("eager_grad_one_leaf_used", grad_one)
    series("trace_grad_all_leaves", trace_grad)
    series("flatten_unflatten_dict", flatten)
    return figures
