"""Convolutions: a kernel slides over an array, with strides, dilations, padding and groups.

`conv_general_dilated` is the one primitive. Both of its transposes are convolutions again: the
cotangent slid over by the reversed kernel, and the array slid over by the cotangent, with strides
and dilations exchanged; groups of features become groups of the batch and the reverse. See Dumoulin
and Visin, "A guide to convolution arithmetic for deep learning" (2016). vmap makes the mapped
dimension part of the batch, of the features, or of the groups, and never loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

from weft import dtypes
from weft.arrays.array import Array
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive, Work
from weft.core.rules import AxisData, Dims, LinearOperand, Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import integer_of, integers_of, invalid_value, refuse_sharding
from weft.ops.declare import primitive, result_type
from weft.ops.flops import sums_of_products, window_pairs
from weft.ops.products.dot import (
    bilinear_jvp,
    canonical_element_type,
    canonical_precision,
    product_dtype,
    product_of,
    product_operands,
    to_operand_dtype,
    unless_algorithm,
)
from weft.ops.structural.joining import rev
from weft.ops.structural.narrow import wide_dtype
from weft.ops.structural.padding_sizes import (
    Pads,
    dilated_length,
    padding_of,
    padtype_to_pads,
    windows,
)
from weft.ops.structural.shape import move_dim, reshape
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo
from weft.typing import ArrayLike

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv_dimension_numbers",
    "conv_general_dilated", "conv_general_permutations", "conv_shape_tuple",
]  # fmt: skip

Ints = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """The roles of the dimensions of each array of a convolution.

    lhs_spec: (batch, feature, spatial …) of the array; rhs_spec: (output feature, input feature,
    spatial …) of the kernel; out_spec: (batch, feature, spatial …) of the result.
    """

    lhs_spec: Ints
    rhs_spec: Ints
    out_spec: Ints


ConvGeneralDilatedDimensionNumbers: TypeAlias = tuple[str, str, str] | ConvDimensionNumbers | None
"""What convolutions take as their `dimension_numbers`."""


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Dimension numbers from any of their forms, for arrays of the given shapes.

    dimension_numbers: None (batch or output feature, then feature, then spatial dimensions), three
    strings such as ("NHWC", "HWIO", "NHWC"), or a `ConvDimensionNumbers`. In the strings N is the
    batch, C the feature, O and I the output and input feature of the kernel, and any other
    characters are the spatial dimensions, in the same order as in the kernel's.
    Raises ShapeError and WeftValueError.

    lhs_shape: the shape of the array; rhs_shape: the shape of the kernel.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 16), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim or ndim < 2:
        message = "a convolution takes an array and a kernel of one rank, 2 or more"
        got, wanted = f"shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}", "equal ranks"
        fix = _of_one_rank(ndim, len(rhs_shape))
        raise ShapeError(message, operation="conv_general_dilated", got=got, wanted=wanted, fix=fix)
    if dimension_numbers is None:
        order = tuple(range(ndim))
        return ConvDimensionNumbers(order, order, order)
    if isinstance(dimension_numbers, (tuple, list)) and len(dimension_numbers) == 3:
        if all(isinstance(text, str) for text in dimension_numbers):
            return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers, ndim))
        return ConvDimensionNumbers(*(tuple(int(d) for d in spec) for spec in dimension_numbers))
    raise _bad_numbers(dimension_numbers, ndim)


def _of_one_rank(left: int, right: int) -> Fix:
    """The fix that adds dimensions to the operands of a convolution that lack some."""
    rank = max(left, right) if max(left, right) > 1 else 3
    lacking = [(name, rank - n) for name, n in (("lhs", left), ("rhs", right)) if n < rank]
    added = " and ".join(f"weft.numpy.expand_dims({name}, {(*range(n),)})" for name, n in lacking)
    return Fix("expand_dims", f"pass {added}, or the places of N, C, O, I in dimension_numbers")


def _bad_numbers(dimension_numbers: Any, ndim: int) -> WeftValueError:
    spatial = "DHW"[5 - ndim :] if 2 <= ndim <= 5 else ""
    channels_last = f"N{spatial}C"
    return invalid_value(
        "these are no dimension numbers of a convolution",
        "conv_general_dilated",
        "dimension_numbers",
        dimension_numbers,
        'None, three strings such as ("NHWC", "HWIO", "NHWC"), or a ConvDimensionNumbers',
        use=(channels_last, f"{spatial}IO", channels_last) if len(spatial) == ndim - 2 else None,
    )


def conv_general_permutations(
    dimension_numbers: Sequence[str], ndim: int | None = None
) -> tuple[Ints, Ints, Ints]:
    """The dimension numbers of three strings; see `conv_dimension_numbers`.

    dimension_numbers: strings for the array, the kernel and the result, with a letter per
    dimension; ndim: the number of dimensions; by default the length of the second string.

    >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    for text, first, second in ((lhs, "N", "C"), (rhs, "O", "I"), (out, "N", "C")):
        expected = {first, second, *spatial}
        if len(set(text)) != len(text) or set(text) != expected or len(text) != (ndim or len(rhs)):
            raise _bad_numbers(tuple(dimension_numbers), ndim or len(rhs))
    return (
        tuple(lhs.index(c) for c in ("N", "C", *spatial)),
        tuple(rhs.index(c) for c in ("O", "I", *spatial)),
        tuple(out.index(c) for c in ("N", "C", *spatial)),
    )


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Slides the kernel `rhs` over the array `lhs` and sums products over window and features.

    window_strides: one step per spatial dimension; padding: "SAME", "SAME_LOWER", "VALID", or (low,
    high) per spatial dimension, which may be negative; lhs_dilation and rhs_dilation: the distance
    between neighbours of the array and of the kernel; dimension_numbers: see
    `conv_dimension_numbers`. The kernel has 1/feature_group_count of the array's features, and its
    output features are split alike; with `batch_group_count` the batch is split instead. The kernel
    is not reversed: signal processing calls this a correlation. Raises ShapeError, DTypeError and
    WeftValueError.

    feature_group_count: the number of groups into which the features are split, each convolved with
    its own part of the kernel.

    >>> import numpy as np
    >>> x = np.arange(5.0).reshape(1, 1, 5)
    >>> print(conv_general_dilated(x, np.ones((1, 1, 3)), (1,), "VALID"))
    [[[3. 6. 9.]]]
    """
    name = "conv_general_dilated"
    refuse_sharding(name, out_sharding)
    lhs_shape, rhs_shape = type_of(lhs).shape, type_of(rhs).shape
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ones = (1,) * (len(lhs_shape) - 2)
    lhs_dilation = ones if lhs_dilation is None else integers_of(lhs_dilation, "lhs_dilation", name)
    rhs_dilation = ones if rhs_dilation is None else integers_of(rhs_dilation, "rhs_dilation", name)
    strides = integers_of(window_strides, "window_strides", name)
    if isinstance(padding, str):
        kernel = [rhs_shape[d] for d in numbers.rhs_spec[2:]]
        reach = [dilated_length(n, d) for n, d in zip(kernel, rhs_dilation, strict=False)]
        sizes = [lhs_shape[d] for d in numbers.lhs_spec[2:]]
        padding = named_padding(padding, sizes, reach, strides, lhs_dilation)
    return conv_p.bind(
        lhs,
        rhs,
        window_strides=strides,
        padding=padding_of(padding, name, ("low", "high")),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=numbers,
        feature_group_count=integer_of(feature_group_count, "feature_group_count", name),
        batch_group_count=integer_of(batch_group_count, "batch_group_count", name),
        precision=unless_algorithm(canonical_precision(precision, name)),
        preferred_element_type=canonical_element_type(preferred_element_type),
    )


def named_padding(
    padding: str, sizes: Sequence[int], reach: Sequence[int], strides: Ints, lhs_dilation: Ints
) -> Pads:
    """The padding of a name. Raises WeftValueError for a dilated array."""
    if padding.upper() != "VALID" and any(d != 1 for d in lhs_dilation):
        raise WeftValueError(
            "the padding of a convolution with a dilated array has no name",
            operation="conv_general_dilated",
            got=f"padding={padding!r}, lhs_dilation={lhs_dilation}",
            wanted="(low, high) per spatial dimension",
            fix=Fix("pairs", f"pass padding={[(0, 0)] * len(sizes)}, or use lax.conv_transpose"),
        )
    return padtype_to_pads(sizes, reach, strides, padding)


# ---- the type ----------------------------------------------------------------------------------


def conv_type(
    lhs: ArrayType,
    rhs: ArrayType,
    *,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: Any,
    precision: Any,
    **window: Any,
) -> ArrayType:
    check_numbers(lhs, rhs, dimension_numbers, window)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    batch, features = lhs.shape[lhs_spec[0]], lhs.shape[lhs_spec[1]]
    outputs, inputs = rhs.shape[rhs_spec[0]], rhs.shape[rhs_spec[1]]
    check_groups(batch, features, outputs, inputs, feature_group_count, batch_group_count)
    sizes = spatial_sizes(lhs.shape, lhs_spec, window["lhs_dilation"])
    kernel = spatial_sizes(rhs.shape, rhs_spec, window["rhs_dilation"])
    strides, padding = window["window_strides"], window["padding"]
    spatial = windows("conv_general_dilated", sizes, kernel, strides, padding)
    shape = [0] * lhs.ndim
    for d, size in zip(out_spec, (batch // batch_group_count, outputs, *spatial), strict=True):
        shape[d] = size
    dtype = product_dtype("conv_general_dilated", lhs, rhs, preferred_element_type)
    weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
    return result_type((lhs, rhs), shape, dtype, weak)


def check_numbers(
    lhs: ArrayType, rhs: ArrayType, numbers: ConvDimensionNumbers, window: dict[str, Any]
) -> None:
    """Raises ShapeError if ranks or lengths of parameters do not fit together."""
    ndim = lhs.ndim
    order = list(range(ndim))
    if rhs.ndim != ndim or ndim < 2 or any(sorted(spec) != order for spec in numbers):
        message = "conv_general_dilated: the dimension numbers do not fit the operands"
        got, wanted = f"{lhs} and {rhs}, {numbers}", "each dimension once in each specification"
        raise ShapeError(message, got=got, wanted=wanted)
    for name, values in window.items():
        if len(values) != ndim - 2:
            message = f"conv_general_dilated: {name} needs one entry per spatial dimension"
            got = f"{name}={values} for {ndim - 2} spatial dimensions"
            wanted = f"{ndim - 2} entries"
            raise ShapeError(message, got=got, wanted=wanted)
        if name != "padding" and any(value < 1 for value in values):
            operation, wanted = "conv_general_dilated", "numbers of 1 or more"
            raise invalid_value(f"{operation}: {name} is positive", operation, name, values, wanted)


def check_groups(
    batch: int, features: int, outputs: int, inputs: int, feature_groups: int, batch_groups: int
) -> None:
    """Raises ShapeError if features, batch and groups do not fit together."""
    problem = None
    remedy = "leave out feature_group_count or batch_group_count"
    if feature_groups < 1 or batch_groups < 1 or (feature_groups > 1 and batch_groups > 1):
        problem = "group counts are positive, and at most one of the two is above 1"
    elif features != inputs * feature_groups:
        problem = (
            f"the array has {features} features; the kernel takes {inputs}"
            f" in each of {feature_groups} groups"
        )
        remedy = 'pass dimension_numbers, such as ("NHWC", "HWIO", "NHWC") for features last'
    elif batch % batch_groups or outputs % (feature_groups * batch_groups):
        problem = "batch and output features are split evenly among the groups"
    if problem:
        raise ShapeError(
            f"conv_general_dilated: {problem}",
            got=f"batch {batch}, features {features}, kernel {inputs} to {outputs} features, "
            f"feature_group_count={feature_groups}, batch_group_count={batch_groups}",
            wanted="features = input features of the kernel * feature_group_count",
            fix=Fix("dimension_numbers", remedy),
        )


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: str | Sequence[tuple[int, int]],
    batch_group_count: int = 1,
) -> Ints:
    """The shape of a convolution's result, dimensions in the standard order (None of
    `conv_dimension_numbers`).

    Args:
        lhs_shape: The shape of the array: batch, feature, then spatial dimensions.
        rhs_shape: The shape of the kernel: output feature, input feature, then spatial dimensions.
        strides: How far the window moves, per spatial dimension.
        pads: How many elements are added on both sides, per spatial dimension, or "SAME" or
            "VALID".
        batch_group_count: The number of groups into which the batch is split.

    >>> lax.conv_shape_tuple((1, 1, 5), (1, 1, 2), (1,), "VALID")
    (1, 1, 4)
    """
    if isinstance(pads, str):
        pads = padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    spatial = windows("conv", lhs_shape[2:], rhs_shape[2:], strides, pads)
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


# ---- derivatives -------------------------------------------------------------------------------


def conv_transpose_rule(ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    if type(lhs) is LinearOperand:
        return [transpose_lhs(ct, lhs.type, rhs, params), None]
    return [None, transpose_rhs(ct, lhs, rhs.type, params)]


def spatial_sizes(shape: Sequence[int], spec: Ints, steps: Ints) -> list[int]:
    """The dilated lengths of the spatial dimensions."""
    return [dilated_length(shape[d], s) for d, s in zip(spec[2:], steps, strict=True)]


def spatial_spans(
    lhs: ArrayType, rhs: ArrayType, out: ArrayType, params: dict[str, Any]
) -> list[tuple[int, int, int, int]]:
    """The dilated spatial lengths of array, kernel and result, and the padding in front."""
    steps = params["lhs_dilation"], params["rhs_dilation"], params["window_strides"]
    sizes, kernel, results = (
        spatial_sizes(x.shape, spec, step)
        for x, spec, step in zip((lhs, rhs, out), params["dimension_numbers"], steps, strict=True)
    )
    lows = [low for low, _ in params["padding"]]
    return list(zip(sizes, kernel, results, lows, strict=True))


def exchange_first_two(spec: Ints) -> Ints:
    """A specification with its first two dimensions exchanged."""
    return (spec[1], spec[0], *spec[2:])


def transpose_lhs(ct: Any, wanted: ArrayType, rhs: Any, params: dict[str, Any]) -> Any:
    """The cotangent of the array: the result's, convolved with the reversed kernel."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    pads = []
    for size, reach, result, low in spatial_spans(wanted, type_of(rhs), type_of(ct), params):
        before = reach - low - 1
        pads.append((before, size + reach - 1 - result - before))
    batch_groups = params["batch_group_count"]
    groups = params["feature_group_count"] * batch_groups
    # The kernel's groups of output features become groups of its input features.
    grouped = split_into(rhs, rhs_spec[0], rhs_spec[1], groups)
    changed = {
        "window_strides": params["lhs_dilation"],
        "padding": tuple(pads),
        "lhs_dilation": params["window_strides"],
        "dimension_numbers": ConvDimensionNumbers(out_spec, exchange_first_two(rhs_spec), lhs_spec),
        "feature_group_count": groups,
        "batch_group_count": 1,
        "preferred_element_type": product_of(ct, rhs, wanted.dtype),
    }
    found = conv_p.bind(ct, rev(grouped, rhs_spec[2:]), **params | changed)
    if batch_groups > 1:
        found = split_into(found, lhs_spec[1], lhs_spec[0], batch_groups)
    return to_operand_dtype(found, wanted.dtype)


