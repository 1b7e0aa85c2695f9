"""What a program does besides computing its results: printing, calling the host.

An effect is a value in the `effects` of equations and programs (see `core.rules.effects`).
Transformations keep every equation that has one, and run it as often as the user's program says.
Ordered effects happen, in addition, one after the other in the order of the program; there is one
order for all of them, because a user who asks for an order expects it between prints and other
calls too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

__all__ = ["DEBUG", "IO", "ORDERED_DEBUG", "ORDERED_IO", "Effect", "any_ordered"]


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """A kind of effect, by its name, and whether it keeps its place among ordered effects."""

    name: str
    ordered: bool = False

    def __str__(self) -> str:
        return f"ordered {self.name}" if self.ordered else self.name


# Watching a program: what is printed does not change what is computed, so derivatives and batching
# need not ask what it means.
DEBUG = Effect("debug")
ORDERED_DEBUG = Effect("debug", ordered=True)
# Acting on the world outside, and reading from it.
IO = Effect("io")
ORDERED_IO = Effect("io", ordered=True)


def any_ordered(effects: Iterable[object]) -> bool:
    """Whether one of the effects keeps its place in the order."""
    return any(isinstance(effect, Effect) and effect.ordered for effect in effects)
