"""What is measured as work grows: for each quantity, its sizes and what is timed at each of them.

A measurement is a function of a library that makes what it needs once and returns `prepare`. That
takes a size, prepares, which is not timed, and returns what is timed, or several by name: a
function that is timed once, in CPU time, with all prepared anew for each repetition, or a `Call`.
What is timed may return a jaxpr, whose equations are counted. Each function here is made anew under
another number, so that a library which knows equal functions again has to trace it.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import workloads


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One thing whose cost may grow."""

    quantity: str
    name: str
    sizes: tuple[int, ...]
    start: Callable[[Any], Callable[[int], Any]]
    work: str  # what the exponent is fitted to: "size", or "equations" of the jaxprs of all levels
    repetitions: int
    devices: bool  # as many host devices as the size says: each size in a process of its own


@dataclasses.dataclass(frozen=True)
class Call:
    """What is timed as one call among many, in wall time."""

    function: Callable[[], Any]


MEASUREMENTS: list[Measurement] = []
_numbers = itertools.count(1)


def halves(largest, count=5):
    """Sizes that double, up to the largest."""
    return tuple(largest >> k for k in range(count - 1, -1, -1))


def measured(quantity, name, sizes, *, work="size", repetitions=3, devices=False):
    """Registers a measurement."""

    def register(start):
        MEASUREMENTS.append(Measurement(quantity, name, sizes, start, work, repetitions, devices))
        return start

    return register


EQUATIONS, LEAVES, BODY = halves(100_000), halves(100_000), halves(5_000)
CLOSED_OVER, CACHED = halves(10_000), halves(10_000)
DEPTHS, DEVICES = tuple(range(1, 9)), (1, 2, 4, 8, 16, 32, 64)


# ---- equations ----------------------------------------------------------------------------------


def vectors(lib):
    return (lib.ShapeDtypeStruct((8,), np.dtype(np.float32)),) * 3


def chain(lib, n):
    """n equations one after another, and one that no earlier chain has."""
    number = float(next(_numbers))
    steps = workloads.chain_lax(lib, n - 1)
    return lambda x, a, b: steps(x * number, a, b)


def chain_gradient(lib, n):
    f = chain(lib, n)
    return lib.grad(lambda *args: lib.numpy.sum(f(*args)))


def mapped_chain(lib, n):
    return lib.vmap(chain(lib, n), in_axes=(0, None, None))


def tracing(lib, make, args):
    """`prepare` for tracing what `make` makes."""

    def prepare(n):
        f = make(lib, n)
        return lambda: lib.make_jaxpr(f)(*args)

    return prepare


def lowering(lib, make, args):
    """`prepare` for lowering a traced function to StableHLO."""

    def prepare(n):
        traced = lib.jit(make(lib, n)).trace(*args)
        return lambda: traced.lower() and None

    return prepare


def compiling(lib, make, args):
    """`prepare` for XLA's part."""

    def prepare(n):
        lowered = lib.jit(make(lib, n)).trace(*args).lower()
        return lambda: lowered.compile() and None

    return prepare


def calling(lib, f, *args):
    """What is timed for a compiled call: it is compiled here, and its result waited for."""
    block = lib.block_until_ready
    block(f(*args))
    return Call(lambda: block(f(*args)))


@measured("equations", "tracing", EQUATIONS)
def equations_tracing(lib):
    return tracing(lib, chain, vectors(lib))


@measured("equations", "tracing the gradient", EQUATIONS)
def equations_gradient(lib):
    return tracing(lib, chain_gradient, vectors(lib))


@measured("equations", "tracing vmap", EQUATIONS)
def equations_vmap(lib):
    rows = lib.ShapeDtypeStruct((4, 8), np.dtype(np.float32))
    return tracing(lib, mapped_chain, (rows, *vectors(lib)[1:]))


@measured("equations", "printing the jaxpr", EQUATIONS)
def equations_printing(lib):
    def prepare(n):
        jaxpr = lib.make_jaxpr(chain(lib, n))(*vectors(lib))
        return lambda: str(jaxpr) and None

    return prepare


@measured("equations", "lowering", EQUATIONS)
def equations_lowering(lib):
    return lowering(lib, chain, vectors(lib))


