"""Discrete distributions whose numbers count events: Poisson, binomial and multinomial.

Small means are drawn by counting: arrivals within a span of time (D. Knuth, "The Art of Computer
Programming" volume 2, 3.4.1), or trials from success to success (L. Devroye, "Non-Uniform Random
Variate Generation", Springer 1986, X.4). Large ones are drawn by transformed rejection: W.
Hörmann, "The transformed rejection method for generating Poisson random variables", Insurance:
Mathematics and Economics 12 (1993), and "The generation of binomial random variates", Journal of
Statistical Computation and Simulation 46 (1993). The acceptance test is computed in double
precision, since large terms cancel in it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.control_flow.loops import scan
from weft.control_flow.while_loop import while_loop
from weft.core.types import type_of
from weft.errors import Fix, ShapeError
from weft.kinds.arguments import NEVER
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.ops.elementwise.arithmetic import log, sqrt
from weft.ops.elementwise.arithmetic import max as maximum
from weft.ops.elementwise.arithmetic import min as minimum
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.elementwise.elementary import log1p
from weft.ops.elementwise.rounding import ceil, floor
from weft.ops.elementwise.selection import select
from weft.ops.reductions.cumulative import cumsum
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.shape import move_dim
from weft.random.draw_arguments import (
    Integers,
    Joined,
    Key,
    Real,
    Reals,
    Shape,
    Sharding,
    joined_shape,
    real_kind,
)
from weft.random.streams import (
    Stream,
    broadcast_number,
    broadcast_to,
    draw_function,
    full_operand,
    stream_of,
)

__all__ = ["binomial", "multinomial", "poisson"]

Arrays = tuple[Any, ...]

# Means up to this are drawn by counting; the constants of the rejection methods hold from there.
_MANY = 10.0
_double = np.dtype(np.float64)
_single = np.dtype(np.float32)


def _probabilities(value: Any, call: Arguments) -> Any:
    value = real_kind.take(value, call)
    if not type_of(value).shape:
        message = "p has a dimension, along which the probabilities of the outcomes stand"
        fix = Fix("dimension", "pass an array such as weft.numpy.array([0.5, 0.5])", {})
        wanted = "an array of one dimension or more"
        raise ShapeError(message, got="p of shape ()", wanted=wanted, fix=fix)
    return value


_HALVES = np.full(2, 0.5, np.float32)
Probabilities = Annotated[
    Any, dataclasses.replace(real_kind, take=_probabilities, wrong=(0.5, "text"), right=_HALVES)
]
Unroll = Annotated[
    int | bool,
    Kind(lambda value, call: value, "how many outcomes are drawn in one step", plain=NEVER),
]


def _where(condition: Any, x: Any, value: float) -> Any:
    """Selects x where a condition holds, and a number elsewhere."""
    return select(condition, x, broadcast_number(value, x.shape, x.dtype))


def _any(condition: Any) -> Any:
    return reduce_or(condition, tuple(range(condition.ndim)))


def _until_accepted(stream: Stream, needed: Any, uniforms: Any, attempt: Callable[..., Any]) -> Any:
    """Rejection sampling: repeats `attempt(u, v)` until each needed element is accepted.

    u is uniform in [-1/2, 1/2), v in [0, 1); `attempt` returns a number and whether it is accepted.
    All elements are drawn again in each round, so the draws depend on all of them.
    """
    generator, shape = stream.generator, needed.shape

    def step(state: Arrays) -> Arrays:
        bits, k, done = state
        following, first, second = Stream(generator, bits).split(3)
        u = convert(first.unit(shape, uniforms), _double) - 0.5
        drawn, accepted = attempt(u, convert(second.unit(shape, uniforms), _double))
        return following.bits, select(accepted, drawn, k), done | accepted

    start = (stream.bits, broadcast_number(-1, shape, _double), broadcast_to(~_any(needed), shape))
    return while_loop(lambda state: _any(~state[2]), step, start)[1]


# log(k!) minus Stirling's formula for k = 0 … 9, where the series is not precise enough.
_RESTS = tuple(
    math.lgamma(k + 1) - (k + 0.5) * math.log(k + 1) + (k + 1) - math.log(2 * math.pi) / 2
    for k in range(10)
)


def _stirling_rest(k: Any) -> Any:
    """log(k!) less Stirling's formula (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2."""
    inverse = 1 / (k + 1)
    squared = inverse * inverse
    rest = (1 / 12 - squared * (1 / 360 - squared / 1260)) * inverse
    for value, exact in enumerate(_RESTS):
        rest = _where(k != value, rest, exact)
    return rest


def _log_factorial(k: Any) -> Any:
    """log(k!) for whole k >= 0, many times faster than `lgamma`."""
    x = k + 1
    return (x - 0.5) * log(x) - x + math.log(2 * math.pi) / 2 + _stirling_rest(k)


