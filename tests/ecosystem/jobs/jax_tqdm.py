"""jax-tqdm: progress of a scan and of a loop, shown from inside compiled programs."""

import jax
import jax.numpy as jnp
from jax_tqdm import loop_tqdm, scan_tqdm

DISTRIBUTION = "jax-tqdm"


def main(timed):
    count = 30

    @scan_tqdm(count, print_rate=10)
    def advance(x, i):
        x = 0.9 * x + jnp.sin(0.1 * i)
        return x, x

    @loop_tqdm(count, print_rate=10)
    def double(i, x):
        return x * 1.01 + i

    run = timed(jax.jit(lambda x: jax.lax.scan(advance, x, jnp.arange(count))))
    for _ in range(3):
        last, path = run(jnp.array(1.0))
    looped = jax.jit(lambda x: jax.lax.fori_loop(0, count, double, x))(jnp.ones(2))
    return {"last": last, "path": path, "looped": looped}
