"""Complex numbers and their parts.

Derivatives follow the convention that complex numbers are pairs of reals and that a cotangent ct
pairs with a tangent t as Re(ct t), without conjugation: so `real` transposes to the complex number
with that real part, and `imag` to minus i times it.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.families import apply, binary, emit_with, unary
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["complex", "conj", "imag", "real"]


def _zero(x: Any) -> Any:
    return type_of(x).dtype.type(0)


def real(x: ArrayLike) -> Array:
    """Elementwise real part of complex numbers.

    >>> lax.real(np.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    return real_p.bind(x)


real_p = unary(
    "real",
    accepts=dtypes.COMPLEX,
    jvp=lambda t, ans, x: real(t),
    transpose=lambda ct, x: complex(ct, _zero(ct)),
    lower=emit_with(stablehlo.real),
    result_dtype=dtypes.to_real,
    cheap=True,
    linear=True,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    flops="none",
)


def imag(x: ArrayLike) -> Array:
    """Elementwise imaginary part of complex numbers, as real ones.

    >>> lax.imag(np.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    return imag_p.bind(x)


imag_p = unary(
    "imag",
    accepts=dtypes.COMPLEX,
    jvp=lambda t, ans, x: imag(t),
    transpose=lambda ct, x: conj(complex(_zero(ct), ct)),
    lower=emit_with(stablehlo.imag),
    result_dtype=dtypes.to_real,
    cheap=True,
    linear=True,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    flops="none",
)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """Elementwise complex number x + iy from two arrays of float32 or float64.

    >>> lax.complex(np.array([1.0]), np.array([2.0]))
    Array([1.+2.j], dtype=complex64)
    """
    return apply(complex_p, x, y)


complex_p = binary(
    "complex",
    accepts=frozenset({dtypes.float32, dtypes.float64}),
    jvp=(lambda t, ans, x, y: complex(t, _zero(t)), lambda t, ans, x, y: complex(_zero(t), t)),
    transpose=(lambda ct, x, y: real(ct), lambda ct, x, y: imag(conj(ct))),
    lower=emit_with(stablehlo.complex_),
    result_dtype=dtypes.to_complex,
    cheap=True,
    linear=True,
    makes_no_nan=True,
    flops="none",
)


def conj(x: ArrayLike) -> Array:
    """Elementwise complex conjugate; real numbers become complex ones.

    >>> import weft.lax as lax
    >>> lax.conj(1 + 2j)
    Array(1.-2.j, dtype=complex64, weak_type=True)
    """
    type = type_of(x)
    if type.dtype in dtypes.FLOATING:
        return convert_element_type(x, dtypes.to_complex(type.dtype), type.weak_type)
    return conj_p.bind(x)


conj_p = unary(
    "conj",
    accepts=dtypes.COMPLEX,
    jvp=lambda t, ans, x: conj(t),
    transpose=lambda ct, x: conj(ct),
    lower=emit_with(
        lambda x: stablehlo.complex_(stablehlo.real(x), stablehlo.negate(stablehlo.imag(x)))
    ),
    cheap=True,
    linear=True,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    flops="none",
)
