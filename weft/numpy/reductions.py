"""Reductions over axes: sum, prod, mean, variance, extrema, any and all.

A sum of narrow floats (float16, bfloat16) is accumulated in float32 and rounded once. Integers
narrower than the default width, and booleans, are summed in the default width, as in NumPy. Means
and variances of integers are floats. Variance is computed in two passes, about the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod as product
from typing import Any

from weft import dtypes
from weft.argument_errors import not_taken, refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.numpy.arguments import (
    axes_of,
    broadcasted,
    check_flag,
    check_number,
    convert,
    expanded,
    inexact,
    operand,
    refuse_out,
)
from weft.numpy.axis_names import has_names, split_axes
from weft.numpy.compiled_functions import CompiledFunction, compiled, is_eager
from weft.numpy.elementwise import maximum, minimum
from weft.numpy.promotion import number_for
from weft.numpy.repeated import repeated
from weft.ops.collectives.all_reduce import pmax, pmean, pmin, psum
from weft.ops.elementwise.arithmetic import add, div, le, mul, ne, sqrt, square, sub
from weft.ops.elementwise.complex import conj, imag, real
from weft.ops.elementwise.selection import select
from weft.ops.reductions.reduce import (
    highest,
    lowest,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
)
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import reduce_sum, reshape
from weft.typing import ArrayLike

__all__ = [
    "all", "amax", "amin", "any", "count_nonzero", "max", "mean", "min", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip

# The dtypes whose sums need no conversion before or after, whatever the settings.
_DIRECT = frozenset({dtypes.float32, dtypes.float64, *dtypes.COMPLEX, dtypes.int64, dtypes.uint64})


def squared_size(x: Any) -> Any:
    """The squared absolute values."""
    if type_of(x).dtype in dtypes.COMPLEX:
        return add(square(real(x)), square(imag(x)))
    return square(x)


def kept(x: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """The result of a reduction, with the reduced axes as dimensions of length 1 if asked for."""
    if not keepdims:
        return x
    return reshape(x, tuple(1 if d in axes else n for d, n in enumerate(shape)))


def boolean(x: Any) -> Any:
    """Whether the elements differ from zero."""
    aval = type_of(x)
    return x if aval.dtype == dtypes.bool_ else ne(x, aval.dtype.type(0))


def summed_dtype(dtype: Any, promote_integers: bool = True) -> Any:
    """The dtype of a sum or product of elements: integers widen to the default width."""
    if dtype == dtypes.bool_:
        return dtypes.default_int()
    if not promote_integers or dtype not in dtypes.INTEGER:
        return dtype
    wide = dtypes.default_int() if dtype in dtypes.SIGNED else dtypes.default_uint()
    return dtype if dtype.itemsize > wide.itemsize else wide


def arguments(
    name: str, a: Any, axis: Any, out: Any, keepdims: Any, *, initial: Any = None, where: Any =
    None, dtype: Any = None,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """The operands of a reduction, and its parameters: the axes, `keepdims`, and which of `initial`
    and `where` are given.

    A Python number `initial` must fit in an integer `dtype`. Raises ShapeError for an `initial`
    with dimensions, and DTypeError for a mask that is not boolean.
    """
    check_flag(keepdims, name, "keepdims")
    refuse_out(name, out)
    initial = number_for(name, initial, dtype)
    given = [operand(name, a), *[operand(name, x) for x in (initial, where) if x is not None]]
    if initial is not None and type_of(initial).shape:
        message = f"{name}: initial is a number"
        fix = Fix("initial", "combine the arrays after the reduction", {"initial": None})
        got, wanted = f"initial of type {type_of(initial)}", "a number, or an array of shape ()"
        raise refusal(ShapeError, message, name, got, wanted, fix)
    if hasattr(where, "dtype") and where.dtype != dtypes.bool_:
        message = f"{name}: where is a mask"
        fix = Fix("mask", "pass where=mask.astype(bool)", {"where": where.astype(bool)})
        got = f"where of type {type_of(where)}"
        raise refusal(DTypeError, message, name, got, "booleans", fix)
    return given, {
        "axes": axes_of(axis, type_of(given[0]).ndim, name),
        "keepdims": bool(keepdims),
        "given": (initial is not None, where is not None),
    }


def plain_axes(name: str, a: Any, axis: Any) -> tuple[int, ...]:
    """The axes of a reduction that is one primitive: of a nonempty array or tracer of numbers that
    is not weakly typed. Otherwise none."""
    aval = getattr(a, "type", None)
    if type(aval) is not ArrayType or aval.weak_type:
        return ()
    if aval.dtype not in dtypes.ANY or not aval.size:
        return ()
    return axes_of(axis, aval.ndim, name)


def _split(extra: Sequence[Any], given: tuple[bool, bool]) -> tuple[Any, Any]:
    """The (initial, where) operands from those that are given; None for the others."""
    values = iter(extra)
    return (next(values) if given[0] else None, next(values) if given[1] else None)


def masked(x: Any, where: Any, fill: Any) -> Any:
    """The elements where the mask holds, and `fill` elsewhere."""
    if where is None:
        return x
    aval = type_of(x)
    mask = broadcasted(boolean(where), aval.shape, "where")
    return select(mask, x, broadcasted(aval.dtype.type(fill), aval.shape))


def result_dtype(name: str, dtype: Any) -> Any:
    found = None if dtype is None else dtypes.requested(dtype)
    if found is not None and found not in dtypes.ANY:
        raise DTypeError(f"{name} does not compute in this dtype", operation=name, got=str(found))
    return found


def _accumulated(
    reduce: Any, unit: int, operands: Any, axes: Any, dtype: Any, keepdims: bool, given: Any
) -> Any:
    a, *extra = operands
    initial, where = _split(extra, given)
    x = convert(a, accumulator(dtype))
    logical = type_of(x).dtype == dtypes.bool_
    if logical:
        reduce = reduce_and if unit else reduce_or
    out = reduce(masked(x, where, bool(unit) if logical else unit), axes)
    if initial is not None:
        out = (mul if unit else add)(out, convert(initial, type_of(out).dtype))
    return kept(convert(out, dtype), type_of(a).shape, axes, keepdims)


@compiled
def _sum(*operands: Any, **how: Any) -> Any:
    return _accumulated(reduce_sum, 0, operands, **how)


@compiled
def _prod(*operands: Any, **how: Any) -> Any:
    return _accumulated(reduce_prod, 1, operands, **how)


def _total(
    name: str, compute: CompiledFunction, a: Any, dtype: Any, promote_integers: Any, initial: Any,
    **rest: Any,
) -> Any:  # fmt: skip
    """A sum or product; `rest` are further arguments of `arguments`."""
    check_flag(promote_integers, name, "promote_integers")
    a = operand(name, a)
    target = result_dtype(name, dtype)
    if target is None:
        target = summed_dtype(type_of(a).dtype, promote_integers)
    given, how = arguments(name, a, initial=initial, dtype=target, **rest)
    return compute(*given, dtype=target, **how)


@repeated
def sum(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The sum of the elements along `axis`: an integer, several, or None for all.

    Among several, or alone, there may be names of axes of `vmap` or of a manual mesh, as for
    `mean`, `max`, `min`, `var` and `std`; keepdims says nothing about those.

    keepdims: whether the axes stay, with length 1; dtype: of the result and the additions; initial:
    added to it; where: a mask of the elements that count; promote_integers: whether narrow integers
    are summed in the default width.

    >>> jnp.sum(jnp.ones((2, 3)), axis=1)
    Array([3., 3.], dtype=float32)
    """
    if has_names(axis):
        positions, names = split_axes(axis)
        part = sum(a, positions, dtype, out, keepdims, None, where, promote_integers)
        return sum(psum(part, names), (), dtype, initial=initial, promote_integers=promote_integers)
    plain = keepdims is False and promote_integers is True
    if plain and dtype is initial is where is out is None:
        axes = plain_axes("sum", a, axis)
        if axes and type_of(a).dtype in _DIRECT:
            return reduce_sum(a, axes)
    rest = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
    return _total("sum", _sum, a, dtype, promote_integers, initial, **rest)


