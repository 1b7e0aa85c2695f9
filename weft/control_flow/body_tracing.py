"""Traces the bodies of loops and branches, and gives carried values one type.

Python runs a loop's body once. Where a carried value comes out with another type than it goes in,
because a Python number went in or because devices come to hold different values, the recorded
jaxpr is typed again with the wider types, until they no longer change; Python runs again only
where a number that yields to other dtypes did yield, since then the body may take other paths.

A `ProgramPrimitive` holds jaxprs as parameters, and takes a program with its closed-over values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft import dtypes, tree
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Var, eval_jaxpr, jaxprs_in, map_jaxprs
from weft.core.primitive import Primitive
from weft.core.rules import Params, Types
from weft.core.shared_jaxprs import emits_jaxprs, program_alone, share_jaxpr
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, TreeError, WeftTypeError
from weft.interpreters.hoist import cast_to, join_types
from weft.interpreters.staging import (
    check_results,
    function_name,
    leaf_paths,
    rebuild,
    trace_to_jaxpr,
)
from weft.lowering.eval_trace import operation_key, operation_program
from weft.lowering.executables import run_program
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.constants import inline_consts
from weft.ops.structural.joining import concatenate_p
from weft.refs.discharge import array_in, discharge, has_references
from weft.refs.reference import contents
from weft.tracing.argument_names import argument_names
from weft.tracing.traces import TracedBody
from weft.tree.difference import differences


@dataclasses.dataclass(frozen=True)
class LoopBody:
    """A traced loop body: its jaxpr, the values it closed over, the structure of its results other
    than the carried values, and the types of the carried values. If it closes over references, the
    jaxpr takes their arrays, and returns those of the `written` ones after its results."""

    jaxpr: Jaxpr
    consts: list[Any]
    out_tree: Any
    carry_types: list[ArrayType]
    written: tuple[int, ...] = ()

    def with_references(self) -> LoopWithReferences:
        """The body of a loop that also carries the arrays of the references it writes."""
        jaxpr, consts, written = self.jaxpr, self.consts, self.written
        if not has_references(consts):
            return LoopWithReferences(jaxpr, consts, [])
        first, n = len(consts), len(self.carry_types)
        kept = [i for i in range(first) if i not in written]
        rest = range(first + n, len(jaxpr.inputs))
        results = len(jaxpr.outputs) - len(written)
        outputs = [*range(n), *range(results, len(jaxpr.outputs)), *range(n, results)]
        inputs = [*kept, *range(first, first + n), *written, *rest]
        values = [array_in(consts[i]) for i in kept]
        refs = [consts[i] for i in written]
        return LoopWithReferences(permute_jaxpr(jaxpr, inputs, outputs), values, refs)

    def start(self, carry: Sequence[Any]) -> list[Any]:
        """The first carried values in the types that the loop carries."""
        return [
            cast_to(
                x
                if type_of(x).dtype == type.dtype
                else convert_element_type(x, type.dtype, type.weak_type),
                type,
            )
            for x, type in zip(carry, self.carry_types, strict=True)
        ]


@dataclasses.dataclass(frozen=True)
class LoopWithReferences:
    """A loop body without references: the arrays of `refs` are the last carried values."""

    jaxpr: Jaxpr
    consts: list[Any]
    refs: list[Any]

    def arrays(self) -> list[Any]:
        """The first values of the arrays of the references."""
        return [contents(ref) for ref in self.refs]

    def write(self, arrays: Sequence[Any]) -> None:
        """Writes the last values of these arrays."""
        for ref, value in zip(self.refs, arrays, strict=True):
            ref[...] = value


def trace_body(
    what: str,
    function: Callable[..., Any],
    in_tree: Any,
    in_types: Sequence[ArrayType],
    call: Callable[..., Any] | None = None,
    references: bool = False,
) -> TracedBody:
    """Traces `function(*args)`, where `in_tree` is the structure of the tuple of arguments. The
    jaxpr is shared with equal ones. `call(function, *args)`, if given, calls the function. With
    `references` the function may close over them."""
    name = function_name(function)
    trees: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        args = in_tree.unflatten(values)
        out = function(*args) if call is None else call(function, *args)
        outs, out_tree = tree.flatten(out)
        trees.append(out_tree)
        return check_results(out, outs, f"{what} of {name}")

    def names() -> list[str]:
        return argument_names(function, tree.treedef_tuple((in_tree, tree.structure({}))))

    jaxpr, consts = trace_to_jaxpr(
        flat,
        in_types,
        transformation=what,
        name=name,
        input_names=names if call is None else None,
        references=references,
    )
    return TracedBody(share_jaxpr(jaxpr), consts, trees[-1])


def trace_loop_body(
    what: str,
    function: Callable[..., Any],
    trees: Sequence[Any],
    carry_types: Sequence[ArrayType],
    other_types: Sequence[ArrayType],
    result: Callable[[Any], Any],
) -> LoopBody:
    """Traces a function whose first argument, of structure `trees[0]`, is carried around a loop.
    `result` takes the structure of the results, carried values first, and returns that of the
    others. A Python number in the carry takes the dtype that the body returns."""
    name = function_name(function)
    in_tree = tree.treedef_tuple(tuple(trees))
    types, n = list(carry_types), len(carry_types)
    while True:
        traced, written = _trace_references(what, function, in_tree, [*types, *other_types])
        out_tree = result(traced.out_tree)
        outs = traced.jaxpr.out_types[:n]
        wider = promote_carry(types, outs)
        first = len(traced.consts)
        if wider == types:
            again = partial(_trace_references, what, function, in_tree, [*outs, *other_types])
            check_carry_types(what, name, trees[0], types, traced.jaxpr, again)
            weaker = [a.weak_type and not b.weak_type for a, b in zip(types, outs, strict=True)]
            flags = [*[False] * first, *weaker, *[False] * len(other_types)]
            if not any(weaker) or not yields(traced.jaxpr, flags):
                body = close_carry(traced.jaxpr, first, n, weak=True)
                carried = body.in_types[first : first + n]
                return LoopBody(body, traced.consts, out_tree, carried, written)
            wider = [t.strong() if flag else t for t, flag in zip(types, weaker, strict=True)]
        types = wider


def _trace_references(
    what: str, function: Callable[..., Any], in_tree: Any, types: Any
) -> tuple[TracedBody, tuple[int, ...]]:
    """The traced body for arrays in place of references, and which of these it writes."""
    traced = trace_body(what, function, in_tree, types, references=True)
    found = discharge(traced.jaxpr)
    return dataclasses.replace(traced, jaxpr=found.jaxpr), found.written


def permute_jaxpr(
    jaxpr: Jaxpr, inputs: Sequence[int], outputs: Sequence[int] | None = None
) -> Jaxpr:
    """The jaxpr with its inputs, and its results where given, in another order; cached on it."""

    def make() -> Jaxpr:
        results = jaxpr.outputs if outputs is None else [jaxpr.outputs[i] for i in outputs]
        return Jaxpr([jaxpr.inputs[i] for i in inputs], jaxpr.eqns, results, 0, jaxpr.name)

    key = ("permuted", tuple(inputs), None if outputs is None else tuple(outputs))
    return jaxpr.memoize(key, make)


def run_compiled(
    primitive: Primitive, args: Sequence[Any], params: Params, owner: Jaxpr, brief: bool = False
) -> list[Any]:
    """Evaluates an application as one executable, cached on the jaxpr `owner`; `brief` is that of
    `operation_program`."""
    arrays = [as_array(x) for x in args]
    key = ("compiled", primitive, *operation_key(arrays, params))
    program = owner.memoize(key, lambda: operation_program(primitive, arrays, params, brief))
    return list(run_program(program, arrays))


def run_as_one(primitive: Primitive, brief: bool, *args: Any, **params: Any) -> list[Any]:
    """The evaluation rule of a primitive that holds jaxprs, given its first two arguments."""
    if primitive in emits_jaxprs:
        params = map_jaxprs(program_alone, params)
    return run_compiled(primitive, args, params, jaxprs_in(params)[-1], brief)


def close_carry(jaxpr: Jaxpr, num_consts: int, num_carry: int, weak: bool = False) -> Jaxpr:
    """The body with carried values of one type going in and coming out. Types go up a lattice of
    finite height, so this ends. Shapes and dtypes are equal already. Weak types matter only to the
    user's function: `weak` makes them equal too."""

    def make() -> Jaxpr:
        body = jaxpr
        while True:
            carried = body.in_types[num_consts : num_consts + num_carry]
            outs = body.out_types[:num_carry]
            wider = [join_types(a, b) for a, b in zip(carried, outs, strict=True)]
            pairs = zip(wider * 2, carried + outs, strict=True)
            if all(a is b or (not weak and a.strong() is b.strong()) for a, b in pairs):
                return body
            body = with_carry(jaxpr, num_consts, wider)

    return jaxpr.memoize(("close_carry", num_consts, num_carry, weak), make)


