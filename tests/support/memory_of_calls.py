"""Ways to run something, in loops that wait for no result, and the memory that a call leaves.

    python tests/support/memory_of_calls.py in-use 1000       bytes allocated, after few calls
    python tests/support/memory_of_calls.py resident 1000000  pages of the process, after many

It runs in a process of its own, which nothing else allocates in. Each line of the output has a way
and the bytes that one call left.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax

X, HOST = jnp.ones(3), np.ones(3, np.float32)
MESH = weft.make_mesh((weft.device_count(),), ("i",))
OVER_ALL = weft.NamedSharding(MESH, weft.P("i"))
SPREAD = weft.device_put(np.ones(weft.device_count(), np.float32), OVER_ALL)
OTHER = weft.device_put(X, weft.devices()[-1])
TREE = {"b": [X, (HOST, 1.5, None)], "a": X}
DELETED = jnp.ones(3)
DELETED.delete()
KEY = weft.random.key(0)


def square(x):
    return jnp.sum(x * x)


def fails(call, kind):
    """A function that makes a call, whose error it catches."""

    def run():
        try:
            call()
        except kind:
            return
        raise AssertionError("there was no error")

    return run


def give_away():
    given[0] = donating(given[0])


def division_by_zero(_):
    raise ZeroDivisionError


add = weft.jit(lambda x: x + 1)
add_all = weft.jit(lambda tree: weft.tree.map(lambda x: x + 1, tree))
scaled = weft.jit(lambda x, k: x * k, static_argnums=1)
compiled = add.lower(X).compile()
donating = weft.jit(lambda x: x + 1, donate_argnums=0)
given = [jnp.ones(3)]
total = weft.jit(
    weft.shard_map(lambda x: lax.psum(x, "i"), mesh=MESH, in_specs=weft.P("i"), out_specs=weft.P())
)
calling_back = weft.jit(lambda x: weft.pure_callback(lambda v: v, x, x))
noting = weft.jit(lambda x: (weft.debug.callback(lambda v: None, x), x + 1)[1])
failing = weft.jit(lambda x: weft.pure_callback(division_by_zero, x, x))
gradient = weft.jit(weft.grad(square))

WAYS = {
    "eager": lambda: jnp.sin(X),
    "eager, a number": lambda: X + 1.5,
    "eager, two devices": lambda: jnp.sin(OTHER),
    "eager, all devices": lambda: jnp.sin(SPREAD),
    "an index": lambda: X[1],
    "an update": lambda: X.at[0].set(1.0),
    "jit": lambda: add(X),
    "jit, from the host": lambda: add(HOST),
    "jit, a number": lambda: add(1.5),
    "jit, a tree": lambda: add_all(TREE),
    "jit, a static argument": lambda: scaled(X, 3),
    "jit, another device": lambda: add(OTHER),
    "jit, all devices": lambda: add(SPREAD),
    "jit of grad": lambda: gradient(X),
    "compiled": lambda: compiled(X),
    "donated": give_away,
    "donated, made anew": lambda: donating(jnp.ones(3)),
    "shard_map": lambda: total(SPREAD),
    "pure_callback": lambda: calling_back(X),
    "debug.callback": lambda: noting(X),
    "vmap": lambda: weft.vmap(jnp.sin)(X),
    "grad": lambda: weft.grad(square)(X),
    "jvp": lambda: weft.jvp(jnp.sin, (X,), (X,)),
    "scan": lambda: lax.scan(lambda c, _: (c * 2, None), X, None, length=3),
    "a new wrapper": lambda: weft.jit(square)(X),
    "a new lambda": lambda: weft.jit(lambda x: x + 1)(X),
    "make_jaxpr": lambda: weft.make_jaxpr(square)(X),
    "random keys": lambda: weft.random.normal(weft.random.split(KEY)[0], (3,)),
    "to a device": lambda: weft.device_put(HOST),
    "to another device": lambda: weft.device_put(X, weft.devices()[-1]),
    "to all devices": lambda: weft.device_put(SPREAD, weft.NamedSharding(MESH, weft.P())),
    "to the host": lambda: np.asarray(add(X)),
    "to the host, started": lambda: add(X).copy_to_host_async(),
    "from the host": lambda: jnp.asarray(HOST),
    "from a list": lambda: jnp.array([1.0, 2.0]),
    "printed": lambda: repr(X),
    "a number of Python": lambda: float(add(1.0)),
    "dlpack": lambda: np.from_dlpack(X),
    "waited for": lambda: weft.block_until_ready(add(X)),
    "a wrong call": fails(lambda: add(X, X), TypeError),
    "wrong shapes": fails(lambda: jnp.dot(X, jnp.ones(4)), ValueError),
    "a deleted array": fails(lambda: add(DELETED), weft.errors.DeletedArrayError),
    "an error in a callback": fails(lambda: failing(X), ZeroDivisionError),
}


class Allocated(ctypes.Structure):
    """What mallinfo2 of the C library tells; see its manual page."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
        )
    ]


def in_use():
    """The bytes that the C library and Python have given out, a block of Python's taken for 64."""
    found = mallinfo2()
    return found.uordblks + found.hblkhd + 64 * sys.getallocatedblocks()


def resident():
    """The bytes of the process's memory that are there."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled(measure):
    """What is measured once garbage is gone and no program runs. Nothing waits for a result: that
    would free what a loop without waiting leaves."""
    gc.collect()
    time.sleep(0.01)
    return measure()


def left_by(call, measure, calls, rounds=3):
    """The bytes that a call leaves: those of the round that leaves least, since caches fill up and
    the memory of threads grows in some rounds, and a leak shows in each. `calls` are those of all
    rounds."""
    each = calls // rounds
    for _ in range(min(each, 1000)):
        call()
    found = []
    for _ in range(rounds):
        before = settled(measure)
        for _ in range(each):
            call()
        found.append((settled(measure) - before) / each)
    return min(found)


if __name__ == "__main__":
    measure = {"in-use": in_use, "resident": resident}[sys.argv[1]]
    if measure is in_use:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = Allocated
    for name, call in WAYS.items():
        print(f"{name}\t{left_by(call, measure, int(sys.argv[2])):.2f}", flush=True)
