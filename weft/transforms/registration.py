"""Giving rules to primitives that are declared outside weft's own `ops/`.

One function per table of `core.rules`; each refuses a second rule for the same primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core import rules
from weft.core.primitive import Primitive
from weft.errors import WeftValueError

__all__ = [
    "register_dce",
    "register_jvp",
    "register_linearize",
    "register_lowering",
    "register_partial_eval",
    "register_transpose",
    "register_vmap",
]

Rule = Callable[..., Any]


def register_jvp(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(primals, tangents, **params) -> (results, tangents)`.

    A tangent may be a `Zero`. What the rule binds on tangents must be linear in them: then the same
    rule serves `linearize` and reverse mode.
    """
    return rules.jvp.register(primitive, rule)


def register_linearize(primitive: Primitive, rule: Rule) -> Rule:
    """Sets a rule like that of `register_jvp` for linearization alone."""
    return rules.linearize.register(primitive, rule)


def register_transpose(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(cotangent, *operands, **params)`, one cotangent (or None) per operand.

    Linear operands are `LinearOperand`s.
    """
    return rules.transpose.register(primitive, rule)


def register_vmap(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(axis, args, dims, **params) -> (results, dims)`; a dim of None is not mapped."""
    return rules.vmap.register(primitive, rule)


def register_partial_eval(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, unknown) -> SplitEquation`, for a primitive that holds programs."""
    return rules.partial_eval.register(primitive, rule)


def register_dce(primitive: Primitive, rule: Rule) -> Rule:
    """Sets `rule(equation, used) -> (used inputs, equation or None)`."""
    return rules.dce.register(primitive, rule)


def register_lowering(primitive: Primitive, rule: Rule, platform: str | None = None) -> Rule:
    """Sets `rule(context, *values, **params)`, which emits StableHLO and answers with its values.

    With `platform` ("cpu", "cuda") the rule serves that platform alone.
    """
    if platform is None:
        return rules.lower.register(primitive, rule)
    if (primitive, platform) in rules.lower_for_platform:
        raise WeftValueError(
            f"the primitive {primitive.name!r} has a lowering rule for {platform} already"
        )
    rules.lower_for_platform[primitive, platform] = rule
    return rule
