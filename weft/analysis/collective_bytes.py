"""The collectives among the primitives: their kinds, and what an equation sends between devices."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from weft import dtypes
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive
from weft.core.types import ArrayType
from weft.ops.collectives.all_reduce import pmax_p, pmin_p, psum_p
from weft.ops.collectives.invariant import all_gather_invariant_p
from weft.ops.collectives.movement import all_gather_p, all_to_all_p, psum_scatter_p
from weft.ops.collectives.permutation import ppermute_p
from weft.sharding.mesh import AnyMesh

KIND_OF: dict[Primitive, str] = {
    psum_p: "all_reduce",
    pmax_p: "all_reduce",
    pmin_p: "all_reduce",
    all_gather_p: "all_gather",
    all_gather_invariant_p: "all_gather",
    psum_scatter_p: "reduce_scatter",
    ppermute_p: "collective_permute",
    all_to_all_p: "all_to_all",
}


class Collective(NamedTuple):
    """What one execution of a collective sends.

    axes: the mesh axes along which devices communicate, without those of length 1. group: how many
    devices communicate with each other. bytes: on one device, of the operand, and of an all_gather
    of the result: always the larger of both. dtype: of the elements.
    """

    kind: str
    axes: tuple[str, ...]
    group: int
    bytes: int
    dtype: np.dtype


def size_in_bytes(of: ArrayType) -> int:
    """The bytes of an array of a type. Narrow numbers are packed; a random key has the bytes of its
    generator's state."""
    dtype = of.dtype
    bits = 8 * dtype.itemsize if dtypes.is_extended(dtype) else dtypes.itemsize_bits(dtype)
    return int(of.size) * bits // 8


def collective_of(eqn: Equation, mesh: AnyMesh | None) -> Collective | None:
    """The collective that an equation within a `shard_map` over a mesh is; None if it sends
    nothing: it is no collective, or has no other device or no elements."""
    kind = KIND_OF.get(eqn.primitive)
    if kind is None or mesh is None:
        return None
    sizes = {name: mesh.axis_size(name) for name in eqn.params["axis_name"]}
    groups = eqn.params.get("axis_index_groups")
    group = prod(sizes.values()) if groups is None else len(groups[0])
    sent = (eqn.outputs[0] if kind == "all_gather" else eqn.inputs[0]).type
    size = size_in_bytes(sent)
    if group <= 1 or not size:
        return None
    axes = tuple(name for name, length in sizes.items() if length > 1)
    return Collective(kind, axes, group, size, sent.dtype)
