"""Traces and tracers written for JAX, and what such programs ask of the trace in force.

A subclass of `ForeignTrace` interprets primitives as one of `weft.extend.core.Trace` does, with
JAX's conventions: its `__init__` takes nothing, while it processes a primitive the trace that
evaluates is current, and functions with derivatives of their own go to `process_custom_jvp_call`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.core.axes import axis_environment
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Values
from weft.core.trace import Trace, Tracer, bottom_trace, current_trace, using_trace
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_jvp_rule import MappedJVPRule, custom_jvp_p
from weft.custom_derivatives.custom_primitive import Rule
from weft.define.for_jax.wrapped_functions import WrappedFun, wrap_init
from weft.errors import WeftTypeError
from weft.interpreters.staging import StagingTrace
from weft.interpreters.vmap import BatchTrace
from weft.ops.structural.tangents import instantiate

__all__ = [
    "ForeignTrace", "OpaqueTraceState", "TraceTag", "axis_names_in_force", "concrete_or_error",
    "eval_context", "find_top_trace", "full_lower", "get_opaque_trace_state", "has_axis_names",
    "mapped_aval", "set_current_trace", "take_current_trace", "trace_state_clean", "under_jit",
    "under_vmap", "unmapped_aval", "valid_jaxtype",
]  # fmt: skip


class _EveryTrace(type):
    """`isinstance(t, ForeignTrace)` is true of every trace."""

    def __instancecheck__(cls, value: object) -> bool:
        of = Trace if cls.__name__ == "ForeignTrace" else cls
        return of in type(value).__mro__


class ForeignTrace(Trace, metaclass=_EveryTrace):
    """An interpreter of primitives with JAX's conventions; every trace counts as an instance.

    >>> from weft.extend.core import ForeignTrace, set_current_trace, take_current_trace
    >>> class Announce(ForeignTrace):
    ...     def __init__(self, parent_trace):
    ...         super().__init__()
    ...         self.parent_trace = parent_trace
    ...
    ...     def process_primitive(self, primitive, tracers, params):
    ...         print(primitive.name)
    ...         return primitive.bind_with_trace(self.parent_trace, tracers, params)
    >>> with take_current_trace() as parent, set_current_trace(Announce(parent)):
    ...     y = lax.sin(0.0)
    sin
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(getattr(self, "parent_trace", None), type(self).__name__)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        if "process_primitive" in own:
            cls.process_primitive = _under_bottom(own["process_primitive"])  # type: ignore[method-assign]
        if "process_call" in own:
            cls.process_call = _either(own["process_call"])  # type: ignore[method-assign]

    def process_call(
        self,
        primitive: Primitive,
        function: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        """Interprets a primitive that is applied to a Python function: runs it under this trace,
        unless its custom derivative goes to `process_custom_jvp_call`."""
        process = getattr(self, "process_custom_jvp_call", None)
        if primitive is not custom_jvp_p or process is None or any(params["captured"]):
            return super().process_call(primitive, function, args, params)
        own = _CustomJVP(primitive, params["name"])
        jvp = functools.partial(_flat_jvp, params["rule"])
        with using_trace(bottom_trace()):
            return process(own, wrap_init(function), wrap_init(jvp), args, symbolic_zeros=False)


def _under_bottom(process: Callable[..., Any]) -> Callable[..., Any]:
    """The method under the trace that evaluates, with all of JAX's parameters."""

    @functools.wraps(process)
    def process_primitive(self: Trace, primitive: Any, args: Any, params: Any) -> Any:
        params = {**getattr(primitive, "neutral", {}), **params}
        with using_trace(bottom_trace()):
            return process(self, primitive, args, params)

    return process_primitive


def _either(process: Callable[..., Any]) -> Callable[..., Any]:
    """The method for foreign calls; weft's own, with a plain function, go to the base class."""

    @functools.wraps(process)
    def process_call(
        self: ForeignTrace, primitive: Any, function: Any, args: Any, params: Any
    ) -> Any:
        if isinstance(function, WrappedFun):
            return process(self, primitive, function, args, params)
        return ForeignTrace.process_call(self, primitive, function, args, params)

    return process_call


def _flat_jvp(rule: Rule, *values: Any) -> list[Any]:
    """The results, then tangents, of a rule for primals and tangents in one list."""
    n = len(values) // 2
    outs, tangents = rule.jvp(values[:n], values[n:])
    return [*outs, *map(instantiate, tangents)]


class _FlatRule(Rule):
    """The rule of a function from primals and tangents in one list to results and tangents."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__(name)
        self.function = function

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        found = self.function(*primals, *map(instantiate, tangents))
        n = len(found) // 2
        return list(found[:n]), list(found[n:])

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return MappedJVPRule(self, axis, dims)


class _CustomJVP:
    """The primitive that a foreign trace gets for a function with a custom jvp."""

    multiple_results = True

    def __init__(self, primitive: Primitive, name: str) -> None:
        self.primitive, self.name = primitive, name

    def __repr__(self) -> str:
        return repr(self.primitive)

    def bind_with_trace(self, trace: Trace, args: Sequence[Any], /, *rest: Any) -> Any:
        """Applies the function and its rule, the last argument's `subfuns`, under a trace."""
        params = rest[-1]
        if "subfuns" in params:
            fun, jvp = params["subfuns"]
        else:
            fun, jvp, *args = args
        rule = _FlatRule(self.name, jvp.call_wrapped)
        with using_trace(trace):
            return self.primitive.call(
                fun.call_wrapped, *args, name=self.name, rule=rule, captured=()
            )


class TraceTag:
    """Distinguishes the tracers of one transformation from those of another; equal only to
    itself."""

    __slots__ = ("__weakref__",)


class set_current_trace(using_trace):
    """`with set_current_trace(trace):` makes it the current one; None is the one that evaluates.

    Args:
        trace: The trace that interprets operations inside.
        check_leaks: Has no meaning: a tracer that is used too late raises without it.
    """

    __slots__ = ()

    def __init__(self, trace: Trace | None, check_leaks: bool = False) -> None:
        super().__init__(bottom_trace() if trace is None else trace)


class take_current_trace:
    """`with take_current_trace() as trace:` gives the current trace, and inside the one that
    evaluates is current."""

    __slots__ = ("_using",)

    def __enter__(self) -> Trace:
        out = current_trace()
        self._using = using_trace(bottom_trace())
        self._using.__enter__()
        return out

    def __exit__(self, *_: object) -> None:
        self._using.__exit__()


@contextlib.contextmanager
def eval_context() -> Iterator[None]:
    """`with eval_context():` operations inside are evaluated at once, on values that are known."""
    with using_trace(bottom_trace()):
        yield


def find_top_trace(_: Any = None) -> Trace:
    """The current trace.

    Args:
        _: Has no meaning: values given to it are not looked at.
    """
    return current_trace()


def trace_state_clean() -> bool:
    """Whether no transformation is running, so that operations are evaluated at once.

    >>> from weft.extend.core import trace_state_clean
    >>> trace_state_clean(), weft.eval_shape(lambda: print(trace_state_clean()))
    False
    (True, None)
    """
    return current_trace() is bottom_trace()


class OpaqueTraceState:
    """Which transformation is running: equal while it is the same one.

    Args:
        trace: The trace of the transformation.
    """

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return hash((OpaqueTraceState, id(self._trace)))

    def __repr__(self) -> str:
        return f"OpaqueTraceState({self._trace.name})"


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """A value to compare: equal to one taken while the same transformation was running.

    Args:
        convention: Has no meaning: it is there for libraries that give it.

    >>> from weft.extend.core import get_opaque_trace_state
    >>> outside = get_opaque_trace_state()
    >>> outside == get_opaque_trace_state()
    True
    >>> weft.eval_shape(lambda: print(outside == get_opaque_trace_state()))
    False
    """
    return OpaqueTraceState(current_trace())


def _traces() -> Iterator[Trace]:
    """The current trace and those to which it passes operations."""
    trace: Trace | None = current_trace()
    while trace is not None:
        yield trace
        trace = trace.parent


def under_jit() -> bool:
    """Whether the running operation is being recorded, as under `jit`."""
    return any(isinstance(trace, StagingTrace) for trace in _traces())


def under_vmap() -> bool:
    """Whether the running operation is being mapped."""
    return any(isinstance(trace, BatchTrace) for trace in _traces())


def axis_names_in_force() -> list[Any]:
    """The named axes of maps and meshes around the running operation, outermost first."""
    return [axis.name for axis in axis_environment()]


def has_axis_names() -> bool:
    """Whether there are named axes around the running operation."""
    return bool(axis_environment())


def full_lower(value: Any) -> Any:
    """The value that a tracer is known to stand for without its trace; others as they are.

    Args:
        value: Any value.
    """
    return value.full_lower() if isinstance(value, Tracer) else value


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """`force(val)` of a known value (the value itself for None).

    Raises the error of weft for a traced one, with `context` as a note.

    Args:
        force: Makes a Python value of it, such as `int`; None for nothing.
        val: Any value.
        context: A note for the error: what the value is needed for.

    >>> from weft.extend.core import concrete_or_error
    >>> concrete_or_error(int, np.int32(3))
    3
    """
    force = (lambda x: x) if force is None else force
    if not isinstance(val, Tracer):
        return force(val)
    try:
        known = val.concrete()
        return force(
            val._force("a value that has to be known", context) if known is None else known
        )
    except Exception as error:
        if context:
            error.add_note(context)
        raise


def valid_jaxtype(x: Any) -> bool:
    """Whether a value may be an operand: an array, a NumPy array or a number.

    Args:
        x: Any value.

    >>> from weft.extend.core import valid_jaxtype
    >>> valid_jaxtype(1.0), valid_jaxtype("1.0")
    (True, False)
    """
    try:
        type_of(x)
    except (WeftTypeError, OverflowError):
        return False
    return True


def mapped_aval(size: int, axis: int | None, aval: ArrayType) -> ArrayType:
    """The type of one element of an array of type `aval` that is mapped along `axis`.

    Args:
        size: The length of the mapped axis.
        axis: The mapped axis; None for an array that is not mapped.
        aval: The type of the whole array.

    >>> from weft.extend.core import ArrayType, mapped_aval
    >>> mapped_aval(3, 1, ArrayType((2, 3), "float32"))
    f32[2]
    """
    if axis is None:
        return aval
    axis %= aval.ndim
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(
    size: int, axis: int | None, aval: ArrayType, explicit_mesh_axis: Any = None
) -> ArrayType:
    """The type of the whole array that is mapped along `axis`, given that of an element.

    Args:
        size: The length of the mapped axis.
        aval: The type of one element.
        explicit_mesh_axis: Has no meaning: types do not say how arrays are split.
        axis: The mapped axis; None for an array that is not mapped.

    >>> from weft.extend.core import ArrayType, unmapped_aval
    >>> unmapped_aval(3, 0, ArrayType((2,), "float32"))
    f32[3,2]
    """
    if axis is None:
        return aval
    axis %= aval.ndim + 1
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))