# ---- Poisson -----------------------------------------------------------------------------------


@draw_function
def poisson(
    key: Key,
    lam: Real,
    shape: Joined = None,
    dtype: Integers = None,
    *,
    out_sharding: Sharding = None,
) -> Array:
    """Poisson distributed integers: k with probability exp(-lam) lam**k / k!.

    lam: the mean, not negative, which broadcasts to `shape`, by default its own; dtype: an integer
    dtype, by default int32, or int64 with `enable_x64`, whose largest number stands for larger
    ones. Where `lam` is negative or NaN the result is -1 (0 in an unsigned dtype).

    >>> import weft
    >>> drawn = weft.random.poisson(weft.random.key(0), 4.0, (1000,))
    >>> drawn.dtype, bool(abs(drawn.mean() - 4.0) < 0.2)
    (dtype('int32'), True)
    """
    stream = stream_of(key)
    lam = stop_gradient(broadcast_to(full_operand(lam, shape, _double), shape))
    few = (lam < _MANY) | (lam != lam)
    infinite = lam == np.inf
    many = ~(few | infinite)
    arrivals = _arrivals(stream, convert(_where(few, lam, 0.0), _single), shape)
    k = select(few, arrivals, _poisson_by_rejection(stream, _where(many, lam, 1e5), many))
    k = _where(lam != 0, k, 0.0)
    return _as_integers(_where(~infinite, k, np.inf), dtype)


def _arrivals(stream: Stream, lam: Any, shape: Shape) -> Any:
    """The number of exponential waiting times that fit in `lam`; -1 if it is negative."""
    generator, enough = stream.generator, -lam

    def step(state: Arrays) -> Arrays:
        bits, k, logs = state
        following, source = Stream(generator, bits).split()
        k = select(logs > enough, k + 1, k)
        return following.bits, k, logs + log(source.unit(shape, _single))

    start = (stream.bits, broadcast_number(-1, shape, _double), broadcast_number(0, shape, _single))
    return while_loop(lambda state: _any(state[2] > enough), step, start)[1]


