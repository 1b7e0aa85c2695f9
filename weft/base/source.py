"""Captures the running line of the user's program cheaply, and describes it lazily.

A capture is a pair (code object, instruction offset), a few hundred nanoseconds to take; file, line
and function are found from it only when they are needed. Inside a named scope, or in a backward
pass, it has a third element. While an interpreter evaluates a recorded jaxpr, `override` makes the
recorded line the current one.
"""

from __future__ import annotations

import contextvars
import functools
import os
import sys
import sysconfig
import warnings
from types import CodeType, FrameType
from typing import Any, NamedTuple

from weft.base.notebooks import line_text

__all__ = [
    "Location", "Scope", "Source", "backward", "called_function", "current", "describe",
    "differentiated_operation", "entered_scope", "here", "in_backward_pass", "inserted_cast",
    "is_library_file", "join_scopes", "locate", "made_by", "new_program", "override", "placed",
    "register_internal", "register_internal_file", "scope_of", "tangent_of", "user_frames", "warn",
    "warn_at", "warnings_so_far", "with_metadata", "without_scope",
]  # fmt: skip


# Metadata of a maximum or minimum: where an element is NaN, something else that the program
# computes is, so that the compiler may lose this one (see `runtime/stablehlo/cpu_faults.py`).
NAN_ELSEWHERE = "weft_nan_elsewhere"


class Scope(NamedTuple):
    """The context of a line: the names around it, joined by slashes; whether it runs in the
    backward pass of a derivative; metadata for the compiler (see `weft.experimental.xla_metadata`).

    made: what makes the operation if it is not the program's own: it is an inserted "cast", a
    "transpose" of the line's operation, or a "transpose of a cast". It is that of the innermost.
    tangent_of: the name of the operation whose derivative in forward mode it is part of.

    Args:
        path: The names around the line, joined by slashes.
        backward: Whether the line runs in the backward pass of a derivative.
        metadata: Pairs (name, value) for the compiler.
    """

    path: str
    backward: bool = False
    metadata: tuple[tuple[str, str], ...] = ()
    made: str = ""
    tangent_of: str = ""


# Most captures have no scope: leaving the element out makes them cheaper.
Source = tuple[CodeType, int] | tuple[CodeType, int, Scope]

# The recorded line that replaces the current one; or a scope alone, where the line is that of the
# frames; or None. One variable for both, because every equation reads it.
_active: contextvars.ContextVar[Source | Scope | None] = contextvars.ContextVar(
    "weft_source", default=None
)
_warnings = 0
# The scope around the jaxpr that is being recorded; its equations do not carry that one.
_around: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("weft_scope", default=None)
_internal_prefixes: list[str] = [
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
]
# File name -> whether its frames are internal: a look-up costs less than comparing prefixes.
_internal: dict[str, bool] = {}


class Location(NamedTuple):
    """A line of a source file, and its function."""

    file: str
    line: int
    function: str


def register_internal(directory: str) -> None:
    """Makes frames of files below `directory` count as a library's, not as the user's."""
    _internal_prefixes.append(os.path.join(os.path.abspath(directory), ""))
    _internal.clear()


def register_internal_file(path: str) -> None:
    """Makes frames of one file count as a library's."""
    _internal_prefixes.append(os.path.abspath(path))
    _internal.clear()


def is_internal(filename: str) -> bool:
    """Whether frames of this file belong to weft (or to a registered library)."""
    known = _internal.get(filename)
    if known is None:
        known = _internal[filename] = filename.startswith(tuple(_internal_prefixes))
    return known


@functools.cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple({os.path.join(f, "") for path in folders for f in (path, os.path.realpath(path))})


@functools.cache
def is_library_file(path: str) -> bool:
    """Whether a file belongs to the standard library, to weft or to an installed package.

    Args:
        path: The path of the file.
    """
    return (
        is_internal(path)
        or path.startswith(("<frozen ", *_library_folders()))
        or any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages"))
    )


def current() -> Source | None:
    """A capture of the innermost frame that is not internal, or of the recorded line in force."""
    active = _active.get()
    if active is not None and type(active) is not Scope:
        return active  # type: ignore[return-value]
    frame = sys._getframe(1)
    internal = _internal
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        known = internal.get(name)
        if known is None:
            known = is_internal(name)
        if not known and not (name == "<string>" and _is_generated(frame)):
            if active is None:
                return code, frame.f_lasti
            return code, frame.f_lasti, active
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _is_generated(frame: FrameType) -> bool:
    """Whether a frame without a file is of an internal module's generated code, such as the
    `__init__` of a dataclass."""
    return is_internal(frame.f_globals.get("__file__") or "")


def called_function() -> str | None:
    """The public function that the user's innermost frame has called, for messages about operations
    deep inside; None if it is not known."""
    active = _active.get()
    if active is not None and type(active) is not Scope:
        return None
    frame = sys._getframe(1)
    inner = None
    while frame is not None and is_internal(frame.f_code.co_filename):
        inner = frame
        frame = frame.f_back  # type: ignore[assignment]
    return None if frame is None or inner is None else _public_name(inner)


