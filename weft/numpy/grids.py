"""Grids of coordinates: `meshgrid` and `fromfunction`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from weft import config, dtypes
from weft.arrays.array import Array
from weft.errors import ShapeError
from weft.interpreters.staging import function_name
from weft.kinds.arguments import DType, EachOperand, Flag, Integer, Shape, choice, copied
from weft.kinds.array_function import array_function
from weft.kinds.checks import shape_of
from weft.numpy.vectorizing import mapped
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.structural.shape import broadcast_in_dim

__all__ = ["fromfunction", "meshgrid"]

R = TypeVar("R")
_FIX = "leave it out; sparse=True makes arrays that are as small as views"
Copied = Annotated[bool, copied("arrays do not share memory", _FIX)]
Indexing = Annotated[str, choice("xy", "ij")]


@array_function
def meshgrid(
    *xi: EachOperand, copy: Copied = True, sparse: Flag = False, indexing: Indexing = "xy"
) -> list[Array]:
    """Arrays of coordinates of a grid from the coordinates along each dimension.

    xi: vectors or numbers. copy: must be True, because arrays do not share memory. indexing: "xy"
    (the first two dimensions exchanged) or "ij"; sparse: lengths of 1 where an array does not vary.
    Raises ValueError for another indexing.

    >>> x, y = meshgrid(np.arange(2), np.arange(3))
    >>> x.shape
    (3, 2)
    """
    if any(x.ndim > 1 for x in xi):
        got = ", ".join(str(x.type) for x in xi)
        message = "an array has more dimensions than one"
        raise ShapeError(message, got=got, wanted="at most one dimension each")
    places = list(range(len(xi)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape = [0] * len(places)
    for x, place in zip(xi, places, strict=True):
        shape[place] = x.size
    out = []
    for x, place in zip(xi, places, strict=True):
        lengths = [1] * len(shape) if sparse else list(shape)
        lengths[place] = shape[place]
        out.append(broadcast_in_dim(x, tuple(lengths), (place,) if x.ndim else ()))
    return out


def fromfunction(function: Callable[..., R], shape: Any, *, dtype: Any = float, **kwargs: Any) -> R:
    """The values of a function on the indices of an array of the given shape.

    function: takes as many arguments as there are dimensions; kwargs: further arguments of the
    function. The function is called once, with one array of indices per dimension. With the setting
    `argument_rule="jax"` it is mapped over them: it gets one index per dimension, and what it
    returns for each, any tree of arrays, is stacked.

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype="int32")
    Array([[0, 1],
           [1, 2]], dtype=int32)
    """
    lengths = shape_of(shape, "fromfunction")
    wanted = dtypes.requested(dtype)
    if config.settings().argument_rule == "jax":
        counts = [_indices((n,), 0, wanted) for n in lengths]
        dims = [[d == axis for d in range(len(lengths))] for axis in range(len(lengths))]
        element = functools.partial(function, **kwargs)
        out: R = mapped(element, lengths, counts, dims, function_name(function))
        return out
    return function(*[_indices(lengths, d, wanted) for d in range(len(lengths))], **kwargs)


@array_function
def _indices(shape: Shape, dimension: Integer, dtype: DType) -> Any:
    return broadcasted_iota(dtype, shape, dimension)
