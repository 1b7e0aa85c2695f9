"""Conversions of dtype by value, by bits and by rounding; and `stop_gradient`.

`beside_float64` is the rule for values of 64 bits that ask for no dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array, put
from weft.arrays.conversion import WIDE, pass_through, scalar_array
from weft.arrays.host_values import cast_values
from weft.core.access_pattern import elementwise_reads
from weft.core.primitive import Primitive
from weft.core.rules import Values, Zero
from weft.core.trace import current_variable
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.families import floating, unary
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["bitcast_convert_type", "convert_element_type", "reduce_precision", "stop_gradient"]

T = TypeVar("T")

_trace = current_variable.get
_HOST = (float, complex, np.ndarray, np.generic)
_UNSIGNED = {2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
_CONVERTIBLE = dtypes.ANY | dtypes.NARROW


def convert_element_type(operand: Any, new_dtype: Any, weak_type: bool = False) -> Array:
    """Converts numbers to another dtype, as nearly as it can hold them.

    Complex numbers lose their imaginary part in a real dtype; numbers become booleans by comparing
    with zero; floating-point numbers are rounded towards zero in an integer dtype, and to the
    nearest end of its range if they do not fit. `weak_type` says whether the result is of weak
    type. Raises DTypeError for random keys.

    new_dtype: the dtype of the result.

    >>> import weft.lax as lax
    >>> lax.convert_element_type(2.7, "int32")
    Array(2, dtype=int32)
    """
    if not isinstance(new_dtype, np.dtype):
        new_dtype = dtypes.parse(new_dtype)
    found = getattr(operand, "type", None)
    if type(found) is ArrayType and found.dtype == new_dtype and found.weak_type == weak_type:
        return operand
    if isinstance(operand, _HOST) and new_dtype in _CONVERTIBLE and _has_64_bits(operand):
        # At once: on the way, the default width would round it, or not hold it.
        values = cast_values(_native(operand), new_dtype)
        operand = put(values, ArrayType(values.shape, new_dtype)) if values.shape else values[()]
    if type(operand) is int and not dtypes.fits(operand, dtypes.default_int()):
        # Not by way of the default width, which does not hold it.
        if new_dtype in dtypes.INTEGER and dtypes.keeps_low_bits():
            operand = dtypes.low_bits(operand, new_dtype)
        elif new_dtype in dtypes.NUMERIC:
            operand = dtypes.number(operand, new_dtype, "dtype")
    return convert_element_type_p.bind(operand, new_dtype=new_dtype, weak_type=weak_type)


def beside_float64(leaves: Sequence[Any]) -> Sequence[Any]:
    """Keeps the 64 bits of NumPy values and Python numbers beside a float64 or complex128 array.
    Operands of every operation take the width of what they meet. Without such an array the leaves
    stay as they are."""
    for x in leaves:
        if type(x) is not Array:
            break
    else:
        return leaves
    if not any(_dtype_of(x) in WIDE for x in leaves) or config.settings().enable_x64:
        return leaves
    eager = _trace(None) is None
    return [_exactly(x, eager) if isinstance(x, _HOST) and _is_wide(x) else x for x in leaves]


def _dtype_of(leaf: Any) -> Any:
    """The dtype of an array; None for values of NumPy and Python."""
    return None if isinstance(leaf, _HOST) else getattr(leaf, "dtype", None)


def _is_wide(value: Any) -> bool:
    return not isinstance(value, (np.ndarray, np.generic)) or (
        (value.dtype.kind, value.dtype.itemsize) in (("f", 8), ("c", 16))  # of either byte order
    )


def _has_64_bits(value: Any) -> bool:
    return _is_wide(value) or (value.dtype.kind in "iu" and value.dtype.itemsize == 8)


def _native(value: Any) -> np.ndarray[Any, Any]:
    """A value as a NumPy array of the machine's byte order."""
    check_unmasked(value)
    found = np.asarray(value)
    return np.asarray(found, found.dtype.newbyteorder("="))


def _exactly(value: Any, eager: bool) -> Any:
    """A 64-bit value as a 64-bit array; Python numbers stay weakly typed."""
    values = _native(value)
    weak = not isinstance(value, (np.ndarray, np.generic))
    of = ArrayType(values.shape, values.dtype, weak)
    if values.shape:
        return put(values, of)
    if eager:
        return scalar_array(values[()], of)
    # A literal of the program.
    return convert_element_type_p.bind(values[()], new_dtype=of.dtype, weak_type=weak)


