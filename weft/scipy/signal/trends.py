"""Removal of a constant or of straight lines from signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft.arrays.array import Array
from weft.errors.argument_errors import wrong_value
from weft.kinds.arguments import NEVER, OneAxis, choice, of_rank, refused_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import computing_dtype, inexact
from weft.kinds.kind import Arguments, Kind


def remove_trend(x: Any, linear: bool) -> Any:
    """Subtracts the mean or the line of least squares along the last dimension.

    The line is written in a variable of mean zero, so its two coefficients are independent.
    """
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    n = x.shape[-1]
    if not linear or n < 2:
        return x
    place = jnp.arange(n, dtype=jnp.int32).astype(x.real.dtype) - (n - 1) / 2
    squares = n * (n * n - 1) / 12
    slope = jnp.sum(x * place, axis=-1, keepdims=True) / squares
    return x - slope * place


def _parts(value: Any, call: Arguments) -> tuple[int, ...]:
    """The starts of the parts of a signal, and the end of the last one."""
    n = call.type.shape[call["axis"]]
    if call["type"][0] != "l":
        return 0, n  # The mean is that of the whole axis: breaks are for lines.
    several = isinstance(value, (int, Sequence, np.ndarray))
    breaks = np.atleast_1d(np.asarray(value)) if several else None
    got = f"{call.name}={value!r:.80}"
    if breaks is None or breaks.ndim != 1 or breaks.dtype.kind not in "iu":
        raise wrong_value(got, f"an integer or several as {call.name}")
    if len(breaks) and (breaks.min() < 0 or breaks.max() > n):
        raise wrong_value(got, f"a {call.name} from 0 to {n}")
    return tuple(int(i) for i in np.unique(np.concatenate([[0], breaks, [n]])))


Breaks = Annotated[Any, Kind(_parts, "one or several indices", (0.5, 99, None), 1, plain=NEVER)]
NotInPlace = Annotated[None, refused_kind("arrays do not change in place", "use the result")]


@array_function
def detrend(
    data: Annotated[Any, of_rank(1)],
    axis: OneAxis = -1,
    type: Annotated[str, choice("linear", "constant", "l", "c")] = "linear",
    bp: Breaks = 0,
    overwrite_data: NotInPlace = None,
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
    if not data.size:
        raise wrong_value(f"data: {data.type}", "data with elements")
    dtype = inexact(data.dtype)
    x = jnp.moveaxis(data.astype(computing_dtype(dtype)), axis, -1)
    pairs = zip(bp, bp[1:], strict=False)
    parts = [remove_trend(x[..., start:stop], type[0] == "l") for start, stop in pairs]
    return jnp.moveaxis(jnp.concatenate(parts, axis=-1), -1, axis).astype(dtype)
