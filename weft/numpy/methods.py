"""Operators and methods of arrays and tracers: the functions of `weft.numpy`."""

from __future__ import annotations

import sys
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.operators import install
from weft.core.types import type_of
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import refusal, unsupported_argument
from weft.kinds.checks import check_arrays
from weft.numpy import at as at_chapter
from weft.numpy import (
    choosing,
    creation,
    diagonals,
    elementwise,
    joining,
    linear_algebra,
    logic,
    manipulation,
    reductions,
    representation,
    searching,
    sorting,
    taking,
)
from weft.numpy.elementwise import clip
from weft.numpy.getitem import getitem
from weft.numpy.promotion import CONTAINERS, operator_of
from weft.ops.elementwise.complex import complex as make_complex
from weft.ops.elementwise.convert import bitcast_convert_type, convert_element_type
from weft.ops.structural.joining import rev
from weft.ops.structural.shape import reshape

# The version of the Array API standard that `weft.numpy` follows.
ARRAY_API = "2024.12"


def view(x: Any, dtype: Any = None, type: None = None) -> Any:
    """The bits of an array read as another dtype.

    Where its elements are k times narrower or wider, the last dimension is k times longer or
    shorter. Raises ShapeError if that is not possible.
    """
    if type is not None:
        raise unsupported_argument("view", "type", type, "arrays have one class", "leave it out")
    aval = type_of(x)
    wanted = dtypes.default_float() if dtype is None else dtypes.requested(dtype)
    if aval.dtype == wanted:
        return x
    if aval.dtype in dtypes.BOOLEAN:
        x = convert_element_type(x, dtypes.uint8)
    if aval.dtype in dtypes.COMPLEX:
        x = _to_real_pairs(x)
    if wanted in dtypes.COMPLEX:
        return _to_complex(view(x, dtypes.to_real(wanted)))
    if wanted in dtypes.BOOLEAN:
        return convert_element_type(view(x, dtypes.uint8), wanted)
    return _regroup_bits(x, wanted)


def byteswap(x: Any) -> Any:
    """The elements with the order of their bytes reversed, in the same dtype.

    The parts of a complex number are reversed each.
    """
    dtype = type_of(x).dtype
    if dtype in dtypes.COMPLEX:
        return _to_complex(byteswap(_to_real_pairs(x)))
    if dtypes.itemsize_bits(dtype) <= 8:
        return x
    single = bitcast_convert_type(x, dtypes.uint8)
    return bitcast_convert_type(rev(single, (type_of(single).ndim - 1,)), dtype)


def _to_real_pairs(x: Any) -> Any:
    """Complex numbers as pairs of real ones, in a last dimension of twice the length."""
    pairs = joining.stack([representation.real(x), representation.imag(x)], axis=-1)
    shape = type_of(x).shape
    return reshape(pairs, (*shape[:-1], 2 * shape[-1]) if shape else (2,))


def _to_complex(x: Any) -> Any:
    """Pairs of real numbers in the last dimension as complex ones."""
    shape = type_of(x).shape
    if not shape or shape[-1] % 2:
        raise _unfit(x, "an even last dimension")
    pairs = reshape(x, (*shape[:-1], shape[-1] // 2, 2))
    return make_complex(pairs[..., 0], pairs[..., 1])


def _regroup_bits(x: Any, dtype: Any) -> Any:
    shape = type_of(x).shape
    old, new = dtypes.itemsize_bits(type_of(x).dtype), dtypes.itemsize_bits(dtype)
    if old == new:
        return bitcast_convert_type(x, dtype)
    if not shape:
        raise _unfit(x, "a last dimension")
    if new < old:
        return reshape(bitcast_convert_type(x, dtype), (*shape[:-1], shape[-1] * (old // new)))
    if shape[-1] % (new // old):
        raise _unfit(x, f"a last dimension that {new // old} divides")
    wide = reshape(x, (*shape[:-1], shape[-1] // (new // old), new // old))
    return bitcast_convert_type(wide, dtype)


def _unfit(x: Any, wanted: str) -> ShapeError:
    message = "view: the last dimension cannot be regrouped"
    return refusal(ShapeError, message, "view", str(type_of(x)), wanted)


def array_namespace(api_version: str | None = None) -> Any:
    """`weft.numpy`, which follows the Array API standard. Raises ValueError for another version."""
    if api_version is not None and api_version > ARRAY_API:
        message = f"weft.numpy follows version {ARRAY_API} of the Array API standard"
        got = f"api_version={api_version!r}"
        raise WeftValueError(message, got=got, wanted=f"at most {ARRAY_API!r}")
    return sys.modules["weft.numpy"]


def to_device(x: Any, device: Any, stream: Any = None) -> Any:
    """The array on a device. Raises NotImplementedError for a stream: copies order themselves."""
    if stream is not None:
        why = "the runtime orders copies and programs by itself"
        raise unsupported_argument("to_device", "stream", stream, why, "leave it out")
    return creation.asarray(x, device=device)


def matmul_operator(x1: Any, x2: Any) -> Any:
    """`matmul` as an operator: returns NotImplemented for operands of other classes."""
    try:
        if not (type(x1) is type(x2) is Array):
            check_arrays(x1, x2, operation="matmul")
    except WeftTypeError:
        if type(x1) in CONTAINERS or type(x2) in CONTAINERS:
            raise
        return NotImplemented
    return linear_algebra.matmul(x1, x2)


install(
    **{
        name: operator_of(getattr(elementwise, name))
        for name in (
            "add",
            "subtract",
            "multiply",
            "true_divide",
            "floor_divide",
            "remainder",
            "equal",
            "not_equal",
            "less",
            "less_equal",
            "greater",
            "greater_equal",
        )
    },
    **{
        name: operator_of(getattr(logic, name))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    },
    power=elementwise.power_operator,
    divmod=elementwise.divmod_operator,
    negative=elementwise.negative,
    positive=elementwise.positive,
    abs=elementwise.abs,
    invert=logic.invert,
    getitem=getitem,
    at=at_chapter.at,
    matmul=matmul_operator,
    dot=linear_algebra.dot,
    array_namespace=array_namespace,
    astype=creation.astype,
    to_device=to_device,
    copy=creation.copy,
    view=view,
    byteswap=byteswap,
    real=representation.real,
    imag=representation.imag,
    conj=representation.conj,
    round=representation.round,
    clip=clip,
    **{
        name: getattr(chapter, name)
        for chapter, names in (
            (
                manipulation,
                ("matrix_transpose", "ravel", "reshape", "squeeze", "swapaxes", "transpose"),
            ),
            (joining, ("repeat",)),
            (diagonals, ("diagonal", "trace")),
            (searching, ("argmax", "argmin", "searchsorted")),
            (choosing, ("choose", "compress", "nonzero")),
            (taking, ("take",)),
            (sorting, ("argpartition", "argsort", "cumprod", "cumsum", "sort")),
            (reductions, ("all", "any", "max", "mean", "min", "prod", "ptp", "std", "sum", "var")),
        )
        for name in names
    },
)
