"""Minimization of smooth functions by BFGS, which estimates the inverse of the Hessian.

J. Nocedal and S. J. Wright, Numerical Optimization (2006), algorithm 6.1, with the line search of
algorithms 3.5 and 3.6. The method is one compiled loop, so it runs under `jit` and `vmap`. Its
result has forward derivatives of its steps; for the derivatives of a minimum, see
`weft.lax.custom_root`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import weft.numpy as jnp
from weft import dtypes
from weft.api.autodiff import value_and_grad
from weft.arrays.array import Array
from weft.control_flow.while_loop import while_loop
from weft.core.axes import mesh_axes
from weft.core.types import type_of
from weft.errors import Fix, api_boundary
from weft.errors.argument_errors import (
    close_name,
    integer_of,
    invalid_type,
    unknown_option,
    wrong_shape,
    wrong_value,
)
from weft.kinds.checks import check_choice, check_dimensions, convert, inexact
from weft.ops.collectives.all_reduce import pbroadcast
from weft.scipy.optimize.line_search import line_search


class OptimizeResults(NamedTuple):
    """The result of `minimize`, a pytree.

    x: the minimum; fun, jac: value and gradient there; hess_inv: the estimated inverse Hessian;
    nit: iterations; nfev, njev: how often the function and its gradient were evaluated. success:
    whether the gradient has become small enough; status: 0 if it has, 1 after the largest number of
    iterations, 2 where the function has no finite value, 3 where the line search found no step, 5
    where rounding left no room for one.
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array
    nfev: Array
    njev: Array
    nit: Array


