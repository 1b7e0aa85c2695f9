"""Constraints on the shardings of values inside compiled functions.

The compiler (Shardy, https://openxla.org/shardy) splits arrays as it sees fit, starting from the
known shardings of arguments and results. A constraint fixes that of one value; it computes nothing.

A sharding group has values that the compiler has to split over devices in one way.
"""

from __future__ import annotations

from typing import Any, TypeVar

from weft import tree
from weft.arrays.array import Array, to_place
from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.access_pattern import same_dims, same_moves
from weft.core.axes import mesh_axes, on_devices_in_force, over_mesh_in_force
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import AxisError, Fix, WeftTypeError, WeftValueError, api_boundary
from weft.ops.declare import linear_primitive, primitive
from weft.ops.operand_errors import unfit
from weft.ops.structural.layout_constraint import check_tiles, constrain_layout
from weft.ops.structural.shape import move_dim
from weft.runtime import stablehlo
from weft.sharding import (
    AbstractMesh,
    Format,
    Layout,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    TiledSharding,
)
from weft.sharding.context import is_simulated

T = TypeVar("T")


def is_place(value: Any) -> bool:
    """Whether a value is a sharding, spec, format, device or None (a leaf of trees)."""
    return (
        value is None
        or isinstance(value, (Sharding, PartitionSpec, Format))
        or hasattr(value, "platform")
    )


def as_format(
    place: Any, operation: str, what: str = "", shape: Any = None, auto: bool = False
) -> tuple[Any, Any]:
    """`as_sharding` of `place`, and the layout of a Format (None: no layout). Raises ShapeError for
    a layout that does not fit arrays of a `shape`, naming `what`, and WeftValueError for tiles that
    devices do not have, and for `Layout.AUTO` unless `auto`."""
    if not isinstance(place, Format):
        if isinstance(place, Layout):
            fix = Fix("format", "pass weft.layout.Format(layout, sharding)", {"layout": place})
            takes, wanted = (
                "layouts together with their shardings",
                "a Format, of a layout and a sharding",
            )
            raise unfit(WeftTypeError, operation, takes, [place], wanted, fix)
        return as_sharding(place, operation), None
    layout = place.layout
    if layout is Layout.AUTO and not auto:
        message = f"{operation}: only a compiled function can choose a layout"
        wanted = "a Format with a Layout, or with None"
        fix = Fix(
            "layout",
            "compile the function that reads the array with in_shardings=Format(Layout.AUTO), "
            "and take the format from its input_formats",
        )
        raise WeftValueError(message, got=repr(place), wanted=wanted, fix=fix)
    if isinstance(layout, Layout):
        if shape is not None:
            layout.check_rank(operation, what, tuple(shape))
        if not isinstance(getattr(place.sharding, "mesh", None), AbstractMesh):
            check_tiles(layout, operation)
    return as_sharding(place.sharding, operation), layout


def as_sharding(place: Any, operation: str) -> Any:
    """A place in its canonical form: a spec over the mesh of the context (None for one without
    axes), a sharding of one device as the device; others as they are. Abstract axes become those of
    the mesh in force.

    Raises WeftTypeError for any other value and WeftValueError for a spec without a mesh.
    """
    if isinstance(place, PartitionSpec):
        return over_mesh_in_force(place, operation)
    if isinstance(place, NamedSharding) and place.without_axes:
        return None  # The sharding of a type, which says nothing.
    if isinstance(place, NamedSharding):
        return on_devices_in_force(place)
    if isinstance(place, SingleDeviceSharding):
        return place.device if place.canonical is place else place
    if not is_place(place):
        fix = Fix(
            "device",
            "pass weft.devices()[0], or weft.NamedSharding(mesh, weft.P()) for copies on all "
            "devices of a mesh",
        )
        got = f"{place!r:.100} of class {type(place).__name__}"
        wanted = "a NamedSharding, a PartitionSpec, an entry of weft.devices(), or None"
        raise unfit(WeftTypeError, operation, "shardings, specs and devices", [got], wanted, fix)
    return place


def unless_simulated(place: Any) -> Any:
    """`place`, or None for a sharding over a simulated mesh."""
    return None if isinstance(place, NamedSharding) and is_simulated(place.mesh) else place


