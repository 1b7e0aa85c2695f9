"""The default generator: the counter-based Threefry-2x32 with 20 rounds.

A block cipher of few operations turns a key and a counter into two random 32-bit words, so every
element of an array is computed from its own position, in any order and on any device, and sharding
the array leaves the numbers as they are. J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel
random numbers: as easy as 1, 2, 3", SC 2011.

The setting `threefry_partitionable=False` asks for another form: keys and bits from one run of
counters that is cut in half, as JAX made them before its release 0.5. The counters 0, 1, … of all
words stand in a row; the first half gives the first words of the blocks that are enciphered, the
second half the second words. So the words of one element depend on how many there are, and an array
cannot be computed part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.core.types import type_of
from weft.errors import Fix
from weft.errors.argument_errors import invalid_type
from weft.ops.elementwise.arithmetic import add, mul
from weft.ops.elementwise.bits import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right_logical,
)
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.families import repeat_scalars
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import expand_dims, reshape, transpose
from weft.random.ciphers import broadcast_word, cipher
from weft.random.generator import Generator, generator_named, register
from weft.runtime import stablehlo

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
        words = slice_in_dim(_split_words(words, width), 0, size)
    return reshape(words, shape)


def _split_words(words: Any, width: int) -> Any:
    """Cuts words into numbers of 8 or 16 bits, the lowest of each word first."""
    dtype = np.dtype(f"uint{width}")
    shifts = [np.uint32(i * width) for i in range(32 // width)]
    parts = [convert_element_type(shift_right_logical(words, by), dtype) for by in shifts]
    (count,) = type_of(words).shape
    rows = concatenate([reshape(part, (1, count)) for part in parts], 0)
    return reshape(transpose(rows, (1, 0)), (count * len(parts),))


# The constant that makes the third word of the key schedule depend on both others, and by how many
# bits the rounds rotate (both from the paper).
_PARITY = 0x1BD11BDA
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry_2x32(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Enciphers a counter with a key by Threefry-2x32 with 20 rounds, elementwise, to two words.

    The `key` and the `counter` are pairs of words, which are uint32 arrays of one shape or without
    dimensions; the results have the shape that the others have. (J. Salmon et al., "Parallel random
    numbers: as easy as 1, 2, 3", SC 2011; its authors' Random123 has the words below.)

    Raises WeftTypeError if key or counter is no pair, DTypeError for words that are not uint32, and
    ShapeError for words of different shapes.

    >>> import numpy as np
    >>> words = threefry_2x32((np.uint32(0), np.uint32(0)), (np.uint32(0), np.uint32(0)))
    >>> [f"{int(word):08x}" for word in words]
    ['6b200159', '99ba4efe']
    """
    for what, pair in (("key", key), ("counter", counter)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            message = f"threefry_2x32: the {what} is a pair of words"
            fix = Fix("pair", f"pass (x[0], x[1]) for an array x of two words as the {what}", {})
            raise invalid_type(
                message, "threefry_2x32", what, pair, "two arrays of uint32", fix=fix
            )
    first, second = threefry2x32_p.bind(*key, *counter)
    return first, second


# Operands of up to so many elements are enciphered by a loop on the CPU.
_SMALL = 1 << 9


def threefry2x32_lower(context: Any, *words: Any) -> list[Any]:
    # Unrolled, the rounds fuse into one pass over the array, where a loop makes five. But keys are
    # made of keys: a chain of unrolled ciphers fuses into whatever reads the last of them, and the
    # CPU's compiler then takes minutes. A loop ends the fusion, and for keys it costs nothing.
    shape = context.out_types[0].shape
    if context.platform == "cpu" and prod(shape) <= _SMALL:
        return threefry2x32_by_loop(context, *words)
    # The key schedule is computed on the words as they came: once, where the key has no dimensions.
    key_types = [type.shape for type in context.in_types[:2]]
    keys = list(words[:2])
    if key_types[0] != key_types[1]:
        keys = repeat_scalars(context, words, shape)[:2]
    key_shape = keys[0].type.shape
    parity = stablehlo.constant(_PARITY, key_shape, _uint32)
    keys.append(stablehlo.xor(parity, stablehlo.xor(keys[0], keys[1])))

    schedule = [broadcast_word(key, shape) for key in keys]
    x, y = (broadcast_word(word, shape) for word in words[2:])
    x, y = stablehlo.add(x, schedule[0]), stablehlo.add(y, schedule[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = stablehlo.add(x, y)
            y = stablehlo.xor(x, _rotate_left(y, rotation, shape))
        number = stablehlo.constant(group + 1, key_shape, _uint32)
        injected = stablehlo.add(keys[(group + 2) % 3], number)
        x = stablehlo.add(x, schedule[(group + 1) % 3])
        y = stablehlo.add(y, broadcast_word(injected, shape))
    return [x, y]


def threefry2x32_by_loop(context: Any, *words: Any) -> list[Any]:
    """The cipher as a loop over its five groups of rounds, which rotates the words of the key
    schedule."""
    shape = context.out_types[0].shape
    first, second, x, y = (broadcast_word(word, shape) for word in words)
    third = stablehlo.xor(stablehlo.constant(_PARITY, shape, _uint32), stablehlo.xor(first, second))
    x, y = stablehlo.add(x, first), stablehlo.add(y, second)
    zero, one, five = (stablehlo.constant(i, (), _uint32) for i in (0, 1, 5))

    def group(state: list[Any]) -> list[Any]:
        i, x, y, a, b, c = state
        # Chosen by index, not carried: compile time grows with the number of carried values.
        odd = stablehlo.compare(stablehlo.and_(i, one), one, "EQ")
        for even_amount, odd_amount in zip(*_ROTATIONS, strict=True):
            amounts = (stablehlo.constant(n, (), _uint32) for n in (odd_amount, even_amount))
            x = stablehlo.add(x, y)
            y = stablehlo.xor(x, _rotate_left_by(y, stablehlo.select(odd, *amounts), shape))
        i = stablehlo.add(i, one)
        number = stablehlo.broadcast_in_dim(i, shape, ())
        x = stablehlo.add(x, b)
        y = stablehlo.add(stablehlo.add(y, c), number)
        return [i, x, y, b, c, a]

    state = [zero, x, y, first, second, third]
    return list(stablehlo.while_(state, lambda s: stablehlo.compare(s[0], five, "LT"), group)[1:3])


def _rotate_left_by(x: Any, bits: Any, shape: Shape) -> Any:
    width = stablehlo.constant(32, (), _uint32)
    left = stablehlo.broadcast_in_dim(bits, shape, ())
    right = stablehlo.broadcast_in_dim(stablehlo.subtract(width, bits), shape, ())
    return stablehlo.or_(stablehlo.shift_left(x, left), stablehlo.shift_right_logical(x, right))


def _rotate_left(x: Any, bits: int, shape: Shape) -> Any:
    left = stablehlo.shift_left(x, stablehlo.constant(bits, shape, _uint32))
    right = stablehlo.shift_right_logical(x, stablehlo.constant(32 - bits, shape, _uint32))
    return stablehlo.or_(left, right)


threefry2x32_p = cipher("threefry2x32", 2, threefry2x32_lower)


def _words(bits: Any) -> tuple[Any, Any]:
    """The two words of a key."""
    return reshape(slice_in_dim(bits, 0, 1), ()), reshape(slice_in_dim(bits, 1, 2), ())


def _pair(first: Any, second: Any) -> Any:
    """Two arrays of words as one with a last dimension of 2."""
    last = [type_of(first).ndim]
    return concatenate([expand_dims(first, last), expand_dims(second, last)], last[0])


def _positions(shape: Shape) -> tuple[Any, Any]:
    """The row-major position of every element, as the high and the low 32 bits of 64."""
    if prod(shape) <= 1 << 32:
        return np.uint32(0), row_major_index(shape, _uint32)
    low, high = split_words(row_major_index(shape, dtypes.uint64))
    return high, low


def split_words(x: Any) -> tuple[Any, Any]:
    """The low and the high 32 bits of 64-bit integers."""
    high = shift_right_logical(x, np.uint64(32))
    return convert_element_type(x, _uint32), convert_element_type(high, _uint32)


def join_words(low: Any, high: Any) -> Any:
    """The 64-bit integers with these halves."""
    wide = shift_left(convert_element_type(high, dtypes.uint64), np.uint64(32))
    return bitwise_or(wide, convert_element_type(low, dtypes.uint64))


def row_major_index(shape: Shape, dtype: Any) -> Any:
    """The row-major position of every element."""
    # One iota per dimension, not one that is reshaped: so each device of a partitioned executable
    # counts its own part.
    total: Any = None
    stride = 1
    for dimension in reversed(range(len(shape))):
        index = broadcasted_iota(dtype, shape, dimension)
        if stride != 1:
            index = mul(index, dtype.type(stride))
        total = index if total is None else add(total, index)
        stride *= shape[dimension]
    return dtype.type(0) if total is None else total


def threefry_seed(seed: Any) -> Any:
    """The key of a seed: its high and its low 32 bits."""
    of = type_of(seed)
    if dtypes.itemsize_bits(of.dtype) == 64:
        high = shift_right_logical(seed, of.dtype.type(32))
        low = bitwise_and(seed, of.dtype.type(0xFFFFFFFF))
        return _pair(convert_element_type(high, _uint32), convert_element_type(low, _uint32))
    return _pair(np.uint32(0), convert_element_type(seed, _uint32))


def threefry_split(bits: Any, shape: Shape) -> Any:
    """Keys, as the cipher of positions."""
    if not config.settings().threefry_partitionable:
        return sequential_split(threefry_2x32, _words(bits), shape)
    return _pair(*threefry_2x32(_words(bits), _positions(shape)))


def threefry_fold_in(bits: Any, data: Any) -> Any:
    """A key, as the cipher of a number."""
    return _pair(*threefry_2x32(_words(bits), (np.uint32(0), data)))


def threefry_random_bits(bits: Any, width: int, shape: Shape) -> Any:
    """Random bits, as the cipher of positions; two words make 64 bits, or are mixed to 32."""
    if not config.settings().threefry_partitionable:
        return sequential_random_bits(threefry_2x32, _words, bits, width, shape)
    high, low = threefry_2x32(_words(bits), _positions(shape))
    if width == 64:
        return join_words(low, high)
    mixed = bitwise_xor(high, low)
    return mixed if width == 32 else convert_element_type(mixed, np.dtype(f"uint{width}"))


THREEFRY = register(
    Generator(
        name="threefry2x32",
        tag="fry",
        key_shape=(2,),
        seed=threefry_seed,
        split=threefry_split,
        fold_in=threefry_fold_in,
        random_bits=threefry_random_bits,
    )
)


def default_generator() -> Generator:
    """The generator of the setting `default_prng_impl`."""
    name = config.settings().default_prng_impl
    return THREEFRY if name == THREEFRY.name else generator_named(name, "default_prng_impl")