def with_carry(jaxpr: Jaxpr, num_consts: int, carried: Sequence[ArrayType]) -> Jaxpr:
    """The jaxpr with carried values of wider types, equal going in and coming out."""
    n = len(carried)

    def function(*values: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, (), *values)
        pairs = zip(outs[:n], carried, strict=True)
        return [*[cast_to(x, join_types(type_of(x), type)) for x, type in pairs], *outs[n:]]

    types = jaxpr.in_types
    types[num_consts : num_consts + n] = carried
    return rebuild(function, types, jaxpr.name, "loop")


def yields(jaxpr: Jaxpr, flags: Sequence[bool]) -> bool:
    """Whether a weakly typed value that depends on flagged inputs took another dtype."""
    weak = {v for v, flag in zip(jaxpr.inputs, flags, strict=True) if flag and v.type.weak_type}
    for eqn in jaxpr.eqns:
        operands = [x for x in eqn.inputs if type(x) is Var and x in weak]
        if not operands:
            continue
        if "new_dtype" in eqn.params and eqn.params["new_dtype"] != operands[0].type.dtype:
            return True
        if any(_converts(inner) for inner in jaxprs_in(eqn.params)):
            return True
        weak.update(v for v in eqn.outputs if v.type.weak_type)
    return False


def _converts(jaxpr: Jaxpr) -> bool:
    return any(
        "new_dtype" in eqn.params or any(_converts(inner) for inner in jaxprs_in(eqn.params))
        for eqn in jaxpr.eqns
    )


