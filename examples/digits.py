"""Trains a network on handwritten digits or on a table of your own, and looks into what it learned.

    python examples/digits.py                        # the 1,797 digits that scikit-learn ships
    python examples/digits.py --data iris.csv        # your own rows: numbers, then a label
    python examples/digits.py --data iris.csv --label species --drop Id
    python examples/digits.py --epochs 60 --seed 3
    python examples/digits.py --devices 8            # data-parallel over eight CPU devices
    python examples/digits.py --show-jaxpr           # also prints the program of the loss

A file has one row per line: columns of numbers and one with the label, a number or a name. Commas,
semicolons, tabs, bars or spaces separate the columns; a header is optional.

The steps are those of any training program: a model and its loss in plain Python, one compiled step
made of `weft.value_and_grad` and an optimiser, a loop over batches. A fifth of the rows is held out
until the end, and a smaller part says which epoch was best. Afterwards `lax.map` of `grad` gives
the gradient of every held-out example by itself, to find the hardest ones; `vmap(grad(...))` says
how much each feature matters; and `linearize` of the gradient gives Hessian-vector products, to
measure how sharp the minimum is.

With `--devices` the same model and loss train data-parallel: `shard_map` gives each device its part
of the batch and a mean over the devices puts the parts together. The gradient needs nothing else.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from demo import picture, report
from demo.data import Data, batch_for, digits_table, image_side, split
from demo.options import arguments
from demo.reading import BadData, Table, read_table

import weft
import weft.numpy as jnp
from weft import lax, nn, random
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

Parameters = list[dict[str, weft.Array]]
RATE = 1e-3
# What bounds the time for large tables, and the epochs for small ones.
MOST_STEPS, MOST_EPOCHS, FEWEST_EPOCHS = 20_000, 100, 20
MOST_FOR_SHARPNESS = 2048  # examples
MOST_VALUES = 2**25  # in the gradients that are computed at once
HARDEST = 8


# ---- model -------------------------------------------------------------------------------------


def init(key: weft.Array, sizes: list[int]) -> Parameters:
    """Weights with variance 1 / fan-in (LeCun et al., 1998) and zero biases, one pair per layer."""
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (fan_in, fan_out)) * fan_in**-0.5, "b": jnp.zeros(fan_out)}
        for k, fan_in, fan_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def hidden(params: Parameters, x: weft.Array) -> weft.Array:
    """The values of the last hidden layer."""
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x


def predict(params: Parameters, x: weft.Array) -> weft.Array:
    """Log-probabilities of the classes."""
    return nn.log_softmax(hidden(params, x) @ params[-1]["w"] + params[-1]["b"])


def loss(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """Mean cross-entropy of a batch."""
    logp = predict(params, x)
    return -jnp.mean(jnp.take_along_axis(logp, y[:, None], axis=-1))


def loss_of_one(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """Cross-entropy of one example; `vmap` makes it one per example."""
    return -predict(params, x)[y]


# ---- training ----------------------------------------------------------------------------------


class Adam(NamedTuple):
    """The state of the optimiser (Kingma & Ba, "Adam", 2015)."""

    step: Any
    mean: Any
    square: Any


class Schedule(NamedTuple):
    """Examples per step, at most so many epochs, and epochs without progress before the end."""

    batch: int
    epochs: int
    patience: int


class Trained(NamedTuple):
    """The parameters after the best epoch, and the losses of every epoch."""

    params: Parameters
    training: list[float]
    validation: list[float]
    best: int


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


def train_step_of(loss: Loss, rows: int) -> Callable[..., tuple[Parameters, Adam, weft.Array]]:
    """One step: loss and gradient, then Adam's update, compiled together.

    The step also minimises the squares of the weights over the number of rows: a normal prior on
    the weights, which counts the less the more rows there are. The loss returned is without it.
    """

    def objective(
        params: Parameters, x: weft.Array, y: weft.Array
    ) -> tuple[weft.Array, weft.Array]:
        value = loss(params, x, y)
        return value + sum(jnp.sum(layer["w"] ** 2) for layer in params) / rows, value

    @weft.jit
    def train_step(
        params: Parameters, state: Adam, x: weft.Array, y: weft.Array
    ) -> tuple[Parameters, Adam, weft.Array]:
        (_, value), grads = weft.value_and_grad(objective, has_aux=True)(params, x, y)
        step = state.step + 1
        mean = weft.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = weft.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads)

        def update(p: Any, m: Any, s: Any) -> Any:
            m_hat, s_hat = m / (1 - 0.9**step), s / (1 - 0.999**step)
            return p - RATE * m_hat / (jnp.sqrt(s_hat) + 1e-8)

        return weft.tree.map(update, params, mean, square), Adam(step, mean, square), value

    return train_step


def train(
    data: Data, classes: int, schedule: Schedule, seed: int, show: bool, mesh: Mesh | None = None
) -> Trained:
    """Trains until the loss of the validation rows has not fallen for `schedule.patience` epochs.

    With a mesh each step splits its examples over the devices, so the batch is a multiple of their
    number. Apart from rounding the parameters come out the same.
    """
    key, init_key = random.split(random.key(seed))
    params = init(init_key, [data.train.x.shape[1], 128, 64, classes])
    state = adam_init(params)
    x, y, _ = data.train
    take, train_step = jnp.asarray, train_step_of(loss, len(y))
    if mesh is not None:
        params, state = weft.device_put((params, state), NamedSharding(mesh, P()))
        take, train_step = split_over(mesh), train_step_of(data_parallel(mesh), len(y))
    loss_of_part = weft.jit(loss)
    batch, best = schedule.batch, Trained(params, [], [], 0)
    training, validation = best.training, best.validation
    for epoch in range(1, schedule.epochs + 1):
        key, shuffle = random.split(key)
        order = np.asarray(random.permutation(shuffle, len(y)))
        losses = []
        for start in range(0, len(y) - batch + 1, batch):
            rows = order[start : start + batch]
            params, state, value = train_step(params, state, take(x[rows]), take(y[rows]))
            losses.append(value)
        training.append(float(np.mean([np.asarray(value) for value in losses])))
        validation.append(float(loss_of_part(params, data.validation.x, data.validation.y)))
        if validation[-1] <= min(validation):
            best = Trained(params, training, validation, epoch)
        last = epoch == schedule.epochs or epoch - best.best >= schedule.patience
        if show:
            note = f"loss {training[-1]:.4f}, validation {validation[-1]:.4f}"
            report.progress(epoch, schedule.epochs, note, last)
        if last:
            break
    return best


def schedule_for(data: Data, options: argparse.Namespace) -> Schedule:
    """The batch and the epochs that were asked for, or those that suit the number of rows."""
    rows, devices = len(data.train.y), options.devices or 1
    wanted = min(options.batch or max(batch_for(rows), devices), rows)
    batch = wanted - wanted % devices
    if not batch:
        raise BadData(
            f"a batch of {wanted} cannot be split over {devices} devices; "
            f"wanted: at least one of the {rows} examples to train on for each device"
        )
    fitting = MOST_STEPS * batch // rows
    epochs = options.epochs or min(max(fitting, FEWEST_EPOCHS), MOST_EPOCHS)
    return Schedule(batch, epochs, max(5, epochs // 5))


def split_over(mesh: Mesh) -> Callable[[np.ndarray], weft.Array]:
    """What puts an array of examples on the devices of a mesh, to each its part."""
    return lambda x: weft.device_put(x, NamedSharding(mesh, P("data")))


# ---- looking into it ---------------------------------------------------------------------------


@weft.jit
def difficulty(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """The norm of each example's own gradient: how much it would change the network.

    `lax.map` with a batch size bounds the memory: the gradients of so many examples at once.
    """

    def norm(example: tuple[weft.Array, weft.Array]) -> weft.Array:
        grads = weft.grad(loss_of_one)(params, *example)
        return jnp.sqrt(sum(jnp.sum(g**2) for g in weft.tree.leaves(grads)))

    size = sum(leaf.size for leaf in weft.tree.leaves(params))
    together = max(1, min(256, MOST_VALUES // size, len(y)))
    return lax.map(norm, (x, y), batch_size=together)


@weft.jit
def influence(params: Parameters, x: weft.Array, y: weft.Array) -> weft.Array:
    """How steeply the log-odds of the true class change with each feature, on average.

    The features are standardised, so this is per standard deviation.
    """

    def log_odds(x: weft.Array, y: weft.Array) -> weft.Array:
        logp = predict(params, x)
        others = jnp.where(jnp.arange(len(logp)) == y, -jnp.inf, logp)
        return logp[y] - nn.logsumexp(others)

    return jnp.mean(jnp.abs(weft.vmap(weft.grad(log_odds))(x, y)), axis=0)


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
    """Prints which device holds what."""
    batch = weft.tree.map(split_over(mesh), (x, y))
    print("\nwhere the arrays lie:")
    for path, array in weft.tree.leaves_with_path({"params": params, "batch": batch}):
        name = weft.tree.keystr(path)
        print(f"  {name:20s} {array.dtype} {array.shape!s:10s} {array.sharding.spec}")
    for name, array in (("the features of a batch", batch[0]), ("weights", params[0]["w"])):
        print(f"{name}, {array.dtype} {array.shape}:")
        weft.debug.visualize_array_sharding(array)


def show_program(mesh: Mesh | None, params: Parameters, x: np.ndarray, y: np.ndarray) -> None:
    """Prints the program of the loss; over several devices that of its gradient, with its types."""
    if mesh is None:
        print("\nthe program of the loss, for a batch of two:")
        print(weft.make_jaxpr(loss)(params, x[:2], y[:2]))
        return
    print(f"\nthe loss and its gradient for a batch of {len(y)}, as each device computes them:")
    batch = weft.tree.map(split_over(mesh), (x, y))
    print(weft.make_jaxpr(weft.value_and_grad(data_parallel(mesh)))(params, *batch))


def look(trained: Trained, table: Table, data: Data, options: argparse.Namespace) -> str:
    """Reports on the held-out examples, draws the picture, and answers with the result."""
    params, test = trained.params, data.test
    x, y = jnp.asarray(test.x), jnp.asarray(test.y)
    answers = np.asarray(jnp.argmax(predict(params, x), axis=-1))
    report.classes(table.classes, test.y, answers)
    scores = np.asarray(difficulty(params, x, y))
    hardest = np.argsort(-scores)[:HARDEST]
    place = "line" if options.data else "digit"
    report.hardest(place, table, test.rows[hardest], answers[hardest], scores[hardest])
    some = [jnp.asarray(part[:MOST_FOR_SHARPNESS]) for part in (data.train.x, data.train.y)]
    top = sharpness(params, *some, random.key(options.seed + 1))
    print(f"\nsharpness of the minimum (largest eigenvalue of the Hessian): {top:.3f}")
    right, count = int(np.sum(answers == test.y)), len(answers)
    result = f"{right} of {count} held-out examples right ({100 * right / count:.2f} %)"
    slopes = np.asarray(influence(params, x, y))
    inside = np.asarray(hidden(params, x[: picture.MOST_POINTS]))
    picture.draw(
        options.output,
        f"{options.data.name if options.data else 'Handwritten digits'}: {result}",
        picture.Curves(trained.training, trained.validation, trained.best),
        picture.Outcome(table, test, answers, hardest, inside, slopes, image_side(table)),
    )
    return result


# ---- the program -------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> str:
    """Everything, from reading to the picture; answers with the result."""
    picture.check_output(options.output)
    if not options.data and (options.drop or options.label != "last"):
        raise BadData("--label and --drop are about the columns of a file; wanted: --data FILE too")
    if options.data:
        drop = [name for name in options.drop.split(",") if name]
        table = read_table(options.data, options.label, drop)
    else:
        table = digits_table()
    data = split(table, options.seed)
    schedule = schedule_for(data, options)
    # Read when the first array is made, so it is in time here.
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", str(options.devices or 1))
    mesh = weft.make_mesh((options.devices,), ("data",)) if options.devices else None
    print("\n".join(table.notes))
    sizes = [len(part.y) for part in data]
    print(
        f"{sizes[0]} examples to train on, {sizes[1]} to choose the epoch by, {sizes[2]} held out\n"
        f"features: {len(table.names)}, classes: {len(table.classes)}, "
        f"examples per step: {schedule.batch}"
    )
    trained = train(data, len(table.classes), schedule, options.seed, show=True, mesh=mesh)
    print(f"kept: the parameters of epoch {trained.best}, where the validation loss was lowest")
    batch = data.train.x[: schedule.batch], data.train.y[: schedule.batch]
    if options.show_jaxpr:
        show_program(mesh, trained.params, *batch)
    if mesh is not None:
        show_devices(mesh, trained.params, *batch)
        trained = trained._replace(params=weft.device_put(trained.params, weft.devices()[0]))
    return look(trained, table, data, options)


def main(argv: list[str] | None = None) -> int:
    """Runs the program; answers with the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for names that a terminal cannot show
    options = arguments(__doc__, argv)
    start = time.perf_counter()
    try:
        result = run(options)
    except (BadData, weft.errors.WeftValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; no picture was drawn", file=sys.stderr)
        return 130
    print(f"{time.perf_counter() - start:.1f} s in all")
    print(f"result: {result}; picture: {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
