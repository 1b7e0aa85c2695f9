"""Declares primitives: one call fills the tables of rules.

Most primitives share these parts: the join of the operands' varying axes, the jvp rule of a linear
operation, and the lowering to one StableHLO operation. The families of elementwise primitives in
`elementwise/families.py` build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core import rules
from weft.core.primitive import Facts, Primitive
from weft.core.rules import LinearOperand, Values, Zero
from weft.core.types import ArrayType
from weft.runtime import stablehlo

Rule = Callable[..., Any]


def join_varying(types: Sequence[ArrayType]) -> frozenset[str]:
    """The union of the operands' varying axes: the default rule of a first-order primitive.

    Args:
        types: The types of the operands.
    """
    first = types[0].varying if types else frozenset()
    for type in types[1:]:
        if type.varying is not first:
            return frozenset().union(*(t.varying for t in types))
    return first


def result_type(
    types: Sequence[ArrayType], shape: Sequence[int], dtype: Any, weak_type: bool = False
) -> ArrayType:
    """The type of a result computed from operands of the given types.

    Args:
        types: The types of the operands, which decide along which mesh axes the result varies.
        shape: The lengths of the result.
        dtype: The dtype of the result.
        weak_type: Whether the dtype yields to that of another operand.

    >>> from weft.extend.core import ArrayType, result_type
    >>> result_type([ArrayType((3,), "int32", varying=("i",))], (), np.dtype("float32"))
    f32[]{i}
    """
    return ArrayType(tuple(shape), dtype, weak_type, join_varying(types))


def primitive(
    name: str | Primitive,
    *,
    type_rule: Rule,
    lower: Rule,
    jvp: Rule | None = None,
    linearize: Rule | None = None,
    transpose: Rule | None = None,
    vmap: Rule | None = None,
    reads: Rule | None = None,
    moves: Rule | None = None,
    on_host: Rule | None = None,
    multiple_results: bool = False,
    **facts: Any,
) -> Primitive:
    """Returns a first-order primitive with its rules (see `core.rules` for their signatures).

    `name` may be a primitive made before, for rules that bind the primitive itself.

    Raises WeftValueError if a primitive made before has one of the rules already.

    Args:
        type_rule: Returns the type, or types, of the results.
        lower: Emits StableHLO operations.
        jvp: The rule for forward mode.
        linearize: The rule for `linearize` and reverse mode, where it differs from `jvp`.
        transpose: The rule for reverse mode, of linear operands.
        vmap: The rule for mapped operands.
        reads: In which order elements of operands are read.
        moves: Where an element of the result comes from, if it is only moved.
        on_host: Does the same to NumPy arrays.
        multiple_results: Whether the primitive has a list of results, and not one.
        facts: What is true of the primitive: keywords of `Facts`, such as `cheap=True`.

    >>> from weft.extend import core
    >>> from weft.extend.interpreters import mlir
    >>> doubled_p = core.declare(
    ...     "doubled",
    ...     type_rule=lambda x: x,
    ...     lower=lambda context, x: mlir.builders.add(x, x),
    ...     jvp=core.linear_jvp(lambda x: doubled_p.bind(x)),
    ... )
    >>> weft.jvp(doubled_p.bind, (jnp.ones(2),), (jnp.ones(2),))[1]
    Array([2., 2.], dtype=float32)
    """
    made = name if isinstance(name, Primitive) else Primitive(name, multiple_results)
    if facts:
        made.facts = Facts(**facts)
    rules.type_rule.register(made, type_rule)
    rules.lower.register(made, lower)
    for table, rule in (
        (rules.jvp, jvp),
        (rules.linearize, linearize),
        (rules.transpose, transpose),
        (rules.vmap, vmap),
        (rules.reads, reads),
        (rules.moves, moves),
        (rules.on_host, on_host),
    ):
        if rule is not None:
            table.register(made, rule)
    return made


def linear_primitive(name: str, **rules_of: Any) -> Primitive:
    """A primitive with the rule of `linear_jvp`; the others are those that `primitive` takes."""
    made = Primitive(name)
    return primitive(made, jvp=linear_jvp(made.bind), **rules_of)


def linear_jvp(bind: Callable[..., Any]) -> Rule:
    """The jvp rule of a primitive that is linear in its first operand, others being constant.

    Args:
        bind: Applies the primitive: `bind(*operands, **params)`.
    """

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        result = bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return result, Zero(result.type.tangent())
        return result, bind(tangents[0], *primals[1:], **params)

    return jvp


def linear_operands(operands: Sequence[Any]) -> list[bool]:
    """Returns which operands of a transpose rule are linear.

    Args:
        operands: The operands as the transpose rule gets them.
    """
    return [type(operand) is LinearOperand for operand in operands]


def emit_reduction(x: Any, init: Any, axes: Sequence[int], combine: Callable[..., Any]) -> Any:
    """Emits the combination of the elements of one value along axes."""
    return stablehlo.reduce([x], [init], axes, lambda a, b: [combine(a[0], b[0])])[0]


def lower_to(name: str) -> Rule:
    """The lowering to one StableHLO operation without attributes."""

    def lower(context: Any, *values: Any) -> Any:
        return stablehlo.op1(name, values, stablehlo.array_type_to_ir(context.out_types[0]))

    return lower
