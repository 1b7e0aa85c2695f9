"""Solves a program for its inputs: the results are given, and equation by equation more is known.

A variable is known, unknown, or known in part: that is how it is found out that a coupling layer
passes a part of its input through. Equations whose inputs are known are evaluated; one whose
results are known is inverted by the rule of its primitive if it has one unknown input. Each unknown
is computed once, from as many numbers, so the derivative of the inverse is triangular up to the
order of the elements, and its log-determinant is the sum of what the rules report.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft.errors import Fix, WeftError
from weft.extend.core import ArrayType, Equation, Jaxpr, Literal, Primitive, Var, eval_jaxpr

__all__ = ["NotInvertibleError", "Unknown", "eliminate", "inlined", "moves", "rules", "several"]


class NotInvertibleError(WeftError, ValueError):
    """A function has no inverse that can be found; names the operation and the line of it."""


@dataclasses.dataclass(frozen=True)
class Unknown:
    """Stands in a rule for the operand that is to be computed."""

    type: ArrayType


# Primitive -> rule(results, operands, **params) -> (unknown operands, log-derivatives)
rules: dict[Primitive, Callable[..., Any]] = {}
# Primitive -> function of the positions of the operands' elements to those of the results.
moves: dict[Primitive, Callable[..., list[np.ndarray]]] = {}
# Primitives whose rules compute several unknown operands at once.
several: set[Primitive] = set()
# Primitives that only apply the program in their parameter `jaxpr`.
inlined: set[Primitive] = set()


class Knowledge:
    """What is known of the variables of a program: values, some of them with a mask."""

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}
        # The flat values and which of them are known, for variables that are known in part.
        self.parts: dict[Var, tuple[Any, np.ndarray]] = {}

    def value(self, atom: Any) -> Any:
        """The value of an atom, or None."""
        return atom.value if isinstance(atom, Literal) else self.values.get(atom)

    def elements(self, atom: Any) -> tuple[Any, np.ndarray]:
        """The flat values of an atom, and which elements are known."""
        value = self.value(atom)
        if value is not None:
            return jnp.ravel(jnp.asarray(value)), np.ones(atom.type.size, bool)
        return self.parts.get(atom, (None, np.zeros(atom.type.size, bool)))

    def learn(self, atom: Any, places: np.ndarray, values: Any) -> bool:
        """Takes note of elements; answers whether any of them was unknown."""
        if self.value(atom) is not None:
            return False
        flat, mask = self.elements(atom)
        _, first = np.unique(places, return_index=True)
        first = first[~mask[places[first]]]
        if not first.size:
            return False
        mask = mask.copy()
        mask[places[first]] = True
        if flat is None:
            flat = jnp.zeros(atom.type.size, atom.type.dtype)
        flat = flat.at[places[first]].set(values[first], unique_indices=True)
        if mask.all():
            self.values[atom] = flat.reshape(atom.type.shape)
            self.parts.pop(atom, None)
        else:
            self.parts[atom] = (flat, mask)
        return True


def eliminate(jaxpr: Jaxpr, inputs: Sequence[Any], outs: Sequence[Any]) -> tuple[list[Any], Any]:
    """All inputs of a program, and the log-determinant of the map from its results to the unknown
    ones.

    inputs, outs: values, None where not known. Raises NotInvertibleError where an input cannot be
    computed, naming the equation at which the way back ends.
    """
    known = Knowledge()
    log_det: list[Any] = []
    pairs = [*zip(jaxpr.inputs, inputs, strict=True), *zip(jaxpr.outputs, outs, strict=True)]
    known.values.update(
        {atom: value for atom, value in pairs if isinstance(atom, Var) and value is not None}
    )
    eqns = list(jaxpr.eqns)
    while any(known.value(var) is None for var in jaxpr.inputs):
        before = len(known.values)
        eqns, moved = one_pass(eqns, known, log_det)
        if moved or len(known.values) > before:
            continue
        at = next((i for i in reversed(range(len(eqns))) if eqns[i].primitive in inlined), None)
        if at is None:
            raise stuck(jaxpr, eqns, known)
        eqns[at : at + 1] = expanded(eqns[at])
    total = sum(log_det[1:], log_det[0]) if log_det else jnp.zeros(())
    return [known.value(var) for var in jaxpr.inputs], total


def one_pass(
    eqns: list[Equation], known: Knowledge, log_det: list[Any]
) -> tuple[list[Equation], bool]:
    """Goes over the equations forward, then backward. The ones that are left, and whether anything
    was learned."""
    moved = False
    for order in (list, lambda items: items[::-1]):
        left = []
        for eqn in order(eqns):
            forward = order is list
            done = evaluate(eqn, known) if forward else solve(eqn, known, log_det)
            moved = move(eqn, known) or done or moved
            if not done:
                left.append(eqn)
        eqns = order(left)
    return eqns, moved


def evaluate(eqn: Equation, known: Knowledge) -> bool:
    """Computes the results of an equation whose inputs are known."""
    if any(known.value(atom) is None for atom in eqn.inputs):
        return False
    inputs = [atom for atom in dict.fromkeys(eqn.inputs) if isinstance(atom, Var)]
    program = Jaxpr(inputs, [eqn], eqn.outputs)
    outs = eval_jaxpr(program, (), *[known.values[var] for var in inputs])
    for var, out in zip(eqn.outputs, outs, strict=True):
        known.values.setdefault(var, out)
    return True


def solve(eqn: Equation, known: Knowledge, log_det: list[Any]) -> bool:
    """Computes the unknown inputs of an equation whose results are known, by the rule."""
    rule = rules.get(eqn.primitive)
    outs = [known.value(var) for var in eqn.outputs]
    many = eqn.primitive in several
    if rule is None or all(out is None for out in outs):
        return False
    if not many and any(out is None for out in outs):
        return False
    places = [i for i, atom in enumerate(eqn.inputs) if known.value(atom) is None]
    unknown = [eqn.inputs[i] for i in places]
    # A part that is known already would be computed twice; another equation gives the rest.
    if not places or len(set(unknown)) < len(unknown) or any(v in known.parts for v in unknown):
        return False
    if len(places) > 1 and not many:
        return False
    operands = [
        Unknown(atom.type) if i in places else known.value(atom)
        for i, atom in enumerate(eqn.inputs)
    ]
    try:
        answer = rule(outs, operands, **eqn.params)
    except NotInvertibleError as error:
        if error.operation is None:
            raise refused(eqn, str(error.args[0])) from None
        raise
    if answer is None:
        return False
    values, derivatives = answer
    known.values.update(zip(unknown, values, strict=True))
    if derivatives is not None:
        log_det.append(jnp.sum(derivatives))
    # Results that are not known yet are computed forward, in the next pass.
    return all(out is not None for out in outs)


def move(eqn: Equation, known: Knowledge) -> bool:
    """Passes elements on through an equation that only moves them, in both directions."""
    positions = moves.get(eqn.primitive)
    if positions is None:
        return False
    ends = np.cumsum([0, *(atom.type.size for atom in eqn.inputs)])
    numbers = [
        np.arange(start, start + atom.type.size).reshape(atom.type.shape)
        for start, atom in zip(ends[:-1], eqn.inputs, strict=True)
    ]
    moved = False
    for var, found in zip(eqn.outputs, positions(*numbers, **eqn.params), strict=True):
        origin = np.ravel(found)
        for atom, start, end in zip(eqn.inputs, ends[:-1], ends[1:], strict=True):
            here = np.flatnonzero((origin >= start) & (origin < end))
            there = origin[here] - start
            values, mask = known.elements(var)
            back = mask[here]
            if back.any():
                moved = known.learn(atom, there[back], values[here[back]]) or moved
            values, mask = known.elements(atom)
            forth = mask[there]
            if forth.any():
                moved = known.learn(var, here[forth], values[there[forth]]) or moved
    return moved


def expanded(eqn: Equation) -> list[Equation]:
    """The equations of the program that an equation applies, in names of their own."""
    jaxpr = eqn.params["jaxpr"]
    names: dict[Any, Any] = dict(zip(jaxpr.inputs, eqn.inputs, strict=True))
    # A result that is an input, or the same as another result, is a copy and not a new name.
    copies = []
    for var, atom in zip(eqn.outputs, jaxpr.outputs, strict=True):
        if isinstance(atom, Var) and atom not in names:
            names[atom] = var
        else:
            copies.append((atom, var))
    found = []
    for inner in jaxpr.eqns:
        for var in inner.outputs:
            names.setdefault(var, Var(var.type))
        found.append(
            inner.replace(
                inputs=[names.get(x, x) if isinstance(x, Var) else x for x in inner.inputs],
                outputs=[names[var] for var in inner.outputs],
            )
        )
    for atom, var in copies:
        source = names.get(atom, atom) if isinstance(atom, Var) else atom
        found.append(copy_equation(source, var))
    return found


def copy_equation(source: Any, var: Var) -> Equation:
    """An equation that gives a value another name: a reshape to the shape that it has."""
    reshape = next(p for p in moves if p.name == "reshape")
    return Equation(reshape, [source], {"shape": var.type.shape}, [var])


# ---- errors --------------------------------------------------------------------------------------


def refused(eqn: Equation, reason: str) -> NotInvertibleError:
    """The error for an operation that has no inverse: names it, its operands and the line."""
    name = eqn.primitive.name
    return NotInvertibleError(
        f"{name} cannot be inverted here: {reason}",
        operation=name,
        got=", ".join(str(atom.type) for atom in eqn.inputs),
        wanted="operations each of which determines its one unknown operand",
        fix=Fix(
            "register_inverse",
            f"if it has an inverse, give the rule: inversion.register_inverse({name}_p, rule)",
            {"primitive": name},
        ),
        where=eqn.source,
    )


def stuck(jaxpr: Jaxpr, eqns: Sequence[Equation], known: Knowledge) -> NotInvertibleError:
    """The error for a program at which nothing more can be computed."""
    for eqn in reversed(eqns):
        if any(known.value(var) is None and var not in known.parts for var in eqn.outputs):
            continue
        unknown = [atom for atom in eqn.inputs if known.value(atom) is None]
        if not unknown:
            continue
        if eqn.primitive not in rules and eqn.primitive not in moves:
            return refused(eqn, "it has no rule")
        if len(unknown) > 1:
            return refused(eqn, f"{len(unknown)} of its operands depend on the input")
    missing = [i for i, var in enumerate(jaxpr.inputs) if known.value(var) is None]
    return NotInvertibleError(
        "the results do not determine the input",
        operation="inverse",
        got=f"{len(missing)} of {len(jaxpr.inputs)} inputs that cannot be computed",
        wanted="a function whose results determine all of its input",
        fix=Fix("return_all", "return what the function leaves out", {"inputs": missing}),
    )
