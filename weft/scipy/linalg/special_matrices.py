"""Structured matrices: from the elements of an array (toeplitz, circulant …) or from a size.

Those from a size are computed by NumPy, with integers where possible, so that each element is
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of, user_value
from weft.errors import api_boundary
from weft.kinds.checks import broadcast_shape, broadcasted, check_flag, convert, inexact, promoted
from weft.kinds.compiled_functions import compiled
from weft.scipy.argument_checks import at_least, check_dimensions, one_of, wrong_shape, wrong_value

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler",
    "fiedler_companion", "hadamard", "hankel", "helmert", "hilbert", "invhilbert", "invpascal",
    "leslie", "pascal", "toeplitz",
]  # fmt: skip


@compiled
def _block_diag(*blocks: Any) -> Any:
    blocks = tuple(jnp.atleast_2d(x) for x in promoted("linalg.block_diag", *blocks))
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(jnp.pad(x, ((0, 0), (before, width - before - x.shape[1]))))
        before += x.shape[1]
    return jnp.concatenate(rows)


@api_boundary
def block_diag(*arrs: Any) -> Array:
    """A block-diagonal matrix of the given matrices.

    arrs: matrices, vectors (rows) and numbers, promoted to one dtype; without any, the result has
    one row and no column. Raises ShapeError for more dimensions, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> block_diag(jnp.ones((1, 2)), 3.0)
    Array([[1., 1., 0.],
           [0., 0., 3.]], dtype=float32)
    """
    for number, x in enumerate(arrs):
        check_dimensions("linalg.block_diag", f"arrs[{number}]", x, 0, 2)
    return _block_diag(*[user_value(x) for x in arrs]) if arrs else jnp.zeros((1, 0))


def _first(operation: str, argument: str, x: Any, least: int = 0) -> int:
    """The length of vectors. Raises where they have no dimension or too few elements."""
    check_dimensions(operation, argument, x, 1)
    n = type_of(x).shape[-1]
    if n < least:
        raise wrong_shape(operation, f"{argument}: {type_of(x)}", f"at least {least} elements")
    return n


def _vector(operation: str, argument: str, x: Any) -> Any:
    """Vectors; a number is a vector of one element, as in SciPy. Raises as `check_dimensions`."""
    check_dimensions(operation, argument, x, 0)
    return jnp.atleast_1d(x)


def _taken(x: Any, places: Any) -> Any:
    """Elements of the last dimension at the given indices."""
    return jnp.take(x, places, axis=-1, mode="clip")


def _apart(n: int, m: int) -> Any:
    """Row minus column of each element."""
    return _numbers(n)[:, None] - _numbers(m)[None, :]


def _numbers(n: int) -> Any:
    return jnp.arange(n, dtype=jnp.int32)


def _side_by_side(operation: str, c: Any, r: Any) -> list[Any]:
    c, r = promoted(operation, c, r)
    batch = broadcast_shape(operation, type_of(c).shape[:-1], type_of(r).shape[:-1])
    return [broadcasted(x, (*batch, type_of(x).shape[-1])) for x in (c, r)]


@compiled
def _toeplitz(c: Any, r: Any) -> Any:
    c, r = _side_by_side("linalg.toeplitz", c, r)
    n, m = c.shape[-1], r.shape[-1]
    if 0 in (n, m):
        return jnp.zeros((*c.shape[:-1], n, m), c.dtype)
    # From the last element of c to its first, and on to the last one of r.
    values = jnp.concatenate([c[..., ::-1], r[..., 1:]], axis=-1)
    return _taken(values, n - 1 - _apart(n, m))


@api_boundary
def toeplitz(c: Any, r: Any = None) -> Array:
    """Matrices with equal elements along each diagonal.

    c: first columns, (..., n); r: first rows, (..., m), whose first elements are not used, by
    default the conjugates of c. The result is (..., n, m). Raises ShapeError for batch dimensions
    that do not broadcast, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> toeplitz(jnp.array([1, 2]), jnp.array([1, 5, 6]))
    Array([[1, 5, 6],
           [2, 1, 5]], dtype=int32)
    """
    c = _vector("linalg.toeplitz", "c", c)
    return _toeplitz(c, jnp.conj(c) if r is None else _vector("linalg.toeplitz", "r", r))


@compiled
def _hankel(c: Any, r: Any) -> Any:
    c, r = _side_by_side("linalg.hankel", c, r)
    n, m = c.shape[-1], r.shape[-1]
    if 0 in (n, m):
        return jnp.zeros((*c.shape[:-1], n, m), c.dtype)
    values = jnp.concatenate([c, r[..., 1:]], axis=-1)
    return _taken(values, _numbers(n)[:, None] + _numbers(m))


@api_boundary
def hankel(c: Any, r: Any = None) -> Array:
    """Matrices with equal elements along each diagonal from lower left to upper right.

    c: first columns, (..., n); r: last rows, (..., m), whose first elements are not used, by
    default zeros like c. The result is (..., n, m). Raises as `toeplitz`.

    >>> import weft.numpy as jnp
    >>> hankel(jnp.array([1, 2]), jnp.array([2, 5, 6]))
    Array([[1, 2, 5],
           [2, 5, 6]], dtype=int32)
    """
    _first("linalg.hankel", "c", c)
    if r is None:
        return _hankel(c, jnp.zeros_like(c))
    _first("linalg.hankel", "r", r)
    return _hankel(c, r)


@compiled
def _circulant(c: Any) -> Any:
    n = c.shape[-1]
    return _taken(c, _apart(n, n) % n) if n else jnp.zeros((*c.shape, 0), c.dtype)


@api_boundary
def circulant(c: Any) -> Array:
    """Matrices each of whose columns is the one before it, rotated down by one.

    c: first columns, (..., n); the result is (..., n, n). Raises WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    return _circulant(_vector("linalg.circulant", "c", c))


