"""Pytrees as vectors: sums, products and norms, and the checks of a linear system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.numpy as jnp
from weft import dtypes, tree
from weft.api.autodiff import linear_transpose
from weft.arrays.array import Array
from weft.control_flow.linear_solve import custom_linear_solve
from weft.core.types import type_of, user_value
from weft.errors import Fix, TreeError, WeftTypeError
from weft.errors.argument_errors import integer_of, wrong_shape, wrong_value
from weft.kinds.arguments import Passed, Prepared
from weft.kinds.array_function import private_function
from weft.kinds.checks import check_arrays, check_numbers, convert, inexact
from weft.ops.elementwise.convert import stop_gradient

Operator = Callable[[Any], Any]
Method = Callable[..., Any]


def dot(x: Any, y: Any) -> Any:
    """The sum of conj(x) y over all leaves."""
    pairs = zip(tree.leaves(x), tree.leaves(y), strict=True)
    return sum(jnp.vdot(a, b, precision="highest") for a, b in pairs)


def norm(x: Any) -> Any:
    """The root of the sum of squared magnitudes over all leaves."""
    return jnp.sqrt(dot(x, x).real)


def scale_tree(factor: Any, x: Any) -> Any:
    """Multiplies each leaf, in its own dtype, by a number."""
    return tree.map(lambda leaf: _as(factor, leaf) * leaf, x)


def plus(x: Any, factor: Any, y: Any) -> Any:
    """x + factor y, each leaf in its own dtype."""
    return tree.map(lambda a, b: a + _as(factor, b) * b, x, y)


def difference(x: Any, y: Any) -> Any:
    """x - y."""
    return tree.map(lambda a, b: a - b, x, y)


def _as(factor: Any, leaf: Any) -> Any:
    """A number in the dtype of a leaf; its real part if the leaf is real."""
    dtype = type_of(leaf).dtype
    if type_of(factor).dtype in dtypes.COMPLEX and dtype not in dtypes.COMPLEX:
        factor = jnp.real(factor)
    return convert(factor, dtype)


def _is_matrix(given: Any) -> bool:
    return not callable(given) or isinstance(given, Array)


def _check_matrix(argument: str, given: Any, b: Any) -> None:
    """Raises ShapeError or WeftTypeError unless a matrix maps vectors like b to such vectors."""
    check_arrays(given)
    shape, sides = type_of(given).shape, [type_of(leaf).shape for leaf in tree.leaves(b)]
    if len(shape) != 2 or shape[0] != shape[1] or sides != [(shape[0],)] or not hasattr(b, "type"):
        wanted = f"a square matrix {argument} and b of shape (n,), or a function {argument}"
        raise wrong_shape(f"{argument}: {type_of(given)}, b: {sides}", wanted)


def _operator(given: Any) -> Operator:
    """A function that multiplies by a matrix, or the given function."""
    if not _is_matrix(given):
        return given
    return lambda x: jnp.matmul(given, x, precision="highest")


def _vector(argument: str, given: Any) -> Any:
    """Converts an argument to a tree of floating or complex arrays."""
    leaves, structure = tree.flatten(given)
    if not leaves:
        got, wanted = f"{argument}={given!r:.80}", "an array or a tree of arrays"
        raise WeftTypeError(f"{argument} has no arrays", got=got, wanted=wanted)
    values = []
    for leaf in leaves:
        check_arrays(leaf, argument=argument)
        value = jnp.asarray(user_value(leaf))
        check_numbers(argument, value)
        values.append(convert(value, inexact(value.dtype)))
    return structure.unflatten(values)


def _guess(x0: Any, b: Any) -> Any:
    """The initial guess, in the dtypes of b. Raises TreeError and ShapeError."""
    leaves, structure = tree.flatten(b)
    given, given_structure = tree.flatten(_vector("x0", x0))
    if structure != given_structure:
        message = "x0 has another structure than b"
        fix = Fix("same_structure", "pass an x0 like b, or none", {"x0": None})
        raise TreeError(message, got=str(given_structure), wanted=str(structure), fix=fix)
    for a, c in zip(given, leaves, strict=True):
        if type_of(a).shape != type_of(c).shape:
            raise wrong_shape(f"x0: {type_of(a)}, b: {type_of(c)}", "an x0 like b")
    found = zip(given, leaves, strict=True)
    return structure.unflatten([stop_gradient(convert(a, type_of(c).dtype)) for a, c in found])


def _tolerance(name: str, value: Any) -> Any:
    check_arrays(value)
    of = type_of(value)
    negative = isinstance(value, (int, float)) and value < 0
    if of.shape or of.dtype in dtypes.COMPLEX or negative:
        got = f"{name}={value!r:.80}"
        raise wrong_value(got, f"{name}: a number that is not below 0")
    return value


def solution(
    method: Method,
    a: Any,
    b: Any,
    x0: Any,
    m: Any,
    *,
    tol: Any,
    atol: Any,
    maxiter: Any,
    hermitian: bool = False,
    options: tuple[Any, ...] = (),
) -> Any:
    """Solves a system by a method, with the derivatives of a solution.

    method(operator, b, x0, bound, preconditioner, maxiter, *options) runs until the norm of the
    residual is at most `bound`. hermitian: A is Hermitian.
    """
    b = _vector("b", b)
    for argument, given in (("A", a), ("M", m)):
        if _is_matrix(given) and (given is not None or argument == "A"):
            _check_matrix(argument, given, b)
    guess = None if x0 is None else _guess(x0, b)
    tol, atol = _tolerance("tol", tol), _tolerance("atol", atol)
    if maxiter is None:
        maxiter = 10 * sum(type_of(leaf).size for leaf in tree.leaves(b))
    elif not hasattr(maxiter, "type"):
        maxiter = integer_of(maxiter, "maxiter")
    # Matrices are operands: one executable serves all of a shape.
    solve = _solve_linear if _is_matrix(a) and _is_matrix(m) else _solve_linear.function
    return solve(a, b, guess, m, tol, atol, maxiter, method, hermitian, options)


@private_function
def _solve_linear(
    a: Prepared, b: Prepared, guess: Prepared | None, m: Prepared | None, tol: Prepared, atol:
    Prepared, maxiter: Prepared, method: Passed, hermitian: Passed, options: Passed,
) -> Any:  # fmt: skip
    preconditioner = None if m is None else _operator(m)

    def run(matvec: Operator, right: Any, start: Any, scale: Operator | None) -> Any:
        bound = jnp.maximum(tol * norm(right), atol)
        start = tree.map(jnp.zeros_like, right) if start is None else start
        return method(matvec, right, start, bound, scale or (lambda r: r), maxiter, *options)

    def forward(matvec: Operator, right: Any) -> Any:
        return run(matvec, right, guess, preconditioner)

    def backward(vecmat: Operator, right: Any) -> Any:
        # The guess is for the other system.
        if preconditioner is None:
            return run(vecmat, right, None, None)
        turned = linear_transpose(preconditioner, right)
        return run(vecmat, right, None, lambda y: turned(y)[0])

    real = all(type_of(leaf).dtype not in dtypes.COMPLEX for leaf in tree.leaves(b))
    return custom_linear_solve(_operator(a), b, forward, backward, symmetric=hermitian and real)
