"""Calls of jitted functions that use references: their arrays go in and come out.

A reference that is written has its array donated, so that it is changed where it lies. This is safe
where nothing else refers to the array's memory: it came out of such a call, and was not handed out
since. Any other is copied first. Where the program calls Python, which may raise half-way,
nothing is donated: the reference keeps its array.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.arrays.conversion import as_array
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.types import user_value
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.jit_shardings import JitShardings
from weft.dispatch.specialization import Specialization
from weft.refs.discharge import Discharged, check_distinct, discharge, passed_and_closed_over
from weft.refs.reference import Ref, contents
from weft.tracing.argument_names import argument_names, input_names
from weft.tracing.traces import TracedBody


class _Pure:
    """A jitted function in the form that `Specialization` needs: the arrays of `closed` references
    come first, and shardings are in the program alone."""

    def __init__(self, function: Any, closed: int) -> None:
        self._function = function._function
        self._name = function._name
        self._options = function._options
        self._shardings = JitShardings()
        self._jitted = function
        self._closed = closed

    def _donated(self, in_tree: Any) -> tuple[bool, ...]:
        return (False,) * self._closed + self._jitted._donated(in_tree)


class _ReferenceSpecialization(Specialization):
    """A specialization that takes the arrays of closed-over references first."""

    @functools.cached_property
    def names(self) -> list[str]:
        closed = self.function._closed
        return ["a reference"] * closed + argument_names(self.function._function, self.in_tree)

    def of_inputs(self) -> list[str]:
        count = len(self.traced.consts) + self.function._closed
        return input_names(self.function._function, self.in_tree, count, self.reads)


def _calls_python(jaxpr: Jaxpr) -> bool:
    """Whether a program calls functions of the host."""
    return bool(jaxpr.effects) or any(
        "callback" in eqn.params or any(map(_calls_python, jaxprs_in(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _pure_body(
    traced: TracedBody, found: Discharged
) -> tuple[TracedBody, list[Ref], list[int], list[int]]:
    """The pure program with closed-over references last among the closed-over values; these
    references; and the written ones of them and of the leaves, in the order of their results."""
    jaxpr = found.jaxpr
    count = len(traced.consts)
    own = [i for i, x in enumerate(traced.consts) if type(x) is Ref]
    rest = [i for i in range(count) if i not in own]
    order = [*rest, *own, *range(count, len(jaxpr.inputs))]
    inputs = [jaxpr.inputs[i] for i in order]
    # The program alone belongs to the jaxpr: others with other values and trees share it.
    pure = traced.jaxpr.memoize(
        ("pure body", *own), lambda: Jaxpr(inputs, jaxpr.eqns, jaxpr.outputs, len(rest), jaxpr.name)
    )
    places = [order.index(i) - len(rest) for i in found.written]
    out_tree = tree.treedef_tuple((traced.out_tree, tree.structure([0] * len(found.written))))
    consts = [traced.consts[i] for i in rest]
    closed = [traced.consts[i] for i in own]
    arguments = [order.index(i) - len(rest) for i in found.refs]
    return TracedBody(pure, consts, out_tree), closed, places, arguments


def reference_call(
    jitted: Any, traced: TracedBody, in_tree: Any, leaves: Sequence[Any], options: Any
) -> CompiledCall:
    """The compiled call of a jitted function that uses references."""
    body, closed, places, arguments = _pure_body(traced, discharge(traced.jaxpr))
    operands = [*closed, *leaves]
    arrays = [contents(x) if type(x) is Ref else as_array(user_value(x)) for x in operands]
    program = _ReferenceSpecialization(_Pure(jitted, len(closed)), body, in_tree, arrays)
    marks = list(program.donated)
    donated = []
    for place in places if not _calls_python(body.jaxpr) else ():
        number = program.inputs[place]
        if number is not None:
            marks[number] = True
            donated.append(place)
    program.donated = tuple(marks)
    call = program.compile(options).call
    start = call.run
    what = f"jit of {jitted._name}"

    def run(leaves: Sequence[Any]) -> Any:
        values: list[Any] = [*closed, *leaves]
        refs = [values[i] for i in arguments]
        if len({id(ref) for ref in refs}) < len(refs):
            raise _alias(what, refs[len(closed) :], closed, program.names, arguments)
        written = [values[i] for i in places]
        for i in donated:
            ref = values[i]
            if not ref._sole:
                ref._value = copy.copy(ref._array())
        for i in arguments:
            values[i] = values[i]._array()
        out, arrays = start(values)
        for ref, array in zip(written, arrays, strict=True):
            ref._value = array
            ref._sole = True
        return out

    return call.running_by(run)


def _alias(
    what: str, given: Sequence[Ref], closed: Sequence[Ref], names: list[str], places: Sequence[int]
) -> Exception:
    """The error for a reference that occurs twice among arguments and closed-over values."""
    own = [names[i] for i in places][len(closed) :]
    for ref, name in zip(given, own, strict=True):
        if any(ref is other for other in closed):
            return passed_and_closed_over(what, ref, name)
    try:
        check_distinct(what, given, lambda: own)
    except Exception as error:  # noqa: BLE001 - it is the error that is asked for
        return error
    raise AssertionError
