"""Determinants, and their signs and logarithms.

A determinant is a polynomial, with derivatives at singular matrices too, which the textbook formula
det(A) tr(inverse(A) dA) does not have. Up to 3 by 3 it is written out. Larger matrices get a border
of three columns U and three rows W that complete them, where the pivoted QR factorization says that
they are nearest to singular: K = [[A, U], [W, 0]]. With X the last three rows and columns of the
inverse of K, by the determinant of a Schur complement det(A) = det(K) det(X), and K is regular for
all A whose rank is at most three less than full. At lower rank all derivatives up to the third are
zero.
"""

from __future__ import annotations

from typing import Annotated, Any

from weft import dtypes
from weft.arrays.array import Array
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, WeftNotImplementedError
from weft.kinds.array_function import array_function
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linalg.operands import SquareMatrix, is_complex, restore_dtype, widen_operand
from weft.numpy.linalg.results import SlogdetResult
from weft.numpy.linalg.solving import identities, solve_batched
from weft.ops.elementwise.arithmetic import log, sign
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.elementwise.complex import imag, real
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full_like, zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.linalg.lu import lu
from weft.ops.linalg.matrices import diagonal, matmul, part
from weft.ops.linalg.qr import qr
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import broadcast_in_dim

_BORDER = 3


# ---- small matrices, written out -----------------------------------------------------------------


def _element(a: Any, i: int, j: int) -> Any:
    return part(a, (i, i + 1), (j, j + 1)).reshape(a.shape[:-2])


