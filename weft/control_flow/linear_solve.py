"""`custom_linear_solve`: the solution of a linear system, differentiated by solving systems.

Where A x = b, the derivative solves A dx = db - dA x, and a cotangent solves the transposed system:
no derivative goes through the steps of the solver. See Giles, "Collected matrix derivative results
for forward and reverse mode algorithmic differentiation" (2008).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from weft import tree
from weft.base.util import keep_marked, scatter_to_marked
from weft.control_flow.body_tracing import run_as_one, trace_body
from weft.control_flow.loops import typed_leaves
from weft.core import rules
from weft.core.axes import mesh_axes
from weft.core.check import check_operands_fit
from weft.core.inner_programs import InnerProgram, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, Steps, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import (
    AxisData,
    Derived,
    Dims,
    LinearOperand,
    Mapped,
    Params,
    Retyped,
    Values,
    Zero,
)
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, TreeError, WeftNotImplementedError, WeftTypeError, api_boundary
from weft.interpreters.hoist import pvary_jaxpr, varying_along
from weft.interpreters.jvp import jvp_jaxpr, known_operands, merge_zeros, nonzero_tangents
from weft.interpreters.staging import check_function, function_name, leaf_paths, rebuild
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.ops.collectives.all_reduce import pbroadcast
from weft.ops.collectives.named_axes import communication
from weft.ops.elementwise.arithmetic import neg
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import add_tangents, instantiate
from weft.typing import Array, ArrayLike

linear_solve_p = Primitive("linear_solve", multiple_results=True, memoise=False)

Tree = TypeVar("Tree")

Solver = Callable[[Callable[[Any], Any], Any], Any]


@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: ArrayLike,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: Literal[False] = False,
) -> Array: ...
@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Tree,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: Literal[False] = False,
) -> Tree: ...
@overload
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    *,
    has_aux: bool,
) -> Any: ...
@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Returns `solve(matvec, b)`, the solution x of `matvec(x) == b`, with its derivatives.

    `matvec` is linear and maps trees like `b` to trees like `b`; whatever it closes over may be
    differentiated. `solve` may take any steps, a `while_loop` too: none is differentiated. Reverse
    mode needs `transpose_solve`, which solves the transposed system in the same way, or
    `symmetric=True`. With `has_aux`, solvers return `(x, aux)`. Raises TreeError or WeftTypeError
    for a `matvec` or a solver whose result is not like `b`.

    Args:
        matvec: A linear function of trees like `b`.
        b: The right-hand side, a tree of arrays.
        solve: Solves the system: called as `solve(matvec, b)`, it returns x.
        transpose_solve: Solves the transposed system in the same way; reverse mode needs it unless
            `symmetric`.
        symmetric: Whether `matvec` is its own transpose.
        has_aux: Whether solvers return a pair of x and further values.

    >>> import weft
    >>> def halve(x0):
    ...     return weft.lax.custom_linear_solve(
    ...         lambda x: 2.0 * x, x0, lambda matvec, b: b / matvec(1.0), symmetric=True
    ...     )
    >>> halve(3.0), weft.grad(halve)(3.0)
    (Array(1.5, dtype=float32, weak_type=True), Array(0.5, dtype=float32, weak_type=True))
    """
    check_function("custom_linear_solve", matvec, "as matvec")
    check_function("custom_linear_solve", solve, "as solve")
    if transpose_solve is not None:
        check_function("custom_linear_solve", transpose_solve, "as transpose_solve")
    leaves, types, b_tree = typed_leaves("custom_linear_solve", function_name(solve), "b", b)
    in_tree = tree.treedef_tuple((b_tree,))
    leaves, types = vary_alike(leaves, types, matvec, in_tree)

    def traced(function: Callable[..., Any], which: str, aux: bool = False) -> Any:
        found = traced_body(function, in_tree, types)
        check_like("custom_linear_solve", which, found, "b", (b_tree, types), aux)
        return found

    forward = traced(matvec, f"matvec {function_name(matvec)}")
    system = System(forward.jaxpr, forward.consts)
    found = traced(lambda x: solve(matvec, x), f"solve {function_name(solve)}", has_aux)
    solver = System(found.jaxpr, found.consts)
    system_t = solver_t = None
    other_solve = solve if transpose_solve is None else transpose_solve
    if symmetric or transpose_solve is not None:
        system_t = (
            system if symmetric else System(transpose_system(forward.jaxpr, types), forward.consts)
        )
        vecmat = tree_function(system_t, b_tree)
        which = f"transpose_solve {function_name(other_solve)}"
        other = traced(lambda x: other_solve(vecmat, x), which, has_aux)
        solver_t = System(other.jaxpr, other.consts)
    return found.out_tree.unflatten(bind_solve(Solve(system, system_t, solver, solver_t), leaves))


