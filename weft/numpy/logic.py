"""Elementwise logic, bits and divisors of integers, also behind an array's operators."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.kinds.arguments import Prepared
from weft.kinds.array_function import array_function
from weft.numpy.elementwise import constant_like, together
from weft.numpy.promotion import BinaryUfunc, UnaryUfunc, binary_ufunc, unary_ufunc
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import bits, divisors
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select

__all__ = [
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd", "invert", "lcm", "left_shift",
    "logical_and", "logical_not", "logical_or", "logical_xor", "right_shift",
]  # fmt: skip

BOOLEAN, INTEGER, NUMERIC = dtypes.BOOLEAN, dtypes.INTEGER, dtypes.NUMERIC
SIGNED, UNSIGNED, BITS = dtypes.SIGNED, dtypes.UNSIGNED, dtypes.BITS


@array_function
def _both_hold(x: Prepared, y: Prepared) -> Any:
    return (x != 0) & (y != 0)


@array_function
def _either_holds(x: Prepared, y: Prepared) -> Any:
    return (x != 0) | (y != 0)


@array_function
def _one_holds(x: Prepared, y: Prepared) -> Any:
    return (x != 0) ^ (y != 0)


@array_function
def _is_zero(x: Prepared) -> Any:
    return x == 0


logical_and: BinaryUfunc = binary_ufunc(
    "logical_and",
    {BOOLEAN: bits.and_p.bind, NUMERIC: _both_hold},
    """Whether x1 and x2 both hold (numbers: are not zero), elementwise.

    >>> jnp.logical_and(jnp.array([True, False]), True)
    Array([ True, False], dtype=bool)
    """,
    identity=True,
    reorderable=True,
)
logical_or: BinaryUfunc = binary_ufunc(
    "logical_or",
    {BOOLEAN: bits.or_p.bind, NUMERIC: _either_holds},
    """Whether x1 or x2 holds (numbers: is not zero), elementwise.

    >>> jnp.logical_or(jnp.array([True, False]), jnp.array([0, 0]))
    Array([ True, False], dtype=bool)
    """,
    identity=False,
    reorderable=True,
)
logical_xor: BinaryUfunc = binary_ufunc(
    "logical_xor",
    {BOOLEAN: bits.xor_p.bind, NUMERIC: _one_holds},
    """Whether exactly one of x1 and x2 holds (numbers: is not zero), elementwise.

    >>> jnp.logical_xor(jnp.array([True, False]), True)
    Array([False,  True], dtype=bool)
    """,
    identity=False,
    reorderable=True,
)
logical_not: UnaryUfunc = unary_ufunc(
    "logical_not",
    {BOOLEAN: bits.not_p.bind, NUMERIC: _is_zero},
    """Whether x does not hold (numbers: is zero), elementwise.

    >>> jnp.logical_not(jnp.array([True, False]))
    Array([False,  True], dtype=bool)
    """,
)


bitwise_and: BinaryUfunc = binary_ufunc(
    "bitwise_and",
    {BITS: bits.and_p.bind},
    """The bits that both x1 and x2 have, elementwise, of integers and booleans.

    >>> jnp.bitwise_and(jnp.array([6, 5]), 3)
    Array([2, 1], dtype=int32)
    """,
    identity=-1,
    reorderable=True,
)
bitwise_or: BinaryUfunc = binary_ufunc(
    "bitwise_or",
    {BITS: bits.or_p.bind},
    """The bits that x1 or x2 has, elementwise, of integers and booleans.

    >>> jnp.bitwise_or(jnp.array([4, 5]), 2)
    Array([6, 7], dtype=int32)
    """,
    identity=0,
    reorderable=True,
)
bitwise_xor: BinaryUfunc = binary_ufunc(
    "bitwise_xor",
    {BITS: bits.xor_p.bind},
    """The bits that exactly one of x1 and x2 has, elementwise, of integers and booleans.

    >>> jnp.bitwise_xor(jnp.array([6, 5]), 3)
    Array([5, 6], dtype=int32)
    """,
    identity=0,
    reorderable=True,
)
invert: UnaryUfunc = unary_ufunc(
    "invert",
    {BITS: bits.not_p.bind},
    """The complement of all bits, elementwise, of integers and booleans.

    >>> jnp.invert(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """,
)
bitwise_not: UnaryUfunc = invert
bitwise_invert: UnaryUfunc = invert
left_shift: BinaryUfunc = binary_ufunc(
    "left_shift",
    {INTEGER: bits.shift_left_p.bind},
    """The bits of x1 moved up by x2 places, elementwise, of integers.

    >>> jnp.left_shift(jnp.array([1, 3]), 2)
    Array([ 4, 12], dtype=int32)
    """,
)
bitwise_left_shift: BinaryUfunc = left_shift
right_shift: BinaryUfunc = binary_ufunc(
    "right_shift",
    {SIGNED: bits.shift_right_arithmetic_p.bind, UNSIGNED: bits.shift_right_logical_p.bind},
    """The bits of x1 moved down by x2 places, elementwise, of integers; signed ones keep their
    sign.

    >>> jnp.right_shift(jnp.array([12, -12]), 2)
    Array([ 3, -3], dtype=int32)
    """,
)
bitwise_right_shift: BinaryUfunc = right_shift


@array_function
def _bitwise_count(x: Prepared) -> Any:
    if x.dtype in BOOLEAN:
        return convert_element_type(x, dtypes.uint8)
    size = abs(x) if x.dtype in SIGNED else x
    return convert_element_type(bits.population_count(size), dtypes.uint8)


bitwise_count: UnaryUfunc = unary_ufunc(
    "bitwise_count",
    {BITS: _bitwise_count},
    """The number of bits set in the absolute value, elementwise, as uint8; 1 for True.

    >>> jnp.bitwise_count(jnp.array([7, -8]))
    Array([3, 1], dtype=uint8)
    """,
)


@array_function
def _lcm(x: Prepared, y: Prepared) -> Any:
    if x.dtype in SIGNED:
        x, y = abs(x), abs(y)
    x, y = together(x, y)
    common = divisors.gcd(x, y)
    return x * lax.div(y, select(common == 0, constant_like(1, x), common))


gcd: BinaryUfunc = binary_ufunc(
    "gcd",
    {INTEGER: divisors.gcd_p.bind},
    """The greatest common divisor of x1 and x2, elementwise, of integers; 0 where both are 0.

    >>> jnp.gcd(jnp.array([12, 7]), 18)
    Array([6, 1], dtype=int32)
    """,
    identity=0,
    reorderable=True,
)
lcm: BinaryUfunc = binary_ufunc(
    "lcm",
    {INTEGER: _lcm},
    """The least common multiple of x1 and x2, elementwise, of integers; 0 where one is 0.

    >>> jnp.lcm(jnp.array([4, 6]), 10)
    Array([20, 30], dtype=int32)
    """,
    reorderable=True,
)
