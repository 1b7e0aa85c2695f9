"""`weft.scipy.ndimage`: interpolation between the elements of arrays.

Order 0 takes the nearest element, order 1 is linear between neighbours. An index outside is mapped
to one inside, so each mode is a formula for indices.
"""

from __future__ import annotations

import functools
import itertools
import operator
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import Fix, WeftNotImplementedError
from weft.errors.argument_errors import wrong_shape, wrong_value
from weft.kinds.arguments import NEVER, choice, of_rank
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_dimensions,
    check_numbers,
    computing_dtype,
)
from weft.kinds.kind import Arguments, Kind

__all__ = ["map_coordinates"]

__dir__ = public_names(globals())


def _coordinates(value: Any, call: Arguments) -> Any:
    of = call.type
    several = isinstance(value, (list, tuple))
    if not several:
        check_dimensions(call.name, value, 1)
    count = len(value) if several else type_of(value).shape[0]
    if count != of.ndim:
        got = f"input: {of}, {count} coordinates"
        raise wrong_shape(got, f"{of.ndim} arrays of coordinates")
    if not several:
        check_numbers(call.name, value, dtypes.REAL)
        return value
    for number, row in enumerate(value):
        check_numbers(f"{call.name}[{number}]", row, dtypes.REAL)
    broadcast_shape(*[type_of(row).shape for row in value])
    return (*value,)


def _order(value: Any, call: Arguments) -> int:
    if isinstance(value, bool) or value not in (0, 1):
        message = f"has no splines of order {value!r}"
        got, fix = f"order={value!r:.80}", Fix("order", "pass order=1", {"order": 1})
        raise WeftNotImplementedError(message, got=got, wanted="0 or 1", fix=fix)
    return int(value)


_rows = np.ones((1, 3), np.float32)
Input = Annotated[Any, of_rank(0)]
Coordinates = Annotated[
    Any,
    Kind(
        _coordinates,
        "an array for each axis",
        (1.0, "text", [_rows] * 3),
        _rows,
        False,
        plain=NEVER,
    ),
]
Order = Annotated[int, Kind(_order, "0 or 1", (3, True), 1, plain=NEVER)]
Mode = Annotated[str, choice("constant", "nearest", "wrap", "mirror", "reflect")]
Outside = Annotated[Any, of_rank(0, 0)]


def _map_inside(index: Any, size: int, mode: str) -> Any:
    """Maps an index outside of an axis to one inside."""
    if mode == "wrap":
        return index % size
    if mode == "mirror":
        period = max(2 * (size - 1), 1)
        place = index % period
        return jnp.minimum(place, period - place) if size > 1 else jnp.zeros_like(index)
    if mode == "reflect":
        place = index % (2 * size)
        return jnp.minimum(place, 2 * size - 1 - place)
    return index.clip(0, size - 1)


def _neighbours(x: Any, order: int) -> list[tuple[Any, Any]]:
    """The indices that a coordinate reads, with their weights (None for 1)."""
    if order == 0:
        return [(jnp.floor(x + 0.5).astype(dtypes.int32), None)]
    low = jnp.floor(x)
    upper, index = x - low, low.astype(dtypes.int32)
    return [(index, 1 - upper), (index + 1, upper)]


@array_function
def map_coordinates(
    input: Input, coordinates: Coordinates, order: Order, mode: Mode = "constant", cval: Outside =
    0.0,
) -> Array:  # fmt: skip
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
    if not input.size:
        raise wrong_value(f"input: {type_of(input)}", "an input with elements")
    shape, dtype = input.shape, input.dtype
    wide = computing_dtype(dtype) if order else dtype
    values, cval = input.astype(wide), cval.astype(wide)
    # Coordinates of 16 bits cannot distinguish the elements of a large axis.
    rows = [c.astype(computing_dtype(c.dtype)) for c in coordinates]
    places = broadcast_shape(*[c.shape for c in rows])
    axes = [_neighbours(broadcasted(c, places), order) for c in rows]
    out: Any = None
    for corner in itertools.product(*axes):
        index = tuple([_map_inside(i, n, mode) for (i, _), n in zip(corner, shape, strict=True)])
        term = values[index] if index else values
        if mode == "constant":
            for (i, _), n in zip(corner, shape, strict=True):
                term = jnp.where((i >= 0) & (i < n), term, cval)
        # The weights first: a derivative by one of them then reads elements, and no products.
        weights = [weight.astype(wide) for _, weight in corner if weight is not None]
        if weights:
            term = term * functools.reduce(operator.mul, weights)
        out = term if out is None else out + term
    if dtype in dtypes.INTEGER and wide not in dtypes.INTEGER:
        out = out.round()
    return out.astype(dtype)
