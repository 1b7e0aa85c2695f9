"""Transposition: runs a linear jaxpr backwards, carrying cotangents from results to inputs.

The equations that do not depend on a linear input are evaluated first, forwards; then each linear
equation, last first, is handed to its primitive's transpose rule. Cotangents of a value that is
used several times are added.

A sum of 16-bit numbers may pass their largest on the way to a gradient that does not: `x - mean(x)`
sums its cotangents over all elements and divides the sum by their number. So sums are in float32
here, and stay so until an equation that is not arithmetic, or until they meet a 16-bit cotangent.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

from weft import dtypes
from weft.base import source as sources
from weft.base.util import keep_marked, partition
from weft.core import rules
from weft.core.axes import mesh_axes
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var, check_marks
from weft.core.rules import LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.interpreters.jvp import merge_zeros, nonzero_tangents
from weft.interpreters.staging import rebuild
from weft.ops.collectives.all_reduce import pbroadcast_p, sum_in_buckets, vary
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.narrow import SUMMED_IN_FLOAT32
from weft.ops.structural.tangents import add_tangents


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
    keep_wide: bool = False,
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
        keep_wide: Whether cotangents of 16-bit inputs may be in float32 in the result.
    """
    linear = set(inputs)
    env = dict(known)
    remaining = _evaluate_known(eqns, linear, env)
    totals = CotangentSums()

    def accumulate(var: Any, cotangent: Any) -> None:
        if cotangent is None or type(cotangent) is Zero or type(var) is not Var:
            return
        if var in linear:
            if var.type.varying:
                # A rule may return zeros that are equal on all devices.
                cotangent = vary(cotangent, var.type.varying)
            totals.add(var, cotangent)

    def transpose(eqn: Equation) -> None:
        primitive = eqn.primitive
        cts = _cotangents(eqn, totals)
        if cts is None:
            return
        operands = [
            x.value
            if isinstance(x, Literal)
            else (LinearOperand(x.type, primitive.name) if x in linear else env[x])
            for x in eqn.inputs
        ]
        with sources.backward(eqn.source):
            found = _transpose_wide(eqn, cts, operands)
            for atom, cotangent in zip(eqn.inputs, found, strict=True):
                accumulate(atom, cotangent)

    for atom, cotangent in zip(outputs, cotangents, strict=True):
        accumulate(atom, cotangent)
    first, casts = _before_casts(remaining, inputs, linear) if mesh_axes() else ([], [])
    late = {*first, *casts}
    for eqn in reversed(remaining):
        if eqn not in late:
            transpose(eqn)
    for atom, total in _sums(reversed(casts), totals):
        accumulate(atom, total)
    for eqn in reversed(first):
        transpose(eqn)
    found = [totals.pop(var, keep_wide) for var in inputs]
    return [Zero(v.type) if ct is None else ct for v, ct in zip(inputs, found, strict=True)]


class CotangentSums:
    """The sums so far of the cotangents of variables. Those of 16-bit variables are in float32 from
    the third term on, or if a term is."""

    __slots__ = ("pending", "rounded", "sums")

    def __init__(self) -> None:
        self.pending: dict[Var, Any] = {}
        self.sums: set[Var] = set()
        # Of which a term has 16 bits, so that float32 would bring the sum no further digits.
        self.rounded: set[Var] = set()

    def add(self, var: Var, cotangent: Any) -> None:
        """Adds a cotangent to those of a variable."""
        total = self.pending.get(var)
        if total is None:
            self.pending[var] = cotangent
            return
        if var.type.dtype in SUMMED_IN_FLOAT32:
            wide = [type_of(x).dtype == dtypes.float32 for x in (total, cotangent)]
            if any(wide) or var in self.sums:
                if not all(wide):
                    self.rounded.add(var)
                total = convert_element_type(total, dtypes.float32)
                cotangent = convert_element_type(cotangent, dtypes.float32)
            self.sums.add(var)
        self.pending[var] = add_tangents(total, cotangent)

    def pop(self, var: Var, keep_wide: bool = False) -> Any:
        """Removes and returns the sum, or None; wide only with `keep_wide`."""
        total, of = self.pending.pop(var, None), var.type
        if total is None or of.dtype not in SUMMED_IN_FLOAT32 or type_of(total).dtype == of.dtype:
            return total
        if keep_wide and var not in self.rounded:
            return total
        return convert_element_type(total, of.dtype, of.weak_type)


