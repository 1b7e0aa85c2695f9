"""Inputs of random programs for the compiler: arrays by how their values are drawn."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["DEVICES", "Input", "sample"]

DEVICES = 8


@dataclasses.dataclass(frozen=True)
class Input:
    """An array by how its values are drawn, and along which dimension devices split it."""

    kind: str
    shape: tuple[int, ...]
    dtype: str
    seed: int
    split: int | None = None

    def value(self) -> Any:
        return sample(self.kind, self.shape, self.dtype, self.seed)


def sample(kind: str, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """An array of a kind: "grid" has quarters, of which sums are exact, "special" NaN, infinities
    and zeros with signs among them, "one" a single one of these in zeros, "normal", "wide" and
    "huge" numbers that are rounded, "places" numbers around indices.

    None has subnormal numbers: the compiler takes them for 0 in some operations.
    """
    rng = np.random.default_rng(seed)
    parsed = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if parsed.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if parsed.kind in "iu":
        low, high = (-20, 21) if kind == "places" else (-9, 10)
        found = rng.integers(0 if parsed.kind == "u" else low, high, shape)
        if kind == "special":
            ends = np.iinfo(parsed)
            found = np.where(
                rng.random(shape) < 0.2, rng.choice([ends.min, ends.max], shape), found
            )
        return found.astype(parsed)
    if parsed.kind == "c":
        both = np.empty(shape, parsed)
        both.real = sample(kind, shape, both.real.dtype.name, seed)
        both.imag = sample(kind, shape, both.real.dtype.name, seed + 1)
        return both
    info = ml_dtypes.finfo(parsed)
    specials = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            -0.0,
            0.0,
            float(info.smallest_normal),
            float(info.max),
            -float(info.max),
        ]
    )
    found = rng.integers(-12, 13, shape) / 4.0
    if kind == "special":
        found = np.where(rng.random(shape) < 0.2, rng.choice(specials, shape), found)
    elif kind == "one":
        found = np.zeros(shape)
        if found.size:
            found.reshape(-1)[rng.integers(found.size)] = rng.choice(specials)
    elif kind == "normal":
        found = rng.normal(size=shape)
    elif kind == "wide":
        top = np.log10(float(info.max))
        found = rng.choice([-1.0, 1.0], shape) * 10 ** rng.uniform(-0.9 * top, 0.9 * top, shape)
    elif kind == "huge":
        found = rng.integers(-12, 13, shape) * min(1e9, float(info.max) / 100)
    with np.errstate(all="ignore"):
        return np.asarray(found).astype(parsed)
