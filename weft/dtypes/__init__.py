"""The dtypes of arrays, and the promotion of two dtypes to a common one.

A dtype is a NumPy dtype instance (`ml_dtypes` supplies bfloat16 and the narrow types) or an
extended dtype: any object with a `short_name`, such as the type of random keys. Promotion follows
the lattice that JAX publishes ("Type promotion semantics" in its documentation): a join
semilattice with three extra points for weakly typed values, that is Python numbers, which ask for
no width. An explicit dtype is always honoured; values without one take the default width, 32 bits
or 64 by the setting `enable_x64`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, TypeAlias, overload

import ml_dtypes
import numpy as np

from weft import config
from weft.base import source
from weft.base.facades import public_names
from weft.dtypes.dtype_kinds import (
    ABSTRACT,
    ANY,
    BITS,
    BOOLEAN,
    BY_NAME,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NARROW,
    NARROW_FLOATING,
    NARROW_INTEGER,
    NUMERIC,
    ORDERED,
    REAL,
    SHORT,
    SIGNED,
    UNSIGNED,
    UNSTORED,
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    extended,
    float0,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    is_boolean,
    is_complex,
    is_extended,
    is_floating,
    is_inexact,
    is_integer,
    is_numeric,
    is_real,
    is_signed,
    is_unsigned,
    prng_key,
    short_name,
    uint8,
    uint16,
    uint32,
    uint64,
)
from weft.dtypes.widths import (
    HALVED,
    canonical,
    default_complex,
    default_float,
    default_int,
    default_uint,
    does_not_fit,
    fits,
    keeps_low_bits,
    limits,
    low_bits,
    number,
)
from weft.errors import DTypeError, Fix, TypePromotionError, WeftTypeError, WeftValueError

# fmt: off
__all__ = [
    "ANY", "BITS", "BOOLEAN", "COMPLEX", "FLOATING", "INEXACT", "INTEGER", "NARROW",
    "NARROW_FLOATING", "NARROW_INTEGER", "NUMERIC", "ORDERED", "REAL", "SIGNED", "UNSIGNED",
    "DType", "TypePromotionError", "allowed", "bfloat16", "bool_", "canonical",
    "canonicalize_dtype", "common_kind", "complex64", "complex128", "default_complex",
    "default_float", "default_int", "default_uint", "does_not_fit", "extended", "finfo", "fits",
    "float0", "float16", "float32", "float64", "iinfo", "int8", "int16", "int32", "int64",
    "is_boolean", "is_complex", "is_extended", "is_floating", "is_inexact", "is_integer",
    "is_numeric", "is_real", "is_signed", "is_unsigned", "issubdtype", "itemsize_bits",
    "keeps_low_bits", "limits", "low_bits", "number", "of_scalar", "parse", "prng_key", "promote",
    "promote_types", "register_operand_type", "requested", "result_type", "scalar_type_of",
    "short_name", "tangent_dtype", "to_complex", "to_real", "uint8", "uint16", "uint32", "uint64",
]
# fmt: on

__dir__ = public_names(globals())


def itemsize_bits(dtype: DType) -> int:
    """How many bits one element takes in a packed buffer (4 for int4)."""
    if not isinstance(dtype, np.dtype):
        dtype = parse(dtype)
    if is_extended(dtype):
        message = "itemsize_bits: how many bits a random key takes is its generator's"
        raise DTypeError(message, got=dtype, wanted="a dtype of numbers or booleans")
    if dtype in NARROW or dtype in UNSTORED:
        return int("".join(c for c in SHORT[dtype][1:].split("_")[0] if c.isdigit()))
    return 8 * int(dtype.itemsize)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether the dtype `arg1` is of a category (`np.floating`, `np.integer`, …), or is a dtype.

    Unlike NumPy's function of this name it knows that bfloat16 is a floating-point type, and what
    random keys are (`prng_key`). Python's numbers mean NumPy's dtypes of 64 bits here, and None
    float64. Raises DTypeError for anything that names no dtype.

    >>> issubdtype(bfloat16, np.floating), issubdtype("int32", np.int32)
    (True, True)
    """
    first, second = _category(arg1), _category(arg2)
    if not isinstance(second, type):
        return bool(first == second)
    if isinstance(first, type):
        return issubclass(first, second)
    if second in ABSTRACT and first in SHORT:
        return first in ABSTRACT[second]
    return issubclass(first.type, second)


