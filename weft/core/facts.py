"""What is true of a primitive, beside its rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple


class Work(NamedTuple):
    """Flops and functions of one operation; `known` is False for one that says nothing.

    Args:
        flops: Arithmetic operations on real numbers.
        functions: Functions of numbers, such as exponentials.
        known: Whether the primitive says what it computes.
    """

    flops: float = 0.0
    functions: float = 0.0
    known: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a primitive. Its declaration says so: `primitive` and the families of `ops/`
    take these as keywords.

    Args:
        cheap: It costs little more than reading its operands, or only says where elements come
            from: the linear half of a linearized jaxpr may compute it again. Roots, powers and
            transcendental functions are not cheap.
        again_from_operand: It is a function of one operand that the linear half computes again
            where the operand is kept anyway, or where that takes the place of two of its functions:
            a layer of a network wants a function and its derivative.
        view: It only reshapes, permutes or repeats the elements of its operand.
        linear: Up to a constant it is linear in the operands that can have tangents, all together:
            its jvp rule maps Taylor coefficients of each order to those of the result.
        bilinear: It is linear in each of two operands.
        keeps_zero: It is elementwise, and 0 of 0, unless an exponent is not positive.
        keeps_sums: It keeps zero, and of a sum it is the sum, up to rounding.
        makes_no_nan: Each element of its results is one of an operand, converted or with another
            sign at most, or a part of one.
        flops: "none", or one "addition" or "product" of real numbers for each element of the
            result; or a function from an equation to its `Work` (see `ops/flops.py`); "" if the
            primitive does not say. Additions count subtractions and extrema, products divisions.
        fusible: A compiler computes it within the operation that reads its result, as it does
            elementwise operations.
        moves_nothing: Its result is its operand under another type.
        reads_part: It reads of its first operand only as much as it returns.
        updates: The index of the operand that it writes into the first one, in place.
        wide_cotangents: Its transpose rule holds in any floating dtype, one result at a time or
            through a jaxpr: cotangents of 16-bit results may be given to it in float32.
        product: It is a product of matrices. A compiler fuses little into these, so a function
            that holds some loses little by being called instead of inlined.
        never_called: XLA has it for CPUs in the entry function alone: derivatives of convolutions
            take six times as long in a function that is called.
    """

    cheap: bool = False
    again_from_operand: bool = False
    view: bool = False
    linear: bool = False
    bilinear: bool = False
    keeps_zero: bool = False
    keeps_sums: bool = False
    makes_no_nan: bool = False
    flops: Literal["", "none", "addition", "product"] | Callable[[Any], Work] = ""
    fusible: bool = False
    moves_nothing: bool = False
    reads_part: bool = False
    updates: int | None = None
    wide_cotangents: bool = False
    product: bool = False
    never_called: bool = False
