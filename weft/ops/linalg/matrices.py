"""Shared parts of the operations on matrices: types, batching, LAPACK calls and products.

The last two dimensions of an operand are a matrix's; all before are batch dimensions, which the
operands of an operation have in common, so `vmap` puts one more batch dimension in front. On CPUs
factorizations are LAPACK's (https://netlib.org/lapack), on NVIDIA GPUs cuSOLVER's; where they fail,
the result is NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft import dtypes
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftNotImplementedError, WeftTypeError
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import eq, ge, le, mul, sub
from weft.ops.elementwise.complex import conj
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full_like, zeros_like_array
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.indexing.slicing import slice as slice_
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import batch_matmul
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reshape, transpose
from weft.ops.structural.tangents import jointly_linear_jvp
from weft.runtime import cusolver, lapack, stablehlo

ACCEPTED = frozenset({dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128})
"""The dtypes that LAPACK has routines for."""


# ---- types -------------------------------------------------------------------------------------


def check_matrix(x: ArrayType, square: bool = False) -> None:
    """Raises DTypeError and ShapeError for a type that is not of matrices that LAPACK takes."""
    if x.dtype not in ACCEPTED:
        message = f"does not take {x.dtype}"
        wanted = "float32, float64, complex64 or complex128"
        fix = to_dtype("x", x.dtype, dtypes.float32)
        raise DTypeError(message, got=str(x), wanted=wanted, fix=fix)
    if x.ndim < 2:
        rows = math.isqrt(x.size) if square else x.size
        columns = rows if square else 1
        fix = Fix("reshape", f"reshape it: x.reshape({rows}, {columns})")
        raise ShapeError(
            "takes matrices",
            got=f"{x} with {x.ndim} dimensions",
            wanted="2 dimensions or more; all before the last two are batch dimensions",
            fix=fix if rows * columns == x.size else None,
        )
    if square and x.shape[-1] != x.shape[-2]:
        wanted = "last two dimensions of equal size"
        raise ShapeError("takes square matrices", got=str(x), wanted=wanted)


def check_dtypes(first: str, x: ArrayType, second: str, y: ArrayType) -> None:
    """Raises DTypeError for two operands, given with their names, of different dtypes."""
    if x.dtype != y.dtype:
        message, got = "takes operands of one dtype", f"{first} {x} and {second} {y}"
        fix = (
            to_dtype(first, x.dtype, y.dtype)
            if dtypes.is_complex(y.dtype)
            else to_dtype(second, y.dtype, x.dtype)
        )
        raise DTypeError(message, got=got, wanted="equal dtypes", fix=fix)


def factor_types(x: ArrayType, *results: tuple[Sequence[int], Any]) -> list[ArrayType]:
    """The types of the results of a factorization of x, from their shapes and dtypes."""
    return [result_type((x,), shape, dtype) for shape, dtype in results]


# ---- declaring ---------------------------------------------------------------------------------


def matrix_primitive(
    name: str,
    *,
    type_rule: Callable[..., Any],
    lower: Callable[..., Any],
    jvp: Callable[..., Any] | None = None,
    transpose: Callable[..., Any] | None = None,
    vmap: Callable[..., Any] | None = None,
    multiple_results: bool = False,
    **facts: Any,
) -> Primitive:
    """A primitive over matrices, which is mapped by one more batch dimension of all operands."""
    made = Primitive(name, multiple_results)
    return primitive(
        made,
        type_rule=type_rule,
        lower=lower,
        jvp=jvp,
        transpose=transpose,
        vmap=functools.partial(batch_in_front, made) if vmap is None else vmap,
        **facts,
    )


def batch_in_front(
    made: Primitive, axis: AxisData, args: Values, dims: Dims, **params: Any
) -> tuple[Any, Any]:
    """The vmap rule: moves mapped dimensions to the front and repeats unmapped operands."""
    values = [move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
    outs = made.bind(*values, **params)
    return (outs, [0] * len(outs)) if made.multiple_results else (outs, 0)


# ---- lowering ----------------------------------------------------------------------------------


INFO = ((), dtypes.int32)
"""The result by which a routine of LAPACK reports failure, for each matrix."""


def lapack_call(
    context: Any,
    routine: str,
    operands: Sequence[Any],
    results: Sequence[tuple[Sequence[int], Any]],
    aliases: Mapping[int, int] | None = None,
    **attributes: Any,
) -> list[Any]:
    """Calls a routine of LAPACK, or its equivalent on NVIDIA GPUs.

    `results` are shapes behind the batch dimensions, and dtypes. At least one operand has matrices,
    the others may have vectors. `aliases` are the operands that results overwrite, by default the
    first by the first. Raises WeftNotImplementedError on other platforms, and without an
    equivalent.
    """
    batch = tuple(max((x.type.shape for x in operands), key=len)[:-2])
    types = [stablehlo.tensor_type((*batch, *shape), dtype) for shape, dtype in results]
    aliases = {0: 0} if aliases is None else aliases
    if context.platform == "cuda" and cusolver.has(routine, attributes):
        return cusolver.call(
            routine, operands, types,
            num_batch_dims=len(batch), attributes=attributes, aliases=aliases,
        )  # fmt: skip
    if context.platform != "cpu":
        name = context.primitive.name
        message = f"{name} is not there on {context.platform}"
        got = f"a program for {context.platform}"
        wanted = "a program for the CPU, where LAPACK computes it"
        fix = Fix("cpu", "compute it on a CPU: jit(f, backend='cpu')", {"platform": "cpu"})
        raise WeftNotImplementedError(message, operation=name, got=got, wanted=wanted, fix=fix)
    return lapack.call(
        routine,
        stablehlo.dtype_of(operands[0].type.element_type),
        operands,
        types,
        num_batch_dims=len(batch),
        attributes=attributes,
        aliases=aliases,
        num_devices=context.module.devices_to_split_over(),
        split_rows=context.module.split_rows,
    )


def nan_where_failed(info: Any, value: Any) -> Any:
    """A result, replaced by NaN for matrices whose `info` reports failure."""
    dtype = stablehlo.dtype_of(value.type.element_type)
    if dtype not in dtypes.INEXACT:
        return value
    shape = tuple(value.type.shape)
    zero = stablehlo.full(0, tuple(info.type.shape), dtypes.int32)
    fine = stablehlo.compare(info, zero, "EQ")
    mask = stablehlo.broadcast_in_dim(fine, shape, tuple(range(info.type.rank)))
    nan = complex("nan+nanj") if dtype in dtypes.COMPLEX else float("nan")
    return stablehlo.select(mask, value, stablehlo.full(nan, shape, dtype))


def identity(shape: tuple[int, ...], dtype: Any) -> Any:
    """Ones on the diagonal of each matrix of a shape, zeros elsewhere, as a value of MLIR."""
    return stablehlo.convert(_places_compared(shape, "EQ"), dtype)


def kept_triangle(x: Any, lower: bool) -> Any:
    """The triangle of each matrix with its diagonal, zero elsewhere, as a value of MLIR."""
    shape = tuple(x.type.shape)
    dtype = stablehlo.dtype_of(x.type.element_type)
    kept = _places_compared(shape, "LE" if lower else "GE")
    return stablehlo.select(kept, x, stablehlo.full(0, shape, dtype))


def _places_compared(shape: tuple[int, ...], direction: str) -> Any:
    """Compares the column of every element with its row."""
    rows, columns = (stablehlo.iota(shape, dtypes.int32, len(shape) + dim) for dim in (-2, -1))
    return stablehlo.compare(columns, rows, direction)


# ---- matrices in rules -------------------------------------------------------------------------


def no_derivative(operation: str, got: str, wanted: str, fix: Fix) -> WeftNotImplementedError:
    """The error for a derivative that does not exist or is not implemented."""
    return WeftNotImplementedError(
        f"{operation} has no derivative here", operation=operation, got=got, wanted=wanted, fix=fix
    )


def no_derivative_rule(operation: str) -> Callable[..., Any]:
    """The jvp rule of a decomposition without a derivative: it raises."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> Any:
        raise no_derivative(
            operation,
            f"a derivative by an operand {type_of(primals[0])}",
            "eigh, eig, svd or qr, which are differentiated, or lax.stop_gradient around the "
            "operand",
            Fix("stop_gradient", "pass weft.lax.stop_gradient(x) to keep it out of the derivative"),
        )

    return jvp


