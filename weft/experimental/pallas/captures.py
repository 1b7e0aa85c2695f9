"""Checks that kernels and index maps take the right arguments and close over no arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.array import Array
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.errors.argument_errors import refusal
from weft.interpreters.staging import function_name
from weft.refs.reference import Ref

_OPERATION = "pallas_call"


def check_arguments(
    what: str, function: Callable[..., Any], count: int, named: dict[str, Any], takes: str
) -> None:
    """Raises WeftTypeError for a function that does not take `count` arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # Nothing is known of it.
    try:
        signature.bind(*range(count), **named)
    except TypeError as error:
        message = f"{_OPERATION}: {what} cannot be called with {count + len(named)} arguments"
        got = f"{function_name(function)}{signature}: {error}"
        fix = Fix("arguments", f"let it take {takes}")
        raise refusal(WeftTypeError, message, _OPERATION, got, takes, fix) from None


def check_captures(what: str, function: Any, constants: Sequence[Any]) -> None:
    """Raises WeftValueError if a recorded function closes over arrays or traced values. `constants`
    are those of its program; an array of numbers, `jnp.array([0, 2])`, is one too, and allowed."""
    arrays = [value for value in constants if not isinstance(value, Ref)]
    if not arrays:
        return
    held = list(_arrays(function, set()))
    found = [x for x in arrays if isinstance(x, Tracer) or any(_same(x, own) for own in held)]
    if found:
        message = f"{_OPERATION}: {what} closes over arrays"
        types = ", ".join(str(type_of(value)) for value in found)
        wanted = "a function of its arguments and of Python numbers"
        fix = Fix("operand", "pass them to the call as operands, and read their references")
        raise refusal(WeftValueError, message, _OPERATION, types, wanted, fix)


def _same(constant: Any, held: Any) -> bool:
    """Whether a constant is an array that a function holds, or the copy of one of NumPy's."""
    if isinstance(held, np.ndarray):
        return constant.shape == held.shape and np.array_equal(np.asarray(constant), held)
    return constant is held


def _arrays(value: Any, seen: set[int]) -> Iterator[Any]:
    """The arrays in closures, defaults and partially applied arguments of a function, in functions
    that it closes over, and in the global names that it reads."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (Array, np.ndarray)):
        yield value
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _arrays(part, seen)
    elif isinstance(value, MethodType):
        yield from _arrays(value.__func__, seen)
    elif isinstance(value, FunctionType):
        used = [value.__globals__.get(name) for name in _names(value.__code__)]
        yield from (x for x in used if isinstance(x, (Array, np.ndarray)))
        for part in (*_contents(value.__closure__ or ()), *(value.__defaults__ or ())):
            yield from _arrays(part, seen)
    elif isinstance(value, (tuple, list, dict)):
        for part in tree.leaves(value):
            yield from _arrays(part, seen)


def _names(code: CodeType) -> Iterator[str]:
    """The names that a code object and its inner ones read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _contents(cells: Sequence[CellType]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:  # a variable that has no value yet
            continue
