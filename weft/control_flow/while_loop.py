"""`while_loop`: a loop that runs as long as a condition on its carried values holds.

The number of steps is known only when it runs. So it has forward derivatives, where tangents are
carried beside the values, and none in reverse, for which every step's residuals would have to be
kept: where bounds are known, `fori_loop` becomes a `scan`, which has both. Under `vmap` with a
mapped condition the loop runs until that fails for every element, and elements that are finished
keep their values. Where the body has effects, elements run one after the other instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.base.util import Flags, keep_marked, partition
from weft.control_flow.body_tracing import (
    LoopWithReferences,
    ProgramPrimitive,
    check_carry_structure,
    close_carry,
    permute_jaxpr,
    run_as_one,
    trace_body,
    trace_loop_body,
)
from weft.control_flow.branches import map_in_order, select_rows
from weft.control_flow.in_python import in_python, run_while
from weft.control_flow.loop_parts import fixpoint, is_mapped, moved_to_front
from weft.control_flow.loops import typed_leaves
from weft.control_flow.progress import ProgressArgument, count_steps, teller_of
from weft.core import rules
from weft.core.access_pattern import Inner, Reads, full_read
from weft.core.check import check_operands_fit, checked
from weft.core.inner_programs import InnerProgram, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Steps, Var, eval_jaxpr
from weft.core.rules import (
    AxisData,
    CastOperand,
    Derived,
    Dims,
    Hoisted,
    Mapped,
    Params,
    Retyped,
    Values,
)
from weft.core.shared_jaxprs import emits_jaxprs
from weft.core.types import ArrayType, type_of
from weft.errors import (
    Fix,
    JaxprError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.interpreters.hoist import cast_to, hoist_casts, pvary_jaxpr, varying_along
from weft.interpreters.jvp import jvp_jaxpr, merge_zeros, nonzero_tangents
from weft.interpreters.one_jaxpr import smaller_equation
from weft.interpreters.partial_eval import (
    all_unknown,
    dce_jaxpr,
    drop_debug_effects,
    partial_eval_jaxpr,
)
from weft.interpreters.rounded_inputs import warn_of_rounding
from weft.interpreters.staging import check_function, function_name, rebuild
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.result_layouts import keep_layouts
from weft.ops.collectives.named_axes import check_silent
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.layout_constraint import constraint_equation, row_major_entry
from weft.ops.structural.tangents import instantiate
from weft.refs.discharge import array_in, discharge, has_references
from weft.tracing.traces import TracedBody
from weft.typing import ArrayLike

Carry = TypeVar("Carry")

while_p = ProgramPrimitive("while")
emits_jaxprs.add(while_p)


# Carried numbers become arrays; the type of any other carry is that of the functions.
@overload
def while_loop(
    cond_fun: Callable[[Array], Any],
    body_fun: Callable[[Array], ArrayLike],
    init_val: ArrayLike,
    *,
    progress: ProgressArgument = ...,
) -> Array: ...
@overload
def while_loop(
    cond_fun: Callable[[Carry], Any],
    body_fun: Callable[[Carry], Carry],
    init_val: Any,
    *,
    progress: ProgressArgument = ...,
) -> Carry: ...
@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    progress: ProgressArgument = None,
) -> Any:
    """Runs `val = body_fun(val)` from `init_val` while `cond_fun(val)` holds; returns the last one.

    The loop has forward derivatives; for `grad`, use `fori_loop` with known bounds or `scan`.

    Args:
        cond_fun: From the carried tree to a boolean scalar: whether to go on.
        body_fun: From the carried tree to the next one.
        init_val (tree of arrays): The first one. The tree keeps its structure, shapes and dtypes;
            Python numbers in it take the dtype that comes out.
        progress: Tells how far the loop is, as that of `scan`; a function gets None as the number
            of all steps, until the loop has ended.

    Raises TreeError or WeftTypeError for a carry that changes, leaf by leaf, or a condition that is
    no boolean scalar.

    >>> import weft
    >>> weft.lax.while_loop(lambda x: x < 100, lambda x: 2 * x, 1)
    Array(128, dtype=int32, weak_type=True)
    """
    for what, function in (("condition", cond_fun), ("body", body_fun)):
        check_function("while_loop", function, f"as its {what}", "a function of the carried values")
    teller = teller_of("while_loop", body_fun, progress)
    if teller is not None:
        typed_leaves("while_loop", function_name(body_fun), "init_val", init_val)
        steps, result = while_loop(*count_steps(teller, cond_fun, body_fun, init_val))
        teller.end(steps)
        return result
    if in_python():
        init_val, ended = run_while(cond_fun, body_fun, init_val)
        if ended:
            return init_val
    return run_while_loop("while_loop", cond_fun, body_fun, init_val)


def run_while_loop(
    what: str, cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Runs `while_loop` under the name `what`, which error messages show."""
    name = function_name(body_fun)
    leaves, types, carry_tree = typed_leaves(what, name, "init_val", init_val)
    check = partial(check_carry_structure, what, name, carry_tree)
    body = trace_loop_body(what, body_fun, (carry_tree,), types, (), check)
    in_tree = tree.treedef_tuple((carry_tree,))
    condition = trace_body(what, cond_fun, in_tree, body.carry_types, references=True)
    _check_condition(function_name(cond_fun), condition)
    warn_of_rounding(f"{what} of {name}", body.jaxpr, [*body.consts, *leaves])
    pure = body.with_references()
    test, consts = _test_with_references(function_name(cond_fun), condition, pure)
    carry = [*body.start(leaves), *pure.arrays()]
    outs = bind_while(test, pure.jaxpr, consts, pure.consts, carry)
    pure.write(outs[len(leaves) :])
    return carry_tree.unflatten(outs[: len(leaves)])


