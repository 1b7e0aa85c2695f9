"""`scan`: a loop of known length that carries values along and stacks one result per step.

The body is a program of (constants, carried values, elements of the scanned arrays) to (carried
values, stacked values). Every transformation of the loop is a loop over a transformed body. What
needs care is which carried values it touches, found as a fixpoint, and where the residuals of a
split body lie (`loop_parts`). The transposed loop runs the other way and adds up the cotangents of
its constants.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from weft import dtypes
from weft.control_flow.body_tracing import close_carry, permuted, rebuild, run_compiled
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loop_parts import (
    Flags,
    Loop,
    ResidualPlan,
    find_residuals,
    fixpoint,
    marked,
    plan_residuals,
    second_body,
    stacked_type,
)
from weft.core import rules
from weft.core.access_pattern import Inner, Read, Reads, Step, full_read
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, SplitEquation, Var, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import JaxprError
from weft.interpreters.dce import dce_jaxpr
from weft.interpreters.jvp import jvp_jaxpr
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.partial_eval import partial_eval_jaxpr
from weft.interpreters.retype import fit, widened
from weft.interpreters.symbolic_zeros import scatter
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.loop_layouts import keep_layouts
from weft.ops.indexing.dynamic_slicing import dynamic_index_in_dim
from weft.ops.structural.extended_dtypes import physical_type
from weft.ops.structural.layout_constraint import constraint_equation, row_major_entry
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import add_tangents, instantiate, zeros
from weft.runtime import stablehlo

__all__ = ["bind_scan", "scan_p"]

scan_p = Primitive("scan", multiple_results=True, memoise=False)


def bind_scan(
    jaxpr: Jaxpr, loop: Loop, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any]
) -> list[Any]:
    """Applies the primitive, after joining the types of carried values that differ."""
    body = close_carry(jaxpr, loop.num_consts, loop.num_carry)
    if body is not jaxpr:
        wanted = loop.split(body.in_types)[1]
        carry = [fit(x, type) for x, type in zip(carry, wanted, strict=True)]
    return list(scan_p.bind(*consts, *carry, *xs, **loop.params(body)))


# ---- evaluation and types ----------------------------------------------------------------------


def scan_impl(*args: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return run_compiled(scan_p, args, {"jaxpr": jaxpr, **params}, jaxpr)


def scan_stepwise(
    *args: Any, jaxpr: Jaxpr, **params: Any
) -> Generator[tuple[str, Jaxpr, Sequence[Any]], list[Any], None]:
    loop = Loop(**params)
    consts, carry, xs = loop.split(args)
    order = range(loop.length)
    for i in reversed(order) if loop.reverse else order:
        row = [dynamic_index_in_dim(x, i, keepdims=False) for x in xs]
        outs = yield f"iteration {i} of the scan", jaxpr, [*consts, *carry, *row]
        carry = outs[: loop.num_carry]


def scan_type(*types: ArrayType, jaxpr: Jaxpr, **params: Any) -> list[ArrayType]:
    loop = Loop(**params)
    consts, carry, xs = loop.split(types)
    wanted = loop.split(jaxpr.in_types)
    got_types = [*consts, *carry, *(t.update(shape=t.shape[1:]) for t in xs)]
    if (
        len(types) != len(jaxpr.inputs)
        or any(t.shape[:1] != (loop.length,) for t in xs)
        or any(not same_array(a, b) for a, b in zip(got_types, jaxpr.in_types, strict=True))
    ):
        raise JaxprError(
            "scan: the operands do not fit the body",
            got=", ".join(map(str, types)),
            wanted=", ".join(map(str, jaxpr.in_types)) + f", scanned ones {loop.length} times",
        )
    outs = jaxpr.out_types
    for before, after in zip(wanted[1], outs[: loop.num_carry], strict=True):
        if before.strong() is not after.strong():
            raise JaxprError(f"scan: a carried value goes in as {before} and comes out as {after}")
    stacked = [stacked_type(t, loop.length) for t in outs[loop.num_carry :]]
    return [*outs[: loop.num_carry], *stacked]


def scan_retype(
    types: Sequence[ArrayType], params: dict[str, Any]
) -> tuple[list[ArrayType], dict[str, Any]]:
    jaxpr, loop = params["jaxpr"], Loop(**{k: v for k, v in params.items() if k != "jaxpr"})
    wanted = [
        t.update(varying=t.varying | got.varying)
        for t, got in zip(jaxpr.in_types, types, strict=True)
    ]
    body = close_carry(widened(jaxpr, wanted), loop.num_consts, loop.num_carry)
    operands = [got.update(varying=t.varying) for t, got in zip(body.in_types, types, strict=True)]
    return operands, params | {"jaxpr": body}


def same_array(got: ArrayType, wanted: ArrayType) -> bool:
    return got.shape == wanted.shape and got.dtype == wanted.dtype


# ---- forward mode ------------------------------------------------------------------------------


def scan_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
) -> tuple[list[Any], list[Any]]:
    loop = Loop(**params)
    consts, carry, xs = loop.split(primals)
    consts_t, carry_t, xs_t = loop.split(tangents)
    flags = [[type(t) is not Zero for t in part] for part in (consts_t, carry_t, xs_t)]
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def step(carried: Flags) -> Sequence[bool]:
        nonzero = (*flags[0], *carried, *flags[2])
        return jvp_jaxpr(jaxpr, nonzero, (*carried, *no_ys))[1][: loop.num_carry]

    carried = fixpoint(tuple(flags[1]), step)
    nonzero = (*flags[0], *carried, *flags[2])
    program, marks = jvp_jaxpr(jaxpr, nonzero, (*carried, *no_ys))
    body = interleaved(program, loop, nonzero, marks)
    inner = loop.with_counts(loop.num_consts + sum(flags[0]), loop.num_carry + sum(carried))
    outs = bind_scan(
        body,
        inner,
        [*consts, *marked(consts_t, flags[0])],
        [*carry, *(instantiate(t) for t in marked(carry_t, carried))],
        [*xs, *marked(xs_t, flags[2])],
    )
    n, k = loop.num_carry, loop.num_carry + sum(carried)
    ys = outs[k : k + len(no_ys)]
    found = [*outs[n:k], *outs[k + len(no_ys) :]]
    results = [*outs[:n], *ys]
    return results, scatter(marks, found, [type_of(x) for x in results])


def interleaved(program: Jaxpr, loop: Loop, nonzero: Flags, marks: Flags) -> Jaxpr:
    """A program of (inputs, tangents) to (results, tangents) with each kind's tangents beside it:
    constants, carried values, scanned arrays; carried values, stacked values."""
    places = iter(range(len(nonzero), len(nonzero) + sum(nonzero)))
    tangent_in = [next(places) if flag else None for flag in nonzero]
    parts_in = zip(loop.split(range(len(nonzero))), loop.split(tangent_in), strict=True)
    inputs = [i for own, of in parts_in for i in (*own, *(t for t in of if t is not None))]
    places = iter(range(len(marks), len(marks) + sum(marks)))
    tangent_out = [next(places) if flag else None for flag in marks]
    n = loop.num_carry
    own_out = list(range(len(marks)))
    outputs = [
        *own_out[:n],
        *(t for t in tangent_out[:n] if t is not None),
        *own_out[n:],
        *(t for t in tangent_out[n:] if t is not None),
    ]
    return permuted(program, inputs, outputs)


# ---- linearization -----------------------------------------------------------------------------


def scan_linearize(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
) -> tuple[list[Any], list[Any]]:
    loop = Loop(**params)
    nonzero = tuple(type(t) is not Zero for t in tangents)
    plan, linear, carried, marks = jaxpr.derived(
        ("scan_linearize", nonzero, loop), lambda: split_linear(jaxpr, loop, nonzero)
    )
    consts, carry, xs = loop.split(primals)
    outs = bind_scan(plan.first, loop, consts, carry, xs)
    invariant = bind_invariant(plan, consts)
    residuals = find_residuals(plan, loop, consts, xs, outs, invariant)
    constant = plan.is_constant()
    consts_t, carry_t, xs_t = loop.split(tangents)
    flags = loop.split(nonzero)
    given = marked(consts_t, flags[0])
    results = outs[: len(jaxpr.outputs)]
    tangents_out: list[Any] = []
    if any(marks):
        tangents_out = bind_scan(
            linear,
            loop.with_counts(sum(constant) + len(given), sum(carried)),
            [*marked(residuals, constant), *given],
            [instantiate(t) for t in marked(carry_t, carried)],
            [*marked(residuals, [not c for c in constant]), *marked(xs_t, flags[2])],
        )
    return results, scatter(marks, tangents_out, [type_of(x) for x in results])


def bind_invariant(plan: ResidualPlan, consts: Sequence[Any]) -> list[Any]:
    """What the loop would compute anew at each step for the second loop, computed once."""
    if not plan.invariant.outputs:
        return []
    name = plan.invariant.name
    return list(jit_p.bind(*consts, jaxpr=plan.invariant, name=name, donated=()))


def split_linear(jaxpr: Jaxpr, loop: Loop, nonzero: Flags) -> tuple[Any, Jaxpr, Flags, Flags]:
    """The residual plan of the linearized body, the body of the linear loop, and which carried
    values and which results have tangents."""
    of_consts, of_carry, of_xs = loop.split(nonzero)
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def step(carried: Flags) -> Sequence[bool]:
        split = linearize_jaxpr(jaxpr, (*of_consts, *carried, *of_xs), (*carried, *no_ys))
        return split.nonzero_out[: loop.num_carry]

    carried = fixpoint(tuple(of_carry), step)
    split = linearize_jaxpr(jaxpr, (*of_consts, *carried, *of_xs), (*carried, *no_ys))
    primal, results = split.primal, len(jaxpr.outputs)
    offset = {"output": 0, "extra": results}
    residuals: list[Any] = [
        primal.inputs[i] if kind == "input" else primal.outputs[offset[kind] + i]
        for kind, i in split.residual_sources
    ]
    plan = plan_residuals(primal, loop, results, residuals)
    counts = (sum(of_consts), sum(carried), sum(of_xs))
    linear = second_body(split.linear, plan.is_constant(), counts)
    return plan, linear, carried, split.nonzero_out


# ---- partial evaluation ------------------------------------------------------------------------


def split_known(jaxpr: Jaxpr, loop: Loop, unknown: Flags) -> tuple[Any, Any, Flags]:
    """The body split by which operands are unknown: the parts, the residual plan of the known one,
    and which carried values are unknown."""
    consts, carry, xs = loop.split(unknown)
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def step(carried: Flags) -> Sequence[bool]:
        flags = (*consts, *carried, *xs)
        return partial_eval_jaxpr(jaxpr, flags, (*carried, *no_ys)).unknown_out[: loop.num_carry]

    carried = fixpoint(tuple(carry), step)
    split = partial_eval_jaxpr(jaxpr, (*consts, *carried, *xs), (*carried, *no_ys))
    results = split.unknown_out.count(False)
    known_loop = loop.with_counts(consts.count(False), carried.count(False))
    residuals: list[Any] = split.known.outputs[results:]
    plan = plan_residuals(split.known, known_loop, results, residuals)
    return split, plan, carried


def scan_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    params = dict(eqn.params)
    jaxpr = params.pop("jaxpr")
    loop = Loop(**params)
    split, plan, carried = split_known(jaxpr, loop, tuple(unknown))
    consts, carry, xs = loop.split(eqn.inputs)
    of_consts, _, of_xs = loop.split(unknown)
    known = [
        marked(part, [not flag for flag in flags])
        for part, flags in ((consts, of_consts), (carry, carried), (xs, of_xs))
    ]
    known_loop = loop.with_counts(len(known[0]), len(known[1]))
    invariant = [Var(v.type) for v in plan.invariant.outputs]
    before = [
        Equation(
            jit_p,
            known[0],
            {"jaxpr": plan.invariant, "name": jaxpr.name, "donated": ()},
            invariant,
            eqn.source,
        )
    ]
    stacked = plan.first.out_types[len(plan.first.outputs) - plan.num_stacked :]
    extra = [Var(stacked_type(type, loop.length)) for type in stacked]
    results = marked(eqn.outputs, [not flag for flag in split.unknown_out])
    first = eqn.replace(
        inputs=[*known[0], *known[1], *known[2]],
        outputs=[*results, *extra],
        params=known_loop.params(plan.first),
    )
    residuals = find_residuals(plan, known_loop, known[0], known[2], first.outputs, invariant)
    constant = plan.is_constant()
    rest = [marked(consts, of_consts), marked(carry, carried), marked(xs, of_xs)]
    later = eqn.replace(
        inputs=[
            *marked(residuals, constant),
            *rest[0],
            *rest[1],
            *marked(residuals, [not c for c in constant]),
            *rest[2],
        ],
        outputs=marked(eqn.outputs, split.unknown_out),
        params=loop.with_counts(sum(constant) + len(rest[0]), len(rest[1])).params(
            second_body(split.unknown, constant, [len(part) for part in rest])
        ),
    )
    return SplitEquation(first, later, split.unknown_out, residuals, before if invariant else [])


# ---- transposition -----------------------------------------------------------------------------


def linear_carry(jaxpr: Jaxpr, loop: Loop, linear: Flags) -> Flags:
    """Which carried values depend on a linear operand."""
    consts, carry, xs = loop.split(linear)

    def step(carried: Flags) -> Sequence[bool]:
        flags = (*consts, *carried, *xs)
        depends = set(marked(jaxpr.inputs, flags))
        for eqn in jaxpr.eqns:
            if any(type(x) is Var and x in depends for x in eqn.inputs):
                depends.update(eqn.outputs)
        return [type(x) is Var and x in depends for x in jaxpr.outputs[: loop.num_carry]]

    return fixpoint(tuple(carry), step)


def scan_transpose(
    cotangents: Sequence[Any], *operands: Any, jaxpr: Jaxpr, **params: Any
) -> list[Any]:
    loop = Loop(**params)
    linear = tuple(type(x) is LinearOperand for x in operands)
    carried = linear_carry(jaxpr, loop, linear)
    if all(carried):
        return transpose_linear(cotangents, operands, jaxpr, loop)
    # Carried values that depend on no linear operand are computed first, in a loop of their own.
    consts, carry, xs = loop.split(operands)
    of_consts, _, of_xs = loop.split(linear)
    unknown = (*of_consts, *carried, *of_xs)
    split, plan, _ = split_known(jaxpr, loop, unknown)
    known = [
        marked(part, [not flag for flag in flags])
        for part, flags in ((consts, of_consts), (carry, carried), (xs, of_xs))
    ]
    known_loop = loop.with_counts(len(known[0]), len(known[1]))
    outs = bind_scan(plan.first, known_loop, *known)
    invariant = bind_invariant(plan, known[0])
    residuals = find_residuals(plan, known_loop, known[0], known[2], outs, invariant)
    constant = plan.is_constant()
    rest = [marked(consts, of_consts), marked(carry, carried), marked(xs, of_xs)]
    ordered = [
        *marked(residuals, constant),
        *rest[0],
        *rest[1],
        *marked(residuals, [not c for c in constant]),
        *rest[2],
    ]
    body = second_body(split.unknown, constant, [len(part) for part in rest])
    inner = loop.with_counts(sum(constant) + len(rest[0]), len(rest[1]))
    found = transpose_linear(marked(cotangents, split.unknown_out), ordered, body, inner)
    in_consts, in_carry, in_xs = inner.split(found)
    given = iter([*in_consts[sum(constant) :], *in_carry, *in_xs[len(constant) - sum(constant) :]])
    return [next(given) if flag else None for flag in unknown]


def transpose_linear(
    cotangents: Sequence[Any], operands: Sequence[Any], jaxpr: Jaxpr, loop: Loop
) -> list[Any]:
    """Transposes a loop all of whose carried values are linear. An initial value that is known
    (zeros, where a tangent begins in the loop) gets no cotangent."""
    consts, carry, xs = loop.split(operands)
    of_consts = [type(x) is LinearOperand for x in consts]
    of_xs = [type(x) is LinearOperand for x in xs]
    cts, cts_ys = list(cotangents[: loop.num_carry]), list(cotangents[loop.num_carry :])
    nonzero_ys = tuple(type(ct) is not Zero for ct in cts_ys)
    start = tuple(type(ct) is not Zero for ct in cts)
    key = ("scan_transpose", loop, tuple(of_consts), tuple(of_xs), start, nonzero_ys)
    body, carried, reached = jaxpr.derived(
        key, lambda: transposed_body(jaxpr, loop, of_consts, of_xs, start, nonzero_ys)
    )
    to_consts, to_xs = reached
    known_consts = [x for x in consts if type(x) is not LinearOperand]
    sums = marked([x.type for x in consts if type(x) is LinearOperand], to_consts)
    outs = iter(
        bind_scan(
            body,
            loop.with_counts(len(known_consts), sum(carried) + len(sums), not loop.reverse),
            known_consts,
            [*(instantiate(ct) for ct in marked(cts, carried)), *map(zeros, sums)],
            [*(x for x in xs if type(x) is not LinearOperand), *marked(cts_ys, nonzero_ys)],
        )
    )
    ct_carry = [next(outs) if flag else None for flag in carried]
    ct_consts = iter([next(outs) if flag else None for flag in to_consts])
    ct_xs = iter([next(outs) if flag else None for flag in to_xs])
    return [
        *(next(ct_consts) if flag else None for flag in of_consts),
        *(ct if type(x) is LinearOperand else None for x, ct in zip(carry, ct_carry, strict=True)),
        *(next(ct_xs) if flag else None for flag in of_xs),
    ]


def transposed_body(
    jaxpr: Jaxpr, loop: Loop, of_consts: Any, of_xs: Any, start: Flags, nonzero_ys: Flags
) -> tuple[Jaxpr, Flags, tuple[Flags, Flags]]:
    """The body of the transposed loop; which carried values have cotangents; which linear constants
    and scanned arrays get one. It carries the cotangents of carried values and, for linear
    constants, the sums so far."""
    linear = (*of_consts, *(True,) * loop.num_carry, *of_xs)
    a, b = sum(of_consts), sum(of_consts) + loop.num_carry

    def step(carried: Flags) -> Sequence[bool]:
        return transpose_jaxpr(jaxpr, linear, (*carried, *nonzero_ys))[1][a:b]

    carried = fixpoint(start, step)
    program, nonzero = transpose_jaxpr(jaxpr, linear, (*carried, *nonzero_ys))
    to_consts, to_carry, to_xs = nonzero[:a], nonzero[a:b], nonzero[b:]
    consts, carry, xs = loop.split(jaxpr.in_types)
    known_consts = marked(consts, [not flag for flag in of_consts])
    known_xs = marked(xs, [not flag for flag in of_xs])
    sums = marked(marked(consts, of_consts), to_consts)
    ys = marked(jaxpr.out_types[loop.num_carry :], nonzero_ys)
    parts = [known_consts, marked(carry, carried), sums, known_xs, ys]

    def function(*values: Any) -> list[Any]:
        given = iter(values)
        k_consts, cts, totals, k_xs, cts_ys = ([next(given) for _ in part] for part in parts)
        found = iter(eval_jaxpr(program, (), *k_consts, *k_xs, *cts, *cts_ys))
        new_consts, new_carry, new_xs = (
            [next(found) if flag else None for flag in part]
            for part in (to_consts, to_carry, to_xs)
        )
        return [
            *(
                zeros(type) if ct is None else ct
                for ct, type in zip(marked(new_carry, carried), parts[1], strict=True)
            ),
            *map(add_tangents, totals, marked(new_consts, to_consts)),
            *marked(new_xs, to_xs),
        ]

    types = [type for part in parts for type in part]
    body = rebuild(function, types, jaxpr.name, "transpose")
    return body, carried, (to_consts, to_xs)


# ---- vmap and dead-code elimination ------------------------------------------------------------


def scan_vmap(
    axis: AxisData, args: Sequence[Any], dims: Sequence[int | None], *, jaxpr: Jaxpr, **params: Any
) -> tuple[list[Any], list[int | None]]:
    loop = Loop(**params)
    consts, carry, xs = loop.split(args)
    of_consts, of_carry, of_xs = loop.split(dims)
    # The first dimension of a scanned array is that of the steps: the mapped one comes after it.
    xs = [move_dim(x, 0, 1, axis.size) if d == 0 else x for x, d in zip(xs, of_xs, strict=True)]
    in_xs = [None if d is None else max(d - 1, 0) for d in of_xs]
    no_ys = (False,) * (len(jaxpr.outputs) - loop.num_carry)

    def mapped(carried: Flags) -> tuple[Jaxpr, Any]:
        in_carry = [0 if flag else None for flag in carried]
        return vmap_jaxpr(jaxpr, axis, (*of_consts, *in_carry, *in_xs), (*carried, *no_ys))

    def step(carried: Flags) -> Sequence[bool]:
        return [d is not None for d in mapped(carried)[1][: loop.num_carry]]

    carried = fixpoint(tuple(d is not None for d in of_carry), step)
    body, dims_out = mapped(carried)
    carry = [
        move_dim(x, d, 0, axis.size) if flag else x
        for x, d, flag in zip(carry, of_carry, carried, strict=True)
    ]
    outs = bind_scan(body, loop, consts, carry, xs)
    n = loop.num_carry
    return outs, [*dims_out[:n], *(None if d is None else d + 1 for d in dims_out[n:])]


def scan_dce(eqn: Equation, used: Sequence[bool]) -> tuple[list[bool], Equation | None]:
    params = dict(eqn.params)
    jaxpr = params.pop("jaxpr")
    loop = Loop(**params)
    n, m = loop.num_carry, loop.num_consts
    of_ys = tuple(used[n:])

    def step(carried: Flags) -> Sequence[bool]:
        return dce_jaxpr(jaxpr, (*carried, *of_ys), True)[1][m : m + n]

    carried = fixpoint(tuple(used[:n]), step)
    kept = (*carried, *of_ys)
    smaller, reads = dce_jaxpr(jaxpr, kept, True)
    if not any(kept) and not smaller.effects:
        return [False] * len(eqn.inputs), None
    reads = (*reads[:m], *carried, *reads[m + n :])
    if all(kept) and all(reads) and len(smaller.eqns) == len(jaxpr.eqns):
        return [True] * len(eqn.inputs), eqn
    body = permuted(smaller, [i for i, read in enumerate(reads) if read])
    made = eqn.replace(
        inputs=marked(eqn.inputs, reads),
        outputs=marked(eqn.outputs, kept),
        params=loop.with_counts(sum(reads[:m]), sum(carried)).params(body),
    )
    return list(reads), made


# ---- reading -----------------------------------------------------------------------------------


def scan_access_pattern(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """Constants are read as often as the loop runs, scanned arrays element by element; carried and
    stacked values are made as a whole."""
    params = dict(eqn.params)
    jaxpr = params.pop("jaxpr")
    loop = Loop(**params)
    found = inner(jaxpr, [(full_read(x.type),) for x in jaxpr.outputs])
    consts, _, xs = loop.split(found)
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
    params = dict(eqn.params)
    jaxpr = params.pop("jaxpr")
    loop = Loop(**params)
    of_consts = loop.split(layouts)[0]
    kept = [layout is not None for layout in of_consts]
    none = [None] * (len(layouts) - loop.num_consts)
    inner = keep_layouts(jaxpr, [*of_consts, *none])
    consts, carry, xs = loop.split(inner.inputs)
    # XLA settles on one layout for what a loop carries, and asks the body what it gives back.
    entering = marked(consts, kept)
    leaving = [Var(var.type) for var in entering]
    constraints = list(map(constraint_equation, entering, leaving, marked(of_consts, kept)))
    own, n = [not flag for flag in kept], loop.num_carry
    body = Jaxpr(
        [*marked(consts, own), *carry, *entering, *xs],
        [*inner.eqns, *constraints],
        [*inner.outputs[:n], *leaving, *inner.outputs[n:]],
        0,
        inner.name,
    )
    inputs, before = row_major_entry(eqn.inputs, layouts)
    consts_in, carry_in, xs_in = loop.split(inputs)
    given = marked(consts_in, kept)
    made = eqn.replace(
        inputs=[*marked(consts_in, own), *carry_in, *given, *xs_in],
        outputs=[*eqn.outputs[:n], *(Var(x.type) for x in given), *eqn.outputs[n:]],
        params=loop.with_counts(sum(own), n + len(given)).params(checked(body)),
    )
    return [*before, made]


# ---- lowering ----------------------------------------------------------------------------------


def scan_lower(context: Any, *operands: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    loop = Loop(**params)
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
        ys = [
            stored(whole, y, place, number(0)) for whole, y in zip(state[n:], outs[n:], strict=True)
        ]
        return [*outs[:n], *ys]

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
    """One element of a scanned array."""
    shape = list(x.type.shape)
    start = [place, *(zero for _ in shape[1:])]
    return stablehlo.reshape(stablehlo.dynamic_slice(x, start, [1, *shape[1:]]), shape[1:])


def stored(whole: Any, y: Any, place: Any, zero: Any) -> Any:
    """A stacked result with one more element in its place."""
    shape = list(y.type.shape)
    start = [place, *(zero for _ in shape)]
    return stablehlo.dynamic_update_slice(whole, stablehlo.reshape(y, [1, *shape]), start)


rules.impl.register(scan_p, scan_impl)
rules.type_rule.register(scan_p, scan_type)
rules.retype.register(scan_p, scan_retype)
rules.jvp.register(scan_p, scan_jvp)
rules.linearize.register(scan_p, scan_linearize)
rules.transpose.register(scan_p, scan_transpose)
rules.vmap.register(scan_p, scan_vmap)
rules.partial_eval.register(scan_p, scan_partial_eval)
rules.dce.register(scan_p, scan_dce)
rules.lower.register(scan_p, scan_lower)
rules.stepwise.register(scan_p, scan_stepwise)
rules.access_pattern.register(scan_p, scan_access_pattern)
rules.keep_layouts.register(scan_p, scan_keep_layouts)
