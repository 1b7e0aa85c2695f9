"""The names of `jax.debug` for effects, which are classes there and values in weft."""

from __future__ import annotations

from weft.core.effects import DEBUG, ORDERED_DEBUG, Effect

__all__ = ["DebugEffect", "OrderedDebugEffect"]


class _OneEffect(type):
    """A class that makes one effect, and of which that effect is an instance."""

    own: Effect

    def __instancecheck__(cls, value: object) -> bool:
        return value == cls.own


class DebugEffect(metaclass=_OneEffect):
    """The effect of what is printed, in any order."""

    own = DEBUG

    def __new__(cls) -> Effect:  # type: ignore[misc]
        """The effect."""
        return DEBUG


class OrderedDebugEffect(metaclass=_OneEffect):
    """The effect of what is printed in the order of the program."""

    own = ORDERED_DEBUG

    def __new__(cls) -> Effect:  # type: ignore[misc]
        """The effect."""
        return ORDERED_DEBUG
