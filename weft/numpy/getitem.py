"""`x[...]`: under a transformation by its plan, and of an array, called eagerly, as one executable.

A static index that was used before costs one look-up in a dictionary. Windows of one size share an
executable wherever they start; a mask, whose result has as many elements as it has true values,
is applied on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import config
from weft.arrays.array import Array, put
from weft.base.program_caches import BoundedCache
from weft.core.trace import current_variable
from weft.core.types import ArrayType, type_of
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.lowering.executables import Run
from weft.lowering.placement import joint_place
from weft.numpy.indexing import IndexPlan, index_array, plan_index
from weft.ops.indexing.dynamic_slicing import dynamic_slice
from weft.ops.structural import extended_dtypes
from weft.ops.structural.shape import reshape
from weft.refs.index import has_windows, read, with_moved_starts

_trace = current_variable.get
_BOUNDS = frozenset({int, type(None)})


@private_function
def take_window(x: Prepared, *starts: Prepared, dims: Passed, sizes: Passed, shape: Passed) -> Any:
    """A window of static sizes, whose start may be an operand in some dimensions."""
    begin: list[Any] = [np.int32(0)] * len(sizes)
    for dim, start in zip(dims, starts, strict=True):
        begin[dim] = start
    return reshape(dynamic_slice(x, begin, sizes, allow_negative_indices=False), shape)


@private_function
def take_by_plan(x: Prepared, *arrays: Prepared, plan: Passed, safe: Passed) -> Any:
    """Indexing by a plan, as one executable."""
    return index_array(x, plan, arrays, safe)


# By an array's signature and an index, the `Run` of its executable and the operands besides the
# array. The settings are no part of the key: no index depends on them, and none makes a NaN.
_eager = BoundedCache(10_000)
_starts = BoundedCache(10_000)


def start_array(value: int) -> Array:
    """A cached array of a window's start, since loops use the same starts again."""
    out: Array | None = _starts.get(value)
    if out is None:
        dtype = np.dtype(np.int32 if value < 2**31 else np.int64)
        out = _starts[value] = put(np.asarray(value, dtype), ArrayType((), dtype))
    return out


def _static_call(x: Array, plan: IndexPlan) -> tuple[Run, list[Any]]:
    """The `Run` of a static index, and its operands besides the array."""
    if plan.unit and not plan.whole:
        # The start is an operand, so that a loop over windows compiles once.
        dims = tuple(d for d, size in enumerate(plan.sliced_shape()) if size != x.shape[d])
        starts = [start_array(plan.starts[d]) for d in dims]
        sizes, shape = plan.sliced_shape(), plan.shape
        run = take_window.run_of(x, *starts, dims=dims, sizes=sizes, shape=shape)
        return run, [s._buffer for s in starts]
    return take_by_plan.run_of(x, plan=plan, safe=True), []


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`: elements, slices and gathers of an array, as NumPy's indexing.

    A static index out of bounds raises WeftIndexError; index values that are not known while
    tracing are clamped to the bounds (use `x.at[index].get(mode=...)` for other semantics).
    """
    # Random keys whose reuse is checked are followed through operations.
    followed = config.looking and extended_dtypes.is_key(x)
    if _trace(None) is None and type(x) is Array and not followed:
        # Static indices of an array: one dictionary look-up. Integers and slices only.
        try:
            if type(index) is int:
                key: Any = (x.signature, index)
            elif type(index) is slice:
                key = (x.signature, *_bounds(index))
            else:
                key = (x.signature, _quick_key(index))
            if config.settings_in_keys:
                key = (*key, config.settings().of_operations)
            run, starts = _eager[key]
        except (KeyError, TypeError):
            run = None
        return _getitem_eagerly(x, index) if run is None else run([x._buffer, *starts], (x,))
    if has_windows(index):
        return read(x, with_moved_starts(index))
    aval = type_of(x)
    encoded, plan = plan_index(index, aval.shape)
    return index_array(x, plan, encoded.arrays, encoded.safe)


def _bounds(part: slice) -> tuple[Any, Any, Any]:
    """The bounds and the step of a slice.

    Raises TypeError unless they are integers or None: as keys 1, 1.0 and True are equal, and only
    the first is a bound.
    """
    start, stop, step = part.start, part.stop, part.step
    if type(start) in _BOUNDS and type(stop) in _BOUNDS and type(step) in _BOUNDS:
        return start, stop, step
    raise TypeError


def _quick_key(index: Any) -> Any:
    """A tuple of integers, slices, None and Ellipsis as a key. Raises TypeError for others."""
    if type(index) is not tuple:  # A list of the same entries is an index array.
        raise TypeError
    key: list[Any] = []
    for part in index:
        kind = type(part)
        if kind is slice:
            key.append(_bounds(part))
        elif kind is int or part is None or part is Ellipsis:
            key.append(part)
        else:
            raise TypeError
    return tuple(key)


def _getitem_eagerly(x: Array, index: Any) -> Any:
    x._live()
    if _is_mask(index, x) and isinstance(x.dtype, np.dtype):
        # Only the values of the mask tell the size of the result, which an executable fixes: so
        # this runs on the host, where those values have to go anyway.
        value = np.asarray(x)[np.asarray(index)]
        return put(value, x.type.update(shape=value.shape), joint_place([x], "indexing"))
    if has_windows(index):
        return read(x, with_moved_starts(index))
    encoded, plan = plan_index(index, x.shape)
    if not encoded.arrays and not plan.index_shape:
        if plan.whole and plan.shape == x.shape:
            return x
        run, starts = _static_call(x, plan)
        key = _static_index_key(x, index)
        if key is not None:
            _eager[key] = run, starts
        return run([x._buffer, *starts], (x,))
    return take_by_plan(x, *encoded.arrays, plan=plan, safe=encoded.safe)


def _static_index_key(x: Array, index: Any) -> Any:
    """The key of a static index in the cache of `getitem`, or None for other indices."""
    try:
        if type(index) is int:
            key: Any = (x.signature, index)
        elif type(index) is slice:
            key = (x.signature, *_bounds(index))
        elif type(index) is tuple:
            key = (x.signature, _quick_key(index))
        else:
            return None
    except TypeError:
        return None
    return (*key, config.settings().of_operations) if config.settings_in_keys else key


def _is_mask(index: Any, x: Array) -> bool:
    """Whether an index is one boolean array over the leading dimensions of `x`."""
    if type(index) not in (Array, np.ndarray) or index.dtype != np.bool_ or not index.ndim:
        return False
    return x.shape[: index.ndim] == index.shape
