"""Cumulative sums, products, extrema and logarithms of sums along one axis.

All are scans by an associative combination. On the CPU each is one sequential loop, which measures
fastest there and compiles in a tenth of the time of a tree (a windowed reduction is quadratic), or
is written out where the axis is short; elsewhere it is the odd-even tree of Ladner and Fischer,
"Parallel prefix computation" (JACM 1980). Narrow floating-point numbers are accumulated in the next
wider dtype on the CPU, so a long sum keeps its digits.

Every derivative here is a first-order linear recurrence, T[i] = a[i] T[i-1] + b[i]: so is the
derivative of a recurrence, and its transpose is the recurrence in the other direction. One more
primitive, `linear_recurrence`, therefore closes all of them under differentiation, exactly and in
linear time, with elements that are zero and with ties.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import ShapeError
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import add, div, eq, exp, mul, sub
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.flops import of_each
from weft.ops.indexing.slicing import pad
from weft.ops.operand_errors import unfit
from weft.ops.reductions.reduce import check_dtype, larger, lowest, smaller
from weft.ops.structural.narrow import accumulator, in_wide
from weft.ops.structural.shape import broadcast_in_dim, canonical_axis, move_dim
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]

Elements = list[Any]
Rule = Callable[..., Any]


# ---- the scan, in StableHLO --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Scan:
    """An associative combination of rows of StableHLO values of any shape.

    lift: from the elements of the operands to the values combined; combine: of an earlier and a
    later one; emit: from a combination to the result. A sequential loop may carry less:
    `start(lifted)` of the first element, and `step(carry, lifted)` for each further one.
    """

    lift: Callable[[Elements, Any], Elements]
    combine: Callable[[Elements, Elements], Elements]
    emit: Callable[[Elements], Any]
    start: Callable[[Elements], Elements] | None = None
    step: Callable[[Elements, Elements], Elements] | None = None
    rounds: bool = True
    unrolled: int = 8  # on the CPU, axes up to this length are written out instead of looped over


WIDER = {
    dtypes.bfloat16: dtypes.float32,
    dtypes.float16: dtypes.float32,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}


def lower_scan(context: Any, operands: Elements, scan: Scan, axis: int, reverse: bool) -> Any:
    """The combinations of all elements up to each one along an axis, as one StableHLO value.

    A combination that rounds is computed in a wider dtype: on the CPU whenever there is one,
    elsewhere for 16-bit dtypes.
    """
    type = context.out_types[0]
    dtype = wide = type.dtype
    if 0 in type.shape:
        return stablehlo.full(0, type.shape, dtype)
    if scan.rounds and (context.platform == "cpu" or dtypes.itemsize_bits(dtype) <= 16):
        wide = WIDER.get(dtype, dtype)

    def lift(rows: Elements) -> Elements:
        return scan.lift([stablehlo.convert(x, wide) for x in rows], wide)

    def emit(combined: Elements) -> Any:
        return stablehlo.convert(scan.emit(combined), dtype)

    if context.platform == "cpu":
        start, step = scan.start or (lambda row: row), scan.step or scan.combine
        # Complex products lose digits where XLA fuses them: it contracts their parts.
        short = type.shape[axis] <= scan.unrolled and dtype not in dtypes.COMPLEX
        scan_rows = scan_unrolled if short else scan_by_loop
        return scan_rows(
            operands, lambda x: start(lift(x)), lambda x, y: step(x, lift(y)), emit, axis, reverse
        )
    if reverse:
        operands = [stablehlo.reverse(x, (axis,)) for x in operands]
    found = emit(scan_by_tree(lift(operands), scan.combine, axis))
    return stablehlo.reverse(found, (axis,)) if reverse else found


def scan_by_loop(
    operands: Elements,
    start: Callable[[Elements], Elements],
    step: Callable[[Elements, Elements], Elements],
    emit: Callable[[Elements], Any],
    axis: int,
    reverse: bool,
) -> Any:
    """Combines one row after the other; the results are written in place."""
    shape = list(operands[0].type.shape)
    length = shape[axis]
    size = [*shape[:axis], 1, *shape[axis + 1 :]]
    index = dtypes.int64 if length >= 2**31 else dtypes.int32
    zero, one, last, end = (stablehlo.constant(v, (), index) for v in (0, 1, length - 1, length))

    def place_of(i: Any) -> list[Any]:
        place = stablehlo.subtract(last, i) if reverse else i
        return [place if d == axis else zero for d in range(len(shape))]

    def row(place: list[Any]) -> Elements:
        return [stablehlo.dynamic_slice(x, place, size) for x in operands]

    def body(state: Elements) -> Elements:
        i, out, *kept = state
        place = place_of(i)
        kept = list(step(kept, row(place)))
        out = stablehlo.dynamic_update_slice(out, emit(kept), place)
        return [stablehlo.add(i, one), out, *kept]

    first = place_of(zero)
    kept = list(start(row(first)))
    element = emit(kept)
    empty = stablehlo.full(0, shape, stablehlo.dtype_of(element.type.element_type))
    out = stablehlo.dynamic_update_slice(empty, element, first)
    if length == 1:
        return out
    return stablehlo.while_(
        [one, out, *kept], lambda state: stablehlo.compare(state[0], end, "LT"), body
    )[1]


def scan_unrolled(
    operands: Elements,
    start: Callable[[Elements], Elements],
    step: Callable[[Elements, Elements], Elements],
    emit: Callable[[Elements], Any],
    axis: int,
    reverse: bool,
) -> Any:
    """Combines one row after the other without a loop, which XLA fuses with its surroundings."""
    shape = list(operands[0].type.shape)

    def row(i: int) -> Elements:
        low = [i if d == axis else 0 for d in range(len(shape))]
        high = [i + 1 if d == axis else n for d, n in enumerate(shape)]
        return [stablehlo.slice_(x, low, high) for x in operands]

    first, *others = reversed(range(shape[axis])) if reverse else range(shape[axis])
    kept = list(start(row(first)))
    found = [emit(kept)]
    for i in others:
        kept = list(step(kept, row(i)))
        found.append(emit(kept))
    return stablehlo.concatenate(found[::-1] if reverse else found, axis)


def scan_by_tree(
    elements: Elements, combine: Callable[[Elements, Elements], Elements], axis: int
) -> Elements:
    """Combines neighbours, scans the pairs, and fills in the elements between: linear work."""
    shape = elements[0].type.shape
    length = shape[axis]
    if length < 2:
        return elements

    def part(x: Any, start: int, limit: int, step: int) -> Any:
        starts, limits, steps = [0] * len(shape), list(x.type.shape), [1] * len(shape)
        starts[axis], limits[axis], steps[axis] = start, limit, step
        return stablehlo.slice_(x, starts, limits, steps)

    pairs = length // 2
    left = [part(x, 0, 2 * pairs, 2) for x in elements]
    right = [part(x, 1, 2 * pairs, 2) for x in elements]
    odd = scan_by_tree(combine(left, right), combine, axis)
    even = [part(x, 0, 1, 1) for x in elements]
    if length > 2:
        before = [part(x, 0, (length - 1) // 2, 1) for x in odd]
        rest = combine(before, [part(x, 2, length, 2) for x in elements])
        even = [stablehlo.concatenate(pair, axis) for pair in zip(even, rest, strict=True)]
    return [interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def interleave(even: Any, odd: Any, axis: int) -> Any:
    """Interleaves two arrays, as the elements at even and odd positions along an axis."""
    shape = list(odd.type.shape)
    pairs = shape[axis]
    wide = [*shape[: axis + 1], 1, *shape[axis + 1 :]]
    head = stablehlo.slice_(even, [0] * len(shape), shape)
    joined = stablehlo.concatenate(
        [stablehlo.reshape(head, wide), stablehlo.reshape(odd, wide)], axis + 1
    )
    whole = stablehlo.reshape(joined, [*shape[:axis], 2 * pairs, *shape[axis + 1 :]])
    if even.type.shape[axis] == pairs:
        return whole
    starts, limits = [0] * len(shape), list(even.type.shape)
    starts[axis] = pairs
    return stablehlo.concatenate([whole, stablehlo.slice_(even, starts, limits)], axis)


# ---- the linear recurrence ---------------------------------------------------------------------


def linear_recurrence(a: Any, b: Any, axis: int, reverse: bool = False) -> Any:
    """The solution of T[i] = a[i] T[i-1] + b[i] along an axis, with T[-1] = 0. `a` and `b` have one
    shape and dtype; with `reverse`, T[i] = a[i] T[i+1] + b[i]."""
    return linear_recurrence_p.bind(a, b, axis=axis, reverse=reverse)


def shift_elements(x: Any, axis: int, reverse: bool, first: Any = 0) -> Any:
    """The predecessor of each element in the order of the scan; `first` for the first one."""
    type = type_of(x)
    if not type.shape[axis]:
        return x
    config = [(0, 0, 0)] * type.ndim
    config[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return pad(x, type.dtype.type(first), config)


def linear_recurrence_type(a: ArrayType, b: ArrayType, *, axis: int, reverse: bool) -> ArrayType:
    canonical_axis(axis, a.ndim, "linear_recurrence")
    check_dtype("linear_recurrence", a, dtypes.NUMERIC)
    if a.shape != b.shape or a.dtype != b.dtype:
        takes, wanted = "two operands of one shape and dtype", "equal shapes and dtypes"
        raise unfit(ShapeError, "linear_recurrence", takes, (a, b), wanted)
    return result_type((a, b), b.shape, b.dtype, a.weak_type and b.weak_type)


def linear_recurrence_jvp(
    primals: Values, tangents: Values, *, axis: int, reverse: bool
) -> tuple[Any, Any]:
    a, b = primals
    out = linear_recurrence(a, b, axis, reverse)
    t_a, t = tangents
    if type(t_a) is not Zero:
        through_a = mul(t_a, shift_elements(out, axis, reverse))
        t = through_a if type(t) is Zero else add(t, through_a)
    if type(t) is Zero:
        return out, Zero(type_of(out).tangent())
    return out, linear_recurrence(a, t, axis, reverse)


def linear_recurrence_transpose(ct: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> list[Any]:
    assert type(b) is LinearOperand and type(a) is not LinearOperand
    return [None, linear_recurrence(shift_elements(a, axis, not reverse), ct, axis, not reverse)]


def linear_recurrence_vmap(
    axis_data: AxisData, args: Values, dims: Dims, *, axis: int, reverse: bool
) -> tuple[Any, int]:
    a, b = (move_dim(x, d, 0, axis_data.size) for x, d in zip(args, dims, strict=True))
    return linear_recurrence(a, b, axis + 1, reverse), 0


def recurrence_combine(left: Elements, right: Elements) -> Elements:
    (a, b), (c, d) = left, right
    return [stablehlo.multiply(a, c), stablehlo.add(stablehlo.multiply(c, b), d)]


RECURRENCE = Scan(
    lift=lambda rows, dtype: rows,
    combine=recurrence_combine,
    emit=lambda combined: combined[-1],
    start=lambda row: row[1:],
    step=lambda carry, row: [stablehlo.add(stablehlo.multiply(row[0], carry[0]), row[1])],
)


def linear_recurrence_lower(context: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    return lower_scan(context, [a, b], RECURRENCE, axis, reverse)


linear_recurrence_p = primitive(
    "linear_recurrence",
    type_rule=linear_recurrence_type,
    jvp=linear_recurrence_jvp,
    transpose=linear_recurrence_transpose,
    vmap=linear_recurrence_vmap,
    lower=linear_recurrence_lower,
    flops=of_each(1),
)


# ---- the family --------------------------------------------------------------------------------


def cumulative(
    name: str,
    *,
    accepts: frozenset[Any],
    scan: Scan,
    jvp: Rule,
    transpose: Rule | None = None,
    **facts: Any,
) -> Primitive:
    """A primitive that combines each element with all before it along `axis`. `jvp(t, out, x, axis,
    reverse)` gives the tangent."""
    made = Primitive(name)

    def type_rule(x: ArrayType, *, axis: int, reverse: bool) -> ArrayType:
        check_dtype(name, x, accepts)
        canonical_axis(axis, x.ndim, name)
        return result_type((x,), x.shape, x.dtype, x.weak_type)

    def cumulative_jvp(
        primals: Values, tangents: Values, *, axis: int, reverse: bool
    ) -> tuple[Any, Any]:
        of = type_of(primals[0])
        if type(tangents[0]) is Zero:
            out = made.bind(*primals, axis=axis, reverse=reverse)
            return out, Zero(type_of(out).tangent())
        # The recurrence multiplies as many factors as there are elements, unless it is the sum.
        dtype = of.dtype if transpose is not None else accumulator(of.dtype)
        x, t = (convert_element_type(v, dtype, of.weak_type) for v in (primals[0], tangents[0]))
        out = made.bind(x, axis=axis, reverse=reverse)
        pair = out, jvp(t, out, x, axis, reverse)
        out, t = (convert_element_type(v, of.dtype, of.weak_type) for v in pair)
        return out, t

    def vmap(
        axis_data: AxisData, args: Values, dims: Dims, *, axis: int, reverse: bool
    ) -> tuple[Any, int | None]:
        (dim,) = dims
        assert dim is not None
        return made.bind(args[0], axis=axis + (axis >= dim), reverse=reverse), dim

    def lower(context: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        return lower_scan(context, [x], scan, axis, reverse)

    return primitive(
        made,
        type_rule=type_rule,
        jvp=cumulative_jvp,
        transpose=transpose,
        vmap=vmap,
        lower=in_wide(lower),
        **facts,
    )


def bind_cumulative(made: Primitive, x: Any, axis: int, reverse: bool) -> Any:
    """Applies a cumulative primitive, with the axis counted from the front."""
    axis = canonical_axis(axis, type_of(x).ndim, made.name)
    return made.bind(x, axis=axis, reverse=bool(reverse))


# ---- sum and product ---------------------------------------------------------------------------


def cumsum(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The sums of the elements up to each one along an axis (with `reverse`: from each one on).

    Takes numbers. Raises AxisError and DTypeError.

    >>> import numpy as np
    >>> print(cumsum(np.array([1, 2, 3])))
    [1 3 6]
    """
    return bind_cumulative(cumsum_p, operand, axis, reverse)


