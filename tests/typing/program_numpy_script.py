"""A script in the manner of NumPy: tables, sets, statistics, least squares, a spectrum."""

from __future__ import annotations

import numpy as np

import weft.numpy as wnp
from weft import random
from weft.typing import Array, ArrayLike


def standardized(x: ArrayLike) -> Array:
    x = wnp.asarray(x)
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


def fit(x: Array, y: Array, degree: int) -> tuple[Array, float]:
    design = wnp.vander(x, degree + 1)
    solution, _, rank, _ = wnp.linalg.lstsq(design, y)
    error = wnp.linalg.norm(design @ solution - y)
    print("rank", int(rank))
    return solution, float(error)


def describe(table: Array) -> dict[str, list[float]]:
    low, high = wnp.percentile(table, wnp.array([25.0, 75.0]), axis=0)
    return {"low": low.tolist(), "high": high.tolist(), "mean": wnp.average(table, axis=0).tolist()}


def main() -> None:
    key = random.key(2)
    table = random.normal(key, (50, 3)) + wnp.array([1.0, 2.0, 3.0])
    labels = random.randint(key, (50,), 0, 4)
    values, counts = wnp.unique(labels, return_counts=True)
    for value, count in zip(values, counts, strict=True):
        print(int(value), int(count))
    print({name: len(numbers) for name, numbers in describe(table).items()})
    order = wnp.lexsort((table[:, 0], labels))
    groups = wnp.split(table[order], [10, 20])
    print([group.shape for group in groups])
    mean, weight = wnp.average(table, weights=labels + 1, axis=0, returned=True)
    print(mean.shape, weight.shape)
    x = wnp.linspace(0.0, 1.0, 20)
    coefficients, error = fit(x, 2 * x**2 - x, 2)
    print(coefficients.round(2) + 0.0, error < 1e-3)
    spectrum = abs(wnp.fft.rfft(wnp.sin(2 * wnp.pi * 3 * wnp.arange(16) / 16)))
    print(int(wnp.argmax(spectrum)))
    u, s, vt = wnp.linalg.svd(standardized(table), full_matrices=False)
    print(u.shape, s.shape, vt.shape)
    grid_x, grid_y = wnp.meshgrid(x, x)
    inside = wnp.where(grid_x**2 + grid_y**2 < 1, 1.0, 0.0)
    rows, columns = wnp.nonzero(inside)
    print(float(inside.mean()) > 0.7, rows.shape == columns.shape)
    edges_counts, edges = wnp.histogram(table[:, 0], bins=5)
    print(edges_counts.shape, edges.shape)
    padded = wnp.pad(table.at[0].set(0.0), ((1, 1), (0, 0)))
    host = np.asarray(padded)
    print(host.shape, np.isnan(host).any(), wnp.einsum("ij,ij->", padded, padded) > 0)
    print(wnp.concatenate([x, x[::-1]]).clip(0.2, 0.8).cumsum()[-1] > 0)


if __name__ == "__main__":
    main()
