"""Keys of functions: two functions with equal keys compute the same when they are traced.

A function that is made anew in every round of a loop is another object with the same code and the
same values around it. Its key says so. One walk (`walk.py`) goes over everything that the function
can reach, and one rule for each kind of value (`value_rules.py`) says what stands for it: its
content where that can be seen and compared, its identity where it cannot change or counts as what
it is; where neither is safe, there is no key. `named_parts` has the same parts by name, to say what
changed; both come from the same rules, so what the one sees the other does too.

Why equal keys are safe: what a function computes depends on its code and on the values that the
code reaches. The code is compared as a whole, with the class and the sign of each constant, and the
names that it reads from outside itself are read off it (`code_reads.py`). Each rule gives back a
tuple with a tag of its kind, in which all that its values can differ in stands, parts inside
included, in a fixed order; so tuples are equal only where each of these is. An identity is that of
a weak reference (or of the object, where there is none) which the key holds, so that no later
object gets it, and a key of which an object died is equal to none. A value that changes in place is
looked at again each time. A class without a rule of its own is taken by identity and attributes,
and only where Python sees all of its state; else there is no key, as where the code reads the clock
or a file. What is left out is only counted up, so nothing is computed from it.
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
    """The key of a function (with further values that decide what it computes), or None.

    Two functions with equal keys compute the same when traced. What takes part:

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
    that is not read by attribute, `eval`, `exec`, `globals` and `open`; and where more than 2,000
    values take part or they are nested more than 24 deep.

    There is no key where the code uses what answers from outside: the clock, random generators of
    Python and NumPy, the environment, files. A variable that is only counted up or appended to
    takes no part. What is not seen: the state of installed packages (also the one that they keep
    for a thread, as `decimal` does), methods of enums, and what other libraries read from outside.

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
    # RuntimeError: nested too deep, or changed by another thread while it was looked at.
    except (NoKey, RuntimeError):
        return None
    return Key(
        parts,
        tuple(walk.guards),
        tuple(walk.witnesses),
        tuple(walk.counters),
        tuple(walk.digests),
    )


def identity_key(function: Any, *further: Any) -> Key | None:
    """The key of this very function object, whatever it reads, and of further values."""
    walk = Walk(rule_of)
    try:
        parts = ("same", walk.identity(function), *[walk.part(x) for x in further])
    except (NoKey, RuntimeError):
        return None
    return Key(parts, tuple(walk.guards), ())


def named_parts(function: Any) -> dict[str, NamedPart]:
    """What a function depends on, by the names that its code has for it.

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
    """Makes objects of a class count by identity alone: they cannot be changed.

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
    """Makes objects of a class count by the values that `parts` answers with, and not by identity.

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
