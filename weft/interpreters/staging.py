"""Staging: runs a Python function on tracers that record every primitive into a jaxpr.

Recording is the hot path of the whole system, so it does little: look the result type up in the
primitive's cache, note the user's line, append an equation. Every array that the function closes
over becomes an input of the jaxpr (by identity, once); scalars become literals.

Checks of the functions that users pass, and of their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.base.util import collection_paused
from weft.core import rules
from weft.core.array_value import array_of_value, array_values
from weft.core.axes import mesh_axes
from weft.core.check import checked, equally_varying, result_types
from weft.core.effects import RefType
from weft.core.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from weft.core.primitive import Primitive
from weft.core.rules import LinearOperand, Types, not_linear
from weft.core.trace import (
    Trace,
    Tracer,
    check_leaks,
    current_variable,
    function_as_parameter,
    leaked,
    running,
)
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    AxisError,
    Fix,
    GuardError,
    WeftError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import describe_value, not_a_function
from weft.ops.collectives.all_reduce import pbroadcast_p
from weft.ops.structural.constants import inline_consts

_SCALARS = (bool, int, float, complex, np.generic)
_current_source = sources.current


class StagingTracer(Tracer):
    """A value of the jaxpr being recorded; `_var` is its variable there, or a literal.

    Args:
        var: The variable of the jaxpr that the tracer stands for, or a literal.
        created: The user's line that made it, as `weft.extend.source.current()` gives it; None if
            not known.
    """

    __slots__ = ("_var",)

    _trace: StagingTrace
    _var: Atom

    def __init__(self, trace: StagingTrace, var: Atom, created: Any) -> None:
        self._trace = trace
        self._var = var
        self.type = var.type
        self.created = created

    def concrete(self) -> Any:
        atom = self._var
        return np.asarray(atom.value, atom.type.dtype) if type(atom) is Literal else None


class StagingTrace(Trace):
    """Records equations; `consts` maps the identity of a closed-over value to its variable."""

    __slots__ = (
        "around",
        "captured",
        "casts",
        "constants",
        "consts",
        "eqns",
        "inputs",
        "linear",
        "makers",
        "references",
        "sorted_eqns",
    )

    def __init__(self, parent: Trace | None, name: str, function: str = "") -> None:
        super().__init__(parent, name, function)
        # The trace under which this one records.
        self.around: Trace | None = current_variable.get(None)
        self.eqns: list[Equation] = []
        self.inputs: list[Var] = []
        # The value is kept beside its variable: an identity is only good while the object lives.
        self.consts: dict[int, tuple[Var, Any]] = {}
        # Casts of values to more varying mesh axes: one cast serves all uses.
        self.casts: dict[tuple[Var, frozenset[str]], Var] = {}
        # Inputs without a derivative, and whether only the inputs have one (a linear jaxpr).
        self.constants: set[Var] = set()
        self.linear = False
        # The equations that compute variables, as far as `maker` has looked.
        self.makers: dict[Var, Equation] = {}
        self.sorted_eqns = 0
        # NumPy arrays, by identity, and the copy that was made of each.
        self.captured: dict[int, tuple[np.ndarray[Any, Any], Array]] = {}
        # References from outside, by identity, and what stands for each (see `weft.refs`).
        self.references: dict[int, Any] = {}

    def new_input(self, type: ArrayType, created: Any = None) -> StagingTracer:
        """A tracer for one more input of the jaxpr."""
        var = Var(type)
        self.inputs.append(var)
        return StagingTracer(self, var, created)

    def constant(self, value: Any) -> Atom:
        """The atom of a value from outside: a literal, or a closed-over input."""
        known = self.consts.get(id(value))
        if known is not None:
            return known[0]
        if isinstance(value, Tracer):
            if not value._trace.alive:
                raise leaked(value)
        elif isinstance(value, _SCALARS) or (isinstance(value, np.ndarray) and not value.ndim):
            type = type_of(value)
            if isinstance(value, np.ndarray):
                value = value[()]
            if type.dtype.kind != "V" or not type.dtype.names:  # float0 has no literal
                return Literal(value, type)
        elif isinstance(value, np.ndarray) and value.dtype != dtypes.float0:
            return self.constant(self.capture(value))
        elif isinstance(value, LinearOperand):
            raise not_linear(value)
        elif value.__class__ in array_values:
            return self.constant(array_of_value(value))
        var = Var(type_of(value))
        self.consts[id(value)] = (var, value)
        return var

    def constant_tracer(self, value: Any) -> StagingTracer:
        """A tracer of a value from outside, for a number of a literal."""
        return StagingTracer(self, self.constant(value), None)

    def capture(self, value: np.ndarray[Any, Any]) -> Array:
        """A copy of a NumPy array, which the user's program may change later."""
        known = self.captured.get(id(value))
        if known is not None:
            seen = np.asarray(known[1])
            if np.array_equal(seen, value.astype(seen.dtype, copy=False)):
                return known[1]
        copy = as_array(value)
        self.captured[id(value)] = (value, copy)
        return copy

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        if not primitive.memoise:
            stage = rules.stage.get(primitive)
            if stage is not None:
                args, params = stage(args, params)
        inputs: list[Atom] = []
        types: Any = []
        for value in args:
            if type(value) is StagingTracer and value._trace is self:
                atom: Atom = value._var
            else:
                atom = self.constant(value)
            inputs.append(atom)
            types.append(atom.type)
        types = tuple(types)
        try:
            out = primitive.type_cache[(types, tuple(params.items())) if params else types]
        except (KeyError, TypeError):
            out = None  # The errors of the type rule are not to be chained to this one.
        if out is None:
            if not primitive.memoise:
                inputs, params = self.retyped(primitive, inputs, params)
                types = tuple(atom.type for atom in inputs)
            elif not equally_varying(types):
                inputs = self.joined(primitive, inputs)
                types = tuple(atom.type for atom in inputs)
            out = result_types(primitive, types, params)
        source = _current_source()
        if primitive.multiple_results:
            outputs = [Var(t) for t in out]
            self.eqns.append(Equation(primitive, inputs, params, outputs, source))
            return [StagingTracer(self, var, source) for var in outputs]
        var = Var(out)
        self.eqns.append(Equation(primitive, inputs, params, [var], source))
        return StagingTracer(self, var, source)

    process_call = function_as_parameter

    # Casts are inserted where jaxprs are recorded, since only recorded jaxprs are transposed: the
    # cast of a tangent, transposed, is the sum that its cotangent needs. Types that differ in this
    # way are never in the primitive's type cache, so that recording is as fast as without.

    def joined(self, primitive: Primitive, inputs: Sequence[Atom]) -> list[Atom]:
        """The operands cast to the union of the mesh axes along which they vary."""
        union: frozenset[str] = frozenset().union(*(atom.type.varying for atom in inputs))
        return self.varied(primitive, inputs, [union] * len(inputs))

    def retyped(
        self, primitive: Primitive, inputs: list[Atom], params: dict[str, Any]
    ) -> tuple[list[Atom], dict[str, Any]]:
        """The operands and parameters of a primitive that holds jaxprs, fitted to each other. Casts
        inside become casts of operands."""
        rule = rules.retype.get(primitive)
        if rule is None or not mesh_axes():
            return inputs, params
        types, params = rule([atom.type for atom in inputs], params)
        inputs = self.varied(primitive, inputs, [type.varying for type in types])
        rule = rules.hoist.get(primitive)
        found = None if rule is None else rule(params)
        if found is None:
            return inputs, params
        operands, params = found
        return [self.hoisted(primitive, inputs[i], *cast) for i, *cast in operands], params

    def hoisted(
        self, primitive: Primitive, atom: Atom, axes: frozenset[str], source: sources.Source | None
    ) -> Atom:
        """An operand cast along these axes, for a cast of the line `source` inside."""
        with sources.override(source):
            return self.varied(primitive, [atom], [atom.type.varying | axes], written=True)[0]

    def varied(
        self,
        primitive: Primitive,
        inputs: Sequence[Atom],
        wanted: Sequence[frozenset[str]],
        written: bool = False,
    ) -> list[Atom]:
        """The operands cast to vary along these mesh axes; see `cast`."""
        out: list[Atom] = []
        for atom, axes in zip(inputs, wanted, strict=True):
            missing = axes - atom.type.varying
            if not missing:
                out.append(atom)
            elif isinstance(atom, Literal):
                out.append(Literal(atom.value, atom.type.update(varying=axes)))
            else:
                out.append(self.cast(primitive, atom, missing, inputs, written))
        return out

    def cast(
        self,
        primitive: Primitive,
        var: Var,
        axes: frozenset[str],
        operands: Sequence[Atom],
        written: bool = False,
    ) -> Var:
        """A variable of a value cast to vary along more axes. With explicit casts it is an error
        unless this one is `written` in the program.

        The cast applies to the smallest array of which the value was made: bias and weights before
        they are broadcast, so that the transpose sums on each device first.
        """
        known = self.casts.get((var, axes))
        if known is None:
            made = self.maker(var)
            # A view is repeated on the cast of its operand.
            if made is not None and made.primitive.facts.view and type(made.inputs[0]) is Var:
                source = self.cast(primitive, made.inputs[0], axes, operands, written)
                eqn, params = made.primitive, made.params
            else:
                explicit = {axis.name for axis in mesh_axes() if axis.explicit} & axes
                if explicit and not written and not self.is_constant(var):
                    raise implicit_cast(primitive, var.type, explicit, [x.type for x in operands])
                source, eqn, params = var, pbroadcast_p, {"axis_name": tuple(sorted(axes))}
            known = self.process_primitive(eqn, [StagingTracer(self, source, None)], params)._var
            if eqn is pbroadcast_p:
                self.eqns[-1].source = sources.inserted_cast(self.eqns[-1].source)
            self.casts[var, axes] = known
        return known

    def maker(self, var: Atom) -> Equation | None:
        """The equation that computes a variable; None for an input and a literal."""
        for eqn in self.eqns[self.sorted_eqns :]:
            self.makers.update(dict.fromkeys(eqn.outputs, eqn))
        self.sorted_eqns = len(self.eqns)
        return self.makers.get(var)  # type: ignore[arg-type]

    def is_constant(self, var: Var) -> bool:
        """Whether no derivative goes through a value: it is computed from numbers or closed-over
        arrays, and in a linear jaxpr from anything but its inputs."""
        pending, seen = [var], {var}
        while pending:
            last = pending.pop()
            eqn = self.maker(last)
            if eqn is not None:
                fresh = {x for x in eqn.inputs if type(x) is Var} - seen
                seen |= fresh
                pending += fresh
            elif last not in self.constants and not self.is_captured(last):
                return False
        return True

    def name_origins(self, error: WeftError, names: Sequence[str]) -> None:
        """Adds to an error about a value the names of the inputs that it is computed from; `names`
        are those of the last inputs."""
        tracer = error._tracer
        if type(tracer) is not StagingTracer or tracer._trace is not self:
            return
        error._tracer = None
        pending, seen = [tracer._var], {tracer._var}
        for var in pending:
            eqn = self.maker(var)
            fresh = {x for x in eqn.inputs if type(x) is Var} - seen if eqn else set()
            seen |= fresh
            pending += fresh
        inputs = self.inputs[len(self.inputs) - len(names) :]
        found = [name for var, name in zip(inputs, names, strict=True) if var in seen]
        if tracer._var in inputs:
            error.got = tracer.origin(found[0])
        elif found:
            which = "arguments" if len(found) > 1 else "argument"
            error.got = f"{tracer.origin()}, from the {which} {', '.join(found)}"

    def is_captured(self, var: Var) -> bool:
        """Whether a variable is a value from outside that is not differentiated here."""
        return any(
            own is var and (self.linear or not isinstance(value, Tracer))
            for own, value in self.consts.values()
        )

    def atom(self, value: Any) -> Atom:
        """The atom of a result: a tracer of this trace, or any value from outside."""
        if type(value) is StagingTracer and value._trace is self:
            return value._var
        return self.constant(value)

    def build(
        self, outputs: Sequence[Atom], name: str = "", references: bool = False
    ) -> tuple[Jaxpr, list[Any]]:
        """The finished jaxpr and the values of its closed-over inputs. Raises
        WeftNotImplementedError for a reference among these, unless `references`."""
        if self.references and not references:
            raise no_references(self)
        if not self.consts:
            return checked(Jaxpr(self.inputs, self.eqns, outputs, 0, name)), []
        consts = list(self.consts.values())
        inputs = [var for var, _ in consts] + self.inputs
        jaxpr = checked(Jaxpr(inputs, self.eqns, outputs, len(consts), name))
        return jaxpr, [value for _, value in consts]


