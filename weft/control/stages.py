"""The stages of compiling by hand: traced, lowered, compiled.

`jit(f).trace(*args)` gives the program, `.lower()` its StableHLO, `.compile()` something to call.
"""

from __future__ import annotations

from typing import Any

from weft import config, tree
from weft.array import as_array
from weft.control.jit import jit_program
from weft.control.jitted import (
    CheckedEntry,
    Entry,
    Jitted,
    TracedCall,
    _stages,
    closed,
    input_names,
)
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.trace import Tracer
from weft.core.types import ShapeDtypeStruct, type_of, user_value
from weft.errors import Fix, TreeError, WeftTypeError
from weft.runtime import client
from weft.transforms.dce import dce_jaxpr
from weft.transforms.eval import operand_device
from weft.transforms.lower import lower_to_module

__all__ = ["Compiled", "Lowered", "Traced", "trace"]


def trace(function: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
    """Traces a jitted function for arguments that may be arrays or ShapeDtypeStructs."""
    static, dynamic = function._split(args, kwargs)
    leaves, in_tree = tree.flatten(dynamic)
    types = [type_of(user_value(x)) for x in leaves]
    traced = function._traced(static, types, in_tree)
    return Traced(function, traced, in_tree, function._donated(in_tree))


class Traced:
    """A traced function: `jaxpr`, `in_avals`, `out_info`."""

    def __init__(
        self, function: Jitted, traced: TracedCall, in_tree: Any, donated: tuple[bool, ...]
    ) -> None:
        self._function = function
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


class Lowered:
    """A lowered function; `as_text` shows its StableHLO."""

    def __init__(self, traced: Traced) -> None:
        self._stage = traced
        jaxpr = live(traced._traced)
        donated = (False,) * jaxpr.num_consts + traced._donated
        self._module = lower_to_module(
            jaxpr, traced._function._name, client.backend().platform, donated
        ).module

    def as_text(self, debug_info: bool = False) -> str:
        """The StableHLO text, with source locations if asked for."""
        return str(self._module.text(debug_info))

    def compiler_ir(self) -> Any:
        """The MLIR module."""
        return self._module.ir

    def compile(self) -> Compiled:
        """The compiled program."""
        return Compiled(self._stage)


class Compiled:
    """A compiled function, called with arguments of exactly the types it was compiled for."""

    def __init__(self, stage: Traced) -> None:
        self._stage = stage
        traced = stage._traced
        jaxpr = live(traced)
        consts = [as_array(x) for x in traced.consts]
        n = jaxpr.num_consts
        name = stage._function._name
        donated = (False,) * n + stage._donated
        looking = config.settings().looks_at_results
        if looking:
            donated = (False,) * len(donated)  # The search for a NaN needs the operands again.
        program = jit_program(jaxpr, name, donated, operand_device(consts, "compile"))
        kept = list(range(len(jaxpr.inputs) - n)) if n else None
        places = [i for i, flag in enumerate(donated[n:]) if flag]
        self._program = program
        entry = Entry(program, consts, kept, places, jaxpr.in_avals, traced.out_tree)
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
        return self._entry.run([as_array(user_value(x)) for x in leaves])

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
