"""`define_primitive`: one declaration from which every rule of a new primitive follows."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft.core.rules import Values, Zero
from weft.core.types import ArrayType, type_of
from weft.define.declared_primitive import BROADCAST, DefinedPrimitive, Groups, unvarying
from weft.define.derived_rules import derive_rules, listed, packed
from weft.define.derived_vmap import derive_vmap
from weft.define.registration import (
    register_jvp,
    register_linearize,
    register_lowering,
    register_transpose,
    register_vmap,
)
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.lowering.module import LoweringContext
from weft.ops.declare import join_varying
from weft.ops.elementwise.families import (
    broadcast_scalar,
    common_shape,
    repeat_scalars,
    unbroadcast,
)

Rule = Callable[..., Any]


@api_boundary
def define_primitive(
    name: str,
    *,
    body: Callable[..., Any] | None = None,
    type_rule: Rule | None = None,
    lower: Rule | None = None,
    linear: Sequence[int] | Sequence[Sequence[int]] = (),
    multiple_results: bool = False,
    elementwise: bool = False,
    jvp: Rule | None = None,
    linearize: Rule | None = None,
    transpose: Rule | None = None,
    vmap: Rule | None = None,
) -> Any:
    """A new primitive, with every rule that follows from its declaration; it can be called.

    `body` is a function of arrays (positional) and hashable parameters (keywords of any name,
    distinguished by class and content), written in existing operations, without effects, axis names
    or traced values from around it: all rules follow from it. Without one, `vmap` is a loop over
    the elements, and a `type_rule(*types, **params)`, which returns an `ArrayType` (or a list of
    them, with `multiple_results`), and a `lower(context, *values, **params)` are needed. Rules that
    are given, here or later (with the signatures of `weft.extend.interpreters`), go before derived
    ones. With none of body, type rule and lowering, the result is a decorator of a body.

    `linear=(0, 2)`: linear in the operands 0 and 2 together, the others fixed; `((0,), (1,))`: in
    each by itself, as a product. The derivative is then the primitive itself, which has to have a
    transpose rule or a body. `elementwise=True`: operands without dimensions are repeated, and
    `vmap` applies the primitive to whole arrays. Results vary along the mesh axes of the operands.

    Raises WeftTypeError if a part of the declaration is missing or is no function,
    WeftValueError for operands that `linear` names twice.

    Args:
        name: What the operation is called in jaxprs and messages.
        type_rule: Returns the type of the result; by default that of the body.
        lower: Emits StableHLO operations; by default the body is lowered.
        jvp: The rule for forward mode, in place of the derived one.
        linearize: The rule for `linearize` and reverse mode, where it differs from `jvp`.
        transpose: The rule for reverse mode, of linear operands.
        body: The function that the primitive computes; without it type rule and lowering are
            needed.
        linear: The operands in which it is linear, by index: together, or a group each.
        multiple_results: Whether it returns a list of results, and not one.
        elementwise: Whether it computes each element by itself.
        vmap: The rule for mapped operands, in place of the derived one.

    >>> import weft
    >>> from weft.extend.core import define_primitive
    >>> @define_primitive("cube")
    ... def cube(x):
    ...     return x * x * x
    >>> weft.vmap(weft.grad(cube))(weft.numpy.arange(3.0))
    Array([ 0.,  3., 12.], dtype=float32)
    """
    given = {"jvp": jvp, "linearize": linearize, "transpose": transpose, "vmap": vmap}
    given = {"type_rule": type_rule, "lower": lower, **given}
    _check_name(name)
    flags = {"multiple_results": bool(multiple_results), "elementwise": bool(elementwise)}
    if body is None and type_rule is None and lower is None:
        options: dict[str, Any] = {"linear": linear, **flags, **given}
        return lambda body: define_primitive(name, body=body, **options)
    _check_declaration(name, body, given)
    made = DefinedPrimitive(name, body=body, linear=_groups(name, linear), **flags)
    return _with_rules(made, given)


def _with_rules(made: DefinedPrimitive, given: dict[str, Rule | None]) -> DefinedPrimitive:
    """The primitive with the given rules and those that follow."""
    type_rule = given["type_rule"]
    if type_rule is not None:
        made.def_abstract_eval(_type_rule(made, type_rule))
    for what, (register, elementwise) in _REGISTER.items():
        rule = given[what]
        if rule is not None:
            register(made, elementwise(made, rule) if elementwise and made.elementwise else rule)
    derive_rules(made)
    derive_vmap(made)
    return made


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        message = "define_primitive takes the primitive's name first"
        got = f"{name!r:.80} of class {type(name).__name__}"
        fix = Fix("name", 'write define_primitive("name", body=function)')
        raise WeftTypeError(message, got=got, wanted="a str that is not empty", fix=fix)


def _check_declaration(name: str, body: Any, options: dict[str, Any]) -> None:
    for what, rule in {"body": body, **options}.items():
        if rule is not None and not callable(rule):
            raise WeftTypeError(
                f"define_primitive of {name!r}: {what} is no function",
                got=f"{rule!r:.80} of class {type(rule).__name__}",
                wanted="a function, or None",
                fix=Fix("function", f"pass a function as {what}", {"argument": what}),
            )
    missing = [what for what in ("type_rule", "lower") if options[what] is None]
    if body is None and missing:
        message = f"define_primitive of {name!r}: without a body, {missing[0]} is needed"
        got = ", ".join(key for key, value in options.items() if value)
        wanted = "a body, or both of type_rule and lower"
        text = f"pass {missing[0]}=…, or a body in existing operations"
        fix = Fix("declare", text, {"missing": missing[0]})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)


def _groups(name: str, linear: Any) -> Groups:
    """The groups of operands in which a primitive is linear."""
    if isinstance(linear, int):
        linear = (linear,)
    entries = tuple(linear)
    if all(isinstance(i, int) and not isinstance(i, bool) for i in entries):
        entries = (entries,) if entries else ()
    groups = tuple(tuple(group) for group in entries if not isinstance(group, int))
    flat = [i for group in groups for i in group]
    if (
        len(groups) != len(entries)
        or len(set(flat)) != len(flat)
        or any(not isinstance(i, int) or i < 0 for i in flat)
    ):
        message = f"define_primitive of {name!r}: linear names operands by their numbers"
        wanted = "different numbers from 0, as (0, 1), or in groups, as ((0,), (1,))"
        fix = Fix("linear", "write each operand once, counted from 0")
        raise WeftValueError(message, got=f"linear={linear!r:.100}", wanted=wanted, fix=fix)
    return groups


# ---- rules as they are given -------------------------------------------------------------------
# Those but the type rule are adapted for elementwise primitives alone.


def _type_rule(primitive: DefinedPrimitive, rule: Rule) -> Rule:
    """A given type rule, without mesh axes and repeated operands."""

    @functools.wraps(rule)
    def type_rule(*types: ArrayType, **params: Any) -> Any:
        own = [unvarying(t) for t in types]
        if primitive.elementwise:
            shape = common_shape(primitive.name, own, BROADCAST)
            own = [t.update(shape=shape) for t in own]
        out = rule(*own, **params)
        axes = join_varying(types)
        outs = out if isinstance(out, (tuple, list)) else [out]
        if not axes or not all(isinstance(t, ArrayType) for t in outs):
            return out
        return packed(primitive, [t.update(varying=axes) for t in listed(primitive, out)])

    return type_rule


def _lowering(primitive: DefinedPrimitive, rule: Rule) -> Rule:
    """A given lowering, with operands without dimensions repeated."""

    @functools.wraps(rule)
    def lower(context: LoweringContext, /, *values: Any, **params: Any) -> Any:
        shape = common_shape(primitive.name, context.in_types, BROADCAST)
        whole = copy.copy(context)
        whole.in_types = [t.update(shape=shape) for t in context.in_types]
        return rule(whole, *repeat_scalars(context, values, shape), **params)

    return lower


def _derivative(primitive: DefinedPrimitive, rule: Rule) -> Rule:
    """A given jvp rule, with tangents without dimensions repeated."""

    @functools.wraps(rule)
    def jvp(primals: Values, tangents: Values, /, **params: Any) -> Any:
        found = rule(primals, tangents, **params)
        if primitive.multiple_results or not isinstance(found, (tuple, list)) or len(found) != 2:
            return found
        out, tangent = found
        if tangent is None or type(tangent) is Zero or type_of(tangent).shape:
            return out, tangent
        return out, broadcast_scalar(tangent, type_of(out).shape)

    return jvp


def _transposition(primitive: DefinedPrimitive, rule: Rule) -> Rule:
    """A given transpose rule, which sums the cotangents of repeated operands."""

    @functools.wraps(rule)
    def transpose(cotangents: Any, /, *operands: Any, **params: Any) -> Any:
        out = rule(cotangents, *operands, **params)
        if not isinstance(out, (tuple, list)) or len(out) != len(operands):
            return out
        return [
            ct
            if ct is None or type(ct) is Zero or getattr(x, "shape", None)
            else unbroadcast(ct, x.type if hasattr(x, "type") else type_of(x))
            for ct, x in zip(out, operands, strict=True)
        ]

    return transpose


# Per argument: what registers the rule, and how that of an elementwise primitive is adapted.
_REGISTER: dict[str, tuple[Callable[..., Any], Callable[[DefinedPrimitive, Rule], Rule] | None]] = {
    "lower": (register_lowering, _lowering),
    "jvp": (register_jvp, _derivative),
    "linearize": (register_linearize, _derivative),
    "transpose": (register_transpose, _transposition),
    "vmap": (register_vmap, None),
}
