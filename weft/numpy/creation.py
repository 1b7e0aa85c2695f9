"""Making arrays: from Python values, from other arrays, of one value.

Called eagerly, NumPy makes small arrays, which are copied to the device without compilation; large
ones are computed there. In a jaxpr, integer sequences and arrays of one value are computed, so that
it holds no constants for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put, signature_of, to_format
from weft.arrays.conversion import as_array, mark_rounded, own_array, unmark_rounded
from weft.arrays.host_values import cast_values
from weft.core.array_value import array_of_value, array_values
from weft.core.trace import Tracer
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftArgumentError,
    WeftTypeError,
    WeftValueError,
)  # fmt: skip
from weft.errors.argument_errors import invalid_value, refusal
from weft.kinds.arguments import Prepared, operand_kind, promoted_kind
from weft.kinds.array_function import private_function
from weft.kinds.checks import broadcasted, check_arrays, check_fits, shape_of
from weft.kinds.compiled_functions import is_eager
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import as_operand
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.flags import check_flag
from weft.ops.indexing.creation import place_of
from weft.ops.structural.extended_dtypes import wrap_key_bits
from weft.ops.structural.joining import concatenate
from weft.ops.structural.layout_constraint import constrain_layout
from weft.ops.structural.shape import broadcast_in_dim, broadcast_in_dim_p, reshape
from weft.ops.structural.sharding_constraint import as_format, constrain, unless_simulated
from weft.runtime import client
from weft.sharding import Layout, Sharding
from weft.typing import ArrayLike

__all__ = [
    "array", "asarray", "astype", "copy", "empty", "empty_like", "from_dlpack", "full", "full_like",
    "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip

# Up to this many elements a copy from the host is faster than a compilation.
_SMALL = 1 << 16


def array(
    object: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of the values of numbers, arrays, or (nested) lists and tuples of those.

    Args:
        object (array-like): The numbers, arrays, lists or tuples.
        dtype (dtype): By default that to which the values promote; Python numbers and NumPy arrays
            take the default width.
        copy: True for a new array, None for one only where it is needed. False never copies, and
            raises WeftValueError where that is needed.
        order: "K" or "C"; arrays have no other order.
        ndmin: Dimensions of length 1 are put in front up to this number.
        device (device or sharding): Where the array is put; by default it is not moved.
        out_sharding (sharding): The same, by another name; only one of both is given.

    Raises OverflowError for an integer that does not fit, WeftTypeError for what holds no numbers,
    ValueError for lists of differing lengths.

    >>> array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    >>> array([1, 2.5], dtype="float16")
    Array([1. , 2.5], dtype=float16)
    """
    if order not in ("K", "C", "A", None):
        message = "array: arrays are in row-major order"
        fix = Fix("order", "leave order out: it says nothing of the values", {"order": None})
        raise invalid_value(message, "array", "order", order, "'K', 'A' or 'C'", fix=fix)
    check_flag(copy, "copy", none=True, operation="array")
    wanted = None if dtype is None else dtypes.requested(dtype)
    try:
        out = _make(object, wanted)
    except RecursionError:
        if not hasattr(object, "__len__"):
            raise
        message, wanted = "array: lists are nested too deeply", "fewer levels, no list in itself"
        raise refusal(WeftValueError, message, "array", type(object).__name__, wanted) from None
    if copy and out is object:
        out = _copied(out)
    ndim = type_of(out).ndim
    if ndim < ndmin:
        out = reshape(out, (1,) * (ndmin - ndim) + type_of(out).shape)
    out = _placed(out, device, out_sharding)
    if copy is not None and not copy:
        _check_same(out, object)
    return out


