"""Operations that communicate between devices, and Shardy's operations for meshes and shardings.

Devices are numbered by partition. A communicating operation works within groups of partitions,
given as rows of numbers of equal length; each needs a channel number of its own within a module.
Shardy describes how an array is split by naming, for each dimension, the mesh axes that split it.
See the StableHLO specification, https://github.com/openxla/stablehlo/blob/main/docs/spec.md, and
https://openxla.org/shardy.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np

from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import (
    Module,
    context,
    fill,
    ir,
    op,
    op1,
    ranked,
    sdy,
    tensor_type,
    unknown_location,
)
from weft.runtime.stablehlo.mlir import stablehlo as hlo

Groups = Sequence[Sequence[int]]

# ---- communication -------------------------------------------------------------------------------


def _groups(groups: Groups) -> ir.Attribute:
    rows = tuple(tuple(int(device) for device in group) for group in groups)
    return attrs.table(rows, len(rows[0]) if rows else 0)


@functools.lru_cache(maxsize=4096)
def _channel(number: int) -> ir.Attribute:
    return hlo.ChannelHandle.get(number, 1, context=context())  # 1: from device to device


def _group_attributes(groups: Groups, channel: int) -> dict[str, ir.Attribute]:
    return {
        "replica_groups": _groups(groups),
        "channel_handle": _channel(channel),
        "use_global_device_ids": attrs.unit(),
    }


def _combine_region(
    x: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]
) -> tuple[list[ir.Type], Callable[[list[ir.Value]], Sequence[ir.Value]]]:
    scalar = ranked((), x.type.element_type)
    return [scalar, scalar], lambda pair: [combine(*pair)]


def all_reduce(
    operands: Sequence[ir.Value],
    groups: Groups,
    channel: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> list[ir.Value]:
    """Combines the operands of all devices of a group; all get the result. One dtype in all.

    Args:
        combine: Emits the sum, or another combination, of two scalars; it has to be associative.
    """
    types = [value.type for value in operands]
    regions = [_combine_region(operands[0], combine)]
    return op("stablehlo.all_reduce", operands, types, _group_attributes(groups, channel), regions)


def all_gather(
    operands: Sequence[ir.Value], groups: Groups, channel: int, dimension: int
) -> list[ir.Value]:
    """Joins the operands of all devices of a group along a dimension; all get the result.

    Args:
        dimension: The dimension along which the parts are joined, in the order of the group.
    """
    size = len(groups[0])
    types = [_scale_dimension(value.type, dimension, size, 1) for value in operands]
    config = {"all_gather_dim": attrs.integer(dimension), **_group_attributes(groups, channel)}
    return op("stablehlo.all_gather", operands, types, config)


def reduce_scatter(
    x: ir.Value,
    groups: Groups,
    channel: int,
    dimension: int,
    combine: Callable[[ir.Value, ir.Value], ir.Value],
) -> ir.Value:
    """Combines over a group and splits the result along a dimension, one part to each device.

    Args:
        dimension: The dimension that is split: part i goes to device i of the group.
        combine: Emits the sum, or another combination, of two scalars; it has to be associative.
    """
    made = _scale_dimension(x.type, dimension, 1, len(groups[0]))
    config = {"scatter_dimension": attrs.integer(dimension), **_group_attributes(groups, channel)}
    return op("stablehlo.reduce_scatter", (x,), (made,), config, [_combine_region(x, combine)])[0]


def all_to_all(
    operands: Sequence[ir.Value],
    groups: Groups,
    channel: int,
    split_dimension: int,
    concat_dimension: int,
) -> list[ir.Value]:
    """Splits along one dimension, sends part i to device i of the group, joins along the other.

    Args:
        split_dimension: The dimension that is cut into as many parts as a group has devices.
        concat_dimension: The dimension along which the received parts are joined.
    """
    size = len(groups[0])
    types = [
        _scale_dimension(
            _scale_dimension(value.type, split_dimension, 1, size), concat_dimension, size, 1
        )
        for value in operands
    ]
    config = {
        "split_dimension": attrs.integer(split_dimension),
        "concat_dimension": attrs.integer(concat_dimension),
        "split_count": attrs.integer(size),
        "replica_groups": _groups(groups),
        "channel_handle": _channel(channel),
    }
    return op("stablehlo.all_to_all", operands, types, config)


def collective_permute(x: ir.Value, pairs: Sequence[tuple[int, int]], channel: int) -> ir.Value:
    """Sends x from source to target for each pair; a device that receives nothing gets zeros.

    Args:
        pairs: The (source, target) positions of devices; no source and no target occurs twice.
    """
    rows = tuple((int(source), int(target)) for source, target in pairs)
    config = {"source_target_pairs": attrs.table(rows, 2), "channel_handle": _channel(channel)}
    return op1("stablehlo.collective_permute", (x,), x.type, config)


def _scale_dimension(of: ir.Type, dimension: int, times: int, over: int) -> ir.Type:
    shape = list(of.shape)
    shape[dimension] = shape[dimension] * times // over
    return ranked(shape, of.element_type)


def partition_id() -> ir.Value:
    """The number of this device's partition (uint32)."""
    return op1("stablehlo.partition_id", (), tensor_type((), np.uint32))


def replica_id() -> ir.Value:
    """The number of this replica (uint32); weft compiles for one replica of many partitions."""
    return op1("stablehlo.replica_id", (), tensor_type((), np.uint32))


# ---- Shardy --------------------------------------------------------------------------------------


