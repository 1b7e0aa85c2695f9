"""Finds the operation that made a NaN or an infinity, for `debug_nans` and `debug_infs`.

An eager operation is checked as it runs, a compiled call by its results. Where one of them is not
finite, the jaxpr is evaluated once more, equation by equation, and the chain of non-finite values
is followed back from that result to the equation that made the first of them out of operands that
were in order; if that equation holds jaxprs itself (a loop, a branch), the search goes on inside.
So a NaN that a `where` throws away is not blamed for another one.

Results are tested here, too, and the error is made that says where a NaN came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.control_flow.jit_primitive import jit_p
from weft.core import rules
from weft.core.effects import IO, ORDERED_IO
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var, effects_of, last_uses
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values
from weft.core.trace import bottom_trace, set_bottom, using_trace
from weft.core.types import type_of, user_value
from weft.errors import Fix, GuardError, NonFiniteError
from weft.lowering.eval_trace import EvalTrace
from weft.runtime.jaxlib.lazy import LazyModule

_LOOKED_AT = dtypes.INEXACT | dtypes.NARROW_FLOATING


class Watch(NamedTuple):
    """A test of values for NaNs, infinities, or both."""

    nans: bool
    infs: bool

    def finds(self, value: Any) -> bool:
        """Whether a value holds a NaN or an infinity that this test looks for."""
        if type_of(value).dtype not in _LOOKED_AT:
            return False
        numbers = np.asarray(value)
        return bool(
            (self.nans and np.isnan(numbers).any()) or (self.infs and np.isinf(numbers).any())
        )


def watch_of(settings: config.Settings) -> Watch:
    """The test that the settings ask for."""
    return Watch(settings.debug_nans, settings.debug_infs)


def nonfinite_error(
    watch: Watch,
    operation: str,
    args: Sequence[Any],
    outs: Sequence[Any],
    within: tuple[str, ...],
    *,
    names: Sequence[str] = (),
    note: str = "",
) -> NonFiniteError:
    """The error for an application on the current line. `within` has the loops, branches and jitted
    functions around it, innermost first; `names` has the user's names of its operands."""
    place, value = next((i, x) for i, x in enumerate(outs) if watch.finds(x))
    numbers = np.asarray(value)
    is_nan = watch.nans and bool(np.isnan(numbers).any())
    test, what, setting = (
        (np.isnan, "NaN", "debug_nans") if is_nan else (np.isinf, "infinity", "debug_infs")
    )
    marks = test(numbers)
    which = f"result {place}" if len(outs) > 1 else "the result"
    lines = [_result_text(which, value, numbers, marks, what)]
    lines += [
        _operand_text(i, x, marks, names[i] if i < len(names) else "") for i, x in enumerate(args)
    ]
    given = any(type_of(x).dtype in _LOOKED_AT and test(np.asarray(x)).any() for x in args)
    source = sources.here()
    return NonFiniteError(
        f"{operation} {'passed on' if given else 'made'} {'a' if is_nan else 'an'} {what}",
        kind=what,
        within=within,
        backward=sources.in_backward_pass(source),
        device=(str(value.device) if type(value) is Array and value.committed else None),
        operation=operation,
        got="\n".join([*lines, note] if note else lines),
        where=source,
        fix=Fix(
            "allow",
            "change the operands before they reach this operation (a choice made on its result "
            "alone leaves the derivative at fault), or allow the value: "
            f"with weft.{setting}(False)",
            {"setting": setting, "operation": operation},
        ),
    )


def _result_text(which: str, value: Any, numbers: Any, marks: Any, what: str) -> str:
    """Names the result at fault, with the number of elements and the first."""
    of = type_of(value)
    if not of.shape:
        return f"{which}, {of}, is {numbers}"
    first = ", ".join(str(i) for i in np.argwhere(marks)[0])
    count = f"{int(marks.sum())} of {marks.size} elements"
    return f"{which}, {of}, with {what} in {count}, first at [{first}]"


def _operand_text(i: int, value: Any, marks: Any, name: str) -> str:
    """An operand's type, its value where the result is at fault, and its NaNs and infinities."""
    of = type_of(value)
    text = f"operand {i}, {of} ({name})" if name else f"operand {i}, {of}"
    if of.dtype not in dtypes.ANY | dtypes.NARROW:
        return text
    numbers = np.asarray(value)
    if not of.shape:
        text += f": {numbers}"
    elif of.shape == marks.shape:
        text += f": {numbers[tuple(np.argwhere(marks)[0])]} there"
    if of.dtype in _LOOKED_AT:
        tests = (("NaN", np.isnan), ("infinity", np.isinf))
        held = [word for word, test in tests if test(numbers).any()]
        if held:
            text += f"; it holds {' and '.join(held)} already"
    return text


# It imports the loops, so it is loaded only where keys are followed.
key_reuse: Any = LazyModule("weft.dispatch.key_reuse")

