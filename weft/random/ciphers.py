"""Block ciphers as primitives: from words of a key and of a counter to as many random words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, ShapeError
from weft.ops.declare import join_varying, primitive
from weft.ops.elementwise.families import align
from weft.runtime import stablehlo

_uint32 = np.dtype(np.uint32)
_NUMBERS = {2: "two", 4: "four", 6: "six"}


def broadcast_word(word: Any, shape: tuple[int, ...]) -> Any:
    """Broadcasts a value of a program that has no dimensions to a shape."""
    if list(word.type.shape) == list(shape):
        return word
    return stablehlo.broadcast_in_dim(word, shape, ())


def cipher(name: str, size: int, lower: Callable[..., Any]) -> Primitive:
    """An elementwise primitive from two words of a key and `size` of a counter to `size` words.

    All words are uint32, of one shape or without dimensions. Nothing can be differentiated.
    """
    prim = Primitive(name, multiple_results=True)

    def type_rule(*words: ArrayType) -> list[ArrayType]:
        shapes = {word.shape for word in words if word.shape}
        got = ", ".join(map(str, words))
        if len(words) != 2 + size or any(word.dtype != _uint32 for word in words):
            message = f"{name} takes {_NUMBERS[2 + size]} arrays of uint32"
            wanted = f"two words of a key and {_NUMBERS[size]} of a counter"
            raise DTypeError(message, got=got, wanted=wanted)
        if len(shapes) > 1:
            message = f"{name} takes operands of one shape (or without dimensions)"
            raise ShapeError(message, got=got, wanted="equal shapes")
        shape = shapes.pop() if shapes else ()
        return [ArrayType(shape, _uint32, varying=join_varying(words))] * size

    def jvp(primals: Values, tangents: Values) -> tuple[Any, Any]:
        outs = prim.bind(*primals)
        return outs, [Zero(type_of(out).tangent()) for out in outs]

    def vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[Any, tuple[int, ...]]:
        values, dim = align(axis, args, dims)
        return prim.bind(*values), (dim,) * size

    return primitive(prim, type_rule=type_rule, jvp=jvp, vmap=vmap, lower=lower, flops="none")
