"""Products and quotients that the compiler computes in another order, in which they overflow.

It makes `(x * a) * b` of two constants `x * (a * b)`, `x / (y / z)` of quotients `(x * z) / y`, and
`(x * a) * (y * b)` of scalars `(x * y) * (a * b)`. What is computed first may be beyond all
numbers, or next to zero, where the program's own order stays inside: `x / (x / x)` was infinite
from 2e19 on, `(x * 1e-30) * 1e-30` zero. It moves nothing past the integer with the bits of a value
behind a barrier, which costs nothing where barriers are dropped early. Later releases keep them to
the end; there a choice between the value and NaN, where it is NaN, does the same and ends no
fusion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.runtime.jaxlib.native import version
from weft.runtime.stablehlo.elementwise import compare, select
from weft.runtime.stablehlo.mlir import dtype_of, ir, op1
from weft.runtime.stablehlo.module_walks import (
    above,
    is_constant,
    is_float,
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


def kept(product: ir.Operation, value: ir.Value | None = None) -> ir.Value:
    """A product or quotient, or the value that stands for it, that no other is combined with."""
    if value is None:
        value = product.clone().results[0]
    if version < _KEEPS_BARRIERS:
        return unfused(value)
    kind = dtype_of(value.type.element_type)
    nan = constant(np.array(np.nan).astype(kind), value.type.shape, kind)
    return select(compare(value, value, "EQ"), value, nan)


def unfused(x: ir.Value) -> ir.Value:
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
