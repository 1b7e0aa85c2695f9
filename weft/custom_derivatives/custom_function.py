"""The base class of functions with custom derivatives, and the parts of one call of them.

Keyword arguments and defaults become positional ones by the function's signature, so that a rule
gets each argument by position. Some arguments may be any Python objects; the others are trees of
arrays. Traced values that a call closes over become operands before its arguments.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.core.primitive import Primitive
from weft.core.shared_jaxprs import structure_parts
from weft.core.trace import Tracer, bottom_trace, current_variable
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    DTypeError,
    Fix,
    LeakedTracerError,
    MissingDerivativeError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
    name_error,
    trim,
)
from weft.errors.argument_errors import not_an_array
from weft.interpreters.staging import check_function, check_results, function_name
from weft.ops.elementwise.convert import beside_float64, convert_element_type
from weft.ops.structural.shape import broadcast_in_dim_p
from weft.ops.structural.tangents import zeros
from weft.refs.discharge import has_references
from weft.refs.reference import Ref
from weft.tracing.closure_lifting import TracedValues
from weft.tracing.traces import HoldsTraces

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")

_trace = current_variable.get
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SymbolicZero:
    """A tangent or cotangent that is known to be zero, as rules with `symbolic_zeros` see it.

    It has the shape and dtype of the zeros it stands for, and no values.

    >>> from weft.custom_derivatives import SymbolicZero
    >>> SymbolicZero.from_primal_value(jnp.arange(3.0))
    SymbolicZero(f32[3])
    """

    __slots__ = ("_type",)

    def __init__(self, aval: ArrayType) -> None:
        self._type = aval

    @classmethod
    def from_primal_value(cls, val: Any) -> SymbolicZero:
        """The zero tangent of a value; of integers and booleans it has the dtype float0."""
        return cls(type_of(user_value(val)).tangent())

    @property
    def aval(self) -> ArrayType:
        """The type of the zeros."""
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self._type.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the zeros."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._type.ndim

    @property
    def size(self) -> int:
        """The number of zeros."""
        return self._type.size

    @property
    def weak_type(self) -> bool:
        """Whether the zeros yield to other dtypes, as Python numbers do."""
        return self._type.weak_type

    def __repr__(self) -> str:
        return f"SymbolicZero({self._type})"


class PositionalFunction(HoldsTraces, Generic[P, R]):
    """A function that gets all arguments by position: keyword arguments and defaults are resolved
    by its signature, for the user's rules."""

    kind: str

    def __init__(self, fun: Callable[P, R]) -> None:
        self._name = check_function(self.kind, fun)
        functools.update_wrapper(self, fun)
        self._function = fun
        self._what = f"{self.kind} of {self._name}"
        try:
            self._signature: inspect.Signature | None = inspect.signature(fun)
        except (TypeError, ValueError):  # builtin functions may have none
            self._signature = None
        parameters = list(self._signature.parameters.values()) if self._signature else []
        self._names = [p.name for p in parameters if p.kind in _POSITIONAL]
        star = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        # The number of arguments of a call; None where the signature does not fix it.
        self._count = None if star or self._signature is None else len(self._names)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of one call."""
        raise NotImplementedError(f"{type(self).__name__} does not define _call")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result: R = self._call(args, kwargs)
            return result
        except Exception as error:
            name_error(error, self.kind)
            trim(error)
            raise

    @overload
    def __get__(self, instance: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(
        self: PositionalFunction[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def __getattr__(self, name: str) -> Any:
        # Rules of a wrapped function can be set through its wrapper: decorators come first.
        inner = self.__dict__.get("_function")
        if isinstance(inner, PositionalFunction) and name.startswith("def"):
            return getattr(inner, name)
        message = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=self)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, defaults applied."""
        if self._signature is None or (len(args) == self._count and not kwargs):
            if kwargs:
                raise self._unplaced_error(sorted(kwargs))
            return args
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            message = f"{self._what}: the arguments do not fit its signature: {error}"
            got = f"{len(args)} positional arguments and keywords {sorted(kwargs)}"
            wanted = f"{self._name}{self._signature}"
            raise WeftTypeError(message, got=got, wanted=wanted) from None
        # Until defaults are applied, what stands behind a parameter left out counts as a keyword.
        given = bound.kwargs
        bound.apply_defaults()
        if given and (unplaced := sorted(given.keys() & bound.kwargs.keys())):
            raise self._unplaced_error(unplaced)
        return bound.args

    def _unplaced_error(self, names: list[str]) -> WeftTypeError:
        message = (
            f"{self._what}: keyword arguments that have no position cannot be handed to a rule"
        )
        got, wanted = f"keyword arguments {names}", "arguments that can be given by position"
        fix = Fix(
            "positional",
            "make them ordinary parameters of the function (no bare *, no **kwargs)",
            {"names": names},
        )
        return WeftTypeError(message, got=got, wanted=wanted, fix=fix)


