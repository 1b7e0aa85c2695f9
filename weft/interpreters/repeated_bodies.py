"""Bodies that a program runs several times, as calls of one function that XLA compiles once.

A Python loop over the layers of a network records each layer's equations anew, and XLA's time goes
into compiling them all. Here stretches of equal equations are found in the recorded jaxpr and
become calls of one function, which is not inlined. Where the bodies of the backward pass read what
those of the forward pass computed, the least bytes of it are kept, and cheap functions of it are
computed again, as for a jitted function (`residuals.py`).

Safety: two stretches share a function only where their equations have the same primitives,
parameters, literals and types, and read and write corresponding variables; so they are the same
function of corresponding values. Equations with effects stand for themselves alone. Only what XLA
fuses may differ.

A jaxpr of many thousand equations that do not repeat is cut into calls as well: XLA's passes
recurse over chains of operations, and a chain of some 20,000 overflows the stack of its threads,
which ends the process.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from weft.base.exact_keys import exact_key, parameters_key
from weft.core import rules
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var, jaxprs_in, map_jaxprs
from weft.core.primitive import Primitive
from weft.interpreters.linearize import Linearized
from weft.interpreters.residuals import choose_residuals
from weft.lowering import called_bodies
from weft.lowering.called_bodies import REPEATS, is_worth_calling, size_of_equation, total

# How many equations in a row must be equal for their distance to count as a period.
GRAM = 6
# Periods that are tried in a round, the most frequent ones first, and rounds.
TRIED, ROUNDS = 8, 8

# A longer stretch of equations is cut into pieces of `PIECE`. XLA 0.10 ends the process at some
# 20,000 sines, which are a few operations each.
LONGEST, PIECE = 8_000, 2_000
# A piece that reads and returns more values is none: XLA's time is quadratic in the operands of a
# call. Chains whose values are read elsewhere, as by a derivative, are not fused as a whole anyway.
CROSSING = 100

body_p = Primitive("repeated_body", multiple_results=True, memoise=False)


def repeated_body_type(*types: Any, jaxpr: Jaxpr) -> list[Any]:
    return jaxpr.out_types


def repeated_body_lower(context: Any, *values: Any, jaxpr: Jaxpr) -> list[Any]:
    if context.module.compiled_once is not None:
        context.module.compiled_once.add(jaxpr)
    return list(context.call_jaxpr(jaxpr, "repeated_body", values))


rules.type_rule[body_p] = repeated_body_type
rules.lower[body_p] = repeated_body_lower


def with_called_bodies(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, and those inside it, with calls of repeated stretches of equations; itself if
    there are none. Takes linear time."""
    return jaxpr.memoize("called bodies", lambda: _with_called_bodies(jaxpr))


def _with_called_bodies(jaxpr: Jaxpr) -> Jaxpr:
    size, least = total(map(size_of_equation, jaxpr.eqns)), called_bodies.LEAST
    repeats = size.products >= REPEATS * least.products
    if size.equations < (REPEATS * least.equations if repeats else LONGEST):
        return jaxpr
    jaxpr = _inside(jaxpr)
    return _in_pieces(_repeated_as_calls(jaxpr) if repeats else jaxpr)


