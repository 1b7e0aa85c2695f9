"""Window functions: weights that fall off towards both ends, as vectors of M elements.

They are computed in double precision from a concrete length, and returned in the default
floating-point dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, refusal
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, ShapeError
from weft.kinds.checks import computing_dtype, convert, inexact, operand
from weft.kinds.compiled_functions import compiled
from weft.numpy.creation import asarray
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import div, exp, mul, sub
from weft.ops.elementwise.special import bessel_i0e

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _positions(operation: str, M: Any) -> np.ndarray[Any, Any]:
    """M positions from -1 to 1; 0 for a single one."""
    count = integer_of(M, operation, "M")
    if count < 2:
        return np.zeros(max(count, 0))
    return np.arange(1 - count, count, 2) / (count - 1)


def _made(values: np.ndarray[Any, Any]) -> Any:
    return asarray(values, dtype=dtypes.default_float())


def bartlett(M: int) -> Array:
    """The triangle 1 - abs(t) for M positions t from -1 to 1, shape (M,).

    M: how many numbers the window has, an integer that is known while tracing. Raises WeftTypeError
    if M is no integer that is known.

    >>> jnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _made(1 - np.abs(_positions("bartlett", M)))


def _cosines(operation: str, M: Any, *weights: float) -> Any:
    t = _positions(operation, M)
    return _made(np.cos(np.multiply.outer(t, np.pi * np.arange(len(weights)))) @ weights)


def blackman(M: int) -> Array:
    """0.42 + 0.5 cos(πt) + 0.08 cos(2πt) for M positions t from -1 to 1 (Blackman and Tukey, 1958).

    M: how many numbers the window has, an integer that is known while tracing.

    >>> float(jnp.blackman(5)[2])
    1.0
    """
    return _cosines("blackman", M, 0.42, 0.5, 0.08)


def hamming(M: int) -> Array:
    """0.54 + 0.46 cos(πt) for M positions t from -1 to 1.

    M: how many numbers the window has, an integer that is known while tracing.

    >>> jnp.hamming(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _cosines("hamming", M, 0.54, 0.46)


def hanning(M: int) -> Array:
    """0.5 + 0.5 cos(πt) for M positions t from -1 to 1: von Hann's window.

    M: how many numbers the window has, an integer that is known while tracing.

    >>> jnp.hanning(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _cosines("hanning", M, 0.5, 0.5)


def kaiser(M: int, beta: Any) -> Array:
    """I0(beta sqrt(1 - t²)) / I0(beta) for M positions t from -1 to 1 (Kaiser and Schafer, 1980).

    M: how many numbers the window has, an integer that is known while tracing. beta: a real number,
    which may be traced and differentiated; 0 is a window of ones, and larger ones are narrower.
    Raises ShapeError if it has dimensions, DTypeError if it is complex.

    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    t = _positions("kaiser", M)
    beta = operand("kaiser", beta)
    of = type_of(beta)
    if of.ndim:
        raise ShapeError("kaiser: beta is one number", operation="kaiser", got=str(of), wanted="()")
    if of.dtype in dtypes.COMPLEX:
        raise refusal(DTypeError, "kaiser: beta is real", "kaiser", str(of), "a real number")
    dtype = dtypes.default_float()
    if not of.weak_type and inexact(of.dtype).itemsize > dtype.itemsize:
        dtype = inexact(of.dtype)
    work = computing_dtype(dtype)
    return convert(_kaiser(asarray(np.sqrt(1 - t * t), dtype=work), convert(beta, work)), dtype)


@compiled
def _kaiser(root: Any, beta: Any) -> Any:
    # With exponentials taken out, no beta overflows.
    beta = abs_(beta)
    inner = mul(root, beta)
    return mul(div(bessel_i0e(inner), bessel_i0e(beta)), exp(sub(inner, beta)))
