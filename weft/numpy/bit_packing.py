"""Eight bits in one byte and back: `packbits` and `unpackbits`."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, invalid_value, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, WeftValueError
from weft.kinds.checks import along, convert
from weft.kinds.compiled_functions import compiled
from weft.numpy.creation import unlisted
from weft.ops.elementwise.arithmetic import ne
from weft.ops.elementwise.bits import bitwise_and, shift_left
from weft.ops.indexing.creation import broadcasted_iota, full
from weft.ops.indexing.slicing import pad, slice_in_dim
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reduce_sum, reshape
from weft.typing import ArrayLike

__all__ = ["packbits", "unpackbits"]


def _checked(operation: str, a: Any, axis: int | None, bitorder: str) -> tuple[Any, int]:
    """The array and its axis; without one, the flattened array."""
    if bitorder not in ("big", "little"):
        message = f"{operation}: bitorder is 'big' or 'little'"
        fix = Fix("argument", "use bitorder='big' or bitorder='little'", {})
        wanted = "'big' (the first bit counts 128) or 'little' (it counts 1)"
        raise invalid_value(message, operation, "bitorder", bitorder, wanted, fix=fix)
    return along(operation, unlisted(a), axis)


def _weights(shape: tuple[int, ...], bitorder: str) -> Any:
    """The exponent of each bit along the last dimension, from 0 for the lowest."""
    place = broadcasted_iota(dtypes.uint8, shape, len(shape) - 1)
    return place if bitorder == "little" else np.uint8(7) - place


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Array:
    """Booleans (or integers, which count as true unless 0), packed eight to a byte, as uint8.

    axis: along which, with zeros added to the last byte; None: of the flattened array. bitorder:
    whether the first bit of a byte is its highest ("big") or lowest ("little"). Raises DTypeError
    for other dtypes.

    >>> jnp.packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    a, place = _checked("packbits", a, axis, bitorder)
    of = type_of(a)
    if of.dtype not in dtypes.BITS:
        message = "packbits takes booleans or integers"
        fix = Fix("convert", "say which elements are set: x != 0")
        fix = dtypes.KEYS_FIX if dtypes.is_extended(of.dtype) else fix
        raise refusal(DTypeError, message, "packbits", str(of), "bool or an integer dtype", fix)
    return _packed(a, axis=place, bitorder=bitorder)


@compiled
def _packed(a: Any, *, axis: int, bitorder: str) -> Any:
    of = type_of(a)
    bits = a if of.dtype == dtypes.bool_ else ne(a, of.dtype.type(0))
    bits = convert(move_dim(bits, axis, of.ndim - 1, of.shape[axis]), dtypes.uint8)
    count = -(-of.shape[axis] // 8)
    config = [(0, 0, 0)] * (of.ndim - 1) + [(0, 8 * count - of.shape[axis], 0)]
    grouped = pad(bits, np.uint8(0), config)
    shape = (*type_of(grouped).shape[:-1], count, 8)
    grouped = shift_left(reshape(grouped, shape), _weights(shape, bitorder))
    return move_dim(reduce_sum(grouped, (of.ndim,)), of.ndim - 1, axis, count)


def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """The bits of bytes along `axis` (None: of the flattened array), as zeros and ones of uint8.

    count: how many bits to return, with zeros if there are fewer; a negative count leaves out as
    many at the end. bitorder: "big" for the highest bit first, "little" for the lowest. Raises
    DTypeError for other dtypes than uint8.

    >>> jnp.unpackbits(jnp.array([160], dtype=jnp.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    a, place = _checked("unpackbits", a, axis, bitorder)
    of = type_of(a)
    if of.dtype != dtypes.uint8:
        fix = to_dtype("x", of.dtype, dtypes.uint8)
        raise refusal(DTypeError, "unpackbits takes bytes", "unpackbits", str(of), "uint8", fix)
    total = 8 * of.shape[place]
    length = total if count is None else integer_of(count, "unpackbits", "count")
    if length < 0:
        length += total
    if length < 0:
        message = "unpackbits: count leaves out more bits than there are"
        got = f"count={count} for {total} bits"
        raise refusal(WeftValueError, message, "unpackbits", got, f"at least {-total}")
    return _unpacked(a, axis=place, length=length, bitorder=bitorder)


@compiled
def _unpacked(a: Any, *, axis: int, length: int, bitorder: str) -> Any:
    of = type_of(a)
    last = move_dim(a, axis, of.ndim - 1, of.shape[axis])
    shape = (*type_of(last).shape, 8)
    spread = broadcast_in_dim(last, shape, tuple(range(of.ndim)))
    mask = shift_left(full(shape, 1, dtypes.uint8), _weights(shape, bitorder))
    bits = convert(ne(bitwise_and(spread, mask), np.uint8(0)), dtypes.uint8)
    total = 8 * of.shape[axis]
    bits = reshape(bits, (*shape[:-2], total))
    if length <= total:
        bits = slice_in_dim(bits, 0, length, axis=of.ndim - 1)
    else:
        bits = pad(bits, np.uint8(0), [(0, 0, 0)] * (of.ndim - 1) + [(0, length - total, 0)])
    return move_dim(bits, of.ndim - 1, axis, length)
