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
import logging
import math
import os
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
from weft.base.source import is_library_file
from weft.base.timing import Spent
from weft.core.trace import Trace, Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType
from weft.errors import RetracingWarning
from weft.interpreters.staging import StagingTrace, function_name

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


class StaticPart(NamedTuple):
    """A static argument: its key for comparison, and its text."""

    content: Any
    text: str


class Call(NamedTuple):
    """The dependencies of a trace. `maker` distinguishes jitted functions, `function` describes the
    wrapped object; `static` has the static arguments by name; `names` are the leaves of the
    arguments, `places` their shardings."""

    maker: int
    function: str
    static: dict[str, StaticPart]
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
    out: list[str] = []
    if new.structure != old.structure:
        out += _other_structure(new, old)
    then_by_name = dict(zip(old.names, zip(old.types, old.places, strict=True), strict=True))
    for name, type, place in zip(new.names, new.types, new.places, strict=True):
        type0, place0 = then_by_name.get(name, (type, place))
        if type is not type0:
            out.append(f"{name} is {type!r} instead of {type0!r}{_hint(type, type0)}")
        elif place != place0:
            out.append(f"{name} lies {place} instead of {place0}")
    for field in dataclasses.fields(new.settings) if new.settings is not old.settings else ():
        now, then = getattr(new.settings, field.name), getattr(old.settings, field.name)
        if now != then:
            out.append(f"the setting {field.name} is {now!r} instead of {then!r}")
    for (what, now), (_, then) in zip(new.context, old.context, strict=True):
        if now != then:
            out.append(f"{what} {now} instead of {then}")
    if new.closed != old.closed:
        out.append(f"it closes over traced values {[*new.closed]} instead of {[*old.closed]}")
    for name in dict.fromkeys([*old.static, *new.static]):
        out += _other_static(name, new.static.get(name), old.static.get(name))
    if not out and new.maker != old.maker:
        out.append(f"{new.function}{_ANEW}")
    return out


_ANEW = " is a new object"


def _other_structure(new: Call, old: Call) -> Iterator[str]:
    more = [name for name in new.names if name not in old.names]
    fewer = [name for name in old.names if name not in new.names]
    if more:
        yield f"{_list_names(more)} was not given before"
    if fewer:
        yield f"{_list_names(fewer)} is not given now"
    if not more and not fewer:
        yield (
            f"the arguments have the structure {new.structure:.200} instead of {old.structure:.200}"
        )


def _other_static(name: str, new: StaticPart | None, old: StaticPart | None) -> Iterator[str]:
    what = f"the static argument {name}"
    if new is None or old is None:
        part = new or old
        assert part is not None
        yield f"{what} is {part.text}" + (
            ", and was not given before" if old is None else " before, and is not given now"
        )
    elif new.content != old.content:
        yield f"{what} is " + (
            f"another object: {new.text}"
            if new.text == old.text
            else f"{new.text} instead of {old.text}"
        )


def _hint(new: ArrayType, old: ArrayType) -> str:
    if new.shape == old.shape and new.weak_type != old.weak_type:
        return " (~ marks a Python number, which yields to other dtypes)"
    return ""


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _closest(call: Call, earlier: Sequence[Call]) -> list[str]:
    """The differences from the most similar call; of equally similar ones, from the last with the
    same maker."""
    compared = [
        (len(found := _differences(call, old)), old.maker != call.maker, -i, found)
        for i, old in enumerate(earlier)
    ]
    # One without a difference was dropped from the cache.
    compared = [item for item in compared if item[0]] or compared
    return min(compared, key=lambda item: item[:3])[3] if compared else []


def _in_words(found: Sequence[str]) -> str:
    shown = "; ".join(found[:4])
    return shown if len(found) <= 4 else f"{shown}; and {len(found) - 4} more differences"


_NOTHING = "it closes over values of an enclosing transformation"


def change(function: Any, options: Hashable, call: Call) -> str:
    """The difference of a call from the most similar earlier one, for an error message."""
    with _lock:
        earlier = list(_histories.get((_identity(function), options), ()))
    return _in_words(_closest(call, earlier)) or _NOTHING


def static_parts(static: Sequence[tuple[Any, Any]], names: Sequence[str]) -> dict[str, StaticPart]:
    """The static arguments, given as argnums and values, by their names."""
    out = {}
    for (_, value), name in zip(static, names, strict=True):
        try:
            content = hash((type(value).__name__, value))
        except TypeError:
            content = id(value)
        out[name] = StaticPart(content, short_text(value))
    return out


_SCALARS = (bool, int, float, complex, str, bytes, type(None))


def short_text(value: Any, depth: int = 1) -> str:
    """A short text of a value, without reading arrays."""
    cls = type(value)
    if cls in _SCALARS:
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        lengths = ",".join(map(str, shape))
        owner = "a NumPy array " if cls.__module__ == "numpy" and shape else ""
        return f"{owner}{getattr(dtype, 'name', dtype)}[{lengths}]"
    if cls in (tuple, list) and len(value) <= 8 and depth >= 0:
        inner = ", ".join(short_text(x, depth - 1) for x in value)
        return f"[{inner}]" if cls is list else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return f"a {cls.__name__} of {len(value)}"
    if callable(value):
        return function_in_words(value)
    return f"an object of class {cls.__name__}"


def function_in_words(function: Any) -> str:
    """A function with the line of its code."""
    name = function_name(function)
    codes = list(_codes(function))
    own = [code for code in codes if not is_library_file(code.co_filename)]
    if not codes:
        return name
    code = (own or codes)[0]
    line = line_text(code.co_filename, code.co_firstlineno).rpartition(os.sep)[2]
    return f"{name} (made at {line})"


