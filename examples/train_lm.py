"""A small language model of Python's documentation, trained data- and tensor-parallel.

    python examples/train_lm.py --devices 8                       # one process with eight devices
    python -m weft.launch -n 2 --devices-per-process 4 examples/train_lm.py
    python -m weft.launch -n 4 --devices-per-process 2 examples/train_lm.py --folder state

The text is the docstrings of the standard library, as bytes. The model is a decoder of
pre-normalized blocks with learned positions. The devices are a mesh of 2 × 4: rows of a batch are
split over `data`, and the heads and hidden units of each block over `tensor`, as in Shoeybi et al.,
"Megatron-LM" (2019), with two sums over the devices for each block. The program is the same for any
number of processes, and so are its losses, up to rounding.

With `--folder` the program saves its state during the training. A run that was stopped or killed
continues from there, with the same losses, bit for bit.
"""

from __future__ import annotations

import argparse
import ast
import os
import pathlib
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft import checkpoints, distributed, lax, nn, random
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

Tree = Any

BYTES = 128  # the text is ASCII


class Sizes(NamedTuple):
    """The shape of the model and of a batch."""

    layers: int = 4
    embed: int = 128
    heads: int = 8
    context: int = 128
    batch: int = 32


# ---- the text ------------------------------------------------------------------------------------


def standard_documentation(limit: int) -> np.ndarray[Any, Any]:
    """The first `limit` bytes of the docstrings of the standard library, file by file."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    found, length = [], 0
    for path in sorted(folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    found.append(text.encode("ascii", "ignore") + b"\n\n")
                    length += len(found[-1])
        if length >= limit:
            break
    return np.frombuffer(b"".join(found)[:limit], np.uint8)


def batch(text: np.ndarray[Any, Any], step: int, sizes: Sizes, where: NamedSharding) -> Any:
    """The rows of one step: passages chosen by the number of the step alone, so that a continued
    run sees the same ones. A process makes the rows of its devices."""
    source = np.random.default_rng([7, step])
    starts = source.integers(len(text) - sizes.context, size=sizes.batch)

    def rows(index: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        passages = [text[start : start + sizes.context + 1] for start in starts[index[0]]]
        return np.stack(passages).astype(np.int32)

    return weft.make_array_from_callback((sizes.batch, sizes.context + 1), where, rows)


# ---- the model -----------------------------------------------------------------------------------


def initial(key: Any, sizes: Sizes) -> Tree:
    """The weights. The weights of the layers are stacked, for `scan`."""
    layers, embed, heads = sizes.layers, sizes.embed, sizes.heads
    shapes = {
        "byte": (BYTES, embed),
        "place": (sizes.context, embed),
        "layers": {
            "qkv": (layers, embed, 3, heads, embed // heads),
            "out": (layers, heads, embed // heads, embed),
            "up": (layers, embed, 4 * embed),
            "down": (layers, 4 * embed, embed),
            "norms": (layers, 2, embed),
        },
        "norm": (embed,),
    }
    leaves, structure = weft.tree.flatten(shapes, is_leaf=lambda x: isinstance(x, tuple))
    keys = random.split(key, len(leaves))
    made = [0.02 * random.normal(k, shape) for k, shape in zip(keys, leaves, strict=True)]
    weights = structure.unflatten(made)
    weights["norm"] = jnp.ones(embed)
    weights["layers"]["norms"] = jnp.ones((layers, 2, embed))
    return weights


# The shardings of the weights: heads and hidden units over `tensor`, the rest on all devices.
SPECS = {
    "byte": P(),
    "place": P(),
    "layers": {
        "qkv": P(None, None, None, "tensor"),
        "out": P(None, "tensor"),
        "up": P(None, None, "tensor"),
        "down": P(None, "tensor"),
        "norms": P(),
    },
    "norm": P(),
}


def normalized(x: Any, scale: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def block(x: Any, layer: Tree) -> tuple[Any, None]:
    """One layer, on this device's heads and hidden units: each half ends in a sum over devices."""
    parts = jnp.einsum("bte,ecnh->cbtnh", normalized(x, layer["norms"][0]), layer["qkv"])
    q, k, v = parts
    attended = nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + lax.psum(jnp.einsum("btnh,nhe->bte", attended, layer["out"]), "tensor")
    hidden = nn.gelu(normalized(x, layer["norms"][1]) @ layer["up"])
    return x + lax.psum(hidden @ layer["down"], "tensor"), None


def loss(weights: Tree, rows: Any) -> Any:
    """The mean negative logarithm of the probability of the next byte, over all devices."""
    inputs, targets = rows[:, :-1], rows[:, 1:]
    x = weights["byte"][inputs] + weights["place"]
    x, _ = lax.scan(block, x, weights["layers"])
    logits = normalized(x, weights["norm"]) @ weights["byte"].T
    chosen = jnp.take_along_axis(nn.log_softmax(logits), targets[..., None], axis=-1)
    return lax.pmean(-jnp.mean(chosen), "data")


