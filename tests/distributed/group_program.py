"""What the tests let several processes run: `group_program.py MODE`."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np

import weft
import weft.numpy as jnp
from weft import distributed, lax
from weft.experimental import multihost_utils
from weft.sharding import NamedSharding, P


def summed(mesh):
    """A program with a collective over all devices."""
    return weft.jit(
        weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    )


def steps(ending):
    """Runs a collective for long; process 1 ends after a moment, as `ending` does."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.arange(4.0 * len(weft.devices())), NamedSharding(mesh, P("i")))
    step = summed(mesh)
    for n in range(1_000_000):
        if n == 20 and weft.process_index() == int(os.environ.get("VICTIM", "1")):
            print("ends", flush=True)
            ending()
        step(x).block_until_ready()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def raise_an_error():
    raise ValueError("bad data")


def all_raise():
    """Each process has an error of its own, at nearly the same time."""
    distributed.sync_global_devices("now")
    raise ValueError(f"bad data of {weft.process_index()}")


def leave_early():
    sys.exit(7)


def in_a_thread():
    """The steps run in a thread of their own; the main thread waits for it."""
    worker = threading.Thread(target=steps, args=(die,))
    worker.start()
    worker.join()


def caught():
    """The error is caught, and values that will not come are asked for all the same."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.arange(4.0 * len(weft.devices())), NamedSharding(mesh, P("i")))
    step = summed(mesh)
    step(x).block_until_ready()
    if weft.process_index() == 1:
        time.sleep(1)
        die()
    y = step(x)
    try:
        time.sleep(60)
    except RuntimeError as error:
        print(f"caught: {error}", flush=True)
    np.asarray(y)


def sleep():
    """Ends while the others wait for nothing of XLA's."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    summed(mesh)(jnp.arange(4.0 * len(weft.devices()))).block_until_ready()
    if weft.process_index() == 1:
        time.sleep(1)  # so that the others have come to their sleep
        die()
    time.sleep(60)


def differ():
    """Runs programs that differ in a number."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.arange(4.0 * len(weft.devices())), NamedSharding(mesh, P("i")))
    factor = weft.process_index() + 1
    weft.jit(lambda x: jnp.sum(x * factor))(x)


def put_different():
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    weft.device_put(np.full(3, weft.process_index()), NamedSharding(mesh, P()))


def close_over_different():
    """Programs are equal; the arrays that they close over, which are operands, are not."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.arange(4.0 * len(weft.devices())), NamedSharding(mesh, P("i")))
    scale = jnp.full(x.shape, 1.0 + weft.process_index())
    weft.jit(lambda x: jnp.sum(x * scale))(x)


def different_barriers():
    distributed.sync_global_devices("a" if weft.process_index() else "b")


def barrier_of_the_ended():
    if weft.process_index():
        distributed.sync_global_devices("a")


