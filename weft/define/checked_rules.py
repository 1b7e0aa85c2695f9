"""What rules that compute with arrays answered: those of derivatives, transposes and vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.core import rules
from weft.core.rule_results import Answers, fits, plain
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.interpreters.linearize import depends_on_tangents

__all__ = ["checked_jvp", "checked_transpose", "checked_vmap"]

Rule = Callable[..., Any]


def _expected(
    primitive: Any, types: Sequence[ArrayType], params: dict[str, Any]
) -> Sequence[ArrayType] | None:
    """The types of the results, where the primitive can say so from types and parameters."""
    if not primitive.memoise or primitive not in rules.type_rule:
        return None
    # Not remembered: what is has operands that vary along the same mesh axes.
    found = rules.type_rule[primitive](*types, **params)
    return list(found) if primitive.multiple_results else [found]


def _number(i: int, of: Sequence[Any], what: str) -> str:
    return f"the {what}" if len(of) == 1 else f"{what} {i}"


def checked_jvp(primitive: Any, rule: Rule, kind: str = "jvp") -> Rule:
    """A jvp or linearize rule whose results and tangents have the types that they must have."""
    answers = Answers(primitive, kind, rule)

    @functools.wraps(rule)
    def checked(
        primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any
    ) -> tuple[Any, Any]:
        answer = answers.ask(primals, tangents, params=params)
        found, found_tangents = answers.pair(answer, "tangent")
        wanted = _expected(primitive, [type_of(x) for x in primals], params)
        count = None if wanted is None else len(wanted)
        outs = answers.several(found, "result", count)
        given = answers.several(found_tangents, "tangent", len(outs))
        for i, (out, tangent) in enumerate(zip(outs, given, strict=True)):
            result, what = _number(i, outs, "result"), _number(i, outs, "tangent")
            own = answers.array(out, result, wanted[i] if wanted else None)
            if depends_on_tangents(out):
                raise answers.error(
                    f"answers with {result} computed from tangents",
                    str(own),
                    f"{result} computed from primals only; tangents may depend on both",
                )
            if tangent is None:
                raise answers.error(
                    f"answers with None as {what}",
                    "None",
                    f"Zero(type) or ad.instantiate(Zero(type)) as {what}, where it is zero",
                )
            if type(tangent) is Zero:
                answers.zero(tangent, what, own.tangent())
            else:
                answers.array(tangent, what, own.tangent())
        return found, found_tangents

    return checked


def checked_transpose(primitive: Any, rule: Rule) -> Rule:
    """A transpose rule with one cotangent of the right type (or None) per operand."""
    answers = Answers(primitive, "transpose", rule)

    @functools.wraps(rule)
    def checked(cotangents: Any, /, *operands: Any, **params: Any) -> Any:
        found = answers.ask(cotangents, *operands, params=params)
        if not isinstance(found, (tuple, list)):
            raise answers.error(
                "answers with no list of cotangents",
                type(found).__name__,
                "a list with one cotangent (or None) per operand",
            )
        if len(found) != len(operands):
            raise answers.error(
                "answers with the wrong number of cotangents",
                len(found),
                f"{len(operands)} cotangents, one (or None) per operand",
            )
        for i, (cotangent, operand) in enumerate(zip(found, operands, strict=True)):
            if cotangent is None or type(operand) is not LinearOperand:
                continue
            what = f"the cotangent of operand {i}"
            if type(cotangent) is Zero:
                answers.zero(cotangent, what, operand.type)
            else:
                answers.array(cotangent, what, operand.type)
        return found

    return checked


def checked_vmap(primitive: Any, rule: Rule) -> Rule:
    """A vmap rule whose results are mapped where it says, and have the elements they must have."""
    answers = Answers(primitive, "vmap", rule)

    @functools.wraps(rule)
    def checked(
        axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any
    ) -> tuple[Any, Any]:
        answer = answers.ask(axis, args, dims, params=params)
        found, found_dims = answers.pair(answer, "dim")
        elements = [_element(type_of(x), dim) for x, dim in zip(args, dims, strict=True)]
        wanted = _expected(primitive, elements, params)
        outs = answers.several(found, "result", None if wanted is None else len(wanted))
        given = answers.several(found_dims, "dim", len(outs))
        for i, (out, dim) in enumerate(zip(outs, given, strict=True)):
            what = _number(i, outs, "result")
            own = answers.array(out, what, None)
            if dim is not None:
                _check_dim(answers, what, own, dim, axis.size)
            element = _element(own, dim)
            if wanted is not None and not fits(element, wanted[i]):
                raise answers.error(
                    f"answers with elements of the wrong type in {what}",
                    f"{element} at dim {dim} of {own}",
                    f"elements of type {plain(wanted[i])} in {what}",
                )
        return found, found_dims

    return checked


def _element(type: ArrayType, dim: int | None) -> ArrayType:
    if dim is None:
        return type
    return type.update(shape=type.shape[:dim] + type.shape[dim + 1 :])


def _check_dim(answers: Answers, what: str, type: ArrayType, dim: Any, size: int) -> None:
    """Raises JaxprError unless a dim is a dimension of the result, of the mapped length."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise answers.error(
            f"answers with a dim of {what} that is no int",
            f"{dim!r:.80} of class {dim.__class__.__name__}",
            f"an int as the dim of {what}, or None where it is not mapped",
        )
    if not 0 <= dim < type.ndim:
        raise answers.error(
            f"answers with a dim of {what} that is out of range",
            f"dim {dim} of {type}",
            f"a dim of {what} from 0 to {type.ndim - 1}, or None where it is not mapped",
        )
    if type.shape[dim] != size:
        raise answers.error(
            f"answers with {what} mapped along a dimension of another length",
            f"length {type.shape[dim]} at dim {dim} of {type}",
            f"the dimension of length {size} of {what}",
        )
