"""The rectified linear unit, as one operation.

A maximum, which reads its operand once: XLA computes it again in each loop that reads it, where it
would keep the result of a comparison and a choice. The derivative reads the result, which the layer
after it keeps anyway.
"""

from __future__ import annotations

from typing import Any

from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.elementwise.arithmetic import le, scalar
from weft.ops.elementwise.families import repeated
from weft.ops.elementwise.formulas import Term, kernel
from weft.ops.elementwise.selection import select
from weft.runtime import stablehlo

__all__ = ["relu_p"]


def relu_formula(x: Term) -> Term:
    return x.made(stablehlo.maximum(x.ir, x.full(0.0).ir))


def relu_jvp(t: Any, ans: Any, x: Any) -> Any:
    # NaN, which compares false, keeps its tangent.
    return select(le(ans, scalar(0, ans)), repeated(scalar(0, t), type_of(t).shape), t)


relu_p: Primitive = kernel("relu", relu_formula, relu_jvp)
