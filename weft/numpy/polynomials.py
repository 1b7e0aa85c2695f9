"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, overload

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.control_flow.loops import scan
from weft.errors import DTypeError, ShapeError, WeftValueError
from weft.kinds.arguments import (
    Axes,
    Flag,
    Integer,
    Length,
    Number,
    Operand,
    choice,
    common,
    promoted_kind,
)
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import broadcast_shape, broadcasted, computing_dtype, inexact
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import canonical_type
from weft.numpy.choosing import concrete_values
from weft.numpy.creation import Elements, asarray, unlisted, with_lists
from weft.numpy.differences import convolve
from weft.numpy.linear_algebra import matmul
from weft.numpy.ranges import eye
from weft.numpy.reductions import squared_size
from weft.ops.elementwise.arithmetic import add, sqrt, sub
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.slicing import pad, slice, slice_in_dim
from weft.ops.linalg.eig import eig
from weft.ops.linalg.matrices import adjoint
from weft.ops.linalg.svd import svd
from weft.ops.reductions.cumulative import cumprod
from weft.ops.reductions.reduce import restore_axes
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots", "trim_zeros", "vander",
]  # fmt: skip

# Shorter polynomials are written out, longer ones loop.
_WRITTEN_OUT = 16


# ---- kinds ---------------------------------------------------------------------------------------


def _coefficients(value: Any, call: Arguments) -> Any:
    value, name = promoted_kind.take(unlisted(value), call), call.operation
    of = canonical_type(value)
    if of.dtype not in dtypes.ANY:
        message = f"{call.name} holds numbers"
        raise DTypeError(message, got=f"{call.name} of type {of}", wanted="a dtype of numbers")
    # JAX adds arrays of more dimensions as well: their rows are the coefficients.
    if of.ndim > 1 and not (name in ("polyadd", "polysub") and config.lenient()):
        message, got = f"{call.name} has one dimension", f"{call.name} of type {of}"
        wanted = "a vector of coefficients, the highest power first"
        raise ShapeError(message, got=got, wanted=wanted)
    return value


def _common_vectors(operation: str, values: list[Any]) -> list[Any]:
    """Promotes coefficients to one dtype; a number is a constant polynomial."""
    return [x if x.ndim else x.reshape(1) for x in common(operation, values)]


_ENDS = "'f' (front), 'b' (back) or 'fb'"


def _ends(value: Any, call: Arguments) -> str:
    ends = value.lower() if isinstance(value, str) else ""
    if ends not in ("f", "b", "fb", "bf"):
        message = "trim names the ends"
        raise WeftValueError(message, got=f"{call.name}={value!r:.80}", wanted=_ENDS)
    return ends


_coefficients_kind = dataclasses.replace(
    promoted_kind,
    take=_coefficients,
    means="a vector of coefficients",
    wrong=("text", None, np.ones((2, 3))),
    right=np.array([1.0, 2.0, 3.0]),
    arrays=False,
    together=_common_vectors,
)
Polynomial = Annotated[Any, _coefficients_kind]
Values = Annotated[Any, dataclasses.replace(with_lists(promoted_kind), right=np.arange(3.0))]
Covariance = Annotated[bool | str, choice(False, True, "unscaled")]
Ends = Annotated[str, Kind(_ends, _ENDS, ("text", 1))]


# ---- arithmetic ----------------------------------------------------------------------------------


def _zeros(count: int, dtype: Any) -> Any:
    return full((count,), 0, dtype)


def _pad_alike(a1: Any, a2: Any) -> list[Any]:
    """Pads the shorter polynomial with zeros in front."""
    count = max(len(a1), len(a2))
    rest = broadcast_shape(a1.shape[1:], a2.shape[1:])
    both = [broadcasted(x, (len(x), *rest)) for x in (a1, a2)]
    whole = [(0, 0, 0)] * len(rest)
    return [pad(x, x.dtype.type(0), [(count - len(x), 0, 0), *whole]) for x in both]


@array_function
def polyadd(a1: Polynomial, a2: Polynomial) -> Array:
    """The sum of two polynomials, as long as the longer one.

    a1, a2: vectors of coefficients, the highest power first.

    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([9, 5, 4]))
    Array([9, 6, 6], dtype=int32)
    """
    return add(*_pad_alike(a1, a2))


@array_function
def polysub(a1: Polynomial, a2: Polynomial) -> Array:
    """The difference of two polynomials, as long as the longer one.

    a1, a2: vectors of coefficients, the highest power first.

    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([9, 5, 4]))
    Array([-9, -4, -2], dtype=int32)
    """
    return sub(*_pad_alike(a1, a2))