def implicit_cast(
    primitive: Primitive, of: ArrayType, axes: Iterable[str], types: Sequence[ArrayType]
) -> AxisError:
    """The error for operands that vary differently where casts must be explicit.

    Args:
        of: The type of the operand that varies along fewer axes.
        axes: The mesh axes along which it would have to vary.
        types: The types of all operands.
    """
    names = tuple(sorted(axes))
    message = (
        f"{primitive.name}: the operands vary along different mesh axes, and casts are explicit "
        "here (auto_pbroadcast=False)"
    )
    got, wanted = ", ".join(map(str, types)), f"all of them varying along {list(names)}"
    fix = Fix(
        "pbroadcast",
        f"cast the operand of type {of}: lax.pbroadcast(x, {names!r})",
        {"axes": names, "type": of},
    )
    return AxisError(message, operation=primitive.name, got=got, wanted=wanted, fix=fix)


def function_name(function: Any) -> str:
    """The name of a function in messages and jaxprs.

    Args:
        function: Any callable.
    """
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def _no_tracing(transformation: str, name: str) -> GuardError:
    message = f"{transformation} of {name} is about to be traced, and the setting no_tracing is on"
    wanted = "a call that is served by a trace made before"
    fix = Fix("setting", "trace it before: call it once, with arguments of the same types")
    return GuardError(message, operation=transformation, got=name, wanted=wanted, fix=fix)