def be_stuck():
    """Process 1 comes late; the others have a watchdog."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    x = weft.device_put(np.arange(4.0 * len(weft.devices())), NamedSharding(mesh, P("i")))
    step = summed(mesh)
    step(x).block_until_ready()
    if weft.process_index() == 1:
        time.sleep(5)
    step(x).block_until_ready()


def threads():
    """Two threads put values and compile programs, in another order in each process."""
    mesh = weft.make_mesh((len(weft.devices()),), ("i",))
    where = NamedSharding(mesh, P("i"))
    found = {}

    def work(k):
        time.sleep(3.0 * ((k + weft.process_index()) % 2))
        found[k] = weft.device_put(np.arange(4.0 * len(weft.devices())) + k, where)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    total = jnp.sum(found[0] + found[1])
    print(json.dumps(float(total)))


def values():
    """Everything that processes do with shared arrays; what all compute is printed."""
    count, here = weft.process_count(), weft.process_index()
    devices = len(weft.devices())
    mesh = weft.make_mesh((devices,), ("i",))
    where, everywhere = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
    host = np.arange(12.0 * devices, dtype=np.float32).reshape(-1, 3)
    x = weft.device_put(host, where)
    assert x.shape == host.shape and x.is_fully_addressable == (count == 1)
    whole = distributed.process_allgather(x, tiled=True)
    np.testing.assert_array_equal(whole, host)
    for text in (str(x), repr(x), f"{x}"):
        assert "Array" in text or count == 1
    check_fetching(x, count)
    # Moved from one sharding to another, by a program of all.
    np.testing.assert_array_equal(np.asarray(weft.device_put(x, everywhere)), host)
    assert weft.device_put(x, where).sharding == where
    check_local_data(mesh, count, here)
    check_host_data(count, here)

    collectives = {
        "psum": lambda v: lax.psum(v, "i"),
        "pmax": lambda v: lax.pmax(v, "i"),
        "all_gather": lambda v: lax.all_gather(v, "i", tiled=True),
        "psum_scatter": lambda v: lax.psum_scatter(
            lax.all_gather(v, "i", tiled=True), "i", tiled=True
        ),
        "ppermute": lambda v: lax.ppermute(
            v, "i", [(k, (k + 1) % devices) for k in range(devices)]
        ),
        "all_to_all": lambda v: lax.all_to_all(jnp.tile(v, (devices, 1)), "i", 0, 0, tiled=True),
        "axis_index": lambda v: v * lax.axis_index("i"),
    }
    found = {"processes": count}
    weights = weft.device_put(np.arange(12.0, dtype=np.float32).reshape(4, 3), everywhere)
    for name, function in collectives.items():

        def part(v, w, function=function):
            return jnp.sum(function(v * w)).reshape(1)

        mapped = weft.shard_map(part, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
        run = weft.jit(mapped)
        found[name] = distributed.process_allgather(run(x, weights), tiled=True).tolist()
        slope = weft.jit(
            weft.grad(lambda w, mapped=mapped: jnp.sum(jnp.sin(mapped(x / 100, w / 10)))),
            out_shardings=everywhere,
        )
        found[f"{name} gradient"] = np.asarray(slope(weights)).tolist()
    found["eager"] = float(jnp.sum(x * 2 + 1)), float(x[5, 1]), len(x)
    found["random"] = distributed.process_allgather(
        weft.jit(lambda: weft.random.normal(weft.random.key(3), (devices,)), out_shardings=where)(),
        tiled=True,
    ).tolist()
    print(json.dumps(found))


def check_fetching(x, count):
    """What would need values of other processes says which call brings them."""
    for fetch in (np.asarray, weft.device_get, pickle.dumps, lambda x: x.tolist()):
        try:
            fetch(x)
        except ValueError as error:
            assert count > 1 and error.fix.kind == "process_allgather", error
        else:
            assert count == 1


def check_local_data(mesh, count, here):
    """Arrays from the part of each process, along each dimension."""
    devices = mesh.size
    rows = 2 * devices // count
    for spec, axis in ((P("i"), 0), (P(None, "i"), 1)):
        part = np.full((rows, rows), here, np.int32)
        x = weft.make_array_from_process_local_data(NamedSharding(mesh, spec), part)
        expected = np.concatenate([np.full((rows, rows), n) for n in range(count)], axis)
        np.testing.assert_array_equal(distributed.process_allgather(x, tiled=True), expected)
        again = multihost_utils.host_local_array_to_global_array(part, mesh, spec)
        np.testing.assert_array_equal(distributed.process_allgather(again, tiled=True), expected)
        back = multihost_utils.global_array_to_host_local_array(x, mesh, spec)
        np.testing.assert_array_equal(back, part)
    if count > 1:
        try:
            weft.make_array_from_process_local_data(NamedSharding(mesh, P("i")), part, (7, rows))
        except ValueError as error:
            assert "global_shape" in str(error), error
        else:
            raise AssertionError("a part of another shape")


def check_host_data(count, here):
    """Numbers and NumPy arrays of every dtype, to all processes."""
    for dtype in ("bool", "int8", "uint64", "float16", "float64", "complex128", "bfloat16"):
        mine = (np.arange(6).reshape(2, 3) + here).astype(
            np.dtype(jnp.bfloat16) if dtype == "bfloat16" else dtype
        )
        found = distributed.process_allgather({"a": mine})["a"]
        assert found.dtype == mine.dtype and found.shape == (count, 2, 3)
        np.testing.assert_array_equal(found[here], mine)
        first = distributed.broadcast_one_to_all(mine)
        np.testing.assert_array_equal(first, (np.arange(6).reshape(2, 3)).astype(mine.dtype))
    assert distributed.process_allgather(np.zeros((0, 2))).shape == (count, 0, 2)
    assert distributed.process_allgather(2**40 + here).tolist() == [2**40 + n for n in range(count)]
    tiled = distributed.process_allgather(np.full(2, here), tiled=True)
    assert tiled.tolist() == [n for n in range(count) for _ in range(2)]
    last = distributed.broadcast_one_to_all(here, is_source=here == count - 1)
    assert last == count - 1
    distributed.sync_global_devices("checked")
    distributed.assert_equal({"a": 1, "b": np.ones(2)})
    if count > 1:
        for wrong in ({"a": here}, {"a": np.ones(1 + here)}, {str(here): 1}):
            try:
                distributed.assert_equal(wrong, "step 3")
            except AssertionError as error:
                assert str(error).startswith("step 3: "), error
            else:
                raise AssertionError("trees that differ")


def nothing():
    pass


MODES = {
    "die": lambda: steps(die), "steps": lambda: steps(die), "error": lambda: steps(raise_an_error),
    "leave": lambda: steps(leave_early), "sleep": sleep, "in_a_thread": in_a_thread,
    "caught": caught, "all_raise": all_raise, "differ": differ,
    "put_different": put_different, "close_over_different": close_over_different,
    "different_barriers": different_barriers,
    "barrier_of_the_ended": barrier_of_the_ended, "stuck": be_stuck, "threads": threads,
    "values": values, "nothing": nothing,
}  # fmt: skip

if __name__ == "__main__":
    mode = sys.argv[1]
    more = {"watchdog_seconds": 1.5} if mode == "stuck" else {}
    timeout = int(os.environ.get("INITIALIZATION", "30"))
    distributed.initialize(initialization_timeout=timeout, **more)
    MODES[mode]()
