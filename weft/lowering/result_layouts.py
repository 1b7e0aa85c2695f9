"""The layouts of a compiled program's operands and results.

Operands come in the layouts that they have. A result has the one that was asked for, where
somebody asked (by `out_shardings`, or by a constraint in the program); that of the operand whose
value it is, unchanged; and is row-major otherwise. `Layout.AUTO` leaves a layout to the compiler,
and on the CPU, where the compiler does not care, to `layout_inference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.arrays.array import Array
from weft.core import rules
from weft.core.jaxpr import Jaxpr, Var
from weft.core.types import ArrayType
from weft.lowering.layout_inference import infer_layouts
from weft.sharding import Layout
from weft.sharding.layout import unless_row_major

__all__ = ["operand_layouts", "result_sources", "settled_layouts", "whole_sources"]

Layouts = tuple[Any, ...]


def operand_layouts(arrays: Sequence[Any]) -> Layouts | None:
    """The layouts of a program's operands, None for a row-major one; None if all of them are."""
    found = tuple(
        x.signature[2]
        if type(x) is Array and x.signature is not x.type and len(x.signature) == 3
        else None
        for x in arrays
    )
    return found if any(found) else None


def result_sources(jaxpr: Jaxpr) -> Layouts:
    """For each result of a program what decides on its layout: the number of the input whose value
    it is, a Layout that the program asks for, or None."""

    def make() -> Layouts:
        return tuple(map(_Sources(jaxpr).of, jaxpr.outputs))

    return jaxpr.memoize("layout sources", make)


class _Sources:
    """Finds what decides on the layouts of a program's values."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.inputs = {var: i for i, var in enumerate(jaxpr.inputs)}
        self.made = {
            var: (eqn, i)
            for eqn in jaxpr.eqns
            if eqn.primitive in rules.layout
            for i, var in enumerate(eqn.outputs)
        }

    def of(self, atom: Any) -> Any:
        """The number of an input, a Layout, or None."""
        while type(atom) is Var:
            if atom in self.inputs:
                return self.inputs[atom]
            if atom not in self.made:
                return None
            eqn, i = self.made[atom]
            source = rules.layout[eqn.primitive](eqn.params)[i]
            if type(source) is not int:
                return source
            atom = eqn.inputs[source]
        return None


def whole_sources(params: dict[str, Any]) -> Layouts:
    """The `layout` rule of a primitive whose results are those of the program that it holds, for
    the same operands."""
    return result_sources(params["jaxpr"])


def settled_layouts(
    jaxpr: Jaxpr,
    in_layouts: Sequence[Any] | None,
    out_layouts: Sequence[Any] | None,
    platform: str,
    partitioned: bool = False,
) -> tuple[Layouts | None, Layouts | None]:
    """The layouts to compile a program for, where None stands for row-major; None if all are.

    `out_layouts` has None for results of which nothing was said. `Layout.AUTO` is left where the
    compiler of the platform chooses.
    """
    ins = list(in_layouts or (None,) * len(jaxpr.inputs))
    outs = list(out_layouts or (None,) * len(jaxpr.outputs))
    for i, source in enumerate(result_sources(jaxpr)):
        if outs[i] is None and source is not None:
            outs[i] = ins[source] if type(source) is int else source
    if platform == "cpu" and (Layout.AUTO in ins or Layout.AUTO in outs):
        ins, outs = _inferred(jaxpr, ins, outs, partitioned)
    return _unless_all_row_major(ins), _unless_all_row_major(outs)


def _unless_all_row_major(layouts: Sequence[Any]) -> Layouts | None:
    found = tuple(map(unless_row_major, layouts))
    return found if any(found) else None


def _inferred(
    jaxpr: Jaxpr, ins: Sequence[Any], outs: Sequence[Any], partitioned: bool
) -> tuple[list[Layout], list[Layout]]:
    """The layouts with those in place of AUTO that the program is read and written along."""

    def orders(layouts: Sequence[Any], types: Sequence[ArrayType]) -> list[Any]:
        rows = [
            Layout(range(type.ndim)) if how is None else how
            for how, type in zip(layouts, types, strict=True)
        ]
        return [None if how is Layout.AUTO else how.major_to_minor for how in rows]

    given = orders(ins, jaxpr.in_types), orders(outs, jaxpr.out_types)
    found = infer_layouts(jaxpr, *given, partitioned)
    inputs, outputs = ([Layout(order) for order in side] for side in found)
    return inputs, outputs