def _public_name(frame: FrameType) -> str | None:
    name = frame.f_code.co_name
    if name in frame.f_globals and not name.startswith("_"):
        return name
    # A wrapper's frame, or the method `__call__` of a function that is an object.
    owner = frame.f_locals.get("function" if name == "boundary" else "self")
    found = getattr(owner, "__name__", None)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    public = isinstance(found, str) and not found.startswith("_") and hasattr(module, found)
    return found if public else None


def here() -> Source | None:
    """Like `current`, with the scopes around the jaxpr that is being recorded as well."""
    source, around = current(), _around.get()
    if source is None or around is None:
        return source
    return source[0], source[1], _nest_scopes(around, scope_of(source))


# ---- scopes ------------------------------------------------------------------------------------


def scope_of(source: Source | Scope | None) -> Scope | None:
    """The scope of a capture, if it has one."""
    if source is None or isinstance(source, Scope):
        return source
    return source[2] if len(source) == 3 else None


def _nest_scopes(outer: Scope, inner: Scope | None) -> Scope:
    if inner is None:
        return _written_scope(outer)
    path = join_scopes(outer.path, inner.path)
    metadata = outer.metadata
    if inner.metadata:
        metadata = tuple(sorted((dict(metadata) | dict(inner.metadata)).items()))
    backward = outer.backward or inner.backward
    return Scope(path, backward, metadata, inner.made, inner.tangent_of)


def _written_scope(scope: Scope) -> Scope:
    """A scope without its derived parts, for one in the program."""
    if scope.made or scope.tangent_of:
        return scope._replace(made="", tangent_of="")
    return scope


def join_scopes(outer: str, inner: str) -> str:
    """Names around a line, those outside first; either may be none."""
    return f"{outer}/{inner}" if outer and inner else outer or inner


class _Activation:
    """A `with` block that sets a line or a scope for `current`, as subclasses define."""

    __slots__ = ("_token",)

    _token: Any

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        """The line or scope inside the block, given the one outside."""
        raise NotImplementedError("a subclass says what is in force inside the block")

    def __enter__(self) -> None:
        active = _active.get()
        wanted = self.wanted(active)
        self._token = None if wanted is active else _active.set(wanted)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _active.reset(self._token)


class override(_Activation):
    """`with override(source):` every `current()` inside returns `source` (None: no change).

    Scopes in force outside go in front of the recorded one.

    Args:
        source: The capture that is in force inside; None changes nothing.
    """

    __slots__ = ("_source",)

    def __init__(self, source: Source | None) -> None:
        self._source = source

    def __enter__(self) -> None:
        # Interpreters do this for every equation; without a scope there is nothing to combine.
        source = self._source
        if source is not None and _active.get() is None:
            self._token = _active.set(source)
        else:
            super().__enter__()

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        source = self._source
        if source is None:
            return active
        outer = scope_of(active)
        if outer is None:
            return source
        return source[0], source[1], _nest_scopes(outer, scope_of(source))


CAST, TRANSPOSE, TRANSPOSE_OF_CAST = "cast", "transpose", "transpose of a cast"
_BACKWARD = Scope("transpose()", True, (), TRANSPOSE)
_BACKWARD_TEXT = "the backward pass of "


class backward(override):
    """Like `override`, for operations of a backward pass that belong to the recorded equation.

    Args:
        source: The capture of the recorded equation; None if it has none.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        source = self._source
        if source is not None and len(source) == 2 and _active.get() is None:
            self._token = _active.set((source[0], source[1], _BACKWARD))
        else:
            _Activation.__enter__(self)

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        source = self._source
        if source is None:
            if active is None or type(active) is Scope:
                return active
            source = active  # type: ignore[assignment]
            active = None
        assert source is not None
        outer, scope = scope_of(active), scope_of(source)
        if scope is None:
            marked = _BACKWARD
        else:
            path = scope.path
            # A derivative that is taken where its function is called records the scopes around
            # both; they are in force still.
            if outer is not None and outer.path and f"{path}/".startswith(f"{outer.path}/"):
                path = path[len(outer.path) + 1 :]
            made = TRANSPOSE_OF_CAST if scope.made == CAST else TRANSPOSE
            marked = Scope(f"transpose({path})", True, scope.metadata, made)
        return source[0], source[1], marked if outer is None else _nest_scopes(outer, marked)


def _inside(active: Source | Scope | None, scope: Scope | None) -> Source | Scope | None:
    """A line, or none, in another scope."""
    if active is None or type(active) is Scope:
        return scope
    line = active[0], active[1]
    return line if scope is None else (*line, scope)  # type: ignore[return-value]


class entered_scope(_Activation):
    """`with entered_scope(name):` captures inside carry the name, after those around it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        scope = Scope(self._name)
        outer = scope_of(active)
        return _inside(active, scope if outer is None else _nest_scopes(outer, scope))


