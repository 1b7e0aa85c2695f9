"""`shard_map` with its older arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from weft.base.facades import public_names
from weft.sharding import Mesh
from weft.spmd import shard_map as current

__all__ = ["shard_map"]

__dir__ = public_names(globals())


def shard_map(
    f: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any, check_rep: bool = True,
    auto: Collection[str] = frozenset(),
) -> Callable[..., Any]:  # fmt: skip
    """`weft.shard_map`, where `check_rep` is its `check_vma`, and `auto` the axes of the mesh that
    its `axis_names` leave out.

    Args:
        f: A function of the blocks that each device holds.
        mesh: The mesh of devices.
        in_specs: How arguments are split over the mesh: a tree prefix of specs.
        out_specs: How results are put together: a tree prefix of specs.
        check_rep: Whether the types of results are checked against `out_specs`.
        auto: The axes of the mesh that the compiler splits by itself.

    >>> from weft.experimental.shard_map import shard_map
    >>> mesh = weft.make_mesh((2,), ("i",))
    >>> double = shard_map(lambda x: 2 * x, mesh, weft.P("i"), weft.P("i"))
    >>> double(jnp.arange(4))
    Array([0, 2, 4, 6], dtype=int32, sharding=P('i'))
    """
    names = [name for name in mesh.axis_names if name not in auto]
    mapped: Callable[..., Any] = current.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep, axis_names=names
    )
    return mapped
