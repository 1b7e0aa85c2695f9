"""Grids of coordinates: `meshgrid`, `fromfunction`, `mgrid`, `ogrid`; arrays written as an index:
`r_`, `c_`; for indices `s_` and `index_exp`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy import index_exp, s_

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import refusal
from weft.interpreters.staging import function_name
from weft.kinds.arguments import DType, EachOperand, Flag, Integer, Shape, choice, copy_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import axis_of, promote_values, shape_of
from weft.kinds.numbers import promote_operands
from weft.numpy.creation import array, asarray
from weft.numpy.dtypes import result_type
from weft.numpy.joining import concatenate, stack
from weft.numpy.manipulation import moveaxis
from weft.numpy.ranges import arange, linspace
from weft.numpy.vectorizing import map_leading_axes
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.structural.shape import broadcast_in_dim, reshape

__all__ = ["c_", "fromfunction", "index_exp", "meshgrid", "mgrid", "ogrid", "r_", "s_"]

R = TypeVar("R")
_FIX = "leave it out; sparse=True makes arrays that are as small as views"
Copied = Annotated[bool, copy_kind("arrays do not share memory", _FIX)]
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
        out: R = map_leading_axes(element, lengths, counts, dims, function_name(function))
        return out
    return function(*[_indices(lengths, d, wanted) for d in range(len(lengths))], **kwargs)


@array_function
def _indices(shape: Shape, dimension: Integer, dtype: DType) -> Any:
    return broadcasted_iota(dtype, shape, dimension)


class _Written:
    """An object that makes arrays from an index. Its errors have its name."""

    _name: str

    def __repr__(self) -> str:
        return f"weft.numpy.{self._name}"

    def _refusal(
        self, kind: type[WeftError], message: str, got: str, wanted: str, fix: Fix | None = None
    ) -> WeftError:
        return refusal(kind, f"{self._name}: {message}", self._name, got, wanted, fix)

    def _values(self, part: slice) -> Any:
        """The values of a slice: a range, or with a complex step so many equal steps."""
        if part == slice(None):
            return arange(0)
        if part.stop is None:
            wanted = "start:stop, start:stop:step or start:stop:countj"
            raise self._refusal(WeftValueError, "a slice has an end", f"{part!r}", wanted)
        start = 0 if part.start is None else part.start
        step = 1 if part.step is None else part.step
        for name, value in (("start", start), ("stop", part.stop), ("step", step)):
            if isinstance(value, Tracer) or np.ndim(value):
                message = f"{name} is a number that is known, since it decides the shape"
                fix = Fix("function", "use weft.numpy.linspace with a static number of points", {})
                got = f"{name}={value!r:.60}"
                raise self._refusal(WeftTypeError, message, got, "a Python number", fix)
        if isinstance(step, (complex, np.complexfloating)):
            return linspace(start, part.stop, int(np.abs(step)))
        return arange(start, part.stop, step)


class _Grid(_Written):
    """`mgrid` and `ogrid`: coordinates written as slices."""

    def __init__(self, name: str, sparse: bool) -> None:
        self._name, self._sparse = name, sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._values(key)
        parts = key if isinstance(key, tuple) else (key,)
        if not parts:
            return () if self._sparse else arange(0)
        for part in parts:
            if not isinstance(part, slice):
                got = f"{part!r:.60} of class {type(part).__name__}"
                wanted = f"slices, as in {self._name}[0:2, 0:3]"
                raise self._refusal(WeftTypeError, "it is indexed with slices", got, wanted)
        lines = promote_values(self._name, *[self._values(part) for part in parts])
        grids = meshgrid(*lines, indexing="ij", sparse=self._sparse)
        return tuple(grids) if self._sparse else stack(grids, 0)


mgrid = _Grid("mgrid", False)
ogrid = _Grid("ogrid", True)


class _Joined(_Written):
    """`r_` and `c_`: parts written as an index and concatenated."""

    def __init__(self, name: str, axis: int, ndmin: int, place: int) -> None:
        self._name, self._defaults = name, (axis, ndmin, place)

    def __getitem__(self, key: Any) -> Any:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, place = self._defaults
        if parts and isinstance(parts[0], str) and parts[0].strip() in ("r", "c"):
            return self._matrix(parts.pop(0).strip(), tuple(parts))
        if parts and isinstance(parts[0], str):
            axis, ndmin, place = self._directive(parts.pop(0))
        if not parts:
            wanted = "at least one array, number or slice"
            raise self._refusal(WeftValueError, "there is nothing to join", repr(key), wanted)
        # Python numbers and NumPy arrays become a common wide dtype without rounding first.
        values = promote_operands(self._name, *map(self._value, parts))
        pairs = [
            (self._spread(value, ndmin, place), _is_number(part))
            for value, part in zip(values, parts, strict=True)
        ]
        arrays = [x for x, number in pairs if not number]
        if arrays:  # Python numbers take the dtype of the arrays
            dtype = result_type(*[x for x, _ in pairs])
            pairs = [(asarray(x, dtype=dtype), number) for x, number in pairs]
        pieces = [x for x, _ in pairs]
        return concatenate(pieces, axis_of(axis, type_of(pieces[0]).ndim, self._name))

    def _directive(self, text: str) -> tuple[int, int, int]:
        fields = text.split(",")
        numbers: list[int] = []
        for field in fields:
            if not field.strip().lstrip("-").isdigit() or len(fields) > 3:
                message = "the text in front says how to join"
                wanted = "integers: 'axis', 'axis,ndmin' or 'axis,ndmin,place', or 'r' or 'c' alone"
                raise self._refusal(WeftValueError, message, repr(text), wanted)
            numbers.append(int(field))
        defaults = list(self._defaults)
        defaults[: len(numbers)] = numbers
        if len(numbers) > 1 and len(numbers) < 3 and self._name == "r_":
            defaults[2] = -1
        return defaults[0], defaults[1], defaults[2]

    def _matrix(self, form: str, parts: tuple[Any, ...]) -> Any:
        """Joins parts to a matrix of one row ('r') or one column ('c')."""
        joined = self[parts]
        if type_of(joined).ndim > 1:
            return joined
        length = type_of(joined).size
        return reshape(joined, (1, length) if form == "r" else (length, 1))

    def _value(self, part: Any) -> Any:
        """Converts a part to an array or a number."""
        if isinstance(part, str):
            message, wanted = "a text stands in front only", "arrays, numbers and slices"
            raise self._refusal(WeftTypeError, message, repr(part), wanted)
        if isinstance(part, slice):
            return self._values(part)
        return array(part) if isinstance(part, (list, tuple)) else part

    def _spread(self, value: Any, ndmin: int, place: int) -> Any:
        """Adds dimensions up to `ndmin`."""
        rank = type_of(value).ndim
        if not rank:
            return reshape(asarray(value), (1,) * max(ndmin, 1))
        if rank >= ndmin:
            return asarray(value)
        # The old dimensions begin at `place`, new ones of length 1 stand around them.
        missing = ndmin - rank
        first = place if place >= 0 else place + missing + 1
        value = reshape(asarray(value), (*(1,) * missing, *type_of(value).shape))
        target = range(first, first + rank)
        return moveaxis(value, list(range(missing, ndmin)), list(map(operator.index, target)))


def _is_number(part: Any) -> bool:
    return isinstance(part, (bool, int, float, complex)) and not isinstance(part, np.generic)


r_ = _Joined("r_", 0, 1, -1)
c_ = _Joined("c_", -1, 2, 0)
