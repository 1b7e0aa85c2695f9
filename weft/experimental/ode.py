"""Initial value problems of ordinary differential equations: `odeint`, with its adjoint.

The method is the pair of fifth and fourth order of J. R. Dormand and P. J. Prince, "A family of
embedded Runge-Kutta formulae", J. Comput. Appl. Math. 6 (1980), with the interpolation of L. F.
Shampine, "Some Practical Runge-Kutta Formulas", Math. Comp. 46 (1986), and the first step of E.
Hairer, S. P. Nørsett and G. Wanner, "Solving Ordinary Differential Equations I", II.4. The
derivative solves the variational equation forward, and its transpose the adjoint equation backward:
R. Chen et al., "Neural Ordinary Differential Equations", NeurIPS 2018.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import weft.numpy as jnp
from weft import dtypes, tree
from weft.api.autodiff import jvp, vjp
from weft.api.custom_gradient import closure_convert
from weft.api.linear_functions import linear_call
from weft.api.vmap import vmap
from weft.base.facades import public_names
from weft.control_flow.loops import scan
from weft.control_flow.while_loop import while_loop
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import DTypeError, ShapeError
from weft.errors.argument_errors import not_a_function, refusal
from weft.flatten_util import ravel_pytree

__all__ = ["odeint"]

__dir__ = public_names(globals())

# Each row: the factors of the slopes so far, at the times `_TIMES`.
_FACTORS = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)
_TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_SOLUTION = np.array([35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0])
_ERROR = np.array(
    [
        35 / 384 - 1951 / 21600,
        0,
        500 / 1113 - 22642 / 50085,
        125 / 192 - 451 / 720,
        -2187 / 6784 + 12231 / 42400,
        11 / 84 - 649 / 6300,
        -1 / 60,
    ]
)
_MIDDLE = np.array(
    [
        6025192743 / 30085553152 / 2,
        0,
        51252292925 / 65400821598 / 2,
        -2691868925 / 45128329728 / 2,
        187940372067 / 1594534317056 / 2,
        -1776094331 / 19743644256 / 2,
        11237099 / 235043384 / 2,
    ]
)


class _Settings(NamedTuple):
    rtol: float
    atol: float
    mxstep: float
    hmax: float


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, *args: Any, rtol: float = 1.4e-8,
    atol: float = 1.4e-8, mxstep: float = np.inf, hmax: float = np.inf,
) -> Any:  # fmt: skip
    """The solution of dy/dt = func(y, t, *args) with y = y0 at t[0], at all times of `t`.

    y0: a tree of floats, or of complex numbers; `func` returns a tree like it. t: (n,) floats that
    increase or decrease. args: trees of arrays; `func` may close over others. Returns a tree like
    y0 of arrays with a leading dimension of n. The error of each step is kept below
    `atol + rtol * |y|`; at most `mxstep` steps are made between two times, none longer than `hmax`.
    Differentiable by y0, t, args and what `func` closes over, forward by the equation of the
    tangents and in reverse by the adjoint equation, for the memory of the solution alone.

    Raises ShapeError for a `t` of another shape, DTypeError for a `y0` or `t` of integers.

    Args:
        rtol: The error of a step relative to the solution.
        atol: The error of a step where the solution is near 0.
        func: `func(y, t, *args)` returns dy/dt, a tree like y.
        mxstep: The most steps between two times.
        hmax: The longest step.

    >>> from weft.experimental.ode import odeint
    >>> odeint(lambda y, t, k: -k * y, 1.0, jnp.array([0.0, 1.0, 2.0]), 2.0).round(4)
    Array([1.    , 0.1353, 0.0183], dtype=float32)
    """
    if not callable(func):
        raise not_a_function("odeint", func)
    t = jnp.asarray(t)
    y0, args = tree.map(jnp.asarray, (y0, args))
    _check(y0, t)
    converted, consts = closure_convert(func, y0, t[0], *args)
    settings = _Settings(rtol, atol, mxstep, hmax)
    flat_y0, unravel = ravel_pytree(y0)

    # Steps go forward: times that decrease are those of the mirrored equation.
    forward = jnp.where(t[-1] < t[0], -1, 1).astype(t.dtype)

    def flat(y: Any, t: Any, forward: Any, *rest: Any) -> Any:
        slope = ravel_pytree(converted(unravel(y), forward * t, *rest))[0]
        return forward.astype(slope.dtype) * slope

    solve = _solver(flat, settings)
    return vmap(unravel)(solve(flat_y0, forward * t, forward, *args, *consts))


def _check(y0: Any, t: Any) -> None:
    kind = type_of(t)
    if kind.ndim != 1 or not kind.shape[0]:
        message = "odeint: t holds the times, one behind the other"
        raise refusal(ShapeError, message, "odeint", f"t of shape {kind.shape}", "shape (n,)")
    for x in (t, *tree.leaves(y0)):
        if not dtypes.is_inexact(type_of(x).dtype):
            message = "odeint: y0 and t are of floating-point numbers"
            raise refusal(DTypeError, message, "odeint", f"dtype {type_of(x).dtype}", "floats")


def _solver(func: Callable[..., Any], settings: _Settings) -> Callable[..., Any]:
    """`solve(y0, t, *args)` on flat states. Its derivative solves the variational equation, whose
    transpose solves the adjoint equation."""

    @custom_jvp
    def solve(y0: Any, t: Any, *args: Any) -> Any:
        return _solution(lambda y, s: func(y, s, *args), y0, t, settings)

    def derivative(primals: Any, tangents: Any) -> Any:
        ys = solve(*primals)
        _, t, *args = primals
        y0_dot, t_dot, *args_dot = tangents
        moved = (y0_dot, t_dot, _inexact_tangents(args, args_dot))
        forward = functools.partial(_variation, func, settings)
        backward = functools.partial(_adjoint, func, settings)
        return ys, linear_call(forward, backward, (ys, t, args), moved)

    solve.defjvp(derivative)
    return solve


def _variation(func: Callable[..., Any], settings: _Settings, solution: Any, moved: Any) -> Any:
    """The tangents of the solution at all times, given those of y0, t and args: y and the
    differentiated equation are solved together."""
    ys, t, args = solution
    y0_dot, t_dot, args_dot = moved
    # A later start is as if y0 had lost what the solution gains until then.
    flat, unravel = ravel_pytree((ys[0], y0_dot - func(ys[0], t[0], *args) * t_dot[0]))

    def slopes(state: Any, s: Any, args: Any, args_dot: Any) -> Any:
        y, y_dot = unravel(state)

        def of(y: Any, inexact: Any) -> Any:
            return func(y, s, *_with_inexact(args, inexact))

        return ravel_pytree(jvp(of, (y, _inexact(args)), (y_dot, args_dot)))[0]

    rows = _solver(slopes, settings)(flat, t, args, args_dot)
    _, ys_dot = vmap(unravel)(rows)
    return ys_dot + vmap(lambda y, s, dot: func(y, s, *args) * dot)(ys, t, t_dot)


def _adjoint(
    func: Callable[..., Any], settings: _Settings, solution: Any, g: Any
) -> tuple[Any, ...]:
    """The gradients by y0, t and args, given the gradient by the solution at all times."""
    ys, t, args = solution
    start = (ys[-1], g[-1], jnp.zeros_like(t[-1]), tree.map(jnp.zeros_like, _inexact(args)))
    _, unravel = ravel_pytree(start)

    def slopes(state: Any, minus_t: Any, args: Any) -> Any:
        y, y_bar, _, _ = unravel(state)

        def of(y: Any, s: Any, inexact: Any) -> Any:
            return func(y, s, *_with_inexact(args, inexact))

        y_dot, pull = vjp(of, y, -minus_t, _inexact(args))
        return ravel_pytree((-y_dot, *pull(y_bar)))[0]

    solve = _solver(slopes, settings)

    def step(carry: Any, i: Any) -> Any:
        y_bar, t0_bar, args_bar = carry
        # What the solution gains per time at the end of this piece.
        t_bar = jnp.real(jnp.sum(func(ys[i], t[i], *args) * g[i]))
        t0_bar = t0_bar - t_bar.astype(type_of(t0_bar).dtype)
        state, _ = ravel_pytree((ys[i], y_bar, t0_bar, args_bar))
        times = jnp.stack([-t[i], -t[i - 1]])
        _, y_bar, t0_bar, args_bar = unravel(solve(state, times, args)[1])
        return (y_bar + g[i - 1], t0_bar, args_bar), t_bar.astype(type_of(t).dtype)

    count = type_of(t).shape[0]
    (y_bar, t0_bar, args_bar), t_bars = scan(step, start[1:], jnp.arange(count - 1, 0, -1))
    t_bar = jnp.concatenate([t0_bar[None], t_bars[::-1]])
    return y_bar, t_bar, args_bar


def _is_inexact(x: Any) -> bool:
    return bool(dtypes.is_inexact(type_of(x).dtype))


def _inexact(args: Any) -> list[Any]:
    return [x for x in tree.leaves(args) if _is_inexact(x)]


def _with_inexact(args: Any, values: list[Any]) -> Any:
    left = iter(values)
    return tree.map(lambda x: next(left) if _is_inexact(x) else x, args)


def _inexact_tangents(args: Any, tangents: Any) -> list[Any]:
    """The tangents of the inexact leaves."""
    pairs = zip(tree.leaves(args), tree.leaves(tangents), strict=True)
    return [tangent for x, tangent in pairs if _is_inexact(x)]


# ---- solving -------------------------------------------------------------------------------------


def _solution(func: Callable[..., Any], y0: Any, t: Any, settings: _Settings) -> Any:
    """The flat states at all times."""
    rtol, atol, mxstep, hmax = settings

    def going(target: Any) -> Callable[[Any], Any]:
        def test(state: Any) -> Any:
            i, _, _, now, dt, _, _ = state
            return (now < target) & (i < mxstep) & (dt > 0)

        return test

    def improved(state: Any) -> Any:
        i, y, f, now, dt, before, curve = state
        after, slope, error, k = _runge_kutta_step(func, y, f, now, dt)
        ratio = _error_ratio(error, rtol, atol, y, after)
        new_curve = _interpolation(y, after, k, dt)
        next_dt = jnp.clip(_next_step(dt, ratio), 0.0, hmax)
        good = ratio <= 1.0
        kept = (after, slope, now + dt, now, new_curve)
        old = (y, f, now, before, curve)
        y, f, now, before, curve = (jnp.where(good, a, b) for a, b in zip(kept, old, strict=True))
        return i + 1, y, f, now, next_dt, before, curve

    def to_target(carry: Any, target: Any) -> Any:
        state = while_loop(going(target), improved, (jnp.zeros((), "int32"), *carry))
        _, *rest = state
        y, f, now, dt, before, curve = rest
        place = (target - before) / (now - before)
        y_target = jnp.polyval(curve, place.astype(type_of(curve).dtype))
        return tuple(rest), y_target

    f0 = func(y0, t[0])
    dt = jnp.clip(_first_step(func, t[0], y0, 4, rtol, atol, f0), 0.0, hmax).astype(
        type_of(t).dtype
    )
    curve = jnp.stack([y0] * 5)
    _, ys = scan(to_target, (y0, f0, t[0], dt, t[0], curve), t[1:])
    return jnp.concatenate([y0[None], ys])


def _runge_kutta_step(func: Callable[..., Any], y: Any, f: Any, t: Any, dt: Any) -> Any:
    """The state after a step, its slope, the estimated error, and all slopes."""
    slopes = [f]
    dt_y = dt.astype(type_of(jnp.real(y)).dtype)
    for row, time in zip(_FACTORS, _TIMES, strict=True):
        stacked = jnp.stack(slopes)
        factors = jnp.asarray(row[: len(slopes)], type_of(y).dtype)
        at = y + dt_y * jnp.dot(factors, stacked, precision="highest")
        slopes.append(func(at, t + dt * time))
    k = jnp.stack(slopes)

    def combined(factors: Any) -> Any:
        return dt_y * jnp.dot(jnp.asarray(factors, type_of(y).dtype), k, precision="highest")

    return combined(_SOLUTION) + y, k[-1], combined(_ERROR), k


def _interpolation(y0: Any, y1: Any, k: Any, dt: Any) -> Any:
    """The quartic polynomial through a step, 0 <= s <= 1: coefficients of s**4 down to 1, from the
    values at both ends and in the middle and the slopes at the ends."""
    dt = dt.astype(type_of(jnp.real(y0)).dtype)
    middle = jnp.asarray(_MIDDLE, type_of(y0).dtype)
    y_mid = y0 + dt * jnp.dot(middle, k, precision="highest")
    s0, s1 = dt * k[0], dt * k[-1]
    a = -2 * s0 + 2 * s1 - 8 * y0 - 8 * y1 + 16 * y_mid
    b = 5 * s0 - 3 * s1 + 18 * y0 + 14 * y1 - 32 * y_mid
    c = -4 * s0 + s1 - 11 * y0 - 5 * y1 + 16 * y_mid
    return jnp.stack([a, b, c, s0, y0])


def _abs2(x: Any) -> Any:
    return jnp.square(jnp.real(x)) + jnp.square(jnp.imag(x)) if jnp.iscomplexobj(x) else x**2


def _error_ratio(error: Any, rtol: float, atol: float, y0: Any, y1: Any) -> Any:
    """The size of the error relative to the tolerance, over all elements."""
    allowed = atol + rtol * jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    return jnp.sqrt(jnp.mean(_abs2(error / allowed)))


def _next_step(last: Any, ratio: Any) -> Any:
    """The step for an error ratio: at most ten times longer, at least a fifth, and no shorter after
    a good step."""
    least = jnp.where(ratio < 1, 1.0, 0.2)
    safe = jnp.where(ratio == 0, 1.0, ratio)
    factor = jnp.minimum(10.0, jnp.maximum(safe ** (-1.0 / 5.0) * 0.9, least))
    return jnp.where(ratio == 0, last * 10.0, last * factor).astype(type_of(last).dtype)


def _first_step(
    func: Callable[..., Any], t0: Any, y0: Any, order: int, rtol: float, atol: float, f0: Any
) -> Any:
    """A first step, by the sizes of the first two derivatives."""
    scale = atol + jnp.abs(y0) * rtol
    d0, d1 = jnp.linalg.norm(y0 / scale), jnp.linalg.norm(f0 / scale)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1.0, d1))
    f1 = func(y0 + h0 * f0, t0 + h0.astype(type_of(t0).dtype))
    d2 = jnp.linalg.norm((f1 - f0) / scale) / h0
    flat = (d1 <= 1e-15) & (d2 <= 1e-15)
    most = jnp.where(flat, 1.0, jnp.maximum(d1, d2))
    h1 = jnp.where(flat, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / most) ** (1.0 / (order + 1.0)))
    return jnp.minimum(100.0 * h0, h1)
