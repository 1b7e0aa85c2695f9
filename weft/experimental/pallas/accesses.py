"""Reading and writing references in kernels: with masks, past the end, and all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import dtypes, tree
from weft.core.types import type_of
from weft.errors import api_boundary
from weft.experimental.pallas.blocks import unwritten_value
from weft.ops.indexing.slicing import pad
from weft.refs import index as indexing
from weft.refs.views import RefView


def _slice_padding(ref: Any, idx: Any) -> list[tuple[int, int, int]] | None:
    """Padding that lets a slice begin at any element; None if no slice begins at a traced
    number."""
    found = indexing.windows(idx, ref.shape)[0]
    if not found:
        return None
    extents = {dim: part.extent for dim, part in found}
    return [(0, extents.get(dim, 0), 0) for dim in range(ref.ndim)]


def _resolve(ref: Any, idx: Any) -> tuple[Any, Any]:
    """The reference and the composed index of a part of a part."""
    whole = idx is None or idx is Ellipsis
    if whole and isinstance(ref, RefView):
        return ref.base, ref.index
    return ref, ... if whole else idx


def _read(ref: Any, idx: Any) -> Any:
    ref, idx = _resolve(ref, idx)
    widths = _slice_padding(ref, idx)
    if widths is None:
        return ref[idx]
    return indexing.read(pad(ref[...], unwritten_value(ref.dtype), widths), idx)


def _exchange(ref: Any, idx: Any, change: Callable[[Any], Any]) -> Any:
    """Replaces the part at an index by `change` of it, and returns the old one."""
    ref, idx = _resolve(ref, idx)
    widths = _slice_padding(ref, idx)
    if widths is None:
        before = ref[idx]
        ref[idx] = change(before)
        return before
    whole = pad(ref[...], unwritten_value(ref.dtype), widths)
    before = indexing.read(whole, idx)
    whole = indexing.update_at(whole, idx, change(before), "set")
    ref[...] = pad(whole, unwritten_value(ref.dtype), [(0, -extra, 0) for _, extra, _ in widths])
    return before


def _like(value: Any, part: Any) -> Any:
    """The values to write, with Python numbers in the part's dtype."""
    of = type_of(value)
    if of.dtype != part.dtype and of.weak_type:
        return jnp.asarray(value, part.dtype)
    return value


@api_boundary
def load(
    x_ref_or_view: Any,
    idx: Any,
    *,
    mask: Any = None,
    other: Any = None,
    cache_modifier: Any = None,
    eviction_policy: Any = None,
    volatile: bool = False,
) -> Any:
    """The part of a reference at an index; `other` where `mask` is False.

    A slice with a traced start may reach past the end: it then reads the values of unwritten
    memory.

    Args:
        cache_modifier, eviction_policy, volatile: Has no meaning in an interpreted kernel.
        mask: Which elements are read, as booleans of the shape of the part; None for all.
        other: The value of elements that are not read.

    >>> from weft.experimental import pallas as pl
    >>> pl.load(weft.new_ref(jnp.arange(3)), slice(0, 2), mask=np.array([True, False]), other=7)
    Array([0, 7], dtype=int32)
    """
    found = _read(x_ref_or_view, idx)
    return found if mask is None or other is None else jnp.where(mask, found, _like(other, found))


@api_boundary
def swap(
    x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None, eviction_policy: Any = None
) -> Any:
    """Writes the part of a reference at an index where `mask` is True, and returns what it was.

    What a slice with a traced start has past the end is not written.

    Args:
        eviction_policy: Has no meaning in an interpreted kernel.
        mask: Which elements are written, as booleans of the shape of the part; None for all.
    """

    def change(before: Any) -> Any:
        return val if mask is None else jnp.where(mask, _like(val, before), before)

    before = _exchange(x_ref_or_view, idx, change)
    return before if mask is None else jnp.where(mask, before, _like(val, before))


@api_boundary
def store(
    x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None, eviction_policy: Any = None
) -> None:
    """Writes the part of a reference at an index, where `mask` is True.

    Args:
        eviction_policy: Has no meaning in an interpreted kernel.
        mask: Which elements are written, as booleans of the shape of the part; None for all.

    >>> from weft.experimental import pallas as pl
    >>> x = weft.new_ref(jnp.arange(3))
    >>> pl.store(x, slice(0, 2), jnp.array([7, 8]), mask=np.array([False, True]))
    >>> x[...]
    Array([0, 8, 2], dtype=int32)
    """
    swap(x_ref_or_view, idx, val, mask=mask)


