"""Helpers of all collectives: axis names and groups, work along a mapped axis, and communication
along an axis of a mesh.

A name is bound by `vmap(axis_name=…)` or by `shard_map`. Where the length of its axis matters it
becomes a parameter when the operation is applied, since the environment is gone by the time that a
recorded jaxpr is transformed. In an executable the devices are numbered by partition; a collective
works within groups of partitions that differ in their positions along the named axes only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft import config
from weft.base import source as sources
from weft.core.axes import axis_length, bound_axis, mesh_axes
from weft.core.check import result_types
from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Rule, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, Fix, WeftValueError
from weft.ops.declare import primitive
from weft.ops.indexing.creation import index_vector
from weft.ops.indexing.gather import GatherDimensionNumbers, GatherScatterMode, gather
from weft.ops.structural.shape import inverse_permutation, move_dim, reshape
from weft.runtime import stablehlo, stablehlo_collectives

Groups = tuple[tuple[int, ...], ...] | None
Names = tuple[Any, ...]


# ---- names and groups ------------------------------------------------------------------------


def axis_names(operation: str, axis_name: Any) -> Names:
    """Returns the names as a tuple. Raises AxisError if one is given twice."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    if len(set(names)) != len(names):
        once = tuple(dict.fromkeys(names))
        message, got = f"{operation}: an axis name is given twice", f"axis_name={axis_name!r}"
        fix = Fix("once", f"pass axis_name={once!r}", {"names": once})
        raise AxisError(message, operation=operation, got=got, wanted="each name once", fix=fix)
    return names


def axis_sizes_of(names: Names) -> tuple[int, ...]:
    return tuple(axis_length(name) for name in names)


def axes_and_groups(
    operation: str, axis_name: Any, groups: Any
) -> tuple[Names, tuple[int, ...], Groups]:
    """The names and lengths of a collective's axes, and its groups."""
    names = axis_names(operation, axis_name)
    sizes = axis_sizes_of(names)
    return names, sizes, axis_groups(operation, groups, sizes)


def axis_groups(operation: str, groups: Any, sizes: tuple[int, ...]) -> Groups:
    """Returns groups of positions along one axis. Raises WeftValueError for no partition of it."""
    if groups is None:
        return None
    try:
        rows = tuple(tuple(operator.index(i) for i in group) for group in groups)
    except TypeError:
        rows = ()
    if (
        len(sizes) != 1
        or len({len(row) for row in rows}) != 1
        or sorted(i for row in rows for i in row) != list(range(sizes[0]))
    ):
        raise _wrong_groups(operation, groups, sizes)
    return rows


def _wrong_groups(operation: str, groups: Any, sizes: tuple[int, ...]) -> WeftValueError:
    if len(sizes) != 1:
        fix = Fix("one_axis", "name one axis, or leave axis_index_groups out")
    else:
        half = sizes[0] // 2 if sizes[0] % 2 == 0 else sizes[0]
        fitting = [list(range(i, i + half)) for i in range(0, sizes[0], half)]
        data = {"axis_index_groups": fitting}
        fix = Fix("groups", f"for example axis_index_groups={fitting}", data)
    message = f"{operation}: axis_index_groups must split one axis into groups of equal size"
    got = f"axis_index_groups={groups!r:.200} for axes of lengths {sizes}"
    wanted = f"each of 0 to {prod(sizes) - 1} in exactly one of the groups, over one axis"
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def group_size(groups: Groups, sizes: tuple[int, ...]) -> int:
    """The number of elements in one collective."""
    return prod(sizes) if groups is None else len(groups[0])


def axis_size(axis_name: Any) -> int:
    """Returns the length of a bound axis, or the product of the lengths of several.

    Raises UnboundAxisError for a name that is not bound.

    >>> weft.vmap(lambda x: x * lax.axis_size("i"), axis_name="i")(np.ones(3))
    Array([3., 3., 3.], dtype=float32)
    """
    return prod(axis_sizes_of(axis_names("axis_size", axis_name)))


def same_along(x: ArrayType, names: Names) -> Names:
    """The mesh axes among `names` along which values of a type are equal."""
    return tuple(n for n in names if n not in x.varying and bound_axis(n).mesh is not None)


