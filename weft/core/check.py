"""The type checker of jaxprs: every variable bound once and before use, every equation's results of
the types that its primitive's type rule gives. The results of rules are checked in `rule_results`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import config
from weft.base import source as sources
from weft.core import rules
from weft.core.jaxpr import ClosedJaxpr, Equation, Jaxpr, Literal, Var, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rule_results import CHECKS
from weft.core.types import ArrayType, type_of
from weft.errors import JaxprError, WeftError, name_error

_CACHE_LIMIT = 4096
# Set in this module, without which no rule is called: the checks need jaxprs, and these the tables.
for _table, _check in CHECKS:
    _table.check = _check


def result_types(
    primitive: Primitive, in_types: tuple[ArrayType, ...], params: dict[str, Any]
) -> Any:
    """Returns the type rule's result (one type, or a list), cached where the primitive allows it.

    Raises what the type rule raises, and MissingRuleError if there is none.

    Args:
        in_types: The types of the operands.

    >>> from weft.extend.core import ArrayType, primitives, result_types
    >>> result_types(primitives.lt_p, (ArrayType((3,), "float32"),) * 2, {})
    bool[3]
    """
    if not primitive.memoise:
        return _ask_rule(primitive, in_types, params)
    key = (in_types, tuple(params.items())) if params else in_types
    cache = primitive.type_cache
    try:
        out = cache.get(key)
    except TypeError:  # a parameter that cannot be hashed, so no cache key
        return _ask_rule(primitive, in_types, params)
    if out is None:
        out = _ask_rule(primitive, in_types, params)
        if len(cache) >= _CACHE_LIMIT:
            cache.clear()
        cache[key] = out
    return out


def _ask_rule(primitive: Primitive, in_types: Sequence[ArrayType], params: dict[str, Any]) -> Any:
    """The result of the type rule, whose errors have the name of the primitive."""
    try:
        return rules.type_rule[primitive](*in_types, **params)
    except WeftError as error:
        name_error(error, primitive.name)
        raise


def equally_varying(types: Sequence[ArrayType]) -> bool:
    """Whether values of these types vary along the same mesh axes.

    Operands of a first-order primitive have to; primitives that hold jaxprs (those that turn
    `memoise` off) have rules of their own for that.

    Args:
        types: The types of the operands.
    """
    first = types[0].varying if types else None
    return all(type.varying is first or type.varying == first for type in types)


def checked(jaxpr: Jaxpr) -> Jaxpr:
    """Returns the jaxpr itself, checked where the setting `check_jaxprs` asks for it."""
    if config.settings().check_jaxprs:
        check_jaxpr(jaxpr)
    return jaxpr


def check_operands_fit(
    title: str, types: Sequence[ArrayType], jaxpr: Jaxpr, what: str = "the program"
) -> None:
    """Raises JaxprError if operands do not have the shapes and dtypes of a jaxpr's inputs. `title`
    names the application in the message, `what` the jaxpr."""
    wanted = jaxpr.in_types
    if [(t.shape, t.dtype) for t in types] != [(t.shape, t.dtype) for t in wanted]:
        raise operands_do_not_fit(title, types, wanted, what)


def operands_do_not_fit(
    title: str,
    types: Sequence[ArrayType],
    wanted: Sequence[ArrayType],
    what: str = "the program",
    more: str = "",
) -> JaxprError:
    """The error for operands that do not fit a jaxpr's inputs; `more` ends `wanted`."""
    message = f"{title}: the operands do not fit {what}"
    got = ", ".join(map(str, types))
    return JaxprError(message, got=got, wanted=", ".join(map(str, wanted)) + more)


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Checks a jaxpr and the jaxprs inside its equations.

    Raises JaxprError naming the equation (by number and user's line) that is wrong.

    >>> from weft.extend.core import ArrayType, Jaxpr, Var, check_jaxpr
    >>> x, y = (Var(ArrayType((3,), "float32")) for _ in range(2))
    >>> check_jaxpr(Jaxpr([x], [], [x]))
    >>> try:
    ...     check_jaxpr(Jaxpr([x], [], [y]))
    ... except weft.errors.JaxprError as error:
    ...     print(str(error).splitlines()[0])
    the results reads a variable of type f32[3] that nothing has bound
    """
    if isinstance(jaxpr, ClosedJaxpr):
        if len(jaxpr.consts) != jaxpr.jaxpr.num_consts:
            raise JaxprError(
                f"the program takes {jaxpr.jaxpr.num_consts} closed-over values "
                f"and {len(jaxpr.consts)} are given"
            )
        for var, value in zip(jaxpr.jaxpr.inputs, jaxpr.consts, strict=False):
            if type_of(value) is not var.type:
                message = "a closed-over value has another type than the program's input"
                raise JaxprError(message, got=repr(type_of(value)), wanted=repr(var.type))
        jaxpr = jaxpr.jaxpr
    _check_program(jaxpr, set())


def _check_program(jaxpr: Jaxpr, seen: set[Jaxpr]) -> None:
    """Checks a jaxpr unless it was `seen`: nested ones may be shared."""
    if jaxpr in seen:
        return
    seen.add(jaxpr)
    bound: set[Var] = set()
    for var in jaxpr.inputs:
        _bind(var, bound, "an input")
    for number, eqn in enumerate(jaxpr.eqns):
        where = f"equation {number} ({eqn.primitive.name}, {sources.describe(eqn.source)})"
        for atom in eqn.inputs:
            _check_atom(atom, bound, where)
        for inner in jaxprs_in(eqn.params):
            _check_program(inner, seen)
        _check_results(eqn, where)
        for var in eqn.outputs:
            _bind(var, bound, where)
        if not eqn.effects <= jaxpr.effects:
            raise JaxprError(f"{where} has effects that the program does not declare")
    for atom in jaxpr.outputs:
        _check_atom(atom, bound, "the results")


def _bind(var: Any, bound: set[Var], where: str) -> None:
    if type(var) is not Var:
        raise JaxprError(f"{where} binds {var!r}, which is not a variable")
    if var in bound:
        raise JaxprError(f"{where} binds a variable of type {var.type} a second time")
    bound.add(var)


def _check_atom(atom: Any, bound: set[Var], where: str) -> None:
    if type(atom) is Literal:
        if atom.type.shape:
            raise JaxprError(f"{where} reads a literal with dimensions, {atom.type}")
    elif type(atom) is not Var:
        raise JaxprError(f"{where} reads {atom!r}, which is neither a variable nor a literal")
    elif atom not in bound:
        raise JaxprError(f"{where} reads a variable of type {atom.type} that nothing has bound")


def _check_results(eqn: Equation, where: str) -> None:
    in_types = tuple(atom.type for atom in eqn.inputs)
    if eqn.primitive.memoise and not equally_varying(in_types):
        raise JaxprError(
            f"{where}: the operands vary along different mesh axes",
            got=", ".join(map(repr, in_types)),
            wanted="casts by pbroadcast of those that vary less",
        )
    wanted = _ask_rule(eqn.primitive, in_types, eqn.params)
    if not eqn.primitive.multiple_results:
        wanted = [wanted]
    got = [var.type for var in eqn.outputs]
    if list(wanted) != got:
        message = f"{where}: the results have the wrong types"
        raise JaxprError(
            message, got=", ".join(map(repr, got)), wanted=", ".join(map(repr, wanted))
        )
