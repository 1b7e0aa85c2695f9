"""Conditionals: `cond` and `switch`, one primitive whose first operand says which branch runs.

The branches are jaxprs of the same inputs and results; a value that one of them closes over is an
operand of all. A transformation transforms every branch and then joins their differences: which
results have tangents, which residuals they leave, which of them are mapped. Under `vmap` a mapped
index turns the conditional into a selection between the results of all branches; where a branch
has effects, into a loop that runs for each element the branch it takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.notebooks import line_text
from weft.base.util import keep_marked, partition
from weft.control_flow.body_tracing import ProgramPrimitive, permute_jaxpr, trace_body
from weft.control_flow.branches import (
    ResidualSlots,
    map_in_order,
    pure_branches,
    select_rows,
    stop_gradient_elsewhere,
)
from weft.control_flow.in_python import in_python, known_number
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
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import Fix, JaxprError, TreeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import NOT_GIVEN
from weft.interpreters.hoist import cast_to, hoist_casts, pvary_jaxpr, varying_along
from weft.interpreters.jvp import (
    jvp_jaxpr,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.linearize import linearize_jaxpr
from weft.interpreters.one_jaxpr import smaller_equation, split_equation
from weft.interpreters.partial_eval import all_unknown, dce_jaxpr, partial_eval_jaxpr
from weft.interpreters.residuals import linearize_sparing
from weft.interpreters.rounded_inputs import warn_of_rounding
from weft.interpreters.staging import function_name, leaf_paths, rebuild
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.lowering.result_layouts import keep_layouts
from weft.ops.collectives.named_axes import check_silent
from weft.ops.elementwise.arithmetic import eq, ne
from weft.ops.elementwise.convert import beside_float64, convert_element_type
from weft.ops.elementwise.selection import clamp
from weft.ops.structural.layout_constraint import constraint_equation
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import instantiate
from weft.refs.discharge import as_closure, has_references
from weft.runtime import stablehlo
from weft.tracing.traces import TracedBody

R = TypeVar("R")
S = TypeVar("S")

Branches = tuple[Jaxpr, ...]


@overload
def cond(
    pred: Any,
    true_fun: Callable[..., R],
    false_fun: Callable[..., S],
    *operands: Any,
    operand: Any = ...,
) -> R | S: ...
@overload
def cond(
    pred: Any,
    true_operand: Any,
    true_fun: Callable[[Any], R],
    false_operand: Any,
    false_fun: Callable[[Any], S],
    /,
) -> R | S: ...
@api_boundary
def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any, operand: Any = NOT_GIVEN) -> Any:
    """Returns `true_fun(*operands)` where the boolean `pred` holds, else `false_fun(*operands)`.

    Both functions are traced. Only the chosen one is computed, except under a `vmap` that maps
    `pred`.

    Args:
        pred (bool or array): A scalar, which may be traced.
        true_fun (Callable): The function that is applied where `pred` holds.
        false_fun (Callable): The other one. The results of both have one structure, and leaf by
            leaf one shape and dtype.
        operands: The arguments of both functions: trees of arrays.
        operand: One argument of both, as a keyword; not together with `operands`.

    Raises WeftTypeError where the results of both differ, showing the leaves that do.

    >>> import weft
    >>> weft.lax.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 3.0)
    Array(4., dtype=float32, weak_type=True)
    """
    if not callable(true_fun) and callable(false_fun) and len(operands) == 2:
        # The older form: cond(pred, true_operand, true_fun, false_operand, false_fun).
        (other, false_function), chosen, function = operands, true_fun, false_fun
        if callable(false_function):
            return cond(
                pred, lambda x, _: function(x), lambda _, y: false_function(y), chosen, other
            )
    operands = _operands("cond", operands, operand)
    if not callable(true_fun) or not callable(false_fun):
        message = "cond takes two functions after the predicate"
        got = f"{type(true_fun).__name__} and {type(false_fun).__name__}"
        raise WeftTypeError(message, got=got, wanted="two callables")
    of = type_of(pred)
    if of.shape or of.dtype not in dtypes.ANY - dtypes.COMPLEX:
        message = "cond takes a boolean scalar as its predicate"
        fix = Fix("reduce", "reduce it with .any() or .all(), or use weft.numpy.where")
        raise WeftTypeError(message, got=str(of), wanted="bool[]", fix=fix)
    if in_python() and (known := known_number(pred)) is not None:
        return (true_fun if known else false_fun)(*operands)
    if of.dtype != dtypes.bool_:
        pred = ne(pred, of.dtype.type(0))
    index = convert_element_type(pred, dtypes.int32)
    return bind_branches("cond", index, (false_fun, true_fun), operands, ("false_fun", "true_fun"))


def _operands(what: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is NOT_GIVEN:
        return operands
    if operands:
        raise WeftTypeError(f"{what} takes operands by position or as operand=, not both")
    return (operand,)


@overload
def switch(
    index: Any, branches: Sequence[Callable[..., R]], *operands: Any, operand: Any = ...
) -> R: ...
# Type checkers find no common result of functions of several kinds, such as ufuncs beside others.
@overload
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = ...
) -> Any: ...
@api_boundary
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = NOT_GIVEN
) -> Any:
    """Returns `branches[index](*operands)` for an integer scalar `index`, which may be traced.

    Args:
        index (int or array): Which branch is taken. An index out of range is clamped to the nearest
            branch.
        branches: The functions. Their results have one structure, and leaf by leaf one shape and
            dtype.
        operands: The arguments of all branches: trees of arrays.
        operand: One argument of all, as a keyword; not together with `operands`.

    Raises WeftTypeError where the results of branches differ, showing the leaves that do.

    >>> import weft
    >>> weft.lax.switch(1, [lambda x: x, lambda x: 10.0 * x], 3.0)
    Array(30., dtype=float32, weak_type=True)
    """
    operands = _operands("switch", operands, operand)
    branches = tuple(branches)
    if not branches or not all(callable(branch) for branch in branches):
        message = "switch takes a sequence of at least one function"
        raise WeftValueError(message, got=f"{len(branches)} branches", wanted="functions")
    of = type_of(index)
    if of.shape or of.dtype not in dtypes.INTEGER:
        message = "switch takes an integer scalar as its index"
        advice = "choose for each: weft.vmap, or weft.lax.select_n where the results are at hand"
        if not of.shape:
            advice = "convert the index: weft.numpy.int32(index)"
        raise WeftTypeError(message, got=str(of), wanted="i32[]", fix=Fix("convert", advice))
    if in_python() and (known := known_number(index)) is not None:
        return branches[min(max(known, 0), len(branches) - 1)](*operands)
    inside = clamp(of.dtype.type(0), index, of.dtype.type(np.int32(len(branches) - 1)))
    index = convert_element_type(inside, dtypes.int32)
    names = tuple(f"branch {i}" for i in range(len(branches)))
    return bind_branches("switch", index, branches, operands, names)


def bind_branches(
    what: str, index: Any, functions: Sequence[Any], operands: Any, names: Sequence[str]
) -> Any:
    """Traces the functions of a conditional called `what` and applies the one at `index`, an int32
    in range; messages use `names`."""
    if has_references(tree.leaves(operands)):
        closed = [as_closure(what, function, operands) for function in functions]
        functions, operands = [function for function, _ in closed], closed[0][1]
    leaves, in_tree = tree.flatten(operands)
    leaves = [user_value(x) for x in beside_float64(leaves)]
    in_types = [type_of(x) for x in leaves]
    traced = [trace_body(what, f, in_tree, in_types, references=True) for f in functions]
    _check_branches(what, traced, names, functions)
    for name, body in zip(names, traced, strict=True):
        warn_of_rounding(f"{what}: {name}", body.jaxpr, [*body.consts, *leaves])
    traced, written = pure_branches(traced)
    jaxprs, consts = _share_consts(traced)
    outs = cond_p.bind(index, *consts, *leaves, branches=jaxprs)
    count = len(outs) - len(written)
    for ref, value in zip(written, outs[count:], strict=True):
        ref[...] = value
    return traced[0].out_tree.unflatten(outs[:count])


def _describe_branch(name: str, function: Any) -> str:
    """A branch with its function's name and line, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    line = f" at {line_text(code.co_filename, code.co_firstlineno)}" if code else ""
    return f"{name} ({function_name(function)}{line})"