def check_varies(operation: str, x: ArrayType, names: Names) -> None:
    """Raises AxisError for a sum of values that are equal on all devices along a mesh axis. Such a
    value may have been summed already, or N equal copies may be meant; no type shows the
    difference, a factor of N. With `argument_rule="jax"` equal copies are meant."""
    same = same_along(x, names)
    if not same or config.lenient():
        return
    axes = repr(same[0]) if len(same) == 1 else repr(same)
    rest = tuple(name for name in names if name not in same)
    drop = f"call {operation} over {rest!r} only" if rest else f"drop the {operation}"
    count = prod(axis_sizes_of(same))
    # Without the mean, a gradient of weights that devices share is the sum of the devices'.
    if operation == "pmean":
        drop += f"; if it is a gradient of what devices share, their sum, divide it by {count}"
    message = f"{operation} over {axes} of a value that is equal on all devices along {axes}"
    got, wanted = f"{x}, which does not vary along {axes}", f"a value that varies along {axes}"
    fix = Fix(
        "drop_or_pbroadcast",
        f"if it has been reduced already, {drop}; if a sum of {count} equal copies is meant, "
        f"write {operation}(lax.pbroadcast(x, {axes}), ...)",
        {"axes": same, "rest": rest},
    )
    raise AxisError(message, operation=operation, got=got, wanted=wanted, fix=fix)


# Primitives that name an axis and send nothing along it.
silent: set[Primitive] = set()


def communication(jaxpr: Jaxpr, axes: Iterable[str]) -> Equation | None:
    """Returns the first equation of a jaxpr that communicates along one of these mesh axes.

    Args:
        axes: The names of the mesh axes.
    """
    wanted = frozenset(axes)

    def find() -> tuple[Equation | None]:
        for eqn in jaxpr.eqns:
            named = eqn.params.get("axis_name", ())
            names = named if isinstance(named, tuple) else (named,)
            if eqn.primitive not in silent and not wanted.isdisjoint(names):
                return (eqn,)
            for inner in jaxprs_in(eqn.params):
                found = communication(inner, wanted)
                if found is not None:
                    return (found,)
        return (None,)

    answer: tuple[Equation | None] = jaxpr.memoize(("communication", wanted), find)
    return answer[0]


def check_silent(what: str, jaxpr: Jaxpr, axes: frozenset[str]) -> None:
    """Raises AxisError if devices that do not all run a jaxpr would wait for each other in it.

    `axes` are those along which the value varies that decides whether it runs. Along axes where
    all values count as varying, the user says that it is equal.

    Args:
        what: The operation that runs the jaxpr, such as "cond", for the error.
    """
    axes -= {axis.name for axis in mesh_axes() if axis.untyped}
    eqn = communication(jaxpr, axes) if axes else None
    if eqn is None:
        return
    raise AxisError(
        f"{what}: devices decide differently whether to run a part that communicates",
        operation=what,
        got=f"a condition that varies along {sorted(axes)}, and {eqn.primitive.name} over "
        f"{eqn.params['axis_name']} at {sources.describe(eqn.source)}, where devices that do not "
        "get there would be waited for",
        wanted="a condition that is equal on all devices that communicate",
        fix=Fix(
            "agree",
            "make the condition equal on all devices, for example lax.pmax(condition, "
            f"{sorted(axes)[0]!r}), or communicate outside",
            {"axes": tuple(sorted(axes))},
        ),
    )


# ---- along an axis of a mesh -----------------------------------------------------------------


def _manual(context: Any, names: Names) -> Any:
    """Returns the mesh whose axes are manual where the module is being written."""
    manual = context.module.manual
    missing = [name for name in names if manual is None or name not in manual.mesh.axis_names]
    if missing:
        raise WeftValueError(
            f"{context.primitive.name} reached the compiler with an axis name that is not bound",
            operation=context.primitive.name,
            got=f"axis_name={missing[0]!r}",
            wanted="a name bound by weft.vmap(..., axis_name=...) or by weft.shard_map",
        )
    return manual


def partition_rows(context: Any, names: Names, groups: Groups = None) -> np.ndarray[Any, Any]:
    """The partitions of each group, in the order of their positions along the named axes."""
    manual = _manual(context, names)
    places = [manual.mesh.axis_names.index(name) for name in names]
    last = range(manual.partitions.ndim - len(places), manual.partitions.ndim)
    moved = np.moveaxis(manual.partitions, places, list(last))
    rows = moved.reshape(-1, prod(moved.shape[moved.ndim - len(places) :]))
    if groups is not None:
        rows = np.concatenate([rows[:, list(group)] for group in groups])
    return rows


def groups_and_channel(context: Any, names: Names, groups: Groups = None) -> tuple[Any, int]:
    """The groups of partitions of a collective, and a new channel number."""
    rows = partition_rows(context, names, groups)
    return tuple(map(tuple, rows.tolist())), context.module.new_channel()


