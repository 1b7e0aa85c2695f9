"""Attributes of StableHLO operations from plain Python values, each made once.

Attributes are unique within the process's one MLIR context, so all of these are cached by their
arguments. The forms are those of the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.runtime.stablehlo.mlir import context, element_type, unknown_location
from weft.runtime.stablehlo.mlir import stablehlo as hlo

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


@functools.lru_cache(maxsize=16384)
def _integers(values: tuple[int, ...]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(values, context=context())


def integers(values: Sequence[int]) -> ir.Attribute:
    """`array<i64: …>`: axes, sizes, strides.

    Args:
        values: The integers, of 64 bits each.
    """
    return _integers(tuple(values))


@functools.cache
def booleans(values: tuple[bool, ...]) -> ir.Attribute:
    """`array<i1: …>`."""
    return ir.DenseBoolArrayAttr.get(values, context=context())


@functools.lru_cache(maxsize=4096)
def integer(value: int, bits: int = 64) -> ir.Attribute:
    """`value : i64` (or another width)."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(bits, context()), value)


@functools.cache
def boolean(value: bool) -> ir.Attribute:
    """`true` or `false`.

    Args:
        value: The Python boolean.
    """
    return ir.BoolAttr.get(value, context())


@functools.cache
def unit() -> ir.Attribute:
    """The unit attribute, which has no value."""
    return ir.UnitAttr.get(context())


@functools.lru_cache(maxsize=4096)
def string(text: str) -> ir.Attribute:
    """A string attribute."""
    return ir.StringAttr.get(text, context())


@functools.lru_cache(maxsize=4096)
def symbol(name: str) -> ir.Attribute:
    """A reference to a function, `@name`."""
    return ir.FlatSymbolRefAttr.get(name, context())


@functools.lru_cache(maxsize=4096)
def table(rows: tuple[tuple[int, ...], ...], width: int) -> ir.Attribute:
    """`dense<[[…], …]> : tensor<n×width×i64>`: padding, replica groups, source and target pairs."""
    array = np.asarray(rows, np.int64).reshape(len(rows), width)
    return elements(array, array.shape)


# The values of StableHLO's enumerations. MLIR ends the process for one that it does not know.
_VALUES = {
    "ComparisonDirection": ("EQ", "NE", "LT", "LE", "GT", "GE"),
    "ComparisonType": ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    "FftType": ("FFT", "IFFT", "RFFT", "IRFFT"),
    "Precision": ("DEFAULT", "HIGH", "HIGHEST"),
    "RngDistribution": ("UNIFORM", "NORMAL"),
    "RngAlgorithm": ("DEFAULT", "THREE_FRY", "PHILOX"),
    "Transpose": ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
}


@functools.cache
def enum_value(kind: str, value: str) -> ir.Attribute:
    """A value of an enumeration of StableHLO. Raises WeftValueError for an unknown value."""
    known = _VALUES[kind]
    if value not in known:
        upper = str(value).upper()
        likely = upper if upper in known else known[0]
        message = f"there is no {kind} {value!r} in StableHLO"
        wanted = "one of " + ", ".join(map(repr, known))
        fix = Fix("choose", f"write {likely!r}, for example", {"value": likely})
        raise WeftValueError(message, operation=kind, got=repr(value), wanted=wanted, fix=fix)
    return getattr(hlo, f"{kind}Attr").get(value, context=context())


@functools.cache
def precision_config(left: str, right: str) -> ir.Attribute:
    """The precision of each operand of a product: DEFAULT, HIGH or HIGHEST."""
    return ir.ArrayAttr.get([enum_value("Precision", text) for text in (left, right)], context())


def elements(array: np.ndarray[Any, Any], shape: Sequence[int]) -> ir.Attribute:
    """`dense<…>`: the values of an array; a single element is broadcast to `shape`."""
    if array.size * array.itemsize <= 64:
        return _few_elements(array.tobytes(), array.shape, array.dtype, tuple(shape))
    return _elements(array, tuple(shape))


@functools.lru_cache(maxsize=16384)
def _few_elements(
    data: bytes, own_shape: tuple[int, ...], dtype: np.dtype[Any], shape: tuple[int, ...]
) -> ir.Attribute:
    return _elements(np.frombuffer(data, dtype).reshape(own_shape), shape)


def _elements(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> ir.Attribute:
    element = element_type(array.dtype)
    flat = np.ascontiguousarray(array).reshape(-1)
    # MLIR copies the bytes; only booleans are told apart by the format of the buffer.
    data = flat if flat.dtype == np.bool_ else flat.view(np.uint8)
    with unknown_location():
        return ir.DenseElementsAttr.get(data, type=element, shape=shape)


def to_attribute(value: Any) -> ir.Attribute:
    """A Python value as an attribute: bool, int (i64), float (f64), str, NumPy scalar (its own
    type), a sequence, or a mapping with names as keys.

    NumPy arrays become arrays of their own element type. An attribute passes unchanged. Raises
    WeftTypeError for anything else.

    Args:
        value: The Python value, or an attribute.
    """
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, (bool, np.bool_)):
        return boolean(bool(value))
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return ir.FloatAttr.get(element_type(np.float64), value, unknown_location())
    if isinstance(value, str):
        return string(value)
    if isinstance(value, np.generic):
        return _numpy_scalar(value)
    if isinstance(value, np.ndarray):
        return elements(value, value.shape)
    if isinstance(value, Mapping):
        return dictionary(value)
    if isinstance(value, Sequence):
        return ir.ArrayAttr.get([to_attribute(entry) for entry in value], context())
    message = "this value cannot be an attribute of an operation"
    wanted = "a bool, int, float, str, NumPy scalar or array, or a sequence or mapping of those"
    raise WeftTypeError(
        message, operation=None, got=f"{type(value).__name__}: {value!r}", wanted=wanted
    )


def _numpy_scalar(value: np.generic[Any]) -> ir.Attribute:
    element = element_type(value.dtype)
    if value.dtype.kind in "iu":
        number = int(value)
        # The constructor takes the bits as a signed number of 64 bits.
        return ir.IntegerAttr.get(element, number - 2**64 if number >= 2**63 else number)
    if value.dtype.kind == "c":
        raise WeftTypeError("a complex number cannot be an attribute", got=repr(value))
    return ir.FloatAttr.get(element, float(value), unknown_location())


def dictionary(values: Mapping[str, Any]) -> ir.Attribute:
    """A dictionary attribute."""
    entries = {key: to_attribute(value) for key, value in values.items()}
    return ir.DictAttr.get(entries, context())


def dense_value(value: Any, dtype: DTypeLike | None) -> np.ndarray[Any, Any]:
    """The array of a constant: `value`, or one element if all are equal by broadcasting."""
    array = np.asarray(value, dtype)
    if array.size > 1 and not any(array.strides):
        array = array[(0,) * array.ndim]
        return np.asarray(array)
    return array
