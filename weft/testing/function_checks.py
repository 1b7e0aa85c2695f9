"""Checks that a function agrees with its own transformations: derivatives, `vmap`, `jit`, types.

Derivatives are compared with finite differences along random directions, by the central formula of
fourth order (Fornberg, "Generation of finite difference formulas on arbitrarily spaced grids",
1988); reverse mode is compared with forward mode by the identity <ct, J v> = <J^T ct, v>, where the
product of complex numbers is Re(a b), without conjugation. Nothing here knows an operation by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.api.autodiff import jvp, linearize, vjp
from weft.api.jit import jit, make_jaxpr
from weft.api.vmap import vmap
from weft.arrays.array import Array, put
from weft.arrays.conversion import as_array
from weft.core.types import ArrayType, type_of
from weft.errors import WeftValueError

# Per real dtype: the step of a finite difference, and how far derivatives may be from it.
_STEP = {"float16": 0.2, "bfloat16": 0.4, "float32": 3e-2, "float64": 1e-3}
_DIFFERENCE = {"float16": 5e-2, "bfloat16": 2e-1, "float32": 5e-3, "float64": 1e-6}
# How far two computations of one thing by one arithmetic may be apart.
_ROUNDING = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 2e-5, "float64": 1e-11}


def exact_array(value: Any, dtype: Any = None, weak_type: bool = False) -> Array:
    """An array that keeps the dtype of a NumPy value, 64 bits included, whatever the settings.

    Args:
        value: A NumPy array, or what can be made one.
        dtype: The dtype of the result; None for that of the value.
        weak_type: Whether the result is of weak type.

    >>> exact_array(np.arange(3.0)).dtype
    dtype('float64')
    """
    host = np.asarray(value, dtype)
    return put(host, ArrayType(host.shape, host.dtype, weak_type))


def _name(dtype: Any) -> str:
    return str(dtypes.to_real(dtype).name)


def _host(value: Any) -> np.ndarray[Any, Any]:
    """The values in double precision."""
    host = np.asarray(value)
    if host.dtype in dtypes.COMPLEX:
        return host.astype(np.complex128)
    return host.astype(np.float64) if host.dtype in dtypes.FLOATING else host


def _inexact(leaf: Any) -> bool:
    return type_of(leaf).dtype in dtypes.INEXACT


def assert_close(
    got: Any, wanted: Any, rtol: float | None = None, atol: float | None = None, what: str = "value"
) -> None:
    """Raises AssertionError unless two trees of arrays have equal structure, shapes and dtypes, and
    values within |got - wanted| <= atol + rtol |wanted| (by default a bound for the dtype).

    Args:
        got: The tree that was computed.
        wanted: The tree that it should be.
        rtol: The largest difference relative to the wanted number; None for a bound that depends on
            the dtype.
        atol: The largest absolute difference; None for a bound that depends on the dtype.
        what: The name of the value in the message.
    """
    got_leaves, got_tree = tree.flatten(got)
    wanted_leaves, wanted_tree = tree.flatten(wanted)
    assert got_tree == wanted_tree, f"{what}: structure {got_tree}, not {wanted_tree}"
    for a, b in zip(got_leaves, wanted_leaves, strict=True):
        of, other = type_of(a), type_of(b)
        assert of.shape == other.shape, f"{what}: shape {of.shape}, not {other.shape}"
        assert of.dtype == other.dtype, f"{what}: dtype {of.dtype}, not {other.dtype}"
        if of.dtype not in dtypes.INEXACT:
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), err_msg=what)
            continue
        bound = _ROUNDING[_name(of.dtype)]
        np.testing.assert_allclose(
            _host(a),
            _host(b),
            rtol=bound if rtol is None else rtol,
            atol=bound if atol is None else atol,
            err_msg=what,
        )


def random_direction(generator: np.random.Generator, leaf: Any) -> Any:
    """A random tangent of an inexact leaf."""
    of = type_of(leaf)
    value = generator.normal(size=of.shape)
    if of.dtype in dtypes.COMPLEX:
        value = value + 1j * generator.normal(size=of.shape)
    return exact_array(value, of.dtype)


def replace_parts(values: Sequence[Any], places: Sequence[int], parts: Sequence[Any]) -> list[Any]:
    """The values with some replaced."""
    full = list(values)
    for place, part in zip(places, parts, strict=True):
        full[place] = part
    return full


def _restrict(
    f: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """`f` as a function of the inexact leaves of its arguments to those of its result."""
    leaves, structure = tree.flatten(args)
    leaves = [as_array(leaf) for leaf in leaves]
    places = [i for i, leaf in enumerate(leaves) if _inexact(leaf)]

    def function(*parts: Any) -> list[Any]:
        outs = f(*structure.unflatten(replace_parts(leaves, places, parts)))
        return [leaf for leaf in tree.leaves(outs) if _inexact(leaf)]

    return function, [leaves[i] for i in places]


def _numerical_jvp(
    f: Callable[..., list[Any]], primals: Sequence[Any], tangents: Sequence[Any], step: float
) -> list[np.ndarray[Any, Any]]:
    """The directional derivative of a flat function by finite differences."""

    def at(distance: float) -> list[np.ndarray[Any, Any]]:
        moved = [
            exact_array(_host(x) + distance * _host(t), type_of(x).dtype, type_of(x).weak_type)
            for x, t in zip(primals, tangents, strict=True)
        ]
        return [_host(out) for out in f(*moved)]

    values = [at(step), at(-step), at(2 * step), at(-2 * step)]
    return [(8.0 * (a - b) - (c - d)) / (12.0 * step) for a, b, c, d in zip(*values, strict=True)]


def _narrowest(leaves: Sequence[Any]) -> str:
    """The name of the least precise real dtype among values."""
    names = {_name(type_of(leaf).dtype) for leaf in leaves}
    return next((name for name in ("bfloat16", "float16", "float32") if name in names), "float64")


def check_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Raises AssertionError unless `jvp` of `f` at `args` agrees with finite differences.

    The inexact leaves of the arguments are moved along one random direction; `eps` is the step.

    Args:
        f: A function of arrays, or of trees of them.
        args: The arguments at which it is differentiated.
        rtol: The largest difference relative to the finite difference; None for a bound that
            depends on the dtype.
        atol: The largest absolute difference, times the largest element where that is above 1; None
            for a bound that depends on the dtype.
        eps: The step of the finite differences; None for one that depends on the dtype.
        seed: The seed of the random direction.
    """
    function, primals = _restrict(f, tuple(args))
    generator = np.random.default_rng(seed)
    tangents = [random_direction(generator, x) for x in primals]
    outs, derivative = jvp(function, tuple(primals), tuple(tangents))
    kind = _narrowest([*primals, *outs])
    wanted = _numerical_jvp(function, primals, tangents, _STEP[kind] if eps is None else eps)
    bound = _DIFFERENCE[kind]
    for out, got, want in zip(outs, derivative, wanted, strict=True):
        assert type_of(got).dtype == type_of(out).dtype, "jvp: the tangent has another dtype"
        np.testing.assert_allclose(
            _host(got),
            want,
            rtol=bound if rtol is None else rtol,
            atol=(bound if atol is None else atol) * max(1.0, np.max(np.abs(want), initial=0.0)),
            err_msg="the tangent and a finite difference",
        )


