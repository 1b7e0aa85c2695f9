"""The stages of compiling by hand: traced, lowered, compiled.

`jit(f).trace(*args)` gives the program, `.lower()` its StableHLO, `.compile()` something to call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import config, tree
from weft.array import Array, as_array, to_place
from weft.control.entries import CheckedEntry, Entry
from weft.control.jit import placed_program
from weft.control.jitted import Jitted, TracedCall, _stages, closed, input_names
from weft.control.placement import check_arguments, placed_alike
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.trace import Tracer
from weft.core.types import ArrayType, ShapeDtypeStruct, type_of, user_value
from weft.errors import Fix, TreeError, WeftTypeError
from weft.ops.sharding_constraint import as_sharding
from weft.runtime import client
from weft.sharding import Sharding, SingleDeviceSharding
from weft.transforms.dce import dce_jaxpr
from weft.transforms.lower import lower_to_module
from weft.transforms.places import operand_place, operand_shardings

__all__ = ["Compiled", "Lowered", "Traced", "trace"]


def trace(function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """Traces a jitted function for arguments that may be arrays or ShapeDtypeStructs."""
    static, dynamic = function._split(args, kwargs)
    leaves, in_tree = tree.flatten(dynamic)
    types = [type_of(user_value(x)) for x in leaves]
    traced = function._traced(static, types, in_tree)
    given = [
        stand_in(x, type, f"jit of {function._name}") for x, type in zip(leaves, types, strict=True)
    ]
    places = function._argument_places(static, in_tree)
    check_arguments(function, given, places, in_tree, "in_shardings says")
    placed = [
        x if place is None else placed_alike(x, place)
        for x, place in zip(given, places, strict=True)
    ]
    return Traced(function, traced, in_tree, function._donated(in_tree), placed)


def stand_in(leaf: Any, type: ArrayType, operation: str) -> Array:
    """An array without values of the type of an argument, put where that was put or will be."""
    if isinstance(leaf, Array) and not isinstance(leaf, Tracer):
        return Array(None, type, leaf.signature)
    place = as_sharding(getattr(leaf, "sharding", None), operation)
    if isinstance(place, Sharding):
        place.check_shape(operation, "an argument", type.shape)
    return Array(None, type, type if place is None else (type, place))


class Traced:
    """A traced function: `jaxpr`, `in_avals`, `out_info`."""

    def __init__(
        self,
        function: Jitted,
        traced: TracedCall,
        in_tree: Any,
        donated: tuple[bool, ...],
        arguments: Sequence[Array],
    ) -> None:
        self._function = function
        # Without values: their types and where they lie.
        self._arguments = arguments
        self._traced = traced
        self._in_tree = in_tree
        self._donated = donated

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program with its closed-over values."""
        return closed(self._traced)

    @property
    def out_info(self) -> Any:
        """The tree of results, as ShapeDtypeStructs."""
        return self._traced.out_tree.unflatten(
            [ShapeDtypeStruct(t.shape, t.dtype) for t in self._traced.jaxpr.out_types]
        )

    def lower(self) -> Lowered:
        """The program in StableHLO."""
        return Lowered(self)


def live(traced: TracedCall) -> Jaxpr:
    """The program without dead equations, as it is compiled; it takes all inputs still."""
    return dce_jaxpr(traced.jaxpr, (True,) * len(traced.jaxpr.outputs), keep_inputs=True)[0]


class Plan:
    """What a traced function is compiled of: its program, its places and what is closed over."""

    __slots__ = ("consts", "donated", "in_shardings", "jaxpr", "name", "pinned", "place")

    def __init__(self, stage: Traced) -> None:
        traced, function = stage._traced, stage._function
        self.jaxpr = live(traced)
        self.name = function._name
        self.consts = [as_array(x) for x in traced.consts]
        self.donated = (False,) * self.jaxpr.num_consts + stage._donated
        operands = [*self.consts, *stage._arguments]
        operation = f"jit of {self.name}"
        self.place = operand_place(operands, operation, {"jaxpr": self.jaxpr})
        self.in_shardings = operand_shardings(operands, self.place)
        self.pinned = function._pinned(traced)


