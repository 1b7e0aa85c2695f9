"""One call at a time: compiled functions, eager operations, eager transformations."""

import numpy as np

import workloads
from cases.registry import case
from timers import MS, US, Figures, clock, median_of, per_call, per_call_async


@case()
def jit_dispatch(lib):
    figures = Figures()
    jnp, block = lib.numpy, lib.block_until_ready

    def both(name, fn):
        figures.add(name + ".async", per_call_async(fn, block) * US, "us")
        figures.add(name + ".blocked", per_call(lambda: block(fn())) * US, "us")

    with figures.part("scalar_array"):
        g = lib.jit(lambda x: x + 1)
        x = jnp.asarray(np.float32(1.0))
        both("1arg", lambda: g(x))
    with figures.part("python_float"):
        g = lib.jit(lambda x: x + 1)
        both("1arg", lambda: g(1.0))
    with figures.part("numpy_8"):
        g = lib.jit(lambda x: x + 1)
        a = np.ones(8, np.float32)
        both("1arg", lambda: g(a))
    with figures.part("10_arrays"):
        g = lib.jit(lambda *xs: sum(xs[1:], xs[0]))
        xs = [jnp.asarray(workloads.f32(8, seed=i)) for i in range(10)]
        both("10arg", lambda: g(*xs))
    with figures.part("pytree_100"):
        g = lib.jit(lambda t: workloads.tree_map(lib, lambda a: a + 1, t))
        t = {
            f"layer{i}": {
                "w": jnp.asarray(workloads.f32(8, seed=i)),
                "b": jnp.asarray(workloads.f32(8, seed=i)),
            }
            for i in range(50)
        }
        both("100in_100out", lambda: g(t))
    with figures.part("pytree_100_in"):
        g = lib.jit(lambda t: t["layer0"]["w"] + 1)
        both("100in_1out", lambda: g(t))
    with figures.part("kwargs_static"):
        g = lib.jit(lambda x, k, *, s: x * s + k, static_argnames=("k",))
        x = jnp.asarray(workloads.f32(8))
        both("call", lambda: g(x, k=3, s=x))
    with figures.part("donated_step"):
        g = lib.jit(lambda t: workloads.tree_map(lib, lambda a: a + 1, t), donate_argnums=0)
        state = [{f"p{i}": jnp.asarray(workloads.f32(8, seed=i)) for i in range(10)}]

        def fn():
            state[0] = g(state[0])
            return state[0]

        both("10in_10out", fn)
    with figures.part("cache_2_signatures"):
        g = lib.jit(lambda x: x + 1)
        a, b = jnp.asarray(workloads.f32(8)), jnp.asarray(workloads.f32(9))

        def fn():
            g(a)
            return g(b)

        figures.add("per_call", per_call_async(fn, block) * US / 2, "us")
    with figures.part("recompile"):  # a new shape of a known function: the slow path

        def one():
            g = lib.jit(lambda x: x + 1)
            block(g(x))

        figures.add("new_function_same_code", median_of(one, 15) * MS, "ms")
    return figures


@case()
def aot_call(lib):
    """Calling what `.lower().compile()` gave: its checks, and starting the program."""
    figures = Figures()
    jnp, block = lib.numpy, lib.block_until_ready

    def arrays(count):
        return [jnp.asarray(workloads.f32(8, seed=i)) for i in range(count)]

    def add(name, function, *args):
        with figures.part(name):
            compiled = lib.jit(function).lower(*args).compile()
            figures.add("async", per_call_async(lambda: compiled(*args), block) * US, "us")

    add("1_array", lambda x: x + 1, *arrays(1))
    add("10_arrays", lambda *xs: sum(xs[1:], xs[0]), *arrays(10))
    tree = {f"layer{i}": {"w": w, "b": w} for i, w in enumerate(arrays(50))}
    add("pytree_100", lambda t: workloads.tree_map(lib, lambda a: a + 1, t), tree)
    return figures


