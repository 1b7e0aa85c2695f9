"""Values that escape from a transformed function, and values asked for while tracing."""

from __future__ import annotations

import gc
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core import leak_report as search
from weft.errors import (
    ConcretizationError,
    LeakedTracerError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)

kept = None


class Holder:
    value = None


def leaky_loss(x, store):
    y = x * 2.0
    store(y)
    return jnp.sum(y)


LINE = leaky_loss.__code__.co_firstlineno + 1
V = np.ones(3, np.float32)

TRANSFORMATIONS = {
    "jit": lambda f: weft.jit(f)(V),
    "grad": lambda f: weft.grad(f)(V),
    "value_and_grad": lambda f: weft.value_and_grad(f)(V),
    "vjp": lambda f: weft.vjp(f, V),
    "jvp": lambda f: weft.jvp(f, (V,), (V,)),
    "linearize": lambda f: weft.linearize(f, V),
    "vmap": lambda f: weft.vmap(f)(V),
    "jacfwd": lambda f: weft.jacfwd(f)(V),
    "jacrev": lambda f: weft.jacrev(f)(V),
    "make_jaxpr": lambda f: weft.make_jaxpr(f)(V),
    "cond": lambda f: lax.cond(True, f, lambda x: jnp.sum(x), V),
    "switch": lambda f: lax.switch(1, [lambda x: jnp.sum(x), f], V),
}
# How the transformation calls itself in the message, where that is another name.
SHOWN = {"value_and_grad": "grad", "jacfwd": "(jvp|jacfwd|vmap)"}


def store_global(y):
    global kept
    kept = y


def in_a_global():
    return store_global, lambda: kept


def in_a_list():
    box = []
    return box.append, lambda: box[-1]


def in_an_attribute():
    holder = Holder()
    return lambda y: setattr(holder, "value", y), lambda: holder.value


def in_a_closure():
    found = None

    def store(y):
        nonlocal found
        found = y

    return store, lambda: found


def in_a_list_of_an_attribute():
    holder = Holder()
    holder.value = []
    return holder.value.append, lambda: holder.value[0]


def in_a_class():
    return lambda y: setattr(Holder, "latest", y), lambda: Holder.latest


HELD = {
    in_a_global: "held by the global variable 'kept' of the module .*test_leaks",
    in_a_list: "held by a list in the variable 'box' of the function",
    in_an_attribute: "held by the attribute 'value' of a Holder object",
    in_a_closure: "held by the variable 'found' of the function",
    in_a_list_of_an_attribute: "held by a list in the attribute 'value' of a Holder object",
    in_a_class: "held by the attribute 'latest' of the class Holder",
}
PLACES = [in_a_global, in_a_list, in_an_attribute, in_a_closure]


def leak(transformation, place):
    store, get = place()

    def leaky(x):
        return leaky_loss(x, store)

    TRANSFORMATIONS[transformation](leaky)
    return get()


@pytest.fixture
def without_holders(monkeypatch):
    """Errors do not look for who holds the value: each would walk every object of the process, of
    which there are tens of millions where one process runs all the tests."""
    monkeypatch.setattr("weft.core.trace.leak_report", lambda value: [])


def check_message(error, transformation):
    text = str(error)
    assert re.search(rf"test_leaks.py:{LINE} in leaky_loss", text), text
    assert re.search(SHOWN.get(transformation, transformation), text), text
    assert "leaky" in text.splitlines()[0], text
    assert error.fix is not None and error.fix.kind == "return_value"


@pytest.mark.usefixtures("without_holders")
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_using_a_value_that_escaped(transformation, place):
    value = leak(transformation, place)
    with pytest.raises(LeakedTracerError) as info:
        value + 1.0
    check_message(info.value, transformation)


@pytest.mark.parametrize("place", HELD, ids=lambda place: place.__name__)
def test_the_message_says_who_holds_the_value(place):
    store, get = place()
    weft.grad(lambda x: leaky_loss(x, store))(V)
    with pytest.raises(LeakedTracerError, match=HELD[place]):
        get() + 1.0


@pytest.mark.parametrize("transformation", ["jit", "vmap", "jvp", "switch"])
def test_the_message_says_so_for_values_of_any_transformation(transformation):
    store, get = in_an_attribute()
    TRANSFORMATIONS[transformation](lambda x: leaky_loss(x, store))
    with pytest.raises(LeakedTracerError, match=HELD[in_an_attribute]):
        get() + 1.0


