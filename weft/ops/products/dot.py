"""Products of arrays that sum over shared dimensions, and the algorithms for them.

`dot_general` is the one primitive: its dimension numbers say which dimensions of the two operands
are contracted (summed over) and which are batch dimensions (paired with one another). The result
has the batch dimensions, then the remaining ones of the left operand, then those of the right.
Its transpose and its vmap are again `dot_general`.

The parameters are those of StableHLO's `dot_general`,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md#dot_general.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.access_pattern import Inner, Reads, full_read
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import refuse_sharding, unknown_option
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.flops import sums_of_products
from weft.ops.operand_errors import unfit, use_numpy
from weft.ops.structural.narrow import wide_dtype
from weft.ops.structural.shape import canonical_axes, canonical_axis, inverse_permutation, transpose
from weft.ops.structural.tangents import add_tangents
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "DotDimensionNumbers", "Precision", "PrecisionLike", "batch_matmul", "dot", "dot_general",
]  # fmt: skip


class DotAlgorithm(NamedTuple):
    """An algorithm for products, as the `precision` of `dot` and `dot_general`.

    lhs_precision_type, rhs_precision_type: the dtypes to which the factors are rounded;
    accumulation_type: the dtype in which products are summed. Factors may be taken apart in
    component_count parts each, which takes num_primitive_operations products;
    allow_imprecise_accumulation lets a device sum in fewer bits now and then.

    Devices have those of `DotAlgorithmPreset`. The dtype of the result is not changed.

    Args:
        lhs_component_count: Into how many parts each element of the left factor is taken apart, 1
            for none.
        rhs_component_count: The same of the right factor.
        num_primitive_operations: How many products of such parts are summed.
        allow_imprecise_accumulation: Whether a device may sum in fewer bits now and then.

    >>> single = lax.DotAlgorithm("float32", "float32", "float32")
    >>> lax.dot(np.ones(3), np.ones(3), precision=single)
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms that devices have: dtype of lhs, of rhs, of the sum, and the number of products.

    CPUs have F16_F16_F16, BF16_BF16_F32 with 1, 3 and 6 products, F32_F32_F32 and F64_F64_F64.
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __str__(self) -> str:
        return self.name


# Not read from the builder of modules, which is loaded when something is compiled.
ALGORITHMS = frozenset(DotAlgorithmPreset.__members__) - {"DEFAULT"}

_SHORT = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}


def precision_by_name(precision: Any, operation: str) -> Any:
    """The name of an algorithm ("default" for DotAlgorithmPreset.DEFAULT); other values unchanged.
    Raises WeftValueError for one that no device has."""
    if isinstance(precision, DotAlgorithmPreset):
        return "default" if precision is DotAlgorithmPreset.DEFAULT else precision.name
    if not isinstance(precision, DotAlgorithm):
        return precision
    kinds = [dtypes.parse(of).name for of in precision[:3]]
    name = "_".join(_SHORT.get(kind, kind) for kind in kinds)
    if precision.num_primitive_operations > 1:
        name += f"_X{precision.num_primitive_operations}"
    plain = precision[3:5] == (1, 1) and not precision.allow_imprecise_accumulation
    if plain and name in ALGORITHMS:
        return name
    raise WeftValueError(
        f"{operation}: devices have no such algorithm",
        operation=operation,
        got=f"precision={precision}",
        wanted="one of lax.DotAlgorithmPreset",
        fix=Fix("precision", "pass precision=lax.DotAlgorithmPreset.F32_F32_F32, or leave it out"),
    )


