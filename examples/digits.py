"""Trains a network on handwritten digits, and looks into what it learned.

    python examples/digits.py                        # the 1,797 digits that scikit-learn ships
    python examples/digits.py --epochs 60 --seed 3
    python examples/digits.py --csv mine.csv         # rows of your own: features…, label
    python examples/digits.py --devices 8            # data-parallel over eight CPU devices

The steps are those of any training program: a model and its loss in plain Python, one compiled step
made of `weft.value_and_grad` and an optimiser, a loop over batches. Afterwards `vmap(grad(...))`
gives the gradient of every held-out example by itself, to find the hardest ones, and `linearize` of
the gradient gives Hessian-vector products, to measure how sharp the minimum is.

With `--devices` the same model and loss train data-parallel: `shard_map` gives each device its part
of the batch and a mean over the devices puts the parts together. The gradient needs nothing else.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")  # before pyplot: no display is needed

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import weft
import weft.numpy as jnp
from weft import lax, nn, random
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

Parameters = list[dict[str, weft.Array]]


class Data(NamedTuple):
    """Features between 0 and 1 (examples × features) and labels, split in two."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: int


# ---- data --------------------------------------------------------------------------------------


class BadData(ValueError):
    """A file that cannot be used, with the row and the reason."""


def read_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Features and integer labels from a CSV file whose last column is the label.

    A first row that is not numeric is taken for a header.
    """
    features: list[list[float]] = []
    labels: list[int] = []
    try:
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"{path} cannot be read: {error}") from None
    width = None
    for number, row in enumerate(rows, start=1):
        if not row or all(not cell.strip() for cell in row):
            continue
        try:
            values = [float(cell) for cell in row]
        except ValueError:
            if number == 1:
                continue
            bad = next(i for i, cell in enumerate(row) if not _is_number(cell))
            raise BadData(
                f"{path}, row {number}, column {bad + 1}: {row[bad]!r} is no number"
            ) from None
        if width is None:
            width = len(values)
            if width < 2:
                raise BadData(f"{path}, row {number}: a row needs features and a label")
        if len(values) != width:
            raise BadData(
                f"{path}, row {number}: {len(values)} columns where the first row has {width}"
            )
        if not np.all(np.isfinite(values)):
            raise BadData(f"{path}, row {number}: a value is not finite")
        if values[-1] != int(values[-1]) or values[-1] < 0:
            raise BadData(
                f"{path}, row {number}: the label {row[-1]!r} is not a whole number from 0 up"
            )
        features.append(values[:-1])
        labels.append(int(values[-1]))
    if len(labels) < 10:
        raise BadData(f"{path}: {len(labels)} rows of data; at least 10 are needed")
    if len(set(labels)) < 2:
        raise BadData(f"{path}: all rows have the label {labels[0]}; at least 2 labels are needed")
    return np.asarray(features, np.float32), np.asarray(labels, np.int32)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def load(path: Path | None, seed: int) -> Data:
    """The digits, or the user's file, scaled to 0…1 and split: four fifths to train on."""
    if path is None:
        features, labels = load_digits(return_X_y=True)
    else:
        features, labels = read_csv(path)
    low, high = features.min(axis=0), features.max(axis=0)
    features = ((features - low) / np.maximum(high - low, 1e-6)).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(labels))
    features, labels = features[order], labels[order].astype(np.int32)
    split = len(labels) * 4 // 5
    classes = int(labels.max()) + 1
    return Data(features[:split], labels[:split], features[split:], labels[split:], classes)


# ---- model -------------------------------------------------------------------------------------


def init(key: weft.Array, sizes: list[int]) -> Parameters:
    """Weights with variance 2 / fan-in (He et al., 2015) and zero biases, one pair per layer."""
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (fan_in, fan_out)) * (2.0 / fan_in) ** 0.5, "b": jnp.zeros(fan_out)}
        for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def predict(params: Parameters, x: weft.Array) -> weft.Array:
    """Log-probabilities of the classes."""
    for layer in params[:-1]:
        x = nn.relu(x @ layer["w"] + layer["b"])
    return nn.log_softmax(x @ params[-1]["w"] + params[-1]["b"])


