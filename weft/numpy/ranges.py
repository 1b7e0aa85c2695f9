"""Arrays of regular sequences: ranges, grids, triangles of ones.

Ranges need numbers that are known while tracing; the ends of `linspace` and its relatives may be
arrays.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal, overload

import numpy as np

from weft import dtypes
from weft.arrays.array import Array, put
from weft.arrays.conversion import WIDE, as_array, mark_rounded
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import integer_of, refusal
from weft.kinds.arguments import NEVER, DType, Flag, Integer, Length, Operand, Shape, operand_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    axis_of,
    broadcast_shape,
    broadcasted,
    check_arrays,
    convert,
    inexact,
    length_of,
    promote_values,
)
from weft.kinds.compiled_functions import is_eager
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import canonical_type, in_dtype
from weft.numpy.creation import _SMALL, _placed
from weft.numpy.elementwise import constant_like
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import powers, rounding
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.structural.shape import broadcast_in_dim, move_dim

__all__ = ["arange", "eye", "geomspace", "identity", "linspace", "logspace", "tri", "tril", "triu"]


def _end(value: Any, call: Arguments) -> Any:
    check_arrays(value, argument=call.name)
    # Not rounded to the default width first, where a wider dtype is asked for.
    wide = call["dtype"] in WIDE and type(value) in _REAL
    return in_dtype(value, dtypes.float64) if wide else value


def _of_matrix(value: Any, call: Arguments) -> Any:
    call.reads = call.reads or isinstance(value, (Array, np.ndarray))
    k = _diagonal(value, call.type.shape)
    if isinstance(k, Tracer):
        return k
    return as_array(np.int32(k)) if is_eager() else np.int32(k)


def _new_axis(value: Any, call: Arguments) -> int:
    rank = max(canonical_type(call[name]).ndim for name in ("start", "stop"))
    return axis_of(value, rank + 1)


_REAL = (int, float)
_end_kind = dataclasses.replace(
    operand_kind, take=_end, late=True, together=lambda operation, values: values
)
End = Annotated[Any, _end_kind]
NewAxis = Annotated[int, Kind(_new_axis, "a new axis", (99, 0.5), plain=NEVER, late=True)]
_diagonal_kind = Kind(
    _of_matrix, "an integer, which may be traced", ("text", 0.5, None), 1, static=False, plain=NEVER
)
Diagonal = Annotated[int, _diagonal_kind]


def _on_device(value: np.ndarray[Any, Any]) -> Any:
    return put(value, ArrayType(value.shape, value.dtype))


def _static(value: Any, argument: str) -> Any:
    """A concrete number. Raises WeftTypeError, WeftValueError or ShapeError for other values."""
    if isinstance(value, Tracer):
        known = value.concrete()
        if known is None:
            message = f"arange: {argument} is traced, and the length of the result depends on it"
            got, wanted = f"{argument}: {value.describe()}", "numbers that are known while tracing"
            text = "make it a static argument (jit's static_argnums or static_argnames)"
            fix = Fix("static_argument", text, {"argument": argument})
            raise refusal(WeftTypeError, message, "arange", got, wanted, fix)
        value = known
    check_arrays(value, operation="arange")
    of = canonical_type(value)
    if of.dtype in dtypes.COMPLEX:
        message = "arange takes no complex numbers"
        raise refusal(WeftValueError, message, "arange", f"{argument}={value!r}")
    if of.shape:
        message = "arange takes numbers, not arrays with dimensions"
        raise refusal(ShapeError, message, "arange", f"{argument}: {of}", "a number")
    return value


_PLAIN = {int, float, type(None)}


def _range_dtype(values: list[Any]) -> Any:
    """The dtype to which numbers promote; Python numbers are weakly typed."""
    pairs = []
    for value in values:
        of = canonical_type(value)
        known = hasattr(value, "type") or not isinstance(value, np.generic)
        pairs.append((of.dtype if known else dtypes.canonical(of.dtype), of.weak_type))
    dtype = dtypes.promote(*pairs)[0]
    return dtypes.default_int() if dtype in dtypes.BOOLEAN else dtype


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The numbers from `start` (0 where only one number is given) up to `stop`, exclusive.

    The numbers are known while tracing. step: the distance from one number to the next, by default
    1; if it is negative, the numbers fall. Raises WeftTypeError if one is traced, ZeroDivisionError
    for a step of 0.

    >>> arange(3)
    Array([0, 1, 2], dtype=int32)
    >>> arange(1, 2, 0.25)
    Array([1.  , 1.25, 1.5 , 1.75], dtype=float32)
    """
    if stop is None:
        start, stop = 0, start
    if type(start) is type(stop) is int and (step is None or type(step) is int):
        first, last, by = start, stop, 1 if step is None else step
        wanted = dtypes.default_int() if dtype is None else dtypes.requested(dtype)
    elif dtype is None and {type(start), type(stop), type(step)} <= _PLAIN:
        for number in (start, stop, step):
            if type(number) is int:
                type_of(number)  # raises where it does not fit
        first, last, by = start, stop, 1 if step is None else step
        wanted = dtypes.default_float()
    else:
        first, last = _static(start, "start"), _static(stop, "stop")
        by = 1 if step is None else _static(step, "step")
        numbers = [first, last] if step is None else [first, last, by]
        wanted = _range_dtype(numbers) if dtype is None else dtypes.requested(dtype)
        first, last, by = (x.item() if hasattr(x, "item") else x for x in (first, last, by))
    if by == 0:
        raise ZeroDivisionError("arange: the step is 0")
    _check_finite(start=first, stop=last, step=by)
    out = _range(first, last, by, wanted)
    return _placed(mark_rounded(out) if dtype is None else out, device, out_sharding)


