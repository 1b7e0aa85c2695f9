"""The trace of `checkify`: it passes operations on and collects the first failure.

No value is boxed: an operation goes to the parent trace with its check beside it, and operations
that hold functions are applied to functions that return their failures too (see `holding`). A
function of arrays is checked in the same way, under a trace of its own, so the failure of a body or
a branch starts anew, and whoever holds it joins it with what failed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import Trace, current_trace, running, using_trace
from weft.experimental.checkify.failures import (
    NO_FAILURE,
    ErrorCategory,
    Failure,
    Form,
    first_failure,
)
from weft.interpreters.staging import rebuild

Categories = frozenset[ErrorCategory]
Rule = Callable[..., list[Any]]

# Primitive -> rule(trace, operands, params) for primitives that hold jaxprs, and for those applied
# to Python functions rule(trace, function, operands, params): both return results.
applied_rules: dict[Primitive, Rule] = {}
called_rules: dict[Primitive, Rule] = {}
# The rule of every other primitive: (trace, primitive, operands, params) -> results.
operation_rule: list[Callable[..., Any]] = []


class CheckTrace(Trace):
    """Collects the first failure of the operations that it passes on."""

    __slots__ = ("categories", "failure")

    parent: Trace

    def __init__(self, parent: Trace, categories: Categories, function: str = "") -> None:
        super().__init__(parent, "checkify", function)
        self.categories = categories
        self.failure: Failure = NO_FAILURE

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if "function" in params:  # An application that another trace passes on.
            rest = {key: value for key, value in params.items() if key != "function"}
            return self.process_call(primitive, params["function"], args, rest)
        rule = applied_rules.get(primitive)
        with using_trace(self.parent):
            if rule is not None:
                return rule(self, args, params)
            return operation_rule[0](self, primitive, args, params)

    def process_call(
        self,
        primitive: Primitive,
        function: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        rule = called_rules.get(primitive)
        if rule is None:
            return super().process_call(primitive, function, args, params)
        with using_trace(self.parent):
            return rule(self, function, args, params)

    def add(self, failure: Failure) -> None:
        """Notes a failure that comes after those noted before."""
        self.failure = first_failure(self.failure, failure)

    def take(self, form: Form, values: Sequence[Any]) -> list[Any]:
        """Notes the failure that the first values are; returns the rest."""
        count = len(form.leaf_types())
        self.add(form.failure(values[:count]))
        return list(values[count:])


def checked_run(
    categories: Categories, function: Callable[..., Any], args: Sequence[Any], name: str = ""
) -> tuple[Failure, Any]:
    """The failure and the result of a function that runs under the current trace."""
    trace = CheckTrace(current_trace(), categories, name)
    with running(trace):
        out = function(*args)
    # The trace lives on where leaks are looked for; the values of the failure are not its own.
    failure, trace.failure = trace.failure, NO_FAILURE
    return failure, out


def checked_program(jaxpr: Jaxpr, categories: Categories) -> tuple[Jaxpr, Form]:
    """The jaxpr with its failure in front of its results, and the form of that; cached on it."""

    def make() -> tuple[Jaxpr, Form]:
        return checked_when(jaxpr, categories, None)

    return jaxpr.memoize(("checkify", categories), make)


def checked_when(jaxpr: Jaxpr, categories: Categories, form: Form | None) -> tuple[Jaxpr, Form]:
    """The jaxpr with its failure, in the given form (by default its own), before its results."""
    found = Form()

    def function(*values: Any) -> list[Any]:
        nonlocal found
        run = lambda *xs: eval_jaxpr(jaxpr, (), *xs)  # noqa: E731
        failure, outs = checked_run(categories, run, values, jaxpr.name)
        found = form or failure.form
        return [*failure.leaves(found), *outs]

    made = rebuild(function, jaxpr.in_types, jaxpr.name, "checkify")
    return (made, found) if found else (jaxpr, found)
