"""`x.at[index]`: updates of elements, as functions that return a new array.

An update is the plan of the index (see `indexing`) run backwards: what the static slices select is
taken, the index arrays scatter into that, and the slice is written back. An update without index
arrays lowers to a dynamic update slice, in place inside an executable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError
from weft.errors.argument_errors import refuse_sharding, unknown_option
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.kinds.checks import (
    broadcasted,
    check_arrays,
    check_fill_is_read,
    check_fits,
    convert,
    promote_values,
)
from weft.kinds.compiled_functions import is_eager
from weft.kinds.numbers import canonical_type, number_for, promote_operands
from weft.numpy.creation import array as array_from
from weft.numpy.elementwise import power
from weft.numpy.getitem import start_array
from weft.numpy.indexing import (
    Index,
    IndexPlan,
    encode,
    gather_by,
    plan_index,
    plan_of,
    start_indices,
    take_static,
)
from weft.numpy.taking import INT32, take_axis
from weft.ops.elementwise.arithmetic import add as add_
from weft.ops.elementwise.arithmetic import div, lt, mul, neg
from weft.ops.elementwise.arithmetic import max as max_
from weft.ops.elementwise.arithmetic import min as min_
from weft.ops.elementwise.convert import convert_element_type, stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import iota
from weft.ops.indexing.dynamic_slicing import dynamic_slice, dynamic_update_slice
from weft.ops.indexing.gather import GatherScatterMode
from weft.ops.indexing.scatter import (
    ScatterDimensionNumbers,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)
from weft.ops.indexing.slicing import pad
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.runtime.jaxlib.lazy import LazyModule

# Loaded on first use: only `apply` at repeated positions takes steps.
conditionals: Any = LazyModule("weft.control_flow.cond")
loops: Any = LazyModule("weft.control_flow.fori_loop")
checkpoints: Any = LazyModule("weft.control_flow.checkpoint")

Operation = Callable[[Any, Any], Any]

_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}


def _replace(old: Any, new: Any) -> Any:
    return new


# Of each operation, its function of a whole window and its scatter.
_OPERATIONS: dict[str, tuple[Operation, Callable[..., Any]]] = {
    "set": (_replace, scatter),
    "add": (add_, scatter_add),
    "multiply": (mul, scatter_mul),
    "min": (min_, scatter_min),
    "max": (max_, scatter_max),
}


def write_static(x: Any, plan: IndexPlan, part: Any) -> Any:
    """The inverse of `take_static`: writes `part` where the slices select."""
    if plan.whole:
        return part
    if plan.reverse:
        part = rev(part, plan.reverse)
    if all(step == 1 for step in plan.strides):
        return dynamic_update_slice(x, part, _starts(plan), allow_negative_indices=False)
    config = [
        (low, length - limit, step - 1)
        for low, limit, step, length in zip(
            plan.starts, plan.limits, plan.strides, type_of(x).shape, strict=True
        )
    ]
    aval = type_of(part)
    if not aval.size:
        return x
    inside = pad(broadcast_in_dim(np.bool_(True), aval.shape, ()), np.bool_(False), config)
    if not isinstance(aval.dtype, np.dtype):  # random keys have no value to pad with
        places = pad(reshape(iota(INT32, aval.size), aval.shape), np.int32(0), config)
        return select(inside, take_axis(reshape(part, (aval.size,)), places, 0, "clip"), x)
    return select(inside, pad(part, aval.dtype.type(0), config), x)


def scatter_by(
    y: Any,
    plan: IndexPlan,
    arrays: Sequence[Any],
    value: Any,
    operation: str,
    *,
    safe: bool,
    mode: str | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
) -> Any:
    """Applies the dynamic part of an update: scatters `value`, of the index's shape, into `y`."""
    window, whole = _OPERATIONS[operation]
    if not plan.indexed:
        if 0 in plan.index_shape:
            return y
        return window(y, reshape(value, type_of(y).shape))
    numbers = ScatterDimensionNumbers(
        update_window_dims=plan.offset_dims(),
        inserted_window_dims=tuple(sorted((*plan.indexed, *plan.dropped))),
        scatter_dims_to_operand_dims=plan.indexed,
    )
    return whole(
        y,
        start_indices(plan, arrays, safe, wrap),
        reshape(value, plan.gathered_shape()),
        numbers,
        indices_are_sorted=indices_are_sorted,
        # A single position is unique: then products have a derivative in the updates.
        unique_indices=unique_indices or math.prod(plan.index_shape) <= 1,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS if safe else _MODES[mode],
    )


