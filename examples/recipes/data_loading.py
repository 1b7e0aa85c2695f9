"""Feeds shuffled batches from files to several devices, while the program computes.

    python examples/recipes/data_loading.py
    python examples/recipes/data_loading.py --picture data_loading.svg

The digits of scikit-learn are written into a CSV file and a file of NumPy, and read from there. The
program sees every row once per epoch, in an order that follows from a key.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import random
from weft.sharding import Mesh, NamedSharding, P

Batch = dict[str, Any]
STYLE = Path(__file__).with_name("recipes.mplstyle")


def from_csv(path: Path) -> Batch:
    """The columns of a file whose last one is the label. All of it is in memory."""
    table = np.loadtxt(path, delimiter=",", dtype=np.float32)
    return {"x": table[:, :-1], "y": table[:, -1].astype(np.int32)}


def from_npy(features: Path, labels: Path) -> Batch:
    """The same from files of NumPy. The features stay on the disk until they are asked for."""
    return {"x": np.load(features, mmap_mode="r"), "y": np.load(labels)}


def batches(data: Batch, size: int, key: weft.Array, epoch: int) -> Iterator[Batch]:
    """All rows once, shuffled. The last batch is filled up with rows of weight 0."""
    count = len(data["y"])
    order = np.asarray(random.permutation(random.fold_in(key, epoch), count))
    for start in range(0, count, size):
        rows = order[start : start + size]
        weight = (np.arange(size) < len(rows)).astype(np.float32)
        rows = np.resize(rows, size)
        yield {name: column[rows] for name, column in data.items()} | {"weight": weight}


def prefetch(source: Iterable[Batch], put: Callable[[Batch], Batch], ahead: int) -> Iterator[Batch]:
    """The batches on the devices. A thread reads and copies those that come next."""
    waiting = iter(source)

    def fetch() -> Batch | None:
        batch = next(waiting, None)
        return None if batch is None else put(batch)

    with ThreadPoolExecutor(1) as thread:
        fetched = deque(thread.submit(fetch) for _ in range(ahead))
        while (batch := fetched.popleft().result()) is not None:
            fetched.append(thread.submit(fetch))
            yield batch


def split_over(mesh: Mesh) -> Callable[[Batch], Batch]:
    """A function that gives each device its rows of a batch."""
    return lambda batch: weft.device_put(batch, NamedSharding(mesh, P("data")))


@weft.jit(max_traces=1)
def add_up(total: Batch, batch: Batch) -> Batch:
    """What a training step would be: here the sums of pixels and the number of rows."""
    x, weight = batch["x"] / 16, batch["weight"]
    return {"pixels": total["pixels"] + weight @ x, "rows": total["rows"] + weight.sum()}


def run_epoch(data: Batch, mesh: Mesh, key: weft.Array, epoch: int) -> tuple[str, Batch]:
    """What the steps added up, as text, and the last batch."""
    total: Batch = {"pixels": jnp.zeros(64), "rows": jnp.zeros(())}
    source = batches(data, 32, key, epoch)
    for number, batch in enumerate(prefetch(source, split_over(mesh), ahead=2)):
        if number == 0:
            first = batch["y"][:8]
        total = add_up(total, batch)
    mean = float(jnp.mean(total["pixels"] / total["rows"]))
    rows = int(total["rows"])
    return f"{number + 1} batches, {rows} rows, mean {mean:.4f}, labels {first} ...", batch


def draw(path: Path, batch: Batch, devices: int) -> None:
    """The rows of a batch on their devices; those of weight 0 are faint."""
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(8, 3.4))
        grid = figure.subplots(devices, len(batch["y"]) // devices)
        for i, cell in enumerate(grid.flat):
            image = 16 - np.asarray(batch["x"][i]).reshape(8, 8)
            cell.imshow(image, alpha=1.0 if batch["weight"][i] else 0.15)
            cell.set(xticks=[], yticks=[], frame_on=False)
        for device, cell in enumerate(grid[:, 0]):
            cell.set_ylabel(f"device {device}", rotation=0, ha="right", va="center")
        figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Feeds shuffled batches from files to devices.")
    parser.add_argument("--picture", type=Path, help="where to draw the last batch")
    options = parser.parse_args(argv)
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "4")
    mesh = weft.make_mesh((4,), ("data",), devices=weft.devices("cpu")[:4])
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("digits.csv", "x.npy", "y.npy")]
        pixels, labels = load_digits(return_X_y=True)
        np.savetxt(files[0], np.column_stack([pixels, labels]), fmt="%d", delimiter=",")
        np.save(files[1], pixels.astype(np.float32))
        np.save(files[2], labels.astype(np.int32))
        for name, data in (("csv", from_csv(files[0])), ("npy", from_npy(files[1], files[2]))):
            for epoch in range(2):
                numbers, batch = run_epoch(data, mesh, random.key(0), epoch)
                print(f"{name}, epoch {epoch}: {numbers}")
    print(f"a batch: {batch['x'].shape} as {batch['x'].sharding.spec}")
    if options.picture:
        draw(options.picture, batch, mesh.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
