"""Axes that are given by name, beside positions: those of `vmap` and of a manual mesh.

A reduction along them is one along the positions, and then a collective along the names.
"""

from __future__ import annotations

from typing import Any


def has_names(axis: Any) -> bool:
    """Whether an `axis` argument names an axis, alone or among others."""
    if type(axis) is int:
        return False
    if isinstance(axis, (tuple, list)):
        return any(isinstance(one, str) for one in axis)
    return isinstance(axis, str)


def split_axes(axis: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The positions of an `axis` argument, and its names."""
    axes = (axis,) if isinstance(axis, str) else tuple(axis)
    names = tuple(one for one in axes if isinstance(one, str))
    return tuple(one for one in axes if not isinstance(one, str)), names
