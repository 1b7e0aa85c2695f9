"""Draws: functions of keys and arrays that run as one executable and trace as one equation.

A distribution is Python over primitives. Drawing a hundred arrays of parameters in one program
traces and lowers it once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft import dtypes
from weft.control_flow.jit_primitive import eager_program, jit_program
from weft.core.jaxpr import Jaxpr
from weft.kinds.array_function import ArrayFunction
from weft.kinds.compiled_functions import OneEquation
from weft.lowering.executables import Program
from weft.ops.structural.sharding_constraint import constrain

F = TypeVar("F", bound=Callable[..., Any])


def _compile_exactly(jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> Program:
    """Compiles a draw, with less optimization if it computes with integers alone.

    A key must give the same numbers eagerly and under `jit`: a fast compilation of floating-point
    arithmetic rounds twice where the other fuses multiply and add.
    """
    if any(dtypes.is_inexact(var.type.dtype) for eqn in jaxpr.eqns for var in eqn.outputs):
        return jit_program(jaxpr, name, (), values, name)
    return eager_program(jaxpr, name, values)


# Makes a function of checked arrays and static keywords one executable, or one equation.
one_equation = functools.partial(OneEquation, compile=_compile_exactly)


class Draw(ArrayFunction):
    """An array function with one result, which `out_sharding` places."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__(body, one_equation)

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        sharding = kwargs.get("out_sharding")
        if sharding is None:
            return super()._unknown_call(args, kwargs)
        # The constraint is an equation of the caller's program, which has the devices.
        out = self(*args, **{**kwargs, "out_sharding": None})
        return constrain(out, sharding, self.operation, "the result")


def draw_function(body: F) -> F:
    """Makes a public function that draws, from a body annotated with kinds."""
    return Draw(body)  # type: ignore[return-value]
