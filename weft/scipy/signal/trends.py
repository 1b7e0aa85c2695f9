"""Removal of a constant or of straight lines from signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import axis_of, computing_dtype, convert, inexact
from weft.kinds.compiled_functions import compiled
from weft.scipy.argument_checks import check_dimensions, one_of, refuse, wrong_value

__all__ = ["detrend", "without_trend"]


def without_trend(x: Any, linear: bool) -> Any:
    """Floating or complex x, less its mean or its line of least squares, along the last dimension.

    The line is written in a variable of mean zero, so its two coefficients are independent.
    """
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    n = x.shape[-1]
    if not linear or n < 2:
        return x
    place = convert(jnp.arange(n, dtype=jnp.int32), x.real.dtype) - (n - 1) / 2
    squares = n * (n * n - 1) / 12
    slope = jnp.sum(x * place, axis=-1, keepdims=True) / squares
    return x - slope * place


@compiled
def _detrended(x: Any, *, axis: int, linear: bool, breaks: tuple[int, ...]) -> Any:
    given = inexact(type_of(x).dtype)
    x = convert(x, computing_dtype(given))
    x = jnp.moveaxis(x, axis, -1)
    pairs = zip(breaks, breaks[1:], strict=False)
    parts = [without_trend(x[..., start:stop], linear) for start, stop in pairs]
    return convert(jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, axis), given)


def _breaks(bp: Any, n: int) -> tuple[int, ...]:
    """The starts of the parts of a signal, and the end of the last one."""
    given = np.atleast_1d(np.asarray(bp)) if isinstance(bp, (int, Sequence, np.ndarray)) else None
    if given is None or given.ndim != 1 or given.dtype.kind not in "iu":
        raise wrong_value("signal.detrend", f"bp={bp!r:.80}", "an integer or several as bp")
    if len(given) and (given.min() < 0 or given.max() > n):
        raise wrong_value("signal.detrend", f"bp={bp!r:.80}", f"a bp from 0 to {n}")
    return tuple(int(i) for i in np.unique(np.concatenate([[0], given, [n]])))


@api_boundary
def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None
) -> Array:
    """The data less its line of least squares along an axis, or ("constant") less its mean.

    bp: indices where lines begin, one or several integers, known while tracing. The result is
    floating or complex, of the shape of data. `overwrite_data` is not taken.

    data: an array of numbers; type: what is subtracted: "linear" for the line, "constant" for the
    mean.

    Raises AxisError, WeftValueError for another type and indices outside the data, DTypeError,
    WeftTypeError, and WeftNotImplementedError.

    >>> import weft.numpy as jnp
    >>> detrend(jnp.array([1.0, 3.0, 5.0]))
    Array([0., 0., 0.], dtype=float32)
    """
    name = "signal.detrend"
    check_dimensions(name, "data", data, 1)
    refuse(name, "overwrite_data", overwrite_data, None, "use the result")
    one_of(name, "type", type, ("linear", "constant", "l", "c"))
    of = type_of(data)
    found = axis_of(axis, of.ndim, name)
    if not of.size:
        raise wrong_value(name, f"data: {of}", "data with elements")
    linear = type[0] == "l"
    # The mean is that of the whole axis: breaks are for lines.
    breaks = _breaks(bp, of.shape[found]) if linear else (0, of.shape[found])
    return _detrended(data, axis=found, linear=linear, breaks=breaks)
