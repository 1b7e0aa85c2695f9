"""Low-rank updates: a matrix times its own transpose, added to another matrix or factor."""

from __future__ import annotations

from typing import Any

from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError, api_boundary
from weft.ops.elementwise.arithmetic import add, lt, mul, scalar
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import full_like
from weft.ops.linalg.eigh import real_diagonal
from weft.ops.linalg.matrices import (
    check_dtypes,
    check_matrix,
    conjugate,
    matmul,
    scaled_rows,
    transpose_matrices,
    triangle,
)
from weft.ops.linalg.qr import qr
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import expand_dims


@api_boundary
def cholesky_update(r_matrix: Any, w_vector: Any) -> Array:
    """The upper triangular factor of R^H R + w w^H, from R and w.

    r_matrix: shape (..., n, n), upper triangular; w_vector: (..., n); float32, float64, complex64
    or complex128, both the same. The result has the type of r_matrix and a diagonal that is not
    negative.

    Raises DTypeError and ShapeError. It uses a QR factorization of R with w^H as one more row, so
    no square is formed and derivatives are those of `qr`.

    >>> import numpy as np
    >>> print(cholesky_update(np.array([[3.0]]), np.array([4.0])))
    [[5.]]
    """
    r, w = type_of(r_matrix), type_of(w_vector)
    check_matrix(r, square=True)
    check_dtypes("r_matrix", r, "w_vector", w)
    if w.shape != r.shape[:-1]:
        message = "the vector does not fit the matrix"
        got, wanted = f"r_matrix {r} and w_vector {w}", f"w_vector of shape {r.shape[:-1]}"
        raise ShapeError(message, got=got, wanted=wanted)
    row = conjugate(expand_dims(w_vector, (w.ndim - 1,)))
    # The part below the diagonal is not read.
    stacked = concatenate([triangle(r_matrix, False), row], r.ndim - 2)
    factor = qr(stacked, full_matrices=False)[1]
    signs = real_diagonal(factor)
    below_zero = lt(signs, scalar(0, signs))
    signs = select(below_zero, full_like(signs, -1), full_like(signs, 1))
    return scaled_rows(factor, convert_element_type(signs, r.dtype))


@api_boundary
def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha A A^T + beta C, without conjugates.

    a_matrix: shape (..., m, n); c_matrix: (..., m, m); float32, float64, complex64 or complex128,
    both the same; alpha and beta: numbers. With `symmetrize_output` the lower triangle of the sum
    is mirrored to the upper one.

    alpha: the factor of A A^T, a real number; beta: the factor of C, a real number.

    Raises DTypeError, ShapeError, and WeftTypeError for an alpha or beta that is not a real number.

    >>> import numpy as np
    >>> print(symmetric_product(np.ones((2, 1)), np.eye(2), alpha=2.0, beta=3.0))
    [[5. 2.]
     [2. 5.]]
    """
    check_flags("symmetric_product", symmetrize_output=symmetrize_output)
    a, c = type_of(a_matrix), type_of(c_matrix)
    check_matrix(a)
    check_dtypes("a_matrix", a, "c_matrix", c)
    if c.shape != (*a.shape[:-1], a.shape[-2]):
        message = "the matrices do not fit together"
        got = f"a_matrix {a} and c_matrix {c}"
        wanted = f"c_matrix of shape {(*a.shape[:-1], a.shape[-2])}"
        raise ShapeError(message, got=got, wanted=wanted)
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not isinstance(value, (int, float)):
            text = "leave both out: alpha * symmetric_product(a_matrix, c_matrix) + beta * c_matrix"
            message, got = f"{name} is no number", f"{name}={value!r:.80}"
            raise WeftTypeError(message, got=got, wanted="a Python number", fix=Fix(name, text))
    out = mul(matmul(a_matrix, transpose_matrices(a_matrix)), scalar(float(alpha), a_matrix))
    if beta:
        out = add(out, mul(c_matrix, scalar(float(beta), c_matrix)))
    if symmetrize_output:
        out = add(triangle(out), transpose_matrices(triangle(out, True, -1)))
    return out