def _cotangents(eqn: Equation, totals: CotangentSums) -> Any:
    """The cotangents that a transpose rule takes; None if no result has one."""
    keep_wide = eqn.primitive.facts.wide_cotangents
    if not eqn.primitive.multiple_results:
        return totals.pop(eqn.outputs[0], keep_wide)
    cts = [totals.pop(var, keep_wide) for var in eqn.outputs]
    if all(ct is None for ct in cts):
        return None
    return [Zero(v.type) if ct is None else ct for v, ct in zip(eqn.outputs, cts, strict=True)]


def _transpose_wide(eqn: Equation, cts: Any, operands: Sequence[Any]) -> Any:
    """The cotangents of the operands; 16-bit ones in float32 if the result's is, or if sums."""
    primitive = eqn.primitive
    rule = functools.partial(rules.transpose[primitive], **eqn.params)
    if primitive.multiple_results or not primitive.facts.wide_cotangents:
        return rule(cts, *operands)
    of = eqn.outputs[0].type
    if of.dtype not in SUMMED_IN_FLOAT32:
        return rule(cts, *operands)
    sums = any(type(x) is LinearOperand and x.type.size < of.size for x in operands)
    if not sums and type_of(cts).dtype == of.dtype:
        return rule(cts, *operands)
    wide = convert_element_type(cts, dtypes.float32)
    found = rule(wide, *map(_widen, operands))
    return [cts if ct is wide else ct for ct in found]


def _widen(operand: Any) -> Any:
    """An operand of a transpose rule, in float32 if it has 16 bits."""
    of: ArrayType = type_of(operand)
    if of.dtype not in SUMMED_IN_FLOAT32:
        return operand
    if type(operand) is LinearOperand:
        return dataclasses.replace(operand, type=of.update(dtype=dtypes.float32))
    return convert_element_type(operand, dtypes.float32, of.weak_type)


def _before_casts(
    eqns: Sequence[Equation], inputs: Sequence[Var], linear: set[Var]
) -> tuple[list[Equation], list[Equation]]:
    """The equations that depend on no cast of a linear value, and the casts of their results and of
    the inputs. No other equation precedes one of these, so they are transposed last."""
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


def _sums(casts: Iterable[Equation], totals: CotangentSums) -> list[tuple[Atom, Any]]:
    """The cast variables, and the sums of their cotangents over the devices: one for all casts of a
    value along the same axes, in buckets if wanted."""
    found: dict[tuple[Atom, Any], Any] = {}
    lines: dict[tuple[Atom, Any], Any] = {}
    for eqn in casts:
        cotangent = totals.pop(eqn.outputs[0])
        if cotangent is None:
            continue
        key = (eqn.inputs[0], eqn.params["axis_name"])
        found[key] = add_tangents(found[key], cotangent) if key in found else cotangent
        lines[key] = eqn.source
    sums = sum_in_buckets(list(found.values()), [axes for _, axes in found], list(lines.values()))
    return list(zip((atom for atom, _ in found), sums, strict=True))


def transpose_jaxpr(
    jaxpr: Jaxpr,
    linear: tuple[bool, ...],
    nonzero: tuple[bool, ...],
    wide: tuple[bool, ...] | None = None,
) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The transpose of a jaxpr that is linear in the inputs marked `linear`, and a mark for each.

    It takes the other inputs, then the cotangents of the results marked `nonzero`, and computes the
    cotangents of the marked linear inputs (those of the others are zero).

    Args:
        linear: Which inputs the jaxpr is linear in.
        nonzero: Which results have cotangents.
        wide: Which of these are in float32, of results of 16 bits; cotangents of 16-bit inputs may
            then be, too. None if all have the types of the results.

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
            found = backward_pass(
                jaxpr.eqns, linear_vars, known, jaxpr.outputs, cts, wide is not None
            )
            nonzero_in, reached = nonzero_tangents(found)
            return reached

        given = keep_marked(nonzero, jaxpr.out_types)
        if wide is not None:
            pairs = zip(given, wide, strict=True)
            given = [t.update(dtype=dtypes.float32) if flag else t for t, flag in pairs]
        types = [v.type for v in known_vars] + given
        return rebuild(function, types, jaxpr.name, "transpose"), nonzero_in

    return jaxpr.memoize(("transpose", linear, nonzero, wide), make)
