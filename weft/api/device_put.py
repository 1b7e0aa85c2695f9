"""`device_put`, and arrays made of parts that lie on their devices."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from weft import config, dtypes, tree
from weft.api.among_processes import needs_program, reshard_array
from weft.arrays.array import (
    Array,
    array_at,
    donate_to_place,
    host_values,
    put,
    to_format,
    to_layout,
    to_place,
)
from weft.arrays.conversion import as_array, check_same, own_array
from weft.arrays.shards import Parts, join, parts_of, put_parts
from weft.arrays.transfers import default_place, explicit_transfers
from weft.core.trace import Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import not_an_array
from weft.lowering.executables import device_for
from weft.memory import Space
from weft.ops.structural.layout_constraint import constrain_layout
from weft.ops.structural.sharding_constraint import as_format, constrain, is_place, unless_simulated
from weft.runtime import client
from weft.sharding import Layout, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from weft.sharding.sharding import checked_shape
from weft.typing import ArrayLike

T = TypeVar("T")

Index = tuple[slice, ...]


@overload
def device_put(
    x: ArrayLike, device: Any = ..., *, src: Any = ..., donate: Any = ..., may_alias: Any = ...
) -> Array: ...
@overload
def device_put(
    x: T, device: Any = ..., *, src: Any = ..., donate: Any = ..., may_alias: Any = ...
) -> T: ...
@api_boundary
def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """Puts the arrays of a tree on a device, or over several.

    Arrays, NumPy arrays and numbers come from anywhere: parts that lie where they should are not
    copied, and only the parts that are needed move. In a traced function a sharding over several
    devices constrains how the compiler splits the value (see `with_sharding_constraint`); a single
    device is ignored there.

    Args:
        x (tree of arrays): What is put: arrays, NumPy arrays and numbers.
        device (device or sharding): Where to: a tree prefix of `x`, each leaf an entry of
            `weft.devices()`, a sharding (such as a NamedSharding), a PartitionSpec over the mesh in
            force, or None, which leaves arrays where they are and puts numbers and NumPy arrays on
            the default device; or a Format, which says the order of the elements in memory too.
            Arrays keep their layout otherwise.
        src: Where the arrays are. They know it, so it changes nothing.
        donate (bool): Whether the given arrays are deleted; a bool, or a tree prefix of bools.
        may_alias (bool or None): Whether the result may share memory with what is given, or a tree
            prefix of that. False asks for memory of its own. True allows devices to use the memory
            of NumPy arrays, which must not change any more. With None only arrays of weft's share
            it, and are deleted together.

    Raises ShapeError for an array that cannot be split so or has another rank than its layout,
    WeftTypeError for what is no device or sharding and for leaves that are no arrays,
    WeftValueError for a PartitionSpec without a mesh, `Layout.AUTO`, and arrays that are donated
    and aliased at once, and TreeError for prefixes that do not fit.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import NamedSharding, PartitionSpec as P
    >>> mesh = weft.make_mesh((2,), ("i",))
    >>> x = weft.device_put(jnp.arange(6), NamedSharding(mesh, P("i")))
    >>> [shard.data.tolist() for shard in x.addressable_shards]
    [[0, 1, 2], [3, 4, 5]]
    """
    if config.guarding:
        with explicit_transfers():
            return _put(x, device, donate, may_alias)
    return _put(x, device, donate, may_alias)


def _put(x: Any, device: Any, donate: Any, may_alias: Any) -> Any:
    if type(x) in _LEAVES and is_place(device) and type(donate) is bool:
        return _put_leaf(x, device, donate, may_alias, x)
    leaves, structure = tree.flatten(x)
    places = tree.prefix_leaves("device_put: device", device, structure, is_leaf=is_place)
    donated = tree.prefix_leaves("device_put: donate", donate, structure)
    aliases = tree.prefix_leaves(
        "device_put: may_alias", may_alias, structure, is_leaf=lambda value: value is None
    )
    rows = enumerate(zip(leaves, places, donated, aliases, strict=True))
    return structure.unflatten([_put_leaf(*row, x, number) for number, row in rows])


_LEAVES = (Array, np.ndarray, float, int)


def _put_leaf(
    leaf: Any, device: Any, donate: bool, may_alias: bool | None, whole: Any, number: int = 0
) -> Any:
    """Puts leaf `number` of the tree `whole` on a device or in a sharding."""
    if isinstance(device, Space):
        device = _in_memory(leaf, device)
    place, layout = as_format(device, "device_put")
    if donate and may_alias:
        message = f"device_put: {_name(whole, number)} cannot be donated and aliased at once"
        got = f"donate={donate}, may_alias={may_alias}"
        fix = Fix("may_alias", "leave may_alias out", {"argument": "may_alias"})
        raise WeftValueError(message, got=got, wanted="one of them", fix=fix)
    if isinstance(place, Sharding):
        # Checked before anything is moved, with the name of the leaf.
        shape = _leaf_type(leaf, whole, number).shape
        try:
            place.check_shape("device_put", "x", shape)
        except ShapeError:
            place.check_shape("device_put", _name(whole, number), shape)
            raise
        place = unless_simulated(place)
    if layout is not None:
        layout.check_rank("device_put", _name(whole, number), _leaf_type(leaf, whole, number).shape)
    if isinstance(leaf, Tracer):
        if isinstance(place, Sharding):
            leaf = constrain(leaf, place, "device_put", _name(whole, number))
        return constrain_layout(leaf, layout, "device_put", _name(whole, number))
    if type(leaf) is Array:
        if place is None:
            return copy.deepcopy(leaf) if may_alias is False else leaf
        if needs_program(leaf, place):
            return to_layout(reshard_array(leaf, place), layout)
        if leaf.is_fully_addressable:
            check_same(leaf._stored, f"device_put of {_name(whole, number)}", place)
        if donate:
            moved = donate_to_place(leaf, place)
            return moved if layout is None else to_layout(moved, layout)
        return to_format(leaf, place, layout, copy=may_alias is False)
    aval = _leaf_type(leaf, whole, number)
    leaf = user_value(leaf)
    if place is None:
        return own_array(leaf) if current_trace() is bottom_trace() else as_array(leaf)
    values = host_values(leaf, aval)
    check_same(lambda: values, f"device_put of {_name(whole, number)}", place)
    made = put(values, aval, place, copy=values is leaf and may_alias is not True)
    return to_layout(made, layout)


def _in_memory(leaf: Any, space: Space) -> Any:
    """The sharding of a leaf in another kind of memory; None if it stays."""
    if space is Space.Any or isinstance(leaf, Tracer):
        return None
    if type(leaf) is Array:
        return leaf.sharding.with_memory_kind(space.value)
    place = SingleDeviceSharding(device_for(default_place()))
    return None if space is Space.Device else place.with_memory_kind(space.value)


def _leaf_type(leaf: Any, whole: Any, number: int) -> ArrayType:
    try:
        return type_of(user_value(leaf))
    except WeftTypeError:
        what = f"device_put: {_name(whole, number)}"
        raise not_an_array("device_put", what, leaf) from None


def _name(whole: Any, number: int) -> str:
    """The name in messages of a leaf of the argument x."""
    return f"x{tree.keystr(tree.leaves_with_path(whole)[number][0])}"


@api_boundary
def make_array_from_callback(
    shape: Sequence[int], sharding: Any, data_callback: Callable[[Index], Any], dtype: Any = None
) -> Array:
    """An array whose parts a function computes, for the devices of this process.

    shape: the lengths of the whole array. `data_callback` is called once for each different part,
    with its index: a tuple of slices of the whole array of the given shape, `slice(None)` where a
    dimension is not split. It returns the part, a NumPy array, a number or an array. The parts are
    of one dtype, or are converted to `dtype` where it is given. `sharding` is a sharding, a
    PartitionSpec over the mesh in force, a device, or a Format.

    Raises ShapeError for a shape that cannot be split so and for a part of another shape than its
    index, DTypeError for parts of different dtypes, and WeftTypeError for a part that is no array.

    >>> import weft
    >>> from weft.sharding import NamedSharding, PartitionSpec as P
    >>> table = np.arange(8).reshape(4, 2)
    >>> where = NamedSharding(weft.make_mesh((2,), ("i",)), P("i"))
    >>> x = make_array_from_callback((4, 2), where, lambda index: table[index])
    >>> x.addressable_data(1)
    Array([[4, 5],
           [6, 7]], dtype=int32)
    """
    operation = "make_array_from_callback"
    lengths, place, layout = _check_target(operation, shape, sharding)
    if unless_simulated(place) is None:  # Simulated: one device runs all and has all.
        place = client.devices()[0]
    # The indices do not depend on the dtype of the parts, which is not known yet.
    indices = parts_of(place, ArrayType(lengths, np.bool_)).indices
    blocks = [user_value(data_callback(index)) for index in indices]
    names = [f"the part at {_index_text(index)}" for index in indices]
    types = [_part_type(operation, x, name) for x, name in zip(blocks, names, strict=True)]
    aval = ArrayType(lengths, _dtype(operation, dtype, types))
    parts = parts_of(place, aval)
    for part, name in zip(types, names, strict=True):
        _check_part(operation, name, part, parts, any_dtype=dtype is not None)
    converted = any(part.dtype != aval.dtype for part in types)
    if converted or not any(isinstance(block, Array) for block in blocks):
        hosted = [np.asarray(x._stored() if type(x) is Array else x) for x in blocks]
        values = [value.astype(aval.dtype, copy=False) for value in hosted]
        made = array_at(put_parts(values, parts, copy=True), aval, parts.place)
        return to_layout(made, layout)
    arrays = [as_array(block) for block in blocks]
    placed = [
        to_place(arrays[number], device)
        for number, device in zip(parts.block_of, parts.devices, strict=True)
    ]
    return _join_blocks(placed, parts, layout)


@api_boundary
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Array], *, dtype: Any = None
) -> Array:
    """An array of a given shape from its parts, which lie on their devices already.

    shape: the lengths of the whole array. sharding: as in `make_array_from_callback`. `arrays` has
    one array for each device of this process that `sharding` is over, in any order: the block that
    this device is to hold. Nothing is copied, if the blocks are of one layout (that of the Format,
    where `sharding` is one): the array and its parts share memory, and are deleted together. That
    blocks meant to be equal are equal is not checked. `dtype` has to be given only where this
    process has none of the devices.

    Raises ShapeError for a shape that cannot be split so and for a block of another shape,
    DTypeError for blocks of different dtypes, WeftTypeError for a block that is no array, and
    WeftValueError where devices are missing, strange or there twice.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import NamedSharding, PartitionSpec as P
    >>> first, second = weft.devices()[:2]
    >>> blocks = [weft.device_put(jnp.zeros(2), first), weft.device_put(jnp.ones(2), second)]
    >>> where = NamedSharding(weft.make_mesh((2,), ("i",)), P("i"))
    >>> make_array_from_single_device_arrays((4,), where, blocks)
    Array([0., 0., 1., 1.], dtype=float32, sharding=P('i'))
    """
    operation = "make_array_from_single_device_arrays"
    lengths, place, layout = _check_target(operation, shape, sharding)
    given = list(arrays)
    if not given and (bare := parts_of(place, ArrayType(lengths, np.bool_))).devices:
        raise _wrong_devices(operation, "no arrays", bare)
    types = [_part_type(operation, x, f"arrays[{n}]", only=Array) for n, x in enumerate(given)]
    parts = parts_of(place, ArrayType(lengths, _dtype(operation, dtype, types)))
    wanted = set(parts.devices)
    found: dict[Any, Array] = {}
    for number, (array, of) in enumerate(zip(given, types, strict=True)):
        if of != parts.block_type:  # the text for an error costs a fifth of the whole call
            _check_part(operation, f"arrays[{number}]", of, parts)
        device = array.device
        if device not in wanted or device in found:
            raise _wrong_devices(operation, f"arrays[{number}] on {device}", parts)
        found[device] = array
    missing = [device for device in parts.devices if device not in found]
    if missing:
        raise _wrong_devices(operation, f"no array on {', '.join(map(str, missing))}", parts)
    return _join_blocks([found[device] for device in parts.devices], parts, layout, operation)


@api_boundary
def reshard(xs: T, out_shardings: Any) -> T:
    """Puts the arrays of a tree in other shardings: NamedShardings, or PartitionSpecs over the
    mesh in force; a tree prefix.

    xs: a tree of arrays; out_shardings: one sharding for all of them, or a tree prefix of
    shardings.

    Outside of traced functions arrays are moved, inside they are constrained (see
    `with_sharding_constraint`). Raises WeftTypeError for other kinds of places, and what
    `device_put` does.

    >>> import weft, weft.numpy as jnp
    >>> where = weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))
    >>> weft.reshard(jnp.arange(4), where).sharding.spec
    P('i')
    """
    for leaf in tree.leaves(out_shardings, is_leaf=is_place):
        if not isinstance(leaf, (NamedSharding, PartitionSpec)):
            message = "reshard takes NamedShardings and PartitionSpecs"
            fix = Fix("device_put", "use weft.device_put(x, place)", {"device": leaf})
            wanted = "a NamedSharding or a PartitionSpec"
            raise WeftTypeError(message, got=f"{leaf!r:.100}", wanted=wanted, fix=fix)
    return device_put(xs, out_shardings)


def _join_blocks(
    blocks: Sequence[Array], parts: Parts, layout: Layout | None, operation: str = "joining blocks"
) -> Array:
    """The array of blocks on their devices, in a layout, or in the blocks' common layout."""
    buffers = [block._single(operation) for block in blocks]
    layouts = {block._layout() for block in blocks}
    if layout is None and len(layouts) == 1:
        (layout,) = layouts
    if layouts != {layout}:
        buffers = [to_layout(block, layout)._single(operation) for block in blocks]
    return array_at(join(buffers, parts), parts.type, parts.place, layout)


