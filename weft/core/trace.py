"""Dispatch: one current trace interprets every primitive that is bound.

A transformation makes a trace, makes it current during a call, boxes its inputs in tracers that
point at the trace, and passes other operations to the parent trace. There are no levels and no
search over arguments: `Primitive.bind` asks the current trace alone. The current trace is a context
variable, so threads and tasks do not see each other's.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

from weft import config
from weft.base import source as sources
from weft.core.leak_report import leak_report
from weft.core.operators import ArrayOperators
from weft.core.types import ArrayType, Typed
from weft.errors import (
    ConcretizationError,
    Fix,
    LeakedTracerError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    WeftTypeError,
)

P = ParamSpec("P")
R = TypeVar("R")


class Trace:
    """An interpreter of primitives; subclass it to write a transformation.

    `parent` interprets the operations that this trace passes on (None at the bottom); errors show
    `name`, that of the transformation, and `function`, that of the function; `alive` becomes False
    when the transformed call returns.

    Args:
        parent: The trace that interprets the operations that this one passes on; None at the
            bottom.
        name: The name of the transformation, for errors.
        function: The name of the transformed function, for errors.

    >>> from weft.extend.core import Trace, current_trace, using_trace
    >>> class Announce(Trace):
    ...     def process_primitive(self, primitive, args, params):
    ...         print(primitive.name)
    ...         return self.parent.process_primitive(primitive, args, params)
    >>> x = jnp.ones(2)
    >>> with using_trace(Announce(current_trace(), "announce")):
    ...     y = lax.sin(x) * 2.0
    sin
    mul
    """

    __slots__ = ("__weakref__", "alive", "function", "name", "parent")

    def __init__(self, parent: Trace | None, name: str, function: str = "") -> None:
        self.parent = parent
        self.name = name
        self.function = function
        self.alive = True

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Interprets one application and returns the result, or a list of several.

        Any trace may be current: before this one binds primitives (by running a rule), it makes
        the trace that is to interpret them current.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define process_primitive")

    def process_call(
        self,
        primitive: Any,
        function: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        """Interprets a primitive that is applied to a Python function instead of a jaxpr.

        For operations whose function must be able to run Python on concrete values (custom
        derivatives). Unless overridden, the function runs under this trace, as if the primitive
        were not there; weft's own traces make the function a parameter for the primitive's rules.
        """
        with using_trace(self):
            return function(*args)

    def finish(self) -> None:
        """Ends the trace: its tracers are leaked from now on."""
        self.alive = False


def function_as_parameter(
    self: Trace,
    primitive: Any,
    function: Callable[..., Any],
    args: Sequence[Any],
    params: dict[str, Any],
) -> Any:
    """A `process_call` for traces that apply rules: the function becomes a parameter of these.

    Args:
        function: The function of the operands that the primitive is applied to.
        args: The operands.
    """
    return self.process_primitive(primitive, args, {"function": function, **params})


current_variable: contextvars.ContextVar[Trace] = contextvars.ContextVar("weft_trace")
_bottom: Trace


def set_bottom(trace: Trace) -> None:
    """Sets the trace that evaluates, current outside of transformations.

    Called at import, by the module of that trace and by the one that checks its results: evaluating
    needs XLA, which `core` does not import.
    """
    global _bottom
    _bottom = trace


def current_trace() -> Trace:
    """The trace that interprets primitives now.

    >>> from weft.extend.core import current_trace
    >>> weft.jit(lambda x: print(current_trace().name))(1.0)
    jit
    """
    return current_variable.get(None) or _bottom


def bottom_trace() -> Trace:
    """The trace that evaluates."""
    return _bottom


set_current = current_variable.set
reset_current = current_variable.reset


class using_trace:
    """`with using_trace(trace):` makes it the current one.

    Args:
        trace: The trace that interprets operations inside.
    """

    __slots__ = ("_token", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __enter__(self) -> Trace:
        self._token = current_variable.set(self._trace)
        return self._trace

    def __exit__(self, *_: object) -> None:
        current_variable.reset(self._token)


class running(using_trace):
    """`with running(trace):` as `using_trace`, and ends the trace."""

    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        current_variable.reset(self._token)
        self._trace.finish()
        ended = _ended.get()
        if ended is not None:
            ended.append(weakref.ref(self._trace))


# The traces that have ended, where leaked tracers are looked for.
_ended: contextvars.ContextVar[list[weakref.ref[Trace]] | None] = contextvars.ContextVar(
    "weft_ended", default=None
)


def check_leaks(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function that runs a user's function under a new trace look for tracers that outlive
    the trace, under the setting `check_tracer_leaks`. It raises LeakedTracerError for one."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not config.settings().check_tracer_leaks:
            return function(*args, **kwargs)
        ended: list[weakref.ref[Trace]] = []
        token = _ended.set(ended)
        try:
            out = function(*args, **kwargs)
        finally:
            _ended.reset(token)
        if any(trace() is not None for trace in ended):
            gc.collect()  # What is left of them may be in cycles only.
        for trace in filter(None, (trace() for trace in ended)):
            for held in gc.get_referrers(trace):
                if isinstance(held, Tracer) and held._trace is trace:
                    raise leaked(held)
        return out

    return checked


class Tracer(Typed, ArrayOperators[Any]):
    """A value that stands for an array under a trace; only its type is known.

    `_trace` is the trace that made it, `created` the user's line.
    """

    __slots__ = ("__weakref__", "_trace", "created", "type")

    _trace: Trace
    type: ArrayType
    created: sources.Source | None

    def __init__(self, trace: Trace, type: ArrayType) -> None:
        self._trace = trace
        self.type = type
        self.created = sources.current()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "aval" in vars(cls):
            # A class written for JAX: it says its type so, and need not call `__init__`.
            setattr(cls, "type", property(lambda self: self.aval))  # noqa: B010
            setattr(cls, "created", property(lambda self: None, lambda self, line: None))  # noqa: B010

    @property
    def aval(self) -> ArrayType:
        """The type of the value."""
        return self.type

    def full_lower(self) -> Any:
        """The value itself if it is known without this tracer; otherwise the tracer."""
        return self

    def concrete(self) -> Any:
        """The array that this tracer is known to hold, or None if only its type is known."""
        return None

    def describe(self) -> str:
        """One phrase naming the type and the transformation, for messages."""
        of = f" of {self._trace.function}" if self._trace.function else ""
        return f"a traced {self.type!r} under {self._trace.name}{of}"

    def origin(self, argument: str = "") -> str:
        """One phrase for where the value comes from; `argument` names it if it is one."""
        how = f"the argument {argument}, given" if argument else "a value made"
        return f"{how} at {sources.describe(self.created)}"

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("len() of an array without dimensions")
        return self.type.shape[0]

    def unknown(self) -> Tracer:
        """The tracer that hides the value: this one, or one inside it that a parent trace made."""
        return self

    def _force(
        self, what: str, fix: str, error: Callable[..., ConcretizationError] = ConcretizationError
    ) -> Any:
        value = self.concrete()
        if value is not None:
            return value
        hidden = self.unknown()
        for tracer in (self, hidden):
            if not tracer._trace.alive:
                raise leaked(tracer)
        raise hidden.no_value(what, fix, error)

    def no_value(
        self, what: str, fix: str, error: Callable[..., ConcretizationError]
    ) -> ConcretizationError:
        """The error for an operation of Python's that needs the value."""
        out = error(
            f"{what} needs the value of {self.describe()}, and only its type is known while "
            "tracing",
            operation=what,
            got=self.origin(),
            wanted="a value that is known while the function is traced",
            fix=Fix("static_or_traced", fix, {"what": what}),
        )
        out._tracer = self
        return out

    def __bool__(self) -> bool:
        return bool(
            self._force(
                "bool()",
                "write the branch with weft.lax.cond or weft.numpy.where, or make the argument "
                "static (jit's static_argnums or static_argnames)",
                TracerBoolConversionError,
            )
        )

    def __int__(self) -> int:
        return int(self._force("int()", _STATIC, TracerIntegerConversionError))

    def __float__(self) -> float:
        return float(self._force("float()", _STATIC))

    def __complex__(self) -> complex:
        return complex(self._force("complex()", _STATIC))

    def __index__(self) -> int:
        value = self._force(
            "using an array as an index or a length",
            "index weft arrays with it, not Python lists; lengths and shapes must be static "
            "(jit's static_argnums or static_argnames); a loop over range(n) is "
            "weft.lax.fori_loop",
            TracerIntegerConversionError,
        )
        return int(value.__index__())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        value = self._force(
            "conversion to a NumPy array",
            "use weft.numpy instead of numpy here",
            TracerArrayConversionError,
        )
        return value.__array__(dtype)

    def __iter__(self) -> Any:
        if not self.type.shape:
            message = "an array without dimensions has no elements to iterate over"
            raise WeftTypeError(message, operation="iteration", got=self.describe())
        return (self[i] for i in range(self.type.shape[0]))

    def item(self, *index: int) -> Any:
        """The element as a Python number (an error unless the value is known)."""
        return self._force("item()", _STATIC).item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists (an error unless the value is known)."""
        return self._force("tolist()", _STATIC).tolist()

    def tobytes(self, order: Literal["C", "F", "A", "K"] = "C") -> bytes:
        """The bytes of the elements (an error unless the value is known)."""
        return bytes(self._force("tobytes()", _STATIC).tobytes(order))

    def __reduce__(self) -> Any:
        return self._force("pickling", "pickle what the function returns").__reduce__()

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def block_until_ready(self) -> Tracer:
        """Returns the tracer itself: there is nothing to wait for while tracing."""
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.type!r}>({self._trace.name})"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return format(
            self._force(f"the format {spec!r}", "print it without a format, or after the call"),
            spec,
        )


def trace_of(value: Any) -> Trace | None:
    """The trace that made a tracer; None for every other value.

    A trace uses this to recognize its own tracers.

    Args:
        value: Any value.

    >>> from weft.extend.core import current_trace, trace_of
    >>> weft.jit(lambda x: print(trace_of(x) is current_trace(), trace_of(2.0)))(1.0)
    True None
    """
    return value._trace if isinstance(value, Tracer) else None


def check_alive(value: Any) -> None:
    """Raises LeakedTracerError for a tracer whose transformed call has returned.

    Args:
        value: Any value; only tracers are looked at.
    """
    if isinstance(value, Tracer) and not value._trace.alive:
        raise leaked(value)


_STATIC = (
    "keep it an array, or make the argument static where it is one of jit's (static_argnums or "
    "static_argnames); the values of a loop are never static"
)


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer that is used after its transformed call has returned.

    Args:
        tracer: The tracer that is used too late.
    """
    of = f" of {tracer._trace.function}" if tracer._trace.function else ""
    held = "".join(f"\nheld by {phrase}" for phrase in leak_report(tracer))
    message = f"a value of class Tracer escaped from {tracer._trace.name}{of}"
    got = f"a traced {tracer.type!r}, made at {sources.describe(tracer.created)}{held}"
    wanted = "only values that the transformed function returned"
    fix = Fix(
        "return_value",
        "return the value from the transformed function instead of storing it in a global, "
        "an attribute or a list",
        {
            "transformation": tracer._trace.name,
            "function": tracer._trace.function,
            "alive": tracer._trace.alive,
        },
    )
    return LeakedTracerError(message, got=got, wanted=wanted, fix=fix)
