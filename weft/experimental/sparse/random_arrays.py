"""Random sparse arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import random
from weft.api.vmap import vmap
from weft.errors import WeftValueError, api_boundary
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_storage import bcoo_sort_indices
from weft.typing import Array


@api_boundary
def random_bcoo(
    key: Any, shape: Sequence[int], *, dtype: Any = "float32", indices_dtype: Any = None,
    nse: float = 0.2, n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True,
    sorted_indices: bool = False, generator: Callable[..., Array] = random.uniform, **kwds: Any,
) -> BCOO:  # fmt: skip
    """A BCOO with random elements at random places.

    nse: the number of elements of each batch, or, below 1, their share of all places, rounded up.
    `generator(key, shape=, dtype=, **kwds)` draws the data. Raises WeftValueError for an `nse` that
    is negative or larger than the number of places.

    Args:
        key: A random key.
        indices_dtype: The dtype of indices; None for int32.
        unique_indices: Whether no place is drawn twice.
        sorted_indices: Whether indices are sorted.
        generator: Draws the data, as `weft.random.uniform` does.
        kwds: Further keyword arguments of the generator.

    >>> from weft.experimental import sparse
    >>> sparse.random_bcoo(weft.random.key(0), (4, 5), nse=3)
    BCOO(float32[4, 5], nse=3)
    """
    shape = tuple(map(int, shape))
    ndim = len(shape)
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > ndim:
        message = "n_batch and n_dense are counts of dimensions"
        got = f"n_batch={n_batch}, n_dense={n_dense}, shape={shape}"
        raise WeftValueError(message, got=got, wanted=f"{ndim} together at most")
    batch, inner = shape[:n_batch], shape[n_batch : ndim - n_dense]
    places = math.prod(inner)
    count = math.ceil(nse * places) if 0 < nse < 1 else int(nse)
    if nse < 0 or count > places and unique_indices:
        message = "nse is a number of places, or a share of them"
        got, wanted = f"nse={nse!r}, {places} places", f"0 to {places}"
        raise WeftValueError(message, got=got, wanted=wanted)
    data_key, index_key = random.split(key)
    index_dtype = np.dtype(indices_dtype or "int32")

    def places_of(key: Any) -> Any:
        """The places of one batch, in the order in which they are drawn."""
        if not inner:
            return jnp.zeros((count, 0), index_dtype)
        flat = random.choice(key, places, (count,), replace=not unique_indices)
        return jnp.stack(jnp.unravel_index(flat, inner), -1).astype(index_dtype)

    if batch:
        keys = random.split(index_key, batch)
        indices = functools.reduce(lambda f, _: vmap(f), batch, places_of)(keys)
    else:
        indices = places_of(index_key)
    data = generator(data_key, shape=(*batch, count, *shape[ndim - n_dense :]), dtype=dtype, **kwds)
    made = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return bcoo_sort_indices(made) if sorted_indices else made
