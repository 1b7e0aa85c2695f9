"""Making sparse arrays of any format, and dense ones of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft.errors import WeftValueError, api_boundary
from weft.experimental.sparse.base import JAXSparse
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcsr_array import BCSR
from weft.experimental.sparse.single_matrices import COO, CSC, CSR
from weft.experimental.sparse.tracing import todense_p
from weft.typing import Array

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csc": CSC, "csr": CSR}


def _class(sparse_format: str, formats: Sequence[str]) -> Any:
    if sparse_format not in formats:
        message = f"there is no sparse_format {sparse_format!r:.80}"
        got, wanted = f"sparse_format={sparse_format!r:.80}", f"one of {', '.join(formats)}"
        raise WeftValueError(message, got=got, wanted=wanted)
    return _FORMATS[sparse_format]


@api_boundary
def todense(arr: Any) -> Array:
    """The dense array of a sparse one; an array is returned as it is.

    Inside `sparsify`, it makes the tracer of a sparse array dense.

    Args:
        arr: A sparse array, or an array.

    >>> from weft.experimental import sparse
    >>> sparse.todense(sparse.eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    dense: Array = arr.todense() if isinstance(arr, JAXSparse) else todense_p.bind(jnp.asarray(arr))
    return dense


@api_boundary
def empty(
    shape: Sequence[int], dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> JAXSparse:  # fmt: skip
    """A sparse array that stores nothing. Further keywords (`n_batch`, `n_dense`, `nse`) are those
    of the format, "bcoo", "bcsr", "coo", "csc" or "csr".

    Args:
        sparse_format: The format: "bcoo", "bcsr", "coo", "csc" or "csr".
        kwds: Further parts of the format, by name.

    >>> from weft.experimental import sparse
    >>> sparse.empty((3, 4))
    BCOO(float32[3, 4], nse=0)
    """
    cls = _class(sparse_format, tuple(_FORMATS))
    out: JAXSparse = cls._empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)
    return out


@api_boundary
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, index_dtype: Any = "int32",
    sparse_format: str = "bcoo", **kwds: Any,
) -> JAXSparse:  # fmt: skip
    """A sparse matrix of shape (N, M) with ones on the k-th diagonal and zeros elsewhere.

    Formats are "bcoo", with `n_batch` and `n_dense`, "coo", "csc" and "csr".

    Args:
        N: The number of rows.
        M: The number of columns; None for N.
        k: The number of the diagonal: 0 is the main one, positive ones are above it.
        sparse_format: The format: "bcoo", "coo", "csc" or "csr".
        kwds: Further parts of the format, by name.

    >>> from weft.experimental import sparse
    >>> sparse.eye(3, k=1)
    BCOO(float32[3, 3], nse=2)
    """
    M = N if M is None else M
    cls = _class(sparse_format, ("bcoo", "coo", "csc", "csr"))
    out: JAXSparse = cls._eye(int(N), int(M), int(k), dtype=dtype, index_dtype=index_dtype, **kwds)
    return out