def loss(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """Mean cross-entropy of a batch, plus a little weight decay."""
    logp = predict(params, x)
    chosen = jnp.take_along_axis(logp, y[:, None], axis=-1)
    decay = sum(jnp.sum(layer["w"] ** 2) for layer in params)
    return -jnp.mean(chosen) + 1e-4 * decay


def loss_of_one(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """Cross-entropy of one example; `vmap` makes it one per example."""
    return -predict(params, x)[y]


@weft.jit
def accuracy(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """The share of examples whose most probable class is the right one."""
    return jnp.mean(jnp.argmax(predict(params, x), axis=-1) == y)


# ---- training ----------------------------------------------------------------------------------


class Adam(NamedTuple):
    """The state of the optimiser (Kingma & Ba, "Adam", 2015)."""

    step: Any
    mean: Any
    square: Any


def adam_init(params: Parameters) -> Adam:
    """Zero moments for every parameter."""
    zeros = weft.tree.map(jnp.zeros_like, params)
    return Adam(jnp.zeros((), jnp.float32), zeros, zeros)


Loss = Callable[[Parameters, weft.Array, weft.Array], weft.Array]


def data_parallel(mesh: Mesh) -> Loss:
    """The loss of a batch that is split over the devices of a mesh.

    Each device has all parameters and computes the loss of its own examples; all parts are of one
    length, so the mean of their means is that of the batch. Its gradient sums over the devices once
    for each parameter, since each parameter is cast there from equal to varying (`pbroadcast`).
    """

    def of_a_part(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
        return lax.pmean(loss(params, x, y), "data")

    return weft.shard_map(of_a_part, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P())


def train_step_of(loss: Loss) -> Callable[..., tuple[Parameters, Adam, weft.Array]]:
    """One step: loss and gradient, then Adam's update, compiled together."""

    @weft.jit
    def train_step(
        params: Parameters, state: Adam, x: weft.Array, y: weft.Array, rate: weft.Array
    ) -> tuple[Parameters, Adam, weft.Array]:
        value, grads = weft.value_and_grad(loss)(params, x, y)
        step = state.step + 1
        mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = weft.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)

        def update(p: Any, m: Any, s: Any) -> Any:
            m_hat, s_hat = m / (1 - 0.9**step), s / (1 - 0.999**step)
            return p - rate * m_hat / (jnp.sqrt(s_hat) + 1e-8)

        return weft.tree.map(update, params, mean, square), Adam(step, mean, square), value

    return train_step


def train(
    data: Data, epochs: int, seed: int, batch: int, show: bool, mesh: Mesh | None = None
) -> tuple[Parameters, list[float]]:
    """Trains for some passes over the data; answers with the parameters and the loss per epoch.

    With a mesh each step splits its examples over the devices, so `batch` is a multiple of their
    number. Apart from rounding the parameters come out the same.
    """
    key = random.key(seed)
    key, init_key = random.split(key)
    params = init(init_key, [data.train_x.shape[1], 128, 64, data.classes])
    state = adam_init(params)
    x, y = data.train_x, data.train_y
    take = jnp.asarray
    train_step = train_step_of(loss)
    if mesh is not None:
        params, state = weft.device_put((params, state), NamedSharding(mesh, P()))
        take = split_over(mesh)
        train_step = train_step_of(data_parallel(mesh))
    steps = len(y) // batch
    curve: list[float] = []
    for epoch in range(epochs):
        key, shuffle = random.split(key)
        order = np.asarray(random.permutation(shuffle, len(y)))
        rate = 1e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        losses = []
        for i in range(steps):
            rows = order[i * batch : (i + 1) * batch]
            params, state, value = train_step(params, state, take(x[rows]), take(y[rows]), rate)
            losses.append(value)
        curve.append(float(jnp.mean(jnp.stack(losses))))
        if show:
            progress(epoch + 1, epochs, f"loss {curve[-1]:.4f}")
    return params, curve


def batch_size(data: Data, wanted: int, devices: int) -> int:
    """Examples per step: as many as wanted and there, down to a multiple of the devices."""
    batch = min(wanted, len(data.train_y))
    batch -= batch % devices
    if not batch:
        raise BadData(
            f"a batch of {min(wanted, len(data.train_y))} cannot be split over {devices} devices"
        )
    return batch


def split_over(mesh: Mesh) -> Callable[[np.ndarray], weft.Array]:
    """What puts an array of examples on the devices of a mesh, to each its part."""
    return lambda x: weft.device_put(x, NamedSharding(mesh, P("data")))


def progress(done: int, total: int, note: str) -> None:
    """A bar that is drawn over itself on a terminal, and one line per tenth elsewhere."""
    width = 30
    filled = width * done // total
    line = f"  training [{'#' * filled}{'.' * (width - filled)}] {done}/{total} {note}"
    if sys.stdout.isatty():
        print("\r" + line, end="\n" if done == total else "", flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(line, flush=True)


# ---- looking into it ---------------------------------------------------------------------------


@weft.jit
def difficulty(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """The norm of each example's own gradient: how much it would change the network."""
    grads = weft.vmap(weft.grad(loss_of_one), in_axes=(None, 0, 0))(params, x, y)
    squares = [jnp.sum(g.reshape(len(y), -1) ** 2, axis=1) for g in weft.tree.leaves(grads)]
    return jnp.sqrt(sum(squares))


def sharpness(params: Parameters, x: weft.Array, y: weft.Array, key: weft.Array) -> float:
    """The largest eigenvalue of the loss's Hessian, by power iteration.

    `linearize` evaluates the gradient once; each Hessian-vector product is then linear work only.
    """
    _, hessian_times = weft.linearize(weft.grad(lambda p: loss(p, x, y)), params)
    hessian_times = weft.jit(hessian_times)
    leaves, structure = weft.tree.flatten(params)
    keys = random.split(key, len(leaves))
    vector = [random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    value = 0.0
    for _ in range(30):
        norm = jnp.sqrt(sum(jnp.sum(v * v) for v in vector))
        vector = [v / norm for v in vector]
        product = weft.tree.leaves(hessian_times(weft.tree.unflatten(structure, vector)))
        value = float(sum(jnp.sum(v * p) for v, p in zip(vector, product, strict=True)))
        vector = product
    return value


def show_devices(mesh: Mesh, params: Parameters, x: np.ndarray, y: np.ndarray) -> None:
    """Prints the data-parallel program with its types, and which device holds what."""
    batch = weft.tree.map(split_over(mesh), (x, y))
    print(f"\nthe loss and its gradient for a batch of {len(y)}, as each device computes them:")
    print(weft.make_jaxpr(weft.value_and_grad(data_parallel(mesh)))(params, *batch))
    print("\nwhere the arrays lie:")
    for path, array in weft.tree.leaves_with_path({"params": params, "batch": batch}):
        name = weft.tree.keystr(path)
        print(f"  {name:20s} {array.dtype} {array.shape!s:10s} {array.sharding.spec}")
    for name, array in (("the features of a batch", batch[0]), ("weights", params[0]["w"])):
        print(f"{name}, {array.dtype} {array.shape}:")
        weft.debug.visualize_array_sharding(array)


def draw(
    path: Path, curve: list[float], images: np.ndarray, titles: list[str], side: int | None
) -> None:
    """The loss curve, and the hardest examples as pictures where they are square."""
    columns = len(images) if side else 0
    figure = plt.figure(figsize=(10, 5 if columns else 3))
    grid = figure.add_gridspec(2 if columns else 1, max(columns, 1))
    axis = figure.add_subplot(grid[0, :])
    axis.semilogy(range(1, len(curve) + 1), curve)
    axis.set_xlabel("epoch")
    axis.set_ylabel("training loss")
    for i in range(columns):
        cell = figure.add_subplot(grid[1, i])
        cell.imshow(images[i].reshape(side, side), cmap="gray_r")
        cell.set_title(titles[i], fontsize=8)
        cell.axis("off")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


# ---- the program -------------------------------------------------------------------------------


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=_positive, default=40, help="passes over the data (40)")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the weights (0)")
    parser.add_argument("--batch", type=_positive, default=64, help="examples per step (64)")
    parser.add_argument(
        "--devices", type=_positive, help="train data-parallel over so many CPU devices"
    )
    parser.add_argument(
        "--csv", type=Path, help="a file of your own: features, then a whole-number label"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("out/digits.png"), help="the picture (out/digits.png)"
    )
    return parser.parse_args(argv)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return value


def main(argv: list[str] | None = None) -> int:
    """Runs the program; answers with the exit status."""
    options = arguments(argv)
    start = time.perf_counter()
    devices = options.devices or 1
    # Read when the first array is made, so it is in time here.
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", str(devices))
    try:
        data = load(options.csv, options.seed)
        batch = batch_size(data, options.batch, devices)
        mesh = weft.make_mesh((devices,), ("data",)) if options.devices else None
    except (BadData, weft.errors.WeftValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(
        f"{len(data.train_y)} examples to train on, {len(data.test_y)} held out, "
        f"{data.train_x.shape[1]} features, {data.classes} classes"
    )
    params, curve = train(data, options.epochs, options.seed, batch, show=True, mesh=mesh)
    if mesh is not None:
        show_devices(mesh, params, data.train_x[:batch], data.train_y[:batch])
        params = weft.device_put(params, weft.devices()[0])
    x, y = jnp.asarray(data.test_x), jnp.asarray(data.test_y)
    share = float(accuracy(params, x, y))
    print(f"accuracy on held-out examples: {100 * share:.2f} %")

    if mesh is None:
        print("\nthe program of the loss, for a batch of two:")
        print(weft.make_jaxpr(loss)(params, x[:2], y[:2]))

    scores = np.asarray(difficulty(params, x, y))
    guesses = np.asarray(jnp.argmax(predict(params, x), axis=-1))
    hardest = np.argsort(-scores)[:8]
    print("\nthe hardest held-out examples, by the norm of their own gradient:")
    for i in hardest:
        print(
            f"  example {i:4d}: is {data.test_y[i]}, taken for {guesses[i]}, norm {scores[i]:.2f}"
        )

    train_x, train_y = jnp.asarray(data.train_x), jnp.asarray(data.train_y)
    top = sharpness(params, train_x, train_y, random.key(options.seed + 1))
    print(f"\nsharpness of the minimum (largest eigenvalue of the Hessian): {top:.3f}")

    side = int(round(data.test_x.shape[1] ** 0.5))
    side_or_none = side if side * side == data.test_x.shape[1] else None
    titles = [f"{data.test_y[i]}, not {guesses[i]}" if data.test_y[i] != guesses[i]
              else f"{data.test_y[i]}" for i in hardest]  # fmt: skip
    draw(options.output, curve, data.test_x[hardest], titles, side_or_none)
    print(f"picture: {options.output}")
    print(f"{time.perf_counter() - start:.1f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
