"""Functions of arrays whose body is one primitive, or none: those that move elements.

Such a body needs no program of its own, since each primitive has an executable for each of its
operands' types: a call of a new shape costs no tracing. A call that comes a second time is watched
once, and from then on it is known by its arguments and ends in the executable that ran.

Safety: a body is pure and reads no values, so its arguments as they are passed determine which
executable runs on which operands. A call is known only if one executable ran or none, its operands
are the arrays that were passed, each for one argument, and its one result is the function's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft import config, tree
from weft.arrays.array import Array
from weft.base.source import warnings_so_far
from weft.core.trace import using_trace
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.known_calls import PythonRun, call_key
from weft.kinds.array_function import ArrayFunction
from weft.kinds.watched_trace import WatchedTrace

F = TypeVar("F", bound=Callable[..., Any])
_settings = config.settings


class PrimitiveFunction(ArrayFunction):
    """A function of arrays that binds one primitive at most; made by `primitive_function`."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__(body, program=None)

    def _call_new(self, trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if trace is None and not _settings().looks_at_results:
            key = call_key(args, kwargs)
            if key in self.seen:
                return self._watch_call(args, kwargs)
            self.seen[key] = True
        return self._run(self._take_arguments(args, kwargs))

    def _watch_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Evaluates a call, and remembers what ran."""
        watch, warned = WatchedTrace(), warnings_so_far()
        taken = self._take_arguments(args, kwargs)
        with using_trace(watch):
            out = self._run(taken)
        passed: list[tuple[int | str, Any]] = [*enumerate(args)]
        passed += [(name, kwargs[name]) for name in sorted(kwargs)]
        leaves = [value for _, value in passed if type(value) is Array]
        call = _call(watch.ran, leaves, out)
        # A call that warns is not known, so that it warns again.
        if call is not None and warnings_so_far() == warned and not taken.reads:
            fixed = [place for place, value in passed if type(value) is not Array]
            self._remember(args, kwargs, fixed, leaves, call)
        return out


def _call(
    ran: Sequence[tuple[Any, Sequence[Array], Any]], leaves: list[Array], out: Any
) -> CompiledCall | PythonRun | None:
    """The executable call of a later call like this; None if it is not clear."""
    numbers = {id(x._buffer): i for i, x in enumerate(leaves)}
    if len(ran) > 1 or len(numbers) < len(leaves):
        return None
    types = [x.type for x in leaves]
    if not ran:
        # One array alone: another one may decide what runs, as an axis does.
        return PythonRun(types, _first) if len(leaves) == 1 and leaves[0] is out else None
    program, operands, result = ran[0]
    kept = [numbers.get(id(x._buffer), -1) for x in operands]
    if program is None or result is not out or {*kept} != {*range(len(leaves))}:
        return None
    return CompiledCall(program, [], kept, types, tree.structure(0))


def _first(leaves: Sequence[Any]) -> Any:
    return leaves[0]


def primitive_function(body: F) -> F:
    """Makes a public function from a body that moves elements by one primitive at most, whose
    parameters are annotated with kinds."""
    return PrimitiveFunction(body)  # type: ignore[return-value]