def convert_element_type_type(x: ArrayType, *, new_dtype: Any, weak_type: bool) -> ArrayType:
    if x.dtype not in _CONVERTIBLE or new_dtype not in _CONVERTIBLE:
        message = (
            f"convert_element_type does not convert {dtypes.short_name(x.dtype)} to "
            f"{dtypes.short_name(new_dtype)}"
        )
        got, wanted = f"{x} to {dtypes.short_name(new_dtype)}", "numbers or booleans"
        fix = Fix("key_data", "weft.random.key_data gives the bits of random keys")
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return result_type((x,), x.shape, new_dtype, weak_type)


def convert_element_type_jvp(
    primals: Values, tangents: Values, *, new_dtype: Any, weak_type: bool
) -> tuple[Any, Any]:
    out = convert_element_type(primals[0], new_dtype, weak_type)
    tangent_type = type_of(out).tangent()
    if type(tangents[0]) is Zero or tangent_type.dtype == dtypes.float0:
        return out, Zero(tangent_type)
    return out, convert_element_type(tangents[0], tangent_type.dtype, weak_type)


def convert_element_type_lower(context: Any, x: Any, *, new_dtype: Any, weak_type: bool) -> Any:
    type = context.in_types[0]
    if new_dtype == dtypes.bool_ and type.dtype != dtypes.bool_:
        return _is_not_zero(x, type.shape, type.dtype)
    if type.dtype in dtypes.COMPLEX and new_dtype not in dtypes.COMPLEX:
        x = stablehlo.real(x)
    elif new_dtype in dtypes.COMPLEX and type.dtype not in dtypes.COMPLEX:
        part = stablehlo.convert(x, dtypes.to_real(new_dtype))
        zero = stablehlo.full(0, type.shape, dtypes.to_real(new_dtype))
        return stablehlo.complex_(part, zero)
    return stablehlo.convert(x, new_dtype)