Axes = tuple[int, ...]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""((contracted dimensions of left, of right), (batch dimensions of left, of right))."""


# ---- precision ---------------------------------------------------------------------------------


class Precision(enum.Enum):
    """The precision of a product on hardware that multiplies narrower numbers.

    DEFAULT is the fastest, HIGHEST uses all bits. On the CPU all are the same.
    """

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"

    def __str__(self) -> str:
        return self.name


PrecisionLike: TypeAlias = (
    Precision
    | str
    | tuple[Precision | str, Precision | str]
    | DotAlgorithm
    | DotAlgorithmPreset
    | None
)
"""What products take as their `precision`."""

_PRECISIONS: dict[Any, str] = {
    "default": "DEFAULT",
    "fastest": "DEFAULT",
    "bfloat16": "DEFAULT",
    "high": "HIGH",
    "tensorfloat32": "HIGH",
    "bfloat16_3x": "HIGH",
    "highest": "HIGHEST",
    "float32": "HIGHEST",
}


def canonical_precision(precision: Any, operation: str) -> Any:
    """The precision of each operand, the name of an algorithm for both, or None; None takes the
    setting `default_matmul_precision`. Takes a `Precision`, its name, a pair of those, or an
    algorithm or its name. Raises WeftValueError for anything else."""
    if precision is None:
        precision = config.settings().default_matmul_precision
        if precision is None:
            return None
    precision = precision_by_name(precision, operation)
    if isinstance(precision, str) and precision in ALGORITHMS:
        return precision
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    if len(pair) != 2:
        raise _bad_precision(precision, operation)
    return _one_precision(pair[0], operation), _one_precision(pair[1], operation)


def unless_algorithm(precision: Any) -> Any:
    """The precision, or None for an algorithm."""
    return None if isinstance(precision, str) else precision


def _one_precision(precision: Any, operation: str) -> str:
    if precision is None:
        return "DEFAULT"
    if isinstance(precision, Precision):
        return precision.value
    out = _PRECISIONS.get(precision.lower()) if isinstance(precision, str) else None
    if out is None:
        raise _bad_precision(precision, operation)
    return out


def _bad_precision(precision: Any, operation: str) -> WeftValueError:
    wanted = 'None, a Precision, "default", "high" or "highest", or one of these per operand'
    return unknown_option(operation, "precision", precision, wanted, use="highest")


def canonical_element_type(dtype: Any) -> Any:
    """The dtype that the caller prefers for the result, or None."""
    return None if dtype is None else dtypes.requested(dtype)


def product_dtype(operation: str, x: ArrayType, y: ArrayType, preferred: Any) -> Any:
    """The dtype of a product: the preferred one, or the promoted dtype of the operands. Raises
    DTypeError if the preferred one would lose the kind or the range of the operands."""
    for type in (x, y):
        if preferred in dtypes.FLOATING and type.dtype in dtypes.NARROW_FLOATING:
            x, y = (t.update(dtype=preferred) if t is type else t for t in (x, y))
        elif type.dtype not in dtypes.ANY | dtypes.NARROW:
            message = f"{operation} does not take operands of dtype {dtypes.short_name(type.dtype)}"
            got = f"{x} and {y}"
            raise DTypeError(message, operation=operation, got=got, wanted="numbers or booleans")
    met = x.dtype if x.dtype == y.dtype else dtypes.promote_types(x.dtype, y.dtype)
    if preferred is None or preferred == met:
        return met
    narrower = (
        dtypes.is_integer(met)
        and dtypes.is_integer(preferred)
        and dtypes.itemsize_bits(preferred) < dtypes.itemsize_bits(met)
    )
    loses = (dtypes.is_complex(met) and not dtypes.is_complex(preferred)) or (
        preferred == dtypes.bool_
    )
    if narrower or loses or preferred not in dtypes.ANY:
        part = dtypes.is_complex(met) and preferred != dtypes.bool_
        converted = "product.real" if part else f"product.astype({preferred.name!r})"
        message = f"{operation}: {dtypes.short_name(preferred)} cannot hold the product"
        got = f"{x} and {y}, preferred_element_type={dtypes.short_name(preferred)}"
        fix = Fix("convert", f"leave it out, and convert the product: {converted}")
        raise DTypeError(message, got=got, wanted=f"{dtypes.short_name(met)} or wider", fix=fix)
    return preferred


def product_operands(context: Any, x: Any, y: Any, out: Any) -> tuple[Any, Any, Any]:
    """The operands of a product as passed to XLA, and the dtype in which it sums.

    Operands of different dtypes are widened, and so are those of a result that is of another kind
    of number. On the CPU, sums of 16-bit floats are kept in 32 bits. In double precision only
    doubles are multiplied: GPUs would round products to the operands' dtype.
    """
    given = [type.dtype for type in context.in_types[:2]]
    left, right = (out if dtype in dtypes.NARROW else dtype for dtype in given)
    met = dtypes.promote_types(left, right) if left != right else left
    if met == dtypes.bool_ and out != met:
        met = out
    if out != met and (met not in dtypes.FLOATING or out not in dtypes.FLOATING):
        met = dtypes.promote_types(met, out)
    if context.platform == "cpu":
        if met in dtypes.FLOATING and out in dtypes.FLOATING:
            met = dtypes.promote_types(met, out)
        summed = met
        if met in (dtypes.bfloat16, dtypes.float16):
            met = summed = dtypes.float32
    else:
        if out in (dtypes.float64, dtypes.complex128):
            met = dtypes.promote_types(met, out)
        summed = out if met in dtypes.FLOATING and out in dtypes.FLOATING else met
    return stablehlo.convert(x, met), stablehlo.convert(y, met), summed


# ---- dot_general -------------------------------------------------------------------------------


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sums products over the contracted dimensions.

    dimension_numbers: ((contracted of lhs, of rhs), (batch of lhs, of rhs)), each a sequence of
    dimensions; paired dimensions have equal lengths. The result's shape is that of the batch
    dimensions, then the rest of lhs, then the rest of rhs; its dtype is the promoted one
    of the operands, or `preferred_element_type`. Of booleans it is "or" of "and".
    Raises ShapeError, AxisError and DTypeError.

    >>> import numpy as np
    >>> x = np.arange(6).reshape(2, 3)
    >>> print(dot_general(x, x, (((1,), (1,)), ((), ()))))
    [[ 5 14]
     [14 50]]
    """
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    left, right = type_of(lhs).ndim, type_of(rhs).ndim
    numbers = (
        (from_front(contract_l, left), from_front(contract_r, right)),
        (from_front(batch_l, left), from_front(batch_r, right)),
    )
    refuse_sharding("dot_general", out_sharding)
    return dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=numbers,
        precision=canonical_precision(precision, "dot_general"),
        preferred_element_type=canonical_element_type(preferred_element_type),
    )


