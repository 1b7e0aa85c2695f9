"""Weighted means: average."""

from __future__ import annotations

from typing import Any, Literal, overload

from weft.arrays.array import Array
from weft.errors import WeftValueError
from weft.kinds.arguments import Axes, Flag, Inexact
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted
from weft.numpy.reductions import count_over, kept
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, transpose

__all__ = ["average"]


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
@array_function
def average(
    a: Inexact,
    axis: Axes = None,
    weights: Inexact | None = None,
    returned: Flag = False,
    keepdims: Flag = False,
) -> Any:
    """The mean along `axis`, weighted by `weights`, which has the shape of `a` or of the axes.

    returned: whether the sums of the weights are returned too. Raises ValueError if the weights
    do not fit.

    >>> jnp.average(jnp.array([1.0, 2.0]), weights=jnp.array([3.0, 1.0]))
    Array(1.25, dtype=float32)
    """
    x = a.astype(accumulator(a.dtype))
    if weights is None:
        total = broadcasted(count_over(a.shape, axis, None, x.dtype), ())
        out = reduce_sum(x, axis) / total
        total = broadcasted(total, out.shape)
    else:
        w = _along(weights.astype(x.dtype), a.shape, axis)
        total = reduce_sum(w, axis)
        out = reduce_sum(x * w, axis) / total
    out, total = (kept(value.astype(a.dtype), a.shape, axis, keepdims) for value in (out, total))
    return (out, total) if returned else out


def _along(w: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Weights of the axes, in their order, in the shape of the array."""
    if w.shape == shape:
        return w
    axes_shape = tuple(shape[d] for d in axes)
    if w.shape != axes_shape:
        raise WeftValueError(
            "the weights fit neither the array nor the axes",
            got=f"weights of shape {w.shape} for an array of shape {shape}, axes {axes}",
            wanted=f"shape {shape}" + (f" or {axes_shape}" if axes_shape != shape else ""),
        )
    order = tuple(sorted(axes))
    return broadcast_in_dim(transpose(w, [axes.index(d) for d in order]), shape, order)
