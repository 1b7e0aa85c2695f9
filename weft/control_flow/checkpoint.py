"""`checkpoint`: a function whose intermediate values are computed again for its derivative.

Linearizing the function gives a jaxpr that computes results and residuals, and a linear jaxpr that
reads the residuals. Here the residuals are not handed over: the linear jaxpr begins with the
equations that compute them, from the function's inputs and the values that a policy saves.
See Griewank and Walther, "Algorithm 799: revolve" (TOMS 2000), and Chen, Xu, Zhang,
Guestrin, "Training Deep Nets with Sublinear Memory Cost" (2016).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft import tree
from weft.base import source as sources
from weft.base.util import Flags, drop_marked, keep_marked, like
from weft.control_flow.body_tracing import ProgramPrimitive, run_as_one, trace_body
from weft.control_flow.branches import ResidualSlots
from weft.control_flow.checkpoint_policies import (
    MAKERS_BY_NAME,
    Offloadable,
    Policy,
    is_constant,
    saveable,
)
from weft.control_flow.cond import cond_p
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loop_parts import stacked_type
from weft.control_flow.scan import scan_p
from weft.core import rules
from weft.core.check import checked
from weft.core.jaxpr import (
    Equation,
    Jaxpr,
    Literal,
    SplitEquation,
    Steps,
    Var,
    eval_jaxpr,
    map_jaxprs,
)
from weft.core.rules import Derived, Values
from weft.core.shared_jaxprs import emits_jaxprs
from weft.core.types import type_of, user_value
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.interpreters.hoist import hoist_program
from weft.interpreters.jvp import merge_zeros, nonzero_tangents
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.partial_eval import (
    all_unknown,
    dce_equations,
    dce_jaxpr,
    partial_eval_jaxpr,
    without_debug_effects,
)
from weft.interpreters.rounded_inputs import warn_of_rounding
from weft.interpreters.staging import check_function, rebuild
from weft.interpreters.transpose import transpose_jaxpr
from weft.ops.elementwise.convert import beside_float64
from weft.ops.structural.layout_constraint import in_memory_p
from weft.refs.discharge import as_closure, has_references, pure_call
from weft.runtime import stablehlo

P = ParamSpec("P")
R = TypeVar("R")

remat_p = ProgramPrimitive("checkpoint")
emits_jaxprs.add(remat_p)


@api_boundary
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
) -> Callable[P, R]:
    """Returns `fun` with derivatives that keep only its arguments and compute the rest again.

    Memory is traded for time: of a chain of n functions, each with checkpoint, a gradient keeps n
    arguments and the intermediate values of one.

    Args:
        fun: The function, of trees of arrays. It is traced, so it cannot branch on their values.
        prevent_cse: Whether the compiler is kept from undoing the trade. False saves it work inside
            `scan`, where it cannot undo it.
        policy: Says which intermediate values are kept all the same (see
            `weft.checkpoint_policies`); None keeps none.
        static_argnums: The positions of arguments that are handed on as they are, untraced.

    >>> import weft, weft.numpy as jnp
    >>> weft.grad(weft.checkpoint(lambda x: jnp.sin(jnp.sin(x))))(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    name = check_function("checkpoint", fun)
    _check_policy(policy)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @api_boundary("checkpoint")
    def rematerialized(*args: P.args, **kwargs: P.kwargs) -> R:
        static = {_place(i, args, name) for i in numbers}
        given = [x for i, x in enumerate(args) if i not in static]
        if has_references(tree.leaves((given, kwargs))):
            function, rest = _closing_over(fun, name, static, args, kwargs)
            return checkpoint(function, prevent_cse=prevent_cse, policy=policy)(*rest)
        leaves, in_tree = tree.flatten((given, kwargs))
        leaves = [user_value(x) for x in beside_float64(leaves)]

        def with_static(function: Callable[..., Any], dynamic: Any, keywords: Any) -> Any:
            rest = iter(dynamic)
            full = [x if i in static else next(rest) for i, x in enumerate(args)]
            return function(*full, **keywords)

        types = [type_of(x) for x in leaves]
        traced = trace_body("checkpoint", fun, in_tree, types, with_static, references=True)
        warn_of_rounding(f"checkpoint of {name}", traced.jaxpr, [*traced.consts, *leaves])
        # `again` marks a jaxpr that computes something a second time.
        params = {"policy": policy, "prevent_cse": prevent_cse, "again": False}
        call = pure_call(traced.jaxpr, traced.consts)
        outs = remat_p.bind(*call.consts, *leaves, jaxpr=call.jaxpr, **params)
        result: R = traced.out_tree.unflatten(call.finish(outs))
        return result

    return like(fun, rematerialized)


def _closing_over(
    fun: Callable[P, R], name: str, static: set[int], args: Any, kwargs: Any
) -> tuple[Callable[..., R], Any]:
    """A function closed over the static arguments and the references, and its arguments."""

    def full(dynamic: Any, keywords: Any) -> R:
        return fun(*[args[i] if i in static else x for i, x in enumerate(dynamic)], **keywords)

    full.__name__ = name
    given = [None if i in static else x for i, x in enumerate(args)]
    return as_closure("checkpoint", full, (given, kwargs))


def _check_policy(policy: Any) -> None:
    if policy is not None and not callable(policy):
        message, got = "checkpoint takes a function as its policy", f"{policy!r:.100}"
        wanted = "one of weft.checkpoint_policies, or None"
        fix = Fix("policy", "pass policy=weft.checkpoint_policies.dots_saveable")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if policy in MAKERS_BY_NAME:
        message, got = "checkpoint got what makes a policy as its policy", policy.__name__
        fix = Fix("call", f"call it with the names: {got}('a')")
        raise WeftTypeError(message, got=got, wanted="a policy", fix=fix)


def _place(i: int, args: tuple[Any, ...], name: str) -> int:
    if not -len(args) <= i < len(args):
        message = f"checkpoint of {name}: static_argnums names argument {i} of {len(args)}"
        got = f"static_argnums={i} and {len(args)} positional arguments"
        wanted = "the number of a positional argument"
        fix = Fix("static_argnums", "leave it out, or pass the argument by position")
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    return i % len(args)


def remat_steps(*args: Any, jaxpr: Jaxpr, again: bool, **params: Any) -> Steps:
    second = ", computed again" if again else ""
    yield f"the checkpoint of {jaxpr.name}{second}", jaxpr, args


def remat_linearize(primals: Values, tangents: Values, *, jaxpr: Jaxpr, **params: Any) -> Derived:
    policy = params["policy"]
    nonzero, given = nonzero_tangents(tangents)
    split = functools.partial(split_recomputing, jaxpr, nonzero, policy)
    key = ("remat_linearize", nonzero, policy)
    first, second, reads, marks = jaxpr.memoize(key, split) if is_constant(policy) else split()
    outs = remat_p.bind(*primals, jaxpr=first, **params)
    n = len(jaxpr.outputs)
    tangents_out: list[Any] = []
    if any(marks):
        operands = [*keep_marked(reads, primals), *outs[n:], *given]
        tangents_out = remat_p.bind(*operands, jaxpr=second, **(params | {"again": True}))
    return outs[:n], merge_zeros(marks, tangents_out, jaxpr.out_types)


def split_recomputing(
    jaxpr: Jaxpr, nonzero: Flags, policy: Policy | None
) -> tuple[Jaxpr, Jaxpr, list[bool], Flags]:
    """The jaxpr of the results and the values to save; the linear jaxpr that recomputes the other
    residuals; which inputs that reads; which results have tangents."""
    split = linearize_jaxpr(inline_jits(jaxpr) if policy is not None else jaxpr, nonzero)
    primal, n = split.primal, len(jaxpr.outputs)
    residuals = split.residuals(primal.inputs, primal.outputs)
    eqns, saved, forward = recompute(primal.eqns, residuals, policy)
    eqns, _ = dce_equations(eqns, residuals)
    read = {x for eqn in eqns for x in eqn.inputs} | set(residuals)
    reads = [var in read for var in primal.inputs]
    again = checked(
        Jaxpr([*keep_marked(reads, primal.inputs), *saved], eqns, residuals, 0, jaxpr.name)
    )

    def function(*values: Any) -> list[Any]:
        k = len(again.inputs)
        return eval_jaxpr(split.linear, (), *eval_jaxpr(again, (), *values[:k]), *values[k:])

    tangent_types = [t.tangent() for t in keep_marked(nonzero, jaxpr.in_types)]
    second = rebuild(function, [*again.in_types, *tangent_types], jaxpr.name, "checkpoint")
    whole = Jaxpr(primal.inputs, forward, [*primal.outputs[:n], *saved], 0, jaxpr.name)
    first, _ = dce_jaxpr(whole, (True,) * len(whole.outputs), True)
    return first, second, reads, split.nonzero_out


def recompute(
    eqns: Sequence[Equation], wanted: Sequence[Var], policy: Policy | None
) -> tuple[list[Equation], list[Var], list[Equation]]:
    """Splits equations for recomputing the wanted values.

    Returns the equations that compute them again; the values that these start from besides the
    inputs (those that the policy saves, and results of effects); and all equations, in which scans
    and conditionals also return the values saved inside. A value saved in another kind of
    memory is moved there by the last equations and back by the first.
    """
    needed = set(wanted)
    again: list[Equation] = []
    saved: list[Var] = []
    forward: list[Equation] = []
    for whole in reversed(eqns):
        eqn = without_debug_effects(whole)
        if eqn is None:
            forward.append(whole)
            continue
        flags = [True] * len(eqn.outputs) if eqn.effects else saveable(eqn, policy)
        read = [var in needed for var in eqn.outputs]
        moved: list[Var] = []
        for v, flag in keep_marked(read, list(zip(eqn.outputs, flags, strict=True))):
            if isinstance(flag, Offloadable):
                out, back = transfers(v, flag, eqn)
                forward.append(out)
                again.append(back)
                moved.append(v)
                saved += out.outputs
            elif flag:
                saved.append(v)
        forward.append(whole)
        if not any(drop_marked(flags, read)):
            continue
        if eqn.primitive in _HOLDING and policy is not None:
            split = recompute_scan if eqn.primitive is scan_p else recompute_cond
            forward[-1], eqn, inside = split(whole, eqn, policy, read)
            saved += [v for v in inside if v not in saved]
        # Saved results of an equation that runs again are inputs: they are not bound a second time.
        outputs = [Var(v.type) if v in saved or v in moved else v for v in eqn.outputs]
        again.append(eqn if outputs == list(eqn.outputs) else eqn.replace(outputs=outputs))
        needed.update(x for x in eqn.inputs if type(x) is Var)
    return again[::-1], saved, forward[::-1]


def transfers(value: Var, where: Offloadable, eqn: Equation) -> tuple[Equation, Equation]:
    """The equations that move a result to another kind of memory, and back."""
    place = Var(value.type)
    there = {"kind": where.dst, "back": where.src}
    back = {"kind": where.src, "back": where.dst}
    return (
        Equation(in_memory_p, [value], there, [place], eqn.source),
        Equation(in_memory_p, [place], back, [value], eqn.source),
    )


def recompute_scan(
    whole: Equation, eqn: Equation, policy: Policy, read: Sequence[bool]
) -> tuple[Equation, Equation, list[Var]]:
    """A scan that also stacks the values that the policy saves of each step, the scan that reads
    these instead of recomputing them, and the stacked values."""
    # `whole` has the debug effects: the forward scan keeps them, the other one does not.
    body: Jaxpr = whole.params["jaxpr"]
    n = eqn.params["num_carry"]
    used = [*body.outputs[:n], *keep_marked(read[n:], body.outputs[n:])]
    results = [atom for atom in used if type(atom) is Var]
    inner, inside, forward = recompute(body.eqns, results, policy)
    if not inside:
        return whole, eqn, []
    there = dict(zip(body.outputs[n:], eqn.outputs[n:], strict=True))
    fresh = [v for v in inside if v not in there]
    made = {v: Var(stacked_type(v.type, eqn.params["length"])) for v in fresh}
    stacked = [made[v] if v in made else there[v] for v in inside]
    first = Jaxpr(body.inputs, forward, [*body.outputs, *fresh], 0, body.name)
    second = Jaxpr([*body.inputs, *inside], inner, used, 0, body.name)
    return (
        whole.replace(
            params=whole.params | {"jaxpr": checked(first)},
            outputs=[*whole.outputs, *(made[v] for v in fresh)],
        ),
        eqn.replace(
            inputs=[*eqn.inputs, *stacked],
            outputs=[*eqn.outputs[:n], *keep_marked(read[n:], eqn.outputs[n:])],
            params=eqn.params | {"jaxpr": checked(second)},
        ),
        stacked,
    )


def recompute_cond(
    whole: Equation, eqn: Equation, policy: Policy, read: Sequence[bool]
) -> tuple[Equation, Equation, list[Var]]:
    """A conditional that also returns the values that the policy saves in its branches, in common
    slots; the conditional that reads these; and the slots."""
    branches: Sequence[Jaxpr] = whole.params["branches"]
    used = [keep_marked(read, branch.outputs) for branch in branches]
    parts = [
        recompute(branch.eqns, [x for x in outputs if type(x) is Var], policy)
        for branch, outputs in zip(branches, used, strict=True)
    ]
    slots = ResidualSlots([[v.type for v in inside] for _, inside, _ in parts])
    places = [Var(type) for type in slots.types]
    if not places:
        return whole, eqn, []

    def branch_of(b: int, first: bool) -> Jaxpr:
        branch, (inner, inside, forward) = branches[b], parts[b]
        n, name = len(branch.outputs), branch.name
        saving = Jaxpr(branch.inputs, forward, [*branch.outputs, *inside], 0, name)
        reading = Jaxpr([*branch.inputs, *inside], inner, used[b], 0, name)

        def function(*values: Any) -> list[Any]:
            if first:
                outs = eval_jaxpr(saving, (), *values)
                return [*outs[:n], *slots.fill(b, outs[n:])]
            k = len(branch.inputs)
            return eval_jaxpr(reading, (), *values[:k], *slots.pick(b, values[k:]))

        types = branch.in_types if first else [*branch.in_types, *slots.types]
        return rebuild(function, types, name, "cond")

    every = range(len(branches))
    return (
        whole.replace(
            params=whole.params | {"branches": tuple([branch_of(b, True) for b in every])},
            outputs=[*whole.outputs, *places],
        ),
        eqn.replace(
            inputs=[*eqn.inputs, *places],
            outputs=keep_marked(read, eqn.outputs),
            params=eqn.params | {"branches": tuple([branch_of(b, False) for b in every])},
        ),
        places,
    )


# Primitives into which policies see: those that hold the equations of a loop or of branches.
_HOLDING = (scan_p, cond_p)


def inline_jits(jaxpr: Jaxpr) -> Jaxpr:
    """Inlines jitted functions, also in loops and branches: policies see their equations."""

    def make() -> Jaxpr:
        if not any(eqn.primitive in (jit_p, *_HOLDING) for eqn in jaxpr.eqns):
            return jaxpr

        def function(*values: Any) -> list[Any]:
            env: dict[Any, Any] = dict(zip(jaxpr.inputs, values, strict=True))

            def read(x: Any) -> Any:
                return x.value if type(x) is Literal else env[x]

            for eqn in jaxpr.eqns:
                args = [read(x) for x in eqn.inputs]
                if eqn.primitive is jit_p:
                    outs: Any = eval_jaxpr(inline_jits(eqn.params["jaxpr"]), (), *args)
                else:
                    params = eqn.params
                    if eqn.primitive in _HOLDING:
                        params = map_jaxprs(inline_jits, params)
                    with sources.override(eqn.source):
                        outs = eqn.primitive.bind(*args, **params)
                    outs = outs if eqn.primitive.multiple_results else [outs]
                env.update(zip(eqn.outputs, outs, strict=True))
            return [read(x) for x in jaxpr.outputs]

        return rebuild(function, jaxpr.in_types, jaxpr.name, "checkpoint")

    return jaxpr.memoize("inlined", make)


def transpose_remat(jaxpr: Jaxpr, linear: Flags, nonzero: Flags) -> tuple[Jaxpr, Flags]:
    """`transpose_jaxpr` for jaxprs whose equations may also compute nonlinear values. In the later
    part of a partial evaluation, which recomputes, a branch or a loop returns values beside
    tangents. They are computed before the transpose."""
    key = ("remat_transpose", linear, nonzero)
    return jaxpr.memoize(key, lambda: transposed(jaxpr, linear, nonzero))


def transposed(jaxpr: Jaxpr, linear: Flags, nonzero: Flags) -> tuple[Jaxpr, Flags]:
    if not any(eqn.primitive in rules.partial_eval for eqn in jaxpr.eqns):
        return transpose_jaxpr(jaxpr, linear, nonzero)
    split = partial_eval_jaxpr(jaxpr, linear)
    residual_types = split.residual_types
    flags = (False,) * len(residual_types) + (True,) * sum(linear)
    backward, reached = transpose_jaxpr(
        split.unknown, flags, tuple(keep_marked(split.unknown_out, nonzero))
    )
    known_types = drop_marked(linear, jaxpr.in_types)
    # A known result has no part in the derivative, whatever its cotangent.
    used = keep_marked(nonzero, split.unknown_out)

    def function(*values: Any) -> list[Any]:
        n = len(known_types)
        known = eval_jaxpr(split.known, (), *values[:n])
        residuals = known[len(known) - len(residual_types) :]
        return eval_jaxpr(backward, (), *residuals, *keep_marked(used, values[n:]))

    types = [*known_types, *keep_marked(nonzero, jaxpr.out_types)]
    return rebuild(function, types, jaxpr.name, "checkpoint"), reached


def remat_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    split = partial_eval_jaxpr(eqn.params["jaxpr"], tuple(unknown))
    if all(split.unknown_out) or eqn.effects:
        return all_unknown(eqn)
    # No residuals are handed over: the second part computes what it needs again.
    dce = rules.dce[remat_p]
    known = dce(eqn, [not flag for flag in split.unknown_out])[1]
    return SplitEquation(known, dce(eqn, split.unknown_out)[1], split.unknown_out, [])


def remat_lower(
    context: Any, *values: Any, jaxpr: Jaxpr, prevent_cse: bool, again: bool, **params: Any
) -> list[Any]:
    if again and prevent_cse and values:
        # The compiler may not look through the barrier: so it finds no common subexpressions, and
        # starts computing again only when all operands, the cotangents among them, are there.
        values = tuple(stablehlo.optimization_barrier(values))
    return list(context.lower_jaxpr(jaxpr, values, "checkpoint"))


holds_one_jaxpr(
    OneJaxpr(remat_p, describe=lambda params: "checkpoint", transposed=transpose_remat),
    hoist=hoist_program,
    impl=functools.partial(run_as_one, remat_p, False),
    steps=remat_steps,
    linearize=remat_linearize,
    partial_eval=remat_partial_eval,
    lower=remat_lower,
)
