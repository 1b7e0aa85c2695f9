"""The `jit` primitive: a jaxpr that is compiled as a unit.

It is initial style: it holds a jaxpr, and a transformation of it is the jit of the transformed
jaxpr. Each transformed jaxpr is derived once and cached on the jaxpr that it came from.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.util import keep_marked
from weft.control_flow.body_tracing import ProgramPrimitive
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Facts
from weft.core.rules import Hoisted, Params
from weft.core.shared_jaxprs import emits_jaxprs, program_alone
from weft.interpreters.hoist import hoist_program
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.lowering.executables import (
    FAST_COMPILE_LIMIT,
    LoweredProgram,
    Program,
    compile_lowered,
    compile_program,
    is_brief,
    run_program,
)
from weft.lowering.numpy_evaluation import program_on_host
from weft.lowering.result_layouts import operand_formats

jit_p = ProgramPrimitive("jit")
emits_jaxprs.add(jit_p)


def jit_program(
    jaxpr: Jaxpr, name: str, donated: tuple[bool, ...], arrays: Sequence[Any], operation: str = ""
) -> Program:
    """The executable of a jaxpr for the devices, shardings and layouts of `arrays`, cached. Raises
    WeftValueError, naming the operation, where the arrays are on different devices."""
    where = operand_formats(arrays, operation or f"jit of {name}", {"jaxpr": jaxpr})
    return placed_program(jaxpr, name, donated=donated, **where)


def eager_program(jaxpr: Jaxpr, name: str, arrays: Sequence[Any]) -> Program:
    """The executable of a library function called eagerly: fast to compile for little work."""
    where = operand_formats(arrays, name, {"jaxpr": jaxpr})
    brief = is_brief(jaxpr, FAST_COMPILE_LIMIT)
    make = functools.partial(placed_program, jaxpr, name, fast_compile=brief, **where)
    return program_on_host(jaxpr, arrays, make) or make()


def placed_program(
    jaxpr: Jaxpr, name: str, *, lowered: LoweredProgram | None = None, **how: Any
) -> Program:
    """The cached executable of a jaxpr; `how` has further arguments of `compile_program`, by name.
    It is compiled from `lowered`, if given, which was lowered with these arguments."""
    # A module that was lowered by hand has the lines of this very jaxpr.
    jaxpr = program_alone(jaxpr, lines=lowered is not None)
    effort = config.settings().of_operations
    # What is empty or None is the default.
    said = sorted(pair for pair in how.items() if pair[1])
    given = how.get("in_shardings")

    def make() -> Program:
        if lowered is not None:
            return compile_lowered(lowered, compiler_options=how.get("compiler_options"))
        if given is None:
            return compile_program(jaxpr, name, **how)
        others = [pair for pair in said if pair[0] != "in_shardings"]
        known: list[Any] = jaxpr.memoize(("on several devices", effort, *others), list)
        for before, program in known:
            if _is_as_chosen(given, before, program.in_shardings):
                return program.taking(given)
        program = compile_program(jaxpr, name, **how)
        known.append((given, program))
        return program

    return jaxpr.memoize(("compiled", effort, *said), make)


def _is_as_chosen(given: Sequence[Any], before: Sequence[Any], chosen: Sequence[Any]) -> bool:
    """Whether operands are placed as `before`, or as the compiler chose where those were not
    committed: so the numbers in a loop's state come back."""
    return all(
        now is old or (old is None and now is own.canonical)
        for now, old, own in zip(given, before, chosen, strict=True)
    )


def jit_impl(*args: Any, jaxpr: Jaxpr, name: str, donated: tuple[bool, ...]) -> list[Array]:
    arrays = [as_array(x) for x in args]
    if config.looking:
        donated = ()  # Where a result is not finite, the operands are needed once more.
    return list(run_program(jit_program(jaxpr, name, donated, arrays), arrays))


def jit_lower(context: Any, *values: Any, jaxpr: Jaxpr, name: str, donated: Any) -> list[Any]:
    return list(context.call_jaxpr(jaxpr, name, values))


def without_donation(params: dict[str, Any]) -> dict[str, Any]:
    """Drops donation: a derived jaxpr may read a donated operand as a residual."""
    return params | {"donated": ()}


def cut_donation(params: Params, reads: Sequence[bool], used: Sequence[bool]) -> Params:
    donated = params["donated"]
    return params | {"donated": tuple(keep_marked(reads, donated)) if donated else ()}


def jit_hoist(params: Params) -> Hoisted | None:
    return hoist_program(without_donation(params))


holds_one_jaxpr(
    OneJaxpr(
        jit_p,
        describe=lambda params: f"jit of {params['name']}",
        derive=without_donation,
        cut=cut_donation,
    ),
    hoist=jit_hoist,
    impl=jit_impl,
    lower=jit_lower,
)

jit_p.facts = Facts(wide_cotangents=True)
