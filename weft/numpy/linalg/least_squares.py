"""Matrices that need not be square or regular: pinv, lstsq, matrix_rank, cond."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, ShapeError, WeftValueError, api_boundary
from weft.kinds.checks import (
    broadcasted,
    check_arrays,
    check_flag,
    computing_dtype,
    convert,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import promote_operands
from weft.numpy.linalg.factorizations import hermitian_svd
from weft.numpy.linalg.norms import check_order, matrix_norm_of
from weft.numpy.linalg.operands import check_matrices, check_square, returned, widened
from weft.numpy.linalg.solving import identities, solved
from weft.numpy.reductions import any as any_
from weft.numpy.reductions import squared_size
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, gt, mul, ne, sub
from weft.ops.elementwise.bits import bitwise_and, bitwise_not
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.cholesky import symmetrized
from weft.ops.linalg.eigh import eigh
from weft.ops.linalg.matrices import adjoint, matmul, scaled_rows
from weft.ops.linalg.svd import svd as svd_operation
from weft.ops.reductions.reduce import reduce_max, reduce_or
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, reduce_sum, squeeze

__all__ = ["cond", "lstsq", "matrix_rank", "pinv"]


# ---- which singular values count -----------------------------------------------------------------


def _least(s: Any, greatest: Any, rtol: Any) -> Any:
    """The bound above which singular values count, per matrix: `rtol` times the greatest."""
    of = type_of(s)
    batch = of.shape[:-1]
    rtol = broadcasted(convert(rtol, of.dtype), batch, "rtol")
    bound = mul(greatest, rtol)
    return broadcast_in_dim(bound, of.shape, tuple(range(of.ndim - 1)))


def _singular(s: Any, place: int) -> Any:
    """A singular value of each matrix, by its place: the first is the greatest."""
    last = type_of(s).ndim - 1
    return squeeze(slice_in_dim(s, place, place + 1, axis=last), (last,))


def _tolerance(operation: str, argument: str, value: Any, a: Any) -> None:
    """Raises unless a tolerance is real, with dimensions that broadcast to the batch dimensions."""
    check_arrays(operation, value)
    of, batch = type_of(value), type_of(a).shape[:-2]
    fits = of.ndim <= len(batch) and all(
        n in (1, m) for n, m in zip(of.shape[::-1], batch[::-1], strict=False)
    )
    if of.dtype in dtypes.COMPLEX or not fits:
        message = f"{operation}: {argument} is a real number for each matrix, or one for all"
        got = f"{argument}: {of}, for matrices {type_of(a)}"
        wanted = f"real numbers of a shape that broadcasts to {batch}"
        fix = Fix(argument, f"leave {argument} out", {argument: None})
        raise refusal(WeftValueError, message, operation, got, wanted, fix)


def _both(operation: str, one: str, first: Any, other: str, second: Any) -> None:
    if first is not None and second is not None:
        message = f"{operation}: {one} and {other} are two tolerances for one thing"
        got = f"{one}={first!r:.40} and {other}={second!r:.40}"
        fix = Fix("one", f"leave {other} out", {other: None})
        raise refusal(WeftValueError, message, operation, got, "one of them", fix)


def _default(a: Any, factor: float = 1.0) -> float:
    """The default tolerance: the longer side times the machine epsilon."""
    of = type_of(a)
    dtype = dtypes.to_real(computing_dtype(of.dtype))
    return factor * float(max(of.shape[-2:])) * float(dtypes.finfo(dtype).eps)


@custom_jvp
def _assembled(a: Any, u: Any, inverse: Any, vh: Any) -> Any:
    """The pseudoinverse of a, from its singular vectors and inverted singular values."""
    return matmul(adjoint(vh), scaled_rows(adjoint(u), inverse))


@_assembled.defjvp
def _assembled_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The derivative of Golub and Pereyra, from a alone. The factors count as constants: singular
    vectors need not have a derivative where the pseudoinverse has one."""
    a, da = primals[0], tangents[0]
    p = _assembled(*primals)
    ph, dah = adjoint(p), adjoint(da)
    found = sub(zeros_like_array(p), matmul(p, matmul(da, p)))
    outside = sub(dah, matmul(matmul(dah, a), p))
    found = add(found, matmul(p, matmul(ph, outside)))
    inside = sub(dah, matmul(p, matmul(a, dah)))
    return p, add(found, matmul(matmul(inside, ph), p))


