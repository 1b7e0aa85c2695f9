"""What rules that take an equation apart answered: those of partial evaluation and of dead code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.core.jaxpr import Equation
from weft.core.rule_results import rule_error
from weft.transforms.partial import SplitEquation

__all__ = ["checked_dce", "checked_partial_eval"]

Rule = Callable[..., Any]


def checked_partial_eval(primitive: Any, rule: Rule) -> Rule:
    """A partial evaluation rule that answers with a `SplitEquation` that fits the equation."""

    @functools.wraps(rule)
    def checked(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
        found = rule(eqn, unknown)
        if not isinstance(found, SplitEquation):
            raise rule_error(
                primitive,
                "partial evaluation",
                rule,
                "answers with no SplitEquation",
                type(found).__name__,
                "a SplitEquation",
            )
        count = len(eqn.outputs)
        later = sum(found.unknown_out)
        parts = (
            (found.unknown_out, count, "marks of results that are unknown"),
            (found.known.outputs if found.known else (), count - later, "known results"),
            (found.unknown.outputs if found.unknown else (), later, "unknown results"),
        )
        for number, (values, wanted, what) in enumerate(parts):
            more = len(found.residuals) if number == 1 and found.known else 0
            if len(values) != wanted + more and (number == 0 or values):
                raise rule_error(
                    primitive,
                    "partial evaluation",
                    rule,
                    f"answers with the wrong number of {what}",
                    len(values),
                    f"{wanted} {what}" + (f" and {more} residuals" if more else ""),
                )
        return found

    return checked


def checked_dce(primitive: Any, rule: Rule) -> Rule:
    """A rule of dead-code elimination that marks every input and keeps the results in use."""

    @functools.wraps(rule)
    def checked(eqn: Equation, used: Sequence[bool]) -> tuple[Any, Equation | None]:
        found = rule(eqn, used)

        def error(what: str, got: Any, wanted: str) -> Exception:
            return rule_error(primitive, "dead-code elimination", rule, what, got, wanted)

        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise error(
                "does not answer with a pair",
                type(found).__name__,
                "a pair (used inputs, equation or None)",
            )
        marks, smaller = found
        if not isinstance(marks, (tuple, list)) or len(marks) != len(eqn.inputs):
            raise error(
                "answers with the wrong number of marks of inputs",
                len(marks) if isinstance(marks, (tuple, list)) else type(marks).__name__,
                f"{len(eqn.inputs)} marks, one per input",
            )
        if smaller is not None and not isinstance(smaller, Equation):
            raise error("answers with no equation", type(smaller).__name__, "an Equation, or None")
        bound = set() if smaller is None else set(smaller.outputs)
        lost = [i for i, (v, use) in enumerate(zip(eqn.outputs, used, strict=True)) if use]
        lost = [i for i in lost if eqn.outputs[i] not in bound]
        if lost:
            raise error(
                "drops results that are read",
                f"results {lost}",
                "an equation that binds every result that is marked as used",
            )
        return marks, smaller

    return checked
