"""Counts of arithmetic and of functions of numbers: `flops=` in the declarations of primitives.

Flops are additions, subtractions, multiplications, divisions and extrema of real numbers: a product
of matrices takes two for each product of two elements, one of complex numbers eight. Functions such
as `exp` are counted apart, one for each element: how much one costs is the compiler's business.
Integers, comparisons, selections, conversions and moves are no flops. Counts of factorizations are
their leading terms (Golub and Van Loan, Matrix Computations, 4th edition, sections 3.2, 4.2, 5.2,
7.5, 8.3 and 8.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod

from weft import dtypes
from weft.core.jaxpr import Equation
from weft.core.primitive import Work
from weft.core.types import ArrayType

CountsWork = Callable[[Equation], Work]


def is_inexact(of: ArrayType) -> bool:
    """Whether arithmetic on a type is counted."""
    return of.dtype in dtypes.INEXACT or of.dtype in dtypes.NARROW_FLOATING


def real_flops(of: ArrayType, additions: float, products: float = 0.0) -> float:
    """Flops on real numbers: of complex ones an addition takes two, a product six."""
    if not is_inexact(of):
        return 0.0
    return 2 * additions + 6 * products if of.dtype.kind == "c" else additions + products


def sums_of_products(of: ArrayType, count: float) -> Work:
    """So many products of elements of a type, of which each is added to a sum."""
    return Work(real_flops(of, count, count))


def of_each(flops: float, functions: float = 0.0) -> CountsWork:
    """So many flops and functions for each element of the result."""

    def work(eqn: Equation) -> Work:
        of = eqn.outputs[0].type
        return Work(real_flops(of, flops * of.size), functions * of.size)

    return work


def of_reduction(product: bool = False) -> CountsWork:
    """One addition, or product, for each element but those of the result."""

    def work(eqn: Equation) -> Work:
        out = eqn.outputs[0].type
        count = max(0.0, float(eqn.inputs[0].type.size - out.size))
        return Work(real_flops(out, 0.0 if product else count, count if product else 0.0))

    return work


def of_factorization(flops: Callable[[float, float], float]) -> CountsWork:
    """The flops of each matrix by its longer and its shorter side."""
    return lambda eqn: of_matrices(eqn, flops)


def of_matrices(eqn: Equation, flops: Callable[[float, float], float]) -> Work:
    """The flops of all matrices of the first operand, half of them additions."""
    of = eqn.inputs[0].type
    m, n = of.shape[-2:]
    count = float(prod(of.shape[:-2])) * flops(float(max(m, n)), float(min(m, n)))
    return sums_of_products(of, count / 2)


def window_pairs(
    length: int, window: int, outputs: int, stride: int, low: int, dilation: int, spread: int
) -> int:
    """The number of (output, window position) pairs along a dimension that meet an element of the
    operand, not padding or a hole of its dilation."""
    out = 0
    for place in range(window):
        # Output i reads position i * stride + place * spread - low of the dilated operand.
        offset = place * spread - low
        end = (length - 1) * dilation
        first = max(0, math.ceil(-offset / stride))
        last = min(outputs - 1, (end - offset) // stride)
        if dilation == 1:
            out += max(0, last - first + 1)
            continue
        step = dilation // math.gcd(stride, dilation)
        start = next(
            (i for i in range(first, first + step) if (i * stride + offset) % dilation == 0), None
        )
        if start is not None and start <= last:
            out += (last - start) // step + 1
    return out