class _Iterate(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    inverse: Any
    evaluations: Any
    iterations: Any
    status: Any


_RUNNING = -1


def _size(gradient: Any, norm: Any) -> Any:
    return jnp.linalg.norm(gradient, ord=norm)


def _update_inverse(inverse: Any, s: Any, y: Any) -> Any:
    """The estimate after a step s that changed the gradient by y."""
    product = jnp.vdot(y, s, precision="highest")
    fine = product > 0
    rho = jnp.where(fine, 1 / jnp.where(fine, product, 1), 0)
    hy = jnp.matmul(inverse, y, precision="highest")
    scale = rho * (1 + rho * jnp.vdot(y, hy, precision="highest"))
    change = scale * jnp.outer(s, s) - rho * (jnp.outer(hy, s) + jnp.outer(s, hy))
    return inverse + change


def _bfgs(
    evaluate: Callable[[Any], tuple[Any, Any]],
    x0: Any,
    *,
    norm: Any,
    gtol: Any,
    maxiter: int,
    line_search_maxiter: int,
) -> OptimizeResults:
    value, gradient = evaluate(x0)

    def unfinished(state: _Iterate) -> Any:
        return state.status == _RUNNING

    def step(state: _Iterate) -> _Iterate:
        direction = -jnp.matmul(state.inverse, state.gradient, precision="highest")
        slope = jnp.vdot(state.gradient, direction, precision="highest")

        def along(length: Any) -> tuple[Any, Any, Any]:
            value, gradient = evaluate(state.x + length * direction)
            return value, jnp.vdot(gradient, direction, precision="highest"), gradient

        search = line_search(along, (state.value, slope, state.gradient), line_search_maxiter)
        best = search.best
        s = best.step * direction
        x, y = state.x + s, best.gradient - state.gradient
        small = _size(best.gradient, norm) <= gtol
        iterations = state.iterations + 1
        moved = best.step > 0
        status = jnp.where(iterations >= maxiter, 1, _RUNNING)
        status = jnp.where(search.failed & ~moved, jnp.where(slope < 0, 3, 5), status)
        status = jnp.where(jnp.isfinite(best.value), status, 2)
        status = jnp.where(small, 0, status)
        inverse = jnp.where(moved, _update_inverse(state.inverse, s, y), state.inverse)
        count = state.evaluations + search.evaluations
        return _Iterate(x, best.value, best.gradient, inverse, count, iterations, status)

    status = jnp.where(_size(gradient, norm) <= gtol, 0, 1 if maxiter <= 0 else _RUNNING)
    status = jnp.where(jnp.isfinite(value), status, 2)
    one = jnp.eye(x0.shape[0], dtype=x0.dtype)
    end = while_loop(unfinished, step, _Iterate(x0, value, gradient, one, 1, 0, status))
    out = end.x, end.status == 0, end.status, end.value, end.gradient, end.inverse
    return OptimizeResults(*out, end.evaluations, end.evaluations, end.iterations)


_OPTIONS = ("norm", "gtol", "maxiter", "line_search_maxiter")


def _settings(given: Mapping[str, Any] | None, tol: Any, n: int) -> dict[str, Any]:
    """Checks the options and adds defaults."""
    name = "optimize.minimize"
    if given is not None and not isinstance(given, Mapping):
        message = f"{name}: options is a dict"
        wanted = f"a dict with keys among {_OPTIONS}"
        fix = Fix("options", 'pass options={"gtol": 1e-6}')
        raise invalid_type(message, name, "options", given, wanted, fix=fix)
    options = dict(given or {})
    for key in options:
        if key not in _OPTIONS:
            near = close_name(key, _OPTIONS)
            fix = Fix("options", f"leave out {key!r}" if near is None else f"write {near!r}")
            known = ", ".join(map(repr, _OPTIONS))
            raise unknown_option(name, "options", key, known, fix=fix, noun="option")
    gtol = options.get("gtol", 1e-5 if tol is None else tol)
    for argument, value in (("tol", 0.0 if tol is None else tol), ("gtol", gtol)):
        check_dimensions(argument, value, 0, 0, dtypes.REAL)
    norm = options.get("norm", jnp.inf)
    if isinstance(norm, bool) or not isinstance(norm, (int, float)):
        raise wrong_value(f"norm={norm!r:.80}", "a number as norm")
    counts = {}
    for key, default in (("maxiter", 200 * n), ("line_search_maxiter", 20)):
        counts[key] = integer_of(options.get(key, default) or default, key, name)
    return {"norm": norm, "gtol": gtol, **counts}


def _check_function(name: str, fun: Any, args: Any) -> None:
    if not callable(fun):
        message = f"{name} takes a function first"
        fix = Fix("function", "pass a function, such as lambda x: weft.numpy.sum(x * x)")
        raise invalid_type(message, name, "fun", fun, "a function of an array", fix=fix)
    if not isinstance(args, tuple):
        message = f"{name}: args is a tuple"
        wanted = "a tuple of further arguments of fun"
        fix = Fix("tuple", "pass args=(value,)")
        raise invalid_type(message, name, "args", args, wanted, fix=fix)


@api_boundary("optimize.minimize")
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """Searches for a minimum of a smooth function, from a first guess.

    fun(x, *args): gives a real number for x of shape (n,), and is differentiated by weft. x0: the
    guess, (n,), real. method: "BFGS". tol: the size of the gradient that is small enough, unless
    options say it. options: "gtol", the same (1e-5); "norm", of the gradient (infinity: the largest
    element); "maxiter", the number of iterations (200 n); "line_search_maxiter", of evaluations for
    one step (20). Returns `OptimizeResults`; failure is no error, but shows in `success`.
    By J. Nocedal and S. J. Wright, Numerical Optimization (2006), algorithm 6.1.

    fun: the function that is minimised, called as `fun(x, *args)`; args: further arguments of
    `fun`.

    Raises WeftValueError for another method or option, ShapeError if x0 is no vector or fun
    returns no number, DTypeError for complex numbers, WeftTypeError.

    >>> import weft.numpy as jnp
    >>> minimize(lambda x: jnp.sum((x - 2) ** 2), jnp.zeros(2), method="BFGS").x
    Array([2., 2.], dtype=float32)
    """
    name = "optimize.minimize"
    check_choice(method.upper() if isinstance(method, str) else method, ("BFGS",), "method")
    _check_function(name, fun, args)
    check_dimensions("x0", x0, 1, 1, dtypes.ORDERED)
    settings = _settings(options, tol, type_of(x0).shape[0])
    x = convert(jnp.asarray(x0), inexact(type_of(x0).dtype))

    def valued(x: Any) -> Any:
        out = fun(x, *args)
        if type_of(out).shape != ():
            raise wrong_shape(f"fun gives {type_of(out)}", "a fun that gives a number")
        return out

    if mesh_axes():
        # A function that varies over devices has its own minimum on each: for an invariant x the
        # gradient would be that of the sum.
        differs = type_of(valued(x)).varying - type_of(x).varying
        x = pbroadcast(x, tuple(sorted(differs))) if differs else x
    with_gradient = value_and_grad(valued)

    def evaluate(x: Any) -> tuple[Any, Any]:
        value, gradient = with_gradient(x)
        return convert(value, x.dtype), gradient

    return _bfgs(evaluate, x, **settings)
