"""The uses of the shard_map matrix: what is done with a collective, and what has to come out.

The function is `collective(sin(x))` in a shard_map. With L the matrix of the collective, its
derivatives are `L cos(x) t`, `cos(x) Lᵀ ct` and so on: all wanted numbers are NumPy in float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as wnp
from shard_map_cases import AXES, Case, mesh, spec_of
from weft import lax
from weft.sharding import PartitionSpec as P

Array = Any


def double(x: Array) -> Array:
    return wnp.asarray(x, dtype=wnp.float64)


def points(case: Case, count: int = 3) -> list[Array]:
    """Arrays of the shape that a case reads; within each, no two sines are equal."""
    shape = case.shape()
    size = int(np.prod(shape))
    found = []
    for k in range(count):
        order = np.random.default_rng(k).permutation(size)
        found.append(((order + 0.3 * (k + 1)) / size * 2 - 1).reshape(shape))
    return found


# ---- what has to come out ----------------------------------------------------------------------


class Wanted:
    """The collective as a matrix at a point, and from it what each use computes."""

    def __init__(self, case: Case, x: Array) -> None:
        self.x = x
        basis = np.eye(x.size).reshape(*x.shape, x.size)
        columns = case.reference(np.sin(x), basis)
        self.out_shape = columns.shape[:-1]
        self.matrix = columns.reshape(-1, x.size)
        size = self.matrix.shape[0]
        self.weights = np.linspace(-1, 2, size).reshape(self.out_shape)
        self.cotangent = np.linspace(2, -1.5, size).reshape(self.out_shape)

    def forwards(self, t: Array) -> Array:
        return (self.matrix @ t.ravel()).reshape(self.out_shape)

    def backwards(self, ct: Array) -> Array:
        return (self.matrix.T @ ct.ravel()).reshape(self.x.shape)

    def value(self) -> Array:
        return self.forwards(np.sin(self.x))

    def tangent(self, t: Array) -> Array:
        return self.forwards(np.cos(self.x) * t)

    def pull(self, ct: Array) -> Array:
        return np.cos(self.x) * self.backwards(ct)

    def grad(self) -> Array:
        """Of the loss `sum(weights * y * y)`."""
        return self.pull(2 * self.weights * self.value())

    def hessian(self, v: Array) -> Array:
        """Applied to a direction."""
        first = -np.sin(self.x) * v * self.backwards(2 * self.weights * self.value())
        return first + self.pull(2 * self.weights * self.tangent(v))


# ---- what is done ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A case on a mesh, with arrays: what uses are made of."""

    case: Case
    check: bool
    x: Array
    others: tuple[Array, ...]
    weights: Array
    cotangent: Array

    def sharded(self, body: Callable[..., Array], specs: Any = None, out: Any = None) -> Any:
        """The shard_map of a function of blocks."""
        case = self.case
        return weft.shard_map(
            body,
            mesh=mesh(),
            in_specs=spec_of(case.reads) if specs is None else specs,
            out_specs=spec_of(case.leaves) if out is None else out,
            check_vma=self.check,
        )

    def body(self, block: Array) -> Array:
        return self.case.apply(wnp.sin(block))

    def function(self) -> Any:
        return self.sharded(self.body)

    def loss(self, function: Callable[..., Array]) -> Callable[..., Array]:
        return lambda *args: (self.weights * function(*args) ** 2).sum()


@functools.cache
def matrix(case: Case, k: int = 0) -> Wanted:
    return Wanted(case, points(case)[k])


def setting(case: Case, check: bool, arrays: Sequence[Array]) -> Setting:
    x, t, u, weights, cotangent = arrays
    return Setting(case, check, x, (t, u), weights, cotangent)


def arrays(case: Case) -> list[Array]:
    """What a setting is made of, on the device."""
    wanted = matrix(case)
    return [double(x) for x in (*points(case), wanted.weights, wanted.cotangent)]


# What variants of a collective are put to, and of that what is tried eagerly too.
ESSENTIAL = (
    "plain and grad", "linearize", "jvp of grad", "vmap inside", "vmap outside", "linear_transpose",
)  # fmt: skip
EAGER = ("plain and grad", "linear_transpose")


class Use(NamedTuple):
    """What is done in a setting, what has to come out, and for which cases that has a meaning."""

    run: Callable[[Setting], Any]
    wanted: Callable[[Case], Any]
    applies: Callable[[Case], bool]


USES: dict[str, Use] = {}


def uses_of(case: Case, eager: bool = False) -> dict[str, Use]:
    some = EAGER if eager else ESSENTIAL
    return {
        name: use
        for name, use in USES.items()
        if use.applies(case) and (case.every_use or name in some)
    }


