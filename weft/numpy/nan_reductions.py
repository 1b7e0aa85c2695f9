"""Reductions that skip NaN: nansum, nanmean, nanmax and their like.

NaN is replaced before the reduction, so that derivatives at it are zero and not NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.numpy.arguments import axes_of, broadcasted, check_flag, check_number, operand, refuse_out
from weft.numpy.compiled_functions import compiled
from weft.numpy.reductions import _extremum, boolean, extreme, kept, mean, prod, std, sum, var
from weft.numpy.repeated import repeated
from weft.ops.elementwise.arithmetic import eq, ne
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.selection import select
from weft.ops.reductions.reduce import highest, lowest, reduce_and
from weft.typing import ArrayLike

__all__ = ["nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]

INT32 = np.dtype(np.int32)


def is_nan(x: Any) -> Any:
    """Whether the elements are NaN."""
    return ne(x, x)


def without_nan(x: Any, fill: Any) -> Any:
    """The elements with NaN replaced; integers have none."""
    aval = type_of(x)
    if aval.dtype not in dtypes.INEXACT:
        return x
    return select(is_nan(x), broadcasted(aval.dtype.type(fill), aval.shape), x)


@compiled
def _reduced(a: Any, *, function: Any, fill: str, axes: Any, keepdims: bool) -> Any:
    return function(_filled.function(a, fill=fill), axis=axes, keepdims=keepdims)


def _skipping(function: Callable[..., Any], fill: str, a: Any, **options: Any) -> Any:
    name = f"nan{function.__name__}"
    check_flag(options["keepdims"], name, "keepdims")
    refuse_out(name, options["out"])
    a = operand(name, a)
    if type_of(a).dtype not in dtypes.INEXACT:
        return function(a, **options)
    if options["dtype"] is options["initial"] is options["where"] is None:
        axes = axes_of(options["axis"], type_of(a).ndim, name)
        return _reduced(a, function=function, fill=fill, axes=axes, keepdims=options["keepdims"])
    return function(_filled(a, fill=fill), **options)


@repeated
def nansum(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Array:  # fmt: skip
    """The sum along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. initial: a number that is added to the sum.

    >>> jnp.nansum(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(4., dtype=float32)
    """
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
    return _skipping(sum, "0", a, **options, initial=initial, where=where)


@repeated
def nanprod(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Array:  # fmt: skip
    """The product along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. initial: a number by which the product is
    multiplied.

    >>> jnp.nanprod(jnp.array([jnp.nan, 2.0, 3.0]))
    Array(6., dtype=float32)
    """
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
    return _skipping(prod, "1", a, **options, initial=initial, where=where)


@compiled
def _nan_extremum(a: Any, *extra: Any, largest: bool, axes: Any, keepdims: bool, given: Any) -> Any:
    aval = type_of(a)
    fill = (lowest if largest else highest)(aval.dtype)
    found = _extremum.function(
        without_nan(a, fill), *extra, largest=largest, axes=axes, keepdims=keepdims, given=given
    )
    if aval.dtype not in dtypes.INEXACT or given[0]:
        return found
    none = kept(reduce_and(is_nan(a), axes), aval.shape, axes, keepdims)
    return select(none, broadcasted(aval.dtype.type(np.nan), type_of(found).shape), found)


@repeated
def nanmax(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The largest element along `axis` that is not NaN; NaN if there is none.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not less
    than; it is the result where there are no elements.

    >>> jnp.nanmax(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(3., dtype=float32)
    """
    options = {"axis": axis, "out": out, "keepdims": keepdims}
    return extreme("nanmax", _nan_extremum, a, initial, where, **options)


@repeated
def nanmin(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The smallest element along `axis` that is not NaN; NaN if there is none.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not greater
    than; it is the result where there are no elements.

    >>> jnp.nanmin(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    options = {"axis": axis, "out": out, "keepdims": keepdims}
    return extreme("nanmin", _nan_extremum, a, initial, where, **options)


@compiled
def _not_nan(a: Any, *where: Any) -> Any:
    mask = eq(a, a)
    if not where:
        return mask
    return bitwise_and(mask, broadcasted(boolean(where[0]), type_of(a).shape))


def _over_numbers(
    function: Callable[..., Any], a: Any, where: Any, zeroed: bool, **options: Any
) -> Any:
    """A mean or variance of the elements that are numbers, where the given mask holds."""
    name = f"nan{function.__name__}"
    check_flag(options["keepdims"], name, "keepdims")
    refuse_out(name, options["out"])
    a = operand(name, a)
    if type_of(a).dtype in dtypes.INEXACT:
        where = _not_nan(a) if where is None else _not_nan(a, where)
        if zeroed:  # so that derivatives at NaN are zero, and not NaN
            a = _filled(a, fill="0")
    return function(a, where=where, **options)


@repeated
def nanmean(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    where: Any = None,
) -> Array:  # fmt: skip
    """The mean along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.nanmean(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(2., dtype=float32)
    """
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
    return _over_numbers(mean, a, where, False, **options)


@repeated
def nanvar(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims:
    bool = False, where: Any = None, mean: None = None,
) -> Array:  # fmt: skip
    """The variance along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. ddof: the number to subtract from the count of
    elements, by which the sum is divided; mean: must be None, as in `var`.

    >>> jnp.nanvar(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    check_number(ddof, "nanvar", "ddof")
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
    return _over_numbers(var, a, where, True, ddof=ddof, mean=mean, **options)


@repeated
def nanstd(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims:
    bool = False, where: Any = None, mean: None = None,
) -> Array:  # fmt: skip
    """The standard deviation along `axis` of the elements that are not NaN.

    axis: an axis, a tuple of axes, or None for all. ddof, mean: as in `nanvar`.

    >>> jnp.nanstd(jnp.array([jnp.nan, 1.0, 3.0]))
    Array(1., dtype=float32)
    """
    check_number(ddof, "nanstd", "ddof")
    options = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
    return _over_numbers(std, a, where, True, ddof=ddof, mean=mean, **options)


@compiled
def _filled(x: Any, *, fill: str) -> Any:
    """NaN replaced by a number, or by the lowest or highest value of the dtype."""
    value = {"lowest": lowest, "highest": highest}.get(fill)
    return without_nan(x, value(type_of(x).dtype) if value else float(fill))