# The loops, branches and jitted functions around an application, the innermost first.
Within = tuple[str, ...]


class LookingTrace(EvalTrace):
    """The bottom trace, which checks results while a setting asks for it."""

    __slots__ = ()

    def _look(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluates an application. Raises NonFiniteError if settings refuse its results."""
        return look_at_primitive(self, primitive, args, params)


set_bottom(LookingTrace(None, "eval"))


def no_execution(operation: str) -> GuardError:
    """The error for what is about to run under the setting `no_execution`."""
    message = f"{operation} is about to be executed, and the setting no_execution is on"
    fix = Fix("setting", "leave the block, or trace it: weft.eval_shape, weft.make_jaxpr")
    return GuardError(message, operation=operation, wanted="functions that are traced", fix=fix)


def look_at_primitive(trace: EvalTrace, primitive: Primitive, args: Values, params: Params) -> Any:
    """Evaluates an application. Raises NonFiniteError if settings refuse its results."""
    settings = config.settings()
    if settings.no_execution:
        raise no_execution(primitive.name)
    if settings.debug_key_reuse and "function" not in params:
        outs = evaluate(primitive, args, params)
        key_reuse.follow_application(primitive, args, params, outs)
        if not settings.debug_nans and not settings.debug_infs:
            return outs if primitive.multiple_results else outs[0]
    if not settings.debug_nans and not settings.debug_infs:
        return trace.first_time(primitive, args, params)
    if primitive not in rules.steps or "function" in params:
        # An operation with a Python function inside runs it here: its operations are checked one
        # by one, like any others.
        outs = trace.first_time(primitive, args, params)
        results = outs if primitive.multiple_results else [outs]
        search = Search(watch_of(settings))
        if any(search.watch.finds(x) for x in results):
            raise nonfinite_error(search.watch, primitive.name, args, results, ())
        return outs
    outs = evaluate(primitive, args, params)
    search = Search(watch_of(settings))
    if any(search.watch.finds(x) for x in outs):
        if _acts(effects_of(primitive, params)):
            raise nonfinite_error(search.watch, primitive.name, args, outs, (), note=ACTS)
        with using_trace(trace), _not_looking():
            search.inside(primitive, args, params, outs, ())
    return outs


def look_at_call(
    name: str, jaxpr: Jaxpr, inputs: Sequence[Any], outs: Sequence[Any], names: Mapping[Var, str]
) -> None:
    """Raises NonFiniteError if settings refuse the results of a compiled call. `names` has the
    names of the inputs in messages."""
    settings = config.settings()
    if settings.debug_key_reuse:
        key_reuse.follow_call(jaxpr, inputs, outs)
    search = Search(watch_of(settings), names)
    if not any(search.watch.finds(x) for x in outs):
        return
    line = sources.placed(sources.describe(sources.current()))
    if _acts(jaxpr.effects):
        raise nonfinite_error(search.watch, f"jit of {name}", inputs, outs, (), note=ACTS)
    within = (f"the jit of {name}, called {line}",)
    with using_trace(bottom_trace()), _not_looking():
        if not search.program(jaxpr, inputs, within):
            raise nonfinite_error(search.watch, f"jit of {name}", inputs, outs, (), note=VANISHED)


# XLA may fuse operations and so compute other numbers than they give one by one.
VANISHED = "evaluated one operation at a time it stays away, so no operation can be named"
ACTS = "it holds an io_callback, so it is not evaluated again and no operation can be named"


def _acts(effects: frozenset[Any]) -> bool:
    """Whether a second evaluation would repeat an effect on the world outside."""
    return IO in effects or ORDERED_IO in effects


def _not_looking() -> Any:
    return config.override(debug_nans=False, debug_infs=False, debug_key_reuse=False)


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The results of an application as a whole, without checks."""
    with using_trace(bottom_trace()), _not_looking():
        outs = primitive.bind(*args, **params)
    return list(outs) if primitive.multiple_results else [outs]


def run(jaxpr: Jaxpr, inputs: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr, compiled as a whole."""
    return evaluate(jit_p, inputs, {"jaxpr": jaxpr, "name": jaxpr.name, "donated": ()})


class Search:
    """Searches for the operation that made a NaN or an infinity; raises the error that names it."""

    __slots__ = ("names", "watch")

    def __init__(self, watch: Watch, names: Mapping[Var, str] | None = None) -> None:
        self.watch = watch
        self.names = names or {}

    def program(self, jaxpr: Jaxpr, inputs: Sequence[Any], within: Within) -> bool:
        """Searches a jaxpr whose results are at fault.

        Returns True where they only pass on what the inputs held already, and False if nothing
        is found, since equation by equation all results are in order.
        """
        at_fault = self.at_fault(jaxpr, inputs)
        makers = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.outputs}
        wanted = [x for x in jaxpr.outputs if type(x) is Var and x in at_fault]
        while True:
            first = first_cause(jaxpr, makers, at_fault, wanted)
            if first is None:
                return bool(wanted)
            eqn = jaxpr.eqns[first]
            values = self.operands(jaxpr, inputs, first)
            with sources.override(eqn.source):
                outs = evaluate(eqn.primitive, values, eqn.params)
                names = [self.names.get(x, "") if type(x) is Var else "" for x in eqn.inputs]
                self.inside(eqn.primitive, values, eqn.params, outs, within, names)
            # It passes an operand on: as if its results were inputs of the jaxpr.
            for var in eqn.outputs:
                del makers[var]

    def at_fault(self, jaxpr: Jaxpr, inputs: Sequence[Any]) -> set[Var]:
        """The variables of a jaxpr whose values hold a NaN or an infinity that is searched for."""
        out = {v for v, x in zip(jaxpr.inputs, inputs, strict=True) if self.watch.finds(x)}

        def visit(eqn: Equation, values: Sequence[Any], outs: Sequence[Any]) -> None:
            out.update(v for v, x in zip(eqn.outputs, outs, strict=True) if self.watch.finds(x))

        step_through(jaxpr, inputs, jaxpr.eqns, visit)
        return out

    def operands(self, jaxpr: Jaxpr, inputs: Sequence[Any], place: int) -> list[Any]:
        """The operands of the equation at an index, computed again: the values of a whole jaxpr
        take more memory than there may be."""
        env = step_through(jaxpr, inputs, jaxpr.eqns[:place])
        return [x.value if isinstance(x, Literal) else env[x] for x in jaxpr.eqns[place].inputs]

    def inside(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        params: dict[str, Any],
        outs: Sequence[Any],
        within: Within,
        names: Sequence[str] = (),
    ) -> None:
        """Raises for an application whose results are at fault, or for one that it holds.

        Returns where the application holds jaxprs that only pass on what they were given.
        """
        steps = rules.steps.get(primitive)
        if steps is None:
            raise nonfinite_error(self.watch, primitive.name, args, outs, within, names=names)
        line = sources.placed(sources.describe(sources.current()))
        generator = steps(*[as_array(user_value(x)) for x in args], **params)
        seen = False
        try:
            label, jaxpr, inputs = next(generator)
            while True:
                results = run(jaxpr, inputs)
                if any(self.watch.finds(x) for x in results):
                    seen = True
                    around = (f"{label} {line}", *within)
                    if not Search(self.watch).program(jaxpr, inputs, around):
                        raise self.vanished_error(primitive, args, outs, around)
                label, jaxpr, inputs = generator.send(results)
        except StopIteration:
            if not seen and not any(self.watch.finds(x) for x in args):
                raise self.vanished_error(primitive, args, outs, within) from None

    def vanished_error(
        self, primitive: Primitive, args: Sequence[Any], outs: Sequence[Any], within: Within
    ) -> NonFiniteError:
        """The error where the fault of an application does not appear again inside it."""
        return nonfinite_error(self.watch, primitive.name, args, outs, within, note=VANISHED)


def step_through(
    jaxpr: Jaxpr,
    inputs: Sequence[Any],
    eqns: Sequence[Equation],
    visit: Callable[[Equation, Sequence[Any], Sequence[Any]], None] | None = None,
) -> dict[Any, Any]:
    """Evaluates `eqns`, the first of a jaxpr; calls `visit` with each, its operands and results.
    Returns the values that the rest of the jaxpr reads; the others are dropped."""
    env: dict[Any, Any] = dict(zip(jaxpr.inputs, inputs, strict=True))
    dead = jaxpr.memoize("last_uses", lambda: last_uses(jaxpr))
    for eqn, finished in zip(eqns, dead, strict=False):
        if eqn.effects and not eqn.outputs:
            continue  # It only prints or calls the host, and has done so already.
        values = [x.value if isinstance(x, Literal) else env[x] for x in eqn.inputs]
        with sources.override(eqn.source):
            outs = evaluate(eqn.primitive, values, eqn.params)
        env.update(zip(eqn.outputs, outs, strict=True))
        if visit is not None:
            visit(eqn, values, outs)
        for var in finished:
            env.pop(var, None)
    return env


def first_cause(
    jaxpr: Jaxpr, makers: Mapping[Var, int], at_fault: set[Var], wanted: Sequence[Var]
) -> int | None:
    """The index of the first equation that the fault in the `wanted` variables goes back to: no
    equation made its operands at fault. None if it goes back to inputs alone."""
    pending = list(wanted)
    seen: set[int] = set()
    causes: list[int] = []
    while pending:
        place = makers.get(pending.pop())
        if place is None or place in seen:
            continue
        seen.add(place)
        read = [x for x in jaxpr.eqns[place].inputs if type(x) is Var and x in at_fault]
        before = [x for x in read if x in makers]
        pending += before
        if not before:
            causes.append(place)
    return min(causes, default=None)
