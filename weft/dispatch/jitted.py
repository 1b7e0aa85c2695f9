"""`jit`: the callable that traces a function once per types of its arguments, compiles, and runs.

A call with known types does four things: flatten the arguments, look the executable up, run it,
wrap the results. Everything else happens on a miss. Under a transformation the same callable binds
the `jit` primitive instead.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import logging
import time
import types as python_types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from weft import config, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.program_caches import holds_programs
from weft.base.timing import charged
from weft.control_flow.jit_primitive import jit_p
from weft.core.axes import axis_environment
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.rules import Types
from weft.core.shared_jaxprs import forget_programs_of, share_jaxpr
from weft.core.trace import Tracer, bottom_trace, current_trace, current_variable, leaked
from weft.core.types import ArrayType, type_of, user_value
from weft.dispatch import stages
from weft.dispatch.debug_nans import no_execution
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.jit_shardings import (
    Formats,
    JitShardings,
    check_arguments,
    placed_alike,
    wrap_with_placement,
)
from weft.dispatch.known_calls import MOST_FORMS, KnownCalls, learn
from weft.dispatch.reference_calls import reference_call
from weft.dispatch.specialization import Specialization
from weft.dispatch.static_arguments import hashable_static
from weft.errors import Fix, LeakedTracerError, WeftTypeError, WeftValueError, trim
from weft.errors.argument_errors import not_an_array
from weft.interpreters.rounded_inputs import (
    rounded_inputs,
    warn_of_rounded_inputs,
    warn_of_rounding,
)
from weft.interpreters.staging import check_results, function_name, trace_to_jaxpr
from weft.ops.elementwise.convert import beside_float64
from weft.refs.discharge import (
    check_distinct,
    has_references,
    passed_and_closed_over,
    pure_call,
    value_type,
)
from weft.refs.reference import Ref, with_staged_refs
from weft.runtime import pytree
from weft.sharding.current import in_force
from weft.tracing import explain_misses
from weft.tracing.argument_names import (
    argument_names,
    argument_path,
    place_text,
    places_by_name,
    static_name,
)
from weft.tracing.closure_lifting import register_closure
from weft.tracing.explain_misses import (
    Call,
    Miss,
    change,
    function_in_words,
    static_parts,
    traced_types,
)
from weft.tracing.traces import TracedBody, traces_of
from weft.tree.static_data import exact_structure

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)

NO_SHARDINGS = JitShardings()
_log = logging.getLogger("weft")
_settings = config.settings
_trace = current_variable.get


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `jit`; arguments are given by argnum and by name, if both are known."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    compiler_options: tuple[tuple[str, Any], ...] = ()
    max_traces: int | None = None
    relayout: str = "error"

    @property
    def simple(self) -> bool:
        """Whether every argument is traced, so that a call need not be sorted."""
        return not self.static_argnums and not self.static_argnames


_numbers = itertools.count()
# Signatures of one function whose executables are kept: with a static argument that is new at each
# call they would fill the memory.
_MOST_SIGNATURES = 16_384


def _signature(value: Any) -> Any:
    """The key of a leaf that is not an array in the cache of executables."""
    if isinstance(value, Tracer):
        raise leaked(value)
    return value.signature if type(value) is Ref else type_of(user_value(value))


def _warn_on_lost_digits(
    call: CompiledCall, jaxpr: Jaxpr, name: str
) -> Callable[[Sequence[Any]], Any]:
    """A run that warns if arguments were rounded to 32 bits and enter float64."""

    def run(leaves: Sequence[Any]) -> Any:
        warn_of_rounded_inputs(f"jit of {name}", jaxpr, leaves)
        return call.run(leaves)

    return run


class _Signature:
    """The signature of the function that an object wraps; its class has its own."""

    def __get__(self, instance: Any, owner: Any = None) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")
        # Kept, since `inspect` asks twice for each: a nest of n would be asked 2**n times.
        out = inspect.signature(instance.__wrapped__)
        vars(instance)["__signature__"] = out
        return out


class Jitted(KnownCalls, Generic[P, R_co]):
    """A function that runs compiled; made by `weft.jit`."""

    # `inspect.signature` follows `__wrapped__` by itself unless it is told not to.
    __signature__ = _Signature()

    def __init__(
        self, function: Callable[P, R_co], options: Options, shardings: JitShardings = NO_SHARDINGS
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._options = options
        self._shardings = shardings
        self._name = function_name(function)
        # The C++ method, for the fast path; None until a call is cached.
        self._flatten: Any = None
        self._simple = options.simple
        self._static_names = frozenset(options.static_argnames)
        self._calls: dict[Any, CompiledCall] = {}
        self._traces: dict[Any, TracedBody] = {}
        # Jaxprs of calls that closed over values of an enclosing transformation. Each such call is
        # traced, since the next one may close over others.
        self._closures: weakref.WeakSet[Jaxpr] = weakref.WeakSet()
        self._traced_times = self._adopted = 0
        self._number = next(_numbers)
        holds_programs(self)

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        """A call that the base class does not know."""
        try:
            # No transformation is active, and the arguments have a structure and types seen before.
            known = self._flatten is not None and _trace(None) is None
            if known and not _settings().disable_jit:
                if self._simple:
                    given, in_tree = self._flatten((args, kwargs))
                    key: Any = exact_structure(in_tree)
                else:
                    static, dynamic = self._split(args, kwargs)
                    given, in_tree = self._flatten(dynamic)
                    key = (static, exact_structure(in_tree))
                leaves = beside_float64(given)
                try:
                    signatures = [
                        x.signature if type(x) is Array else _signature(x) for x in leaves
                    ]
                except WeftTypeError:  # raised again below, with the name of the argument
                    call = None
                else:
                    call = self._calls.get((key, _settings(), in_force(), *signatures))
                if call is not None:
                    if call.forms < MOST_FORMS:
                        self._learn(args, kwargs, given, call)
                    return call.run(leaves)
            return self._general(args, kwargs)
        except Exception as error:
            trim(error)
            raise

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Jitted[P, R_co]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R_co], instance: object, owner: Any = None
    ) -> Callable[Q, R_co]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else python_types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self._name}>"

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Traces without running: a `Traced`, with `.jaxpr` and `.lower()`."""
        return stages.trace(self, args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers without running: a `Lowered`, with `.as_text()` and `.compile()`."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results: a tree of `ShapeDtypeStruct`. Nothing is compiled."""
        return self.trace(*args, **kwargs).out_info

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            function = self.__dict__.get("_function")
            # What was set on the function, under several `jit` too.
            if isinstance(function, Jitted) or name in getattr(function, "__dict__", {}):
                return getattr(function, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def clear_cache(self) -> None:
        """Drops all traces and executables."""
        for traced in self._traces.values():
            forget_programs_of(traced.jaxpr)
        traces_of(self._function).clear()
        self._calls.clear()
        self.forget_calls()
        self._traces.clear()
        self._closures.clear()
        self._traced_times = self._adopted = 0
        explain_misses.forget(self._function, self._options)

    forget_programs = clear_cache

    def _make_room(self) -> None:
        """Drops all traces and executables if there are too many, as `BoundedCache` does."""
        if max(len(self._calls), len(self._traces)) >= _MOST_SIGNATURES:
            self.forget_calls()
            self._calls.clear()
            self._traces.clear()

    def _cache_size(self) -> int:
        """How many signatures have been compiled (or traced under a transformation)."""
        return len(self._traces) + len(self._closures) + self._adopted

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        settings = _settings()
        if settings.disable_jit:
            return self._function(*args, **kwargs)
        if settings.no_execution and current_trace() is bottom_trace():
            raise no_execution(f"jit of {self._name}")
        static, dynamic = self._split(args, kwargs)
        given, in_tree = tree.flatten(dynamic)
        leaves = list(beside_float64(given))
        if current_trace() is not bottom_trace():
            return self._bind(static, leaves, in_tree)
        try:
            signatures = [x.signature if type(x) is Array else _signature(x) for x in leaves]
        except WeftTypeError as error:
            raise self._bad_argument(dynamic, error) from None
        exact = exact_structure(in_tree)
        key = (exact if self._simple else (static, exact), _settings(), in_force(), *signatures)
        call = self._calls.get(key) or self._adopt(key)
        arrays: list[Any] = [x if type(x) is Ref else as_array(user_value(x)) for x in leaves]
        if call is None:
            with self._miss(static, in_tree, [x.type for x in arrays], signatures) as miss:
                miss.runs = True
                call = self._compile(static, arrays, in_tree, key)
                self._make_room()
                self._calls[key] = call
            self._flatten = pytree.flatten
            self._learn(args, kwargs, given, call)
        return call.run(arrays)

    @property
    def _shares_calls(self) -> bool:
        """Whether another `jit` of this function object has the same calls."""
        return self._shardings is NO_SHARDINGS and self._options.max_traces is None

    def _adopt(self, key: Any) -> CompiledCall | None:
        """The call that another `jit` of this function object has compiled, or None."""
        if not self._shares_calls:
            return None
        call: CompiledCall | None = traces_of(self._function).calls.get((self._options, key))
        if call is not None:
            self._calls[key] = call
            self._flatten = pytree.flatten
            self._adopted += 1
        return call

    def _learn(self, args: Any, kwargs: Any, leaves: Sequence[Any], call: CompiledCall) -> None:
        """Makes the base class remember a call."""
        options = self._options
        learn(self, args, kwargs, (*options.static_argnums, *options.static_argnames), leaves, call)

    def _bind(self, static: Any, leaves: list[Any], in_tree: Any) -> Any:
        """Binds the primitive under the current transformation."""
        try:
            leaves = [(x if type(x) is Ref else user_value(x)) for x in leaves]
            in_types = [value_type(x) for x in leaves]
        except WeftTypeError as error:
            raise self._bad_argument(tree.unflatten(in_tree, leaves), error) from None
        key, traced = self._find_trace(static, in_types, in_tree)
        if traced is not None:
            return self._apply(traced, leaves, in_tree)
        with self._miss(static, in_tree, in_types, in_types) as miss:
            miss.runs = True
            traced = self._retrace(key, static, in_types, in_tree, miss)
            return self._apply(traced, leaves, in_tree)

    def _apply(self, traced: TracedBody, leaves: list[Any], in_tree: Any) -> Any:
        jaxpr = traced.jaxpr
        values = [*traced.consts, *leaves]
        if has_references(values):
            outs = self._apply_with_references(traced, values, in_tree)
        elif self._options.inline:
            outs = eval_jaxpr(jaxpr, (), *values)
        else:
            donated = (False,) * jaxpr.num_consts + self._donated(in_tree)
            outs = jit_p.bind(
                *values, jaxpr=jaxpr, name=self._name, donated=donated if any(donated) else ()
            )
        return traced.out_tree.unflatten(outs)

    def _apply_with_references(
        self, traced: TracedBody, values: Sequence[Any], in_tree: Any
    ) -> list[Any]:
        consts, leaves = traced.consts, values[len(traced.consts) :]
        what = f"jit of {self._name}"
        check_distinct(what, leaves, lambda: argument_names(self._function, in_tree))
        for i, value in enumerate(leaves):
            if type(value) is Ref and any(value is const for const in consts):
                name = argument_names(self._function, in_tree)[i]
                raise passed_and_closed_over(what, value, name)
        call = pure_call(traced.jaxpr, values)
        outs = jit_p.bind(*call.consts, jaxpr=call.jaxpr, name=self._name, donated=())
        return call.finish(outs)

    def _compile(self, static: Any, arrays: list[Array], in_tree: Any, key: Any) -> CompiledCall:
        formats = self._shardings.argument_formats(self._name, static, in_tree)
        # Traced first: the error for a shape that cannot be split then names the argument.
        traced = self._find_or_trace(static, [x.type for x in arrays], in_tree)
        given = [*traced.consts, *(None for _ in arrays)]
        warn_of_rounding(f"jit of {self._name}", traced.jaxpr, given)
        call = self._compile_call(traced, formats, arrays, in_tree)
        if rounded_inputs(traced.jaxpr).inputs:
            # A later call may pass other values.
            call = call.running_by(_warn_on_lost_digits(call, traced.jaxpr, self._name))
        # A call with references knows its `jit`, and so the function, which then would never die.
        if self._shares_calls and not has_references([*traced.consts, *arrays]):
            traces_of(self._function).calls[self._options, key] = call
        return call

    def _compile_call(
        self, traced: TracedBody, formats: Formats, arrays: list[Array], in_tree: Any
    ) -> CompiledCall:
        shardings, options = self._shardings, self._options.compiler_options
        if has_references([*traced.consts, *arrays]):
            return reference_call(self, traced, in_tree, arrays, options)
        if not shardings.is_given:
            return Specialization(self, traced, in_tree, arrays).compile(options).call
        check_arguments(self, arrays, formats, in_tree, "in_shardings says")
        pairs = zip(arrays, formats, strict=True)
        placed = [placed_alike(x, place, layout) for x, (place, layout) in pairs]
        call = Specialization(self, traced, in_tree, placed).compile(options).call
        results = shardings.result_formats(self._name, traced.out_tree)
        return wrap_with_placement(call, arrays, formats, results)

    def _find_trace(
        self, static: Any, in_types: list[ArrayType], in_tree: Any
    ) -> tuple[Any, TracedBody | None]:
        """The key of a trace, and the trace or None."""
        places = self._shardings.traced_formats(self._name, static, in_tree, in_types)
        context = (axis_environment(), in_force(), places)
        key = (static, exact_structure(in_tree), _settings(), context, *in_types)
        return key, self._traces.get(key)

    def _find_or_trace(self, static: Any, in_types: list[ArrayType], in_tree: Any) -> TracedBody:
        key, out = self._find_trace(static, in_types, in_tree)
        if out is not None:
            return out
        with self._miss(static, in_tree, in_types, in_types) as miss:
            return self._retrace(key, static, in_types, in_tree, miss)

    def _retrace(
        self, key: Any, static: Any, in_types: list[ArrayType], in_tree: Any, miss: Miss
    ) -> TracedBody:
        """The trace of another `jit` of this function object, or a new one."""
        limit = self._options.max_traces
        full = limit is not None and self._traced_times >= limit
        if full and not self._closures:
            raise self._too_many(miss)
        traces = traces_of(self._function)
        traced = traces.get(key)
        if traced is None:
            before = time.perf_counter()
            with charged("tracing"):
                traced = self.trace_call(static, in_types, in_tree, key[3][-1])
            if config.host_settings().log_compiles:
                took = 1e3 * (time.perf_counter() - before)
                _log.warning("tracing %s took %.3f ms", self._name, took)
            miss.traced = True
        miss.results = traced.jaxpr.out_types
        miss.closed = traced_types(traced.consts)
        if traced.jaxpr in self._closures:
            return traced
        if full:
            raise self._too_many(miss)
        self._traced_times += 1
        if miss.closed or any(type(x) is Ref and x._root is not None for x in traced.consts):
            self._closures.add(traced.jaxpr)
        else:
            self._make_room()
            traces[key] = self._traces[key] = traced
        return traced

    def _miss(self, static: Any, in_tree: Any, types: Types, signatures: Sequence[Any]) -> Miss:
        """A context for the work on a miss that records the settings the trace depends on."""

        def call(miss: Miss) -> Call:
            names = argument_names(self._function, in_tree)
            static_names = [static_name(self._function, place) for place, _ in static]
            values = [(place, value.value) for place, value in static]
            places = self._shardings.traced_formats(self._name, static, in_tree, types)
            return Call(
                maker=self._number,
                function=function_in_words(self._function),
                static=static_parts(values, static_names),
                structure=str(in_tree),
                names=tuple(names),
                types=tuple(types),
                places=tuple(place_text(x) for x in signatures),
                settings=_settings(),
                context=(
                    ("bound axes", axis_environment()),
                    ("the mesh in force", in_force()),
                    *places_by_name(places),
                ),
                closed=miss.closed,
            )

        return Miss(self, self._function, self._options, self._name, call)

    def trace_call(
        self, static: Any, in_types: list[ArrayType], in_tree: Any, places: Any
    ) -> TracedBody:
        """Traces the function for leaves of the given types; equal jaxprs are shared."""
        out_trees: list[Any] = []
        fixed = [value.value for _, value in static]

        def flat(*values: Any) -> list[Any]:
            leaves = self._shardings.constrain_arguments(self, values, in_tree, places)
            args, kwargs = self._join(
                static, fixed, tree.unflatten(in_tree, with_staged_refs(leaves))
            )
            out = self._function(*args, **kwargs)
            outs, out_tree = tree.flatten(out)
            out_trees.append(out_tree)
            outs = check_results(out, outs, f"jit of {self._name}")
            return list(self._shardings.constrain_results(self, outs, out_tree, places))

        jaxpr, consts = trace_to_jaxpr(
            flat,
            in_types,
            transformation="jit",
            name=self._name,
            input_names=lambda: argument_names(self._function, in_tree),
            references=True,
        )
        return TracedBody(share_jaxpr(jaxpr), consts, out_trees[0])

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Static arguments as a hashable key, and the rest as (args, kwargs)."""
        if self._simple:
            return (), (args, kwargs)
        static: list[tuple[Any, Any]] = []
        for i in self._options.static_argnums:
            if i < 0:
                i += len(args)
            if 0 <= i < len(args):
                static.append((i, hashable_static(args[i], i, self._name)))
                args = (*args[:i], None, *args[i + 1 :])
        names = self._static_names
        if kwargs and not names.isdisjoint(kwargs):
            for name in self._options.static_argnames:
                if name in kwargs:
                    static.append((name, hashable_static(kwargs[name], name, self._name)))
            kwargs = {name: value for name, value in kwargs.items() if name not in names}
        return tuple(static), (args, kwargs)

    def _join(self, static: Any, fixed: Sequence[Any], dynamic: Any) -> tuple[Any, Any]:
        """The arguments of the function; `fixed` has the values of the static ones."""
        args, kwargs = dynamic
        if static:
            args, kwargs = list(args), dict(kwargs)
            for (place, _), value in zip(static, fixed, strict=True):
                if isinstance(place, int):
                    args[place] = value
                else:
                    kwargs[place] = value
        return args, kwargs

    def of_dynamic(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """Binds the static arguments; returns the function and its remaining arguments."""
        static, dynamic = self._split(args, kwargs)
        if not static:
            return self, args, kwargs
        values = [value.value for _, value in static]

        @functools.wraps(self._function)
        def function(*args: Any, **kwargs: Any) -> Any:
            given, named = self._join(static, values, (args, kwargs))
            return self(*given, **named)

        return function, *dynamic

    def _donated(self, in_tree: Any) -> tuple[bool, ...]:
        """Whether each leaf of the arguments is donated."""
        options = self._options
        if not options.donate_argnums and not options.donate_argnames:
            return (False,) * in_tree.num_leaves
        args_tree, kwargs_tree = in_tree.children()
        # A number past the positional arguments belongs to one that is given by name.
        count = len(args_tree.children())
        numbers = {i + count if i < 0 else i for i in options.donate_argnums}
        flags: list[bool] = []
        for i, child in enumerate(args_tree.children()):
            flags += [i in numbers] * child.num_leaves
        names = kwargs_tree.node_data()[1] if kwargs_tree.node_data() else ()
        for name, child in zip(names, kwargs_tree.children(), strict=True):
            flags += [name in options.donate_argnames] * child.num_leaves
        return tuple(flags)

    def _bad_argument(self, dynamic: Any, error: Exception) -> WeftTypeError:
        """The error for a leaf that is not an array, naming it by its path."""
        if isinstance(error, LeakedTracerError):
            return error
        for path, leaf in tree.leaves_with_path(dynamic):
            try:
                type_of(leaf)
            except WeftTypeError:
                which = argument_path(self._function, path)
                operation = f"jit of {self._name}"
                text = "make the argument static (static_argnums or static_argnames)"
                fix = Fix("static_argument", text, {"path": tree.keystr(path)})
                return not_an_array(operation, f"{operation}: {which}", leaf, fix=fix)
        return WeftTypeError(str(error))

    def _too_many(self, miss: Miss) -> WeftValueError:
        """The error for more than `max_traces` traces, with the reason for the last one."""
        limit = self._options.max_traces
        return WeftValueError(
            f"jit of {self._name}: called in a way that needs trace {self._traced_times + 1}, "
            f"and max_traces={limit}",
            operation=f"jit of {self._name}",
            got=change(self._function, self._options, miss.call(miss)),
            wanted=f"calls that are served by {limit} trace" + ("s" if limit != 1 else ""),
            fix=Fix(
                "max_traces",
                "call it with arguments of the types it was traced for, or raise max_traces",
                {"max_traces": self._traced_times + 1},
            ),
        )


register_closure(
    Jitted,
    ("_function",),
    lambda jitted: Jitted(jitted._function, jitted._options, jitted._shardings),
)
