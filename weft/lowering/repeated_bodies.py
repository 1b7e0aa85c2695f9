"""Bodies that a module runs several times, as calls of one function that XLA compiles once.

A Python loop over the layers of a network records each layer's equations anew, and XLA's time goes
into compiling them all. Here stretches of equal equations are found in the recorded jaxpr and
become calls of one function. XLA is told not to inline these calls, nor those of a function of the
user's that is called as often.

What is called is equal by construction: two stretches share a function only where their equations
have the same primitives, parameters, literals and types, and read and write corresponding
variables. So the cast of values is the same, and only what XLA fuses may differ. Bodies without
products of matrices stay as they are: there XLA gains more by fusing across them than by compiling
them once. Equations with effects are never moved into a body, since their order is part of the
module.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core import rules
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var, jaxprs_in
from weft.core.parameter_keys import parameters_key
from weft.core.primitive import Primitive

__all__ = ["called_often", "with_called_bodies"]

# How often a body must be repeated, how many equations it must have, and how many products.
REPEATS, EQUATIONS, PRODUCTS = 3, 16, 2
# So many equations in a row must be equal for their distance to count as a period.
GRAM = 6
# Periods that are tried in a round, the most frequent ones first, and rounds.
TRIED, ROUNDS = 8, 8

body_p = Primitive("repeated_body", multiple_results=True, memoise=False)


def repeated_body_lower(context: Any, *values: Any, jaxpr: Jaxpr) -> list[Any]:
    context.module.compiled_once.add(jaxpr)
    return list(context.call_jaxpr(jaxpr, "repeated_body", values))


rules.lower[body_p] = repeated_body_lower


def products_in(jaxpr: Jaxpr) -> int:
    """How many products of matrices and convolutions stand in a jaxpr, also inside equations."""
    found: int = jaxpr.memoize("products", lambda: sum(map(products_of, jaxpr.eqns)) + 1) - 1
    return found


def products_of(eqn: Equation) -> int:
    """As `products_in`, for one equation."""
    if eqn.primitive in rules.products:
        return 1
    return sum(map(products_in, jaxprs_in(eqn.params))) if eqn.params else 0


def called_often(jaxpr: Jaxpr) -> frozenset[Jaxpr]:
    """The jaxprs that equations of a jaxpr, or of those inside it, hold at least `REPEATS` times,
    and that have products: functions of the user's that are worth compiling once."""
    uses: Counter[Jaxpr] = Counter()
    seen: set[Jaxpr] = {jaxpr}
    left = [jaxpr]
    while left:
        for eqn in left.pop().eqns:
            for inner in jaxprs_in(eqn.params) if eqn.params else ():
                uses[inner] += 1
                if inner not in seen:
                    seen.add(inner)
                    left.append(inner)
    return frozenset(
        inner
        for inner, count in uses.items()
        if count >= REPEATS and not inner.effects and products_in(inner) >= PRODUCTS
    )


