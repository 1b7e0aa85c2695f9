"""A process that is stuck somewhere: `stuck_program.py PLACE KIND VICTIM`.

KIND is `stops` (the system stops it, as SIGSTOP does) or `loops` (in Python, for ever).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np

import weft
import weft.numpy as jnp
from weft import distributed, lax
from weft.checkpoints import saving
from weft.sharding import NamedSharding, P

PLACE, KIND, VICTIM = sys.argv[1:]


def is_victim():
    return os.environ["WEFT_PROCESS_ID"] == VICTIM


def be_stuck():
    print(f"stuck at {time.time()}", flush=True)
    if KIND == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    while True:
        pass


def soon():
    """Is stuck in a moment, wherever the main thread is then."""
    threading.Timer(0.5, be_stuck).start()


def over_all():
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.ones(4 * len(weft.devices())), NamedSharding(mesh, P("i")))
    return mesh, x


def mapped(mesh, function):
    return weft.jit(weft.shard_map(function, mesh=mesh, in_specs=P("i"), out_specs=P("i")))


def in_a_step():
    """A step that takes long, in all processes."""
    mesh, x = over_all()
    step = mapped(mesh, lambda x: lax.fori_loop(0, 10**9, lambda _, y: lax.psum(y, "i") / 8, x))
    run = step.lower(x).compile()
    if is_victim():
        soon()
    run(x).block_until_ready()


def between_steps():
    mesh, x = over_all()
    step = mapped(mesh, lambda x: lax.psum(x, "i") / 8)
    for n in range(10**6):
        if n == 20 and is_victim():
            be_stuck()
        x = step(x)  # nobody waits for a value


def in_a_compilation():
    """The others compile too, and wait for the first run."""
    mesh, x = over_all()

    def long(x):
        for k in range(1500):
            x = jnp.sin(x) * lax.psum(x[k % 4], "i")
        return x

    lowered = mapped(mesh, long).lower(x)
    if is_victim():
        soon()
    lowered.compile()(x).block_until_ready()


def in_a_checkpoint():
    _, x = over_all()
    if is_victim():
        saving._Part.write = lambda _: be_stuck()
    weft.checkpoints.save(os.environ["FOLDER"], {"x": x})


def at_a_barrier():
    if is_victim():
        be_stuck()
    distributed.sync_global_devices("epoch")


PLACES = {
    "in_a_step": in_a_step, "between_steps": between_steps,
    "in_a_compilation": in_a_compilation, "in_a_checkpoint": in_a_checkpoint,
    "at_a_barrier": at_a_barrier, "before_the_start": lambda: None,
}  # fmt: skip

if __name__ == "__main__":
    if PLACE == "before_the_start" and is_victim():
        be_stuck()
    print("starts", flush=True)
    distributed.initialize(initialization_timeout=60)
    PLACES[PLACE]()