def _check_branches(
    what: str, traced: Sequence[Any], names: Sequence[str], functions: Sequence[Any]
) -> None:
    """Raises WeftTypeError or TreeError where the results of the branches differ."""
    first, first_tree = traced[0].jaxpr, traced[0].out_tree
    for i, body in enumerate(traced[1:], 1):
        jaxpr, out_tree = body.jaxpr, body.out_tree
        one, other = (partial(_describe_branch, names[k], functions[k]) for k in (0, i))
        if out_tree != first_tree:
            message = f"{what}: the branches return different structures"
            got = f"{one()} returns {first_tree}\n{other()} returns {out_tree}"
            fix = Fix("same_structure", "return the same structure from every branch")
            raise TreeError(message, got=got, wanted="equal structures", fix=fix)
        columns = zip(leaf_paths(out_tree), first.out_types, jaxpr.out_types, strict=True)
        differ = [
            f"result{path}: {a} in {one()}, {b} in {other()}"
            for path, a, b in columns
            if (a.shape, a.dtype) != (b.shape, b.dtype)
        ]
        if differ:
            message, got = f"{what}: the branches return different types", "\n".join(differ)
            fix = Fix("convert", "convert the results to one dtype and shape in the branches")
            raise WeftTypeError(message, got=got, wanted="equal shapes and dtypes", fix=fix)


