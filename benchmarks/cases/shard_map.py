"""shard_map in itself: tracing and lowering it, and bodies of some length called with no jit."""

import gc

import ir_stats
import workloads
from cases.registry import case
from cases.sharded import data_parallel_mlp, make_mesh, sharded_programs, sharding_names
from timers import MS, Figures, median_of, once, once_cpu


@case(devices=8, reps=5)
def shard_trace(lib):
    """Tracing and lowering programs over eight devices, each time of another function."""
    figures = Figures()
    abstract = lambda a: lib.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)
    for name in sharded_programs(lib):
        traces, lowerings = [], []
        with figures.part(name):
            for number in range(6):
                f, args = sharded_programs(lib, number)[name]
                args = workloads.tree_map(lib, abstract, args)
                gc.collect()
                taken, traced = once_cpu(lambda f=f, args=args: lib.jit(f).trace(*args))
                traces.append(taken)
                taken, lowered = once_cpu(traced.lower)
                lowerings.append(taken)
            figures.add("trace_cold", traces[0], "cpu s")
            figures.add("lower_cold", lowerings[0], "cpu s")
            figures.add("trace_warm", sorted(traces[1:])[2], "cpu s")
            figures.add("lower_warm", sorted(lowerings[1:])[2], "cpu s")
            both = sorted(t + w for t, w in zip(traces[1:], lowerings[1:], strict=True))
            figures.add("trace_and_lower_warm", both[2], "cpu s")
            figures.add("eqns_all", ir_stats.count_eqns(traced.jaxpr)[1], "count")
            text = lowered.as_text()
            figures.add("stablehlo_ops", sum(" = " in line for line in text.splitlines()), "count")
    return figures


@case(devices=8, reps=3, timeout=1200)
def shard_eager_bodies(lib):
    """Longer bodies of shard_map called with no jit: the first call, and those after it."""
    figures = Figures()
    P, NS = sharding_names(lib)
    block = lib.block_until_ready
    mesh = make_mesh(lib, (8,), ("i",))
    put = lambda a, *s: lib.device_put(a, NS(mesh, P(*s)))

    def measure(f, *args):
        figures.add("first", once(lambda: block(f(*args)))[0] * MS, "ms")
        figures.add("second", once(lambda: block(f(*args)))[0] * MS, "ms")
        figures.add("call", median_of(lambda: block(f(*args)), 7) * MS, "ms")

    with figures.part("chain20"):
        chain = workloads.chain_lax(lib, 20)
        x, a, b = (put(workloads.f32(64, 8, seed=i), "i") for i in range(3))
        f = lib.shard_map(chain, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        measure(f, x, a, b)
    with figures.part("chain20_psum"):
        total = lambda x, a, b: lib.lax.psum(chain(x, a, b), "i")
        f = lib.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P())
        measure(f, x, a, b)
    with figures.part("mlp8_grad"):
        params = workloads.tree_map(lib, put, workloads.mlp_params([32] * 9))
        inputs, targets = (put(workloads.f32(64, 32, seed=i), "i") for i in range(2))
        measure(lib.grad(data_parallel_mlp(lib, mesh, P)), params, inputs, targets)
    return figures
