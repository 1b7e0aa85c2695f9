"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft import config, dtypes
from weft.argument_errors import integer_of, invalid_dtype, invalid_value, negative_value, refusal
from weft.arrays.array import Array
from weft.control_flow.loops import scan
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import ConcretizationError, Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    axes_of,
    broadcast_shape,
    broadcasted,
    check_choice,
    check_flag,
    combined,
    computing_dtype,
    convert,
    inexact,
    operand,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import promote_operands
from weft.numpy.creation import asarray, unlisted
from weft.numpy.differences import convolve
from weft.numpy.joining import concatenate
from weft.numpy.linear_algebra import matmul
from weft.numpy.ranges import eye
from weft.numpy.reductions import squared_size
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, eq, gt, lt, mul, neg, sqrt, sub
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import iota
from weft.ops.indexing.slicing import pad, slice, slice_in_dim
from weft.ops.linalg.eig import eig
from weft.ops.linalg.matrices import adjoint
from weft.ops.linalg.svd import svd
from weft.ops.reductions.cumulative import cumprod
from weft.ops.structural.joining import rev
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval",
    "roots", "trim_zeros", "vander",
]  # fmt: skip

# Shorter polynomials are written out, longer ones loop.
_WRITTEN_OUT = 16


def _count(p: Any) -> int:
    return type_of(p).shape[0]


# JAX adds arrays of more dimensions as well: their rows are the coefficients.
_ROWWISE = frozenset({"polyadd", "polysub"})


def _vector(operation: str, p: Any, argument: str) -> Any:
    """Coefficients as a vector; a number is a constant polynomial. Raises ShapeError for more."""
    p = operand(operation, unlisted(p))
    of = type_of(p)
    if of.dtype not in dtypes.ANY:
        message = f"{operation}: {argument} holds numbers"
        raise invalid_dtype(message, operation, argument, of, "a dtype of numbers")
    if of.ndim > 1 and not (operation in _ROWWISE and config.settings().argument_rule == "jax"):
        message = f"{operation}: {argument} has one dimension"
        wanted = "a vector of coefficients, the highest power first"
        raise refusal(ShapeError, message, operation, f"{argument} of type {of}", wanted)
    return reshape(p, (1,)) if not of.ndim else p


def _vectors(operation: str, **polynomials: Any) -> list[Any]:
    """The coefficient vectors of several arguments, promoted to a common dtype."""
    met = promote_operands(operation, *map(unlisted, polynomials.values()))
    return [_vector(operation, p, argument) for argument, p in zip(polynomials, met, strict=True)]


def _order(operation: str, m: Any) -> int:
    order = integer_of(m, operation, "m")
    if order < 0:
        raise negative_value(operation, "m", order, "how many times, 0 or more")
    return order


def _zeros(count: int, dtype: Any) -> Any:
    return broadcast_in_dim(dtype.type(0), (count,), ())


def _item(p: Any, i: int) -> Any:
    """Row i, without its dimension."""
    return reshape(slice_in_dim(p, i, i + 1, axis=0), type_of(p).shape[1:])


def _aligned(operation: str, a1: Any, a2: Any) -> list[Any]:
    """Both polynomials in one dtype and length, zeros put in front of the shorter one."""
    both = promoted(operation, *_vectors(operation, a1=a1, a2=a2))
    count = max(_count(x) for x in both)
    rest = broadcast_shape(operation, *(type_of(x).shape[1:] for x in both))
    both = [broadcasted(x, (_count(x), *rest), operation) for x in both]
    whole = [(0, 0, 0)] * len(rest)
    return [pad(x, type_of(x).dtype.type(0), [(count - _count(x), 0, 0), *whole]) for x in both]


def polyadd(a1: Any, a2: Any) -> Array:
    """The sum of two polynomials, as long as the longer one.

    a1, a2: vectors of coefficients, the highest power first.

    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([9, 5, 4]))
    Array([9, 6, 6], dtype=int32)
    """
    return combined("polyadd", add, *_aligned("polyadd", a1, a2))