def test_few_walks_find_the_holders_of_a_value_that_many_hold(monkeypatch):
    """A walk takes as long as the process is large, so it asks for all holders at once."""
    walks = []

    class Collector:
        get_referents = staticmethod(gc.get_referents)

        @staticmethod
        def get_referrers(*objects):
            walks.append(len(objects))
            return gc.get_referrers(*objects)

    value, last = Holder(), Holder()
    last.value = [value]
    unnamed = [[value] for _ in range(20)]
    monkeypatch.setattr(search, "gc", Collector)
    found = search.leak_report(value)
    assert len(unnamed) == 20
    assert "a list in the attribute 'value' of a Holder object" in found
    assert len(walks) <= 4 and max(walks) > 20


def test_the_nearest_holder_comes_first_and_the_search_makes_none():
    value, near, far = Holder(), Holder(), Holder()
    near.value, far.latest = value, {"first": [value]}
    assert search.leak_report(value) == [
        "the attribute 'value' of a Holder object",
        "a list in a dict in the attribute 'latest' of a Holder object",
    ]
    far.latest = None
    assert search.leak_report(value) == ["the attribute 'value' of a Holder object"]
    near.value = None
    assert search.leak_report(value) == []


@pytest.mark.usefixtures("without_holders")
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_every_use_of_a_value_that_escaped(transformation):
    value = leak(transformation, in_a_list)
    uses = {
        "an operation": lambda: lax.sin(value),
        "jit": lambda: weft.jit(lambda x: x * 2)(value),
        "jit with static arguments": lambda: weft.jit(lambda x, n: x * n, static_argnums=1)(
            value, 2
        ),
        "jit by closure": lambda: weft.jit(lambda x: x * value)(1.0),
        "jit of the value alone": lambda: weft.jit(lambda: value)(),
        "grad": lambda: weft.grad(lambda x: x * value)(1.0),
        "grad of the value alone": lambda: weft.grad(lambda x: jnp.sum(value))(1.0),
        "vmap": lambda: weft.vmap(lambda x: x * value)(V),
        "jvp": lambda: weft.jvp(lambda x: x * value, (1.0,), (1.0,)),
        "cond": lambda: lax.cond(True, lambda: value, lambda: value * 2),
        "make_jaxpr": lambda: weft.make_jaxpr(lambda x: x * value)(1.0),
    }
    for use in uses.values():
        with pytest.raises(LeakedTracerError) as info:
            use()
        check_message(info.value, transformation)


@pytest.mark.usefixtures("without_holders")
@pytest.mark.parametrize("transformation", ["jit", "grad", "vmap", "jvp", "linearize"])
@pytest.mark.parametrize(
    "returns",
    [
        lambda value: weft.grad(lambda x: value)(1.0),
        lambda value: weft.jvp(lambda x: (x, value), (1.0,), (1.0,)),
        lambda value: weft.vmap(lambda x: value, out_axes=None)(V),
        lambda value: weft.linearize(lambda x: value, 1.0),
    ],
    ids=["grad", "jvp", "vmap", "linearize"],
)
def test_returning_a_value_that_escaped_from_another_function(transformation, returns):
    found = []

    def leaky(x):
        found.append(jnp.sum(x) * 2.0)
        return found[0]

    if transformation == "vmap":
        weft.vmap(leaky)(np.ones((2, 3), np.float32))
    else:
        TRANSFORMATIONS[transformation](leaky)
    with pytest.raises(LeakedTracerError):
        returns(found[0])


def test_an_input_that_escaped():
    box = []
    weft.jit(lambda x: box.append(x) or x)(1.0)
    with pytest.raises(LeakedTracerError, match=r"made at .*test_leaks.py:\d+"):
        box[0] + 1.0


def test_converting_a_value_that_escaped():
    value = leak("jit", in_a_list)
    for convert in (bool, np.asarray, lambda v: v.item(), lambda v: v.tolist()):
        with pytest.raises(LeakedTracerError):
            convert(value)


def test_an_inner_value_used_by_the_outer_function():
    @weft.jit
    def outer(x):
        box = []

        @weft.jit
        def inner(y):
            box.append(y * 2.0)
            return y

        inner(x)
        return box[0]

    with pytest.raises(LeakedTracerError, match="inner"):
        outer(1.0)


def test_the_outer_values_may_be_used_by_inner_functions():
    def outer(x):
        return weft.grad(lambda y: weft.jit(lambda z: x * y * z)(y))(x)

    assert float(weft.grad(outer)(3.0)) == 12.0


def test_nothing_leaks_after_an_error():
    def f(x):
        raise ZeroDivisionError("of the user")

    for run in TRANSFORMATIONS.values():
        with pytest.raises(ZeroDivisionError, match="of the user"):
            run(f)
        assert float(jnp.sum(jnp.array(V) + 1.0)) == 6.0  # the evaluating trace is current again


def test_the_error_message_shows_the_users_frames_only():
    value = leak("jit", in_a_list)
    try:
        weft.jit(lambda x: x * value)(1.0)
    except LeakedTracerError as error:
        frames = []
        traceback = error.__traceback__
        while traceback is not None:
            frames.append(traceback.tb_frame.f_code.co_filename)
            traceback = traceback.tb_next
        assert set(frames) == {__file__}
        assert error.__context__ is None or error.__suppress_context__