def _check_target(
    operation: str, shape: Any, sharding: Any
) -> tuple[tuple[int, ...], Any, Layout | None]:
    """The shape as integers, and the device or sharding and the layout, which fit it."""
    lengths = checked_shape(operation, shape)
    place, layout = as_format(sharding, operation, "the array", lengths)
    if place is None:
        wanted = "a NamedSharding, or an entry of weft.devices()"
        fix = Fix(
            "device",
            "pass weft.devices()[0], or weft.NamedSharding(mesh, weft.P()) for copies on all "
            "devices of a mesh",
        )
        raise WeftTypeError(f"{operation} takes a sharding", got="None", wanted=wanted, fix=fix)
    if isinstance(place, Sharding):
        place.check_shape(operation, "the array", lengths)
    return lengths, place, layout


def _index_text(index: Index) -> str:
    """An index as text, such as `[0:4, :]`."""
    rows = [":" if part == slice(None) else f"{part.start}:{part.stop}" for part in index]
    return f"[{', '.join(rows)}]"


def _part_type(operation: str, part: Any, what: str, only: Any = object) -> ArrayType:
    try:
        of = type_of(part)
    except WeftTypeError:
        of = None
    if of is None or isinstance(part, Tracer) or not isinstance(part, only):
        message = f"{operation}: {what} is no array" + (" with values" if of is not None else "")
        got = f"{part!r:.100} of class {type(part).__name__}"
        wanted = (
            "an array on one device" if only is Array else "a NumPy array, a number, or an array"
        )
        raise WeftTypeError(message, got=got, wanted=wanted)
    return of.strong()


