"""A traced function for arguments with given shardings and layouts: lowered and compiled, for calls
and by hand, with its closed-over values and donated arguments.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.control_flow.jit_primitive import placed_program
from weft.core.jaxpr import Jaxpr
from weft.dispatch.donation import Donation, donation_of, result_names, warn_of_unused
from weft.dispatch.executable_calls import CompiledCall, DonatedLeaves, checked_call, pack_constants
from weft.interpreters.partial_eval import dce_jaxpr
from weft.interpreters.repeated_bodies import with_called_bodies
from weft.lowering.called_bodies import bodies_are_called
from weft.lowering.executables import LoweredProgram, Program, device_for, lower_program
from weft.lowering.placement import operand_place, operand_shardings
from weft.lowering.result_layouts import operand_layouts
from weft.runtime import client
from weft.tracing.argument_names import argument_names, input_names
from weft.tracing.traces import TracedBody


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """A compiled specialization: its executable, its calling convention, and the arguments it
    donates."""

    program: Program
    call: CompiledCall
    donation: Donation


class Specialization:
    """A traced function for arguments with certain shardings and layouts. Inputs that its jaxpr
    does not read are dropped, unless the function keeps them: `reads` marks the remaining ones, and
    `inputs` maps each leaf of the arguments to its index among them, or None."""

    def __init__(
        self, function: Any, traced: TracedBody, in_tree: Any, arguments: Sequence[Array]
    ) -> None:
        self.function = function
        self.traced = traced
        self.in_tree = in_tree
        self.types = [x.type for x in arguments]
        jaxpr = traced.jaxpr
        n = jaxpr.num_consts
        reads: Sequence[bool] = (True,) * len(jaxpr.inputs)
        if not function._options.keep_unused:
            jaxpr, reads = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outputs))
        self.reads = tuple(reads)
        consts = [as_array(x) for x in traced.consts]
        read = [x for x, use in zip(consts, reads[:n], strict=True) if use]
        self.jaxpr, self.consts = pack_constants(jaxpr, read)
        given = [x for x, use in zip(arguments, reads[n:], strict=True) if use]
        numbers = iter(range(len(self.consts), len(self.consts) + len(given)))
        self.inputs = [next(numbers) if use else None for use in reads[n:]]
        # By leaf, and by input of the jaxpr.
        self.donated_leaves: tuple[bool, ...] = function._donated(in_tree)
        pairs = zip(self.donated_leaves, reads[n:], strict=True)
        self.donated = (False,) * len(self.consts) + tuple(flag for flag, use in pairs if use)
        self.place = operand_place(
            [*consts, *arguments],
            f"jit of {self.name}",
            {"jaxpr": self.jaxpr},
            lambda: ["a closed-over array"] * len(consts) + self.names,
            also="" if function._shardings.arguments is None else ", and say so in in_shardings",
        )
        operands = [*self.consts, *given]
        self.formats = {
            "place": self.place,
            "in_shardings": operand_shardings(operands, self.place),
            "in_layouts": operand_layouts(operands),
            "out_shardings": function._shardings.required_shardings(self.name, traced.out_tree),
            "out_layouts": function._shardings.result_layouts(self.name, traced.out_tree),
        }

    @property
    def name(self) -> str:
        """The name of the function."""
        name: str = self.function._name
        return name

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the leaves of the arguments in messages."""
        return argument_names(self.function._function, self.in_tree)

    def of_inputs(self) -> list[str]:
        """The names of the inputs of the jaxpr in messages."""
        count = len(self.traced.consts)
        return input_names(self.function._function, self.in_tree, count, self.reads)

    def lower(self, platform: str) -> LoweredProgram:
        """Lowers the jaxpr to a module."""
        return lower_program(
            self.with_bodies(platform),
            self.name,
            donated=self.donated,
            platform=platform,
            **self.formats,
        )

    def with_bodies(self, platform: str) -> Jaxpr:
        """The jaxpr for the compiler: repeated bodies are calls, if modules have calls."""
        count = len(self.place) if type(self.place) is tuple else 1
        layouts = (self.formats["in_layouts"], self.formats["out_layouts"])
        called = bodies_are_called(platform, count, layouts)
        return with_called_bodies(self.jaxpr) if called else self.jaxpr

    def compile(
        self, options: Any, lowered: LoweredProgram | None = None, settled: bool = False
    ) -> Ready:
        """Compiles the jaxpr, or `lowered`, and warns once of arrays that are donated in vain.
        `settled`: calls move all arguments to its shardings first."""
        looking = config.settings().looks_at_results
        first = self.place[0] if type(self.place) is tuple else device_for(self.place)
        program = placed_program(
            self.with_bodies(client.backend_of(first).platform),
            self.name,
            lowered=None if looking else lowered,
            # The search for a NaN needs the operands again.
            donated=(False,) * len(self.donated) if looking else self.donated,
            compiler_options=options,
            **self.formats,
        )
        named = any(self.donated_leaves)
        names = self.names if named else [""] * len(self.types)
        donation = donation_of(
            program,
            names,
            self.types,
            self.donated_leaves,
            self.inputs,
            result_names(self.traced.out_tree) if named else (),
            looking,
        )
        warn_of_unused(donation, self.name, program)
        kept = [i for i, number in enumerate(self.inputs) if number is not None]
        taken = [x.leaf for x in donation if x.taken]
        call = CompiledCall(
            program,
            self.consts,
            kept if self.consts or len(kept) < len(self.inputs) else None,
            self.types,
            self.traced.out_tree,
            settled,
            DonatedLeaves(taken, [x.leaf for x in donation.unused], names, self.types)
            if taken
            else None,
        )
        if looking:
            call = checked_call(call, self.jaxpr, self.name, self.of_inputs())
        return Ready(program, call, donation)