def _check_finite(**numbers: Any) -> None:
    """Raises WeftValueError for a NaN or infinite range."""
    for name, value in numbers.items():
        # An infinite step ends the range after the first number.
        endless = math.isinf(value) and name != "step" if isinstance(value, float) else False
        if endless or value != value:
            message = f"arange: {name} is {value}, so that there is no last number"
            got = ", ".join(f"{key}={x!r}" for key, x in numbers.items())
            fix = Fix("linspace", "for a number of values use weft.numpy.linspace", {})
            raise refusal(WeftValueError, message, "arange", got, "finite numbers", fix)


def _range(first: Any, last: Any, by: Any, dtype: Any) -> Any:
    if not (isinstance(first, int) and isinstance(by, int)):
        if not (_is_whole(first) and _is_whole(by) and math.isfinite(last)):
            with np.errstate(over="ignore"):
                return _on_device(np.arange(first, last, by).astype(dtype))
        first, by = int(first), int(by)
    if not isinstance(last, int):
        last = math.ceil(last) if by > 0 else math.floor(last)
    size = len(range(first, last, by))
    end = first + (size - 1) * by
    if dtype.kind in "iu":
        low, high = dtypes.limits(dtype)
        fits = low <= first <= high and low <= end <= high
        if size and not fits and not dtypes.keeps_low_bits():
            beyond = end if low <= first <= high else first
            raise dtypes.does_not_fit(beyond, dtype, "dtype")
        if size > _ON_HOST or not is_eager():
            return _integer_range(size, first, by, dtype)
        if first == 0 and by == 1:
            return _on_device(np.arange(size, dtype=dtype))
        out = np.arange(size, dtype=np.uint64) * _modulo_64_bits(by) + _modulo_64_bits(first)
        return _on_device(out.astype(dtype))
    if dtype in _PRECISE and size > _ON_HOST:
        low, high = dtypes.limits(dtypes.int32)
        if low <= first <= high and low <= end <= high:
            return _real_range(size, first, by, dtype)
    elif dtype in _PRECISE and first == 0 and by == 1:
        return _on_device(np.arange(size, dtype=dtype))
    return _on_device((np.arange(size, dtype=np.int64) * by + first).astype(dtype))


# Longer ranges are counted by an executable for their length: from about here on, NumPy and the
# copy to the device take longer than running it.
_ON_HOST = 1 << 14
# Dtypes that hold the whole numbers of every range that is made on the host exactly.
_PRECISE = {np.dtype(np.float32), np.dtype(np.float64)}


