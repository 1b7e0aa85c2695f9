"""Grids of coordinates: `meshgrid` and `fromfunction`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from weft import config, dtypes
from weft.argument_errors import not_taken, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import ShapeError
from weft.interpreters.staging import function_name
from weft.kinds.checks import check_choice, check_flags, shape_of
from weft.kinds.compiled_functions import compiled
from weft.kinds.numbers import as_operand
from weft.numpy.vectorizing import mapped
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.structural.shape import broadcast_in_dim

__all__ = ["fromfunction", "meshgrid"]

R = TypeVar("R")


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Arrays of coordinates of a grid from the coordinates along each dimension.

    xi: vectors or numbers. copy: must be True, because arrays do not share memory. indexing: "xy"
    (the first two dimensions exchanged) or "ij"; sparse: lengths of 1 where an array does not vary.
    Raises ValueError for another indexing.

    >>> x, y = meshgrid(np.arange(2), np.arange(3))
    >>> x.shape
    (3, 2)
    """
    check_flags("meshgrid", sparse=sparse, copy=copy)
    check_choice(indexing, ("xy", "ij"), "meshgrid", "indexing")
    if not copy:
        why = "arrays do not share memory"
        fix = "leave it out; sparse=True makes arrays that are as small as views"
        raise not_taken("meshgrid", "copy", copy, why, fix, True)
    vectors = [as_operand("meshgrid", x) for x in xi]
    if any(type_of(x).ndim > 1 for x in vectors):
        message = "meshgrid takes arrays of one dimension"
        got = ", ".join(str(type_of(x)) for x in vectors)
        raise refusal(ShapeError, message, "meshgrid", got, "at most one dimension each")
    places = list(range(len(vectors)))
    if indexing == "xy" and len(places) > 1:
        places[:2] = 1, 0
    shape = [0] * len(places)
    for x, place in zip(vectors, places, strict=True):
        shape[place] = type_of(x).size
    out = []
    for x, place in zip(vectors, places, strict=True):
        lengths = [1] * len(shape) if sparse else list(shape)
        lengths[place] = shape[place]
        out.append(broadcast_in_dim(x, tuple(lengths), (place,) if type_of(x).ndim else ()))
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
        counts = [_indices(shape=(n,), dimension=0, dtype=wanted) for n in lengths]
        dims = [[d == axis for d in range(len(lengths))] for axis in range(len(lengths))]
        element = functools.partial(function, **kwargs)
        found: R = mapped(element, lengths, counts, dims, function_name(function))
        return found
    return function(
        *[_indices(shape=lengths, dimension=d, dtype=wanted) for d in range(len(lengths))], **kwargs
    )


@compiled
def _indices(*, shape: tuple[int, ...], dimension: int, dtype: Any) -> Any:
    return broadcasted_iota(dtype, shape, dimension)
