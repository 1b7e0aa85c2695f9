"""All roots of a function in an interval, each of them proved, by the interval Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from intervals.elementwise import divided, sub_interval
from intervals.trace import Interval, enclose

__all__ = ["Root", "roots"]


class Root(NamedTuple):
    """An interval that holds every root near it; `proved`: exactly one, and it is simple."""

    lower: float
    upper: float
    proved: bool


def roots(
    function: Callable[[Any], Any],
    lower: float,
    upper: float,
    tolerance: float = 1e-6,
    dtype: Any = "float32",
) -> list[Root]:
    """Every root of a differentiable function of one number between two bounds, from low to high.

    No root is missed: a part is dropped only where the bounds of the function exclude zero, and a
    root is proved where the Newton step maps a part into itself (Moore, Interval Analysis, 1966).
    What is narrower than the tolerance and neither excluded nor proved is returned with
    `proved=False`.

    >>> [round(root.lower, 4) for root in roots(lambda x: x**2 - 2, -3.0, 3.0)]
    [-1.4142, 1.4142]
    """
    slope = weft.grad(function)

    @weft.jit
    def examine(x: Interval) -> tuple[Interval, Interval]:
        value = enclose(function)(x)
        middle = x.midpoint
        centre = Interval(middle, middle)
        step = divided(enclose(function)(centre), enclose(slope)(x))
        return value, sub_interval(centre, step)

    found: list[Root] = []
    parts = [(float(lower), float(upper), False)]
    while parts:
        low, high, proved = parts.pop()
        box = Interval(jnp.asarray(low, dtype), jnp.asarray(high, dtype))
        value, newton = weft.tree.map(float, examine(box))
        if value.lower > 0 or value.upper < 0:
            continue
        new_low, new_high = max(low, newton.lower), min(high, newton.upper)
        if new_low > new_high:
            continue
        proved = proved or (low < newton.lower and newton.upper < high)
        settled = new_high - new_low >= 0.9 * (high - low)
        if new_high - new_low <= tolerance or (proved and settled):
            found.append(Root(new_low, new_high, proved))
        elif not settled:
            parts.append((new_low, new_high, proved))
        else:
            # Not the middle, which is where a root of a symmetric problem likes to lie.
            middle = float(np.asarray(new_low + 0.487 * (new_high - new_low), dtype))
            parts += [(middle, new_high, False), (new_low, middle, False)]
    return sorted(found)
