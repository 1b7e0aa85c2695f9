"""Divisions by arrays that repeat elements, of which the compiler for the CPU takes the inverse.

It multiplies by the inverse of a divisor that is broadcast, since there are fewer inverses than
quotients. That of a number beyond 2**126 is below the smallest normal one and becomes 0, and with
it the quotient: `x / max(x)` is 0 where it should be 1. Both operands are multiplied by a power of
2 before, where the divisor is so large, which changes no other quotient.
"""

from __future__ import annotations

from math import prod

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
from weft.runtime.stablehlo.structural import constant

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
            if is_float(x) and not _is_moderate(x.owner):
                return True
        elif name not in _AS_LARGE and name not in _SMALL:
            return True
    return False


def _is_moderate(made: ir.Operation) -> bool:
    """Whether a constant is one number, not larger than 2**64."""
    number = number_of_constant(made)
    return number is not None and abs(number) <= 2.0**64


def scaled(division: ir.Operation) -> ir.Value:
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