def _share_consts(traced: Sequence[TracedBody]) -> tuple[Branches, list[Any]]:
    """Gives every branch the closed-over values of all branches as its first inputs."""
    union: dict[int, Any] = {}
    for body in traced:
        union.update((id(value), value) for value in body.consts)
    place = {identity: i for i, identity in enumerate(union)}
    own = tuple(tuple(place[id(value)] for value in body.consts) for body in traced)
    types = [type_of(value) for value in union.values()]

    def make() -> tuple[Branches, None]:
        jaxprs = []
        for body, places in zip(traced, own, strict=True):
            jaxpr, n = body.jaxpr, len(places)
            at = dict(zip(places, jaxpr.inputs[:n], strict=True))
            inputs = [at[i] if i in at else Var(type) for i, type in enumerate(types)]
            inputs += jaxpr.inputs[n:]
            jaxprs.append(Jaxpr(inputs, jaxpr.eqns, jaxpr.outputs, 0, jaxpr.name))
        return tuple(jaxprs), None

    programs = tuple(body.jaxpr for body in traced)
    branches, _ = derive(programs, ("shared", own, tuple(types)), make)
    return branches, list(union.values())


cond_p = ProgramPrimitive("cond")
emits_jaxprs.add(cond_p)


def cond_impl(index: Any, *operands: Any, branches: Branches) -> list[Any]:
    chosen = min(max(int(index), 0), len(branches) - 1)
    outs = eval_jaxpr(branches[chosen], (), *operands)
    # Branches may differ in weak types: the result has the joined type whichever of them ran.
    types = branches[0].memoize(
        (branches[1:], "types"),
        lambda: cond_type(type_of(np.int32(0)), *branches[0].in_types, branches=branches),
    )
    fits = [t.weak_type or not type_of(x).weak_type for x, t in zip(outs, types, strict=True)]
    rows = zip(outs, types, fits, strict=True)
    return [as_array(x) if fit else convert_element_type(x, t.dtype) for x, t, fit in rows]


