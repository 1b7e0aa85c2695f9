"""`Array`: values on a device, with the operators and methods of NumPy's arrays.

An array wraps one buffer of the runtime together with its type. Its `signature` is what caches of
compiled programs key on: the type itself for an array on the default device, and a tuple of type
and device for one that was put somewhere on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from weft import dtypes
from weft import source as sources
from weft.core.operators import ArrayOperators, implementations
from weft.core.rules import LinearOperand, not_linear
from weft.core.trace import Tracer
from weft.core.types import ArrayType, Typed, register_type_of, type_of
from weft.errors import DeletedArrayError, Fix, WeftTypeError, WeftValueError
from weft.runtime import buffers, client
from weft.sharding import SingleDeviceSharding

__all__ = ["Array", "as_array", "put", "scalar_array"]


class _ArrayMeta(type):
    """Makes tracers instances of `Array`: code that asks is about to do array work."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) is cls or isinstance(value, Tracer)


class Array(Typed, ArrayOperators, metaclass=_ArrayMeta):
    """An array of numbers, booleans or random keys on a device; it cannot be changed in place.

    Arrays are made by functions (`weft.numpy.array`, `weft.device_put` and results of others), not
    by calling this class.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_donated_at",
        "_host",
        "_remembered",
        "signature",
        "type",
    )

    type: ArrayType
    signature: Any
    _host: np.ndarray[Any, Any]
    _donated_at: sources.Source | None
    _remembered: bool

    def __init__(self, buffer: Any, type: ArrayType, signature: Any) -> None:
        self._buffer = buffer
        self.type = type
        self.signature = signature

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.type.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self.itemsize * self.type.size

    @property
    def device(self) -> Any:
        """The device that holds the array."""
        return buffers.device_of(self._live())

    @property
    def sharding(self) -> SingleDeviceSharding:
        """Where the array lies."""
        return SingleDeviceSharding(self.device)

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        return {self.device}

    @property
    def committed(self) -> bool:
        """Whether the array was put on its device on purpose."""
        return self.signature is not self.type

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return implementations.array_namespace(api_version)

    # ---- its values ---------------------------------------------------------------------------

    def _live(self) -> Any:
        """The buffer. Raises DeletedArrayError where it is gone."""
        if buffers.is_deleted(self._buffer):
            raise deleted(self)
        return self._buffer

    def _value(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array, waited for and kept."""
        try:
            return self._host
        except AttributeError:
            pass
        if not isinstance(self.type.dtype, np.dtype):
            raise WeftTypeError(
                f"an array of dtype {self.type.dtype} has no numbers to show",
                operation="conversion to a NumPy array",
                got=str(self.type),
                wanted="a numeric or boolean dtype; weft.random.key_data gives the bits of keys",
            )
        self._host = buffers.to_numpy(self._live())
        return self._host

    def concrete(self) -> Array:
        """The array itself: its values are known."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self._value()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise ValueError(f"converting {value.dtype} to {np.dtype(dtype)} needs a copy")
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack__(self, **options: Any) -> Any:
        return buffers.to_dlpack(self._live(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = buffers.device_of(self._live())
        return (1, 0) if device.platform == "cpu" else (2, int(device.id))

    def item(self, *index: int) -> Any:
        """One element as a Python number: the only one, or the one at `index`."""
        return self._value().item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._value().tolist()

    def _scalar(self, convert: str) -> Any:
        if self.type.size != 1 or self.type.ndim:
            raise WeftTypeError(
                f"{convert}() takes an array without dimensions",
                operation=f"{convert}()",
                got=str(self.type),
                wanted="an array without dimensions",
                fix=Fix("item", "use x.item()")
                if self.type.size == 1
                else Fix("index", f"take one element, for example {convert}(x[0])"),
            )
        return self._value()[()]

    def __bool__(self) -> bool:
        if self.type.size != 1:
            raise WeftValueError(
                f"the truth of an array of {self.type.size} elements is ambiguous",
                operation="bool()",
                got=str(self.type),
                wanted="an array of one element",
                fix=Fix("any", "use x.any() or x.all()"),
            )
        return bool(self._value().reshape(())[()])

    def __int__(self) -> int:
        return int(self._scalar("int").item())

    def __float__(self) -> float:
        return float(self._scalar("float").item())

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.type.dtype not in dtypes.INTEGER or self.type.ndim:
            raise WeftTypeError(
                "only an integer array without dimensions is an index or a length",
                operation="conversion to an index",
                got=str(self.type),
                wanted="an integer array without dimensions",
            )
        return int(self._value()[()])

    def __len__(self) -> int:
        if not self.type.shape:
            raise WeftTypeError(
                "an array without dimensions has no length", operation="len()", got=str(self.type)
            )
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.type.shape:
            raise WeftTypeError(
                "an array without dimensions has no elements to iterate over",
                operation="iteration",
                got=str(self.type),
            )
        return (self[i] for i in range(self.type.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        dtype = dtypes.short_name(self.type.dtype)
        if isinstance(self.type.dtype, np.dtype):
            dtype = self.type.dtype.name
        if self.is_deleted():
            return f"Array(deleted, shape={self.shape}, dtype={dtype})"
        if not isinstance(self.type.dtype, np.dtype):
            head = f"Array(shape={self.shape}, dtype={dtype}, bits="
            bits = np.array2string(buffers.to_numpy(self._live()), separator=", ", prefix=head)
            return f"{head}{bits})"
        weak = ", weak_type=True" if self.type.weak_type else ""
        text = np.array2string(self._value(), separator=", ", prefix="Array(")
        if self.type.size == 0:
            text = f"[], shape={self.shape}"
        return f"Array({text}, dtype={dtype}{weak})"

    def __str__(self) -> str:
        if not isinstance(self.type.dtype, np.dtype):
            return repr(self)
        return str(self._value())

    def __format__(self, spec: str) -> str:
        if self.type.ndim == 0 and isinstance(self.type.dtype, np.dtype):
            return format(self._value()[()].item(), spec)
        return format(str(self), spec)

    # ---- its life -----------------------------------------------------------------------------

    def block_until_ready(self) -> Array:
        """Waits until the values are computed; answers with the array."""
        buffers.block_until_ready([self._live()])
        return self

    def is_ready(self) -> bool:
        """Whether the values are computed."""
        return buffers.is_ready(self._live())

    def copy_to_host_async(self) -> None:
        """Starts the transfer to the host, for a later conversion to NumPy."""
        buffers.copy_to_host_async(self._live())

    def delete(self) -> None:
        """Frees the buffer at once; using the array afterwards is an error."""
        buffers.delete(self._buffer)

    def is_deleted(self) -> bool:
        """Whether the buffer is gone: deleted, or donated to a jitted function."""
        return buffers.is_deleted(self._buffer)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element."""
        return buffers.unsafe_pointer(self._live())

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return _unpickle(np.array(buffers.to_numpy(self._live())), self.type)

    def __reduce__(self) -> tuple[Any, ...]:
        # What is stored: of random keys, their bits.
        return _unpickle, (np.array(buffers.to_numpy(self._live())), self.type)


