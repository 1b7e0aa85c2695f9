"""`weft.scipy.fft`: discrete cosine transforms of types 1 to 4 and their inverses.

Types 2 and 3 are one Fourier transform of real numbers of the same length (J. Makhoul, "A fast
cosine transform in one and two dimensions", IEEE Transactions on Acoustics, Speech, and Signal
Processing 28, 1980); types 1 and 4 are one of twice the length.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import Fix, WeftValueError
from weft.errors.argument_errors import invalid_value
from weft.kinds.arguments import NEVER, Flag, OneAxis
from weft.kinds.array_function import array_function
from weft.kinds.checks import computing_dtype, inexact
from weft.kinds.kind import Arguments, Kind
from weft.numpy.fft import (
    AnyAxes,
    Norm,
    Numbers,
    Points,
    Sizes,
    chosen_axes,
    default_length,
    resize_axes,
)
from weft.ops.elementwise.arithmetic import cos, scalar, sin
from weft.ops.elementwise.complex import complex as complex_of
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import pad, slice_in_dim
from weft.ops.products.fft import fft
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, move_dim

__all__ = ["dct", "dctn", "idct", "idctn"]

__dir__ = public_names(globals())

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _part(x: Any, start: int, stop: int, stride: int = 1) -> Any:
    """Slices the last dimension."""
    return slice_in_dim(x, start, stop, stride, x.ndim - 1)


def _join(*parts: Any) -> Any:
    return concatenate(list(parts), parts[0].ndim - 1)


def _reverse(x: Any) -> Any:
    return rev(x, (x.ndim - 1,))


def _pad_zeros(x: Any, low: int, high: int) -> Any:
    """Pads the last dimension with zeros."""
    return pad(x, scalar(0, x), [(0, 0, 0)] * (x.ndim - 1) + [(low, high, 0)])


# Cosines of up to so many places are a table, which XLA reads in a fraction of the time that it
# takes to compute them.
_TABLE = 2**20


def _phase_factors(like: Any, step: float, start: float = 0.0) -> tuple[Any, Any]:
    """The cosine and the sine of start + step j, with j the index in the last dimension."""
    last, n = like.ndim - 1, like.shape[-1]
    if n <= _TABLE and dtypes.canonical(like.dtype) == like.dtype:  # which a NumPy array keeps
        angles = start + step * np.arange(n)
        tables = (f(angles).astype(like.dtype) for f in (np.cos, np.sin))
        c, s = (broadcast_in_dim(table, like.shape, (last,)) for table in tables)
        return c, s
    place = broadcasted_iota(np.dtype(np.int32), like.shape, last)
    angle = place.astype(like.dtype) * step + start
    return cos(angle), sin(angle)


def _cosine_1(x: Any) -> Any:
    """The Fourier transform of the numbers and their mirror image, which is real."""
    n = x.shape[-1]
    return fft(_join(x, _reverse(_part(x, 1, n - 1))), "RFFT", (2 * n - 2,)).real


def _cosine_2(x: Any) -> Any:
    """Makhoul's algorithm: even elements rising, then odd ones falling, and a phase factor."""
    n = x.shape[-1]
    out = fft(_join(_part(x, 0, n, 2), _reverse(_part(x, 1, n, 2))), "RFFT", (n,))
    a, b = out.real, out.imag
    c, s = _phase_factors(a, -pi / (2 * n))
    low, high = a * c - b * s, -(a * s + b * c)
    out = _join(low, _reverse(_part(high, 1, (n + 1) // 2)))
    return out + out


def _cosine_3(x: Any) -> Any:
    """Makhoul's algorithm backwards."""
    n = x.shape[-1]
    half, middle = n // 2 + 1, (n + 1) // 2
    a = _part(x, 0, half)
    b = -_pad_zeros(_reverse(_part(x, n - half + 1, n)), 1, 0)
    c, s = _phase_factors(a, pi / (2 * n))
    out = fft(complex_of(a * c - b * s, a * s + b * c), "IRFFT", (n,)) * n
    rising = _part(out, 0, middle)
    falling = _pad_zeros(_reverse(_part(out, middle, n)), 0, n % 2)
    pairs = concatenate([rising[..., None], falling[..., None]], x.ndim)
    return _part(pairs.reshape(*x.shape[:-1], n + n % 2), 0, n)


def _cosine_4(x: Any) -> Any:
    """The real part of a Fourier transform of twice the length, between phase factors."""
    n = x.shape[-1]
    c, s = _phase_factors(x, -pi / (2 * n))
    out = _part(fft(_pad_zeros(complex_of(x * c, x * s), 0, n), "FFT", (2 * n,)), 0, n)
    c, s = _phase_factors(x, -pi / (2 * n), -pi / (4 * n))
    out = out.real * c - out.imag * s
    return out + out


_COSINE = {1: _cosine_1, 2: _cosine_2, 3: _cosine_3, 4: _cosine_4}


def _scale_ends(x: Any, factor: float, type: int) -> Any:
    """Multiplies the first element, and for type 1 also the last, by a factor."""
    n = x.shape[-1]
    end = n - 1 if type == 1 else n
    parts = [_part(x, 0, 1) * factor, _part(x, 1, end)]
    if type == 1:
        parts.append(_part(x, end, n) * factor)
    return _join(*parts)


def _transform_1d(
    x: Any, axis: int, length: int, type: int, power: float, orthogonalize: bool
) -> Any:
    """Transforms one axis, and divides by a power of its logical length."""
    last = x.ndim - 1
    x = move_dim(resize_axes(x, (axis,), (length,)), axis, last, length)
    if orthogonalize and type in (1, 3):
        x = _scale_ends(x, sqrt(2), type)
    x = _COSINE[type](x)
    if orthogonalize and type in (1, 2):
        x = _scale_ends(x, sqrt(0.5), type)
    logical = 2 * (length - 1) if type == 1 else 2 * length
    return move_dim(x * logical**-power if power else x, last, axis, length)


# ---- arguments -----------------------------------------------------------------------------------


def _type(value: Any, call: Arguments) -> int:
    if isinstance(value, bool) or value not in _INVERSE:
        message = f"{call.operation}: there is no cosine transform of type {value!r}"
        raise invalid_value(message, call.operation, "type", value, "1, 2, 3 or 4", use=2)
    return int(value)


Type = Annotated[int, Kind(_type, "1, 2, 3 or 4", (5, True, "text"), plain=NEVER)]


# ---- transforms ----------------------------------------------------------------------------------


def _transform(
    inverse: bool,
    x: Any,
    type: int,
    s: Any,
    axes: tuple[int, ...],
    norm: str,
    orthogonalize: bool | None,
) -> Any:
    """Transforms axes, of lengths s or those of x."""
    power = {"backward": float(inverse), "ortho": 0.5, "forward": float(not inverse)}[norm]
    lengths = tuple([default_length(x, axis) for axis in axes]) if s is None else s
    if type == 1 and 1 in lengths:
        raise WeftValueError(
            "the transform of type 1 takes two elements or more",
            got=f"x: {type_of(x)}, lengths {lengths} along axes {axes}",
            wanted="lengths of 2 or more, or another type",
            fix=Fix("type", "pass type=2", {"type": 2}),
        )
    type = _INVERSE[type] if inverse else type
    orthogonal = norm == "ortho" if orthogonalize is None else orthogonalize
    dtype = inexact(x.dtype)
    x = x.astype(computing_dtype(dtype))
    parts = [x.real, x.imag] if dtype in dtypes.COMPLEX else [x]
    for axis, length in zip(axes, lengths, strict=True):
        parts = [_transform_1d(part, axis, length, type, power, orthogonal) for part in parts]
    return complex_of(*parts) if len(parts) == 2 else parts[0].astype(dtype)


@array_function
def dct(
    x: Numbers, type: Type = 2, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None, *,
    orthogonalize: Flag | None = None,
) -> Array:  # fmt: skip
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
    return _transform(False, x, type, None if n is None else (n,), (axis,), norm, orthogonalize)


@array_function
def idct(
    x: Numbers, type: Type = 2, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None, *,
    orthogonalize: Flag | None = None,
) -> Array:  # fmt: skip
    """The inverse of `dct`, with the same arguments, dtypes and errors.

    type, norm, orthogonalize: those of the transform that is inverted; n: its length: longer input
    is cut, shorter is filled with zeros.

    >>> import weft.numpy as jnp
    >>> idct(jnp.array([20.0, 0.0, 0.0, 0.0]))
    Array([2.5, 2.5, 2.5, 2.5], dtype=float32)
    """
    return _transform(True, x, type, None if n is None else (n,), (axis,), norm, orthogonalize)


@array_function
def dctn(
    x: Numbers, type: Type = 2, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None, *,
    orthogonalize: Flag | None = None,
) -> Array:  # fmt: skip
    """`dct` over several axes, all where none are given.

    s: a length for each axis (-1: that of x); without `axes` they are those of the last axes. type,
    norm, orthogonalize: as in `dct`. Raises ShapeError if s and axes have different lengths, else
    as `dct`.

    >>> import weft.numpy as jnp
    >>> dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    axes = chosen_axes(x, s, axes)
    return _transform(False, x, type, s, axes, norm, orthogonalize)


@array_function
def idctn(
    x: Numbers, type: Type = 2, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None, *,
    orthogonalize: Flag | None = None,
) -> Array:  # fmt: skip
    """The inverse of `dctn`, with the same arguments, dtypes and errors.

    type, norm, orthogonalize: those of the transform that is inverted; s: a length for each axis:
    longer input is cut, shorter is filled with zeros.

    >>> import weft.numpy as jnp
    >>> idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    axes = chosen_axes(x, s, axes)
    return _transform(True, x, type, s, axes, norm, orthogonalize)
