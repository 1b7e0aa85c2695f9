"""Partial evaluation and dead-code elimination: jaxprs that compute a part of what they did.

The known part computes what depends on known inputs only, and the residuals that the other part
reads. A primitive that holds jaxprs splits them by its own rule.

Dead-code elimination drops equations whose results are not read, in inner jaxprs too;
`drop_debug_effects` drops those that only print, for a jaxpr that computes something again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from weft.base.util import Flags, keep_marked, partition
from weft.core import rules
from weft.core.check import checked
from weft.core.effects import DEBUG, ORDERED_DEBUG, any_ordered
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Var, check_marks, map_jaxprs
from weft.core.types import ArrayType

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
            inputs = keep_marked(used_inputs, eqn.inputs)
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
        outputs = keep_marked(used, jaxpr.outputs)
        eqns, read = dce_equations(jaxpr.eqns, outputs)
        reads = tuple(var in read for var in jaxpr.inputs)
        kept = tuple(keep_inputs or use for use in reads)
        inputs = keep_marked(kept, jaxpr.inputs)
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


@dataclasses.dataclass(frozen=True)
class PartiallyEvaluated:
    """A jaxpr split in two. `known` takes the known inputs and computes the known results, then the
    residuals; `unknown` takes the residuals, then the unknown inputs, and computes the results
    marked in `unknown_out`."""

    known: Jaxpr
    unknown: Jaxpr
    unknown_out: tuple[bool, ...]
    residual_types: list[ArrayType]


def partial_eval_jaxpr(
    jaxpr: Jaxpr, unknown: tuple[bool, ...], force_unknown: tuple[bool, ...] | None = None
) -> PartiallyEvaluated:
    """Splits a jaxpr by which inputs are unknown.

    Results marked in `force_unknown` belong to the unknown part even where they are known. Raises
    WeftTypeError if the marks do not fit the inputs.

    Args:
        unknown: Which inputs are unknown.
        force_unknown: Which results are left for later even where they are known; None for none.
    """
    check_marks("partial_eval_jaxpr", "input", unknown, len(jaxpr.inputs))
    return jaxpr.memoize(
        ("partial_eval", unknown, force_unknown),
        lambda: _partial_eval(jaxpr, unknown, force_unknown or (False,) * len(jaxpr.outputs)),
    )


def _partial_eval(jaxpr: Jaxpr, unknown: Flags, force_unknown: Flags) -> PartiallyEvaluated:
    unknown_inputs, known_inputs = partition(unknown, jaxpr.inputs)
    pending = set(unknown_inputs)
    known_eqns: list[Equation] = []
    unknown_eqns: list[Equation] = []
    # Whether an ordered effect is in the unknown part: then those after it have to be, too.
    put_off = False
    for eqn in jaxpr.eqns:
        flags = [type(x) is Var and x in pending for x in eqn.inputs]
        if put_off and any_ordered(eqn.effects):
            unknown_eqns.append(eqn)
            pending.update(eqn.outputs)
        elif not any(flags):
            known_eqns.append(eqn)
        elif eqn.primitive in rules.partial_eval:
            split = without_reordering(eqn, rules.partial_eval[eqn.primitive](eqn, flags))
            rest = split.unknown
            put_off = put_off or (rest is not None and any_ordered(rest.effects))
            known_eqns.extend(split.before)
            if split.known is not None:
                known_eqns.append(split.known)
            if rest is not None:
                unknown_eqns.append(rest)
            pending.update(keep_marked(split.unknown_out, eqn.outputs))
        else:
            unknown_eqns.append(eqn)
            pending.update(eqn.outputs)
            put_off = put_off or any_ordered(eqn.effects)
    pairs = zip(jaxpr.outputs, force_unknown, strict=True)
    unknown_out = tuple(force or (type(x) is Var and x in pending) for x, force in pairs)
    later_outputs, known_outputs = partition(unknown_out, jaxpr.outputs)
    unknown_eqns, read = dce_equations(unknown_eqns, later_outputs)
    computed = {v for eqn in unknown_eqns for v in eqn.outputs}
    available = [*known_inputs, *(v for eqn in known_eqns for v in eqn.outputs)]
    residuals = [v for v in available if v in read and v not in computed]
    known_eqns, _ = dce_equations(known_eqns, [*known_outputs, *residuals])
    known = Jaxpr(known_inputs, known_eqns, [*known_outputs, *residuals], 0, jaxpr.name)
    later = Jaxpr([*residuals, *unknown_inputs], unknown_eqns, later_outputs, 0, jaxpr.name)
    types = [v.type for v in residuals]
    return PartiallyEvaluated(checked(known), checked(later), unknown_out, types)


def without_reordering(eqn: Equation, split: SplitEquation) -> SplitEquation:
    """A split, or all unknown if both parts have ordered effects: loops alternate them."""
    parts = (split.known, split.unknown)
    if all(part is not None and any_ordered(part.effects) for part in parts):
        return all_unknown(eqn)
    return split


def all_unknown(eqn: Equation) -> SplitEquation:
    """The split of an equation that is unknown as a whole."""
    return SplitEquation(None, eqn, (True,) * len(eqn.outputs), [])
