"""Evaluation: the trace at the bottom, which runs each primitive as a small compiled program.

A one-operation program is compiled once per primitive, operand types, devices and parameters. What
runs it afterwards is one dictionary look-up and one call of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft import source as sources
from weft.array import Array, as_array, deleted
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
from weft.core.types import ArrayType, user_value
from weft.errors import DeletedArrayError, Fix, WeftValueError
from weft.ops.extended import physical_type
from weft.runtime import buffers, client, compile
from weft.transforms.lower import lower_to_module

__all__ = ["EvalTrace", "compile_program", "operand_device", "run_program", "set_look"]


# Operands and results of a one-operation program with so many elements or fewer are "small".
_SMALL = 1 << 15


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
        try:
            program = primitive.eager_cache.get(tuple(key))
        except TypeError:  # a parameter that cannot be hashed: compiled anew each time
            program = one_operation(primitive, arrays, params)
        else:
            if program is None:
                program = one_operation(primitive, arrays, params)
                primitive.eager_cache[tuple(key)] = program
        return run_program(program, arrays)


class Program:
    """A compiled program, ready to run: what the fast paths read in one place."""

    __slots__ = (
        "device",
        "executable",
        "execute",
        "handlers",
        "multiple_results",
        "out_signature",
        "out_signatures",
        "out_type",
        "out_types",
        "single",
    )

    def __init__(
        self, executable: Any, out_types: Sequence[ArrayType], device: Any, multiple_results: bool
    ) -> None:
        self.executable = executable
        self.execute = executable.execute
        self.handlers = executable.handlers
        self.out_types = list(out_types)
        # Results stay uncommitted unless an operand was put on its device on purpose.
        self.out_signatures = [t if device is None else (t, device) for t in out_types]
        self.single = not multiple_results
        self.multiple_results = multiple_results
        self.out_type = self.out_types[0] if self.single else None
        self.out_signature = self.out_signatures[0] if self.single else None
        self.device = device

    def wrap(self, outs: Sequence[Any]) -> list[Array]:
        """The results as arrays."""
        return [
            Array(buffer, type, signature)
            for buffer, type, signature in zip(
                outs, self.out_types, self.out_signatures, strict=True
            )
        ]


def explain_failure(args: Sequence[Any], error: Exception | None = None) -> None:
    """Raises the error that fits, if an operand has been deleted.

    An error that is not the runtime's own was raised by a callback, and says itself what happened:
    an operand that is gone was donated to that call.
    """
    if error is not None:
        if not isinstance(error, (DeletedArrayError, client.backend().runtime_fault)):
            return
    for value in args:
        if type(value) is Array and value.is_deleted():
            raise deleted(value) from None


def run_program(program: Program, arrays: Sequence[Array]) -> Any:
    """Runs a compiled program on arrays."""
    try:
        outs = program.execute([x._buffer for x in arrays]).consume_with_handlers(program.handlers)
    except Exception as error:
        explain_failure(arrays, error)
        raise
    found = program.wrap(outs)
    return found[0] if program.single else found


def operand_device(arrays: Sequence[Any], operation: str) -> Any:
    """The device that the operands were put on on purpose, or None.

    Raises WeftValueError where they name several.
    """
    device = None
    for array in arrays:
        if type(array) is Array and array.signature is not array.type:
            other = array.signature[1]
            if device is not None and other != device:
                raise WeftValueError(
                    f"{operation} got arrays that were put on different devices",
                    operation=operation,
                    got=f"{device} and {other}",
                    wanted="arrays on one device",
                    fix=Fix(
                        "device_put",
                        "move one of them: weft.device_put(x, device)",
                        {"device": device},
                    ),
                )
            device = other
    return device


def compile_program(
    jaxpr: Jaxpr,
    name: str,
    device: Any,
    *,
    donated: Sequence[bool] | None = None,
    fast_compile: bool = False,
    multiple_results: bool = True,
    compiler_options: Any = None,
) -> Program:
    """Lowers and compiles a program for a device (None: the default one)."""
    backend = client.backend()
    lowered = lower_to_module(jaxpr, name, backend.platform, donated)
    target = device if device is not None else client.backend().default_device
    options = compile.CompileOptions(
        fast_compile=fast_compile,
        compiler_options=compiler_options or (),
        host_callbacks=tuple(lowered.callbacks),
    )
    out_types = [physical_type(type) for type in jaxpr.out_types]
    executable = backend.compile(lowered.module.ir, options, out_types, [target])
    program = Program(executable, jaxpr.out_types, device, multiple_results)
    if lowered.callbacks:
        program.execute = waiting(executable)
    if target is not backend.default_device:
        in_types = [physical_type(type) for type in jaxpr.in_types]
        program.execute = moving(program.execute, in_types, device)
    return program


class Finished:
    """The results of a program that has ended, in the form of one that has started."""

    __slots__ = ("results",)

    def __init__(self, results: list[Any]) -> None:
        self.results = results

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Any]:
        """The buffers."""
        return self.results


def waiting(executable: Any) -> Callable[[Sequence[Any]], Finished]:
    """What runs a program with callbacks: it comes back when everything has happened.

    So effects of one call come before those of the next, and exceptions reach the caller.
    """

    def run(operands: Sequence[Any]) -> Finished:
        return Finished(executable.run_to_end(operands))

    return run


def moving(execute: Any, in_types: Sequence[ArrayType], device: Any) -> Any:
    """What runs a program on a device that is not the default one: operands that were not put
    anywhere on purpose, which lie on the default device, are copied there first."""

    def run(operands: Sequence[Any]) -> Any:
        return execute(
            [
                x if buffers.device_of(x) == device else buffers.copy_to_device(x, type, device)
                for x, type in zip(operands, in_types, strict=True)
            ]
        )

    return run


def one_operation(primitive: Primitive, arrays: Sequence[Array], params: dict[str, Any]) -> Program:
    """The compiled program of one application of a primitive."""
    types = tuple(array.type for array in arrays)
    out = result_types(primitive, types, params)
    outputs = [Var(t) for t in (out if primitive.multiple_results else [out])]
    inputs = [Var(t) for t in types]
    eqn = Equation(primitive, inputs, params, outputs, sources.current())
    jaxpr = Jaxpr(inputs, [eqn], outputs)
    return compile_program(
        jaxpr,
        primitive.name,
        operand_device(arrays, primitive.name),
        # Where there is little to compute, compiling is what costs; elsewhere speed is worth it.
        fast_compile=sum(type.size for type in (*types, *jaxpr.out_types)) <= _SMALL,
        multiple_results=primitive.multiple_results,
    )


set_bottom(EvalTrace(None, "eval"))
