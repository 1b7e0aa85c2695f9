"""The choice of residuals: what a linearized jaxpr keeps between its two halves.

The linear half may compute a residual again from others where that is cheap: broadcasts, reshapes,
conversions, comparisons and plain arithmetic, which XLA fuses into what reads them. Which values to
keep is then a minimum cut: each value is an edge that weighs its bytes (nothing where it exists
anyway), and every path from what is computed at a cost to a wanted residual is cut once. Of cuts of
the same weight the one nearest to the wanted values is taken, which computes the least again. The
idea is that of the min-cut partitioner of PyTorch's AOTAutograd; the flow is found with the
algorithm of Dinic (1970), "Algorithm for solution of a problem of maximum flow in networks with
power estimation".

Safety: an equation that is computed again has no effects and is a function of values that are kept,
so its result is the same value; only which equations run in which half changes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from weft.base.exact_keys import exact_key, is_plain, parameters_key
from weft.base.util import keep_marked
from weft.core.check import checked
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from weft.core.types import ArrayType
from weft.interpreters.linearize import Linearized, linearize_jaxpr
from weft.interpreters.partial_eval import dce_equations


def linearize_sparing(
    jaxpr: Jaxpr,
    nonzero: tuple[bool, ...],
    instantiate_out: tuple[bool, ...] | None = None,
    existing: tuple[bool, ...] | None = None,
) -> Linearized:
    """`linearize_jaxpr` with the least bytes of residuals.

    existing: marks of the inputs that exist anyway as long as the linear half may run; by default
    all, and the results too.

    Args:
        nonzero: Which inputs have tangents.
        instantiate_out: Which tangents of results are arrays even where they are zero; None for
            none.

    >>> from weft.extend.interpreters import ad
    >>> jaxpr = weft.make_jaxpr(lambda x: jnp.tanh(2 * x + abs(x)) / (1 + x * x))(jnp.ones(3)).jaxpr
    >>> len(ad.linearize_jaxpr(jaxpr, (True,)).residual_sources)
    5
    >>> ad.linearize_sparing(jaxpr, (True,)).residual_sources
    [('input', 0), ('extra', 0), ('output', 0)]
    """

    def make() -> Linearized:
        split = linearize_jaxpr(jaxpr, nonzero, instantiate_out)
        primal = split.primal
        if existing is not None:
            return choose_residuals(split, keep_marked(existing, primal.inputs), False)
        results = _variables(primal.outputs[: split.num_outputs])
        return choose_residuals(split, {*primal.inputs, *results}, False)

    return jaxpr.memoize(("linearize_sparing", nonzero, instantiate_out, existing), make)


def choose_residuals(split: Linearized, free: Collection[Var], once: bool = True) -> Linearized:
    """The same two halves with the least bytes of residuals.

    free: variables of `split.primal` that exist anyway for whoever runs the linear half. The linear
    half may compute cheap functions of residuals again before it reads tangents.

    Args:
        split: The two halves of a linearized jaxpr.
        once: Whether the linear half runs once for each run of the primal one. Then it may compute
            tanh and logistic again, too.
    """
    primal, same = _without_repeats(split.primal)
    wanted = split.residuals(primal.inputs, primal.outputs)
    free = {same.get(v, v) for v in free}
    makers = {v: eqn for eqn in primal.eqns if eqn.primitive.facts.cheap for v in eqn.outputs}
    costly = {x for x in _variables(wanted) if x not in free}
    # What cannot be computed again is kept, and so exists for the others.
    kept = {x for x in costly if x not in makers}
    others = [x for x in dict.fromkeys(_variables(wanted)) if x in costly and x not in kept]
    if others:
        kept |= _minimum_cut(others, makers, free | kept)
    if once:
        kept = _from_operands(kept, primal, makers, free)
    if kept == costly and not same:
        return split
    return _rebuild(split, primal, wanted, makers, kept | free)


def _without_repeats(jaxpr: Jaxpr) -> tuple[Jaxpr, dict[Var, Var]]:
    """The jaxpr without repeated equations, and the earlier result for each of theirs."""
    same: dict[Var, Var] = {}
    met: dict[Hashable, Equation] = {}
    eqns: list[Equation] = []
    for whole in jaxpr.eqns:
        eqn = _rename(whole, same) if same else whole
        if not eqn.effects and len(eqn.outputs) == 1:
            operands = [
                (x.type, exact_key(x.value)) if isinstance(x, Literal) else x for x in eqn.inputs
            ]
            # The parameters of weft's own operations are each of one class.
            values = tuple(eqn.params.values())
            own = eqn.primitive.memoise and all(map(is_plain, values))
            params = values if own else parameters_key(eqn.params)
            try:
                first = met.setdefault((eqn.primitive, params, *operands), eqn)
            except TypeError:  # a parameter without a hash
                first = eqn
            if first is not eqn:
                same[eqn.outputs[0]] = first.outputs[0]
                continue
        eqns.append(eqn)
    if not same:
        return jaxpr, same
    outputs = [same.get(x, x) if type(x) is Var else x for x in jaxpr.outputs]
    return Jaxpr(jaxpr.inputs, eqns, outputs, jaxpr.num_consts, jaxpr.name), same


def _rebuild(
    split: Linearized,
    primal: Jaxpr,
    wanted: Sequence[Atom],
    makers: dict[Var, Equation],
    available: Collection[Var],
) -> Linearized:
    """The halves where the linear one takes the available values and computes the others."""
    linear, results = split.linear, primal.outputs[: split.num_outputs]
    needed = set(_variables(wanted))
    again: list[Equation] = []
    for eqn in reversed(primal.eqns):
        (out, *more) = eqn.outputs or (None,)
        if more or out not in needed or out in available or makers.get(out) is not eqn:
            continue
        again.append(eqn)
        needed.update(_variables(eqn.inputs))
    computed = {eqn.outputs[0] for eqn in again}
    residuals = [v for v in needed if v not in computed]
    order = {v: i for i, v in enumerate(primal.inputs)}
    order |= {v: len(order) + i for i, v in enumerate(v for e in primal.eqns for v in e.outputs)}
    residuals.sort(key=order.__getitem__)
    # The variables of the linear half: its own residual inputs stand for the values they were.
    inside: dict[Var, Atom] = {}
    same: dict[Var, Atom] = {}
    for atom, var in zip(wanted, linear.inputs, strict=False):
        known = inside.setdefault(atom, var) if type(atom) is Var else atom
        if known is not var:
            same[var] = known
    for v in (*residuals, *computed):
        inside.setdefault(v, Var(v.type))
    eqns = [_rename(eqn, inside) for eqn in reversed(again)]
    eqns += [_rename(eqn, same) for eqn in linear.eqns] if same else linear.eqns
    outputs = [same.get(x, x) if type(x) is Var else x for x in linear.outputs]
    names = {v: atom for v, atom in inside.items() if type(atom) is Var}
    inputs = [names[v] for v in residuals] + linear.inputs[len(wanted) :]
    later = checked(Jaxpr(inputs, eqns, outputs, 0, linear.name))
    position: dict[Var, tuple[str, int]] = {}
    position |= {x: ("output", i) for i, x in enumerate(results) if type(x) is Var}
    position |= {x: ("input", i) for i, x in enumerate(primal.inputs)}
    extra = [v for v in residuals if v not in position]
    position |= {v: ("extra", i) for i, v in enumerate(extra)}
    outs = [*results, *extra]
    first = checked(Jaxpr(primal.inputs, dce_equations(primal.eqns, outs)[0], outs, 0, primal.name))
    sources = [position[v] for v in residuals]
    return Linearized(first, later, split.nonzero_out, sources, split.num_outputs)


def _rename(eqn: Equation, names: Mapping[Var, Atom]) -> Equation:
    """The equation in other variables."""
    inputs = [names.get(x, x) if type(x) is Var else x for x in eqn.inputs]
    outputs = [names.get(x, x) for x in eqn.outputs]
    if inputs == list(eqn.inputs) and outputs == list(eqn.outputs):
        return eqn
    return eqn.replace(inputs=inputs, outputs=outputs)


def _from_operands(
    kept: set[Var], primal: Jaxpr, makers: dict[Var, Equation], free: Collection[Var]
) -> set[Var]:
    """The values to keep, with one operand in place of several functions of it, whose equations are
    added to `makers`."""
    functions: dict[Var, list[Equation]] = {}
    for eqn in primal.eqns:
        if eqn.primitive.facts.again_from_operand and eqn.outputs[0] in kept:
            for operand in _variables(eqn.inputs):
                functions.setdefault(operand, []).append(eqn)
    for operand, eqns in functions.items():
        if len(eqns) > 1 or operand in kept or operand in free:
            makers |= {eqn.outputs[0]: eqn for eqn in eqns}
            kept = kept.difference(eqn.outputs[0] for eqn in eqns)
            kept |= {operand} - set(free)
    return kept


def _minimum_cut(
    wanted: Sequence[Var], makers: dict[Var, Equation], free: Collection[Var]
) -> set[Var]:
    """The values of least bytes from which cheap equations compute all wanted ones."""
    network = _Network()
    numbers = {v: i for i, v in enumerate(wanted, start=1)}
    values = list(wanted)
    network.grow(2 * len(values))
    for i in numbers.values():
        network.join(2 * i + 1, _SINK, _INFINITE)
    # A value is the edge between nodes 2 i and 2 i + 1; the list grows meanwhile.
    for i, v in enumerate(values, start=1):
        network.join(2 * i, 2 * i + 1, _bytes(v.type))
        eqn = makers.get(v)
        if eqn is None:
            network.join(_SOURCE, 2 * i, _INFINITE)
            continue
        for x in _variables(eqn.inputs):
            if x in free:
                continue
            if x not in numbers:
                values.append(x)
                numbers[x] = len(values)
                network.grow(2)
            network.join(2 * numbers[x] + 1, 2 * i, _INFINITE)
    late = network.reaching_sink()
    return {v for v, i in numbers.items() if 2 * i + 1 in late and 2 * i not in late}


def _variables(atoms: Iterable[Atom]) -> list[Var]:
    return [x for x in atoms if type(x) is Var]


def _bytes(type: ArrayType) -> int:
    """The weight of a value: its bytes and one, so that fewer values are better."""
    return type.size * getattr(type.dtype, "itemsize", 8) + 1


_SOURCE, _SINK = 0, 1
_INFINITE = 1 << 62


class _Network:
    """A network of edges with capacities, and the greatest flow through it. `room` has for each
    node its next nodes and the flow still possible to them, reverse edges included."""

    def __init__(self) -> None:
        self.room: list[dict[int, int]] = []
        self.grow(2)

    def grow(self, count: int) -> None:
        """Adds nodes."""
        self.room += [{} for _ in range(count)]

    def join(self, tail: int, head: int, capacity: int) -> None:
        """Adds an edge."""
        self.room[tail][head] = capacity
        self.room[head].setdefault(tail, 0)

    def reaching_sink(self) -> set[int]:
        """The nodes that can still reach the sink at the greatest flow."""
        while (levels := self._levels()) is not None:
            heads = {node: list(self.room[node]) for node in levels}
            while self._push(levels, heads):
                pass
        out, pending = {_SINK}, [_SINK]
        while pending:
            node = pending.pop()
            for before in self.room[node]:
                if before not in out and self.room[before][node]:
                    out.add(before)
                    pending.append(before)
        return out

    def _levels(self) -> dict[int, int] | None:
        """The distance of each node from the source, up to the sink; None if it is cut off."""
        levels = {_SOURCE: 0}
        frontier = [_SOURCE]
        while frontier and _SINK not in levels:
            following = []
            for node in frontier:
                for after, room in self.room[node].items():
                    if room and after not in levels:
                        levels[after] = levels[node] + 1
                        following.append(after)
            frontier = following
        return levels if _SINK in levels else None

    def _push(self, levels: dict[int, int], heads: dict[int, list[int]]) -> bool:
        """Sends as much as one path takes; returns whether there was one. `heads` loses the edges
        that lead nowhere at this distance, so that none is tried twice."""
        path = [_SOURCE]
        while path[-1] != _SINK:
            node = path[-1]
            while heads[node]:
                after = heads[node][-1]
                if self.room[node][after] and levels.get(after) == levels[node] + 1:
                    path.append(after)
                    break
                heads[node].pop()
            else:
                path.pop()
                if not path:
                    return False
                heads[path[-1]].pop()
        steps = list(zip(path, path[1:], strict=False))
        amount = min(self.room[tail][head] for tail, head in steps)
        for tail, head in steps:
            self.room[tail][head] -= amount
            self.room[head][tail] += amount
        return True
