"""Structured matrices: from the elements of an array (toeplitz, circulant …) or from a size.

Those from a size are computed by NumPy, with integers where possible, so that each element is
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.arguments import NEVER, Flag, choice, common, count_from, of_rank
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcast_shape, broadcasted, check_dimensions, inexact
from weft.kinds.kind import Arguments, Kind

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler",
    "fiedler_companion", "hadamard", "hankel", "helmert", "hilbert", "invhilbert", "invpascal",
    "leslie", "pascal", "toeplitz",
]  # fmt: skip


# ---- arguments -----------------------------------------------------------------------------------


def _blocks(value: Any, call: Arguments) -> tuple[Any, ...]:
    for number, x in enumerate(value):
        check_dimensions(f"{call.name}[{number}]", x, 0, 2)
    return (*value,)


def _elements(least: int) -> Kind:
    """The kind of vectors of at least `least` elements."""

    def take(value: Any, call: Arguments) -> Any:
        check_dimensions(call.name, value, 1)
        of = type_of(value)
        if of.shape[-1] < least:
            raise wrong_shape(f"{call.name}: {of}", f"at least {least} elements")
        return value

    wrong = (2.0, [1.0], *[np.ones(n, np.float32) for n in range(least)])
    means, right = f"vectors, shape (..., n), n >= {least}", np.ones(max(least, 1), np.float32)
    return Kind(take, means, wrong, right, static=False, plain=NEVER, together=common)


_wrong = ("text", np.ones((1, 1, 1), np.float32))
Blocks = Annotated[
    Any, Kind(_blocks, "matrices, vectors and numbers", _wrong, static=False, together=common)
]
# A number is a vector of one element, as in SciPy.
Entries = Annotated[Any, of_rank(0, together=common)]
Vectors = Annotated[Any, _elements(0)]
Filled = Annotated[Any, _elements(1)]
Coefficients = Annotated[Any, _elements(2)]
Size = Annotated[int, count_from(0)]
Positive = Annotated[int, count_from(1)]
Mode = Annotated[str, choice("full", "same", "valid")]
Scale = Annotated[str, choice("sqrtn", "n")]
Form = Annotated[str, choice("symmetric", "lower", "upper")]
AnyDType = Annotated[Any, Kind(lambda value, call: dtypes.requested(value), "a dtype", ("text",))]


# ---- from elements -------------------------------------------------------------------------------


@array_function
def block_diag(*arrs: Blocks) -> Array:
    """A block-diagonal matrix of the given matrices.

    arrs: matrices, vectors (rows) and numbers, promoted to one dtype; without any, the result has
    one row and no column. Raises ShapeError for more dimensions, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> block_diag(jnp.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    if not arrs:
        return jnp.zeros((1, 0))
    blocks = [jnp.atleast_2d(x) for x in arrs]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(jnp.pad(x, ((0, 0), (before, width - before - x.shape[1]))))
        before += x.shape[1]
    return jnp.concatenate(rows)


def _take_last(x: Any, places: Any) -> Any:
    """Elements of the last dimension."""
    return jnp.take(x, places, axis=-1, mode="clip")


def _row_minus_column(n: int, m: int) -> Any:
    """Row minus column of each element."""
    return _numbers(n)[:, None] - _numbers(m)


def _numbers(n: int) -> Any:
    return jnp.arange(n, dtype=np.int32)


def _side_by_side(*vectors: Any) -> list[Any]:
    batch = broadcast_shape(*(x.shape[:-1] for x in vectors))
    return [broadcasted(x, (*batch, x.shape[-1])) for x in vectors]


@array_function
def toeplitz(c: Entries, r: Entries | None = None) -> Array:
    """Matrices with equal elements along each diagonal.

    c: first columns, (..., n); r: first rows, (..., m), whose first elements are not used, by
    default the conjugates of c. The result is (..., n, m). Raises ShapeError for batch dimensions
    that do not broadcast, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> toeplitz(jnp.array([1, 2]), jnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5]], dtype=int32)
    """
    c, r = _side_by_side(*map(jnp.atleast_1d, (c, c.conj() if r is None else r)))
    n, m = c.shape[-1], r.shape[-1]
    if 0 in (n, m):
        return jnp.zeros((*c.shape[:-1], n, m), c.dtype)
    # From the last element of c to its first, and on to the last one of r.
    values = jnp.concatenate([c[..., ::-1], r[..., 1:]], axis=-1)
    return _take_last(values, n - 1 - _row_minus_column(n, m))


@array_function
def hankel(c: Vectors, r: Vectors | None = None) -> Array:
    """Matrices with equal elements along each diagonal from lower left to upper right.

    c: first columns, (..., n); r: last rows, (..., m), whose first elements are not used, by
    default zeros like c. The result is (..., n, m). Raises as `toeplitz`.

    >>> import weft.numpy as jnp
    >>> hankel(jnp.array([1, 2]), jnp.array([2, 5, 6]))
    Array([[1, 2, 5],
           [2, 5, 6]], dtype=int32)
    """
    c, r = _side_by_side(c, jnp.zeros_like(c) if r is None else r)
    n, m = c.shape[-1], r.shape[-1]
    if 0 in (n, m):
        return jnp.zeros((*c.shape[:-1], n, m), c.dtype)
    return _take_last(jnp.concatenate([c, r[..., 1:]], axis=-1), _numbers(n)[:, None] + _numbers(m))


@array_function
def circulant(c: Entries) -> Array:
    """Matrices each of whose columns is the one before it, rotated down by one.

    c: first columns, (..., n); the result is (..., n, n). Raises WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = jnp.atleast_1d(c)
    n = c.shape[-1]
    return _take_last(c, _row_minus_column(n, n) % n) if n else jnp.zeros((*c.shape, 0), c.dtype)


def _row_above_diagonal(first_row: Any, ones: Any) -> Any:
    """A matrix of a first row, and a diagonal below it."""
    *batch, n = first_row.shape
    lower = jnp.eye(n - 1, n, dtype=first_row.dtype) * ones[..., None]
    lower = jnp.broadcast_to(lower, (*batch, n - 1, n))
    return jnp.concatenate([first_row[..., None, :], lower], axis=-2)


@array_function
def companion(a: Coefficients) -> Array:
    """Matrices whose characteristic polynomials have the given coefficients, highest power first.

    a: (..., n), n at least 2; the result is (..., n - 1, n - 1), floating or complex. A first
    coefficient of zero gives infinities or NaN. Raises ShapeError, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = a.astype(inexact(a.dtype))
    row = -a[..., 1:] / a[..., :1]
    return _row_above_diagonal(row, jnp.ones(row.shape[-1] - 1, row.dtype))


@array_function
def fiedler_companion(a: Vectors) -> Array:
    """Companion matrices with five diagonals, of the same eigenvalues as those of `companion`.

    a: (..., n), coefficients, highest power first; the result is (..., n - 1, n - 1), for n = 0
    too without elements. By M. Fiedler, A note on companion matrices (2003). Raises ShapeError,
    WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    a = a.astype(inexact(a.dtype))
    n = a.shape[-1] - 1
    if n < 1:
        return jnp.zeros((*a.shape[:-1], 0, 0), a.dtype)
    a = a / a[..., :1]
    rows: list[list[Any]] = [[None] * n for _ in range(n)]
    one, minus = jnp.ones(a.shape[:-1], a.dtype), -a
    rows[0][0] = minus[..., 1]
    for i in range(0, n, 2):
        if i + 1 < n:
            rows[i][i + 1] = minus[..., i + 2]
        if i + 2 < n:
            rows[i + 2][i + 1] = minus[..., i + 3]
    for i in range(0, n - 2, 2):
        rows[i][i + 2] = one
    for i in range(1, n - 2, 2):
        rows[i + 2][i] = one
    if n > 1:
        rows[1][0] = one
    zero = jnp.zeros_like(one)
    flat = [zero if x is None else x for row in rows for x in row]
    return jnp.stack(flat, axis=-1).reshape(*a.shape[:-1], n, n)


@array_function
def fiedler(a: Entries) -> Array:
    """The magnitudes of the differences of all pairs: (..., n, n) for a of shape (..., n).

    Raises WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = jnp.atleast_1d(a)
    return abs(a[..., :, None] - a[..., None, :])


@array_function
def leslie(f: Coefficients, s: Vectors) -> Array:
    """The matrix of a population in age groups: births in its first row, survival below.

    f: births, (..., n); s: the parts that survive, (..., n - 1); the result is (..., n, n), s on
    its first diagonal below the main one. Raises ShapeError if lengths do not fit or f has fewer
    than 2 elements, WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> leslie(jnp.array([0.1, 2.0]), jnp.array([0.5]))
    Array([[0.1, 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    n = f.shape[-1]
    if s.shape[-1] != n - 1:
        raise wrong_shape(f"f: {type_of(f)}, s: {type_of(s)}", f"an s of {n - 1} elements")
    return _row_above_diagonal(*_side_by_side(f, s))


@array_function
def convolution_matrix(a: Filled, n: Positive, mode: Mode = "full") -> Array:
    """The matrix that convolves a vector of n elements with a.

    a: (..., m); the result is (..., k, n), with k by the mode as in `weft.numpy.convolve`:
    m + n - 1 for "full", the larger of m and n for "same", that less the smaller plus 1 for
    "valid". Raises ShapeError for an empty a, WeftValueError for n below 1 and another mode,
    WeftTypeError, DTypeError.

    n: the number of elements of the vectors, at least 1; mode: which part of the convolution is
    computed: "full", "same" or "valid".

    >>> import weft.numpy as jnp
    >>> convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    m = a.shape[-1]
    small, large = sorted((m, n))
    low = {"full": 0, "same": (small - 1) // 2, "valid": small - 1}[mode]
    count = {"full": m + n - 1, "same": large, "valid": large - small + 1}[mode]
    place = low + _row_minus_column(count, n)
    inside = (place >= 0) & (place < m)
    return jnp.where(inside, _take_last(a, place), jnp.zeros((), a.dtype))


# ---- from a size ---------------------------------------------------------------------------------


def _floating(values: Any) -> Any:
    return jnp.asarray(values.astype(np.float64), dtype=dtypes.default_float())


@python_function
def dft(n: Positive, scale: Scale | None = None, *, dtype: AnyDType = None) -> Array:
    """The matrix of the discrete Fourier transform of n elements.

    scale: "sqrtn" divides by the root of n, "n" by n. dtype: complex, by default complex64, or
    complex128 with `enable_x64`. Raises WeftValueError and DTypeError.

    n: the number of rows and of columns, at least 1.

    >>> dft(2)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.+0.j]], dtype=complex64)
    """
    count = np.arange(n)
    # Multiples of a quarter turn are exact.
    eighths = np.exp(-2j * np.pi * count / n)
    quarter = count * 4 % n == 0
    eighths[quarter] = (-1j) ** (count[quarter] * 4 // n)
    factor = {None: 1.0, "sqrtn": n**-0.5, "n": 1 / n}[scale]
    default = dtypes.to_complex(dtypes.default_float())
    values = eighths[np.outer(count, count) % n] * factor
    return jnp.asarray(values, dtype=default if dtype is None else dtype)


@python_function
def hadamard(n: Positive, dtype: AnyDType = int) -> Array:
    """A matrix of ones and minus ones with orthogonal rows, n a power of two (Sylvester's).

    n: the number of rows and of columns, a power of two.

    Raises WeftValueError for another n.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    if n & (n - 1):
        raise wrong_value(f"n={n}", "an n that is a power of two")
    place = np.arange(n)
    odd = np.bitwise_count(place[:, None] & place) % 2
    return jnp.asarray(1 - 2 * odd.astype(int), dtype=dtype)


@python_function
def helmert(n: Positive, full: Flag = False) -> Array:
    """The orthonormal rows that compare each element with the mean of those before it.

    Shape (n - 1, n), or with `full` (n, n), a row of equal numbers first. Raises WeftValueError
    for n below 1.

    n: the number of columns, at least 1.

    >>> helmert(2, full=True)
    Array([[ 0.70710677,  0.70710677],
           [ 0.70710677, -0.70710677]], dtype=float32)
    """
    lower = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    lower[0] = 1
    lengths = np.arange(n) * np.arange(1, n + 1)
    lengths[0] = n
    out = lower / np.sqrt(lengths)[:, None]
    return _floating(out if full else out[1:])


@python_function
def hilbert(n: Size) -> Array:
    """The matrix of 1 / (i + j + 1), i and j from 0. Raises WeftValueError for n below 0.

    n: the number of rows and of columns.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    count = np.arange(n)
    return _floating(1.0 / (count[:, None] + count + 1))


def _matrix(n: int, element: Callable[[int, int], float]) -> Array:
    """Builds a matrix from `element(i, j)`, after its memory is allocated."""
    out = np.empty((n, n))
    for place in np.ndindex(n, n):
        out[place] = element(*place)
    return _floating(out)


@python_function
def invhilbert(n: Size) -> Array:
    """The inverse of `hilbert(n)`, whose elements are integers, each rounded once.

    n: the number of rows and of columns.

    Raises WeftValueError for n below 0.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """

    def element(i: int, j: int) -> float:
        s = i + j
        value = (s + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(s, i) ** 2
        return float((-1) ** s * value)

    return _matrix(n, element)


@python_function
def pascal(n: Size, kind: Form | None = None) -> Array:
    """The matrix of the binomial coefficients i + j over i, floating, each rounded once.

    kind: "lower" has i over j instead, "upper" j over i, "symmetric" (or None) their product.
    Raises WeftValueError for another kind and n below 0.

    n: the number of rows and of columns.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    if kind == "lower":
        return _matrix(n, comb)
    if kind == "upper":
        return _matrix(n, lambda i, j: comb(j, i))
    return _matrix(n, lambda i, j: comb(i + j, i))


@python_function
def invpascal(n: Size, kind: Form | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, whose elements are integers, each rounded once.

    n: the number of rows and of columns; kind: "symmetric" (or None), "lower" or "upper", as in
    `pascal`.

    Raises WeftValueError for another kind and n below 0.

    >>> invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """

    def element(i: int, j: int) -> int:
        if kind == "lower":
            return comb(i, j)
        if kind == "upper":
            return comb(j, i)
        return sum(comb(k, i) * comb(k, j) for k in range(max(i, j), n))

    return _matrix(n, lambda i, j: (-1) ** (i + j) * element(i, j))
