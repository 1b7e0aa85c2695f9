"""`custom_vmap` and `sequential_vmap`: the rule is what `vmap` uses, under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from weft import lax
from weft.custom_batching import custom_vmap, sequential_vmap
from weft.errors import DTypeError, ShapeError, TreeError, WeftTypeError

X = jnp.array([0.1, 0.7, 1.3])
Y = jnp.array([2.0, 2.5, 3.0])


def plain(x, y):
    return jnp.sin(x) * y


def ruled(function=plain, factor=1.0):
    """The function, mapped by a rule that computes `factor` times as much."""
    made = custom_vmap(function)

    @made.def_vmap
    def rule(size, batched, x, y):
        places = tuple([0 if one else None for one in batched])
        return factor * weft.vmap(plain, places, axis_size=size)(x, y), True

    return made


def test_without_vmap_the_function_is_called():
    f = ruled(factor=5.0)
    close(f(X[1], Y[1]), plain(X[1], Y[1]))
    close(weft.jit(f)(X[1], Y[1]), plain(X[1], Y[1]))
    close(weft.grad(f)(X[1], Y[1]), weft.grad(plain)(X[1], Y[1]))


@pytest.mark.parametrize("places", [(0, 0), (0, None), (None, 0)])
def test_the_rule_says_what_vmap_gives(places):
    args = [v if place == 0 else v[1] for v, place in zip((X, Y), places, strict=True)]
    close(weft.vmap(ruled(factor=5.0), places)(*args), 5 * weft.vmap(plain, places)(*args))


def test_the_rule_gets_trees_with_the_mapped_axis_in_front():
    seen = []
    f = custom_vmap(lambda a, b, scale=2.0: {"s": (a["x"] * b).sum() * scale, "b": b})

    @f.def_vmap
    def rule(size, batched, a, b, scale):
        seen.append((size, batched, a["x"].shape, b.shape, np.shape(scale)))
        return {"s": (a["x"] * b).sum(1) * scale, "b": b}, {"s": True, "b": False}

    a, b = {"x": jnp.arange(6.0).reshape(2, 3)}, jnp.ones(2)
    out = weft.vmap(f, ({"x": 1}, None), out_axes={"s": 0, "b": None})(a, b)
    assert seen == [(3, [{"x": True}, False, False], (3, 2), (2,), ())]
    close(out, {"s": np.array([6.0, 10.0, 14.0]), "b": np.ones(2)})


# The derivative of a mapped application is the derivative of the rule, whichever comes first.
TRANSFORMED = {
    "jvp of vmap": lambda f: weft.jvp(weft.vmap(f), (X, Y), (Y, X)),
    "vmap of jvp": lambda f: weft.vmap(lambda x, y: weft.jvp(f, (x, y), (y, x)))(X, Y),
    "vmap of jvp in one": lambda f: weft.vmap(
        lambda x, y: weft.jvp(lambda v: f(v, y), (x,), (1.0,))
    )(X, Y),
    "grad of vmap": lambda f: weft.grad(lambda x, y: weft.vmap(f, (0, None))(x, y).sum(), (0, 1))(
        X, Y[0]
    ),
    "vmap of grad": lambda f: weft.vmap(weft.grad(f, (0, 1)))(X, Y),
    "vmap of grad, one argument mapped": lambda f: weft.vmap(weft.grad(f, (0, 1)), (0, None))(
        X, Y[0]
    ),
    "vmap of hessian": lambda f: weft.vmap(weft.hessian(f, (0, 1)))(X, Y),
    "vmap of jacrev of jacfwd": lambda f: weft.vmap(weft.jacrev(weft.jacfwd(f)))(X, Y),
    "vmap of vmap of grad": lambda f: weft.vmap(weft.vmap(weft.grad(f), (None, 0)), (0, None))(
        X, Y
    ),
    "vmap of jit of grad": lambda f: weft.vmap(weft.jit(weft.grad(f)))(X, Y),
    "vmap of checkpoint": lambda f: weft.vmap(weft.grad(weft.checkpoint(f)))(X, Y),
    "vmap of linearize": lambda f: weft.vmap(lambda x, y: weft.linearize(f, x, y)[1](y, x))(X, Y),
    "in a mapped scan": lambda f: weft.vmap(
        weft.grad(lambda x: lax.scan(lambda c, _: (f(c, x), c), x, None, length=3)[0])
    )(X),
    "in a mapped branch": lambda f: weft.vmap(
        weft.grad(lambda x, y: lax.cond(x > 0.5, f, lambda x, y: x, x, y))
    )(X, Y),
    "in a mapped loop": lambda f: weft.vmap(
        lambda x, y: lax.fori_loop(0, 3, lambda i, c: f(c, y), x)
    )(X, Y),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformations_compose_with_the_rule(name):
    transform = TRANSFORMED[name]
    close(transform(ruled()), transform(plain))


def test_derivatives_under_vmap_are_those_of_the_rule():
    f = ruled(factor=5.0)
    close(weft.vmap(weft.grad(f))(X, Y), 5 * weft.vmap(weft.grad(plain))(X, Y))
    close(weft.grad(lambda x: weft.vmap(f)(x, Y).sum())(X), 5 * weft.vmap(weft.grad(plain))(X, Y))


def test_the_rule_serves_inside_of_shard_map():
    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    x, y = jnp.linspace(0.1, 1.0, 4), jnp.linspace(1.0, 2.0, 4)
    mapped = weft.shard_map(
        weft.vmap(ruled(factor=5.0)), mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i")
    )
    close(mapped(x, y), 5 * plain(x, y))
    close(weft.jit(weft.grad(lambda x: mapped(x, y).sum()))(x), 5 * jnp.cos(x) * y)


def test_values_that_are_closed_over_may_be_traced():
    def outer(a, x):
        f = custom_vmap(lambda x: a * x)
        f.def_vmap(lambda size, batched, x: (10.0 * x, True))
        return weft.vmap(f)(x).sum() + f(x[0])

    close(weft.jit(outer)(2.0, X), 10 * X.sum() + 2 * X[0])
    close(weft.grad(outer)(2.0, X), X[0])


def test_sequential_vmap_runs_the_elements_one_by_one():
    seen = []

    @sequential_vmap
    def product(a, x):
        weft.debug.callback(lambda v: seen.append(float(v)), x[0])
        return a @ x

    a, x = jnp.eye(2) * 3, jnp.arange(6.0).reshape(3, 2)
    close(weft.vmap(product, (None, 0))(a, x), 3 * x)
    assert seen == [0.0, 2.0, 4.0]
    close(weft.vmap(weft.vmap(product, (None, 0)), (None, 1))(a, x[:, None]), 3 * x[None])


def test_what_a_rule_returns_is_checked():
    def mapped(rule):
        f = custom_vmap(lambda x: {"a": x, "b": x})
        f.def_vmap(rule)
        return weft.vmap(f)(X)

    both = {"a": True, "b": True}
    for rule, error in (
        (lambda n, b, x: {"a": x, "b": x}, WeftTypeError),
        (lambda n, b, x: ({"a": x}, {"a": True}), TreeError),
        (lambda n, b, x: ({"a": x, "b": x}, True), TreeError),
        (lambda n, b, x: ({"a": x, "b": x[:2]}, both), ShapeError),
        (lambda n, b, x: ({"a": x, "b": x.astype("int32")}, both), DTypeError),
    ):
        with pytest.raises(error, match="custom_vmap of <lambda>"):
            mapped(rule)
    with pytest.raises(WeftTypeError, match="def_vmap takes functions"):
        custom_vmap(lambda x: x).def_vmap(3)


def test_the_rule_of_a_wrapped_function_is_set_through_its_wrapper():
    @weft.custom_vjp
    @custom_vmap
    def scaled(x, y):
        return x * y

    @scaled.def_vmap
    def rule(axis_size, in_batched, xs, ys):
        return xs * ys + 1.0, True

    def forward(x, y):
        return scaled(x, y), (x, y)

    def backward(kept, ct):
        x, y = kept
        return 10.0 * ct * y, ct * x

    scaled.defvjp(forward, backward)
    xs, ys = jnp.arange(3.0), jnp.ones(3)
    np.testing.assert_array_equal(weft.vmap(scaled)(xs, ys), xs * ys + 1)
    assert weft.grad(scaled)(2.0, 3.0) == 30.0
    with pytest.raises(AttributeError, match="no attribute 'def_none'"):
        _ = scaled.def_none
