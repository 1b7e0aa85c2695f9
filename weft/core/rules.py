"""The tables of rules, one per kind, keyed by primitive: data that `ops/` and others fill and
`interpreters/` and `lowering/` read.

A table states how rules of its kind are called and registered; `rule_results` checks their
results. The functions of `define.registration`, one per kind, describe the arguments. Parameters
are keyword arguments, in every rule that takes them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from weft import config
from weft.base import source as sources
from weft.base.notebooks import line_text
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, JaxprError, MissingRuleError, WeftError, WeftTypeError, WeftValueError

Rule = Callable[..., Any]

# The types in the signatures of rules.
Values = Sequence[Any]
Params = dict[str, Any]
# The dimension along which each value is mapped; None: not mapped.
Dims = Sequence[int | None]
# Results and their tangents.
Derived = tuple[list[Any], list[Any]]
# Results and the dimensions along which they are mapped.
Mapped = tuple[list[Any], Dims]
# The types that operands are to be cast to, and the parameters for these.
Retyped = tuple[list[ArrayType], Params]
Types = Sequence[ArrayType]


class CastOperand(NamedTuple):
    """An operand after a cast has moved: the old operand at index `operand`, cast to vary along
    mesh axes. `source` is the line that asked for the cast.

    Args:
        axes: The mesh axes along which it is cast to vary.
        operand: The index of the old operand.
        source: The user's line that asked for the cast; None if not known.
    """

    operand: int
    axes: frozenset[str] = frozenset()
    source: sources.Source | None = None


# The operands in place of the old ones, and the parameters for these.
Hoisted = tuple[Sequence[CastOperand], Params]


@dataclasses.dataclass(eq=False, repr=False, slots=True)
class NamedRule:
    """A rule with its kind, its primitive and its function's line, for messages.

    own: it is one of weft's, whose exceptions need no note.
    """

    table: Table
    primitive: Any
    rule: Rule
    own: bool = False

    def __str__(self) -> str:
        inner = self.rule
        while hasattr(inner, "__wrapped__") or isinstance(inner, functools.partial):
            inner = inner.func if isinstance(inner, functools.partial) else inner.__wrapped__
        code = getattr(inner, "__code__", None)
        name = getattr(inner, "__name__", type(inner).__name__)
        line = "" if code is None else f", {line_text(code.co_filename, code.co_firstlineno)}"
        return f"the {self.table.kind} rule of the primitive {self.primitive.name!r} ({name}{line})"

    def error(self, what: str, got: Any, wanted: str, verb: str = "answer with") -> JaxprError:
        """The error for a rule whose result cannot be used."""
        text = f"make the {self.table.kind} rule {verb} {wanted}"
        return self._failure(what, got, wanted, "rule_result", text)

    def _failure(
        self, what: str, got: Any, wanted: str, kind: str, text: str, **data: Any
    ) -> JaxprError:
        data = {"primitive": self.primitive.name, "rule": self.table.kind, **data}
        message = f"{self} {what}"
        fix = Fix(kind, text, data)
        return JaxprError(message, operation=self.primitive.name, got=got, wanted=wanted, fix=fix)

    def run(self, args: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """The result of the rule. An exception inside it gets a note that names the rule and the
        line of the application. Raises JaxprError for a rule that does not take these arguments."""
        try:
            return self.rule(*args, **params)
        except Exception as error:
            refusal = self._refusal(args, params) if isinstance(error, TypeError) else ""
            if refusal:
                raise self._wrong_signature(refusal, args, params) from None
            # A type rule computes nothing: a WeftError in it is its error for the operands.
            if self.table.kind != "type" or not isinstance(error, WeftError):
                source = args[0].source if self.table.sourced else None
                note = f"in {self}, applied at {sources.describe(source or sources.here())}"
                if note not in getattr(error, "__notes__", ()):
                    error.add_note(note)
            raise

    def _refusal(self, args: Sequence[Any], params: Mapping[str, Any]) -> str:
        """Why the rule does not take these arguments; empty if it does."""
        try:
            signature = inspect.signature(self.rule)
        except (TypeError, ValueError):
            return ""
        try:
            signature.bind(*args, **params)
        except TypeError as error:
            return str(error)
        return ""

    def _wrong_signature(
        self, refusal: str, args: Sequence[Any], params: Mapping[str, Any]
    ) -> JaxprError:
        called_with = self.table.called_with
        if set(params) & set(re.findall(r"\w+", called_with)):
            called_with += ", **params"
        elif params:
            star = "" if "*" in called_with else "*, "
            called_with += f", {star}{', '.join(params)}"
        return self._failure(
            f"does not take what it is called with: {refusal}",
            f"{len(args)} positional arguments and the parameters {sorted(params)}",
            f"rule({called_with})",
            "rule_signature",
            f"declare it as def rule({called_with}); what stands before / may have any name",
            signature=called_with,
        )


class Table(dict[Any, Rule]):
    """The rules of one kind, one per primitive, and the properties of the kind.

    Registering twice is an error, so is asking for a missing rule. A rule that was derived from a
    declaration (the primitive's `derived` names its kind) is replaced. `kind` names it in messages,
    `register_with` is the public call that registers one, `called_with` its positional arguments as
    a signature; parameters come after these.

    instead: what else you can do if a rule is missing.
    default: what replaces a missing rule; empty if that is an error.
    column: the heading of the kind in docs/extending/matrix.md; empty if it has none.
    unmemoised: only primitives that are made with `memoise=False` are asked for a rule.
    sourced: the first argument has the line of the application as `source`.
    checked: `check(named_rule, found, *args, **params)`, from `rule_results`, returns a rule's
    result, or raises JaxprError if it cannot be used.

    Args:
        kind: What the rule is for, in messages.
        register_with: The public call that registers a rule.
        called_with: The positional arguments of a rule, as a signature.
    """

    def __init__(
        self,
        kind: str,
        register_with: str,
        called_with: str = "",
        *,
        instead: str = "",
        default: str = "",
        column: str = "",
        unmemoised: bool = False,
        sourced: bool = False,
        checked: bool = False,
    ) -> None:
        super().__init__()
        self.kind, self.register_with, self.called_with = kind, register_with, called_with
        self.instead, self.default, self.column = instead, default, column
        self.unmemoised, self.sourced, self.checked = unmemoised, sourced, checked
        self.check: Callable[..., Any]

    def register(self, primitive: Any, rule: Rule) -> Rule:
        """Adds the rule of a primitive that has none yet, or that has one that was derived.

        Its results are checked where the setting `check_jaxprs` is on when it is registered.
        """
        self._make_room(primitive, rule)
        watched = self.checked and config.settings().check_jaxprs
        self[primitive] = (
            _check_results(NamedRule(self, primitive, rule, own=True)) if watched else rule
        )
        return rule

    def _make_room(self, primitive: Any, rule: Rule) -> None:
        """Raises for anything that is not a rule, or a second one; a derived one is replaced."""
        if not callable(rule) or isinstance(primitive, str):
            raise no_rule(self, primitive, rule)
        if primitive in self:
            derived: set[str] = getattr(primitive, "derived", set())
            if self.kind not in derived:
                raise registered_twice(primitive, self.kind)
            derived.discard(self.kind)

    def __missing__(self, primitive: Any) -> Rule:
        message = f"the primitive {primitive.name!r} has no {self.kind} rule"
        wanted = f"a {self.kind} rule"
        fix = Fix(
            "register_rule",
            f"{self.how_to_register(primitive)}{self.instead}",
            {"primitive": primitive.name, "rule": self.kind, "call": self.register_with},
        )
        raise MissingRuleError(message, operation=primitive.name, wanted=wanted, fix=fix)

    def how_to_register(self, primitive: Any) -> str:
        """The advice to register a rule: the call, with its names explained."""
        return f"register one: {self.register_with}, where primitive is {primitive.name!r}"


def register_from_outside(
    table: Table, primitive: Any, rule: Rule, wrap: Callable[[Any, Rule], Rule] | None = None
) -> Rule:
    """Registers a rule from outside of weft. The calls, exceptions and results of a rule of a
    checked kind are always checked, or handled by `wrap`. Raises WeftValueError for a primitive
    that is never asked for a rule of this kind."""
    if table.unmemoised and getattr(primitive, "memoise", False):
        raise _unused_rule_error(table, primitive)
    table._make_room(primitive, rule)
    if wrap is not None:
        table[primitive] = wrap(primitive, rule)
    else:
        table[primitive] = (
            _check_results(NamedRule(table, primitive, rule)) if table.checked else rule
        )
    return rule


def _check_results(named: NamedRule) -> Rule:
    """A rule whose results are checked."""
    table, rule = named.table, named.rule

    @functools.wraps(rule)
    def checked(*args: Any, **params: Any) -> Any:
        found = rule(*args, **params) if named.own else named.run(args, params)
        return table.check(named, found, *args, **params)

    return checked


def no_rule(table: Table, primitive: Any, rule: Any) -> WeftTypeError:
    """The error for a rule that is not a function, or of no primitive."""
    wrong = primitive if callable(rule) else rule
    message = f"a {table.kind} rule is a function, registered for a primitive"
    got = f"{wrong!r:.100} of class {type(wrong).__name__}"
    wanted = "a Primitive (weft.extend.core.primitives has weft's own) and a function"
    fix = Fix("register", f"write {table.register_with}", {"call": table.register_with})
    return WeftTypeError(message, operation=str(primitive), got=got, wanted=wanted, fix=fix)


def _unused_rule_error(table: Table, primitive: Any) -> WeftValueError:
    """The error for a rule of a kind that a primitive is never asked for."""
    message = (
        f"the primitive {primitive.name!r} is not asked for its {table.kind} rule, since its "
        "types and programs are remembered by operands and parameters alone"
    )
    got = f"{table.kind} rule of a primitive made with memoise=True"
    wanted = "a primitive made with memoise=False"
    text = f"make it with Primitive({primitive.name!r}, memoise=False)"
    fix = Fix("memoise", text, {"primitive": primitive.name, "rule": table.kind, "memoise": False})
    return WeftValueError(message, operation=primitive.name, got=got, wanted=wanted, fix=fix)


def registered_twice(primitive: Any, kind: str) -> WeftValueError:
    """The error for a second rule of one kind.

    Args:
        kind: What the rule is for, such as "jvp".
    """
    message = f"the primitive {primitive.name!r} has a {kind} rule already"
    got = f"a second {kind} rule"
    wanted = "one rule of each kind"
    fix = Fix("remove", "register the rule once", {"primitive": primitive.name, "rule": kind})
    return WeftValueError(message, operation=primitive.name, got=got, wanted=wanted, fix=fix)


# In the order of docs/extending/matrix.md.
_AD, _PARTIAL, _LAYOUTS, _MLIR, _BATCHING = (
    f"weft.extend.interpreters.{module}.register"
    for module in ("ad", "partial_eval", "layouts", "mlir", "batching")
)


def _column_table(
    kind: str, register_with: str, called_with: str, column: str = "", **more: Any
) -> Table:
    """A table of checked rules, with a column of that page under `column` or the kind."""
    return Table(kind, register_with, called_with, column=column or kind, checked=True, **more)


type_rule = _column_table("type", "primitive.def_abstract_eval(rule)", "*types")
# Checked by `define.checked_lowering`, which checks the module around the rule as well.
lower = Table(
    "lowering",
    f"{_MLIR}_lowering(primitive, rule)",
    "context, /, *values",
    column="lowering",
    sourced=True,
)
# Evaluates in Python; only primitives that are not compiled have one.
impl = _column_table("evaluation", "primitive.def_impl(function)", "*operands", default="compiled")
_DERIVATIVE = "primals, tangents, /"
jvp = _column_table("jvp", f"{_AD}_jvp(primitive, rule)", _DERIVATIVE)
linearize = _column_table(
    "linearize", f"{_AD}_linearize(primitive, rule)", _DERIVATIVE, default="the jvp rule"
)
transpose = _column_table(
    "transpose",
    f"{_AD}_transpose(primitive, rule)",
    "cotangent, /, *operands",
    instead="; or where it is not linear, transpose weft.linearize(f, x)[1]",
)
vmap = _column_table("vmap", f"{_BATCHING}_vmap(primitive, rule)", "axis_data, operands, dims, /")
_OF_EQUATION: dict[str, Any] = {"default": "default", "sourced": True}
partial_eval = _column_table(
    "partial evaluation", f"{_PARTIAL}(primitive, rule)", "equation, unknown", **_OF_EQUATION
)
dce = _column_table(
    "dead-code elimination",
    f"{_PARTIAL}_dce(primitive, rule)",
    "equation, used",
    "dead code",
    **_OF_EQUATION,
)
effects = Table(
    "effects", f"{_PARTIAL}_effects(primitive, rule)", "params", unmemoised=True, checked=True
)
stage = Table("staging", f"{_PARTIAL}_stage(primitive, rule)", "args, params", unmemoised=True)
retype = Table("retyping", f"{_PARTIAL}_retype(primitive, rule)", "types, params", unmemoised=True)
hoist = Table("hoisting", f"{_PARTIAL}_hoist(primitive, rule)", "params", unmemoised=True)
runs = Table("running", f"{_PARTIAL}_runs(primitive, rule)", "equation", unmemoised=True)
steps = Table("stepwise evaluation", f"{_PARTIAL}_steps(primitive, rule)", "*operands")
rebind = Table("repeated evaluation", f"{_PARTIAL}_rebind(primitive, rule)", "*operands")
layout = Table("layout", f"{_LAYOUTS}_layout(primitive, rule)", "params")
reads = Table("reading", f"{_LAYOUTS}_reads(primitive, rule)", "equation, demands, inner")
keep_layouts = Table(
    "layout-keeping", f"{_LAYOUTS}_keep_layouts(primitive, rule)", "equation, layouts, partitioned"
)
moves = Table("moving", f"{_LAYOUTS}_moves(primitive, rule)", "equation, result")
on_host = Table("host", f"{_MLIR}_on_host(primitive, rule)", "*values")

# Lowering rules for one platform, which override the general ones: (primitive, platform) -> rule.
lower_for_platform: dict[tuple[Any, str], Rule] = {}


class Zero:
    """A symbolic zero: a tangent or cotangent of the given type that is not computed.

    Args:
        type: The type of the tangent: its shape and dtype.
    """

    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    @property
    def aval(self) -> ArrayType:
        """The type."""
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.type.dtype

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        """The zero tangent of a value."""
        return Zero(type_of(value).tangent())

    def __repr__(self) -> str:
        return f"Zero({self.type!r})"


@dataclasses.dataclass(eq=False, repr=False, slots=True)
class LinearOperand:
    """Stands, in a transpose rule of `operation`, for an operand whose value is not known.

    Args:
        operation: The name of the operation whose transpose rule gets it.
    """

    type: ArrayType
    operation: str = ""

    @property
    def aval(self) -> ArrayType:
        """The type."""
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.type.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.type.dtype

    def __repr__(self) -> str:
        return f"LinearOperand({self.type!r})"


def not_linear(operand: LinearOperand) -> WeftTypeError:
    """The error for a transpose rule that would need the value of a linear operand.

    Args:
        operand: The operand whose value is asked for.
    """
    message = (
        f"a function that is transposed is not linear: {operand.operation} is applied to several "
        "values that depend on its arguments"
    )
    got = f"an operand of type {operand.type} that depends on the arguments"
    wanted = "an operand that does not depend on the arguments that are transposed"
    text = "linearize the function at a point first: weft.linearize(f, x)[1] is linear"
    fix = Fix("linearize", text, {"operation": operand.operation})
    return WeftTypeError(message, operation=operand.operation, got=got, wanted=wanted, fix=fix)


@dataclasses.dataclass(eq=False, slots=True)
class AxisData:
    """The mapped axis, as a vmap rule sees it: its name (or None) and its size.

    `spmd_axis_name` names the mesh axes over which the mapped axis is to be laid out. Inside of a
    shard_map, where that is done, they are in `spread`: along these, devices hold different
    elements, and so no element varies. With `devices`, each element is the computation of one
    device and has the effects of the jaxpr, whether its operands are mapped or not.

    Args:
        name: The axis name that `vmap` was given, or None.
        size: How many elements are mapped.
    """

    name: Any
    size: int
    spmd_axis_name: Any = None
    spread: frozenset[Any] = frozenset()
    devices: bool = False

    @property
    def spmd_name(self) -> Any:
        """The mesh axes over which the mapped axis is to be laid out (`spmd_axis_name`)."""
        return self.spmd_axis_name

    @property
    def explicit_mesh_axis(self) -> None:
        """None: no mesh axis is explicit."""
        return None

    def key(self) -> tuple[Any, ...]:
        """A cache key: equal for axes that are alike."""
        return self.name, self.size, self.spmd_axis_name, self.spread, self.devices
