"""Convolution of two `BCOO`s, or of one and a dense array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft.api.jit import jit
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.experimental.sparse.base import JAXSparse, unsupported
from weft.experimental.sparse.batches import padded, place_in
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_storage import (
    bcoo_fromdense,
    bcoo_sum_duplicates,
    bcoo_update_layout,
)


@api_boundary
def bcoo_conv_general_dilated(
    lhs: Any, rhs: Any, *, window_strides: Sequence[int], padding: Any,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, feature_group_count: int = 1, batch_group_count: int = 1,
    precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None,
) -> BCOO:  # fmt: skip
    """The convolution of `weft.lax.conv_general_dilated` of one signal of one feature with one
    kernel: operands of shape (1, 1, length), at least one a BCOO.

    Raises WeftNotImplementedError for more features or dimensions, strides and dilations.

    >>> from weft.experimental import sparse
    >>> x = sparse.bcoo_fromdense(jnp.array([[[0.0, 1.0, 0.0]]]))
    >>> y = jnp.array([[[1.0, 2.0]]])
    >>> out = sparse.bcoo_conv_general_dilated(x, y, window_strides=(1,), padding=[(1, 1)])
    >>> out.todense()
    Array([[[0., 2., 1., 0.]]], dtype=float32)
    """
    shapes = [x.shape if isinstance(x, JAXSparse) else type_of(x).shape for x in (lhs, rhs)]
    order = dimension_numbers
    plain_order = order is None or all(tuple(spec) == (0, 1, 2) for spec in order)
    ones = [tuple(x) for x in (window_strides, lhs_dilation or (1,), rhs_dilation or (1,))]
    plain = plain_order and set(ones) == {(1,)} and feature_group_count == batch_group_count == 1
    if not plain or any(len(s) != 3 or s[:2] != (1, 1) for s in shapes):
        what = "one signal of one feature, without strides and dilations, is convolved"
        raise unsupported(what, f"shapes {shapes[0]} and {shapes[1]}")
    if not isinstance(padding, str):
        before, after = map(int, padding[0])
    elif padding == "VALID":
        before = after = 0
    else:
        total = shapes[1][2] - 1
        before = total // 2 if padding == "SAME" else total - total // 2
        after = total - before
    a, b = (x if isinstance(x, BCOO) else bcoo_fromdense(x, nse=s[2]) for x, s in
            zip((lhs, rhs), shapes, strict=True))  # fmt: skip
    a, b = (bcoo_update_layout(x, n_batch=0, n_dense=0) for x in (a, b))
    length = shapes[0][2] + before + after - shapes[1][2] + 1
    dtype = preferred_element_type or jnp.result_type(a.data, b.data)
    out: BCOO = _convolve(a, b, before=before, length=length, dtype=dtype)
    return out


@jit(inline=True, static_argnames=("before", "length", "dtype"))
def _convolve(a: BCOO, b: BCOO, *, before: int, length: int, dtype: Any) -> BCOO:
    # out[k] = sum over i of signal[k + i - before] * kernel[i]
    place = (a.indices[:, None, 2] + before - b.indices[None, :, 2]).reshape(a.nse * b.nse)
    outside = (padded(a.indices, a.shape)[:, None] | padded(b.indices, b.shape)).reshape(-1)
    outside = outside | (place < 0) | (place >= length)
    zero = jnp.zeros_like(place)
    where = jnp.stack([zero, zero, place], -1)
    shape = (1, 1, length)
    where = jnp.where(outside[:, None], place_in(where, shape), where)
    data = (a.data.astype(dtype)[:, None] * b.data.astype(dtype)[None]).reshape(a.nse * b.nse)
    pairs = BCOO((jnp.where(outside, jnp.zeros_like(data), data), where), shape=shape)
    return bcoo_sum_duplicates(pairs, nse=min(a.nse * b.nse, length))
