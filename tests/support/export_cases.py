"""What the tests of exported programs have in common: classes in trees, programs, references."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np

import weft
import weft.numpy as wnp
from weft import export, tree
from weft.sharding import NamedSharding, P

S = weft.ShapeDtypeStruct
F = np.float32


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    factor: int = tree.static(default=1)


Point = collections.namedtuple("Point", "x y")
export.register_pytree_node_serialization(
    Layer,
    serialized_name="tests.Layer",
    serialize_auxdata=lambda data: b"%d" % data[0],
    deserialize_auxdata=lambda data: (int(data),),
)
export.register_namedtuple_serialization(Point, serialized_name="tests.Point")


def random(*shape, seed=0, dtype=F):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def exported(function, *args, **kwargs):
    """A function exported for some arguments, written and read."""
    made = export.export(weft.jit(function))(*args, **kwargs)
    return export.deserialize(made.serialize(vjp_order=0))


W = random(4, 3, seed=1)
TABLE = random(300, 70, seed=2)
X = random(3, seed=3)


MESH = weft.make_mesh((4, 2), ("i", "j"))
ON_MESH = NamedSharding(MESH, P("i", "j"))


def ring(block):
    """Each device's block, moved along one axis, summed over the other, times its position."""
    moved = weft.lax.ppermute(block, "i", [(k, (k + 1) % 4) for k in range(4)])
    return weft.lax.psum(moved, "j") * (weft.lax.axis_index("i") + 1).astype("float32")


sharded_ring = weft.shard_map(ring, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", None))


def ring_reference(x):
    blocks = np.roll(np.asarray(x, float).reshape(4, 2, 2, 2), 1, axis=0)
    return (blocks.sum(2) * np.arange(1, 5)[:, None, None]).reshape(8, 2)


def partitioned(x):
    return wnp.sin(x) @ x.T + sharded_ring(x).sum()
