"""The rules that follow from a declared primitive's body, or from the operands it is linear in.

A derivative of a body is a derivative of its jaxpr, applied as a jitted function, so that a large
body stays one equation. The results themselves come from the primitive: a rule that was given (a
lowering, a batching rule) is used wherever the primitive is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.base import source as sources
from weft.base.util import keep_marked
from weft.control_flow.jit_primitive import jit_p
from weft.core import rules
from weft.core.jaxpr import Jaxpr
from weft.core.rules import LinearOperand, Values, Zero, not_linear
from weft.core.types import ArrayType, type_of
from weft.define.declared_primitive import DefinedPrimitive
from weft.errors import Fix, MissingRuleError
from weft.interpreters.jvp import jvp_jaxpr, merge_cotangents, merge_zeros
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.partial_eval import dce_jaxpr
from weft.interpreters.transpose import transpose_jaxpr
from weft.ops.collectives.all_reduce import vary
from weft.ops.structural.tangents import add_tangents, zeros


def listed(primitive: DefinedPrimitive, found: Any) -> list[Any]:
    """Results as a list, also of a primitive with one result."""
    return list(found) if primitive.multiple_results else [found]


def packed(primitive: DefinedPrimitive, found: Sequence[Any]) -> Any:
    """A list of results in the primitive's form."""
    return list(found) if primitive.multiple_results else found[0]


