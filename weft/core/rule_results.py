"""Checks of the results of rules, made before these are used.

`CHECKS` has one check per kind of rule, `check(rule, found, *args, **params)`, which returns
`found` or raises JaxprError with the primitive, the rule and the fault. Rules from outside are
always checked; weft's own only where jaxprs are, so that they cost nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft.base import source as sources
from weft.core import rules
from weft.core.effects import Effect
from weft.core.jaxpr import Equation, Literal, SplitEquation, Var
from weft.core.rules import AxisData, LinearOperand, NamedRule, Zero
from weft.core.trace import Tracer, current_trace
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import WeftTypeError


def fits(got: ArrayType, wanted: ArrayType) -> bool:
    """Whether shapes and dtypes of two types are equal: weak types and mesh axes may differ."""
    return got.shape == wanted.shape and got.dtype == wanted.dtype


def _plain(type: ArrayType) -> str:
    """Dtype and shape of a type as text."""
    return f"{dtypes.short_name(type.dtype)}[{','.join(map(str, type.shape))}]"


def _describe_value(value: Any) -> str:
    """The type of a value, or the value, for messages."""
    if value is None:
        return "None"
    if isinstance(value, (Zero, LinearOperand)):
        return f"{value!r:.80}"
    try:
        return str(type_of(value))
    except WeftTypeError:
        return f"{value!r:.80} of class {type(value).__name__}"


def _numbered_name(i: int, count: int, what: str) -> str:
    return f"the {what}" if count == 1 else f"{what} {i}"


# ---- parts of results --------------------------------------------------------------------------


def _pair(rule: NamedRule, found: Any, second: str) -> tuple[Any, Any]:
    """The two parts of a result. Raises JaxprError unless there are two."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        plural = "s" if rule.primitive.multiple_results else ""
        raise rule.error(
            "does not answer with a pair",
            f"{len(found)} values" if isinstance(found, (tuple, list)) else _describe_value(found),
            f"a pair (result{plural}, {second}{plural})",
        )
    return found[0], found[1]


def _several(rule: NamedRule, values: Any, what: str, count: int | None) -> Sequence[Any]:
    """The entries of one part, one per result of the primitive."""
    if not rule.primitive.multiple_results:
        if isinstance(values, (tuple, list)):
            raise rule.error(
                f"answers with a sequence for its {what}, and the primitive has one result",
                f"a {type(values).__name__} of {len(values)}",
                f"the {what} itself, not in a list",
            )
        return [values]
    if not isinstance(values, (tuple, list)):
        message = f"answers with no list of {what}s, and the primitive has several results"
        raise rule.error(message, _describe_value(values), f"a list of {what}s")
    if count is not None and len(values) != count:
        raise rule.error(
            f"answers with the wrong number of {what}s", len(values), f"{count} {what}s"
        )
    return values


def _array(rule: NamedRule, value: Any, what: str, wanted: ArrayType | None = None) -> ArrayType:
    """The type of an array."""
    text = "an array" if wanted is None else f"an array of type {_plain(wanted)}"
    if isinstance(value, (Zero, LinearOperand)):
        raise rule.error(f"answers with no array as {what}", _describe_value(value), text)
    try:
        got = type_of(value)
    except WeftTypeError:
        raise rule.error(f"answers with no array as {what}", _describe_value(value), text) from None
    if isinstance(value, Tracer) and not value._trace.alive:
        raise rule.error(
            f"answers with a traced value as {what} whose transformation has ended",
            f"{value.describe()}, made at {sources.describe(value.created)}",
            f"{text}, computed from what the rule is given",
        )
    if wanted is not None and not fits(got, wanted):
        raise rule.error(
            f"answers with {what} of the wrong type", str(got), f"{_plain(wanted)} as {what}"
        )
    return got


def _array_or_zero(rule: NamedRule, value: Any, what: str, wanted: ArrayType) -> None:
    """An array or a `Zero` of a type."""
    if type(value) is not Zero:
        _array(rule, value, what, wanted)
    elif not isinstance(value.type, ArrayType) or not fits(value.type, wanted):
        message = f"answers with {what} of the wrong type"
        raise rule.error(message, f"Zero({value.type!r:.80})", f"{_plain(wanted)} as {what}")


