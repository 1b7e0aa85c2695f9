"""Functions that normalise along axes: softmax and its relatives, standardisation, one-hot codes.

Exponentials are taken of differences from the largest element, so that none overflows. That element
is constant to derivatives, which it does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

from weft import dtypes
from weft.argument_errors import invalid_type, invalid_value, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix
from weft.kinds.checks import (
    axes_of,
    axis_of,
    broadcast_shape,
    broadcasted,
    check_flag,
    check_flags,
    expanded,
    inexact,
    length_of,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import as_operand
from weft.numpy.axis_names import has_names, split_axes
from weft.numpy.creation import unlisted
from weft.numpy.elementwise import add, constant, filled, maximum, multiply, subtract
from weft.numpy.reductions import kept
from weft.numpy.reductions import mean as mean_over
from weft.numpy.reductions import sum as sum_over
from weft.ops.collectives.all_reduce import pmax, psum
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import rounding
from weft.ops.elementwise.complex import real
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.flat import flat_log
from weft.ops.elementwise.powers import rsqrt
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.reductions.reduce import largest_below_sum
from weft.ops.structural.narrow import SUMMED_IN_FLOAT32, accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum
from weft.typing import ArrayLike

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]


def _operand(operation: str, x: Any) -> Any:
    """Converts the operand to real or complex numbers."""
    x = as_operand(operation, x)
    of = type_of(x)
    dtype = inexact(of.dtype)
    return x if of.dtype == dtype else convert_element_type(x, dtype, of.weak_type)


def _widened(x: Any) -> Any:
    """The numbers in the dtype in which they are added up."""
    of = type_of(x)
    return convert_element_type(x, accumulator(of.dtype), of.weak_type)


def _rounded(x: Any, dtype: Any) -> Any:
    """A result in the dtype of the operand, from which it was widened."""
    return convert_element_type(x, dtype) if dtype in SUMMED_IN_FLOAT32 else x


def _mask(operation: str, where: Any, shape: tuple[int, ...]) -> list[Any]:
    """A list of the mask broadcast to the operand's shape; empty without one."""
    if where is None:
        return []
    where = as_operand(operation, where)
    if type_of(where).dtype != dtypes.bool_:
        message = f"{operation} takes a boolean mask as where="
        fix = Fix("compare", "compare it with zero: where != 0", {})
        raise refusal(DTypeError, message, operation, str(type_of(where)), "bool", fix)
    return [broadcasted(where, shape, operation)]


def _shift(x: Any, axes: tuple[int, ...]) -> Any:
    """The largest element along axes, constant to derivatives; 0 where it is not finite."""
    size = real(x) if type_of(x).dtype in dtypes.COMPLEX else x
    largest = largest_below_sum(size, axes)
    return select(rounding.is_finite(largest), largest, filled(0, largest))


@compiled
def _softmax(x: Any, *mask: Any, axes: tuple[int, ...]) -> Any:
    of = type_of(x)
    _, weights, total = _exponentials(_widened(x), mask, axes)
    # One quotient for each sum, also in the derivative.
    factors = expanded(lax.div(filled(1, total), total), of.shape, axes)
    return _rounded(lax.mul(weights, factors), of.dtype)


