"""Classes whose values `vmap` takes apart and puts together by functions of the user's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import tree
from weft.arrays.conversion import as_array
from weft.core.trace import current_trace
from weft.core.types import type_of
from weft.interpreters.vmap import BatchTrace


@dataclasses.dataclass(frozen=True)
class Vmappable:
    """The functions of one class."""

    axis_size_type: type
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]
    make_iota: Callable[[int], Any] | None


vmappables: dict[type, Vmappable] = {}
# The classes of entries of in_axes and out_axes for their values.
spec_types: set[type] = set()


class VmappableValue:
    """A value of a registered class as a leaf, even if its class is a node."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def lengths(self, spec: Any) -> list[int]:
        """The lengths of the mapped axis, if the value has a shape that says it."""
        shape = getattr(self.value, "shape", ())
        found = isinstance(spec, int) and -len(shape) <= spec < len(shape)
        return [shape[spec]] if found else []


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[[int], Any] | None = None,
) -> None:
    """Lets `vmap` take values of a class as wholes, given how they are taken apart.

    Entries of `in_axes` and `out_axes` for them are of the class `spec_type`. `to_elt(cont,
    get_index, value, spec)` makes the value that the function sees for one element, where
    `cont(x, spec)` is the element of an array (or of another registered value) and `get_index()`
    the index of the element. `from_elt(cont, axis_size, element, spec)` puts results together,
    where `cont(axis_size, x, spec)` is the array of all elements. `make_iota(axis_size)` gives the
    indices, in place of integers that count from 0. `axis_size_type` is the class of lengths of the
    axis, which are integers in weft. Values without a `shape` do not say how long the axis is:
    `vmap` then takes it from its other arguments, or from `axis_size`.

    Args:
        data_type: The class of the values.
        to_elt: Makes the value for one element.
        from_elt: Makes the value of all elements.
        make_iota: Makes the indices; None for integers.
        spec_type: The class of entries of `in_axes` and `out_axes` for these values.
        axis_size_type: The class of lengths of the axis: int.

    >>> import dataclasses
    >>> from weft.extend.interpreters import batching
    >>> @dataclasses.dataclass
    ... class Scaled:
    ...     array: Any
    ...     scale: float
    >>> batching.register_vmappable(
    ...     Scaled,
    ...     int,
    ...     int,
    ...     lambda cont, index, x, axis: Scaled(cont(x.array, axis), x.scale),
    ...     lambda cont, size, x, axis: Scaled(cont(size, x.array, axis), x.scale),
    ... )
    >>> total = weft.vmap(lambda x: Scaled(x.array.sum(), x.scale), axis_size=2)
    >>> out = total(Scaled(jnp.ones((2, 3)), 5.0))
    >>> print(out.array, out.scale)
    [3. 3.] 5.0
    >>> batching.unregister_vmappable(Scaled)
    """
    vmappables[data_type] = Vmappable(axis_size_type, to_elt, from_elt, make_iota)
    spec_types.add(spec_type)


def unregister_vmappable(data_type: type) -> None:
    """Lets `vmap` map the values of a class as trees again; classes that are not registered
    are passed by.

    Args:
        data_type: The class of the values.
    """
    vmappables.pop(data_type, None)


def is_vmappable(x: Any) -> bool:
    """Whether a value is of a class that was registered by `register_vmappable`.

    Args:
        x: Any value.
    """
    return type(x) in vmappables


def closed(values: Any) -> Any:
    """The tree with the values of registered classes as leaves."""
    if not vmappables:
        return values
    leaves, structure = tree.flatten(values, is_leaf=is_vmappable)
    return structure.unflatten([VmappableValue(x) if is_vmappable(x) else x for x in leaves])


def element(value: Any, spec: Any) -> Any:
    """A value as the mapped function, which runs now, sees it for one element."""
    trace = current_trace()
    assert isinstance(trace, BatchTrace)

    def of(x: Any, spec: Any) -> Any:
        registered = vmappables.get(type(x))
        if registered is None:
            return x if spec is None else trace.box(x, spec % type_of(x).ndim)
        index = functools.cache(lambda: trace.box(_indices(registered, trace.axis.size), 0))
        return registered.to_elt(of, index, x, spec)

    return of(value.value, spec)


def _counting(size: int) -> Any:
    return as_array(np.arange(size, dtype=np.int32))


def _indices(registered: Vmappable, size: int) -> Any:
    return (registered.make_iota or _counting)(size)


def whole(value: Any, spec: Any, move: Callable[[Any, int | None, Any, int], Any]) -> Any:
    """The result of `vmap` for a value computed for one element by the function that runs now.
    `move(array, dim, spec, size)` brings the mapped dimension of an array to its place."""
    trace = current_trace()
    assert isinstance(trace, BatchTrace)

    def of(size: int, x: Any, spec: Any) -> Any:
        registered = vmappables.get(type(x))
        if registered is not None:
            return registered.from_elt(of, size, x, spec)
        return move(*trace.unbox(x), spec, size)

    return of(trace.axis.size, value.value, spec)
