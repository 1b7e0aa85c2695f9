"""The kinds of arguments of functions that draw: keys, parameters of a distribution, shapes …"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from weft import config, dtypes
from weft.argument_errors import invalid_value
from weft.core.types import type_of
from weft.errors import Fix
from weft.kinds.arguments import NEVER
from weft.kinds.kind import Arguments, Kind
from weft.ops.structural.extended_dtypes import KeyDType, use_key
from weft.ops.structural.shape import canonical_axis
from weft.random.sampler_arguments import (
    DTYPES,
    check_dtype,
    check_key,
    check_parameter,
    check_shape,
    joined_shape,
)

__all__ = [
    "Bits", "GumbelMode", "Integers", "Joined", "Key", "Mode", "NoiseMode", "Numbers", "Real",
    "Reals", "Shape", "Sharding", "Signs", "UnusedKey", "axis_kind", "real_kind",
]  # fmt: skip

_WRONG_SHAPES = ("text", 0.5, -1)


def _key(value: Any, call: Arguments) -> Any:
    return check_key(call.operation, value)


def _used(operation: str, keys: Sequence[Any]) -> Sequence[Any]:
    """The keys, marked as used under `debug_key_reuse`. Bits without a type may be used for
    anything."""
    if not config.settings().debug_key_reuse:
        return keys
    typed = [isinstance(type_of(key).dtype, KeyDType) for key in keys]
    return [use_key(key, operation) if t else key for key, t in zip(keys, typed, strict=True)]


def _real(value: Any, call: Arguments) -> Any:
    value = check_parameter(call.operation, call.name, value)
    # A Python number is as exact as the result.
    dtype = call.get("dtype")
    wide = dtype is not None and dtype == dtypes.float64 != dtypes.default_float()
    return np.float64(value) if wide and type(value) in (int, float) else value


def _shape(value: Any, call: Arguments) -> tuple[int, ...]:
    return check_shape(call.operation, value)


def _joined(value: Any, call: Arguments) -> tuple[int, ...]:
    # The parameters of a distribution stand between the key and the shape.
    parameters = {name: call[name] for name in tuple(call)[1 : call.position]}
    shape = None if value is None else check_shape(call.operation, value)
    return joined_shape(shape, **parameters)


def _dtype(numbers: str) -> Kind:
    """The kind of a dtype that holds these numbers."""

    def take(value: Any, call: Arguments) -> Any:
        return check_dtype(call.operation, value, *DTYPES[numbers], numbers)

    return Kind(take, f"a dtype of {numbers}, or None for the default", ("text",), plain=NEVER)


def _mode(*modes: str, default: Callable[[], str] | None = None) -> Kind:
    """The kind of a mode of drawing; None stands for the default, if there is one."""
    *others, last = map(repr, modes)
    wanted = f"{', '.join(others)} or {last}"

    def take(value: Any, call: Arguments) -> str:
        if value is None and default is not None:
            return default()
        if value not in modes:
            message = f"{call.operation}: mode is {wanted}"
            fix = Fix("mode", "leave mode out", {"mode": "low"})
            raise invalid_value(message, call.operation, "mode", value, wanted, fix=fix)
        return str(value)

    return Kind(take, wanted, ("?", 0.5), plain=NEVER)


def axis_kind(parameter: str) -> Kind:
    """The kind of an axis of a parameter; a number of elements has one."""

    def take(value: Any, call: Arguments) -> int:
        of = call[parameter]
        ndim = 1 if type(of) is int else type_of(of).ndim
        return canonical_axis(value, ndim, call.operation)

    return Kind(take, f"an axis of {parameter}", (99, 0.5, None), 0, plain=NEVER, late=True)


def _sharding(value: Any, call: Arguments) -> Any:
    return value


_BITS = np.array([0, 1], np.uint32)
_key_kind = Kind(
    _key, "a random key", (0, 0.5, "text"), _BITS, static=False, plain=NEVER, together=_used
)
Key = Annotated[Any, _key_kind]
# One from which others are derived, and that may be used again.
UnusedKey = Annotated[Any, dataclasses.replace(_key_kind, together=None)]
real_kind = Kind(
    _real,
    "a real number or an array of them",
    ("text", [1.0], 1j),
    0.5,
    static=False,
    plain=NEVER,
    late=True,
)
Real = Annotated[Any, real_kind]
Shape = Annotated[Any, Kind(_shape, "the lengths of the result", _WRONG_SHAPES, (3,), plain=NEVER)]
# The parameters broadcast to it.
_OF_PARAMETERS = "the lengths of the result; None for those to which the parameters broadcast"
Joined = Annotated[Any, Kind(_joined, _OF_PARAMETERS, _WRONG_SHAPES, plain=NEVER, late=True)]
Reals = Annotated[Any, _dtype("real numbers")]
Numbers = Annotated[Any, _dtype("real or complex numbers")]
Integers = Annotated[Any, _dtype("integers")]
Bits = Annotated[Any, _dtype("random bits")]
Signs = Annotated[Any, _dtype("signs")]
Sharding = Annotated[Any, Kind(_sharding, "how the result is split over devices", ("text",))]
Mode = Annotated[str, _mode("low", "high")]
# Those of Gumbel distributed numbers, and of draws that add them to logarithms.
_GUMBEL = ("low", "high", "highest")
GumbelMode = Annotated[
    Any,
    _mode(*_GUMBEL, default=lambda: ("low", "high")[config.settings().high_dynamic_range_gumbel]),
]
NoiseMode = Annotated[Any, _mode(*_GUMBEL, default=lambda: "low")]
