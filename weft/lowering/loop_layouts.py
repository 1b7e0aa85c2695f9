"""Constrains the layouts of arrays that enter loops and branches to those that they have outside.

XLA takes operands of loops and branches in row-major layout: an array in another layout would be
copied first, and the layout that suits the reads inside would be lost. A constraint inside, on a
value that the loop carries, keeps the layout. An array that is transposed before the loop would be
copied and then transposed; with a constraint that the result is row-major, XLA finds that it is so
already. Only an executable needs this, so it is done to a jaxpr before it is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.core import rules
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.sharding import Layout

Layouts = Sequence[Any]


def keep_layouts(jaxpr: Jaxpr, layouts: Layouts, partitioned: bool = False) -> Jaxpr:
    """The jaxpr for inputs in the given layouts (None: row-major); cached.

    In a module that the compiler splits over devices a constraint would gather the array, so there
    only the bodies of `shard_map` are changed.
    """
    given = tuple(layout if isinstance(layout, Layout) else None for layout in layouts)
    if not any(given):
        return jaxpr
    key = ("kept layouts", given, partitioned)
    return jaxpr.memoize(key, lambda: _keep_layouts(jaxpr, given, partitioned))


def _keep_layouts(jaxpr: Jaxpr, layouts: tuple[Any, ...], partitioned: bool) -> Jaxpr:
    pairs = zip(jaxpr.inputs, layouts, strict=True)
    known = {var: layout for var, layout in pairs if layout is not None}
    eqns: list[Equation] = []
    for eqn in jaxpr.eqns:
        own = [known.get(x) if type(x) is Var else None for x in eqn.inputs]
        rule = rules.keep_layouts.get(eqn.primitive) if any(own) else None
        eqns += [eqn] if rule is None else rule(eqn, own, partitioned)
        if any(own):
            known.update(_results(eqn, own))
    return checked(Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name))


def _results(eqn: Equation, layouts: Layouts) -> Iterator[tuple[Var, Layout]]:
    """The known layouts of results: the operand's for an unchanged one, row-major for moved
    elements."""
    sources = rules.layout[eqn.primitive](eqn.params) if eqn.primitive in rules.layout else None
    moves = rules.data_movement.get(eqn.primitive)
    for i, var in enumerate(eqn.outputs):
        if sources is not None:
            if type(sources[i]) is int and layouts[sources[i]] is not None:
                yield var, layouts[sources[i]]
        elif moves is not None and moves(eqn, i) is not None and var.type.ndim > 1:
            yield var, Layout(tuple(range(var.type.ndim)))


def keep_in_program(eqn: Equation, layouts: Layouts, partitioned: bool) -> list[Equation]:
    """The rule of primitives that run their `jaxpr` once on their operands."""
    jaxpr = keep_layouts(eqn.params["jaxpr"], layouts, partitioned)
    return [eqn.replace(params=eqn.params | {"jaxpr": jaxpr})]
