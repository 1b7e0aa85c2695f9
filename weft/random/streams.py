"""Streams: the bits of one key with their generator, and uniform numbers drawn from them.

Distributions use these in traced code, after arguments are checked. A number between 0 and 1 is
made by putting random bits into the mantissa of a number between 1 and 2 and subtracting 1, so all
its values are equally far apart and equally likely.

Draws: functions of keys and arrays that run as one executable and trace as one equation.

A distribution is Python over primitives. Drawing a hundred arrays of parameters in one program
traces and lowers it once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import dtypes
from weft.control_flow.jit_primitive import eager_program, jit_program
from weft.core.jaxpr import Jaxpr
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.kinds.array_function import ArrayFunction
from weft.kinds.compiled_functions import OneEquation
from weft.lowering.executables import Program
from weft.ops.elementwise.arithmetic import add, mul, sub
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.bits import bitwise_or, shift_right_logical
from weft.ops.elementwise.convert import bitcast_convert_type, convert_element_type
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.ops.structural.sharding_constraint import constrain
from weft.random.draw_arguments import check_sharding
from weft.random.generator import Generator
from weft.random.threefry import default_generator

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Stream:
    """The bits of one key, with their generator."""

    generator: Generator
    bits: Any

    def split(self, num: int = 2) -> list[Stream]:
        """Splits the stream into independent streams."""
        generator = self.generator
        return [Stream(generator, bits) for bits in rows(generator.split(self.bits, (num,)))]

    def random_bits(self, width: int, shape: Shape) -> Any:
        """Unsigned integers of 8, 16, 32 or 64 bits, each bit 0 or 1 with equal chance."""
        return self.generator.random_bits(self.bits, width, shape)

    def unit(self, shape: Shape, dtype: Any) -> Any:
        """Numbers of a floating-point dtype, uniform in [0, 1)."""
        info = dtypes.finfo(dtype)
        width, mantissa = int(info.bits), int(info.nmant)
        # A mantissa of 7 bits is filled from 8 random bits: half the work.
        drawn = 8 if mantissa < 8 else width
        unsigned = np.dtype(f"uint{width}")
        bits = self.random_bits(drawn, shape)
        if drawn != width:
            bits = convert_element_type(bits, unsigned)
        bits = shift_right_logical(bits, unsigned.type(drawn - mantissa))
        one = np.ones((), dtype).view(unsigned)[()]
        return sub(bitcast_convert_type(bitwise_or(bits, one), dtype), dtype.type(1))

    def uniform(self, shape: Shape, dtype: Any, low: Any, high: Any) -> Any:
        """Numbers uniform in [low, high); the bounds have the dtype, and the shape or no
        dimensions."""
        scaled = add(mul(self.unit(shape, dtype), sub(high, low)), low)
        # Rounding may lead below `low`.
        return maximum(low, scaled)


def stream_of(key: Any) -> Stream:
    """The stream of a checked key, typed or bits of the default generator."""
    dtype = type_of(key).dtype
    if isinstance(dtype, extended_dtypes.KeyDType):
        return Stream(dtype.implementation, extended_dtypes.key_bits(key))
    return Stream(default_generator(), key)


def rows(x: Any) -> list[Any]:
    """The slices of an array along its first dimension."""
    n, *shape = type_of(x).shape
    return [reshape(slice_in_dim(x, i, i + 1), shape) for i in range(n)]


def full_operand(x: Any, shape: Shape, dtype: Any) -> Any:
    """Converts a parameter to a dtype, and broadcasts it unless it has no dimensions."""
    of = type_of(x)
    if of.dtype != dtype or of.weak_type:
        x = convert_element_type(x, dtype)
    return broadcast_to(x, shape) if of.shape else x


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Broadcasts a value to a shape that it is known to fit."""
    lead = len(shape) - type_of(x).ndim
    return broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))


def broadcast_number(value: Any, shape: Shape, dtype: Any) -> Any:
    """Broadcasts a number to a shape by an equation: in a carry of a loop, a bare 64-bit number
    would take the default width."""
    return reshape(broadcast_in_dim(dtype.type(value), (1, *shape), ()), shape)


F = TypeVar("F", bound=Callable[..., Any])


def _compile_exactly(jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> Program:
    """Compiles a draw, with less optimization if it computes with integers alone.

    A key must give the same numbers eagerly and under `jit`: a fast compilation of floating-point
    arithmetic rounds twice where the other fuses multiply and add.
    """
    if is_exact(jaxpr):
        return eager_program(jaxpr, name, values)
    return jit_program(jaxpr, name, (), values, name)


def is_exact(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr computes with integers alone."""
    return not any(dtypes.is_inexact(var.type.dtype) for eqn in jaxpr.eqns for var in eqn.outputs)


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
        api_boundary(self.operation)(check_sharding)(sharding)
        # The constraint is an equation of the caller's program, which has the devices.
        out = self(*args, **{**kwargs, "out_sharding": None})
        return constrain(out, sharding, self.operation, "the result")


def draw_function(body: F) -> F:
    """Makes a public function that draws, from a body annotated with kinds."""
    return Draw(body)  # type: ignore[return-value]
