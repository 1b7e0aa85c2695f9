"""The `jit` primitive: a jaxpr that is compiled as a unit.

It is initial style: it holds a jaxpr, and a transformation of it is the jit of the transformed
jaxpr. Each transformed jaxpr is derived once and cached on the jaxpr that it came from.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array, as_array
from weft.base.marked_lists import marked
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.lowering.executables import (
    LITTLE,
    LoweredProgram,
    Program,
    compile_lowered,
    compile_program,
    is_brief,
    run_program,
)
from weft.lowering.numpy_evaluation import program_on_host
from weft.lowering.placement import operand_place, operand_shardings
from weft.lowering.result_layouts import operand_layouts

__all__ = ["eager_program", "jit_p", "jit_program", "placed_program"]

jit_p = Primitive("jit", multiple_results=True, memoise=False)


def jit_program(
    jaxpr: Jaxpr, name: str, donated: tuple[bool, ...], arrays: Sequence[Any], operation: str = ""
) -> Program:
    """Returns the executable of a jaxpr for the devices, shardings and layouts of `arrays`, cached.

    Raises WeftValueError, naming the operation, where the arrays are on different devices.
    """
    place = operand_place(arrays, operation or f"jit of {name}", {"jaxpr": jaxpr})
    return placed_program(
        jaxpr,
        name,
        donated,
        place,
        operand_shardings(arrays, place),
        in_layouts=operand_layouts(arrays),
    )


def eager_program(jaxpr: Jaxpr, name: str, arrays: Sequence[Any]) -> Program:
    """Returns the executable of a library function that was called eagerly: like that of one
    operation, fast to compile where there is little to compute."""
    place = operand_place(arrays, name, {"jaxpr": jaxpr})
    make = functools.partial(
        placed_program,
        jaxpr,
        name,
        (),
        place,
        operand_shardings(arrays, place),
        in_layouts=operand_layouts(arrays),
        fast_compile=is_brief(jaxpr, LITTLE),
    )
    return program_on_host(jaxpr, arrays, make) or make()


def placed_program(
    jaxpr: Jaxpr,
    name: str,
    donated: tuple[bool, ...],
    place: Any,
    in_shardings: tuple[Any, ...] | None = None,
    out_shardings: tuple[Any, ...] | None = None,
    options: Any = None,
    in_layouts: tuple[Any, ...] | None = None,
    out_layouts: tuple[Any, ...] | None = None,
    lowered: LoweredProgram | None = None,
    fast_compile: bool = False,
) -> Program:
    """Returns the executable of a jaxpr for the devices `place` (see `compile_program`), cached; it
    is compiled from `lowered`, if given, which was lowered with these arguments."""

    def make() -> Program:
        if lowered is not None:
            return compile_lowered(lowered, compiler_options=options)
        return compile_program(
            jaxpr,
            name,
            place,
            compiler_options=options,
            donated=donated or None,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            in_layouts=in_layouts,
            out_layouts=out_layouts,
            fast_compile=fast_compile,
        )

    return jaxpr.memoize(
        (
            "compiled",
            donated,
            place,
            in_shardings,
            out_shardings,
            options,
            in_layouts,
            out_layouts,
            fast_compile,
            config.settings().compile_effort,
        ),
        make,
    )


def jit_impl(*args: Any, jaxpr: Jaxpr, name: str, donated: tuple[bool, ...]) -> list[Array]:
    arrays = [as_array(x) for x in args]
    if config.looking:
        donated = ()  # Where a result is not finite, the operands are needed once more.
    return list(run_program(jit_program(jaxpr, name, donated, arrays), arrays))


def jit_lower(context: Any, *values: Any, jaxpr: Jaxpr, name: str, donated: Any) -> list[Any]:
    return list(context.call_jaxpr(jaxpr, name, values))


def without_donation(params: dict[str, Any]) -> dict[str, Any]:
    """Drops donation: a derived jaxpr may read a donated operand again, as a residual."""
    return params | {"donated": ()}


def cut_donation(
    params: dict[str, Any], reads: Sequence[bool], used: Sequence[bool]
) -> dict[str, Any]:
    donated = params["donated"]
    return params | {"donated": tuple(marked(reads, donated)) if donated else ()}


holds_one_jaxpr(
    OneJaxpr(
        jit_p,
        describe=lambda params: f"jit of {params['name']}",
        derive=without_donation,
        cut=cut_donation,
    ),
    impl=jit_impl,
    lower=jit_lower,
)