@measured("equations", "lowering the gradient", EQUATIONS)
def equations_lowering_gradient(lib):
    return lowering(lib, chain_gradient, vectors(lib))


@measured("equations", "compiling (XLA)", EQUATIONS)
def equations_compiling(lib):
    return compiling(lib, chain, vectors(lib))


@measured("equations", "cached call", EQUATIONS)
def equations_call(lib):
    x = lib.numpy.asarray(np.ones(8, np.float32))
    return lambda n: calling(lib, lib.jit(chain(lib, n)), x, x, x)


# ---- leaves -------------------------------------------------------------------------------------


def one_array(lib):
    return lib.numpy.asarray(np.ones(8, np.float32))


def every_leaf(lib, n):
    number = float(next(_numbers))
    return lambda tree: workloads.tree_map(lib, lambda a: a + number, tree)


def leaves_gradient(lib, n):
    number = float(next(_numbers))
    total = lib.numpy.sum
    return lib.grad(lambda tree: sum((total(a * a) for a in tree[1:]), total(tree[0] * number)))


def over_leaves(steps, make):
    """The `start` of a measurement whose argument has as many leaves as the size says."""

    def start(lib):
        shape = vectors(lib)[0]
        return lambda n: steps(lib, make, ([shape] * n,))(n)

    return start


@measured("leaves", "flattening and unflattening a dict", LEAVES)
def leaves_flatten(lib):
    trees = lib.tree_util

    def prepare(n):
        tree = {f"k{i}": {"a": 1.0} for i in range(n)}
        return lambda: trees.tree_unflatten(*reversed(trees.tree_flatten(tree))) and None

    return prepare


measured("leaves", "tracing", LEAVES)(over_leaves(tracing, every_leaf))
measured("leaves", "tracing the gradient", LEAVES)(over_leaves(tracing, leaves_gradient))
measured("leaves", "lowering", LEAVES)(over_leaves(lowering, every_leaf))
measured("leaves", "compiling (XLA)", LEAVES)(over_leaves(compiling, every_leaf))


@measured("leaves", "cached call, one leaf out", LEAVES)
def leaves_call_in(lib):
    one = one_array(lib)
    return lambda n: calling(lib, lib.jit(lambda tree: tree[0] + 1), [one] * n)


@measured("leaves", "cached call, all leaves out", LEAVES)
def leaves_call_in_out(lib):
    one = one_array(lib)
    return lambda n: calling(lib, lib.jit(every_leaf(lib, n)), [one] * n)


@measured("leaves", "gradient without jit, one leaf used", LEAVES)
def leaves_eager_gradient(lib):
    one = one_array(lib)
    gradient = lib.grad(lambda tree: tree[0][0])
    return lambda n: calling(lib, gradient, [one] * n)


@measured("leaves", "device_put", LEAVES)
def leaves_device_put(lib):
    one = np.ones(8, np.float32)
    return lambda n: calling(lib, lib.device_put, [one] * n)


# ---- devices ------------------------------------------------------------------------------------


@measured("devices", "", DEVICES, devices=True)
def devices_once(lib):
    """Tracing, lowering and compiling over as many devices as there are."""

    def prepare(n):
        P, sharding, mesh = over_devices(lib, n)
        x = lib.device_put(np.ones((64, 8), np.float32), sharding)
        constrain = lib.lax.with_sharding_constraint
        numbers = [float(next(_numbers)) for _ in range(2)]

        def local(a, number=numbers[0]):
            return lib.lax.psum(lib.numpy.sin(a) * number, "i")

        mapped = lib.jit(lib.shard_map(local, mesh=mesh, in_specs=P("i"), out_specs=P()))
        constrained = lib.jit(
            lambda a: constrain(lib.numpy.sin(a) * numbers[1] + a.sum(0), sharding)
        )
        kept = {}

        def keep(key, value):
            kept[key] = value

        return {
            "tracing shard_map": lambda: keep("traced", mapped.trace(x)),
            "lowering shard_map": lambda: keep("lowered", kept["traced"].lower()),
            "compiling shard_map (XLA)": lambda: kept["lowered"].compile() and None,
            "tracing jit with shardings": lambda: keep("traced", constrained.trace(x)),
            "lowering jit with shardings": lambda: keep("lowered", kept["traced"].lower()),
            "compiling jit with shardings (XLA)": lambda: kept["lowered"].compile() and None,
        }

    return prepare