def _check_same(found: Any, given: Any) -> None:
    """Raises WeftValueError if the result is not the given array."""
    if found is given or (type(given) in array_values and found is array_of_value(given)):
        return
    if config.lenient():
        return
    known = isinstance(given, (Array, Tracer))
    text = "leave copy=False out: copies are then made where they are needed"
    if not known and hasattr(given, "__dlpack__"):
        text += "; or share the memory with weft.numpy.from_dlpack(x)"
    message = "array: copy=False, but this needs a copy"
    got = f"copy=False for {type_of(given) if known else type(given).__name__}"
    wanted = "an array of weft that is taken as it is: in its own dtype, shape and place"
    raise refusal(WeftValueError, message, "array", got, wanted, Fix("copy", text, {"copy": None}))


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of the values of `a`, which is returned as it is where it is an array already.

    Args:
        a (array-like): An array, a number, or (nested) lists and tuples of those.
        dtype (dtype): By default that to which the values promote, as for `array`.
        order: "K" or "C"; arrays have no other order.
        copy: True for a new array, None for one only where it is needed, False for none.
        device (device or sharding): Where the array is put; by default it is not moved.
        out_sharding (sharding): The same, by another name; only one of both is given.

    With `copy=False` raises WeftValueError for what is no array yet, or has another dtype or
    device.

    >>> asarray(3.5)
    Array(3.5, dtype=float32, weak_type=True)
    """
    return array(a, dtype, copy, order, device=device, out_sharding=out_sharding)


def unlisted(value: Any) -> Any:
    """A list or tuple as an array; other values unchanged."""
    return asarray(value) if isinstance(value, (list, tuple)) else value


def with_lists(kind: Kind) -> Kind:
    """The kind of operands that may be lists, too."""

    def take(value: Any, call: Arguments) -> Any:
        return kind.take(unlisted(value), call)

    return dataclasses.replace(kind, take=take, means=f"{kind.means}, or a list", wrong=("text",))


Elements = Annotated[Any, with_lists(operand_kind)]
# As it is: it takes no dtype yet.
listed_kind = dataclasses.replace(with_lists(promoted_kind), static=True, together=None)
ListOrArray = Annotated[Any, listed_kind]


def _make(value: Any, dtype: Any) -> Any:
    """The value as an array or tracer, of a dtype if one is given."""
    if type(value) in array_values:
        value = array_of_value(value)
    if getattr(value, "type", None).__class__ is ArrayType:
        return value if dtype is None else _in_dtype(value, dtype)
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        if dtype is not None:
            return _from_numpy(_numbers(value, dtype), dtype)
        return own_array(value) if is_eager() else as_array(value)
    if isinstance(value, (np.ndarray, np.generic)):
        check_unmasked(value)
        return _from_numpy(np.asarray(value), dtype)
    if isinstance(value, (list, tuple)):
        return _from_sequence(value, dtype)
    return _from_object(value, dtype)


def _in_dtype(value: Any, dtype: Any) -> Any:
    of = type_of(value)
    if of.dtype == dtype and not of.weak_type and hasattr(value, "type"):
        return unmark_rounded(value)
    return convert_element_type(value, dtype)


def _numbers(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Python numbers as a NumPy array. Raises OverflowError if one does not fit."""
    if isinstance(value, np.generic):
        return cast_values(np.asarray(value), dtype)
    if dtype.kind in "iu" and isinstance(value, float):
        value = int(value)
    if dtype in dtypes.INTEGER and not dtypes.fits(value, dtype):  # where others are cut, too
        raise dtypes.does_not_fit(value, dtype, "dtype")
    return np.asarray(dtypes.number(value, dtype, "dtype"))


def _from_numpy(value: np.ndarray[Any, Any], dtype: Any) -> Any:
    if dtype is None:
        if value.dtype.kind in "SUOMm" or (value.dtype.kind == "V" and value.dtype.names):
            type_of(value)  # raises
        dtype = dtypes.canonical(value.dtype)
        if dtype == value.dtype:
            return put(value, ArrayType(value.shape, dtype))
        return as_array(value)
    return put(cast_values(value, dtype), ArrayType(value.shape, dtype))


_WIDE = frozenset({dtypes.int64, dtypes.uint64, dtypes.float64, dtypes.complex128})


