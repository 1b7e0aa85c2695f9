"""Public functions of arrays: a pure body, and a signature of kinds.

A call binds its arguments and takes each by its kind (`weft.kinds.kind`). What is left are operands
and static values. Called eagerly the body runs as one executable, which is found by the static
values and the signatures of the operands. While a jaxpr is recorded the body is simply called, so
that its primitives stand in the jaxpr; under an eager transformation it becomes one equation.

A call that was made before is known by its arguments as they are passed (`KnownCalls`): arrays by
their signatures, anything else by class and value. That is safe, because a kind is a function of
these alone, and so is everything that the body reads.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from weft import config, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.program_caches import holds_programs
from weft.core.trace import Tracer, current_variable
from weft.core.types import type_of
from weft.dispatch.executable_calls import CompiledCall
from weft.dispatch.known_calls import KnownCalls, learn
from weft.errors import WeftError, trim
from weft.interpreters.rounded_inputs import rounded_inputs
from weft.interpreters.staging import StagingTrace
from weft.kinds.compiled_functions import CompiledFunction, records
from weft.kinds.kind import Arguments, Kind

__all__ = ["ArrayFunction", "array_function"]

F = TypeVar("F", bound=Callable[..., Any])
_settings = config.settings
_trace = current_variable.get
_ARRAYS = (Array, Tracer)
_NUMBERS = frozenset({bool, int, float, complex})
# Calls that are known, of one function. With an argument that is new at each call they would fill
# the memory.
_MOST_CALLS = 4096


class ArgumentStep(NamedTuple):
    """How one argument is taken: its position if it is passed by that, its name, what its kind
    says, and whether it is the first operand."""

    place: int | None
    name: str
    take: Callable[[Any, Arguments], Any]
    plain: frozenset[int]
    arrays: bool
    first: bool


class CallForm(NamedTuple):
    """How the calls are taken that pass arguments in one way: the defaults in order, and a step for
    each argument that has to be taken. Those come last that depend on others."""

    defaults: dict[str, Any]
    steps: list[ArgumentStep]


class ArrayFunction(KnownCalls):
    """A function of arrays; made by `array_function`."""

    def __init__(self, body: Callable[..., Any]) -> None:
        functools.update_wrapper(self, body)
        self.function = body
        self.body = _by_name(body)
        self.operation = body.__name__
        self.program = CompiledFunction(self._apply, name=self.operation)
        self.forms: dict[tuple[Any, ...], CallForm] = {}
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

    def _unknown_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            taken = self._taken(args, kwargs)
            trace = _trace(None)
            if trace is not None and (type(trace) is StagingTrace or records(trace)):
                return self.body(**taken)
            return self._evaluated(args, kwargs, taken)
        except Exception as error:
            if isinstance(error, WeftError) and error.operation is None:
                error.operation = self.operation
                error.message = f"{self.operation}: {error.message}"
            trim(error)
            raise

    def _taken(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, each taken by its kind."""
        form = self.forms.get((len(args), *kwargs)) or self._form(args, kwargs)
        taken = Arguments(form.defaults)
        taken.operation = self.operation
        for i, name, take, plain, arrays, first in form.steps:
            value = args[i] if i is not None else kwargs[name] if name in kwargs else taken[name]
            if arrays and isinstance(value, _ARRAYS):
                if first:
                    taken.type = value.type
            else:
                if id(value) not in plain:
                    taken.name = name
                    value = take(value, taken)
                if first:
                    taken.type = type_of(value)
            taken[name] = value
        return taken

    def _form(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallForm:
        """How calls with so many arguments by position, and with these names, are taken. Raises
        Python's own TypeError for arguments that the signature does not have."""
        values = self.bind(*args, **kwargs)
        names = tuple(self.kinds)
        given = {*names[: len(args)], *kwargs}
        defaults = dict(zip(names, values, strict=True))
        steps = []
        for i, (name, kind) in enumerate(sorted(self.kinds.items(), key=lambda row: row[1].late)):
            if name in given or id(defaults[name]) not in kind.plain_ids:
                place = names.index(name) if name in names[: len(args)] else None
                first = not i and not kind.static
                steps.append(
                    ArgumentStep(place, name, kind.take, kind.plain_ids, kind.arrays, first)
                )
        # None holds the place of what is passed.
        form = CallForm(defaults | dict.fromkeys(given), steps)
        self.forms[len(args), *kwargs] = form
        return form

    def _evaluated(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], taken: dict[str, Any]
    ) -> Any:
        """A call outside of traces that record: one executable, or one equation. An operand that is
        None is left out, and a number that is part of the program is none."""
        operands = {}
        for name in self.operand_names:
            value = taken[name]
            if not (self.kinds[name].fixed and type(value) in _NUMBERS):
                del taken[name]
                if value is not None:
                    operands[name] = value
        # Numbers first, as the constants of a known call are.
        operands = {n: x for n, x in operands.items() if type(x) in _NUMBERS} | operands
        out = self.program(*operands.values(), names=(*operands,), **taken)
        if _trace(None) is None and not _settings().looks_at_results:
            self._learn(args, kwargs, operands, taken)
        return out

    def _apply(self, *operands: Any, names: tuple[str, ...], **static: Any) -> Any:
        """The body, given its operands in order."""
        missing = dict.fromkeys(self.operand_names)
        return self.body(**missing | dict(zip(names, operands, strict=True)) | static)

    # ---- known calls -----------------------------------------------------------------------------

    def _learn(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: dict[str, Any],
        static: dict[str, Any],
    ) -> None:
        """Remembers a call whose operands are arrays, or numbers that are part of it."""
        passed = [*args, *(kwargs[name] for name in sorted(kwargs))]
        leaves = [x for x in passed if type(x) is Array]
        consts, kept = [], []
        for value in operands.values():
            if type(value) in _NUMBERS:
                consts.append(as_array(value))
                continue
            number = next((i for i, x in enumerate(leaves) if x is value), None)
            if number is None:
                return
            kept.append(number)
        # One that is passed twice, or is no operand, is not told apart.
        if sorted(kept) != list(range(len(leaves))):
            return
        if self._learnt >= _MOST_CALLS:
            self.forget_calls()
            self._learnt = 0
        self._learnt += 1
        fixed: list[int | str] = [i for i, x in enumerate(args) if type(x) is not Array]
        fixed += [name for name, x in kwargs.items() if type(x) is not Array]
        types = [x.type for x in leaves]
        learn(self, args, kwargs, fixed, leaves, self._call(operands, static, consts, kept, types))

    def _call(
        self,
        operands: dict[str, Any],
        static: dict[str, Any],
        consts: list[Array],
        kept: list[int],
        types: Sequence[Any],
    ) -> CompiledCall:
        static = {"names": (*operands,), **static}
        arrays = [as_array(x) for x in operands.values()]
        program = self.program.program(arrays, static)
        body = self.program.body([x.type for x in arrays], static)
        as_passed = not consts and kept == list(range(len(kept)))
        out_tree = tree.structure(0 if body.single else (0,) * len(body.jaxpr.outputs))
        call = CompiledCall(program, consts, None if as_passed else kept, list(types), out_tree)
        if rounded_inputs(body.jaxpr).inputs:
            run = self.program.prepared(arrays, static)

            def watched(leaves: Sequence[Any]) -> Any:
                given = [*consts, *(leaves[i] for i in kept)]
                return run([x._buffer for x in given], given)

            return call.running_by(watched)
        return call

    def forget_programs(self) -> None:
        """Drops all calls and executables."""
        self.forget_calls()
        self._learnt = 0


def array_function(body: F) -> F:
    """Makes a public function of arrays from a body whose parameters are annotated with kinds."""
    return ArrayFunction(body)  # type: ignore[return-value]


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _by_name(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes all its arguments by name."""
    first = _parameters(function)[: function.__code__.co_posonlyargcount]
    if not first:
        return function
    return lambda **given: function(*[given.pop(name) for name in first], **given)


def _kind(hint: Any) -> Kind:
    return next(x for x in hint.__metadata__ if isinstance(x, Kind))


def _binder(function: Any) -> Callable[..., tuple[Any, ...]]:
    """A function of the same signature that returns its arguments as a tuple. Binding is Python's
    own then, with its errors and its speed."""
    code = function.__code__
    names = _parameters(function)
    first, by_position = code.co_posonlyargcount, code.co_argcount
    parts = [*names[:first], *["/"] * bool(first), *names[first:by_position]]
    parts += ["*", *names[by_position:]] if code.co_kwonlyargcount else []
    made = eval(f"lambda {', '.join(parts)}: ({', '.join(names)},)")
    named = made.__code__.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    binder = types.FunctionType(named, {}, code.co_name, function.__defaults__)
    binder.__kwdefaults__ = function.__kwdefaults__
    return binder
