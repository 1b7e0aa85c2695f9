"""Differences, sums and products along a line: diff, gradient, trapezoid, convolve, correlate."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import unsupported_argument, wrong_shape
from weft.kinds.arguments import (
    Axes,
    Length,
    OneAxis,
    Operand,
    Promoted,
    choice,
    operand_kind,
    promoted_kind,
    take_beside,
    take_stored,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, check_arrays, inexact, promote_values
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.joining import concatenate
from weft.numpy.linear_algebra import preferred_dtype
from weft.ops.elementwise.rounding import is_finite
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.products.convolution import conv_general_dilated
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.joining import rev
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim
from weft.typing import ArrayLike

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "trapezoid", "unwrap"]


# ---- kinds ---------------------------------------------------------------------------------------


def _with_dimensions(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    if not type_of(value).ndim:
        message = "takes an array with dimensions"
        raise ShapeError(message, got=str(type_of(value)), wanted="(n,)")
    return value


def _real(value: Any, call: Arguments) -> Any:
    value = promoted_kind.take(value, call)
    if type_of(value).dtype in dtypes.COMPLEX:
        first = not call.position
        part = "take the angle first: weft.numpy.angle(p)" if first else f"pass {call.name}.real"
        message, got = "takes real numbers", f"{call.name}: {type_of(value)}"
        raise DTypeError(message, got=got, wanted="a real dtype", fix=Fix("part", part))
    return value


def _signal(value: Any, call: Arguments) -> Any:
    return _with_dimensions(_real(value, call), call)


def _jump(value: Any, call: Arguments) -> Any:
    return number_for(_real(value, call), call.type.dtype)


def _steps(values: tuple[Any, ...], call: Arguments) -> tuple[Any, ...]:
    return tuple(take_beside(value, call) for value in values)


def _line(value: Any, call: Arguments) -> Any:
    value = promoted_kind.take(value, call)
    of = type_of(value)
    got = f"{call.name}: {of}"
    if of.ndim != 1 or not of.size:
        message = "takes two arrays of one dimension that are not empty"
        raise ShapeError(message, got=got)
    if of.dtype == dtypes.bool_:
        fix = Fix("convert", "convert the booleans: x.astype(int)", {"dtype": "int32"})
        raise DTypeError("takes numbers", got=got, fix=fix)
    return value


def _edge_order(value: Any, call: Arguments) -> None:
    if value != 1:
        why = "the slopes at the edges are those between two samples"
        fix = "leave it out, or replace the first and last slopes by ones of higher order"
        raise unsupported_argument(call.operation, call.name, value, why, fix, 1)


_vector = np.array([1.0, 2.0, 4.0])
_array = dataclasses.replace(operand_kind, arrays=False)
Dimensioned = Annotated[ArrayLike, dataclasses.replace(_array, take=_with_dimensions)]
Signal = Annotated[
    Any, dataclasses.replace(promoted_kind, take=_signal, arrays=False, wrong=(1j, 2.0))
]
Period = Annotated[
    Any, dataclasses.replace(promoted_kind, take=_real, arrays=False, wrong=(1j, "text"))
]
Jump = Annotated[Any, dataclasses.replace(_array, take=_jump, wrong=(1j, "text"))]
# A number is converted to the dtype of the first operand, without rounding on the way.
Beside = Annotated[Any, dataclasses.replace(operand_kind, take=take_stored)]
Step = Annotated[Any, dataclasses.replace(operand_kind, take=take_beside)]
Steps = Annotated[Any, dataclasses.replace(operand_kind, take=_steps, arrays=False, wrong=())]
Line = Annotated[
    ArrayLike, dataclasses.replace(promoted_kind, take=_line, arrays=False, right=_vector)
]
EdgeOrder = Annotated[Any, Kind(_edge_order, "1 or None: of the slopes at the edges", (2, "text"))]
Overlap = Annotated[str, choice("full", "same", "valid")]
Precision = Annotated[Any, Kind(lambda value, call: value, "as in `lax.conv_general_dilated`")]
SumDType = Annotated[
    Any, Kind(lambda value, call: preferred_dtype(value), "a dtype for the sums", ("text", 5))
]


# ---- differences ---------------------------------------------------------------------------------


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    """All elements along an axis but the first, and all but the last."""
    return slice_in_dim(a, 1, None, axis=axis), slice_in_dim(a, 0, -1, axis=axis)


def _differences(a: Any, axis: int, n: int) -> Any:
    for _ in range(n):
        high, low = _neighbours(a, axis)
        a = high != low if a.dtype == dtypes.bool_ else high - low
    return a


@array_function
def diff(
    a: Dimensioned,
    n: Length = 1,
    axis: OneAxis = -1,
    prepend: Beside | None = None,
    append: Beside | None = None,
) -> Array:
    """The n-th differences of neighbours along `axis`; of booleans, whether they differ.

    n: how often differences are taken, where 0 gives the array as it is. prepend, append: values to
    put before and after the elements first; a number stands for one slice.

    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    one = tuple(1 if d == axis else size for d, size in enumerate(a.shape))
    ends = (x if x is None or x.ndim else broadcasted(x, one) for x in (prepend, append))
    before, after = ([] if x is None else [x] for x in ends)
    if n and (before or after):
        a = concatenate([*before, a, *after], axis)
    return _differences(a, axis, min(n, a.shape[axis]))