# ---- values asked for while tracing ------------------------------------------------------------


def branch(x):
    return 1.0 if x > 0 else -1.0


def loop(x):
    while x > 0:
        x = x - 1
    return x


ASKS = {
    "if": (branch, TracerBoolConversionError),
    "and": (lambda x: x > 0 and x < 1, TracerBoolConversionError),
    "while": (loop, TracerBoolConversionError),
    "in": (lambda x: x in [1.0, 2.0], TracerBoolConversionError),
    "int": (lambda x: int(x), ConcretizationError),
    "float": (lambda x: float(x), ConcretizationError),
    "complex": (lambda x: complex(x), ConcretizationError),
    "range": (lambda x: sum(range(x.astype(np.int32))), TracerIntegerConversionError),
    "list index": (lambda x: [1, 2, 3][x.astype(np.int32)], TracerIntegerConversionError),
    "shape": (lambda x: np.zeros(x.astype(np.int32)), (TracerIntegerConversionError, TypeError)),
    "numpy": (lambda x: np.asarray(x), TracerArrayConversionError),
    "numpy function": (lambda x: np.sin(x), (TracerArrayConversionError, TypeError)),
    "item": (lambda x: x.item(), ConcretizationError),
    "tolist": (lambda x: x.tolist(), ConcretizationError),
}


@pytest.mark.parametrize("ask", ASKS)
def test_a_traced_value_asked_for_its_value(ask):
    function, error = ASKS[ask]
    with pytest.raises(error) as info:
        weft.jit(function)(1.0)
    if isinstance(info.value, ConcretizationError):
        text = str(info.value)
        assert re.search(r"test_leaks.py:\d+", text), text
        assert "under jit" in text, text
        assert info.value.fix is not None


@pytest.mark.parametrize("ask", ASKS)
def test_the_suggested_fix_works(ask):
    """Static arguments, or a primitive conditional instead of the branch."""
    function, _ = ASKS[ask]
    results = []
    weft.jit(lambda x: results.append(function(x)), static_argnums=0)(np.float32(1.0))
    assert len(results) == 1
    assert float(weft.jit(lambda x: lax.cond(x > 0, lambda: 1.0, lambda: -1.0))(2.0)) == 1.0
    assert float(weft.jit(lambda x: jnp.where(x > 0, 1.0, -1.0))(-2.0)) == -1.0


def test_the_transformation_that_hides_the_value_is_the_one_named():
    def loss(x):
        return x if x > 0 else -x

    assert float(weft.grad(loss)(-1.0)) == -1.0
    with pytest.raises(ConcretizationError, match="under jit of step"):

        @weft.jit
        def step(x):
            return weft.grad(loss)(x)

        step(1.0)
    with pytest.raises(ConcretizationError, match="under vmap"):
        weft.vmap(weft.grad(loss))(V)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: weft.grad(f)(3.0),
        lambda f: weft.jvp(f, (3.0,), (1.0,))[1],
        lambda f: weft.linearize(f, 3.0)[1](1.0),
        lambda f: weft.vjp(f, 3.0)[1](1.0)[0],
        lambda f: weft.grad(lambda x: weft.jvp(f, (x,), (1.0,))[0])(3.0),
    ],
    ids=["grad", "jvp", "linearize", "vjp", "grad of jvp"],
)
def test_derivatives_outside_jit_know_their_values(derivative):
    def f(x):
        assert bool(x > 0) and int(x) == 3 and float(x) == 3.0 and complex(x) == 3.0
        assert np.asarray(x) == 3.0 and x.item() == 3.0 and x.tolist() == 3.0
        for _ in range((x * 1.0).astype(np.int32)):
            x = x * 1.0
        return x * 2.0 if x < 10 else x

    assert float(derivative(f)) == 2.0


def test_a_mapped_value_is_not_known_even_outside_jit():
    with pytest.raises(ConcretizationError, match="under vmap"):
        weft.vmap(branch)(V)


def test_shapes_lengths_and_dtypes_are_known_while_tracing():
    @weft.jit
    def f(x):
        assert len(x) == 3 and x.shape == (3,) and x.ndim == 1 and x.size == 3
        assert isinstance(x, weft.Array) and "f32[3]" in repr(x) and "f32[3]" in f"{x}"
        total = 0.0
        for element in x:
            total = total + element
        return total

    assert float(f(V)) == 3.0


def test_hashing_and_truth_of_equality_are_refused():
    def f(x):
        return {x: 1}

    with pytest.raises(TypeError, match="unhashable"):
        weft.jit(f)(1.0)
