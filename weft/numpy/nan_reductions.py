"""Reductions that skip NaN: nansum, nanmean, nanmax and their like.

NaN is replaced before the reduction, so that derivatives at it are zero and not NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.kinds.arguments import Axes, DType, Flag, Mask, NamedAxes, Number, Operand, Out
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted
from weft.numpy.reductions import (
    Bound,
    InexactDType,
    OwnMean,
    Term,
    average,
    boolean,
    extremum,
    keep_dims,
    sum_or_product,
    summed_dtype,
    variance,
)
from weft.ops.elementwise.arithmetic import eq, ne
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.selection import select
from weft.ops.reductions.reduce import highest, lowest, reduce_and

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]

INT32 = np.dtype(np.int32)


def is_nan(x: Any) -> Any:
    """Whether the elements are NaN."""
    return ne(x, x)


def without_nan(x: Any, fill: Any) -> Any:
    """Replaces NaN; integers have none."""
    aval = type_of(x)
    if aval.dtype not in dtypes.INEXACT:
        return x
    return select(is_nan(x), broadcasted(aval.dtype.type(fill), aval.shape), x)


def numbers(a: Any, where: Any) -> Any:
    """The mask of the elements that are not NaN, within the given mask."""
    if type_of(a).dtype not in dtypes.INEXACT:
        return where
    mask = eq(a, a)
    if where is None:
        return mask
    return bitwise_and(mask, broadcasted(boolean(where), type_of(a).shape, "where"))


@array_function
def nansum(
    a: Operand, axis: NamedAxes = None, dtype: DType = None, out: Out = None, keepdims: Flag =
    False, initial: Term = None, where: Mask = None,
) -> Array:  # fmt: skip
    """The sum along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. initial: a number that is added to the sum.

    >>> jnp.nansum(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(4., dtype=float32)
    """
    dtype = dtype or summed_dtype(type_of(a).dtype)
    return sum_or_product(0, without_nan(a, 0), axis, dtype, keepdims, initial, where)


@array_function
def nanprod(
    a: Operand, axis: Axes = None, dtype: DType = None, out: Out = None, keepdims: Flag = False,
    initial: Term = None, where: Mask = None,
) -> Array:  # fmt: skip
    """The product along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. initial: a number by which the product is
    multiplied.

    >>> jnp.nanprod(jnp.array([jnp.nan, 2.0, 3.0]))
    Array(6., dtype=float32)
    """
    dtype = dtype or summed_dtype(type_of(a).dtype)
    return sum_or_product(1, without_nan(a, 1), axis, dtype, keepdims, initial, where)


def nan_extremum(largest: bool, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    """The largest or smallest element that is not NaN."""
    aval = type_of(a)
    fill = (lowest if largest else highest)(aval.dtype)
    out = extremum(largest, without_nan(a, fill), axis, keepdims, initial, where)
    if aval.dtype not in dtypes.INEXACT or initial is not None:
        return out
    none = keep_dims(reduce_and(is_nan(a), axis), aval.shape, axis, keepdims)
    return select(none, broadcasted(aval.dtype.type(np.nan), type_of(out).shape), out)


@array_function
def nanmax(
    a: Operand, axis: Axes = None, out: Out = None, keepdims: Flag = False, initial: Bound = None,
    where: Mask = None,
) -> Array:  # fmt: skip
    """The largest element along `axis` that is not NaN; NaN if there is none.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not less
    than; it is the result where there are no elements.

    >>> jnp.nanmax(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(3., dtype=float32)
    """
    return nan_extremum(True, a, axis, keepdims, initial, where)


@array_function
def nanmin(
    a: Operand, axis: Axes = None, out: Out = None, keepdims: Flag = False, initial: Bound = None,
    where: Mask = None,
) -> Array:  # fmt: skip
    """The smallest element along `axis` that is not NaN; NaN if there is none.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not greater
    than; it is the result where there are no elements.

    >>> jnp.nanmin(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    return nan_extremum(False, a, axis, keepdims, initial, where)


@array_function
def nanmean(
    a: Operand, axis: NamedAxes = None, dtype: DType = None, out: Out = None, keepdims: Flag =
    False, where: Mask = None,
) -> Array:  # fmt: skip
    """The mean along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.nanmean(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2., dtype=float32)
    """
    return average(a, axis, dtype, keepdims, numbers(a, where))


@array_function
def nanvar(
    a: Operand, axis: NamedAxes = None, dtype: InexactDType = None, out: Out = None, ddof: Number =
    0, keepdims: Flag = False, where: Mask = None, mean: OwnMean = None,
) -> Array:  # fmt: skip
    """The variance along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. ddof: the number to subtract from the count of
    elements, by which the sum is divided; mean: must be None, as in `var`.

    >>> jnp.nanvar(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    return variance(without_nan(a, 0), axis, dtype, ddof, keepdims, numbers(a, where))


@array_function
def nanstd(
    a: Operand, axis: NamedAxes = None, dtype: InexactDType = None, out: Out = None, ddof: Number =
    0, keepdims: Flag = False, where: Mask = None, mean: OwnMean = None,
) -> Array:  # fmt: skip
    """The standard deviation along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. ddof, mean: as in `nanvar`.

    >>> jnp.nanstd(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    a, where = without_nan(a, 0), numbers(a, where)
    return variance(a, axis, dtype, ddof, keepdims, where, root=True)