@python_function
def polymul(a1: Polynomial, a2: Polynomial, *, trim_leading_zeros: Flag = False) -> Array:
    """The product of two polynomials, of m + n - 1 coefficients.

    a1, a2: vectors of coefficients, the highest power first. trim_leading_zeros: leaves out zeros
    in front of the operands, as NumPy does; the length then depends on values, which have to be
    known: not under `jit`.

    >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1, 5, 6], dtype=int32)
    """
    if trim_leading_zeros:
        a1, a2 = _trim_front(a1), _trim_front(a2)
    _check_not_empty(a1, a2)
    return convolve(a1, a2)


def _check_not_empty(*polynomials: Any) -> None:
    if not all(p.size for p in polynomials):
        raise WeftValueError("a polynomial has coefficients", got="none", wanted="one or more")


def _trim_front(p: Any) -> Any:
    """Drops zeros in front, but not the last coefficient."""
    nonzero = np.flatnonzero(concrete_values(p, "pass trim_leading_zeros=False"))
    return slice_in_dim(p, int(nonzero[0]) if nonzero.size else max(p.size - 1, 0), None)


@python_function
def polydiv(
    u: Polynomial, v: Polynomial, *, trim_leading_zeros: Flag = False
) -> tuple[Array, Array]:
    """The quotient and the remainder of polynomials, in a floating-point dtype.

    u, v: vectors of coefficients, the highest power first. The quotient has max(m - n + 1, 1)
    coefficients, the remainder as many as `u`, with zeros in front, which `trim_leading_zeros`
    leaves out where values are known.

    >>> jnp.polydiv(jnp.array([3.0, 5.0, 2.0]), jnp.array([2.0, 1.0]))
    (Array([1.5 , 1.75], dtype=float32), Array([0.  , 0.  , 0.25], dtype=float32))
    """
    _check_not_empty(u, v)
    quotient, remainder = _division(u, v)
    return quotient, _trim_front(remainder) if trim_leading_zeros else remainder


@array_function
def _division(u: Operand, v: Operand) -> Any:
    dtype = inexact(u.dtype)
    u, v = u.astype(dtype), v.astype(dtype)
    rank = v.size - 1
    steps = u.size - rank
    if steps < 1:
        return _zeros(1, dtype), u
    leading = v[0]
    below = pad(slice_in_dim(v, 1, None), dtype.type(0), [(0, steps - 1, 0)])

    def step(rest: Any, _: Any) -> tuple[Any, Any]:
        factor = rest[0] / leading
        moved = slice_in_dim(rest, 1, None) - factor * below
        return concatenate([moved, _zeros(1, dtype)], 0), factor

    rest, quotient = scan(step, u, None, steps)
    return quotient, concatenate([_zeros(steps, dtype), slice_in_dim(rest, 0, rank)], 0)


@array_function
def polyval(p: Values, x: Values, *, unroll: Integer = 16) -> Array:
    """The values of a polynomial at `x`, by Horner's rule; of x's shape.

    `p` may have more dimensions, which are broadcast against `x`: then its rows are the
    coefficients. unroll: how many steps one round of the loop takes, if there are many.

    >>> jnp.polyval(jnp.array([3, 0, 1]), 5)
    Array(76, dtype=int32)
    """
    if not p.ndim:
        wanted = "coefficients, the highest power first"
        raise ShapeError("p has one dimension or more", got=str(p.type), wanted=wanted)
    if unroll < 1:
        raise WeftValueError("unroll is positive", got=f"unroll={unroll}", wanted="1")
    shape = broadcast_shape(p.shape[1:], x.shape)
    x = broadcasted(x, shape)

    def step(total: Any, row: Any) -> tuple[Any, None]:
        return total * x + broadcasted(row, shape), None

    if len(p) > _WRITTEN_OUT:
        return scan(step, full(shape, 0, p.dtype), p, unroll=min(unroll, len(p)))[0]
    total = broadcasted(p[0], shape) if len(p) else full(shape, 0, p.dtype)
    for i in range(1, len(p)):
        total = step(total, p[i])[0]
    return total


# ---- derivatives and integrals -------------------------------------------------------------------


def _products(low: Any, high: Any, dtype: Any) -> Any:
    """The product of the integers above `low` up to `high`, for each pair."""
    out = [math.prod(range(a + 1, b + 1)) for a, b in zip(low, high, strict=True)]
    return asarray(np.array(out, float).astype(dtype), dtype=dtype)