def _check_part(
    operation: str, what: str, of: ArrayType, parts: Parts, any_dtype: bool = False
) -> None:
    wanted = parts.block_type
    if of.shape != wanted.shape:
        raise ShapeError(
            f"{operation}: {what} does not have the shape of a block",
            got=str(of),
            wanted=f"{wanted}, a block of {parts.type} with {parts.place}",
        )
    numbers = isinstance(of.dtype, np.dtype) and isinstance(wanted.dtype, np.dtype)
    if of.dtype != wanted.dtype and not (any_dtype and numbers):
        message = f"{operation}: {what} is of another dtype than the array"
        fix = Fix("astype", f"convert it: part.astype({wanted.dtype})", {"dtype": wanted.dtype})
        raise DTypeError(message, got=str(of), wanted=str(wanted), fix=fix)


def _dtype(operation: str, asked: Any, types: Sequence[ArrayType]) -> Any:
    """The dtype that was asked for, or that of the parts."""
    if asked is not None:
        return dtypes.requested(asked)
    if types:
        return types[0].dtype
    message = f"{operation}: without parts in this process the dtype is not known"
    fix = Fix("dtype", "pass dtype", {"argument": "dtype"})
    raise WeftTypeError(message, operation=operation, wanted="dtype=…", fix=fix)


def _wrong_devices(operation: str, got: str, parts: Parts) -> WeftValueError:
    message = f"{operation} takes one array for each device of the sharding"
    wanted = f"one array on each of {', '.join(map(str, parts.devices))}"
    text = "put the block that a device is to hold there: weft.device_put(block, device)"
    fix = Fix("device_put", text, {"devices": tuple(parts.devices)})
    return WeftValueError(message, got=got, wanted=wanted, fix=fix)
