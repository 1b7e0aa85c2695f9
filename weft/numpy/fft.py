"""`weft.numpy.fft`: discrete Fourier transforms, as in NumPy and in the Array API standard.

Each function is one or more `ops.fft` over the axes, with zeros added or elements dropped first,
and a factor for `norm`. Integers are computed in the float dtype that has their width, and float16
and bfloat16 in float32, so that there is a complex dtype for the result: complex64 or complex128.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, invalid_type, invalid_value, refusal, unknown_option
from weft.arrays.array import Array, put
from weft.base.facades import public_names
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError, api_boundary
from weft.kinds.checks import (
    axes_of,
    axis_of,
    check_arrays,
    computing_dtype,
    convert,
    inexact,
    operand,
)
from weft.kinds.compiled_functions import compiled
from weft.numpy.creation import _placed, asarray
from weft.numpy.manipulation import roll
from weft.ops.elementwise.arithmetic import div, lt, mul, scalar, sub
from weft.ops.elementwise.complex import conj
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.slicing import pad
from weft.ops.operand_errors import to_dtype
from weft.ops.products.fft import fft as fft_operation
from weft.ops.structural.shape import transpose

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

__dir__ = public_names(globals())

_AT_ONCE = 3
"""Over how many dimensions one operation transforms."""


def check_operand(operation: str, a: Any, kind: str, argument: str = "a") -> None:
    """Raises WeftTypeError or DTypeError unless an operand is an array of numbers of the kind."""
    check_arrays(operation, a)
    dtype = type_of(a).dtype
    if dtype not in dtypes.ANY:
        raise refusal(
            DTypeError,
            f"{operation} does not take {dtypes.short_name(dtype)}",
            operation,
            f"{argument}: {type_of(a)}",
            "numbers or booleans",
            to_dtype(argument, dtype, dtypes.float32),
        )
    if kind == "RFFT" and dtype in dtypes.COMPLEX:
        other = operation.replace("ihfft", "ifft").replace("rfft", "fft")
        message = f"{operation} takes real numbers"
        got = f"{argument}: {type_of(a)}"
        wanted = f"real numbers; {other} takes complex ones"
        fix = Fix("real", f"use weft.numpy.{other}, or pass {argument}.real", {"function": other})
        raise refusal(DTypeError, message, operation, got, wanted, fix)


def length_of(operation: str, argument: str, n: Any) -> int:
    """A number of elements. Raises WeftTypeError and WeftValueError."""
    count = integer_of(n, operation, argument)
    if count < 1:
        message = f"{operation}: {count} elements have no transform"
        fix = Fix("length", f"pass a length of 1 or more as {argument}", {"argument": argument})
        raise invalid_value(message, operation, argument, count, "1 element or more", fix=fix)
    return count


def normalization(operation: str, norm: Any) -> str:
    """The name of a normalization. Raises WeftValueError."""
    if norm is None:
        return "backward"
    if norm not in ("backward", "ortho", "forward"):
        wanted = '"backward" (or None), "ortho" or "forward"'
        raise unknown_option(operation, "norm", norm, wanted, use="ortho", noun="normalization")
    return str(norm)


def axes_and_sizes(
    operation: str, shape: tuple[int, ...], s: Any, axes: Any, several: int | None
) -> tuple[tuple[int, ...], list[int | None]]:
    """The axes of a transform over several, and the length of each (None: as it is)."""
    ndim = len(shape)
    s, axes = (tuple(x) if getattr(x, "ndim", 0) == 1 else x for x in (s, axes))
    if s is not None and not isinstance(s, Sequence):
        message = f"{operation}: s has a length for each axis"
        count = len(axes) if isinstance(axes, Sequence) else several or ndim
        use = (s,) * count if isinstance(s, int) else None
        fix = Fix("s", f"pass s={use}", {"s": use})
        raise invalid_type(message, operation, "s", s, "a sequence of integers, or None", fix=fix)
    if axes is not None and not isinstance(axes, Sequence):
        message = f"{operation}: axes is a sequence of integers"
        wanted = "a sequence of integers, or None for all axes"
        use = (axes,) if isinstance(axes, int) and several is None else None
        fix = Fix("axes", f"pass axes={use}", {"axes": use})
        raise invalid_type(message, operation, "axes", axes, wanted, fix=fix)
    if axes is None:
        axes = range(ndim) if s is None else range(-len(s), 0)
    found = axes_of(tuple(axes), ndim, operation)
    if several is not None and len(found) != several:
        message = f"{operation} transforms over {several} axes"
        wanted = f"{several} axes; {operation[:-1]}n takes any number"
        fix = Fix("axes", f"use weft.numpy.{operation[:-1]}n, which takes any number")
        raise refusal(WeftValueError, message, operation, f"axes={tuple(axes)}", wanted, fix)
    if s is None:
        return found, [None] * len(found)
    if len(s) != len(found):
        message = f"{operation}: s and axes have different lengths"
        got = f"s={tuple(s)}, axes={tuple(axes)}"
        use = tuple(shape[axis] for axis in found)
        fix = Fix("s", f"pass all lengths: s={use} is as a is", {"s": use})
        raise refusal(ShapeError, message, operation, got, "a length for each axis", fix)
    sizes = [integer_of(n, operation, "each length of s") for n in s]
    sizes = [shape[axis] if n == -1 else n for axis, n in zip(found, sizes, strict=True)]
    return found, [length_of(operation, "s", n) for n in sizes]


def default_length(operation: str, of: ArrayType, axis: int, halved: bool) -> int:
    """The length of a transform where none is given. Raises WeftValueError if that is 0."""
    size = of.shape[axis]
    found = 2 * (size - 1) if halved else size
    if found < 1:
        message = f"{operation}: axis {axis} is too short for a transform"
        got = f"{of}, with {size} elements along axis {axis}"
        wanted = f"{2 if halved else 1} elements or more, or a length: n=, or s="
        fix = Fix("length", "pass the length: n=, or s= for several axes", {"axis": axis})
        raise refusal(WeftValueError, message, operation, got, wanted, fix)
    return found


def _along(x: Any, kind: str, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    """`ops.fft` over at most three axes, which need not be the last."""
    ndim = type_of(x).ndim
    order = [d for d in range(ndim) if d not in axes] + list(axes)
    moved = fft_operation(transpose(x, order), kind, tuple(lengths))
    return transpose(moved, [order.index(d) for d in range(ndim)])


def resized(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """Zeros added behind, or elements dropped, to the given lengths."""
    shape = type_of(x).shape
    padding = [(0, 0, 0)] * len(shape)
    for axis, size in zip(axes, sizes, strict=True):
        padding[axis] = (0, size - shape[axis], 0)
    return pad(x, scalar(0, x), padding)


def _factor(kind: str, norm: str, size: int) -> float:
    """The factor for `norm`: `ops.fft` already divides by the size in the inverse kinds."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    root = sqrt(size) if power == 0.5 else float(size) if power else 1.0
    return root if kind in ("IFFT", "IRFFT") else 1.0 / root


