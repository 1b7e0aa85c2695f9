"""The Schur decomposition, and the reduction to Hessenberg form on the way to it."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import ArrayType
from weft.errors import api_boundary
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.linalg.matrices import (
    INFO,
    check_matrix,
    factor_types,
    lapack_call,
    matrix_primitive,
    nan_where_failed,
    no_algorithm,
    no_derivative_rule,
)
from weft.runtime import stablehlo


@api_boundary
def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> list[Array]:
    """The factors of x = Z T Z^H, where Z is unitary and T upper triangular.

    x: shape (..., n, n), float32, float64, complex64 or complex128. Gives [T, Z], or [T] without
    `compute_schur_vectors`, all of the type of x. For real x, T has a block of two rows on the
    diagonal for each pair of complex eigenvalues, with equal diagonal elements. A matrix for which
    the iteration fails gives NaN.

    There is no derivative: where one exists, it depends on the order in which eigenvalues are
    found. Raises WeftNotImplementedError for it and where `sort_eig_vals` or `select_callable` asks
    for an order; DTypeError and ShapeError. By LAPACK's gees.

    sort_eig_vals: must be False: no order is implemented; select_callable: must be None: no order
    is implemented.

    >>> import numpy as np
    >>> t, z = schur(np.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> print(t)
    [[2. 1.]
     [0. 3.]]
    """
    check_flags("schur", compute_schur_vectors=compute_schur_vectors, sort_eig_vals=sort_eig_vals)
    for name, value in (("sort_eig_vals", sort_eig_vals), ("select_callable", select_callable)):
        if value is not None and not (name == "sort_eig_vals" and not value):
            raise no_algorithm(f"{name}={value!r}", "eigenvalues in LAPACK's order")
    out: list[Any] = schur_p.bind(x, vectors=bool(compute_schur_vectors))
    return out


def schur_type(x: ArrayType, *, vectors: bool) -> list[ArrayType]:
    check_matrix(x, square=True)
    return factor_types(x, (x.shape, x.dtype)) * (2 if vectors else 1)


def schur_lower(context: Any, x: Any, *, vectors: bool) -> list[Any]:
    of = context.out_types[0]
    if 0 in of.shape:
        return [x] * len(context.out_types)
    n = of.shape[-1]
    matrix, eigenvalues = ((n, n), of.dtype), ((n,), of.dtype)
    count = 1 if of.dtype in dtypes.COMPLEX else 2
    results = [matrix, matrix, *[eigenvalues] * count, INFO, INFO]
    mode = "V" if vectors else "N"
    form, found, *_, info = lapack_call(context, "gees", [x], results, mode=mode, sort="N")
    return [nan_where_failed(info, value) for value in ([form, found] if vectors else [form])]


schur_p = matrix_primitive(
    "schur",
    type_rule=schur_type,
    jvp=no_derivative_rule("schur"),
    lower=schur_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 25 * n**3),
)


def hessenberg(a: Any) -> tuple[Array, Array]:
    """The upper Hessenberg matrix Q^H a Q, with the Householder reflections that make up Q.

    a: shape (..., n, n), float32, float64, complex64 or complex128. Gives an array of its type, the
    Hessenberg matrix on and above the first diagonal below the main one and the reflections below
    that, and their factors, of shape (..., n - 1): `householder_product` of the part without first
    row and last column is Q without first row and column, which are those of the identity.

    There is no derivative. Raises WeftNotImplementedError for it, DTypeError and ShapeError. By
    LAPACK's gehrd.

    >>> import numpy as np
    >>> packed, taus = hessenberg(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> print(packed, taus)
    [[1. 2.]
     [3. 4.]] [0.]
    """
    packed, taus = hessenberg_p.bind(a)
    return packed, taus


def hessenberg_type(a: ArrayType) -> list[ArrayType]:
    check_matrix(a, square=True)
    return factor_types(a, (a.shape, a.dtype), ((*a.shape[:-2], max(0, a.shape[-1] - 1)), a.dtype))


def hessenberg_lower(context: Any, a: Any) -> list[Any]:
    of, taus = context.out_types
    n = of.shape[-1]
    if 0 in of.shape or n == 1:
        return [a, stablehlo.full(0, taus.shape, taus.dtype)]
    low, high = dtypes.int32.type(1), dtypes.int32.type(n)
    results = [((n, n), of.dtype), ((n - 1,), of.dtype), INFO]
    *found, info = lapack_call(context, "gehrd", [a], results, low=low, high=high)
    return [nan_where_failed(info, value) for value in found]


hessenberg_p = matrix_primitive(
    "hessenberg",
    type_rule=hessenberg_type,
    jvp=no_derivative_rule("hessenberg"),
    lower=hessenberg_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 10 * n**3 / 3),
)