@measured("devices", "", DEVICES, devices=True)
def devices_calls(lib):
    """Calls of what is compiled, and arrays put on, and read from, as many devices as there are."""
    block = lib.block_until_ready

    def prepare(n):
        P, sharding, mesh = over_devices(lib, n)
        values = np.ones((64, 8), np.float32)
        x = lib.device_put(values, sharding)
        shards = [shard.data for shard in x.addressable_shards]
        assemble = lib.make_array_from_single_device_arrays
        body = lambda a: lib.lax.psum(lib.numpy.sin(a), "i")
        mapped = lib.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
        compiled = lib.jit(lambda a: lib.numpy.sin(a) * 2)
        return {
            "cached call of shard_map": calling(lib, lib.jit(mapped), x),
            "cached call of jit with shardings": calling(lib, compiled, x),
            "shard_map without jit": calling(lib, mapped, x),
            "device_put": Call(lambda: block(lib.device_put(values, sharding))),
            "array from shards": Call(lambda: assemble((64, 8), sharding, shards)),
            "operation without jit": calling(lib, lib.numpy.sin, x),
            "reading a fresh result": Call(lambda: np.asarray(compiled(x))),
        }

    return prepare


def over_devices(lib, n):
    """PartitionSpec, a sharding of rows over n devices, its mesh."""
    P = lib.sharding.PartitionSpec
    mesh = lib.sharding.Mesh(np.array(lib.devices()[:n], dtype=object), ("i",))
    return P, lib.sharding.NamedSharding(mesh, P("i")), mesh


# ---- depth of transformations -------------------------------------------------------------------


def fixed_function(lib):
    """Five equations of a number."""
    sin, number = lib.lax.sin, float(next(_numbers))
    return lambda x: sin(x) * x + 1.0 / (number + x * x)


def nested(lib, how, depth):
    """The function under `depth` transformations: the same again, or several in turn."""
    f = fixed_function(lib)
    scalar = lib.ShapeDtypeStruct((), np.dtype(np.float32))
    shape = ()
    for level in range(depth):
        turn = how[level % len(how)]
        if turn == "vmap":
            shape = (2, *shape)
            f = lib.vmap(f)
        elif turn == "jvp":
            f = (lambda f: lambda x: lib.jvp(f, (x,), (x,))[1])(f)
        elif turn == "grad":  # of the sum, for the function may be mapped
            f = lib.grad((lambda f: lambda x: lib.numpy.sum(f(x)))(f) if shape else f)
        else:
            f = getattr(lib, turn)(f)
    return f, lib.ShapeDtypeStruct(shape, scalar.dtype)


def at_depth(how):
    def start(lib):
        def prepare(depth):
            f, arg = nested(lib, how, depth)
            g, _ = nested(lib, how, depth)
            traced = lib.jit(g).trace(arg)
            return {
                "tracing": lambda: lib.make_jaxpr(f)(arg),
                "lowering": lambda: traced.lower() and traced.jaxpr,
            }

        return prepare

    return start


for _name, _how, _work in (
    ("grad of grad …", ("grad",), "equations"),
    ("jvp of jvp …", ("jvp",), "equations"),
    ("vmap of vmap …", ("vmap",), "size"),
    ("jit of jit …", ("jit",), "size"),
    ("checkpoint of checkpoint …", ("checkpoint",), "size"),
    ("jit(vmap(grad(jit(vmap(grad(…", ("grad", "vmap", "jit"), "equations"),
):
    measured("nested transformations", _name, DEPTHS, work=_work)(at_depth(_how))


# ---- bodies of loops ----------------------------------------------------------------------------


def scan_of_chain(lib, n):
    body = chain(lib, n)
    return lambda x, a, b: lib.lax.scan(lambda c, _: (body(c, a, b), None), x, None, length=3)[0]


def scan_gradient(lib, n):
    f = scan_of_chain(lib, n)
    return lib.grad(lambda *args: lib.numpy.sum(f(*args)))


@measured("equations of a scan's body", "tracing", BODY)
def scan_tracing(lib):
    return tracing(lib, scan_of_chain, vectors(lib))