def product(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real part of the sum of the products of the elements, without conjugation."""
    return float(sum(np.sum((_host(x) * _host(y)).real) for x, y in zip(xs, ys, strict=True)))


def check_vjp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> None:
    """Raises AssertionError unless `vjp` of `f` at `args` is the transpose of its `jvp`.

    The values of the two and the types of the cotangents are compared as well.

    Args:
        f: A function of arrays, or of trees of them.
        args: The arguments at which it is differentiated.
        rtol: The largest relative difference; None for a bound that depends on the dtype.
        atol: The largest absolute difference; None for a bound that depends on the dtype.
        seed: The seed of the random directions.
    """
    function, primals = _restrict(f, tuple(args))
    generator = np.random.default_rng(seed)
    tangents = [random_direction(generator, x) for x in primals]
    outs, tangents_out = jvp(function, tuple(primals), tuple(tangents))
    outs_again, pullback = vjp(function, *primals)
    bound = _ROUNDING[_narrowest([*primals, *outs])]
    rtol = bound if rtol is None else rtol
    assert_close(outs_again, outs, rtol, what="the value under vjp")
    cotangents = [random_direction(generator, out) for out in outs]
    found = pullback(cotangents)
    for x, ct in zip(primals, found, strict=True):
        wanted, of = type_of(x).tangent(), type_of(ct)
        assert (of.shape, of.dtype) == (wanted.shape, wanted.dtype), f"cotangent {of} of {wanted}"
    got, want = product(found, tangents), product(cotangents, tangents_out)
    size = sum(np.sum(np.abs(_host(a) * _host(b))) for a, b in zip(found, tangents, strict=True))
    limit = (bound if atol is None else atol) + rtol * max(abs(want), float(size))
    assert abs(got - want) <= limit, f"<J^T ct, v> = {got} and <ct, J v> = {want}"


def check_linearize(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Raises AssertionError unless `linearize` of `f` at `args` gives what `jvp` gives.

    Args:
        f: A function of arrays, or of trees of them.
        args: The arguments at which it is linearized.
        seed: The seed of the random direction.
    """
    function, primals = _restrict(f, tuple(args))
    generator = np.random.default_rng(seed)
    tangents = [random_direction(generator, x) for x in primals]
    outs, wanted = jvp(function, tuple(primals), tuple(tangents))
    outs_again, linear = linearize(function, *primals)
    assert_close(outs_again, outs, what="the value under linearize")
    assert_close(linear(*tangents), wanted, what="the linear part")


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 1,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Raises AssertionError unless the derivatives of `f` at `args`, up to `order`, are right.

    `modes` has "fwd", "rev" or both; with order 2 every combination of them is checked. The first
    derivative is compared with finite differences with step `eps`, the second with finite
    differences of the first. Arguments are trees; leaves that are not inexact stay constant.

    Args:
        f: A function of arrays, or of trees of them.
        args: The arguments at which it is differentiated.
        order: The number of derivatives that are checked, 1 or more.
        atol: The largest absolute difference from finite differences; None for a bound that depends
            on the dtype.
        rtol: The largest relative difference; None for a bound that depends on the dtype.
        seed: The seed of the random directions.

    >>> import weft.numpy as jnp
    >>> check_grads(jnp.sin, (0.5,), order=2)
    """
    if not set(modes) <= {"fwd", "rev"} or not modes:
        message = 'check_grads: modes are "fwd" and "rev"'
        got = f"modes={modes!r:.80}"
        wanted = 'one or both of "fwd" and "rev"'
        raise WeftValueError(message, operation="check_grads", got=got, wanted=wanted)
    function, primals = _restrict(f, tuple(args))
    check_jvp(function, primals, rtol=rtol, atol=atol, eps=eps, seed=seed)
    if "rev" in modes:
        check_vjp(function, primals, seed=seed)
    if order <= 1:
        return
    generator = np.random.default_rng(seed + 1)
    rest = order - 1, modes, atol, rtol, eps
    if "fwd" in modes:
        tangents = tuple(random_direction(generator, x) for x in primals)
        check_grads(lambda *xs: jvp(function, xs, tangents)[1], primals, *rest, seed + 2)
    if "rev" in modes:
        outs = function(*primals)
        cotangents = [random_direction(generator, out) for out in outs]
        check_grads(lambda *xs: vjp(function, *xs)[1](cotangents), primals, *rest, seed + 3)


def _axes_choices(args: Sequence[Any], limit: int) -> Iterator[tuple[int | None, ...]]:
    """Choices of a mapped axis (or None) per argument, at most `limit`, evenly spread over all."""
    each = [[None, *range(np.ndim(x) + 1)] for x in args]
    everything = [axes for axes in itertools.product(*each) if any(a is not None for a in axes)]
    if len(everything) > limit:
        picked = np.linspace(0, len(everything) - 1, limit).round().astype(int)
        everything = [everything[i] for i in picked]
    return iter(everything)


def check_vmap(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    size: int = 2,
    vary: Callable[[Any, int], Any] | None = None,
    rtol: float | None = None,
    limit: int = 32,
) -> None:
    """Raises AssertionError unless `vmap` of `f` agrees with a Python loop.

    Each argument is an array for one call. Every choice of mapped arguments and axis positions is
    tried (at most `limit` of them): the mapped ones are stacked from `size` variations, by default
    the argument with its elements rotated; `vary(argument, k)` gives the k-th one otherwise.

    Args:
        f: A function of arrays.
        args: The arguments of one call, arrays and numbers.
        size: How many calls the mapped one stands for.
        vary: A function of an argument and k, from 0 to `size` - 1.
        rtol: The largest relative difference; None for a bound that depends on the dtype.
        limit: The largest number of choices that are tried.
    """
    vary = vary or _rotate
    hosts = [np.asarray(x) for x in args]
    variations = [[np.asarray(vary(x, k)).astype(x.dtype) for k in range(size)] for x in hosts]
    alone = [[exact_array(v) for v in values] for values in variations]
    loops: dict[Any, Any] = {}
    for axes in _axes_choices(args, limit):
        mapped = tuple(axis is not None for axis in axes)
        if mapped not in loops:
            loops[mapped] = _stack(
                [
                    f(*(x[k if flag else 0] for x, flag in zip(alone, mapped, strict=True)))
                    for k in range(size)
                ]
            )
        stacked = [
            exact_array(np.stack(values, axis)) if axis is not None else x[0]
            for values, x, axis in zip(variations, alone, axes, strict=True)
        ]
        got = vmap(f, in_axes=axes)(*stacked)
        assert_close(got, loops[mapped], rtol, what=f"vmap with in_axes={axes}")


def _rotate(value: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    return np.roll(value.reshape(-1), k).reshape(value.shape)


def _stack(outs: Sequence[Any]) -> Any:
    return tree.map(lambda *same: exact_array(np.stack([np.asarray(x) for x in same])), *outs)


def check_jit(f: Callable[..., Any], args: Sequence[Any], *, rtol: float | None = None) -> None:
    """Raises AssertionError unless `jit` of `f` gives the values and types that `f` gives.

    Args:
        f: A function of arrays, or of trees of them.
        args: The arguments at which `f` is called.
        rtol: The largest relative difference; None for a bound that depends on the dtype.
    """
    wanted = f(*args)
    got = jit(lambda *xs: f(*xs))(*args)
    assert_close(got, wanted, rtol, what="the value under jit")
    for a, b in zip(tree.leaves(got), tree.leaves(wanted), strict=True):
        assert type_of(a) == type_of(b), f"type {type_of(a)!r} under jit, {type_of(b)!r} without"


def check_types(f: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raises AssertionError unless `f` traced has the types of the values that it computes.

    f: a function of arrays, or of trees of them; args: the arguments at which `f` is called.
    """
    outs = tree.leaves(f(*args))
    traced = make_jaxpr(lambda *xs: f(*xs))(*args).out_avals
    assert len(outs) == len(traced), f"{len(traced)} results traced, {len(outs)} computed"
    for out, of in zip(outs, traced, strict=True):
        host = np.asarray(out)
        assert type_of(out) == of, f"computed {type_of(out)!r}, traced {of!r}"
        assert (host.shape, host.dtype) == (of.shape, of.dtype), f"holds {host.dtype}{host.shape}"
