"""`Array`: values on devices, with the operators and methods of NumPy's arrays.

An array wraps one buffer of the runtime together with its type. Caches of executables key on its
`signature`: the type itself for an uncommitted array, and for a committed one a tuple of the type
and a device, or the canonical sharding over several. Where the elements are not in row-major order,
the tuple has the layout as its third entry (and None as the second one for an uncommitted array).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from weft import config, dtypes
from weft.arrays.host_values import host_values
from weft.arrays.shards import Shard, gather_blocks, move, parts_of, put_blocks, relayout, shares
from weft.arrays.texts import array_repr, array_str
from weft.arrays.transfers import Uncommitted, default_place, guard
from weft.base import source as sources
from weft.base.notebooks import ShownInNotebooks
from weft.base.program_caches import on_clear
from weft.core.operators import ArrayOperators
from weft.core.trace import Tracer
from weft.core.types import ArrayType, Typed, register_type_of
from weft.errors import DeletedArrayError, Fix, WeftIndexError, WeftTypeError, WeftValueError
from weft.runtime import client
from weft.sharding import Format, Layout, Sharding, SingleDeviceSharding
from weft.sharding.layout import unless_row_major

__all__ = [
    "Array", "Shard", "array_at", "as_stored", "deleted", "donate_to_place", "host_values", "put",
    "signature_of", "to_format", "to_layout", "to_place",
]  # fmt: skip


class _ArrayMeta(type):
    """Makes tracers instances of `Array`, and their classes subclasses of it for
    `functools.singledispatch`: code that asks is about to do array work."""

    def __instancecheck__(cls, value: Any) -> bool:
        return type(value) is cls or isinstance(value, Tracer)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return super().__subclasscheck__(subclass) or issubclass(subclass, Tracer)


class Array(Typed, ArrayOperators["Array"], ShownInNotebooks, metaclass=_ArrayMeta):
    """An array of numbers, booleans or random keys; it cannot be changed in place.

    buffer: the runtime's own array, with the elements; type: the shape, dtype and weak type;
    signature: the type, or a tuple of the type, the place that the array is committed to, and the
    layout.

    It is on one device or spread over several, in row-major or another order (see `format`). Arrays
    are made by functions (`weft.numpy.array`, `weft.device_put` and results of others), not by
    calling this class. A deep copy has the same sharding and layout; a pickled array comes back in
    its layout on the default device. Computed results are in row-major order, unless you ask for
    another layout.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_donated_at",
        "_host",
        "_remembered",
        "_rounding",
        "_spelling",
        "signature",
        "type",
    )

    type: ArrayType
    signature: Any
    _host: np.ndarray[Any, Any]
    _donated_at: sources.Source | None
    _remembered: bool
    _rounding: Any  # where the default width has rounded its values: see weft.arrays.conversion
    _spelling: Sharding  # as its user wrote it, where the canonical one is another

    def __init__(self, buffer: Any, type: ArrayType, signature: Any) -> None:
        self._buffer = buffer
        self.type = type
        self.signature = signature

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def aval(self) -> ArrayType:
        """The type of the array."""
        return self.type

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.type.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self.itemsize * self.type.size

    def _committed_place(self) -> Any:
        """The device or sharding that the array is committed to; None for an uncommitted array."""
        place = self._kept_place()
        return None if type(place) is Uncommitted else place

    def _kept_place(self) -> Any:
        """The place in the signature, also that of an uncommitted array elsewhere."""
        signature = self.signature
        return None if signature is self.type else signature[1]

    def _shown_place(self) -> Any:
        """The same, with the sharding as its user wrote it."""
        return getattr(self, "_spelling", None) or self._committed_place()

    def _place(self) -> Any:
        """The device, or the sharding over several, that holds the array."""
        place = self._committed_place()
        return client.backend().device_of(self._live()) if place is None else place

    def _layout(self) -> Layout | None:
        """The layout; None for the row-major one."""
        signature = self.signature
        if signature is self.type or len(signature) == 2:
            return None
        layout: Layout = signature[2]
        return layout

    @property
    def device(self) -> Any:
        """The device that holds the array; the sharding, where there are several."""
        place = self._shown_place() or self._place()
        if isinstance(place, Sharding) and place.num_devices == 1:
            return place.device_list[0]
        return place

    @property
    def sharding(self) -> Sharding:
        """The sharding of the array."""
        place = self._shown_place() or self._place()
        return place if isinstance(place, Sharding) else SingleDeviceSharding(place)

    @property
    def format(self) -> Format:
        """The format of the array: its layout and its sharding.

        >>> import weft.numpy as jnp
        >>> jnp.zeros((2, 3)).format.layout
        Layout(major_to_minor=(0, 1))
        """
        return Format(self._layout() or Layout(range(self.type.ndim)), self.sharding)

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        place = self._place()
        return set(place.device_list) if isinstance(place, Sharding) else {place}

    @property
    def num_devices(self) -> int:
        """How many devices hold the array or a part of it."""
        return self.sharding.num_devices

    @property
    def committed(self) -> bool:
        """Whether the array is committed: its user chose the devices that it is on."""
        return self._committed_place() is not None

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all of its devices belong to this process."""
        return self.sharding.is_fully_addressable

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array that are on devices of this process, in the sharding's order."""
        return [shard for shard in self.global_shards if shard.data is not None]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on all of its devices, in the sharding's order."""
        sharding = self.sharding
        here = {device: n for n, device in enumerate(parts_of(self._place(), self.type).devices)}
        indices = sharding.devices_indices_map(self.shape)
        copies: dict[tuple[int, ...], int] = {}
        out = []
        for (device, index), block in zip(
            indices.items(), sharding.block_coordinates(self.ndim).tolist(), strict=True
        ):
            replica = copies.get(tuple(block), 0)
            copies[tuple(block)] = replica + 1
            data = self.addressable_data(here[device]) if device in here else None
            out.append(Shard(device, index, replica, data))
        return out

    def addressable_data(self, index: int) -> Array:
        """The part on this process's device number `index`, as an array on that device.

        Its memory is that of the whole array. Raises WeftIndexError if there is no such device.
        """
        parts = parts_of(self._place(), self.type)
        if not -len(parts.devices) <= index < len(parts.devices):
            message = f"the array has parts on {len(parts.devices)} devices of this process"
            wanted = f"an index below {len(parts.devices)}"
            fix = Fix("index", "use index 0", {"index": 0})
            raise WeftIndexError(
                message, operation="addressable_data", got=f"index {index}", wanted=wanted, fix=fix
            )
        device = parts.devices[index]
        buffer = client.backend().shards(self._live())[index]
        return Array(
            buffer, parts.block_type, signature_of(parts.block_type, device, self._layout())
        )

    # ---- its values ---------------------------------------------------------------------------

    def _live(self) -> Any:
        """The buffer. Raises DeletedArrayError if it is gone."""
        if client.backend().is_deleted(self._buffer):
            raise deleted(self)
        return self._buffer

    def _value(self) -> np.ndarray[Any, Any]:
        """The values as a read-only NumPy array, waited for and cached."""
        try:
            return self._host
        except AttributeError:
            pass
        if not isinstance(self.type.dtype, np.dtype):
            message = f"an array of dtype {self.type.dtype} has no numbers to show"
            wanted = "a numeric or boolean dtype; weft.random.key_data gives the bits of keys"
            raise WeftTypeError(
                message, operation="conversion to a NumPy array", got=str(self.type), wanted=wanted
            )
        self._host = self._stored()
        return self._host

    def _stored(self) -> np.ndarray[Any, Any]:
        """The stored values, for random keys their bits, as a read-only NumPy array."""
        buffer = self._live()
        place = self._committed_place()
        if config.guarding and client.backend().platform != "cpu":
            guard("device_to_host", self.type, place)
        if isinstance(place, Sharding):
            return gather_blocks(buffer, parts_of(place, self.type))
        return client.backend().to_numpy(buffer)

    def _single(self, operation: str) -> Any:
        """The buffer on the only device. Raises WeftValueError if there are several."""
        if not isinstance(self._committed_place(), Sharding):
            return self._live()
        (first, *others) = client.backend().shards(self._live())
        if others or self.num_devices > 1:
            message = f"{operation}: the array lies on {self.num_devices} devices"
            got = f"{self.type} with {self.sharding}"
            wanted = "an array on one device"
            fix = Fix(
                "addressable_data",
                "take one part, such as x.addressable_data(0), or bring all of it to one "
                "device with weft.device_put",
                {"index": 0},
            )
            raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
        return first

    def concrete(self) -> Array:
        """The array itself: its values are known."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        value = self._value()
        if dtype is not None and np.dtype(dtype) != value.dtype:
            if copy is False:
                raise WeftValueError(
                    f"converting {value.dtype} to {np.dtype(dtype)} needs a copy",
                    operation="__array__",
                    got=f"copy=False, dtype={np.dtype(dtype).name!r} for {self.type}",
                    wanted=f"copy=None, or dtype={value.dtype.name!r}",
                    fix=Fix("copy", "leave copy=False out", {"copy": None}),
                )
            return value.astype(dtype)
        return value.copy() if copy else value

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        # Whatever version a consumer knows, it reads capsules without one.
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(
                f"an array at {self.__dlpack_device__()} is not exported to {tuple(dl_device)}: "
                "move it first, x.to_device(device)"
            )
        shared = self.copy() if copy else self
        return client.backend().to_dlpack(shared._single("dlpack"), stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = client.backend().device_of(self._single("dlpack"))
        return (1, 0) if device.platform == "cpu" else (2, int(device.id))

    def item(self, *index: int) -> Any:
        """One element as a Python number: the only one, or the one at `index`."""
        return self._value().item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._value().tolist()

    def tobytes(self, order: Literal["C", "F", "A", "K"] = "C") -> bytes:
        """The bytes of the elements, one after the other.

        order: "C" for the last index fastest, "F" for the first; others as in NumPy.
        """
        return self._value().tobytes(order)

    def _scalar(self, convert: str) -> Any:
        if self.type.size != 1 or self.type.ndim:
            fix = None
            if self.type.size == 1:
                fix = Fix("item", f"use {convert}(x.item())")
            elif self.type.size:
                first = ", ".join("0" * self.type.ndim)
                fix = Fix("index", f"take one element, for example {convert}(x[{first}])")
            message, got = f"{convert}() takes an array without dimensions", str(self.type)
            wanted = "an array without dimensions"
            raise WeftTypeError(message, operation=f"{convert}()", got=got, wanted=wanted, fix=fix)
        return self._value()[()]

    def __bool__(self) -> bool:
        if self.type.size != 1:
            message = f"the truth of an array of {self.type.size} elements is ambiguous"
            got = str(self.type)
            wanted = "an array of one element"
            fix = Fix("any", "use x.any() or x.all()")
            raise WeftValueError(message, operation="bool()", got=got, wanted=wanted, fix=fix)
        return bool(self._value().reshape(())[()])

    def __int__(self) -> int:
        return int(self._scalar("int").item())

    def __float__(self) -> float:
        return float(self._scalar("float").item())

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.type.dtype not in dtypes.INTEGER or self.type.ndim:
            message = "only an integer array without dimensions is an index or a length"
            got = str(self.type)
            wanted = "an integer array without dimensions"
            raise WeftTypeError(message, operation="conversion to an index", got=got, wanted=wanted)
        return int(self._value()[()])

    def __len__(self) -> int:
        if not self.type.shape:
            raise WeftTypeError(
                "an array without dimensions has no length", operation="len()", got=str(self.type)
            )
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.type.shape:
            message = "an array without dimensions has no elements to iterate over"
            raise WeftTypeError(message, operation="iteration", got=str(self.type))
        return (self[i] for i in range(self.type.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __repr__(self) -> str:
        return array_repr(self)

    def _is_whole(self) -> bool:
        """Whether the devices of this process hold all of the values."""
        return parts_of(self._place(), self.type).complete

    def __str__(self) -> str:
        return array_str(self)

    def __format__(self, spec: str) -> str:
        if self.type.ndim == 0 and isinstance(self.type.dtype, np.dtype):
            return format(self._value()[()].item(), spec)
        return format(str(self), spec)

    # ---- its life -----------------------------------------------------------------------------

    def block_until_ready(self) -> Array:
        """Waits until the values are computed, and returns the array."""
        client.backend().block_until_ready([self._live()])
        return self

    def is_ready(self) -> bool:
        """Whether the values are computed."""
        return client.backend().is_ready(self._live())

    def copy_to_host_async(self) -> None:
        """Starts the transfer to the host, for a later conversion to NumPy."""
        shards = client.backend().shards(self._live())
        for number in parts_of(self._place(), self.type).holders:
            client.backend().copy_to_host_async(shards[number])

    def delete(self) -> None:
        """Frees the buffer at once; using the array afterwards is an error."""
        client.backend().delete(self._buffer)

    def is_deleted(self) -> bool:
        """Whether the buffer is gone: deleted, or donated to a jitted function."""
        return client.backend().is_deleted(self._buffer)

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element. Raises WeftValueError for several devices."""
        return client.backend().unsafe_pointer(self._single("unsafe_buffer_pointer"))

    def __copy__(self) -> Array:
        return self.__deepcopy__(None)  # The copy stays when the array is donated.

    def __deepcopy__(self, memo: Any) -> Array:
        place = self._shown_place()
        if place is None:
            return as_stored(np.array(self._stored()), self.type, layout=self._layout())
        return to_place(self, place, copy=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # The devices are those of this process, and mean nothing to another one.
        return as_stored, (np.array(self._stored()), self.type, None, self._layout())

    def _give_up(self, shared: bool) -> None:
        """Makes the array a deleted one; shared memory stays for the others."""
        self._donated_at = sources.current()
        if shared:
            self._buffer = _deleted_buffer()
        else:
            self.delete()


def deleted(array: Array) -> DeletedArrayError:
    """The error for an array whose buffer is gone.

    array: The array that was deleted or donated.
    """
    text = "use the result of the call that it was donated to, or donate a copy of it: x.copy()"
    try:
        where = f"it was donated at {sources.describe(array._donated_at)}"
    except AttributeError:
        where = "it was deleted, or it shared the memory of an array that was deleted or donated"
        text = "make a copy before that, x.copy(), and use it here"
    message = f"this array of type {array.type} has been deleted: {where}"
    wanted = "an array that was not donated to a jitted function before"
    got = f"a deleted array of type {array.type}"
    return DeletedArrayError(message, got=got, wanted=wanted, fix=Fix("copy", text))


def signature_of(type: ArrayType, place: Any, layout: Layout | None) -> Any:
    """The signature of an array of this type and layout, committed to `place` unless it is None.

    layout: The array's layout; None for row-major.
    """
    if isinstance(place, Sharding):
        place = place.canonical
    elif isinstance(place, Uncommitted):
        place = place.unless_first
    if unless_row_major(layout) is None:
        return type if place is None else (type, place)
    return type, place, layout


def array_at(buffer: Any, type: ArrayType, place: Any, layout: Layout | None = None) -> Array:
    """The array of a buffer at `place`, which it shows as it is written."""
    made = Array(buffer, type, signature_of(type, place, layout))
    if isinstance(place, Sharding) and place.canonical is not place:
        made._spelling = place
    return made


def _with_place(array: Array, place: SingleDeviceSharding) -> Array:
    """The array of the same buffer with another sharding of its device."""
    made = Array(array._buffer, array.type, array.signature)
    if place.canonical is not place:
        made._spelling = place
    return made


def put(
    value: np.ndarray[Any, Any], type: ArrayType, place: Any = None, copy: bool = True
) -> Array:
    """Copies a NumPy array of the type's dtype to a device (None: the default one) or a sharding.

    With `copy=False` the devices may read the array's own memory from now on. Raises ShapeError if
    the sharding cannot split the array.

    value: The NumPy array. place: The device or sharding; None for the default device.
    """
    if config.guarding:
        guard("host_to_device", type, place)
    if place is None and config.settings_in_keys:
        place = default_place()
    if type.dtype == dtypes.float0:  # There are no elements: booleans hold the shape.
        held = put(np.zeros(type.shape, np.bool_), ArrayType(type.shape, np.bool_), place)
        return Array(held._buffer, type, signature_of(type, place, None))
    if place is None:
        return Array(client.backend().put(value, type, copy=copy), type, type)
    if isinstance(place, SingleDeviceSharding):
        return _with_place(put(value, type, place.device, copy), place)
    if isinstance(place, Sharding):
        return array_at(put_blocks(value, type, place, copy), type, place)
    device = place.device if isinstance(place, Uncommitted) else place
    return Array(client.backend().put(value, type, device, copy=copy), type, (type, place))


def as_stored(
    values: np.ndarray[Any, Any],
    type: ArrayType,
    place: Any = None,
    layout: Layout | None = None,
    copy: bool = True,
) -> Array:
    """The array of a type that is stored as these values: of random keys, their bits. See `put`
    for `copy`.

    values: The NumPy array, of the type as stored. place: The device or sharding; None for the
    default device. layout: The order of the dimensions in memory; None for row-major.
    """
    if isinstance(place, Sharding):
        return to_layout(put(values, type, place, copy), layout)
    made = put(values, ArrayType(values.shape, values.dtype), place, copy)
    return to_layout(
        Array(made._buffer, type, signature_of(type, made._kept_place(), None)), layout
    )


def to_place(array: Array, place: Any, copy: bool = False) -> Array:
    """An array committed to `place`, a device or a sharding; the array itself if it is there
    already.

    It keeps its layout. Both arrays share memory that is in the right place already, unless `copy`.
    Raises ShapeError if the sharding cannot split the array.

    array: An array of weft.
    """
    if array._shown_place() == place and not copy:
        return array
    if isinstance(place, SingleDeviceSharding):
        there = to_place(array, place.device, copy)
        return there if place.canonical is place else _with_place(there, place)
    if config.guarding:
        guard("device_to_device", array.type, place)
    layout = array._layout()
    buffer = move(array._live(), array.type, array._place(), place, copy, layout)
    return array_at(buffer, array.type, place, layout)


def to_layout(array: Array, layout: Layout | None) -> Array:
    """An array in another layout (None: row-major), with its sharding; the array itself if it has
    that layout.
    """
    layout = unless_row_major(layout)
    old = array._layout()
    if old is layout:
        return array
    place = array._place()
    buffer = relayout(array._live(), parts_of(place, array.type), old, layout)
    return array_at(buffer, array.type, array._shown_place() or array._kept_place(), layout)


def to_format(array: Array, place: Any, layout: Layout | None, copy: bool = False) -> Array:
    """An array committed to `place` and in a layout; None for what stays as it is.

    array: An array of weft. layout: The wanted layout. copy: Whether the result must have memory of
    its own.
    """
    if place is not None:
        array = to_place(array, place, copy)
    return array if layout is None else to_layout(array, layout)


def donate_to_place(array: Array, place: Any) -> Array:
    """Like `to_place`, and the array is deleted.

    array: The array, which cannot be used afterwards. place: A device or a sharding.
    """
    if isinstance(place, SingleDeviceSharding):
        place = place.device
    source, layout = array._place(), array._layout()
    buffer = move(array._live(), array.type, source, place, layout=layout)
    array._give_up(shares(array.type, source, place))
    return array_at(buffer, array.type, place, layout)


_gone: list[Any] = []
on_clear(_gone.clear)


def _deleted_buffer() -> Any:
    if not _gone:
        _gone.append(put(np.zeros((), np.bool_), ArrayType((), np.bool_))._buffer)
        client.backend().delete(_gone[0])
    return _gone[0]


register_type_of(Array, lambda value: value.type)