def _is_not_zero(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    if dtype in dtypes.COMPLEX:
        part = dtypes.to_real(dtype)
        real, imag = (take(x) for take in (stablehlo.real, stablehlo.imag))
        return stablehlo.or_(_is_not_zero(real, shape, part), _is_not_zero(imag, shape, part))
    if dtype in dtypes.FLOATING:
        # By bits, without the sign: CPUs are set to take subnormal numbers for zero.
        dtype = _UNSIGNED[dtype.itemsize]
        bits = stablehlo.bitcast_convert(x, dtype)
        x = stablehlo.shift_left(bits, stablehlo.full(1, shape, dtype))
    elif dtype in dtypes.NARROW_INTEGER:  # which XLA does not compare
        dtype = dtypes.int32
        x = stablehlo.convert(x, dtype)
    return stablehlo.compare(x, stablehlo.full(0, shape, dtype), "NE")


convert_element_type_p: Primitive = primitive(
    "convert_element_type",
    type_rule=convert_element_type_type,
    jvp=convert_element_type_jvp,
    transpose=lambda ct, x, **to: [convert_element_type(ct, x.type.dtype, x.type.weak_type)],
    vmap=lambda axis, args, dims, **to: (convert_element_type_p.bind(*args, **to), dims[0]),
    reads=elementwise_reads,
    lower=convert_element_type_lower,
    cheap=True,
    linear=True,
    keeps_zero=True,
    makes_no_nan=True,
    wide_cotangents=True,
    flops="none",
    fusible=True,
)


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The same bits read as another dtype.

    Where the new dtype is k times narrower, a last dimension of length k appears (the least
    significant part first); where it is k times wider, the last dimension, of length k, disappears.
    Raises DTypeError for booleans and complex numbers, ShapeError for a last dimension that does
    not fit.

    new_dtype: the dtype of the result.

    >>> import weft.lax as lax
    >>> lax.bitcast_convert_type(1.0, "uint32")
    Array(1065353216, dtype=uint32)
    """
    if not isinstance(new_dtype, np.dtype):
        new_dtype = dtypes.parse(new_dtype)
    return bitcast_convert_type_p.bind(operand, new_dtype=new_dtype)


_BITS = dtypes.REAL | dtypes.NARROW


def bitcast_convert_type_type(x: ArrayType, *, new_dtype: Any) -> ArrayType:
    if (x.dtype not in _BITS or new_dtype not in _BITS) and x.dtype != new_dtype:
        raise DTypeError(
            f"bitcast_convert_type does not read {dtypes.short_name(x.dtype)} as "
            f"{dtypes.short_name(new_dtype)}",
            got=f"{x} as {dtypes.short_name(new_dtype)}",
            wanted="integer and real floating-point dtypes",
        )
    old, new = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new_dtype)
    shape = x.shape
    if new < old:
        shape = (*shape, old // new)
    elif new > old:
        if not shape or shape[-1] != new // old:
            raise ShapeError(
                f"bitcast_convert_type to a wider dtype takes a last dimension of {new // old}",
                got=f"{x} as {dtypes.short_name(new_dtype)}",
                wanted=f"a last dimension of length {new // old}",
            )
        shape = shape[:-1]
    return result_type((x,), shape, new_dtype)


def bitcast_convert_type_jvp(
    primals: Values, tangents: Values, *, new_dtype: Any
) -> tuple[Any, Any]:
    out = bitcast_convert_type(primals[0], new_dtype)
    return out, Zero(type_of(out).tangent())


bitcast_convert_type_p = primitive(
    "bitcast_convert_type",
    type_rule=bitcast_convert_type_type,
    jvp=bitcast_convert_type_jvp,
    vmap=lambda axis, args, dims, *, new_dtype: (
        bitcast_convert_type(move_dim(args[0], dims[0], 0, axis.size), new_dtype),
        0,
    ),
    lower=lambda context, x, *, new_dtype: (
        x if context.in_types[0].dtype == new_dtype else stablehlo.bitcast_convert(x, new_dtype)
    ),
    makes_no_nan=True,
    flops="none",
)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Rounds to the numbers of a narrower floating-point format, keeping the dtype.

    Derivatives are rounded likewise. Raises WeftValueError if a number of bits is out of range.

    exponent_bits: the number of bits of the exponent in that format, at least 1; mantissa_bits: the
    number of bits of the fraction in that format, from 0.

    >>> import weft.lax as lax
    >>> lax.reduce_precision(3.14159, exponent_bits=5, mantissa_bits=3)
    Array(3.25, dtype=float32, weak_type=True)
    """
    exponent_bits = integer_of(exponent_bits, "exponent_bits", "reduce_precision")
    mantissa_bits = integer_of(mantissa_bits, "mantissa_bits", "reduce_precision")
    if exponent_bits < 1 or mantissa_bits < 0:
        message = "reduce_precision takes at least one exponent bit and no negative number of bits"
        got = f"exponent_bits={exponent_bits}, mantissa_bits={mantissa_bits}"
        wanted = "exponent_bits >= 1 and mantissa_bits >= 0"
        raise WeftValueError(message, operation="reduce_precision", got=got, wanted=wanted)
    return reduce_precision_p.bind(
        operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )


def reduce_precision_lower(context: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    return stablehlo.reduce_precision(x, exponent_bits, mantissa_bits)


reduce_precision_p = floating(
    "reduce_precision",
    jvp=lambda t, ans, x, **bits: reduce_precision(t, **bits),
    transpose=lambda ct, x, **bits: reduce_precision(ct, **bits),
    lower=reduce_precision_lower,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    flops="none",
)


def stop_gradient(x: T) -> T:
    """The values of a tree of arrays, constant to every derivative.

    >>> import weft, weft.lax as lax
    >>> weft.grad(lambda x: lax.mul(x, lax.stop_gradient(x)))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return tree.map(
        lambda leaf: (
            stop_gradient_p.bind(leaf)
            if type_of(leaf).dtype in dtypes.INEXACT
            else pass_through(leaf)
        ),
        x,
    )


stop_gradient_p = unary(
    "stop_gradient",
    accepts=dtypes.INEXACT,
    lower=lambda context, x: x,
    cheap=True,
    keeps_zero=True,
    keeps_sums=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    moves_nothing=True,
)
