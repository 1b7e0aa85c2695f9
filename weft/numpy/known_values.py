"""NumPy's functions whose result depends on values, or on dtypes by NumPy's own rules: iteration
over positions, text of arrays, the least dtype of a number. None of them takes a traced array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndindex

from weft import dtypes
from weft.argument_errors import refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, WeftValueError
from weft.kinds.checks import check_arrays, check_number
from weft.numpy.creation import asarray, unlisted
from weft.numpy.joining import static_array
from weft.numpy.manipulation import atleast_1d
from weft.ops.operand_errors import to_dtype

__all__ = [
    "array2string", "ascontiguousarray", "common_type", "min_scalar_type", "ndenumerate", "ndindex",
    "real_if_close",
]  # fmt: skip


def _values(operation: str, a: Any, argument: str) -> np.ndarray[Any, Any]:
    """The elements of an argument on the host. Raises WeftTypeError, or for a traced array
    ConcretizationError."""
    a = unlisted(a)
    check_arrays(operation, a)
    return static_array(a, operation, argument)


class ndenumerate:
    """An iterator over the positions and elements of an array, the last dimension fastest.

    arr: an array whose values are known. The elements are NumPy's scalars: they are fetched once,
    all together. Raises WeftTypeError for anything that is not an array, ConcretizationError for a
    traced one, whose elements are not known.

    >>> [(place, int(x)) for place, x in jnp.ndenumerate(jnp.array([[1, 2]]))]
    [((0, 0), 1), ((0, 1), 2)]
    """

    def __init__(self, arr: Any) -> None:
        self._pairs = np.ndenumerate(_values("ndenumerate", arr, "arr"))

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
    values = _values("array2string", a, "a")
    named = {
        "max_line_width": max_line_width,
        "precision": precision,
        "suppress_small": suppress_small,
        "separator": separator,
        "prefix": prefix,
        **options,
    }
    try:
        return np.array2string(values, **named)
    except (TypeError, ValueError, KeyError) as error:
        message = f"array2string: NumPy does not take these options ({error})"
        got = ", ".join(f"{k}={v!r:.40}" for k, v in named.items() if v is not None)
        wanted = "the options of numpy.array2string"
        raise refusal(WeftValueError, message, "array2string", got, wanted) from None


def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    """An array of at least one dimension; NumPy's function of this name stores it row by row.

    A caller cannot see the order of an array in memory, so this is `asarray` with a dimension added
    to numbers. Raises the errors of `asarray`.

    >>> jnp.ascontiguousarray(2.0, "float32")
    Array([2.], dtype=float32)
    """
    return atleast_1d(asarray(a, dtype))


def common_type(*arrays: Any) -> type:
    """The class of scalars, floating-point or complex, to which all arrays promote.

    arrays: any number of arrays, of which only the dtypes count. Integers count as the default
    floating-point dtype, no arrays as float16. Raises DTypeError for booleans and random keys.

    >>> jnp.common_type(jnp.arange(3), jnp.ones(2, "complex64"))
    <class 'numpy.complex64'>
    """
    found: Any = np.dtype(np.float16)
    for position, x in enumerate(arrays):
        x = unlisted(x)
        check_arrays("common_type", x)
        dtype = type_of(x).dtype
        if not dtypes.is_numeric(dtype):
            message = "common_type takes arrays of numbers"
            got = f"{type_of(x)} as argument {position}"
            wanted = "an integer, floating-point or complex dtype"
            fix = to_dtype("x", dtype, dtypes.int32)
            raise refusal(DTypeError, message, "common_type", got, wanted, fix)
        if dtype not in dtypes.INEXACT:
            dtype = dtypes.default_float()
        found = dtype if position == 0 else dtypes.promote_types(found, dtype)
    return found.type


def min_scalar_type(a: Any) -> np.dtype[Any]:
    """The smallest dtype that holds a number, or for an array with dimensions its own dtype.

    Raises ConcretizationError for a traced array without dimensions, whose value is not known.

    >>> jnp.min_scalar_type(300), jnp.min_scalar_type(-1), jnp.min_scalar_type(jnp.ones(2))
    (dtype('uint16'), dtype('int8'), dtype('float32'))
    """
    a = unlisted(a)
    check_arrays("min_scalar_type", a)
    if isinstance(a, int):
        return np.min_scalar_type(a)  # of any size
    of = type_of(a)
    return of.dtype if of.ndim else np.min_scalar_type(static_array(a, "min_scalar_type", "a"))


def real_if_close(a: Any, tol: float = 100) -> Array:
    """The real part where all imaginary parts are nearly zero, else the array as it is.

    tol: how near, in units of the machine epsilon if it is above 1, otherwise in absolute terms.
    The dtype of the result depends on values: raises ConcretizationError for a traced complex
    array.

    >>> jnp.real_if_close(jnp.array([1 + 1e-9j, 2]))
    Array([1., 2.], dtype=float32)
    """
    check_number(tol, "real_if_close", "tol")
    a = unlisted(a)
    check_arrays("real_if_close", a)
    x = asarray(a)
    dtype = type_of(x).dtype
    if dtype not in dtypes.COMPLEX:
        return x
    imaginary = np.abs(static_array(x, "real_if_close", "a").imag)
    bound = tol * float(dtypes.finfo(dtype).eps) if tol > 1 else tol
    return x.real if bool(np.all(imaginary < bound)) else x
