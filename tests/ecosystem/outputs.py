"""What a job of the ecosystem returned, as JSON, and how far two such results lie apart.

Small arrays are kept whole; of large ones statistics, elements at equal distances and a digest
of all bytes, so that equal results are known to be equal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

LARGEST_WHOLE = 64
ELEMENTS = 32
# The difference of two results, relative to the largest magnitude in them, that a job may show if
# it states no tolerance of its own. Other instruction sets add in another order.
TOLERANCE = 1e-6


def summary(value: Any) -> dict[str, Any]:
    """An array or number as it is recorded."""
    array = np.asarray(value)
    found: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    plain = as_plain(array).ravel()
    if plain.size <= LARGEST_WHOLE:
        found["values"] = [written(x) for x in plain]
        return found
    finite = plain[np.isfinite(plain)].astype(np.float64)
    found["statistics"] = {
        "finite": int(finite.size),
        "mean": written(finite.mean()),
        "root_mean_square": written(np.sqrt(np.mean(finite**2))),
        "min": written(finite.min()),
        "max": written(finite.max()),
    }
    found["values"] = [written(x) for x in plain[places(plain.size)]]
    found["digest"] = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:32]
    return found


def as_plain(array: np.ndarray) -> np.ndarray:
    """The numbers of an array in a dtype that JSON can hold: complex ones as pairs."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1)
    if array.dtype.kind == "b":
        return array.astype(np.int8)
    if array.dtype.kind == "V":
        return array.astype(np.float32)
    return array


def places(size: int) -> np.ndarray:
    """Which elements of a large array are recorded."""
    return np.linspace(0, size - 1, ELEMENTS).astype(int)


def written(x: Any) -> int | float | str:
    """A number with as many digits as bring it back; JSON has no infinities."""
    if isinstance(x, (np.integer, int)):
        return int(x)
    if not math.isfinite(x):
        return repr(float(x))
    return float(f"{float(x):.17g}" if np.asarray(x).dtype == np.float64 else f"{float(x):.9g}")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How two results of a job differ: by the largest relative difference, or in kind."""

    difference: float
    equal: bool
    problems: tuple[str, ...]


def compare(recorded: Mapping[str, Any], found: Mapping[str, Any], tolerance: float) -> Comparison:
    """What a run of a job returned beside what was recorded."""
    problems = [f"{name} is missing" for name in recorded if name not in found]
    problems += [f"{name} was not recorded" for name in found if name not in recorded]
    largest, equal = 0.0, not problems
    for name in recorded.keys() & found.keys():
        one, other = recorded[name], found[name]
        kind = [f"{x['dtype']}{x['shape']}" for x in (one, other)]
        if kind[0] != kind[1]:
            problems.append(f"{name}: {kind[1]}, recorded was {kind[0]}")
            equal = False
            continue
        difference = distance(one, other)
        largest = max(largest, difference)
        equal = equal and one == other
        if difference > (0.0 if one["dtype"].startswith(("int", "uint", "bool")) else tolerance):
            problems.append(f"{name} differs by {difference:.1e}")
    return Comparison(largest, equal, tuple(sorted(problems)))


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The largest difference of two arrays, relative to the largest magnitude in the first."""
    pairs = list(zip(one["values"], other["values"], strict=True))
    for name, value in one.get("statistics", {}).items():
        if name != "finite":
            pairs.append((value, other["statistics"][name]))
        elif value != other["statistics"][name]:
            return math.inf
    scale = max((abs(float(x)) for x, _ in pairs if math.isfinite(float(x))), default=0.0)
    return max((apart(float(x), float(y), scale) for x, y in pairs), default=0.0)


def apart(x: float, y: float, scale: float) -> float:
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    if not (math.isfinite(x) and math.isfinite(y)):
        return math.inf
    return abs(x - y) / (scale or 1.0)
