"""Taylor arithmetic: a value is a polynomial in one variable, cut off at some order.

A `JetTracer` holds the value at zero and the coefficients of the powers, of which those known to be
zero are None. Basic functions have recurrences for the coefficients of their results
(`taylor_rules`), loops and branches carry coefficients along (`taylor_loops`). Any other operation
is derived from its jvp rule: where y(t) = f(x(t)), the derivative y'(t) is the jvp rule of f
applied to the polynomials x(t) and x'(t), which is Taylor arithmetic of one order less.

Griewank, Walther: Evaluating Derivatives (2008), chapter 13.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft import dtypes
from weft.base import source as sources
from weft.core import rules
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values, Zero
from weft.core.trace import (
    Trace,
    Tracer,
    check_alive,
    current_trace,
    function_as_parameter,
    running,
    using_trace,
)
from weft.core.types import type_of
from weft.interpreters.staging import rebuild
from weft.ops.elementwise.arithmetic import mul
from weft.ops.structural.tangents import zeros

# The coefficients of the powers from the first to the highest; None for zero.
Coefficients = Sequence[Any]

# Primitive -> rule(trace, primals, coefficients of each operand, params): the results and the
# coefficients of each; where a primitive has one result, that and its coefficients.
series_rules: dict[Primitive, Callable[..., Any]] = {}
# The rules of the other primitives of which a fact is true, by its name in `Facts`.
rules_by_fact: dict[str, Callable[..., Any]] = {}


class JetTracer(Tracer):
    """A value, known to the parent of the trace, and the coefficients of its polynomial.

    They are computed when they are first asked for: derivatives often need a value alone.

    Args:
        trace: The trace that made the value.
        primal: The value at 0.
        make: Computes the coefficients of the powers from the first on.
    """

    __slots__ = ("_make", "_terms", "primal")

    def __init__(self, trace: Trace, primal: Any, make: Callable[[], Coefficients]) -> None:
        self._trace = trace
        self.primal = primal
        self.type = type_of(primal)
        self.created = sources.current()
        self._make: Callable[[], Coefficients] | None = make
        self._terms: Coefficients = ()

    @property
    def terms(self) -> Coefficients:
        """The coefficients of the powers from the first on; None for zero."""
        if self._make is not None:
            make, self._make = self._make, None
            assert self._trace.parent is not None
            with using_trace(self._trace.parent):
                self._terms = make()
        return self._terms

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal

    def unknown(self) -> Tracer:
        return self.primal.unknown() if isinstance(self.primal, Tracer) else self


class JetTrace(Trace):
    """Applies primitives to polynomials of an order.

    Args:
        order: The highest power of the polynomials.
        parent: The trace that interprets operations on coefficients.
        function: The name of the function, for messages.
    """

    __slots__ = ("order",)

    parent: Trace

    def __init__(self, parent: Trace, order: int, function: str = "") -> None:
        super().__init__(parent, "jet", function)
        self.order = order

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if not any(type(x) is JetTracer and x._trace is self for x in args):
            return self.parent.process_primitive(primitive, args, params)
        primals = [self.primal(x) for x in args]
        rule = rule_of(primitive)
        with using_trace(self.parent):
            if rule is derive_series:
                return self.later(primitive, primals, args, params)
            outs, found = rule(self, primitive, primals, [self.terms(x) for x in args], params)
        if primitive.multiple_results:
            return [self.box(x, own) for x, own in zip(outs, found, strict=True)]
        return self.box(outs, found)

    process_call = function_as_parameter

    def later(
        self, primitive: Primitive, primals: Values, args: Sequence[Any], params: Params
    ) -> Any:
        """The results of a primitive with coefficients that are derived on demand."""
        found: list[list[Coefficients]] = []

        def coefficients(place: int) -> Coefficients:
            if not found:
                terms = [self.terms(x) for x in args]
                if all(term is None for own in terms for term in own):
                    return [None] * self.order
                found.append(derive_series(self, primitive, primals, terms, params))
            return found[0][place]

        rest = {key: value for key, value in params.items() if key != "function"}
        if "function" in params:
            out = primitive.call(params["function"], *primals, **rest)
        else:
            out = primitive.bind(*primals, **params)
        outs = list(out) if primitive.multiple_results else [out]
        boxed = [
            JetTracer(self, x, partial(coefficients, i))
            if type_of(x).dtype in dtypes.INEXACT
            else x
            for i, x in enumerate(outs)
        ]
        return boxed if primitive.multiple_results else boxed[0]

    def box(self, primal: Any, terms: Coefficients) -> Any:
        """A tracer, or the value itself where every coefficient is zero, as of an integer."""
        if type_of(primal).dtype not in dtypes.INEXACT or all(term is None for term in terms):
            return primal
        return JetTracer(self, primal, lambda: terms)

    def primal(self, value: Any) -> Any:
        """The value at zero."""
        if type(value) is JetTracer and value._trace is self:
            return value.primal
        check_alive(value)
        return value

    def terms(self, value: Any) -> Coefficients:
        """The coefficients of any value."""
        if type(value) is JetTracer and value._trace is self:
            return value.terms
        return [None] * self.order


def scale(number: float, x: Any) -> Any:
    """A coefficient times a number."""
    if x is None or number == 1:
        return x
    return mul(x, type_of(x).dtype.type(number))


def instantiate_zeros(terms: Coefficients, primal: Any) -> list[Any]:
    """The coefficients, with zeros for None."""
    of = type_of(primal).tangent()
    return [zeros(of) if term is None else term for term in terms]


def rule_of(primitive: Primitive) -> Callable[..., Any]:
    """The rule of a primitive: its own, or that of a fact, or one derived from its jvp rule."""
    if primitive in series_rules:
        return series_rules[primitive]
    facts = primitive.facts
    return next(
        (rule for fact, rule in rules_by_fact.items() if getattr(facts, fact)), derive_series
    )


def derive_series(
    trace: JetTrace,
    primitive: Primitive,
    primals: Values,
    terms: Sequence[Coefficients],
    params: Params,
) -> list[Coefficients]:
    """The coefficients of each result, from the jvp rule and polynomials of one order less."""
    n = trace.order
    inner = JetTrace(current_trace(), n - 1, primitive.name)
    values, tangents = [], []
    for primal, own in zip(primals, terms, strict=True):
        if all(term is None for term in own):
            values.append(primal)
            tangents.append(Zero(type_of(primal).tangent()))
            continue
        slope = [scale(k, term) for k, term in enumerate(own, 1)]
        first = instantiate_zeros(slope[:1], primal)[0]
        values.append(inner.box(primal, own[: n - 1]))
        tangents.append(inner.box(first, slope[1:]))
    with running(inner):
        _, found = rules.jvp[primitive](values, tangents, **params)
        outs = found if primitive.multiple_results else [found]
        slopes = [
            [None] * n
            if type(t) is Zero or type_of(t).dtype == dtypes.float0
            else [inner.primal(t), *inner.terms(t)]
            for t in outs
        ]
    return [[scale(1 / k, term) for k, term in enumerate(own, 1)] for own in slopes]


def jet_flat(
    function: Callable[..., Sequence[Any]],
    primals: Values,
    terms: Sequence[Coefficients],
    order: int,
    name: str = "",
) -> tuple[list[Any], list[Coefficients]]:
    """The results of a function of flat lists, and the coefficients of each."""
    trace = JetTrace(current_trace(), order, name)
    inputs = [trace.box(x, own) for x, own in zip(primals, terms, strict=True)]
    with running(trace):
        outs = function(*inputs)
        found = [trace.terms(x) for x in outs]
    return [trace.primal(x) for x in outs], found


def jet_program(
    jaxpr: Jaxpr, active: tuple[bool, ...], order: int, wanted: tuple[bool, ...] | None = None
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr of polynomials, and which results have coefficients; cached on the jaxpr. It takes
    the inputs, then all coefficients of each `active` one; it computes the results, then all
    coefficients of each one that has some or is `wanted`."""

    def make() -> tuple[Jaxpr, tuple[bool, ...]]:
        marks: tuple[bool, ...] = ()

        def function(*values: Any) -> list[Any]:
            nonlocal marks
            n = len(active)
            rest = iter(values[n:])
            terms = [[next(rest) if mark else None for _ in range(order)] for mark in active]
            run = lambda *xs: eval_jaxpr(jaxpr, (), *xs)  # noqa: E731
            outs, found = jet_flat(run, values[:n], terms, order, jaxpr.name)
            own = [any(term is not None for term in each) for each in found]
            asked = wanted or (False,) * len(outs)
            marks = tuple(a or b for a, b in zip(own, asked, strict=True))
            rows = zip(outs, found, marks, strict=True)
            return [
                *outs,
                *(t for x, each, mark in rows if mark for t in instantiate_zeros(each, x)),
            ]

        types = list(jaxpr.in_types)
        for type, mark in zip(jaxpr.in_types, active, strict=True):
            types += [type.tangent()] * (order if mark else 0)
        return rebuild(function, types, jaxpr.name, "jet"), marks

    return jaxpr.memoize(("jet", active, order, wanted), make)