def _test_with_references(
    name: str, condition: TracedBody, body: LoopWithReferences
) -> tuple[Jaxpr, list[Any]]:
    """The condition on the arrays of references, and its other closed-over values."""
    if not body.refs and not has_references(condition.consts):
        return condition.jaxpr, condition.consts
    found = discharge(condition.jaxpr)
    if found.written:
        message = f"while_loop: the condition {name} writes a reference"
        got = f"a write to a reference of type {condition.consts[found.written[0]].type}"
        fix = Fix("body", "write it in the body, and read it in the condition")
        wanted = "a condition that only reads"
        raise WeftNotImplementedError(message, got=got, wanted=wanted, fix=fix)
    count = len(condition.consts)
    carried = [id(ref) for ref in body.refs]
    own = {id(value): i for i, value in enumerate(condition.consts)}
    kept = [i for i, value in enumerate(condition.consts) if id(value) not in carried]
    at = [own.get(identity) for identity in carried]

    def make() -> Jaxpr:
        jaxpr = found.jaxpr
        last = [
            Var(ref.type.inner) if i is None else jaxpr.inputs[i]
            for i, ref in zip(at, body.refs, strict=True)
        ]
        inputs = [*(jaxpr.inputs[i] for i in kept), *jaxpr.inputs[count:], *last]
        return Jaxpr(inputs, jaxpr.eqns, jaxpr.outputs, 0, jaxpr.name)

    types = tuple(ref.type for ref in body.refs)
    test = condition.jaxpr.memoize(("with references", tuple(kept), tuple(at), types), make)
    return test, [array_in(condition.consts[i]) for i in kept]


def _check_condition(name: str, condition: TracedBody) -> None:
    got = condition.out_tree
    if tree.treedef_is_leaf(got):
        (got,) = condition.jaxpr.out_types
        if not got.shape and got.dtype == dtypes.bool_:
            return
    message = f"while_loop: the condition {name} does not return a boolean scalar"
    advice = "return the boolean alone: not in a tuple or another tree, and not None"
    if isinstance(got, ArrayType):
        advice = "compare (x < n), and reduce an array with .any() or .all()"
    raise WeftTypeError(message, got=str(got), wanted="bool[]", fix=Fix("condition", advice))


