"""Evaluates a jaxpr with NumPy, and bounds how far a compiled program may be from the results.

Nothing of XLA has a part in it: a rule for each primitive, in terms of NumPy's functions. See
`bounded_values` for what a bound says and for the rules of elementwise operations. Inside
`shard_map` a value is a list, one block per device, and collectives combine the blocks.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bounded_indexing import INDEXING
from bounded_movement import MOVEMENTS, NoRule, joined, not_known
from bounded_reductions import REDUCTIONS, extreme_of, reduce_sum
from bounded_values import UNKNOWN, Bounded, elementwise, exact, is_float
from weft.core.jaxpr import Jaxpr, Literal

__all__ = ["NoRule", "differences", "evaluate", "in_steps"]

Array = np.ndarray[Any, Any]


def evaluate(jaxpr: Jaxpr, operands: Sequence[Bounded]) -> list[Bounded]:
    """The results of a jaxpr, with their bounds."""
    known: dict[Any, Bounded] = dict(zip(jaxpr.inputs, operands, strict=True))

    def read(atom: Any) -> Bounded:
        return exact(atom.value, atom.type.dtype) if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        types = [x.type for x in eqn.outputs]
        found = apply(eqn.primitive.name, [read(x) for x in eqn.inputs], eqn.params, types)
        known.update(zip(eqn.outputs, found, strict=True))
    return [read(x) for x in jaxpr.outputs]


# What becomes of each result before others use it: by default it stays as it is.
_rounding: contextvars.ContextVar[Callable[[Bounded], Bounded]] = contextvars.ContextVar(
    "rounding", default=lambda out: out
)


def apply(name: str, operands: list[Bounded], params: Any, types: list[Any]) -> list[Bounded]:
    """The results of one application of a primitive."""
    return list(map(_rounding.get(), _applied(name, operands, params, types)))


def _applied(name: str, operands: list[Bounded], params: Any, types: list[Any]) -> list[Bounded]:
    if len(types) == 1:
        found = elementwise(name, operands, params, types[0].dtype)
        if found is not None:
            return [found]
    rule = _RULES.get(name)
    if rule is None:
        raise NoRule(name)
    with np.errstate(all="ignore"):
        found = rule(operands, types, **params)
    return found if isinstance(found, list) else [found]


def in_steps(jaxpr: Jaxpr, operands: Sequence[Bounded], seed: int | None) -> list[Bounded]:
    """The results if each operation rounds its result, to a number within its own bound that is
    drawn, or to the nearest one without a seed: those of one way to compute.

    What has no bound even so, as a sum that overflows or not by the order of its terms, stays
    unknown; the others have the bound 0.
    """
    rng = np.random.default_rng(seed)
    share = 0.0 if seed is None else 0.1 ** (seed % 4)

    def settle(out: Bounded) -> Bounded:
        error = np.where(out.known, 0.0, UNKNOWN)
        if not is_float(out.dtype):
            return Bounded(out.value, error, out.dtype, True)
        drawn = out.known & np.isfinite(out.value) & (seed is not None)
        step = np.where(drawn, share * out.error, 0.0)
        value = np.where(step > 0, out.value + rng.integers(-1, 2, out.shape) * step, out.value)
        # Rounding may cancel all of it: in the first draw it does wherever it can.
        vanishes = drawn & (abs(out.value) <= step) & (rng.random(out.shape) < (0.3 if seed else 1))
        value = np.where(vanishes, 0, value).astype(out.dtype).astype(out.value.dtype)
        return Bounded(value, error, out.dtype, True)

    token = _rounding.set(settle)
    try:
        with np.errstate(all="ignore"):
            return evaluate(jaxpr, operands)
    finally:
        _rounding.reset(token)


def differences(got: Any, wanted: Bounded) -> Array | None:
    """Which elements of a program's result are not what rounding can make of it; None: all are
    right."""
    got = np.asarray(got)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return np.ones(wanted.shape, bool)
    with np.errstate(all="ignore"):
        nearest = wanted.nearest()
        same = got == nearest
        if is_float(wanted.dtype):
            same |= np.isnan(got) & np.isnan(wanted.value)
            apart = abs(got.astype(wanted.value.dtype) - wanted.value)
            same |= np.isfinite(wanted.value) & (apart <= wanted.error * (1 + 1e-9))
            if wanted.signed and got.dtype.kind != "c":
                zero = (got == 0) & (nearest == 0) & (wanted.error == 0)
                same &= ~zero | (np.signbit(got) == np.signbit(nearest))
        wrong = ~same & wanted.known
    return wrong if wrong.any() else None


# ---- programs inside programs ------------------------------------------------------------------


def _call(operands: list[Bounded], types: Any, jaxpr: Any = None, **params: Any) -> list[Bounded]:
    inner = jaxpr if jaxpr is not None else params.get("call_jaxpr")
    if inner is None:
        raise NoRule(f"a call with {sorted(params)}")
    return evaluate(inner, operands)


def _cond(operands: list[Bounded], types: Any, branches: Any, **rest: Any) -> list[Bounded]:
    which, *args = operands
    found = evaluate(branches[min(max(int(which.value), 0), len(branches) - 1)], args)
    return found if which.known.all() else [not_known(x) for x in found]


def _scan(
    operands: list[Bounded],
    types: Any,
    jaxpr: Any,
    length: int,
    num_carry: int,
    num_consts: int,
    reverse: bool,
    **rest: Any,
) -> list[Bounded]:
    consts, carry = operands[:num_consts], operands[num_consts : num_consts + num_carry]
    if length > 64:
        raise NoRule("a scan of so many steps")
    rows: list[Any] = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        slices = [x.moved(lambda a, i=i: a[i]) for x in operands[num_consts + num_carry :]]
        found = evaluate(jaxpr, [*consts, *carry, *slices])
        carry, rows[i] = found[:num_carry], found[num_carry:]
    if not length:
        raise NoRule("a scan of no steps")
    return [*carry, *(joined(column, np.stack) for column in zip(*rows, strict=True))]


# ---- blocks on devices -------------------------------------------------------------------------


def _shard_map(
    operands: list[Bounded],
    types: Any,
    jaxpr: Any,
    in_specs: Any,
    out_specs: Any,
    manual: Any,
    **rest: Any,
) -> list[Bounded]:
    """All devices in step; meshes of one axis."""
    ((axis, count),) = dict(manual.mesh.shape if hasattr(manual, "mesh") else manual).items()
    known: dict[Any, list[Bounded]] = {}
    for var, x, spec in zip(jaxpr.inputs, operands, in_specs, strict=True):
        known[var] = _cut(x, _split_dim(spec), count)

    def read(atom: Any) -> list[Bounded]:
        if isinstance(atom, Literal):
            return [exact(atom.value, atom.type.dtype)] * count
        return known[atom]

    for eqn in jaxpr.eqns:
        args, outs = [read(x) for x in eqn.inputs], [x.type for x in eqn.outputs]
        collective = _COLLECTIVES.get(eqn.primitive.name)
        if collective is not None:
            found = [collective(args[0] if args else count, outs, **eqn.params)]
        else:
            each = [
                apply(eqn.primitive.name, [x[k] for x in args], eqn.params, outs)
                for k in range(count)
            ]
            found = [list(column) for column in zip(*each, strict=True)]
        known.update(zip(eqn.outputs, found, strict=True))
    results = []
    for atom, spec in zip(jaxpr.outputs, out_specs, strict=True):
        blocks, dim = read(atom), _split_dim(spec)
        results.append(
            blocks[0]
            if dim is None
            else joined(blocks, lambda parts, dim=dim: np.concatenate(parts, dim))
        )
    return results


def _split_dim(spec: Any) -> int | None:
    split = [d for d, entry in enumerate(spec) if entry]
    return split[0] if split else None


def _cut(x: Bounded, dim: int | None, count: int) -> list[Bounded]:
    if dim is None:
        return [x] * count
    return [x.moved(lambda a, k=k: np.split(a, count, dim)[k]) for k in range(count)]


def _combined(kind: str) -> Callable[..., list[Bounded]]:
    def rule(
        blocks: list[Bounded], types: Any, axis_index_groups: Any = None, **rest: Any
    ) -> list[Bounded]:
        if axis_index_groups is not None:
            raise NoRule("groups of devices")
        every = joined(blocks, np.stack)
        if kind == "sum":
            out = reduce_sum([every], types, (0,))
        else:
            function = {"max": np.maximum, "min": np.minimum}[kind]
            out = extreme_of(function, lambda f, a: f.reduce(a, axis=0), every)
        return [out] * len(blocks)

    return rule


def _permuted(blocks: list[Bounded], types: Any, perm: Any, **rest: Any) -> list[Bounded]:
    zeros = exact(np.zeros(blocks[0].shape), blocks[0].dtype)
    out = [zeros] * len(blocks)
    for source, target in perm:
        out[target] = blocks[source]
    return out


def _gathered(
    blocks: list[Bounded],
    types: Any,
    dimension: int = 0,
    tiled: bool = True,
    axis_index_groups: Any = None,
    **rest: Any,
) -> list[Bounded]:
    if axis_index_groups is not None:
        raise NoRule("groups of devices")
    join = np.concatenate if tiled else np.stack
    return [joined(blocks, lambda parts: join(parts, dimension))] * len(blocks)


def _exchanged(
    blocks: list[Bounded],
    types: Any,
    split_axis: int,
    concat_axis: int,
    tiled: bool = True,
    **rest: Any,
) -> list[Bounded]:
    if not tiled:
        raise NoRule("all_to_all that is not tiled")
    parts = [_cut(x, split_axis, len(blocks)) for x in blocks]
    return [
        joined([p[k] for p in parts], lambda a: np.concatenate(a, concat_axis))
        for k in range(len(blocks))
    ]


_COLLECTIVES: dict[str, Callable[..., list[Bounded]]] = {
    "psum": _combined("sum"),
    "pmax": _combined("max"),
    "pmin": _combined("min"),
    "ppermute": _permuted,
    "all_gather": _gathered,
    "all_gather_invariant": _gathered,
    "all_to_all": _exchanged,
    "axis_index": lambda count, types, **rest: [
        exact(np.asarray(k), types[0].dtype) for k in range(count)
    ],
}

_RULES: dict[str, Callable[..., Any]] = {
    **MOVEMENTS,
    **INDEXING,
    **REDUCTIONS,
    "jit": _call,
    "custom_jvp": _call,
    "custom_vjp": _call,
    "checkpoint": _call,
    "cond": _cond,
    "scan": _scan,
    "shard_map": _shard_map,
}