def _from_sequence(value: Any, dtype: Any) -> Any:
    leaves: list[Any] = []
    _collect(value, leaves)
    if all(isinstance(leaf, (bool, int, float, complex, np.generic)) for leaf in leaves):
        return _from_numbers(value, leaves, dtype)
    parts = [_unmade(item) if dtype is None else _make(item, dtype) for item in value]
    types = [part if type(part) is ArrayType else type_of(part) for part in parts]
    shape = types[0].shape
    if any(of.shape != shape for of in types):
        message = "array takes nested lists whose parts have one shape"
        raise refusal(ShapeError, message, "array", ", ".join(map(str, types)), "equal shapes")
    if dtype is None:
        dtype, _ = dtypes.promote(
            *[_weight(item, of) for item, of in zip(value, types, strict=True)]
        )
    for leaf in leaves:
        check_fits(leaf, dtype)
    # Converted directly, as the default width would round these numbers or not hold them.
    parts = [
        part
        if hasattr(item, "type") or not (dtype in _WIDE or type(part) is ArrayType)
        else _make(item, dtype)
        for item, part in zip(value, parts, strict=True)
    ]
    rows = [broadcast_in_dim(_in_dtype(x, dtype), (1, *shape), _from_one(shape)) for x in parts]
    return concatenate(rows, 0)


def _unmade(item: Any) -> Any:
    """A part of a list as an array, or its type if all are integers, as a wider dtype may hold
    them."""
    leaves: list[Any] = []
    if isinstance(item, (list, tuple)):
        _collect(item, leaves)
    elif type(item) is int:
        leaves.append(item)
    if not leaves or any(type(leaf) is not int for leaf in leaves):
        return _make(item, None)
    try:
        shape = np.shape(item)
    except ValueError:
        return _make(item, None)  # raises
    return ArrayType(shape, dtypes.default_int(), True)


def _from_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(1, len(shape) + 1))


def _weight(item: Any, of: ArrayType) -> tuple[Any, bool]:
    """The (dtype, weak type) of a part of a list: Python numbers are weak, in lists too."""
    if isinstance(item, (list, tuple)):
        leaves: list[Any] = []
        _collect(item, leaves)
        weak = all(type(leaf) in (int, float, complex) for leaf in leaves)
        return of.dtype, weak or of.weak_type
    return of.dtype, of.weak_type


def _collect(value: Any, leaves: list[Any]) -> None:
    for item in value:
        if isinstance(item, (list, tuple)):
            _collect(item, leaves)
        else:
            leaves.append(item)


def _from_numbers(value: Any, leaves: Sequence[Any], dtype: Any) -> Any:
    """A nested list of numbers alone."""
    if dtype is None:
        if not leaves:
            dtype = dtypes.default_float()
        else:
            pairs = {_pair_of(leaf) for leaf in leaves}
            dtype, _ = dtypes.promote(*pairs)
        made = _from_numbers(value, leaves, dtype)
        return made if any(isinstance(x, np.generic) for x in leaves) else mark_rounded(made)
    try:
        made = _from_python(value, leaves, dtype)
    except OverflowError:
        beyond = next(x for x in leaves if not dtypes.fits(x, dtype))
        raise dtypes.does_not_fit(beyond, dtype, "dtype") from None
    except ValueError:
        message = "array: nested lists of different lengths have no shape"
        wanted = "lists of one length in each dimension"
        raise refusal(WeftValueError, message, "array", f"{value!r:.100}", wanted) from None
    return put(made, ArrayType(made.shape, dtype))


def _from_python(value: Any, leaves: Sequence[Any], dtype: Any) -> np.ndarray[Any, Any]:
    if dtype.kind in "iu" and any(isinstance(leaf, (float, np.inexact)) for leaf in leaves):
        return cast_values(np.asarray(value), dtype)
    with np.errstate(over="ignore"):
        return np.asarray(value, dtype)


def _pair_of(leaf: Any) -> tuple[Any, bool]:
    if isinstance(leaf, np.generic):
        return dtypes.canonical(leaf.dtype), False
    return dtypes.of_scalar(leaf), not isinstance(leaf, bool)


def _from_object(value: Any, dtype: Any) -> Any:
    """An object with one of the protocols of arrays."""
    if value is not None and not isinstance(value, (str, bytes, dict, set)):
        if hasattr(value, "__jax_array__"):
            type_of(value)  # from now on the class is known
            return _make(array_of_value(value), dtype)
        if hasattr(value, "__array__"):
            return _from_numpy(np.asarray(value), dtype)
        if hasattr(value, "__dlpack__"):
            return _make(from_dlpack(value), dtype)
        try:
            return _from_numpy(np.asarray(memoryview(value)), dtype)
        except TypeError:
            if isinstance(value, Sequence):  # a range, and classes of the user's
                return _from_sequence(list(value), dtype)
    message = f"array cannot be made of a value of class {type(value).__name__}"
    got = f"{value!r:.100}"
    wanted = "numbers, arrays, or nested lists of those"
    raise refusal(WeftArgumentError, message, "array", got, wanted)