def _in_pieces(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with calls of its stretches if it is too long for XLA; else itself."""
    count = len(jaxpr.eqns)
    if count <= LONGEST:
        return jaxpr
    groups: list[Group] = []
    for start in range(0, count, PIECE):
        stop = min(start + PIECE, count)
        eqns = jaxpr.eqns[start:stop]
        sizes = total(map(size_of_equation, eqns))
        if not sizes.never_called and not any(eqn.effects for eqn in eqns):
            _, reads, writes = form_of(eqns)
            groups.append([RepeatedBody(start, stop, reads, writes)])
    pieces = BodyCalls(jaxpr, groups, pairs=False)
    pieces.groups = [
        group for group in groups if len(group[0].reads) + len(pieces.given(group)) <= CROSSING
    ]
    return _with_calls(jaxpr, pieces) if pieces.groups else jaxpr


def _repeated_as_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with calls of equal stretches; itself if there are none."""
    tokens = tokens_of(jaxpr.eqns)
    last_reads = last_reads_of(jaxpr)
    groups: list[Group] = []
    for _ in range(ROUNDS):
        run = longest_run(jaxpr.eqns, tokens)
        if run is None:
            break
        groups += groups_of(jaxpr.eqns, run, last_reads)
        # What was looked at is not looked at again.
        tokens[run.start : run.stop] = [-1 - i for i in range(run.start, run.stop)]
    if not groups:
        return jaxpr
    return _with_calls(jaxpr, BodyCalls(jaxpr, groups))


def _with_calls(jaxpr: Jaxpr, bodies: BodyCalls) -> Jaxpr:
    """The jaxpr with the calls of some bodies."""
    calls = bodies.by_start()
    eqns, i = [], 0
    while i < len(jaxpr.eqns):
        stop, eqn = calls.get(i, (i + 1, jaxpr.eqns[i]))
        eqns.append(eqn)
        i = stop
    found = Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name, jaxpr.effects)
    return checked(found)


