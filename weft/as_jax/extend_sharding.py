"""The names of `jax.extend.sharding`: XLA's own objects for shardings, and their messages."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftNotImplementedError
from weft.runtime import op_sharding

__all__ = [
    "GSPMDSharding", "get_hlo_sharding_from_serialized_proto",
    "get_op_sharding_from_serialized_proto", "get_serialized_proto_from_hlo_sharding",
]  # fmt: skip


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """XLA's sharding of an OpSharding message. Raises ValueError for other bytes."""
    return op_sharding.parse(sharding)


def get_op_sharding_from_serialized_proto(sharding: bytes) -> Any:
    """XLA's message object of an OpSharding message. Raises ValueError for other bytes."""
    return op_sharding.message(sharding)


def get_serialized_proto_from_hlo_sharding(sharding: Any) -> bytes:
    """The OpSharding message of XLA's sharding."""
    return op_sharding.proto(sharding)


class GSPMDSharding:
    """Raises WeftNotImplementedError if it is made: weft's shardings are specs over meshes."""

    def __init__(self, devices: Any, op_sharding: Any, **_: Any) -> None:
        raise WeftNotImplementedError(
            "a sharding of XLA's over devices",
            operation="GSPMDSharding",
            got=f"{op_sharding!r:.80}",
            wanted="weft.extend.sharding.from_xla, which gives a sharding of weft's",
        )