@case()
def eager_ops(lib):
    figures = Figures()
    jnp, lax, block = lib.numpy, lib.lax, lib.block_until_ready
    x = jnp.asarray(workloads.f32(8, seed=1))
    y = jnp.asarray(workloads.f32(8, seed=2))
    m = jnp.asarray(workloads.f32(16, 16, seed=3))
    v = jnp.asarray(workloads.f32(4, 16, seed=4))
    i = jnp.asarray(np.int32(3))
    idx = jnp.asarray(np.array([1, 3, 5], np.int32))
    b = x > 0
    ops = {
        "lax.add": lambda: lax.add(x, y),
        "lax.sin": lambda: lax.sin(x),
        "jnp.add": lambda: jnp.add(x, y),
        "x+y": lambda: x + y,
        "x+1.0": lambda: x + 1.0,
        "x+numpy": lambda a=np.ones(8, np.float32): x + a,
        "jnp.sin": lambda: jnp.sin(x),
        "jnp.sum": lambda: jnp.sum(x),
        "jnp.mean_axis": lambda: jnp.mean(m, axis=0),
        "x@y_16x16": lambda: m @ m,
        "jnp.dot_vec": lambda: jnp.dot(x, y),
        "x[2:5]": lambda: x[2:5],
        "x[3]": lambda: x[3],
        "x[traced_i]": lambda: x[i],
        "x[idx_array]": lambda: x[idx],
        "x.at[2].set": lambda: x.at[2].set(1.0),
        "jnp.where": lambda: jnp.where(b, x, y),
        "jnp.reshape": lambda: jnp.reshape(m, (4, 64)),
        "m.T": lambda: m.T,
        "jnp.concatenate": lambda: jnp.concatenate([x, y]),
        "jnp.stack": lambda: jnp.stack([x, y]),
        "jnp.einsum_bd,de->be": lambda: jnp.einsum("bd,de->be", v, m),
        "jnp.zeros": lambda: jnp.zeros((8,)),
        "jnp.arange": lambda: jnp.arange(8),
        "jnp.asarray_float": lambda: jnp.asarray(1.0),
        "astype_int": lambda: x.astype(jnp.int32),
        "x==y": lambda: x == y,
    }
    for name, fn in ops.items():
        with figures.part(name):
            figures.add("async", per_call_async(fn, block, budget=0.25) * US, "us")
            figures.add("blocked", per_call(lambda: block(fn()), budget=0.25) * US, "us")
    with figures.part("float(x[0])"):
        s = x[0]
        figures.add("sync", per_call(lambda: float(s), budget=0.25) * US, "us")
    with figures.part("random"):
        key = lib.random.key(0)
        figures.add(
            "split.async",
            per_call_async(lambda: lib.random.split(key), block, budget=0.25) * US,
            "us",
        )
        figures.add(
            "normal_8.async",
            per_call_async(lambda: lib.random.normal(key, (8,)), block, budget=0.25) * US,
            "us",
        )
    with figures.part("iterate_rows"):
        figures.add("for_row_in_16x16", per_call(lambda: list(m), budget=0.25) * US, "us")
    with figures.part("tree_map_add_100"):
        t = [jnp.asarray(workloads.f32(8, seed=k)) for k in range(100)]
        figures.add(
            "async",
            per_call_async(
                lambda: workloads.tree_map(lib, lambda a: a + a, t), block, budget=0.4, chunk=10
            )
            * US,
            "us",
        )
    return figures


@case()
def eager_arrays(lib):
    """Eager functions that make, join, choose and take elements, in several forms and sizes."""
    figures = Figures()
    for name, fn in _array_calls(lib.numpy).items():
        with figures.part(name):
            figures.add("async", per_call_async(fn, lib.block_until_ready, budget=0.25) * US, "us")
    return figures


@case()
def eager_new_shapes(lib):
    """Operations on 40 arrays, each of a length not met before, as in a loop over `x[:i]`.

    Nothing is remembered from earlier calls, so what a library compiles is in the time.
    """
    jnp, figures = lib.numpy, Figures()
    operations = {
        "prefix": lambda x: x[:-1],
        "reversed": lambda x: x[::-1],
        "reshape": lambda x: jnp.reshape(x, (-1, 1)),
        "concatenate": lambda x: jnp.concatenate([x, x]),
        "stack": lambda x: jnp.stack([x, x]),
        "where": lambda x: jnp.where(x, x, 0.0),
        "add": lambda x: x + x,
        "sum": lambda x: jnp.sum(x),
    }
    arrays = [jnp.asarray(workloads.f32(n, seed=n)) for n in range(101, 141)]
    for name, operation in operations.items():
        with figures.part(name):
            lib.block_until_ready(operation(jnp.asarray(workloads.f32(100))))
            start = clock()
            lib.block_until_ready([operation(x) for x in arrays])
            figures.add("each", (clock() - start) / len(arrays) * MS, "ms")
    return figures


