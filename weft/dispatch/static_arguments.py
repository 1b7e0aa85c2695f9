"""Static arguments of jit as parts of keys."""

from __future__ import annotations

from typing import Any

from weft.base.exact_keys import exact_key
from weft.errors import Fix, WeftValueError
from weft.errors.argument_errors import describe_value


class StaticArgument:
    """A static argument: hashed and compared by class and bits, also inside of tuples and
    dataclasses (1, 1.0 and True differ, and so do 0.0 and -0.0; a NaN is equal to itself)."""

    __slots__ = ("hash", "key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = exact_key(value)
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticArgument) and bool(self.key == other.key)

    def __repr__(self) -> str:
        return repr(self.value)


def hashable_static(value: Any, place: int | str, name: str) -> StaticArgument:
    """The static argument at an argnum or name. Raises WeftValueError for an unhashable value."""
    try:
        return StaticArgument(value)
    except TypeError:
        which = f"argument {place!r}"
        message, got = f"jit of {name}: the static {which} cannot be hashed", describe_value(value)
        fix = Fix(
            "hashable",
            "pass a tuple instead of a list or an array, or do not make the argument static",
            {"argument": which},
        )
        raise WeftValueError(
            message, operation=f"jit of {name}", got=got, wanted="a hashable value", fix=fix
        ) from None
