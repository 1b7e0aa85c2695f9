"""`weft.numpy.fft`: discrete Fourier transforms, as in NumPy and in the Array API standard.

Each function is one or more `ops.fft` over the axes, with zeros added or elements dropped first,
and a factor for `norm`. Integers are computed in the float dtype that has their width, and float16
and bfloat16 in float32, so that there is a complex dtype for the result: complex64 or complex128.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array, put
from weft.base.facades import public_names
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import integer_of, unknown_option
from weft.kinds.arguments import NEVER, Axes, Flag, OneAxis, Operand
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import axes_of, check_arrays, computing_dtype, inexact
from weft.kinds.kind import Arguments, Kind
from weft.numpy.creation import _placed
from weft.numpy.manipulation import roll
from weft.ops.elementwise.arithmetic import scalar
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


# ---- arguments -----------------------------------------------------------------------------------


def _numbers(real: bool) -> Kind:
    """The kind of an operand; real: refuses complex numbers."""

    def take(value: Any, call: Arguments) -> Any:
        operation, argument = call.operation, call.name
        check_arrays(value)
        of = type_of(value)
        got = f"{argument}: {of}"
        if of.dtype not in dtypes.ANY:
            message = f"does not take {dtypes.short_name(of.dtype)}"
            fix = to_dtype(argument, of.dtype, dtypes.float32)
            raise DTypeError(message, got=got, wanted="numbers or booleans", fix=fix)
        if real and of.dtype in dtypes.COMPLEX:
            other = operation.replace("ihfft", "ifft").replace("rfft", "fft")
            text = f"use weft.numpy.{other}, or pass {argument}.real"
            fix = Fix("real", text, {"function": other})
            message = "takes real numbers"
            wanted = f"real numbers; {other} takes complex ones"
            raise DTypeError(message, got=got, wanted=wanted, fix=fix)
        return user_value(value)

    row = np.ones(4, np.float32)
    wrong = ([1, 2], "text", row.astype(dtypes.parse("float8_e4m3fn")), *[row * 1j] * real)
    means = "real numbers" if real else "numbers"
    return Kind(take, means, wrong, np.stack([row, row]), static=False, plain=NEVER)


def _points(value: Any, call: Arguments) -> int:
    name = call.name
    count = integer_of(value, name)
    if count < 1:
        message, got = f"{count} elements have no transform", f"{name}={count}"
        fix = Fix("length", f"pass a length of 1 or more as {name}", {"argument": name})
        raise WeftValueError(message, got=got, wanted="1 element or more", fix=fix)
    return count


def _norm(value: Any, call: Arguments) -> str:
    if value is None:
        return "backward"
    if value not in ("backward", "ortho", "forward"):
        wanted, noun = '"backward" (or None), "ortho" or "forward"', "normalization"
        raise unknown_option(call.operation, "norm", value, wanted, use="ortho", noun=noun)
    return str(value)


def _axes(several: int | None) -> Kind:
    """The kind of axes, or None for all; several: the number of axes, None for any."""

    def take(value: Any, call: Arguments) -> tuple[int, ...]:
        if not isinstance(value, Sequence) and getattr(value, "ndim", 0) != 1:
            message = "axes is a sequence of integers"
            wanted = "a sequence of integers, or None for all axes"
            use = (value,) if isinstance(value, int) and several is None else None
            fix = Fix("axes", f"pass axes={use}", {"axes": use})
            raise WeftTypeError(message, got=f"axes={value!r:.80}", wanted=wanted, fix=fix)
        return axes_of((*value,), call.type.ndim)

    return Kind(take, "a sequence of axes, or None for all", (1, (0, 0), (0, 99)))


def _sizes(several: int | None) -> Kind:
    """The kind of a length for each axis."""

    def take(value: Any, call: Arguments) -> tuple[int, ...]:
        shape, axes = call.type.shape, call["axes"]
        if not isinstance(value, Sequence) and getattr(value, "ndim", 0) != 1:
            count = (several or len(shape)) if axes is None else len(axes)
            use = (value,) * count if isinstance(value, int) else None
            message = "s has a length for each axis"
            wanted = "a sequence of integers, or None"
            fix = Fix("s", f"pass s={use}", {"s": use})
            raise WeftTypeError(message, got=f"s={value!r:.80}", wanted=wanted, fix=fix)
        if axes is None:
            axes = axes_of((*range(-len(value), 0),), len(shape))
        if len(value) != len(axes):
            message = "s and axes have different lengths"
            got, use = f"s={(*value,)}, axes={axes}", tuple(shape[axis] for axis in axes)
            fix = Fix("s", f"pass all lengths: s={use} is as a is", {"s": use})
            raise ShapeError(message, got=got, wanted="a length for each axis", fix=fix)
        sizes = [integer_of(n, "each length of s") for n in value]
        sizes = [shape[axis] if n == -1 else n for axis, n in zip(axes, sizes, strict=True)]
        return tuple([_points(n, call) for n in sizes])

    return Kind(take, "a length for each axis, or None", (4, (0.5,), (4, 0)), late=True)


def _frequency_dtype(value: Any, call: Arguments) -> Any:
    dtype = dtypes.requested(value)
    if dtype not in dtypes.INEXACT:
        message = "frequencies have fractions"
        fix = Fix("dtype", "pass dtype='float32'", {"dtype": "float32"})
        got, wanted = f"dtype={value!r}", "a floating-point dtype"
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return dtype


def _is_number(d: Any) -> bool:
    return isinstance(d, (int, float, np.floating, np.integer)) and not isinstance(d, bool)


def _distance(value: Any, call: Arguments) -> Any:
    number = _is_number(value)
    if number and value != 0:
        return value
    check_arrays(value, argument=call.name)
    of = type_of(value)
    if of.shape or of.dtype in dtypes.COMPLEX or (number and value == 0):
        message = "d is a real number that is not 0"
        got = f"d={value!r}" if number else f"d: {of}"
        wanted = "a real number, or an array of one without dimensions, that is not 0"
        fix = Fix("d", "pass d=1.0", {"d": 1.0})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    return value


Numbers = Annotated[Any, _numbers(real=False)]
Real = Annotated[Any, _numbers(real=True)]
Points = Annotated[int, Kind(_points, "how many elements, 1 or more", ("text", 0), 4, plain=NEVER)]
Norm = Annotated[
    Any, Kind(_norm, '"backward" (or None), "ortho" or "forward"', ("?", 0.5), plain=NEVER)
]
AnyAxes = Annotated[Any, _axes(None)]
Sizes = Annotated[Any, _sizes(None)]
TwoAxes = Annotated[Any, _axes(2)]
TwoSizes = Annotated[Any, _sizes(2)]
Distance = Annotated[
    Any, Kind(_distance, "a real number that is not 0", (0, 1j, "text"), plain=NEVER)
]
FrequencyDType = Annotated[Any, Kind(_frequency_dtype, "a floating-point dtype", ("int32",))]
Place = Annotated[Any, Kind(lambda value, call: value, "a device or a sharding")]


# ---- transforms ----------------------------------------------------------------------------------


def default_length(a: Any, axis: int, halved: bool = False) -> int:
    """The length of a transform if none is given. Raises WeftValueError if it is 0."""
    size = a.shape[axis]
    out = 2 * (size - 1) if halved else size
    if out < 1:
        raise WeftValueError(
            f"axis {axis} is too short for a transform",
            got=f"{type_of(a)}, with {size} elements along axis {axis}",
            wanted=f"{2 if halved else 1} elements or more, or a length: n=, or s=",
            fix=Fix("length", "pass the length: n=, or s= for several axes", {"axis": axis}),
        )
    return out


def chosen_axes(a: Any, s: Any, axes: Any) -> tuple[int, ...]:
    """The axes of a transform: `axes`, or as many last ones as there are lengths, or all."""
    first = 0 if s is None else a.ndim - len(s)
    return tuple(range(first, a.ndim)) if axes is None else axes


def _transform_three(x: Any, kind: str, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    """`ops.fft` over at most three axes in any position."""
    order = [d for d in range(x.ndim) if d not in axes] + list(axes)
    moved = fft_operation(transpose(x, order), kind, tuple(lengths))
    return transpose(moved, [order.index(d) for d in range(x.ndim)])


def resize_axes(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """Pads axes with zeros or truncates them, to the given lengths."""
    padding = [(0, 0, 0)] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        padding[axis] = (0, size - x.shape[axis], 0)
    return pad(x, scalar(0, x), padding)


def _factor(kind: str, norm: str, size: int) -> float:
    """The factor for `norm`: `ops.fft` already divides by the size in the inverse kinds."""
    power = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    root = sqrt(size) if power == 0.5 else float(size) if power else 1.0
    return root if kind in ("IFFT", "IRFFT") else 1.0 / root


def _transform(
    kind: str, a: Any, axes: tuple[int, ...], lengths: tuple[int, ...], norm: str
) -> Any:
    """Transforms the axes; the real kinds halve the last one."""
    dtype = computing_dtype(a.dtype)
    x = a.astype(dtype if kind == "RFFT" else dtypes.to_complex(dtype))
    if not axes:
        return x
    last = lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]
    x = resize_axes(x, axes, (*lengths[:-1], last))
    # The real kinds halve one axis: the others are transformed after RFFT, and before IRFFT.
    ends = range(len(axes), 0, -_AT_ONCE)
    parts = [slice(max(end - _AT_ONCE, 0), end) for end in ends]
    kinds = [kind] + [kind.replace("RFFT", "FFT")] * (len(parts) - 1)
    steps = list(zip(kinds, parts, strict=True))
    for each, part in reversed(steps) if kind == "IRFFT" else steps:
        x = _transform_three(x, each, axes[part], lengths[part])
    factor = _factor(kind, norm, prod(lengths))
    return x if factor == 1 else x * factor


def _transform_1d(kind: str, a: Any, n: int | None, axis: int, norm: str) -> Any:
    """A transform over one axis."""
    length = default_length(a, axis, kind == "IRFFT") if n is None else n
    return _transform(kind, a, (axis,), (length,), norm)


def _transform_nd(
    kind: str, a: Any, s: Any, axes: Any, norm: str, several: int | None = None
) -> Any:
    """A transform over several axes."""
    axes = chosen_axes(a, s, axes)
    if several is not None and len(axes) != several:
        other = f"fft.{kind.lower()}n"
        raise WeftValueError(
            f"it transforms over {several} axes",
            got=f"axes={axes}",
            wanted=f"{several} axes; {other} takes any number",
            fix=Fix("axes", f"use weft.numpy.{other}, which takes any number"),
        )
    if kind in ("RFFT", "IRFFT") and not axes:
        raise WeftValueError(
            "it transforms over one axis or more",
            got=f"a: {type_of(a)}, axes={axes}",
            wanted="one axis or more",
            fix=Fix("axes", "pass axes=(-1,)" if a.ndim else "give it a dimension: a.reshape(1)"),
        )
    if s is None:
        halved = axes[-1] if kind == "IRFFT" else None
        s = tuple([default_length(a, axis, axis == halved) for axis in axes])
    return _transform(kind, a, axes, s, norm)


@array_function
def fft(a: Numbers, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The Fourier transform over one axis: frequency k is the sum of a[j] exp(-2 pi i j k / n).

    n: the length, to which `a` is cut, or filled up with zeros; None: as it is. norm: "backward"
    (or None) divides the inverse by n, "forward" this, "ortho" both by its root. The result is
    complex64, or complex128 for float64, complex128 and 64-bit integers, of the shape of `a` with n
    elements along the axis.

    Raises WeftValueError for a length below 1 and another norm, AxisError, DTypeError.

    >>> jnp.fft.fft(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64)
    """
    return _transform_1d("FFT", a, n, axis, norm)