def from_front(axes: Sequence[int], ndim: int) -> Axes:
    """Axes counted from the front."""
    return tuple(canonical_axis(axis, ndim, "dot_general") for axis in axes)


def other_dimensions(ndim: int, *taken: Axes) -> Axes:
    """The dimensions not among the given ones, in order."""
    used = {d for axes in taken for d in axes}
    return tuple(d for d in range(ndim) if d not in used)


def dot_general_type(
    lhs: ArrayType,
    rhs: ArrayType,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: Any,
    preferred_element_type: Any,
) -> ArrayType:
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    canonical_axes((*contract_l, *batch_l), lhs.ndim, "dot_general")
    canonical_axes((*contract_r, *batch_r), rhs.ndim, "dot_general")
    pairs = ((contract_l, contract_r, "contracted"), (batch_l, batch_r, "batch"))
    for left, right, what in pairs:
        if len(left) != len(right) or any(
            lhs.shape[i] != rhs.shape[j] for i, j in zip(left, right, strict=False)
        ):
            message = f"dot_general: the {what} dimensions of the operands do not fit together"
            got = f"dimensions {left} of {lhs} and {right} of {rhs}"
            wanted = "as many on both sides, of pairwise equal lengths"
            fix = Fix("reshape", "name equal lengths, or swap them: y.swapaxes(-1, -2)")
            raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    shape = [lhs.shape[d] for d in batch_l]
    shape += [lhs.shape[d] for d in other_dimensions(lhs.ndim, contract_l, batch_l)]
    shape += [rhs.shape[d] for d in other_dimensions(rhs.ndim, contract_r, batch_r)]
    dtype = product_dtype("dot_general", lhs, rhs, preferred_element_type)
    weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
    return result_type((lhs, rhs), shape, dtype, weak)