def _result_types(
    rule: NamedRule, types: Sequence[ArrayType], params: dict[str, Any]
) -> Sequence[ArrayType] | None:
    """The types of the results if they depend on types and parameters alone, else None."""
    primitive = rule.primitive
    if not primitive.memoise or primitive not in rules.type_rule:
        return None
    # Not cached: cached types are of operands that vary along the same mesh axes.
    found = rules.type_rule[primitive](*types, **params)
    return list(found) if primitive.multiple_results else [found]


# ---- arrays and types --------------------------------------------------------------------------


def _check_types(rule: NamedRule, found: Any, /, *types: ArrayType, **params: Any) -> Any:
    """An `ArrayType`, or a list of them for several results."""
    for i, type in enumerate(_several(rule, found, "type", None)):
        if not isinstance(type, ArrayType):
            raise rule.error(
                f"answers with no type for result {i}",
                f"{type!r:.80} of class {type.__class__.__name__}",
                "an ArrayType for each result",
            )
    return found


def _check_impl(rule: NamedRule, found: Any, /, *args: Any, **params: Any) -> Any:
    """As many arrays as the primitive has results, of the types that its type rule gives."""
    wanted = _result_types(rule, [type_of(x) for x in args], params)
    for i, value in enumerate(
        _several(rule, found, "result", None if wanted is None else len(wanted))
    ):
        own = value if value is None else user_value(value)
        _array(rule, own, f"result {i}", wanted[i] if wanted else None)
    return found


def _check_jvp(
    rule: NamedRule, found: Any, primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any
) -> tuple[Any, Any]:
    """Results, and tangents of their tangent types; no result computed from tangents."""
    results, result_tangents = _pair(rule, found, "tangent")
    wanted = _result_types(rule, [type_of(x) for x in primals], params)
    outs = _several(rule, results, "result", None if wanted is None else len(wanted))
    given = _several(rule, result_tangents, "tangent", len(outs))
    # Under `linearize` the trace of a rule records operations on tangents in `linear`. Its own
    # error is better for a function with derivatives of its own.
    linear = None if rule.own else getattr(current_trace(), "linear", None)
    for i, (out, tangent) in enumerate(zip(outs, given, strict=True)):
        result, what = (
            _numbered_name(i, len(outs), "result"),
            _numbered_name(i, len(outs), "tangent"),
        )
        own = _array(rule, out, result, wanted[i] if wanted else None)
        if linear is not None and isinstance(out, Tracer) and out._trace is linear:
            raise rule.error(
                f"answers with {result} computed from tangents",
                str(own),
                f"{result} computed from primals only; tangents may depend on both",
            )
        if tangent is None:
            raise rule.error(
                f"answers with None as {what}",
                "None",
                f"Zero(type) or ad.instantiate(Zero(type)) as {what}, where it is zero",
            )
        _array_or_zero(rule, tangent, what, own.tangent())
    return results, result_tangents


def _check_transpose(
    rule: NamedRule, found: Any, cotangents: Any, /, *operands: Any, **params: Any
) -> Any:
    """One cotangent of the right type (or None) per operand."""
    if not isinstance(found, (tuple, list)):
        message = "answers with no list of cotangents"
        raise rule.error(
            message, type(found).__name__, "a list with one cotangent (or None) per operand"
        )
    if len(found) != len(operands):
        message = "answers with the wrong number of cotangents"
        raise rule.error(
            message, len(found), f"{len(operands)} cotangents, one (or None) per operand"
        )
    for i, (cotangent, operand) in enumerate(zip(found, operands, strict=True)):
        if cotangent is not None and type(operand) is LinearOperand:
            _array_or_zero(rule, cotangent, f"the cotangent of operand {i}", operand.type)
    return found


