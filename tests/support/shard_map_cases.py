"""The collectives of the shard_map matrix, as data: each with its meaning on NumPy blocks.

A reference is written with `np.split`, `np.stack` and sums over a Python list of the blocks that
take part, in float64. All collectives are linear where the extrema are attained once, so a matrix
holds all that is needed for derivatives of any order (`shard_map_uses`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import weft
from weft import lax
from weft.sharding import PartitionSpec as P

SIZES = {"i": 4, "j": 2}
AXES = tuple(SIZES)
# One block shape for all: 8, 4 and 2 are the lengths of both axes together, of i, and of j.
BLOCK = (8, 4, 2)

Array = Any
Place = tuple[int, ...]
Blocks = dict[Place, Array]
# From the points of the devices that take part (which decide what is largest) and their values,
# which may have one more dimension at their end, to their results.
Meaning = Callable[[list[Array], list[Array]], list[Array]]


def mesh() -> Any:
    return weft.make_mesh(tuple(SIZES.values()), AXES)


def places() -> list[Place]:
    return list(np.ndindex(*SIZES.values()))


def members(axes: Sequence[str], groups: Any = None) -> list[list[Place]]:
    """The devices that take part together, each list in the order of the named axes."""
    found = []
    rest = [axis for axis in AXES if axis not in axes]
    for fixed in itertools.product(*(range(SIZES[axis]) for axis in rest)):
        row = []
        for moving in itertools.product(*(range(SIZES[axis]) for axis in axes)):
            where = dict(zip(rest, fixed, strict=True)) | dict(zip(axes, moving, strict=True))
            row.append(tuple(where[axis] for axis in AXES))
        found += [row] if groups is None else [[row[k] for k in group] for group in groups]
    return found


def spec_of(axes: Sequence[str]) -> P:
    """Dimension 0 split over i, dimension 1 over j, as far as they are among the axes."""
    return P(*(axis if axis in axes else None for axis in AXES))


def split(whole: Array, axes: Sequence[str]) -> Blocks:
    """The block of each device, of an array that is split by `spec_of(axes)`."""
    found = {}
    for place in places():
        block = whole
        for dimension, axis in enumerate(AXES):
            if axis in axes:
                block = np.split(block, SIZES[axis], dimension)[place[dimension]]
        found[place] = block
    return found


def join(blocks: Blocks, axes: Sequence[str]) -> Array:
    """The whole that blocks make up by `spec_of(axes)`; blocks are equal along the others."""
    for place in places():
        twin = tuple(k if axis in axes else 0 for k, axis in zip(place, AXES, strict=True))
        np.testing.assert_array_equal(blocks[place], blocks[twin], "the reference varies")
    rows = [
        np.concatenate([blocks[i, j] for j in range(SIZES["j"] if "j" in axes else 1)], 1)
        for i in range(SIZES["i"] if "i" in axes else 1)
    ]
    return np.concatenate(rows, 0)


@dataclass(frozen=True)
class Case:
    """A collective: what a user writes, what it means, and along which axes blocks vary."""

    name: str
    apply: Callable[[Array], Array]
    meaning: Meaning
    over: tuple[str, ...]
    reads: tuple[str, ...] = AXES
    leaves: tuple[str, ...] = AXES
    groups: Any = None
    linear: bool = True
    # Whether all uses are tried: once per collective, over one axis and over two. The variants,
    # which share its rules, are put to those of `shard_map_uses.ESSENTIAL`.
    every_use: bool = True

    def reference(self, point: Array, whole: Array) -> Array:
        """The result for a whole array, where the extrema are attained as at `point`."""
        points, values = split(point, self.reads), split(whole, self.reads)
        out: Blocks = {}
        for row in members(self.over, self.groups):
            found = self.meaning([points[p] for p in row], [values[p] for p in row])
            out.update(zip(row, found, strict=True))
        return join(out, self.leaves)

    def shape(self) -> tuple[int, ...]:
        sizes = [SIZES[axis] if axis in self.reads else 1 for axis in AXES]
        return tuple(n * k for n, k in zip(BLOCK, (*sizes, 1), strict=True))


# ---- what they mean ----------------------------------------------------------------------------


def total(points: list[Array], values: list[Array]) -> list[Array]:
    out = values[0]
    for value in values[1:]:
        out = out + value
    return [out] * len(values)


def mean(points: list[Array], values: list[Array]) -> list[Array]:
    return [x / len(values) for x in total(points, values)]


def extremum(choose: Callable[..., Array]) -> Meaning:
    def meaning(points: list[Array], values: list[Array]) -> list[Array]:
        winner = choose(np.stack(points), 0)
        winner = winner.reshape(winner.shape + (1,) * (values[0].ndim - winner.ndim))
        out = sum(np.where(winner == k, value, 0) for k, value in enumerate(values))
        return [out] * len(values)

    return meaning


def permuted(pairs: Sequence[tuple[int, int]]) -> Meaning:
    def meaning(points: list[Array], values: list[Array]) -> list[Array]:
        out = [np.zeros_like(value) for value in values]
        for source, target in pairs:
            out[target] = values[source]
        return out

    return meaning


def gathered(axis: int, tiled: bool) -> Meaning:
    put_together = np.concatenate if tiled else np.stack

    def meaning(points: list[Array], values: list[Array]) -> list[Array]:
        return [put_together(values, axis)] * len(values)

    return meaning


def part(x: Array, k: int, count: int, axis: int, tiled: bool) -> Array:
    return np.split(x, count, axis)[k] if tiled else np.take(x, k, axis)


def scattered(axis: int, tiled: bool, add: bool = True) -> Meaning:
    def meaning(points: list[Array], values: list[Array]) -> list[Array]:
        whole = total(points, values)[0] if add else values[0]
        n = len(values)
        return [part(whole, k, n, axis, tiled) for k in range(n)]

    return meaning


def exchanged(split_axis: int, concat_axis: int, tiled: bool) -> Meaning:
    put_together = np.concatenate if tiled else np.stack

    def meaning(points: list[Array], values: list[Array]) -> list[Array]:
        n = len(values)
        return [
            put_together([part(x, k, n, split_axis, tiled) for x in values], concat_axis)
            for k in range(n)
        ]

    return meaning


def unchanged(points: list[Array], values: list[Array]) -> list[Array]:
    return values


def numbered(points: list[Array], values: list[Array]) -> list[Array]:
    return [value * (k + 1) for k, value in enumerate(values)]


# ---- the cases ---------------------------------------------------------------------------------

# Over which axes, and the dimension of a block that is as long as those together.
OVER: dict[str, tuple[Any, int]] = {"i": ("i", 1), "ij": (("i", "j"), 0), "ji": (("j", "i"), 0)}
PAIRS = ((0, 2), (1, 3))
UNEVEN = ((3, 0), (1, 2))


def _without(axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in AXES if axis not in axes)


# A name, what is written, what it means: cases of a family, beside where they vary.
Row = tuple[str, Callable[[Array], Array], Meaning]


def _made(rows: Sequence[Row], label: str, over: Sequence[str], **options: Any) -> list[Case]:
    return [
        Case(f"{name} {label}", apply, meaning, tuple(over), linear=_linear(name), **options)
        for name, apply, meaning in rows
    ]


def _linear(name: str) -> bool:
    return name not in ("pmax", "pmin")


def _without(axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in AXES if axis not in axes)


def _reductions(over: str) -> list[Case]:
    name, _ = OVER[over]
    rows: list[Row] = [
        ("psum", lambda x: lax.psum(x, name), total),
        ("pmean", lambda x: lax.pmean(x, name), mean),
        ("pmax", lambda x: lax.pmax(x, name), extremum(np.argmax)),
        ("pmin", lambda x: lax.pmin(x, name), extremum(np.argmin)),
    ]
    return _made(rows, over, over, leaves=_without(over))


def _permutations(over: str) -> list[Case]:
    name, _ = OVER[over]
    n = int(np.prod([SIZES[axis] for axis in over]))
    ring = [(k, (k + 1) % n) for k in range(n)]
    some = [(0, n - 1), (n - 1, 1), (1, 2)]
    shuffled = [(3 * k + 1) % n for k in range(n)]
    received = [(source, target) for target, source in enumerate(shuffled)]
    rows: list[Row] = [
        ("ppermute ring", lambda x: lax.ppermute(x, name, ring), permuted(ring)),
        ("ppermute some", lambda x: lax.ppermute(x, name, some), permuted(some)),
        ("pshuffle", lambda x: lax.pshuffle(x, name, shuffled), permuted(received)),
        ("axis_index", lambda x: x * (1.0 + lax.axis_index(name)), numbered),
    ]
    return _made(rows, over, over)


def _movements(over: str) -> list[Case]:
    name, exact = OVER[over]
    gather, scatter, exchange = lax.all_gather, lax.psum_scatter, lax.all_to_all
    rows: list[Row] = [
        ("all_gather", lambda x: gather(x, name), gathered(0, False)),
        ("all_gather new 1", lambda x: gather(x, name, axis=1), gathered(1, False)),
        ("all_gather tiled 0", lambda x: gather(x, name, tiled=True), gathered(0, True)),
        ("all_gather tiled 1", lambda x: gather(x, name, axis=1, tiled=True), gathered(1, True)),
        (
            "psum_scatter",
            lambda x: scatter(x, name, scatter_dimension=exact),
            scattered(exact, False),
        ),
        ("psum_scatter tiled", lambda x: scatter(x, name, tiled=True), scattered(0, True)),
        ("all_to_all", lambda x: exchange(x, name, exact, 1), exchanged(exact, 1, False)),
        ("all_to_all tiled", lambda x: exchange(x, name, 0, 1, tiled=True), exchanged(0, 1, True)),
        ("pswapaxes", lambda x: lax.pswapaxes(x, name, exact), exchanged(exact, exact, False)),
    ]
    return _made(rows, over, over)


def _invariants(over: str) -> list[Case]:
    """Those that take values which are equal along the axes, or give them."""
    name, exact = OVER[over]
    gather = lax.all_gather_invariant
    gathers: list[Row] = [
        ("all_gather_invariant", lambda x: gather(x, name), gathered(0, False)),
        (
            "all_gather_invariant tiled 1",
            lambda x: gather(x, name, axis=1, tiled=True),
            gathered(1, True),
        ),
    ]
    parts: list[Row] = [
        (
            "pscatter",
            lambda x: lax.pscatter(x, name, axis=exact),
            scattered(exact, False, add=False),
        ),
        (
            "pscatter tiled",
            lambda x: lax.pscatter(x, name, tiled=True),
            scattered(0, True, add=False),
        ),
        ("pbroadcast", lambda x: lax.pbroadcast(x, name), unchanged),
        ("pvary", lambda x: lax.pvary(x, name), unchanged),
        ("pcast", lambda x: lax.pcast(x, name, to="varying"), unchanged),
    ]
    # N equal copies, summed on purpose.
    copies: list[Row] = [
        ("psum of pbroadcast", lambda x: lax.psum(lax.pbroadcast(x, name), name), total)
    ]
    left = _without(over)
    return [
        *_made(gathers, over, over, leaves=left),
        *_made(parts, over, over, reads=left),
        *_made(copies, over, over, reads=left, leaves=left),
    ]


def _grouped(label: str, groups: Any) -> list[Case]:
    """Groups of two along i, whose results differ from group to group."""
    options: dict[str, Any] = {"axis_index_groups": groups}
    rows: list[Row] = [
        ("psum", lambda x: lax.psum(x, "i", **options), total),
        ("pmean", lambda x: lax.pmean(x, "i", **options), mean),
        ("pmax", lambda x: lax.pmax(x, "i", **options), extremum(np.argmax)),
        ("pmin", lambda x: lax.pmin(x, "i", **options), extremum(np.argmin)),
        ("all_gather", lambda x: lax.all_gather(x, "i", **options), gathered(0, False)),
        (
            "psum_scatter",
            lambda x: lax.psum_scatter(x, "i", scatter_dimension=2, **options),
            scattered(2, False),
        ),
        (
            "all_to_all tiled",
            lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True, **options),
            exchanged(1, 0, True),
        ),
        ("pswapaxes", lambda x: lax.pswapaxes(x, "i", 2, **options), exchanged(2, 2, False)),
    ]
    return _made(rows, f"groups {label}", "i", groups=groups)


# Variants of a collective that has every use under another name.
VARIANTS = (
    "ppermute some", "new 1", "tiled", "pvary", "pcast", "psum of pbroadcast", " ji", "uneven",
    "pmean ij", "pmin ij", "pshuffle ij", "pswapaxes ij", "axis_index ij", "pbroadcast ij",
    "pmax groups", "pmin groups", "pmean groups", "psum_scatter groups", "pswapaxes groups",
)  # fmt: skip

# What would show over further axes nothing that it does not show over one, or over two in order.
REPEATED = (
    "pvary ij", "pvary ji", "pcast ij", "pcast ji", "pbroadcast ji", "psum of pbroadcast ji",
)  # fmt: skip


def _cases() -> list[Case]:
    found = [*_grouped("even", PAIRS), *_grouped("uneven", UNEVEN), *_reductions("ji")[:1]]
    for over in OVER:
        found += _permutations(over) + _movements(over) + _invariants(over)
    found += _reductions("i") + _reductions("ij")
    found = [case for case in found if case.name not in REPEATED]
    return [
        replace(case, every_use=not any(word in case.name for word in VARIANTS)) for case in found
    ]


CASES = _cases()