def cumprod(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The products of the elements up to each one along an axis (`reverse`: from each one on).

    Takes numbers. Raises AxisError and DTypeError.

    >>> lax.cumprod(np.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return bind_cumulative(cumprod_p, operand, axis, reverse)


def of_values(combine: Callable[[Any, Any], Any], rounds: bool) -> Scan:
    """The scan of a binary operation, which rounds or returns one of its operands."""
    return Scan(
        lift=lambda rows, dtype: rows,
        combine=lambda left, right: [combine(left[0], right[0])],
        emit=lambda combined: combined[0],
        rounds=rounds,
    )


def cumsum_transpose(ct: Any, x: Any, *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum(ct, axis, not reverse)]


def cumprod_jvp(t: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
    return linear_recurrence(x, mul(t, shift_elements(out, axis, reverse, 1)), axis, reverse)


cumsum_p = cumulative(
    "cumsum",
    accepts=dtypes.NUMERIC,
    scan=of_values(stablehlo.add, rounds=True),
    jvp=lambda t, out, x, axis, reverse: cumsum(t, axis, reverse),
    transpose=cumsum_transpose,
    linear=True,
    flops=of_each(1),
)
cumprod_p = cumulative(
    "cumprod",
    accepts=dtypes.NUMERIC,
    scan=of_values(stablehlo.multiply, rounds=True),
    jvp=cumprod_jvp,
    flops=of_each(1),
)


# ---- extrema -----------------------------------------------------------------------------------


def cummax(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The maximum of the elements up to each one along an axis (`reverse`: from each one on).

    Takes numbers; NaN propagates. The derivative is shared equally among the elements that attain
    the maximum. Raises AxisError and DTypeError.

    >>> lax.cummax(np.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """
    return bind_cumulative(cummax_p, operand, axis, reverse)


def cummin(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The minimum of the elements up to each one along an axis (`reverse`: from each one on).

    Takes numbers; NaN propagates. The derivative is shared equally among the elements that attain
    the minimum. Raises AxisError and DTypeError.

    >>> lax.cummin(np.array([3, 1, 2]))
    Array([3, 1, 1], dtype=int32)
    """
    return bind_cumulative(cummin_p, operand, axis, reverse)


def cumulative_extremum_jvp(t: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
    # The number of elements that attain the extremum so far is a recurrence, and the tangent is
    # the mean of theirs: T[i] = T[i-1] kept[i] count[i-1] / count[i] + t[i] attains[i] / count[i].
    type = type_of(x)
    zero = zeros(type)
    one = broadcast_in_dim(type.dtype.type(1), type.shape, ())
    same = eq(shift_elements(out, axis, reverse), out)
    kept = select(same, one, zero)
    # An element that changes the extremum attains it, also where the compiler computes that element
    # again, with other digits.
    attains = select(same, select(eq(x, out), one, zero), one)
    count = linear_recurrence(kept, attains, axis, reverse)
    share = div(mul(kept, shift_elements(count, axis, reverse)), count)
    return linear_recurrence(share, mul(t, div(attains, count)), axis, reverse)


cummax_p = cumulative(
    "cummax",
    accepts=dtypes.NUMERIC,
    scan=of_values(larger, rounds=False),
    jvp=cumulative_extremum_jvp,
    flops=of_each(1),
)
cummin_p = cumulative(
    "cummin",
    accepts=dtypes.NUMERIC,
    scan=of_values(smaller, rounds=False),
    jvp=cumulative_extremum_jvp,
    flops=of_each(1),
)


# ---- logarithm of the sum of exponentials ------------------------------------------------------


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """The logarithms of the sums of exponentials up to each element along an axis.

    Takes floating-point numbers; large ones do not overflow. Raises AxisError and DTypeError.

    reverse: whether the sums run from the end of the axis to its beginning.

    >>> lax.cumlogsumexp(np.array([0.0, 0.0, 0.0]))
    Array([0.       , 0.6931472, 1.0986123], dtype=float32)
    """
    return bind_cumulative(cumlogsumexp_p, operand, axis, reverse)


def scaled_sum(left: Elements, right: Elements) -> Elements:
    """Adds two sums of exponentials, each as (largest exponent, sum over its exponential)."""
    (m, s), (n, t) = left, right
    top = stablehlo.maximum(m, n)
    return [top, stablehlo.add(rescale_total(s, m, top), rescale_total(t, n, top))]


def rescale_total(total: Any, old: Any, new: Any) -> Any:
    # Equal infinities have no difference, and need no rescaling.
    zero = stablehlo.full(0, old.type.shape, stablehlo.dtype_of(old.type.element_type))
    apart = stablehlo.select(stablehlo.compare(old, new, "EQ"), zero, stablehlo.subtract(old, new))
    return stablehlo.multiply(total, stablehlo.exponential(apart))


def one_exponential(rows: Elements, dtype: Any) -> Elements:
    (x,) = rows
    return [x, stablehlo.full(1, x.type.shape, dtype)]


LOGSUMEXP = Scan(
    lift=one_exponential,
    combine=scaled_sum,
    emit=lambda combined: stablehlo.add(combined[0], stablehlo.log(combined[1])),
    unrolled=3,  # XLA repeats the exponentials for every element of the result
)


def cumlogsumexp_jvp(t: Any, out: Any, x: Any, axis: int, reverse: bool) -> Any:
    before = shift_elements(out, axis, reverse, lowest(type_of(x).dtype))
    return linear_recurrence(fraction(before, out), mul(t, fraction(x, out)), axis, reverse)


def fraction(part: Any, whole: Any) -> Any:
    """exp(part - whole); 1 where both are minus infinity."""
    type = type_of(whole)
    nothing = eq(whole, lowest(type.dtype))
    return exp(select(nothing, zeros(type), sub(part, select(nothing, zeros(type), whole))))


cumlogsumexp_p = cumulative(
    "cumlogsumexp",
    accepts=dtypes.FLOATING,
    scan=LOGSUMEXP,
    jvp=cumlogsumexp_jvp,
    flops=of_each(0, 2),
)