def cond_steps(index: Any, *operands: Any, branches: Branches) -> Steps:
    chosen = min(max(int(index), 0), len(branches) - 1)
    yield f"branch {chosen} of the conditional", branches[chosen], operands


def cond_type(index: ArrayType, *types: ArrayType, branches: Branches) -> list[ArrayType]:
    if index.shape or index.dtype != dtypes.int32:
        raise JaxprError(f"cond: the index is {index}, not i32[]")
    for jaxpr in branches:
        check_operands_fit("cond", types, jaxpr, "a branch")
    outs = []
    for column in zip(*(jaxpr.out_types for jaxpr in branches), strict=True):
        if len({(t.shape, t.dtype) for t in column}) > 1:
            raise JaxprError(f"cond: the branches return {' and '.join(map(str, column))}")
        varying = index.varying.union(*(t.varying for t in column))
        outs.append(column[0].update(weak_type=all(t.weak_type for t in column), varying=varying))
    return outs


def cond_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    """Gives the branches equal types.

    Results chosen by a varying index vary with it, and so do the operands of the branches: the sums
    that casts transpose to must not be in a branch that only some devices run.
    """
    branches: Branches = params["branches"]
    index = types[0].varying
    for jaxpr in branches:
        check_silent("cond", jaxpr, index)
    columns = zip(*([*types[1:]], *(jaxpr.in_types for jaxpr in branches)), strict=True)
    varying = [index.union(*(t.varying for t in column)) for column in columns]

    def widen(jaxpr: Jaxpr, outs: list[frozenset[str]] | None = None) -> Jaxpr:
        return pvary_jaxpr(jaxpr, varying_along(jaxpr.in_types, varying), outs)

    results = zip(*(widen(jaxpr).out_types for jaxpr in branches), strict=True)
    outs = [index.union(*(t.varying for t in column)) for column in results]
    return [types[0], *varying_along(types[1:], varying)], {
        "branches": tuple(widen(jaxpr, outs) for jaxpr in branches)
    }


def cond_runs(eqn: Equation) -> InnerPrograms:
    return InnerPrograms(tuple(map(InnerProgram, eqn.params["branches"])), one_of=True)


def cond_hoist(params: Params) -> Hoisted | None:
    branches: Branches = params["branches"]
    found = hoist_casts(branches, (True,) * len(branches[0].inputs))
    if found is None:
        return None
    operands = [cast._replace(operand=cast.operand + 1) for cast in found.operands]
    return [CastOperand(0), *operands], {"branches": found.jaxprs}


def join(marks: Sequence[Sequence[Any]]) -> tuple[bool, ...]:
    """Returns which positions are marked in any branch."""
    return tuple(any(column) for column in zip(*marks, strict=True))


def derive(
    branches: Branches, key: Any, make: Callable[[], tuple[Branches, Any]]
) -> tuple[Branches, Any]:
    """The result of `make`, cached on the first branch under all branches and `key`."""
    return branches[0].memoize((branches[1:], *key), make)


def cond_jvp(primals: Values, tangents: Values, *, branches: Branches) -> Derived:
    nonzero, given = nonzero_tangents(tangents[1:])
    marks = join([jvp_jaxpr(jaxpr, nonzero)[1] for jaxpr in branches])
    programs = tuple(jvp_jaxpr(jaxpr, nonzero, marks)[0] for jaxpr in branches)
    outs = cond_p.bind(*primals, *given, branches=programs)
    n = len(branches[0].outputs)
    return outs[:n], merge_zeros(marks, outs[n:], [type_of(x) for x in outs[:n]])


def cond_linearize(primals: Values, tangents: Values, *, branches: Branches) -> Derived:
    nonzero, given = nonzero_tangents(tangents[1:])
    index, *operands = primals
    existing = tuple([not isinstance(x, Tracer) for x in operands])
    programs, info = derive(
        branches,
        ("linearize", nonzero, existing),
        lambda: _linearize_branches(branches, nonzero, existing),
    )
    marks, linear, from_inputs, n = info
    outs = cond_p.bind(index, *operands, branches=programs)
    residuals = [operands[i] for i in from_inputs] + outs[n:]
    tangents_out: list[Any] = []
    if any(marks):
        tangents_out = cond_p.bind(index, *residuals, *given, branches=linear)
    return outs[:n], merge_zeros(marks, tangents_out, [type_of(x) for x in outs[:n]])