@private_function
def update_by_plan(
    x: Prepared, value: Prepared, *arrays: Prepared, plan: Passed, operation: Passed, dtype: Passed,
    safe: Passed, mode: Passed, indices_are_sorted: Passed, unique_indices: Passed, wrap: Passed,
) -> Any:  # fmt: skip
    """An update computed in `dtype`, as one executable; the result has the dtype of `x`."""
    aval = type_of(x)
    value = broadcasted(_convert(value, dtype), plan.shape)
    x = _convert(x, dtype)
    fixed = not plan.indexed and 0 not in plan.index_shape
    if operation == "set" and fixed:
        part = reshape(value, plan.sliced_shape())
    elif fixed and plan.unit and not plan.whole:
        block = reshape(value, plan.sliced_shape())
        return _convert(_combine_block(x, block, _starts(plan), operation), aval.dtype)
    else:
        part = scatter_by(
            take_static(x, plan),
            plan,
            arrays,
            value,
            operation,
            safe=safe,
            mode=mode,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            wrap=wrap,
        )
    return _convert(write_static(x, plan, part), aval.dtype)


def _convert(value: Any, dtype: Any) -> Any:
    """The value in a dtype; unchanged, also in its weak type, if it has it."""
    if type_of(value).dtype == dtype:
        return value
    return convert(value, dtype)


@private_function
def update_window(
    x: Prepared, value: Prepared, *starts: Prepared, dims: Passed, sizes: Passed, shape: Passed,
    operation: Passed, dtype: Passed,
) -> Any:  # fmt: skip
    """Updates a window of static sizes, whose start may be an operand in some dimensions."""
    aval = type_of(x)
    begin: list[Any] = [np.int32(0)] * len(sizes)
    for dim, start in zip(dims, starts, strict=True):
        begin[dim] = start
    value = broadcasted(_convert(value, dtype), shape)
    value = reshape(value, sizes)
    return _convert(_combine_block(_convert(x, dtype), value, begin, operation), aval.dtype)


def _starts(plan: IndexPlan) -> list[Any]:
    """The starts of a plan's static slices, as integers that hold them."""
    return [np.int32(s) if s < 2**31 else np.int64(s) for s in plan.starts]


def _combine_block(x: Any, block: Any, starts: Sequence[Any], operation: str) -> Any:
    """Combines a block of the array, from `starts` on, with another block."""
    of, sizes = type_of(x), type_of(block).shape
    moving = tuple(d for d, n in enumerate(sizes) if n != of.shape[d])
    inexact = of.dtype in dtypes.INEXACT and dtypes.itemsize_bits(of.dtype) >= 16
    if operation in ("add", "multiply") and inexact and moving and type_of(block).size:
        # A scatter of one block: its transpose changes the block in the cotangent, where the
        # transpose of reading and writing would write the whole cotangent twice.
        wide = any(type_of(starts[d]).dtype.itemsize > 4 for d in moving)
        index = [reshape(convert(starts[d], np.int64 if wide else INT32), (1,)) for d in moving]
        return _OPERATIONS[operation][1](
            x,
            concatenate(index, 0),
            block,
            ScatterDimensionNumbers(tuple(range(len(sizes))), (), moving),
            indices_are_sorted=True,
            unique_indices=True,
            mode=GatherScatterMode.CLIP,
        )
    if operation != "set":
        old = dynamic_slice(x, starts, sizes, allow_negative_indices=False)
        block = _OPERATIONS[operation][0](old, block)
    return dynamic_update_slice(x, block, starts, allow_negative_indices=False)


def _check_mode(mode: Any, operation: str) -> None:
    if mode not in _MODES:
        text = "pass mode='drop': an index out of bounds updates nothing"
        if operation == "get":
            text = "pass mode='clip', to read the nearest element, or 'fill'"
        fix = Fix("mode", text)
        wanted = "None, 'drop', 'fill', 'clip' or 'promise_in_bounds'"
        raise unknown_option(f".at[...].{operation}", "mode", mode, wanted, fix=fix)


def _check_flags(operation: str, are_sorted: Any, unique: Any, wrap: Any) -> None:
    if not (are_sorted is unique is False and wrap is True):
        flags = {"indices_are_sorted": are_sorted, "unique_indices": unique}
        check_flags(f".at[...].{operation}", **flags, wrap_negative_indices=wrap)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    lead = len(to) - len(shape)
    return lead >= 0 and all(a in (1, b) for a, b in zip(shape, to[lead:], strict=True))


