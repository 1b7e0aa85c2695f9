"""Derivatives of primitives declared by their parts, under the names of `jax.interpreters.ad`.

Each function sets the jvp rule of a primitive, and for a linear one its transpose rule, in place of
those it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.core.rules import LinearOperand, Zero
from weft.core.types import ArrayType, type_of
from weft.define.for_jax.rule_mappings import primitive_jvps, primitive_transposes
from weft.errors import MissingRuleError
from weft.errors.argument_errors import unsupported_argument
from weft.interpreters.jvp import jvp_flat
from weft.interpreters.linearize import linear_program, linearize_flat
from weft.ops.structural.tangents import add_tangents, add_tangents_p, instantiate, zeros

__all__ = [
    "add_jaxvals", "add_jaxvals_p", "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
    "get_primitive_transpose", "instantiate_zeros", "is_undefined_primal", "jvp", "linearize",
    "zeros_like_aval",
]  # fmt: skip

Rule = Callable[..., Any]
Values = Sequence[Any]

add_jaxvals_p = add_tangents_p
instantiate_zeros = instantiate


def add_jaxvals(x: Any, y: Any) -> Any:
    """The sum of two cotangents of equal shape, neither of them a `Zero`."""
    return add_tangents_p.bind(x, y)


def zeros_like_aval(aval: ArrayType) -> Any:
    """An array of zeros of a type.

    Args:
        aval: The type: shape and dtype.
    """
    return zeros(aval)


def is_undefined_primal(x: Any) -> bool:
    """Whether a transpose rule got a linear operand, which has a type and no value.

    Args:
        x: An operand as the transpose rule gets it.
    """
    return type(x) is LinearOperand


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """The transpose rule of a primitive; MissingRuleError if there is none."""
    try:
        return primitive_transposes[primitive]
    except KeyError:
        message = f"there is no transpose rule of the primitive {primitive.name!r}"
        operation = "get_primitive_transpose"
        raise MissingRuleError(message, operation=operation, got=primitive.name) from None


def _sum(tangents: Values, out_type: ArrayType) -> Any:
    total: Any = Zero(out_type)
    for tangent in tangents:
        total = add_tangents(total, tangent)
    return total


def _jvp_of_parts(
    primitive: Primitive,
    parts: Sequence[Rule | None],
    with_result: bool,
    primals: Values,
    tangents: Values,
    **params: Any,
) -> Any:
    out = primitive.bind(*primals, **params)
    given = (out,) if with_result else ()
    terms = [
        rule(tangent, *given, *primals, **params)
        for rule, tangent in zip(parts, tangents, strict=True)
        if rule is not None and type(tangent) is not Zero
    ]
    if not primitive.multiple_results:
        return out, _sum(terms, type_of(out).tangent())
    types = [type_of(x).tangent() for x in out]
    return out, [_sum([term[i] for term in terms], of) for i, of in enumerate(types)]


def defjvp(primitive: Primitive, *jvprules: Rule | None) -> None:
    """Sets the jvp rule by one rule for each operand: `rule(tangent, *primals, **params)`.

    None means an operand on which the result does not depend smoothly.

    Args:
        jvprules: The rule, or None, of each operand.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import ad
    >>> power_p = UncheckedPrimitive("power")
    >>> _ = power_p.def_impl(lambda x, y: x**y)
    >>> ad.defjvp(power_p, lambda t, x, y: t * y * x ** (y - 1), None)
    >>> weft.grad(lambda x: power_p.bind(x, 3.0))(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    primitive_jvps[primitive] = partial(_jvp_of_parts, primitive, jvprules, False)


def defjvp2(primitive: Primitive, *jvprules: Rule | None) -> None:
    """As `defjvp`, with rules that get the result: `rule(tangent, result, *primals, **params)`.

    Args:
        jvprules: The rule, or None, of each operand.
    """
    primitive_jvps[primitive] = partial(_jvp_of_parts, primitive, jvprules, True)


def _linear_jvp(primitive: Primitive, primals: Values, tangents: Values, **params: Any) -> Any:
    out = primitive.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        if primitive.multiple_results:
            return out, [Zero(type_of(x).tangent()) for x in out]
        return out, Zero(type_of(out).tangent())
    return out, primitive.bind(*map(instantiate, tangents), **params)


def _linear_transpose(rule: Rule, cotangent: Any, *operands: Any, **params: Any) -> Any:
    return rule(cotangent, **params)


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """Sets the rules of a primitive linear in all operands together; the transpose rule is
    `rule(cotangent, **params)` and returns a cotangent for each operand.

    Args:
        transpose_rule: The rule, from the cotangent of the result to a list of those of the
            operands.
    """
    primitive_jvps[primitive] = partial(_linear_jvp, primitive)
    primitive_transposes[primitive] = partial(_linear_transpose, transpose_rule)


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """As `deflinear`, with a transpose rule `rule(cotangent, *operands, **params)`.

    Args:
        transpose_rule: The rule, from cotangent and operands to a list of cotangents.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import ad
    >>> triple_p = UncheckedPrimitive("triple")
    >>> _ = triple_p.def_impl(lambda x: x * 3.0)
    >>> _ = triple_p.def_abstract_eval(lambda x: x)
    >>> ad.deflinear2(triple_p, lambda ct, x: [triple_p.bind(ct)])
    >>> weft.grad(triple_p.bind)(1.0)
    Array(3., dtype=float32, weak_type=True)
    """
    primitive_jvps[primitive] = partial(_linear_jvp, primitive)
    primitive_transposes[primitive] = transpose_rule


def _bilinear_transpose(
    left: Rule, right: Rule, cotangent: Any, x: Any, y: Any, **params: Any
) -> Any:
    if is_undefined_primal(x):
        return [left(cotangent, x, y, **params), None]
    return [None, right(cotangent, x, y, **params)]


def defbilinear(primitive: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Sets the rules of a primitive that is linear in each of its two operands.

    `lhs_rule(cotangent, x, y, **params)` returns the cotangent of `x`, `rhs_rule` that of `y`; the
    operand whose cotangent it is has a type and no value.

    Args:
        lhs_rule: The rule for the first operand.
        rhs_rule: The rule for the second operand.
    """

    def first(tangent: Any, x: Any, y: Any, **params: Any) -> Any:
        return primitive.bind(tangent, y, **params)

    def second(tangent: Any, x: Any, y: Any, **params: Any) -> Any:
        return primitive.bind(x, tangent, **params)

    defjvp(primitive, first, second)
    primitive_transposes[primitive] = partial(_bilinear_transpose, lhs_rule, rhs_rule)


def _called(function: Any) -> Rule:
    """A function of flat values, also for one that `linear_util` wrapped."""
    return getattr(function, "call_wrapped", function)


def jvp(
    fun: Any, primals: Values, tangents: Values, has_aux: bool = False, instantiate: Any = True
) -> tuple[list[Any], list[Any]]:
    """Results and tangents of a function of flat lists; with `instantiate`, no tangent is a `Zero`.

    Args:
        fun: A function from a list of values to a list of values, called with positional arguments.
        has_aux: Must be False: results put aside are not supported.
        primals: The values of the arguments.
        tangents: The tangent of each argument.
        instantiate: Whether tangents that are zero are returned as arrays.

    >>> from weft.extend.interpreters import ad
    >>> ad.jvp(lambda x: [lax.sin(x)], (0.0,), (2.0,))
    ([Array(0., dtype=float32, weak_type=True)], [Array(2., dtype=float32, weak_type=True)])
    """
    if has_aux:
        why, fix = "the function returns a flat list", "take the derivative with weft.jvp"
        raise unsupported_argument("jvp", "has_aux", has_aux, why, fix, wanted=False)
    outs, found = jvp_flat(_called(fun), primals, tangents)
    return outs, list(map(instantiate_zeros, found)) if instantiate else found


def linearize(fun: Any, *primals: Any) -> tuple[list[Any], ClosedJaxpr]:
    """The results of a function of flat lists, and the program from tangents of its arguments to
    those of its results.

    Args:
        fun: A function from a list of values to a list of values, called with positional arguments.
        primals: The values of the arguments.

    >>> from weft.extend.interpreters import ad
    >>> outs, program = ad.linearize(lambda x: [lax.sin(x)], 0.0)
    >>> program(2.0)
    [Array(2., dtype=float32, weak_type=True)]
    """
    active = [type_of(x).dtype.kind != "V" for x in primals]
    outs, tangents, linear = linearize_flat(_called(fun), primals, active, "linearize")
    jaxpr, residuals, _ = linear_program(linear, list(map(instantiate_zeros, tangents)))
    return outs, ClosedJaxpr(jaxpr, residuals)
