"""Keys of functions: two functions with equal keys compute the same when they are traced.

A lambda in a loop is a new object in every round, with the same code and equal closed-over values;
its key is the same. One walk (`walk.py`) visits everything that the function can reach, and one
rule for each kind of value (`value_rules.py`) returns its part of the key: its content where that
can be seen and compared, its identity where it cannot change or is what matters; where neither is
safe, there is no key. `named_parts` has the same parts by name, to explain changes; both come from
the same rules, so they cover the same values.

Why equal keys are safe: the results of a function depend on its code and on the values that the
code reaches. The code is compared as a whole, with the class and the sign of each constant, and the
outside names that it reads are found in its bytecode (`code_reads.py`). Each rule returns a tuple
with a tag of its kind and everything in which its values can differ, parts inside included, in a
fixed order; so tuples are equal only where each of these is. An identity is that of a weak
reference (or of the object, where there is none) which the key holds, so that no later object gets
it, and a key with a dead object is equal to none. A value that changes in place is read again each
time. A class without a rule of its own is taken by identity and attributes, and only where Python
sees all of its state; else there is no key, as where the code reads the clock or a file. Only
variables that are merely counted up are left out: nothing is computed from them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable
from typing import Any

from weft.function_keys import value_rules
from weft.function_keys.code_reads import NoKey
from weft.function_keys.value_rules import rule_of
from weft.function_keys.walk import Key, NamedPart, NamedWalk, Walk, register, short_text

__all__ = [
    "Key",
    "NamedPart",
    "function_key",
    "identity_key",
    "named_parts",
    "register_by_identity",
    "register_parts",
    "register_uncacheable",
    "short_text",
]

_FUNCTIONS = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    type,
    functools.partial,
)


def function_key(function: Any, *further: Any) -> Key | None:
    """The key of a function (with further values on which its results depend), or None.

    Two functions with equal keys compute the same when traced. The key covers:

    - the code, the closure, the defaults and the attributes of the function;
    - the globals that its code reads, attributes of modules that it names (`config.scale`), and
      the functions and classes among all these in the same way; of functions that belong to the
      standard library, to weft or to an installed package the closure but not the globals;
    - the parts of `functools.partial` objects, bound methods and callable objects;
    - numbers by class and bits, strings, NumPy scalars and arrays of up to 64 KiB, tuples, lists,
      dicts and sets by content, as it is now; NumPy arrays of up to 4 MiB by identity and content;
    - objects of Python classes by their class and attributes, and by identity unless the class
      defines `__eq__`, as dataclasses do; weft's arrays and classes of libraries by identity.

    None where something cannot be seen: larger NumPy arrays, tracers, iterators, generators of
    random numbers and other objects written in C that can change unseen, a module of the user's
    that is not read by attribute, `eval`, `exec`, `globals` and `open`; and where there are more
    than 2,000 values or they are nested more than 24 deep.

    None where the code reads the outside world: the clock, random generators of Python and NumPy,
    the environment, files. A variable that is only counted up or appended to is left out. Not
    covered are the state of installed packages (also the one that they keep for a thread, as
    `decimal` does), methods of enums, and outside reads of other libraries.

    >>> def scaled(k):
    ...     return lambda x: x * k
    >>> function_key(scaled(2)) == function_key(scaled(2))
    True
    >>> function_key(scaled(2)) == function_key(scaled(2.0))
    False
    >>> function_key(scaled(iter([2]))) is None
    True
    """
    walk = Walk(rule_of)
    try:
        parts = walk.part(function)
        if further:
            parts = (parts, *[walk.part(value) for value in further])
    # RuntimeError: nested too deep, or changed by another thread during the walk.
    except (NoKey, RuntimeError):
        return None
    return Key(
        parts, tuple(walk.guards), tuple(walk.witnesses), tuple(walk.counters), tuple(walk.digests)
    )


def identity_key(function: Any, *further: Any) -> Key | None:
    """The key of this very function object, independent of its content, and of further values."""
    walk = Walk(rule_of)
    try:
        parts = ("same", walk.identity(function), *[walk.part(x) for x in further])
    except (NoKey, RuntimeError):
        return None
    return Key(parts, tuple(walk.guards), ())


def named_parts(function: Any) -> dict[str, NamedPart]:
    """The values that a function depends on, by the names that its code has for them.

    >>> def scaled(k):
    ...     return lambda x: x * k
    >>> named_parts(scaled(2))["k"][:4]
    ('k, which <lambda> closes over,', 2, '2', '')
    >>> named_parts(scaled(iter([2])))["k"].reason
    'an object of class list_iterator, which can change unseen'
    """
    walk = NamedWalk(rule_of)
    if isinstance(function, _FUNCTIONS) or getattr(function, "__wrapped__", None) is not None:
        walk.part(function, "function", "the {0}")
    else:
        walk.part(function, "self", "{0}, which the object that is called has,")
    return walk.found


def register_by_identity(cls: type) -> None:
    """Makes keys take objects of a class by identity alone: they cannot be changed.

    >>> class Handle:
    ...     pass
    >>> register_by_identity(Handle)
    """
    register(cls, value_rules.identity)


def register_uncacheable(cls: type, reason: str = "") -> None:
    """Makes functions that refer to objects of a class have no key; `reason` says why.

    >>> class Live:
    ...     pass
    >>> register_uncacheable(Live)
    >>> function_key(Live()) is None
    True
    """

    def refused(walk: Walk, value: Any) -> Hashable:
        raise NoKey(reason)

    register(cls, refused if reason else value_rules.refuse)


def register_parts(cls: type, parts: Callable[[Any], tuple[Any, ...]]) -> None:
    """Makes keys take objects of a class by the values that `parts` returns, not by identity.

    >>> class Scaled:
    ...     def __init__(self, function, factor):
    ...         self.function, self.factor, self.calls = function, factor, 0
    >>> register_parts(Scaled, lambda value: (value.function, value.factor))
    >>> function_key(Scaled(len, 2)) == function_key(Scaled(len, 2))
    True
    """

    def registered(walk: Walk, value: Any) -> Hashable:
        again = walk.again(value)
        if again is not None:
            return again
        return ("parts", walk.identity(type(value)), walk.parts(parts(value)))

    register(cls, registered)
