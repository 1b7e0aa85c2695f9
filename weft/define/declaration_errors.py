"""The errors for wrong applications of declared primitives, and for wrong bodies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core import rules
from weft.core.trace import Tracer, leaked
from weft.core.types import ArrayType
from weft.errors import (
    Fix,
    JaxprError,
    LeakedTracerError,
    UnboundAxisError,
    WeftTypeError,
    WeftValueError,
)
from weft.errors.argument_errors import not_an_array


def no_array(name: str, place: int, value: Any) -> WeftTypeError:
    """The error for an operand that is not an array."""
    fix = Fix(
        "flatten",
        "pass the leaves one by one: p(*weft.tree.leaves(tree)), and what is no array as a keyword",
        {"operand": place},
    )
    wanted = "arrays as positional arguments; a primitive takes no trees"
    return not_an_array(name, f"{name}: operand {place}", value, wanted, fix)


def no_such_operand(name: str, number: int, count: int) -> WeftValueError:
    """The error for an application with fewer operands than `linear` names."""
    message = f"{name}: declared to be linear in operand {number}, which it does not have"
    got = f"{count} operand{'s' if count != 1 else ''}, counted from 0"
    wanted = f"{number + 1} operands or more, or a declaration without {number}"
    fix = Fix("linear", f"take {number} out of linear=", {"operand": number})
    return WeftValueError(message, operation=name, got=got, wanted=wanted, fix=fix)


def no_parameter(name: str, key: str, value: Any) -> WeftTypeError:
    """The error for a parameter without a hash."""
    array = hasattr(value, "shape")
    fix = f"pass a tuple, or another value with a hash, as {key}"
    if array:
        fix = f"pass {key} as an operand (positional) instead"
    if isinstance(value, Tracer):
        fix += f"; a setting is kept from being traced by jit(..., static_argnames={key!r})"
    return WeftTypeError(
        f"{name}: the parameter {key!r} cannot be hashed",
        operation=name,
        got=f"{value!r:.80} of class {type(value).__name__}",
        wanted="hashable parameters, which programs are remembered by",
        fix=Fix("positional" if array else "hashable", fix, {"parameter": key}),
    )


def wrong_result(name: str, out: Any, wanted: str, several: bool) -> WeftTypeError:
    """The error for a body whose return value is not of the form of the primitive's results."""
    text = (
        "return a flat tuple of arrays"
        if several
        else "declare multiple_results=True, or return one array"
    )
    message = f"the body of the primitive {name!r} returns {type(out).__name__}"
    got = f"{out!r:.100} of class {type(out).__name__}"
    fix = Fix("results", text, {"multiple_results": not several})
    return WeftTypeError(message, got=got, wanted=wanted, fix=fix)


def check_arguments(name: str, body: Any, types: Sequence[Any], params: Mapping[str, Any]) -> None:
    """Raises WeftTypeError if the body does not take these operands and parameters."""
    try:
        signature = inspect.signature(body)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*types, **params)
    except TypeError as error:
        message = f"the body of the primitive {name!r} does not take these arguments: {error}"
        got = f"{len(types)} operands, parameters {sorted(params)}"
        fix = Fix("arguments", f"call it as {name}{signature}")
        raise WeftTypeError(message, got=got, wanted=f"{name}{signature}", fix=fix) from None


def has_effects(name: str, effects: frozenset[Any]) -> WeftValueError:
    """The error for a body that does more than compute results."""
    message = f"the body of the primitive {name!r} has effects"
    wanted = "a body that computes results and does nothing else"
    fix = Fix("effects", "call back or print outside of the primitive")
    return WeftValueError(message, got=", ".join(sorted(map(str, effects))), wanted=wanted, fix=fix)


def closes_over(name: str, value: Tracer) -> LeakedTracerError:
    """The error for a body that closes over a traced value, which its cached jaxpr outlives."""
    message = f"the body of the primitive {name!r} closes over a traced value"
    wanted = "a body that computes with its operands, with parameters, and with arrays"
    fix = Fix(
        "operand",
        "pass the value to the primitive as one more operand, and give the body an argument for it",
        {"transformation": value._trace.name, "function": value._trace.function},
    )
    return LeakedTracerError(message, operation=name, got=leaked(value).got, wanted=wanted, fix=fix)


def applies_itself(name: str, types: Sequence[ArrayType], params: Mapping[str, Any]) -> Any:
    """The error for a body that applies its own primitive."""
    message = (
        f"the body of the primitive {name!r} applies it to operands of the same types, with the "
        "same parameters: it never ends"
    )
    got = f"operands {', '.join(map(str, types))}; parameters {dict(params)!r:.80}"
    wanted = "a body that applies the primitive with other parameters, down to a last case"
    text = "let a parameter decide where it ends: p(x, n=n - 1), or use weft.lax.while_loop"
    fix = Fix("recursion", text, {"primitive": name})
    return WeftValueError(message, operation=name, got=got, wanted=wanted, fix=fix)


def axis_in_body(name: str, axis: Any) -> UnboundAxisError:
    """The error for a body that names an axis which is bound where the primitive is applied."""
    message = (
        f"the body of the primitive {name!r} names the axis {axis!r}, which is bound where the "
        "primitive is applied, and not in its body"
    )
    wanted = "a body without axes of vmap or shard_map from around it"
    text = "apply the collective outside of the primitive, to its operands or results"
    fix = Fix("outside", text, {"axis": axis})
    return UnboundAxisError(message, got=repr(axis), wanted=wanted, fix=fix)


def disagreement(
    primitive: Any, rule: Callable[..., Any], body: Sequence[ArrayType], wanted: Sequence[ArrayType]
) -> JaxprError:
    """The error for a type rule that disagrees with the body."""
    shown = ", ".join(map(str, body)) or "no results"
    text = "leave type_rule out, and it follows from the body; or repair one of the two"
    fix = Fix("disagreement", text, {"primitive": primitive.name, "rule": "type"})
    return JaxprError(
        f"{rules.NamedRule(rules.type_rule, primitive, rule)} does not say what its body computes",
        operation=primitive.name,
        got=", ".join(map(str, wanted)) or "no results",
        wanted=f"{shown}, as the body gives",
        fix=fix,
    )
