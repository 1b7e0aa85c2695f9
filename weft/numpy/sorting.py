"""Sorting and cumulative sums and products: sort, argsort, lexsort, partition, cumsum, cumprod.

NaN is the greatest number, and of complex numbers the real parts are compared first, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import integer_of, not_taken, refusal
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.checks import (
    along,
    axis_of,
    check_choice,
    check_flag,
    check_flags,
    convert,
    operand,
    operands,
    refuse_out,
)
from weft.kinds.compiled_functions import compiled
from weft.kinds.repeated import repeated
from weft.numpy.nan_reductions import without_nan
from weft.numpy.reductions import boolean
from weft.ops.indexing import slicing
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.reductions import cumulative
from weft.ops.reductions import sorting as ordering
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.typing import ArrayLike

__all__ = [
    "argpartition", "argsort", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "lexsort",
    "nancumprod", "nancumsum", "partition", "sort", "sort_complex",
]  # fmt: skip


def _check_kind(name: str, kind: Any, order: Any) -> None:
    if order is not None:
        why = "it is for structured dtypes, which there are not"
        raise not_taken(name, "order", order, why, "leave it out")
    check_choice(kind, (None, "quicksort", "mergesort", "heapsort", "stable"), name, "kind")


@compiled
def _sort(a: Any, *, axis: int, stable: bool, descending: bool) -> Any:
    found = ordering.sort(a, axis, is_stable=stable)
    return rev(found, (axis,)) if descending else found


@repeated
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """The elements in increasing order along `axis` (None: of the flattened array).

    stable: whether equal elements keep their order. kind: a name of one of NumPy's algorithms,
    without effect. order: must be None, because there are no structured dtypes. descending: in
    decreasing order, NaN first.

    >>> jnp.sort(jnp.array([3, 1, 2]))
    Array([1, 2, 3], dtype=int32)
    """
    check_flags("sort", stable=stable, descending=descending)
    _check_kind("sort", kind, order)
    a, place = along("sort", a, axis)
    return _sort(a, axis=place, stable=bool(stable), descending=bool(descending))


@compiled
def _argsort(a: Any, *, axis: int, stable: bool, descending: bool) -> Any:
    # Equal elements keep their order also when descending: sort the reversed array, count back.
    x = rev(a, (axis,)) if descending else a
    index = broadcasted_iota(dtypes.default_int(), type_of(a).shape, axis)
    index = rev(index, (axis,)) if descending else index
    found = ordering.sort((x, index), axis, is_stable=stable, num_keys=1)[1]
    return rev(found, (axis,)) if descending else found


@repeated
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The positions that put the elements in increasing order along `axis`.

    stable: whether equal elements keep their order. kind: a name of one of NumPy's algorithms,
    without effect. order: must be None, because there are no structured dtypes. descending: in
    decreasing order, NaN first. dtype: of the positions, an integer one.

    >>> jnp.argsort(jnp.array([3, 1, 2]))
    Array([1, 2, 0], dtype=int32)
    """
    check_flags("argsort", stable=stable, descending=descending)
    _check_kind("argsort", kind, order)
    a, place = along("argsort", a, axis)
    found = _argsort(a, axis=place, stable=bool(stable), descending=bool(descending))
    return found if dtype is None else convert(found, dtypes.requested(dtype))


def sort_complex(a: ArrayLike) -> Array:
    """The elements along the last axis in increasing order, as complex numbers.

    >>> jnp.sort_complex(jnp.array([2.0, 1.0 + 1j, 1.0]))
    Array([1.+0.j, 1.+1.j, 2.+0.j], dtype=complex64)
    """
    a = operand("sort_complex", a)
    return sort(convert(a, dtypes.to_complex(type_of(a).dtype)))


@compiled
def _lexsort(*keys: Any, axis: int) -> Any:
    index = broadcasted_iota(dtypes.default_int(), type_of(keys[0]).shape, axis)
    found = ordering.sort((*reversed(keys), index), axis, num_keys=len(keys))
    return found[-1]


def lexsort(keys: Any, axis: int = -1) -> Array:
    """The positions that sort by several keys of one shape: the last one counts first.

    keys: a list or tuple of arrays, or an array whose first dimension counts them.

    >>> jnp.lexsort((jnp.array([3, 1, 2]), jnp.array([0, 0, 0])))
    Array([1, 2, 0], dtype=int32)
    """
    values: Sequence[Any] = keys if isinstance(keys, (list, tuple)) else _rows(keys)
    if not values:
        raise WeftValueError("lexsort needs a key", operation="lexsort", got="no keys")
    values = operands("lexsort", *values)
    if len({type_of(k).shape for k in values}) > 1:
        got = ", ".join(str(type_of(k)) for k in values)
        raise refusal(ShapeError, "lexsort takes keys of one shape", "lexsort", got, "equal shapes")
    ndim = type_of(values[0]).ndim
    if not ndim:
        return as_array(np.zeros((), dtypes.default_int()))
    return _lexsort(*values, axis=axis_of(axis, ndim, "lexsort"))


def _rows(keys: Any) -> Sequence[Any]:
    keys = operand("lexsort", keys)
    shape = type_of(keys).shape
    if not shape:
        message = "lexsort takes a sequence of keys"
        wanted = "an array of at least one dimension, or a tuple of keys"
        fix = Fix("keys", "pass a tuple: lexsort((key,))", {})
        raise refusal(ShapeError, message, "lexsort", str(type_of(keys)), wanted, fix)
    return [
        reshape(slicing.slice_in_dim(keys, i, i + 1, axis=0), shape[1:]) for i in range(shape[0])
    ]


