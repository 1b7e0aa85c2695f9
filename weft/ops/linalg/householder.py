"""Orthogonal matrices as LAPACK keeps them: products of Householder reflections.

Reflection j is I - tau v v^H, where v is 0 above element j, 1 at it, and stored below the diagonal
of a matrix for the rest. A product of several is I - V W with W = T V^H, where the inverse of the
upper triangular T has 1 / tau on its diagonal and V^H V above it (T. Joffrain and others,
Accumulating Householder transformations, revisited, ACM TOMS 32, 2006): derivatives are taken of
that form, in which nothing is divided by a tau that may be zero.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.rules import LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError
from weft.ops.declare import result_type
from weft.ops.elementwise.arithmetic import add, neg, sub
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.indexing.creation import full_like
from weft.ops.linalg.matrices import (
    adjoint,
    check_dtypes,
    check_matrix,
    conjugate,
    identity,
    lapack_call,
    linear_only,
    matmul,
    matrix_primitive,
    on_diagonal,
    part,
    scaled_rows,
    triangle,
)
from weft.ops.linalg.triangular_solve import triangular_solve
from weft.ops.structural.tangents import add_tangents
from weft.runtime import stablehlo

# ---- the reflections as matrices ---------------------------------------------------------------


class Reflections:
    """The matrices V and W of a product of reflections I - V W, and their tangents."""

    def __init__(self, a: Any, taus: Any) -> None:
        rows, count = type_of(a).shape[-2], type_of(taus).shape[-1]
        self.used = ((0, rows), (0, count))
        packed = part(a, *self.used)
        below = triangle(packed, True, -1)
        self.v = select(on_diagonal(type_of(packed)), full_like(packed, 1), below)
        self.vh = adjoint(self.v)
        self.taus = taus
        self.inner = triangle(matmul(self.vh, self.v), False, 1)
        self.unit = scaled_rows(self.inner, taus)
        self.w = self._solve(scaled_rows(self.vh, taus))

    def _solve(self, b: Any) -> Any:
        """Applies the inverse of the unit triangular I + diag(taus) striu(V^H V)."""
        return triangular_solve(self.unit, b, left_side=True, lower=False, unit_diagonal=True)

    def tangents(self, da: Any, dtaus: Any) -> tuple[Any, Any]:
        """The tangents of V (None if it is zero) and W."""
        dv, change = None, None
        if type(dtaus) is not Zero:
            change = scaled_rows(sub(self.vh, matmul(self.inner, self.w)), dtaus)
        if type(da) is not Zero:
            dv = triangle(part(da, *self.used), True, -1)
            d_inner = matmul(adjoint(dv), self.v)
            d_inner = triangle(add(d_inner, adjoint(d_inner)), False, 1)
            moved = scaled_rows(sub(adjoint(dv), matmul(d_inner, self.w)), self.taus)
            change = moved if change is None else add(change, moved)
        return dv, self._solve(change)


def check_reflections(a: ArrayType, taus: ArrayType) -> None:
    """Raises DTypeError and ShapeError unless `taus` may belong to the columns of `a`."""
    check_matrix(a)
    check_dtypes("a", a, "taus", taus)
    if (
        taus.ndim != a.ndim - 1
        or taus.shape[:-1] != a.shape[:-2]
        or taus.shape[-1] > min(a.shape[-2:])
    ):
        message, got = "taus do not belong to a", f"a {a} and taus {taus}"
        wanted = (
            "taus of shape (..., k) with the batch dimensions of a, and k at most its "
            f"number of rows and of columns, {min(a.shape[-2:])}"
        )
        fix = Fix("taus", "pass h.mT and taus of h, taus = weft.numpy.linalg.qr(x, mode='raw')")
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)


# ---- the product itself ------------------------------------------------------------------------


def householder_product(a: Any, taus: Any) -> Array:
    """The first n columns of a product of k Householder reflections.

    a: shape (..., m, n) with m >= n, the reflections below its diagonal; taus: (..., k) with
    k <= n, their factors; float32, float64, complex64 or complex128. The result has the type of a
    and orthonormal columns.

    Raises DTypeError and ShapeError. By LAPACK's orgqr and ungqr.

    >>> import numpy as np
    >>> print(householder_product(np.array([[0.0], [1.0]]), np.array([1.0])))
    [[ 0.]
     [-1.]]
    """
    return householder_product_p.bind(a, taus)


def householder_product_type(a: ArrayType, taus: ArrayType) -> ArrayType:
    check_reflections(a, taus)
    if a.shape[-2] < a.shape[-1]:
        message, got = "householder_product: the matrix is too wide", f"a {a}"
        fix = Fix("slice", "leave columns out: a[..., :a.shape[-2]]")
        raise ShapeError(message, got=got, wanted="at least as many rows as columns", fix=fix)
    return result_type((a, taus), a.shape, a.dtype)


def householder_product_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    a, taus = primals
    product = householder_product_p.bind(a, taus)
    of = Reflections(a, taus)
    dv, dw = of.tangents(*tangents)
    # Only the first n columns of W are in the result.
    columns = (0, type_of(a).shape[-1])
    found = matmul(of.v, part(dw, None, columns))
    if dv is not None:
        found = add(found, matmul(dv, part(of.w, None, columns)))
    return product, neg(found)


def householder_product_lower(context: Any, a: Any, taus: Any) -> Any:
    """Emits the product of reflections, from MLIR values."""
    shape = tuple(a.type.shape)
    dtype = stablehlo.dtype_of(a.type.element_type)
    if 0 in shape or 0 in taus.type.shape:
        return identity(shape, dtype)
    routine = "ungqr" if dtype in dtypes.COMPLEX else "orgqr"
    [product] = lapack_call(context, routine, [a, taus], [(shape[-2:], dtype)])
    return product


householder_product_p = matrix_primitive(
    "householder_product",
    type_rule=householder_product_type,
    jvp=householder_product_jvp,
    lower=householder_product_lower,
    flops=of_factorization(lambda m, n: 2 * m * n**2 - 2 * n**3 / 3),
)


# ---- the product applied -----------------------------------------------------------------------


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Array:
    """Multiplies by a product Q of Householder reflections without forming it.

    a: shape (..., m, n), the reflections below its diagonal; taus: (..., k), their factors, with k
    at most m and n; c: (..., m, p) with `left`, otherwise (..., p, m). The result, of the type of
    c, is Q c with `left` and c Q without; `transpose` takes the adjoint of Q, which for real
    numbers is its transpose. float32, float64, complex64 or complex128, all the same.

    Raises DTypeError and ShapeError. By LAPACK's ormqr and unmqr.

    >>> import numpy as np
    >>> a, taus = np.array([[0.0], [1.0]]), np.array([1.0])
    >>> print(ormqr(a, taus, np.array([[1.0], [2.0]])))
    [[-2.]
     [-1.]]
    """
    flags = check_flags("ormqr", left=left, transpose=transpose)
    return ormqr_p.bind(a, taus, c, **flags)


def ormqr_type(
    a: ArrayType, taus: ArrayType, c: ArrayType, *, left: bool, transpose: bool
) -> ArrayType:
    check_reflections(a, taus)
    check_dtypes("a", a, "c", c)
    if (
        c.ndim != a.ndim
        or c.shape[:-2] != a.shape[:-2]
        or c.shape[-2 if left else -1] != a.shape[-2]
    ):
        message, got = "ormqr: the operands do not fit together", f"a {a} and c {c}, left={left}"
        wanted = f"the batch dimensions of a, and {a.shape[-2]} {'rows' if left else 'columns'}"
        fix = Fix("left", "pass left=True for Q c, left=False for c Q")
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    return result_type((a, taus, c), c.shape, c.dtype)


def ormqr_jvp(primals: Values, tangents: Values, *, left: bool, transpose: bool) -> tuple[Any, Any]:
    (a, taus, c), (da, dtaus, dc) = primals, tangents
    params = {"left": left, "transpose": transpose}
    product = ormqr_p.bind(a, taus, c, **params)
    found: Any = Zero(type_of(product).tangent())
    if type(dc) is not Zero:
        found = ormqr_p.bind(a, taus, dc, **params)
    if type(da) is not Zero or type(dtaus) is not Zero:
        of = Reflections(a, taus)
        dv, dw = of.tangents(da, dtaus)
        # Each is a pair of matrices; minus their product is a term of the tangent of Q.
        pairs = [(of.v, dw)] if dv is None else [(of.v, dw), (dv, of.w)]
        for first, second in pairs:
            if transpose:
                first, second = adjoint(second), adjoint(first)
            moved = matmul(first, matmul(second, c)) if left else matmul(matmul(c, first), second)
            found = add_tangents(found, neg(moved))
    return product, found


def ormqr_transpose(
    ct: Any, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool
) -> list[Any]:
    if type(a) is LinearOperand or type(taus) is LinearOperand:
        raise linear_only("ormqr", "c", "a or taus")
    # The transpose of Q is the conjugate of its adjoint.
    back = ormqr_p.bind(a, taus, conjugate(ct), left=left, transpose=not transpose)
    return [None, None, conjugate(back)]


def ormqr_lower(context: Any, a: Any, taus: Any, c: Any, *, left: bool, transpose: bool) -> Any:
    of = context.out_types[0]
    if 0 in of.shape or 0 in taus.type.shape:
        return c
    *batch, m, _ = a.type.shape
    count = taus.type.shape[-1]
    zeros = [0] * len(batch)
    a = stablehlo.slice_(a, (*zeros, 0, 0), (*batch, m, count), (1,) * (len(batch) + 2))
    routine, result = "unmqr" if of.dtype in dtypes.COMPLEX else "ormqr", (of.shape[-2:], of.dtype)
    params = {"left": left, "transpose": transpose}
    [product] = lapack_call(context, routine, [a, taus, c], [result], {2: 0}, **params)
    return product


ormqr_p = matrix_primitive(
    "ormqr", type_rule=ormqr_type, jvp=ormqr_jvp, transpose=ormqr_transpose, lower=ormqr_lower
)
