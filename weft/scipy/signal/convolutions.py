"""Convolution and correlation in any number of dimensions, directly or by Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.arguments import NEVER, choice, of_rank
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    axes_of,
    broadcast_shape,
    common_dtype,
    computing_dtype,
    convert,
    inexact,
)
from weft.kinds.kind import Arguments, Kind
from weft.numpy import fft
from weft.ops.products.convolution import conv_general_dilated
from weft.ops.products.dot import canonical_precision


def _precision(value: Any, call: Arguments) -> Any:
    return canonical_precision(value, call.operation)


def _axes(value: Any, call: Arguments) -> tuple[int, ...]:
    return axes_of(value, call.type.ndim)


Axes = Annotated[Any, Kind(_axes, "some axes, or None for all", (99, 0.5, (0, 0)), plain=NEVER)]
Numbers = Annotated[Any, of_rank(0)]
Matrix = Annotated[Any, of_rank(2, 2)]
Fill = Annotated[Any, of_rank(0, 0, fixed=True)]
Mode = Annotated[str, choice("full", "same", "valid")]
Method = Annotated[str, choice("auto", "direct", "fft")]
Boundary = Annotated[str, choice("fill", "wrap", "symm")]
Precision = Annotated[Any, Kind(_precision, "the precision of products", ("?",), plain=NEVER)]


def _slide(x: Any, kernel: Any, padding: Sequence[tuple[int, int]], precision: Any) -> Any:
    """Slides a kernel, not reversed, over an array and sums products."""
    out = conv_general_dilated(
        x[None, None], kernel[None, None], (1,) * x.ndim, list(padding), precision=precision
    )
    return out[0, 0]


def _crop(x: Any, axes: Sequence[int], shape: Sequence[int]) -> Any:
    """Cuts out the middle along some axes."""
    index: list[Any] = [slice(None)] * x.ndim
    for axis, size in zip(axes, shape, strict=True):
        start = (x.shape[axis] - size) // 2
        index[axis] = slice(start, start + size)
    return x[tuple(index)]


def _needs_swap(a: Any, b: Any, mode: str, axes: Sequence[int] | None = None) -> bool:
    """Whether the mode "valid" moves the first array over the second.

    Raises ShapeError unless arrays can be convolved along the axes, by default all.
    """
    got = f"in1: {a.type}, in2: {b.type}"
    if a.ndim != b.ndim:
        raise wrong_shape(got, "arrays of as many dimensions")
    if 0 in (*a.shape, *b.shape):
        raise wrong_shape(got, "arrays with elements")
    if mode != "valid":
        return False
    axes = range(a.ndim) if axes is None else axes
    larger = all(a.shape[i] >= b.shape[i] for i in axes)
    smaller = all(a.shape[i] <= b.shape[i] for i in axes)
    if not (larger or smaller):
        raise wrong_shape(f"{got}, mode='valid'", "one array that holds the other")
    return smaller and not larger


def _to_sum_dtype(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Two arrays in the dtype of their sums, and the dtype of the result."""
    dtype = common_dtype(x, y)
    narrow = dtype in (dtypes.bool_, dtypes.float16, dtypes.bfloat16)
    wide = dtypes.float32 if narrow else dtype
    return convert(x, wide), convert(y, wide), dtype


def _round_result(x: Any, dtype: Any) -> Any:
    return convert(x != 0 if dtype == dtypes.bool_ else x, dtype)


def _convolve(x: Any, y: Any, mode: str, method: str, precision: Any) -> Any:
    _needs_swap(x, y, mode)
    if method == "fft":
        return _by_fft(x, y, mode, range(x.ndim))
    x, y, dtype = _to_sum_dtype(x, y)
    first = x.shape
    x, y = (y, x) if prod(x.shape) < prod(y.shape) else (x, y)
    padding = [(0, 0) if mode == "valid" else (n - 1, n - 1) for n in y.shape]
    out = _slide(x, jnp.flip(y), padding, precision) if x.ndim else x * y
    if mode == "same" and x.ndim:
        out = _crop(out, range(x.ndim), first)
    return _round_result(out, dtype)


