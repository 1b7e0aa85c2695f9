"""The dtypes that arrays have, by kind: what `weft.dtypes` shows and says more about."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from weft.errors import DTypeError

# A NumPy dtype, or an extended dtype, of which this module uses only `short_name`.
DType: TypeAlias = Any
_NumPy: TypeAlias = np.dtype[Any]
_Set: TypeAlias = frozenset[_NumPy]

bool_: _NumPy = np.dtype(np.bool_)
int8: _NumPy = np.dtype(np.int8)
int16: _NumPy = np.dtype(np.int16)
int32: _NumPy = np.dtype(np.int32)
int64: _NumPy = np.dtype(np.int64)
uint8: _NumPy = np.dtype(np.uint8)
uint16: _NumPy = np.dtype(np.uint16)
uint32: _NumPy = np.dtype(np.uint32)
uint64: _NumPy = np.dtype(np.uint64)
float16: _NumPy = np.dtype(np.float16)
bfloat16: _NumPy = np.dtype(ml_dtypes.bfloat16)
float32: _NumPy = np.dtype(np.float32)
float64: _NumPy = np.dtype(np.float64)
complex64: _NumPy = np.dtype(np.complex64)
complex128: _NumPy = np.dtype(np.complex128)
# The dtype of tangents of values without derivatives; it holds no bits.
float0: _NumPy = np.dtype([("float0", np.void, 0)])

BOOLEAN: _Set = frozenset({bool_})
SIGNED: _Set = frozenset({int8, int16, int32, int64})
UNSIGNED: _Set = frozenset({uint8, uint16, uint32, uint64})
INTEGER: _Set = SIGNED | UNSIGNED
FLOATING: _Set = frozenset({float16, bfloat16, float32, float64})
COMPLEX: _Set = frozenset({complex64, complex128})
INEXACT: _Set = FLOATING | COMPLEX
NUMERIC: _Set = INTEGER | INEXACT
REAL: _Set = INTEGER | FLOATING
ORDERED: _Set = REAL | BOOLEAN
BITS: _Set = INTEGER | BOOLEAN
ANY: _Set = NUMERIC | BOOLEAN

# The types of few bits: arithmetic is done in wider ones (see `weft.ops.structural.narrow`).
NARROW_NAMES = {
    name: name.replace("float", "f").replace("uint", "u").replace("int", "i")
    for name in (
        "int2 uint2 int4 uint4 float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz "
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
    ).split()
}
_narrow_integers: dict[str, _NumPy] = {}
_narrow_floats: dict[str, _NumPy] = {}
for _name in NARROW_NAMES:
    if hasattr(ml_dtypes, _name):
        _group = _narrow_integers if "int" in _name else _narrow_floats
        _group[_name] = np.dtype(getattr(ml_dtypes, _name))
NARROW_INTEGER: _Set = frozenset(_narrow_integers.values())
NARROW_FLOATING: _Set = frozenset(_narrow_floats.values())
NARROW: _Set = NARROW_INTEGER | NARROW_FLOATING

# Types of which programs may speak, though no runtime here holds arrays of them.
UNSTORED: dict[Any, str] = {
    np.dtype(ml_dtypes.float6_e2m3fn): "f6_e2m3fn",
    np.dtype(ml_dtypes.float6_e3m2fn): "f6_e3m2fn",
}

BY_NAME: dict[str, _NumPy] = {
    **{dtype.name: dtype for dtype in UNSTORED},
    **{dtype.name: dtype for dtype in ANY},
    **_narrow_integers,
    **_narrow_floats,
    "float0": float0,
}

SHORT: dict[Any, str] = {
    bool_: "bool",
    bfloat16: "bf16",
    float0: "float0",
    **{dtype: f"i{8 * dtype.itemsize}" for dtype in SIGNED},
    **{dtype: f"u{8 * dtype.itemsize}" for dtype in UNSIGNED},
    **{dtype: f"f{8 * dtype.itemsize}" for dtype in FLOATING - {bfloat16}},
    **{dtype: f"c{8 * dtype.itemsize}" for dtype in COMPLEX},
    **{dtype: NARROW_NAMES[dtype.name] for dtype in NARROW},
    **UNSTORED,
}


# Predicates and names


def is_extended(dtype: DType) -> bool:
    """Whether this is not a NumPy dtype, such as the dtype of random keys."""
    return not isinstance(dtype, np.dtype)


def is_boolean(dtype: DType) -> bool:
    """Whether the values are False and True."""
    return dtype in BOOLEAN


def is_signed(dtype: DType) -> bool:
    """Whether the values are signed integers."""
    return dtype in SIGNED or (dtype in NARROW_INTEGER and dtype.name.startswith("int"))


def is_unsigned(dtype: DType) -> bool:
    """Whether the values are unsigned integers (booleans are not)."""
    return dtype in UNSIGNED or (dtype in NARROW_INTEGER and dtype.name.startswith("uint"))


def is_integer(dtype: DType) -> bool:
    """Whether the values are integers (booleans are not)."""
    return dtype in INTEGER or dtype in NARROW_INTEGER


def is_floating(dtype: DType) -> bool:
    """Whether the values are real floating-point numbers."""
    return dtype in FLOATING or dtype in NARROW_FLOATING or dtype in UNSTORED


def is_complex(dtype: DType) -> bool:
    """Whether the values are complex numbers."""
    return dtype in COMPLEX


def is_inexact(dtype: DType) -> bool:
    """Whether the values are real or complex floating-point numbers: those with a derivative."""
    return dtype in INEXACT or dtype in NARROW_FLOATING or dtype in UNSTORED


def is_real(dtype: DType) -> bool:
    """Whether the values are integers or real floating-point numbers."""
    return is_integer(dtype) or is_floating(dtype)


def is_numeric(dtype: DType) -> bool:
    """Whether the values are numbers (booleans are not)."""
    return is_real(dtype) or is_complex(dtype)


def short_name(dtype: DType) -> str:
    """The name by which jaxprs and errors show a dtype.

    >>> short_name(float32), short_name(bfloat16), short_name(bool_)
    ('f32', 'bf16', 'bool')
    """
    found = SHORT.get(dtype) if isinstance(dtype, np.dtype) else None
    return found if found is not None else str(getattr(dtype, "short_name", dtype))


class extended(np.generic):
    """The class of the elements of arrays that NumPy has no dtype for; `issubdtype` takes it."""

    def __new__(cls, *args: Any) -> extended:
        """Raises DTypeError: there are no scalars of such dtypes."""
        message, wanted = "random keys are no numbers", "a dtype of numbers or booleans"
        raise DTypeError(message, operation=None, got=f"dtype {cls.__name__}", wanted=wanted)


class prng_key(extended):
    """The class of random keys, whatever their generator.

    >>> jnp.issubdtype(weft.random.key(0).dtype, prng_key), jnp.issubdtype(float32, prng_key)
    (True, False)
    """


ABSTRACT: dict[type, _Set] = {
    np.generic: ANY | NARROW | {float0, *UNSTORED},
    np.number: NUMERIC | NARROW | set(UNSTORED),
    np.integer: INTEGER | NARROW_INTEGER,
    np.signedinteger: SIGNED | {d for n, d in _narrow_integers.items() if n.startswith("int")},
    np.unsignedinteger: UNSIGNED | {d for n, d in _narrow_integers.items() if n[0] == "u"},
    np.inexact: INEXACT | NARROW_FLOATING | set(UNSTORED),
    np.floating: FLOATING | NARROW_FLOATING | set(UNSTORED),
    np.complexfloating: COMPLEX,
}
