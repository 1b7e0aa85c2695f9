"""The errors that weft raises for a user's program, and the trimming of its frames in tracebacks.

An error is data before it is text: the operation, `got`, `wanted`, the user's line and the
suggested fix are attributes, and `str()` composes them. Tests read the attributes, above all
the fix, which they apply before running the program again. Each class also derives from the builtin
exception that a NumPy user would catch.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from weft import config
from weft.base import notebooks, source
from weft.base.facades import public_names
from weft.runtime.jaxlib.lazy import LazyModule

# fmt: off
__all__ = [
    "ArrayProtocolError", "AxisError", "CheckpointError", "CommunicationError",
    "ConcretizationError", "ConcretizationTypeError", "DTypeError", "DeletedArrayError",
    "DistributedError", "Fix", "GuardError", "InconclusiveDimensionOperation",
    "JAXIndexError", "JAXTypeError", "JaxRuntimeError", "JaxprError", "JaxprTypeError",
    "KeyReuseError", "LeakedTracerError", "MissingDerivativeError", "MissingRuleError",
    "NoMeshError", "NonConcreteBooleanIndexError", "NonFiniteError", "PlatformError",
    "ProfilerError", "RetracingWarning", "ShapeError", "TracerArrayConversionError",
    "TracerBoolConversionError", "TracerIntegerConversionError", "TreeError", "TypePromotionError",
    "UnboundAxisError", "UnexpectedTracerError", "WeftArgumentError", "WeftError",
    "WeftIndexError", "WeftNotImplementedError", "WeftOverflowError", "WeftTypeError",
    "WeftValueError", "api_boundary", "install_excepthook", "trim",
]
# fmt: on

__dir__ = public_names(globals())

native: Any = LazyModule("weft.runtime.jaxlib.native")

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)


@dataclasses.dataclass(frozen=True)
class Fix:
    """A suggested change to the user's program.

    `kind` names the sort of change (such as "cast"), `text` describes it to a person, and `data`
    has the values that a program needs to make it.
    """

    kind: str
    text: str
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class WeftError(Exception):
    """An error in a user's program; the base class of all errors that weft itself raises.

    `got` and `wanted` are any values (they are shown with `str`). `where` is the user's line: a
    capture of `weft.base.source`, a text, or by default the line that is running now. The text
    leaves out an operation and a `got` that stand in the message. An error that is made without an
    `operation` gets the name of the public function that it leaves.

    >>> error = WeftError(
    ...     "the shapes differ",
    ...     operation="add",
    ...     got="f32[3]",
    ...     wanted="f32[4]",
    ...     where="model.py:12 in loss",
    ...     fix=Fix("reshape", "pad the array to 4"),
    ... )
    >>> print(error)
    the shapes differ
      operation: add
      got: f32[3]
      wanted: f32[4]
      at model.py:12 in loss
      Fix: pad the array to 4
    """

    message: str
    operation: str | None
    got: Any
    wanted: Any
    where: source.Source | str | None
    fix: Fix | None
    called: str | None
    # Whether the boundary that it leaves is to name the operation.
    _awaits_name: bool
    # A tracer whose value was asked for, until its trace has said of which arguments it is made.
    _tracer: Any = None

    def __init__(
        self,
        message: str,
        *,
        operation: str | None = "",
        got: Any = None,
        wanted: Any = None,
        where: source.Source | str | None = None,
        fix: Fix | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.operation = operation or None
        self._awaits_name = operation == ""
        self.got = got
        self.wanted = wanted
        self.where = source.here() if where is None else where
        self.fix = fix
        # The function that was called, if the line is the one that called it.
        self.called = source.called_function() if where is None else None
        # An error that weft handles (a missing cache entry) when it finds the user's is hidden: it
        # says nothing to the user. One that the user handles stays in sight.
        handled = sys.exc_info()[1]
        if handled is not None and handled.__traceback__ is not None:
            catching = handled.__traceback__.tb_frame.f_code.co_filename
            self.__suppress_context__ = source.is_internal(catching)

    @property
    def location(self) -> str | None:
        """The user's line as text, such as `model.py:12 in loss`; None if it is not known."""
        if self.where is None or isinstance(self.where, str):
            return self.where
        return source.describe(self.where)

    def __str__(self) -> str:
        lines = [self.message]
        for label, value in (
            ("in", self._missing_name()),
            ("operation", self._unless_in_message(self.operation)),
            ("got", self._unless_in_message(self.got)),
            ("wanted", self.wanted),
        ):
            if value is not None:
                lines.append(f"  {label}: {_indent(value)}")
        location = self.location
        if location is not None:
            lines.append(f"  {source.placed(location)}")
        if self.fix is not None:
            lines.append(f"  Fix: {_indent(self.fix.text)}")
        return _COUNT.sub(_singular, "\n".join(lines))

    def _missing_name(self) -> str | None:
        """The called function, unless the message or the operation names it."""
        called = self.called
        if called is None or re.search(rf"\b{called}\b", f"{self.message} {self.operation}"):
            return None
        return called

    def _unless_in_message(self, value: Any) -> Any:
        """A value, or None if the message shows it."""
        said = re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", self.message)
        return None if said else value

    def _render_traceback_(self) -> list[str]:
        # IPython asks for it instead of calling `sys.excepthook`, which would trim the traceback.
        trim(self)
        formatter = notebooks.shell().InteractiveTB
        lines: list[str] = formatter.structured_traceback(type(self), self, self.__traceback__)
        return lines

    def __reduce__(self) -> tuple[Any, ...]:
        # A capture holds a code object, which cannot be pickled: the other process gets the text.
        fields = {name: getattr(self, name) for name in ("operation", "got", "wanted", "fix")}
        fields["where"] = self.location
        return _rebuild, (type(self), self.message, fields, self.called)