def _check_vmap(
    rule: NamedRule,
    found: Any,
    axis: AxisData,
    args: Sequence[Any],
    dims: Sequence[int | None],
    /,
    **params: Any,
) -> tuple[Any, Any]:
    """Results mapped at the rule's dimensions, with the right elements."""
    results, result_dims = _pair(rule, found, "dim")
    elements = [_element(type_of(x), dim) for x, dim in zip(args, dims, strict=True)]
    wanted = _result_types(rule, elements, params)
    outs = _several(rule, results, "result", None if wanted is None else len(wanted))
    given = _several(rule, result_dims, "dim", len(outs))
    for i, (out, dim) in enumerate(zip(outs, given, strict=True)):
        what = _numbered_name(i, len(outs), "result")
        own = _array(rule, out, what)
        if dim is not None:
            _check_dim(rule, what, own, dim, axis.size)
        element = _element(own, dim)
        if wanted is not None and not fits(element, wanted[i]):
            raise rule.error(
                f"answers with elements of the wrong type in {what}",
                f"{element} at dim {dim} of {own}",
                f"elements of type {_plain(wanted[i])} in {what}",
            )
    return results, result_dims


def _element(type: ArrayType, dim: int | None) -> ArrayType:
    if dim is None:
        return type
    return type.update(shape=type.shape[:dim] + type.shape[dim + 1 :])


