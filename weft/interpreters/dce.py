"""Dead-code elimination: drops equations whose results are not read, in inner jaxprs too.

`drop_debug_effects` drops those that only print, for a jaxpr that computes something a second time.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.base.marked_lists import marked
from weft.core import rules
from weft.core.check import checked
from weft.core.effects import DEBUG, ORDERED_DEBUG
from weft.core.jaxpr import Equation, Jaxpr, Var, check_marks, map_jaxprs

_WATCHING = frozenset({DEBUG, ORDERED_DEBUG})


def dce_equations(
    eqns: Sequence[Equation], outputs: Sequence[object]
) -> tuple[list[Equation], set[Var]]:
    """The equations that `outputs` need, and every variable that is read.

    Args:
        eqns: Equations, each behind those whose results it reads.
        outputs: The variables that are needed.
    """
    read: set[Var] = {atom for atom in outputs if type(atom) is Var}
    kept: list[Equation] = []
    dce_rules = rules.dce
    for eqn in reversed(eqns):
        used = [var in read for var in eqn.outputs]
        if not any(used) and not eqn.effects:
            continue
        if eqn.primitive in dce_rules:
            used_inputs, smaller = dce_rules[eqn.primitive](eqn, used)
            if smaller is None:
                continue
            kept.append(smaller)
            inputs = marked(used_inputs, eqn.inputs)
        else:
            kept.append(eqn)
            inputs = list(eqn.inputs)
        read.update(x for x in inputs if type(x) is Var)
    return kept[::-1], read


def dce_jaxpr(
    jaxpr: Jaxpr, used: tuple[bool, ...], keep_inputs: bool = False
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The jaxpr that computes the results marked `used`, and which inputs it still reads.

    Inputs that are not read are dropped unless `keep_inputs`.

    Args:
        used: Which results are computed.
        keep_inputs: Whether inputs that are not read stay.

    >>> from weft.extend.interpreters import partial_eval
    >>> jaxpr = weft.make_jaxpr(lambda x, y: (lax.sin(x), lax.cos(y)))(1.0, 2.0).jaxpr
    >>> smaller, read = partial_eval.dce_jaxpr(jaxpr, (True, False))
    >>> read, len(smaller.eqns)
    ((True, False), 1)
    """

    def make() -> tuple[Jaxpr, tuple[bool, ...]]:
        check_marks("dce_jaxpr", "result", used, len(jaxpr.outputs))
        outputs = marked(used, jaxpr.outputs)
        eqns, read = dce_equations(jaxpr.eqns, outputs)
        reads = tuple(var in read for var in jaxpr.inputs)
        kept = tuple(keep_inputs or use for use in reads)
        inputs = marked(kept, jaxpr.inputs)
        consts = sum(kept[: jaxpr.num_consts])
        return checked(Jaxpr(inputs, eqns, outputs, consts, jaxpr.name)), reads

    return jaxpr.memoize(("dce", used, keep_inputs), make)


def drop_debug_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without the equations that only print, in inner jaxprs as well.

    For a derivative that runs a part of the jaxpr again: the user's program prints once.
    """
    if not jaxpr.effects & _WATCHING:
        return jaxpr

    def make() -> Jaxpr:
        found = [without_debug_effects(eqn) for eqn in jaxpr.eqns]
        eqns = [eqn for eqn in found if eqn is not None]
        return checked(Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name))

    return jaxpr.memoize("drop_debug_effects", make)


def without_debug_effects(eqn: Equation) -> Equation | None:
    """The equation without the parts that only print, or None if nothing is left."""
    if not eqn.effects & _WATCHING:
        return eqn
    if not eqn.outputs and eqn.effects <= _WATCHING:
        return None
    return eqn.replace(params=map_jaxprs(drop_debug_effects, eqn.params))
