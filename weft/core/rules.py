"""The tables of rules, one per interpretation, keyed by primitive: data that `ops/` and others
fill and `interpreters/` and `lowering/` read.

Signatures (params are keyword arguments in every rule):

- `impl(*args, **params)`: evaluates in Python. Only primitives that are not compiled have one.
- `type_rule(*types, **params)`: the result type, or a list of them. It checks the operands.
- `jvp(primals, tangents, **params) -> (outs, tangents)`: a tangent may be a `Zero`.
- `linearize(primals, tangents, **params) -> (outs, tangents)`: like jvp, and what it binds on
  tangents must be linear in them. Without one, the jvp rule serves.
- `transpose(cotangents, *operands, **params) -> one cotangent per operand`: linear operands are
  `LinearOperand`s; None stands for "no cotangent". A single-result primitive gets one cotangent.
- `vmap(axis, args, dims, **params) -> (outs, dims)`: `axis` is an `AxisData`; None: not mapped.
- `partial_eval(equation, unknown) -> SplitEquation`: for primitives that hold jaxprs.
- `dce(equation, used) -> (used inputs, equation or None)`.
- `lower(context, *values, **params) -> value or list of values` in StableHLO.
- `stage(args, params) -> (args, params)`: for primitives that hold Python functions. Called before
  an application is recorded: it traces the functions, whose closed-over values become operands.
- `steps(*args, **params)`: for primitives that hold jaxprs, a generator that says how to evaluate
  an application program by program. It yields (label, jaxpr, inputs), is sent the results of each,
  and labels them for people: "iteration 7 of the scan", "branch 1 of the cond".
- `retype(types, params) -> (types, params)`: for primitives that hold jaxprs. The operands have
  `types`, which may vary along more mesh axes than the programs say, or along fewer: the types that
  the operands are to be cast to, and the parameters with programs that take them.
- `again(*args, **params)`: for primitives that take operands of certain types only. Applies the
  primitive in a recorded program that is evaluated again, for operands that may vary more.
- `layout(params) -> one entry per result`: what decides on the layout of a result: the number of
  the operand whose value it is, unchanged; a Layout that was asked for; or None. Primitives without
  a rule compute something.
- `reads(equation, demands, inner) -> one tuple of Reads per operand` (see `core.reads`): in which
  order the elements of the operands are looked at, given the same for the results; `inner` answers
  for a program. Primitives without a rule go over their operands once, row by row.
- `moves(equation, result) -> (operand, dims)`: for primitives that only move elements. Of which
  operand they are, and for each dimension of the result the operand's, or -1 for one of length 1
  that is new; or (program, result), for primitives that hold programs; or None.
- `on_host(*values, **params) -> NumPy array, or a list of them`: for primitives that only move
  elements, the same from NumPy arrays, which are not to be written to. It may answer with views.
- `keep_layouts(equation, layouts, partitioned) -> equations`: for primitives that hold programs.
  What computes the same where operands have these layouts (None: not known), and reads them so in
  the programs; `partitioned`: where the compiler splits the program over devices.
- `effects(params) -> frozenset`: what an application does besides computing its results. The
  effects of programs among the parameters are added by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.types import ArrayType
from weft.errors import Fix, MissingRuleError, WeftTypeError, WeftValueError

__all__ = [
    "AxisData",
    "Derived",
    "Dims",
    "LinearOperand",
    "Mapped",
    "Params",
    "Retyped",
    "Table",
    "Values",
    "Zero",
    "again",
    "dce",
    "effects",
    "impl",
    "jvp",
    "keep_layouts",
    "layout",
    "linearize",
    "lower",
    "lower_for_platform",
    "moves",
    "not_linear",
    "on_host",
    "partial_eval",
    "reads",
    "registered_twice",
    "retype",
    "stage",
    "steps",
    "transpose",
    "type_rule",
    "vmap",
]

Rule = Callable[..., Any]

# What rules take and return, by the names that their signatures use.
Values = Sequence[Any]
Params = dict[str, Any]
# Where values are mapped; None: nowhere.
Dims = Sequence[int | None]
# Results and their tangents.
Derived = tuple[list[Any], list[Any]]
# Results, and where they are mapped.
Mapped = tuple[list[Any], Dims]
# The types that operands are to be cast to, and the parameters for these.
Retyped = tuple[list[ArrayType], Params]


class Table(dict[Any, Rule]):
    """One rule per primitive; registering twice is an error, so is asking for a missing rule.

    A rule that was derived from a declaration (the primitive's `derived` names its kind) gives way.
    `register_with` is the public call that registers a rule, `instead` what else one may do.
    """

    def __init__(self, kind: str, register_with: str, instead: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.register_with = register_with
        self.instead = instead

    def register(self, primitive: Any, rule: Rule) -> Rule:
        """Adds the rule of a primitive that has none yet, or that has one that was derived."""
        if not callable(rule) or isinstance(primitive, str):
            raise no_rule(self, primitive, rule)
        if primitive in self:
            derived: set[str] = getattr(primitive, "derived", set())
            if self.kind not in derived:
                raise registered_twice(primitive, self.kind)
            derived.discard(self.kind)
        self[primitive] = rule
        return rule

    def __missing__(self, primitive: Any) -> Rule:
        raise MissingRuleError(
            f"the primitive {primitive.name!r} has no {self.kind} rule",
            operation=primitive.name,
            wanted=f"a {self.kind} rule",
            fix=Fix(
                "register_rule",
                f"{self.how_to_register(primitive)}{self.instead}",
                {"primitive": primitive.name, "rule": self.kind, "call": self.register_with},
            ),
        )

    def how_to_register(self, primitive: Any) -> str:
        """What tells a person to register a rule: the call, and what its names stand for."""
        return f"register one: {self.register_with}, where primitive is {primitive.name!r}"


def no_rule(table: Table, primitive: Any, rule: Any) -> WeftTypeError:
    """The error for what is registered and is no function, or for no primitive."""
    wrong = primitive if callable(rule) else rule
    return WeftTypeError(
        f"a {table.kind} rule is a function, registered for a primitive",
        operation=str(primitive),
        got=f"{wrong!r:.100} of class {type(wrong).__name__}",
        wanted="a Primitive (weft.extend.core.primitives has weft's own) and a function",
        fix=Fix("register", f"write {table.register_with}", {"call": table.register_with}),
    )


def registered_twice(primitive: Any, kind: str) -> WeftValueError:
    """The error for a second rule of one kind."""
    return WeftValueError(
        f"the primitive {primitive.name!r} has a {kind} rule already",
        operation=primitive.name,
        got=f"a second {kind} rule",
        wanted="one rule of each kind",
        fix=Fix("remove", "register the rule once", {"primitive": primitive.name, "rule": kind}),
    )


impl = Table("evaluation", "primitive.def_impl(function)")
type_rule = Table("type", "primitive.def_abstract_eval(rule)")
jvp = Table("jvp", "weft.extend.interpreters.ad.register_jvp(primitive, rule)")
linearize = Table("linearize", "weft.extend.interpreters.ad.register_linearize(primitive, rule)")
transpose = Table(
    "transpose",
    "weft.extend.interpreters.ad.register_transpose(primitive, rule)",
    "; or where it is not linear, transpose weft.linearize(f, x)[1]",
)
vmap = Table("vmap", "weft.extend.interpreters.batching.register_vmap(primitive, rule)")
partial_eval = Table(
    "partial evaluation", "weft.extend.interpreters.partial_eval.register(primitive, rule)"
)
dce = Table(
    "dead-code elimination", "weft.extend.interpreters.partial_eval.register_dce(primitive, rule)"
)
lower = Table("lowering", "weft.extend.interpreters.mlir.register_lowering(primitive, rule)")
# Looked up with `get`: only primitives that turn `memoise` off can have one.
stage = Table("staging", "weft.extend.interpreters.partial_eval.register_stage(primitive, rule)")
steps = Table(
    "stepwise evaluation", "weft.extend.interpreters.partial_eval.register_steps(primitive, rule)"
)
retype = Table("retyping", "weft.extend.interpreters.partial_eval.register_retype(primitive, rule)")
again = Table(
    "repeated evaluation", "weft.extend.interpreters.partial_eval.register_again(primitive, rule)"
)
layout = Table("layout", "weft.extend.interpreters.layouts.register_layout(primitive, rule)")
reads = Table("reading", "weft.extend.interpreters.layouts.register_reads(primitive, rule)")
keep_layouts = Table(
    "layout-keeping", "weft.extend.interpreters.layouts.register_keep_layouts(primitive, rule)"
)
moves = Table("moving", "weft.extend.interpreters.layouts.register_moves(primitive, rule)")
on_host = Table("host", "weft.extend.interpreters.mlir.register_on_host(primitive, rule)")
effects = Table(
    "effects", "weft.extend.interpreters.partial_eval.register_effects(primitive, rule)"
)

# Lowering rules for one platform, which go before the general ones: (primitive, platform) -> rule.
lower_for_platform: dict[tuple[Any, str], Rule] = {}


class Zero:
    """A tangent or cotangent that is zero and is not computed; `type` says of what type."""

    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Zero({self.type!r})"


class LinearOperand:
    """Stands, in a transpose rule of `operation`, for an operand whose value is not known."""

    __slots__ = ("operation", "type")

    def __init__(self, type: ArrayType, operation: str = "") -> None:
        self.type = type
        self.operation = operation

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
    """The error for a transpose rule that would need the value of a linear operand."""
    return WeftTypeError(
        f"a function that is transposed is not linear: {operand.operation} is applied to several "
        "values that depend on its arguments",
        operation=operand.operation,
        got=f"an operand of type {operand.type} that depends on the arguments",
        wanted="an operand that does not depend on the arguments that are transposed",
        fix=Fix(
            "linearize",
            "linearize the function at a point first: weft.linearize(f, x)[1] is linear",
            {"operation": operand.operation},
        ),
    )


class AxisData:
    """What a vmap rule may know of the mapped axis: its name (or None) and its size.

    `spmd_axis_name` names the mesh axes over which the mapped axis is to be laid out. Inside of a
    shard_map, where that is done, they are in `spread`: along those devices differ in which
    elements they have, and so no element varies. With `devices`, elements are what devices compute:
    each of them has the effects of the program, whether its operands are mapped or not.
    """

    __slots__ = ("devices", "name", "size", "spmd_axis_name", "spread")

    def __init__(
        self,
        name: Any,
        size: int,
        spmd_axis_name: Any = None,
        spread: frozenset[Any] = frozenset(),
        devices: bool = False,
    ) -> None:
        self.devices = devices
        self.name = name
        self.size = size
        self.spmd_axis_name = spmd_axis_name
        self.spread = spread

    def key(self) -> tuple[Any, ...]:
        """What tells two axes apart in a cache."""
        return self.name, self.size, self.spmd_axis_name, self.spread, self.devices
