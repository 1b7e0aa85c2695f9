"""`custom_root`: a root of a function, with the derivatives of the implicit function theorem.

Where f(x, a) = 0 defines x, its derivative is the solution of df/dx dx = -df/da da: it needs the
root alone, not the steps of the solver that found it. See Blondel et al., "Efficient and modular
implicit differentiation" (NeurIPS 2022).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from weft import tree
from weft.api.autodiff import jvp, linearize
from weft.control_flow.body_tracing import trace_body
from weft.control_flow.linear_solve import check_like
from weft.control_flow.loops import typed_leaves
from weft.core.jaxpr import eval_jaxpr
from weft.core.rules import Zero
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, TreeError, api_boundary
from weft.interpreters.staging import check_function, function_name
from weft.ops.elementwise.arithmetic import neg
from weft.ops.structural.tangents import instantiate
from weft.tracing.traces import TracedBody

R = TypeVar("R")


@api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], R],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> R:
    """`solve(f, initial_guess)`, an x with `f(x) == 0`, with the derivatives of such a root.

    `f` maps a tree to one like it; whatever it closes over may be differentiated, in both modes and
    any number of times. `solve` may take any steps: none is differentiated, and the initial guess
    has no influence on derivatives. `tangent_solve(g, y)` solves `g(x) == y` for a linear `g`; for
    a scalar it is `lambda g, y: y / g(1.0)`, for systems see `custom_linear_solve`. With `has_aux`,
    `solve` returns `(x, aux)`. Raises TreeError or WeftTypeError for an `f` or a `solve` whose
    result is not like the guess.

    Args:
        f: The function whose root is sought, from a tree to one like it.
        initial_guess: A tree of arrays, at which `solve` starts.
        solve: Finds the root: called as `solve(f, initial_guess)`.
        tangent_solve: Solves a linear system: called as `tangent_solve(g, y)`, it returns the x
            with `g(x) == y`.
        has_aux: Whether `solve` returns a pair of the root and further values, which have no
            derivatives.

    >>> import weft
    >>> def newton(f, x0):
    ...     step = lambda _, x: x - f(x) / weft.grad(f)(x)
    ...     return weft.lax.fori_loop(0, 20, step, x0)
    >>> def square_root(a):
    ...     return weft.lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> square_root(4.0), weft.grad(square_root)(4.0)
    (Array(2., dtype=float32, weak_type=True), Array(0.25, dtype=float32, weak_type=True))
    """
    for which, function in (("f", f), ("solve", solve), ("tangent_solve", tangent_solve)):
        check_function("custom_root", function, f"as {which}")
    guess, types, x_tree = typed_leaves(
        "custom_root", function_name(f), "initial_guess", initial_guess
    )
    in_tree = tree.treedef_tuple((x_tree,))
    equation = trace_body("custom_root", f, in_tree, types)
    solver = trace_body("custom_root", lambda x: solve(f, x), in_tree, types)
    like = ("initial_guess", (x_tree, types))
    check_like("custom_root", f"f ({function_name(f)})", equation, *like)
    check_like("custom_root", f"solve ({function_name(solve)})", solver, *like, has_aux)
    return solver.out_tree.unflatten(_root(equation, solver, tangent_solve, x_tree, guess))


def _root(
    equation: TracedBody, solver: TracedBody, tangent_solve: Any, x_tree: Any, guess: list[Any]
) -> list[Any]:
    """The results of the solver, with their derivatives."""
    n = len(guess)

    def residual(consts: Any, x: Any) -> Any:
        return x_tree.unflatten(eval_jaxpr(equation.jaxpr, (), *consts, *x_tree.flatten_up_to(x)))

    @custom_jvp
    def root(f_consts: Any, solve_consts: Any, start: Any) -> Any:
        return eval_jaxpr(solver.jaxpr, (), *solve_consts, *start)

    @root.defjvp
    def root_jvp(primals: Any, tangents: Any) -> Any:
        consts = primals[0]
        outs = root(*primals)
        x = x_tree.unflatten(outs[:n])
        _, right = jvp(lambda *given: residual(given, x), tuple(consts), tuple(tangents[0]))
        _, along_x = linearize(lambda value: residual(consts, value), x)
        leaves, out_tree = tree.flatten(tangent_solve(along_x, tree.map(neg, right)))
        if out_tree != x_tree:
            message = (
                f"custom_root: tangent_solve ({function_name(tangent_solve)}) returns another "
                "structure than the root has"
            )
            got = str(out_tree)
            fix = Fix("same_structure", "return a tree like its second argument")
            raise TreeError(message, operation="custom_root", got=got, wanted=str(x_tree), fix=fix)
        aux = [instantiate(Zero(type_of(out).tangent())) for out in outs[n:]]
        return outs, [*leaves, *aux]

    return list(root(list(equation.consts), list(solver.consts), guess))
