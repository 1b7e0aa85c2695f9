"""`in_shardings` and `out_shardings` of `jit`: shardings and layouts of arguments and results.

A sharding over several devices is part of the jaxpr, as a constraint on the argument or result, so
that every transformation of the jaxpr keeps it. In an eager call, arguments are moved to it before
and results are pinned. A single device is a property of such a call: arguments are moved before it
and results after it, each to a device of its own if need be; only under a transformation, where
there is no call, is it a constraint too. So is a layout.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import Array, array_at, donate_to_place, put, to_format, to_place
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import ArrayType, type_of, user_value
from weft.dispatch.donation import result_names
from weft.dispatch.executable_calls import CompiledCall, placed_call
from weft.errors import Fix, WeftValueError
from weft.ops.structural.layout_constraint import constrain_layout
from weft.ops.structural.sharding_constraint import (
    as_format,
    close_open_dimensions,
    constrain_sharding,
    is_place,
    unless_simulated,
)
from weft.sharding import Format, Layout, NamedSharding, Sharding, SingleDeviceSharding
from weft.sharding.layout import unless_row_major
from weft.tracing.argument_names import argument_names

Formats = tuple[tuple[Any, Any], ...]
"""For each leaf where it lies (a sharding, a device, None) and in which layout (None)."""


@dataclasses.dataclass(frozen=True)
class TracedFormats:
    """Shardings and layouts that a trace depends on: of the leaves of the arguments, and the prefix
    of the results as leaves and structure. `called`: no transformation is active."""

    arguments: tuple[tuple[Any, Any], ...]
    results: tuple[Any, ...]
    result_structure: Any
    called: bool


@dataclasses.dataclass(frozen=True, eq=False)
class JitShardings:
    """`in_shardings` and `out_shardings` as `jit` was given them: prefixes of the trees, with
    shardings, devices or formats as leaves. `name` in methods is that of the function."""

    arguments: Any = None
    results: Any = None
    # Whether arguments are moved from where their user put them.
    moves: bool = False

    @staticmethod
    def checked(in_shardings: Any, out_shardings: Any, moves: bool = False) -> JitShardings:
        """Checks what a user passed. Raises WeftTypeError for anything that is not a sharding or
        device."""
        for what, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
            for place in tree.leaves(given, is_leaf=is_place):
                if not is_place(place):
                    as_format(place, f"jit: {what}")
        # The arguments are a tuple, so a list can only mean one.
        arguments = tuple(in_shardings) if type(in_shardings) is list else in_shardings
        return JitShardings(arguments, out_shardings, moves)

    @property
    def is_given(self) -> bool:
        """Whether `in_shardings` or `out_shardings` was given."""
        return self.arguments is not None or self.results is not None

    def argument_formats(self, name: str, static: Any, in_tree: Any) -> Formats:
        """Shardings and layouts of the leaves of the arguments, without simulated shardings."""
        given = self._given_formats(name, static, in_tree)
        if self.arguments is None:
            return given
        return tuple((unless_simulated(place), layout) for place, layout in given)

    def _given_formats(self, name: str, static: Any, in_tree: Any) -> Formats:
        """The given shardings and layouts of the leaves of the arguments."""
        if self.arguments is None:
            return ((None, None),) * in_tree.num_leaves
        args_tree, kwargs_tree = in_tree.children()
        fixed = {place for place, _ in static}
        traced = [x for i, x in enumerate(args_tree.children()) if i not in fixed]
        formats = by_leaf(
            f"jit of {name}: in_shardings", self.arguments, tree.treedef_tuple(traced)
        )
        return (*formats, *[(None, None)] * kwargs_tree.num_leaves)

    def result_formats(self, name: str, out_tree: Any) -> Formats:
        """The given shardings and layouts of the leaves of the results."""
        if self.results is None:
            return ((None, None),) * out_tree.num_leaves
        return by_leaf(f"jit of {name}: out_shardings", self.results, out_tree)

    def required_shardings(self, name: str, out_tree: Any) -> tuple[Any, ...] | None:
        """The required shardings of the results; None: the compiler chooses."""
        if self.results is None:
            return None
        places = [unless_simulated(place) for place, _ in self.result_formats(name, out_tree)]
        found = tuple(
            place if isinstance(place, Sharding) and close_open_dimensions(place) is place else None
            for place in places
        )
        return found if any(found) else None

    def result_layouts(self, name: str, out_tree: Any) -> tuple[Any, ...] | None:
        """The layouts that an executable must give its results; None if none was given."""
        if self.results is None:
            return None
        found = tuple(layout for _, layout in self.result_formats(name, out_tree))
        return found if any(found) else None

    def traced_formats(
        self, name: str, static: Any, in_tree: Any, in_types: Sequence[ArrayType]
    ) -> TracedFormats | None:
        """The hashable part of a trace's key for shardings; None if none were given.

        Shardings of arguments are in their shortest spelling, where the spelling that was given
        fits: functions with other spellings share their traces. The rank of a result is not known.
        """
        if not self.is_given:
            return None
        leaves, structure = tree.flatten(self.results, is_leaf=is_place)
        called = current_trace() is bottom_trace()
        given = self._given_formats(name, static, in_tree)
        short = tuple(
            (
                place.canonical
                if (isinstance(place, NamedSharding) and len(place.spec) <= type.ndim)
                else place,
                layout,
            )
            for (place, layout), type in zip(given, in_types, strict=True)
        )
        return TracedFormats(short, tuple(leaves), structure, called)

    def constrain_arguments(
        self, function: Any, leaves: Sequence[Any], in_tree: Any, traced: TracedFormats | None
    ) -> Sequence[Any]:
        """The leaves of the arguments with the constraints that `in_shardings` asks for."""
        if traced is None or not any(map(is_said, traced.arguments)):
            return leaves
        names = argument_names(function._function, in_tree)
        operation = f"jit of {function._name}: in_shardings"
        return constrain_values(operation, leaves, traced.arguments, names, traced.called)

    def constrain_results(
        self, function: Any, outs: Sequence[Any], out_tree: Any, traced: TracedFormats | None
    ) -> Sequence[Any]:
        """The leaves of the results with the constraints that `out_shardings` asks for."""
        if traced is None:
            return outs
        wanted = self.result_formats(function._name, out_tree)
        if not any(map(is_said, wanted)):
            return outs
        names = [f"the {name}" for name in result_names(out_tree)]
        operation = f"jit of {function._name}: out_shardings"
        return constrain_values(operation, outs, wanted, names, traced.called)


def by_leaf(operation: str, given: Any, structure: Any) -> Formats:
    """Shardings and layouts of the leaves of a structure, given a prefix of it."""
    leaves = tree.prefix_leaves(operation, given, structure, is_leaf=is_place)
    return tuple(as_format(x, operation, auto=True) for x in leaves)


def constrain_values(
    operation: str, values: Sequence[Any], formats: Formats, names: Sequence[str], called: bool
) -> list[Any]:
    """Traced values with constraints for the shardings and layouts that were given for them."""
    out = []
    for value, (place, layout), name in zip(values, formats, names, strict=True):
        how = place
        if place is not None and not isinstance(place, Sharding):
            how = None if called else SingleDeviceSharding(place)
        value = constrain_sharding(value, how, operation, name)
        if isinstance(layout, Layout):
            layout.check_rank(operation, name, type_of(value).shape)
            if not called:
                value = constrain_layout(value, layout, operation, name)
        out.append(value)
    return out


def wrap_with_placement(
    call: CompiledCall, arrays: Sequence[Array], formats: Formats, results: Formats
) -> CompiledCall:
    """The call, with arguments moved to their formats before it and results after it."""
    donated = () if call.donated is None else call.donated.taken
    before = [
        None if layout is None else taking(array, place, layout, i in donated)
        for i, (array, (place, _), layout) in enumerate(
            zip(arrays, formats, argument_layouts(call, arrays), strict=True)
        )
    ]
    return placed_call(call, before, [leaving(place) for place, _ in results])


def is_said(format: tuple[Any, Any]) -> bool:
    """Whether a sharding, a device or a layout was given."""
    return format != (None, None)


def argument_layouts(call: CompiledCall, arrays: Sequence[Array]) -> list[Layout | None]:
    """The layouts in which a call takes its leaves; None for dropped leaves."""
    count = len(call.consts)
    kept = range(len(arrays)) if call.kept is None else call.kept
    taken = (call.program.in_layouts or (None,) * (count + len(kept)))[count:]
    out: list[Layout | None] = [None] * len(arrays)
    for i, layout in zip(kept, taken, strict=True):
        out[i] = layout or Layout(range(arrays[i].ndim))
    return out


def check_arguments(
    function: Any,
    arrays: Sequence[Array],
    formats: Sequence[tuple[Any, Any]],
    in_tree: Any,
    says: str,
) -> None:
    """Raises WeftValueError for a committed argument whose device, sharding or layout differs from
    `formats`."""
    for i, (array, (place, layout)) in enumerate(zip(arrays, formats, strict=True)):
        if not array.committed:
            continue
        operation = f"jit of {function._name}"
        if place is not None and not function._shardings.moves and not lies_at(array, place):
            which = argument_names(function._function, in_tree)[i]
            where = "in another way" if isinstance(place, Sharding) else "on another device"
            message = f"{operation}: {which} was put {where} than {says}"
            got = f"{array.type} on {array._shown_place()}"
            wanted = f"an array on {place}, or one that was put nowhere on purpose"
            fix = Fix("device_put", f"pass weft.device_put({which}, {place})", {"device": place})
            raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
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
    """The error for a committed array with another layout."""
    format = Format(layout, array.sharding)
    message = f"{operation}: the layout of {which} does not match the one that {says}"
    got = f"{array.type} with {array.format.layout}"
    wanted = f"{layout}, or an array that was put nowhere on purpose"
    fix = Fix(
        "layout",
        f"pass weft.device_put({which}, Format({layout}, {which}.sharding)); or compile for "
        f"the layout that the array has, {which}.format in in_shardings; or let it be copied "
        "at each call, with jit(..., relayout='auto')",
        {"device": format, "in_shardings": array.format, "relayout": "auto"},
    )
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def has_layout(array: Array, layout: Layout | None) -> bool:
    """Whether an array has a layout; None is the row-major one."""
    return array._layout() is unless_row_major(layout)


def lies_at(array: Array, place: Any) -> bool:
    """Whether an array is committed to `place`: a device, or a sharding equivalent to its own."""
    there = array._committed_place()
    if not isinstance(place, Sharding) or not isinstance(there, Sharding):
        return bool(there == place)
    return there.is_equivalent_to(close_open_dimensions(place, array), array.ndim)


def placed_alike(array: Array, place: Any, layout: Any, settled_layout: bool = True) -> Array:
    """An array without values of the same type, committed to `place` and in `layout`, each None if
    it stays. `Layout.AUTO` becomes the layout of a committed array, unless `settled_layout=False`:
    only the sharding was chosen."""
    where = array._shown_place()
    if place is not None and not lies_at(array, place):
        where = close_open_dimensions(place, array) if isinstance(place, Sharding) else place
    if layout is None or (layout is Layout.AUTO and array.committed and settled_layout):
        layout = array._layout()
    return array_at(None, array.type, where, layout)


def taking(
    array: Array, place: Any, layout: Layout | None, donated: bool = False
) -> Callable[[Any], Any] | None:
    """A function that moves leaves like `array` to a device or sharding and a layout (None: as it
    is); None if nothing is to be done.

    `donated` says that an array is not needed afterwards.
    """
    stays = place is None or lies_at(array, place)
    if stays and (layout is None or has_layout(array, layout)):
        return None
    where = close_open_dimensions(place, array) if isinstance(place, Sharding) else place
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
    """A function that moves a result to a device; None for a sharding, which the executable
    pins."""
    if place is None or isinstance(place, Sharding):
        return None
    return lambda array: to_place(array, place)
