"""What a rule answered, looked at before anything is built on it.

Rules that are registered from outside are wrapped in one of these checks, which name the primitive,
the rule and what is wrong with its answer. weft's own rules stand in the tables as they are, so
that nothing is paid for them.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft import dtypes
from weft.base import source as sources
from weft.core import rules
from weft.core.rules import LinearOperand, Zero
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, JaxprError, WeftError, WeftTypeError

__all__ = [
    "Answers",
    "checked_impl",
    "checked_type_rule",
    "described_rule",
    "fits",
    "plain",
    "rule_error",
    "run_rule",
]

Rule = Callable[..., Any]

# How a rule is called, as it is written in a signature; what comes after are the parameters.
_CALLED_WITH = {
    "evaluation": "*operands",
    "type": "*types",
    "jvp": "primals, tangents, /",
    "linearize": "primals, tangents, /",
    "transpose": "cotangent, /, *operands",
    "vmap": "axis_data, operands, dims, /",
    "lowering": "context, /, *values",
    "partial evaluation": "equation, unknown",
    "dead-code elimination": "equation, used",
    "effects": "params",
}


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
    primitive: Any,
    kind: str,
    rule: Rule,
    what: str,
    got: Any,
    wanted: str,
    verb: str = "answer with",
) -> JaxprError:
    """The error for a rule whose answer cannot be used."""
    return JaxprError(
        f"{described_rule(primitive, kind, rule)} {what}",
        operation=primitive.name,
        got=got,
        wanted=wanted,
        fix=Fix(
            "rule_result",
            f"make the {kind} rule {verb} {wanted}",
            {"primitive": primitive.name, "rule": kind},
        ),
    )


# ---- running a rule ----------------------------------------------------------------------------


def run_rule(
    primitive: Any,
    kind: str,
    rule: Rule,
    args: Sequence[Any],
    params: Mapping[str, Any],
    source: Any = None,
) -> Any:
    """What a rule answers.

    An exception inside it gets a note that names the rule and the line of the application (`source`
    where it is a recorded one). Raises JaxprError for a rule that does not take what it is given.
    """
    try:
        return rule(*args, **params)
    except Exception as error:
        refusal = _refusal(rule, args, params) if isinstance(error, TypeError) else ""
        if refusal:
            raise _wrong_signature(primitive, kind, rule, refusal, args, params) from None
        # A type rule computes nothing: an error of weft's is one that it raises for its operands.
        if kind != "type" or not isinstance(error, WeftError):
            place = sources.describe(source or sources.here())
            note = f"in {described_rule(primitive, kind, rule)}, applied at {place}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
        raise


def _refusal(rule: Rule, args: Sequence[Any], params: Mapping[str, Any]) -> str:
    """Why a rule does not take these arguments; empty where it does."""
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):
        return ""
    try:
        signature.bind(*args, **params)
    except TypeError as error:
        return str(error)
    return ""


def _wrong_signature(
    primitive: Any,
    kind: str,
    rule: Rule,
    refusal: str,
    args: Sequence[Any],
    params: Mapping[str, Any],
) -> JaxprError:
    called_with = _CALLED_WITH[kind]
    if set(params) & set(re.findall(r"\w+", called_with)):
        called_with += ", **params"
    elif params:
        star = "" if "*" in called_with else "*, "
        called_with += f", {star}{', '.join(params)}"
    return JaxprError(
        f"{described_rule(primitive, kind, rule)} does not take what it is called with: {refusal}",
        operation=primitive.name,
        got=f"{len(args)} positional arguments and the parameters {sorted(params)}",
        wanted=f"rule({called_with})",
        fix=Fix(
            "rule_signature",
            f"declare it as def rule({called_with}); what stands before / may have any name",
            {"primitive": primitive.name, "rule": kind, "signature": called_with},
        ),
    )


# ---- looking at answers ------------------------------------------------------------------------


def _shown(value: Any) -> str:
    """A value of an answer, for messages: its type, where it has one."""
    if value is None:
        return "None"
    if isinstance(value, (Zero, LinearOperand)):
        return f"{value!r:.80}"
    try:
        return str(type_of(value))
    except WeftTypeError:
        return f"{value!r:.80} of class {type(value).__name__}"


def plain(type: ArrayType) -> str:
    """Dtype and shape of a type as text."""
    return f"{dtypes.short_name(type.dtype)}[{','.join(map(str, type.shape))}]"


def fits(got: ArrayType, wanted: ArrayType) -> bool:
    """Whether a value may stand for one of another type: weak types and mesh axes may differ."""
    return got.shape == wanted.shape and got.dtype == wanted.dtype


class Answers:
    """The check of one rule's answers: it runs the rule, and knows how to complain."""

    def __init__(self, primitive: Any, kind: str, rule: Rule) -> None:
        self.primitive = primitive
        self.kind = kind
        self.rule = rule

    def ask(self, *args: Any, params: Mapping[str, Any], source: Any = None) -> Any:
        """What the rule answers."""
        return run_rule(self.primitive, self.kind, self.rule, args, params, source)

    def error(self, what: str, got: Any, wanted: str) -> JaxprError:
        """The error for an answer that cannot be used."""
        return rule_error(self.primitive, self.kind, self.rule, what, got, wanted)

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
        text = "an array" if wanted is None else f"an array of type {plain(wanted)}"
        if isinstance(value, (Zero, LinearOperand)):
            raise self.error(f"answers with no array as {what}", _shown(value), text)
        try:
            got = type_of(value)
        except WeftTypeError:
            raise self.error(f"answers with no array as {what}", _shown(value), text) from None
        if isinstance(value, Tracer) and not value._trace.alive:
            raise self.error(
                f"answers with a traced value as {what} whose transformation has ended",
                f"{value.describe()}, made at {sources.describe(value.created)}",
                f"{text}, computed from what the rule is given",
            )
        if wanted is not None and not fits(got, wanted):
            raise self.error(
                f"answers with {what} of the wrong type", str(got), f"{plain(wanted)} as {what}"
            )
        return got

    def zero(self, value: Zero, what: str, wanted: ArrayType) -> None:
        """Raises JaxprError unless a `Zero` in the answer is of the type wanted."""
        if not isinstance(value.type, ArrayType) or not fits(value.type, wanted):
            raise self.error(
                f"answers with {what} of the wrong type",
                f"Zero({value.type!r:.80})",
                f"{plain(wanted)} as {what}",
            )


def checked_type_rule(primitive: Any, rule: Rule) -> Rule:
    """A type rule whose answer is an `ArrayType`, or a list of them for several results."""
    answers = Answers(primitive, "type", rule)

    @functools.wraps(rule)
    def checked(*types: ArrayType, **params: Any) -> Any:
        found = answers.ask(*types, params=params)
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
    """An evaluation rule that answers with as many arrays as the primitive has results, of the
    types that its type rule gives where it has one."""
    answers = Answers(primitive, "evaluation", rule)

    @functools.wraps(rule)
    def checked(*args: Any, **params: Any) -> Any:
        found = answers.ask(*args, params=params)
        wanted: list[ArrayType] | None = None
        if primitive in rules.type_rule and primitive.memoise:
            # A program is typed by the type rule: evaluation must not give something else.
            out = rules.type_rule[primitive](*map(type_of, args), **params)
            wanted = list(out) if primitive.multiple_results else [out]
        outs = answers.several(found, "result", None if wanted is None else len(wanted))
        for i, value in enumerate(outs):
            own = value if value is None else user_value(value)
            answers.array(own, f"result {i}", None if wanted is None else wanted[i])
        return found

    return checked