def transpose_rhs(ct: Any, lhs: Any, wanted: ArrayType, params: dict[str, Any]) -> Any:
    """The cotangent of the kernel: the array convolved with the result's, batch and features
    exchanged. Groups of the batch become groups of features and the reverse."""
    lhs_spec, rhs_spec, out_spec = map(exchange_first_two, params["dimension_numbers"])
    spans = spatial_spans(type_of(lhs), wanted, type_of(ct), params)
    changed = {
        "window_strides": params["rhs_dilation"],
        "padding": tuple(
            (low, reach - 1 + result - size - low) for size, reach, result, low in spans
        ),
        "rhs_dilation": params["window_strides"],
        "dimension_numbers": ConvDimensionNumbers(lhs_spec, out_spec, rhs_spec),
        "feature_group_count": params["batch_group_count"],
        "batch_group_count": params["feature_group_count"],
        "preferred_element_type": product_of(ct, lhs, wanted.dtype),
    }
    return to_operand_dtype(conv_p.bind(lhs, ct, **params | changed), wanted.dtype)


def split_into(x: Any, source: int, target: int, groups: int) -> Any:
    """Moves the major part, of length `groups`, of one dimension to the front of another."""
    if groups == 1:
        return x
    shape = list(type_of(x).shape)
    shape[source] //= groups
    split = reshape(x, [*shape[:source], groups, *shape[source:]])
    place = target + (target > source)
    # The dimension of the groups, at `source`, goes before the target.
    before = place - (place > source)
    moved = move_dim(split, source, before, groups)
    shape[target] *= groups
    return reshape(moved, shape)