def with_called_bodies(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with its repeated stretches of equations as calls; itself where it has none.

    Takes time linear in the equations.
    """
    if len(jaxpr.eqns) < REPEATS * EQUATIONS or products_in(jaxpr) < REPEATS * PRODUCTS:
        return jaxpr
    return jaxpr.memoize("called bodies", lambda: _with_called_bodies(jaxpr))


def _with_called_bodies(jaxpr: Jaxpr) -> Jaxpr:
    tokens = tokens_of(jaxpr.eqns)
    last_reads = last_reads_of(jaxpr)
    calls: dict[int, tuple[int, Equation]] = {}
    for _ in range(ROUNDS):
        run = longest_run(jaxpr.eqns, tokens)
        if run is None:
            break
        for start, stop, call in calls_of(jaxpr.eqns, run, last_reads):
            calls[start] = (stop, call)
        # What was looked at is not looked at again.
        tokens[run.start : run.stop] = [-1 - i for i in range(run.start, run.stop)]
    if not calls:
        return jaxpr
    eqns, i = [], 0
    while i < len(jaxpr.eqns):
        stop, eqn = calls.get(i, (i + 1, jaxpr.eqns[i]))
        eqns.append(eqn)
        i = stop
    return Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name, jaxpr.effects)


# ---- which stretches are equal -----------------------------------------------------------------


def tokens_of(eqns: Sequence[Equation]) -> list[int]:
    """A number for each equation, equal where all but the variables is; negative where an equation
    stands for itself alone."""
    numbers: dict[Any, int] = {}
    found = []
    for i, eqn in enumerate(eqns):
        token = -1 - i
        if not eqn.effects:
            key = (
                eqn.primitive,
                parameters_key(eqn.params) if eqn.params else (),
                *[atom_key(atom) for atom in eqn.inputs],
                None,
                *[var.type for var in eqn.outputs],
            )
            try:
                token = numbers.setdefault(key, len(numbers))
            except TypeError:  # A parameter without a hash.
                pass
        found.append(token)
    return found


def atom_key(atom: Any) -> Any:
    # Equal numbers may differ (0.0 and -0.0), so the text of the number is part of the key.
    return (repr(atom.value), atom.type) if type(atom) is Literal else atom.type


@dataclasses.dataclass(frozen=True)
class Run:
    """Equations from `start` to `stop` whose tokens repeat with a period."""

    start: int
    stop: int
    period: int

    @property
    def saved(self) -> int:
        """How many equations need not be compiled."""
        return (self.stop - self.start) // self.period * self.period - self.period


def longest_run(eqns: Sequence[Equation], tokens: Sequence[int]) -> Run | None:
    """The run that saves most equations; None where none is worth a function."""
    found = [run for period in periods_of(tokens) for run in runs_of(tokens, period)]
    for run in sorted(found, key=lambda run: (-run.saved, run.period)):
        if sum(map(products_of, eqns[run.start : run.start + run.period])) >= PRODUCTS:
            return run
    return None


def periods_of(tokens: Sequence[int]) -> list[int]:
    """The distances at which the same tokens come again, the most frequent first."""
    last: dict[tuple[int, ...], int] = {}
    distances: Counter[int] = Counter()
    for i in range(len(tokens) - GRAM + 1):
        gram = tuple(tokens[i : i + GRAM])
        before = last.get(gram)
        last[gram] = i
        if before is not None and i - before >= EQUATIONS:
            distances[i - before] += 1
    return [distance for distance, _ in distances.most_common(TRIED)]


def runs_of(tokens: Sequence[int], period: int) -> Iterator[Run]:
    """The longest runs of a period with at least `REPEATS` bodies."""
    start = None
    for i in range(len(tokens) - period + 1):
        equal = i + period < len(tokens) and tokens[i] == tokens[i + period]
        if equal and start is None:
            start = i
        if not equal and start is not None:
            run = Run(start, i + period, period)
            if run.stop - run.start >= REPEATS * period:
                yield run
            start = None


# ---- stretches as calls ------------------------------------------------------------------------


def last_reads_of(jaxpr: Jaxpr) -> dict[Var, int]:
    """The number of the last equation that reads each variable; results are read at the end."""
    found: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for atom in eqn.inputs:
            if type(atom) is Var:
                found[atom] = i
    for atom in jaxpr.outputs:
        if type(atom) is Var:
            found[atom] = len(jaxpr.eqns)
    return found


def calls_of(
    eqns: Sequence[Equation], run: Run, last_reads: dict[Var, int]
) -> Iterator[tuple[int, int, Equation]]:
    """(start, stop, call) for the bodies of a run that equal enough others."""
    first = run.start + best_phase(eqns, run, last_reads)
    groups: dict[Any, list[tuple[int, list[Var], list[Var]]]] = defaultdict(list)
    for start in range(first, run.stop - run.period + 1, run.period):
        form, reads, writes = form_of(eqns[start : start + run.period])
        groups[form].append((start, reads, writes))
    for bodies in groups.values():
        if len(bodies) < REPEATS:
            continue
        # A result that any of the bodies has to give is one of the function.
        given = [
            k
            for k in range(len(bodies[0][2]))
            if any(last_reads.get(w[k], -1) >= start + run.period for start, _, w in bodies)
        ]
        start, reads, writes = bodies[0]
        inside = list(eqns[start : start + run.period])
        body = Jaxpr(reads, inside, [writes[k] for k in given], name="repeated_body")
        for start, reads, writes in bodies:
            outputs = [writes[k] for k in given]
            call = Equation(body_p, reads, {"jaxpr": body}, outputs, eqns[start].source)
            yield start, start + run.period, call


def best_phase(eqns: Sequence[Equation], run: Run, last_reads: dict[Var, int]) -> int:
    """Where to cut a run into bodies: where fewest values of one body are read by the next one.

    Only cuts that lose no body are looked at. Values that live longer than a body are read wherever
    the cut is.
    """
    period = run.period
    crossing = [0] * (2 * period + 1)
    for i in range(run.start, run.start + 2 * period):
        for var in eqns[i].outputs:
            last = last_reads.get(var, -1)
            if i < last <= i + period:
                crossing[i - run.start] += 1
                crossing[min(last - run.start, 2 * period)] -= 1
    alive, level = [], 0
    for change in crossing[: 2 * period]:
        level += change
        alive.append(level)
    slack = (run.stop - run.start) % period
    # `alive[k]` counts what is alive behind equation k; a cut stands before equation k + 1.
    return min(range(slack + 1), key=lambda phase: alive[phase + period - 1])


def form_of(eqns: Sequence[Equation]) -> tuple[Any, list[Var], list[Var]]:
    """(form, variables that are read, variables that are written) of a body: bodies of equal tokens
    and forms compute the same of corresponding variables."""
    reads: dict[Var, int] = {}
    writes: dict[Var, int] = {}
    form = []
    for eqn in eqns:
        for atom in eqn.inputs:
            if type(atom) is not Var:
                continue
            if atom in writes:
                form.append(writes[atom])
            else:
                form.append(-1 - reads.setdefault(atom, len(reads)))
        for var in eqn.outputs:
            writes[var] = len(writes)
    return tuple(form), list(reads), list(writes)
