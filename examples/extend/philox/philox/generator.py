"""Philox-4x32 as a generator: keys of two words; every element of an array from its own position.

The counter's first two words are the number of a block, the last says what the block is for, so
that random bits, the keys of a split and folded-in keys never meet.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import weft.numpy as jnp
from philox.cipher import philox_4x32
from weft import lax
from weft.extend.random import define_generator

Shape = tuple[int, ...]
BITS, SPLIT, FOLD_IN = (np.uint32(i) for i in range(3))
ZERO = np.uint32(0)


def words(bits: Any) -> tuple[Any, Any]:
    """The two words of a key."""
    return bits[0], bits[1]


def blocks(n: int) -> tuple[Any, Any]:
    """The numbers 0 … n-1 as the low and the high 32 bits of 64."""
    if n <= 1 << 32:
        return lax.iota(np.uint32, n), ZERO
    index = lax.iota(np.uint64, n)
    high = lax.shift_right_logical(index, np.uint64(32))
    return index.astype(np.uint32), high.astype(np.uint32)


def seed(number: Any) -> Any:
    """The key of a seed: its low and its high 32 bits."""
    if number.dtype.itemsize == 8:
        high = lax.shift_right_logical(number, number.dtype.type(32))
        return jnp.stack([number.astype(np.uint32), high.astype(np.uint32)])
    low = number.astype(np.uint32)
    return jnp.stack([low, jnp.zeros_like(low)])


def split(bits: Any, shape: Shape) -> Any:
    """A key for each element: the first two words of its block."""
    low, high = blocks(prod(shape))
    first, second, _, _ = philox_4x32(words(bits), (low, high, ZERO, SPLIT))
    return jnp.stack([first, second], axis=-1).reshape(*shape, 2)


def fold_in(bits: Any, data: Any) -> Any:
    """The key that the cipher makes of a number."""
    first, second, _, _ = philox_4x32(words(bits), (data, ZERO, ZERO, FOLD_IN))
    return jnp.stack([first, second])


def random_bits(bits: Any, width: int, shape: Shape) -> Any:
    """Unsigned integers: the words of as many blocks as it takes, joined or taken apart."""
    n = prod(shape)
    low, high = blocks(-(-n * width // 128))
    made = philox_4x32(words(bits), (low, high, ZERO, BITS))
    if width == 64:
        first = jnp.concatenate(made[:2]).astype(np.uint64)
        second = jnp.concatenate(made[2:]).astype(np.uint64)
        drawn = lax.bitwise_or(lax.shift_left(first, np.uint64(32)), second)
    else:
        narrow = lax.bitcast_convert_type(jnp.concatenate(made), np.dtype(f"uint{width}"))
        drawn = narrow.reshape(-1)
    return drawn[:n].reshape(shape)


PHILOX = define_generator(
    "philox4x32",
    tag="phx",
    key_shape=(2,),
    seed=seed,
    split=split,
    fold_in=fold_in,
    random_bits=random_bits,
)
