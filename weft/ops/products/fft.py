"""Discrete Fourier transforms over the last dimensions.

One primitive for the four kinds that StableHLO has. The inverse kinds divide by the number of
elements; other normalizations are left to the caller.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from math import prod
from typing import Any

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.jaxpr import Equation
from weft.core.primitive import Work
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, api_boundary
from weft.errors.argument_errors import invalid_type, invalid_value, unknown_option
from weft.ops.declare import linear_primitive, result_type
from weft.ops.elementwise.arithmetic import eq, mul, scalar
from weft.ops.elementwise.bits import bitwise_or
from weft.ops.elementwise.complex import conj, real
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full_like
from weft.ops.indexing.slicing import pad
from weft.ops.operand_errors import to_dtype
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo
from weft.typing import ArrayLike


class FftType(enum.IntEnum):
    """The kinds of transforms: complex, inverse complex, real, and inverse real."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_REAL = frozenset({dtypes.float32, dtypes.float64})
_COMPLEX = frozenset({dtypes.complex64, dtypes.complex128})
_MOST_DIMENSIONS = 3


@api_boundary
def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The Fourier transform over the last dimensions, one for each of `fft_lengths`: 1, 2 or 3.

    fft_type: an `FftType` or its name. "FFT" and "IFFT" take complex64 or complex128 and keep type
    and shape; "RFFT" takes float32 or float64, and gives the n // 2 + 1 first frequencies of a last
    dimension of length n; "IRFFT" undoes that, for a last dimension of fft_lengths[-1] // 2 + 1.
    Under the setting `argument_rule="jax"`, real numbers become complex if a kind of transform
    takes these. The inverse kinds divide by the product of the lengths. In XLA's transforms errors
    grow with the logarithm of the lengths (J. W. Cooley and J. W. Tukey, 1965).

    fft_lengths: the lengths of the transforms along the last dimensions, one to three.

    Raises DTypeError for other dtypes, ShapeError for lengths that are not those of the operand,
    WeftValueError for a length below 1 and another number of lengths.

    >>> import numpy as np
    >>> fft(np.array([1.0, 2.0, 3.0, 4.0], np.float32), "RFFT", (4,))
    Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = _kind(fft_type)
    if kind != "RFFT" and config.lenient():
        of = type_of(x)
        if of.dtype not in dtypes.COMPLEX:
            x = convert_element_type(x, dtypes.to_complex(of.dtype))
    return fft_p.bind(x, kind=kind, lengths=_lengths(fft_lengths))


def _kind(fft_type: Any) -> str:
    """The name of a kind of transform."""
    if isinstance(fft_type, FftType):
        return fft_type.name
    if isinstance(fft_type, str) and fft_type.upper() in FftType.__members__:
        return fft_type.upper()
    wanted, noun = '"FFT", "IFFT", "RFFT" or "IRFFT"', "transform of the kind"
    raise unknown_option("fft", "fft_type", fft_type, wanted, use="FFT", noun=noun)


def _lengths(fft_lengths: Any) -> tuple[int, ...]:
    fix = Fix("fft_lengths", "pass fft_lengths=x.shape[-1:]")
    try:
        out = tuple(n.__index__() for n in fft_lengths)
    except (TypeError, AttributeError):
        message = "fft: the lengths are integers"
        wanted = "a sequence of integers that are known while tracing"
        raise invalid_type(message, "fft", "fft_lengths", fft_lengths, wanted, fix=fix) from None
    if not 1 <= len(out) <= _MOST_DIMENSIONS or min(out) < 1:
        message = "fft takes one to three lengths, of 1 or more"
        wanted = "one to three lengths, of 1 or more; weft.numpy.fft.fftn takes any number"
        raise invalid_value(message, "fft", "fft_lengths", out, wanted, fix=fix)
    return out


# ---- rules -------------------------------------------------------------------------------------


