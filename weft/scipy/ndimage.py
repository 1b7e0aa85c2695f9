"""`weft.scipy.ndimage`: interpolation between the elements of arrays.

Order 0 takes the nearest element, order 1 is linear between neighbours. An index outside is mapped
to one inside, so each mode is a formula for indices.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import Fix, WeftNotImplementedError, api_boundary
from weft.kinds.checks import broadcast_shape, broadcasted, computing_dtype, convert, inexact
from weft.kinds.compiled_functions import compiled
from weft.scipy.argument_checks import (
    check_dimensions,
    check_numbers,
    one_of,
    wrong_shape,
    wrong_value,
)

__all__ = ["map_coordinates"]

__dir__ = public_names(globals())

_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")


def _inside(index: Any, size: int, mode: str) -> Any:
    """Maps an index outside of an axis to one inside."""
    if mode == "wrap":
        return jnp.mod(index, size)
    if mode == "mirror":
        period = max(2 * (size - 1), 1)
        place = jnp.mod(index, period)
        return jnp.minimum(place, period - place) if size > 1 else jnp.zeros_like(index)
    if mode == "reflect":
        place = jnp.mod(index, 2 * size)
        return jnp.minimum(place, 2 * size - 1 - place)
    return jnp.clip(index, 0, size - 1)


def _neighbours(x: Any, order: int) -> list[tuple[Any, Any]]:
    """The indices that a coordinate reads, with their weights (None for 1)."""
    if order == 0:
        return [(convert(jnp.floor(x + 0.5), dtypes.int32), None)]
    low = jnp.floor(x)
    upper = x - low
    index = convert(low, dtypes.int32)
    return [(index, 1 - upper), (index + 1, upper)]


@compiled
def _mapped(input: Any, cval: Any, *coordinates: Any, order: int, mode: str) -> Any:
    given = type_of(input).dtype
    wide = computing_dtype(given) if order else given
    # A NumPy array would ask traced indices for their values.
    values, cval = jnp.asarray(convert(input, wide)), convert(cval, wide)
    shape = broadcast_shape("ndimage.map_coordinates", *[type_of(c).shape for c in coordinates])
    places = [convert(c, inexact(type_of(c).dtype)) for c in coordinates]
    # Coordinates of 16 bits cannot distinguish the elements of a large axis.
    small = (dtypes.float16, dtypes.bfloat16)
    places = [convert(c, dtypes.float32) if type_of(c).dtype in small else c for c in places]
    places = [broadcasted(c, shape) for c in places]
    axes = [_neighbours(c, order) for c in places]
    out: Any = None
    for corner in itertools.product(*axes):
        index = tuple(_inside(i, n, mode) for (i, _), n in zip(corner, input.shape, strict=True))
        term = values[index] if index else values
        if mode == "constant":
            for (i, _), n in zip(corner, input.shape, strict=True):
                term = jnp.where((i >= 0) & (i < n), term, cval)
        # The weights first: a derivative by one of them then reads elements, and no products.
        weights = [convert(weight, wide) for _, weight in corner if weight is not None]
        if weights:
            term = term * functools.reduce(operator.mul, weights)
        out = term if out is None else out + term
    if given in dtypes.INTEGER and wide not in dtypes.INTEGER:
        out = jnp.round(out)
    return convert(out, given)


@api_boundary
def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Array:
    """Interpolates an array at coordinates between its elements.

    input: shape (n1, …, nd); coordinates: d arrays (or one array of d rows) of shapes that
    broadcast to that of the result, which has the dtype of input (integers are rounded). order: 0,
    the nearest element; 1, linear in each direction. mode, outside of the array: "constant", cval,
    "nearest", the element at the edge; "wrap", the array again; "mirror", its mirror image, the
    element at the edge once; "reflect", the element at the edge twice. Between an edge and cval,
    too, it is linear, which SciPy calls "grid-constant", and "wrap" is its "grid-wrap".
    Derivatives by input and, for order 1, by coordinates.

    mode: what is outside of the array: "constant", "nearest", "wrap", "mirror" or "reflect"; cval:
    the value outside of the array for mode "constant".

    Raises WeftNotImplementedError for other orders (splines), WeftValueError for another mode,
    ShapeError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> map_coordinates(jnp.array([0.0, 10.0, 20.0]), [jnp.array([0.5, 1.25])], order=1)
    Array([ 5. , 12.5], dtype=float32)
    """
    name = "ndimage.map_coordinates"
    check_dimensions(name, "input", input, 0)
    of = type_of(input)
    rows = _rows(name, coordinates)
    if len(rows) != of.ndim:
        got = f"input: {of}, {len(rows)} coordinates"
        raise wrong_shape(name, got, f"{of.ndim} arrays of coordinates")
    for number, row in enumerate(rows):
        check_numbers(name, f"coordinates[{number}]", row, dtypes.REAL)
    broadcast_shape(name, *[type_of(row).shape for row in rows])
    if isinstance(order, bool) or order not in (0, 1):
        message = f"{name} has no splines of order {order!r}"
        got = f"order={order!r:.80}"
        fix = Fix("order", "pass order=1", {"order": 1})
        raise WeftNotImplementedError(message, operation=name, got=got, wanted="0 or 1", fix=fix)
    one_of(name, "mode", mode, _MODES)
    check_dimensions(name, "cval", cval, 0, 0)
    if 0 in of.shape:
        raise wrong_value(name, f"input: {of}", "an input with elements")
    return _mapped(input, cval, *rows, order=int(order), mode=mode)


def _rows(operation: str, coordinates: Any) -> list[Any]:
    """One array for each axis."""
    if isinstance(coordinates, (list, tuple)):
        return list(coordinates)
    check_dimensions(operation, "coordinates", coordinates, 1)
    return [coordinates[i] for i in range(type_of(coordinates).shape[0])]
