"""Layouts: in which order a device holds an array's elements, read from jaxlib and asked of XLA.

A module asks for the layout of an argument or result of its entry function by the attribute
`mhlo.layout_mode`: "default", "auto" (the compiler chooses), or the dimensions from minor to major
in braces. XLA writes layouts minor to major; weft, like users, major to minor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.runtime.backend import DeviceLayout
from weft.runtime.mlir import ir
from weft.runtime.stablehlo_attributes import string

__all__ = ["device_layout", "layout_mode"]


def device_layout(native: Any) -> DeviceLayout:
    """A layout object of jaxlib as plain data."""
    inner = native._xla_layout()
    tiling = tuple(tuple(tile) for tile in inner.tiling() or ())
    return DeviceLayout(tuple(reversed(inner.minor_to_major())), tiling)


def layout_mode(layout: DeviceLayout | Sequence[int] | str) -> ir.Attribute:
    """The value of `mhlo.layout_mode`: "default", "auto", a major-to-minor order, or a layout."""
    if isinstance(layout, str):
        return string(layout)
    if not isinstance(layout, DeviceLayout):
        layout = DeviceLayout(tuple(layout))
    order = ",".join(str(axis) for axis in reversed(layout.major_to_minor))
    tiles = "".join("(" + ",".join(map(str, tile)) + ")" for tile in layout.tiling)
    return string(f"{{{order}:T{tiles}}}" if tiles else f"{{{order}}}")