@array_function
def polyder(p: Polynomial, m: Length = 1) -> Array:
    """The m-th derivative of a polynomial, m coefficients shorter.

    p: a vector of coefficients, the highest power first; m: how often the derivative is taken.

    >>> jnp.polyder(jnp.array([1, 2, 3]))
    Array([2, 2], dtype=int32)
    """
    if m == 0:
        return p
    dtype = dtypes.default_int() if p.dtype == dtypes.bool_ else p.dtype
    powers = range(p.size - 1, m - 1, -1)
    factors = _products([k - m for k in powers], powers, dtype)
    return slice_in_dim(p, 0, max(p.size - m, 0)) * factors


@array_function
def polyint(p: Polynomial, m: Length = 1, k: Polynomial | None = None) -> Array:
    """The m-th integral of a polynomial, m coefficients longer, in a floating-point dtype.

    p: a vector of coefficients, the highest power first; m: how often it is integrated. k: the
    constants of integration, that of the first integration first: m numbers, one for all, or None
    for zeros.

    >>> jnp.polyint(jnp.array([6.0, 2.0]), k=5.0)
    Array([3., 2., 5.], dtype=float32)
    """
    if k is not None and k.size not in (1, m) and not (m == 0 and k.size == 0):
        got = f"{k.size} constants for m={m}"
        wanted = f"{m} constants, or one"
        raise ShapeError("k has one constant per integration", got=got, wanted=wanted)
    dtype = inexact(p.dtype)
    p = p.astype(dtype)
    if not m:
        return p
    constants = _zeros(m, dtype) if k is None else broadcasted(k.astype(dtype), (m,))
    # A coefficient goes up m powers; constant j goes up as many as integrations follow.
    high = range(p.size + m - 1, -1, -1)
    low = [max(power - m, 0) if i < p.size else 0 for i, power in enumerate(high)]
    return concatenate([p, constants], 0) / _products(low, high, dtype)


# ---- powers and roots ----------------------------------------------------------------------------