def bilinear_jvp(made: Primitive) -> Callable[..., tuple[Any, Any]]:
    """The jvp rule of a product of two operands."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        (lhs, rhs), (t_lhs, t_rhs) = primals, tangents
        out = made.bind(lhs, rhs, **params)
        aval = type_of(out)
        total: Any = Zero(aval.tangent())
        if aval.dtype not in dtypes.INEXACT:
            return out, total
        # Explicit, so that a term whose operands promote to a narrower dtype has that of the sum.
        params["preferred_element_type"] = aval.dtype
        if type(t_lhs) is not Zero:
            total = made.bind(t_lhs, rhs, **params)
        if type(t_rhs) is not Zero:
            total = add_tangents(total, made.bind(lhs, t_rhs, **params))
        return out, total

    return jvp


def dot_general_transpose(
    ct: Any, lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any, **preferred: Any
) -> list[Any]:
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    if type(lhs) is LinearOperand:
        return [transpose_one(ct, lhs.type, rhs, dimension_numbers, precision, right=False), None]
    # The cotangent is the left operand now, with the precision that the right one had.
    pair = precision[::-1] if isinstance(precision, tuple) else precision
    numbers = ((contract_r, contract_l), (batch_r, batch_l))
    return [None, transpose_one(ct, rhs.type, lhs, numbers, pair, right=True)]


def transpose_one(
    ct: Any,
    wanted: ArrayType,
    other: Any,
    numbers: DotDimensionNumbers,
    precision: tuple[str, str] | None,
    *,
    right: bool,
) -> Any:
    """The cotangent of one operand; `numbers` has that operand's dimensions first. The cotangent is
    contracted with the other operand over the dimensions that the result has from it; the product
    has batch, kept and contracted dimensions of the wanted operand, reordered."""
    (contract, contract_other), (batch, batch_other) = numbers
    of_other = type_of(other)
    kept = other_dimensions(wanted.ndim, contract, batch)
    kept_other = other_dimensions(of_other.ndim, contract_other, batch_other)
    places = tuple(range(len(batch)))
    ndim = type_of(ct).ndim
    # In the result, kept dimensions of the right operand come after those of the left.
    start = len(batch) if right else ndim - len(kept_other)
    summed = tuple(range(start, start + len(kept_other)))
    found = dot_general_p.bind(
        ct,
        other,
        dimension_numbers=((summed, kept_other), (places, batch_other)),
        precision=precision,
        preferred_element_type=product_of(ct, other, wanted.dtype),
    )
    # Contracted dimensions come in the order in which the other operand has them.
    order = (*batch, *kept, *(contract[i] for i in inverse_permutation(contract_other)))
    return to_operand_dtype(transpose(found, inverse_permutation(order)), wanted.dtype)


def to_operand_dtype(x: Any, dtype: Any) -> Any:
    """A cotangent in the dtype of its operand; the real part for a real one."""
    return x if type_of(x).dtype == dtype else convert_element_type(x, dtype)


def product_of(x: Any, y: Any, wanted: Any) -> Any:
    """The dtype of a cotangent's computation: the wanted one, but complex for a complex factor."""
    met = dtypes.promote_types(type_of(x).dtype, type_of(y).dtype)
    return met if dtypes.is_complex(met) and not dtypes.is_complex(wanted) else wanted


def dot_general_vmap(
    axis: AxisData, args: Values, dims: Dims, *, dimension_numbers: Any, **params: Any
) -> tuple[Any, int]:
    (contract_l, contract_r), (batch_l, batch_r) = dimension_numbers
    (lhs, rhs), (dim_l, dim_r) = args, dims
    contract_l, batch_l = skip_dimension(contract_l, dim_l), skip_dimension(batch_l, dim_l)
    contract_r, batch_r = skip_dimension(contract_r, dim_r), skip_dimension(batch_r, dim_r)
    ndim_l = type_of(lhs).ndim
    if dim_l is not None and dim_r is not None:
        batch_l, batch_r = (dim_l, *batch_l), (dim_r, *batch_r)
        out_dim = 0
    elif dim_l is not None:
        out_dim = len(batch_l) + other_dimensions(ndim_l, contract_l, batch_l).index(dim_l)
    else:
        kept = other_dimensions(type_of(rhs).ndim, contract_r, batch_r)
        out_dim = ndim_l - len(contract_l) + kept.index(dim_r)
    numbers = ((contract_l, contract_r), (batch_l, batch_r))
    return dot_general_p.bind(lhs, rhs, dimension_numbers=numbers, **params), out_dim


def skip_dimension(axes: Axes, dim: int | None) -> Axes:
    """Dimensions of an element as dimensions of the mapped array."""
    return axes if dim is None else tuple(d + (d >= dim) for d in axes)


