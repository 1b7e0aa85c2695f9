"""Custom derivatives under every transformation, inside one another and inside control flow.

The rules give the true derivatives, so every cell can be compared with a formula in float64.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from weft import lax
from weft.testing import check_grads, check_jit, check_linearize, check_vmap

X = np.array([0.3, -0.7, 1.1], np.float32)
Y = np.float32(1.7)
XS = np.stack([X, 2 * X, X - 0.5])
YS = np.array([0.4, -1.2, 2.0], np.float32)


def plain(x, y):
    return {"s": jnp.sin(x) * y, "q": (x * x * y,)}


def with_jvp():
    f = weft.custom_jvp(plain)

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), {
            "s": jnp.cos(x) * y * dx + jnp.sin(x) * dy,
            "q": (2.0 * x * y * dx + x * x * dy,),
        }

    return f


def with_vjp():
    f = weft.custom_vjp(plain)

    def fwd(x, y):
        return f(x, y), {"x": x, "y": y}

    def bwd(residuals, cts):
        x, y, s, (q,) = residuals["x"], residuals["y"], cts["s"], cts["q"]
        return s * jnp.cos(x) * y + q * 2.0 * x * y, jnp.sum(s * jnp.sin(x) + q * x * x)

    f.defvjp(fwd, bwd)
    return f


def with_gradient():
    @weft.custom_gradient
    def f(x, y):
        def gradient(cts):
            s, (q,) = cts["s"], cts["q"]
            return s * jnp.cos(x) * y + q * 2.0 * x * y, jnp.sum(s * jnp.sin(x) + q * x * x)

        return plain(x, y), gradient

    return f


def closing_over():
    """The second argument is a closed-over value: differentiated through the function."""

    def f(x, y):
        @weft.custom_jvp
        def inner(x):
            return plain(x, y)

        @inner.defjvp
        def inner_jvp(primals, tangents):
            (x,), (dx,) = primals, tangents
            return inner(x), {"s": jnp.cos(x) * y * dx, "q": (2.0 * x * y * dx,)}

        return inner(x)

    return f


def closing_over_in_vjp():
    def f(x, y):
        @weft.custom_vjp
        def inner(x):
            return plain(x, y)

        def bwd(x, cts):
            return (cts["s"] * jnp.cos(x) * y + cts["q"][0] * 2.0 * x * y,)

        inner.defvjp(lambda x: (inner(x), x), bwd)
        return inner(x)

    return f


def vjp_inside_jvp():
    inner = with_vjp()
    f = weft.custom_jvp(lambda x, y: inner(x, y))
    f.defjvp(lambda primals, tangents: weft.jvp(inner, primals, tangents))
    return f


def jvp_inside_vjp_by_recomputing():
    inner = with_jvp()
    f = weft.custom_vjp(lambda x, y: inner(x, y))
    f.defvjp(lambda x, y: (inner(x, y), (x, y)), lambda r, cts: weft.vjp(inner, *r)[1](cts))
    return f


MAKERS = {
    maker.__name__: maker
    for maker in (
        with_jvp,
        with_vjp,
        with_gradient,
        closing_over,
        closing_over_in_vjp,
        vjp_inside_jvp,
        jvp_inside_vjp_by_recomputing,
    )
}


def in_cond(f):
    return lambda x, y: lax.cond(jnp.sum(x) < 100.0, f, lambda x, y: plain(y * x, y), x, y)


def in_switch(f):
    def g(x, y):
        index = jnp.int32(jnp.sum(x) < 100.0)
        return lax.switch(index, [lambda x, y: plain(y * x, y), f, f], x, y)

    return g


def in_jit(f):
    return weft.jit(f)


def in_nested_jit(f):
    return weft.jit(lambda x, y: weft.jit(f)(x, y))


def in_vmap(f):
    def g(x, y):
        return weft.vmap(f, in_axes=(0, None))(x[:, None], y)

    def squeezed(x, y):
        out = g(x, y)
        return {"s": out["s"][:, 0], "q": (out["q"][0][:, 0],)}

    return squeezed


def in_mapped_scalars(f):
    """The function itself sees scalars, and each has its own second argument."""
    return lambda x, y: weft.vmap(f)(x, jnp.broadcast_to(y, x.shape))


def bare(f):
    return f


CONTEXTS = {
    c.__name__: c
    for c in (bare, in_jit, in_nested_jit, in_cond, in_switch, in_vmap, in_mapped_scalars)
}

every = pytest.mark.parametrize(
    ("maker", "context"),
    [(m, c) for m in MAKERS for c in CONTEXTS],
    ids=[f"{m}-{c}" for m in MAKERS for c in CONTEXTS],
)


@functools.cache
def function(maker, context):
    return CONTEXTS[context](MAKERS[maker]())


def total(f):
    def g(x, y):
        out = f(x, y)
        return jnp.sum(out["s"]) + 3.0 * jnp.sum(out["q"][0])

    return g


# The formulas, in float64.
def value(x, y):
    return np.sin(x) * y, x * x * y


def dx(x, y):
    return np.cos(x) * y + 6 * x * y


def dy(x, y):
    return np.sum(np.sin(x) + 3 * x * x)


def dxx(x, y):
    return np.diag(-np.sin(x) * y + 6 * y)


def dxy(x, y):
    return np.cos(x) + 6 * x


WIDE = X.astype(np.float64), float(Y)


@every
def test_value(maker, context):
    out = function(maker, context)(X, Y)
    s, q = value(*WIDE)
    close(out["s"], s)
    close(out["q"][0], q)


@every
def test_reverse_mode(maker, context):
    found = weft.grad(total(function(maker, context)), (0, 1))(X, Y)
    close(found[0], dx(*WIDE))
    close(found[1], dy(*WIDE))


@every
def test_forward_mode(maker, context):
    g = total(function(maker, context))
    direction = np.array([0.2, 0.5, -1.0], np.float32), np.float32(0.7)
    wanted = dx(*WIDE) @ direction[0] + dy(*WIDE) * direction[1]
    close(weft.jvp(g, (X, Y), direction)[1], wanted)
    linear = weft.linearize(g, X, Y)[1]
    close(linear(*direction), wanted)
    close(weft.jit(linear)(*direction), wanted)
    # With respect to one of the two only.
    close(weft.jvp(lambda y: g(X, y), (Y,), direction[1:])[1], dy(*WIDE) * direction[1])
    close(weft.jvp(lambda x: g(x, Y), (X,), direction[:1])[1], dx(*WIDE) @ direction[0])


SECOND = {
    "forward over reverse": lambda g: weft.jacfwd(weft.jacrev(g, (0, 1)), (0, 1)),
    "reverse over reverse": lambda g: weft.jacrev(weft.jacrev(g, (0, 1)), (0, 1)),
    "reverse over forward": lambda g: weft.jacrev(weft.jacfwd(g, (0, 1)), (0, 1)),
    "forward over forward": lambda g: weft.jacfwd(weft.jacfwd(g, (0, 1)), (0, 1)),
}


@pytest.mark.parametrize("context", ["bare", "in_jit", "in_cond", "in_mapped_scalars"])
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("order", SECOND)
def test_second_derivatives(maker, context, order):
    (a, b), (c, d) = SECOND[order](total(function(maker, context)))(X, Y)
    close(a, dxx(*WIDE))
    close(b, dxy(*WIDE))
    close(c, dxy(*WIDE))
    close(d, 0.0)


@every
def test_vmap_of_grad(maker, context):
    g = weft.grad(total(function(maker, context)), (0, 1))
    for axes in [(0, 0), (0, None), (None, 0), (1, None)]:
        found = weft.vmap(g, in_axes=axes)(XS if axes[0] is not None else X, YS
                                           if axes[1] is not None else Y)  # fmt: skip
        for i in range(3):
            x = X if axes[0] is None else np.take(XS, i, axes[0])
            y = Y if axes[1] is None else YS[i]
            x, y = x.astype(np.float64), float(y)
            close(found[0][i], dx(x, y))
            close(found[1][i], dy(x, y))


@every
def test_grad_of_vmap(maker, context):
    f = function(maker, context)

    def g(xs, y):
        out = weft.vmap(f, in_axes=(0, None))(xs, y)
        return jnp.sum(out["s"]) + 3.0 * jnp.sum(out["q"][0])

    for transform in (lambda h: h, weft.jit):
        found = weft.grad(transform(g), (0, 1))(XS, Y)
        close(found[0], dx(XS.astype(np.float64), float(Y)))
        close(found[1], dy(XS.astype(np.float64), float(Y)))
    tangents = weft.jvp(lambda y: g(XS, y), (Y,), (np.float32(1.0),))[1]
    close(tangents, dy(XS.astype(np.float64), float(Y)))


@pytest.mark.parametrize("maker", MAKERS)
def test_jit_of_everything(maker):
    g = total(function(maker, "bare"))
    close(weft.jit(weft.grad(g))(X, Y), dx(*WIDE))
    close(weft.jit(weft.hessian(g))(X, Y), dxx(*WIDE))
    close(weft.jit(weft.vmap(weft.grad(g), (0, None)))(XS, Y)[1], dx(WIDE[0] * 2, WIDE[1]))
    close(weft.grad(lambda x: weft.jit(weft.grad(g, 1))(x, Y))(X), dxy(*WIDE))


@pytest.mark.parametrize("maker", MAKERS)
def test_against_finite_differences(maker):
    f = function(maker, "bare")
    check_grads(f, (X, Y), order=2)
    check_linearize(f, (X, Y))
    check_jit(f, (X, Y))
    check_vmap(f, (X, Y))


@pytest.mark.parametrize("maker", MAKERS)
def test_vmap_of_the_linear_part(maker):
    g = total(function(maker, "bare"))
    linear = weft.linearize(g, X, Y)[1]
    basis = np.eye(3, dtype=np.float32)
    close(weft.vmap(linear, (0, None))(basis, np.float32(0.0)), dx(*WIDE))
    close(weft.vmap(lambda x: weft.linearize(g, x, Y)[1](X, np.float32(1.0)))(XS),
          [dx(x, WIDE[1]) @ WIDE[0] + dy(x, WIDE[1]) for x in XS.astype(np.float64)])  # fmt: skip
    # The linear part is linear: its derivative is itself, its transpose the gradient.
    close(weft.jacfwd(linear)(X, Y), dx(*WIDE))
    close(weft.linear_transpose(linear, X, Y)(np.float32(1.0))[0], dx(*WIDE))


@pytest.mark.parametrize("maker", ["with_jvp", "with_vjp"])
def test_a_pullback_handed_on_as_residuals(maker):
    inner = MAKERS[maker]()
    f = weft.custom_vjp(lambda x, y: inner(x, y))
    f.defvjp(lambda x, y: weft.vjp(inner, x, y), lambda pullback, cts: pullback(cts))
    found = weft.grad(total(f), (0, 1))(X, Y)
    close(found[0], dx(*WIDE))
    close(found[1], dy(*WIDE))


# ---- results that are the same for all elements ------------------------------------------------


def by_jvp(f):
    custom = weft.custom_jvp(f)
    custom.defjvp(lambda primals, tangents: weft.jvp(f, primals, tangents))
    return custom


def by_vjp(f):
    custom = weft.custom_vjp(f)
    custom.defvjp(lambda *args: weft.vjp(f, *args), lambda pullback, ct: pullback(ct))
    return custom


def by_scan(f):
    return lambda *args: lax.scan(lambda c, _: (c, f(*args)), 0.0, None, length=1)[1]


UNMAPPED = [
    pytest.param(lambda w, x: lax.psum(w * x, "i"), None, id="psum"),
    pytest.param(lambda w, x: (w * x, lax.pmean(jnp.sin(w * x), "i")), (0, None), id="pair"),
    pytest.param(lambda w, x: (w * x, jnp.sin(w), 3.0), (0, None, None), id="unmapped_argument"),
    pytest.param(lambda w, x: lax.psum(x, "i") * x, 0, id="all_mapped"),
]
WRAPPERS = {
    "custom_jvp": by_jvp,
    "custom_vjp": by_vjp,
    "jit_custom_jvp": lambda f: weft.jit(by_jvp(f)),
    "custom_vjp_jit": lambda f: by_vjp(weft.jit(f)),
    "both": lambda f: by_jvp(by_vjp(f)),
    "scan": lambda f: by_scan(by_jvp(f)),
    "jit": weft.jit,
    "checkpoint": weft.checkpoint,
}


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize(("f", "out_axes"), UNMAPPED)
def test_what_is_the_same_for_all_elements_stays_so_under_vmap(f, out_axes, wrap):
    def total(f):
        mapped = weft.vmap(f, in_axes=(None, 0), out_axes=out_axes, axis_name="i")

        def function(w, x):
            return sum(jnp.cos(leaf).sum() for leaf in weft.tree.leaves(mapped(w, x)))

        return function

    w, x = jnp.array(0.5), jnp.array([1.0, 2.0, 3.0])
    plain, wrapped = total(f), total(WRAPPERS[wrap](f))
    pairs = jnp.stack([w, 2 * w]), jnp.stack([x, 2 * x])
    for change in (
        lambda f: f(w, x),
        lambda f: weft.jit(f)(w, x),
        lambda f: weft.grad(f, (0, 1))(w, x),
        lambda f: weft.jit(weft.grad(f, (0, 1)))(w, x),
        lambda f: weft.jvp(f, (w, x), (jnp.array(1.0), x)),
        lambda f: weft.vmap(weft.grad(f, (0, 1)))(*pairs),
    ):
        for got, wanted in zip(
            *map(weft.tree.leaves, (change(wrapped), change(plain))), strict=True
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_result_whose_derivative_differs_among_elements_is_mapped():
    @weft.custom_jvp
    def straight_through(x):
        return 0.0

    straight_through.defjvp(lambda primals, tangents: (0.0, primals[0] * tangents[0]))
    x = jnp.array([1.0, 2.0])
    for mapped in (weft.vmap(straight_through), weft.vmap(straight_through, axis_name="i")):
        np.testing.assert_array_equal(weft.vjp(mapped, x)[1](jnp.ones(2))[0], x)
        np.testing.assert_array_equal(weft.jvp(mapped, (x,), (x,))[1], x * x)

    # A rule is no business of those who take no derivative.
    refusing = weft.custom_jvp(lambda w, x: (w, x))
    refusing.defjvp(lambda primals, tangents: 1 / 0)
    first, second = weft.vmap(refusing, in_axes=(None, 0), out_axes=(0, 0))(3.0, x)
    np.testing.assert_array_equal(first, [3.0, 3.0])
    np.testing.assert_array_equal(second, x)

    # Values that Python looks at make no jaxpr: then every result is mapped.
    @weft.custom_jvp
    def looked_at(y, x):
        return (x if y > 0 else -x), y

    looked_at.defjvp(lambda p, t: (looked_at(*p), (t[1] if p[0] > 0 else -t[1], t[0])))
    first, second = weft.vmap(looked_at, in_axes=(None, 0))(1.0, x)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, [1.0, 1.0])
