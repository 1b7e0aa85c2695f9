"""Properties of values and arrays that need no computing: kind, shape, text."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy import get_printoptions, printoptions, set_printoptions

from weft import config, dtypes
from weft.core.types import type_of
from weft.errors import WeftTypeError
from weft.kinds.checks import axes_of
from weft.numpy.creation import asarray

__all__ = [
    "array_repr", "array_str", "get_printoptions", "iscomplexobj", "isrealobj", "isscalar",
    "iterable", "ndim", "printoptions", "set_printoptions", "shape", "size",
]  # fmt: skip


def _type(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        value = asarray(value)
    if value is None and config.settings().argument_rule == "jax":
        value = 0.0  # JAX takes None for something without dimensions, and libraries rely on it
    return type_of(value)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype of a value is complex.

    As in NumPy, any object with a dtype is accepted: a ShapeDtypeStruct, and a class of scalars.

    >>> iscomplexobj(1j), iscomplexobj(np.ones(2)), iscomplexobj(jnp.complex64)
    (True, False, True)
    """
    dtype = getattr(x, "dtype", None)
    return (dtype if isinstance(dtype, np.dtype) else _type(x).dtype) in dtypes.COMPLEX


def isrealobj(x: Any) -> bool:
    """Whether the dtype of a value is not complex.

    >>> isrealobj(1.5)
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether a value is a number or an array without dimensions.

    element: any object; lists and tuples are no scalars.

    >>> isscalar(1.5), isscalar(np.ones(2))
    (True, False)
    """
    if isinstance(element, (list, tuple)):
        return False
    try:
        return type_of(element).ndim == 0
    except WeftTypeError:
        return bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Whether a value can be iterated over.

    >>> iterable([1]), iterable(1)
    (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True


def ndim(a: Any) -> int:
    """The number of dimensions of a value.

    >>> ndim([[1, 2]])
    2
    """
    return int(_type(a).ndim)


def shape(a: Any) -> tuple[int, ...]:
    """The length of each dimension of a value.

    >>> shape([[1, 2]])
    (1, 2)
    """
    return _type(a).shape


def size(a: Any, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements of a value, in all or along axes.

    >>> size(np.ones((2, 3))), size(np.ones((2, 3)), 1)
    (6, 3)
    """
    of = _type(a)
    if axis is None:
        return int(of.size)
    return prod(of.shape[d] for d in axes_of(axis, of.ndim, "size"))


def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that shows an array as an expression, as NumPy's function of this name.

    arr: the array that is shown; max_line_width, precision, suppress_small: as in `array2string`.

    >>> array_repr(np.array([1.0, 2.0]))
    'array([1., 2.])'
    """
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that shows the elements of an array, as NumPy's function of this name.

    max_line_width, precision, suppress_small: as in `array2string`.

    >>> array_str(np.array([1.0, 2.0]))
    '[1. 2.]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)
