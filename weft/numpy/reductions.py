"""Reductions over axes: sum, prod, mean, variance, extrema, any and all.

A sum of narrow floats (float16, bfloat16) is accumulated in float32 and rounded once. Integers
narrower than the default width, and booleans, are summed in the default width, as in NumPy. Means
and variances of integers are floats. Variance is computed in two passes, about the mean.

Among the axes may be names, of `vmap` or of a manual mesh: a reduction along them is one along the
positions, and then a collective along the names.
"""

from __future__ import annotations

import math
from math import prod as product
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import refusal
from weft.kinds.arguments import (
    Axes,
    DType,
    Flag,
    Mask,
    NamedAxes,
    Number,
    Operand,
    Out,
    refused_kind,
    take_dtype,
    take_number,
)
from weft.kinds.array_function import array_function
from weft.kinds.checks import broadcasted, convert, inexact, operand
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.elementwise import maximum, minimum
from weft.ops.collectives.all_reduce import pmax, pmin, psum
from weft.ops.collectives.named_axes import axis_size
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
    restore_axes,
)
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import reduce_sum, reshape

__all__ = [
    "all", "amax", "amin", "any", "count_nonzero", "max", "mean", "min", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip


# ---- parts ---------------------------------------------------------------------------------------


def squared_size(x: Any) -> Any:
    """The squared absolute values."""
    if type_of(x).dtype in dtypes.COMPLEX:
        return add(square(real(x)), square(imag(x)))
    return square(x)


def keep_dims(x: Any, shape: tuple[int, ...], axes: tuple[Any, ...], keepdims: bool) -> Any:
    """The result of a reduction; with `keepdims`, reduced axes have length 1."""
    if not keepdims:
        return x
    return reshape(x, tuple(1 if d in axes else n for d, n in enumerate(shape)))


def boolean(x: Any) -> Any:
    """Whether the elements differ from zero."""
    aval = type_of(x)
    return x if aval.dtype == dtypes.bool_ else ne(x, aval.dtype.type(0))


def summed_dtype(dtype: Any, promote_integers: bool = True) -> Any:
    """The dtype of a sum or product: integers widen to the default width."""
    if dtype == dtypes.bool_:
        return dtypes.default_int()
    if not promote_integers or dtype not in dtypes.INTEGER:
        return dtype
    wide = dtypes.default_int() if dtype in dtypes.SIGNED else dtypes.default_uint()
    return dtype if dtype.itemsize > wide.itemsize else wide


def mask_elements(x: Any, where: Any, fill: Any) -> Any:
    """Selects elements by a mask, and `fill` elsewhere; None selects all."""
    if where is None:
        return x
    aval = type_of(x)
    mask = broadcasted(boolean(where), aval.shape, "where")
    return select(mask, x, broadcasted(aval.dtype.type(fill), aval.shape))


def over(reduce: Any, collective: Any, x: Any, axes: tuple[Any, ...]) -> Any:
    """Reduces along the positions among the axes, then along the names, which come last."""
    if not axes or not isinstance(axes[-1], str):
        return reduce(x, axes)
    names = tuple(axis for axis in axes if isinstance(axis, str))
    return collective(reduce(x, axes[: -len(names)]), names)


def sum_over(x: Any, axes: tuple[Any, ...]) -> Any:
    """The sum along axes, in its dtype."""
    return over(reduce_sum, psum, x, axes)


def count_over(shape: tuple[int, ...], axes: tuple[Any, ...], where: Any, dtype: Any) -> Any:
    """The number of elements of each result, as a number or an array of `dtype`."""
    if where is None:
        lengths = (axis_size(axis) if isinstance(axis, str) else shape[axis] for axis in axes)
        return dtype.type(product(lengths))
    return sum_over(convert(broadcasted(boolean(where), shape, "where"), dtype), axes)


# ---- sums and products ---------------------------------------------------------------------------


def _initial(dtype_of: Any, means: str) -> Kind:
    """The kind of a number that a reduction starts from.

    A Python number must fit in the dtype that `dtype_of` returns.
    """

    def take(value: Any, call: Arguments) -> Any:
        name = call.operation
        value = operand(name, number_for(value, dtype_of(call)), call.name)
        if type_of(value).shape:
            message = "initial is a number"
            fix = Fix("initial", "combine the arrays after the reduction", {"initial": None})
            got, wanted = f"initial of type {type_of(value)}", "a number, or an array of shape ()"
            raise ShapeError(message, got=got, wanted=wanted, fix=fix)
        return value

    return Kind(take, means, ("text", [1], np.ones(3)), static=False, late=True)


def _sum_dtype(call: Arguments) -> Any:
    promotes = call.get("promote_integers", True)
    return call["dtype"] or summed_dtype(call.type.dtype, promotes)


Term = Annotated[Any, _initial(_sum_dtype, "a number that the result starts from")]
Bound = Annotated[Any, _initial(lambda call: call.type.dtype, "a value that takes part")]


def sum_or_product(
    unit: int, a: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Any:
    """The sum (with the unit 0) or product (1) of elements, in a dtype."""
    working = accumulator(dtype)
    reduce = reduce_prod if unit else reduce_sum
    if working == dtypes.bool_:
        reduce = reduce_and if unit else reduce_or
    x = convert(a, working)
    out = over(
        reduce, psum, x if where is None else mask_elements(x, where, working.type(unit)), axis
    )
    if initial is not None:
        out = (mul if unit else add)(out, convert(initial, type_of(out).dtype))
    out = convert(out, dtype)
    return keep_dims(out, type_of(a).shape, axis, True) if keepdims else out


@array_function
def sum(
    a: Operand, axis: NamedAxes = None, dtype: DType = None, out: Out = None, keepdims: Flag =
    False, initial: Term = None, where: Mask = None, promote_integers: Flag = True,
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
    dtype = dtype or summed_dtype(type_of(a).dtype, promote_integers)
    return sum_or_product(0, a, axis, dtype, keepdims, initial, where)


@array_function
def prod(
    a: Operand, axis: Axes = None, dtype: DType = None, out: Out = None, keepdims: Flag = False,
    initial: Term = None, where: Mask = None, promote_integers: Flag = True,
) -> Array:  # fmt: skip
    """The product of the elements along `axis`; the arguments are those of `sum`.

    axis: an axis, a tuple of axes, or None for all. initial: a number by which the product is
    multiplied; promote_integers: whether narrow integers are multiplied in the default width.

    >>> jnp.prod(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)
    Array([ 2., 12.], dtype=float32)
    """
    dtype = dtype or summed_dtype(type_of(a).dtype, promote_integers)
    return sum_or_product(1, a, axis, dtype, keepdims, initial, where)


# ---- extrema -------------------------------------------------------------------------------------


def check_elements(aval: ArrayType, axes: tuple[Any, ...]) -> None:
    """Raises WeftValueError if the axes have no elements."""
    axes = tuple(axis for axis in axes if not isinstance(axis, str))
    if 0 in [aval.shape[d] for d in axes]:
        raise WeftValueError(
            "no elements to choose from, and no initial=",
            got=f"{aval}, axes {axes}",
            wanted="at least one element along the axes",
            fix=Fix("initial", "pass initial=, the value of an empty reduction", {}),
        )


def extremum(largest: bool, a: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    """The largest or the smallest element along axes."""
    aval = type_of(a)
    if initial is None:
        if where is not None:
            raise WeftValueError(
                "a where= mask needs initial=, for where nothing is selected",
                got="where without initial",
                wanted="initial",
                fix=Fix("initial", "pass initial=, a value that stands for no elements", {}),
            )
        if not aval.size:
            check_elements(aval, axis)
    x = convert(a, aval.dtype)
    if where is not None:
        x = mask_elements(x, where, (lowest if largest else highest)(aval.dtype))
    out = over(*((reduce_max, pmax) if largest else (reduce_min, pmin)), x, axis)
    if initial is not None:
        out = (maximum if largest else minimum)(out, convert(initial, aval.dtype))
    return keep_dims(out, aval.shape, axis, True) if keepdims else out


@array_function
def max(
    a: Operand, axis: NamedAxes = None, out: Out = None, keepdims: Flag = False, initial: Bound =
    None, where: Mask = None,
) -> Array:  # fmt: skip
    """The largest element along `axis` (None: of all); NaN where there is one.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not less
    than, needed if there are no elements.

    Raises ValueError for no elements without `initial`.

    >>> jnp.max(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([3, 5], dtype=int32)
    """
    return extremum(True, a, axis, keepdims, initial, where)


@array_function
def min(
    a: Operand, axis: NamedAxes = None, out: Out = None, keepdims: Flag = False, initial: Bound =
    None, where: Mask = None,
) -> Array:  # fmt: skip
    """The smallest element along `axis` (None: of all); NaN where there is one.

    axis: an axis, a tuple of axes, or None for all. initial: a value that the result is not greater
    than, needed if there are no elements.

    Raises ValueError for no elements without `initial`.

    >>> jnp.min(jnp.array([[1, 5], [3, 2]]), axis=0)
    Array([1, 2], dtype=int32)
    """
    return extremum(False, a, axis, keepdims, initial, where)


amax, amin = max, min


@array_function
def ptp(a: Operand, axis: Axes = None, out: Out = None, keepdims: Flag = False) -> Array:
    """The largest element minus the smallest, along `axis`.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.ptp(jnp.array([3.0, 7.0, 4.0]))
    Array(4., dtype=float32)
    """
    check_elements(type_of(a), axis)
    return keep_dims(
        sub(reduce_max(a, axis), reduce_min(a, axis)), type_of(a).shape, axis, keepdims
    )


# ---- truth ---------------------------------------------------------------------------------------


@array_function
def all(
    a: Operand, axis: Axes = None, out: Out = None, keepdims: Flag = False, *, where: Mask = None
) -> Array:
    """Whether every element along `axis` differs from zero.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.all(jnp.array([[True, False], [True, True]]), axis=1)
    Array([False,  True], dtype=bool)
    """
    return keep_dims(
        reduce_and(mask_elements(boolean(a), where, True), axis), type_of(a).shape, axis, keepdims
    )


@array_function
def any(
    a: Operand, axis: Axes = None, out: Out = None, keepdims: Flag = False, *, where: Mask = None
) -> Array:
    """Whether some element along `axis` differs from zero.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.any(jnp.array([[True, False], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    return keep_dims(
        reduce_or(mask_elements(boolean(a), where, False), axis), type_of(a).shape, axis, keepdims
    )


@array_function
def count_nonzero(a: Operand, axis: Axes = None, keepdims: Flag = False) -> Array:
    """How many elements along `axis` differ from zero.

    >>> jnp.count_nonzero(jnp.array([0, 3, 0, 4]))
    Array(2, dtype=int32)
    """
    out = reduce_sum(convert(boolean(a), dtypes.default_int()), axis)
    return keep_dims(out, type_of(a).shape, axis, keepdims)


# ---- means and variances -------------------------------------------------------------------------


def average(a: Any, axis: Any, dtype: Any, keepdims: bool, where: Any) -> Any:
    """The mean along axes."""
    shape = type_of(a).shape
    target = dtype or inexact(type_of(a).dtype)
    x = convert(a, accumulator(target))
    working = type_of(x).dtype
    count = count_over(shape, axis, where, dtypes.to_real(working))
    out = div(sum_over(mask_elements(x, where, 0), axis), convert(count, working))
    return keep_dims(convert(out, target), shape, axis, keepdims)


@array_function
def mean(
    a: Operand, axis: NamedAxes = None, dtype: DType = None, out: Out = None, keepdims: Flag =
    False, *, where: Mask = None,
) -> Array:  # fmt: skip
    """The mean of the elements along `axis`; of integers, a float.

    axis: an axis, a tuple of axes, or None for all.

    >>> jnp.mean(jnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([2., 3.], dtype=float32)
    """
    return average(a, axis, dtype, keepdims, where)


def _squared_distance(x: Any, center: Any) -> Any:
    difference = sub(x, center)
    if type_of(x).dtype in dtypes.COMPLEX:
        return real(mul(difference, conj(difference)))
    return square(difference)


def variance(
    a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: bool, where: Any, root: bool = False
) -> Any:
    """The mean squared distance from the mean along axes, or its root."""
    shape, default = type_of(a).shape, inexact(type_of(a).dtype)
    computed = default if dtype is None else dtypes.promote_types(dtype, default)
    x = convert(a, accumulator(computed))
    working = type_of(x).dtype
    real_dtype = dtypes.to_real(working)
    count = count_over(shape, axis, where, real_dtype)
    center = div(sum_over(mask_elements(x, where, 0), axis), convert(count, working))
    center = restore_axes(center, shape, tuple(d for d in axis if not isinstance(d, str)))
    squares = mask_elements(_squared_distance(x, center), where, 0)
    # Without a degree of freedom there is no estimate.
    if where is None and isinstance(ddof, (int, float)):
        degrees = count - ddof
        out = div(sum_over(squares, axis), real_dtype.type(degrees if degrees > 0 else math.nan))
    else:
        degrees = sub(count, convert(ddof, real_dtype))
        out = div(sum_over(squares, axis), degrees)
        none = broadcasted(le(degrees, real_dtype.type(0)), type_of(out).shape)
        out = select(none, broadcasted(real_dtype.type(math.nan), type_of(out).shape), out)
    out = convert(sqrt(out) if root else out, dtype or dtypes.to_real(computed))
    return keep_dims(out, shape, axis, keepdims)


def _real_or_complex(value: Any, call: Arguments) -> Any:
    dtype = take_dtype(value, call)
    if dtype not in dtypes.INEXACT:
        name, wanted = call.operation, "a floating-point or complex dtype"
        message = f"{name} is computed in {wanted}"
        raise refusal(WeftValueError, message, name, f"dtype={dtype.name}", wanted)
    return dtype


def _no_other_name(value: Any, call: Arguments) -> Any:
    ddof = call["ddof"]
    if not (type(ddof) is int and ddof == 0) and ddof is not None:
        got = f"ddof={ddof}, correction={value}"
        message = "ddof and correction are two names of one thing"
        raise WeftValueError(message, got=got, wanted="one of the two")
    return take_number(value, call)


InexactDType = Annotated[Any, Kind(_real_or_complex, "a floating-point dtype", ("int32",))]
Correction = Annotated[
    Any, Kind(_no_other_name, "another name of ddof", ("text", [1]), static=False, fixed=True)
]
OwnMean = Annotated[
    Any,
    refused_kind(
        "the mean is computed along with the squares, and costs no pass of its own", "leave it out"
    ),
]


@array_function
def var(
    a: Operand, axis: NamedAxes = None, dtype: InexactDType = None, out: Out = None, ddof: Number =
    0, keepdims: Flag = False, *, where: Mask = None, mean: OwnMean = None, correction: Correction =
    None,
) -> Array:  # fmt: skip
    """The variance along `axis`: the mean squared distance from the mean, a real number.

    axis: an axis, a tuple of axes, or None for all. ddof, correction: the number to subtract from
    the count of elements, by which the sum is divided; only one of both is given. mean: must be
    None, because it is computed along with the squares.

    >>> jnp.var(jnp.array([1.0, 3.0, 5.0]), ddof=1)
    Array(4., dtype=float32)
    """
    return variance(a, axis, dtype, ddof if correction is None else correction, keepdims, where)


@array_function
def std(
    a: Operand, axis: NamedAxes = None, dtype: InexactDType = None, out: Out = None, ddof: Number =
    0, keepdims: Flag = False, *, where: Mask = None, mean: OwnMean = None, correction: Correction =
    None,
) -> Array:  # fmt: skip
    """The standard deviation along `axis`: the square root of `var`.

    axis: an axis, a tuple of axes, or None for all. ddof, correction: the number to subtract from
    the count of elements, by which the sum is divided; only one of both is given. mean: must be
    None, as in `var`.

    >>> jnp.std(jnp.array([1.0, 3.0, 5.0, 7.0])).round(3)
    Array(2.236, dtype=float32)
    """
    ddof = ddof if correction is None else correction
    return variance(a, axis, dtype, ddof, keepdims, where, root=True)
