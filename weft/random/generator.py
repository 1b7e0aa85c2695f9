"""The interface of random generators, and the table of generators by name.

A generator is a family of pure functions on the bits of a key: from a seed to a key, from a key to
several, from a key and a number to another key, and from a key to random bits. Everything else in
`weft.random` is built on these four, so another generator is one object of this class.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary, with_operation
from weft.errors.argument_errors import close_name, invalid_class, invalid_type, invalid_value
from weft.ops.structural.extended_dtypes import KeyDType
from weft.settings.kinds import generators

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Generator:
    """A random generator: four functions on the bits of one key, which are uint32[*key_shape].

    `seed` maps a number, an integer array without dimensions of any width, to the bits of a key.
    `split` maps (bits, shape) to the bits of several keys, of shape + key_shape. `fold_in` maps
    (bits, data) to those of another key; the data is a uint32 without dimensions. `random_bits`
    maps (bits, width, shape) to unsigned integers of 8, 16, 32 or 64 bits.

    The functions may use any operation, and are never called with more than one key: vmap does
    that. They are taken as they are; `define_generator` makes a generator whose results are
    checked. name: what `weft.random.key(seed, impl=name)` takes; key_shape: the shape of one key's
    unsigned 32-bit integers; tag: the short name that dtypes of keys show; `dtype` is that dtype.
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
    """Registers a generator by name. Raises WeftValueError if the name or tag is taken.

    generator: the generator, which is returned.
    """
    for known in _by_name.values():
        if generator.name == known.name or generator.tag == known.tag:
            raise WeftValueError(
                f"there is a random generator named {known.name!r} with the tag {known.tag!r}",
                operation="register a random generator",
                got=f"name {generator.name!r}, tag {generator.tag!r}",
                wanted="a name and a tag that are free",
                fix=Fix(
                    "generator",
                    f"use the one there is (impl={known.name!r}), or choose another name and tag",
                    {"impl": known.name},
                ),
            )
    _by_name[generator.name] = generator
    generators.add(generator.name)
    return generator


@api_boundary
def define_generator(
    name: str,
    *,
    tag: str,
    key_shape: Sequence[int],
    seed: Callable[[Any], Any],
    split: Callable[[Any, Shape], Any],
    fold_in: Callable[[Any, Any], Any],
    random_bits: Callable[[Any, int, Shape], Any],
) -> Generator:
    """Defines a random generator and registers its name: `weft.random.key(0, impl=name)`.

    The four functions `seed`, `split`, `fold_in` and `random_bits` are those of `Generator`: on the
    bits of one key, uint32 of `key_shape`. They run while a function is traced, and so may use
    every operation; all of weft.random, typed arrays of keys in every transformation, pickling and
    export follow from them. Their results are checked at every call. tag: the short name that
    dtypes of keys show.

    Raises WeftValueError if the `name` or the tag is taken, WeftTypeError for arguments of other
    kinds; a function whose result has another shape or dtype raises when it is called, and the
    error names it.

    >>> from weft.extend.random import define_generator
    >>> counting = define_generator(
    ...     "counting_for_show",
    ...     tag="cnt",
    ...     key_shape=(1,),
    ...     seed=lambda seed: seed.astype("uint32").reshape(1),
    ...     split=lambda bits, shape: jnp.broadcast_to(bits + np.uint32(1000), (*shape, 1)),
    ...     fold_in=lambda bits, data: bits + data,
    ...     random_bits=lambda bits, width, shape: jnp.broadcast_to(bits, shape).astype(
    ...         f"uint{width}"
    ...     ),
    ... )
    >>> key = weft.random.key(5, impl="counting_for_show")
    >>> key.dtype, weft.random.bits(weft.random.fold_in(key, 2), (3,)).tolist()
    (key<cnt>, [7, 7, 7])
    """
    _check_words(name, tag)
    row = _check_key_shape(name, key_shape)
    _check_functions(seed=seed, split=split, fold_in=fold_in, random_bits=random_bits)

    check = functools.partial(_check_result, name)

    return register(
        Generator(
            name,
            tag,
            row,
            lambda number: check("seed", seed(number), row),
            lambda bits, shape: check("split", split(bits, shape), (*shape, *row)),
            lambda bits, data: check("fold_in", fold_in(bits, data), row),
            lambda bits, width, shape: check(
                "random_bits", random_bits(bits, width, shape), shape, np.dtype(f"uint{width}")
            ),
        )
    )


_UINT32 = np.dtype(np.uint32)


def _check_words(name: Any, tag: Any) -> None:
    for what, word in (("name", name), ("tag", tag)):
        if not isinstance(word, str) or not word:
            message = f"define_generator: the {what} is a text"
            wanted = 'a short text, such as name="philox4x32", tag="phx"'
            raise WeftTypeError(message, got=f"{what}={word!r:.60}", wanted=wanted)


def _check_functions(**functions: Any) -> None:
    for what, function in functions.items():
        if not callable(function):
            message = f"define_generator: {what} is a function"
            wanted = "a function on the bits of one key"
            raise invalid_class(message, "define_generator", what, function, wanted)


def _check_key_shape(name: str, key_shape: Any) -> Shape:
    try:
        row = tuple(operator.index(size) for size in key_shape)
    except TypeError:
        row = (0,)
    if any(size < 1 for size in row):
        message = f"define_generator: the key_shape of {name} is a tuple of positive integers"
        wanted = "the shape of the uint32 bits of one key, such as (2,)"
        fix = Fix("key_shape", "for a key of two words pass key_shape=(2,)", {"key_shape": (2,)})
        raise invalid_type(message, "define_generator", "key_shape", key_shape, wanted, fix=fix)
    return row


def _check_result(name: str, what: str, value: Any, shape: Shape, dtype: Any = _UINT32) -> Any:
    """Checks the shape and dtype of the result of a function of a generator."""
    of = type_of(value)
    if of.shape != shape or of.dtype != dtype:
        wanted = ArrayType(shape, dtype)
        message = f"the function {what} of the random generator {name!r} returned {of}"
        fix = Fix(
            "result",
            f"return {wanted}: x.astype({dtype.name!r}).reshape({shape!r})",
            {"shape": shape, "dtype": dtype.name},
        )
        raise WeftTypeError(
            message, operation=f"{what} of {name}", got=str(of), wanted=str(wanted), fix=fix
        )
    return value


def generator_named(name: str, operation: str = "") -> Generator:
    """The generator of that name. Raises WeftValueError, which lists the registered names.

    name: that of a registered generator; operation: what errors name, if not the function called.
    """
    generator = _by_name.get(name)
    if generator is None:
        close = close_name(name, tuple(_by_name)) or next(iter(_by_name))
        text = f"there is no random generator named {name!r}"
        message = with_operation(operation, text)
        wanted = "one of " + ", ".join(map(repr, _by_name))
        fix = Fix("impl", f"pass impl={close!r}, or leave impl out", {"impl": close})
        raise invalid_value(message, operation, "impl", name, wanted, fix=fix)
    return generator
