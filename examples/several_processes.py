"""Data-parallel training of a small network in several processes.

    python -m weft.launch -n 4 --devices-per-process 2 examples/several_processes.py

Each process has its part of the data; the weights are on all devices. Run as a plain script, it is
one process with all the data.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft import distributed
from weft.sharding import NamedSharding, P


def loss(weights: Any, x: Any, y: Any) -> Any:
    first, last = weights
    return jnp.mean((jnp.tanh(x @ first) @ last - y) ** 2)


@weft.jit
def step(weights: Any, x: Any, y: Any) -> Any:
    value, slope = weft.value_and_grad(loss)(weights, x, y)
    return weft.tree.map(lambda w, g: w - 0.2 * g, weights, slope), value


def own_data(rows: int) -> Any:
    """The rows of this process: in practice, the rows that it reads from its own file."""
    source = np.random.default_rng(weft.process_index())
    x = source.normal(size=(rows, 8)).astype(np.float32)
    return x, np.sin(x.sum(axis=1, keepdims=True))


def main(steps: int = 50, rows: int = 512) -> float:
    if "WEFT_COORDINATOR_ADDRESS" in os.environ:
        distributed.initialize()
    mesh = weft.make_mesh((weft.device_count(),), ("data",))
    over_data, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    x, y = weft.make_array_from_process_local_data(over_data, own_data(rows))
    source = np.random.default_rng(7)
    weights = [source.normal(size=shape).astype(np.float32) / 3 for shape in ((8, 32), (32, 1))]
    weights = weft.device_put(weights, everywhere)
    for n in range(steps):
        weights, value = step(weights, x, y)
        if weft.process_index() == 0 and n % 10 == 0:
            print(f"step {n}: loss {float(value):.4f}", flush=True)
    return float(value)


if __name__ == "__main__":
    last = main()
    if weft.process_index() == 0:
        print(f"{weft.process_count()} processes, {weft.device_count()} devices: loss {last:.4f}")
