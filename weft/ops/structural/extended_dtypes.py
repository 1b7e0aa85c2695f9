"""Extended dtypes: arrays of random keys, which are stored as rows of unsigned integers.

A key array of shape S is stored as an array of shape S + key_shape. `key_bits` and `wrap_key_bits`
pass from one view to the other and cost nothing. Operations that only move elements (reshape,
slice, gather, select …) work on the bits of keys, so their primitives never see an extended dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.shards import stored_type as physical_type
from weft.core.rules import AxisData
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, ShapeError
from weft.ops.declare import primitive
from weft.ops.operand_errors import unfit

__all__ = [
    "KeyDType", "clone_key", "is_key", "key_bits", "physical_type", "through_bits", "use_key",
    "wrap_key_bits",
]  # fmt: skip


class KeyDType:
    """The dtype of the keys of one random generator: equal to itself only.

    `implementation` draws bits (see `weft.random.generator`); `key_shape` is the shape of one
    key's unsigned 32-bit integers.

    Args:
        name: The short name of the generator; the dtype is called `key<name>`.
        key_shape: The shape of one key's unsigned 32-bit integers.
        implementation: The `Generator` that draws bits from such keys.
    """

    __slots__ = ("implementation", "itemsize", "key_shape", "name", "short_name")

    kind = "K"
    type = dtypes.prng_key

    def __init__(self, name: str, key_shape: tuple[int, ...], implementation: Any) -> None:
        self.name = f"key<{name}>"
        self.short_name = self.name
        self.key_shape = key_shape
        self.itemsize = 4 * prod(key_shape)
        self.implementation = implementation

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as its generator, which is found by name: a dtype is equal to itself only.
        return _dtype_of, (self.implementation,)


def _dtype_of(implementation: Any) -> KeyDType:
    dtype: KeyDType = implementation.dtype
    return dtype


def is_key(x: Any) -> bool:
    """Returns whether a value is an array of random keys.

    Args:
        x: Any value.
    """
    return type(type_of(x).dtype) is KeyDType


def key_bits(keys: Any) -> Any:
    """Returns the unsigned 32-bit integers of a key array, of shape keys.shape + key_shape.

    Args:
        keys: An array of random keys.
    """
    return key_bits_p.bind(keys)


def wrap_key_bits(bits: Any, dtype: KeyDType) -> Any:
    """Returns the key array with the given bits.

    Args:
        bits: An array of uint32, whose last dimensions are `key_shape`.
        dtype: The dtype of the keys.
    """
    return wrap_key_bits_p.bind(bits, dtype=dtype)


def through_bits(keys: Any, function: Callable[[Any], Any]) -> Any:
    """Applies a function that moves whole keys to their bits, and makes keys of its result.

    Args:
        keys: An array of random keys.
        function: From the bits to bits; the last dimensions, `key_shape`, stay as they are.
    """
    return wrap_key_bits(function(key_bits(keys)), type_of(keys).dtype)


def key_bits_type(keys: ArrayType) -> ArrayType:
    if not isinstance(keys.dtype, KeyDType):
        wanted = "an array made by weft.random.key or weft.random.split"
        raise unfit(DTypeError, "key_bits", "an array of random keys", (keys,), wanted)
    return physical_type(keys)


def wrap_key_bits_type(bits: ArrayType, *, dtype: KeyDType) -> ArrayType:
    n = len(dtype.key_shape)
    if bits.dtype != np.uint32 or bits.ndim < n or bits.shape[bits.ndim - n :] != dtype.key_shape:
        message = f"{bits} does not hold the bits of {dtype.name} keys"
        wanted = f"u32[..., {', '.join(map(str, dtype.key_shape))}]"
        raise ShapeError(message, got=str(bits), wanted=wanted)
    return bits.update(shape=bits.shape[: bits.ndim - n], dtype=dtype, weak_type=False)


def same_dim_vmap(bind: Callable[..., Any]) -> Callable[..., Any]:
    """The vmap rule of a view: a mapped dimension keeps its index."""

    def vmap(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        return bind(*args, **params), dims[0]

    return vmap


def view_lower(context: Any, x: Any, **params: Any) -> Any:
    return x


key_bits_p = primitive(
    "key_bits",
    type_rule=key_bits_type,
    vmap=same_dim_vmap(key_bits),
    lower=view_lower,
    flops="none",
)
wrap_key_bits_p = primitive(
    "wrap_key_bits",
    type_rule=wrap_key_bits_type,
    vmap=same_dim_vmap(wrap_key_bits),
    lower=view_lower,
    flops="none",
)


# ---- marks for `debug_key_reuse` ---------------------------------------------------------------


def use_key(key: Any, operation: str) -> Any:
    """Returns the key, marked as used by an operation."""
    return use_key_p.bind(key, operation=operation)


def clone_key(key: Any) -> Any:
    """Returns the key as a new one, which may be used once more."""
    return clone_key_p.bind(key)


use_key_p = primitive(
    "use_key",
    type_rule=lambda key, operation: key,
    vmap=same_dim_vmap(use_key),
    lower=view_lower,
    flops="none",
)
clone_key_p = primitive(
    "clone_key",
    type_rule=lambda key: key,
    vmap=same_dim_vmap(clone_key),
    lower=view_lower,
    flops="none",
)