def _linearize_branches(
    branches: Branches, nonzero: tuple[bool, ...], existing: tuple[bool, ...]
) -> tuple[Branches, Any]:
    """The branches that also compute residuals, and those of the linear conditional."""
    marks = join([linearize_jaxpr(jaxpr, nonzero).nonzero_out for jaxpr in branches])
    splits = [linearize_sparing(jaxpr, nonzero, marks, existing) for jaxpr in branches]
    from_inputs = sorted({i for s in splits for kind, i in s.residual_sources if kind == "input"})
    n = len(branches[0].outputs)
    offset = {"output": 0, "extra": n}
    computed = [
        [offset[kind] + i for kind, i in s.residual_sources if kind != "input"] for s in splits
    ]
    pairs = zip(splits, computed, strict=True)
    slots = ResidualSlots([[s.primal.out_types[i] for i in own] for s, own in pairs])
    in_types = branches[0].in_types

    def primal_branch(b: int) -> Jaxpr:
        def function(*values: Any) -> list[Any]:
            outs = eval_jaxpr(splits[b].primal, (), *values)
            return [*outs[:n], *slots.fill(b, [outs[i] for i in computed[b]])]

        return rebuild(function, in_types, branches[b].name, "cond")

    def linear_branch(b: int) -> Jaxpr:
        k = len(from_inputs)

        def function(*values: Any) -> list[Any]:
            inputs = dict(zip(from_inputs, values[:k], strict=True))
            own = iter(slots.pick(b, values[k : k + len(slots.types)]))
            residuals = [
                inputs[i] if kind == "input" else next(own)
                for kind, i in splits[b].residual_sources
            ]
            return eval_jaxpr(splits[b].linear, (), *residuals, *values[k + len(slots.types) :])

        tangent_types = [t.tangent() for t in keep_marked(nonzero, in_types)]
        types = [in_types[i] for i in from_inputs] + slots.types + tangent_types
        return rebuild(function, types, branches[b].name, "cond")

    every = range(len(branches))
    linear = tuple(linear_branch(b) for b in every)
    return tuple(primal_branch(b) for b in every), (marks, linear, from_inputs, n)


def cond_transpose(cotangents: Values, *operands: Any, branches: Branches) -> list[Any]:
    index, *rest = operands
    linear, known = known_operands(rest)
    nonzero, given = nonzero_tangents(cotangents)
    programs, marks = derive(
        branches,
        ("transpose", linear, nonzero),
        lambda: _transpose_branches(branches, linear, nonzero),
    )
    outs = cond_p.bind(index, *known, *given, branches=programs) if any(marks) else ()
    return [None, *merge_cotangents(linear, marks, outs)]


