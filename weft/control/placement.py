"""`in_shardings` and `out_shardings` of jit: where arguments are taken and results are left.

A sharding over several devices is part of the program, as a constraint on the argument or result,
so that every transformation of the program keeps it. Called outside of transformations, arguments
are taken there before and results are pinned. A single device is a property of such a call:
arguments are moved before it and results after it, each to a device of its own if need be; only
under a transformation, where there is no call, is it a constraint too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.array import Array, as_array, donate_to_place, put, to_place
from weft.control.closures import register_holder
from weft.control.entries import AnyEntry, PlacedEntry
from weft.control.jitted import Jitted, Options, TracedCall, argument_path
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import user_value
from weft.errors import Fix, WeftValueError
from weft.function_keys import register_parts
from weft.ops.sharding_constraint import (
    as_sharding,
    constrain,
    is_place,
    settled,
    unless_simulated,
)
from weft.sharding import Sharding, SingleDeviceSharding

__all__ = ["PlacedJitted", "check_arguments", "lies_at", "placed_alike"]


@dataclasses.dataclass(frozen=True)
class Places:
    """What a trace knows of places: those of the leaves of the arguments, and the prefix of the
    results as leaves and structure. `called` says that no transformation is active."""

    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    result_structure: Any
    called: bool


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
        # The arguments are a tuple, so a list can only mean one.
        self._in_shardings = tuple(in_shardings) if type(in_shardings) is list else in_shardings
        self._out_shardings = out_shardings
        for what, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            for place in tree.leaves(given, is_leaf=is_place):
                if not is_place(place):
                    as_sharding(place, f"jit: {what}")

    # ---- what the places are ------------------------------------------------------------------

    def _argument_places(self, static: Any, in_tree: Any) -> tuple[Any, ...]:
        return tuple(map(unless_simulated, self._given_places(static, in_tree)))

    def _given_places(self, static: Any, in_tree: Any) -> tuple[Any, ...]:
        """What was said of the leaves of the arguments."""
        args_tree, kwargs_tree = in_tree.children()
        fixed = {place for place, _ in static}
        traced = [x for i, x in enumerate(args_tree.children()) if i not in fixed]
        name = f"jit of {self._name}: in_shardings"
        places = tree.prefix_leaves(
            name, self._in_shardings, tree.treedef_tuple(traced), is_leaf=is_place
        )
        return (*(as_sharding(x, name) for x in places), *(None,) * kwargs_tree.num_leaves)

    def _result_places(self, out_tree: Any) -> list[Any]:
        name = f"jit of {self._name}: out_shardings"
        places = tree.prefix_leaves(name, self._out_shardings, out_tree, is_leaf=is_place)
        return [as_sharding(x, name) for x in places]

    def _traced_places(self, static: Any, in_tree: Any) -> Places:
        leaves, structure = tree.flatten(self._out_shardings, is_leaf=is_place)
        called = current_trace() is bottom_trace()
        return Places(self._given_places(static, in_tree), tuple(leaves), structure, called)

    # ---- in the program -----------------------------------------------------------------------

    def _constrained_arguments(
        self, leaves: Sequence[Any], in_tree: Any, places: Places
    ) -> Sequence[Any]:
        if not any(place is not None for place in places.arguments):
            return leaves
        dummy = tree.unflatten(in_tree, range(in_tree.num_leaves))
        names = [argument_path(self._function, path) for path, _ in tree.leaves_with_path(dummy)]
        return self._constrained("in_shardings", leaves, places.arguments, names, places.called)

    def _constrained_results(
        self, outs: Sequence[Any], out_tree: Any, places: Places
    ) -> Sequence[Any]:
        wanted = self._result_places(out_tree)
        if not any(place is not None for place in wanted):
            return outs
        dummy = tree.unflatten(out_tree, range(out_tree.num_leaves))
        names = [f"the result{tree.keystr(path)}" for path, _ in tree.leaves_with_path(dummy)]
        return self._constrained("out_shardings", outs, wanted, names, places.called)

    def _constrained(
        self,
        what: str,
        values: Sequence[Any],
        places: Sequence[Any],
        names: Sequence[str],
        called: bool,
    ) -> list[Any]:
        operation = f"jit of {self._name}: {what}"
        found = []
        for value, place, name in zip(values, places, names, strict=True):
            how = place
            if place is not None and not isinstance(place, Sharding):
                how = None if called else SingleDeviceSharding(place)
            found.append(constrain(value, how, operation, name))
        return found

    # ---- around a call ------------------------------------------------------------------------

    def _pinned(self, traced: TracedCall) -> tuple[Any, ...] | None:
        places = list(map(unless_simulated, self._result_places(traced.out_tree)))
        pinned = tuple(
            place if isinstance(place, Sharding) and settled(place) is place else None
            for place in places
        )
        return pinned if any(pinned) else None

    def _compile(self, static: Any, arrays: list[Array], in_tree: Any) -> AnyEntry:
        places = self._argument_places(static, in_tree)
        check_arguments(self, arrays, places, in_tree, "in_shardings says")
        donated = self._donated(in_tree)
        before = [
            taking(array, place, give)
            for array, place, give in zip(arrays, places, donated, strict=True)
        ]
        # The types are asked first: a shape that cannot be split is refused with its name there.
        traced = self._traced(static, [x.type for x in arrays], in_tree)
        placed = [
            array if take is None else placed_alike(array, place)
            for array, take, place in zip(arrays, before, places, strict=True)
        ]
        entry = super()._compile(static, placed, in_tree)
        after = [leaving(place) for place in self._result_places(traced.out_tree)]
        return PlacedEntry(entry, before, after)


def check_arguments(
    function: Jitted, arrays: Sequence[Array], places: Sequence[Any], in_tree: Any, says: str
) -> None:
    """Raises WeftValueError for an argument that was put elsewhere on purpose than its place."""
    for i, (array, place) in enumerate(zip(arrays, places, strict=True)):
        if place is None or array.signature is array.type or lies_at(array, place):
            continue
        dummy = tree.unflatten(in_tree, range(in_tree.num_leaves))
        path, _ = tree.leaves_with_path(dummy)[i]
        which = argument_path(function._function, path)
        where = "in another way" if isinstance(place, Sharding) else "on another device"
        raise WeftValueError(
            f"jit of {function._name}: {which} was put {where} than {says}",
            operation=f"jit of {function._name}",
            got=f"{array.type} on {array.signature[1]}",
            wanted=f"an array on {place}, or one that was put nowhere on purpose",
            fix=Fix("device_put", f"pass weft.device_put(x, {place})", {"device": place}),
        )


def lies_at(array: Array, place: Any) -> bool:
    """Whether an array was put at a place: a device, or a sharding (that may say the same in
    another way)."""
    if array.signature is array.type:
        return False
    there = array.signature[1]
    if not isinstance(place, Sharding) or not isinstance(there, Sharding):
        return bool(there == place)
    return there.is_equivalent_to(settled(place, array), array.ndim)


def placed_alike(array: Array, place: Any) -> Array:
    """An array without values that has the type of another and lies at a place."""
    where = settled(place, array) if isinstance(place, Sharding) else place
    return Array(None, array.type, array.type if where is None else (array.type, where))


def taking(array: Array, place: Any, donated: bool = False) -> Callable[[Any], Any] | None:
    """What takes leaves of the type and place of an array to another place; None: nothing.

    `donated` says that an array is not needed afterwards.
    """
    if place is None or lies_at(array, place):
        return None
    where = settled(place, array) if isinstance(place, Sharding) else place
    type = array.type

    def take(leaf: Any) -> Array:
        if not isinstance(leaf, Array):
            values = np.asarray(user_value(leaf))
            if values.dtype == type.dtype:
                return put(values, type, where)
        elif donated and not getattr(leaf, "_remembered", False):
            return donate_to_place(leaf, where)
        return to_place(as_array(user_value(leaf)), where)

    return take


def leaving(place: Any) -> Callable[[Any], Any] | None:
    """What takes a result to a device; shardings are pinned in the program."""
    if place is None or isinstance(place, Sharding):
        return None
    return lambda array: to_place(array, place)


register_holder(
    PlacedJitted,
    ("_function",),
    lambda found: PlacedJitted(
        found._function, found._options, found._in_shardings, found._out_shardings
    ),
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