def use(
    name: str, wanted: Callable[[Case], Any], applies: Callable[[Case], bool] = lambda case: True
) -> Callable[[Callable[[Setting], Any]], Callable[[Setting], Any]]:
    def register(run: Callable[[Setting], Any]) -> Callable[[Setting], Any]:
        USES[name] = Use(run, wanted, applies)
        return run

    return register


def at(wanted: Callable[..., Any]) -> Callable[[Case], Any]:
    """A wanted result that follows from the matrix at the first point, and from the others."""
    return lambda case: wanted(matrix(case), *points(case)[1:])


def value_and_grad(function: Callable[..., Array], s: Setting) -> list[Array]:
    return [function(s.x), weft.grad(s.loss(function))(s.x)]


both = at(lambda w, *_: [w.value(), w.grad()])


@use("plain and grad", both)
def _plain(s: Setting) -> Any:
    return value_and_grad(s.function(), s)


@use("jvp", at(lambda w, t, _: [w.value(), w.tangent(t)]))
def _jvp(s: Setting) -> Any:
    return list(weft.jvp(s.function(), (s.x,), (s.others[0],)))


@use("linearize", at(lambda w, t, u: [w.value(), w.tangent(t), w.tangent(u)]))
def _linearize(s: Setting) -> Any:
    out, linear = weft.linearize(s.function(), s.x)
    return [out, linear(s.others[0]), linear(s.others[1])]


@use("vjp", at(lambda w, *_: [w.value(), w.pull(w.cotangent), w.pull(w.weights)]))
def _vjp(s: Setting) -> Any:
    out, pull = weft.vjp(s.function(), s.x)
    return [out, pull(s.cotangent)[0], pull(s.weights)[0]]


@use("grad of grad", at(lambda w, v, _: w.hessian(v)))
def _grad_of_grad(s: Setting) -> Any:
    gradient = weft.grad(s.loss(s.function()))
    return weft.grad(lambda x: (gradient(x) * s.others[0]).sum())(s.x)


@use("jvp of grad", at(lambda w, v, _: [w.grad(), w.hessian(v)]))
def _jvp_of_grad(s: Setting) -> Any:
    gradient = weft.grad(s.loss(s.function()))
    return list(weft.jvp(gradient, (s.x,), (s.others[0],)))


@use("grad of jvp", at(lambda w, v, _: w.hessian(v)))
def _grad_of_jvp(s: Setting) -> Any:
    loss = s.loss(s.function())
    return weft.grad(lambda x: weft.jvp(loss, (x,), (s.others[0],))[1])(s.x)


def _each(case: Case, axis: int, gradient: bool) -> Any:
    found = [matrix(case, k) for k in range(2)]
    values = np.stack([w.value() for w in found], axis)
    return [values, np.stack([w.grad() for w in found], axis)] if gradient else values


@use("vmap inside", lambda case: _each(case, -1, True))
def _vmap_inside(s: Setting) -> Any:
    function = s.sharded(weft.vmap(s.body, in_axes=-1, out_axes=-1))
    xs = wnp.stack([s.x, s.others[0]], -1)
    loss = lambda xs: (s.weights[..., None] * function(xs) ** 2).sum()  # noqa: E731
    return [function(xs), weft.grad(loss)(xs)]


@use("vmap outside", lambda case: _each(case, 0, True))
def _vmap_outside(s: Setting) -> Any:
    function = s.function()
    xs = wnp.stack([s.x, s.others[0]])
    return [weft.vmap(function)(xs), weft.vmap(weft.grad(s.loss(function)))(xs)]


@use("checkpoint inside", both)
def _checkpoint_inside(s: Setting) -> Any:
    return value_and_grad(s.sharded(weft.checkpoint(s.body)), s)


@use("checkpoint outside", both)
def _checkpoint_outside(s: Setting) -> Any:
    return value_and_grad(weft.checkpoint(s.function()), s)


def _decaying(case: Case) -> Any:
    """`y0 / 2 + y1`, and the gradient of its loss in both points."""
    found = [matrix(case, k) for k in range(2)]
    out = found[0].value() / 2 + found[1].value()
    ct = 2 * found[0].weights * out
    return [out, np.stack([found[0].pull(ct / 2), found[1].pull(ct)])]


@use("scan body", _decaying)
def _scan_body(s: Setting) -> Any:
    def body(blocks: Array) -> Array:
        start = wnp.zeros_like(s.body(blocks[0]))
        return lax.scan(lambda c, x: (c / 2 + s.body(x), None), start, blocks)[0]

    function = s.sharded(body, P(None, *spec_of(s.case.reads)))
    xs = wnp.stack([s.x, s.others[0]])
    return [function(xs), weft.grad(s.loss(function))(xs)]


