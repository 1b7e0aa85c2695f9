"""Functions that normalise along axes: softmax and its relatives, standardisation, one-hot codes.

Exponentials are taken of differences from the largest element, so that none overflows. That element
is constant to derivatives, which it does not change.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, overload

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix
from weft.errors.argument_errors import invalid_type, invalid_value
from weft.kinds.arguments import (
    NEVER,
    Axes,
    Flag,
    Length,
    Mask,
    NamedAxes,
    operand_kind,
    promoted_kind,
    take_beside,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    inexact,
    promote_values,
)
from weft.kinds.kind import Arguments, Kind
from weft.numpy.axis_names import has_names, split_axes
from weft.numpy.creation import with_lists
from weft.numpy.elementwise import constant_like, maximum
from weft.numpy.reductions import keep_dims
from weft.numpy.reductions import mean as mean_over
from weft.numpy.reductions import sum as sum_over
from weft.ops.collectives.all_reduce import pmax, psum
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import rounding
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.powers import rsqrt
from weft.ops.elementwise.selection import select
from weft.ops.elementwise.stable_sums import flat_log
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.reductions.reduce import largest_below_sum, restore_axes
from weft.ops.structural.narrow import SUMMED_IN_FLOAT32, accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum
from weft.typing import ArrayLike

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]


def _inexact(operation: str, values: list[Any]) -> Sequence[Any]:
    """Promotes operands to one real or complex dtype; weak ones stay weak."""
    wide = []
    for x in values:
        of = type_of(x)
        dtype = inexact(of.dtype)
        wide.append(x if of.dtype == dtype else convert_element_type(x, dtype, of.weak_type))
    return promote_values(operation, *wide)


def _take_summed(value: Any, call: Arguments) -> tuple[Any, ...]:
    # The weights may have more dimensions, which count then.
    ndim = max(call.type.ndim, 0 if call["b"] is None else type_of(call["b"]).ndim)
    if not has_names(value):
        return axes_of(value, ndim)
    positions, names = split_axes(value)
    return (*axes_of(positions, ndim), *names)


def _take_numbers(value: Any, call: Arguments) -> Any:
    # No array of integers holds a large number, and a real one does.
    return float(value) if type(value) is int else promoted_kind.take(value, call)


_numbers_kind = dataclasses.replace(promoted_kind, take=_take_numbers, together=_inexact)
Numbers = Annotated[ArrayLike, _numbers_kind]
# A number does not lose digits that the operand's numbers have.
Beside = Annotated[ArrayLike, dataclasses.replace(operand_kind, take=take_beside)]
_summed_kind = Kind(_take_summed, "an axis, several, or None for all", (99, 0.5), 0, plain=NEVER)
SummedAxes = Annotated[Any, dataclasses.replace(_summed_kind, late=True)]
AnyDType = Annotated[
    Any, Kind(lambda value, call: dtypes.requested(value), "a dtype, or None", ("text", 5))
]


def _widen(x: Any) -> Any:
    """Converts numbers to the dtype of their sums."""
    of = type_of(x)
    return convert_element_type(x, accumulator(of.dtype), of.weak_type)


def _narrow(x: Any, dtype: Any) -> Any:
    """Converts a result back to the dtype of the operand."""
    return convert_element_type(x, dtype) if dtype in SUMMED_IN_FLOAT32 else x


def _broadcast_mask(where: Any, x: Any) -> Any:
    """Broadcasts a mask to the shape of an operand; None without a mask."""
    return None if where is None else broadcasted(where, x.shape)


def _shift(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """The largest element along axes, constant to derivatives, with 0 where it is not finite; and
    as it is."""
    size = real(x) if type_of(x).dtype in dtypes.COMPLEX else x
    largest = largest_below_sum(size, axes)
    return select(rounding.is_finite(largest), largest, constant_like(0, largest)), largest


def _exponentials(x: Any, mask: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """x less its maximum, the exponentials of that, and their sums; the sum is 1 where the mask
    excludes all."""
    if mask is not None:
        x = select(mask, x, constant_like(-math.inf, x))
    largest = largest_below_sum(x, axes)
    if mask is not None:
        largest, nothing = _or_zero(largest)
    shifted = x - restore_axes(largest, x.shape, axes)
    weights = lax.exp(shifted)
    total = reduce_sum(weights, axes)
    if mask is not None:
        total = select(nothing, constant_like(1, total), total)
    return shifted, weights, total


def _or_zero(largest: Any) -> tuple[Any, Any]:
    """The largest elements, 0 where they are minus infinity, and where they are.

    Differences from minus infinity would be NaN, also in derivatives.
    """
    size = real(largest) if type_of(largest).dtype in dtypes.COMPLEX else largest
    nothing = lax.eq(size, constant_like(-math.inf, size))
    return select(nothing, constant_like(0, largest), largest), nothing


@array_function
def softmax(x: Numbers, axis: NamedAxes = -1, where: Mask = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, several, or all (None).

    where: a mask of the elements that count; the others are 0, even if none counts.

    >>> softmax(np.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    _, names = split_axes(axis)
    if names:
        return lax.exp(log_softmax(x, axis, where))
    mask = _broadcast_mask(where, x)
    _, weights, total = _exponentials(_widen(x), mask, axis)
    # One quotient for each sum, also in the derivative.
    factors = restore_axes(lax.div(constant_like(1, total), total), x.shape, axis)
    return _narrow(weights * factors, x.dtype)


@array_function
def log_softmax(x: Numbers, axis: NamedAxes = -1, where: Mask = None) -> Array:
    """The logarithm of `softmax`, exact where that is close to 0.

    where: a mask of the elements that count; the others are minus infinity.

    >>> log_softmax(np.array([1000.0, 0.0]))
    Array([    0., -1000.], dtype=float32)
    """
    _, names = split_axes(axis)
    mask = _broadcast_mask(where, x)
    out: Any
    if names:
        out = x - logsumexp(x, axis, keepdims=True, where=where)
    else:
        shifted, _, total = _exponentials(_widen(x), mask, axis)
        out = _narrow(shifted - restore_axes(lax.log(total), x.shape, axis), x.dtype)
    return select(mask, out, constant_like(-math.inf, out)) if mask is not None else out


@overload
def logsumexp(
    a: Any,
    axis: Any = ...,
    b: Any = ...,
    keepdims: bool = ...,
    return_sign: Literal[False] = ...,
    where: Any = ...,
) -> Array: ...
@overload
def logsumexp(
    a: Any,
    axis: Any = ...,
    b: Any = ...,
    keepdims: bool = ...,
    *,
    return_sign: Literal[True],
    where: Any = ...,
) -> tuple[Array, Array]: ...
@overload
def logsumexp(
    a: Any,
    axis: Any = ...,
    b: Any = ...,
    keepdims: bool = ...,
    return_sign: bool = ...,
    where: Any = ...,
) -> Any: ...
@array_function
def logsumexp(
    a: Numbers,
    axis: SummedAxes = None,
    b: Numbers | None = None,
    keepdims: Flag = False,
    return_sign: Flag = False,
    where: Mask = None,
) -> Any:
    """log(sum(b * exp(a))) along an axis, several, or all (None), without overflow.

    b: factors, which broadcast against `a`; where: a mask of the elements that count;
    return_sign: the result is a pair of the logarithm of the absolute value and the sign of the
    sum (without it, a negative sum gives NaN).

    Derivatives are 0 where no element counts. Where terms cancel to 0 they are infinite, and 0
    with `return_sign`: the absolute value has a corner there.

    >>> logsumexp(np.array([1000.0, 0.0]))
    Array(1000., dtype=float32)
    """
    positions, names = split_axes(axis)
    if names:
        parts = logsumexp(a, positions, b, keepdims, return_sign=True, where=where)
        return _logsumexp_of_parts(*parts, names, signed=return_sign)
    dtype = a.dtype
    if b is not None:
        shape = broadcast_shape(a.shape, b.shape)
        a, b = broadcasted(a, shape), broadcasted(b, shape)
    mask = _broadcast_mask(where, a)
    x, shape = _widen(a), a.shape
    weights = None if b is None else _widen(b)
    if mask is not None:
        x = select(mask, x, constant_like(-math.inf, x))
    if weights is not None:
        # An element of weight 0 does not count, be it infinite.
        x = select(weights == 0, constant_like(-math.inf, x), x)
    shift, largest = _shift(x, axis)
    complex_shift = convert_element_type(shift, x.dtype)
    terms = lax.exp(x - restore_axes(complex_shift, shape, axis))
    if weights is not None:
        terms = terms * weights
    total = reduce_sum(terms, axis)
    # Where no element counts, the derivative is 0.
    if weights is None or return_sign:
        logarithm = flat_log(lax.abs(total) if return_sign else total)
    else:  # Terms that cancel have a derivative, an infinite one.
        nothing = lax.eq(largest, constant_like(-math.inf, largest))
        logarithm = lax.log(select(nothing, constant_like(1, total), total))
        logarithm = select(nothing, constant_like(-math.inf, total), logarithm)
    out = logarithm + (shift if return_sign else complex_shift)
    outs = (out, lax.sign(total)) if return_sign else (out,)
    outs = tuple(keep_dims(_narrow(x, dtype), shape, axis, keepdims) for x in outs)
    return outs if return_sign else outs[0]


def _logsumexp_of_parts(part: Any, sign: Any, names: tuple[str, ...], signed: bool) -> Any:
    """`logsumexp` along named axes, from each place's logarithm and sign of the sum."""
    shift, _ = _or_zero(pmax(stop_gradient(part), names))
    total = psum(lax.mul(sign, lax.exp(lax.sub(part, shift))), names)
    out = lax.add(flat_log(lax.abs(total) if signed else total), shift)
    return (out, lax.sign(total)) if signed else out


