"""Evaluation: the trace at the bottom, which runs each primitive as a small executable.

An executable of one operation is compiled once per primitive, operand types, devices and
parameters. Later applications cost one dictionary look-up and one call of the runtime.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core import rules
from weft.core.array_value import array_values
from weft.core.check import result_types
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.primitive import Primitive
from weft.core.trace import (
    Trace,
    Tracer,
    current_variable,
    function_as_parameter,
    leaked,
    reset_current,
    set_bottom,
    set_current,
)
from weft.core.types import user_value
from weft.errors import trim
from weft.lowering.executables import (
    FAST_COMPILE_LIMIT,
    Program,
    compile_program,
    explain_failure,
    run_program,
)
from weft.lowering.numpy_evaluation import program_on_host
from weft.lowering.result_layouts import operand_formats
from weft.native.optional import calls
from weft.sharding.current import mesh_variable


class EvalTrace(Trace):
    """Evaluates primitives at once."""

    __slots__ = ()

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if config.looking:
            return self._look(primitive, args, params)
        try:
            key = [x.signature for x in args]  # As in operation_key, without its call.
            if config.settings_in_keys:
                key.append(config.settings().of_operations)
            if params:
                key.append(tuple(params.items()))
            run = primitive.eager_cache[tuple(key)]._run
            buffers = [x._buffer for x in args]
        except (AttributeError, KeyError, TypeError):
            run = None  # Errors of the slow path are not to be chained to this one.
        return self.first_time(primitive, args, params) if run is None else run(buffers, args)

    process_call = function_as_parameter

    def _look(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluates while some thread checks results; a derived class checks them."""
        return self.first_time(primitive, args, params)

    def first_time(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Evaluates an application without a cached executable: compiles one, or runs Python."""
        impl = rules.impl.get(primitive)
        if impl is not None:
            for value in args:
                if isinstance(value, Tracer):
                    raise leaked(value)
            token = set_current(self)
            try:
                outs = impl(*args, **params)
                # Results of Python get the default width, as values that a user passes do.
                if primitive.multiple_results:
                    return [_result(out) for out in outs]
                return _result(outs)
            finally:
                reset_current(token)
        return run_lowered(primitive, args, params)


def run_lowered(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluates an application by the executable that its lowering gives, not by Python. Raises
    LeakedTracerError for a tracer."""
    for value in args:
        if isinstance(value, Tracer):
            raise leaked(value)
    arrays = [as_array(x) for x in args]
    key = operation_key(arrays, params)
    if rules.impl.get(primitive) is not None:
        key = ("lowered", *key)  # `bind` is not to find it
    cache = primitive.executables(params)
    try:
        program = cache.get(key)
    except TypeError:  # a parameter that cannot be hashed: compiled each time
        program = one_operation(primitive, arrays, params)
    else:
        if program is None:
            program = one_operation(primitive, arrays, params)
            cache[key] = program
    return run_program(program, arrays)


def _result(value: Any) -> Any:
    """A result of Python as an array; tangents of integers stay NumPy arrays."""
    tangents = isinstance(value, np.ndarray) and value.dtype == dtypes.float0
    return value if tangents else as_array(user_value(value))


def operation_key(arrays: Sequence[Array], params: dict[str, Any]) -> tuple[Any, ...]:
    """The key in a primitive's `eager_cache`. The parameters come last, where `ParameterCache` of
    outside primitives looks for them."""
    key: list[Any] = [x.signature for x in arrays]
    if config.settings_in_keys:
        key.append(config.settings().of_operations)
    if params:
        key.append(tuple(params.items()))
    return tuple(key)


def one_operation(primitive: Primitive, arrays: Sequence[Array], params: dict[str, Any]) -> Program:
    """The executable of one application of a primitive.

    Args:
        arrays: The operands.
    """
    return operation_program(primitive, arrays, params, True)


def operation_program(
    primitive: Primitive, arrays: Sequence[Array], params: dict[str, Any], brief: bool
) -> Program:
    """The executable of one application of a primitive. A `brief` one of few elements is compiled
    fast; a loop may compute much from few."""
    types = tuple(array.type for array in arrays)
    out = result_types(primitive, types, params)
    inputs, outputs = (
        [Var(t) for t in side] for side in (types, out if primitive.multiple_results else [out])
    )
    eqn = Equation(primitive, inputs, params, outputs, sources.current())
    jaxpr = Jaxpr(inputs, [eqn], outputs)
    make = functools.partial(
        compile_program,
        jaxpr,
        primitive.name,
        fast_compile=brief
        and sum(type.size for type in (*types, *jaxpr.out_types)) <= FAST_COMPILE_LIMIT,
        multiple_results=primitive.multiple_results,
        **operand_formats(arrays, primitive.name, params),
    )
    return program_on_host(jaxpr, arrays, make, primitive.multiple_results) or make()


set_bottom(EvalTrace(None, "eval"))

if calls is not None:  # Tells the compiled code what it works on: it imports nothing.
    calls.use_arrays(Array, np.ndarray, explain_failure, trim)
    calls.use_context(current_variable, config.settings_variable, mesh_variable, vars(config))
    Primitive.bind = calls.compiled_bind(  # type: ignore[method-assign]
        Primitive, Primitive.bind, Program, array_values
    )