def _is_whole(value: Any) -> bool:
    # Up to 2**53 every whole number is a float64.
    return isinstance(value, int) or (abs(value) <= 2**53 and value.is_integer())


def _modulo_64_bits(value: int) -> Any:
    """A number modulo 2**64: sums of these are exact where they fit in the dtype."""
    return np.uint64(value % 2**64)


@array_function
def _integer_range(size: Integer, first: Integer, by: Integer, dtype: DType) -> Any:
    out = broadcasted_iota(dtype, (size,), 0)
    out = out if by == 1 else out * _modulo_64_bits(by).astype(dtype)
    return out + _modulo_64_bits(first).astype(dtype) if first else out


@array_function
def _real_range(size: Integer, first: Integer, by: Integer, dtype: DType) -> Any:
    return convert_element_type(_integer_range(size, first, by, dtypes.int32), dtype)


@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = ...,
    endpoint: bool = ...,
    retstep: Literal[False] = ...,
    dtype: Any = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Array: ...
@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = ...,
    endpoint: bool = ...,
    *,
    retstep: Literal[True],
    dtype: Any = ...,
    axis: int = ...,
    device: Any = ...,
) -> tuple[Array, Array]: ...
@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = ...,
    endpoint: bool = ...,
    retstep: bool = ...,
    dtype: Any = ...,
    axis: int = ...,
    *,
    device: Any = ...,
) -> Any: ...
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, which is the last one with `endpoint`.

    num: how many numbers; endpoint: whether `stop` is the last one, or is left out. The ends may be
    arrays; `axis` then says where the new dimension is. With `retstep` the result is a pair with
    the distance. Raises ValueError for a negative `num`.

    >>> linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    known = type(start) in _REAL and type(stop) in _REAL
    if known and (num := length_of(num, "num", operation="linspace")) <= _SMALL:
        check_flags("linspace", endpoint=endpoint, retstep=retstep)
        axis_of(axis, 1, "linspace")
        values, step = _known_linspace(start, stop, num, bool(endpoint), dtype)
        out = _placed(_on_device(values), device)
        if dtype is None:
            mark_rounded(out)
        return (out, _on_device(step)) if retstep else out
    out = _linspace(start, stop, num, endpoint, retstep, dtype, axis)
    if device is None:
        return out
    return (_placed(out[0], device), out[1]) if retstep else _placed(out, device)


@array_function
def _linspace(
    start: End,
    stop: End,
    num: Length = 50,
    endpoint: Flag = True,
    retstep: Flag = False,
    dtype: DType = None,
    axis: NewAxis = 0,
) -> Any:
    """`linspace` of ends that may be arrays."""
    ends, wanted, computed = _ends(start, stop, dtype)
    out, step = _evenly_spaced(*ends, num, endpoint, axis, computed)
    out = convert_element_type(rounding.floor(out) if wanted.kind in "iu" else out, wanted)
    return (out, step) if retstep else out


def _known_linspace(
    start: float, stop: float, num: int, endpoint: bool, dtype: Any
) -> tuple[Any, Any]:
    """`linspace` between concrete numbers, exact to rounding, and the step."""
    wanted = dtypes.default_float() if dtype is None else dtypes.requested(dtype)
    real = wanted if wanted in dtypes.FLOATING else dtypes.default_float()
    # 1e300 in float32 is infinity, and so is the distance of -1e308 and 1e308.
    with np.errstate(over="ignore", invalid="ignore"):
        out, step = _even_values(float(start), float(stop), num, endpoint)
        out = (np.floor(out) if wanted.kind in "iu" else out).astype(wanted)
        return out, np.asarray(step, real)


def _even_values(start: float, stop: float, num: int, endpoint: bool) -> tuple[Any, float]:
    """`np.linspace` and the step, in a fifth of its time."""
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts > 0 else math.nan
    out = np.arange(num, dtype=np.float64)
    if parts > 0 and step:
        out *= step
    elif parts > 0:  # The distance is 0 or underflows.
        out /= parts
        out *= stop - start
    out += start
    if endpoint and num > 1:
        out[-1] = stop
    return out, step


