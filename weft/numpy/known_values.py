"""NumPy's functions whose result depends on values, or on dtypes by NumPy's own rules: iteration
over positions, text of arrays, the least dtype of a number. None of them takes a traced array.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy import ndindex

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, WeftValueError
from weft.kinds.arguments import NEVER, Passed, take_number
from weft.kinds.array_function import python_function
from weft.kinds.checks import check_arrays
from weft.kinds.kind import Arguments, Kind
from weft.numpy.creation import ListOrArray, asarray, listed_kind, unlisted
from weft.numpy.joining import static_array
from weft.numpy.manipulation import atleast_1d
from weft.ops.operand_errors import to_dtype

__all__ = [
    "array2string", "ascontiguousarray", "common_type", "min_scalar_type", "ndenumerate", "ndindex",
    "real_if_close",
]  # fmt: skip


def _values(value: Any, call: Arguments) -> np.ndarray[Any, Any]:
    return static_array(listed_kind.take(value, call), call.name)


def _numeric_dtypes(value: Any, call: Arguments) -> list[Any]:
    """The dtypes of arrays. Raises DTypeError for booleans and random keys."""
    out = []
    for position, x in enumerate(map(unlisted, value)):
        check_arrays(x, argument=f"argument {position}")
        of = type_of(x)
        if not dtypes.is_numeric(of.dtype):
            message, got = "it takes arrays of numbers", f"{of} as argument {position}"
            fix = to_dtype("x", of.dtype, dtypes.int32)
            raise DTypeError(message, got=got, wanted=_NUMERIC, fix=fix)
        out.append(of.dtype if of.dtype in dtypes.INEXACT else dtypes.default_float())
    return out


_NUMERIC = "an integer, floating-point or complex dtype"
_MEANS = "an array or a list, whose values are known"
Known = Annotated[Any, Kind(_values, _MEANS, ("text",), np.ones(2), plain=NEVER)]
_WRONG = ("text", None)
Tolerance = Annotated[
    Any, Kind(take_number, "a number", _WRONG, static=False, fixed=True, plain=NEVER)
]
NumericDTypes = Annotated[Any, Kind(_numeric_dtypes, "arrays of numbers", ("text", True))]


@python_function
def _ndenumerate(arr: Known) -> Any:
    return np.ndenumerate(arr)


class ndenumerate:
    """An iterator over the positions and elements of an array, the last dimension fastest.

    arr: an array whose values are known. The elements are NumPy's scalars: they are fetched once,
    all together. Raises WeftTypeError for anything that is not an array, ConcretizationError for a
    traced one, whose elements are not known.

    >>> [(place, int(x)) for place, x in jnp.ndenumerate(jnp.array([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """

    def __init__(self, arr: Any) -> None:
        self._pairs = _ndenumerate(arr)

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], Any]]:
        return self

    def __next__(self) -> tuple[tuple[int, ...], Any]:
        return next(self._pairs)


def array2string(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
    separator: str = " ",
    prefix: str = "",
    **options: Any,
) -> str:
    """The text of an array, by NumPy's function of this name and its options.

    max_line_width: the most characters of a line. precision: the most digits after the point.
    suppress_small: whether numbers that are 0 at that precision are shown as 0. separator: the text
    between elements. prefix: a text that will stand in front, whose length counts in the lines.
    options: NumPy's formatter, threshold, edgeitems, sign, floatmode, suffix and legacy. NumPy's
    print options are the defaults. Raises WeftTypeError for anything that is not an array,
    ConcretizationError for a traced one, WeftValueError for options that NumPy does not know.

    >>> jnp.array2string(jnp.array([1.0, 2.5]), separator=", ", precision=1)
    '[1. , 2.5]'
    """
    named = {"max_line_width": max_line_width, "precision": precision, "separator": separator}
    named |= {"suppress_small": suppress_small, "prefix": prefix}
    return _array2string(a, named | options)


@python_function
def _array2string(a: Known, options: Passed) -> str:
    try:
        return np.array2string(a, **options)
    except (TypeError, ValueError, KeyError) as error:
        message = f"NumPy does not take these options ({error})"
        got = ", ".join(f"{k}={v!r:.40}" for k, v in options.items() if v is not None)
        raise WeftValueError(message, got=got, wanted="the options of numpy.array2string") from None


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    """An array of at least one dimension; NumPy's function of this name stores it row by row.

    A caller cannot see the order of an array in memory, so this is `asarray` with a dimension added
    to numbers. Raises the errors of `asarray`.

    >>> jnp.ascontiguousarray(2.0, "float32")
    Array([2.], dtype=float32)
    """
    return atleast_1d(asarray(a, dtype))


@python_function
def common_type(*arrays: NumericDTypes) -> type:
    """The class of scalars, floating-point or complex, to which all arrays promote.

    arrays: any number of arrays, of which only the dtypes count. Integers count as the default
    floating-point dtype, no arrays as float16. Raises DTypeError for booleans and random keys.

    >>> jnp.common_type(jnp.arange(3), jnp.ones(2, "complex64"))
    <class 'numpy.complex64'>
    """
    if not arrays:
        return np.float16
    dtype: Any = functools.reduce(dtypes.promote_types, arrays)
    return dtype.type


@python_function
def min_scalar_type(a: ListOrArray) -> np.dtype[Any]:
    """The smallest dtype that holds a number, or for an array with dimensions its own dtype.

    Raises ConcretizationError for a traced array without dimensions, whose value is not known.

    >>> jnp.min_scalar_type(300), jnp.min_scalar_type(-1), jnp.min_scalar_type(jnp.ones(2))
    (dtype('uint16'), dtype('int8'), dtype('float32'))
    """
    if isinstance(a, int):
        return np.min_scalar_type(a)  # of any size
    of = type_of(a)
    return of.dtype if of.ndim else np.min_scalar_type(static_array(a, "a"))


@python_function
def real_if_close(a: ListOrArray, tol: Tolerance = 100) -> Array:
    """The real part where all imaginary parts are nearly zero, else the array as it is.

    tol: how near, in units of the machine epsilon if it is above 1, otherwise in absolute terms.
    The dtype of the result depends on values: raises ConcretizationError for a traced complex
    array.

    >>> jnp.real_if_close(jnp.array([1 + 1e-9j, 2]))
    Array([1., 2.], dtype=float32)
    """
    x = asarray(a)
    if x.dtype not in dtypes.COMPLEX:
        return x
    imaginary = np.abs(static_array(x, "a").imag)
    bound = tol * float(dtypes.finfo(x.dtype).eps) if tol > 1 else tol
    return x.real if bool(np.all(imaginary < bound)) else x