@private_function
def _same_values(x: Prepared) -> Any:
    return x


def _copied(x: Any) -> Any:
    """A copy in another buffer; a traced value has no buffer."""
    return _same_values(x) if type(x) is Array and is_eager() else x


def _to_device(x: Any, device: Any) -> Any:
    """Puts an array on a device, or in a sharding, a spec over the current mesh, or a Format."""
    place, layout = as_format(device, "device", "the array", x.shape)
    if isinstance(x, Tracer):
        if isinstance(place, Sharding):
            x = constrain(x, place, "device", "the array")
        return constrain_layout(x, layout, "device", "the array")
    if isinstance(place, Sharding):
        place.check_shape("device", "the array", x.shape)
        place = unless_simulated(place)
    return to_format(x, place, layout)


def copy(a: Any, order: str | None = None) -> Array:
    """A copy of an array.

    order: "K" or "C"; arrays have no other order.

    >>> copy(array([1, 2]))
    Array([1, 2], dtype=int32)
    """
    check_arrays(a, operation="copy")
    return array(a, copy=True, order=order)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """The values of an array in another dtype (None: the default floating-point one).

    Of complex numbers only the real part is kept in a real dtype. copy: whether the result is a new
    array even if nothing changes.

    >>> astype(array([1.7, -1.7]), "int32")
    Array([ 1, -1], dtype=int32)
    """
    check_arrays(x, operation="astype")
    check_flag(copy, "copy", operation="astype")
    wanted = dtypes.default_float() if dtype is None else dtypes.requested(dtype)
    found = _make(x, wanted)
    if copy and found is x:
        found = _copied(found)
    return found if device is None else _to_device(found, device)


