"""The layouts of an executable's operands and results, and the results' shardings.

Operands keep their layouts. A result has the layout that `out_shardings` or a constraint in the
jaxpr names; else that of the operand whose unchanged value it is; else it is row-major.
`Layout.AUTO` leaves a layout to the compiler, and on the CPU, where the compiler chooses none, to
`layout_inference`.

Constrains the layouts of arrays that enter loops and branches to those that they have outside.

XLA takes operands of loops and branches in row-major layout: an array in another layout would be
copied first, and the layout that suits the reads inside would be lost. A constraint inside, on a
value that the loop carries, keeps the layout. An array that is transposed before the loop would be
copied and then transposed; with a constraint that the result is row-major, XLA finds that it is so
already. Only an executable needs this, so it is done to a jaxpr before it is lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.arrays.array import Array
from weft.core import rules
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.rules import Params, Values
from weft.core.types import ArrayType
from weft.lowering.layout_inference import infer_layouts, makers
from weft.lowering.placement import operand_place, operand_shardings
from weft.ops.structural.layout_constraint import layout_constraint_p
from weft.ops.structural.sharding_constraint import sharding_constraint_p
from weft.sharding import Format, Layout, PartitionSpec
from weft.sharding.layout import unless_row_major

Layouts = tuple[Any, ...]


def operand_layouts(arrays: Sequence[Any]) -> Layouts | None:
    """The layouts of arrays, None for a row-major one; None if all of them are.

    Args:
        arrays: Arrays of weft, and values without a layout, which count as row-major.
    """
    found = tuple(
        x.signature[2]
        if type(x) is Array and x.signature is not x.type and len(x.signature) == 3
        else None
        for x in arrays
    )
    return found if any(found) else None


def operand_formats(
    arrays: Values, operation: str, params: Params, names: Callable[[], Sequence[str]] | None = None
) -> Params:
    """The arguments `place`, `in_shardings` and `in_layouts` of `compile_program` for these arrays.
    Raises what `operand_place` raises."""
    place = operand_place(arrays, operation, params, names)
    return {
        "place": place,
        "in_shardings": operand_shardings(arrays, place),
        "in_layouts": operand_layouts(arrays),
    }


def result_sources(jaxpr: Jaxpr) -> Layouts:
    """The source of each result's layout: the index of the input that it equals, a Layout that the
    jaxpr asks for, or None."""

    def make() -> Layouts:
        inputs = {var: i for i, var in enumerate(jaxpr.inputs)}
        made = makers(jaxpr)

        def source(atom: Any) -> Any:
            while type(atom) is Var:
                if atom in inputs:
                    return inputs[atom]
                eqn, i = made[atom]
                rule = rules.layout.get(eqn.primitive)
                out = None if rule is None else rule(eqn.params)[i]
                if type(out) is not int:
                    return out
                atom = eqn.inputs[out]
            return None

        return tuple(map(source, jaxpr.outputs))

    return jaxpr.memoize("layout sources", make)


def whole_sources(params: dict[str, Any]) -> Layouts:
    """The `layout` rule of a primitive whose results are those of the jaxpr that it holds, for
    the same operands."""
    return result_sources(params["jaxpr"])


def settled_layouts(
    jaxpr: Jaxpr,
    in_layouts: Sequence[Any] | None,
    out_layouts: Sequence[Any] | None,
    platform: str,
    partitioned: bool = False,
) -> tuple[Layouts | None, Layouts | None]:
    """The layouts to compile a jaxpr for, None for row-major; None if all are. `out_layouts` has
    None for results without a given layout. `Layout.AUTO` stays if the platform's compiler
    chooses."""
    ins = list(in_layouts or (None,) * len(jaxpr.inputs))
    outs = list(out_layouts or (None,) * len(jaxpr.outputs))
    for i, source in enumerate(result_sources(jaxpr)):
        if outs[i] is None and source is not None:
            outs[i] = ins[source] if type(source) is int else source
    if platform == "cpu" and (Layout.AUTO in ins or Layout.AUTO in outs):
        ins, outs = _replace_auto(jaxpr, ins, outs, partitioned)
    return _unless_all_row_major(ins), _unless_all_row_major(outs)


def _unless_all_row_major(layouts: Sequence[Any]) -> Layouts | None:
    found = tuple(map(unless_row_major, layouts))
    return found if any(found) else None


def _replace_auto(
    jaxpr: Jaxpr, ins: Sequence[Any], outs: Sequence[Any], partitioned: bool
) -> tuple[list[Layout], list[Layout]]:
    """The layouts with each AUTO replaced by the order the jaxpr reads or writes."""

    def orders(layouts: Sequence[Any], types: Sequence[ArrayType]) -> list[Any]:
        pairs = zip(layouts, types, strict=True)
        rows = [Layout(range(type.ndim)) if how is None else how for how, type in pairs]
        return [None if how is Layout.AUTO else how.major_to_minor for how in rows]

    given = orders(ins, jaxpr.in_types), orders(outs, jaxpr.out_types)
    found = infer_layouts(jaxpr, *given, partitioned)
    inputs, outputs = ([Layout(order) for order in side] for side in found)
    return inputs, outputs


def known_shardings(jaxpr: Jaxpr, places: Sequence[Any]) -> list[Any]:
    """The sharding of each result: that of a constraint in the jaxpr or a callee, or of the input
    that it equals. None if the compiler decides. `places` has the known shardings of the inputs, or
    None."""
    made = makers(jaxpr)
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
        # A primitive from outside may have the same name: the rule says how its jaxpr runs.
        if eqn.primitive.name == "jit" and rules.layout.get(eqn.primitive) is whole_sources:
            return known_shardings(eqn.params["jaxpr"], [of(x) for x in eqn.inputs])[i]
        return None

    return [of(atom) for atom in jaxpr.outputs]


def known_formats(jaxpr: Jaxpr, places: Sequence[Any], layouts: Sequence[Any]) -> list[Any]:
    """The sharding of each result as `known_shardings`, with its layout where that is known too:
    that of a constraint in the jaxpr, or of the input whose value it is.

    `places` and `layouts` have those of the inputs; None for what is not known.
    """
    out = known_shardings(jaxpr, places)
    for i, source in enumerate(result_sources(jaxpr)):
        layout = layouts[source] if type(source) is int else source
        if isinstance(layout, Layout) and out[i] is not None:
            out[i] = Format(layout, out[i])
    return out


def keep_layouts(jaxpr: Jaxpr, layouts: Sequence[Any], partitioned: bool = False) -> Jaxpr:
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


def _results(eqn: Equation, layouts: Sequence[Any]) -> Iterator[tuple[Var, Layout]]:
    """The known layouts of results: the operand's for an unchanged one, row-major for moved
    elements."""
    sources = rules.layout[eqn.primitive](eqn.params) if eqn.primitive in rules.layout else None
    moves = rules.moves.get(eqn.primitive)
    for i, var in enumerate(eqn.outputs):
        if sources is not None:
            if type(sources[i]) is int and layouts[sources[i]] is not None:
                yield var, layouts[sources[i]]
        elif moves is not None and moves(eqn, i) is not None and var.type.ndim > 1:
            yield var, Layout(tuple(range(var.type.ndim)))


def keep_in_program(eqn: Equation, layouts: Sequence[Any], partitioned: bool) -> list[Equation]:
    """The rule of primitives that run their `jaxpr` once on their operands."""
    jaxpr = keep_layouts(eqn.params["jaxpr"], layouts, partitioned)
    return [eqn.replace(params=eqn.params | {"jaxpr": jaxpr})]