@repeated
def prod(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None, promote_integers: bool = True,
) -> Array:  # fmt: skip
    """The product of the elements along `axis`; the arguments are those of `sum`.

    axis: an axis, a tuple of axes, or None for all. initial: a number by which the product is
    multiplied; promote_integers: whether narrow integers are multiplied in the default width.

    >>> jnp.prod(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    Array([ 2., 12.], dtype=float32)
    """
    rest = {"axis": axis, "out": out, "keepdims": keepdims, "where": where}
    return _total("prod", _prod, a, dtype, promote_integers, initial, **rest)


@compiled
def _extremum(a: Any, *extra: Any, largest: bool, axes: Any, keepdims: Any, given: Any) -> Any:
    initial, where = _split(extra, given)
    aval = type_of(a)
    fill = (lowest if largest else highest)(aval.dtype)
    reduce, pick = (reduce_max, maximum) if largest else (reduce_min, minimum)
    out = reduce(masked(convert(a, aval.dtype), where, fill), axes)
    if initial is not None:
        out = pick(out, convert(initial, aval.dtype))
    return kept(out, aval.shape, axes, keepdims)


def check_elements(name: str, aval: ArrayType, axes: tuple[int, ...]) -> None:
    """Raises WeftValueError if the axes have no elements."""
    if aval.size == 0 and 0 in [aval.shape[d] for d in axes]:
        message = f"{name}: no elements to choose from, and no initial="
        wanted = "at least one element along the axes"
        fix = Fix("initial", "pass initial=, the value of an empty reduction", {})
        raise refusal(WeftValueError, message, name, f"{aval}, axes {axes}", wanted, fix)


