"""The family of primitives that run one jaxpr, the parameter `jaxpr`, once on their operands.

A transformation of such a primitive is the same primitive with the transformed jaxpr. All of them
share the rules here; a primitive declares how it differs (see `OneJaxpr`) and which rules are its
own. A rule for a new kind of interpretation is added to `holds_one_jaxpr`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from weft.base.util import Flags, keep_marked, partition
from weft.core import rules
from weft.core.access_pattern import moves_of_program, reads_of_program
from weft.core.check import check_operands_fit
from weft.core.jaxpr import Atom, Cut, Equation, Jaxpr, SplitEquation, Var
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Params, Rule, Values
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.interpreters.hoist import retype_program
from weft.interpreters.jvp import (
    jvp_jaxpr,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.interpreters.residuals import linearize_sparing
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.result_layouts import keep_in_program, whole_sources


def _same_params(params: Params, *_: Sequence[bool]) -> Params:
    return params


@dataclasses.dataclass(frozen=True)
class OneJaxpr:
    """A primitive of the family, with its differences from the others.

    `describe(params)` names an application in messages. `derive(params)` returns the parameters for
    a derived jaxpr; `cut(params, reads, used)` those for the operands and results that these flags
    keep. `transposed` derives the transposed jaxpr, and which of its linear inputs a cotangent
    reaches.
    """

    primitive: Primitive
    describe: Callable[[Params], str]
    derive: Callable[[Params], Params] = _same_params
    cut: Callable[[Params, Sequence[bool], Sequence[bool]], Params] = _same_params
    transposed: Callable[[Jaxpr, Flags, Flags], tuple[Jaxpr, Flags]] = transpose_jaxpr

    def bind(self, operands: Sequence[Any], jaxpr: Jaxpr, params: Params) -> list[Any]:
        """Applies the primitive to a derived jaxpr."""
        return list(self.primitive.bind(*operands, **self.with_jaxpr(jaxpr, params)))

    def with_jaxpr(self, jaxpr: Jaxpr, params: Params) -> Params:
        """The parameters of an application of a derived jaxpr."""
        return self.derive(params) | {"jaxpr": jaxpr}


def holds_one_jaxpr(kind: OneJaxpr, **own: Rule | None) -> None:
    """Registers the family's rules for a primitive. `own` are further rules, by the name of their
    table; None leaves one out."""
    derived = {
        "type_rule": partial(one_type, kind),
        "retype": retype_program,
        "jvp": partial(one_jvp, kind),
        "linearize": partial(one_linearize, kind),
        "transpose": partial(one_transpose, kind),
        "vmap": partial(one_vmap, kind),
        "partial_eval": partial(one_partial_eval, kind),
        "dce": partial(one_dce, kind),
        "steps": partial(one_step, kind),
        "layout": whole_sources,
        "reads": reads_of_program,
        "moves": moves_of_program,
        "keep_layouts": keep_in_program,
    }
    for name, rule in (derived | own).items():
        if rule is not None:
            getattr(rules, name).register(kind.primitive, rule)


def one_step(kind: OneJaxpr, *operands: Any, **params: Any) -> Iterator[tuple[str, Jaxpr, Values]]:
    yield f"the {kind.describe(params)}", params["jaxpr"], operands


def one_type(kind: OneJaxpr, *types: ArrayType, **params: Any) -> list[ArrayType]:
    jaxpr: Jaxpr = params["jaxpr"]
    check_operands_fit(kind.describe(params), types, jaxpr)
    return jaxpr.out_types


def one_jvp(kind: OneJaxpr, primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr: Jaxpr = params["jaxpr"]
    nonzero, given = nonzero_tangents(tangents)
    derivative, nonzero_out = jvp_jaxpr(jaxpr, nonzero)
    outs = kind.bind([*primals, *given], derivative, params)
    n = len(jaxpr.outputs)
    return outs[:n], merge_zeros(nonzero_out, outs[n:], jaxpr.out_types)


def one_linearize(kind: OneJaxpr, primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr: Jaxpr = params["jaxpr"]
    nonzero, given = nonzero_tangents(tangents)
    # Where this is recorded, what surrounds it decides which values are kept besides.
    existing = tuple([not isinstance(x, Tracer) for x in primals])
    split = linearize_sparing(jaxpr, nonzero, None, None if all(existing) else existing)
    outs = kind.bind(primals, split.primal, params)
    tangents_out = kind.bind([*split.residuals(primals, outs), *given], split.linear, params)
    n = len(jaxpr.outputs)
    return outs[:n], merge_zeros(split.nonzero_out, tangents_out, jaxpr.out_types)


def one_transpose(kind: OneJaxpr, cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    linear, known = known_operands(operands)
    nonzero, given = nonzero_tangents(cotangents)
    jaxpr: Jaxpr = params["jaxpr"]
    if kind.primitive.facts.wide_cotangents:
        pairs = zip(given, keep_marked(nonzero, jaxpr.out_types), strict=True)
        wide = tuple([type_of(ct).dtype != of.dtype for ct, of in pairs])
        backward, reached = transpose_jaxpr(jaxpr, linear, nonzero, wide)
    else:
        backward, reached = kind.transposed(jaxpr, linear, nonzero)
    return merge_cotangents(linear, reached, kind.bind([*known, *given], backward, params))


def one_vmap(kind: OneJaxpr, axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    mapped, dims_out = vmap_jaxpr(params["jaxpr"], axis, tuple(dims))
    return kind.bind(args, mapped, params), dims_out


def one_partial_eval(kind: OneJaxpr, eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    split = partial_eval_jaxpr(eqn.params["jaxpr"], tuple(unknown))
    return split_equation(
        eqn,
        unknown,
        split.unknown_out,
        [Var(type) for type in split.residual_types],
        kind.with_jaxpr(split.known, eqn.params),
        kind.with_jaxpr(split.unknown, eqn.params),
    )


def split_equation(
    eqn: Equation,
    unknown: Sequence[bool],
    unknown_out: Flags,
    residuals: Sequence[Var],
    known_params: Params,
    unknown_params: Params,
    both: Sequence[Atom] = (),
) -> SplitEquation:
    """An equation split in two, given the parameters of the parts. Operands that `both` parts read
    come first, and have no flag in `unknown`."""
    rest, known_in = partition(unknown, eqn.inputs[len(both) :])
    later_out, known_out = partition(unknown_out, eqn.outputs)
    known = eqn.replace(
        inputs=[*both, *known_in], outputs=[*known_out, *residuals], params=known_params
    )
    later = eqn.replace(inputs=[*both, *residuals, *rest], outputs=later_out, params=unknown_params)
    return SplitEquation(known, later, unknown_out, residuals)


def one_dce(kind: OneJaxpr, eqn: Equation, used: Sequence[bool]) -> Cut:
    jaxpr, reads = dce_jaxpr(eqn.params["jaxpr"], tuple(used))
    if not jaxpr.outputs and not jaxpr.effects:
        return [False] * len(eqn.inputs), None
    params = kind.cut(eqn.params, reads, used) | {"jaxpr": jaxpr}
    return smaller_equation(eqn, reads, used, params)


def smaller_equation(
    eqn: Equation, reads: Sequence[bool], used: Sequence[bool], params: Params
) -> tuple[list[bool], Equation]:
    """The result of a dce rule: which operands are left, and the smaller equation."""
    inputs, outputs = keep_marked(reads, eqn.inputs), keep_marked(used, eqn.outputs)
    return list(reads), eqn.replace(inputs=inputs, outputs=outputs, params=params)
