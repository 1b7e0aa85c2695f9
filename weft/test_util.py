"""Checks of derivatives against finite differences, with JAX's arguments.

`weft.testing` has checks of more: `vmap`, `jit`, types, whole primitives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, tree
from weft.api.autodiff import jvp, vjp
from weft.core.types import type_of
from weft.errors.argument_errors import unknown_option
from weft.testing.function_checks import product, random_direction

# For the narrowest dtype among results: what finite differences leave of its precision.
_TOLERANCES = {"bfloat16": 0.2, "float16": 0.1, "float32": 3e-2, "float64": 1e-6}


def _tolerance(given: float | None, leaves: Sequence[Any]) -> float:
    if given is not None:
        return given
    found = [np.finfo(np.dtype(type_of(x).dtype)) for x in leaves if _varies(x, plain=True)]
    narrowest = min((info.bits for info in found), default=64)
    kinds = {16: "float16", 32: "float32", 64: "float64"}
    return _TOLERANCES.get(kinds.get(narrowest, "float32"), 0.2)


def _varies(leaf: Any, plain: bool = False) -> bool:
    dtype = type_of(leaf).dtype
    return bool(dtypes.is_inexact(dtype)) and not (plain and dtype.kind not in "fc")


def _move(args: Any, directions: Any, by: float) -> Any:
    """The arguments, moved along directions; constants stay."""

    def one(x: Any, d: Any) -> Any:
        if not _varies(x):
            return x
        dtype = np.dtype(type_of(x).dtype)
        return (np.asarray(x) + dtype.type(by) * np.asarray(d)).astype(dtype)

    return tree.map(one, args, directions)


def _numerical(f: Callable[..., Any], args: Any, directions: Any, eps: float) -> Any:
    """The directional derivative by a central difference, `eps` ahead and behind as in JAX: the
    rounding of the values counts half of what it does at half the step."""
    ahead = f(*_move(args, directions, eps))
    behind = f(*_move(args, directions, -eps))

    def slope(a: Any, b: Any) -> Any:
        if not _varies(a):
            return np.zeros(type_of(a).shape, dtypes.float0)
        return (np.asarray(a) - np.asarray(b)) / np.dtype(type_of(a).dtype).type(2 * eps)

    return tree.map(slope, ahead, behind)


def _directions(values: Any, seed: int) -> Any:
    generator = np.random.default_rng(seed)
    return tree.map(lambda x: random_direction(generator, x) if _varies(x) else
                    np.zeros(type_of(x).shape, dtypes.float0), values)  # fmt: skip


def _close(found: Any, wanted: Any, rtol: float, atol: float, message: str) -> None:
    """Raises AssertionError unless all leaves agree. Under JAX's rule for arguments the tolerances
    are multiplied by the number of elements of a leaf, as JAX does."""
    pairs = zip(tree.leaves(found), tree.leaves(wanted), strict=True)
    for a, b in pairs:
        if np.asarray(a).dtype == dtypes.float0:
            continue
        count = max(np.size(b), 1) if config.lenient() else 1
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol * count, atol * count, err_msg=message
        )


def check_jvp(
    f: Callable[..., Any], f_jvp: Callable[..., Any], args: Sequence[Any],
    atol: float | None = None, rtol: float | None = None, eps: float = 1e-4, err_msg: str = "",
) -> None:  # fmt: skip
    """Raises AssertionError unless `f_jvp(args, tangents)`, which returns results and tangents of
    `f`, agrees with `f` and with a central difference of steps `eps`, in a random direction.

    >>> from weft.test_util import check_jvp
    >>> check_jvp(jnp.sin, lambda x, t: weft.jvp(jnp.sin, x, t), (0.5,), eps=1e-2)
    """
    args = tuple(args)
    tangents = _directions(args, 0)
    value, tangent = f_jvp(args, tangents)
    expected = f(*args)
    leaves = tree.leaves(expected)
    rtol, atol = _tolerance(rtol, leaves), _tolerance(atol, leaves)
    _close(value, expected, rtol, atol, f"{err_msg} JVP primal".strip())
    slope = _numerical(f, args, tangents, eps)
    _close(tangent, slope, rtol, atol, f"{err_msg} JVP tangent".strip())


def check_vjp(
    f: Callable[..., Any], f_vjp: Callable[..., Any], args: Sequence[Any],
    atol: float | None = None, rtol: float | None = None, eps: float = 1e-4, err_msg: str = "",
) -> None:  # fmt: skip
    """Raises AssertionError unless `f_vjp(*args)`, which returns results of `f` and a function of
    cotangents, agrees with `f`, and its gradient with a central difference of steps `eps`.

    >>> from weft.test_util import check_vjp
    >>> import functools
    >>> check_vjp(jnp.sin, functools.partial(weft.vjp, jnp.sin), (0.5,), eps=1e-2)
    """
    args = tuple(args)
    value, pull = f_vjp(*args)
    expected = f(*args)
    leaves = tree.leaves(expected)
    rtol, atol = _tolerance(rtol, leaves), _tolerance(atol, leaves)
    _close(value, expected, rtol, atol, f"{err_msg} VJP primal".strip())
    tangents, cotangents = _directions(args, 1), _directions(expected, 2)
    slope = _numerical(f, args, tangents, eps)
    by_pull = _inner(tangents, pull(cotangents))
    by_slope = _inner(slope, cotangents)
    message = f"{err_msg} VJP cotangent projection".strip()
    np.testing.assert_allclose(by_pull, by_slope, rtol, atol, err_msg=message)


def _inner(xs: Any, ys: Any) -> float:
    """The real part of the sum of products of all elements that vary."""
    pairs = [
        (x, y) for x, y in zip(tree.leaves(xs), tree.leaves(ys), strict=True)
        if np.asarray(x).dtype != dtypes.float0 and np.asarray(y).dtype != dtypes.float0
    ]  # fmt: skip
    return product([x for x, _ in pairs], [y for _, y in pairs])


def check_grads(
    f: Callable[..., Any], args: Sequence[Any], order: int,
    modes: str | Sequence[str] = ("fwd", "rev"), atol: float | None = None,
    rtol: float | None = None, eps: float | None = None,
) -> None:  # fmt: skip
    """Raises AssertionError unless the derivatives of `f` at `args`, up to `order` and in every
    order of the modes "fwd" and "rev", agree with finite differences.

    Raises WeftValueError for another mode.

    >>> from weft.test_util import check_grads
    >>> check_grads(lambda x: x * jnp.sin(x), (0.5,), order=2, eps=1e-2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise unknown_option("check_grads", "modes", mode, "'fwd' or 'rev'")
    options: dict[str, Any] = {"atol": atol, "rtol": rtol}
    if eps is not None:
        options["eps"] = eps

    def check(f: Callable[..., Any], args: tuple[Any, ...], order: int, path: str) -> None:
        if "fwd" in modes:
            f_jvp = functools.partial(jvp, f)
            check_jvp(f, f_jvp, args, err_msg=f"{path}jvp of order {order}", **options)
            if order > 1:
                tangents = _directions(args, 3)
                check(lambda *xs: f_jvp(xs, tangents), args, order - 1, f"{path}jvp of ")
        if "rev" in modes:
            f_vjp = functools.partial(vjp, f)
            check_vjp(f, f_vjp, args, err_msg=f"{path}vjp of order {order}", **options)
            if order > 1:
                cotangents = _directions(f(*args), 4)

                def gradient(*xs: Any) -> Any:
                    value, pull = f_vjp(*xs)
                    return value, pull(cotangents)

                check(gradient, args, order - 1, f"{path}vjp of ")

    check(f, tuple(args), order, "")