def _category(dtype_like: Any) -> Any:
    """Converts an argument of `issubdtype` to a dtype, or to a class of dtypes."""
    if isinstance(dtype_like, np.dtype):
        return dtype_like
    if isinstance(dtype_like, type):
        several = dtype_like in ABSTRACT or issubclass(
            dtype_like, extended | np.flexible | np.character
        )
        if several and dtype_like is not np.void:
            return dtype_like
        if issubclass(dtype_like, np.generic | bool | int | float | complex | str):
            return np.dtype(dtype_like)
    if dtype_like is None or dtype_like is object:
        return np.dtype(dtype_like)
    return parse(dtype_like)


_BY_PYTHON_TYPE = {int: default_int, float: default_float, complex: default_complex}
# Names without a width, which `np.dtype` would read as 64 bits.
_BY_WORD = {"uint": default_uint} | {c.__name__: default for c, default in _BY_PYTHON_TYPE.items()}


def of_scalar(value: bool | int | float | complex) -> np.dtype[Any]:
    """The dtype of a Python number.

    >>> of_scalar(True), of_scalar(1.5)
    (dtype('bool'), dtype('float32'))
    """
    if isinstance(value, bool):
        return bool_
    for kind, default in _BY_PYTHON_TYPE.items():
        if isinstance(value, kind):
            return default()
    raise DTypeError("this is not a Python number", got=repr(value), wanted="bool, int, … complex")


def parse(dtype_like: Any) -> DType:
    """The dtype that a user named.

    Takes a dtype, a NumPy scalar type, a name, an object with a `dtype` attribute that is one, or
    `bool`, `int`, `float`, `complex`; the last three mean the default width, while a dtype with a
    width is honoured as it is. Raises DTypeError for anything else, None included.

    >>> parse("bfloat16"), parse(np.float64), parse(float)
    (dtype(bfloat16), dtype('float64'), dtype('float32'))
    """
    if isinstance(dtype_like, np.dtype):
        if dtype_like in SHORT:
            return dtype_like
        _refuse(dtype_like)
    if isinstance(dtype_like, type):
        if dtype_like is bool:
            return bool_
        default = _BY_PYTHON_TYPE.get(dtype_like)
        if default is not None:
            return default()
    elif isinstance(dtype_like, str):
        default = _BY_WORD.get(dtype_like)
        if default is not None:
            return default()
        named = BY_NAME.get(dtype_like)
        if named is not None:
            return named
    elif isinstance(getattr(dtype_like, "short_name", None), str):
        return dtype_like
    inner = getattr(dtype_like, "dtype", None)
    if isinstance(inner, np.dtype) or isinstance(getattr(inner, "short_name", None), str):
        return parse(inner)
    return _parse_numpy(dtype_like)


def requested(dtype_like: Any) -> DType:
    """The dtype of which a user asked for an array: what `parse` says, under the dtype rule.

    With the setting `dtype_rule="jax"` and without `enable_x64` a 64-bit dtype is cut to 32 bits.
    That is said in a warning, unless the dtype is one of Python's numbers.
    """
    out = parse(dtype_like)
    cut = allowed(out)
    if cut is out:
        return out
    called = source.called_function()
    # Programs filter this warning by its first words, which are those of JAX.
    text = f"Explicitly requested dtype {out.name}{f' requested in {called}' if called else ''}"
    source.warn(
        f"{text} is not available, and will be truncated to dtype {cut.name}: 64-bit numbers are "
        "there with the setting enable_x64"
    )
    return cut


