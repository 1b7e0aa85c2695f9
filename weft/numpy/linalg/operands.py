"""Checks of operands that are matrices, and the dtypes in which they are computed.

Integers are computed in the float dtype that has their width. float16 and bfloat16, for which
LAPACK has no routines, are computed in float32, and results are returned in their dtype.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.argument_errors import refusal
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.kinds.checks import check_arrays, computing_dtype, convert, inexact
from weft.ops.operand_errors import to_dtype

__all__ = ["check_matrices", "check_square", "is_complex", "returned", "widened"]


def check_matrices(
    operation: str, argument: str, a: Any, least: int = 2, square: bool = False
) -> None:
    """Raises WeftTypeError, DTypeError or ShapeError unless an argument is an array of matrices.

    square: whether they have to be square, for the fix.
    """
    check_arrays(operation, a, argument=argument)
    of = type_of(a)
    if of.dtype not in dtypes.ANY:
        message = f"{operation} does not take {dtypes.short_name(of.dtype)}"
        got = f"{argument}: {of}"
        fix = to_dtype(argument, of.dtype, dtypes.float32)
        raise refusal(DTypeError, message, operation, got, "numbers or booleans", fix)
    if of.ndim < least:
        what = "matrices" if least == 2 else "vectors or matrices"
        more = "[:, None]" if of.ndim else f".reshape({', '.join('1' * least)})"
        message = f"{operation} takes {what}"
        got = f"{argument}: {of} with {of.ndim} dimensions"
        text = f"add dimensions: {argument}{more}"
        if square and of.ndim:
            text = f"make a matrix of it, such as the diagonal one: weft.numpy.diag({argument})"
        fix = Fix("expand_dims", text)
        raise refusal(ShapeError, message, operation, got, f"{least} dimensions or more", fix)


def check_square(
    operation: str,
    argument: str,
    a: Any,
    instead: str = "for other matrices there are pinv, lstsq, svd and qr",
) -> None:
    """Raises as `check_matrices`, and ShapeError for matrices that are not square.

    instead: what the error advises.
    """
    check_matrices(operation, argument, a, square=True)
    of = type_of(a)
    if of.shape[-1] != of.shape[-2]:
        message = f"{operation} takes square matrices"
        got = f"{argument}: {of}"
        wanted = "last two dimensions of equal size"
        raise refusal(ShapeError, message, operation, got, wanted, Fix("square", instead, {}))


def widened(x: Any) -> Any:
    """The operand in the dtype in which it is computed."""
    return convert(x, computing_dtype(type_of(x).dtype))


def returned(x: Any, given: Any) -> Any:
    """A result in the dtype that belongs to operands of the dtype `given`; real if it is real."""
    wanted, found = inexact(given), type_of(x).dtype
    if found in dtypes.COMPLEX:
        return x
    return convert(x, dtypes.to_real(wanted) if wanted in dtypes.COMPLEX else wanted)


def is_complex(x: Any) -> bool:
    """Whether the elements are complex numbers."""
    return type_of(x).dtype in dtypes.COMPLEX
