"""Attributes and names that JAX's classes have for JAX itself, and that libraries read."""

from __future__ import annotations

from typing import Any

from weft.core.operators import ArrayOperators
from weft.define.for_jax.jax_names import add_names
from weft.dispatch import jitted
from weft.numpy.joining import split
from weft.sharding import Sharding

__all__ = ["add_private_attributes"]

_NAME_OF_JITTED = "PjitFunction"


def _device_assignment(sharding: Sharding) -> tuple[Any, ...]:
    """The devices, in the order of their positions."""
    return sharding.device_list


def _addressable_device_assignment(sharding: Sharding) -> tuple[Any, ...]:
    """Those of the devices that belong to this process, in the order of their positions."""
    addressable = sharding.addressable_devices
    return tuple(device for device in sharding.device_list if device in addressable)


def _split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """`split`, which copies of `jacfwd` and `jacrev` call as a method."""
    return split(x, indices_or_sections, axis)


_OF_SHARDINGS = {
    f.__name__: property(f) for f in (_device_assignment, _addressable_device_assignment)
}


def add_private_attributes() -> None:
    """Gives weft's classes these attributes."""
    add_names({Sharding: _OF_SHARDINGS, ArrayOperators: {_split.__name__: _split}})
    # Pickle finds a method by this name, in this module.
    _split.__qualname__ = f"{ArrayOperators.__name__}.{_split.__name__}"
    # Libraries recognise what `jit` returns by the name of its class (haiku and chex refuse it).
    # The module holds the class by this name too, where what was pickled looks for it.
    setattr(jitted, _NAME_OF_JITTED, jitted.Jitted)
    jitted.Jitted.__name__ = jitted.Jitted.__qualname__ = _NAME_OF_JITTED
