"""Evaluation: the trace at the bottom, which runs each primitive as a small compiled program.

A one-operation program is compiled once per primitive, operand types, devices and parameters. What
runs it afterwards is one dictionary look-up and one call of the runtime.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array, as_array
from weft.base import source as sources
from weft.core import rules
from weft.core.check import result_types
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.primitive import Primitive
from weft.core.trace import (
    Trace,
    Tracer,
    function_as_parameter,
    leaked,
    reset_current,
    set_bottom,
    set_current,
)
from weft.core.types import user_value
from weft.lowering.executables import LITTLE, Program, compile_program, explain_failure, run_program
from weft.lowering.numpy_evaluation import program_on_host
from weft.lowering.placement import operand_place, operand_shardings
from weft.lowering.result_layouts import operand_layouts

__all__ = ["EvalTrace", "one_operation", "set_look"]


# Evaluates where results may have to be looked at; the module that does so lies above this one.
_look: list[Callable[..., Any]] = []


def set_look(look: Callable[..., Any]) -> None:
    """Sets what evaluates applications while `debug_nans` or `debug_infs` is on somewhere."""
    _look[:] = [look]


class EvalTrace(Trace):
    """Evaluates primitives at once."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if config.looking:
            return _look[0](self, primitive, args, params)
        try:
            key = [x.signature for x in args]
            if params:
                key.append(tuple(params.items()))
            if config.effort_varies:
                key.append(config.settings().compile_effort)
            program = primitive.eager_cache[tuple(key)]
            operands = [x._buffer for x in args]
        except (AttributeError, KeyError, TypeError):
            program = None  # Errors of the slow path are not to be chained to this one.
        if program is None:
            return self.first_time(primitive, args, params)
        try:
            outs = program.execute(operands).consume_with_handlers(program.handlers)
        except Exception as error:
            explain_failure(args, error)
            raise
        if program.single:
            return Array(outs[0], program.out_type, program.out_signature)
        return program.wrap(outs)

    process_call = function_as_parameter

    def first_time(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluates an application that no cached program fits: makes it, or runs Python."""
        for value in args:
            if isinstance(value, Tracer):
                raise leaked(value)
        impl = rules.impl.get(primitive)
        if impl is not None:
            token = set_current(self)
            try:
                outs = impl(*args, **params)
                # What Python computed is taken as if the user had passed it: in the default width.
                if primitive.multiple_results:
                    return [as_array(user_value(out)) for out in outs]
                return as_array(user_value(outs))
            finally:
                reset_current(token)
        arrays = [as_array(x) for x in args]
        key: list[Any] = [x.signature for x in arrays]
        if params:
            key.append(tuple(params.items()))
        if config.effort_varies:
            key.append(config.settings().compile_effort)
        try:
            program = primitive.eager_cache.get(tuple(key))
        except TypeError:  # a parameter that cannot be hashed: compiled anew each time
            program = one_operation(primitive, arrays, params)
        else:
            if program is None:
                program = one_operation(primitive, arrays, params)
                primitive.eager_cache[tuple(key)] = program
        return run_program(program, arrays)


def one_operation(primitive: Primitive, arrays: Sequence[Array], params: dict[str, Any]) -> Program:
    """The compiled program of one application of a primitive."""
    types = tuple(array.type for array in arrays)
    out = result_types(primitive, types, params)
    outputs = [Var(t) for t in (out if primitive.multiple_results else [out])]
    inputs = [Var(t) for t in types]
    eqn = Equation(primitive, inputs, params, outputs, sources.current())
    jaxpr = Jaxpr(inputs, [eqn], outputs)
    place = operand_place(arrays, primitive.name, params)
    make = functools.partial(
        compile_program,
        jaxpr,
        primitive.name,
        place,
        fast_compile=sum(type.size for type in (*types, *jaxpr.out_types)) <= LITTLE,
        multiple_results=primitive.multiple_results,
        in_shardings=operand_shardings(arrays, place),
        in_layouts=operand_layouts(arrays),
    )
    return program_on_host(jaxpr, arrays, make, primitive.multiple_results) or make()


set_bottom(EvalTrace(None, "eval"))
