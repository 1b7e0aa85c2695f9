"""`shard_alike`: two arrays with one sharding."""

from __future__ import annotations

from typing import Any

from weft import tree
from weft.base.facades import public_names
from weft.core.types import type_of, user_value
from weft.errors import ShapeError, TreeError
from weft.errors.argument_errors import refusal
from weft.ops.structural.sharding_constraint import shard_alike_p

__all__ = ["shard_alike"]

__dir__ = public_names(globals())


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Both trees, with each pair of arrays split over devices in one way.

    In a compiled function the compiler chooses how, and the cotangents of a pair are split alike
    too; outside of one, the second array is moved to the sharding of the first. Raises TreeError
    for trees of different structures, and ShapeError for arrays of different shapes.

    Args:
        x: A tree of arrays.
        y: A tree of the same structure, with arrays of the same shapes.

    >>> from weft.experimental.shard_alike import shard_alike
    >>> weft.jit(shard_alike)(jnp.zeros(2), jnp.ones(2))[1]
    Array([1., 1.], dtype=float32)
    """
    (left, structure), (right, other) = tree.flatten(x), tree.flatten(y)
    if structure != other:
        message = "shard_alike: the trees have different structures"
        raise refusal(
            TreeError, message, "shard_alike", f"{structure} and {other}", "one structure"
        )
    pairs = []
    for first, second in zip(left, right, strict=True):
        shapes = type_of(user_value(first)).shape, type_of(user_value(second)).shape
        if shapes[0] != shapes[1]:
            message = "shard_alike: the arrays have different shapes"
            got = f"shapes {shapes[0]} and {shapes[1]}"
            raise refusal(ShapeError, message, "shard_alike", got, "one shape")
        pairs.append(shard_alike_p.bind(user_value(first), user_value(second)))
    return structure.unflatten([a for a, _ in pairs]), structure.unflatten([b for _, b in pairs])
