"""Keys of functions and the life of objects: what is told apart by identity, held, registered."""

from __future__ import annotations

import gc
import types
import weakref

import pytest

import weft
import weft.numpy as jnp
from weft.function_keys import (
    function_key,
    known_pure,
    register_by_identity,
    register_parts,
    register_uncacheable,
)

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


def around(value):
    """A function that refers to a value, made anew."""
    return lambda x: (x, value)


def same(first, second):
    a, b = function_key(first), function_key(second)
    assert a is not None and b is not None
    return a == b


class Plain:
    """An object that can be changed."""


def test_keys_keep_no_arrays_alive():
    array = jnp.ones(3)
    held = types.SimpleNamespace(a=array)
    keys = [
        function_key(f)
        for f in (around(array), around([array]), around({"a": (array,)}), around(held))
    ]
    alive = weakref.ref(array)
    again = function_key(around(array))
    assert keys[0] == again
    del array, held
    gc.collect()
    assert alive() is None
    assert not keys[0].alive()
    assert keys[0] != again and keys[0] != keys[0]


def test_identities_are_not_confused_after_reuse():
    met = set()
    first = function_key(around(Plain()))
    for _ in range(200):
        value = Plain()
        met.add(id(value))
        assert function_key(around(value)) != first
    assert len(met) < 200  # so identities were in fact used again


def test_a_class_that_defines_equality_of_classes():
    class Meta(type):
        def __eq__(cls, other):
            return True

        __hash__ = None

    class A(metaclass=Meta):
        pass

    class B(metaclass=Meta):
        pass

    assert not same(around(A), around(B))
    assert not same(around(A()), around(B()))


def test_values_are_asked_for_nothing():
    class Strict:
        def __init__(self):
            self.n = 1

        def __eq__(self, other):
            raise AssertionError("compared")

        def __hash__(self):
            raise AssertionError("hashed")

        def __getattr__(self, name):
            raise AssertionError(name)

        def __bool__(self):
            raise AssertionError("truth")

        def __len__(self):
            raise AssertionError("length")

    assert same(around(Strict), around(Strict))
    value = Strict()
    assert same(around(value), around(value))


def test_registered_classes():
    class Handle:
        def __init__(self, n):
            self.n, self.calls = n, 0

    class Derived(Handle):
        pass

    value = Handle(1)
    before = function_key(around(value))
    register_by_identity(Handle)
    first = function_key(around(value))
    value.n = 2
    assert function_key(around(value)) == first != before
    register_parts(Handle, lambda x: (x.n,))
    assert same(around(Handle(1)), around(Handle(1)))
    assert not same(around(Handle(1)), around(Handle(1.0)))
    assert not same(around(Handle(1)), around(Derived(1)))
    register_uncacheable(Handle)
    assert function_key(around(Derived(1))) is None


def test_further_values():
    f = around(1)
    assert function_key(f, [1], jnp.sin) == function_key(around(1), [1], jnp.sin)
    assert function_key(f, [1]) != function_key(f, [1.0])
    assert function_key(f, 1) != function_key(f)
    assert function_key(f, iter([])) is None


LIBRARIES = (jnp, weft.nn, weft.lax, weft.random, weft.image, weft.scipy.special)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_what_a_function_of_weft_remembers_takes_no_part(library):
    """Their closures may hold what they have learned of their operands, which changes no result."""
    for name in library.__all__:
        function = getattr(library, name)
        if isinstance(function, types.FunctionType) and function.__module__ != "numpy":
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            learns = any(isinstance(cell, dict) for cell in cells)
            assert not learns or known_pure.is_global_of_weft(function), name


def test_calling_an_activation_changes_no_key_of_its_callers():
    caller = around(weft.nn.relu)
    before = function_key(caller)
    for dtype in (jnp.float16, jnp.int8, jnp.bfloat16):
        weft.nn.relu(jnp.ones((2, 5, 1), dtype))
    assert before is not None and function_key(caller) == before