def make_step(mesh: Any, rate: float) -> Callable[[Tree, Any], tuple[Tree, Any]]:
    """A jitted step of Adam (Kingma and Ba, 2014)."""
    shared = weft.shard_map(loss, mesh=mesh, in_specs=(SPECS, P("data")), out_specs=P())

    @weft.jit(donate_argnums=0)
    def step(state: Tree, rows: Any) -> tuple[Tree, Any]:
        value, slope = weft.value_and_grad(shared)(state["weights"], rows)
        count = state["count"] + 1
        mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], slope)
        square = weft.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], slope)

        def moved(w: Any, m: Any, s: Any) -> Any:
            scaled = (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.99**count)) + 1e-8)
            return w - rate * scaled

        weights = weft.tree.map(moved, state["weights"], mean, square)
        return {"weights": weights, "mean": mean, "square": square, "count": count}, value

    return step


# ---- the training --------------------------------------------------------------------------------


def start(mesh: Any, sizes: Sizes) -> Tree:
    """The state before the first step, each leaf with its sharding."""
    places = weft.tree.map(
        lambda spec: NamedSharding(mesh, spec), SPECS, is_leaf=lambda x: isinstance(x, P)
    )
    everywhere = NamedSharding(mesh, P())
    weights = weft.jit(lambda: initial(random.key(0), sizes), out_shardings=places)()
    zeros = weft.jit(lambda: weft.tree.map(jnp.zeros_like, weights), out_shardings=places)
    return {
        "weights": weights,
        "mean": zeros(),
        "square": zeros(),
        "count": weft.device_put(np.float32(0), everywhere),
    }


class Progress:
    """A line that is rewritten on a terminal; elsewhere, a line for each tenth of the work."""

    def __init__(self, steps: int) -> None:
        self.steps, self.began, self.first = steps, time.perf_counter(), -1

    def show(self, step: int, value: float) -> None:
        if self.first < 0:
            self.first = step
        done = (step + 1) / self.steps
        speed = (step + 1 - self.first) / (time.perf_counter() - self.began)
        text = f"step {step + 1}/{self.steps}  loss {value:.4f}  {speed:.1f} steps/s"
        if sys.stderr.isatty():
            bar = "#" * round(30 * done)
            end = "\n" if step + 1 == self.steps else ""
            print(f"\r[{bar:<30}] {text}", end=end, file=sys.stderr, flush=True)
        elif (step + 1) % max(1, self.steps // 10) == 0:
            print(text, file=sys.stderr, flush=True)


def train(options: argparse.Namespace) -> list[float]:
    """The losses of the steps that this run made."""
    sizes = Sizes(options.layers, options.embed, options.heads, options.context, options.batch)
    mesh = weft.make_mesh((2, 4), ("data", "tensor"))
    text = standard_documentation(options.text)
    state, first = start(mesh, sizes), 0
    step = make_step(mesh, options.rate)
    where = NamedSharding(mesh, P("data"))
    kept = checkpoints.Checkpoints(options.folder, keep=2) if options.folder else None
    saved = kept.latest() if kept is not None else None
    if kept is not None and saved is not None:
        first, state = saved + 1, kept.restore(saved, like=state)
    is_first = weft.process_index() == 0
    progress = Progress(options.steps)
    losses = []
    for number in range(first, options.steps):
        state, value = step(state, batch(text, number, sizes, where))
        losses.append(float(value))
        if is_first:
            progress.show(number, losses[-1])
            if options.print_losses:
                print(f"loss {number} {losses[-1].hex()}", flush=True)
        if kept is not None and (
            (number + 1) % options.save_every == 0 or number + 1 == options.steps
        ):
            kept.save(number, state)
    if kept is not None:
        kept.wait()
    return losses


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--devices", type=int, help="CPU devices of a single process")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--folder", help="where the state is saved, and found again")
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--text", type=int, default=1_000_000, help="bytes of text")
    parser.add_argument("--print-losses", action="store_true", help="each one, exactly")
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    if options.devices:
        weft.config.update("num_cpu_devices", options.devices)
    if "WEFT_COORDINATOR_ADDRESS" in os.environ or "SLURM_PROCID" in os.environ:
        distributed.initialize()
    if weft.device_count() != 8:
        print(f"the mesh has 2 × 4 devices; there are {weft.device_count()}", file=sys.stderr)
        return 2
    losses = train(options)
    if weft.process_index() == 0 and losses:
        print(f"{weft.process_count()} processes: loss {losses[0]:.4f}, then {losses[-1]:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
