"""Where the time of one subject goes: profile_case.py LIB SUBJECT [--top N].

Prints the self time by Python file and by function (cProfile, which slows Python code more than
native code, so read shares, not seconds). For the share of native code without that distortion run
the same under perf:

    perf record -q -F 2000 -D 3000 -o p.data python benchmarks/profile_case.py jax add --bare
    perf report -i p.data --sort dso --stdio
"""

import argparse
import collections
import cProfile
import pstats
import time

import numpy as np

import workloads
from cases.sharded import make_mesh
from child import load


def subjects(lib):
    jnp, lax, block = lib.numpy, lib.lax, lib.block_until_ready
    vec = (lib.ShapeDtypeStruct((8,), np.dtype(np.float32)),) * 3
    x, y = jnp.asarray(workloads.f32(8)), jnp.asarray(workloads.f32(8, seed=1))
    idx = jnp.asarray(np.array([1, 3, 5], np.int32))
    p = workloads.to_lib(lib, workloads.mlp_params([16, 32, 32, 4]))
    bx, by = (jnp.asarray(workloads.f32(8, k)) for k in (16, 4))
    loss = workloads.mlp_loss(lib)
    c = workloads.GPT(**workloads.GPT2_SMALL)

    def repeat(f, n):
        def run():
            for _ in range(n):
                f()

        return run

    def lowered(make, args):
        traced = [lib.jit(make()).trace(*args) for _ in range(6)]
        return lambda: [t.lower() for t in traced]

    chain = lambda n=5000: workloads.chain_lax(lib, n)
    s = {
        "add": lambda: repeat(lambda: jnp.add(x, y), 30000),
        "lax_add": lambda: repeat(lambda: lax.add(x, y), 30000),
        "jit_call": lambda: (lambda g: repeat(lambda: g(x), 50000))(lib.jit(lambda x: x + 1)),
        "slice": lambda: repeat(lambda: x[2:5], 4000),
        "gather": lambda: repeat(lambda: x[idx], 2000),
        "at_set": lambda: repeat(lambda: x.at[2].set(1.0), 2000),
        "zeros": lambda: repeat(lambda: jnp.zeros((8,)), 4000),
        "einsum": lambda: (lambda m: repeat(lambda: jnp.einsum("bd,de->be", m, m), 2000))(
            jnp.asarray(workloads.f32(8, 8))
        ),
        "eager_grad": lambda: repeat(lambda: block(lib.grad(loss)(p, bx, by)), 100),
        "eager_vmap": lambda: repeat(
            lambda: block(lib.vmap(lambda a, b: loss(p, a, b))(bx, by)), 200
        ),
        "eager_jvp": lambda: repeat(
            lambda: block(lib.jvp(lambda q: loss(q, bx, by), (p,), (p,))), 200
        ),
        "grad_1000_leaves": lambda: (
            lambda t: repeat(lambda: block(lib.grad(lambda t: t[0][0])(t)), 5)
        )([x] * 1000),
        "trace_chain": lambda: repeat(lambda: lib.make_jaxpr(chain())(*vec), 10),
        "trace_chain_ops": lambda: repeat(
            lambda: lib.make_jaxpr(workloads.chain_ops(lib, 5000))(*vec), 4
        ),
        "trace_chain_grad": lambda: repeat(
            lambda: lib.make_jaxpr(lib.grad(lambda *a, f=chain(): jnp.sum(f(*a))))(*vec), 2
        ),
        "trace_gpt": lambda: repeat(
            lambda: lib.make_jaxpr(lambda *a: workloads.gpt_loss(lib, c)(*a))(
                *workloads.gpt_abstract(lib, c)
            ),
            10,
        ),
        "trace_gpt_grad": lambda: repeat(
            lambda: lib.make_jaxpr(lib.value_and_grad(lambda *a: workloads.gpt_loss(lib, c)(*a)))(
                *workloads.gpt_abstract(lib, c)
            ),
            4,
        ),
        "lower_chain": lambda: lowered(chain, vec),
        "lower_gpt_grad": lambda: lowered(
            lambda: lib.value_and_grad(lambda *a: workloads.gpt_loss(lib, c)(*a)),
            workloads.gpt_abstract(lib, c),
        ),
        "compile_tiny": lambda: repeat(lambda: lib.jit(lambda x: x + 1)(x), 20),
        "device_put_100": lambda: (lambda h: repeat(lambda: block(lib.device_put(h)), 50))(
            [workloads.f32(8, seed=k) for k in range(100)]
        ),
    }
    if len(lib.devices()) >= 8:
        P, NS = lib.sharding.PartitionSpec, lib.sharding.NamedSharding
        m = make_mesh(lib, (8,), ("i",))
        xs = lib.device_put(workloads.f32(8), NS(m, P("i")))
        f = lib.shard_map(lambda a: a + 1, mesh=m, in_specs=P("i"), out_specs=P("i"))
        s["eager_shard_map"] = lambda: repeat(lambda: block(f(xs)), 10)
        s["sharded_device_put"] = lambda: repeat(
            lambda: block(lib.device_put(workloads.f32(8), NS(m, P("i")))), 1000
        )
        s["sharded_asarray"] = lambda: (lambda g: repeat(lambda: np.asarray(g(xs)), 500))(
            lib.jit(lambda a: a + 1)
        )
    return s


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("lib")
    ap.add_argument("subject", nargs="?")
    ap.add_argument("--top", type=int, default=14)
    ap.add_argument("--bare", action="store_true", help="only run it (for perf)")
    ap.add_argument("--seconds", type=float, default=8, help="with --bare")
    a = ap.parse_args()
    s = subjects(load(a.lib))
    if not a.subject:
        print("\n".join(s))
        return
    run = s[a.subject]()
    if a.bare:
        end = time.perf_counter() + a.seconds
        while time.perf_counter() < end:
            s[a.subject]()()
        return
    s[a.subject]()()  # warm
    run = s[a.subject]()
    pr = cProfile.Profile()
    pr.enable()
    run()
    pr.disable()
    st = pstats.Stats(pr)
    total = sum(v[2] for v in st.stats.values())
    files, funcs, calls = collections.Counter(), collections.Counter(), {}
    for (fn, line, name), (_, nc, tt, _, _) in st.stats.items():
        short = fn.split("site-packages/")[-1]
        files["(native) " + name[:40] if fn == "~" else short] += tt
        funcs[f"{short}:{line} {name[:60]}"] += tt
        calls[f"{short}:{line} {name[:60]}"] = nc
    ncalls = sum(v[1] for v in st.stats.values())
    print(f"total {total:.3f} s, {ncalls} calls")
    for k, v in files.most_common(a.top):
        print(f"  {100 * v / total:5.1f}%  {k}")
    print("by function")
    for k, v in funcs.most_common(a.top):
        print(f"  {100 * v / total:5.1f}%  {calls[k]:8d}  {k}")


if __name__ == "__main__":
    main()
