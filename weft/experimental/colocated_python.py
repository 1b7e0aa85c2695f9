"""Python functions on the hosts of devices: here on the one host there is, in this process.

A function runs when it is called, on arrays of CPU devices as they are; its results are put on the
devices of its arguments. Calls of one thread run in order, and those of several threads at once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from weft import tree
from weft.api.device_put import device_put
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.shape_struct import ShapeDtypeStruct
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.experimental.unavailable import unavailable_error
from weft.sharding import Mesh

__all__ = ["colocated_cpu_devices", "colocated_python", "colocated_python_class"]

__dir__ = public_names(globals())


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices on the hosts of devices, or the mesh of these: CPU devices themselves.

    Raises WeftNotImplementedError for other devices.

    Args:
        devices_or_mesh: A sequence of devices, or a mesh.
    """
    of_mesh = isinstance(devices_or_mesh, Mesh)
    devices = devices_or_mesh.devices.ravel().tolist() if of_mesh else list(devices_or_mesh)
    _check_cpu("colocated_cpu_devices", devices)
    return devices_or_mesh if of_mesh else tuple(devices)


def _check_cpu(operation: str, devices: Sequence[Any]) -> None:
    if any(device.platform != "cpu" for device in devices):
        raise unavailable_error(operation, "the devices are no CPU devices")


def _devices_of(leaves: Sequence[Any]) -> list[Any]:
    """The devices of arrays, each once, in order."""
    found = [device for x in leaves for device in x.sharding.device_list]
    return list(dict.fromkeys(found))


@dataclasses.dataclass(eq=False)
class ColocatedFunction:
    """A function that runs on the host of its arguments' devices, made by `colocated_python`.

    in_specs: the types that arguments must have, as a pair of positional and named ones;
    out_specs_fn: from the types of the arguments to those of the results, which are checked;
    devices: where it runs, for calls without arrays.
    """

    fun: Callable[..., Any]
    in_specs: Any = None
    out_specs_fn: Callable[..., Any] | None = None
    devices: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.fun)

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Any] | None = None,
    ) -> ColocatedFunction:
        """The function with more of this known; what is left out stays as it was."""
        given = {"in_specs": in_specs, "out_specs_fn": out_specs_fn, "devices": devices}
        known = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(self, **known)

    @api_boundary("colocated_python")
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        for leaf in leaves:
            if not isinstance(leaf, Array):
                message = "colocated_python takes arrays"
                got = f"{leaf!r:.60} of class {type(leaf).__name__}"
                fix = Fix("device_put", "put it on the devices first: weft.device_put(x, sharding)")
                raise _refusal(WeftTypeError, message, got, "arrays on CPU devices", fix)
        devices = list(self.devices) if self.devices is not None else _devices_of(leaves)
        if not devices:
            message = "a function without arrays as arguments is told where it runs"
            fix = Fix("devices", "use .specialize(devices=weft.devices('cpu'))")
            raise _refusal(WeftValueError, message, "no arrays", "devices", fix)
        _check_cpu("colocated_python", devices)
        specs = [ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in leaves]
        if self.in_specs is not None:
            _check_types("the arguments", leaves, structure, self.in_specs)
        results, out_structure = tree.flatten(self.fun(*args, **kwargs))
        if self.out_specs_fn is not None:
            own_args, own_kwargs = structure.unflatten(specs)
            wanted = self.out_specs_fn(*own_args, **own_kwargs)
            _check_types("the results", results, out_structure, wanted)
        place = leaves[0].sharding if leaves else devices[0]
        put = [
            x
            if (isinstance(x, Array) and set(x.sharding.device_list) == set(devices))
            else device_put(x, place)
            for x in results
        ]
        return out_structure.unflatten(put)


def _check_types(what: str, leaves: Sequence[Any], structure: Any, wanted: Any) -> None:
    specs, wanted_structure = tree.flatten(wanted)
    same = structure == wanted_structure and all(
        getattr(x, "shape", ()) == spec.shape and getattr(x, "dtype", None) == spec.dtype
        for x, spec in zip(leaves, specs, strict=True)
    )
    if not same:
        shown = ", ".join(str(getattr(x, "type", x)) for x in leaves)
        message = f"colocated_python: {what} are others than it was specialized for"
        fix = Fix("specialize", "specialize it for these types")
        raise _refusal(WeftValueError, message, shown, f"{specs}", fix)


def _refusal(
    kind: type[WeftTypeError] | type[WeftValueError], message: str, got: str, wanted: str, fix: Fix
) -> Exception:
    return kind(message, got=got, wanted=wanted, fix=fix)


def colocated_python(fun: Callable[..., Any]) -> ColocatedFunction:
    """A function of arrays that runs as Python on the host of their devices.

    Its results are on the devices of the first argument. `.specialize(in_specs=, out_specs_fn=,
    devices=)` says what is known about a call in advance. Raises WeftTypeError for arguments that
    are not arrays, WeftValueError for a call without arrays and devices, and for types other than
    those it was specialized for, and WeftNotImplementedError for devices that are not CPU devices.

    Args:
        fun: A function from trees of arrays to trees of arrays.

    >>> from weft.experimental.colocated_python import colocated_python
    >>> colocated_python(lambda x: x + 1)(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    return ColocatedFunction(fun)


def colocated_python_class(cls: type) -> Any:
    """A class whose instances live on the hosts of devices, and whose methods run there.

    The instance is made by the first call of a method. Methods take arrays, as functions made by
    `colocated_python` do.

    >>> from weft.experimental.colocated_python import colocated_python_class
    >>> class Counter:
    ...     def __init__(self, step):
    ...         self.step = step
    ...
    ...     def after(self, x):
    ...         return x + self.step
    >>> colocated_python_class(Counter)(2).after(jnp.arange(3))
    Array([2, 3, 4], dtype=int32)
    """

    class Colocated:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._make = functools.partial(cls, *args, **kwargs)
            self._made: Any = None

        def __getattr__(self, name: str) -> Any:
            method = getattr(cls, name)  # raises AttributeError
            if name.startswith("_") or not callable(method):
                message = f"{cls.__name__!r} has methods there, and no attribute {name!r} to read"
                raise AttributeError(message, name=name, obj=self)

            @functools.wraps(method)
            def call(*args: Any, **kwargs: Any) -> Any:
                if self._made is None:
                    self._made = self._make()
                return getattr(self._made, name)(*args, **kwargs)

            return ColocatedFunction(call)

    functools.update_wrapper(Colocated, cls, updated=())
    return Colocated
