"""What changes between two functions that are made anew is seen, also by rules of derivatives,
callbacks and references, and nothing is compiled again where the program is the same."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from weft import lax

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

WAYS = {
    "grad of jit": lambda f: weft.grad(weft.jit(lambda x: f(x)))(np.float32(1)),
    "jit of grad": lambda f: weft.jit(weft.grad(lambda x: f(x)))(np.float32(1)),
    "scan": lambda f: weft.grad(
        lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]
    )(np.float32(1)),
    "cond": lambda f: weft.grad(lambda x: lax.cond(True, f, lambda y: y, x))(np.float32(1)),
    "checkpoint": lambda f: weft.grad(weft.checkpoint(lambda x: f(x)))(np.float32(1)),
    "vmap of jit": lambda f: weft.vmap(weft.grad(weft.jit(lambda x: f(x))))(jnp.ones(1))[0],
}


def of_a_global(box):
    @weft.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, g: (g * box["k"],))
    return f


def in_forward_mode(box):
    @weft.custom_jvp
    def f(x):
        return x * 1.0

    f.defjvp(lambda xs, ts: (xs[0] * 1.0, ts[0] * box["k"]))
    return f


def of_a_method(box):
    class Rule:
        def backward(self, _, g):
            return (g * box["k"],)

    @weft.custom_vjp
    def f(x):
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), Rule().backward)
    return f


def of_an_argument(box):
    @functools.partial(weft.custom_jvp, nondiff_argnums=(1,))
    def f(x, held):
        return x * 1.0

    f.defjvp(lambda held, xs, ts: (xs[0] * 1.0, ts[0] * held["k"]))
    return lambda x: f(x, box)


RULES = [of_a_global, in_forward_mode, of_a_method, of_an_argument]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rules_run_again_for_each_derivative(rule, way):
    box = {"k": 1.0}
    f = rule(box)
    for k in (2.0, 3.0, 2.0):
        box["k"] = k
        assert float(WAYS[way](f)) == k


def test_rules_read_the_settings_of_each_derivative():
    @weft.custom_jvp
    def f(x):
        return x * 1.0

    f.defjvp(lambda xs, ts: (xs[0], ts[0] * jnp.arange(3.0).dtype.itemsize))
    use = lambda: float(weft.grad(weft.jit(lambda x: f(x)))(np.float32(1)))  # noqa: E731
    assert use() == 4.0
    with weft.enable_x64():
        assert use() == 8.0
    assert use() == 4.0


def test_programs_with_rules_of_the_user_are_found(monkeypatch):
    f = of_a_global({"k": 2.0})
    use = lambda: weft.jit(lambda x: f(x) * 1.625)(jnp.ones(3))  # noqa: E731
    use()
    gradient = lambda: weft.jit(weft.grad(lambda x: f(x).sum() * 1.625))(jnp.ones(3))  # noqa: E731
    gradient()
    compiled = counted_compilations(monkeypatch)
    use()
    gradient()
    assert compiled == []


class Pair(collections.namedtuple("Pair", "a b")):
    """It has a `__dict__`, as classes of named tuples that are derived have."""


class Slotted:
    __slots__ = ("hidden",)


@dataclasses.dataclass(frozen=True)
class Fields(Slotted):
    a: int


@dataclasses.dataclass(frozen=True)
class WithInit:
    a: int
    k: dataclasses.InitVar[int]


def with_attribute(value, k):
    object.__setattr__(value, "hidden", k)
    return value


HOLDERS = {
    "a named tuple": lambda k: with_attribute(Pair(1, 2), k),
    "a slot": lambda k: with_attribute(Fields(1), k),
    "a partial": lambda k: with_attribute(functools.partial(len), k),
    "an array": lambda k: np.array([k]),
    "an init variable": lambda k: WithInit(1, 2),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_objects_that_are_more_than_their_fields_are_told_apart(name):
    def host(held, x):
        if isinstance(held, np.ndarray):
            return np.float32(held[0])
        return np.float32(getattr(held, "hidden", 0.0))

    struct = weft.ShapeDtypeStruct((), np.float32)
    for k in (2.0, 3.0):
        held = HOLDERS[name](k)
        call = functools.partial(host, held)
        found = weft.jit(lambda x: weft.pure_callback(call, struct, x))(0.0)  # noqa: B023
        assert float(found) == (0.0 if name == "an init variable" else k)


def test_an_array_of_a_callback_that_changes_is_read_again():
    struct = weft.ShapeDtypeStruct((), np.float32)
    arrays = [np.array([1.0]), np.array([1.0])]

    def use(i):
        call = functools.partial(lambda c, x: np.float32(c[0]), arrays[i])
        return float(weft.jit(lambda x: weft.pure_callback(call, struct, x))(0.0))

    assert use(0) == 1.0
    arrays[0][0] = 9.0
    assert (use(0), use(1)) == (9.0, 1.0)


@pytest.mark.parametrize("index", [None, np.array([0, 1])], ids=["unused", "of an array"])
def test_functions_with_references_have_their_own(index):
    for k in (1.0, 2.0, 3.0):
        c, ref = jnp.full(2, k), weft.new_ref(jnp.zeros(2))

        def f(ref, x):
            if index is not None:
                ref[index] = x * c  # noqa: B023
            return x * c  # noqa: B023

        np.testing.assert_array_equal(weft.jit(f)(ref, jnp.ones(2)), [k, k])
        np.testing.assert_array_equal(ref[...], [k, k] if index is not None else [0, 0])


def test_a_policy_of_checkpoint_is_asked_again():
    asked, answer = [], [False]

    def policy(primitive, *types, **params):
        asked.append(primitive.name)
        return answer[0]

    def sines(policy):
        f = weft.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=policy)
        return str(weft.make_jaxpr(weft.grad(lambda x: f(x)))(1.0)).count("= sin ")

    both = weft.checkpoint_policies.save_from_both_policies(policy, policy)
    assert [sines(policy), sines(both)] == [3, 3]
    answer[0] = True
    assert [sines(policy), sines(both)] == [2, 2]
    assert len(asked) > 0


def test_what_callbacks_and_rules_close_over_is_freed():
    class Model:
        scale = 2.0

    def of_callback():
        model = Model()
        struct = weft.ShapeDtypeStruct((), np.float32)
        call = lambda x: np.float32(x * model.scale)  # noqa: E731
        weft.jit(lambda x: weft.pure_callback(call, struct, x))(np.float32(1))
        return weakref.ref(model)

    def of_rule():
        model = Model()
        f = weft.custom_jvp(lambda x: x * 1.0)
        f.defjvp(lambda xs, ts: (xs[0], ts[0] * model.scale))
        weft.grad(weft.jit(lambda x: f(x)))(np.float32(1))
        return weakref.ref(model)

    def of_reference():
        model, ref = Model(), weft.new_ref(jnp.zeros(2))
        weft.jit(lambda x: (ref[...] * model.scale, x)[1])(1.0)
        return weakref.ref(model)

    references = [of_callback(), of_rule(), of_reference()]
    gc.collect()
    assert [reference() is None for reference in references] == [True] * 3
