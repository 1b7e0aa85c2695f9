"""Layouts and formats as plain frozen data: in which order a device holds an array's elements.

A layout says how the elements of an array (or of a device's block of it) are ordered in memory; a
format is a layout and a sharding together.
"""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Self

from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.sharding.devices import is_device
from weft.sharding.interning import Interned
from weft.sharding.sharding import Sharding, SingleDeviceSharding


class Layout(Interned):
    """The order of an array's elements in a device's memory.

    major_to_minor: the dimensions from the one whose index changes slowest in memory to the one
    whose neighbours are side by side: (0, 1) is row-major, (1, 0) column-major. tiling: for devices
    that store arrays in tiles, the shapes of the tiles as a tuple of tuples, the outer ones first;
    CPUs do not, and refuse them where the layout is used.

    `Layout.AUTO` lets `jit` choose a layout: for arguments, the one that the function reads
    fastest; for results, the one that it writes fastest.

    Raises WeftTypeError for anything that is not a sequence of integers and WeftValueError for
    integers that are not a permutation.

    >>> from weft.layout import Layout
    >>> Layout(major_to_minor=(1, 0))
    Layout(major_to_minor=(1, 0))
    """

    __slots__ = ("major_to_minor", "tiling")

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...]
    AUTO: ClassVar[AutoLayout]

    @api_boundary
    def __new__(cls, major_to_minor: Any, tiling: Any = None) -> Self:
        # Checked before it is looked up: 1.0 and True are found under 1, and are no dimensions.
        row_major = "major_to_minor=(0, 1) for row-major"
        order = _integers(major_to_minor, "major_to_minor", "the dimensions of an array", row_major)
        out = cls._existing((order, None)) if tiling is None else None
        if out is not None:
            return out
        if sorted(order) != list(range(len(order))):
            message = "Layout: major_to_minor has each dimension exactly once"
            got = f"major_to_minor={order!r:.200}"
            wanted = f"a permutation of the numbers from 0 to {max(len(order) - 1, 0)}"
            text = f"row-major is {tuple(range(len(order)))}"
            fix = Fix("permutation", text, {"major_to_minor": tuple(range(len(order)))})
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        if tiling is not None and not isinstance(tiling, (tuple, list)):
            tiling = (tiling,)  # refused as a tile
        tile = "tiling=((8, 128),), or leave tiling out"
        tiles = tuple(_integers(one, "tiling", "tuples of lengths", tile) for one in tiling or ())
        return cls._made_of((order, tiles or None), major_to_minor=order, tiling=tiles)

    @property
    def ndim(self) -> int:
        """The number of dimensions of the arrays that have this layout."""
        return len(self.major_to_minor)

    @property
    def is_row_major(self) -> bool:
        """Whether it is row-major, the order that arrays have by default."""
        return self.major_to_minor == tuple(range(self.ndim)) and not self.tiling

    def check_rank(self, operation: str, what: str, shape: tuple[int, ...]) -> None:
        """Raises ShapeError for arrays with another number of dimensions; `what` names the
        array."""
        if self.ndim != len(shape):
            order = tuple(range(len(shape)))
            message = f"{operation}: {what} has {len(shape)} dimensions and its layout {self.ndim}"
            got = f"shape {shape!r} with {self}"
            wanted = f"a layout of {len(shape)} dimensions"
            text = f"use a permutation of {order}, such as Layout({order})"
            fix = Fix("major_to_minor", text, {"major_to_minor": order})
            raise ShapeError(message, operation=operation, got=got, wanted=wanted, fix=fix)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.major_to_minor, self.tiling)

    def __repr__(self) -> str:
        tiles = f", tiling={self.tiling}" if self.tiling else ""
        return f"Layout(major_to_minor={self.major_to_minor}{tiles})"


class AutoLayout(Interned):
    """The class of `Layout.AUTO`: the layout is chosen when the function is compiled."""

    __slots__ = ()

    def __new__(cls) -> Self:
        return cls._made_of("auto")

    def __reduce__(self) -> tuple[Any, ...]:
        return AutoLayout, ()

    def __repr__(self) -> str:
        return "Layout.AUTO"


_AUTO = AutoLayout()
Layout.AUTO = _AUTO


def unless_row_major(layout: Any) -> Any:
    """A layout as signatures and executables have it: None for the row-major one.

    Args:
        layout: A `Layout`, or None.
    """
    return None if isinstance(layout, Layout) and layout.is_row_major else layout


def _integers(given: Any, name: str, wanted: str, example: str) -> tuple[int, ...]:
    try:
        numbers = tuple(given)
        if bool in map(type, numbers):
            raise TypeError
        return tuple(map(operator.index, numbers))
    except TypeError:
        message, got = f"Layout: {name} is a sequence of integers", f"{name}={given!r:.200}"
        fix = Fix("sequence", f"pass {example}")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix) from None


class Format(Interned):
    """A layout and a sharding: the order of an array's elements, and the devices that hold them.

    layout: a Layout, `Layout.AUTO`, or None if it is left open: an array keeps the one that it
    has, a new one is row-major. sharding: a sharding or a device; None if it is left open. A
    layout that is given needs its sharding, as every part of an array has it.

    Raises WeftTypeError for anything that is neither a layout nor a sharding, and WeftValueError
    for a layout without a sharding.

    >>> import weft
    >>> from weft.layout import Format, Layout
    >>> place = weft.sharding.SingleDeviceSharding(weft.devices()[0])
    >>> Format(Layout((1, 0)), place).layout.major_to_minor
    (1, 0)
    """

    __slots__ = ("layout", "sharding")

    layout: Layout | AutoLayout | None
    sharding: Sharding | None

    @api_boundary
    def __new__(cls, layout: Any = None, sharding: Any = None) -> Self:
        key = (layout, sharding)
        out = cls._existing(key)
        if out is not None:
            return out
        if layout is not None and not isinstance(layout, (Layout, AutoLayout)):
            message = "Format takes a layout first"
            got = f"{layout!r:.100} of class {type(layout).__name__}"
            wanted = "a Layout, Layout.AUTO, or None"
            order = layout if isinstance(layout, tuple) else (0, 1)
            fix = Fix("layout", f"pass Layout(major_to_minor={order!r})")
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
        if is_device(sharding):
            sharding = SingleDeviceSharding(sharding)
        if sharding is not None and not isinstance(sharding, Sharding):
            message = "Format takes a sharding second"
            got = f"{sharding!r:.100} of class {type(sharding).__name__}"
            wanted = "a sharding such as a NamedSharding, a device, or None"
            fix = Fix("sharding", "pass NamedSharding(mesh, spec), or x.sharding of an array")
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
        if isinstance(layout, Layout) and sharding is None:
            message = "Format: a layout that is given needs its sharding"
            got = f"{layout} without a sharding"
            wanted = "a sharding beside the layout, or Layout.AUTO"
            text = "pass Format(layout, SingleDeviceSharding(weft.devices()[0]))"
            fix = Fix("sharding", text, {"layout": layout})
            raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
        return cls._made_of((layout, sharding), layout=layout, sharding=sharding)

    def __reduce__(self) -> tuple[Any, ...]:
        return Format, (self.layout, self.sharding)

    def __repr__(self) -> str:
        return f"Format(layout={self.layout!r}, sharding={self.sharding!r})"
