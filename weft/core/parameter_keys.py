"""Caches by parameters of equations, under exact keys: see `weft.base.exact_keys`."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from weft.base.exact_keys import exact_key

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