def reduce_complex_parts(context: Any, x: Any, reduce: Callable[[Any, int], Any]) -> Any:
    """Sums between devices; complex numbers are summed as pairs of real numbers. XLA's
    simplification of an all-reduce of equal complex numbers ends the process (jaxlib 0.10.2).
    `reduce` gets the value and the number of dimensions that it has in front of its own."""
    if context.in_types[0].dtype.kind != "c":
        return reduce(x, 0)
    shape = [1, *x.type.shape]
    parts = [stablehlo.reshape(part, shape) for part in (stablehlo.real(x), stablehlo.imag(x))]
    out = reduce(stablehlo.concatenate(parts, 0), 1)
    rest = list(out.type.shape)[1:]
    pair = [
        stablehlo.reshape(
            stablehlo.slice_(out, [i, *[0] * len(rest)], [i + 1, *rest], [1] * (len(rest) + 1)),
            rest,
        )
        for i in range(2)
    ]
    return stablehlo.complex_(*pair)


def mesh_position(context: Any, name: Any) -> Any:
    """Returns the position of this device along an axis of the mesh, an int32 scalar. It is read
    from a table with an entry per partition. Where other axes of the mesh are automatic, only a
    region in which no axis is automatic may ask for the number of the partition."""
    manual = _manual(context, (name,))
    place = manual.mesh.axis_names.index(name)
    coordinates = np.broadcast_to(
        np.arange(manual.mesh.axis_sizes[place], dtype=np.int32).reshape(
            [-1 if i == place else 1 for i in range(manual.partitions.ndim)]
        ),
        manual.partitions.shape,
    )
    table = np.zeros(manual.partitions.size, np.int32)
    table[manual.partitions.ravel()] = coordinates.ravel()

    def look_up(_: Any = None) -> list[Any]:
        index = stablehlo.convert(stablehlo_collectives.partition_id(), np.int32)
        places = stablehlo.constant(table, table.shape, np.int32)
        row = stablehlo.dynamic_slice(places, [index], (1,))
        return [stablehlo.reshape(row, ())]

    rest = [axis for axis in manual.mesh.axis_names if axis not in manual.axes]
    if not rest:
        return look_up()[0]
    scalar = stablehlo.tensor_type((), np.int32)
    how = stablehlo_collectives.sharding(context.module.mesh_symbol(manual.mesh), ())
    return stablehlo_collectives.manual_computation(
        [], [], [how], rest, [], [scalar], lambda _: look_up()
    )[0]


# ---- helpers of the vmap rules ---------------------------------------------------------------


def linear_collective(name: str, **rules_of: Any) -> Primitive:
    """A collective whose tangent is the same collective of the tangent."""
    made = Primitive(name)
    return primitive(made, jvp=collective_jvp(made), **rules_of)


def collective_jvp(kind: Primitive) -> Rule:
    """The jvp rule of a linear collective; the source line marks the tangent's message."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        result = kind.bind(x, **params)
        if type(t) is Zero:
            return result, Zero(type_of(result).tangent())
        with sources.tangent_of(kind.name):
            return result, kind.bind(t, **params)

    return jvp


def bind_checked(kind: Primitive, x: Any, **params: Any) -> Any:
    """Binds a collective after its type rule has checked the user's operand. The vmap rule replaces
    the operand, and an error about the replacement would be hard to read."""
    result_types(kind, (type_of(x),), params)
    return kind.bind(x, **params)


def _split_groups(x: Any, groups: Groups) -> Any:
    """Splits the leading dimension, the mapped one, into two: the groups, and their members."""
    assert groups is not None
    moved = take_rows(x, [i for row in groups for i in row])
    return reshape(moved, (len(groups), len(groups[0]), *type_of(x).shape[1:]))


def _merge_groups(x: Any, groups: Groups) -> Any:
    """Undoes `_split_groups`."""
    assert groups is not None
    inverse = inverse_permutation([i for row in groups for i in row])
    return take_rows(reshape(x, (len(inverse), *type_of(x).shape[2:])), inverse)


def take_rows(x: Any, order: Sequence[int]) -> Any:
    """The rows of `x` in another order, each at most once."""
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
    """Applies `core(whole, lead)` within each group; `core` keeps the mapped dimension `lead`."""
    whole = move_dim(x, dim, 0, axis.size)
    if groups is None:
        return core(whole, 0), 0
    return _merge_groups(core(_split_groups(whole, groups), 1), groups), 0
