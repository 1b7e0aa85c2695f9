"""Trees of arrays as one vector, and back: `ravel_pytree`."""

from __future__ import annotations

import dataclasses
from typing import Any

from weft import numpy as jnp
from weft.api.gradient_arguments import operands
from weft.arrays.array import Array
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, api_boundary
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import reshape


@api_boundary
def ravel_pytree(pytree: Any) -> tuple[Array, Unravel]:
    """The elements of a tree's arrays one after the other, and the function that goes back.

    Returns `(flat, unravel)`: a vector of the dtype to which those of all leaves promote, and a
    function that makes a tree with the structure, shapes and dtypes of `pytree` of any vector of
    that length. Where the leaves have different dtypes, `unravel` takes no other dtype than that of
    `flat`. Of complex numbers it keeps the real part where a leaf was real.

    Raises WeftTypeError for leaves that are not arrays; `unravel` raises ShapeError or DTypeError.

    >>> from weft.flatten_util import ravel_pytree
    >>> flat, unravel = ravel_pytree({"w": jnp.ones((2, 2)), "b": jnp.zeros(1)})
    >>> flat, unravel(flat * 2)["b"]
    (Array([0., 1., 1., 1., 1.], dtype=float32), Array([0.], dtype=float32))
    """
    leaves, structure = operands(pytree, "ravel_pytree")
    types = tuple([type_of(x) for x in leaves])
    if not leaves:
        return jnp.zeros(0), Unravel(structure, types, None)
    dtype = jnp.result_type(*leaves)
    rows = [reshape(convert_element_type(x, dtype), (type_of(x).size,)) for x in leaves]
    flat = rows[0] if len(rows) == 1 else concatenate(rows, 0)
    mixed = any(of.dtype != dtype for of in types)
    return flat, Unravel(structure, types, dtype if mixed else None)


@dataclasses.dataclass(frozen=True)
class Unravel:
    """The function from a vector to a tree; equal ones are equal as static arguments.

    dtype: the one that the vector has to have, None for any.
    """

    structure: Any
    types: tuple[ArrayType, ...]
    dtype: Any

    def __call__(self, flat: Any) -> Any:
        """The tree of a vector's elements."""
        length = sum(of.size for of in self.types)
        value = user_value(flat)
        of = type_of(value)
        if of.shape != (length,):
            message = f"unravel takes a vector of the length {length}"
            fix = Fix("shape", f"pass a vector of shape {(length,)}", {"shape": (length,)})
            wanted = f"shape {(length,)}"
            raise ShapeError(message, operation="unravel", got=str(of), wanted=wanted, fix=fix)
        if self.dtype is not None and of.dtype != self.dtype:
            message = f"unravel takes a vector of dtype {self.dtype}, and got one of {of.dtype}"
            fix = Fix("convert", f"convert it to {self.dtype}", {"dtype": self.dtype})
            wanted = str(self.dtype)
            raise DTypeError(message, operation="unravel", got=str(of), wanted=wanted, fix=fix)
        leaves, start = [], 0
        for one in self.types:
            part = value[start : start + one.size] if len(self.types) > 1 else value
            start += one.size
            leaves.append(self.leaf(reshape(part, one.shape), one))
        return self.structure.unflatten(leaves)

    def leaf(self, value: Any, of: ArrayType) -> Any:
        """The value in the dtype that its leaf had; without mixed dtypes it keeps its own."""
        if self.dtype is None or of.dtype == self.dtype:
            return value
        if self.dtype.kind == "c" and of.dtype.kind != "c":
            value = value.real
        return convert_element_type(value, of.dtype)
