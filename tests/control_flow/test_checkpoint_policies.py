"""Policies of `checkpoint`: how often each operation is computed, and what is handed over."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from checkpoint_cases import POLICIES, W, X, layer, policies, remat
from closeness import close_trees as close
from loop_cases import check_every_split, check_every_use, equations, names
from weft import lax
from weft.errors import WeftTypeError

# ---- what is computed again --------------------------------------------------------------------


def counts(policy, wrap=True):
    """How often the gradient of one layer computes each operation, the first time included."""

    def f(w, x):
        return jnp.sum((remat(policy)(layer) if wrap else layer)(w, x))

    found = names(weft.make_jaxpr(weft.grad(f))(W, X).jaxpr)
    return {name: found.count(name) for name in ("dot_general", "sin", "tanh", "exp")}


# One layer: two products forwards, and in the backward pass one for each weight and one for the
# hidden values. What is computed again stands on top of that.
PLAIN = {"dot_general": 5, "sin": 1, "tanh": 1, "exp": 1}
AGAIN = {
    "everything": PLAIN,
    "nothing": {"dot_general": 7, "sin": 2, "tanh": 2, "exp": 2},
    "none": {"dot_general": 7, "sin": 2, "tanh": 2, "exp": 2},
    "dots": {"dot_general": 5, "sin": 2, "tanh": 2, "exp": 2},
    "dots_without_batch": {"dot_general": 5, "sin": 2, "tanh": 2, "exp": 2},
    # With the hidden values there, the first product is needed for the cosine only.
    "names": {"dot_general": 7, "sin": 1, "tanh": 2, "exp": 2},
    "other_names": {"dot_general": 7, "sin": 2, "tanh": 2, "exp": 2},
    "both": {"dot_general": 5, "sin": 1, "tanh": 2, "exp": 2},
    # All that is computed again is the name.
    "all_but_names": PLAIN,
    # exp is there, and tanh is needed for its own derivative.
    "moved_names": {"dot_general": 7, "sin": 1, "tanh": 2, "exp": 2},
    "moved_dots": {"dot_general": 5, "sin": 2, "tanh": 2, "exp": 2},
    # exp is there, and the derivative of tanh is computed from its operand.
    "own": {"dot_general": 7, "sin": 2, "tanh": 1, "exp": 1},
}


def test_the_plain_gradient_computes_everything_once():
    assert counts(None, wrap=False) == PLAIN


@pytest.mark.parametrize("policy", AGAIN)
def test_how_often_each_operation_is_computed(policy):
    assert counts(POLICIES[policy]) == AGAIN[policy]


def test_batched_products_are_not_saved_by_the_policy_without_batches():
    w = np.stack([W["first"]] * 2)

    def f(w, x, policy):
        def g(w, x):
            return jnp.sin(lax.batch_matmul(x, w))

        return jnp.sum(weft.checkpoint(g, policy=policy)(w, x))

    def products(policy):
        jaxpr = weft.make_jaxpr(weft.grad(functools.partial(f, policy=policy)))(w, np.stack([X, X]))
        return names(jaxpr.jaxpr).count("dot_general")

    assert products(policies.dots_saveable) == 2
    assert products(policies.dots_with_no_batch_dims_saveable) == 3


def test_a_policy_sees_into_jitted_functions_and_scans():
    inner = weft.jit(lambda x: jnp.exp(x) * x)

    def jitted(x):
        return jnp.sum(weft.checkpoint(lambda x: jnp.sin(inner(x)), policy=POLICIES["own"])(x))

    assert names(weft.make_jaxpr(weft.grad(jitted))(X).jaxpr).count("exp") == 1

    def scanned(x, policy):
        def whole(x):
            return lax.scan(lambda c, _: (jnp.sin(c @ W["first"] @ W["second"]), None), x, None, 3)[
                0
            ]

        return jnp.sum(weft.checkpoint(whole, policy=policy)(x))

    def products(policy):
        jaxpr = weft.make_jaxpr(weft.grad(functools.partial(scanned, policy=policy)))(X).jaxpr
        return names(jaxpr).count("dot_general")

    # In the body two products forwards and two backwards, and the first two once more.
    assert products(policies.everything_saveable) == 4 and products(None) == 6


def twice(c, _):
    weft.debug.callback(printed.append, c[0, 0])
    inner = lax.scan(lambda d, _: (jnp.sin(d @ M @ M), (d @ M).sum()), c @ M, None, 2)
    return inner


M = np.random.default_rng(3).normal(size=(3, 3)).astype(np.float32) / 2
printed: list[float] = []


def looped(x):
    c, ys = lax.scan(twice, x, None, 3)
    return jnp.sum(c) + jnp.sum(ys)


@pytest.mark.parametrize(
    "policy", ["dots", "nothing", "everything", "dots_without_batch", "moved_dots"]
)
def test_a_policy_saves_values_of_each_step_of_loops_in_loops(policy):
    wrapped = remat(POLICIES[policy])(looped)
    x = jnp.asarray(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    products = names(weft.make_jaxpr(weft.grad(wrapped))(x).jaxpr).count("dot_general")
    plain = names(weft.make_jaxpr(weft.grad(looped))(x).jaxpr).count("dot_general")
    # Four products in the bodies: one round the outer loop, three round the inner one, of which the
    # derivative does not read the sums.
    assert products == plain + (3 if policy == "nothing" else 0)
    wanted = weft.grad(looped)(x)
    printed.clear()
    close(weft.grad(wrapped)(x), wanted)
    assert len(printed) == 3  # nothing is printed again
    close(weft.jit(weft.hessian(wrapped))(x), weft.hessian(looped)(x), 1e-4)


def test_saved_values_are_moved_and_moved_back_on_devices_with_two_memories():
    """The text for a GPU, since the memory of a CPU has both names."""

    def f(x):
        return jnp.sum(jnp.sin(weft.checkpoint_name(jnp.sin(x), "hidden")))

    gradient = weft.jit(weft.grad(remat(POLICIES["moved_names"])(f)))
    close(gradient(X), weft.grad(f)(X))
    assert "pinned_host" not in gradient.lower(X).as_text()
    text = weft.export.export(gradient, platforms=["cuda"])(X).mlir_module()
    out, back = (line for line in text.splitlines() if "annotate_device_placement" in line)
    assert '_xla_buffer_placement = "pinned_host"' in out
    assert '_xla_buffer_placement = "device"' in back


def test_a_chain_keeps_only_the_arguments_of_its_parts():
    """Each part hands over its argument, not its intermediate values."""
    step = weft.checkpoint(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))

    def chain(x):
        return jnp.sum(step(step(step(x))))

    jaxpr = weft.make_jaxpr(weft.grad(chain))(X).jaxpr
    found = equations(jaxpr, "checkpoint")
    again = [eqn for eqn in found if eqn.params["again"]]
    assert len(again) == 3
    for eqn in again:
        assert [v.type.shape for v in eqn.inputs] == [X.shape] * 2  # the argument, the cotangent
    text = weft.jit(weft.grad(chain)).lower(X).as_text()
    assert text.count("optimization_barrier") == 3
    loose = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)), prevent_cse=False)
    text = weft.jit(weft.grad(lambda x: jnp.sum(loose(x)))).lower(X).as_text()
    assert "optimization_barrier" not in text


def test_every_choice_of_unknown_inputs_and_of_used_results():
    def f(a, b, c):
        inner = weft.checkpoint(lambda a, b, c: (jnp.sin(a) * b, jnp.exp(c), a + c))
        return inner(a, b, c)

    check_every_split(f, X[0], X[1], X[0] + 1.0)
    check_every_use(f, X[0], X[1], X[0] + 1.0)


def test_names_are_there_for_policies_only():
    tree = weft.checkpoint_name({"a": X, "b": [1.0, None]}, "both")
    close(tree, {"a": X, "b": [np.float32(1.0), None]})
    close(weft.grad(lambda x: jnp.sum(weft.checkpoint_name(x * x, "square")))(X), 2 * X)
    close(weft.vmap(lambda x: weft.checkpoint_name(x, "row") * 2.0)(X), 2 * X)
    close(weft.linear_transpose(lambda x: weft.checkpoint_name(x, "x"), X)(X), (X,))
    key = weft.random.key(0)
    assert weft.checkpoint_name(key, "key").dtype == key.dtype


# ---- errors ------------------------------------------------------------------------------------


def test_names_that_are_no_names():
    with pytest.raises(WeftTypeError, match="takes names") as info:
        policies.save_only_these_names(["a", "b"])
    assert info.value.fix.kind == "unpack"
    policies.save_only_these_names(*["a", "b"])
    with pytest.raises(WeftTypeError, match="takes names"):
        weft.checkpoint_name(1.0, 3)


def steep(w, x):
    return jnp.sin(w @ x) @ w


def flat(w, x):
    return jnp.cos(x) * w[0]


CHOICES = {
    "cond": lambda w, x: lax.cond(x.sum() > 0, steep, flat, w, x),
    "jitted": lambda w, x: lax.cond(x.sum() > 0, weft.jit(steep), flat, w, x),
    "switch": lambda w, x: lax.switch(
        (x.sum() > 0).astype(int), [flat, steep, lambda w, x: jnp.tanh(w @ x)], w, x
    ),
    "in_scan": lambda w, x: lax.scan(
        lambda c, _: (lax.cond(c.sum() > 0, steep, flat, w, c), None), x, None, length=3
    )[0],
    "around_scan": lambda w, x: lax.cond(
        x.sum() > 0,
        lambda w, x: lax.scan(lambda c, _: (weft.jit(steep)(w, c), None), x, None, length=2)[0],
        flat,
        w,
        x,
    ),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_policy_saves_values_of_branches(choice):
    f = CHOICES[choice]
    w, x = 0.3 * jnp.ones((3, 3)) + 0.1 * jnp.eye(3), jnp.array([0.5, 0.2, 0.1])

    def gradient(policy, wrap=True):
        wrapped = weft.checkpoint(f, policy=policy) if wrap else f
        return weft.grad(lambda w, x: jnp.cos(wrapped(w, x)).sum(), (0, 1))

    def count(operation, gradient):
        return names(weft.make_jaxpr(gradient)(w, x).jaxpr).count(operation)

    plain = gradient(None, wrap=False)
    policies = weft.checkpoint_policies
    dots, every = policies.dots_saveable, policies.everything_saveable
    assert count("dot_general", gradient(None)) > count("dot_general", plain)
    assert count("dot_general", gradient(dots)) == count("dot_general", plain)
    assert count("sin", gradient(dots)) > count("sin", plain)
    for operation in ("dot_general", "sin", "cos"):
        assert count(operation, gradient(every)) == count(operation, plain)
    for of_x in (x, -x):
        wanted = plain(w, of_x)
        for policy in (None, dots, every):
            both = gradient(policy), weft.jit(gradient(policy))
            rows = weft.vmap(gradient(policy), in_axes=(None, 0))(w, jnp.stack([x, -x]))
            mine = [row[0 if of_x is x else 1] for row in rows]
            for got in (*[g(w, of_x) for g in both], mine):
                for a, b in zip(got, wanted, strict=True):
                    close(a, b)
    second = [weft.jacrev(lambda x, g=g: g(w, x)[1])(x) for g in (gradient(dots), plain)]
    close(*second)
