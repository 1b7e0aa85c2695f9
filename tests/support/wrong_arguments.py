"""The wrong calls of functions of arrays that follow from the kinds of their parameters, and how
the fixes that they get are applied.

Each function is called with one value that a kind refuses, and with values that are taken for the
other parameters that it needs.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.image
import weft.nn
import weft.numpy
import weft.random
import weft.scipy
from weft.errors import Fix, WeftError
from weft.kinds.array_function import ArrayFunction

__all__ = [
    "FUNCTIONS", "WrongCall", "is_taken", "refusals", "runs", "suggested_values", "wrong_calls",
]  # fmt: skip

for _room in (weft.numpy, weft.scipy, weft.random, weft.nn):
    for _module in pkgutil.walk_packages(_room.__path__, f"{_room.__name__}."):
        importlib.import_module(_module.name)
# Every public function that is declared by kinds, by its module and its name.
FUNCTIONS = {
    f"{name}.{key}": value
    for name, module in sorted(sys.modules.items())
    if name.startswith("weft.")
    for key, value in sorted(vars(module).items())
    if isinstance(value, ArrayFunction) and (value.__module__, value.__name__) == (name, key)
}


class WrongCall(NamedTuple):
    """A call of a function whose one parameter has a value that its kind refuses: the value of a
    number among these."""

    name: str
    parameter: str
    value: Any
    number: int = 0

    @property
    def function(self) -> ArrayFunction:
        return FUNCTIONS[self.name]

    def run(self, *values: Any) -> Any:
        """Calls the function with a value for the parameter, or without one."""
        function = self.function
        parameters = inspect.signature(function).parameters.values()
        given = dict(zip([self.parameter], values, strict=False))
        for other in parameters:
            if other.default is other.empty and other.kind is not other.VAR_POSITIONAL:
                given.setdefault(other.name, function.kinds[other.name].right)
        by_position = []
        for other in parameters:
            if other.name in given and other.kind is other.VAR_POSITIONAL:
                by_position += [given.pop(other.name)]
            elif other.name in given and other.kind is not other.KEYWORD_ONLY:
                if other.kind is other.POSITIONAL_ONLY or len(given) == 1:
                    by_position.append(given.pop(other.name))
        return function(*by_position, **given)


def wrong_calls() -> Iterator[WrongCall]:
    """A call for each value that the kind of a parameter refuses."""
    for name, function in FUNCTIONS.items():
        for parameter, kind in function.kinds.items():
            for number, value in enumerate(kind.wrong):
                # A list of what is taken as an array: converted, it is taken.
                listed = isinstance(value, list) and getattr(kind.right, "ndim", 0)
                value = kind.right.tolist() if listed else value
                yield WrongCall(name, parameter, value, number)


def refusals() -> str:
    """A line for each parameter that has wrong values: the classes of the errors that these get."""
    found: dict[str, list[str]] = {}
    for call in wrong_calls():
        classes = found.setdefault(f"{call.name} {call.parameter}", [])
        try:
            call.run(call.value)
        except WeftError as error:
            classes.append(type(error).__name__)
        else:
            classes.append("-")
    return "".join(f"{key} {' '.join(classes)}\n" for key, classes in found.items())


def runs(call: WrongCall, values: tuple[Any, ...]) -> bool:
    """Whether the function runs with a value instead of the wrong one."""
    try:
        weft.eval_shape(lambda: call.run(*values))
    except Exception:  # noqa: BLE001 (tests ask this; it says nothing of why not)
        return False
    return True


@functools.cache
def is_taken(name: str, parameter: str) -> bool:
    """Whether a function runs with the values that its kinds take."""
    call = WrongCall(name, parameter, None)
    return runs(call, (call.function.kinds[parameter].right,))


# ---- fixes ---------------------------------------------------------------------------------------

_VALUE = r"(?:'[^']*'|\([^)]*\)|True|False|None|-?\d[\d.]*)"
_CALLS = r"(?:\.\w+|\((?:[^()]|\([^()]*\))*\)|\[\d+\])+"


def suggested_values(fix: Fix, parameter: str, value: Any) -> list[tuple[Any, ...]]:
    """What a fix says to pass for the parameter instead of the value: each time a tuple of one, or
    an empty one where the argument is to be left out. Empty if the text does not say it.

    These are read from the text: what follows `parameter=`, and expressions of weft's functions and
    of the value itself.
    """
    name = re.escape(parameter)
    names = [parameter, *{"x", "p", "indices"} - {parameter}]
    array = value if isinstance(value, (list, tuple)) else np.asarray(value)
    namespace = {"weft": weft, "mesh": weft.make_mesh((1,), ("i",))} | dict.fromkeys(names, array)
    choices = re.search(rf"\b{name}=({_VALUE}(?:(?:,| or) (?:{name}=)?{_VALUE})*)", fix.text)
    if choices:
        expressions = re.findall(_VALUE, choices[1])
    elif re.search(rf"\bleave (it|{name}) out\b|\b(constrain|use) the result\b", fix.text):
        return [()]
    else:
        starts = "|".join([*map(re.escape, names), "abs", "weft"])
        expressions = re.findall(rf"(?<![\w.])(?:{starts}){_CALLS}", fix.text)
    if not expressions and parameter in fix.data:
        return [(fix.data[parameter],)]
    try:
        return [(eval(expression, namespace),) for expression in expressions]
    except (NameError, WeftError):  # These are not about the value.
        return []
