"""`smap`: a function over the blocks of one mesh axis, with the dimensions that it splits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import tree
from weft.errors import Fix, WeftNotImplementedError, api_boundary
from weft.errors.argument_errors import invalid_type
from weft.sharding import PartitionSpec
from weft.spmd.shard_map import shard_map

_NOT_SAID = object()


@api_boundary
def smap(
    f: Callable[..., Any] | None = None,
    /,
    *,
    in_axes: Any = _NOT_SAID,
    out_axes: Any,
    axis_name: str,
    bucket_bytes: int | None = None,
) -> Any:
    """A function that every device along one mesh axis runs on its own blocks: `shard_map` over
    that axis, with specs written as numbers of dimensions.

    f: the function that each device runs on its blocks.

    `in_axes` and `out_axes` are tree prefixes of the arguments and of the result: each leaf is the
    dimension that is split along `axis_name`, or None for a value that is whole everywhere. The
    mesh is the one in force; its other axes stay with the compiler. `bucket_bytes` is that of
    `shard_map`. Without a function it is a decorator.

    Raises WeftNotImplementedError without `in_axes`: types do not say how arrays are split.
    Otherwise raises what `shard_map` does, and WeftTypeError for axes that are not numbers.

    >>> import weft, weft.numpy as jnp
    >>> with weft.set_mesh(weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])):
    ...     double = weft.smap(lambda x: 2 * x, in_axes=0, out_axes=0, axis_name="i")
    ...     print(double(jnp.arange(4)))
    [0 2 4 6]
    """
    if f is None:
        options = {"in_axes": in_axes, "out_axes": out_axes}
        return functools.partial(smap, axis_name=axis_name, bucket_bytes=bucket_bytes, **options)
    if in_axes is _NOT_SAID:
        message = "smap: in_axes has to be said, since types do not say how arrays are split"
        fix = Fix("argument", "pass in_axes=0, or a tuple with one number per argument")
        raise WeftNotImplementedError(message, got="no in_axes", fix=fix)

    def specs(axes: Any, argument: str) -> Any:
        return tree.map(
            lambda axis: _spec(axis, axis_name, argument), axes, is_leaf=lambda x: x is None
        )

    return shard_map(
        f,
        in_specs=specs(in_axes, "in_axes"),
        out_specs=specs(out_axes, "out_axes"),
        axis_names={axis_name},
        bucket_bytes=bucket_bytes,
    )


def _spec(axis: Any, name: str, argument: str) -> PartitionSpec:
    if axis is None:
        return PartitionSpec()
    if type(axis) is not int or axis < 0:
        message = f"smap: {argument} has the number of a dimension, or None"
        raise invalid_type(message, "smap", argument, axis, "an int of 0 or more, or None")
    return PartitionSpec(*[None] * axis, name)
