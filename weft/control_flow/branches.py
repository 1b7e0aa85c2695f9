"""Parts of conditionals: references and residuals of branches, and choices along mapped axes.

Branches that are split into a first and a second part leave different residuals. They share
slots: as many of each type as the branch with the most of that type needs, so that the second
part knows where to find its own whichever branch ran.

Where all choices can be computed for all elements, a selection picks the rows. Where that would
change effects (a branch not taken would print), a loop over the elements replaces the batched
operation.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft.base.util import keep_marked, merge, partition
from weft.control_flow.loop_parts import Loop, is_mapped
from weft.control_flow.scan import bind_scan
from weft.core.jaxpr import Jaxpr, Var
from weft.core.rules import AxisData, Dims, Mapped, Values
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import rebuild
from weft.ops.elementwise.families import unary
from weft.ops.elementwise.selection import select
from weft.ops.structural.extended_dtypes import KeyDType, physical_type, wrap_key_bits
from weft.ops.structural.shape import broadcast_in_dim, move_dim
from weft.ops.structural.tangents import zeros
from weft.refs.discharge import discharge, has_references
from weft.refs.reference import Ref, contents
from weft.tracing.traces import TracedBody


def pure_branches(traced: Sequence[TracedBody]) -> tuple[list[TracedBody], list[Ref]]:
    """The branches without references, and the references whose arrays they append."""
    if not any(has_references(body.consts) for body in traced):
        return list(traced), []
    arrays: dict[int, Any] = {}
    written: dict[int, Ref] = {}
    for body in traced:
        for value in body.consts:
            if type(value) is Ref and id(value) not in arrays:
                arrays[id(value)] = contents(value)
        changed = [body.consts[i] for i in discharge(body.jaxpr).written]
        written.update((id(ref), ref) for ref in changed)
    return [_pure_branch(body, list(written.values()), arrays) for body in traced], list(
        written.values()
    )


def _pure_branch(body: TracedBody, written: list[Ref], arrays: dict[int, Any]) -> TracedBody:
    found = discharge(body.jaxpr)
    inputs = {id(value): i for i, value in enumerate(body.consts)}
    results = {id(body.consts[i]): k for k, i in enumerate(found.written)}
    # By reference: the result that is its array, else the input that has it, else neither.
    places = tuple((results.get(id(ref)), inputs.get(id(ref))) for ref in written)
    new = [ref for ref, place in zip(written, places, strict=True) if place == (None, None)]
    types = tuple(ref.type.inner for ref in new)

    def make() -> Jaxpr:
        jaxpr = found.jaxpr
        count = len(jaxpr.outputs) - len(found.written)
        added = [Var(type) for type in types]
        unread = iter(added)
        outs = jaxpr.outputs[:count]
        for result, own in places:
            if result is not None:
                outs.append(jaxpr.outputs[count + result])
            else:
                outs.append(next(unread) if own is None else jaxpr.inputs[own])
        consts = jaxpr.num_consts + len(added)
        return Jaxpr([*added, *jaxpr.inputs], jaxpr.eqns, outs, consts, jaxpr.name)

    jaxpr = body.jaxpr.memoize(("branch with references", places, types), make)
    own = [arrays[id(value)] if type(value) is Ref else value for value in body.consts]
    return dataclasses.replace(body, jaxpr=jaxpr, consts=[*(arrays[id(r)] for r in new), *own])


def any_zeros(type: ArrayType) -> Any:
    """Zeros of any type, random keys included."""
    if isinstance(type.dtype, KeyDType):
        return wrap_key_bits(zeros(physical_type(type)), type.dtype)
    return zeros(type)


class ResidualSlots:
    """Common slots for the residuals of several branches, given the residual types of each."""

    __slots__ = ("index", "types")

    def __init__(self, branches: Sequence[Sequence[ArrayType]]) -> None:
        most: Counter[ArrayType] = Counter()
        for types in branches:
            most |= Counter(types)
        self.types: list[ArrayType] = [type for type, n in most.items() for _ in range(n)]
        first = {type: self.types.index(type) for type in most}
        self.index: list[list[int]] = []
        for types in branches:
            taken: Counter[ArrayType] = Counter()
            slots = []
            for type in types:
                slots.append(first[type] + taken[type])
                taken[type] += 1
            self.index.append(slots)

    def fill(self, branch: int, residuals: Sequence[Any]) -> list[Any]:
        """The residuals of one branch in their slots, zeros in the others."""
        values = dict(zip(self.index[branch], residuals, strict=True))
        return [values[i] if i in values else any_zeros(t) for i, t in enumerate(self.types)]

    def pick(self, branch: int, values: Sequence[Any]) -> list[Any]:
        """The residuals of one branch from all slots."""
        return [values[i] for i in self.index[branch]]


def map_in_order(
    axis: AxisData,
    args: Values,
    dims: Dims,
    apply: Callable[..., Sequence[Any]],
    name: str,
    unroll: bool = False,
) -> Mapped:
    """Applies `apply` to each element in order and stacks the results; `unroll`: without a loop."""
    flags = is_mapped(dims)
    given, whole = partition(flags, args)
    rows = [
        move_dim(x, d, 0, axis.size) for x, d in zip(given, keep_marked(flags, dims), strict=True)
    ]

    def element(*values: Any) -> list[Any]:
        return list(apply(*merge(flags, values[len(whole) :], values[: len(whole)])))

    row_types = [type_of(row) for row in rows]
    types = [*map(type_of, whole), *(t.update(shape=t.shape[1:]) for t in row_types)]
    body = rebuild(element, types, name, "vmap")
    loop = Loop(axis.size, False, max(axis.size, 1) if unroll else 1, len(whole), 0)
    outs = bind_scan(body, loop, whole, [], rows)
    return outs, [0] * len(outs)


def select_rows(which: Any, on_true: Any, on_false: Any) -> Any:
    """Selects rows of `on_true` or `on_false` along the first dimension."""
    shape = type_of(on_true).shape
    if len(shape) > 1:
        which = broadcast_in_dim(which, shape, (0,))
    return select(which, on_true, on_false)


def stop_gradient_elsewhere(taken: Any, x: Any) -> Any:
    """`x`, through which derivatives pass in the rows of `taken` only. A branch is computed for all
    rows. In those that do not take it its slope may be infinite, and would make NaN of a zero."""
    return select_rows(taken, x, untaken_p.bind(x))


# Not `stop_gradient`: where `x` is a tangent (the conditional was linearized before it was mapped)
# the operation is transposed. Nobody reads a row that is not taken, so its cotangent is dropped:
# the adjoint of a row that nobody reads, not of the identity.
untaken_p = unary(
    "untaken",
    accepts=dtypes.INEXACT,
    lower=lambda context, x: x,
    transpose=lambda ct, x: None,
    linear=True,
    flops="none",
)