def traced_body(function: Callable[..., Any], in_tree: Any, types: Sequence[ArrayType]) -> Any:
    """Traces a function for arguments of these types."""
    return trace_body("custom_linear_solve", function, in_tree, types)


def vary_alike(
    leaves: list[Any], types: list[ArrayType], matvec: Callable[[Any], Any], in_tree: Any
) -> tuple[list[Any], list[ArrayType]]:
    """The right-hand side and its types, varying over the mesh axes as the system does.

    Where each device has a matrix, it has a solution and a transposed system too. For a right-hand
    side typed as equal on all devices, the transposed jaxpr would be summed over them. A jaxpr that
    communicates keeps its types: they say what is equal.
    """
    axes = mesh_axes()
    if not axes:
        return leaves, types
    program = traced_body(matvec, in_tree, types).jaxpr
    if communication(program, frozenset(axis.name for axis in axes)):
        return leaves, types
    union: frozenset[str] = frozenset().union(*(t.varying for t in (*types, *program.out_types)))
    missing = [tuple(sorted(union - t.varying)) for t in types]
    cast = [pbroadcast(x, names) if names else x for x, names in zip(leaves, missing, strict=True)]
    return cast, [t.update(varying=union) for t in types]


def check_like(
    operation: str, which: str, traced: Any, given: str, wanted: Any, has_aux: bool = False
) -> None:
    """Raises TreeError or WeftTypeError if the result of a traced function is not like the argument
    called `given`, whose structure and types are `wanted`."""
    out_tree = traced.out_tree
    wanted_tree, types = wanted
    if has_aux:
        node = out_tree.node_data()
        if node is None or node[0] is not tuple or len(out_tree.children()) != 2:
            message = f"{operation} with has_aux=True: {which} returns no pair"
            fix = Fix("pair", "return (x, aux), or leave has_aux out")
            raise TreeError(message, got=str(out_tree), wanted="a tuple (x, aux)", fix=fix)
        out_tree = out_tree.children()[0]
    if out_tree != wanted_tree:
        message = f"{operation}: {which} returns another structure than {given} has"
        found = str(out_tree)
        fix = Fix("same_structure", f"return a tree like {given}")
        raise TreeError(message, got=found, wanted=str(wanted_tree), fix=fix)
    for path, got, like in zip(
        leaf_paths(wanted_tree), traced.jaxpr.out_types, types, strict=False
    ):
        if (got.shape, got.dtype) != (like.shape, like.dtype):
            message = f"{operation}: {which} returns another type than {given} has at {given}{path}"
            found = str(got)
            fix = Fix(
                "convert",
                f"return arrays of the shapes and dtypes of {given}, or convert {given}",
                {"dtype": got.dtype, "shape": got.shape},
            )
            raise WeftTypeError(message, got=found, wanted=str(like), fix=fix)


def tree_function(system: System, in_tree: Any) -> Callable[[Any], Any]:
    """A linear jaxpr as a function of trees."""
    return lambda x: in_tree.unflatten(
        eval_jaxpr(system.jaxpr, (), *system.consts, *in_tree.flatten_up_to(x))
    )


