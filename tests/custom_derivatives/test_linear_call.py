"""`linear_call`, and the names of `weft.custom_derivatives`."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_relative
from weft import custom_derivatives, lax
from weft.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    linear_call,
    zero_from_primal,
)
from weft.errors import ShapeError, TreeError


def divided(x, by):
    """x + x / by, where the transpose of the second term is twice that of the function."""
    return x + linear_call(lambda r, x: x / r, lambda r, ct: 2 * ct / r, by, x)


X, R = jnp.array([1.0, 2.0, 3.0]), jnp.array([2.0, 4.0, 5.0])


def test_forwards_the_function_and_backwards_the_transpose():
    close_relative(divided(9.0, 3.0), 12.0)
    close_relative(weft.jvp(divided, (9.0, 3.0), (1.0, 0.0))[1], 1 + 1 / 3)
    close_relative(weft.grad(divided)(9.0, 3.0), 1 + 2 / 3)
    close_relative(weft.jit(weft.grad(divided))(9.0, 3.0), 1 + 2 / 3)
    close_relative(weft.linear_transpose(lambda x: divided(x, 3.0), 1.0)(18.0)[0], 30.0)


def test_the_transpose_of_the_transpose_is_the_function():
    once = weft.linear_transpose(
        lambda x: linear_call(lambda r, x: x / r, lambda r, ct: 7 * ct, 4.0, x), 1.0
    )
    twice = weft.linear_transpose(lambda ct: once(ct)[0], 1.0)
    close_relative(once(1.0)[0], 7.0)
    close_relative(twice(1.0)[0], 0.25)


def test_derivatives_in_residuals_are_those_of_the_function():
    close_relative(weft.grad(divided, 1)(9.0, 3.0), -1.0)
    close_relative(weft.grad(weft.grad(lambda x: divided(x * x, 3.0)))(9.0), 2 * (1 + 2 / 3))


def test_it_is_mapped():
    close_relative(weft.vmap(divided)(X, R), X + X / R)
    close_relative(weft.vmap(weft.grad(divided))(X, R), 1 + 2 / R)
    close_relative(weft.vmap(weft.grad(divided), (0, None))(X, 4.0), np.full(3, 1.5))
    close_relative(weft.grad(lambda x: weft.vmap(divided)(x, R).sum())(X), 1 + 2 / R)


def test_it_runs_in_loops_and_on_devices():
    def looped(x):
        return lax.scan(lambda c, r: (divided(c, r), None), x, R)[0]

    close_relative(weft.grad(looped)(1.0), np.prod(1 + 2 / np.asarray(R)))
    mesh = weft.make_mesh((3,), ("i",), devices=weft.devices()[:3])
    mapped = weft.shard_map(divided, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    close_relative(weft.jit(weft.grad(lambda x: mapped(x, R).sum()))(X), 1 + 2 / R)


def test_trees_and_values_around_it():
    def f(a, x):
        return linear_call(
            lambda r, x: {"o": x[0] * r["a"] * a}, lambda r, ct: (ct["o"],), {"a": 2.0}, (x,)
        )["o"]

    close_relative(weft.jit(f)(3.0, 5.0), 30.0)
    close_relative(weft.grad(f, (0, 1))(3.0, 5.0)[0], 10.0)
    close_relative(weft.grad(f, (0, 1))(3.0, 5.0)[1], 1.0)


def test_a_transpose_that_does_not_fit_is_refused():
    with pytest.raises(TreeError, match="linear_call of <lambda>"):
        linear_call(lambda r, x: x, lambda r, ct: (ct, ct), (), X)
    with pytest.raises(ShapeError, match="the transpose's result"):
        linear_call(lambda r, x: x, lambda r, ct: ct[0], (), X)


def test_symbolic_zeros_have_the_type_of_tangents():
    zero = SymbolicZero.from_primal_value(X)
    assert (zero.shape, zero.dtype, zero.ndim, zero.size, zero.weak_type) == ((3,), "float32", 1, 3,
                                                                             False)  # fmt: skip
    assert SymbolicZero(zero.aval).aval is zero.aval
    found = zero_from_primal({"a": X, "n": jnp.arange(2)})
    assert found["a"].tolist() == [0.0, 0.0, 0.0] and found["n"].dtype == weft.float0
    assert isinstance(zero_from_primal([X], symbolic_zeros=True)[0], SymbolicZero)


def test_primals_lose_their_marks():
    given = {"a": CustomVJPPrimal(X, True), "b": (CustomVJPPrimal(2.0, False), 3.0)}
    assert custom_vjp_primal_tree_values(given) == {"a": X, "b": (2.0, 3.0)}


def test_the_module_shows_what_weft_has():
    assert custom_derivatives.custom_jvp is weft.custom_jvp
    assert custom_derivatives.custom_vjp is weft.custom_vjp
    assert custom_derivatives.closure_convert is weft.closure_convert
    eqns = weft.make_jaxpr(lambda x: weft.nn.relu(x))(1.0).eqns
    names = {custom_derivatives.custom_jvp_call_p, custom_derivatives.custom_vjp_call_p}
    assert {p.name for p in names} == {"custom_jvp", "custom_vjp"} and eqns
