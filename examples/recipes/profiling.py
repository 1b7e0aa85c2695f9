"""Where a training step spends its time: a profile, and the operations that the program counts.

    python examples/recipes/profiling.py
    python examples/recipes/profiling.py --folder out/profile --picture profile.svg

A block of a transformer has two parts, and each is a named scope. `weft.cost` counts the operations
of both before anything runs. A profile of five steps says how long they take: each of its events
names an operation of the compiled program, and the program's text has the scope that it came from.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

import weft
import weft.numpy as jnp
from weft import Array, nn, profiler, random

STYLE = Path(__file__).with_name("recipes.mplstyle")
BATCH, LENGTH, EMBED, STEPS = 4, 512, 64, 5
PARTS = ("attention", "mlp")
Params = dict[str, Array]


@weft.named_scope("attention")
def attention(params: Params, x: Array) -> Array:
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    scores = nn.softmax(q @ k.swapaxes(1, 2) / EMBED**0.5)
    return (scores @ v) @ params["out"]


@weft.named_scope("mlp")
def mlp(params: Params, x: Array) -> Array:
    return nn.gelu(x @ params["up"]) @ params["down"]


def loss(params: Params, x: Array) -> Array:
    x = x + attention(params, x)
    x = x + mlp(params, x)
    return jnp.mean(x**2)


@weft.jit
def step(params: Params, x: Array) -> Params:
    slope = weft.grad(loss)(params, x)
    return weft.tree.map(lambda p, g: p - 0.1 * g, params, slope)


def init(key: Array) -> Params:
    shapes = {"qkv": (EMBED, 3 * EMBED), "out": (EMBED, EMBED)}
    shapes |= {"up": (EMBED, 4 * EMBED), "down": (4 * EMBED, EMBED)}
    keys = dict(zip(shapes, random.split(key, len(shapes)), strict=True))
    return {name: random.normal(keys[name], shape) / EMBED**0.5 for name, shape in shapes.items()}


def counted(params: Params, x: Array) -> dict[str, np.ndarray]:
    """What each part costs, forward and backward, from the traced program alone."""
    lines = weft.cost(step, params, x).lines
    parts = [[c for c in lines if c.line.endswith(f" in {part}")] for part in PARTS]
    return {
        "operations": np.array([sum(c.flops for c in part) for part in parts]),
        "bytes moved": np.array([sum(c.fused_bytes for c in part) for part in parts]),
    }


def take(folder: Path, params: Params, x: Array) -> Path:
    """Writes a profile of some steps below a folder; answers with its newest directory."""
    weft.block_until_ready(step(params, x))  # compiled before, so that the profile has steps only
    with profiler.trace(folder, create_perfetto_trace=True):
        for i in range(STEPS):
            with profiler.StepTraceAnnotation("step", step_num=i):
                params = weft.block_until_ready(step(params, x))
    return max(folder.glob("plugins/profile/*"))


def measured(directory: Path, text: str) -> np.ndarray:
    """The seconds that each part took, of all threads together: the events of the profile, by the
    scopes that the compiled program's text gives for its operations."""
    scopes = dict(re.findall(r'(\S+) = .*metadata=\{op_name="([^"]*)"', text))
    seconds = np.zeros(len(PARTS))
    profile = profiler.ProfileData.from_file(str(next(directory.glob("*.xplane.pb"))))
    for event in (e for plane in profile.planes for line in plane.lines for e in line.events):
        scope = scopes.get("%" + str(dict(event.stats).get("hlo_op")), "")
        seconds += [event.duration_ns / 1e9 * (part in scope) for part in PARTS]
    return seconds


def draw(path: Path, costs: dict[str, np.ndarray]) -> None:
    shares = np.array([100 * cost / cost.sum() for cost in costs.values()])
    with matplotlib.style.context(STYLE):
        axes = (figure := Figure(figsize=(8, 2))).subplots()
        axes.barh(list(costs), shares[:, 0], label=PARTS[0])
        axes.barh(list(costs), shares[:, 1], left=shares[:, 0], label=PARTS[1])
        axes.set(xlim=(0, 100), xlabel="% of both parts")
        axes.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.25))
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to draw the shares")
    parser.add_argument("--folder", type=Path, default=Path("out/profile"), help="of the profile")
    options = parser.parse_args(argv)
    of_params, of_x = random.split(random.key(0))
    params, x = init(of_params), random.normal(of_x, (BATCH, LENGTH, EMBED))
    costs = counted(params, x)
    directory = take(options.folder, params, x)
    text = step.lower(params, x).compile().as_text()
    costs["seconds"] = measured(directory, text) / STEPS
    print(f"{'':12s}{PARTS[0]:>12s}{PARTS[1]:>12s}")
    for name, (first, second) in costs.items():
        print(f"{name:12s}{first:12.2e}{second:12.2e}")
    print(f"profile: {directory / 'perfetto_trace.json.gz'}")
    if options.picture:
        draw(options.picture, costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
