"""Convolution and correlation in any number of dimensions, directly or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import axes_of, broadcast_shape, computing_dtype, convert, inexact, promoted
from weft.kinds.compiled_functions import compiled
from weft.numpy import fft
from weft.ops.products.convolution import conv_general_dilated
from weft.ops.products.dot import canonical_precision
from weft.scipy.argument_checks import check_dimensions, one_of, wrong_shape, wrong_value

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

_MODES = ("full", "same", "valid")


def _slid(x: Any, kernel: Any, padding: Sequence[tuple[int, int]], precision: Any) -> Any:
    """Slides a kernel, not reversed, over an array and sums products."""
    out = conv_general_dilated(
        x[None, None], kernel[None, None], (1,) * x.ndim, list(padding), precision=precision
    )
    return out[0, 0]


def _cut(x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Cuts the middle out of an array along some axes."""
    index: list[Any] = [slice(None)] * x.ndim
    for axis, size in zip(axes, shape, strict=True):
        start = (x.shape[axis] - size) // 2
        index[axis] = slice(start, start + size)
    return x[tuple(index)]


def _result_type(x: Any, y: Any) -> tuple[Any, Any]:
    """The dtype of a product, and the one it is summed in."""
    given = type_of(promoted("signal.convolve", x, y)[0]).dtype
    if given in dtypes.BOOLEAN:
        return given, dtypes.float32
    small = given in (dtypes.float16, dtypes.bfloat16)
    return given, dtypes.float32 if small else given


@compiled
def _direct(x: Any, y: Any, *, mode: str, precision: Any) -> Any:
    """The convolution; y is reversed here."""
    given, dtype = _result_type(x, y)
    x, y = convert(x, dtype), convert(y, dtype)
    first = x.shape
    swap = prod(x.shape) < prod(y.shape)
    x, y = (y, x) if swap else (x, y)
    padding = [(0, 0) if mode == "valid" else (n - 1, n - 1) for n in y.shape]
    out = _slid(x, jnp.flip(y), padding, precision) if x.ndim else x * y
    if mode == "same" and x.ndim:
        out = _cut(out, range(x.ndim), first)
    return convert(out != 0 if given in dtypes.BOOLEAN else out, given)


def _checked(operation: str, x: Any, y: Any, mode: Any) -> bool:
    """Raises unless arrays can be convolved; returns whether the first fits inside the second."""
    a, b = _types(operation, x, y, mode)
    return _inside(operation, a, b, mode, range(a.ndim))


def _types(operation: str, x: Any, y: Any, mode: Any) -> tuple[Any, Any]:
    """The types of two arrays, which have as many dimensions and elements."""
    for argument, value in (("in1", x), ("in2", y)):
        check_dimensions(operation, argument, value, 0)
    one_of(operation, "mode", mode, _MODES)
    a, b = type_of(x), type_of(y)
    if a.ndim != b.ndim:
        raise wrong_shape(operation, f"in1: {a}, in2: {b}", "arrays of as many dimensions")
    if 0 in (*a.shape, *b.shape):
        raise wrong_shape(operation, f"in1: {a}, in2: {b}", "arrays with elements")
    return a, b


def _inside(operation: str, a: Any, b: Any, mode: str, axes: Sequence[int]) -> bool:
    if mode != "valid":
        return False
    larger = all(a.shape[i] >= b.shape[i] for i in axes)
    smaller = all(a.shape[i] <= b.shape[i] for i in axes)
    if not (larger or smaller):
        got = f"in1: {a}, in2: {b}, mode='valid'"
        raise wrong_shape(operation, got, "one array that holds the other")
    return smaller and not larger


