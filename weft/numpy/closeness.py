"""Whether arrays are equal, or close to one another."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_flag,
    check_ranks,
    inexact,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import as_operand, promote_operands
from weft.kinds.repeated import repeated
from weft.numpy.creation import unlisted
from weft.numpy.elementwise import constant, equal, together
from weft.numpy.logic import logical_and, logical_or
from weft.numpy.representation import is_finite, isnan
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import bits
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.reductions.reduce import reduce_and
from weft.typing import ArrayLike

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


@repeated
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether two values are equal within a tolerance, elementwise: |a - b| <= atol + rtol * |b|.

    rtol: the tolerance relative to the size of `b`; atol: the absolute tolerance, which counts near
    0.

    Infinities are close where they are equal; NaN is close to NaN with `equal_nan`.

    The result is boolean, of the shape that both broadcast to. Raises ShapeError if they do not.

    >>> isclose(1.0, np.array([1.0, 1.1]))
    Array([ True, False], dtype=bool)
    """
    check_flag(equal_nan, "isclose", "equal_nan")
    if _are_keys(a, b):
        return equal(a, b)
    if type(rtol) in (int, float) and type(atol) in (int, float):
        a, b = promote_operands("isclose", a, b)
        return _close_static(a, b, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))
    a, b = _together_inexact("isclose", a, b)
    real = dtypes.to_real(type_of(a).dtype)
    rtol, atol = (convert_element_type(value, real) for value in (rtol, atol))
    return _close(a, b, rtol, atol, equal_nan=bool(equal_nan))


def _are_keys(*values: Any) -> bool:
    """Whether all values are random keys, which are close where they are equal."""
    return all(hasattr(x, "dtype") and dtypes.is_extended(x.dtype) for x in values)


def _together_inexact(operation: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two arguments as real or complex numbers of one dtype and one shape."""
    a, b = promoted(operation, *promote_operands(operation, a, b))
    dtype = inexact(type_of(a).dtype)
    check_ranks(operation, [type_of(a).shape, type_of(b).shape])
    shape = broadcast_shape(operation, type_of(a).shape, type_of(b).shape)
    a, b = (broadcasted(convert_element_type(x, dtype), shape) for x in (a, b))
    return a, b


@compiled
def _close(a: Any, b: Any, rtol: Any, atol: Any, *, equal_nan: bool) -> Any:
    size = lax.abs(b)
    tolerance = lax.add(together(size, atol)[1], lax.mul(together(size, rtol)[1], size))
    near = lax.le(lax.abs(lax.sub(a, b)), tolerance)
    finite = [is_finite(x) for x in (a, b)]
    close = bits.bitwise_or(bits.bitwise_and(bits.bitwise_and(*finite), near), lax.eq(a, b))
    if equal_nan:
        close = bits.bitwise_or(close, bits.bitwise_and(lax.ne(a, a), lax.ne(b, b)))
    return close


@compiled
def _close_static(a: Any, b: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    a, b = _together_inexact("isclose", a, b)
    size = lax.abs(b)
    return _close.function(a, b, constant(rtol, size), constant(atol, size), equal_nan=equal_nan)


@compiled
def _every(x: Any) -> Any:
    return reduce_and(x, tuple(range(type_of(x).ndim)))


@repeated
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements of two arrays are equal within a tolerance, as `isclose` finds.

    rtol: the tolerance relative to the size of `b`; atol: the absolute tolerance, which counts near
    0; equal_nan: whether NaN is close to NaN.

    The result is a boolean scalar. Raises ShapeError if the shapes do not broadcast.

    >>> allclose(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-7]))
    Array(True, dtype=bool)
    """
    check_flag(equal_nan, "allclose", "equal_nan")
    if _are_keys(a, b):
        return _every(equal(a, b))
    if type(rtol) in (int, float) and type(atol) in (int, float):
        a, b = promote_operands("allclose", a, b)
        return _all_close(a, b, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))
    return _every(isclose(a, b, rtol, atol, equal_nan))


@compiled
def _all_close(a: Any, b: Any, *, rtol: float, atol: float, equal_nan: bool) -> Any:
    a, b = _together_inexact("allclose", a, b)
    return _every(_close_static.function(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _equal_elements(a: Any, b: Any, equal_nan: bool) -> Any:
    same_elements = equal(a, b)
    if equal_nan and not _are_keys(a, b):
        same_elements = logical_or(same_elements, logical_and(isnan(a), isnan(b)))
    return _every(same_elements)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements.

    a1, a2: arrays, numbers, or lists of those; equal_nan: whether NaN equals NaN.

    >>> array_equal(np.array([1, 2]), np.array([1, 2]))
    Array(True, dtype=bool)
    """
    check_flag(equal_nan, "array_equal", "equal_nan")
    a1, a2 = (as_operand("array_equal", unlisted(a)) for a in (a1, a2))
    if type_of(a1).shape != type_of(a2).shape:
        return as_array(False)
    return _equal_elements(a1, a2, equal_nan)


def array_equiv(a1: Any, a2: Any) -> Array:
    """Whether two arrays, broadcast to one shape, have equal elements.

    a1, a2: arrays, numbers, or lists of those.

    >>> array_equiv(np.array([1, 1]), 1)
    Array(True, dtype=bool)
    """
    a1, a2 = (as_operand("array_equiv", unlisted(a)) for a in (a1, a2))
    try:
        np.broadcast_shapes(type_of(a1).shape, type_of(a2).shape)
    except ValueError:
        return as_array(False)
    return _equal_elements(a1, a2, equal_nan=False)
