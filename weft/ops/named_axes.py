"""What collectives have in common: reading axis names and groups, and working along a mapped axis.

A name is bound by `vmap(axis_name=…)`; its length becomes a parameter when the operation is
applied, since the environment is gone by the time that a recorded program is transformed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft import dtypes
from weft.core.axes import axis_length
from weft.core.check import result_types
from weft.core.primitive import Primitive
from weft.core.rules import AxisData
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, DTypeError, Fix, WeftValueError
from weft.ops.creation import index_vector
from weft.ops.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.shape import move_dim, reshape

__all__ = [
    "Groups",
    "Names",
    "along_axis",
    "axis_groups",
    "axis_names",
    "axis_sizes_of",
    "bind_checked",
    "axis_size",
    "check_dtype",
    "group_size",
    "take_rows",
    "unbound_lower",
]

Groups = tuple[tuple[int, ...], ...] | None
Names = tuple[Any, ...]


# ---- names and groups ------------------------------------------------------------------------


def axis_names(operation: str, axis_name: Any) -> Names:
    """The names as a tuple. Raises AxisError where one is given twice."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    if len(set(names)) != len(names):
        raise AxisError(
            f"{operation}: an axis name is given twice",
            operation=operation,
            got=f"axis_name={axis_name!r}",
            wanted="each name once",
        )
    return names


def axis_sizes_of(names: Names) -> tuple[int, ...]:
    return tuple(axis_length(name) for name in names)


def axis_groups(operation: str, groups: Any, sizes: tuple[int, ...]) -> Groups:
    """Groups of positions along one axis. Raises WeftValueError where they do not partition it."""
    if groups is None:
        return None
    rows = tuple(tuple(i.__index__() for i in group) for group in groups)
    if (
        len(sizes) != 1
        or len({len(row) for row in rows}) != 1
        or sorted(i for row in rows for i in row) != list(range(sizes[0]))
    ):
        raise WeftValueError(
            f"{operation}: axis_index_groups must split one axis into groups of equal size",
            operation=operation,
            got=f"axis_index_groups={rows} for axes of lengths {sizes}",
            wanted=f"each of 0 to {prod(sizes) - 1} in exactly one of the groups, over one axis",
        )
    return rows


def group_size(groups: Groups, sizes: tuple[int, ...]) -> int:
    """How many elements take part in one collective."""
    return prod(sizes) if groups is None else len(groups[0])


def axis_size(axis_name: Any) -> int:
    """The length of a bound axis, or the product of the lengths of several.

    Raises UnboundAxisError for a name that is not bound.
    """
    return prod(axis_sizes_of(axis_names("axis_size", axis_name)))


# ---- what the vmap rules share ---------------------------------------------------------------


def bind_checked(kind: Primitive, x: Any, **params: Any) -> Any:
    """Applies a collective to an operand that its type rule accepts.

    The rule is asked here, for the value that the user has: once the vmap rule has run, the operand
    is another, and a complaint about it would be hard to read.
    """
    result_types(kind, (type_of(x),), params)
    return kind.bind(x, **params)


def unbound_lower(context: Any, *values: Any, **params: Any) -> Any:
    """The lowering where no mesh binds the names: there is nothing to communicate with."""
    raise WeftValueError(
        f"{context.primitive.name} reached the compiler with an axis name that is not bound",
        operation=context.primitive.name,
        got=f"axis_name={params.get('axis_name')!r}",
        wanted="a name bound by weft.vmap(..., axis_name=...)",
    )


def _split_groups(x: Any, groups: Groups) -> Any:
    """Replaces the leading dimension, the mapped one, by two: the groups, and their members."""
    assert groups is not None
    order = [i for row in groups for i in row]
    moved = take_rows(x, order)
    return reshape(moved, (len(groups), len(groups[0]), *type_of(x).shape[1:]))


def _merge_groups(x: Any, groups: Groups) -> Any:
    """Undoes `_split_groups`."""
    assert groups is not None
    order = [i for row in groups for i in row]
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return take_rows(reshape(x, (len(order), *type_of(x).shape[2:])), inverse)


def take_rows(x: Any, order: Sequence[int]) -> Any:
    """The elements along the leading dimension in another order; each is taken once at most."""
    shape = type_of(x).shape
    if tuple(order) == tuple(range(shape[0])):
        return x
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    return gather(
        x,
        reshape(index_vector(order), (len(order), 1)),
        numbers,
        (1, *shape[1:]),
        unique_indices=True,
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def along_axis(
    axis: AxisData, x: Any, dim: int | None, groups: Groups, core: Callable[[Any, int], Any]
) -> tuple[Any, int]:
    """Applies `core(whole, lead)`, where the mapped dimension is number `lead`, within each group.

    `core` keeps the mapped dimension in its place.
    """
    whole = move_dim(x, dim, 0, axis.size)
    if groups is None:
        return core(whole, 0), 0
    return _merge_groups(core(_split_groups(whole, groups), 1), groups), 0


def check_dtype(name: str, x: ArrayType, accepts: frozenset[Any]) -> None:
    if x.dtype not in accepts:
        raise DTypeError(
            f"{name} does not take values of dtype {dtypes.short_name(x.dtype)}",
            operation=name,
            got=str(x),
            wanted="a dtype among " + ", ".join(sorted(map(dtypes.short_name, accepts))),
            fix=Fix("convert", "convert the value first (x.astype(...))", {}),
        )
