"""The base of `Traced`, `Lowered` and `Compiled`: the arguments that a function was traced for.

The user's view of them leaves static arguments out: they are part of the jaxpr.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Self

from weft import tree
from weft.arrays.array import Array
from weft.arrays.shards import placement_text
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType, Typed
from weft.dispatch.donation import result_names
from weft.errors import Fix, WeftTypeError
from weft.lowering.result_layouts import known_formats
from weft.sharding import Format, Layout
from weft.tracing.argument_names import argument_names
from weft.tracing.traces import TracedBody


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ArgInfo(Typed):
    """An array among the arguments of a staged function: its type, and whether it is donated."""

    type: ArrayType
    donated: bool

    def __repr__(self) -> str:
        return f"ArgInfo({self.type!r}, donated={self.donated})"


class StagedCall:
    """A traced `Jitted` function and its arguments. In `in_tree` a `static` argument is None,
    `user_tree` omits it, and `positions` has the argnums of the remaining positional ones.
    `arguments` are arrays without values."""

    def __init__(
        self,
        function: Any,
        traced: TracedBody,
        static: Any,
        in_tree: Any,
        arguments: Sequence[Array],
    ) -> None:
        self.function, self.traced, self.static = function, traced, static
        self.in_tree, self.arguments = in_tree, arguments
        self.donated = function._donated(in_tree)
        args_tree, kwargs_tree = in_tree.children()
        children = args_tree.children()
        fixed = {place for place, _ in static}
        self.num_positional = len(children)
        self.positions = [i for i in range(len(children)) if i not in fixed]
        args = tree.treedef_tuple([children[i] for i in self.positions])
        self.user_tree = tree.treedef_tuple([args, kwargs_tree])

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function._name

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the leaves of the arguments in messages."""
        return argument_names(self.function._function, self.in_tree)

    @functools.cached_property
    def result_names(self) -> list[str]:
        """The names of the leaves of the results in messages."""
        return result_names(self.traced.out_tree)

    @property
    def types(self) -> list[ArrayType]:
        """The types of the leaves of the arguments."""
        return [x.type for x in self.arguments]

    def infos(self) -> Any:
        """The arguments as a tree of ArgInfo."""
        pairs = zip(self.types, self.donated, strict=True)
        return self.user_tree.unflatten([ArgInfo(type, flag) for type, flag in pairs])

    def results(self) -> Any:
        """The results as a tree of ShapeDtypeStructs."""
        jaxpr = self.traced.jaxpr
        given = [*self.traced.consts, *self.arguments]
        places = [x._shown_place() if type(x) is Array else None for x in given]
        layouts = [x._layout() if type(x) is Array else None for x in given]
        formats = known_formats(jaxpr, places, layouts)
        shardings = self.function._shardings
        asked = shardings.result_layouts(self.name, self.traced.out_tree) or (None,) * len(formats)
        structs = [
            ShapeDtypeStruct(
                t.shape, t.dtype, sharding=with_layout(place, layout), weak_type=t.weak_type
            )
            for t, place, layout in zip(jaxpr.out_types, formats, asked, strict=True)
        ]
        return self.traced.out_tree.unflatten(structs)


def with_layout(place: Any, layout: Any) -> Any:
    """A result's sharding or format with the layout of `out_shardings` (None without one)."""
    if layout is None or place is None:
        return place
    sharding = place.sharding if isinstance(place, Format) else place
    return Format(layout, sharding) if isinstance(layout, Layout) else sharding


class Stage:
    """The base of the stages: the arguments and results of the function."""

    _call: StagedCall

    @property
    def fun_name(self) -> str:
        """The name of the function."""
        return self._call.name

    @property
    def in_tree(self) -> Any:
        """The structure of (args, kwargs), without static arguments."""
        return self._call.user_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the results."""
        return self._call.traced.out_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as a pair of the positional ones and those by name."""
        return self._call.user_tree.unflatten(self._call.types)

    @property
    def out_avals(self) -> Any:
        """The types of the results, as a tree."""
        return self._call.traced.out_tree.unflatten(self._call.traced.jaxpr.out_types)

    @property
    def args_info(self) -> Any:
        """The arguments, each with its type (`shape`, `dtype`) and whether it is `donated`."""
        return self._call.infos()

    @property
    def out_info(self) -> Any:
        """The results, as a tree of ShapeDtypeStructs: with shardings and layouts where the jaxpr
        says them."""
        return self._call.results()

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The indices of the donated ones among the leaves of the arguments."""
        return tuple(i for i, flag in enumerate(self._call.donated) if flag)

    def __reduce__(self) -> tuple[Any, ...]:
        kind, name = type(self).__name__, self.fun_name
        message = f"a {kind} program belongs to this process and cannot be pickled"
        got = f"{kind} of {name}"
        wanted = "bytes made by weft.export"
        fix = Fix("export", f"use weft.export.export({name})(...).serialize()")
        raise WeftTypeError(message, operation="pickle", got=got, wanted=wanted, fix=fix)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def _ends(self) -> tuple[list[Any], list[Any]]:
        """For arguments and for results, the layouts and shardings as far as known, as pairs."""
        ins = [(x._layout(), x._shown_place()) for x in self._call.arguments]
        return ins, [(x.layout, x.sharding) for x in tree.leaves(self._call.results())]

    def __repr__(self) -> str:
        ins, outs = self._ends()
        sides = []
        for types, ends in ((self._call.types, ins), (self._call.traced.jaxpr.out_types, outs)):
            texts = []
            for of, (layout, place) in zip(types, ends, strict=True):
                where = placement_text(layout, place)
                texts.append(f"{of} {{{where[2:]}}}" if where else str(of))
            sides.append(", ".join(texts))
        return f"{type(self).__name__}({self.fun_name}: ({sides[0]}) -> ({sides[1]}))"
