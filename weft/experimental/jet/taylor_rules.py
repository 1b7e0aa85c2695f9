"""Recurrences for the coefficients of basic functions of polynomials.

With x(t) and y(t) for the operand and the result, each follows from a differential equation that
the function solves: y = exp(x) from y' = y x', y = log(x) from x y' = x', and so on; the k-th
coefficient of both sides gives the k-th of y from those before. Griewank, Walther: Evaluating
Derivatives (2008), table 13.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values, Zero
from weft.core.types import type_of
from weft.experimental.jet.taylor_trace import (
    Coefficients,
    JetTrace,
    rules_by_fact,
    scale,
    series_rules,
)
from weft.ops.elementwise.arithmetic import (
    add,
    cos,
    cos_p,
    div,
    div_p,
    exp_p,
    log_p,
    mul,
    neg,
    sin,
    sin_p,
    sqrt_p,
    square_p,
    sub,
)
from weft.ops.elementwise.elementary import cosh, cosh_p, exp2_p, expm1_p, log1p_p, sinh, sinh_p
from weft.ops.elementwise.powers import integer_pow_p

# The sum of what is not zero; None is zero.
Sum = Any


def plus(x: Sum, y: Sum) -> Sum:
    """The sum of two coefficients."""
    if x is None or y is None:
        return y if x is None else x
    return add(x, y)


def minus(x: Sum, y: Sum) -> Sum:
    """The difference of two coefficients."""
    if y is None:
        return x
    return neg(y) if x is None else sub(x, y)


def convolve(times: Callable[[Any, Any], Any], xs: Coefficients, ys: Coefficients, k: int) -> Sum:
    """The k-th coefficient of a product, of coefficients from the zeroth on."""
    total = None
    for i in range(k + 1):
        if xs[i] is not None and ys[k - i] is not None:
            total = plus(total, times(xs[i], ys[k - i]))
    return total


def times_slope(xs: Coefficients, ys: Coefficients, k: int) -> Sum:
    """The k-th coefficient of the integral of y x', from those of y before the k-th."""
    total = None
    for i in range(1, k + 1):
        if xs[i] is not None and ys[k - i] is not None:
            total = plus(total, scale(i / k, mul(xs[i], ys[k - i])))
    return total


def linear(
    trace: JetTrace,
    primitive: Primitive,
    primals: Values,
    terms: Sequence[Coefficients],
    params: Params,
) -> Any:
    jvp = rules.jvp[primitive]
    found: list[Any] = []
    outs = None
    for k in range(trace.order):
        column = [own[k] for own in terms]
        if all(term is None for term in column):
            found.append(None)
            continue
        pairs = zip(primals, column, strict=True)
        tangents = [Zero(type_of(x).tangent()) if t is None else t for x, t in pairs]
        outs, out = jvp(primals, tangents, **params)
        if primitive.multiple_results:
            found.append([None if type(t) is Zero else t for t in out])
        else:
            found.append(None if type(out) is Zero else out)
    if outs is None:
        outs = primitive.bind(*primals, **params)
    if not primitive.multiple_results:
        return outs, found
    return outs, [[None if own is None else own[i] for own in found] for i in range(len(outs))]


def bilinear(
    trace: JetTrace,
    primitive: Primitive,
    primals: Values,
    terms: Sequence[Coefficients],
    params: Params,
) -> Any:
    times = partial(primitive.bind, **params)
    xs, ys = ([x, *own] for x, own in zip(primals, terms, strict=True))
    found = [convolve(times, xs, ys, k) for k in range(trace.order + 1)]
    return found[0], found[1:]


def of_one(
    series: Callable[[Any, list[Any]], list[Any]],
) -> Callable[..., tuple[Any, Coefficients]]:
    """The rule of a function of one operand: `series(y, xs)` returns the coefficients of the result
    from the first on, given its value and all coefficients of the operand."""

    def rule(
        trace: JetTrace,
        primitive: Primitive,
        primals: Values,
        terms: Sequence[Coefficients],
        params: Params,
    ) -> tuple[Any, Coefficients]:
        y = primitive.bind(*primals, **params)
        return y, series(y, [primals[0], *terms[0]])

    return rule


def exponential(start: Callable[[Any], Any], base: float = 1.0) -> Callable[..., list[Any]]:
    """The series of a function with y' = log(base) (y + c) x', where `start` returns y + c."""

    def series(y: Any, xs: list[Any]) -> list[Any]:
        ys: list[Any] = [start(y)]
        slopes = [xs[0], *(scale(base, x) for x in xs[1:])]
        for k in range(1, len(xs)):
            ys.append(times_slope(slopes, ys, k))
        return ys[1:]

    return series