def _unpickle(stored: np.ndarray[Any, Any], type: ArrayType) -> Array:
    array = put(stored, ArrayType(stored.shape, stored.dtype))
    return Array(array._buffer, type, type)


def deleted(array: Array) -> DeletedArrayError:
    """The error for an array whose buffer is gone."""
    try:
        where = f"it was donated at {sources.describe(array._donated_at)}"
    except AttributeError:
        where = "it was deleted"
    return DeletedArrayError(
        f"this array of type {array.type} has been deleted: {where}",
        got=f"a deleted array of type {array.type}",
        wanted="an array that was not donated to a jitted function before",
    )


def put(
    value: np.ndarray[Any, Any], type: ArrayType, device: Any = None, copy: bool = True
) -> Array:
    """Copies a NumPy array of the type's dtype to a device (None: the default one).

    With `copy=False` the device may read the array's own memory from now on.
    """
    if device is None:
        backend_device = client.backend().default_device
        return Array(buffers.put(value, type, backend_device, copy=copy), type, type)
    return Array(buffers.put(value, type, device, copy=copy), type, (type, device))


_NUMBERS = (bool, int, float, complex, np.generic)
_scalars: dict[Any, Array] = {}
client.on_change(_scalars.clear)


def scalar_array(value: Any, type: ArrayType) -> Array:
    """A number as an array, remembered: programs use the same few numbers again and again."""
    # Equal numbers of one type are the same number, but for the sign of a zero: text tells those.
    key = (type, value if value and type.dtype.kind != "c" else str(value))
    found = _scalars.get(key)
    if found is None or found.is_deleted():
        if len(_scalars) > 512:
            _scalars.clear()
        with np.errstate(all="ignore"):  # 1e300 in float32 is infinity
            found = put(np.asarray(value, type.dtype), type)
        if value == value:  # NaN is no key
            _scalars[key] = found
            found._remembered = True
    return found


def donatable(value: Any, type: ArrayType) -> Array:
    """An array whose buffer a program may take: never one that stands for a number elsewhere."""
    array = array_of(value, type) if not isinstance(value, Array) else value
    if not array.type.shape and getattr(array, "_remembered", False):
        return put(np.array(array._value()), array.type)
    return array


def as_array(value: Any) -> Array:
    """Any number or NumPy array as an array on the default device; arrays stay what they are.

    Raises WeftTypeError for anything that is no array.
    """
    return value if type(value) is Array else array_of(value, type_of(value))


def array_of(value: Any, of: ArrayType) -> Array:
    """A number or NumPy array as an array of the type that `type_of` says it has."""
    if isinstance(value, _NUMBERS):
        return scalar_array(value, of)
    if isinstance(value, LinearOperand):
        raise not_linear(value)
    array = np.asarray(value)
    if array.dtype != of.dtype:
        return put(_narrow(array, of.dtype), of, copy=False)
    return put(array, of)


def _narrow(value: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """A NumPy array in the default width. Raises OverflowError for an integer that does not fit."""
    if dtype.kind in "iu" and value.size:
        info = np.iinfo(dtype)
        low, high = value.min(), value.max()
        if low < info.min or high > info.max:
            raise OverflowError(
                f"the integers {low} to {high} do not fit in {dtype.name}; give the array an "
                "explicit dtype, or set enable_x64"
            )
    return value.astype(dtype)


register_type_of(Array, lambda value: value.type)