def dot_general_lower(
    context: Any, lhs: Any, rhs: Any, *, dimension_numbers: Any, precision: Any, **preferred: Any
) -> Any:
    out = context.out_types[0]
    contracting, batch = dimension_numbers
    if isinstance(precision, str):
        found = by_algorithm(context, lhs, rhs, contracting, batch, precision, out.dtype)
        return stablehlo.convert(found, out.dtype)
    lhs, rhs, summed = product_operands(context, lhs, rhs, wide_dtype(out.dtype))
    found = stablehlo.dot_general(lhs, rhs, contracting, batch, precision, summed)
    return stablehlo.convert(found, out.dtype)


def by_algorithm(
    context: Any, lhs: Any, rhs: Any, contracting: Any, batch: Any, name: str, out: Any
) -> Any:
    """A product by an algorithm of StableHLO, with operands in its storage dtype. Raises
    WeftValueError for one that XLA lacks on the platform."""
    algorithm = stablehlo.DOT_ALGORITHMS[name]
    if context.platform == "cpu" and not algorithm.on_cpu:
        known = [text for text, one in stablehlo.DOT_ALGORITHMS.items() if one.on_cpu]
        message = f"dot_general: XLA has no algorithm {name} on the CPU"
        wanted = f"one of {', '.join(known)}, or a precision"
        fix = Fix("precision", "leave it out where the program runs on a CPU", {"use": None})
        raise WeftValueError(message, operation="dot_general", got=name, wanted=wanted, fix=fix)
    stored = algorithm.stored
    if stored is not None:
        lhs, rhs = (stablehlo.convert(x, dtypes.parse(stored)) for x in (lhs, rhs))
    summed = dtypes.parse(algorithm.summed)
    return stablehlo.dot_general(lhs, rhs, contracting, batch, name, summed)


def dot_general_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """XLA computes products row by row. Times a vector, a transposed matrix is stored by columns;
    times a matrix, it is no slower unchanged."""
    (contracting, batch) = eqn.params["dimension_numbers"]
    out: list[Reads] = []
    for i, x in enumerate(eqn.inputs):
        other = 1 - i
        kept = eqn.inputs[other].type.ndim - len(contracting[other]) - len(batch[other])
        out.append((full_read(x.type, folds=kept > 0),))
    return out


def _of_contraction(eqn: Equation) -> Work:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    lhs, out = eqn.inputs[0].type, eqn.outputs[0].type
    return sums_of_products(out, float(out.size) * prod(lhs.shape[d] for d in contracted))


dot_general_p = Primitive("dot_general")
primitive(
    dot_general_p,
    type_rule=dot_general_type,
    jvp=bilinear_jvp(dot_general_p),
    transpose=dot_general_transpose,
    vmap=dot_general_vmap,
    reads=dot_general_reads,
    lower=dot_general_lower,
    bilinear=True,
    product=True,
    flops=_of_contraction,
)


# ---- the named products ------------------------------------------------------------------------


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`.

    dimension_numbers: the summed and the batch dimensions, as for `dot_general`; None for the
    product of vectors and matrices.

    Raises ShapeError for operands of other ranks, or whose inner lengths differ.

    >>> import numpy as np
    >>> print(dot(np.arange(3), np.arange(3)))
    5
    """
    if dimension_numbers is None:
        left, right = type_of(lhs), type_of(rhs)
        if left.ndim not in (1, 2) or right.ndim not in (1, 2):
            fix = use_numpy("matmul", "takes stacks of matrices")
            wanted, types = "1 or 2 dimensions each", (left, right)
            raise unfit(ShapeError, "dot", "vectors and matrices", types, wanted, fix)
        dimension_numbers = (((left.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Products of matrices: the last two dimensions are theirs, all before are batch dimensions.

    The operands have equal ranks, of 2 or more, and equal batch dimensions. Raises ShapeError.

    >>> lax.batch_matmul(np.ones((2, 1, 3)), np.ones((2, 3, 1))).shape
    (2, 1, 1)
    """
    left, right = type_of(lhs), type_of(rhs)
    if left.ndim != right.ndim or left.ndim < 2:
        takes, types = "operands of equal rank, 2 or more", (left, right)
        fix = use_numpy("matmul", "broadcasts")
        raise unfit(ShapeError, "batch_matmul", takes, types, "equal ranks", fix)
    batch = tuple(range(left.ndim - 2))
    numbers = (((left.ndim - 1,), (left.ndim - 2,)), (batch, batch))
    return dot_general(lhs, rhs, numbers, precision)
