"""Effects: what an equation does besides computing its results (printing, calling the host).

An effect is a value in the `effects` of equations and jaxprs (see `core.rules.effects`).
Transformations keep every equation that has one, and run it as often as the user's function would.
Ordered effects also happen one after the other, in the order of the equations; there is one order
for all of them, because a user who asks for an order expects it between prints and other calls too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """A kind of effect: its name, and whether it is ordered.

    Args:
        name: What the effect is called in texts of jaxprs.
        ordered: Whether equations that have it keep their order.
    """

    name: str
    ordered: bool = False

    def __str__(self) -> str:
        return f"ordered {self.name}" if self.ordered else self.name


# Printing does not change the results, so derivatives and batching need no rule for it.
DEBUG = Effect("debug")
ORDERED_DEBUG = Effect("debug", ordered=True)
# Input and output outside of the jaxpr.
IO = Effect("io")
ORDERED_IO = Effect("io", ordered=True)


def any_ordered(effects: Iterable[object]) -> bool:
    """Whether one of the effects is ordered.

    Args:
        effects: The effects of an equation or a jaxpr.
    """
    return any(isinstance(effect, Effect) and effect.ordered for effect in effects)
