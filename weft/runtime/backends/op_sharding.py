"""XLA's OpSharding message, which says how a value is split: parsed, taken apart and built.

The numbers in it are those of partitions: XLA knows no devices. The text is what stands in the
`sharding` attribute of an HLO operation, the bytes are the message that XLA keeps in its modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.jaxlib.native import extension, hlo_library

_Type: Any = hlo_library.OpSharding.Type
_SUBGROUPS = {"replicated": _Type.REPLICATED, "manual": _Type.MANUAL, "unreduced": _Type.UNREDUCED}
_NAMES = {value: name for name, value in _SUBGROUPS.items()}


class OpShardingFields(NamedTuple):
    """The kind of an OpSharding and, where it is tiled, the tile assignment, row by row."""

    kind: str
    tile_shape: tuple[int, ...]
    partitions: tuple[int, ...]
    subgroups: tuple[str, ...]


def key(function: Callable[[Any], None]) -> bytes:
    """Encodes a function's address, so that the compiler calls it with a sharding from a module.
    The address is valid in this process; the function must live until the module is compiled."""
    out: bytes = extension.encode_inspect_sharding_callback(function)
    return out


def parse(source: str | bytes) -> Any:
    """The sharding of a text or a message. Raises ValueError for any other."""
    if isinstance(source, bytes):
        message = hlo_library.OpSharding()
        try:
            message.ParseFromString(source)
            # The parser skips fields that it cannot read, without an error.
            if len(message.SerializeToString()) != len(source):
                raise ValueError("the bytes are no OpSharding message")
            return hlo_library.HloSharding.from_proto(message)
        except (ValueError, RuntimeError) as error:
            raise ValueError(str(error)) from None
    try:
        return hlo_library.HloSharding.from_string(source)
    except (ValueError, RuntimeError) as error:  # XLA's own class of errors is the second
        raise ValueError(str(error)) from None


def parts(found: Any) -> OpShardingFields:
    """A sharding taken apart. Raises ValueError for one of several values (a tuple)."""
    if found.tuple_elements():
        raise ValueError("it says how several values are split")
    for kind in ("replicated", "manual", "unknown", "unreduced"):
        if getattr(found, f"is_{kind}")():
            return OpShardingFields(kind, (), (), ())
    numbers = tuple(map(int, found.tile_assignment_devices()))
    if found.is_maximal():
        return OpShardingFields("maximal", (), numbers, ())
    groups = tuple(_NAMES[group] for group in found.subgroup_types())
    if not groups and found.replicate_on_last_tile_dim():
        groups = ("replicated",)
    return OpShardingFields(
        "tiled", tuple(map(int, found.tile_assignment_dimensions())), numbers, groups
    )


def make(wanted: OpShardingFields) -> Any:
    """The sharding with these parts."""
    sharding = hlo_library.HloSharding
    if wanted.kind == "replicated":
        return sharding.replicate()
    if wanted.kind in ("manual", "unknown", "unreduced"):
        return getattr(sharding, wanted.kind)()
    if wanted.kind == "maximal":
        return sharding.from_string(f"{{maximal device={wanted.partitions[0]}}}")
    order: np.ndarray[Any, Any] = np.asarray(wanted.partitions, np.int64).reshape(wanted.tile_shape)
    groups: Sequence[Any] = [_SUBGROUPS[name] for name in wanted.subgroups]
    return sharding.subgroup_with_device_ordering(order, subgroup_types=groups)


def text(found: Any) -> str:
    """A sharding as XLA prints it."""
    return str(found)


def proto(found: Any) -> bytes:
    """A sharding as a message."""
    message: bytes = found.to_proto().SerializeToString()
    return message


def message(source: bytes) -> Any:
    """XLA's own object for an OpSharding message. Raises ValueError for other bytes."""
    parse(source)
    out = hlo_library.OpSharding()
    out.ParseFromString(source)
    return out