def polysub(a1: Any, a2: Any) -> Array:
    """The difference of two polynomials, as long as the longer one.

    a1, a2: vectors of coefficients, the highest power first.

    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([9, 5, 4]))
    Array([-9, -4, -2], dtype=int32)
    """
    return combined("polysub", sub, *_aligned("polysub", a1, a2))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, of m + n - 1 coefficients.

    a1, a2: vectors of coefficients, the highest power first. trim_leading_zeros: leaves out zeros
    in front of the operands, as NumPy does; the length then depends on values, which have to be
    known: not under `jit`.

    >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1, 5, 6], dtype=int32)
    """
    check_flag(trim_leading_zeros, "polymul", "trim_leading_zeros")
    both = _vectors("polymul", a1=a1, a2=a2)
    if trim_leading_zeros:
        both = [_without_front("polymul", x) for x in both]
    for x in both:
        if not type_of(x).size:
            raise _empty("polymul")
    return convolve(*both)


def _empty(operation: str) -> WeftValueError:
    message = f"{operation}: a polynomial has coefficients"
    return refusal(WeftValueError, message, operation, "none", "one or more")


def _without_front(operation: str, p: Any) -> Any:
    """A polynomial without zeros in front, one coefficient at least."""
    found = np.flatnonzero(_known(operation, p, "pass trim_leading_zeros=False"))
    first = int(found[0]) if found.size else max(type_of(p).size - 1, 0)
    return slice_in_dim(p, first, None, axis=0)


def _known(operation: str, p: Any, otherwise: str) -> np.ndarray[Any, Any]:
    if isinstance(p, Tracer):
        why = "the length of the result depends on values"
        message = f"{operation}: {why}, which are not known while a function is traced"
        fix = Fix("argument", otherwise)
        raise refusal(ConcretizationError, message, operation, str(type_of(p)), "known values", fix)
    return np.asarray(p)


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of polynomials, in a floating-point dtype.

    u, v: vectors of coefficients, the highest power first. The quotient has max(m - n + 1, 1)
    coefficients, the remainder as many as `u`, with zeros in front, which `trim_leading_zeros`
    leaves out where values are known.

    >>> jnp.polydiv(jnp.array([3.0, 5.0, 2.0]), jnp.array([2.0, 1.0]))
    (Array([1.5 , 1.75], dtype=float32), Array([0.  , 0.  , 0.25], dtype=float32))
    """
    check_flag(trim_leading_zeros, "polydiv", "trim_leading_zeros")
    u, v = promoted("polydiv", *_vectors("polydiv", u=u, v=v))
    if not type_of(u).size or not type_of(v).size:
        raise _empty("polydiv")
    quotient, remainder = _polydiv(u, v)
    return quotient, _without_front("polydiv", remainder) if trim_leading_zeros else remainder


@compiled
def _polydiv(u: Any, v: Any) -> Any:
    dtype = inexact(type_of(u).dtype)
    u, v = convert(u, dtype), convert(v, dtype)
    count, size, rank = type_of(u).size, type_of(v).size, type_of(v).size - 1
    steps = count - rank
    if steps < 1:
        return _zeros(1, dtype), u
    leading = _item(v, 0)
    below = pad(slice_in_dim(v, 1, None, axis=0), dtype.type(0), [(0, count - size, 0)])

    def step(rest: Any, _: Any) -> tuple[Any, Any]:
        factor = div(_item(rest, 0), leading)
        moved = sub(slice_in_dim(rest, 1, None, axis=0), mul(factor, below))
        return concatenate([moved, _zeros(1, dtype)], 0), factor

    rest, quotient = scan(step, u, None, steps)
    return quotient, concatenate([_zeros(steps, dtype), slice_in_dim(rest, 0, rank, axis=0)], 0)


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Array:
    """The values of a polynomial at `x`, by Horner's rule; of x's shape.

    `p` may have more dimensions, which are broadcast against `x`: then its rows are the
    coefficients. unroll: how many steps one round of the loop takes, if there are many.

    >>> jnp.polyval(jnp.array([3, 0, 1]), 5)
    Array(76, dtype=int32)
    """
    p, x = promote_operands("polyval", unlisted(p), unlisted(x))
    if not type_of(p).ndim:
        message = "polyval: p has one dimension or more"
        got = str(type_of(p))
        raise refusal(ShapeError, message, "polyval", got, "coefficients, the highest power first")
    rounds = integer_of(unroll, "polyval", "unroll")
    if rounds < 1:
        raise invalid_value("polyval: unroll is positive", "polyval", "unroll", rounds, "1")
    shape = np.broadcast_shapes(type_of(p).shape[1:], type_of(x).shape)
    p, x = promoted("polyval", p, x)
    return _polyval(p, x, shape=shape, unroll=rounds)


