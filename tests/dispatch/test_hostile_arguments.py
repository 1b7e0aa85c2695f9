"""Arguments that run code while they are looked at: the compiled module holds what it looks at, and
gives what the path in Python gives.

Without a checker of memory these tests find what ends the process; `make test-sanitized` runs them
under AddressSanitizer.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft import config
from weft.arrays.array import Array
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir
from weft.native import optional

compiled_only = pytest.mark.skipif(optional.calls is None, reason="they are not built")
# Settings with which the compiled module leaves nothing to Python.
FULL = {"WEFT_COMPILE_EFFORT": "full"}
TREES = pathlib.Path(__file__).parents[1] / "support" / "argument_trees.py"
X = jnp.ones(3)


@pytest.fixture(autouse=True)
def _nothing_left_to_python(monkeypatch):
    """As in a process whose settings never changed: the compiled module asks for that."""
    monkeypatch.setattr(config, "settings_in_keys", False)
    monkeypatch.setattr(config, "guarding", False)


class Key(str):
    """A key that calls a function when it is compared."""

    __slots__ = ("action",)
    __hash__ = str.__hash__

    def __eq__(self, other):
        self.action()
        return str.__eq__(self, other)


class Parameter:
    """A parameter that calls a function when it is compared."""

    action = staticmethod(lambda: None)

    def __eq__(self, other):
        self.action()
        return isinstance(other, Parameter)

    def __hash__(self):
        return 1


def key(text, action):
    found = Key(text)
    found.action = action
    return found


def doubling():
    """A primitive with a parameter that nothing depends on, and the one that its cache has."""
    primitive = Primitive("doubling")
    primitive.def_abstract_eval(lambda x, *, how: x.strong())
    mlir.register_lowering(primitive, lambda context, x, *, how: mlir.hlo.add(x, x))
    # As a primitive of weft's own has it: the compiled module reads no other.
    primitive.eager_cache = {}
    kept = Parameter()
    primitive.bind(X, how=kept)
    return primitive, kept


def digests(compiled, seed, count):
    environment = {**os.environ, **FULL, "WEFT_COMPILED_CALLS": compiled}
    return python_output(TREES, seed, count, timeout=None, env=environment).splitlines()


# What `make test-sanitized` asks for; the tests of every day draw fewer.
COUNT = int(os.environ.get("WEFT_TREE_CALLS", "1000"))


@compiled_only
@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees_give_the_same_with_and_without_the_compiled_module(seed):
    with_it, without = (digests(compiled, seed, COUNT // 2) for compiled in ("1", "0"))
    assert len(with_it) == COUNT // 2 and len(set(with_it)) > 20 and with_it == without


@pytest.mark.parametrize("clears", [False, True])
def test_a_parameter_may_replace_the_cache_that_it_is_looked_for_in(clears):
    primitive, _ = doubling()

    def replace():
        primitive.eager_cache = {}
        if clears:
            weft.clear_caches()

    for _ in range(5):
        kept = Parameter()
        primitive.bind(X, how=kept)
        kept.action = replace
        assert primitive.bind(X, how=Parameter())[0] == 2.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, RecursionError])
def test_what_a_parameter_raises_reaches_the_caller(error):
    def action():
        raise error("here")

    primitive, kept = doubling()
    kept.action = action
    with pytest.raises(error, match="here"):
        primitive.bind(X, how=Parameter())


@compiled_only
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_of_a_comparison_is_left_to_the_path_in_python(error):
    def action():
        raise error("here")

    function = weft.jit(lambda tree: tree)
    for _ in range(3):
        function({"a": X})
    if issubclass(error, Exception):  # the structures are compared without this key's __eq__
        assert function({key("a", action): X})["a"][0] == 1.0
    else:
        with pytest.raises(error, match="here"):
            function({key("a", action): X})


def test_a_key_may_make_the_function_forget_its_calls():
    function = weft.jit(lambda tree, k: tree["a"] * k, static_argnums=1)
    for _ in range(3):
        for k in range(1, 20):
            assert function({"a": X}, k)[0] == k
        for k in range(1, 20):
            hostile = {key("a", function.clear_cache): X}
            assert function(hostile, k)[0] == k


def test_a_key_may_replace_what_a_list_and_a_dictionary_hold():
    function = weft.jit(lambda t: t["list"][0] + t["dict"]["b"] + t["z"])
    for _ in range(10):
        inner, outer = [12345.5], {"b": 54321.5}
        tree = {"list": inner, "dict": outer}
        for _ in range(3):
            function({**tree, "z": 1.0})

        def replace(inner=inner, outer=outer):
            inner[:] = [float("12345.5")]
            outer["b"] = float("54321.5")

        # The order of insertion: the list and the dictionary are looked at before the key.
        assert function({**tree, key("z", replace): 1.0}) == 66668.0


def test_a_parameter_may_take_the_buffer_of_the_array_beside_it():
    primitive, kept = doubling()
    x = jnp.ones(3)
    kept.action = lambda: delattr(x, "_buffer")
    with pytest.raises((AttributeError, weft.errors.WeftError)):
        primitive.bind(x, how=Parameter())


def test_an_array_that_is_not_made_yet_is_an_error():
    function = weft.jit(lambda x: x + 1)
    for _ in range(3):
        function(X)
    with pytest.raises((AttributeError, TypeError, weft.errors.WeftError)):
        function(object.__new__(Array))
    with pytest.raises((AttributeError, TypeError, weft.errors.WeftError)):
        jnp.sin(object.__new__(Array))


def leaf(number, kind=0, first=None, second=None, convert=None):
    return kind, number, first, second, convert, 0, 0


def pattern(*leaves):
    return (6, len(leaves), tuple, None, None, 0, 0), *leaves, (4, 0, (), None, None, 0, 0)


def deep(levels):
    lists = [(5, 1, list, None, None, 0, 0)] * levels
    return (6, 1, tuple, None, None, 0, 0), *lists, leaf(0), (4, 0, (), None, None, 0, 0)


class Index:
    """A number that forgets the calls of a function when it is read."""

    def __init__(self, function, value):
        self.function, self.value = function, value

    def __index__(self):
        self.function.forget_calls()
        return self.value


@compiled_only
@pytest.mark.parametrize(
    "tokens, leaves",
    [
        (pattern(leaf(0)), -1),
        (pattern(leaf(0)), 0),
        (pattern(leaf(0)), 2),
        (pattern(leaf(0)), 2**62),
        (pattern(leaf(1)), 2),
        (pattern(leaf(0), leaf(0)), 1),
        (pattern(leaf(0), leaf(0)), 2),
        (pattern(leaf(-1)), 1),
        (pattern(leaf(2**62)), 1),
        (pattern(leaf(0, 1, int, None)), 1),
        (pattern(leaf(0, 1, str, {})), 1),
        (pattern(leaf(0, 2, None, None, (print,))), 1),
        (pattern(leaf(0, 2, None, None, (print, (), [])), ), 1),
        (pattern(leaf(0, 2, None, None, (print, (1,) * 9, (1,) * 9))), 1),
        (deep(65), 1),
        (deep(100_000), 1),
        (((6, 0, tuple, None, None, 0, 0), (4, 1, (1,), None, None, 0, 0), leaf(0)), 1),
        ((3, pattern(leaf(0))), 1),
        (([],), 0),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused(tokens, leaves):
    function = weft.jit(lambda x: x + 1)
    with pytest.raises((ValueError, TypeError)):
        function.learn_call((X,), {}, (tokens, leaves, print, (), ()))
    assert function(X)[0] == 2.0


@compiled_only
def test_a_pattern_may_be_made_while_calls_are_forgotten():
    function = weft.jit(lambda x: x + 1)
    function(X)
    for _ in range(30):
        tokens = pattern(leaf(Index(function, 0), 0, X.signature))
        function.learn_call((X,), {}, (tokens, Index(function, 1), lambda xs: xs[0], (), ()))
        assert function(X) is X
    function.clear_cache()
    assert function(X)[0] == 2.0


@compiled_only
def test_calls_of_one_hash_are_found():
    """The hash of a call does not look into lists: these two have the same."""
    function = weft.jit(lambda t: t[0] * 2)
    first, second = [X], [np.ones(4, np.float32)]
    for _ in range(4):
        function(first), function(second)
    unknown = type(function)._unknown_call
    try:
        type(function)._unknown_call = None
        assert [function(t).shape for t in (first, second, first, second)] == [(3,), (4,)] * 2
    finally:
        type(function)._unknown_call = unknown


@compiled_only
@pytest.mark.parametrize("value", [2**60, 2**61 - 2, -(2**60), "text", -1])
def test_static_arguments_of_large_hashes(value):
    function = weft.jit(lambda x, k: (x, len(str(k))), static_argnums=1)
    for _ in range(3):
        assert function(X, value)[1] == len(str(value))
        assert function(X, k=value)[1] == len(str(value))


@compiled_only
def test_another_interpreter_does_not_get_the_module():
    """Its classes would be those of one interpreter with the objects of another."""
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    if importlib.util.find_spec(interpreters) is None:
        pytest.skip("this Python has no module of interpreters")
    program = (
        f"import {interpreters} as interpreters\n"
        "from weft.native import _calls\n"
        f"text = '''FILE = {optional.calls.__file__!r}\n"
        "import importlib.machinery, importlib.util\n"
        "loader = importlib.machinery.ExtensionFileLoader('weft.native._calls', FILE)\n"
        "spec = importlib.util.spec_from_loader(loader.name, loader)\n"
        "try:\n"
        "    importlib.util.module_from_spec(spec)\n"
        "except ImportError as error:\n"
        "    print('refused', flush=True)\n"
        "'''\n"
        "failed = interpreters.run_string(interpreters.create(), text)\n"
        "assert failed is None, failed\n"
        "import weft, weft.numpy as jnp\n"
        "function = weft.jit(lambda x: x + 1)\n"
        "print([float(function(jnp.ones(()))) for _ in range(3)])\n"
    )
    assert python_output("-c", program) == "refused\n[2.0, 2.0, 2.0]\n"