def _check_dim(rule: NamedRule, what: str, type: ArrayType, dim: Any, size: int) -> None:
    """Raises JaxprError unless a dim is a dimension of the result, of the mapped length."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise rule.error(
            f"answers with a dim of {what} that is no int",
            f"{dim!r:.80} of class {dim.__class__.__name__}",
            f"an int as the dim of {what}, or None where it is not mapped",
        )
    if not 0 <= dim < type.ndim:
        raise rule.error(
            f"answers with a dim of {what} that is out of range",
            f"dim {dim} of {type}",
            f"a dim of {what} from 0 to {type.ndim - 1}, or None where it is not mapped",
        )
    if type.shape[dim] != size:
        raise rule.error(
            f"answers with {what} mapped along a dimension of another length",
            f"length {type.shape[dim]} at dim {dim} of {type}",
            f"the dimension of length {size} of {what}",
        )


# ---- equations ---------------------------------------------------------------------------------


def _marks(rule: NamedRule, found: Any, count: int, of: str) -> Sequence[bool]:
    """One boolean per operand or result. Raises JaxprError for anything else."""
    if not isinstance(found, (tuple, list)) or len(found) != count:
        raise rule.error(
            f"answers with the wrong number of marks of {of}s",
            len(found) if isinstance(found, (tuple, list)) else type(found).__name__,
            f"{count} marks, one per {of}",
        )
    if any(type(mark) is not bool for mark in found):
        message = f"answers with marks of {of}s that are no booleans"
        raise rule.error(message, f"{found!r:.80}", f"True or False for each {of}")
    return found


def _variables(equation: Equation) -> set[Var]:
    return {x for x in equation.inputs if not isinstance(x, Literal)}


def _check_partial_eval(
    rule: NamedRule, found: Any, eqn: Equation, unknown: Sequence[bool], /
) -> SplitEquation:
    """A `SplitEquation` that fits the equation."""
    if not isinstance(found, SplitEquation):
        raise rule.error("answers with no SplitEquation", type(found).__name__, "a SplitEquation")
    marks = _marks(rule, found.unknown_out, len(eqn.outputs), "result")
    for part in (found.known, found.unknown, *found.before):
        if part is not None and not isinstance(part, Equation):
            message = "answers with a part that is no equation"
            raise rule.error(message, type(part).__name__, "an Equation, or None, as each part")
    _check_split(rule, eqn, found, marks)
    _check_reads(rule, eqn, unknown, found)
    return found


def _check_split(
    rule: NamedRule, eqn: Equation, found: SplitEquation, marks: Sequence[bool]
) -> None:
    """Raises JaxprError unless the parts bind what the equation binds, each its own.

    A part may bind more: a loop that needs known values at every step recomputes them.
    """
    later = sum(marks)
    parts = (
        (found.known, False, len(marks) - later, len(found.residuals), "known results"),
        (found.unknown, True, later, 0, "unknown results"),
    )
    for part, mark, wanted, more, what in parts:
        others = {v for v, other in zip(eqn.outputs, marks, strict=True) if other is not mark}
        if part is not None and not others.isdisjoint(part.outputs):
            raise rule.error(
                f"answers with the wrong number of {what}",
                len(part.outputs),
                f"{wanted} {what}" + (f" and {more} residuals" if more else ""),
            )
    bound = [{v for part in (found.known, *found.before) if part for v in part.outputs}]
    bound.append(set(found.unknown.outputs) if found.unknown else set())
    # A known result may also be an operand that is passed on: only the others have to be bound.
    lost = [
        i
        for i, (var, mark) in enumerate(zip(eqn.outputs, marks, strict=True))
        if type(var) is Var and var not in bound[mark]
    ]
    if lost:
        raise rule.error(
            "answers with parts that do not bind all results",
            f"results {lost} bound by neither part",
            "parts that bind the variables of the equation's results, each as it is marked",
        )


def _check_reads(
    rule: NamedRule, eqn: Equation, unknown: Sequence[bool], found: SplitEquation
) -> None:
    """Raises JaxprError if a part reads a variable that has no value when the part runs."""
    known = {x for x, flag in zip(eqn.inputs, unknown, strict=True) if not flag and type(x) is Var}
    for part in (*found.before, *([] if found.known is None else [found.known])):
        if not _variables(part) <= known:
            raise rule.error(
                "answers with a known part that reads what is not known",
                f"inputs {[str(x.type) for x in _variables(part) - known]}",
                "a known part that reads the operands that are not marked as unknown",
            )
        known.update(part.outputs)
    residuals = set(found.residuals)
    if not residuals <= known:
        raise rule.error(
            "answers with residuals that the known part does not compute",
            f"{len(residuals - known)} of {len(residuals)}",
            "residuals among the results of the known part, or among the known operands",
        )


def _check_dce(
    rule: NamedRule, found: Any, eqn: Equation, used: Sequence[bool], /
) -> tuple[Any, Equation | None]:
    """A mark for every input, and an equation that keeps the results in use."""
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise rule.error(
            "does not answer with a pair",
            type(found).__name__,
            "a pair (used inputs, equation or None)",
        )
    marks, smaller = _marks(rule, found[0], len(eqn.inputs), "input"), found[1]
    if smaller is not None and not isinstance(smaller, Equation):
        raise rule.error("answers with no equation", type(smaller).__name__, "an Equation, or None")
    bound = set() if smaller is None else set(smaller.outputs)
    lost = [i for i, use in enumerate(used) if use and eqn.outputs[i] not in bound]
    if lost:
        message = "drops results that are read"
        raise rule.error(
            message, f"results {lost}", "an equation that binds every result that is marked as used"
        )
    kept = {x for x, mark in zip(eqn.inputs, marks, strict=True) if mark}
    if smaller is not None and not _variables(smaller) <= kept:
        message = "answers with an equation that reads inputs which it does not mark"
        raise rule.error(
            message, f"marks {list(marks)}", "True for every input that the equation reads"
        )
    return marks, smaller


def _check_effects(rule: NamedRule, found: Any, params: dict[str, Any], /) -> frozenset[Any]:
    """A frozenset of effects."""
    if not isinstance(found, frozenset) or not all(isinstance(x, Effect) for x in found):
        raise rule.error(
            "does not answer with a set of effects",
            f"{found!r:.80} of class {type(found).__name__}",
            "a frozenset of Effect, as frozenset([IO]); frozenset() where there are none",
        )
    return found


# The check of each kind of rule; `core.check` sets them in the tables.
CHECKS: tuple[tuple[rules.Table, Callable[..., Any]], ...] = (
    (rules.type_rule, _check_types),
    (rules.impl, _check_impl),
    (rules.jvp, _check_jvp),
    (rules.linearize, _check_jvp),
    (rules.transpose, _check_transpose),
    (rules.vmap, _check_vmap),
    (rules.partial_eval, _check_partial_eval),
    (rules.dce, _check_dce),
    (rules.effects, _check_effects),
)