def _check_shape(value: Any, plan: IndexPlan, operation: str) -> None:
    """Raises ShapeError if a value does not broadcast to the selected elements."""
    shape = type_of(value).shape
    if not _broadcasts(shape, plan.shape):
        message = (
            f".at[...].{operation}: a value of shape {shape} does not broadcast to the elements "
            f"that the index selects, of shape {plan.shape}"
        )
        got, wanted = f"shape {shape}", f"a shape that broadcasts to {plan.shape}"
        raise ShapeError(message, operation=f".at[...].{operation}", got=got, wanted=wanted)


def _value(value: Any, operation: str) -> Any:
    """An array or a number; sequences are arrays under JAX's rule for arguments.

    Raises WeftTypeError for other values.
    """
    if isinstance(value, (list, tuple)) and config.lenient():
        return array_from(value)
    check_arrays(value, operation=f".at[...].{operation}")
    return value


def _prepare_value(x: Any, value: Any, operation: str) -> tuple[Any, Any]:
    """The value and the dtype to compute in: that of `x` for `set`, else the promoted one."""
    aval = type_of(x)
    if operation == "set" and isinstance(value, (np.ndarray, np.inexact)):
        if value.dtype in dtypes.INEXACT:
            return convert_element_type(value, aval.dtype), aval.dtype
    dtype = aval.dtype if operation == "set" else _common_dtype(aval, value)
    return number_for(value, dtype, f".at[...].{operation}"), dtype


def _common_dtype(aval: Any, value: Any) -> Any:
    """The dtype to which a type and a value promote; of an integer only the class counts."""
    other = canonical_type(value) if type(value) is int else type_of(value)
    return dtypes.promote(*promoted_types(aval, other))[0]


def promoted_types(x: Any, value: Any) -> tuple[Any, Any]:
    """The (dtype, weak type) pairs of two types."""
    return (x.dtype, x.weak_type), (value.dtype, value.weak_type)


def _forbid_wraparound(index: Any) -> Any:
    """Makes negative numbers of an index out of bounds, as arrays, which are checked later."""
    parts = index if type(index) is tuple else (index,)
    return tuple(
        start_array(int(part)) if isinstance(part, (int, np.integer)) and part < 0 else part
        for part in parts
    )


def update(
    x: Any,
    index: Any,
    value: Any,
    operation: str,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | None = None,
    wrap_negative_indices: bool = True,
) -> Any:
    """The array with the elements at an index set to, or combined with, a value."""
    _check_mode(mode, operation)
    _check_flags(operation, indices_are_sorted, unique_indices, wrap_negative_indices)
    value = _value(value, operation)
    aval = type_of(x)
    value, dtype = _prepare_value(x, value, operation)
    if not wrap_negative_indices:
        index = _forbid_wraparound(index)
    masked = _update_by_mask(x, index, value, operation, dtype)
    if masked is not None:
        return masked
    encoded, plan = plan_index(index, aval.shape, mode)
    _check_shape(value, plan, operation)
    if is_eager():
        x, value = as_array(x), as_array(value)
        x._live()
        if not encoded.arrays and not plan.index_shape and plan.unit and not plan.whole:
            dims = tuple(d for d, n in enumerate(plan.sliced_shape()) if n != aval.shape[d])
            return update_window(
                x,
                value,
                *[start_array(plan.starts[d]) for d in dims],
                dims=dims,
                sizes=plan.sliced_shape(),
                shape=plan.shape,
                operation=operation,
                dtype=dtype,
            )
    return update_by_plan(
        x,
        value,
        *encoded.arrays,
        plan=plan,
        operation=operation,
        dtype=dtype,
        safe=encoded.safe,
        mode=mode,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        wrap=bool(wrap_negative_indices),
    )


@private_function
def update_masked(
    x: Prepared, mask: Prepared, value: Prepared, *, operation: Passed, dtype: Passed
) -> Any:
    """Updates where a mask of the leading dimensions is true, with one value for all."""
    aval = type_of(x)
    mask = broadcast_in_dim(mask, aval.shape, tuple(range(type_of(mask).ndim)))
    value = broadcasted(_convert(value, dtype), aval.shape)
    old = _convert(x, dtype)
    return _convert(select(mask, _OPERATIONS[operation][0](old, value), old), aval.dtype)


