"""Sorting along an axis, and the largest elements along one.

Numbers are ordered as NumPy orders them: NaN last, zeros of both signs equal, complex numbers by
real and then imaginary part. Several operands are sorted together by the first `num_keys` of them.
XLA's CPU compiler sorts integers by a compiled comparison several times faster than anything else,
so there floating-point numbers are sorted as the integers that order like them, and operands that
follow a narrow key are gathered by positions sorted along with it, both packed in one integer.
Derivatives gather: a sort is, for given operands, a permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of, invalid_value
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import neg
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.ops.operand_errors import unfit
from weft.ops.reductions.reduce import check_dtype
from weft.ops.structural import extended_dtypes
from weft.ops.structural.narrow import in_wide
from weft.ops.structural.shape import canonical_axis, move_dim, reshape
from weft.ops.structural.tangents import instantiate
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]


@overload
def sort(
    operand: ArrayLike, dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> Array: ...


@overload
def sort(
    operand: Sequence[ArrayLike], dimension: int = ..., is_stable: bool = ..., num_keys: int = ...
) -> tuple[Array, ...]: ...


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The elements in increasing order along a dimension.

    operand: an array, or a sequence of arrays of one shape (then the result is a tuple), which are
    permuted alike: sorted by the first, ties by the second, up to `num_keys` of them. With
    `is_stable`, operands whose keys are equal keep their order. NaN goes last.
    Raises ShapeError, AxisError, DTypeError, and WeftValueError for a `num_keys` out of range.

    dimension: the index of the dimension along which it sorts, by default the last; num_keys: how
    many of the arrays, from the first on, determine the order.

    >>> import numpy as np
    >>> print(sort(np.array([3, 1, 2])))
    [1 2 3]
    """
    several = isinstance(operand, (tuple, list))
    operands = tuple(operand) if several else (operand,)
    if not operands:
        raise WeftValueError(
            "sort needs an operand", operation="sort", got="none", wanted="1 or more"
        )
    axis = canonical_axis(dimension, type_of(operands[0]).ndim, "sort")
    if any(extended_dtypes.is_key(x) for x in operands):
        return tuple(sort_random_keys(operands, axis, is_stable, num_keys))
    found = sort_p.bind(*operands, dimension=axis, is_stable=bool(is_stable), num_keys=num_keys)
    return tuple(found) if several else found[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sorts `keys` along a dimension, and permutes `values` of the same shape alike.

    dimension: the index of the dimension along which it sorts, by default the last; is_stable:
    whether elements with equal keys keep their order.

    >>> lax.sort_key_val(np.array([3, 1, 2]), np.array([10, 20, 30]))
    (Array([1, 2, 3], dtype=int32), Array([20, 30, 10], dtype=int32))
    """
    found = sort((keys, values), dimension, is_stable, num_keys=1)
    return found[0], found[1]


def positions(type: ArrayType, axis: int) -> Any:
    """The position of each element along an axis, in an integer dtype that holds them."""
    wide = type.shape[axis] > np.iinfo(np.int32).max
    return broadcasted_iota(np.int64 if wide else np.int32, type.shape, axis)


def take_along(x: Any, indices: Any, axis: int, unique: bool) -> Any:
    """The elements of x at the given positions along an axis; the others are batch dimensions."""
    of = type_of(indices)
    others = tuple(d for d in range(of.ndim) if d != axis)
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(
        x,
        reshape(indices, (*of.shape, 1)),
        numbers,
        (1,) * of.ndim,
        unique_indices=unique,
        mode="promise_in_bounds",
    )


def sort_random_keys(
    operands: Sequence[Any], axis: int, is_stable: bool, num_keys: int
) -> list[Any]:
    """Sorts operands that include random keys: these have no order and only follow."""
    if any(extended_dtypes.is_key(x) for x in operands[:num_keys]):
        message = "sort: random keys have no order"
        got = ", ".join(str(type_of(x)) for x in operands)
        wanted = f"numbers or booleans as the first {num_keys} operands"
        fix = Fix("key_data", "by bits: sort((weft.random.key_data(keys)[..., 0], keys))[1]")
        raise DTypeError(message, operation="sort", got=got, wanted=wanted, fix=fix)
    first = operands[:num_keys]
    found = sort((*first, positions(type_of(first[0]), axis)), axis, is_stable, num_keys)
    return [*found[:-1], *(take_along(x, found[-1], axis, True) for x in operands[num_keys:])]


def sort_type(*types: ArrayType, dimension: int, is_stable: bool, num_keys: int) -> list[ArrayType]:
    for type in types:
        check_dtype("sort", type, dtypes.ANY)
        if type.shape != types[0].shape:
            raise unfit(ShapeError, "sort", "operands of one shape", types, "equal shapes")
    canonical_axis(dimension, types[0].ndim, "sort")
    if not 1 <= num_keys <= len(types):
        message = f"sort: num_keys={num_keys} is out of range for {len(types)} operands"
        wanted = f"1 <= num_keys <= {len(types)}"
        raise invalid_value(message, "sort", "num_keys", num_keys, wanted)
    # The order, and with it every result, depends on all keys.
    return [result_type(types, t.shape, t.dtype, t.weak_type) for t in types]


def sort_jvp(
    primals: Values, tangents: Values, *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Any], list[Any]]:
    params = {"dimension": dimension, "is_stable": is_stable, "num_keys": num_keys}
    if all(type(t) is Zero for t in tangents):
        outs = sort_p.bind(*primals, **params)
        return outs, [Zero(type_of(x).tangent()) for x in outs]
    places = positions(type_of(primals[0]), dimension)
    *outs, order = sort_p.bind(*primals, places, **params)
    moved = [
        Zero(type_of(out).tangent())
        if type(t) is Zero
        else take_along(t, order, dimension, unique=True)
        for out, t in zip(outs, tangents, strict=True)
    ]
    return outs, moved


def sort_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension: int, is_stable: bool, num_keys: int
) -> tuple[list[Any], list[int]]:
    place = next(d for d in dims if d is not None)
    values = [move_dim(x, d, place, axis.size) for x, d in zip(args, dims, strict=True)]
    moved = dimension + (dimension >= place)
    outs = sort_p.bind(*values, dimension=moved, is_stable=is_stable, num_keys=num_keys)
    return outs, [place] * len(outs)


def sort_lower(
    context: Any, *values: Any, dimension: int, is_stable: bool, num_keys: int
) -> list[Any]:
    types = context.in_types
    if types[0].shape[dimension] < 2 or not types[0].size:
        return list(values)
    key = types[0].dtype
    if context.platform == "cpu" and num_keys == 1 and key not in dtypes.COMPLEX:
        if len(values) == 1 and key in dtypes.FLOATING:
            return [sort_as_integers(values[0], key, dimension, is_stable)]
        if (
            len(values) > 1
            and dtypes.itemsize_bits(key) <= 32
            and types[0].shape[dimension] < 2**31
        ):
            return sort_packed(values, types, dimension)

    def before(left: list[Any], right: list[Any]) -> list[Any]:
        verdict = None
        for x, y in reversed(list(zip(left[:num_keys], right[:num_keys], strict=True))):
            for a, b in reversed(parts(x, y)):
                less, equal = order(a, b)
                verdict = less if verdict is None else either(less, equal, verdict)
        return [verdict]

    return stablehlo.sort(values, dimension, is_stable, before)


def either(less: Any, equal: Any, rest: Any) -> Any:
    """Lexicographic order: `less`, or `equal` and first by the rest of the keys."""
    return stablehlo.or_(less, stablehlo.and_(equal, rest))


def parts(x: Any, y: Any) -> list[tuple[Any, Any]]:
    """The pairs by which two elements are compared: for complex numbers, the two parts."""
    if stablehlo.dtype_of(x.type.element_type) in dtypes.COMPLEX:
        return [(stablehlo.real(x), stablehlo.real(y)), (stablehlo.imag(x), stablehlo.imag(y))]
    return [(x, y)]


def order(x: Any, y: Any) -> tuple[Any, Any]:
    """Whether x goes before y, and whether they are equal; NaN is equal to itself and goes last."""
    less, equal = stablehlo.compare(x, y, "LT"), stablehlo.compare(x, y, "EQ")
    if stablehlo.dtype_of(x.type.element_type) not in dtypes.FLOATING:
        return less, equal
    x_nan, y_nan = stablehlo.compare(x, x, "NE"), stablehlo.compare(y, y, "NE")
    less = stablehlo.or_(less, stablehlo.and_(stablehlo.not_(x_nan), y_nan))
    return less, stablehlo.or_(equal, stablehlo.and_(x_nan, y_nan))


def first_below(left: list[Any], right: list[Any]) -> list[Any]:
    """The comparison that the CPU compiler recognizes."""
    return [stablehlo.compare(left[0], right[0], "LT")]


def as_ordered_integers(x: Any, dtype: Any) -> Any:
    """Signed integers in the order of floating-point numbers: negative ones have all bits but the
    sign flipped. The map is its own inverse (see `flip_negative`)."""
    bits = dtypes.itemsize_bits(dtype)
    integer = np.dtype(f"int{bits}")
    shape = x.type.shape
    nan = stablehlo.full(np.nan, shape, dtype)
    one_nan = stablehlo.select(stablehlo.compare(x, x, "NE"), nan, x)
    return flip_negative(stablehlo.bitcast_convert(one_nan, integer), integer)


def flip_negative(x: Any, integer: Any) -> Any:
    """Integers with all bits but the sign flipped where they are below zero."""
    shape, bits = x.type.shape, dtypes.itemsize_bits(integer)
    below = stablehlo.shift_right_arithmetic(x, stablehlo.full(bits - 1, shape, integer))
    mask = stablehlo.and_(below, stablehlo.full(np.iinfo(integer).max, shape, integer))
    return stablehlo.xor(x, mask)


def sort_as_integers(x: Any, dtype: Any, dimension: int, is_stable: bool) -> Any:
    """Sorts floating-point numbers as integers; zeros come out with the negative ones first."""
    keys = as_ordered_integers(x, dtype)
    (found,) = stablehlo.sort([keys], dimension, is_stable, first_below)
    integer = stablehlo.dtype_of(found.type.element_type)
    return stablehlo.bitcast_convert(flip_negative(found, integer), dtype)


def sort_packed(values: Sequence[Any], types: Sequence[ArrayType], dimension: int) -> list[Any]:
    """Sorts by one key of at most 32 bits. Sorts integers of the key above the position, and
    gathers everything by the positions. Ties are broken by position, so the sort is stable."""
    shape, key = types[0].shape, types[0].dtype
    first = values[0]
    if key in dtypes.FLOATING:
        first = as_ordered_integers(without_signs(first, key), key)
    wide = dtypes.int64
    first = stablehlo.convert(first, wide)
    if key == dtypes.uint32:  # moved into the range of the signed upper half
        first = stablehlo.subtract(first, stablehlo.full(2**31, shape, wide))
    high = stablehlo.shift_left(first, stablehlo.full(32, shape, wide))
    packed = stablehlo.or_(high, stablehlo.iota(shape, wide, dimension))
    (found,) = stablehlo.sort([packed], dimension, False, first_below)
    places = stablehlo.convert(found, dtypes.int32)  # the lower half
    return [gather_along(x, places, dimension) for x in values]


def gather_along(x: Any, places: Any, axis: int) -> Any:
    """`take_along` of StableHLO values."""
    shape = places.type.shape
    others = tuple(d for d in range(len(shape)) if d != axis)
    numbers = stablehlo.GatherDimensions(
        collapsed_slice_dims=(axis,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=(axis,),
        index_vector_dim=len(shape),
    )
    indices = stablehlo.reshape(places, (*shape, 1))
    return stablehlo.gather(x, indices, numbers, (1,) * len(shape))


def without_signs(x: Any, dtype: Any) -> Any:
    """Makes all NaN one NaN and both zeros one zero, so that equal values have equal bits."""
    shape = x.type.shape
    nan, zero = stablehlo.full(np.nan, shape, dtype), stablehlo.full(0, shape, dtype)
    x = stablehlo.select(stablehlo.compare(x, zero, "EQ"), zero, x)
    return stablehlo.select(stablehlo.compare(x, x, "NE"), nan, x)


sort_p = Primitive("sort", multiple_results=True)
primitive(
    sort_p,
    type_rule=sort_type,
    jvp=sort_jvp,
    vmap=sort_vmap,
    lower=in_wide(sort_lower),
    makes_no_nan=True,
    flops="none",
)


# ---- the largest elements ----------------------------------------------------------------------


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The `k` largest elements along an axis, largest first, and their positions (int32).

    NaN counts as largest; equal elements come in their order. Takes real numbers and booleans.
    Raises AxisError, DTypeError, and WeftValueError if k is out of range.

    >>> import numpy as np
    >>> values, places = top_k(np.array([3, 1, 2]), 2)
    >>> print(values, places)
    [3 2] [0 2]
    """
    axis = canonical_axis(axis, type_of(operand).ndim, "top_k")
    values, places = top_k_p.bind(operand, k=integer_of(k, "k", "top_k"), axis=axis)
    return values, places


def top_k_type(x: ArrayType, *, k: int, axis: int) -> list[ArrayType]:
    check_dtype("top_k", x, dtypes.ORDERED)
    axis = canonical_axis(axis, x.ndim, "top_k")
    if not 0 <= k <= x.shape[axis]:
        message = f"top_k: k={k} is out of range for an axis of length {x.shape[axis]}"
        got, wanted = f"k={k}, axis {axis} of {x}", f"0 <= k <= {x.shape[axis]}"
        raise WeftValueError(message, got=got, wanted=wanted)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [result_type((x,), shape, x.dtype, x.weak_type), result_type((x,), shape, dtypes.int32)]


def top_k_jvp(
    primals: Values, tangents: Values, *, k: int, axis: int
) -> tuple[list[Any], list[Any]]:
    values, places = top_k_p.bind(*primals, k=k, axis=axis)
    none = Zero(type_of(places).tangent())
    if type(tangents[0]) is Zero:
        return [values, places], [Zero(type_of(values).tangent()), none]
    return [values, places], [take_along(instantiate(tangents[0]), places, axis, True), none]


def top_k_vmap(
    axis_data: AxisData, args: Values, dims: Dims, *, k: int, axis: int
) -> tuple[list[Any], list[int]]:
    (dim,) = dims
    assert dim is not None
    return top_k_p.bind(args[0], k=k, axis=axis + (axis >= dim)), [dim, dim]


def top_k_lower(context: Any, x: Any, *, k: int, axis: int) -> list[Any]:
    type = context.in_types[0]
    if not context.out_types[0].size:  # a gather of nothing from nothing is refused
        return [stablehlo.full(0, out.shape, out.dtype) for out in context.out_types]
    if axis != type.ndim - 1:
        order = [d for d in range(type.ndim) if d != axis] + [axis]
        back = [*range(axis), type.ndim - 1, *range(axis, type.ndim - 1)]
        found = last_top_k(stablehlo.transpose(x, order), k, type.dtype)
        return [stablehlo.transpose(value, back) for value in found]
    return last_top_k(x, k, type.dtype)


def last_top_k(x: Any, k: int, dtype: Any) -> list[Any]:
    """The largest elements along the last axis; the compiler's operation orders by bits."""
    if dtype not in dtypes.FLOATING:
        return list(stablehlo.top_k(x, k))
    _, places = stablehlo.top_k(without_signs(x, dtype), k)
    return [gather_along(x, places, len(x.type.shape) - 1), places]


top_k_p = Primitive("top_k", multiple_results=True)
primitive(
    top_k_p,
    type_rule=top_k_type,
    jvp=top_k_jvp,
    vmap=top_k_vmap,
    lower=in_wide(top_k_lower),
    makes_no_nan=True,
    flops="none",
)


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` largest elements along a dimension and their positions, exactly.

    By the arguments after `reduction_dimension` an accelerator may trade exactness for speed; here
    they have no effect.

    Args:
        reduction_dimension: The dimension along which it looks, by default the last.
        recall_target: The wanted share of true results, above 0 and at most 1; all results are true
            whatever it is.
        reduction_input_size_override: Has no effect: the length by which an accelerator would plan
            its work.
        aggregate_to_topk: Has no effect: whether an accelerator would choose the final k elements
            itself.

    >>> lax.approx_max_k(np.array([1.0, 3.0, 2.0]), 2)
    (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    check_recall(recall_target)
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The `k` smallest elements along a dimension and their positions; see `approx_max_k`.

    Args:
        reduction_dimension: The dimension along which it looks, by default the last.
        recall_target: The wanted share of true results, above 0 and at most 1; all results are true
            whatever it is.
        reduction_input_size_override: Has no effect, as in `approx_max_k`.
        aggregate_to_topk: Has no effect, as in `approx_max_k`.

    >>> lax.approx_min_k(np.array([1.0, 3.0, 2.0]), 2)
    (Array([1., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    check_recall(recall_target)
    values, places = top_k(neg(operand), k, axis=reduction_dimension)
    return neg(values), places


def check_recall(recall_target: float) -> None:
    """Raises WeftValueError for a share of true results that is not between 0 and 1."""
    if not 0 < recall_target <= 1:
        message = "the recall target is the wanted share of true results"
        wanted = "a number above 0 and at most 1"
        raise invalid_value(message, "approx_max_k", "recall_target", recall_target, wanted)
