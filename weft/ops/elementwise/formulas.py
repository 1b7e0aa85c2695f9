"""Formulas written with operators, for lowering rules that emit more than one operation.

A `Term` wraps a value of the module being emitted; arithmetic on terms and numbers emits
StableHLO. All terms of one formula have one shape and dtype, and numbers take it; comparisons give
booleans. `lower_formula` turns a formula into the lowering rule of an elementwise operation, which
computes in float32 where the operands are narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.ops.declare import emit_reduction
from weft.ops.elementwise.families import nary, repeat_scalars
from weft.runtime import stablehlo


class Term:
    """A value of a module being emitted, with operators."""

    __slots__ = ("dtype", "ir", "shape")

    def __init__(self, ir: Any, shape: tuple[int, ...], dtype: Any) -> None:
        self.ir = ir
        self.shape = shape
        self.dtype = dtype

    def new(self, ir: Any) -> Term:
        """A term of the same shape and dtype."""
        return Term(ir, self.shape, self.dtype)

    def full(self, value: float) -> Term:
        """The number, broadcast to the shape of the term."""
        return self.new(stablehlo.full(value, self.shape, self.dtype))

    def lift(self, value: Any) -> Any:
        """The MLIR value of a term or a number."""
        return value.ir if isinstance(value, Term) else self.full(value).ir

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number of the dtype."""
        return float(dtypes.finfo(self.dtype).eps)

    def __add__(self, other: Any) -> Term:
        return self.new(stablehlo.add(self.ir, self.lift(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Term:
        return self.new(stablehlo.subtract(self.ir, self.lift(other)))

    def __rsub__(self, other: Any) -> Term:
        return self.new(stablehlo.subtract(self.lift(other), self.ir))

    def __mul__(self, other: Any) -> Term:
        return self.new(stablehlo.multiply(self.ir, self.lift(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Term:
        return self.new(stablehlo.divide(self.ir, self.lift(other)))

    def __rtruediv__(self, other: Any) -> Term:
        return self.new(stablehlo.divide(self.lift(other), self.ir))

    def __neg__(self) -> Term:
        return self.new(stablehlo.negate(self.ir))

    def __abs__(self) -> Term:
        return self.new(stablehlo.abs_(self.ir))

    def compare(self, other: Any, direction: str) -> Term:
        """Compares elementwise; returns a boolean term."""
        found = stablehlo.compare(self.ir, self.lift(other), direction)
        return Term(found, self.shape, dtypes.bool_)

    def __lt__(self, other: Any) -> Term:
        return self.compare(other, "LT")

    def __le__(self, other: Any) -> Term:
        return self.compare(other, "LE")

    def __gt__(self, other: Any) -> Term:
        return self.compare(other, "GT")

    def __ge__(self, other: Any) -> Term:
        return self.compare(other, "GE")

    def equals(self, other: Any) -> Term:
        """Whether equal, as a boolean term."""
        return self.compare(other, "EQ")

    def is_nan(self) -> Term:
        """Whether NaN, as a boolean term."""
        return self.compare(self, "NE")

    def __and__(self, other: Term) -> Term:
        return self.new(stablehlo.and_(self.ir, other.ir))

    def __or__(self, other: Term) -> Term:
        return self.new(stablehlo.or_(self.ir, other.ir))

    def __invert__(self) -> Term:
        return self.new(stablehlo.not_(self.ir))

    def apply(self, emit: Callable[[Any], Any]) -> Term:
        """Applies a function that emits an elementwise operation."""
        return self.new(emit(self.ir))

    def exp(self) -> Term:
        """The exponential."""
        return self.apply(stablehlo.exponential)

    def log(self) -> Term:
        """The natural logarithm."""
        return self.apply(stablehlo.log)

    def sqrt(self) -> Term:
        """The square root."""
        return self.apply(stablehlo.sqrt)


def where(pred: Term, on_true: Any, on_false: Any) -> Term:
    """Selects elementwise; one of the two values may be a number."""
    like = on_true if isinstance(on_true, Term) else on_false
    return like.new(stablehlo.select(pred.ir, like.lift(on_true), like.lift(on_false)))


def log1p(x: Term) -> Term:
    """log(1 + x), accurate near 0.

    XLA's own operation is off by a hundred units in the last place of float64 around -0.4, where
    the sum is precise enough.
    """
    own = x.apply(stablehlo.log_plus_one)
    return where(x < -0.3, (x + 1.0).log(), own) if x.dtype == dtypes.float64 else own


def any_of(pred: Term) -> Any:
    """Whether a boolean term holds anywhere: a scalar value."""
    false = stablehlo.constant(False, (), np.bool_)
    return emit_reduction(pred.ir, false, range(len(pred.shape)), stablehlo.or_)


def repeat_while(
    active: Callable[..., Term],
    body: Callable[..., Sequence[Term]],
    *state: Term,
    limit: int,
    results: Sequence[int],
) -> list[Term]:
    """Applies `body(count, *state)` to each element while `active(*state)` holds for it.

    At most `limit` times; returns the terms of the state at the indices `results`. `count` is a
    term that counts from 1. A finished element keeps its results while others go on, so that it
    depends on no neighbour and gathers no further rounding.
    """
    like = state[0]

    def terms(values: Sequence[Any]) -> list[Term]:
        return [old.new(ir) for old, ir in zip(state, values[2:], strict=True)]

    def condition(values: Sequence[Any]) -> Any:
        more = stablehlo.compare(values[0], stablehlo.constant(limit, (), np.int32), "LE")
        return stablehlo.and_(more, any_of(like.new(values[1])))

    def step(values: Sequence[Any]) -> list[Any]:
        number = stablehlo.convert(values[0], like.dtype)
        count = like.new(stablehlo.broadcast_in_dim(number, like.shape, ()))
        following = stablehlo.add(values[0], stablehlo.constant(1, (), np.int32))
        now, goes_on = terms(values), like.new(values[1])
        new = list(body(count, *now))
        # A select for each result and one flag cost less than a select for all of the state,
        # which may run on where an element is done.
        for place in results:
            new[place] = where(goes_on, new[place], now[place])
        return [following, (goes_on & active(*new)).ir, *(term.ir for term in new)]

    first = stablehlo.constant(1, (), np.int32)
    start = [first, active(*state).ir, *(term.ir for term in state)]
    found = terms(stablehlo.while_(start, condition, step))
    return [found[place] for place in results]


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """c[0] + c[1] x + c[2] x^2 + …, by Horner's rule."""
    total = x.full(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def chebyshev(x: Term, coefficients: Sequence[float]) -> Term:
    """c[0] + c[1] T_1(x) + c[2] T_2(x) + … for |x| <= 1.

    Terms too small for the dtype are left out. The coefficients fall fast, so Horner's rule on
    powers of x is as precise as Clenshaw's recurrence (1955) with half of the operations.
    """
    kept = [c for c in coefficients if abs(c) > x.eps / 64]
    return polynomial(x, np.polynomial.chebyshev.cheb2poly(kept).tolist())


def lower_formula(formula: Callable[..., Term]) -> Callable[..., Any]:
    """The lowering rule of a formula of operands of one floating-point dtype."""

    def lower(context: Any, *values: Any) -> Any:
        out = context.out_types[0]
        wide = dtypes.float64 if out.dtype == dtypes.float64 else dtypes.float32
        shaped = repeat_scalars(context, values, out.shape)
        terms = [Term(stablehlo.convert(value, wide), out.shape, wide) for value in shaped]
        return stablehlo.convert(formula(*terms).ir, out.dtype)

    return lower


def kernel(name: str, formula: Callable[..., Term], *jvp: Any, **facts: Any) -> Any:
    """An elementwise primitive of real operands from a formula and a jvp rule per operand."""
    return nary(
        name,
        arity=len(jvp),
        accepts=dtypes.FLOATING,
        jvp=jvp,
        lower=lower_formula(formula),
        **facts,
    )