def _checked(name: str, a: Any, kth: Any, axis: Any) -> tuple[Any, int]:
    """The operand and the axis of a partition. Raises WeftValueError for kth out of range."""
    a = operand(name, a)
    place = axis_of(axis, type_of(a).ndim, name)
    k, length = integer_of(kth, name, "kth"), type_of(a).shape[place]
    if not -length <= k < length:
        got = f"kth={k} of {length} elements"
        raise refusal(WeftValueError, f"{name}: kth is out of range", name, got)
    return a, place


def partition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The elements along `axis` with the one at `kth` where sorting would put it.

    Smaller ones come before it, others behind. The order within the two parts is that of sorting.

    >>> jnp.partition(jnp.array([3, 1, 2]), 0)[0]
    Array(1, dtype=int32)
    """
    a, place = _checked("partition", a, kth, axis)
    return _sort(a, axis=place, stable=True, descending=False)


def argpartition(a: ArrayLike, kth: int, axis: int = -1) -> Array:
    """The positions that put the elements along `axis` in the order of `partition`.

    kth: the position for which sorting decides which element comes there.

    >>> jnp.argpartition(jnp.array([3, 1, 2]), 1)[1]
    Array(2, dtype=int32)
    """
    a, place = _checked("argpartition", a, kth, axis)
    return _argsort(a, axis=place, stable=True, descending=False)


@compiled
def _cumulative(a: Any, *, name: str, axis: int, dtype: Any, initial: bool) -> Any:
    source = type_of(a).dtype
    fill = 1 if name.endswith("prod") else 0
    if name.startswith("nan"):
        a = without_nan(a, fill)
    target = dtype if dtype is not None else source
    if dtype is None and target == dtypes.bool_:
        target = dtypes.default_int()
    # Sums and products of booleans are "any" and "all", which no integer counts wrongly.
    x = (
        convert(a, accumulator(target))
        if target != dtypes.bool_
        else convert(boolean(a), dtypes.int32)
    )
    function = cumulative.cumprod if fill else cumulative.cumsum
    if target == dtypes.bool_:
        function = cumulative.cummin if fill else cumulative.cummax
    out = convert(function(x, axis), target)
    if initial:
        shape = tuple(1 if d == axis else n for d, n in enumerate(type_of(a).shape))
        out = concatenate([broadcast_in_dim(target.type(fill), shape, ()), out], axis)
    return out


def _accumulate(name: str, a: Any, axis: int | None, dtype: Any, out: Any) -> Any:
    refuse_out(name, out)
    a, place = along(name, a, axis)
    target = None if dtype is None else dtypes.requested(dtype)
    return _cumulative(a, name=name, axis=place, dtype=target, initial=False)


@repeated
def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The sums of the elements up to each one along `axis` (None: of the flattened array).

    >>> jnp.cumsum(jnp.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """
    return _accumulate("cumsum", a, axis, dtype, out)


@repeated
def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The products of the elements up to each one along `axis`.

    >>> jnp.cumprod(jnp.array([1, 2, 3]))
    Array([1, 2, 6], dtype=int32)
    """
    return _accumulate("cumprod", a, axis, dtype, out)


def nancumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The sums of the elements up to each one along `axis`, NaN counted as 0.

    >>> jnp.nancumsum(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 5.], dtype=float32)
    """
    return _accumulate("nancumsum", a, axis, dtype, out)


def nancumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """The products of the elements up to each one along `axis`, NaN counted as 1.

    >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
    Array([2., 2., 6.], dtype=float32)
    """
    return _accumulate("nancumprod", a, axis, dtype, out)


def _cumulative_standard(
    name: str, short: str, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    check_flag(include_initial, name, "include_initial")
    x = operand(name, x)
    of = type_of(x)
    if of.ndim == 0:
        raise ShapeError(f"{name} takes an array with dimensions", operation=name, got=str(of))
    if axis is None:
        if of.ndim > 1:
            message = f"{name}: an array of several dimensions needs axis="
            raise refusal(WeftValueError, message, name, str(of), "axis")
        axis = 0
    place, target = axis_of(axis, of.ndim, name), None if dtype is None else dtypes.requested(dtype)
    if target is None and of.dtype in dtypes.INTEGER:  # the standard widens narrow ones
        default = dtypes.default_int() if of.dtype in dtypes.SIGNED else dtypes.default_uint()
        target = dtypes.promote_types(of.dtype, default)
    return _cumulative(x, name=short, axis=place, dtype=target, initial=bool(include_initial))


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The sums of the elements up to each one along `axis`.

    include_initial: whether the result begins with the sum of no elements, 0.

    >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int32)
    """
    return _cumulative_standard("cumulative_sum", "cumsum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The products of the elements up to each one along `axis`.

    include_initial: whether the result begins with the product of no elements, 1.

    >>> jnp.cumulative_prod(jnp.array([1, 2, 3]), include_initial=True)
    Array([1, 1, 2, 6], dtype=int32)
    """
    return _cumulative_standard("cumulative_prod", "cumprod", x, axis, dtype, include_initial)