def linear_only(operation: str, operand: str, other: str) -> WeftTypeError:
    """The error for a transpose in an operand in which an operation is not linear."""
    message, got = f"{operation} is linear in {operand} only", f"a transpose in {other}"
    return WeftTypeError(message, operation=operation, got=got, wanted=f"a transpose in {operand}")


def pass_thin() -> Fix:
    """The fix that asks for a factorization without arbitrary columns."""
    return Fix("full_matrices", "pass full_matrices=False", {"full_matrices": False})


def no_algorithm(got: str, wanted: str) -> WeftNotImplementedError:
    """The error for an algorithm that is not implemented; `got` is the argument with its value."""
    message = "is not computed that way here"
    fix = Fix("leave_out", f"leave out {got.partition('=')[0]}: LAPACK computes it")
    return WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)


def matmul(x: Any, y: Any) -> Any:
    """Products of matrices with equal batch dimensions, at full precision."""
    return batch_matmul(x, y, "highest")


def transpose_matrices(x: Any) -> Any:
    """Each matrix transposed."""
    ndim = type_of(x).ndim
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def conjugate(x: Any) -> Any:
    """The complex conjugate; real numbers stay as they are."""
    return conj(x) if type_of(x).dtype in dtypes.COMPLEX else x


def adjoint(x: Any) -> Any:
    """Each matrix transposed and conjugated."""
    return conjugate(transpose_matrices(x))


