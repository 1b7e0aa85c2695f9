"""The types of values as a family, under the names of `jax.core`.

Every type of weft is an `ArrayType`; `AbstractValue` is what programs written for JAX ask for where
they mean any type.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, MutableMapping, Set
from typing import Any, TypeAlias

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.core import types
from weft.core.effects import RefType
from weft.core.jaxpr import Var
from weft.core.types import ArrayType
from weft.ops.structural.extended_dtypes import physical_type

Effects: TypeAlias = Set[Any]
ParamDict: TypeAlias = dict[str, Any]
Value: TypeAlias = Any


class AbstractValue(abc.ABC):  # noqa: B024
    """Any type of a value; the types of arrays are its instances.

    >>> from weft.extend.core import AbstractValue
    >>> isinstance(weft.typeof(1.0), AbstractValue)
    True
    """

    __slots__ = ()


AbstractValue.register(ArrayType)
AbstractValue.register(RefType)


class AbstractToken(AbstractValue):
    """The type of a token: weft orders effects without, so no value has it."""

    __slots__ = ()


array_types: set[type] = {Array, np.ndarray, np.generic}


class TypeMapping(MutableMapping[type, Callable[[Any], Any]]):
    """Functions from values of a class to their types: the classes whose values are operands.

    >>> from weft.extend.core import pytype_aval_mappings
    >>> pytype_aval_mappings[float](1.0), str in pytype_aval_mappings
    (f32[]~, False)
    """

    def __getitem__(self, cls: type) -> Callable[[Any], Any]:
        if cls is Array:
            return types.type_of
        return types.types_by_class[cls]

    def __setitem__(self, cls: type, function: Callable[[Any], Any]) -> None:
        types.register_type_of(cls, function)

    def __delitem__(self, cls: type) -> None:
        del types.types_by_class[cls]

    def __iter__(self) -> Iterator[type]:
        yield Array
        yield from types.types_by_class

    def __len__(self) -> int:
        return len(types.types_by_class) + 1


pytype_aval_mappings = TypeMapping()


def physical_aval(aval: ArrayType) -> ArrayType:
    """The type of a value as it is stored: for random keys, that of their bits.

    Args:
        aval: The type as users see it.
    """
    return physical_type(aval)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """The dtype of tangents of values of a dtype: float0 for integers and booleans.

    Args:
        primal_dtype: The dtype of the values.
    """
    return dtypes.tangent_dtype(primal_dtype)


def gensym() -> Callable[[ArrayType], Var]:
    """A function that makes a new variable of a type."""
    return Var