@array_function
def convolve(
    in1: Numbers,
    in2: Numbers,
    mode: Mode = "full",
    method: Method = "auto",
    precision: Precision = None,
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
    return _convolve(in1, in2, mode, method, precision)


def _reverse_conjugate(x: Any) -> Any:
    """The conjugate, reversed along all dimensions."""
    return jnp.conj(jnp.flip(x))


@array_function
def correlate(
    in1: Numbers,
    in2: Numbers,
    mode: Mode = "full",
    method: Method = "auto",
    precision: Precision = None,
) -> Array:
    """The correlation of two arrays: sums of in1[i] conj(in2[i - k]).

    Arguments, results and errors are those of `convolve`, which returns the same for `in1` and the
    conjugated and reversed `in2`. mode, method: as in `convolve`.

    >>> import weft.numpy as jnp
    >>> correlate(jnp.array([1.0, 2.0]), jnp.array([1.0, 3.0]))
    Array([3., 7., 2.], dtype=float32)
    """
    return _convolve(in1, _reverse_conjugate(in2), mode, method, precision)


def _convolve_bounded(
    x: Any, y: Any, mode: str, boundary: str, fill: Any, precision: Any, correlation: bool
) -> Any:
    """Convolves or correlates two matrices, with a boundary of the first."""
    if _needs_swap(x, y, mode):
        # Exchanging the operands reverses and conjugates the correlation.
        out = _convolve_bounded(y, x, mode, boundary, fill, precision, correlation)
        return _reverse_conjugate(out) if correlation else out
    x, y, dtype = _to_sum_dtype(x, y)
    y = jnp.conj(y) if correlation else jnp.flip(y)
    # How much is added in front and behind. With two middles, SciPy takes one for a reversed kernel
    # and the other for one that is not.
    middles = [(n if correlation else n - 1) // 2 for n in y.shape]
    around = {
        "full": [(n - 1, n - 1) for n in y.shape],
        "same": [(n - 1 - m, m) for n, m in zip(y.shape, middles, strict=True)],
        "valid": [(0, 0) for _ in y.shape],
    }[mode]
    if boundary == "fill" and type(fill) in (int, float) and fill == 0:
        return _round_result(_slide(x, y, around, precision), dtype)
    if boundary == "fill":
        # The fill value is padded here, since a convolution pads with zeros.
        x = jnp.pad(x, around, constant_values=convert(fill, x.dtype))
    else:
        x = jnp.pad(x, around, mode={"wrap": "wrap", "symm": "symmetric"}[boundary])
    return _round_result(_slide(x, y, [(0, 0), (0, 0)], precision), dtype)


@array_function
def convolve2d(
    in1: Matrix,
    in2: Matrix,
    mode: Mode = "full",
    boundary: Boundary = "fill",
    fillvalue: Fill = 0,
    precision: Precision = None,
) -> Array:
    """`convolve` of two matrices, with a choice of the boundary of the first.

    in1: the matrix whose boundary is chosen; in2: the one moved over it. boundary: "fill" puts
    `fillvalue` there, "wrap" repeats the matrix, "symm" its mirror image. fillvalue: the number
    for "fill". mode: as in `convolve`. Raises as `convolve`, and WeftValueError for another
    boundary.

    >>> import weft.numpy as jnp
    >>> convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), boundary="wrap")
    Array([[4., 4., 4.],
           [4., 4., 4.],
           [4., 4., 4.]], dtype=float32)
    """
    return _convolve_bounded(in1, in2, mode, boundary, fillvalue, precision, False)


@array_function
def correlate2d(
    in1: Matrix,
    in2: Matrix,
    mode: Mode = "full",
    boundary: Boundary = "fill",
    fillvalue: Fill = 0,
    precision: Precision = None,
) -> Array:
    """`correlate` of two matrices, with the boundaries and errors of `convolve2d`.

    in1: the matrix whose boundary is chosen; in2: the one whose conjugate is moved over it. mode,
    boundary, fillvalue: as in `convolve2d`.

    >>> import weft.numpy as jnp
    >>> correlate2d(jnp.eye(2), jnp.eye(2), mode="valid")
    Array([[2.]], dtype=float32)
    """
    return _convolve_bounded(in1, in2, mode, boundary, fillvalue, precision, True)


def _by_fft(x: Any, y: Any, mode: str, axes: Sequence[int]) -> Any:
    dtype = inexact(common_dtype(x, y))
    wide = computing_dtype(dtype)
    first, second = x.shape, y.shape
    x, y = convert(x, wide), convert(y, wide)
    if not axes:
        return convert(x * y, dtype)
    # Along other axes arrays are multiplied as they are.
    lengths = [first[i] + second[i] - 1 for i in axes]
    complex_ = wide in dtypes.COMPLEX
    forth, back = (fft.fftn, fft.ifftn) if complex_ else (fft.rfftn, fft.irfftn)
    out = back(forth(x, lengths, axes) * forth(y, lengths, axes), lengths, axes)
    if mode == "same":
        out = _crop(out, range(out.ndim), first)
    elif mode == "valid":
        out = _crop(out, axes, [abs(first[i] - second[i]) + 1 for i in axes])
    return convert(out, dtype)


@array_function
def fftconvolve(in1: Numbers, in2: Numbers, mode: Mode = "full", axes: Axes = None) -> Array:
    """`convolve` by Fourier transforms, along some axes, by default all.

    in1, in2, mode: as in `convolve`. Along other axes, lengths are equal or 1, and arrays are
    multiplied element by element. With mode "same" the result has the shape of in1 there, too, as
    in SciPy. The result is floating or complex; errors are relative to its largest elements. For
    long arrays this is faster than products. Raises as `convolve`, and AxisError.

    >>> import weft.numpy as jnp
    >>> fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])).round(5)
    Array([1., 3., 2.], dtype=float32)
    """
    _needs_swap(in1, in2, mode, axes)
    if in1.ndim and not axes:
        raise wrong_value(f"axes={axes!r}", "one axis or more")
    rest = [i for i in range(in1.ndim) if i not in axes]
    broadcast_shape([in1.shape[i] for i in rest], [in2.shape[i] for i in rest])
    return _by_fft(in1, in2, mode, sorted(axes))
