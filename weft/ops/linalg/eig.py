"""Eigenvalues and eigenvectors of matrices that need not be Hermitian."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.rules import Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, api_boundary
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, eq, mul, neg
from weft.ops.elementwise.complex import complex as complex_
from weft.ops.elementwise.complex import imag, real
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.indexing.creation import broadcasted_iota, zeros_like_array
from weft.ops.linalg.eigh import inverse_differences
from weft.ops.linalg.lu import solve
from weft.ops.linalg.matrices import (
    INFO,
    adjoint,
    along_columns,
    check_matrix,
    conjugate,
    diagonal,
    factor_types,
    lapack_call,
    matmul,
    matrix_primitive,
    nan_where_failed,
    no_algorithm,
    no_derivative,
    scaled_columns,
)
from weft.ops.linalg.qr import refuse_magma
from weft.ops.reductions.argreduce import argmax
from weft.ops.structural.shape import reduce_sum
from weft.runtime import stablehlo


class EigImplementation(enum.Enum):
    """Libraries that compute eigenvalues. On CPUs there is LAPACK; the others are for GPUs."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


@api_boundary
def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Eigenvalues w of square matrices, with left and right eigenvectors as columns.

    x: shape (..., n, n), float32, float64, complex64 or complex128. Gives [w, vl, vr], or the
    requested ones of these: x vr = vr diag(w), and vl^H x = diag(w) vl^H. All are complex, w of
    shape (..., n) in no particular order (complex eigenvalues of real matrices come in conjugate
    pairs, next to each other). Each vector has norm 1 and a real largest element.

    Eigenvalues have derivatives where they are distinct. Those of eigenvectors are taken with
    `enable_eigvec_derivs` (otherwise they raise WeftNotImplementedError), since they exist only
    where also no vector has two largest elements of one size, which is not checked. Both are those
    of M. B. Giles, An extended collection of matrix derivative results (2008), with the length and
    the phase of the vectors held as above; not finite where eigenvalues are equal. A matrix for
    which the iteration fails gives NaN.

    Args:
        compute_left_eigenvectors: Whether the result has vl.
        compute_right_eigenvectors: Whether the result has vr.
        enable_eigvec_derivs: Whether eigenvectors may be differentiated.
        implementation: None or `EigImplementation.LAPACK`.
        use_magma: Must be None or False: MAGMA, a library for GPUs, is not used.

    Raises DTypeError, ShapeError, and WeftNotImplementedError for another `implementation` than
    EigImplementation.LAPACK. By LAPACK's geev.

    >>> import numpy as np
    >>> w, vl, vr = eig(np.array([[0.0, -1.0], [1.0, 0.0]]))
    >>> print(w)
    [0.+1.j 0.-1.j]
    """
    check_flags(
        "eig",
        compute_left_eigenvectors=compute_left_eigenvectors,
        compute_right_eigenvectors=compute_right_eigenvectors,
        enable_eigvec_derivs=enable_eigvec_derivs,
    )
    if implementation not in (None, EigImplementation.LAPACK):
        wanted = "implementation=None or EigImplementation.LAPACK"
        raise no_algorithm(f"implementation={implementation!r}", wanted)
    refuse_magma(use_magma)
    out: list[Any] = eig_p.bind(
        x,
        left=bool(compute_left_eigenvectors),
        right=bool(compute_right_eigenvectors),
        vector_derivatives=bool(enable_eigvec_derivs),
    )
    return out


def eig_type(x: ArrayType, *, left: bool, right: bool, vector_derivatives: bool) -> list[ArrayType]:
    check_matrix(x, square=True)
    dtype = dtypes.to_complex(x.dtype)
    return factor_types(x, (x.shape[:-1], dtype), *[(x.shape, dtype)] * (left + right))


def eig_jvp(
    primals: Values, tangents: Values, *, left: bool, right: bool, vector_derivatives: bool
) -> tuple[Any, Any]:
    if (left or right) and not vector_derivatives:
        raise no_derivative(
            "eig",
            f"{type_of(primals[0])} with eigenvectors",
            "eigenvalues alone, or enable_eigvec_derivs=True: the derivatives of eigenvectors "
            "exist only for distinct eigenvalues and vectors with one largest element",
            Fix(
                "enable_eigvec_derivs",
                "pass enable_eigvec_derivs=True to weft.lax.linalg.eig, or leave the eigenvectors "
                "out",
                {"enable_eigvec_derivs": True},
            ),
        )
    # The second derivative of eigenvalues needs that of vectors, however these are scaled.
    w, *vectors = eig_p.bind(primals[0], left=left, right=True, vector_derivatives=True)
    vr = vectors[-1]
    dx = convert_element_type(tangents[0], type_of(w).dtype)
    turned = solve(vr, matmul(dx, vr))
    outs, changes = [w], [diagonal(turned)]
    if left:  # the right eigenvectors of the adjoint, whose eigenvalues are the conjugates
        vl = vectors[0]
        turned_back = solve(vl, matmul(adjoint(dx), vl))
        outs.append(vl)
        changes.append(vector_tangents(vl, conjugate(w), turned_back))
    if right:
        outs.append(vr)
        changes.append(vector_tangents(vr, w, turned))
    return outs, changes


def vector_tangents(v: Any, w: Any, turned: Any) -> Any:
    """The tangents of eigenvectors, from the matrix's tangent in their basis. The free multiple of
    each vector keeps the norm one and the largest element real."""
    moved = matmul(v, mul(turned, inverse_differences(w)))
    longer = real(column_sums(mul(conjugate(v), moved)))
    largest = largest_of_columns(v)
    picked, own = (column_sums(select(largest, x, zeros_like_array(x))) for x in (moved, v))
    turn = div(imag(picked), real(own))
    return add(moved, scaled_columns(v, neg(complex_(longer, turn))))


def column_sums(x: Any) -> Any:
    """The sum of each column."""
    return reduce_sum(x, (type_of(x).ndim - 2,))


def largest_of_columns(x: Any) -> Any:
    """Whether an element is the first largest in magnitude of its column."""
    aval = type_of(x)
    found = argmax(abs_(x), aval.ndim - 2, np.int32)
    return eq(broadcasted_iota(np.int32, aval.shape, aval.ndim - 2), along_columns(found, aval))


def eig_lower(
    context: Any, x: Any, *, left: bool, right: bool, vector_derivatives: bool
) -> list[Any]:
    w = context.out_types[0]
    n = x.type.shape[-1]
    if 0 in x.type.shape:
        return [stablehlo.full(0, of.shape, of.dtype) for of in context.out_types]
    dtype = stablehlo.dtype_of(x.type.element_type)
    is_real = dtype not in dtypes.COMPLEX
    values = [((n,), dtype)] * (2 if is_real else 1)
    vectors = [((n, n), w.dtype)] * 2
    sides = {"compute_left": "V" if left else "N", "compute_right": "V" if right else "N"}
    *parts, vl, vr, info = lapack_call(context, "geev", [x], [*values, *vectors, INFO], {}, **sides)
    eigenvalues = stablehlo.complex_(*parts) if is_real else parts[0]
    wanted = [eigenvalues, *([vl] if left else []), *([vr] if right else [])]
    return [nan_where_failed(info, value) for value in wanted]


eig_p = matrix_primitive(
    "eig",
    type_rule=eig_type,
    jvp=eig_jvp,
    lower=eig_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 25 * n**3),
)
