"""The rows of a table in three parts, on one scale."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from demo.reading import Table

# Shares of each class that are held out, and that choose the epoch.
TEST, VALIDATION = 0.2, 0.15


class Part(NamedTuple):
    """Standardised features, classes, and which rows of the table these are."""

    x: np.ndarray
    y: np.ndarray
    rows: np.ndarray


class Data(NamedTuple):
    """Three parts of a table: to train on, to choose the epoch by, and held out of both."""

    train: Part
    validation: Part
    test: Part


def digits_table() -> Table:
    """The 1,797 handwritten digits of 8×8 pixels that scikit-learn ships."""
    features, labels = load_digits(return_X_y=True)
    names = tuple(f"pixel {i // 8}, {i % 8}" for i in range(64))
    notes = ("1,797 handwritten digits of 8×8 pixels",)
    classes = tuple(map(str, range(10)))
    return Table(features, labels.astype(np.int32), classes, names, np.arange(len(labels)), notes)


def split(table: Table, seed: int) -> Data:
    """The table in three parts with the same mix of classes, standardised by the first."""
    generator = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[], [], []]
    for label in range(len(table.classes)):
        rows = generator.permutation(np.flatnonzero(table.labels == label))
        test = max(1, round(TEST * len(rows)))
        validation = max(1, round(VALIDATION * len(rows)))
        ends = [len(rows) - test - validation, len(rows) - test]
        for part, some in zip(parts, np.split(rows, ends), strict=True):
            part.append(some)
    mixed = [generator.permutation(np.concatenate(part)) for part in parts]
    features = standardised(table.features, mixed[0])
    return Data(*(Part(features[rows], table.labels[rows], rows) for rows in mixed))


def standardised(features: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Each column less its mean, over its standard deviation, both of the rows to train on.

    A column that is the same in all of them becomes zero there. Dividing by the largest value first
    keeps squares of huge and of tiny values in range.
    """
    largest = np.abs(features).max(axis=0)
    scaled = features / np.where(largest > 0, largest, 1)
    known = scaled[training]
    mean, deviation = known.mean(axis=0), known.std(axis=0)
    # What remains of a constant column by rounding is no deviation.
    deviation = np.where(deviation > 1e-12, deviation, 1)
    return ((scaled - mean) / deviation).astype(np.float32)


def image_side(table: Table) -> int | None:
    """The side of the square pictures that the rows are, or None where they are no pictures.

    Pictures have at least 8×8 pixels, all of them whole numbers from 0 to 255.
    """
    side = int(round(table.features.shape[1] ** 0.5))
    if side < 8 or side * side != table.features.shape[1]:
        return None
    first = table.features[:1000]
    pixels = np.all((first >= 0) & (first <= 255) & (first == np.floor(first)))
    return side if pixels else None


def batch_for(rows: int) -> int:
    """Examples per step: a power of two that makes at least a dozen steps of an epoch.

    At least 8, since a gradient of fewer is mostly noise. Above 64 only for 16,000 rows and more,
    where larger steps use the processor better.
    """
    wanted = min(max(rows / 256, min(rows / 12, 64)), 1024)
    return max(8, 2 ** int(np.log2(max(wanted, 1))))
