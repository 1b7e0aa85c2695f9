"""The Cholesky factorization of Hermitian positive definite matrices."""

from __future__ import annotations

from typing import Any

from weft.arrays.array import Array
from weft.core.rules import Values
from weft.core.types import ArrayType, type_of
from weft.errors import api_boundary
from weft.ops.declare import result_type
from weft.ops.elementwise.arithmetic import add, mul, scalar
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.elementary import is_complex
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.linalg.matrices import (
    INFO,
    adjoint,
    check_matrix,
    kept_triangle,
    lapack_call,
    matmul,
    matrix_primitive,
    nan_where_failed,
    on_diagonal,
    triangle,
)
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.runtime import stablehlo


@api_boundary
def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with positive diagonal for which L times its adjoint is x.

    x: shape (..., n, n), float32, float64, complex64 or complex128, Hermitian and positive
    definite; the result has its type. A matrix that is not positive definite gives NaN. With
    `symmetrize_input` x is replaced by (x + its adjoint) / 2, so that derivatives are Hermitian;
    without it, only the lower triangle is read.

    Raises DTypeError and ShapeError. By LAPACK's potrf; the derivative is that of I. Murray,
    Differentiation of the Cholesky decomposition (2016), https://arxiv.org/abs/1602.07527.

    >>> import numpy as np
    >>> print(cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])))
    [[2. 0.]
     [1. 2.]]
    """
    check_flags("cholesky", symmetrize_input=symmetrize_input)
    check_matrix(type_of(x), square=True)
    return cholesky_p.bind(symmetrize(x) if symmetrize_input else x)


def symmetrize(x: Any) -> Any:
    """(x + its adjoint) / 2."""
    return mul(add(x, adjoint(x)), scalar(0.5, x))


def cholesky_type(x: ArrayType) -> ArrayType:
    check_matrix(x, square=True)
    return result_type((x,), x.shape, x.dtype)


def cholesky_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    """dL = L phi(inverse(L) dx inverse(L)^H); phi halves the diagonal of the lower triangle."""
    (x,), (dx,) = primals, tangents
    factor = cholesky_p.bind(x)
    inner = triangular_solve(
        factor, dx, left_side=False, lower=True, transpose_a=True, conjugate_a=True
    )
    inner = triangular_solve(factor, inner, left_side=True, lower=True)
    return factor, matmul(factor, halved_triangle(inner))


def halved_triangle(x: Any) -> Any:
    """The lower triangle with half the (real) diagonal."""
    half = mul(without_imaginary(x), scalar(0.5, x))
    return triangle(select(on_diagonal(type_of(x)), half, x))


def without_imaginary(x: Any) -> Any:
    """The real part of each element, in the dtype of x."""
    return convert_element_type(real(x), type_of(x).dtype) if is_complex(x) else x


def cholesky_lower(context: Any, x: Any) -> Any:
    of = context.out_types[0]
    if 0 in of.shape:
        return x
    if context.platform in ("cpu", "cuda"):
        result = (of.shape[-2:], of.dtype)
        factor, info = lapack_call(context, "potrf", [x], [result, INFO], uplo="L")
        factor = nan_where_failed(info, factor)
    else:
        factor = stablehlo.cholesky(x, lower=True)
    return kept_triangle(factor, lower=True)  # the other one still holds elements of x


cholesky_p = matrix_primitive(
    "cholesky",
    type_rule=cholesky_type,
    jvp=cholesky_jvp,
    lower=cholesky_lower,
    flops=of_factorization(lambda m, n: n**3 / 3),
)
