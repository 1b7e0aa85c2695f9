"""Effects: what an equation does besides computing its results (printing, calling the host).

An effect is a value in the `effects` of equations and jaxprs (see `core.rules.effects`).
Transformations keep every equation that has one, and run it as often as the user's function would.
Ordered effects also happen one after the other, in the order of the equations; there is one order
for all of them, because a user who asks for an order expects it between prints and other calls too.

A reference is a place that holds an array and can be written. Its type is that of the array, with a
name of its own in jaxprs, `Ref{f32[3]}`; what reads and writes it has the effects here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from weft.base.util import Immutable
from weft.core.types import ArrayType
from weft.errors import Fix, WeftTypeError


@dataclasses.dataclass(frozen=True, slots=True)
class Effect:
    """A kind of effect: its name, and whether it is ordered.

    Args:
        name: What the effect is called in texts of jaxprs.
        ordered: Whether equations that have it keep their order.
    """

    name: str
    ordered: bool = False

    def __str__(self) -> str:
        return f"ordered {self.name}" if self.ordered else self.name


# Printing does not change the results, so derivatives and batching need no rule for it.
DEBUG = Effect("debug")
ORDERED_DEBUG = Effect("debug", ordered=True)
# Input and output outside of the jaxpr.
IO = Effect("io")
ORDERED_IO = Effect("io", ordered=True)


def any_ordered(effects: Iterable[object]) -> bool:
    """Whether one of the effects is ordered.

    Args:
        effects: The effects of an equation or a jaxpr.
    """
    return any(isinstance(effect, Effect) and effect.ordered for effect in effects)


READ = Effect("read")
WRITE = Effect("write")
ACCUMULATE = Effect("accumulate")


class RefType(Immutable):
    """The type of a reference to an array of the type `inner`.

    `memory_space` and `kind` are for programs that say them: weft has one memory for references.

    Args:
        inner_aval: The type of the array.

    >>> from weft.ref import AbstractRef
    >>> AbstractRef(weft.typeof(jnp.ones(3)))
    Ref{f32[3]}
    >>> weft.typeof(weft.new_ref(jnp.ones(3))).inner_aval
    f32[3]
    """

    __slots__ = ("__weakref__", "inner", "kind", "memory_space")

    def __init__(
        self, inner_aval: ArrayType, memory_space: Any = None, kind: str | None = None
    ) -> None:
        if not isinstance(inner_aval, ArrayType):
            message = "the type of a reference is made from the type of an array"
            fix = Fix("typeof", "pass weft.typeof(x)")
            got, wanted = f"{inner_aval!r:.100}", "a type such as f32[3]"
            raise WeftTypeError(message, operation="AbstractRef", got=got, wanted=wanted, fix=fix)
        self.inner = inner_aval
        self.memory_space = memory_space
        self.kind = kind

    @property
    def inner_aval(self) -> ArrayType:
        """The type of the array."""
        return self.inner

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each dimension."""
        return self.inner.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self.inner.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.inner.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.inner.size

    @property
    def weak_type(self) -> bool:
        """Whether the dtype came from a Python number and gives way to others."""
        return self.inner.weak_type

    @property
    def varying(self) -> frozenset[str]:
        """The manual mesh axes along which devices may hold different values."""
        return self.inner.varying

    @property
    def unreduced(self) -> frozenset[str]:
        """The manual mesh axes along which each device holds a term of a pending sum."""
        return self.inner.unreduced

    def update(self, **changes: Any) -> RefType:
        """The same type with some fields of the array's type changed."""
        return RefType(self.inner.update(**changes), self.memory_space, self.kind)

    def __eq__(self, other: object) -> bool:
        return type(other) is RefType and other.inner is self.inner

    def __hash__(self) -> int:
        return hash((RefType, self.inner))

    def __str__(self) -> str:
        return f"Ref{{{self.inner}}}"

    __repr__ = __str__


def is_reference(kind: Any) -> bool:
    """Whether a type is that of a reference."""
    return type(kind) is RefType