def _poisson_by_rejection(stream: Stream, lam: Any, needed: Any) -> Any:
    """Hörmann's algorithm PTRS, for means from 10 on."""
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)
    log_lam = log(lam)

    def attempt(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - abs(u)
        k = floor((2 * a / us + b) * u + lam + 0.43)
        quick = (us >= 0.07) & (v <= squeeze)
        outside = (k < 0) | (us < 0.013) & (v > us)
        height = log(v * scale / (a / (us * us) + b))
        density = k * log_lam - lam - _log_factorial(_where(k > 0, k, 0.0))
        return k, quick | ~outside & (height <= density)

    return _until_accepted(stream, needed, _single, attempt)


def _as_integers(x: Any, dtype: Any) -> Any:
    """Converts whole numbers to an integer dtype, clipped to its range."""
    info = dtypes.iinfo(dtype)
    last = int(info.max)
    # 2**63 - 1 is no double; numbers from 2**63 on are replaced after the conversion.
    over = x >= np.float64(last)
    whole = convert(maximum(_where(~over, x, 0.0), np.float64(int(info.min))), dtype)
    return select(over, broadcast_number(last, whole.shape, dtype), whole)


# ---- binomial ----------------------------------------------------------------------------------


@draw_function
def binomial(key: Key, n: Real, p: Real, shape: Joined = None, dtype: Reals = None) -> Array:
    """Binomially distributed real numbers: successes in `n` trials, each of probability `p`.

    n: the number of trials; p: the probability of success in each. Both broadcast to `shape`, by
    default the one to which they broadcast together; of an `n` that is not whole the next smaller
    one counts. Where `n` is negative, `p` not between 0 and 1, or either of them NaN, the result is
    NaN; of infinitely many trials it is infinite. The derivative in the parameters is 0.

    >>> import weft
    >>> drawn = weft.random.binomial(weft.random.key(0), 20, 0.25, (1000,))
    >>> drawn.dtype, bool(abs(drawn.mean() - 5.0) < 0.3)
    (dtype('float32'), True)
    """
    n = stop_gradient(broadcast_to(full_operand(n, shape, _double), shape))
    return convert(_binomial_of(stream_of(key), n, _probability(p, shape), shape), dtype)


def _failures_between(stream: Stream, n: Any, p: Any, shape: Shape) -> Any:
    """The number of geometric waiting times that fit in `n` trials."""
    generator, dtype, rate = stream.generator, p.dtype, log1p(-p)

    def step(state: Arrays) -> Arrays:
        bits, k, trials = state
        source, following = Stream(generator, bits).split()
        k = select(trials <= n, k + 1, k)
        return following.bits, k, trials + ceil(log(source.unit(shape, dtype)) / rate)

    start = (stream.bits, broadcast_number(-1, shape, _double), broadcast_number(0, shape, dtype))
    return while_loop(lambda state: _any(state[2] <= n), step, start)[1]


def _binomial_by_rejection(stream: Stream, n: Any, p: Any, needed: Any, uniforms: Any) -> Any:
    """Hörmann's algorithm BTRS, for n p from 10 on and p up to 1/2."""
    deviation = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    middle = n * p + 0.5
    squeeze = 0.92 - 4.2 / b
    scale = (2.83 + 5.1 / b) * deviation
    odds = p / (1 - p)
    mode = floor((n + 1) * p)
    beyond = n - mode + 1
    fixed = (mode + 0.5) * log((mode + 1) / (odds * beyond))
    fixed = fixed + _stirling_rest(mode) + _stirling_rest(n - mode)

    def attempt(u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - abs(u)
        k = floor((2 * a / us + b) * u + middle)
        quick = (us >= 0.07) & (v <= squeeze)
        outside = (k < 0) | (k > n)
        height = log(v * scale / (a / (us * us) + b))
        failures = n - k + 1
        density = fixed + (n + 1) * log(beyond / failures)
        density = density + (k + 0.5) * log(odds * failures / (k + 1))
        density = density - _stirling_rest(k) - _stirling_rest(n - k)
        return k, quick | ~outside & (height <= density)

    return _until_accepted(stream, needed, uniforms, attempt)


def _binomial_of(stream: Stream, n: Any, p: Any, shape: Shape) -> Any:
    """Binomially distributed doubles; n (in doubles) and p have the shape."""
    wrong = (n != n) | (n < 0) | (p != p) | (p < 0) | (p > 1)
    infinite = n == np.inf
    n = floor(n)
    # The less frequent of success and failure is drawn; the other is the rest.
    rare = p < 0.5
    regular = ~(wrong | infinite)
    q = _where(regular, select(rare, p, 1 - p), 0.01)
    n = _where(regular, n, 0.0)
    short = convert(n, p.dtype)
    few = short * q <= _MANY
    many = ~few
    k = select(
        few,
        _failures_between(stream, _where(few, short, 0.0), q, shape),
        _binomial_by_rejection(
            stream, _where(many, n, 1e4), convert(_where(many, q, 0.5), _double), many, p.dtype
        ),
    )
    k = select(rare, k, n - k)
    k = _where(~infinite, k, np.inf)
    return _where(~wrong, k, np.nan)


def _probability(p: Any, shape: Shape) -> Any:
    """Converts p to the dtype of the draws: its own, or float32 if that is narrower."""
    real = dtypes.default_float()
    if p.dtype in dtypes.FLOATING:
        real = p.dtype if p.dtype.itemsize >= 4 else _single
    return stop_gradient(broadcast_to(full_operand(p, shape, real), shape))


# ---- multinomial -------------------------------------------------------------------------------


@draw_function
def multinomial(
    key: Key,
    n: Real,
    p: Probabilities,
    *,
    shape: Shape | None = None,
    dtype: Reals = None,
    unroll: Unroll = 1,
) -> Array:
    """Multinomially distributed real numbers: counts of outcomes in `n` trials, of sum `n`.

    p: the probabilities of the outcomes, along the last dimension, which are divided by their sum.
    It broadcasts to `shape`, by default its own, which is that of the result. n: the number of
    trials, which broadcasts to all of `shape` but the last dimension. One outcome is drawn after
    the other: of the trials that remain, binomially. unroll: how many outcomes are drawn in one
    step of the loop, as in `scan`. The derivative in the parameters is 0.

    >>> import weft, weft.numpy as jnp
    >>> drawn = weft.random.multinomial(weft.random.key(0), 100, jnp.array([0.25, 0.25, 0.5]))
    >>> drawn.shape, drawn.sum().item()
    ((3,), 100.0)
    """
    stream = stream_of(key)
    shape = joined_shape(p.shape if shape is None else shape, p=p)
    *batch, outcomes = shape
    rows = joined_shape((*batch,), n=n)
    n = stop_gradient(broadcast_to(full_operand(n, rows, _double), rows))
    p = move_dim(_probability(p, shape), len(rows), 0, outcomes)
    if outcomes == 0:
        return move_dim(convert(p, dtype), 0, len(rows), 0)
    rest = cumsum(p, 0, reverse=True)
    share = p / _where(rest != 0, rest, 1.0)
    share = minimum(maximum(share, p.dtype.type(0)), p.dtype.type(1))
    keys = stream.generator.split(stream.bits, (outcomes,))

    def outcome(remaining: Any, row: Arrays) -> tuple[Any, Any]:
        bits, chance = row
        k = _binomial_of(Stream(stream.generator, bits), remaining, chance, rows)
        return remaining - k, k

    counts = scan(outcome, n, (keys, share), unroll=unroll)[1]
    return move_dim(convert(counts, dtype), 0, len(rows), outcomes)
