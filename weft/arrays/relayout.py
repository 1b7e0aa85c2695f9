"""Changes the layout of blocks of arrays: the same values, in another order in memory.

A device reads an array's memory by the layout that an executable was compiled for, and nothing
checks it at run time. So an array's layout is part of its signature, executables are compiled for
the layouts of their operands, and one that computes nothing changes a layout.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from weft.base.program_caches import on_clear
from weft.core.types import ArrayType
from weft.runtime import client, stablehlo, xla_layouts
from weft.runtime.backends.backend import CompileOptions, DeviceLayout
from weft.sharding import Layout

Buffer = Any


def stored_type(type: ArrayType) -> ArrayType:
    """The type as stored: each random key is a row of unsigned integers."""
    rows = getattr(type.dtype, "key_shape", None)
    if rows is None:
        return type
    return type.update(shape=(*type.shape, *rows), dtype=np.dtype(np.uint32))


def stored_layout(layout: Layout, type: ArrayType) -> Layout:
    """The layout as stored: the integers of a random key are side by side.

    Args:
        layout: The layout as users see it.
    """
    ndim = stored_type(type).ndim
    if ndim == layout.ndim:
        return layout
    return Layout((*layout.major_to_minor, *range(layout.ndim, ndim)), layout.tiling)


def layout_mode(layout: Any, type: ArrayType) -> Any:
    """The attribute by which an argument or result of a module asks XLA for a layout: a Layout,
    None for the default one, or `Layout.AUTO`.

    Args:
        layout: The layout that is asked for.
    """
    if layout is None or layout is Layout.AUTO:
        return xla_layouts.layout_mode("default" if layout is None else "auto")
    how = stored_layout(layout, type)
    return xla_layouts.layout_mode(DeviceLayout(how.major_to_minor, how.tiling))


def reordered(
    block: Buffer, type: ArrayType, device: Any, old: Layout | None, new: Layout | None
) -> Buffer:
    """A single-device buffer of an array of this type in another order."""
    if old is new:
        return block
    found: Buffer = _reordering(type, device, old, new).run([block])[0]
    return found


def copied(block: Buffer, type: ArrayType, device: Any, layout: Layout | None) -> Buffer:
    """A copy on a device of a single-device buffer of an array of this type, in the same order."""
    stored = stored_type(type)
    if layout is None:
        return client.backend().copy_to_device(block, stored, device)
    # jaxlib's own copy (0.10 to 0.12) brings the elements into row-major order and says that they
    # are in the order of the source: whatever reads the copy afterwards gets other values.
    if client.backend().device_of(block) == device:
        return _reordering(type, device, layout, layout).run([block])[0]
    backend = client.backend()
    made = backend.put(backend.to_numpy(block), stored, device)
    return reordered(made, type, device, None, layout)


@functools.lru_cache(maxsize=1024)
def _reordering(type: ArrayType, device: Any, old: Layout | None, new: Layout | None) -> Any:
    """The executable that returns its argument in another order."""
    stored = stored_type(type)
    module = stablehlo.Module("relay")
    ir_type = stablehlo.array_type_to_ir(stored)
    function = module.function(
        "main",
        [ir_type],
        [ir_type],
        public=True,
        arg_attributes=[{"mhlo.layout_mode": layout_mode(old, type)}],
        result_attributes=[{"mhlo.layout_mode": layout_mode(new, type)}],
    )
    with function:
        function.return_(list(function.arguments))
    return client.backend().compile(module.ir, CompileOptions(), [stored], [device])


on_clear(_reordering.cache_clear)
