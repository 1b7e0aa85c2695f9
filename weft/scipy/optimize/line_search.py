"""A step along a line that meets the strong Wolfe conditions.

Of a step a along a line on which the function has the values f(a) and slopes f'(a), they ask that
the value falls enough, f(a) <= f(0) + c1 a f'(0), and that the slope has become flat enough,
|f'(a)| <= c2 |f'(0)|. J. Nocedal and S. J. Wright, Numerical Optimization (2006), algorithms 3.5
and 3.6: steps grow until an interval holds such a step, and the interval is then made smaller.
Both are one loop here, so that the function is traced and compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import weft.numpy as jnp
from weft.control_flow.while_loop import while_loop

_SUFFICIENT, _CURVATURE = 1e-4, 0.9


class _Point(NamedTuple):
    """A step, and the value, slope and gradient there."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class LineSearch(NamedTuple):
    """The state of a search, and in the end its result.

    last: the point before the current step while steps grow. low, high: the ends of the interval,
    low the one with the smaller value. best: the point of the result. zooming: an interval is
    known. found: best meets the conditions. evaluations: how often the function was evaluated.
    """

    step: Any
    last: _Point
    low: _Point
    high: _Point
    best: _Point
    zooming: Any
    found: Any
    failed: Any
    evaluations: Any


def _select(condition: Any, x: _Point, y: _Point) -> _Point:
    return _Point(*(jnp.where(condition, a, b) for a, b in zip(x, y, strict=True)))


def _cubic_minimum(low: _Point, high: _Point) -> Any:
    """The minimum of the cubic through both ends, or the middle if it is near an end."""
    width = high.step - low.step
    safe = jnp.where(width == 0, 1, width)
    first = low.slope + high.slope - 3 * (high.value - low.value) / safe
    square = first * first - low.slope * high.slope
    root = jnp.sign(safe) * jnp.sqrt(jnp.maximum(square, 0))
    divisor = high.slope - low.slope + 2 * root
    fine = (square >= 0) & (divisor != 0)
    part = 1 - (high.slope + root - first) / jnp.where(fine, divisor, 1)
    good = fine & (part > 0.1) & (part < 0.9)
    return low.step + width * jnp.where(good, part, 0.5)


def line_search(
    evaluate: Callable[[Any], tuple[Any, Any, Any]], start: tuple[Any, Any, Any], maxiter: int
) -> LineSearch:
    """Searches from a step of 1. evaluate(step) gives value, slope and gradient; start: value,
    slope and gradient at 0.

    Where nothing is found within `maxiter` evaluations, the best point is the one with the smallest
    value among those that fell enough, and `failed` is set.
    """
    value, slope, gradient = start
    zero = _Point(jnp.zeros_like(value), value, slope, gradient)

    def unfinished(state: LineSearch) -> Any:
        return ~state.found & ~state.failed & (state.evaluations < maxiter)

    def step(state: LineSearch) -> LineSearch:
        point = _Point(state.step, *evaluate(state.step))
        bad = ~jnp.isfinite(point.value)
        enough = point.value <= value + _SUFFICIENT * point.step * slope
        flat = abs(point.slope) <= -_CURVATURE * slope
        found = enough & flat & ~bad
        reference = jnp.where(state.zooming, state.low.value, state.last.value)
        compared = state.zooming | (state.evaluations > 0)
        # The value rose, or did not fall enough: the step is between this point and the one below.
        high = bad | ~enough | (compared & (point.value >= reference))
        below = _select(state.zooming, state.low, state.last)
        # Otherwise this point is the lower end; the slope says on which side the other one is.
        turned = jnp.where(
            state.zooming, point.slope * (state.high.step - state.low.step) >= 0, point.slope >= 0
        )
        low_end = _select(high, below, point)
        other = _select(turned, below, state.high)
        high_end = _select(high, point, other)
        zooming = state.zooming | high | (point.slope >= 0)
        following = jnp.where(zooming, _cubic_minimum(low_end, high_end), 2 * point.step)
        better = enough & ~bad & (point.value < state.best.value)
        eps = jnp.finfo(point.step.dtype).eps
        narrow = zooming & (abs(high_end.step - low_end.step) <= 2 * eps * abs(point.step))
        best = _select(found | better, point, state.best)
        failed, count = narrow & ~found, state.evaluations + 1
        points = following, point, low_end, high_end, best
        return LineSearch(*points, zooming, found, failed, count)

    no = jnp.zeros_like(value, dtype=bool)
    first = LineSearch(jnp.ones_like(value), zero, zero, zero, zero, no, no, no, 0)
    end = while_loop(unfinished, step, first)
    return end._replace(failed=~end.found)
