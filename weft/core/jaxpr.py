"""The jaxpr: a list of typed equations between binders and results, and its text.

A jaxpr is closed: every array that the traced function closed over is one of its first
`num_consts` inputs, and scalars stand in it as literals. A `ClosedJaxpr` carries the values of
those inputs along.
"""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import dtypes
from weft.base import source as sources
from weft.base.notebooks import ShownInNotebooks
from weft.base.source_info import DebugInfo
from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.types import ArrayType
from weft.errors import Fix, WeftTypeError

T = TypeVar("T")

NO_EFFECTS: frozenset[Any] = frozenset()


class Var:
    """A name for a value: an input of a jaxpr or a result of an equation."""

    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    @property
    def aval(self) -> ArrayType:
        """The type of the value."""
        return self.type

    def __repr__(self) -> str:
        return f"Var({self.type!r})"


class DropVar(Var):
    """A result that nothing reads, in equations made by hand; recorded ones have a `Var`."""

    __slots__ = ()


class Literal:
    """A scalar known at tracing time (a Python number or a NumPy scalar)."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type: ArrayType) -> None:
        self.value = value
        self.type = type

    @property
    def aval(self) -> ArrayType:
        """The type of the number."""
        return self.type

    @property
    def val(self) -> Any:
        """The number."""
        return self.value

    def __repr__(self) -> str:
        return f"Literal({self.value!r}, {self.type!r})"


Atom = Var | Literal


class Equation:
    """`outputs = primitive[params] inputs`, with the user's line that asked for it.

    A jaxpr can be made of equations by hand, or better with `JaxprBuilder`.

    >>> (eqn,) = weft.make_jaxpr(lambda x: lax.sin(x))(1.0).eqns
    >>> eqn.primitive, [var.type for var in eqn.outputs], eqn.params
    (sin, [f32[]~], {})
    """

    __slots__ = ("effects", "inputs", "outputs", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: Sequence[Atom],
        params: dict[str, Any],
        outputs: Sequence[Var],
        source: sources.Source | None = None,
        effects: frozenset[Any] | None = None,
    ) -> None:
        if effects is None:
            effects = NO_EFFECTS if primitive.memoise else effects_of(primitive, params)
        self.primitive = primitive
        self.inputs = inputs
        self.params = params
        self.outputs = outputs
        self.source = source
        self.effects = effects

    def replace(self, **changes: Any) -> Equation:
        """The same equation with some fields changed; its effects are those of the new one."""
        fields = {name: getattr(self, name) for name in Equation.__slots__ if name != "effects"}
        return Equation(**(fields | changes))

    def __repr__(self) -> str:
        return Writer(False).equation(self, "")


@dataclasses.dataclass(frozen=True)
class SplitEquation:
    """An equation split in two: `known` also computes `residuals`, which `unknown` reads.

    A part with nothing left is None; `unknown_out` marks the results that only `unknown`
    computes. The equations `before`, of known values, come before `known`.
    """

    known: Equation | None
    unknown: Equation | None
    unknown_out: tuple[bool, ...]
    residuals: Sequence[Var]
    before: Sequence[Equation] = ()


class Jaxpr(ShownInNotebooks):
    """A jaxpr: inputs (the first `num_consts` are closed-over arrays), equations and results.

    `memo` caches what transformations derived from this jaxpr, for as long as the jaxpr lives; it
    is no part of the jaxpr.

    >>> from weft.extend.core import ArrayType, Jaxpr, Var
    >>> x = Var(ArrayType((3,), "float32"))
    >>> Jaxpr([x], [], [x]).out_types
    [f32[3]]
    """

    __slots__ = (
        "__weakref__",
        "effects",
        "eqns",
        "inputs",
        "memo",
        "name",
        "num_consts",
        "outputs",
    )

    def __init__(
        self,
        inputs: Sequence[Var],
        eqns: Sequence[Equation],
        outputs: Sequence[Atom],
        num_consts: int = 0,
        name: str = "",
        effects: frozenset[Any] | None = None,
    ) -> None:
        self.inputs = list(inputs)
        self.eqns = list(eqns)
        self.outputs = list(outputs)
        self.num_consts = num_consts
        self.name = name
        if effects is None:
            effects = NO_EFFECTS
            for eqn in self.eqns:
                if eqn.effects:
                    effects |= eqn.effects
        self.effects = effects
        self.memo: dict[Any, Any] = {}

    @property
    def in_types(self) -> list[ArrayType]:
        """The types of the inputs."""
        return [var.type for var in self.inputs]

    @property
    def out_types(self) -> list[ArrayType]:
        """The types of the results."""
        return [atom.type for atom in self.outputs]

    @property
    def in_avals(self) -> list[ArrayType]:
        """The types of the inputs that are not closed-over arrays."""
        return [var.type for var in self.inputs[self.num_consts :]]

    @property
    def out_avals(self) -> list[ArrayType]:
        """The types of the results."""
        return self.out_types

    @property
    def constvars(self) -> list[Var]:
        """The inputs that stand for closed-over arrays."""
        return self.inputs[: self.num_consts]

    @property
    def invars(self) -> list[Var]:
        """The inputs that are not closed-over arrays."""
        return self.inputs[self.num_consts :]

    @property
    def outvars(self) -> list[Atom]:
        """The results."""
        return self.outputs

    @property
    def jaxpr(self) -> Jaxpr:
        """This jaxpr with all of its inputs as `invars`.

        In the parameters of an equation every input has an operand. There interpreters may expect
        a closed jaxpr, and read its `jaxpr` and `consts`.
        """
        if not self.num_consts:
            return self
        return self.memoize("opened", lambda: self.replace(constvars=(), invars=self.inputs))

    @property
    def consts(self) -> list[Any]:
        """The values that go with `jaxpr`: none, as it has no inputs for closed-over arrays."""
        return []

    literals = consts

    @property
    def debug_info(self) -> DebugInfo:
        """The name of the function that was recorded."""
        return DebugInfo("jaxpr", self.name or "unknown")

    @property
    def is_high(self) -> bool:
        """False: every type in it is one of arrays."""
        return False

    def replace(self, **changes: Any) -> Jaxpr:
        """The same jaxpr with some of `constvars`, `invars`, `outvars`, `eqns`, `effects` and
        `debug_info` changed. Effects are by default those of the equations.

        >>> jaxpr = weft.make_jaxpr(lambda x: (lax.sin(x), x))(1.0).jaxpr
        >>> jaxpr.replace(outvars=jaxpr.outvars[:1])
        { lambda ; a:f32[]. let
            b:f32[] = sin a
          in (b,) }
        """
        consts = list(changes.pop("constvars", self.constvars))
        inputs = changes.pop("invars", self.invars)
        eqns = changes.pop("eqns", self.eqns)
        outputs = changes.pop("outvars", self.outputs)
        effects = changes.pop("effects", None if eqns is not self.eqns else self.effects)
        info = changes.pop("debug_info", None)
        changes.pop("is_high", None)
        if changes:
            raise TypeError(f"a jaxpr has no fields {', '.join(changes)}")
        name = self.name if info is None else info.func_name
        own = None if effects is None else frozenset(effects)
        return Jaxpr([*consts, *inputs], eqns, outputs, len(consts), name, own)

    def map_jaxpr(self, function: Callable[[Jaxpr], Jaxpr]) -> Jaxpr:
        """`function(self.jaxpr)`, as `ClosedJaxpr.map_jaxpr`."""
        return function(self.jaxpr)

    def pretty_print(self, *, source_info: bool = False, **_: Any) -> str:
        """The text of the jaxpr; with `source_info`, each equation followed by the user's line."""
        return show_jaxpr(self, source_info)

    def memoize(self, key: Any, make: Callable[[], T]) -> T:
        """The result of `make`, cached under `key` for the life of this jaxpr."""
        out: T | None = self.memo.get(key)
        if out is None:
            out = self.memo[key] = make()
        return out

    def derived(self, key: Any, make: Callable[[], Any]) -> Any:
        """`memoize` for results of any type."""
        return self.memoize(key, make)

    def __str__(self) -> str:
        return show_jaxpr(self)

    __repr__ = __str__


