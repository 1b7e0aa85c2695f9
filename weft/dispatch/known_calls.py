"""Calls of jitted functions that were made before: the base class of `Jitted` that runs them.

There are two of it: `PythonCalls`, and a compiled one (`weft.native`) that does the same for more
kinds of arguments. Both hand a call that they do not know to the method `_unknown_call`, which
teaches it to them.

The compiled one holds a call against patterns. A pattern is a row of tokens that describes the
arguments of an earlier call, with containers, keywords, numbers and static arguments, and it is
made here. It describes only what is safe to recognise: containers of exact classes, arrays by their
signatures, numbers by their class, and static arguments of immutable classes whose equal values
give equal programs. A call with anything else stays with Python.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, host_values, put
from weft.base.exact_keys import ConstantClass, exact_key
from weft.core.trace import current_variable
from weft.core.types import ArrayType
from weft.dispatch.executable_calls import CompiledCall
from weft.errors import trim
from weft.native.optional import calls
from weft.runtime import client, pytree
from weft.sharding.current import in_force

# The kinds of tokens, in the order of `enum Kind` in weft/native/entry.c.
ARRAY, NUMBER, NUMPY, NONE, DICT, LIST, TUPLE, STATIC = range(8)

Token = tuple[int, int, Any, Any, Any, int, int]

# How many patterns one executable may have: arguments of equal types may come in several forms,
# such as dictionaries in another order.
MOST_FORMS = 8
# How many containers may be nested in an argument of a pattern; as in weft/native/entry.c.
MOST_LEVELS = 64
# The hashes of objects that are equal to themselves alone.
_OF_IDENTITY = (object.__hash__, enum.Enum.__hash__)
_CONSTANTS = frozenset({bool, int, float, complex, str, bytes, type(None)})

_settings = config.settings
_trace = current_variable.get


# Classes of static arguments that stand in a key with their class, or with their bits: equal floats
# may differ in those.
_PLAIN = frozenset({bool, int, str, type(None)})
_BY_BITS = frozenset({float, complex})


def _static_key(value: Any) -> Any:
    """The key of a static argument; None if `PythonCalls` cannot know it."""
    cls: Any = type(value)
    if cls in _BY_BITS:
        return exact_key(value)
    plain = cls in _PLAIN or (cls is tuple and all(type(x) is int for x in value))
    return (cls, value) if plain else None


def call_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call in the form of `PythonCalls`, with keywords sorted by name; None if
    it cannot know the call."""
    named = sorted(kwargs)
    passed = (*args, *map(kwargs.__getitem__, named)) if kwargs else args
    parts = [x.signature if type(x) is Array else _static_key(x) for x in passed]
    return (_settings(), in_force(), *named, *parts)


class PythonCalls:
    """Runs calls that were made before, of arrays and plain static arguments."""

    _runs: dict[Any, Callable[[Sequence[Any]], Any]] | None = None

    if TYPE_CHECKING:

        def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # No transformation is active, and the tree of arguments is known by their number and names,
        # so none is made.
        runs = self._runs  # once: another thread may make the function forget its calls
        if runs and _trace(None) is None:
            run = runs.get(call_key(args, kwargs))
            if run is not None:
                passed = (*args, *(kwargs[name] for name in sorted(kwargs)))
                try:
                    return run([x for x in passed if type(x) is Array])
                except Exception as error:
                    trim(error)
                    raise
        return self._unknown_call(args, kwargs)

    def learn_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> None:
        """Remembers a call of arrays and plain static arguments; `_unknown_call` gets all
        others."""
        passed = (*args, *kwargs.values())
        # One token for each argument: none of them is a container of arrays, or a number that is an
        # operand.
        tokens = [token for token in spec[0] if token[0] in (ARRAY, STATIC)]
        if len(tokens) < len(passed) or len(spec[0]) > len(passed) + 2:
            return
        if not all(type(x) is Array or _static_key(x) is not None for x in passed):
            return
        runs = self._runs
        if runs is None:
            runs = self._runs = {}
        runs[call_key(args, kwargs)] = spec[2]

    def forget_calls(self) -> None:
        """Forgets all calls."""
        self._runs = None


@dataclasses.dataclass(eq=False, slots=True)
class PythonRun:
    """The function of its leaves that a known call without an executable runs."""

    in_types: Sequence[ArrayType]
    run: Callable[[Sequence[Any]], Any]
    forms: int = 0


