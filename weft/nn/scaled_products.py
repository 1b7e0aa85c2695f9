"""Products of numbers that come with scales, as formats of few bits have them: `scaled_dot`,
`scaled_matmul`.

A scale belongs to a block of elements along a summed dimension (the OCP Microscaling Formats,
https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf). The product
is that of the scaled numbers, in the dtype of the result.
"""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, api_boundary
from weft.kinds.checks import check_arrays
from weft.ops.elementwise.arithmetic import mul
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.operand_errors import unfit
from weft.ops.products.dot import dot_general
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.typing import ArrayLike, DTypeLike


@api_boundary
def scaled_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    lhs_scale: ArrayLike | None = None,
    rhs_scale: ArrayLike | None = None,
    dimension_numbers: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The product of `lhs * lhs_scale` and `rhs * rhs_scale`, as `dot_general` forms it.

    A scale has the dimensions of its operand; along summed ones it may be shorter, and then each of
    its elements is for a block of equal length. By default the last dimension of lhs is summed with
    the last but one of rhs, and those before are batch dimensions. The dtype is bfloat16, or
    `preferred_element_type`. Raises ShapeError for scales that do not fit.

    Args:
        lhs_scale: The scale of lhs, or None for none.
        rhs_scale: The scale of rhs, or None for none.
        dimension_numbers: The summed and the batch dimensions of both operands, as for
            `dot_general`.
        preferred_element_type: The dtype of products and of the result; None for bfloat16.

    >>> x, scale = np.ones((1, 4), np.float32), np.array([[1.0, 10.0]])
    >>> lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type="float32")
    Array([[22.]], dtype=float32)
    """
    wanted = dtypes.bfloat16 if preferred_element_type is None else preferred_element_type
    dtype = dtypes.requested(wanted)
    left, right = type_of(lhs), type_of(rhs)
    if dimension_numbers is None:
        if left.ndim != right.ndim or left.ndim < 2:
            takes, types = "operands of one rank, 2 or more", (left, right)
            raise unfit(ShapeError, "scaled_dot", takes, types, "equal ranks, or dimension_numbers")
        batch = tuple(range(left.ndim - 2))
        dimension_numbers = (((left.ndim - 1,), (left.ndim - 2,)), (batch, batch))
    summed = dimension_numbers[0]
    x = scaled(lhs, lhs_scale, summed[0], dtype)
    y = scaled(rhs, rhs_scale, summed[1], dtype)
    return dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def scaled(x: Any, scale: Any, summed: Any, dtype: Any) -> Any:
    """The array in a dtype, multiplied by its scale."""
    wide = convert_element_type(x, dtype)
    if scale is None:
        return wide
    of, by = type_of(x), type_of(scale)
    axes = {int(d) % max(of.ndim, 1) for d in summed}
    fits = of.ndim == by.ndim and all(
        n == m or (d in axes and m and n % m == 0)
        for d, (n, m) in enumerate(zip(of.shape, by.shape, strict=True))
    )
    if not fits:
        takes = "scales like their operand, where it is summed one for each block"
        fix = Fix("scale", f"pass a scale whose dimensions divide those of {of}")
        raise unfit(ShapeError, "scaled_dot", takes, (of, by), f"shapes within {of.shape}", fix)
    blocks = [size for n, m in zip(of.shape, by.shape, strict=True) for size in (m, n // max(m, 1))]
    spread = broadcast_in_dim(convert_element_type(scale, dtype), blocks, range(0, 2 * of.ndim, 2))
    return mul(wide, reshape(spread, of.shape))


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = "float32",
) -> Array:
    """The products of matrices `lhs` (b, m, k) and `rhs` (b, n, k), each with scales for blocks of
    its last dimension: an array (b, m, n). Raises ShapeError as `scaled_dot` does.

    lhs_scales: shape (b, m, i), for i equal blocks of k; rhs_scales: shape (b, n, j), for j equal
    blocks.

    >>> x, scales = np.ones((1, 2, 4), np.float32), np.full((1, 2, 2), 3.0)
    >>> weft.nn.scaled_matmul(x, x, scales, scales)
    Array([[[36., 36.],
            [36., 36.]]], dtype=float32)
    """
    check_arrays("scaled_matmul", lhs, rhs, lhs_scales, rhs_scales)
    return scaled_dot(
        lhs,
        rhs,
        lhs_scale=lhs_scales,
        rhs_scale=rhs_scales,
        dimension_numbers=(((2,), (2,)), ((0,), (0,))),
        preferred_element_type=preferred_element_type,
    )
