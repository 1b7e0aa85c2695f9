"""Casts to varying types: jaxprs that take such values, and casts moved out of inner jaxprs.

Reverse mode turns the cast of a value that is equal on all devices into a sum over the devices. A
loop body that casts what it gets from outside, a constant or an element of a scanned array, has one
such sum per step in its transpose. Cast before the loop, the same value is summed once, after the
transposed loop. So where an equation that holds jaxprs is recorded, these get varying inputs in
place of casts, and the operands are cast instead. An operand may be an input of a jaxpr that an
equation holds in its turn: so casts move outwards as far as they can. Carried values stay.

A loop records its body once, and may find out afterwards that a carried value that began equal on
all devices comes to differ. The recorded jaxpr is then evaluated again for the wider types. A jaxpr
inside one of its equations is widened by the `retype` rule of the primitive that holds it, which
the recording trace calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from weft.base.source import Source
from weft.base.util import Flags, keep_marked
from weft.core.check import checked
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, eval_jaxpr
from weft.core.rules import CastOperand, Hoisted, Params
from weft.core.types import ArrayType, type_of
from weft.interpreters.partial_eval import dce_equations
from weft.interpreters.staging import rebuild
from weft.ops.collectives.all_reduce import pbroadcast_p, vary
from weft.ops.elementwise.arithmetic import add_p, div_p, mul_p, neg_p, sub_p
from weft.ops.elementwise.convert import convert_element_type, convert_element_type_p
from weft.ops.structural.extended_dtypes import is_key
from weft.ops.structural.shape import broadcast_in_dim_p, reshape_p, transpose_p

Axes = frozenset[str]
_NONE: Axes = frozenset()

# A cast moves through these where they have one variable among their operands: the operation is
# then applied to the cast of that.
_PASSED = frozenset(
    (
        broadcast_in_dim_p, reshape_p, transpose_p, convert_element_type_p, neg_p, add_p, sub_p,
        mul_p, div_p,
    )
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class HoistedCasts:
    """Jaxprs of common inputs without casts of those that may move.

    `operands` says what each input is: an old one by its index, cast along these axes. The old
    inputs come first, in their order; further ones follow where an old one is read in several ways.

    Args:
        jaxprs: The new jaxprs, in the order of the old ones.
        operands: The old input, and the axes along which it is cast, for each new input.
    """

    jaxprs: tuple[Jaxpr, ...]
    operands: list[CastOperand]


def hoist_casts(jaxprs: Sequence[Jaxpr], movable: Flags) -> HoistedCasts | None:
    """The jaxprs, which have inputs of the same types, without casts of the inputs marked
    `movable`; None if there are none.

    Args:
        jaxprs: Jaxprs with inputs of the same types, such as the branches of a `cond`.
        movable: The inputs whose casts may move.
    """
    (first, *others) = jaxprs

    def make() -> tuple[HoistedCasts | None]:
        bodies = [_Body(jaxpr, movable) for jaxpr in jaxprs]
        if not any(body.cast for body in bodies):
            return (None,)
        operands, more = [], []
        for i in range(len(movable)):
            ways: dict[Axes, Source | None] = {}
            for body in bodies:
                ways |= body.ways[i]
            (own, *further) = sorted(ways, key=sorted) or [_NONE]
            operands.append(CastOperand(i, own, ways.get(own)))
            more += [CastOperand(i, axes, ways[axes]) for axes in further]
        operands += more
        return (HoistedCasts(tuple([b.with_inputs(operands) for b in bodies]), operands),)

    return first.memoize(("hoist_casts", tuple(others), movable), make)[0]


class _Body:
    """A jaxpr with further inputs in place of casts of movable inputs."""

    def __init__(self, jaxpr: Jaxpr, movable: Flags) -> None:
        self.jaxpr = jaxpr
        self.place = {v: i for i, v in enumerate(jaxpr.inputs)}
        # What depends on one movable input alone, through casts and what these pass.
        self.reachable = set(keep_marked(movable, jaxpr.inputs))
        self.makers: dict[Var, Equation] = {}
        # The variables that hold a value cast along axes; those that are inputs, with a line.
        self.cast: dict[tuple[Var, Axes], Var] = {}
        self.inputs: dict[tuple[int, Axes], tuple[Var, Source | None]] = {}
        self.eqns: list[Equation] = []
        outputs = jaxpr.outputs
        if any(eqn.primitive is pbroadcast_p for eqn in jaxpr.eqns):
            outputs = self.replace_casts()
        eqns = self.eqns if self.cast else jaxpr.eqns
        self.eqns, read = dce_equations(eqns, outputs)
        self.outputs = outputs
        self.ways: list[dict[Axes, Source | None]] = [
            {_NONE: None} if v in read else {} for v in jaxpr.inputs
        ]
        for (i, axes), (var, source) in self.inputs.items():
            if var in read:
                self.ways[i][axes] = source

    def replace_casts(self) -> list[Atom]:
        """Finds the equations without casts of movable inputs; returns the results."""
        names: dict[Atom, Atom] = {}
        for eqn in self.jaxpr.eqns:
            variables = {x for x in eqn.inputs if type(x) is Var}
            if len(variables) == 1 and variables <= self.reachable and _passes(eqn):
                self.reachable.update(eqn.outputs)
                self.makers[eqn.outputs[0]] = eqn
                if eqn.primitive is pbroadcast_p:
                    names[eqn.outputs[0]] = self.varying(eqn.outputs[0], _NONE, eqn.source)
                    continue
            renamed = [names.get(x, x) if type(x) is Var else x for x in eqn.inputs]
            self.eqns.append(eqn.replace(inputs=renamed) if renamed != eqn.inputs else eqn)
        return [names.get(x, x) if type(x) is Var else x for x in self.jaxpr.outputs]

    def varying(self, var: Var, axes: Axes, source: Source | None) -> Var:
        """The variable of a reachable value cast along axes by the line `source`."""
        eqn = self.makers.get(var)
        if eqn is not None and eqn.primitive is pbroadcast_p:
            (operand,) = eqn.inputs
            assert type(operand) is Var
            return self.varying(operand, axes | set(eqn.params["axis_name"]), source)
        known = self.cast.get((var, axes))
        if known is None:
            known = self.cast[var, axes] = Var(_along(var.type, axes))
            if eqn is None:
                self.inputs[self.place[var], axes] = known, source
            else:
                inputs = [
                    Literal(x.value, _along(x.type, known.type.varying))
                    if isinstance(x, Literal)
                    else self.varying(x, axes, source)
                    for x in eqn.inputs
                ]
                self.eqns.append(eqn.replace(inputs=inputs, outputs=[known]))
        return known

    def with_inputs(self, operands: Sequence[CastOperand]) -> Jaxpr:
        """The jaxpr without the casts, with these inputs."""
        inputs = []
        for i, axes, _ in operands:
            old = self.jaxpr.inputs[i]
            new = self.inputs.get((i, axes))
            inputs.append(new[0] if new else old if not axes else Var(_along(old.type, axes)))
        jaxpr = self.jaxpr
        return checked(Jaxpr(inputs, self.eqns, self.outputs, jaxpr.num_consts, jaxpr.name))


def _along(type: ArrayType, axes: Axes) -> ArrayType:
    return type.update(varying=type.varying | axes)


def _passes(eqn: Equation) -> bool:
    """Whether a cast of the result may become one of the operand: the equation is a cast, or
    neither repeats nor rounds what the transpose sums."""
    if eqn.primitive is pbroadcast_p:
        return True
    if eqn.primitive not in _PASSED:
        return False
    (before,) = {x.type for x in eqn.inputs if type(x) is Var}
    after = eqn.outputs[0].type
    return before.size <= after.size and _width(before) >= _width(after)


def _width(type: ArrayType) -> int:
    return getattr(type.dtype, "itemsize", 0)


def hoist_program(params: Params) -> Hoisted | None:
    """The hoist rule of a primitive that calls one jaxpr, the parameter `jaxpr`."""
    jaxpr: Jaxpr = params["jaxpr"]
    found = hoist_casts([jaxpr], (True,) * len(jaxpr.inputs))
    if found is None:
        return None
    return found.operands, params | {"jaxpr": found.jaxprs[0]}


def join_types(a: ArrayType, b: ArrayType) -> ArrayType:
    """The type that holds values of both types, which have one shape and dtype.

    Args:
        a, b: A type; the two differ in varying axes or weak types only.
    """
    if a is b:
        return a
    return a.update(
        weak_type=a.weak_type and b.weak_type,
        varying=a.varying | b.varying,
        unreduced=a.unreduced | b.unreduced,
    )


def cast_to(value: Any, wanted: ArrayType) -> Any:
    """Casts a value to a wider type of the same shape and dtype; the casts cost nothing.

    Args:
        value: An array or a tracer.
        wanted: The type that varies along more mesh axes.
    """
    got = type_of(value)
    if got is wanted:
        return value
    if got.weak_type != wanted.weak_type and not is_key(value):
        value = convert_element_type(value, wanted.dtype, wanted.weak_type)
    return vary(value, wanted.varying)


def pvary_jaxpr(
    jaxpr: Jaxpr, in_types: Sequence[ArrayType], out_varying: Sequence[frozenset[str]] | None = None
) -> Jaxpr:
    """The jaxpr for inputs that differ from its own in varying axes or weak types.

    in_types: the types that the new jaxpr takes; out_varying: for each result the mesh axes along
    which it varies at least; None for none.
    """
    outs = tuple(out_varying) if out_varying is not None else None

    def make() -> Jaxpr:
        same = all(a is b for a, b in zip(in_types, jaxpr.in_types, strict=True))
        own = [t.varying for t in jaxpr.out_types]
        if same and all(v <= old for v, old in zip(outs or own, own, strict=True)):
            return jaxpr

        def function(*values: Any) -> list[Any]:
            out = eval_jaxpr(jaxpr, (), *values)
            if outs is None:
                return out
            return [vary(x, axes) for x, axes in zip(out, outs, strict=True)]

        return rebuild(function, in_types, jaxpr.name, "widen")

    return jaxpr.memoize(("pvary_jaxpr", tuple(in_types), outs), make)


def varying_along(types: Sequence[ArrayType], axes: Sequence[frozenset[str]]) -> list[ArrayType]:
    """The types, each varying along these mesh axes too."""
    return [t.update(varying=t.varying | own) for t, own in zip(types, axes, strict=True)]


def retype_program(
    types: Sequence[ArrayType], params: dict[str, Any]
) -> tuple[list[ArrayType], dict[str, Any]]:
    """The retype rule of a primitive that calls one jaxpr, the parameter `jaxpr`."""
    jaxpr = params["jaxpr"]
    wanted = varying_along(jaxpr.in_types, [t.varying for t in types])
    return wanted, params | {"jaxpr": pvary_jaxpr(jaxpr, wanted)}


def retype_together(
    types: Sequence[ArrayType], params: dict[str, Any]
) -> tuple[list[ArrayType], dict[str, Any]]:
    """The retype rule of a primitive whose jaxpr combines elements of all operands."""
    union: frozenset[str] = frozenset().union(*(t.varying for t in types))
    return [t.update(varying=union) for t in types], params
