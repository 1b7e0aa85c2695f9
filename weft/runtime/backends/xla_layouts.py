"""Layouts of arrays on devices: read from jaxlib, and requested of XLA.

A module asks for the layout of an argument or result of its entry function by the attribute
`mhlo.layout_mode`: "default", "auto" (the compiler chooses), or the dimensions from minor to major
in braces. XLA writes layouts minor to major; weft, like users, major to minor.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from weft.runtime.backends.backend import DeviceLayout
from weft.runtime.jaxlib.native import extension
from weft.runtime.stablehlo.attributes import string
from weft.runtime.stablehlo.mlir import Module, context, ir, sdy, tensor_type
from weft.runtime.stablehlo.numerical import custom_call

# XLA knows "LayoutConstraint", and gathers the value of one before it partitions a module. Ours
# partitions into one of XLA's for each device's block.
_KNOWN = "LayoutConstraint"
_PARTITIONED = "weft.LayoutConstraint"


def device_layout(native: Any) -> DeviceLayout:
    """A layout object of jaxlib as plain data."""
    inner = native._xla_layout()
    tiling = tuple(tuple(tile) for tile in inner.tiling() or ())
    return DeviceLayout(tuple(reversed(inner.minor_to_major())), tiling)


def layout_constraint(
    x: ir.Value, major_to_minor: Sequence[int], partitioned: bool = False
) -> ir.Value:
    """Constrains x to a layout; `partitioned` if the compiler splits it over devices."""
    order = tuple(reversed(major_to_minor))
    if partitioned:
        config = ",".join(map(str, order))
        (out,) = custom_call(_PARTITIONED, [x], [x.type], backend_config=config)
        out.owner.attributes["sdy.sharding_rule"] = _same_sharding_rule(x.type.shape)
        return out
    (out,) = custom_call(_KNOWN, [x], [x.type], operand_layouts=[order], result_layouts=[order])
    return out


def _same_sharding_rule(shape: Sequence[int]) -> ir.Attribute:
    """Shardy's rule for an operation that splits its result as its operand."""
    with context():
        dims = [sdy.DimMappingAttr.get([axis]) for axis in range(len(shape))]
        tensor = sdy.TensorMappingAttr.get(dims)
        return sdy.OpShardingRuleAttr.get(list(shape), [tensor], [tensor])


@functools.cache
def register_partitioner() -> None:
    """Tells XLA to partition a layout constraint block by block, in the sharding of the result."""
    extension.register_custom_call_partitioner(
        _PARTITIONED,
        lambda sharding, shape, config: sharding,
        _partition,
        lambda shapes, shardings, result, config: shardings[0],
        True,
    )


def _partition(
    shapes: Any, shardings: Any, result: Any, sharding: Any, config: bytes
) -> tuple[bytes, list[Any], Any]:
    """The module of one device, and the shardings of its operand and result."""
    block = sharding.tile(result)
    module = Module("layout_constraint")
    block_type = tensor_type(tuple(block.dimensions()), block.numpy_dtype())
    function = module.function("main", [block_type], [block_type], public=True)
    order = [int(axis) for axis in reversed(config.decode().split(","))]
    with function:
        function.return_([layout_constraint(function.arguments[0], order)])
    return module.bytecode(), [sharding], sharding


def layout_mode(layout: DeviceLayout | Sequence[int] | str) -> ir.Attribute:
    """The value of `mhlo.layout_mode`: "default", "auto", a major-to-minor order, or a layout."""
    if isinstance(layout, str):
        return string(layout)
    if not isinstance(layout, DeviceLayout):
        layout = DeviceLayout(tuple(layout))
    order = ",".join(str(axis) for axis in reversed(layout.major_to_minor))
    tiles = "".join("(" + ",".join(map(str, tile)) + ")" for tile in layout.tiling)
    return string(f"{{{order}:T{tiles}}}" if tiles else f"{{{order}}}")
