"""Public functions of arrays: a pure body, and a signature of kinds.

A call binds its arguments and takes each by its kind (`weft.kinds.kind`). What is left are operands
and static values. Called eagerly the body runs as one executable, which is found by the static
values and the signatures of the operands. While a jaxpr is recorded the body is simply called, so
that its primitives stand in the jaxpr, and its equations are copied at the next call like it
(`weft.kinds.recordings`); under an eager transformation it becomes one equation.

A call that was made before is known by its arguments as they are passed (`KnownCalls`): arrays by
their signatures, anything else by class and value. That is safe, because a kind is a function of
these alone, and so is everything that the body reads. A kind that has read values says so.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import array_of, as_array, donatable
from weft.base.exact_keys import exact_key
from weft.base.program_caches import BoundedCache, holds_programs
from weft.base.source import warnings_so_far
from weft.core.array_value import array_of_value, array_values
from weft.core.trace import Tracer, current_variable
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.known_calls import KnownCalls, PythonRun, is_constant, learn
from weft.errors import name_error, trim
from weft.interpreters.rounded_inputs import rounded_inputs
from weft.interpreters.staging import StagingTrace, StagingTracer
from weft.kinds.compiled_functions import CompiledFunction, records
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import canonical_type, promote_operands
from weft.kinds.recordings import Recording, recording_key
from weft.kinds.signatures import (
    CallForm,
    binder,
    by_name,
    call_form,
    kinds_of,
    operation_of,
    rest_name,
)
from weft.lowering.executables import Run
from weft.native.optional import calls

F = TypeVar("F", bound=Callable[..., Any])
_settings = config.settings
_trace = current_variable.get
_ARRAYS = (Array, Tracer)
_NUMBERS = frozenset({bool, int, float, complex})
# Those of which there are many.
_MANY = _NUMBERS - {bool}
_CONSTANTS = _NUMBERS | {str, type(None)}
_SEQUENCES = (tuple, list)
# Calls that are known, of one function. With an argument that is new at each call they would fill
# the memory.
_MOST_CALLS = 4096
_MOST_RECORDINGS = 512


# Results that are operands are returned as they are.
_uncopied = functools.partial(CompiledFunction, copies=False)


class ArrayFunction(KnownCalls):
    """A function of arrays; made by `array_function`, or by `python_function` without a program.

    program: makes the executable of the body; chapter: the prefix of its name in errors.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        program: Callable[..., CompiledFunction] | None = _uncopied,
        chapter: str = "",
    ) -> None:
        functools.update_wrapper(self, body)
        self.function = body
        self.body = by_name(body)
        name = body.__name__.lstrip("_")
        self.operation = f"{chapter}.{name}" if chapter else operation_of(body)
        self.program = program(self._apply, name=name) if program else None
        self.forms: dict[tuple[Any, ...], CallForm] = {}
        self.recordings = BoundedCache(_MOST_RECORDINGS)
        # Calls that were made once: one with ever new arguments is not worth learning.
        self.seen = BoundedCache()
        self._learnt = 0
        holds_programs(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.function.__qualname__

    def __repr__(self) -> str:
        return f"<array function {self.operation}>"

    @functools.cached_property
    def bind(self) -> Callable[..., tuple[Any, ...]]:
        """Python's own binding of a call: returns the values of all parameters in order."""
        return binder(self.function)

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the parameters by name, from the annotations."""
        return kinds_of(self.function)

    @functools.cached_property
    def operand_names(self) -> tuple[str, ...]:
        """The names of the parameters that are operands."""
        return tuple(name for name, kind in self.kinds.items() if not kind.static)

    @functools.cached_property
    def groups(self) -> list[tuple[Callable[..., Any], list[str]]]:
        """The operands that are brought together: the function, and their names."""
        found: dict[Callable[..., Any], list[str]] = {}
        for name, kind in self.kinds.items():
            if kind.together is not None:
                found.setdefault(kind.together, []).append(name)
        return [*found.items()]

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            trace = _trace(None)
            if type(trace) is StagingTrace:
                return self._record_call(trace, args, kwargs)
            return self._call_new(trace, args, kwargs)
        except Exception as error:
            name_error(error, self.operation, in_front=True)
            trim(error)
            raise

    def _call_new(self, trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new call, under a trace or none."""
        warned = warnings_so_far()
        taken, program = self._take_arguments(args, kwargs), self.program
        if program is None or (program.inlined and trace is not None and records(trace)):
            return self._run(taken)
        # A call that warns is not known, so that it warns again.
        known = warned == warnings_so_far() and not taken.reads
        return self._evaluate(program, args, kwargs, taken, known)

    def _record_call(
        self, trace: StagingTrace, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call while a jaxpr is recorded: copies the equations of an earlier one like it."""
        operands: list[StagingTracer] = []
        key = recording_key(trace, args, kwargs, operands)
        if key is None:
            return self._call_new(trace, args, kwargs)
        recording = self.recordings.get(key)
        if recording:
            return recording.copy(trace, operands)
        start, warned = len(trace.eqns), warnings_so_far()
        out = self._call_new(trace, args, kwargs)
        if recording is None and warnings_so_far() == warned:
            single = self.program is not None and not self.program.inlined
            self.recordings[key] = Recording.of(trace, start, operands, out, single) or False
        return out

    def _take_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments by name, each taken by its kind."""
        form = self.forms.get((len(args), *kwargs))
        if form is None:
            bound = self._bound(args, kwargs)
            form = call_form(self.function, self.kinds, bound, len(args), kwargs)
            self.forms[len(args), *kwargs] = form
        taken = Arguments(form.defaults)
        taken.operation, taken.reads = self.operation, False
        for place, name, position, take, plain, arrays, first in form.steps:
            if place is not None:
                value = args[place]
            else:
                value = kwargs[name] if name in kwargs else taken[name]
            if arrays and isinstance(value, _ARRAYS):
                if first:
                    taken.type = value.type
            else:
                if id(value) not in plain:
                    taken.name, taken.position = name, position
                    value = take(value, taken)
                if first and type(value) is not tuple:
                    taken.type = canonical_type(value)
                elif first and value:
                    taken.type = canonical_type(value[0])
            taken[name] = value
        for _, names in self.groups:
            values = _values(taken, names)
            if not all(isinstance(x, _ARRAYS) for x in values):
                _replace(taken, names, promote_operands(self.operation, *values))
        return taken

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return self.bind(*args, **kwargs)

    def _run(self, taken: dict[str, Any]) -> Any:
        """The body on taken arguments, with its operands as arrays and brought together."""
        for name in self.operand_names:
            value = taken[name]
            if value is None or isinstance(value, _ARRAYS) or self._is_fixed(name, value):
                continue
            if type(value) is tuple:
                make = self._constant
                taken[name] = tuple([x if isinstance(x, _ARRAYS) else make(x) for x in value])
            else:
                taken[name] = self._constant(value)
        for together, names in self.groups:
            values = _values(taken, names)
            if values:
                _replace(taken, names, together(self.operation, values))
        return self.body(**taken)

    def _constant(self, value: Any) -> Any:
        """An operand that is not an array, as the body gets it."""
        return constant(value)

    def _is_fixed(self, name: str, value: Any) -> bool:
        """Whether an operand is a number, a tuple of them or a name: part of the program."""
        if not self.kinds[name].fixed:
            return False
        if type(value) is tuple:
            return all(type(x) in _NUMBERS for x in value)
        return type(value) in _NUMBERS or type(value) is str

    def _evaluate(
        self,
        program: CompiledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        taken: dict[str, Any],
        known: bool,
    ) -> Any:
        """A call outside of traces that record: one executable, or one equation. `known`: whether
        the call is remembered."""
        operands, static = self._operands(taken, {*map(id, args), *map(id, kwargs.values())})
        if _trace(None) is not None:
            return program(*operands, **static)
        # Executables are found by the signatures of arrays.
        arrays = [x if isinstance(x, _ARRAYS) else as_array(x) for x in operands]
        out = program(*arrays, **static)
        if known and not _settings().looks_at_results:
            self._learn(program, args, kwargs, operands, static)
        return out

    def _operands(
        self, taken: dict[str, Any], passed: Collection[int]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Splits the arguments into operands, and static values with the names of the operands.
        Leaves out operands that are None; numbers that are part of the program are static. passed:
        the identities of the arguments."""
        rows: list[tuple[Any, int | None, tuple[Any, ...]]] = []
        for name in self.operand_names:
            value = taken[name]
            if self._is_fixed(name, value):
                continue
            del taken[name]
            if type(value) is tuple:
                rows.append((name, len(value), value))
            elif value is not None:
                # Numbers come first, as the constants of a known call do.
                made = type(value) is Array and id(value) not in passed
                at = 0 if made or type(value) in _NUMBERS else len(rows)
                rows.insert(at, (name, None, (value,)))
        names = tuple([(name, count) for name, count, _ in rows])
        return [x for _, _, values in rows for x in values], {"names": names, **taken}

    def run_of(self, *arrays: Array, **static: Any) -> Run:
        """The `Run` of a call with arrays by position and static values by name."""
        operands, parts = self._operands(self._take_arguments(arrays, static), {*map(id, arrays)})
        assert self.program is not None
        return self.program.prepare_run(operands, parts)

    def _apply(self, *operands: Any, names: tuple[Any, ...], **static: Any) -> Any:
        """The body, given its operands in order."""
        taken = dict.fromkeys(self.operand_names) | static
        rest = iter(operands)
        for name, count in names:
            several = count is not None
            taken[name] = tuple(itertools.islice(rest, count)) if several else next(rest)
        return self._run(taken)

    # ---- known calls -----------------------------------------------------------------------------

    def _learn(
        self,
        program: CompiledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: list[Any],
        static: dict[str, Any],
    ) -> None:
        """Remembers a call whose operands are arrays, or numbers."""
        passed = self._list_passed(args, kwargs)
        found = self._leaves(passed)
        if found is None:
            return
        leaves, fixed = found
        # An array that was not passed is a number in the dtype of the others.
        plain = all(type(x) is Array or type(x) in _CONSTANTS for _, _, x in passed)
        consts: list[Array] = []
        kept: list[int] = []
        types: list[Any] = [getattr(x, "type", None) for _, x in leaves]
        names = [x for x, count in static["names"] for _ in range(1 if count is None else count)]
        for name, value in zip(names, operands, strict=True):
            made = type(value) in _NUMBERS or type(value) is Array
            place = _place_of(name, value, leaves, kept)
            if place is not None:
                if not made:
                    return  # a number of NumPy's, with more digits than the leaf would have
                kept.append(place)
                types[place] = types[place] or as_array(value).type
            elif kept or not (type(value) in _NUMBERS or (plain and made)):
                return
            else:
                # A copy: who asks for the number gets the array that is cached, and may delete it.
                array = as_array(value)
                consts.append(donatable(array, array.type))
        # Unless there is an array that is no operand.
        if len(kept) == len(leaves):
            call = self._call(program, operands, static, consts, kept, types)
            self._remember(args, kwargs, fixed, [x for _, x in leaves], call)

    def _list_passed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[int | str, str | None, Any]]:
        """The position, parameter and value of each argument as passed."""
        code, rest = self.function.__code__, rest_name(self.function)
        by_position = (*code.co_varnames[: code.co_argcount], *(rest,) * len(args))
        named = [(name, name, kwargs[name]) for name in sorted(kwargs)]
        return [*zip(range(len(args)), by_position, args, strict=False), *named]

    def _leaves(
        self, passed: list[tuple[int | str, str | None, Any]]
    ) -> tuple[list[tuple[str | None, Any]], list[int | str]] | None:
        """The arrays and numbers that may be operands, each with its parameter, and the positions
        of the other arguments. None for a call that is not known, or not yet: a number among the
        others may be new at each call, so it has to come again."""
        by_class = self._by_class([x for _, _, x in passed])
        leaves: list[tuple[str | None, Any]] = []
        fixed: list[int | str] = []
        numbers: list[Any] = []
        for place, owner, value in passed:
            own = [value] if type(value) is Array else value if type(value) in _SEQUENCES else ()
            if own and all(type(x) is Array for x in own):
                leaves += [(owner, x) for x in own]
            elif type(value) in by_class and owner in self.kinds and self.kinds[owner].by_class:
                leaves.append((owner, value))
            elif is_constant(value):
                fixed.append(place)
                numbers += [exact_key(value)] if type(value) in _MANY else []
            else:
                return None  # a list, or an array of NumPy's
        if numbers and tuple(numbers) not in self.seen:
            self.seen[tuple(numbers)] = True
            return None
        return leaves, fixed

    @staticmethod
    def _by_class(passed: list[Any]) -> frozenset[type]:
        """The classes of numbers that become operands whatever their values. An integer beside
        narrow, wide or unsigned integers may not fit; one of 64 bits has other bounds."""
        if calls is None:
            return frozenset()  # Python's own calls know numbers by their values.
        arrays = [x for x in passed if type(x) is Array]
        default = dtypes.default_int()
        plain = all(x.dtype == default or x.dtype not in dtypes.INTEGER for x in arrays)
        return frozenset({bool, int, float}) if plain else frozenset({bool, float})

    def _remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fixed: Sequence[int | str],
        leaves: Sequence[Array],
        call: CompiledCall | PythonRun,
    ) -> None:
        if self._learnt >= _MOST_CALLS:
            self.forget_calls()
            self._learnt = 0
        self._learnt += 1
        learn(self, args, kwargs, fixed, leaves, call)

    def _call(
        self,
        program: CompiledFunction,
        operands: list[Any],
        static: dict[str, Any],
        consts: list[Array],
        kept: list[int],
        types: Sequence[Any],
    ) -> CompiledCall | PythonRun:
        arrays = [as_array(x) for x in operands]
        body = program.body([x.type for x in arrays], static)
        select = program.selection(body)

        def given(leaves: Sequence[Any]) -> list[Array]:
            numbers = zip([leaves[i] for i in kept], [types[i] for i in kept], strict=True)
            return [*consts, *(x if type(x) is Array else array_of(x, of) for x, of in numbers)]

        if select is not None:
            return PythonRun(types, lambda leaves: select(given(leaves)))
        executable = program.program(arrays, static)
        as_passed = not consts and kept == list(range(len(kept)))
        out_tree = tree.structure(body.result([0] * len(body.jaxpr.outputs)))
        call = CompiledCall(executable, consts, None if as_passed else kept, list(types), out_tree)
        if rounded_inputs(body.jaxpr).inputs:
            run = program.prepare_run(arrays, static)

            def watched(leaves: Sequence[Any]) -> Any:
                arrays = given(leaves)
                return run([x._buffer for x in arrays], arrays)

            return call.running_by(watched)
        return call

    def forget_programs(self) -> None:
        """Drops all calls and executables."""
        self.forget_calls()
        self.recordings.clear()
        self.seen.clear()
        self._learnt = 0


class PythonFunction(ArrayFunction):
    """A function whose body may read the values of its operands; made by `python_function`."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__(body, program=None)

    def _constant(self, value: Any) -> Any:
        # An array of NumPy's stays one whose values are known, also while a jaxpr is recorded.
        return as_array(value) if isinstance(value, np.ndarray) else constant(value)


class PrivateFunction(ArrayFunction):
    """A part of public functions, which name its errors; made by `private_function`."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__(body, CompiledFunction)

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = _trace(None)
        if trace is not None and records(trace):
            return self.function(*args, **kwargs)
        if trace is None and np.ndarray in map(type, args):
            # A call of arrays may be known.
            return self(*[as_array(x) if type(x) is np.ndarray else x for x in args], **kwargs)
        return self._call_new(trace, args, kwargs)


def _place_of(
    name: str, value: Any, leaves: Sequence[tuple[str | None, Any]], kept: Sequence[int]
) -> int | None:
    """The leaf as which an operand was passed, among those not yet taken."""
    for place, (owner, x) in enumerate(leaves):
        if owner == name and place not in kept and (x is value or type(x) in _NUMBERS):
            return place
    return None


def array_function(body: F) -> F:
    """Makes a public function of arrays from a body whose parameters are annotated with kinds."""
    return ArrayFunction(body)  # type: ignore[return-value]


def private_function(body: Callable[..., Any]) -> ArrayFunction:
    """Makes a part of public functions one executable. Its parameters are `Prepared` and `Passed`,
    and no result is an operand."""
    return PrivateFunction(body)


def python_function(body: F) -> F:
    """Makes a public function whose arguments are taken by their kinds and whose body runs as
    Python: it reads values, or calls other functions of arrays."""
    return PythonFunction(body)  # type: ignore[return-value]


def constant(value: Any) -> Any:
    """A number or a NumPy array as an array: a constant of the jaxpr that is recorded, if one is.
    So bodies use operators and methods on all operands."""
    if value.__class__ in array_values:
        return array_of_value(value)
    trace = _trace(None)
    while trace is not None and trace.parent is not None:
        trace = trace.parent
    if type(trace) is StagingTrace:
        return trace.constant_tracer(value)
    return as_array(value)


def _values(taken: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """The operands of these names."""
    values: list[Any] = []
    for name in names:
        value = taken[name]
        values += value if type(value) is tuple else () if value is None else (value,)
    return values


def _replace(taken: dict[str, Any], names: Sequence[str], values: Sequence[Any]) -> None:
    """Replaces the operands of these names."""
    rest = iter(values)
    for name in names:
        value = taken[name]
        if type(value) is tuple:
            taken[name] = tuple(itertools.islice(rest, len(value)))
        elif value is not None:
            taken[name] = next(rest)