def allowed(dtype: DType) -> DType:
    """A dtype, cut to 32 bits where the setting `dtype_rule="jax"` says so."""
    if dtype not in HALVED:
        return dtype
    in_force = config.settings()
    honoured = in_force.dtype_rule == "weft" or in_force.enable_x64
    return dtype if honoured else HALVED[dtype]


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> DType:
    """The dtype that an array gets where 64 bits are no more than the default: without `enable_x64`
    a 64-bit dtype gives the one of 32 bits.

    Raises DTypeError for anything that names no dtype, and for the dtype of random keys unless
    `allow_extended_dtype`.

    >>> canonicalize_dtype("float64"), canonicalize_dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    out = default_float() if dtype is None else canonical(parse(dtype))
    if is_extended(out) and not allow_extended_dtype:
        message = f"{short_name(out)} is the dtype of random keys"
        fix = Fix("argument", "pass allow_extended_dtype=True", {"allow_extended_dtype": True})
        raise DTypeError(message, operation="canonicalize_dtype", got=str(out), fix=fix)
    return out


def _parse_numpy(dtype_like: Any) -> np.dtype[Any]:
    # NumPy would read None as float64 and an abstract class such as np.floating as one of its kind.
    if dtype_like is None or (isinstance(dtype_like, type) and dtype_like in ABSTRACT):
        _refuse(dtype_like)
    if isinstance(dtype_like, type) and not issubclass(dtype_like, np.generic):
        # NumPy would read any other class as `object`; the scalars of ml_dtypes are such classes.
        named = BY_NAME.get(dtype_like.__name__)
        if named is None or named.type is not dtype_like:
            _refuse(dtype_like)
        return named
    try:
        out = np.dtype(dtype_like)
    except (TypeError, ValueError):
        _refuse(dtype_like)
    if out not in SHORT:
        _refuse(dtype_like, out)
    return out


def _refuse(dtype_like: Any, found: Any = None) -> NoReturn:
    found = dtype_like if found is None else found
    fix = Fix("dtype", "name one of them, for example dtype='float32'", {"dtype": "float32"})
    if isinstance(found, np.dtype) and found.newbyteorder("=") in SHORT:
        native = found.newbyteorder("=")
        text = f"use the byte order of this machine: dtype={native.name!r}"
        fix = Fix("dtype", text, {"dtype": native.name})
    message = "this is not a dtype of weft's arrays"
    wanted = (
        "bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, complex64, "
        "complex128, or one of the narrow types " + ", ".join(sorted(d.name for d in NARROW))
    )
    raise DTypeError(message, operation=None, got=repr(dtype_like), wanted=wanted, fix=fix)


# Promotion

# The points of the lattice besides the dtypes: weakly typed integers, reals and complex numbers.
_WEAK_INT, _WEAK_FLOAT, _WEAK_COMPLEX = "i*", "f*", "c*"
_Point: TypeAlias = Any

# Each point and the points directly above it.
_ABOVE: dict[_Point, tuple[_Point, ...]] = {
    bool_: (_WEAK_INT,),
    _WEAK_INT: (uint8, int8),
    uint8: (uint16, int16),
    uint16: (uint32, int32),
    uint32: (uint64, int64),
    uint64: (_WEAK_FLOAT,),
    int8: (int16,),
    int16: (int32,),
    int32: (int64,),
    int64: (_WEAK_FLOAT,),
    _WEAK_FLOAT: (bfloat16, float16, _WEAK_COMPLEX),
    bfloat16: (float32,),
    float16: (float32,),
    float32: (float64, complex64),
    float64: (complex128,),
    _WEAK_COMPLEX: (complex64,),
    complex64: (complex128,),
    complex128: (),
}
# In the strict mode only a weakly typed operand changes its type, and only to a wider kind.
_ABOVE_STRICT: dict[_Point, tuple[_Point, ...]] = {
    **dict.fromkeys(ANY, ()),
    _WEAK_INT: (*INTEGER, _WEAK_FLOAT),
    _WEAK_FLOAT: (*FLOATING, _WEAK_COMPLEX),
    _WEAK_COMPLEX: tuple(COMPLEX),
}
# The narrow types take in booleans and Python numbers and meet no other type.
for _dtype in NARROW_INTEGER:
    _ABOVE[_dtype] = _ABOVE_STRICT[_dtype] = ()
    _ABOVE[_WEAK_INT] += (_dtype,)
for _dtype in NARROW_FLOATING:
    _ABOVE[_dtype] = _ABOVE_STRICT[_dtype] = ()
    _ABOVE[_WEAK_FLOAT] += (_dtype,)


def _closure(above: dict[_Point, tuple[_Point, ...]]) -> dict[_Point, frozenset[_Point]]:
    """For each point the set of all the points at or above it."""
    out: dict[_Point, frozenset[_Point]] = {}

    def visit(point: _Point) -> frozenset[_Point]:
        if point not in out:
            out[point] = frozenset({point}).union(*(visit(up) for up in above[point]))
        return out[point]

    for point in above:
        visit(point)
    return out


_UPPER = _closure(_ABOVE)
_UPPER_STRICT = _closure(_ABOVE_STRICT)


def _join(points: Iterable[_Point], upper: dict[_Point, frozenset[_Point]]) -> _Point | None:
    """The least of the points above all of `points`; None if there is none."""
    sets = [upper[point] for point in points]
    common = frozenset.intersection(*sets)
    for point in common:
        if upper[point] == common:
            return point
    return None


def _weak_point(dtype: DType) -> _Point:
    if is_integer(dtype):
        return _WEAK_INT
    if is_floating(dtype):
        return _WEAK_FLOAT
    return _WEAK_COMPLEX if is_complex(dtype) else dtype


def promote(*pairs: tuple[DType, bool]) -> tuple[DType, bool]:
    """The dtype and weak type to which operands of these (dtype, weak type) pairs are promoted.

    Raises DTypeError if there is no such type: for a narrow or an extended dtype together with
    another one, and under the setting `numpy_dtype_promotion="strict"` for all dtypes that differ
    and are not weak.

    >>> promote((int32, False), (float32, True))
    (dtype('float32'), True)
    >>> promote((bfloat16, False), (float32, True))
    (dtype(bfloat16), False)
    """
    settings = config.settings()
    return _promote(pairs, settings.enable_x64, settings.numpy_dtype_promotion == "strict")


@functools.lru_cache(maxsize=4096)
def _promote(
    pairs: tuple[tuple[DType, bool], ...], enable_x64: bool, strict: bool
) -> tuple[DType, bool]:
    if not pairs:
        raise DTypeError("no types to promote", got="no operands", wanted="at least one")
    dtypes = [dtype for dtype, _ in pairs]
    all_weak = all(weak for _, weak in pairs)
    if all(dtype == dtypes[0] for dtype in dtypes):
        return dtypes[0], all_weak
    upper = _UPPER_STRICT if strict else _UPPER
    # Weak operands alone are joined by their dtypes, so that a weak int16 and a weak int8 stay
    # narrow; next to an operand that is not weak only their kind counts.
    if all_weak and not strict:
        points = dtypes
    else:
        points = [_weak_point(dtype) if weak else dtype for dtype, weak in pairs]
    point = _join(points, upper) if all(point in upper for point in points) else None
    if point is None:
        _refuse_promotion(dtypes, strict)
    if isinstance(point, str):
        wide = {_WEAK_INT: int64, _WEAK_FLOAT: float64, _WEAK_COMPLEX: complex128}[point]
        return wide if enable_x64 else HALVED[wide], True
    # uint32 meets a signed integer in int64, which neither of them asked for.
    if not enable_x64 and not any(dtype in HALVED for dtype in dtypes):
        point = HALVED.get(point, point)
    return point, all_weak and point != bool_


# The fix where a number is wanted in place of a random key.
KEYS_FIX = Fix(
    "key_data",
    "random keys are no numbers: draw some (weft.random.normal(key)), or take the bits of the keys "
    "(weft.random.key_data(key))",
)


def _refuse_promotion(dtypes: list[DType], strict: bool) -> NoReturn:
    names = list(dict.fromkeys(short_name(dtype) for dtype in dtypes))
    known = [dtype for dtype in dtypes if dtype in ANY]
    fix = None
    if strict and len(known) == len(dtypes):
        point = _join(dtypes, _UPPER)
        wanted = "one dtype, because the setting numpy_dtype_promotion is 'strict'"
    else:
        # Narrow dtypes join as numbers of Python do: fractions are not lost.
        weak = _WEAK_FLOAT if NARROW_FLOATING.intersection(dtypes) else _WEAK_INT
        point = _join([*known, weak], _UPPER)
        wanted = "dtypes with a common one; narrow dtypes are converted explicitly"
        if any(map(is_extended, dtypes)):
            wanted, fix = "numbers", KEYS_FIX
    if point is not None and all(dtype in ANY or dtype in NARROW for dtype in dtypes):
        # Integers without a common dtype (uint64 and int64) meet in the real numbers.
        widest = {_WEAK_INT: int32, _WEAK_FLOAT: default_float(), _WEAK_COMPLEX: default_complex()}
        target = widest[point] if isinstance(point, str) else point
        text = f"convert the operands to one dtype, for example x.astype({target.name!r})"
        fix = Fix("cast", text, {"dtype": target.name})
    message = "the operands have no common dtype"
    raise TypePromotionError(
        message, operation=None, got=" and ".join(names), wanted=wanted, fix=fix
    )


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The dtype to which arrays of dtypes `a` and `b` are promoted.

    `int`, `float` and `complex` stand for Python numbers, which are weakly typed. Dtypes are no
    operands, so the setting `numpy_dtype_promotion` says nothing here.

    >>> promote_types("int32", "float16"), promote_types("int8", int)
    (dtype('float16'), dtype('int8'))
    """
    pairs = [(parse(x), isinstance(x, type) and x in _BY_PYTHON_TYPE) for x in (a, b)]
    return _promote(tuple(pairs), config.settings().enable_x64, False)[0]


