"""The programs of functions of arrays: several primitives that, called eagerly, are one executable.

A function of arrays is Python over primitives. Called while nothing is traced it would run one
small executable per primitive; its program traces it once per operand types and static arguments
and runs the whole as one. While a jaxpr is being recorded the function is simply called, so that
its primitives stand in the jaxpr; under an eager transformation it becomes one `jit` equation,
whose derived jaxprs are cached with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft import config, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.exact_keys import exact_key, is_plain
from weft.base.program_caches import BoundedCache
from weft.control_flow.jit_primitive import eager_program, jit_p
from weft.core.axes import mesh_axes
from weft.core.jaxpr import Jaxpr
from weft.core.trace import Tracer, bottom_trace, current_variable, leaked
from weft.core.types import ArrayType, type_of
from weft.interpreters.rounded_inputs import rounded_inputs, warn_of_rounded_inputs
from weft.interpreters.staging import trace_to_jaxpr
from weft.kinds.watched_trace import WatchedTrace
from weft.lowering.eval_trace import EvalTrace
from weft.lowering.executable_cache import ExecutableCache
from weft.lowering.executables import Program, Run, running
from weft.ops.structural.constants import inline_consts

_trace = current_variable.get
_settings = config.settings
# Jaxprs of this many equations or fewer are bound one by one under an eager transformation.
_FEW = 2


def is_eager() -> bool:
    """Whether no transformation is active, so that primitives are evaluated at once."""
    trace = _trace(None)
    return trace is None or isinstance(trace, EvalTrace)


def records(trace: Any) -> bool:
    """Whether a function is simply called under a trace: where a jaxpr is being recorded, and where
    the user writes the casts, since constants need none."""
    while trace.parent is not None:
        trace = trace.parent
    return not isinstance(trace, EvalTrace) or any(axis.explicit for axis in mesh_axes())


class Body(NamedTuple):
    """A function's jaxpr for given operand types, and the form of its result: 0 for one array
    alone, or a function of the list of outputs."""

    jaxpr: Jaxpr
    form: Any

    def result(self, outs: Sequence[Any]) -> Any:
        """The function's result, made of the outputs of the jaxpr."""
        return self.form(outs) if self.form else outs[0]


def _exact(static: dict[str, Any]) -> tuple[Any, ...]:
    return (*static, *map(exact_key, static.values()))


def _warn_of_rounded(run: Run, name: str, jaxpr: Jaxpr) -> Run:
    """The run of a program that promotes operands to float64, with a warning about rounded ones."""

    def watched(buffers: Sequence[Any], arrays: Sequence[Any]) -> Any:
        warn_of_rounded_inputs(name, jaxpr, arrays, False)
        return run(buffers, arrays)

    return watched


