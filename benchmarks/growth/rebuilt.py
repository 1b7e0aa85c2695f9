"""Memory over many calls of functions made anew, of one library: rebuilt.py LIB KIND CALLS LIMIT.

Prints the calls made, the resident memory and the objects that the garbage collector knows, at
least ten times on the way. Ends after LIMIT seconds where the calls take longer.
"""

import functools
import gc
import os
import sys

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

# Found by the line above.
import numpy as np  # noqa: E402

from child import load  # noqa: E402
from timers import clock, emit  # noqa: E402

STEPS = 10


class Model:
    """An object with a method to be compiled."""

    def __init__(self, weights):
        self.weights = weights

    def apply(self, x):
        return x * self.weights


def scaled(x, w):
    return x * w


KINDS = (
    "jit of a lambda",
    "jit over a new array",
    "jit over a new NumPy array",
    "jit of a partial",
    "jit of a method of a new object",
    "jit of grad of a lambda",
    "grad of a lambda",
    "grad of custom_vjp",
    "vmap of a lambda",
    "scan of a lambda",
    "cond of lambdas",
    "while_loop of lambdas",
    "checkpoint of a lambda",
    "make_jaxpr of a lambda",
    "new static values",
    "shard_map of a lambda",
)


def kinds(lib):
    """name -> what makes a function anew, the k-th time, and calls it."""
    jnp, lax, block = lib.numpy, lib.lax, lib.block_until_ready
    x = jnp.asarray(np.ones(8, np.float32))
    w = jnp.asarray(np.full(8, 2, np.float32))
    values = np.full(8, 2, np.float32)
    static = lib.jit(lambda x, k: x + 1, static_argnums=1)

    def custom(k):
        f = lib.custom_vjp(lambda x: jnp.sum(x * w))
        f.defvjp(lambda x: (jnp.sum(x * w), None), lambda _, ct: (ct * w,))
        return lib.grad(f)(x)

    @functools.cache
    def mapped_over_devices():
        P = lib.sharding.PartitionSpec
        mesh = lib.sharding.Mesh(np.array(lib.devices(), dtype=object), ("i",))
        y = lib.device_put(np.ones(8, np.float32), lib.sharding.NamedSharding(mesh, P("i")))
        over = functools.partial(lib.shard_map, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
        return lambda k: over(lambda a: jnp.sin(a) * 2)(y)

    return {
        "jit of a lambda": lambda k: lib.jit(lambda x: x * w)(x),
        "jit over a new array": lambda k, new=jnp.asarray: (lambda a: lib.jit(lambda x: x * a)(x))(
            new(values)
        ),
        "jit over a new NumPy array": lambda k: (lambda a: lib.jit(lambda x: x * a)(x))(values + k),
        "jit of a partial": lambda k: lib.jit(functools.partial(scaled, w=w))(x),
        "jit of a method of a new object": lambda k: lib.jit(Model(w).apply)(x),
        "jit of grad of a lambda": lambda k: lib.jit(lib.grad(lambda x: jnp.sum(x * w)))(x),
        "grad of a lambda": lambda k: lib.grad(lambda x: jnp.sum(x * w))(x),
        "grad of custom_vjp": custom,
        "vmap of a lambda": lambda k: lib.vmap(lambda x: x * 2)(x),
        "scan of a lambda": lambda k: lax.scan(lambda c, _: (c * w, None), x, None, length=3)[0],
        "cond of lambdas": lambda k: lax.cond(k % 2 == 0, lambda x: x * w, lambda x: x + w, x),
        "while_loop of lambdas": lambda k: lax.while_loop(lambda c: c[0] < 9, lambda c: c * w, x),
        "checkpoint of a lambda": lambda k: lib.grad(lib.checkpoint(lambda x: jnp.sum(x * w)))(x),
        "make_jaxpr of a lambda": lambda k: lib.make_jaxpr(lambda x: x * w)(x) and x,
        "new static values": lambda k: static(x, k),
        "shard_map of a lambda": lambda k: mapped_over_devices()(k),
    }, block


def resident():
    """Resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    lib, name, calls, limit = sys.argv[1:]
    calls, limit = int(calls), float(limit)
    found, block = kinds(load(lib))
    use, begun = found[name], clock()
    step, done = max(1, calls // STEPS), 0
    while done < calls and clock() - begun < limit:
        # The last step of a slow library ends when its time does.
        until, end = done + step, clock() + limit / STEPS
        while done < until and clock() < end:
            block(use(done))
            done += 1
        gc.collect()
        row = {"calls": done, "rss": resident(), "objects": len(gc.get_objects())}
        emit(row | {"seconds": clock() - begun})


if __name__ == "__main__":
    main()