def _ends(start: Any, stop: Any, dtype: Any) -> tuple[tuple[Any, Any], Any, Any]:
    """The ends in one shape, the dtype of the result, and that of the computation."""
    start, stop = promote_values("", start, stop)
    computed = inexact(start.dtype)
    wanted = computed if dtype is None else dtype
    if wanted in dtypes.INEXACT:
        computed = dtypes.promote((computed, False), (wanted, False))[0]
    shape = broadcast_shape(start.shape, stop.shape)
    first, last = (broadcasted(convert_element_type(x, computed), shape) for x in (start, stop))
    return (first, last), wanted, computed


def _evenly_spaced(
    start: Any, stop: Any, num: int, endpoint: bool, axis: int, computed: Any
) -> tuple[Any, Any]:
    """`num` evenly spaced values along a new axis, and their distance."""
    shape = start.shape
    parts = num - 1 if endpoint else num
    real = dtypes.to_real(computed)
    if parts > 0:
        step = (stop - start) / parts
        column = (num,) + (1,) * len(shape)
        fraction = convert_element_type(broadcasted_iota(dtypes.int32, column, 0), real) / parts
        fraction = broadcasted(convert_element_type(fraction, computed), (num, *shape))
        first, last = (_repeat(x, num) for x in (start, stop))
        # A weighted mean stays within the ends where start + i * step may leave them.
        out = first * (1 - fraction) + last * fraction
        if endpoint:
            index = broadcasted(broadcasted_iota(dtypes.int32, column, 0), (num, *shape))
            out = select(index == np.int32(num - 1), last, out)
    else:
        step = real.type(math.nan)  # Of no shape, as in NumPy.
        out = _repeat(start, num)
    return move_dim(out, 0, axis, num), step


def _repeat(x: Any, num: int) -> Any:
    return broadcast_in_dim(x, (num, *x.shape), tuple(range(1, x.ndim + 1)))


@array_function
def logspace(
    start: End,
    stop: End,
    num: Length = 50,
    endpoint: Flag = True,
    base: End = 10.0,
    dtype: DType = None,
    axis: NewAxis = 0,
) -> Array:
    """`num` numbers from base**start to base**stop whose logarithms are evenly spaced.

    start, stop: the exponents of the ends; endpoint: whether the second end is the last number, or
    is left out; base: what is raised to the exponents.

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    ends, wanted, computed = _ends(start, stop, dtype)
    exponents, _ = _evenly_spaced(*ends, num, endpoint, axis, computed)
    base = convert_element_type(base, computed)
    shape = broadcast_shape(base.shape, exponents.shape)
    out = powers.pow(broadcasted(base, shape), broadcasted(exponents, shape))
    return convert_element_type(out, wanted)


@array_function
def geomspace(
    start: End,
    stop: End,
    num: Length = 50,
    endpoint: Flag = True,
    dtype: DType = None,
    axis: NewAxis = 0,
) -> Array:
    """`num` numbers from `start` to `stop` in constant proportion; the ends have one sign.

    endpoint: whether `stop` is the last number, or is left out.

    >>> geomspace(1, 8, 4, dtype="int32")
    Array([1, 2, 4, 8], dtype=int32)
    """
    (first, last), wanted, computed = _ends(start, stop, dtype)
    ratio = last / first
    exponents, _ = _evenly_spaced(
        constant_like(0, first), lax.log(ratio), num, endpoint, 0, computed
    )
    out = _repeat(first, num) * lax.exp(exponents)
    index = broadcasted_iota(dtypes.int32, out.shape, 0)
    out = select(index == np.int32(0), _repeat(first, num), out)
    if endpoint and num > 1:
        out = select(index == np.int32(num - 1), _repeat(last, num), out)
    out = move_dim(out, 0, axis, num)
    if wanted.kind in "iu":
        # Values that are whole but for rounding are meant to be whole.
        out = rounding.floor(out * (1 + 4 * float(dtypes.finfo(computed).eps)))
    return convert_element_type(out, wanted)


def _lengths(n: Any, m: Any) -> tuple[int, int]:
    rows = integer_of(n, "N")
    columns = rows if m is None else integer_of(m, "M")
    if rows < 0 or columns < 0:
        got = f"{rows} rows and {columns} columns"
        raise WeftValueError("a length is negative", got=got, wanted="lengths of at least 0")
    return rows, columns


@array_function
def _banded(k: Operand, shape: Shape, dtype: DType, below: Flag) -> Any:
    return convert_element_type(_inside(shape, k, below), dtype)


def _inside(shape: tuple[int, ...], k: Any, below: bool) -> Any:
    """The mask of the k-th diagonal, or also of the elements below it."""
    n = len(shape)
    rows, columns = (broadcasted_iota(dtypes.int32, shape, d) for d in (n - 2, n - 1))
    rows = rows + k
    return rows >= columns if below else rows == columns


def _diagonal(k: Any, shape: tuple[int, ...]) -> Any:
    """The number of a diagonal, which may be traced."""
    if isinstance(k, Tracer) and k.concrete() is None:
        of = type_of(k)
        if of.shape or of.dtype not in dtypes.INTEGER:
            got, wanted = f"k={k!r:.80}", "an integer without dimensions"
            raise WeftTypeError("k is an integer", got=got, wanted=wanted)
        return k
    # All offsets beyond the matrix have the same effect.
    most = max(shape, default=0) + 1
    return max(-most, min(integer_of(k, "k"), most))


def _band(shape: tuple[int, int], k: Any, dtype: Any, below: bool) -> Any:
    wanted = dtypes.default_float() if dtype is None else dtypes.requested(dtype)
    k = _diagonal(k, shape)
    if is_eager() and shape[0] * shape[1] <= _SMALL:
        out = np.tri(*shape, k) if below else np.eye(*shape, k)
        return _on_device(out.astype(wanted))
    k = np.int32(k) if type(k) is int else convert_element_type(k, dtypes.int32)
    return _banded(k, shape, wanted, below)


@api_boundary
def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """A matrix of N rows and M columns (N where None) with ones on a diagonal and zeros elsewhere.

    N: the number of rows; M: the number of columns. k: the number of the diagonal, counted upwards
    from the main one.

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    return _placed(_band(_lengths(N, M), k, dtype, below=False), device)