@array_function
def ediff1d(ary: Operand, to_end: Beside | None = None, to_begin: Beside | None = None) -> Array:
    """The differences of neighbours in the flattened array, between given values.

    to_end, to_begin: numbers or arrays, flattened, that are put behind and before the differences.

    The result has one element less than the array, plus the given ones.

    >>> jnp.ediff1d(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    before, after = (
        [] if x is None else [x.astype(ary.dtype).reshape(x.size)] for x in (to_begin, to_end)
    )
    out = _differences(ary.reshape(ary.size), 0, min(1, ary.size))
    return concatenate([*before, out, *after]) if before or after else out


@array_function
def unwrap(
    p: Signal, discont: Jump | None = None, axis: OneAxis = -1, period: Period = 2 * math.pi
) -> Array:
    """A signal that is known up to multiples of `period`, without jumps along `axis`.

    p: an array of real numbers, such as angles in radians.

    Where neighbours differ by `discont` or more (at least half a period, which is the default),
    multiples of the period are added from there on. Integers stay integers if the period is an
    integer. Raises DTypeError for complex numbers, AxisError for an axis out of range.

    >>> jnp.unwrap(jnp.array([0.0, 1.0, 7.0, 8.0]), period=6.0)
    Array([0., 1., 1., 2.], dtype=float32)
    """
    if p.dtype == dtypes.bool_:
        p, period = (x.astype(dtypes.default_int()) for x in (p, period))
    if not p.shape[axis]:
        return p
    whole = p.dtype in dtypes.INTEGER
    high, low = _neighbours(p, axis)
    jumps = high - low
    period = broadcasted(period, jumps.shape)
    half = period // 2 if whole else period * 0.5
    odd = period % 2 if whole else period * 0
    wrapped = (jumps + half) % period - half
    # A jump of exactly half a period keeps its sign; an odd whole period has no such jump.
    wrapped = select((wrapped == -half) & (jumps > 0) & (odd == 0), half, wrapped)
    small = abs(jumps) < (half + odd if discont is None else discont)
    correction = wrapped - jumps
    correction = select(small, correction * 0, correction)
    first = slice_in_dim(p, 0, 1, axis=axis)
    return join([first, high + correction.cumsum(axis)], axis)


def _slopes(f: Any, h: Any, axis: int) -> Any:
    """Central differences inside, one-sided ones at the ends; `h` is a step or the coordinates."""
    n = f.shape[axis]

    def part(x: Any, low: int, high: int) -> Any:
        return slice_in_dim(x, low, high, axis=axis)

    left, here, right = part(f, 0, n - 2), part(f, 1, n - 1), part(f, 2, n)
    if h.ndim:
        high, low = _neighbours(h, 0)
        along = tuple(size - 1 if d == axis else size for d, size in enumerate(f.shape))
        steps = broadcast_in_dim(high - low, along, (axis,))
        before, after = part(steps, 0, n - 2), part(steps, 1, n - 1)
        first, last = part(steps, 0, 1), part(steps, n - 2, n - 1)
        # The derivative of the parabola through three neighbours (Fornberg, 1988).
        total = before + after
        middle = -(after / (before * total)) * left + (after - before) / (before * after) * here
        middle = middle + before / (after * total) * right
    else:
        first = last = h
        middle = (right - left) / (h * 2)
    low = (part(f, 1, 2) - part(f, 0, 1)) / first
    high = (part(f, n - 1, n) - part(f, n - 2, n - 1)) / last
    return join([low, middle, high], axis)


@overload
def gradient(f: ArrayLike, *varargs: Any, axis: int, edge_order: int | None = ...) -> Array: ...
@overload
def gradient(f: ArrayLike, *varargs: Any, axis: Any = ..., edge_order: int | None = ...) -> Any: ...
@array_function
def gradient(f: Operand, *varargs: Steps, axis: Axes = None, edge_order: EdgeOrder = None) -> Any:
    """The slopes of samples along each axis (or `axis`): central differences inside the array.

    f: samples, an array of any number of dimensions. edge_order: 1 or None, because slopes at the
    edges are those between two samples. varargs: one step for all axes, or a step or the
    coordinates for each. Returns one array, or a list with one per axis. Raises ShapeError for
    fewer than two samples.

    >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
    Array([3., 4., 5.], dtype=float32)
    """
    if any(f.shape[d] < 2 for d in axis):
        raise ShapeError("it takes two or more samples along each axis", got=str(f.type))
    if len(varargs) not in (0, 1, len(axis)):
        message = f"there are {len(varargs)} steps for {len(axis)} axes"
        raise WeftValueError(message, wanted="none, one, or one per axis")
    dtype = inexact(f.dtype)
    steps = [step.astype(dtype) for step in varargs or (dtype.type(1),)]
    steps = steps * len(axis) if len(steps) == 1 else steps
    for step, d in zip(steps, axis, strict=True):
        if step.shape not in ((), (f.shape[d],)):
            wanted = f"a number, or {f.shape[d]} coordinates"
            raise ShapeError(
                f"the coordinates do not fit axis {d}", got=str(step.type), wanted=wanted
            )
    f = f.astype(dtype)
    out = [_slopes(f, step, d) for step, d in zip(steps, axis, strict=True)]
    return out[0] if len(out) == 1 else out


# ---- sums and products ---------------------------------------------------------------------------


@custom_jvp
def _finite(x: Any) -> Any:
    """Replaces infinities and NaN by 0, with derivative 1 there too."""
    return select(is_finite(x), x, zeros_like_array(x))


@_finite.defjvp
def _finite_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return _finite(*primals), tangents[0]


@array_function
def trapezoid(y: Promoted, x: Promoted | None = None, dx: Step = 1.0, axis: OneAxis = -1) -> Array:
    """The integral along `axis` by the trapezoidal rule, of samples at `x` or at distance `dx`.

    x: where the samples are, (n,) or of a shape that broadcasts to that of y. The result is
    floating or complex. Raises ShapeError for an x that does not fit.

    >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]), dx=0.5)
    Array(2., dtype=float32)
    """
    n = y.shape[axis]
    if x is not None and x.ndim == 1 and x.size != n:
        got = f"y: {y.type}, x: {x.type}, axis={axis}"
        raise wrong_shape(got, f"an x of {n} elements")
    y = y.astype(inexact(y.dtype))
    y, step = promote_values("trapezoid", y, dx if x is None else x.astype(y.dtype))
    dtype = y.dtype
    y, step = (v.astype(accumulator(dtype)) for v in (y, step))
    if x is not None and step.ndim:
        along = broadcast_in_dim(step, y.shape, (axis,)) if step.ndim == 1 else step
        step = _differences(broadcasted(along, y.shape), axis, min(n, 1))
    if not n:
        return y.sum(axis).astype(dtype)
    high, low = _neighbours(y, axis)
    if not step.ndim and n > 1 and dtype not in dtypes.COMPLEX:
        # One sum, without arrays of neighbours: of the first and the last only half counts.
        first, last = (slice_in_dim(y, i, i + 1, axis=axis) for i in (0, n - 1))
        total = y.sum(axis)
        total = total - _finite((first * 0.5 + last * 0.5).reshape(total.shape))
        return (total * step).astype(dtype)
    total = ((high + low) * broadcasted(step, high.shape)).sum(axis)
    return (total * 0.5).astype(dtype)


def _convolution(a: Any, v: Any, mode: str, turned: bool, precision: Any, preferred: Any) -> Any:
    """One-dimensional convolution; a correlation conjugates the second operand instead of reversing
    it."""
    if turned and v.dtype in dtypes.COMPLEX:
        v = v.conj()
    swap = a.size < v.size
    if swap:
        a, v = v, a
    n, m = a.size, v.size
    # XLA's convolution is a correlation: it does not turn the window.
    window = v if turned else rev(v, (0,))
    low, high = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = conv_general_dilated(
        a.reshape(1, 1, n),
        window.reshape(1, 1, m),
        (1,),
        [(low, high)],
        precision=precision,
        preferred_element_type=preferred,
    )
    out = out.reshape(out.size)
    return rev(out, (0,)) if turned and swap else out


@array_function
def convolve(
    a: Line,
    v: Line,
    mode: Overlap = "full",
    *,
    precision: Precision = None,
    preferred_element_type: SumDType = None,
) -> Array:
    """The convolution of two arrays of one dimension.

    a, v: vectors; exchanging them changes nothing. mode: "full" has every overlap, "same" the
    length of the longer array, "valid" only whole overlaps.

    >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    return _convolution(a, v, mode, False, precision, preferred_element_type)


@array_function
def correlate(
    a: Line,
    v: Line,
    mode: Overlap = "valid",
    *,
    precision: Precision = None,
    preferred_element_type: SumDType = None,
) -> Array:
    """The correlation of two arrays of one dimension, the second conjugated.

    a, v: vectors, of which `v` is conjugated; mode: as in `convolve`.

    >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0]))
    Array([1., 2.], dtype=float32)
    """
    return _convolution(a, v, mode, True, precision, preferred_element_type)