# ---- vmap --------------------------------------------------------------------------------------


def merge_dims(x: Any, dim: int, target: int) -> Any:
    """Merges dimension `dim` into the front of the element's dimension `target`."""
    shape = list(type_of(x).shape)
    size = shape.pop(dim)
    shape[target] *= size
    return reshape(move_dim(x, dim, target, size), shape)


def merge_in_groups(x: Any, dim: int, target: int, groups: int) -> Any:
    """Merges dimension `dim` into the element's dimension `target`, within each group."""
    if groups == 1:
        return merge_dims(x, dim, target)
    shape = list(type_of(x).shape)
    size = shape.pop(dim)
    whole = list(shape)
    whole[target : target + 1] = [groups, shape[target] // groups]
    front = reshape(move_dim(x, dim, 0, size), (size, *whole))
    inside = move_dim(front, 0, target + 1, size)
    shape[target] *= size
    return reshape(inside, shape)


def unmerge(x: Any, source: int, size: int) -> tuple[Any, int]:
    """Splits the front off dimension `source`: the array and the new index."""
    shape = type_of(x).shape
    return reshape(x, (*shape[:source], size, shape[source] // size, *shape[source + 1 :])), source


def unmerge_in_groups(x: Any, source: int, size: int, groups: int) -> tuple[Any, int]:
    """Splits a part of length `size` off dimension `source`, within each group."""
    if groups == 1:
        return unmerge(x, source, size)
    shape = type_of(x).shape
    inner = shape[source] // (groups * size)
    whole = reshape(x, (*shape[:source], groups, size, inner, *shape[source + 1 :]))
    front = move_dim(whole, source + 1, 0, size)
    return reshape(front, (size, *shape[:source], groups * inner, *shape[source + 1 :])), 0


def conv_vmap(
    axis: AxisData,
    args: Values,
    dims: Dims,
    *,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> tuple[Any, int]:
    (lhs, rhs), (dim_l, dim_r) = args, dims
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"] = dimension_numbers
    groups: dict[str, Any] = {
        "feature_group_count": feature_group_count,
        "batch_group_count": batch_group_count,
    }
    if not axis.size:  # Dimensions that it was merged into could not be split again.
        elements = [
            t if dim is None else t.update(shape=(*t.shape[:dim], *t.shape[dim + 1 :]))
            for t, dim in zip(map(type_of, args), dims, strict=True)
        ]
        element = conv_type(elements[0], elements[1], **groups, **params)
        return zeros(element.update(shape=(0, *element.shape))), 0
    if dim_l is not None and dim_r is not None:
        # One group of features, or of the batch, per element.
        split, place = (
            ("batch_group_count", 0) if batch_group_count > 1 else ("feature_group_count", 1)
        )
        groups[split] *= axis.size
        lhs, rhs = merge_dims(lhs, dim_l, lhs_spec[place]), merge_dims(rhs, dim_r, rhs_spec[0])
        return unmerge(conv_p.bind(lhs, rhs, **groups, **params), out_spec[1], axis.size)
    if dim_l is not None:
        lhs = merge_in_groups(lhs, dim_l, lhs_spec[0], batch_group_count)
        return unmerge(conv_p.bind(lhs, rhs, **groups, **params), out_spec[0], axis.size)
    assert dim_r is not None
    count = feature_group_count * batch_group_count
    rhs = merge_in_groups(rhs, dim_r, rhs_spec[0], count)
    out = conv_p.bind(lhs, rhs, **groups, **params)
    return unmerge_in_groups(out, out_spec[1], axis.size, count)


# ---- lowering ----------------------------------------------------------------------------------


def conv_lower(
    context: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Ints,
    dimension_numbers: ConvDimensionNumbers,
    preferred_element_type: Any,
    **params: Any,
) -> Any:
    out = context.out_types[0]
    if any(0 in type.shape for type in (out, *context.in_types)):
        return stablehlo.full(0, out.shape, out.dtype)
    lhs, rhs, summed = product_operands(context, lhs, rhs, wide_dtype(out.dtype))
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    unsplit = unsplit_dimensions(dimension_numbers, **params)
    lhs = context.module.keep_whole(lhs, unsplit.lhs_spec)
    rhs = context.module.keep_whole(rhs, unsplit.rhs_spec)
    # Of the kernel, StableHLO names the input feature first.
    specs = (lhs_spec, exchange_first_two(rhs_spec), out_spec)
    parts: Any = (part for first, second, *rest in specs for part in (first, second, tuple(rest)))
    numbers = stablehlo.ConvDimensions(*parts)

    if pads_first(context, lhs_spec, rhs_spec, **params):
        lhs = pad_before(lhs, summed, lhs_spec, params["padding"])
        params = params | {"padding": tuple((0, 0) for _ in params["padding"])}

    def emit(x: Any, y: Any, dtype: Any) -> Any:
        made = stablehlo.tensor_type(out.shape, dtype)
        found = stablehlo.convolution(x, y, made, numbers, strides=window_strides, **params)
        return context.module.keep_whole(found, unsplit.out_spec)

    if dtypes.is_complex(summed):
        found = complex_product(lhs, rhs, dtypes.to_real(summed), emit)
    elif summed == dtypes.bool_:
        # There is no convolution of booleans: true products are counted.
        integer = dtypes.int32
        counted = emit(stablehlo.convert(lhs, integer), stablehlo.convert(rhs, integer), integer)
        found = stablehlo.compare(counted, stablehlo.full(0, out.shape, integer), "NE")
    else:
        found = emit(lhs, rhs, summed)
    return stablehlo.convert(found, out.dtype)


# A kernel of which a side is so long takes more time than the padding.
_LONG = 5


def pads_first(
    context: Any, lhs_spec: Ints, rhs_spec: Ints, *, padding: Any, lhs_dilation: Ints,
    rhs_dilation: Ints, feature_group_count: int, batch_group_count: int, **_: Any,
) -> bool:  # fmt: skip
    """Whether a convolution is faster on an operand that was padded before.

    On CPUs, XLA takes loops for a padded convolution of one feature (of an image or a signal, or a
    derivative by a kernel for a batch of one): with a 64 by 64 kernel, twenty times as long as for
    the same without padding. Small kernels, and those of several features, lose what the padding
    costs; where the kernel is larger than the operand, XLA exchanges the two.
    """
    sides = [context.in_types[1].shape[d] for d in rhs_spec[2:]]
    lengths = [context.in_types[0].shape[d] for d in lhs_spec[2:]]
    return (
        context.platform == "cpu"
        and len(context.module.devices) <= 1
        and feature_group_count == batch_group_count == 1
        and context.in_types[1].shape[rhs_spec[1]] == 1
        and {*lhs_dilation, *rhs_dilation} <= {1}
        and max(sides, default=0) >= _LONG
        and all(side <= length for side, length in zip(sides, lengths, strict=True))
        and all(n >= 0 for pair in padding for n in pair)
        and any(n for pair in padding for n in pair)
    )


def pad_before(x: Any, dtype: Any, spec: Ints, padding: Any) -> Any:
    """An operand with zeros around it, which XLA must not move into the convolution."""
    low, high = [0] * x.type.rank, [0] * x.type.rank
    for d, pair in zip(spec[2:], padding, strict=True):
        low[d], high[d] = pair
    zero = stablehlo.full(0, (), dtype)
    wide = stablehlo.pad(x, zero, low, high, [0] * len(low))
    return stablehlo.optimization_barrier([wide])[0]


def unsplit_dimensions(
    numbers: ConvDimensionNumbers, *, feature_group_count: int, batch_group_count: int, **_: Any
) -> ConvDimensionNumbers:
    """The dimensions of operands and result that must not be split over devices.

    XLA may split a convolution wrongly. Along space, and along batches in groups, it also adds up
    copies on other devices; with features in groups it gives wrong numbers, or ends the process. It
    is right to split batches and features without groups, and batches with features in groups.
    """
    lhs, rhs, out = numbers
    if feature_group_count > 1:
        return ConvDimensionNumbers(lhs[1:], rhs, out[1:])
    if batch_group_count > 1:
        return numbers
    return ConvDimensionNumbers(lhs[2:], rhs[2:], out[2:])


def complex_product(x: Any, y: Any, real: Any, emit: Callable[[Any, Any, Any], Any]) -> Any:
    """A bilinear complex operation by four real ones; three would cancel digits."""
    a, b, c, d = stablehlo.real(x), stablehlo.imag(x), stablehlo.real(y), stablehlo.imag(y)
    return stablehlo.complex_(
        stablehlo.subtract(emit(a, c, real), emit(b, d, real)),
        stablehlo.add(emit(a, d, real), emit(b, c, real)),
    )


def _product_work(eqn: Equation) -> Work:
    lhs, rhs, out = eqn.inputs[0].type.shape, eqn.inputs[1].type.shape, eqn.outputs[0].type
    params, numbers = eqn.params, eqn.params["dimension_numbers"]
    pairs = prod(
        window_pairs(lhs[i], rhs[k], out.shape[o], stride, low, dilation, spread)
        for i, k, o, stride, (low, _), dilation, spread in zip(
            numbers.lhs_spec[2:], numbers.rhs_spec[2:], numbers.out_spec[2:],
            params["window_strides"], params["padding"], params["lhs_dilation"],
            params["rhs_dilation"], strict=True,
        )
    )  # fmt: skip
    batch, features = (out.shape[d] for d in numbers.out_spec[:2])
    return sums_of_products(out, float(pairs) * batch * features * rhs[numbers.rhs_spec[1]])


conv_p = Primitive("conv_general_dilated")
primitive(
    conv_p,
    type_rule=conv_type,
    jvp=bilinear_jvp(conv_p),
    transpose=conv_transpose_rule,
    vmap=conv_vmap,
    lower=conv_lower,
    bilinear=True,
    never_called=True,
    flops=_product_work,
)