Steps = Generator[tuple[str, Jaxpr, Sequence[Any]], list[Any], None]
"""What a rule for stepwise evaluation yields: for each jaxpr its name in messages, and its inputs;
it is sent the results."""
Cut = tuple[list[bool], Equation | None]
"""What a rule for dead-code elimination returns: which operands are read, and the equation left."""


class ClosedJaxpr(ShownInNotebooks):
    """A jaxpr and the values of its closed-over inputs."""

    __slots__ = ("consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def eqns(self) -> list[Equation]:
        """The equations of the jaxpr."""
        return self.jaxpr.eqns

    @property
    def in_avals(self) -> list[ArrayType]:
        """The types of the arguments."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ArrayType]:
        """The types of the results."""
        return self.jaxpr.out_types

    @property
    def effects(self) -> frozenset[Any]:
        """The effects of the jaxpr."""
        return self.jaxpr.effects

    @property
    def constvars(self) -> list[Var]:
        """The inputs that stand for `consts`."""
        return self.jaxpr.constvars

    @property
    def invars(self) -> list[Var]:
        """The inputs that are arguments."""
        return self.jaxpr.invars

    @property
    def outvars(self) -> list[Atom]:
        """The results."""
        return self.jaxpr.outputs

    @property
    def literals(self) -> list[Any]:
        """The values of the closed-over inputs."""
        return self.consts

    @property
    def debug_info(self) -> DebugInfo:
        """The name of the function that was recorded."""
        return self.jaxpr.debug_info

    @property
    def is_high(self) -> bool:
        """False: every type in it is one of arrays."""
        return False

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Any = None) -> ClosedJaxpr:
        """The same with another jaxpr or other values of its closed-over inputs."""
        return ClosedJaxpr(
            self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts
        )

    def map_jaxpr(self, function: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
        """The same with `function(jaxpr)` in place of the jaxpr."""
        return ClosedJaxpr(function(self.jaxpr), self.consts)

    def pretty_print(self, *, source_info: bool = False, **_: Any) -> str:
        """The text of the jaxpr; with `source_info`, each equation followed by the user's line."""
        return show_jaxpr(self, source_info)

    def __call__(self, *args: Any) -> list[Any]:
        """Evaluates the jaxpr under the current trace and returns a flat list of results."""
        return eval_jaxpr(self.jaxpr, self.consts, *args)

    def __getattr__(self, name: str) -> Any:
        more = "; its program has one: closed.jaxpr" if hasattr(Jaxpr, name) else ""
        raise AttributeError(f"a ClosedJaxpr has no attribute {name!r}{more}")

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def jaxprs_in(params: dict[str, Any]) -> list[Jaxpr]:
    """The jaxprs that an equation's parameters hold.

    >>> from weft.extend.core import jaxprs_in
    >>> program = weft.make_jaxpr(weft.jit(lambda x: lax.sin(x)))(1.0)
    >>> [inner.name for inner in jaxprs_in(program.eqns[0].params)]
    ['<lambda>']
    """
    out: list[Jaxpr] = []
    for value in params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, Jaxpr):
                out.append(item)
            elif isinstance(item, ClosedJaxpr):
                out.append(item.jaxpr)
    return out


