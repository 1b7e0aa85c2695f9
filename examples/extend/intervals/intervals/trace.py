"""The trace that carries a lower and an upper bound along with every value, and its rules' table.

A rule gets the operands of one application, those that are uncertain as `Interval`s, and binds
operations of its own, which the trace below interprets: so bounds can be compiled, mapped and
differentiated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import weft
import weft.numpy as jnp
from weft import tree
from weft.errors import Fix, WeftError, WeftValueError, api_boundary
from weft.extend.core import (
    Jaxpr,
    Primitive,
    Trace,
    Tracer,
    current_trace,
    eval_jaxpr,
    type_of,
    using_trace,
)

__all__ = ["Interval", "NoIntervalRuleError", "enclose", "register_interval", "run"]

rules: dict[Primitive, Callable[..., Any]] = {}


class NoIntervalRuleError(WeftError, NotImplementedError):
    """An operation has no bounds: names it, the user's line and the call that registers a rule."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """The values from `lower` to `upper`, element by element: two arrays of one shape and dtype."""

    lower: Any
    upper: Any

    @property
    def midpoint(self) -> Any:
        """The mean of the bounds."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def width(self) -> Any:
        """How far the bounds lie apart."""
        return self.upper - self.lower

    def contains(self, x: Any) -> Any:
        """Which elements of an array lie between the bounds."""
        return (self.lower <= x) & (x <= self.upper)

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lower[index], self.upper[index])


weft.tree_util.register_dataclass(Interval, data_fields=["lower", "upper"], meta_fields=[])


class IntervalTracer(Tracer):
    """A value of which the bounds are known; `interval` has them, values of the trace below."""

    __slots__ = ("interval",)

    def __init__(self, trace: IntervalTrace, interval: Interval) -> None:
        super().__init__(trace, type_of(interval.lower).strong())
        self.interval = interval


class IntervalTrace(Trace):
    """Applies the rules; what no uncertain operand takes part in goes to the trace below."""

    __slots__ = ()

    parent: Trace

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        operands = [self.unbox(x) for x in args]
        if not any(isinstance(x, Interval) for x in operands):
            return self.parent.process_primitive(primitive, args, params)
        if callable(params.get("function")):
            # An operation on a Python function, which a trace inside of this one has passed on.
            rest = {name: value for name, value in params.items() if name != "function"}
            return self.process_call(primitive, params["function"], args, rest)
        rule = rules.get(primitive)
        if rule is None:
            raise missing(primitive, operands)
        with using_trace(self.parent):
            out = rule(*operands, **params)
        return [self.box(x) for x in out] if primitive.multiple_results else self.box(out)

    def box(self, value: Any) -> Any:
        """A tracer for an interval; a certain value is its own."""
        return IntervalTracer(self, value) if isinstance(value, Interval) else value

    def unbox(self, value: Any) -> Any:
        """The interval of a tracer of this trace, or the value."""
        if type(value) is IntervalTracer and value._trace is self:
            return value.interval
        return value


def run(program: Callable[..., Any] | Jaxpr, values: Sequence[Any], name: str = "") -> list[Any]:
    """The results of a program, or of a function of flat lists, for intervals and certain values:
    intervals, and arrays where nothing uncertain takes part."""
    trace = IntervalTrace(current_trace(), "enclose", name)
    inputs = [trace.box(x) for x in values]
    try:
        with using_trace(trace):
            if isinstance(program, Jaxpr):
                outs = eval_jaxpr(program, (), *inputs)
            else:
                outs = program(*inputs)
        return [trace.unbox(out) for out in outs]
    finally:
        trace.finish()


def enclose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Bounds of a function's results over boxes: a function that takes `Interval`s in place of
    arrays anywhere in its arguments, and returns an `Interval` in place of every array.

    For all inputs in the given intervals the exact (real) result lies in the returned ones: every
    bound is rounded outward. The numbers that are written in `function` count as they are rounded
    to its dtype. Where an operation is not defined everywhere (`log`, `sqrt`, division by an
    interval around zero) the bounds hold where it is defined, and may be infinite.

    Raises NoIntervalRuleError for operations without a rule.

    >>> found = enclose(lambda x: jnp.sin(x) + 1)(Interval(jnp.float32(1), jnp.float32(3)))
    >>> round(float(found.lower), 5), round(float(found.upper), 5)
    (1.14112, 2.0)
    """

    @api_boundary
    def enclosed(*args: Any) -> Any:
        leaves, structure = tree.flatten(args, is_leaf=lambda x: isinstance(x, Interval))
        leaves = [checked(x) if isinstance(x, Interval) else x for x in leaves]
        results: list[Any] = []

        def flat(*values: Any) -> Sequence[Any]:
            outs, out = tree.flatten(function(*tree.unflatten(structure, values)))
            results.append(out)
            return outs

        outs = run(flat, leaves, getattr(function, "__name__", "function"))
        return tree.unflatten(results[-1], [as_interval(x) for x in outs])

    return enclosed


def checked(interval: Interval) -> Interval:
    """The interval with arrays for bounds. Raises WeftValueError where shape or dtype differ."""
    lower, upper = jnp.asarray(interval.lower), jnp.asarray(interval.upper)
    if (lower.shape, lower.dtype) != (upper.shape, upper.dtype):
        raise WeftValueError(
            "the bounds of an interval differ in shape or dtype",
            operation="enclose",
            got=f"{lower.type} and {upper.type}",
            wanted="bounds of one shape and dtype",
        )
    return Interval(lower.astype(lower.dtype), upper.astype(lower.dtype))


def as_interval(value: Any) -> Interval:
    """An interval, of no width for a certain value."""
    if isinstance(value, Interval):
        return value
    value = jnp.asarray(value)
    value = value.astype(value.dtype)
    return Interval(value, value)


def register_interval(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a primitive its bounds: `rule(*operands, **params)`, where the operands are `Interval`s
    and arrays, and at least one is an interval. It returns the result, or the list of them, each an
    `Interval` or an array. Raises WeftValueError where the primitive has a rule already."""
    if primitive in rules:
        raise WeftValueError(f"the primitive {primitive.name!r} has an interval rule already")
    rules[primitive] = rule
    return rule


def missing(primitive: Primitive, operands: Sequence[Any]) -> NoIntervalRuleError:
    """The error for a primitive without a rule."""
    types = [type_of(x.lower) if isinstance(x, Interval) else type_of(x) for x in operands]
    return NoIntervalRuleError(
        f"the primitive {primitive.name!r} has no interval rule",
        operation=primitive.name,
        got=", ".join(map(str, types)),
        wanted="an operation whose bounds are known",
        fix=Fix(
            "register_rule",
            f"register one: intervals.register_interval({primitive.name}_p, rule)",
            {"primitive": primitive.name},
        ),
    )