@compiled
def _transformed(
    a: Any, *, kind: str, axes: tuple[int, ...], lengths: tuple[int, ...], norm: str
) -> Any:
    """The transform over the axes, of which the last is the halved one in the real kinds."""
    dtype = computing_dtype(type_of(a).dtype)
    x = convert(a, dtype if kind == "RFFT" else dtypes.to_complex(dtype))
    if not axes:
        return x
    last = lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]
    x = resized(x, axes, (*lengths[:-1], last))
    # The real kinds halve one axis: the others are transformed after RFFT, and before IRFFT.
    ends = range(len(axes), 0, -_AT_ONCE)
    parts = [slice(max(end - _AT_ONCE, 0), end) for end in ends]
    kinds = [kind] + [kind.replace("RFFT", "FFT")] * (len(parts) - 1)
    steps = list(zip(kinds, parts, strict=True))
    for each, part in reversed(steps) if kind == "IRFFT" else steps:
        x = _along(x, each, axes[part], lengths[part])
    factor = _factor(kind, norm, prod(lengths))
    return x if factor == 1 else mul(x, scalar(factor, x))


def _one(operation: str, kind: str, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    """A transform over one axis."""
    check_operand(operation, a, kind)
    a = user_value(a)
    of = type_of(a)
    place = axis_of(axis, of.ndim, operation)
    if n is None:
        length = default_length(operation, of, place, kind == "IRFFT")
    else:
        length = length_of(operation, "n", n)
    named = normalization(operation, norm)
    return _transformed(a, kind=kind, axes=(place,), lengths=(length,), norm=named)


def _several(
    operation: str, kind: str, a: Any, s: Any, axes: Any, norm: Any, several: int | None = None
) -> Any:
    """A transform over several axes."""
    check_operand(operation, a, kind)
    a = user_value(a)
    of = type_of(a)
    found, sizes = axes_and_sizes(operation, of.shape, s, axes, several)
    if kind in ("RFFT", "IRFFT") and not found:
        message = f"{operation} transforms over one axis or more"
        got = f"a: {of}, axes={axes!r}"
        text = "pass axes=(-1,)" if of.ndim else "give it a dimension: a.reshape(1)"
        fix = Fix("axes", text)
        raise refusal(WeftValueError, message, operation, got, "one axis or more", fix)
    halved = found[-1] if kind == "IRFFT" else None
    lengths = tuple(
        default_length(operation, of, axis, axis == halved) if size is None else size
        for axis, size in zip(found, sizes, strict=True)
    )
    named = normalization(operation, norm)
    return _transformed(a, kind=kind, axes=found, lengths=lengths, norm=named)


@api_boundary
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform over one axis: frequency k is the sum of a[j] exp(-2 pi i j k / n).

    n: the length, to which `a` is cut, or filled up with zeros; None: as it is. norm: "backward"
    (or None) divides the inverse by n, "forward" this, "ortho" both by its root. The result is
    complex64, or complex128 for float64, complex128 and 64-bit integers, of the shape of `a` with n
    elements along the axis.

    Raises WeftValueError for a length below 1 and another norm, AxisError, DTypeError.

    >>> jnp.fft.fft(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _one("fft.fft", "FFT", a, n, axis, norm)


@api_boundary
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `fft`, with the same arguments, dtypes and errors.

    >>> jnp.fft.ifft(jnp.array([4.0, 0.0]))
    Array([2.+0.j, 2.+0.j], dtype=complex64)
    """
    return _one("fft.ifft", "IFFT", a, n, axis, norm)


@api_boundary
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform of real numbers: the n // 2 + 1 first frequencies.

    The others are their conjugates. Arguments and errors are those of `fft`; complex numbers are a
    DTypeError.

    >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _one("fft.rfft", "RFFT", a, n, axis, norm)


@api_boundary
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `rfft`: n real numbers, float32 or float64, from n // 2 + 1 frequencies.

    n is by default even, 2 (m - 1) for m frequencies; an odd one has to be said. The imaginary
    parts of the first frequency, and of the last for even n, are not used. Errors as for `fft`.

    >>> jnp.fft.irfft(jnp.array([10, -2 + 2j, -2]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _one("fft.irfft", "IRFFT", a, n, axis, norm)


_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@api_boundary
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The Fourier transform, which is real, of n numbers with a[-j] the conjugate of a[j].

    Of these only the n // 2 + 1 first are given; n is by default even. Arguments and errors are
    those of `irfft`.

    >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    check_operand("fft.hfft", a, "IRFFT")
    opposite = _OPPOSITE[normalization("fft.hfft", norm)]
    conjugate = conj(a) if type_of(a).dtype in dtypes.COMPLEX else a
    return _one("fft.hfft", "IRFFT", conjugate, n, axis, opposite)


@api_boundary
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The inverse of `hfft`: n // 2 + 1 complex numbers from n real ones.

    >>> jnp.fft.ihfft(jnp.array([8.0, -2.0, 0.0, -2.0])).real
    Array([1., 2., 3.], dtype=float32)
    """
    opposite = _OPPOSITE[normalization("fft.ihfft", norm)]
    return conj(_one("fft.ihfft", "RFFT", a, n, axis, opposite))


@api_boundary
def fftn(
    a: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The Fourier transform over several axes, all where none are given.

    s: a length for each axis (-1: that of `a`), to which `a` is cut or filled up with zeros;
    without `axes` they are those of the last axes. norm and dtypes as for `fft`.

    Raises ShapeError if s and axes have different lengths, AxisError for an axis that is not
    there or is given twice, WeftValueError, WeftTypeError and DTypeError as `fft`.

    >>> jnp.fft.fftn(jnp.array([[1.0, 2.0], [3.0, 4.0]])).real
    Array([[10., -2.],
           [-4.,  0.]], dtype=float32)
    """
    return _several("fft.fftn", "FFT", a, s, axes, norm)


@api_boundary
def ifftn(
    a: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `fftn`, with the same arguments and errors.

    >>> jnp.fft.ifftn(jnp.array([[4.0, 0.0], [0.0, 0.0]])).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _several("fft.ifftn", "IFFT", a, s, axes, norm)


@api_boundary
def rfftn(
    a: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The Fourier transform of real numbers over several axes, the last of them as in `rfft`.

    Arguments and errors are those of `fftn`; complex numbers are a DTypeError.

    >>> jnp.fft.rfftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _several("fft.rfftn", "RFFT", a, s, axes, norm)


@api_boundary
def irfftn(
    a: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The inverse of `rfftn`: real numbers; the last of the axes is as in `irfft`.

    Arguments and errors are those of `fftn`.

    >>> jnp.fft.irfftn(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _several("fft.irfftn", "IRFFT", a, s, axes, norm)


@api_boundary
def fft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`fftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.fft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _several("fft.fft2", "FFT", a, s, axes, norm, 2)


@api_boundary
def ifft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`ifftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.ifft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _several("fft.ifft2", "IFFT", a, s, axes, norm, 2)


@api_boundary
def rfft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`rfftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.rfft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _several("fft.rfft2", "RFFT", a, s, axes, norm, 2)


@api_boundary
def irfft2(
    a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Array:
    """`irfftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.irfft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _several("fft.irfft2", "IRFFT", a, s, axes, norm, 2)


@api_boundary
def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of `fft`, 0, 1, ..., then the negative ones, divided by n d.

    n: how many samples; d: the distance between two, a number or an array without dimensions.
    dtype: by default the default float, or that of the array d. Raises WeftValueError for n below 1
    and d = 0, DTypeError for a dtype that has no fractions.

    >>> jnp.fft.fftfreq(5, d=0.5)
    Array([ 0. ,  0.4,  0.8, -0.8, -0.4], dtype=float32)
    """
    return _frequencies("fft.fftfreq", n, d, dtype, device, False)


@api_boundary
def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The n // 2 + 1 frequencies of `rfft`, with the arguments and errors of `fftfreq`.

    >>> jnp.fft.rfftfreq(5, d=0.5)
    Array([0. , 0.4, 0.8], dtype=float32)
    """
    return _frequencies("fft.rfftfreq", n, d, dtype, device, True)


def _frequencies(operation: str, n: Any, d: Any, dtype: Any, device: Any, halved: bool) -> Any:
    count = length_of(operation, "n", n)
    target = None if dtype is None else dtypes.requested(dtype)
    if target is not None and target not in dtypes.INEXACT:
        message = f"{operation}: frequencies have fractions"
        got = f"dtype={dtype!r}"
        fix = Fix("dtype", "pass dtype='float32'", {"dtype": "float32"})
        raise refusal(DTypeError, message, operation, got, "a floating-point dtype", fix)
    check_arrays(operation, d)
    number = isinstance(d, (int, float, np.floating, np.integer)) and not isinstance(d, bool)
    if type_of(d).shape or type_of(d).dtype in dtypes.COMPLEX or (number and d == 0):
        message = f"{operation}: d is a real number that is not 0"
        got = f"d={d!r}" if number else f"d: {type_of(d)}"
        wanted = "a real number, or an array of one without dimensions, that is not 0"
        fix = Fix("d", "pass d=1.0", {"d": 1.0})
        raise refusal(WeftValueError, message, operation, got, wanted, fix)
    size, first = (count // 2 + 1, count) if halved else (count, (count + 1) // 2)
    if not number:
        out = _scaled_frequencies(d, size=size, count=count, positive=first)
        return _placed(out if target is None else convert_element_type(out, target), device)
    places = np.arange(size)
    made = np.where(places < first, places, places - count) / (count * float(d))
    made = made.astype(dtypes.default_float() if target is None else target)
    return _placed(put(made, ArrayType(made.shape, made.dtype)), device)


@compiled
def _scaled_frequencies(d: Any, *, size: int, count: int, positive: int) -> Any:
    dtype = inexact(type_of(d).dtype)
    places = broadcasted_iota(np.dtype(np.int32), (size,), 0)
    behind = sub(places, np.int32(count))
    places = select(lt(places, np.int32(positive)), places, behind)
    return div(convert(places, dtype), mul(convert(d, dtype), dtype.type(count)))


@api_boundary
def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Array:
    """The frequencies in rising order: zero is moved to the middle of the axes, all by default.

    Raises AxisError for an axis that is not there or is given twice.

    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4, 0.25))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    return _shifted("fft.fftshift", x, axes, lambda size: size // 2)


@api_boundary
def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of `fftshift`.

    >>> jnp.fft.ifftshift(jnp.array([-1, 0, 1]))
    Array([ 0,  1, -1], dtype=int32)
    """
    return _shifted("fft.ifftshift", x, axes, lambda size: -(size // 2))


def _shifted(operation: str, x: Any, axes: Any, by: Callable[[int], int]) -> Any:
    x = operand(operation, x)
    shape = type_of(x).shape
    found = axes_of(axes, len(shape), operation)
    return roll(x, [by(shape[d]) for d in found], list(found)) if found else asarray(x)
