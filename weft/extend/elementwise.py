"""Families of elementwise primitives: a primitive with all of its rules from one declaration."""

from weft.base.facades import public_names
from weft.ops.elementwise.families import (
    align,
    comparison,
    elementwise_lower,
    elementwise_type,
    elementwise_vmap,
    nary,
    nary_jvp,
    nary_transpose,
    operands,
    repeat_scalars,
    unary,
    unbroadcast,
)

# fmt: off
__all__ = [
    "align", "comparison", "elementwise_lower", "elementwise_type", "elementwise_vmap", "nary",
    "nary_jvp", "nary_transpose", "operands", "repeat_scalars", "unary", "unbroadcast",
]
# fmt: on

__dir__ = public_names(globals())