def _call(jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr, applied as a jitted function, or [] without results."""
    return list(jit_p.bind(*values, jaxpr=jaxpr, name=name, donated=())) if jaxpr.outputs else []


def derive_rules(primitive: DefinedPrimitive) -> None:
    """Registers every rule but vmap that the primitive has not been given."""

    def derive(table: rules.Table, rule: Any) -> None:
        if primitive not in table:
            table.register(primitive, rule)
            primitive.derived.add(table.kind)

    if primitive.body is not None:
        derive_program_rules(primitive, derive)
    jvp_by, linearize_by = (rules.linearize, _jvp_of_body), (rules.jvp, _linearized_body)
    derive(rules.jvp, lambda p, t, /, **params: _derive(primitive, *jvp_by, p, t, params))
    derive(
        rules.linearize, lambda p, t, /, **params: _derive(primitive, *linearize_by, p, t, params)
    )


def derive_program_rules(primitive: DefinedPrimitive, derive: Any) -> None:
    """Registers the rules that the jaxpr of a primitive gives directly."""

    def type_rule(*types: ArrayType, **params: Any) -> Any:
        return packed(primitive, primitive.result_types(types, params))

    def lower(context: Any, /, *values: Any, **params: Any) -> list[Any]:
        with sources.override(context.source):
            program = primitive.program(context.in_types, params)
        return list(context.call_jaxpr(program, primitive.name, values))

    def transpose(cotangents: Any, /, *operands: Any, **params: Any) -> list[Any]:
        return derived_transpose(primitive, cotangents, operands, params)

    derive(rules.type_rule, type_rule)
    derive(rules.lower, lower)
    derive(rules.transpose, transpose)


def given_rule(primitive: DefinedPrimitive, table: rules.Table) -> Any:
    """The rule of a table that was not derived, or None."""
    return None if table.kind in primitive.derived else table.get(primitive)


def _derive(
    primitive: DefinedPrimitive,
    other: rules.Table,
    of_body: Callable[..., tuple[Sequence[bool], list[Any]]],
    primals: Values,
    tangents: Values,
    params: dict[str, Any],
) -> tuple[Any, Any]:
    """Results and tangents: by a given rule of the `other` table, by linearity, or by the body's
    derivative, of which `of_body` returns the nonzero tangents. Raises MissingRuleError if there is
    none."""
    rule = given_rule(primitive, other)
    if rule is not None:
        out: tuple[Any, Any] = rule(primals, tangents, **params)
        return out
    nonzero = tuple(type(t) is not Zero for t in tangents)
    if _is_linear_in(primitive, nonzero):
        return _linear_jvp(primitive, primals, tangents, params)
    if primitive.body is None:
        raise _no_derivative(primitive, nonzero)
    outs = listed(primitive, primitive.bind(*primals, **params))
    program = primitive.program([type_of(x) for x in primals], params)
    moving = keep_marked(nonzero, tangents)
    marks, made = of_body(primitive.name, program, nonzero, primals, moving, outs)
    # Results and tangents vary along the same mesh axes.
    fitted = [
        t if type(t) is Zero else vary(t, type_of(x).varying)
        for x, t in zip(outs, merge_zeros(marks, made, [type_of(x) for x in outs]), strict=True)
    ]
    return packed(primitive, outs), packed(primitive, fitted)


def _drop_results(program: Jaxpr, count: int) -> tuple[Jaxpr, Sequence[bool]]:
    """A jaxpr without its first results, and which of its inputs are left."""
    used = [i >= count for i in range(len(program.outputs))]
    return dce_jaxpr(program, tuple(used))


def _jvp_of_body(
    name: str,
    program: Jaxpr,
    nonzero: tuple[bool, ...],
    primals: Values,
    moving: Values,
    outs: Values,
) -> tuple[Sequence[bool], list[Any]]:
    program, marks = jvp_jaxpr(program, nonzero)
    tail, reads = _drop_results(program, len(outs))
    return marks, _call(tail, f"jvp_of_{name}", keep_marked(reads, [*primals, *moving]))


def _linearized_body(
    name: str,
    program: Jaxpr,
    nonzero: tuple[bool, ...],
    primals: Values,
    moving: Values,
    outs: Values,
) -> tuple[Sequence[bool], list[Any]]:
    split = linearize_jaxpr(program, nonzero)
    tail, reads = _drop_results(split.primal, len(outs))
    extra = _call(tail, f"residuals_of_{name}", keep_marked(reads, primals))
    residuals = split.residuals(primals, [*outs, *extra])
    return split.nonzero_out, _call(split.linear, f"linear_{name}", [*residuals, *moving])


def _is_linear_in(primitive: DefinedPrimitive, nonzero: Sequence[bool]) -> bool:
    """Whether the primitive is declared linear in all operands with tangents."""
    known = {i for group in primitive.linear for i in group}
    return bool(known) and all(i in known for i, flag in enumerate(nonzero) if flag)


def _linear_jvp(
    primitive: DefinedPrimitive, primals: Values, tangents: Values, params: dict[str, Any]
) -> tuple[Any, Any]:
    """The derivative of a linear operation is itself; of a multilinear one, the sum of itself in
    each group of operands with the others fixed."""
    outs = listed(primitive, primitive.bind(*primals, **params))
    total: list[Any] = [Zero(type_of(x).tangent()) for x in outs]
    for group in primitive.linear:
        if all(type(tangents[i]) is Zero for i in group):
            continue
        operands = list(primals)
        for i in group:
            t = tangents[i]
            operands[i] = zeros(type_of(primals[i])) if type(t) is Zero else t
        terms = listed(primitive, primitive.bind(*operands, **params))
        total = [
            a if type(a) is Zero and a.type.dtype != type_of(b).dtype else add_tangents(a, b)
            for a, b in zip(total, terms, strict=True)
        ]
    return packed(primitive, outs), packed(primitive, total)


def _no_derivative(primitive: DefinedPrimitive, nonzero: Sequence[bool]) -> MissingRuleError:
    places = [i for i, flag in enumerate(nonzero) if flag]
    message = f"the primitive {primitive.name!r} has no jvp rule"
    got = f"tangents of the operands {places}, and no body to derive a rule from"
    wanted = "a jvp rule"
    fix = Fix(
        "register_rule",
        f"{rules.jvp.how_to_register(primitive)}; or, where it is linear in these operands, "
        f"declare linear={tuple(places)}",
        {
            "primitive": primitive.name,
            "rule": "jvp",
            "call": rules.jvp.register_with,
            "linear": tuple(places),
        },
    )
    return MissingRuleError(message, operation=primitive.name, got=got, wanted=wanted, fix=fix)


def derived_transpose(
    primitive: DefinedPrimitive, cotangents: Any, operands: Sequence[Any], params: dict[str, Any]
) -> list[Any]:
    """The transpose of the body's jaxpr."""
    linear = tuple(type(x) is LinearOperand for x in operands)
    places = {i for i, flag in enumerate(linear) if flag}
    if primitive.linear and not any(places <= set(group) for group in primitive.linear):
        raise not_linear(next(x for x in operands if type(x) is LinearOperand))
    cts = listed(primitive, cotangents)
    types = [x.type if type(x) is LinearOperand else type_of(x) for x in operands]
    nonzero = tuple(type(ct) is not Zero for ct in cts)
    program, reached = transpose_jaxpr(primitive.program(types, params), linear, nonzero)
    values = [x for x in operands if type(x) is not LinearOperand]
    values += [ct for ct in cts if type(ct) is not Zero]
    found = _call(program, f"transpose_of_{primitive.name}", values)
    return merge_cotangents(linear, reached, found)