@check_leaks
def trace_to_jaxpr(
    function: Callable[..., Sequence[Any]],
    in_types: Sequence[ArrayType],
    *,
    transformation: str,
    name: str,
    input_names: Callable[[], Sequence[str]] | None = None,
    references: bool = False,
) -> tuple[Jaxpr, list[Any]]:
    """Records a function from a flat list of values to a flat list of values.

    The closed-over values that come with the jaxpr may be tracers of an enclosing trace, and with
    `references` references from outside (see `weft.refs`), of which each is refused otherwise.
    `input_names` gives the names of the last inputs, for errors.

    Args:
        function: The function, called with one tracer per input.
        in_types: The types of its arguments.
        transformation: Who records, in messages, such as "jit".
        name: The name of the jaxpr.
        input_names: Returns the names of the last inputs, for errors; None if they have none.
        references: Whether the function may close over references from outside.

    >>> from weft.extend.core import ArrayType, trace_to_jaxpr
    >>> jaxpr, consts = trace_to_jaxpr(
    ...     lambda x, y: [x * y], [ArrayType((2,), "float32")] * 2, transformation="show", name="f"
    ... )
    >>> jaxpr
    { lambda ; a:f32[2] b:f32[2]. let
        c:f32[2] = mul a b
      in (c,) }
    """
    if config.host_settings().no_tracing:
        raise _no_tracing(transformation, name)
    trace = StagingTrace(None, transformation, name)
    created = sources.current()
    tracers = []
    for type in in_types:
        tracers.append(trace.new_input(type, created))
    with running(trace), collection_paused(), sources.new_program():
        try:
            outs = function(*tracers)
        except WeftError as error:
            if error._tracer is not None and input_names is not None:
                trace.name_origins(error, input_names())
            raise
        return trace.build([*map(trace.atom, outs)], name, references)


