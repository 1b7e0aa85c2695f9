"""Attention: averages of values, weighted by how well a query fits their keys.

Vaswani et al., Attention is all you need (2017), https://arxiv.org/abs/1706.03762. Logits and their
softmax are computed in float32 at least. A query that may attend to nothing gives zeros.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from weft import dtypes
from weft.argument_errors import integer_of, invalid_value, refusal
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, api_boundary
from weft.kinds.checks import check_arrays, check_number, convert
from weft.kinds.compiled_functions import compiled
from weft.ops.elementwise.arithmetic import exp, log
from weft.ops.elementwise.arithmetic import max as max_
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flags
from weft.ops.indexing.creation import broadcasted_iota, full
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import dot_general
from weft.ops.reductions.reduce import largest_below_sum
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape, transpose

__all__ = ["dot_product_attention"]

Window = tuple[int, int]


# ---- computing ---------------------------------------------------------------------------------
# Logits have the dimensions batch, heads of keys, queries per key, T, S.


@compiled
def _attention(
    *operands: Any, names: tuple[str, ...], scale: float, causal: bool, window: Window | None
) -> tuple[Any, Any]:
    """Computes the results, and the logarithms of the sums of exponentials."""
    given = dict(zip(names, operands, strict=True))
    query, key, value = given["query"], given["key"], given["value"]
    batch, length, heads, width = type_of(query).shape
    keys, groups = type_of(key).shape[1], type_of(key).shape[2]
    shape = (batch, groups, heads // groups, length, keys)
    dtype = type_of(query).dtype
    wide = dtypes.float32 if dtypes.itemsize_bits(dtype) < 32 else dtype
    each = heads // groups
    # Queries, which are fewer, are put in order, so that logits need not be; and XLA would copy
    # logits for a dimension of length 1.
    split = transpose(reshape(query, (batch, length, groups, each, width)), (0, 2, 3, 1, 4))
    rows = (batch, groups, *([n for n in (each, length) if n != 1] or [1]))
    last = len(rows)
    numbers = (((last,), (3,)), ((0, 1), (0, 2)))
    logits = dot_general(reshape(split, (*rows, width)), key, numbers, preferred_element_type=wide)
    logits = reshape(logits * wide.type(scale), shape)
    if "bias" in given:
        logits = logits + convert(_spread(given["bias"], shape), wide)
    allowed = _allowed(given, shape, causal, window)
    # Of keys up to its own place, each query may attend to the first.
    some = not {"bias", "mask", "query_seq_lengths", "key_value_seq_lengths"} & given.keys()
    weights, total, largest = _weights(logits, allowed, never_empty=some and window is None)
    weights = reshape(convert(weights, type_of(value).dtype), (*rows, keys))
    found = dot_general(weights, value, (((last,), (1,)), ((0, 1), (0, 2))))
    found = reshape(found, (batch, groups, each, length, width))
    found = reshape(transpose(found, (0, 3, 1, 2, 4)), (batch, length, heads, width))
    sums = transpose(log(total) + largest, (0, 3, 1, 2))
    return found, reshape(sums, (batch, length, heads))


def _weights(logits: Any, allowed: Any, *, never_empty: bool) -> tuple[Any, Any, Any]:
    """The softmax of logits where that is allowed, its denominators, and the shift subtracted.

    XLA has a kernel for the plain formula, so rows where nothing is allowed are guarded only if
    there may be some: their shift is finite, since -inf - -inf would be NaN, and they are divided
    by 1.
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


def _allowed(
    given: dict[str, Any], shape: tuple[int, ...], causal: bool, window: Window | None
) -> Any:
    """The mask of which query may attend to which key; None if each to all."""
    found = [_spread(given["mask"], shape)] if "mask" in given else []
    rows, columns = (broadcasted_iota(dtypes.int32, shape, dim) for dim in (3, 4))
    if causal:
        found.append(rows >= columns)
    if window is not None:
        left, right = window
        found += [rows <= columns + left, rows >= columns - right]
    for name, places in (("query_seq_lengths", rows), ("key_value_seq_lengths", columns)):
        if name in given:
            lengths = convert(given[name], dtypes.int32)
            found.append(places < broadcast_in_dim(lengths, shape, (0,)))
    return functools.reduce(operator.and_, found) if found else None


def _spread(x: Any, shape: tuple[int, ...]) -> Any:
    """A bias or mask of shape (batch, heads, T, S), some of them 1, repeated to the logits."""
    batch, groups, each, length, keys = shape
    own = type_of(x).shape
    heads = (groups, each) if own[1] != 1 else (1, 1)
    split = (own[0], *heads, own[2], own[3])
    kept = tuple(d for d in range(5) if split[d] == shape[d])
    return broadcast_in_dim(reshape(x, tuple(split[d] for d in kept)), shape, kept)


