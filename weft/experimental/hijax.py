"""A program's own types and primitives, in addition to arrays, as flax.nnx declares them.

A `HiPrimitive` is applied to any values where nothing is traced: then its `impl` runs. In weft
every traced value is an array, so under a transformation it raises WeftNotImplementedError; so do
the parts of a `HiType` that say how its values are lowered to arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.base.facades import public_names
from weft.core.effects import RefType as AbstractRef
from weft.core.primitive import Primitive
from weft.core.rules import Zero
from weft.core.trace import current_trace
from weft.core.types import ArrayType as ShapedArray
from weft.define.for_jax.abstract_values import AbstractValue
from weft.define.for_jax.derivative_rules import instantiate_zeros, is_undefined_primal
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, api_boundary
from weft.lowering.eval_trace import EvalTrace

__all__ = [
    "AbstractRef", "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiPspec", "HiType",
    "MutableHiType", "ShapedArray", "VJPHiPrimitive", "Zero", "aval_method", "aval_property",
    "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros", "is_undefined_primal",
    "register_hitype",
]  # fmt: skip

__dir__ = public_names(globals())


def not_traced_error(what: str, operation: str) -> WeftNotImplementedError:
    """The error for an operation that would need traced values that are not arrays."""
    message = f"{what}: values of types of the program's own are not traced"
    wanted = "arrays under transformations"
    fix = Fix("arrays", "pass the arrays that the value holds, as a pytree")
    return WeftNotImplementedError(message, operation=operation, wanted=wanted, fix=fix)


class aval_property(NamedTuple):
    """A property of traced values of a type, declared in the class of the type.

    Args:
        fget: From the traced value to the property.
    """

    fget: Callable[[Any], Any]


class aval_method(NamedTuple):
    """A method of traced values of a type, declared in the class of the type.

    Args:
        fun: The method, whose first argument is the traced value.
    """

    fun: Callable[..., Any]


class AllowedEffects:
    """The classes of effects that loops and branches may have: weft allows all."""

    def __init__(self) -> None:
        self._types: list[type] = []

    def add_type(self, effect_type: type) -> None:
        """Adds a class of effects."""
        self._types.append(effect_type)

    def contains(self, effect: Any) -> bool:
        """Whether an effect is of a class that was added, or made by weft."""
        return isinstance(effect, tuple(self._types)) or type(effect).__module__.startswith("weft")


control_flow_allowed_effects = AllowedEffects()


@dataclasses.dataclass(frozen=True)
class AvalQDD:
    """The type of a mutable value, and what is known about its contents (`qdd`).

    Args:
        aval: The type of the value.
    """

    aval: Any
    qdd: Any

    is_high = True
    has_qdd = True

    def to_tangent_aval(self) -> AvalQDD:
        """The type of its tangent."""
        array = isinstance(self.aval, ShapedArray)
        tangent = self.aval.tangent() if array else self.aval.to_tangent_aval()
        return AvalQDD(tangent, self.qdd and self.qdd.to_tangent_qdd())


@dataclasses.dataclass(frozen=True)
class AvalMutableQDD:
    """The type of a mutable value, and the place where what is known of its contents is kept.

    Args:
        aval: The type of the value.
        mutable_qdd: The place for what is known of its contents.
    """

    aval: Any
    mutable_qdd: Any


class HiType(AbstractValue):
    """The type of values of one of the program's own classes; a subclass says what it needs."""

    __slots__ = ()

    is_high = True
    has_qdd = False

    def _undefined_error(self, method: str) -> WeftNotImplementedError:
        return not_traced_error(f"{type(self).__name__}.{method} is not defined", method)

    def lo_ty(self) -> list[Any]:
        """The types of the arrays that stand for a value."""
        raise self._undefined_error("lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that stand for a value."""
        raise self._undefined_error("lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that the arrays stand for."""
        raise self._undefined_error("raise_val")

    def to_tangent_aval(self) -> Any:
        """The type of a tangent."""
        raise self._undefined_error("to_tangent_aval")

    def to_ct_aval(self) -> Any:
        """The type of a cotangent: that of a tangent."""
        return self.to_tangent_aval()


class MutableHiType(HiType):
    """The type of values that a program changes in place."""

    __slots__ = ()

    has_qdd = True

    def type_state(self) -> Any:
        """What is known of the contents."""
        raise self._undefined_error("type_state")

    def to_tangent_aval(self) -> Any:
        """The type of a tangent."""
        raise self._undefined_error("to_tangent_aval")


class HiPspec:
    """How values of a type are split over a mesh; a subclass says it."""

    def to_lo(self) -> Any:
        """The specs of the arrays that stand for a value."""
        raise not_traced_error(f"{type(self).__name__}.to_lo is not defined", "to_lo")


class HiPrimitive(Primitive):
    """An operation on values of any classes: a subclass defines `impl`, which runs where nothing is
    traced.

    Args:
        name: What the operation is called in messages.

    >>> from weft.experimental.hijax import HiPrimitive
    >>> class Joined(HiPrimitive):
    ...     def impl(self, *words, by):
    ...         return by.join(words)
    >>> Joined("joined").bind("a", "b", by="-")
    'a-b'
    """

    multiple_results = False

    def __init__(self, name: str) -> None:
        several = type(self).multiple_results is True
        super().__init__(name, several, memoise=False)

    def is_high(self, *avals: Any, **params: Any) -> bool:
        """Whether operands are of types of the program's own."""
        return True

    def is_effectful(self, params: dict[str, Any]) -> bool:
        """Whether it does anything other than computing its result."""
        return False

    def impl(self, *args: Any, **params: Any) -> Any:
        """The result, of values."""
        raise not_traced_error(f"the primitive {self.name!r} does not define impl", self.name)

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive. Raises WeftNotImplementedError under a transformation."""
        trace = current_trace()
        if not isinstance(trace, EvalTrace):
            raise not_traced_error(f"the primitive {self.name!r} under {trace.name}", self.name)
        return self.impl(*args, **params)


class VJPHiPrimitive:
    """An operation with rules of its own for every transformation: not there yet. Declaring one is
    possible; applying it raises WeftNotImplementedError."""

    def __call__(self, *args: Any) -> Any:
        raise not_traced_error(f"{type(self).__name__} is a VJPHiPrimitive", type(self).__name__)


_types: dict[type, Callable[[Any], Any]] = {}


@api_boundary
def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Sets the function that returns the type of values of a class.

    Raises WeftTypeError for anything that is neither a class nor a function.

    Args:
        val_cls: The class.
        typeof_fn: From a value of the class to its type.
    """
    if not isinstance(val_cls, type) or not callable(typeof_fn):
        message = "register_hitype takes a class and a function from its values to their types"
        fix = Fix("register", "write register_hitype(Class, function)")
        raise WeftTypeError(message, got=f"{val_cls!r:.100} and {typeof_fn!r:.100}", fix=fix)
    _types[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """What is known of the contents of a mutable value of a registered class.

    Raises WeftNotImplementedError for a value that is not of such a class.

    Args:
        x: A value of a registered class.
    """
    if type(x) not in _types:
        raise not_traced_error(f"cur_qdd of a {type(x).__name__}", "cur_qdd")
    return x.cur_qdd()
