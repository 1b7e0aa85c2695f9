"""How the results of a program are split, and in which layouts they are, where the program itself
says so, without a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core import rules
from weft.core.jaxpr import Jaxpr, Var
from weft.lowering.result_layouts import result_sources, whole_sources
from weft.ops.structural.layout_constraint import layout_constraint_p
from weft.ops.structural.sharding_constraint import sharding_constraint_p
from weft.sharding import Format, Layout, PartitionSpec

__all__ = ["known_formats", "known_shardings"]


def known_shardings(jaxpr: Jaxpr, places: Sequence[Any]) -> list[Any]:
    """For each result where it lies: as a constraint in the program says, or in one that it calls,
    or where the input lies whose value it is. None where only the compiler knows.

    `places` has where the inputs lie; None for what is not known.
    """
    made = {var: (eqn, i) for eqn in jaxpr.eqns for i, var in enumerate(eqn.outputs)}
    given = dict(zip(jaxpr.inputs, places, strict=True))

    def of(atom: Any) -> Any:
        if type(atom) is not Var:
            return None
        if atom in given:
            return given[atom]
        eqn, i = made[atom]
        if eqn.primitive is sharding_constraint_p:
            sharding = eqn.params["sharding"]
            spec = getattr(sharding, "spec", PartitionSpec())
            return None if any(spec.is_open(k) for k in range(len(spec))) else sharding
        if eqn.primitive is layout_constraint_p:
            return of(eqn.inputs[0])
        # A primitive from outside may have the same name: the rule says what its program means.
        if eqn.primitive.name == "jit" and rules.layout.get(eqn.primitive) is whole_sources:
            return known_shardings(eqn.params["jaxpr"], [of(x) for x in eqn.inputs])[i]
        return None

    return [of(atom) for atom in jaxpr.outputs]


def known_formats(jaxpr: Jaxpr, places: Sequence[Any], layouts: Sequence[Any]) -> list[Any]:
    """For each result where it lies, as `known_shardings` says, with its layout where that is
    known too: as a constraint in the program says, or that of the input whose value it is.

    `layouts` has those of the inputs; None for what is not known.
    """
    found = known_shardings(jaxpr, places)
    for i, source in enumerate(result_sources(jaxpr)):
        layout = layouts[source] if type(source) is int else source
        if isinstance(layout, Layout) and found[i] is not None:
            found[i] = Format(layout, found[i])
    return found
