"""The inverses of weft's operations, one rule a primitive.

A rule gets the results and the operands (`Unknown` for those that are to be computed) and the
parameters of the application. It returns the list of the unknown operands' values, and
log|d operand / d result| as an array of which the sum is taken, or None where that is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from inversion.elimination import (
    NotInvertibleError,
    Unknown,
    eliminate,
    inlined,
    moves,
    rules,
    several,
)
from inversion.linear import solve_and_log_det
from weft import lax
from weft.errors import WeftValueError
from weft.extend.core import Jaxpr, Literal, Primitive, Var, eval_jaxpr, primitives

__all__ = ["register_inverse"]

p = primitives


def register_inverse(
    primitive: Primitive, rule: Callable[..., Any], many: bool = False
) -> Callable[..., Any]:
    """Gives a primitive its inverse: `rule(results, operands, **params)` (see above).

    The rule is called when all results are known, and all operands but one; with `many`, it is also
    called when several are unknown; results that are not known are None, and it returns None where
    it needs more of them. It may raise NotInvertibleError with the reason why the operation has no
    inverse for these operands: the error then names operation and line.

    Raises WeftValueError where the primitive has a rule already.
    """
    if primitive in rules or primitive in moves:
        raise WeftValueError(f"the primitive {primitive.name!r} has an inverse already")
    rules[primitive] = rule
    if many:
        several.add(primitive)
    return rule


# ---- elementwise: the inverse, and the log of its derivative -----------------------------------


def unary(
    primitive: Primitive, function: Callable[..., Any], log_derivative: Callable[..., Any] | None
) -> None:
    """x = function(y); log|dx/dy| = log_derivative(x, y), None for zero."""

    def rule(outs: Any, operands: Any, **params: Any) -> Any:
        (y,) = outs
        x = function(y, **params)
        return [x], None if log_derivative is None else log_derivative(x, y, **params)

    register_inverse(primitive, rule)


def log_abs(x: Any) -> Any:
    return jnp.log(jnp.abs(x))


unary(p.neg_p, jnp.negative, None)
unary(p.exp_p, jnp.log, lambda x, y: -x)
unary(p.log_p, jnp.exp, lambda x, y: y)
unary(p.exp2_p, jnp.log2, lambda x, y: -log_abs(y * np.log(2).astype(y.dtype)))
unary(p.expm1_p, jnp.log1p, lambda x, y: -x)
unary(p.log1p_p, jnp.expm1, lambda x, y: y)
unary(p.tanh_p, jnp.arctanh, lambda x, y: -jnp.log1p(-y * y))
unary(p.atanh_p, jnp.tanh, lambda x, y: jnp.log1p(-x * x))
unary(p.sinh_p, jnp.arcsinh, lambda x, y: -0.5 * jnp.log1p(y * y))
unary(p.asinh_p, jnp.sinh, lambda x, y: 0.5 * jnp.log1p(x * x))
unary(p.atan_p, jnp.tan, lambda x, y: jnp.log1p(x * x))
unary(p.sqrt_p, jnp.square, lambda x, y: jnp.log(2 * y))
unary(p.cbrt_p, lambda y: y * y * y, lambda x, y: jnp.log(3 * y * y))
unary(p.logistic_p, lambda y: jnp.log(y) - jnp.log1p(-y), lambda x, y: -jnp.log(y) - jnp.log1p(-y))
unary(p.erf_p, lax.erf_inv, lambda x, y: x * x + np.log(np.pi**0.5 / 2).astype(y.dtype))


def convert_inverse(outs: Any, operands: Any, **params: Any) -> Any:
    of = operands[0].type
    if not jnp.issubdtype(of.dtype, jnp.floating) or of.dtype.itemsize > outs[0].dtype.itemsize:
        raise NotInvertibleError(f"the conversion from {of.dtype} loses digits")
    return [outs[0].astype(of.dtype)], None


register_inverse(p.convert_element_type_p, convert_inverse)


def integer_pow_inverse(outs: Any, operands: Any, y: int) -> Any:
    if y % 2 == 0:
        raise NotInvertibleError(f"x**{y} has the same value at x and at -x")
    (out,) = outs
    x = jnp.sign(out) * jnp.abs(out) ** (1 / y)
    return [x], -log_abs(y * x ** (y - 1))


register_inverse(p.integer_pow_p, integer_pow_inverse)


def even_inverse(outs: Any, operands: Any, **params: Any) -> Any:
    raise NotInvertibleError("it has the same value at x and at -x")


for primitive in (p.square_p, p.abs_p, p.cos_p, p.cosh_p):
    register_inverse(primitive, even_inverse)


def binary(primitive: Primitive, first: Callable[..., Any], second: Callable[..., Any]) -> None:
    """first(out, y) and second(out, x): the unknown operand, and the log-derivative of it."""

    def rule(outs: Any, operands: Any, **params: Any) -> Any:
        (out,) = outs
        at = next(i for i, x in enumerate(operands) if isinstance(x, Unknown))
        if operands[at].type.shape != out.shape:
            raise NotInvertibleError("its operand is repeated for several results")
        value, derivative = (first, second)[at](out, operands[1 - at])
        if derivative is not None:
            derivative = jnp.broadcast_to(derivative, out.shape)
        return [value], derivative

    register_inverse(primitive, rule)


binary(p.add_p, lambda out, y: (out - y, None), lambda out, x: (out - x, None))
binary(p.sub_p, lambda out, y: (out + y, None), lambda out, x: (x - out, None))
binary(p.mul_p, lambda out, y: (out / y, -log_abs(y)), lambda out, x: (out / x, -log_abs(x)))
binary(
    p.div_p,
    lambda out, y: (out * y, log_abs(y)),
    lambda out, x: (x / out, log_abs(x) - 2 * log_abs(out)),
)


def log_sum_inverse(out: Any, other: Any) -> Any:
    """out = log(exp(x) + exp(other)), softplus among them: x = out + log(1 - exp(other - out))."""
    x = out + jnp.log(-jnp.expm1(other - out))
    return x, out - x


binary(p.logaddexp_p, log_sum_inverse, log_sum_inverse)


def pow_of_base(out: Any, exponent: Any) -> Any:
    x = out ** (1 / jnp.asarray(exponent, out.dtype))
    return x, -log_abs(exponent * out / x)


def pow_of_exponent(out: Any, base: Any) -> Any:
    scale = jnp.log(base)
    return jnp.log(out) / scale, -log_abs(out * scale)


binary(p.pow_p, pow_of_base, pow_of_exponent)


# ---- linear maps of several elements -------------------------------------------------------------


def cumsum_inverse(outs: Any, operands: Any, axis: int, reverse: bool) -> Any:
    (out,) = outs
    shift = [(0, 0)] * out.ndim
    shift[axis] = (0, 1) if reverse else (1, 0)
    n = out.shape[axis]
    before = lax.slice_in_dim(jnp.pad(out, shift), 1 if reverse else 0, n + 1 if reverse else n,
                              axis=axis)  # fmt: skip
    return [out - before], None


register_inverse(p.cumsum_p, cumsum_inverse)


def dot_general_inverse(outs: Any, operands: Any, dimension_numbers: Any, **params: Any) -> Any:
    """The unknown operand of a product with a known one that is a square matrix in the dimensions
    summed over and the others, for each element of the batch dimensions."""
    (out,) = outs
    contract, batch = dimension_numbers
    at = 0 if isinstance(operands[0], Unknown) else 1
    known, shape = operands[1 - at], operands[at].type.shape
    free_known = rest(known.ndim, contract[1 - at], batch[1 - at])
    free = rest(len(shape), contract[at], batch[at])
    n_batch = len(batch[0])
    size = prod(known.shape[d] for d in free_known)
    if size != prod(known.shape[d] for d in contract[1 - at]):
        raise NotInvertibleError("the matrix is not square")
    groups = prod(known.shape[d] for d in batch[1 - at])
    matrix = jnp.transpose(known, (*batch[1 - at], *free_known, *contract[1 - at]))
    if at == 0:  # the results have the dimensions of the first factor first
        n_free = len(free)
        order = (*range(n_batch), *range(n_batch + n_free, out.ndim),
                 *range(n_batch, n_batch + n_free))  # fmt: skip
        out = jnp.transpose(out, order)
    columns = prod(shape[d] for d in free)
    solve = weft.vmap(solve_and_log_det)
    x, log_det = solve(matrix.reshape(groups, size, size), out.reshape(groups, size, columns))
    dims = (*batch[at], *contract[at], *free)
    x = jnp.transpose(x.reshape([shape[d] for d in dims]), np.argsort(dims))
    return [x], -columns * log_det


def rest(ndim: int, *taken: Sequence[int]) -> list[int]:
    """The dimensions that are not among those."""
    return [d for d in range(ndim) if not any(d in group for group in taken)]


register_inverse(p.dot_general_p, dot_general_inverse)


# ---- operations that only move elements ----------------------------------------------------------

moves[p.reshape_p] = lambda x, shape, **_: [x.reshape(shape)]
moves[p.transpose_p] = lambda x, permutation: [np.transpose(x, permutation)]
moves[p.rev_p] = lambda x, dimensions: [np.flip(x, dimensions)]
moves[p.concatenate_p] = lambda *xs, dimension: [np.concatenate(xs, dimension)]
moves[p.split_p] = lambda x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], axis)
moves[p.slice_p] = lambda x, start_indices, limit_indices, strides: [
    x[tuple(map(slice, start_indices, limit_indices, strides))]
]


def broadcast_moves(x: np.ndarray, shape: Any, broadcast_dimensions: Any) -> list[np.ndarray]:
    new = [1] * len(shape)
    for d, size in zip(broadcast_dimensions, x.shape, strict=True):
        new[d] = size
    return [np.broadcast_to(x.reshape(new), shape)]


moves[p.broadcast_in_dim_p] = broadcast_moves


# ---- programs inside -----------------------------------------------------------------------------

inlined.update((p.jit_p, p.custom_jvp_p, p.custom_vjp_p, p.checkpoint_p))


def cond_inverse(outs: Any, operands: Any, branches: Any) -> Any:
    """The inverse of the branch that was taken."""
    index, *rest_of = operands
    if any(out is None for out in outs):
        return None
    if isinstance(index, Unknown):
        raise NotInvertibleError("which branch is taken depends on the input")
    unknown = [i for i, x in enumerate(rest_of) if isinstance(x, Unknown)]
    given = [None if isinstance(x, Unknown) else x for x in rest_of]

    def inverted(jaxpr: Jaxpr) -> Callable[..., Any]:
        def branch(given: Any, outs: Any) -> Any:
            inputs, log_det = eliminate(jaxpr, given, outs)
            return [inputs[i] for i in unknown], jnp.asarray(log_det, dtype_of(outs))

        return branch

    return lax.switch(index, [inverted(jaxpr) for jaxpr in branches], given, outs)


register_inverse(p.cond_p, cond_inverse, many=True)


def dtype_of(values: Sequence[Any]) -> Any:
    """The dtype of log-determinants beside these values."""
    return jnp.result_type(*[x.dtype for x in values if x is not None], "float32")


def scan_inverse(
    outs: Any,
    operands: Any,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Any:
    """The loop run from its last step to its first, each step inverted.

    Carried values that do not depend on the input (a counter) are computed forward first.
    """
    given = [None if isinstance(x, Unknown) else x for x in operands]
    consts, carry, xs = split(given, num_consts, num_carry)
    if any(x is None for x in consts):
        raise NotInvertibleError("a value that all steps of the loop share depends on the input")
    counted = known_carry(jaxpr, consts, carry, xs)
    if any(x is not None and not flag for x, flag in zip(carry, counted, strict=True)):
        raise NotInvertibleError("a carried value starts as a constant and takes in the input")
    if any(x is None and not flag for x, flag in zip(outs, counted, strict=False)):
        return None
    pick = [i for i, flag in enumerate(counted) if flag]
    history = counters(jaxpr, consts, [carry[i] for i in pick], xs, pick, length, reverse)

    def step(state: Any, at: Any) -> Any:
        after, log_det = state
        before, xs_here, ys = at
        carry_in, after = [None] * num_carry, iter(after)
        for i, value in zip(pick, before, strict=True):
            carry_in[i] = value
        results = [None if flag else next(after) for flag in counted]
        inputs, more = eliminate(jaxpr, [*consts, *carry_in, *xs_here], [*results, *ys])
        _, found, found_xs = split(inputs, num_consts, num_carry)
        unknown = [x for x, flag in zip(found, counted, strict=True) if not flag]
        new = [x for x, known in zip(found_xs, xs_here, strict=True) if known is None]
        return (unknown, log_det + more.astype(log_det.dtype)), new

    last = [x for x, flag in zip(outs[:num_carry], counted, strict=True) if not flag]
    start = (last, jnp.zeros((), dtype_of(outs)))
    scanned = (history, xs, outs[num_carry:])
    (first, log_det), new = lax.scan(step, start, scanned, length, reverse=not reverse)
    return [*first, *new], log_det


def split(values: Sequence[Any], num_consts: int, num_carry: int) -> tuple[Any, Any, Any]:
    n = num_consts + num_carry
    return list(values[:num_consts]), list(values[num_consts:n]), list(values[n:])


def known_carry(jaxpr: Jaxpr, consts: Any, carry: Any, xs: Any) -> list[bool]:
    """Which carried values stay known: the largest set that each step leads back to itself."""
    flags = [x is not None for x in carry]
    while True:
        known = [*(True for _ in consts), *flags, *(x is not None for x in xs)]
        found = [a and b for a, b in zip(flags, forward_known(jaxpr, known)[0], strict=False)]
        if found == flags:
            return flags
        flags = found


def forward_known(jaxpr: Jaxpr, known: Sequence[bool]) -> tuple[list[bool], list[Any]]:
    """Which results depend on known inputs only, and the equations that compute those."""
    seen = {var for var, flag in zip(jaxpr.inputs, known, strict=True) if flag}
    eqns = []
    for eqn in jaxpr.eqns:
        if all(isinstance(atom, Literal) or atom in seen for atom in eqn.inputs):
            seen.update(eqn.outputs)
            eqns.append(eqn)
    return [isinstance(x, Literal) or x in seen for x in jaxpr.outputs], eqns


def counters(
    jaxpr: Jaxpr, consts: Any, carry: Any, xs: Any, pick: list[int], length: int, reverse: bool
) -> list[Any]:
    """The known carried values before every step, stacked."""
    if not pick:
        return []
    variables = split(jaxpr.inputs, len(consts), len(jaxpr.inputs) - len(consts) - len(xs))
    seen = [x for x, value in zip(variables[2], xs, strict=True) if value is not None]
    inputs: list[Var] = [*variables[0], *(variables[1][i] for i in pick), *seen]
    known = [var in inputs for var in jaxpr.inputs]
    _, eqns = forward_known(jaxpr, known)
    program = Jaxpr(inputs, eqns, [jaxpr.outputs[i] for i in pick])

    def step(carry: Any, here: Any) -> Any:
        return eval_jaxpr(program, (), *consts, *carry, *here), carry

    given = [x for x in xs if x is not None]
    return lax.scan(step, [jnp.asarray(x) for x in carry], given, length, reverse=reverse)[1]


register_inverse(p.scan_p, scan_inverse, many=True)
