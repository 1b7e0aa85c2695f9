"""The named forms of convolution, written with `conv_general_dilated`.

`conv_transpose` is the transpose of a strided convolution used as an operation of its own (a
"deconvolution"); `conv_general_dilated_patches` collects the windows themselves, by a convolution
with an identity kernel; `conv_general_dilated_local` has a kernel of its own at every position.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors.argument_errors import unknown_option
from weft.ops.indexing.creation import eye
from weft.ops.products.convolution import (
    conv_dimension_numbers,
    conv_general_dilated,
    conv_shape_tuple,
)
from weft.ops.products.dot import dot_general
from weft.ops.structural.joining import rev
from weft.ops.structural.padding_sizes import dilated_length
from weft.ops.structural.shape import broadcast_in_dim, inverse_permutation, reshape, transpose
from weft.typing import ArrayLike

__all__ = [
    "conv", "conv_general_dilated_local", "conv_general_dilated_patches",
    "conv_general_shape_tuple", "conv_transpose", "conv_transpose_shape_tuple",
    "conv_with_general_padding",
]  # fmt: skip


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """A convolution with dimensions in the standard order: (batch, feature, spatial …) and
    (output feature, input feature, spatial …). See `conv_general_dilated`.

    >>> lax.conv(np.ones((1, 1, 4, 4)), np.ones((1, 1, 2, 2)), (1, 1), "VALID").shape
    (1, 1, 3, 3)
    """
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, window_strides, padding, **how)


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """A dilated convolution with dimensions in the standard order. See `conv_general_dilated`.

    lhs_dilation: the distance between neighbours of the array, per spatial dimension; None for 1;
    rhs_dilation: the distance between neighbours of the kernel, per spatial dimension; None for 1.

    >>> x, kernel = np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2))
    >>> lax.conv_with_general_padding(x, kernel, (1,), [(0, 0)], None, (2,))
    Array([[[2., 4.]]], dtype=float32)
    """
    window = window_strides, padding, lhs_dilation, rhs_dilation
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, *window, **how)


def transposed_pads(reach: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding of the dilated array: n elements give n * stride ("SAME"), or what a "VALID"
    convolution would have needed to give n."""
    name = padding.upper()
    if name == "SAME":
        total = reach + stride - 2
        low = reach - 1 if stride > reach - 1 else -(-total // 2)
    elif name == "VALID":
        total = reach + stride - 2 + max(reach - stride, 0)
        low = reach - 1
    else:
        wanted = '"SAME", "VALID", or (low, high) per spatial dimension'
        raise unknown_option("conv_transpose", "padding", padding, wanted, use="SAME")
    return low, total - low


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolves an array dilated by `strides`: the transpose of a strided convolution.

    padding: "SAME", "VALID", or (low, high) per spatial dimension, of the dilated array; with
    `use_consistent_padding`, of the convolution that this is the transpose of.
    dimension_numbers: by default channels last, ("NHWC", "HWIO", "NHWC").
    transpose_kernel: reverses the kernel and exchanges its features, so that the result is the
    gradient of the convolution with that kernel. Raises as `conv_general_dilated` does.

    rhs_dilation: the distance between neighbours of the kernel, per spatial dimension; by default
    1; use_consistent_padding: whether pairs in `padding` are those of the convolution that this is
    the transpose of.

    >>> lax.conv_transpose(np.ones((1, 3, 1)), np.ones((2, 1, 1)), (2,), "SAME").shape
    (1, 6, 1)
    """
    lhs_shape, rhs_shape = type_of(lhs).shape, type_of(rhs).shape
    if dimension_numbers is None:
        spatial = "HWDXYZ"[: max(0, len(lhs_shape) - 2)]
        dimension_numbers = (f"N{spatial}C", f"{spatial}IO", f"N{spatial}C")
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    places = numbers.rhs_spec[2:]
    steps = (1,) * len(places) if rhs_dilation is None else tuple(rhs_dilation)
    reaches = [dilated_length(rhs_shape[d], step) for d, step in zip(places, steps, strict=True)]
    if isinstance(padding, str):
        pads = [transposed_pads(k, s, padding) for k, s in zip(reaches, strides, strict=True)]
    elif use_consistent_padding:
        pads = [
            (k - 1 - low, k - 1 - high) for k, (low, high) in zip(reaches, padding, strict=True)
        ]
    else:
        pads = [(low, high) for low, high in padding]
    if transpose_kernel:
        order = list(range(len(rhs_shape)))
        first, second = numbers.rhs_spec[:2]
        order[first], order[second] = second, first
        rhs = transpose(rev(rhs, places), order)
    window = (1,) * len(places), pads, tuple(strides), steps
    how = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, *window, numbers, **how)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of the result of `conv_general_dilated`.

    Args:
        lhs_shape: The shape of the array.
        rhs_shape: The shape of the kernel.
        dimension_numbers: Which dimension is which, as in `conv_dimension_numbers`.

    >>> lax.conv_general_shape_tuple((1, 8, 3), (2, 3, 5), (2,), "SAME", ("NWC", "WIO", "NWC"))
    (1, 4, 5)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    lhs = [lhs_shape[d] for d in numbers.lhs_spec]
    rhs = [rhs_shape[d] for d in numbers.rhs_spec]
    found = conv_shape_tuple(lhs, rhs, window_strides, padding)
    return tuple(found[d] for d in inverse_permutation(numbers.out_spec))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of the result of `conv_transpose` with these strides.

    Args:
        lhs_shape: The shape of the array.
        rhs_shape: The shape of the kernel.
        dimension_numbers: Which dimension is which, as in `conv_dimension_numbers`.

    >>> lax.conv_transpose_shape_tuple((1, 3, 1), (2, 1, 1), (2,), "SAME", ("NWC", "WIO", "NWC"))
    (1, 6, 1)
    """
    numbers = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    kernel = [rhs_shape[d] for d in numbers.rhs_spec[2:]]
    pads: Sequence[tuple[int, int]]
    if isinstance(padding, str):
        pads = [transposed_pads(k, s, padding) for k, s in zip(kernel, window_strides, strict=True)]
    else:
        pads = padding
    lengths = [lhs_shape[d] for d in numbers.lhs_spec]
    spread = [dilated_length(n, s) for n, s in zip(lengths[2:], window_strides, strict=True)]
    rhs = [rhs_shape[d] for d in numbers.rhs_spec]
    found = conv_shape_tuple([*lengths[:2], *spread], rhs, (1,) * len(kernel), pads)
    return tuple(found[d] for d in inverse_permutation(numbers.out_spec))


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The windows that a convolution with a kernel of shape `filter_shape` would see.

    The result's feature dimension has features * prod(filter_shape) elements: for each feature of
    the array, its window in row-major order. See `conv_general_dilated` for the other arguments.

    Args:
        lhs_dilation: The distance between neighbours of the array, per spatial dimension; by
            default 1.
        rhs_dilation: The distance between neighbours of the window, per spatial dimension; by
            default 1.
        dimension_numbers: Which dimension is which, as in `conv_dimension_numbers`.

    >>> lax.conv_general_dilated_patches(np.arange(4.0).reshape(1, 1, 4), (2,), (1,), "VALID")
    Array([[[0., 1., 2.],
            [1., 2., 3.]]], dtype=float32)
    """
    aval, window = type_of(lhs), tuple(filter_shape)
    size = prod(window)
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *window), dimension_numbers)
    features = aval.shape[numbers.lhs_spec[1]]
    # (output feature, input feature, window): one output per element of the window, per feature.
    identity = reshape(eye(aval.dtype, (size, size)), (size, 1, *window))
    repeated = repeat_first(identity, features)
    placed = transpose(repeated, inverse_permutation(numbers.rhs_spec))
    return conv_general_dilated(
        lhs,
        placed,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision="highest" if precision is None else precision,
        preferred_element_type=preferred_element_type,
    )


def repeat_first(x: Any, times: int) -> Any:
    """An array repeated along its first dimension."""
    shape = type_of(x).shape
    whole = broadcast_in_dim(x, (times, *shape), tuple(range(1, len(shape) + 1)))
    return reshape(whole, (times * shape[0], *shape[1:]))


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution whose kernel differs from position to position.

    The kernel's spatial dimensions are those of the result, and its input feature dimension has
    features * prod(filter_shape) elements, ordered as `conv_general_dilated_patches` orders them.

    Args:
        filter_shape: The lengths of the window, per spatial dimension.
        lhs_dilation: The distance between neighbours of the array, per spatial dimension; by
            default 1.
        rhs_dilation: The distance between neighbours of the window, per spatial dimension; by
            default 1.
        dimension_numbers: Which dimension is which, as in `conv_dimension_numbers`.

    >>> x = np.arange(3.0).reshape(1, 1, 3)
    >>> kernels = np.array([[[1.0, 10.0], [1.0, 10.0]]])  # (features, window, place)
    >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
    Array([[[ 1., 30.]]], dtype=float32)
    """
    shape = type_of(lhs).shape
    numbers = conv_dimension_numbers(shape, (1, 1, *filter_shape), dimension_numbers)
    window = window_strides, padding, lhs_dilation, rhs_dilation
    patches = conv_general_dilated_patches(lhs, filter_shape, *window, numbers, precision)
    _, rhs_spec, out_spec = numbers
    found = dot_general(
        patches, rhs, (((out_spec[1],), (rhs_spec[1],)), (out_spec[2:], rhs_spec[2:])), precision
    )
    # The product has the spatial dimensions, then batch, then output feature.
    return transpose(found, inverse_permutation((*out_spec[2:], *out_spec[:2])))
