"""Discrete distributions: categories of given log-probabilities, and numbers of trials."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError
from weft.kinds.arguments import Flag
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments
from weft.ops.elementwise.arithmetic import log
from weft.ops.elementwise.elementary import log1p
from weft.ops.elementwise.rounding import floor
from weft.ops.elementwise.selection import select
from weft.ops.reductions.argreduce import argmax
from weft.ops.reductions.sorting import top_k
from weft.ops.structural.shape import move_dim
from weft.random.continuous import gumbel_of
from weft.random.draw_arguments import (
    Integers,
    Joined,
    Key,
    NoiseMode,
    Real,
    Shape,
    Sharding,
    axis_kind,
    check_replaced,
    real_kind,
)
from weft.random.streams import broadcast_to, draw_function, full_operand, stream_of


def _logits(value: Any, call: Arguments) -> Any:
    value = real_kind.take(value, call)
    of = type_of(value)
    if of.dtype not in dtypes.FLOATING:
        message = f"logits are floating-point numbers, not {of}"
        wanted = "an array of logarithms of probabilities"
        fix = Fix("log", "pass their logarithms: weft.numpy.log(p)", {"argument": "logits"})
        raise DTypeError(message, got=f"logits of type {of}", wanted=wanted, fix=fix)
    return value


_ROW = np.zeros(3, np.float32)
Logits = Annotated[Any, dataclasses.replace(real_kind, take=_logits, wrong=("text", 1), right=_ROW)]


@draw_function
def categorical(
    key: Key,
    logits: Logits,
    axis: Annotated[int, axis_kind("logits")] = -1,
    shape: Shape | None = None,
    replace: Flag = True,
    mode: NoiseMode = None,
    *,
    out_sharding: Sharding = None,
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
    n, dtype = logits.shape[axis], logits.dtype
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else shape
    lead = len(shape) - len(batch)
    if lead < 0 or any(a not in (1, b) for a, b in zip(batch, shape[lead:], strict=True)):
        message = "shape does not end with that of the logits without the axis"
        got = f"shape={shape}, logits of shape {logits.shape}, axis={axis}"
        fix = Fix("shape", f"pass shape=(n, *{batch})", {"batch": batch})
        raise ShapeError(message, got=got, wanted=f"a shape that ends with {batch}", fix=fix)
    count = prod(shape[:lead])
    if not replace:
        got = f"shape={shape}, replace=False, logits of shape {logits.shape}"
        check_replaced(count, n, "categories", got)
    stream, integer = stream_of(key), dtypes.default_int()
    draws, batch = shape[:lead], shape[lead:]
    whole = (*batch[:axis], n, *batch[axis:])
    if replace:
        whole = (*draws, *whole)
    noisy = gumbel_of(stream, whole, dtype, mode) + broadcast_to(convert(logits, dtype), whole)
    if replace:
        return argmax(noisy, axis + lead, integer)
    places = top_k(move_dim(noisy, axis, len(batch), n), count)[1]
    return convert(move_dim(places, len(batch), 0, count).reshape(shape), integer)


@draw_function
def geometric(
    key: Key,
    p: Real,
    shape: Joined = None,
    dtype: Integers = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Geometrically distributed integers from 1: the number of independent trials up to the first
    success, each of probability `p`.

    `p` is a number or an array that broadcasts to `shape`, which is by default its own.

    p: the probability of success in each trial; shape: the lengths of the result; None for the
    shape of `p`.

    >>> weft.random.geometric(weft.random.key(0), 0.5, (4,))
    Array([1, 1, 2, 2], dtype=int32)
    """
    real = p.dtype if p.dtype in dtypes.FLOATING else dtypes.default_float()
    x = stream_of(key).unit(shape, real)
    # The uniform number may be 0, whose logarithm is infinite; it is replaced by 1.
    x = select(x == 0, broadcast_to(real.type(1), shape), x)
    failures = floor(log(x) / log1p(-full_operand(p, shape, real)))
    return convert(failures + 1, dtype)
