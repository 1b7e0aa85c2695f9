"""Functions inside shard_map, its check on, on two devices that compute from the same operands."""

from __future__ import annotations

import weft
from weft import lax, shard_map, tree
from weft.sharding import PartitionSpec as P

MESH = weft.make_mesh((2,), ("device",), devices=weft.devices()[:2])


def on_both(function, place):
    """The function on two devices, operand number `place` cast; each result twice."""

    def body(*args):
        args = list(args)
        if args:
            args[place] = lax.pbroadcast(args[place], "device")
        return [lax.expand_dims(out, (0,)) for out in tree.leaves(function(*args))]

    return shard_map(body, mesh=MESH, in_specs=P(), out_specs=P("device"))
