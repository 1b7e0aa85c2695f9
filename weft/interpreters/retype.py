"""Jaxprs for values that vary along more mesh axes than those they were recorded for.

A loop records its body once, and may find out afterwards that a carried value that began equal on
all devices comes to differ. The recorded jaxpr is then evaluated again for the wider types. A jaxpr
inside one of its equations is widened by the `retype` rule of the primitive that holds it, which
the recording trace calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import rebuild
from weft.ops.collectives.all_reduce import vary
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.extended_dtypes import is_key


def join_types(a: ArrayType, b: ArrayType) -> ArrayType:
    """The type that holds values of both types, which have one shape and dtype.

    Args:
        a, b: A type; the two differ in varying axes or weak types only.
    """
    if a is b:
        return a
    return a.update(
        weak_type=a.weak_type and b.weak_type,
        varying=a.varying | b.varying,
        unreduced=a.unreduced | b.unreduced,
    )


def cast_to(value: Any, wanted: ArrayType) -> Any:
    """Casts a value to a wider type of the same shape and dtype; the casts cost nothing.

    Args:
        value: An array or a tracer.
        wanted: The type that varies along more mesh axes.
    """
    got = type_of(value)
    if got is wanted:
        return value
    if got.weak_type != wanted.weak_type and not is_key(value):
        value = convert_element_type(value, wanted.dtype, wanted.weak_type)
    return vary(value, wanted.varying)


def pvary_jaxpr(
    jaxpr: Jaxpr, in_types: Sequence[ArrayType], out_varying: Sequence[frozenset[str]] | None = None
) -> Jaxpr:
    """The jaxpr for inputs that differ from its own in varying axes or weak types.

    in_types: the types that the new jaxpr takes; out_varying: for each result the mesh axes along
    which it varies at least; None for none.
    """
    outs = tuple(out_varying) if out_varying is not None else None

    def make() -> Jaxpr:
        same = all(a is b for a, b in zip(in_types, jaxpr.in_types, strict=True))
        own = [t.varying for t in jaxpr.out_types]
        if same and all(v <= old for v, old in zip(outs or own, own, strict=True)):
            return jaxpr

        def function(*values: Any) -> list[Any]:
            found = eval_jaxpr(jaxpr, (), *values)
            if outs is None:
                return found
            return [vary(x, axes) for x, axes in zip(found, outs, strict=True)]

        return rebuild(function, in_types, jaxpr.name, "widen")

    return jaxpr.memoize(("pvary_jaxpr", tuple(in_types), outs), make)


def varying_along(types: Sequence[ArrayType], axes: Sequence[frozenset[str]]) -> list[ArrayType]:
    """The types, each varying along these mesh axes too."""
    return [t.update(varying=t.varying | own) for t, own in zip(types, axes, strict=True)]


def retype_program(
    types: Sequence[ArrayType], params: dict[str, Any]
) -> tuple[list[ArrayType], dict[str, Any]]:
    """The retype rule of a primitive that calls one jaxpr, the parameter `jaxpr`."""
    jaxpr = params["jaxpr"]
    wanted = varying_along(jaxpr.in_types, [t.varying for t in types])
    return wanted, params | {"jaxpr": pvary_jaxpr(jaxpr, wanted)}


def retype_together(
    types: Sequence[ArrayType], params: dict[str, Any]
) -> tuple[list[ArrayType], dict[str, Any]]:
    """The retype rule of a primitive whose jaxpr combines elements of all operands."""
    union: frozenset[str] = frozenset().union(*(t.varying for t in types))
    return [t.update(varying=union) for t in types], params
