"""Names and values for passes of XLA on the operation that computes a value."""

from __future__ import annotations

from typing import Any

from weft.core.rules import AxisData, Values
from weft.core.types import ArrayType
from weft.ops.declare import linear_primitive
from weft.runtime import stablehlo

Pairs = tuple[tuple[str, str], ...]


def metadata_type(x: ArrayType, pairs: Pairs) -> ArrayType:
    return x


def metadata_vmap(axis: AxisData, args: Values, dims: Any, *, pairs: Pairs) -> Any:
    return metadata_value_p.bind(args[0], pairs=pairs), dims[0]


def metadata_lower(context: Any, x: Any, *, pairs: Pairs) -> Any:
    stablehlo.add_metadata(x, dict(pairs))
    return x


# The value, computed by an operation that carries the pairs.
metadata_value_p = linear_primitive(
    "xla_metadata_value",
    type_rule=metadata_type,
    transpose=lambda ct, x, pairs: [ct],
    vmap=metadata_vmap,
    lower=metadata_lower,
    flops="none",
)
