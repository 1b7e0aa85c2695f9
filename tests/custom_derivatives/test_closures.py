"""Custom derivatives of functions that close over values being differentiated, mapped or staged."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from weft.errors import LeakedTracerError

pytestmark = pytest.mark.fast
X = np.array([0.3, -0.7, 1.1], np.float32)


def test_closed_over_values_are_differentiated_through_the_function():
    def outer(w, x):
        f = weft.custom_jvp(lambda y: w * w * y)
        f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * w * tangents[0]))
        return f(x)

    for g in (outer, weft.jit(outer)):
        # d/dw by ordinary rules: 2 w x; d/dx by the rule: 10 w.
        found = weft.grad(g, (0, 1))(3.0, 2.0)
        assert [float(v) for v in found] == [12.0, 30.0]
        assert float(weft.jvp(g, (3.0, 2.0), (1.0, 1.0))[1]) == 42.0
        # The rule itself is differentiated by ordinary rules: d/dw (10 w).
        assert float(weft.grad(weft.grad(g, 1))(3.0, 2.0)) == 10.0
        close(weft.vmap(g, (0, None))(X, 2.0), X * X * 2)
        close(weft.vmap(weft.grad(g, 1), (0, None))(X, 2.0), 10 * X)
        close(weft.grad(lambda w, g=g: weft.vmap(g, (None, 0))(w, X).sum())(3.0), 6 * X.sum())
        close(weft.jit(weft.vmap(weft.grad(g), (0, None)))(X, 2.0), 4 * X)


def test_what_is_searched():
    def through_default(w):
        def f(x, w=w):
            return w * x

        return lambda x: f(x)

    def through_keyword_default(w):
        def f(x, *, w=w):
            return w * x

        return f

    def through_partial(w):
        return functools.partial(lambda w, x: w * x, w)

    def through_partial_keyword(w):
        return functools.partial(lambda x, w: w * x, w=w)

    def through_containers(w):
        held = {"a": [1.0, (w, None)], "self": None}
        held["self"] = held
        return lambda x: held["a"][1][0] * x

    def through_recursion(w):
        def f(x, n=2):
            return w * x if n == 0 else f(x, n - 1)

        return lambda x: f(x)

    def through_jit(w):
        inner = weft.jit(lambda x: w * x)
        return lambda x: inner(x)

    def through_vmap(w):
        inner = weft.vmap(lambda x: w * x)
        return lambda x: inner(jnp.reshape(x, (1,)))[0]

    def through_another(w):
        inner = weft.custom_jvp(lambda x: w * x)
        inner.defjvp(lambda primals, tangents: (inner(*primals), tangents[0]))
        return lambda x: inner(x)

    def through_node(w):
        node = weft.tree.Partial(lambda w, x: w * x, w)
        return lambda x: node(x)

    def through_unset_variable(w):
        def f(x):
            return w * x if x is not None else later

        if w is None:
            later = 1.0
        return f

    for make in [v for k, v in locals().items() if k.startswith("through_")]:

        def outer(w, x, make=make):
            f = weft.custom_jvp(make(w))
            f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * tangents[0]))
            return f(x)

        for g in (outer, weft.jit(outer)):
            found = [float(v) for v in weft.grad(g, (0, 1))(3.0, 2.0)]
            assert found == [2.0, 10.0], make.__name__
        close(weft.vmap(outer, (0, None))(X, 2.0), 2 * X)


def test_bound_methods_of_trees():
    @weft.tree.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: float

        def apply(self, x):
            return self.w * x

    def outer(w, x):
        f = weft.custom_jvp(Layer(w).apply)
        f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * tangents[0]))
        return f(x)

    assert [float(v) for v in weft.grad(outer, (0, 1))(3.0, 2.0)] == [2.0, 10.0]


def test_other_variables_of_the_function_stay_shared():
    calls = 0

    def outer(w, x):
        def counted(y):
            nonlocal calls
            calls += 1
            return w * y

        f = weft.custom_jvp(counted)
        f.defjvp(lambda primals, tangents: (f(*primals), w * tangents[0]))
        return f(x)

    weft.grad(outer, (0, 1))(3.0, 2.0)
    assert calls > 0


def test_values_that_only_the_rule_closes_over():
    def outer(w, x):
        f = weft.custom_jvp(lambda y: y)
        f.defjvp(lambda primals, tangents: (primals[0], w * tangents[0]))
        return f(x)

    for g in (outer, weft.jit(outer)):
        assert [float(v) for v in weft.grad(g, (0, 1))(3.0, 2.0)] == [0.0, 3.0]
        assert float(weft.grad(weft.grad(g, 1))(3.0, 2.0)) == 1.0
        close(weft.vmap(weft.grad(g, 1), (0, None))(X, 2.0), X)


def test_functions_among_the_arguments_without_derivatives_may_close_over_traced_values():
    f = weft.custom_jvp(lambda fun, x: fun(x), nondiff_argnums=(0,))

    @f.defjvp
    def f_jvp(fun, primals, tangents):
        return f(fun, *primals), 10.0 * weft.jvp(fun, primals, tangents)[1]

    def outer(w, x):
        return f(lambda y: w * y, x)

    for g in (outer, weft.jit(outer)):
        assert [float(v) for v in weft.grad(g, (0, 1))(3.0, 2.0)] == [2.0, 30.0]
        close(weft.vmap(weft.grad(g, 1), (0, None))(X, 2.0), 10 * X)


class Box:
    """Holds a value where nothing looks for it."""

    def __init__(self, value):
        self.value = value


def test_traced_values_in_attributes_are_explained():
    def outer(w, x):
        box = Box(w)
        f = weft.custom_jvp(lambda y: box.value * y)
        f.defjvp(lambda primals, tangents: (f(*primals), box.value * tangents[0]))
        return f(x)

    for call in (
        lambda: weft.grad(outer)(3.0, 2.0),
        lambda: weft.grad(outer, (0, 1))(3.0, 2.0),
        lambda: weft.vmap(outer, (0, None))(X, 2.0),
        lambda: weft.vmap(outer)(X, X),
    ):
        with pytest.raises(LeakedTracerError, match="none of its arguments") as caught:
            call()
        assert caught.value.fix.kind == "pass_argument"

    # The fix:
    def fixed(w, x):
        f = weft.custom_jvp(lambda w, y: w * y)
        f.defjvp(lambda primals, tangents: (f(*primals), primals[0] * tangents[1]))
        return f(w, x)

    assert float(weft.grad(fixed, 1)(3.0, 2.0)) == 3.0
    # Staged, the value is an ordinary closed-over one of the program.
    assert float(weft.jit(outer)(3.0, 2.0)) == 6.0
