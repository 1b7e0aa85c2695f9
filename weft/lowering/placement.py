"""The devices that an executable runs on: those of committed operands, or of meshes in its jaxpr.

The `place` of an executable is None (the default device), a device, or a tuple of devices. That of
an array is a device or a sharding over several; None for one that is not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array
from weft.arrays.transfers import Uncommitted, default_place, first_place
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.errors import Fix, WeftValueError
from weft.sharding import (
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    TiledSharding,
)

Place = Any


def operand_place(
    arrays: Sequence[Any],
    operation: str,
    params: dict[str, Any] | None = None,
    names: Callable[[], Sequence[str]] | None = None,
    also: str = "",
) -> Place:
    """The devices for an operation on these arrays: None for the default device, a device, or a
    tuple of devices.

    Those that arrays are committed to; where none is, those of a mesh among the parameters or in a
    jaxpr that they hold. Raises WeftValueError if they name different devices, or arrays one
    set in different orders; `names` returns the arrays' names for its message, and `also` says what
    is to be done beside moving one of them.

    Args:
        arrays: The operands.
        operation: The operation's name in errors.
        params: The parameters of the primitive, by name; None for none.
        names: Returns the names of the arrays, for errors; None if they have none.
        also: What is to be done beside moving an array, as the end of a sentence of the error.
    """
    found: Any = None
    first = 0
    for i, array in enumerate(arrays):
        other = array._committed_place() if type(array) is Array else None
        if other is not None:
            if found is None:
                found, first = other, i
            elif other is not found and not same_order(found, other):
                called = (names()[first], names()[i]) if names else None
                raise different_devices(operation, found, other, called, also)
            elif isinstance(other, Sharding) and not isinstance(found, Sharding):
                found, first = other, i
    named = _named_place(params, operation) if params else None
    if named is not None:
        if found is not None and not same_devices(found, named):
            raise outside_mesh(operation, found, named, names()[first] if names else None, also)
        if not isinstance(found, Sharding):
            found = named
    if isinstance(found, SingleDeviceSharding):
        return found.device
    if found is None and config.settings_in_keys:
        return default_place() or _first_place_if_needed(arrays)
    return found.device_list if isinstance(found, (Sharding, Mesh)) else found


def _first_place_if_needed(arrays: Sequence[Any]) -> Any:
    """None if uncommitted arrays are on the first device; else the place to move them to."""
    away = any(type(x) is Array and type(x._kept_place()) is Uncommitted for x in arrays)
    return first_place() if away else None


def joint_place(arrays: Sequence[Any], operation: str) -> Any:
    """The device for results that Python computes of arrays (or None), or a sharding with a copy
    on each device. Raises WeftValueError if the arrays are committed to different ones.

    Args:
        arrays: The operands.
        operation: The operation's name in errors.
    """
    place = operand_place(arrays, operation)
    if type(place) is not tuple:
        return place
    for how in operand_shardings(arrays, place) or ():
        if isinstance(how, NamedSharding):
            return NamedSharding(how.mesh, PartitionSpec())
    return TiledSharding(place, None)


def _devices(place: Any) -> tuple[Any, ...]:
    return place.device_list if isinstance(place, (Sharding, Mesh)) else (place,)


def same_devices(one: Any, other: Any) -> bool:
    """Whether two devices, shardings or meshes mean one set of devices.

    Args:
        one, other: A device, a sharding or a mesh.
    """
    first, second = _devices(one), _devices(other)
    return first is second or set(first) == set(second)


def same_order(one: Any, other: Any) -> bool:
    """Whether two places have the same devices in the same order. In another order equal parts are
    on different devices, and Shardy would copy both arrays as a whole."""
    if isinstance(one, Sharding) and isinstance(other, Sharding):
        return one.device_list == other.device_list
    return same_devices(one, other)


def operand_shardings(arrays: Sequence[Any], place: Place) -> tuple[Sharding | None, ...] | None:
    """The shardings of operands for several devices, None for those not committed; None instead of
    all on one device.

    Args:
        arrays: The operands.
        place: What `operand_place` returned for them.
    """
    if type(place) is not tuple:
        return None
    committed = (x._committed_place() if type(x) is Array else None for x in arrays)
    return tuple(how if isinstance(how, Sharding) else None for how in committed)


def places_in(params: dict[str, Any]) -> tuple[Any, ...]:
    """The meshes, and shardings without one, in the parameters of an application and in their
    jaxprs."""
    found: dict[Any, None] = {}
    for name in ("mesh", "manual", "sharding"):
        value = params.get(name)
        value = getattr(value, "mesh", value)
        if isinstance(value, (Mesh, SingleDeviceSharding, TiledSharding)):
            found[value] = None
    for jaxpr in jaxprs_in(params):
        found.update(dict.fromkeys(program_places(jaxpr)))
    return tuple(found)


def program_places(jaxpr: Jaxpr) -> tuple[Any, ...]:
    """The meshes, and shardings without one, that a jaxpr refers to."""

    def make() -> tuple[Any, ...]:
        found: dict[Any, None] = {}
        for eqn in jaxpr.eqns:
            if eqn.params:
                found.update(dict.fromkeys(places_in(eqn.params)))
        return tuple(found)

    return jaxpr.memoize("places", make)


def _named_place(params: dict[str, Any], operation: str) -> Any:
    """One of the meshes and shardings among the parameters. Raises WeftValueError if their
    devices differ."""
    places = places_in(params)
    for place in places[1:]:
        if not same_devices(place, places[0]):
            message = f"{operation} refers to meshes over different devices"
            got = f"{_with_devices(places[0])} and {_with_devices(place)}"
            wanted = "meshes over one set of devices; their shapes and orders may differ"
            fix = Fix("mesh", "use one mesh for all of it", {"meshes": (places[0], place)})
            raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return places[0] if places else None


def _with_devices(place: Any) -> str:
    """A device, sharding or mesh with its devices, for messages: meshes look alike without."""
    if not isinstance(place, (Sharding, Mesh)):
        return str(place)
    devices = _devices(place)
    listed = ", ".join(map(str, devices[:8])) + (", ..." if len(devices) > 8 else "")
    return f"{place!r:.200} over {listed}"


def different_devices(
    operation: str, one: Any, other: Any, names: tuple[str, str] | None = None, also: str = ""
) -> WeftValueError:
    """The error for operands that are committed to different devices; `names` are theirs."""
    which = f": {names[0]} and {names[1]}" if names else ""
    on = (f"{names[0]} on ", f"{names[1]} on ") if names else ("", "")
    # Closed-over arrays have no name that could be written in code.
    written = names is not None and " " not in "".join(names)
    kept, moved = names if names and written else ("y", "x")
    devices = "one set of devices in different orders"
    wanted = "arrays over meshes that have their devices in the same order"
    if not same_devices(one, other):
        devices = "different devices"
        wanted = "arrays on one device, or on the same set of devices"
    message = f"{operation} got arrays that were put on {devices}{which}"
    got = f"{on[0]}{_with_devices(one)} and {on[1]}{_with_devices(other)}"
    fix = Fix(
        "device_put",
        f"move one of them: weft.device_put({moved}, {kept}.sharding){also}",
        {"device": one},
    )
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def outside_mesh(
    operation: str, place: Any, named: Any, name: str | None = None, also: str = ""
) -> WeftValueError:
    """The error for an operand `name` that is committed to other devices than a mesh's.

    Args:
        operation: The operation's name in errors.
        place: The device or sharding that the operand is committed to.
        named: The mesh, or a sharding over its devices.
        also: What is to be done beside moving the operand.
        name: The name of the operand; None if it is not known.
    """
    there = NamedSharding(named, PartitionSpec()) if isinstance(named, Mesh) else named
    what = name or "an array"
    # Closed-over arrays have no name that could be written in code.
    moved = name if name and " " not in name else "x"
    message = f"{operation} refers to a mesh, and {what} was put on other devices than that"
    got = f"{what} on {_with_devices(place)}"
    wanted = (
        f"arrays on the devices of {_with_devices(named)}, or such as were put nowhere on purpose"
    )
    fix = Fix(
        "device_put",
        f"move it there: weft.device_put({moved}, {there!r:.200}){also}",
        {"device": there},
    )
    return WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