@compiled
def _polyval(p: Any, x: Any, *, shape: Any, unroll: int) -> Any:
    x, count = broadcasted(x, shape), type_of(p).shape[0]
    start = broadcast_in_dim(type_of(p).dtype.type(0), shape, ())

    def step(total: Any, row: Any) -> tuple[Any, None]:
        return add(mul(total, x), broadcasted(row, shape)), None

    if count > _WRITTEN_OUT:
        return scan(step, start, p, unroll=min(unroll, count))[0]
    for i in range(count):
        row = _item(p, i)
        start = step(start, row)[0] if i else broadcasted(row, shape)
    return start


def polyder(p: Any, m: int = 1) -> Array:
    """The m-th derivative of a polynomial, m coefficients shorter.

    p: a vector of coefficients, the highest power first; m: how often the derivative is taken.

    >>> jnp.polyder(jnp.array([1, 2, 3]))
    Array([2, 2], dtype=int32)
    """
    order = _order("polyder", m)
    p = _vector("polyder", p, "p")
    if order == 0:
        return slice_in_dim(p, 0, None, axis=0)
    count, dtype = type_of(p).size, type_of(p).dtype
    kept = slice_in_dim(p, 0, max(count - order, 0), axis=0)
    dtype = dtypes.default_int() if dtype == dtypes.bool_ else dtype
    powers = range(count - 1, order - 1, -1)
    factors = np.array([math.prod(range(k - order + 1, k + 1)) for k in powers], float)
    return mul(*promoted("polyder", kept, asarray(factors.astype(dtype), dtype=dtype)))


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The m-th integral of a polynomial, m coefficients longer, in a floating-point dtype.

    p: a vector of coefficients, the highest power first; m: how often it is integrated. k: the
    constants of integration, that of the first integration first: m numbers, one for all, or None
    for zeros.

    >>> jnp.polyint(jnp.array([6.0, 2.0]), k=5.0)
    Array([3., 2., 5.], dtype=float32)
    """
    order = _order("polyint", m)
    p, k_vector = _vectors("polyint", p=p, k=0 if k is None else k)
    given = type_of(k_vector).size
    if given not in (1, order) and not (k is not None and order == 0 and given == 0):
        message = "polyint: k has one constant per integration"
        got = f"{given} constants for m={order}"
        raise refusal(ShapeError, message, "polyint", got, f"{order} constants, or one")
    p, k_vector = promoted("polyint", p, k_vector)
    dtype = inexact(type_of(p).dtype)
    p = convert(p, dtype)
    if not order:
        return p
    constants = broadcasted(convert(k_vector, dtype), (order,))
    whole = concatenate([p, constants], 0)
    count, total = type_of(p).size, type_of(p).size + order
    # A coefficient goes up `order` powers; constant j goes up as many as integrations follow.
    powers = np.arange(total - 1, -1, -1)
    low = np.concatenate([powers[:count] - order, np.zeros(order, int)])
    factors = np.array(
        [math.prod(range(a + 1, b + 1)) for a, b in zip(low, powers, strict=True)], float
    )
    return div(whole, asarray(factors.astype(dtype), dtype=dtype))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of powers of a vector: column j has x to the power N - 1 - j, shape (n, N).

    x: a vector. N: by default the length of `x`; increasing: the powers go up from 0. Raises
    ShapeError if `x` is no vector, WeftValueError for a negative N.

    >>> jnp.vander(jnp.array([1, 2, 3]), 3)
    Array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]], dtype=int32)
    """
    check_flag(increasing, "vander", "increasing")
    x = operand("vander", unlisted(x))
    of = type_of(x)
    if of.ndim != 1:
        raise ShapeError("vander takes a vector", operation="vander", got=str(of), wanted="(n,)")
    count = of.size if N is None else integer_of(N, "vander", "N")
    if count < 0:
        raise negative_value("vander", "N", count, "0 or more")
    return _vander(x, count=count, increasing=bool(increasing))


