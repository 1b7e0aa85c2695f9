"""Where a jitted function takes its arguments and puts its results: on one device each, for now.

Shardings over several devices will be part of the compiled program. A single device is a property
of the call: arguments are moved before it, results after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft import tree
from weft.array import Array, as_array, put
from weft.control.jitted import Jitted, Options
from weft.core.trace import Tracer, bottom_trace, current_trace
from weft.core.types import type_of, user_value
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, WeftValueError, api_boundary
from weft.function_keys import register_parts
from weft.runtime import buffers
from weft.sharding import SingleDeviceSharding

__all__ = ["PlacedJitted", "as_device", "to_device"]


def as_device(place: Any, operation: str) -> Any:
    """The device that a place names; None stays None. Raises WeftTypeError for what is none."""
    if isinstance(place, SingleDeviceSharding):
        place = place.device
    if place is not None and not hasattr(place, "platform"):
        raise WeftTypeError(
            f"{operation} takes a device or a SingleDeviceSharding",
            operation=operation,
            got=f"{place!r:.100} of class {type(place).__name__}",
            wanted="an entry of weft.devices(), or None",
            fix=Fix("device", "pass weft.devices()[0]", {}),
        )
    return place


def to_device(leaf: Any, device: Any) -> Any:
    """A leaf as an array on a device, committed to it (None: as it is); tracers stay."""
    if isinstance(leaf, Tracer):
        return leaf
    if type(leaf) is Array:
        if device is None or (leaf.committed and leaf.device == device):
            return leaf
        moved = buffers.copy_to_device(leaf._live(), leaf.type, device)
        return Array(moved, leaf.type, (leaf.type, device))
    leaf = user_value(leaf)
    of = type_of(leaf)
    if device is None:
        return as_array(leaf)
    return put(np.asarray(leaf, of.dtype), of, device)


def _is_place(value: Any) -> bool:
    return value is None or isinstance(value, SingleDeviceSharding) or hasattr(value, "platform")


class PlacedJitted(Jitted):
    """A jitted function whose arguments and results have places."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: Options,
        in_shardings: Any,
        out_shardings: Any,
    ) -> None:
        super().__init__(function, options)
        self._in_shardings = in_shardings
        self._out_shardings = out_shardings
        for what, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            for place in tree.leaves(given, is_leaf=_is_place):
                as_device(place, f"jit: {what}")

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current_trace() is not bottom_trace():
            raise WeftNotImplementedError(
                f"jit of {self._name}: in_shardings and out_shardings under a transformation",
                operation=f"jit of {self._name}",
                got=f"a call under {current_trace().name}",
                wanted="a call outside of transformations",
                fix=Fix("outermost", "put jit with shardings outside of all transformations", {}),
            )
        out = super().__call__(*self._placed(args), **kwargs)
        if self._out_shardings is None:
            return out
        return self._moved("out_shardings", self._out_shardings, out)

    def _placed(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._in_shardings is None:
            return args
        static = {i % len(args) if i < 0 else i for i in self._options.static_argnums if args}
        places = [i for i in range(len(args)) if i not in static]
        chosen = tuple(args[i] for i in places)
        moved = self._moved("in_shardings", self._in_shardings, chosen)
        full = list(args)
        for i, value in zip(places, moved, strict=True):
            full[i] = value
        return tuple(full)

    def _moved(self, what: str, shardings: Any, values: Any) -> Any:
        name = f"jit of {self._name}: {what}"
        leaves, structure = tree.flatten(values)
        places = tree.prefix_leaves(name, shardings, structure, is_leaf=_is_place)
        devices = [as_device(place, name) for place in places]
        if what == "in_shardings":
            for leaf, device in zip(leaves, devices, strict=True):
                self._check_committed(leaf, device)
        return structure.unflatten(
            [to_device(leaf, device) for leaf, device in zip(leaves, devices, strict=True)]
        )

    def _check_committed(self, leaf: Any, device: Any) -> None:
        if device is None or type(leaf) is not Array or not leaf.committed:
            return
        if leaf.device != device:
            raise WeftValueError(
                f"jit of {self._name}: an argument was put on another device than in_shardings "
                "says",
                operation=f"jit of {self._name}",
                got=f"{leaf.type} on {leaf.device}",
                wanted=f"an array on {device}, or one that was put nowhere on purpose",
                fix=Fix("device_put", f"pass weft.device_put(x, {device})", {"device": device}),
            )


register_parts(
    PlacedJitted,
    lambda found: (
        found._function,
        found._options,
        found._name,
        found._in_shardings,
        found._out_shardings,
    ),
)
