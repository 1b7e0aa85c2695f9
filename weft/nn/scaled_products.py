"""Products of numbers that come with scales, as formats of few bits have them: `scaled_dot`,
`scaled_matmul`.

A scale belongs to a block of elements along a summed dimension (the OCP Microscaling Formats,
https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf). The product
is that of the scaled numbers, in the dtype of the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from weft import dtypes
from weft.arrays.array import Array
from weft.errors import Fix, ShapeError
from weft.errors.argument_errors import integers_of
from weft.kinds.arguments import operand_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import check_arrays, convert, sequence_of
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.linear_algebra import Preferred
from weft.ops.products.dot import dot_general
from weft.ops.structural.shape import broadcast_in_dim, reshape
from weft.typing import ArrayLike


def take_pairs(value: Any, call: Arguments) -> tuple[Any, ...]:
    """The dimension numbers of `dot_general` as tuples of integers."""
    name = call.name
    pairs = [sequence_of(pair, name) for pair in sequence_of(value, name)]
    return tuple([tuple([integers_of(dims, name) for dims in pair]) for pair in pairs])


def _take_factor(value: Any, call: Arguments) -> Any:
    # It is converted to the dtype of the product, not to the default width first.
    check_arrays(value, argument=call.name)
    return number_for(value, call["preferred_element_type"] or dtypes.bfloat16)


Factor = Annotated[ArrayLike, dataclasses.replace(operand_kind, take=_take_factor, late=True)]
_MEANS = "the summed and the batch dimensions of both operands, or None for those of matrices"
DotDimensions = Annotated[Any, Kind(take_pairs, _MEANS, ("text", 3, ((1, 0), ((), ()))))]


@array_function
def scaled_dot(
    lhs: Factor,
    rhs: Factor,
    *,
    lhs_scale: Factor | None = None,
    rhs_scale: Factor | None = None,
    dimension_numbers: DotDimensions = None,
    preferred_element_type: Preferred = None,
) -> Array:
    """The product of `lhs * lhs_scale` and `rhs * rhs_scale`, as `dot_general` forms it.

    lhs_scale, rhs_scale: the scales, or None. A scale has the dimensions of its operand; along
    summed ones it may be shorter, and then each of its elements is for a block of equal length.
    dimension_numbers: the summed and the batch dimensions of both operands, as for `dot_general`;
    by default the last dimension of lhs is summed with the last but one of rhs, and those before
    are batch dimensions. preferred_element_type: the dtype of products and of the result; None for
    bfloat16. Raises ShapeError for scales that do not fit.

    >>> x, scale = np.ones((1, 4), np.float32), np.array([[1.0, 10.0]])
    >>> lax.scaled_dot(x, x.T, lhs_scale=scale, preferred_element_type="float32")
    Array([[22.]], dtype=float32)
    """
    if dimension_numbers is None:
        if lhs.ndim != rhs.ndim or lhs.ndim < 2:
            message = "the operands have different ranks, or fewer than two dimensions"
            wanted = "equal ranks of 2 or more, or dimension_numbers"
            raise ShapeError(message, got=f"{lhs.type} and {rhs.type}", wanted=wanted)
        batch = tuple(range(lhs.ndim - 2))
        dimension_numbers = (((lhs.ndim - 1,), (lhs.ndim - 2,)), (batch, batch))
    dtype = preferred_element_type or dtypes.bfloat16
    (left, right), _ = dimension_numbers
    x, y = _scale(lhs, lhs_scale, left, dtype), _scale(rhs, rhs_scale, right, dtype)
    return dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _scale(x: Any, scale: Any, summed: Sequence[int], dtype: Any) -> Any:
    """The array in a dtype, multiplied by its scale."""
    wide = convert(x, dtype)
    if scale is None:
        return wide
    axes = {d % max(x.ndim, 1) for d in summed}
    fits = x.ndim == scale.ndim and all(
        n == m or (d in axes and m and n % m == 0)
        for d, (n, m) in enumerate(zip(x.shape, scale.shape, strict=True))
    )
    if not fits:
        message = "a scale is like its operand, where it is summed one for each block"
        fix = Fix("scale", f"pass a scale whose dimensions divide those of {x.type}")
        got, wanted = f"{x.type} and scale {scale.type}", f"shapes within {x.shape}"
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
    lengths = zip(x.shape, scale.shape, strict=True)
    blocks = [length for n, m in lengths for length in (m, n // (m or 1))]
    spread = broadcast_in_dim(convert(scale, dtype), blocks, range(0, 2 * x.ndim, 2))
    return wide * reshape(spread, x.shape)


@array_function
def scaled_matmul(
    lhs: Factor,
    rhs: Factor,
    lhs_scales: Factor,
    rhs_scales: Factor,
    preferred_element_type: Preferred = "float32",
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
    dtype = preferred_element_type or dtypes.bfloat16
    x, y = _scale(lhs, lhs_scales, (2,), dtype), _scale(rhs, rhs_scales, (2,), dtype)
    return dot_general(x, y, (((2,), (2,)), ((0,), (0,))), preferred_element_type=dtype)