def promote_carry(types: Sequence[ArrayType], outs: Sequence[ArrayType]) -> list[ArrayType]:
    """The carried types; Python numbers among them take the dtypes that come out."""
    found = []
    for got, out in zip(types, outs, strict=True):
        differs = got.shape == out.shape and got.dtype != out.dtype
        if got.weak_type and differs and not dtypes.is_extended(out.dtype):
            dtype, weak = dtypes.promote((got.dtype, True), (out.dtype, out.weak_type))
            got = got.update(dtype=dtype, weak_type=weak)
        found.append(got)
    return found


def users_part(what: str, carry_tree: Any) -> tuple[Any, int]:
    """The user's part of a carried tree, and the number of leaves before it (in a fori_loop)."""
    if what != "fori_loop":
        return carry_tree, 0
    *counters, own = carry_tree.children()
    return own, len(counters)


def check_carry_structure(what: str, name: str, in_tree: Any, out_tree: Any) -> None:
    """Raises TreeError if a carried tree comes out with another structure."""
    if in_tree == out_tree:
        return
    (in_tree, _), (out_tree, _) = users_part(what, in_tree), users_part(what, out_tree)
    lines = "".join(
        f"\n    carry{tree.keystr(found.path)}: {found.left} goes in, {found.right} comes out"
        for found in differences(in_tree, out_tree)
    )
    message = f"{what} of {name}: the carry comes out with another structure than it goes in"
    wanted = f"{in_tree}, the structure of the initial carry"
    fix = Fix("same_structure", "return the carry with the structure of the initial one")
    raise TreeError(message, got=f"{out_tree}{lines}", wanted=wanted, fix=fix)


def check_carry_types(
    what: str, name: str, carry_tree: Any, types: Types, body: Jaxpr, again: Callable[[], Any]
) -> None:
    """Raises WeftTypeError for carried values whose shape or dtype changes, leaf by leaf. `again`
    traces the body for the types that come out: a fix if they stay."""
    outs = body.out_types[: len(types)]
    own, n = users_part(what, carry_tree)
    columns = zip(leaf_paths(own), types[n:], outs[n:], body.outputs[n:], strict=False)
    differ = [
        row for row in columns if (row[1].shape, row[1].dtype) != (row[2].shape, row[2].dtype)
    ]
    if not differ:
        return
    made = {var: eqn for eqn in body.eqns for var in eqn.outputs}
    lines = []
    for path, got, out, var in differ:
        eqn = made.get(var) if isinstance(var, Var) else None
        by = f", made by {eqn.primitive.name} at {sources.describe(eqn.source)}" if eqn else ""
        lines.append(f"carry{path}: {got} goes in, {out} comes out{by}")
    message = f"{what} of {name}: the carry comes out with other types than it goes in"
    wanted = "the shape and dtype of each initial value"
    try:
        stays = again()[0].jaxpr.out_types[: len(types)] == outs
    except Exception:  # noqa: BLE001  (the body takes no such carry)
        stays = False
    path, got, out, var = differ[0]
    grows = var in made and made[var].primitive is concatenate_p
    kind = "convert" if got.shape == out.shape else "shape"
    fix = Fix(
        kind,
        _advice(got, out, stays, grows),
        {"path": path, "dtype": out.dtype, "shape": out.shape},
    )
    raise WeftTypeError(message, got="\n".join(lines), wanted=wanted, fix=fix)


def _advice(got: ArrayType, out: ArrayType, stays: bool, grows: bool) -> str:
    """The advice for a carried value of another type; `grows`: the body appends to it."""
    back = f"return an array of shape {got.shape} from the body"
    if got.shape != out.shape:
        if stays:
            return f"start with an array of shape {out.shape}, or {back}"
        if grows:
            return (
                "a carried array keeps its length: start with one of the final length and write "
                "into it with .at[i].set, or return what is added as the result of each step"
            )
        return back
    return (
        f"start with dtype {dtypes.short_name(out.dtype)}, or convert what the body returns to "
        f"{dtypes.short_name(got.dtype)}"
    )


def _open(value: Any) -> Any:
    """The jaxpr of a program, with its closed-over values as constants."""
    if type(value) is ClosedJaxpr:
        return inline_consts(value.jaxpr, value.consts)
    return tuple(map(_open, value)) if type(value) in (tuple, list) else value


class ProgramPrimitive(Primitive):
    """A primitive with several results whose parameters hold jaxprs. Interpreters from outside may
    pass a `ClosedJaxpr`, as `make_jaxpr` returns it."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, multiple_results=True, memoise=False)

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        for name, value in params.items():
            kind = type(value)
            if kind is ClosedJaxpr or kind is tuple and value and type(value[0]) is ClosedJaxpr:
                params[name] = _open(value)
        return super().bind(*args, **params)
