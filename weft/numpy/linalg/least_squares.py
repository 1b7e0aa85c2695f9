"""Matrices that need not be square or regular: pinv, lstsq, matrix_rank, cond."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.arguments import Flag, Prepared
from weft.kinds.array_function import array_function, private_function, python_function
from weft.kinds.checks import broadcasted, check_arrays, computing_dtype
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.factorizations import hermitian_svd
from weft.numpy.linalg.norms import matrix_norm_of, matrix_order
from weft.numpy.linalg.operands import (
    Hermitian,
    Matrix,
    Numbers,
    PromotedMatrix,
    PromotedVector,
    check_square,
    restore_dtype,
    widen_operand,
)
from weft.numpy.linalg.solving import identities, solve_batched
from weft.numpy.reductions import squared_size
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full_like
from weft.ops.linalg.cholesky import symmetrize
from weft.ops.linalg.eigh import eigh
from weft.ops.linalg.matrices import adjoint, matmul, scaled_rows
from weft.ops.linalg.svd import svd
from weft.ops.structural.shape import broadcast_in_dim

# ---- which singular values count -----------------------------------------------------------------


def _tolerance(value: Any, call: Arguments) -> Any:
    argument = call.name
    other = call["rtol"] if argument in ("rcond", "tol") and "rtol" in call else None
    if other is not None:
        message = f"rtol and {argument} are two tolerances for one thing"
        got = f"rtol={other!r:.40} and {argument}={value!r:.40}"
        fix = Fix("one", f"leave {argument} out", {argument: None})
        raise WeftValueError(message, got=got, wanted="one of them", fix=fix)
    check_arrays(value, argument=argument)
    of, batch = type_of(value), call.type.shape[:-2]
    fits = of.ndim <= len(batch) and all(
        n in (1, m) for n, m in zip(of.shape[::-1], batch[::-1], strict=False)
    )
    if of.dtype in dtypes.COMPLEX or not fits:
        message = f"{argument} is a real number for each matrix, or one for all"
        got = f"{argument}: {of}, for matrices {call.type}"
        wanted = f"real numbers of a shape that broadcasts to {batch}"
        fix = Fix(argument, f"leave {argument} out", {argument: None})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    return value


def _unless_negative(value: Any, call: Arguments) -> Any:
    return None if isinstance(value, (int, float)) and value < 0 else _tolerance(value, call)


_REAL = "a real number for each matrix, or one for all"
Tolerance = Annotated[Any, Kind(_tolerance, _REAL, ("text", 1j), static=False)]
UnlessNegative = Annotated[Any, Kind(_unless_negative, _REAL, ("text", 1j), static=False)]


def _default(a: Any, factor: float = 1.0) -> Any:
    """The default tolerance: the longer side times the machine epsilon."""
    dtype = dtypes.to_real(computing_dtype(a.dtype))
    return dtype.type(factor * max(a.shape[-2:]) * float(dtypes.finfo(dtype).eps))


def _exceeds(s: Any, tolerance: Any, greatest: Any = None) -> Any:
    """Whether singular values exceed the tolerance of their matrix, times the greatest if given."""
    bound = broadcasted(tolerance.astype(s.dtype), s.shape[:-1])
    bound = bound if greatest is None else greatest * bound
    return s > broadcast_in_dim(bound, s.shape, tuple(range(s.ndim - 1)))


# ---- pseudoinverses ------------------------------------------------------------------------------


@custom_jvp
def _assemble_pinv(a: Any, u: Any, inverse: Any, vh: Any) -> Any:
    """The pseudoinverse of a, from singular vectors and inverted singular values."""
    return matmul(adjoint(vh), scaled_rows(adjoint(u), inverse))


@_assemble_pinv.defjvp
def _assemble_pinv_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The derivative of Golub and Pereyra, in a alone.

    The factors count as constants: singular vectors need not have a derivative where the
    pseudoinverse has one.
    """
    a, da = primals[0], tangents[0]
    p = _assemble_pinv(*primals)
    ph, dah = adjoint(p), adjoint(da)
    outside = dah - matmul(matmul(dah, a), p)
    inside = dah - matmul(p, matmul(a, dah))
    dp = matmul(p, matmul(ph, outside)) - matmul(p, matmul(da, p))
    return p, dp + matmul(matmul(inside, ph), p)


