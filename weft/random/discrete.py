"""Discrete distributions: categories of given log-probabilities, and numbers of trials."""

from __future__ import annotations

from math import prod
from typing import Any

from weft import dtypes
from weft.argument_errors import invalid_dtype
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftValueError
from weft.kinds.checks import check_flag
from weft.ops.elementwise.arithmetic import add, div, eq, log, neg
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.elementary import log1p
from weft.ops.elementwise.rounding import floor
from weft.ops.elementwise.selection import select
from weft.ops.reductions.argreduce import argmax
from weft.ops.reductions.sorting import top_k
from weft.ops.structural.shape import canonical_axis, move_dim, reshape
from weft.random.continuous import gumbel_of
from weft.random.sampler import sampler
from weft.random.sampler_arguments import check_key, check_parameter, check_shape, parametric
from weft.random.streams import full_operand, repeated, stream_of

__all__ = ["categorical", "geometric"]

Arrays = tuple[Any, ...]
Static = tuple[Any, ...]
Shape = tuple[int, ...]


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Positions along an axis of `logits`, with probabilities proportional to exp(logits).

    The maximum of the logits, each with a Gumbel distributed number added, is at a position of that
    distribution (the "Gumbel-max trick": J. Yellott, Journal of Mathematical Psychology 15, 1977),
    and the k largest are k draws without repetition.

    Args:
        key (Array): A random key.
        logits (Array): Logarithms of the probabilities, up to a constant.
        axis: The axis of `logits` along which the positions are.
        shape: Ends with the shape of `logits` without the axis, which it is by default; the
            dimensions before it count draws.
        replace: Whether draws are independent. With False no position is drawn twice.
        mode: That of `gumbel`.
        out_sharding (sharding): How the result is split over devices.

    >>> import weft, weft.numpy as jnp
    >>> weft.random.categorical(
    ...     weft.random.key(0), jnp.log(jnp.array([0.5, 0.25, 0.25])), shape=(4,)
    ... )
    Array([1, 0, 2, 1], dtype=int32)
    """
    check_flag(replace, "categorical", "replace")
    return _categorical((key, logits), (axis, shape, replace, mode), out_sharding)


def _check_categorical(operation: str, arrays: Arrays, static: Static) -> tuple[Arrays, Static]:
    key = check_key(operation, arrays[0])
    logits = check_parameter(operation, "logits", arrays[1])
    axis, shape, replace, mode = static
    of = type_of(logits)
    if of.dtype not in dtypes.FLOATING:
        message = f"{operation}: logits are floating-point numbers, not {of}"
        wanted = "an array of logarithms of probabilities"
        fix = Fix("log", "pass their logarithms: weft.numpy.log(p)", {"argument": "logits"})
        raise invalid_dtype(message, operation, "logits", of, wanted, fix=fix)
    axis = canonical_axis(axis, of.ndim, operation)
    batch = of.shape[:axis] + of.shape[axis + 1 :]
    shape = batch if shape is None else check_shape(operation, shape)
    lead = len(shape) - len(batch)
    if lead < 0 or any(a not in (1, b) for a, b in zip(batch, shape[lead:], strict=True)):
        message = f"{operation}: shape does not end with that of the logits without the axis"
        got = f"shape={shape}, logits of shape {of.shape}, axis={axis}"
        wanted = f"a shape that ends with {batch}"
        fix = Fix("shape", f"pass shape=(n, *{batch})", {"batch": batch})
        raise ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    mode = mode or "low"
    if not replace and prod(shape[:lead]) > of.shape[axis]:
        raise WeftValueError(
            f"{operation}: {prod(shape[:lead])} draws without replacement from "
            f"{of.shape[axis]} categories",
            operation=operation,
            got=f"shape={shape}, replace=False, logits of shape {of.shape}",
            wanted="no more draws than categories",
            fix=Fix("replace", "draw with replacement: replace=True", {"replace": True}),
        )
    return (key, logits), (axis, shape, bool(replace), mode)


@sampler(_check_categorical)
def _categorical(key: Any, logits: Any, axis: int, shape: Shape, replace: bool, mode: str) -> Any:
    of = type_of(logits)
    if of.weak_type:
        logits = convert_element_type(logits, of.dtype)
    rest = of.ndim - 1
    draws, batch = shape[: len(shape) - rest], shape[len(shape) - rest :]
    stream = stream_of(key)
    if replace:
        whole = (*draws, *batch[:axis], of.shape[axis], *batch[axis:])
        noise = gumbel_of(stream, whole, of.dtype, mode)
        return argmax(add(noise, repeated(logits, whole)), axis + len(draws), dtypes.default_int())
    whole = (*batch[:axis], of.shape[axis], *batch[axis:])
    noisy = add(repeated(logits, whole), gumbel_of(stream, whole, of.dtype, mode))
    last = move_dim(noisy, axis, rest, of.shape[axis])
    places = move_dim(top_k(last, prod(draws))[1], rest, 0, prod(draws))
    return convert_element_type(reshape(places, shape), dtypes.default_int())


def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Geometrically distributed integers from 1: the number of independent trials up to the first
    success, each of probability `p`.

    `p` is a number or an array that broadcasts to `shape`, which is by default its own.

    p: the probability of success in each trial; shape: the lengths of the result; None for the
    shape of `p`.

    >>> weft.random.geometric(weft.random.key(0), 0.5, (4,))
    Array([1, 1, 2, 2], dtype=int32)
    """
    return _geometric((key, p), (shape, dtype), out_sharding)


@sampler(parametric("integers", "p"))
def _geometric(key: Any, p: Any, shape: Shape, dtype: Any) -> Any:
    of = type_of(p)
    real = of.dtype if of.dtype in dtypes.FLOATING else dtypes.default_float()
    p = full_operand(p, shape, real)
    x = stream_of(key).unit(shape, real)
    one = real.type(1)
    # The uniform number may be 0, whose logarithm is infinite; it is replaced by 1.
    x = select(eq(x, real.type(0)), repeated(one, shape), x)
    failures = floor(div(log(x), log1p(neg(p))))
    return convert_element_type(add(failures, one), dtype)