# ---- recorded misses -----------------------------------------------------------------------------

_lock = threading.Lock()
_histories: collections.OrderedDict[Hashable, collections.deque[Call]] = collections.OrderedDict()
# By line, function and types: the number of misses. By line: the seconds lost; -inf once warned of.
_programs: collections.OrderedDict[Hashable, float] = collections.OrderedDict()
_lost: collections.OrderedDict[Hashable, float] = collections.OrderedDict()


@on_clear
def _clear() -> None:
    with _lock:
        _histories.clear()


def _identity(function: Any) -> Hashable:
    """The key of a function and of all objects made of the same code: file, name and hash of its
    code, and those of functions that it wraps or closes over."""
    return tuple((code.co_filename, code.co_qualname, hash(code)) for code in _codes(function)) or (
        type(function).__module__,
        type(function).__qualname__,
    )


def _codes(function: Any) -> Iterator[python_types.CodeType]:
    """The code of a function, and of functions that it wraps, binds or closes over: a few."""
    pending, seen = [function], 0
    while pending and seen < 8:
        function = pending.pop(0)
        seen += 1
        if isinstance(function, functools.partial):
            pending += [function.func, *_functions_in(function.args)]
        elif isinstance(function, python_types.MethodType):
            pending.append(function.__func__)
        elif isinstance(function, python_types.FunctionType):
            yield function.__code__
            held = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
            pending += _functions_in(held)
        else:
            wrapped = getattr(function, "__wrapped__", None)
            call = vars(type(function)).get("__call__")
            pending += _functions_in((wrapped, call))


def _functions_in(values: Sequence[Any]) -> list[Any]:
    """The functions among values and in tuples of them."""
    parts = [x for value in values for x in (value if isinstance(value, tuple) else (value,))]
    return [x for x in parts if isinstance(x, _FUNCTIONS_OF_PYTHON)]


_FUNCTIONS_OF_PYTHON = (python_types.FunctionType, python_types.MethodType, functools.partial)


def _is_filled(cell: python_types.CellType) -> bool:
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


def _increment(
    counts: collections.OrderedDict[Hashable, float], key: Hashable, more: float
) -> float:
    """Adds to a count and returns it; counts that have not grown for long are dropped."""
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
    `call`: returns the dependencies of the trace. It is called at the end of the block, if
    something was traced or compiled: the trace of an equal function may have been cached.
    """

    __slots__ = ("_around", "_before", "_source", "call", "closed", "function", "name",
                 "options", "owner", "results", "runs", "traced")  # fmt: skip

    def __init__(
        self, owner: Any, function: Any, options: Hashable, name: str, call: Callable[[Miss], Call]
    ) -> None:
        self.owner = owner
        self.function = function
        self.options = options
        self.name = name
        self.call = call
        self.traced = False
        # Whether what is traced is for a call, and not only looked at.
        self.runs = False
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
        self._before = timing.time_spent()
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
        cost = timing.time_spent().since(self._before)
        # What another `jit` has made is noted too: `max_traces` says what changed since.
        made = self.traced or cost.compiled or cost.loaded
        if made or self.runs:
            try:
                if made:
                    self.report(cost)
                else:
                    _remember((_identity(self.function), self.options), self.call(self))
            except RetracingWarning:  # Python's filters make it an error.
                raise
            except Exception:  # noqa: BLE001 - reading a user's objects may fail in any way
                _log.debug("the miss of %s could not be explained", self.name, exc_info=True)

    def report(self, cost: Spent) -> None:
        """Records the miss, and explains it if the setting or the loss requires it."""
        call = self.call(self)
        earlier = _remember((_identity(self.function), self.options), call)
        location = sources.locate(self._source)
        asked = config.host_settings().explain_cache_misses
        times = 0 if asked or location is None else self._programs_lost(call, cost, location)
        if not times and not asked:
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
            _log.warning("%s", f"{text}{reason} (at {where}; {_cost(cost, self.traced)})")
        elif location is not None:
            text = f"weft: {verb} {self.name} again, number {times} for equal types"
            text = " ".join(": ".join([text, *found[:1]]).split())
            if found and found[0].endswith(_ANEW):
                text = f"{text}; make it once, outside of the loop"
            text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
            warnings.warn_explicit(text, RetracingWarning, location.file, location.line)

    def _programs_lost(self, call: Call, cost: Spent, location: Any) -> int:
        """Counts the miss. Returns the number of programs made for these types if the line's
        warning is due, else 0."""
        library = _of_library(self.function) or is_library_file(location.file)
        if library or not self.runs or _recording():
            return 0
        line = (location.file, location.line)
        alike = repr((*call[3:-1], *self.results))
        times = _increment(_programs, (line, _identity(self.function), alike), 1)
        if times == 1 or _increment(_lost, line, cost.seconds) < _SECONDS or times < _PROGRAMS:
            return 0
        _increment(_lost, line, -math.inf)
        return int(times)


def _recording() -> bool:
    """Whether a jaxpr is being recorded: traces inside it are not misses."""
    trace: Trace | None = current_trace()
    while trace is not None and trace is not bottom_trace():
        if isinstance(trace, StagingTrace):
            return True
        trace = trace.parent
    return False


def _of_library(function: Any) -> bool:
    files = [code.co_filename for code in _codes(function)]
    return bool(files) and all(map(is_library_file, files))


def traced_types(values: Sequence[Any]) -> tuple[ArrayType, ...]:
    """The types of the values that are traced."""
    return tuple(x.type for x in values if isinstance(x, Tracer))


def _cost(cost: Spent, traced: bool) -> str:
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
    if traced and cost.traced and not cost.lowered and not cost.compiled:
        parts.append("its program was found")
    return ", ".join(parts) or "nothing was compiled yet"
