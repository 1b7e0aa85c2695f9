"""Cache keys of parameters: equal only where the jaxprs and executables made for them are.

Python's own equality is too wide for that, since 1, 1.0 and True are equal and so are 0.0 and -0.0;
and too narrow, since no NaN is equal to itself and no lambda to the next one.
"""

from __future__ import annotations

import dataclasses
import operator
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["ParameterCache", "exact_key", "parameters_key"]

_bits = struct.Struct("d").pack
_NAME = operator.itemgetter(0)


def parameters_key(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """A cache key of parameters that does not depend on their order."""
    return tuple(sorted(((name, exact_key(value)) for name, value in params.items()), key=_NAME))


def exact_key(value: Any) -> Any:
    """The key of a value: its class and content; functions count by identity."""
    cls = type(value)
    if cls is str or value is None:
        return value
    if cls is float:
        return (cls, _bits(value))
    if cls is complex:
        return (cls, _bits(value.real), _bits(value.imag))
    if isinstance(value, tuple):
        return (cls, *map(exact_key, value))
    if cls is frozenset:
        return (cls, frozenset(map(exact_key, value)))
    if isinstance(value, np.generic):
        return (cls, value.dtype, value.tobytes())
    if dataclasses.is_dataclass(cls) and cls.__hash__ is not object.__hash__:
        held = [getattr(value, field.name) for field in dataclasses.fields(cls) if field.compare]
        return (cls, value, *map(exact_key, held))
    return (cls, value)


class ParameterCache(dict[Any, Any]):
    """A cache by operand types and parameters, for primitives from outside.

    A key is a tuple of types or signatures whose last entry is `tuple(params.items())`, where there
    are parameters. weft's own primitives have plain dictionaries: each of their parameters is
    always of one class.
    """

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
