"""Which jaxprs of a module are functions that XLA compiles once, instead of at each call.

A called function is a border that XLA's fusion does not cross. For large bodies that is a gain on a
CPU, beside the time of compiling: inlined, what the backward pass reads of the forward pass is
computed again in every loop that reads it. For small bodies it is a loss: what passes between them
goes through memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from weft import config
from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in

# How often a body must be repeated.
REPEATS = 3


class Size(NamedTuple):
    """The size of a jaxpr, including the jaxprs inside it: the numbers of equations, of matrix
    products, and of operations that must be inlined."""

    equations: int
    products: int
    never_called: int


# A body must hold as much. Measured on CPUs: the layers of transformers have 60 equations and more
# and gain; those of perceptrons have 20 and lose.
LEAST = Size(48, 2, 0)


def bodies_are_called(platform: str, num_devices: int, layouts: Iterable[Any]) -> bool:
    """Whether repeated bodies become calls in a module: on one CPU device, with row-major operands
    and results (all `layouts` are None), unless the setting inlines them. Other platforms compile
    fast, or were not measured; a partitioner inlines calls; and each call would copy values in
    other layouts."""
    asked = config.settings().repeated_bodies == "call"
    return asked and platform == "cpu" and num_devices == 1 and not any(layouts)


def is_worth_calling(size: Size) -> bool:
    """Whether a repeated body of a size is called, not inlined."""
    enough = size.equations >= LEAST.equations and size.products >= LEAST.products
    return enough and not size.never_called


def size_of(jaxpr: Jaxpr) -> Size:
    """The size of a jaxpr, cached."""
    return jaxpr.memoize("size", lambda: total(map(size_of_equation, jaxpr.eqns)))


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    return Size(*map(sum, zip(Size(0, 0, 0), *sizes, strict=True)))


def size_of_equation(eqn: Equation) -> Size:
    """One plus the sizes of the jaxprs of an equation."""
    inner = jaxprs_in(eqn.params) if eqn.params else ()
    facts = eqn.primitive.facts
    own = Size(1, facts.product, facts.never_called)
    return total((own, *map(size_of, inner))) if inner else own


def repeated_functions(jaxpr: Jaxpr) -> frozenset[Jaxpr]:
    """The user's functions that equations of a jaxpr, or of inner ones, hold at least `REPEATS`
    times."""
    uses: Counter[Jaxpr] = Counter()
    seen: set[Jaxpr] = {jaxpr}
    left = [jaxpr]
    while left:
        for eqn in left.pop().eqns:
            for inner in jaxprs_in(eqn.params) if eqn.params else ():
                uses[inner] += 1
                if inner not in seen:
                    seen.add(inner)
                    left.append(inner)
    return frozenset(
        inner
        for inner, count in uses.items()
        if count >= REPEATS and not inner.effects and is_worth_calling(size_of(inner))
    )
