"""`weft.scipy.cluster.vq`: vector quantization."""

from __future__ import annotations

from typing import Annotated, Any

import weft.numpy as jnp
from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.errors.argument_errors import wrong_shape
from weft.kinds.arguments import NoEffect, of_rank
from weft.kinds.array_function import array_function
from weft.kinds.checks import common_dtype, computing_dtype, inexact

__all__ = ["vq"]

__dir__ = public_names(globals())

Vectors = Annotated[Any, of_rank(1, 2, dtypes.ORDERED)]


@array_function
def vq(obs: Vectors, code_book: Vectors, check_finite: NoEffect = True) -> tuple[Array, Array]:
    """For each observation the index of the nearest code, int32, and its distance, floating.

    obs: shape (m, n); code_book: (k, n); or (m,) and (k,) for numbers. Both results are (m,); of
    equal distances the first counts. `check_finite` has no effect. Raises ShapeError if shapes
    do not fit or there is no code, DTypeError for complex numbers, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> vq(jnp.array([[1.0, 1.0], [5.0, 4.0]]), jnp.array([[0.0, 1.0], [5.0, 5.0]]))[0]
    Array([0, 1], dtype=int32)
    """
    if obs.ndim != code_book.ndim or obs.shape[1:] != code_book.shape[1:] or not code_book.shape[0]:
        got = f"obs: {obs.type}, code_book: {code_book.type}"
        raise wrong_shape(got, "codes, of as many elements as observations have")
    dtype = inexact(common_dtype(obs, code_book))
    a, b = (x.astype(computing_dtype(dtype)) for x in (obs, code_book))
    if a.ndim == 1:
        a, b = a[:, None], b[:, None]
    # Differences, not products: distances that are small beside the vectors stay exact.
    squares = jnp.square(a[:, None, :] - b[None, :, :]).sum(-1)
    least = squares.min(-1)
    # The square root has no derivative at 0, where an observation equals a code.
    distance = jnp.where(least > 0, jnp.sqrt(jnp.where(least > 0, least, 1)), 0)
    return squares.argmin(-1).astype(dtypes.int32), distance.astype(dtype)
