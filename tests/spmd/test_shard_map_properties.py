"""A closed-over array is the same as a replicated argument: for every use of it and under every
transformation, values and derivatives are equal, and equal to those of the unsharded function."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_trees
from weft import lax, shard_map
from weft.sharding import PartitionSpec as P

MESH = weft.make_mesh((4, 2), ("i", "j"))
X = wnp.array(np.linspace(-1.0, 1.3, 8), np.float64)
C = wnp.array([0.7, -1.2], np.float64)
DX = wnp.array(np.cos(np.arange(8.0)), np.float64)
DC = wnp.array([0.3, 0.9], np.float64)


# ---- uses of the array -------------------------------------------------------------------------

# A use is a function of the array and a block of two numbers, and what collectives do in it: the
# unsharded function applies it to all blocks, which lie along the leading dimension.


@weft.custom_vjp
def scaled(c, v):
    return c * v


scaled.defvjp(lambda c, v: (c * v, (c, v)), lambda saved, ct: (ct * saved[1], ct * saved[0]))


def product(c, v, sum_i):
    return v * c


def sum_of_products(c, v, sum_i):
    return sum_i((v * c).sum()) * c


def only_among_equal_values(c, v, sum_i):
    return wnp.sin(c * c).sum() * sum_i(v.sum()) + v


def several_places(c, v, sum_i):
    h = wnp.tanh(v[:, None] * c)
    return sum_i(h).sum(0) * c + h.sum(1) * c[0]


def in_a_branch(c, v, sum_i):
    return lax.cond(sum_i(v.sum()) > 0, lambda u: u * c, lambda u: u + c, v) * c


def in_a_branch_of_some(c, v, sum_i):
    return lax.cond(v[0] > 0, lambda u: u * c * c, lambda u: u - c, v)


def in_a_loop(c, v, sum_i):
    out, means = lax.scan(lambda a, _: (wnp.tanh(a * c), sum_i(a.sum())), v, None, length=3)
    return out + means.sum() * c


def in_a_jitted_function(c, v, sum_i):
    return weft.jit(lambda u: wnp.exp(u * c) + sum_i(u.sum() * c))(v)


def with_a_rule_of_its_own(c, v, sum_i):
    return sum_i(scaled(c, v)) + weft.checkpoint(lambda u: wnp.sin(u * c))(v)


USES = [
    product,
    sum_of_products,
    only_among_equal_values,
    several_places,
    in_a_branch,
    in_a_branch_of_some,
    in_a_loop,
    in_a_jitted_function,
    with_a_rule_of_its_own,
]


def along_i(x):
    return lax.psum(x, "i")


def as_argument(use):
    body = functools.partial(use, sum_i=along_i)
    return shard_map(body, mesh=MESH, in_specs=(P(), P("i")), out_specs=P("i"))


def closed_over(use):
    def f(c, x):
        def body(v):
            return use(c, v, along_i)

        return shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(x)

    return f


def bound_by_partial(use):
    def f(c, x):
        body = functools.partial(use, c, sum_i=along_i)
        return shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(x)

    return f


def as_default(use):
    def f(c, x):
        def body(v, held={"c": [c]}):  # noqa: B006 (that is the point)
            return use(held["c"][0], v, along_i)

        return shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))(x)

    return f


def unsharded(use):
    """The use on each of four blocks, where collectives are sums over a mapped axis."""

    def f(c, x):
        blocks = x.reshape(4, 2)
        each = weft.vmap(lambda v: use(c, v, lambda y: lax.psum(y, "blocks")), axis_name="blocks")
        return each(blocks).reshape(8)

    return f


# ---- transformations ---------------------------------------------------------------------------


def loss(f):
    return lambda c, x: (f(c, x) * wnp.cos(wnp.arange(8.0))).sum()


def stacked(x):
    return wnp.stack([x, x * 0.5, -x])


TRANSFORMATIONS = {
    "value": lambda f: f(C, X),
    "grad with respect to it": lambda f: weft.grad(loss(f), 0)(C, X),
    "grad with respect to others": lambda f: weft.grad(loss(f), 1)(C, X),
    "value_and_grad of both": lambda f: weft.value_and_grad(loss(f), (0, 1))(C, X),
    "jvp along both": lambda f: weft.jvp(f, (C, X), (DC, DX)),
    "jvp along it": lambda f: weft.jvp(lambda c: f(c, X), (C,), (DC,)),
    "jvp along others": lambda f: weft.jvp(lambda x: f(C, x), (X,), (DX,)),
    "linearize": lambda f: weft.linearize(f, C, X)[1](DC, DX),
    "vjp": lambda f: weft.vjp(f, C, X)[1](DX),
    "vmap over it": lambda f: weft.vmap(f, (0, None))(stacked(C), X),
    "vmap over others": lambda f: weft.vmap(f, (None, 1), 1)(C, stacked(X).T),
    "vmap over both": lambda f: weft.vmap(f)(stacked(C), stacked(X)),
    "grad of checkpoint": lambda f: weft.grad(loss(weft.checkpoint(f)), (0, 1))(C, X),
    "scan": lambda f: lax.scan(lambda c, x: (c * 0.9, f(c, x)), C, stacked(X)),
    "grad of scan": lambda f: weft.grad(
        lambda c: lax.scan(lambda c, x: (c + loss(f)(c, x) * 0.1, None), c, stacked(X))[0].sum()
    )(C),
    "vmap of grad": lambda f: weft.vmap(weft.grad(loss(f), (0, 1)))(stacked(C), stacked(X)),
    "grad of vmap": lambda f: weft.grad(
        lambda c: weft.vmap(loss(f), (None, 0))(c, stacked(X)).sum()
    )(C),
    "in a branch": lambda f: weft.grad(
        lambda c: lax.cond(c[0] > 0, lambda c: loss(f)(c, X), lambda c: c.sum(), c)
    )(C),
}
# `scaled` has a rule for reverse mode only.
FORWARD = ("jvp along both", "jvp along it", "jvp along others")
SECOND = {
    "hessian times a direction": lambda f: weft.jvp(weft.grad(loss(f), (0, 1)), (C, X), (DC, DX))[
        1
    ],
    "gradient of a norm of the gradient": lambda f: weft.grad(
        lambda c: (weft.grad(loss(f))(c, X) ** 2).sum()
    )(C),
}


def check_equal(transformation, use):
    """One program, for the time that compiling takes; each form is traced and transformed alone."""
    forms = (unsharded, as_argument, closed_over)
    expected, *found = weft.jit(lambda: [transformation(form(use)) for form in forms])()
    for values in found:
        close_trees(values, expected, 1e-10, 1e-12)


CASES = [
    (name, use)
    for name in TRANSFORMATIONS
    for use in USES
    if use is not with_a_rule_of_its_own or name not in FORWARD
]


@pytest.mark.parametrize("name, use", CASES, ids=lambda x: getattr(x, "__name__", x))
def test_closed_over_equals_an_argument(name, use):
    check_equal(TRANSFORMATIONS[name], use)


@pytest.mark.parametrize("use", USES[:-1], ids=lambda use: use.__name__)
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name, use):
    check_equal(SECOND[name], use)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_closed_over_in_other_ways_and_eagerly(name):
    use = several_places
    expected = weft.jit(lambda: TRANSFORMATIONS[name](unsharded(use)))()
    for form in (as_argument, closed_over, bound_by_partial, as_default):
        close_trees(TRANSFORMATIONS[name](form(use)), expected, 1e-10, 1e-12)


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_arrays_of_numpy_and_numbers_are_closed_over_too(wrap):
    array = np.asarray(C)
    number = 1.5

    def body(v):
        return v * array + number

    f = wrap(shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i")))
    expected = (np.asarray(X).reshape(4, 2) * np.asarray(C) + 1.5).reshape(8)
    np.testing.assert_allclose(f(X), expected, rtol=1e-6)


def test_one_sum_for_all_uses_of_a_closed_over_array():
    """In the transpose the cotangents of all uses are added up before they are summed over the
    devices, as for an argument."""

    def uses(c, v):
        return lax.psum((v * c + wnp.sin(v) * c + v * v * c).sum(), "i")

    def closed(c, x):
        f = shard_map(lambda v: uses(c, v), mesh=MESH, in_specs=P("i"), out_specs=P())
        return f(x)

    argument = shard_map(uses, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    for f in (argument, closed):
        text = weft.jit(weft.grad(f)).lower(C, X).as_text()
        assert text.count("stablehlo.all_reduce") == 1, text