def logarithm(shift: float) -> Callable[..., list[Any]]:
    """The series of log(x + shift)."""

    def series(y: Any, xs: list[Any]) -> list[Any]:
        of = add(xs[0], type_of(xs[0]).dtype.type(shift)) if shift else xs[0]
        ys: list[Any] = [None]
        for k in range(1, len(xs)):
            total = xs[k]
            for i in range(1, k):
                if ys[i] is not None and xs[k - i] is not None:
                    total = minus(total, scale(i / k, mul(ys[i], xs[k - i])))
            ys.append(None if total is None else div(total, of))
        return ys[1:]

    return series


def root_series(y: Any, xs: list[Any]) -> list[Any]:
    """The series of the square root, from y y = x."""
    ys: list[Any] = [y]
    for k in range(1, len(xs)):
        total = xs[k]
        for i in range(1, k):
            if ys[i] is not None and ys[k - i] is not None:
                total = minus(total, mul(ys[i], ys[k - i]))
        ys.append(None if total is None else div(total, scale(2, y)))
    return ys[1:]


def circular(
    place: int, both: tuple[Callable[[Any], Any], Callable[[Any], Any]], sign: int
) -> Callable[..., list[Any]]:
    """The series of sine or cosine (by place; hyperbolic with sign 1), from those of both."""

    def series(y: Any, xs: list[Any]) -> list[Any]:
        found: list[list[Any]] = [[both[0](xs[0])], [both[1](xs[0])]]
        for k in range(1, len(xs)):
            sine, cosine = times_slope(xs, found[1], k), times_slope(xs, found[0], k)
            found[0].append(sine)
            found[1].append(cosine if sign > 0 or cosine is None else neg(cosine))
        return found[place][1:]

    return series


def quotient(
    trace: JetTrace,
    primitive: Primitive,
    primals: Values,
    terms: Sequence[Coefficients],
    params: Params,
) -> Any:
    over, by = ([x, *own] for x, own in zip(primals, terms, strict=True))
    ys: list[Any] = [div(*primals)]
    for k in range(1, trace.order + 1):
        total = over[k]
        for i in range(1, k + 1):
            if by[i] is not None and ys[k - i] is not None:
                total = minus(total, mul(by[i], ys[k - i]))
        ys.append(None if total is None else div(total, by[0]))
    return ys[0], ys[1:]


def product(xs: Coefficients, ys: Coefficients) -> list[Any]:
    """The product of two polynomials, cut off."""
    return [convolve(mul, xs, ys, k) for k in range(len(xs))]


def whole_power(
    trace: JetTrace,
    primitive: Primitive,
    primals: Values,
    terms: Sequence[Coefficients],
    params: Params,
) -> Any:
    """An integer power, by products: the recurrence of powers divides by a value that may be 0."""
    power = int(next(iter(params.values())))
    square, count = [primals[0], *terms[0]], abs(power)
    total: list[Any] | None = None
    while count:
        if count % 2:
            total = square if total is None else product(total, square)
        count //= 2
        square = product(square, square) if count else square
    y = primitive.bind(*primals, **params)
    if total is None:
        return y, [None] * trace.order
    if power > 0:
        return y, total[1:]
    one = type_of(y).dtype.type(1)
    return y, quotient(trace, div_p, [one, total[0]], [[None] * trace.order, total[1:]], {})[1]


rules_by_fact.update({"linear": linear, "bilinear": bilinear})
series_rules.update(
    {
        cos_p: of_one(circular(1, (sin, cos), -1)),
        cosh_p: of_one(circular(1, (sinh, cosh), 1)),
        div_p: quotient,
        exp2_p: of_one(exponential(lambda y: y, 0.6931471805599453)),
        exp_p: of_one(exponential(lambda y: y)),
        expm1_p: of_one(exponential(lambda y: add(y, type_of(y).dtype.type(1)))),
        integer_pow_p: whole_power,
        log1p_p: of_one(logarithm(1.0)),
        log_p: of_one(logarithm(0.0)),
        sin_p: of_one(circular(0, (sin, cos), -1)),
        sinh_p: of_one(circular(0, (sinh, cosh), 1)),
        sqrt_p: of_one(root_series),
        square_p: of_one(lambda y, xs: product(xs, xs)[1:]),
    }
)
