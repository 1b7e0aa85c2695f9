"""Dtypes under public names, and functions about dtypes and promotion.

Called, a name makes an array; it compares equal to NumPy's dtype.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.base.exact_keys import ConstantClass
from weft.dtypes import finfo, iinfo, issubdtype, result_type
from weft.errors import DTypeError
from weft.errors.argument_errors import invalid_value
from weft.numpy.creation import array

__all__ = [
    "bfloat16", "bool", "bool_", "can_cast", "cdouble", "character", "complex64", "complex128",
    "complex_", "complexfloating", "csingle", "double", "dtype", "finfo", "flexible",
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float16", "float32",
    "float64", "float_", "floating", "generic", "half", "iinfo", "inexact", "int2", "int4", "int8",
    "int16", "int32", "int64", "int_", "integer", "isdtype", "issubdtype", "number", "object_",
    "promote_types", "result_type", "signedinteger", "single", "uint", "uint2", "uint4", "uint8",
    "uint16", "uint32", "uint64", "unsignedinteger",
]  # fmt: skip

_NUMBERS = (int, float, complex)
_PYTHON = (bool, *_NUMBERS)  # `bool` is a dtype of this module.


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype to which arrays of dtypes `a` and `b` are promoted.

    `int`, `float` and `complex` stand for Python numbers, which are weakly typed. Raises DTypeError
    if arrays of the two do not meet (see the setting `numpy_dtype_promotion`).

    >>> jnp.promote_types("int32", "float16"), jnp.promote_types("int8", int)
    (dtype('float16'), dtype('int8'))
    """
    # By identity: a dtype may be equal to the class whose numbers have it.
    pairs = [(dtypes.parse(x), any(x is kind for kind in _NUMBERS)) for x in (a, b)]
    return dtypes.promote(*pairs)[0]


class ScalarType(ConstantClass):
    """The class of the dtypes under their public names, which are classes themselves: as those of
    NumPy they may be called, and make an array, and classes may derive from them.

    >>> float32(3)
    Array(3., dtype=float32)
    >>> np.dtype(float32), float32 == np.float32
    (dtype('float32'), True)
    """

    _dtype: Any

    @property
    def dtype(cls) -> Any:
        """The NumPy dtype."""
        return cls._dtype

    def __call__(cls, x: Any) -> Array:
        return array(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> Any:
        if any(other is kind for kind in _PYTHON):
            return False  # A class of Python's, whose dtype is that of the settings.
        try:
            return dtypes.parse(other) == cls.dtype
        except DTypeError:
            return NotImplemented

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, value: object) -> Any:
        return isinstance(value, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"{cls.__module__}.{cls.__qualname__}"


class DefaultScalarType(ScalarType):
    """A dtype without a width in its name: 32 bits, or 64 with `enable_x64`."""

    _dtype: Callable[[], Any]

    @property
    def dtype(cls) -> Any:
        """The NumPy dtype under the settings in force."""
        return cls._dtype()


def _make_scalar_type(kind: type[ScalarType], name: str, dtype: Any) -> ScalarType:
    doc = f"Called, it makes an array of dtype {name}."
    return kind(name, (), {"__module__": "weft.numpy", "__doc__": doc, "_dtype": dtype})


def _scalar(name: str) -> ScalarType:
    dtype = dtypes.parse(name.rstrip("_"))
    return _make_scalar_type(ScalarType, dtype.name, dtype)


bool_ = _scalar("bool_")
int8 = _scalar("int8")
int16 = _scalar("int16")
int32 = _scalar("int32")
int64 = _scalar("int64")
uint8 = _scalar("uint8")
uint16 = _scalar("uint16")
uint32 = _scalar("uint32")
uint64 = _scalar("uint64")
float16 = _scalar("float16")
bfloat16 = _scalar("bfloat16")
float32 = _scalar("float32")
float64 = _scalar("float64")
complex64 = _scalar("complex64")
complex128 = _scalar("complex128")
int2 = _scalar("int2")
int4 = _scalar("int4")
uint2 = _scalar("uint2")
uint4 = _scalar("uint4")
float4_e2m1fn = _scalar("float4_e2m1fn")
float6_e2m3fn = _scalar("float6_e2m3fn")
float6_e3m2fn = _scalar("float6_e3m2fn")
float8_e3m4 = _scalar("float8_e3m4")
float8_e4m3 = _scalar("float8_e4m3")
float8_e4m3b11fnuz = _scalar("float8_e4m3b11fnuz")
float8_e4m3fn = _scalar("float8_e4m3fn")
float8_e4m3fnuz = _scalar("float8_e4m3fnuz")
float8_e5m2 = _scalar("float8_e5m2")
float8_e5m2fnuz = _scalar("float8_e5m2fnuz")
float8_e8m0fnu = _scalar("float8_e8m0fnu")

bool = bool_
half = float16
single = float32
double = float64
csingle = complex64
cdouble = complex128
int_ = _make_scalar_type(DefaultScalarType, "int_", dtypes.default_int)
uint = _make_scalar_type(DefaultScalarType, "uint", dtypes.default_uint)
float_ = _make_scalar_type(DefaultScalarType, "float_", dtypes.default_float)
complex_ = _make_scalar_type(DefaultScalarType, "complex_", dtypes.default_complex)

# NumPy's abstract classes, as `issubdtype` takes them.
character = np.character
complexfloating = np.complexfloating
flexible = np.flexible
floating = np.floating
generic = np.generic
inexact = np.inexact
integer = np.integer
number = np.number
object_ = np.object_
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
dtype = np.dtype


def can_cast(from_: Any, to: Any, casting: str = "safe") -> builtins.bool:
    """Whether NumPy would convert one dtype to another under a rule of casting.

    from_, to: dtypes or their names; casting: "safe" (to a dtype that is wide enough), "same_kind"
    (also to fewer bits), "unsafe" (anything), or "no" and "equiv" (the same dtype only).

    >>> can_cast("int8", "int16"), can_cast("float32", "int32")
    (True, False)
    """
    return np.can_cast(dtypes.parse(from_), dtypes.parse(to), casting=casting)  # type: ignore[arg-type]


_KINDS: dict[str, Any] = {
    "bool": dtypes.is_boolean,
    "signed integer": dtypes.is_signed,
    "unsigned integer": dtypes.is_unsigned,
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_floating,
    "complex floating": dtypes.is_complex,
    "numeric": dtypes.is_numeric,
}


_NAMES = frozenset(d.name for d in dtypes.ANY | dtypes.NARROW)


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind: a kind of the Array API by name, a dtype, or a tuple of those.

    kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
    floating" or "numeric", a dtype, or a tuple of which one has to fit.

    >>> isdtype(np.dtype("int8"), "integral"), isdtype(np.dtype("int8"), ("bool", "real floating"))
    (True, False)
    """
    if dtype is builtins.object and config.lenient():
        return False
    if dtype is None and config.lenient():
        dtype = np.float64  # what None means to NumPy
    parsed = dtypes.parse(dtype)
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, str) and one in _KINDS:
            if _KINDS[one](parsed):
                return True
        elif isinstance(one, str) and one not in _NAMES:
            message = f"isdtype knows no kind {one!r:.40}"
            wanted = f"{', '.join(map(repr, _KINDS))}, a dtype, or a tuple of those"
            raise invalid_value(message, "isdtype", "kind", one, wanted)
        elif dtypes.parse(one) == parsed:
            return True
    return False