def _inside(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with repeated bodies as calls in the jaxprs that its equations hold."""
    eqns = []
    for eqn in jaxpr.eqns:
        inner = jaxprs_in(eqn.params) if eqn.params else ()
        if any(with_called_bodies(one) is not one for one in inner):
            eqn = eqn.replace(params=map_jaxprs(with_called_bodies, eqn.params))
        eqns.append(eqn)
    if all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return Jaxpr(jaxpr.inputs, eqns, jaxpr.outputs, jaxpr.num_consts, jaxpr.name, jaxpr.effects)


# ---- which stretches are equal -----------------------------------------------------------------


def tokens_of(eqns: Sequence[Equation]) -> list[int]:
    """A number per equation, equal for equal ones but for variables; negative: not shared."""
    numbers: dict[Any, int] = {}
    out = []
    for i, eqn in enumerate(eqns):
        token = -1 - i
        if not eqn.effects:
            key = (
                eqn.primitive,
                parameters_key(eqn.params) if eqn.params else (),
                metadata_of(eqn),
                *[
                    (exact_key(x.value), x.type) if type(x) is Literal else x.type
                    for x in eqn.inputs
                ],
                None,
                *[var.type for var in eqn.outputs],
            )
            try:
                token = numbers.setdefault(key, len(numbers))
            except TypeError:  # A parameter without a hash.
                pass
        out.append(token)
    return out


def metadata_of(eqn: Equation) -> Any:
    """The operation's metadata for XLA's passes (`set_xla_metadata`); a shared function has that of
    one of its bodies."""
    source = eqn.source
    return source[2].metadata if source is not None and len(source) == 3 else ()


@dataclasses.dataclass(frozen=True)
class Run:
    """Equations from `start` to `stop` whose tokens repeat with a period."""

    start: int
    stop: int
    period: int

    @property
    def saved(self) -> int:
        """The number of equations that need not be compiled."""
        return (self.stop - self.start) // self.period * self.period - self.period


def longest_run(eqns: Sequence[Equation], tokens: Sequence[int]) -> Run | None:
    """The run that saves most equations, or None if none is worth a function."""
    found = [run for period in periods_of(tokens) for run in runs_of(tokens, period)]
    for run in sorted(found, key=lambda run: (-run.saved, run.period)):
        body = eqns[run.start : run.start + run.period]
        if is_worth_calling(total(map(size_of_equation, body))):
            return run
    return None


def periods_of(tokens: Sequence[int]) -> list[int]:
    """The distances at which the same tokens repeat, the most frequent first."""
    # Equations may hold jaxprs, so a body may have fewer equations of its own.
    least = called_bodies.LEAST.equations // 4
    last: dict[tuple[int, ...], int] = {}
    distances: Counter[int] = Counter()
    for i in range(len(tokens) - GRAM + 1):
        gram = tuple(tokens[i : i + GRAM])
        before = last.get(gram)
        last[gram] = i
        if before is not None and i - before >= least:
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


@dataclasses.dataclass(frozen=True)
class RepeatedBody:
    """Equations from `start` to `stop`, the outside variables that they read, and those that they
    write, in the order of first use."""

    start: int
    stop: int
    reads: list[Var]
    writes: list[Var]


Group = list[RepeatedBody]
"""Bodies that are the same function of what they read."""


def last_reads_of(jaxpr: Jaxpr) -> dict[Var, int]:
    """The number of the last equation that reads each variable; results are read at the end."""
    out: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for atom in eqn.inputs:
            if type(atom) is Var:
                out[atom] = i
    for atom in jaxpr.outputs:
        if type(atom) is Var:
            out[atom] = len(jaxpr.eqns)
    return out


def groups_of(eqns: Sequence[Equation], run: Run, last_reads: dict[Var, int]) -> list[Group]:
    """The groups of equal bodies in a run that are large enough."""
    first = run.start + best_phase(eqns, run, last_reads)
    groups: dict[Any, Group] = defaultdict(list)
    for start in range(first, run.stop - run.period + 1, run.period):
        stop = start + run.period
        form, reads, writes = form_of(eqns[start:stop])
        groups[form].append(RepeatedBody(start, stop, reads, writes))
    return [bodies for bodies in groups.values() if len(bodies) >= REPEATS]


def best_phase(eqns: Sequence[Equation], run: Run, last_reads: dict[Var, int]) -> int:
    """The cut of a run into bodies where the next body reads the fewest values of one. Only cuts
    that lose no body count. Values that outlive a body are read wherever the cut is."""
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
    """(form, variables read, variables written) of a body: bodies of equal tokens and forms compute
    the same of corresponding variables."""
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


@dataclasses.dataclass(frozen=True)
class Pair:
    """Bodies that read another group's results: of `reader` k, operand `operands[i]` is result
    `results[i]` of the `writers[k]`-th body of the group `group`."""

    group: int
    writers: list[int]
    operands: list[int]
    results: list[int]


class BodyCalls:
    """The calls of some groups' bodies. `pairs`: a group that reads another one's results may
    compute some of them again."""

    def __init__(self, jaxpr: Jaxpr, groups: list[Group], pairs: bool = True) -> None:
        self.jaxpr = jaxpr
        self.groups = groups
        # Variable -> (group, body, index among what the body writes).
        self.written = {
            var: (g, k, i)
            for g, group in enumerate(groups)
            for k, body in enumerate(group)
            for i, var in enumerate(body.writes)
        }
        self.pairs: dict[int, Pair] = {}
        for g in range(len(groups) if pairs else 0):
            pair = self.pair_of(g)
            taken = {other.group for other in self.pairs.values()}
            if pair is not None and g not in taken and pair.group not in {*taken, *self.pairs}:
                self.pairs[g] = pair
        self.needed = self.read_outside()

    def by_start(self) -> dict[int, tuple[int, Equation]]:
        """The stop and the call of each body, by its start."""
        calls: dict[int, tuple[int, Equation]] = {}
        for g, pair in self.pairs.items():
            calls |= self.pair_calls(g, pair)
        for group in self.groups:
            if group[0].start not in calls:
                calls |= self.plain(group)
        return calls

    def pair_of(self, reader: int) -> Pair | None:
        """The earlier group from which the bodies of a group read most, always in one way."""
        bodies = self.groups[reader]
        ways: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for i in range(len(bodies[0].reads)):
            sources = [self.written.get(body.reads[i]) for body in bodies]
            if None in sources:
                continue
            (group, _, result), *_ = found = [source for source in sources if source is not None]
            if group != reader and all((g, r) == (group, result) for g, _, r in found):
                ways[group].append((i, result))
        for group, rows in sorted(ways.items(), key=lambda way: -len(way[1])):
            first = [self.written[body.reads[rows[0][0]]][1] for body in bodies]
            rows = [
                (i, result)
                for i, result in rows
                if [self.written[body.reads[i]][1] for body in bodies] == first
            ]
            if len(set(first)) == len(first):
                return Pair(group, first, [i for i, _ in rows], [r for _, r in rows])
        return None

    def read_outside(self) -> set[Var]:
        """The variables read outside of the body that writes them and its partner."""
        inside: set[int] = set()
        out: set[Var] = {atom for atom in self.jaxpr.outputs if type(atom) is Var}
        for g, group in enumerate(self.groups):
            operands = set(self.pairs[g].operands) if g in self.pairs else set()
            for body in group:
                inside.update(range(body.start, body.stop))
                out.update(var for i, var in enumerate(body.reads) if i not in operands)
        for i, eqn in enumerate(self.jaxpr.eqns):
            if i not in inside:
                out.update(atom for atom in eqn.inputs if type(atom) is Var)
        return out

    def given(self, group: Group) -> list[int]:
        """Which results of a group's bodies are read elsewhere."""
        count = len(group[0].writes)
        return [i for i in range(count) if any(body.writes[i] in self.needed for body in group)]

    def body_jaxpr(
        self, body: RepeatedBody, outputs: Sequence[Var], inputs: Sequence[Var]
    ) -> Jaxpr:
        eqns = self.jaxpr.eqns[body.start : body.stop]
        return checked(Jaxpr(inputs, eqns, outputs, name="repeated_body"))

    def call(
        self, body: RepeatedBody, jaxpr: Jaxpr, inputs: list[Var], outputs: list[Var]
    ) -> tuple[int, Equation]:
        source = self.jaxpr.eqns[body.start].source
        return body.stop, Equation(body_p, inputs, {"jaxpr": jaxpr}, outputs, source)

    def plain(self, group: Group) -> dict[int, tuple[int, Equation]]:
        """The calls of a group that is not in a pair."""
        given, first = self.given(group), group[0]
        jaxpr = self.body_jaxpr(first, [first.writes[i] for i in given], first.reads)
        return {
            body.start: self.call(body, jaxpr, body.reads, [body.writes[i] for i in given])
            for body in group
        }

    def pair_calls(self, reader: int, pair: Pair) -> dict[int, tuple[int, Equation]]:
        """Pairs the calls of two groups, with the fewest residual bytes between them."""
        readers, writers = self.groups[reader], self.groups[pair.group]
        given = self.given(writers)
        # Of the pair that stands for all: what the writer computes, and what the reader does.
        then, now = readers[0], writers[pair.writers[0]]
        kept = [i for i in pair.results if i not in given]
        primal = self.body_jaxpr(now, [now.writes[i] for i in (*given, *kept)], now.reads)
        others = [i for i in range(len(then.reads)) if i not in set(pair.operands)]
        results = self.given(readers)
        linear = self.body_jaxpr(
            then,
            [then.writes[i] for i in results],
            [then.reads[i] for i in (*pair.operands, *others)],
        )
        place = {i: ("output", n) for n, i in enumerate(given)}
        place |= {i: ("extra", n) for n, i in enumerate(kept)}
        split = Linearized(primal, linear, (), [place[i] for i in pair.results], len(given))
        spare = choose_residuals(split, {*now.reads, *(now.writes[i] for i in given)})
        extra = spare.primal.out_types[len(given) :]
        calls: dict[int, tuple[int, Equation]] = {}
        left: list[list[Var]] = []
        for body in writers:
            outputs = [body.writes[i] for i in given] + [Var(type) for type in extra]
            left.append(outputs)
            calls[body.start] = self.call(body, spare.primal, body.reads, outputs)
        for body, k in zip(readers, pair.writers, strict=True):
            inputs = spare.residuals(writers[k].reads, left[k]) + [body.reads[i] for i in others]
            outputs = [body.writes[i] for i in results]
            calls[body.start] = self.call(body, spare.linear, inputs, outputs)
        return calls
