"""Cached dispatch: from a call's arguments straight to the executable that the call ends in.

Most functions of the numpy layer check their arguments, and then run one executable on the arrays
among them. The types of the arrays and the values of the other arguments determine the executable.
`repeated` caches it under these, and a repeated call costs a look-up and the executable. The
function itself is called on a miss, under transformations, for NumPy arrays and lists, for objects
that are not safe keys, while results are checked (`debug_nans`), and where the executable cannot
run (a deleted array), so that errors are those of the function.

That a call ends in one executable is not declared but observed: at the second such call the
function runs once on stand-ins of its arrays, which show how it uses them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import config
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.exact_keys import exact_key
from weft.base.program_caches import BoundedCache
from weft.core.primitive import Primitive
from weft.core.trace import current_variable, using_trace
from weft.lowering.eval_trace import EvalTrace, operation_key
from weft.lowering.executables import Run, running

F = TypeVar("F", bound=Callable[..., Any])
_trace = current_variable.get
_settings = config.settings
# With more elements, checking arguments costs little beside the work, which watching may double.
_LARGE = 1 << 16
# Classes that stand in a key alone, and those that need their class: 1, 1.0 and True are equal.
_UNIQUE = frozenset({type(None), bool, type})
_PLAIN = frozenset({int, str})


class WatchedTrace(EvalTrace):
    """Evaluates primitives and records which executables ran on which arrays."""

    __slots__ = ("ran",)

    def __init__(self) -> None:
        super().__init__(None, "eval")
        self.ran: list[tuple[Any, Sequence[Array], Any]] = []

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        out = super().process_primitive(primitive, args, params)
        arrays = [as_array(x) for x in args]
        # None where Python evaluates the primitive.
        self.note(primitive.eager_cache.get(operation_key(arrays, params)), arrays, out)
        return out

    def note(self, program: Any, arrays: Sequence[Array], out: Any) -> None:
        """Records an executable (or None), its operands and its result."""
        self.ran.append((program, arrays, out))


class Calls:
    """The calls of one function so far, and the executables that they end in."""

    __slots__ = ("function", "made")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        # For each call the `Run` that `watched` finds, or None; False for one that was made once.
        self.made = BoundedCache()

    def add(self, key: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Records a call; returns its result if it was watched, or None."""
        if key not in self.made:
            # A call made only once, with ever new numbers say, is not worth watching.
            self.made[key] = False
            return None
        passed = (*args, *named.values())
        if any(type(x) is Array and x.type.size > _LARGE for x in passed):
            return None
        result, found = None, None
        with contextlib.suppress(Exception):  # The call itself follows, and raises the error.
            result, found = self.watched(args, named)
        self.made[key] = found
        return None if found is None else result

    def watched(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any]:
        """The result of a call, and the `Run` of its executable on the buffers of passed arrays; or
        (None, None) where the call does not end in one executable that its key determines."""
        if _settings().looks_at_results:
            return None, None
        # New arrays tell apart one that is passed twice, and show whether their values are read.
        given = [_stand_in(x) for x in args]
        by_name = {name: _stand_in(x) for name, x in named.items()}
        trace = WatchedTrace()
        with using_trace(trace):
            result = self.function(*given, **by_name)
        if len(trace.ran) != 1:
            return None, None
        program, operands, out = trace.ran[0]
        outs = [out] if type(out) is Array else out
        index = next((i for i, x in enumerate(outs) if x is result), None)
        if program is None or index is None:
            return None, None
        arrays = [x for x in (*given, *by_name.values()) if type(x) is Array]
        if any(hasattr(x, "_host") for x in arrays):
            return None, None  # The function has read the values.
        places = {id(x): i for i, x in enumerate(arrays)}
        picks = [places.get(id(x), x) for x in operands]
        constants = [x for x in picks if type(x) is Array]
        if any(x.type.shape for x in constants):
            return None, None
        numbers = [i for i in picks if type(i) is int]
        if len(set(numbers)) < len(arrays):
            return None, None  # An array that is no operand decides what runs, as an axis may.
        as_passed = not constants and numbers == list(range(len(arrays)))
        run = running(program, index)
        return result, run if as_passed else _on_picks(run, picks)


def _on_picks(run: Run, picks: Sequence[Any]) -> Run:
    """Runs on the picked operands: arrays without dimensions, and integers that are indices of
    passed arrays."""

    def picked(buffers: Sequence[Any], args: Sequence[Any]) -> Any:
        return run([buffers[x] if type(x) is int else x._buffer for x in picks], args)

    return picked


def _stand_in(value: Any) -> Any:
    """A new array on the same buffer for an array, and anything else as it is."""
    if type(value) is Array:
        return Array(value._buffer, value.type, value.signature)
    return value


def _part(value: Any, kind: Any) -> Any:
    """The part of a key for an argument of a rarer class; a list, which cannot be hashed, for
    classes that stand in no key."""
    if kind is float:
        return exact_key(value)
    if kind is tuple and all(type(x) is int for x in value):
        return kind, value
    if isinstance(value, np.dtype):
        return kind, value
    return []


def repeated(function: F) -> F:
    """Makes a function of arrays and static arguments cache the executables its calls end in."""
    calls = Calls(function)

    @functools.wraps(function)
    def repeating(*args: Any, **named: Any) -> Any:
        if _trace(None) is None:
            key: list[Any] = [_settings()]
            passed: tuple[Any, ...] = args
            if named:
                key += named  # Names are the only strings that stand alone in a key.
                passed = (*args, *named.values())
            buffers = []
            try:
                for x in passed:
                    kind = type(x)
                    if kind is Array:
                        key.append(x.signature)
                        buffers.append(x._buffer)
                    elif kind in _UNIQUE:
                        key.append(x)
                    else:
                        key.append((kind, x) if kind in _PLAIN else _part(x, kind))
                found = calls.made[tuple(key)]
            except KeyError:
                found = False
            except TypeError:
                found = None
            if found:
                try:
                    return found(buffers, ())
                except Exception:  # noqa: BLE001 - the function itself raises the error
                    calls.made.pop(tuple(key), None)
            elif found is False:
                result = calls.add(tuple(key), args, named)
                if result is not None:
                    return result
        return function(*args, **named)

    return repeating  # type: ignore[return-value]
