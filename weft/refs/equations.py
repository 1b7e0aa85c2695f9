"""Equations by which recorded programs read, swap and add to references from outside.

These equations stand in a recorded jaxpr only until it is discharged: no transformation has rules
for them, and none sees them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import rules
from weft.core.effects import ACCUMULATE, READ, WRITE, Effect, RefType
from weft.core.jaxpr import Equation
from weft.core.primitive import Facts, Primitive, Work
from weft.core.trace import Tracer
from weft.core.types import ArrayType
from weft.ops.flops import real_flops
from weft.refs.index import Slice, indexed_shape


class _Traced:
    """The place of an operand in an index."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


TRACED = _Traced()


class IndexParameter(tuple[Any, ...]):
    """An index as a parameter of an equation, printed as Python writes it."""

    __slots__ = ()

    def __repr__(self) -> str:
        texts = []
        for part in self:
            if type(part) is tuple:
                start, stop, step = ("" if x is None else str(x) for x in part[1:])
                texts.append(f"{start}:{stop}" + (f":{step}" if step else ""))
            else:
                texts.append("..." if part is Ellipsis else str(part))
        return f"[{', '.join(texts)}]"


WHOLE = IndexParameter((Ellipsis,))

get_p = Primitive("get", memoise=False)
swap_p = Primitive("swap", memoise=False)
get_p.facts = Facts(flops="none", reads_part=True)
swap_p.facts = Facts(flops="none", updates=1)
addupdate_p = Primitive("addupdate", multiple_results=True, memoise=False)


def split_index(index: Any) -> tuple[IndexParameter, list[Any]] | None:
    """An index with `TRACED` for its arrays, and these; None if no equation can hold it."""
    parts: list[Any] = []
    operands: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or part is Ellipsis or type(part) is int:
            parts.append(part)
        elif isinstance(part, slice):
            if any(
                x is not None and type(x) is not int for x in (part.start, part.stop, part.step)
            ):
                return None
            parts.append(("slice", part.start, part.stop, part.step))
        elif type(part) is Slice and type(part.start) is int:
            parts.append(("slice", part.start, part.start + part.extent, part.stride))
        elif isinstance(part, Tracer) and part.dtype.kind in "iu":
            parts.append(TRACED)
            operands.append(part)
        else:
            return None
    return IndexParameter(parts), operands


def index_with(index: tuple[Any, ...], operands: Any) -> Any:
    """The index that `split_index` took apart, with other values as its arrays."""
    given = iter(operands)
    if index == WHOLE:
        return Ellipsis
    return tuple(
        next(given) if part is TRACED else slice(*part[1:]) if type(part) is tuple else part
        for part in index
    )


def part_type(of: RefType, index: tuple[Any, ...], types: Any) -> ArrayType:
    """The type of the part of a reference at an index."""
    examples = [np.zeros(type.shape, np.intp) for type in types]
    shape = indexed_shape(of.shape, index_with(index, examples))
    varying = of.varying.union(*(type.varying for type in types))
    return of.inner.update(shape=shape, varying=varying)


def get_type(of: RefType, *types: ArrayType, index: tuple[Any, ...]) -> ArrayType:
    return part_type(of, index, types)


def swap_type(of: RefType, value: ArrayType, *types: ArrayType, index: Any) -> ArrayType:
    return part_type(of, index, types)


def addupdate_type(of: RefType, value: ArrayType, *types: ArrayType, index: Any) -> list[ArrayType]:
    return []


def _of_value(eqn: Equation) -> Work:
    value = eqn.inputs[1].type
    return Work(real_flops(value, float(value.size)))


def _declare(primitive: Primitive, type_rule: Any, *effects: Effect) -> None:
    found = frozenset(effects)
    rules.type_rule.register(primitive, type_rule)
    rules.effects.register(primitive, lambda params: found)


_declare(get_p, get_type, READ)
_declare(swap_p, swap_type, READ, WRITE)
_declare(addupdate_p, addupdate_type, ACCUMULATE)
addupdate_p.facts = Facts(flops=_of_value)
