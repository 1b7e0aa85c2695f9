"""The functions of references, as `weft.ref` and `weft` show them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.shape_struct import described_type
from weft.errors import Fix, WeftTypeError, api_boundary
from weft.ops.indexing.creation import full
from weft.refs.reference import Ref, end, new_ref


def _check_ref(ref: Any, operation: str) -> Ref:
    if type(ref) is Ref:
        return ref
    message = f"{operation} takes a reference"
    got = f"{ref!r:.100} of class {type(ref).__name__}"
    fix = Fix("new_ref", "make one: weft.new_ref(x)")
    raise WeftTypeError(message, operation=operation, got=got, wanted="a reference", fix=fix)


def _index(idx: Any) -> Any:
    return ... if idx is None else idx


@api_boundary
def get(ref: Ref, idx: Any = None) -> Any:
    """The part of the array of a reference at an index: `ref[idx]`; all of it without one.

    ref: the reference; idx: what an array could be indexed with; None for all of it.

    >>> weft.ref.get(weft.new_ref(jnp.arange(3)), 1)
    Array(1, dtype=int32)
    """
    return _check_ref(ref, "get")[_index(idx)]


@api_boundary
def set(ref: Ref, idx: Any, value: Any) -> None:
    """Writes a part of a reference: `ref[idx] = value`.

    Args:
        ref: The reference.
        idx: What an array could be indexed with; None for all of it.
        value: The new elements, of a shape that broadcasts to that of the part.

    >>> x = weft.new_ref(jnp.arange(3))
    >>> weft.ref.set(x, 1, 5)
    >>> x
    Ref([0, 5, 2], dtype=int32)
    """
    _check_ref(ref, "set")[_index(idx)] = value


@api_boundary
def swap(ref: Ref, idx: Any, value: Any) -> Any:
    """Writes a part of a reference, and returns what it held.

    Args:
        ref: The reference.
        idx: What an array could be indexed with; None for all of it.
        value: The new elements, of a shape that broadcasts to that of the part.

    >>> x = weft.new_ref(jnp.arange(3))
    >>> weft.ref.swap(x, 1, 5), x
    (Array(1, dtype=int32), Ref([0, 5, 2], dtype=int32))
    """
    return _check_ref(ref, "swap").swap(value, _index(idx))


@api_boundary
def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Adds to a part of a reference; where an index names an element twice, both are added.

    Args:
        ref: The reference.
        idx: What an array could be indexed with; None for all of it.
        x: What is added, of a shape that broadcasts to that of the part.

    >>> x = weft.new_ref(jnp.zeros(2))
    >>> weft.ref.addupdate(x, jnp.array([0, 0]), 1.0)
    >>> x
    Ref([2., 0.], dtype=float32)
    """
    _check_ref(ref, "addupdate").addupdate(x, _index(idx))


@api_boundary
def freeze(ref: Ref) -> Any:
    """The array of a reference, which cannot be used any more. Raises WeftValueError if the
    reference comes from outside of the function that is being traced.

    ref: the reference; in a traced function, one that this function has made.

    >>> x = weft.new_ref(jnp.zeros(2))
    >>> x[0] = 1.0
    >>> weft.freeze(x)
    Array([1., 0.], dtype=float32)
    """
    return end(_check_ref(ref, "freeze"), "frozen")


@api_boundary
def free_ref(ref: Ref) -> None:
    """Ends a reference, so that its memory can be used again. Errors are those of `freeze`.

    ref: the reference; in a traced function, one that this function has made.

    >>> weft.free_ref(weft.new_ref(jnp.zeros(2)))
    """
    end(_check_ref(ref, "free_ref"), "freed")


@api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference to an array of a type (a `ShapeDtypeStruct`, or what `weft.typeof` returns). It
    holds zeros, because XLA's programs leave no memory unwritten.

    ty: has a shape and a dtype; memory_space: accepted for programs that pass it, without effect.

    >>> weft.empty_ref(weft.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    of = described_type(ty) if not hasattr(ty, "varying") else ty
    return new_ref(full(of.shape, np.zeros((), of.dtype)[()], of.dtype), memory_space=memory_space)
