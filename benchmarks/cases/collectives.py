"""How many collectives a sharded program has, before and after XLA, and how many bytes."""

import numpy as np

import ir_stats
import workloads
from cases.registry import case
from cases.sharded import data_parallel_mlp, make_mesh, sharding_names
from timers import Figures


def transpose(lib, f, example):
    """The transpose of a linear f at inputs like `example`, by vjp."""
    return lambda cotangent: lib.vjp(f, example)[1](cotangent)[0]


def gather_invariant(lib, a):
    """An all-gather whose result counts as equal on all devices, as either library spells it."""
    if hasattr(lib.lax, "all_gather_invariant"):
        return lib.lax.all_gather_invariant(a, "i", tiled=True)
    return lib.lax.all_gather(a, "i", tiled=True, to="invarying")


@case(devices=8, reps=1)
def collectives(lib):
    """Static counts and payload bytes of collectives, before and after XLA."""
    figures = Figures()
    P, NS = sharding_names(lib)
    jnp, lax = lib.numpy, lib.lax
    m1, m2 = make_mesh(lib, (8,), ("i",)), make_mesh(lib, (4, 2), ("x", "y"))
    sds = lambda *s: lib.ShapeDtypeStruct(s, np.dtype(np.float32))

    def report(name, f, *args):
        with figures.part(name):
            with figures.part():
                top, tot = ir_stats.count_eqns(lib.make_jaxpr(f)(*args))
                figures.add("jaxpr_eqns", tot, "count")
            low = lib.jit(f).trace(*args).lower()
            opt = low.compile().as_text()
            for stage, d in (
                ("stablehlo", ir_stats.collectives_stablehlo(low.as_text())),
                ("optimized", ir_stats.collectives_hlo(opt)),
            ):
                figures.add(stage + ".total", sum(c for c, _ in d.values()), "count")
                figures.add(stage + ".bytes", sum(b for _, b in d.values()), "bytes")
                for k, (c, _) in sorted(d.items()):
                    figures.add(f"{stage}.{k}", c, "count")

    sm = lambda f, m, i, o, **kw: lib.shard_map(f, mesh=m, in_specs=i, out_specs=o, **kw)

    def both(name, f, *args, scalar=False):
        report(name + ".fwd", f, *args)
        s = f if scalar else (lambda *a: jnp.sum(f(*a)))
        argn = tuple(range(len(args)))
        report(name + ".grad", lambda *a: lib.grad(s, argnums=argn)(*a), *args)

    A, B = sds(64, 64), sds(64, 64)
    with figures.part():
        both(
            "matmul_basic",
            sm(lambda a, b: lax.psum(a @ b, "y"), m2, (P("x", "y"), P("y", None)), P("x", None)),
            A,
            B,
        )
    with figures.part():
        both(
            "matmul_reduce_scatter",
            sm(
                lambda a, b: lax.psum_scatter(a @ b, "y", scatter_dimension=1, tiled=True),
                m2,
                (P("x", "y"), P("y", None)),
                P("x", "y"),
            ),
            A,
            B,
        )
    with figures.part():
        p = workloads.to_shapes(lib, workloads.mlp_params([64] * 5))
        x = sds(256, 64)
        f = data_parallel_mlp(lib, m1, P)
        report("dp_mlp8.fwd", f, p, x, x)
        report("dp_mlp8.grad", lib.grad(f), p, x, x)
        report("dp_mlp8.value_and_grad", lib.value_and_grad(f), p, x, x)
    with figures.part():  # grad inside: the other idiom

        def local(params, x, y):
            # Derivatives of the part of this device: the parameters count as its own.
            own = workloads.tree_map(lib, lambda w: lax.pcast(w, "i", to="varying"), params)
            g = lib.grad(workloads.mlp_loss(lib))(own, x, y)
            return workloads.tree_map(lib, lambda d: lax.pmean(d, "i"), g)

        f = sm(local, m1, (P(), P("i"), P("i")), P())
        report("dp_mlp8_grad_inside", f, p, x, x)
    with figures.part():  # params split over i (fsdp), gathered in the body

        def fsdp(params, x, y):
            full = workloads.tree_map(
                lib, lambda w: lax.all_gather(w, "i", axis=0, tiled=True), params
            )
            return lax.pmean(workloads.mlp_loss(lib)(full, x, y), "i")

        f = sm(fsdp, m1, (P("i"), P("i"), P("i")), P())
        report("fsdp_mlp8.fwd", f, p, x, x)
        report("fsdp_mlp8.grad", lib.grad(f), p, x, x)

    v = sds(8)
    programs = {
        "cursed_identity": sm(lambda a: a, m1, P(), P()),
        "psum_to_unmapped": sm(lambda a: lax.psum(a, "i"), m1, P("i"), P()),
        "all_gather_invariant": sm(lambda a: gather_invariant(lib, a), m1, P("i"), P()),
    }
    for name, f in programs.items():
        one = np.ones(8, np.float32)
        out = np.ones(1 if name == "psum_to_unmapped" else 8, np.float32)
        report(name + ".fwd", f, v)
        t1 = transpose(lib, f, one)
        t2 = transpose(lib, t1, out)
        t3 = transpose(lib, t2, one)
        report(name + ".T", t1, sds(*out.shape))
        report(name + ".TT", t2, v)
        report(name + ".TTT", t3, sds(*out.shape))
    with figures.part():  # the untyped mode, for the contrast
        f = sm(lambda a: a, m1, P(), P(), check_vma=False)
        one = np.ones(8, np.float32)
        t1 = transpose(lib, f, one)
        t2 = transpose(lib, t1, one)
        report("cursed_identity_unchecked.T", t1, v)
        report("cursed_identity_unchecked.TT", t2, v)
    return figures
