"""The trace of `checkify`: it passes operations on and collects the first failure.

No value is boxed: an operation goes to the parent trace with its check beside it, and operations
that hold functions are applied to functions that return their failures too (see `holding`). A
function of arrays is checked in the same way, under a trace of its own, so the failure of a body or
a branch starts anew, and whoever holds it joins it with what failed before.

The primitive of `check`: it is nothing where no check failed, and an error where one did.

Its operands are the values of a `Failure`. Evaluated at once it raises; in a jitted program it
cannot, so a program that holds one is not lowered: `checkify` turns it into a result first. A check
for debugging is left out there instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core import rules
from weft.core.effects import DEBUG
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Values
from weft.core.trace import Trace, current_trace, running, using_trace
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftValueError
from weft.experimental.checkify.failures import (
    NO_FAILURE,
    Error,
    ErrorCategory,
    Failure,
    Form,
    first_failure,
)
from weft.interpreters.staging import rebuild
from weft.ops.elementwise.arithmetic import ne
from weft.ops.indexing.dynamic_slicing import dynamic_index_in_dim
from weft.ops.reductions.argreduce import argmax
from weft.ops.structural.shape import move_dim

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


check_p = Primitive("check", multiple_results=True, memoise=False)


def bind_check(failure: Failure, debug: bool) -> None:
    """Applies the primitive to a failure, which may be one per element of mapped axes."""
    if not failure.form:
        return
    leaves = failure.leaves()
    while type_of(leaves[0]).shape:
        leaves = first_element(leaves)
    check_p.bind(*leaves, form=failure.form, debug=debug)


def first_element(leaves: Sequence[Any]) -> list[Any]:
    """The values of the first element along dimension 0 that failed, or of the first one."""
    failed = ne(leaves[0], np.int32(0))
    if not type_of(failed).shape[0]:
        return [np.zeros(t.shape[1:], t.dtype) for t in map(type_of, leaves)]
    of = failed
    for _ in type_of(failed).shape[1:]:
        of = dynamic_index_in_dim(of, 0, -1, keepdims=False)
    place = argmax(of, 0, dtypes.int32)
    return [dynamic_index_in_dim(x, place, keepdims=False) for x in leaves]


def check_impl(*leaves: Any, form: Form, debug: bool) -> list[Any]:
    if not debug:
        Error(form, leaves).throw()
    return []


def check_lower(context: Any, *values: Any, form: Form, debug: bool) -> list[Any]:
    if debug:
        return []
    message = (
        "Cannot abstractly evaluate a checkify.check which was not functionalized: a compiled "
        "program raises no exceptions"
    )
    wanted = "a program whose checks are among its results"
    fix = Fix(
        "checkify",
        "turn the checks into a result first: error, out = jit(checkify.checkify(f))(x), and then "
        "error.throw(); a debug_check is left out of other programs",
    )
    raise WeftValueError(message, operation="check", wanted=wanted, fix=fix)


def check_jvp(primals: Values, tangents: Values, *, form: Form, debug: bool) -> Derived:
    check_p.bind(*primals, form=form, debug=debug)
    return [], []


def check_vmap(axis: AxisData, args: Values, dims: Dims, *, form: Form, debug: bool) -> Mapped:
    pairs = zip(args, dims, strict=True)
    bind_check(form.failure([move_dim(x, dim, 0, axis.size) for x, dim in pairs]), debug)
    return [], []


def check_type(*types: ArrayType, form: Form, debug: bool) -> list[ArrayType]:
    return []


rules.impl.register(check_p, check_impl)
rules.type_rule.register(check_p, check_type)
rules.lower.register(check_p, check_lower)
rules.jvp.register(check_p, check_jvp)
rules.vmap.register(check_p, check_vmap)
# As of a print: derivatives that run a part again leave it out there.
rules.effects.register(check_p, lambda params: frozenset([DEBUG]))
