"""What rules that take an equation apart answered: those of partial evaluation, of dead code and of
effects."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.core.effects import Effect
from weft.core.jaxpr import Equation, Literal, Var
from weft.core.rule_results import Answers
from weft.interpreters.partial_eval import SplitEquation

__all__ = ["checked_dce", "checked_effects", "checked_partial_eval"]

Rule = Callable[..., Any]


def _marks(answers: Answers, found: Any, count: int, of: str) -> Sequence[bool]:
    """One boolean per operand or result. Raises JaxprError for anything else."""
    if not isinstance(found, (tuple, list)) or len(found) != count:
        raise answers.error(
            f"answers with the wrong number of marks of {of}s",
            len(found) if isinstance(found, (tuple, list)) else type(found).__name__,
            f"{count} marks, one per {of}",
        )
    if any(type(mark) is not bool for mark in found):
        raise answers.error(
            f"answers with marks of {of}s that are no booleans",
            f"{found!r:.80}",
            f"True or False for each {of}",
        )
    return found


def _variables(equation: Equation) -> set[Var]:
    return {x for x in equation.inputs if not isinstance(x, Literal)}


# ---- partial evaluation ------------------------------------------------------------------------


def checked_partial_eval(primitive: Any, rule: Rule) -> Rule:
    """A partial evaluation rule that answers with a `SplitEquation` that fits the equation."""
    answers = Answers(primitive, "partial evaluation", rule)

    @functools.wraps(rule)
    def checked(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
        found = answers.ask(eqn, unknown, params={}, source=eqn.source)
        if not isinstance(found, SplitEquation):
            raise answers.error(
                "answers with no SplitEquation", type(found).__name__, "a SplitEquation"
            )
        marks = _marks(answers, found.unknown_out, len(eqn.outputs), "result")
        for part in (found.known, found.unknown, *found.before):
            if part is not None and not isinstance(part, Equation):
                raise answers.error(
                    "answers with a part that is no equation",
                    type(part).__name__,
                    "an Equation, or None, as each part",
                )
        _check_split(answers, eqn, found, marks)
        _check_reads(answers, eqn, unknown, found)
        return found

    return checked


def _check_split(
    answers: Answers, eqn: Equation, found: SplitEquation, marks: Sequence[bool]
) -> None:
    """Raises JaxprError unless both parts together bind what the equation binds."""
    later = sum(marks)
    parts = (
        (found.known, len(marks) - later, len(found.residuals), "known results"),
        (found.unknown, later, 0, "unknown results"),
    )
    for part, wanted, more, what in parts:
        if part is not None and part.outputs and len(part.outputs) != wanted + more:
            raise answers.error(
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
        raise answers.error(
            "answers with parts that do not bind all results",
            f"results {lost} bound by neither part",
            "parts that bind the variables of the equation's results, each as it is marked",
        )


def _check_reads(
    answers: Answers, eqn: Equation, unknown: Sequence[bool], found: SplitEquation
) -> None:
    """Raises JaxprError where a part reads what is not there when it runs."""
    known = {x for x, flag in zip(eqn.inputs, unknown, strict=True) if not flag and type(x) is Var}
    for part in (*found.before, *([] if found.known is None else [found.known])):
        if not _variables(part) <= known:
            raise answers.error(
                "answers with a known part that reads what is not known",
                f"inputs {[str(x.type) for x in _variables(part) - known]}",
                "a known part that reads the operands that are not marked as unknown",
            )
        known.update(part.outputs)
    residuals = set(found.residuals)
    if not residuals <= known:
        raise answers.error(
            "answers with residuals that the known part does not compute",
            f"{len(residuals - known)} of {len(residuals)}",
            "residuals among the results of the known part, or among the known operands",
        )


# ---- dead code ---------------------------------------------------------------------------------


def checked_dce(primitive: Any, rule: Rule) -> Rule:
    """A rule of dead-code elimination that marks every input and keeps the results in use."""
    answers = Answers(primitive, "dead-code elimination", rule)

    @functools.wraps(rule)
    def checked(eqn: Equation, used: Sequence[bool]) -> tuple[Any, Equation | None]:
        found = answers.ask(eqn, used, params={}, source=eqn.source)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise answers.error(
                "does not answer with a pair",
                type(found).__name__,
                "a pair (used inputs, equation or None)",
            )
        marks, smaller = _marks(answers, found[0], len(eqn.inputs), "input"), found[1]
        if smaller is not None and not isinstance(smaller, Equation):
            raise answers.error(
                "answers with no equation", type(smaller).__name__, "an Equation, or None"
            )
        bound = set() if smaller is None else set(smaller.outputs)
        lost = [i for i, (v, use) in enumerate(zip(eqn.outputs, used, strict=True)) if use]
        lost = [i for i in lost if eqn.outputs[i] not in bound]
        if lost:
            raise answers.error(
                "drops results that are read",
                f"results {lost}",
                "an equation that binds every result that is marked as used",
            )
        kept = {x for x, mark in zip(eqn.inputs, marks, strict=True) if mark}
        if smaller is not None and not _variables(smaller) <= kept:
            raise answers.error(
                "answers with an equation that reads inputs which it does not mark",
                f"marks {list(marks)}",
                "True for every input that the equation reads",
            )
        return marks, smaller

    return checked


# ---- effects -----------------------------------------------------------------------------------


def checked_effects(primitive: Any, rule: Rule) -> Rule:
    """A rule that answers with a frozenset of effects."""
    answers = Answers(primitive, "effects", rule)

    @functools.wraps(rule)
    def checked(params: dict[str, Any]) -> frozenset[Any]:
        found = answers.ask(params, params={})
        if not isinstance(found, frozenset) or not all(isinstance(x, Effect) for x in found):
            raise answers.error(
                "does not answer with a set of effects",
                f"{found!r:.80} of class {type(found).__name__}",
                "a frozenset of Effect, as frozenset([IO]); frozenset() where there are none",
            )
        return found

    return checked