def _below(first_row: Any, ones: Any) -> Any:
    """A matrix of a first row and, below it, a diagonal."""
    *batch, n = first_row.shape
    lower = jnp.eye(n - 1, n, dtype=first_row.dtype) * ones[..., None]
    lower = jnp.broadcast_to(lower, (*batch, n - 1, n))
    return jnp.concatenate([first_row[..., None, :], lower], axis=-2)


@compiled
def _companion(a: Any) -> Any:
    a = convert(a, inexact(a.dtype))
    row = -a[..., 1:] / a[..., :1]
    return _below(row, jnp.ones(row.shape[-1] - 1, row.dtype))


@api_boundary
def companion(a: Any) -> Array:
    """Matrices whose characteristic polynomials have the given coefficients, highest power first.

    a: (..., n), n at least 2; the result is (..., n - 1, n - 1), floating or complex. A first
    coefficient of zero gives infinities or NaN. Raises ShapeError, WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    _first("linalg.companion", "a", a, 2)
    return _companion(a)


@compiled
def _fiedler_companion(a: Any) -> Any:
    a = convert(a, inexact(a.dtype))
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


@api_boundary
def fiedler_companion(a: Any) -> Array:
    """Companion matrices with five diagonals, of the same eigenvalues as those of `companion`.

    a: (..., n), coefficients, highest power first; the result is (..., n - 1, n - 1), for n = 0
    too without elements. By M. Fiedler, A note on companion matrices (2003). Raises ShapeError,
    WeftTypeError, DTypeError.

    >>> import weft.numpy as jnp
    >>> fiedler_companion(jnp.array([1.0, -3.0, 2.0]))
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    _first("linalg.fiedler_companion", "a", a)
    return _fiedler_companion(a)


@compiled
def _fiedler(a: Any) -> Any:
    return abs(a[..., :, None] - a[..., None, :])


