"""The generators "rbg" and "unsafe_rbg": random bits by the block cipher Philox-4x32, 10 rounds.

A key is four words. From the first two as the cipher's key and all four as the first value of its
counter come the random bits, in the order of XLA's RngBitGenerator, but each element from its own
position: so `vmap` draws the numbers of each key, and sharding leaves the numbers as they are.
"rbg" derives keys with the default generator's cipher, "unsafe_rbg" with this one. J. Salmon,
M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.ops.elementwise.arithmetic import add, lt, mul, ne
from weft.ops.elementwise.bits import bitwise_and, bitwise_xor, shift_right_logical
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import expand_dims, reshape
from weft.random.ciphers import broadcast_word, cipher
from weft.random.generator import Generator
from weft.random.threefry import (
    join_words,
    row_major_index,
    split_words,
    threefry_fold_in,
    threefry_seed,
    threefry_split,
)
from weft.runtime import stablehlo

Shape = tuple[int, ...]

_uint32 = np.dtype(np.uint32)
_uint64 = np.dtype(np.uint64)
# The multipliers and the increments of the key, both from the paper.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
# Operands of up to so many elements are enciphered by a loop on the CPU (see weft.random.threefry).
_SMALL = 1 << 9


def philox4x32_lower(context: Any, *words: Any) -> list[Any]:
    shape = context.out_types[0].shape
    state = [broadcast_word(word, shape) for word in words]
    if context.platform != "cpu" or prod(shape) > _SMALL:
        for _ in range(_ROUNDS):
            state = one_round(state, shape)
        return state[2:]
    zero, one, last = (stablehlo.constant(i, (), _uint32) for i in (0, 1, _ROUNDS))
    out = stablehlo.while_(
        [zero, *state],
        lambda carry: stablehlo.compare(carry[0], last, "LT"),
        lambda carry: [stablehlo.add(carry[0], one), *one_round(carry[1:], shape)],
    )
    return list(out[3:])


def one_round(state: Sequence[Any], shape: Shape) -> list[Any]:
    """One round on two words of the key and four of the state, and the next key."""
    k0, k1, c0, c1, c2, c3 = state
    high0, low0 = product(_MULTIPLIERS[0], c0, shape)
    high1, low1 = product(_MULTIPLIERS[1], c2, shape)
    keys = (
        stablehlo.add(key, stablehlo.constant(increment, shape, _uint32))
        for key, increment in zip((k0, k1), _INCREMENTS, strict=True)
    )
    first = stablehlo.xor(stablehlo.xor(high1, c1), k0)
    third = stablehlo.xor(stablehlo.xor(high0, c3), k1)
    return [*keys, first, low1, third, low0]


def product(constant: int, word: Any, shape: Shape) -> tuple[Any, Any]:
    """The high and the low 32 bits of the product of a constant and a word."""
    wide = stablehlo.multiply(
        stablehlo.convert(word, _uint64), stablehlo.constant(constant, shape, _uint64)
    )
    high = stablehlo.shift_right_logical(wide, stablehlo.constant(32, shape, _uint64))
    return stablehlo.convert(high, _uint32), stablehlo.convert(wide, _uint32)


philox4x32_p = cipher("philox4x32", 4, philox4x32_lower)


def _words(bits: Any) -> list[Any]:
    """The four words of a key."""
    return [reshape(slice_in_dim(bits, i, i + 1), ()) for i in range(4)]


def _blocks(bits: Any, numbers: Any) -> Sequence[Any]:
    """The words of the blocks of these numbers (uint64), as four arrays."""
    k0, k1, c0, c1 = _words(bits)
    start = join_words(c0, c1)
    low = add(numbers, start)
    # The counter has 128 bits.
    carry = convert_element_type(lt(low, numbers), _uint64)
    words = (*split_words(low), *split_words(add(carry, join_words(k0, k1))))
    return list(philox4x32_p.bind(k0, k1, *words))


def rbg_random_bits(bits: Any, width: int, shape: Shape) -> Any:
    """The words of consecutive blocks, in pairs for 64 bits."""
    index = row_major_index(shape, _uint64)
    per_block = 2 if width == 64 else 4
    block = shift_right_logical(index, np.uint64(per_block.bit_length() - 1))
    # Each element computes its own block: cheaper than writing all blocks and reordering them.
    words = _blocks(bits, block)

    def is_set(place: int) -> Any:
        return ne(bitwise_and(index, np.uint64(place)), np.uint64(0))

    if width == 64:
        second = is_set(1)
        return join_words(select(second, words[2], words[0]), select(second, words[3], words[1]))
    odd, later = is_set(1), is_set(2)
    word = select(later, select(odd, words[3], words[2]), select(odd, words[1], words[0]))
    return word if width == 32 else convert_element_type(word, np.dtype(f"uint{width}"))


def rbg_seed(seed: Any) -> Any:
    """Twice the key that the default generator makes from the seed."""
    half = threefry_seed(seed)
    return concatenate([half, half], 0)


def _halves(bits: Any) -> list[Any]:
    return [slice_in_dim(bits, i, i + 2) for i in (0, 2)]


def rbg_split(bits: Any, shape: Shape) -> Any:
    """Splits both halves of the key by the default generator."""
    return concatenate([threefry_split(half, shape) for half in _halves(bits)], len(shape))


def rbg_fold_in(bits: Any, data: Any) -> Any:
    """Folds a number into both halves of the key by the default generator."""
    return concatenate([threefry_fold_in(half, data) for half in _halves(bits)], 0)


# Keys are ten blocks apart; the blocks between them are never used.
_APART = 10


def unsafe_rbg_split(bits: Any, shape: Shape) -> Any:
    """Every tenth block of the key."""
    numbers = mul(row_major_index(shape, _uint64), np.uint64(_APART))
    axis = len(shape)
    return concatenate([expand_dims(word, [axis]) for word in _blocks(bits, numbers)], axis)


def unsafe_rbg_fold_in(bits: Any, data: Any) -> Any:
    """The key, xored with a block of the key with the number as its seed."""
    block = _blocks(rbg_seed(data), np.uint64(_APART - 1))
    return bitwise_xor(bits, concatenate([expand_dims(word, [0]) for word in block], 0))


RBG = Generator("rbg", "rbg", (4,), rbg_seed, rbg_split, rbg_fold_in, rbg_random_bits)
UNSAFE_RBG = Generator(
    "unsafe_rbg", "urbg", (4,), rbg_seed, unsafe_rbg_split, unsafe_rbg_fold_in, rbg_random_bits
)
