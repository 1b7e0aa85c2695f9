"""Public functions of arrays: a pure body, and a signature of kinds.

A call binds its arguments and takes each by its kind (`weft.kinds.kind`). What is left are operands
and static values. Called eagerly the body runs as one executable, which is found by the static
values and the signatures of the operands. While a jaxpr is recorded the body is simply called, so
that its primitives stand in the jaxpr, and its equations are copied at the next call like it
(`weft.kinds.recordings`); under an eager transformation it becomes one equation.

A call that was made before is known by its arguments as they are passed (`KnownCalls`): arrays by
their signatures, anything else by class and value. That is safe, because a kind is a function of
these alone, and so is everything that the body reads.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from weft import config, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.program_caches import BoundedCache, holds_programs
from weft.base.source import warnings_so_far
from weft.core.array_value import array_of_value, array_values
from weft.core.trace import Tracer, current_variable
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.known_calls import KnownCalls, PythonRun, learn
from weft.errors import WeftError, WeftTypeError, trim
from weft.interpreters.rounded_inputs import rounded_inputs
from weft.interpreters.staging import StagingTrace, StagingTracer
from weft.kinds.compiled_functions import CompiledFunction, records
from weft.kinds.kind import NONE, Arguments, Kind
from weft.kinds.numbers import canonical_type, promote_operands
from weft.kinds.recordings import Recording, recording_key

__all__ = ["ArrayFunction", "array_function", "python_function"]

F = TypeVar("F", bound=Callable[..., Any])
_settings = config.settings
_trace = current_variable.get
_ARRAYS = (Array, Tracer)
_NUMBERS = frozenset({bool, int, float, complex})
_CONSTANTS = _NUMBERS | {str, type(None)}
_SEQUENCES = (tuple, list)
_UNIONS = (typing.Union, types.UnionType)
# The rooms that errors name before their functions: `linalg.norm`, `fft.fft`, `cluster.vq.vq`.
_ROOMS = frozenset({"linalg", "fft", "signal", "cluster", "vq"})
# Calls that are known, of one function. With an argument that is new at each call they would fill
# the memory.
_MOST_CALLS = 4096
_MOST_RECORDINGS = 512


class ArgumentStep(NamedTuple):
    """How one argument is taken: its position if it is passed by that, or the slice of positions,
    its name, its position in the signature, what its kind says, and whether it is the first
    operand."""

    place: int | slice | None
    name: str
    position: int
    take: Callable[[Any, Arguments], Any]
    plain: frozenset[int]
    arrays: bool
    first: bool


class CallForm(NamedTuple):
    """How the calls are taken that pass arguments in one way: the defaults in order, and a step for
    each argument that has to be taken. Those come last that depend on others."""

    defaults: dict[str, Any]
    steps: list[ArgumentStep]


# Results that are operands are returned as they are.
_uncopied = functools.partial(CompiledFunction, copies=False)


class ArrayFunction(KnownCalls):
    """A function of arrays; made by `array_function`, or by `python_function` without a program.

    program: makes what runs the body as one executable; chapter: what stands before its name in
    errors.
    """

    def __init__(
        self,
        body: Callable[..., Any],
        program: Callable[..., CompiledFunction] | None = _uncopied,
        chapter: str = "",
    ) -> None:
        functools.update_wrapper(self, body)
        self.function = body
        self.body = _by_name(body)
        name = body.__name__.lstrip("_")
        self.operation = f"{chapter}.{name}" if chapter else _operation(body)
        self.program = program(self._apply, name=name) if program else None
        self.forms: dict[tuple[Any, ...], CallForm] = {}
        self.recordings = BoundedCache(_MOST_RECORDINGS)
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
        return _binder(self.function)

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the parameters by name, from the annotations."""
        hints = typing.get_type_hints(self.function, include_extras=True)
        return {name: _kind(hints[name]) for name in _parameters(self.function)}

    @functools.cached_property
    def operand_names(self) -> tuple[str, ...]:
        """The names of the parameters that are operands."""
        return tuple(name for name, kind in self.kinds.items() if not kind.static)

    @functools.cached_property
    def groups(self) -> list[tuple[Callable[..., Any], list[str]]]:
        """The operands that are brought together: by what function, and their names."""
        found: dict[Callable[..., Any], list[str]] = {}
        for name, kind in self.kinds.items():
            if kind.together is not None:
                found.setdefault(kind.together, []).append(name)
        return [*found.items()]

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            trace = _trace(None)
            if type(trace) is StagingTrace:
                return self._recorded(trace, args, kwargs)
            return self._called(trace, args, kwargs)
        except Exception as error:
            if isinstance(error, WeftError) and error.operation is None:
                error.operation = self.operation
                error.message = f"{self.operation}: {error.message}"
            trim(error)
            raise

    def _called(self, trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, of which nothing is known, under a trace or none."""
        warned = warnings_so_far()
        taken, program = self._taken(args, kwargs), self.program
        if program is None or (program.inlined and trace is not None and records(trace)):
            return self._run(taken)
        # A call that warns is not known, so that it warns again.
        return self._evaluated(program, args, kwargs, taken, warned == warnings_so_far())

    def _recorded(self, trace: StagingTrace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call while a jaxpr is recorded: copies the equations of an earlier one like it."""
        operands: list[StagingTracer] = []
        key = recording_key(trace, args, kwargs, operands)
        if key is None:
            return self._called(trace, args, kwargs)
        recording = self.recordings.get(key)
        if recording:
            return recording.copy(trace, operands)
        start, warned = len(trace.eqns), warnings_so_far()
        out = self._called(trace, args, kwargs)
        if recording is None and warnings_so_far() == warned:
            single = self.program is not None and not self.program.inlined
            self.recordings[key] = Recording.of(trace, start, operands, out, single) or False
        return out

    def _taken(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, each taken by its kind."""
        form = self.forms.get((len(args), *kwargs)) or self._form(args, kwargs)
        taken = Arguments(form.defaults)
        taken.operation = self.operation
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

    def _form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallForm:
        """How calls with so many arguments by position, and with these names, are taken. Raises
        Python's own TypeError for arguments that the signature does not have."""
        values = self.bind(*args, **kwargs)
        names = tuple(self.kinds)
        rest = _rest_name(self.function)
        # What stands after `*rest` is passed by name alone.
        count = len(args) if rest is None else min(len(args), names.index(rest) + 1)
        given = {*names[:count], *kwargs}
        defaults = dict(zip(names, values, strict=True))
        steps = []
        for i, (name, kind) in enumerate(sorted(self.kinds.items(), key=lambda row: row[1].late)):
            if name in given or id(defaults[name]) not in kind.plain_ids:
                position = names.index(name)
                place: int | slice | None = position if position < count else None
                if name == rest:
                    place = slice(position, None)
                first = not i and not kind.static
                how = kind.take, kind.plain_ids, kind.arrays and name != rest, first
                steps.append(ArgumentStep(place, name, position, *how))
        # None holds the place of what is passed.
        form = CallForm(defaults | dict.fromkeys(given), steps)
        self.forms[len(args), *kwargs] = form
        return form

    def _run(self, taken: dict[str, Any]) -> Any:
        """The body on arguments that are taken, its operands as arrays and brought together."""
        for name in self.operand_names:
            value = taken[name]
            if value is None or isinstance(value, _ARRAYS) or self._is_fixed(name, value):
                continue
            if type(value) is tuple:
                taken[name] = tuple([x if isinstance(x, _ARRAYS) else constant(x) for x in value])
            else:
                taken[name] = constant(value)
        for together, names in self.groups:
            values = _values(taken, names)
            if values:
                _replace(taken, names, together(self.operation, values))
        return self.body(**taken)

    def _is_fixed(self, name: str, value: Any) -> bool:
        """Whether an operand is a number, or a tuple of them, that is part of the program."""
        if not self.kinds[name].fixed:
            return False
        if type(value) is tuple:
            return all(type(x) in _NUMBERS for x in value)
        return type(value) in _NUMBERS

    def _evaluated(
        self,
        program: CompiledFunction,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        taken: dict[str, Any],
        known: bool,
    ) -> Any:
        """A call outside of traces that record: one executable, or one equation. An operand that is
        None is left out, and a number that is part of the program is none. `known`: whether the
        call is remembered."""
        rows: list[tuple[Any, int | None, tuple[Any, ...]]] = []
        passed = {*map(id, args), *map(id, kwargs.values())}
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
        operands = [x for _, _, values in rows for x in values]
        static = {"names": tuple([(name, count) for name, count, _ in rows]), **taken}
        out = program(*operands, **static)
        if known and _trace(None) is None and not _settings().looks_at_results:
            self._learn(program, args, kwargs, operands, static)
        return out

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
        """Remembers a call whose operands are arrays, or numbers that are part of it."""
        named = sorted(kwargs)
        # The arrays that are passed, and the parameters that they are passed for.
        leaves: list[Any] = []
        owners: list[str | None] = []
        fixed: list[int | str] = []
        code, rest = self.function.__code__, _rest_name(self.function)
        by_position = (*code.co_varnames[: code.co_argcount], *(rest,) * len(args))
        passed: list[tuple[int | str, Any]] = [*enumerate(args)]
        passed += [(name, kwargs[name]) for name in named]
        for place, value in passed:
            own = [value] if type(value) is Array else value if type(value) in _SEQUENCES else ()
            if own and all(type(x) is Array for x in own):
                leaves += own
                owners += [by_position[place] if isinstance(place, int) else place] * len(own)
            else:
                fixed.append(place)
        # An array that was not passed is a number in the dtype of the others.
        plain = all(type(x) is Array or type(x) in _CONSTANTS for _, x in passed)
        consts, kept = [], []
        names = [x for x, count in static["names"] for _ in range(1 if count is None else count)]
        for name, value in zip(names, operands, strict=True):
            for i, x in enumerate(leaves):
                if x is value and owners[i] == name and i not in kept:
                    kept.append(i)
                    break
            else:
                if kept or not (type(value) in _NUMBERS or (plain and type(value) is Array)):
                    return
                consts.append(as_array(value))
        # There is an array that is no operand.
        if len(kept) < len(leaves):
            return
        if self._learnt >= _MOST_CALLS:
            self.forget_calls()
            self._learnt = 0
        self._learnt += 1
        types = [x.type for x in leaves]
        call = self._call(program, operands, static, consts, kept, types)
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
        select = body.selection()
        if select is not None:
            return PythonRun(types, lambda leaves: select([*consts, *(leaves[i] for i in kept)]))
        executable = program.program(arrays, static)
        as_passed = not consts and kept == list(range(len(kept)))
        out_tree = tree.structure(body.result([0] * len(body.jaxpr.outputs)))
        call = CompiledCall(executable, consts, None if as_passed else kept, list(types), out_tree)
        if rounded_inputs(body.jaxpr).inputs:
            run = program.prepared(arrays, static)

            def watched(leaves: Sequence[Any]) -> Any:
                given = [*consts, *(leaves[i] for i in kept)]
                return run([x._buffer for x in given], given)

            return call.running_by(watched)
        return call

    def forget_programs(self) -> None:
        """Drops all calls and executables."""
        self.forget_calls()
        self.recordings.clear()
        self._learnt = 0


def array_function(body: F) -> F:
    """Makes a public function of arrays from a body whose parameters are annotated with kinds."""
    return ArrayFunction(body)  # type: ignore[return-value]


def python_function(body: F) -> F:
    """Makes a public function whose arguments are taken by their kinds and whose body runs as
    Python: it reads values, or hands on to other functions of arrays."""
    return ArrayFunction(body, program=None)  # type: ignore[return-value]


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


def _operation(function: Callable[..., Any]) -> str:
    """The name of a function in errors."""
    rooms = [part for part in function.__module__.split(".") if part in _ROOMS]
    return ".".join([*rooms, function.__name__.lstrip("_")])


def _values(taken: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """The operands of these names in a row."""
    values: list[Any] = []
    for name in names:
        value = taken[name]
        values += value if type(value) is tuple else () if value is None else (value,)
    return values


def _replace(taken: dict[str, Any], names: Sequence[str], values: Sequence[Any]) -> None:
    """Puts other values in the place of the operands of these names."""
    rest = iter(values)
    for name in names:
        value = taken[name]
        if type(value) is tuple:
            taken[name] = tuple(itertools.islice(rest, len(value)))
        elif value is not None:
            taken[name] = next(rest)


def _rest_name(function: Callable[..., Any]) -> str | None:
    """The name of the parameter `*name`."""
    code = function.__code__
    several = code.co_flags & inspect.CO_VARARGS
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if several else None


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters as they are written."""
    code = function.__code__
    by_position, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = _rest_name(function)
    several = () if rest is None else (rest,)
    return (*code.co_varnames[:by_position], *several, *code.co_varnames[by_position:count])


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes all its arguments by name."""
    code, rest = function.__code__, _rest_name(function)
    first = code.co_varnames[: code.co_argcount if rest else code.co_posonlyargcount]
    if not first and rest is None:
        return function

    def named(**given: Any) -> Any:
        several = () if rest is None else given.pop(rest)
        return function(*[given.pop(name) for name in first], *several, **given)

    return named


def _kind(hint: Any) -> Kind:
    """The kind in an annotation; `Operand | None` takes None besides."""
    options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    for option in options:
        for note in getattr(option, "__metadata__", ()):
            if isinstance(note, Kind):
                if type(None) not in options:
                    return note
                wrong = tuple(x for x in note.wrong if x is not None)
                return dataclasses.replace(note, plain=note.plain | NONE, wrong=wrong)
    raise WeftTypeError("a parameter of a function of arrays has a kind", got=f"{hint}")


def _binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function of the same signature that returns its arguments as a tuple. Binding is Python's
    own then, with its errors and its speed."""
    code, names, rest = function.__code__, _parameters(function), _rest_name(function)
    first, by_position = code.co_posonlyargcount, code.co_argcount
    parts = [*names[:first], *["/"] * bool(first), *names[first:by_position]]
    if rest is not None:
        parts += [f"*{rest}", *names[by_position + 1 :]]
    elif code.co_kwonlyargcount:
        parts += ["*", *names[by_position:]]
    made = eval(f"lambda {', '.join(parts)}: ({', '.join(names)},)")
    named = made.__code__.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    binder = types.FunctionType(named, {}, code.co_name, function.__defaults__)
    binder.__kwdefaults__ = function.__kwdefaults__
    return binder
