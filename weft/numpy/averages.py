"""Weighted means: average."""

from __future__ import annotations

from math import prod as product
from typing import Any, Literal, overload

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import WeftValueError
from weft.kinds.checks import axes_of, broadcasted, check_flags, convert, inexact, operand
from weft.kinds.compiled_functions import compiled, is_eager
from weft.kinds.repeated import repeated
from weft.numpy.reductions import kept, mean
from weft.ops.elementwise.arithmetic import div, mul
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, transpose

__all__ = ["average"]


@compiled
def _average(a: Any, weights: Any, *, axes: Any, keepdims: bool) -> tuple[Any, Any]:
    dtype = inexact(dtypes.promote_types(type_of(a).dtype, type_of(weights).dtype))
    shape = type_of(a).shape
    x, w = (convert(value, accumulator(dtype)) for value in (a, weights))
    if type_of(w).shape != shape:
        # Weights of one axis, or of all the axes in the order they are given.
        w = _along(w, shape, axes)
    total = reduce_sum(w, axes)
    out = div(reduce_sum(mul(x, w), axes), total)
    out, total = convert(out, dtype), convert(total, dtype)
    return kept(out, shape, axes, keepdims), kept(total, shape, axes, keepdims)


def _along(w: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    order = tuple(sorted(axes))
    return broadcast_in_dim(transpose(w, [axes.index(d) for d in order]), shape, order)


@overload
def average(
    a: Any,
    axis: Any = ...,
    weights: Any = ...,
    returned: Literal[False] = ...,
    keepdims: bool = ...,
) -> Array: ...
@overload
def average(
    a: Any, axis: Any = ..., weights: Any = ..., *, returned: Literal[True], keepdims: bool = ...
) -> tuple[Array, Array]: ...
@overload
def average(
    a: Any, axis: Any = ..., weights: Any = ..., returned: bool = ..., keepdims: bool = ...
) -> Any: ...
@repeated
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean along `axis`, weighted by `weights`, which has the shape of `a` or of the axes.

    returned: whether the sums of the weights are returned too. Raises ValueError if the weights
    do not fit.

    >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    check_flags("average", returned=returned, keepdims=keepdims)
    a = operand("average", a)
    of = type_of(a)
    axes = axes_of(axis, of.ndim, "average")
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        if not returned:
            return out
        count = type_of(out).dtype.type(product(of.shape[d] for d in axes))
        total = broadcasted(count, type_of(out).shape)
        return out, as_array(total) if is_eager() else total
    weights = operand("average", weights)
    shape = type_of(weights).shape
    if shape != of.shape and (axis is None or shape != tuple(of.shape[d] for d in axes)):
        message = "average: the weights fit neither the array nor the axes"
        got = f"weights of shape {shape} for {of}, axis {axis}"
        more = "" if axis is None else f" or {tuple(of.shape[d] for d in axes)}"
        raise refusal(WeftValueError, message, "average", got, f"shape {of.shape}{more}")
    out, total = _average(a, weights, axes=axes, keepdims=bool(keepdims))
    return (out, total) if returned else out