# XLA crashes on a backslash in the name of an axis, and aborts the process on a letter that is not
# ASCII. Such names are written with the hexadecimal numbers of their bytes.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\- ]")


def _axis(name: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{found[0].encode('utf-8', 'surrogatepass').hex()}", name)


def mesh(
    module: Module,
    axes: Sequence[tuple[str, int]],
    device_ids: Sequence[int] = (),
    name: str = "mesh",
) -> str:
    """Declares a mesh (names and sizes of its axes) in a module and returns its symbol.

    `device_ids` are the positions of the mesh's devices, in row-major order, where they are not
    0, 1, 2, …

    Args:
        module: The module that gets the declaration.
        axes: The (name, size) of each axis.
        name: The symbol that is wanted; it gets a number where it is taken.
    """
    symbol = module.symbol(name)
    with unknown_location(), module.insertion_point():
        made = sdy.MeshAttr.get(
            [sdy.MeshAxisAttr.get(_axis(axis), size) for axis, size in axes], list(device_ids)
        )
        op("sdy.mesh", (), (), {"sym_name": attrs.string(symbol), "mesh": made})
    return symbol


@functools.lru_cache(maxsize=4096)
def sharding(
    mesh_name: str,
    dimensions: tuple[tuple[str, ...] | None, ...],
    replicated: tuple[str, ...] = (),
    unreduced: tuple[str, ...] = (),
    left_open: bool = False,
) -> ir.Attribute:
    """Shardy's attribute for a sharding: for each dimension the mesh axes that split it, outermost
    first.

    None for a dimension leaves it to the compiler; with `left_open` it may split every dimension
    further. `replicated` axes are not to be used by the compiler; over `unreduced` ones the array
    is a pending sum.

    Args:
        mesh_name: The symbol of the mesh, as `mesh` returns it.
        dimensions: For each dimension the names of mesh axes, or None.
        replicated: The names of mesh axes that the compiler may not use.
        unreduced: The names of mesh axes over which the array is a pending sum.
        left_open: Whether the compiler may split every dimension further.
    """
    with context():
        parts = [
            sdy.DimensionShardingAttr.get(
                [sdy.AxisRefAttr.get(_axis(axis)) for axis in names or ()],
                names is not None and not left_open,
            )
            for names in dimensions
        ]
        return sdy.TensorShardingAttr.get(
            mesh_name,
            parts,
            replicated_axes=[sdy.AxisRefAttr.get(_axis(axis)) for axis in replicated],
            unreduced_axes=[sdy.AxisRefAttr.get(_axis(axis)) for axis in unreduced],
        )


def on_one_device(operation: ir.Operation, mesh_name: str) -> None:
    """Assigns an operation to one device, the only one of a mesh without axes; the others get its
    results from there.

    Args:
        operation: The operation to assign.
        mesh_name: The symbol of the mesh that consists of this device.
    """
    with context():
        whole = sdy.TensorShardingAttr.get(mesh_name, [])
        operation.attributes["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get(
            [whole] * max(1, len(operation.results))
        )


def sharding_constraint(x: ir.Value, how: ir.Attribute) -> ir.Value:
    """Constrains the compiler to split x as `how` says.

    Args:
        how: The sharding, as `sharding` makes it.
    """
    return op1("sdy.sharding_constraint", (x,), x.type, {"sharding": how})


def inspect_sharding(x: ir.Value, key: bytes) -> None:
    """Has the compiler tell how it splits a value to the function of a key (`op_sharding.key`).

    Args:
        key: The key under which the function is registered, as bytes.
    """
    config = {
        "call_target_name": attrs.string("InspectSharding"),
        "api_version": attrs.integer(1, 32),
        "has_side_effect": attrs.boolean(True),
        "backend_config": ir.StringAttr.get(key, context()),
    }
    op("stablehlo.custom_call", (x,), [x.type], config)


def sharding_group(values: Sequence[ir.Value], number: int) -> None:
    """Ties the shardings of values of one shape together; `number` tells the groups apart.

    Args:
        values: Values of the module that is built.
        number: The number of the group within the module.
    """
    for x in values:
        op("sdy.sharding_group", (x,), [], {"group_id": attrs.integer(number, 64)})


def manual_computation(
    operands: Sequence[ir.Value],
    in_shardings: Sequence[ir.Attribute],
    out_shardings: Sequence[ir.Attribute],
    manual_axes: Sequence[str],
    argument_types: Sequence[ir.Type],
    result_types: Sequence[ir.Type],
    body: Callable[[list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """Runs a body on the blocks that each device holds; the body does its own communication.

    `argument_types` are the types of blocks, `result_types` those of whole arrays.

    Args:
        in_shardings: How each operand is split into the blocks that the body gets.
        out_shardings: How each result is put together from the blocks that the body returns.
        manual_axes: The names of the mesh axes along which the body communicates.
        body: Emits the computation of one device, from a list of blocks to a list of blocks.
        argument_types: The types of the blocks that the body gets.
        result_types: The types of the whole results.
    """
    with context():
        config = {
            "in_shardings": sdy.TensorShardingPerValueAttr.get(list(in_shardings)),
            "out_shardings": sdy.TensorShardingPerValueAttr.get(list(out_shardings)),
            "manual_axes": sdy.ManualAxesAttr.get(
                [attrs.string(_axis(axis)) for axis in manual_axes]
            ),
        }
    made = ir.Operation.create(
        "sdy.manual_computation", list(result_types), list(operands), config, None, 1
    )
    fill(made.regions[0], argument_types, body, "sdy.return")
    return list(made.results)
