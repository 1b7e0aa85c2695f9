"""Attention: averages of values, weighted by how well a query fits their keys.

Vaswani et al., Attention is all you need (2017), https://arxiv.org/abs/1706.03762. Logits and their
softmax are computed in float32 at least. A query that may attend to nothing gives zeros.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from typing import Annotated, Any

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import integer_of
from weft.kinds.arguments import Flag, Mask, choice, of_dtypes, operand_kind
from weft.kinds.array_function import array_function
from weft.kinds.checks import check_number, convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import exp, log
from weft.ops.elementwise.arithmetic import max as max_
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota, full
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import dot_general
from weft.ops.reductions.reduce import largest_below_sum
from weft.ops.structural.shape import (
    broadcast_in_dim,
    expand_dims,
    reduce_sum,
    reshape,
    squeeze,
    transpose,
)
from weft.typing import ArrayLike

__all__ = ["dot_product_attention"]


# ---- arguments ---------------------------------------------------------------------------------

_SHAPES = "query (B, T, N, H) and key, value (B, S, K, H)"


def _wrong(message: str, got: str, wanted: str, use: str = _SHAPES) -> ShapeError:
    return ShapeError(message, got=got, wanted=wanted, fix=Fix("shapes", f"pass {use}", {}))


def _take_vectors(value: Any, call: Arguments) -> Any:
    value = operand_kind.take(value, call)
    of = type_of(value)
    first = call.type if call.position else of
    if of.ndim not in (3, 4) or of.ndim < first.ndim:
        problem = f"{call.name} has {of.ndim} dimensions"
        raise _wrong(problem, f"{call.name} {of}", "4 of each, or 3 of each")
    if of.dtype not in dtypes.FLOATING or of.dtype != first.dtype:
        message = "takes query, key and value of one floating-point dtype"
        wanted = "float16, bfloat16, float32 or float64, the same for all"
        one = first.dtype if first.dtype in dtypes.FLOATING else dtypes.default_float()
        fix = to_dtype(call.name, of.dtype, one)
        got = f"{call.name} {of}" + f" beside {first}" * (first is not of)
        raise DTypeError(message, got=got, wanted=wanted, fix=fix)
    return value


def _take_scale(value: Any, call: Arguments) -> float:
    check_number(value, call.name)
    if type_of(value).dtype in dtypes.COMPLEX:
        message = f"{call.name} is a real number"
        raise WeftTypeError(message, got=f"{call.name}={value!r:.80}", wanted="a real number")
    return float(value)


def _take_window(value: Any, call: Arguments) -> tuple[int, int]:
    pair = value if isinstance(value, (tuple, list)) else (value, value)
    numbers = [integer_of(n, call.name) for n in pair]
    if len(numbers) != 2 or min(numbers) < 0:
        message = f"{call.name} is how far to the left and to the right"
        wanted = "an integer of 0 or more, or two"
        fix = Fix("window", f"pass the two numbers, such as {call.name}=(2, 0)", {})
        raise WeftValueError(message, got=f"{call.name}={value!r:.80}", wanted=wanted, fix=fix)
    return numbers[0], numbers[1]


_vectors_kind = dataclasses.replace(
    operand_kind,
    take=_take_vectors,
    means="floating-point numbers of three or four dimensions",
    wrong=(*operand_kind.wrong, 1.5),
    right=operand_kind.right.reshape(1, 3, 2, 2),
    arrays=False,
)
Vectors = Annotated[ArrayLike, _vectors_kind]
_bias_kind = of_dtypes(dtypes.FLOATING, dtypes.float32, "floating-point numbers")
Bias = Annotated[ArrayLike, _bias_kind]
Lengths = Annotated[ArrayLike, of_dtypes(dtypes.INTEGER, dtypes.int32, "integers of shape (B,)")]
Scale = Annotated[float | None, Kind(_take_scale, "a real number, or None", ("text", 1j, [1]))]
_MEANS = "how far to the left and to the right, an integer for both, or None"
Window = Annotated[Any, Kind(_take_window, _MEANS, ("text", 0.5, -1, (1, 2, 3)))]
Implementation = Annotated[str | None, choice(None, "xla")]


# ---- computing ---------------------------------------------------------------------------------
# Logits have the dimensions batch, heads of keys, queries per key, T, S.


@array_function
def dot_product_attention(
    query: Vectors,
    key: Vectors,
    value: Vectors,
    bias: Bias | None = None,
    mask: Mask = None,
    *,
    scale: Scale = None,
    is_causal: Flag = False,
    query_seq_lengths: Lengths | None = None,
    key_value_seq_lengths: Lengths | None = None,
    local_window_size: Window = None,
    implementation: Implementation = None,
    return_residual: Flag = False,
) -> Array | tuple[Array, Array]:
    """softmax(scale * query keyᵀ + bias) value, for several heads.

    query: (B, T, N, H); key, value: (B, S, K, H), of one floating-point dtype; all without B, too.
    N is a multiple of K: N/K heads of queries share the keys and values of one. The result has the
    shape and dtype of query. bias: real numbers of shape (B, N, T, S) or 1 in place of any of
    these. mask: booleans of such a shape; True may be attended to. scale: by default 1/sqrt(H).
    is_causal: query i attends to keys 0 … i. query_seq_lengths, key_value_seq_lengths: integers of
    shape (B,); positions beyond them are left out. local_window_size: query i attends to keys from
    i - left to i + right, an integer for both. A query that may attend to nothing gives zeros.
    return_residual: whether the logarithm of the sum of exponentials, (B, T, N), is a second
    result. implementation: None or "xla"; others raise WeftValueError.

    Raises ShapeError, DTypeError and WeftValueError for arguments that do not fit.

    >>> q, kv = jnp.ones((1, 2, 1, 4)), jnp.arange(12.0).reshape(1, 3, 1, 4)
    >>> print(weft.nn.dot_product_attention(q, kv, kv, is_causal=True)[0, 0, 0])
    [0. 1. 2. 3.]
    """
    single = query.ndim == 3
    if single:
        query, key, value = (
            expand_dims(x, (0,)) if x.ndim == 3 else x for x in (query, key, value)
        )
    _check_shapes(query.type, key.type, value.type)
    batch, length, heads, width = query.shape
    keys, groups = key.shape[1], key.shape[2]
    each = heads // groups
    shape = (batch, groups, each, length, keys)
    wide = dtypes.float32 if dtypes.itemsize_bits(query.dtype) < 32 else query.dtype
    # Queries, which are fewer, are put in order, so that logits need not be; and XLA would copy
    # logits for a dimension of length 1.
    split = transpose(reshape(query, (batch, length, groups, each, width)), (0, 2, 3, 1, 4))
    rows = (batch, groups, *([n for n in (each, length) if n != 1] or [1]))
    last = len(rows)
    numbers = (((last,), (3,)), ((0, 1), (0, 2)))
    logits = dot_general(reshape(split, (*rows, width)), key, numbers, preferred_element_type=wide)
    logits = reshape(logits * (1 / math.sqrt(width) if scale is None else scale), shape)
    if bias is not None:
        logits = logits + convert(_broadcast_heads("bias", bias, shape), wide)
    masks = [] if mask is None else [_broadcast_heads("mask", mask, shape)]
    limits = {
        "query_seq_lengths": query_seq_lengths,
        "key_value_seq_lengths": key_value_seq_lengths,
    }
    masks += _masks(shape, is_causal, local_window_size, limits)
    # Of keys up to its own place, each query may attend to the first.
    some = len(masks) == is_causal and bias is None
    allowed = functools.reduce(operator.and_, masks) if masks else None
    weights, total, largest = _weights(logits, allowed, never_empty=some)
    weights = reshape(convert(weights, value.dtype), (*rows, keys))
    out = dot_general(weights, value, (((last,), (1,)), ((0, 1), (0, 2))))
    out = reshape(out, (batch, groups, each, length, width))
    out = reshape(transpose(out, (0, 3, 1, 2, 4)), (batch, length, heads, width))
    out = squeeze(out, (0,)) if single else out
    if not return_residual:
        return out
    sums = reshape(transpose(log(total) + largest, (0, 3, 1, 2)), (batch, length, heads))
    return out, squeeze(sums, (0,)) if single else sums


def _check_shapes(query: ArrayType, key: ArrayType, value: ArrayType) -> None:
    shown = f"query {query}, key {key}, value {value}"
    if key.shape != value.shape:
        raise _wrong("key and value differ in shape", shown, "equal shapes")
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise _wrong("query and key differ in B or H", shown, "equal first and last dimensions")
    if not key.shape[2] or query.shape[2] % key.shape[2]:
        message = "the heads of queries cannot be shared out among those of keys"
        raise _wrong(message, shown, "as many heads of queries as of keys, or a multiple")


def _weights(logits: Any, allowed: Any, *, never_empty: bool) -> tuple[Any, Any, Any]:
    """The masked softmax of logits, its denominators, and the subtracted shift.

    XLA has a kernel for the plain formula, so rows without an allowed key are guarded only if there
    may be some: their shift is finite, since -inf - -inf would be NaN, and they are divided by 1.
    """
    shape, dtype = type_of(logits).shape, type_of(logits).dtype
    outer = tuple(range(4))
    if allowed is not None:
        logits = select(allowed, logits, full(shape, -math.inf, dtype))
    largest = largest_below_sum(logits, (4,))
    if not never_empty:
        largest = max_(largest, dtype.type(dtypes.finfo(dtype).min))
    weights = exp(logits - broadcast_in_dim(largest, shape, outer))
    total = reduce_sum(weights, (4,))
    safe = total if never_empty else total + stop_gradient(convert(total == 0, dtype))
    return weights / broadcast_in_dim(safe, shape, outer), total, largest


def _masks(
    shape: tuple[int, ...], causal: bool, window: tuple[int, int] | None, limits: dict[str, Any]
) -> list[Any]:
    """Masks by position: causal, of a local window, and of sequence lengths."""
    rows, columns = (broadcasted_iota(dtypes.int32, shape, dim) for dim in (3, 4))
    out = [rows >= columns] if causal else []
    if window is not None:
        left, right = window
        out += [rows <= columns + left, rows >= columns - right]
    for places, (name, lengths) in zip((rows, columns), limits.items(), strict=True):
        if lengths is not None:
            if lengths.shape != shape[:1]:
                raise _unfit(name, lengths, f"{shape[:1]}")
            lengths = convert(lengths, dtypes.int32)
            out.append(places < broadcast_in_dim(lengths, shape, (0,)))
    return out


def _unfit(name: str, x: Any, wanted: str) -> ShapeError:
    use = f"a {name} of shape {wanted}"
    return _wrong(f"{name} does not fit", f"{name} {x.type}", f"shape {wanted}", use)


def _broadcast_heads(name: str, x: Any, shape: tuple[int, ...]) -> Any:
    """Broadcasts a bias or mask of shape (batch, heads, T, S), some of them 1, to the logits."""
    batch, groups, each, length, keys = shape
    full_shape, padded = (batch, groups * each, length, keys), (1,) * (4 - x.ndim) + x.shape
    if x.ndim > 4 or any(n not in (1, m) for n, m in zip(padded, full_shape, strict=True)):
        raise _unfit(name, x, f"{full_shape}, or 1 in place of any")
    heads = (groups, each) if padded[1] != 1 else (1, 1)
    split = (padded[0], *heads, padded[2], padded[3])
    dims = tuple(d for d in range(5) if split[d] == shape[d])
    return broadcast_in_dim(reshape(x, tuple(split[d] for d in dims)), shape, dims)