def identity(n: int, dtype: Any = None) -> Array:
    """The square matrix of n rows with ones on its diagonal.

    n: the number of rows and of columns.

    >>> identity(2, "int32")
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype)


@api_boundary
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Array:
    """A matrix with ones on and below a diagonal and zeros above.

    N: the number of rows; M: the number of columns. k: the number of the diagonal, counted upwards
    from the main one.

    The result has shape (N, M), M being N by default, and is float32 if no dtype is given. Raises
    WeftValueError for a negative length.

    >>> tri(2, 3, dtype="int32")
    Array([[1, 0, 0],
           [1, 1, 0]], dtype=int32)
    """
    return _band(_lengths(N, M), k, dtype, below=True)


def _triangle_of(m: Any, k: Any, lower: bool) -> Any:
    shape = m.shape
    if len(shape) < 2:
        rows = (*shape, 1)[0]
        text = f"repeat it as rows: weft.numpy.broadcast_to(m, ({rows}, {rows}))"
        raise ShapeError(
            "a triangle is one of an array of at least two dimensions",
            got=str(m.type),
            wanted="at least two dimensions",
            fix=Fix("reshape", text),
        )
    k = convert(k, dtypes.int32)
    inside = _inside(shape, k if lower else k - np.int32(1), below=True)
    zero = constant_like(0, m)
    return select(inside, m, zero) if lower else select(inside, zero, m)


@array_function
def tril(m: Operand, k: Diagonal = 0) -> Array:
    """The elements of matrices on and below a diagonal, zeros above.

    m: an array of two dimensions or more. k: the number of the diagonal, counted upwards from the
    main one.

    >>> tril(np.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle_of(m, k, lower=True)


@array_function
def triu(m: Operand, k: Diagonal = 0) -> Array:
    """The elements of matrices on and above a diagonal, zeros below.

    m: an array of two dimensions or more. k: the number of the diagonal, counted upwards from the
    main one.

    >>> triu(np.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle_of(m, k, lower=False)