def _transpose_branches(
    branches: Branches, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[Branches, tuple[bool, ...]]:
    transposed = [transpose_jaxpr(jaxpr, linear, nonzero) for jaxpr in branches]
    marks = join([own for _, own in transposed])
    wanted = keep_marked(linear, branches[0].in_types)

    def branch(jaxpr: Jaxpr, own: tuple[bool, ...]) -> Jaxpr:
        def function(*values: Any) -> list[Any]:
            found = merge_zeros(own, eval_jaxpr(jaxpr, (), *values), wanted)
            return [*map(instantiate, keep_marked(marks, found))]

        return rebuild(function, jaxpr.in_types, jaxpr.name, "cond")

    return tuple(branch(jaxpr, own) for jaxpr, own in transposed), marks


def cond_vmap(axis: AxisData, args: Values, dims: Dims, *, branches: Branches) -> Mapped:
    (index, *operands), (index_dim, *rest) = args, dims
    if index_dim is None:
        programs, marks = _vmap_branches(axis, rest, branches, None)
        outs = cond_p.bind(index, *operands, branches=programs)
        return outs, [0 if flag else None for flag in marks]
    if any(jaxpr.effects for jaxpr in branches):
        # All branches at once would have the effects of those not taken.
        return map_in_order(
            axis, args, dims, lambda *xs: cond_p.bind(*xs, branches=branches), "cond"
        )
    guarded = [type(x) is not Array and type_of(x).dtype in dtypes.INEXACT for x in operands]
    rest = [0 if flag else dim for flag, dim in zip(guarded, rest, strict=True)]
    every = (True,) * len(branches[0].outputs)
    programs, _ = _vmap_branches(axis, rest, branches, every)
    taken = [eq(index, np.int32(i)) for i in range(len(branches))]
    rows = [
        move_dim(x, dim, 0, axis.size) if flag else x
        for flag, x, dim in zip(guarded, operands, dims[1:], strict=True)
    ]
    results = []
    for rows_taken, jaxpr in zip(taken, programs, strict=True):
        # Where a row does not take the branch, no derivative passes into it: a slope there that is
        # infinite would make NaN of a zero.
        own = [
            stop_gradient_elsewhere(rows_taken, x) if flag else x
            for flag, x in zip(guarded, rows, strict=True)
        ]
        results.append(eval_jaxpr(jaxpr, (), *own))
    passed = passed_through(branches)
    found: list[Any] = []
    for source, *column in zip(passed, *results, strict=True):
        out = column[-1] if source is None else operands[source]
        for i in range(len(branches) - 2, -1, -1) if source is None else ():
            out = select_rows(taken[i], column[i], out)
        found.append(out)
    return found, [0 if source is None else dims[1 + source] for source in passed]


def passed_through(branches: Branches) -> list[int | None]:
    """For each result the operand that every branch returns, or None."""
    places = [{v: i for i, v in enumerate(jaxpr.inputs)} for jaxpr in branches]
    columns = zip(*(jaxpr.outputs for jaxpr in branches), strict=True)
    found = [{at.get(v) for at, v in zip(places, column, strict=True)} for column in columns]
    return [own.pop() if len(own) == 1 else None for own in found]


def _vmap_branches(
    axis: AxisData, dims: Dims, branches: Branches, wanted: Any
) -> tuple[Branches, tuple[bool, ...]]:
    key = tuple(dims)
    if wanted is None:
        found = [vmap_jaxpr(jaxpr, axis, key)[1] for jaxpr in branches]
        wanted = join([[dim is not None for dim in own] for own in found])
    return tuple(vmap_jaxpr(jaxpr, axis, key, wanted)[0] for jaxpr in branches), wanted


def cond_partial_eval(eqn: Equation, unknown: Sequence[bool]) -> SplitEquation:
    branches: Branches = eqn.params["branches"]
    if unknown[0]:
        return all_unknown(eqn)
    flags = tuple(unknown[1:])
    marks = join([partial_eval_jaxpr(jaxpr, flags).unknown_out for jaxpr in branches])
    splits = [partial_eval_jaxpr(jaxpr, flags, marks) for jaxpr in branches]
    slots = ResidualSlots([s.residual_types for s in splits])
    n = marks.count(False)
    # The joined types, which a branch alone may not have: one may give a Python number.
    later_types, known_types = partition(marks, [v.type for v in eqn.outputs])

    def known_branch(b: int) -> Jaxpr:
        def function(*values: Any) -> list[Any]:
            outs = eval_jaxpr(splits[b].known, (), *values)
            results = [*outs[:n], *slots.fill(b, outs[n:])]
            return [cast_to(x, t) for x, t in zip(results, known_types + slots.types, strict=True)]

        return rebuild(function, splits[b].known.in_types, branches[b].name, "cond")

    def unknown_branch(b: int) -> Jaxpr:
        k = len(slots.types)

        def function(*values: Any) -> list[Any]:
            outs = eval_jaxpr(splits[b].unknown, (), *slots.pick(b, values[:k]), *values[k:])
            return [cast_to(x, t) for x, t in zip(outs, later_types, strict=True)]

        rest = keep_marked(flags, branches[b].in_types)
        return rebuild(function, slots.types + rest, branches[b].name, "cond")

    every = range(len(branches))
    return split_equation(
        eqn,
        flags,
        marks,
        [Var(type) for type in slots.types],
        {"branches": tuple(known_branch(b) for b in every)},
        {"branches": tuple(unknown_branch(b) for b in every)},
        both=eqn.inputs[:1],
    )


def cond_dce(eqn: Equation, used: Sequence[bool]) -> tuple[list[bool], Equation | None]:
    branches: Branches = eqn.params["branches"]
    found = [dce_jaxpr(jaxpr, tuple(used), True) for jaxpr in branches]
    if not any(used) and not any(jaxpr.effects for jaxpr, _ in found):
        return [False] * len(eqn.inputs), None

    def smaller() -> tuple[Branches, tuple[bool, ...]]:
        reads = join([own for _, own in found])
        kept = keep_marked(reads, range(len(reads)))
        return tuple(permute_jaxpr(jaxpr, kept) for jaxpr, _ in found), reads

    programs, reads = derive(branches, ("dce", tuple(used)), smaller)
    return smaller_equation(eqn, [True, *reads], used, {"branches": programs})


def cond_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """The mean of the branches' reads, as if each ran equally often."""
    branches: Branches = eqn.params["branches"]
    found = [inner(b, [(full_read(x.type),) for x in b.outputs]) for b in branches]
    together = [
        tuple(read.repeated(1 / len(branches)) for reads in own for read in reads)
        for own in zip(*found, strict=True)
    ]
    return [(full_read(eqn.inputs[0].type),), *together]


def cond_keep_layouts(eqn: Equation, layouts: Sequence[Any], partitioned: bool) -> list[Equation]:
    if partitioned:
        return [eqn]
    branches = tuple(branch_in_layouts(b, layouts[1:]) for b in eqn.params["branches"])
    return [eqn.replace(params={"branches": branches})]


def branch_in_layouts(branch: Jaxpr, layouts: Sequence[Any]) -> Jaxpr:
    inner = keep_layouts(branch, layouts)
    inputs, constraints = list(inner.inputs), []
    for i, how in enumerate(layouts):
        if how is not None:
            inputs[i] = Var(inner.inputs[i].type)
            constraints.append(constraint_equation(inputs[i], inner.inputs[i], how))
    eqns = [*constraints, *inner.eqns]
    return checked(Jaxpr(inputs, eqns, inner.outputs, inner.num_consts, inner.name))


def cond_lower(context: Any, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    every = [
        partial(context.lower_jaxpr, branch, operands, f"branch_{b}")
        for b, branch in enumerate(branches)
    ]
    chosen = stablehlo.known_integer(index)
    if chosen is not None:
        return list(every[max(0, min(chosen, len(every) - 1))]())
    return list(context.case(index, every, context.result_ir_types()))


rules.impl.register(cond_p, cond_impl)
rules.type_rule.register(cond_p, cond_type)
rules.retype.register(cond_p, cond_retype)
rules.hoist.register(cond_p, cond_hoist)
rules.runs.register(cond_p, cond_runs)
rules.jvp.register(cond_p, cond_jvp)
rules.linearize.register(cond_p, cond_linearize)
rules.transpose.register(cond_p, cond_transpose)
rules.vmap.register(cond_p, cond_vmap)
rules.partial_eval.register(cond_p, cond_partial_eval)
rules.dce.register(cond_p, cond_dce)
rules.lower.register(cond_p, cond_lower)
rules.steps.register(cond_p, cond_steps)
rules.reads.register(cond_p, cond_reads)
rules.keep_layouts.register(cond_p, cond_keep_layouts)