@array_function
def ifft(a: Numbers, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The inverse of `fft`, with the same arguments, dtypes and errors.

    >>> jnp.fft.ifft(jnp.array([4.0, 0.0]))
    Array([2.+0.j, 2.+0.j], dtype=complex64)
    """
    return _transform_1d("IFFT", a, n, axis, norm)


@array_function
def rfft(a: Real, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The Fourier transform of real numbers: the n // 2 + 1 first frequencies.

    The others are their conjugates. Arguments and errors are those of `fft`; complex numbers are a
    DTypeError.

    >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 3.0, 4.0]))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _transform_1d("RFFT", a, n, axis, norm)


@array_function
def irfft(a: Numbers, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The inverse of `rfft`: n real numbers, float32 or float64, from n // 2 + 1 frequencies.

    n is by default even, 2 (m - 1) for m frequencies; an odd one has to be said. The imaginary
    parts of the first frequency, and of the last for even n, are not used. Errors as for `fft`.

    >>> jnp.fft.irfft(jnp.array([10, -2 + 2j, -2]))
    Array([1., 2., 3., 4.], dtype=float32)
    """
    return _transform_1d("IRFFT", a, n, axis, norm)


_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@array_function
def hfft(a: Numbers, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The Fourier transform, which is real, of n numbers with a[-j] the conjugate of a[j].

    Of these only the n // 2 + 1 first are given; n is by default even. Arguments and errors are
    those of `irfft`.

    >>> jnp.fft.hfft(jnp.array([1.0, 2.0, 3.0]))
    Array([ 8., -2.,  0., -2.], dtype=float32)
    """
    return _transform_1d("IRFFT", a.conj(), n, axis, _OPPOSITE[norm])


@array_function
def ihfft(a: Real, n: Points | None = None, axis: OneAxis = -1, norm: Norm = None) -> Array:
    """The inverse of `hfft`: n // 2 + 1 complex numbers from n real ones.

    >>> jnp.fft.ihfft(jnp.array([8.0, -2.0, 0.0, -2.0])).real
    Array([1., 2., 3.], dtype=float32)
    """
    return _transform_1d("RFFT", a, n, axis, _OPPOSITE[norm]).conj()


@array_function
def fftn(a: Numbers, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None) -> Array:
    """The Fourier transform over several axes, all where none are given.

    s: a length for each axis (-1: that of `a`), to which `a` is cut or filled up with zeros;
    without `axes` they are those of the last axes. norm and dtypes as for `fft`.

    Raises ShapeError if s and axes have different lengths, AxisError for an axis that is not
    there or is given twice, WeftValueError, WeftTypeError and DTypeError as `fft`.

    >>> jnp.fft.fftn(jnp.array([[1.0, 2.0], [3.0, 4.0]])).real
    Array([[10., -2.],
           [-4.,  0.]], dtype=float32)
    """
    return _transform_nd("FFT", a, s, axes, norm)


@array_function
def ifftn(a: Numbers, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None) -> Array:
    """The inverse of `fftn`, with the same arguments and errors.

    >>> jnp.fft.ifftn(jnp.array([[4.0, 0.0], [0.0, 0.0]])).real
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform_nd("IFFT", a, s, axes, norm)


@array_function
def rfftn(a: Real, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None) -> Array:
    """The Fourier transform of real numbers over several axes, the last of them as in `rfft`.

    Arguments and errors are those of `fftn`; complex numbers are a DTypeError.

    >>> jnp.fft.rfftn(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform_nd("RFFT", a, s, axes, norm)


@array_function
def irfftn(a: Numbers, s: Sizes = None, axes: AnyAxes = None, norm: Norm = None) -> Array:
    """The inverse of `rfftn`: real numbers; the last of the axes is as in `irfft`.

    Arguments and errors are those of `fftn`.

    >>> jnp.fft.irfftn(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform_nd("IRFFT", a, s, axes, norm)


@array_function
def fft2(a: Numbers, s: TwoSizes = None, axes: TwoAxes = (-2, -1), norm: Norm = None) -> Array:
    """`fftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.fft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform_nd("FFT", a, s, axes, norm, 2)


@array_function
def ifft2(a: Numbers, s: TwoSizes = None, axes: TwoAxes = (-2, -1), norm: Norm = None) -> Array:
    """`ifftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.ifft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1.+0.j, 1.+0.j],
           [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _transform_nd("IFFT", a, s, axes, norm, 2)


@array_function
def rfft2(a: Real, s: TwoSizes = None, axes: TwoAxes = (-2, -1), norm: Norm = None) -> Array:
    """`rfftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.rfft2(jnp.ones((2, 2)))
    Array([[4.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform_nd("RFFT", a, s, axes, norm, 2)


@array_function
def irfft2(a: Numbers, s: TwoSizes = None, axes: TwoAxes = (-2, -1), norm: Norm = None) -> Array:
    """`irfftn` over two axes. Raises WeftValueError for another number of them.

    >>> jnp.fft.irfft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _transform_nd("IRFFT", a, s, axes, norm, 2)


# ---- frequencies ---------------------------------------------------------------------------------


@array_function
def _scaled_frequencies(d: Operand, n: Points = 1, halved: Flag = False) -> Any:
    dtype = inexact(d.dtype)
    size, first = (n // 2 + 1, n) if halved else (n, (n + 1) // 2)
    places = broadcasted_iota(np.dtype(np.int32), (size,), 0)
    places = select(places < first, places, places - n)
    return places.astype(dtype) / (d.astype(dtype) * n)


def _frequencies(n: int, d: Any, dtype: Any, device: Any, halved: bool) -> Any:
    if not _is_number(d):
        out = _scaled_frequencies(d, n, halved)
        return _placed(out if dtype is None else out.astype(dtype), device)
    size, first = (n // 2 + 1, n) if halved else (n, (n + 1) // 2)
    places = np.arange(size)
    values = np.where(places < first, places, places - n) / (n * float(d))
    values = values.astype(dtypes.default_float() if dtype is None else dtype)
    return _placed(put(values, ArrayType(values.shape, values.dtype)), device)


@python_function
def fftfreq(
    n: Points, d: Distance = 1.0, *, dtype: FrequencyDType = None, device: Place = None
) -> Array:
    """The frequencies of `fft`, 0, 1, ..., then the negative ones, divided by n d.

    n: how many samples; d: the distance between two, a number or an array without dimensions.
    dtype: by default the default float, or that of the array d. Raises WeftValueError for n below 1
    and d = 0, DTypeError for a dtype that has no fractions.

    >>> jnp.fft.fftfreq(5, d=0.5)
    Array([ 0. ,  0.4,  0.8, -0.8, -0.4], dtype=float32)
    """
    return _frequencies(n, d, dtype, device, False)


@python_function
def rfftfreq(
    n: Points, d: Distance = 1.0, *, dtype: FrequencyDType = None, device: Place = None
) -> Array:
    """The n // 2 + 1 frequencies of `rfft`, with the arguments and errors of `fftfreq`.

    >>> jnp.fft.rfftfreq(5, d=0.5)
    Array([0. , 0.4, 0.8], dtype=float32)
    """
    return _frequencies(n, d, dtype, device, True)


def _shift(x: Any, axes: tuple[int, ...], by: Callable[[int], int]) -> Any:
    return roll(x, [by(x.shape[axis]) for axis in axes], axes) if axes else x


@array_function
def fftshift(x: Operand, axes: Axes = None) -> Array:
    """The frequencies in rising order: zero is moved to the middle of the axes, all by default.

    Raises AxisError for an axis that is not there or is given twice.

    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4, 0.25))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    return _shift(x, axes, lambda size: size // 2)


@array_function
def ifftshift(x: Operand, axes: Axes = None) -> Array:
    """The inverse of `fftshift`.

    >>> jnp.fft.ifftshift(jnp.array([-1, 0, 1]))
    Array([ 0,  1, -1], dtype=int32)
    """
    return _shift(x, axes, lambda size: -(size // 2))
