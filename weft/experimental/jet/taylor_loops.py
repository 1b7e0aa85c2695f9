"""Taylor arithmetic in operations that hold functions: they carry coefficients beside values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.util import keep_marked
from weft.control_flow.checkpoint import remat_p
from weft.control_flow.cond import cond_p
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loop_parts import Loop, fixpoint
from weft.control_flow.scan import bind_scan, scan_p
from weft.control_flow.while_loop import bind_while, while_p
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values
from weft.core.types import type_of
from weft.custom_derivatives.custom_primitive import body_of as custom_body
from weft.custom_derivatives.custom_vjp_rules import custom_vjp_p
from weft.experimental.jet.taylor_trace import (
    Coefficients,
    JetTrace,
    instantiate_zeros,
    jet_flat,
    jet_program,
    series_rules,
)
from weft.interpreters.staging import rebuild
from weft.ops.collectives.all_reduce import vary
from weft.spmd.shard_map_primitive import body_of, call_shard_map, shard_map_p

Flags = tuple[bool, ...]
Terms = Sequence[Coefficients]


def flags_of(terms: Terms) -> Flags:
    """Which values have a nonzero coefficient."""
    return tuple(any(term is not None for term in own) for own in terms)


def given(active: Flags, primals: Values, terms: Terms) -> list[Any]:
    """All coefficients of the marked values, one value after the other."""
    rows = zip(active, primals, terms, strict=True)
    return [t for mark, x, own in rows if mark for t in instantiate_zeros(own, x)]


def split(marks: Sequence[bool], order: int, values: Values) -> list[Coefficients]:
    """The coefficients of each result, from those of the marked ones."""
    rest = iter(values)
    return [[next(rest) if mark else None for _ in range(order)] for mark in marks]


def one_jaxpr(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    active = flags_of(terms)
    jaxpr, marks = jet_program(params["jaxpr"], active, trace.order)
    more = {"donated": ()} if "donated" in params else {}
    operands = [*primals, *given(active, primals, terms)]
    outs = primitive.bind(*operands, **(params | more | {"jaxpr": jaxpr}))
    n = len(marks)
    return outs[:n], split(marks, trace.order, outs[n:])


def cond_series(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    branches: Sequence[Jaxpr] = params["branches"]
    active = flags_of(terms[1:])
    columns = zip(*(jet_program(b, active, trace.order)[1] for b in branches), strict=True)
    wanted = tuple(any(column) for column in columns)
    programs = tuple(jet_program(b, active, trace.order, wanted)[0] for b in branches)
    outs = cond_p.bind(*primals, *given(active, primals[1:], terms[1:]), branches=programs)
    n = len(wanted)
    return outs[:n], split(wanted, trace.order, outs[n:])


def propagate_carry(
    jaxpr: Jaxpr, order: int, before: Flags, carry: Flags, after: Flags
) -> tuple[Flags, tuple[Jaxpr, Flags]]:
    """Which carried values come to have coefficients, and the body for these; `before` and `after`
    are the flags of the other inputs."""
    rest = (False,) * (len(jaxpr.outputs) - len(carry))

    def make(flags: Flags) -> tuple[Jaxpr, Flags]:
        return jet_program(jaxpr, (*before, *flags, *after), order, (*flags, *rest))

    return fixpoint(carry, make, lambda made: made[1])


def scan_series(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    jaxpr, loop = Loop.of(params)
    order = trace.order
    consts, carry, xs = loop.split(primals)
    consts_t, carry_t, xs_t = loop.split(terms)
    fixed, stepped = flags_of(consts_t), flags_of(xs_t)
    flags, (program, marks) = propagate_carry(jaxpr, order, fixed, flags_of(carry_t), stepped)
    moved = [sum(own) * order for own in (fixed, flags, stepped)]
    counts = [len(consts), moved[0], len(carry), moved[1], len(xs), moved[2]]
    n = loop.num_carry

    def body(*values: Any) -> list[Any]:
        parts, rest = [], list(values)
        for count in counts:
            parts.append(rest[:count])
            rest = rest[count:]
        outs = eval_jaxpr(program, (), *(x for i in (0, 2, 4, 1, 3, 5) for x in parts[i]))
        results, found = outs[: len(marks)], outs[len(marks) :]
        k = sum(flags) * order
        return [*results[:n], *found[:k], *results[n:], *found[k:]]

    def make() -> Jaxpr:
        own = program.in_types
        places = [len(consts), len(carry), len(xs)]
        starts = [0, *[sum(places[:i]) for i in (1, 2, 3)]]
        t = starts[3]
        tails = [t, t + counts[1], t + counts[1] + counts[3], len(own)]
        types = [
            type
            for i in range(3)
            for type in [*own[starts[i] : starts[i + 1]], *own[tails[i] : tails[i + 1]]]
        ]
        return rebuild(body, types, jaxpr.name, "jet")

    whole = jaxpr.memoize(("jet scan", order, fixed, flags, stepped), make)
    inner = loop.with_counts(counts[0] + counts[1], counts[2] + counts[3])
    outs = bind_scan(
        whole,
        inner,
        [*consts, *given(fixed, consts, consts_t)],
        [*carry, *given(flags, carry, carry_t)],
        [*xs, *given(stepped, xs, xs_t)],
    )
    k = inner.num_carry
    ys = k + len(marks) - n
    return [*outs[:n], *outs[k:ys]], split(marks, order, [*outs[n:k], *outs[ys:]])


def while_series(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    """A while loop: only values decide when it ends."""
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m, order = params["cond_nconsts"], params["body_nconsts"], trace.order
    consts, carry = primals[n : n + m], primals[n + m :]
    consts_t, carry_t = terms[n : n + m], terms[n + m :]
    fixed = flags_of(consts_t)
    flags, (program, _) = propagate_carry(body, order, fixed, flags_of(carry_t), ())
    a, b = sum(fixed) * order, len(carry)

    def made() -> tuple[Jaxpr, Jaxpr]:
        def step(*values: Any) -> list[Any]:
            own, own_t, rest = values[:m], values[m : m + a], values[m + a :]
            return eval_jaxpr(program, (), *own, *rest[:b], *own_t, *rest[b:])

        def goes_on(*values: Any) -> list[Any]:
            return eval_jaxpr(condition, (), *values[: n + b])

        types = program.in_types
        own, rest, tail = types[:m], types[m : m + b], types[m + b :]
        ordered = [*own, *tail[:a], *rest, *tail[a:]]
        return (
            rebuild(goes_on, [*condition.in_types, *tail[a:]], condition.name, "jet"),
            rebuild(step, ordered, body.name, "jet"),
        )

    new_condition, new_body = body.memoize(("jet while", condition, order, fixed, flags), made)
    outs = bind_while(
        new_condition,
        new_body,
        list(primals[:n]),
        [*consts, *given(fixed, consts, consts_t)],
        [*carry, *given(flags, carry, carry_t)],
    )
    return outs[:b], split(flags, order, outs[b:])


def custom_backward(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    """A function with only a reverse-mode rule is evaluated as it is."""
    return jet_flat(custom_body(params), primals, terms, trace.order, params["name"])


def shard_map_series(
    trace: JetTrace, primitive: Primitive, primals: Values, terms: Terms, params: Params
) -> Any:
    function, out_specs = body_of(params)
    n, order = len(primals), trace.order
    active = flags_of(terms)
    marks: Flags = ()

    def blocks_of(*blocks: Any) -> list[Any]:
        nonlocal marks
        inner = split(active, order, blocks[n:])
        outs, found = jet_flat(function, blocks[:n], inner, order, params["name"])
        marks = flags_of(found)
        rows = zip(outs, given_rows(marks, outs, found), strict=True)
        return [*outs, *(vary(t, type_of(x).varying) for x, own in rows for t in own)]

    def specs() -> tuple[Any, ...]:
        own = out_specs()
        return (*own, *(spec for spec in keep_marked(marks, own) for _ in range(order)))

    in_specs = params["in_specs"]
    more = [spec for spec in keep_marked(active, in_specs) for _ in range(order)]
    operands = [*primals, *given(active, primals, terms)]
    outs = call_shard_map(params, blocks_of, operands, [*in_specs, *more], specs)
    return outs[: len(marks)], split(marks, order, outs[len(marks) :])


def given_rows(marks: Flags, primals: Values, terms: Terms) -> list[list[Any]]:
    """All coefficients of each marked value; none of the others."""
    rows = zip(marks, primals, terms, strict=True)
    return [instantiate_zeros(own, x) if mark else [] for mark, x, own in rows]


series_rules.update(
    {
        cond_p: cond_series,
        custom_vjp_p: custom_backward,
        jit_p: one_jaxpr,
        remat_p: one_jaxpr,
        scan_p: scan_series,
        shard_map_p: shard_map_series,
        while_p: while_series,
    }
)