@measured("equations of a scan's body", "tracing the gradient", BODY)
def scan_tracing_gradient(lib):
    return tracing(lib, scan_gradient, vectors(lib))


@measured("equations of a scan's body", "tracing vmap", BODY)
def scan_tracing_vmap(lib):
    rows = lib.ShapeDtypeStruct((4, 8), np.dtype(np.float32))
    mapped = lambda lib, n: lib.vmap(scan_of_chain(lib, n), in_axes=(0, None, None))
    return tracing(lib, mapped, (rows, *vectors(lib)[1:]))


@measured("equations of a scan's body", "lowering", BODY)
def scan_lowering(lib):
    return lowering(lib, scan_of_chain, vectors(lib))


@measured("equations of a scan's body", "lowering the gradient", BODY)
def scan_lowering_gradient(lib):
    return lowering(lib, scan_gradient, vectors(lib))


@measured("equations of a scan's body", "compiling the gradient (XLA)", BODY)
def scan_compiling(lib):
    return compiling(lib, scan_gradient, vectors(lib))


@measured("equations of a scan's body", "cached call", BODY)
def scan_call(lib):
    x = one_array(lib)
    return lambda n: calling(lib, lib.jit(scan_of_chain(lib, n)), x, x, x)


# ---- closed-over arrays -------------------------------------------------------------------------


def sum_of_closed_over(lib, n):
    number = float(next(_numbers))
    arrays = [lib.numpy.asarray(np.full(8, k, np.float32)) for k in range(n)]

    def f(x):
        x = x * number
        for a in arrays:
            x = x + a
        return x

    return f


def gradient_of_closed_over(lib, n):
    f = sum_of_closed_over(lib, n)
    return lib.grad(lambda x: lib.numpy.sum(f(x)))


def scan_of_closed_over(lib, n):
    f = sum_of_closed_over(lib, n)
    return lambda x: lib.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]


for _name, _steps, _make in (
    ("tracing", tracing, sum_of_closed_over),
    ("tracing the gradient", tracing, gradient_of_closed_over),
    ("tracing a scan whose body closes over them", tracing, scan_of_closed_over),
    ("lowering", lowering, sum_of_closed_over),
    ("compiling (XLA)", compiling, sum_of_closed_over),
):
    measured("closed-over arrays", _name, CLOSED_OVER)(
        lambda lib, steps=_steps, make=_make: steps(lib, make, vectors(lib)[:1])
    )


@measured("closed-over arrays", "cached call", CLOSED_OVER)
def closed_over_call(lib):
    x = one_array(lib)
    return lambda n: calling(lib, lib.jit(sum_of_closed_over(lib, n)), x)


@measured("closed-over arrays", "call of the function made anew", CLOSED_OVER)
def closed_over_rebuilt(lib):
    x = one_array(lib)

    def prepare(n):
        arrays = [x] * n
        again = lambda: lib.jit(lambda x: x + sum(a[0] for a in arrays[:1]))
        lib.block_until_ready(again()(x))
        return Call(lambda: lib.block_until_ready(again()(x)))

    return prepare


# ---- signatures in a cache ----------------------------------------------------------------------


def signatures(kind):
    """Filling the cache of a jitted function, then calls with its first and last signature."""

    def start(lib):
        one, block = one_array(lib), lib.block_until_ready
        if kind == "static values":
            f = lib.jit(lambda x, static: x + 1, static_argnums=1)
            args = lambda k: (one, k)
        elif kind == "structures":
            f = lib.jit(lambda tree: next(iter(tree.values())) + 1)
            args = lambda k: ({f"k{k}": one},)
        else:
            f = lib.jit(lambda x: x + 1)
            args = lambda k: (lib.device_put(np.ones(k + 1, np.float32)),)
        filled = 0

        def prepare(n):
            nonlocal filled
            first, last, new = args(0), args(n - 1), range(filled, n)
            filled = n

            def fill():
                for k in new:
                    block(f(*args(k)))

            return {
                "adding the second half": fill,
                "call with the first": Call(lambda: block(f(*first))),
                "call with the last": Call(lambda: block(f(*last))),
            }

        return prepare

    return start


for _kind in ("static values", "structures", "shapes"):
    measured("signatures in a cache", _kind, CACHED, repetitions=1)(signatures(_kind))
