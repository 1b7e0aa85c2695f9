"""Random programs that write references, against programs that carry the values in Python.

The reference unrolls loops and takes branches in Python, on arrays that never change.
"""

import functools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees
from weft import lax

COUNT, SIZE = 2, 3

leaves = st.one_of(
    st.tuples(st.just("set"), st.integers(0, COUNT - 1), st.integers(0, SIZE - 1)),
    st.tuples(st.just("add"), st.integers(0, COUNT - 1), st.integers(0, SIZE - 1)),
    st.tuples(st.just("whole"), st.integers(0, COUNT - 1), st.sampled_from([0.5, -0.75])),
    st.tuples(st.just("swap"), st.integers(0, COUNT - 1), st.integers(0, SIZE - 1)),
    st.tuples(st.just("read"), st.integers(0, COUNT - 1), st.integers(0, SIZE - 1)),
)


def nested(children):
    body = st.lists(children, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.tuples(st.just("scan"), st.integers(0, 3), body),
        st.tuples(st.just("while"), st.integers(0, 3), body),
        st.tuples(st.just("cond"), body, body),
        st.tuples(st.just("jit"), body),
        st.tuples(st.just("checkpoint"), body),
        st.tuples(st.just("local"), body),
    )


programs = st.lists(st.recursive(leaves, nested, max_leaves=8), min_size=1, max_size=4).map(tuple)


def with_references(steps, refs, x):
    """Runs the program on references and a scalar, and returns the scalar."""
    for kind, *rest in steps:
        if kind in ("set", "add", "whole", "swap", "read"):
            x = leaf_with_references(kind, refs[rest[0]], rest[1], x)
        else:
            x = nested_with_references(kind, refs, rest, x)
    return x


def nested_with_references(kind, refs, rest, x):
    *_, body = rest
    if kind == "scan":
        return lax.scan(lambda c, _: (with_references(body, refs, c), None), x, None, rest[0])[0]
    if kind == "while":
        return lax.while_loop(
            lambda s: s[0] < rest[0],
            lambda s: (s[0] + 1, with_references(body, refs, s[1])),
            (0, x),
        )[1]
    if kind == "cond":
        return lax.cond(
            refs[0][0] > x,
            lambda c: with_references(rest[0], refs, c),
            lambda c: with_references(rest[1], refs, c),
            x,
        )
    if kind == "jit":
        return weft.jit(lambda refs, c: with_references(body, refs, c))(refs, x)
    if kind == "checkpoint":
        return weft.checkpoint(lambda c: with_references(body, refs, c))(x)
    own = [weft.new_ref(ref[...] * 0.5) for ref in refs]
    x = with_references(body, own, x)
    refs[0].addupdate(weft.freeze(own[1]))
    return x


def leaf_with_references(kind, ref, rest, x):
    if kind == "set":
        ref[rest] = jnp.sin(x)
    elif kind == "add":
        ref.addupdate(0.25 * x, rest)
    elif kind == "whole":
        ref[...] = ref[...] * rest + x
    elif kind == "swap":
        return jnp.cos(ref.swap(x * 0.5, rest))
    else:
        return jnp.sin(x + ref[rest])
    return x


def pure(steps, values, x):
    """The same on a list of arrays, which it changes."""
    for kind, *rest in steps:
        if kind in ("set", "add", "whole", "swap", "read"):
            x = pure_leaf(kind, values, *rest, x)
        elif kind in ("scan", "while"):
            for _ in range(rest[0]):
                x = pure(rest[1], values, x)
        elif kind == "cond":
            x = pure(rest[0] if values[0][0] > x else rest[1], values, x)
        elif kind in ("jit", "checkpoint"):
            x = pure(rest[0], values, x)
        else:
            own = [value * 0.5 for value in values]
            x = pure(rest[0], own, x)
            values[0] = values[0] + own[1]
    return x


def pure_leaf(kind, values, number, rest, x):
    value = values[number]
    if kind == "set":
        values[number] = value.at[rest].set(jnp.sin(x))
    elif kind == "add":
        values[number] = value.at[rest].add(0.25 * x)
    elif kind == "whole":
        values[number] = value * rest + x
    elif kind == "swap":
        values[number] = value.at[rest].set(x * 0.5)
        return jnp.cos(value[rest])
    else:
        return jnp.sin(x + value[rest])
    return x


START = [np.float32([0.1, -0.2, 0.3]), np.float32([0.5, 0.6, -0.7])]


def both(steps):
    """Two functions of a scalar: on references, and pure. They return the scalar and the arrays."""

    def on_references(x):
        refs = [weft.new_ref(jnp.asarray(value)) for value in START]
        # A reference holds the values of the trace that made it: x is what is differentiated.
        out = with_references(steps, refs, x)
        return out, [weft.freeze(ref) for ref in refs]

    def on_values(x):
        values = [jnp.asarray(value) for value in START]
        out = pure(steps, values, x)
        return out, values

    return on_references, on_values


# Both are computed in float32, and round in orders of their own.
close = functools.partial(close_trees, rtol=2e-4, atol=2e-5)


settings = hypothesis.settings(max_examples=8, deadline=None)


@hypothesis.given(programs)
@settings
def test_values_are_those_of_the_pure_program(steps):
    on_references, on_values = both(steps)
    wanted = on_values(0.3)
    close(on_references(0.3), wanted)
    close(weft.jit(on_references)(0.3), wanted)


@hypothesis.given(programs)
@settings
def test_references_from_outside_hold_what_the_pure_program_returns(steps):
    _, on_values = both(steps)
    wanted = on_values(0.3)
    arguments = [weft.new_ref(value) for value in START]
    out = weft.jit(lambda refs, x: with_references(steps, refs, x))(arguments, 0.3)
    close((out, [ref[...] for ref in arguments]), wanted)
    closed = [weft.new_ref(value) for value in START]
    out = weft.jit(lambda x: with_references(steps, closed, x))(0.3)
    close((out, [ref[...] for ref in closed]), wanted)


@hypothesis.given(programs)
@settings
def test_derivatives_and_mapped_values_are_those_of_the_pure_program(steps):
    on_references, on_values = both(steps)

    def total(function):
        def of(x):
            out, values = function(x)
            return out + sum(value.sum() for value in values)

        return of

    close(
        weft.jvp(total(on_references), (0.3,), (1.0,)), weft.jvp(total(on_values), (0.3,), (1.0,))
    )
    xs = jnp.array([0.3, -1.2])
    close(weft.vmap(on_references)(xs), weft.tree.map(lambda *a: jnp.stack(a), *map(on_values, xs)))
    if "while" not in str(steps):  # has no reverse mode
        close(weft.grad(total(on_references))(0.3), weft.grad(total(on_values))(0.3))


@pytest.mark.parametrize("steps", [(("cond", (("set", 0, 1),), (("swap", 1, 2),)),)])
def test_a_branch_is_taken(steps):
    on_references, on_values = both(steps)
    for x in (-2.0, 2.0):
        close(on_references(x), on_values(x))