def fft_type(x: ArrayType, *, kind: str, lengths: tuple[int, ...]) -> ArrayType:
    accepted = _REAL if kind == "RFFT" else _COMPLEX
    if x.dtype not in accepted:
        names = " or ".join(sorted(dtype.name for dtype in accepted))
        wanted = dtypes.float32 if kind == "RFFT" else dtypes.complex64
        raise DTypeError(
            f"fft: the transform {kind} does not take {dtypes.short_name(x.dtype)}",
            got=str(x),
            wanted=names,
            fix=to_dtype("x", x.dtype, wanted),
        )
    last = lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]
    given = x.shape[-len(lengths) :]
    if given != (*lengths[:-1], last):
        found = given if kind != "IRFFT" or not given else (*given[:-1], 2 * given[-1] - 2)
        raise ShapeError(
            f"fft: the lengths of {kind} are not those of the operand",
            got=f"{x}, fft_lengths={lengths}",
            wanted=f"last dimensions {(*lengths[:-1], last)}",
            fix=Fix("pad", f"pad or slice the operand to them, or pass fft_lengths={found}"),
        )
    if kind == "RFFT":
        return result_type((x,), (*x.shape[:-1], last // 2 + 1), dtypes.to_complex(x.dtype))
    if kind == "IRFFT":
        return result_type((x,), (*x.shape[:-1], lengths[-1]), dtypes.to_real(x.dtype))
    return result_type((x,), x.shape, x.dtype)


def fft_transpose(ct: Any, x: Any, *, kind: str, lengths: tuple[int, ...]) -> list[Any]:
    """The transposed matrix: for the complex kinds the matrix itself, which is symmetric."""
    if kind == "RFFT":
        if len(lengths) == 1:
            # The real part of a sum over the frequencies that are given. IRFFT takes the conjugate,
            # and reads most frequencies twice. (In more dimensions it assumes symmetry.)
            each = mul(conj(ct), _times_read(type_of(ct), lengths, inverted=True))
            return [fft_p.bind(each, kind="IRFFT", lengths=lengths)]
        # The frequencies that a real transform does not give contribute nothing.
        missing = lengths[-1] - (lengths[-1] // 2 + 1)
        padding = [(0, 0, 0)] * (type_of(ct).ndim - 1) + [(0, missing, 0)]
        full = pad(ct, scalar(0, ct), padding)
        return [real(fft_p.bind(full, kind="FFT", lengths=lengths))]
    if kind == "IRFFT":
        forward = conj(fft_p.bind(ct, kind="RFFT", lengths=lengths))
        return [mul(forward, _times_read(type_of(forward), lengths))]
    return [fft_p.bind(ct, kind=kind, lengths=lengths)]


def _times_read(frequencies: ArrayType, lengths: tuple[int, ...], *, inverted: bool = False) -> Any:
    """The number of times that IRFFT uses a frequency, over the number of elements: once if it is
    its own conjugate, else twice. `inverted` is 1 over that."""
    column = broadcasted_iota(dtypes.int32, frequencies.shape, frequencies.ndim - 1)
    own = eq(column, dtypes.int32.type(0))
    if lengths[-1] % 2 == 0:
        own = bitwise_or(own, eq(column, dtypes.int32.type(lengths[-1] // 2)))
    size = prod(lengths)
    once, twice = (
        full_like(column, number, frequencies.dtype, frequencies.shape)
        for number in ((float(size), size / 2) if inverted else (1 / size, 2 / size))
    )
    return select(own, once, twice)


def fft_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[Any, int]:
    (x,), (dim,) = args, dims
    assert dim is not None
    if dim >= type_of(x).ndim - len(params["lengths"]):
        x, dim = move_dim(x, dim, 0, axis.size), 0
    return fft_p.bind(x, **params), dim


def fft_lower(context: Any, x: Any, *, kind: str, lengths: tuple[int, ...]) -> Any:
    of = context.out_types[0]
    if 0 in of.shape:  # XLA's transform refuses empty batches.
        return stablehlo.full(0, of.shape, of.dtype)
    return stablehlo.fft(x, kind, lengths)


def _of_transform(eqn: Equation) -> Work:
    """5 n log2 n, half of it for real numbers (Van Loan, Computational Frameworks for the Fast
    Fourier Transform, section 1.4)."""
    of = max((eqn.inputs[0].type, eqn.outputs[0].type), key=lambda t: t.size)
    lengths, real = eqn.params["lengths"], eqn.params["kind"] in ("RFFT", "IRFFT")
    batch, n = prod(of.shape[: of.ndim - len(lengths)]), prod(lengths)
    return Work((2.5 if real else 5.0) * batch * n * math.log2(max(n, 2)))


fft_p = linear_primitive(
    "fft",
    type_rule=fft_type,
    transpose=fft_transpose,
    vmap=fft_vmap,
    lower=fft_lower,
    linear=True,
    flops=_of_transform,
)
