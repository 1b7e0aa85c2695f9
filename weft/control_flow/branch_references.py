"""Branches that use references: each takes their arrays, and returns those that any writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import Jaxpr, Var
from weft.refs.discharge import discharge, has_references
from weft.refs.reference import Ref, contents
from weft.tracing.traces import TracedBody


def pure_branches(traced: Sequence[TracedBody]) -> tuple[list[TracedBody], list[Ref]]:
    """The branches without references, and the references whose arrays they append."""
    if not any(has_references(body.consts) for body in traced):
        return list(traced), []
    arrays: dict[int, Any] = {}
    written: dict[int, Ref] = {}
    for body in traced:
        for value in body.consts:
            if type(value) is Ref and id(value) not in arrays:
                arrays[id(value)] = contents(value)
        changed = [body.consts[i] for i in discharge(body.jaxpr).written]
        written.update((id(ref), ref) for ref in changed)
    return [_pure_branch(body, list(written.values()), arrays) for body in traced], list(
        written.values()
    )


def _pure_branch(body: TracedBody, written: list[Ref], arrays: dict[int, Any]) -> TracedBody:
    found = discharge(body.jaxpr)
    inputs = {id(value): i for i, value in enumerate(body.consts)}
    results = {id(body.consts[i]): k for k, i in enumerate(found.written)}
    # By reference: the result that is its array, else the input that has it, else neither.
    places = tuple((results.get(id(ref)), inputs.get(id(ref))) for ref in written)
    new = [ref for ref, place in zip(written, places, strict=True) if place == (None, None)]
    types = tuple(ref.type.inner for ref in new)

    def make() -> Jaxpr:
        jaxpr = found.jaxpr
        count = len(jaxpr.outputs) - len(found.written)
        added = [Var(type) for type in types]
        unread = iter(added)
        outs = jaxpr.outputs[:count]
        for result, own in places:
            if result is not None:
                outs.append(jaxpr.outputs[count + result])
            else:
                outs.append(next(unread) if own is None else jaxpr.inputs[own])
        consts = jaxpr.num_consts + len(added)
        return Jaxpr([*added, *jaxpr.inputs], jaxpr.eqns, outs, consts, jaxpr.name)

    jaxpr = body.jaxpr.memoize(("branch with references", places, types), make)
    own = [arrays[id(value)] if type(value) is Ref else value for value in body.consts]
    return dataclasses.replace(body, jaxpr=jaxpr, consts=[*(arrays[id(r)] for r in new), *own])
