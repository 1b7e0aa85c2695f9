"""Moving arrays between the host and the devices."""

import numpy as np

import workloads
from cases.registry import case
from cases.sharded import make_mesh, sharding_names
from timers import US, Figures, median_of, once, per_call


@case(reps=5)
def transfer(lib):
    figures = Figures()
    jnp, block = lib.numpy, lib.block_until_ready
    small = workloads.f32(256)  # 1 KB
    with figures.part("1KB"):
        figures.add("device_put", per_call(lambda: block(lib.device_put(small))) * US, "us")
        figures.add("asarray", per_call(lambda: block(jnp.asarray(small))) * US, "us")
        figures.add("array_copy", per_call(lambda: block(jnp.array(small))) * US, "us")
        x = jnp.asarray(small)
        figures.add("np.asarray_cached", per_call(lambda: np.asarray(x)) * US, "us")
        inc = lib.jit(lambda x: x + 1)
        figures.add("np.asarray_of_fresh_result", per_call(lambda: np.asarray(inc(x))) * US, "us")
        s = jnp.asarray(np.float32(2))
        figures.add("item", per_call(lambda: inc(s).item()) * US, "us")
        t = [jnp.asarray(workloads.f32(8, seed=k)) for k in range(100)]
        with figures.part():
            figures.add("device_get_100", per_call(lambda: lib.device_get(t)) * US, "us")
        with figures.part():
            h = [workloads.f32(8, seed=k) for k in range(100)]
            figures.add(
                "device_put_tree_100", per_call(lambda: block(lib.device_put(h))) * US, "us"
            )
    with figures.part("256MB"):
        big = np.ones(64 * 2**20 + 32, np.float32)
        off = (-big.ctypes.data % 64) // 4
        aligned, odd = big[off : off + 64 * 2**20], big[off + 1 : off + 1 + 64 * 2**20]
        gb = aligned.nbytes / 1e9

        def rate(name, fn, reps=7):
            fn()
            fn()  # the first touch of fresh memory is the machine's, not ours
            figures.add(name, gb / median_of(fn, reps), "GB/s")

        rate("numpy_copy_reference", lambda: odd.copy())
        rate("device_put_unaligned", lambda: block(lib.device_put(odd)))
        figures.add(
            "device_put_aligned_64",
            per_call(lambda: block(lib.device_put(aligned)), budget=0.3) * US,
            "us",
        )
        rate("array_copy", lambda: block(jnp.array(aligned)))
        x = block(jnp.array(aligned))
        figures.add("np.asarray_first", once(lambda: np.asarray(x))[0] * US, "us")
        neg = lib.jit(lambda x: -x)
        rate("jit_neg_then_np.asarray", lambda: np.asarray(neg(x)))
    return figures


@case(devices=8, reps=5)
def transfer_sharded(lib):
    figures = Figures()
    P, NS = sharding_names(lib)
    block = lib.block_until_ready
    m1 = make_mesh(lib, (8,), ("i",))
    s = NS(m1, P("i"))
    small, big = workloads.f32(256), np.ones(64 * 2**20, np.float32)
    gb = big.nbytes / 1e9
    with figures.part("1KB"):
        figures.add("device_put", per_call(lambda: block(lib.device_put(small, s))) * US, "us")
        x = lib.device_put(small, s)
        inc = lib.jit(lambda x: x + 1)
        figures.add("np.asarray_of_fresh_result", per_call(lambda: np.asarray(inc(x))) * US, "us")
        with figures.part():
            figures.add(
                "make_array_from_callback",
                per_call(
                    lambda: block(lib.make_array_from_callback(small.shape, s, lambda i: small[i]))
                )
                * US,
                "us",
            )
        with figures.part():
            parts = [sh.data for sh in x.addressable_shards]
            figures.add(
                "make_array_from_single_device_arrays",
                per_call(lambda: lib.make_array_from_single_device_arrays((256,), s, parts)) * US,
                "us",
            )
            figures.add(
                "addressable_shards_data",
                per_call(lambda: [q.data for q in inc(x).addressable_shards]) * US,
                "us",
            )
        r = NS(m1, P())
        figures.add(
            "reshard_to_replicated", per_call(lambda: block(lib.device_put(x, r))) * US, "us"
        )
    with figures.part("256MB"):
        for _ in range(2):
            block(lib.device_put(big, s))
        figures.add("device_put", gb / median_of(lambda: block(lib.device_put(big, s)), 7), "GB/s")
        x = block(lib.device_put(big, s))
        neg = lib.jit(lambda x: -x)
        ts = []
        for _ in range(7):
            fresh = [block(neg(x))]  # let go before the next one is made
            ts.append(once(lambda: np.asarray(fresh.pop()))[0])
        figures.add("np.asarray", gb / sorted(ts[2:])[2], "GB/s")
    return figures