def _array_calls(jnp):
    """name -> a call: the functions of the numpy layer that a script without `jit` is full of."""
    x, y = (jnp.asarray(workloads.f32(8, seed=k)) for k in (1, 2))
    m, n = (jnp.asarray(workloads.f32(64, 64, seed=k)) for k in (3, 4))
    q, k = (jnp.asarray(workloads.f32(2, 4, 16, 8, seed=k)) for k in (5, 6))
    whole = jnp.asarray(np.arange(8, dtype=np.int32))
    rows, columns = (jnp.asarray(np.array(i, np.int32)) for i in ([1, 3, 5], [0, 2, 63]))
    mask = np.arange(64) % 3 == 0
    return {
        "einsum.bd,de->be": lambda: jnp.einsum("bd,de->be", m, n),
        "einsum.ii": lambda: jnp.einsum("ii", m),
        "einsum.ij->ji": lambda: jnp.einsum("ij->ji", m),
        "einsum.i,j->ij": lambda: jnp.einsum("i,j->ij", x, y),
        "einsum.bhqd,bhkd->bhqk": lambda: jnp.einsum("bhqd,bhkd->bhqk", q, k),
        "einsum.ij,jk,kl->il": lambda: jnp.einsum("ij,jk,kl->il", m, n, m),
        "einsum.ellipsis": lambda: jnp.einsum("...d,de->...e", m, n),
        "where.arrays": lambda c=x > 0: jnp.where(c, x, y),
        "where.number": lambda c=x > 0: jnp.where(c, x, 0.0),
        "where.broadcast": lambda c=m[:, :1] > 0: jnp.where(c, m, n[0]),
        "where.integers": lambda c=x > 0: jnp.where(c, whole, x),
        "concatenate.2": lambda: jnp.concatenate([x, y]),
        "concatenate.axis1": lambda: jnp.concatenate([m, n], axis=1),
        "concatenate.8": lambda xs=[x] * 8: jnp.concatenate(xs),
        "concatenate.promoted": lambda: jnp.concatenate([x, whole]),
        "stack.2": lambda: jnp.stack([x, y]),
        "index.rows": lambda: m[rows],
        "index.rows_and_columns": lambda: m[rows, columns],
        "index.column_list": lambda: m[:, columns],
        "index.numpy_rows": lambda i=np.array([1, 3, 5]): m[i],
        "index.mask": lambda: m[mask],
        "index.slice_and_rows": lambda: m[2:10, rows],
        "index.newaxis": lambda: m[:, None, ::2],
        "index.ellipsis": lambda: q[..., 0],
        "index.negative": lambda: m[-1, -1],
        "take.rows": lambda: jnp.take(m, rows, axis=0),
        "take_along_axis.column": lambda i=rows[:, None]: jnp.take_along_axis(m, i, axis=0),
        "zeros.8": lambda: jnp.zeros(8),
        "zeros.64x64": lambda: jnp.zeros((64, 64)),
        "zeros.int32": lambda: jnp.zeros((8,), jnp.int32),
        "zeros.million": lambda: jnp.zeros((1024, 1024)),
        "zeros_like.64x64": lambda: jnp.zeros_like(m),
        "ones.8": lambda: jnp.ones(8),
        "full.64x64": lambda: jnp.full((64, 64), 2.5),
        "arange.8": lambda: jnp.arange(8),
        "arange.float": lambda: jnp.arange(0.0, 1.0, 0.125),
        "arange.start_stop": lambda: jnp.arange(3, 1000),
        "arange.million": lambda: jnp.arange(1_000_000),
        "linspace.50": lambda: jnp.linspace(0.0, 1.0, 50),
    }


@case()
def eager_transforms(lib):
    figures = Figures()
    block = lib.block_until_ready
    p = workloads.to_lib(lib, workloads.mlp_params([16, 32, 32, 4]))
    x, y = (lib.numpy.asarray(workloads.f32(8, k)) for k in (16, 4))
    tang = workloads.tree_map(lib, lambda a: a * 0.5, p)
    loss = workloads.mlp_loss(lib)

    def timed(name, fn):
        with figures.part(name):
            figures.add("call", per_call(lambda: block(fn()), budget=0.6) * MS, "ms")

    timed("forward", lambda: loss(p, x, y))
    timed("grad", lambda: lib.grad(loss)(p, x, y))
    timed("value_and_grad", lambda: lib.value_and_grad(loss)(p, x, y))
    timed("jvp", lambda: lib.jvp(lambda q: loss(q, x, y), (p,), (tang,)))
    timed("vjp_once", lambda: lib.vjp(lambda q: loss(q, x, y), p)[0])
    timed("linearize", lambda: lib.linearize(lambda q: loss(q, x, y), p)[0])
    timed("vmap", lambda: lib.vmap(lambda a, b: loss(p, a, b))(x, y))
    timed("vmap_grad", lambda: lib.vmap(lib.grad(loss), in_axes=(None, 0, 0))(p, x, y))
    g = lib.jit(loss)
    timed("grad_of_jit", lambda: lib.grad(g)(p, x, y))
    timed("vmap_of_jit", lambda: lib.vmap(lambda a, b: g(p, a, b))(x, y))
    with figures.part("grad_scalar_fn"):
        s = lib.numpy.asarray(np.float32(2.0))
        f = lambda z: lib.numpy.sin(z * z)
        figures.add("call", per_call(lambda: block(lib.grad(f)(s)), budget=0.6) * MS, "ms")
    with figures.part("eager_cond"):
        s = lib.numpy.asarray(np.float32(2.0))
        figures.add(
            "call",
            per_call(
                lambda: block(lib.lax.cond(s > 1, lambda z: z + 1, lambda z: z - 1, s)), budget=0.6
            )
            * MS,
            "ms",
        )
    with figures.part("eager_scan_100"):
        xs = lib.numpy.asarray(workloads.f32(100))
        body = lambda c, a: (c + a, c)
        figures.add(
            "same_body", per_call(lambda: block(lib.lax.scan(body, s, xs)), budget=0.6) * MS, "ms"
        )
    with figures.part("eager_fori_fresh_body"):
        figures.add(
            "call",
            median_of(lambda: block(lib.lax.fori_loop(0, 10, lambda i, c: c + 1, s)), 15) * MS,
            "ms",
        )
    return figures
