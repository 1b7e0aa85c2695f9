"""The signatures of functions of arrays: their parameters, kinds and binding, and how the calls of
one form are taken.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from weft.errors import WeftTypeError
from weft.kinds.kind import NONE, Arguments, Kind

_UNIONS = (typing.Union, types.UnionType)
# The rooms that errors name before their functions: `linalg.norm`, `fft.fft`, `cluster.vq.vq`.
_ROOMS = frozenset({"linalg", "fft", "signal", "cluster", "vq", "ndimage"})


class ArgumentStep(NamedTuple):
    """How one argument is taken: its position (or slice of positions) if passed so, its name, its
    position in the signature, its kind's facts, and whether it is the first operand."""

    place: int | slice | None
    name: str
    position: int
    take: Callable[[Any, Arguments], Any]
    plain: frozenset[int]
    arrays: bool
    first: bool


class CallForm(NamedTuple):
    """How the calls of one form are taken: the defaults in order, and a step for each argument to
    be taken. Steps that depend on others come last."""

    defaults: dict[str, Any]
    steps: list[ArgumentStep]


def call_form(
    function: Callable[..., Any],
    kinds: dict[str, Kind],
    values: Sequence[Any],
    count: int,
    named: Collection[str],
) -> CallForm:
    """How calls are taken that pass `count` arguments by position, and these names.

    values: the arguments of such a call with the defaults, in the order of the signature.
    """
    names = tuple(kinds)
    rest = rest_name(function)
    # What stands after `*rest` is passed by name alone.
    count = count if rest is None else min(count, names.index(rest) + 1)
    given = {*names[:count], *named}
    defaults = dict(zip(names, values, strict=True))
    steps = []
    for name, kind in sorted(kinds.items(), key=lambda row: row[1].late):
        if name in given or id(defaults[name]) not in kind.plain_ids:
            position = names.index(name)
            place: int | slice | None = position if position < count else None
            if name == rest:
                place = slice(position, None)
            first = not position and not kind.static
            how = kind.take, kind.plain_ids, kind.arrays and name != rest, first
            steps.append(ArgumentStep(place, name, position, *how))
    # None holds the place of what is passed.
    return CallForm(defaults | dict.fromkeys(given), steps)


def operation_of(function: Callable[..., Any]) -> str:
    """The name of a function in errors."""
    rooms = [part for part in function.__module__.split(".") if part in _ROOMS]
    return ".".join([*rooms, function.__name__.lstrip("_")])


def rest_name(function: Callable[..., Any]) -> str | None:
    """The name of the parameter `*name`."""
    code = function.__code__
    several = code.co_flags & inspect.CO_VARARGS
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if several else None


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters as they are written."""
    code = function.__code__
    by_position, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = rest_name(function)
    several = () if rest is None else (rest,)
    return (*code.co_varnames[:by_position], *several, *code.co_varnames[by_position:count])


def by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with all its arguments by name."""
    code, rest = function.__code__, rest_name(function)
    first = code.co_varnames[: code.co_argcount if rest else code.co_posonlyargcount]
    if not first and rest is None:
        return function

    def named(**given: Any) -> Any:
        several = () if rest is None else given.pop(rest)
        return function(*[given.pop(name) for name in first], *several, **given)

    return named


def kinds_of(function: Callable[..., Any]) -> dict[str, Kind]:
    """The kinds of the parameters by name, from the annotations."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: _kind(hints[name]) for name in _parameters(function)}


def _kind(hint: Any) -> Kind:
    """The kind in an annotation; `Operand | None` takes None besides."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    for option in options:
        for note in getattr(option, "__metadata__", ()):
            if isinstance(note, Kind):
                if type(None) not in options:
                    return note
                wrong = tuple(x for x in note.wrong if x is not None)
                return dataclasses.replace(note, plain=note.plain | NONE, wrong=wrong)
    raise WeftTypeError("a parameter of a function of arrays has a kind", got=f"{hint}")


def binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function of the same signature that returns its arguments, bound by Python, as a tuple."""
    code, names, rest = function.__code__, _parameters(function), rest_name(function)
    first, by_position = code.co_posonlyargcount, code.co_argcount
    parts = [*names[:first], *["/"] * bool(first), *names[first:by_position]]
    if rest is not None:
        parts += [f"*{rest}", *names[by_position + 1 :]]
    elif code.co_kwonlyargcount:
        parts += ["*", *names[by_position:]]
    made = eval(f"lambda {', '.join(parts)}: ({', '.join(names)},)")
    names_of = {"co_name": function.__name__, "co_qualname": function.__qualname__}
    named = made.__code__.replace(**names_of)
    binder = types.FunctionType(named, {}, code.co_name, function.__defaults__)
    binder.__kwdefaults__ = function.__kwdefaults__
    return binder
