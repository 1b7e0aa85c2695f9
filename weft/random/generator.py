"""What a random generator has to provide, and the generators there are, by name.

A generator is a family of pure functions on the bits of a key: from a seed to a key, from a key to
several, from a key and a number to another key, and from a key to random bits. Everything else in
`weft.random` is built on these four, so another generator is one object of this class.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from typing import Any

from weft.errors import Fix, WeftValueError
from weft.ops.extended import KeyDType

__all__ = ["Generator", "generator_named", "register"]

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Generator:
    """A random generator: four functions on the bits of one key, which are uint32[*key_shape].

    seed(number) -> bits: the number is an integer array without dimensions, of any width;
    split(bits, shape) -> bits of shape + key_shape;
    fold_in(bits, data) -> bits: the data is a uint32 without dimensions;
    random_bits(bits, width, shape) -> unsigned integers of 8, 16, 32 or 64 bits.

    The functions may use any operation, and are never called with more than one key: vmap does
    that. `tag` is the short name that dtypes of keys show.
    """

    name: str
    tag: str
    key_shape: Shape
    seed: Callable[[Any], Any]
    split: Callable[[Any, Shape], Any]
    fold_in: Callable[[Any, Any], Any]
    random_bits: Callable[[Any, int, Shape], Any]
    dtype: KeyDType = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", KeyDType(self.tag, self.key_shape, self))

    def __reduce__(self) -> tuple[Any, ...]:
        return generator_named, (self.name, "unpickling random keys")

    def __repr__(self) -> str:
        return f"<random generator {self.name}>"


_by_name: dict[str, Generator] = {}


def register(generator: Generator) -> Generator:
    """Makes a generator known by its name. Raises WeftValueError where the name or tag is taken."""
    for known in _by_name.values():
        if generator.name == known.name or generator.tag == known.tag:
            raise WeftValueError(
                f"there is a random generator named {known.name!r} with the tag {known.tag!r}",
                operation="register a random generator",
                got=f"name {generator.name!r}, tag {generator.tag!r}",
                wanted="a name and a tag that are free",
            )
    _by_name[generator.name] = generator
    return generator


def generator_named(name: str, operation: str) -> Generator:
    """The generator of that name. Raises WeftValueError naming those there are."""
    found = _by_name.get(name)
    if found is None:
        close = difflib.get_close_matches(name, _by_name, 1) or list(_by_name)[:1]
        raise WeftValueError(
            f"{operation}: there is no random generator named {name!r}",
            operation=operation,
            got=f"impl={name!r}",
            wanted="one of " + ", ".join(map(repr, _by_name)),
            fix=Fix("impl", f"pass impl={close[0]!r}, or leave impl out", {"impl": close[0]}),
        )
    return found
