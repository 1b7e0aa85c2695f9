"""Functions made anew are traced, and find the programs of equal ones; functions that stay the same
object are traced once."""

from __future__ import annotations

import dataclasses
import functools
import gc
import types
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from weft import lax
from weft.tracing.traces import traces_of

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

calls: list[str] = []


def loop(factor):
    def body(c, x):
        calls.append("body")
        return c * factor + x, None

    return lax.scan(body, 0.5, jnp.arange(3.0))[0]


def unbounded(factor):
    def body(c):
        calls.append("body")
        return c[0] + 1, c[1] * factor

    return lax.while_loop(lambda c: c[0] < 3, body, (0, 0.5))[1]


def branch(factor):
    def taken(x):
        calls.append("body")
        return x * factor

    return lax.cond(True, taken, lambda x: x + factor, 0.5)


def rematerialized(factor):
    def f(x):
        calls.append("body")
        return jnp.sin(x * factor)

    return weft.checkpoint(f)(0.5)


def mapped(factor):
    def f(x):
        calls.append("body")
        return x * factor

    return lax.map(f, jnp.arange(3.0)).sum()


REVERSIBLE = [loop, branch, rematerialized, mapped]
ALL = [*REVERSIBLE, unbounded]


def test_a_carry_that_is_widened_is_traced_once():
    calls.clear()

    def body(c, x):
        calls.append("body")
        return c + x, c

    total, before = lax.scan(body, 0.0, jnp.arange(3.0))  # a Python number meets float32
    assert len(calls) == 1 and not total.weak_type and not before.weak_type


def test_a_carry_that_takes_another_dtype_is_traced_again():
    calls.clear()

    def body(c, x):
        calls.append("body")
        return c + x, c

    total, _ = lax.scan(body, 0.0, jnp.arange(3, dtype=jnp.bfloat16))
    assert total.dtype == jnp.bfloat16 and len(calls) == 2


def test_a_body_may_look_at_the_number_that_is_differentiated():
    def f(w):
        def body(c, _):
            return (c * w if float(w) > 0 else c - w), None

        return lax.scan(body, 2.0, None, 3)[0]

    np.testing.assert_allclose([weft.grad(f)(1.5), weft.grad(f)(-1.5)], [2 * 3 * 1.5**2, -3.0])


# ---- functions made anew, as users make them ----------------------------------------------------

X = jnp.arange(1.0, 4.0)


setting = 2.0
kept: dict[object, object] = {}


def same(key, make):
    """One object for each key, however often it is asked for."""
    return kept.setdefault(key, make())


@dataclasses.dataclass
class Changeable:
    k: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float
    sizes: tuple[int, ...] = (1, 2)


class Layer:
    def __init__(self, k):
        self.w, self.k = jnp.full(3, k), k

    def apply(self, x):
        return x * self.w

    def __call__(self, x):
        return x * self.k


def around(value, read=lambda value: value):
    def f(x):
        return x * read(value)

    return f


def with_default(k):
    def f(x, k=k):
        return x * k

    return f


def with_partial(k):
    def f(x, *, k):
        return x * k

    return functools.partial(f, k=k)


def decorated(k):
    def scaled(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args) * k

        return inner

    @scaled
    def f(x):
        return x

    return f


def generated(k):
    def functions():
        for i in range(3):

            def f(x, i=i):
                return x * k + 0 * i

            yield f

    return list(functions())[1]


def with_global(k):
    global setting
    setting = k

    def f(x):
        return x * setting

    return f