def bind_while(
    condition: Jaxpr, body: Jaxpr, cond_consts: Any, body_consts: Any, carry: Sequence[Any]
) -> list[Any]:
    """Applies the primitive, after joining the types of carried values that differ."""
    closed = close_carry(body, len(body_consts), len(carry))
    if closed is not body:
        wanted = closed.in_types[len(body_consts) :]
        carry = [cast_to(x, type) for x, type in zip(carry, wanted, strict=True)]
    return list(
        while_p.bind(
            *cond_consts,
            *body_consts,
            *carry,
            cond_jaxpr=condition,
            body_jaxpr=closed,
            cond_nconsts=len(cond_consts),
            body_nconsts=len(body_consts),
        )
    )


def parts(values: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Splits operands (or marks) into constants of condition and body, and carried values."""
    n = params["cond_nconsts"]
    m = n + params["body_nconsts"]
    return list(values[:n]), list(values[n:m]), list(values[m:])


def while_steps(*args: Any, **params: Any) -> Steps:
    cond_consts, body_consts, carry = parts(args, params)
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    for i in itertools.count():
        label = f"the condition before iteration {i} of the while_loop"
        (goes_on,) = yield label, condition, [*cond_consts, *carry]
        if not goes_on:
            return
        carry = yield f"iteration {i} of the while_loop", body, [*body_consts, *carry]


def while_type(*types: ArrayType, **params: Any) -> list[ArrayType]:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = parts(types, params)
    for jaxpr, got in ((condition, [*cond_consts, *carry]), (body, [*body_consts, *carry])):
        check_operands_fit("while", got, jaxpr, "the condition or the body")
    outs: list[ArrayType] = body.out_types
    carried = body.in_types[len(body_consts) :]
    if any(a.strong() is not b.strong() for a, b in zip(carried, outs, strict=True)):
        message = "while: carried values come out with other types than they go in"
        found = ", ".join(map(str, outs))
        raise JaxprError(message, got=found, wanted=", ".join(map(str, carried)))
    return outs


def while_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    """Gives body and condition the operands' types. A condition that varies makes everything that
    the loop carries vary: devices take different numbers of steps."""
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = parts([t.varying for t in types], params)
    while True:
        body = close_carry(
            pvary_jaxpr(body, varying_along(body.in_types, [*body_consts, *carry])),
            len(body_consts),
            len(carry),
        )
        body_consts = [t.varying for t in body.in_types[: len(body_consts)]]
        carry = [t.varying for t in body.in_types[len(body_consts) :]]
        wanted = varying_along(condition.in_types, [*cond_consts, *carry])
        condition = pvary_jaxpr(condition, wanted)
        goes_on = condition.out_types[0].varying
        if all(goes_on <= own for own in [*body_consts, *carry]):
            break
        body_consts = [own | goes_on for own in body_consts]
        carry = [own | goes_on for own in carry]
    for jaxpr in (condition, body):
        check_silent("while_loop", jaxpr, goes_on)
    cond_consts = [t.varying for t in condition.in_types[: len(cond_consts)]]
    axes = [*cond_consts, *body_consts, *carry]
    operands = [t.update(varying=own) for t, own in zip(types, axes, strict=True)]
    return operands, params | {"cond_jaxpr": condition, "body_jaxpr": body}


def while_runs(eqn: Equation) -> InnerPrograms:
    programs = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    return InnerPrograms(tuple([InnerProgram(jaxpr, None) for jaxpr in programs]))


def while_hoist(params: Params) -> Hoisted | None:
    """Casts constants of the body instead of their inputs in it."""
    body, n, k = params["body_jaxpr"], params["cond_nconsts"], params["body_nconsts"]
    found = hoist_casts([body], (True,) * k + (False,) * len(body.outputs))
    if found is None:
        return None
    is_const = [cast.operand < k for cast in found.operands]
    of_consts, carry = partition(is_const, range(len(is_const)))
    fixed = {
        "body_jaxpr": permute_jaxpr(found.jaxprs[0], [*of_consts, *carry]),
        "body_nconsts": len(of_consts),
    }
    casts = [found.operands[i] for i in (*of_consts, *carry)]
    moved = [cast._replace(operand=cast.operand + n) for cast in casts]
    return [*map(CastOperand, range(n)), *moved], params | fixed


def tangent_loop(primals: Values, tangents: Values, params: Params) -> tuple[list[Any], Flags]:
    """Runs the loop that carries tangents beside the values. Returns its results and tangents, and
    which values have them; those that the condition alone reads need none."""
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = parts(primals, params)
    _, consts_t, carry_t = parts(tangents, params)
    of_consts, given = nonzero_tangents(consts_t)
    start, _ = nonzero_tangents(carry_t)
    carried, (program, _) = fixpoint(
        start,
        lambda carried: jvp_jaxpr(body, (*of_consts, *carried), carried),
        lambda made: made[1],
    )
    a, b, c = len(body_consts), len(carry), sum(of_consts)
    order = [*range(a), *range(a + b, a + b + c), *range(a, a + b)]
    program = permute_jaxpr(program, [*order, *range(a + b + c, len(program.inputs))])
    test = with_unused(condition, [v.type for v in program.inputs[a + c + b :]])
    moving = map(instantiate, keep_marked(carried, carry_t))
    outs = bind_while(test, program, cond_consts, [*body_consts, *given], [*carry, *moving])
    return outs, carried


def with_unused(jaxpr: Jaxpr, types: Sequence[ArrayType]) -> Jaxpr:
    """The jaxpr with further inputs that it does not read."""

    def make() -> Jaxpr:
        return Jaxpr([*jaxpr.inputs, *map(Var, types)], jaxpr.eqns, jaxpr.outputs, 0, jaxpr.name)

    return jaxpr.memoize(("with_unused", tuple(types)), make)


def while_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    outs, carried = tangent_loop(primals, tangents, params)
    n = len(carried)
    return outs[:n], merge_zeros(carried, outs[n:], [type_of(x) for x in outs[:n]])


def while_linearize(primals: Values, tangents: Values, **params: Any) -> Derived:
    # The number of steps is not known, so their residuals cannot be stored: the linear jaxpr is
    # the whole loop with tangents, from the same first values.
    outs = list(while_p.bind(*primals, **params))
    quiet = {name: drop_debug_effects(params[name]) for name in ("cond_jaxpr", "body_jaxpr")}
    if any(jaxpr.effects for jaxpr in quiet.values()):
        raise _acts_twice(params)
    found, carried = tangent_loop(primals, tangents, params | quiet)
    return outs, merge_zeros(carried, found[len(carried) :], [type_of(x) for x in outs])


def _acts_twice(params: dict[str, Any]) -> WeftNotImplementedError:
    effects = params["body_jaxpr"].effects | params["cond_jaxpr"].effects
    text = "differentiate with weft.jvp, use weft.lax.scan, or take the io_callback out"
    return WeftNotImplementedError(
        "a while_loop that calls the host with io_callback is linearized: its linear part runs "
        "the loop again, and would act a second time",
        operation="while_loop",
        got=f"a loop with the effects {', '.join(sorted(map(str, effects)))}",
        wanted="a loop without effects other than debug.print and debug.callback",
        fix=Fix("forward", text),
    )


def while_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    raise WeftValueError(
        "reverse-mode differentiation of a while_loop (or a fori_loop whose bounds are traced): "
        "the number of its steps is not known, and their residuals would have to be kept",
        operation="while_loop",
        got=f"a loop over {len(params['body_jaxpr'].outputs)} carried values",
        wanted="a loop of known length",
        fix=Fix(
            "known_length",
            "use weft.lax.fori_loop with Python integers as bounds, or weft.lax.scan; or "
            "differentiate forwards (weft.jvp, weft.jacfwd); or give the loop a derivative of its "
            "own (weft.custom_vjp, weft.lax.custom_root)",
        ),
    )


def while_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    cond_consts, body_consts, carry = parts(args, params)
    of_cond, of_body, of_carry = parts(dims, params)

    def in_dims(carried: Flags) -> list[int | None]:
        return [0 if flag else None for flag in carried]

    carried, (mapped, _) = fixpoint(
        is_mapped(of_carry),
        lambda carried: vmap_jaxpr(body, axis, (*of_body, *in_dims(carried)), carried),
        lambda made: is_mapped(made[1]),
    )
    test, (test_dim,) = vmap_jaxpr(condition, axis, (*of_cond, *in_dims(carried)))
    if test_dim is not None:
        if condition.effects or body.effects:
            return map_in_order(axis, args, dims, partial(while_p.bind, **params), "while")
        # Elements stop at different times, so all that a step changes differs between them.
        steps = zip(body.inputs[len(body_consts) :], body.outputs, is_mapped(of_carry), strict=True)
        carried = tuple(flag or after is not before for before, after, flag in steps)
        test, _ = vmap_jaxpr(condition, axis, (*of_cond, *in_dims(carried)), (True,))
        mapped, _ = vmap_jaxpr(body, axis, (*of_body, *in_dims(carried)), carried)
    carry = moved_to_front(carried, carry, of_carry, axis)
    if test_dim is not None:
        body_consts = [*cond_consts, *body_consts]
        test, mapped = select_running(test, mapped, len(cond_consts))
    return bind_while(test, mapped, cond_consts, body_consts, carry), in_dims(carried)


def select_running(test: Jaxpr, body: Jaxpr, cond_nconsts: int) -> tuple[Jaxpr, Jaxpr]:
    """Condition and body of a loop over all elements, which goes on while any of them does and
    changes only those. The body takes the condition's constants before its own."""

    def make() -> tuple[Jaxpr, Jaxpr]:
        n, m = cond_nconsts, len(body.inputs) - len(body.outputs)

        def any_goes_on(*values: Any) -> list[Any]:
            return [reduce_or(eval_jaxpr(test, (), *values)[0], (0,))]

        def advance(*values: Any) -> list[Any]:
            own, carry = values[: n + m], values[n + m :]
            (goes_on,) = eval_jaxpr(test, (), *own[:n], *carry)
            steps = zip(eval_jaxpr(body, (), *own[n:], *carry), carry, strict=True)
            return [x if x is old else select_rows(goes_on, x, old) for x, old in steps]

        types = test.in_types[:n] + body.in_types
        return (
            rebuild(any_goes_on, test.in_types, test.name, "vmap"),
            rebuild(advance, types, body.name, "vmap"),
        )

    return body.memoize(("selecting", test, cond_nconsts), make)


def while_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    params = eqn.params
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    of_cond, of_body, of_carry = parts(unknown, params)

    carried, _ = fixpoint(
        of_carry,
        lambda carried: partial_eval_jaxpr(body, (*of_body, *carried), carried),
        lambda split: split.unknown_out,
    )
    reads = dce_jaxpr(condition, (True,), True)[1]
    depends = any(keep_marked(reads, [*of_cond, *carried]))
    if all(carried) or depends or eqn.effects:
        return all_unknown(eqn)
    # The known values do not depend on the rest, and run in a loop of their own; the rest needs
    # them at every step, so its loop computes them again.
    used = tuple(not flag for flag in carried)
    known = while_dce(eqn, used)[1]
    fresh = [v if flag else Var(v.type) for v, flag in zip(eqn.outputs, carried, strict=True)]
    return SplitEquation(known, eqn.replace(outputs=fresh), carried, [])


def while_dce(eqn: Equation, used: Sequence[bool]) -> tuple[list[bool], Equation | None]:
    params = eqn.params
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    if not any(used) and not body.effects and not condition.effects:
        return [False] * len(eqn.inputs), None
    a, b = params["cond_nconsts"], params["body_nconsts"]
    test_reads = dce_jaxpr(condition, (True,), True)[1]

    carried, (smaller, reads) = fixpoint(
        [u or r for u, r in zip(used, test_reads[a:], strict=True)],
        lambda carried: dce_jaxpr(body, carried, True),
        lambda made: made[1][b:],
    )
    keep_test = (*test_reads[:a], *carried)
    keep_body = (*reads[:b], *carried)
    kept = [*keep_test[:a], *keep_body[:b], *carried]
    if all(kept) and len(smaller.eqns) == len(body.eqns):
        return kept, eqn
    test = dce_jaxpr(condition, (True,), True)[0]
    # Values that are carried only for the loop itself have results that are not read.
    outputs = [v if use else Var(v.type) for v, use in zip(eqn.outputs, used, strict=True)]
    params = {
        "cond_jaxpr": permute_jaxpr(test, keep_marked(keep_test, range(len(keep_test)))),
        "body_jaxpr": permute_jaxpr(smaller, keep_marked(keep_body, range(len(keep_body)))),
        "cond_nconsts": sum(keep_test[:a]),
        "body_nconsts": sum(keep_body[:b]),
    }
    return smaller_equation(eqn.replace(outputs=outputs), kept, carried, params)


# The assumed number of steps of a loop, which only its values decide.
STEPS = 10


def while_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """Constants are read at every step; carried values exist as a whole."""
    found: list[Reads] = []
    of_cond, of_body, carry = parts(eqn.inputs, eqn.params)
    for name, consts in (("cond_jaxpr", of_cond), ("body_jaxpr", of_body)):
        jaxpr = eqn.params[name]
        reads = inner(jaxpr, [(full_read(x.type),) for x in jaxpr.outputs])
        found += [tuple(r.repeated(STEPS) for r in own) for own in reads[: len(consts)]]
    return [*found, *((full_read(x.type),) for x in carry)]


def while_keep_layouts(eqn: Equation, layouts: Sequence[Any], partitioned: bool) -> list[Equation]:
    if partitioned:
        return [eqn]
    of_body = parts(layouts, eqn.params)[1]
    inputs, before = row_major_entry(eqn.inputs, layouts)
    _, given, carry = parts(inputs, eqn.params)
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    inner = keep_layouts(body, [*of_body, *(None for _ in carry)])
    n, m = len(given), eqn.params["cond_nconsts"]
    kept = is_mapped(of_body)
    # XLA gives a carried value one layout, and takes it from the body's results.
    entering, own = partition(kept, inner.inputs[:n])
    given_kept, given_own = partition(kept, given)
    leaving = [Var(var.type) for var in entering]
    constraints = list(map(constraint_equation, entering, leaving, keep_marked(kept, of_body)))
    carried = Jaxpr(
        [*own, *inner.inputs[n:], *entering],
        [*inner.eqns, *constraints],
        [*inner.outputs, *leaving],
        0,
        inner.name,
    )
    made = eqn.replace(
        inputs=[*inputs[:m], *given_own, *carry, *given_kept],
        outputs=[*eqn.outputs, *(Var(var.type) for var in entering)],
        params=eqn.params
        | {
            "body_nconsts": len(own),
            "body_jaxpr": checked(carried),
            "cond_jaxpr": checked(with_unused(condition, [var.type for var in entering])),
        },
    )
    return [*before, made]


def while_lower(context: Any, *operands: Any, **params: Any) -> list[Any]:
    cond_consts, body_consts, carry = parts(operands, params)

    def condition(state: list[Any]) -> Any:
        return context.lower_jaxpr(params["cond_jaxpr"], [*cond_consts, *state], "condition")[0]

    def body(state: list[Any]) -> list[Any]:
        return context.lower_jaxpr(params["body_jaxpr"], [*body_consts, *state], "while")

    return list(context.while_(carry, condition, body))


rules.impl.register(while_p, partial(run_as_one, while_p, False))
rules.type_rule.register(while_p, while_type)
rules.retype.register(while_p, while_retype)
rules.hoist.register(while_p, while_hoist)
rules.runs.register(while_p, while_runs)
rules.jvp.register(while_p, while_jvp)
rules.linearize.register(while_p, while_linearize)
rules.transpose.register(while_p, while_transpose)
rules.vmap.register(while_p, while_vmap)
rules.partial_eval.register(while_p, while_partial_eval)
rules.dce.register(while_p, while_dce)
rules.lower.register(while_p, while_lower)
rules.steps.register(while_p, while_steps)
rules.reads.register(while_p, while_reads)
rules.keep_layouts.register(while_p, while_keep_layouts)
