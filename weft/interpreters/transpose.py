"""Transposition: runs a linear jaxpr backwards, carrying cotangents from results to inputs.

The equations that do not depend on a linear input are evaluated first, forwards; then each linear
equation, last first, is handed to its primitive's transpose rule. Cotangents of a value that is
used several times are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.base import source as sources
from weft.base.marked_lists import marked, partition
from weft.core import rules
from weft.core.axes import mesh_axes
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, check_marks
from weft.core.rules import LinearOperand, Zero
from weft.interpreters.staging import rebuild
from weft.interpreters.symbolic_zeros import merge_zeros, nonzero_tangents
from weft.ops.collectives.all_reduce import pbroadcast_p, vary
from weft.ops.collectives.joint_sums import sum_in_buckets
from weft.ops.structural.tangents import add_tangents

__all__ = ["backward_pass", "transpose_jaxpr"]


def _evaluate_known(
    eqns: Sequence[Equation], linear: set[Var], env: dict[Var, Any]
) -> list[Equation]:
    """Evaluates the equations that depend on no linear variable; returns the others."""
    remaining: list[Equation] = []
    for eqn in eqns:
        if any(type(x) is Var and x in linear for x in eqn.inputs):
            linear.update(eqn.outputs)
            remaining.append(eqn)
            continue
        args = [x.value if isinstance(x, Literal) else env[x] for x in eqn.inputs]
        with sources.override(eqn.source):
            out = eqn.primitive.bind(*args, **eqn.params)
        outs = out if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outputs, outs, strict=True))
    return remaining


def backward_pass(
    eqns: Sequence[Equation],
    inputs: Sequence[Var],
    known: dict[Var, Any],
    outputs: Sequence[Any],
    cotangents: Sequence[Any],
) -> list[Any]:
    """The cotangents of the linear `inputs`, given those of `outputs`.

    `known` gives the values of the other variables that the equations read. A cotangent may be a
    `Zero`, in the arguments and in the result.

    Args:
        eqns: The equations of a linear program, in the order in which they would be evaluated.
        cotangents: The cotangent of each output.
        inputs: The variables in which the equations are linear.
        known: The values of other variables that the equations read.
        outputs: The variables whose cotangents are given.
    """
    linear = set(inputs)
    env = dict(known)
    remaining = _evaluate_known(eqns, linear, env)
    pending: dict[Var, Any] = {}

    def accumulate(var: Any, cotangent: Any) -> None:
        if cotangent is None or type(cotangent) is Zero or type(var) is not Var:
            return
        if var in linear:
            if var.type.varying:
                # A rule may return zeros that are equal on all devices.
                cotangent = vary(cotangent, var.type.varying)
            old = pending.get(var)
            pending[var] = cotangent if old is None else add_tangents(old, cotangent)

    def transpose(eqn: Equation) -> None:
        primitive = eqn.primitive
        cts = _cotangents(eqn, pending)
        if cts is None:
            return
        operands = [
            x.value
            if isinstance(x, Literal)
            else (LinearOperand(x.type, primitive.name) if x in linear else env[x])
            for x in eqn.inputs
        ]
        with sources.backward(eqn.source):
            found = rules.transpose[primitive](cts, *operands, **eqn.params)
            for atom, cotangent in zip(eqn.inputs, found, strict=True):
                accumulate(atom, cotangent)

    for atom, cotangent in zip(outputs, cotangents, strict=True):
        accumulate(atom, cotangent)
    first, casts = _before_casts(remaining, inputs, linear) if mesh_axes() else ([], [])
    late = {*first, *casts}
    for eqn in reversed(remaining):
        if eqn not in late:
            transpose(eqn)
    for atom, total in _sums(reversed(casts), pending):
        accumulate(atom, total)
    for eqn in reversed(first):
        transpose(eqn)
    return [pending[var] if var in pending else Zero(var.type) for var in inputs]


def _cotangents(eqn: Equation, pending: dict[Var, Any]) -> Any:
    """The cotangents that a transpose rule takes; None if no result has one."""
    if not eqn.primitive.multiple_results:
        return pending.pop(eqn.outputs[0], None)
    cts = [pending.pop(var, None) for var in eqn.outputs]
    if all(ct is None for ct in cts):
        return None
    return [Zero(v.type) if ct is None else ct for v, ct in zip(eqn.outputs, cts, strict=True)]


def _before_casts(
    eqns: Sequence[Equation], inputs: Sequence[Var], linear: set[Var]
) -> tuple[list[Equation], list[Equation]]:
    """The equations that depend on no cast of a linear value, and the casts of their results and of
    the inputs. No other equation comes before one of these, so they can be transposed last."""
    before = set(inputs)
    first: list[Equation] = []
    casts: list[Equation] = []
    for eqn in eqns:
        if all(x in before for x in eqn.inputs if type(x) is Var and x in linear):
            if eqn.primitive is pbroadcast_p:
                casts.append(eqn)
            else:
                first.append(eqn)
                before.update(eqn.outputs)
    return first, casts


def _sums(casts: Iterable[Equation], pending: dict[Var, Any]) -> list[tuple[Atom, Any]]:
    """What was cast, and the sums of the cotangents over the devices: one for all casts of a value
    along the same axes, and common ones for several values where buckets are wanted."""
    found: dict[tuple[Atom, Any], Any] = {}
    lines: dict[tuple[Atom, Any], Any] = {}
    for eqn in casts:
        cotangent = pending.pop(eqn.outputs[0], None)
        if cotangent is None:
            continue
        key = (eqn.inputs[0], eqn.params["axis_name"])
        found[key] = add_tangents(found[key], cotangent) if key in found else cotangent
        lines[key] = eqn.source
    totals = sum_in_buckets(list(found.values()), [axes for _, axes in found], list(lines.values()))
    return list(zip((atom for atom, _ in found), totals, strict=True))


def transpose_jaxpr(
    jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The transpose of a jaxpr that is linear in the inputs marked `linear`, and a mark for each.

    It takes the other inputs, then the cotangents of the results marked `nonzero`, and computes the
    cotangents of the marked linear inputs (those of the others are zero).

    Args:
        linear: Which inputs the jaxpr is linear in.
        nonzero: Which results have cotangents.

    >>> from weft.extend.interpreters import ad
    >>> jaxpr = weft.make_jaxpr(lambda x, y: lax.sin(x) * y)(1.0, 2.0).jaxpr
    >>> transposed, nonzero = ad.transpose_jaxpr(jaxpr, (False, True), (True,))
    >>> nonzero, [eqn.primitive.name for eqn in transposed.eqns]
    ((True,), ['sin', 'mul'])
    """

    def make() -> tuple[Jaxpr, tuple[bool, ...]]:
        check_marks("transpose_jaxpr", "input", linear, len(jaxpr.inputs))
        check_marks("transpose_jaxpr", "result", nonzero, len(jaxpr.outputs))
        linear_vars, known_vars = partition(linear, jaxpr.inputs)
        nonzero_in: tuple[bool, ...] = ()

        def function(*values: Any) -> list[Any]:
            nonlocal nonzero_in
            n = len(known_vars)
            known = dict(zip(known_vars, values[:n], strict=True))
            cts = merge_zeros(nonzero, values[n:], jaxpr.out_types)
            found = backward_pass(jaxpr.eqns, linear_vars, known, jaxpr.outputs, cts)
            nonzero_in, reached = nonzero_tangents(found)
            return reached

        types = [v.type for v in known_vars] + marked(nonzero, jaxpr.out_types)
        return rebuild(function, types, jaxpr.name, "transpose"), nonzero_in

    return jaxpr.memoize(("transpose", linear, nonzero), make)
