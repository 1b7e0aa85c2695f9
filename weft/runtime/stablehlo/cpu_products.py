"""Products, quotients and divisions that the compiler for the CPU computes in another order.

It makes `(x * a) * b` of two constants `x * (a * b)`, `x / (y / z)` of quotients `(x * z) / y`, and
`(x * a) * (y * b)` of scalars `(x * y) * (a * b)`. What is computed first may be beyond all
numbers, or next to zero, where the program's own order stays inside: `x / (x / x)` was infinite
from 2e19 on, `(x * 1e-30) * 1e-30` zero. It moves nothing past the integer with the bits of a value
behind a barrier, which costs nothing where barriers are dropped early. Later releases keep them to
the end; there a choice between the value and NaN, where it is NaN, does the same and ends no
fusion.

It multiplies by the inverse of a divisor that is broadcast, since there are fewer inverses than
quotients. That of a number beyond 2**126 is below the smallest normal one and becomes 0, and with
it the quotient: `x / max(x)` is 0 where it should be 1. Both operands are multiplied by a power of
2 before, where the divisor is so large, which changes no other quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from weft.runtime.jaxlib.native import version
from weft.runtime.stablehlo.elementwise import compare, select
from weft.runtime.stablehlo.mlir import dtype_of, ir, op1
from weft.runtime.stablehlo.module_walks import (
    ELEMENTWISE,
    WITH_BUFFER,
    above,
    attributes_of,
    is_constant,
    is_float,
    may_be_anything,
    name_of,
    number_of_constant,
)
from weft.runtime.stablehlo.structural import bitcast_convert, constant

# The first release that keeps barriers until all is fused.
_KEEPS_BARRIERS = (0, 12)
_PRODUCTS = ("multiply", "divide")
_MOVES = ("broadcast_in_dim", "reshape", "transpose")
# The integers with the bits of a dtype of so many bytes.
INTEGERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}


def is_moved(product: ir.Operation) -> bool:
    """Whether the compiler may compute a product or quotient in another order, whose result may
    overflow."""
    if not is_float(product.results[0]):
        return False
    users = [*_users(product.results[0])]
    if name_of(product) == "divide" and any(name_of(user) == "divide" for user in users):
        return True
    constants = [x for x in map(_constant, product.operands) if x is not None]
    if not constants:
        return False
    if not product.results[0].type.shape and any(name_of(user) == "multiply" for user in users):
        return True
    large = not all(_is_moderate(x) for x in constants)
    return large and any(name_of(user) in _PRODUCTS for user in users)


def isolate(product: ir.Operation, value: ir.Value | None = None) -> ir.Value:
    """A product or quotient, or the value that stands for it, that no other is combined with."""
    if value is None:
        value = product.clone().results[0]
    if version < _KEEPS_BARRIERS:
        return prevent_fusion(value)
    kind = dtype_of(value.type.element_type)
    nan = constant(np.array(np.nan).astype(kind), value.type.shape, kind)
    return select(compare(value, value, "EQ"), value, nan)


def prevent_fusion(x: ir.Value) -> ir.Value:
    """A value bitcast to an integer and back, which the library of fused loops does not take, and
    behind a barrier."""
    kind = dtype_of(x.type.element_type)
    bits = np.dtype(np.int8) if kind == np.uint8 else INTEGERS[kind.itemsize]
    between = bitcast_convert(x, bits)
    return bitcast_convert(op1("stablehlo.optimization_barrier", (between,), between.type), kind)


def _users(value: ir.Value) -> Iterator[ir.Operation]:
    """The operations that use a value, directly or after changes of its shape."""
    waiting = [value]
    while waiting:
        for use in waiting.pop().uses:
            if name_of(use.owner) in _MOVES:
                waiting += use.owner.results
            else:
                yield use.owner


def _constant(value: ir.Value) -> ir.Value | None:
    """The constant that a value broadcasts, or None."""
    for x in above(value, _MOVES.__contains__):
        if x is not None and is_constant(x) and name_of(x.owner) == "constant":
            return x
    return None


def _is_moderate(value: ir.Value) -> bool:
    """Whether a product with a constant and two more like it cannot overflow."""
    number = number_of_constant(value.owner)
    if number is None or not math.isfinite(number):
        return False
    if number == 0:
        return True
    exponents = {"f16": 5, "f64": 340}.get(str(value.type.element_type), 42)
    return 2.0**-exponents <= abs(number) <= 2.0**exponents


# The inverses of larger numbers are below the smallest normal one, and become 0.
_LARGE = {"f32": 2.0**125, "bf16": 2.0**125, "f64": 2.0**1021}
_ALSO_KEEP_SIZE = frozenset(
    "maximum minimum clamp remainder atan2 complex real imag reshape transpose".split()
)
# Elementwise operations whose results are no larger than 2**64 in float32.
_SMALL = frozenset("sqrt tanh logistic sine cosine sign is_finite compare".split())
# Those whose results are not much larger than what they are computed from.
_AS_LARGE = frozenset(
    "abs add and maximum minimum negate not or select subtract broadcast_in_dim reshape "
    "transpose".split()
)


def multiplies_by_inverse(division: ir.Operation) -> bool:
    """Whether the compiler may multiply by the inverse of the divisor: it does where the divisor is
    a broadcast, which has fewer inverses to compute."""
    divisor = division.operands[1]
    kind = str(divisor.type.element_type)
    return (
        kind in _LARGE and bool(divisor.type.shape) and _repeats(divisor) and _may_be_large(divisor)
    )


def _repeats(value: ir.Value) -> bool:
    """Whether a value may be a broadcast of a smaller one. It is not if it is computed,
    elementwise, from an argument of its size or from a result with its own buffer."""

    def over(name: str) -> bool:
        return name in ELEMENTWISE or name in _ALSO_KEEP_SIZE

    for x in above(value, over):
        if x is None or may_be_anything(x):
            return True
        made = isinstance(x.owner, ir.Block) or name_of(x.owner) in WITH_BUFFER
        # A choice and a bound may be smaller than what they are applied to.
        if made and prod(x.type.shape) == prod(value.type.shape):
            return False
    return True


def _may_be_large(value: ir.Value) -> bool:
    """Whether the inverse of a value may be subnormal."""
    for x in above(value, _AS_LARGE.__contains__):
        if x is None or isinstance(x.owner, ir.Block):
            return True
        name = name_of(x.owner)
        if name == "constant":
            if is_float(x) and not _is_small(x.owner):
                return True
        elif name not in _AS_LARGE and name not in _SMALL:
            return True
    return False


def _is_small(made: ir.Operation) -> bool:
    """Whether a constant is one number, not larger than 2**64."""
    number = number_of_constant(made)
    return number is not None and abs(number) <= 2.0**64


def divide_scaled(division: ir.Operation) -> ir.Value:
    """The quotient of both operands times a power of 2 that reduces a large divisor."""
    x, divisor = division.operands
    around = divisor.owner
    repeated = not isinstance(around, ir.Block) and name_of(around) == "broadcast_in_dim"
    source = around.operands[0] if repeated else divisor
    dtype, shape = dtype_of(source.type.element_type), source.type.shape
    small, one = constant(2.0**-10, shape, dtype), constant(1.0, shape, dtype)
    limit = constant(_LARGE[str(source.type.element_type)], shape, dtype)
    large = compare(op1("stablehlo.abs", (source,), source.type), limit, "GT")
    scale = select(large, small, one)

    def spread(value: ir.Value) -> ir.Value:
        if not repeated:
            return value
        return op1("stablehlo.broadcast_in_dim", (value,), divisor.type, attributes_of(around))

    factor = spread(scale)
    if is_constant(source):
        # Products with two constants would be joined. This one cannot be known.
        factor = select(compare(x, x, "EQ"), factor, spread(one))
    product = op1("stablehlo.multiply", (x, factor), x.type)
    smaller = op1("stablehlo.multiply", (source, scale), source.type)
    return op1("stablehlo.divide", (product, spread(smaller)), division.results[0].type)
