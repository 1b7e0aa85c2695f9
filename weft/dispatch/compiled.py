"""`Compiled`: a function compiled for exact types, shardings and layouts of its arguments, which
reports those of its arguments and results, its cost and its memory.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from weft import tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.effects import is_reference
from weft.core.trace import Tracer
from weft.core.types import type_of, user_value
from weft.dispatch.call_checks import (
    ANYWHERE,
    check_structure,
    mismatch_error,
    mismatches,
    static_mismatch,
    warn_of_copies,
)
from weft.dispatch.donation import Donation
from weft.dispatch.executable_calls import CompiledCall, placed_call
from weft.dispatch.jit_shardings import leaving, taking
from weft.dispatch.known_calls import MOST_FORMS, KnownCalls, learn
from weft.dispatch.specialization import Specialization
from weft.dispatch.staged_call import Stage, StagedCall
from weft.dispatch.static_arguments import hashable_static
from weft.errors import (
    DeletedArrayError,
    Fix,
    WeftNotImplementedError,
    WeftTypeError,
    api_boundary,
    trim,
)
from weft.lowering.executables import LoweredProgram, device_for
from weft.ops.elementwise.convert import beside_float64
from weft.runtime import pytree
from weft.sharding import Format, Layout, Sharding, SingleDeviceSharding
from weft.tree.static_data import exact_structure

_MOST_SIGNATURES = 64


def specialization_of(call: StagedCall) -> Specialization:
    """The specialization of a staged call. Raises WeftTypeError if it closes over tracers."""
    for value in call.traced.consts:
        if isinstance(value, Tracer):
            fault = "closes over a traced value: its program cannot be compiled alone"
            message, got = f"jit of {call.name} {fault}", value.describe()
            wanted = "a function of its arguments and of concrete arrays"
            text = "make the value an argument, or call lower() outside of the transformation"
            fix = Fix("argument", text)
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if any(map(is_reference, call.traced.jaxpr.in_types)):
        message = f"jit of {call.name} uses references: it is compiled when it is called"
        fix = Fix("call", "call the jitted function, which compiles it once for such arguments")
        wanted = "a function of arrays"
        got = f"a program of {', '.join(map(str, call.traced.jaxpr.in_types))}"
        raise WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)
    return Specialization(call.function, call.traced, call.in_tree, call.arguments)


class Compiled(KnownCalls, Stage):
    """A compiled function, called with arguments of exactly the types it was compiled for.

    Static arguments may be left out, or given with the values that it was compiled with. Numbers
    and NumPy arrays are taken as arrays; a weak type makes no difference. A committed array must
    have the sharding and the layout that the function was compiled for, one that is not committed
    is moved there. Settings take effect at compilation; with `debug_nans` then and at the call,
    results are searched.

    Raises, naming each argument that does not fit: TreeError for another structure, WeftTypeError
    for another shape or dtype and for traced values, WeftValueError for another device, sharding,
    layout or static value, and DeletedArrayError for an array that is gone.

    >>> import weft, weft.numpy as jnp
    >>> compiled = weft.jit(lambda x: x + 1).lower(jnp.zeros(3)).compile()
    >>> compiled(jnp.arange(3.0))
    Array([1., 2., 3.], dtype=float32)
    >>> compiled.memory_analysis().output_size_in_bytes
    12
    """

    def __init__(
        self,
        call: StagedCall,
        specialization: Specialization,
        lowered: LoweredProgram,
        options: Any = (),
    ) -> None:
        self._call = call
        # Attributes of their own, since every call reads them.
        self._tree = call.user_tree
        self._exact = exact_structure(self._tree)
        self._static = call.static
        self._flatten = pytree.flatten
        self._ready: dict[Any, CompiledCall] = {}
        self._specialization = specialization
        self._several = type(specialization.place) is tuple
        ready = specialization.compile(options, lowered, settled=self._several)
        self._program, self._inner, self._donation = ready.program, ready.call, ready.donation
        # By leaf: the device or sharding, and the layout, in which the executable takes it.
        ends = [self._end_of(number) for number in specialization.inputs]
        self._places, self._layouts = [place for place, _ in ends], [layout for _, layout in ends]
        self._after = [leaving(place) for place, _ in self._result_formats()]

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, as `compiled(...)` does."""
        return self(*args, **kwargs)

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the base class does not know."""
        try:
            if self._static:
                args, kwargs = self._without_static(args, kwargs)
            given, in_tree = self._flatten((args, kwargs))
            if exact_structure(in_tree) == self._exact:
                leaves = beside_float64(given)
                signatures = [x.signature if type(x) is Array else _kind(x) for x in leaves]
                found = self._ready.get(tuple(signatures))
                if found is not None:
                    if not self._static and found.forms < MOST_FORMS:
                        learn(self, args, kwargs, (), given, found)
                    return found.run(leaves)
            return self._first_call(args, kwargs)
        except Exception as error:
            if isinstance(error, DeletedArrayError):
                self._check(args, kwargs)  # It names the argument, unless it is none of those.
            trim(error)
            raise

    def _first_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The slow path for a new argument signature."""
        leaves = self._check(args, kwargs)
        donated = () if self._inner.donated is None else self._inner.donated.taken
        rows = zip(leaves, self._places, self._layouts, strict=True)
        before = [
            None
            if place is ANYWHERE
            else taking(as_array(user_value(x)), place, layout, i in donated)
            for i, (x, place, layout) in enumerate(rows)
        ]
        found = placed_call(self._inner, before, self._after)
        if len(self._ready) >= _MOST_SIGNATURES:
            self._ready.clear()
        signatures = [x.signature if type(x) is Array else _kind(x) for x in leaves]
        self._ready[tuple(signatures)] = found
        return found.run(leaves)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments. Raises the errors of the class where some do not fit."""
        call = self._call
        given = (args, kwargs)
        check_structure(call.name, call.function._function, given, self._tree, call.positions)
        leaves = list(beside_float64(tree.leaves(given)))
        found = mismatches(leaves, call.types, self._places, self._layouts, call.names, call.name)
        relayout = call.function._options.relayout
        if relayout != "error":
            copied = [mismatch for mismatch in found if mismatch.fix.kind == "layout"]
            found = [mismatch for mismatch in found if mismatch.fix.kind != "layout"]
            if copied and relayout == "warn" and not found:
                warn_of_copies(call.name, copied)
        if found:
            raise mismatch_error(call.name, found)
        return leaves

    def _without_static(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments without the static ones. Raises WeftValueError for a static one that
        differs from the one at compilation."""
        call = self._call
        fixed = dict(self._static)
        names = self._parameter_names()
        if len(args) == call.num_positional and len(call.positions) < len(args):
            for place, value in fixed.items():
                if isinstance(place, int):
                    which = names[place] if place < len(names) else f"argument {place}"
                    self._compare(args[place], value, place, which)
            args = tuple([args[i] for i in call.positions])
        for which in call.function._options.static_argnames:
            if which in kwargs:
                place = which if which in fixed else names.index(which) if which in names else None
                if place in fixed:
                    self._compare(kwargs[which], fixed[place], which, which)
                    kwargs = {name: value for name, value in kwargs.items() if name != which}
        return args, kwargs

    def _parameter_names(self) -> list[str]:
        try:
            return list(inspect.signature(self._call.function._function).parameters)
        except (TypeError, ValueError):
            return []

    def _compare(self, got: Any, wanted: Any, place: int | str, which: str) -> None:
        name = self._call.name
        if hashable_static(got, place, name) != wanted:
            raise static_mismatch(name, which, got, wanted.value)

    def _end_of(self, number: int | None) -> tuple[Any, Layout | None]:
        """The device or sharding (None for the default device) and the layout of an input; ANYWHERE
        and None for an argument that is not passed."""
        if number is None:
            return ANYWHERE, None
        program, given = self._program, self._specialization
        place = program.in_shardings[number] if self._several else given.place
        layout = program.in_layouts[number] if program.in_layouts else None
        return place, layout or Layout(range(given.jaxpr.in_types[number].ndim))

    def _result_formats(self) -> Any:
        """The pairs (sharding or device, layout) that `out_shardings` gives for the results."""
        call = self._call
        return call.function._shardings.result_formats(call.name, call.traced.out_tree)

    @property
    def input_shardings(self) -> Any:
        """The shardings of the arguments: a pair of the positional ones and those by name, as a
        tree. An argument that the function does not read has its sharding at compilation, and may
        have any."""
        return self._tree.unflatten(self._argument_shardings())

    def _argument_shardings(self) -> list[Sharding]:
        return [
            as_user_sharding(x._shown_place() if place is ANYWHERE else place)
            for place, x in zip(self._places, self._call.arguments, strict=True)
        ]

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results, as a tree."""
        return self._call.traced.out_tree.unflatten(self._result_shardings())

    def _result_shardings(self) -> list[Sharding]:
        formats = self._result_formats()
        places = [
            given if given is not None and not isinstance(given, Sharding) else place
            for place, (given, _) in zip(self._program.out_places, formats, strict=True)
        ]
        return [as_user_sharding(place) for place in places]

    @property
    def input_formats(self) -> Any:
        """The Formats of the arguments: a pair of the positional ones and those by name, as a tree.

        >>> import weft, weft.numpy as jnp
        >>> compiled = (
        ...     weft.jit(lambda x, *, y: x @ y).lower(jnp.ones((2, 3)), y=jnp.ones(3)).compile()
        ... )
        >>> arg_formats, kwarg_formats = compiled.input_formats
        >>> arg_formats[0].layout, kwarg_formats["y"].layout
        (Layout(major_to_minor=(0, 1)), Layout(major_to_minor=(0,)))
        """
        ends = self._argument_shardings(), self._layouts, self._call.arguments
        return self._tree.unflatten(list(map(format_of, *ends)))

    @property
    def output_formats(self) -> Any:
        """The Formats of the results, as a tree."""
        types = self._program.out_types
        layouts = self._program.out_layouts or (None,) * len(types)
        formats = [
            Format(layout or Layout(range(type.ndim)), sharding)
            for sharding, layout, type in zip(self._result_shardings(), layouts, types, strict=True)
        ]
        return self._call.traced.out_tree.unflatten(formats)

    @property
    def donation(self) -> Donation:
        """The donated arrays, each with the result that reuses its memory, or the reason why none
        does."""
        return self._donation

    def _ends(self) -> tuple[list[Any], list[Any]]:
        formats = tree.leaves(self.input_formats), tree.leaves(self.output_formats)
        ins, outs = ([(x.layout, x.sharding) for x in side] for side in formats)
        return ins, outs

    @api_boundary("as_text")
    def as_text(self) -> str:
        """The optimized HLO, as XLA prints it."""
        return str(self._program.executable.as_text())

    @api_boundary("cost_analysis")
    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the cost: "flops", "bytes accessed", …"""
        return dict(self._program.executable.cost_analysis())

    @api_boundary("memory_analysis")
    def memory_analysis(self) -> Any:
        """Bytes of arguments, results, temporaries, code, and at the peak, on each device."""
        return self._program.executable.memory_stats()

    def runtime_executable(self) -> Any:
        """The runtime's own executable, an object of jaxlib that may change with its releases."""
        return self._program.executable.native


def _kind(value: Any) -> Any:
    """The key of a leaf that is not an array; None for a leaf that is checked at each call."""
    if isinstance(value, Tracer):
        return None
    try:
        return type_of(user_value(value))
    except (WeftTypeError, OverflowError):
        return None


def as_user_sharding(place: Any) -> Sharding:
    """A device or a sharding as a sharding; None means the default device."""
    return place if isinstance(place, Sharding) else SingleDeviceSharding(device_for(place))


def format_of(sharding: Sharding, layout: Layout | None, array: Array) -> Format:
    """The format of an argument; `layout` is None for one that is not passed and keeps its
    layout."""
    found = layout or array._layout()
    return Format(found if isinstance(found, Layout) else Layout(range(array.ndim)), sharding)
