"""The picture: curves, a confusion matrix, and the hardest examples or a map of all."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")  # before pyplot: no display is needed

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from demo.data import Part
from demo.reading import BadData, Table
from demo.report import confusion, fitted

SUFFIXES = (".png", ".pdf", ".svg")
MOST_FEATURES = 12
MOST_NUMBERS = 12
MOST_LABELS = 15
MOST_COLOURS = 10
MOST_POINTS = 2000


class Curves(NamedTuple):
    """The losses of every epoch, and the epoch whose parameters were kept."""

    training: list[float]
    validation: list[float]
    best: int


class Outcome(NamedTuple):
    """The held-out examples, what the network makes of them, and the influence of features.

    `inside` has the values of the last hidden layer for the first `MOST_POINTS` examples.
    """

    table: Table
    test: Part
    answers: np.ndarray
    hardest: np.ndarray
    inside: np.ndarray
    slopes: np.ndarray
    side: int | None


def check_output(path: Path) -> None:
    """Raises `BadData` if the picture cannot be written. Afterwards its folder is there."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadData(f"--output {path}; wanted: a name that ends in {', '.join(SUFFIXES)}")
    there = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, FileExistsError):
            reason = f"{path.parent} is no folder"
        raise BadData(
            f"--output {path} cannot be written: {reason}; wanted: a file in a folder of your own"
        ) from None


def draw(path: Path, title: str, curves: Curves, outcome: Outcome) -> None:
    """Draws the picture into a file."""
    figure = plt.figure(figsize=(11, 8.5 if outcome.side is None else 7.5), layout="constrained")
    figure.suptitle(literal(title), fontsize=13)
    upper, lower = figure.subfigures(2, 1, height_ratios=(1, 1) if outcome.side is None else (5, 2))
    left, right = upper.subplots(1, 2, width_ratios=(1.1, 1))
    draw_curves(left, curves)
    draw_confusion(right, outcome)
    if outcome.side is not None:
        draw_images(lower, outcome)
    else:
        left, right = lower.subplots(1, 2, width_ratios=(1.1, 1))
        draw_map(left, outcome)
        draw_influence(right, outcome)
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph")
        try:
            figure.savefig(path, dpi=110)
        except OSError as error:
            raise BadData(f"{path} cannot be written: {error.strerror or error}") from None
        finally:
            plt.close(figure)


def literal(text: str) -> str:
    """Text in which Matplotlib finds no formula."""
    return text.replace("$", r"\$")


def short(names: tuple[str, ...]) -> list[str]:
    """Names as they stand beside an axis."""
    return [literal(fitted(name, 18)) for name in names]


def draw_curves(axis: Any, curves: Curves) -> None:
    """The losses by epoch."""
    epochs = range(1, len(curves.training) + 1)
    axis.semilogy(epochs, curves.training, label="training rows")
    axis.semilogy(epochs, curves.validation, label="validation rows, held out of training")
    axis.axvline(curves.best, color="0.5", linestyle=":", label=f"kept: epoch {curves.best}")
    axis.set_title("Loss by epoch", fontsize=11)
    axis.set_xlabel("epoch")
    axis.set_ylabel("mean cross-entropy")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(fontsize=9)


def draw_confusion(axis: Any, outcome: Outcome) -> None:
    """How often each class got each answer."""
    names = short(outcome.table.classes)
    counts = confusion(len(names), outcome.test.y, outcome.answers)
    shares = counts / counts.sum(axis=1, keepdims=True)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if len(names) <= MOST_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if shares[row, column] > 0.5 else "black"
            axis.text(column, row, count or "·", ha="center", va="center", color=colour, fontsize=9)
    step = -(-len(names) // MOST_LABELS)
    ticks = range(0, len(names), step)
    crowded = max(map(len, names)) * len(ticks) > 45  # characters side by side
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axis.set_xticks(ticks, names[::step], fontsize=9, **turned)
    axis.set_yticks(ticks, names[::step], fontsize=9)
    axis.set_title("Held-out examples: truth and answer", fontsize=11)
    axis.set_xlabel("answer of the network")
    axis.set_ylabel("truth")


def draw_images(figure: Any, outcome: Outcome) -> None:
    """The hardest examples as pictures, with truth and answer."""
    side, table = outcome.side, outcome.table
    figure.suptitle("The hardest held-out examples (largest gradients of their own)", fontsize=11)
    axes = figure.subplots(1, len(outcome.hardest), squeeze=False)[0]
    for axis, i in zip(axes, outcome.hardest, strict=True):
        truth, answer = outcome.test.y[i], outcome.answers[i]
        axis.imshow(table.features[outcome.test.rows[i]].reshape(side, side), cmap="gray_r")
        names = [literal(fitted(table.classes[k], 12)) for k in (truth, answer)]
        colour = "black" if truth == answer else "tab:red"
        axis.set_title(f"truth {names[0]}\nanswer {names[1]}", fontsize=9, color=colour)
        axis.axis("off")


def draw_map(axis: Any, outcome: Outcome) -> None:
    """The examples as the last hidden layer sees them; those answered wrong are ringed."""
    truth = outcome.test.y[: len(outcome.inside)]
    wrong = truth != outcome.answers[: len(truth)]
    centred = outcome.inside - outcome.inside.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    points = centred @ directions[:2].T
    names, colours = short(outcome.table.classes), plt.get_cmap("tab10")
    for k, name in enumerate(names[:MOST_COLOURS]):
        mine = points[truth == k]
        axis.scatter(*mine.T, s=22, color=colours(k), alpha=0.8, label=name)
    if len(names) > MOST_COLOURS:
        others = points[truth >= MOST_COLOURS]
        axis.scatter(*others.T, s=22, color="0.7", label=f"{len(names) - MOST_COLOURS} more")
    if wrong.any():
        rings = {"facecolors": "none", "edgecolors": "black", "label": "answered wrong"}
        axis.scatter(*points[wrong].T, s=90, **rings)
    axis.set_title("Held-out examples in the last hidden layer, by truth", fontsize=11)
    axis.set_xlabel("first principal component")
    axis.set_ylabel("second principal component")
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def draw_influence(axis: Any, outcome: Outcome) -> None:
    """The features that sway the network most."""
    order = np.argsort(-outcome.slopes)[:MOST_FEATURES][::-1]
    names = short(outcome.table.names)
    axis.barh(range(len(order)), outcome.slopes[order], color="tab:blue")
    axis.set_yticks(range(len(order)), [names[i] for i in order], fontsize=9)
    margin = max(0.6, 2.5 - len(order) / 2)  # so that a lone bar is no wall
    axis.set_ylim(-margin, len(order) - 1 + margin)
    more = f", the first {len(order)} of {len(names)}" if len(names) > len(order) else ""
    axis.set_title(f"Influence of the features{more}", fontsize=11)
    axis.set_xlabel("change of the true class's log-odds\nper standard deviation of the feature")
