"""Differences, sums and products along a line: diff, gradient, trapezoid, convolve, correlate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

from weft import dtypes
from weft.argument_errors import integer_of, not_taken, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    check_arrays,
    check_choice,
    convert,
    inexact,
    operand,
    operands,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import canonical_type, number_for, promote_operands
from weft.kinds.repeated import repeated
from weft.numpy.creation import asarray, full
from weft.numpy.elementwise import floor_divide, less, remainder
from weft.numpy.joining import concatenate
from weft.numpy.linear_algebra import preferred_dtype
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, eq, mul, ne, neg, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.complex import conj
from weft.ops.elementwise.rounding import is_finite
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import zeros_like_array
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.products.convolution import conv_general_dilated
from weft.ops.reductions.cumulative import cumsum
from weft.ops.structural.joining import concatenate as join
from weft.ops.structural.joining import rev
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape
from weft.typing import ArrayLike

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "trapezoid", "unwrap"]


@compiled
def _diff(a: Any, *, n: int, axis: int) -> Any:
    for _ in range(n):
        high, low = slice_in_dim(a, 1, None, axis=axis), slice_in_dim(a, 0, -1, axis=axis)
        a = ne(high, low) if type_of(a).dtype == dtypes.bool_ else sub(high, low)
    return a


@repeated
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None
) -> Array:
    """The n-th differences of neighbours along `axis`; of booleans, whether they differ.

    n: how often differences are taken, where 0 gives the array as it is. prepend, append: values to
    put before and after the elements first; a number stands for one slice.

    >>> jnp.diff(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    a = operand("diff", a)
    of = type_of(a)
    if not of.ndim:
        raise ShapeError("diff takes an array with dimensions", operation="diff", got=str(of))
    times = integer_of(n, "diff", "n")
    if times < 0:
        raise WeftValueError("diff: n is not negative", operation="diff", got=f"n={n}")
    place = axis_of(axis, of.ndim, "diff")
    if times == 0:
        return asarray(a)
    parts = [a]
    for value, first in ((prepend, True), (append, False)):
        if value is None:
            continue
        check_arrays("diff", value)
        value = number_for("diff", value, of.dtype)
        if not type_of(value).ndim:
            one = tuple(1 if d == place else s for d, s in enumerate(of.shape))
            value = broadcasted(value, one)
        parts = [value, *parts] if first else [*parts, value]
    if len(parts) > 1:
        a = concatenate(parts, place)
    return _diff(a, n=min(times, type_of(a).shape[place]), axis=place)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """The differences of neighbours in the flattened array, between given values.

    to_end, to_begin: numbers or arrays, flattened, that are put behind and before the differences.

    The result has one element less than the array, plus the given ones.

    >>> jnp.ediff1d(jnp.array([1, 4, 9]))
    Array([3, 5], dtype=int32)
    """
    ary = operand("ediff1d", ary)
    flat = reshape(ary, (type_of(ary).size,))
    found = _diff(flat, n=1, axis=0) if type_of(ary).size else flat
    parts = [found]
    for value, first in ((to_begin, True), (to_end, False)):
        if value is not None:
            check_arrays("ediff1d", value)
            value = number_for("ediff1d", value, type_of(ary).dtype)
            flat = reshape(convert(value, type_of(ary).dtype), (type_of(value).size,))
            parts = [flat, *parts] if first else [*parts, flat]
    return concatenate(parts) if len(parts) > 1 else found


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Array:
    """A signal that is known up to multiples of `period`, without jumps along `axis`.

    p: an array of real numbers, such as angles in radians.

    Where neighbours differ by `discont` or more (at least half a period, which is the default),
    multiples of the period are added from there on. Integers stay integers if the period is an
    integer. Raises DTypeError for complex numbers, AxisError for an axis out of range.

    >>> jnp.unwrap(jnp.array([0.0, 1.0, 7.0, 8.0]), period=6.0)
    Array([0., 1., 1., 2.], dtype=float32)
    """
    given = [period] if discont is None else [period, discont]
    check_arrays("unwrap", p, *given)
    p, period = promote_operands("unwrap", p, period)
    of = type_of(p)
    types = [canonical_type(x) for x in (p, *given)]
    if any(t.dtype in dtypes.COMPLEX for t in types):
        got = ", ".join(map(str, types))
        phases = "take the angle first: weft.numpy.angle(p)"
        fix = Fix("part", phases if types[0].dtype in dtypes.COMPLEX else "pass period.real")
        raise refusal(DTypeError, "unwrap takes real numbers", "unwrap", got, "a real dtype", fix)
    if not of.ndim:
        message = "unwrap takes an array with dimensions"
        raise refusal(ShapeError, message, "unwrap", str(of), "(n,)")
    place = axis_of(axis, of.ndim, "unwrap")
    if of.dtype == dtypes.bool_:
        p = convert(p, dtypes.default_int())
    p, period = promoted("unwrap", p, period)
    if not of.shape[place]:
        return asarray(p)
    rest = [number_for("unwrap", x, type_of(p).dtype) for x in given[1:]]
    return _unwrap(p, period, *rest, axis=place)


@compiled
def _unwrap(p: Any, period: Any, *discont: Any, axis: int) -> Any:
    dtype = type_of(p).dtype
    whole = dtype in dtypes.INTEGER
    high, low = slice_in_dim(p, 1, None, axis=axis), slice_in_dim(p, 0, -1, axis=axis)
    jumps = sub(high, low)
    shape = type_of(jumps).shape
    period = broadcasted(period, shape)
    half = floor_divide(period, dtype.type(2)) if whole else mul(period, dtype.type(0.5))
    odd = remainder(period, dtype.type(2)) if whole else mul(period, dtype.type(0))
    least = neg(half)
    wrapped = add(remainder(sub(jumps, least), period), least)
    # A jump of exactly half a period keeps its sign; an odd whole period has no such jump.
    turned = bitwise_and(eq(wrapped, least), less(dtype.type(0), jumps))
    wrapped = select(bitwise_and(turned, eq(odd, mul(odd, dtype.type(0)))), half, wrapped)
    correction = sub(wrapped, jumps)
    small = less(abs_(jumps), discont[0] if discont else add(half, odd))
    correction = select(small, mul(correction, dtype.type(0)), correction)
    first = slice_in_dim(p, 0, 1, axis=axis)
    return join([first, add(high, cumsum(correction, axis))], axis)


@compiled
def _gradient(f: Any, h: Any, *, axis: int) -> Any:
    """Central differences inside, one-sided ones at the ends; `h` is a step or the coordinates."""
    dtype = inexact(type_of(f).dtype)
    f, h = convert(f, dtype), convert(h, dtype)
    shape = type_of(f).shape
    n = shape[axis]

    def part(low: int, high: int) -> Any:
        return slice_in_dim(f, low, high, axis=axis)

    if type_of(h).ndim:
        steps = sub(slice_in_dim(h, 1, None), slice_in_dim(h, 0, -1))
        along = tuple(size - 1 if d == axis else size for d, size in enumerate(shape))
        steps = broadcast_in_dim(steps, along, (axis,))
        before = slice_in_dim(steps, 0, n - 2, axis=axis)
        after = slice_in_dim(steps, 1, n - 1, axis=axis)
        first = slice_in_dim(steps, 0, 1, axis=axis)
        last = slice_in_dim(steps, n - 2, n - 1, axis=axis)
        # The derivative of the parabola through three neighbours (Fornberg, 1988).
        total = add(before, after)
        middle = add(
            add(
                mul(neg(div(after, mul(before, total))), part(0, n - 2)),
                mul(div(sub(after, before), mul(before, after)), part(1, n - 1)),
            ),
            mul(div(before, mul(after, total)), part(2, n)),
        )
    else:
        first = last = h
        middle = div(sub(part(2, n), part(0, n - 2)), mul(h, dtype.type(2)))
    low, high = (
        div(sub(part(1, 2), part(0, 1)), first),
        div(sub(part(n - 1, n), part(n - 2, n - 1)), last),
    )
    return join([low, middle, high], axis)


@overload
def gradient(f: ArrayLike, *varargs: Any, axis: int, edge_order: int | None = ...) -> Array: ...
@overload
def gradient(f: ArrayLike, *varargs: Any, axis: Any = ..., edge_order: int | None = ...) -> Any: ...
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = None) -> Any:
    """The slopes of samples along each axis (or `axis`): central differences inside the array.

    f: samples, an array of any number of dimensions. edge_order: 1 or None, because slopes at the
    edges are those between two samples. varargs: one step for all axes, or a step or the
    coordinates for each. Returns one array, or a list with one per axis. Raises ShapeError for
    fewer than two samples.

    >>> jnp.gradient(jnp.array([1.0, 4.0, 9.0]))
    Array([3., 4., 5.], dtype=float32)
    """
    f, *_ = operands("gradient", f, *varargs)
    given = [number_for("gradient", step, inexact(type_of(f).dtype)) for step in varargs]
    if edge_order not in (None, 1):
        why = "the slopes at the edges are those between two samples"
        fix = "leave it out, or replace the first and last slopes by ones of higher order"
        raise not_taken("gradient", "edge_order", edge_order, why, fix, 1)
    of = type_of(f)
    axes = axes_of(axis, of.ndim, "gradient")
    if any(of.shape[d] < 2 for d in axes):
        message = "gradient takes two or more samples along each axis"
        raise refusal(ShapeError, message, "gradient", str(of))
    steps: Sequence[Any] = given or (1.0,)
    steps = list(steps) * len(axes) if len(steps) == 1 else list(steps)
    if len(steps) != len(axes):
        message = f"gradient got {len(varargs)} steps for {len(axes)} axes"
        raise WeftValueError(message, operation="gradient", wanted="none, one, or one per axis")
    for step, d in zip(steps, axes, strict=True):
        if type_of(step).shape not in ((), (of.shape[d],)):
            message = f"gradient: the coordinates do not fit axis {d}"
            wanted = f"a number, or {of.shape[d]} coordinates"
            raise refusal(ShapeError, message, "gradient", str(type_of(step)), wanted)
    found = [_gradient(f, step, axis=d) for step, d in zip(steps, axes, strict=True)]
    return found[0] if len(found) == 1 else found