MADE = {
    "number": around,
    "array": lambda k: around(same(("array", k), lambda: jnp.full(3, k))),
    "numpy": lambda k: around(np.full(3, k, np.float32)),
    "large numpy": lambda k: around(
        same(("large", k), lambda: np.full(100_000, k, np.float32)), lambda w: w[:3]
    ),
    "dict": lambda k: around({"k": k, "names": ["a"]}, lambda d: d["k"]),
    "list": lambda k: around([1, [k]], lambda d: d[1][0]),
    "tree of arrays": lambda k: around(
        same(("tree", k), lambda: {"w": [jnp.full(3, k)]}), lambda d: d["w"][0]
    ),
    "dataclass": lambda k: around(Changeable(k), lambda c: c.k),
    "frozen dataclass": lambda k: around(Frozen(k), lambda c: c.k),
    "namespace": lambda k: around(types.SimpleNamespace(k=k), lambda c: c.k),
    "method": lambda k: same(("layer", k), lambda: Layer(k)).apply,
    "callable": lambda k: same(("layer", k), lambda: Layer(k)),
    "nested": lambda k: around(lambda: (lambda: k)(), lambda f: f()),
    "default": with_default,
    "partial": with_partial,
    "partial with an array": lambda k: with_partial(same(("array", k), lambda: jnp.full(3, k))),
    "decorated": decorated,
    "generated": generated,
    "global": with_global,
    "grad": lambda k: weft.grad(lambda x: (around(k)(x)).sum() + 0 * x.sum()),
    "jit": lambda k: weft.jit(around(k)),
    "checkpoint": lambda k: weft.checkpoint(around(k)),
}
WAYS = {
    "jit": lambda f: weft.jit(f)(X),
    "grad of jit": lambda f: weft.grad(lambda x: weft.jit(f)(x).sum())(X),
    "vmap of jit": lambda f: weft.vmap(weft.jit(f))(jnp.stack([X, X]))[1],
    "scan": lambda f: lax.scan(lambda c, _: (c, f(c)), X, None, length=1)[1][0],
    "fori_loop": lambda f: lax.fori_loop(0, 1, lambda i, c: f(c), X),
    "while_loop": lambda f: lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, X)
    )[1],
    "cond": lambda f: lax.cond(True, f, lambda x: x, X),
    "map": lambda f: lax.map(f, X[None])[0],
    "checkpoint": lambda f: weft.checkpoint(f)(X),
}


def check_found(use, monkeypatch, wanted):
    """Five uses compile as one does; another value gives its own result."""
    use(2.0)
    compiled = counted_compilations(monkeypatch)
    for _ in range(4):
        found = use(2.0)
    assert compiled == []
    np.testing.assert_allclose(found, wanted(2.0), rtol=1e-6)
    np.testing.assert_allclose(use(3.0), wanted(3.0), rtol=1e-6)
    np.testing.assert_allclose(use(2.0), wanted(2.0), rtol=1e-6)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("way", ["jit", "scan", "grad of jit"])
def test_functions_made_anew_compile_nothing(made, way, monkeypatch):
    x = np.asarray(X)
    first = np.ones(3) if made == "grad" or way == "grad of jit" else x
    if made == "grad" and way == "grad of jit":
        first = np.zeros(3)
    check_found(lambda k: WAYS[way](MADE[made](k)), monkeypatch, lambda k: first * k)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_use_compiles_once(way, monkeypatch):
    first = np.ones(3) if way == "grad of jit" else np.asarray(X)
    check_found(lambda k: WAYS[way](around(k)), monkeypatch, lambda k: first * k)


