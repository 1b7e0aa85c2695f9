"""Properties of `vmap`: its values and derivatives are those that a Python loop computes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import testing, tree
from weft.api.autodiff import jvp, vjp
from weft.api.jit import make_jaxpr
from weft.api.vmap import vmap
from weft.core.effects import any_ordered
from weft.core.types import type_of
from weft.testing.primitive_application import (
    PrimitiveApplication,
    Skipped,
    assert_same,
    bound,
    derivatives,
    inexact_only,
    loop,
    random_like,
    rows_of,
    variation,
)

Axes = tuple[int | None, ...]


def mapped(case: PrimitiveApplication) -> None:
    """vmap over every choice of operands and axes equals a loop."""
    case.numbers()
    if not case.args:
        raise Skipped("there is no operand to map")
    check_mapped(case.call, case.args, 3, 16)
    check_mapped(case.call, case.args, 1, 4)
    everything = vmap(case.call)
    rows = [np.stack([variation(np.asarray(x), k) for k in range(3)]) for x in case.args]
    testing.check_jit(everything, [testing.exact_array(row) for row in rows])


def mapped_over_nothing(case: PrimitiveApplication) -> None:
    """vmap over an axis of length 0 gives results of length 0."""
    case.numbers()
    wanted = case.program().out_types
    if not case.args:
        raise Skipped("there is no operand to map")
    every = {(0,) * len(case.args), *_choices(case.args, 4)}
    for axes in sorted(every, key=str):
        empty = [
            x if axis is None else _empty(x, axis) for x, axis in zip(case.args, axes, strict=True)
        ]
        outs = vmap(case.call, in_axes=axes)(*empty)
        got = [(type_of(x).shape, type_of(x).dtype) for x in outs]
        assert got == [((0, *t.shape), t.dtype) for t in wanted], (
            f"with in_axes={axes}: {got} of elements {wanted}"
        )


def _empty(x: Any, axis: int) -> Any:
    of = type_of(x)
    return testing.exact_array(np.zeros((*of.shape[:axis], 0, *of.shape[axis:]), of.dtype))


def mapped_effects(case: PrimitiveApplication) -> None:
    """The mapped application has the effects of the application."""
    effects = case.program().effects
    if not effects:
        raise Skipped("it has no effects")
    if any_ordered(effects):
        raise Skipped("its effects have an order, which elements of a mapped axis have not")
    case.numbers()
    if not case.args:
        raise Skipped("there is no operand to map")
    rows = [np.stack([np.asarray(x)] * 2) for x in case.args]
    kept = make_jaxpr(vmap(case.call))(*map(testing.exact_array, rows)).effects
    assert effects <= kept, f"the effects {set(effects - kept)} are lost"


def check_mapped(function: Callable[..., Any], args: Sequence[Any], size: int, limit: int) -> None:
    """Raises AssertionError unless a function mapped over choices of operands and axes (at most
    `limit` of them) computes what a loop computes."""
    hosts = [[variation(np.asarray(x), k) for k in range(size)] for x in args]
    alone = [[testing.exact_array(v) for v in values] for values in hosts]
    rows: dict[tuple[int, ...], Any] = {}

    def wanted(axes: Axes) -> list[Any]:
        found = []
        for k in range(size):
            places = tuple(0 if axis is None else k for axis in axes)
            if places not in rows:
                given = [values[p] for values, p in zip(alone, places, strict=True)]
                rows[places] = [np.asarray(x) for x in tree.leaves(function(*given))]
            found.append(rows[places])
        return [np.stack(same) for same in zip(*found, strict=True)]

    for axes in _choices(args, limit):
        operands = [
            x[0] if axis is None else testing.exact_array(np.stack(values, axis))
            for values, x, axis in zip(hosts, alone, axes, strict=True)
        ]
        got = tree.leaves(vmap(function, in_axes=axes)(*operands))
        for x, host in zip(got, wanted(axes), strict=True):
            near = bound(x)
            what = f"vmap with in_axes={axes} over {size} elements"
            testing.assert_close(x, testing.exact_array(host), near, near, what=what)


def _choices(args: Sequence[Any], limit: int) -> list[Axes]:
    """Choices of a mapped axis (or None) per operand: each operand alone along each axis, then
    others in a random order that is the same each time; at most `limit` in all."""
    each = [[None, *range(np.ndim(x) + 1)] for x in args]
    alone = [
        tuple(axis if i == k else None for k in range(len(args)))
        for i, axes in enumerate(each)
        for axis in axes[1:]
    ]
    if np.prod([float(len(axes)) for axes in each]) > 5000:
        generator = np.random.default_rng(0)
        rest = [
            tuple(axes[generator.integers(len(axes))] for axes in each) for _ in range(4 * limit)
        ]
    else:
        rest = list(itertools.product(*each))
        np.random.default_rng(0).shuffle(rest)
        rest = [tuple(None if a is None else int(a) for a in axes) for axes in rest]
    rest = [axes for axes in rest if any(a is not None for a in axes)]
    # At least half of the choices are for several operands at once.
    first = alone if len(alone) <= limit // 2 else alone[:: -(-len(alone) // (limit // 2))]
    return list(dict.fromkeys([*first, *rest]))[:limit]


def mapped_forward(case: PrimitiveApplication) -> None:
    """vmap of the jvp equals a loop."""
    places = case.smooth()
    case.numbers()
    n = len(case.double)

    def function(*values: Any) -> Any:
        own, tangents = list(values[:n]), values[n:]
        return jvp(case.restrict_to(places, own), tuple(own[i] for i in places), tuple(tangents))

    tangents = [random_like(case.double[i], 7 + i) for i in places]
    check_mapped(function, [*case.double, *tangents], 3, 6)


def mapped_reverse(case: PrimitiveApplication) -> None:
    """vmap of the vjp equals a loop."""
    places = case.smooth(mode="rev")
    case.numbers()
    n = len(case.double)
    outs = inexact_only(case.call(*case.double))

    def function(*values: Any) -> Any:
        own, cts = list(values[:n]), values[n:]
        found, pullback = vjp(case.restrict_to(places, own), *(own[i] for i in places))
        return found, pullback(list(cts))

    check_mapped(function, [*case.double, *(random_like(x, 9) for x in outs)], 3, 6)


def forward_of_mapped(case: PrimitiveApplication) -> None:
    """The derivatives of the vmap are those of a loop."""
    case.smooth()
    case.numbers()
    wanted = case.once("rows alone", lambda: derivatives(case, loop(case.call), rows_of(case)))
    assert_same(derivatives(case, vmap(case.call), rows_of(case)), wanted)
