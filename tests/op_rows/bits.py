"""Rows of `ops.bits`: operations on the bits of integers and on booleans."""

from __future__ import annotations

import numpy as np

from op_table import Op, any_bits, integers
from weft import dtypes
from weft.ops.elementwise import bits


def width(x):
    return 8 * x.dtype.itemsize


def unsigned(x):
    return x.view(f"u{x.dtype.itemsize}")


def shifted(shift):
    """A shift as XLA does it: by the width or more (also negative amounts), everything is out."""

    def reference(x, y):
        out = (y < 0) | (y >= width(x))
        return shift(x, np.where(out, 0, y).astype(y.dtype), out)

    return reference


@shifted
def left(x, y, out):
    return np.where(out, 0, np.left_shift(x, y)).astype(x.dtype)


@shifted
def right_arithmetic(x, y, out):
    signed = x.view(f"i{x.dtype.itemsize}")
    moved = np.right_shift(signed, y.astype(signed.dtype))
    moved = np.where(out, np.where(signed < 0, -1, 0), moved)
    return moved.astype(signed.dtype).view(x.dtype)


@shifted
def right_logical(x, y, out):
    return np.where(out, 0, np.right_shift(unsigned(x), unsigned(y))).astype(x.dtype)


def leading_zeros(x):
    count = np.vectorize(lambda v: width(x) - int(v).bit_length(), otypes=[int])
    return count(unsigned(x)).astype(x.dtype)


def upper_half(x, y):
    product = x.astype(object) * y.astype(object)
    return np.asarray(product >> width(x)).astype(x.dtype)


AMOUNT = integers(0, 9)
ROWS = [
    Op(bits.bitwise_not, np.invert, dtypes.BITS, draw=any_bits),
    Op(bits.bitwise_and, np.bitwise_and, dtypes.BITS, arity=2, draw=any_bits),
    Op(bits.bitwise_or, np.bitwise_or, dtypes.BITS, arity=2, draw=any_bits),
    Op(bits.bitwise_xor, np.bitwise_xor, dtypes.BITS, arity=2, draw=any_bits),
    Op(bits.mulhi, upper_half, dtypes.INTEGER, arity=2, draw=any_bits),
    Op(bits.population_count, lambda x: np.bitwise_count(unsigned(x)).astype(x.dtype),
       dtypes.INTEGER, draw=any_bits),
    Op(bits.clz, leading_zeros, dtypes.INTEGER, draw=any_bits),
    Op(bits.shift_left, left, dtypes.INTEGER, arity=2, draw=(any_bits, AMOUNT)),
    Op(bits.shift_right_arithmetic, right_arithmetic, dtypes.INTEGER, arity=2,
       draw=(any_bits, AMOUNT)),
    Op(bits.shift_right_logical, right_logical, dtypes.INTEGER, arity=2, draw=(any_bits, AMOUNT)),
    Op(bits.shift_left, left, dtypes.SIGNED, name="shift_left out of range", arity=2,
       draw=(any_bits, integers(-70, 70)), refuses=False),
]  # fmt: skip
