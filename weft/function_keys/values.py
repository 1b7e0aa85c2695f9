"""What stands in a key for numbers, text, NumPy's values and collections: their class and content,
as it is now.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import hashlib
import pathlib
import struct
import types
import weakref
from collections.abc import Hashable
from typing import Any

import numpy as np

from weft.function_keys.snapshot import NoKey, Reading, Snapshot

__all__ = ["changeable"]

# Content of more bytes is not copied into a key.
MOST_BYTES = 65536
# A digest of so many bytes takes 2 ms, and a first trace is preceded and followed by one. Of larger
# arrays it would cost more than the trace that it may save.
MOST_DIGESTED_BYTES = 1 << 22
ABSENT = ("absent",)

_pack_float = struct.Struct("d").pack
_pack_complex = struct.Struct("dd").pack


def boolean(snapshot: Snapshot, value: bool) -> Hashable:
    return ("bool", value)


def integer(snapshot: Snapshot, value: int) -> Hashable:
    return ("int", int.__index__(value))


def real(snapshot: Snapshot, value: float) -> Hashable:
    # The bits: zeros of either sign differ, and NaN is like itself.
    return ("float", _pack_float(value))


def complex_number(snapshot: Snapshot, value: complex) -> Hashable:
    return ("complex", _pack_complex(value.real, value.imag))


def string(snapshot: Snapshot, value: str) -> Hashable:
    if len(value) > MOST_BYTES:
        raise NoKey("a very long string")
    return ("str", str.__str__(value))


def byte_string(snapshot: Snapshot, value: bytes | bytearray) -> Hashable:
    if len(value) > MOST_BYTES:
        raise NoKey("very many bytes")
    if isinstance(value, bytearray):
        snapshot.witness(value, len(snapshot.guards))
        return ("bytearray", bytes(value))
    return ("bytes", bytes(value))


def slice_(snapshot: Snapshot, value: slice) -> Hashable:
    return ("slice", snapshot.parts((value.start, value.stop, value.step)))


def range_(snapshot: Snapshot, value: range) -> Hashable:
    return ("range", value.start, value.stop, value.step)


def enumeration(snapshot: Snapshot, value: enum.Enum) -> Hashable:
    return ("enum", snapshot.identity(value), snapshot.part(value._value_))


def path(snapshot: Snapshot, value: pathlib.PurePath) -> Hashable:
    # By their text: their attributes are filled in as they are asked for.
    return ("path", snapshot.identity(type(value)), str(value))


def reference(snapshot: Snapshot, value: weakref.ref[Any]) -> Hashable:
    return ("reference", snapshot.part(value()))


def context_variable(snapshot: Snapshot, value: contextvars.ContextVar[Any]) -> Hashable:
    try:
        now = value.get()  # its default where it was not set
    except LookupError:
        return (snapshot.identity(value), ABSENT)
    return (snapshot.identity(value), snapshot.part(now))


def operator_(snapshot: Snapshot, value: Any) -> Hashable:
    """`operator.itemgetter` and its like, which tell what they were made of."""
    return ("operator", snapshot.parts(value.__reduce__()))


def identity(snapshot: Snapshot, value: Any) -> Hashable:
    """For what cannot change."""
    return snapshot.identity(value)


def refuse(snapshot: Snapshot, value: Any) -> Hashable:
    """For what can change unseen."""
    raise NoKey(f"an object of class {type(value).__name__}, which can change unseen")


# ---- NumPy -------------------------------------------------------------------------------------


def numpy_dtype(snapshot: Snapshot, value: np.dtype[Any]) -> Hashable:
    return ("dtype", value)


def numpy_scalar(snapshot: Snapshot, value: np.generic) -> Hashable:
    if value.dtype.hasobject or value.nbytes > MOST_BYTES:
        raise NoKey("a NumPy scalar whose content is not looked at")
    return ("scalar", value.dtype, value.tobytes())


def numpy_array(snapshot: Snapshot, value: np.ndarray[Any, Any]) -> Hashable:
    if value.dtype.hasobject:
        raise NoKey("a NumPy array of objects, which can change unseen")
    if value.nbytes > MOST_DIGESTED_BYTES:
        raise NoKey(
            f"a NumPy array of {value.nbytes >> 20} MiB, too large to look for changes in it each "
            "time (an array of weft's cannot change)"
        )
    if value.nbytes > MOST_BYTES:
        # By identity too, so that the trace, which has a copy, goes when the array does.
        content = np.ascontiguousarray(value).view(np.uint8).data
        snapshot.digests.append(hashlib.sha256(content).digest())
        return ("large array", snapshot.identity(value), value.dtype, value.shape)
    snapshot.witness(value, len(snapshot.guards))
    return ("array", value.dtype, value.shape, np.ndarray.tobytes(value))


# ---- collections -------------------------------------------------------------------------------

# They are read with the methods of the builtin class, which a class derived from it may override.


def tuple_(snapshot: Snapshot, value: tuple[Any, ...]) -> Hashable:
    return ("tuple", snapshot.parts(list(tuple.__iter__(value))))


def frozen_set(snapshot: Snapshot, value: frozenset[Any]) -> Hashable:
    return ("frozenset", frozenset(snapshot.parts(list(frozenset.__iter__(value)))))


def changeable(tag: str, content: Reading) -> Reading:
    """The reading of a collection that can be changed in place and may contain itself."""

    def collection(snapshot: Snapshot, value: Any) -> Hashable:
        again = snapshot.again(value)
        if again is not None:
            return again
        guards = len(snapshot.guards)
        part = (tag, content(snapshot, value))
        snapshot.witness(value, guards)
        return part

    return collection


def list_content(snapshot: Snapshot, value: list[Any]) -> Hashable:
    return snapshot.parts(list(list.__iter__(value)))


def dict_content(snapshot: Snapshot, value: dict[Any, Any]) -> Hashable:
    return snapshot.pairs(dict.items(value))


def ordered_content(snapshot: Snapshot, value: collections.OrderedDict[Any, Any]) -> Hashable:
    return snapshot.pairs(collections.OrderedDict.items(value))


def default_content(snapshot: Snapshot, value: collections.defaultdict[Any, Any]) -> Hashable:
    return (snapshot.part(value.default_factory), snapshot.pairs(dict.items(value)))


def set_content(snapshot: Snapshot, value: set[Any]) -> Hashable:
    return frozenset(snapshot.parts(list(set.__iter__(value))))


def deque_content(snapshot: Snapshot, value: collections.deque[Any]) -> Hashable:
    return (value.maxlen, snapshot.parts(list(collections.deque.__iter__(value))))


def mapping_proxy(snapshot: Snapshot, value: types.MappingProxyType[Any, Any]) -> Hashable:
    return ("proxy", snapshot.pairs(value.items()))
