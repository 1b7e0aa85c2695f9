"""Whether arrays are equal, or close to one another."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from weft import dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.kinds.arguments import Flag, Promoted, operand_kind, promoted_kind
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_ranks,
    common_shape,
    inexact,
    promote_values,
)
from weft.numpy.creation import ListOrArray
from weft.numpy.elementwise import equal
from weft.numpy.representation import is_finite, isnan
from weft.typing import ArrayLike

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


def _of_one_shape(operation: str, values: list[Any]) -> list[Any]:
    values = promote_values(operation, *values)
    shapes = [x.shape for x in values]
    check_ranks(operation, shapes)
    shape = broadcast_shape(*shapes)
    return [broadcasted(x, shape) for x in values]


# Those of one call get the dtype that they promote to, and one shape.
_compared_kind = dataclasses.replace(promoted_kind, together=_of_one_shape, by_class=True)
Compared = Annotated[ArrayLike, _compared_kind]
Tolerance = Annotated[Any, dataclasses.replace(operand_kind, fixed=True)]


def _near(a: Any, b: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    """Whether numbers are close, or random keys equal."""
    if dtypes.is_extended(a.dtype):
        return equal(a, b)
    dtype = inexact(a.dtype)
    real = dtypes.to_real(dtype)
    rtol, atol = (x.astype(real) if hasattr(x, "astype") else x for x in (rtol, atol))
    a, b = a.astype(dtype), b.astype(dtype)
    near = abs(a - b) <= atol + rtol * abs(b)
    close = (is_finite(a) & is_finite(b) & near) | (a == b)
    return close | ((a != a) & (b != b)) if equal_nan else close


@array_function
def isclose(
    a: Compared,
    b: Compared,
    rtol: Tolerance = 1e-05,
    atol: Tolerance = 1e-08,
    equal_nan: Flag = False,
) -> Array:
    """Whether two values are equal within a tolerance, elementwise: |a - b| <= atol + rtol * |b|.

    rtol: the tolerance relative to the size of `b`; atol: the absolute tolerance, which counts near
    0.

    Infinities are close where they are equal; NaN is close to NaN with `equal_nan`.

    The result is boolean, of the shape that both broadcast to. Raises ShapeError if they do not.

    >>> isclose(1.0, np.array([1.0, 1.1]))
    Array([ True, False], dtype=bool)
    """
    return _near(a, b, rtol, atol, equal_nan)


@array_function
def allclose(
    a: Compared,
    b: Compared,
    rtol: Tolerance = 1e-05,
    atol: Tolerance = 1e-08,
    equal_nan: Flag = False,
) -> Array:
    """Whether all elements of two arrays are equal within a tolerance, as `isclose` finds.

    rtol: the tolerance relative to the size of `b`; atol: the absolute tolerance, which counts near
    0; equal_nan: whether NaN is close to NaN.

    The result is a boolean scalar. Raises ShapeError if the shapes do not broadcast.

    >>> allclose(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-7]))
    Array(True, dtype=bool)
    """
    return _near(a, b, rtol, atol, equal_nan).all()


@array_function
def _equal_elements(a: Promoted, b: Promoted, equal_nan: Flag) -> Any:
    """Whether all elements of two arrays that broadcast are equal."""
    out = equal(a, b)
    if equal_nan and not dtypes.is_extended(a.dtype):
        out = out | (isnan(a) & isnan(b))
    return out.all()


# Arrays of different shapes need no common dtype to differ.
@python_function
def array_equal(a1: ListOrArray, a2: ListOrArray, equal_nan: Flag = False) -> Array:
    """Whether two arrays have one shape and equal elements.

    a1, a2: arrays, numbers, or lists of those; equal_nan: whether NaN equals NaN.

    >>> array_equal(np.array([1, 2]), np.array([1, 2]))
    Array(True, dtype=bool)
    """
    if type_of(a1).shape != type_of(a2).shape:
        return as_array(False)
    return _equal_elements(a1, a2, equal_nan)


@python_function
def array_equiv(a1: ListOrArray, a2: ListOrArray) -> Array:
    """Whether two arrays, broadcast to one shape, have equal elements.

    a1, a2: arrays, numbers, or lists of those.

    >>> array_equiv(np.array([1, 1]), 1)
    Array(True, dtype=bool)
    """
    if common_shape(type_of(a1).shape, type_of(a2).shape) is None:
        return as_array(False)
    return _equal_elements(a1, a2, False)
