"""Compiling for the current backend, and the options and results of it.

`compile_module(module, options, out_types)` gives an `Executable`; `executable.run(buffers)` runs
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weft.runtime.backends.backend import CompileOptions, DeviceLayout, Executable, MemoryStats
from weft.runtime.client import backend

if TYPE_CHECKING:
    from weft.runtime.stablehlo.mlir import ArrayTypeLike, ir

__all__ = [
    "CompileOptions",
    "DeviceLayout",
    "Executable",
    "MemoryStats",
    "compile_module",
    "deserialize",
]

Device = Any
Placement = Any


def compile_module(
    module: ir.Module,
    options: CompileOptions,
    out_types: Sequence[ArrayTypeLike],
    devices: Sequence[Device] | None = None,
    out_placements: Sequence[Placement] | None = None,
) -> Executable:
    """Compiles a module for `devices` and loads it there.

    The entry function is `main`. Its results get `out_types` (of whole arrays) and
    `out_placements`; without the latter they lie on the one device, or where XLA chose to put
    them (see `Executable.output_assignments`). Raises WeftValueError for an option that XLA does
    not have, and WeftError for a module that is invalid (naming the operation and its line) or that
    XLA cannot compile. Several threads may compile at the same time.
    """
    return backend().compile(module, options, out_types, devices, out_placements)


def deserialize(
    data: bytes,
    options: CompileOptions,
    out_types: Sequence[ArrayTypeLike],
    devices: Sequence[Device] | None = None,
    out_placements: Sequence[Placement] | None = None,
) -> Executable:
    """Loads what `Executable.serialize` gave; only from a trusted place, since it holds machine
    code.

    Raises WeftValueError for bytes that this release of XLA does not take.
    """
    return backend().deserialize(data, options, out_types, devices, out_placements)
