"""Window functions: weights that fall off towards both ends, as vectors of M elements.

They are computed in double precision from a concrete length, and returned in the default
floating-point dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import DTypeError, ShapeError
from weft.kinds.arguments import Integer, Operand
from weft.kinds.array_function import array_function, python_function
from weft.kinds.checks import computing_dtype, inexact
from weft.numpy.creation import asarray
from weft.ops.elementwise.arithmetic import exp
from weft.ops.elementwise.special import bessel_i0e

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _positions(count: int) -> np.ndarray[Any, Any]:
    """Positions from -1 to 1; 0 for a single one."""
    if count < 2:
        return np.zeros(max(count, 0))
    return np.arange(1 - count, count, 2) / (count - 1)


def _window(values: np.ndarray[Any, Any]) -> Any:
    return asarray(values, dtype=dtypes.default_float())


def _cosines(M: int, *weights: float) -> Any:
    t = _positions(M)
    return _window(np.cos(np.multiply.outer(t, np.pi * np.arange(len(weights)))) @ weights)


@python_function
def bartlett(M: Integer) -> Array:
    """The triangle 1 - abs(t) for M positions t from -1 to 1, shape (M,).

    M: how many numbers the window has, an integer that is known while tracing. Raises WeftTypeError
    if M is no integer that is known.

    >>> jnp.bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window(1 - np.abs(_positions(M)))


@python_function
def blackman(M: Integer) -> Array:
    """0.42 + 0.5 cos(πt) + 0.08 cos(2πt) for M positions t from -1 to 1 (Blackman and Tukey, 1958).

    M: how many numbers the window has, an integer that is known while tracing.

    >>> float(jnp.blackman(5)[2])
    1.0
    """
    return _cosines(M, 0.42, 0.5, 0.08)


@python_function
def hamming(M: Integer) -> Array:
    """0.54 + 0.46 cos(πt) for M positions t from -1 to 1.

    M: how many numbers the window has, an integer that is known while tracing.

    >>> jnp.hamming(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _cosines(M, 0.54, 0.46)


@python_function
def hanning(M: Integer) -> Array:
    """0.5 + 0.5 cos(πt) for M positions t from -1 to 1: von Hann's window.

    M: how many numbers the window has, an integer that is known while tracing.

    >>> jnp.hanning(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _cosines(M, 0.5, 0.5)


@array_function
def kaiser(M: Integer, beta: Operand) -> Array:
    """I0(beta sqrt(1 - t²)) / I0(beta) for M positions t from -1 to 1 (Kaiser and Schafer, 1980).

    M: how many numbers the window has, an integer that is known while tracing. beta: a real number,
    which may be traced and differentiated; 0 is a window of ones, and larger ones are narrower.
    Raises ShapeError if it has dimensions, DTypeError if it is complex.

    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    if beta.ndim:
        raise ShapeError("beta is one number", got=str(beta.type), wanted="()")
    if beta.dtype in dtypes.COMPLEX:
        raise DTypeError("beta is real", got=str(beta.type), wanted="a real number")
    dtype = dtypes.default_float()
    if not beta.type.weak_type and inexact(beta.dtype).itemsize > dtype.itemsize:
        dtype = inexact(beta.dtype)
    work = computing_dtype(dtype)
    t = _positions(M)
    root, beta = asarray(np.sqrt(1 - t * t), dtype=work), abs(beta.astype(work))
    # With exponentials taken out, no beta overflows.
    inner = root * beta
    return (bessel_i0e(inner) / bessel_i0e(beta) * exp(inner - beta)).astype(dtype)
