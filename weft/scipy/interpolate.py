"""`weft.scipy.interpolate`: interpolation between the points of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.facades import public_names
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, WeftValueError, api_boundary
from weft.errors.argument_errors import unsupported_argument, wrong_shape, wrong_value
from weft.kinds.arguments import Operand, Operands, choice
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_arrays,
    check_choice,
    check_dimensions,
    check_numbers,
    common_dtype,
    computing_dtype,
    inexact,
    operands,
    promote_values,
)
from weft.ops.flags import check_flag

__all__ = ["RegularGridInterpolator"]

__dir__ = public_names(globals())

_METHODS = ("linear", "nearest")
Method = Annotated[str, choice(*_METHODS)]


@array_function
def _interpolate(
    values: Operand, xi: Operand, fill: Operand | None, grid: Operands, method: Method = "linear"
) -> Array:
    """values: (n1, …, nd, …); xi: (..., d); each grid (n,); fill: outside of the grid, or None to
    extrapolate."""
    operands = [values] if fill is None else [values, fill]
    if method == "linear":
        # Each value is multiplied by weights, which have the dtype of grid and points.
        operands += [xi, *grid]
    dtype = inexact(common_dtype(*operands))
    wide = computing_dtype(dtype)
    values, xi = values.astype(wide), xi.astype(inexact(xi.dtype))
    rows: list[Any] = []
    outside: Any = False
    missing: Any = False
    for i, points in enumerate(grid):
        both = inexact(common_dtype(xi, points))
        x, points = xi[..., i].astype(both), points.astype(both)
        n = points.shape[0]
        low = (jnp.searchsorted(points, x, side="right") - 1).clip(0, max(n - 2, 0))
        low = low.astype(dtypes.int32)
        start, stop = points[low], points[jnp.minimum(low + 1, n - 1)]
        width = stop - start
        rows.append((low, (x - start) / jnp.where(width > 0, width, 1), n))
        outside = outside | (x < points[0]) | (x > points[-1])
        missing = missing | jnp.isnan(x)
    out = _interpolate_rows(values, rows, method, wide)
    rest = (1,) * (out.ndim - xi.ndim + 1)
    if fill is not None:
        out = jnp.where(outside.reshape(*outside.shape, *rest), fill.astype(wide), out)
    return jnp.where(missing.reshape(*missing.shape, *rest), jnp.nan, out).astype(dtype)


def _interpolate_rows(
    values: Any, rows: Sequence[tuple[Any, Any, int]], method: str, dtype: Any
) -> Any:
    """The values at points; each row has the lower neighbour and the fraction of the way to the
    next."""
    if method == "nearest":
        index = [jnp.minimum(low + (part > 0.5).astype(low.dtype), n - 1) for low, part, n in rows]
        return values[tuple(index)]
    out = None
    for corner in itertools.product((0, 1), repeat=len(rows)):
        places: list[Any] = []
        weight: Any = None
        for side, (low, part, n) in zip(corner, rows, strict=True):
            places.append(jnp.minimum(low + side, n - 1))
            one = part if side else 1 - part
            weight = one if weight is None else weight * one
        term = values[tuple(places)]
        weight = weight.astype(dtype)
        term = term * weight.reshape(*weight.shape, *(1,) * (term.ndim - weight.ndim))
        out = term if out is None else out + term
    return out


class RegularGridInterpolator:
    """Interpolates a function that is known at the points of a rectangular grid.

    points: for each dimension the coordinates of the grid, rising, (n1,), …, (nd,); values: shape
    (n1, …, nd, …), floating or complex (integers are converted). method: "linear" in each
    dimension, or "nearest". fill_value: the result for a point outside of the grid; None
    extrapolates. bounds_error: errors for points outside are not raised, as they
    would depend on values. A pytree, so that values may be differentiated and mapped.

    Raises ShapeError, WeftValueError for coordinates that do not rise (if concrete) and another
    method, DTypeError, WeftTypeError, and WeftNotImplementedError for bounds_error=True.

    >>> import weft.numpy as jnp
    >>> grid = (jnp.array([0.0, 1.0, 3.0]), jnp.array([0.0, 2.0]))
    >>> f = RegularGridInterpolator(grid, jnp.array([[0.0, 2.0], [1.0, 3.0], [3.0, 5.0]]))
    >>> f(jnp.array([[0.5, 1.0], [2.0, 0.0]]))
    Array([1.5, 2. ], dtype=float32)
    """

    grid: tuple[Any, ...]
    values: Any
    method: str
    fill_value: Any

    @api_boundary("interpolate.RegularGridInterpolator")
    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = np.nan,
    ) -> None:
        name = "interpolate.RegularGridInterpolator"
        check_choice(method, _METHODS, "method")
        check_flag(bounds_error, "bounds_error")
        if bounds_error:
            why = "the result outside of the grid is fill_value"
            raise unsupported_argument(name, "bounds_error", True, why, "leave it out", False)
        if not isinstance(points, (tuple, list)) or not points:
            raise wrong_value(f"points={points!r:.80}", "a tuple of arrays as points")
        for number, row in enumerate(points):
            check_dimensions(f"points[{number}]", row, 1, 1, dtypes.REAL)
            _check_rising(name, number, row)
        check_numbers("values", values)
        lengths = tuple(type_of(row).shape[0] for row in points)
        if type_of(values).shape[: len(points)] != lengths or 0 in lengths:
            got = f"values: {type_of(values)}, points: {lengths}"
            raise wrong_shape(got, f"values of shape {lengths}")
        if fill_value is not None:
            check_dimensions("fill_value", fill_value, 0, 0)
        self.grid = tuple(jnp.asarray(row) for row in points)
        self.values = jnp.asarray(values)
        self.method = method
        self.fill_value = fill_value

    @api_boundary("interpolate.RegularGridInterpolator")
    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Interpolates at points: xi of shape (..., d), or a tuple of d arrays that broadcast; of
        one dimension, its elements are taken d at a time.

        The result has the shape of the points and of the further dimensions of the values. Its
        dtype is the promoted one of values, grid and xi, for "nearest" that of the values. NaN
        where a coordinate is. Raises ShapeError, WeftValueError, DTypeError and WeftTypeError.
        """
        name = "interpolate.RegularGridInterpolator"
        chosen = self.method if method is None else method
        check_choice(chosen, _METHODS, "method")
        if isinstance(xi, tuple):
            check_arrays(*xi)
            shape = broadcast_shape(*[type_of(x).shape for x in xi])
            known = promote_values(name, *operands(name, *xi))
            xi = jnp.stack([broadcasted(x, shape) for x in known], axis=-1)
        check_dimensions("xi", xi, 1, accepted=dtypes.REAL)
        if type_of(xi).ndim == 1 and type_of(xi).size % len(self.grid) == 0:
            xi = jnp.reshape(xi, (-1, len(self.grid)))
        if type_of(xi).shape[-1] != len(self.grid):
            raise wrong_shape(f"xi: {type_of(xi)}", f"an xi of shape (..., {len(self.grid)})")
        return _interpolate(self.values, xi, self.fill_value, self.grid, chosen)


