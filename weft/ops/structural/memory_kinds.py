"""Moves of values between kinds of memory inside a program."""

from __future__ import annotations

from typing import Any

from weft.core.access_pattern import elementwise_reads
from weft.core.rules import AxisData, Values
from weft.core.types import ArrayType
from weft.ops.declare import linear_primitive
from weft.runtime import stablehlo


def in_memory_vmap(axis: AxisData, args: Values, dims: Any, *, kind: str, back: str) -> Any:
    return in_memory_p.bind(args[0], kind=kind, back=back), dims[0]


def in_memory_transpose(ct: Any, x: Any, *, kind: str, back: str) -> list[Any]:
    return [in_memory_p.bind(ct, kind=back, back=kind)]


def in_memory_type(x: ArrayType, kind: str, back: str) -> ArrayType:
    return x


def in_memory_lower(context: Any, x: Any, *, kind: str, back: str) -> Any:
    # The memory of a CPU is that of the host: it has all names, and nothing moves.
    return x if context.platform == "cpu" else stablehlo.memory_placement(x, kind)


# The value in memory of a kind; `back` is the kind in which it lies before.
in_memory_p = linear_primitive(
    "in_memory",
    type_rule=in_memory_type,
    transpose=in_memory_transpose,
    vmap=in_memory_vmap,
    reads=elementwise_reads,
    lower=in_memory_lower,
    flops="none",
)