@api_boundary
def fiedler(a: Any) -> Array:
    """The magnitudes of the differences of all pairs: (..., n, n) for a of shape (..., n).

    Raises WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    return _fiedler(_vector("linalg.fiedler", "a", a))


@compiled
def _leslie(f: Any, s: Any) -> Any:
    f, s = promoted("linalg.leslie", f, s)
    batch = broadcast_shape("linalg.leslie", f.shape[:-1], s.shape[:-1])
    f = broadcasted(f, (*batch, f.shape[-1]))
    return _below(f, broadcasted(s, (*batch, s.shape[-1])))


@api_boundary
def leslie(f: Any, s: Any) -> Array:
    """The matrix of a population in age groups: births in its first row, survival below.

    f: births, (..., n); s: the parts that survive, (..., n - 1); the result is (..., n, n), s on
    its first diagonal below the main one. Raises ShapeError if lengths do not fit or f has fewer
    than 2 elements, WeftTypeError and DTypeError.

    >>> import weft.numpy as jnp
    >>> leslie(jnp.array([0.1, 2.0]), jnp.array([0.5]))
    Array([[0.1, 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    n, m = _first("linalg.leslie", "f", f, 2), _first("linalg.leslie", "s", s)
    if m != n - 1:
        got = f"f: {type_of(f)}, s: {type_of(s)}"
        raise wrong_shape("linalg.leslie", got, f"an s of {n - 1} elements")
    return _leslie(f, s)


@compiled
def _convolution_matrix(a: Any, *, n: int, mode: str) -> Any:
    m = a.shape[-1]
    low = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    count = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    place = low + _apart(count, n)
    inside = (place >= 0) & (place < m)
    return jnp.where(inside, _taken(a, place), jnp.zeros((), a.dtype))


@api_boundary
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Array:
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
    name = "linalg.convolution_matrix"
    _first(name, "a", a, 1)
    one_of(name, "mode", mode, ("full", "same", "valid"))
    return _convolution_matrix(a, n=at_least(name, "n", n, 1), mode=mode)


def _floating(values: Any) -> Any:
    return jnp.asarray(values.astype(np.float64), dtype=dtypes.default_float())


@api_boundary
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Array:
    """The matrix of the discrete Fourier transform of n elements.

    scale: "sqrtn" divides by the root of n, "n" by n. dtype: complex, by default complex64, or
    complex128 with `enable_x64`. Raises WeftValueError and DTypeError.

    n: the number of rows and of columns, at least 1.

    >>> dft(2)
    Array([[ 1.+0.j,  1.+0.j],
           [ 1.+0.j, -1.+0.j]], dtype=complex64)
    """
    count = at_least("linalg.dft", "n", n, 1)
    one_of("linalg.dft", "scale", "" if scale is None else scale, ("", "sqrtn", "n"))
    place = np.outer(np.arange(count), np.arange(count)) % count
    # Multiples of a quarter turn are exact.
    eighths = np.exp(-2j * np.pi * np.arange(count) / count)
    quarter = np.arange(count) * 4 % count == 0
    eighths[quarter] = (-1j) ** (np.arange(count)[quarter] * 4 // count)
    factor = {None: 1.0, "sqrtn": count**-0.5, "n": 1 / count}[scale]
    default = dtypes.to_complex(dtypes.default_float())
    return jnp.asarray(eighths[place] * factor, dtype=default if dtype is None else dtype)


@api_boundary
def hadamard(n: int, dtype: Any = int) -> Array:
    """A matrix of ones and minus ones with orthogonal rows, n a power of two (Sylvester's).

    n: the number of rows and of columns, a power of two.

    Raises WeftValueError for another n.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    count = at_least("linalg.hadamard", "n", n, 1)
    if count & (count - 1):
        raise wrong_value("linalg.hadamard", f"n={count}", "an n that is a power of two")
    place = np.arange(count)
    odd = np.bitwise_count(place[:, None] & place) % 2
    return jnp.asarray(1 - 2 * odd.astype(int), dtype=dtype)


@api_boundary
def helmert(n: int, full: bool = False) -> Array:
    """The orthonormal rows that compare each element with the mean of those before it.

    Shape (n - 1, n), or with `full` (n, n), a row of equal numbers first. Raises WeftValueError
    for n below 1.

    n: the number of columns, at least 1.

    >>> helmert(2, full=True)
    Array([[ 0.70710677,  0.70710677],
           [ 0.70710677, -0.70710677]], dtype=float32)
    """
    check_flag(full, "linalg.helmert", "full")
    count = at_least("linalg.helmert", "n", n, 1)
    lower = np.tril(np.ones((count, count)), -1) - np.diag(np.arange(count))
    lower[0] = 1
    lengths = np.arange(count) * np.arange(1, count + 1)
    lengths[0] = count
    found = lower / np.sqrt(lengths)[:, None]
    return _floating(found if full else found[1:])


@api_boundary
def hilbert(n: int) -> Array:
    """The matrix of 1 / (i + j + 1), i and j from 0. Raises WeftValueError for n below 0.

    n: the number of rows and of columns.

    >>> hilbert(2)
    Array([[1.        , 0.5       ],
           [0.5       , 0.33333334]], dtype=float32)
    """
    count = np.arange(at_least("linalg.hilbert", "n", n, 0))
    return _floating(1.0 / (count[:, None] + count + 1))


def _elements(n: int, element: Callable[[int, int], float]) -> Array:
    """The matrix of `element(i, j)`, for which memory is taken before anything is computed."""
    found = np.empty((n, n))
    for place in np.ndindex(n, n):
        found[place] = element(*place)
    return _floating(found)


@api_boundary
def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, whose elements are integers, each rounded once.

    n: the number of rows and of columns.

    Raises WeftValueError for n below 0.

    >>> invhilbert(2)
    Array([[ 4., -6.],
           [-6., 12.]], dtype=float32)
    """
    n = at_least("linalg.invhilbert", "n", n, 0)

    def element(i: int, j: int) -> float:
        s = i + j
        value = (s + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(s, i) ** 2
        return float((-1) ** s * value)

    return _elements(n, element)


def _pascal_kind(operation: str, kind: Any) -> str:
    one_of(operation, "kind", "symmetric" if kind is None else kind, _KINDS)
    return kind or "symmetric"


_KINDS = ("symmetric", "lower", "upper")


@api_boundary
def pascal(n: int, kind: str | None = None) -> Array:
    """The matrix of the binomial coefficients i + j over i, floating, each rounded once.

    kind: "lower" has i over j instead, "upper" j over i, "symmetric" (or None) their product.
    Raises WeftValueError for another kind and n below 0.

    n: the number of rows and of columns.

    >>> pascal(3)
    Array([[1., 1., 1.],
           [1., 2., 3.],
           [1., 3., 6.]], dtype=float32)
    """
    n, which = at_least("linalg.pascal", "n", n, 0), _pascal_kind("linalg.pascal", kind)
    element = {
        "symmetric": lambda i, j: comb(i + j, i),
        "lower": comb,
        "upper": lambda i, j: comb(j, i),
    }[which]
    return _elements(n, element)


@api_boundary
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`, whose elements are integers, each rounded once.

    n: the number of rows and of columns; kind: "symmetric" (or None), "lower" or "upper", as in
    `pascal`.

    Raises WeftValueError for another kind and n below 0.

    >>> invpascal(2)
    Array([[ 2., -1.],
           [-1.,  1.]], dtype=float32)
    """
    n, which = at_least("linalg.invpascal", "n", n, 0), _pascal_kind("linalg.invpascal", kind)

    def symmetric(i: int, j: int) -> int:
        return sum(comb(k, i) * comb(k, j) for k in range(max(i, j), n))

    element = {"symmetric": symmetric, "lower": comb, "upper": lambda i, j: comb(j, i)}[which]
    return _elements(n, lambda i, j: (-1) ** (i + j) * element(i, j))
