"""Bounds of operations that hold programs: the programs are run on intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from intervals.elementwise import bounds, hull
from intervals.trace import Interval, as_interval, register_interval, run
from weft import lax
from weft.extend.core import Jaxpr, primitives

__all__: list[str] = []

p = primitives
# After so many steps a bound of a loop of unknown length that still moves is given up: infinite.
PATIENCE = 64


def inlined(*operands: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return run(jaxpr, operands)


for primitive in (p.jit_p, p.custom_jvp_p, p.custom_vjp_p, p.checkpoint_p):
    register_interval(primitive, inlined)


def cond_interval(index: Any, *operands: Any, branches: Sequence[Jaxpr]) -> list[Interval]:
    """The hull of the branches that may be taken: the one where the choice is certain."""
    first, last = (jnp.clip(end, 0, len(branches) - 1) for end in bounds(index))
    found: list[Any] = []
    for number, jaxpr in enumerate(branches):
        possible = (first <= number) & (number <= last)
        outs = [as_interval(x) for x in run(jaxpr, operands)]
        if not found:
            found = outs
            taken = possible
            continue
        # Until one was possible, what was found does not count.
        found = [chosen(taken, possible, a, b) for a, b in zip(found, outs, strict=True)]
        taken = taken | possible
    return found


def chosen(taken: Any, possible: Any, before: Interval, here: Interval) -> Interval:
    both = hull(before, here)
    either = weft.tree.map(lambda a, b: jnp.where(possible, a, b), here, before)
    return weft.tree.map(lambda a, b: jnp.where(taken & possible, a, b), both, either)


register_interval(p.cond_p, cond_interval)


def uncertain(step: Callable[..., Sequence[Any]], carry: Sequence[Any], *others: Any) -> list[bool]:
    """Which carried values are intervals after some step: the least set that a step keeps."""
    flags = [isinstance(x, Interval) for x in carry]
    while True:
        found = intervals_of(step, len(flags), marked(carry, flags), *others)
        wider = [a or b for a, b in zip(flags, found, strict=True)]
        if wider == flags:
            return flags
        flags = wider


def intervals_of(step: Callable[..., Sequence[Any]], count: int, *args: Any) -> list[bool]:
    """Which of the first results of a function are intervals; nothing is computed."""
    found: list[bool] = []

    def probe(*args: Any) -> Any:
        outs = step(*args)
        found[:] = [isinstance(x, Interval) for x in outs[:count]]
        return [bounds(x) for x in outs]

    weft.eval_shape(probe, *args)
    return found


def marked(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Values as intervals where the flag is set, else as arrays of their own dtype."""
    return [
        as_interval(x) if flag else as_interval(x).lower
        for x, flag in zip(values, flags, strict=True)
    ]


def scan_interval(
    *operands: Any,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    unroll: int,
    num_consts: int,
    num_carry: int,
) -> list[Any]:
    """The loop over intervals, as long as the loop."""
    consts, rest = operands[:num_consts], operands[num_consts:]
    carry, xs = list(rest[:num_carry]), list(rest[num_carry:])

    def step(carry: Any, xs: Any) -> list[Any]:
        return run(jaxpr, [*consts, *carry, *xs])

    first = weft.tree.map(lambda x: x[0], xs) if length else None
    if first is None:
        first = [Interval(jnp.zeros_like(x), jnp.zeros_like(x)) for x in xs]
    flags = uncertain(step, carry, first)

    def body(carry: Any, xs: Any) -> Any:
        outs = step(carry, xs)
        return marked(outs[:num_carry], flags), outs[num_carry:]

    last, ys = lax.scan(body, marked(carry, flags), xs, length, reverse=reverse, unroll=unroll)
    return [*last, *ys]


register_interval(p.scan_p, scan_interval)


def while_interval(
    *operands: Any, cond_jaxpr: Jaxpr, body_jaxpr: Jaxpr, cond_nconsts: int, body_nconsts: int
) -> list[Any]:
    """The loop as long as every input in the box goes on; then, while some may, the hull of all
    states that can be reached, with bounds that do not settle widened to infinity."""
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, start = (
        operands[:cond_nconsts],
        operands[cond_nconsts:n],
        operands[n:],
    )

    def goes_on(carry: Any) -> Any:
        return run(cond_jaxpr, [*cond_consts, *carry])[0]

    def step(carry: Any) -> list[Any]:
        return run(body_jaxpr, [*body_consts, *carry])

    flags = uncertain(step, start)
    certain = lax.while_loop(
        lambda carry: bounds(goes_on(carry))[0],
        lambda carry: marked(step(carry), flags),
        marked(start, flags),
    )
    if not intervals_of(lambda carry: [goes_on(carry)], 1, certain)[0]:
        return certain
    return reachable(certain, goes_on, step)


def reachable(start: Sequence[Any], goes_on: Any, step: Any) -> list[Interval]:
    """The hull of all states of a loop that some inputs leave earlier than others."""
    first = [as_interval(x) for x in start]

    def moves(state: Any) -> Any:
        return state[2]

    def widen(state: Any) -> Any:
        number, reached, _ = state
        after = [hull(a, as_interval(b)) for a, b in zip(reached, step(reached), strict=True)]
        tired = number >= PATIENCE
        out = [given_up(a, b, tired) for a, b in zip(reached, after, strict=True)]
        moving = [
            jnp.any((a.lower != b.lower) | (a.upper != b.upper))
            for a, b in zip(reached, out, strict=True)
        ]
        return number + 1, out, jnp.any(jnp.stack(moving))

    begin = (jnp.int32(0), first, jnp.asarray(bounds(goes_on(first))[1]))
    return list(lax.while_loop(moves, widen, begin)[1])


def given_up(before: Interval, after: Interval, tired: Any) -> Interval:
    if not jnp.issubdtype(after.lower.dtype, jnp.floating):
        return after
    infinity = jnp.asarray(np.inf, after.lower.dtype)
    return Interval(
        jnp.where(tired & (after.lower < before.lower), -infinity, after.lower),
        jnp.where(tired & (after.upper > before.upper), infinity, after.upper),
    )


register_interval(p.while_p, while_interval)
