"""Keys and bits of Threefry from one run of counters that is cut in half, as JAX made them before
its release 0.5: what the setting `threefry_partitionable=False` asks for.

The counters 0, 1, … of all words stand in a row; the first half gives the first words of the
blocks that are enciphered, the second half the second words. So the words of one element depend on
how many there are, and an array cannot be computed part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft.core.types import type_of
from weft.ops.elementwise.bits import bitwise_or, shift_left, shift_right_logical
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import reshape, transpose

Shape = tuple[int, ...]
Cipher = Callable[[Any, Any], tuple[Any, Any]]

_uint32 = np.dtype(np.uint32)
_MOST = (1 << 32) - 1


def _encipher(cipher: Cipher, key: Any, count: int) -> Any:
    """Enciphers `count` counters, cut in half.

    An odd number of them is padded with a counter of 0, whose word is dropped.
    """
    counters = broadcasted_iota(_uint32, (count,), 0)
    if count % 2:
        counters = concatenate([counters, np.zeros(1, np.uint32)], 0)
    half = (count + 1) // 2
    words = cipher(key, (slice_in_dim(counters, 0, half), slice_in_dim(counters, half, 2 * half)))
    out = concatenate(list(words), 0)
    return slice_in_dim(out, 0, count) if count % 2 else out


def sequential_split(cipher: Cipher, key: Any, shape: Shape) -> Any:
    """Keys, as bits of shape (*shape, 2); `key` is a pair of words."""
    return reshape(_encipher(cipher, key, 2 * prod(shape)), (*shape, 2))


def sequential_random_bits(
    cipher: Cipher, words_of: Callable[[Any], Any], bits: Any, width: int, shape: Shape
) -> Any:
    """Random bits as unsigned integers; `words_of` splits the bits of a key into two words."""
    size = prod(shape)
    count = -(-width * size // 32)
    rounds, rest = divmod(count, _MOST)
    if not rounds:
        words = _encipher(cipher, words_of(bits), rest)
    else:
        rows = sequential_split(cipher, words_of(bits), (rounds + 1,))
        keys = [words_of(reshape(slice_in_dim(rows, i, i + 1), (2,))) for i in range(rounds + 1)]
        parts = [_encipher(cipher, key, _MOST) for key in keys[:-1]]
        words = concatenate([*parts, _encipher(cipher, keys[-1], rest)], 0)
    if width == 64:
        high, low = (
            convert_element_type(slice_in_dim(words, i * size, (i + 1) * size), np.uint64)
            for i in (0, 1)
        )
        words = bitwise_or(shift_left(high, np.uint64(32)), low)
    elif width < 32:
        words = slice_in_dim(_cut(words, width), 0, size)
    return reshape(words, shape)


def _cut(words: Any, width: int) -> Any:
    """Cuts words into numbers of 8 or 16 bits, the lowest of each word first."""
    dtype = np.dtype(f"uint{width}")
    shifts = [np.uint32(i * width) for i in range(32 // width)]
    parts = [convert_element_type(shift_right_logical(words, by), dtype) for by in shifts]
    (count,) = type_of(words).shape
    rows = concatenate([reshape(part, (1, count)) for part in parts], 0)
    return reshape(transpose(rows, (1, 0)), (count * len(parts),))