def _pseudoinverse(a: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """The pseudoinverse, the singular values, and which of them count."""
    a = symmetrized(a) if hermitian else a
    u, s, vh = hermitian_svd(a) if hermitian else svd_operation(a, full_matrices=False)
    some = type_of(s).shape[-1] > 0
    counted = gt(s, _least(s, _singular(s, 0), stop_gradient(rtol)) if some else s)
    inverse = div(full_like(s, 1), select(counted, s, full_like(s, np.inf)))
    inverse = convert(inverse, type_of(a).dtype)
    return _assembled(a, *[stop_gradient(x) for x in (u, inverse, vh)]), s, counted


@compiled
def _pinv(a: Any, rtol: Any, *, hermitian: bool) -> Any:
    p, _, _ = _pseudoinverse(widened(a), rtol, hermitian)
    return returned(p, type_of(a).dtype)


@api_boundary
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Array:
    """The pseudoinverses of matrices: (..., n, m) for shape (..., m, n).

    Singular values up to `rtol` (or `rcond`, its older name) times the greatest count as zero; by
    default 10 max(m, n) eps. hermitian: a equals its adjoint, and its eigenvalues are used. The
    derivative is that of G. H. Golub and V. Pereyra, The differentiation of pseudo-inverses and
    nonlinear least squares problems whose variables separate (1973), for constant rank.

    Raises WeftValueError for two tolerances or one that does not fit, ShapeError, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.25]], dtype=float32)
    """
    check_flag(hermitian, "linalg.pinv", "hermitian")
    check_matrices("linalg.pinv", "a", a)
    if hermitian:
        check_square("linalg.pinv", "a", a)
    _both("linalg.pinv", "rtol", rtol, "rcond", rcond)
    given = rcond if rtol is None else rtol
    given = _default(a, 10.0) if given is None else given
    _tolerance("linalg.pinv", "rtol" if rcond is None else "rcond", given, a)
    return _pinv(a, given, hermitian=bool(hermitian))


@compiled
def _lstsq(a: Any, b: Any, rcond: Any) -> Any:
    given = promoted("linalg.lstsq", a, b)
    dtype = type_of(given[0]).dtype
    a, b = map(widened, given)
    p, s, counted = _pseudoinverse(a, rcond, False)
    single = type_of(b).ndim == 1
    b = expand_dims(b, (1,)) if single else b
    x = matmul(p, b)
    squares = squared_size(sub(b, matmul(a, x)))
    rank = reduce_sum(convert(counted, dtypes.default_int()), (0,))
    found = squeeze(x, (1,)) if single else x
    return returned(found, dtype), returned(reduce_sum(squares, (0,)), dtype), rank, s


def _system(a: tuple[int, ...], b: tuple[int, ...]) -> Fix:
    """The fix for shapes that are not a system of equations."""
    if len(a) == 2:
        return Fix("shape", f"pass a b of shape ({a[0]},) or ({a[0]}, k)")
    axes = (0, 0 if len(b) >= len(a) - 1 and b[:-1][: len(a) - 2] == a[:-2] else None)
    text = f"map it over batch dimensions: weft.vmap(weft.numpy.linalg.lstsq, {axes})(a, b)"
    return Fix("vmap", text, {"in_axes": axes})


@api_boundary
def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x of least norm among those for which the norm of a x - b is least.

    a: shape (m, n); b: (m,) or (m, k); more of both are mapped with `weft.vmap`. Singular values up
    to `rcond` times the greatest count as zero; by default (or for a negative one) max(m, n) eps.
    Returns (x, residuals, rank, s): x of shape (n,) or (n, k), the sums of squares of b - a x of
    shape (1,) or (k,), an integer, and the singular values. With `numpy_resid` there are no
    residuals where rank < n or m <= n, as in NumPy; the rank has to be known then, so not under
    `jit`. The derivative is that of `pinv`.

    Raises ShapeError if shapes do not fit, DTypeError, WeftValueError, WeftTypeError.

    >>> a, b = jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), jnp.array([1.0, 1.0, 3.0])
    >>> x, residuals, rank, s = jnp.linalg.lstsq(a, b)
    >>> x, residuals
    (Array([1. , 0.5], dtype=float32), Array([9.], dtype=float32))
    """
    check_flag(numpy_resid, "linalg.lstsq", "numpy_resid")
    check_matrices("linalg.lstsq", "a", a)
    check_matrices("linalg.lstsq", "b", b, least=1)
    a, b = promote_operands("linalg.lstsq", a, b)
    left, right = type_of(a), type_of(b)
    if left.ndim != 2 or right.ndim > 2 or left.shape[0] != right.shape[0]:
        message = "linalg.lstsq: the operands are no system of equations"
        wanted = "a of shape (m, n), b of shape (m,) or (m, k)"
        fix = _system(left.shape, right.shape)
        raise refusal(ShapeError, message, "linalg.lstsq", f"a: {left}, b: {right}", wanted, fix)
    if isinstance(rcond, (int, float)) and rcond < 0:
        rcond = None
    bound = _default(a) if rcond is None else rcond
    _tolerance("linalg.lstsq", "rcond", bound, a)
    x, residuals, rank, s = _lstsq(a, b, bound)
    if numpy_resid and (left.shape[0] <= left.shape[1] or int(rank) < left.shape[1]):
        residuals = residuals[:0]
    return x, residuals, rank, s


@compiled
def _rank(a: Any, *tolerance: Any, hermitian: bool, relative: bool) -> Any:
    x = widened(a)
    s = abs_(eigh(x)[1]) if hermitian else svd_operation(x, compute_uv=False)
    batch = type_of(s).shape[:-1]
    if relative and type_of(s).shape[-1]:
        last = type_of(s).ndim - 1
        greatest = reduce_max(s, (last,)) if hermitian else _singular(s, 0)
        bound = _least(s, greatest, *tolerance)
    else:
        given = broadcasted(convert(tolerance[0], type_of(s).dtype), batch, "tol")
        bound = broadcast_in_dim(given, type_of(s).shape, tuple(range(len(batch))))
    return reduce_sum(convert(gt(s, bound), dtypes.default_int()), (type_of(s).ndim - 1,))


@api_boundary
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Array:
    """The number of singular values greater than `rtol` times the greatest, or than `tol`.

    M: shape (..., m, n); the result has the batch dimensions, and the default integer dtype. By
    default rtol is max(m, n) eps. hermitian: M equals its adjoint, and its eigenvalues are used. An
    M with fewer than two dimensions has rank 1 if an element is not zero, otherwise 0.

    Raises WeftValueError for two tolerances or one that does not fit, ShapeError, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.matrix_rank(jnp.ones((3, 3)))
    Array(1, dtype=int32)
    """
    check_flag(hermitian, "linalg.matrix_rank", "hermitian")
    _both("linalg.matrix_rank", "rtol", rtol, "tol", tol)
    check_matrices("linalg.matrix_rank", "M", M, least=0)
    if type_of(M).ndim < 2:
        return any_(M).astype(dtypes.default_int())
    if hermitian:
        check_square("linalg.matrix_rank", "M", M)
    given = rtol if tol is None else tol
    given = _default(M) if given is None else given
    _tolerance("linalg.matrix_rank", "rtol" if tol is None else "tol", given, M)
    return _rank(M, given, hermitian=bool(hermitian), relative=tol is None)


@compiled
def _ratio(x: Any, *, greatest_first: bool) -> Any:
    wide = widened(x)
    s = svd_operation(wide, compute_uv=False)
    first, end = _singular(s, 0), _singular(s, type_of(s).shape[-1] - 1)
    found = div(first, end) if greatest_first else div(end, first)
    return returned(_infinite_unless_nan(found, wide), type_of(x).dtype)


@compiled
def _product_of_norms(x: Any, *, order: Any) -> Any:
    wide = widened(x)
    ndim = type_of(x).ndim
    both = [
        matrix_norm_of(y, axes=(ndim - 2, ndim - 1), order=order)
        for y in (wide, solved(wide, identities(wide)))
    ]
    return returned(_infinite_unless_nan(mul(*both), wide), type_of(x).dtype)


def _infinite_unless_nan(found: Any, x: Any) -> Any:
    """NaN replaced by infinity, for matrices that have no NaN themselves: they are singular."""
    ndim = type_of(x).ndim
    given = reduce_or(ne(x, x), (ndim - 2, ndim - 1))
    singular = bitwise_and(ne(found, found), bitwise_not(given))
    return select(singular, full_like(found, np.inf), found)


@api_boundary
def cond(x: Any, p: Any = None) -> Array:
    """The condition numbers of matrices: the norm times that of the inverse.

    x: shape (..., m, n), square unless p is None, 2 or -2. p: an order as in `matrix_norm`; None
    is 2, the ratio of the greatest and the least singular value, and -2 its inverse. Of a singular
    matrix it is infinite.

    Raises ShapeError, also for matrices without elements, WeftValueError for another p, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 0.5]]))
    Array(8., dtype=float32)
    """
    check_matrices("linalg.cond", "x", x)
    if 0 in type_of(x).shape[-2:]:
        message = "linalg.cond takes matrices with elements"
        got = f"x: {type_of(x)}"
        raise refusal(ShapeError, message, "linalg.cond", got, "one row and one column or more")
    if p is None or (not isinstance(p, str) and p in (2, -2)):
        return _ratio(x, greatest_first=p != -2)
    check_order("linalg.cond", p, "p")
    check_square("linalg.cond", "x", x)
    return _product_of_norms(x, order=p)
