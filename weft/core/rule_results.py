"""What a rule answered, looked at before anything is built on it.

Rules that are registered from outside are wrapped in one of these checks, which name the primitive,
the rule and what is wrong with its answer. weft's own rules stand in the tables as they are, so
that nothing is paid for them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft.core import rules
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, JaxprError, WeftTypeError

__all__ = [
    "checked_impl",
    "checked_jvp",
    "checked_transpose",
    "checked_type_rule",
    "checked_vmap",
    "described_rule",
    "rule_error",
]

Rule = Callable[..., Any]


def described_rule(primitive: Any, kind: str, rule: Rule) -> str:
    """One phrase naming a rule: of which primitive, and where its function stands."""
    inner = rule
    while hasattr(inner, "__wrapped__") or isinstance(inner, functools.partial):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__wrapped__
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__name__", type(inner).__name__)
    place = "" if code is None else f", {code.co_filename}:{code.co_firstlineno}"
    return f"the {kind} rule of the primitive {primitive.name!r} ({name}{place})"


def rule_error(
    primitive: Any, kind: str, rule: Rule, what: str, got: Any, wanted: str, **data: Any
) -> JaxprError:
    """The error for a rule whose answer cannot be used."""
    return JaxprError(
        f"{described_rule(primitive, kind, rule)} {what}",
        operation=primitive.name,
        got=got,
        wanted=wanted,
        fix=Fix(
            "rule_result",
            f"make the {kind} rule answer with {wanted}",
            {"primitive": primitive.name, "rule": kind, **data},
        ),
    )


def _shown(value: Any) -> str:
    """A value of an answer, for messages: its type, where it has one."""
    if value is None:
        return "None"
    try:
        return str(type_of(value))
    except WeftTypeError:
        return f"{value!r:.80} of class {type(value).__name__}"


def _plain(type: ArrayType) -> str:
    return f"{dtypes.short_name(type.dtype)}[{','.join(map(str, type.shape))}]"


def _fits(got: ArrayType, wanted: ArrayType) -> bool:
    return got.shape == wanted.shape and got.dtype == wanted.dtype


class _Answers:
    """The check of one rule's answers: it knows how to complain."""

    def __init__(self, primitive: Any, kind: str, rule: Rule) -> None:
        self.primitive = primitive
        self.kind = kind
        self.rule = rule

    def error(self, what: str, got: Any, wanted: str, **data: Any) -> JaxprError:
        return rule_error(self.primitive, self.kind, self.rule, what, got, wanted, **data)

    def pair(self, answer: Any, second: str) -> tuple[Any, Any]:
        """An answer that has two parts."""
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            plural = "s" if self.primitive.multiple_results else ""
            raise self.error(
                "does not answer with a pair",
                f"{len(answer)} values" if isinstance(answer, (tuple, list)) else _shown(answer),
                f"a pair (result{plural}, {second}{plural})",
            )
        return answer[0], answer[1]

    def several(self, values: Any, what: str, count: int | None) -> Sequence[Any]:
        """The entries of one part, one per result."""
        if not self.primitive.multiple_results:
            if isinstance(values, (tuple, list)):
                raise self.error(
                    f"answers with a sequence for its {what}, and the primitive has one result",
                    f"a {type(values).__name__} of {len(values)}",
                    f"the {what} itself, not in a list",
                )
            return [values]
        if not isinstance(values, (tuple, list)):
            raise self.error(
                f"answers with no list of {what}s, and the primitive has several results",
                _shown(values),
                f"a list of {what}s",
            )
        if count is not None and len(values) != count:
            raise self.error(
                f"answers with the wrong number of {what}s", len(values), f"{count} {what}s"
            )
        return values

    def array(self, value: Any, what: str, wanted: ArrayType | None) -> ArrayType:
        """The type of an array in the answer."""
        try:
            got = type_of(value)
        except WeftTypeError:
            text = "an array" if wanted is None else f"an array of type {_plain(wanted)}"
            raise self.error(f"answers with no array as {what}", _shown(value), text) from None
        if wanted is not None and not _fits(got, wanted):
            raise self.error(
                f"answers with {what} of the wrong type", str(got), f"{_plain(wanted)} as {what}"
            )
        return got

    def expected(
        self, types: Sequence[ArrayType], params: dict[str, Any]
    ) -> Sequence[ArrayType] | None:
        """The types of the results, where the primitive can say so from types and parameters."""
        primitive = self.primitive
        if not primitive.memoise or primitive not in rules.type_rule:
            return None
        found = rules.type_rule[primitive](*types, **params)
        return list(found) if primitive.multiple_results else [found]


def _number(i: int, of: Sequence[Any], what: str) -> str:
    return f"the {what}" if len(of) == 1 else f"{what} {i}"