def extreme(
    name: str, compute: CompiledFunction, a: Any, initial: Any, where: Any, **rest: Any
) -> Any:
    """The largest or smallest element, after `name`; `rest` is as of `arguments`."""
    a = operand(name, a)
    aval = type_of(a)
    given, how = arguments(name, a, initial=initial, where=where, dtype=aval.dtype, **rest)
    if initial is None:
        if where is not None:
            message = f"{name} with a where= mask needs initial=, for where nothing is selected"
            fix = Fix("initial", "pass initial=, a value that stands for no elements", {})
            raise refusal(WeftValueError, message, name, "where without initial", "initial", fix)
        check_elements(name, aval, how["axes"])
    return compute(*given, largest=name.endswith("max"), **how)


@repeated
def max(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The largest element along `axis` (None: of all); NaN where there is one.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not less
    than, needed if there are no elements.

    Raises ValueError for no elements without `initial`.

    >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([3, 5], dtype=int32)
    """
    if has_names(axis):
        positions, names = split_axes(axis)
        return pmax(max(a, positions, out, keepdims, initial, where), names)
    if initial is where is out is None and keepdims is False:
        axes = plain_axes("max", a, axis)
        if axes:
            return reduce_max(a, axes)
    return extreme("max", _extremum, a, initial, where, axis=axis, out=out, keepdims=keepdims)


@repeated
def min(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Array:  # fmt: skip
    """The smallest element along `axis` (None: of all); NaN where there is one.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not greater
    than, needed if there are no elements.

    Raises ValueError for no elements without `initial`.

    >>> jnp.min(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    if has_names(axis):
        positions, names = split_axes(axis)
        return pmin(min(a, positions, out, keepdims, initial, where), names)
    if initial is where is out is None and keepdims is False:
        axes = plain_axes("min", a, axis)
        if axes:
            return reduce_min(a, axes)
    return extreme("min", _extremum, a, initial, where, axis=axis, out=out, keepdims=keepdims)


amax, amin = max, min


@compiled
def _ptp(a: Any, *, axes: Any, keepdims: bool, given: Any) -> Any:
    out = sub(reduce_max(a, axes), reduce_min(a, axes))
    return kept(out, type_of(a).shape, axes, keepdims)


@repeated
def ptp(a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    """The largest element minus the smallest, along `axis`.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.ptp(jnp.array([3.0, 7.0, 4.0]))
    Array(4., dtype=float32)
    """
    given, how = arguments("ptp", a, axis, out, keepdims)
    check_elements("ptp", type_of(given[0]), how["axes"])
    return _ptp(*given, **how)


@compiled
def _logical(a: Any, *extra: Any, every: bool, axes: Any, keepdims: bool, given: Any) -> Any:
    where = _split(extra, given)[1]
    x = masked(boolean(a), where, every)
    return kept((reduce_and if every else reduce_or)(x, axes), type_of(a).shape, axes, keepdims)


@repeated
def all(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether every element along `axis` differs from zero.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    given, how = arguments("all", a, axis, out, keepdims, where=where)
    return _logical(*given, every=True, **how)


@repeated
def any(
    a: ArrayLike, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """Whether some element along `axis` differs from zero.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    given, how = arguments("any", a, axis, out, keepdims, where=where)
    return _logical(*given, every=False, **how)


@compiled
def _count(a: Any, *, axes: Any, keepdims: bool, given: Any) -> Any:
    out = reduce_sum(convert(boolean(a), dtypes.default_int()), axes)
    return kept(out, type_of(a).shape, axes, keepdims)


@repeated
def count_nonzero(a: ArrayLike, axis: Any = None, keepdims: bool = False) -> Array:
    """How many elements along `axis` differ from zero.

    >>> jnp.count_nonzero(jnp.array([0, 3, 0, 4]))
    Array(2, dtype=int32)
    """
    given, how = arguments("count_nonzero", a, axis, None, keepdims)
    return _count(*given, **how)


def _number_counted(shape: tuple[int, ...], axes: tuple[int, ...], where: Any, dtype: Any) -> Any:
    """How many elements each result is computed from, as a number or an array of `dtype`."""
    if where is None:
        return dtype.type(product(shape[d] for d in axes))
    return reduce_sum(convert(broadcasted(boolean(where), shape, "where"), dtype), axes)


@compiled
def _mean(a: Any, *extra: Any, axes: Any, dtype: Any, keepdims: bool, given: Any) -> Any:
    where = _split(extra, given)[1]
    shape = type_of(a).shape
    target = dtype if dtype is not None else inexact(type_of(a).dtype)
    x = convert(a, accumulator(target))
    working = type_of(x).dtype
    count = _number_counted(shape, axes, where, dtypes.to_real(working))
    total = reduce_sum(masked(x, where, 0), axes)
    return kept(convert(div(total, convert(count, working)), target), shape, axes, keepdims)


@repeated
def mean(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False, *,
    where: Any = None,
) -> Array:  # fmt: skip
    """The mean of the elements along `axis`; of integers, a float.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.mean(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    if has_names(axis):
        return _mean_along_names(a, axis, dtype, out, keepdims, where)
    given, how = arguments("mean", a, axis, out, keepdims, where=where)
    return _mean(*given, dtype=result_dtype("mean", dtype), **how)


def _mean_along_names(a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, where: Any) -> Any:
    if where is None:
        positions, names = split_axes(axis)
        return pmean(mean(a, positions, dtype, out, keepdims), names)
    working = inexact(type_of(operand("mean", a)).dtype) if dtype is None else dtype
    count = broadcasted(boolean(where), type_of(a).shape, "where")
    total = sum(a, axis, working, out, keepdims, where=where)
    return div(total, sum(count, axis, type_of(total).dtype, keepdims=keepdims))


def _spread_about(x: Any, center: Any, shape: Any, axes: Any) -> Any:
    """The squared distances of the elements from a center."""
    difference = sub(x, expanded(center, shape, axes))
    if type_of(x).dtype in dtypes.COMPLEX:
        return real(mul(difference, conj(difference)))
    return square(difference)


@compiled
def _var(
    a: Any, correction: Any, *extra: Any, axes: Any, dtype: Any, keepdims: bool, given: Any, root:
    bool,
) -> Any:  # fmt: skip
    where = _split(extra, given)[1]
    shape, source = type_of(a).shape, type_of(a).dtype
    computed = inexact(source) if dtype is None else dtypes.promote_types(dtype, inexact(source))
    target = dtypes.to_real(computed) if dtype is None else dtype
    x = convert(a, accumulator(computed))
    working = type_of(x).dtype
    real_dtype = dtypes.to_real(working)
    count = _number_counted(shape, axes, where, real_dtype)
    center = div(reduce_sum(masked(x, where, 0), axes), convert(count, working))
    squares = masked(_spread_about(x, center, shape, axes), where, 0)
    degrees = sub(count, convert(correction, real_dtype))
    out = div(reduce_sum(squares, axes), degrees)
    # Without a degree of freedom there is no estimate.
    none = broadcasted(le(degrees, real_dtype.type(0)), type_of(out).shape)
    out = select(none, broadcasted(real_dtype.type(math.nan), type_of(out).shape), out)
    return kept(convert(sqrt(out) if root else out, target), shape, axes, keepdims)


def _correction(name: str, ddof: Any, correction: Any) -> Any:
    if correction is not None and ddof not in (0, None):
        message = f"{name}: ddof and correction are two names of one thing"
        got = f"ddof={ddof}, correction={correction}"
        raise refusal(WeftValueError, message, name, got, "one of the two")
    value = ddof if correction is None else correction
    check_number(value, name, "ddof")
    return value


def _variance(
    name: str, a: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: bool, where: Any, mean:
    Any, correction: Any,
) -> Any:  # fmt: skip
    if mean is not None:
        why = "the mean is computed along with the squares, and costs no pass of its own"
        raise not_taken(name, "mean", mean, why, "leave it out")
    target = result_dtype(name, dtype)
    if target is not None and target not in dtypes.INEXACT:
        message = f"{name} is computed in a floating-point or complex dtype"
        got = f"dtype={target.name}"
        raise refusal(WeftValueError, message, name, got, "a floating-point or complex dtype")
    number = _correction(name, ddof, correction)
    if has_names(axis):
        found = _variance_along_names(a, axis, target, keepdims, where, number)
        return sqrt(found) if name == "std" else found
    (a, *extra), how = arguments(name, a, axis, out, keepdims, where=where)
    number = as_array(float(number)) if is_eager() else number
    return _var(a, number, *extra, dtype=target, root=name == "std", **how)


def _variance_along_names(
    a: Any, axis: Any, dtype: Any, keepdims: Any, where: Any, correction: Any
) -> Any:
    a = operand("var", a)
    of = type_of(a)
    x = convert(a, inexact(of.dtype) if dtype is None else dtype)
    center = mean(x, axis, keepdims=True, where=where)
    squares = squared_size(sub(x, broadcasted(center, of.shape)))
    counted = True if where is None else boolean(where)
    counted = broadcasted(counted, of.shape, "where")
    count = sum(counted, axis, type_of(squares).dtype, keepdims=keepdims)
    total = sum(squares, axis, keepdims=keepdims, where=where)
    return div(total, sub(count, convert(correction, type_of(count).dtype)))


@repeated
def var(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims:
    bool = False, *, where: Any = None, mean: None = None, correction: Any = None,
) -> Array:  # fmt: skip
    """The variance along `axis`: the mean squared distance from the mean, a real number.

    axis: an axis, a tuple of axes, or None for all. ddof, correction: the number to subtract from
    the count of elements, by which the sum is divided; only one of both is given. mean: must be
    None, because it is computed along with the squares.

    >>> jnp.var(jnp.array([1.0, 3.0, 5.0]), ddof=1)
    Array(4., dtype=float32)
    """
    return _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)


@repeated
def std(
    a: ArrayLike, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0, keepdims:
    bool = False, *, where: Any = None, mean: None = None, correction: Any = None,
) -> Array:  # fmt: skip
    """The standard deviation along `axis`: the square root of `var`.

    axis: an axis, a tuple of axes, or None for all. ddof, correction: the number to subtract from
    the count of elements, by which the sum is divided; only one of both is given. mean: must be
    None, as in `var`.

    >>> jnp.std(jnp.array([1.0, 3.0, 5.0, 7.0])).round(3)
    Array(2.236, dtype=float32)
    """
    return _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
