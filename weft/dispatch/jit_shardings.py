"""`in_shardings` and `out_shardings` of jit: where arguments are taken and results are left, and in
which layouts.

A sharding over several devices is part of the program, as a constraint on the argument or result,
so that every transformation of the program keeps it. Called outside of transformations, arguments
are taken there before and results are pinned. A single device is a property of such a call:
arguments are moved before it and results after it, each to a device of its own if need be; only
under a transformation, where there is no call, is it a constraint too. So is a layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import (
    Array,
    as_array,
    donate_to_place,
    put,
    signature_of,
    to_format,
    to_place,
)
from weft.base import source as sources
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import type_of, user_value
from weft.dispatch.donation import result_names
from weft.dispatch.executable_calls import AnyEntry, PlacedEntry, bare_entry
from weft.dispatch.jitted import Jitted, Options, P, R_co
from weft.dispatch.specialization import TracedCall
from weft.errors import Fix, WeftValueError
from weft.function_keys import register_parts
from weft.ops.structural.layout_constraint import constrain_layout
from weft.ops.structural.sharding_constraint import (
    as_format,
    constrain_sharding,
    is_place,
    settled,
    unless_simulated,
)
from weft.sharding import Format, Layout, Sharding, SingleDeviceSharding
from weft.sharding.layout import unless_row_major
from weft.tracing.argument_names import argument_names
from weft.tracing.closure_lifting import register_closure

__all__ = [
    "PlacedJitted",
    "check_arguments",
    "has_layout",
    "lies_at",
    "other_layout",
    "placed_alike",
]


@dataclasses.dataclass(frozen=True)
class Places:
    """What a trace knows of places: those of the leaves of the arguments with their layouts, and
    the prefix of the results as leaves and structure. `called`: no transformation is active."""

    arguments: tuple[tuple[Any, Any], ...]
    results: tuple[Any, ...]
    result_structure: Any
    called: bool


class PlacedJitted(Jitted[P, R_co]):
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
                    as_format(place, f"jit: {what}")

    # ---- what the places are ------------------------------------------------------------------

    def _argument_formats(self, static: Any, in_tree: Any) -> tuple[tuple[Any, Any], ...]:
        """Where the leaves of the arguments are taken, and in which layouts."""
        given = self._given_formats(static, in_tree)
        return tuple((unless_simulated(place), layout) for place, layout in given)

    def _given_formats(self, static: Any, in_tree: Any) -> tuple[tuple[Any, Any], ...]:
        """What was said of the leaves of the arguments: places and layouts."""
        args_tree, kwargs_tree = in_tree.children()
        fixed = {place for place, _ in static}
        traced = [x for i, x in enumerate(args_tree.children()) if i not in fixed]
        name = f"jit of {self._name}: in_shardings"
        given = tree.prefix_leaves(
            name, self._in_shardings, tree.treedef_tuple(traced), is_leaf=is_place
        )
        formats = [as_format(x, name, auto=True) for x in given]
        return (*formats, *[(None, None)] * kwargs_tree.num_leaves)

    def _result_formats(self, out_tree: Any) -> list[tuple[Any, Any]]:
        """Where the leaves of the results are left, and in which layouts."""
        name = f"jit of {self._name}: out_shardings"
        given = tree.prefix_leaves(name, self._out_shardings, out_tree, is_leaf=is_place)
        return [as_format(x, name, auto=True) for x in given]

    def _traced_places(self, static: Any, in_tree: Any) -> Places:
        leaves, structure = tree.flatten(self._out_shardings, is_leaf=is_place)
        called = current_trace() is bottom_trace()
        return Places(self._given_formats(static, in_tree), tuple(leaves), structure, called)

    # ---- in the program -----------------------------------------------------------------------

    def _constrained_arguments(
        self, leaves: Sequence[Any], in_tree: Any, places: Places
    ) -> Sequence[Any]:
        if not any(map(is_said, places.arguments)):
            return leaves
        names = argument_names(self._function, in_tree)
        return self._constrained("in_shardings", leaves, places.arguments, names, places.called)

    def _constrained_results(
        self, outs: Sequence[Any], out_tree: Any, places: Places
    ) -> Sequence[Any]:
        wanted = self._result_formats(out_tree)
        if not any(map(is_said, wanted)):
            return outs
        names = [f"the {name}" for name in result_names(out_tree)]
        return self._constrained("out_shardings", outs, wanted, names, places.called)

    def _constrained(
        self,
        what: str,
        values: Sequence[Any],
        formats: Sequence[tuple[Any, Any]],
        names: Sequence[str],
        called: bool,
    ) -> list[Any]:
        operation = f"jit of {self._name}: {what}"
        found = []
        for value, (place, layout), name in zip(values, formats, names, strict=True):
            how = place
            if place is not None and not isinstance(place, Sharding):
                how = None if called else SingleDeviceSharding(place)
            value = constrain_sharding(value, how, operation, name)
            if isinstance(layout, Layout):
                layout.check_rank(operation, name, type_of(value).shape)
                if not called:
                    value = constrain_layout(value, layout, operation, name)
            found.append(value)
        return found

    # ---- around a call ------------------------------------------------------------------------

    def _pinned(self, traced: TracedCall) -> tuple[Any, ...] | None:
        formats = self._result_formats(traced.out_tree)
        places = [unless_simulated(place) for place, _ in formats]
        pinned = tuple(
            place if isinstance(place, Sharding) and settled(place) is place else None
            for place in places
        )
        return pinned if any(pinned) else None

    def _result_layouts(self, traced: TracedCall) -> tuple[Any, ...] | None:
        layouts = tuple(layout for _, layout in self._result_formats(traced.out_tree))
        return layouts if any(layouts) else None

    def _compile(self, static: Any, arrays: list[Array], in_tree: Any) -> AnyEntry:
        formats = self._argument_formats(static, in_tree)
        # The types are asked first: a shape that cannot be split is refused with its name there.
        traced = self._traced(static, [x.type for x in arrays], in_tree)
        check_arguments(self, arrays, formats, in_tree, "in_shardings says")
        placed = [
            placed_alike(x, place, layout)
            for x, (place, layout) in zip(arrays, formats, strict=True)
        ]
        entry = super()._compile(static, placed, in_tree)
        donated = bare_entry(entry).donated
        before = [
            None if layout is None else taking(array, place, layout, i in donated)
            for i, (array, (place, _), layout) in enumerate(
                zip(arrays, formats, argument_layouts(entry, arrays), strict=True)
            )
        ]
        after = [leaving(place) for place, _ in self._result_formats(traced.out_tree)]
        return PlacedEntry(entry, before, after)


def is_said(format: tuple[Any, Any]) -> bool:
    """Whether a place or a layout was given."""
    return format != (None, None)


def argument_layouts(entry: AnyEntry, arrays: Sequence[Array]) -> list[Layout | None]:
    """In which layouts a compiled program takes the leaves of the arguments; None for those that it
    does not take."""
    inner = bare_entry(entry)
    count = len(inner.consts)
    kept = range(len(arrays)) if inner.kept is None else inner.kept
    taken = (inner.program.in_layouts or (None,) * (count + len(kept)))[count:]
    found: list[Layout | None] = [None] * len(arrays)
    for i, layout in zip(kept, taken, strict=True):
        found[i] = layout or Layout(range(arrays[i].ndim))
    return found


def check_arguments(
    function: Jitted,
    arrays: Sequence[Array],
    formats: Sequence[tuple[Any, Any]],
    in_tree: Any,
    says: str,
) -> None:
    """Raises WeftValueError for an argument that was put elsewhere on purpose than its place, or
    that has another layout and was put there on purpose."""
    for i, (array, (place, layout)) in enumerate(zip(arrays, formats, strict=True)):
        if not array.committed:
            continue
        operation = f"jit of {function._name}"
        if place is not None and not lies_at(array, place):
            which = argument_names(function._function, in_tree)[i]
            where = "in another way" if isinstance(place, Sharding) else "on another device"
            raise WeftValueError(
                f"{operation}: {which} was put {where} than {says}",
                operation=operation,
                got=f"{array.type} on {array._committed_place()}",
                wanted=f"an array on {place}, or one that was put nowhere on purpose",
                fix=Fix("device_put", f"pass weft.device_put({which}, {place})", {"device": place}),
            )
        if isinstance(layout, Layout) and not has_layout(array, layout):
            which = argument_names(function._function, in_tree)[i]
            if function._options.relayout == "error":
                raise other_layout(operation, which, array, layout, says)
            if function._options.relayout == "warn":
                sources.warn(
                    f"{operation}: the layout of {which} is {array.format.layout} and does not "
                    f"match the {layout} that {says}: it is copied at each call"
                )


def other_layout(
    operation: str, which: str, array: Array, layout: Layout, says: str
) -> WeftValueError:
    """The error for an array that was put somewhere on purpose in another layout."""
    wanted = Format(layout, array.sharding)
    return WeftValueError(
        f"{operation}: the layout of {which} does not match the one that {says}",
        operation=operation,
        got=f"{array.type} with {array.format.layout}",
        wanted=f"{layout}, or an array that was put nowhere on purpose",
        fix=Fix(
            "layout",
            f"pass weft.device_put({which}, Format({layout}, {which}.sharding)); or compile for "
            f"the layout that the array has, {which}.format in in_shardings; or let it be copied "
            "at each call, with jit(..., relayout='auto')",
            {"device": wanted, "in_shardings": array.format, "relayout": "auto"},
        ),
    )


def has_layout(array: Array, layout: Layout | None) -> bool:
    """Whether an array has a layout; None is the row-major one."""
    return array._layout() is unless_row_major(layout)


def lies_at(array: Array, place: Any) -> bool:
    """Whether an array was put at a place: a device, or a sharding (that may say the same in
    another way)."""
    there = array._committed_place()
    if not isinstance(place, Sharding) or not isinstance(there, Sharding):
        return bool(there == place)
    return there.is_equivalent_to(settled(place, array), array.ndim)


def placed_alike(array: Array, place: Any, layout: Any, settled_layout: bool = True) -> Array:
    """An array without values that has the type of another, lies at a place and has a layout; None
    for what stays as it is. A layout that the program is to choose is the array's own, where that
    was put there on purpose; `settled_layout=False` where only the place was."""
    where = array._committed_place()
    if place is not None and not lies_at(array, place):
        where = settled(place, array) if isinstance(place, Sharding) else place
    if layout is None or (layout is Layout.AUTO and array.committed and settled_layout):
        layout = array._layout()
    if layout is Layout.AUTO:
        return Array(None, array.type, (array.type, where, layout))
    return Array(None, array.type, signature_of(array.type, where, layout))


def taking(
    array: Array, place: Any, layout: Layout | None, donated: bool = False
) -> Callable[[Any], Any] | None:
    """What takes leaves of the type and place of an array to another place and layout (None: as it
    is); None where nothing is to be done.

    `donated` says that an array is not needed afterwards.
    """
    stays = place is None or lies_at(array, place)
    if stays and (layout is None or has_layout(array, layout)):
        return None
    where = settled(place, array) if isinstance(place, Sharding) else place
    type = array.type

    def take(leaf: Any) -> Array:
        if not isinstance(leaf, Array):
            values = np.asarray(user_value(leaf))
            if values.dtype == type.dtype:
                return to_format(put(values, type, where), None, layout)
        elif donated and not getattr(leaf, "_remembered", False):
            return to_format(donate_to_place(leaf, leaf._place() if stays else where), None, layout)
        return to_format(as_array(user_value(leaf)), None if stays else where, layout)

    return take


def leaving(place: Any) -> Callable[[Any], Any] | None:
    """What takes a result to a device; shardings are pinned in the program."""
    if place is None or isinstance(place, Sharding):
        return None
    return lambda array: to_place(array, place)


register_closure(
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