# One of several: `1 elements`. Texts are made for any number.
_COUNT = re.compile(
    r"(?<![\w.=(\[,*/+-])1 (?:positional )?(?:argument|array|dimension|device|element|operand|"
    r"result|term|value|axe|entrie|leave)s\b"
)


def _singular(found: re.Match[str]) -> str:
    text = found[0].removesuffix("s")
    for plural, one in (("entrie", "entry"), ("axe", "axis"), ("leave", "leaf")):
        text = text.replace(plural, one)
    return text


def _indent(value: Any) -> str:
    return str(value).replace("\n", "\n    ")


def _rebuild(
    cls: type[WeftError], message: str, fields: dict[str, Any], called: str | None
) -> WeftError:
    error = cls(message, **fields)
    error.called = called
    return error


class WeftTypeError(WeftError, TypeError):
    """An argument is not of a kind that the operation takes."""


class ArrayProtocolError(WeftError, TypeError):
    """A method `__weft_array__` returned no array, or an array of another type than `type` says.

    Not a WeftTypeError: those are reworded for the function that was called, and the fault here is
    in the class of the value, which that function does not know.
    """


class ShapeError(WeftTypeError, ValueError):
    """Shapes do not fit together (a TypeError and a ValueError: users expect either)."""


class DTypeError(WeftTypeError, ValueError):
    """A dtype is unknown, not accepted by an operation, or has no common type with another.

    A TypeError and a ValueError: users expect either.
    """


class TypePromotionError(DTypeError):
    """Operands have dtypes without a common one."""


class WeftValueError(WeftError, ValueError):
    """An argument is of the right kind and has a value that the operation cannot take."""


class WeftOverflowError(WeftError, OverflowError):
    """A number does not fit in a dtype."""


class AxisError(WeftError, ValueError, IndexError):
    """An array axis is out of range, or a mesh axis is unknown or named twice."""


class UnboundAxisError(WeftValueError, NameError):
    """A named axis is used where no transformation binds it."""


class WeftIndexError(WeftError, IndexError):
    """A static index is out of bounds, or is not a kind of index that arrays take."""


class WeftArgumentError(WeftTypeError, WeftValueError):
    """An argument is of a kind that the operation does not take, of which users expect either."""


class TreeError(WeftTypeError, ValueError):
    """Pytrees differ in structure, or a class cannot be (or is already) registered as a node."""


class ConcretizationError(WeftTypeError):
    """Python asked for the value of an array that has none while the function is being traced."""


class TracerBoolConversionError(ConcretizationError):
    """`bool()` of a traced array: an `if`, `while`, `and`, `or` or `not` on one."""


class TracerIntegerConversionError(ConcretizationError):
    """`int()` or `operator.index()` of a traced array: a shape, a `range` or a list index."""