def transpose_system(jaxpr: Jaxpr, types: Sequence[ArrayType]) -> Jaxpr:
    """Returns the jaxpr of the transposed system, with the same constants."""
    n, m = len(jaxpr.inputs) - len(types), len(types)
    program, reached = transpose_jaxpr(jaxpr, (*(False,) * n, *(True,) * m), (True,) * m)

    def function(*values: Any) -> list[Any]:
        return [*map(instantiate, merge_zeros(reached, eval_jaxpr(program, (), *values), types))]

    return jaxpr.memoize(
        ("transposed system", *types),
        lambda: rebuild(function, [*jaxpr.in_types[:n], *types], jaxpr.name, "transpose"),
    )


@dataclasses.dataclass(frozen=True)
class System:
    """A jaxpr and the values of its first inputs."""

    jaxpr: Jaxpr
    consts: list[Any]


@dataclasses.dataclass(frozen=True)
class Solve:
    """The system, its transpose, and the solver of each; transposes may be missing."""

    matvec: System
    vecmat: System | None
    solve: System
    transpose_solve: System | None

    def parts(self) -> tuple[System | None, ...]:
        """The four jaxprs with their constants."""
        return self.matvec, self.vecmat, self.solve, self.transpose_solve

    def transpose(self) -> Solve:
        if self.vecmat is None or self.transpose_solve is None:
            raise WeftNotImplementedError(
                "reverse-mode differentiation of custom_linear_solve needs a solver of the "
                "transposed system",
                operation="custom_linear_solve",
                got="no transpose_solve",
                wanted="transpose_solve=, or symmetric=True",
                fix=Fix("transpose_solve", "pass transpose_solve=, or symmetric=True"),
            )
        return Solve(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def bind_solve(solve: Solve, b: Sequence[Any]) -> list[Any]:
    parts = solve.parts()
    consts = [x for part in parts if part is not None for x in part.consts]
    return list(
        linear_solve_p.bind(
            *consts,
            *b,
            jaxprs=tuple(part and part.jaxpr for part in parts),
            num_consts=tuple(len(part.consts) if part else 0 for part in parts),
        )
    )


def unbind(operands: Sequence[Any], jaxprs: Any, num_consts: Any) -> tuple[Solve, list[Any]]:
    """Splits operands into the four jaxprs with their constants, and the right-hand side."""
    parts: list[System | None] = []
    start = 0
    for jaxpr, n in zip(jaxprs, num_consts, strict=True):
        parts.append(None if jaxpr is None else System(jaxpr, list(operands[start : start + n])))
        start += n
    return Solve(*parts), list(operands[start:])  # type: ignore[arg-type]


def linear_solve_steps(*args: Any, jaxprs: Any, num_consts: Any) -> Steps:
    solve, b = unbind(args, jaxprs, num_consts)
    yield "the solver of the custom_linear_solve", solve.solve.jaxpr, [*solve.solve.consts, *b]


def linear_solve_type(*types: ArrayType, jaxprs: Any, num_consts: Any) -> list[ArrayType]:
    solve, b = unbind(list(types), jaxprs, num_consts)
    own = solve.solve
    check_operands_fit("custom_linear_solve", [*own.consts, *b], own.jaxpr, "the solver")
    return own.jaxpr.out_types


def linear_solve_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    """Makes system, right-hand side and solution vary alike: each device solves its own system. A
    system that communicates between devices keeps its types."""
    solve, b = unbind(list(types), **params)
    parts = [part for part in solve.parts() if part is not None]
    everywhere = frozenset(axis.name for axis in mesh_axes())
    if any(communication(part.jaxpr, everywhere) for part in parts):
        own = [t for part in parts for t in part.jaxpr.in_types[: len(part.consts)]]
        own += parts[0].jaxpr.in_types[len(parts[0].consts) :]
        return varying_along(types, [t.varying for t in own]), params
    union: frozenset[str] = frozenset().union(
        *(t.varying for t in types), *(t.varying for part in parts for t in part.jaxpr.out_types)
    )

    def widen(jaxpr: Jaxpr) -> Jaxpr:
        given = varying_along(jaxpr.in_types, [union] * len(jaxpr.inputs))
        return pvary_jaxpr(jaxpr, given, [union] * len(jaxpr.outputs))

    jaxprs = tuple(None if jaxpr is None else widen(jaxpr) for jaxpr in params["jaxprs"])
    return [t.update(varying=union) for t in types], params | {"jaxprs": jaxprs}


def linear_solve_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    outs = list(linear_solve_p.bind(*primals, **params))
    solve, b = unbind(primals, **params)
    moved, b_t = unbind(tangents, **params)
    n = len(b)
    x = outs[:n]
    nonzero, given = nonzero_tangents(moved.matvec.consts)
    right = b_t
    if given:
        program, marks = jvp_jaxpr(solve.matvec.jaxpr, (*nonzero, *(False,) * n))
        found = iter(eval_jaxpr(program, (), *solve.matvec.consts, *x, *given)[n:])
        pairs = zip(b_t, marks, strict=True)
        right = [add_tangents(t, neg(next(found))) if flag else t for t, flag in pairs]
    zero = [Zero(type_of(out).tangent()) for out in outs]
    if all(type(t) is Zero for t in right):
        return outs, zero
    return outs, [*bind_solve(solve, [instantiate(t) for t in right])[:n], *zero[n:]]


def linear_solve_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    solve, b = unbind(operands, **params)
    n = len(operands) - len(b)
    if any(type(x) is LinearOperand for x in operands[:n]):
        message = "custom_linear_solve is transposed, and is linear in its right-hand side only"
        got, wanted = "a system that depends on the arguments", "a system that does not"
        fix = Fix("linearize", "linearize first: weft.linearize(f, x)[1]")
        raise WeftTypeError(
            message, operation="custom_linear_solve", got=got, wanted=wanted, fix=fix
        )
    found = bind_solve(solve.transpose(), [instantiate(ct) for ct in cotangents[: len(b)]])
    linear, _ = known_operands(b)
    return [None] * n + scatter_to_marked(linear, keep_marked(linear, found[: len(b)]))


def linear_solve_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    solve, b = unbind(args, **params)
    of, of_b = unbind(dims, **params)
    n = len(b)

    def mapped(part: System | None, dims: System | None) -> System | None:
        if part is None or dims is None:
            return None
        jaxpr, _ = vmap_jaxpr(part.jaxpr, axis, (*dims.consts, *(0,) * n), True)
        return System(jaxpr, part.consts)

    rows = [move_dim(x, d, 0, axis.size) for x, d in zip(b, of_b, strict=True)]
    outs = bind_solve(Solve(*map(mapped, solve.parts(), of.parts())), rows)  # type: ignore[arg-type]
    return outs, [0] * len(outs)


def linear_solve_lower(context: Any, *operands: Any, jaxprs: Any, num_consts: Any) -> list[Any]:
    solve, b = unbind(operands, jaxprs, num_consts)
    return list(context.lower_jaxpr(solve.solve.jaxpr, [*solve.solve.consts, *b], "linear_solve"))


def linear_solve_runs(eqn: Equation) -> InnerPrograms:
    """The third, the solver; the others serve derivatives."""
    return InnerPrograms((InnerProgram(eqn.params["jaxprs"][2]),))


rules.impl.register(linear_solve_p, functools.partial(run_as_one, linear_solve_p, False))
rules.type_rule.register(linear_solve_p, linear_solve_type)
rules.retype.register(linear_solve_p, linear_solve_retype)
rules.runs.register(linear_solve_p, linear_solve_runs)
rules.jvp.register(linear_solve_p, linear_solve_jvp)
rules.transpose.register(linear_solve_p, linear_solve_transpose)
rules.vmap.register(linear_solve_p, linear_solve_vmap)
rules.lower.register(linear_solve_p, linear_solve_lower)
rules.steps.register(linear_solve_p, linear_solve_steps)