def no_references(trace: StagingTrace) -> WeftNotImplementedError:
    """The error for a reference in a function whose operation takes none."""
    value = next(ref for _, ref in trace.consts.values() if id(ref) in trace.references)
    of = f" of {trace.function}" if trace.function else ""
    message = f"{trace.name}{of}: the function uses a reference from outside"
    got = f"a reference of type {value.type}, made at {sources.describe(value.created)}"
    fix = Fix("value", "read it before, x = ref[...], and use the array")
    return WeftNotImplementedError(message, got=got, wanted="a function of arrays", fix=fix)


def rebuild(function: Callable[..., Sequence[Any]], types: Types, name: str, what: str) -> Jaxpr:
    """Traces a function that evaluates other jaxprs; closed-over arrays become constants."""
    jaxpr, consts = trace_to_jaxpr(function, types, transformation=what, name=name)
    return inline_consts(jaxpr, consts)


def leaf_paths(structure: Any) -> list[str]:
    """The path of each leaf of a structure, as text."""
    dummy = structure.unflatten(range(structure.num_leaves))
    return [tree.keystr(path) for path, _ in tree.leaves_with_path(dummy)]


def check_function(
    operation: str,
    function: Any,
    place: str = "first",
    wanted: str = "a function",
    fix: Fix | None = None,
) -> str:
    """The name of a function. Raises WeftTypeError for a value that is not callable."""
    if callable(function):
        return function_name(function)
    raise not_a_function(operation, function, wanted, fix, place)


def check_results(out: Any, leaves: Sequence[Any], what: str) -> list[Any]:
    """The leaves of a function's result. Raises WeftTypeError naming one that is not an array."""
    checked: list[Any] = []
    for i, leaf in enumerate(leaves):
        if type(leaf) is StagingTracer:
            checked.append(leaf)
            continue
        try:
            type_of(leaf)
        except WeftTypeError:
            path, _ = tree.leaves_with_path(out)[i]
            if isinstance(getattr(leaf, "type", None), RefType):
                raise _returned_reference(what, leaf, path) from None
            message = f"{what} returned a value that is no array" + (
                f" at {tree.keystr(path)}" if path else ""
            )
            got, wanted = describe_value(leaf), "arrays, numbers, or a tree of those"
            raise WeftTypeError(message, operation=what, got=got, wanted=wanted) from None
        checked.append(user_value(leaf))
    return checked


def _returned_reference(what: str, ref: Any, path: Any) -> WeftValueError:
    message = f"{what} returned a reference" + (f" at {tree.keystr(path)}" if path else "")
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("return_value", "return its array, weft.freeze(ref) or ref[...]")
    wanted = "arrays: a reference does not leave the function that made it"
    return WeftValueError(message, operation=what, got=got, wanted=wanted, fix=fix)