class TracerArrayConversionError(ConcretizationError):
    """A traced array was passed to NumPy, which needs the numbers."""


class NonConcreteBooleanIndexError(WeftIndexError):
    """Indexing with a traced boolean mask: the shape of the result would depend on its values."""


class LeakedTracerError(WeftTypeError):
    """A traced value was used after the transformation that made it had ended."""


class DeletedArrayError(WeftError, RuntimeError):
    """An array was used after its buffer had been donated or deleted."""


class KeyReuseError(WeftError, RuntimeError, TypeError):
    """A random key was used twice, with `debug_key_reuse`."""


class NonFiniteError(WeftError, FloatingPointError):
    """An operation made a NaN or an infinity, with `debug_nans` or `debug_infs`.

    `kind` is "NaN" or "infinity"; `within` names the loops (with the iteration), branches and
    jitted functions around the operation, the innermost first; `backward` says whether it belongs
    to a backward pass, and `device` where its result lies.
    """

    kind: str
    within: tuple[str, ...]
    backward: bool
    device: str | None

    def __init__(
        self,
        message: str,
        *,
        kind: str = "NaN",
        within: tuple[str, ...] = (),
        backward: bool = False,
        device: str | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message, **fields)
        self.kind = kind
        self.within = within
        self.backward = backward
        self.device = device

    def __str__(self) -> str:
        first, *rest = super().__str__().split("\n  Fix: ")
        around = [f"  within {place}" for place in self.within]
        if self.device is not None:
            around.append(f"  on {self.device}")
        return "\n  Fix: ".join(["\n".join([first, *around]), *rest])

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (cls, message, fields, called) = super().__reduce__()
        own = {name: getattr(self, name) for name in ("kind", "within", "backward", "device")}
        return rebuild, (cls, message, fields | own, called)


class GuardError(WeftError, RuntimeError):
    """What a setting forbids was about to happen: a copy between the host and a device
    (`transfer_guard`), a trace (`no_tracing`) or an execution (`no_execution`)."""


class ProfilerError(WeftError, RuntimeError):
    """A profile was started while one was being taken, or stopped where none was."""


class CommunicationError(WeftError, AssertionError):
    """A program communicates otherwise than a test asserts (`weft.assert_comms`), or what nobody
    wrote (`weft.comms(..., strict=True)`)."""


class CheckpointError(WeftError, RuntimeError):
    """A checkpoint is not there, is not as it was written, or could not be written."""


class DistributedError(WeftError, RuntimeError):
    """The processes of a group did not meet, run different programs, or one of them ended."""


class WeftNotImplementedError(WeftError, NotImplementedError):
    """A meaningful request that weft does not implement."""


class MissingDerivativeError(WeftTypeError, AttributeError):
    """A function with a custom derivative is called before its rule is set."""


class InconclusiveDimensionOperation(WeftError):
    """What is asked of a symbolic dimension is true for some of its lengths and not for others."""


class NoMeshError(WeftValueError, RuntimeError):
    """A PartitionSpec is used where no mesh is in force that its names refer to."""


class PlatformError(WeftValueError, RuntimeError):
    """A platform is asked for that this machine or this installation does not have."""


class MissingRuleError(WeftNotImplementedError):
    """A primitive has no rule for a transformation."""


class JaxprError(WeftTypeError):
    """A jaxpr breaks a type rule: a fault in a rule or a transformation, not in a user's values."""


class RetracingWarning(UserWarning):
    """A second was lost at one line by making programs for types that had one; see retracing.md."""


# The names that programs written for JAX catch.
ConcretizationTypeError = ConcretizationError
UnexpectedTracerError = LeakedTracerError
JAXIndexError = WeftIndexError
JAXTypeError = WeftTypeError
JaxprTypeError = JaxprError
# Found by `__getattr__`.
JaxRuntimeError: type[RuntimeError]


def __getattr__(name: str) -> Any:
    # The runtime's own class, so that its errors are caught by this name; most programs need none.
    if name == "JaxRuntimeError":
        return native.extension.JaxRuntimeError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def trim(error: E) -> E:
    """Removes weft's own frames from the traceback of `error` and of the errors chained to it.

    Returns `error` itself. With the setting `full_traceback` nothing is removed. An error that is
    not a WeftError keeps its innermost frame even inside weft: it shows where a fault is.

    error: the error whose traceback is shortened.
    """
    for explain in explanations:
        explain(error)
    if not config.host_settings().full_traceback:
        _trim_chain(error)
    return error


