"""Eight bits in one byte and back: `packbits` and `unpackbits`."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import DTypeError, Fix, WeftValueError
from weft.kinds.arguments import Axis, Integer, operand_kind
from weft.kinds.array_function import array_function
from weft.kinds.kind import Arguments, Kind
from weft.numpy.creation import with_lists
from weft.numpy.sorting import line
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import pad
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.shape import broadcast_in_dim, move_dim

__all__ = ["packbits", "unpackbits"]


def _bit_order(value: Any, call: Arguments) -> Any:
    if value not in ("big", "little"):
        message = "bitorder is 'big' or 'little'"
        fix = Fix("argument", "use bitorder='big' or bitorder='little'", {})
        wanted = "'big' (the first bit counts 128) or 'little' (it counts 1)"
        raise WeftValueError(message, got=f"{call.name}={value!r:.80}", wanted=wanted, fix=fix)
    return value


Bits = Annotated[Any, with_lists(operand_kind)]
BitOrder = Annotated[str, Kind(_bit_order, "'big' or 'little'", ("text", 1))]


def _places(shape: tuple[int, ...], bitorder: str) -> Any:
    """The exponent of each bit along the last dimension; that of the lowest is 0."""
    place = broadcasted_iota(dtypes.uint8, shape, len(shape) - 1)
    return place if bitorder == "little" else np.uint8(7) - place


def _in_length(x: Any, length: int) -> Any:
    """Truncates the last dimension, or pads it with zeros."""
    missing = length - x.shape[-1]
    return pad(x, x.dtype.type(0), [(0, 0, 0)] * (x.ndim - 1) + [(0, missing, 0)])


@array_function
def packbits(a: Bits, axis: Axis = None, bitorder: BitOrder = "big") -> Array:
    """Booleans (or integers, which count as true unless 0), packed eight to a byte, as uint8.

    axis: along which, with zeros added to the last byte; None: of the flattened array. bitorder:
    whether the first bit of a byte is its highest ("big") or lowest ("little"). Raises DTypeError
    for other dtypes.

    >>> jnp.packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    if a.dtype not in dtypes.BITS:
        fix = Fix("convert", "say which elements are set: x != 0")
        fix = dtypes.KEYS_FIX if dtypes.is_extended(a.dtype) else fix
        message, wanted = "it takes booleans or integers", "bool or an integer dtype"
        raise DTypeError(message, got=str(a.type), wanted=wanted, fix=fix)
    a, axis = line(a, axis)
    bits = a if a.dtype == dtypes.bool_ else a != 0
    bits = move_dim(bits, axis, a.ndim - 1, a.shape[axis]).astype(dtypes.uint8)
    count = -(-a.shape[axis] // 8)
    bits = _in_length(bits, 8 * count).reshape(*bits.shape[:-1], count, 8)
    out = (bits << _places(bits.shape, bitorder)).sum(-1, dtype=dtypes.uint8)
    return move_dim(out, a.ndim - 1, axis, count)


@array_function
def unpackbits(
    a: Bits, axis: Axis = None, count: Integer | None = None, bitorder: BitOrder = "big"
) -> Array:
    """The bits of bytes along `axis` (None: of the flattened array), as zeros and ones of uint8.

    count: how many bits to return, with zeros if there are fewer; a negative count leaves out as
    many at the end. bitorder: "big" for the highest bit first, "little" for the lowest. Raises
    DTypeError for other dtypes than uint8.

    >>> jnp.unpackbits(jnp.array([160], dtype=jnp.uint8), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    if a.dtype != dtypes.uint8:
        fix = to_dtype("x", a.dtype, dtypes.uint8)
        raise DTypeError("it takes bytes", got=str(a.type), wanted="uint8", fix=fix)
    a, axis = line(a, axis)
    total = 8 * a.shape[axis]
    length = total if count is None else count if count >= 0 else count + total
    if length < 0:
        message = "count leaves out more bits than there are"
        got = f"count={count} for {total} bits"
        raise WeftValueError(message, got=got, wanted=f"at least {-total}")
    last = move_dim(a, axis, a.ndim - 1, a.shape[axis])
    spread = broadcast_in_dim(last, (*last.shape, 8), tuple(range(a.ndim)))
    masks = np.uint8(1) << _places(spread.shape, bitorder)
    bits = (spread & masks != 0).astype(dtypes.uint8)
    bits = _in_length(bits.reshape(*last.shape[:-1], total), length)
    return move_dim(bits, a.ndim - 1, axis, length)
