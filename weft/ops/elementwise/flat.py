"""Square root and logarithm of sums that may be empty: their derivative at 0 is 0, not infinite.

A norm has no slope at 0, and 0 is the least subgradient; the logarithm of a sum of which nothing
counts stays minus infinity. As one operation each: a choice of a harmless operand and a choice of
the result would stand in the program, and twice as many in its derivative.
"""

from __future__ import annotations

import math
from typing import Any

from weft import dtypes
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import div, eq, log, mul, scalar
from weft.ops.elementwise.families import repeated
from weft.ops.elementwise.formulas import Term, kernel
from weft.ops.elementwise.selection import select


def _or_infinity(x: Any) -> Any:
    """x, or infinity where it is 0, so that a quotient and its derivatives are 0."""
    return _select(eq(x, scalar(0, x)), math.inf, x)


def _select(pred: Any, value: float, other: Any) -> Any:
    return select(pred, repeated(scalar(value, other), type_of(other).shape), other)


def flat_sqrt_jvp(t: Any, ans: Any, x: Any) -> Any:
    return div(mul(t, scalar(0.5, t)), _or_infinity(ans))


flat_sqrt_p: Primitive = kernel("flat_sqrt", Term.sqrt, flat_sqrt_jvp)


def flat_log_jvp(t: Any, ans: Any, x: Any) -> Any:
    return div(t, _or_infinity(x))


flat_log_p: Primitive = kernel("flat_log", Term.log, flat_log_jvp)


def flat_log(x: Any) -> Any:
    """The logarithm, with derivative 0 at 0."""
    if type_of(x).dtype not in dtypes.COMPLEX:
        return flat_log_p.bind(x)
    nothing = eq(x, scalar(0, x))
    return _select(nothing, -math.inf, log(_select(nothing, 1.0, x)))
