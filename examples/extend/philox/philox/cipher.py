"""The block cipher Philox-4x32: four random words of a key of two words and a counter of four.

A round multiplies two of the words by constants and mixes the halves of the products with the
others; the key changes from round to round by a Weyl sequence. J. Salmon, M. Moraes, R. Dror,
D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft import lax
from weft.errors import Fix, ShapeError, WeftTypeError
from weft.extend.core import type_of

# The multipliers and the increments of the key, both from the paper.
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
# Blocks of so few elements are enciphered by a loop: unrolled rounds of keys that are made of keys
# that are made of keys grow into a program that takes long to compile.
SMALL = 1 << 9


def philox_4x32(key: Sequence[Any], counter: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """The four words that Philox-4x32 with 10 rounds makes of a key and a counter, elementwise.

    A key is two words and a counter is four: uint32 arrays of one shape, or without dimensions.
    Raises WeftTypeError for another number of words or other dtypes, ShapeError for words of
    different shapes.
    """
    words, shape = checked_words(key, counter)
    key_words, state = words[:2], tuple(repeated(word, shape) for word in words[2:])
    if prod(shape) <= SMALL:
        # The state of a loop has one type from the start.
        start = (*(repeated(word, shape) for word in key_words), *state)
        found = lax.fori_loop(0, ROUNDS, lambda i, carry: one_round(carry), start)
        return tuple(found[2:])
    carry = (*key_words, *state)
    for _ in range(ROUNDS):
        carry = one_round(carry)
    return tuple(carry[2:])


def checked_words(key: Sequence[Any], counter: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The six words and their common shape."""
    words = [*key, *counter]
    types = [type_of(word) for word in words]
    got = ", ".join(map(str, types))
    if (len(key), len(counter)) != (2, 4) or any(type.dtype != np.uint32 for type in types):
        raise WeftTypeError(
            "philox_4x32 takes a key of two words and a counter of four, all of uint32",
            operation="philox_4x32",
            got=f"{len(key)} and {len(counter)} words: {got}",
            wanted="two arrays and four arrays of uint32",
            fix=Fix("convert", "convert each word: x.astype('uint32')", {"dtype": "uint32"}),
        )
    shapes = {type.shape for type in types if type.shape}
    if len(shapes) > 1:
        raise ShapeError(
            "philox_4x32 takes words of one shape (or without dimensions)",
            operation="philox_4x32",
            got=got,
            wanted="equal shapes",
        )
    return words, shapes.pop() if shapes else ()


def repeated(word: Any, shape: tuple[int, ...]) -> Any:
    """A word without dimensions repeated to a shape; others as they are."""
    return word if type_of(word).shape == shape else lax.broadcast(word, shape)


def one_round(carry: tuple[Any, ...]) -> tuple[Any, ...]:
    """One round on (two words of the key, four words of the state), and the next key."""
    k0, k1, c0, c1, c2, c3 = carry
    high0, low0 = product(MULTIPLIERS[0], c0)
    high1, low1 = product(MULTIPLIERS[1], c2)
    mixed0 = lax.bitwise_xor(lax.bitwise_xor(high1, c1), k0)
    mixed1 = lax.bitwise_xor(lax.bitwise_xor(high0, c3), k1)
    next_key = (lax.add(k0, np.uint32(INCREMENTS[0])), lax.add(k1, np.uint32(INCREMENTS[1])))
    return *next_key, mixed0, low1, mixed1, low0


def product(constant: int, word: Any) -> tuple[Any, Any]:
    """The high and the low 32 bits of the product of a constant and a word."""
    wide = lax.mul(lax.convert_element_type(word, np.uint64), np.uint64(constant))
    high = lax.shift_right_logical(wide, np.uint64(32))
    low = lax.mul(word, np.uint32(constant))
    return lax.convert_element_type(high, np.uint32), low
