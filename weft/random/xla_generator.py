"""XLA's own random numbers: `rng_bit_generator` and `rng_uniform`.

Unlike those of `weft.random`, they may differ between compilers and devices. The first is a
function of its key; the second draws from a state that the runtime holds, so that two calls differ.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.loops import map as loop_map
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, user_value
from weft.errors import DTypeError, Fix, ShapeError
from weft.errors.argument_errors import integers_of, refuse_sharding, unknown_option
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.families import operands
from weft.ops.operand_errors import unfit
from weft.ops.structural.shape import broadcast_in_dim, move_dim
from weft.runtime import stablehlo
from weft.typing import ArrayLike, DTypeLike

__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]

Shape = tuple[int, ...]


class RandomAlgorithm(enum.IntEnum):
    """The algorithm of `rng_bit_generator`; RNG_DEFAULT is the compiler's choice."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


_ALGORITHMS = {
    RandomAlgorithm.RNG_DEFAULT: "DEFAULT",
    RandomAlgorithm.RNG_THREE_FRY: "THREE_FRY",
    RandomAlgorithm.RNG_PHILOX: "PHILOX",
}
_BITS = frozenset(map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64)))


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[int],
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm | int = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """The next key, and random bits of a shape and an unsigned dtype, by XLA's RngBitGenerator.

    `key` is a vector of four uint32 or of two uint64. Mapped, each key draws numbers of its own.
    There are no derivatives. Raises ShapeError and DTypeError for other keys and dtypes, and
    WeftValueError for an unknown algorithm.

    algorithm: a `RandomAlgorithm` or its number; the default one is chosen by the compiler.

    >>> key, bits = lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (2, 3))
    >>> key.shape, bits.shape, bits.dtype
    ((4,), (2, 3), dtype('uint32'))
    """
    refuse_sharding("rng_bit_generator", out_sharding)
    lengths = integers_of(shape, "shape", "rng_bit_generator")
    try:
        chosen = RandomAlgorithm(algorithm)
    except ValueError:
        wanted = "a lax.RandomAlgorithm"
        raise unknown_option("rng_bit_generator", "algorithm", algorithm, wanted) from None
    state, bits = rng_bit_generator_p.bind(
        user_value(key), shape=lengths, dtype=dtypes.requested(dtype), algorithm=_ALGORITHMS[chosen]
    )
    return state, bits


def bit_generator_type(
    key: ArrayType, *, shape: Shape, dtype: Any, algorithm: str
) -> list[ArrayType]:
    if key.dtype not in (dtypes.uint32, dtypes.uint64):
        takes = "keys of uint32 or uint64"
        fix = Fix("convert", "convert the key: key.astype('uint32')")
        raise unfit(DTypeError, "rng_bit_generator", takes, [key], "u32[4]", fix)
    if key.shape != (4 if key.dtype == dtypes.uint32 else 2,):
        takes = "a key of four uint32 or two uint64"
        raise unfit(ShapeError, "rng_bit_generator", takes, [key], "u32[4] or u64[2]")
    if dtype not in _BITS:
        message = f"rng_bit_generator makes unsigned integers, not {dtypes.short_name(dtype)}"
        got, wanted = f"dtype={dtypes.short_name(dtype)}", "u8, u16, u32 or u64"
        fix = Fix("dtype", "pass dtype='uint32' and convert the bits")
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return [result_type((key,), key.shape, key.dtype), result_type((key,), shape, dtype)]


def bit_generator_vmap(
    axis: AxisData, args: Values, dims: Dims, **params: Any
) -> tuple[list[Any], list[int]]:
    keys = move_dim(args[0], dims[0], 0, axis.size)
    outs = loop_map(lambda key: rng_bit_generator_p.bind(key, **params), keys)
    return list(outs), [0, 0]


def bit_generator_lower(
    context: Any, key: Any, *, shape: Shape, dtype: Any, algorithm: str
) -> list[Any]:
    words, wide = context.in_types[0], np.dtype(np.uint64)
    state = key
    if words.dtype != wide:
        state = stablehlo.bitcast_convert(stablehlo.reshape(key, (2, 2)), wide)
    after, bits = stablehlo.rng_bit_generator(state, shape, dtype, algorithm)
    if words.dtype != wide:
        after = stablehlo.reshape(stablehlo.bitcast_convert(after, words.dtype), (4,))
    return [after, bits]


rng_bit_generator_p = primitive(
    Primitive("rng_bit_generator", multiple_results=True),
    type_rule=bit_generator_type,
    vmap=bit_generator_vmap,
    lower=bit_generator_lower,
    flops="none",
)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Random numbers of a shape, from `a` on and below `b`, which have no dimensions and one dtype.

    They come from a state of the runtime: every run gives others. Mapped, `a` and `b` may differ
    by element. There are no derivatives. Raises ShapeError and DTypeError for other bounds.

    a: the least number; b: the number below which all are.

    >>> lax.rng_uniform(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    low, high = operands("rng_uniform", user_value(a), user_value(b))
    return rng_uniform_p.bind(low, high, shape=integers_of(shape, "shape", "rng_uniform"))


def uniform_type(a: ArrayType, b: ArrayType, *, shape: Shape) -> ArrayType:
    types = (a, b)
    if a.dtype != b.dtype or a.dtype not in dtypes.REAL:
        takes, fix = "two real bounds of one dtype", Fix("convert", "convert them to one dtype")
        raise unfit(DTypeError, "rng_uniform", takes, types, "equal real dtypes", fix)
    if a.shape or b.shape:
        takes, fix = "bounds without dimensions", Fix("map", "map it over the bounds: weft.vmap")
        raise unfit(ShapeError, "rng_uniform", takes, types, "shape ()", fix)
    return result_type(types, shape, a.dtype)


def uniform_vmap(axis: AxisData, args: Values, dims: Dims, *, shape: Shape) -> tuple[Any, int]:
    rows = zip(args, dims, strict=True)
    bounds = [x if dim is not None else broadcast_in_dim(x, (axis.size,), ()) for x, dim in rows]
    return loop_map(lambda pair: rng_uniform_p.bind(*pair, shape=shape), tuple(bounds)), 0


def uniform_lower(context: Any, a: Any, b: Any, *, shape: Shape) -> Any:
    return stablehlo.rng_uniform(a, b, shape, context.out_types[0].dtype)


rng_uniform_p = primitive(
    "rng_uniform", type_rule=uniform_type, vmap=uniform_vmap, lower=uniform_lower
)