class tangent_of(_Activation):
    """`with tangent_of("psum"):` captures inside are made for the derivative of that operation, in
    forward mode.

    Args:
        operation: The name of the operation whose derivative it is.
    """

    __slots__ = ("_operation",)

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        scope = scope_of(active) or Scope("")
        return _inside(active, scope._replace(tangent_of=self._operation))


class with_metadata(_Activation):
    """`with with_metadata(pairs):` captures inside carry exactly these names and values."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        self._pairs = pairs

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        scope = (scope_of(active) or Scope(""))._replace(metadata=self._pairs)
        return _inside(active, scope if any(scope) else None)


def _without_names(scope: Scope | None) -> Scope | None:
    """The rest of a scope without its names."""
    return Scope("", False, scope.metadata) if scope is not None and scope.metadata else None


class without_scope(_Activation):
    """`with without_scope():` captures inside carry none of the names around them."""

    __slots__ = ()

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        return _inside(active, _without_names(scope_of(active)))


class user_frames(_Activation):
    """`with user_frames():` a user's function runs, so its own lines count again, even if a
    recorded line is in force. The scope stays."""

    __slots__ = ()

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        scope = scope_of(active)
        return None if scope is None else _written_scope(scope)


class new_program(_Activation):
    """`with new_program():` a jaxpr is recorded without the scopes around it.

    It may be cached and used elsewhere; each equation that holds it has the scope around that. What
    is there for the compiler is a setting too, by which traces are cached: it stays.
    """

    __slots__ = ("_outer_token",)

    def wanted(self, active: Source | Scope | None) -> Source | Scope | None:
        self._outer_token = None
        if active is None:
            return None
        scope = scope_of(active)
        if scope is None:
            return active
        around = _around.get()
        self._outer_token = _around.set(scope if around is None else _nest_scopes(around, scope))
        return _inside(active, _without_names(scope))

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._outer_token is not None:
            _around.reset(self._outer_token)


# ---- text --------------------------------------------------------------------------------------


def locate(source: Source | None) -> Location | None:
    """File, line and function of a capture.

    Args:
        source: The capture of a line; None if it is not known.
    """
    if source is None:
        return None
    code, offset = source[0], source[1]
    line = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= offset < end and found is not None:
            line = found
            break
    return Location(code.co_filename, line, code.co_qualname)


def inserted_cast(source: Source | None) -> Source | None:
    """The line of an operation for a cast inserted in front of it."""
    if source is None:
        return None
    return source[0], source[1], (scope_of(source) or Scope(""))._replace(made=CAST)


def in_backward_pass(source: Source | None) -> bool:
    """Whether a capture was taken while a backward pass ran.

    Args:
        source: The capture of a line; None if it is not known.
    """
    scope = scope_of(source)
    return scope is not None and scope.backward


def made_by(source: Source | None) -> str:
    """The origin of an operation, as in `Scope.made`; nothing for one of the program's own."""
    scope = scope_of(source)
    return "" if scope is None else scope.made


def differentiated_operation(source: Source | None) -> str:
    """The operation of whose forward derivative an operation is a part; or nothing."""
    scope = scope_of(source)
    return "" if scope is None else scope.tangent_of


def describe(source: Source | None) -> str:
    """`file.py:12 in function`, or a phrase for an unknown line.

    The scope is named after it, and a backward pass before it: `the backward pass of file.py:12`.

    Args:
        source: The capture of a line; None if it is not known.
    """
    place = locate(source)
    if place is None:
        return "an unknown line"
    text = line_text(*place)
    scope = scope_of(source)
    if scope is None:
        return text
    names = "/".join(part for part in scope.path.split("/") if part != _BACKWARD.path)
    if names:
        text = f"{text}, scope {names}"
    return f"{_BACKWARD_TEXT}{text}" if scope.backward else text


def warn(text: str) -> None:
    """Warns (UserWarning) at the user's line that is running now.

    Args:
        text: The message.
    """
    warn_at(text, current())


def warnings_so_far() -> int:
    """How many warnings this process has given or suppressed."""
    return _warnings


def warn_at(text: str, source: Source | None) -> None:
    """Warns (UserWarning) at a line of the user's.

    Args:
        text: The message.
        source: The capture of the line; None if it is not known.
    """
    place = locate(source)
    file, line = (place.file, place.line) if place is not None else ("<unknown>", 1)
    global _warnings
    _warnings += 1
    warnings.warn_explicit(text, UserWarning, file, line)


def placed(text: str) -> str:
    """A described line with the preposition that fits it.

    Args:
        text: A line as `describe` returns it.
    """
    # Operations of a backward pass have no line of their own, only that of the forward pass.
    return f"in {text}" if text.startswith(_BACKWARD_TEXT) else f"at {text}"