class CustomFunction(PositionalFunction[P, R]):
    """The base of `custom_jvp` and `custom_vjp`: the function, its arguments, and its rules, which
    the method named `_define` sets."""

    kind = "custom derivative"
    _define: str
    _primitive: Primitive
    _rules: tuple[Callable[..., Any], ...] = ()
    _symbolic_zeros = False

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(fun)
        self._places = self._nondiff_places(nondiff_argnums, nondiff_argnames)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._rules:
            message = f"{self._what} is called, and has no rule for its derivative yet"
            wanted = f"a rule, set with {self._define}"
            fix = Fix(self._define, f"set the rule with .{self._define}(...) before the first call")
            raise MissingDerivativeError(message, got="no rule", wanted=wanted, fix=fix)
        return self._apply(args, kwargs)

    def _nondiff_places(self, numbers: Any, names: Any) -> tuple[int, ...]:
        try:
            numbers = [operator.index(numbers)]
        except TypeError:
            numbers = [operator.index(i) for i in numbers]
        for name in [names] if isinstance(names, str) else names:
            if name not in self._names:
                message = f"{self._what}: there is no positional parameter {name!r}"
                got = f"nondiff_argnames={names!r}"
                wanted = f"names among {self._names}"
                fix = Fix("remove", f"leave {name!r} out of nondiff_argnames", {"name": name})
                raise WeftValueError(message, operation=self.kind, got=got, wanted=wanted, fix=fix)
            numbers.append(self._names.index(name))
        if self._count is None:
            return tuple(numbers)
        return tuple(sorted({self._place(i, self._count) for i in numbers}))

    def _place(self, number: int, count: int) -> int:
        if not -count <= number < count:
            message = f"{self._what}: nondiff_argnums has {number}, and there are {count} arguments"
            got = f"nondiff_argnums with {number}"
            wanted = f"numbers from 0 to {count - 1}"
            fix = Fix("remove", f"leave {number} out of nondiff_argnums", {"number": number})
            raise WeftValueError(message, operation=self.kind, got=got, wanted=wanted, fix=fix)
        return number % count

    def _split(self, full: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """The argnums of the arguments without derivatives, and the other arguments."""
        places = self._places
        if not places:
            return places, full
        if self._count is None:
            places = tuple(sorted({self._place(i, len(full)) for i in places}))
        return places, tuple([x for i, x in enumerate(full) if i not in places])

    def _rule(self, application: Application) -> Any:
        """The rule of one application."""
        raise NotImplementedError(f"{type(self).__name__} does not define _rule")

    def _apply(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function; under a transformation, binds it together with its rules."""
        full = self._positional(args, kwargs)
        places, given = self._split(full)
        leaves, in_tree = tree.flatten(given)
        leaves = list(beside_float64(leaves))
        for i, leaf in enumerate(leaves):
            if type(leaf) is not Array and type(leaf) is not Ref:
                leaves[i] = self._operand(leaf, i, places, in_tree)
        trace = _trace(None)
        if trace is None or trace is bottom_trace():
            function: Callable[..., Any] = self._function
            out = function(*full)
            if type(out) is Array:
                return out
            outs, out_tree = tree.flatten(out)
            return out_tree.unflatten([as_array(x) for x in check_results(out, outs, self._what)])
        nondiff = [full[i] for i in places]
        names = [self._argument_name(i) for i in range(len(full)) if i not in places]
        functions = [self._function, *self._rules]
        if has_references(leaves):
            functions = self._closing_over(leaves, in_tree, places)
            rest = in_tree.unflatten([None if type(x) is Ref else x for x in leaves])
            leaves, in_tree = tree.flatten(rest)
        application = Application(self, names, functions, nondiff, places, in_tree)
        outs = self._primitive.call(
            application.run,
            *application.tracers,
            *leaves,
            name=application.name,
            rule=self._rule(application),
            captured=application.captured,
        )
        return application.out_tree.unflatten(outs)

    def _closing_over(
        self, leaves: Sequence[Any], in_tree: Any, places: tuple[int, ...]
    ) -> list[Callable[..., Any]]:
        """The function and its rules, which close over the references among the differentiable
        arguments and get None there."""
        refs = tuple(leaf if type(leaf) is Ref else None for leaf in leaves)

        def given(values: Sequence[Any]) -> tuple[Any, ...]:
            found = iter(tree.leaves(tuple(values)))
            full = [next(found) if ref is None else ref for ref in refs]
            return tuple(in_tree.unflatten(full))

        def by_position(args: Sequence[Any]) -> list[Any]:
            own = list(given([x for i, x in enumerate(args) if i not in places]))
            for place in places:
                own.insert(place, args[place])
            return own

        function = self._function_with(self._function, by_position)
        return [function, *self._rules_with(given, by_position)]

    def _function_with(
        self, function: Callable[..., Any], arguments: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Callable[..., Any]:
        """A function that changes its positional arguments first."""

        def changed(*args: Any) -> Any:
            return function(*arguments(args))

        changed.__name__ = function_name(function)
        return changed

    def _rules_with(self, given: Any, by_position: Any) -> list[Callable[..., Any]]:
        """The rules with references put into their arguments: by `given` into a tuple of the
        differentiable ones, by `by_position` into all."""
        raise NotImplementedError(f"{type(self).__name__} does not define _rules_with")

    def _argument_name(self, number: int) -> str:
        return self._names[number] if number < len(self._names) else f"argument {number}"

    def _operand(self, leaf: Any, number: int, places: tuple[int, ...], in_tree: Any) -> Any:
        if isinstance(leaf, Tracer):
            return leaf
        try:
            leaf = user_value(leaf)
            type_of(leaf)
            return leaf
        except WeftTypeError:
            path, _ = tree.leaves_with_path(in_tree.unflatten(range(in_tree.num_leaves)))[number]
            given = [i for i in range(len(places) + len(in_tree.children())) if i not in places]
            place = given[path[0].idx]
            where = f"{self._argument_name(place)}{tree.keystr(path[1:])}"
            numbers = tuple(sorted({*places, place}))
            text = f"make it an argument without derivatives: nondiff_argnums={numbers}"
            fix = Fix("nondiff_argnums", text, {"nondiff_argnums": numbers})
            raise not_an_array(self.kind, f"{self._what}: {where}", leaf, fix=fix) from None


def _is_fixed(value: Any) -> bool:
    """Whether an argument or rule never changes: a number, a name, or a library's function without
    closed-over values."""
    if type(value) is FunctionType:
        return sources.is_internal(value.__code__.co_filename) and not value.__closure__
    return value is None or type(value) in (bool, int, float, str)


class Application:
    """One call of a function with custom derivatives under a transformation.

    Its operands are the traced values that it closes over (`captured` counts those that the
    function reads, those that only rules read, and those in arguments without derivatives), then
    the leaves of the other arguments. `out_tree` and `out_types` are known once the function or a
    rule has run.
    """

    def __init__(
        self,
        function: CustomFunction,
        names: list[str],
        functions: list[Callable[..., Any]],
        nondiff: list[Any],
        places: tuple[int, ...],
        in_tree: Any,
    ) -> None:
        self.kind, self.name, self.what = function.kind, function._name, function._what
        self.symbolic_zeros = function._symbolic_zeros
        self.names = names
        self.functions = functions
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.out_types: list[ArrayType] | None = None
        self._places = places
        self._objects = [*functions, *nondiff]
        self._held = held = TracedValues()
        values = {id(x) for item in nondiff for x in tree.leaves(item) if isinstance(x, Tracer)}
        held.search(functions[0])
        for item in nondiff:
            held.search(item)
        read = len(held.found)
        for rule in functions[1:]:
            held.search(rule)
        closed = [x for x in held.found[:read] if id(x) not in values]
        passive = [x for x in held.found[read:] if id(x) not in values]
        given = [x for x in held.found if id(x) in values]
        self.tracers = [*closed, *passive, *given]
        held.found = self.tracers
        self.captured = (len(closed), len(passive), len(given)) if self.tracers else ()

    def content(self) -> tuple[Any, ...]:
        """The content for `shared`. A rule runs again for each derivative, and a user's may read
        values that have changed: its application is unique. Those of the library read their
        arguments and settings."""
        if self.tracers or not all(map(_is_fixed, self._objects)):
            return (self.run,)
        out_types = None if self.out_types is None else tuple(self.out_types)
        trees = (self.in_tree, self.out_tree)
        return (
            tuple(self._objects), self._places, tuple(self.names), self.symbolic_zeros, out_types,
            *[None if x is None else structure_parts(x) for x in trees],
        )  # fmt: skip

    def open_arguments(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The functions and the arguments without derivatives, with operands in place of
        closed-over values; and the other operands."""
        n, count = len(self.tracers), len(self.functions)
        objects = self._held.replace_traced(self._objects, operands[:n]) if n else self._objects
        return objects[:count], objects[count:], list(operands[n:])

    def arguments(self, nondiff: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """Merges the arguments without derivatives and the others by position."""
        out = list(given)
        for place, value in zip(self._places, nondiff, strict=True):
            out.insert(place, value)
        return out

    def pair(self, found: Any, rule: str, second: str) -> Any:
        """`found`, the (result, `second`) of a rule. Raises WeftTypeError for no pair."""
        if isinstance(found, (tuple, list)) and len(found) == 2:
            return found
        message = f"{self.what}: the {rule} rule returns no pair (result, {second})"
        got = class_and_length(found)
        fix = Fix("pair", f"return (result, {second}) from the {rule} rule")
        raise WeftTypeError(message, operation=self.kind, got=got, wanted="a tuple of two", fix=fix)

    def run(self, *operands: Any) -> list[Any]:
        """Runs the function on operands and returns the leaves of its result."""
        functions, nondiff, leaves = self.open_arguments(operands)
        args = self.arguments(nondiff, self.in_tree.unflatten(leaves))
        out = self.called("the function", functions[0], args)
        outs, self.out_tree = tree.flatten(out)
        outs = check_results(out, outs, self.what)
        self.out_types = [type_of(x) for x in outs]
        return outs

    def called(self, which: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Calls one of the functions; explains the error for a traced value that was not found."""
        try:
            # Its lines are the user's own, also where a recorded jaxpr is evaluated.
            with sources.user_frames():
                return function(*args)
        except LeakedTracerError as error:
            if error.fix is None or not error.fix.data.get("alive"):
                raise
            raise LeakedTracerError(
                f"{self.what}: {which} reads a traced value that is none of its arguments and is "
                "not in its closure",
                operation=self.kind,
                got=error.got,
                wanted="arguments, and variables of the functions around it",
                fix=Fix(
                    "pass_argument",
                    "pass the value as an argument, instead of reading it from an attribute of an "
                    "object or from a global",
                    {"function": self.name},
                ),
            ) from None

    def results(self, out: Any, rule: str) -> list[Any]:
        """The leaves of a rule's result. Raises if it is not like the function's."""
        outs, out_tree = tree.flatten(out)
        if self.out_tree is not None and out_tree != self.out_tree:
            raise check_structure(
                out,
                self.out_tree,
                f"{self.what}: {rule} returns a result of another structure than the function",
                self.kind,
            )
        outs = check_results(out, outs, f"{rule} of {self.what}")
        if self.out_types is not None:
            paths = [path for path, _ in tree.leaves_with_path(out)]
            outs = [
                fit_to_type(
                    x, of, f"{self.what}: the result{tree.keystr(path)} of {rule}", self.kind
                )
                for x, of, path in zip(outs, self.out_types, paths, strict=True)
            ]
        self.out_tree = out_tree
        self.out_types = [type_of(x) for x in outs]
        return outs

    def place(self, path: Any) -> str:
        """The name of a leaf of the differentiable arguments, for messages."""
        return f"{self.names[path[0].idx]}{tree.keystr(path[1:])}"


def check_structure(got: Any, wanted: Any, message: str, operation: str) -> TreeError:
    """The error for a tree that has another structure than `wanted` (a structure)."""
    differ = tree.differences(got, wanted.unflatten(range(wanted.num_leaves)))
    found = str(tree.structure(got)) + "".join(
        f"\n    {tree.keystr(x.path) or 'the top'}: {x.left} instead of {x.right}" for x in differ
    )
    fix = differ[0].fix if differ else None
    return TreeError(message, operation=operation, got=found, wanted=str(wanted), fix=fix)


def fit_to_type(value: Any, wanted: ArrayType, what: str, operation: str) -> Any:
    """A leaf of a rule's result in the wanted type. Only Python numbers are converted, and under
    JAX's rule for arguments every floating-point number. Raises ShapeError or DTypeError for a leaf
    of another shape or dtype."""
    got = type_of(value)
    if got is wanted:
        return value
    if got.shape != wanted.shape:
        message = f"{what} has the shape {got.shape} instead of {wanted.shape}"
        fix = Fix("reshape", f"return it in the shape {wanted.shape}", {"shape": wanted.shape})
        raise ShapeError(message, operation=operation, got=str(got), wanted=str(wanted), fix=fix)
    if got.dtype != wanted.dtype:
        real = got.dtype in dtypes.FLOATING or wanted.dtype in dtypes.COMPLEX
        taken = got.dtype in dtypes.INEXACT and real and (got.weak_type or config.lenient())
        if not taken:
            short = dtypes.short_name(wanted.dtype)
            message = f"{what} has the dtype {got.dtype} instead of {wanted.dtype}"
            found = str(got)
            text = f"convert it to {short}"
            if got.dtype in dtypes.COMPLEX and wanted.dtype not in dtypes.COMPLEX:
                text = "return its real part: x.real"
            fix = Fix("convert", text, {"dtype": wanted.dtype})
            raise DTypeError(message, operation=operation, got=found, wanted=str(wanted), fix=fix)
    elif got.weak_type == wanted.weak_type or got.dtype not in dtypes.ANY:
        return value
    return convert_element_type(value, wanted.dtype, wanted.weak_type)


def class_and_length(value: Any) -> str:
    """The class of a value, and the length of a tuple or a list, for the `got` of errors."""
    length = f" of length {len(value)}" if isinstance(value, (tuple, list)) else ""
    return type(value).__name__ + length


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangents of a tree of values: arrays of zeros (of integers with dtype float0), or
    `SymbolicZero`s where `symbolic_zeros` asks for these.

    >>> from weft.custom_derivatives import zero_from_primal
    >>> zero_from_primal(jnp.arange(2.0)), zero_from_primal(jnp.arange(2.0), True)
    (Array([0., 0.], dtype=float32), SymbolicZero(f32[2]))
    """
    zero = SymbolicZero.from_primal_value
    return tree.map(lambda x: zero(x) if symbolic_zeros else array_of_zero(zero(x)), val)


def is_float0(value: Any) -> bool:
    """Whether `value` is an array of float0, the zero tangents of integers."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtypes.float0


def array_of_zero(value: Any) -> Any:
    """An array of zeros for a `SymbolicZero`, any other value itself."""
    return zeros(value._type) if type(value) is SymbolicZero else value


def vector(value: Any) -> Any:
    """A tangent or cotangent for a rule: a number as an array."""
    if isinstance(value, (Array, Tracer, np.ndarray)):
        return value
    return broadcast_in_dim_p.bind(value, shape=(), broadcast_dimensions=())


def check_rule(what: str, rule: Any) -> None:
    """Raises WeftTypeError for a rule that is not a function."""
    if not callable(rule):
        message = f"{what} takes functions, not {type(rule).__name__}"
        raise WeftTypeError(message, got=type(rule).__name__, wanted="a callable")