@compiled
def _vander(x: Any, *, count: int, increasing: bool) -> Any:
    if type_of(x).dtype == dtypes.bool_:
        x = convert(x, dtypes.default_int())
    of = type_of(x)
    if not count:
        return broadcast_in_dim(of.dtype.type(0), (of.size, 0), ())
    # Cumulative products, as in NumPy: a power for each would cost more and be less exact.
    ones = broadcast_in_dim(of.dtype.type(1), (of.size, 1), ())
    factors = broadcast_in_dim(x, (of.size, count - 1), (0,))
    powers = cumprod(concatenate([ones, factors], 1), 1)
    return powers if increasing else rev(powers, (1,))


def poly(seq_of_zeros: Any) -> Array:
    """The coefficients of the polynomial with given roots and leading coefficient 1.

    seq_of_zeros: the roots, a vector, or a square matrix. For a square matrix, its characteristic
    polynomial. n roots give n + 1 coefficients. Of complex roots the result is complex (NumPy
    returns real numbers where roots are conjugate pairs, which depends on values). Raises
    ShapeError for other shapes.

    >>> jnp.poly(jnp.array([1.0, -1.0]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    z = operand("poly", unlisted(seq_of_zeros))
    of = type_of(z)
    if of.ndim > 2 or (of.ndim == 2 and of.shape[0] != of.shape[1]):
        message = "poly takes a vector of roots or a square matrix"
        raise refusal(ShapeError, message, "poly", str(of), "shape (n,) or (n, n)")
    if of.ndim == 1 and not of.size:
        return asarray(1, inexact(of.dtype))
    real = of.dtype not in dtypes.COMPLEX and config.settings().argument_rule != "jax"
    return _poly(reshape(z, (1,)) if not of.ndim else z, real_matrix=real)


def _eigenvalues(a: Any) -> Any:
    of = type_of(a)
    if not of.shape[0]:
        return _zeros(0, dtypes.to_complex(of.dtype))
    a = convert(a, dtypes.float32) if of.dtype.itemsize < 4 else a
    (found,) = eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)
    return found


@compiled
def _poly(z: Any, *, real_matrix: bool) -> Any:
    z = convert(z, inexact(type_of(z).dtype))
    matrix = type_of(z).ndim == 2
    if matrix:
        z = _eigenvalues(z)
    dtype, count = type_of(z).dtype, type_of(z).size
    row = concatenate([broadcast_in_dim(dtype.type(1), (1,), ()), _zeros(count, dtype)], 0)

    def step(a: Any, root: Any) -> tuple[Any, None]:
        moved = concatenate([_zeros(1, dtype), slice_in_dim(a, 0, count, axis=0)], 0)
        return sub(a, mul(root, moved)), None

    out = scan(step, row, z)[0]
    # The eigenvalues of a real matrix come in conjugate pairs.
    return real(out) if matrix and real_matrix else out


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, complex, as eigenvalues of its companion matrix.

    p: a vector of coefficients, the highest power first. strip_zeros: zeros in front, which make
    fewer roots, are left out; that depends on values, which have to be known. With False there is
    always one root fewer than coefficients, and the last ones are NaN where zeros are in front.
    Edelman and Murakami (1995) analyse the accuracy. Raises ConcretizationError under `jit` with
    strip_zeros=True.

    >>> jnp.sort(jnp.roots(jnp.array([1.0, -3.0, 2.0])).real)
    Array([1., 2.], dtype=float32)
    """
    check_flag(strip_zeros, "roots", "strip_zeros")
    p = _vector("roots", p, "p")
    p = convert(p, inexact(type_of(p).dtype))
    if not strip_zeros:
        return _roots_of_any(p)
    places = np.flatnonzero(_known("roots", p, "pass strip_zeros=False"))
    dtype = dtypes.to_complex(type_of(p).dtype)
    if not places.size:
        return _zeros(0, dtype)
    first, last = int(places[0]), int(places[-1])
    found = _roots(slice_in_dim(p, first, last + 1, axis=0))
    zeros = type_of(p).size - 1 - last
    return concatenate([found, _zeros(zeros, dtype)], 0) if zeros else found