@array_function
def logmeanexp(x: Numbers, axis: Axes = None, where: Mask = None, keepdims: Flag = False) -> Array:
    """log(mean(exp(x))) along an axis, several, or all (None), without overflow.

    where: a mask of the elements that count.

    >>> logmeanexp(np.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    if where is None:
        size = math.prod(x.shape[d] for d in axis)
        return total - total.dtype.type(math.log(size) if size else -math.inf)
    count = sum_over(
        _broadcast_mask(where, x), axis, keepdims=keepdims, dtype=accumulator(total.dtype)
    )
    return total - convert_element_type(lax.log(count), total.dtype)


def _variance(x: Any, center: Any, mask: Any, axes: tuple[int, ...], algorithm: str) -> Any:
    """The variance about a center."""
    if algorithm == "stable":
        away = x - center
        return mean_over(away * away, axes, keepdims=True, where=mask)
    squares = mean_over(x * x, axes, keepdims=True, where=mask)
    # Rounding may make the difference of two nearly equal numbers negative.
    return maximum(squares - center * center, 0)


def _take_algorithm(value: Any, call: Arguments) -> str:
    if value not in ("fast", "stable"):
        message = f"{call.operation} knows two algorithms"
        fix = Fix("argument", "use algorithm='stable'", {"algorithm": "stable"})
        wanted = "'fast' or 'stable'"
        raise invalid_value(message, call.operation, call.name, value, wanted, fix=fix)
    return str(value)


Algorithm = Annotated[str, Kind(_take_algorithm, "'fast' or 'stable'", ("?", 0.5), plain=NEVER)]


@array_function
def standardize(
    x: Numbers,
    axis: Axes = -1,
    mean: Beside | None = None,
    variance: Beside | None = None,
    epsilon: Beside = 1e-5,
    where: Mask = None,
    *,
    algorithm: Algorithm = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the moments along an axis where none are given.

    mean, variance: numbers or arrays that broadcast with `x`; None for those along `axis`. epsilon:
    a small number that keeps the divisor from 0. where: a mask of the elements that count for the
    moments. algorithm: "fast" takes the variance as the mean square less the squared mean, "stable"
    as the mean squared distance from the mean.

    >>> standardize(np.array([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    of = x.dtype
    mask = _broadcast_mask(where, x)
    x = _widen(x)
    if mean is None:
        mean = mean_over(x, axis, keepdims=True, where=mask)
    mean = convert_element_type(mean, x.dtype)
    if variance is None:
        variance = _variance(x, mean, mask, axis, algorithm)
    elif of in SUMMED_IN_FLOAT32:
        variance = _widen(variance)
    epsilon = convert_element_type(epsilon, x.dtype)
    return _narrow((x - mean) * rsqrt(variance + epsilon), of)


def _take_new_axis(value: Any, call: Arguments) -> int:
    if isinstance(value, str):
        message = "one_hot takes an integer axis, not the name of a mapped one"
        fix = Fix(
            "compare",
            f"compare with the index along the axis: x == weft.lax.axis_index({value!r})",
            {"axis": value},
        )
        raise invalid_type(message, call.operation, "axis", value, "an integer", fix=fix)
    return axis_of(value, call.type.ndim + 1)


NewAxis = Annotated[
    int, Kind(_take_new_axis, "an axis of the result", (99, 0.5, None, "text"), 0, plain=NEVER)
]


@array_function
def one_hot(
    x: Annotated[Any, with_lists(operand_kind)],
    num_classes: Length,
    *,
    dtype: AnyDType = None,
    axis: NewAxis = -1,
) -> Array:
    """Vectors that are 1 at the index that each integer gives and 0 elsewhere; all 0 for an integer
    out of range.

    num_classes: the length of the new dimension; integers from 0 up to it are in range. axis: the
    index of the new dimension in the result; dtype: by default the default float.

    >>> one_hot(np.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    of = x.dtype
    if of in dtypes.BOOLEAN or of.itemsize < 4:  # to count to any number of classes
        x = convert_element_type(x, dtypes.float32 if of in dtypes.FLOATING else dtypes.int32)
    whole = (*x.shape[:axis], num_classes, *x.shape[axis:])
    places = tuple(d + (d >= axis) for d in range(x.ndim))
    codes = broadcasted_iota(x.dtype, whole, axis)
    dtype = dtypes.default_float() if dtype is None else dtype
    return convert_element_type(broadcast_in_dim(x, whole, places) == codes, dtype)
