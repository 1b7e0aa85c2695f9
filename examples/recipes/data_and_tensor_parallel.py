"""Trains a network over a mesh of 2 × 4 devices: parts of the batch, and parts of the layers.

    python examples/recipes/data_and_tensor_parallel.py
    python examples/recipes/data_and_tensor_parallel.py --picture mesh.svg

Eight CPU devices stand for the accelerators. Rows of a batch are split over `data`. Hidden units
are split over `tensor`, as in Shoeybi et al., "Megatron-LM" (2019): the first layer by its columns,
the second by its rows, so that one sum over `tensor` completes the logits. The same functions train
on one device, and the losses are compared. The data is the digits of scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import Array, lax, nn, random
from weft.sharding import Mesh, NamedSharding, P

BATCH, HIDDEN, RATE = 64, 256, 0.5
Params = dict[str, Array]
SPECS = {"up": P(None, "tensor"), "bias": P("tensor"), "down": P("tensor"), "last": P()}


def digits() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return (x / 16).astype(np.float32), y.astype(np.int32)


def init(key: Array) -> Params:
    up, down = random.split(key)
    return {
        "up": random.normal(up, (64, HIDDEN)) / 8,
        "bias": jnp.zeros(HIDDEN),
        "down": random.normal(down, (HIDDEN, 10)) / HIDDEN**0.5,
        "last": jnp.zeros(10),
    }


def loss(params: Params, x: Array, y: Array) -> Array:
    """The mean cross-entropy of a batch. Under `shard_map` this is what one device computes, with
    its rows of the batch and its hidden units."""
    hidden = nn.relu(x @ params["up"] + params["bias"])
    logits = lax.psum(hidden @ params["down"], "tensor") + params["last"]
    logs = jnp.take_along_axis(nn.log_softmax(logits), y[:, None], axis=-1)
    return lax.pmean(-jnp.mean(logs), "data")


def over(mesh: Mesh) -> Callable[[Params, Array, Array], Array]:
    """The loss of a whole batch, computed by the devices of a mesh."""
    return weft.shard_map(loss, mesh=mesh, in_specs=(SPECS, P("data"), P("data")), out_specs=P())


def place(mesh: Mesh, params: Params) -> Params:
    """The weights on the devices, each as its spec says."""
    where = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
    return weft.device_put(params, where)


def train(mesh: Mesh, steps: int) -> tuple[Params, np.ndarray]:
    """The weights after some steps of gradient descent, and the losses on the way."""
    rows = NamedSharding(mesh, P("data"))

    @weft.jit(donate_argnums=0)
    def step(params: Params, x: Array, y: Array) -> tuple[Params, Array]:
        value, slope = weft.value_and_grad(over(mesh))(params, x, y)
        return weft.tree.map(lambda p, g: p - RATE * g, params, slope), value

    x, y = digits()
    params, losses = place(mesh, init(random.key(0))), []
    for i in range(steps):
        at = np.arange(i * BATCH, (i + 1) * BATCH) % len(y)
        params, value = step(params, *weft.device_put((x[at], y[at]), rows))
        losses.append(value)
    return params, np.asarray(losses)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the mesh")
    options = parser.parse_args(argv)
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")  # read when the first array is made
    names = ("data", "tensor")
    mesh = weft.make_mesh((2, 4), names)
    alone = Mesh(mesh.devices[:1, :1], names)
    (params, losses), (_, reference) = (train(devices, 60) for devices in (mesh, alone))
    print(f"loss {losses[0]:.2f}, then {losses[-1]:.2f}; on one device {reference[-1]:.2f}")
    print(f"they differ by less than 1e-6: {np.max(np.abs(losses - reference)) < 1e-6}\n")
    print(weft.show(params["up"]), "\n")
    x, y = digits()
    print(weft.comms(weft.value_and_grad(over(mesh)), params, x[:BATCH], y[:BATCH]))
    if options.picture:
        weft.show(params["up"]).save(options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
