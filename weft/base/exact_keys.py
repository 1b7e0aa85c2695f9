"""Keys of static values: equal only for values of one class with the same bits.

Python's own equality is too wide for a cache of jaxprs and executables: 1, 1.0 and True are equal
and so are 0.0 and -0.0, `range(0, 3, 2)` and `range(0, 4, 2)`, and a Decimal of 1.0 and one of
1.00. It is too narrow too, since no NaN is equal to itself. Every cache whose keys hold values of
users, or numbers of several classes, makes its keys here.

Safety: values with equal keys are of one class. If that is one of the classes below, the key holds
all that its objects consist of, by bits, so that they are the same to every program that reads
them; what they contain has a key in turn. An object of any other class stands for itself, and is
equal to what its class says: for most classes itself alone, and where a class defines equality, its
author has decided it. Functions are such objects: they count by identity.

Caches by parameters of equations, under exact keys: see `weft.base.exact_keys`.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import operator
import struct
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_bits = struct.Struct("d").pack
# The classes whose equal values are the same value.
_PLAIN = frozenset({bool, int, bytes, type})
# Classes with a coarse equality, whose objects can be made anew from what pickle would write.
_MADE_ANEW = (
    range, slice, decimal.Decimal, datetime.datetime, datetime.time, datetime.timezone,
    types.GenericAlias,
)  # fmt: skip


def exact_key(value: Any) -> Any:
    """The key of a value: its class and its bits. Its hash raises TypeError if a part has none."""
    cls = type(value)
    if cls is float:
        return cls, _bits(value)
    if cls is str or value is None:
        return value
    if cls in _PLAIN:
        return cls, value
    parts = _PARTS.get(cls)
    if parts is not None:
        return cls, *parts(value)
    if isinstance(value, np.generic):
        return cls, value.dtype, value if value.dtype.hasobject else value.tobytes()
    for base, parts in _PARTS.items():
        if isinstance(value, base):
            # Equality that a class defines itself counts too.
            own = () if cls.__eq__ is base.__eq__ else (value,)
            return cls, *own, *parts(value)
    if dataclasses.is_dataclass(cls) and cls.__hash__ is not object.__hash__:
        return _of_dataclass(cls, value)
    return cls, value


class ConstantClass(type):
    """The class of classes that stand for a constant, such as a dtype: under the same settings, the
    same argument."""


def is_plain(value: Any) -> bool:
    """Whether Python's equality is exact for a value of its class: it holds no number such as 0.0,
    -0.0 and NaN."""
    cls = type(value)
    if cls in _PLAIN or cls is str or value is None:
        return True
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_plain, value))
    if isinstance(value, (*_PARTS, np.generic)):
        return False
    if dataclasses.is_dataclass(cls):
        return all(is_plain(getattr(value, field.name)) for field in dataclasses.fields(cls))
    return True


def is_number(value: Any) -> bool:
    """Whether a value is or may hold a number, which Python's equality does not tell apart."""
    if isinstance(value, (bool, int, *_PARTS, np.generic)):
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _elements(value: Any) -> Any:
    return map(exact_key, value)


_PARTS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: (_bits(value),),
    complex: lambda value: (_bits(value.real), _bits(value.imag)),
    tuple: _elements,
    frozenset: lambda value: (frozenset(_elements(value)),),
    **dict.fromkeys(_MADE_ANEW, lambda value: _elements(value.__reduce_ex__(4)[1])),
}


def _of_dataclass(cls: type, value: Any) -> Any:
    """The key of a dataclass with a hash: those of its compared fields."""
    fields = dataclasses.fields(cls)
    own = () if _compares_fields(cls) else (value,)
    key = (cls, *own, *[exact_key(getattr(value, field.name)) for field in fields if field.compare])
    try:
        hash(key)
    except TypeError:  # Its own hash takes a field without one, such as a list, some other way.
        return cls, value
    return key


def _compares_fields(cls: type) -> bool:
    """Whether `dataclass` made the equality of a class, by which no NaN equals itself."""
    code = getattr(cls.__eq__, "__code__", None)
    return "__eq__" in vars(cls) and code is not None and code.co_filename == "<string>"


_NAME = operator.itemgetter(0)


def parameters_key(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """A cache key of parameters that does not depend on their order."""
    return tuple(sorted(((name, exact_key(value)) for name, value in params.items()), key=_NAME))


class ParameterCache(dict[Any, Any]):
    """A cache by operand types and parameters: for primitives from outside, and for those whose
    parameters hold numbers that equality does not tell apart. A key is a tuple of types or
    signatures, ending with `tuple(params.items())` if there are any."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_with_exact_parameters(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_with_exact_parameters(key), value)

    def get(self, key: Any, default: Any = None) -> Any:
        """The cached value, or the default."""
        return super().get(_with_exact_parameters(key), default)


def _with_exact_parameters(key: Any) -> Any:
    last = key[-1] if type(key) is tuple and key else None
    if type(last) is tuple and last and type(last[0]) is tuple and type(last[0][0]) is str:
        return (*key[:-1], parameters_key(dict(last)))
    return key
