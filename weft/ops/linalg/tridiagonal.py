"""Tridiagonal matrices: reduction of Hermitian matrices to them, and linear systems."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.ops.declare import result_type
from weft.ops.elementwise.arithmetic import neg
from weft.ops.flags import check_flags
from weft.ops.flops import of_factorization
from weft.ops.linalg.matrices import (
    ACCEPTED,
    INFO,
    batch_in_front,
    check_matrix,
    factor_types,
    lapack_call,
    linear_only,
    matrix_primitive,
    nan_where_failed,
    no_derivative_rule,
    scaled_rows,
)
from weft.ops.reductions.cumulative import shift_elements
from weft.ops.structural.shape import move_dim, reshape
from weft.ops.structural.tangents import add_tangents
from weft.runtime import stablehlo

# ---- reduction ---------------------------------------------------------------------------------


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """The tridiagonal matrix Q^H a Q of a Hermitian one, with the reflections that make up Q.

    a: shape (..., n, n), float32, float64, complex64 or complex128; only the triangle that `lower`
    names is read. Gives an array of its type with the tridiagonal matrix on its middle diagonals
    and the Householder reflections outside; the diagonal, real, (..., n); the diagonal beside it,
    real, (..., n - 1); and the factors of the reflections, (..., n - 1).

    There is no derivative. Raises WeftNotImplementedError for it, DTypeError and ShapeError. By
    LAPACK's sytrd and hetrd.

    lower: whether the lower triangle of a is read, not the upper one.

    >>> import numpy as np
    >>> packed, d, e, taus = tridiagonal(np.array([[1.0, 2.0], [2.0, 3.0]]))
    >>> print(d, e)
    [1. 3.] [2.]
    """
    packed, d, e, taus = tridiagonal_p.bind(a, **check_flags("tridiagonal", lower=lower))
    return packed, d, e, taus


def tridiagonal_type(a: ArrayType, *, lower: bool) -> list[ArrayType]:
    check_matrix(a, square=True)
    *batch, n = a.shape[:-1]
    beside, real = (*batch, max(0, n - 1)), dtypes.to_real(a.dtype)
    return factor_types(
        a, (a.shape, a.dtype), ((*batch, n), real), (beside, real), (beside, a.dtype)
    )


def tridiagonal_lower(context: Any, a: Any, *, lower: bool) -> list[Any]:
    of = context.out_types[0]
    if 0 in of.shape:
        return [a, *(stablehlo.full(0, x.shape, x.dtype) for x in context.out_types[1:])]
    routine = "hetrd" if of.dtype in dtypes.COMPLEX else "sytrd"
    results = [*((x.shape[of.ndim - 2 :], x.dtype) for x in context.out_types), INFO]
    *found, info = lapack_call(context, routine, [a], results, uplo="L" if lower else "U")
    return [nan_where_failed(info, value) for value in found]


tridiagonal_p = matrix_primitive(
    "tridiagonal",
    type_rule=tridiagonal_type,
    jvp=no_derivative_rule("tridiagonal"),
    lower=tridiagonal_lower,
    multiple_results=True,
    flops=of_factorization(lambda m, n: 4 * n**3 / 3),
)


# ---- solving -----------------------------------------------------------------------------------


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Array:
    """Solves a x = b for matrices a of three diagonals.

    dl, d, du: shape (..., m): row i of a has dl[i] before the diagonal, d[i] on it and du[i] behind
    it; dl[0] and du[m - 1] are not used. b: (..., m, n), the type of the result. float32, float64,
    complex64 or complex128, all the same. A singular matrix gives NaN, unless `perturb_singular`
    has pivots that are almost zero replaced by small numbers.

    Raises DTypeError and ShapeError. By LAPACK's gtsv: elimination with row exchanges.

    >>> import numpy as np
    >>> one = np.ones(2)
    >>> print(tridiagonal_solve(one, 2 * one, one, np.array([[3.0], [3.0]])))
    [[1.]
     [1.]]
    """
    flags = check_flags("tridiagonal_solve", perturb_singular=perturb_singular)
    return tridiagonal_solve_p.bind(dl, d, du, b, **flags)


def tridiagonal_solve_type(
    dl: ArrayType, d: ArrayType, du: ArrayType, b: ArrayType, *, perturb_singular: bool
) -> ArrayType:
    types = f"dl {dl}, d {d}, du {du}, b {b}"
    if b.dtype not in ACCEPTED or not dl.dtype == d.dtype == du.dtype == b.dtype:
        whole = any(dtypes.is_complex(x.dtype) for x in (dl, d, du, b))
        target = "complex64" if whole else "float32"
        message = "takes operands of one dtype, which is one of LAPACK's"
        wanted = "float32, float64, complex64 or complex128, four times the same"
        fix = Fix("convert", f"convert each: dl.astype({target!r})", {"dtype": target})
        raise DTypeError(message, got=types, wanted=wanted, fix=fix)
    if not dl.shape == d.shape == du.shape == b.shape[:-1]:
        text = "for one right-hand side pass b[..., None]"
        if dl.shape != d.shape or du.shape != d.shape:
            text = "fill up with zeros: weft.numpy.pad(dl, (1, 0)), weft.numpy.pad(du, (0, 1))"
        message = "the operands do not fit together"
        wanted = "dl, d and du of shape (..., m), and b of shape (..., m, n)"
        fix = Fix("expand_dims", text)
        raise ShapeError(message, got=types, wanted=wanted, fix=fix)
    check_matrix(b)
    return result_type((dl, d, du, b), b.shape, b.dtype)


def tridiagonal_solve_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
    """From a dx = db - da x."""
    x = tridiagonal_solve_p.bind(*primals, **params)
    found = tangents[3]
    rows = type_of(x).ndim - 2
    for tangent, upward in zip(tangents[:3], (False, None, True), strict=True):
        if type(tangent) is not Zero:
            beside = x if upward is None else shift_elements(x, rows, upward)
            found = add_tangents(found, neg(scaled_rows(beside, tangent)))
    return x, tridiagonal_solve_p.bind(*primals[:3], found, **params)


def tridiagonal_solve_transpose(
    ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any
) -> list[Any]:
    if type(b) is not LinearOperand or any(type(x) is LinearOperand for x in (dl, d, du)):
        raise linear_only("tridiagonal_solve", "b", "a diagonal")
    last = type_of(d).ndim - 1
    beside = shift_elements(du, last, False), d, shift_elements(dl, last, True)
    back = tridiagonal_solve_p.bind(*beside, ct, **params)
    return [None, None, None, back]


def tridiagonal_solve_vmap(
    axis: AxisData, args: Values, dims: Dims, **params: Any
) -> tuple[Any, int]:
    if any(dim is not None for dim in dims[:3]) or type_of(args[1]).ndim > 1:
        return batch_in_front(tridiagonal_solve_p, axis, args, dims, **params)
    # One matrix for all: mapped right-hand sides become columns.
    b = move_dim(args[3], dims[3], 1, axis.size)
    shape = type_of(b).shape
    b = reshape(b, (shape[0], shape[1] * shape[2]))
    return reshape(tridiagonal_solve_p.bind(*args[:3], b, **params), shape), 1


def tridiagonal_solve_lower(context: Any, *values: Any, perturb_singular: bool) -> Any:
    of = context.out_types[0]
    if 0 in of.shape:
        return values[3]
    *_, m, n = of.shape
    solution = ((m, n), of.dtype)
    if perturb_singular:
        return lapack_call(context, "tridiagonal_solve_perturbed", values, [solution], {})[0]
    results = [*[((m,), of.dtype)] * 3, solution, INFO]
    *_, solved, info = lapack_call(context, "gtsv", values, results, {i: i for i in range(4)})
    return nan_where_failed(info, solved)


tridiagonal_solve_p = matrix_primitive(
    "tridiagonal_solve",
    type_rule=tridiagonal_solve_type,
    jvp=tridiagonal_solve_jvp,
    transpose=tridiagonal_solve_transpose,
    vmap=tridiagonal_solve_vmap,
    lower=tridiagonal_solve_lower,
)
