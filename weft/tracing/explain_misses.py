"""Explains cache misses: why something was traced or compiled again.

Each miss notes the dependencies of its trace, in a light form that keeps no array alive. The next
miss of the same function is compared with the earlier ones; the explanation is the difference from
the most similar one. With the setting `explain_cache_misses` each miss is explained: it is logged
(`weft`, at the level WARNING). Without it, a line is warned of once (`RetracingWarning`), when a
second has been lost there.

Lost is what makes a program again whose arguments and results have types that it was made for
before. Other sizes, dtypes, devices and settings need programs of their own, and so does what is
lowered by hand.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import functools
import itertools
import logging
import math
import sys
import threading
import types as python_types
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from weft import config
from weft.base import source as sources
from weft.base import timing
from weft.base.notebooks import line_text
from weft.base.program_caches import on_clear
from weft.base.timing import Spent
from weft.core.axes import axis_environment
from weft.core.trace import Trace, Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType
from weft.errors import RetracingWarning
from weft.function_keys import NamedPart, named_parts, short_text
from weft.function_keys.code_reads import is_library_file
from weft.interpreters.staging import StagingTrace
from weft.sharding.current import in_force

__all__ = ["Call", "Miss", "MissOfBody", "change", "forget", "static_parts", "traced_types"]

_log = logging.getLogger("weft")

# How many misses of a function are kept for comparison, and for how many functions and lines.
_REMEMBERED = 16
_FUNCTIONS = 1024
_LINES = 4096
# How many seconds are lost at a line, and by how many programs for equal types, before the warning.
_SECONDS = 1.0
_PROGRAMS = 3
# The length of its text.
_WIDTH = 160


class Call(NamedTuple):
    """The dependencies of a trace. `maker` tells one jitted function from another of the same
    function; `names` are the leaves of the arguments, `places` their shardings."""

    maker: int
    parts: dict[str, NamedPart]
    structure: str
    names: tuple[str, ...]
    types: tuple[ArrayType, ...]
    places: tuple[str, ...]
    settings: config.Settings
    context: tuple[tuple[str, Any], ...]
    closed: tuple[ArrayType, ...]


# ---- differences of calls ------------------------------------------------------------------------


def _differences(new: Call, old: Call) -> list[str]:
    """The differences of a call from an earlier one, the most likely cause first."""
    found: list[str] = []
    if new.structure != old.structure:
        found += _other_structure(new, old)
    then_by_name = dict(zip(old.names, zip(old.types, old.places, strict=True), strict=True))
    for name, type, place in zip(new.names, new.types, new.places, strict=True):
        type0, place0 = then_by_name.get(name, (type, place))
        if type is not type0:
            found.append(f"{name} is {type!r} instead of {type0!r}{_hint(type, type0)}")
        elif place != place0:
            found.append(f"{name} lies {place} instead of {place0}")
    for field in dataclasses.fields(new.settings) if new.settings is not old.settings else ():
        now, then = getattr(new.settings, field.name), getattr(old.settings, field.name)
        if now != then:
            found.append(f"the setting {field.name} is {now!r} instead of {then!r}")
    for (what, now), (_, then) in zip(new.context, old.context, strict=True):
        if now != then:
            found.append(f"{what} {now} instead of {then}")
    if new.closed != old.closed:
        found.append(f"it closes over traced values {[*new.closed]} instead of {[*old.closed]}")
    # A jitted function checks its closure again only where that may hold traced values.
    again = new.maker != old.maker or new.closed or old.closed or not found
    for label in dict.fromkeys([*old.parts, *new.parts]):
        if again or label.startswith(_STATIC):
            found += _other_part(new.parts.get(label), old.parts.get(label))
    # Values without a key may be equal; they are named only where nothing else differs.
    return found or [
        f"{part.role} has no key by which equal functions are found: {part.reason}"
        for part in new.parts.values()
        if part.content is None
    ]


def _other_structure(new: Call, old: Call) -> Iterator[str]:
    more = [name for name in new.names if name not in old.names]
    fewer = [name for name in old.names if name not in new.names]
    if more:
        yield f"{_listed(more)} was not given before"
    if fewer:
        yield f"{_listed(fewer)} is not given now"
    if not more and not fewer:
        yield (
            f"the arguments have the structure {new.structure:.200} instead of {old.structure:.200}"
        )


def _other_part(new: NamedPart | None, old: NamedPart | None) -> Iterator[str]:
    if new is None or old is None:
        part = new or old
        assert part is not None
        if _is_code(part):
            return  # the parts of the function tell which function is called instead
        yield f"{part.role} is {part.text}" + (
            ", and was not there before" if old is None else " before, and is not there now"
        )
    elif new.content != old.content:
        if new.text == old.text:
            what = new.text.removeprefix("an ").removeprefix("a ").removeprefix("that ")
            yield f"{new.role} is another {what}"
        else:
            yield f"{new.role} is {new.text} instead of {old.text}"


_CODE = "the code of "


def _is_code(part: NamedPart) -> bool:
    return part.role.startswith(_CODE)


def _hint(new: ArrayType, old: ArrayType) -> str:
    if new.shape == old.shape and new.weak_type != old.weak_type:
        return " (~ marks a Python number, which yields to other dtypes)"
    return ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _closest(call: Call, earlier: Sequence[Call]) -> list[str]:
    """The differences from the most similar call; among equally similar ones, from one of the same
    code, and from the last of its own."""
    compared = [
        (
            len(found := _differences(call, old)),
            any(text.startswith(_CODE) for text in found),
            old.maker != call.maker,
            -i,
            found,
        )
        for i, old in enumerate(earlier)
    ]
    # One without a difference was dropped from the cache, or lost an array that it closed over.
    compared = [item for item in compared if item[0]] or compared
    return min(compared, key=lambda item: item[:4])[4] if compared else []


def _in_words(found: Sequence[str]) -> str:
    shown = "; ".join(found[:4])
    return shown if len(found) <= 4 else f"{shown}; and {len(found) - 4} more differences"


_NOTHING = (
    "it closes over other values, or over values of an enclosing transformation that are held "
    "where nobody looks for them"
)


def change(function: Any, options: Hashable, call: Call) -> str:
    """The difference of a call from the most similar one before, for an error message."""
    with _lock:
        earlier = list(_histories.get((_identity(function), options), ()))
    return _in_words(_closest(call, earlier)) or _NOTHING


_STATIC = "the static argument "
# Callables that are shown by name, without their parts.
_PLAIN = (type, python_types.BuiltinFunctionType)


def static_parts(static: Sequence[tuple[Any, Any]], names: Sequence[str]) -> dict[str, NamedPart]:
    """The parts of static arguments, given as argnums and values; a function has its own parts."""
    found = {}
    for (_, value), name in zip(static, names, strict=True):
        label = f"{_STATIC}{name}"
        inner = named_parts(value) if callable(value) and not isinstance(value, _PLAIN) else {}
        if inner:
            found.update({f"{label} {key}": part for key, part in inner.items()})
        else:
            try:
                content = hash((type(value).__name__, value))
            except TypeError:
                content = id(value)
            found[label] = NamedPart(label, content, short_text(value))
    return found


# ---- recorded misses -----------------------------------------------------------------------------

_lock = threading.Lock()
_histories: collections.OrderedDict[Hashable, collections.deque[Call]] = collections.OrderedDict()
# By line, function and types: the number of misses. By line: the seconds lost; -inf once warned of.
_programs: collections.OrderedDict[Hashable, float] = collections.OrderedDict()
_lost: collections.OrderedDict[Hashable, float] = collections.OrderedDict()
# Makers of functions that are not jitted: a number for each.
_numbers = itertools.count(-1, -1)


@on_clear
def _clear() -> None:
    with _lock:
        _histories.clear()


def _identity(function: Any) -> Hashable:
    """A key of a function and all its copies: file, name and hash of its code, and those of
    functions that it wraps."""
    codes: list[tuple[str, str, int]] = []
    pending = [function]
    while pending and len(codes) < 8:
        function = pending.pop(0)
        if isinstance(function, functools.partial):
            pending.append(function.func)
        elif isinstance(function, python_types.MethodType):
            pending.append(function.__func__)
        elif isinstance(function, python_types.FunctionType):
            code = function.__code__
            codes.append((code.co_filename, code.co_qualname, hash(code)))
            if is_library_file(code.co_filename):
                held = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
                pending += [x for x in held if isinstance(x, _FUNCTIONS_OF_PYTHON)]
        else:
            file = getattr(sys.modules.get(type(function).__module__), "__file__", None)
            codes.append((str(file), type(function).__qualname__, 0))
            pending += [x for x in (getattr(function, "__wrapped__", None),) if x is not None]
    return tuple(codes)


_FUNCTIONS_OF_PYTHON = (python_types.FunctionType, python_types.MethodType, functools.partial)


def _filled(cell: python_types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # a variable that has no value yet
        return False


def forget(function: Any, options: Hashable) -> None:
    """Drops the recorded misses of a function."""
    with _lock:
        _histories.pop((_identity(function), options), None)


def _remember(where: Hashable, call: Call) -> list[Call]:
    """Adds a miss and returns the earlier ones."""
    with _lock:
        calls = _histories.pop(where, None)
        if calls is None:
            calls = collections.deque(maxlen=_REMEMBERED)
            while len(_histories) >= _FUNCTIONS:
                _histories.popitem(last=False)
        _histories[where] = calls
        earlier = list(calls)
        calls.append(call)
    return earlier


def _added(counts: collections.OrderedDict[Hashable, float], key: Hashable, more: float) -> float:
    """Adds to a number and returns it; what was not added to for long is forgotten."""
    with _lock:
        total = counts.pop(key, 0.0) + more
        while len(counts) >= _LINES:
            counts.popitem(last=False)
        counts[key] = total
        return total


# ---- misses --------------------------------------------------------------------------------------

_active: contextvars.ContextVar[Miss | None] = contextvars.ContextVar("weft_miss", default=None)


class Miss:
    """A context manager around tracing and compiling after a cache miss of a jitted function.

    `function`, `options`: the function and its compile options; `name`: its name in messages;
    `call`: returns the dependencies of the trace. It is called when the block ends, and only if
    something was traced or compiled: the trace of an equal function may have been cached.
    """

    __slots__ = ("_around", "_before", "_source", "call", "closed", "function", "name",
                 "options", "owner", "results", "traced")  # fmt: skip
    _tells_of_first = True

    def __init__(
        self, owner: Any, function: Any, options: Hashable, name: str, call: Callable[[Miss], Call]
    ) -> None:
        self.owner = owner
        self.function = function
        self.options = options
        self.name = name
        self.call = call
        self.traced = False
        # Types of traced values that the function closes over.
        self.closed: tuple[ArrayType, ...] = ()
        self.results: Sequence[ArrayType] = ()

    def __enter__(self) -> Miss:
        around = _active.get()
        self._around: Any = None
        if around is not None and around.owner is self.owner:
            self._around = around  # A call and its trace are one miss.
            return around
        _active.set(self)
        self._before = timing.spent()
        self._source = sources.current()
        self._around = around
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        around = self._around
        if around is not None and around.owner is self.owner:
            return
        _active.set(around)
        if failed is not None:
            return
        cost = timing.spent().since(self._before)
        if self.traced or cost.compiled or cost.loaded:
            try:
                self.report(cost)
            except RetracingWarning:  # Python's filters make it an error.
                raise
            except Exception:  # noqa: BLE001 - reading a user's objects may fail in any way
                _log.debug("the miss of %s could not be explained", self.name, exc_info=True)

    def report(self, cost: Spent) -> None:
        """Records the miss, and explains it where the setting or the loss asks for that."""
        call = self.call(self)
        earlier = _remember((_identity(self.function), self.options), call)
        location = sources.locate(self._source)
        asked = config.host_settings().explain_cache_misses
        times = 0 if asked or location is None else self._programs_lost(call, cost, location)
        if not times and not (asked and (earlier or self._tells_of_first)):
            return
        found = _closest(call, earlier) if earlier else []
        if earlier and not found:
            found = [_NOTHING if self.traced else "what was compiled before is gone"]
        verb = "tracing" if self.traced else "compiling"
        if asked:
            text = f"{verb} {self.name} {'again' if earlier else 'for the first time'}"
            where = "an unknown line"
            if location is not None:
                where = line_text(*location)
            reason = f": {_in_words(found)}" if found else ""
            _log.warning("%s", f"{text}{reason} (at {where}; {_cost(cost)})")
        elif location is not None:
            text = f"weft: {verb} {self.name} again, number {times} for equal types"
            text = " ".join(": ".join([text, *found[:1]]).split())
            text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
            warnings.warn_explicit(text, RetracingWarning, location.file, location.line)

    def _programs_lost(self, call: Call, cost: Spent, location: Any) -> int:
        """Counts the miss; returns how many programs were made for these types, where it is time
        for the warning of the line, else 0."""
        compiled = cost.compiled or cost.loaded or not self._tells_of_first
        library = _of_library(self.function) or is_library_file(location.file)
        if not compiled or library or _recording():
            return 0
        # A helper that is called with several functions has a jaxpr for each; the code of these
        # does not change from call to call, so each of them counts for itself.
        codes = frozenset(part.content for part in call.parts.values() if _is_code(part))
        line = (location.file, location.line)
        alike = repr((*call[2:-1], *self.results))
        times = _added(_programs, (line, _identity(self.function), codes, alike), 1)
        if times == 1 or _added(_lost, line, cost.seconds) < _SECONDS or times < _PROGRAMS:
            return 0
        _added(_lost, line, -math.inf)
        return int(times)


class MissOfBody(Miss):
    """A `Miss` for the trace of a loop's body, a branch, or a checkpointed function."""

    __slots__ = ()
    # Most bodies are traced once, as a part of something else that is reported.
    _tells_of_first = False

    def __init__(self, what: str, function: Any, name: str, parts: Sequence[Any]) -> None:
        closed: tuple[ArrayType, ...] = ()
        if parts and type(parts[0]) is tuple and all(isinstance(x, ArrayType) for x in parts[0]):
            closed, *parts = parts
        types = tuple(part for part in parts if isinstance(part, ArrayType))
        rest = tuple(part for part in parts if not isinstance(part, ArrayType))

        number = next(_numbers)

        def call(miss: Miss) -> Call:
            return Call(
                maker=number,
                parts=named_parts(function),
                structure=f"{len(types)}; {rest}",
                names=tuple(f"operand {i}" for i in range(len(types))),
                types=types,
                places=("",) * len(types),
                settings=config.settings(),
                context=(("bound axes", axis_environment()), ("the mesh in force", in_force())),
                closed=miss.closed,
            )

        super().__init__(object(), function, what, f"{name} for {what}", call)
        self.traced = True
        self.closed = closed


def _recording() -> bool:
    """Whether a jaxpr is being recorded: traces inside of that are not misses of their own."""
    trace: Trace | None = current_trace()
    while trace is not None and trace is not bottom_trace():
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def _of_library(function: Any) -> bool:
    codes: Any = _identity(function)
    return bool(codes) and all(is_library_file(file) for file, _, _ in codes)


def traced_types(values: Sequence[Any]) -> tuple[ArrayType, ...]:
    """The types of the values that are traced."""
    return tuple(x.type for x in values if isinstance(x, Tracer))


def _cost(cost: Spent) -> str:
    parts = []
    for what, seconds, times in (
        ("tracing", cost.tracing, cost.traced),
        ("lowering", cost.lowering, cost.lowered),
        ("compiling", cost.compiling, cost.compiled),
    ):
        if what == "compiling" and cost.loaded >= cost.compiled > 0:
            parts.append(f"finding it compiled {cost.loading * 1e3:.1f} ms")
        elif times:
            parts.append(f"{what} {seconds * 1e3:.1f} ms")
    return ", ".join(parts) or "nothing was compiled yet"
