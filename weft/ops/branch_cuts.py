"""Lowerings of functions of complex numbers that tell apart the two sides of a branch cut.

On a cut the sign of a zero says from which side it is reached (Kahan, 1987; C99, annex G). The
compiler's expansions lose that sign, or take it wrongly at infinity; but where they are given parts
that are not negative they are right, and the functions here are symmetric: conj(f(z)) is f(conj(z))
for all of them, and f(-z) is -f(z) for the odd ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.runtime import stablehlo

__all__ = ["signed"]

Emit = Callable[[Any], Any]


def signed(emit: Emit, parts: str) -> Callable[..., Any]:
    """The lowering of a function of one operand that keeps the signs of some parts.

    `parts` is "imag" for a function with a cut on the real axis, "real" for an odd one with a cut
    on the imaginary axis, "both" for an odd one that keeps to its quadrant. What is emitted for
    complex numbers is the function of the parts' sizes; the result's same parts then take the
    operand's signs.
    """

    def lower(context: Any, z: Any) -> Any:
        if context.out_types[0].dtype not in dtypes.COMPLEX:
            return emit(z)
        operand = [stablehlo.real(z), stablehlo.imag(z)]
        sizes = [
            stablehlo.abs_(x) if parts in (name, "both") else x
            for name, x in zip(("real", "imag"), operand, strict=True)
        ]
        value = emit(stablehlo.complex_(*sizes))
        found = [stablehlo.real(value), stablehlo.imag(value)]
        if parts == "both":  # of parts that are not negative neither is a result's, but for a zero
            found = [stablehlo.abs_(x) for x in found]
        return stablehlo.complex_(
            *(
                _negated_where(_is_negative(x), y) if parts in (name, "both") else y
                for name, x, y in zip(("real", "imag"), operand, found, strict=True)
            )
        )

    return lower


def _negated_where(pred: Any, x: Any) -> Any:
    return stablehlo.select(pred, stablehlo.negate(x), x)


def _is_negative(x: Any) -> Any:
    """Whether the sign bit is set: of -0 too."""
    dtype = stablehlo.dtype_of(x.type.element_type)
    whole = dtypes.int32 if dtype == dtypes.float32 else dtypes.int64
    zero = stablehlo.full(0, tuple(x.type.shape), whole)
    return stablehlo.compare(stablehlo.bitcast_convert(x, whole), zero, "LT")
