"""`weft.scipy.cluster.vq`: vector quantization."""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.checks import computing_dtype, convert, inexact, promoted
from weft.kinds.compiled_functions import compiled
from weft.scipy.argument_checks import check_dimensions, wrong_shape

__all__ = ["vq"]

__dir__ = public_names(globals())


@compiled
def _nearest(observations: Any, book: Any) -> Any:
    a, b = promoted("cluster.vq.vq", observations, book)
    given = inexact(a.dtype)
    wide = computing_dtype(given)
    a, b = convert(a, wide), convert(b, wide)
    if a.ndim == 1:
        a, b = a[:, None], b[:, None]
    # Differences, not products: distances that are small beside the vectors stay exact.
    squares = jnp.sum(jnp.square(a[:, None, :] - b[None, :, :]), axis=-1)
    found = jnp.argmin(squares, axis=-1)
    least = jnp.min(squares, axis=-1)
    # The square root has no derivative at 0, where an observation equals a code.
    safe = jnp.where(least > 0, least, 1)
    distance = jnp.where(least > 0, jnp.sqrt(safe), 0)
    return convert(found, dtypes.int32), convert(distance, given)


@api_boundary
def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """For each observation the index of the nearest code, int32, and its distance, floating.

    obs: shape (m, n); code_book: (k, n); or (m,) and (k,) for numbers. Both results are (m,); of
    equal distances the first counts. `check_finite` has no effect. Raises ShapeError if shapes
    do not fit or there is no code, DTypeError for complex numbers, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> vq(jnp.array([[1.0, 1.0], [5.0, 4.0]]), jnp.array([[0.0, 1.0], [5.0, 5.0]]))[0]
    Array([0, 1], dtype=int32)
    """
    name = "cluster.vq.vq"
    for argument, x in (("obs", obs), ("code_book", code_book)):
        check_dimensions(name, argument, x, 1, 2, dtypes.ORDERED)
    a, b = type_of(obs), type_of(code_book)
    if a.ndim != b.ndim or a.shape[1:] != b.shape[1:] or b.shape[0] == 0:
        got = f"obs: {a}, code_book: {b}"
        raise wrong_shape(name, got, "codes, of as many elements as observations have")
    return _nearest(obs, code_book)
