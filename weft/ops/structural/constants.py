"""Constants inside jaxprs: an equation without operands whose result is a given array.

Arrays that a function closes over become inputs of its jaxpr. A derived jaxpr can take no further
inputs, and the rules that users write for custom derivatives may close over arrays: these become
such equations in the derived jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.jaxpr import Equation, Jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import Tracer, leaked
from weft.ops.declare import primitive
from weft.ops.structural.extended_dtypes import KeyDType, key_bits
from weft.runtime import stablehlo


class Constant:
    """An array as the parameter of an equation, compared by identity."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __repr__(self) -> str:
        return f"<{self.array.type}>"


def inline_consts(jaxpr: Jaxpr, consts: Sequence[Any]) -> Jaxpr:
    """Returns the jaxpr with its closed-over inputs replaced by constants.

    Raises LeakedTracerError if one of them is a traced value.

    Args:
        consts: The values of the closed-over inputs.
    """
    if not consts:
        return jaxpr
    eqns = []
    for var, value in zip(jaxpr.inputs, consts, strict=False):
        if isinstance(value, Tracer):
            raise leaked(value)
        eqns.append(Equation(constant_p, [], {"value": Constant(as_array(value))}, [var]))
    inputs = jaxpr.inputs[len(consts) :]
    return Jaxpr(inputs, [*eqns, *jaxpr.eqns], jaxpr.outputs, 0, jaxpr.name)


def constant_lower(context: Any, *, value: Constant) -> Any:
    array = value.array
    if isinstance(array.dtype, KeyDType):
        array = key_bits(array)
    return stablehlo.constant(np.asarray(array), array.shape, array.dtype)


# Not memoised: the primitive's caches would keep the arrays alive.
constant_p = primitive(
    Primitive("constant", memoise=False),
    type_rule=lambda *, value: value.array.type,
    lower=constant_lower,
    makes_no_nan=True,
    flops="none",
    fusible=True,
)
rules.impl.register(constant_p, lambda *, value: value.array)
