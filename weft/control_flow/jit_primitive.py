"""The `jit` primitive: a program that is compiled as a unit.

It is initial style: it holds a jaxpr, and a transformation of it is the jit of the transformed
jaxpr. Each transformed program is derived once and remembered on the program it came from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array, as_array
from weft.core import rules
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Var
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import ArrayType
from weft.errors import JaxprError
from weft.interpreters.dce import dce_jaxpr
from weft.interpreters.jvp import jvp_jaxpr
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.partial_eval import partial_eval_jaxpr
from weft.interpreters.retype import retype_program
from weft.interpreters.symbolic_zeros import place_cotangents, scatter
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.executables import (
    LITTLE,
    LoweredProgram,
    Program,
    compile_lowered,
    compile_program,
    is_brief,
    run_program,
)
from weft.lowering.loop_layouts import register_jaxpr_layouts
from weft.lowering.numpy_evaluation import program_on_host
from weft.lowering.placement import operand_place, operand_shardings
from weft.lowering.result_layouts import operand_layouts

__all__ = ["eager_program", "jit_p", "jit_program", "placed_program"]

jit_p = Primitive("jit", multiple_results=True, memoise=False)


def derived(primals: Any, jaxpr: Jaxpr, name: str) -> list[Any]:
    """Binds a program derived from a jitted one. Donation does not carry over: the derived program
    may read a donated operand again, as a residual."""
    return list(jit_p.bind(*primals, jaxpr=jaxpr, name=name, donated=()))


def jit_program(
    jaxpr: Jaxpr,
    name: str,
    donated: tuple[bool, ...],
    arrays: Sequence[Any],
    operation: str = "",
) -> Program:
    """The compiled form of a program for operands that lie where these do, made once per place.

    Raises WeftValueError, naming the operation, where they lie on different devices.
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
    """The compiled form of a library function that was called eagerly: as of one operation, fast to
    compile where there is little to compute."""
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
    """The compiled form of a program for a place (see `compile_program`), made once; of what was
    lowered with these arguments already, if that is given."""

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

    found: Program = jaxpr.derived(
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
    return found


def jit_impl(*args: Any, jaxpr: Jaxpr, name: str, donated: tuple[bool, ...]) -> list[Array]:
    arrays = [as_array(x) for x in args]
    if config.looking:
        donated = ()  # Where a result is not finite, the operands are needed once more.
    return list(run_program(jit_program(jaxpr, name, donated, arrays), arrays))


def jit_stepwise(
    *args: Any, jaxpr: Jaxpr, name: str, donated: Any
) -> Iterator[tuple[str, Jaxpr, Sequence[Any]]]:
    yield f"the jit of {name}", jaxpr, args


def jit_type(
    *types: ArrayType, jaxpr: Jaxpr, name: str, donated: tuple[bool, ...]
) -> list[ArrayType]:
    if len(types) != len(jaxpr.inputs) or any(
        got.shape != want.shape or got.dtype != want.dtype
        for got, want in zip(types, jaxpr.in_types, strict=False)
    ):
        raise JaxprError(
            f"jit of {name}: the operands do not fit the program",
            got=", ".join(map(str, types)),
            wanted=", ".join(map(str, jaxpr.in_types)),
        )
    return jaxpr.out_types


def jit_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str, donated: Any
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    program, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if type(t) is not Zero]
    outs = derived([*primals, *given], program, name)
    n = len(jaxpr.outputs)
    return outs[:n], scatter(nonzero_out, outs[n:], jaxpr.out_types)


def jit_linearize(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str, donated: Any
) -> tuple[list[Any], list[Any]]:
    nonzero = tuple(type(t) is not Zero for t in tangents)
    split = linearize_jaxpr(jaxpr, nonzero)
    outs = derived(primals, split.primal, name)
    residuals = split.residuals(primals, outs)
    given = [t for t in tangents if type(t) is not Zero]
    tangents_out = derived([*residuals, *given], split.linear, name)
    n = len(jaxpr.outputs)
    return outs[:n], scatter(split.nonzero_out, tangents_out, jaxpr.out_types)


def jit_transpose(
    cotangents: Sequence[Any], *operands: Any, jaxpr: Jaxpr, name: str, donated: Any
) -> list[Any]:
    linear = tuple(type(x) is LinearOperand for x in operands)
    nonzero = tuple(type(ct) is not Zero for ct in cotangents)
    program, nonzero_in = transpose_jaxpr(jaxpr, linear, nonzero)
    known = [x for x in operands if type(x) is not LinearOperand]
    given = [ct for ct in cotangents if type(ct) is not Zero]
    return place_cotangents(linear, nonzero_in, derived([*known, *given], program, name))


def jit_vmap(
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    jaxpr: Jaxpr,
    name: str,
    donated: Any,
) -> tuple[list[Any], tuple[int | None, ...]]:
    program, dims_out = vmap_jaxpr(jaxpr, axis, tuple(dims))
    return derived(args, program, name), dims_out


def jit_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    split = partial_eval_jaxpr(eqn.params["jaxpr"], tuple(unknown))
    name = eqn.params["name"]
    known_in = [x for x, flag in zip(eqn.inputs, unknown, strict=True) if not flag]
    known_out = [v for v, flag in zip(eqn.outputs, split.unknown_out, strict=True) if not flag]
    unknown_out = [v for v, flag in zip(eqn.outputs, split.unknown_out, strict=True) if flag]
    residuals = [Var(type) for type in split.residual_types]
    known = eqn.replace(
        inputs=known_in,
        outputs=known_out + residuals,
        params={"jaxpr": split.known, "name": name, "donated": ()},
    )
    rest = [x for x, flag in zip(eqn.inputs, unknown, strict=True) if flag]
    later = eqn.replace(
        inputs=residuals + rest,
        outputs=unknown_out,
        params={"jaxpr": split.unknown, "name": name, "donated": ()},
    )
    return SplitEquation(known, later, split.unknown_out, residuals)


def jit_dce(eqn: Equation, used: Sequence[bool]) -> tuple[list[bool], Equation | None]:
    jaxpr, reads = dce_jaxpr(eqn.params["jaxpr"], tuple(used))
    if not jaxpr.outputs and not jaxpr.effects:
        return [False] * len(eqn.inputs), None
    donated = eqn.params["donated"]
    smaller = eqn.replace(
        inputs=[x for x, use in zip(eqn.inputs, reads, strict=True) if use],
        outputs=[v for v, use in zip(eqn.outputs, used, strict=True) if use],
        params=eqn.params
        | {
            "jaxpr": jaxpr,
            "donated": tuple(d for d, use in zip(donated, reads, strict=True) if use)
            if donated
            else (),
        },
    )
    return list(reads), smaller


def jit_lower(context: Any, *values: Any, jaxpr: Jaxpr, name: str, donated: Any) -> list[Any]:
    return list(context.call_jaxpr(jaxpr, name, values))


rules.impl.register(jit_p, jit_impl)
rules.type_rule.register(jit_p, jit_type)
rules.retype.register(jit_p, retype_program)
rules.jvp.register(jit_p, jit_jvp)
rules.linearize.register(jit_p, jit_linearize)
rules.transpose.register(jit_p, jit_transpose)
rules.vmap.register(jit_p, jit_vmap)
rules.partial_eval.register(jit_p, jit_partial_eval)
rules.dce.register(jit_p, jit_dce)
rules.lower.register(jit_p, jit_lower)
rules.stepwise.register(jit_p, jit_stepwise)
register_jaxpr_layouts(jit_p)
