"""Cached dispatch: from what was passed straight to the executable that the call ends in.

Most functions of the numpy layer look at their arguments, and then run one executable on the arrays
among them. What they look at is the types of the arrays and what the other arguments are: when all
of that is as it was in an earlier call, so is the executable. `repeated` remembers it, and a call
that comes again costs a look-up and the executable. All else is called as if nothing was there:
under transformations, for NumPy arrays and lists, for objects that cannot be told apart for sure,
while results are looked at (`debug_nans`), and where the executable cannot run (a deleted array),
so that errors are those of the function.

That a call ends in one executable is not declared but seen: when a call comes for the second time,
the function runs once on stand-ins of its arrays, which show what it did with them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import config
from weft.arrays.array import Array, as_array
from weft.base.program_caches import BoundedCache
from weft.core.primitive import Primitive
from weft.core.trace import current_variable, using_trace
from weft.lowering.eval_trace import EvalTrace
from weft.lowering.executables import Run, running

__all__ = ["WatchedTrace", "repeated"]

F = TypeVar("F", bound=Callable[..., Any])
_trace = current_variable.get
_settings = config.settings
# With more elements looking at the arguments is nothing beside the work, which watching may double.
_LARGE = 1 << 16
# What stands in a key by itself, and what stands there beside its class: 1, 1.0 and True are equal.
_UNIQUE = frozenset({type(None), bool, type})
_PLAIN = frozenset({int, str})


class WatchedTrace(EvalTrace):
    """Evaluates, and notes which executables ran on which arrays."""

    __slots__ = ("ran",)

    def __init__(self) -> None:
        super().__init__(None, "eval")
        self.ran: list[tuple[Any, Sequence[Array], Any]] = []

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        out = super().process_primitive(primitive, args, params)
        arrays = [as_array(x) for x in args]
        key: list[Any] = [x.signature for x in arrays]
        if params:
            key.append(tuple(params.items()))
        if config.effort_varies:
            key.append(config.settings().compile_effort)
        # There is none for what Python evaluates.
        self.note(primitive.eager_cache.get(tuple(key)), arrays, out)
        return out

    def note(self, program: Any, arrays: Sequence[Array], out: Any) -> None:
        """Notes that an executable ran on arrays, and with which result."""
        self.ran.append((program, arrays, out))


class Calls:
    """The calls of one function that were made, and the executables that they end in."""

    __slots__ = ("function", "made")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        # For each call what `watched` returns; False for one that was made once.
        self.made = BoundedCache()

    def add(self, key: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """Notes a call; returns its result where that was watched, or None."""
        if key not in self.made:
            # What is called with ever new numbers is not worth the look.
            self.made[key] = False
            return None
        passed = (*args, *named.values())
        if any(type(x) is Array and x.type.size > _LARGE for x in passed):
            return None
        result, found = None, None
        with contextlib.suppress(Exception):  # The call itself follows, and raises what there is.
            result, found = self.watched(args, named)
        self.made[key] = found
        return None if found is None else result

    def watched(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any]:
        """The result of a call, and what runs its executable on the buffers of the arrays that are
        passed. None in place of this where it does not end in one executable that its key
        determines."""
        if _settings().looks_at_results:
            return None, None
        # Each array is a new one, even where one is passed twice, and its values are not known yet.
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
            return None, None  # The function has looked at the values.
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
    """Runs on the picked operands: arrays without dimensions, and integers that say which of the
    arrays that are passed an operand is."""

    def picked(buffers: Sequence[Any], args: Sequence[Any]) -> Any:
        return run([buffers[x] if type(x) is int else x._buffer for x in picks], args)

    return picked


def _stand_in(value: Any) -> Any:
    """A new array for one that is passed, and anything else as it is."""
    if type(value) is Array:
        return Array(value._buffer, value.type, value.signature)
    return value


def _part(value: Any, kind: Any) -> Any:
    """What stands in a key for an argument of a rarer class: what cannot be hashed for one of any
    other class, so that there is no such key."""
    if kind is float:
        return kind, value or str(value)  # -0.0 equals 0.0
    if kind is tuple and all(type(x) is int for x in value):
        return kind, value
    if isinstance(value, np.dtype):
        return kind, value
    return []


def repeated(function: F) -> F:
    """Makes a function of arrays and static arguments remember the executables its calls end in."""
    # All that changes is kept behind this one object: two reads of what `repeating` closes over
    # have to find the same (`weft.function_keys`).
    calls = Calls(function)

    @functools.wraps(function)
    def repeating(*args: Any, **named: Any) -> Any:
        if _trace(None) is None:
            key: list[Any] = [_settings()]
            passed: tuple[Any, ...] = args
            if named:
                key += named  # Names are the only texts that stand alone in a key.
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
                except Exception:  # noqa: BLE001 - the function finds out what it is
                    calls.made.pop(tuple(key), None)
            elif found is False:
                result = calls.add(tuple(key), args, named)
                if result is not None:
                    return result
        return function(*args, **named)

    return repeating  # type: ignore[return-value]