def checked_type_rule(primitive: Any, rule: Rule) -> Rule:
    """A type rule whose answer is an `ArrayType`, or a list of them for several results."""
    answers = _Answers(primitive, "type", rule)

    @functools.wraps(rule)
    def checked(*types: ArrayType, **params: Any) -> Any:
        found = rule(*types, **params)
        for i, type in enumerate(answers.several(found, "type", None)):
            if not isinstance(type, ArrayType):
                raise answers.error(
                    f"answers with no type for result {i}",
                    f"{type!r:.80} of class {type.__class__.__name__}",
                    "an ArrayType for each result",
                )
        return found

    return checked


def checked_impl(primitive: Any, rule: Rule) -> Rule:
    """An evaluation rule that answers with as many arrays as the primitive has results."""
    answers = _Answers(primitive, "evaluation", rule)

    @functools.wraps(rule)
    def checked(*args: Any, **params: Any) -> Any:
        found = rule(*args, **params)
        if primitive.multiple_results or found is None:
            for i, value in enumerate(answers.several(found, "result", None)):
                answers.array(value, f"result {i}", None)
        return found

    return checked


def checked_jvp(primitive: Any, rule: Rule, kind: str = "jvp") -> Rule:
    """A jvp or linearize rule whose results and tangents have the types that they must have."""
    answers = _Answers(primitive, kind, rule)

    @functools.wraps(rule)
    def checked(
        primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any
    ) -> tuple[Any, Any]:
        found, found_tangents = answers.pair(rule(primals, tangents, **params), "tangent")
        wanted = answers.expected([type_of(x) for x in primals], params)
        count = None if wanted is None else len(wanted)
        outs = answers.several(found, "result", count)
        given = answers.several(found_tangents, "tangent", len(outs))
        for i, (out, tangent) in enumerate(zip(outs, given, strict=True)):
            own = answers.array(out, _number(i, outs, "result"), wanted[i] if wanted else None)
            what = _number(i, outs, "tangent")
            if tangent is None:
                raise answers.error(
                    f"answers with None as {what}",
                    "None",
                    f"Zero(type) or ad.instantiate(Zero(type)) as {what}, where it is zero",
                )
            if type(tangent) is Zero:
                if not _fits(tangent.type, own.tangent()):
                    raise answers.error(
                        f"answers with {what} of the wrong type",
                        f"Zero({tangent.type})",
                        f"{_plain(own.tangent())} as {what}",
                    )
            else:
                answers.array(tangent, what, own.tangent())
        return found, found_tangents

    return checked


def checked_transpose(primitive: Any, rule: Rule) -> Rule:
    """A transpose rule with one cotangent of the right type (or None) per operand."""
    answers = _Answers(primitive, "transpose", rule)

    @functools.wraps(rule)
    def checked(cotangents: Any, /, *operands: Any, **params: Any) -> Any:
        found = rule(cotangents, *operands, **params)
        if not isinstance(found, (tuple, list)):
            raise answers.error(
                "answers with no list of cotangents",
                _shown(found),
                "a list with one cotangent (or None) per operand",
            )
        if len(found) != len(operands):
            raise answers.error(
                "answers with the wrong number of cotangents",
                len(found),
                f"{len(operands)} cotangents, one (or None) per operand",
            )
        for i, (cotangent, operand) in enumerate(zip(found, operands, strict=True)):
            if cotangent is None or type(cotangent) is Zero or type(operand) is not LinearOperand:
                continue
            answers.array(cotangent, f"the cotangent of operand {i}", operand.type)
        return found

    return checked


def checked_vmap(primitive: Any, rule: Rule) -> Rule:
    """A vmap rule whose results are mapped where it says, and have the elements they must have."""
    answers = _Answers(primitive, "vmap", rule)

    @functools.wraps(rule)
    def checked(
        axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], /, **params: Any
    ) -> tuple[Any, Any]:
        found, found_dims = answers.pair(rule(axis, args, dims, **params), "dim")
        elements = [_element(type_of(x), dim) for x, dim in zip(args, dims, strict=True)]
        wanted = answers.expected(elements, params)
        outs = answers.several(found, "result", None if wanted is None else len(wanted))
        given = answers.several(found_dims, "dim", len(outs))
        for i, (out, dim) in enumerate(zip(outs, given, strict=True)):
            what = _number(i, outs, "result")
            own = answers.array(out, what, None)
            if dim is not None:
                _check_dim(answers, what, own, dim, axis.size)
            element = _element(own, dim)
            if wanted is not None and not _fits(element, wanted[i]):
                raise answers.error(
                    f"answers with elements of the wrong type in {what}",
                    f"{element} at dim {dim} of {own}",
                    f"elements of type {_plain(wanted[i])} in {what}",
                )
        return found, found_dims

    return checked


def _element(type: ArrayType, dim: int | None) -> ArrayType:
    if dim is None:
        return type
    return type.update(shape=type.shape[:dim] + type.shape[dim + 1 :])


def _check_dim(answers: _Answers, what: str, type: ArrayType, dim: Any, size: int) -> None:
    """Raises JaxprError unless a dim is a dimension of the result, of the mapped length."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise answers.error(
            f"answers with a dim of {what} that is no int",
            f"{dim!r:.80} of class {type_name(dim)}",
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


def type_name(value: Any) -> str:
    """The name of a value's class."""
    return type(value).__name__