class CompiledFunction:
    """A function of arrays (positional) and hashable parameters (keywords), for `ArrayFunction`.

    It returns one array or a tuple of arrays. A caller passes each parameter in one class, flags as
    flags; numbers that may be of several classes are operands. Equal parameters of one class are
    the same unless they hold 0.0 or -0.0: from the first such parameter on, the keys of the
    function's caches are exact. `compile` makes an executable from a jaxpr, a name and the
    operands; `copies` says that a returned operand is copied. While a jaxpr is recorded an
    `inlined` one is simply called.
    """

    inlined = True

    def __init__(
        self,
        function: Callable[..., Any],
        compile: Callable[[Jaxpr, str, Sequence[Array]], Program] = eager_program,
        name: str | None = None,
        copies: bool = True,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.name = name or function.__name__
        self.compile = compile
        self.copies = copies
        self.exact = False
        self.calls = ExecutableCache()
        self.bodies = BoundedCache()

    def __call__(self, *arrays: Any, **static: Any) -> Any:
        if _trace(None) is None:
            parts = _exact(static) if self.exact else (*static.items(),)
            found = self.calls.run(parts, arrays)
            return self.first_time(arrays, static) if found is None else found
        return self.under_trace(arrays, static)

    def key(self, static: dict[str, Any]) -> tuple[Any, ...]:
        """The part of keys for the parameters."""
        if not self.exact:
            self.exact = not all(map(is_plain, static.values()))
        return _exact(static) if self.exact else (*static.items(),)

    def under_trace(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The call while a transformation is active."""
        trace = _trace(None)
        if isinstance(trace, EvalTrace):
            return self.first_time(arrays, static)
        if records(trace):
            return self.function(*arrays, **static)
        body = self.body([type_of(x) for x in arrays], static)
        warn_of_rounded_inputs(self.name.strip("_"), body.jaxpr, arrays, False)
        if len(body.jaxpr.eqns) <= _FEW:
            return self.function(*arrays, **static)
        return self.bound(body, arrays)

    def bound(self, body: Body, arrays: Sequence[Any]) -> Any:
        """The call as one equation."""
        outs = jit_p.bind(*arrays, jaxpr=body.jaxpr, name=self.name, donated=())
        return body.result(outs)

    def body(self, types: Sequence[ArrayType], static: dict[str, Any]) -> Body:
        """The function's jaxpr for operands of the given types, with closed-over arrays inlined."""
        key = (_settings(), *types, *self.key(static))
        found = self.bodies.get(key)
        if found is None:
            form: list[Any] = []

            def flat(*values: Any) -> Sequence[Any]:
                out = self.function(*values, **static)
                if type(out) is tuple and tuple not in map(type, out):
                    form.append(tuple)
                    return out
                if not isinstance(out, (tuple, list, dict)):
                    form.append(0)
                    return (out,)
                leaves, structure = tree.flatten(out)
                form.append(structure.unflatten)
                return leaves

            name = self.name
            jaxpr, consts = trace_to_jaxpr(flat, types, transformation="jit", name=name)
            found = self.bodies[key] = Body(inline_consts(jaxpr, consts), form[0])
        return found

    def selection(self, body: Body) -> Callable[[Sequence[Any]], Any] | None:
        """If nothing is computed and an operand need not be copied, a function of the operands that
        returns those that are the result; None otherwise."""
        numbers: dict[Any, int] = {x: i for i, x in enumerate(body.jaxpr.inputs)}
        places = [numbers.get(x, -1) for x in body.jaxpr.outputs]
        if self.copies or body.jaxpr.eqns or -1 in places:
            return None
        return lambda operands: body.result([operands[i] for i in places])

    def program(self, arrays: Sequence[Array], static: dict[str, Any]) -> Program:
        """The executable for operands of these types and shardings."""
        jaxpr = self.body([x.type for x in arrays], static).jaxpr
        return self.compile(jaxpr, self.name, arrays)

    def prepare_run(self, arrays: Sequence[Array], static: dict[str, Any]) -> Run:
        """The cached `Run` of the executable for operands of these signatures."""
        parts = self.key(static)
        out = self.calls.find(parts, arrays)
        if out is None:
            body = self.body([x.type for x in arrays], static)
            select = self.selection(body)
            if select is not None:
                return self.calls.remember(parts, arrays, lambda buffers, given: select(given))
            run = running(self.program(arrays, static), body.form)
            if rounded_inputs(body.jaxpr).inputs:
                run = _warn_of_rounded(run, self.name.strip("_"), body.jaxpr)
            out = self.calls.remember(parts, arrays, run)
        return out

    def first_time(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """Evaluates a call on a miss, or with operands that are not arrays yet."""
        for value in arrays:
            if isinstance(value, Tracer):
                raise leaked(value)
        watched = _trace(None)
        token = current_variable.set(bottom_trace())
        try:
            values = [as_array(x) for x in arrays]
            if _settings().looks_at_results:
                # Results of an equation are checked, and the source of a NaN is searched in it.
                return self.bound(self.body([x.type for x in values], static), values)
            out = self.prepare_run(values, static)([x._buffer for x in values], values)
        finally:
            current_variable.reset(token)
        if type(watched) is WatchedTrace:
            body = self.body([x.type for x in values], static)
            if self.selection(body) is None:
                rounded = rounded_inputs(body.jaxpr).inputs
                watched.note(None if rounded else self.program(values, static), values, out)
        return out


class OneEquation(CompiledFunction):
    """A compiled function that is one equation under a transformation, also while a jaxpr is
    recorded: a program that calls it a hundred times traces and lowers it once."""

    inlined = False

    def under_trace(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The call while a transformation is active."""
        if isinstance(_trace(None), EvalTrace):
            return self.first_time(arrays, static)
        return self.bound(self.body([type_of(x) for x in arrays], static), arrays)
