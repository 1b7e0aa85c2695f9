"""Values that stand for an array without being one: classes with a method `__weft_array__`.

Classes written for JAX have `__jax_array__`, and are known from the first use of a value on.

Such a value is an operand like any other. A primitive that is applied to it first calls the method
under the current trace, so the computation of the array is differentiated, mapped and recorded as
any other. No trace and no rule ever gets such a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from weft.core.operators import ArrayOperators, let_reflect
from weft.core.types import ArrayType, Typed, learn_class, type_of, values_of_class
from weft.errors import ArrayProtocolError, Fix, WeftTypeError

C = TypeVar("C", bound=type)

# The classes whose values stand for an array. Applying a primitive first checks whether there are
# any, which is all that programs without such a class pay.
array_values: set[type] = set()


class ArrayValue(Typed, ArrayOperators[Any]):
    """A value that functions of `weft.numpy` and `weft.lax` accept as the array that it stands for.

    A subclass defines `__weft_array__(self)`, which returns an array (or a NumPy array, or a
    number) of the same shape and dtype each time, computed from the value's contents by functions
    of weft. It should also define the property `type` (an `ArrayType`), which otherwise is worked
    out by computing the array. From this class it has the operators and methods of an array, with
    arrays on either side. Where a subclass defines an operator in its own way (`__matmul__`, or
    `__rmatmul__` for arrays on the left), that one runs and no array is made; functions
    (`jnp.matmul`) take the array.

    Arguments and results of transformed functions are trees. A class registered as a node
    (`weft.tree_util.register_dataclass`, say) goes in and out as itself, and its contents are
    traced; one that is not registered becomes the array it stands for.

    Operators compare elementwise: a dataclass must say `eq=False`.

    Raises ArrayProtocolError, naming the class, if `__weft_array__` returns something that is not
    an array, or an array of another type than `type` says.

    >>> class Repeated(ArrayValue):
    ...     def __init__(self, value, length):
    ...         self.value, self.length = value, length
    ...
    ...     def __weft_array__(self):
    ...         return jnp.full(self.length, self.value, "float32")
    >>> jnp.sum(Repeated(2.0, 3)) + 1
    Array(7., dtype=float32)
    >>> jnp.arange(3) + Repeated(2.0, 3)
    Array([2., 3., 4.], dtype=float32)
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_array_value(cls)

    def __weft_array__(self) -> Any:
        """Returns the array that this value stands for; defined by each subclass."""
        raise NotImplementedError(f"{type(self).__name__} does not define __weft_array__")

    @property
    def type(self) -> ArrayType:  # type: ignore[override]
        """The type of the array."""
        return type_of(_asked(self))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return _asked(self).__array__(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(_asked(self))

    def __bool__(self) -> bool:
        return bool(_asked(self))

    def __int__(self) -> int:
        return int(_asked(self))

    def __float__(self) -> float:
        return float(_asked(self))

    def __complex__(self) -> complex:
        return complex(_asked(self))

    def __index__(self) -> int:
        return int(_asked(self).__index__())

    def item(self, *index: int) -> Any:
        """The element as a Python number (an error unless the value is known)."""
        return _asked(self).item(*index)

    def tolist(self) -> Any:
        """The elements as nested lists (an error unless the value is known)."""
        return _asked(self).tolist()


def register_array_value(cls: C) -> C:
    """Makes the values of a class operands: the class has `__weft_array__` and cannot inherit from
    `ArrayValue`, which registers its subclasses. May be used as a decorator.

    The operators that the class defines take precedence over those of arrays; it gets no others.
    Functions of `weft.numpy` and `weft.lax` take its values. Subclasses are registered for
    themselves. Raises WeftTypeError for a class without the method.

    >>> @register_array_value
    ... class Unit:
    ...     def __weft_array__(self):
    ...         return jnp.ones(2)
    >>> jnp.add(Unit(), 1)
    Array([2., 2.], dtype=float32)
    """
    if not callable(getattr(cls, "__weft_array__", None)):
        raise WeftTypeError(
            f"register_array_value: the class {cls.__name__} has no method __weft_array__",
            operation="register_array_value",
            got=f"the class {cls.__qualname__}",
            wanted="a class whose __weft_array__(self) returns an array",
            fix=Fix("define", "define __weft_array__", {"class": cls.__name__}),
        )
    array_values.add(cls)
    values_of_class[cls] = array_of_value
    let_reflect(cls)
    return cls


def _learn(cls: type) -> Callable[[Any], Any]:
    """Registers a class written for JAX, with the method `__jax_array__`."""
    array_values.add(cls)
    values_of_class[cls] = array_of_value
    return array_of_value


learn_class.append(_learn)


def array_of_value(value: Any) -> Any:
    """The array of a value of a registered class; any other value as it is. Raises
    ArrayProtocolError, naming the class, if `__weft_array__` returns no array."""
    return _asked(value) if type(value) in array_values else value


def as_operands(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a primitive, with arrays in place of the values of such classes."""
    if array_values.isdisjoint(map(type, args)):
        return args
    return tuple([array_of_value(value) for value in args])


def _asked(value: Any) -> Any:
    name = type(value).__name__
    own = getattr(value, "__weft_array__", None)
    out = own() if own is not None else value.__jax_array__()
    if type(out) in array_values:
        if out is value:
            raise _wrong(name, "returned the value itself", value)
        out = array_of_value(out)
    try:
        of = type_of(out)
    except WeftTypeError:
        raise _wrong(name, f"returned a value of class {type(out).__name__}", out) from None
    declared = getattr(type(value), "type", None)
    # Classes written for JAX may mean something else by `type`.
    if own is not None and declared is not None and declared is not ArrayValue.type:
        stated = value.type
        if (stated.shape, stated.dtype) != (of.shape, of.dtype):
            raise ArrayProtocolError(
                f"{name}.__weft_array__ returned an array of another type than {name}.type says",
                operation=f"{name}.__weft_array__",
                got=str(of),
                wanted=str(stated),
                fix=Fix("same_type", "let both have the same shape and dtype", {"class": name}),
            )
    return out


def _wrong(name: str, what: str, value: Any) -> ArrayProtocolError:
    message = f"{name}.__weft_array__ {what}, which is no array"
    got = f"{value!r:.100}" if type(value) not in array_values else f"a {name}"
    wanted = "an array, a NumPy array or a number"
    fix = Fix("return_array", "return an array that is computed with weft.numpy", {"class": name})
    return ArrayProtocolError(
        message, operation=f"{name}.__weft_array__", got=got, wanted=wanted, fix=fix
    )