@array_function
def vander(x: Elements, N: Length | None = None, increasing: Flag = False) -> Array:
    """The matrix of powers of a vector: column j has x to the power N - 1 - j, shape (n, N).

    x: a vector. N: by default the length of `x`; increasing: the powers go up from 0. Raises
    ShapeError if `x` is no vector, WeftValueError for a negative N.

    >>> jnp.vander(jnp.array([1, 2, 3]), 3)
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    if x.ndim != 1:
        raise ShapeError("it takes a vector", got=str(x.type), wanted="(n,)")
    return _powers(x, x.size if N is None else N, increasing)


def _powers(x: Any, count: int, increasing: bool) -> Any:
    """The powers of each element, the highest first unless `increasing`."""
    if x.dtype == dtypes.bool_:
        x = x.astype(dtypes.default_int())
    if not count:
        return full((x.size, 0), 0, x.dtype)
    # Cumulative products, as in NumPy: a power for each would cost more and be less exact.
    factors = broadcast_in_dim(x, (x.size, count - 1), (0,))
    out = cumprod(concatenate([full((x.size, 1), 1, x.dtype), factors], 1), 1)
    return out if increasing else rev(out, (1,))


@array_function
def poly(seq_of_zeros: Elements) -> Array:
    """The coefficients of the polynomial with given roots and leading coefficient 1.

    seq_of_zeros: the roots, a vector, or a square matrix. For a square matrix, its characteristic
    polynomial. n roots give n + 1 coefficients. Of complex roots the result is complex (NumPy
    returns real numbers where roots are conjugate pairs, which depends on values). Raises
    ShapeError for other shapes.

    >>> jnp.poly(jnp.array([1.0, -1.0]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    z = seq_of_zeros
    if z.ndim > 2 or (z.ndim == 2 and z.shape[0] != z.shape[1]):
        message = "it takes a vector of roots or a square matrix"
        raise ShapeError(message, got=str(z.type), wanted="shape (n,) or (n, n)")
    if z.ndim == 1 and not z.size:
        return full((), 1, inexact(z.dtype))
    # The eigenvalues of a real matrix come in conjugate pairs.
    real = z.ndim == 2 and z.dtype not in dtypes.COMPLEX and not config.lenient()
    z = z.astype(inexact(z.dtype))
    z = _eigenvalues(z) if z.ndim == 2 else z.reshape(z.size)
    row = concatenate([full((1,), 1, z.dtype), _zeros(z.size, z.dtype)], 0)

    def step(a: Any, root: Any) -> tuple[Any, None]:
        moved = concatenate([_zeros(1, z.dtype), slice_in_dim(a, 0, z.size)], 0)
        return a - root * moved, None

    out = scan(step, row, z)[0]
    return out.real if real else out


def _eigenvalues(a: Any) -> Any:
    if not len(a):
        return _zeros(0, dtypes.to_complex(a.dtype))
    a = a.astype(dtypes.float32) if a.dtype.itemsize < 4 else a
    (out,) = eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return out


@python_function
def roots(p: Polynomial, *, strip_zeros: Flag = True) -> Array:
    """The roots of a polynomial, complex, as eigenvalues of its companion matrix.

    p: a vector of coefficients, the highest power first. strip_zeros: zeros in front, which make
    fewer roots, are left out; that depends on values, which have to be known. With False there is
    always one root fewer than coefficients, and the last ones are NaN where zeros are in front.
    Edelman and Murakami (1995) analyse the accuracy. Raises ConcretizationError under `jit` with
    strip_zeros=True.

    >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real)
    Array([1., 2.], dtype=float32)
    """
    if not strip_zeros:
        return _roots_of_any(p)
    places = np.flatnonzero(concrete_values(p, "pass strip_zeros=False"))
    dtype = dtypes.to_complex(inexact(p.dtype))
    if not places.size:
        return _zeros(0, dtype)
    first, last = int(places[0]), int(places[-1])
    out = _roots(slice_in_dim(p, first, last + 1))
    zeros = p.size - 1 - last
    return concatenate([out, _zeros(zeros, dtype)], 0) if zeros else out


def _companion_roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix; the first coefficient is not zero."""
    count = p.size - 1
    if count < 1:
        return _zeros(0, dtypes.to_complex(p.dtype))
    top = -(slice_in_dim(p, 1, None) / p[0])
    below = eye(count - 1, count, dtype=p.dtype)
    return _eigenvalues(concatenate([top.reshape(1, count), below], 0))


@array_function
def _roots(p: Operand) -> Array:
    return _companion_roots(p.astype(inexact(p.dtype)))


@array_function
def _roots_of_any(p: Operand) -> Array:
    p, count = p.astype(inexact(p.dtype)), p.size
    if count < 2:
        return _zeros(0, dtypes.to_complex(p.dtype))
    places = iota(dtypes.int32, count)
    front = select(p == 0, full((count,), count, np.int32), places).min()
    moved = p[(places + front) % count]
    # A polynomial of zeros has no roots: those of another one are computed and become NaN.
    one = select(places == 0, p * 0 + 1, p * 0)
    out = _companion_roots(select(broadcasted(front == count, (count,)), one, moved))
    # Each zero moved to the end has made a root 0: the smallest ones are not roots of p.
    out = out[(-abs(out)).argsort()]
    nan = full(out.shape, complex(np.nan, np.nan), out.dtype)
    return select(places[1:] < count - front, out, nan)


# ---- least squares -------------------------------------------------------------------------------


@overload
def polyfit(x: Any, y: Any, deg: int, rcond: float | None = ..., *, w: Any = ...) -> Array: ...
@overload
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = ...,
    full: bool = ...,
    w: Any = ...,
    cov: bool | str = ...,
) -> Any: ...
@array_function
def polyfit(
    x: Values,
    y: Values,
    deg: Integer,
    rcond: Number | None = None,
    full: Flag = False,
    w: Values | None = None,
    cov: Covariance = False,
) -> Any:
    """The coefficients of the polynomial of degree `deg` with the least squared error at points.

    x: shape (m,); y: (m,) or (m, k), one polynomial per column; the result is (deg + 1,) or
    (deg + 1, k). rcond: singular values below this part of the largest count as 0, by default
    m times the machine epsilon. w: weights of the differences, not of their squares. full: also the
    squared errors (shape (k,), or (1,)), the rank, the singular values and rcond. cov: also the
    covariance of the coefficients, (deg + 1, deg + 1) or that by k; "unscaled": for weights that
    are 1 / sigma, one matrix for all columns, with k = 1. The columns of powers are scaled to
    length 1 and solved by singular values.

    Raises ShapeError for shapes that do not fit, WeftValueError for a negative degree, for no
    points, and where `cov` has too few of them.

    >>> x = jnp.arange(4.0)
    >>> jnp.round(jnp.polyfit(x, 2 * x + 1, 1), 4)
    Array([2., 1.], dtype=float32)
    """
    order = deg + 1
    _check_points(order, x, y, w)
    x = x.reshape(x.size)
    dtype, count = inexact(x.dtype), x.size
    if rcond is None:
        rcond = count * float(dtypes.finfo(dtype).eps)
    if cov and not full and cov != "unscaled" and count <= order:
        message = "there are too few points to scale the covariance"
        got = f"{count} points for {order} coefficients"
        wanted = "more points than coefficients, or cov='unscaled'"
        raise WeftValueError(message, got=got, wanted=wanted)
    c, residuals, rank, singular, base = _fit(x, y, w, order, rcond)
    if full:
        return c, residuals, rank, singular, asarray(rcond, dtype=dtypes.to_real(dtype))
    if not cov:
        return c
    if cov == "unscaled":
        return c, base if y.ndim == 1 else base[:, :, None]
    scale = residuals / (count - order)
    return c, base * scale[0] if y.ndim == 1 else base[:, :, None] * scale


def _check_points(order: int, x: Any, y: Any, w: Any) -> None:
    if x.ndim > 1:
        raise ShapeError("x has one dimension", got=f"x of type {x.type}", wanted="a vector")
    if order < 1:
        raise WeftValueError("deg is not negative", got=f"deg={order - 1}", wanted="0 or more")
    if not x.size:
        got = f"x of type {x.type}"
        raise WeftValueError("there are no points", got=got, wanted="one or more")
    if y.ndim not in (1, 2) or len(y) != x.size:
        got = f"x of type {x.type}, y of type {y.type}"
        wanted = f"shape ({x.size},) or ({x.size}, k)"
        raise ShapeError("y has one row per point", got=got, wanted=wanted)
    if w is not None and w.shape != (x.size,):
        got, wanted = f"w of type {w.type}", f"shape ({x.size},)"
        raise ShapeError("w has one weight per point", got=got, wanted=wanted)


def _fit(x: Any, y: Any, w: Any, order: int, rcond: Any) -> tuple[Any, ...]:
    """The coefficients, squared errors, the rank, the singular values, and the covariance."""
    dtype, real_dtype = inexact(x.dtype), dtypes.to_real(inexact(x.dtype))
    work = computing_dtype(dtype)
    powers = _powers(x.astype(work), order, False)
    columns = y.astype(work).reshape(len(y), -1)
    if w is not None:
        w = w.astype(work)
        powers = powers * restore_axes(w, powers.shape, (1,))
        columns = columns * restore_axes(w, columns.shape, (1,))
    length = sqrt(squared_size(powers).sum(0))
    empty = length == 0  # every weight is 0
    scale = select(empty, length + 1, length).astype(work)
    scaled = powers / scale
    c, inverse, s, large = _least_squares(scaled, columns, rcond)
    errors = matmul(scaled, c, precision="highest") - columns
    c = c / restore_axes(scale, c.shape, (1,))
    base = matmul(inverse, adjoint(inverse), precision="highest")
    base = base / restore_axes(scale, base.shape, (1,)) / scale
    return (
        (c.reshape(order) if y.ndim == 1 else c).astype(dtype),
        squared_size(errors).sum(0).astype(real_dtype),
        large.sum(dtype=dtypes.int32),
        s.astype(real_dtype),
        base.astype(dtype),
    )


def _least_squares(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    """The solution, the pseudoinverse times an orthogonal matrix, the singular values, and the mask
    of those that count."""
    u, s, vh = svd(a, full_matrices=False)
    large = s > s[:1] * rcond
    factors = select(large, 1 / select(large, s, s * 0 + 1), s * 0).astype(a.dtype)
    inverse = adjoint(vh) * factors
    right = matmul(adjoint(u), b, precision="highest")
    return matmul(inverse, right, precision="highest"), inverse, s, large


# ---- zeros at the ends ---------------------------------------------------------------------------


@python_function
def trim_zeros(filt: Elements, trim: Ends = "fb", axis: Axes = None) -> Array:
    """An array without zeros at the front ("f") and the back ("b") of its axes.

    filt: an array of any shape. trim: "f", "b", or "fb" for both ends. axis: the axes that are cut,
    None for all: hyperplanes in which everything is 0. The shape depends on values, which have to
    be known: raises ConcretizationError under `jit`.

    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    otherwise = "call trim_zeros outside of the traced function, and pass it the result"
    places = np.nonzero(np.atleast_1d(concrete_values(filt, otherwise)))
    low, high = [0] * filt.ndim, list(filt.shape)
    for d in axis:
        nonzero = places[d]
        if "f" in trim:
            low[d] = int(nonzero.min()) if nonzero.size else high[d]
        if "b" in trim:
            high[d] = int(nonzero.max()) + 1 if nonzero.size else low[d]
    return slice(filt, low, high)