@compiled
def _roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix; the first coefficient is not zero."""
    of = type_of(p)
    count = of.size - 1
    if count < 1:
        return _zeros(0, dtypes.to_complex(of.dtype))
    first = broadcasted(slice_in_dim(p, 0, 1, axis=0), (count,))
    top = reshape(neg(div(slice_in_dim(p, 1, None, axis=0), first)), (1, count))
    below = eye(count - 1, count, dtype=of.dtype)
    return _eigenvalues(concatenate([top, below], 0))


@compiled
def _roots_of_any(p: Any) -> Any:
    of = type_of(p)
    count = of.size
    if count < 2:
        return _zeros(0, dtypes.to_complex(of.dtype))
    places = iota(dtypes.int32, count)
    end = broadcasted(np.int32(count), (count,))
    front = select(eq(p, _zeros(count, of.dtype)), end, places).min()
    moved = p[(places + front) % np.int32(count)]
    # A polynomial of zeros has no roots: those of another one are computed and become NaN.
    one = select(eq(places, places * 0), p * 0 + 1, p * 0)
    found = _roots.function(select(eq(broadcasted(front, (count,)), end), one, moved))
    # Each zero moved to the end has made a root 0: the smallest ones are not roots of p.
    found = found[neg(abs_(found)).argsort()]
    true_ones = lt(places[1:], end[1:] - broadcasted(front, (count - 1,)))
    nan = type_of(found).dtype.type(complex(np.nan, np.nan))
    return select(true_ones, found, broadcast_in_dim(nan, (count - 1,), ()))


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
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Any = None,
    cov: bool | str = False,
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
    check_flag(full, "polyfit", "full")
    check_choice(cov, (False, True, "unscaled"), "polyfit", "cov")
    order = integer_of(deg, "polyfit", "deg") + 1
    x = _vector("polyfit", x, "x")
    given = (y,) if w is None else (y, w)
    x, y, *more = promote_operands("polyfit", x, *map(unlisted, given))
    _check_points(order, type_of(x), type_of(y), type_of(more[0]) if more else None)
    x, y, *more = promoted("polyfit", x, y, *more)
    dtype = inexact(type_of(x).dtype)
    count = type_of(x).size
    if rcond is None:
        rcond = count * float(dtypes.finfo(dtype).eps)
    if cov and not full and cov != "unscaled" and count <= order:
        message = "polyfit: there are too few points to scale the covariance"
        got = f"{count} points for {order} coefficients"
        wanted = "more points than coefficients, or cov='unscaled'"
        raise refusal(WeftValueError, message, "polyfit", got, wanted)
    c, residuals, rank, singular, base = _polyfit(x, y, *more, order=order, rcond=float(rcond))
    if full:
        return c, residuals, rank, singular, asarray(rcond, dtype=dtypes.to_real(dtype))
    if not cov:
        return c
    if cov == "unscaled":
        return c, base if type_of(y).ndim == 1 else base[:, :, None]
    scale = residuals / (count - order)
    return c, base * scale[0] if type_of(y).ndim == 1 else base[:, :, None] * scale


def _check_points(order: int, x: Any, y: Any, w: Any) -> None:
    if order < 1:
        message, got = "polyfit: deg is not negative", f"deg={order - 1}"
        raise refusal(WeftValueError, message, "polyfit", got, "0 or more")
    if not x.size:
        message, got = "polyfit: there are no points", f"x of type {x}"
        raise refusal(WeftValueError, message, "polyfit", got, "one or more")
    if y.ndim not in (1, 2) or y.shape[0] != x.size:
        message, got = "polyfit: y has one row per point", f"x of type {x}, y of type {y}"
        raise refusal(ShapeError, message, "polyfit", got, f"shape ({x.size},) or ({x.size}, k)")
    if w is not None and w.shape != (x.size,):
        message = "polyfit: w has one weight per point"
        raise refusal(ShapeError, message, "polyfit", f"w of type {w}", f"shape ({x.size},)")


@compiled
def _polyfit(x: Any, y: Any, *weights: Any, order: int, rcond: float) -> Any:
    dtype, real_dtype = inexact(type_of(x).dtype), dtypes.to_real(inexact(type_of(x).dtype))
    work = computing_dtype(dtype)
    x, y = convert(x, work), convert(y, work)
    powers, count = _vander.function(x, count=order, increasing=False), type_of(x).size
    columns = y if type_of(y).ndim == 2 else reshape(y, (count, 1))
    for weight in weights:
        w = convert(weight, work)
        powers = mul(powers, broadcast_in_dim(w, (count, order), (0,)))
        columns = mul(columns, broadcast_in_dim(w, type_of(columns).shape, (0,)))
    length = sqrt(reduce_sum(squared_size(powers), (0,)))
    empty = eq(length, _zeros(order, type_of(length).dtype))  # every weight is 0
    scale = convert(select(empty, length + 1, length), work)
    scaled = div(powers, broadcast_in_dim(scale, (count, order), (1,)))
    c, inverse, s, kept = _least_squares(scaled, columns, rcond)
    errors = sub(matmul(scaled, c, precision="highest"), columns)
    residuals = reduce_sum(squared_size(errors), (0,))
    c = div(c, broadcast_in_dim(scale, type_of(c).shape, (0,)))
    base = matmul(inverse, adjoint(inverse), precision="highest")
    for d in (0, 1):
        base = div(base, broadcast_in_dim(scale, (order, order), (d,)))
    rank = reduce_sum(convert(kept, dtypes.int32), (0,))
    return (
        convert(reshape(c, (order,)) if type_of(y).ndim == 1 else c, dtype),
        convert(residuals, real_dtype),
        rank,
        convert(s, real_dtype),
        convert(base, dtype),
    )


def _least_squares(a: Any, b: Any, rcond: float) -> tuple[Any, Any, Any, Any]:
    """The solution, the pseudoinverse times an orthogonal matrix, the singular values, and which of
    these count."""
    u, s, vh = svd(a, full_matrices=False)
    least = broadcasted(s[:1] * type_of(s).dtype.type(rcond), type_of(s).shape)
    kept = gt(s, least)
    safe = select(kept, s, s * 0 + 1)
    factors = convert(select(kept, 1 / safe, s * 0), type_of(a).dtype)
    v = adjoint(vh)
    inverse = mul(v, broadcast_in_dim(factors, type_of(v).shape, (1,)))
    return (
        matmul(inverse, matmul(adjoint(u), b, precision="highest"), precision="highest"),
        inverse,
        s,
        kept,
    )


def trim_zeros(filt: Any, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """An array without zeros at the front ("f") and the back ("b") of its axes.

    filt: an array of any shape. trim: "f", "b", or "fb" for both ends. axis: the axes that are cut,
    None for all: hyperplanes in which everything is 0. The shape depends on values, which have to
    be known: raises ConcretizationError under `jit`.

    >>> jnp.trim_zeros(jnp.array([0, 0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = operand("trim_zeros", unlisted(filt))
    ends = trim.lower() if isinstance(trim, str) else ""
    if ends not in ("f", "b", "fb", "bf"):
        message = "trim_zeros: trim names the ends"
        raise invalid_value(message, "trim_zeros", "trim", trim, "'f' (front), 'b' (back) or 'fb'")
    of = type_of(filt)
    axes = axes_of(axis, of.ndim, "trim_zeros")
    otherwise = "call trim_zeros outside of the traced function, and pass it the result"
    places = np.nonzero(_known("trim_zeros", filt, otherwise))
    low, high = [0] * of.ndim, list(of.shape)
    for d in axes:
        found = places[d]
        if "f" in ends:
            low[d] = int(found.min()) if found.size else high[d]
        if "b" in ends:
            high[d] = int(found.max()) + 1 if found.size else low[d]
    return slice(asarray(filt), low, high)