def _exponentials(x: Any, mask: Sequence[Any], axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The differences from the largest element, their exponentials, and the sums of these; 1 where
    no element counts."""
    if mask:
        x = select(mask[0], x, filled(-math.inf, x))
    largest = largest_below_sum(x, axes)
    if mask:
        largest, nothing = _or_zero(largest)
    shifted = lax.sub(x, expanded(largest, type_of(x).shape, axes))
    weights = lax.exp(shifted)
    total = reduce_sum(weights, axes)
    return shifted, weights, select(nothing, filled(1, total), total) if mask else total


def _or_zero(largest: Any) -> tuple[Any, Any]:
    """The largest elements, 0 where no element counts, and where that is.

    Differences from minus infinity would be NaN, also in derivatives.
    """
    size = real(largest) if type_of(largest).dtype in dtypes.COMPLEX else largest
    nothing = lax.eq(size, filled(-math.inf, size))
    return select(nothing, filled(0, largest), largest), nothing


def softmax(x: ArrayLike, axis: Any = -1, where: Any = None) -> Array:
    """exp(x) / sum(exp(x)) along an axis, several, or all (None).

    where: a mask of the elements that count; the others are 0, even if none counts.

    >>> softmax(np.array([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    x = _operand("softmax", x)
    if has_names(axis):
        return lax.exp(log_softmax(x, axis, where))
    of = type_of(x)
    axes = axes_of(axis, of.ndim, "softmax")
    return _softmax(x, *_mask("softmax", where, of.shape), axes=axes)


@compiled
def _log_softmax(x: Any, *mask: Any, axes: tuple[int, ...]) -> Any:
    of = type_of(x)
    shifted, _, total = _exponentials(_widened(x), mask, axes)
    out = lax.sub(shifted, expanded(lax.log(total), of.shape, axes))
    out = _rounded(out, of.dtype)
    return select(mask[0], out, filled(-math.inf, x)) if mask else out


def log_softmax(x: ArrayLike, axis: Any = -1, where: Any = None) -> Array:
    """The logarithm of `softmax`, exact where that is close to 0.

    where: a mask of the elements that count; the others are minus infinity.

    >>> log_softmax(np.array([1000.0, 0.0]))
    Array([    0., -1000.], dtype=float32)
    """
    x = _operand("log_softmax", x)
    of = type_of(x)
    if has_names(axis):
        out = subtract(x, logsumexp(x, axis, keepdims=True, where=where))
        mask = _mask("log_softmax", where, of.shape)
        return select(mask[0], out, filled(-math.inf, out)) if mask else out
    axes = axes_of(axis, of.ndim, "log_softmax")
    return _log_softmax(x, *_mask("log_softmax", where, of.shape), axes=axes)


@compiled
def _logsumexp(
    x: Any,
    *extra: Any,
    axes: tuple[int, ...],
    masked: bool,
    weighted: bool,
    keepdims: bool,
    signed: bool,
) -> Any:
    """The operands after x are the mask and the weights, as far as they are given."""
    rest = list(extra)
    of = type_of(x)
    x, shape = _widened(x), of.shape
    mask = rest.pop(0) if masked else None
    weights = _widened(rest.pop(0)) if weighted else None
    if mask is not None:
        x = select(mask, x, filled(-math.inf, x))
    if weights is not None:
        # An element of weight 0 does not count, be it infinite.
        x = select(lax.eq(weights, constant(0, weights)), filled(-math.inf, x), x)
    shift = _shift(x, axes)
    complex_shift = convert_element_type(shift, type_of(x).dtype)
    terms = lax.exp(lax.sub(x, expanded(complex_shift, shape, axes)))
    if weights is not None:
        terms = lax.mul(terms, weights)
    total = reduce_sum(terms, axes)
    # Where no element counts, the derivative is 0.
    logarithm = flat_log(lax.abs(total) if signed else total)
    out = lax.add(logarithm, shift if signed else complex_shift)
    outs = (out, lax.sign(total)) if signed else (out,)
    outs = tuple(kept(_rounded(x, of.dtype), shape, axes, keepdims) for x in outs)
    return outs if signed else outs[0]


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
def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) along an axis, several, or all (None), without overflow.

    b: factors, which broadcast against `a`; where: a mask of the elements that count;
    return_sign: the result is a pair of the logarithm of the absolute value and the sign of the
    sum (without it, a negative sum gives NaN). Where the sum is 0, derivatives are 0, too.

    >>> logsumexp(np.array([1000.0, 0.0]))
    Array(1000., dtype=float32)
    """
    check_flags("logsumexp", keepdims=keepdims, return_sign=return_sign)
    if has_names(axis):
        positions, names = split_axes(axis)
        parts = logsumexp(a, positions, b, keepdims, return_sign=True, where=where)
        return _logsumexp_of_parts(*parts, names, signed=bool(return_sign))
    a = _operand("logsumexp", a)
    extra = []
    if b is not None:
        a, b = promoted("logsumexp", a, _operand("logsumexp", b))
        shape = broadcast_shape("logsumexp", type_of(a).shape, type_of(b).shape)
        a, b = broadcasted(a, shape), broadcasted(b, shape)
        extra.append(b)
    of = type_of(a)
    mask = _mask("logsumexp", where, of.shape)
    return _logsumexp(
        a,
        *mask,
        *extra,
        axes=axes_of(axis, of.ndim, "logsumexp"),
        masked=bool(mask),
        weighted=b is not None,
        keepdims=bool(keepdims),
        signed=bool(return_sign),
    )


def _logsumexp_of_parts(part: Any, sign: Any, names: tuple[str, ...], signed: bool) -> Any:
    """`logsumexp` along named axes, from the logarithm and the sign of the sum at each place."""
    shift, _ = _or_zero(pmax(stop_gradient(part), names))
    total = psum(lax.mul(sign, lax.exp(lax.sub(part, shift))), names)
    out = lax.add(flat_log(lax.abs(total) if signed else total), shift)
    return (out, lax.sign(total)) if signed else out


def logmeanexp(x: ArrayLike, axis: Any = None, where: Any = None, keepdims: bool = False) -> Array:
    """log(mean(exp(x))) along an axis, several, or all (None), without overflow.

    where: a mask of the elements that count.

    >>> logmeanexp(np.array([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    check_flag(keepdims, "logmeanexp", "keepdims")
    x = _operand("logmeanexp", x)
    of = type_of(x)
    total = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = axes_of(axis, of.ndim, "logmeanexp")
    if where is None:
        count = math.prod(of.shape[d] for d in axes)
        return subtract(total, type_of(total).dtype.type(math.log(count) if count else -math.inf))
    (mask,) = _mask("logmeanexp", where, of.shape)
    dtype = type_of(total).dtype
    counted = sum_over(mask, axis, keepdims=keepdims, dtype=accumulator(dtype))
    return subtract(total, convert_element_type(lax.log(counted), dtype))


@compiled
def _spread(x: Any, center: Any, *mask: Any, axes: tuple[int, ...], algorithm: str) -> Any:
    """The variance about a center."""
    where = mask[0] if mask else None
    if algorithm == "stable":
        away = subtract(x, center)
        return mean_over(multiply(away, away), axes, keepdims=True, where=where)
    squares = mean_over(multiply(x, x), axes, keepdims=True, where=where)
    # Rounding may make the difference of two nearly equal numbers negative.
    return maximum(subtract(squares, multiply(center, center)), 0)


@compiled
def _standardized(x: Any, center: Any, spread: Any, epsilon: Any, *, dtype: Any) -> Any:
    return _rounded(multiply(subtract(x, center), rsqrt(add(spread, epsilon))), dtype)


def standardize(
    x: ArrayLike,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), with the moments along an axis where none are given.

    mean, variance: numbers or arrays that broadcast with `x`; None for those along `axis`. epsilon:
    a small number that keeps the divisor from 0. where: a mask of the elements that count for the
    moments. algorithm: "fast" takes the variance as the mean square less the squared mean, "stable"
    as the mean squared distance from the mean.

    >>> standardize(np.array([1.0, 3.0]), epsilon=0.0)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        message = "standardize knows two algorithms"
        wanted = "'fast' or 'stable'"
        fix = Fix("argument", "use algorithm='stable'", {"algorithm": "stable"})
        raise invalid_value(message, "standardize", "algorithm", algorithm, wanted, fix=fix)
    x = _operand("standardize", x)
    of = type_of(x)
    axes = axes_of(axis, of.ndim, "standardize")
    mask = _mask("standardize", where, of.shape)
    x = _widened(x)
    dtype = type_of(x).dtype
    if mean is None:
        mean = mean_over(x, axes, keepdims=True, where=mask[0] if mask else None)
    mean = convert_element_type(as_operand("standardize", mean), dtype)
    if variance is None:
        variance = _spread(x, mean, *mask, axes=axes, algorithm=algorithm)
    elif of.dtype in SUMMED_IN_FLOAT32:
        variance = _widened(as_operand("standardize", variance))
    epsilon = convert_element_type(epsilon, dtype)
    return _standardized(x, mean, variance, epsilon, dtype=of.dtype)


@compiled
def _one_hot(x: Any, *, classes: int, axis: int, dtype: Any) -> Any:
    shape = type_of(x).shape
    whole = (*shape[:axis], classes, *shape[axis:])
    kept = tuple(d + (d >= axis) for d in range(len(shape)))
    codes = broadcasted_iota(type_of(x).dtype, whole, axis)
    return convert_element_type(lax.eq(broadcast_in_dim(x, whole, kept), codes), dtype)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Vectors that are 1 at the index that each integer gives and 0 elsewhere; all 0 for an integer
    out of range.

    num_classes: the length of the new dimension; integers from 0 up to it are in range. axis: the
    index of the new dimension in the result; dtype: by default the default float.

    >>> one_hot(np.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    x = as_operand("one_hot", unlisted(x))
    if isinstance(axis, str):
        message = "one_hot takes an integer axis, not the name of a mapped one"
        fix = Fix(
            "compare",
            f"compare with the index along the axis: x == weft.lax.axis_index({axis!r})",
            {"axis": axis},
        )
        raise invalid_type(message, "one_hot", "axis", axis, "an integer", fix=fix)
    of = type_of(x)
    if of.dtype in dtypes.BOOLEAN or of.dtype.itemsize < 4:  # to count to any number of classes
        x = convert_element_type(x, dtypes.float32 if of.dtype in dtypes.FLOATING else dtypes.int32)
    wanted = dtypes.default_float() if dtype is None else dtypes.requested(dtype)
    return _one_hot(
        x,
        classes=length_of(num_classes, "one_hot", "num_classes"),
        axis=axis_of(axis, of.ndim + 1, "one_hot"),
        dtype=wanted,
    )