@custom_jvp
def _finite(x: Any) -> Any:
    """Numbers, with 0 for infinities and NaN, and with the derivative 1 there, too."""
    return select(is_finite(x), x, zeros_like_array(x))


@_finite.defjvp
def _finite_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return _finite(*primals), tangents[0]


@compiled
def _trapezoid(y: Any, step: Any, *, axis: int, coordinates: bool) -> Any:
    y, step = promoted("trapezoid", y, step)
    dtype = inexact(type_of(y).dtype)
    working = accumulator(dtype)
    y, step = convert(y, working), convert(step, working)
    shape = type_of(y).shape
    if not type_of(step).ndim and shape[axis] > 1 and working not in dtypes.COMPLEX:
        # One sum, without arrays of neighbours: of the first and the last only half counts.
        total = reduce_sum(y, (axis,))
        ends = (slice_in_dim(y, 0, 1, axis=axis), slice_in_dim(y, -1, None, axis=axis))
        halves = add(*(mul(end, working.type(0.5)) for end in ends))
        total = sub(total, _finite(reshape(halves, type_of(total).shape)))
        return convert(mul(total, step), dtype)
    means = add(slice_in_dim(y, 1, None, axis=axis), slice_in_dim(y, 0, -1, axis=axis))
    if coordinates:
        if type_of(step).ndim == 1:
            step = broadcast_in_dim(step, shape, (axis,))
        step = broadcasted(step, shape)
        step = sub(slice_in_dim(step, 1, None, axis=axis), slice_in_dim(step, 0, -1, axis=axis))
    total = reduce_sum(mul(means, broadcasted(step, type_of(means).shape)), (axis,))
    return convert(mul(total, working.type(0.5)), dtype)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along `axis` by the trapezoidal rule, of samples at `x` or at distance `dx`.

    >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]), dx=0.5)
    Array(2., dtype=float32)
    """
    y = operand("trapezoid", y)
    step = dx
    if x is not None:
        y, step = promoted("trapezoid", *promote_operands("trapezoid", y, x))
        if type_of(step).dtype not in dtypes.INEXACT:
            step = convert(step, inexact(type_of(step).dtype))
    if type_of(y).dtype not in dtypes.INEXACT:
        y = convert(y, inexact(type_of(y).dtype))
    y, step = promote_operands("trapezoid", y, step)
    of = type_of(y)
    place = axis_of(axis, of.ndim, "trapezoid")
    if x is not None and type_of(x).ndim == 1 and type_of(x).shape[0] != of.shape[place]:
        message = f"trapezoid: {type_of(x).shape[0]} coordinates for {of.shape[place]} samples"
        raise ShapeError(message, operation="trapezoid")
    if x is not None:
        broadcast_shape("trapezoid", of.shape, type_of(x).shape if type_of(x).ndim > 1 else ())
    if not of.shape[place]:
        # A sum over no intervals is 0.
        shape = (*of.shape[:place], *of.shape[place + 1 :])
        return full(shape, 0, inexact(of.dtype))
    return _trapezoid(y, step, axis=place, coordinates=x is not None)


@compiled
def _convolve(a: Any, v: Any, *, mode: str, turned: bool, precision: Any, preferred: Any) -> Any:
    """One-dimensional convolution; a correlation has the second operand conjugated, not turned."""
    a, v = promoted("convolve", a, v)
    dtype = type_of(a).dtype
    if turned and dtype in dtypes.COMPLEX:
        v = conj(v)
    swap = type_of(a).size < type_of(v).size
    if swap:
        a, v = v, a
    n, m = type_of(a).size, type_of(v).size
    # XLA's convolution is a correlation: it does not turn the window.
    window = v if turned else rev(v, (0,))
    low, high = {"full": (m - 1, m - 1), "same": (m // 2, m - m // 2 - 1), "valid": (0, 0)}[mode]
    out = conv_general_dilated(
        reshape(a, (1, 1, n)),
        reshape(window, (1, 1, m)),
        (1,),
        [(low, high)],
        precision=precision,
        preferred_element_type=preferred,
    )
    out = reshape(out, (type_of(out).shape[-1],))
    return rev(out, (0,)) if turned and swap else out


def _line(name: str, a: Any, v: Any, mode: str, precision: Any, preferred_element_type: Any) -> Any:
    a, v = promote_operands(name, a, v)
    left, right = type_of(a), type_of(v)
    if left.ndim != 1 or right.ndim != 1 or not left.size or not right.size:
        message = f"{name} takes two arrays of one dimension that are not empty"
        raise refusal(ShapeError, message, name, f"{left} and {right}")
    check_choice(mode, ("full", "same", "valid"), name, "mode")
    if dtypes.bool_ in (left.dtype, right.dtype):
        fix = Fix("convert", "convert the booleans: x.astype(int)", {"dtype": "int32"})
        raise refusal(DTypeError, f"{name} takes numbers", name, f"{left} and {right}", fix=fix)
    preferred = preferred_dtype(preferred_element_type)
    return _convolve(
        a, v, mode=mode, turned=name == "correlate", precision=precision, preferred=preferred
    )


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The convolution of two arrays of one dimension.

    a, v: vectors; exchanging them changes nothing. mode: "full" has every overlap, "same" the
    length of the longer array, "valid" only whole overlaps.

    >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    return _line("convolve", a, v, mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The correlation of two arrays of one dimension, the second conjugated.

    a, v: vectors, of which `v` is conjugated; mode: as in `convolve`.

    >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 0.0]))
    Array([1., 2.], dtype=float32)
    """
    return _line("correlate", a, v, mode, precision, preferred_element_type)
