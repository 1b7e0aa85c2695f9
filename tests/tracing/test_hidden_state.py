"""No traced function is stale: random functions over hidden and visible state.

Each function is made anew and computes `x * state`; between two traces the state changes. The
reference is the expression itself, run by Python.
"""

from __future__ import annotations

import contextlib
import decimal
import gc
import logging
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from hidden_states import FORMS, STATES, maker, namespace
from weft import lax

pytestmark = [
    pytest.mark.fast,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

NAMES = list(STATES)


@contextlib.contextmanager
def put_back():
    """Puts back what the states change for the whole process."""
    limits = sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()
    lists = [(x, list(x)) for x in (sys.argv, sys.path, warnings.filters, gc.callbacks)]
    threshold, errors, shown = gc.get_threshold(), np.geterr(), np.get_printoptions()
    folder, precision, thread = os.getcwd(), decimal.getcontext().prec, threading.current_thread()
    name, level = thread.name, logging.getLogger("hidden").level
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("HOME", os.environ.get("HOME", ""))
        monkeypatch.setenv("WEFT_K", "0")
        monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
        monkeypatch.setitem(sys.modules, "weft_hidden", None)
        try:
            yield
        finally:
            os.chdir(folder)
    for module in [name for name in sys.modules if name.startswith("hidden_state_")]:
        del sys.modules[module]
    sys.setrecursionlimit(limits[0])
    sys.setswitchinterval(limits[1])
    sys.set_int_max_str_digits(limits[2])
    for values, before in lists:
        values[:] = before
    gc.set_threshold(*threshold)
    np.seterr(**errors)
    np.set_printoptions(**shown)
    decimal.getcontext().prec = precision
    thread.name = name
    logging.getLogger("hidden").setLevel(level)
    socket.setdefaulttimeout(None)


@pytest.fixture(autouse=True)
def as_before():
    with put_back():
        yield
    gc.collect()  # closes files, here rather than in a later test


def write(state, names, k):
    names["k"] = k
    exec(state.write, names)


def wanted(state, names, k):
    """What the expression gives now; the state is written again, since reading may change it."""
    value = np.float32(eval(state.read, names))
    write(state, names, k)
    return value


class Remade:
    """Functions over states, made anew again and again."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def is_stale(self, name, form, k):
        """Sets a state to `k`, and whether a function made anew then gives an older value."""
        state = STATES[name]
        if (name, form) not in self.made:
            folder = self.folder / str(NAMES.index(name))
            folder.mkdir(exist_ok=True)
            names = namespace(state, folder)
            self.made[name, form] = names, maker(state, form, names)
        names, make = self.made[name, form]
        write(state, names, k)
        want = wanted(state, names, k)
        return np.float32(weft.jit(make())(np.float32(1))) != want


def test_functions_made_anew_are_never_stale(tmp_path, monkeypatch):
    draw, remade = random.Random(0), Remade(tmp_path)
    compiled = counted_compilations(monkeypatch)
    stale = {}
    for i in range(3_000):
        name, form, k = draw.choice(NAMES), draw.choice(list(FORMS)), draw.randrange(3)
        if remade.is_stale(name, form, k):
            stale.setdefault((name, form), i)
    assert not stale
    # Most programs are found again, so that there is something to get wrong.
    assert len(compiled) < 300


functions = st.tuples(st.sampled_from(NAMES), st.sampled_from(sorted(FORMS)))
changes = st.tuples(st.integers(0, 3), st.integers(0, 2))


@hypothesis.settings(max_examples=20)
@hypothesis.given(
    st.lists(functions, min_size=1, max_size=4), st.lists(changes, min_size=2, max_size=12)
)
def test_functions_over_states_that_change_in_turn_are_never_stale(drawn, steps):
    """Functions of a few forms over a few states; each step changes one state and calls one."""
    with tempfile.TemporaryDirectory() as folder, put_back():
        remade = Remade(pathlib.Path(folder))
        for which, k in steps:
            name, form = drawn[which % len(drawn)]
            assert not remade.is_stale(name, form, k), (name, form, k)


TRANSFORMED = {
    "jit": lambda f: weft.jit(f)(jnp.float32(1)),
    "scan": lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, jnp.ones(1, "float32"))[1][0],
    "cond": lambda f: lax.cond(True, f, lambda x: x, jnp.float32(1)),
    "checkpoint": lambda f: weft.checkpoint(f)(jnp.float32(1)),
    # The greatest of the state, which is never negative, and of nothing.
    "reduce": lambda f: lax.reduce(
        jnp.full(2, -jnp.inf),
        np.float32(-np.inf),
        lambda a, b: jnp.maximum(jnp.maximum(a, b), f(np.float32(1))),
        (0,),
    ),
}


@pytest.mark.parametrize("transformation", TRANSFORMED)
def test_nothing_is_stale_under_transformations(transformation, tmp_path):
    apply = TRANSFORMED[transformation]
    number = list(TRANSFORMED).index(transformation)
    stale = []
    for i, (name, state) in enumerate(STATES.items()):
        if i % len(TRANSFORMED) != number or (transformation == "reduce" and "weft" in state.setup):
            continue  # (the function of a reduction may not close over arrays)
        names = namespace(state, tmp_path)
        make = maker(state, "directly", names)
        for k in (1, 2, 1):
            write(state, names, k)
            want = wanted(state, names, k)
            if np.float32(apply(make())) != want:
                stale.append((name, k))
    assert not stale


def test_methods_of_arguments_are_never_stale():
    names = {"__name__": "hidden", "k": 0}

    @weft.tree_util.register_pytree_node_class
    class Node:
        def __init__(self, x, static):
            self.x, self.static = x, static

        def tree_flatten(self):
            return (self.x,), self.static

        @classmethod
        def tree_unflatten(cls, static, children):
            return cls(*children, static)

        def __mul__(self, other):
            return self.x * self.static() * other

    node = Node(jnp.float32(1), eval("lambda: k", names))
    for k in (1, 2, 1):
        names["k"] = k
        assert float(weft.jit(lambda n: n * 1.0)(node)) == k
        assert float(lax.scan(lambda c, _: (c, c * 1.0), node, None, length=1)[1][0]) == k
