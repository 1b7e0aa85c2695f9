"""Keys of functions: two functions with equal keys compute the same when they are traced.

A lambda in a loop is a new object in every round, with the same code and equal closed-over values;
its key is the same. One walk (`walk.py`) visits everything that the function can reach, and one
rule for each kind of value (`value_rules.py`) returns its part of the key: its content where that
can be seen and compared, its identity where it cannot change or is what matters; where neither is
safe, there is no key. `named_parts` has the same parts by name, to explain changes; both come from
the same rules, so they cover the same values.

Why equal keys are safe: the results of a function depend on its code and on the values that the
code reaches. The code is compared as a whole, with the class and the sign of each constant, and the
outside names that it reads are found in its bytecode (`code_reads.py`); special names that lead
from an object to anything else (`__globals__`, frames) leave no key. Functions and classes in
Python are read in the same way, whoever wrote them, but for those of the standard library; these
and all that is written in C must stand in the list of what is known to be pure (`known_pure.py`).
So what is not known leaves no key, and nobody has to know what is dangerous. Each rule returns a
tuple with a tag of its kind and everything in which its values can differ, parts inside included,
in a fixed order; so tuples are equal only where each of these is. An identity is that of a weak
reference (or of the object, where there is none) which the key holds, so that no later object gets
it, and a key with a dead object is equal to none. A value that changes in place is read again each
time. An object without a rule of its own is taken by identity, attributes and class, and only where
Python sees all of its state. NumPy's settings for errors and printing, which its functions and the
text of its arrays depend on, are parts of the key. Only variables that are merely counted up are
left out: nothing is computed from them.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from weft.function_keys import value_rules
from weft.function_keys.code_reads import NoKey
from weft.function_keys.value_rules import rule_of
from weft.function_keys.walk import Key, NamedPart, NamedWalk, Walk, register, short_text

__all__ = [
    "Key", "NamedPart", "function_key", "identity_key", "named_parts", "own_key",
    "register_by_identity", "register_parts", "register_uncacheable", "short_text",
]  # fmt: skip

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
      the functions and classes among all these in the same way; of weft's and of listed functions
      the closure alone;
    - the parts of `functools.partial` objects, bound methods and callable objects;
    - numbers by class and bits, strings, NumPy scalars and arrays of up to 64 KiB, tuples, lists,
      dicts and sets by content and order, as they are now; NumPy arrays of up to 4 MiB by identity
      and content;
    - objects of Python classes by their class and attributes, and by identity unless the class
      defines `__eq__`, as dataclasses do; weft's arrays by identity.

    None if something cannot be seen: larger NumPy arrays, tracers, iterators, generators of
    random numbers and other objects written in C that can change unseen, a module of the user's
    that is not read by attribute; where the code reaches a function or class that is not known to
    be pure (the clock, files, `eval`, `decimal`, most of the standard library); and where there are
    more than 2,000 values or they are nested more than 24 deep. A variable that is only counted up
    or appended to is left out.

    Args:
        function: Any callable.
        further: Further values, which become part of the key.

    >>> def scaled(k):
    ...     return lambda x: x * k
    >>> function_key(scaled(2)) == function_key(scaled(2))
    True
    >>> function_key(scaled(2)) == function_key(scaled(2.0))
    False
    >>> function_key(scaled(iter([2]))) is None
    True
    """
    return _key(Walk(rule_of), function, further)


def own_key(function: Any, *further: Any) -> Key | None:
    """The key of this very function object, where it has no other: with its content as far as it
    can be seen, so that a change of what it closes over is seen, but without what code that is not
    listed may read. A bound method is told by its object and its function.
    """
    walk = Walk(rule_of, for_one=True)
    objects: tuple[Any, ...] = (function,)
    if isinstance(function, types.MethodType):
        objects = (function.__self__, function.__func__)
    return _key(walk, function, further, *[("own", walk.identity(x)) for x in objects])


def _key(walk: Walk, function: Any, further: tuple[Any, ...], *own: Hashable) -> Key | None:
    try:
        parts: Any = walk.part(function)
        if further or own:
            parts = (parts, *[walk.part(value) for value in further], *own)
    # RuntimeError: nested too deep, or changed by another thread during the walk.
    except (NoKey, RuntimeError):
        return None
    if walk.uses_numpy:
        parts = (parts, tuple(np.geterr().values()))
    if walk.shows:
        parts = (parts, str(np.get_printoptions()))
    return Key(
        parts, tuple(walk.guards), tuple(walk.witnesses), tuple(walk.counters), tuple(walk.digests)
    )


def identity_key(function: Any, *further: Any) -> Key | None:
    """The key of this very function object, independent of its content, and of further values.

    Args:
        function: Any callable.
        further: Further values, which become part of the key.
    """
    walk = Walk(rule_of)
    try:
        parts = ("same", walk.identity(function), *[walk.part(x) for x in further])
    except (NoKey, RuntimeError):
        return None
    return Key(parts, tuple(walk.guards), ())


def named_parts(function: Any) -> dict[str, NamedPart]:
    """The values that a function depends on, by the names that its code has for them.

    Args:
        function: Any callable.

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

    Args:
        reason: Why such a function has no key, in words.

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
