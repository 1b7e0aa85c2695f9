"""How `checkify` goes into operations that hold functions: loops, branches, derivatives, shard_map.

Each is applied to a function that also returns its failure. A loop carries its failure along; the
branches of a conditional return theirs in a form common to all; a custom derivative keeps its rule,
of which the failure is no part; and the devices of a shard_map return one failure each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.control_flow.checkpoint import remat_p
from weft.control_flow.cond import cond_p
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loop_parts import Loop
from weft.control_flow.scan import bind_scan, scan_p
from weft.control_flow.while_loop import bind_while, while_p
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Params, Values, Zero
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp_p
from weft.custom_derivatives.custom_primitive import Rule, mapped_at_front
from weft.custom_derivatives.custom_vjp_rules import custom_vjp_p
from weft.experimental.checkify.check_trace import (
    Categories,
    CheckTrace,
    applied_rules,
    called_rules,
    checked_program,
    checked_run,
    checked_when,
    first_element,
)
from weft.experimental.checkify.failures import FailedCheckError, Failure, Form, first_failure
from weft.interpreters.staging import rebuild
from weft.interpreters.vmap import vmap_flat
from weft.ops.collectives.all_reduce import vary
from weft.ops.structural.shape import reshape
from weft.sharding import PartitionSpec
from weft.spmd.shard_map_primitive import body_of, call_shard_map, shard_map_p


def check_one_jaxpr(
    primitive: Primitive, trace: CheckTrace, args: Values, params: Params
) -> list[Any]:
    jaxpr, form = checked_program(params["jaxpr"], trace.categories)
    return trace.take(form, primitive.bind(*args, **(params | {"jaxpr": jaxpr})))


def check_cond(trace: CheckTrace, args: Values, params: Params) -> list[Any]:
    branches: Sequence[Jaxpr] = params["branches"]
    form = Form()
    for branch in branches:
        form = form.joined(checked_program(branch, trace.categories)[1])
    if not form:
        return list(cond_p.bind(*args, **params))
    checked = tuple(
        branch.memoize(
            ("checkify", trace.categories, form),
            partial(checked_when, branch, trace.categories, form),
        )[0]
        for branch in branches
    )
    return trace.take(form, cond_p.bind(*args, branches=checked))


def joined_body(
    checked: Jaxpr, own: Form, form: Form, num_consts: int, after: Callable[..., Failure] | None
) -> Jaxpr:
    """A loop's body that carries the first failure, in the given form, before the other carried
    values. `after` returns the failure of the code after the body, given its results."""
    k = len(form.leaf_types())

    def function(*values: Any) -> list[Any]:
        consts, rest = values[:num_consts], values[num_consts + k :]
        failure = form.failure(values[num_consts : num_consts + k])
        outs = eval_jaxpr(checked, (), *consts, *rest)
        n = len(own.leaf_types())
        failure = first_failure(failure, own.failure(outs[:n]))
        if after is not None:
            failure = first_failure(failure, after(consts, outs[n:]))
        return [*failure.leaves(form), *outs[n:]]

    types = checked.in_types
    types[num_consts:num_consts] = form.leaf_types()
    return rebuild(function, types, checked.name, "checkify")


def check_scan(trace: CheckTrace, args: Values, params: Params) -> list[Any]:
    jaxpr, loop = Loop.of(params)
    checked, form = checked_program(jaxpr, trace.categories)
    if not form:
        return list(scan_p.bind(*args, **params))
    body = jaxpr.memoize(
        ("checkify", trace.categories, loop.num_consts),
        lambda: joined_body(checked, form, form, loop.num_consts, None),
    )
    consts, carry, xs = loop.split(args)
    start = form.nothing()
    inner = loop.with_counts(loop.num_consts, loop.num_carry + len(start))
    return trace.take(form, bind_scan(body, inner, consts, [*start, *carry], xs))


def check_while(trace: CheckTrace, args: Values, params: Params) -> list[Any]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, consts, carry = list(args[:n]), list(args[n : n + m]), list(args[n + m :])
    checked_condition, cond_form = checked_program(condition, trace.categories)
    checked_body, body_form = checked_program(body, trace.categories)
    form = cond_form.joined(body_form)
    if not form:
        return list(while_p.bind(*args, **params))
    k, c = len(form.leaf_types()), len(cond_form.leaf_types())
    start = form.nothing()
    if cond_form:
        outs = eval_jaxpr(checked_condition, (), *cond_consts, *carry)
        start = cond_form.failure(outs[:c]).leaves(form)

    def made() -> tuple[Jaxpr, Jaxpr]:
        def again(consts: Values, carried: Values) -> Failure:
            return cond_form.failure(eval_jaxpr(checked_condition, (), *consts[:n], *carried)[:c])

        # The condition is evaluated once more where it can fail, after the body.
        used = n if cond_form else 0
        whole = with_inputs(checked_body, condition.in_types[:used])
        after = again if cond_form else None
        joined = joined_body(whole, body_form, form, used + m, after)

        def goes_on(*values: Any) -> list[Any]:
            return eval_jaxpr(checked_condition, (), *values[:n], *values[n + k :])[c:]

        types = condition.in_types
        types[n:n] = form.leaf_types()
        return rebuild(goes_on, types, condition.name, "checkify"), joined

    new_condition, new_body = body.memoize(("checkify", trace.categories, condition, n, m), made)
    if cond_form:
        consts = [*cond_consts, *consts]
    outs = bind_while(new_condition, new_body, cond_consts, consts, [*start, *carry])
    return trace.take(form, outs)


def with_inputs(jaxpr: Jaxpr, types: Sequence[Any]) -> Jaxpr:
    """The jaxpr with further inputs in front, which it does not read."""
    if not types:
        return jaxpr
    n = len(types)
    every = [*types, *jaxpr.in_types]
    return rebuild(lambda *xs: eval_jaxpr(jaxpr, (), *xs[n:]), every, jaxpr.name, "checkify")


class CheckedRule(Rule):
    """The rule of a custom derivative whose function returns its failure before its results.
    `failed` computes that failure alone, from all operands, and has no derivative. The user's
    checks in the rule are also recorded where the function has them. Other checks are left out:
    they would compare tangents, which is not linear."""

    def __init__(self, rule: Rule, categories: Categories, failed: Callable[..., Failure]) -> None:
        super().__init__(rule.name)
        self.rule, self.failed, self.own_tangents = rule, failed, rule.own_tangents
        self.categories = categories & {FailedCheckError}

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        return self._check_rule(self.rule.jvp, primals, tangents)

    def linearize(self, primals: Values, tangents: Values) -> Derived:
        return self._check_rule(self.rule.linearize, primals, tangents)

    def _check_rule(self, derive: Callable[..., Derived], *args: Values) -> Derived:
        failure = self.failed(*args[0])
        found, (outs, tangents) = checked_run(self.categories, derive, args, self.name)
        form = failure.form
        failed = first_failure(failure, found.limit_to(form)).leaves(form)
        zeros = [Zero(type_of(x).tangent()) for x in failed]
        return [*failed, *outs], [*zeros, *tangents]

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        def failed(*values: Any) -> Failure:
            form = Form()

            def leaves(*elements: Any) -> list[Any]:
                nonlocal form
                failure = self.failed(*elements)
                form = failure.form
                return failure.leaves()

            found, places = vmap_flat(leaves, axis, values, dims, self.name)
            return form.failure(mapped_at_front(found, places, axis))

        return CheckedRule(self.rule.mapped(axis, dims), self.categories, failed)


def call_custom(
    primitive: Primitive,
    trace: CheckTrace,
    function: Callable[..., Any],
    args: Values,
    params: Params,
) -> list[Any]:
    form = Form()

    def checked(*values: Any) -> list[Any]:
        nonlocal form
        failure, outs = checked_run(trace.categories, function, values, params["name"])
        form = failure.form
        return [*failure.leaves(), *outs]

    # The function does not run where the rule does.
    def failed(*values: Any) -> Failure:
        nonlocal form
        failure = checked_run(trace.categories, function, values)[0]
        form = failure.form
        return failure

    rule = CheckedRule(params["rule"], trace.categories, failed)
    outs = primitive.call(checked, *args, **(params | {"rule": rule}))
    return trace.take(form, outs)


def check_custom(
    primitive: Primitive, trace: CheckTrace, args: Values, params: Params
) -> list[Any]:
    jaxpr = params["jaxpr"]
    checked, form = checked_program(jaxpr, trace.categories)
    if not form:
        return list(primitive.bind(*args, **params))
    function = partial(eval_jaxpr, jaxpr, ())

    def failed(*values: Any) -> Failure:
        return checked_run(trace.categories, function, values)[0]

    rule = CheckedRule(params["rule"], trace.categories, failed)
    return trace.take(form, primitive.bind(*args, **(params | {"jaxpr": checked, "rule": rule})))


def check_shard_map(trace: CheckTrace, args: Values, params: Params) -> list[Any]:
    function, out_specs = body_of(params)
    manual = params["manual"]
    form, spec = Form(), PartitionSpec()

    def body(*blocks: Any) -> list[Any]:
        nonlocal form, spec
        failure, outs = checked_run(trace.categories, function, blocks, params["name"])
        form, leaves = failure.form, failure.leaves()
        axes = manual.ordered(frozenset().union(*(type_of(x).varying for x in leaves)))
        spec = PartitionSpec(axes) if axes else PartitionSpec()
        if axes:
            leaves = [reshape(vary(x, set(axes)), (1, *type_of(x).shape)) for x in leaves]
        return [*leaves, *outs]

    def specs() -> tuple[PartitionSpec, ...]:
        return (*[spec] * len(form.leaf_types()), *out_specs())

    outs = call_shard_map(params, body, args, params["in_specs"], specs)
    count = len(form.leaf_types())
    # Of the devices that failed the first one is told of.
    leaves = first_element(outs[:count]) if count and spec else outs[:count]
    trace.add(form.failure(leaves))
    return outs[count:]


applied_rules.update(
    {
        cond_p: check_cond,
        jit_p: partial(check_one_jaxpr, jit_p),
        remat_p: partial(check_one_jaxpr, remat_p),
        scan_p: check_scan,
        while_p: check_while,
        shard_map_p: check_shard_map,
    }
)
called_rules[shard_map_p] = lambda trace, function, args, params: check_shard_map(
    trace, args, params | {"function": function}
)
for _primitive in (custom_jvp_p, custom_vjp_p):
    applied_rules[_primitive] = partial(check_custom, _primitive)
    called_rules[_primitive] = partial(call_custom, _primitive)
