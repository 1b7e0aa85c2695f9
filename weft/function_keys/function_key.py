"""The key of a function, and which reading is for which class.

A function that is made anew in every round of a loop is another object with the same code and the
same values around it. Its key says so: by content where content can be seen and compared, and by
identity where it cannot; where neither is safe, there is no key.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import logging
import operator
import pathlib
import threading
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from weft.function_keys import functions, objects, values
from weft.function_keys.snapshot import Key, NoKey, Reading, Snapshot, choose, register

__all__ = [
    "function_key",
    "identity_key",
    "register_by_identity",
    "register_parts",
    "register_uncacheable",
]


def function_key(function: Any, *further: Any) -> Key | None:
    """The key of a function (with further values that decide what it computes), or None.

    Two functions with equal keys compute the same when traced. What takes part:

    - the code, the closure, the defaults and the attributes of the function;
    - the globals that its code reads, attributes of modules that it names (`config.scale`), and
      the functions and classes among all these in the same way; of functions that belong to the
      standard library, to weft or to an installed package the closure but not the globals;
    - the parts of `functools.partial` objects, bound methods and callable objects;
    - numbers by class and bits, strings, NumPy scalars and arrays of up to 64 KiB, tuples, lists,
      dicts and sets by content, as it is now; NumPy arrays of up to 4 MiB by identity and content;
    - objects of Python classes by their class and attributes, and by identity unless the class
      defines `__eq__`, as dataclasses do; weft's arrays and classes of libraries by identity.

    None where something cannot be seen: larger NumPy arrays, tracers, iterators, generators of
    random numbers and other objects written in C that can change unseen, a module of the user's
    that is not read by attribute, `eval`, `exec`, `globals` and `open`; and where more than 2,000
    values take part or they are nested more than 24 deep.

    There is no key where the code uses what answers from outside: the clock, random generators of
    Python and NumPy, the environment, files. A variable that is only counted up or appended to
    takes no part. What is not seen: the state of installed packages (also the one that they keep
    for a thread, as `decimal` does), methods of enums, and what other libraries read from outside.

    >>> def scaled(k):
    ...     return lambda x: x * k
    >>> function_key(scaled(2)) == function_key(scaled(2))
    True
    >>> function_key(scaled(2)) == function_key(scaled(2.0))
    False
    >>> function_key(scaled(iter([2]))) is None
    True
    """
    snapshot = Snapshot()
    try:
        parts = snapshot.part(function)
        if further:
            parts = (parts, *[snapshot.part(value) for value in further])
    # RuntimeError: nested too deep, or changed by another thread while it was looked at.
    except (NoKey, RuntimeError):
        return None
    return Key(
        parts,
        tuple(snapshot.guards),
        tuple(snapshot.witnesses),
        tuple(snapshot.counters),
        tuple(snapshot.digests),
    )


def identity_key(function: Any, *further: Any) -> Key | None:
    """The key of this very function object, whatever it reads, and of further values."""
    snapshot = Snapshot()
    try:
        parts = ("same", snapshot.identity(function), *[snapshot.part(x) for x in further])
    except (NoKey, RuntimeError):
        return None
    return Key(parts, tuple(snapshot.guards), ())


def register_by_identity(cls: type) -> None:
    """Makes objects of a class count by identity alone: they cannot be changed.

    >>> class Handle:
    ...     pass
    >>> register_by_identity(Handle)
    """
    register(cls, values.identity)


def register_uncacheable(cls: type, reason: str = "") -> None:
    """Makes functions that refer to objects of a class have no key; `reason` says why.

    >>> class Live:
    ...     pass
    >>> register_uncacheable(Live)
    >>> function_key(Live()) is None
    True
    """

    def refused(snapshot: Snapshot, value: Any) -> Hashable:
        raise NoKey(reason)

    register(cls, refused if reason else values.refuse)


def register_parts(cls: type, parts: Callable[[Any], tuple[Any, ...]]) -> None:
    """Makes objects of a class count by the values that `parts` answers with, and not by identity.

    >>> class Scaled:
    ...     def __init__(self, function, factor):
    ...         self.function, self.factor, self.calls = function, factor, 0
    >>> register_parts(Scaled, lambda value: (value.function, value.factor))
    >>> function_key(Scaled(len, 2)) == function_key(Scaled(len, 2))
    True
    """

    def registered(snapshot: Snapshot, value: Any) -> Hashable:
        again = snapshot.again(value)
        if again is not None:
            return again
        return ("parts", snapshot.identity(type(value)), snapshot.parts(parts(value)))

    register(cls, registered)


# ---- which reading is for which class ----------------------------------------------------------

_EXACT: list[tuple[type, Reading]] = [
    (bool, values.boolean),
    (slice, values.slice_),
    (range, values.range_),
    (memoryview, values.refuse),
    (types.MappingProxyType, values.mapping_proxy),
    (contextvars.ContextVar, values.context_variable),
    (operator.itemgetter, values.operator_),
    (operator.attrgetter, values.operator_),
    (operator.methodcaller, values.operator_),
    (types.FunctionType, functions.function),
    (types.MethodType, functions.bound_method),
    (types.BuiltinFunctionType, functions.builtin_function),
    (types.MethodWrapperType, functions.builtin_function),
    (types.CodeType, functions.code),
    (functools._lru_cache_wrapper, functions.wrapped),
    *(
        (cls, values.identity)
        for cls in (
            type(NotImplemented),
            types.WrapperDescriptorType,
            types.MethodDescriptorType,
            types.ClassMethodDescriptorType,
            types.GetSetDescriptorType,
            types.MemberDescriptorType,
            type(threading.Lock()),
            type(threading.RLock()),
            np.ufunc,
        )
    ),
]

# Also for the classes derived from these; the first that fits decides.
_CONTENT: list[tuple[type, Reading]] = [
    (np.generic, values.numpy_scalar),
    (np.ndarray, values.numpy_array),
    (int, values.integer),
    (float, values.real),
    (complex, values.complex_number),
    (str, values.string),
    (bytes, values.byte_string),
    (bytearray, values.byte_string),
    (tuple, values.tuple_),
    (list, values.changeable("list", values.list_content)),
    (collections.OrderedDict, values.changeable("ordered", values.ordered_content)),
    (collections.defaultdict, values.changeable("defaults", values.default_content)),
    (dict, values.changeable("dict", values.dict_content)),
    (set, values.changeable("set", values.set_content)),
    (frozenset, values.frozen_set),
    (collections.deque, values.changeable("deque", values.deque_content)),
]
_OTHERS: list[tuple[type, Reading]] = [
    (types.ModuleType, functions.module),
    (type, objects.class_),
    (property, functions.property_),
    (staticmethod, functions.wrapped),
    (classmethod, functions.wrapped),
    (functools.partial, functions.partial),
    (pathlib.PurePath, values.path),
    (weakref.ref, values.reference),
    (np.dtype, values.numpy_dtype),
]


def choose_reading(cls: type) -> Reading:
    """The reading of a class that nobody registered."""
    for exact, reading in _EXACT:
        if cls is exact:
            return reading
    if issubclass(cls, enum.Enum):
        return values.enumeration
    of_weft = str(cls.__module__).partition(".")[0] == "weft"
    if of_weft and objects.compares_values(cls):
        return objects.by_value
    for base, reading in _CONTENT:
        if issubclass(cls, base):
            # The classes of NumPy's scalars are told apart by their dtype.
            told = cls is base or (base is np.generic and cls.__module__ in ("numpy", "ml_dtypes"))
            return reading if told else objects.derived(reading)
    for base, reading in _OTHERS:
        if issubclass(cls, base):
            return reading
    if of_weft:
        return values.identity
    return objects.native(cls) if objects.hides_state(cls) else objects.object_


choose[:] = [choose_reading]
# Loggers reach the whole tree of handlers and change no result.
register_by_identity(logging.Logger)