class Lowered:
    """A lowered function; `as_text` shows its StableHLO."""

    def __init__(self, traced: Traced) -> None:
        self._stage = traced
        self._plan = plan = Plan(traced)
        self._module = lower_to_module(
            plan.jaxpr,
            plan.name,
            client.backend().platform,
            plan.donated,
            devices=plan.place if type(plan.place) is tuple else (),
            in_shardings=plan.in_shardings,
            out_shardings=plan.pinned,
        ).module

    def as_text(self, debug_info: bool = False) -> str:
        """The StableHLO text, with source locations if asked for."""
        return str(self._module.text(debug_info))

    def compiler_ir(self) -> Any:
        """The MLIR module."""
        return self._module.ir

    def compile(self) -> Compiled:
        """The compiled program."""
        return Compiled(self._stage, self._plan)


def check_leaf(name: str, path: Any, leaf: Any, want: ArrayType) -> None:
    """Raises WeftTypeError for an argument of another type than a program was compiled for."""
    got = type_of(user_value(leaf))
    if isinstance(leaf, Tracer):
        raise WeftTypeError(
            f"compiled {name} cannot be called under a transformation",
            operation=name,
            got=leaf.describe(),
            wanted="an array",
            fix=Fix("jit", "call the jitted function instead of the compiled one", {}),
        )
    if got.shape != want.shape or got.dtype != want.dtype:
        raise WeftTypeError(
            f"compiled {name}: the argument at {tree.keystr(path)} has another type",
            operation=name,
            got=str(got),
            wanted=str(want),
        )


def as_user_sharding(place: Any) -> Sharding:
    """A place as a sharding; None is the default device."""
    if isinstance(place, Sharding):
        return place
    return SingleDeviceSharding(client.backend().default_device if place is None else place)


class Compiled:
    """A compiled function, called with arguments of exactly the types it was compiled for."""

    def __init__(self, stage: Traced, plan: Plan) -> None:
        self._stage = stage
        jaxpr, consts, name, donated = plan.jaxpr, plan.consts, plan.name, plan.donated
        n = jaxpr.num_consts
        looking = config.settings().looks_at_results
        if looking:
            donated = (False,) * len(donated)  # The search for a NaN needs the operands again.
        program = placed_program(jaxpr, name, donated, plan.place, plan.in_shardings, plan.pinned)
        kept = list(range(len(jaxpr.inputs) - n)) if n else None
        places = [i for i, flag in enumerate(donated[n:]) if flag]
        self._program = program
        # By leaf: where the program takes the arguments.
        several = type(plan.place) is tuple
        self._places = (
            program.in_shardings[n:] if several else [plan.place] * (len(jaxpr.inputs) - n)
        )
        entry = Entry(
            program, consts, kept, places, jaxpr.in_avals, stage._traced.out_tree, settled=several
        )
        self._entry: Entry | CheckedEntry = entry
        if looking:
            reads = (True,) * len(jaxpr.inputs)
            names = input_names(stage._function._function, stage._in_tree, n, reads)
            self._entry = CheckedEntry(entry, jaxpr, name, names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._stage._function._name
        _, dynamic = self._stage._function._split(args, kwargs)
        leaves, in_tree = tree.flatten(dynamic)
        if in_tree != self._stage._in_tree:
            raise TreeError(
                f"compiled {name}: the arguments have another structure than it was compiled for",
                operation=name,
                got=str(in_tree),
                wanted=str(self._stage._in_tree),
            )
        wanted = self._stage._traced.jaxpr.in_avals
        for (path, leaf), want in zip(tree.leaves_with_path(dynamic), wanted, strict=True):
            check_leaf(name, path, leaf, want)
        arrays = [as_array(user_value(x)) for x in leaves]
        check_arguments(self._stage._function, arrays, self._places, in_tree, "it was compiled for")
        arrays = [
            x if place is None else to_place(x, place)
            for x, place in zip(arrays, self._places, strict=True)
        ]
        return self._entry.run(arrays)

    @property
    def input_shardings(self) -> Any:
        """Where the arguments lie: a pair of the positional ones and those by name, as a tree of
        shardings."""
        return self._stage._in_tree.unflatten([as_user_sharding(x) for x in self._places])

    @property
    def output_shardings(self) -> Any:
        """Where the results lie, as a tree of shardings."""
        places = [as_user_sharding(place) for place in self._program.out_places]
        return self._stage._traced.out_tree.unflatten(places)

    def as_text(self) -> str:
        """The optimised program, as XLA shows it."""
        return str(self._program.executable.as_text())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the cost: "flops", "bytes accessed", …"""
        return dict(self._program.executable.cost_analysis())

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries."""
        return self._program.executable.memory_stats()


_stages.append(trace)
