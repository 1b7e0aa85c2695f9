"""`scan`: a loop of known length that carries values along and stacks one result per step.

The body is a jaxpr of (constants, carried values, elements of the scanned arrays) to (carried
values, stacked values). Every transformation of the loop is a loop over a transformed body. The
carried values that it touches are found as a fixpoint; `loop_parts` finds the residuals of a
split body. The transposed loop runs the other way and adds up the cotangents of its constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft import dtypes
from weft.base.util import Flags, drop_marked, keep_marked, partition, scatter_to_marked
from weft.control_flow.body_tracing import ProgramPrimitive, close_carry, permute_jaxpr, run_as_one
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loop_parts import (
    Loop,
    Parts,
    ResidualPlan,
    Result,
    existing,
    find_residuals,
    fixpoint,
    is_mapped,
    moved_to_front,
    plan_residuals,
    second_body,
    second_loop,
    stacked_type,
)
from weft.core import rules
from weft.core.access_pattern import Inner, Read, Reads, Step, full_read
from weft.core.check import checked, operands_do_not_fit
from weft.core.inner_programs import InnerProgram, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Steps, Var, eval_jaxpr
from weft.core.rules import AxisData, Derived, Dims, Hoisted, Mapped, Params, Retyped, Values
from weft.core.shared_jaxprs import emits_jaxprs
from weft.core.types import ArrayType, type_of
from weft.errors import JaxprError
from weft.interpreters.hoist import cast_to, hoist_casts, pvary_jaxpr, varying_along
from weft.interpreters.jvp import (
    jvp_jaxpr,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.one_jaxpr import smaller_equation
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.interpreters.residuals import choose_residuals
from weft.interpreters.staging import rebuild
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.result_layouts import keep_layouts
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.dynamic_slicing import dynamic_index_in_dim
from weft.ops.structural.extended_dtypes import physical_type
from weft.ops.structural.layout_constraint import constraint_equation, row_major_entry
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import add_tangents, instantiate, zeros
from weft.runtime import stablehlo

scan_p = ProgramPrimitive("scan")
emits_jaxprs.add(scan_p)


def bind_scan(jaxpr: Jaxpr, loop: Loop, consts: Values, carry: Values, xs: Values) -> list[Any]:
    """Applies the primitive, after joining the types of carried values that differ."""
    body = close_carry(jaxpr, loop.num_consts, loop.num_carry)
    if body is not jaxpr:
        wanted = loop.split(body.in_types)[1]
        carry = [cast_to(x, type) for x, type in zip(carry, wanted, strict=True)]
    return list(scan_p.bind(*consts, *carry, *xs, **loop.params(body)))


def scan_steps(*args: Any, **params: Any) -> Steps:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(args)
    order = range(loop.length)
    for i in reversed(order) if loop.reverse else order:
        row = [dynamic_index_in_dim(x, i, keepdims=False) for x in xs]
        outs = yield f"iteration {i} of the scan", jaxpr, [*consts, *carry, *row]
        carry = outs[: loop.num_carry]


def scan_type(*types: ArrayType, **params: Any) -> list[ArrayType]:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(types)
    wanted = loop.split(jaxpr.in_types)
    got_types = [*consts, *carry, *(t.update(shape=t.shape[1:]) for t in xs)]
    if (
        len(types) != len(jaxpr.inputs)
        or any(t.shape[:1] != (loop.length,) for t in xs)
        or [(t.shape, t.dtype) for t in got_types] != [(t.shape, t.dtype) for t in jaxpr.in_types]
    ):
        more = f", scanned ones {loop.length} times"
        raise operands_do_not_fit("scan", types, jaxpr.in_types, "the body", more)
    outs = jaxpr.out_types
    for before, after in zip(wanted[1], outs[: loop.num_carry], strict=True):
        if before.strong() is not after.strong():
            raise JaxprError(f"scan: a carried value goes in as {before} and comes out as {after}")
    stacked = [stacked_type(t, loop.length) for t in outs[loop.num_carry :]]
    return [*outs[: loop.num_carry], *stacked]


def scan_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    jaxpr, loop = Loop.of(params)
    wide = pvary_jaxpr(jaxpr, varying_along(jaxpr.in_types, [t.varying for t in types]))
    body = close_carry(wide, loop.num_consts, loop.num_carry)
    operands = [got.update(varying=t.varying) for t, got in zip(body.in_types, types, strict=True)]
    return operands, params | {"jaxpr": body}


def scan_runs(eqn: Equation) -> InnerPrograms:
    return InnerPrograms((InnerProgram(eqn.params["jaxpr"], eqn.params["length"]),))


def scan_hoist(params: Params) -> Hoisted | None:
    """Casts constants and scanned arrays instead of their inputs in the body."""
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(jaxpr.inputs)
    found = hoist_casts([jaxpr], (True,) * len(consts) + (False,) * len(carry) + (True,) * len(xs))
    if found is None:
        return None
    is_const = [cast.operand < len(consts) for cast in found.operands]
    of_consts, others = partition(is_const, range(len(is_const)))
    inner = loop.with_counts(len(of_consts), len(carry))
    body = permute_jaxpr(found.jaxprs[0], [*of_consts, *others])
    return [found.operands[i] for i in (*of_consts, *others)], inner.params(body)


def close_flags(
    jaxpr: Jaxpr,
    loop: Loop,
    flags: Flags,
    derive: Callable[[Jaxpr, Flags, Flags], Result],
    marks: Callable[[Result], Sequence[bool]],
) -> tuple[Flags, Result]:
    """The flags of operands, with those of carried values that follow (see `fixpoint`), and the
    result of `derive` for the body and the flags of its inputs and results."""
    consts, carry, xs = loop.split(flags)
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def make(carried: Flags) -> Result:
        return derive(jaxpr, (*consts, *carried, *xs), (*carried, *no_ys))

    carried, made = fixpoint(carry, make, marks)
    return (*consts, *carried, *xs), made


def scan_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(primals)
    nonzero, (program, marks) = close_flags(
        jaxpr, loop, nonzero_tangents(tangents)[0], jvp_jaxpr, lambda made: made[1]
    )
    (consts_t, carry_t, xs_t), _ = loop.partition(nonzero, tangents)
    inner = loop.with_counts(len(consts) + len(consts_t), len(carry) + len(carry_t))
    outs = bind_scan(
        interleave_tangents(program, loop, nonzero, marks),
        inner,
        [*consts, *consts_t],
        [*carry, *map(instantiate, carry_t)],
        [*xs, *xs_t],
    )
    n, k = loop.num_carry, inner.num_carry
    ys = k + len(jaxpr.outputs) - n
    results = [*outs[:n], *outs[k:ys]]
    return results, merge_zeros(marks, [*outs[n:k], *outs[ys:]], [type_of(x) for x in results])


def interleave_tangents(program: Jaxpr, loop: Loop, nonzero: Flags, marks: Flags) -> Jaxpr:
    """Reorders a jaxpr of (inputs, tangents) to (results, tangents): the tangents of each kind
    follow it (constants, carried values, scanned arrays; carried values, stacked values)."""
    n, m, k = len(nonzero), len(marks), loop.num_carry
    of_consts, of_carry, _ = loop.split(nonzero)
    tangents = loop.with_counts(sum(of_consts), sum(of_carry)).split(range(n, n + sum(nonzero)))
    pairs = zip(loop.split(range(n)), tangents, strict=True)
    inputs = [i for pair in pairs for part in pair for i in part]
    ys = m + sum(marks[:k])
    outputs = [*range(k), *range(m, ys), *range(k, m), *range(ys, m + sum(marks))]
    return permute_jaxpr(program, inputs, outputs)


def scan_linearize(primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr, loop = Loop.of(params)
    start, _ = nonzero_tangents(tangents)
    plan, linear, nonzero, marks = jaxpr.memoize(
        ("scan_linearize", start, loop), lambda: split_linear(jaxpr, loop, start)
    )
    outs, residuals = first_loop(plan, loop, loop.split(primals))
    results = outs[: len(jaxpr.outputs)]
    tangents_out: list[Any] = []
    if any(marks):
        (consts_t, carry_t, xs_t), _ = loop.partition(nonzero, tangents)
        carry_t = [instantiate(t) for t in carry_t]
        inner, operands = second_loop(plan, loop, residuals, (consts_t, carry_t, xs_t))
        tangents_out = bind_scan(linear, inner, *operands)
    return results, merge_zeros(marks, tangents_out, [type_of(x) for x in results])


def first_loop(plan: ResidualPlan, loop: Loop, parts: Parts) -> tuple[list[Any], list[Any]]:
    """Runs the first of two loops; returns its results and the residuals for the second."""
    outs = bind_scan(plan.first, loop, *parts)
    fixed = plan.invariant
    once: list[Any] = []
    if fixed.outputs:
        once = jit_p.bind(*parts[0], jaxpr=fixed, name=fixed.name, donated=())
    return outs, find_residuals(plan, loop, parts, outs, once)


def split_linear(jaxpr: Jaxpr, loop: Loop, start: Flags) -> tuple[Any, Jaxpr, Flags, Flags]:
    """The residual plan, the linear body, and which operands and results have tangents."""
    nonzero, split = close_flags(
        jaxpr, loop, start, linearize_jaxpr, lambda split: split.nonzero_out
    )
    split = choose_residuals(split, existing(split.primal, loop, len(jaxpr.outputs)))
    residuals = split.residuals(split.primal.inputs, split.primal.outputs)
    plan = plan_residuals(split.primal, loop, len(jaxpr.outputs), residuals)
    linear = second_body(plan, split.linear, [sum(part) for part in loop.split(nonzero)])
    return plan, linear, nonzero, split.nonzero_out


def split_known(jaxpr: Jaxpr, loop: Loop, start: Flags) -> tuple[Any, Any, Flags]:
    """Splits the body by which operands are unknown. Returns the parts, the known part's residual
    plan, and which operands are unknown then."""
    unknown, split = close_flags(
        jaxpr, loop, start, partial_eval_jaxpr, lambda split: split.unknown_out
    )
    consts, carried, _ = loop.split(unknown)
    results = split.unknown_out.count(False)
    known_loop = loop.with_counts(consts.count(False), carried.count(False))
    residuals: list[Any] = split.known.outputs[results:]
    return split, plan_residuals(split.known, known_loop, results, residuals), unknown


def scan_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    jaxpr, loop = Loop.of(eqn.params)
    split, plan, flags = split_known(jaxpr, loop, tuple(unknown))
    rest, known = loop.partition(flags, eqn.inputs)
    known_loop = loop.with_counts(len(known[0]), len(known[1]))
    invariant = [Var(v.type) for v in plan.invariant.outputs]
    params = {"jaxpr": plan.invariant, "name": jaxpr.name, "donated": ()}
    before = [Equation(jit_p, known[0], params, invariant, eqn.source)] if invariant else []
    stacked = plan.first.out_types[len(plan.first.outputs) - plan.num_stacked :]
    extra = [Var(stacked_type(type, loop.length)) for type in stacked]
    later_out, results = partition(split.unknown_out, eqn.outputs)
    first = eqn.replace(
        inputs=[x for part in known for x in part],
        outputs=[*results, *extra],
        params=known_loop.params(plan.first),
    )
    residuals = find_residuals(plan, known_loop, known, first.outputs, invariant)
    inner, operands = second_loop(plan, loop, residuals, rest)
    body = second_body(plan, split.unknown, [len(part) for part in rest])
    later = eqn.replace(
        inputs=[x for part in operands for x in part], outputs=later_out, params=inner.params(body)
    )
    return SplitEquation(first, later, split.unknown_out, residuals, before)


def linear_carry(jaxpr: Jaxpr, loop: Loop, linear: Flags) -> Flags:
    """Which carried values depend on a linear operand."""
    consts, carry, xs = loop.split(linear)

    def depending(carried: Flags) -> list[bool]:
        depends = set(keep_marked((*consts, *carried, *xs), jaxpr.inputs))
        for eqn in jaxpr.eqns:
            if any(type(x) is Var and x in depends for x in eqn.inputs):
                depends.update(eqn.outputs)
        return [type(x) is Var and x in depends for x in jaxpr.outputs]

    return fixpoint(carry, depending, lambda found: found)[0]


def scan_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    jaxpr, loop = Loop.of(params)
    linear, _ = known_operands(operands)
    carried = linear_carry(jaxpr, loop, linear)
    if all(carried):
        return transpose_linear(cotangents, loop.split(operands), jaxpr, loop)
    # Carried values that depend on no linear operand are computed first, in a loop of their own.
    of_consts, _, of_xs = loop.split(linear)
    unknown = (*of_consts, *carried, *of_xs)
    split, plan, _ = split_known(jaxpr, loop, unknown)
    rest, known = loop.partition(unknown, operands)
    _, residuals = first_loop(plan, loop.with_counts(len(known[0]), len(known[1])), known)
    inner, ordered = second_loop(plan, loop, residuals, rest)
    body = second_body(plan, split.unknown, [len(part) for part in rest])
    found = transpose_linear(keep_marked(split.unknown_out, cotangents), ordered, body, inner)
    fixed = sum(plan.is_constant())
    in_consts, in_carry, in_xs = inner.split(found)
    return scatter_to_marked(
        unknown, [*in_consts[fixed:], *in_carry, *in_xs[len(residuals) - fixed :]]
    )


def transpose_linear(cotangents: Values, operands: Parts, jaxpr: Jaxpr, loop: Loop) -> list[Any]:
    """Transposes a loop all of whose carried values are linear. A known initial value (zeros, where
    a tangent begins in the loop) gets no cotangent."""
    consts, carry, xs = operands
    of_consts, known_consts = known_operands(consts)
    of_carry, _ = known_operands(carry)
    of_xs, known_xs = known_operands(xs)
    cts = cotangents[: loop.num_carry]
    start, _ = nonzero_tangents(cts)
    nonzero_ys, cts_ys = nonzero_tangents(cotangents[loop.num_carry :])
    body, carried, (to_consts, to_xs) = jaxpr.memoize(
        ("scan_transpose", loop, of_consts, of_xs, start, nonzero_ys),
        lambda: transposed_body(jaxpr, loop, of_consts, of_xs, start, nonzero_ys),
    )
    linear_consts = [x.type for x in keep_marked(to_consts, keep_marked(of_consts, consts))]
    sums = [of.update(dtype=accumulator(of.dtype)) for of in linear_consts]
    n, m = sum(carried), sum(carried) + len(sums)
    outs = bind_scan(
        body,
        loop.with_counts(len(known_consts), m, not loop.reverse),
        known_consts,
        [*map(instantiate, keep_marked(carried, cts)), *map(zeros, sums)],
        [*known_xs, *cts_ys],
    )
    ct_carry = scatter_to_marked(carried, outs[:n])
    ct_consts = [in_dtype(ct, of) for ct, of in zip(outs[n:m], linear_consts, strict=True)]
    return [
        *merge_cotangents(of_consts, to_consts, ct_consts),
        *(ct if flag else None for flag, ct in zip(of_carry, ct_carry, strict=True)),
        *merge_cotangents(of_xs, to_xs, outs[m:]),
    ]


def in_dtype(x: Any, of: ArrayType) -> Any:
    """The value in the dtype of a type."""
    return x if type_of(x).dtype == of.dtype else convert_element_type(x, of.dtype, of.weak_type)


def transposed_body(
    jaxpr: Jaxpr, loop: Loop, of_consts: Flags, of_xs: Flags, start: Flags, nonzero_ys: Flags
) -> tuple[Jaxpr, Flags, tuple[Flags, Flags]]:
    """The body of the transposed loop; which carried values have cotangents; which linear constants
    and scanned arrays get one. The loop carries the cotangents of carried values and the sums so
    far of those of linear constants."""
    linear = (*of_consts, *(True,) * loop.num_carry, *of_xs)
    a, b = sum(of_consts), sum(of_consts) + loop.num_carry

    carried, (program, nonzero) = fixpoint(
        start,
        lambda carried: transpose_jaxpr(jaxpr, linear, (*carried, *nonzero_ys)),
        lambda made: made[1][a:b],
    )
    to_consts, to_carry, to_xs = nonzero[:a], nonzero[a:b], nonzero[b:]
    consts, carry, xs = loop.split(jaxpr.in_types)
    linear_consts, known_consts = partition(of_consts, consts)
    known_xs = drop_marked(of_xs, xs)
    # The sums of many steps, in float32 where the terms have 16 bits.
    sums = [of.update(dtype=accumulator(of.dtype)) for of in keep_marked(to_consts, linear_consts)]
    ys = keep_marked(nonzero_ys, jaxpr.out_types[loop.num_carry :])
    parts = [known_consts, keep_marked(carried, carry), sums, known_xs, ys]

    def function(*values: Any) -> list[Any]:
        given = iter(values)
        k_consts, cts, totals, k_xs, cts_ys = ([next(given) for _ in part] for part in parts)
        found = iter(eval_jaxpr(program, (), *k_consts, *k_xs, *cts, *cts_ys))
        new_consts = [
            in_dtype(ct, of)
            for ct, of in zip(
                keep_marked(to_consts, scatter_to_marked(to_consts, found)), sums, strict=True
            )
        ]
        new_carry = keep_marked(carried, scatter_to_marked(to_carry, found))
        pairs = zip(new_carry, parts[1], strict=True)
        new_carry = [zeros(t) if ct is None else ct for ct, t in pairs]
        return [*new_carry, *map(add_tangents, totals, new_consts), *found]

    types = [type for part in parts for type in part]
    return rebuild(function, types, jaxpr.name, "transpose"), carried, (to_consts, to_xs)


def scan_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(args)
    of_consts, of_carry, of_xs = loop.split(dims)
    # The first dimension of a scanned array is that of the steps: the mapped one comes after it.
    xs = [move_dim(x, 0, 1, axis.size) if d == 0 else x for x, d in zip(xs, of_xs, strict=True)]
    in_xs = [None if d is None else max(d - 1, 0) for d in of_xs]
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def mapped(carried: Flags) -> tuple[Jaxpr, Any]:
        in_carry = [0 if flag else None for flag in carried]
        return vmap_jaxpr(jaxpr, axis, (*of_consts, *in_carry, *in_xs), (*carried, *no_ys))

    carried, (body, dims_out) = fixpoint(
        is_mapped(of_carry), mapped, lambda made: is_mapped(made[1])
    )
    carry = moved_to_front(carried, carry, of_carry, axis)
    outs = bind_scan(body, loop, consts, carry, xs)
    n = loop.num_carry
    return outs, [*dims_out[:n], *(None if d is None else d + 1 for d in dims_out[n:])]


def scan_dce(eqn: Equation, used: Sequence[bool]) -> tuple[list[bool], Equation | None]:
    jaxpr, loop = Loop.of(eqn.params)
    n, m = loop.num_carry, loop.num_consts
    of_ys = tuple(used[n:])
    carried, (smaller, reads) = fixpoint(
        used[:n],
        lambda carried: dce_jaxpr(jaxpr, (*carried, *of_ys), True),
        lambda made: made[1][m : m + n],
    )
    kept = (*carried, *of_ys)
    if not any(kept) and not smaller.effects:
        return [False] * len(eqn.inputs), None
    reads = (*reads[:m], *carried, *reads[m + n :])
    if all(kept) and all(reads) and len(smaller.eqns) == len(jaxpr.eqns):
        return [True] * len(eqn.inputs), eqn
    body = permute_jaxpr(smaller, keep_marked(reads, range(len(reads))))
    params = loop.with_counts(sum(reads[:m]), sum(carried)).params(body)
    return smaller_equation(eqn, reads, kept, params)


def scan_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """Constants are read at every step, scanned arrays by element, others as a whole."""
    jaxpr, loop = Loop.of(eqn.params)
    consts, _, xs = loop.split(inner(jaxpr, [(full_read(x.type),) for x in jaxpr.outputs]))
    carry = loop.split(eqn.inputs)[1]

    def element(read: Read) -> Read:
        walk = (s if s.dim < 0 else s._replace(dim=s.dim + 1) for s in read.walk)
        return read._replace(walk=(Step(0, loop.length), *walk), carried=True, folds=False)

    return [
        *(tuple(read.repeated(loop.length) for read in reads) for reads in consts),
        *((full_read(x.type),) for x in carry),
        *(tuple(map(element, reads)) for reads in xs),
    ]


def scan_keep_layouts(eqn: Equation, layouts: Sequence[Any], partitioned: bool) -> list[Equation]:
    if partitioned:
        return [eqn]
    jaxpr, loop = Loop.of(eqn.params)
    of_consts = loop.split(layouts)[0]
    kept = [layout is not None for layout in of_consts]
    none = [None] * (len(layouts) - loop.num_consts)
    inner = keep_layouts(jaxpr, [*of_consts, *none])
    consts, carry, xs = loop.split(inner.inputs)
    # XLA gives a carried value one layout, and takes it from the body's results.
    entering, own = partition(kept, consts)
    leaving = [Var(var.type) for var in entering]
    constraints = list(map(constraint_equation, entering, leaving, keep_marked(kept, of_consts)))
    n = loop.num_carry
    body = Jaxpr(
        [*own, *carry, *entering, *xs],
        [*inner.eqns, *constraints],
        [*inner.outputs[:n], *leaving, *inner.outputs[n:]],
        0,
        inner.name,
    )
    inputs, before = row_major_entry(eqn.inputs, layouts)
    consts_in, carry_in, xs_in = loop.split(inputs)
    given, own_in = partition(kept, consts_in)
    made = eqn.replace(
        inputs=[*own_in, *carry_in, *given, *xs_in],
        outputs=[*eqn.outputs[:n], *(Var(x.type) for x in given), *eqn.outputs[n:]],
        params=loop.with_counts(len(own), n + len(given)).params(checked(body)),
    )
    return [*before, made]


def scan_lower(context: Any, *operands: Any, **params: Any) -> list[Any]:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(operands)
    n = loop.num_carry
    stacked = [physical_type(stacked_type(t, loop.length)) for t in jaxpr.out_types[n:]]
    state = [*carry, *(stablehlo.full(0, t.shape, t.dtype) for t in stacked)]
    counter = dtypes.int64 if loop.length >= 2**31 else dtypes.int32

    def number(i: int) -> Any:
        return stablehlo.constant(i, (), counter)

    def one_step(index: Any, state: Sequence[Any]) -> list[Any]:
        place = stablehlo.subtract(number(loop.length - 1), index) if loop.reverse else index
        elements = [element(x, place, number(0)) for x in xs]
        outs = context.lower_jaxpr(jaxpr, [*consts, *state[:n], *elements], "scan")
        pairs = zip(state[n:], outs[n:], strict=True)
        return [*outs[:n], *(store_step(whole, y, place, number(0)) for whole, y in pairs)]

    unroll = max(1, min(loop.unroll, loop.length))
    whole_rounds, left = divmod(loop.length, unroll)

    def one_round(values: Sequence[Any]) -> list[Any]:
        index, *state = values
        for k in range(unroll):
            state = one_step(index if k == 0 else stablehlo.add(index, number(k)), state)
        return [stablehlo.add(index, number(unroll)), *state]

    if whole_rounds > 1:
        end = number(whole_rounds * unroll)
        _, *state = context.while_(
            [number(0), *state], lambda v: stablehlo.compare(v[0], end, "LT"), one_round
        )
    elif whole_rounds == 1:
        left += unroll
    for i in range(loop.length - left, loop.length):
        state = one_step(number(i), state)
    return state


def element(x: Any, place: Any, zero: Any) -> Any:
    shape = list(x.type.shape)
    start = [place, *(zero for _ in shape[1:])]
    return stablehlo.reshape(stablehlo.dynamic_slice(x, start, [1, *shape[1:]]), shape[1:])


def store_step(whole: Any, y: Any, place: Any, zero: Any) -> Any:
    shape = list(y.type.shape)
    start = [place, *(zero for _ in shape)]
    return stablehlo.dynamic_update_slice(whole, stablehlo.reshape(y, [1, *shape]), start)


rules.impl.register(scan_p, partial(run_as_one, scan_p, False))
rules.type_rule.register(scan_p, scan_type)
rules.retype.register(scan_p, scan_retype)
rules.hoist.register(scan_p, scan_hoist)
rules.runs.register(scan_p, scan_runs)
rules.jvp.register(scan_p, scan_jvp)
rules.linearize.register(scan_p, scan_linearize)
rules.transpose.register(scan_p, scan_transpose)
rules.vmap.register(scan_p, scan_vmap)
rules.partial_eval.register(scan_p, scan_partial_eval)
rules.dce.register(scan_p, scan_dce)
rules.lower.register(scan_p, scan_lower)
rules.steps.register(scan_p, scan_steps)
rules.reads.register(scan_p, scan_reads)
rules.keep_layouts.register(scan_p, scan_keep_layouts)