MESH = weft.make_mesh((3,), ("a",))
SPLIT = weft.sharding.PartitionSpec("a")
OTHER = {
    "jit of grad": (lambda f: weft.jit(weft.grad(lambda x: f(x).sum()))(X), np.ones(3)),
    "jit of vmap": (lambda f: weft.jit(weft.vmap(f))(X), X),
    "jit of jit": (lambda f: weft.jit(weft.jit(f))(X), X),
    "jit of jacfwd": (lambda f: weft.jit(weft.jacfwd(f))(X), np.eye(3)),
    "jit of shard_map": (
        lambda f: weft.jit(weft.shard_map(f, mesh=MESH, in_specs=SPLIT, out_specs=SPLIT))(X),
        X,
    ),
    "pmap": (lambda f: weft.pmap(f)(X), X),
    "static argument": (lambda f: weft.jit(lambda f, x: f(x), static_argnums=0)(f, X), X),
    "jit of tree.map": (lambda f: weft.jit(lambda x: weft.tree_util.tree_map(f, x))(X), X),
    "jit of scan": (
        lambda f: weft.jit(lambda x: lax.scan(lambda c, _: (f(c), 0), x, None, 1)[0])(X),
        X,
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_other_ways_of_use_compile_once(name, monkeypatch):
    use, first = OTHER[name]
    check_found(lambda k: use(around(k)), monkeypatch, lambda k: np.asarray(first) * k)


def test_reductions_and_solvers_made_anew(monkeypatch):
    def reduced(k):
        return lax.reduce(X, jnp.float32(0), lambda a, b: a + b + 0 * k, (0,)) * k

    check_found(reduced, monkeypatch, lambda k: 6 * k)

    def solved(k):
        return lax.custom_linear_solve(around(k), X, lambda mv, b: b / k, symmetric=True)

    monkeypatch.undo()
    check_found(solved, monkeypatch, lambda k: np.asarray(X) / k)


@pytest.mark.parametrize("size", [3, 100_000])
def test_numpy_arrays_changed_in_place_are_seen(size):
    w = np.full(size, 2.0, np.float32)
    for k in (2.0, 3.0, 3.0, 2.0, 2.0):
        w[:] = k
        np.testing.assert_array_equal(weft.jit(lambda x: x * w[:3])(X), np.asarray(X) * k)
    w[-1] = 7.0
    assert float(weft.jit(lambda x: x * w[-1])(X)[0]) == 7.0


def test_a_program_of_a_wrapper_that_is_gone_is_found(monkeypatch):
    def use():
        return weft.jit(lambda x: x * 1.375 + 0.25)(X)

    first = use()
    gc.collect()
    compiled = counted_compilations(monkeypatch)
    np.testing.assert_array_equal(use(), first)
    assert compiled == []


# ---- a trace belongs to its function object ------------------------------------------------------


def counting():
    calls: list[str] = []

    def f(x):
        calls.append("f")
        return x * 2.625

    return f, calls


def test_one_function_object_is_traced_once_by_several_jits():
    f, calls = counting()
    weft.jit(f)(X)
    weft.jit(f)(X)
    weft.jit(f, donate_argnums=0)(X + 0)
    assert calls == ["f"]
    weft.jit(f)(X[:2])
    assert calls == ["f", "f"]
    # Another object of the same function is traced.
    weft.jit(lambda x: f(x))(X)
    weft.jit(functools.partial(f))(X)
    assert calls == ["f"] * 4


def test_methods_and_wrappers_are_new_objects():
    class Model:
        k = 1.0
        calls = 0

        def apply(self, x):
            Model.calls += 1
            return x * self.k

    model = Model()
    for k in (1.0, 2.0, 3.0):
        model.k = k
        np.testing.assert_array_equal(weft.jit(model.apply)(X), np.asarray(X) * k)
    assert Model.calls == 3


def test_a_decorated_function_has_no_traces_of_the_one_it_wraps():
    f, calls = counting()
    weft.jit(f)(X)

    @functools.wraps(f)
    def other(x):
        return f(x) + 1

    np.testing.assert_allclose(weft.jit(other)(X), np.asarray(X) * 2.625 + 1)
    assert calls == ["f", "f"]


def test_functions_die_with_their_traces():
    def make():
        held: list[object] = []

        def f(x):
            weft.debug.callback(held.append, x)
            return x * 2

        held.append(f)
        weft.jit(f)(X)
        return weakref.ref(f)

    reference = make()
    weft.clear_caches()
    gc.collect()
    assert reference() is None


def test_an_identity_that_comes_again_has_no_traces():
    for k in range(300):
        f = eval(f"lambda x: x * {k}")
        assert traces_of(f) == {}
        assert float(weft.jit(f)(1.0)) == k


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_an_eager_loop_sees_what_has_changed(f):
    calls.clear()
    first = f(1.25)
    assert f(1.25) == first and f(1.5) != first
    assert len(calls) == 3  # traced each time