def from_dlpack(x: ArrayLike, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array that shares the memory of another library's array (DLPack), in its layout.

    x: an object with `__dlpack__`, such as an array of NumPy or PyTorch. `copy=True` makes a copy;
    `device` moves the result. A NumPy array that is read-only (NumPy exports no such), or not
    aligned as devices need it, is copied, in its layout too; with `copy=False` that is a
    WeftValueError. Raises WeftTypeError for what exports no memory.

    >>> from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    check_flag(copy, "copy", none=True, operation="from_dlpack")
    if type(x) is not Array:
        _check_exporter(x, copy)
        types: list[ArrayType] = []

        def make_type(shape: Any, dtype: Any) -> ArrayType:
            types.append(ArrayType(shape, dtype))
            return types[-1]

        if isinstance(x, np.ndarray) and not x.flags.writeable and copy is not False:
            x = x.copy(order="K")
        buffer = client.backend().from_dlpack(x, make_type)
        if isinstance(x, np.ndarray) and copy is not None and not copy:
            _check_address(x, client.backend().unsafe_pointer(buffer))
        # Another library's array may be column-major.
        layout = Layout(client.backend().layout(buffer).major_to_minor)
        made = Array(buffer, types[-1], signature_of(types[-1], None, layout))
        # jaxlib's copy of what is not aligned is row-major.
        order = _stored_order(x, layout) if isinstance(x, np.ndarray) else layout
        x = made if order is layout else to_format(made, None, order)
    found = _copied(x) if copy else x
    return found if device is None else _to_device(found, device)


def _check_exporter(x: Any, copy: bool | None) -> None:
    if isinstance(x, np.ndarray) and not x.flags.writeable and copy is not None and not copy:
        raise _copy_needed("a read-only NumPy array, which NumPy does not export")
    check_unmasked(x)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return
    message = f"from_dlpack: a {type(x).__name__} exports no memory through DLPack"
    got = f"{x!r:.80} of class {type(x).__name__}"
    wanted = "an array of another library, with the methods __dlpack__ and __dlpack_device__"
    fix = Fix("array", "copy its values into an array: weft.numpy.asarray(x)", {})
    raise refusal(WeftTypeError, message, "from_dlpack", got, wanted, fix)


def _check_address(x: np.ndarray[Any, Any], address: int) -> None:
    if x.size and address != x.ctypes.data:
        raise _copy_needed(f"a NumPy array at the address {x.ctypes.data:#x}, which is not aligned")


def _copy_needed(got: str) -> WeftValueError:
    message = "from_dlpack: copy=False, but this needs a copy"
    wanted = "memory that a device can use in place"
    fix = Fix("copy", "leave copy=False out", {"copy": None})
    return refusal(WeftValueError, message, "from_dlpack", f"copy=False for {got}", wanted, fix)


def _stored_order(x: np.ndarray[Any, Any], layout: Layout) -> Layout:
    """The layout of a dense NumPy array; `layout` where only dimensions of length 1 differ."""
    real = [d for d in layout.major_to_minor if x.shape[d] != 1]
    by_stride = sorted(real, key=lambda d: -x.strides[d])
    if x.size < 2 or by_stride == real:
        return layout
    return Layout((*(d for d in range(x.ndim) if x.shape[d] == 1), *by_stride))


def _constant(shape: tuple[int, ...], value: Any, dtype: Any, weak_type: bool = False) -> Any:
    """An array of one concrete number, weakly typed if that is a Python number."""
    scalar = dtype.type(value)
    size = 1
    for length in shape:
        if length < 0:
            raise ShapeError(
                "a length is negative", got=f"shape {shape}", wanted="lengths of at least 0"
            )
        size *= length
    if size <= _SMALL and is_eager():
        of = ArrayType(shape, dtype, weak_type)
        made = np.empty(shape, dtype)  # with fill, half the time of np.full
        made.fill(scalar)
        return put(made, of)
    number = scalar.item() if weak_type else scalar
    return broadcast_in_dim_p.bind(number, shape=shape, broadcast_dimensions=())


def _float_or(dtype: Any, operation: str) -> Any:
    if dtype is None:
        return dtypes.default_float()
    out = dtypes.requested(dtype)
    if dtypes.is_extended(out):
        message = f"{operation} makes no random keys"
        got = dtypes.short_name(out)
        fix = Fix("random_key", "make keys with weft.random.key and weft.random.split", {})
        raise refusal(DTypeError, message, operation, got, "a dtype of numbers or booleans", fix)
    return out


def _placed(found: Any, device: Any, out_sharding: Any = None) -> Any:
    """Places an array on a device or in a sharding, given by either name."""
    if device is None:
        device = out_sharding
    elif out_sharding is not None:
        message = "an array is placed by device= or by out_sharding=, not by both"
        fix = Fix("keyword", "leave out_sharding out", {"keyword": "out_sharding", "value": None})
        got = f"device={device} and out_sharding={out_sharding}"
        raise WeftValueError(message, got=got, wanted="one of them", fix=fix)
    return found if device is None else _to_device(found, device)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros, of the default floating-point dtype where none is given.

    >>> zeros(3)
    Array([0., 0., 0.], dtype=float32)
    """
    return _placed(
        _constant(shape_of(shape, "zeros"), 0, _float_or(dtype, "zeros")), device, out_sharding
    )


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones, of the default floating-point dtype where none is given.

    >>> ones((1, 2), "int8")
    Array([[1, 1]], dtype=int8)
    """
    return _placed(
        _constant(shape_of(shape, "ones"), 1, _float_or(dtype, "ones")), device, out_sharding
    )


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose elements may be anything; here they are zeros.

    >>> empty(2).shape
    (2,)
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of one value, or of values that broadcast to the shape.

    fill_value: a number, or an array that broadcasts to the shape. The dtype is by default that of
    the value, and weakly typed where the value is.

    >>> full((2,), 7, dtype="float32")
    Array([7., 7.], dtype=float32)
    """
    return _placed(
        _filled(shape_of(shape, "full"), fill_value, dtype, "full"), device, out_sharding
    )


def _filled(
    shape: tuple[int, ...], value: Any, dtype: Any, operation: str, weak: bool = False
) -> Any:
    if isinstance(value, (list, tuple)):
        value = array(value)
    wanted = None if dtype is None else dtypes.requested(dtype)
    if wanted is None:
        value = as_operand(operation, value)
    else:  # the given number is rounded to it once
        check_arrays(value, operation=operation)
    keys = wanted is not None and dtypes.is_extended(wanted)
    if keys and not dtypes.is_extended(type_of(value).dtype):
        message = f"{operation}: random keys are no numbers"
        got = f"fill_value={value!r:.60} and dtype {wanted}"
        raise refusal(DTypeError, message, operation, got, "keys as values, or another dtype=")
    number = isinstance(value, (bool, int, float, complex, np.generic))
    if number and wanted is not None:
        if not isinstance(value, np.generic):
            value = _real_if(value, wanted)
        if wanted in dtypes.INTEGER and isinstance(value, int) and dtypes.keeps_low_bits():
            value = dtypes.low_bits(value, wanted)
        return _constant(shape, _numbers(value, wanted)[()], wanted, weak)
    if wanted is not None:
        value = _in_dtype(value, wanted)
    elif number and not isinstance(value, np.generic) and is_eager() and prod(shape) <= _SMALL:
        of = type_of(value)
        made = _constant(shape, _numbers(value, of.dtype)[()], of.dtype, of.weak_type)
        return mark_rounded(made)
    return broadcasted(as_array(value) if is_eager() else value, shape, operation)


def _real_if(value: Any, dtype: Any) -> Any:
    return value.real if isinstance(value, complex) and dtype.kind not in "bc" else value


def _like(a: Any, dtype: Any, shape: Any, operation: str) -> tuple[tuple[int, ...], Any, bool]:
    """The shape, dtype and weak type of a `…_like` function."""
    of = getattr(a, "type", None)
    if type(of) is not ArrayType:
        numpy_value = isinstance(a, np.generic | np.ndarray)
        if not numpy_value and hasattr(a, "shape") and hasattr(a, "dtype"):
            of = ArrayType(a.shape, a.dtype)
        else:
            of = type_of(as_operand(operation, a))
    found = of.shape if shape is None else shape_of(shape, operation)
    if dtype is not None:
        return found, dtypes.requested(dtype), False
    weak = of.weak_type and of.dtype == dtypes.of_scalar(of.dtype.type(0).item())
    return found, of.dtype, weak


def _placed_like(a: Any, made: Array, device: Any, out_sharding: Any) -> Array:
    """Places an array as asked for, or where `a` is committed to."""
    said = device is not None or out_sharding is not None
    return _placed(made, device if said else place_of(a, made), out_sharding)


def zeros_like(
    a: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of zeros of the shape and dtype of another one, in the place it is committed to.

    Of random keys only under the setting `argument_rule="jax"`: keys whose bits are zeros.

    >>> zeros_like(array([1, 2]))
    Array([0, 0], dtype=int32)
    """
    return _number_like(a, dtype, shape, "zeros_like", 0, device, out_sharding)


def _number_like(
    a: Any, dtype: Any, shape: Any, operation: str, value: int, device: Any, out_sharding: Any
) -> Array:
    found, wanted, weak = _like(a, dtype, shape, operation)
    if dtypes.is_extended(wanted) and config.lenient():
        bits = _constant((*found, *wanted.key_shape), value, dtypes.uint32, False)
        made = wrap_key_bits(bits, wanted)
    else:
        made = _constant(found, value, _float_or(wanted, operation), weak)
    return _placed_like(a, made, device, out_sharding)


def ones_like(
    a: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of ones of the shape and dtype of another one, in the place it is committed to.

    >>> ones_like(array([1.5, 2]))
    Array([1., 1.], dtype=float32)
    """
    return _number_like(a, dtype, shape, "ones_like", 1, device, out_sharding)


def empty_like(
    prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None
) -> Array:
    """An array of the shape and dtype of another one, whose elements may be anything.

    prototype: the array whose shape and dtype are taken where no others are given.

    >>> empty_like(array([1, 2])).dtype
    dtype('int32')
    """
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(
    a: ArrayLike,
    fill_value: Any,
    dtype: Any = None,
    shape: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of one value (or of values that broadcast) of the shape and dtype of another one.

    fill_value: a number, or an array that broadcasts to the shape. It lies where the other one is
    committed to, unless `device` says otherwise.

    >>> full_like(array([1, 2]), 7)
    Array([7, 7], dtype=int32)
    """
    found, wanted, weak = _like(a, dtype, shape, "full_like")
    made = _filled(found, fill_value, wanted, "full_like", weak)
    return _placed_like(a, made, device, out_sharding)