def learn(
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: Sequence[int | str],
    leaves: Sequence[Any],
    call: CompiledCall | PythonRun,
) -> None:
    """Makes a jitted function remember a call whose arguments have a pattern. `static` has the
    positions and names of static arguments."""
    if call.forms >= MOST_FORMS:
        return
    found: list[Any] = []
    try:
        tokens = pattern_of(args, kwargs, static, found, call.in_types)
    except _NoPatternError:
        call.forms = MOST_FORMS
        return
    # The pattern has its leaves in the order in which they are flattened, or it is none.
    if [*map(id, found)] != [*map(id, leaves)]:
        return
    call.forms += 1
    if isinstance(call, PythonRun) or calls is None or type(call.start) is not calls.Run:
        function.learn_call(args, kwargs, (tokens, len(leaves), call.run, (), ()))
        return
    kept = range(len(leaves)) if call.kept is None else call.kept
    consts = () if call.kept is None else [x._buffer for x in call.consts]
    function.learn_call(args, kwargs, (tokens, len(leaves), call.start, tuple(consts), tuple(kept)))


class _NoPatternError(Exception):
    """Raised for arguments by which a call cannot be recognised."""


def pattern_of(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: Sequence[int | str],
    leaves: list[Any],
    types: Sequence[ArrayType],
) -> tuple[Token, ...]:
    """The tokens of a call: of its arguments by position, then by name. Appends its leaves in
    flattening order; `types` are those of the program. Raises if there is no pattern."""
    positions = {i + len(args) if i < 0 else i for i in static if isinstance(i, int)}
    tokens = [_token(TUPLE, len(args), tuple)]
    for i, value in enumerate(args):
        tokens += _static_token(value) if i in positions else _tokens(value, leaves, types)
    return (*tokens, *_dict_tokens(kwargs, leaves, types, set(static)))


def _token(
    kind: int,
    count: int = 0,
    first: Any = None,
    second: Any = None,
    convert: Any = None,
    low: int = 0,
    high: int = 0,
) -> Token:
    return kind, count, first, second, convert, low, high


def _tokens(
    value: Any, leaves: list[Any], types: Sequence[ArrayType], levels: int = MOST_LEVELS
) -> list[Token]:
    """The tokens of a tree of arguments; appends its leaves."""
    cls = type(value)
    if value is None:
        return [_token(NONE)]
    if levels < 0:
        raise _NoPatternError
    if cls is dict:
        return _dict_tokens(value, leaves, types, levels=levels - 1)
    if cls is tuple or cls is list or pytree.is_namedtuple(cls):
        # As they are flattened, whatever `len` and `iter` a class of named tuples has.
        children = [*(list if cls is list else tuple).__iter__(value)]
        inner = [token for child in children for token in _tokens(child, leaves, types, levels - 1)]
        return [_token(LIST if cls is list else TUPLE, len(children), cls), *inner]
    leaves.append(value)
    if len(leaves) > len(types):
        raise _NoPatternError
    return [_leaf_token(value, len(leaves) - 1, types[len(leaves) - 1])]


def _dict_tokens(
    value: dict[Any, Any],
    leaves: list[Any],
    types: Sequence[ArrayType],
    static: Any = (),
    levels: int = MOST_LEVELS,
) -> list[Token]:
    """The tokens of a dictionary in its own order, with its leaves in the order of its keys."""
    if not all(type(key) is str for key in value):
        raise _NoPatternError
    children = {
        key: _static_token(value[key])
        if key in static
        else _tokens(value[key], leaves, types, levels)
        for key in sorted(value)
    }
    token = _token(DICT, len(value), tuple(value))
    return [token, *(token for key in value for token in children[key])]


def _static_token(value: Any) -> list[Token]:
    if not is_constant(value):
        raise _NoPatternError
    return [_token(STATIC, 0, value)]


def is_constant(value: Any) -> bool:
    """Whether the same object always is the same static argument: its value never changes, or it is
    equal to itself alone."""
    cls: Any = type(value)
    if cls is tuple:
        return all(map(is_constant, value))
    if cls.__eq__ is object.__eq__ and cls.__hash__ in _OF_IDENTITY:
        return True
    return cls in _CONSTANTS or isinstance(value, (np.dtype, ConstantClass))


def _leaf_token(value: Any, number: int, of: ArrayType) -> Token:
    cls = type(value)
    if cls is Array:
        return _token(ARRAY, number, value.signature)
    if cls not in (bool, int, float, np.ndarray):
        raise _NoPatternError

    def convert(value: Any) -> Any:
        array = host_values(value, of)
        return put(array, of, copy=array is value)._buffer

    if cls is np.ndarray:
        # The backend's own function, where it takes the array as it is.
        own = value.dtype == of.dtype and not config.settings_in_keys
        direct = client.backend().putting(of) if own else None
        return _token(NUMPY, number, value.dtype, value.shape, direct or convert)
    # As an operand of another dtype it is converted from 32 bits, or exactly.
    bounds = np.iinfo(of.dtype if of.dtype in dtypes.INTEGER else np.int32)
    low, high = (bounds.min, bounds.max) if cls is int else (0, 0)
    return _token(NUMBER, number, cls, {}, convert, low, high)


if TYPE_CHECKING:
    KnownCalls = PythonCalls
else:
    KnownCalls = PythonCalls if calls is None else calls.KnownCalls