def part(x: Any, rows: tuple[int, int] | None, columns: tuple[int, int] | None = None) -> Any:
    """The rows and columns of each matrix between a start and a stop; None for all."""
    shape = type_of(x).shape
    (top, bottom), (left, right) = rows or (0, shape[-2]), columns or (0, shape[-1])
    start = (*(0 for _ in shape[:-2]), top, left)
    return slice_(x, start, (*shape[:-2], bottom, right))


def permute_matrix(x: Any, order: Any, axis: int) -> Any:
    """The rows (axis -2) or columns (axis -1) of each matrix in the order of a permutation."""
    aval, count = type_of(x), type_of(order).shape[-1]
    if 0 in aval.shape:  # a gather would read a row that does not exist
        return x
    batch = tuple(range(aval.ndim - 2))
    moved, whole = (aval.ndim + d for d in ((-2, -1) if axis == -2 else (-1, -2)))
    sizes = [1] * aval.ndim
    sizes[whole] = aval.shape[whole]
    return gather(
        x,
        reshape(order, (*aval.shape[:-2], count, 1)),
        GatherDimensionNumbers((whole,), (moved,), (moved,), batch, batch),
        sizes,
        unique_indices=True,
        mode="promise_in_bounds",
    )


def triangle(x: Any, lower: bool = True, offset: int = 0) -> Any:
    """Each matrix's part on and below (or above) the diagonal `offset`, zero elsewhere."""
    rows, columns = _places(type_of(x))
    bound = dtypes.int32.type(offset)
    distance = sub(columns, rows)
    return select(le(distance, bound) if lower else ge(distance, bound), x, zeros_like_array(x))


def on_diagonal(type: ArrayType) -> Any:
    """Whether an element of a matrix of this type is on the diagonal."""
    return eq(*_places(type))


def _places(type: ArrayType) -> list[Any]:
    """The row and the column of every element."""
    return [broadcasted_iota(dtypes.int32, type.shape, type.ndim + dim) for dim in (-2, -1)]


# Up to this length of a row a choice for each element costs less than a scatter.
_SMALL = 32


def diagonal(x: Any) -> Any:
    """The diagonal of each square matrix."""
    of = type_of(x)
    if 0 in of.shape:
        return full_like(x, 0, shape=of.shape[:-1])
    small = of.shape[-1] <= _SMALL and of.dtype in dtypes.INEXACT
    return diagonal_p.bind(x) if small else _gathered_diagonal(x)


def _gathered_diagonal(x: Any) -> Any:
    # Only what is on the diagonal is read, and written by the transpose.
    shape = type_of(x).shape
    rank, n = len(shape) - 2, shape[-1]
    numbers = GatherDimensionNumbers(tuple(range(rank)), (rank, rank + 1), (rank, rank + 1))
    return gather(
        x,
        broadcasted_iota(dtypes.int32, (n, 2), 0),
        numbers,
        (*shape[:-2], 1, 1),
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def diagonal_transpose(ct: Any, x: Any) -> list[Any]:
    """By a selection, which XLA fuses with its reader; a scatter is cheaper for long rows."""
    spread = along_columns(ct, x.type)
    return [select(on_diagonal(x.type), spread, zeros_like_array(spread))]


def diagonal_lower(context: Any, x: Any) -> Any:
    shape = context.in_types[0].shape
    rank = len(shape) - 2
    dimensions = stablehlo.GatherDimensions(
        offset_dims=tuple(range(rank)),
        collapsed_slice_dims=(rank, rank + 1),
        start_index_map=(rank, rank + 1),
        index_vector_dim=1,
    )
    places = stablehlo.iota((shape[-1], 2), dtypes.int32, 0)
    return stablehlo.gather(x, places, dimensions, (*shape[:-2], 1, 1), True)


def diagonal_jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
    return jointly_linear_jvp(diagonal_p.bind)(primals, tangents)


diagonal_p = matrix_primitive(
    "diagonal",
    type_rule=lambda x: result_type((x,), x.shape[:-1], x.dtype, x.weak_type),
    jvp=diagonal_jvp,
    transpose=diagonal_transpose,
    lower=diagonal_lower,
    flops="none",
)


def along_columns(values: Any, type: ArrayType) -> Any:
    """The matrices of a type with values[..., j] everywhere in column j."""
    return broadcast_in_dim(values, type.shape, (*range(type.ndim - 2), type.ndim - 1))


def scaled_columns(x: Any, scale: Any) -> Any:
    """Each matrix with column j multiplied by scale[..., j]."""
    return mul(x, along_columns(scale, type_of(x)))


def scaled_rows(x: Any, scale: Any) -> Any:
    """Each matrix with row i multiplied by scale[..., i]."""
    aval = type_of(x)
    return mul(x, broadcast_in_dim(scale, aval.shape, tuple(range(aval.ndim - 1))))
