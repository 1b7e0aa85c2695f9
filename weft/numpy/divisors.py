"""Greatest common divisors and least common multiples, elementwise."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.numpy.compiled import compiled
from weft.numpy.elementwise import constant, filled, together
from weft.numpy.promotion import Binary, binary
from weft.ops import arithmetic as lax
from weft.ops import divisors
from weft.ops.selection import select

__all__ = ["gcd", "lcm"]


@compiled
def _lcm(x: Any, y: Any) -> Any:
    if type_of(x).dtype in dtypes.SIGNED:
        x, y = lax.abs(x), lax.abs(y)
    x, y = together(x, y)
    common = divisors.gcd(x, y)
    zero = lax.eq(common, constant(0, x))
    return lax.mul(x, lax.div(y, select(zero, filled(1, x), common)))


gcd: Binary = binary(
    "gcd",
    {dtypes.INTEGER: divisors.gcd_p.bind},
    """The greatest common divisor of x1 and x2, elementwise, of integers; 0 where both are 0.""",
)
lcm: Binary = binary(
    "lcm",
    {dtypes.INTEGER: _lcm},
    """The least common multiple of x1 and x2, elementwise, of integers; 0 where one is 0.""",
)