def _pseudoinverse(a: Any, rtol: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """The pseudoinverse, the singular values, and the mask of those that count."""
    if hermitian:
        a = symmetrize(a)
        u, s, vh = hermitian_svd(a)
    else:
        u, s, vh = svd(a, full_matrices=False)
    counted = _exceeds(s, stop_gradient(rtol), s[..., 0]) if s.shape[-1] else s > s
    inverse = (1 / select(counted, s, full_like(s, np.inf))).astype(a.dtype)
    return _assemble_pinv(a, *[stop_gradient(x) for x in (u, inverse, vh)]), s, counted


@array_function
def pinv(
    a: Matrix, rtol: Tolerance = None, hermitian: Hermitian = False, *, rcond: Tolerance = None
) -> Array:
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
    rtol = rcond if rtol is None else rtol
    rtol = _default(a, 10.0) if rtol is None else rtol
    return restore_dtype(_pseudoinverse(widen_operand(a), rtol, hermitian)[0], a.dtype)


@private_function
def _lstsq(a: Prepared, b: Prepared, rcond: Prepared | None) -> Any:
    dtype, tolerance = a.dtype, _default(a) if rcond is None else rcond
    a, b = widen_operand(a), widen_operand(b)
    p, s, counted = _pseudoinverse(a, tolerance, False)
    columns = b[:, None] if b.ndim == 1 else b
    x = matmul(p, columns)
    residuals = squared_size(columns - matmul(a, x)).sum(0)
    x = x[:, 0] if b.ndim == 1 else x
    return restore_dtype(x, dtype), restore_dtype(residuals, dtype), counted.sum(0), s


def _system(a: tuple[int, ...], b: tuple[int, ...]) -> Fix:
    """The fix for shapes that are not a system of equations."""
    if len(a) == 2:
        return Fix("shape", f"pass a b of shape ({a[0]},) or ({a[0]}, k)")
    axes = (0, 0 if len(b) >= len(a) - 1 and b[:-1][: len(a) - 2] == a[:-2] else None)
    text = f"map it over batch dimensions: weft.vmap(weft.numpy.linalg.lstsq, {axes})(a, b)"
    return Fix("vmap", text, {"in_axes": axes})


@python_function
def lstsq(
    a: PromotedMatrix, b: PromotedVector, rcond: UnlessNegative = None, *, numpy_resid: Flag = False
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
    if a.ndim != 2 or b.ndim > 2 or a.shape[0] != b.shape[0]:
        raise ShapeError(
            "the operands are no system of equations",
            got=f"a: {type_of(a)}, b: {type_of(b)}",
            wanted="a of shape (m, n), b of shape (m,) or (m, k)",
            fix=_system(a.shape, b.shape),
        )
    x, residuals, rank, s = _lstsq(a, b, rcond)
    if numpy_resid and (a.shape[0] <= a.shape[1] or int(rank) < a.shape[1]):
        residuals = residuals[:0]
    return x, residuals, rank, s


# ---- ranks and condition numbers -----------------------------------------------------------------


@array_function
def matrix_rank(
    M: Numbers, rtol: Tolerance = None, *, hermitian: Hermitian = False, tol: Tolerance = None
) -> Array:
    """The number of singular values greater than `rtol` times the greatest, or than `tol`.

    M: shape (..., m, n); the result has the batch dimensions, and the default integer dtype. By
    default rtol is max(m, n) eps. hermitian: M equals its adjoint, and its eigenvalues are used. An
    M with fewer than two dimensions has rank 1 if an element is not zero, otherwise 0.

    Raises WeftValueError for two tolerances or one that does not fit, ShapeError, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.matrix_rank(jnp.ones((3, 3)))
    Array(1, dtype=int32)
    """
    if M.ndim < 2:
        return M.any().astype(dtypes.default_int())
    x = widen_operand(M)
    s = abs(eigh(x)[1]) if hermitian else svd(x, compute_uv=False)
    if tol is not None or not s.shape[-1]:
        return _exceeds(s, _default(M) if tol is None else tol).sum(-1)
    greatest = s.max(-1) if hermitian else s[..., 0]
    return _exceeds(s, _default(M) if rtol is None else rtol, greatest).sum(-1)


def _cond_order(value: Any, call: Arguments) -> Any:
    if not isinstance(value, str) and value in (2, -2):
        return 2 if value == 2 else -2
    order = matrix_order(value, call)
    check_square("x", call["x"])
    return order


CondOrder = Annotated[Any, Kind(_cond_order, "an order of norms of matrices", ("?", 3))]


@array_function
def cond(x: Matrix, p: CondOrder = None) -> Array:
    """The condition numbers of matrices: the norm times that of the inverse.

    x: shape (..., m, n), square unless p is None, 2 or -2. p: an order as in `matrix_norm`; None
    is 2, the ratio of the greatest and the least singular value, and -2 its inverse. Of a singular
    matrix it is infinite.

    Raises ShapeError, also for matrices without elements, WeftValueError for another p, DTypeError,
    WeftTypeError.

    >>> jnp.linalg.cond(jnp.array([[4.0, 0.0], [0.0, 0.5]]))
    Array(8., dtype=float32)
    """
    if 0 in x.shape[-2:]:
        message, wanted = "it takes matrices with elements", "one row and one column or more"
        raise ShapeError(message, got=f"x: {type_of(x)}", wanted=wanted)
    wide = widen_operand(x)
    if p in (None, 2, -2):
        s = svd(wide, compute_uv=False)
        first, last = s[..., 0], s[..., -1]
        out = last / first if p == -2 else first / last
    else:
        axes, inverse = (x.ndim - 2, x.ndim - 1), solve_batched(wide, identities(wide))
        out = matrix_norm_of(wide, axes, p) * matrix_norm_of(inverse, axes, p)
    # NaN without one in the matrix: it is singular.
    singular = (out != out) & ~(wide != wide).any((-2, -1))
    return restore_dtype(select(singular, full_like(out, np.inf), out), x.dtype)