_operand_type: list[Callable[[Any], Any]] = []


def register_operand_type(function: Callable[[Any], Any]) -> None:
    """Sets the function that gives the type of an operand, with `dtype` and `weak_type`."""
    _operand_type[:] = [function]


def _pair(value: Any) -> tuple[DType, bool]:
    """The dtype and weak type of an array or number, or of a name of a dtype."""
    if value is None:
        return default_float(), False
    if isinstance(value, type) and value in _BY_PYTHON_TYPE:
        return _BY_PYTHON_TYPE[value](), True
    if type(value) is int:  # of any size
        return default_int(), True
    if not isinstance(value, (str, type, np.dtype)):
        try:
            of = _operand_type[0](value)
        except WeftTypeError:
            return requested(value), False
        return (of.dtype if hasattr(value, "type") else canonical(of.dtype)), of.weak_type
    return requested(value), False


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = False) -> np.dtype[Any]: ...
@overload
def result_type(*args: Any, return_weak_type_flag: Literal[True]) -> tuple[np.dtype[Any], bool]: ...
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype to which arrays, numbers and dtypes promote. Python numbers yield to the others,
    and None stands for the default floating-point dtype.

    With `return_weak_type_flag` the result is a pair: the dtype, and whether a value of it would
    yield to others. Raises WeftValueError without arguments and TypePromotionError if there is no
    common dtype.

    >>> result_type(np.int8, 1.0), result_type("bfloat16", 2)
    (dtype('float32'), dtype(bfloat16))
    >>> result_type(1, return_weak_type_flag=True)
    (dtype('int32'), True)
    """
    if not args:
        message = "result_type takes at least one array or dtype"
        wanted = "arrays, numbers or dtypes"
        raise WeftValueError(message, operation="result_type", got="no arguments", wanted=wanted)
    found = promote(*[_pair(value) for value in args])
    return found if return_weak_type_flag else found[0]


def scalar_type_of(x: Any) -> type:
    """The class of Python's numbers to which an element of an array, or a dtype, belongs.

    Raises DTypeError for random keys and for anything that has no dtype.

    >>> scalar_type_of("int8"), scalar_type_of(1j)
    (<class 'int'>, <class 'complex'>)
    """
    kind = common_kind(_pair(x)[0])
    return {"boolean": bool, "integer": int, "floating": float, "complex": complex}[kind]


_KINDS = ("boolean", "integer", "floating", "complex")


def common_kind(*dtypes: DType) -> str:
    """The widest kind among dtypes: "boolean", "integer", "floating" or "complex".

    >>> common_kind(bool_, int8), common_kind(int64, float16)
    ('integer', 'floating')
    """
    return _KINDS[max(_kind_rank(dtype) for dtype in dtypes)]


def _kind_rank(dtype: DType) -> int:
    for rank, holds in enumerate((is_boolean, is_integer, is_floating, is_complex)):
        if holds(dtype):
            return rank
    raise DTypeError("this dtype has no kind", got=short_name(dtype), wanted="a dtype of numbers")


# Ranges and related types


def finfo(dtype: Any) -> ml_dtypes.finfo:
    """The limits of a floating-point or complex dtype, bfloat16 included.

    Raises DTypeError for a dtype of another kind.

    >>> finfo("bfloat16").bits, finfo("bfloat16").nmant
    (16, 7)
    """
    dtype = parse(dtype)
    if not is_inexact(dtype):
        message = "finfo takes a floating-point or complex dtype"
        fix = (
            Fix("call", "use iinfo for integers", {"function": "iinfo"})
            if is_integer(dtype)
            else None
        )
        raise DTypeError(message, operation="finfo", got=short_name(dtype), fix=fix)
    return ml_dtypes.finfo(dtype)


def iinfo(int_type: Any) -> ml_dtypes.iinfo:
    """The limits of an integer dtype, int4 and uint4 included.

    Raises DTypeError for a dtype of another kind.

    >>> iinfo("int4").min, iinfo("int4").max
    (-8, 7)
    """
    dtype = parse(int_type)
    if not is_integer(dtype):
        message = "iinfo takes an integer dtype"
        fix = (
            Fix("call", "use finfo for floating-point numbers", {"function": "finfo"})
            if is_inexact(dtype)
            else None
        )
        raise DTypeError(message, operation="iinfo", got=short_name(dtype), fix=fix)
    return ml_dtypes.iinfo(dtype)


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of the tangents of values of `dtype`: itself, or float0 without derivatives."""
    if isinstance(dtype, np.dtype):
        return dtype if is_inexact(dtype) else float0
    return getattr(dtype, "tangent_dtype", float0)


def to_real(dtype: DType) -> DType:
    """The dtype of the real part: float32 for complex64; other dtypes as they are."""
    if dtype == complex64:
        return float32
    return float64 if dtype == complex128 else dtype


def to_complex(dtype: DType) -> DType:
    """The dtype of complex numbers whose parts hold values of `dtype`.

    complex128 for 64-bit numbers, complex64 for all narrower ones.
    """
    if dtype in COMPLEX:
        return dtype
    if dtype not in ANY:
        raise DTypeError(
            "there is no complex dtype for this one", got=short_name(dtype), wanted="a number"
        )
    return complex128 if dtype in (float64, int64, uint64) else complex64
