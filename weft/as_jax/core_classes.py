"""The names of `jax.core` and `jax.extend.core` whose objects in weft are made in another way.

They are made as JAX's are here, and each counts as the class of weft: what weft returns is an
instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core.effects import Effect as OwnEffect
from weft.core.jaxpr import Atom, Equation, Var
from weft.core.jaxpr import Jaxpr as OwnJaxpr
from weft.define.for_jax.foreign_traces import ForeignTrace as Trace
from weft.define.for_jax.foreign_traces import (
    axis_names_in_force as unsafe_get_axis_names_DO_NOT_USE,
)
from weft.define.for_jax.foreign_traces import has_axis_names as nonempty_axis_env_DO_NOT_USE
from weft.define.for_jax.foreign_traces import under_jit as unsafe_am_i_under_a_jit_DO_NOT_USE
from weft.define.for_jax.foreign_traces import under_vmap as unsafe_am_i_under_a_vmap_DO_NOT_USE
from weft.define.for_jax.unchecked_primitive import UncheckedPrimitive as Primitive

__all__ = [
    "CallPrimitive", "Effect", "Jaxpr", "Primitive", "Token", "Trace", "call_impl",
    "is_constant_dim", "is_constant_shape", "max_dim", "min_dim", "nonempty_axis_env_DO_NOT_USE",
    "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
]  # fmt: skip


class _CountsAs(type):
    """A class of which every instance of weft's own class counts as one."""

    own: type

    def __instancecheck__(cls, value: object) -> bool:
        own = vars(cls).get("own")  # not in subclasses, whose instances are those of a program
        return type.__instancecheck__(cls, value) or own is not None and isinstance(value, own)


class JaxprOfParts(metaclass=_CountsAs):
    """Makes a jaxpr of its parts in JAX's order."""

    own = OwnJaxpr

    def __new__(  # type: ignore[misc]
        cls,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[Equation],
        effects: Any = None,
        debug_info: Any = None,
        is_high: bool = False,
    ) -> OwnJaxpr:
        """The jaxpr; its effects are those of its equations."""
        name = "" if debug_info is None else debug_info.func_name
        return OwnJaxpr([*constvars, *invars], eqns, outvars, len(constvars), name)


class EffectOfProgram(metaclass=_CountsAs):
    """What an operation does besides computing; a class of effects inherits from this."""

    own = OwnEffect


Jaxpr, Effect = JaxprOfParts, EffectOfProgram


class CallPrimitive(Primitive):
    """A primitive that is applied to a function: several results."""

    __slots__ = ()

    call_primitive = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.multiple_results = True


class Token:
    """Holds a buffer to wait for."""

    def __init__(self, buf: Any) -> None:
        self._buf = buf

    def block_until_ready(self) -> None:
        """Waits for the buffer."""
        self._buf.block_until_ready()


def call_impl(f: Any, *args: Any, **params: Any) -> Any:
    """Runs a wrapped function on its arguments."""
    return f.call_wrapped(*args)


def is_constant_dim(d: Any) -> bool:
    """Whether a length is a number, and no expression of symbols."""
    return isinstance(d, (int, np.integer))


def is_constant_shape(s: Sequence[Any]) -> bool:
    """Whether all lengths of a shape are numbers."""
    return all(map(is_constant_dim, s))


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two lengths."""
    return max(d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two lengths."""
    return min(d1, d2)
