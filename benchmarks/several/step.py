"""One process of several, with weft or JAX: times a cached step whose collective joins them all.

python benchmarks/several/step.py LIBRARY ADDRESS COUNT NUMBER
"""

import importlib
import json
import statistics
import sys
import time

import numpy as np

SIZES = {"a number": 1, "1 MiB": 1 << 18}  # float32 elements of each device
REPEATS = 400
# JAX hangs where more than 32 wait for several devices of a process.
IN_FLIGHT = 20


def main():
    name, address, count, number = sys.argv[1:]
    lib = importlib.import_module(name)
    begun = time.perf_counter()
    lib.distributed.initialize(address, int(count), int(number))
    devices = len(lib.devices())
    joined = time.perf_counter() - begun
    sharding = importlib.import_module(f"{name}.sharding")
    P = sharding.PartitionSpec
    mesh = lib.make_mesh((devices,), ("i",))
    where = sharding.NamedSharding(mesh, P("i"))
    found = {"joining, s": joined}
    for label, size in SIZES.items():
        step = lib.jit(
            lib.shard_map(
                lambda x: x + 0.5 * lib.lax.pmean(x, "i"),
                mesh=mesh,
                in_specs=P("i"),
                out_specs=P("i"),
            )
        )
        host = np.zeros(size * devices, np.float32)
        x = lib.make_array_from_callback(host.shape, where, lambda index, host=host: host[index])
        for _ in range(20):
            x = step(x)
        x.block_until_ready()
        times = []
        for _ in range(REPEATS if size == 1 else 60):
            start = time.perf_counter()
            x = step(x)
            x.block_until_ready()
            times.append(time.perf_counter() - start)
        found[f"step over {label}, us"] = 1e6 * statistics.median(times)
        if size == 1:  # what Python costs where nobody waits
            start = time.perf_counter()
            for _ in range(IN_FLIGHT):
                x = step(x)
            x.block_until_ready()
            found[f"{IN_FLIGHT} steps started at once, us each"] = (
                1e6 * (time.perf_counter() - start) / IN_FLIGHT
            )
    if number == "0":
        print("FOUND", json.dumps(found), flush=True)


main()
