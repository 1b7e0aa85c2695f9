"""Which inputs of a jaxpr enter float64 after they were taken in 32 bits, for the warning about it.

A jaxpr is closed, so that this can be read off it: from each conversion of 32-bit floats to 64 bits
back along the equations to the inputs, and to numbers that the program holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.arrays.conversion import HALVED, WIDE, lost_digits, mark_rounded, warn_once
from weft.base import source as sources
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var, eval_jaxpr, jaxprs_in
from weft.core.trace import bottom_trace, current_trace
from weft.ops.elementwise.convert import convert_element_type_p

# A value that the program computes from its numbers is looked at if it is no larger.
_SMALL = 1 << 16


class RoundedInputs(NamedTuple):
    """The values that a jaxpr converts from 32 bits to float64, each with its line: inputs by
    number, and values computed from the program's own numbers."""

    inputs: dict[int, sources.Source | None]
    numbers: list[tuple[Jaxpr, sources.Source | None]]


_NONE = RoundedInputs({}, [])


def rounded_inputs(jaxpr: Jaxpr) -> RoundedInputs:
    """Finds the values that a jaxpr converts from 32 bits to float64; cached on the jaxpr."""
    return jaxpr.memoize("rounded inputs", lambda: _rounded_inputs(jaxpr))


def warn_of_rounded_inputs(
    what: str, jaxpr: Jaxpr, values: Sequence[Any], with_line: bool = True
) -> None:
    """Warns of the last inputs of a jaxpr if their `values`, as the user passed them, lose digits.
    `with_line`: whether the line where they enter float64 is the user's."""
    found = rounded_inputs(jaxpr).inputs
    first = len(jaxpr.inputs) - len(values)
    for i, source in found.items():
        lost = lost_digits(values[i - first]) if i >= first else None
        if lost is not None:
            where = f" at {sources.describe(source)}" if with_line else ""
            text = (
                f"{what}: an argument has been rounded to 32 bits, to {lost!s}, since nothing "
                f"asked for more, and enters float64{where}\n"
                "  Fix: pass jnp.asarray(x, 'float64'), or set enable_x64; of a function of "
                "numbers, as jnp.sqrt(2.0), pass it jnp.float64(2.0); if 32 bits are meant, pass "
                "jnp.asarray(x, 'float32')"
            )
            warn_once(text, sources.current())


def warn_of_numbers(what: str, jaxpr: Jaxpr) -> None:
    """Warns of values that the jaxpr computes in 32 bits from Python numbers, and uses in 64.

    No transformation may be active: these values are computed.
    """
    for numbers, source in rounded_inputs(jaxpr).numbers:
        (value,) = eval_jaxpr(numbers, ())
        lost = lost_digits(mark_rounded(value))
        if lost is not None:
            text = (
                f"{what}: a function of Python numbers is computed in 32 bits, {lost!s}, since "
                "nothing asks for more, and enters float64\n"
                "  Fix: give it jnp.float64(2.0), or set enable_x64; if 32 bits are meant, "
                "jnp.float32(2.0)"
            )
            warn_once(text, source)


def warn_of_rounding(what: str, jaxpr: Jaxpr, values: Sequence[Any]) -> None:
    """Warns of inputs and of numbers of a body that is about to run; `values` are its constants
    and operands."""
    warn_of_rounded_inputs(what, jaxpr, values)
    if current_trace() is bottom_trace():
        warn_of_numbers(what, jaxpr)


def _rounded_inputs(jaxpr: Jaxpr) -> RoundedInputs:
    # A function may count in float64 for itself, as `random.poisson` does, and return integers.
    if not any(type.dtype in WIDE for type in jaxpr.out_types):
        return _NONE
    widened = [(eqn, atom) for eqn in jaxpr.eqns for atom in _widened_operands(eqn)]
    if not widened:
        return _NONE
    out = RoundedInputs({}, [])
    makers = {var: number for number, eqn in enumerate(jaxpr.eqns) for var in eqn.outputs}
    places = {var: i for i, var in enumerate(jaxpr.inputs)}
    for eqn, atom in widened:
        variables = _before(atom, makers, jaxpr.eqns)
        for i in sorted(places[var] for var in variables if var in places):
            if jaxpr.inputs[i].type.dtype in HALVED:
                out.inputs.setdefault(i, eqn.source)
        if variables.isdisjoint(places):
            eqns = [jaxpr.eqns[i] for i in sorted({makers[var] for var in variables})]
            if all(map(_computes_numbers, eqns)):
                out.numbers.append((Jaxpr([], eqns, [atom]), eqn.source))
    return out


def _widened_operands(eqn: Equation) -> Iterator[Var]:
    """The operands that an equation, or a jaxpr in it, converts from 32 to 64 bits."""
    converts = eqn.primitive is convert_element_type_p and eqn.params["new_dtype"] in WIDE
    if converts or (not eqn.primitive.memoise and any(map(_widens, jaxprs_in(eqn.params)))):
        for atom in eqn.inputs:
            if type(atom) is Var and atom.type.dtype in HALVED:
                yield atom


def _widens(jaxpr: Jaxpr) -> bool:
    return jaxpr.memoize(
        "widens", lambda: (any(True for e in jaxpr.eqns for _ in _widened_operands(e)),)
    )[0]


def _before(atom: Var, makers: dict[Var, int], eqns: Sequence[Equation]) -> set[Var]:
    """The variables from which a value is computed."""
    seen, left = {atom}, [atom]
    while left:
        number = makers.get(left.pop())
        for x in () if number is None else eqns[number].inputs:
            if type(x) is Var and x not in seen:
                seen.add(x)
                left.append(x)
    return seen


def _computes_numbers(eqn: Equation) -> bool:
    """Whether an equation computes a few values, from Python numbers if its operands are known: a
    NumPy scalar has its dtype on purpose."""
    numbers = [atom.value for atom in eqn.inputs if type(atom) is Literal]
    plain = not any(isinstance(number, np.inexact) for number in numbers)
    small = all(var.type.size <= _SMALL for var in eqn.outputs)
    return plain and small and not eqn.effects and not jaxprs_in(eqn.params)