@api_boundary
def convolve(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The convolution of two arrays of as many dimensions: sums of in1[i] in2[k - i].

    mode: "full", all k for which there is a product; "same", the middle of it of the shape of in1;
    "valid", where one array is inside the other. method: "direct", "fft" by Fourier transforms
    (`fftconvolve`), or "auto", which is "direct". precision: that of the products on hardware that
    has several. Operands are promoted to the dtype of the result; "fft" of integers is floating.

    in1: the first array; in2: the second array, of as many dimensions.

    Raises ShapeError if dimensions differ, an array is empty, or neither lies inside the other
    for "valid"; WeftValueError for another mode or method, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 2.], dtype=float32)
    """
    name = "signal.convolve"
    _checked(name, in1, in2, mode)
    one_of(name, "method", method, ("auto", "direct", "fft"))
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    return _direct(in1, in2, mode=mode, precision=canonical_precision(precision, "signal.convolve"))


@compiled
def _turned(x: Any) -> Any:
    """Reverses an array along all dimensions."""
    return jnp.conj(jnp.flip(x))


@api_boundary
def correlate(
    in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """The correlation of two arrays: sums of in1[i] conj(in2[i - k]).

    Arguments, results and errors are those of `convolve`, which returns the same for the conjugated
    and reversed in2.

    Args:
        in1: The first array.
        in2: The second array, of as many dimensions, which is conjugated.
        mode: Which part is computed, "full", "same" or "valid", as in `convolve`.
        method: "direct", "fft" or "auto", as in `convolve`.

    >>> import weft.numpy as jnp
    >>> correlate(jnp.array([1.0, 2.0]), jnp.array([1.0, 3.0]))
    Array([3., 7., 2.], dtype=float32)
    """
    name = "signal.correlate"
    _checked(name, in1, in2, mode)
    one_of(name, "method", method, ("auto", "direct", "fft"))
    return convolve(in1, _turned(in2), mode, method, precision)


_BOUNDARIES = ("fill", "wrap", "symm")


@compiled
def _bounded(
    x: Any, y: Any, fill: Any, *, mode: str, boundary: str, precision: Any, correlation: bool
) -> Any:
    given, dtype = _result_type(x, y)
    x, y = convert(x, dtype), convert(y, dtype)
    y = jnp.conj(y) if correlation else jnp.flip(y)
    # How much is added in front and behind. With two middles, SciPy takes one for a reversed kernel
    # and the other for one that is not.
    around = {
        "full": [(n - 1, n - 1) for n in y.shape],
        "same": [
            (n - 1 - middle, middle)
            for n in y.shape
            for middle in ((n if correlation else n - 1) // 2,)
        ],
        "valid": [(0, 0) for _ in y.shape],
    }[mode]
    if boundary == "fill":
        # The fill value is padded here, since a convolution pads with zeros.
        x = jnp.pad(x, around, constant_values=convert(fill, dtype))
    elif boundary != "zero":
        x = jnp.pad(x, around, mode={"wrap": "wrap", "symm": "symmetric"}[boundary])
    out = _slid(x, y, around if boundary == "zero" else [(0, 0), (0, 0)], precision)
    return convert(out != 0 if given in dtypes.BOOLEAN else out, given)


def _in_two_dimensions(
    operation: str, x: Any, y: Any, mode: Any, boundary: Any, fill: Any, precision: Any
) -> Any:
    for argument, value in (("in1", x), ("in2", y)):
        check_dimensions(operation, argument, value, 2, 2)
    one_of(operation, "boundary", boundary, _BOUNDARIES)
    check_dimensions(operation, "fillvalue", fill, 0, 0)
    swapped = _checked(operation, x, y, mode)
    correlation = "correlate" in operation
    if swapped and correlation:
        # Exchanging the operands reverses and conjugates the correlation.
        return _turned(_in_two_dimensions(operation, y, x, mode, boundary, fill, precision))
    x, y = (y, x) if swapped else (x, y)
    precision = canonical_precision(precision, "signal.convolve")
    if boundary == "fill" and type(fill) in (int, float) and fill == 0:
        boundary = "zero"
    options = {"mode": mode, "boundary": boundary, "correlation": correlation}
    return _bounded(x, y, fill, precision=precision, **options)


@api_boundary
def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Array:
    """`convolve` of two matrices, with a choice of the boundary of the first.

    boundary: "fill" puts `fillvalue` there, "wrap" repeats the matrix, "symm" its mirror image.
    Raises as `convolve`, and WeftValueError for another boundary.

    Args:
        in1: The matrix whose boundary is chosen.
        in2: The matrix that is moved over it.
        mode: Which part is computed, "full", "same" or "valid", as in `convolve`.
        fillvalue: The number outside of in1 for the boundary "fill".

    >>> import weft.numpy as jnp
    >>> convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), boundary="wrap")
    Array([[4., 4., 4.],
           [4., 4., 4.],
           [4., 4., 4.]], dtype=float32)
    """
    return _in_two_dimensions("signal.convolve2d", in1, in2, mode, boundary, fillvalue, precision)


@api_boundary
def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Array:
    """`correlate` of two matrices, with the boundaries and errors of `convolve2d`.

    Args:
        in1: The matrix whose boundary is chosen.
        in2: The matrix that is moved over it, which is conjugated.
        mode: Which part is computed, "full", "same" or "valid", as in `convolve`.
        boundary: What is outside of in1: "fill", "wrap" or "symm", as in `convolve2d`.
        fillvalue: The number outside of in1 for the boundary "fill".

    >>> import weft.numpy as jnp
    >>> correlate2d(jnp.eye(2), jnp.eye(2), mode="valid")
    Array([[2.]], dtype=float32)
    """
    return _in_two_dimensions("signal.correlate2d", in1, in2, mode, boundary, fillvalue, precision)


@compiled
def _by_fft(x: Any, y: Any, *, mode: str, axes: tuple[int, ...]) -> Any:
    given = inexact(type_of(promoted("signal.fftconvolve", x, y)[0]).dtype)
    wide = computing_dtype(given)
    first, second = x.shape, y.shape
    x, y = convert(x, wide), convert(y, wide)
    # Along other axes arrays are multiplied as they are.
    lengths = [first[i] + second[i] - 1 for i in axes]
    if not axes:
        return convert(x * y, given)
    complex_ = wide in dtypes.COMPLEX
    forth, back = (fft.fftn, fft.ifftn) if complex_ else (fft.rfftn, fft.irfftn)
    out = back(forth(x, lengths, axes) * forth(y, lengths, axes), lengths, axes)
    if mode == "same":
        out = _cut(out, range(out.ndim), first)
    elif mode == "valid":
        out = _cut(out, axes, [abs(first[i] - second[i]) + 1 for i in axes])
    return convert(out, given)


@api_boundary
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Array:
    """`convolve` by Fourier transforms, along some axes, by default all.

    Along the others, lengths are equal or 1, and arrays are multiplied element by element. With
    mode "same" the result has the shape of in1 there, too, as in SciPy. The result is floating or
    complex; errors are relative to its largest elements. For long arrays this is faster than
    products. Raises as `convolve`, and AxisError.

    Args:
        in1: The first array.
        in2: The second array, of as many dimensions.
        mode: Which part is computed, "full", "same" or "valid", as in `convolve`.

    >>> import weft.numpy as jnp
    >>> fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).round(5)
    Array([1., 3., 2.], dtype=float32)
    """
    name = "signal.fftconvolve"
    a, b = _types(name, in1, in2, mode)
    chosen = axes_of(axes, a.ndim, name)
    if a.ndim and not chosen:
        raise wrong_value(name, f"axes={axes!r}", "one axis or more")
    rest = [i for i in range(a.ndim) if i not in chosen]
    broadcast_shape(name, [a.shape[i] for i in rest], [b.shape[i] for i in rest])
    _inside(name, a, b, mode, chosen)
    return _by_fft(in1, in2, mode=mode, axes=tuple(sorted(chosen)))
