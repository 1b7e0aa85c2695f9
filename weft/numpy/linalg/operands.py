"""Checks of operands that are matrices, and the dtypes in which they are computed.

Integers are computed in the float dtype that has their width. float16 and bfloat16, for which
LAPACK has no routines, are computed in float32, and results are returned in their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.core.types import type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError
from weft.kinds.arguments import NEVER, common
from weft.kinds.checks import check_arrays, computing_dtype, convert, inexact
from weft.kinds.kind import Arguments, Kind
from weft.ops.flags import check_flag
from weft.ops.linalg.matrices import ACCEPTED
from weft.ops.operand_errors import to_dtype
from weft.typing import ArrayLike


def check_matrices(argument: str, a: Any, least: int = 2, square: bool = False) -> None:
    """Raises WeftTypeError, DTypeError or ShapeError unless an argument is an array of matrices.

    square: whether they have to be square, for the fix.
    """
    check_arrays(a, argument=argument)
    of = type_of(a)
    if of.dtype not in dtypes.ANY:
        message, got = f"does not take {dtypes.short_name(of.dtype)}", f"{argument}: {of}"
        fix = to_dtype(argument, of.dtype, dtypes.float32)
        raise DTypeError(message, got=got, wanted="numbers or booleans", fix=fix)
    if of.ndim < least:
        what = "matrices" if least == 2 else "vectors or matrices"
        more = "[:, None]" if of.ndim else f".reshape({', '.join('1' * least)})"
        got = f"{argument}: {of} with {of.ndim} dimensions"
        text = f"add dimensions: {argument}{more}"
        if square and of.ndim:
            text = f"make a matrix of it, such as the diagonal one: weft.numpy.diag({argument})"
        fix, wanted = Fix("expand_dims", text), f"{least} dimensions or more"
        raise ShapeError(f"takes {what}", got=got, wanted=wanted, fix=fix)


_INSTEAD = "for other matrices there are pinv, lstsq, svd and qr"


def check_square(argument: str, a: Any, instead: str = _INSTEAD) -> None:
    """Raises as `check_matrices`, and ShapeError for matrices that are not square.

    instead: what the error advises.
    """
    check_matrices(argument, a, square=True)
    of = type_of(a)
    if of.shape[-1] != of.shape[-2]:
        got, wanted = f"{argument}: {of}", "last two dimensions of equal size"
        fix = Fix("square", instead, {})
        raise ShapeError("takes square matrices", got=got, wanted=wanted, fix=fix)


def _hermitian(value: Any, call: Arguments) -> bool:
    check_flag(value, call.name)
    if value and call.type.ndim > 1:
        check_square(*next(iter(call.items())))
    return bool(value)


def matrix_kind(
    means: str,
    least: int,
    square: bool = False,
    together: Callable[[str, list[Any]], Any] | None = None,
    instead: str = _INSTEAD,
) -> Kind:
    """The kind of an array of `least` dimensions or more; instead: the advice for matrices that are
    not square."""

    def take(value: Any, call: Arguments) -> Any:
        if square:
            check_square(call.name, value, instead)
        else:
            check_matrices(call.name, value, least)
        return user_value(value) if isinstance(value, np.generic) else value

    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    wrong = (
        [1, 2],
        "text",
        rows.astype(dtypes.parse("float8_e4m3fn")),
        *[np.float32(2)] * (least > 0),
        *[rows] * square,
    )
    right = rows[:, :3] if square else rows
    return Kind(take, means, wrong, right, static=False, plain=NEVER, together=together)


_MATRICES = "matrices, shape (..., m, n)"
_SQUARE = "square matrices, shape (..., n, n)"
_VECTORS = "vectors or matrices"
Numbers = Annotated[ArrayLike, matrix_kind("numbers", 0)]
Vector = Annotated[ArrayLike, matrix_kind(_VECTORS, 1)]
Matrix = Annotated[ArrayLike, matrix_kind(_MATRICES, 2)]
SquareMatrix = Annotated[ArrayLike, matrix_kind(_SQUARE, 2, square=True)]
# Those of one call get the dtype that they promote to.
PromotedNumbers = Annotated[ArrayLike, matrix_kind("numbers", 0, together=common)]
PromotedVector = Annotated[ArrayLike, matrix_kind(_VECTORS, 1, together=common)]
PromotedMatrix = Annotated[ArrayLike, matrix_kind(_MATRICES, 2, together=common)]
PromotedSquare = Annotated[ArrayLike, matrix_kind(_SQUARE, 2, square=True, together=common)]
# Whether the first operand equals its adjoint: then it has to be square.
Hermitian = Annotated[
    bool, Kind(_hermitian, "whether the matrices equal their adjoints", ("no", 2), plain=NEVER)
]


def widen_operand(x: Any) -> Any:
    """Converts an operand to the dtype of the computation."""
    of = type_of(x)
    return x if of.dtype in ACCEPTED and not of.weak_type else convert(x, computing_dtype(of.dtype))


def restore_dtype(x: Any, operand_dtype: Any) -> Any:
    """Converts a real result to the real dtype of the operands; a complex one stays as it is."""
    dtype = type_of(x).dtype
    if dtype == operand_dtype or dtype in dtypes.COMPLEX:
        return x
    return convert(x, dtypes.to_real(inexact(operand_dtype)))


def is_complex(x: Any) -> bool:
    """Whether the elements are complex numbers."""
    return type_of(x).dtype in dtypes.COMPLEX