def _update_by_mask(x: Any, index: Any, value: Any, operation: str, dtype: Any) -> Any:
    """Updates by one boolean array, which may be traced; None for other indices.

    One value for all selected elements needs a `select` and no index.
    """
    if type(index) is tuple and len(index) == 1:
        index = index[0]
    if isinstance(index, (bool, np.bool_, int, slice)) or not hasattr(index, "dtype"):
        return None
    mask, aval, given = type_of(index), type_of(x), type_of(value).shape
    if mask.dtype != dtypes.bool_ or not mask.ndim or aval.shape[: mask.ndim] != mask.shape:
        return None
    if not _broadcasts(given, aval.shape[mask.ndim :]):
        return None
    return update_masked(x, index, value, operation=operation, dtype=dtype)


class UpdateOptions(TypedDict, total=False):
    """Keywords of every update; `AtIndex` says what they mean."""

    indices_are_sorted: bool
    unique_indices: bool
    mode: str | None
    wrap_negative_indices: bool


class At:
    """The class of `x.at`: index it, then call a method, as in `x.at[2:5].add(1)`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self.array, index)

    def __repr__(self) -> str:
        return f"At({self.array!r})"


def at(x: Any) -> At:
    """The property `x.at`, for updates of elements that return a new array.

    >>> jnp.zeros(4).at[1:3].set(5)
    Array([0., 5., 5., 0.], dtype=float32)
    """
    return At(x)


class AtIndex:
    """`x.at[index]`: its methods return the array with the selected elements changed.

    Where several entries of an index array name one element, `add`, `multiply`, `min`, `max` and
    those built on them count every one; of several values that `set` gives one element, one stays.

    Keywords of all methods: `mode` says what happens to entries of an index array that are out of
    bounds (None, "drop": left out; "clip": moved to the bounds; "promise_in_bounds": there are
    none); `indices_are_sorted` and `unique_indices` promise that to the compiler;
    `wrap_negative_indices=False` makes negative entries of index arrays out of bounds.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"AtIndex({self.array!r}, {self.index!r})"

    def _update(self, values: Any, operation: str, **options: Unpack[UpdateOptions]) -> Any:
        return update(self.array, self.index, values, operation, **options)

    def set(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with the selected elements replaced: `x[index] = values`."""
        return self._update(values, "set", **options)

    def add(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with values added: `x[index] += values`, repeated entries counted."""
        return self._update(values, "add", **options)

    def subtract(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with values subtracted: `x[index] -= values`, repeated entries counted."""
        return self._update(neg(convert_for(values, self.array)), "add", **options)

    def multiply(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with elements multiplied: `x[index] *= values`, repeated entries counted."""
        return self._update(values, "multiply", **options)

    mul = multiply

    def divide(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with elements divided: `x[index] /= values`, repeated entries counted."""
        return self._through_ones(values, "divide", **options)

    def power(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with elements raised: `x[index] **= values`, repeated entries counted."""
        return self._through_ones(values, "power", **options)

    def _through_ones(self, values: Any, operation: str, **options: Unpack[UpdateOptions]) -> Any:
        """Divides or raises by the product of all values for an element: `multiply` into ones."""
        values = _value(values, operation)
        x, y = promote_values(
            operation, *promote_operands(f".at[...].{operation}", self.array, values)
        )
        aval = type_of(self.array)
        dtype = type_of(x).dtype
        if operation == "divide" and dtype not in dtypes.INEXACT:
            dtype = dtypes.default_float()
        ones = broadcast_in_dim(dtype.type(1), aval.shape, ())
        factors = AtIndex(ones, self.index)._update(y, "multiply", **options)
        function = div if operation == "divide" else power
        return convert(function(convert(x, dtype), factors), aval.dtype)

    def min(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with the smaller of element and value: `minimum(x[index], values)`."""
        return self._update(values, "min", **options)

    def max(self, values: Any, **options: Unpack[UpdateOptions]) -> Any:
        """The array with the larger of element and value: `maximum(x[index], values)`."""
        return self._update(values, "max", **options)

    def apply(self, func: Callable[[Any], Any], **options: Unpack[UpdateOptions]) -> Any:
        """The array with a function applied to the selected elements.

        `func` is elementwise: it maps an array to an array of the same shape. It is applied to an
        element as often as entries of index arrays name it.
        """
        wrap = options.get("wrap_negative_indices", True)
        old = self.get(mode="clip", wrap_negative_indices=wrap)
        plan = plan_of(encode(self.index, type_of(self.array).shape).key, type_of(self.array).shape)
        most = math.prod(plan.index_shape) if plan.indexed else 1
        new = func(old)
        if most > 1 and not options.get("unique_indices", False):
            new = self._applied_again(func, convert(new, type_of(old).dtype), most, **options)
        return self._update(new, "set", **options)

    def _applied_again(
        self, func: Callable[[Any], Any], values: Any, most: int, **options: Unpack[UpdateOptions]
    ) -> Any:
        """Applies `func` again for elements that occur several times, at most `most`.

        Every entry of an element computes its last value.
        """
        none = broadcast_in_dim(np.int32(0), type_of(self.array).shape, ())
        counts = AtIndex(AtIndex(none, self.index).add(1, **options), self.index)
        wrap = options.get("wrap_negative_indices", True)
        times = counts.get(mode="clip", wrap_negative_indices=wrap)
        if type(times) is Array:
            most = int(np.max(np.asarray(times), initial=0))

        def again(i: Any, values: Any) -> Any:
            more = lt(i, times)
            # No derivative of the others passes through `func`, where it might be infinite.
            new = func(select(more, values, stop_gradient(values)))
            return select(more, convert(new, type_of(values).dtype), values)

        def some(i: Any) -> Any:
            return reduce_or(lt(i, times), tuple(range(type_of(times).ndim)))

        def step(i: Any, values: Any) -> Any:
            return conditionals.cond(some(i), again, lambda i, values: values, i, values)

        # Blocks of steps that are computed again for the derivative: values are kept for a block
        # and for a step of one block, twice the square root of their number instead of all.
        length = math.isqrt(most)

        def steps(first: Any, values: Any) -> Any:
            def one(i: Any, values: Any) -> Any:
                return step(add_(first, i), values)

            return loops.fori_loop(np.int32(0), np.int32(length), one, values)

        def block(number: Any, values: Any) -> Any:
            first = add_(mul(number, np.int32(length)), np.int32(1))
            kept = checkpoints.checkpoint(steps)
            return conditionals.cond(some(first), kept, lambda i, values: values, first, values)

        if most <= 16:
            return loops.fori_loop(np.int32(1), np.int32(max(most, 1)), step, values)
        return loops.fori_loop(np.int32(0), np.int32(-(-(most - 1) // length)), block, values)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        fill_value: Any = None,
        out_sharding: None = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The selected elements: `x[index]`, with a choice of what is out of bounds.

        `mode`: None and "clip" read the nearest element, "fill" gives `fill_value` (by default NaN,
        or the least integer, or the greatest one of an unsigned dtype).
        """
        _check_mode(mode, "get")
        refuse_sharding(".at[...].get", out_sharding)
        _check_flags("get", indices_are_sorted, unique_indices, wrap_negative_indices)
        if fill_value is not None and mode not in ("fill", "drop"):
            check_fill_is_read(fill_value, mode, ".at[...].get")
            fill_value = None
        aval = type_of(self.array)
        check_fits(fill_value, aval.dtype, ".at[...].get")
        index = self.index if wrap_negative_indices else _forbid_wraparound(self.index)
        encoded, plan = plan_index(index, aval.shape, mode)
        return take(
            self.array,
            encoded,
            plan,
            mode="fill" if mode == "drop" else mode,
            fill_value=_fill(fill_value),
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            wrap=bool(wrap_negative_indices),
        )


def _fill(value: Any) -> Any:
    """A fill value as a static number."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return value
    return np.asarray(value).item()


@private_function
def take_with(
    x: Prepared, *arrays: Prepared, plan: Passed, safe: Passed, fill: Passed, mode: Passed,
    indices_are_sorted: Passed, unique_indices: Passed, wrap: Passed,
) -> Any:  # fmt: skip
    """Reads with options, as one executable; `fill` is (class, fill value)."""
    return gather_by(
        take_static(x, plan),
        plan,
        arrays,
        safe=safe,
        fill_value=fill[1],
        mode=mode,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        wrap=wrap,
    )


def take(x: Any, encoded: Index, plan: IndexPlan, *, fill_value: Any, **options: Any) -> Any:
    """A read by a plan with the options of `.at[...].get`."""
    fill = (type(fill_value), fill_value)  # 1, 1.0 and True are equal
    return take_with(x, *encoded.arrays, plan=plan, safe=encoded.safe, fill=fill, **options)


def convert_for(values: Any, array: Any) -> Any:
    """Converts a value to be negated; Python numbers take the array's dtype if they can."""
    values = _value(values, "subtract")
    dtype = _common_dtype(type_of(array), values)
    return _convert(number_for(values, dtype, ".at[...].subtract"), dtype)
