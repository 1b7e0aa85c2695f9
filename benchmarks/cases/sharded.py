"""Programs over eight host devices with shard_map, compiled and eager."""

import numpy as np

import workloads
from cases.registry import case
from timers import MS, US, Figures, median_of, once, per_call, per_call_async, steps


def sharding_names(lib):
    P = lib.sharding.PartitionSpec
    NS = lib.sharding.NamedSharding
    return P, NS


def make_mesh(lib, shape, names):
    """A mesh whose axes a program need not name in its types outside shard_map
    (JAX: make_mesh makes explicit axes by default, Mesh makes auto ones)."""
    n = int(np.prod(shape))
    devices = np.array(lib.devices()[:n], dtype=object).reshape(shape)
    return lib.sharding.Mesh(devices, names)


def data_parallel_mlp(lib, mesh, P, number=0):
    """8 parameter leaves replicated, batch split over 'i'; grad is outside.

    `number` has no use but to tell functions apart for a library that traces equal ones once.
    """
    loss = workloads.mlp_loss(lib)

    def local(params, x, y, number=number):
        return lib.lax.pmean(loss(params, x, y), "i")

    return lib.shard_map(local, mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=P())


def sharded_programs(lib, number=0):
    """name -> (unjitted function, args): sharded programs at moderate size.

    Functions of another `number` are other ones.
    """
    P, NS = sharding_names(lib)
    lax = lib.lax
    m1, m2 = make_mesh(lib, (8,), ("i",)), make_mesh(lib, (4, 2), ("x", "y"))
    put = lambda a, m, *s: lib.device_put(a, NS(m, P(*s)))
    n = 512
    a = put(workloads.f32(n, n), m2, "x", "y")
    b = put(workloads.f32(n, n, seed=1), m2, "y", None)

    basic = lib.shard_map(
        lambda a, b, number=number: lax.psum(a @ b, "y"),
        mesh=m2,
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x", None),
    )
    rs = lib.shard_map(
        lambda a, b, number=number: lax.psum_scatter(a @ b, "y", scatter_dimension=1, tiled=True),
        mesh=m2,
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x", "y"),
    )
    params = workloads.tree_map(lib, lambda w: put(w, m1), workloads.mlp_params([64] * 5))
    x, y = put(workloads.f32(256, 64), m1, "i"), put(workloads.f32(256, 64, seed=1), m1, "i")
    mlp = data_parallel_mlp(lib, m1, P, number)
    return {
        "matmul_basic_512": (basic, (a, b)),
        "matmul_reduce_scatter_512": (rs, (a, b)),
        "dp_mlp_loss": (mlp, (params, x, y)),
        "dp_mlp_grad": (lib.grad(mlp), (params, x, y)),
    }


@case(devices=8, reps=5)
def shard_speed(lib):
    figures = Figures()
    P, NS = sharding_names(lib)
    lax, block = lib.lax, lib.block_until_ready
    m1 = make_mesh(lib, (8,), ("i",))
    for name, (f, args) in sharded_programs(lib).items():
        with figures.part(name):
            g = lib.jit(f)
            figures.add("jit_steady", steps(lambda: g(*args), block, budget=1.5) * MS, "ms")
    with figures.part("tiny_8dev"):
        x = lib.device_put(workloads.f32(8), NS(m1, P("i")))
        sm = lambda f, i, o: lib.shard_map(f, mesh=m1, in_specs=i, out_specs=o)
        g = lib.jit(sm(lambda a: a + 1, P("i"), P("i")))
        figures.add("add.async", per_call_async(lambda: g(x), block, chunk=50) * US, "us")
        figures.add("add.blocked", per_call(lambda: block(g(x))) * US, "us")
        h = lib.jit(sm(lambda a: lax.psum(a, "i"), P("i"), P()))
        figures.add("psum.blocked", per_call(lambda: block(h(x))) * US, "us")
        k = lib.jit(lambda a: a + 1)  # no shard_map: a sharded array into jit
        figures.add(
            "jit_sharded_arg.async", per_call_async(lambda: k(x), block, chunk=50) * US, "us"
        )
        ten = [x] * 10
        q = lib.jit(sm(lambda *a: sum(a[1:], a[0]), (P("i"),) * 10, P("i")))
        figures.add("10arg.async", per_call_async(lambda: q(*ten), block, chunk=50) * US, "us")
        figures.add("eager_add.async", per_call_async(lambda: x + x, block, chunk=50) * US, "us")
        figures.add(
            "device_put_8way",
            per_call(lambda a=workloads.f32(8): lib.device_put(a, NS(m1, P("i")))) * US,
            "us",
        )
    return figures


@case(devices=8, reps=5)
def shard_eager(lib):
    """shard_map called with no jit."""
    figures = Figures()
    P, NS = sharding_names(lib)
    lax, block = lib.lax, lib.block_until_ready
    m1 = make_mesh(lib, (8,), ("i",))
    x = lib.device_put(workloads.f32(8), NS(m1, P("i")))
    with figures.part("add_one_op"):
        f = lib.shard_map(lambda a: a + 1, mesh=m1, in_specs=P("i"), out_specs=P("i"))
        figures.add("first", once(lambda: block(f(x)))[0] * MS, "ms")
        figures.add("call", median_of(lambda: block(f(x)), 15) * MS, "ms")
    with figures.part("psum"):
        f = lib.shard_map(lambda a: lax.psum(a, "i"), mesh=m1, in_specs=P("i"), out_specs=P())
        figures.add("call", median_of(lambda: block(f(x)), 15) * MS, "ms")
    for name, (f, args) in sharded_programs(lib).items():
        with figures.part(name):
            figures.add("first", once(lambda: block(f(*args)))[0] * MS, "ms")
            figures.add("call", median_of(lambda: block(f(*args)), 7) * MS, "ms")
    return figures