def _check_rising(operation: str, number: int, row: Any) -> None:
    """Raises WeftValueError if concrete coordinates do not rise."""
    if isinstance(row, Tracer):
        return
    known = np.asarray(as_array(row) if isinstance(row, Array) else row)
    if known.size > 1 and not np.all(np.diff(known.astype(np.float64)) > 0):
        name = f"points[{number}]"
        advice = (
            f"sort them and the values: order = weft.numpy.argsort({name}), {name}[order], "
            f"weft.numpy.take(values, order, axis={number})"
        )
        if np.unique(known).size < known.size:
            advice = f"leave out repeated numbers of {name}, and their values"
        message, got = f"{operation}: the places of a grid rise", f"points[{number}]={known!r:.80}"
        wanted, fix = "numbers each of which is larger than the one before", Fix("rise", advice)
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)


def _flatten(x: RegularGridInterpolator) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return (x.grid, x.values, x.fill_value), (x.method,)


def _unflatten(aux: tuple[Any, ...], children: Sequence[Any]) -> RegularGridInterpolator:
    # Not by the constructor: leaves of a pytree need not be arrays.
    out = object.__new__(RegularGridInterpolator)
    out.grid, out.values, out.fill_value = children
    (out.method,) = aux
    return out


tree.register_node(RegularGridInterpolator, _flatten, _unflatten)