@api_boundary
def with_sharding_constraint(x: T, shardings: Any) -> T:
    """Returns a tree with its arrays split over the devices of a mesh in the given way.

    `shardings` is a tree prefix of `x` of NamedShardings, of PartitionSpecs that name axes of the
    mesh in the context, of Formats (which have a layout too), or of None (no constraint). In a
    compiled function the compiler has to split the value like this; outside, the array is moved to
    those devices. Shapes, dtypes and values do not change, and the derivative is constrained in the
    same way. A dimension with `P.UNCONSTRAINED` is left to the compiler; so is the one that `vmap`
    maps over, unless it has an `spmd_axis_name`.

    Raises ShapeError for a spec longer than the rank of an array and a dimension that its axes do
    not divide, WeftValueError for a spec without a mesh, and AxisError for an axis that a shard_map
    around it has already split; they name the leaf.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = weft.make_mesh((1,), ("rows",))
    >>> weft.lax.with_sharding_constraint(jnp.arange(3), NamedSharding(mesh, P("rows")))
    Array([0, 1, 2], dtype=int32, sharding=P('rows'))
    """
    leaves, structure = tree.flatten(x)
    operation = "with_sharding_constraint"
    places = tree.prefix_leaves("shardings", shardings, structure, is_leaf=is_place)
    paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(x)]
    return structure.unflatten(
        [
            constrain(user_value(leaf), place, operation, f"x{path}")
            for leaf, place, path in zip(leaves, places, paths, strict=True)
        ]
    )


def constrain(x: Any, place: Any, operation: str, what: str) -> Any:
    """Returns one array with a constraint (None: as it is); `what` names it in errors."""
    how, layout = as_format(place, operation, what, type_of(x).shape)
    return constrain_layout(constrain_sharding(x, how, operation, what), layout, operation, what)


def constrain_sharding(x: Any, how: Any, operation: str, what: str) -> Any:
    """Returns one array split in a given way (None: as it is)."""
    if how is None or (isinstance(how, NamedSharding) and how.without_axes):
        return x
    if not isinstance(how, Sharding):
        message, got = f"{operation}: a device is no sharding over a mesh", f"{how} for {what}"
        fix = Fix("device_put", "use weft.device_put(x, device)", {"device": how})
        raise WeftTypeError(message, got=got, wanted="a NamedSharding or a PartitionSpec", fix=fix)
    how.check_shape(operation, what, type_of(x).shape)
    check_automatic(how, operation, what)
    if unless_simulated(how) is None:
        return x
    return sharding_constraint_p.bind(x, sharding=how)


def check_automatic(how: Sharding, operation: str, what: str) -> None:
    """Raises AxisError for a sharding over an axis along which a shard_map has split already."""
    if not isinstance(how, NamedSharding):
        return
    manual = {axis.name for axis in mesh_axes()}
    used = [name for name in how.spec.axes() if name in manual]
    if used:
        entries = [
            tuple(name for name in how.spec.entry_axes(i) if name not in manual)
            for i in range(len(how.spec))
        ]
        raise AxisError(
            f"{operation}: inside a shard_map over {used[0]!r} each device has its block along "
            "that axis already",
            got=f"{how.spec} for {what}",
            wanted=f"axes of the mesh other than {', '.join(map(repr, sorted(manual)))}",
            fix=Fix(
                "spec", f"leave out {', '.join(map(repr, used))}", {"spec": PartitionSpec(*entries)}
            ),
        )


# ---- rules ---------------------------------------------------------------------------------------


def constraint_impl(x: Any, *, sharding: Sharding) -> Array:
    array = as_array(x)
    place = array._committed_place()
    if isinstance(sharding, NamedSharding) and isinstance(place, NamedSharding):
        if place.mesh.abstract_mesh is sharding.mesh:
            sharding = NamedSharding(place.mesh, sharding.spec, sharding.memory_kind)
    return to_place(array, close_open_dimensions(sharding, array))


