"""`weft.scipy.fft`: discrete cosine transforms of types 1 to 4 and their inverses.

Types 2 and 3 are one Fourier transform of real numbers of the same length (J. Makhoul, "A fast
cosine transform in one and two dimensions", IEEE Transactions on Acoustics, Speech, and Signal
Processing 28, 1980); types 1 and 4 are one of twice the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_value
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of, user_value
from weft.errors import Fix, WeftValueError, api_boundary
from weft.kinds.checks import axis_of, check_flag, computing_dtype, convert, inexact
from weft.kinds.compiled_functions import compiled
from weft.numpy.fft import (
    axes_and_sizes,
    check_operand,
    default_length,
    length_of,
    normalization,
    resized,
)
from weft.ops.elementwise.arithmetic import add, cos, mul, neg, scalar, sin
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.elementwise.complex import imag, real
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import pad, slice_in_dim
from weft.ops.products.fft import fft
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, expand_dims, move_dim, reshape

__all__ = ["dct", "dctn", "idct", "idctn"]

__dir__ = public_names(globals())

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _part(x: Any, start: int, stop: int, stride: int = 1) -> Any:
    """A slice of the last dimension."""
    return slice_in_dim(x, start, stop, stride, type_of(x).ndim - 1)


def _joined(*parts: Any) -> Any:
    return concatenate(list(parts), type_of(parts[0]).ndim - 1)


def _reversed(x: Any) -> Any:
    return rev(x, (type_of(x).ndim - 1,))


def _padded(x: Any, low: int, high: int) -> Any:
    """Pads the last dimension with zeros."""
    padding = [(0, 0, 0)] * (type_of(x).ndim - 1) + [(low, high, 0)]
    return pad(x, scalar(0, x), padding)


# Cosines of up to so many places are a table, which XLA reads in a fraction of the time that it
# takes to compute them.
_TABLE = 2**20


def _turned(like: Any, step: float, start: float = 0.0) -> tuple[Any, Any]:
    """Cosine and sine of start + step j, j the index in the last dimension."""
    of = type_of(like)
    last, n = of.ndim - 1, of.shape[-1]
    if n <= _TABLE and dtypes.canonical(of.dtype) == of.dtype:  # which a NumPy array keeps
        angles = start + step * np.arange(n)
        tables = (f(angles).astype(of.dtype) for f in (np.cos, np.sin))
        c, s = (broadcast_in_dim(table, of.shape, (last,)) for table in tables)
        return c, s
    place = convert(broadcasted_iota(np.dtype(np.int32), of.shape, last), of.dtype)
    angle = add(mul(place, of.dtype.type(step)), of.dtype.type(start))
    return cos(angle), sin(angle)


def _cosine_1(x: Any) -> Any:
    """The Fourier transform of the numbers and their mirror image, which is real."""
    n = type_of(x).shape[-1]
    whole = _joined(x, _reversed(_part(x, 1, n - 1)))
    return real(fft(whole, "RFFT", (2 * n - 2,)))


def _cosine_2(x: Any) -> Any:
    """Makhoul's algorithm: even elements rising, then odd ones falling, and a phase factor."""
    n = type_of(x).shape[-1]
    found = fft(_joined(_part(x, 0, n, 2), _reversed(_part(x, 1, n, 2))), "RFFT", (n,))
    a, b = real(found), imag(found)
    c, s = _turned(a, -pi / (2 * n))
    low = add(mul(a, c), neg(mul(b, s)))
    high = neg(add(mul(a, s), mul(b, c)))
    out = _joined(low, _reversed(_part(high, 1, (n + 1) // 2)))
    return add(out, out)


def _cosine_3(x: Any) -> Any:
    """Makhoul's algorithm backwards."""
    n = type_of(x).shape[-1]
    half = n // 2 + 1
    a = _part(x, 0, half)
    b = neg(_padded(_reversed(_part(x, n - half + 1, n)), 1, 0))
    c, s = _turned(a, pi / (2 * n))
    turned = complex_of(add(mul(a, c), neg(mul(b, s))), add(mul(a, s), mul(b, c)))
    out = fft(turned, "IRFFT", (n,))
    out = mul(out, scalar(n, out))
    rising, falling = _part(out, 0, (n + 1) // 2), _reversed(_part(out, (n + 1) // 2, n))
    last = type_of(x).ndim
    falling = _padded(falling, 0, n % 2)
    pairs = concatenate([expand_dims(rising, (last,)), expand_dims(falling, (last,))], last)
    return _part(reshape(pairs, (*type_of(x).shape[:-1], n + n % 2)), 0, n)


def _cosine_4(x: Any) -> Any:
    """The real part of a Fourier transform of twice the length, between phase factors."""
    n = type_of(x).shape[-1]
    c, s = _turned(x, -pi / (2 * n))
    both = complex_of(mul(x, c), mul(x, s))
    found = _part(fft(_padded(both, 0, n), "FFT", (2 * n,)), 0, n)
    c, s = _turned(x, -pi / (2 * n), -pi / (4 * n))
    out = add(mul(real(found), c), neg(mul(imag(found), s)))
    return add(out, out)


_COSINE = {1: _cosine_1, 2: _cosine_2, 3: _cosine_3, 4: _cosine_4}


def _weighted(x: Any, factor: float, type: int) -> Any:
    """Multiplies the first element, for type 1 the last one, too, by a factor."""
    n = type_of(x).shape[-1]
    end = n - 1 if type == 1 else n
    parts = [mul(_part(x, 0, 1), scalar(factor, x)), _part(x, 1, end)]
    if type == 1:
        parts.append(mul(_part(x, end, n), scalar(factor, x)))
    return _joined(*parts)


def _along(x: Any, *, axis: int, length: int, type: int, power: float, orthogonalize: bool) -> Any:
    """One transform along an axis, divided by a power of its logical length."""
    ndim = type_of(x).ndim
    x = move_dim(resized(x, (axis,), (length,)), axis, ndim - 1, length)
    if orthogonalize and type in (1, 3):
        x = _weighted(x, sqrt(2), type)
    x = _COSINE[type](x)
    if orthogonalize and type in (1, 2):
        x = _weighted(x, sqrt(0.5), type)
    logical = 2 * (length - 1) if type == 1 else 2 * length
    if power:
        x = mul(x, scalar(logical**-power, x))
    return move_dim(x, ndim - 1, axis, length)


@compiled
def _transformed(x: Any, *, axes: tuple[int, ...], lengths: tuple[int, ...], **options: Any) -> Any:
    dtype = inexact(type_of(x).dtype)
    x = convert(x, computing_dtype(dtype))
    parts = [real(x), imag(x)] if dtype in dtypes.COMPLEX else [x]
    for axis, length in zip(axes, lengths, strict=True):
        parts = [_along(part, axis=axis, length=length, **options) for part in parts]
    return complex_of(*parts) if len(parts) == 2 else convert(parts[0], dtype)


def _checked_type(operation: str, type: Any) -> int:
    if isinstance(type, bool) or type not in _INVERSE:
        message = f"{operation}: there is no cosine transform of type {type!r}"
        raise invalid_value(message, operation, "type", type, "1, 2, 3 or 4", use=2)
    return int(type)


def _several(
    operation: str,
    x: Any,
    type: Any,
    axes: tuple[int, ...],
    sizes: Sequence[int | None],
    norm: Any,
    orthogonalize: bool | None,
) -> Any:
    inverse = "idct" in operation
    kind = _checked_type(operation, type)
    named = normalization(operation, norm)
    power = {"backward": float(inverse), "ortho": 0.5, "forward": float(not inverse)}[named]
    of = type_of(x)
    lengths = tuple(
        default_length(operation, of, axis, False) if size is None else size
        for axis, size in zip(axes, sizes, strict=True)
    )
    if kind == 1 and 1 in lengths:
        message = f"{operation}: the transform of type 1 takes two elements or more"
        got = f"x: {of}, lengths {lengths} along axes {axes}"
        wanted = "lengths of 2 or more, or another type"
        fix = Fix("type", "pass type=2", {"type": 2})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return _transformed(
        x,
        axes=axes,
        lengths=lengths,
        type=_INVERSE[kind] if inverse else kind,
        power=power,
        orthogonalize=named == "ortho" if orthogonalize is None else bool(orthogonalize),
    )


def _one(
    operation: str, x: Any, type: Any, n: Any, axis: Any, norm: Any, orthogonalize: bool | None
) -> Any:
    check_flag(orthogonalize, operation, "orthogonalize", none=True)
    check_operand(operation, x, "DCT", "x")
    x = user_value(x)
    axes = (axis_of(axis, type_of(x).ndim, operation),)
    sizes = [None if n is None else length_of(operation, "n", n)]
    return _several(operation, x, type, axes, sizes, norm, orthogonalize)


@api_boundary
def dct(
    x: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """The discrete cosine transform along an axis, of type 1, 2, 3 or 4.

    n: the length, to which x is cut or padded with zeros. norm: "backward" (or None) divides the
    inverse by the logical length, 2 n (for type 1: 2 (n - 1)), "forward" this, "ortho" both by its
    root. orthogonalize, by default with "ortho": first elements are weighted so that the matrix of
    the transform is orthogonal up to a factor (for type 1 the last ones, too). The result has the
    dtype of x, integers as float32 or float64; of complex numbers both parts are transformed.

    type: the type of the transform, 1 to 4; each defines other sums; orthogonalize: whether the
    first elements (for type 1 the last ones, too) are weighted so that the matrix of the transform
    is orthogonal up to a factor; by default with `norm="ortho"`.

    Raises WeftValueError for another type or norm and a length below 1 (for type 1: 2), AxisError,
    and DTypeError.

    >>> import weft.numpy as jnp
    >>> dct(jnp.array([3.0, 1.0]))
    Array([8.      , 2.828427], dtype=float32)
    """
    return _one("fft.dct", x, type, n, axis, norm, orthogonalize)


@api_boundary
def idct(
    x: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """The inverse of `dct`, with the same arguments, dtypes and errors.

    Args:
        type: The type of the transform that is inverted, 1 to 4.
        n: The length of the transform; longer input is cut, shorter is filled with zeros.
        norm: The norm of the transform that is inverted: "backward" (or None), "ortho" or
            "forward".
        orthogonalize: Whether the transform that is inverted weighted first elements; by default
            with `norm="ortho"`.

    >>> import weft.numpy as jnp
    >>> idct(jnp.array([20.0, 0.0, 0.0, 0.0]))
    Array([2.5, 2.5, 2.5, 2.5], dtype=float32)
    """
    return _one("fft.idct", x, type, n, axis, norm, orthogonalize)


def _over_axes(
    operation: str, x: Any, type: Any, s: Any, axes: Any, norm: Any, orthogonalize: bool | None
) -> Any:
    check_flag(orthogonalize, operation, "orthogonalize", none=True)
    check_operand(operation, x, "DCT", "x")
    x = user_value(x)
    found, sizes = axes_and_sizes(operation, type_of(x).shape, s, axes, None)
    return _several(operation, x, type, found, sizes, norm, orthogonalize)


@api_boundary
def dctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """`dct` over several axes, all where none are given.

    s: a length for each axis (-1: that of x); without `axes` they are those of the last axes.
    Raises ShapeError if s and axes have different lengths, else as `dct`.

    Args:
        type: The type of the transform, 1 to 4, as in `dct`.
        norm: Where the factor of the inverse stands: "backward" (or None), "ortho" or "forward", as
            in `dct`.
        orthogonalize: Whether first elements are weighted, as in `dct`; by default with
            `norm="ortho"`.

    >>> import weft.numpy as jnp
    >>> dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _over_axes("fft.dctn", x, type, s, axes, norm, orthogonalize)


@api_boundary
def idctn(
    x: Any,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """The inverse of `dctn`, with the same arguments, dtypes and errors.

    Args:
        type: The type of the transform that is inverted, 1 to 4.
        s: A length for each axis; longer input is cut, shorter is filled with zeros.
        norm: The norm of the transform that is inverted: "backward" (or None), "ortho" or
            "forward".
        orthogonalize: Whether the transform that is inverted weighted first elements; by default
            with `norm="ortho"`.

    >>> import weft.numpy as jnp
    >>> idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _over_axes("fft.idctn", x, type, s, axes, norm, orthogonalize)
