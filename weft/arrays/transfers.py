"""Moves of arrays: the guard of copies, layouts of blocks, and where uncommitted arrays lie.

A copy that a program asks for by name (`device_put`, `device_get`) is explicit; all others are
implicit: a NumPy array or a number that becomes an operand, an array that an executable needs on
another device, values that Python reads. Every copy goes through one of a few functions, and these
ask the guard of the settings `transfer_guard_*`, if it was ever switched on in the process.

A device reads an array's memory by the layout that an executable was compiled for, and nothing
checks it at run time. So an array's layout is part of its signature, executables are compiled for
the layouts of their operands, and one that computes nothing changes a layout.

The signature of an uncommitted array is its type alone while it is on the first device. Elsewhere
it is (type, Uncommitted(device)), so that executables for operands on the first device are not
found for it; those that are made for it bring it to the device on which they run.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from weft import config
from weft.base.program_caches import on_clear
from weft.core.types import ArrayType
from weft.errors import Fix, GuardError
from weft.runtime import client, stablehlo, xla_layouts
from weft.runtime.backends.backend import CompileOptions, DeviceLayout
from weft.sharding import Layout

_explicit: contextvars.ContextVar[bool] = contextvars.ContextVar("weft_explicit", default=False)
_log = logging.getLogger("weft")

_WAYS = {
    "host_to_device": ("from the host to a device", "move it by weft.device_put"),
    "device_to_device": ("from one device to another", "move it by weft.device_put"),
    "device_to_host": ("from a device to the host", "read it by weft.device_get"),
}


@contextlib.contextmanager
def explicit_transfers() -> Iterator[None]:
    """A `with` block whose copies the program has requested."""
    token = _explicit.set(True)
    try:
        yield
    finally:
        _explicit.reset(token)


def guard(way: str, of: Any, place: Any) -> None:
    """Logs a copy of an array of a type, or raises GuardError, as the settings say."""
    level = getattr(config.host_settings(), f"transfer_guard_{way}")
    if level == "allow":
        return
    action, _, every = level.partition("_")
    explicit = _explicit.get()
    if explicit and not every:
        return
    copied, text = _WAYS[way]
    if action == "log":
        _log.warning("a copy %s: %s, %s", copied, of, place or "the default device")
        return
    message = f"a copy {copied} is not allowed here: the setting transfer_guard_{way} is {level!r}"
    fix = Fix("device_put", "leave the block" if explicit else f"{text}, or before the block")
    got = f"{of} for {place}" if place is not None else str(of)
    raise GuardError(message, operation="transfer", got=got, wanted="no copies here", fix=fix)


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


def reorder_block(
    block: Buffer, type: ArrayType, device: Any, old: Layout | None, new: Layout | None
) -> Buffer:
    """A single-device buffer of an array of this type in another order."""
    if old is new:
        return block
    out: Buffer = _reordering(type, device, old, new).run([block])[0]
    return out


def copy_block(block: Buffer, type: ArrayType, device: Any, layout: Layout | None) -> Buffer:
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
    return reorder_block(made, type, device, None, layout)


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


class Uncommitted:
    """A device of uncommitted arrays, or of an executable of such operands, interned."""

    __slots__ = ("device",)

    device: Any
    _known: ClassVar[dict[Any, Uncommitted]] = {}

    def __new__(cls, device: Any) -> Uncommitted:
        out = cls._known.get(device)
        if out is None:
            out = object.__new__(cls)
            out.device = device
            out = cls._known.setdefault(device, out)
        return out

    def __repr__(self) -> str:
        return str(self.device)

    @property
    def unless_first(self) -> Uncommitted | None:
        """The place as a signature has it: None for the first device."""
        return None if self.device == client.backend().default_device else self


def default_place() -> Uncommitted | None:
    """The device of new arrays here; None for the first device."""
    asked = config.settings().default_device
    if asked is None:
        return None
    device = client.backend_for(asked).default_device if isinstance(asked, str) else asked
    return Uncommitted(device).unless_first


def first_place() -> Uncommitted:
    """The first device, for an executable some of whose operands must be brought there."""
    return Uncommitted(client.backend().default_device)