explanations: list[Callable[[BaseException], object]] = []
"""What is called with each error before its traceback is trimmed: it may write a better text."""


def _trim_chain(error: BaseException) -> None:
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        deliberate = isinstance(current, WeftError)
        current.__traceback__ = _user_frames(current.__traceback__, keep_last=not deliberate)
        for linked in (current.__cause__, current.__context__):
            if linked is not None:
                pending.append(linked)
        if isinstance(current, BaseExceptionGroup):
            pending.extend(current.exceptions)


def _user_frames(traceback: TracebackType | None, *, keep_last: bool) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for position, entry in enumerate(reversed(entries)):
        frame = entry.tb_frame
        shows_fault = keep_last and position == 0
        if shows_fault or not source.is_internal(frame.f_code.co_filename):
            # A signal's handler may raise where no line of the source is.
            line = entry.tb_lineno or frame.f_code.co_firstlineno
            kept = TracebackType(kept, frame, entry.tb_lasti, line)
    return kept


@overload
def api_boundary(function: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@overload
def api_boundary(function: Callable[P, R]) -> Callable[P, R]: ...
def api_boundary(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """Decorates a public function: errors that leave it without an operation get its name, and all
    lose weft's own frames.

    function: a function that users call; or its name in errors, where that is another than
    `Class.method`, or `Class` for what makes an instance. Then it returns a decorator.
    """
    if isinstance(function, str):
        return functools.partial(_boundary, function)
    name = function.__qualname__.rpartition("<locals>.")[2]
    owner, _, method = name.rpartition(".")
    makes = method in ("__new__", "__init__", "__post_init__")
    return _boundary(owner if makes else name, function)


def _boundary(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            name_error(error, operation)
            trim(error)
            raise  # Bare: this adds no entry for the boundary itself.

    return boundary


# Errors of a value that was made elsewhere, or of the machine: not of the operation that meets it.
_OF_VALUES = (LeakedTracerError, DeletedArrayError, JaxprError, PlatformError)


_VERBS = ("takes ", "does not ", "is not ", "cannot ", "has no ", "draws ")


def with_operation(operation: str, message: str) -> str:
    """The message behind the name of the operation, if that has one: `sum: axis is an integer`. A
    message that begins with a verb is read on from the name: `sum takes arrays or numbers`."""
    if not operation:
        return message
    return f"{operation}{' ' if message.startswith(_VERBS) else ': '}{message}"


def name_error(error: BaseException, operation: str, in_front: bool = False) -> None:
    """Gives an error that leaves an operation the name of that, unless the error has one already or
    comes from code of the user's.

    in_front: whether its message begins with the name then, as one that begins with a verb does in
    any case. If not, an error that was made with `operation=None` stays without a name.
    """
    if not isinstance(error, WeftError) or error.operation is not None:
        return
    if not in_front and (not error._awaits_name or isinstance(error, _OF_VALUES)):
        return
    # A transformation does not name what the function that it was given does wrong.
    entry = error.__traceback__
    while entry is not None and source.is_internal(entry.tb_frame.f_code.co_filename):
        entry = entry.tb_next
    if entry is None:
        error.operation = operation
        if in_front or error.message.startswith(_VERBS):
            error.message = with_operation(operation, error.message)


_ExceptHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


def install_excepthook() -> None:
    """Makes the interpreter trim the traceback of an uncaught error before printing it.

    It covers the functions that have no boundary, because they are called too often to pay for one.
    The hook that was installed before does the printing. Installing twice changes nothing.
    """
    previous: _ExceptHook = sys.excepthook
    if getattr(previous, "trims_weft_frames", False):
        return

    def excepthook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if not config.host_settings().full_traceback and traceback is not None:
            kept = _user_frames(traceback, keep_last=not isinstance(error, WeftError))
            if (
                kept is not None
            ):  # A program that is all weft (`python -m weft...`) keeps its frames.
                _trim_chain(error)
                error.__traceback__ = traceback = kept
        previous(kind, error, traceback)

    excepthook.trims_weft_frames = True  # type: ignore[attr-defined]
    sys.excepthook = excepthook
