"""`check_primitive`: every rule of a primitive against every other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.errors import Fix, MissingRuleError, WeftError, WeftTypeError, api_boundary
from weft.testing import derivative_properties as derivatives
from weft.testing import embedding_properties as embedding
from weft.testing import mapping_properties as mapping
from weft.testing import value_properties as values
from weft.testing.primitive_application import PrimitiveApplication, Skipped, application
from weft.testing.report import Check, Example, Report


@dataclasses.dataclass(frozen=True)
class Property:
    """A property of a rule, and the rules without which it cannot be checked."""

    rule: str
    check: Callable[[PrimitiveApplication], None]
    needs: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """The property in words."""
        return " ".join((self.check.__doc__ or "").split()).rstrip(".")


_BASE = ("parameters", "type", "lowering")
_FORWARD = (*_BASE, "jvp")
_REVERSE = (*_FORWARD, "linearize", "transpose")
_MAPPED = (*_BASE, "vmap")
_ALL = (*_REVERSE, "vmap")

# Base rules first: what a rule is built on is checked before it.
PROPERTIES = (
    Property("parameters", values.parameters),
    Property("type", values.result_types),
    Property("type", values.weak_types, _BASE),
    Property("type", values.settings, _BASE),
    Property("type", values.printable, _BASE),
    Property("lowering", values.deterministic, _BASE),
    Property("lowering", values.expected, _BASE),
    Property("lowering", values.jitted, _BASE),
    Property("lowering", values.body, _BASE),
    Property("lowering", values.sweep, _BASE),
    Property("type", embedding.varies, _BASE),
    Property("linear", derivatives.declared_linear, _BASE),
    Property("transpose", derivatives.transpose_rule, (*_BASE, "linear")),
    Property("jvp", derivatives.finite_differences, _BASE),
    Property("jvp", derivatives.forward_effects, _FORWARD),
    Property("linearize", derivatives.linearized, _FORWARD),
    Property("transpose", derivatives.transposed, (*_FORWARD, "linearize")),
    Property("jvp", derivatives.second_derivatives, _REVERSE),
    Property("jvp", derivatives.low_precision, _REVERSE),
    Property("vmap", mapping.mapped, _BASE),
    Property("vmap", mapping.mapped_over_nothing, _MAPPED),
    Property("vmap", mapping.mapped_effects, _MAPPED),
    Property("vmap", mapping.mapped_forward, (*_FORWARD, "vmap")),
    Property("vmap", mapping.mapped_reverse, _ALL),
    Property("vmap", mapping.forward_of_mapped, _ALL),
    Property("dead-code elimination", values.dead_code, _BASE),
    Property("partial evaluation", values.split, _BASE),
    Property("composition", embedding.in_scan, _REVERSE),
    Property("composition", embedding.in_cond, _REVERSE),
    Property("composition", embedding.in_checkpoint, _REVERSE),
    Property("composition", embedding.in_shard_map, _REVERSE),
)

# The kinds of rules that are listed for each primitive, by the headings of their columns.
COLUMNS = {
    table.column: table
    for table in vars(rules).values()
    if isinstance(table, rules.Table) and table.column
}


def rule_sources(primitive: Primitive) -> dict[str, str]:
    """For each kind of rule whether it is given, derived, missing, or replaced by another."""
    derived = getattr(primitive, "derived", ())
    out: dict[str, str] = {}
    for table in COLUMNS.values():
        if primitive in table:
            out[table.kind] = "derived" if table.kind in derived else "given"
        elif table is rules.lower and any(p is primitive for p, _ in rules.lower_for_platform):
            out[table.kind] = "given"
        else:
            out[table.kind] = table.default or "missing"
    if out["linearize"] == rules.linearize.default and out["jvp"] == "missing":
        out["linearize"] = "missing"
    return out


@api_boundary
def check_primitive(primitive: Primitive, examples: Iterable[Any]) -> Report:
    """Checks every rule of a primitive, given or derived, against every other.

    Each of the `examples` is an `Example(args, params)`, or the tuple of operands if there are no
    parameters. They should stay away from points where the function has no derivative, and an
    operand may have its elements rotated. An `Example` may also say what results are `wanted`, in
    which operands there is no derivative (`constant`), and how many and in which modes (`order`,
    `modes`). On each it compares: the type rule with what is computed, for each inexact dtype, weak
    operands and operands that vary over devices; evaluation with jitted functions, the body and
    what is wanted; the jvp with finite differences in double precision, of real and, where the type
    rule takes them, complex numbers, and with itself in narrower dtypes; linearize with the jvp;
    transposition with linearize; second derivatives; `vmap` (of choices of operands and axes, over
    three, one and no elements, and of derivatives) with a loop; dead-code elimination and partial
    evaluation with the whole; effects before and after; and all of it inside `scan`, `cond`,
    `checkpoint` and `shard_map` over two of the devices.

    Errors that no example shows are not found: give operands with dimensions, of several dtypes
    where rules treat them differently, and each parameter. Only derivatives, a body, or `wanted`
    contradict a lowering of another function. It takes a few seconds, most of which XLA compiles.

    The result is a `Report`, which prints as a table; `report.raise_if_failed()` raises JaxprError
    for a test. A property that builds on a rule that failed is skipped, so the first failure names
    the rule that is wrong. Raises WeftTypeError for anything that is not a primitive and for no
    examples.

    >>> from weft.extend.core import define_primitive
    >>> square = define_primitive("square", body=lambda x: x * x)
    >>> check_primitive(square, [(3.0,)]).raise_if_failed().failed
    []
    """
    if not isinstance(primitive, Primitive):
        message = "check_primitive takes a primitive first"
        got, wanted = f"{primitive!r:.80} of class {type(primitive).__name__}", "a Primitive"
        fix = Fix("primitive", "pass the primitive, not the function that binds it", {})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    cases = list(_examples(primitive, examples))
    sources = rule_sources(primitive)
    wrong: dict[str, str] = {}
    made: dict[int, PrimitiveApplication] = {}
    checks = []
    for prop in PROPERTIES:
        check = _run(prop, primitive, cases, made, sources, wrong)
        if check.outcome in ("failed", "missing"):
            wrong.setdefault(check.rule, check.outcome)
            wrong.setdefault(prop.rule, check.outcome)
        checks.append(check)
    return Report(primitive.name, sources, checks)


def _examples(primitive: Primitive, examples: Iterable[Any]) -> Iterator[Example]:
    """The examples, smallest first. Raises WeftTypeError if one is none, or there are none."""
    found = []
    for example in examples:
        if isinstance(example, (tuple, list)):
            example = Example(tuple(example))
        if not isinstance(example, Example):
            raise WeftTypeError(
                f"check_primitive of {primitive.name}: {example!r:.80} is no example",
                got=f"{type(example).__name__}",
                wanted="Example(args, params), or a tuple of operands",
                fix=Fix("example", "pass a list with one tuple of operands per example", {}),
            )
        found.append(example)
    if not found:
        message, got = f"check_primitive of {primitive.name}: there are no examples", "no examples"
        fix = Fix("example", "pass a list with one tuple of operands per example", {})
        raise WeftTypeError(message, got=got, wanted="at least one", fix=fix)
    return iter(sorted(found, key=lambda example: sum(type_of(x).size for x in example.args)))


def _run(
    prop: Property,
    primitive: Primitive,
    examples: list[Example],
    made: dict[int, PrimitiveApplication],
    sources: dict[str, str],
    wrong: dict[str, str],
) -> Check:
    """One property on every example, up to the first failure."""
    rule, source = _given_rule(prop.rule, sources)
    blocked = [f"the {need} rule is {wrong[need]}" for need in prop.needs if need in wrong]
    if blocked:
        return Check(rule, prop.what, source, "skipped", blocked[0])
    reasons = []
    for example in examples:
        try:
            if id(example) not in made:
                made[id(example)] = application(primitive, example)
            prop.check(made[id(example)])
        except Skipped as reason:
            reasons.append(str(reason))
        except Exception as error:  # noqa: BLE001 (a rule from outside may raise anything)
            return _failure(prop, primitive, error, example, sources)
    if len(reasons) == len(examples):
        return Check(rule, prop.what, source, "skipped", reasons[0])
    return Check(rule, prop.what, source, "passed")


def _given_rule(rule: str, sources: dict[str, str]) -> tuple[str, str]:
    """The given rule from which the checked one is derived."""
    if rule == "jvp" and sources["jvp"] == "derived" and sources["linearize"] == "given":
        return "linearize", "given"
    if rule == "linearize" and sources["linearize"] != "given" and sources["jvp"] == "given":
        return "jvp", "given"
    return rule, sources.get(rule, "")


def _failure(
    prop: Property,
    primitive: Primitive,
    error: Exception,
    example: Example,
    sources: dict[str, str],
) -> Check:
    """The row of an exception: the rule at fault, and its message."""
    rule, source = _given_rule(prop.rule, sources)
    outcome = "failed"
    fix = error.fix if isinstance(error, WeftError) else None
    data = fix.data if fix is not None else {}
    if "rule" in data and data.get("primitive") == primitive.name:
        rule = str(data["rule"])
        source = sources.get(rule, source)
        if isinstance(error, MissingRuleError):
            outcome = "missing"
    message = str(error).strip() if str(error) else type(error).__name__
    if not isinstance(error, (AssertionError, WeftError)):
        message = f"{type(error).__name__}: {message}"
    return Check(rule, prop.what, source, outcome, message, _hosts(example))


def _hosts(example: Example) -> Example:
    """The example with its operands as NumPy arrays, which show their values."""
    args = []
    for x in example.args:
        try:
            args.append(np.asarray(x))
        except (TypeError, WeftError):  # random keys
            args.append(x)
    return dataclasses.replace(example, args=tuple(args))