def close_open_dimensions(sharding: Sharding, array: Array | None = None) -> Sharding:
    """The sharding with its open dimensions split as in `array` where their axes are free, or not
    split."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    spec = sharding.spec
    if not any(spec.is_open(i) for i in range(len(spec))):
        return sharding
    now = None if array is None else array._committed_place()
    kept = now.spec if isinstance(now, NamedSharding) and now.mesh is sharding.mesh else ()
    used = set(spec.axes())
    entries = list(spec)
    for i in filter(spec.is_open, range(len(spec))):
        axes = kept.entry_axes(i) if isinstance(kept, PartitionSpec) else ()
        entries[i] = axes if used.isdisjoint(axes) else None
    return NamedSharding(sharding.mesh, PartitionSpec(*entries))


def constraint_type(x: ArrayType, *, sharding: Sharding) -> ArrayType:
    sharding.check_shape("with_sharding_constraint", "x", x.shape)
    return x


def constraint_transpose(cotangent: Any, x: Any, *, sharding: Sharding) -> list[Any]:
    if type(cotangent) is Zero:
        return [cotangent]
    return [sharding_constraint_p.bind(cotangent, sharding=sharding)]


def constraint_vmap(
    axis: AxisData, args: Values, dims: Dims, *, sharding: Sharding
) -> tuple[Any, int | None]:
    (x,), (dim,) = args, dims
    assert dim is not None
    how = with_dimension(sharding, type_of(x).ndim - 1, dim, axis.spmd_axis_name)
    how.check_shape("with_sharding_constraint", "x under vmap", type_of(x).shape)
    return sharding_constraint_p.bind(x, sharding=how), dim


def with_dimension(sharding: Sharding, ndim: int, dim: int, names: Any) -> Sharding:
    """The sharding of a whole array, from that of its rows along a mapped dimension."""
    if isinstance(sharding, SingleDeviceSharding):
        return sharding
    if isinstance(sharding, TiledSharding):
        assignment = sharding.assignment(ndim)
        if assignment is None:
            return sharding
        shape = assignment.shape
        return TiledSharding(
            sharding.device_list, assignment.reshape((*shape[:dim], 1, *shape[dim:]))
        )
    assert isinstance(sharding, NamedSharding)
    spec = sharding.spec
    entries = [*spec, *[None] * (dim - len(spec))]
    inserted: Any = PartitionSpec.UNCONSTRAINED
    if names is not None:
        inserted = (names,) if isinstance(names, str) else tuple(names)
        used = [name for name in inserted if name in spec.axes()]
        if used:
            raise AxisError(
                f"with_sharding_constraint: vmap lays its axis out over {used[0]!r}, and the "
                "constraint names that axis too",
                got=f"{spec} under vmap with spmd_axis_name={names!r}",
                wanted="an axis of the mesh in one of the two",
                fix=Fix("rename", "use another mesh axis for the vmap", {"axis_name": used[0]}),
            )
    return NamedSharding(sharding.mesh, PartitionSpec(*entries[:dim], inserted, *entries[dim:]))


def constraint_lower(context: Any, x: Any, *, sharding: Sharding) -> Any:
    if len(context.module.devices) <= 1 and not is_abstract(sharding):
        return x
    manual = context.module.manual
    if manual is not None and manual.has_all_axes:
        return x
    return stablehlo.sharding_constraint(x, context.module.sharding(sharding, context.in_types[0]))


def is_abstract(sharding: Sharding) -> bool:
    """Returns whether a sharding is over a mesh without devices."""
    return isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh)


sharding_constraint_p = linear_primitive(
    "sharding_constraint",
    type_rule=constraint_type,
    lower=constraint_lower,
    transpose=constraint_transpose,
    vmap=constraint_vmap,
    reads=same_dims,
    moves=same_moves,
    linear=True,
    makes_no_nan=True,
    flops="none",
)
rules.impl.register(sharding_constraint_p, constraint_impl)
rules.layout.register(sharding_constraint_p, lambda params: (0,))


def alike_impl(x: Any, y: Any) -> list[Any]:
    first, second = as_array(x), as_array(y)
    place = first._committed_place() or second._committed_place()
    if place is None:
        return [first, second]
    return [to_place(first, place), to_place(second, place)]


def alike_jvp(primals: Values, tangents: Values) -> tuple[list[Any], Values]:
    outs = shard_alike_p.bind(*primals)
    if any(type(t) is Zero for t in tangents):
        return outs, tangents
    return outs, shard_alike_p.bind(*tangents)


def alike_transpose(cotangents: Values, *operands: Any) -> Values:
    if any(type(t) is Zero for t in cotangents):
        return cotangents
    return list(shard_alike_p.bind(*cotangents))


def alike_vmap(axis: AxisData, args: Values, dims: Dims) -> tuple[list[Any], Dims]:
    target = next(dim for dim in dims if dim is not None)
    values = [move_dim(x, dim, target, axis.size) for x, dim in zip(args, dims, strict=True)]
    return list(shard_alike_p.bind(*values)), [target] * 2


def alike_type(x: ArrayType, y: ArrayType) -> list[ArrayType]:
    return [x, y]


def alike_lower(context: Any, x: Any, y: Any) -> list[Any]:
    manual = context.module.manual
    split = manual is not None and manual.has_all_axes
    if len(context.module.devices) > 1 and not split:
        # Any number that no other pair of the module has.
        stablehlo.sharding_group((x, y), context.module.new_channel())
    return [x, y]


shard_alike_p = primitive(
    Primitive("shard_alike", multiple_results=True),
    type_rule=alike_type,
    jvp=alike_jvp,
    transpose=alike_transpose,
    vmap=alike_vmap,
    lower=alike_lower,
    flops="none",
)
rules.impl.register(shard_alike_p, alike_impl)