def _signed(case: Case) -> Any:
    w = matrix(case, 0)
    return [-w.value(), w.grad(), w.value(), w.grad()]


@use("cond branch", _signed)
def _cond_branch(s: Setting) -> Any:
    def body(flag: Array, block: Array) -> Array:
        return lax.cond(flag, s.body, lambda x: -s.body(x), block)

    function = s.sharded(body, (P(), spec_of(s.case.reads)))
    found = []
    for flag in (np.bool_(False), np.bool_(True)):
        here = functools.partial(function, wnp.asarray(flag))
        found += value_and_grad(here, s)
    return found


def _repeated(case: Case) -> Any:
    """Three rounds of `c / 2 + y`."""
    w = matrix(case, 0)
    return [1.75 * w.value(), 1.75 * w.tangent(points(case)[1])] * 2


@use("loop bodies", _repeated)
def _loop_bodies(s: Setting) -> Any:
    def by_fori(block: Array) -> Array:
        start = wnp.zeros_like(s.body(block))
        return lax.fori_loop(0, 3, lambda k, c: c / 2 + s.body(block), start)

    def by_while(block: Array) -> Array:
        start = (0, wnp.zeros_like(s.body(block)))
        step = lambda c: (c[0] + 1, c[1] / 2 + s.body(block))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 3, step, start)[1]

    found: list[Array] = []
    for body in (by_fori, by_while):
        found += weft.jvp(s.sharded(body), (s.x,), (s.others[0],))
    return found


def tripled(function: Callable[[Array], Array]) -> Any:
    """The function with three times its derivative, so that the rule is seen to be used."""
    out = weft.custom_vjp(function)
    out.defvjp(lambda x: (function(x), x), lambda x, ct: (3 * weft.vjp(function, x)[1](ct)[0],))
    return out


thrice = at(lambda w, *_: [w.value(), 3 * w.grad()])


@use("custom_vjp inside", thrice)
def _custom_vjp_inside(s: Setting) -> Any:
    return value_and_grad(s.sharded(tripled(s.body)), s)


@use("custom_vjp outside", thrice)
def _custom_vjp_outside(s: Setting) -> Any:
    return value_and_grad(tripled(s.function()), s)


@use("jit inside", both)
def _jit_inside(s: Setting) -> Any:
    return value_and_grad(s.sharded(weft.jit(s.body)), s)


@use("closure", both)
def _closure(s: Setting) -> Any:
    def function(x: Array) -> Array:
        def body() -> Array:
            block = x
            for dimension, axis in enumerate(AXES):
                if axis in s.case.reads:
                    block = lax.pscatter(block, axis, axis=dimension, tiled=True)
            return s.body(block)

        return s.sharded(body, ())()

    return value_and_grad(function, s)


# ---- uses that not all cases have --------------------------------------------------------------


@use(
    "linear_transpose",
    at(lambda w, *_: [w.backwards(w.cotangent), w.forwards(w.x)]),
    lambda case: case.linear,
)
def _linear_transpose(s: Setting) -> Any:
    """Once, and twice: the transpose of the transpose is the function."""
    function = s.sharded(s.case.apply)
    once = lambda ct: weft.linear_transpose(function, s.x)(ct)[0]  # noqa: E731
    return [once(s.cotangent), weft.linear_transpose(once, s.cotangent)(s.x)[0]]


def _first_columns(case: Case) -> Any:
    found = [matrix(case, k) for k in range(2)]
    return [
        np.stack([np.split(w.value(), 2, 1)[0] for w in found]),
        np.stack([np.split(w.grad(), 2, 1)[0] for w in found]),
    ]


@use("vmap with spmd_axis_name", _first_columns, lambda case: case.over == ("i",))
def _vmap_spmd(s: Setting) -> Any:
    """The mapped axis is split over j, which the case leaves alone: the blocks of j = 0 are then
    those of all devices along it."""
    specs = [P("i") if "i" in axes else P() for axes in (s.case.reads, s.case.leaves)]
    function = s.sharded(s.body, *specs)
    xs = wnp.stack([wnp.split(x, 2, 1)[0] for x in (s.x, s.others[0])])
    weights = wnp.split(s.weights, 2, 1)[0]
    gradient = weft.grad(lambda x: (weights * function(x) ** 2).sum())
    return [weft.vmap(f, spmd_axis_name="j")(xs) for f in (function, gradient)]
