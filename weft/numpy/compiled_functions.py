"""Functions of several primitives that, called eagerly, run as one compiled program.

A function of the numpy layer is Python over primitives. Called while nothing is traced it would run
one small program per primitive; `compiled` traces it once per operand types and static arguments
and runs the whole as one program. While a program is being recorded the function is simply called,
so that its primitives stand in the program; under an eager transformation it becomes one `jit`
equation, whose derived programs are remembered with it.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array, as_array
from weft.base.program_caches import holds_programs
from weft.control_flow.jit_primitive import eager_program, jit_p
from weft.core.axes import mesh_axes
from weft.core.trace import Tracer, bottom_trace, current_variable, leaked
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import trace_to_jaxpr
from weft.lowering.eval_trace import EvalTrace
from weft.lowering.executables import run_program
from weft.numpy.repeated import WatchedTrace

__all__ = ["Compiled", "compiled", "is_eager"]

_trace = current_variable.get
_settings = config.settings
# Programs of this many equations or fewer are bound one by one under an eager transformation.
_FEW = 2
# A program that loops over many static arguments shall not fill the memory.
_MOST = 4096


def is_eager() -> bool:
    """Whether no transformation is active, so that primitives are evaluated at once."""
    trace = _trace(None)
    return trace is None or isinstance(trace, EvalTrace)


def _evaluates(trace: Any) -> bool:
    """Whether what a trace passes on is evaluated in the end, and not recorded."""
    while trace.parent is not None:
        trace = trace.parent
    return isinstance(trace, EvalTrace)


class Traced:
    """A function as a jaxpr for some operand types, with the arrays that it closes over."""

    __slots__ = ("consts", "jaxpr", "single")

    def __init__(self, jaxpr: Any, consts: list[Any], single: bool) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.single = single


class Compiled:
    """A function of arrays (positional) and hashable parameters (keywords); made by `compiled`.

    It returns one array or a tuple of arrays. Parameters that compare equal must mean the same: a
    caller passes flags as flags and numbers that may be of several classes as operands.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.programs: dict[Any, Any] = {}
        self.traces: dict[Any, Traced] = {}
        holds_programs(self)

    def forget_programs(self) -> None:
        """Drops all programs and traces."""
        self.programs.clear()
        self.traces.clear()

    def __call__(self, *arrays: Any, **static: Any) -> Any:
        if _trace(None) is None:
            found = self.again(arrays, static)
            return self.first_time(arrays, static) if found is None else found
        return self.under_trace(arrays, static)

    def again(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The result, where a program is compiled for such operands; None elsewhere, also under a
        transformation.

        Arguments of which all that is checked are types and parameters need no check again before
        this: they had it when the program was made.
        """
        if _trace(None) is not None:
            return None
        try:
            key = (_settings(), *[x.signature for x in arrays], *static.items())
            program = self.programs[key]
            outs = program.execute([x._buffer for x in arrays]).consume_with_handlers(
                program.handlers
            )
        except (AttributeError, KeyError, TypeError, RuntimeError, ValueError):
            return None
        if program.single:
            return Array(outs[0], program.out_type, program.out_signature)
        return tuple(program.wrap(outs))

    def under_trace(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """The call while a transformation is active."""
        trace = _trace(None)
        if isinstance(trace, EvalTrace):
            return self.first_time(arrays, static)
        if not _evaluates(trace) or any(axis.explicit for axis in mesh_axes()):
            # Where casts are to be written, it matters which operands are constants.
            return self.function(*arrays, **static)
        traced = self.traced([type_of(x) for x in arrays], static)
        if len(traced.jaxpr.eqns) <= _FEW:
            return self.function(*arrays, **static)
        return self.bound(traced, arrays)

    def bound(self, traced: Traced, arrays: Sequence[Any]) -> Any:
        """The call as one equation."""
        name = self.function.__name__
        outs = jit_p.bind(*traced.consts, *arrays, jaxpr=traced.jaxpr, name=name, donated=())
        return outs[0] if traced.single else tuple(outs)

    def traced(self, types: Sequence[ArrayType], static: dict[str, Any]) -> Traced:
        """The function's program for operands of the given types."""
        key = (_settings(), *types, *static.items())
        found = self.traces.get(key)
        if found is None:
            form: list[bool] = []

            def flat(*values: Any) -> Sequence[Any]:
                out = self.function(*values, **static)
                form.append(not isinstance(out, tuple))
                return out if isinstance(out, tuple) else (out,)

            name = self.function.__name__
            jaxpr, consts = trace_to_jaxpr(flat, types, transformation="jit", name=name)
            if len(self.traces) >= _MOST:
                self.traces.clear()
            found = self.traces[key] = Traced(jaxpr, [as_array(c) for c in consts], form[0])
        return found

    def program(self, arrays: Sequence[Array], static: dict[str, Any]) -> Any:
        """The compiled program for these operands, made where there is none.

        Only for functions that close over no arrays: the program takes the operands and no others.
        """
        key = (_settings(), *[x.signature for x in arrays], *static.items())
        found = self.programs.get(key)
        if found is None:
            traced = self.traced([x.type for x in arrays], static)
            assert not traced.consts, f"{self.function.__name__} closes over arrays"
            name = self.function.__name__
            # A copy: the `jit` primitive runs the same program and wants a list of results.
            found = copy.copy(eager_program(traced.jaxpr, name, arrays))
            found.single = traced.single
            if traced.single:
                found.out_type = found.out_types[0]
                found.out_signature = found.out_signatures[0]
            if len(self.programs) >= _MOST:
                self.programs.clear()
            self.programs[key] = found
        return found

    def first_time(self, arrays: Sequence[Any], static: dict[str, Any]) -> Any:
        """Evaluates a call whose operands are not arrays yet, or for which nothing is compiled."""
        for value in arrays:
            if isinstance(value, Tracer):
                raise leaked(value)
        watched = _trace(None)
        token = current_variable.set(bottom_trace())
        try:
            values = [as_array(x) for x in arrays]
            if _settings().looks_at_results:
                # As an equation it is looked at, and searched for where a NaN came from.
                return self.bound(self.traced([x.type for x in values], static), values)
            program = self.program(values, static)
            outs = run_program(program, values)
        finally:
            current_variable.reset(token)
        if type(watched) is WatchedTrace:
            watched.note(program, values, outs)
        return tuple(outs) if isinstance(outs, list) else outs


def compiled(function: Callable[..., Any]) -> Compiled:
    """Makes a function of arrays and static keywords run as one program when called eagerly."""
    return Compiled(function)