def subjaxprs(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[Jaxpr]:
    """The jaxprs that the equations of a jaxpr hold, one after the other; not those inside them.

    >>> from weft.extend.core import subjaxprs
    >>> program = weft.make_jaxpr(lambda x: weft.jit(lax.sin)(x))(1.0)
    >>> [inner.name for inner in subjaxprs(program.jaxpr)]
    ['sin']
    """
    for eqn in jaxpr.eqns:
        yield from jaxprs_in(eqn.params)


def map_jaxprs(function: Callable[[Jaxpr], Jaxpr], params: dict[str, Any]) -> dict[str, Any]:
    """An equation's parameters with `function(jaxpr)` in place of each jaxpr that they hold.

    For a transformation that applies to inner jaxprs too: it keeps the types of their inputs and
    results, or changes the equation as well.

    >>> from weft.extend.core import jaxprs_in, map_jaxprs
    >>> [eqn] = weft.make_jaxpr(lambda x: lax.cond(x > 0, lax.sin, lax.cos, x))(1.0).eqns[2:]
    >>> [inner.eqns[0].primitive for inner in jaxprs_in(eqn.params)]
    [cos, sin]
    >>> swapped = map_jaxprs(lambda inner: eqn.params["branches"][0], eqn.params)
    >>> [inner.eqns[0].primitive for inner in jaxprs_in(swapped)]
    [cos, cos]
    """

    def mapped(value: Any) -> Any:
        if isinstance(value, Jaxpr):
            return function(value)
        if isinstance(value, ClosedJaxpr):
            return ClosedJaxpr(function(value.jaxpr), value.consts)
        # Not in subclasses: a named tuple is built in another way, and holds no jaxprs.
        return type(value)(map(mapped, value)) if type(value) in (tuple, list) else value

    return {name: mapped(value) for name, value in params.items()}


def check_marks(operation: str, what: str, marks: Sequence[Any], count: int) -> None:
    """Raises WeftTypeError unless there is a mark for each input (or result) of a jaxpr."""
    if len(marks) != count:
        message = f"{operation} takes a mark for each {what} of the program"
        got = f"{len(marks)} marks for {count} {what}s"
        fix = Fix("marks", f"pass a tuple of {count}, one for each {what}", {"count": count})
        raise WeftTypeError(message, operation=operation, got=got, wanted=f"{count} marks", fix=fix)


def effects_of(primitive: Primitive, params: dict[str, Any]) -> frozenset[Any]:
    """The effects of an application: its own and those of the jaxprs that it holds."""
    own = rules.effects.get(primitive)
    found = [jaxpr.effects for jaxpr in jaxprs_in(params)]
    return NO_EFFECTS.union(*found, own(params) if own is not None else NO_EFFECTS)


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation the variables that nothing after it reads."""
    seen: set[Var] = {atom for atom in jaxpr.outputs if type(atom) is Var}
    out: list[list[Var]] = []
    for eqn in reversed(jaxpr.eqns):
        dead = [v for v in {*eqn.inputs, *eqn.outputs} if type(v) is Var and v not in seen]
        seen.update(dead)
        out.append(dead)
    return out[::-1]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr | Jaxpr) -> Callable[..., list[Any]]:
    """The function that evaluates a program: from its arguments to a flat list of its results.

    >>> from weft.extend.core import jaxpr_as_fun
    >>> jaxpr_as_fun(weft.make_jaxpr(lambda x: (x + 1.0, x))(1.0))(2.0)
    [Array(3., dtype=float32, weak_type=True), 2.0]
    """

    def evaluated(*args: Any) -> list[Any]:
        return eval_jaxpr(closed_jaxpr, closed_jaxpr.consts, *args)

    return evaluated


def eval_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr,
    consts: Sequence[Any],
    *args: Any,
    propagate_source_info: bool = True,
) -> list[Any]:
    """Evaluates a jaxpr by binding its equations one by one, under the current trace.

    Any transformation may be active, so this is itself traceable. Values are dropped after their
    last use. Without `propagate_source_info` operations belong to the line of the call, not to
    those that were recorded. Raises TypeError if the number of arguments is not the jaxpr's.

    >>> from weft.extend.core import eval_jaxpr
    >>> program = weft.make_jaxpr(lambda x: lax.sin(x) * 2.0)(1.0)
    >>> eval_jaxpr(program, program.consts, 0.0)
    [Array(0., dtype=float32, weak_type=True)]
    >>> weft.grad(lambda x: eval_jaxpr(program, program.consts, x)[0])(0.0)
    Array(2., dtype=float32, weak_type=True)
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    if not isinstance(jaxpr, Jaxpr):
        raise TypeError(
            f"eval_jaxpr takes a program and got {jaxpr!r:.80}; make_jaxpr(f)(*args) records one"
        )
    values = [*consts, *args]
    if len(values) != len(jaxpr.inputs):
        raise TypeError(
            f"eval_jaxpr got {len(consts)} closed-over values and {len(args)} arguments; "
            f"the program takes {jaxpr.num_consts} and {len(jaxpr.inputs) - jaxpr.num_consts}"
        )
    env: dict[Any, Any] = dict(zip(jaxpr.inputs, values, strict=True))
    rebind = rules.rebind
    dead = jaxpr.memoize("last_uses", lambda: last_uses(jaxpr))
    for eqn, finished in zip(jaxpr.eqns, dead, strict=True):
        args_in = [x.value if isinstance(x, Literal) else env[x] for x in eqn.inputs]
        apply = rebind.get(eqn.primitive) or eqn.primitive.bind
        with sources.override(eqn.source if propagate_source_info else None):
            out = apply(*args_in, **eqn.params)
        if eqn.primitive.multiple_results:
            for var, value in zip(eqn.outputs, out, strict=True):
                env[var] = value
        else:
            env[eqn.outputs[0]] = out
        for var in finished:
            del env[var]
    return [x.value if isinstance(x, Literal) else env[x] for x in jaxpr.outputs]


# ---- text ----------------------------------------------------------------------------------------
# Stable from run to run: variables are named a, b, … z, aa, ab, … in the order in which they are
# bound; jaxprs inside equations are shown in place, indented, and continue the naming.


def _names() -> Iterator[str]:
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


class Writer:
    """Writes jaxprs as text, or the pieces of one for another form. Variables get names in the
    order in which `binder` meets them."""

    def __init__(self, show_source: bool = False) -> None:
        self.names: dict[Var, str] = {}
        self.fresh = _names()
        self.show_source = show_source

    def binder(self, var: Var) -> str:
        """A variable with its type, under a new name."""
        name = self.names[var] = next(self.fresh)
        return f"{name}:{var.type}"

    def atom(self, atom: Atom) -> str:
        """The name of a variable, or a number with its dtype."""
        if isinstance(atom, Var):
            return self.names.get(atom, "?")
        value = atom.value
        text = str(value[()] if isinstance(value, np.ndarray) else value)
        return f"{text}:{dtypes.short_name(atom.type.dtype)}[]"

    def param(self, value: Any, indent: str = "") -> str:
        """The value of a parameter."""
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.jaxpr(value, indent)
        if isinstance(value, (tuple, list)) and any(
            isinstance(item, (Jaxpr, ClosedJaxpr)) for item in value
        ):
            inner = indent + "  "
            items = [self.param(item, inner) for item in value]
            return "(\n" + "".join(f"{inner}{item}\n" for item in items) + indent + ")"
        if isinstance(value, np.dtype) or hasattr(value, "short_name"):
            return dtypes.short_name(value)
        if callable(value) and hasattr(value, "__name__"):
            return str(value.__name__)
        return str(value)

    def shown_params(self, eqn: Equation) -> list[tuple[str, Any]]:
        """The parameters that are written, by name."""
        return [(k, v) for k, v in sorted(eqn.params.items()) if v is not None and v != ()]

    def equation(self, eqn: Equation, indent: str) -> str:
        """An equation, with jaxprs inside it indented."""
        inputs = " ".join(self.atom(atom) for atom in eqn.inputs)
        outputs = " ".join(self.binder(var) for var in eqn.outputs)
        inner = indent + "  "
        texts = [f"{key}={self.param(value, inner)}" for key, value in self.shown_params(eqn)]
        params = f"[{' '.join(texts)}]" if texts else ""
        if jaxprs_in(eqn.params):
            params = "[\n" + "".join(f"{inner}{text}\n" for text in texts) + indent + "]"
        text = f"{indent}{outputs} = {eqn.primitive.name}{params} {inputs}".rstrip()
        if self.show_source:
            text += f"  # {sources.describe(eqn.source)}"
        return text

    def head(self, jaxpr: Jaxpr) -> str:
        """The inputs of a jaxpr, written before its equations."""
        consts = " ".join(self.binder(var) for var in jaxpr.inputs[: jaxpr.num_consts])
        inputs = " ".join(self.binder(var) for var in jaxpr.inputs[jaxpr.num_consts :])
        return (
            "{ lambda " + consts + (" " if consts else "") + ";" + (" " if inputs else "") + inputs
        ) + ". let"

    def results(self, jaxpr: Jaxpr) -> str:
        """The results of a jaxpr, written after its equations."""
        outs = ", ".join(self.atom(atom) for atom in jaxpr.outputs)
        return f"in ({outs},) }}" if len(jaxpr.outputs) == 1 else f"in ({outs}) }}"

    def jaxpr(self, jaxpr: Jaxpr, indent: str) -> str:
        """A jaxpr whose lines after the first are indented."""
        head = self.head(jaxpr)
        eqns = [self.equation(eqn, indent + "    ") for eqn in jaxpr.eqns]
        if not eqns:
            return f"{head}  {self.results(jaxpr)}"
        return f"{head}\n" + "\n".join(eqns) + f"\n{indent}  {self.results(jaxpr)}"


def show_jaxpr(jaxpr: Jaxpr | ClosedJaxpr, source: bool = False) -> str:
    """The text of a jaxpr; with `source`, each equation followed by the user's line.

    >>> from weft.extend.core import show_jaxpr
    >>> print(show_jaxpr(weft.make_jaxpr(lambda x: lax.sin(x))(1.0)))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
      in (b,) }
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    return Writer(source).jaxpr(jaxpr, "")