def load_all(ref: Any, *, mask: Any = None, other: Any = None, **_: Any) -> Any:
    """Reads a reference, or a part of one (`ref.at[i]`); gives `other` where `mask` is False.

    Args:
        ref: The reference.
        _: Further arguments of JAX's function, which have no meaning here.
        mask: Which elements are read, as booleans of the reference's shape; None for all.
        other: The value of elements that are not read.
    """
    return load(ref, ..., mask=mask, other=other)


def store_all(ref: Any, val: Any, *, mask: Any = None, **_: Any) -> None:
    """Writes a reference, or a part of one (`ref.at[i]`), where `mask` is True.

    Args:
        ref: The reference.
        val: What is written, in the shape of the reference.
        _: Further arguments of JAX's function, which have no meaning here.
        mask: Which elements are written, as booleans of the reference's shape; None for all.
    """
    store(ref, ..., val, mask=mask)


def copy(src: Any, dst: Any, add: bool = False) -> None:
    """Writes what one reference holds into another, or adds it."""
    for source, target in zip(tree.leaves(src), tree.leaves(dst), strict=True):
        target[...] = target[...] + source[...] if add else source[...]


# ---- several kernels at once: in an interpreted kernel, one after the other ----------------------


def _combine_repeated(
    ref: Any, idx: Any, val: Any, mask: Any, method: str, neutral: Callable[[Any], Any]
) -> Any:
    """Combines values with the part of a reference; an index may name a place twice."""
    ref, idx = _resolve(ref, idx)
    before = _read(ref, idx)
    val = _like(val, before)
    if mask is not None:
        val = jnp.where(mask, val, neutral(before.dtype))
    ref[...] = indexing.update_at(ref[...], idx, val, method)
    return before


def _combine(ref: Any, idx: Any, val: Any, mask: Any, combine: Callable[[Any, Any], Any]) -> Any:
    def change(before: Any) -> Any:
        after = combine(before, _like(val, before))
        return after if mask is None else jnp.where(mask, after, before)

    return _exchange(ref, idx, change)


def _extreme(name: str) -> Callable[[Any], Any]:
    def of(dtype: Any) -> Any:
        kind = dtypes.finfo if dtypes.issubdtype(dtype, np.floating) else dtypes.iinfo
        return np.array(getattr(kind(dtype), name)).astype(dtype)[()]

    return of


_least, _greatest = _extreme("min"), _extreme("max")


@api_boundary
def atomic_add(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Adds to the part of a reference at an index, and returns what it was; if an index names an
    element twice, both values are added.

    >>> from weft.experimental import pallas as pl
    >>> x = weft.new_ref(jnp.zeros(2))
    >>> before = pl.atomic_add(x, jnp.array([1, 1]), jnp.array([2.0, 3.0]))
    >>> x[...]
    Array([0., 5.], dtype=float32)
    """
    return _combine_repeated(
        x_ref_or_view, idx, val, mask, "add", lambda dtype: np.zeros((), dtype)[()]
    )


@api_boundary
def atomic_max(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Puts the maximum into the part of a reference at an index, and returns what it was."""
    return _combine_repeated(x_ref_or_view, idx, val, mask, "max", _least)


@api_boundary
def atomic_min(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Puts the minimum into the part of a reference at an index, and returns what it was."""
    return _combine_repeated(x_ref_or_view, idx, val, mask, "min", _greatest)


@api_boundary
def atomic_and(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Puts `old & val` into the part of a reference at an index, and returns what it was."""
    return _combine(x_ref_or_view, idx, val, mask, jnp.bitwise_and)


@api_boundary
def atomic_or(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Puts `old | val` into the part of a reference at an index, and returns what it was."""
    return _combine(x_ref_or_view, idx, val, mask, jnp.bitwise_or)


@api_boundary
def atomic_xor(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Puts `old ^ val` into the part of a reference at an index, and returns what it was."""
    return _combine(x_ref_or_view, idx, val, mask, jnp.bitwise_xor)


@api_boundary
def atomic_xchg(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None) -> Any:
    """Writes the part of a reference at an index, and returns what it was."""
    return _combine(x_ref_or_view, idx, val, mask, lambda _, new: new)


@api_boundary
def atomic_cas(ref: Any, cmp: Any, val: Any) -> Any:
    """Writes a reference if it holds `cmp`, and returns what it held.

    Args:
        cmp: The value that the reference must hold to be written.
    """

    def change(before: Any) -> Any:
        return jnp.where(before == _like(cmp, before), _like(val, before), before)

    return _exchange(ref, ..., change)
