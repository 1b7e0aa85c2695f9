"""The names of `jax.extend.random` that stand nowhere in weft, or mean another function there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.api.vmap import vmap
from weft.errors import WeftValueError
from weft.extend.core import primitives
from weft.random import key
from weft.random.generator import Generator, define_generator, generator_named
from weft.random.keys import wrap_key_data as wrap_key_data
from weft.random.threefry import threefry_2x32 as _enciphered

__all__ = [
    "PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl",
    "threefry2x32_p", "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl",
    "wrap_key_data",
]  # fmt: skip

PRNGImpl = Generator
threefry_prng_impl = generator_named("threefry2x32", "threefry_prng_impl")
rbg_prng_impl = generator_named("rbg", "rbg_prng_impl")
unsafe_rbg_prng_impl = generator_named("unsafe_rbg", "unsafe_rbg_prng_impl")
threefry2x32_p = primitives["threefry2x32"]
_numbers = itertools.count(2)


def define_prng_impl(
    *,
    key_shape: tuple[int, ...],
    seed: Callable[[Any], Any],
    split: Callable[[Any, tuple[int, ...]], Any],
    random_bits: Callable[[Any, int, tuple[int, ...]], Any],
    fold_in: Callable[[Any, int], Any],
    name: str = "<unnamed>",
    tag: str = "?",
) -> Generator:
    """Defines a random generator by its functions; a name that is taken gets a number behind it.
    The generator is what `jax.random.key(seed, impl=…)` takes."""
    parts: dict[str, Any] = {
        "key_shape": key_shape, "seed": seed, "split": split, "fold_in": fold_in,
        "random_bits": random_bits,
    }  # fmt: skip
    try:
        return define_generator(name, tag=tag, **parts)
    except WeftValueError:
        number = next(_numbers)
        return define_generator(f"{name}{number}", tag=f"{tag}{number}", **parts)


def seed_with_impl(impl: Generator, seed: Any) -> Any:
    """The key of a generator for a seed."""
    return key(seed, impl=impl)


def random_seed(seeds: Any, impl: Generator) -> Any:
    """The keys of a generator for an array of seeds."""
    flat = jnp.ravel(seeds)
    return jnp.reshape(vmap(lambda seed: key(seed, impl=impl))(flat), jnp.shape(seeds))


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Enciphers an array of counters with a key of two words: an array of as many words.

    The first half of the counters and the second are the words of the blocks; a 0 is appended to an
    odd number of them.
    """
    counters = jnp.ravel(count)
    size = counters.shape[0]
    if size % 2:
        counters = jnp.concatenate([counters, jnp.zeros(1, np.uint32)])
    first, second = jnp.split(counters, 2)
    words = jnp.concatenate(_enciphered((keypair[0], keypair[1]), (first, second)))
    return jnp.reshape(words[:size], jnp.shape(count))