def _minor(a: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """The determinant of a 2 by 2 submatrix."""
    (i, k), (j, m) = rows, columns
    return _element(a, i, j) * _element(a, k, m) - _element(a, i, m) * _element(a, k, j)


def _small_det(a: Any) -> Any:
    """The determinant of 3 by 3 and smaller matrices."""
    n = a.shape[-1]
    if n == 0:
        return full_like(a, 1, shape=a.shape[:-2])
    if n == 1:
        return _element(a, 0, 0)
    if n == 2:
        return _minor(a, (0, 1), (0, 1))
    first, second, third = (_element(a, 0, j) * _minor(a, (1, 2), _others(j)) for j in range(3))
    return first - second + third


def _others(i: int) -> tuple[int, int]:
    first, second = (j for j in range(3) if j != i)
    return first, second


def _small_adjugate(a: Any) -> Any:
    """The adjugates of 3 by 3 matrices: element (i, j) is the cofactor of (j, i)."""
    batch = a.shape[:-2]
    minors = [_minor(a, _others(j), _others(i)) for i in range(3) for j in range(3)]
    cofactors = [-x if i % 2 else x for i, x in enumerate(minors)]
    return concatenate([x[..., None] for x in cofactors], len(batch)).reshape(*batch, 3, 3)


# ---- by factors ----------------------------------------------------------------------------------


def _parity(pivots: Any, like: Any) -> Any:
    """The sign of the row exchanges, in the dtype of `like`."""
    rows = broadcasted_iota(dtypes.int32, pivots.shape, pivots.ndim - 1)
    odd = (pivots != rows).astype(like.dtype)
    return (1 - 2 * odd).prod(-1)


def _product(a: Any) -> Any:
    """The determinant from an LU factorization."""
    packed, pivots, _ = lu(a)
    values = diagonal(packed)
    return values.prod(-1) * _parity(pivots, values)


def _trace_of_product(a: Any, b: Any) -> Any:
    """The trace of the matrix product a b."""
    return (a * b.mT).sum((-2, -1))


@custom_jvp
def _regular_det(a: Any) -> Any:
    """The determinant of regular matrices."""
    return _product(a)


@_regular_det.defjvp
def _regular_det_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    value = _regular_det(a)
    return value, value * _trace_of_product(solve_batched(a, identities(a)), da)


@custom_jvp
def _det(a: Any) -> Any:
    return _product(a)


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    return _det(a), _trace_of_product(_adjugate(a), da)


def _adjugate(a: Any) -> Any:
    """The adjugates: det(A) times the inverse of A if that is regular."""
    n, batch = a.shape[-1], a.shape[:-2]
    inner, border = (0, n), (n, n + _BORDER)
    completed, hopeless = _add_border(a)
    inverse = solve_batched(completed, identities(completed))
    corner = part(inverse, border, border)
    beside, below = part(inverse, inner, border), part(inverse, border, inner)
    # The derivative of det(K) det(X), with dX = -below dA beside.
    first = _scale(part(inverse, inner, inner), _small_det(corner))
    out = first - matmul(beside, matmul(_small_adjugate(corner), below))
    out = _scale(out, _regular_det(completed))
    hopeless = broadcast_in_dim(hopeless, a.shape, tuple(range(len(batch))))
    return select(hopeless, zeros_like_array(out), out)


def _scale(matrices: Any, factors: Any) -> Any:
    return matrices * factors[..., None, None]


def _add_border(a: Any) -> tuple[Any, Any]:
    """The bordered matrices, with identities for those still singular, and which these are."""
    n, batch = a.shape[-1], a.shape[:-2]
    q, r, order = qr(stop_gradient(a), pivoting=True)
    last = slice_in_dim(order, n - _BORDER, n, axis=-1)
    dims = tuple(range(len(batch)))
    wide = (*batch, _BORDER, n)
    which = broadcast_in_dim(last, wide, (*dims, len(batch)))
    rows = (which == broadcasted_iota(dtypes.int32, wide, len(wide) - 1)).astype(a.dtype)
    columns = part(q, None, (n - _BORDER, n))
    corner = full_like(a, 0, shape=(*batch, _BORDER, _BORDER))
    upper = concatenate([a, columns], len(batch) + 1)
    lower = concatenate([rows, corner], len(batch) + 1)
    whole = concatenate([upper, lower], len(batch))
    pivots = slice_in_dim(diagonal(r), 0, n - _BORDER, axis=-1)
    hopeless = (pivots == 0).any(-1)
    spread = broadcast_in_dim(hopeless, whole.shape, dims)
    return select(spread, identities(whole), whole), hopeless


@array_function
def det(a: SquareMatrix) -> Array:
    """The determinants of square matrices, shape (..., n, n); of an empty one it is 1.

    By LAPACK's getrf, and up to 3 by 3 written out. Singular matrices have derivatives too: up to
    the third for every matrix, and of any order where the rank is at least n - 3. They cost a
    pivoted QR factorization more. Raises ShapeError, DTypeError, WeftTypeError.

    >>> jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array(-2., dtype=float32)
    >>> weft.grad(jnp.linalg.det)(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
    Array([[ 4., -2.],
           [-2.,  1.]], dtype=float32)
    """
    x = widen_operand(a)
    return restore_dtype(_small_det(x) if x.shape[-1] <= _BORDER else _det(x), a.dtype)


@custom_jvp
def _slogdet(a: Any) -> tuple[Any, Any]:
    packed, pivots, _ = lu(a)
    values = diagonal(packed)
    size = abs(values)
    if is_complex(values):
        signs = values / select(size == 0, full_like(size, 1), size).astype(values.dtype)
    else:
        signs = sign(values)
    return signs.prod(-1) * _parity(pivots, values), log(size).sum(-1)


@_slogdet.defjvp
def _slogdet_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    value = _slogdet(a)
    traces = (
        diagonal(solve_batched(a, da)).sum(-1) if a.size else full_like(da, 0, shape=a.shape[:-2])
    )
    if not is_complex(a):
        return value, (zeros_like_array(value[0]), traces)
    turn = complex_of(zeros_like_array(imag(traces)), imag(traces))
    return value, (value[0] * turn, real(traces))


def _by_lu(value: Any, call: Arguments) -> None:
    if value != "lu":
        message = f"there is no method {value!r}"
        fix = Fix("method", "leave method out", {"method": None})
        got, wanted = f"method={value!r:.80}", 'None or "lu"'
        raise WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)


Method = Annotated[str | None, Kind(_by_lu, 'None or "lu", the only method', ("qr", 1))]


@array_function
def slogdet(a: SquareMatrix, *, method: Method = None) -> SlogdetResult:
    """The sign and the logarithm of the magnitude of determinants: sign exp(logabsdet).

    a: shape (..., n, n). For complex matrices the sign is a number of magnitude 1. A singular
    matrix has sign 0 and logabsdet -inf, and no derivative. method: None or "lu", by LAPACK's
    getrf. Raises ShapeError, DTypeError, WeftTypeError, and WeftNotImplementedError for another
    method.

    >>> sign, logabsdet = jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign, logabsdet
    (Array(-1., dtype=float32), Array(0., dtype=float32))
    """
    return SlogdetResult(*[restore_dtype(x, a.dtype) for x in _slogdet(widen_operand(a))])
