"""Calls of jitted functions that were made before: the compiled path against the one in Python.

A known call is recognised by a pattern of its arguments. What is wrong with a pattern shows where a
call runs the program of another one, so these tests draw sequences of calls that nearly match.
"""

from __future__ import annotations

import collections
import gc
import os
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from at_once import together
from processes import python_output
from weft import config, tree
from weft.arrays.array import Array
from weft.dispatch import known_calls
from weft.dispatch.known_calls import KnownCalls, PythonCalls
from weft.errors import DeletedArrayError, WeftError
from weft.native import optional
from weft.sharding.current import in_force

compiled_only = pytest.mark.skipif(optional.calls is None, reason="they are not built")

Pair = collections.namedtuple("Pair", "first second")


def token(kind, count, first=None):
    """A token of a pattern, as known_calls.py writes it."""
    return kind, count, first, None, None, 0, 0


class Same:
    """An object that is equal to itself alone."""


class Counted:
    """An object whose value may change: equal to those of the same number."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Counted) and other.number == self.number

    def __hash__(self):
        return hash(self.number)


def told(value):
    """A result with everything that a program decides: types, places, and the bits."""
    if isinstance(value, Array):
        return str(value.type), value._committed_place(), value._stored().tobytes()
    return type(value), repr(value)


def outcome(function, *args, **kwargs):
    """What a call gives: its tree of results, or the class and text of its error."""
    try:
        leaves, structure = tree.flatten(function(*args, **kwargs))
    except (WeftError, OverflowError, TypeError) as error:
        return type(error), str(error).partition("\n  at ")[0]
    return [told(leaf) for leaf in leaves], structure


SAME = Same()
X = jnp.ones(3, "float32")
HOST = np.ones(3, "float32")
# Values of one family nearly are one another: a pattern that is too wide takes one for the other.
FAMILIES = [
    [0.0, -0.0, 0, False],
    [1, True, 1.0, np.float32(1), 1j],
    [1.0, 2.0, float("nan"), 1e300],
    [1, 2**31 - 1, 2**31, -(2**31), 2**70],
    [X, jnp.ones(4, "float32"), jnp.ones(3, "int32"), jnp.ones((3, 1), "float32")],
    [X, weft.device_put(X, weft.devices()[0]), weft.device_put(X, weft.devices()[1])],
    [X, HOST, np.ones(3, ">f4"), np.ones(3), np.ones((3, 1), "float32"), HOST.tolist()],
    [HOST, np.arange(6, dtype="float32")[::2], np.ma.masked_array(HOST), np.zeros(3, "int64")],
    [jnp.asarray(2.0), jnp.ones((), "float32"), 2.0, None],
    [weft.random.key(0), weft.random.PRNGKey(0), "text", np.float64(0.1)],
]
STATIC_FAMILIES = [
    [0, False, 0.0, -0.0],
    [1, True, 1.0, "1", b"1"],
    [(1,), (True,), (1.0,), [1]],
    [SAME, Same(), None, int],
    [Counted(1), Counted(2), np.dtype("f4"), np.dtype(">f4")],
]
WRAPPERS = [
    lambda v: v,
    lambda v: [v],
    lambda v: (v, None),
    lambda v: (v, X),
    lambda v: Pair(v, X),
    lambda v: {"b": v, "a": X},
    lambda v: {"a": X, "b": v},
    lambda v: {1: v},
]
SETTINGS = [
    [""],
    [""],
    ["", "x64"],
    ["", "mesh"],
    ["", "disable_jit"],
    ["", "guard"],
    ["", "simulate"],
]


@st.composite
def sequences(draw):
    """Calls of one form whose values come from a family for each place."""
    places = draw(st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2))
    wrappers = draw(st.lists(st.sampled_from(WRAPPERS), min_size=2, max_size=3))
    static, by_name = draw(st.sampled_from(STATIC_FAMILIES)), draw(st.booleans())
    blocks, random = draw(st.sampled_from(SETTINGS)), draw(st.randoms(use_true_random=False))
    calls = []
    for _ in range(15):
        values = [random.choice(wrappers)(random.choice(family)) for family in places]
        calls.append((values, random.choice(static), by_name, random.choice(blocks)))
    return calls


def described(static, *args, **kwargs):
    """Results that tell which program ran: that of these static values, types and mesh."""
    mesh, simulated = in_force() or (None, ())
    axes = len(getattr(mesh, "axis_names", ())) + 5 * len(simulated)
    text = f"{axes} {type(static).__name__} {static}"[:16]
    return (args, kwargs), np.frombuffer(text.ljust(16).encode(), np.uint8)


def under(setting):
    """The context of a call."""
    return {
        "": lambda: config.override(),
        "x64": lambda: config.override(enable_x64=True),
        "simulate": lambda: weft.simulate(weft.sharding.AbstractMesh((2,), ("j",))),
        "guard": lambda: weft.transfer_guard_host_to_device("disallow"),
        "mesh": lambda: weft.make_mesh((1,), ("i",)),
        "disable_jit": lambda: config.override(disable_jit=True),
    }[setting]()


@pytest.mark.parametrize("blocks", SETTINGS[2:])
@pytest.mark.parametrize("family", FAMILIES, ids=range(len(FAMILIES)))
def test_calls_that_nearly_are_another_one(family, blocks):
    values = [wrap(value) for value in family for wrap in WRAPPERS]
    order = [(value, block) for value in values for block in blocks for _ in range(2)]
    check_sequence([([value], 0, False, block) for value, block in order[:: len(blocks)] + order])


@given(sequences())
@settings(max_examples=60)
def test_every_sequence_of_calls_gives_what_fresh_functions_give(sequence):
    check_sequence(sequence)


def check_sequence(sequence):
    """Compares each call of one function with the same call of a new one."""
    function = weft.jit(described, static_argnums=0, static_argnames="static")
    for values, static, by_name, setting in sequence:
        args, kwargs = (static, *values), {}
        if by_name:
            args, kwargs = (), {"static": static, "x": values[0], "y": values[-1]}
        with under(setting):
            fresh = weft.jit(described, static_argnums=0, static_argnames="static")
            assert outcome(function, *args, **kwargs) == outcome(fresh, *args, **kwargs)
    config.guarding = False  # as in a process where nothing was guarded yet


def test_the_value_of_a_mutable_static_argument_is_read_at_each_call():
    traced = []

    def function(x, how):
        traced.append(how.number)
        return x * how.number

    jitted = weft.jit(function, static_argnums=1)
    how = Counted(2)
    for number in (2, 3, 2, 5):
        how.number = number
        assert [float(jitted(jnp.asarray(1.0), how)) for _ in range(3)] == [number] * 3
    assert traced == [2, 3, 5]


def test_keywords_and_dictionaries_in_any_order_are_one_call():
    traced = []

    @weft.jit
    def function(tree, *, x, y):
        traced.append(1)
        return tree["a"] + 10 * tree["b"] + 100 * x + 1000 * y

    one, two = jnp.asarray(1.0), jnp.asarray(2.0)
    for _ in range(3):
        assert float(function({"a": one, "b": two}, x=one, y=two)) == 2121
        assert float(function({"b": two, "a": one}, y=two, x=one)) == 2121
        assert float(function({"b": one, "a": two}, y=one, x=two)) == 1212
    assert len(traced) == 1


def test_settings_and_transformations_in_force_decide_at_each_call():
    function = weft.jit(lambda x: x + 1.0)
    x = np.ones(3)
    for _ in range(3):
        assert function(x).dtype == np.float32
        with config.override(enable_x64=True):
            assert function(x).dtype == np.float64
        assert weft.vmap(function)(jnp.ones((2, 3))).shape == (2, 3)
        assert float(weft.grad(lambda t: function(t).sum())(jnp.ones(3))[0]) == 1.0
        assert weft.make_jaxpr(function)(1.0).eqns[0].primitive.name == "jit"
        with weft.transfer_guard_host_to_device("disallow"):
            with pytest.raises(WeftError, match="guard|disallow"):
                function(x)


def test_a_deleted_array_is_named_and_the_traceback_is_the_users():
    function = weft.jit(lambda x, y: x + y)
    x, y = jnp.ones(3), jnp.ones(3)
    for _ in range(3):
        function(x, y)
    y.delete()
    with pytest.raises(DeletedArrayError, match="deleted") as caught:
        function(x, y)
    assert {entry.path.name for entry in caught.traceback} == {os.path.basename(__file__)}
    for operation in (lambda: jnp.add(x, y), lambda: weft.lax.neg(y)):
        with pytest.raises(DeletedArrayError, match="deleted"):
            operation()


def test_donated_arrays_are_gone_after_known_calls_too():
    function = weft.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(4):
        x = jnp.ones(3)
        function(x)
        assert x.is_deleted()
        with pytest.raises(DeletedArrayError, match=r"donated at .*test_known_calls"):
            function(x)
    with pytest.raises(WeftError, match="twice"):
        same = jnp.ones(3)
        weft.jit(lambda a, b: a + b, donate_argnums=0)(same, same)


def test_what_a_function_remembers_dies_with_it_and_with_clear_caches():
    class Held(np.ndarray):
        pass

    big = np.ones(1000, "float32").view(Held)
    alive = weakref.ref(big)
    array = jnp.asarray(big)
    died = weakref.ref(array)

    def make(closed):
        return weft.jit(lambda x: x + closed)

    function = make(array)
    for _ in range(3):
        function(jnp.ones(1000))
    del big, array, function
    weft.clear_caches()
    gc.collect()
    assert alive() is None
    assert died() is None
    again = weft.jit(lambda x: x * 2)
    again(1.0), again(1.0)
    again.clear_cache()
    assert again._cache_size() == 0 and float(again(1.0)) == 2.0


def test_a_named_tuple_that_becomes_a_container_of_another_kind():
    Late = collections.namedtuple("Late", "shown hidden")
    function = weft.jit(lambda t: [x + 1 for x in tree.leaves(t)])
    late = Late(jnp.asarray(1.0), jnp.asarray(2.0))
    assert [len(function(late)) for _ in range(3)] == [2, 2, 2]
    tree.register_node(Late, lambda t: ((t.shown,), None), lambda _, given: Late(*given, 0))
    assert [len(function(late)) for _ in range(3)] == [1, 1, 1]


def test_a_function_may_call_itself_from_a_callback():
    depth = []

    @weft.jit
    def function(x):
        def outside(value):
            depth.append(float(value))
            return np.asarray(function(value - 1) if value > 0 else value, np.float32)

        return weft.pure_callback(outside, weft.ShapeDtypeStruct((), np.float32), x)

    for _ in range(2):
        assert float(function(jnp.asarray(3.0))) == 0.0
    assert depth == [3.0, 2.0, 1.0, 0.0] * 2


def test_threads_call_one_function_with_different_types():
    function = weft.jit(lambda x, k: x * k, static_argnums=1)
    arrays = [jnp.full(n, float(n)) for n in range(1, 6)]

    def work(seed):
        order = np.random.default_rng(seed)
        for _ in range(300):
            n, k = order.integers(1, 6, 2)
            got = function(arrays[n - 1], int(k))
            assert got.shape == (n,) and float(got[0]) == n * k

    together(work, 4)


@pytest.mark.parametrize("base", [PythonCalls, KnownCalls], ids=["Python", "the one in use"])
def test_threads_call_a_function_while_another_makes_it_forget(base):
    tokens = token(6, 1, tuple), token(0, 0, X.signature), token(4, 0, ())

    class Function(base):
        def _unknown_call(self, args, kwargs):
            self.learn_call(args, kwargs, (tokens, 1, lambda leaves: leaves[0], (), ()))
            return args[0]

    function, wrong = Function(), []

    def call():
        try:
            for _ in range(20_000):
                assert function(X) is X
        except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
            wrong.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            function.forget_calls()
            time.sleep(0)
    finally:
        sys.setswitchinterval(before)
    assert not wrong


@pytest.mark.parametrize("at", ["_trace", "_settings", "in_force"])
def test_a_thread_makes_a_function_forget_while_it_looks_or_learns(at, monkeypatch):
    """The same with the other thread at its turn in each place where it may have it."""
    tokens = token(6, 1, tuple), token(0, 0, X.signature), token(4, 0, ())

    class Function(PythonCalls):
        def _unknown_call(self, args, kwargs):
            self.learn_call(args, kwargs, (tokens, 1, lambda leaves: leaves[0], (), ()))
            return args[0]

    function, real = Function(), getattr(known_calls, at)

    def interrupted(*args):
        thread = threading.Thread(target=function.forget_calls)
        thread.start()
        thread.join()
        return real(*args)

    for _ in range(3):
        function(X)
        with monkeypatch.context() as patched:
            patched.setattr(known_calls, at, interrupted)
            assert function(X) is X and function(X) is X


def test_a_hundred_signatures_are_all_found():
    traced = []

    def function(x, k):
        traced.append(k)
        return x + k

    jitted = weft.jit(function, static_argnums=1)
    x = jnp.asarray(0.0)
    for _ in range(2):
        assert [float(jitted(x, k)) for k in range(100)] == list(range(100))
    assert len(traced) == 100


@compiled_only
def test_known_calls_do_not_reach_python(only_known_calls):
    function = weft.jit(lambda x, *, y: x + y["a"][0])
    args, kwargs = (jnp.ones(3),), {"y": {"a": [np.ones(3, "float32"), 2.0, None]}}
    wanted = outcome(function, *args, **kwargs)
    only_known_calls(type(function))
    assert outcome(function, *args, **kwargs) == wanted


@compiled_only
def test_integers_that_are_new_at_each_call_are_known_between_other_calls(only_known_calls):
    def step(x, n, *, scale, axis):
        return jnp.sum(x, axis) * n + scale

    function = weft.jit(step, static_argnames="axis")
    arrays = [jnp.ones((2, size)) for size in (3, 4)]
    for axis in (0, 1):
        for x in arrays:
            function(x, 1, scale=1, axis=axis)
    only_known_calls(type(function))
    for n in range(40):
        x, axis = arrays[n % 2], n // 2 % 2
        want = np.ones((2, 3 + n % 2)).sum(axis) * n + 2 * n
        np.testing.assert_array_equal(function(x, n, scale=2 * n, axis=axis), want)


@compiled_only
@pytest.mark.parametrize(
    "tokens",
    [
        (),
        ((6, 1, tuple, None, None, 0, 0),),
        (token(6, 1, tuple),),
        (token(6, 0, tuple),),
        (token(6, 0, tuple), token(6, 0, tuple)),
        (token(6, 1, tuple), token(0, 5), token(4, 0, ())),
        (token(6, 0, tuple), token(4, 1, ())),
        (token(6, 0, int), token(4, 0, ())),
        (token(9, 0, tuple), token(4, 0, ())),
        (token(6, 1, tuple), token(1, 0, int), token(4, 0, ())),
    ],
)
def test_what_is_no_pattern_is_refused(tokens):
    function = weft.jit(lambda x: x)
    with pytest.raises((ValueError, TypeError)):
        function.learn_call((), {}, (tokens, 1, print, (), ()))
    with pytest.raises((ValueError, TypeError)):
        function.learn_call((), {}, ((token(6, 0, tuple),), 1, print, (), (4,)))


@compiled_only
def test_nothing_is_leaked_by_a_call():
    x, number, host = jnp.ones(3), 1234567, np.ones(3, "float32")
    given = {"a": [x, (number, None)], "b": host}
    function = weft.jit(lambda t: tree.map(lambda v: v + 1, t))
    calls = (lambda: function(given), lambda: x + host, lambda: jnp.sin(x), lambda: x + 1.5)
    for call in calls:
        for _ in range(20):
            call()
    for call in calls:
        watched = (x, number, host, given, given["a"], x.type, x._buffer, Array, config.settings())
        gc.collect()
        before = [sys.getrefcount(value) for value in watched]
        for _ in range(500):
            call()
        gc.collect()
        after = [sys.getrefcount(value) for value in watched]
        assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 20


def test_all_of_it_runs_in_python_where_the_environment_says_so():
    program = (
        "import numpy as np, weft, weft.numpy as jnp\n"
        "from weft.dispatch.known_calls import KnownCalls, PythonCalls\n"
        "from weft.native import optional\n"
        "assert KnownCalls is PythonCalls and optional.calls is None\n"
        "f = weft.jit(lambda x, k=1: x * k, static_argnames='k')\n"
        "x = jnp.ones(3)\n"
        "print([float(f(v, **kw)[0]) for v in (x, np.ones(3)) for kw in ({}, {'k': 2}) * 2])\n"
        "print(float(jnp.sin(x)[0]), f(1.5), f(1.5), f.lower(x).compile()(x))\n"
    )
    out = python_output("-c", program, env={**os.environ, "WEFT_COMPILED_CALLS": "0"})
    wanted = "[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]\n0.8414709568023682 1.5 1.5 [1. 1. 1.]\n"
    assert out == wanted


def test_the_path_in_python_knows_calls_of_arrays_by_position():
    class Function(PythonCalls):
        unknown = 0

        def _unknown_call(self, args, kwargs):
            self.unknown += 1
            return inner._unknown_call(args, kwargs)

    inner = weft.jit(lambda x, y: x + y)
    function = Function()
    x = jnp.ones(3)
    signature = x.signature
    tokens = token(6, 2, tuple), token(0, 0, signature), token(0, 1, signature), token(4, 0, ())
    inner(x, x)
    (call,) = inner._calls.values()
    function.learn_call((x, x), {}, (tokens, 2, call.run, (), ()))
    assert float(function(x, x)[0]) == 2.0 and function.unknown == 0
    assert float(function(x, 1.0)[0]) == 2.0 and function.unknown == 1
    function.forget_calls()
    assert float(function(x, x)[0]) == 2.0 and function.unknown == 2
