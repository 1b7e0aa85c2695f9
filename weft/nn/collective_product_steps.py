"""The steps of products that communicate while they compute, and their derivatives.

`gathering` multiplies a block while blocks travel around a ring of devices; `scattering` adds a
product to what passes. Both take several terms, which share one ring, and so are closed under
differentiation: the derivative of a gathered product by what is gathered is a scattered product,
that by another operand a gathered one, and the derivatives of a scattered product are gathered ones
in one ring. The rule keeps blocks, never gathered arrays, and reverse mode of any order
communicates step by step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.core.types import type_of
from weft.custom_derivatives.custom_vjp_rules import custom_vjp
from weft.dtypes.dtype_kinds import is_floating
from weft.kinds.checks import convert
from weft.numpy.einsum import einsum
from weft.ops.collectives.all_reduce import axis_index
from weft.ops.collectives.named_axes import Names
from weft.ops.collectives.permutation import ppermute
from weft.ops.elementwise.arithmetic import add, mul, rem
from weft.ops.indexing.creation import full
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim, dynamic_update_slice_in_dim
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.joining import concatenate

# ---- steps -------------------------------------------------------------------------------------


class Ring(NamedTuple):
    """Devices along mesh axes that pass on blocks of the dimension `letter`, or halves of them in
    both directions."""

    letter: str
    names: Names
    size: int
    bidirectional: bool
    precision: Any

    def streams(self, length: int) -> list[tuple[int, int, int]]:
        """The parts of a block that travel, as (start, length, direction)."""
        if not self.bidirectional or length < 2:
            return [(0, length, 1)]
        half = length // 2
        return [(0, half, 1), (half, length - half, -1)]

    def send(self, x: Any, shift: int) -> Any:
        """Sends an array to the device at the distance `shift`."""
        pairs = [(source, (source + shift) % self.size) for source in range(self.size)]
        return ppermute(x, self.names, pairs)

    def start(self, distance: int, length: int, offset: int) -> Any:
        """The start of the block of the device at a distance, plus `offset`."""
        place = rem(
            add(axis_index(self.names), np.int32(distance % self.size)), np.int32(self.size)
        )
        return add(mul(place, np.int32(length)), np.int32(offset))

    def cut(self, x: Any, labels: str, start: Any, length: int) -> Any:
        """Slices the dimension of an operand, if it has it."""
        if self.letter not in labels:
            return x
        return dynamic_slice_in_dim(x, start, length, labels.index(self.letter))


class ProductTerm(NamedTuple):
    """The labels of two operands and of their product, and its dtype."""

    left: str
    right: str
    out: str
    dtype: Any

    def product(self, x: Any, y: Any, precision: Any, dtype: Any) -> Any:
        spec = f"{self.left},{self.right}->{self.out}"
        return einsum(spec, x, y, precision=precision, preferred_element_type=dtype)

    def wide(self) -> Any:
        """The dtype of sums on a device: float32 at least."""
        narrow = is_floating(self.dtype) and dtypes.itemsize_bits(self.dtype) < 32
        return dtypes.float32 if narrow else self.dtype


def _gather_product(
    ring: Ring, terms: tuple[ProductTerm, ...], x: Any, *others: Any
) -> tuple[Any, ...]:
    """Multiplies gathered blocks of x, the left operand of all terms, by each right operand."""
    place = terms[0].left.index(ring.letter)
    length = type_of(x).shape[place]
    streams = ring.streams(length)
    blocks = [slice_in_dim(x, start, start + size, axis=place) for start, size, _ in streams]
    outs: list[Any] = [None] * len(terms)
    for step in range(ring.size):
        here = blocks
        if step < ring.size - 1:
            blocks = [ring.send(x, -way) for x, (_, _, way) in zip(here, streams, strict=True)]
        for block, (offset, size, way) in zip(here, streams, strict=True):
            start = ring.start(way * step, length, offset)
            for number, (term, other) in enumerate(zip(terms, others, strict=True)):
                part = ring.cut(other, term.right, start, size)
                outs[number] = _add_block(ring, term, outs[number], block, part, start, length)
    return tuple(convert(out, term.dtype) for out, term in zip(outs, terms, strict=True))


def _add_block(
    ring: Ring, term: ProductTerm, out: Any, block: Any, part: Any, start: Any, length: int
) -> Any:
    """Writes the product of a block into its part of the result, or adds it to the result."""
    if ring.letter not in term.out:
        new = term.product(block, part, ring.precision, term.wide())
        return new if out is None else add(out, new)
    new = term.product(block, part, ring.precision, term.dtype)
    dim = term.out.index(ring.letter)
    if out is None:
        shape = list(type_of(new).shape)
        shape[dim] = length * ring.size
        out = full(shape, 0, term.dtype)
    return dynamic_update_slice_in_dim(out, new, start, dim)


def _scatter_product(ring: Ring, terms: tuple[ProductTerm, ...], *operands: Any) -> Any:
    """The sum of products over terms and devices; each device keeps its block."""
    first = terms[0]
    pairs = list(zip(terms, operands[::2], operands[1::2], strict=True))
    dim = first.out.index(ring.letter)
    length = lengths_of(pairs)[ring.letter] // ring.size
    streams = ring.streams(length)
    sums: list[Any] = [None] * len(streams)
    for step in range(ring.size):
        for number, (offset, size, way) in enumerate(streams):
            # A sum travels to its device, and each device that it passes adds its products.
            parts = []
            if step:
                parts.append(convert(ring.send(sums[number], way), first.wide()))
            start = ring.start(way * (ring.size - 1 - step), length, offset)
            for term, x, y in pairs:
                x, y = ring.cut(x, term.left, start, size), ring.cut(y, term.right, start, size)
                parts.append(term.product(x, y, ring.precision, first.wide()))
            sums[number] = convert(functools.reduce(add, parts), first.dtype)
    return concatenate(sums, dim)


def lengths_of(pairs: Iterable[tuple[ProductTerm, Any, Any]]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for term, x, y in pairs:
        lengths.update(zip(term.left, type_of(x).shape, strict=True))
        lengths.update(zip(term.right, type_of(y).shape, strict=True))
    return lengths


# ---- derivatives -------------------------------------------------------------------------------

gathering = custom_vjp(_gather_product, nondiff_argnums=(0, 1))
scattering = custom_vjp(_scatter_product, nondiff_argnums=(0, 1))


def _gathered_forward(ring: Ring, terms: tuple[ProductTerm, ...], *operands: Any) -> Any:
    return gathering(ring, terms, *operands), operands


def _gathered_backward(
    ring: Ring,
    terms: tuple[ProductTerm, ...],
    operands: tuple[Any, ...],
    cotangents: tuple[Any, ...],
) -> tuple[Any, ...]:
    x, *others = operands
    dtype = type_of(x).dtype
    scattered = tuple(ProductTerm(t.out, t.right, t.left, dtype) for t in terms)
    pairs = [value for pair in zip(cotangents, others, strict=True) for value in pair]
    gathered = tuple(
        ProductTerm(t.left, t.out, t.right, type_of(other).dtype)
        for t, other in zip(terms, others, strict=True)
    )
    return scattering(ring, scattered, *pairs), *gathering(ring, gathered, x, *cotangents)


def _scattered_forward(ring: Ring, terms: tuple[ProductTerm, ...], *operands: Any) -> Any:
    return scattering(ring, terms, *operands), operands


def _scattered_backward(
    ring: Ring, terms: tuple[ProductTerm, ...], operands: tuple[Any, ...], cotangent: Any
) -> tuple[Any, ...]:
    transposes, others = [], []
    for term, x, y in zip(terms, operands[::2], operands[1::2], strict=True):
        transposes.append(ProductTerm(term.out, term.right, term.left, type_of(x).dtype))
        transposes.append(ProductTerm(term.out, term.left, term.right, type_of(y).dtype))
        others += [y, x]
    return gathering(ring, tuple(transposes), cotangent, *others)


gathering.defvjp(_gathered_forward, _gathered_backward)
scattering.defvjp(_scattered_forward, _scattered_backward)
