"""Greatest common divisors and least common multiples, elementwise."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.core.types import type_of
from weft.kinds.compiled_functions import compiled
from weft.numpy.elementwise import constant, filled, together
from weft.numpy.promotion import BinaryUfunc, binary_ufunc
from weft.ops.elementwise import arithmetic as lax
from weft.ops.elementwise import divisors
from weft.ops.elementwise.selection import select

__all__ = ["gcd", "lcm"]


@compiled
def _lcm(x: Any, y: Any) -> Any:
    if type_of(x).dtype in dtypes.SIGNED:
        x, y = lax.abs(x), lax.abs(y)
    x, y = together(x, y)
    common = divisors.gcd(x, y)
    zero = lax.eq(common, constant(0, x))
    return lax.mul(x, lax.div(y, select(zero, filled(1, x), common)))


gcd: BinaryUfunc = binary_ufunc(
    "gcd",
    {dtypes.INTEGER: divisors.gcd_p.bind},
    """The greatest common divisor of x1 and x2, elementwise, of integers; 0 where both are 0.

    >>> jnp.gcd(jnp.array([12, 7]), 18)
    Array([6, 1], dtype=int32)
    """,
    identity=0,
    reorderable=True,
)
lcm: BinaryUfunc = binary_ufunc(
    "lcm",
    {dtypes.INTEGER: _lcm},
    """The least common multiple of x1 and x2, elementwise, of integers; 0 where one is 0.

    >>> jnp.lcm(jnp.array([4, 6]), 10)
    Array([20, 30], dtype=int32)
    """,
    reorderable=True,
)