@api_boundary
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
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
    _check_options(scale, is_causal, return_residual, implementation)
    check_arrays("dot_product_attention", query, key, value)
    single = type_of(query).ndim == 3
    arrays = {"query": query, "key": key, "value": value}
    if single:
        arrays = {
            name: reshape(x, (1, *type_of(x).shape)) if type_of(x).ndim == 3 else x
            for name, x in arrays.items()
        }
    _check_operands({name: type_of(x) for name, x in arrays.items()})
    lengths = {"query": query_seq_lengths, "key_value": key_value_seq_lengths}
    more = {"bias": bias, "mask": mask}
    more |= {f"{name}_seq_lengths": x for name, x in lengths.items()}
    arrays |= _optional(arrays, {name: x for name, x in more.items() if x is not None})
    width = type_of(query).shape[-1]
    found, sums = _attention(
        *arrays.values(),
        names=tuple(arrays),
        scale=1 / math.sqrt(width) if scale is None else float(scale),
        causal=bool(is_causal),
        window=_window(local_window_size),
    )
    if single:
        found, sums = (reshape(x, type_of(x).shape[1:]) for x in (found, sums))
    return (found, sums) if return_residual else found


def _check_options(scale: Any, is_causal: Any, return_residual: Any, implementation: Any) -> None:
    if scale is not None:
        check_number(scale, "dot_product_attention", "scale")
    check_flags("dot_product_attention", is_causal=is_causal, return_residual=return_residual)
    if implementation not in (None, "xla"):
        message = f"dot_product_attention has no implementation {implementation!r}"
        wanted = "None or 'xla'"
        fix = Fix("implementation", "leave it out", {"implementation": None})
        raise invalid_value(
            message, "dot_product_attention", "implementation", implementation, wanted, fix=fix
        )


def _wrong(
    what: str, got: str, wanted: str, use: str = "query (B, T, N, H) and key, value (B, S, K, H)"
) -> ShapeError:
    message = f"dot_product_attention: {what}"
    fix = Fix("shapes", f"pass {use}", {})
    return refusal(ShapeError, message, "dot_product_attention", got, wanted, fix)


def _check_operands(types: dict[str, ArrayType]) -> None:
    query, key, value = types["query"], types["key"], types["value"]
    shown = ", ".join(f"{name} {of}" for name, of in types.items())
    for name, of in types.items():
        if of.ndim != 4:
            raise _wrong(f"{name} has {of.ndim} dimensions", shown, "4 of each, or 3 of each")
        if of.dtype not in dtypes.FLOATING or of.dtype != query.dtype:
            message = "dot_product_attention takes query, key and value of one floating-point dtype"
            wanted = "float16, bfloat16, float32 or float64, the same for all"
            one = query.dtype if query.dtype in dtypes.FLOATING else dtypes.default_float()
            fix = to_dtype(name, of.dtype, one)
            raise refusal(DTypeError, message, "dot_product_attention", shown, wanted, fix)
    if key.shape != value.shape:
        raise _wrong("key and value differ in shape", shown, "equal shapes")
    if query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise _wrong("query and key differ in B or H", shown, "equal first and last dimensions")
    if not key.shape[2] or query.shape[2] % key.shape[2]:
        problem = "the heads of queries cannot be shared out among those of keys"
        raise _wrong(problem, shown, "as many heads of queries as of keys, or a multiple")


_ACCEPTED = {"bias": dtypes.FLOATING, "mask": dtypes.BOOLEAN}


def _optional(arrays: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Checks bias, mask and lengths, which have four dimensions or one."""
    batch, length, heads, _ = type_of(arrays["query"]).shape
    full_shape = (batch, heads, length, type_of(arrays["key"]).shape[1])
    found = {}
    for name, x in more.items():
        check_arrays("dot_product_attention", x)
        of = type_of(x)
        accepts = _ACCEPTED.get(name, dtypes.INTEGER)
        if of.dtype not in accepts:
            message = f"dot_product_attention: {name} has a dtype that it does not take"
            wanted = ", ".join(sorted(d.name for d in accepts))
            one = {"bias": dtypes.float32, "mask": dtypes.bool_}.get(name, dtypes.int32)
            fix = to_dtype(name, of.dtype, one)
            got = f"{name} {of}"
            raise refusal(DTypeError, message, "dot_product_attention", got, wanted, fix)
        if name in ("bias", "mask"):
            shape = (1,) * (4 - of.ndim) + of.shape
            fits = len(shape) == 4 and all(
                n in (1, m) for n, m in zip(shape, full_shape, strict=True)
            )
            wanted = f"{full_shape}, or 1 in place of any"
        else:
            shape, fits, wanted = of.shape, of.shape == (batch,), f"{(batch,)}"
        if not fits:
            use = f"a {name} of shape {wanted}"
            raise _wrong(f"{name} does not fit", f"{name} {of}", f"shape {wanted}", use)
        found[name] = reshape(x, shape)
    return found


def _window(size: Any) -> Window | None:
    if size is None:
        return None
    operation = "dot_product_attention"
    pair: Sequence[Any] = size if isinstance(size, (tuple, list)) else (size, size)
    numbers = [integer_of(n, operation, "local_window_size") for n in pair]
    if len(numbers) != 2 or min(numbers) < 0:
        message = f"{operation}: local_window_size is how far to the left and to the right"
        wanted = "an integer of 0 or more, or two"
        fix = Fix("window", "pass the two numbers, such as local_window_size=(2, 0)", {})
        raise invalid_value(message, operation, "local_window_size", size, wanted, fix=fix)
    return numbers[0], numbers[1]
